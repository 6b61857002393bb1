//! What the engine asks of the operating system.

pub(crate) mod memory;

//! What the engine asks of the operating system and of the processor.

pub mod file;
pub(crate) mod memory;
pub(crate) mod prefetch;

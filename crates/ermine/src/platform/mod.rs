//! What the engine asks of the operating system and of the processor.

pub(crate) mod memory;
pub(crate) mod prefetch;

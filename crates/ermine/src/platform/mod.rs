//! What the engine asks of the operating system and of the processor.

// The models under loom have no files.
#[cfg(not(loom))]
pub mod file;
pub(crate) mod memory;
pub(crate) mod prefetch;

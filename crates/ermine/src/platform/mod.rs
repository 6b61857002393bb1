//! The engine's interface to the operating system and the processor.

pub(crate) mod budget;
pub(crate) mod cpu;
pub mod file;
pub(crate) mod memory;
pub(crate) mod prefetch;
#[cfg_attr(not(any(test, loom)), expect(dead_code, reason = "the schemes that latch are the next commits"))]
pub(crate) mod rtm;

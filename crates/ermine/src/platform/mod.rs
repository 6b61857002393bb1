//! The engine's interface to the operating system and the processor.

pub(crate) mod blocks;
pub(crate) mod budget;
pub(crate) mod cpu;
pub mod file;
pub(crate) mod memory;
pub(crate) mod prefetch;
#[cfg_attr(not(any(test, loom)), expect(dead_code, reason = "some of it is for tests and models only"))]
pub(crate) mod rtm;

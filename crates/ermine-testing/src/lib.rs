//! Test equipment for the engine, which no product contains.
//!
//! Tests of the public interface use this crate. The engine's own unit tests include [`faulty`] as a module, because
//! they are another crate than the `ermine` that this one is built on: its traits would not be theirs.
#![forbid(unsafe_code)]

#[path = "../../ermine/src/platform/file/failure.rs"]
mod failure;
pub mod faulty;

use ermine::files::{Directory, File, Open};

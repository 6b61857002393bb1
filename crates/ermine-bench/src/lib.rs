//! Workloads over the engine's public interface: each one loads a database, drives it with many threads, verifies what
//! is left, and reports.
//!
//! | module | what it does |
//! |---|---|
//! | [`tpcc`] | the full TPC-C-like mix, with its consistency conditions |
//! | [`micro`] | single operations over one table, to compare with other engines |
//! | [`churn`] | updates on a fixed number of rows for a long time: is memory flat? |
//! | [`crew`] | the threads under all of them: warm-up, measured time, live counts |
//! | [`calibrate`], [`machine`] | what the machine can do and what it is, printed beside every result |
//! | [`report`] | numbers as text and JSON |
//!
//! Start reading at [`tpcc`].
#![forbid(unsafe_code)]

pub mod calibrate;
pub mod churn;
pub mod crew;
mod error;
pub mod latency;
pub mod machine;
pub mod micro;
pub mod random;
pub mod report;
pub mod tpcc;
pub mod zipf;

pub use error::{Error, Result};

//! The judge of histories: were these transactions serializable, and if not, what went wrong?
//!
//! It does not depend on any scheme. From the reads and writes of each transaction it draws the direct serialization
//! graph (Adya 1999, chapter 4), searches for cycles, and names them.
//!
//! | module | contents |
//! |---|---|
//! | [`recorder`] | records what an engine reports of its transactions |
//! | [`history`] | transactions and their operations, packed |
//! | [`mod@file`] | histories as files |
//! | `white` | from a history in which versions are known to a graph |
//! | [`elle`] | histories in which only values are known, in the form of Jepsen's Elle |
//! | `graph`, `cycles` | components and smallest cycles; their names |
//! | [`anomaly`], [`report`] | the kinds of anomalies, and those that were found |
//!
//! ```
//! use ermine_check::{Builder, Digest, Level, Operation, Outcome, ReadVersion, Stamp, Table};
//!
//! let (table, value) = (Table(0), Some(Digest(7)));
//! let read = |key| Operation::Read { table, key, version: ReadVersion::At(Stamp(1)), value };
//! let write = |key| Operation::Write { table, key, value };
//! let mut history = Builder::new();
//! history.push(Stamp(5), Outcome::Committed(Stamp(6)), [read(b"a"), write(b"b")]);
//! history.push(Stamp(5), Outcome::Committed(Stamp(7)), [read(b"b"), write(b"a")]);
//! let report = ermine_check::judge(&history.finish(1), &mut |_| ());
//! assert!(report.holds(Level::SnapshotIsolation));
//! assert!(!report.holds(Level::Serializable)); // write skew
//! ```
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout)]

pub mod anomaly;
mod cycles;
pub mod elle;
pub mod file;
mod graph;
pub mod history;
pub mod progress;
pub mod recorder;
pub mod report;
mod white;

pub use anomaly::{AnomalyKind, Level};
pub use file::FileError;
pub use history::{
    Builder, Digest, History, Index, Moment, Operation, Order, Outcome, Process, ReadVersion, Stamp, Table,
    Transaction, TransactionContext,
};
pub use progress::Progress;
pub use recorder::Recorder;
pub use report::{Anomaly, Report, Verdict};
pub use white::judge;

//! Ermine: a memory-optimized, serializable OLTP engine.
//!
//! Open a [`Database`], get typed [`Table`]s from it, and run transactions with [`Database::run`], which retries lost
//! conflicts, or [`Database::begin`] and [`Transaction::commit`].
//!
//! ```
//! use ermine::{Database, Error, Options};
//!
//! let db = Database::open_in_memory(Options::default())?; // serializable
//! let visits = db.table::<String, u64>("visits")?;
//! db.run(|txn| {
//!     let seen = txn.get(&visits, "front page")?.unwrap_or(0);
//!     txn.put(&visits, "front page", &(seen + 1))
//! })?;
//! assert_eq!(db.run(|txn| txn.get(&visits, "front page"))?, Some(1));
//! # Ok::<(), Error>(())
//! ```
//!
//! `docs/book` in the repository has a tutorial, how-tos, what is promised, and what each error asks for; the crate's
//! `examples` are programs to begin with. To read the engine itself, start at `txn/mod.rs`, then ARCHITECTURE.md.

// Under loom the library consists only of its pieces, and only the models use them; under shuttle it has no background
// threads.
#![cfg_attr(any(loom, shuttle), allow(dead_code, unused_imports))]

#[cfg(windows)]
compile_error!(
    "Ermine does not support Windows yet: it is tested on Linux, and compiles for macOS. On Windows, use WSL 2."
);

mod clock;
mod counters;
mod epoch;
mod error;
mod ids;
mod index;
mod inside;
mod latency;
mod log;
#[cfg(ermine_mutants)]
pub mod mutant;
#[cfg(not(ermine_mutants))]
mod mutant;
mod platform;
#[cfg(not(loom))]
mod reclaim;
mod rows;
#[cfg(not(loom))]
mod scan;
#[cfg(not(loom))]
mod schema;
mod scheme;
mod sync;
#[cfg(ermine_counts)]
#[doc(hidden)]
pub use sync::counted;
mod table_name;
mod txn;
mod units;

// Everything below runs on the pieces above; the models under loom use the pieces directly.
#[cfg(not(loom))]
mod access;
#[cfg(not(loom))]
mod any;
#[cfg(not(loom))]
mod batch;
#[cfg(not(loom))]
mod begin;
#[cfg(not(loom))]
#[doc(hidden)]
pub mod bench_index;
#[cfg(not(loom))]
mod catalog;
#[cfg(not(loom))]
mod database;
#[cfg(not(loom))]
mod declared;
#[cfg(not(loom))]
mod durable;
#[cfg(not(loom))]
mod engine;
#[cfg(not(loom))]
mod gate;
#[cfg(not(loom))]
mod handle;
#[cfg(not(loom))]
mod hot_standby;
#[cfg(not(loom))]
mod index_build;
#[cfg(not(loom))]
pub mod inspect;
#[cfg(not(loom))]
mod job;
#[cfg(not(loom))]
mod maintenance;
#[cfg(not(loom))]
pub mod observer;
#[cfg(not(loom))]
mod options;
#[cfg(not(loom))]
mod owned;
#[cfg(not(loom))]
mod partition;
#[cfg(not(loom))]
mod pool;
#[cfg(not(loom))]
mod retries;
#[cfg(not(loom))]
mod run;
#[cfg(not(loom))]
mod savepoints;
#[cfg(not(loom))]
mod sequence;
#[cfg(not(loom))]
mod single;
#[cfg(not(loom))]
mod statistics;
#[cfg(not(loom))]
mod table;
#[cfg(not(loom))]
mod tables;
#[cfg(not(loom))]
mod trace;
#[cfg(not(loom))]
mod transaction;
#[cfg(not(loom))]
mod types;
#[cfg(not(loom))]
mod work;
#[cfg(not(loom))]
mod worker;

pub use counters::Aborts;
pub use error::{Abort, AbortKind, Dependency, Edge, Error, Result};
pub use ids::{Stamp, TableId, Tid};
pub use index::IndexKind;
pub use latency::{Latencies, LatencyRecorder};
pub use table_name::TableName;

/// The crate whose derives make a struct a [`fixed_value!`]; use it as `#[zerocopy(crate = "ermine::zerocopy")]`.
#[cfg(not(loom))]
pub use zerocopy;
#[cfg(not(loom))]
pub use {
    access::{Access, Direction, RowLock},
    any::AnyAccess,
    batch::FirstReads,
    database::{Database, IndexDescription, TableDescription},
    declared::AccessSet,
    durable::{
        backup::BackupReport,
        checkpoint::CheckpointReport,
        contents::{CheckpointContents, ColdContents, KeyContents, SectionContents, checkpoint_contents},
        copy::Progress,
        recovery::Recovery,
        restore::{RestoreReport, Until, restore, restore_in},
        shipping::{
            LogPiece,
            changes::{Change, ChangeReader, CommittedTransaction, RowChange, RowWrite},
            reader::{CommitHold, LogReader},
            receiver::LogReceiver,
        },
        verify::{Finding, Verification, verify, verify_in},
    },
    handle::{SecondaryIndex, Table},
    hot_standby::{Apply, HotStandby},
    job::Job,
    log::Receipt,
    options::{
        CheckpointSyncs, Durability, IndexOptions, Isolation, Options, Order, Scheme, Session, TableOptions,
        TxnOptions, Uniqueness,
    },
    owned::{OwnedReceipt, OwnedTransaction},
    retries::{Retries, Turn},
    savepoints::Savepoint,
    scan::{Rows, Scan},
    sequence::Sequence,
    statistics::{Metric, MetricValue, Statistics},
    transaction::Transaction,
    types::{AsKey, AsValue, EncodedRange, Key, KeyBuffer, KeyRange, PAYLOAD_ALIGN, Prefix, PrefixOf, Value, prefix},
    work::Work,
};

pub use platform::budget::Budget;
#[doc(hidden)]
pub use platform::file as files;
#[cfg(not(loom))]
#[doc(hidden)]
pub use types::__private;

/// The longest key, in bytes of its encoding.
pub const MAX_KEY_BYTES: usize = 4096;
/// Maximum number of transactions that can be open in a database at the same time, under every scheme. One more fails
/// to begin, with [`Error::Limit`].
pub const OPEN_TRANSACTIONS_MAX: usize = 1024;
/// The longest value, in bytes of its encoding.
pub const MAX_VALUE_BYTES: usize = 16 << 20;

// The history recorder names what it needs as `ermine::..`: integration tests use it, too.
#[cfg(all(test, shuttle))]
extern crate self as ermine;
#[cfg(all(test, shuttle))]
mod schedules;

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct ReadmeExamples;

//! The path of every row: begin, read, write, scan, and the end. Start reading here.
//!
//! A [`Txn`] holds a worker from `begin` until it ends. Each operation enters the worker's epochs (`Operation`), finds
//! the row's chain through the index, reads or writes it by the scheme's visibility rule, and informs the certifier. A
//! lost conflict undoes everything at once, so that no transaction waits for a loser; later operations of the
//! transaction only return the same error.
//!
//! - `visible`: the version of a chain that a transaction sees
//! - `read`, `scan`: point reads and ranges, with the leaves that they add to the leaf set
//! - `write`: insert, update, upsert, delete; `secondary`: the entries that follow them; `absence`: the absent version
//!   that inserts overwrite
//! - `commit_order`: the steps of the end, written once for all schemes; `commit`: the engine's work around them
//! - `savepoints`: rolling a transaction back to a savepoint, and moving it on to another snapshot
//! - `journal`: the log records of a commit
//! - `leaf_set`: the leaves that were read, and what the transaction's own inserts did to them; `leaves`: their
//!   validation
//! - `trace`: the notes for an observer
//! - `safe`: snapshots that need no certification
//! - `table`, `readers`: the TID table and the reader slots; `claims`: their lock-free allocation
//! - `prepared`: prepared transactions, and their reads
//! - `write_set`: the read and write sets of a transaction
//!
//! Invariants
//! 1. A transaction sees its own writes because the head of a row that it wrote carries its TID.
//! 2. Payloads that were returned stay readable until the transaction ends: its snapshot keeps the versions that it can
//!    see from being collected, and the set of those that it knows (`rows::known`) keeps them from being evicted;
//!    versions of its own that it replaced or undid are freed at its end.
//! 3. A point read that finds nothing adds its leaf to the leaf set, even when it met a tombstone or an absent version:
//!    the key may be removed from the index and inserted anew at any time.

pub(crate) mod absence;
mod claims;
pub(crate) mod commit_order;
#[cfg(all(test, loom))]
mod loom_models;
pub(crate) mod prepared;
pub(crate) mod readers;
pub(crate) mod safe;
pub(crate) mod table;
pub(crate) mod visible;

#[cfg(not(loom))]
mod commit;
#[cfg(not(loom))]
mod index_build;
#[cfg(not(loom))]
mod journal;
#[cfg(not(loom))]
pub(crate) mod leaf_set;
#[cfg(not(loom))]
mod leaves;
#[cfg(not(loom))]
mod prepare;
#[cfg(not(loom))]
mod read;
#[cfg(not(loom))]
mod scan;
#[cfg(not(loom))]
mod secondary;
#[cfg(not(loom))]
mod trace;
#[cfg(not(loom))]
mod write;
#[cfg(not(loom))]
pub(crate) mod write_set;

#[cfg(not(loom))]
pub(crate) use {read::check_key, running::Txn, scan::batch_place};

#[cfg(not(loom))]
mod running;
#[cfg(not(loom))]
mod savepoints;

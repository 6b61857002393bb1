//! The path of every row under a single-version scheme: begin, read, write, scan, and the end.
//!
//! A row is one record ([`crate::rows::in_place`]) behind its table's indirection array, and the index is the same as
//! for rows with versions. A [`Txn`] copies the values it reads, so that the values it returns do not change, and
//! buffers its writes until it commits. The scheme decides which records it may read, and whether it may commit
//! ([`crate::scheme::in_place`]).
//!
//! - `running`: a transaction and one operation of it; `worker`: the state that a transaction needs to itself
//! - `read`, `scan`: point reads and ranges
//! - `write`: insert, update, upsert, delete; `pending`: buffered writes; `secondary`: index entries
//! - `commit`: the end
//! - `savepoints`: partial rollback
//! - `removal`: keys whose row is deleted are removed from the index
//! - `snapshots`: old states of rows, kept for transactions that read a snapshot
//! - `trace`: the events reported to an observer
//! - `epoch`: the epochs in which commits are counted; `journal`: the records of a commit in the log
//!
//! Invariants
//! 1. A transaction is in the epoch of nodes from its beginning to its end: records, leaves and RowIds that it has met
//!    are not reused, and those that were removed say so.
//! 2. The row in a record changes only while the record's word is locked, by a transaction that will commit. Index
//!    entries of a row are inserted and removed under that lock, too; only those that a running transaction adds for
//!    itself are inserted earlier.
//! 3. Words are locked in the order of addresses, all before the epoch is read, which precedes the check of reads
//!    (`commit`).
//! 4. A point read that finds no row adds its leaf to the leaf set, even if it met a record without a row: the record
//!    may be removed, and the key come back with another.

mod commit;
mod engine;
pub(crate) mod epoch;
mod index_build;
mod journal;
mod pending;
mod read;
mod removal;
mod running;
mod savepoints;
mod scan;
mod secondary;
mod snapshots;
mod trace;
mod worker;
mod write;

pub(crate) use engine::Engine;
pub(crate) use running::Txn;

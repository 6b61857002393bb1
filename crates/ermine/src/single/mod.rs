//! The path of every row under a single-version scheme: begin, read, write, scan, and the end.
//!
//! A row is one record ([`crate::rows::in_place`]) behind its table's indirection array, and the index is the same that rows with
//! versions have. A [`Txn`] copies what it reads, so that what it hands out stays as it was, and keeps what it writes until it
//! commits. Which records it may look at, and whether it may commit, its scheme decides ([`crate::scheme::in_place`]).
//!
//! - `running`: a transaction and one operation of it; `worker`: what it needs to itself
//! - `read`, `scan`: point reads and ranges
//! - `write`: insert, update, upsert, delete; `pending`: what has been written and not put in; `secondary`: index entries
//! - `commit`: the end
//! - `savepoints`: going back in a transaction
//! - `removal`: keys whose row is gone leave the index
//! - `snapshots`: what is kept of rows for transactions that read them as they were
//! - `notes`: what an observer is told
//! - `epoch`: the epochs that commits are counted in; `journal`: what a commit leaves in the log
//!
//! Invariants
//! 1. A transaction is in the epoch of nodes from its beginning to its end: records, leaves and RowIds that it has met stay what
//!    they were, or say that they are not.
//! 2. What a record says changes only while its word is locked, by a transaction that will commit. Index entries of a row come and
//!    go under that lock, too; only those that a running transaction adds for itself come earlier.
//! 3. Words are locked in the order of addresses, all before the epoch is read, which comes before reads are checked (`commit`).
//! 4. A point read that finds nothing leaves its leaf in the leaf set, also when it met a record without a row: the record may be
//!    taken out, and the key come back with another.

mod commit;
mod engine;
pub(crate) mod epoch;
mod journal;
mod notes;
mod pending;
mod read;
mod removal;
mod running;
mod savepoints;
mod scan;
mod secondary;
mod snapshots;
mod worker;
mod write;

pub(crate) use engine::Engine;
pub(crate) use running::Txn;

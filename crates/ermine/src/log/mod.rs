//! The central log (ERMIA 3.2): one order of all commits, written by one thread, with many threads waiting for it.
//!
//! ```text
//!   worker                                      flusher (one thread)              files
//!   draft -> claim a piece -> fill the ring --> everything filled, in order ----> log-SEQUENCE-START-END
//!            = commit stamp                      sync; "durable up to .."
//! ```
//!
//! | file | what |
//! |---|---|
//! | `lsn` | places in the log; addresses of rows |
//! | `block`, `record` | the format |
//! | `draft` | a transaction's blocks, before they have a place |
//! | `chains` | where the blocks of large transactions are |
//! | `space` | pieces, segments, what has been filled |
//! | `ring` | the log buffer |
//! | `flusher`, `waiters` | group commit |
//! | `moment` | times in the log, and safe snapshots |
//! | `segment`, `scan` | the files, and reading them |
//! | `heads` | what recovery needs of a segment, in a file beside it |
//! | `room` | space kept in reserve on a device that may become full |
//! | `identity` | the database that a file belongs to, and how far the log extends |
//!
//! The single-version schemes have a log of their own, the parallel log (`parallel`); the two share varints, waiters
//! and receipts.
//!
//! The log deals with bytes, row numbers and stamps; it has no notion of versions, indexes or schemes.
//!
//! Invariants (each part documents its own)
//! 1. The durable log is a prefix: if a block is durable, everything below it is. Everything that a transaction read
//!    was written by blocks below its own; so an acknowledged transaction never depends on a lost one.
//! 2. A claimed piece is always filled: by the transaction, or by a skip when it loses at the last moment. Otherwise
//!    the log would wait for it forever.
//! 3. A worker that waits for space in the ring has a piece whose predecessors are all claimed by workers that do not
//!    wait for it: the flusher reaches its piece in the end.

pub(crate) mod block;
pub(crate) mod chains;
pub(crate) mod draft;
#[cfg(not(loom))]
pub(crate) mod identity;
pub(crate) mod lsn;
pub(crate) mod parallel;
#[cfg(not(loom))]
pub(crate) mod readers;
pub(crate) mod record;
pub(crate) mod ring;
#[cfg(not(loom))]
pub(crate) mod room;
pub(crate) mod space;
pub(crate) mod waiters;

#[cfg(all(test, loom))]
mod loom_models;

#[cfg(not(loom))]
mod flusher;
#[cfg(not(loom))]
pub(crate) mod heads;
#[cfg(not(loom))]
pub(crate) mod moment;
#[cfg(not(loom))]
mod receipt;
#[cfg(not(loom))]
pub(crate) mod scan;
#[cfg(not(loom))]
pub(crate) mod segment;

#[cfg(not(loom))]
mod central;
#[cfg(not(loom))]
pub(crate) use central::{Log, Position, Start};
#[cfg(not(loom))]
pub(crate) use receipt::Pending;
#[cfg(not(loom))]
pub use receipt::Receipt;

//! The parallel log (SiloR 3): the log of the single-version schemes, ordered only by epochs.
//!
//! ```text
//!   worker  draft -> room -> lock, read the epoch, choose the TID -> append to its own buffer
//!                                                                         |  collected every round
//!   logger of the device                                    redo-GENERATION-SEQUENCE, sync
//!   leading logger                                          pepoch-GENERATION, sync -> "durable up to epoch .."
//! ```
//!
//! | file | what |
//! |---|---|
//! | `epoch` | the current epoch |
//! | `worker_slots` | the workers that are committing, and their buffers |
//! | `record` | the format of a transaction |
//! | `file` | the files of the log, and reading them |
//! | `pepoch` | the persistent epoch |
//! | `logger` | the threads |
//!
//! The log deals with bytes, TIDs as numbers and epochs; it has no notion of records, indexes or schemes.
//!
//! Invariants (each part documents its own)
//! 1. The durable log is whole up to the persistent epoch: every record of an epoch up to it is in a file and synced.
//!    The epochs of transactions that depend on each other are in the order of the dependency (`single::commit`); so an
//!    acknowledged transaction depends on nothing that can be lost.
//! 2. A record above the persistent epoch of its generation never counts.

pub(crate) mod epoch;
pub(crate) mod worker_slots;

#[cfg(all(test, loom))]
mod loom_models;

#[cfg(not(loom))]
pub(crate) mod file;
#[cfg(not(loom))]
mod logger;
#[cfg(not(loom))]
pub(crate) mod pepoch;
#[cfg(not(loom))]
pub(crate) mod record;

#[cfg(not(loom))]
pub(crate) use log::{ParallelLog, Start};

#[cfg(not(loom))]
mod log;

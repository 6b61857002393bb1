//! Makes a database out of files: recovery, loading, checkpoints.
//!
//! The log is the database (ERMIA 3.7): a row's newest durable version is stored in the log block of the transaction
//! that wrote it, or in the cold store if the cleaner has moved it there. Recovery therefore restores the indirection
//! arrays, which then hold addresses, and the indexes; values are read on demand, and by a loader in the background.
//!
//! | module | contents |
//! |---|---|
//! | `checkpoint` | copies addresses and keys while transactions go on; moves rows out of files that are to be freed |
//! | `image` | the file of a checkpoint |
//! | `cold` | the cold store |
//! | `blobs` | large values in files of their own |
//! | `store` | reads a row by its address |
//! | `read_ahead` | has the device read the blocks of rows that are about to be read |
//! | `loader` | reads all rows into memory, in the background |
//! | `eviction` | moves rows that are not accessed out of memory |
//! | `hot` | which rows were in use |
//! | `header_scan` | reads a segment of the log with all processors |
//! | `replay` | replays the log after the checkpoint |
//! | `row_set` | sets of row numbers |
//! | `index_rebuild` | builds indexes from the keys in the log and the checkpoint |
//! | `recovery` | turns the files of a directory into a database |
//! | `removal` | removes files that are not needed any more |
//! | `copy` | copies files so that half a copy is never taken for a database |
//! | `backup` | a copy of an open database |
//! | `archive` | segments of the log that have been freed |
//! | `restore` | a database as of a moment, from a backup and an archive |
//! | `shipping` | a copy that is kept up to date by the log of the original |
//! | `contents` | the contents of a checkpoint, for people |
//! | `parallel` | the same for the files of single-version schemes |
//! | `upkeep` | state about checkpoints from one to the next |
//! | `verify` | checks every byte of a database that is not open |

use crate::{
    log::{parallel::pepoch::generation_of, segment},
    platform::file::real::LOCK,
};

mod archive;
pub(crate) mod backup;
mod blobs;
pub(crate) mod checkpoint;
mod cold;
pub(crate) mod contents;
pub(crate) mod copy;
pub(crate) mod eviction;
mod header_scan;
mod heat;
mod hot;
mod image;
// The schedule explorer runs no helpers.
mod index_rebuild;
#[cfg(not(shuttle))]
pub(crate) mod loader;
pub(crate) mod parallel;
pub(crate) mod read_ahead;
pub(crate) mod recovery;
mod removal;
mod replay;
pub(crate) mod restore;
mod row_set;
pub(crate) mod shipping;
pub(crate) mod store;
pub(crate) mod stored_block;
pub(crate) mod upkeep;
pub(crate) mod verify;

/// Whether a file of that name makes its directory a database's.
pub(crate) fn is_of_database(name: &str) -> bool {
    name == LOCK
        || segment::span_of(name).is_some()
        || image::Marker::parse(name).is_some()
        || generation_of(name).is_some()
        || parallel::files::Role::parse(name).is_some()
}

//! Makes a database out of the files of single-version schemes (SiloR 4, 5).
//!
//! Everything is in memory; files serve only recovery. They record the state in which a transaction left a row; of two
//! states of one row the one with the greater TID counts. So records need no order, and all processors read at once.
//!
//! | module | contents |
//! |---|---|
//! | `files` | classifies the files of a directory, and the family that they belong to |
//! | `image` | the files of a checkpoint |
//! | `checkpoint` | walks over all tables while transactions go on |
//! | `loading` | tables under construction: the greatest TID wins |
//! | `recovery` | turns the files of a directory into a database |
//! | `history` | the log as a set of files, in a database, a backup or an archive |
//! | `archive` | the log, kept permanently |
//! | `backup`, `restore` | copies of an open database, and databases as of a moment |
//! | `verify` | checks every byte of a database that is not open |

pub(crate) mod archive;
mod backup;
pub(crate) mod checkpoint;
pub(crate) mod files;
mod history;
mod image;
mod loading;
pub(crate) mod recovery;
pub(super) mod restore;
pub(super) mod verify;

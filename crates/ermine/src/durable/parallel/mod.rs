//! What makes a database out of the files of single-version schemes (SiloR 4, 5).
//!
//! Everything is in memory; files serve recovery alone. They say of a row what it was left as by a transaction, and of two that
//! say something of one row the one with the greater TID counts. So nothing has an order, and all processors read at once.
//!
//! | file | what |
//! |---|---|
//! | `files` | sorts the files of a directory by what they are; which family they belong to |
//! | `image` | the files of a checkpoint |
//! | `checkpoint` | walks over all tables while transactions go on |
//! | `loading` | tables that come up: the largest TID wins |
//! | `recovery` | the whole, from the names of files to a database |
//! | `history` | the log as a set of files, in a database, a backup or an archive |
//! | `archive` | the log for ever |
//! | `backup`, `restore` | copies of an open database, and databases as of a moment |
//! | `verify` | looks at every byte of a database that is not open |

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

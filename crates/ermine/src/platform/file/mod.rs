//! Files of a database: the few operations that the log, checkpoints and recovery need.
//!
//! A database lives in one flat directory. All its accesses go through [`Directory`] and [`File`], which have two
//! implementations: [`real`], the operating system's files; and [`overlay`], for reading a database that must not
//! change. Tests of recovery bring a third, which loses, tears and breaks data as a real device may (`ermine-testing`).
//!
//! Callers may rely on these guarantees, and no others:
//! 1. Data that was written before a successful [`File::sync`] exists after a crash; any part of the other data may
//!    exist, sector by sector.
//! 2. The creation, renaming or removal of a name before a successful [`Directory::sync`] survives a crash; other
//!    changes of names may be lost, independently of each other.
//! 3. After a failed sync, the state of all data written since the last successful one is unknown.

mod failure;
// `ermine-testing` as a crate is built on another copy of this one than the unit tests.
#[cfg(all(test, not(loom)))]
#[path = "../../../../ermine-testing/src/faulty/mod.rs"]
pub mod faulty;
mod lock;
pub mod overlay;
pub mod real;
#[cfg(not(loom))]
pub(crate) mod sync_guard;

use std::{fmt, io, path::Path, sync::Arc};

/// Writes the content of a file between two places once more: after a failed sync the system takes it for written, and
/// the next sync makes durable only data that is written again.
#[cfg(not(loom))]
pub(crate) fn write_again(file: &dyn File, mut from: u64, end: u64) -> io::Result<()> {
    const BYTES: u64 = 1 << 20;
    while from < end {
        let mut bytes = vec![0; BYTES.min(end - from) as usize];
        let read = file.read_at(from, &mut bytes)?;
        if read == 0 {
            // Nothing was ever written behind the end of a file.
            break;
        }
        file.write_at(from, &bytes[..read])?;
        from += read as u64;
    }
    Ok(())
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// The file exists, and is only read.
    Read,
    /// The file exists, and is read and written.
    Write,
    /// The file is created, empty; it is an error if the name exists.
    Create,
}

/// A directory of files.
pub trait Directory: fmt::Debug + Send + Sync {
    /// Returns the names of all files in it, in no particular order.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Opens a file.
    fn open(&self, name: &str, how: Open) -> io::Result<Arc<dyn File>>;
    /// Renames a file; a file that already has the new name is replaced.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file; threads that have it open may continue to read it.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes the names durable.
    fn sync(&self) -> io::Result<()>;
    /// Returns the directory's path, for messages.
    fn path(&self) -> String;
    /// Returns the directory's path in the file system, if it is a directory of the system.
    fn location(&self) -> Option<&Path> {
        None
    }
}

/// An open file. Several threads may use it at once.
pub trait File: fmt::Debug + Send + Sync {
    /// Writes all of `bytes` at `offset`; the file grows as needed. After an error any part may have been written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// As [`File::write_at`], for two pieces, the second right behind the first; in one request to the device where the
    /// system supports that.
    fn write_both_at(&self, offset: u64, first: &[u8], second: &[u8]) -> io::Result<()> {
        for (offset, bytes) in [(offset, first), (offset + first.len() as u64, second)] {
            if !bytes.is_empty() {
                self.write_at(offset, bytes)?;
            }
        }
        Ok(())
    }
    /// Reads up to `into.len()` bytes at `offset`; fewer only where the file ends.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize>;
    /// As [`File::read_at`], bypassing the system's cache where possible: data written since the last sync that failed
    /// may not be seen.
    fn read_past_cache_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.read_at(offset, into)
    }
    /// Announces that a part of the file is about to be read with [`File::read_at`], by any thread: where the system
    /// supports that, the device begins to read the part while the caller goes on. A hint: it changes no result, and
    /// an error of the device is left to the read that follows.
    fn will_read(&self, _offset: u64, _bytes: u64) {}
    /// Makes content and length durable.
    fn sync(&self) -> io::Result<()>;
    /// Returns the file's length in bytes.
    fn length(&self) -> io::Result<u64>;
    /// Cuts the file, or extends it by zeros, and allocates the space on the device where the system supports that.
    fn set_length(&self, bytes: u64) -> io::Result<()>;
}

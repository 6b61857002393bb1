//! Files of a database: the few operations that the log, checkpoints and recovery need.
//!
//! A database lives in one flat directory. What it does there goes through [`Directory`] and [`File`], of which there
//! are three: [`real`], the operating system's; [`faulty`], which loses, tears and breaks what a real device may, for
//! tests of recovery; and [`overlay`], through which a database is read that must not change.
//!
//! What may be relied on, and nothing else:
//! 1. What was written before a [`File::sync`] that succeeded is there after a crash; what was not may be there in any
//!    part, sector by sector.
//! 2. A name that was created, renamed or removed before a [`Directory::sync`] that succeeded is so after a crash; other
//!    changes of names may be lost, each for itself.
//! 3. After a sync that failed nothing is known of what was written since the last one that succeeded.

mod failure;
pub mod faulty;
mod lock;
pub mod overlay;
pub mod real;
#[cfg(not(loom))]
pub(crate) mod wary;

use std::{fmt, io, path::Path, sync::Arc};

/// Writes what stands in a file between two places once more: after a sync that failed the system takes it for written, and
/// only what is written again is made durable by the next one.
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
    /// It exists, and is only read.
    Read,
    /// It exists, and is read and written.
    Write,
    /// It is made, empty; one of that name that exists is an error.
    Create,
}

/// One directory.
pub trait Directory: fmt::Debug + Send + Sync {
    /// The names of all files in it, in no order.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Opens a file.
    fn open(&self, name: &str, how: Open) -> io::Result<Arc<dyn File>>;
    /// Gives a file another name; one that has that name already is replaced.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file; who has it open may go on reading it.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes the names durable.
    fn sync(&self) -> io::Result<()>;
    /// Where it is, for messages.
    fn path(&self) -> String;
    /// Where the system has it, if it is the system's.
    fn location(&self) -> Option<&Path> {
        None
    }
}

/// One open file. Several threads may use it at once.
pub trait File: fmt::Debug + Send + Sync {
    /// Writes all of `bytes` at `offset`; the file grows as needed. After an error any part may have been written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// As [`File::write_at`], of two pieces, the second right behind the first; in one request to the device where the system
    /// can.
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
    /// As [`File::read_at`], past what the system keeps of the file where it can: what was written since the last sync that
    /// failed may not be seen.
    fn read_past_cache_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.read_at(offset, into)
    }
    /// Makes content and length durable.
    fn sync(&self) -> io::Result<()>;
    /// Its length in bytes.
    fn length(&self) -> io::Result<u64>;
    /// Cuts it, or lets it grow by zeros, and takes the space on the device where the system can.
    fn set_length(&self, bytes: u64) -> io::Result<()>;
}

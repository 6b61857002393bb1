//! The files of the parallel log: `redo-GENERATION-SEQUENCE` in the directory of each device.
//!
//! ```text
//!   head     magic 8 bytes | generation u32 | device u32 | sequence u32 | crc u32 | length of the file before u64
//!   records  one after the other, of several workers, in no order; zeros behind the last
//! ```
//!
//! A generation is one period in which the database was open. The head is in the same write as the first records. How
//! far a file must be whole is recorded in the next file, and for the last file with the persistent epoch
//! ([`super::pepoch`]); the bytes behind that may be torn. The checksum in the head is over everything else in it, and
//! then over the identity of the database: a head of another database is not accepted.

use std::{io, sync::Arc};

use super::record::{HEAD_BYTES, Head, RECORD_BYTES_MAX};
use crate::{
    log::identity::{Identity, Said},
    platform::file::{Directory, File, Open},
};

const PREFIX: &str = "redo-";
const MAGIC: [u8; 8] = *b"ERMREDO1";

/// Bytes of the head.
pub(crate) const FILE_HEAD_BYTES: usize = 32;

/// The name of a file among those of a device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub(crate) struct FileName {
    pub(crate) generation: u32,
    pub(crate) sequence: u32,
}

impl FileName {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (generation, sequence) = name.strip_prefix(PREFIX)?.split_once('-')?;
        let number = |digits| u32::from_str_radix(digits, 16).ok();
        let parsed = Self { generation: number(generation)?, sequence: number(sequence)? };
        (parsed.to_string() == name).then_some(parsed)
    }
}

impl std::fmt::Display for FileName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{PREFIX}{:08x}-{:08x}", self.generation, self.sequence)
    }
}

/// The head of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FileHead {
    pub(crate) name: FileName,
    pub(crate) device: u32,
    /// The length up to which the previous file is whole.
    pub(crate) before: u64,
}

impl FileHead {
    /// Encodes the head for a file of the database with that identity; `None`: of a database of an earlier version of
    /// the program.
    pub(crate) fn bytes(&self, of: Option<Identity>) -> [u8; FILE_HEAD_BYTES] {
        let mut bytes = [0; FILE_HEAD_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        let words = [self.name.generation, self.device, self.name.sequence];
        for (at, word) in words.into_iter().enumerate() {
            bytes[8 + 4 * at..][..4].copy_from_slice(&word.to_le_bytes());
        }
        bytes[24..].copy_from_slice(&self.before.to_le_bytes());
        let crc = Identity::sum(of, &bytes);
        bytes[20..24].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Decodes a head; `None`: these bytes are not a head, or belong to another database.
    pub(crate) fn read(bytes: &[u8; FILE_HEAD_BYTES], said: Option<Said>) -> Option<Self> {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let name = FileName { generation: word(8), sequence: word(16) };
        let before = u64::from_le_bytes(bytes[24..].try_into().expect("eight bytes"));
        let head = Self { name, device: word(12), before };
        let is_old = said.is_none_or(|said| u64::from(name.generation) < said.unlabelled);
        let is_right =
            is_old && head.bytes(None) == *bytes || said.is_some_and(|said| head.bytes(Some(said.identity)) == *bytes);
        is_right.then_some(head)
    }
}

/// Iterates over the records of a file.
pub(crate) struct Records {
    file: Arc<dyn File>,
    length: u64,
    /// The position of the next record.
    at: u64,
    buffer: Vec<u8>,
    /// The position in the file of the buffer's first byte.
    from: u64,
}

impl Records {
    /// Bytes read at a time.
    const READ_BYTES: usize = 1 << 20;

    /// Opens a file of the database with that identity file; `None` in place of the head: no whole head of this
    /// database was found.
    pub(crate) fn open(
        directory: &dyn Directory,
        name: FileName,
        said: Option<Said>,
    ) -> io::Result<(Option<FileHead>, Self)> {
        Self::of(directory.open(&name.to_string(), Open::Read)?, said)
    }

    /// As [`Records::open`], for a file that may have another name.
    pub(crate) fn of(file: Arc<dyn File>, said: Option<Said>) -> io::Result<(Option<FileHead>, Self)> {
        let length = file.length()?;
        let mut records = Self { file, length, at: 0, buffer: Vec::new(), from: 0 };
        let head = records.bytes(0, FILE_HEAD_BYTES)?.and_then(|bytes| FileHead::read(bytes.try_into().ok()?, said));
        records.at = FILE_HEAD_BYTES as u64;
        Ok((head, records))
    }

    /// Returns the position where the next record begins, or would begin.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// Returns the next record: its TID and its rows. `None`: there is none that is whole.
    pub(crate) fn next(&mut self) -> io::Result<Option<(u64, &[u8])>> {
        let Some(bytes) = self.bytes(self.at, HEAD_BYTES)? else { return Ok(None) };
        let head = Head::read(bytes.try_into().expect("as many as were asked for"));
        let length = head.length as usize;
        if length == 0 || length > RECORD_BYTES_MAX {
            return Ok(None);
        }
        let at = self.at + HEAD_BYTES as u64;
        // Checked before it is handed out: twice, so that the borrow ends.
        if !self.bytes(at, length)?.is_some_and(|rows| head.fits(rows)) {
            return Ok(None);
        }
        self.at = at + length as u64;
        let rows = self.bytes(at, length)?.expect("it is in the buffer");
        Ok(Some((head.tid, rows)))
    }

    /// Returns `count` bytes of the file at `at`, if it has that many.
    fn bytes(&mut self, at: u64, count: usize) -> io::Result<Option<&[u8]>> {
        if self.length.saturating_sub(at) < count as u64 {
            return Ok(None);
        }
        let is_there = at >= self.from && at + count as u64 <= self.from + self.buffer.len() as u64;
        if !is_there {
            let wanted = count.max(Self::READ_BYTES).min((self.length - at) as usize);
            self.buffer.resize(wanted, 0);
            let read = self.file.read_at(at, &mut self.buffer)?;
            self.buffer.truncate(read);
            self.from = at;
        }
        let start = (at - self.from) as usize;
        Ok(self.buffer.get(start..start + count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_heads_come_back() {
        let name = FileName { generation: 7, sequence: 0x1f };
        assert_eq!(name.to_string(), "redo-00000007-0000001f");
        assert_eq!(FileName::parse(&name.to_string()), Some(name));
        assert!(
            ["redo-7-1f", "redo-00000007", "log-00000007-0000001f"].iter().all(|name| FileName::parse(name).is_none())
        );
        let head = FileHead { name, device: 2, before: 99 };
        let said = Said::of_new(7);
        let (old, own) = (head.bytes(None), head.bytes(Some(said.identity)));
        assert_eq!((FileHead::read(&old, None), FileHead::read(&own, Some(said))), (Some(head), Some(head)));
        // The head of another database, and an old head where none can be.
        for (bytes, said) in [(own, None), (own, Some(Said::of_new(7))), (old, Some(said))] {
            assert_eq!(FileHead::read(&bytes, said), None);
        }
        assert_eq!(FileHead::read(&old, Some(Said { unlabelled: 8, ..said })), Some(head));
        for at in 0..FILE_HEAD_BYTES {
            let mut bytes = own;
            bytes[at] ^= 1;
            assert_eq!(FileHead::read(&bytes, Some(said)), None, "a flip at {at}");
        }
    }
}

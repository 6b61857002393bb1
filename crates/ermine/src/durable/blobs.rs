//! Large values in files of their own (ERMIA 3.2: large object writes are diverted, and the log has a pointer).
//!
//! A file `blob-ID-TABLE-ROW` in hexadecimal digits holds one value. It is durable before the transaction that writes
//! it takes its place in the log; the log has a [`BlobRef`]. The name says which row the value belongs to, so that a
//! checkpoint needs only that row to find out whether the file is still in use.
//!
//! Invariants
//! 1. A file is never changed, and a number is never used again: an archive may have files that this directory has
//!    lost. Numbers therefore continue from the offset of the log when the database is opened, which is above all
//!    numbers of committed values.
//! 2. A file whose transaction has not ended is [pending](State::pending); checkpoints ignore it.
//! 3. A file that no row refers to is removed by the next checkpoint: the value was replaced, or a crash came before
//!    its commit.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::{Arc, Mutex, MutexGuard},
};

use crate::{
    ids::{RowId, TableId},
    log::record::BlobRef,
    platform::file::{Directory, Open},
};

const PREFIX: &str = "blob-";

/// The table and row whose value a file holds.
pub(crate) type Owner = (TableId, RowId);

/// The name of a value's file.
pub(crate) fn name_of(blob: u64, (table, row): Owner) -> String {
    format!("{PREFIX}{blob:016x}-{:08x}-{:016x}", table.0, row.0)
}

/// The number and the owner of the file of that name, if it is the file of a large value.
pub(crate) fn parse(name: &str) -> Option<(u64, Owner)> {
    let mut parts = name.strip_prefix(PREFIX)?.split('-').map(|part| u64::from_str_radix(part, 16).ok());
    let (blob, table, row) = (parts.next()??, parts.next()??, parts.next()??);
    let owner = (TableId(u32::try_from(table).ok()?), RowId(row));
    (parts.next().is_none() && name_of(blob, owner) == name).then_some((blob, owner))
}

/// The large values of a database.
pub(crate) struct Blobs {
    directory: Arc<dyn Directory>,
    state: Mutex<State>,
}

struct State {
    next: u64,
    files: BTreeMap<u64, Owner>,
    /// Files of transactions that have not ended.
    pending: BTreeSet<u64>,
}

impl Blobs {
    /// Opens the large values whose files are in a directory.
    pub(crate) fn open(directory: Arc<dyn Directory>, names: &[String], offset: u64) -> Self {
        let files: BTreeMap<_, _> = names.iter().filter_map(|name| parse(name)).collect();
        let next = files.last_key_value().map_or(0, |(blob, _)| blob + 1).max(offset);
        Self { directory, state: Mutex::new(State { next, files, pending: BTreeSet::new() }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no code panics while it holds the blobs")
    }

    /// Makes a value durable for a transaction that will refer to it, and then [settles](Self::settle) it.
    pub(crate) fn write(&self, owner: Owner, value: &[u8]) -> io::Result<BlobRef> {
        let blob = {
            let mut state = self.state();
            let blob = state.next;
            state.next += 1;
            state.files.insert(blob, owner);
            state.pending.insert(blob);
            blob
        };
        let written = self.directory.open(&name_of(blob, owner), Open::Create).and_then(|file| {
            file.write_at(0, value)?;
            file.sync()?;
            self.directory.sync()
        });
        if let Err(error) = written {
            self.settle(&[blob], false);
            return Err(error);
        }
        Ok(BlobRef { blob, length: value.len() as u64, checksum: crc32c::crc32c(value) })
    }

    /// Records that the transaction that wrote these values has ended.
    pub(crate) fn settle(&self, blobs: &[u64], committed: bool) {
        for blob in blobs {
            self.state().pending.remove(blob);
            if !committed {
                // A file that cannot be removed now is removed by a later checkpoint.
                let _ = self.remove(*blob);
            }
        }
    }

    /// Reads a value; `None`: the file does not hold the bytes that were written.
    pub(crate) fn read(&self, owner: Owner, of: BlobRef) -> io::Result<Option<Vec<u8>>> {
        read(&*self.directory, owner, of)
    }

    /// All values except the pending ones.
    pub(crate) fn settled(&self) -> Vec<(u64, Owner)> {
        let state = self.state();
        state
            .files
            .iter()
            .filter(|(blob, _)| !state.pending.contains(blob))
            .map(|(blob, owner)| (*blob, *owner))
            .collect()
    }

    /// Forgets a file to which nothing refers any more; returns its name.
    pub(crate) fn forget(&self, blob: u64) -> Option<String> {
        self.state().files.remove(&blob).map(|owner| name_of(blob, owner))
    }

    /// Removes the file of a value that was never committed.
    fn remove(&self, blob: u64) -> io::Result<()> {
        let owner = self.state().files.get(&blob).copied();
        let Some(owner) = owner else { return Ok(()) };
        match self.directory.remove(&name_of(blob, owner)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        self.state().files.remove(&blob);
        Ok(())
    }
}

/// Reads a value from a directory; `None`: the file does not hold the bytes that were written.
pub(super) fn read(directory: &dyn Directory, owner: Owner, of: BlobRef) -> io::Result<Option<Vec<u8>>> {
    let file = directory.open(&name_of(of.blob, owner), Open::Read)?;
    if file.length()? != of.length {
        return Ok(None);
    }
    let mut value = vec![0; of.length as usize];
    let read = file.read_at(0, &mut value)?;
    Ok((read == value.len() && crc32c::crc32c(&value) == of.checksum).then_some(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::file::faulty::FaultyDirectory;

    #[test]
    fn a_value_comes_back_until_it_is_removed() {
        let directory = Arc::new(FaultyDirectory::new());
        let owner = (TableId(3), RowId(7));
        let blobs = Blobs::open(directory.clone(), &[], 16);
        let one = blobs.write(owner, b"one").unwrap();
        let two = blobs.write(owner, b"two").unwrap();
        assert_eq!(blobs.read(owner, one).unwrap().as_deref(), Some(&b"one"[..]));
        assert!(blobs.settled().is_empty());
        blobs.settle(&[one.blob], true);
        blobs.settle(&[two.blob], false);
        assert_eq!(blobs.settled(), [(one.blob, owner)]);
        assert!(blobs.read(owner, two).is_err());
        let again = Blobs::open(directory.clone(), &directory.list().unwrap(), 0);
        assert_eq!(again.settled(), [(one.blob, owner)]);
        assert_eq!(again.write(owner, b"three").unwrap().blob, one.blob + 1);
        let wrong = BlobRef { checksum: one.checksum ^ 1, ..one };
        assert_eq!(again.read(owner, wrong).unwrap(), None);
    }
}

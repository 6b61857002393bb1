//! What a transaction has written and where it looked: undone on abort, stamped on commit.

use crate::{
    access::IndexOrdinal,
    ids::{RowId, TableId},
    index::{Inserted, LeafPtr, LeafSeen, LeafVersion},
    rows::chain::VersionPtr,
    scheme::Place,
    txn::commit_order::Write,
    types::KeyBuffer,
};

/// An entry of a secondary index that a version of the transaction belongs to; it may have been there before.
pub(crate) struct NeededEntry {
    pub(crate) row: RowId,
    pub(crate) index: IndexOrdinal,
    /// The entry's key.
    pub(crate) entry: Place,
}

/// A leaf that a scan or a miss has looked at.
pub(crate) struct LeafRead {
    pub(crate) index: IndexOrdinal,
    pub(crate) leaf: LeafPtr,
    pub(crate) version: LeafVersion,
    /// The table, and the key at which the leaf was first met.
    pub(crate) place: Place,
}

/// The row that a point read found last: a write of the same key that follows needs no second lookup.
///
/// It stays right until the transaction ends. Its slot is emptied before its key leaves the index, and its RowId is not
/// used again while the transaction is in the epoch; so a slot with a version is still the key's.
#[derive(Default)]
pub(crate) struct LastFound {
    found: Option<(TableId, RowId)>,
    key: KeyBuffer,
}

impl LastFound {
    pub(crate) fn set(&mut self, table: TableId, key: &[u8], row: RowId) {
        self.found = Some((table, row));
        self.key.clear();
        self.key.extend_from_slice(key);
    }

    pub(crate) fn clear(&mut self) {
        self.found = None;
    }

    /// The row of that key, if it is the one.
    pub(crate) fn get(&self, table: TableId, key: &[u8]) -> Option<RowId> {
        self.found.filter(|&(of, _)| of == table && self.key[..] == *key).map(|(_, row)| row)
    }
}

/// Rows, index entries and leaves of one transaction. The vectors keep their memory for the worker's next one.
pub(crate) struct Footprint<H> {
    pub(crate) writes: Vec<Write<H>>,
    pub(crate) entries: Vec<NeededEntry>,
    pub(crate) leaves: Vec<LeafRead>,
    pub(crate) last_found: LastFound,
    /// Versions that the transaction replaced by newer ones of its own, or unlinked: freed when it ends, as views of
    /// them may be in use.
    pub(crate) discarded: Vec<VersionPtr<H>>,
    /// Bytes of the keys that [`Place`]s refer to.
    keys: Vec<u8>,
    /// Bytes that the log block of the transaction takes.
    pub(crate) log_bytes: u64,
}

/// Key bytes beyond this are not kept for reports any more, only for writes.
const REPORTED_KEY_BYTES: usize = 64 << 20;

impl<H> Default for Footprint<H> {
    fn default() -> Self {
        Self {
            writes: Vec::new(),
            entries: Vec::new(),
            leaves: Vec::new(),
            last_found: LastFound::default(),
            discarded: Vec::new(),
            keys: Vec::new(),
            log_bytes: 0,
        }
    }
}

impl<H> Footprint<H> {
    /// A new transaction. What a very large one needed is given back.
    pub(crate) fn clear(&mut self) {
        if self.keys.capacity() > 1 << 20 {
            *self = Self::default();
        }
        self.writes.clear();
        self.entries.clear();
        self.leaves.clear();
        self.last_found.clear();
        self.discarded.clear();
        self.keys.clear();
        self.log_bytes = 0;
    }

    /// Keeps a key that will be needed at the end.
    pub(crate) fn keep(&mut self, table: TableId, key: &[u8]) -> Place {
        let at = u32::try_from(self.keys.len()).expect("a write's keys are counted against the log block first");
        self.keys.extend_from_slice(key);
        Place { table, at, length: key.len() as u16 }
    }

    /// Keeps a key for reports, as long as there are not too many.
    pub(crate) fn note(&mut self, table: TableId, key: &[u8]) -> Place {
        if self.keys.len() > REPORTED_KEY_BYTES { Place { table, at: 0, length: 0 } } else { self.keep(table, key) }
    }

    /// Keeps a run of keys with one copy; gives where it begins.
    pub(crate) fn note_run(&mut self, keys: &[u8]) -> Option<u32> {
        if self.keys.len() > REPORTED_KEY_BYTES {
            return None;
        }
        let at = self.keys.len() as u32;
        self.keys.extend_from_slice(keys);
        Some(at)
    }

    /// The bytes of a key.
    pub(crate) fn key(&self, place: Place) -> &[u8] {
        &self.keys[place.at as usize..][..place.length as usize]
    }

    /// A leaf was looked at.
    pub(crate) fn saw_leaf(&mut self, index: IndexOrdinal, seen: &LeafSeen, place: Place) {
        let again = |last: &LeafRead| last.leaf == seen.leaf && last.version == seen.version;
        if !self.leaves.last().is_some_and(again) {
            self.leaves.push(LeafRead { index, leaf: seen.leaf, version: seen.version, place });
        }
    }

    /// The transaction's own insert changed a leaf and may have split it: what was seen of it stays seen (Silo's fix-up). Linear in the leaves seen.
    pub(crate) fn changed_leaf(&mut self, inserted: &Inserted) {
        for at in 0..self.leaves.len() {
            let LeafRead { index, place, leaf, version } = self.leaves[at];
            if leaf == inserted.leaf && version == inserted.before {
                self.leaves[at].version = inserted.after;
                if let Some((leaf, version)) = inserted.split {
                    self.leaves.push(LeafRead { index, leaf, version, place });
                }
            }
        }
    }
}

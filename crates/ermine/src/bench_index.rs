//! The bare index for the comparison with foreign ones in `ermine-compare`; no part of the engine's interface.

use crate::{
    epoch::{EpochManager, Participant},
    ids::RowId,
    index::{self, Batch, Direction, Insert},
};
use std::{ops::Bound, sync::Arc};

/// How many inserts pass between two attempts to free what splits have left behind.
const RECLAIM_INTERVAL: u32 = 64;

/// An index with the epochs it needs.
pub struct Index {
    index: index::Index,
    epochs: Arc<EpochManager>,
}

/// One thread's access to it.
pub struct Session<'i> {
    index: &'i index::Index,
    participant: Participant,
    batch: Batch,
    inserts: u32,
}

impl Default for Index {
    fn default() -> Self {
        Self { index: index::Index::new(), epochs: EpochManager::new("index comparison") }
    }
}

impl Index {
    /// Builds it from ascending entries.
    pub fn bulk_load<K: AsRef<[u8]>>(entries: impl IntoIterator<Item = (K, u64)>) -> Self {
        let index = index::Index::bulk_load(entries.into_iter().map(|(key, row)| (key, RowId(row))));
        Self { index, ..Self::default() }
    }

    /// One a thread.
    pub fn session(&self) -> Session<'_> {
        Session { index: &self.index, participant: self.epochs.join_as("bench"), batch: Batch::default(), inserts: 0 }
    }
}

impl Session<'_> {
    /// Says whether the key is new.
    pub fn insert(&mut self, key: &[u8], row: u64) -> bool {
        self.inserts += 1;
        if self.inserts.is_multiple_of(RECLAIM_INTERVAL) {
            self.participant.reclaim(usize::MAX);
        }
        matches!(self.index.insert_if_absent(&self.participant.enter(), key, RowId(row)), Insert::Done(_))
    }

    /// The row of a key.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<u64> {
        self.index.get(&self.participant.enter(), key).row.map(|row| row.0)
    }

    /// Hands up to `at_most` entries from `lower` on to `visit`; says how many.
    #[inline]
    pub fn scan(&mut self, lower: &[u8], at_most: usize, mut visit: impl FnMut(&[u8], u64)) -> usize {
        let guard = self.participant.enter();
        let mut cursor = self.index.cursor(&guard, Bound::Included(lower), Bound::Unbounded, Direction::Forward);
        let mut done = 0;
        while done < at_most && cursor.next_leaf(&mut self.batch, at_most - done).is_some() {
            for i in 0..self.batch.len() {
                visit(self.batch.key(i), self.batch.row(i).0);
            }
            done += self.batch.len();
        }
        done
    }
}

//! The bare index for the comparison with foreign ones in `ermine-compare`, and its kinds for `ermine bench index`. It
//! is no part of the engine's interface.

use crate::{
    epoch::{EpochManager, Guard, Participant},
    ids::RowId,
    index::{
        self, Batch, Direction, IndexKind, Insert, Lookup,
        art::{Art, Coarse, Coupled, Unsynchronized},
    },
};
use std::{ops::Bound, sync::Arc};

/// Number of inserts between two attempts to free the garbage that splits leave behind.
const RECLAIM_INTERVAL: u32 = 64;

/// An index with the epochs it needs.
pub struct Index {
    index: index::Index,
    epochs: Arc<EpochManager>,
}

/// One thread's access to an index.
pub struct Session<'i> {
    index: &'i index::Index,
    participant: Participant,
    batch: Batch,
    inserts: u32,
}

impl Default for Index {
    fn default() -> Self {
        Self { index: index::Index::new(IndexKind::BTree), epochs: EpochManager::new("index comparison") }
    }
}

impl Index {
    /// Builds the index from ascending entries.
    pub fn bulk_load<K: AsRef<[u8]>>(entries: impl IntoIterator<Item = (K, u64)>) -> Self {
        let epochs = EpochManager::new("index comparison");
        let entries = entries.into_iter().map(|(key, row)| (key, RowId(row)));
        Self { index: index::Index::bulk_load(IndexKind::BTree, &epochs.join_as("bulk load"), entries), epochs }
    }

    /// Opens a session; each thread needs its own.
    pub fn session(&self) -> Session<'_> {
        Session { index: &self.index, participant: self.epochs.join_as("bench"), batch: Batch::default(), inserts: 0 }
    }
}

impl Session<'_> {
    /// Inserts an entry; returns whether the key is new.
    pub fn insert(&mut self, key: &[u8], row: u64) -> bool {
        self.inserts += 1;
        if self.inserts.is_multiple_of(RECLAIM_INTERVAL) {
            self.participant.reclaim(usize::MAX);
        }
        matches!(self.index.insert_if_absent(&self.participant.enter(), key, RowId(row)), Insert::Done(_))
    }

    /// Returns the row of a key.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<u64> {
        self.index.get(&self.participant.enter(), key).row.map(|row| row.0)
    }

    /// Hands up to `at_most` entries from `lower` on to `visit`; returns their number.
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

/// The lines of figure 11 of the HTM paper: a kind of index, and for the radix tree a method to synchronize readers and
/// writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// The radix tree without synchronization, for a single writer, or for readers alone.
    ArtUnsynchronized,
    /// The radix tree with optimistic lock coupling, as in the engine.
    ArtOptimistic,
    /// The radix tree with reader-writer locks in the nodes.
    ArtCoupled,
    /// The radix tree with one latch.
    ArtCoarse,
    /// The B+-tree.
    BTree,
    /// The hash index.
    Hash,
}

impl Contender {
    /// All contenders.
    pub const ALL: [Self; 6] =
        [Self::ArtUnsynchronized, Self::ArtOptimistic, Self::ArtCoupled, Self::ArtCoarse, Self::BTree, Self::Hash];

    /// Returns the contender's name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::ArtUnsynchronized => "art, unsynchronized",
            Self::ArtOptimistic => "art, optimistic",
            Self::ArtCoupled => "art, lock coupling",
            Self::ArtCoarse => "art, one latch",
            Self::BTree => "b+-tree, optimistic",
            Self::Hash => "hash, optimistic",
        }
    }
}

enum Built {
    Unsynchronized(Art<Unsynchronized>),
    Coupled(Art<Coupled>),
    Coarse(Box<Art<Coarse>>),
    Kind(index::Index),
}

/// An index that is only read.
pub struct Lookups {
    built: Built,
    epochs: Arc<EpochManager>,
}

impl Lookups {
    /// Inserts keys one after the other, each with its number.
    pub fn build<K: AsRef<[u8]>>(contender: Contender, keys: impl IntoIterator<Item = K>) -> Self {
        let built = match contender {
            Contender::ArtUnsynchronized => Built::Unsynchronized(Art::new()),
            Contender::ArtCoupled => Built::Coupled(Art::new()),
            Contender::ArtCoarse => Built::Coarse(Box::new(Art::new())),
            Contender::ArtOptimistic => Built::Kind(index::Index::new(IndexKind::Art)),
            Contender::BTree => Built::Kind(index::Index::new(IndexKind::BTree)),
            Contender::Hash => Built::Kind(index::Index::new(IndexKind::Hash)),
        };
        let epochs = EpochManager::new("index kinds");
        let participant = epochs.join_as("build");
        for (row, key) in (0..).map(RowId).zip(keys) {
            let (guard, key) = (participant.enter(), key.as_ref());
            let inserted = match &built {
                Built::Unsynchronized(tree) => tree.insert_if_absent(&guard, key, row),
                Built::Coupled(tree) => tree.insert_if_absent(&guard, key, row),
                Built::Coarse(tree) => tree.insert_if_absent(&guard, key, row),
                Built::Kind(index) => index.insert_if_absent(&guard, key, row),
            };
            assert!(matches!(inserted, Insert::Done(_)), "every key is another one");
            drop(guard);
            participant.reclaim(2);
        }
        drop(participant);
        Self { built, epochs }
    }

    /// Returns the bytes that the index takes.
    pub fn bytes(&self) -> u64 {
        let participant = self.epochs.join_as("bytes");
        let guard = participant.enter();
        let footprint = match &self.built {
            Built::Unsynchronized(tree) => tree.footprint(&guard),
            Built::Coupled(tree) => tree.footprint(&guard),
            Built::Coarse(tree) => tree.footprint(&guard),
            Built::Kind(index) => index.footprint(&guard),
        };
        footprint.bytes() as u64
    }

    /// Looks up a chain of keys, each of which depends on the row found under the previous key; returns the number of
    /// lookups.
    ///
    /// # Panics
    /// If a key is missing.
    pub fn chase<K: AsRef<[u8]>>(&self, first: u64, key_after: impl Fn(u64) -> K, go_on: impl Fn() -> bool) -> u64 {
        let participant = self.epochs.join_as("chase");
        match &self.built {
            Built::Unsynchronized(tree) => {
                chase(&participant, first, key_after, go_on, |guard, key| tree.get(guard, key))
            }
            Built::Coupled(tree) => chase(&participant, first, key_after, go_on, |guard, key| tree.get(guard, key)),
            Built::Coarse(tree) => chase(&participant, first, key_after, go_on, |guard, key| tree.get(guard, key)),
            Built::Kind(index) => chase(&participant, first, key_after, go_on, |guard, key| index.get(guard, key)),
        }
    }
}

#[inline]
fn chase<K: AsRef<[u8]>>(
    participant: &Participant,
    first: u64,
    key_after: impl Fn(u64) -> K,
    go_on: impl Fn() -> bool,
    get: impl Fn(&Guard<'_>, &[u8]) -> Lookup,
) -> u64 {
    /// Lookups under one guard, as in a transaction, and between two checks of the time.
    const STRETCH: u64 = 64;
    let (mut found, mut count) = (first, 0);
    while go_on() {
        let guard = participant.enter();
        for _ in 0..STRETCH {
            found = get(&guard, key_after(found).as_ref()).row.expect("every key that is looked up was inserted").0;
        }
        count += STRETCH;
    }
    count
}

//! Goal: readers, writers and removers of the same leaves, splitting and unlinking them, never confuse one another.
//! Method: more threads than cores for a fixed number of operations. Keys that exist throughout must be found by every
//! lookup and every scan, in order and once; a row always determines its key; an observation that validates has missed
//! nothing.

use super::{
    Batch, Direction, Index, IndexKind, Insert,
    model_test::{KINDS, Random},
};
use crate::{
    epoch::{EpochManager, Guard, Participant},
    ids::{RowId, Stamp},
    sync::{AtomicU64, Ordering},
};
use std::{ops::Bound, thread};

const WRITERS: u64 = 2;
const READERS: u64 = 2;

/// Every third key stays; the others are inserted and removed, each by one writer.
fn stays(n: u64) -> bool {
    n.is_multiple_of(3)
}

fn writer_of(n: u64) -> u64 {
    n / 3 % WRITERS
}

type Shape = fn(u64) -> Vec<u8>;

const SHAPES: [Shape; 3] = [
    |n| n.to_be_bytes().to_vec(),
    |n| [&[b'p'; 40], n.to_be_bytes().as_slice()].concat(),
    |n| [format!("{:03}", n / 100).as_bytes(), &[b'x'; 20][..(n % 20) as usize], &n.to_be_bytes()].concat(),
];

struct Setup {
    index: Index,
    shape: Shape,
    universe: u64,
    writers_left: AtomicU64,
}

impl Setup {
    fn new(kind: IndexKind, shape: Shape, universe: u64) -> Self {
        let setup = Self { index: Index::new(kind), shape, universe, writers_left: AtomicU64::new(WRITERS) };
        let epochs = EpochManager::new("test");
        let worker = epochs.join();
        for n in (0..universe).filter(|&n| stays(n)) {
            setup.index.insert_if_absent(&worker.enter(), &shape(n), RowId(n));
        }
        setup
    }

    fn busy(&self) -> bool {
        self.writers_left.load(Ordering::Acquire) > 0
    }

    /// Works in waves: inserts its keys of a window, then removes them again, so that leaves split and become empty.
    fn write(&self, me: u64, worker: &Participant, rounds: u64) {
        let mut random = Random::with_seed(me + 100);
        for _ in 0..rounds {
            let start = random.below(self.universe);
            let window = start..(start + 600).min(self.universe);
            let mine = |n: &u64| !stays(*n) && writer_of(*n) == me;
            for n in window.clone().filter(mine) {
                let inserted = self.index.insert_if_absent(&worker.enter(), &(self.shape)(n), RowId(n));
                assert!(matches!(inserted, Insert::Done(_)), "{n} was there");
            }
            for n in window.filter(mine) {
                let guard = worker.enter();
                assert_eq!(self.index.get(&guard, &(self.shape)(n)).row, Some(RowId(n)));
                assert!(self.index.remove_if(&guard, &(self.shape)(n), RowId(n), Stamp(1), Stamp(1), || true));
            }
            worker.reclaim(usize::MAX);
        }
        self.writers_left.fetch_sub(1, Ordering::Release);
    }

    fn read(&self, me: u64, worker: &Participant) {
        let mut random = Random::with_seed(me + 200);
        let mut batch = Batch::default();
        while self.busy() {
            let n = random.below(self.universe);
            let guard = worker.enter();
            match self.index.get(&guard, &(self.shape)(n)).row {
                Some(row) => assert_eq!(row, RowId(n)),
                None => assert!(!stays(n), "lost {n}"),
            }
            let m = (n + random.below(400)).min(self.universe - 1);
            let direction = if random.below(2) == 0 { Direction::Forward } else { Direction::Backward };
            if self.index.kind().is_ordered() {
                self.check_scan(&guard, &mut batch, (n, m), direction, 1 + random.below(80) as usize);
            }
        }
    }

    fn check_scan(&self, guard: &Guard<'_>, batch: &mut Batch, ends: (u64, u64), direction: Direction, at_most: usize) {
        let keys = [(self.shape)(ends.0), (self.shape)(ends.1)];
        let (low, high) = (keys.iter().min().unwrap(), keys.iter().max().unwrap());
        let mut expected: Vec<_> = (0..self.universe)
            .filter(|&n| stays(n))
            .map(|n| (self.shape)(n))
            .filter(|key| (low..=high).contains(&key))
            .collect();
        expected.sort();
        if direction == Direction::Backward {
            expected.reverse();
        }
        let mut expected = expected.into_iter().peekable();
        let mut last: Option<Vec<u8>> = None;
        let (lower, upper) = (Bound::Included(low.as_slice()), Bound::Included(high.as_slice()));
        let mut cursor = self.index.cursor(guard, lower, upper, direction);
        while cursor.next_leaf(batch, at_most).is_some() {
            for i in 0..batch.len() {
                let key = batch.key(i);
                assert_eq!(key, (self.shape)(batch.row(i).0), "a row tells its key");
                if let Some(last) = &last {
                    assert_eq!(direction == Direction::Forward, last.as_slice() < key, "out of order or twice");
                }
                last = Some(key.to_vec());
                if expected.peek().is_some_and(|expected| expected == key) {
                    expected.next();
                }
                assert!(!stays(batch.row(i).0) || expected.peek().is_none_or(|e| e != key));
            }
            // So that the leaf is changed between two steps more often than by chance.
            thread::yield_now();
        }
        assert_eq!(expected.next(), None, "missed by a {direction:?} scan");
    }

    /// Reads a range twice: if the second read has entries that the first has not, validation must detect it.
    fn observe(&self, me: u64, worker: &Participant) {
        let mut random = Random::with_seed(me + 300);
        let mut stamp = 0;
        let (mut valid, mut void) = (0, 0);
        while self.busy() {
            let (start, length) = (random.below(self.universe), random.below(40));
            let (low, high) = ((self.shape)(start), (self.shape)(start + length));
            let guard = worker.enter();
            let (first, leaves) = self.rows(&guard, &low, &high);
            let (second, _) = self.rows(&guard, &low, &high);
            stamp += 1;
            if leaves.iter().all(|seen| seen.leaf.validate(&guard, seen.version, Stamp(stamp))) {
                valid += 1;
                let new: Vec<_> = second.iter().filter(|row| !first.contains(row)).collect();
                assert!(new.is_empty(), "{new:?} came between observation and validation");
            } else {
                void += 1;
            }
        }
        println!("{valid} valid, {void} void");
    }

    fn rows(&self, guard: &Guard<'_>, low: &[u8], high: &[u8]) -> (Vec<RowId>, Vec<super::LeafSeen>) {
        if !self.index.kind().is_ordered() {
            let lookups = [low, high].map(|key| self.index.get(guard, key));
            return (lookups.iter().filter_map(|found| found.row).collect(), lookups.map(|found| found.seen).to_vec());
        }
        let (mut rows, mut leaves) = (Vec::new(), Vec::new());
        let mut batch = Batch::default();
        let mut cursor = self.index.cursor(guard, Bound::Included(low), Bound::Included(high), Direction::Forward);
        while let Some(seen) = cursor.next_leaf(&mut batch, usize::MAX) {
            leaves.push(seen);
            rows.extend((0..batch.len()).map(|i| batch.row(i)));
        }
        (rows, leaves)
    }
}

#[test]
fn what_stays_is_always_found_and_what_comes_is_always_noticed() {
    let (universe, rounds) = if cfg!(miri) { (100, 1) } else { (6_000, 300) };
    for (kind, shape) in KINDS.into_iter().flat_map(|kind| SHAPES.map(|shape| (kind, shape))) {
        let setup = &Setup::new(kind, shape, universe);
        let epochs = EpochManager::new("test");
        thread::scope(|scope| {
            for me in 0..WRITERS {
                let worker = epochs.join();
                scope.spawn(move || setup.write(me, &worker, rounds));
            }
            for me in 0..READERS {
                let worker = epochs.join();
                scope.spawn(move || setup.read(me, &worker));
            }
            let worker = epochs.join();
            scope.spawn(move || setup.observe(0, &worker));
        });
        let worker = epochs.join();
        let footprint = setup.index.footprint(&worker.enter());
        assert_eq!(footprint.entries as u64, (0..universe).filter(|&n| stays(n)).count() as u64);
    }
}

/// Several threads draw ascending numbers and insert them; others remove the oldest. Nothing is lost, nothing is left.
#[test]
fn a_queue_of_several_producers_and_consumers() {
    KINDS.into_iter().filter(|&kind| kind.is_ordered()).for_each(queue);
}

fn queue(kind: IndexKind) {
    let count = if cfg!(miri) { 60 } else { 100_000 };
    let index = &Index::new(kind);
    let (drawn, taken) = (&AtomicU64::new(0), &AtomicU64::new(0));
    let epochs = EpochManager::new("test");
    thread::scope(|scope| {
        for _ in 0..2 {
            let worker = epochs.join();
            scope.spawn(move || {
                loop {
                    // A few at a time, each beside the one before: leaves split and empty meanwhile.
                    const AT_ONCE: u64 = 5;
                    let first = drawn.fetch_add(AT_ONCE, Ordering::Relaxed);
                    if first >= count {
                        return;
                    }
                    let (guard, mut near) = (worker.enter(), None);
                    for n in first..count.min(first + AT_ONCE) {
                        let insert = index.insert_near(&guard, near, &n.to_be_bytes(), RowId(n));
                        let Insert::Done(inserted) = insert else { panic!("{n} was there: {insert:?}") };
                        near = Some(inserted.near());
                    }
                }
            });
        }
        for _ in 0..2 {
            let worker = epochs.join();
            scope.spawn(move || {
                let mut batch = Batch::default();
                while taken.load(Ordering::Relaxed) < count {
                    let guard = worker.enter();
                    let mut cursor = index.cursor(&guard, Bound::Unbounded, Bound::Unbounded, Direction::Forward);
                    let mut removed = 0;
                    while removed == 0 && cursor.next_leaf(&mut batch, 3).is_some() {
                        for i in 0..batch.len() {
                            let done = index.remove_if(&guard, batch.key(i), batch.row(i), Stamp(1), Stamp(1), || true);
                            removed += u64::from(done);
                        }
                    }
                    taken.fetch_add(removed, Ordering::Relaxed);
                    drop(guard);
                    if removed == 0 {
                        thread::yield_now();
                    }
                    worker.reclaim(usize::MAX);
                }
            });
        }
    });
    let worker = epochs.join();
    let footprint = index.footprint(&worker.enter());
    let empty = Index::new(kind).footprint(&worker.enter());
    assert_eq!((footprint.entries, footprint.node_bytes), (0, empty.node_bytes), "{footprint:?}");
}

/// Threads insert the same keys: each key has one winner, and all threads agree on it.
#[test]
fn one_insert_of_each_key_wins() {
    KINDS.into_iter().for_each(race);
}

fn race(kind: IndexKind) {
    let count = if cfg!(miri) { 60 } else { 50_000 };
    let index = &Index::new(kind);
    let epochs = EpochManager::new("test");
    let wins: Vec<u64> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|me| {
                let worker = epochs.join();
                scope.spawn(move || {
                    let mut random = Random::with_seed(1);
                    let mut wins = 0;
                    for _ in 0..count {
                        let key = random.below(count).to_be_bytes();
                        match index.insert_if_absent(&worker.enter(), &key, RowId(me)) {
                            Insert::Done(_) => wins += 1,
                            Insert::Exists(row, _) => assert_eq!(index.get(&worker.enter(), &key).row, Some(row)),
                        }
                    }
                    wins
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let worker = epochs.join();
    let footprint = index.footprint(&worker.enter());
    assert_eq!(footprint.entries as u64, wins.iter().sum::<u64>());
}

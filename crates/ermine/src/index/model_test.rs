//! Goal: one thread sees exactly what a sorted map would show, for every kind of key.
//! Method: random operations on the index and on a `BTreeMap`, compared after each; seeds are printed, and fixed unless
//! `ERMINE_SEED` is set.

use super::{Batch, Direction, Index, IndexKind, Insert, Walk, key::LongKey};
use crate::{
    epoch::{EpochManager, Guard, Participant},
    ids::{RowId, Stamp},
    platform::budget::Budget,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
};

/// A small generator of our own: no dependency of the engine provides one.
pub(super) struct Random(u64);

impl Random {
    /// Seeds the generator from `ERMINE_SEED` or the default, and prints the seed.
    pub(super) fn new(default: u64) -> Self {
        let seed = std::env::var("ERMINE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(default);
        println!("ERMINE_SEED={seed}");
        Self::with_seed(seed)
    }

    pub(super) fn with_seed(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// splitmix64.
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// All kinds of index.
pub(super) const KINDS: [IndexKind; 3] = [IndexKind::BTree, IndexKind::Art, IndexKind::Hash];

type Shape = (&'static str, fn(u64) -> Vec<u8>);

/// Functions that make the `n`th key; they are chosen so that prefixes, extents and long keys all matter.
const SHAPES: [Shape; 8] = [
    ("u64", |n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec()),
    ("ascending u32", |n| (n as u32).to_be_bytes().to_vec()),
    ("few bytes, zeros", |n| (0..n % 7).map(|i| (n >> (i + 3)) as u8 & 1).collect()),
    ("composite", |n| {
        let mut key = ((n % 3) as u32).to_be_bytes().to_vec();
        key.push((n / 3 % 10) as u8);
        key.extend(((n / 30 % 400) as u32).to_be_bytes());
        key.push((n % 11) as u8);
        key
    }),
    ("64 bytes, one prefix", |n| {
        let mut key = vec![b'p'; 56];
        key.extend(n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        key
    }),
    ("64 bytes, many prefixes", |n| {
        let mut key = format!("tenant/{:04}/", n % 40).into_bytes();
        key.resize(50, b'x');
        key.extend(format!("{:08}", n / 40).bytes());
        key
    }),
    ("words of any length", |n| {
        let length = n % 30;
        (0..length).map(|i| b'a' + ((n >> (i % 8)) as u8 & 1)).collect()
    }),
    ("prefixes of each other", |n| vec![(n / 300) as u8; (n % 300) as usize]),
];

/// Whether an index frees the memory that it no longer needs, down to that of an empty one.
fn shrinks(kind: IndexKind) -> bool {
    kind != IndexKind::Hash
}

fn scan(
    index: &Index,
    guard: &Guard<'_>,
    lower: Bound<&[u8]>,
    upper: Bound<&[u8]>,
    direction: Direction,
    at_most: usize,
) -> Vec<(Vec<u8>, RowId)> {
    let mut batch = Batch::default();
    let mut cursor = index.cursor(guard, lower, upper, direction);
    let mut all = Vec::new();
    while cursor.next_leaf(&mut batch, at_most).is_some() {
        all.extend((0..batch.len()).map(|i| (batch.key(i).to_vec(), batch.row(i))));
    }
    assert!(cursor.next_leaf(&mut batch, at_most).is_none(), "an exhausted cursor stays exhausted");
    all
}

fn bound(random: &mut Random, key: &[u8]) -> Bound<Vec<u8>> {
    match random.below(5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Included(key.to_vec()),
        _ => Bound::Excluded(key.to_vec()),
    }
}

fn compare_scans(
    index: &Index,
    guard: &Guard<'_>,
    model: &BTreeMap<Vec<u8>, RowId>,
    random: &mut Random,
    keys: [Vec<u8>; 2],
) {
    if !index.kind().is_ordered() {
        return;
    }
    let (lower, upper) = (bound(random, &keys[0]), bound(random, &keys[1]));
    let above = |key: &[u8]| match &lower {
        Bound::Unbounded => true,
        Bound::Included(lower) => key >= lower.as_slice(),
        Bound::Excluded(lower) => key > lower.as_slice(),
    };
    let below = |key: &[u8]| match &upper {
        Bound::Unbounded => true,
        Bound::Included(upper) => key <= upper.as_slice(),
        Bound::Excluded(upper) => key < upper.as_slice(),
    };
    let mut expected: Vec<_> =
        model.iter().filter(|(key, _)| above(key) && below(key)).map(|(key, &row)| (key.clone(), row)).collect();
    let at_most = [1, 3, 1000][random.below(3) as usize];
    let (lower, upper) = (lower.as_ref().map(Vec::as_slice), upper.as_ref().map(Vec::as_slice));
    let forward = scan(index, guard, lower, upper, Direction::Forward, at_most);
    assert!(forward == expected, "forward {lower:?} {upper:?}: {} for {}", forward.len(), expected.len());
    expected.reverse();
    let backward = scan(index, guard, lower, upper, Direction::Backward, at_most);
    assert!(backward == expected, "backward {lower:?} {upper:?}: {} for {}", backward.len(), expected.len());
}

fn compare_walk(index: &Index, guard: &Guard<'_>, model: &BTreeMap<Vec<u8>, RowId>, count: usize) {
    let (mut walk, mut batch, mut all) = (Walk::default(), Batch::default(), Vec::new());
    while index.walk(guard, &mut walk, &mut batch, count) {
        all.extend((0..batch.len()).map(|i| (batch.key(i).to_vec(), batch.row(i))));
    }
    if !index.kind().is_ordered() {
        all.sort();
    }
    assert!(all.iter().map(|(key, row)| (key, row)).eq(model), "walked over {} for {}", all.len(), model.len());
}

/// Keys come and go between the steps of a scan, so that leaves split, empty and die under it: what stays is returned,
/// once and in order.
#[test]
fn a_scan_whose_leaves_change_between_its_steps_returns_what_stays() {
    let (rounds, most) = if cfg!(miri) { (1, 40) } else { (60, 400) };
    let kinds = KINDS.into_iter().filter(|kind| kind.is_ordered());
    let mut random = Random::new(21);
    for (kind, shape) in kinds.flat_map(|kind| SHAPES.map(|shape| (kind, shape))) {
        for direction in [Direction::Forward, Direction::Backward].repeat(rounds) {
            step_by_step(kind, shape.1, direction, &mut random, most);
        }
    }
}

fn step_by_step(kind: IndexKind, shape: fn(u64) -> Vec<u8>, direction: Direction, random: &mut Random, most: u64) {
    let epochs = EpochManager::new("test");
    let worker = epochs.join();
    let guard = worker.enter();
    let index = Index::new(kind);
    // Keys of a shape may be equal. Those that stay: one in three, or one in thirty, so that leaves become empty.
    let universe: BTreeSet<_> = (0..most).map(shape).collect();
    let one_in = [3, 30][random.below(2) as usize];
    let (stay, come): (Vec<_>, Vec<_>) = universe.into_iter().partition(|_| random.below(one_in) == 0);
    stay.iter().for_each(|key| _ = index.insert_if_absent(&guard, key, RowId(1)));
    let ends = [random.below(most), random.below(most)].map(shape);
    let (lower, upper) = (bound(random, &ends[0]), bound(random, &ends[1]));
    let (lower, upper) = (lower.as_ref().map(Vec::as_slice), upper.as_ref().map(Vec::as_slice));
    let at_most = [1, 3, 20, 1000][random.below(4) as usize];
    let (mut batch, mut found) = (Batch::default(), Vec::<Vec<u8>>::new());
    let mut cursor = index.cursor(&guard, lower, upper, direction);
    while cursor.next_leaf(&mut batch, at_most).is_some() {
        found.extend((0..batch.len()).map(|i| batch.key(i).to_vec()));
        let coming = random.below(2) == 0;
        for _ in 0..random.below(most) {
            let Some(key) = come.get(random.below(most) as usize) else { continue };
            if coming {
                index.insert_if_absent(&guard, key, RowId(2));
            } else {
                index.remove_if(&guard, key, RowId(2), Stamp(1), Stamp(1), || true);
            }
        }
    }
    if direction == Direction::Backward {
        found.reverse();
    }
    assert!(found.is_sorted_by(|one, next| one < next), "out of order or twice: {kind:?} {direction:?}");
    let is_within = |key: &&Vec<u8>| {
        let above = match lower {
            Bound::Unbounded => true,
            Bound::Included(lower) => key.as_slice() >= lower,
            Bound::Excluded(lower) => key.as_slice() > lower,
        };
        above
            && match upper {
                Bound::Unbounded => true,
                Bound::Included(upper) => key.as_slice() <= upper,
                Bound::Excluded(upper) => key.as_slice() < upper,
            }
    };
    found.retain(|key| stay.binary_search(key).is_ok());
    assert!(found.iter().eq(stay.iter().filter(is_within)), "missed: {kind:?} {direction:?} {at_most} at a time");
}

/// Random operations on a small universe of keys, in phases that grow and shrink the tree down to nothing.
fn run(kind: IndexKind, shape: Shape, seed: u64, operations: u64, universe: u64) {
    println!("{kind:?} {}", shape.0);
    let mut random = Random::new(seed);
    let epochs = EpochManager::new("test");
    let worker = epochs.join();
    let mut model = BTreeMap::new();
    let mut index = Index::new(kind);
    let mut next_row = 0;
    for step in 0..operations {
        let guard = worker.enter();
        let key = shape.1(random.below(universe));
        let growing = (step / (operations / 6)).is_multiple_of(2);
        match random.below(100) {
            0..70 if growing == (random.below(10) < 8) => {
                let (mut key, mut near) = (key, None);
                for _ in 0..=random.below(3) {
                    next_row += 1;
                    match index.insert_near(&guard, near, &key, RowId(next_row)) {
                        Insert::Exists(row, _) => assert_eq!(model.get(&key), Some(&row)),
                        Insert::Done(inserted) => {
                            near = Some(inserted.near());
                            assert_eq!(model.insert(key, RowId(next_row)), None);
                        }
                    }
                    key = shape.1(random.below(universe));
                }
            }
            0..70 => {
                let row = model.get(&key).copied().unwrap_or(RowId(0));
                assert!(!index.remove_if(&guard, &key, RowId(row.0 + 1), Stamp(1), Stamp(1), || true));
                assert!(!index.remove_if(&guard, &key, row, Stamp(1), Stamp(1), || false));
                let removed = index.remove_if(&guard, &key, row, Stamp(step), Stamp(step), || true);
                assert_eq!(removed, model.remove(&key).is_some());
            }
            70..99 => assert_eq!(index.get(&guard, &key).row, model.get(&key).copied(), "{key:?}"),
            _ => {
                let other = shape.1(random.below(universe));
                compare_scans(&index, &guard, &model, &mut random, [key, other]);
            }
        }
        drop(guard);
        if step % (operations / 4) == operations / 8 {
            compare_walk(&index, &worker.enter(), &model, 1 + random.below(100) as usize);
            index = Index::bulk_load(kind, &worker, model.iter().map(|(key, &row)| (key, row)));
        }
        worker.reclaim(8);
    }
    let guard = worker.enter();
    for (key, &row) in &model {
        assert_eq!(index.get(&guard, key).row, Some(row));
    }
    assert_eq!(index.footprint(&guard).entries, model.len());
    for (key, row) in std::mem::take(&mut model) {
        assert!(index.remove_if(&guard, &key, row, Stamp(1), Stamp(1), || true));
    }
    let footprint = index.footprint(&guard);
    assert_eq!(footprint.entries, 0, "{footprint:?}");
    // The last leaf may keep its prefix.
    assert!(footprint.long_key_bytes <= LongKey::footprint(300), "{footprint:?}");
    if shrinks(kind) {
        assert_eq!(footprint.node_bytes, Index::new(kind).footprint(&guard).node_bytes, "{footprint:?}");
    }
    compare_scans(&index, &guard, &model, &mut random, [shape.1(1), shape.1(2)]);
}

#[test]
fn every_shape_of_key_agrees_with_a_sorted_map() {
    let operations = if cfg!(miri) { 300 } else { 60_000 };
    for (seed, shape) in SHAPES.into_iter().enumerate() {
        for kind in KINDS {
            run(kind, shape, seed as u64 + 1, operations, operations / 6);
            run(kind, shape, seed as u64 + 11, operations / 3, 200);
        }
    }
}

/// Frees everything that was retired: its epoch closes with the second one after it.
fn settle(epochs: &EpochManager, worker: &Participant) {
    for _ in 0..4 {
        let _ = epochs.try_advance();
        worker.reclaim(usize::MAX);
    }
}

/// The bytes counted by inserts are those that the index takes, and removing everything frees all of them: nothing is
/// counted twice or left out.
#[test]
fn what_is_counted_is_what_the_index_takes() {
    let count = if cfg!(miri) { 200 } else { 30_000 };
    for (shape, kind) in SHAPES.iter().flat_map(|shape| KINDS.map(|kind| (shape, kind))) {
        let budget = Arc::new(Budget::unlimited());
        let epochs = EpochManager::counted_by("test", budget.clone());
        let keys: BTreeSet<_> = (0..count).map(|n| shape.1(n)).collect();
        let index = Index::new(kind);
        let empty = index.footprint(&epochs.join().enter()).bytes() as u64;
        for round in 0..2 {
            // A participant settles when it is dropped.
            let worker = epochs.join();
            for key in &keys {
                index.insert_if_absent(&worker.enter(), key, RowId(1));
                worker.reclaim(8);
            }
            settle(&epochs, &worker);
            let takes = index.footprint(&worker.enter()).bytes() as u64;
            drop(worker);
            let counted = budget.taken();
            let bounds = takes - empty..=takes * 2;
            assert!(bounds.contains(&counted), "{kind:?}, {}, {round}: {counted}, not {bounds:?}", shape.0);
            let worker = epochs.join();
            for key in &keys {
                assert!(index.remove_if(&worker.enter(), key, RowId(1), Stamp(1), Stamp(1), || true));
            }
            settle(&epochs, &worker);
            drop(worker);
            let left = index.footprint(&epochs.join().enter()).bytes() as u64;
            let counted = budget.taken();
            assert!(counted <= left * 2, "{kind:?}, {}: {counted} are left, and it takes {left}", shape.0);
        }
    }
}

#[test]
fn bulk_loads_of_every_size_around_the_boundaries() {
    let epochs = EpochManager::new("test");
    let worker = epochs.join();
    let guard = worker.enter();
    // Sizes of the B+-tree's nodes.
    let sizes = [0, 1, 57, 58, 59, 58 * 62, 58 * 62 + 60];
    for (size, kind) in sizes[..if cfg!(miri) { 4 } else { 7 }].iter().flat_map(|size| KINDS.map(|kind| (size, kind))) {
        let model: BTreeMap<_, _> = (0..*size as u64).map(|n| (SHAPES[4].1(n), RowId(n))).collect();
        let index = Index::bulk_load(kind, &worker, model.iter().map(|(key, &row)| (key, row)));
        for (key, &row) in &model {
            assert_eq!(index.get(&guard, key).row, Some(row));
        }
        if !kind.is_ordered() {
            continue;
        }
        let all = scan(&index, &guard, Bound::Unbounded, Bound::Unbounded, Direction::Forward, 1000);
        assert!(all.into_iter().eq(model));
    }
}

#[test]
#[should_panic(expected = "ascending")]
fn bulk_load_refuses_entries_out_of_order() {
    let worker = EpochManager::new("test").join();
    Index::bulk_load(IndexKind::BTree, &worker, [(b"b", RowId(1)), (b"a", RowId(2))]);
}

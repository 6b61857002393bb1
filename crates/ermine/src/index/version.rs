//! The word that lets readers of a node do without writing to it, and the stamps that connect scans with inserts.
//!
//! Every node begins with a [`Version`]: a lock bit, a dead bit and two counters in one word. A reader takes the word,
//! reads the node, and uses the result if the word is still the same ([`Version::is_still`]); a writer locks, changes,
//! and unlocks with another count (optimistic lock coupling; Leis et al., "The ART of Practical Synchronization").
//!
//! ```text
//!  63            32 31               2    1      0
//! +----------------+------------------+------+--------+
//! | phantom        | structural       | dead | locked |
//! +----------------+------------------+------+--------+
//! ```
//!
//! A leaf has a [`Coverage`] instead: the version, and the stamps of the transactions that relied on keys *not* being
//! in the leaf. A scan (or a lookup that missed) commits by raising the gap stamp and *then* checking the version; an
//! insert locks the version and *then* reads the gap stamp. One of them sees the other, whatever the machine reorders.
//!
//! Invariants:
//! 1. The word as a whole changes whenever anything that a reader may have read under it changes.
//! 2. The phantom count changes when a key enters the leaf or part of the leaf's range leaves it, and at no other time.
//! 3. A dead node never becomes live again, and its phantom count stays as it was at its death.
//! 4. Gap and removed stamps never fall.
//!
//! Only this module's parent may use it.

use crate::{
    ids::Stamp,
    sync::{AtomicPtr, AtomicU64, Ordering, Spin, fence},
};
use std::ptr::{self, NonNull};

const LOCKED: u64 = 1;
const DEAD: u64 = 1 << 1;
const STRUCTURAL_UNIT: u64 = 1 << 2;
const STRUCTURAL_MASK: u64 = 0xffff_fffc;
const PHANTOM_UNIT: u64 = 1 << 32;

/// A read was inconsistent, or of a dead node: start again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Torn;

/// How often keys have entered a leaf or parts of its range have left it, modulo 2^32.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct LeafVersion(u32);

impl LeafVersion {
    /// The version of a leaf into which nothing was ever inserted.
    pub(super) const FIRST: Self = Self(0);

    pub(super) fn as_u64(self) -> u64 {
        self.0.into()
    }

    pub(super) fn from_u64(number: u64) -> Self {
        Self(u32::try_from(number).expect("leaf versions have 32 bits"))
    }
}

/// The version word of a node that was neither locked nor dead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Seen(u64);

impl Seen {
    pub(super) fn phantom(self) -> LeafVersion {
        phantom_of(self.0)
    }
}

fn phantom_of(word: u64) -> LeafVersion {
    LeafVersion((word >> 32) as u32)
}

/// The version word of a node.
pub(crate) struct Version(AtomicU64);

impl Version {
    pub(super) fn new(phantom: LeafVersion) -> Self {
        Self(AtomicU64::new(phantom.as_u64() << 32))
    }

    /// Returns the word for [`is_still`](Self::is_still); waits while a writer holds the lock. None if the node is
    /// dead.
    #[inline]
    pub(super) fn observe(&self) -> Option<Seen> {
        // Acquire pairs with the Release store of `Locked::drop`: the last writer's stores are visible.
        let word = self.0.load(Ordering::Acquire);
        if word & (LOCKED | DEAD) == 0 { Some(Seen(word)) } else { self.observe_busy() }
    }

    #[cold]
    fn observe_busy(&self) -> Option<Seen> {
        let word = self.settled();
        (word & DEAD == 0).then_some(Seen(word))
    }

    /// Returns the word once no writer holds the lock.
    fn settled(&self) -> u64 {
        let mut spin = Spin::default();
        loop {
            // Acquire: as in `observe`.
            let word = self.0.load(Ordering::Acquire);
            if word & LOCKED == 0 {
                return word;
            }
            spin.wait();
        }
    }

    /// Whether nothing changed since `seen` was observed, so that everything read meanwhile is consistent.
    #[inline]
    pub(super) fn is_still(&self, seen: Seen) -> bool {
        // Pairs with the fence in `lock`: if one of the (relaxed) reads before this saw a store made under a lock,
        // then the load below sees that lock or something later.
        fence(Ordering::Acquire);
        self.0.load(Ordering::Relaxed) == seen.0
    }

    /// Locks the node if nothing changed since `seen` was observed.
    pub(super) fn lock(&self, seen: Seen) -> Option<Locked<'_>> {
        // Acquire pairs with the Release store of the previous `Locked::drop`.
        self.0.compare_exchange(seen.0, seen.0 | LOCKED, Ordering::Acquire, Ordering::Relaxed).ok()?;
        // Three pairs. With the fence in `is_still`: no store of ours is seen without the lock. With the fence in
        // `Coverage::validate`: either the validator sees the lock or we see its gap stamp. With the fence in
        // `rows::chain::installed`: either the writer of a version sees the lock or we see its version.
        fence(Ordering::SeqCst);
        let structural = seen.0.wrapping_add(STRUCTURAL_UNIT) & STRUCTURAL_MASK;
        Some(Locked { version: self, before: seen, after: seen.0 & !STRUCTURAL_MASK | structural })
    }

    /// Locks the node in its current state, without waiting; None if it is locked or dead. For threads that hold locks
    /// already.
    pub(super) fn try_lock(&self) -> Option<Locked<'_>> {
        let word = self.0.load(Ordering::Relaxed);
        if word & (LOCKED | DEAD) == 0 { self.lock(Seen(word)) } else { None }
    }
}

/// For trees whose nodes have reader-writer locks. The structural count is a count of readers there: no thread reads
/// without being counted, so nothing else needs the count.
impl Version {
    /// Counts a reader in; waits while a writer holds the lock. None if the node is dead.
    #[inline]
    pub(super) fn share(&self) -> Option<Shared<'_>> {
        let mut spin = Spin::default();
        loop {
            let word = self.0.load(Ordering::Relaxed);
            if word & DEAD != 0 {
                return None;
            }
            // Acquire pairs with the Release store of `Locked::drop`.
            let counted = word & LOCKED == 0
                && self
                    .0
                    .compare_exchange_weak(word, word + STRUCTURAL_UNIT, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok();
            if counted {
                return Some(Shared(self));
            }
            spin.wait();
        }
    }

    /// Returns the word; the caller makes sure that no thread changes the node.
    #[inline]
    pub(super) fn as_it_is(&self) -> Seen {
        Seen(self.0.load(Ordering::Relaxed))
    }
}

/// A reader that is counted. Dropping it counts it out.
pub(crate) struct Shared<'n>(&'n Version);

impl<'n> Shared<'n> {
    pub(super) fn seen(&self) -> Seen {
        self.0.as_it_is()
    }

    /// Turns the reader into the writer if there is no other reader; otherwise counts it out.
    pub(super) fn upgrade(self) -> Option<Locked<'n>> {
        let version = self.0;
        let word = version.0.load(Ordering::Relaxed);
        let alone = word & !STRUCTURAL_MASK;
        // Acquire pairs with the Release of the readers that were counted out, and of the last writer.
        let locked = word & STRUCTURAL_MASK == STRUCTURAL_UNIT
            && version.0.compare_exchange(word, alone | LOCKED, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if !locked {
            return None;
        }
        std::mem::forget(self);
        // Pairs with the fences in `Coverage::validate` and `rows::chain::installed`: as in `lock`.
        fence(Ordering::SeqCst);
        Some(Locked { version, before: Seen(alone), after: alone })
    }
}

impl Drop for Shared<'_> {
    fn drop(&mut self) {
        // Release pairs with the Acquire of `upgrade`: this reader's reads happen before the next writer's writes.
        self.0.0.fetch_sub(STRUCTURAL_UNIT, Ordering::Release);
    }
}

/// A lock on a node. Dropping it unlocks the node and makes every reader's observation void.
pub(crate) struct Locked<'n> {
    version: &'n Version,
    before: Seen,
    after: u64,
}

impl Locked<'_> {
    /// Returns the phantom version before and (once unlocked) after.
    pub(super) fn phantoms(&self) -> (LeafVersion, LeafVersion) {
        (self.before.phantom(), phantom_of(self.after))
    }

    /// Called when a key has entered the leaf, or part of its range has left it.
    pub(super) fn bump_phantom(&mut self) {
        self.after = self.after.wrapping_add(PHANTOM_UNIT);
    }

    /// Called when the node is out of the tree.
    pub(super) fn mark_dead(&mut self) {
        self.after |= DEAD;
    }

    /// Unlocks a node that was not changed: observations stay valid.
    pub(super) fn release_unchanged(mut self) {
        self.after = self.before.0;
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // Release pairs with the Acquire loads of `observe` and `lock`.
        self.version.0.store(self.after, Ordering::Release);
    }
}

/// The result of checking an observation of a leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Unchanged,
    Changed,
    /// Nothing was inserted until the leaf died and another node got its range: check that node.
    Absorbed,
}

/// The version of a leaf and the stamps of the transactions that relied on keys missing from its range.
#[repr(C)]
pub(super) struct Coverage {
    pub(super) version: Version,
    /// The highest stamp of a committed scan of, or miss in, this leaf.
    gap: AtomicU64,
    /// The highest stamp of a key removed from this leaf.
    removed: AtomicU64,
    /// Of a dead leaf: the leaf that has its range now.
    absorber: AtomicPtr<Coverage>,
    /// Of a dead leaf: the absorber's phantom version when it got the range. Of a live one: its own phantom version
    /// when it last got the range of another leaf, if it ever did.
    absorber_version: AtomicU64,
}

impl Coverage {
    pub(super) fn new(phantom: LeafVersion, gap: Stamp, removed: Stamp) -> Self {
        Self {
            version: Version::new(phantom),
            gap: AtomicU64::new(gap.0),
            removed: AtomicU64::new(removed.0),
            absorber: AtomicPtr::new(ptr::null_mut()),
            absorber_version: AtomicU64::new(0),
        }
    }

    /// Returns the highest stamp of a removed key. Belongs to an observation only if `is_still` says so afterwards.
    #[inline]
    pub(super) fn removed(&self) -> Stamp {
        Stamp(self.removed.load(Ordering::Relaxed))
    }

    /// Returns the highest stamp of a scan, a miss or a removed key. Belongs to an observation as
    /// [`removed`](Self::removed) does.
    pub(super) fn last_looked(&self) -> Stamp {
        // Relaxed: ordered by the observation of the version before it.
        Stamp(self.gap.load(Ordering::Relaxed)).max(self.removed())
    }

    /// Raises the gap stamp, then checks whether keys have entered since `seen` or are about to.
    pub(super) fn validate(&self, seen: LeafVersion, stamp: Stamp) -> Verdict {
        self.raise_gap(stamp);
        // Pairs with the fence in `Version::lock`: either the load in `settled` sees the lock (or its release), or the
        // locker's load of the gap stamp, which is ordered after its fence, sees ours.
        fence(Ordering::SeqCst);
        let word = self.version.settled();
        if phantom_of(word) != seen {
            Verdict::Changed
        } else if word & DEAD != 0 {
            Verdict::Absorbed
        } else {
            Verdict::Unchanged
        }
    }

    /// Returns the stamps as they are once the lock is held: no validator that this misses can succeed.
    pub(super) fn stamps(&self, _locked: &Locked<'_>) -> (Stamp, Stamp) {
        // Relaxed: ordered by the fence in `Version::lock`.
        (Stamp(self.gap.load(Ordering::Relaxed)), Stamp(self.removed.load(Ordering::Relaxed)))
    }

    /// Raises both stamps under the lock.
    pub(super) fn raise(&self, gap: Stamp, removed: Stamp, _locked: &Locked<'_>) {
        self.raise_stamps(gap, removed);
    }

    /// Hands range and stamps over to `absorber`, whose phantom version will be `version`; its lock is held, or no
    /// other thread has it yet. The caller marks this leaf dead.
    pub(super) fn hand_over(&self, locked: &Locked<'_>, absorber: &Self, version: LeafVersion) {
        let (gap, removed) = self.stamps(locked);
        absorber.raise_stamps(gap, removed);
        // Relaxed: `is_heir_at` reads it under the same lock, and `absorber` only once the leaf is seen dead.
        absorber.absorber_version.store(version.as_u64(), Ordering::Relaxed);
        self.absorber.store(ptr::from_ref(absorber).cast_mut(), Ordering::Relaxed);
        self.absorber_version.store(version.as_u64(), Ordering::Relaxed);
    }

    /// Whether a dead leaf names this version of the live leaf. Before the first one, version 0 counts as named.
    pub(super) fn is_heir_at(&self, version: LeafVersion, _locked: &Locked<'_>) -> bool {
        // Relaxed: written under the lock that the caller holds.
        self.absorber_version.load(Ordering::Relaxed) == version.as_u64()
    }

    /// Returns the leaf that has the range now, and since which version, if this leaf has died with no insert since
    /// `seen`.
    pub(super) fn heir(&self, seen: LeafVersion) -> Option<(NonNull<Self>, LeafVersion)> {
        let word = self.version.settled();
        (word & DEAD != 0 && phantom_of(word) == seen).then(|| self.absorber())
    }

    /// Returns the leaf that has the range of this one, which the caller has seen dead.
    pub(super) fn absorber(&self) -> (NonNull<Self>, LeafVersion) {
        // Relaxed: stored before the death that the caller has seen.
        let absorber = NonNull::new(self.absorber.load(Ordering::Relaxed)).expect("dead leaves have an absorber");
        (absorber, LeafVersion::from_u64(self.absorber_version.load(Ordering::Relaxed)))
    }

    fn raise_stamps(&self, gap: Stamp, removed: Stamp) {
        self.raise_gap(gap);
        // Only lock holders write this stamp.
        if removed > self.removed() {
            self.removed.store(removed.0, Ordering::Relaxed);
        }
    }

    fn raise_gap(&self, stamp: Stamp) {
        // Relaxed: ordered by the fence in `validate`, or by the lock. A stamp that is high enough was put there by a
        // thread whose write this load has read, which orders it as if it were ours.
        if self.gap.load(Ordering::Relaxed) < stamp.0 {
            self.gap.fetch_max(stamp.0, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn inserting_changes_the_phantom_version_and_other_changes_do_not() {
        let version = Version::new(LeafVersion::FIRST);
        let first = version.observe().unwrap();
        drop(version.lock(first).unwrap());
        let second = version.observe().unwrap();
        assert_ne!(first, second);
        assert_eq!(first.phantom(), second.phantom());
        version.lock(second).unwrap().bump_phantom();
        let third = version.observe().unwrap();
        assert_ne!(second.phantom(), third.phantom());
        assert!(version.lock(second).is_none());
        version.lock(third).unwrap().release_unchanged();
        assert!(version.is_still(third));
    }

    #[test]
    fn counters_wrap_without_touching_each_other() {
        let version = Version(AtomicU64::new(!(LOCKED | DEAD)));
        drop(version.try_lock().unwrap());
        let seen = version.observe().unwrap();
        assert_eq!(seen.phantom(), LeafVersion(u32::MAX));
        assert_eq!(seen.0 & STRUCTURAL_MASK, 0);
        let mut lock = version.lock(seen).unwrap();
        lock.bump_phantom();
        drop(lock);
        assert_eq!(version.observe().unwrap().phantom(), LeafVersion(0));
    }

    #[test]
    fn a_dead_node_keeps_its_phantom_version() {
        let coverage = Coverage::new(LeafVersion(7), Stamp(1), Stamp(2));
        let mut lock = coverage.version.try_lock().unwrap();
        assert_eq!(coverage.stamps(&lock), (Stamp(1), Stamp(2)));
        coverage.raise(Stamp(3), Stamp(1), &lock);
        assert_eq!(coverage.stamps(&lock), (Stamp(3), Stamp(2)));
        lock.mark_dead();
        drop(lock);
        assert!(coverage.version.observe().is_none());
        assert!(coverage.version.try_lock().is_none());
        assert_eq!(coverage.validate(LeafVersion(7), Stamp(9)), Verdict::Absorbed);
        assert_eq!(coverage.validate(LeafVersion(8), Stamp(9)), Verdict::Changed);
    }
}

/// Each model runs the code above under every interleaving that the memory model allows (within the preemption bound).
#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::{
        ids::Tid,
        rows::{
            arena::Pool,
            chain::{Below, Kind, NewVersion, RowSlot, installed},
        },
    };
    use loom::{sync::Arc, thread};

    const SCAN: Stamp = Stamp(10);

    struct Leaf {
        coverage: Coverage,
        words: [AtomicU64; 2],
    }

    fn leaf() -> Arc<Leaf> {
        Arc::new(Leaf {
            coverage: Coverage::new(LeafVersion::FIRST, Stamp::ZERO, Stamp::ZERO),
            words: [AtomicU64::new(0), AtomicU64::new(0)],
        })
    }

    /// Inserts a key; returns the gap stamp that the inserter saw.
    fn insert(leaf: &Leaf) -> Stamp {
        loop {
            let Some(seen) = leaf.coverage.version.observe() else { unreachable!("no thread removes this leaf") };
            let Some(mut lock) = leaf.coverage.version.lock(seen) else { continue };
            let (gap, _) = leaf.coverage.stamps(&lock);
            for word in &leaf.words {
                word.store(word.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            }
            lock.bump_phantom();
            return gap;
        }
    }

    /// A validated read never saw half of a change.
    #[test]
    fn loom_a_believed_read_is_whole() {
        loom::model(|| {
            let leaf = leaf();
            // The writer is the main thread: loom explores nothing where that thread only loads.
            let reader = thread::spawn({
                let leaf = leaf.clone();
                move || {
                    let seen = leaf.coverage.version.observe().unwrap();
                    let read = [0, 1].map(|i| leaf.words[i].load(Ordering::Relaxed));
                    if leaf.coverage.version.is_still(seen) {
                        assert_eq!(read[0], read[1], "torn");
                        assert_eq!(read[0], seen.phantom().as_u64(), "not what the version says");
                    }
                }
            });
            insert(&leaf);
            reader.join().unwrap();
        });
    }

    /// An entry, and the row that it leads to.
    struct Entry {
        coverage: Coverage,
        /// Whether the leaf contains the entry.
        there: AtomicU64,
        row: RowSlot<()>,
    }

    /// Removes the entry unless a version of its row belongs to it, as `remove_if` does.
    fn remove_unused(entry: &Entry) {
        loop {
            let Some(seen) = entry.coverage.version.observe() else { unreachable!("no thread kills this leaf") };
            let Some(lock) = entry.coverage.version.lock(seen) else { continue };
            if entry.row.head().is_some() {
                lock.release_unchanged();
            } else {
                entry.there.store(0, Ordering::Relaxed);
            }
            return;
        }
    }

    /// Makes sure that the entry exists, as `insert_if_absent` does.
    fn add(entry: &Entry) {
        loop {
            let Some(seen) = entry.coverage.version.observe() else { unreachable!("no thread kills this leaf") };
            let there = entry.there.load(Ordering::Relaxed) == 1;
            if there && entry.coverage.version.is_still(seen) {
                return;
            }
            if let Some(_lock) = entry.coverage.version.lock(seen) {
                entry.there.store(1, Ordering::Relaxed);
                return;
            }
        }
    }

    /// A writer that inserts a key again and a worker that removes its entry: a version that is installed has its
    /// entry.
    #[test]
    fn loom_a_version_and_the_removal_of_its_entry_see_each_other() {
        loom::model(|| {
            let pool = Pool::unlimited();
            let entry = Arc::new(Entry {
                coverage: Coverage::new(LeafVersion::FIRST, Stamp::ZERO, Stamp::ZERO),
                there: AtomicU64::new(1),
                row: RowSlot::empty(),
            });
            let remover = thread::spawn({
                let entry = entry.clone();
                move || remove_unused(&entry)
            });
            let new = NewVersion { kind: Kind::Live, tid: Tid(1 << 16), below: Below::Nothing, write: 0, payload: &[] };
            entry.row.push(&mut pool.arena(), None, new).expect("no other thread writes the row");
            installed();
            add(&entry);
            remover.join().unwrap();
            assert_eq!(entry.there.load(Ordering::Relaxed), 1, "a version without its entry");
        });
    }

    /// A scan that validates and an insert that it has not seen: the insert sees the scan's stamp.
    #[test]
    fn loom_scan_or_insert_sees_the_other() {
        loom::model(|| {
            let leaf = leaf();
            let inserter = thread::spawn({
                let leaf = leaf.clone();
                move || insert(&leaf)
            });
            let seen = leaf.coverage.version.observe().unwrap();
            let valid = leaf.coverage.validate(seen.phantom(), SCAN) == Verdict::Unchanged;
            let gap = inserter.join().unwrap();
            let inserted_before = seen.phantom() != LeafVersion::FIRST;
            assert!(!valid || inserted_before || gap >= SCAN, "neither saw the other");
        });
    }

    /// The same when another validator, stopped half-way, has raised the stamp already, so that this one writes
    /// nothing.
    #[test]
    fn loom_a_stamp_that_was_high_enough_counts_too() {
        loom::model(|| {
            let leaf = leaf();
            let other = thread::spawn({
                let leaf = leaf.clone();
                move || leaf.coverage.raise_gap(SCAN)
            });
            let inserter = thread::spawn({
                let leaf = leaf.clone();
                move || insert(&leaf)
            });
            let valid = leaf.coverage.validate(LeafVersion::FIRST, SCAN) == Verdict::Unchanged;
            other.join().unwrap();
            let gap = inserter.join().unwrap();
            assert!(!valid || gap >= SCAN, "neither saw the other");
        });
    }

    /// A scan of a leaf that is absorbed meanwhile: the insert into the absorber sees the stamp or the scan fails.
    #[test]
    fn loom_absorbing_a_leaf_loses_no_scan() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let empty = leaf();
            let absorber = leaf();
            let inserter = thread::spawn({
                let (empty, absorber) = (empty.clone(), absorber.clone());
                move || {
                    {
                        let mut dying = empty.coverage.version.try_lock().unwrap();
                        let taking = absorber.coverage.version.try_lock().unwrap();
                        empty.coverage.hand_over(&dying, &absorber.coverage, taking.phantoms().0);
                        dying.mark_dead();
                    }
                    insert(&absorber)
                }
            });
            let valid = match empty.coverage.validate(LeafVersion::FIRST, SCAN) {
                Verdict::Absorbed => absorber.coverage.validate(LeafVersion::FIRST, SCAN) == Verdict::Unchanged,
                verdict => verdict == Verdict::Unchanged,
            };
            let gap = inserter.join().unwrap();
            assert!(!valid || gap >= SCAN, "neither saw the other");
        });
    }
    /// A scan of a leaf that is split meanwhile: the insert into the new half sees the stamp or the scan fails.
    #[test]
    fn loom_splitting_a_leaf_loses_no_scan() {
        loom::model(|| {
            let (old, new) = (leaf(), leaf());
            let inserter = thread::spawn({
                let (old, new) = (old.clone(), new.clone());
                move || {
                    {
                        let mut splitting = old.coverage.version.try_lock().unwrap();
                        splitting.bump_phantom();
                        let (gap, removed) = old.coverage.stamps(&splitting);
                        new.coverage.raise_stamps(gap, removed);
                    }
                    insert(&new)
                }
            });
            let valid = old.coverage.validate(LeafVersion::FIRST, SCAN) == Verdict::Unchanged;
            let gap = inserter.join().unwrap();
            assert!(!valid || gap >= SCAN, "neither saw the other");
        });
    }

    /// A leaf that is replaced by a larger one, which has one more key: a transaction that scanned the leaf fails, or
    /// the insert has seen the stamp.
    #[test]
    fn loom_replacing_a_leaf_by_an_insert_loses_no_scan() {
        loom::model(|| {
            let (old, new) = (leaf(), leaf());
            let inserter = thread::spawn({
                let (old, new) = (old.clone(), new.clone());
                move || {
                    let mut dying = old.coverage.version.try_lock().unwrap();
                    let (gap, _) = old.coverage.stamps(&dying);
                    dying.bump_phantom();
                    old.coverage.hand_over(&dying, &new.coverage, dying.phantoms().1);
                    dying.mark_dead();
                    gap
                }
            });
            let verdict = old.coverage.validate(LeafVersion::FIRST, SCAN);
            let gap = inserter.join().unwrap();
            assert_ne!(verdict, Verdict::Absorbed, "an insert is no mere absorbing");
            assert!(verdict != Verdict::Unchanged || gap >= SCAN, "neither saw the other");
            assert_eq!(old.coverage.heir(LeafVersion(1)).map(|(_, version)| version), Some(LeafVersion(1)));
        });
    }
}

//! Leaves and inner nodes.
//!
//! ```text
//!            Inner   version | separators s0 s1 ..   | children c0 c1 c2 ..        keys k of ci: s(i-1) <= k < s(i)
//!             |   \
//!          Leaf <-> Leaf     coverage | keys and rows | upper fence | next, prev | absorber
//! ```
//!
//! Invariants:
//! 1. Every field is an atomic word; the [`Version`] is the first in both kinds, so that a pointer to a node can be
//!    taken for one to its version before the kind is known.
//! 2. While the tree is at rest, leaves are linked in key order both ways, and a leaf's upper fence is where the range
//!    of the next begins. Only the holder of a leaf's lock may change its `next`, its fence, and the `prev` of the leaf
//!    that `next` names.
//! 3. Among live leaves, the lower end of a leaf's range never rises: a split leaves the lower part where it was. The
//!    upper end falls when the leaf is split: a scan that has read a part of a leaf from above finds the rest there only
//!    if the upper fence still is above that rest.
//! 4. A node is retired after it was marked dead, and marked dead under its lock after nothing in the tree led to it.
//! 5. Every byte of a node is part of an atomic, none is padding: so a pointer made from a shared reference may be used
//!    to free the node once no other thread has it.

use super::{
    LeafPtr,
    entries::Entries,
    key::{HEAD, LongKey, Word, head_of},
    keys::{Keys, long_bytes},
    version::{Coverage, LeafVersion, Seen, Torn, Version},
};
use crate::{
    epoch::Guard,
    ids::{RowId, Stamp},
    platform::{blocks::Blocks, prefetch},
    sync::{AtomicPtr, AtomicU64, Ordering},
};
use std::{cmp, ptr, ptr::NonNull};

/// Leaves are 1 KiB: 58 entries of 16 bytes.
pub(super) const LEAF_KEYS: usize = 58;
/// Inner nodes are 1.5 KiB.
pub(super) const INNER_KEYS: usize = 62;

/// A node of either kind, by its first field.
pub(super) type NodePtr = *mut Version;

#[repr(C, align(64))]
pub(super) struct Leaf {
    pub(super) coverage: Coverage,
    pub(super) keys: Keys<LEAF_KEYS>,
    /// The end of the leaf's range.
    pub(super) upper: Fence,
    pub(super) next: AtomicPtr<Leaf>,
    pub(super) prev: AtomicPtr<Leaf>,
    /// Fills the last line: see invariant 5.
    _unused: [AtomicU64; 1],
}

#[repr(C, align(64))]
pub(super) struct Inner {
    pub(super) version: Version,
    pub(super) separators: Keys<INNER_KEYS>,
    children: [AtomicPtr<Version>; INNER_KEYS + 1],
    /// Fills the last line: see invariant 5.
    _unused: [AtomicU64; 2],
}

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<Leaf>() == 1024);
    assert!(size_of::<Inner>() == 1536);
    assert!(std::mem::offset_of!(Leaf, coverage) == 0);
    assert!(std::mem::offset_of!(Inner, version) == 0);
};

/// The leaf that a descent looks for.
#[derive(Clone, Copy)]
pub(super) enum Target<'k> {
    /// The leaf whose range contains this key.
    At(&'k [u8]),
    /// The leaf whose range contains the keys just below this one.
    Below(&'k [u8]),
    /// The rightmost leaf.
    Last,
}

/// The memory of nodes.
static LEAVES: Blocks<Leaf> = Blocks::new();
static INNER_NODES: Blocks<Inner> = Blocks::new();

impl Leaf {
    /// Bytes of a leaf.
    pub(super) const BYTES: usize = size_of::<Self>();

    /// Creates an empty leaf, which lives until it is freed.
    pub(super) fn create<'a>(phantom: LeafVersion, gap: Stamp, removed: Stamp) -> &'a Self {
        let leaf = LEAVES.place(Self {
            coverage: Coverage::new(phantom, gap, removed),
            keys: Keys::new(),
            upper: Fence::new(),
            next: AtomicPtr::new(ptr::null_mut()),
            prev: AtomicPtr::new(ptr::null_mut()),
            _unused: [AtomicU64::new(0)],
        });
        // SAFETY: fresh; it belongs to the caller, and is never changed but through its atomics.
        unsafe { leaf.as_ref() }
    }

    /// Returns the pointer to the leaf that its parent keeps.
    pub(super) fn as_node(&self) -> NodePtr {
        ptr::from_ref(self).cast_mut().cast()
    }

    /// Returns the name of the leaf, which is a pointer to the whole of it.
    #[inline]
    pub(super) fn name(&self) -> LeafPtr {
        LeafPtr(NonNull::from(self).cast())
    }

    #[inline]
    pub(super) fn version(&self) -> &Version {
        &self.coverage.version
    }

    /// Starts loading the whole leaf: a lookup needs the heads, then one line of words, and two latencies in sequence
    /// take twice as long as one.
    #[inline(always)]
    pub(super) fn prefetch(this: *const Self) {
        prefetch::lines(this.cast(), size_of::<Self>() / 64);
    }

    /// Frees the leaf, but nothing that it points to.
    ///
    /// # Safety
    /// `this` is a leaf that no other thread has.
    pub(super) unsafe fn free(this: NonNull<u8>) -> usize {
        // SAFETY: promised by the caller.
        unsafe { LEAVES.release(this.cast()) };
        Self::BYTES
    }

    /// Frees an empty dead leaf once no reader can have it.
    ///
    /// # Safety
    /// The leaf is dead, and the caller is the thread that marked it dead.
    pub(super) unsafe fn retire(&self, guard: &Guard<'_>) {
        debug_assert_eq!(self.keys.count(), 0);
        // SAFETY: invariant 4 of node.rs.
        unsafe { guard.retire(NonNull::from(self).cast(), |this| Self::free(this)) };
    }
}

impl Inner {
    /// Bytes of an inner node.
    pub(super) const BYTES: usize = size_of::<Self>();

    /// Creates an empty node, which lives until it is freed.
    pub(super) fn create<'a>() -> &'a Self {
        let inner = INNER_NODES.place(Self {
            version: Version::new(LeafVersion::FIRST),
            separators: Keys::new(),
            children: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            _unused: std::array::from_fn(|_| AtomicU64::new(0)),
        });
        // SAFETY: as for a leaf.
        unsafe { inner.as_ref() }
    }

    /// Returns the pointer to the node that its parent keeps.
    pub(super) fn as_node(&self) -> NodePtr {
        ptr::from_ref(self).cast_mut().cast()
    }

    /// Returns the index of the child that a descent continues with.
    #[inline]
    pub(super) fn child_index(&self, target: Target<'_>, seen: Seen) -> Result<usize, Torn> {
        let still = || self.version.is_still(seen);
        Ok(match target {
            Target::At(key) => {
                let place = self.separators.find(key, &still)?;
                place.index + usize::from(place.exact)
            }
            Target::Below(key) => self.separators.find(key, &still)?.index,
            Target::Last => self.separators.count(),
        })
    }

    #[inline]
    pub(super) fn child(&self, index: usize) -> NodePtr {
        // Relaxed: a reader that follows it has seen the version that its store was released with.
        self.children[index].load(Ordering::Relaxed)
    }

    /// Starts loading the parts that a descent needs: heads and children, rarely words.
    #[inline(always)]
    pub(super) fn prefetch(this: *const Self) {
        prefetch::lines(this.cast(), (size_of::<Version>() + Keys::<INNER_KEYS>::HEAD_BYTES).div_ceil(64));
        let children = std::mem::offset_of!(Self, children);
        prefetch::lines(this.cast::<u8>().wrapping_add(children), (size_of::<Self>() - children) / 64);
    }

    /// Returns all children. For lock holders only.
    pub(super) fn children(&self) -> Vec<NodePtr> {
        (0..=self.separators.count()).map(|index| self.child(index)).collect()
    }

    /// Puts `child` to the right of `separator`. For lock holders only; there must be room.
    pub(super) fn insert_child(&self, separator: &[u8], child: NodePtr, guard: &Guard<'_>) {
        let count = self.separators.count();
        let place = self.separators.find_locked(separator);
        assert!(!place.exact, "a separator is in the tree twice");
        if place.fits {
            self.separators.insert(place, separator, RowId(0), guard);
        } else {
            let mut entries = self.separators.gather();
            entries.insert(place.index, separator, RowId(0), ptr::null_mut());
            self.fill_separators(&entries, 0..entries.len(), guard);
        }
        for index in (place.index + 1..=count).rev() {
            self.set_child(index + 1, self.child(index));
        }
        self.set_child(place.index + 1, child);
    }

    /// Removes a child; its left neighbour, or if there is none its right one, gets its range. For lock holders only.
    pub(super) fn remove_child(&self, index: usize, guard: &Guard<'_>) {
        let count = self.separators.count();
        let separator = index.saturating_sub(1);
        let word = self.separators.word(separator);
        if word.is_long() {
            // SAFETY: the next line removes it from the node, under the lock.
            unsafe { LongKey::retire(word.long_pointer(), guard) };
        }
        self.separators.remove(separator);
        for index in index..count {
            self.set_child(index, self.child(index + 1));
        }
    }

    /// Replaces all children. For lock holders only.
    pub(super) fn set_children(&self, children: &[NodePtr]) {
        for (index, &child) in children.iter().enumerate() {
            self.set_child(index, child);
        }
    }

    /// Replaces all separators. For lock holders only.
    pub(super) fn fill_separators(&self, entries: &Entries, range: std::ops::Range<usize>, guard: &Guard<'_>) {
        self.separators.fill(entries, range, guard);
    }

    fn set_child(&self, index: usize, child: NodePtr) {
        // Relaxed: released with the version, by the unlock.
        self.children[index].store(child, Ordering::Relaxed);
    }

    /// Frees the node, but nothing that it points to.
    ///
    /// # Safety
    /// `this` is an inner node that no other thread has.
    pub(super) unsafe fn free(this: NonNull<u8>) -> usize {
        // SAFETY: promised by the caller.
        unsafe { INNER_NODES.release(this.cast()) };
        Self::BYTES
    }

    /// Frees a dead node, and the memory of its keys outside of it, once no reader can have it.
    ///
    /// # Safety
    /// The node is dead, and the caller is the thread that marked it dead.
    pub(super) unsafe fn retire(&self, guard: &Guard<'_>) {
        // SAFETY: invariant 4; the node's keys leave the tree together with it.
        self.separators.discard_all(&mut |long| unsafe { LongKey::retire(long, guard) });
        // SAFETY: invariant 4.
        unsafe { guard.retire(NonNull::from(self).cast(), |this| Self::free(this)) };
    }
}

/// The upper fence of a leaf: a whole key as head and word, or infinity.
#[repr(C)]
pub(super) struct Fence {
    head: AtomicU64,
    word: AtomicU64,
}

impl Fence {
    /// Not the extent of any key.
    const INFINITY: Word = Word(u64::MAX);

    fn new() -> Self {
        Self { head: AtomicU64::new(0), word: AtomicU64::new(Self::INFINITY.0) }
    }

    fn word(&self) -> Word {
        Word(self.word.load(Ordering::Relaxed))
    }

    /// Whether the range ends at `key` or before.
    pub(super) fn is_at_or_below(&self, key: &[u8], still: &impl Fn() -> bool) -> Result<bool, Torn> {
        Ok(self.compare(key, still)? != cmp::Ordering::Greater)
    }

    /// Whether the range ends before `key`.
    pub(super) fn is_below(&self, key: &[u8], still: &impl Fn() -> bool) -> Result<bool, Torn> {
        Ok(self.compare(key, still)? == cmp::Ordering::Less)
    }

    fn compare(&self, key: &[u8], still: &impl Fn() -> bool) -> Result<cmp::Ordering, Torn> {
        let word = self.word();
        if word == Self::INFINITY {
            return Ok(cmp::Ordering::Greater);
        }
        let order = self.head.load(Ordering::Relaxed).cmp(&head_of(key));
        if order != cmp::Ordering::Equal {
            return Ok(order);
        }
        if let Some(order) = word.compare_extent(key) {
            return Ok(order);
        }
        Ok(long_bytes(word, still)?.cmp(key))
    }

    /// Bytes that the fence takes outside the leaf.
    pub(super) fn bytes_outside(&self, still: &impl Fn() -> bool) -> Result<usize, Torn> {
        let word = self.word();
        Ok(if word.is_long() { LongKey::footprint(long_bytes(word, still)?.len()) } else { 0 })
    }

    /// Sets the fence. For lock holders only. The previous fence must have been moved or discarded.
    pub(super) fn set(&self, key: &[u8], guard: &Guard<'_>) {
        let short = key.len() <= HEAD;
        let word = if short { Word::short(key, RowId(0)) } else { Word::long(LongKey::allocate(key, RowId(0), guard)) };
        self.head.store(head_of(key), Ordering::Relaxed);
        self.word.store(word.0, Ordering::Relaxed);
    }

    /// Takes over another leaf's fence. For holders of both locks only.
    pub(super) fn take(&self, other: &Fence) {
        self.head.store(other.head.load(Ordering::Relaxed), Ordering::Relaxed);
        self.word.store(other.word().0, Ordering::Relaxed);
        other.word.store(Self::INFINITY.0, Ordering::Relaxed);
    }

    /// Discards the fence's allocation outside the node. For lock holders only.
    pub(super) fn discard(&self, discard: &mut impl FnMut(*mut LongKey)) {
        if self.word().is_long() {
            discard(self.word().long_pointer());
        }
        self.word.store(Self::INFINITY.0, Ordering::Relaxed);
    }
}

//! Nodes of four sizes, and the words that all of them begin with.
//!
//! ```text
//!  Header   coverage | shape | prefix | end                     64 bytes, one cache line
//!  Node4    header | bytes, ascending | children                128
//!  Node16   the same with more of both                          256
//!  Node48   header | byte -> place (48 at most) | children      704
//!  Node256  header | children by byte                           2112
//! ```
//!
//! A node is at the end of a path: the bytes from the root to its slot, then its *prefix*, which all keys below it have
//! in common. Behind the path, a key continues with a byte, which names a child, or is at its *end*, which has a slot
//! of its own: so keys may be prefixes of one another.
//!
//! Invariants:
//! 1. Every racy field is an atomic word; size, and so the kind in the shape, never changes.
//! 2. Counts and places are in bounds in any shape or index word ever stored: nothing computed from them is out of
//!    bounds.
//! 3. A node is retired after it was marked dead, and marked dead under its lock after nothing in the tree led to it.
//! 4. A thread that has a [`NodeRef`] obtained it under a guard, from a node that was unchanged after it named this one
//!    (or holds the lock that keeps it in the tree).

use super::{
    Edge, KeyPath,
    child::Child,
    key::{HEAD, LongKey, common_prefix, head_of},
    version::{Coverage, LeafVersion, Torn},
};
use crate::{
    epoch::Guard,
    ids::{RowId, Stamp},
    platform::{budget::heap_bytes, prefetch},
    sync::{AtomicPtr, AtomicU64, Ordering},
};
use std::{array, marker::PhantomData, ptr, ptr::NonNull};

/// The sizes of nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Size {
    Four,
    Sixteen,
    FortyEight,
    Full,
}

impl Size {
    /// Bytes that a node of this size takes from the general allocator.
    fn heap_bytes(self) -> usize {
        match self {
            Self::Four => node_bytes::<Node4>(),
            Self::Sixteen => node_bytes::<Node16>(),
            Self::FortyEight => node_bytes::<Node48>(),
            Self::Full => node_bytes::<Node256>(),
        }
    }

    /// Returns the number of children that the node has room for.
    pub(super) fn room(self) -> usize {
        match self {
            Self::Four => 4,
            Self::Sixteen => 16,
            Self::FortyEight => 48,
            Self::Full => 256,
        }
    }

    /// Returns the next larger size, if there is one.
    pub(super) fn larger(self) -> Self {
        match self {
            Self::Four => Self::Sixteen,
            Self::Sixteen => Self::FortyEight,
            Self::FortyEight | Self::Full => Self::Full,
        }
    }

    /// Returns the size that a node with `count` children should have after a removal: it does not shrink at the first
    /// removal below its size, where it would soon grow again.
    pub(super) fn shrunk(self, count: usize) -> Self {
        match self {
            Self::Sixteen if count <= 3 => Self::Four,
            Self::FortyEight if count <= 12 => Self::Sixteen,
            Self::Full if count <= 36 => Self::FortyEight,
            size => size,
        }
    }

    fn bytes(self) -> usize {
        match self {
            Self::Four => size_of::<Node4>(),
            Self::Sixteen => size_of::<Node16>(),
            Self::FortyEight => size_of::<Node48>(),
            Self::Full => size_of::<Node256>(),
        }
    }
}

/// Size, number of children and length of the prefix, in one word.
#[derive(Clone, Copy)]
pub(super) struct Shape(u64);

impl Shape {
    fn new(size: Size, count: usize, prefix_length: usize) -> Self {
        debug_assert!(count <= size.room());
        Self(size as u64 | (count as u64) << 8 | (prefix_length as u64) << 32)
    }

    #[inline]
    pub(super) fn size(self) -> Size {
        match self.0 & 0b11 {
            0 => Size::Four,
            1 => Size::Sixteen,
            2 => Size::FortyEight,
            _ => Size::Full,
        }
    }

    #[inline]
    pub(super) fn count(self) -> usize {
        (self.0 >> 8 & 0xffff) as usize
    }

    #[inline]
    pub(super) fn prefix_length(self) -> usize {
        (self.0 >> 32) as usize
    }
}

/// The fields that every node begins with.
#[repr(C)]
pub(super) struct Header {
    pub(super) coverage: Coverage,
    shape: AtomicU64,
    /// The prefix, left-aligned, if it has at most eight bytes; else a pointer to it.
    prefix: AtomicPtr<LongKey>,
    /// The leaf of the key that ends here.
    end: AtomicPtr<Header>,
}

/// Up to four or sixteen children, in the order of their bytes, which are stored eight to a word.
#[repr(C, align(64))]
struct Sorted<const WORDS: usize, const N: usize, const UNUSED: usize> {
    header: Header,
    bytes: [AtomicU64; WORDS],
    children: [AtomicPtr<Header>; N],
    /// Fills the last line: every byte is part of an atomic, so that a shared reference may be used to free the node.
    _unused: [AtomicU64; UNUSED],
}

type Node4 = Sorted<1, 4, 3>;
type Node16 = Sorted<2, 16, 6>;

#[repr(C, align(64))]
struct Node48 {
    header: Header,
    /// One more than the child's place, by byte, eight to a word; 0 where there is none.
    places: [AtomicU64; 32],
    children: [AtomicPtr<Header>; 48],
}

#[repr(C, align(64))]
struct Node256 {
    header: Header,
    children: [AtomicPtr<Header>; 256],
}

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<Header>() == 64);
    assert!(size_of::<Node4>() == 128);
    assert!(size_of::<Node16>() == 256);
    assert!(size_of::<Node48>() == 704);
    assert!(size_of::<Node256>() == 2112);
};

const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = LOW_BITS << 7;

/// Returns which of the first `count` bytes of a word is `byte`.
#[inline]
fn find_byte(word: u64, byte: u8, count: usize) -> Option<usize> {
    let other = word ^ (u64::from(byte) * LOW_BITS);
    // The lowest mark is right; marks above it may be wrong.
    let marks = other.wrapping_sub(LOW_BITS) & !other & HIGH_BITS;
    let at = marks.trailing_zeros() as usize / 8;
    (at < count).then_some(at)
}

#[inline]
fn byte_at(word: u64, at: usize) -> u8 {
    (word >> (8 * at)) as u8
}

fn null_children<const N: usize>() -> [AtomicPtr<Header>; N] {
    array::from_fn(|_| AtomicPtr::new(ptr::null_mut()))
}

impl Header {
    fn new(size: Size, phantom: LeafVersion, gap: Stamp, removed: Stamp) -> Self {
        Self {
            coverage: Coverage::new(phantom, gap, removed),
            shape: AtomicU64::new(Shape::new(size, 0, 0).0),
            prefix: AtomicPtr::new(ptr::null_mut()),
            end: AtomicPtr::new(ptr::null_mut()),
        }
    }

    #[inline]
    pub(super) fn shape(&self) -> Shape {
        Shape(self.shape.load(Ordering::Relaxed))
    }

    /// Returns the leaf of the key that ends here.
    #[inline]
    pub(super) fn end(&self) -> Child {
        Child::from_word(self.end.load(Ordering::Relaxed))
    }

    fn set_shape(&self, shape: Shape) {
        self.shape.store(shape.0, Ordering::Relaxed);
    }
}

impl<const WORDS: usize, const N: usize, const UNUSED: usize> Sorted<WORDS, N, UNUSED> {
    fn with(header: Header) -> Box<Self> {
        Box::new(Self {
            header,
            bytes: array::from_fn(|_| AtomicU64::new(0)),
            children: null_children(),
            _unused: array::from_fn(|_| AtomicU64::new(0)),
        })
    }

    #[inline]
    fn find(&self, byte: u8, count: usize) -> Option<usize> {
        for (word, first) in self.bytes.iter().zip((0..).step_by(8)) {
            let found = find_byte(word.load(Ordering::Relaxed), byte, count.saturating_sub(first).min(8));
            if let Some(at) = found {
                return Some(first + at);
            }
        }
        None
    }

    fn byte(&self, at: usize) -> u8 {
        byte_at(self.bytes[at / 8].load(Ordering::Relaxed), at % 8)
    }

    /// Returns the index of the first child whose byte is not below `byte`.
    fn first_from(&self, byte: u16, count: usize) -> usize {
        (0..count).find(|&at| u16::from(self.byte(at)) >= byte).unwrap_or(count)
    }

    fn set_byte(&self, at: usize, byte: u8) {
        let word = &self.bytes[at / 8];
        let shift = 8 * (at % 8);
        word.store(word.load(Ordering::Relaxed) & !(0xff << shift) | u64::from(byte) << shift, Ordering::Relaxed);
    }

    /// Adds a child, for which there must be room. For lock holders only.
    fn add(&self, byte: u8, child: *mut Header, count: usize) {
        let place = self.first_from(byte.into(), count);
        for at in (place..count).rev() {
            self.set_byte(at + 1, self.byte(at));
            self.children[at + 1].store(self.children[at].load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.set_byte(place, byte);
        self.children[place].store(child, Ordering::Relaxed);
    }

    /// Removes the child at `place`. For lock holders only.
    fn remove(&self, place: usize, count: usize) {
        for at in place + 1..count {
            self.set_byte(at - 1, self.byte(at));
            self.children[at - 1].store(self.children[at].load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

impl Node48 {
    #[inline]
    fn find(&self, byte: u8) -> Option<usize> {
        let word = self.places[usize::from(byte) / 8].load(Ordering::Relaxed);
        usize::from(byte_at(word, usize::from(byte) % 8)).checked_sub(1)
    }

    fn set_place(&self, byte: u8, place: u8) {
        let word = &self.places[usize::from(byte) / 8];
        let shift = 8 * (u32::from(byte) % 8);
        word.store(word.load(Ordering::Relaxed) & !(0xff << shift) | u64::from(place) << shift, Ordering::Relaxed);
    }
}

/// A node that its holder may read (invariant 4).
#[derive(Clone, Copy)]
pub(super) struct NodeRef<'g>(NonNull<Header>, PhantomData<&'g Header>);

impl<'g> NodeRef<'g> {
    /// # Safety
    /// Invariant 4 holds for `'g`.
    #[inline]
    pub(super) unsafe fn new(node: NonNull<Header>) -> Self {
        Self(node, PhantomData)
    }

    /// Creates a node without children, owned by the caller.
    pub(super) fn allocate(size: Size, phantom: LeafVersion, gap: Stamp, removed: Stamp, guard: &Guard<'_>) -> Self {
        guard.allocated(size.heap_bytes());
        Self::allocate_uncounted(size, phantom, gap, removed)
    }

    /// As [`NodeRef::allocate`], for the root, which lives as long as the index.
    pub(super) fn allocate_uncounted(size: Size, phantom: LeafVersion, gap: Stamp, removed: Stamp) -> Self {
        let header = Header::new(size, phantom, gap, removed);
        let node: *mut Header = match size {
            Size::Four => Box::into_raw(Node4::with(header)).cast(),
            Size::Sixteen => Box::into_raw(Node16::with(header)).cast(),
            Size::FortyEight => {
                let places = array::from_fn(|_| AtomicU64::new(0));
                Box::into_raw(Box::new(Node48 { header, places, children: null_children() })).cast()
            }
            Size::Full => Box::into_raw(Box::new(Node256 { header, children: null_children() })).cast(),
        };
        Self(NonNull::new(node).expect("a box is somewhere"), PhantomData)
    }

    pub(super) fn as_child(self) -> Child {
        Child::Node(self.0)
    }

    #[inline]
    pub(super) fn header(self) -> &'g Header {
        // SAFETY: invariant 4.
        unsafe { self.0.as_ref() }
    }

    /// # Safety
    /// The node has the size that `T` is for.
    #[inline]
    unsafe fn body<T>(self) -> &'g T {
        // SAFETY: invariant 4; the caller promises the size.
        unsafe { self.0.cast().as_ref() }
    }

    #[inline]
    fn four(self) -> &'g Node4 {
        debug_assert_eq!(self.header().shape().size(), Size::Four);
        // SAFETY: callers have checked the size, which never changes (invariant 1).
        unsafe { self.body() }
    }

    #[inline]
    fn sixteen(self) -> &'g Node16 {
        debug_assert_eq!(self.header().shape().size(), Size::Sixteen);
        // SAFETY: as in `four`.
        unsafe { self.body() }
    }

    #[inline]
    fn forty_eight(self) -> &'g Node48 {
        debug_assert_eq!(self.header().shape().size(), Size::FortyEight);
        // SAFETY: as in `four`.
        unsafe { self.body() }
    }

    #[inline]
    fn full(self) -> &'g Node256 {
        debug_assert_eq!(self.header().shape().size(), Size::Full);
        // SAFETY: as in `four`.
        unsafe { self.body() }
    }

    /// Starts loading the part of a node that a lookup needs whatever the size.
    #[inline(always)]
    pub(super) fn prefetch(node: NonNull<Header>) {
        prefetch::lines(node.as_ptr().cast_const().cast(), 2);
    }

    /// Returns the slot of the child with this byte, if there is one.
    #[inline]
    fn slot(self, byte: u8) -> Option<&'g AtomicPtr<Header>> {
        let shape = self.header().shape();
        match shape.size() {
            Size::Four => self.four().find(byte, shape.count()).map(|at| &self.four().children[at]),
            Size::Sixteen => self.sixteen().find(byte, shape.count()).map(|at| &self.sixteen().children[at]),
            Size::FortyEight => self.forty_eight().find(byte).map(|at| &self.forty_eight().children[at]),
            Size::Full => Some(&self.full().children[usize::from(byte)]),
        }
    }

    /// Returns the child for a key that continues with `byte`.
    #[inline]
    pub(super) fn child(self, byte: u8) -> Child {
        // Relaxed: a reader that follows it has seen the version that its store was released with.
        self.slot(byte).map_or(Child::Nothing, |slot| Child::from_word(slot.load(Ordering::Relaxed)))
    }

    /// Returns the child for a key that ends here or continues.
    #[inline]
    pub(super) fn at(self, edge: Edge) -> Child {
        match edge {
            Edge::End => self.header().end(),
            Edge::Byte(byte) => self.child(byte),
        }
    }

    /// Returns the first child whose byte is at least `from`.
    pub(super) fn next(self, from: u16) -> Option<(u8, Child)> {
        let shape = self.header().shape();
        let found = |byte: u8, child: &AtomicPtr<Header>| Some((byte, Child::from_word(child.load(Ordering::Relaxed))));
        match shape.size() {
            Size::Four => {
                let at = self.four().first_from(from, shape.count());
                (at < shape.count()).then(|| found(self.four().byte(at), &self.four().children[at]))?
            }
            Size::Sixteen => {
                let at = self.sixteen().first_from(from, shape.count());
                (at < shape.count()).then(|| found(self.sixteen().byte(at), &self.sixteen().children[at]))?
            }
            Size::FortyEight | Size::Full => (from..256).find_map(|byte| self.occupied(byte as u8)),
        }
    }

    /// Returns the last child whose byte is below `below`.
    pub(super) fn previous(self, below: u16) -> Option<(u8, Child)> {
        let shape = self.header().shape();
        let found = |byte: u8, child: &AtomicPtr<Header>| Some((byte, Child::from_word(child.load(Ordering::Relaxed))));
        match shape.size() {
            Size::Four => {
                let at = self.four().first_from(below, shape.count()).checked_sub(1)?;
                found(self.four().byte(at), &self.four().children[at])
            }
            Size::Sixteen => {
                let at = self.sixteen().first_from(below, shape.count()).checked_sub(1)?;
                found(self.sixteen().byte(at), &self.sixteen().children[at])
            }
            Size::FortyEight | Size::Full => (0..below).rev().find_map(|byte| self.occupied(byte as u8)),
        }
    }

    fn occupied(self, byte: u8) -> Option<(u8, Child)> {
        match self.child(byte) {
            Child::Nothing => None,
            child => Some((byte, child)),
        }
    }

    /// Returns all children with their bytes, in order.
    pub(super) fn children(self) -> impl Iterator<Item = (u8, Child)> {
        let mut from = 0;
        std::iter::from_fn(move || {
            let (byte, child) = self.next(from)?;
            from = u16::from(byte) + 1;
            Some((byte, child))
        })
    }

    /// Returns how many bytes the prefix and `rest` have in common at their beginning, and how long the prefix is.
    #[inline]
    pub(super) fn match_prefix(self, rest: &[u8], still: &impl Fn() -> bool) -> Result<(usize, usize), Torn> {
        let length = self.header().shape().prefix_length();
        if length == 0 {
            return Ok((0, 0));
        }
        let prefix = self.header().prefix.load(Ordering::Relaxed);
        if length > HEAD {
            return Ok((common_prefix(long_prefix(prefix, still)?, rest), length));
        }
        let equal = (head_of(rest) ^ prefix.addr() as u64).leading_zeros() as usize / 8;
        Ok((equal.min(length).min(rest.len()), length))
    }

    /// Appends the prefix to a path.
    pub(super) fn write_prefix(self, path: &mut KeyPath, still: &impl Fn() -> bool) -> Result<(), Torn> {
        let length = self.header().shape().prefix_length();
        let prefix = self.header().prefix.load(Ordering::Relaxed);
        if length > HEAD {
            path.extend_from_slice(long_prefix(prefix, still)?);
        } else {
            path.extend_from_slice(&(prefix.addr() as u64).to_be_bytes()[..length]);
        }
        Ok(())
    }

    /// Returns the bytes that the node takes, and those of its prefix and its leaves outside of it.
    pub(super) fn measure(self, still: &impl Fn() -> bool) -> Result<(usize, usize), Torn> {
        let shape = self.header().shape();
        let mut outside = 0;
        if shape.prefix_length() > HEAD {
            outside += LongKey::footprint(shape.prefix_length());
        }
        for leaf in self.children().map(|(_, child)| child).chain([self.header().end()]) {
            if let Child::Long(_) = leaf {
                let mut key = KeyPath::new();
                leaf.complete(&mut key, still)?;
                outside += LongKey::footprint(key.len());
            }
        }
        Ok((shape.size().bytes(), outside))
    }
}

/// For lock holders only, and for exclusive owners of the node.
impl NodeRef<'_> {
    /// Stores another child in a slot, for which there must be room.
    pub(super) fn put(self, edge: Edge, child: Child) {
        let (header, word) = (self.header(), child.into_word());
        let Edge::Byte(byte) = edge else { return header.end.store(word, Ordering::Relaxed) };
        let shape = header.shape();
        if let Some(slot) = self.slot(byte) {
            // In a full node every byte has a slot; it counts if it holds a child.
            let before = slot.load(Ordering::Relaxed);
            slot.store(word, Ordering::Relaxed);
            if !before.is_null() {
                return;
            }
        } else {
            let count = shape.count();
            match shape.size() {
                Size::Four => self.four().add(byte, word, count),
                Size::Sixteen => self.sixteen().add(byte, word, count),
                Size::FortyEight => {
                    let node = self.forty_eight();
                    let is_free = |slot: &AtomicPtr<Header>| slot.load(Ordering::Relaxed).is_null();
                    let place = node.children.iter().position(is_free).expect("the node is not full");
                    node.children[place].store(word, Ordering::Relaxed);
                    node.set_place(byte, place as u8 + 1);
                }
                Size::Full => unreachable!("a full node has a slot for every byte"),
            }
        }
        header.set_shape(Shape::new(shape.size(), shape.count() + 1, shape.prefix_length()));
    }

    /// Removes the child of a slot.
    pub(super) fn take(self, edge: Edge) {
        let header = self.header();
        let Edge::Byte(byte) = edge else { return header.end.store(ptr::null_mut(), Ordering::Relaxed) };
        let shape = header.shape();
        let count = shape.count();
        match shape.size() {
            Size::Four => self.four().remove(self.four().find(byte, count).expect("there is such a child"), count),
            Size::Sixteen => {
                self.sixteen().remove(self.sixteen().find(byte, count).expect("there is such a child"), count);
            }
            Size::FortyEight => {
                let node = self.forty_eight();
                let place = node.find(byte).expect("there is such a child");
                node.set_place(byte, 0);
                node.children[place].store(ptr::null_mut(), Ordering::Relaxed);
            }
            Size::Full => self.full().children[usize::from(byte)].store(ptr::null_mut(), Ordering::Relaxed),
        }
        header.set_shape(Shape::new(shape.size(), count - 1, shape.prefix_length()));
    }

    /// Sets the prefix of a node that has none.
    pub(super) fn set_prefix(self, prefix: &[u8], guard: &Guard<'_>) {
        let header = self.header();
        let word = if prefix.len() > HEAD {
            LongKey::allocate(prefix, RowId(0), guard).as_ptr()
        } else {
            ptr::without_provenance_mut(head_of(prefix) as usize)
        };
        header.prefix.store(word, Ordering::Relaxed);
        let shape = header.shape();
        header.set_shape(Shape::new(shape.size(), shape.count(), prefix.len()));
    }

    /// Removes the prefix, and frees it once no reader can have it.
    pub(super) fn retire_prefix(self, guard: &Guard<'_>) {
        let (header, shape) = (self.header(), self.header().shape());
        if shape.prefix_length() > HEAD {
            // SAFETY: removed from the node below, under the lock.
            unsafe { LongKey::retire(header.prefix.load(Ordering::Relaxed), guard) };
        }
        header.set_shape(Shape::new(shape.size(), shape.count(), 0));
    }

    /// Takes over prefix and children of another node, which is locked and about to die.
    pub(super) fn become_other(self, other: NodeRef<'_>) {
        let (header, from) = (self.header(), other.header());
        header.prefix.store(from.prefix.load(Ordering::Relaxed), Ordering::Relaxed);
        header.set_shape(Shape::new(header.shape().size(), 0, from.shape().prefix_length()));
        self.put(Edge::End, from.end());
        for (byte, child) in other.children() {
            self.put(Edge::Byte(byte), child);
        }
    }

    /// Frees a dead node, but nothing that it points to, once no reader can have it.
    ///
    /// # Safety
    /// The node is dead, or will be when the lock is released, and the caller is the thread that marked it dead.
    pub(super) unsafe fn retire(self, guard: &Guard<'_>) {
        let free: unsafe fn(NonNull<u8>) -> usize = match self.header().shape().size() {
            Size::Four => free_box::<Node4>,
            Size::Sixteen => free_box::<Node16>,
            Size::FortyEight => free_box::<Node48>,
            Size::Full => free_box::<Node256>,
        };
        // SAFETY: invariant 3; the node is of that size.
        unsafe { guard.retire(self.0.cast(), free) };
    }

    /// Frees a node and everything outside of it but the nodes below, which are added to `below`.
    ///
    /// # Safety
    /// No other thread has the tree, and the node is not used again.
    pub(super) unsafe fn free(self, below: &mut Vec<NonNull<Header>>) {
        let shape = self.header().shape();
        for child in self.children().map(|(_, child)| child).chain([self.header().end()]) {
            match child {
                Child::Node(node) => below.push(node),
                // SAFETY: a long key belongs to one slot in one tree, which no other thread has.
                Child::Long(long) => unsafe {
                    LongKey::free(long.cast());
                },
                Child::Nothing | Child::Short(_) => {}
            }
        }
        if shape.prefix_length() > HEAD {
            let prefix =
                NonNull::new(self.header().prefix.load(Ordering::Relaxed)).expect("a long prefix lies elsewhere");
            // SAFETY: as for the leaves.
            unsafe {
                LongKey::free(prefix.cast());
            }
        }
        let node = self.0.cast();
        // SAFETY: promised by the caller; the node is of that size.
        unsafe {
            match shape.size() {
                Size::Four => free_box::<Node4>(node),
                Size::Sixteen => free_box::<Node16>(node),
                Size::FortyEight => free_box::<Node48>(node),
                Size::Full => free_box::<Node256>(node),
            };
        }
    }
}

/// # Safety
/// `node` is a `T` that was allocated as a box, and no other thread has it.
unsafe fn free_box<T>(node: NonNull<u8>) -> usize {
    // SAFETY: promised by the caller.
    drop(unsafe { Box::from_raw(node.cast::<T>().as_ptr()) });
    node_bytes::<T>()
}

/// Bytes that a node takes from the general allocator.
const fn node_bytes<T>() -> usize {
    heap_bytes(size_of::<T>() + align_of::<T>())
}

/// Returns a prefix that does not fit into its word, if the node is unchanged.
#[inline]
fn long_prefix<'g>(prefix: *mut LongKey, still: &impl Fn() -> bool) -> Result<&'g [u8], Torn> {
    // SAFETY: the shape said that this is a pointer, and it belonged to the same version. Every caller cuts the
    // lifetime to that of the guard.
    unsafe { LongKey::read(prefix, still) }.map(|(prefix, _)| prefix)
}

/// How a key whose path is the node's continues in the node.
impl Edge {
    pub(super) fn of(key: &[u8], depth: usize) -> Self {
        key.get(depth).map_or(Self::End, |&byte| Self::Byte(byte))
    }

    /// Returns the number of the key's bytes that the edge covers.
    pub(super) fn length(self) -> usize {
        match self {
            Self::End => 0,
            Self::Byte(_) => 1,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::epoch::EpochManager;

    /// Builds a node with these children, inserted in an order that is not that of their bytes.
    fn filled(size: Size, bytes: &[u8]) -> NodeRef<'static> {
        let participant = EpochManager::new("test").join();
        let guard = participant.enter();
        let node = NodeRef::allocate_uncounted(size, LeafVersion::FIRST, Stamp::ZERO, Stamp::ZERO);
        let (low, high) = bytes.split_at(bytes.len() / 2);
        high.iter()
            .chain(low)
            .for_each(|&byte| node.put(Edge::Byte(byte), Child::leaf(&[byte], 1, RowId(byte.into()), &guard)));
        node
    }

    #[test]
    fn every_size_finds_orders_and_loses_its_children() {
        for size in [Size::Four, Size::Sixteen, Size::FortyEight, Size::Full] {
            let step = 256 / size.room();
            let bytes: Vec<u8> = (0..size.room()).map(|n| (n * step) as u8).collect();
            let node = filled(size, &bytes);
            assert!(node.children().map(|(byte, _)| byte).eq(bytes.iter().copied()));
            for byte in 0..=255u8 {
                let is_there = !matches!(node.child(byte), Child::Nothing);
                assert_eq!(is_there, bytes.contains(&byte), "{size:?} {byte}");
                let below = node.previous(byte.into()).map(|(byte, _)| byte);
                assert_eq!(below, bytes.iter().copied().filter(|&other| other < byte).max());
            }
            for &byte in bytes.iter().skip(1).step_by(2) {
                node.take(Edge::Byte(byte));
            }
            assert!(node.children().map(|(byte, _)| byte).eq(bytes.iter().copied().step_by(2)));
            // SAFETY: no other thread has it.
            unsafe { node.free(&mut Vec::new()) };
        }
    }

    #[test]
    fn a_byte_is_found_among_those_that_count() {
        let word = u64::from_le_bytes([0, 1, 2, 128, 255, 1, 0, 0]);
        assert_eq!(find_byte(word, 1, 8), Some(1));
        assert_eq!(find_byte(word, 255, 4), None);
        assert_eq!(find_byte(word, 255, 5), Some(4));
        assert_eq!(find_byte(word, 0, 0), None);
        assert_eq!(find_byte(word, 7, 8), None);
    }
}

//! Keys as pairs of machine words: a head of eight bytes, and a word with the length of the key or a pointer to it.
//!
//! A node cuts off the prefix that its keys share; of the remaining bytes, the *rest*, the first eight make the head,
//! zero-padded and read big-endian, so that comparing integers compares bytes. The [`Word`] beside it holds in its
//! upper four bits the *extent*: how many bytes the rest has, or that it has more than eight. The padding makes `"ab"`
//! and `"ab\0"` equal in the head; the extent distinguishes and orders them.
//!
//! ```text
//!  extent 0..=8   | the row (in a leaf)                    the head is the whole rest
//!  extent 9       | pointer to a LongKey                   the whole key and its row are there
//! ```
//!
//! Invariants:
//! 1. A [`LongKey`] is immutable during its lifetime: a thread that has got a pointer to it from a node that is
//!    unchanged, under a guard, may read it.
//! 2. Order of keys = order of (head, extent, long key's bytes) among the keys of one node.

use super::version::Torn;
use crate::{epoch::Guard, ids::RowId, platform::budget::heap_bytes};
use std::{
    alloc::{Layout, alloc, dealloc, handle_alloc_error},
    cmp::Ordering,
    ptr::NonNull,
};

/// Bytes of a key that are compared at once.
pub(super) const HEAD: usize = 8;
/// The longest key that the index accepts.
pub(crate) const KEY_LENGTH_MAX: usize = 4096;

const EXTENT_SHIFT: u32 = 60;
const EXTENT_LONG: u64 = HEAD as u64 + 1;
const PAYLOAD_MASK: u64 = (1 << EXTENT_SHIFT) - 1;

/// Returns the first eight bytes of `rest` as a number that orders as the bytes do.
#[inline]
pub(super) fn head_of(rest: &[u8]) -> u64 {
    head_after(rest, 0)
}

/// Returns the head of what follows the first `skip` bytes of `key`, of which there are at least as many. Without a
/// loop, and without a branch where the key has eight bytes: a head that is not full is cut from the last bytes.
#[inline]
pub(super) fn head_after(key: &[u8], skip: usize) -> u64 {
    if let Some(last) = key.last_chunk::<HEAD>() {
        let Some(head) = key[skip..].first_chunk::<HEAD>() else {
            let length = key.len() - skip;
            return u64::from_be_bytes(*last).checked_shl(64 - 8 * length as u32).unwrap_or(0);
        };
        return u64::from_be_bytes(*head);
    }
    let rest = &key[skip..];
    // The first and the last bytes, which may overlap: they agree where they do.
    let shift = 64 - 8 * rest.len() as u32;
    match (rest.first_chunk::<4>(), rest.last_chunk::<4>(), rest) {
        (Some(first), Some(last), _) => {
            u64::from(u32::from_be_bytes(*first)) << 32 | u64::from(u32::from_be_bytes(*last)) << shift
        }
        (_, _, [first, .., last]) => {
            let middle = u64::from(rest[rest.len() / 2]) << (56 - 8 * (rest.len() as u32 / 2));
            u64::from(*first) << 56 | middle | u64::from(*last) << shift
        }
        (_, _, [only]) => u64::from(*only) << 56,
        (_, _, []) => 0,
    }
}

/// Returns the extent of a rest: how many bytes the head holds, or "more".
#[inline]
fn extent_of(rest: &[u8]) -> u64 {
    (rest.len() as u64).min(EXTENT_LONG)
}

/// Returns the number of bytes that two keys have in common at their beginning.
pub(super) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// The word beside a head.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Word(pub(super) u64);

impl Word {
    /// Creates the word of a rest of at most eight bytes.
    pub(super) fn short(rest: &[u8], row: RowId) -> Self {
        debug_assert!(rest.len() <= HEAD);
        Self((rest.len() as u64) << EXTENT_SHIFT | row.0)
    }

    /// Creates the word of a longer rest.
    pub(super) fn long(key: NonNull<LongKey>) -> Self {
        let address = key.expose_provenance().get() as u64;
        debug_assert_eq!(address & !PAYLOAD_MASK, 0);
        Self(EXTENT_LONG << EXTENT_SHIFT | address)
    }

    #[inline]
    pub(super) fn is_long(self) -> bool {
        self.0 >> EXTENT_SHIFT == EXTENT_LONG
    }

    /// The highest result of [`Word::short_length`], that for the word of a long key.
    pub(super) const SHORT_LENGTH_MAX: usize = EXTENT_LONG as usize;

    /// Bytes in the head, if the key is short.
    #[inline]
    pub(super) fn short_length(self) -> usize {
        (self.0 >> EXTENT_SHIFT) as usize
    }

    /// Returns the row, if the key is short.
    #[inline]
    pub(super) fn short_row(self) -> RowId {
        RowId(self.0 & PAYLOAD_MASK)
    }

    /// Returns the pointer to the key, if it is long.
    #[inline]
    pub(super) fn long_pointer(self) -> *mut LongKey {
        std::ptr::with_exposed_provenance_mut((self.0 & PAYLOAD_MASK) as usize)
    }

    /// Compares an entry with this word to the rest `rest`, given equal heads. None: the long keys decide.
    #[inline]
    pub(super) fn compare_extent(self, rest: &[u8]) -> Option<Ordering> {
        let (mine, other) = (self.0 >> EXTENT_SHIFT, extent_of(rest));
        if mine == other && mine == EXTENT_LONG { None } else { Some(mine.cmp(&other)) }
    }
}

/// Checks that a row leaves room for the extent.
pub(super) fn assert_row_fits(row: RowId) {
    assert!(row.0 <= PAYLOAD_MASK, "{row:?} does not fit into 60 bits");
}

/// A key that does not fit into a node, with its row. Its bytes follow it in the same allocation.
#[repr(C)]
pub(super) struct LongKey {
    row: RowId,
    length: usize,
}

impl LongKey {
    pub(super) fn allocate(key: &[u8], row: RowId, guard: &Guard<'_>) -> NonNull<Self> {
        guard.allocated(Self::footprint(key.len()));
        let layout = Self::layout(key.len());
        // SAFETY: the layout is not empty.
        let Some(long) = NonNull::new(unsafe { alloc(layout) }.cast::<Self>()) else { handle_alloc_error(layout) };
        // SAFETY: the allocation is fresh, aligned for the header, and has room for the bytes behind it.
        unsafe {
            long.write(Self { row, length: key.len() });
            long.add(1).cast::<u8>().copy_from_nonoverlapping(NonNull::from(key).cast(), key.len());
        }
        long
    }

    fn layout(length: usize) -> Layout {
        let header = Layout::new::<Self>();
        let size = header.size().checked_add(length).expect("keys are far shorter than the address space");
        Layout::from_size_align(size, header.align()).expect("keys are far shorter than the address space")
    }

    /// # Safety
    /// `this` came from [`allocate`](Self::allocate) and outlives `'g` (invariant 1).
    #[inline]
    pub(super) unsafe fn bytes<'g>(this: *const Self) -> &'g [u8] {
        // SAFETY: the caller vouches for the pointer; the bytes follow the header and never change.
        unsafe { std::slice::from_raw_parts(this.add(1).cast(), (*this).length) }
    }

    /// # Safety
    /// As for [`bytes`](Self::bytes).
    #[inline]
    pub(super) unsafe fn row(this: *const Self) -> RowId {
        // SAFETY: the caller vouches for the pointer.
        unsafe { (*this).row }
    }

    /// Returns the key and its row, if `still` says that the node they were found in is unchanged.
    ///
    /// # Safety
    /// `this` was stored in that node, for a long key, while the node was unchanged; the caller's guard outlives `'g`.
    #[inline]
    pub(super) unsafe fn read<'g>(this: *const Self, still: &impl Fn() -> bool) -> Result<(&'g [u8], RowId), Torn> {
        if !still() {
            return Err(Torn);
        }
        // SAFETY: the pointer still belonged to the tree after it was read (invariant 1).
        Ok(unsafe { (Self::bytes(this), Self::row(this)) })
    }

    /// Bytes that a key of this length takes.
    pub(super) fn footprint(length: usize) -> usize {
        heap_bytes(Self::layout(length).size())
    }

    /// # Safety
    /// `this` came from [`allocate`](Self::allocate), and no other thread has it.
    pub(super) unsafe fn free(this: NonNull<u8>) -> usize {
        // SAFETY: the caller vouches for the pointer, and the layout is the one it was allocated with.
        unsafe {
            let length = this.cast::<Self>().as_ref().length;
            dealloc(this.as_ptr(), Self::layout(length));
            Self::footprint(length)
        }
    }

    /// Frees the key once no reader can have it.
    ///
    /// # Safety
    /// `this` came from [`allocate`](Self::allocate) and is no longer in the tree.
    pub(super) unsafe fn retire(this: *mut Self, guard: &Guard<'_>) {
        let this = NonNull::new(this).expect("a long key was allocated").cast();
        // SAFETY: the caller promises that new readers cannot reach it; the guard waits for the others.
        unsafe { guard.retire(this, |this| Self::free(this)) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::epoch::EpochManager;

    #[test]
    fn heads_and_extents_order_as_bytes_do() {
        let keys: [&[u8]; 10] =
            [b"", b"\0", b"\0\0", b"a", b"a\0", b"a\0b", b"ab", b"abcdefg", b"abcdefg\0", b"abcdefgh"];
        for (i, a) in keys.iter().enumerate() {
            for (j, b) in keys.iter().enumerate() {
                let word = Word::short(a, RowId(5));
                assert_eq!(word.short_row(), RowId(5));
                let order = head_of(a).cmp(&head_of(b)).then(word.compare_extent(b).unwrap());
                assert_eq!(order, i.cmp(&j), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn a_long_key_comes_after_the_short_one_it_extends() {
        let participant = EpochManager::new("test").join();
        let long = LongKey::allocate(b"abcdefgh\0", RowId(9), &participant.enter());
        let word = Word::long(long);
        assert!(word.is_long());
        assert_eq!(word.compare_extent(b"abcdefgh"), Some(Ordering::Greater));
        assert_eq!(word.compare_extent(b"abcdefghi"), None);
        // SAFETY: just allocated, and freed only here.
        unsafe {
            assert_eq!(LongKey::bytes(word.long_pointer()), b"abcdefgh\0");
            assert_eq!(LongKey::row(word.long_pointer()), RowId(9));
            LongKey::free(long.cast());
        }
    }

    #[test]
    fn heads_of_every_length() {
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18];
        for length in 0..=bytes.len() {
            let mut padded = [0; HEAD];
            padded[..length.min(HEAD)].copy_from_slice(&bytes[..length.min(HEAD)]);
            assert_eq!(head_of(&bytes[..length]), u64::from_be_bytes(padded));
            for skip in 0..=length {
                let mut padded = [0; HEAD];
                let rest = &bytes[skip..length];
                padded[..rest.len().min(HEAD)].copy_from_slice(&rest[..rest.len().min(HEAD)]);
                assert_eq!(head_after(&bytes[..length], skip), u64::from_be_bytes(padded), "{skip} of {length}");
            }
        }
    }
}

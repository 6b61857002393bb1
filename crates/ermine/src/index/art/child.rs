//! The content of a node's slot, in one word: nothing, a node below, or a leaf, which is a key's row with the rest of
//! the key.
//!
//! ```text
//!  0                                        nothing
//!  pointer                        | 00      a node
//!  row (44) | two bytes | length (2) | 01   a short leaf: the key has at most two more bytes behind its slot
//!  pointer                        | 10      a long leaf: the whole key and its row (`LongKey`)
//! ```
//!
//! A descent compares the whole prefix of each node, so a short leaf's key is known without another memory access.

use super::{KeyPath, key::LongKey, node::Header, version::Torn};
use crate::{epoch::Guard, ids::RowId};
use std::ptr::{self, NonNull};

const _: () = assert!(usize::BITS == 64, "a short leaf is a pointer-sized word");
const _: () = assert!(align_of::<LongKey>() > TAG_MASK);

const TAG_MASK: usize = 0b11;
const TAG_SHORT: usize = 0b01;
const TAG_LONG: usize = 0b10;
const LENGTH_SHIFT: u32 = 2;
const BYTES_SHIFT: u32 = 4;
const ROW_SHIFT: u32 = 20;
const ROW_MAX: u64 = u64::MAX >> ROW_SHIFT;

/// Bytes of a key that fit beside its row.
const SHORT: usize = 2;

/// The content of a slot.
#[derive(Clone, Copy)]
pub(super) enum Child {
    Nothing,
    Node(NonNull<Header>),
    Short(ShortLeaf),
    Long(NonNull<LongKey>),
}

/// A row and the last bytes of its key.
#[derive(Clone, Copy)]
pub(super) struct ShortLeaf(usize);

impl ShortLeaf {
    #[inline]
    pub(super) fn row(self) -> RowId {
        RowId(self.0 as u64 >> ROW_SHIFT)
    }

    /// Returns the bytes, and how many of them count.
    #[inline]
    fn rest(self) -> ([u8; SHORT], usize) {
        (((self.0 >> BYTES_SHIFT) as u16).to_be_bytes(), self.0 >> LENGTH_SHIFT & 0b11)
    }

    #[inline]
    fn is(self, rest: &[u8]) -> bool {
        let (bytes, length) = self.rest();
        rest == &bytes[..length.min(SHORT)]
    }
}

impl Child {
    /// Creates a leaf for `key` in a slot that lies `depth` bytes deep in it.
    pub(super) fn leaf(key: &[u8], depth: usize, row: RowId, guard: &Guard<'_>) -> Self {
        Self::short(&key[depth..], row).unwrap_or_else(|| Self::Long(LongKey::allocate(key, row, guard)))
    }

    fn short(rest: &[u8], row: RowId) -> Option<Self> {
        let bytes = match *rest {
            [] => [0, 0],
            [one] => [one, 0],
            [one, two] => [one, two],
            _ => return None,
        };
        if row.0 > ROW_MAX {
            return None;
        }
        let bytes = usize::from(u16::from_be_bytes(bytes));
        let row = (row.0 as usize) << ROW_SHIFT;
        Some(Self::Short(ShortLeaf(row | bytes << BYTES_SHIFT | rest.len() << LENGTH_SHIFT | TAG_SHORT)))
    }

    #[inline]
    pub(super) fn from_word(word: *mut Header) -> Self {
        match word.addr() & TAG_MASK {
            TAG_SHORT => Self::Short(ShortLeaf(word.addr())),
            TAG_LONG => {
                let long = word.map_addr(|address| address & !TAG_MASK).cast();
                Self::Long(NonNull::new(long).expect("tagged words are not null"))
            }
            _ => NonNull::new(word).map_or(Self::Nothing, Self::Node),
        }
    }

    pub(super) fn into_word(self) -> *mut Header {
        match self {
            Self::Nothing => ptr::null_mut(),
            Self::Node(node) => node.as_ptr(),
            Self::Short(short) => ptr::without_provenance_mut(short.0),
            Self::Long(long) => long.as_ptr().cast::<Header>().map_addr(|address| address | TAG_LONG),
        }
    }

    /// Returns the row, if this is the leaf of `key`; the slot lies `depth` bytes deep in it.
    #[inline]
    pub(super) fn row_of(self, key: &[u8], depth: usize, still: &impl Fn() -> bool) -> Result<Option<RowId>, Torn> {
        match self {
            Self::Short(short) => Ok(short.is(&key[depth..]).then(|| short.row())),
            Self::Long(long) => {
                let (bytes, row) = long_leaf(long, still)?;
                Ok((bytes == key).then_some(row))
            }
            Self::Nothing | Self::Node(_) => Ok(None),
        }
    }

    /// Appends the rest of a leaf's key to the path to its slot; returns its row. `None`: it is not a leaf.
    #[inline]
    pub(super) fn complete(self, key: &mut KeyPath, still: &impl Fn() -> bool) -> Result<Option<RowId>, Torn> {
        match self {
            Self::Short(short) => {
                let (bytes, length) = short.rest();
                key.extend_from_slice(&bytes[..length.min(SHORT)]);
                Ok(Some(short.row()))
            }
            Self::Long(long) => {
                let (bytes, row) = long_leaf(long, still)?;
                key.clear();
                key.extend_from_slice(bytes);
                Ok(Some(row))
            }
            Self::Nothing | Self::Node(_) => Ok(None),
        }
    }

    /// Returns the leaf as it must be in another slot, `depth` bytes deep in its `key`. The node that holds the leaf is
    /// locked.
    pub(super) fn moved(self, key: &[u8], depth: usize, row: RowId, guard: &Guard<'_>) -> Self {
        match self {
            Self::Long(long) => match Self::short(&key[depth..], row) {
                Some(short) => {
                    // SAFETY: the caller replaces the leaf by the short one, under the lock.
                    unsafe { LongKey::retire(long.as_ptr(), guard) };
                    short
                }
                None => self,
            },
            _ => Self::leaf(key, depth, row, guard),
        }
    }

    /// Frees the memory outside of its slot of a leaf that was removed, once no reader can have it.
    ///
    /// # Safety
    /// The leaf has just been removed from a locked node.
    pub(super) unsafe fn retire(self, guard: &Guard<'_>) {
        if let Self::Long(long) = self {
            // SAFETY: promised by the caller.
            unsafe { LongKey::retire(long.as_ptr(), guard) };
        }
    }
}

/// Returns the key and the row of a long leaf, if its node is unchanged.
#[inline]
fn long_leaf<'g>(long: NonNull<LongKey>, still: &impl Fn() -> bool) -> Result<(&'g [u8], RowId), Torn> {
    // SAFETY: a slot of the node that `still` checks held it. Every caller cuts the lifetime to that of the guard.
    unsafe { LongKey::read(long.as_ptr(), still) }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::epoch::EpochManager;

    #[test]
    fn short_leaves_keep_rest_and_row() {
        let participant = EpochManager::new("test").join();
        for (key, row) in [(&b"abc"[..], 0), (b"ab", 7), (b"a", ROW_MAX), (b"a\0", 3), (b"a\0\0", 3)] {
            let child = Child::from_word(Child::leaf(key, 1, RowId(row), &participant.enter()).into_word());
            let Child::Short(short) = child else { panic!("{key:?} has room") };
            assert_eq!(short.row(), RowId(row));
            assert!(short.is(&key[1..]));
            assert!(!short.is(b"x") && !short.is(b"abc"));
        }
    }
}

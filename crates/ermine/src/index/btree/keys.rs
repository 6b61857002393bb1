//! The sorted keys of one node, as arrays of machine words that may be read while they are written.
//!
//! Readers check with `still` that the node is unchanged before they follow a pointer from it, and once more before
//! they use the result. Writers hold the node's lock; the methods for them say so.
//!
//! ```text
//!  shape   count . prefix length . appends . place of the next append
//!  prefix  its bytes, left-aligned, if at most eight; else a pointer to a LongKey
//!  heads   first eight bytes of each rest, ascending
//!  words   extent and row, or extent and pointer (key.rs)
//! ```
//!
//! Invariants:
//! 1. The first `count` keys are in strictly ascending order, and all begin with the prefix.
//! 2. `count` never exceeds `N`, in any shape ever stored: no index computed from a shape is out of bounds.
//!
//! The prefix that is cut off (`prefix_for`) is no longer than needed to fit the longest key into its head: a shorter
//! prefix is less often violated by a key that is inserted later, and short keys need none at all.

use super::{
    batch::Batch,
    entries::Entries,
    key::{HEAD, LongKey, Word, common_prefix, head_after, head_of},
    version::Torn,
};
use crate::{
    epoch::Guard,
    ids::RowId,
    platform::prefetch,
    sync::{AtomicU64, Ordering},
};
use std::{cmp, ops::Range};

/// How far from the place behind the last one an insert still counts as an append: threads that draw ascending keys
/// insert them a little out of order.
const APPEND_SLACK: usize = 4;
/// Consecutive appends after which a leaf is split where the next one is expected.
const APPENDS_MIN: u64 = 16;

/// Sizes of a node's contents, in one word.
#[derive(Clone, Copy)]
struct Shape(u64);

impl Shape {
    const APPENDS_MAX: u64 = 0xff;

    fn new(count: usize, prefix_length: usize) -> Self {
        Self(count as u64 | (prefix_length as u64) << 16)
    }

    /// Sets the number of consecutive appends, and the index at which the next one is expected.
    fn with_appends(self, appends: u64, next: usize) -> Self {
        Self(self.0 & 0xffff_ffff | appends << 32 | (next as u64) << 48)
    }

    #[inline]
    fn count(self) -> usize {
        (self.0 & 0xffff) as usize
    }

    #[inline]
    fn prefix_length(self) -> usize {
        (self.0 >> 16 & 0xffff) as usize
    }

    fn appends(self) -> u64 {
        self.0 >> 32 & 0xffff
    }

    /// The index behind the last append.
    fn next(self) -> usize {
        (self.0 >> 48) as usize
    }

    /// Whether an insert at that index is an append.
    fn is_append(self, index: usize) -> bool {
        index.abs_diff(self.next()) <= APPEND_SLACK
    }

    /// The index behind the last append when a key has been inserted at `index`.
    fn next_after(self, index: usize) -> usize {
        if self.is_append(index) { self.next().max(index) + 1 } else { index + 1 }
    }
}

/// An entry, as far as it is in the node itself.
struct Short<'n> {
    prefix: &'n [u8],
    head: u64,
    word: Word,
}

/// The position of a key, or the one where it would be inserted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The index of the first key that is not smaller.
    pub(super) index: usize,
    pub(super) exact: bool,
    /// Whether the key begins with the node's prefix.
    pub(super) fits: bool,
}

#[repr(C)]
pub(super) struct Keys<const N: usize> {
    shape: AtomicU64,
    prefix: AtomicU64,
    heads: [AtomicU64; N],
    words: [AtomicU64; N],
}

impl<const N: usize> Keys<N> {
    pub(super) fn new() -> Self {
        Self {
            shape: AtomicU64::new(0),
            prefix: AtomicU64::new(0),
            heads: std::array::from_fn(|_| AtomicU64::new(0)),
            words: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    #[inline]
    fn shape(&self) -> Shape {
        Shape(self.shape.load(Ordering::Relaxed))
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        self.shape().count()
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.count() == N
    }

    /// Returns the index behind the appends, once a key has been inserted at `index`; `None`: that is no append, or
    /// some of the last inserts were none.
    pub(super) fn end_of_appends(&self, index: usize) -> Option<usize> {
        let shape = self.shape();
        (shape.appends() >= APPENDS_MIN && shape.is_append(index)).then(|| shape.next_after(index))
    }

    #[inline]
    fn head(&self, index: usize) -> u64 {
        self.heads[index].load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn word(&self, index: usize) -> Word {
        Word(self.words[index].load(Ordering::Relaxed))
    }

    /// Finds `key` by binary search.
    #[inline(always)]
    pub(super) fn find(&self, key: &[u8], still: &impl Fn() -> bool) -> Result<Place, Torn> {
        let shape = self.shape();
        let count = shape.count();
        let skip = shape.prefix_length();
        if skip > 0 {
            match self.compare_prefix(key, skip, still)? {
                cmp::Ordering::Less => return Ok(Place { index: 0, exact: false, fits: false }),
                cmp::Ordering::Greater => return Ok(Place { index: count, exact: false, fits: false }),
                cmp::Ordering::Equal => {}
            }
        }
        let (head, rest) = (head_after(key, skip), &key[skip..]);
        let index = self.first_head_not_below(head, count);
        if index == count || self.head(index) != head {
            return Ok(Place { index, exact: false, fits: true });
        }
        self.find_among_equal_heads(index, count, head, key, rest, still)
    }

    /// Whether `key` comes before (Less), among or after all keys with this node's prefix.
    #[inline]
    fn compare_prefix(&self, key: &[u8], length: usize, still: &impl Fn() -> bool) -> Result<cmp::Ordering, Torn> {
        let prefix = self.prefix.load(Ordering::Relaxed);
        if length > HEAD {
            let prefix = long_prefix(prefix, still)?;
            let shared = key.len().min(prefix.len());
            return Ok(match key[..shared].cmp(&prefix[..shared]) {
                cmp::Ordering::Equal if key.len() < length => cmp::Ordering::Less,
                order => order,
            });
        }
        let shared = key.len().min(length);
        let mask = u64::MAX.checked_shl(64 - 8 * shared as u32).unwrap_or(0);
        Ok(match (head_of(key) & mask).cmp(&(prefix & mask)) {
            cmp::Ordering::Equal if key.len() < length => cmp::Ordering::Less,
            order => order,
        })
    }

    /// Returns the first index whose head is not below `head`. Branch-free: the branches of a search for a random key
    /// are mispredicted half the time.
    #[inline]
    fn first_head_not_below(&self, head: u64, count: usize) -> usize {
        if count == 0 {
            return 0;
        }
        // The result lies in `base..=base + step`, first in one of two ranges that overlap.
        let mut step = 1 << count.ilog2();
        let mut base = std::hint::select_unpredictable(self.is_below(step - 1, head, count), count - step, 0);
        while step > 1 {
            step /= 2;
            base = std::hint::select_unpredictable(self.is_below(base + step - 1, head, count), base + step, base);
        }
        base + usize::from(self.is_below(base, head, count))
    }

    /// Whether a head is below `head`; `index` is below `count`, which was read from the node's shape.
    #[inline]
    fn is_below(&self, index: usize, head: u64, count: usize) -> bool {
        debug_assert!(index < count && count <= N);
        // SAFETY: no count that was ever stored exceeds `N` (invariant 2).
        unsafe { self.heads.get_unchecked(index) }.load(Ordering::Relaxed) < head
    }

    /// `index` is the first with this head; usually it is the only one.
    #[inline]
    fn find_among_equal_heads(
        &self,
        index: usize,
        count: usize,
        head: u64,
        key: &[u8],
        rest: &[u8],
        still: &impl Fn() -> bool,
    ) -> Result<Place, Torn> {
        let place = |index, exact| Ok(Place { index, exact, fits: true });
        match self.compare(index, key, rest, still)? {
            cmp::Ordering::Equal => place(index, true),
            cmp::Ordering::Greater => place(index, false),
            cmp::Ordering::Less => {
                let mut low = index + 1;
                let mut high = count;
                while low < high {
                    let middle = usize::midpoint(low, high);
                    let order = match self.head(middle).cmp(&head) {
                        cmp::Ordering::Equal => self.compare(middle, key, rest, still)?,
                        order => order,
                    };
                    match order {
                        cmp::Ordering::Less => low = middle + 1,
                        cmp::Ordering::Equal => return place(middle, true),
                        cmp::Ordering::Greater => high = middle,
                    }
                }
                place(low, false)
            }
        }
    }

    /// Compares the entry at `index` with `key`, whose head is equal.
    #[inline]
    fn compare(&self, index: usize, key: &[u8], rest: &[u8], still: &impl Fn() -> bool) -> Result<cmp::Ordering, Torn> {
        let word = self.word(index);
        match word.compare_extent(rest) {
            Some(order) => Ok(order),
            None => Ok(long_bytes(word, still)?.cmp(key)),
        }
    }

    /// Returns the row of an entry.
    #[inline]
    pub(super) fn row(&self, index: usize, still: &impl Fn() -> bool) -> Result<RowId, Torn> {
        let word = self.word(index);
        if !word.is_long() {
            return Ok(word.short_row());
        }
        // SAFETY: the word of a long key of this node.
        unsafe { LongKey::read(word.long_pointer(), still) }.map(|(_, row)| row)
    }

    /// Passes the entries to `visit`, as (short key, long key if it is one).
    fn visit(
        &self,
        indexes: impl Iterator<Item = usize>,
        still: &impl Fn() -> bool,
        mut visit: impl FnMut(Short<'_>, Option<(&[u8], RowId)>),
    ) -> Result<(), Torn> {
        let length = self.shape().prefix_length();
        let prefix_word = self.prefix.load(Ordering::Relaxed);
        let inline = prefix_word.to_be_bytes();
        let prefix = if length <= HEAD { &inline[..length] } else { long_prefix(prefix_word, still)? };
        for index in indexes {
            let word = self.word(index);
            let short = Short { prefix, head: self.head(index), word };
            if !word.is_long() {
                visit(short, None);
                continue;
            }
            // SAFETY: the word of a long key of this node.
            visit(short, Some(unsafe { LongKey::read(word.long_pointer(), still)? }));
        }
        Ok(())
    }

    /// Appends entries to a batch, in the order of `indexes`.
    #[inline]
    pub(super) fn copy_to(
        &self,
        batch: &mut Batch,
        indexes: impl ExactSizeIterator<Item = usize> + Clone,
        still: &impl Fn() -> bool,
    ) -> Result<(), Torn> {
        let length = self.shape().prefix_length();
        if !self.prefetch_long(indexes.clone()) && length <= HEAD {
            let prefix = self.prefix.load(Ordering::Relaxed);
            batch.push_short(prefix, length, indexes.map(|index| (self.head(index), self.word(index))));
            return Ok(());
        }
        self.visit(indexes, still, |short, long| match long {
            Some((key, row)) => batch.push([key, &[]], row),
            // The length is checked: the node may be changing.
            None => {
                let rest = &short.head.to_be_bytes()[..short.word.short_length().min(HEAD)];
                batch.push([short.prefix, rest], short.word.short_row());
            }
        })
    }

    /// Returns the bytes that the entries and the prefix take outside the node.
    pub(super) fn bytes_outside(&self, still: &impl Fn() -> bool) -> Result<usize, Torn> {
        let shape = self.shape();
        let prefix = self.prefix.load(Ordering::Relaxed);
        let prefix = if shape.prefix_length() > HEAD { long_prefix(prefix, still)?.len() } else { 0 };
        let mut sum = if prefix > 0 { LongKey::footprint(prefix) } else { 0 };
        for word in (0..shape.count()).map(|index| self.word(index)).filter(|word| word.is_long()) {
            sum += LongKey::footprint(long_bytes(word, still)?.len());
        }
        Ok(sum)
    }

    /// Starts loading the long keys among the entries; returns whether there are any.
    #[inline]
    fn prefetch_long(&self, indexes: impl Iterator<Item = usize>) -> bool {
        let mut any = false;
        for index in indexes {
            let word = self.word(index);
            if word.is_long() {
                prefetch::lines(word.long_pointer().cast(), 2);
                any = true;
            }
        }
        any
    }

    /// Bytes from the beginning to the end of the heads.
    pub(super) const HEAD_BYTES: usize = 16 + 8 * N;
}

/// For lock holders only, and for exclusive owners of the node.
impl<const N: usize> Keys<N> {
    /// Finds `key`.
    pub(super) fn find_locked(&self, key: &[u8]) -> Place {
        self.find(key, &|| true).expect("nothing changes under the lock")
    }

    /// Makes room at `place` for a key that fits.
    pub(super) fn insert(&self, place: Place, key: &[u8], row: RowId, guard: &Guard<'_>) {
        let shape = self.shape();
        let (count, length) = (shape.count(), shape.prefix_length());
        debug_assert!(count < N && place.fits && !place.exact);
        let rest = &key[length..];
        let short = rest.len() <= HEAD;
        let word = if short { Word::short(rest, row) } else { Word::long(LongKey::allocate(key, row, guard)) };
        shift_up(&self.heads, place.index, count);
        shift_up(&self.words, place.index, count);
        self.set(place.index, head_of(rest), word);
        let appends = if shape.is_append(place.index) { (shape.appends() + 1).min(Shape::APPENDS_MAX) } else { 0 };
        self.set_shape(Shape::new(count + 1, length).with_appends(appends, shape.next_after(place.index)));
    }

    /// Removes an entry; the caller retires its long key.
    pub(super) fn remove(&self, index: usize) {
        let shape = self.shape();
        shift_down(&self.heads, index, shape.count());
        shift_down(&self.words, index, shape.count());
        let next = shape.next() - usize::from(index < shape.next());
        self.set_shape(Shape::new(shape.count() - 1, shape.prefix_length()).with_appends(0, next));
    }

    /// Copies all entries out.
    pub(super) fn gather(&self) -> Entries {
        let mut entries = Entries::with_room_for(N + 1);
        self.visit(0..self.count(), &|| true, |short, long| match long {
            Some((key, row)) => entries.push(key, row, short.word.long_pointer()),
            None => entries.push_short(short.prefix, short.head, short.word),
        })
        .expect("nothing changes under the lock");
        entries
    }

    /// Replaces all entries, cutting off as long a prefix as is useful. Long keys that are no longer needed are freed
    /// when no reader has them.
    pub(super) fn fill(&self, entries: &Entries, range: Range<usize>, guard: &Guard<'_>) {
        let mut discard = |long: *mut LongKey| {
            // SAFETY: the keys discarded below are removed from the node, whose lock the caller holds.
            unsafe { LongKey::retire(long, guard) }
        };
        self.discard_prefix(&mut discard);
        let length = prefix_for(entries, range.clone());
        let count = range.len();
        debug_assert!(count <= N);
        if length > 0 {
            let prefix = &entries.key(range.start)[..length];
            let word = if length <= HEAD {
                head_of(prefix)
            } else {
                LongKey::allocate(prefix, RowId(0), guard).expose_provenance().get() as u64
            };
            self.prefix.store(word, Ordering::Relaxed);
        }
        for (to, from) in range.enumerate() {
            let (key, row, long) = entries.get(from);
            let rest = &key[length..];
            let word = match (rest.len() <= HEAD, long.is_null()) {
                (true, fresh) => {
                    if !fresh {
                        discard(long);
                    }
                    Word::short(rest, row)
                }
                (false, true) => Word::long(LongKey::allocate(key, row, guard)),
                (false, false) => Word::long(std::ptr::NonNull::new(long).expect("just seen not to be null")),
            };
            self.set(to, head_of(rest), word);
        }
        self.set_shape(Shape::new(count, length));
    }

    /// Continues the count of appends of a node of which this one is a part: the next is expected at the end.
    pub(super) fn expect_appends(&self) {
        let shape = self.shape();
        self.set_shape(shape.with_appends(Shape::APPENDS_MAX, shape.count()));
    }

    /// Removes the prefix, and with it all entries.
    pub(super) fn discard_prefix(&self, discard: &mut impl FnMut(*mut LongKey)) {
        if self.shape().prefix_length() > HEAD {
            discard(std::ptr::with_exposed_provenance_mut(self.prefix.load(Ordering::Relaxed) as usize));
        }
        self.set_shape(Shape::new(0, 0));
    }

    /// Removes everything that is allocated outside the node.
    pub(super) fn discard_all(&self, discard: &mut impl FnMut(*mut LongKey)) {
        for word in (0..self.count()).map(|index| self.word(index)).filter(|word| word.is_long()) {
            discard(word.long_pointer());
        }
        self.discard_prefix(discard);
    }

    fn set(&self, index: usize, head: u64, word: Word) {
        self.heads[index].store(head, Ordering::Relaxed);
        self.words[index].store(word.0, Ordering::Relaxed);
    }

    fn set_shape(&self, shape: Shape) {
        debug_assert!(shape.count() <= N);
        self.shape.store(shape.0, Ordering::Relaxed);
    }
}

/// Returns the length of the prefix to cut off these keys.
fn prefix_for(entries: &Entries, range: Range<usize>) -> usize {
    let longest = range.clone().map(|index| entries.key(index).len()).max().unwrap_or(0);
    if longest <= HEAD {
        return 0;
    }
    let shared = common_prefix(entries.key(range.start), entries.key(range.end - 1));
    shared.min(longest - HEAD)
}

#[inline]
pub(super) fn long_bytes<'n>(word: Word, still: &impl Fn() -> bool) -> Result<&'n [u8], Torn> {
    // SAFETY: the word of a long key of this node. Every caller cuts the lifetime to that of the guard.
    unsafe { LongKey::read(word.long_pointer(), still) }.map(|(key, _)| key)
}

#[inline]
fn long_prefix<'n>(prefix: u64, still: &impl Fn() -> bool) -> Result<&'n [u8], Torn> {
    // SAFETY: as in `long_bytes`; the shape said that this is a pointer, and it belonged to the same version.
    unsafe { LongKey::read(std::ptr::with_exposed_provenance(prefix as usize), still) }.map(|(prefix, _)| prefix)
}

/// Moves the items from `from` on one place up. For lock holders only.
pub(super) fn shift_up(items: &[AtomicU64], from: usize, count: usize) {
    for index in (from..count).rev() {
        items[index + 1].store(items[index].load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// Moves the items above `onto` one place down. For lock holders only.
pub(super) fn shift_down(items: &[AtomicU64], onto: usize, count: usize) {
    for index in onto + 1..count {
        items[index - 1].store(items[index].load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

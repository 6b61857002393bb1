//! Buckets: the keys of a bucket are in no order, and the first eight of them are in the bucket itself.
//!
//! ```text
//!  bucket   coverage | shape | heads, words of 8 entries | more -> block: heads, words of 8 entries | more -> ..
//! ```
//!
//! An entry is a head and a [`Word`], as in a leaf of the B+-tree: for a key of at most eight bytes, the head is the
//! whole key; for a longer one it is the hash, and the key is stored outside.
//!
//! Invariants:
//! 1. Every racy field is an atomic word. The number of entries determines the number of blocks: a reader that finds
//!    both under one version finds no block missing.
//! 2. A block is retired after it was removed from its bucket, under the lock.

use super::{Coverage, Guard, HEAD, KeyHash, LeafVersion, LongKey, RowId, Stamp, Torn, Word, head_of};
use crate::{
    platform::budget::heap_bytes,
    sync::{AtomicPtr, AtomicU64, Ordering},
};
use smallvec::SmallVec;
use std::{
    cmp,
    ptr::{self, NonNull},
};

/// Entries of a block.
pub(super) const BLOCK: usize = 8;

/// A leaf of the index.
pub(super) struct Bucket {
    pub(super) coverage: Coverage,
    /// The number of entries, and above it the level: how many bits of the hash the bucket uses.
    shape: AtomicU64,
    block: Block,
}

/// Some entries, and a pointer to the next block.
struct Block {
    heads: [AtomicU64; BLOCK],
    words: [AtomicU64; BLOCK],
    more: AtomicPtr<Block>,
}

/// A key and its row.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    head: u64,
    word: Word,
}

/// The key of a lookup, in the form that an entry would have.
#[derive(Clone, Copy)]
pub(super) struct LookupKey<'k> {
    key: &'k [u8],
    head: u64,
}

impl<'k> LookupKey<'k> {
    #[inline]
    pub(super) fn new(key: &'k [u8], hash: KeyHash) -> Self {
        Self { key, head: if key.len() <= HEAD { head_of(key) } else { hash.0 } }
    }

    pub(super) fn entry(self, row: RowId, guard: &Guard<'_>) -> Entry {
        let short = self.key.len() <= HEAD;
        let word = if short { Word::short(self.key, row) } else { Word::long(LongKey::allocate(self.key, row, guard)) };
        Entry { head: self.head, word }
    }
}

impl Entry {
    pub(super) fn hash(self) -> KeyHash {
        if self.word.is_long() {
            KeyHash(self.head)
        } else {
            KeyHash::of(&self.short_key()[..self.word.short_length()])
        }
    }

    fn short_key(self) -> [u8; HEAD] {
        self.head.to_be_bytes()
    }

    /// Passes key and row to `visit`, if the bucket is unchanged.
    pub(super) fn visit(self, still: &impl Fn() -> bool, visit: impl FnOnce(&[u8], RowId)) -> Result<(), Torn> {
        if self.word.is_long() {
            let (key, row) = long_entry(self.word, still)?;
            visit(key, row);
        } else {
            // In a word read at another moment, the length may be anything.
            let length = self.word.short_length().min(HEAD);
            visit(&self.short_key()[..length], self.word.short_row());
        }
        Ok(())
    }

    /// Frees the entry's memory outside of the bucket once no reader can have it.
    ///
    /// # Safety
    /// The entry has just been removed from a locked bucket.
    pub(super) unsafe fn retire(self, guard: &Guard<'_>) {
        if self.word.is_long() {
            // SAFETY: promised by the caller.
            unsafe { LongKey::retire(self.word.long_pointer(), guard) };
        }
    }
}

/// Returns the key and row of a long entry, if its bucket is unchanged.
#[inline]
fn long_entry<'g>(word: Word, still: &impl Fn() -> bool) -> Result<(&'g [u8], RowId), Torn> {
    // SAFETY: the word of a long entry of that bucket. Every caller cuts the lifetime to that of the guard.
    unsafe { LongKey::read(word.long_pointer(), still) }
}

impl Block {
    /// Bytes that a block takes from the general allocator.
    const BYTES: usize = heap_bytes(size_of::<Self>());

    fn new() -> Self {
        Self {
            heads: std::array::from_fn(|_| AtomicU64::new(0)),
            words: std::array::from_fn(|_| AtomicU64::new(0)),
            more: AtomicPtr::new(ptr::null_mut()),
        }
    }

    #[inline]
    fn entry(&self, at: usize) -> Entry {
        let (head, word) = (self.heads[at].load(Ordering::Relaxed), self.words[at].load(Ordering::Relaxed));
        Entry { head, word: Word(word) }
    }

    fn set(&self, at: usize, entry: Entry) {
        self.heads[at].store(entry.head, Ordering::Relaxed);
        self.words[at].store(entry.word.0, Ordering::Relaxed);
    }

    /// # Safety
    /// `this` is a block that no other thread has.
    unsafe fn free(this: NonNull<u8>) -> usize {
        // SAFETY: promised by the caller; blocks are allocated as boxes.
        drop(unsafe { Box::from_raw(this.cast::<Self>().as_ptr()) });
        Self::BYTES
    }
}

impl Bucket {
    pub(super) fn new(level: u32, phantom: LeafVersion, gap: Stamp, removed: Stamp) -> Self {
        let shape = AtomicU64::new(u64::from(level) << 32);
        Self { coverage: Coverage::new(phantom, gap, removed), shape, block: Block::new() }
    }

    /// Returns the number of bits of the hash that the bucket uses.
    #[inline]
    pub(super) fn level(&self) -> u32 {
        (self.shape.load(Ordering::Relaxed) >> 32) as u32
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        self.shape.load(Ordering::Relaxed) as u32 as usize
    }

    fn set_shape(&self, count: usize, level: u32) {
        self.shape.store(u64::from(level) << 32 | count as u64, Ordering::Relaxed);
    }

    /// Returns the block behind another one, if the bucket is unchanged since it had more entries than up to that one.
    #[inline]
    fn more<'b>(block: &'b Block, still: &impl Fn() -> bool) -> Result<&'b Block, Torn> {
        let more = block.more.load(Ordering::Relaxed);
        if !still() {
            return Err(Torn);
        }
        // SAFETY: the bucket was unchanged, so there was a block (invariant 1), which the guard keeps (invariant 2).
        Ok(unsafe { &*more })
    }

    /// Returns the index of a key, and its row.
    #[inline]
    pub(super) fn find(
        &self,
        sought: LookupKey<'_>,
        still: &impl Fn() -> bool,
    ) -> Result<Option<(usize, RowId)>, Torn> {
        let count = self.count();
        let (mut block, mut first) = (&self.block, 0);
        loop {
            for at in 0..BLOCK.min(count - first) {
                if block.heads[at].load(Ordering::Relaxed) != sought.head {
                    continue;
                }
                let word = block.entry(at).word;
                match word.compare_extent(sought.key) {
                    Some(cmp::Ordering::Equal) => return Ok(Some((first + at, word.short_row()))),
                    Some(_) => {}
                    None => {
                        let (key, row) = long_entry(word, still)?;
                        if key == sought.key {
                            return Ok(Some((first + at, row)));
                        }
                    }
                }
            }
            first += BLOCK;
            if first >= count {
                return Ok(None);
            }
            block = Self::more(block, still)?;
        }
    }

    /// Visits all entries.
    pub(super) fn visit(
        &self,
        still: &impl Fn() -> bool,
        mut visit: impl FnMut(Entry) -> Result<(), Torn>,
    ) -> Result<(), Torn> {
        let mut left = self.count();
        let mut block = &self.block;
        loop {
            (0..BLOCK.min(left)).try_for_each(|at| visit(block.entry(at)))?;
            if left <= BLOCK {
                return Ok(());
            }
            left -= BLOCK;
            block = Self::more(block, still)?;
        }
    }
}

/// For lock holders only, and for exclusive owners of the bucket.
impl Bucket {
    /// Returns the block that holds an entry.
    fn block_of(&self, at: usize) -> &Block {
        (0..at / BLOCK).fold(&self.block, |block, _| {
            // SAFETY: nothing changes under the lock, and the number of entries implies that these blocks exist
            // (invariant 1).
            unsafe { &*block.more.load(Ordering::Relaxed) }
        })
    }

    /// Adds an entry; returns whether the bucket was full.
    pub(super) fn push(&self, entry: Entry, guard: &Guard<'_>) -> bool {
        let count = self.count();
        if count > 0 && count.is_multiple_of(BLOCK) {
            let last = self.block_of(count - 1);
            guard.allocated(Block::BYTES);
            last.more.store(Box::into_raw(Box::new(Block::new())), Ordering::Relaxed);
        }
        self.block_of(count).set(count % BLOCK, entry);
        self.set_shape(count + 1, self.level());
        count >= BLOCK
    }

    /// Removes an entry; the last one takes its place.
    pub(super) fn swap_remove(&self, at: usize, guard: &Guard<'_>) -> Entry {
        let last = self.count() - 1;
        let moved = self.block_of(last).entry(last % BLOCK);
        let block = self.block_of(at);
        let removed = block.entry(at % BLOCK);
        block.set(at % BLOCK, moved);
        self.truncate(last, guard);
        removed
    }

    /// Raises the level by one bit of the hash; removes and returns the entries that no longer belong to the bucket.
    pub(super) fn raise_level(&self, guard: &Guard<'_>) -> SmallVec<[Entry; 2 * BLOCK]> {
        let level = self.level();
        let mut leaving = SmallVec::new();
        let mut staying = 0;
        for from in 0..self.count() {
            let entry = self.block_of(from).entry(from % BLOCK);
            if entry.hash().0 >> level & 1 == 1 {
                leaving.push(entry);
            } else {
                self.block_of(staying).set(staying % BLOCK, entry);
                staying += 1;
            }
        }
        self.truncate(staying, guard);
        self.set_shape(staying, level + 1);
        leaving
    }

    /// Removes the entries from `count` on, and the blocks that only they needed.
    fn truncate(&self, count: usize, guard: &Guard<'_>) {
        let last = self.block_of(count.saturating_sub(1));
        let mut more = last.more.swap(ptr::null_mut(), Ordering::Relaxed);
        self.set_shape(count, self.level());
        while let Some(block) = NonNull::new(more) {
            // SAFETY: the block was the bucket's, and is kept until the guard is dropped.
            more = unsafe { block.as_ref() }.more.load(Ordering::Relaxed);
            // SAFETY: invariant 2.
            unsafe { guard.retire(block.cast(), |block| Block::free(block)) };
        }
    }

    /// Returns the bytes outside of the bucket: of blocks, and of keys.
    pub(super) fn bytes_outside(&self, still: &impl Fn() -> bool) -> Result<(usize, usize), Torn> {
        let mut keys = 0;
        self.visit(still, |entry| {
            if entry.word.is_long() {
                entry.visit(still, |key, _| keys += LongKey::footprint(key.len()))?;
            }
            Ok(())
        })?;
        Ok(((self.count().saturating_sub(1) / BLOCK) * size_of::<Block>(), keys))
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        self.visit(&|| true, |entry| {
            if entry.word.is_long() {
                let long = NonNull::new(entry.word.long_pointer()).expect("a long key lies somewhere");
                // SAFETY: no other thread has the bucket, and a long key belongs to one entry.
                unsafe {
                    LongKey::free(long.cast());
                }
            }
            Ok(())
        })
        .expect("no other thread has the bucket");
        let mut more = *self.block.more.get_mut();
        while let Some(block) = NonNull::new(more) {
            // SAFETY: as above.
            more = unsafe { block.as_ref() }.more.load(Ordering::Relaxed);
            // SAFETY: as above.
            unsafe {
                Block::free(block.cast());
            }
        }
    }
}

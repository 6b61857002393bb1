//! Values that a transaction has copied out of records, and values that it is about to store: memory that does not move
//! until the transaction ends.
//!
//! Invariant: the bytes of a [`Copied`] are not written again, moved or freed before [`Copies::clear`], which the end
//! of the transaction calls. So they may be lent for as long as the transaction lives.

use std::{ptr::NonNull, slice};

use crate::sync::{AtomicU64, Ordering};

/// Words of the first chunk: 4 KiB. Each further one is four times as large, up to [`CHUNK_WORDS_MAX`].
const CHUNK_WORDS: usize = 512;
const CHUNK_WORDS_MAX: usize = 256 << 10;
/// Words that are kept for the next transaction.
const KEPT_WORDS: usize = 128 << 10;

/// Bump memory.
pub(crate) struct Copies {
    chunks: Vec<Chunk>,
    /// The chunk that is being filled, and its used words.
    at: Mark,
}

/// Memory that is only ever reached through its pointer: its bytes are lent while more are pushed behind them.
struct Chunk {
    first: NonNull<u64>,
    words: usize,
}

/// The position up to which the memory is in use.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    chunk: usize,
    used: usize,
}

/// Bytes in the memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copied {
    first: NonNull<u64>,
    bytes: u32,
}

// SAFETY: a pointer to bytes that no thread writes any more.
unsafe impl Send for Copied {}

// SAFETY: the chunk owns its memory.
unsafe impl Send for Chunk {}

impl Chunk {
    fn new(words: usize) -> Self {
        let memory: *mut [u64] = Box::into_raw(vec![0; words].into_boxed_slice());
        Self { first: NonNull::new(memory.cast()).expect("a box is not at null"), words }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: it came from a box of as many words (`new`), and everything lent from it is out of use (invariant of
        // the module).
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.first.as_ptr(), self.words)) });
    }
}

impl Default for Copies {
    fn default() -> Self {
        Self { chunks: vec![Chunk::new(CHUNK_WORDS)], at: Mark { chunk: 0, used: 0 } }
    }
}

impl Copies {
    pub(crate) fn mark(&self) -> Mark {
        self.at
    }

    /// Bytes of all chunks except for the first.
    pub(crate) fn bytes(&self) -> usize {
        self.chunks[1..].iter().map(|chunk| chunk.words * size_of::<u64>()).sum()
    }

    /// Frees the bytes pushed since `mark`, before they have been lent.
    pub(crate) fn rewind(&mut self, mark: Mark) {
        self.at = mark;
    }

    /// Frees all bytes at the end of the transaction.
    pub(crate) fn clear(&mut self) {
        self.at = Mark { chunk: 0, used: 0 };
        let mut words = 0;
        self.chunks.retain(|chunk| {
            words += chunk.words;
            words <= KEPT_WORDS
        });
    }

    #[inline]
    fn room(&mut self, words: usize) -> NonNull<u64> {
        while self.chunks[self.at.chunk].words - self.at.used < words {
            self.next_chunk(words);
        }
        let from = self.at.used;
        self.at.used += words;
        // SAFETY: the chunk has at least `words` words left from there on.
        unsafe { self.chunks[self.at.chunk].first.add(from) }
    }

    #[cold]
    fn next_chunk(&mut self, words: usize) {
        self.at = Mark { chunk: self.at.chunk + 1, used: 0 };
        if self.at.chunk == self.chunks.len() {
            let usual = CHUNK_WORDS.saturating_mul(1 << (2 * self.chunks.len()).min(16)).min(CHUNK_WORDS_MAX);
            self.chunks.push(Chunk::new(words.max(usual)));
        }
    }

    /// Copies words that other threads may be changing.
    #[inline]
    pub(crate) fn push(&mut self, words: &[AtomicU64], bytes: usize) -> Copied {
        let first = self.room(words.len());
        for (at, word) in words.iter().enumerate() {
            // Relaxed: the caller, which knows the lock, detects torn copies.
            // SAFETY: `room` returned as many words, which only this call uses.
            unsafe { first.add(at).write(word.load(Ordering::Relaxed)) };
        }
        Copied { first, bytes: bytes as u32 }
    }

    /// Copies bytes.
    pub(crate) fn push_bytes(&mut self, bytes: &[u8]) -> Copied {
        let first = self.room(bytes.len().div_ceil(8));
        // SAFETY: as above.
        unsafe { first.cast::<u8>().copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
        Copied { first, bytes: bytes.len() as u32 }
    }
}

impl Copied {
    /// The bytes, readable for as long as the transaction of `_pin` lives.
    #[inline]
    pub(crate) fn bytes<P>(self, _pin: &P) -> &[u8] {
        // SAFETY: `push` or `push_bytes` wrote them; they are neither moved nor written until the transaction ends
        // (invariant).
        unsafe { slice::from_raw_parts(self.first.cast::<u8>().as_ptr(), self.bytes as usize) }
    }
}

//! What a transaction has copied out of records, and what it is about to put there: memory that stays where it is until the
//! transaction ends.
//!
//! Invariant: what a [`Copied`] names is not written again, moved or freed before [`Copies::clear`], which the end of the
//! transaction calls. So it may be lent for as long as the transaction lives.

use std::{ptr::NonNull, slice};

use crate::sync::{AtomicU64, Ordering};

/// Words of the first chunk: 32 KiB, which most transactions never fill.
const CHUNK_WORDS: usize = 4 << 10;
/// Words that are kept for the next transaction.
const KEPT_WORDS: usize = 128 << 10;

/// Bump memory.
pub(crate) struct Copies {
    chunks: Vec<Chunk>,
    /// The chunk that is being filled, and how far.
    at: Mark,
}

/// Memory that is only ever reached through its pointer: what lies in it is lent while more is put behind it.
struct Chunk {
    first: NonNull<u64>,
    words: usize,
}

/// How far the memory is in use.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    chunk: usize,
    used: usize,
}

/// Some bytes in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copied {
    first: NonNull<u64>,
    bytes: u32,
}

// SAFETY: a name for bytes that nobody writes any more.
unsafe impl Send for Copied {}

// SAFETY: memory of its own.
unsafe impl Send for Chunk {}

impl Chunk {
    fn new(words: usize) -> Self {
        let memory: *mut [u64] = Box::into_raw(vec![0; words].into_boxed_slice());
        Self { first: NonNull::new(memory.cast()).expect("a box is not at null"), words }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: it came from a box of as many words (`new`), and what was lent of it is out of use (invariant of the module).
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

    /// Bytes that it takes, but for the first chunk.
    pub(crate) fn bytes(&self) -> usize {
        self.chunks[1..].iter().map(|chunk| chunk.words * size_of::<u64>()).sum()
    }

    /// Forgets what was pushed last, before anybody has been given it.
    pub(crate) fn rewind(&mut self, mark: Mark) {
        self.at = mark;
    }

    /// The transaction is over.
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
        // SAFETY: so many words of the chunk are left from there on.
        unsafe { self.chunks[self.at.chunk].first.add(from) }
    }

    #[cold]
    fn next_chunk(&mut self, words: usize) {
        self.at = Mark { chunk: self.at.chunk + 1, used: 0 };
        if self.at.chunk == self.chunks.len() {
            self.chunks.push(Chunk::new(words.max(CHUNK_WORDS << self.chunks.len().min(6))));
        }
    }

    /// Copies words that others may be changing.
    #[inline]
    pub(crate) fn push(&mut self, words: &[AtomicU64], bytes: usize) -> Copied {
        let first = self.room(words.len());
        for (at, word) in words.iter().enumerate() {
            // Relaxed: what is torn is found out by who knows the lock.
            // SAFETY: the room has as many words, and is the caller's alone.
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
    /// The bytes, readable for as long as the transaction that `_pin` belongs to lives.
    #[inline]
    pub(crate) fn bytes<P>(self, _pin: &P) -> &[u8] {
        // SAFETY: written by `push` or `push_bytes`, and neither moved nor written until the transaction ends (invariant).
        unsafe { slice::from_raw_parts(self.first.cast::<u8>().as_ptr(), self.bytes as usize) }
    }
}

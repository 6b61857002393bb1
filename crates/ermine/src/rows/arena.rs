//! Memory of versions: free lists per worker over chunks of the whole database.
//!
//! A version is mostly freed by the worker that superseded it, so each worker frees into lists of its own and takes
//! its next versions from there: no lock and no shared write in the steady state. What one worker frees and another
//! needs (one inserts, one deletes) goes through the pool in batches.
//!
//! Why not the global allocator: versions are small, of few sizes and mostly freed by another thread than the one that
//! took them, the case in which general allocators cost 41-224 ns a pair; and a database is dropped by giving back its
//! chunks, without a walk over its rows.
//!
//! Invariants
//! 1. A block belongs to one size class for ever: 8-byte steps up to [`LARGEST_CLASSED`] bytes.
//! 2. A free block is in exactly one list; its first word is the list's link.
//! 3. Larger blocks come from the global allocator and are listed in the pool, so that they too end with it.

use std::{
    alloc::{Layout, alloc, dealloc, handle_alloc_error},
    collections::HashSet,
    ptr::NonNull,
    sync::Arc,
};

use crate::{
    platform::memory::Region,
    sync::{AtomicU64, AtomicUsize, Mutex, Ordering},
};

const STEP: usize = 8;
// The models use few sizes and pay for every atomic there is.
const LARGEST_CLASSED: usize = if cfg!(any(loom, shuttle)) { 256 } else { 2048 };
const CLASSES: usize = LARGEST_CLASSED / STEP;
const _: () = assert!(LARGEST_CLASSED <= FIRST_CHUNK_BYTES && FIRST_CHUNK_BYTES <= CHUNK_BYTES);
const CHUNK_BYTES: usize = if cfg!(any(loom, shuttle)) { 4 << 10 } else { 256 << 10 };
/// The first chunk of a worker; each further one is four times as large, up to [`CHUNK_BYTES`]. A thousand open transactions
/// that write little need little.
const FIRST_CHUNK_BYTES: usize = 4 << 10;
/// Chunks are cut from regions of this size, so that huge pages serve several. What follows from the order of addresses is the same
/// in every run of an explored schedule: one region is enough for it.
const REGION_BYTES: usize = match () {
    () if cfg!(any(loom, miri)) => CHUNK_BYTES,
    () if cfg!(shuttle) => 64 * CHUNK_BYTES,
    () => 64 << 20,
};
/// Blocks that move between a worker and the pool at a time.
const BATCH: u32 = 128;

type Block = NonNull<u8>;

/// A list of free blocks of one class.
#[derive(Clone, Copy, Default)]
struct FreeList {
    first: Option<Block>,
    length: u32,
}

impl FreeList {
    fn push(&mut self, block: Block) {
        // SAFETY: the block is free (invariant 2), at least 8 bytes long and aligned to 8.
        unsafe { block.cast::<Option<Block>>().write(self.first) };
        *self = Self { first: Some(block), length: self.length + 1 };
    }

    fn pop(&mut self) -> Option<Block> {
        let block = self.first?;
        // SAFETY: the first word of a block in a list is its link (invariant 2).
        let rest = unsafe { block.cast::<Option<Block>>().read() };
        *self = Self { first: rest, length: self.length - 1 };
        Some(block)
    }
}

/// The database's version memory.
pub(crate) struct Pool {
    owned: Mutex<Owned>,
    /// How many batches wait per class: looked at before the lock is taken.
    waiting: Box<[AtomicUsize]>,
    bytes: AtomicU64,
}

struct Owned {
    regions: Vec<Region>,
    /// Bytes of the last region that are cut.
    cut: usize,
    large: HashSet<(Block, usize)>,
    batches: Box<[Vec<FreeList>]>,
}

// SAFETY: blocks in the pool are free memory that no thread uses; access is under the mutex.
unsafe impl Send for Owned {}

impl Owned {
    fn chunk(&mut self, bytes: usize) -> Block {
        if self.cut + bytes > REGION_BYTES {
            let region = Region::reserve(REGION_BYTES, 0);
            // As the global allocator does when there is no memory.
            self.regions.push(region.unwrap_or_else(|_| handle_alloc_error(large_layout(REGION_BYTES))));
            self.cut = 0;
        }
        let region = self.regions.last().expect("one has just been reserved if there was none");
        // SAFETY: the region has so many bytes behind `cut`.
        let chunk = unsafe { region.start().add(self.cut) };
        self.cut += bytes;
        NonNull::new(chunk).expect("a mapping is not at null")
    }
}

fn large_layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, 16).expect("a version is far smaller than the address space")
}

fn allocate(layout: Layout) -> Block {
    // SAFETY: no layout here has size zero.
    let block = unsafe { alloc(layout) };
    NonNull::new(block).unwrap_or_else(|| handle_alloc_error(layout))
}

impl Pool {
    /// An empty pool.
    pub(crate) fn new() -> Arc<Self> {
        let batches = (0..CLASSES).map(|_| Vec::new()).collect();
        Arc::new(Self {
            owned: Mutex::new(Owned { regions: Vec::new(), cut: REGION_BYTES, large: HashSet::new(), batches }),
            waiting: (0..CLASSES).map(|_| AtomicUsize::new(0)).collect(),
            bytes: AtomicU64::new(0),
        })
    }

    /// Bytes taken from the system, in use or free.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// A worker's share.
    pub(crate) fn arena(self: &Arc<Self>) -> Arena {
        Arena {
            pool: self.clone(),
            free: vec![FreeList::default(); CLASSES].into_boxed_slice(),
            next: NonNull::dangling(),
            left: 0,
            next_chunk_bytes: FIRST_CHUNK_BYTES,
        }
    }

    fn lock(&self) -> impl std::ops::DerefMut<Target = Owned> {
        self.owned.lock().expect("no code panics while it holds the pool")
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let owned = self.lock();
        for &(block, bytes) in &owned.large {
            // SAFETY: allocated with this layout; arenas hold the pool alive, so nobody uses a block any more.
            unsafe { dealloc(block.as_ptr(), large_layout(bytes)) };
        }
    }
}

/// One worker's free blocks and the chunk it cuts new ones from.
pub(crate) struct Arena {
    pool: Arc<Pool>,
    free: Box<[FreeList]>,
    next: Block,
    left: usize,
    /// Of the chunk that is taken when this one is used up.
    next_chunk_bytes: usize,
}

// SAFETY: the blocks are free memory that only this arena uses.
unsafe impl Send for Arena {}

impl Arena {
    /// A block of at least `bytes` bytes, aligned to 8, with arbitrary content.
    pub(crate) fn allocate(&mut self, bytes: usize) -> Block {
        debug_assert!(bytes > 0);
        let class = bytes.div_ceil(STEP) - 1;
        if class >= CLASSES {
            return self.allocate_large(bytes);
        }
        match self.free[class].pop() {
            Some(block) => block,
            None => self.refill(class),
        }
    }

    /// Takes a block back.
    ///
    /// # Safety
    /// The block came from an arena of this pool with the same `bytes`, and nobody uses it any more.
    pub(crate) unsafe fn free(&mut self, block: Block, bytes: usize) {
        let class = bytes.div_ceil(STEP) - 1;
        if class >= CLASSES {
            let mut owned = self.pool.lock();
            assert!(owned.large.remove(&(block, bytes)), "a large block is freed once");
            self.pool.bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
            // SAFETY: it was listed with this size, so it was allocated with this layout.
            unsafe { dealloc(block.as_ptr(), large_layout(bytes)) };
            return;
        }
        #[cfg(debug_assertions)]
        // SAFETY: the caller gave the whole block up; a stale reader shall see nonsense, not the old content.
        unsafe {
            block.write_bytes(0xdd, (class + 1) * STEP)
        };
        self.free[class].push(block);
        if self.free[class].length >= 4 * BATCH {
            self.give(class);
        }
    }

    #[cold]
    fn refill(&mut self, class: usize) -> Block {
        // Relaxed: a hint; the lock below orders the lists themselves.
        if self.pool.waiting[class].load(Ordering::Relaxed) > 0
            && let Some(mut batch) = self.pool.lock().batches[class].pop()
        {
            self.pool.waiting[class].fetch_sub(1, Ordering::Relaxed);
            let block = batch.pop().expect("a batch is not empty");
            self.free[class] = batch;
            return block;
        }
        let bytes = (class + 1) * STEP;
        if self.left < bytes {
            let chunk = self.next_chunk_bytes;
            self.next_chunk_bytes = (4 * chunk).min(CHUNK_BYTES);
            self.next = self.pool.lock().chunk(chunk);
            self.left = chunk;
            self.pool.bytes.fetch_add(chunk as u64, Ordering::Relaxed);
        }
        let block = self.next;
        // SAFETY: `left` bytes of the chunk remain behind `next`.
        self.next = unsafe { block.add(bytes) };
        self.left -= bytes;
        block
    }

    /// Hands a batch to whoever needs it.
    #[cold]
    fn give(&mut self, class: usize) {
        let mut batch = FreeList::default();
        for _ in 0..2 * BATCH {
            match self.free[class].pop() {
                Some(block) => batch.push(block),
                None => break,
            }
        }
        self.pool.lock().batches[class].push(batch);
        self.pool.waiting[class].fetch_add(1, Ordering::Relaxed);
    }

    #[cold]
    fn allocate_large(&mut self, bytes: usize) -> Block {
        let block = allocate(large_layout(bytes));
        self.pool.lock().large.insert((block, bytes));
        self.pool.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        block
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn freed_blocks_are_used_again_across_arenas() {
        let pool = Pool::new();
        let (mut one, mut two) = (pool.arena(), pool.arena());
        for round in 0..20 {
            let blocks: Vec<_> = (0..5000).map(|_| one.allocate(100)).collect();
            let distinct: HashSet<_> = blocks.iter().copied().collect();
            assert_eq!(distinct.len(), blocks.len());
            for block in blocks {
                // SAFETY: allocated above with this size and freed once.
                unsafe { two.free(block, 100) };
            }
            if round > 0 {
                assert!(pool.bytes() < 4 * CHUNK_BYTES as u64 + 5000 * 104, "memory grows: {}", pool.bytes());
            }
        }
    }

    #[test]
    fn large_blocks_come_and_go() {
        let pool = Pool::new();
        let mut arena = pool.arena();
        let block = arena.allocate(1 << 20);
        assert_eq!(pool.bytes(), 1 << 20);
        // SAFETY: allocated above with this size and freed once.
        unsafe { arena.free(block, 1 << 20) };
        assert_eq!(pool.bytes(), 0);
        let _leaked_into_the_pool = arena.allocate(1 << 20);
    }
}

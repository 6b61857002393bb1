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
//! 4. *Memory is asked for before it is needed*: [`Arena::provide`] has a block ready, or fails while nothing has been changed. Then
//!    [`Arena::allocate`] cannot fail; without that, as for what undoes and cleans up, it takes what there is and counts it.

use std::{
    alloc::{Layout, alloc, dealloc, handle_alloc_error},
    collections::HashSet,
    ptr::NonNull,
    sync::Arc,
};

use crate::{
    error::{Error, Result},
    platform::{
        budget::{Budget, Need},
        memory::Region,
    },
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
/// Chunks are cut from regions, so that huge pages serve several; each region is twice the one before, up to this size. What follows
/// from the order of addresses is the same in every run of an explored schedule: one region is enough for it.
const REGION_BYTES_MAX: usize = match () {
    () if cfg!(any(loom, miri)) => CHUNK_BYTES,
    () if cfg!(shuttle) => 64 * CHUNK_BYTES,
    () => 64 << 20,
};
const REGION_BYTES_MIN: usize = if cfg!(any(loom, miri, shuttle)) { REGION_BYTES_MAX } else { 2 << 20 };
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
    budget: Arc<Budget>,
}

struct Owned {
    regions: Vec<Region>,
    /// Bytes of the last region, and how many of them are cut.
    region_bytes: usize,
    cut: usize,
    large: HashSet<(Block, usize)>,
    batches: Box<[Vec<FreeList>]>,
}

// SAFETY: blocks in the pool are free memory that no thread uses; access is under the mutex.
unsafe impl Send for Owned {}

impl Owned {
    /// The next chunk; `None` when the system has no more addresses.
    fn chunk(&mut self, chunk_bytes: usize) -> Option<Block> {
        if self.cut + chunk_bytes > self.region_bytes {
            let bytes = (self.region_bytes * 2).clamp(REGION_BYTES_MIN, REGION_BYTES_MAX);
            self.regions.push(Region::reserve(bytes, 0).ok()?);
            (self.region_bytes, self.cut) = (bytes, 0);
        }
        // SAFETY: the region has so many bytes behind `cut`.
        let chunk = unsafe { self.regions.last()?.start().add(self.cut) };
        self.cut += chunk_bytes;
        NonNull::new(chunk)
    }
}

fn large_layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, 16).expect("a version is far smaller than the address space")
}

impl Pool {
    /// An empty pool.
    pub(crate) fn new(budget: Arc<Budget>) -> Arc<Self> {
        let batches = (0..CLASSES).map(|_| Vec::new()).collect();
        let owned = Owned { regions: Vec::new(), region_bytes: 0, cut: 0, large: HashSet::new(), batches };
        Arc::new(Self {
            owned: Mutex::new(owned),
            waiting: (0..CLASSES).map(|_| AtomicUsize::new(0)).collect(),
            bytes: AtomicU64::new(0),
            budget,
        })
    }

    /// An empty pool that refuses nothing.
    #[cfg(any(test, loom))]
    pub(crate) fn unlimited() -> Arc<Self> {
        Self::new(Arc::new(Budget::unlimited()))
    }

    /// Counts bytes taken from the system.
    fn count(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.budget.add(bytes);
    }

    fn count_back(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.budget.give(bytes);
    }

    /// A block of the general allocator, listed; `None` when it has none.
    fn large(&self, bytes: usize) -> Option<Block> {
        // SAFETY: no version has no bytes.
        let block = NonNull::new(unsafe { alloc(large_layout(bytes)) })?;
        self.lock().large.insert((block, bytes));
        self.count(bytes as u64);
        Some(block)
    }

    fn free_large(&self, block: Block, bytes: usize) {
        assert!(self.lock().large.remove(&(block, bytes)), "a large block is freed once");
        self.count_back(bytes as u64);
        // SAFETY: it was listed with this size, so it was allocated with this layout.
        unsafe { dealloc(block.as_ptr(), large_layout(bytes)) };
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
            provided: None,
            asks: self.budget.fails(),
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
    /// A large block that has been asked for and not been used yet.
    provided: Option<(Block, usize)>,
    /// The budget refuses at random: it is asked whatever there is.
    asks: bool,
}

// SAFETY: the blocks are free memory that only this arena uses.
unsafe impl Send for Arena {}

impl Arena {
    /// Has memory ready for one block of so many bytes, so that [`Arena::allocate`] takes nothing more from the system. Fails when the database
    /// may not take what that needs; then nothing has changed.
    #[inline]
    pub(crate) fn provide(&mut self, bytes: usize, need: Need) -> Result<()> {
        let class = bytes.div_ceil(STEP) - 1;
        if class < CLASSES && self.free[class].length > 0 && !self.asks {
            return Ok(());
        }
        self.provide_anew(bytes, class, need)
    }

    #[cold]
    fn provide_anew(&mut self, bytes: usize, class: usize, need: Need) -> Result<()> {
        let budget = self.pool.budget.clone();
        let refused =
            |bytes: usize| Error::OutOfMemory { needed: bytes as u64, taken: budget.taken(), limit: budget.limit() };
        if class >= CLASSES {
            self.give_back_provided();
            budget.check(bytes as u64, need)?;
            self.provided = Some((self.pool.large(bytes).ok_or_else(|| refused(bytes))?, bytes));
            return Ok(());
        }
        if self.asks {
            budget.check(bytes as u64, need)?;
        }
        if self.free[class].length == 0 && !self.take_batch(class) {
            if self.left < (class + 1) * STEP {
                let chunk = self.next_chunk_bytes;
                budget.check(chunk as u64, need)?;
                if !self.take_chunk() {
                    return Err(refused(chunk));
                }
            }
            let block = self.cut(class);
            self.free[class].push(block);
        }
        Ok(())
    }

    /// The operation that asked for memory has ended, perhaps without using it.
    #[inline]
    pub(crate) fn give_back_provided(&mut self) {
        if let Some((block, bytes)) = self.provided.take() {
            self.pool.free_large(block, bytes);
        }
    }

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
            return self.pool.free_large(block, bytes);
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
        if self.take_batch(class) {
            return self.free[class].pop().expect("a batch is not empty");
        }
        if self.left < (class + 1) * STEP && !self.take_chunk() {
            // As the global allocator does when there is no memory.
            handle_alloc_error(large_layout(self.next_chunk_bytes));
        }
        self.cut(class)
    }

    /// Goes on with a new chunk; `false` when the system has no more addresses.
    fn take_chunk(&mut self) -> bool {
        let bytes = self.next_chunk_bytes;
        let Some(chunk) = self.pool.lock().chunk(bytes) else { return false };
        (self.next, self.left) = (chunk, bytes);
        self.next_chunk_bytes = (4 * bytes).min(CHUNK_BYTES);
        self.pool.count(bytes as u64);
        true
    }

    /// Fills an empty list with a batch from the pool, if one waits there.
    fn take_batch(&mut self, class: usize) -> bool {
        // Relaxed: a hint; the lock below orders the lists themselves.
        if self.pool.waiting[class].load(Ordering::Relaxed) == 0 {
            return false;
        }
        let Some(batch) = self.pool.lock().batches[class].pop() else { return false };
        self.pool.waiting[class].fetch_sub(1, Ordering::Relaxed);
        self.free[class] = batch;
        true
    }

    /// Cuts a block from the chunk, which has room for it.
    fn cut(&mut self, class: usize) -> Block {
        let (block, bytes) = (self.next, (class + 1) * STEP);
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
        if let Some((block, _)) = self.provided.take_if(|(_, provided)| *provided == bytes) {
            return block;
        }
        self.pool.large(bytes).unwrap_or_else(|| handle_alloc_error(large_layout(bytes)))
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for class in 0..CLASSES {
            while self.free[class].length > 0 {
                self.give(class);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn freed_blocks_are_used_again_across_arenas() {
        let pool = Pool::unlimited();
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
    fn what_cannot_be_provided_is_refused_and_what_is_free_is_used_again() {
        let budget = Arc::new(Budget::new(32 << 20));
        let pool = Pool::new(budget.clone());
        let mut arena = pool.arena();
        let mut blocks = Vec::new();
        while arena.provide(100, Need::Grow).is_ok() {
            blocks.push(arena.allocate(100));
        }
        assert_eq!((budget.taken(), pool.bytes()), (28 << 20, 28 << 20));
        // Of other sizes there is nothing either; deletes have the reserve.
        assert!(arena.provide(1 << 20, Need::Grow).is_err());
        assert!(arena.provide(104, Need::Grow).is_err() && arena.provide(2000, Need::Grow).is_err());
        arena.provide(2000, Need::Shrink).unwrap();
        // SAFETY: allocated above with this size and freed once.
        unsafe { arena.free(blocks.pop().unwrap(), 100) };
        arena.provide(100, Need::Grow).unwrap();
        // A large block that was provided and not used is given back.
        arena.provide(1 << 20, Need::Shrink).unwrap();
        let taken = budget.taken();
        arena.give_back_provided();
        assert_eq!(budget.taken(), taken - (1 << 20));
    }

    #[test]
    fn large_blocks_come_and_go() {
        let pool = Pool::unlimited();
        let mut arena = pool.arena();
        let block = arena.allocate(1 << 20);
        assert_eq!(pool.bytes(), 1 << 20);
        // SAFETY: allocated above with this size and freed once.
        unsafe { arena.free(block, 1 << 20) };
        assert_eq!(pool.bytes(), 0);
        let _leaked_into_the_pool = arena.allocate(1 << 20);
    }
}

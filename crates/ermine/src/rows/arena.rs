//! Memory of versions: free lists per worker over chunks that belong to the whole database.
//!
//! A version is mostly freed by the worker that superseded it, so each worker frees into lists of its own and takes its
//! next versions from there: no lock and no shared write in the steady state. Blocks that one worker frees and another
//! needs (one inserts, one deletes) go through the pool in batches.
//!
//! Workloads drift: values that grow leave free blocks of sizes that no worker needs any more. Workers give the pool
//! the lists that they do not use ([`Arena::tidy`]). When much memory is free there, [`Pool::sweep`] searches for
//! granules all of whose blocks are free. Their memory goes back to the system; later, blocks of any size are cut from
//! them. Where rows can be evicted, granules are emptied on purpose ([`FreeBytes::emptiest`]).
//!
//! Why not the global allocator: versions are small, of few sizes and mostly freed by another thread than the one that
//! allocated them, the case in which general allocators cost 41-224 ns a pair; and a database is dropped by giving back
//! its chunks, without a walk over its rows.
//!
//! Invariants
//! 1. A block belongs to one size class, 8-byte steps up to [`LARGEST_CLASSED`] bytes, until it is split where no more
//!    memory may be taken, or its granule is swept. Every byte of a granule from which no arena cuts any more belongs to
//!    exactly one block, and no block lies in two granules. So a granule is free as a whole when the free blocks
//!    collected from it add up to its size.
//! 2. A free block is in exactly one list. Lists are memory of the global allocator: those in the pool count in the
//!    budget, and a worker has at most 4 KiB of them for each size that it uses.
//! 3. Larger blocks come from the global allocator and are listed in the pool, so that they are freed with it.
//! 4. *Memory is requested before it is needed*: [`Arena::provide`] has a block ready, or fails before anything has
//!    been changed. After it, [`Arena::allocate`] cannot fail. Without it, as in rollback and cleanup, `allocate` takes
//!    memory regardless of the budget and counts it.

use std::{
    alloc::{Layout, alloc, dealloc, handle_alloc_error},
    collections::{HashSet, VecDeque},
    ptr::NonNull,
    sync::Arc,
};

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::{
    error::{Error, Result},
    platform::{
        budget::{Budget, Need},
        memory::Region,
        prefetch,
    },
    rows::granules::{FreeBytes, GRANULE_BYTES, granule_of},
    sync::{AtomicU64, AtomicUsize, Mutex, Ordering},
};

const STEP: usize = 8;
// The models use few sizes and pay for every atomic.
const LARGEST_CLASSED: usize = if cfg!(any(loom, shuttle)) { 256 } else { 2048 };
const CLASSES: usize = LARGEST_CLASSED / STEP;
const CHUNK_BYTES: usize = if cfg!(any(loom, shuttle)) { GRANULE_BYTES } else { 256 << 10 };
/// The first piece of memory of a worker, so that a thousand open transactions do not take a chunk each.
const PIECE_BYTES: usize = 4 << 10;
const _: () = assert!(LARGEST_CLASSED <= PIECE_BYTES && GRANULE_BYTES.is_multiple_of(PIECE_BYTES));
const _: () = assert!(CHUNK_BYTES.is_multiple_of(GRANULE_BYTES));
/// Chunks are cut from regions, so that huge pages serve several chunks; each region is twice as large as the one
/// before, up to this size. Effects of the order of addresses are to be the same in every run of an explored schedule:
/// one region is enough for it.
const REGION_BYTES_MAX: usize = match () {
    () if cfg!(any(loom, miri)) => CHUNK_BYTES,
    () if cfg!(shuttle) => 64 * CHUNK_BYTES,
    () => 64 << 20,
};
const REGION_BYTES_MIN: usize = if cfg!(any(loom, miri, shuttle)) { REGION_BYTES_MAX } else { 2 << 20 };
/// Blocks that move between a worker and the pool in one batch.
const BATCH: usize = 128;

type Block = NonNull<u8>;

/// Free blocks of one class. They lie beside the blocks and not in them, so that counting free memory does not load it.
type FreeList = Vec<Block>;

/// Starts loading the block that comes next: it will be written from its beginning to its end.
#[inline]
fn prefetch_last(blocks: &[Block], class: usize) {
    /// The processor's own prefetcher continues in longer blocks.
    const LINES: usize = 6;
    if let Some(last) = blocks.last() {
        prefetch::lines(last.as_ptr(), (bytes_of(class) as usize).div_ceil(64).min(LINES));
    }
}

/// The database's version memory.
pub(crate) struct Pool {
    owned: Mutex<Owned>,
    /// Number of batches that wait, per class; read before the lock is taken.
    waiting: Box<[AtomicUsize]>,
    bytes: AtomicU64,
    /// Bytes of all blocks in `batches`, and of these lists; written under the lock.
    free: AtomicU64,
    refused: AtomicU64,
    /// 1 where larger blocks serve smaller sizes when no more memory may be taken.
    splits: AtomicUsize,
    budget: Arc<Budget>,
    sweeps: Mutex<Sweeps>,
}

/// State that decides when to search for free chunks again.
#[derive(Default)]
struct Sweeps {
    /// Calls since the last sweep.
    calls: u32,
    /// Free bytes in which the last sweep found no free chunk.
    in_vain: u64,
}

struct Owned {
    regions: Vec<Region>,
    /// Granules that hold no blocks and no memory.
    spare: Vec<Block>,
    /// The rest of a granule that is cut into pieces: its address and its number of pieces.
    pieces: Option<(Block, usize)>,
    /// Bytes of the last region, and how many of them have been cut.
    region_bytes: usize,
    cut: usize,
    large: HashSet<(Block, usize)>,
    batches: Box<[VecDeque<FreeList>]>,
}

// SAFETY: blocks in the pool are free memory that no thread uses; access is under the mutex.
unsafe impl Send for Owned {}

impl Owned {
    /// Returns a spare granule, or else a chunk, and its length; `None` when the system has no more addresses.
    fn chunk(&mut self) -> Option<(Block, usize)> {
        if let Some(granule) = self.spare.pop() {
            return Some((granule, GRANULE_BYTES));
        }
        if self.cut == self.region_bytes {
            let bytes = (self.region_bytes * 2).clamp(REGION_BYTES_MIN, REGION_BYTES_MAX);
            self.regions.push(Region::reserve(bytes + GRANULE_BYTES, 0).ok()?);
            (self.region_bytes, self.cut) = (bytes, 0);
        }
        let start = self.regions.last()?.start();
        // SAFETY: `cut` is below the region's size without the part that serves to align it.
        let chunk = unsafe { start.add(start.align_offset(GRANULE_BYTES) + self.cut) };
        self.cut += CHUNK_BYTES;
        Some((NonNull::new(chunk)?, CHUNK_BYTES))
    }

    /// Returns a granule.
    fn granule(&mut self) -> Option<Block> {
        let (first, bytes) = self.chunk()?;
        for granule in (GRANULE_BYTES..bytes).step_by(GRANULE_BYTES) {
            // SAFETY: inside of the chunk.
            self.spare.push(unsafe { first.add(granule) });
        }
        Some(first)
    }

    /// Returns a piece of a granule. A granule is swept only when all of its pieces are handed out, and their blocks
    /// free.
    fn piece(&mut self) -> Option<Block> {
        let (piece, left) = match self.pieces.take() {
            Some(pieces) => pieces,
            None => (self.granule()?, GRANULE_BYTES / PIECE_BYTES),
        };
        if left > 1 {
            // SAFETY: another piece of the granule follows.
            self.pieces = Some((unsafe { piece.add(PIECE_BYTES) }, left - 1));
        }
        Some(piece)
    }

    /// Gives the memory of a granule back to the system; it becomes spare.
    fn discard(&mut self, granule: usize) {
        let at = granule * GRANULE_BYTES;
        let of = |region: &&mut Region| (region.start().addr()..region.start().addr() + region.bytes()).contains(&at);
        let region = self.regions.iter_mut().find(of).expect("a granule lies in a region");
        let offset = at - region.start().addr();
        region.discard(offset, GRANULE_BYTES);
        // SAFETY: the granule lies inside of its region.
        self.spare.extend(NonNull::new(unsafe { region.start().add(offset) }));
    }
}

/// Bytes of a block of a class.
fn bytes_of(class: usize) -> u64 {
    ((class + 1) * STEP) as u64
}

/// Bytes of the list of a batch.
fn list_bytes(batch: &FreeList) -> u64 {
    size_of_val(&batch[..]) as u64
}

fn large_layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, 16).expect("a version is far smaller than the address space")
}

impl Pool {
    /// Creates an empty pool.
    pub(crate) fn new(budget: Arc<Budget>) -> Arc<Self> {
        let batches = (0..CLASSES).map(|_| VecDeque::new()).collect();
        let (regions, spare, large) = (Vec::new(), Vec::new(), HashSet::new());
        let owned = Owned { regions, spare, pieces: None, region_bytes: 0, cut: 0, large, batches };
        Arc::new(Self {
            owned: Mutex::new(owned),
            waiting: (0..CLASSES).map(|_| AtomicUsize::new(0)).collect(),
            bytes: AtomicU64::new(0),
            free: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            splits: AtomicUsize::new(0),
            budget,
            sweeps: Mutex::new(Sweeps::default()),
        })
    }

    /// Creates an empty pool that refuses no request.
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

    /// Allocates and lists a block of the general allocator; `None` when the allocator has no memory.
    fn large(&self, bytes: usize) -> Option<Block> {
        // SAFETY: a version always has bytes, so the size is not zero.
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

    /// Lets larger blocks serve smaller sizes from now on where no more memory may be taken: where rows can be evicted,
    /// this leaves no block of any size unused for long.
    pub(crate) fn split_blocks(&self) {
        // Relaxed: set before the pool has users.
        self.splits.store(1, Ordering::Relaxed);
    }

    /// Bytes of free blocks that wait for workers.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.free.load(Ordering::Relaxed)
    }

    /// Number of requests for memory that the budget has refused.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Creates the arena of one worker.
    pub(crate) fn arena(self: &Arc<Self>) -> Arena {
        Arena {
            pool: self.clone(),
            free: vec![FreeList::new(); CLASSES].into_boxed_slice(),
            refilled: vec![false; CLASSES].into_boxed_slice(),
            calls: 0,
            next: NonNull::dangling(),
            left: 0,
            behind: 0,
            next_bytes: PIECE_BYTES,
            provided: None,
            asks: self.budget.fails(),
        }
    }

    /// Sweeps when much of the memory is free in the pool: an eighth of all, and more than the last sweep left free.
    /// Called in the background.
    pub(crate) fn sweep_if_due(&self) {
        /// Fewer free bytes are not worth a walk over the blocks.
        const FREE_MIN: u64 = 4 << 20;
        /// Calls after which blocks that the last sweep left are examined again.
        const CALLS_MAX: u32 = 1024;
        let mut sweeps = self.sweeps.lock().expect("no code panics while it sweeps");
        sweeps.calls += 1;
        if sweeps.calls >= CALLS_MAX {
            sweeps.in_vain = 0;
        }
        let free = self.free_bytes();
        if free < FREE_MIN || free < self.bytes() / 8 || free < sweeps.in_vain + sweeps.in_vain / 4 {
            return;
        }
        self.sweep();
        *sweeps = Sweeps { calls: 0, in_vain: self.free_bytes() };
    }

    /// Free bytes in each granule that has some.
    fn free_by_granule(&self) -> FxHashMap<usize, u64> {
        let mut free: FxHashMap<usize, u64> = FxHashMap::default();
        for class in 0..CLASSES {
            self.rotate(class, |batch| {
                for block in &batch {
                    *free.entry(granule_of(block.addr().get())).or_default() += bytes_of(class);
                }
                batch
            });
        }
        free
    }

    /// Gives the memory of granules without a block in use back to the system; returns its bytes, and the free bytes of
    /// the others. Takes time for each free block. No thread waits long: the lock is held for some batches at a time,
    /// and a block that is taken meanwhile only keeps its granule.
    pub(crate) fn sweep(&self) -> (u64, FreeBytes) {
        let free = self.free_by_granule();
        // Some blocks may have been counted twice, as other threads went on: only collected blocks count.
        let (free, others): (FxHashMap<_, _>, _) =
            free.into_iter().partition(|(_, bytes)| *bytes >= GRANULE_BYTES as u64);
        if free.is_empty() {
            return (0, FreeBytes(others));
        }
        let mut in_hand: FxHashMap<usize, Vec<(usize, Block)>> = FxHashMap::default();
        for class in 0..CLASSES {
            self.rotate(class, |mut batch| {
                batch.retain(|&block| {
                    let granule = granule_of(block.addr().get());
                    let stays = !free.contains_key(&granule);
                    if !stays {
                        in_hand.entry(granule).or_default().push((class, block));
                    }
                    stays
                });
                batch.shrink_to_fit();
                batch
            });
        }
        let (mut swept, mut left) = (0, vec![FreeList::new(); CLASSES]);
        for (granule, blocks) in in_hand {
            let bytes: u64 = blocks.iter().map(|(class, _)| bytes_of(*class)).sum();
            if bytes == GRANULE_BYTES as u64 {
                self.lock().discard(granule);
                self.count_back(GRANULE_BYTES as u64);
                swept += GRANULE_BYTES as u64;
                continue;
            }
            for (class, block) in blocks {
                left[class].push(block);
                if left[class].len() == 2 * BATCH {
                    self.give(class, std::mem::take(&mut left[class]));
                }
            }
        }
        for (class, batch) in left.into_iter().enumerate().filter(|(_, batch)| !batch.is_empty()) {
            self.give(class, batch);
        }
        (swept, FreeBytes(others))
    }

    /// Takes each batch of a class that is in the pool now, and puts back the batch that `change` returns, unless it is
    /// empty.
    fn rotate(&self, class: usize, mut change: impl FnMut(FreeList) -> FreeList) {
        /// The number of batches that are out of the pool at a time.
        const AT_ONCE: usize = 16;
        let mut left = self.lock().batches[class].len();
        while left > 0 {
            let mut batches: SmallVec<[FreeList; AT_ONCE]> = SmallVec::new();
            {
                let mut owned = self.lock();
                while batches.len() < AT_ONCE.min(left)
                    && let Some(batch) = owned.batches[class].pop_front()
                {
                    self.count_free(class, &batch, false);
                    batches.push(batch);
                }
            }
            if batches.is_empty() {
                return;
            }
            left -= batches.len();
            self.waiting[class].fetch_sub(batches.len(), Ordering::Relaxed);
            for batch in batches {
                let batch = change(batch);
                if !batch.is_empty() {
                    self.give(class, batch);
                }
            }
        }
    }

    /// Counts a batch that is added or taken away; the lock is held.
    fn count_free(&self, class: usize, batch: &FreeList, added: bool) {
        let bytes = batch.len() as u64 * bytes_of(class) + list_bytes(batch);
        let free = self.free.load(Ordering::Relaxed);
        self.free.store(if added { free + bytes } else { free - bytes }, Ordering::Relaxed);
        if added {
            self.count(list_bytes(batch));
        } else {
            self.count_back(list_bytes(batch));
        }
    }

    /// Takes a batch from a worker.
    fn give(&self, class: usize, batch: FreeList) {
        let mut owned = self.lock();
        self.count_free(class, &batch, true);
        owned.batches[class].push_back(batch);
        self.waiting[class].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns a batch of a class, if one waits.
    fn take(&self, class: usize) -> Option<FreeList> {
        // A hint; the lock orders the lists themselves.
        if self.waiting[class].load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut owned = self.lock();
        let batch = owned.batches[class].pop_back()?;
        self.count_free(class, &batch, false);
        self.waiting[class].fetch_sub(1, Ordering::Relaxed);
        Some(batch)
    }

    /// Cuts the blocks of a batch of a larger class into blocks of this one and what is left of them; returns the
    /// former. Blocks only get smaller, until their chunk is swept.
    fn split(&self, class: usize) -> Option<FreeList> {
        let (larger, blocks) = (class + 1..CLASSES).find_map(|larger| Some((larger, self.take(larger)?)))?;
        // SAFETY: the block is longer than one of this class; the rest of it is at least one step long.
        let rest = blocks.iter().map(|block| unsafe { block.add((class + 1) * STEP) });
        self.give(larger - class - 1, rest.collect());
        Some(blocks)
    }

    fn lock(&self) -> impl std::ops::DerefMut<Target = Owned> {
        self.owned.lock().expect("no code panics while it holds the pool")
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let owned = self.lock();
        for &(block, bytes) in &owned.large {
            // SAFETY: allocated with this layout; arenas hold the pool alive, so no thread uses a block any more.
            unsafe { dealloc(block.as_ptr(), large_layout(bytes)) };
        }
    }
}

/// One worker's free blocks and the chunk from which it cuts new ones.
pub(crate) struct Arena {
    pool: Arc<Pool>,
    free: Box<[FreeList]>,
    /// Classes whose blocks were requested while their lists were empty, since `tidy` last checked.
    refilled: Box<[bool]>,
    /// Calls of `tidy`.
    calls: u32,
    next: Block,
    /// Bytes left in the granule, or piece, and further granules of the chunk behind it.
    left: usize,
    behind: usize,
    /// Bytes that are taken next when these are used up: a piece first, then chunks.
    next_bytes: usize,
    /// A large block that has been provided and not been used yet.
    provided: Option<(Block, usize)>,
    /// Whether the budget refuses at random: then it is asked even if the arena has memory.
    asks: bool,
}

// SAFETY: the blocks are free memory that only this arena uses.
unsafe impl Send for Arena {}

impl Arena {
    /// Whether there is memory for a block of `bytes` bytes and another one of at most that length, whatever the lists
    /// hold: most arenas are in the middle of a chunk.
    #[inline]
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        (self.left >= 2 * LARGEST_CLASSED || self.behind > 0) && bytes <= LARGEST_CLASSED && !self.asks
    }

    /// Prepares memory for one block of `bytes` bytes, so that [`Arena::allocate`] takes nothing more from the system.
    /// Fails without an effect when the budget does not permit the memory that this takes.
    #[inline]
    pub(crate) fn provide(&mut self, bytes: usize, need: Need) -> Result<()> {
        let class = bytes.div_ceil(STEP) - 1;
        if self.has_room(bytes) || class < CLASSES && !self.free[class].is_empty() && !self.asks {
            return Ok(());
        }
        self.provide_anew(bytes, class, need)
    }

    #[cold]
    fn provide_anew(&mut self, bytes: usize, class: usize, need: Need) -> Result<()> {
        self.try_provide(bytes, class, need).inspect_err(|_| {
            self.pool.refused.fetch_add(1, Ordering::Relaxed);
        })
    }

    fn try_provide(&mut self, bytes: usize, class: usize, need: Need) -> Result<()> {
        if class >= CLASSES {
            self.give_back_provided();
            self.pool.budget.check(bytes as u64, need)?;
            self.provided = Some((self.pool.large(bytes).ok_or_else(|| self.refused(bytes))?, bytes));
            return Ok(());
        }
        if self.asks {
            self.pool.budget.check(bytes as u64, need)?;
        }
        let is_empty = self.free[class].is_empty();
        self.refilled[class] |= is_empty;
        if is_empty && !self.take_batch(class) {
            if self.left < (class + 1) * STEP && !self.next_granule() {
                let mut bytes = self.next_bytes;
                if self.pool.budget.check(bytes as u64, need).is_err() {
                    bytes = bytes.min(GRANULE_BYTES);
                    if let Err(refused) = self.pool.budget.check(bytes as u64, need) {
                        let splits = self.pool.splits.load(Ordering::Relaxed) != 0;
                        self.free[class] = if splits { self.pool.split(class) } else { None }.ok_or(refused)?;
                        return Ok(());
                    }
                }
                if !self.take(bytes) {
                    return Err(self.refused(bytes));
                }
            }
            let block = self.cut(class);
            self.free[class].push(block);
        }
        Ok(())
    }

    /// The error for a system without memory, whatever the budget permits.
    fn refused(&self, bytes: usize) -> Error {
        let budget = &self.pool.budget;
        Error::OutOfMemory { needed: bytes as u64, taken: budget.taken(), limit: budget.limit() }
    }

    /// Frees a provided block that was not used. Called when the operation that requested it has ended.
    #[inline]
    pub(crate) fn give_back_provided(&mut self) {
        if let Some((block, bytes)) = self.provided.take() {
            self.pool.free_large(block, bytes);
        }
    }

    /// Allocates a block of at least `bytes` bytes, aligned to 8, with arbitrary content.
    pub(crate) fn allocate(&mut self, bytes: usize) -> Block {
        debug_assert!(bytes > 0);
        let class = bytes.div_ceil(STEP) - 1;
        if class >= CLASSES {
            return self.allocate_large(bytes);
        }
        match self.free[class].pop() {
            Some(block) => {
                prefetch_last(&self.free[class], class);
                block
            }
            None => self.refill(class),
        }
    }

    /// Frees a block.
    ///
    /// # Safety
    /// The block came from an arena of this pool with the same `bytes`, and no thread uses it any more.
    pub(crate) unsafe fn free(&mut self, block: Block, bytes: usize) {
        let class = bytes.div_ceil(STEP) - 1;
        if class >= CLASSES {
            return self.pool.free_large(block, bytes);
        }
        #[cfg(debug_assertions)]
        // SAFETY: the caller gave the whole block up; a stale reader is to see nonsense, not the old content.
        unsafe {
            block.write_bytes(0xdd, (class + 1) * STEP)
        };
        self.free[class].push(block);
        if self.free[class].len() >= 4 * BATCH {
            self.give(class);
        }
    }

    #[cold]
    fn refill(&mut self, class: usize) -> Block {
        self.refilled[class] = true;
        if self.take_batch(class) {
            return self.free[class].pop().expect("a batch is not empty");
        }
        // Not checked before, or used up by a row that was read from its file.
        let is_much = self.pool.budget.check(self.next_bytes as u64, Need::Grow).is_err();
        let bytes = if is_much { self.next_bytes.min(GRANULE_BYTES) } else { self.next_bytes };
        if self.left < (class + 1) * STEP && !self.next_granule() && !self.take(bytes) {
            // As the global allocator does when it has no memory.
            handle_alloc_error(large_layout(self.next_bytes));
        }
        self.cut(class)
    }

    /// Fills an empty list with a batch from the pool, if one waits there; returns whether it did.
    fn take_batch(&mut self, class: usize) -> bool {
        let Some(batch) = self.pool.take(class) else { return false };
        self.free[class] = batch;
        true
    }

    /// Cuts a block from the chunk, which has room for it.
    fn cut(&mut self, class: usize) -> Block {
        /// Lines that are loaded beyond the block: for the blocks that are cut next.
        const AHEAD: usize = 4;
        let (block, bytes) = (self.next, (class + 1) * STEP);
        // SAFETY: `left` bytes of the granule remain behind `next`.
        self.next = unsafe { block.add(bytes) };
        self.left -= bytes;
        prefetch::lines(self.next.as_ptr(), AHEAD);
        block
    }

    /// Goes on to the next granule of the chunk, if there is one.
    fn next_granule(&mut self) -> bool {
        if self.behind == 0 {
            return false;
        }
        self.cut_rest();
        (self.left, self.behind) = (GRANULE_BYTES, self.behind - GRANULE_BYTES);
        true
    }

    /// Takes more memory to cut blocks from, of at most that size; `false` when the system has none.
    fn take(&mut self, most: usize) -> bool {
        let mut owned = self.pool.lock();
        let taken = if most == PIECE_BYTES {
            owned.piece().map(|piece| (piece, PIECE_BYTES))
        } else if most == GRANULE_BYTES {
            owned.granule().map(|granule| (granule, GRANULE_BYTES))
        } else {
            owned.chunk()
        };
        drop(owned);
        let Some((chunk, bytes)) = taken else { return false };
        self.cut_rest();
        self.pool.count(bytes as u64);
        let left = bytes.min(GRANULE_BYTES);
        (self.next, self.left, self.behind, self.next_bytes) = (chunk, left, bytes - left, CHUNK_BYTES);
        true
    }

    /// Turns the rest of the granule into free blocks (invariant 1).
    fn cut_rest(&mut self) {
        while self.left > 0 {
            let class = (self.left / STEP).min(CLASSES) - 1;
            let bytes = bytes_of(class) as usize;
            self.free[class].push(self.next);
            // SAFETY: `left` bytes of the granule remain behind `next`.
            self.next = unsafe { self.next.add(bytes) };
            self.left -= bytes;
        }
    }

    /// Gives the pool the lists of classes that have not been used for a while. To be called regularly.
    pub(crate) fn tidy(&mut self) {
        /// Calls between two checks.
        const LOOK_EVERY: u32 = 64;
        self.calls += 1;
        if self.calls < LOOK_EVERY {
            return;
        }
        self.calls = 0;
        for class in 0..CLASSES {
            // A class in use has been refilled: its list was given away at the check before.
            if !std::mem::take(&mut self.refilled[class]) {
                self.give_all(class);
            }
        }
    }

    /// Gives the pool all lists.
    pub(crate) fn give_everything(&mut self) {
        (0..CLASSES).for_each(|class| self.give_all(class));
    }

    fn give_all(&mut self, class: usize) {
        while !self.free[class].is_empty() {
            self.give(class);
        }
        // Its memory, too, which is not counted.
        self.free[class] = FreeList::new();
    }

    /// Hands a batch to the pool, for workers that need it.
    #[cold]
    fn give(&mut self, class: usize) {
        // The oldest: the others are more likely in the processor's cache.
        let free = &mut self.free[class];
        let batch = free.drain(..free.len().min(2 * BATCH)).collect();
        self.pool.give(class, batch);
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
        // The models pay for every lock.
        if !cfg!(loom) {
            self.give_back_provided();
            self.cut_rest();
            while self.next_granule() {
                self.cut_rest();
            }
            self.give_everything();
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

    /// Returns the bytes that `count` blocks take when each of them has grown from 40 to 400 bytes, in steps, and the
    /// highest number of bytes meanwhile.
    fn drift(count: usize, sweep: bool) -> (u64, u64) {
        let pool = Pool::unlimited();
        let mut arenas = [pool.arena(), pool.arena()];
        let mut random = fastrand::Rng::with_seed(1);
        let mut blocks: Vec<_> = (0..count).map(|_| (arenas[0].allocate(40), 40)).collect();
        let mut most = 0;
        for size in (48..=400).step_by(8) {
            random.shuffle(&mut blocks);
            for (number, (block, bytes)) in blocks.iter_mut().enumerate() {
                let new = arenas[number % 2].allocate(size);
                // SAFETY: a block of that many bytes is at least as long.
                unsafe { new.write_bytes(size as u8, size) };
                // SAFETY: allocated with this size and freed once.
                unsafe { arenas[1 - number % 2].free(*block, *bytes) };
                (*block, *bytes) = (new, size);
                if number % 50 == 0 {
                    arenas.iter_mut().for_each(Arena::tidy);
                    if sweep {
                        pool.sweep_if_due();
                    }
                }
            }
            most = most.max(pool.bytes());
            // No block in use has been given away.
            for (block, bytes) in &blocks {
                // SAFETY: in use, and as long as this.
                let content = unsafe { std::slice::from_raw_parts(block.as_ptr(), *bytes) };
                assert!(content.iter().all(|byte| *byte == size as u8));
            }
        }
        (pool.bytes(), most)
    }

    #[test]
    fn memory_of_one_size_serves_another_when_values_grow() {
        let count = 15_000;
        let last = 400 * count as u64;
        let (without, _) = drift(count, false);
        assert!(without > 8 * last, "sweeping is what helps: {without} bytes without it, {last} in use");
        let (now, most) = drift(count, true);
        // Free memory that is not worth a sweep comes on top.
        let slack = 8 << 20;
        assert!(now < 2 * last + slack && most < 3 * last + slack, "{now} bytes, {most} at most, {last} in use");
    }

    #[test]
    fn a_sweep_gives_away_only_granules_without_a_block_in_use() {
        let pool = Pool::unlimited();
        let mut arena = pool.arena();
        let blocks: Vec<_> = (0..CHUNK_BYTES / 64).map(|_| arena.allocate(64)).collect();
        let (kept, others) = blocks.split_first().unwrap();
        for block in others {
            // SAFETY: allocated above with this size and freed once.
            unsafe { arena.free(*block, 64) };
        }
        drop(arena);
        // Bytes without those of the lists.
        let bytes = || pool.bytes() - pool.lock().batches.iter().flatten().map(list_bytes).sum::<u64>();
        let (before, spare) = (bytes(), pool.lock().spare.len());
        let (swept, free) = pool.sweep();
        let emptiest = free.emptiest(3 * GRANULE_BYTES as u64);
        assert!(emptiest.contains(kept.addr().get()), "the one that has a block in use");
        assert!(swept >= 12 * GRANULE_BYTES as u64 && bytes() == before - swept, "{swept} of {before}");
        assert_eq!((pool.sweep().0, pool.lock().spare.len()), (0, spare + swept as usize / GRANULE_BYTES));
        // The granules serve another size, and are counted again.
        let mut arena = pool.arena();
        let more: HashSet<_> = (0..10 * GRANULE_BYTES / 2048).map(|_| arena.allocate(2048)).collect();
        assert!(pool.bytes() <= before && !more.contains(kept));
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
        let taken = (28 << 20) - (GRANULE_BYTES - PIECE_BYTES) as u64;
        assert_eq!((budget.taken(), pool.bytes()), (taken, taken));
        // There is no memory for other sizes either; deletes have the reserve.
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

//! Memory for the nodes of indexes: blocks of one size, cut from chunks on huge pages.
//!
//! A lookup touches a node on each level, at random places. On small pages it misses the translation cache as often as
//! the data cache; general allocators give no other pages. And a node begins at a cache line: a general allocator needs
//! more than its size for that.
//!
//! The indexes of a process share the blocks, since a node is freed, when no reader has it any more, by a function that
//! knows nothing but its address. There is one lock: a node is allocated once in some twenty inserts. For the first
//! chunk no huge page is requested, so that a small database takes little memory. A chunk goes back to the system when
//! all of its blocks are free, except for one. So one node keeps a chunk: after deletions all over an index, less memory
//! is free than the nodes took that are gone, and the budgets of databases do not count that.
//!
//! Invariants
//! 1. A chunk begins at a multiple of its size. So the address of a block says which chunk it belongs to.
//! 2. A block is in use, in its chunk's list of free blocks, or not before its chunk's `untouched`.
//! 3. `open` has exactly the chunks with blocks that are not in use; each knows its place there. `empty` of them have
//!    no block in use: one at most, whenever the lock is free.
//!
//! Models and checkers of memory accesses use the global allocator, which they observe.

#[cfg(any(loom, shuttle, miri, ermine_asan))]
pub(crate) use heap::Blocks;
#[cfg(not(any(loom, shuttle, miri, ermine_asan)))]
pub(crate) use pooled::Blocks;

#[cfg(not(any(loom, shuttle, miri, ermine_asan)))]
mod pooled {
    use std::{
        alloc::{Layout, handle_alloc_error},
        ptr::{self, NonNull},
        sync::{Mutex, MutexGuard},
    };

    use crate::platform::memory::Region;

    /// A huge page.
    const CHUNK_BYTES: usize = 2 << 20;

    type Block = NonNull<u8>;

    /// The memory for values of type `T`.
    pub(crate) struct Blocks<T> {
        chunks: Mutex<Chunks>,
        values: std::marker::PhantomData<fn(T) -> T>,
    }

    struct Chunks {
        open: Vec<NonNull<Chunk>>,
        empty: usize,
        /// Number of chunks, the full ones included.
        count: usize,
    }

    // SAFETY: the chunks belong to this value, and are used under its lock only.
    unsafe impl Send for Chunks {}

    /// The beginning of a chunk.
    struct Chunk {
        /// Contains the chunk: twice its size, because the system does not align it.
        region: Region,
        /// The first free block; its first word is the next one.
        free: Option<Block>,
        /// The offset from which on no block has ever been used.
        untouched: usize,
        in_use: usize,
        /// The place in `open`.
        place: usize,
    }

    impl<T> Blocks<T> {
        const LAYOUT: Layout = Layout::new::<T>();
        const FIRST: usize = size_of::<Chunk>().next_multiple_of(align_of::<T>());
        /// Blocks of a chunk.
        const CAPACITY: usize = (CHUNK_BYTES - Self::FIRST) / size_of::<T>();
        const FITS: () = assert!(
            size_of::<T>() >= size_of::<Option<Block>>()
                && align_of::<T>() >= align_of::<Option<Block>>()
                && Self::CAPACITY > 1
        );

        pub(crate) const fn new() -> Self {
            let () = Self::FITS;
            Self {
                chunks: Mutex::new(Chunks { open: Vec::new(), empty: 0, count: 0 }),
                values: std::marker::PhantomData,
            }
        }

        fn chunks(&self) -> MutexGuard<'_, Chunks> {
            self.chunks.lock().expect("no code panics while it holds the chunks")
        }

        /// Moves a value into a block.
        pub(crate) fn place(&self, value: T) -> NonNull<T> {
            let mut chunks = self.chunks();
            let mut at = loop {
                if let Some(&last) = chunks.open.last() {
                    break last;
                }
                let is_first = chunks.count == 0;
                // The system clears a huge page on the first access: not under the lock.
                drop(chunks);
                let Some(chunk) = Chunk::create(Self::FIRST, is_first) else {
                    // As the global allocator does when it has no memory.
                    handle_alloc_error(Self::LAYOUT)
                };
                chunks = self.chunks();
                if chunks.open.is_empty() {
                    chunks.add(chunk);
                } else {
                    // Another thread was faster.
                    drop(chunks);
                    // SAFETY: the only pointer.
                    unsafe { Chunk::destroy(chunk) };
                    chunks = self.chunks();
                }
            };
            // SAFETY: in `open`, so it is there; under the lock, no other thread has a reference (invariant 3).
            let chunk = unsafe { at.as_mut() };
            let block = match chunk.free {
                Some(block) => {
                    // SAFETY: the first word of a free block (invariant 2).
                    chunk.free = unsafe { block.cast::<Option<Block>>().read() };
                    block
                }
                None => {
                    let offset = chunk.untouched;
                    chunk.untouched += size_of::<T>();
                    // The provenance is that of the region (`create`).
                    let block = ptr::with_exposed_provenance_mut(at.addr().get() + offset);
                    // SAFETY: inside of the chunk, hence not null: fewer blocks than fit are in use (invariant 3).
                    unsafe { NonNull::new_unchecked(block) }
                }
            };
            chunk.in_use += 1;
            let in_use = chunk.in_use;
            chunks.empty -= usize::from(in_use == 1);
            if in_use == Self::CAPACITY {
                chunks.open.pop();
            }
            drop(chunks);
            let block = block.cast::<T>();
            // SAFETY: the block is as large as a value and aligned for it, and belongs to the caller.
            unsafe { block.write(value) };
            block
        }

        /// Drops a value and frees its block.
        ///
        /// # Safety
        /// The value was placed here, and no other thread has it.
        pub(crate) unsafe fn release(&self, value: NonNull<T>) {
            // SAFETY: as the caller guarantees.
            unsafe { value.drop_in_place() };
            let start = value.addr().get() & !(CHUNK_BYTES - 1);
            let at = NonNull::new(ptr::with_exposed_provenance_mut::<Chunk>(start));
            let mut at = at.expect("no chunk begins at address 0");
            let mut chunks = self.chunks();
            // SAFETY: the chunk of the block (invariant 1); under the lock, no other thread has a reference.
            let chunk = unsafe { at.as_mut() };
            let block = ptr::with_exposed_provenance_mut::<Option<Block>>(value.addr().get());
            // SAFETY: the block is free now (invariant 2).
            unsafe { block.write(chunk.free) };
            chunk.free = NonNull::new(block.cast());
            if chunk.in_use == Self::CAPACITY {
                chunk.place = chunks.open.len();
                chunks.open.push(at);
            }
            chunk.in_use -= 1;
            if chunk.in_use > 0 {
                return;
            }
            chunks.empty += 1;
            if chunks.empty > 1 {
                let place = chunk.place;
                chunks.remove(place);
                drop(chunks);
                // SAFETY: no block is in use, and the chunk is in no list: it belongs to this thread.
                unsafe { Chunk::destroy(at) };
            }
        }
    }

    impl Chunk {
        /// Creates a chunk, whose blocks begin at `untouched`.
        fn create(untouched: usize, small_pages: bool) -> Option<NonNull<Self>> {
            let huge_from = if small_pages { 2 * CHUNK_BYTES } else { 0 };
            let region = Region::reserve(2 * CHUNK_BYTES, huge_from).ok()?;
            let start = region.start().expose_provenance().next_multiple_of(CHUNK_BYTES);
            let chunk = NonNull::new(ptr::with_exposed_provenance_mut::<Self>(start))?;
            // SAFETY: inside of the region, which no other thread has, and aligned.
            unsafe { chunk.write(Self { region, free: None, untouched, in_use: 0, place: 0 }) };
            Some(chunk)
        }

        /// Gives a chunk back to the system.
        ///
        /// # Safety
        /// No block is in use, and no other thread has the chunk.
        unsafe fn destroy(chunk: NonNull<Self>) {
            // SAFETY: as the caller guarantees. The region is moved out before the memory is gone.
            drop(unsafe { chunk.read() }.region);
        }
    }

    impl Chunks {
        /// Adds a new chunk.
        fn add(&mut self, mut chunk: NonNull<Chunk>) {
            // SAFETY: the caller has the only pointer.
            unsafe { chunk.as_mut() }.place = self.open.len();
            self.open.push(chunk);
            self.count += 1;
            self.empty += 1;
        }

        /// Removes an empty chunk.
        fn remove(&mut self, place: usize) {
            self.open.swap_remove(place);
            if let Some(moved) = self.open.get_mut(place) {
                // SAFETY: in `open`, so it is there; under the lock, no other thread has a reference.
                unsafe { moved.as_mut() }.place = place;
            }
            self.count -= 1;
            self.empty -= 1;
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use std::collections::HashSet;

        type Value = [u64; 128];
        const CAPACITY: usize = Blocks::<Value>::CAPACITY;

        #[test]
        fn blocks_do_not_overlap_and_chunks_are_given_back() {
            let blocks = Blocks::<Value>::new();
            let mut random = fastrand::Rng::with_seed(1);
            let mut values = Vec::new();
            for round in 0..4 {
                let wanted = [3 * CAPACITY, 10, 2 * CAPACITY + 5, 0][round];
                while values.len() < wanted {
                    let number = values.len() as u64;
                    values.push((blocks.place([number; 128]), number));
                }
                let addresses: HashSet<_> = values.iter().map(|(value, _)| value.addr().get()).collect();
                assert_eq!(addresses.len(), values.len());
                random.shuffle(&mut values);
                for (value, number) in values.split_off(wanted) {
                    // SAFETY: placed above, and not released.
                    assert_eq!(unsafe { value.as_ref() }, &[number; 128]);
                    // SAFETY: as before; there is no reference any more.
                    unsafe { blocks.release(value) };
                }
                for (value, number) in &values {
                    // SAFETY: in use.
                    assert!(unsafe { value.as_ref() }.iter().all(|word| word == number));
                    assert!(value.is_aligned());
                }
                let chunks = blocks.chunks();
                assert!(chunks.count >= values.len().div_ceil(CAPACITY) && chunks.count <= 4);
                for (place, chunk) in chunks.open.iter().enumerate() {
                    // SAFETY: under the lock.
                    let chunk = unsafe { chunk.as_ref() };
                    assert_eq!(chunk.place, place);
                    assert!(chunk.in_use < CAPACITY);
                }
                assert!(chunks.empty <= 1);
                if wanted == 0 {
                    assert_eq!((chunks.count, chunks.open.len()), (1, 1), "the last one stays");
                }
            }
        }

        #[test]
        fn chunks_know_their_places_when_one_between_them_is_given_back() {
            let blocks = Blocks::<Value>::new();
            let mut chunks: Vec<Vec<_>> =
                (0..3).map(|_| (0..CAPACITY).map(|_| blocks.place([0; 128])).collect()).collect();
            // SAFETY: placed above; no other reference.
            let release = |value| unsafe { blocks.release(value) };
            // All three have free blocks, in this order. Then the first is empty, and stays, and the second goes.
            chunks.iter_mut().for_each(|values| values.pop().into_iter().for_each(release));
            chunks.drain(..2).flatten().for_each(release);
            let open = blocks.chunks().open.clone();
            // SAFETY: in `open`; no other thread has the blocks.
            let places: Vec<_> = open.iter().map(|chunk| unsafe { chunk.as_ref() }.place).collect();
            assert_eq!(places, [0, 1]);
            chunks.into_iter().flatten().for_each(release);
            assert_eq!(blocks.chunks().count, 1);
        }

        #[test]
        fn threads_share_them() {
            let blocks = Blocks::<Value>::new();
            std::thread::scope(|scope| {
                for number in 0..4u64 {
                    let blocks = &blocks;
                    scope.spawn(move || {
                        for round in 0..20 {
                            let mine: Vec<_> =
                                (0..CAPACITY * 3 / 4).map(|_| blocks.place([number + round; 128])).collect();
                            for value in mine {
                                // SAFETY: placed above, and not released.
                                assert_eq!(unsafe { value.as_ref() }, &[number + round; 128]);
                                // SAFETY: as before; there is no reference any more.
                                unsafe { blocks.release(value) };
                            }
                        }
                    });
                }
            });
            let chunks = blocks.chunks();
            assert_eq!((chunks.count, chunks.open.len(), chunks.empty), (1, 1, 1));
        }
    }
}

#[cfg(any(loom, shuttle, miri, ermine_asan))]
mod heap {
    use std::{marker::PhantomData, ptr::NonNull};

    /// The memory for values of type `T`.
    pub(crate) struct Blocks<T>(PhantomData<fn(T) -> T>);

    impl<T> Blocks<T> {
        pub(crate) const fn new() -> Self {
            Self(PhantomData)
        }

        /// Moves a value into a block.
        pub(crate) fn place(&self, value: T) -> NonNull<T> {
            NonNull::from(Box::leak(Box::new(value)))
        }

        /// Drops a value and frees its block.
        ///
        /// # Safety
        /// The value was placed here, and no other thread has it.
        pub(crate) unsafe fn release(&self, value: NonNull<T>) {
            // SAFETY: as the caller guarantees.
            drop(unsafe { Box::from_raw(value.as_ptr()) });
        }
    }
}

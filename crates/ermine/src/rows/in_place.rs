//! A row in one record that is changed in place: word, control, bytes.
//!
//! ```text
//!   array                 record
//!   [ pointer ] --------> | TID and status | length, capacity | control (scheme) | payload words ... |
//!                                                                                      | once outgrown
//!                                                                                      v
//!                                                                            | capacity | payload words ... |
//! ```
//!
//! Every word of a payload is an atomic, read and written relaxed: a reader that races with a writer may copy torn
//! bytes, detects that, and reads again. A copy is valid if the TID word was not locked before it and is the same
//! afterwards (a sequence lock whose count is the TID of the last writer; Silo, SiloR section 2).
//!
//! Invariants
//! 1. Only the thread that has locked the word changes length and payload; if it did, unlocking stores another TID in
//!    the word.
//! 2. A record stays at its address, with its control words, for as long as its key is in the index. Its last word is
//!    `GONE`.
//! 3. A payload that does not fit is in a block of its own, whose address is in the first payload word. A record that
//!    has outgrown its place never moves back, so that word remains an address: following it is safe even if the rest
//!    of a read is torn.
//! 4. Records and blocks are used only inside the epoch in which they were found; removed ones are freed through it.
//! 5. A record without a row is marked as wanted when its row is deleted or the record is created, and a transaction
//!    that is going to write it sets the mark again (`want`). The record is removed only if the mark has been off since
//!    before any running transaction began: so a record that a transaction is going to write is not removed before that
//!    transaction has ended. At most one removal of a record is in progress at a time (`is_queued`); otherwise one
//!    removal would invalidate what another one has checked.

use std::{mem::size_of, ptr::NonNull, slice};

use crate::{
    ids::Stamp,
    platform::prefetch,
    rows::{
        arena::Arena,
        copies::{Copied, Copies},
    },
    sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering, Spin, fence},
};

/// The place of a committed transaction in the order of those it depends on: an epoch and a number in it (SiloR 2.1).
///
/// A transaction's TID is greater than those of all records it has read or written, and in the epoch that was current
/// when it held all its locks. TIDs of different epochs are in serial order; within an epoch they order dependencies
/// only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(crate) struct CommitTid(u64);

impl CommitTid {
    /// A million commits, each after the other, in an epoch; epochs of a millisecond for seventeen years.
    const SEQUENCE_BITS: u32 = 20;

    /// Above all epochs for which a TID has room.
    pub(crate) const EPOCHS: u64 = 1 << (59 - Self::SEQUENCE_BITS);

    /// The first TID of an epoch.
    pub(crate) fn first(epoch: u64) -> Self {
        assert!(epoch < Self::EPOCHS, "epoch {epoch} does not fit a TID");
        Self(epoch << Self::SEQUENCE_BITS)
    }

    pub(crate) fn epoch(self) -> u64 {
        self.0 >> Self::SEQUENCE_BITS
    }

    /// Returns the least TID of `epoch` that is greater than `self`; `None` when the epoch has no more.
    pub(crate) fn next_in(self, epoch: u64) -> Option<Self> {
        let next = Self(self.0 + 1).max(Self::first(epoch));
        (next.epoch() <= epoch).then_some(next)
    }

    /// Converts a stamp back.
    pub(crate) fn from_stamp(stamp: Stamp) -> Self {
        Self(stamp.0)
    }

    /// Converts the TID to a stamp, as the rest of the engine uses them.
    pub(crate) fn stamp(self) -> Stamp {
        Stamp(self.0)
    }
}

/// The word of a record: the TID of its last writer, and its status.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TidWord(u64);

impl TidWord {
    const LOCKED: u64 = 1;
    const ABSENT: u64 = 1 << 1;
    const GONE: u64 = 1 << 2;
    const WANTED: u64 = 1 << 3;
    const QUEUED: u64 = 1 << 4;
    const STATUS_BITS: u32 = 5;

    /// The word of a record that never had a row.
    pub(crate) const UNBORN: Self = Self(Self::ABSENT | Self::WANTED);

    /// The word after a transaction that left a row in the record, or none.
    pub(crate) fn written(tid: CommitTid, is_row: bool) -> Self {
        Self(tid.0 << Self::STATUS_BITS | if is_row { 0 } else { Self::UNBORN.0 })
    }

    pub(crate) fn tid(self) -> CommitTid {
        CommitTid(self.0 >> Self::STATUS_BITS)
    }

    /// Whether a thread is changing the record.
    pub(crate) fn is_locked(self) -> bool {
        self.0 & Self::LOCKED != 0
    }

    /// Whether there is no row: deleted, or not inserted yet.
    pub(crate) fn is_absent(self) -> bool {
        self.0 & Self::ABSENT != 0
    }

    /// Whether the record has been removed from the table: the key must be looked up again.
    pub(crate) fn is_gone(self) -> bool {
        self.0 & Self::GONE != 0
    }

    /// Whether there is no row, and a transaction may be about to insert one (invariant 5).
    pub(crate) fn is_wanted(self) -> bool {
        self.0 & Self::WANTED != 0
    }

    /// The word without the mark `WANTED`.
    pub(crate) fn unwanted(self) -> Self {
        Self(self.0 & !Self::WANTED)
    }

    /// Whether a transaction has queued the record's key for removal from the index; one queues it at a time.
    pub(crate) fn is_queued(self) -> bool {
        self.0 & Self::QUEUED != 0
    }

    /// The word with the mark `QUEUED`.
    pub(crate) fn queued(self) -> Self {
        Self(self.0 | Self::QUEUED)
    }

    /// The word without the mark `QUEUED`.
    pub(crate) fn unqueued(self) -> Self {
        Self(self.0 & !Self::QUEUED)
    }

    /// The word with the mark `QUEUED`, if `before` has it.
    pub(crate) fn queued_as(self, before: Self) -> Self {
        Self(self.0 | before.0 & Self::QUEUED)
    }

    /// Whether the record never had a row.
    pub(crate) fn is_unborn(self) -> bool {
        self.says_same_as(Self::UNBORN)
    }

    fn gone(self) -> Self {
        debug_assert!(self.is_absent());
        Self(self.0 | Self::GONE)
    }

    /// Whether the row is unchanged since `seen`, even if a transaction may be about to change it. A record that has
    /// been removed since is still absent.
    pub(crate) fn says_same_as(self, seen: Self) -> bool {
        (self.0 ^ seen.0) & !(Self::LOCKED | Self::GONE | Self::WANTED | Self::QUEUED) == 0
    }
}

/// A record's header; payload words follow in memory.
#[repr(C)]
struct Record<C> {
    word: AtomicU64,
    length: AtomicU32,
    /// Number of payload words that follow.
    capacity: u32,
    control: C,
}

/// Bit of the length: the payload is in a block of its own.
const OUTGROWN: u32 = 1 << 31;

/// A handle of a record, valid for the epoch in which it was found (invariant 4).
pub(crate) struct RecordPtr<C>(NonNull<Record<C>>);

impl<C> Clone for RecordPtr<C> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<C> Copy for RecordPtr<C> {}
impl<C> PartialEq for RecordPtr<C> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl<C> Eq for RecordPtr<C> {}
impl<C> PartialOrd for RecordPtr<C> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<C> Ord for RecordPtr<C> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

// SAFETY: a handle gives shared access to atomics, from any thread; `Control` words are shared by definition.
unsafe impl<C: Send + Sync> Send for RecordPtr<C> {}
// SAFETY: as above.
unsafe impl<C: Send + Sync> Sync for RecordPtr<C> {}

/// The words of a scheme in each record.
pub(crate) trait Control: Default + Send + Sync + 'static {}

impl Control for () {}

/// A block that a payload has outgrown.
pub(crate) struct Outgrown(NonNull<Block>);

// SAFETY: memory that no thread changes any more.
unsafe impl Send for Outgrown {}

/// The header of a payload outside of its record; its words follow.
#[repr(C)]
struct Block {
    capacity: usize,
}

const WORD: usize = size_of::<AtomicU64>();

impl Outgrown {
    /// Frees the block's memory.
    ///
    /// # Safety
    /// No thread can reach the block any more.
    pub(crate) unsafe fn destroy(self, arena: &mut Arena) {
        // SAFETY: `store` allocated it with this number of words; no thread can reach it, by the contract of this
        // function.
        unsafe {
            let words = self.0.as_ref().capacity;
            arena.free(self.0.cast(), size_of::<Block>() + words * WORD);
        }
    }
}

impl<C: Control> RecordPtr<C> {
    /// Creates a record without a row, with room for a payload of `room` bytes.
    pub(crate) fn create(arena: &mut Arena, room: usize, control: C) -> Self {
        let capacity = room.div_ceil(8).max(1);
        let place = arena.allocate(Self::bytes(capacity)).cast::<Record<C>>();
        let header = Record {
            word: AtomicU64::new(TidWord::UNBORN.0),
            length: AtomicU32::new(0),
            capacity: capacity as u32,
            control,
        };
        // SAFETY: the arena returned a block of that many bytes, aligned to 8, to which there is no other reference.
        unsafe {
            place.write(header);
            let words = place.add(1).cast::<AtomicU64>();
            (0..capacity).for_each(|at| words.add(at).write(AtomicU64::new(0)));
        }
        Self(place)
    }

    fn bytes(capacity: usize) -> usize {
        size_of::<Record<C>>() + capacity * WORD
    }

    /// Bytes of a record for a payload of `room` bytes.
    pub(crate) fn bytes_for(room: usize) -> usize {
        Self::bytes(room.div_ceil(8).max(1))
    }

    /// Whether a payload of this length fits where the record's payload is; also true later, since room only grows.
    pub(crate) fn has_room(self, payload: usize) -> bool {
        payload.div_ceil(8) <= self.block().map_or(self.words(), block_words).len()
    }

    /// Bytes of the block for a payload that has outgrown its record, as `store` allocates it.
    pub(crate) fn outgrown_bytes_for(payload: usize) -> usize {
        let needed = payload.div_ceil(8);
        size_of::<Block>() + (needed + needed / 2) * WORD
    }

    /// Frees the record's memory.
    ///
    /// # Safety
    /// No thread can reach the record any more, and every handle of it is out of use.
    pub(crate) unsafe fn destroy(self, arena: &mut Arena) {
        if let Some(block) = self.block() {
            // SAFETY: the block belongs to the record alone.
            unsafe { Outgrown(block).destroy(arena) };
        }
        let bytes = Self::bytes(self.header().capacity as usize);
        // SAFETY: the block came from `create` with this size; the caller holds the only handle.
        unsafe { arena.free(self.0.cast(), bytes) }
    }

    fn header<'a>(self) -> &'a Record<C> {
        // SAFETY: invariant 4; the header is only ever shared.
        unsafe { self.0.as_ref() }
    }

    /// The record's address: the order in which records are locked.
    pub(crate) fn address(self) -> usize {
        self.0.addr().get()
    }

    /// The scheme's words.
    pub(crate) fn control<'a>(self) -> &'a C {
        &self.header::<'a>().control
    }

    /// Loads the word.
    #[inline]
    pub(crate) fn word(self) -> TidWord {
        // SeqCst: an acquire of the writes that `unlock` released, and the load of a validation in the order of locks
        // and epochs (commit.rs).
        TidWord(self.header().word.load(Ordering::SeqCst))
    }

    /// Marks an absent record as wanted, for a transaction that is going to write it: the record stays until the
    /// transaction ends, unless it is gone (invariant 5).
    #[inline]
    pub(crate) fn want(self) -> TidWord {
        let mut spin = Spin::default();
        loop {
            let word = self.word();
            // A locked record is waited for, too: if its row is being deleted, the record is wanted afterwards.
            if !word.is_absent() || word.is_gone() || word.is_wanted() && !word.is_locked() {
                return word;
            }
            if !word.is_locked() {
                let wanted = word.0 | TidWord::WANTED;
                // SeqCst: as in `try_lock`.
                let exchanged =
                    self.header().word.compare_exchange(word.0, wanted, Ordering::SeqCst, Ordering::Relaxed);
                if exchanged.is_ok() {
                    return TidWord(wanted);
                }
            }
            spin.wait();
        }
    }

    /// Locks the record if it is not locked; returns the word as it was.
    #[inline]
    pub(crate) fn try_lock(self) -> Option<TidWord> {
        let word = self.header().word.load(Ordering::Relaxed);
        if word & TidWord::LOCKED != 0 {
            return None;
        }
        // SeqCst: acquires the writes that the last holder released, and takes part in the order of locks and epochs
        // (commit.rs).
        let locked = word | TidWord::LOCKED;
        self.header().word.compare_exchange(word, locked, Ordering::SeqCst, Ordering::Relaxed).ok()?;
        // Pairs with the fence in `read`: a reader that sees a payload word stored later sees the lock, too.
        fence(Ordering::Release);
        Some(TidWord(word))
    }

    /// Locks the record; waits for the present holder, which takes a few steps.
    pub(crate) fn lock(self) -> TidWord {
        let mut spin = Spin::default();
        loop {
            if let Some(word) = self.try_lock() {
                return word;
            }
            spin.wait();
        }
    }

    /// Unlocks the record with a new word, or the one it had.
    pub(crate) fn unlock(self, word: TidWord) {
        debug_assert!(self.word().is_locked() && !word.is_locked());
        // Release: pairs with every load of the word.
        self.header().word.store(word.0, Ordering::Release);
    }

    /// Unlocks a record that has been removed from its table.
    pub(crate) fn unlock_gone(self, word: TidWord) {
        self.unlock(word.gone());
    }

    /// Returns the state of the record at one moment: the word, and a copy of the payload if there is a row and
    /// `copies` is given. Waits while another thread changes the record.
    #[inline]
    pub(crate) fn read(self, mut copies: Option<&mut Copies>) -> (TidWord, Option<Copied>) {
        let mut spin = Spin::default();
        loop {
            let word = self.word();
            if !word.is_locked() {
                let Some(copies) = copies.as_deref_mut().filter(|_| !word.is_absent()) else {
                    return (word, None);
                };
                let mark = copies.mark();
                let copied = self.copy(copies);
                // Pairs with the fence in `try_lock`.
                fence(Ordering::Acquire);
                if self.header().word.load(Ordering::Relaxed) == word.0
                    && let Some(copied) = copied
                {
                    return (word, Some(copied));
                }
                copies.rewind(mark);
            }
            spin.wait();
        }
    }

    /// Copies the payload for the thread that has locked the record.
    pub(crate) fn copy_locked(self, copies: &mut Copies) -> Copied {
        self.copy(copies).expect("no other transaction changes a locked record")
    }

    /// Copies the payload, torn or not; `None`: so torn that the length does not fit.
    #[inline]
    fn copy(self, copies: &mut Copies) -> Option<Copied> {
        // Acquire: pairs with the release of `store`, so that the address is visible with the mark (invariant 3).
        let length = self.header().length.load(Ordering::Acquire);
        let bytes = (length & !OUTGROWN) as usize;
        let words = if length & OUTGROWN == 0 { self.words() } else { block_words(self.block()?) };
        let words = words.get(..bytes.div_ceil(8))?;
        Some(copies.push(words, bytes))
    }

    /// Stores a payload; the record is locked. A block that is returned is to be freed when no thread can read it any
    /// more.
    pub(crate) fn store(self, arena: &mut Arena, payload: &[u8]) -> Option<Outgrown> {
        let record = self.header();
        let length = payload.len() as u32;
        debug_assert!(length & OUTGROWN == 0);
        let needed = payload.len().div_ceil(8);
        let block = self.block();
        let words = block.map_or(self.words(), block_words);
        let mark = if block.is_some() { OUTGROWN } else { 0 };
        if needed <= words.len() {
            fill(words, payload);
            // Release: as below.
            record.length.store(length | mark, Ordering::Release);
            return None;
        }
        // Half as much again: a payload that often grows a little is seldom moved.
        let capacity = needed + needed / 2;
        let place = arena.allocate(Self::outgrown_bytes_for(payload.len())).cast::<Block>();
        // SAFETY: the arena returned a block of that many bytes, aligned to 8, to which there is no other reference.
        unsafe {
            place.write(Block { capacity });
            let words = place.add(1).cast::<AtomicU64>();
            (0..capacity).for_each(|at| words.add(at).write(AtomicU64::new(0)));
        }
        fill(block_words(place), payload);
        let first = &self.words()[0];
        // Release: a thread that follows the address finds the block's capacity, and sees the mark only with an
        // address.
        first.store(place.as_ptr().expose_provenance() as u64, Ordering::Release);
        record.length.store(length | OUTGROWN, Ordering::Release);
        block.map(Outgrown)
    }

    /// Returns the block of a record that has outgrown its place.
    fn block(self) -> Option<NonNull<Block>> {
        // Acquire: as in `copy`.
        if self.header().length.load(Ordering::Acquire) & OUTGROWN == 0 {
            return None;
        }
        let address = self.words()[0].load(Ordering::Acquire);
        NonNull::new(std::ptr::with_exposed_provenance_mut(address as usize))
    }

    fn words<'a>(self) -> &'a [AtomicU64] {
        let capacity = self.header().capacity as usize;
        // SAFETY: that many words follow the header in the same allocation (`create`); the handle has its provenance.
        unsafe { slice::from_raw_parts(self.0.add(1).cast::<AtomicU64>().as_ptr(), capacity) }
    }

    /// Starts loading header and payload from memory.
    #[inline]
    pub(crate) fn prefetch(self) {
        prefetch::lines(self.0.as_ptr().cast_const().cast(), 3);
    }
}

fn block_words<'a>(block: NonNull<Block>) -> &'a [AtomicU64] {
    // SAFETY: a block of this module, kept by the epoch (invariant 4), with that many words behind its header.
    unsafe {
        let capacity = block.as_ref().capacity;
        slice::from_raw_parts(block.add(1).cast::<AtomicU64>().as_ptr(), capacity)
    }
}

/// Stores bytes in words; the last word is padded with zeros.
fn fill(words: &[AtomicU64], payload: &[u8]) {
    let (whole, rest) = payload.as_chunks::<8>();
    for (word, bytes) in words.iter().zip(whole) {
        // Relaxed: ordered by the lock around it.
        word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
    }
    if !rest.is_empty() {
        let mut bytes = [0; 8];
        bytes[..rest.len()].copy_from_slice(rest);
        words[whole.len()].store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
    }
}

/// The place of a row in its table's array: its record, or null.
#[repr(transparent)]
pub(crate) struct RecordSlot<C>(AtomicPtr<Record<C>>);

impl<C: Control> RecordSlot<C> {
    /// Returns the row's record.
    #[inline]
    pub(crate) fn record(&self) -> Option<RecordPtr<C>> {
        // Acquire: pairs with `set`.
        NonNull::new(self.0.load(Ordering::Acquire)).map(RecordPtr)
    }

    /// Stores a record, or removes it. Only the RowId's owner calls this.
    pub(crate) fn set(&self, record: Option<RecordPtr<C>>) {
        let raw = record.map_or(std::ptr::null_mut(), |record| record.0.as_ptr());
        // Release: pairs with `record`.
        self.0.store(raw, Ordering::Release);
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    //! A reader's valid copy is the payload that one writer stored, and has the word of that writer.

    use loom::thread;

    use super::*;
    use crate::rows::arena::Pool;

    /// Writes a value that has its number in all bytes.
    fn write(record: RecordPtr<()>, arena: &mut Arena, number: u64, bytes: usize) {
        let word = record.lock();
        let tid = word.tid().next_in(number).expect("each writes in an epoch of its own");
        // An outgrown block stays as it is: nothing is freed before the pool is.
        let _ = record.store(arena, &vec![number as u8; bytes]);
        record.unlock(TidWord::written(tid, true));
    }

    /// One thread reads twice while another one writes values of these lengths, one after the other.
    fn copies_are_whole(lengths: [usize; 2]) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(move || {
            let pool = Pool::unlimited();
            let mut arena = pool.arena();
            let record = RecordPtr::create(&mut arena, 16, ());
            write(record, &mut arena, 1, 16);
            let writing = thread::spawn(move || {
                for (number, bytes) in (2..).zip(lengths) {
                    write(record, &mut arena, number, bytes);
                }
            });
            let mut copies = Copies::default();
            let mut last = 1;
            for _ in 0..2 {
                let (word, copied) = record.read(Some(&mut copies));
                let number = word.tid().epoch();
                let bytes = copied.expect("there is a row").bytes(&());
                let length = [16].into_iter().chain(lengths).nth(number as usize - 1);
                assert!(bytes.iter().all(|byte| u64::from(*byte) == number), "{word:?}: {bytes:?}");
                assert_eq!(Some(bytes.len()), length);
                assert!(number >= last, "a record does not go back");
                last = number;
            }
            writing.join().unwrap();
        });
    }

    #[test]
    fn loom_copies_of_a_record_are_whole() {
        copies_are_whole([16, 8]);
    }

    /// The payload moves into a block, and from there into another.
    #[test]
    fn loom_copies_of_a_record_that_is_outgrown_are_whole() {
        copies_are_whole([24, 72]);
    }
}

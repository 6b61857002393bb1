//! One version of a row: header, certifier stamps, bytes; and the slot that holds the head of a chain of versions.
//!
//! ```text
//!   | certifier stamps (scheme) | origin | shape | write | below | payload ... |
//! ```
//!
//! Why one allocation: a read touches header and payload together; the certifier's words cost memory only under a
//! certifier (`()` is empty).
//!
//! Invariants
//! 1. `shape` and the payload are written before the version is published and never change.
//! 2. `origin` is the TID of the writer until it ends; then its commit stamp, or infinity if it aborted or replaced the
//!    version itself. A version with infinite origin is visible to no transaction.
//! 3. At most one version of a chain carries a running TID: the head. It is the row's write lock.
//! 4. A handle is used only while its version is protected: inside the epoch guard under which it was found; or, for a
//!    version visible to a registered snapshot that its transaction has added to those that it knows (`known`), until
//!    the transaction ends (`snapshots`); or, for tombstones and absent versions, until the transaction-scale guard ends
//!    (`reclaim`).
//! 5. The absent version below a row's first one is shared by rows that its transaction inserted (`txn::absence`).
//!    It may be freed before the link to it is gone: the link is followed only by a reader that does not see the
//!    version above it, and whose snapshot is not passive.

use std::{mem::size_of, ptr::NonNull, slice};

use crate::{
    ids::{Stamp, Tid},
    log::lsn::Address,
    platform::prefetch,
    rows::arena::Arena,
    sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence, total_order},
    txn::readers::ReaderSlots,
};

/// The certifier's words in each version.
pub(crate) trait CertifierStamps: Default + Send + Sync + 'static {
    /// Whether the certifier tracks reads, including reads that found no row.
    const TRACKED: bool;

    /// The highest stamp of a committed reader, as far as the certifier keeps it.
    fn last_read(&self) -> Stamp {
        Stamp::ZERO
    }

    /// The highest stamp of any transaction that may have read the version and has ended.
    fn last_reader(&self, _: &ReaderSlots) -> Stamp {
        Stamp::ZERO
    }

    /// Whether a transaction has overwritten the version, or is about to.
    fn is_overwritten(&self) -> bool {
        false
    }
}

impl CertifierStamps for () {
    const TRACKED: bool = false;
}

/// A stamp or the TID of a running transaction in one word; bit 63 distinguishes them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct OriginWord(u64);

/// The content of an [`OriginWord`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// Done at this stamp; infinity: never.
    At(Stamp),
    /// By a transaction whose outcome is in the TID table.
    By(Tid),
}

impl OriginWord {
    const TID: u64 = 1 << 63;

    pub(crate) fn at(stamp: Stamp) -> Self {
        debug_assert!(stamp <= Stamp::INFINITY);
        Self(stamp.0)
    }

    pub(crate) fn by(tid: Tid) -> Self {
        debug_assert!(tid.0 & Self::TID == 0 && tid.0 != 0);
        Self(tid.0 | Self::TID)
    }

    pub(crate) fn read(self) -> Origin {
        if self.0 & Self::TID == 0 { Origin::At(Stamp(self.0)) } else { Origin::By(Tid(self.0 & !Self::TID)) }
    }
}

/// An [`OriginWord`] that threads share.
pub(crate) struct AtomicOrigin(AtomicU64);

impl AtomicOrigin {
    pub(crate) fn new(word: OriginWord) -> Self {
        Self(AtomicU64::new(word.0))
    }

    /// Acquire: pairs with `store` and `mark`.
    pub(crate) fn load(&self) -> Origin {
        OriginWord(self.0.load(Ordering::Acquire)).read()
    }

    /// SeqCst: for a thread that has stored a word that the marker loads after its mark. One of the two sees the
    /// other's store.
    pub(crate) fn load_in_order(&self) -> Origin {
        total_order();
        OriginWord(self.0.load(Ordering::SeqCst)).read()
    }

    /// Release: a thread that sees the new word sees everything that its writer did before.
    pub(crate) fn store(&self, word: OriginWord) {
        self.0.store(word.0, Ordering::Release);
    }

    /// Removes a mark, if it is this transaction's.
    pub(crate) fn unmark(&self, tid: Tid) {
        if self.load() == Origin::By(tid) {
            self.store(OriginWord::at(Stamp::INFINITY));
        }
    }

    /// SeqCst: for a mark that the marker follows with a load (SSN's sstamp); see `load_in_order`.
    pub(crate) fn mark(&self, word: OriginWord) {
        self.0.store(word.0, Ordering::SeqCst);
    }
}

/// The state of a row that a version represents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A row.
    Live,
    /// A deleted row.
    Tombstone,
    /// Rows before their first insert: the invalid version that an insert overwrites (SSN section 2).
    Absent,
}

/// Kind and payload length, packed.
#[derive(Clone, Copy)]
struct Shape(u32);

const _: () = assert!(crate::MAX_VALUE_BYTES < 1 << Shape::LENGTH_BITS, "the length of a value fits its bits");

impl Shape {
    const LENGTH_BITS: u32 = 30;

    fn new(kind: Kind, length: usize) -> Self {
        debug_assert!(length < 1 << Self::LENGTH_BITS);
        Self((kind as u32) << Self::LENGTH_BITS | length as u32)
    }

    fn kind(self) -> Kind {
        match self.0 >> Self::LENGTH_BITS {
            0 => Kind::Live,
            1 => Kind::Tombstone,
            _ => Kind::Absent,
        }
    }

    fn length(self) -> usize {
        (self.0 & ((1 << Self::LENGTH_BITS) - 1)) as usize
    }
}

/// The position of a version that was read from the cold store: its row's home says where it is.
pub(crate) const AT_HOME: u32 = u32::MAX;

/// The header of a version; its payload follows in memory.
#[repr(C)]
pub(crate) struct Version<H> {
    certifier: H,
    origin: AtomicOrigin,
    shape: Shape,
    /// Position in the writer's write set: used by the writer, and afterwards the version's number in the log
    /// (`txn::journal`); or [`AT_HOME`].
    write: AtomicU32,
    below: AtomicPtr<Version<H>>,
}

/// What is behind a version in its chain: in the version, a pointer whose lowest bit distinguishes the last two.
pub(crate) enum Below<H> {
    Nothing,
    /// The next older version of the row.
    Older(VersionPtr<H>),
    /// The state before the row's first version (invariant 5).
    Absence(VersionPtr<H>),
}

impl<H> Clone for Below<H> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<H> Copy for Below<H> {}

impl<H> Below<H> {
    const ABSENCE: usize = 1;

    fn raw(self) -> *mut Version<H> {
        match self {
            Self::Nothing => std::ptr::null_mut(),
            Self::Older(version) => version.0.as_ptr(),
            Self::Absence(version) => version.0.as_ptr().map_addr(|address| address | Self::ABSENCE),
        }
    }

    fn from_raw(raw: *mut Version<H>) -> Self {
        let pointer = raw.map_addr(|address| address & !Self::ABSENCE);
        match NonNull::new(pointer).map(VersionPtr) {
            None => Self::Nothing,
            Some(version) if pointer == raw => Self::Older(version),
            Some(version) => Self::Absence(version),
        }
    }

    /// The version to go on with, for a reader that does not see the one above.
    pub(crate) fn next(self) -> Option<VersionPtr<H>> {
        match self {
            Self::Nothing => None,
            Self::Older(version) | Self::Absence(version) => Some(version),
        }
    }
}

/// A handle of a version; invariant 4 says how long it may be used.
pub(crate) struct VersionPtr<H>(NonNull<Version<H>>);

impl<H> Clone for VersionPtr<H> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<H> Copy for VersionPtr<H> {}
impl<H> PartialEq for VersionPtr<H> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl<H> Eq for VersionPtr<H> {}

// SAFETY: a handle gives shared access to atomics and to bytes that do not change while it may be used (invariants 1
// and 4), from any thread.
unsafe impl<H: Send + Sync> Send for VersionPtr<H> {}

impl<H: CertifierStamps> VersionPtr<H> {
    /// Creates an absent version in `arena`, as of before the first transaction.
    pub(crate) fn absent(arena: &mut Arena) -> Self {
        Self::create(arena, Kind::Absent, OriginWord::at(Stamp::ZERO), Below::Nothing, 0, &[])
    }

    /// Creates a version that was committed at `stamp` and that no slot will refer to.
    pub(crate) fn loose(arena: &mut Arena, stamp: Stamp, payload: &[u8]) -> Self {
        Self::create(arena, Kind::Live, OriginWord::at(stamp), Below::Nothing, 0, payload)
    }

    fn create(arena: &mut Arena, kind: Kind, origin: OriginWord, below: Below<H>, write: u32, payload: &[u8]) -> Self {
        let block = arena.allocate(Self::bytes(payload.len())).cast::<Version<H>>();
        let header = Version {
            certifier: H::default(),
            origin: AtomicOrigin::new(origin),
            below: AtomicPtr::new(below.raw()),
            shape: Shape::new(kind, payload.len()),
            write: AtomicU32::new(write),
        };
        // SAFETY: the arena returned a block of at least `bytes` bytes, aligned to 8, to which there is no other
        // reference.
        unsafe {
            block.write(header);
            block.add(1).cast::<u8>().copy_from_nonoverlapping(NonNull::from(payload).cast(), payload.len());
        }
        Self(block)
    }

    /// Frees the version's memory.
    ///
    /// # Safety
    /// No thread can reach the version any more, and every handle of it is out of use.
    pub(crate) unsafe fn destroy(self, arena: &mut Arena) {
        let bytes = Self::bytes(self.length());
        // SAFETY: the block came from `create` with this size; the caller holds the only handle. Headers need no drop.
        unsafe { arena.free(self.0.cast(), bytes) }
    }

    /// Bytes of a version with a payload of this length.
    pub(crate) fn bytes(payload: usize) -> usize {
        size_of::<Version<H>>() + payload
    }

    /// Its place in memory.
    pub(crate) fn address(self) -> usize {
        self.0.addr().get()
    }

    fn header<'a>(self) -> &'a Version<H> {
        // SAFETY: invariant 4: the handle's user keeps the version protected; the header is only ever shared.
        unsafe { self.0.as_ref() }
    }

    /// The certifier's words.
    pub(crate) fn certifier<'a>(self) -> &'a H {
        &self.header::<'a>().certifier
    }

    /// The version's writer or its stamp.
    pub(crate) fn origin<'a>(self) -> &'a AtomicOrigin {
        &self.header::<'a>().origin
    }

    /// Makes the version permanently invisible to all transactions: its writer aborted or replaced it.
    pub(crate) fn void(self) {
        self.origin().store(OriginWord::at(Stamp::INFINITY));
    }

    /// What is behind the version.
    #[inline]
    pub(crate) fn below(self) -> Below<H> {
        // Acquire: pairs with the Release of `set_below` and of the slot's publication.
        Below::from_raw(self.header().below.load(Ordering::Acquire))
    }

    /// The next older version of the row; `None` for its first one.
    #[inline]
    pub(crate) fn older(self) -> Option<Self> {
        match self.below() {
            Below::Older(version) => Some(version),
            Below::Nothing | Below::Absence(_) => None,
        }
    }

    /// Replaces what is behind the version, and so unlinks versions.
    pub(crate) fn set_below(self, below: Below<H>) {
        // Release: pairs with `below`.
        self.header().below.store(below.raw(), Ordering::Release);
    }

    /// The state of the row that the version represents.
    pub(crate) fn kind(self) -> Kind {
        self.header().shape.kind()
    }

    /// Length of the payload in bytes.
    pub(crate) fn length(self) -> usize {
        self.header().shape.length()
    }

    /// The position in the write set that its writer stored.
    pub(crate) fn write(self) -> u32 {
        // Relaxed: it was written before the version was published.
        self.header().write.load(Ordering::Relaxed)
    }

    /// The payload, readable for as long as `_pin` lives (invariant 4).
    pub(crate) fn payload<P>(self, _pin: &P) -> &[u8] {
        // SAFETY: `length` bytes follow the header in the same allocation (`create`) and never change (invariant 1);
        // the caller's pin protects them (invariant 4). The pointer carries the allocation's provenance.
        unsafe { slice::from_raw_parts(self.0.add(1).cast::<u8>().as_ptr(), self.length()) }
    }

    /// Starts loading the rest of a payload that is about to be read.
    #[inline]
    pub(crate) fn prefetch_payload(self) {
        let bytes = Self::bytes(self.length()).min(Self::PREFETCHED_MAX);
        if bytes > Self::PREFETCHED {
            let rest = self.0.as_ptr().cast_const().cast::<u8>().wrapping_add(Self::PREFETCHED);
            prefetch::lines(rest, (bytes - Self::PREFETCHED).div_ceil(64));
        }
    }

    /// Bytes that [`VersionPtr::prefetch`] loads.
    const PREFETCHED: usize = 3 * 64;
    /// The processor's own prefetcher continues in longer payloads.
    const PREFETCHED_MAX: usize = 16 * 64;

    /// Starts loading the header from memory.
    #[inline]
    pub(crate) fn prefetch_header(self) {
        prefetch::lines(self.0.as_ptr().cast_const().cast(), 1);
    }

    /// Starts loading the header and the beginning of the payload from memory.
    #[inline]
    pub(crate) fn prefetch(self) {
        prefetch::lines(self.0.as_ptr().cast_const().cast(), Self::PREFETCHED / 64);
    }
}

/// A version that a running transaction is about to install.
pub(crate) struct NewVersion<'a, H> {
    pub(crate) kind: Kind,
    pub(crate) tid: Tid,
    /// What it is to be installed in front of.
    pub(crate) below: Below<H>,
    /// Its position in the writer's write set.
    pub(crate) write: u32,
    pub(crate) payload: &'a [u8],
}

/// The place of a row in its indirection array: one tagged word (ERMIA 3.5).
///
/// | word | the row |
/// |---|---|
/// | 0 | does not exist |
/// | a pointer | has this newest version |
/// | a pointer, [idle](RowSlot::mark_idle) (bit 2) | the same; the row has not been accessed since it was marked |
/// | a pointer, [cooling](RowSlot::cool) (bit 1) | the same; it may be evicted, if it is still not accessed |
/// | an [`Address`] (bit 0) | has its newest version in a file only: it was not read since the database was opened, or was evicted |
#[repr(transparent)]
pub(crate) struct RowSlot<H>(AtomicPtr<Version<H>>);

/// The content of a slot at one moment. Code that has to distinguish all three reads the slot once: a row that is read
/// from its file between two reads of the slot would be neither stored nor in memory.
pub(crate) enum SlotContent<H> {
    /// The row does not exist.
    Empty,
    /// The row is in a file.
    Stored(Address),
    /// The row is in memory.
    Head(VersionPtr<H>),
}

/// Orders the installation of a version before the check of its index entries that follows.
///
/// A writer installs the version, then checks the leaf of its entry; a worker that removes the entry locks that leaf,
/// then checks the versions (reclaim.rs, invariant 4). The fence pairs with the one in `index::version::Version::lock`:
/// the writer finds the leaf locked or the entry removed, or the worker finds the version. A sequentially consistent
/// installation is not enough: the reads of a leaf are not sequentially consistent, and on Arm a load passes the store
/// of a compare-and-swap before it.
#[inline]
pub(crate) fn installed() {
    fence(Ordering::SeqCst);
}

impl<H: CertifierStamps> RowSlot<H> {
    /// Creates a slot without a version.
    #[cfg(loom)]
    pub(crate) fn empty() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// Marks a slot whose row may be evicted if it is not accessed from now on.
    const COOLING: usize = 1 << 1;
    /// Marks a slot whose row has not been accessed since a round of eviction began (`durable::heat`).
    const IDLE: usize = 1 << 2;
    const MARKS: usize = Self::COOLING | Self::IDLE;

    /// Returns what the slot holds, for an access that counts: it takes off the marks.
    #[inline]
    pub(crate) fn content(&self) -> SlotContent<H> {
        let word = self.load();
        if word.addr() & (Self::MARKS | Address::TAG as usize) == 0 {
            return NonNull::new(word).map_or(SlotContent::Empty, |version| SlotContent::Head(VersionPtr(version)));
        }
        Self::content_of(self.warm(word))
    }

    /// Returns what the slot holds, for work in the background: marks stay. The version may be evicted at any time, and
    /// is protected by the epoch of operations only.
    #[inline]
    pub(crate) fn peek(&self) -> SlotContent<H> {
        Self::content_of(self.load())
    }

    #[inline]
    fn load(&self) -> *mut Version<H> {
        // SeqCst: an acquire of the writes that `install` released and of what was read from files before an address
        // was stored here; and the load half of the pair "install a version, then check the index entry" against "lock
        // the entry's leaf, then check the versions" (see `installed`).
        self.0.load(Ordering::SeqCst)
    }

    #[inline]
    fn content_of(word: *mut Version<H>) -> SlotContent<H> {
        match Address::from_word(word.addr() as u64) {
            Some(address) => SlotContent::Stored(address),
            None => Self::pointer(word).map_or(SlotContent::Empty, SlotContent::Head),
        }
    }

    /// Returns the version of a word that is no address.
    #[inline]
    fn pointer(word: *mut Version<H>) -> Option<VersionPtr<H>> {
        NonNull::new(word.map_addr(|address| address & !Self::MARKS)).map(VersionPtr)
    }

    /// Takes the marks off; returns the word then.
    #[cold]
    fn warm(&self, mut word: *mut Version<H>) -> *mut Version<H> {
        while word.addr() & Self::MARKS != 0 && word.addr() & Address::TAG as usize == 0 {
            let warm = word.map_addr(|address| address & !Self::MARKS);
            // SeqCst: as `load`. Either this or `evict` succeeds.
            match self.0.compare_exchange(word, warm, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return warm,
                Err(now) => word = now,
            }
        }
        word
    }

    fn is_cooling(word: *mut Version<H>) -> bool {
        word.addr() & (Self::COOLING | Address::TAG as usize) == Self::COOLING
    }

    /// Marks the row as cooling, if it is in memory. One thread at a time does this.
    pub(crate) fn cool(&self) {
        self.mark(self.load(), Self::COOLING);
    }

    /// Marks the row as idle, if it is in memory and not cooling.
    pub(crate) fn mark_idle(&self) {
        self.mark(self.load(), Self::IDLE);
    }

    /// Whether the row is in memory, and idle.
    pub(crate) fn is_idle(&self) -> bool {
        self.load().addr() & (Self::MARKS | Address::TAG as usize) == Self::IDLE
    }

    /// Marks a row in memory that is not cooling. `word`: the slot's.
    fn mark(&self, word: *mut Version<H>, mark: usize) {
        if !word.is_null() && word.addr() & (Self::COOLING | Address::TAG as usize) == 0 {
            let marked = word.map_addr(|address| address & !Self::MARKS | mark);
            // A slot that changes meanwhile is in use.
            let _ = self.0.compare_exchange(word, marked, Ordering::SeqCst, Ordering::Relaxed);
        }
    }

    /// Returns the address of the newest version, if it is in memory.
    pub(crate) fn address(&self) -> Option<usize> {
        match self.peek() {
            SlotContent::Head(version) => Some(version.address()),
            SlotContent::Stored(_) | SlotContent::Empty => None,
        }
    }

    /// Whether the row is in memory and has no mark.
    pub(crate) fn is_in_use(&self) -> bool {
        let word = self.load();
        !word.is_null() && word.addr() & (Self::MARKS | Address::TAG as usize) == 0
    }

    /// Returns the newest version of a row that has not been accessed since it was marked as cooling.
    pub(crate) fn cooling(&self) -> Option<VersionPtr<H>> {
        let word = self.load();
        if Self::is_cooling(word) { Self::pointer(word) } else { None }
    }

    /// Starts loading the newest version, if the row is cooling.
    pub(crate) fn prefetch_cooling(&self) {
        self.cooling().into_iter().for_each(VersionPtr::prefetch_header);
    }

    /// Replaces a version that is still cooling by its address; returns whether it did. Then no new access finds the
    /// version.
    pub(crate) fn evict(&self, version: VersionPtr<H>, address: Address) -> bool {
        let cooling = version.0.as_ptr().map_addr(|address| address | Self::COOLING);
        let stored = std::ptr::without_provenance_mut(address.word() as usize);
        // SeqCst: as `load`; and the stamps that were taken over from the version are there for the next reader of the
        // row.
        self.0.compare_exchange(cooling, stored, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Returns the newest version, if it is in memory.
    #[inline]
    pub(crate) fn head(&self) -> Option<VersionPtr<H>> {
        match self.content() {
            SlotContent::Head(version) => Some(version),
            SlotContent::Stored(_) | SlotContent::Empty => None,
        }
    }

    /// Returns the address of the newest version, while it is in a file only.
    pub(crate) fn stored(&self) -> Option<Address> {
        match self.content() {
            SlotContent::Stored(address) => Some(address),
            SlotContent::Head(_) | SlotContent::Empty => None,
        }
    }

    /// Replaces the address `expected`, or an empty slot, by `new`; returns whether it did.
    pub(crate) fn replace_stored(&self, expected: Option<Address>, new: Option<Address>) -> bool {
        let raw = |address: Option<Address>| {
            std::ptr::without_provenance_mut(address.map_or(0, |address| address.word() as usize))
        };
        // Release: pairs with `content`.
        self.0.compare_exchange(raw(expected), raw(new), Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Creates the version that has been read from `address`, the `number`-th of those that committed at `stamp`, and
    /// replaces the address by it; `false` when another thread was faster. The creator of the version has ended, and no
    /// transaction knows it as a version.
    pub(crate) fn bring_in(
        &self,
        arena: &mut Arena,
        address: Address,
        stamp: Stamp,
        number: u32,
        payload: &[u8],
    ) -> bool {
        let version = VersionPtr::create(arena, Kind::Live, OriginWord::at(stamp), Below::Nothing, number, payload);
        let expected = std::ptr::without_provenance_mut(address.word() as usize);
        // SeqCst: as `install`.
        let done = self.0.compare_exchange(expected, version.0.as_ptr(), Ordering::SeqCst, Ordering::Relaxed).is_ok();
        if !done {
            // SAFETY: the version was not published: this is the only handle.
            unsafe { version.destroy(arena) };
        }
        done
    }

    /// Creates a version and installs it in the place of `expected`; `None` when another thread was faster.
    pub(crate) fn push(
        &self,
        arena: &mut Arena,
        expected: Option<VersionPtr<H>>,
        new: NewVersion<'_, H>,
    ) -> Option<VersionPtr<H>> {
        let NewVersion { kind, tid, below, write, payload } = new;
        let version = VersionPtr::create(arena, kind, OriginWord::by(tid), below, write, payload);
        if self.install(expected, Some(version)) {
            return Some(version);
        }
        // SAFETY: the version was not published: this is the only handle.
        unsafe { version.destroy(arena) };
        None
    }

    /// Creates a version and installs it in the place of `own`, which is of the same transaction, and which becomes
    /// void.
    pub(crate) fn replace(&self, arena: &mut Arena, own: VersionPtr<H>, new: NewVersion<'_, H>) -> VersionPtr<H> {
        let new = self.push(arena, Some(own), new);
        own.void();
        new.expect("no other transaction changes the head of a row that this one has written")
    }

    /// Installs a version that its writer replaced again, in the place of the version that replaced it, which becomes
    /// void.
    pub(crate) fn put_back(&self, newer: VersionPtr<H>, own: VersionPtr<H>, tid: Tid) {
        own.origin().store(OriginWord::by(tid));
        let done = self.install(Some(newer), Some(own));
        debug_assert!(done, "no other transaction changes the head of a row that this one has written");
        newer.void();
    }

    /// Installs `new` in the place of `expected`; returns `false` to the loser of a race.
    pub(crate) fn install(&self, expected: Option<VersionPtr<H>>, new: Option<VersionPtr<H>>) -> bool {
        let raw = |version: Option<VersionPtr<H>>| version.map_or(std::ptr::null_mut(), |version| version.0.as_ptr());
        let mut word = raw(expected);
        loop {
            // SeqCst: see `load`.
            match self.0.compare_exchange(word, raw(new), Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return true,
                // Marked, or the mark was taken off, since the caller saw it.
                Err(now) if now.addr() & Address::TAG as usize == 0 && Self::pointer(now) == expected => word = now,
                Err(_) => return false,
            }
        }
    }
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Version<()>>() == 24, "an uncertified version has a header of 24 bytes");

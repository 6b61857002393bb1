//! The memory of a session: what its statement gathers, large values that pass through expressions, and state that
//! outlives a statement.
//!
//! Memory is reserved before it is used, from `work_mem` and from the database's budget ([`Budget`]): a sorter
//! reserves before it keeps a row, a function before it makes a long text. A statement that asks for too much fails
//! with `53200`; nothing else fails with it.
//!
//! | kind | counted by | until |
//! |---|---|---|
//! | gathered: rows, groups, sets, aggregates | [`Kept`] | the part of the statement that gathers ends |
//! | passing: large values that expressions make | [`Memory::pass`] | the next row of the innermost loop |
//! | lasting: trees of texts, rows of cursors and portals, parameters | [`Held`] | the holder is dropped |
//!
//! Parts of a statement that can go on in a temporary file ([`Kept::try_add`]) take no more than three quarters of
//! `work_mem` together, so that the others have room; each may have 1/64, whatever the others take. They leave as much in
//! the database's budget.
//!
//! Invariants
//! 1. Everything that a statement has taken from the budget is released when the statement ends ([`Memory::end`]), at
//!    the latest when the next one begins or the session is dropped: so also after a panic.
//! 2. A session reports to the budget in steps of at least 64 KiB: no row costs a write to shared memory.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use crate::{
    Value,
    error::{Result, SqlError, SqlState},
};

/// Bytes that a session takes from the budget at a time; a session that needs less takes nothing.
const STEP: usize = 64 << 10;
/// Passing values of fewer bytes are not counted.
const LARGE: usize = 4 << 10;

/// The memory that all sessions of a database share.
pub trait Budget: fmt::Debug + Send + Sync {
    /// Takes `bytes` more, or fails with the error of the statement that needs them. `frees`: the statement deletes, so
    /// it may have what is kept for that.
    fn take(&self, bytes: u64, frees: bool) -> Result<()>;

    /// Gives back what was taken.
    fn give(&self, bytes: u64);

    /// Returns the bytes that are left now; others may take them.
    fn left(&self) -> u64;
}

/// The memory of a session; clones count together. The default has no budget and refuses nothing.
#[derive(Clone, Default, Debug)]
pub struct Memory {
    statement: Arc<Counts>,
    lasting: Arc<Lasting>,
}

/// The memory of the running statement. One thread at a time runs a session: loads and stores are enough, all relaxed.
#[derive(Default, Debug)]
struct Counts {
    budget: Option<Arc<dyn Budget>>,
    /// The limit of the statement, in bytes.
    max: AtomicUsize,
    gathered: AtomicUsize,
    passing: AtomicUsize,
    /// Bytes reported to the budget.
    told: AtomicUsize,
    /// Bytes up to which no reservation is needed.
    room: AtomicUsize,
    /// Whether the statement deletes.
    frees: AtomicBool,
}

/// The memory that outlives statements. Any thread may drop its holders.
#[derive(Default, Debug)]
struct Lasting {
    budget: Option<Arc<dyn Budget>>,
    /// Bytes that are held, and bytes reported to the budget.
    held_and_told: Mutex<(usize, usize)>,
}

impl Memory {
    /// `work_mem` where no value is set.
    pub const DEFAULT: usize = 256 << 20;

    /// Returns the memory of a new session of the database with this budget.
    pub fn new(budget: &Arc<dyn Budget>) -> Self {
        let mut memory = Self::default();
        let counts = (Arc::get_mut(&mut memory.statement), Arc::get_mut(&mut memory.lasting));
        let (Some(statement), Some(lasting)) = counts else { unreachable!("nothing else knows them yet") };
        (statement.budget, lasting.budget) = (Some(budget.clone()), Some(budget.clone()));
        memory.begin(Self::DEFAULT);
        memory
    }

    /// Begins a statement, which may take `max` bytes.
    pub fn begin(&self, max: usize) {
        self.end();
        self.statement.frees.store(false, Ordering::Relaxed);
        self.statement.max.store(max, Ordering::Relaxed);
        self.statement.room.store(max.min(STEP), Ordering::Relaxed);
    }

    /// Tells that the statement that has begun deletes: it may have what the database keeps for that.
    pub fn frees(&self) {
        self.statement.frees.store(true, Ordering::Relaxed);
    }

    /// Ends the statement: releases everything that it has taken.
    pub fn end(&self) {
        let counts = &*self.statement;
        counts.gathered.store(0, Ordering::Relaxed);
        counts.passing.store(0, Ordering::Relaxed);
        counts.room.store(counts.max.load(Ordering::Relaxed).min(STEP), Ordering::Relaxed);
        counts.give_back();
    }

    /// Returns the limit of the statement, in bytes.
    pub fn work_mem(&self) -> usize {
        self.statement.max.load(Ordering::Relaxed)
    }

    /// Counts bytes that the statement gathers.
    #[inline]
    fn gather(&self, bytes: usize) -> Result<()> {
        self.statement.add(&self.statement.gathered, bytes, 0)
    }

    /// Works as `gather`, but fails also if the database would have little left; the caller goes on without, and
    /// drops the error.
    #[inline]
    fn gather_leaving(&self, bytes: usize) -> Result<()> {
        self.statement.add(&self.statement.gathered, bytes, self.work_mem() / 64)
    }

    #[inline]
    fn release(&self, bytes: usize) {
        // The statement may have ended since, with everything released.
        let gathered = &self.statement.gathered;
        gathered.store(gathered.load(Ordering::Relaxed).saturating_sub(bytes), Ordering::Relaxed);
    }

    /// Whether a part that has gathered `own` bytes may gather more, although it could go on without.
    #[inline]
    fn has_room(&self, own: usize, more: usize) -> bool {
        let counts = &*self.statement;
        let (max, all) = (counts.max.load(Ordering::Relaxed), counts.gathered.load(Ordering::Relaxed));
        counts.budget.is_none() || all + more <= max / 4 * 3 || own + more <= max / 64
    }

    /// Counts a value that an expression has made until the next row ([`Memory::next_row`]).
    #[inline]
    pub fn pass(&self, value: &Value) -> Result<()> {
        let bytes = match value {
            Value::Text(text) | Value::Char(text) => text.len(),
            Value::Bytea(bytes) => bytes.len(),
            Value::Json(text) => text.len(),
            Value::Array(_) | Value::Jsonb(_) | Value::Record(_) => value.bytes(),
            _ => return Ok(()),
        };
        if bytes < LARGE { Ok(()) } else { self.statement.add(&self.statement.passing, bytes, 0) }
    }

    /// Fails if there is no room to make a value of `bytes` bytes. A value is made in a buffer that grows, and copied:
    /// that takes twice as much.
    #[inline]
    pub fn check(&self, bytes: usize) -> Result<()> {
        if bytes < LARGE { Ok(()) } else { self.check_large(bytes.saturating_mul(2)) }
    }

    #[cold]
    fn check_large(&self, bytes: usize) -> Result<()> {
        let passing = self.mark();
        self.statement.add(&self.statement.passing, bytes, 0)?;
        self.next_row(passing);
        Ok(())
    }

    /// As [`Memory::check`], for a list or a tree that is parsed from a text: each part of it takes a place.
    pub(crate) fn check_parts(&self, text: &[u8]) -> Result<()> {
        if text.len() < LARGE {
            return Ok(());
        }
        let parts = text.iter().filter(|byte| matches!(byte, b',' | b':' | b'[' | b'{')).count();
        self.check(text.len() + parts * size_of::<Value>())
    }

    /// Returns the bytes that pass now, for [`Memory::next_row`].
    #[inline]
    pub fn mark(&self) -> usize {
        self.statement.passing.load(Ordering::Relaxed)
    }

    /// Forgets the values that were made since the mark.
    #[inline]
    pub fn next_row(&self, mark: usize) {
        self.statement.passing.store(mark, Ordering::Relaxed);
    }

    /// Returns a holder for something that outlives the statement; it holds nothing yet.
    pub fn hold(&self) -> Held {
        Held { lasting: Some(self.lasting.clone()), bytes: 0 }
    }
}

impl Counts {
    /// `left`: bytes that the budget has to have besides.
    #[inline]
    fn add(&self, to: &AtomicUsize, bytes: usize, left: usize) -> Result<()> {
        let before = to.load(Ordering::Relaxed);
        to.store(before.saturating_add(bytes), Ordering::Relaxed);
        let all = self.gathered.load(Ordering::Relaxed).saturating_add(self.passing.load(Ordering::Relaxed));
        if all > self.room.load(Ordering::Relaxed) {
            return self.ask(all, left).inspect_err(|_| to.store(before, Ordering::Relaxed));
        }
        Ok(())
    }

    #[cold]
    fn ask(&self, all: usize, left: usize) -> Result<()> {
        let Some(budget) = &self.budget else { return Ok(()) };
        let (max, told) = (self.max.load(Ordering::Relaxed), self.told.load(Ordering::Relaxed));
        if all > max {
            return Err(over_work_mem(max));
        }
        let wanted = all.next_multiple_of(STEP);
        if left > 0 && budget.left() < (wanted - told + left) as u64 {
            return Err(over_work_mem(max));
        }
        budget.take((wanted - told) as u64, self.frees.load(Ordering::Relaxed))?;
        self.told.store(wanted, Ordering::Relaxed);
        self.room.store(max.min(wanted), Ordering::Relaxed);
        Ok(())
    }

    fn give_back(&self) {
        let told = self.told.load(Ordering::Relaxed);
        if let Some(budget) = self.budget.as_ref().filter(|_| told > 0) {
            self.told.store(0, Ordering::Relaxed);
            budget.give(told as u64);
        }
    }
}

impl Drop for Counts {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl Lasting {
    fn take(&self, bytes: usize) -> Result<()> {
        let Some(budget) = &self.budget else { return Ok(()) };
        let mut counts = self.held_and_told.lock().unwrap_or_else(PoisonError::into_inner);
        let (held, told) = &mut *counts;
        let wanted = *held + bytes;
        if wanted > *told + STEP {
            let wanted = wanted.next_multiple_of(STEP);
            budget.take((wanted - *told) as u64, false)?;
            *told = wanted;
        }
        *held = wanted;
        Ok(())
    }

    fn give(&self, bytes: usize) {
        let Some(budget) = &self.budget else { return };
        let mut counts = self.held_and_told.lock().unwrap_or_else(PoisonError::into_inner);
        let (held, told) = &mut *counts;
        *held -= bytes;
        if *told > *held + 2 * STEP {
            let wanted = held.next_multiple_of(STEP);
            budget.give((*told - wanted) as u64);
            *told = wanted;
        }
    }
}

impl Drop for Lasting {
    fn drop(&mut self) {
        let (held, told) = *self.held_and_told.get_mut().unwrap_or_else(PoisonError::into_inner);
        debug_assert_eq!(held, 0, "a holder keeps its session's count");
        if let Some(budget) = &self.budget {
            budget.give(told as u64);
        }
    }
}

fn over_work_mem(max: usize) -> SqlError {
    SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory")
        .detail(format!("The statement needs more than the {} kB of memory that work_mem allows.", max >> 10))
        .hint("Let it gather fewer or smaller rows at a time, or raise work_mem with SET.")
}

/// The memory gathered by a part of a statement; dropping it releases the memory.
pub struct Kept<'m> {
    memory: &'m Memory,
    bytes: usize,
}

impl<'m> Kept<'m> {
    /// Returns a part that has gathered nothing yet.
    pub fn new(memory: &'m Memory) -> Self {
        Self { memory, bytes: 0 }
    }

    /// Returns the bytes that it has gathered.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Reserves this many bytes more.
    #[inline]
    pub fn add(&mut self, bytes: usize) -> Result<()> {
        self.memory.gather(bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Reserves this many bytes more for a part that can go on without; returns whether it has them.
    #[inline]
    pub fn try_add(&mut self, bytes: usize) -> bool {
        let has = self.memory.has_room(self.bytes, bytes) && self.memory.gather_leaving(bytes).is_ok();
        self.bytes += if has { bytes } else { 0 };
        has
    }

    /// Works as [`Kept::try_add`], for a row in a list that grows.
    pub fn try_add_row(&mut self, row: &[Value]) -> bool {
        self.try_add(bytes_of(row) + size_of_val(row))
    }

    /// Reserves room for a row in a list that grows.
    #[inline]
    pub fn add_row(&mut self, row: &[Value]) -> Result<()> {
        // Up to half of the list's capacity is empty.
        self.add(bytes_of(row) + size_of_val(row))
    }

    /// Keeps the memory until the statement ends.
    pub fn stays(&mut self) {
        self.bytes = 0;
    }

    /// Releases all but this many bytes.
    pub fn shrink_to(&mut self, bytes: usize) {
        self.memory.release(self.bytes.saturating_sub(bytes));
        self.bytes = self.bytes.min(bytes);
    }
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        self.memory.release(self.bytes);
    }
}

/// The memory of something that outlives the statement that made it; dropping it releases the memory. The default is
/// not counted.
#[derive(Default, Debug)]
pub struct Held {
    lasting: Option<Arc<Lasting>>,
    bytes: usize,
}

impl Held {
    /// Reserves `bytes` in all, of which `max` are allowed. Holders of much memory reserve by the step.
    #[inline]
    pub fn grow_to(&mut self, bytes: usize, max: usize) -> Result<()> {
        if bytes > self.bytes { self.ask(bytes, max) } else { Ok(()) }
    }

    #[cold]
    fn ask(&mut self, bytes: usize, max: usize) -> Result<()> {
        let Some(lasting) = &self.lasting else { return Ok(()) };
        if bytes > max {
            return Err(over_work_mem(max));
        }
        let wanted = if bytes > STEP { bytes.next_multiple_of(STEP) } else { bytes };
        lasting.take(wanted - self.bytes)?;
        self.bytes = wanted;
        Ok(())
    }

    /// Releases all but this many bytes.
    #[inline]
    pub fn shrink_to(&mut self, bytes: usize) {
        if self.bytes >= bytes + 2 * STEP {
            self.give_back(bytes.next_multiple_of(STEP));
        }
    }

    fn give_back(&mut self, left: usize) {
        if let Some(lasting) = self.lasting.as_ref().filter(|_| self.bytes > left) {
            lasting.give(self.bytes - left);
            self.bytes = left;
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.give_back(0);
    }
}

/// Bytes that an allocation takes besides its own.
pub const ALLOCATION: usize = 16;

/// Bytes that a key in an allocation of its own takes in a map besides that: its place in a table of which up to half
/// is empty and that is copied when it grows.
pub const ENTRY: usize = 24 + 3 * size_of::<(Box<[u8]>, usize)>();

/// Bytes that a row takes, approximately.
pub fn bytes_of(row: &[Value]) -> usize {
    size_of::<Box<[Value]>>() + row.iter().map(Value::bytes).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A budget of so many bytes.
    #[derive(Debug)]
    struct Limited {
        limit: u64,
        taken: AtomicUsize,
    }

    impl Budget for Limited {
        fn take(&self, bytes: u64, _frees: bool) -> Result<()> {
            if self.taken() + bytes > self.limit {
                return Err(SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory").hint("Use less."));
            }
            self.taken.fetch_add(bytes as usize, Ordering::Relaxed);
            Ok(())
        }

        fn give(&self, bytes: u64) {
            self.taken.fetch_sub(bytes as usize, Ordering::Relaxed);
        }

        fn left(&self) -> u64 {
            self.limit - self.taken()
        }
    }

    impl Limited {
        fn taken(&self) -> u64 {
            self.taken.load(Ordering::Relaxed) as u64
        }
    }

    fn budget(limit: u64) -> (Arc<Limited>, Arc<dyn Budget>) {
        let budget = Arc::new(Limited { limit, taken: AtomicUsize::new(0) });
        (budget.clone(), budget)
    }

    #[test]
    fn a_statement_takes_no_more_than_it_may_and_gives_everything_back() {
        let (budget, shared) = budget(64 << 20);
        let before = budget.taken();
        let memory = Memory::new(&shared);
        memory.begin(1 << 20);
        memory.gather(1 << 19).unwrap();
        assert!(budget.taken() >= before + (1 << 19));
        let mut kept = Kept::new(&memory);
        let refused = kept.add(1 << 20).unwrap_err();
        assert_eq!(refused.state(), SqlState::OUT_OF_MEMORY);
        assert!(refused.report().detail.as_deref().is_some_and(|detail| detail.contains("1024 kB")));
        kept.add(1 << 18).unwrap();
        drop(kept);
        // Passing values are forgotten with their row.
        let mark = memory.mark();
        let long = Value::text("x".repeat(1 << 18));
        for _ in 0..100 {
            memory.next_row(mark);
            memory.pass(&long).unwrap();
        }
        memory.next_row(mark);
        assert!((0..3).any(|_| memory.pass(&long).is_err()));
        memory.end();
        assert_eq!(budget.taken(), before);
        // The database has less than `work_mem`.
        memory.begin(1 << 30);
        let refused = memory.gather(80 << 20).unwrap_err();
        assert_eq!(refused.state(), SqlState::OUT_OF_MEMORY);
        assert!(refused.report().hint.as_deref().is_some_and(|hint| hint == "Use less."));
        memory.gather(1 << 20).unwrap();
        drop(memory);
        assert_eq!(budget.taken(), before);
    }

    #[test]
    fn the_budget_is_asked_by_the_step() {
        let (budget, shared) = budget(64 << 20);
        let before = budget.taken();
        let memory = Memory::new(&shared);
        memory.begin(1 << 20);
        let mut takes = 0;
        let mut taken = before;
        for _ in 0..10_000 {
            memory.gather(100).unwrap();
            if budget.taken() != taken {
                (taken, takes) = (budget.taken(), takes + 1);
            }
        }
        assert!((1..=1_000_000 / STEP + 1).contains(&takes), "{takes}");
    }

    #[test]
    fn what_outlives_a_statement_counts_until_it_is_dropped() {
        let (budget, shared) = budget(64 << 20);
        let before = budget.taken();
        let memory = Memory::new(&shared);
        // Many small holders count as one large one does.
        let mut holders: Vec<_> = (0..1000).map(|_| memory.hold()).collect();
        holders.iter_mut().for_each(|held| held.grow_to(4000, usize::MAX).unwrap());
        memory.end();
        assert!(budget.taken() >= before + 3_900_000, "{}", budget.taken());
        let mut large = memory.hold();
        assert_eq!(large.grow_to(2000, 1000).unwrap_err().state(), SqlState::OUT_OF_MEMORY);
        assert_eq!(large.grow_to(100 << 20, usize::MAX).unwrap_err().state(), SqlState::OUT_OF_MEMORY);
        large.grow_to(10 << 20, usize::MAX).unwrap();
        large.shrink_to(1 << 20);
        assert!(budget.taken() < before + (6 << 20), "{}", budget.taken());
        drop((memory, holders));
        assert!(budget.taken() >= before + (1 << 20), "{}", budget.taken());
        drop(large);
        assert_eq!(budget.taken(), before);
    }
}

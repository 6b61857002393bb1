//! The memory of one statement: what it gathers, and the large values on their way through its expressions.
//!
//! It counts against `work_mem`, and in chunks against what the database may take ([`ermine::Budget`]): what sorts, groups and remembers asks before
//! it keeps a row, a function before it makes a long text. A statement that asks for too much fails with `53200`, whatever else runs.
//!
//! Invariant: what is counted in the database's budget is given back when the statement ends ([`Memory::end`]), however it ends.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use ermine::{Budget, Error};

use crate::{
    error::{Result, SqlError, SqlState},
    failure::of_engine,
    types::Value,
};

/// The memory of what a session runs; clones count together.
#[derive(Clone, Default, Debug)]
pub struct Memory(Arc<Counts>);

/// Relaxed throughout: one thread at a time runs a session.
#[derive(Default, Debug)]
struct Counts {
    budget: Option<Arc<Budget>>,
    max: AtomicUsize,
    /// Kept until whoever keeps it gives it back.
    kept: AtomicUsize,
    /// Of large values on their way, since the row that is being looked at.
    passing: AtomicUsize,
    /// Bytes that the budget knows of.
    told: AtomicUsize,
}

impl Memory {
    /// What `work_mem` is where nothing is said.
    pub(crate) const DEFAULT: usize = 256 << 20;
    /// Bytes that are told to the budget at a time; a statement that takes less does not tell it of anything.
    const STEP: usize = 64 << 10;
    /// Values of fewer bytes do not count on their way.
    pub(crate) const LARGE: usize = 4 << 10;

    pub(crate) fn new(budget: Arc<Budget>) -> Self {
        Self(Arc::new(Counts::new(Some(budget), Self::DEFAULT)))
    }

    /// Memory of the same database for something that outlives the statement, at most so much.
    pub(crate) fn apart(&self, max: usize) -> Self {
        Self(Arc::new(Counts::new(self.0.budget.clone(), max)))
    }

    /// A statement begins, which may take so much.
    pub(crate) fn begin(&self, max: usize) {
        self.end();
        self.0.max.store(max, Ordering::Relaxed);
    }

    /// The statement has ended: everything is given back.
    pub(crate) fn end(&self) {
        self.0.kept.store(0, Ordering::Relaxed);
        self.0.passing.store(0, Ordering::Relaxed);
        let told = self.0.told.swap(0, Ordering::Relaxed);
        if let Some(budget) = self.0.budget.as_ref().filter(|_| told > 0) {
            budget.give(told as u64);
        }
    }

    /// Takes so many bytes more, that are kept.
    #[inline]
    pub(crate) fn keep(&self, bytes: usize) -> Result<()> {
        self.0.add(&self.0.kept, bytes)
    }

    /// Gives back what was kept.
    #[inline]
    pub(crate) fn release(&self, bytes: usize) {
        // What is given back late, when the statement has ended, is given back already.
        let less = |kept: usize| Some(kept.saturating_sub(bytes));
        let _ = self.0.kept.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// A value has been made that is on its way to where it is kept, or looked at. It counts until the next row.
    #[inline]
    pub(crate) fn pass(&self, value: &Value) -> Result<()> {
        let bytes = match value {
            Value::Text(text) => text.len(),
            Value::Bytea(bytes) => bytes.len(),
            Value::Array(_) | Value::Jsonb(_) => value.bytes(),
            _ => return Ok(()),
        };
        if bytes < Self::LARGE { Ok(()) } else { self.0.add(&self.0.passing, bytes) }
    }

    /// Fails where there is no room for a value of so many bytes: asked before it is made.
    pub(crate) fn check(&self, bytes: usize) -> Result<()> {
        if bytes < Self::LARGE {
            return Ok(());
        }
        self.0.add(&self.0.passing, bytes)?;
        self.0.passing.fetch_sub(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// What passes now: for [`Memory::next_row`].
    #[inline]
    pub(crate) fn mark(&self) -> usize {
        self.0.passing.load(Ordering::Relaxed)
    }

    /// The values since are gone.
    #[inline]
    pub(crate) fn next_row(&self, mark: usize) {
        self.0.passing.store(mark, Ordering::Relaxed);
    }
}

impl Counts {
    fn new(budget: Option<Arc<Budget>>, max: usize) -> Self {
        let [kept, passing, told] = [0; 3].map(AtomicUsize::new);
        Self { budget, max: max.into(), kept, passing, told }
    }

    #[inline]
    fn add(&self, to: &AtomicUsize, bytes: usize) -> Result<()> {
        let before = to.fetch_add(bytes, Ordering::Relaxed);
        let all = self.kept.load(Ordering::Relaxed).saturating_add(self.passing.load(Ordering::Relaxed));
        if all > self.told.load(Ordering::Relaxed) + Memory::STEP && self.budget.is_some() {
            self.tell(all).inspect_err(|_| to.store(before, Ordering::Relaxed))?;
        }
        Ok(())
    }

    #[cold]
    fn tell(&self, all: usize) -> Result<()> {
        let Some(budget) = &self.budget else { return Ok(()) };
        let max = self.max.load(Ordering::Relaxed);
        if all > max {
            let detail = format!("The statement needs more than the {} kB that work_mem lets it take.", max >> 10);
            return Err(SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory")
                .detail(detail)
                .hint("Have it gather fewer or shorter rows at a time, or set work_mem higher."));
        }
        let more = all.next_multiple_of(Memory::STEP) - self.told.load(Ordering::Relaxed);
        budget.take(more as u64).map_err(|error| match error {
            Error::OutOfMemory { .. } => of_engine(error).hint(
                "Have the statement gather fewer or shorter rows at a time, try again when others have ended, or start the server with a larger \
                 --memory-limit.",
            ),
            error => of_engine(error),
        })?;
        self.told.fetch_add(more, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for Counts {
    fn drop(&mut self) {
        if let Some(budget) = &self.budget {
            budget.give(*self.told.get_mut() as u64);
        }
    }
}

/// What a part of a statement keeps; it is given back with it.
pub(crate) struct Kept<'m> {
    memory: &'m Memory,
    bytes: usize,
}

impl<'m> Kept<'m> {
    pub(crate) fn new(memory: &'m Memory) -> Self {
        Self { memory, bytes: 0 }
    }

    /// Asks for so many bytes more.
    #[inline]
    pub(crate) fn add(&mut self, bytes: usize) -> Result<()> {
        self.memory.keep(bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    /// As [`Kept::add`], for a row.
    #[inline]
    pub(crate) fn add_row(&mut self, row: &[Value]) -> Result<()> {
        self.add(bytes_of(row))
    }

    /// It is kept until the statement ends.
    pub(crate) fn stays(&mut self) {
        self.bytes = 0;
    }

    /// So many are left.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        self.memory.release(self.bytes.saturating_sub(bytes));
        self.bytes = self.bytes.min(bytes);
    }
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        self.memory.release(self.bytes);
    }
}

/// What a key takes in a set of them, beside its bytes.
pub(crate) const ENTRY: usize = 64;

/// What a row takes, about.
pub(crate) fn bytes_of(row: &[Value]) -> usize {
    size_of::<Box<[Value]>>() + row.iter().map(Value::bytes).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_given_back_and_no_more_than_may_be() {
        let database = ermine::Database::open_in_memory(ermine::Options::default().memory_limit(64 << 20)).unwrap();
        let (budget, before) = (database.budget().clone(), database.budget().taken());
        let memory = Memory::new(budget.clone());
        memory.begin(1 << 20);
        memory.keep(1 << 19).unwrap();
        assert!(budget.taken() >= before + (1 << 19));
        let mut kept = Kept::new(&memory);
        let refused = kept.add(1 << 20).unwrap_err();
        assert_eq!(refused.state(), SqlState::OUT_OF_MEMORY);
        kept.add(1 << 18).unwrap();
        drop(kept);
        // What passes is forgotten with its row.
        let mark = memory.mark();
        let long = Value::text("x".repeat(1 << 18));
        for _ in 0..100 {
            memory.pass(&long).unwrap();
            memory.next_row(mark);
        }
        assert!((0..3).any(|_| memory.pass(&long).is_err()));
        memory.end();
        assert_eq!(budget.taken(), before);
        // The database has less than work_mem.
        memory.begin(1 << 30);
        let error = memory.keep(80 << 20).unwrap_err();
        assert_eq!(error.state(), SqlState::OUT_OF_MEMORY);
        memory.keep(1 << 20).unwrap();
        drop(memory);
        assert_eq!(budget.taken(), before);
    }
}

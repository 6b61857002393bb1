//! Points in a transaction to which it can be rolled back.
//!
//! What a transaction has written since then is undone; what it has read stays read, and what was found out by writing counts as read
//! from then on. A mark says how long the lists of the transaction's footprint were; a value that the transaction replaced by a newer one
//! of its own is kept while there is a mark.
//!
//! Invariants
//! 1. Marks are in the order of their making, and so are the replaced values: those behind a mark's count were replaced after it.
//! 2. A mark is there only while everything that the transaction wrote before it is.

use crate::error::{Error, Result};

/// A point in a transaction: [`crate::Transaction::savepoint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint(u64);

/// How much there was at a savepoint.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    pub(crate) writes: usize,
    pub(crate) entries: usize,
    pub(crate) log_bytes: u64,
    /// Actions that an observer will be told of.
    pub(crate) notes: usize,
}

impl Mark {
    /// The beginning of a transaction.
    pub(crate) const START: Self = Self { writes: 0, entries: 0, log_bytes: 0, notes: 0 };
}

/// The savepoints of one transaction; `R` is a value of its own that it replaced.
pub(crate) struct Savepoints<R> {
    marks: Vec<(Savepoint, Mark, usize)>,
    /// What was replaced while there was a mark, in order.
    replaced: Vec<R>,
    /// Never goes back, so that a savepoint of an earlier transaction is not taken for one of this.
    next: u64,
}

impl<R> Default for Savepoints<R> {
    fn default() -> Self {
        Self { marks: Vec::new(), replaced: Vec::new(), next: 0 }
    }
}

impl<R> Savepoints<R> {
    /// Whether there is any to go back to.
    pub(crate) fn any(&self) -> bool {
        !self.marks.is_empty()
    }

    pub(crate) fn add(&mut self, mark: Mark) -> Savepoint {
        self.next += 1;
        let savepoint = Savepoint(self.next);
        self.marks.push((savepoint, mark, self.replaced.len()));
        savepoint
    }

    /// The transaction replaced a value of its own. There is a mark.
    pub(crate) fn replaced(&mut self, value: R) {
        self.replaced.push(value);
    }

    /// What there was at a savepoint, which stays; those behind it are gone.
    pub(crate) fn go_back(&mut self, savepoint: Savepoint) -> Result<Mark> {
        let at = self.find(savepoint)?;
        self.marks.truncate(at + 1);
        Ok(self.marks[at].1)
    }

    /// The value that was replaced last since the last savepoint.
    pub(crate) fn pop_replaced(&mut self) -> Option<R> {
        let kept = self.marks.last().map_or(0, |mark| mark.2);
        if self.replaced.len() > kept { self.replaced.pop() } else { None }
    }

    /// Forgets a savepoint and those behind it; what was written since belongs to the one before.
    pub(crate) fn release(&mut self, savepoint: Savepoint) -> Result<()> {
        self.marks.truncate(self.find(savepoint)?);
        Ok(())
    }

    /// The transaction is about to end: gives all values that were replaced.
    pub(crate) fn end(&mut self) -> impl Iterator<Item = R> {
        self.marks.clear();
        self.replaced.drain(..)
    }

    fn find(&self, savepoint: Savepoint) -> Result<usize> {
        self.marks.binary_search_by_key(&savepoint.0, |mark| mark.0.0).map_err(|_| Error::NoSuchSavepoint)
    }
}

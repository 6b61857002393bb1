//! Points in a transaction to which it can be rolled back.
//!
//! A rollback undoes the transaction's writes since the savepoint; its reads stay in the read set, and the facts that
//! its writes found out count as reads from then on. A mark records the lengths of the lists of the transaction's
//! footprint; a value that the transaction replaced by a newer one of its own is kept while there is a mark.
//!
//! Invariants
//! 1. Marks are in the order of their creation, and so are the replaced values: those after a mark's count were
//!    replaced after the mark.
//! 2. A mark exists only while everything that the transaction wrote before it exists.

use crate::error::{Error, Result};

/// A point in a transaction: [`crate::Transaction::savepoint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint(u64);

/// The amounts at a savepoint.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    pub(crate) writes: usize,
    pub(crate) entries: usize,
    pub(crate) log_bytes: u64,
    /// Number of actions that an observer will be told of.
    pub(crate) trace: usize,
}

impl Mark {
    /// The beginning of a transaction.
    pub(crate) const START: Self = Self { writes: 0, entries: 0, log_bytes: 0, trace: 0 };
}

/// The savepoints of one transaction; `R` is a value of its own that it replaced.
pub(crate) struct Savepoints<R> {
    marks: Vec<(Savepoint, Mark, usize)>,
    /// Values that were replaced while there was a mark, in order.
    replaced: Vec<R>,
    /// Never decreases, so that a savepoint of an earlier transaction is not taken for one of the present one.
    next: u64,
}

impl<R> Default for Savepoints<R> {
    fn default() -> Self {
        Self { marks: Vec::new(), replaced: Vec::new(), next: 0 }
    }
}

impl<R> Savepoints<R> {
    /// Returns whether there is a savepoint to roll back to.
    pub(crate) fn any(&self) -> bool {
        !self.marks.is_empty()
    }

    /// Returns the number of writes before the last savepoint.
    #[inline]
    pub(crate) fn last_writes(&self) -> usize {
        self.marks.last().map_or(0, |mark| mark.1.writes)
    }

    pub(crate) fn add(&mut self, mark: Mark) -> Savepoint {
        self.next += 1;
        let savepoint = Savepoint(self.next);
        self.marks.push((savepoint, mark, self.replaced.len()));
        savepoint
    }

    /// Keeps a value of the transaction's own that it has replaced. There is a mark.
    pub(crate) fn replaced(&mut self, value: R) {
        self.replaced.push(value);
    }

    /// Returns the mark of a savepoint, which stays; later savepoints are removed.
    pub(crate) fn go_back(&mut self, savepoint: Savepoint) -> Result<Mark> {
        let at = self.find(savepoint)?;
        self.marks.truncate(at + 1);
        Ok(self.marks[at].1)
    }

    /// Removes and returns the value that was replaced last since the last savepoint.
    pub(crate) fn pop_replaced(&mut self) -> Option<R> {
        let kept = self.marks.last().map_or(0, |mark| mark.2);
        if self.replaced.len() > kept { self.replaced.pop() } else { None }
    }

    /// Forgets a savepoint and those after it; the writes since then belong to the savepoint before.
    pub(crate) fn release(&mut self, savepoint: Savepoint) -> Result<()> {
        self.marks.truncate(self.find(savepoint)?);
        Ok(())
    }

    /// Forgets all savepoints, as the transaction is about to end; returns all replaced values.
    pub(crate) fn end(&mut self) -> impl Iterator<Item = R> {
        self.marks.clear();
        self.replaced.drain(..)
    }

    fn find(&self, savepoint: Savepoint) -> Result<usize> {
        self.marks.binary_search_by_key(&savepoint.0, |mark| mark.0.0).map_err(|_| Error::NoSuchSavepoint)
    }
}

//! The absent version of a transaction's inserts: what a reader reads that cannot see the inserted rows (SSN section 2:
//! an insert overwrites an invalid version).
//!
//! One absent version serves all rows that a transaction inserts between two savepoints. An absent version is there to
//! connect readers to the transaction that overwrites it, and that is the same one for all of these rows: nothing is
//! lost, and nothing is found that is not there. The first insert creates it and marks it; each inserted row ends in a
//! link to it ([`Below::Absence`](crate::rows::chain::Below)).
//!
//! Invariants
//! 1. It is marked before another transaction can find the first row. It loses the mark when its inserts are undone,
//!    or gets its stamps when the transaction commits. Its inserts are undone together or not at all: those after a
//!    savepoint have another one. (A mark that stayed for an insert that is gone would connect the transaction with
//!    readers of a key that it does not write; a prepared reader of that key would not survive it.)
//! 2. It is freed when no snapshot from before the transaction's commit is in use (`worker`). The links to it are left
//!    as they are: only a reader with such a snapshot follows them. Nothing that has no snapshot does (`chain`,
//!    invariant 5).

use crate::{ids::TableId, rows::chain::VersionPtr};

/// The absent versions of a running transaction, one for each savepoint after which it has inserted rows.
pub(crate) struct Absences<H>(Vec<Absence<H>>);

struct Absence<H> {
    version: VersionPtr<H>,
    /// The position in the write set of the first insert.
    first: usize,
    /// The table of the last insert: the certifier has to look for those that read this table as a whole.
    table: Option<TableId>,
}

impl<H> Default for Absences<H> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<H> Absences<H> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the version for an insert, if there is one whose inserts all come after the last savepoint, which was
    /// set at the position `savepoint` in the write set.
    #[inline]
    pub(crate) fn current(&self, savepoint: usize) -> Option<VersionPtr<H>> {
        self.0.last().filter(|absence| absence.first >= savepoint).map(|absence| absence.version)
    }

    /// Adds a version for inserts from `first` on, a position in the write set.
    pub(crate) fn push(&mut self, version: VersionPtr<H>, first: usize) {
        self.0.push(Absence { version, first, table: None });
    }

    /// Notes an insert; returns the version if the insert is to be certified as an overwrite of it. An insert that
    /// follows one into the same table is not.
    pub(crate) fn inserted(&mut self, table: TableId) -> Option<VersionPtr<H>> {
        let absence = self.0.last_mut()?;
        (absence.table.replace(table) != Some(table)).then_some(absence.version)
    }

    /// Returns the version for an insert that is undone, which is the last one.
    pub(crate) fn undone(&mut self) -> Option<VersionPtr<H>> {
        let absence = self.0.last_mut()?;
        // It may have been the one that is certified.
        absence.table = None;
        Some(absence.version)
    }

    /// Removes and returns the last version, if its first insert has the position `first` in the write set, or a later
    /// one.
    pub(crate) fn pop_from(&mut self, first: usize) -> Option<VersionPtr<H>> {
        self.0.pop_if(|absence| absence.first >= first).map(|absence| absence.version)
    }
}

//! The absent version of a transaction's inserts: what a reader reads that cannot see the inserted rows (SSN section 2:
//! an insert overwrites an invalid version).
//!
//! One absent version serves all rows that a transaction inserts into a table between two savepoints. An absent version
//! is there to connect readers to the transaction that overwrites it, and that is the same one for all of these rows:
//! nothing is lost, and nothing is found that is not there. (It would be so for all tables. But a reader that is found
//! is reported under the table, and lets the table adapt its tracking.) The first insert creates it and marks it; each
//! inserted row ends in a link to it ([`Below::Absence`](crate::rows::chain::Below)).
//!
//! Invariants
//! 1. It is marked before another transaction can find the first row. It loses the mark when its inserts are undone,
//!    or gets its stamps when the transaction commits. Its inserts are undone together or not at all: those after a
//!    savepoint have another one. (A mark that stayed for an insert that is gone would connect the transaction with
//!    readers of a key that it does not write; a prepared reader of that key would not survive it.)
//! 2. It is freed when no snapshot from before the transaction's commit is in use, except for passive ones (`worker`).
//!    The links to it are left as they are: only a reader with such a snapshot follows them, and not if the snapshot is
//!    passive (`visible`). Nothing that has no snapshot does (`chain`, invariant 5).
//! 3. The versions are in the order of their first inserts. Inserts are undone in the opposite order, so the first
//!    insert of a version is the last one of it that is undone, and then the version is the last one.

use crate::{ids::TableId, rows::chain::VersionPtr};

/// The absent versions of a running transaction: one for each table, and for each savepoint after which it has inserted
/// rows there.
pub(crate) struct Absences<H>(Vec<Absence<H>>);

struct Absence<H> {
    version: VersionPtr<H>,
    table: TableId,
    /// The position in the write set of the first insert.
    first: usize,
}

impl<H> Default for Absences<H> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<H> Absences<H> {
    /// Capacity that is kept for the next transaction.
    const KEPT: usize = 64;

    /// Approximate number of bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<Absence<H>>()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the version for an insert into a table, if there is one whose inserts all come after the last savepoint,
    /// which was set at the position `savepoint` in the write set.
    #[inline]
    pub(crate) fn current(&self, table: TableId, savepoint: usize) -> Option<VersionPtr<H>> {
        let mut since = self.0.iter().rev().take_while(|absence| absence.first >= savepoint);
        since.find(|absence| absence.table == table).map(|absence| absence.version)
    }

    /// Adds a version for inserts into a table from `first` on, a position in the write set.
    pub(crate) fn push(&mut self, version: VersionPtr<H>, table: TableId, first: usize) {
        self.0.push(Absence { version, table, first });
    }

    /// Returns the version of which the insert at this position in the write set is the first: it is certified as the
    /// overwrite of that version.
    pub(crate) fn begun_at(&self, position: usize) -> Option<VersionPtr<H>> {
        self.0.last().filter(|absence| absence.first == position).map(|absence| absence.version)
    }

    /// Returns the version of the last insert into a table.
    pub(crate) fn last_of(&self, table: TableId) -> Option<VersionPtr<H>> {
        self.0.iter().rev().find(|absence| absence.table == table).map(|absence| absence.version)
    }

    /// Removes and returns the last version, if its first insert has the position `first` in the write set, or a later
    /// one.
    pub(crate) fn pop_from(&mut self, first: usize) -> Option<VersionPtr<H>> {
        let popped = self.0.pop_if(|absence| absence.first >= first).map(|absence| absence.version);
        if self.0.is_empty() && self.0.capacity() > Self::KEPT {
            self.0 = Vec::new();
        }
        popped
    }
}

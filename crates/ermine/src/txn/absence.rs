//! The absent version of a transaction's inserts: what a reader reads that cannot see the inserted rows (SSN section 2:
//! an insert overwrites an invalid version).
//!
//! One absent version serves all rows that a transaction inserts. An absent version is there to connect readers to the
//! transaction that overwrites it, and that is the same one for all of these rows: nothing is lost, and nothing is
//! found that is not there. The first insert creates it and marks it; each inserted row ends in a link to it
//! ([`Below::Absence`](crate::rows::chain::Below)).
//!
//! Invariants
//! 1. It is marked before another transaction can find the first row, and loses the mark when the last of the inserts
//!    is undone, or its stamps when the transaction has committed.
//! 2. It is freed when no snapshot from before the transaction's commit is in use (`worker`). The links to it are left
//!    as they are: only a reader with such a snapshot follows them. Nothing that has no snapshot does (`chain`,
//!    invariant 5).

use crate::{ids::TableId, rows::chain::VersionPtr};

/// The absent version of a running transaction.
pub(crate) struct Absence<H> {
    pub(crate) version: VersionPtr<H>,
    /// The position in the write set of the first insert.
    first: usize,
    /// The table of the last insert: the certifier has to look for those that read this table as a whole.
    table: Option<TableId>,
}

impl<H> Absence<H> {
    /// For inserts from `first` on, a position in the write set.
    pub(crate) fn new(version: VersionPtr<H>, first: usize) -> Self {
        Self { version, first, table: None }
    }

    /// Notes an insert; returns the version if the insert is to be certified as an overwrite of it. An insert that
    /// follows one into the same table is not.
    pub(crate) fn inserted(&mut self, table: TableId) -> Option<VersionPtr<H>> {
        (self.table.replace(table) != Some(table)).then_some(self.version)
    }

    /// Notes that the insert at a position in the write set, the last one, is undone.
    pub(crate) fn undone(&mut self) {
        // The insert may have been the one that is certified.
        self.table = None;
    }

    /// Whether the insert at a position in the write set was the first one.
    pub(crate) fn begins_at(&self, position: usize) -> bool {
        self.first == position
    }
}

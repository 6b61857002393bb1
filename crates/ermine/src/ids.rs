//! Identifiers and stamps as types of their own, so that no two kinds of number can be mixed up.

use std::{fmt, sync::Arc};

/// A place in the total order of commits: an offset in the log (ERMIA 3.2).
///
/// A transaction that began at `b` sees what committed at a stamp strictly below `b`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Stamp(pub(crate) u64);

impl Stamp {
    /// Below every commit: the stamp of what was there before the first transaction.
    pub const ZERO: Self = Self(0);
    /// Of what was moved out of the log before the database was opened: below every commit since, above what was never there.
    pub(crate) const COLD: Self = Self(1);
    /// Above every commit: "not overwritten yet". Bit 63 is left free to tell stamps from TIDs in packed words.
    pub const INFINITY: Self = Self((1 << 63) - 1);

    /// The stamp as a number, for reports.
    pub fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A row of a table: its place in the table's indirection array (ERMIA's OID, 3.5).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct RowId(pub(crate) u64);

/// A running transaction: generation and slot in the TID table (ERMIA 3.4). Never zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Tid(pub(crate) u64);

impl fmt::Display for Tid {
    /// `slot.generation`, as it appears in conflict reports.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 & 0xffff, self.0 >> 16)
    }
}

/// A table of one database, in order of creation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TableId(pub(crate) u32);

impl TableId {
    /// The table as a number, for reports.
    pub fn as_u32(self) -> u32 {
        self.0
    }
}

/// The identity of an open database. Handles hold it, so no two databases of a process ever have the same.
#[derive(Clone, Debug)]
pub struct DatabaseId(Arc<()>);

impl DatabaseId {
    /// One that no other database has.
    pub(crate) fn new() -> Self {
        Self(Arc::new(()))
    }

    /// The word by which it is compared. The allocation lives as long as any holder of it, so its address is nobody else's meanwhile.
    #[inline]
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }
}

impl PartialEq for DatabaseId {
    fn eq(&self, other: &Self) -> bool {
        self.address() == other.address()
    }
}

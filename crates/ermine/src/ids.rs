//! Identifiers and stamps as types of their own, so that different kinds of numbers cannot be mixed up.

use std::{fmt, sync::Arc};

/// A place in the total order of commits: an offset in the log (ERMIA 3.2).
///
/// A transaction that began at `b` sees the commits at stamps strictly below `b`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Stamp(pub(crate) u64);

impl Stamp {
    /// Below every commit: the stamp of the state before the first transaction.
    pub const ZERO: Self = Self(0);
    /// Above every commit: "not overwritten yet". Bit 63 stays free to distinguish stamps from TIDs in packed words.
    pub const INFINITY: Self = Self((1 << 63) - 1);

    /// Returns the stamp as a number, for reports.
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
    /// Formats the TID as `slot.generation`, as it appears in conflict reports.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 & 0xffff, self.0 >> 16)
    }
}

impl Tid {
    /// Returns the number that stands for the transaction, for layers that carry it in types of their own.
    pub fn as_u64(self) -> u64 {
        self.0
    }

    /// Returns the transaction for a number that [`Tid::as_u64`] has returned.
    pub fn from_u64(number: u64) -> Self {
        Self(number)
    }
}

/// The number of a table in one database, in order of creation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TableId(pub(crate) u32);

impl TableId {
    /// The first number of tables that are in memory only; others have lower ones.
    pub(crate) const UNLOGGED: u32 = 1 << 20;

    /// Whether the table is in memory only: neither its entry in the catalog nor its rows are logged.
    #[inline]
    pub(crate) fn is_unlogged(self) -> bool {
        self.0 >= Self::UNLOGGED
    }

    /// Returns the number of the table, for reports.
    pub fn as_u32(self) -> u32 {
        self.0
    }
}

/// The identity of an open database. Handles hold it, so no two databases of a process ever have the same one.
#[derive(Clone, Debug)]
pub struct DatabaseId(Arc<()>);

impl DatabaseId {
    /// Returns an identity that no other database has.
    pub(crate) fn new() -> Self {
        Self(Arc::new(()))
    }

    /// Returns the word that identities are compared by. The allocation lives as long as any holder of it, so no other
    /// database has its address meanwhile.
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

/// The index of a table that a scan walks: the primary one (0) or the n-th secondary one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct IndexOrdinal(pub(crate) u16);

impl IndexOrdinal {
    /// The primary index.
    pub(crate) const PRIMARY: Self = Self(0);
}

//! The table: a fixed number of records, each a chain of committed versions and perhaps a write lock (SSN 4.1, Table
//! 1).
//!
//! A version is installed when its transaction commits; until then the record only names the transaction that writes
//! it. Versions are never freed: their numbers are their places in one array.

use std::ops::{Index, IndexMut};

/// A record of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordId(pub(crate) u32);

/// A committed version of some record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VersionId(pub(crate) u32);

impl VersionId {
    pub(crate) fn at(self) -> usize {
        self.0 as usize
    }
}

/// A place in the order of commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp(pub(crate) u32);

impl Stamp {
    pub(crate) const ZERO: Self = Self(0);
    pub(crate) const INFINITE: Self = Self(u32::MAX);

    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// The place of a transaction in flight; reused when it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot(pub(crate) u32);

impl Slot {
    pub(crate) fn at(self) -> usize {
        self.0 as usize
    }
}

/// The metadata of a version; certifiers own the last three.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Version {
    /// The version that it overwrote; itself if it was there from the beginning.
    prev: VersionId,
    /// c(V): the commit stamp of the transaction that created it.
    pub(crate) cstamp: Stamp,
    /// eta(V): the latest commit stamp of a transaction that read or created it.
    pub(crate) pstamp: Stamp,
    /// pi(V): under SSN, pi of the transaction that overwrote it; under SSI, the commit stamp of that transaction.
    pub(crate) sstamp: Stamp,
    /// SSI only: the commit stamp of the first transaction that overwrote a read of the transaction that overwrote it.
    pub(crate) s2: Stamp,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    latest: VersionId,
    /// The transaction in flight that has written it.
    writer: Option<Slot>,
    /// The transaction that waits to write it next.
    queued: Option<Slot>,
}

/// The records and their versions.
#[derive(Debug)]
pub(crate) struct Table {
    records: Vec<Record>,
    versions: Vec<Version>,
}

impl Table {
    /// A table whose records have one version each, as old as can be.
    pub(crate) fn new(records: u32) -> Self {
        let first = |id| Version {
            prev: VersionId(id),
            cstamp: Stamp::ZERO,
            pstamp: Stamp::ZERO,
            sstamp: Stamp::INFINITE,
            s2: Stamp::INFINITE,
        };
        Self {
            records: (0..records).map(|id| Record { latest: VersionId(id), writer: None, queued: None }).collect(),
            versions: (0..records).map(first).collect(),
        }
    }

    /// The newest committed version.
    pub(crate) fn latest(&self, record: RecordId) -> VersionId {
        self.records[record.0 as usize].latest
    }

    /// The newest version that was committed by `stamp`.
    pub(crate) fn as_of(&self, record: RecordId, stamp: Stamp) -> VersionId {
        let mut version = self.latest(record);
        while self[version].cstamp > stamp {
            version = self[version].prev;
        }
        version
    }

    /// The transaction in flight that has written the record.
    pub(crate) fn writer(&self, record: RecordId) -> Option<Slot> {
        self.records[record.0 as usize].writer
    }

    /// Names the transaction that writes the record, or none.
    pub(crate) fn set_writer(&mut self, record: RecordId, writer: Option<Slot>) {
        self.records[record.0 as usize].writer = writer;
    }

    /// The last transaction that has written the record or waits to write it.
    pub(crate) fn last_writer(&self, record: RecordId) -> Option<Slot> {
        let Record { writer, queued, .. } = self.records[record.0 as usize];
        queued.or(writer)
    }

    /// Names the transaction that waits to write the record, or none.
    pub(crate) fn set_queued(&mut self, record: RecordId, queued: Option<Slot>) {
        self.records[record.0 as usize].queued = queued;
    }

    /// Adds a version in front of the newest one; returns the overwritten one.
    pub(crate) fn install(&mut self, record: RecordId, cstamp: Stamp) -> VersionId {
        let id = VersionId(self.versions.len() as u32);
        let prev = std::mem::replace(&mut self.records[record.0 as usize].latest, id);
        let (pstamp, sstamp, s2) = (cstamp, Stamp::INFINITE, Stamp::INFINITE);
        self.versions.push(Version { prev, cstamp, pstamp, sstamp, s2 });
        prev
    }
}

impl Index<VersionId> for Table {
    type Output = Version;

    fn index(&self, version: VersionId) -> &Version {
        &self.versions[version.at()]
    }
}

impl IndexMut<VersionId> for Table {
    fn index_mut(&mut self, version: VersionId) -> &mut Version {
        &mut self.versions[version.at()]
    }
}

//! A table inside the engine: its primary index, its rows, its secondary indexes.
//!
//! Keys and values are bytes here; the typed handles encode them. The primary index maps key -> RowId; a secondary index
//! maps (secondary key, primary key) -> RowId, and whoever follows an entry checks the key against the version it sees
//! (an entry may be older or newer than the reader's snapshot).

use std::{
    any::TypeId,
    iter,
    sync::{Arc, OnceLock},
};

use crate::{
    access::IndexOrdinal,
    database::Uniqueness,
    epoch::Guard,
    error::{Error, Result},
    ids::{RowId, TableId},
    index::Index,
    options::Options,
    rows::{
        array::RowArray,
        chain::{CertifierStamps, Kind, VersionPtr},
    },
    scheme::{escalation::TableReaders, staleness::Staleness},
    sync::{AtomicUsize, Ordering},
    types::KeyBuffer,
};

/// Secondary indexes that a table can have.
const SECONDARIES_MAX: usize = 16;

/// Appends the secondary key of a row, given its primary key and value.
pub(crate) type Extract = Box<dyn Fn(&[u8], &[u8], &mut KeyBuffer) -> Result<()> + Send + Sync>;

/// A secondary index and how its keys are found.
pub(crate) struct Secondary {
    pub(crate) name: Arc<str>,
    pub(crate) uniqueness: Uniqueness,
    pub(crate) entries: Index,
    pub(crate) extract: Extract,
    /// Length of the secondary key at the front of an entry.
    pub(crate) secondary_length: fn(&[u8]) -> Result<usize>,
    pub(crate) key_type: TypeId,
}

impl Secondary {
    /// Writes the entry of a row into `entry`; gives the length of its secondary key.
    pub(crate) fn entry_of(&self, key: &[u8], value: &[u8], entry: &mut KeyBuffer) -> Result<usize> {
        entry.clear();
        (self.extract)(key, value, entry)?;
        let length = entry.len();
        entry.extend_from_slice(key);
        Ok(length)
    }

    /// Whether `value`, under the primary key at the end of `entry`, belongs to that entry.
    pub(crate) fn matches(&self, entry: &[u8], value: &[u8]) -> Result<bool> {
        let key = &entry[(self.secondary_length)(entry)?..];
        let mut expected = KeyBuffer::new();
        self.entry_of(key, value, &mut expected)?;
        Ok(expected[..] == *entry)
    }
}

/// A table's parts.
pub(crate) struct TableStore<H> {
    pub(crate) id: TableId,
    pub(crate) name: Arc<str>,
    /// The types of its keys and values.
    pub(crate) types: [TypeId; 2],
    pub(crate) primary: Index,
    pub(crate) rows: RowArray<H>,
    /// From when on reads of its versions are not tracked.
    pub(crate) staleness: Staleness,
    /// Who reads all of it.
    pub(crate) readers: Arc<TableReaders>,
    /// In order of creation; read by every write, so without a lock and in few instructions.
    secondaries: [OnceLock<Secondary>; SECONDARIES_MAX],
    secondary_count: AtomicUsize,
}

impl<H: CertifierStamps> TableStore<H> {
    /// An empty table.
    pub(crate) fn new(id: TableId, name: &str, types: [TypeId; 2], options: &Options) -> Result<Self> {
        Ok(Self {
            id,
            name: name.into(),
            types,
            primary: Index::new(),
            rows: RowArray::reserve()?,
            staleness: Staleness::new(options.stale_after, options.escalate_after),
            readers: Arc::new(TableReaders::new(options.escalate_after)),
            secondaries: Default::default(),
            secondary_count: AtomicUsize::new(0),
        })
    }

    /// One of its indexes.
    pub(crate) fn index(&self, ordinal: IndexOrdinal) -> &Index {
        match ordinal {
            IndexOrdinal::PRIMARY => &self.primary,
            _ => &self.secondary(ordinal).entries,
        }
    }

    /// One of its secondary indexes.
    pub(crate) fn secondary(&self, ordinal: IndexOrdinal) -> &Secondary {
        self.secondaries[ordinal.0 as usize - 1].get().expect("an ordinal is handed out after its index is there")
    }

    /// Its secondary indexes in order of creation.
    pub(crate) fn secondaries(&self) -> impl Iterator<Item = (IndexOrdinal, &Secondary)> {
        // Acquire: pairs with `add_secondary`.
        let ordinals = 1..=self.secondary_count.load(Ordering::Acquire) as u16;
        ordinals.map(|ordinal| (IndexOrdinal(ordinal), self.secondary(IndexOrdinal(ordinal))))
    }

    /// Adds a secondary index. One caller at a time; no row is there yet.
    pub(crate) fn add_secondary(&self, secondary: Secondary) -> Result<IndexOrdinal> {
        let at = self.secondary_count.load(Ordering::Relaxed);
        let place = self.secondaries.get(at).ok_or(Error::Limit("16 secondary indexes of one table"))?;
        assert!(place.set(secondary).is_ok(), "indexes are added one at a time");
        // Release: pairs with `secondaries`.
        self.secondary_count.store(at + 1, Ordering::Release);
        Ok(IndexOrdinal(at as u16 + 1))
    }

    /// Bytes of its indexes; walks over all of them.
    pub(crate) fn index_bytes(&self, nodes: &Guard<'_>) -> u64 {
        let secondaries = self.secondaries().map(|(_, secondary)| &secondary.entries);
        secondaries.chain([&self.primary]).map(|index| index.footprint(nodes).bytes() as u64).sum()
    }

    /// Starts loading the newest versions of rows, side by side.
    pub(crate) fn prefetch_versions(&self, rows: impl Iterator<Item = RowId>) {
        rows.filter_map(|row| self.rows.slot(row).head()).for_each(VersionPtr::prefetch);
    }

    /// Whether any version of a row, also one in flight, belongs to an entry. The row's versions must be protected by
    /// the caller's guard.
    pub(crate) fn any_version_matches(&self, row: RowId, ordinal: IndexOrdinal, entry: &[u8]) -> bool {
        let mut versions = iter::successors(self.rows.slot(row).head(), |version| version.older());
        versions.any(|version| self.version_matches(version, ordinal, entry))
    }

    /// Whether a version belongs to an entry. It must be protected by the caller's guard.
    pub(crate) fn version_matches(&self, version: VersionPtr<H>, ordinal: IndexOrdinal, entry: &[u8]) -> bool {
        // What cannot be decoded is taken for a match: the entry stays.
        let matches = || self.secondary(ordinal).matches(entry, version.payload(&version)).unwrap_or(true);
        version.kind() == Kind::Live && matches()
    }
}

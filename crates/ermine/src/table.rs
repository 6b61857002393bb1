//! A table inside the engine: its primary index, its rows, its secondary indexes.
//!
//! Keys and values are bytes here; the typed handles encode them. The primary index maps key -> RowId; a secondary
//! index maps (secondary key, primary key) -> RowId, and a reader that follows an entry checks the key against the
//! version that it sees (an entry may be older or newer than the reader's snapshot).

use std::{
    any::TypeId,
    iter,
    sync::{Arc, OnceLock},
};

use smallvec::SmallVec;

use crate::{
    catalog::{CATALOG, IndexEntry, TableEntry, ValueLayouts},
    epoch::Guard,
    error::{Error, Result},
    ids::{IndexOrdinal, RowId, TableId},
    index::Index,
    inside,
    options::{Options, Uniqueness},
    partition::PartitionOf,
    platform::budget::{Budget, Need},
    rows::{
        arena::Arena,
        array::{RowArray, Slot},
        chain::{CertifierStamps, Kind, RowSlot, VersionPtr},
        in_place::{Control, RecordPtr, RecordSlot},
    },
    scheme::{escalation::TableReaders, in_place::Reach, staleness::Staleness},
    sync::{AtomicUsize, Mutex, Ordering},
    types::KeyBuffer,
};

/// Maximum number of secondary indexes of a table.
const SECONDARIES_MAX: usize = 16;

/// Appends the secondary key of a row, given its primary key and value.
pub(crate) type Extract = Box<dyn Fn(&[u8], &[u8], &mut KeyBuffer) -> Result<()> + Send + Sync>;

/// Computes and delimits the keys of a secondary index.
pub(crate) struct KeyOf {
    pub(crate) extract: Extract,
    /// Returns the length of the secondary key at the front of an entry.
    pub(crate) secondary_length: fn(&[u8]) -> Result<usize>,
    pub(crate) key_type: TypeId,
}

/// A secondary index.
pub(crate) struct Secondary {
    pub(crate) name: Arc<str>,
    pub(crate) uniqueness: Uniqueness,
    pub(crate) key_type_name: String,
    pub(crate) version: u32,
    pub(crate) entries: Index,
    /// The rows that had no entry when the database was opened: 0, unless something lost them.
    pub(crate) missing: u64,
    /// Missing in a database that was opened again, until the application opens the index.
    key_of: OnceLock<KeyOf>,
}

impl Secondary {
    pub(crate) fn new(entry: &IndexEntry, entries: Index, key_of: Option<KeyOf>) -> Self {
        let IndexEntry { name, uniqueness, key_type, version, .. } = entry;
        let key_of = key_of.map_or_else(OnceLock::new, OnceLock::from);
        let (name, key_type_name) = ((**name).into(), key_type.clone());
        Self { name, uniqueness: *uniqueness, key_type_name, version: *version, entries, missing: 0, key_of }
    }

    /// The same index, known to have no entries of so many rows.
    pub(crate) fn lacking(self, missing: u64) -> Self {
        Self { missing, ..self }
    }

    /// Returns the catalog's entry for the index.
    pub(crate) fn entry(&self) -> IndexEntry {
        let (name, key_type) = (self.name.to_string(), self.key_type_name.clone());
        let (uniqueness, version, kind) = (self.uniqueness, self.version, self.entries.kind());
        IndexEntry { name, uniqueness, key_type, version, kind }
    }

    /// Returns whether the index can be kept up to date.
    pub(crate) fn is_attached(&self) -> bool {
        self.key_of.get().is_some()
    }

    fn key_of(&self) -> Result<&KeyOf> {
        self.key_of.get().ok_or_else(|| {
            Error::Schema(format!("index {} has not been opened since the database was: open it first", self.name))
        })
    }

    /// Writes the entry of a row into `entry`; returns the length of its secondary key.
    pub(crate) fn entry_of(&self, key: &[u8], value: &[u8], entry: &mut KeyBuffer) -> Result<usize> {
        entry.clear();
        let extract = &self.key_of()?.extract;
        let extracted = inside::key_function(|| extract(key, value, entry));
        let name = &self.name;
        extracted.unwrap_or_else(|panic| Err(Error::KeyFunction { index: name.clone(), panic: panic.into() }))?;
        let length = entry.len();
        entry.extend_from_slice(key);
        Ok(length)
    }

    /// Returns the primary key at the end of an entry.
    pub(crate) fn primary_key<'e>(&self, entry: &'e [u8]) -> Result<&'e [u8]> {
        Ok(&entry[(self.key_of()?.secondary_length)(entry)?..])
    }

    /// Returns whether `value`, under the primary key at the end of `entry`, belongs to that entry.
    pub(crate) fn matches(&self, entry: &[u8], value: &[u8]) -> Result<bool> {
        let key = self.primary_key(entry)?;
        let mut expected = KeyBuffer::new();
        self.entry_of(key, value, &mut expected)?;
        Ok(expected[..] == *entry)
    }
}

/// The entry that a write adds to one index, where the row's entry differs from its previous one.
pub(crate) struct NewEntry {
    pub(crate) index: IndexOrdinal,
    pub(crate) key: KeyBuffer,
    /// Length of the secondary key at the front of `key`.
    pub(crate) secondary_length: usize,
    pub(crate) unique: bool,
}

/// The new entries of one write. Most writes have none.
pub(crate) type NewEntries = SmallVec<[NewEntry; 2]>;

/// The data that a storage family keeps of a table.
pub(crate) trait Family: Slot {
    /// The data besides the rows.
    type Beside: Send + Sync;

    fn beside(options: &Options) -> Self::Beside;

    /// Frees the memory of a row; returns whether the row was in a file only.
    ///
    /// # Safety
    /// No other thread can access the row any more.
    unsafe fn clear(&self, arena: &mut Arena) -> bool;
}

/// A table whose rows have versions.
pub(crate) type TableStore<H> = TableParts<RowSlot<H>>;

/// The data that the certifiers of rows with versions keep of a table.
pub(crate) struct Tracking {
    /// The age from which on reads of the table's versions are not tracked.
    pub(crate) staleness: Staleness,
    /// The transactions that read the whole table.
    pub(crate) readers: Arc<TableReaders>,
}

impl<H: CertifierStamps> Family for RowSlot<H> {
    type Beside = Tracking;

    fn beside(options: &Options) -> Tracking {
        let staleness = Staleness::new(options.stale_after, options.escalate_after);
        Tracking { staleness, readers: Arc::new(TableReaders::new(options.escalate_after)) }
    }

    unsafe fn clear(&self, arena: &mut Arena) -> bool {
        let mut next = self.head();
        while let Some(version) = next {
            next = version.older();
            // SAFETY: a version in a chain is in no other list of garbage, and no thread walks the chain, as the caller
            // guarantees.
            unsafe { version.destroy(arena) };
        }
        self.stored().is_some()
    }
}

impl<C: Control> Family for RecordSlot<C> {
    type Beside = ();

    fn beside(_: &Options) {}

    unsafe fn clear(&self, arena: &mut Arena) -> bool {
        if let Some(record) = self.record() {
            // SAFETY: a record in a slot is in no list of garbage, and no thread accesses it, as the caller guarantees.
            unsafe { record.destroy(arena) };
        }
        false
    }
}

/// The parts of a table.
pub(crate) struct TableParts<F: Family> {
    pub(crate) id: TableId,
    name: Mutex<Arc<str>>,
    /// 1 if the table was dropped.
    dropped: AtomicUsize,
    /// The types of the table's keys and values, by name; and the types themselves, once the application has opened the
    /// table.
    pub(crate) type_names: [String; 2],
    /// The known layouts of the values' bytes.
    pub(crate) layouts: Mutex<ValueLayouts>,
    pub(crate) types: OnceLock<[TypeId; 2]>,
    /// The function from a row to its partition, where the application has provided one.
    pub(crate) partition: OnceLock<PartitionOf>,
    /// Set if the table's rows may take memory from the reserve.
    is_essential: OnceLock<()>,
    pub(crate) primary: Index,
    pub(crate) rows: RowArray<F>,
    pub(crate) beside: F::Beside,
    /// In order of creation. Every write reads them, so they need no lock and few instructions.
    secondaries: [OnceLock<Secondary>; SECONDARIES_MAX],
    secondary_count: AtomicUsize,
    /// Number of secondary indexes that the application has opened.
    attached_count: AtomicUsize,
}

impl<F: Family> TableParts<F> {
    /// Creates an empty table.
    pub(crate) fn new(entry: &TableEntry, options: &Options, budget: &Arc<Budget>) -> Self {
        Self::with_rows(entry, RowArray::new(budget), Index::new(entry.kind), options)
    }

    /// Creates a table with rows, without its secondary indexes.
    pub(crate) fn with_rows(entry: &TableEntry, rows: RowArray<F>, primary: Index, options: &Options) -> Self {
        Self {
            id: entry.id,
            name: Mutex::new((*entry.name).into()),
            dropped: AtomicUsize::new(0),
            type_names: [entry.key_type.clone(), entry.value_type.clone()],
            layouts: Mutex::new(entry.layouts.clone()),
            types: OnceLock::new(),
            partition: OnceLock::new(),
            is_essential: if entry.id == CATALOG { OnceLock::from(()) } else { OnceLock::new() },
            primary,
            rows,
            beside: F::beside(options),
            secondaries: Default::default(),
            secondary_count: AtomicUsize::new(0),
            attached_count: AtomicUsize::new(0),
        }
    }

    /// Returns the table's name, for messages and the schema.
    pub(crate) fn name(&self) -> Arc<str> {
        self.name.lock().expect("no code panics while it holds the name").clone()
    }

    /// Renames the table.
    pub(crate) fn rename(&self, name: &str) {
        *self.name.lock().expect("no code panics while it holds the name") = name.into();
    }

    /// Returns whether the table was dropped: operations that begin afterwards must not see it.
    #[inline]
    pub(crate) fn is_dropped(&self) -> bool {
        // Acquire: pairs with `set_dropped`.
        self.dropped.load(Ordering::Acquire) != 0
    }

    pub(crate) fn set_dropped(&self) {
        self.dropped.store(1, Ordering::Release);
    }

    /// Frees the memory of all rows; returns how many of them were in files only.
    ///
    /// # Safety
    /// The table was dropped, and no transaction or walk that could reach its rows runs any more.
    pub(crate) unsafe fn clear(&self, arena: &mut Arena) -> u64 {
        // SAFETY: as the caller guarantees.
        (0..self.rows.count()).map(|row| u64::from(unsafe { F::clear(self.rows.slot(RowId(row)), arena) })).sum()
    }

    /// Allows the table's rows to take memory from the reserve from now on.
    pub(crate) fn be_essential(&self) {
        self.is_essential.get_or_init(|| ());
    }

    /// Returns the purpose for which a value of the table needs memory.
    #[inline]
    pub(crate) fn need(&self) -> Need {
        if self.is_essential.get().is_some() { Need::Work } else { Need::Grow }
    }

    /// Returns an index of the table.
    pub(crate) fn index(&self, ordinal: IndexOrdinal) -> &Index {
        match ordinal {
            IndexOrdinal::PRIMARY => &self.primary,
            _ => &self.secondary(ordinal).entries,
        }
    }

    /// Fails where an index cannot be scanned.
    pub(crate) fn check_ordered(&self, ordinal: IndexOrdinal) -> Result<()> {
        if self.index(ordinal).kind().is_ordered() {
            return Ok(());
        }
        let name = self.name();
        Err(Error::Schema(format!("table {name} has a hash index, which has no order: it cannot be scanned")))
    }

    /// Returns the reach of a lookup of a key, or of a write.
    pub(crate) fn reach_of_key(&self, key: &[u8], writes: bool) -> Result<Reach> {
        match self.partition.get() {
            Some(partition) => partition.of_key(key).map(Reach::Partition),
            None if writes => Ok(Reach::Everything),
            None => Ok(Reach::Common),
        }
    }

    /// Returns the reach of a scan of a range.
    pub(crate) fn reach_of_range(&self, index: IndexOrdinal, lower: &[u8], upper: Option<&[u8]>) -> Reach {
        let Some(partition) = self.partition.get() else { return Reach::Common };
        let known = index == IndexOrdinal::PRIMARY || partition.indexes_alike;
        let one = if known { partition.of_range(lower, upper) } else { None };
        one.map_or(Reach::Everything, Reach::Partition)
    }

    /// Returns a secondary index of the table.
    pub(crate) fn secondary(&self, ordinal: IndexOrdinal) -> &Secondary {
        self.secondaries[ordinal.0 as usize - 1].get().expect("an ordinal is handed out after its index is there")
    }

    /// Returns the secondary indexes in order of creation.
    pub(crate) fn secondaries(&self) -> impl Iterator<Item = (IndexOrdinal, &Secondary)> {
        // Acquire: pairs with `add_secondary`.
        let ordinals = 1..=self.secondary_count.load(Ordering::Acquire) as u16;
        ordinals.map(|ordinal| (IndexOrdinal(ordinal), self.secondary(IndexOrdinal(ordinal))))
    }

    /// Returns whether the table has secondary indexes.
    #[inline]
    pub(crate) fn has_secondaries(&self) -> bool {
        self.secondary_count.load(Ordering::Acquire) > 0
    }

    /// Adds a secondary index. One caller at a time; the table has no rows yet, or none that the index lacks.
    pub(crate) fn add_secondary(&self, secondary: Secondary) -> Result<IndexOrdinal> {
        let at = self.secondary_count.load(Ordering::Relaxed);
        let place = self.secondaries.get(at).ok_or(Error::Limit("16 secondary indexes of one table"))?;
        // Counted before the index becomes visible: the table counts as writable no later than that.
        self.attached_count.fetch_add(usize::from(secondary.is_attached()), Ordering::Release);
        assert!(place.set(secondary).is_ok(), "indexes are added one at a time");
        // Release: pairs with `secondaries`.
        self.secondary_count.store(at + 1, Ordering::Release);
        Ok(IndexOrdinal(at as u16 + 1))
    }

    /// Notes that the application has opened an index; returns the type of its keys. One caller at a time.
    pub(crate) fn attach(&self, ordinal: IndexOrdinal, key_of: KeyOf) -> TypeId {
        let secondary = self.secondary(ordinal);
        let is_new = !secondary.is_attached();
        let key_type = secondary.key_of.get_or_init(|| key_of).key_type;
        // Release: pairs with `check_writable`.
        self.attached_count.fetch_add(usize::from(is_new), Ordering::Release);
        key_type
    }

    /// Returns the entries that a row needs under `value` and did not have under the value `before`.
    pub(crate) fn new_entries(&self, key: &[u8], before: Option<&[u8]>, value: Option<&[u8]>) -> Result<NewEntries> {
        let mut entries = NewEntries::new();
        let Some(value) = value else { return Ok(entries) };
        let mut old = KeyBuffer::new();
        for (index, secondary) in self.secondaries() {
            let mut entry = KeyBuffer::new();
            let secondary_length = secondary.entry_of(key, value, &mut entry)?;
            if entry.len() > crate::MAX_KEY_BYTES {
                return Err(Error::KeyTooLong { bytes: entry.len() });
            }
            if let Some(before) = before {
                secondary.entry_of(key, before, &mut old)?;
                if old == entry {
                    continue;
                }
            }
            if let Some(partition) = self.partition.get().filter(|partition| partition.indexes_alike)
                && partition.of_key(&entry)? != partition.of_key(key)?
            {
                let (table, index) = (self.name(), &secondary.name);
                return Err(Error::Schema(format!(
                    "table {table} has partitions, and keys of its index {index} do not begin with what decides them: use \
                     TableOptions::indexes_apart"
                )));
            }
            entries.push(NewEntry { index, key: entry, secondary_length, unique: secondary.uniqueness.is_unique() });
        }
        Ok(entries)
    }

    /// Calls `visit` with each index in which a row's entry under `value` differs from its entry under `before`, and
    /// with both entries.
    pub(crate) fn changed_entries(
        &self,
        key: &[u8],
        before: Option<&[u8]>,
        value: Option<&[u8]>,
        mut visit: impl FnMut(IndexOrdinal, Option<&[u8]>, Option<&[u8]>),
    ) -> Result<()> {
        for (index, secondary) in self.secondaries() {
            let entry_of = |value: Option<&[u8]>| -> Result<Option<KeyBuffer>> {
                let mut entry = KeyBuffer::new();
                value.map(|value| secondary.entry_of(key, value, &mut entry)).transpose()?;
                Ok(value.is_some().then_some(entry))
            };
            let (old, new) = (entry_of(before)?, entry_of(value)?);
            if old != new {
                visit(index, old.as_deref(), new.as_deref());
            }
        }
        Ok(())
    }

    /// Returns the table's entry for the catalog.
    pub(crate) fn catalog_entry(&self) -> TableEntry {
        let [key_type, value_type] = self.type_names.clone();
        let indexes = self.secondaries().map(|(_, secondary)| secondary.entry()).collect();
        let layouts = self.layouts.lock().expect("no code panics while it holds the layouts").clone();
        let (name, kind) = (self.name().to_string(), self.primary.kind());
        TableEntry { id: self.id, name, key_type, value_type, layouts, kind, indexes }
    }

    /// Fails while an index could not be kept up to date.
    #[inline]
    pub(crate) fn check_writable(&self) -> Result<()> {
        // Acquire: pairs with `attach`.
        if self.attached_count.load(Ordering::Acquire) == self.secondary_count.load(Ordering::Relaxed) {
            return Ok(());
        }
        let missing = self.secondaries().find(|(_, secondary)| !secondary.is_attached());
        missing.map_or(Ok(()), |(_, secondary)| {
            let (table, index) = (self.name(), &secondary.name);
            Err(Error::Schema(format!("table {table} cannot be written before its index {index} has been opened")))
        })
    }

    /// Returns the bytes of the table's indexes; walks over all of them.
    pub(crate) fn index_bytes(&self, nodes: &Guard<'_>) -> u64 {
        let secondaries = self.secondaries().map(|(_, secondary)| &secondary.entries);
        secondaries.chain([&self.primary]).map(|index| index.footprint(nodes).bytes() as u64).sum()
    }
}

impl<C: Control> TableParts<RecordSlot<C>> {
    /// Prefetches the records of rows, in parallel.
    #[inline]
    pub(crate) fn prefetch_records(&self, rows: impl Iterator<Item = RowId>) {
        rows.filter_map(|row| self.rows.slot(row).record()).for_each(RecordPtr::prefetch);
    }
}

impl<H: CertifierStamps> TableStore<H> {
    /// Prefetches the newest versions of rows, in parallel.
    pub(crate) fn prefetch_versions(&self, rows: impl Iterator<Item = RowId>) {
        rows.filter_map(|row| self.rows.slot(row).head()).for_each(VersionPtr::prefetch);
    }

    /// Returns whether any version of a row, including one in flight, belongs to an entry. The row's versions must be
    /// protected by the caller's guard.
    pub(crate) fn any_version_matches(&self, row: RowId, ordinal: IndexOrdinal, entry: &[u8]) -> bool {
        let mut versions = iter::successors(self.rows.slot(row).head(), |version| version.older());
        versions.any(|version| self.version_matches(version, ordinal, entry))
    }

    /// Returns whether a version belongs to an entry. The version must be protected by the caller's guard.
    pub(crate) fn version_matches(&self, version: VersionPtr<H>, ordinal: IndexOrdinal, entry: &[u8]) -> bool {
        // A value that cannot be decoded, or that makes the key function panic, is taken for a match: the entry stays.
        let matches = || self.secondary(ordinal).matches(entry, version.payload(&version)).unwrap_or(true);
        version.kind() == Kind::Live && matches()
    }
}

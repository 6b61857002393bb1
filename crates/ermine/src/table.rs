//! A table inside the engine: its primary index, its rows, its secondary indexes.
//!
//! Keys and values are bytes here; the typed handles encode them. The primary index maps key -> RowId; a secondary
//! index maps (secondary key, primary key) -> RowId, and a reader that follows an entry checks the key against the
//! version that it sees (an entry may be older or newer than the reader's snapshot).
//!
//! Secondary indexes have ordinals in the order of their creation. Those up to [`TableParts::finished`] are complete,
//! and stay. One more may be under construction (`index_build`): writers maintain it, and nothing of it is logged.

use std::{
    any::TypeId,
    cell::UnsafeCell,
    iter,
    ops::Range,
    sync::{Arc, OnceLock},
};

use smallvec::SmallVec;

use crate::{
    catalog::{CATALOG, IndexEntry, TableEntry, ValueLayouts},
    epoch::Guard,
    error::{Error, Result},
    ids::{IndexOrdinal, RowId, Stamp, TableId},
    index::{Approach, Index, Lookup},
    inside,
    options::{Options, Uniqueness},
    partition::PartitionOf,
    platform::budget::{Budget, Need},
    rows::{
        arena::Arena,
        array::{RowArray, Slot},
        chain::{CertifierStamps, Kind, Origin, RowSlot, SlotContent, VersionPtr},
        in_place::{Control, RecordPtr, RecordSlot},
    },
    scheme::{escalation::TableReaders, in_place::Reach, staleness::Staleness},
    sync::{AtomicU64, AtomicUsize, Mutex, Ordering},
    table_name::TableName,
    types::{KeyBuffer, KeyList},
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
    /// The rows that had no entry when the database was opened: 0, unless the index was built over rows, or something
    /// lost them.
    pub(crate) missing: u64,
    /// Whether the index was built over rows: the files may have no entries of them ([`IndexEntry::built`]).
    built: AtomicUsize,
    /// Versions that were superseded below this stamp have no entry: none, unless the index was built over rows.
    filled_at: AtomicU64,
    /// Snapshots below this stamp may have rows without an entry. `filled_at <= usable_from`, and every operation that
    /// loaded an earlier `filled_at` has ended at this stamp.
    usable_from: AtomicU64,
    /// Missing in a database that was opened again, until the application opens the index.
    key_of: OnceLock<KeyOf>,
}

impl Secondary {
    pub(crate) fn new(entry: &IndexEntry, entries: Index, key_of: Option<KeyOf>) -> Self {
        let IndexEntry { name, uniqueness, key_type, version, built, .. } = entry;
        Self {
            name: (**name).into(),
            uniqueness: *uniqueness,
            key_type_name: key_type.clone(),
            version: *version,
            entries,
            missing: 0,
            built: AtomicUsize::new(usize::from(*built)),
            filled_at: AtomicU64::new(0),
            usable_from: AtomicU64::new(0),
            key_of: key_of.map_or_else(OnceLock::new, OnceLock::from),
        }
    }

    /// The same index, which has been recovered without entries of so many rows of a table.
    pub(crate) fn lacking(self, missing: u64, table: &str) -> Self {
        let level = if self.entry().built { ::log::Level::Info } else { ::log::Level::Error };
        if missing > 0 {
            let name = &self.name;
            ::log::log!(
                level,
                "index {name} of table {table} has no entry of {missing} rows: they are added when the application \
                 opens the index"
            );
        }
        Self { missing, ..self }
    }

    /// Returns the catalog's entry for the index.
    pub(crate) fn entry(&self) -> IndexEntry {
        let (name, key_type) = (self.name.to_string(), self.key_type_name.clone());
        let (uniqueness, version, kind) = (self.uniqueness, self.version, self.entries.kind());
        // Relaxed: the lock of the schema orders it.
        let built = self.built.load(Ordering::Relaxed) != 0;
        IndexEntry { name, uniqueness, key_type, version, kind, built }
    }

    /// Notes that the index was built over rows. The caller has locked the schema.
    pub(crate) fn set_built(&self) {
        self.built.store(1, Ordering::Relaxed);
    }

    /// Begins to build the index: no snapshot can use it yet.
    pub(crate) fn begin_build(&self) {
        self.set_usable_from(Stamp::INFINITY);
        self.set_filled_at(Stamp::INFINITY);
    }

    /// Notes that all rows have their entries, but for the versions that were superseded below `stamp`.
    pub(crate) fn set_filled_at(&self, stamp: Stamp) {
        // Release: pairs with `filled_at`.
        self.filled_at.store(stamp.0, Ordering::Release);
    }

    fn filled_at(&self) -> Stamp {
        // Acquire: pairs with `set_filled_at`. An operation that loads an earlier value ends before snapshots can use
        // the index.
        Stamp(self.filled_at.load(Ordering::Acquire))
    }

    /// Limits the index to snapshots from `stamp` on.
    pub(crate) fn set_usable_from(&self, stamp: Stamp) {
        // Release: pairs with `usable_from`. The handle of the index is made later.
        self.usable_from.store(stamp.0, Ordering::Release);
    }

    fn usable_from(&self) -> Stamp {
        // Acquire: pairs with `set_usable_from`.
        Stamp(self.usable_from.load(Ordering::Acquire))
    }

    /// Fails for a transaction that reads the snapshot at `begin` if that may have rows without an entry.
    pub(crate) fn check_snapshot(&self, begin: Stamp) -> Result<()> {
        if begin >= self.usable_from() {
            return Ok(());
        }
        Err(Error::Schema(format!(
            "index {} was built after the snapshot of this transaction: use it in a transaction that begins now",
            self.name
        )))
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
    /// Whether the log needs the entry: not while the index is being built.
    pub(crate) is_logged: bool,
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

    /// Starts loading the newest version, or the record, from memory; returns whether it is in a file only.
    fn prefetch_newest(&self) -> bool;
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
        let mut next = match self.peek() {
            SlotContent::Head(head) => Some(head),
            SlotContent::Stored(_) => return true,
            SlotContent::Empty => None,
        };
        while let Some(version) = next {
            next = version.older();
            // SAFETY: a version in a chain is in no other list of garbage, and no thread walks the chain, as the caller
            // guarantees.
            unsafe { version.destroy(arena) };
        }
        false
    }

    #[inline]
    fn prefetch_newest(&self) -> bool {
        match self.peek() {
            SlotContent::Head(head) => head.prefetch(),
            SlotContent::Stored(_) => return true,
            SlotContent::Empty => {}
        }
        false
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

    #[inline]
    fn prefetch_newest(&self) -> bool {
        self.record().into_iter().for_each(RecordPtr::prefetch);
        false
    }
}

/// The secondary indexes that writers maintain at one moment: their number, and how often it has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IndexSet(u64);

impl IndexSet {
    const COUNT_BITS: u32 = 8;

    fn count(self) -> usize {
        (self.0 & ((1 << Self::COUNT_BITS) - 1)) as usize
    }

    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.count() == 0
    }

    /// Returns the next set, with so many indexes.
    fn with(self, count: usize) -> Self {
        Self((self.0 >> Self::COUNT_BITS).wrapping_add(1) << Self::COUNT_BITS | count as u64)
    }
}

const _: () = assert!(SECONDARIES_MAX < 1 << IndexSet::COUNT_BITS);

/// The place of a secondary index.
#[derive(Default)]
struct SecondarySlot(UnsafeCell<Option<Secondary>>);

// SAFETY: a slot is written only while no other thread reads it: before its index is announced, and when every
// transaction that could know a withdrawn index has ended.
unsafe impl Sync for SecondarySlot {}

/// The parts of a table.
pub(crate) struct TableParts<F: Family> {
    pub(crate) id: TableId,
    name: Mutex<TableName>,
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
    /// Set if a transaction that has written to other tables, too, has written rows of this one, which is in memory
    /// only.
    is_beside_logged: AtomicUsize,
    /// Set if the table's rows may take memory from the reserve.
    is_essential: OnceLock<()>,
    /// Set if they do not leave memory.
    is_kept_in_memory: OnceLock<()>,
    pub(crate) primary: Index,
    pub(crate) rows: RowArray<F>,
    pub(crate) beside: F::Beside,
    /// In order of creation. Every write reads them, so they need no lock and few instructions.
    secondaries: [SecondarySlot; SECONDARIES_MAX],
    /// An [`IndexSet`].
    index_set: AtomicU64,
    /// Number of secondary indexes that the application has not opened since the database was.
    unattached_count: AtomicUsize,
    /// Number of secondary indexes that are complete; at most one more is being built.
    finished_count: AtomicUsize,
    /// Number of secondary indexes that checkpoints have: every transaction has ended that changed rows and did not log
    /// the entries.
    settled_count: AtomicUsize,
    /// Held while an index is being built.
    pub(crate) building: Mutex<()>,
}

/// Number of lookups that run interleaved: each loads one leaf at a time, and the processor supports no more loads in
/// parallel.
pub(crate) const SIDE_BY_SIDE: usize = 16;

impl<F: Family> TableParts<F> {
    /// Starts loading the newest versions or records of rows from memory, in parallel; returns whether any of them is in
    /// a file only.
    #[inline]
    pub(crate) fn prefetch_newest(&self, rows: impl Iterator<Item = RowId>) -> bool {
        rows.fold(false, |is_cold, row| is_cold | self.rows.slot(row).prefetch_newest())
    }

    /// Finds the rows of a group of keys side by side, and starts loading their newest versions or records; returns
    /// whether any of those is in a file only, too.
    #[inline]
    pub(crate) fn look_up(
        &self,
        nodes: &Guard<'_>,
        keys: &KeyList,
        group: Range<usize>,
    ) -> (SmallVec<[Lookup; SIDE_BY_SIDE]>, bool) {
        let index = &self.primary;
        let approaches: SmallVec<[Approach<'_>; SIDE_BY_SIDE]> =
            group.clone().map(|at| index.approach(nodes, keys.key(at))).collect();
        let mut lookups = SmallVec::new();
        for (at, approach) in group.zip(approaches) {
            let lookup = index.arrive(nodes, keys.key(at), approach);
            lookup.row.inspect(|&row| self.rows.prefetch(row));
            lookups.push(lookup);
        }
        let is_cold = self.prefetch_newest(lookups.iter().filter_map(|lookup: &Lookup| lookup.row));
        (lookups, is_cold)
    }

    /// Starts loading the rows under several keys from memory; does nothing if a key is longer than the index permits.
    /// Returns whether any of the rows is in a file only.
    pub(crate) fn prefetch(&self, nodes: &Guard<'_>, keys: &KeyList) -> bool {
        if (0..keys.len()).any(|at| keys.key(at).len() > crate::MAX_KEY_BYTES) {
            return false;
        }
        let groups = (0..keys.len()).step_by(SIDE_BY_SIDE);
        groups.fold(false, |is_cold, first| {
            is_cold | self.look_up(nodes, keys, first..keys.len().min(first + SIDE_BY_SIDE)).1
        })
    }

    /// Creates an empty table.
    pub(crate) fn new(entry: &TableEntry, options: &Options, budget: &Arc<Budget>) -> Self {
        Self::with_rows(entry, RowArray::new(budget), Index::new(entry.kind), options)
    }

    /// Creates a table with rows, without its secondary indexes.
    pub(crate) fn with_rows(entry: &TableEntry, rows: RowArray<F>, primary: Index, options: &Options) -> Self {
        Self {
            id: entry.id,
            name: Mutex::new(TableName::new(&entry.name, &entry.key_type)),
            dropped: AtomicUsize::new(0),
            type_names: [entry.key_type.clone(), entry.value_type.clone()],
            layouts: Mutex::new(entry.layouts.clone()),
            types: OnceLock::new(),
            partition: OnceLock::new(),
            is_beside_logged: AtomicUsize::new(0),
            is_essential: if entry.id == CATALOG { OnceLock::from(()) } else { OnceLock::new() },
            is_kept_in_memory: OnceLock::new(),
            primary,
            rows,
            beside: F::beside(options),
            secondaries: Default::default(),
            index_set: AtomicU64::new(0),
            unattached_count: AtomicUsize::new(0),
            finished_count: AtomicUsize::new(0),
            settled_count: AtomicUsize::new(0),
            building: Mutex::new(()),
        }
    }

    /// Returns the table's name, for messages and the schema.
    pub(crate) fn name(&self) -> Arc<str> {
        self.name_of_keys().name().clone()
    }

    /// Returns the table's name, for an error that has a key.
    pub(crate) fn name_of_keys(&self) -> TableName {
        self.name.lock().expect("no code panics while it holds the name").clone()
    }

    /// Renames the table.
    pub(crate) fn rename(&self, name: &str) {
        let mut known = self.name.lock().expect("no code panics while it holds the name");
        *known = known.renamed(name);
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

    /// Keeps the table's rows in memory from now on.
    pub(crate) fn stay_in_memory(&self) {
        self.is_kept_in_memory.get_or_init(|| ());
    }

    /// Whether the table's rows stay in memory.
    pub(crate) fn is_kept_in_memory(&self) -> bool {
        self.id.is_unlogged() || self.is_essential.get().or(self.is_kept_in_memory.get()).is_some()
    }

    /// Notes that a transaction is about to commit rows of the table, which is in memory only, with rows that are
    /// logged.
    pub(crate) fn set_beside_logged(&self) {
        // Relaxed: the release of the commit stamp orders it before any read of the rows (`is_beside_logged`), which has
        // acquired that stamp.
        if self.is_beside_logged.load(Ordering::Relaxed) == 0 {
            self.is_beside_logged.store(1, Ordering::Relaxed);
        }
    }

    /// Whether a transaction that reads the table may see one that has to become durable.
    pub(crate) fn is_beside_logged(&self) -> bool {
        self.is_beside_logged.load(Ordering::Relaxed) != 0
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

    /// Returns a secondary index of the table. If it may be under construction, the caller is inside the epoch of
    /// transactions.
    pub(crate) fn secondary(&self, ordinal: IndexOrdinal) -> &Secondary {
        // SAFETY: the index was announced before its ordinal was handed out; it stays, or its slot is emptied when all
        // transactions have ended that could know it (`withdraw`).
        let secondary = unsafe { &*self.secondaries[ordinal.0 as usize - 1].0.get() };
        secondary.as_ref().expect("an ordinal is handed out after its index is there")
    }

    /// Returns the secondary indexes that writers maintain. A transaction that finds the same set later has missed no
    /// change to it.
    #[inline]
    pub(crate) fn index_set(&self) -> IndexSet {
        // Acquire: pairs with `set_indexes`.
        IndexSet(self.index_set.load(Ordering::Acquire))
    }

    fn set_indexes(&self, set: IndexSet) {
        // SeqCst: before the fences and locks with which the builder of an index waits for the writers.
        self.index_set.store(set.0, Ordering::SeqCst);
    }

    /// Returns the secondary indexes that writers maintain, in order of creation. The caller is inside the epoch of
    /// transactions.
    pub(crate) fn secondaries(&self) -> impl Iterator<Item = (IndexOrdinal, &Secondary)> {
        self.first_secondaries(self.index_set().count())
    }

    /// Returns the secondary indexes that are complete, in order of creation.
    pub(crate) fn finished(&self) -> impl Iterator<Item = (IndexOrdinal, &Secondary)> {
        self.first_secondaries(self.finished_count())
    }

    /// Returns the secondary indexes that belong into a checkpoint of versions, in order of creation.
    pub(crate) fn settled(&self) -> impl Iterator<Item = (IndexOrdinal, &Secondary)> {
        // Acquire: pairs with `settle_indexes`.
        self.first_secondaries(self.settled_count.load(Ordering::Acquire))
    }

    fn first_secondaries(&self, count: usize) -> impl Iterator<Item = (IndexOrdinal, &Secondary)> {
        (1..=count as u16).map(|ordinal| (IndexOrdinal(ordinal), self.secondary(IndexOrdinal(ordinal))))
    }

    fn finished_count(&self) -> usize {
        // Acquire: pairs with `finish_index`.
        self.finished_count.load(Ordering::Acquire)
    }

    /// Returns whether the table has secondary indexes.
    #[inline]
    pub(crate) fn has_secondaries(&self) -> bool {
        !self.index_set().is_empty()
    }

    /// Adds a secondary index that lacks nothing. No other thread uses the table yet.
    pub(crate) fn add_secondary(&self, secondary: Secondary) -> Result<IndexOrdinal> {
        let ordinal = self.announce(secondary)?;
        self.finish_index();
        self.settle_indexes(self.finished_count());
        Ok(ordinal)
    }

    /// Adds a secondary index: operations that begin now maintain it. One caller at a time, under the lock of the
    /// schema; an index that was withdrawn has been freed.
    pub(crate) fn announce(&self, secondary: Secondary) -> Result<IndexOrdinal> {
        let set = self.index_set();
        let at = set.count();
        assert_eq!(at, self.finished_count(), "indexes of a table are built one at a time");
        let slot = self.secondaries.get(at).ok_or(Error::Limit("16 secondary indexes of one table"))?;
        let name = self.name_of_keys().with_index(at, secondary.name.clone(), &secondary.key_type_name);
        *self.name.lock().expect("no code panics while it holds the name") = name;
        // Release: pairs with `check_writable`.
        self.unattached_count.fetch_add(usize::from(!secondary.is_attached()), Ordering::Release);
        // SAFETY: the ordinal has not been handed out, or all transactions that met it have ended.
        let before = unsafe { (*slot.0.get()).replace(secondary) };
        assert!(before.is_none(), "an index that was withdrawn is freed before the next one takes its ordinal");
        self.set_indexes(set.with(at + 1));
        Ok(IndexOrdinal(at as u16 + 1))
    }

    /// Whether there is an index with that ordinal: it may have been withdrawn.
    pub(crate) fn has_index(&self, index: IndexOrdinal) -> bool {
        usize::from(index.0) <= self.index_set().count()
    }

    /// Makes transactions that have written rows before now lose at their commit, where rows have one version.
    pub(crate) fn renew_indexes(&self) {
        let set = self.index_set();
        self.set_indexes(set.with(set.count()));
    }

    /// Declares the index that was announced last complete: the log and the catalog have it from now on.
    pub(crate) fn finish_index(&self) {
        // Release: pairs with `finished_count`.
        self.finished_count.store(self.index_set().count(), Ordering::Release);
    }

    /// Lets checkpoints have the first `count` indexes, if they do not have them yet.
    pub(crate) fn settle_indexes(&self, count: usize) {
        // Release: pairs with `settled`.
        self.settled_count.fetch_max(count, Ordering::Release);
    }

    /// Takes back the index that was announced last: operations that begin now do not know it. Those that run may still
    /// use it, until [`take_withdrawn`](Self::take_withdrawn).
    pub(crate) fn withdraw(&self) {
        let set = self.index_set();
        assert_eq!(set.count(), self.finished_count() + 1, "the last index is under construction");
        self.set_indexes(set.with(set.count() - 1));
    }

    /// Removes the index that was withdrawn, which no other thread can reach any more.
    ///
    /// # Safety
    /// Every transaction that began before the withdrawal has ended.
    pub(crate) unsafe fn take_withdrawn(&self) -> Option<Secondary> {
        let at = self.index_set().count();
        // SAFETY: no transaction knows the index, as the caller guarantees.
        unsafe { (*self.secondaries[at].0.get()).take() }
    }

    /// Notes that the application has opened an index; returns the type of its keys. One caller at a time.
    pub(crate) fn attach(&self, ordinal: IndexOrdinal, key_of: KeyOf) -> TypeId {
        let secondary = self.secondary(ordinal);
        let is_new = !secondary.is_attached();
        let key_type = secondary.key_of.get_or_init(|| key_of).key_type;
        // Release: pairs with `check_writable`.
        self.unattached_count.fetch_sub(usize::from(is_new), Ordering::Release);
        key_type
    }

    /// Returns the entries that a row needs under `value` and did not have under the value `before`.
    #[inline]
    pub(crate) fn new_entries(&self, key: &[u8], before: Option<&[u8]>, value: Option<&[u8]>) -> Result<NewEntries> {
        match value {
            Some(value) if self.index_set().count() > 0 => self.compute_entries(key, before, value),
            _ => Ok(NewEntries::new()),
        }
    }

    #[inline(never)]
    fn compute_entries(&self, key: &[u8], before: Option<&[u8]>, value: &[u8]) -> Result<NewEntries> {
        let mut entries = NewEntries::new();
        let mut old = KeyBuffer::new();
        // Before the write: the writes of a row whose entries are not logged come before those whose entries are.
        let finished = self.finished_count();
        for (index, secondary) in self.secondaries() {
            let mut entry = KeyBuffer::new();
            let secondary_length = secondary.entry_of(key, value, &mut entry)?;
            if let Some(before) = before {
                secondary.entry_of(key, before, &mut old)?;
                if old == entry {
                    continue;
                }
            }
            self.check_entry(secondary, key, &entry)?;
            let (unique, is_logged) = (secondary.uniqueness.is_unique(), usize::from(index.0) <= finished);
            entries.push(NewEntry { index, key: entry, secondary_length, unique, is_logged });
        }
        Ok(entries)
    }

    /// Writes the entry of a row in one index into `entry`, with the checks of a write.
    pub(crate) fn entry_in(
        &self,
        ordinal: IndexOrdinal,
        key: &[u8],
        value: &[u8],
        entry: &mut KeyBuffer,
    ) -> Result<()> {
        let secondary = self.secondary(ordinal);
        secondary.entry_of(key, value, entry)?;
        self.check_entry(secondary, key, entry)
    }

    /// Fails where an entry is too long, or in another partition than its row and should not be.
    fn check_entry(&self, secondary: &Secondary, key: &[u8], entry: &[u8]) -> Result<()> {
        if entry.len() > crate::MAX_KEY_BYTES {
            return Err(Error::KeyTooLong { bytes: entry.len() });
        }
        if let Some(partition) = self.partition.get().filter(|partition| partition.indexes_alike)
            && partition.of_key(entry)? != partition.of_key(key)?
        {
            let (table, index) = (self.name(), &secondary.name);
            return Err(Error::Schema(format!(
                "table {table} has partitions, and keys of its index {index} do not begin with what decides them: use \
                 TableOptions::indexes_apart"
            )));
        }
        Ok(())
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
        let indexes = self.finished().map(|(_, secondary)| secondary.entry()).collect();
        let layouts = self.layouts.lock().expect("no code panics while it holds the layouts").clone();
        let (name, kind) = (self.name().to_string(), self.primary.kind());
        TableEntry { id: self.id, name, key_type, value_type, layouts, kind, indexes }
    }

    /// Returns the indexes that a write has to maintain; fails while one of them could not be kept up to date.
    #[inline]
    pub(crate) fn check_writable(&self) -> Result<IndexSet> {
        let set = self.index_set();
        // Acquire: pairs with `attach`.
        if self.unattached_count.load(Ordering::Acquire) == 0 {
            return Ok(set);
        }
        let missing = self.secondaries().find(|(_, secondary)| !secondary.is_attached());
        missing.map_or(Ok(set), |(_, secondary)| {
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

impl<H: CertifierStamps> TableStore<H> {
    /// Replaces the content of `heads` by the newest versions of rows, and starts loading them from memory.
    pub(crate) fn load_heads(&self, rows: impl Iterator<Item = RowId>, heads: &mut Vec<Option<VersionPtr<H>>>) {
        heads.clear();
        heads.extend(rows.map(|row| self.rows.slot(row).head().inspect(|head| head.prefetch())));
    }

    /// Returns whether any version of a row, including one in flight, belongs to an entry. The row's versions must be
    /// protected by the caller's guard. Versions that were superseded before all rows had their entries do not count:
    /// no transaction finds them in the index, and the collector may not know their key.
    pub(crate) fn any_version_matches(&self, row: RowId, ordinal: IndexOrdinal, entry: &[u8]) -> bool {
        let filled_at = self.secondary(ordinal).filled_at();
        let head = match self.rows.slot(row).peek() {
            SlotContent::Head(head) => Some(head),
            // Its only version is in a file: the entry stays where it is not known whether it belongs to that.
            SlotContent::Stored(_) => return true,
            SlotContent::Empty => None,
        };
        let mut versions = iter::successors(head, |version| version.older());
        if filled_at == Stamp::ZERO {
            return versions.any(|version| self.version_matches(version, ordinal, entry));
        }
        let mut superseded = Stamp::INFINITY;
        for version in versions {
            if superseded < filled_at {
                return false;
            }
            if self.version_matches(version, ordinal, entry) {
                return true;
            }
            if let Origin::At(stamp) = version.origin().load() {
                superseded = stamp;
            }
        }
        false
    }

    /// Returns whether a version belongs to an entry. The version must be protected by the caller's guard.
    pub(crate) fn version_matches(&self, version: VersionPtr<H>, ordinal: IndexOrdinal, entry: &[u8]) -> bool {
        // A value that cannot be decoded, or that makes the key function panic, is taken for a match: the entry stays.
        let matches = || self.secondary(ordinal).matches(entry, version.payload(&version)).unwrap_or(true);
        version.kind() == Kind::Live && matches()
    }
}

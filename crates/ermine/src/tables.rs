//! The tables of a database, and the ways in which tables and indexes are added and removed.
//!
//! Every operation finds its table by number, with two loads and no lock. Therefore the parts of a dropped table stay
//! in place until no transaction can hold a reference to them:
//!
//! ```text
//!   drop_table        the catalog says so, durably; then the table is marked: operations that begin now fail
//!   one epoch later   the transactions that met it have ended; its number leads nowhere
//!   one epoch later   operations that still read the mark have left; its rows, indexes and addresses are freed
//! ```
//!
//! Invariants
//! 1. A reference to a table is taken inside the epoch of transactions (`nodes`) and used inside it only. It stays
//!    valid until the epoch is left, even when the table is dropped meanwhile. Work on a table that takes longer, such
//!    as a checkpoint, holds a reference count ([`Tables::held`]).
//! 2. A transaction that has found a table goes on with it until it ends, whatever becomes of the table: only the
//!    beginning of an operation checks the mark ([`Tables::live`]). The transaction's writes to the table disappear
//!    with it.
//! 3. Numbers are not reused: the log may have rows of a dropped table.

use std::{
    any::TypeId,
    collections::HashSet,
    ops::{ControlFlow, DerefMut},
    ptr,
    sync::Arc,
};

use crate::{
    access::{Access, Direction, ScanRange},
    catalog::{
        CATALOG_NAME, DROPPED_NAME, DroppedTables, IndexEntry, SEQUENCES_NAME, TABLES_MAX, TableEntry, ValueLayouts,
        ValueType,
    },
    epoch::{Epoch, EpochManager, Guard},
    error::{Error, Result},
    ids::{DatabaseId, IndexOrdinal, RowId, TableId},
    index::{self, Batch, Index},
    observer::Observer,
    options::{Options, TableOptions},
    platform::budget::Budget,
    sync::{AtomicPtr, AtomicUsize, Mutex, Ordering},
    table::{Family, KeyOf, Secondary, TableParts},
    types::{Framing, Key, KeyBuffer, Value, type_name},
};

/// The types with which a program opens a table.
pub(crate) struct TableTypes {
    pub(crate) ids: [TypeId; 2],
    pub(crate) key: String,
    pub(crate) value: ValueType,
}

impl TableTypes {
    /// Returns the types for keys `K` and values `V`.
    pub(crate) fn of<K: Key, V: Value>() -> Self {
        let ids = [TypeId::of::<K>(), TypeId::of::<V>()];
        Self { ids, key: type_name::<K>(), value: ValueType::of::<V>() }
    }
}

/// The properties of a table that a handle needs.
pub(crate) struct OpenTable {
    pub(crate) id: TableId,
    pub(crate) name: Arc<str>,
    pub(crate) framing: Framing,
}

/// A visitor of keys and values.
pub(crate) type RowVisit<'v> = dyn FnMut(&[u8], &[u8]) -> Result<()> + 'v;

/// Number of rows from each end of a table that a key function is tried on.
const SAMPLE_ROWS: usize = 64;

/// Visits the rows of a table, as a transaction sees them: so many from each end, or all.
pub(crate) fn visit_rows(
    txn: &impl Access,
    table: TableId,
    from_each_end: Option<usize>,
    visit: &mut RowVisit<'_>,
) -> Result<()> {
    let (directions, limit) = match from_each_end {
        None => (&[Direction::Forward][..], usize::MAX),
        Some(limit) => (&[Direction::Forward, Direction::Backward][..], limit),
    };
    directions.iter().try_for_each(|&direction| {
        let range = ScanRange { table, index: IndexOrdinal::PRIMARY, lower: &[], upper: None, direction, limit };
        txn.scan(range, &mut |key, value| {
            visit(key, value)?;
            Ok(ControlFlow::Continue(()))
        })
    })
}

/// All tables of a database.
pub(crate) struct Tables<F: Family> {
    pub(crate) database: DatabaseId,
    /// The epochs of transactions.
    nodes: Arc<EpochManager>,
    /// Indexed by the table's number; each pointer that is not null is a reference of an `Arc`. Null: dropped.
    places: boxcar::Vec<AtomicPtr<TableParts<F>>>,
    /// The tables that have not been dropped, in order of creation.
    live: Mutex<Vec<Arc<TableParts<F>>>>,
    /// The tables that were dropped and are not freed yet.
    ending: Mutex<Vec<Ending<F>>>,
    options: Options,
    budget: Arc<Budget>,
    /// The numbers of the dropped tables. Locked while tables and indexes are created, renamed and dropped.
    schema: Mutex<DroppedTables>,
    /// Number of tables dropped, and how many of them the newest checkpoint records as dropped.
    drops: AtomicUsize,
    drops_covered: AtomicUsize,
}

/// A dropped table that is not freed yet.
struct Ending<F: Family> {
    table: Arc<TableParts<F>>,
    /// Whether the table's number leads nowhere.
    is_hidden: bool,
    /// The epoch of the last step.
    since: Epoch,
}

// SAFETY: the pointers are references of `Arc`s to data that may be shared.
unsafe impl<F: Family> Send for Tables<F> {}
// SAFETY: as above.
unsafe impl<F: Family> Sync for Tables<F> {}

impl<F: Family> Tables<F> {
    /// Number of drops since the newest checkpoint from which on a checkpoint is due: a replay reserves addresses for
    /// each of those tables.
    const DROPS_DUE: usize = 64;
    const DROPS_MAX: usize = 512;

    pub(crate) fn new(options: &Options, nodes: Arc<EpochManager>, budget: Arc<Budget>) -> Self {
        Self {
            database: DatabaseId::new(),
            nodes,
            places: boxcar::Vec::new(),
            live: Mutex::new(Vec::new()),
            ending: Mutex::new(Vec::new()),
            options: options.clone(),
            budget,
            schema: Mutex::new(DroppedTables::default()),
            drops: AtomicUsize::new(0),
            drops_covered: AtomicUsize::new(0),
        }
    }

    /// Takes over the tables that recovery has rebuilt, in the order of their numbers. The log that was replayed has
    /// rows of `dropped_behind` of the `dropped` ones.
    pub(crate) fn recovered(
        &self,
        tables: impl IntoIterator<Item = TableParts<F>>,
        dropped: DroppedTables,
        dropped_behind: usize,
    ) {
        let skip = |to: u32| {
            while (self.places.count() as u32) < to {
                self.places.push(AtomicPtr::new(ptr::null_mut()));
            }
        };
        for table in tables {
            skip(table.id.0);
            self.push(table);
        }
        skip(dropped.iter().last().map_or(0, |last| last.0 + 1));
        // Relaxed: no other thread uses the tables yet.
        self.drops.store(dropped_behind, Ordering::Relaxed);
        *self.schema() = dropped;
    }

    /// Returns a table that the caller's transaction has already found.
    #[inline]
    pub(crate) fn get(&self, id: TableId) -> &TableParts<F> {
        self.place(id).expect("a table is there for as long as a transaction that met it")
    }

    /// Returns the table of that number, if there is one that was not dropped.
    #[inline]
    pub(crate) fn find(&self, id: TableId) -> Option<&TableParts<F>> {
        self.place(id).filter(|table| !table.is_dropped())
    }

    /// Returns a table for an operation that begins; fails if the table was dropped.
    #[inline]
    pub(crate) fn live(&self, id: TableId) -> Result<&TableParts<F>> {
        self.find(id).ok_or_else(|| no_longer_there(id))
    }

    #[inline]
    fn place(&self, id: TableId) -> Option<&TableParts<F>> {
        // Acquire: pairs with the push. A table that has just been removed is not freed in the epoch of the caller.
        let table = self.places.get(id.0 as usize)?.load(Ordering::Acquire);
        // SAFETY: invariant 1: the caller is inside the epoch of transactions, which `free_ended` waits for twice; or
        // no thread drops tables meanwhile.
        unsafe { table.as_ref() }
    }

    /// Returns the live tables in order of creation, for work on them outside of epochs.
    pub(crate) fn held(&self) -> Vec<Arc<TableParts<F>>> {
        self.live.lock().expect("no code panics while it holds the tables").clone()
    }

    /// Returns the table of that name.
    fn by_name(&self, name: &str) -> Option<Arc<TableParts<F>>> {
        self.held().into_iter().find(|table| &*table.name() == name)
    }

    fn schema(&self) -> impl DerefMut<Target = DroppedTables> {
        self.schema.lock().expect("no code panics while it changes the schema")
    }

    /// Adds a table. One caller at a time.
    pub(crate) fn push(&self, table: TableParts<F>) {
        if let Some(observer) = self.observer() {
            observer.table(table.id, &table.name());
        }
        let table = Arc::new(table);
        assert_eq!(self.places.count(), table.id.0 as usize, "tables are added in the order of their numbers");
        // Release: pairs with `place`.
        self.places.push(AtomicPtr::new(Arc::into_raw(table.clone()).cast_mut()));
        self.live.lock().expect("no code panics while it holds the tables").push(table);
    }

    fn observer(&self) -> Option<&dyn Observer> {
        self.options.observer.as_deref()
    }

    /// Drops the table of that name; returns whether there was one. `write_down` is called before anything changes.
    /// `is_logged`: the log may have rows of the table.
    pub(crate) fn drop_table(
        &self,
        name: &str,
        is_logged: bool,
        write_down: impl Fn(&TableParts<F>, &DroppedTables) -> Result<()>,
    ) -> Result<bool> {
        check_name(name)?;
        let mut dropped = self.schema();
        let Some(table) = self.by_name(name) else { return Ok(false) };
        if self.drops_uncovered() >= Self::DROPS_MAX {
            return Err(Error::Limit(
                "512 tables dropped since the last checkpoint: make one, or try again when one has been made",
            ));
        }
        let mut now = dropped.clone();
        now.insert(table.id);
        write_down(&table, &now)?;
        *dropped = now;
        table.set_dropped();
        self.live.lock().expect("no code panics while it holds the tables").retain(|other| other.id != table.id);
        // Relaxed: the lock of the schema orders it.
        self.drops.fetch_add(usize::from(is_logged), Ordering::Relaxed);
        let ending = Ending { table, is_hidden: false, since: self.nodes.retirement_epoch() };
        self.ending.lock().expect("no code panics while it holds the tables").push(ending);
        Ok(true)
    }

    /// Renames a table. `write_down` is called before anything changes.
    pub(crate) fn rename_table(
        &self,
        name: &str,
        new_name: &str,
        write_down: impl Fn(&TableEntry, &str) -> Result<()>,
    ) -> Result<()> {
        check_name(name)?;
        check_name(new_name)?;
        let _schema = self.schema();
        let Some(table) = self.by_name(name) else {
            return Err(Error::Schema(format!("there is no table {name} to rename")));
        };
        if name == new_name {
            return Ok(());
        }
        if self.by_name(new_name).is_some() {
            return Err(Error::Schema(format!(
                "table {name} cannot be renamed: there is a table {new_name}; drop that one first"
            )));
        }
        write_down(&TableEntry { name: new_name.into(), ..table.catalog_entry() }, name)?;
        table.rename(new_name);
        Ok(())
    }

    /// Returns the catalog's entries of the application's tables.
    pub(crate) fn entries(&self) -> Vec<TableEntry> {
        self.held().iter().map(|table| table.catalog_entry()).filter(|entry| entry.name != CATALOG_NAME).collect()
    }

    /// Takes the next step with dropped tables; passes those to `clear` that no thread can access any more. Returns
    /// whether some are left.
    pub(crate) fn free_ended(&self, mut clear: impl FnMut(&TableParts<F>)) -> bool {
        let mut freed = Vec::new();
        let mut ending = self.ending.lock().expect("no code panics while it holds the tables");
        let mut at = 0;
        while let Some(of) = ending.get_mut(at) {
            if self.nodes.is_closed(of.since) && !of.is_hidden {
                let place = self.places.get(of.table.id.0 as usize).expect("every table has a place");
                let table = place.swap(ptr::null_mut(), Ordering::AcqRel);
                // SAFETY: `push` has stored this reference there, and no other thread removes it.
                drop(unsafe { Arc::from_raw(table) });
                (of.is_hidden, of.since) = (true, self.nodes.retirement_epoch());
            }
            // A checkpoint may still hold the table. No new holder appears: the table is not among the live ones.
            if of.is_hidden && self.nodes.is_closed(of.since) && Arc::strong_count(&of.table) == 1 {
                freed.push(ending.swap_remove(at));
            } else {
                at += 1;
            }
        }
        let is_left = !ending.is_empty();
        drop(ending);
        for Ending { table, .. } in freed {
            self.budget.give(table.index_bytes(&self.nodes.join_as("dropped table").enter()));
            clear(&table);
        }
        is_left
    }

    /// Returns the number of tables that were dropped so far: a checkpoint that begins now records all of them as
    /// dropped.
    pub(crate) fn drops(&self) -> usize {
        self.drops.load(Ordering::Relaxed)
    }

    /// Notes that a valid checkpoint has recorded `drops` tables as dropped.
    pub(crate) fn cover_drops(&self, drops: usize) {
        self.drops_covered.store(drops, Ordering::Relaxed);
    }

    fn drops_uncovered(&self) -> usize {
        self.drops() - self.drops_covered.load(Ordering::Relaxed)
    }

    /// Returns whether so many tables have been dropped that a checkpoint should be made.
    pub(crate) fn are_drops_due(&self) -> bool {
        self.drops_uncovered() >= Self::DROPS_DUE
    }

    /// Opens the table of that name, and creates it when absent; `write_down` is called before anything changes.
    pub(crate) fn open(
        &self,
        name: &str,
        types: &TableTypes,
        built: &TableOptions,
        write_down: impl Fn(&TableEntry) -> Result<()>,
    ) -> Result<OpenTable> {
        if [CATALOG_NAME, DROPPED_NAME].contains(&name) {
            return Err(reserved(name));
        }
        let _schema = self.schema();
        let table = match self.by_name(name) {
            Some(table) => table,
            None => {
                let id = TableId(self.places.count() as u32);
                if id.0 >= TABLES_MAX {
                    return Err(Error::Limit("1048576 tables created in one database"));
                }
                let entry = TableEntry {
                    id,
                    name: name.into(),
                    key_type: types.key.clone(),
                    value_type: types.value.name().into(),
                    layouts: ValueLayouts::of(&types.value),
                    kind: built.index,
                    indexes: Vec::new(),
                };
                let table = TableParts::new(&entry, &self.options, &self.budget);
                write_down(&entry)?;
                self.push(table);
                self.by_name(name).expect("it has just been added")
            }
        };
        let [key, value] = &table.type_names;
        let is_as_before = table.types.get().is_none_or(|ids| *ids == types.ids);
        if *key != types.key || value != types.value.name() || !is_as_before {
            return Err(Error::Schema(format!("table {name} exists with keys {key} and values {value}")));
        }
        if built.is_essential {
            table.be_essential();
        }
        if table.primary.kind() != built.index {
            let kind = table.primary.kind();
            return Err(Error::Schema(format!("table {name} exists with an index of kind {kind:?}")));
        }
        let mut entry = table.catalog_entry();
        if entry.layouts.admit(name, &types.value)? {
            write_down(&entry)?;
            *table.layouts.lock().expect("no code panics while it holds the layouts") = entry.layouts.clone();
        }
        table.types.get_or_init(|| types.ids);
        if let Some(partition) = &built.partition {
            // The first function counts, as for key functions.
            table.partition.get_or_init(|| partition.clone());
        }
        Ok(OpenTable { id: table.id, name: table.name(), framing: entry.layouts.framing })
    }

    /// Opens the secondary index of that name, and creates it when absent; `write_down` is called before anything
    /// changes. An index that existed when the database was opened is checked against rows of a `sample`.
    pub(crate) fn open_index(
        &self,
        table: TableId,
        entry: IndexEntry,
        key_of: KeyOf,
        write_down: impl Fn(&TableEntry) -> Result<()>,
        rows: impl Fn(TableId, Option<usize>, &mut RowVisit<'_>) -> Result<()>,
    ) -> Result<IndexOrdinal> {
        let _schema = self.schema();
        let table = self.held().into_iter().find(|of| of.id == table).ok_or_else(|| no_longer_there(table))?;
        let (name, index, key_type) = (&*table.name(), &entry.name, key_of.key_type);
        if let Some((ordinal, existing)) = table.secondaries().find(|(_, existing)| *existing.name == **index) {
            let known = existing.entry();
            if known.version != entry.version {
                return Err(Error::Schema(format!(
                    "index {index} of table {name} was built by version {} of its key function, and the program has version {}. To \
                     build it anew, copy the rows to a new table with the new index, drop this table and rename the new one",
                    known.version, entry.version
                )));
            }
            // The rows of a table whose primary index has no order cannot be scanned.
            if known == entry && !existing.is_attached() && table.check_ordered(IndexOrdinal::PRIMARY).is_ok() {
                self.check_key_function(&table, existing, &key_of, rows)?;
            }
            if known != entry || table.attach(ordinal, key_of) != key_type {
                return Err(Error::Schema(format!("index {index} of table {name} exists with another key or kind")));
            }
            return Ok(ordinal);
        }
        if !entry.kind.is_ordered() {
            return Err(Error::Schema(format!(
                "index {index} of table {name}: rows are found by the front of its entries, which a hash index cannot do; use \
                 another kind"
            )));
        }
        if table.rows.bytes() > 0 {
            return Err(Error::Schema(format!(
                "index {index} cannot be added: table {name} has had rows; create indexes before the first insert"
            )));
        }
        let mut changed = table.catalog_entry();
        changed.indexes.push(entry.clone());
        write_down(&changed)?;
        table.add_secondary(Secondary::new(&entry, Index::new(entry.kind), Some(key_of)))
    }

    /// Fails where a row has another key in an index now than when it was written: the key function has changed. The
    /// table cannot be written before its indexes have been opened, so rows and entries agree if the function is the
    /// same. If the index lacks entries, all rows are visited, and those without an entry get one.
    fn check_key_function(
        &self,
        table: &TableParts<F>,
        index: &Secondary,
        key_of: &KeyOf,
        rows: impl Fn(TableId, Option<usize>, &mut RowVisit<'_>) -> Result<()>,
    ) -> Result<()> {
        let participant = self.nodes.join_as("index");
        let with_entry = (index.missing > 0).then(|| rows_in(&index.entries, &participant.enter()));
        let mut entry = KeyBuffer::new();
        let ends = with_entry.is_none().then_some(SAMPLE_ROWS);
        rows(table.id, ends, &mut |key, value| {
            entry.clear();
            (key_of.extract)(key, value, &mut entry)?;
            entry.extend_from_slice(key);
            let nodes = participant.enter();
            if index.entries.get(&nodes, &entry).row.is_some() {
                return Ok(());
            }
            let row = table.primary.get(&nodes, key).row;
            match row.filter(|row| with_entry.as_ref().is_some_and(|known| !known.contains(row))) {
                Some(row) => {
                    index.entries.insert_if_absent(&nodes, &entry, row);
                    Ok(())
                }
                None => Err(Error::Schema(format!(
                    "index {} of table {} was built by another key function: a row has another key than it has in the index. \
                     Restore the function; or, for a new one, copy the rows to a new table with the new index, drop this \
                     table and rename the new one",
                    index.name,
                    table.name()
                ))),
            }
        })
    }

    /// Returns the bytes of all indexes. Walks over them.
    pub(crate) fn index_bytes(&self, nodes: &Guard<'_>) -> u64 {
        self.held().iter().map(|table| table.index_bytes(nodes)).sum()
    }

    /// Returns the bytes of the indirection arrays in use.
    pub(crate) fn row_bytes(&self) -> u64 {
        self.held().iter().map(|table| table.rows.bytes()).sum()
    }
}

impl<F: Family> Drop for Tables<F> {
    fn drop(&mut self) {
        for (_, place) in &self.places {
            let table = place.load(Ordering::Relaxed);
            if !table.is_null() {
                // SAFETY: `push` has stored this reference there, and no other thread uses the tables any more.
                drop(unsafe { Arc::from_raw(table) });
            }
        }
    }
}

/// Fails for names that the engine reserves.
fn check_name(name: &str) -> Result<()> {
    if [CATALOG_NAME, DROPPED_NAME, SEQUENCES_NAME].contains(&name) { Err(reserved(name)) } else { Ok(()) }
}

fn reserved(name: &str) -> Error {
    Error::Schema(format!("table {name} is the engine's own: use another name"))
}

/// Returns the rows that an index has entries of. Walks over it.
fn rows_in(index: &Index, nodes: &Guard<'_>) -> HashSet<RowId> {
    let (mut walk, mut batch, mut rows) = (index::Walk::default(), Batch::default(), HashSet::new());
    while index.walk(nodes, &mut walk, &mut batch, 64) {
        rows.extend((0..batch.len()).map(|at| batch.row(at)));
    }
    rows
}

#[cold]
fn no_longer_there(id: TableId) -> Error {
    Error::Schema(format!(
        "the table of this handle was dropped (its number was {}): `Database::table` makes a new one of its name",
        id.0
    ))
}

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

mod live;

use std::{
    any::TypeId,
    collections::HashSet,
    mem,
    ops::{ControlFlow, DerefMut},
    ptr,
    sync::Arc,
    time::Duration,
};

use self::live::LiveTables;
use crate::{
    access::{Access, Direction, ScanRange},
    catalog::{
        CATALOG_NAME, DROPPED_NAME, DroppedTables, IndexEntry, SEQUENCES_NAME, TABLES_MAX, TableEntry, ValueLayouts,
        ValueType,
    },
    epoch::{Epoch, EpochManager, Guard},
    error::{Error, Result},
    ids::{DatabaseId, IndexOrdinal, RowId, Stamp, TableId},
    index::{self, Batch, Index},
    index_build::{Build, Builds, Patience, RowVisit, Sample},
    inside,
    observer::Observer,
    options::{Options, TableOptions},
    platform::budget::Budget,
    rows::array::RowIds,
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

/// Number of rows from each end of a table that a key function is tried on.
const SAMPLE_ROWS: usize = 64;

/// Visits some rows of a table, as a transaction sees them.
pub(crate) fn visit_rows(
    txn: &impl Access,
    table: TableId,
    sample: Sample<'_>,
    visit: &mut RowVisit<'_>,
) -> Result<()> {
    let limit = match sample {
        Sample::Ends(limit) => limit,
        Sample::Keys(keys) => {
            return keys.iter().try_for_each(|key| txn.get(table, key)?.map_or(Ok(()), |value| visit(key, value)));
        }
    };
    [Direction::Forward, Direction::Backward].iter().try_for_each(|&direction| {
        let range = ScanRange { table, index: IndexOrdinal::PRIMARY, lower: &[], upper: None, direction, limit };
        txn.scan(range, &mut |key, value| {
            visit(key, value)?;
            Ok(ControlFlow::Continue(()))
        })
    })
}

/// The transactions that run at a moment: the epoch of each kind.
#[derive(Clone, Copy)]
struct Running {
    nodes: Epoch,
    passive: Epoch,
}

/// All tables of a database.
pub(crate) struct Tables<F: Family> {
    pub(crate) database: DatabaseId,
    /// The epochs of transactions.
    nodes: Arc<EpochManager>,
    /// Those of transactions with passive snapshots, which leave the others between their operations.
    pub(crate) passive: Arc<EpochManager>,
    /// Indexed by the table's number; each pointer that is not null is a reference of an `Arc`. Null: dropped.
    places: boxcar::Vec<AtomicPtr<TableParts<F>>>,
    /// The same for tables in memory only, whose numbers begin at [`TableId::UNLOGGED`]: recovery knows nothing of
    /// them. Each that was ever created keeps 8 bytes.
    unlogged: boxcar::Vec<AtomicPtr<TableParts<F>>>,
    /// The tables that have not been dropped.
    live: Mutex<LiveTables<F>>,
    /// The tables that were dropped and are not freed yet.
    ending: Mutex<Vec<Ending<F>>>,
    /// The tables with an index whose building failed and that is not freed yet, and the epoch of its end.
    withdrawn: Mutex<Vec<(Arc<TableParts<F>>, Running)>>,
    built: Mutex<Built<F>>,
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
    since: Running,
}

/// Changes of the schema that a checkpoint records: the number of tables dropped, and of indexes built.
#[derive(Clone, Copy)]
pub(crate) struct Recorded {
    drops: usize,
    built: usize,
}

/// The indexes that were built over rows since the database was opened.
struct Built<F: Family> {
    /// Those that checkpoints do not have yet, by table and number of indexes, and the epoch in which they were
    /// finished: transactions that ran then may have changed rows without logging the entries.
    new: Vec<(Arc<TableParts<F>>, usize, Running)>,
    /// How many of the others there are, and how many the newest checkpoint has.
    settled: usize,
    covered: usize,
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
            passive: EpochManager::new("passive snapshots"),
            places: boxcar::Vec::new(),
            unlogged: boxcar::Vec::new(),
            live: Mutex::new(LiveTables::default()),
            ending: Mutex::new(Vec::new()),
            withdrawn: Mutex::new(Vec::new()),
            built: Mutex::new(Built { new: Vec::new(), settled: 0, covered: 0 }),
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
        for table in tables {
            self.skip_to(table.id);
            self.push(table);
        }
        self.skip_to(dropped.iter().last().map_or(TableId(0), |last| TableId(last.0 + 1)));
        // Relaxed: no other thread uses the tables yet.
        self.drops.store(dropped_behind, Ordering::Relaxed);
        *self.schema() = dropped;
    }

    /// Leaves out the numbers below `next` that no table has yet: their tables were dropped.
    fn skip_to(&self, next: TableId) {
        while (self.places.count() as u32) < next.0 {
            self.places.push(AtomicPtr::new(ptr::null_mut()));
        }
    }

    /// Creates a table, renames it, or changes its description, so that it has this entry of the original's catalog.
    /// One caller at a time, and no other one that changes tables.
    pub(crate) fn replay(&self, entry: &TableEntry) -> Result<()> {
        let _schema = self.schema();
        let known = self.live_tables().get(entry.id);
        let Some(table) = known else {
            if (self.places.count() as u32) > entry.id.0 {
                return Err(no_longer_there(entry.id));
            }
            let table = TableParts::new(entry, &self.options, &self.budget);
            for index in &entry.indexes {
                table.add_secondary(Secondary::new(index, Index::new(index.kind), None))?;
            }
            self.skip_to(entry.id);
            self.push(table);
            return Ok(());
        };
        for index in entry.indexes.iter().skip(table.finished().count()) {
            if table.rows.bytes() > 0 {
                return Err(Error::Schema(format!(
                    "the original has built index {} over the rows of table {}: open the standby again, which builds \
                     it here",
                    index.name, entry.name
                )));
            }
            table.add_secondary(Secondary::new(index, Index::new(index.kind), None))?;
        }
        *table.layouts.lock().expect("no code panics while it holds the layouts") = entry.layouts.clone();
        if *table.name() != *entry.name {
            self.live_tables().rename(&table, &entry.name);
        }
        Ok(())
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
        let table = self.pointer(id)?.load(Ordering::Acquire);
        // SAFETY: invariant 1: the caller is inside the epoch of transactions, which `free_ended` waits for twice; or
        // no thread drops tables meanwhile.
        unsafe { table.as_ref() }
    }

    #[inline]
    fn pointer(&self, id: TableId) -> Option<&AtomicPtr<TableParts<F>>> {
        let of_unlogged = || self.unlogged.get(id.0.checked_sub(TableId::UNLOGGED)? as usize);
        self.places.get(id.0 as usize).or_else(of_unlogged)
    }

    /// Whether the table of that number was dropped, and no transaction can find it any more.
    pub(crate) fn is_gone(&self, id: TableId) -> bool {
        // Relaxed: the pointer is not followed.
        self.pointer(id).is_none_or(|table| table.load(Ordering::Relaxed).is_null())
    }

    fn live_tables(&self) -> impl DerefMut<Target = LiveTables<F>> {
        self.live.lock().expect("no code panics while it holds the tables")
    }

    /// Returns the live tables in order of creation, for work on them outside of epochs.
    pub(crate) fn held(&self) -> Vec<Arc<TableParts<F>>> {
        self.live_tables().all()
    }

    /// Returns those of them that are in files.
    pub(crate) fn logged(&self) -> Vec<Arc<TableParts<F>>> {
        let mut tables = self.held();
        tables.retain(|table| !table.id.is_unlogged());
        tables
    }

    /// Returns the name of a table, unless it was dropped.
    pub(crate) fn name_of(&self, id: TableId) -> Option<Arc<str>> {
        self.live_tables().get(id).map(|table| table.name())
    }

    /// Returns the table of that name.
    fn by_name(&self, name: &str) -> Option<Arc<TableParts<F>>> {
        self.live_tables().named(name)
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
        let (places, first) =
            if table.id.is_unlogged() { (&self.unlogged, TableId::UNLOGGED) } else { (&self.places, 0) };
        assert_eq!(places.count(), (table.id.0 - first) as usize, "tables are added in the order of their numbers");
        // Release: pairs with `place`.
        places.push(AtomicPtr::new(Arc::into_raw(table.clone()).cast_mut()));
        self.live_tables().add(table);
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
        if !table.id.is_unlogged() {
            if is_logged && self.drops_uncovered() >= Self::DROPS_MAX {
                return Err(Error::Limit(
                    "512 tables dropped since the last checkpoint: make one, or try again when one has been made",
                ));
            }
            let mut now = dropped.clone();
            now.insert(table.id);
            write_down(&table, &now)?;
            *dropped = now;
            // Relaxed: the lock of the schema orders it.
            self.drops.fetch_add(usize::from(is_logged), Ordering::Relaxed);
        }
        table.set_dropped();
        self.live_tables().remove(&table);
        let ending = Ending { table, is_hidden: false, since: self.running() };
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
        if !table.id.is_unlogged() {
            write_down(&TableEntry { name: new_name.into(), ..table.catalog_entry() }, name)?;
        }
        self.live_tables().rename(&table, new_name);
        Ok(())
    }

    /// Returns the catalog's entries of the application's tables.
    pub(crate) fn entries(&self) -> Vec<TableEntry> {
        self.held().iter().map(|table| table.catalog_entry()).filter(|entry| entry.name != CATALOG_NAME).collect()
    }

    /// Takes the next step with dropped tables; passes those to `clear` that no thread can access any more. Returns
    /// whether some are left.
    pub(crate) fn free_ended(&self, mut clear: impl FnMut(&TableParts<F>)) -> bool {
        self.free_withdrawn();
        self.settle_built();
        let mut freed = Vec::new();
        let mut ending = self.ending.lock().expect("no code panics while it holds the tables");
        let mut at = 0;
        while let Some(of) = ending.get_mut(at) {
            if self.have_ended(of.since) && !of.is_hidden {
                let place = self.pointer(of.table.id).expect("every table has a place");
                let table = place.swap(ptr::null_mut(), Ordering::AcqRel);
                // SAFETY: `push` has stored this reference there, and no other thread removes it.
                drop(unsafe { Arc::from_raw(table) });
                (of.is_hidden, of.since) = (true, self.running());
            }
            // A checkpoint may still hold the table. No new holder appears: the table is not among the live ones.
            if of.is_hidden && self.have_ended(of.since) && Arc::strong_count(&of.table) == 1 {
                freed.push(ending.swap_remove(at));
            } else {
                at += 1;
            }
        }
        let is_left = !ending.is_empty();
        drop(ending);
        for Ending { table, .. } in freed {
            self.nodes.freed(table.index_bytes(&self.nodes.join_as("dropped table").enter()));
            clear(&table);
        }
        is_left
    }

    /// Returns the transactions that run now.
    fn running(&self) -> Running {
        Running { nodes: self.nodes.retirement_epoch(), passive: self.passive.retirement_epoch() }
    }

    fn have_ended(&self, running: Running) -> bool {
        self.nodes.is_closed(running.nodes) && self.passive.is_closed(running.passive)
    }

    /// Opens the next epochs, if no transaction prevents that.
    pub(crate) fn advance(&self) {
        self.nodes.advance();
        self.passive.advance();
    }

    /// Frees the indexes whose building failed, as far as no transaction can use them any more.
    fn free_withdrawn(&self) {
        let mut withdrawn = self.withdrawn.lock().expect("no code panics while it holds the tables");
        withdrawn.retain(|(table, since)| {
            let is_closed = self.have_ended(*since);
            if is_closed {
                // SAFETY: every transaction that began before the withdrawal has left the epoch of transactions.
                let index = unsafe { table.take_withdrawn() };
                let bytes =
                    |index: &Secondary| index.entries.footprint(&self.nodes.join_as("index build").enter()).bytes();
                self.nodes.freed(index.as_ref().map_or(0, bytes) as u64);
            }
            !is_closed
        });
    }

    fn is_withdrawn(&self, id: TableId) -> bool {
        let withdrawn = self.withdrawn.lock().expect("no code panics while it holds the tables");
        withdrawn.iter().any(|(table, _)| table.id == id)
    }

    /// Lets checkpoints have the indexes that were built, as far as all changes to rows log their entries.
    fn settle_built(&self) {
        let mut built = self.built.lock().expect("no code panics while it holds the tables");
        let before = built.new.len();
        built.new.retain(|(table, indexes, since)| {
            let is_closed = self.have_ended(*since);
            if is_closed {
                table.settle_indexes(*indexes);
            }
            !is_closed
        });
        built.settled += before - built.new.len();
    }

    /// Returns the changes that a checkpoint which begins now records.
    pub(crate) fn recorded(&self) -> Recorded {
        self.settle_built();
        let built = self.built.lock().expect("no code panics while it holds the tables").settled;
        Recorded { drops: self.drops.load(Ordering::Relaxed), built }
    }

    /// Whether an index was built that no checkpoint has.
    pub(crate) fn has_unrecorded_index(&self) -> bool {
        self.settle_built();
        let built = self.built.lock().expect("no code panics while it holds the tables");
        built.settled > built.covered
    }

    /// Notes that a valid checkpoint has recorded these changes.
    pub(crate) fn cover(&self, recorded: Recorded) {
        self.drops_covered.store(recorded.drops, Ordering::Relaxed);
        self.built.lock().expect("no code panics while it holds the tables").covered = recorded.built;
    }

    fn drops_uncovered(&self) -> usize {
        self.drops.load(Ordering::Relaxed) - self.drops_covered.load(Ordering::Relaxed)
    }

    /// Returns whether a checkpoint should be made: so many tables have been dropped, or an index was built.
    pub(crate) fn is_checkpoint_due(&self) -> bool {
        self.drops_uncovered() >= Self::DROPS_DUE || self.has_unrecorded_index()
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
                let id = if built.is_unlogged { self.next_unlogged() } else { self.next_logged() }?;
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
                if !built.is_unlogged {
                    write_down(&entry)?;
                }
                self.push(table);
                self.by_name(name).expect("it has just been added")
            }
        };
        let [key, value] = &table.type_names;
        let is_as_before = table.types.get().is_none_or(|ids| *ids == types.ids);
        if *key != types.key || value != types.value.name() || !is_as_before {
            return Err(Error::Schema(format!("table {name} exists with keys {key} and values {value}")));
        }
        if table.id.is_unlogged() != built.is_unlogged {
            let is = if table.id.is_unlogged() { "in memory only" } else { "in files" };
            return Err(Error::Schema(format!("table {name} exists, and is {is}")));
        }
        if built.is_essential {
            table.be_essential();
        }
        if built.is_kept_in_memory {
            table.stay_in_memory();
        }
        if table.primary.kind() != built.index {
            let kind = table.primary.kind();
            return Err(Error::Schema(format!("table {name} exists with an index of kind {kind:?}")));
        }
        let mut entry = table.catalog_entry();
        if entry.layouts.admit(name, &types.value)? {
            if !table.id.is_unlogged() {
                write_down(&entry)?;
            }
            *table.layouts.lock().expect("no code panics while it holds the layouts") = entry.layouts.clone();
        }
        table.types.get_or_init(|| types.ids);
        if let Some(partition) = &built.partition {
            // The first function counts, as for key functions.
            table.partition.get_or_init(|| partition.clone());
        }
        Ok(OpenTable { id: table.id, name: table.name(), framing: entry.layouts.framing })
    }

    fn next_logged(&self) -> Result<TableId> {
        let next = self.places.count() as u32;
        if next >= TABLES_MAX {
            return Err(Error::Limit("1048576 tables created in one database"));
        }
        Ok(TableId(next))
    }

    fn next_unlogged(&self) -> Result<TableId> {
        let next = u32::try_from(self.unlogged.count()).ok().and_then(|next| next.checked_add(TableId::UNLOGGED));
        next.map(TableId).ok_or(Error::Limit("4 Gi tables in memory created since the database was opened"))
    }

    /// Opens the secondary index of that name. When absent, builds it, which takes time for each row of the table.
    pub(crate) fn open_index(
        &self,
        builds: &impl Builds<Family = F>,
        table: TableId,
        entry: IndexEntry,
        key_of: KeyOf,
        wait_max: Duration,
    ) -> Result<IndexOrdinal> {
        let table = self.live_tables().get(table).ok_or_else(|| no_longer_there(table))?;
        let schema = self.schema();
        if let Some(ordinal) = named(&table, &entry.name) {
            return self.attach(builds, &table, ordinal, entry, key_of);
        }
        drop(schema);
        if table.id.is_unlogged() {
            return Err(Error::Schema(format!(
                "index {} of table {}: a table that is in memory only has no secondary indexes",
                entry.name,
                table.name()
            )));
        }
        if !entry.kind.is_ordered() {
            return Err(Error::Schema(format!(
                "index {} of table {}: rows are found by the front of its entries, which a hash index cannot do; use \
                 another kind",
                entry.name,
                table.name()
            )));
        }
        if inside::is_running(builds) {
            return Err(Error::Nested("an index was created inside of a transaction that Database::run runs"));
        }
        // Waits for another index of the table that is being built, which may be this one.
        let building = table.building.lock().expect("no code panics while it builds an index");
        let schema = self.schema();
        if let Some(ordinal) = named(&table, &entry.name) {
            return self.attach(builds, &table, ordinal, entry, key_of);
        }
        drop(schema);
        let built = self.build_index(builds, &table, &entry, key_of, wait_max);
        drop(building);
        built
    }

    /// Builds an index. The caller has locked the building of the table's indexes.
    fn build_index(
        &self,
        builds: &impl Builds<Family = F>,
        table: &Arc<TableParts<F>>,
        entry: &IndexEntry,
        key_of: KeyOf,
        wait_max: Duration,
    ) -> Result<IndexOrdinal> {
        let of = format!("index {} of table {}", entry.name, table.name());
        let mut patience = Patience::new(wait_max, &of);
        while self.is_withdrawn(table.id) {
            self.advance();
            self.free_withdrawn();
            patience.wait("an index whose building failed is still known to a transaction that has been open")?;
        }
        let secondary = Secondary::new(entry, Index::new(entry.kind), Some(key_of));
        secondary.begin_build();
        let index = table.announce(secondary)?;
        let announced = Announced { tables: self, table };
        let usable_from = Build { builds, table, index, nodes: &self.nodes, patience }.run()?;
        let mut patience = Patience::new(wait_max, &of);
        if builds.needs_later_transactions() {
            let began = self.running();
            while !self.have_ended(began) {
                self.advance();
                patience.wait("a transaction has been open that began before the index had all entries")?;
            }
        }
        let schema = self.schema();
        if table.is_dropped() {
            return Err(no_longer_there(table.id));
        }
        // Rows that were written during the build have no entry in the log.
        let has_rows = || table.rows.bytes() > 0;
        let mut changed = table.catalog_entry();
        changed.indexes.push(IndexEntry { built: has_rows(), ..entry.clone() });
        while let Err(error) = builds.write_catalog(&changed) {
            let Error::Abort(_) = error else { return Err(error) };
            patience.wait("its entry in the catalog has met other transactions")?;
        }
        announced.finish(index, usable_from);
        let secondary = table.secondary(index);
        let mut written = Ok(());
        if has_rows() {
            secondary.set_built();
            if changed != table.catalog_entry() {
                // The first row was inserted meanwhile.
                written = builds.write_catalog(&table.catalog_entry());
            }
        }
        drop(schema);
        if builds.is_logged() && secondary.entry().built {
            self.note_built(table, index);
        } else {
            table.settle_indexes(index.0.into());
        }
        // The index is complete, even if the catalog does not say yet that it was built over rows.
        written.map(|()| index)
    }

    /// Notes that the files lack entries of an index, which all writes log from now on.
    fn note_built(&self, table: &Arc<TableParts<F>>, index: IndexOrdinal) {
        let mut built = self.built.lock().expect("no code panics while it holds the tables");
        built.new.push((table.clone(), index.0.into(), self.running()));
    }

    /// Opens an index that exists. If it existed when the database was opened, rows are compared with it.
    fn attach(
        &self,
        builds: &impl Builds<Family = F>,
        table: &Arc<TableParts<F>>,
        ordinal: IndexOrdinal,
        entry: IndexEntry,
        key_of: KeyOf,
    ) -> Result<IndexOrdinal> {
        let (name, existing, key_type) = (table.name(), table.secondary(ordinal), key_of.key_type);
        let index = existing.name.clone();
        let known = existing.entry();
        if known.version != entry.version {
            return Err(Error::Schema(format!(
                "index {index} of table {name} was built by version {} of its key function, and the program has \
                 version {}. To build it anew, copy the rows to a new table with the new index, drop this table and \
                 rename the new one",
                known.version, entry.version
            )));
        }
        let entry = IndexEntry { built: known.built, ..entry };
        if known == entry && !existing.is_attached() {
            self.check_key_function(table, existing, &key_of, builds)?;
            if existing.missing > 0 && builds.is_logged() {
                self.note_built(table, ordinal);
            }
        }
        if known != entry || table.attach(ordinal, key_of) != key_type {
            return Err(Error::Schema(format!("index {index} of table {name} exists with another key or kind")));
        }
        Ok(ordinal)
    }

    /// Fails where a row has another key in an index now than when it was written: the key function has changed. The
    /// table cannot be written before its indexes have been opened, so rows and entries agree if the function is the
    /// same. If the index lacks entries, all rows are visited, and those without an entry get one.
    fn check_key_function(
        &self,
        table: &TableParts<F>,
        index: &Secondary,
        key_of: &KeyOf,
        builds: &impl Builds<Family = F>,
    ) -> Result<()> {
        let participant = self.nodes.join_as("index");
        let with_entry = (index.missing > 0).then(|| rows_in(&index.entries, &participant.enter()));
        let mut entry = KeyBuffer::new();
        let mut check = |key: &[u8], value: &[u8]| {
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
                    "index {} of table {} was built by another key function: a row has another key than it has in the \
                     index. Restore the function; or, for a new one, copy the rows to a new table with the new index, \
                     drop this table and rename the new one",
                    index.name,
                    table.name()
                ))),
            }
        };
        if with_entry.is_none() {
            // The rows of a table whose primary index has no order cannot be scanned.
            let is_ordered = table.check_ordered(IndexOrdinal::PRIMARY).is_ok();
            return if is_ordered {
                builds.visit_rows(table.id, Sample::Ends(SAMPLE_ROWS), &mut check)
            } else {
                Ok(())
            };
        }
        let (mut walk, mut batch) = (index::Walk::default(), Batch::default());
        while table.primary.walk(&participant.enter(), &mut walk, &mut batch, 64) {
            let keys: Vec<_> = (0..batch.len()).map(|at| KeyBuffer::from_slice(batch.key(at))).collect();
            builds.visit_rows(table.id, Sample::Keys(&keys), &mut check)?;
        }
        Ok(())
    }

    /// Returns the bytes of all indexes. Walks over them.
    pub(crate) fn index_bytes(&self, nodes: &Guard<'_>) -> u64 {
        self.held().iter().map(|table| table.index_bytes(nodes)).sum()
    }

    /// Returns the keys of a table and the entries of its first secondary index, with their rows.
    #[cfg(test)]
    pub(crate) fn entries_of(&self, table: &str) -> [Vec<(Vec<u8>, RowId)>; 2] {
        let (table, participant) = (self.by_name(table).expect("it is there"), self.nodes.join_as("test"));
        [IndexOrdinal::PRIMARY, IndexOrdinal(1)].map(|ordinal| {
            let (mut walk, mut batch, mut found) = (index::Walk::default(), Batch::default(), Vec::new());
            while table.index(ordinal).walk(&participant.enter(), &mut walk, &mut batch, 64) {
                found.extend((0..batch.len()).map(|at| (batch.key(at).to_vec(), batch.row(at))));
            }
            found
        })
    }

    /// Returns the number of RowIds that have been handed out: at least the number of rows.
    pub(crate) fn rows(&self) -> u64 {
        self.held().iter().map(|table| table.rows.count()).sum()
    }

    /// Returns about how many rows a table has; 0 if it was dropped.
    pub(crate) fn estimated_rows(&self, id: TableId) -> u64 {
        self.live_tables().get(id).map_or(0, |table| table.rows.in_use())
    }

    /// Makes the number of a worker's RowIds known to their table, for [`Self::estimated_rows`].
    pub(crate) fn count_row_ids(&self, id: TableId, row_ids: &mut RowIds) {
        let table = self.live_tables().get(id);
        row_ids.count_in(table.as_ref().map(|table| &table.rows));
    }

    /// Gives a worker's RowIds to their table, but for so many.
    pub(crate) fn give_row_ids(&self, id: TableId, row_ids: &mut RowIds, keep: usize) {
        let table = self.live_tables().get(id);
        row_ids.give_back(table.as_ref().map(|table| &table.rows), keep);
    }

    /// Returns the bytes of the indirection arrays in use.
    pub(crate) fn row_bytes(&self) -> u64 {
        self.held().iter().map(|table| table.rows.bytes()).sum()
    }
}

/// An index that has been announced; it is withdrawn when this is dropped.
struct Announced<'t, F: Family> {
    tables: &'t Tables<F>,
    table: &'t Arc<TableParts<F>>,
}

impl<F: Family> Announced<'_, F> {
    /// Declares the index complete, for snapshots from `usable_from` on. The catalog has it.
    fn finish(self, index: IndexOrdinal, usable_from: Stamp) {
        self.table.secondary(index).set_usable_from(usable_from);
        self.table.finish_index();
        mem::forget(self);
    }
}

impl<F: Family> Drop for Announced<'_, F> {
    fn drop(&mut self) {
        self.table.withdraw();
        let since = self.tables.running();
        let mut withdrawn = self.tables.withdrawn.lock().expect("no code panics while it holds the tables");
        withdrawn.push((self.table.clone(), since));
    }
}

/// Returns the index of that name, if it is complete.
fn named<F: Family>(table: &TableParts<F>, name: &str) -> Option<IndexOrdinal> {
    table.finished().find(|(_, index)| *index.name == *name).map(|(ordinal, _)| ordinal)
}

impl<F: Family> Drop for Tables<F> {
    fn drop(&mut self) {
        for (_, place) in self.places.iter().chain(&self.unlogged) {
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

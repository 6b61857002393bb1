//! Tables under construction: many threads insert the rows that they read, and the greatest TID wins.
//!
//! Invariants
//! 1. *Of a row the greatest TID counts*, whichever thread comes first: TIDs are compared under the lock of the
//!    record's word. A deletion is a record without a row, and stays with its TID until everything has been read; then
//!    its key is removed.
//! 2. The entries of a row in secondary indexes are those that came with the version that counts. They are inserted
//!    into the indexes at the end, sorted.
//! 3. Payloads are not read before the end: a block that a payload has outgrown is freed at once.

use std::{
    collections::{BTreeMap, HashMap, btree_map::Entry},
    sync::{Arc, Mutex, RwLock},
};

use crate::{
    catalog::{CATALOG, Catalog, CatalogRow, DroppedTables, TableEntry},
    epoch::{EpochManager, Guard, Participant},
    error::{Error, Result},
    ids::{RowId, TableId},
    index::{Batch, Index, IndexKind, Insert, KEY_LENGTH_MAX, Walk},
    log::parallel::record::{Entries, Row},
    options::Options,
    platform::budget::{Budget, Need},
    rows::{
        arena::{Arena, Pool},
        array::{RowArray, RowIds},
        copies::Copies,
        in_place::{CommitTid, Control, RecordPtr, RecordSlot, TidWord},
    },
    table::{Secondary, TableParts},
};

/// All tables under construction.
pub(super) struct Loading<C: Control> {
    tables: RwLock<BTreeMap<TableId, Arc<Growing<C>>>>,
    pub(super) nodes: Arc<EpochManager>,
    pub(super) memory: Arc<Pool>,
    budget: Arc<Budget>,
}

/// A table under construction. Its name is not known yet.
pub(super) struct Growing<C: Control> {
    rows: RowArray<RecordSlot<C>>,
    /// A B+-tree for now, whatever kind the index will be.
    primary: Index,
    /// By row, in enough parts that threads rarely contend.
    entries: [Mutex<HashMap<RowId, Box<[u8]>>>; 64],
}

/// Private state of a loading thread.
pub(super) struct Hand<C: Control> {
    arena: Arena,
    row_ids: BTreeMap<TableId, RowIds>,
    tables: BTreeMap<TableId, Arc<Growing<C>>>,
    budget: Arc<Budget>,
}

impl<C: Control> Loading<C> {
    /// Creates an empty set of tables, whose memory is charged to `budget`.
    pub(super) fn new(budget: &Arc<Budget>) -> Self {
        let nodes = EpochManager::counted_by("transactions", budget.clone());
        Self { tables: RwLock::default(), nodes, memory: Pool::new(budget.clone()), budget: budget.clone() }
    }

    pub(super) fn hand(&self) -> Hand<C> {
        let arena = self.memory.arena();
        Hand { arena, row_ids: BTreeMap::new(), tables: BTreeMap::new(), budget: self.budget.clone() }
    }

    fn table(&self, id: TableId) -> Result<Arc<Growing<C>>> {
        if let Some(table) = self.tables.read().expect("no code panics while it holds the tables").get(&id) {
            return Ok(table.clone());
        }
        let mut tables = self.tables.write().expect("no code panics while it holds the tables");
        if let Some(table) = tables.get(&id) {
            return Ok(table.clone());
        }
        let entries = std::array::from_fn(|_| Mutex::default());
        let table =
            Arc::new(Growing { rows: RowArray::new(&self.budget), primary: Index::new(IndexKind::BTree), entries });
        tables.insert(id, table.clone());
        Ok(table)
    }

    /// Applies a row that a transaction left.
    pub(super) fn apply(&self, hand: &mut Hand<C>, nodes: &Guard<'_>, tid: CommitTid, row: &Row<'_>) -> Result<()> {
        let Hand { arena, row_ids, tables, budget } = hand;
        arena.provide(RecordPtr::<C>::bytes_for(row.value.map_or(0, <[u8]>::len)), Need::Shrink)?;
        budget.check(0, Need::Shrink)?;
        let table = match tables.entry(row.table) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(self.table(row.table)?),
        };
        table.apply(arena, row_ids.entry(row.table).or_default(), nodes, tid, row)
    }

    /// Finishes the tables as the catalog names them, the catalog first.
    pub(super) fn finish(self, options: &Options) -> Result<Loaded<C>> {
        let catalog = self.table(CATALOG)?;
        let mut tables = std::mem::take(&mut *self.tables.write().expect("no code panics while it holds the tables"));
        let mut entries = vec![TableEntry::of_catalog()];
        let Catalog { tables: named, dropped } = catalog.read_catalog(&self.nodes)?;
        entries.extend(named);
        drop(catalog);
        let mut to_do = Vec::new();
        for entry in entries {
            let table = tables.remove(&entry.id).map_or_else(|| self.table(entry.id), Ok)?;
            to_do.push((entry, table));
        }
        // Drops the references to tables that were created here; there are no others.
        drop(std::mem::take(&mut *self.tables.write().expect("no code panics while it holds the tables")));
        if let Some(unknown) = tables.keys().find(|id| !dropped.contains(**id)) {
            return Err(Error::Storage(format!(
                "the log has rows of table {} that the catalog does not know",
                unknown.0
            )));
        }
        let to_do: Vec<_> = to_do
            .into_iter()
            .map(|(entry, table)| (entry, Arc::into_inner(table).expect("the threads that read have ended")))
            .collect();
        let threads: Vec<_> = to_do.into_iter().map(|(entry, table)| (entry, Mutex::new(Some(table)))).collect();
        let dropped_behind = tables.len();
        for table in std::mem::take(&mut tables).into_values() {
            Arc::into_inner(table).expect("the threads that read have ended").clear(&self.memory);
        }
        let tables = side_by_side(threads.len(), |at| {
            let (entry, table) = &threads[at];
            let table = table.lock().expect("taken once").take().expect("taken once");
            table.finish(entry, &self.nodes, &self.memory, options)
        })?;
        Ok(Loaded { tables, dropped, dropped_behind })
    }
}

/// Tables that have been loaded.
pub(super) struct Loaded<C: Control> {
    /// The catalog first; each with its number of rows.
    pub(super) tables: Vec<(TableParts<RecordSlot<C>>, u64)>,
    pub(super) dropped: DroppedTables,
    /// Number of dropped tables of which the files still have rows.
    pub(super) dropped_behind: usize,
}

/// Calls `work` with each number below `count`, on all processors; returns the results in order, or the first error.
pub(super) fn side_by_side<T: Send>(count: usize, work: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(count);
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let run = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count {
                return;
            }
            let result = work(at);
            if result.is_err() {
                // No thread needs to begin anything more.
                next.store(count, Ordering::Relaxed);
            }
            results.lock().expect("no code panics while it holds the results").push((at, result));
        }
    };
    if threads <= 1 {
        run();
    } else {
        std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(run))));
    }
    let mut results = results.into_inner().expect("no code panics while it holds the results");
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

impl<C: Control> Growing<C> {
    fn apply(
        &self,
        arena: &mut Arena,
        row_ids: &mut RowIds,
        nodes: &Guard<'_>,
        tid: CommitTid,
        row: &Row<'_>,
    ) -> Result<()> {
        let (id, record) = self.find(arena, row_ids, nodes, row)?;
        if record.word().tid() >= tid {
            return Ok(());
        }
        let word = record.lock();
        if word.tid() >= tid {
            record.unlock(word);
            return Ok(());
        }
        if let Some(value) = row.value
            && let Some(outgrown) = record.store(arena, value)
        {
            // SAFETY: only the thread that has locked the record accesses it (invariant 3).
            unsafe { outgrown.destroy(arena) };
        }
        let mut entries = self.entries[id.0 as usize % 64].lock().expect("no code panics while it holds the entries");
        if row.entries.0.is_empty() {
            entries.remove(&id);
        } else {
            entries.insert(id, row.entries.0.into());
        }
        drop(entries);
        record.unlock(TidWord::written(tid, row.value.is_some()));
        Ok(())
    }

    /// The record of a key; creates it if there is none.
    fn find(
        &self,
        arena: &mut Arena,
        row_ids: &mut RowIds,
        nodes: &Guard<'_>,
        row: &Row<'_>,
    ) -> Result<(RowId, RecordPtr<C>)> {
        let there = |id: RowId| (id, self.rows.slot(id).record().expect("a row is there before its key"));
        if let Some(id) = self.primary.get(nodes, row.key).row {
            return Ok(there(id));
        }
        let id = row_ids.take(&self.rows)?;
        let record = RecordPtr::create(arena, row.value.map_or(0, <[u8]>::len), C::default());
        self.rows.slot(id).set(Some(record));
        match self.primary.insert_if_absent(nodes, row.key, id) {
            Insert::Done(_) => Ok((id, record)),
            Insert::Exists(existing, _) => {
                self.rows.slot(id).set(None);
                // SAFETY: no key leads to the record: no other thread has found it.
                unsafe { record.destroy(arena) };
                row_ids.give(id);
                Ok(there(existing))
            }
        }
    }

    /// Passes every key with its row to `visit`, in order.
    fn for_each_key(&self, nodes: &Guard<'_>, mut visit: impl FnMut(&[u8], RowId) -> Result<()>) -> Result<()> {
        let mut batch = Batch::default();
        let mut walk = Walk::default();
        while self.primary.walk(nodes, &mut walk, &mut batch, 256) {
            (0..batch.len()).try_for_each(|at| visit(batch.key(at), batch.row(at)))?;
        }
        Ok(())
    }

    /// Builds an index of another kind from the keys.
    fn keys_as(&self, kind: IndexKind, participant: &Participant) -> Result<Index> {
        let mut keys = Vec::new();
        self.for_each_key(&participant.enter(), |key, row| {
            keys.push((Box::<[u8]>::from(key), row));
            Ok(())
        })?;
        Ok(Index::bulk_load(kind, participant, keys))
    }

    fn record(&self, row: RowId) -> RecordPtr<C> {
        self.rows.slot(row).record().expect("a row is there before its key")
    }

    /// Reads the catalog from its rows.
    fn read_catalog(&self, nodes: &Arc<EpochManager>) -> Result<Catalog> {
        let participant = nodes.join_as("recovery");
        let nodes = participant.enter();
        let (mut rows, mut copies) = (Vec::new(), Copies::default());
        self.for_each_key(&nodes, |key, row| {
            if let (_, Some(value)) = self.record(row).read(Some(&mut copies)) {
                let row = CatalogRow::decode(value.bytes(&nodes))?;
                if row.key().as_bytes() != key {
                    return Err(Error::Storage(format!("the catalog has the row of {} under another name", row.key())));
                }
                rows.push(row);
            }
            Ok(())
        })?;
        Catalog::of(rows)
    }

    /// Frees the memory of a table that was dropped.
    fn clear(self, memory: &Arc<Pool>) {
        let mut arena = memory.arena();
        for record in (0..self.rows.count()).filter_map(|row| self.rows.slot(RowId(row)).record()) {
            // SAFETY: the threads that read have ended, and the table is dropped here.
            unsafe { record.destroy(&mut arena) };
        }
    }

    /// Finishes the table when everything has been read: removes the keys without a row, and builds the secondary
    /// indexes.
    fn finish(
        self,
        entry: &TableEntry,
        nodes: &Arc<EpochManager>,
        memory: &Arc<Pool>,
        options: &Options,
    ) -> Result<(TableParts<RecordSlot<C>>, u64)> {
        let participant = nodes.join_as("recovery");
        let (mut gone, mut live) = (Vec::new(), 0);
        let mut secondary: Vec<Vec<(Box<[u8]>, RowId)>> = entry.indexes.iter().map(|_| Vec::new()).collect();
        {
            let nodes = participant.enter();
            self.for_each_key(&nodes, |key, row| {
                if self.record(row).word().is_absent() {
                    gone.push((Box::<[u8]>::from(key), row));
                    return Ok(());
                }
                live += 1;
                let part = &self.entries[row.0 as usize % 64];
                let entries = part.lock().expect("no code panics while it holds the entries").remove(&row);
                for found in Entries(entries.as_deref().unwrap_or_default()) {
                    let (index, secondary_key) = found.ok_or_else(no_entry)?;
                    let at =
                        usize::from(index).checked_sub(1).filter(|at| *at < secondary.len()).ok_or_else(no_entry)?;
                    secondary[at].push(([secondary_key, key].concat().into(), row));
                }
                Ok(())
            })?;
            let mut arena = memory.arena();
            for (key, row) in gone {
                let record = self.record(row);
                let none = crate::ids::Stamp::ZERO;
                self.primary.remove_if(&nodes, &key, row, none, none, || true);
                self.rows.slot(row).set(None);
                // SAFETY: no thread reads rows yet, and no key leads to the record any more.
                unsafe { record.destroy(&mut arena) };
            }
        }
        let primary = if entry.kind == IndexKind::BTree { None } else { Some(self.keys_as(entry.kind, &participant)?) };
        let Self { rows, primary: tree, .. } = self;
        let primary = primary.unwrap_or(tree);
        rows.settle();
        let table = TableParts::with_rows(entry, rows, primary, options);
        for (index, mut entries) in entry.indexes.iter().zip(secondary) {
            entries.sort_unstable();
            let is_ascending = entries.windows(2).all(|pair| pair[0].0 < pair[1].0);
            if !is_ascending || entries.iter().any(|(entry, _)| entry.len() > KEY_LENGTH_MAX) {
                return Err(no_entry());
            }
            let missing = live - entries.len() as u64;
            let entries = Index::bulk_load(index.kind, &participant, entries);
            table.add_secondary(Secondary::new(index, entries, None).lacking(missing, &entry.name))?;
        }
        Ok((table, live))
    }
}

fn no_entry() -> Error {
    Error::Storage("the log has an index entry that no table has: restore a backup".into())
}

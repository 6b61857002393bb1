//! A running transaction and one operation of it.

use std::cell::RefMut;

use smallvec::SmallVec;

use super::{
    engine::Engine,
    removal::Removal,
    snapshots::Snapshot,
    worker::{State, Worker},
};
use crate::{
    declared::{AccessSet, DeclaredKey},
    engine::collect,
    epoch::Guard,
    error::{Abort, Doom, Error, Result},
    ids::{DatabaseId, IndexOrdinal, RowId, Stamp},
    index::{Insert, Inserted, LeafSeen},
    log::{Pending, Receipt},
    observer::{Circumstances, Outcome},
    options::{Durability, Order, TxnOptions},
    platform::budget::Need,
    rows::{
        copies::Copied,
        in_place::{CommitTid, RecordPtr, RecordSlot, TidWord},
    },
    scheme::{
        Conflict, ConflictSite,
        in_place::{Begun, Declared, Entering, InPlace, Ranges, Reach},
    },
    sync::Spin,
    table::TableParts,
    table_name::TableName,
    txn::check_key,
    work::{Counts, Work},
};

/// A table of a database under scheme `P`.
pub(super) type TableOf<P> = TableParts<RecordSlot<<P as InPlace>::Control>>;
/// A record of such a table.
pub(super) type RecordOf<P> = RecordPtr<<P as InPlace>::Control>;

/// A transaction under scheme `P`.
pub(crate) struct Txn<'e, P: InPlace> {
    pub(super) engine: &'e Engine<P>,
    /// `None` once the transaction has ended.
    worker: Option<Box<Worker<P>>>,
    pub(super) read_only: bool,
    durability: Durability,
}

impl<'e, P: InPlace> Txn<'e, P> {
    /// Begins a transaction. `pinned`: the transaction runs through without waiting for input from outside, as in
    /// `Database::run`.
    pub(crate) fn begin(engine: &'e Engine<P>, options: &TxnOptions, pinned: bool) -> Result<Self> {
        if options.snapshot && !engine.options.scheme.has_snapshots() {
            let scheme = engine.options.scheme;
            return Err(Error::Options(format!(
                "scheme {scheme} has no snapshots: use a read-only transaction, or another scheme"
            )));
        }
        if !options.read_only && engine.budget.is_tight(0) {
            collect(|| engine.maintain());
        }
        let began = engine.options.observer.as_ref().map(|observer| observer.begins());
        let worker = match engine.workers.take() {
            Some(worker) => worker,
            None => Box::new(Worker::new(engine)?),
        };
        let durability = options.durability.unwrap_or(engine.options.durability);
        // The swap in `arrive` is the fence of the epoch.
        worker.nodes.pin_unfenced();
        worker.presence.arrive(pinned);
        let read_only = options.read_only || options.snapshot;
        let txn = Self { engine, worker: Some(worker), read_only, durability };
        let mut operation = txn.operation()?;
        if let (Some(began), Some(trace)) = (began, &mut operation.state.trace) {
            let session = options.session.clone();
            // Schemes with one version a row are strict, whatever order is requested.
            trace.circumstances =
                Circumstances { began, reads_snapshot: options.snapshot, order: Order::Strict, session };
        }
        if options.snapshot {
            let snapshot = engine.snapshots.open(&engine.epochs);
            operation.state.snapshot = Some(snapshot);
            operation.state.begin = snapshot.stamp();
            drop(operation);
            return Ok(txn);
        }
        operation.state.begin = operation.observed_from();
        let begun = P::begin(&engine.shared, &mut operation.state.scheme, pinned);
        match begun.map_err(|conflict| operation.lose(conflict))? {
            Begun::Running => {
                if P::DECLARES {
                    operation.declare(options.declared.as_deref())?;
                }
                drop(operation);
                Ok(txn)
            }
            Begun::Exhausted => {
                drop(operation);
                drop(txn);
                engine.begin_round()?;
                Self::begin(engine, options, pinned)
            }
        }
    }

    pub(super) fn worker(&self) -> &Worker<P> {
        self.worker.as_ref().expect("the worker is there until the transaction ends")
    }

    /// Begins an operation, unless the transaction has already failed.
    pub(super) fn operation(&self) -> Result<Operation<'_, P>> {
        let operation = self.any_operation();
        match &operation.state.doomed {
            None => Ok(operation),
            Some(doom) => Err(doom.error()),
        }
    }

    /// Begins the last operation, unless the transaction has lost a conflict: then everything has been undone already.
    fn last_operation(&self) -> Result<Operation<'_, P>> {
        let operation = self.any_operation();
        match operation.state.doomed.as_ref().and_then(Doom::abort) {
            None => Ok(operation),
            Some(abort) => Err(abort.clone().into()),
        }
    }

    fn any_operation(&self) -> Operation<'_, P> {
        let worker = self.worker();
        Operation { engine: self.engine, worker, nodes: worker.nodes.enter(), state: worker.state.borrow_mut() }
    }

    /// As [`Txn::operation`], for an operation that writes.
    pub(super) fn writing_operation(&self) -> Result<Operation<'_, P>> {
        if self.read_only { Err(Error::ReadOnly) } else { self.operation() }
    }

    /// The identity of the transaction's database.
    pub(crate) fn database(&self) -> &DatabaseId {
        self.engine.database()
    }

    /// Returns counts of the work done so far.
    pub(crate) fn work(&self) -> Result<Work> {
        let operation = self.operation()?;
        let Counts { rows_read, versions_walked } = operation.state.counts;
        let tracked_reads = P::tracked_reads(&operation.state.scheme) as u64;
        Ok(Work { rows_read, versions_walked, tracked_reads, log_bytes: operation.log_bytes()? })
    }

    /// Returns the conflict that the transaction has lost, if it has lost one.
    #[inline]
    pub(crate) fn doomed(&self) -> Option<Box<Abort>> {
        self.worker().state.borrow().doomed.as_ref().and_then(Doom::abort).cloned().map(Box::new)
    }

    /// Commits, or returns the reason why not; waits until the commit is durable, unless the options say otherwise.
    pub(crate) fn commit(self) -> Result<Stamp> {
        let durability = self.durability;
        let receipt = self.commit_async()?;
        if durability == Durability::Durable { receipt.wait() } else { Ok(receipt.stamp()) }
    }

    /// Commits in memory, or returns the reason why not.
    pub(crate) fn commit_async(self) -> Result<Receipt<'e>> {
        let ended = self.operation().and_then(|mut operation| operation.commit());
        self.end(ended)
    }

    /// Drops all writes of the transaction and commits its reads; waits until these are durable, unless the options say
    /// otherwise.
    pub(crate) fn commit_reads(self) -> Result<Stamp> {
        let durability = self.durability;
        let receipt = self.commit_reads_async()?;
        if durability == Durability::Durable { receipt.wait() } else { Ok(receipt.stamp()) }
    }

    /// As [`commit_reads`](Self::commit_reads), in memory.
    pub(crate) fn commit_reads_async(self) -> Result<Receipt<'e>> {
        let ended = self.last_operation().and_then(|mut operation| operation.commit_reads());
        self.end(ended)
    }

    fn end(mut self, ended: Result<(Stamp, u64)>) -> Result<Receipt<'e>> {
        let (stamp, last) = ended?;
        self.observe(Outcome::Committed(stamp));
        self.finish();
        let log = self.engine.log.as_deref().filter(|_| last > 0);
        Ok(Receipt::new(stamp, log.map(|log| Pending::Epoch(log, last))))
    }

    /// Releases all resources. The transaction has been committed or rolled back.
    fn finish(&mut self) {
        let Some(mut worker) = self.worker.take() else { return };
        if let Some(snapshot) = worker.state.get_mut().snapshot.take() {
            self.engine.close_snapshot(snapshot, &mut worker);
        }
        let state = worker.state.get_mut();
        let is_tight = self.engine.budget.is_tight(0);
        state.sets.clear(is_tight);
        drop(state.savepoints.end());
        state.positions.clear();
        state.copies.clear();
        state.reserved = 0;
        state.end_kept(is_tight, &self.engine.budget);
        state.doomed = None;
        state.last_tid = CommitTid::default();
        state.met_gap = false;
        let Counts { rows_read, versions_walked } = std::mem::take(&mut state.counts);
        worker.presence.counters.read(rows_read, versions_walked);
        worker.presence.leave();
        worker.nodes.unpin();
        worker.housekeep_sometimes(self.engine);
        self.engine.workers.give(worker);
    }
}

impl<P: InPlace> Drop for Txn<'_, P> {
    fn drop(&mut self) {
        if self.worker.is_none() {
            return;
        }
        if let Ok(mut operation) = self.last_operation()
            && operation.state.snapshot.is_none()
        {
            operation.roll_back();
        }
        self.observe(Outcome::Aborted);
        self.finish();
    }
}

/// One operation of a transaction.
pub(super) struct Operation<'t, P: InPlace> {
    pub(super) engine: &'t Engine<P>,
    pub(super) worker: &'t Worker<P>,
    pub(super) nodes: Guard<'t>,
    pub(super) state: RefMut<'t, State<P>>,
}

/// The state of a row as a transaction sees it.
pub(super) enum RowRead {
    /// This value.
    Row(Copied),
    /// No row: deleted, or not inserted yet.
    Nothing,
    /// The record has been removed from the table: the key must be looked up again.
    Gone,
}

impl<P: InPlace> Operation<'_, P> {
    /// Reads a row as the transaction sees it: its own write, or the value that the scheme lets it see.
    #[inline]
    pub(super) fn read_row(
        &mut self,
        table: &TableOf<P>,
        row: RowId,
        key: &[u8],
        site: ConflictSite,
    ) -> Result<RowRead> {
        let Some(record) = table.rows.slot(row).record() else { return Ok(RowRead::Gone) };
        self.check_declared(table, Some(key), Some(record), false)?;
        self.state.counts.rows_read += 1;
        if self.state.kept.is_due(1) {
            self.count_kept(Need::Work)?;
        }
        let at = self.observed_from();
        if let Some(snapshot) = self.state.snapshot {
            return Ok(self.read_snapshot(table, row, key, record, snapshot));
        }
        let State { scheme, sets, positions, copies, last_tid, .. } = &mut *self.state;
        if let Some(own) = positions.find(&sets.writes, record) {
            let value = sets.writes[own].value;
            if self.is_observed() {
                self.trace_own(table, key, value);
            }
            return Ok(value.map_or(RowRead::Nothing, RowRead::Row));
        }
        let read = P::read(&self.engine.shared, scheme, record, site, Some(copies));
        let (word, value) = match read {
            Ok(read) => read,
            Err(conflict) => return Err(self.lose(conflict)),
        };
        if word.is_gone() {
            return Ok(RowRead::Gone);
        }
        *last_tid = (*last_tid).max(word.tid());
        if self.is_observed() {
            self.trace_read(table, key, at, word, value);
        }
        Ok(value.map_or(RowRead::Nothing, RowRead::Row))
    }

    /// Counts the bytes kept for reads and writes in the budget; fails where these are too many.
    #[cold]
    pub(super) fn count_kept(&mut self, need: Need) -> Result<()> {
        let bytes = self.state.kept_bytes();
        self.state.kept.grow(bytes, &self.engine.budget, need)
    }

    /// Reads a row as it was at the end of the snapshot's epoch.
    fn read_snapshot(
        &mut self,
        table: &TableOf<P>,
        row: RowId,
        key: &[u8],
        record: RecordOf<P>,
        snapshot: Snapshot,
    ) -> RowRead {
        let State { copies, last_tid, .. } = &mut *self.state;
        let mark = copies.mark();
        let (word, value) = record.read(Some(copies));
        if word.is_gone() {
            return RowRead::Gone;
        }
        let (word, value) = if word.tid().epoch() <= snapshot.epoch {
            (word, value)
        } else {
            copies.rewind(mark);
            self.engine.snapshots.read((table.id, row), snapshot, copies).unwrap_or((TidWord::UNBORN, None))
        };
        *last_tid = (*last_tid).max(word.tid());
        if self.is_observed() {
            self.trace_read(table, key, snapshot.stamp(), word, value);
        }
        value.map_or(RowRead::Nothing, RowRead::Row)
    }

    /// Finds the records of the rows that the transaction will touch, and waits until it may touch them. A key that
    /// does not exist gets a record without a row.
    fn declare(&mut self, declared: Option<&AccessSet>) -> Result<()> {
        loop {
            let declared = match declared {
                None => Declared::Everything,
                Some(set) => {
                    let mut records = Vec::new();
                    for DeclaredKey { table, key, writes } in set.keys(self.engine.database())? {
                        check_key(key)?;
                        records.push((self.record_of(self.engine.tables.live(*table)?, key)?, *writes));
                    }
                    Declared::Records(records)
                }
            };
            match P::enter(&self.engine.shared, &mut self.state.scheme, declared) {
                Ok(Entering::Entered) => return Ok(()),
                Ok(Entering::Gone) => {}
                Err(conflict) => return Err(self.lose(conflict)),
            }
        }
    }

    /// Returns the record of a key; inserts one if there is none.
    fn record_of(&mut self, table: &TableOf<P>, key: &[u8]) -> Result<RecordOf<P>> {
        let mut spin = Spin::default();
        loop {
            let row = table.primary.get(&self.nodes, key).row;
            let found = row.and_then(|row| table.rows.slot(row).record()).filter(|record| !record.word().is_gone());
            if let Some(record) = found {
                return Ok(record);
            }
            if row.is_none() {
                let State { garbage, arena, .. } = &mut *self.state;
                arena.provide(RecordPtr::<P::Control>::bytes_for(0), Need::Work)?;
                let row = garbage.row_ids(table.id).take(&table.rows)?;
                let record = RecordPtr::create(arena, 0, P::Control::default());
                let word = record.lock();
                record.unlock(word.queued());
                table.rows.slot(row).set(Some(record));
                if let Insert::Done(_) = table.primary.insert_if_absent(&self.nodes, key, row) {
                    garbage.queue(Removal { table: table.id, row, key: SmallVec::from_slice(key) });
                    return Ok(record);
                }
                table.rows.slot(row).set(None);
                // SAFETY: no entry led to the row, so no thread has found the record.
                unsafe { record.destroy(arena) };
                garbage.row_ids(table.id).give(row);
            }
            spin.wait();
        }
    }

    /// Called before the transaction looks up or writes a key.
    #[inline]
    pub(super) fn reach_key(&mut self, table: &TableOf<P>, key: &[u8], writes: bool, site: ConflictSite) -> Result<()> {
        if !P::PARTITIONS {
            return Ok(());
        }
        self.reach(table.reach_of_key(key, writes)?, site)
    }

    /// Called before the transaction scans a range.
    pub(super) fn reach_range(
        &mut self,
        table: &TableOf<P>,
        index: IndexOrdinal,
        lower: &[u8],
        upper: Option<&[u8]>,
    ) -> Result<()> {
        if !P::PARTITIONS {
            return Ok(());
        }
        let site = self.state.sets.note(table.id, lower);
        self.reach(table.reach_of_range(index, lower, upper), site)
    }

    fn reach(&mut self, reach: Reach, site: ConflictSite) -> Result<()> {
        if self.state.snapshot.is_some() {
            return Ok(());
        }
        let reached = P::reach(&self.engine.shared, &mut self.state.scheme, reach, site);
        reached.map_err(|conflict| self.lose(conflict))
    }

    /// Fails where the transaction touches a row or range that it has not declared.
    #[inline]
    pub(super) fn check_declared(
        &self,
        table: &TableOf<P>,
        key: Option<&[u8]>,
        record: Option<RecordOf<P>>,
        writes: bool,
    ) -> Result<()> {
        if !P::DECLARES || self.state.snapshot.is_some() || P::is_declared(&self.state.scheme, record, writes) {
            return Ok(());
        }
        Err(Error::Undeclared { table: table.name_of_keys(), key: key.map(Into::into) })
    }

    /// Notes that the transaction has read a leaf, including the gaps between its entries. `false`: the leaf has
    /// changed since, read it again.
    #[inline]
    pub(super) fn saw_leaf(&mut self, index: IndexOrdinal, seen: &LeafSeen, site: ConflictSite) -> Result<bool> {
        self.state.met_gap = true;
        if self.state.snapshot.is_some() {
            return Ok(true);
        }
        match P::RANGES {
            Ranges::Excluded => {}
            Ranges::AtCommit => {
                self.state.sets.leaves.read(index, seen, site, None);
            }
            Ranges::Stamped => {
                let looked = P::look(&self.engine.shared, &mut self.state.scheme, seen.removed, site);
                let stamp = looked.map_err(|conflict| self.lose(conflict))?;
                return Ok(seen.leaf.validate(&self.nodes, seen.version, stamp));
            }
        }
        Ok(true)
    }

    /// Notes that the transaction inserted an entry into a leaf.
    pub(super) fn inserted(&mut self, index: IndexOrdinal, inserted: &Inserted, site: ConflictSite) -> Result<()> {
        match P::RANGES {
            Ranges::Excluded => Ok(()),
            Ranges::AtCommit => {
                self.state.sets.leaves.inserted((site.table, index), inserted);
                Ok(())
            }
            Ranges::Stamped => self.entered_gap(inserted.gap, site),
        }
    }

    /// Notes that the transaction has an entry in a leaf that others have scanned, with stamps up to `gap`.
    pub(super) fn entered_gap(&mut self, gap: Stamp, site: ConflictSite) -> Result<()> {
        let entered = P::enter_gap(&self.engine.shared, &mut self.state.scheme, gap, site);
        entered.map_err(|conflict| self.lose(conflict))
    }

    /// Names the table and key of a place.
    fn name_place(&self, site: Option<ConflictSite>) -> (Option<TableName>, Option<Box<[u8]>>) {
        let key = site.filter(|site| site.length > 0).map(|site| self.state.sets.key(site).into());
        (site.map(|site| self.engine.tables.get(site.table).name_of_keys()), key)
    }

    /// Rolls the transaction back after a lost conflict and creates the report.
    #[cold]
    pub(super) fn lose(&mut self, conflict: Conflict) -> Error {
        let abort = Box::new(conflict.report(|site| self.name_place(site)));
        self.roll_back();
        self.worker.presence.counters.aborted(abort.kind);
        self.state.doomed = Some(Doom::Lost(abort.clone()));
        Error::Abort(abort)
    }

    /// Handles the failure of a write. If it may have left the write half done, the transaction can only end.
    #[cold]
    pub(super) fn fail_write(&mut self, error: Error) -> Error {
        if let Some(doom) = Doom::of_write(&error) {
            self.state.doomed = Some(doom);
        }
        error
    }
}

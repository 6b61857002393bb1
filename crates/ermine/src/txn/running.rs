//! A running transaction and a single operation of it.

use std::{cell::RefMut, iter};

use crate::{
    clock::LogOffset,
    engine::Engine,
    epoch::Guard,
    error::{Abort, Doom, Error, Result},
    ids::{DatabaseId, IndexOrdinal, RowId, Stamp, TableId, Tid},
    index::{Inserted, LeafSeen},
    log::{Pending, Receipt},
    mutant::Mutant,
    observer::{Circumstances, Outcome},
    options::{Durability, Isolation, Options, Order, Session, TxnOptions},
    platform::budget::Need,
    rows::{
        chain::{Kind, Origin, VersionPtr},
        snapshots::Needs,
    },
    scheme::{Certifier, Conflict, ConflictSite, Running, Scheme, StampsOf},
    table::TableStore,
    table_name::TableName,
    txn::{
        leaf_set::ScannedRange,
        trace::LookupKey,
        visible::{Seen, visible},
    },
    work::{Counts, Work},
    worker::{State, Uncached, Worker},
};

/// A transaction under scheme `S`.
pub(crate) struct Txn<'e, S: Scheme> {
    pub(super) engine: &'e Engine<S>,
    /// `None` once the transaction has ended.
    worker: Option<Box<Worker<S>>>,
    /// Whether the transaction stays in the epoch of operations until it ends; otherwise it leaves that epoch between
    /// operations, which may take long.
    pub(super) pinned: bool,
    pub(super) read_only: bool,
    pub(super) isolation: Isolation,
    durability: Durability,
    session: Option<Session>,
}

impl<'e, S: Scheme> Txn<'e, S> {
    /// Begins a transaction. `pinned`: the transaction runs through without waiting for the application, as in
    /// `Database::run`.
    pub(crate) fn begin(engine: &'e Engine<S>, options: TxnOptions, pinned: bool) -> Result<Self> {
        if engine.is_tight() && (!options.read_only || engine.evicts()) {
            engine.make_room();
        }
        let began = engine.options.observer.as_ref().map(|observer| observer.begins());
        let mut worker = match engine.workers.take() {
            Some(worker) => worker,
            None => Box::new(Worker::new(engine)?),
        };
        let TxnOptions { read_only, snapshot, isolation, durability, order, session, tracks_all, replays, .. } =
            options;
        let order = match order.unwrap_or(engine.options.order) {
            Order::Session if session.is_none() => Order::Strict,
            order => order,
        };
        // The stamp up to which transactions come before this one; `None`: all that have been acknowledged.
        let after = match (order, &session) {
            (Order::Session, Some(session)) => Some(session.last()),
            (Order::None, _) => Some(Stamp::ZERO),
            (Order::Strict | Order::Session, _) => None,
        };
        let isolation = if snapshot { Isolation::Scheme } else { isolation };
        let asks_less = isolation == Isolation::Snapshot;
        let read_only = read_only || snapshot || engine.options.is_standby() && !replays;
        let uncertified = snapshot || asks_less || read_only && S::SNAPSHOT && S::Certifier::SNAPSHOT_IS_SERIAL;
        let needs = match S::SNAPSHOT || snapshot || asks_less {
            true if read_only && (uncertified || !S::Certifier::TRACKS) => Needs::Versions,
            true => Needs::Traces,
            false => Needs::Newer,
        };
        // The swap in `take` (or `join`) below is the fence of all epochs.
        worker.enter_transaction(needs, pinned);
        let begin = if snapshot && engine.options.is_standby() {
            let Some(begin) = engine.safe.join(&worker.slot, pinned) else {
                worker.leave_transaction(pinned);
                engine.workers.give(worker);
                return Err(Error::NoSnapshot);
            };
            begin
        } else if snapshot && !S::Certifier::SNAPSHOT_IS_SERIAL {
            engine.safe.take(&engine.shared.safe, &engine.shared.clock, &worker.slot, pinned, after)
        } else {
            worker.slot.take(&engine.shared.clock, needs, pinned)
        };
        let state = worker.state.get_mut();
        state.begin = begin;
        state.read_from = Stamp::ZERO;
        state.brought_in = 0;
        state.uncertified = uncertified;
        (state.tracks, state.certifies_some) = (!state.uncertified, false);
        // Every transaction acknowledged before has a stamp below `begin`: the stamp was taken before the offset was
        // read.
        let acknowledged = Stamp(begin.0 - 1);
        let after = after.map_or(acknowledged, |after| after.min(acknowledged));
        state.certifier.begin(LogOffset::commit_up_to(after));
        if tracks_all {
            state.certifier.track_all();
        }
        if let (Some(began), Some(trace)) = (began, &mut state.trace) {
            let reads_snapshot = S::SNAPSHOT || snapshot || asks_less;
            trace.circumstances = Circumstances { began, reads_snapshot, order, session: session.clone() };
        }
        let durability = durability.unwrap_or(engine.options.durability);
        Ok(Self { engine, worker: Some(worker), pinned, read_only, isolation, durability, session })
    }

    pub(super) fn worker(&self) -> &Worker<S> {
        self.worker.as_ref().expect("the worker is there until the transaction ends")
    }

    /// Begins an operation, unless the transaction is doomed.
    pub(super) fn operation(&self) -> Result<Operation<'_, S>> {
        self.resume(self.enter())
    }

    /// Enters the epochs for an operation.
    pub(super) fn enter(&self) -> Entered<'_> {
        self.rest();
        let pins = &self.worker().pins;
        Entered { versions: pins.versions.enter(), nodes: pins.nodes.enter() }
    }

    /// Lets epochs advance while the transaction waits between operations.
    pub(super) fn rest(&self) {
        self.worker().rest(self.pinned);
    }

    /// Begins an operation, even if the transaction is doomed.
    pub(super) fn last_operation<'t>(&'t self, entered: Entered<'t>) -> Operation<'t, S> {
        let worker = self.worker();
        Operation { engine: self.engine, worker, entered, state: worker.state.borrow_mut() }
    }

    /// Resumes an operation that was suspended.
    pub(super) fn resume<'t>(&'t self, entered: Entered<'t>) -> Result<Operation<'t, S>> {
        let operation = self.last_operation(entered);
        match &operation.state.doomed {
            None => Ok(operation),
            Some(doom) => Err(doom.error()),
        }
    }

    /// Works as [`Txn::operation`], for an operation that writes to a table.
    pub(super) fn writing_operation(&self, table: TableId) -> Result<Operation<'_, S>> {
        if self.read_only {
            return Err(if self.engine.options.is_standby() { Error::Standby } else { Error::ReadOnly });
        }
        self.worker().changed(table);
        self.operation()
    }

    /// Returns the open database that the transaction belongs to.
    pub(crate) fn database(&self) -> &DatabaseId {
        self.engine.database()
    }

    /// Returns the work that the transaction has done so far.
    pub(crate) fn work(&self) -> Result<Work> {
        let operation = self.operation()?;
        let Counts { rows_read, versions_walked } = operation.state.counts;
        let tracked_reads = operation.state.certifier.tracked_reads() as u64;
        Ok(Work { rows_read, versions_walked, tracked_reads, log_bytes: operation.log_bytes() })
    }

    /// Returns why the transaction is over, if it has lost a conflict.
    #[inline]
    pub(crate) fn doomed(&self) -> Option<Box<Abort>> {
        self.worker().state.borrow().doomed.as_ref().and_then(Doom::abort).cloned().map(Box::new)
    }

    /// Commits, or returns the reason why it cannot; waits as the transaction's durability asks.
    pub(crate) fn commit(self) -> Result<Stamp> {
        let durability = self.durability;
        let receipt = self.commit_async()?;
        if durability == Durability::Durable { receipt.wait() } else { Ok(receipt.stamp()) }
    }

    /// Commits in memory, or returns the reason why it cannot.
    pub(crate) fn commit_async(self) -> Result<Receipt<'e>> {
        let ended = self.operation().and_then(|mut operation| operation.commit());
        self.end(ended)
    }

    /// Undoes the transaction's writes and commits its reads; waits as the transaction's durability asks.
    pub(crate) fn commit_reads(self) -> Result<Stamp> {
        let durability = self.durability;
        let receipt = self.commit_reads_async()?;
        if durability == Durability::Durable { receipt.wait() } else { Ok(receipt.stamp()) }
    }

    /// Works as [`commit_reads`](Self::commit_reads), in memory.
    pub(crate) fn commit_reads_async(self) -> Result<Receipt<'e>> {
        let mut operation = self.last_operation(self.enter());
        let lost = operation.state.doomed.as_ref().and_then(Doom::abort).cloned();
        let ended = lost.map_or_else(|| operation.commit_reads(), |abort| Err(abort.into()));
        drop(operation);
        self.end(ended)
    }

    fn end(mut self, ended: Result<Stamp>) -> Result<Receipt<'e>> {
        let stamp = ended?;
        self.observe(Outcome::Committed(stamp));
        self.session.iter().for_each(|session| session.committed(stamp));
        let state = self.worker().state.borrow();
        let last = if state.sets.log_bytes == 0 { state.read_from } else { stamp };
        drop(state);
        self.finish();
        let log = self.engine.log.as_deref().filter(|_| last != Stamp::ZERO);
        Ok(Receipt::new(stamp, log.map(|log| Pending::Place(log, last.0))))
    }

    /// Releases everything. The transaction has been committed or undone.
    fn finish(&mut self) {
        let Some(mut worker) = self.worker.take() else { return };
        let state = worker.state.get_mut();
        state.discard_replaced();
        state.give_up_tid();
        for at in 0..state.sets.discarded.len() {
            let version = state.sets.discarded[at];
            state.retire_version(self.engine, version);
        }
        if let Some(tid) = state.prepared_as.take() {
            // After the stamps are stored in the versions (`prepared`, invariant 2), or after everything is undone.
            self.engine.shared.prepared.leave(tid);
        }
        debug_assert!(state.absences.is_empty(), "an absent version has outlived its transaction");
        state.certifier.end(&state.reader);
        let is_tight = self.engine.is_tight();
        state.sets.clear(is_tight);
        state.blocks.clear();
        state.end_kept(is_tight, &self.engine.budget);
        state.doomed = None;
        let Counts { rows_read, versions_walked } = std::mem::take(&mut state.counts);
        worker.slot.counters.read(rows_read, versions_walked);
        // After the stamps are stored in the versions that the transaction has read.
        worker.slot.known.clear();
        (state.has_lent, state.whole_tables) = (false, 0);
        worker.slot.leave();
        worker.leave_transaction(self.pinned);
        worker.housekeep_sometimes(self.engine);
        self.engine.workers.give(worker);
    }
}

impl<S: Scheme> Drop for Txn<'_, S> {
    fn drop(&mut self) {
        if self.worker.is_none() {
            return;
        }
        self.last_operation(self.enter()).undo();
        self.observe(Outcome::Aborted);
        self.finish();
    }
}

/// The guards of the epochs that an operation is inside of.
pub(super) struct Entered<'t> {
    pub(super) versions: Guard<'t>,
    pub(super) nodes: Guard<'t>,
}

/// One operation of a transaction, inside the epochs.
pub(crate) struct Operation<'t, S: Scheme> {
    pub(super) engine: &'t Engine<S>,
    pub(super) worker: &'t Worker<S>,
    pub(super) entered: Entered<'t>,
    pub(super) state: RefMut<'t, State<S>>,
}

/// The result of reading a row for a transaction.
pub(super) enum RowRead<H> {
    /// The version that the transaction sees.
    Live(VersionPtr<H>),
    /// No row: deleted, or not inserted yet.
    Nothing,
    /// The row is being removed from the table: look the key up again.
    Gone,
}

impl<'t, S: Scheme> Operation<'t, S> {
    /// Releases the worker's state, so that the application may use the transaction, but stays inside the epochs.
    pub(super) fn suspend(self) -> Entered<'t> {
        self.entered
    }

    /// Reads a row as [`Operation::read_row`] does in the usual case: its newest version is a row, and committed before
    /// the transaction began, or at all where no snapshot is read. Returns whether it is that case; if not, nothing is
    /// noted. The caller has counted the read ([`Operation::count_reads`]).
    ///
    /// `head` was the newest version at a time since the transaction began, under the guards that are still held, and
    /// the transaction has not written the row since. Under a snapshot it is then still the version to be read: later
    /// ones have stamps above the beginning.
    #[inline(always)]
    pub(super) fn read_settled(
        &mut self,
        table: &TableStore<StampsOf<S>>,
        head: VersionPtr<StampsOf<S>>,
        site: ConflictSite,
    ) -> Result<bool> {
        let Origin::At(created) = head.origin().load() else { return Ok(false) };
        let is_seen = created < self.state.begin || !self.reads_snapshot() && created != Stamp::INFINITY;
        if !is_seen || head.kind() != Kind::Live || self.is_observed() {
            return Ok(false);
        }
        self.state.counts.rows_read += 1;
        self.state.reads_from(table, created);
        self.track(table, head, created, site)?;
        Ok(true)
    }

    /// Reads rows of a table, of at most 32 given by their newest versions and places, as [`Operation::read_settled`]
    /// reads one. Returns the others: a bit each.
    #[inline]
    pub(super) fn read_all_settled(
        &mut self,
        table: &TableStore<StampsOf<S>>,
        heads: &[Option<VersionPtr<StampsOf<S>>>],
        sites: impl Iterator<Item = ConflictSite>,
    ) -> Result<u32> {
        if self.is_observed() {
            return Ok(u32::MAX);
        }
        let snapshot = self.reads_snapshot();
        let State { tracks, certifier, tids, tid, reader, begin, .. } = &mut *self.state;
        let (begin, mut others, mut newest) = (*begin, 0_u32, Stamp::ZERO);
        let settled = heads.iter().zip(sites).enumerate().filter_map(|(at, (head, site))| {
            if let Some(head) = *head
                && let Origin::At(created) = head.origin().load()
                && (created < begin || !snapshot && created != Stamp::INFINITY)
                && head.kind() == Kind::Live
            {
                newest = newest.max(created);
                return Some((head, created, site));
            }
            others |= 1 << at;
            None
        });
        let read = if !*tracks {
            settled.for_each(drop);
            Ok(())
        } else {
            let (rows, staleness, table_readers) = (&table.rows, &table.beside.staleness, &table.beside.readers);
            let tracked = certifier.tracked_reads();
            let read = certifier.read_all(
                staleness,
                || Running { slot: reader, tids, tid, begin, table_readers, rows: rows.count() },
                settled,
            );
            self.knows(table.id, tracked, heads.iter().copied().flatten());
            read
        };
        self.state.reads_from(table, newest);
        self.state.counts.rows_read += heads.len() as u64 - u64::from(others.count_ones());
        read.map_err(|conflict| self.lose(conflict))?;
        Ok(others)
    }

    /// Counts the memory of the transaction's sets now and then: before so many reads of rows.
    #[inline]
    pub(super) fn count_reads(&mut self, reads: usize) -> Result<()> {
        if self.state.kept.is_due(reads as u32) { self.count_read_sets() } else { Ok(()) }
    }

    /// Reads a row as the transaction sees it, and tracks the read.
    pub(super) fn read_row(
        &mut self,
        table: &TableStore<StampsOf<S>>,
        row: RowId,
        sought: LookupKey<'_>,
        site: ConflictSite,
    ) -> Result<RowRead<StampsOf<S>>> {
        self.count_reads(1)?;
        if let Some(head) = table.rows.slot(row).head()
            && self.read_settled(table, head, site)?
        {
            return Ok(RowRead::Live(head));
        }
        self.read_unsettled(table, row, sought, site)
    }

    /// Reads a row in any case.
    fn read_unsettled(
        &mut self,
        table: &TableStore<StampsOf<S>>,
        row: RowId,
        sought: LookupKey<'_>,
        site: ConflictSite,
    ) -> Result<RowRead<StampsOf<S>>> {
        let at = self.observed_from();
        let Some(head) = table.rows.slot(row).head() else {
            // To be read again: the row is in memory now, or gone.
            self.bring_in(table, row, Need::Work)?;
            return Ok(RowRead::Gone);
        };
        let needs = self.worker.needs();
        let State { begin, tid, counts, .. } = &mut *self.state;
        counts.rows_read += 1;
        let seen = visible::<S>(&self.engine.shared, *begin, needs, *tid, head, || counts.versions_walked += 1);
        if self.is_observed() {
            self.trace_read(table, sought, head, at, &seen)?;
        }
        let version = match seen {
            Seen::Own(version) => version,
            Seen::At(version, created) => {
                self.state.reads_from(table, created);
                self.track(table, version, created, site)?;
                version
            }
            Seen::Nothing => return Ok(RowRead::Nothing),
        };
        Ok(if version.kind() == Kind::Live { RowRead::Live(version) } else { RowRead::Nothing })
    }

    /// Loads a row's newest version from its file, if it is in the file only.
    #[cold]
    pub(super) fn bring_in(&mut self, table: &TableStore<StampsOf<S>>, row: RowId, need: Need) -> Result<()> {
        let Some(store) = &self.engine.store else { return Ok(()) };
        let State { arena, blocks, brought_in, .. } = &mut *self.state;
        *brought_in += store.bring_in(table, row, blocks, arena, need)? as u64;
        let kept = self.state.kept_bytes();
        self.state.kept.set(kept, &self.engine.budget);
        Ok(())
    }

    /// Reads a row to be shown once, without bringing it into memory, if the row is only in its file and the transaction
    /// has brought in so much that it keeps nothing more for such reads. No transaction knows the version that is returned.
    ///
    /// Where reads are tracked, the transaction reads the whole table from then on. An overwriter of the row, which first
    /// brings it in and marks it, checks the table's readers after that: so either it finds this transaction there, or
    /// this one does not find the row in its file any more (`scheme::escalation`, invariant 1).
    #[cold]
    pub(super) fn read_uncached(
        &mut self,
        table: &TableStore<StampsOf<S>>,
        row: RowId,
        sought: LookupKey<'_>,
        site: ConflictSite,
        uncached: &mut Uncached<'_, S>,
    ) -> Result<Option<VersionPtr<StampsOf<S>>>> {
        let Some(store) = &self.engine.store else { return Ok(None) };
        let at = self.observed_from();
        let is_kept = table.rows.slot(row).stored().is_none() || table.is_kept_in_memory() || !self.keeps_nothing();
        if is_kept || !self.reads_whole(table) {
            return Ok(None);
        }
        let State { arena, blocks, .. } = &mut *self.state;
        let Some(version) = store.read_uncached(table, row, blocks, arena)? else { return Ok(None) };
        uncached.push(version);
        let created = match version.origin().load() {
            Origin::At(created) if created < self.state.begin || !self.reads_snapshot() => created,
            // No row that is younger than a snapshot leaves memory.
            _ => return Ok(None),
        };
        self.state.counts.rows_read += 1;
        self.state.read_from = self.state.read_from.max(created);
        if self.is_observed() {
            self.trace_read(table, sought, version, at, &Seen::At(version, created))?;
        }
        if self.state.tracks {
            let read = self.state.certifier.read_stored(created, site);
            read.map_err(|conflict| self.lose(conflict))?;
        }
        Ok(Some(version))
    }

    /// Whether reads for one look are to keep no row in memory any more.
    fn keeps_nothing(&self) -> bool {
        let Options { uncached_after, .. } = self.engine.options;
        let State { brought_in, certifier, .. } = &*self.state;
        // What is free may be of other sizes.
        let is_short = || uncached_after == 0 || self.engine.is_filled() || self.engine.budget.is_tight(0);
        let is_due = *brought_in >= uncached_after && is_short();
        is_due && !certifier.tracks_all()
    }

    /// Whether the transaction reads a table as a whole, or its reads need no tracking: it begins to do so if it can.
    pub(super) fn reads_whole(&mut self, table: &TableStore<StampsOf<S>>) -> bool {
        let State { tracks, certifier, tids, tid, reader, begin, .. } = &mut *self.state;
        let (begin, table_readers, rows) = (*begin, &table.beside.readers, table.rows.count());
        if !*tracks || Mutant::UncachedUntold.is_on() {
            return true;
        }
        let reads_whole =
            certifier.read_whole(table.id, Running { slot: reader, tids, tid, begin, table_readers, rows });
        if certifier.whole_tables() != self.state.whole_tables {
            self.forget_untracked();
        }
        reads_whole
    }

    /// Notes that the transaction knows versions of a table that the certifier has just been told of, when it had
    /// tracked that many reads before. One that reads the table as a whole does not keep them.
    #[inline(always)]
    fn knows(&mut self, table: TableId, tracked: usize, versions: impl Iterator<Item = VersionPtr<StampsOf<S>>>) {
        if !S::Certifier::TRACKS {
            return;
        }
        let certifier = &self.state.certifier;
        if !certifier.reads_whole(table) || certifier.tracked_reads() > tracked {
            versions.for_each(|version| self.worker.slot.known.add(version.address()));
        } else if certifier.whole_tables() != self.state.whole_tables {
            self.forget_untracked();
        }
    }

    /// Forgets the versions that the transaction has read without tracking, if it has begun to read all their tables as
    /// a whole: their overwriters find it there.
    #[cold]
    fn forget_untracked(&mut self) {
        let State { certifier, whole_tables, has_lent, .. } = &mut *self.state;
        *whole_tables = certifier.whole_tables();
        if let (false, Some(kept)) = (*has_lent, certifier.kept_versions()) {
            self.worker.slot.known.keep_only(kept.map(|version| version.address()));
        }
    }

    /// Reports the size of the sets for a read. Where rows can be evicted, the reserve may be used: what goes beyond the
    /// mark of the rows makes them leave.
    #[cold]
    fn count_read_sets(&mut self) -> Result<()> {
        let evicts = self.engine.evicts();
        self.count_kept(Need::Work).or_else(|error| if evicts { self.count_kept(Need::Shrink) } else { Err(error) })
    }

    /// Reports the size of the transaction's read and write sets to the budget; fails where they are too large.
    #[cold]
    pub(super) fn count_kept(&mut self, need: Need) -> Result<()> {
        let bytes = self.state.kept_bytes();
        self.state.kept.grow(bytes, &self.engine.budget, need)
    }

    /// Tracks the read of a version.
    #[inline(always)]
    pub(super) fn track(
        &mut self,
        table: &TableStore<StampsOf<S>>,
        version: VersionPtr<StampsOf<S>>,
        created: Stamp,
        site: ConflictSite,
    ) -> Result<()> {
        let State { tracks, certifier, tids, tid, reader, begin, .. } = &mut *self.state;
        if !*tracks {
            return Ok(());
        }
        let rows = &table.rows;
        let (staleness, table_readers) = (&table.beside.staleness, &table.beside.readers);
        let begin = *begin;
        let tracked = certifier.tracked_reads();
        let read = certifier.read(
            staleness,
            move || Running { slot: reader, tids, tid, begin, table_readers, rows: rows.count() },
            (version, created, site),
        );
        self.knows(table.id, tracked, iter::once(version));
        read.map_err(|conflict| self.lose(conflict))
    }

    /// Makes the transaction come after a commit at `stamp` that left no version.
    pub(super) fn follow(&mut self, stamp: Stamp, site: ConflictSite) -> Result<()> {
        if !self.state.tracks {
            return Ok(());
        }
        let followed = self.state.certifier.follow(stamp, site);
        followed.map_err(|conflict| self.lose(conflict))
    }

    /// Notes that the transaction has read a leaf for the keys in `scanned`; returns the leaf's position in the leaf
    /// set, if it was added.
    pub(super) fn saw_leaf(
        &mut self,
        index: IndexOrdinal,
        seen: &LeafSeen,
        site: ConflictSite,
        scanned: Option<ScannedRange>,
    ) -> Result<Option<usize>> {
        let removed = match self.worker.needs() {
            // What was removed later may have been made later, too.
            Needs::Versions => seen.removed.min(Stamp(self.state.begin.0 - 1)),
            Needs::Newer | Needs::Traces => seen.removed,
        };
        self.state.read_from = self.state.read_from.max(removed);
        if !S::Certifier::TRACKS || !self.state.tracks {
            return Ok(None);
        }
        let at = self.state.sets.leaves.read(index, seen, site, scanned);
        self.follow(seen.removed, site)?;
        Ok(Some(at))
    }

    /// Notes that the transaction looked for a key in a leaf and found nothing.
    pub(super) fn missed(&mut self, seen: &LeafSeen, site: ConflictSite, key: &[u8]) -> Result<()> {
        let noted = site.length as usize == key.len();
        self.saw_leaf(IndexOrdinal::PRIMARY, seen, site, noted.then_some(ScannedRange::at(site)))?;
        Ok(())
    }

    /// Notes that the transaction inserted an entry into a leaf: it comes after the transactions that looked there
    /// before.
    pub(super) fn inserted(&mut self, index: IndexOrdinal, inserted: &Inserted, site: ConflictSite) -> Result<()> {
        if !S::Certifier::TRACKS {
            return Ok(());
        }
        self.state.sets.leaves.inserted((site.table, index), inserted);
        self.entered_gap(inserted.gap, site)
    }

    /// Notes that the transaction has an entry in a leaf that others read, up to `stamp`, without seeing the entry.
    pub(super) fn entered_gap(&mut self, stamp: Stamp, site: ConflictSite) -> Result<()> {
        if !S::Certifier::TRACKS {
            return Ok(());
        }
        let entered = self.state.certifier.enter_gap(stamp, site);
        entered.map_err(|conflict| self.lose(conflict))
    }

    /// Returns the transaction's TID, which is taken with its first write or for its stamp.
    pub(super) fn tid(&mut self) -> Result<Tid> {
        if let Some(tid) = self.state.tid {
            return Ok(tid);
        }
        let tid = self.state.tids.begin().ok_or(Error::Limit("64 Ki running transactions"))?;
        self.state.tid = Some(tid);
        Ok(tid)
    }

    /// Returns the table name and the key of a place.
    fn name_place(&self, site: Option<ConflictSite>) -> (Option<TableName>, Option<Box<[u8]>>) {
        let key = site.filter(|site| site.length > 0).map(|site| self.state.sets.key(site).into());
        (site.map(|site| self.engine.table(site.table).name_of_keys()), key)
    }

    /// Returns whether the transaction reads the snapshot taken at its beginning.
    pub(super) fn reads_snapshot(&self) -> bool {
        S::SNAPSHOT || self.state.uncertified
    }

    /// Dooms the transaction, which has lost: undoes it and builds the report. A transaction that may try again from a
    /// savepoint with another snapshot keeps its writes, until it rolls back to the savepoint or ends.
    #[cold]
    pub(super) fn lose(&mut self, conflict: Conflict) -> Error {
        if let Some(table) = conflict.untracked {
            self.engine.table(table).beside.staleness.raise();
        }
        let abort = Box::new(conflict.report(|site| self.name_place(site)));
        if !(self.state.uncertified && self.state.savepoints.any()) {
            self.state.discard_replaced();
            self.undo();
        }
        self.worker.changed_all();
        self.worker.slot.counters.aborted(abort.kind);
        self.state.doomed = Some(Doom::Lost(abort.clone()));
        Error::Abort(abort)
    }

    /// Dooms the transaction if a write may have failed in the middle; it can then only end.
    #[cold]
    pub(super) fn fail_write(&mut self, error: Error) -> Error {
        if let Some(doom) = Doom::of_write(&error) {
            self.state.doomed = Some(doom);
        }
        error
    }
}

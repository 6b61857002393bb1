//! The end of a transaction, in the same steps for every scheme.
//!
//! Commit: compose the log record and announce it -> lock the words of all records that are written, in the order of
//! their addresses -> insert and note their index entries -> read the epoch, choose the TID -> let the scheme certify
//! the reads -> validate the leaves -> append the log record -> store the values and unlock -> let the scheme release
//! its resources. Roll back: remove the index entries that no row needs -> let the scheme release its resources;
//! inserted keys are removed like deleted ones.
//!
//! Why the epochs of transactions are in serial order (SiloR 2.1): take T1 that writes a record that T2 has read. T2
//! reads the epoch, then finds the record not locked; T1 locks it, then reads the epoch. All four are sequentially
//! consistent, so T1's lock comes after T2's check, and T1's epoch is not below T2's. (Under `tso-validate` T2 checks
//! for T1's mark, which is set before the lock.) Where T2 reads or overwrites a row that T1 has written, it does so
//! after T1 has unlocked.
//!
//! Under `sto` and `tso` a reader does not validate its reads at commit, and may commit in a later epoch than a
//! transaction that overwrote what it has read, after that transaction in the order of timestamps. The durable commits
//! up to an epoch are closed under "read from" and "overwrote" there, too.

use smallvec::SmallVec;

use super::{
    engine::Engine,
    pending::Write,
    removal::{Removal, Retired},
    running::Operation,
    worker::State,
};
use crate::{
    error::{AbortKind, Dependency, Result},
    ids::Stamp,
    mutant::Mutant,
    rows::in_place::{CommitTid, TidWord},
    scheme::{
        Cause, Conflict,
        in_place::{InPlace, Ranges, stale},
    },
    sync::Spin,
    txn::write_set::NeededEntry,
};

impl<P: InPlace> Operation<'_, P> {
    /// Commits; returns the TID, and the epoch that has to be durable before the commit is acknowledged.
    pub(super) fn commit(&mut self) -> Result<(Stamp, u64)> {
        let committed = if self.state.snapshot.is_some() {
            self.place_of_reads()
        } else {
            let committed = if self.state.sets.writes.is_empty() {
                self.certify(0)?;
                self.place_of_reads()
            } else {
                let tid = self.commit_writes()?;
                (tid.stamp(), tid.epoch())
            };
            P::end(&self.engine.shared, &mut self.state.scheme, true);
            committed
        };
        self.worker.presence.counters.committed();
        Ok(committed)
    }

    /// Certifies the reads of the transaction, then drops its writes, none of which is in a record. Returns the place
    /// of the reads, and the epoch that has to be durable before the end is acknowledged.
    pub(super) fn commit_reads(&mut self) -> Result<(Stamp, u64)> {
        if self.state.snapshot.is_some() {
            return Ok(self.place_of_reads());
        }
        if !Mutant::UncertifiedError.is_on() {
            self.put_entries_again()?;
            self.check_writes()?;
            self.certify(0)?;
        }
        let site = self.place_of_reads();
        self.roll_back();
        if let Some(trace) = &mut self.state.trace {
            trace.forget_writes(0);
        }
        Ok(site)
    }

    /// Fails if a row that the transaction has written may have been missing from its own scans: then it has read what
    /// no serial order shows, although its reads are certified. The removal of a key or of an entry changes the word.
    fn check_writes(&mut self) -> Result<()> {
        let mut writes = self.state.sets.writes.iter();
        match writes.find(|write| self.engine.is_stale(write, write.record.word())).map(|write| write.site) {
            None => Ok(()),
            Some(site) => Err(self.lose(stale(site))),
        }
    }

    /// Returns the place of a transaction without writes in the order of commits, and the epoch of the last commit that
    /// it has read.
    fn place_of_reads(&self) -> (Stamp, u64) {
        let State { snapshot, last_tid, own_tid, .. } = &*self.state;
        let stamp = match snapshot {
            Some(snapshot) => Stamp(snapshot.stamp().0 - 1),
            None if self.is_observed() => self.engine.epochs.told(),
            None => (*last_tid).max(*own_tid).stamp(),
        };
        (stamp, self.read_from())
    }

    fn commit_writes(&mut self) -> Result<CommitTid> {
        self.write_draft()?;
        self.lock_writes()?;
        self.settle()?;
        let tid = self.choose_tid();
        self.certify(self.state.locked)?;
        self.state.own_tid = tid;
        self.append_draft(tid);
        self.put_in(tid);
        Ok(tid)
    }

    /// Locks the records that the transaction writes. Positions among the writes are invalid afterwards.
    fn lock_writes(&mut self) -> Result<()> {
        let State { sets, locked, last_tid, .. } = &mut *self.state;
        sets.writes.sort_unstable_by_key(|write| write.record);
        for at in 0..sets.writes.len() {
            let write = &mut sets.writes[at];
            let word = write.record.lock();
            *locked = at + 1;
            let is_stale = self.engine.is_stale(write, word);
            // A rollback, too, unlocks the record with this word.
            write.word = word;
            if is_stale {
                let site = write.site;
                return Err(self.lose(stale(site)));
            }
            *last_tid = (*last_tid).max(word.tid());
        }
        Ok(())
    }

    /// Inserts missing entries of secondary indexes, and notes the stale ones.
    fn settle(&mut self) -> Result<()> {
        let known = self.state.sets.entries.len();
        if known > 1 {
            self.state.sets.entries.sort_unstable_by_key(NeededEntry::group);
        }
        for at in 0..self.state.sets.writes.len() {
            let write = &self.state.sets.writes[at];
            let table = self.engine.tables.get(write.site.table);
            if table.has_secondaries() && write.moves {
                self.settle_entries(table, at, known)?;
            }
        }
        Ok(())
    }

    /// Chooses the transaction's place: all its locks are held, and its reads are certified next.
    fn choose_tid(&self) -> CommitTid {
        let mut spin = Spin::default();
        loop {
            let epoch = self.engine.epochs.current();
            if let Some(tid) = self.state.last_tid.max(self.state.own_tid).next_in(epoch) {
                return if self.is_observed() { self.engine.epochs.tell_apart(tid) } else { tid };
            }
            // The epoch has no more TIDs: advance to the next one.
            self.engine.epochs.advance();
            spin.wait();
        }
    }

    /// Certifies the transaction's reads; the first `locked` of its writes are locked.
    fn certify(&mut self, locked: usize) -> Result<()> {
        let State { scheme, sets, .. } = &mut *self.state;
        let own = &sets.writes[..locked];
        let is_own = |record| own.binary_search_by_key(&record, |write| write.record).is_ok();
        let mut certified = P::certify(&self.engine.shared, scheme, is_own);
        if certified.is_ok()
            && P::RANGES == Ranges::AtCommit
            && !sets.leaves.reads().is_empty()
            && !Mutant::NoLeafValidation.is_on()
        {
            let changed = sets.leaves.changed(&self.nodes, Stamp::ZERO).next();
            certified = changed.map_or(Ok(()), |leaf| {
                let cause = Cause::new(Stamp::INFINITY, Dependency::InsertedBy, leaf.site);
                Err(Conflict::before(AbortKind::Phantom, cause))
            });
        }
        certified.map_err(|conflict| self.lose(conflict))
    }

    /// Stores the values in their records and unlocks these.
    fn put_in(&mut self, tid: CommitTid) {
        if self.engine.snapshots.is_before(tid.epoch()) {
            self.keep_for_snapshots(tid.epoch());
        }
        let (engine, nodes) = (self.engine, &self.nodes);
        let State { sets, arena, garbage, .. } = &mut *self.state;
        for write in &sets.writes {
            if Mutant::UnlockedEarly.is_on() {
                write.record.unlock(TidWord::written(tid, write.value.is_some()));
            }
            if let Some(value) = write.value
                && let Some(block) = write.record.store(arena, value.bytes(nodes))
            {
                garbage.retired.push(&engine.nodes, Retired::Block(block));
            }
        }
        self.remove_stale_entries(tid);
        let State { sets, garbage, locked, .. } = &mut *self.state;
        *locked = 0;
        for write in &sets.writes {
            let leaves = write.value.is_none() && !write.word.is_queued();
            let word = TidWord::written(tid, write.value.is_some());
            if !Mutant::UnlockedEarly.is_on() {
                write.record.unlock(if leaves { word.queued() } else { word.queued_as(write.word) });
            }
            if leaves {
                let (table, key) = (write.site.table, SmallVec::from_slice(sets.key(write.site)));
                garbage.queue(Removal { table, row: write.row, key });
            }
        }
    }

    /// Keeps the old states of the rows that the transaction overwrites, for snapshots.
    #[cold]
    fn keep_for_snapshots(&mut self, epoch: u64) {
        let (engine, nodes) = (self.engine, &self.nodes);
        let State { sets, copies, .. } = &mut *self.state;
        let mark = copies.mark();
        for write in sets.writes.iter().filter(|write| !write.word.is_unborn()) {
            let is_row = !write.word.is_absent();
            let value = || is_row.then(|| write.record.copy_locked(copies).bytes(nodes).into());
            engine.snapshots.keep((write.site.table, write.row), write.word, epoch, value);
            copies.rewind(mark);
        }
    }

    /// Rolls the transaction back. It holds nothing afterwards; the values it has read stay readable until it ends.
    pub(super) fn roll_back(&mut self) {
        let State { sets, locked, .. } = &mut *self.state;
        for write in &sets.writes[..*locked] {
            write.record.unlock(write.word);
        }
        *locked = 0;
        self.give_up_draft();
        self.state.stale_entries.clear();
        self.take_back_entries();
        let State { scheme, sets, garbage, .. } = &mut *self.state;
        P::end(&self.engine.shared, scheme, false);
        for write in &sets.writes {
            if !write.record.word().is_absent() {
                continue;
            }
            // Inserted by the transaction, or found without a row: the key has to be removed.
            let word = write.record.lock();
            let leaves = word.is_absent() && !word.is_gone() && !word.is_queued();
            write.record.unlock(if leaves { word.queued() } else { word });
            if leaves {
                let (table, key) = (write.site.table, SmallVec::from_slice(sets.key(write.site)));
                garbage.queue(Removal { table, row: write.row, key });
            }
        }
        sets.writes.clear();
        sets.leaves.clear();
        self.state.positions.clear();
    }
}

impl<P: InPlace> Engine<P> {
    /// Whether a written record has left the index, or another transaction has written it since its entries were
    /// compared with those of the value, or the table's indexes have changed since the write; `word` is its word now.
    /// A transaction that commits has locked the record (index_build.rs).
    fn is_stale(&self, write: &Write<P::Control>, word: TidWord) -> bool {
        let has_moved = || {
            let indexes = self.tables.get(write.site.table).index_set();
            let has_changed = indexes != write.indexes && !Mutant::IndexBuiltEarly.is_on();
            let is_other = !indexes.is_empty() && !write.word.says_same_as(word);
            has_changed || is_other && !Mutant::EntriesNotSettled.is_on()
        };
        word.is_gone() || has_moved()
    }
}

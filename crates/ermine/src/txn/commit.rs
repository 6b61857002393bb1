//! The end of a transaction: the engine's work around the steps of [`super::commit_order`].
//!
//! Commit: the leaf set is validated ([`super::leaves`]) before the certifier's final decision; afterwards the
//! superseded versions are queued. Undo: index entries that the transaction inserted are removed again.

use smallvec::SmallVec;

use super::{
    commit_order::{Ending, Unlogged, Unwritten},
    journal::Logged,
    leaves::Validation,
    running::Operation,
};
use crate::{
    error::Result,
    ids::{IndexOrdinal, Stamp},
    mutant::Mutant,
    reclaim::{Superseded, remove_unused_entry},
    rows::chain::{CertifierStamps, Kind, VersionPtr},
    savepoints::Mark,
    scheme::{Certifier, Conflict, Scheme, StampsOf},
    sync::Spin,
    worker::State,
};

/// Bytes of a block's header in the log.
const BLOCK_BYTES: u64 = 32;

impl<S: Scheme> Operation<'_, S> {
    /// Commits; returns the transaction's place in the order of commits.
    pub(super) fn commit(&mut self) -> Result<Stamp> {
        // From here on a conflict undoes everything.
        self.state.discard_replaced();
        let stamp = self.certify_and_publish()?;
        self.worker.slot.counters.committed();
        Ok(stamp)
    }

    /// Undoes the transaction's writes, then commits it as one that has only read: the versions that its writes
    /// overwrote count as read ([`super::savepoints`]). Returns the place of the reads in the order of commits.
    pub(super) fn commit_reads(&mut self) -> Result<Stamp> {
        self.state.discard_replaced();
        self.undo_since(Mark::START)?;
        self.state.uncertified |= Mutant::UncertifiedError.is_on();
        self.certify_and_publish()
    }

    fn certify_and_publish(&mut self) -> Result<Stamp> {
        match self.commit_read_only()? {
            Some(stamp) => Ok(stamp),
            None => self.commit_with_stamp(),
        }
    }

    /// Commits a transaction without writes just below its snapshot, where no writer's stamp is. Returns `None` when it
    /// must take a stamp after all (SSN 5.2: one of its reads was overwritten by a transaction that reaches back
    /// further).
    fn commit_read_only(&mut self) -> Result<Option<Stamp>> {
        if !self.state.sets.writes.is_empty() {
            return Ok(None);
        }
        let stamp = Stamp(self.state.begin.0 - 1);
        if S::Certifier::SNAPSHOT_IS_SERIAL || self.state.uncertified || Mutant::ReadOnlyAnyway.is_on() {
            return Ok(Some(stamp));
        }
        // Without a snapshot there is no point in time at which all its reads were the newest.
        if !S::SNAPSHOT || !self.state.certifier.certify_read_only(&self.engine.shared, stamp) {
            return Ok(None);
        }
        if !self.validate_read_only(stamp)? {
            return Ok(None);
        }
        let State { tids, reader, certifier, .. } = &mut *self.state;
        if !certifier.end_read_only(tids, reader, stamp) {
            return Ok(None);
        }
        // The TID is given up at once: overwriters wait for it.
        self.state.give_up_tid();
        Ok(Some(stamp))
    }

    // Apart from the read-only path, whose frame is much smaller.
    #[inline(never)]
    fn commit_with_stamp(&mut self) -> Result<Stamp> {
        /// With a higher stamp, a transaction that has read nothing can avoid the conflict that it lost.
        const ATTEMPTS: usize = 16;
        let (mut attempts, mut spin) = (0, Spin::default());
        loop {
            match self.try_stamp()? {
                Ok(stamp) => {
                    self.state.tid = None;
                    self.queue_superseded(stamp);
                    return Ok(stamp);
                }
                Err(_) if !self.state.is_certified() && attempts < ATTEMPTS => {
                    attempts += 1;
                    self.state.tids.mark_running();
                    // Discards the findings for the lower stamp.
                    self.state.certifier.begin(Stamp::ZERO);
                }
                Err(_) if self.state.prepared_as.is_some() => {
                    // Its reads stay unchanged, so the conflict depends on the stamp alone (`prepared`, invariant 4).
                    self.state.tids.mark_running();
                    self.state.certifier.try_again();
                    // A transaction that is entered only while it is being prepared is not an overwriter.
                    let alone = self.engine.shared.prepared.begin();
                    assert!(self.reads_hold(), "what a prepared transaction has read was overwritten");
                    drop(alone);
                    spin.wait();
                }
                Err(conflict) => return Err(self.lose(conflict)),
            }
        }
    }

    /// Takes a stamp and tries to commit under it.
    fn try_stamp(&mut self) -> Result<Result<Stamp, Conflict>> {
        let tid = self.tid()?;
        let log = self.engine.log.as_deref().filter(|_| !self.state.sets.writes.is_empty());
        if let Some(log) = log
            && let Err(error) = self.write_draft(log)
        {
            self.settle_blobs(false);
            if let Some(position) = &mut self.state.position {
                // Overflow blocks that were already spilled belong to no transaction.
                position.skip(log);
            }
            self.undo();
            return Err(error);
        }
        let State { tids, reader, certifier, sets, begin, position, prepared_as, .. } = &mut *self.state;
        let (engine, begin) = (self.engine, *begin);
        let (entered, is_prepared) = (&self.entered, prepared_as.is_some());
        let validation = Validation { engine, entered, sets, begin, tid: Some(tid), is_prepared };
        let validate = |certifier: &mut S::Certifier, stamp| {
            validation.run(stamp, |late| certifier.read_late(&engine.shared, tid, reader.bit(), stamp, late))
        };
        let tables = |table| &*engine.table(table).beside.readers;
        let may_write = || {
            if is_prepared || !engine.shared.prepared.any() {
                return Ok(());
            }
            let held = sets.writes.iter().find_map(|write| {
                let holder = engine.shared.prepared.holder(write.site.table, sets.key(write.site), Some(tid));
                holder.map(|holder| (write.site, holder))
            });
            held.map_or(Ok(()), |(site, holder)| Err(Conflict::prepared(site, holder)))
        };
        let ending = Ending { tids, reader, certifier };
        let committed = match (log, position) {
            (Some(log), Some(position)) => {
                let mut journal = Logged { log, position };
                ending.commit(&engine.shared, &mut journal, &sets.writes, tables, may_write, validate)
            }
            _ if sets.writes.is_empty() => {
                ending.commit(&engine.shared, &mut Unwritten, &sets.writes, tables, may_write, validate)
            }
            _ => {
                let mut journal = Unlogged(BLOCK_BYTES + sets.log_bytes);
                ending.commit(&engine.shared, &mut journal, &sets.writes, tables, may_write, validate)
            }
        };
        self.settle_blobs(committed.is_ok());
        Ok(committed)
    }

    /// Queues the versions that the committed transaction superseded.
    fn queue_superseded(&mut self, stamp: Stamp) {
        for at in 0..self.state.sets.writes.len() {
            let write = &self.state.sets.writes[at];
            let deleted = write.new.kind() == Kind::Tombstone;
            if write.fresh && !deleted {
                continue;
            }
            let table = self.engine.table(write.site.table);
            let needs_key = deleted || table.secondaries().next().is_some();
            let key = needs_key.then(|| SmallVec::from_slice(self.state.sets.key(write.site)));
            let superseded = Superseded { stamp, table: table.id, row: write.row, key, deleted };
            self.state.superseded(superseded);
        }
        self.state.supersede_absences(stamp);
        if !self.state.sets.discarded.is_empty() {
            // Entries of versions that the transaction replaced by later ones of its own.
            self.remove_unused_entries();
        }
    }

    /// Removes the entries that the transaction needed and that no version belongs to now.
    fn remove_unused_entries(&self) {
        let sets = &self.state.sets;
        for needed in &sets.entries {
            let (table, entry) = (self.engine.table(needed.entry.table), sets.key(needed.entry));
            remove_unused_entry(table, needed.row, needed.index, entry, Stamp::ZERO, &self.entered.nodes);
        }
    }

    /// Undoes everything. The transaction holds no lock afterwards; its reads stay readable until it ends.
    pub(super) fn undo(&mut self) {
        if self.state.tid.is_none() {
            return;
        }
        self.ending().abort();
        // Of an insert that panicked before it was in the write set. Its memory stays: readers may know it.
        let _ = self.withdraw_absence(self.state.sets.writes.len());
        while !self.state.sets.writes.is_empty() {
            self.undo_last_write();
        }
        self.remove_unused_entries();
        self.ending().release();
        self.state.tid = None;
    }

    /// Removes the last write from its row and from the write set.
    pub(super) fn undo_last_write(&mut self) {
        let Some(write) = self.state.sets.writes.pop() else { return };
        let table = self.engine.table(write.site.table);
        let (mut absent, mut withdrawn) = (None, None);
        if write.fresh {
            absent = self.state.absences.last_of(write.site.table);
            withdrawn = self.withdraw_absence(self.state.sets.writes.len());
        }
        self.ending().take_back(table.rows.slot(write.row), &write);
        self.state.sets.discarded.push(write.new);
        if !write.fresh {
            return;
        }
        let gap = absent.map_or(Stamp::ZERO, |absent| absent.certifier().last_read());
        let key = self.state.sets.key(write.site);
        let removed =
            table
                .index(IndexOrdinal::PRIMARY)
                .remove_if(&self.entered.nodes, key, write.row, gap, Stamp::ZERO, || true);
        debug_assert!(removed, "an undone insert is still in the index");
        self.state.retire_row(self.engine, table.id, write.row, withdrawn);
    }

    /// Removes the transaction's last absent version, if its first insert has this position in the write set and is
    /// undone, and its mark.
    fn withdraw_absence(&mut self, first: usize) -> Option<VersionPtr<StampsOf<S>>> {
        let State { absences, certifier, tids, .. } = &mut *self.state;
        absences.pop_from(first).inspect(|&version| certifier.withdraw(tids.tid(), version))
    }

    fn ending(&mut self) -> Ending<'_, S::Certifier> {
        let State { tids, reader, certifier, .. } = &mut *self.state;
        Ending { tids, reader, certifier }
    }
}

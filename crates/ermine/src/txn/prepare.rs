//! Preparing to commit (PREPARE TRANSACTION): no other transaction changes a prepared transaction's reads until it
//! ends.

use std::{ops::Bound, sync::Arc};

use super::{
    leaves::Validation,
    prepared::ReadSet,
    running::{Operation, Txn},
};
use crate::{
    access::OwnRead,
    error::{Error, Result},
    ids::{IndexOrdinal, Stamp},
    mutant::Mutant,
    scheme::{Certifier, Conflict, Scheme},
    worker::State,
};

impl<S: Scheme> Txn<'_, S> {
    /// Prepares the transaction to commit. Returns false if its reads have been overwritten, or are incompatible with
    /// another prepared transaction.
    pub(crate) fn prepare(&self) -> Result<bool> {
        self.operation()?.prepare()
    }

    /// Shows the reads of a prepared transaction.
    pub(crate) fn reads(&self, each: &mut OwnRead<'_>) -> Result<()> {
        let operation = self.operation()?;
        let reads = operation.state.tid.and_then(|tid| self.engine.shared.prepared.reads(tid));
        let show =
            |table, lower: Bound<&[u8]>, upper: Bound<&[u8]>| each(&self.engine.table(table).name(), lower, upper);
        reads.map_or(Ok(()), |reads| reads.for_each(show))
    }
}

impl<S: Scheme> Operation<'_, S> {
    fn prepare(&mut self) -> Result<bool> {
        if self.state.prepared_as.is_some() {
            return Ok(true);
        }
        if self.state.sets.writes.iter().any(|write| write.site.table.is_unlogged()) {
            let message = "a transaction that has written to a table in memory only cannot be prepared";
            return Err(Error::Schema(message.into()));
        }
        let tid = self.tid()?;
        let reads = Arc::new(self.read_set()?);
        let prepared = &self.engine.shared.prepared;
        let _alone = prepared.begin();
        let State { sets, certifier, .. } = &*self.state;
        let mut written: Vec<_> = sets.writes.iter().map(|write| write.site.table).collect();
        written.sort_unstable();
        written.dedup();
        prepared.enter(tid, reads, written.into());
        // Invariant 3 of `prepared`.
        let mut writes = sets.writes.iter();
        let mut is_held =
            writes.any(|write| prepared.holder(write.site.table, sets.key(write.site), Some(tid)).is_some());
        if self.state.is_certified() {
            certifier.show_reads(&mut |site| is_held |= site.length == 0 && prepared.is_written(site.table, tid));
        }
        let may_prepare = !is_held && (self.reads_hold() || Mutant::PrepareUnseen.is_on());
        if may_prepare {
            // Rolling back to a savepoint would release what a prepared transaction holds.
            self.state.discard_replaced();
            self.state.certifier.prepare();
            self.state.prepared_as = Some(tid);
        } else {
            prepared.leave(tid);
        }
        Ok(may_prepare)
    }

    /// Returns the transaction's reads, as keys and ranges of keys.
    fn read_set(&self) -> Result<ReadSet> {
        let (mut reads, state) = (ReadSet::default(), &*self.state);
        if !state.is_certified() {
            return Ok(reads);
        }
        let sets = &state.sets;
        state.certifier.show_reads(&mut |site| match site.length {
            0 => reads.add_table(site.table),
            _ => reads.add_key(site.table, sets.key(site)),
        });
        for leaf in sets.leaves.reads() {
            let Some(scanned) = leaf.scanned else {
                return Err(Error::Limit("bytes of keys that a transaction has read that is to be prepared"));
            };
            if leaf.index != IndexOrdinal::PRIMARY {
                reads.add_table(leaf.site.table);
                continue;
            }
            let upper = scanned.upper.map(|upper| sets.key(upper));
            reads.add_range(leaf.site.table, Bound::Included(sets.key(scanned.lower)), upper);
        }
        Ok(reads)
    }

    /// Returns whether the transaction's reads are unchanged, now that they are entered among those of prepared
    /// transactions.
    pub(super) fn reads_hold(&self) -> bool {
        let State { tids, tid, certifier, sets, begin, prepared_as, .. } = &*self.state;
        if !self.state.is_certified() {
            return true;
        }
        let shared = &self.engine.shared;
        let (engine, entered, is_prepared) = (self.engine, &self.entered, prepared_as.is_some());
        let validation = Validation { engine, entered, sets, begin: *begin, tid: *tid, is_prepared };
        let came = validation.run(Stamp::ZERO, |late| match certifier.late_holds(shared, tids, late.version) {
            true => Ok(()),
            false => Err(Conflict::write(late.site, None)),
        });
        came.is_ok() && certifier.reads_hold(shared, tids)
    }
}

//! Promising to commit (PREPARE TRANSACTION): no other transaction changes a promised transaction's reads until it
//! ends.

use std::{ops::Bound, sync::Arc};

use super::{
    leaves::Validation,
    promises::ReadSet,
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
    /// Promises to commit. Returns false if the transaction's reads have been overwritten, or if they are incompatible
    /// with another transaction's promise.
    pub(crate) fn promise(&self) -> Result<bool> {
        self.operation()?.promise()
    }

    /// Shows the reads of a transaction that has promised.
    pub(crate) fn reads(&self, each: &mut OwnRead<'_>) -> Result<()> {
        let operation = self.operation()?;
        let reads = operation.state.tid.and_then(|tid| self.engine.shared.promises.reads(tid));
        let show =
            |table, lower: Bound<&[u8]>, upper: Bound<&[u8]>| each(&self.engine.table(table).name(), lower, upper);
        reads.map_or(Ok(()), |reads| reads.for_each(show))
    }
}

impl<S: Scheme> Operation<'_, S> {
    fn promise(&mut self) -> Result<bool> {
        if self.state.promised.is_some() {
            return Ok(true);
        }
        let tid = self.tid()?;
        let reads = Arc::new(self.read_set()?);
        let promises = &self.engine.shared.promises;
        let _alone = promises.begin();
        let State { footprint, certifier, uncertified, .. } = &*self.state;
        let mut written: Vec<_> = footprint.writes.iter().map(|write| write.place.table).collect();
        written.sort_unstable();
        written.dedup();
        promises.enter(tid, reads, written.into());
        // Invariant 3 of `promises`.
        let mut writes = footprint.writes.iter();
        let mut is_held =
            writes.any(|write| promises.holder(write.place.table, footprint.key(write.place), Some(tid)).is_some());
        if !uncertified {
            certifier.show_reads(&mut |place| is_held |= place.length == 0 && promises.is_written(place.table, tid));
        }
        let may_promise = !is_held && (self.reads_hold() || Mutant::PromiseUnseen.is_on());
        if may_promise {
            // Rolling back to a savepoint would release what the promise holds.
            self.state.discard_replaced();
            self.state.certifier.promise();
            self.state.promised = Some(tid);
        } else {
            promises.leave(tid);
        }
        Ok(may_promise)
    }

    /// Returns the transaction's reads, as keys and ranges of keys.
    fn read_set(&self) -> Result<ReadSet> {
        let (mut reads, state) = (ReadSet::default(), &*self.state);
        if state.uncertified {
            return Ok(reads);
        }
        let footprint = &state.footprint;
        state.certifier.show_reads(&mut |place| match place.length {
            0 => reads.add_table(place.table),
            _ => reads.add_key(place.table, footprint.key(place)),
        });
        for leaf in &footprint.leaves {
            let Some(looked) = leaf.looked else {
                return Err(Error::Limit("bytes of keys that a transaction has read that is to be prepared"));
            };
            if leaf.index != IndexOrdinal::PRIMARY {
                reads.add_table(leaf.place.table);
                continue;
            }
            let upper = looked.upper.map(|upper| footprint.key(upper));
            reads.add_range(leaf.place.table, Bound::Included(footprint.key(looked.lower)), upper);
        }
        Ok(reads)
    }

    /// Returns whether the transaction's reads are unchanged, now that they are among the promises.
    pub(super) fn reads_hold(&self) -> bool {
        let State { tids, tid, certifier, footprint, begin, uncertified, promised, .. } = &*self.state;
        if *uncertified {
            return true;
        }
        let shared = &self.engine.shared;
        let (engine, entered, has_promised) = (self.engine, &self.entered, promised.is_some());
        let validation = Validation { engine, entered, footprint, begin: *begin, tid: *tid, has_promised };
        let came = validation.run(Stamp::ZERO, |late| match certifier.late_holds(shared, tids, late.version) {
            true => Ok(()),
            false => Err(Conflict::write(late.place, None)),
        });
        came.is_ok() && certifier.reads_hold(shared, tids)
    }
}

//! The steps that end a transaction, in their order, for every scheme.
//!
//! Commit: publish the reads -> mark committing -> take the stamp (and the log space) -> check for safe snapshots, and
//! the holdings of prepared transactions -> certify -> validate the leaf set -> certify finally -> fill the log ->
//! publish (the one store that decides) -> stamp versions -> give up reader slot and TID. Abort: decide -> per write,
//! newest first: take the certifier's mark off, void the version, unlink -> give up reader slot and TID.
//!
//! Separate from the engine's bookkeeping (`txn::commit`), so that the models of the commit (`scheme::loom_models`) run
//! these very functions.
//!
//! Invariants
//! 1. Reader bits and reader slot are set, and the TID is marked committing, before the stamp is taken.
//! 2. The TID and the reader slot are given up only when every version has its stamps.
//! 3. The log space that was taken with the stamp is filled, whatever becomes of the transaction: with its records
//!    before it is published, or with an empty block when it loses.
//! 4. The certifier's mark is taken off a version before the version in front of it is unlinked: afterwards another
//!    transaction may mark it.

use super::{readers::ReaderSlot, table::TidLease};
use crate::{
    clock::LogOffset,
    ids::{RowId, Stamp, TableId},
    mutant::Mutant,
    rows::chain::{OriginWord, RowSlot, VersionPtr},
    scheme::{Certifier, Conflict, ConflictSite, Overwrite, Shared, escalation::TableReaders},
};

/// One row to whose chain the transaction has added a version.
pub(crate) struct Write<H> {
    pub(crate) row: RowId,
    /// The newest version of the row, the transaction's own.
    pub(crate) new: VersionPtr<H>,
    /// The version that `new` overwrote, for the certifier; `None` for a fresh key, unless a certifier has to be told
    /// that it overwrote an absent version (`absence`).
    pub(crate) old: Option<VersionPtr<H>>,
    /// Whether this transaction inserted the key into the index.
    pub(crate) fresh: bool,
    /// Table and primary key.
    pub(crate) site: ConflictSite,
}

impl<H> Write<H> {
    /// Returns the version that was overwritten, as certifiers see it.
    pub(crate) fn overwrite<'a>(&self, tables: impl Fn(TableId) -> &'a TableReaders) -> Option<Overwrite<'a, H>> {
        Some(Overwrite { old: self.old?, site: self.site, table_readers: tables(self.site.table) })
    }
}

/// The journal in which a commit is recorded.
pub(crate) trait Journal {
    /// Takes the next place in the order, and in the log; called once.
    fn claim(&mut self, clock: &LogOffset) -> Stamp;
    /// Fills the place with the transaction's records: it commits.
    fn fill(&mut self);
    /// Leaves the place without records: the transaction does not commit.
    fn skip(&mut self);
}

/// The journal of a database without a log: only the order, in which a commit takes this many bytes.
pub(crate) struct Unlogged(pub(crate) u64);

impl Journal for Unlogged {
    fn claim(&mut self, clock: &LogOffset) -> Stamp {
        clock.reserve(self.0)
    }

    fn fill(&mut self) {}

    fn skip(&mut self) {}
}

/// The journal of a transaction without writes: there is nothing to record. Its place is between the transactions that
/// have a stamp by now and those that take theirs later.
pub(crate) struct Unwritten;

impl Journal for Unwritten {
    fn claim(&mut self, clock: &LogOffset) -> Stamp {
        clock.pass()
    }

    fn fill(&mut self) {}

    fn skip(&mut self) {}
}

/// The parts of a transaction with a TID that take part in its end.
pub(crate) struct Ending<'a, C> {
    pub(crate) tids: &'a mut TidLease,
    pub(crate) reader: &'a ReaderSlot,
    pub(crate) certifier: &'a mut C,
}

impl<C: Certifier> Ending<'_, C> {
    /// Commits and releases everything, or leaves a conflict to [`abort`](Self::abort). `may_write` checks the holdings
    /// of prepared transactions (`prepared`, invariant 1), and `validate` checks the leaf set when the certifier
    /// agrees.
    pub(crate) fn commit<'t>(
        self,
        shared: &Shared,
        journal: &mut impl Journal,
        writes: &[Write<C::Stamps>],
        tables: impl Fn(TableId) -> &'t TableReaders,
        may_write: impl FnOnce() -> Result<(), Conflict>,
        validate: impl FnOnce(&mut C, Stamp) -> Result<(), Conflict>,
    ) -> Result<Stamp, Conflict> {
        let tid = self.tids.tid();
        self.reader.publish(tid);
        if !Mutant::BitsAfterStamp.is_on() {
            self.certifier.announce(tid, self.reader.bit());
        }
        let early = Mutant::StampBeforeMark.is_on().then(|| journal.claim(&shared.clock));
        self.tids.mark_committing();
        let stamp = early.unwrap_or_else(|| journal.claim(&shared.clock));
        if Mutant::BitsAfterStamp.is_on() {
            self.certifier.announce(tid, self.reader.bit());
        }
        self.tids.set_commit_stamp(stamp);
        if !writes.is_empty()
            && let Some(reader) = shared.safe.reader_below(stamp)
            && !Mutant::NoSafeSnapshot.is_on()
        {
            self.certifier.follow_snapshot(reader);
        }
        let overwrites = writes.iter().filter_map(|write| write.overwrite(&tables));
        // Before any check for the traces that a prepared transaction leaves when it commits (`prepared`, invariant 2).
        let allowed = if Mutant::PrepareIgnored.is_on() { Ok(()) } else { may_write() };
        let certified = allowed.and_then(|()| self.certifier.certify(shared, self.tids, stamp, overwrites));
        let validated = certified.and_then(|()| validate(self.certifier, stamp));
        let sealed = validated.and_then(|()| self.certifier.seal(self.tids, stamp));
        let successor = match sealed {
            Ok(successor) => successor,
            Err(conflict) => {
                journal.skip();
                return Err(conflict);
            }
        };
        journal.fill();
        self.tids.set_committed(stamp, successor);
        if Mutant::SlotBeforeStamps.is_on() {
            self.reader.clear();
        }
        self.certifier.publish_reads(self.reader, stamp);
        for write in writes {
            if let Some(old) = write.old {
                self.certifier.publish_write(old, stamp, successor);
            }
            write.new.origin().store(OriginWord::at(stamp));
        }
        self.release();
        Ok(stamp)
    }

    /// Decides to abort. The writes are undone next ([`take_back`](Self::take_back)), then [`release`](Self::release).
    pub(crate) fn abort(&self) {
        self.tids.set_aborted();
    }

    /// Removes a write of an aborted transaction from its row.
    pub(crate) fn take_back(&self, slot: &RowSlot<C::Stamps>, write: &Write<C::Stamps>) {
        // The mark of an absent version belongs to several inserts (`absence`).
        if let Some(old) = write.old.filter(|_| !write.fresh) {
            self.certifier.withdraw(self.tids.tid(), old);
        }
        write.new.void();
        // No transaction can insert a fresh key while its slot is empty and its entry exists: it looks the key up
        // again.
        let unlinked = slot.install(Some(write.new), if write.fresh { None } else { write.old });
        debug_assert!(unlinked, "no other transaction changes the head of a row that this one has written");
    }

    /// Gives up reader slot and TID (invariant 2).
    pub(crate) fn release(self) {
        self.reader.clear();
        self.tids.end();
    }
}

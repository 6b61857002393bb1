//! Concurrency control as values of two traits.
//!
//! A single-version scheme is an [`in_place::InPlace`]. A multi-version [`Scheme`] is a visibility rule x a [`Certifier`]:
//!
//! | scheme | reads | certifier |
//! |---|---|---|
//! | `rc` | newest committed version | [`snapshot::Uncertified`] |
//! | `si` | snapshot of the beginning, first updater wins | [`snapshot::Uncertified`] |
//! | `rc-ssn` | as `rc` | [`ssn::Ssn`] |
//! | `si-ssn` | as `si` | [`ssn::Ssn`] |
//! | `si-ssi` | as `si` | [`ssi::Ssi`] |
//! | `mvocc` | as `si` | [`occ::ReadValidation`] |
//!
//! The path of a row (`txn`) and the commit path (`txn::commit`) are written once; a certifier fills in hooks. It sees
//! versions, stamps and TIDs; it knows no table, no index, no log.

mod by_hand;
pub(crate) mod escalation;
pub(crate) mod in_place;
#[cfg(all(test, loom))]
mod in_place_models;
#[cfg(all(test, loom))]
mod loom_models;
pub(crate) mod occ;
pub(crate) mod partitioned;
pub(crate) mod serial;
pub(crate) mod silo;
pub(crate) mod snapshot;
pub(crate) mod ssi;
pub(crate) mod ssn;
pub(crate) mod staleness;
pub(crate) mod sto;
mod tracking;
pub(crate) mod tso;
pub(crate) mod two_phase;
mod untracked;
pub(crate) mod vll;

pub(crate) use tracking::Cause;

use std::sync::Arc;

use crate::{
    clock::LogOffset,
    error::{Abort, AbortKind, Dependency, Edge},
    ids::{Stamp, TableId, Tid},
    rows::chain::{CertifierStamps, VersionPtr},
    scheme::{escalation::TableReaders, staleness::Staleness},
    txn::{
        promises::Promises,
        readers::{ReaderSlot, ReaderSlots},
        safe::SafeSnapshot,
        table::{TidLease, TidTable},
    },
};

/// A concurrency control.
pub(crate) trait Scheme: Send + Sync + 'static {
    /// Decides at commit, with what it noted while the transaction ran.
    type Certifier: Certifier;
    /// Whether reads see the snapshot of the beginning (`true`) or the newest committed version.
    const SNAPSHOT: bool;
}

/// The per-version words of a scheme.
pub(crate) type StampsOf<S> = <<S as Scheme>::Certifier as Certifier>::Stamps;

/// What every transaction of a database shares.
pub(crate) struct Shared {
    /// The order of commits.
    pub(crate) clock: Arc<LogOffset>,
    /// The fate of running transactions.
    pub(crate) tids: Arc<TidTable>,
    /// Who may be behind a reader bit.
    pub(crate) readers: Arc<ReaderSlots>,
    /// The newest snapshot that is read without certifying.
    pub(crate) safe: SafeSnapshot,
    /// The transactions that have promised to commit.
    pub(crate) promises: Promises,
}

/// Where something happened, for conflict reports: a table and a span of the transaction's key bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) table: TableId,
    pub(crate) at: u32,
    pub(crate) length: u16,
}

/// A rule that a transaction broke, before it is made into a report.
#[derive(Debug)]
pub(crate) struct Conflict {
    pub(crate) kind: AbortKind,
    pub(crate) predecessor: Option<Cause>,
    pub(crate) successor: Option<Cause>,
    /// A table whose stale versions were read untracked, if that may be why.
    pub(crate) untracked: Option<TableId>,
}

impl Conflict {
    /// Over one edge, to a successor.
    pub(crate) fn before(kind: AbortKind, successor: Cause) -> Self {
        Self { kind, predecessor: None, successor: Some(successor), untracked: None }
    }

    /// Two write the same.
    pub(crate) fn write(place: Place, other: Option<Tid>) -> Self {
        Self::before(AbortKind::WriteConflict, Cause::new(Stamp::INFINITY, Dependency::BothWrite, place).with(other))
    }

    /// A transaction that has promised to commit has read what another one writes.
    pub(crate) fn promised(place: Place, holder: Tid) -> Self {
        let cause = Cause::new(Stamp::INFINITY, Dependency::WasReadBy, place).with(holder);
        Self::before(AbortKind::WriteConflict, cause)
    }

    /// The report, with places in words.
    pub(crate) fn report(self, name: impl Fn(Option<Place>) -> (Option<Arc<str>>, Option<Box<[u8]>>)) -> Abort {
        let (table, key) = name(self.place());
        let edge = |cause: Cause| {
            let (table, key) = name(cause.place);
            // The edges of the scale mean that there is no such stamp.
            let is_known = Stamp::ZERO < cause.stamp
                && cause.stamp.0 < Stamp::INFINITY.0 - 1
                && cause.dependency != Some(Dependency::EndedBefore);
            let stamp = is_known.then_some(cause.stamp);
            Some(Edge { dependency: cause.dependency?, table, key, stamp, other: cause.other })
        };
        let (kind, other) = (self.kind, self.other());
        let (predecessor, successor) = (self.predecessor.and_then(edge), self.successor.and_then(edge));
        Abort { kind, table, key, other, predecessor, successor }
    }

    /// The place to report first: where the conflict was noticed.
    pub(crate) fn place(&self) -> Option<Place> {
        let causes = [self.successor, self.predecessor];
        causes.into_iter().flatten().find_map(|cause| cause.place)
    }

    /// The other transaction.
    pub(crate) fn other(&self) -> Option<Tid> {
        let causes = [self.successor, self.predecessor];
        causes.into_iter().flatten().find_map(|cause| cause.other)
    }
}

/// A transaction that reads, as far as a certifier makes it known to others at once.
pub(crate) struct Running<'a> {
    pub(crate) slot: &'a ReaderSlot,
    pub(crate) tids: &'a mut TidLease,
    /// Its TID, once it has one.
    pub(crate) tid: &'a mut Option<Tid>,
    pub(crate) begin: Stamp,
    /// Of the table, as what follows.
    pub(crate) staleness: &'a Staleness,
    pub(crate) table_readers: &'a Arc<TableReaders>,
    /// At most so many rows.
    pub(crate) rows: u64,
}

/// A version that a transaction overwrote and the one it put there.
pub(crate) struct Overwrite<'a, H> {
    pub(crate) old: VersionPtr<H>,
    pub(crate) new: VersionPtr<H>,
    pub(crate) place: Place,
    pub(crate) table_readers: &'a TableReaders,
}

/// A version that turns out at commit to have been read: the transaction looked where a row came later.
pub(crate) struct Late<H> {
    pub(crate) version: VersionPtr<H>,
    /// The newest version of the row.
    pub(crate) head: VersionPtr<H>,
    pub(crate) place: Place,
}

/// One transaction's certifier state, kept by the worker and used again.
///
/// Call order: `begin`, then `read`, `follow`, `enter_gap` and `overwrite` in any order, then either `certify_read_only` and `end_read_only`, or
/// `announce` before the stamp is taken, `follow_snapshot`, `certify` and `seal` after, and `publish`; or `withdraw` for each
/// overwrite of an abort.
pub(crate) trait Certifier: Default + Send + 'static {
    /// Its words in each version.
    type Stamps: CertifierStamps;

    /// Whether it needs absent versions and leaf sets (phantom protection).
    const TRACKS: bool;

    /// Whether a transaction without writes is what the scheme promises by its snapshot alone.
    const SNAPSHOT_IS_SERIAL: bool;

    /// A new transaction, which comes after every transaction with a stamp up to `after` that had been acknowledged when it began.
    fn begin(&mut self, after: Stamp);

    /// The transaction read a version, made at `created`.
    fn read(
        &mut self,
        running: Running<'_>,
        version: VersionPtr<Self::Stamps>,
        created: Stamp,
        place: Place,
    ) -> Result<(), Conflict>;

    /// The transaction comes after a deletion at `stamp` that left no version behind: the key has been removed.
    fn follow(&mut self, stamp: Stamp, place: Place) -> Result<(), Conflict>;

    /// The transaction put a key where scans that committed at up to `stamp` had found none.
    fn enter_gap(&mut self, stamp: Stamp, place: Place) -> Result<(), Conflict>;

    /// The transaction put a version over one made at `created`.
    fn overwrite(
        &mut self,
        tid: Tid,
        old: VersionPtr<Self::Stamps>,
        created: Stamp,
        place: Place,
    ) -> Result<(), Conflict>;

    /// How many reads it keeps.
    fn tracked_reads(&self) -> usize {
        0
    }

    /// Whether no transaction has overwritten what this one has read; waits for those that are about to commit, and takes one that has
    /// promised to commit for one that has. Others that have not ended will lose ([`crate::txn::promises`]).
    fn reads_hold(&self, _shared: &Shared, _tids: &TidLease) -> bool {
        true
    }

    /// The same for a version that turns out to have been read.
    fn late_holds(&self, _shared: &Shared, _tids: &TidLease, _version: VersionPtr<Self::Stamps>) -> bool {
        true
    }

    /// Shows where the transaction has read: rows, by their keys, and tables, of which it does not know what, without one.
    fn show_reads(&self, _show: &mut dyn FnMut(Place)) {}

    /// No read is left untracked, however long the transaction is.
    fn track_all(&mut self) {}

    /// What it has read holds until it ends.
    fn promise(&mut self) {}

    /// A transaction that has promised tries again with a higher stamp: what was weighed for the lower one is forgotten, what it has read is
    /// not.
    fn try_again(&mut self) {}

    /// Whether a transaction without writes may commit at `stamp`, just below its snapshot. Not asked where
    /// [`Self::SNAPSHOT_IS_SERIAL`] answers it.
    fn certify_read_only(&mut self, _shared: &Shared, _stamp: Stamp) -> bool {
        Self::SNAPSHOT_IS_SERIAL
    }

    /// Makes the transaction's reads known, before it takes its stamp.
    fn announce(&mut self, tid: Tid, reader_bit: u64);

    /// What the transaction overwrote has been read by the readers of a safe snapshot, which committed at `reader`. Before
    /// `certify`.
    fn follow_snapshot(&mut self, _reader: Stamp) {}

    /// A transaction without writes is about to end at `stamp` (or to go on with one of its own): the last look at what others
    /// pushed.
    fn end_read_only(&mut self, _tids: &TidLease, _slot: &ReaderSlot, _stamp: Stamp) -> bool {
        true
    }

    /// Decides whether the transaction may commit at `stamp`, as far as that can be said before the end.
    fn certify<'w>(
        &mut self,
        shared: &Shared,
        tids: &TidLease,
        stamp: Stamp,
        writes: impl Iterator<Item = Overwrite<'w, Self::Stamps>>,
    ) -> Result<(), Conflict>;

    /// Takes in a late read, between `certify` and `seal`.
    fn read_late(
        &mut self,
        _shared: &Shared,
        _tid: Tid,
        _reader_bit: u64,
        _stamp: Stamp,
        _late: Late<Self::Stamps>,
    ) -> Result<(), Conflict> {
        Ok(())
    }

    /// Whether a late read lets a transaction without writes end at `stamp`, just below its snapshot.
    fn stands_below(&mut self, _shared: &Shared, _stamp: Stamp, _version: VersionPtr<Self::Stamps>) -> bool {
        true
    }

    /// Decides for good; gives what it leaves in the TID table for others: its successor stamp (SSN: pi; SSI: s1).
    fn seal(&mut self, _tids: &TidLease, stamp: Stamp) -> Result<Stamp, Conflict> {
        Ok(stamp)
    }

    /// Leaves the committed transaction's stamps in what it read.
    fn publish_reads(&mut self, slot: &ReaderSlot, stamp: Stamp);

    /// Leaves them in one version it overwrote and the one it put there, before that one's commit stamp is set.
    fn publish_write(&self, write: Overwrite<'_, Self::Stamps>, stamp: Stamp, successor: Stamp);

    /// Whether the transaction reads a table as a whole: ranges of it need not be remembered.
    fn reads_whole(&self, _table: TableId) -> bool {
        false
    }

    /// The transaction is over.
    fn end(&mut self, _slot: &ReaderSlot) {}

    /// Takes the mark off a version, before the transaction's own version is unlinked.
    fn withdraw(&self, tid: Tid, old: VersionPtr<Self::Stamps>);
}

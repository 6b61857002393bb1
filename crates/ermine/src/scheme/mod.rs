//! Concurrency control as values of two traits.
//!
//! A single-version scheme is an [`in_place::InPlace`]. A multi-version [`Scheme`] is a visibility rule and a
//! [`Certifier`]:
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
//! The path of a row (`txn`) and the commit path (`txn::commit`) are written once; a certifier implements hooks. It
//! works on versions, stamps and TIDs; it has no access to tables, indexes or the log.

pub(crate) mod escalation;
pub(crate) mod in_place;
#[cfg(all(test, loom))]
mod in_place_models;
mod interactive;
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

use std::{iter, sync::Arc};

use crate::{
    clock::LogOffset,
    error::{Abort, AbortKind, Dependency, Edge},
    ids::{Stamp, TableId, Tid},
    rows::chain::{CertifierStamps, VersionPtr},
    scheme::{escalation::TableReaders, staleness::Staleness},
    table_name::TableName,
    txn::{
        prepared::PreparedTransactions,
        readers::{ReaderSlot, ReaderSlots},
        safe::SafeSnapshot,
        table::{TidLease, TidTable},
    },
};

/// A concurrency control.
pub(crate) trait Scheme: Send + Sync + 'static {
    /// Decides at commit, from the state it collected while the transaction ran.
    type Certifier: Certifier;
    /// Whether reads see the snapshot taken at the beginning (`true`) or the newest committed version.
    const SNAPSHOT: bool;
}

/// The per-version words of a scheme.
pub(crate) type StampsOf<S> = <<S as Scheme>::Certifier as Certifier>::Stamps;

/// The state that all transactions of a database share.
pub(crate) struct Shared {
    /// The order of commits.
    pub(crate) clock: Arc<LogOffset>,
    /// The outcome of transactions, by TID.
    pub(crate) tids: Arc<TidTable>,
    /// The transactions that a reader bit may denote.
    pub(crate) readers: Arc<ReaderSlots>,
    /// The newest snapshot that is read without certifying.
    pub(crate) safe: SafeSnapshot,
    /// The prepared transactions.
    pub(crate) prepared: PreparedTransactions,
}

/// The place of an event, for conflict reports: a table and a span of the transaction's key bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConflictSite {
    pub(crate) table: TableId,
    pub(crate) at: u32,
    pub(crate) length: u16,
}

/// A rule that a transaction broke, before the report is created from it.
#[derive(Debug)]
pub(crate) struct Conflict {
    pub(crate) kind: AbortKind,
    pub(crate) predecessor: Option<Cause>,
    pub(crate) successor: Option<Cause>,
    /// A table whose stale versions were read untracked, if that may be the reason.
    pub(crate) untracked: Option<TableId>,
}

impl Conflict {
    /// A conflict over one edge, to a successor.
    pub(crate) fn before(kind: AbortKind, successor: Cause) -> Self {
        Self { kind, predecessor: None, successor: Some(successor), untracked: None }
    }

    /// Two transactions write the same row.
    pub(crate) fn write(site: ConflictSite, other: Option<Tid>) -> Self {
        Self::before(AbortKind::WriteConflict, Cause::new(Stamp::INFINITY, Dependency::BothWrite, site).with(other))
    }

    /// A prepared transaction has read what another one writes.
    pub(crate) fn prepared(site: ConflictSite, holder: Tid) -> Self {
        let cause = Cause::new(Stamp::INFINITY, Dependency::WasReadBy, site).with(holder);
        Self::before(AbortKind::WriteConflict, cause)
    }

    /// Creates the report; `name` names the places.
    pub(crate) fn report(self, name: impl Fn(Option<ConflictSite>) -> (Option<TableName>, Option<Box<[u8]>>)) -> Abort {
        let (table, key) = name(self.site());
        let edge = |cause: Cause| {
            let (table, key) = name(cause.site);
            // The lowest and the highest values mean that there is no such stamp.
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

    /// The place to report first: where the conflict was detected.
    pub(crate) fn site(&self) -> Option<ConflictSite> {
        let causes = [self.successor, self.predecessor];
        causes.into_iter().flatten().find_map(|cause| cause.site)
    }

    /// The other transaction of the conflict.
    pub(crate) fn other(&self) -> Option<Tid> {
        let causes = [self.successor, self.predecessor];
        causes.into_iter().flatten().find_map(|cause| cause.other)
    }
}

/// A transaction that reads, with the parts that a certifier makes visible to other transactions at once.
pub(crate) struct Running<'a> {
    pub(crate) slot: &'a ReaderSlot,
    pub(crate) tids: &'a mut TidLease,
    /// The transaction's TID, once it has one.
    pub(crate) tid: &'a mut Option<Tid>,
    pub(crate) begin: Stamp,
    /// Of the table that is read.
    pub(crate) table_readers: &'a Arc<TableReaders>,
    /// An upper bound of the table's rows.
    pub(crate) rows: u64,
}

/// A version that a transaction read, the stamp at which it was made, and the place of its row.
pub(crate) type Read<H> = (VersionPtr<H>, Stamp, ConflictSite);

/// A version that a transaction overwrote.
pub(crate) struct Overwrite<'a, H> {
    pub(crate) old: VersionPtr<H>,
    pub(crate) site: ConflictSite,
    pub(crate) table_readers: &'a TableReaders,
}

/// A version that turns out at commit to have been read: its row came into a range that the transaction had scanned.
pub(crate) struct Late<H> {
    pub(crate) version: VersionPtr<H>,
    /// The newest version of the row.
    pub(crate) head: VersionPtr<H>,
    pub(crate) site: ConflictSite,
}

/// One transaction's certifier state, kept by the worker and reused.
///
/// Call order: `begin`, then `read`, `follow`, `enter_gap` and `overwrite` in any order, then either
/// `certify_read_only` and `end_read_only`, or `announce` before the stamp is taken, `follow_snapshot`, `certify` and
/// `seal` after, and `publish`; or `withdraw` for each overwrite of an abort.
pub(crate) trait Certifier: Default + Send + 'static {
    /// The certifier's words in each version.
    type Stamps: CertifierStamps;

    /// Whether the certifier needs absent versions and leaf sets (phantom protection).
    const TRACKS: bool;

    /// Whether the snapshot alone gives a transaction without writes the isolation that the scheme promises.
    const SNAPSHOT_IS_SERIAL: bool;

    /// Begins a transaction, which comes after every transaction with a stamp up to `after` that had been acknowledged
    /// when it began.
    fn begin(&mut self, after: Stamp);

    /// Notes that the transaction read a version of a row, made at a stamp, of a table of that staleness. Most reads do
    /// not need `running`.
    fn read<'a>(
        &mut self,
        staleness: &'a Staleness,
        running: impl FnOnce() -> Running<'a>,
        read: Read<Self::Stamps>,
    ) -> Result<(), Conflict> {
        self.read_all(staleness, running, iter::once(read))
    }

    /// Notes all reads of one table that the iterator returns, as [`Certifier::read`] notes one.
    fn read_all<'a>(
        &mut self,
        staleness: &'a Staleness,
        running: impl FnOnce() -> Running<'a>,
        reads: impl Iterator<Item = Read<Self::Stamps>>,
    ) -> Result<(), Conflict>;

    /// Notes that the transaction comes after a deletion at `stamp` that left no version behind: the key has been
    /// removed.
    fn follow(&mut self, stamp: Stamp, site: ConflictSite) -> Result<(), Conflict>;

    /// Notes that the transaction inserted a key where scans that committed at up to `stamp` had found none.
    fn enter_gap(&mut self, stamp: Stamp, site: ConflictSite) -> Result<(), Conflict>;

    /// Notes that the transaction installed a version over one made at `created`.
    fn overwrite(
        &mut self,
        tid: Tid,
        old: VersionPtr<Self::Stamps>,
        created: Stamp,
        site: ConflictSite,
    ) -> Result<(), Conflict>;

    /// Number of reads that the certifier keeps.
    fn tracked_reads(&self) -> usize {
        0
    }

    /// Whether no transaction has overwritten a version that this one has read; waits for transactions that are about
    /// to commit, and counts a prepared one as committed. Other transactions that have not ended will
    /// lose ([`crate::txn::prepared`]).
    fn reads_hold(&self, _shared: &Shared, _tids: &TidLease) -> bool {
        true
    }

    /// Answers the same question for a version that turns out to have been read.
    fn late_holds(&self, _shared: &Shared, _tids: &TidLease, _version: VersionPtr<Self::Stamps>) -> bool {
        true
    }

    /// Calls `show` with the places that the transaction has read: rows, with their keys, and tables in which it does
    /// not know the rows, without a key.
    fn show_reads(&self, _show: &mut dyn FnMut(ConflictSite)) {}

    /// Tracks every read from now on, however long the transaction is.
    fn track_all(&mut self) {}

    /// Whether it does.
    fn tracks_all(&self) -> bool {
        false
    }

    /// The transaction is prepared: its reads remain valid until it ends.
    fn prepare(&mut self) {}

    /// Readies a prepared transaction to try again with a higher stamp: forgets the results for the lower
    /// one, but not the reads.
    fn try_again(&mut self) {}

    /// Whether a transaction without writes may commit at `stamp`, just below its snapshot. Not called where
    /// [`Self::SNAPSHOT_IS_SERIAL`] answers it.
    fn certify_read_only(&mut self, _shared: &Shared, _stamp: Stamp) -> bool {
        Self::SNAPSHOT_IS_SERIAL
    }

    /// Publishes the transaction's reads, before it takes its stamp.
    fn announce(&mut self, tid: Tid, reader_bit: u64);

    /// Notes that versions that the transaction overwrote have been read by the readers of a safe snapshot, which
    /// committed at `reader`. Called before `certify`.
    fn follow_snapshot(&mut self, _reader: Stamp) {}

    /// Takes the pushes of other transactions into account for the last time, before a transaction without writes ends
    /// at `stamp`; `false`: it has to go on with a stamp of its own.
    fn end_read_only(&mut self, _tids: &TidLease, _slot: &ReaderSlot, _stamp: Stamp) -> bool {
        true
    }

    /// Decides whether the transaction may commit at `stamp`, as far as that can be decided before the end.
    fn certify<'w>(
        &mut self,
        shared: &Shared,
        tids: &TidLease,
        stamp: Stamp,
        writes: impl Iterator<Item = Overwrite<'w, Self::Stamps>>,
    ) -> Result<(), Conflict>;

    /// Adds a late read, between `certify` and `seal`.
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

    /// Makes the final decision; returns the successor stamp that the transaction leaves in the TID table for others
    /// (SSN: pi; SSI: s1).
    fn seal(&mut self, _tids: &TidLease, stamp: Stamp) -> Result<Stamp, Conflict> {
        Ok(stamp)
    }

    /// Leaves the committed transaction's stamps in the versions it read.
    fn publish_reads(&mut self, slot: &ReaderSlot, stamp: Stamp);

    /// Leaves the stamps in one version that it overwrote, before the commit stamp of the version that it installed is
    /// set.
    fn publish_write(&self, old: VersionPtr<Self::Stamps>, stamp: Stamp, successor: Stamp);

    /// Whether the transaction reads a table as a whole: then its ranges need not be stored.
    fn reads_whole(&self, _table: TableId) -> bool {
        false
    }

    /// Reads a table as a whole from here on, so that overwriters find the transaction there, and reads of rows that have
    /// no version in memory can be noted ([`Certifier::read_stored`]). `false`: it has to know the versions that it
    /// reads.
    fn read_whole(&mut self, _table: TableId, _running: Running<'_>) -> bool {
        !Self::TRACKS
    }

    /// The number of tables that the transaction reads as a whole.
    fn whole_tables(&self) -> usize {
        0
    }

    /// Returns the versions that the transaction keeps, if there are no others that must stay in memory: it has left
    /// traces only in versions of tables that it reads as a whole.
    fn kept_versions(&self) -> Option<impl Iterator<Item = VersionPtr<Self::Stamps>>> {
        None::<iter::Empty<_>>
    }

    /// Notes that the transaction read a row that has no version in memory, made at `created`, of a table that it reads
    /// as a whole. The row's slot was read after that began.
    fn read_stored(&mut self, _created: Stamp, _site: ConflictSite) -> Result<(), Conflict> {
        Ok(())
    }

    /// Ends the transaction.
    fn end(&mut self, _slot: &ReaderSlot) {}

    /// Removes the mark from a version, before the transaction's own version is unlinked.
    fn withdraw(&self, tid: Tid, old: VersionPtr<Self::Stamps>);
}

//! Reads of stale versions that are not tracked (SSN 5.3; for SSI, ERMIA 3.6, "read optimization").
//!
//! A long transaction reads many rows that hardly ever change. Keeping each such read in a list, checking it again at
//! commit and leaving a stamp in the version costs cache misses and shared writes for nothing. So such a read only
//! makes sure that the reader's bit is set, which stays, and everything else is the overwriter's work, should there
//! ever be one:
//!
//! - The reader behind the bit committed with a lower stamp: the overwriter counts it as a predecessor.
//! - It is committing with a lower stamp: the overwriter waits for its outcome.
//! - It runs, or has a higher stamp, and has untracked reads: the overwriter *pushes* its own successor stamp (SSN: pi,
//!   SSI: s1) into the reader's context.
//! - The same, but the reader has fixed its stamps already: the overwriter aborts, since no transaction is left that
//!   could see the edge.
//! - It has ended, and its slot is free or another's: the overwriter uses the slot's `last_untracked` in its place; if
//!   that is above its own stamp, it aborts, otherwise it counts it.
//!
//! A bit may belong to transactions that never read the version: then this aborts too much, never too little.
//!
//! Invariants
//! 1. A reader announces in its slot that it has untracked reads, *then* sets its bit if necessary, *then* loads
//!    `successor`; an overwriter marks `successor`, *then* reads bits and slots. All sequentially consistent. The read
//!    stays untracked only if `successor` was infinite: then the overwriter finds bit and slot. A mark locks untracked
//!    reads out.
//! 2. A reader takes pushed stamps into account when it *locks* the word, right before its last test; later pushes
//!    fail. Nothing waits between the lock and the outcome.
//! 3. A stamp that an overwriter pushes must be final. Others may lower the overwriter's successor stamp while it
//!    pushes, if it has untracked reads itself: if the stamp is below the pushed one after its own lock, it aborts.
//!    (The paper pushes the commit stamp and has no such rule. Both let cycles through: about 1 random history in
//!    50 000.)
//! 4. After a push the overwriter reads the slot again: if the reader is still in it, the push went to the right
//!    context. A push that meets a later owner of the context makes that one abort too much at worst.
//! 5. `last_untracked` is raised before the slot is given up. The overwriter's own slot is no exception: an earlier
//!    transaction in it may have read the version.

use std::sync::Arc;

use super::{
    ConflictSite, Running, Shared,
    tracking::{Track, Tracked},
};
use crate::{
    error::Dependency,
    ids::{Stamp, TableId, Tid},
    mutant::Mutant,
    rows::chain::{Origin, VersionPtr},
    scheme::{
        escalation::TableReaders,
        staleness::{READS_A_STEP, Staleness},
    },
    sync::Spin,
    txn::{
        readers::{ReaderSlot, SlotView},
        table::{Inquiry, TidLease},
    },
};

/// Tracked reads after which a transaction is long.
const LONG: usize = 64;

/// One transaction's untracked reads.
#[derive(Default)]
pub(super) struct Untracked {
    /// Whether it has untracked reads: then its slot says so.
    any: bool,
    /// The tables of its untracked reads, the one of the last read at the end.
    tables: Vec<TableId>,
    /// Whether untracked reads are forbidden.
    tracks_all: bool,
    /// Set when no transaction can have overwritten its reads any more: later pushes are meant for an earlier
    /// transaction of its slot.
    is_prepared: bool,
    /// The lowest successor stamp that it has pushed.
    pushed: Option<Stamp>,
    /// Reads that were tracked because the version was young; over all transactions of the worker.
    young: u32,
    /// Number of reads of the table that it reads now.
    of_table: (Option<TableId>, u64),
    /// The tables that it reads as a whole.
    whole: Vec<(TableId, Arc<TableReaders>)>,
}

impl Untracked {
    /// Begins a new transaction.
    pub(super) fn begin(&mut self) {
        debug_assert!(self.whole.is_empty(), "the last transaction has ended");
        self.tables.clear();
        (self.any, self.tracks_all, self.is_prepared, self.pushed, self.of_table) =
            (false, false, false, None, (None, 0));
    }

    /// Tracks every read from here on.
    pub(super) fn track_all(&mut self) {
        self.tracks_all = true;
    }

    /// Whether it does.
    pub(super) fn tracks_all(&self) -> bool {
        self.tracks_all
    }

    /// Begins reads of rows of one table, which follow one another.
    #[inline]
    pub(super) fn run<'r, F: FnOnce() -> Running<'r>>(
        &mut self,
        staleness: &'r Staleness,
        running: F,
    ) -> Run<'_, 'r, F> {
        Run { untracked: self, staleness, running: Some(running), began: None }
    }

    fn is_stale(&mut self, staleness: &Staleness, begin: Stamp, created: Stamp) -> bool {
        let is_stale = staleness.is_stale(created, begin);
        if !is_stale {
            self.young += 1;
            if self.young == READS_A_STEP {
                self.young = 0;
                staleness.lower();
            }
        }
        is_stale
    }

    /// Whether it reads a table as a whole.
    #[inline]
    pub(super) fn reads_whole(&self, table: TableId) -> bool {
        self.whole.iter().any(|&(whole, _)| whole == table)
    }

    /// The number of tables that it reads as a whole.
    #[inline]
    pub(super) fn whole_tables(&self) -> usize {
        self.whole.len()
    }

    /// Whether it reads each table as a whole of which it has untracked reads.
    pub(super) fn reads_only_whole(&self) -> bool {
        self.tables.iter().all(|&table| self.reads_whole(table))
    }

    /// Whether a transaction has read most of the table with the next read: then it reads all of it from here on.
    fn escalates(&mut self, running: &mut Running<'_>, table: TableId) -> bool {
        if self.of_table.0 != Some(table) {
            self.of_table = (Some(table), 0);
        }
        let escalates = running.table_readers.is_most(self.of_table.1 + 1, running.rows) && self.announce(running);
        if escalates {
            running.table_readers.enter(running.slot);
            self.whole.push((table, running.table_readers.clone()));
        }
        escalates
    }

    /// Reads a table as a whole from here on, as after most of its rows have been read; `false` if that is impossible.
    pub(super) fn read_whole(&mut self, table: TableId, mut running: Running<'_>) -> bool {
        if !self.announce_in(&mut running, table) {
            return false;
        }
        if !self.reads_whole(table) {
            running.table_readers.enter(running.slot);
            self.whole.push((table, running.table_readers.clone()));
        }
        true
    }

    /// Begins a run of reads of which some may go untracked.
    fn begin_run<'r>(&mut self, mut running: Running<'r>, table: TableId) -> Began<'r> {
        let how = if self.tracks_all {
            How::Tracked
        } else if self.reads_whole(table) || self.escalates(&mut running, table) {
            let is_announced = self.announce_in(&mut running, table);
            debug_assert!(is_announced, "a transaction that reads a table as a whole has announced it");
            How::Whole
        } else {
            How::Unannounced
        };
        Began { running, how }
    }

    /// Announces untracked reads of a table; `false` if that is impossible.
    fn announce_in(&mut self, running: &mut Running<'_>, table: TableId) -> bool {
        if !self.announce(running) {
            return false;
        }
        if self.tables.last() != Some(&table) {
            self.tables.retain(|other| *other != table);
            self.tables.push(table);
        }
        true
    }

    /// Announces untracked reads, once; `false` if that is impossible.
    #[inline]
    fn announce(&mut self, running: &mut Running<'_>) -> bool {
        if !self.any {
            if running.tid.is_none() {
                *running.tid = running.tids.begin();
            }
            let Some(tid) = *running.tid else { return false };
            running.slot.publish_untracked(tid, running.begin);
            self.any = true;
        }
        true
    }

    /// Returns the lowest stamp pushed so far; infinity: none.
    pub(super) fn successor(&self, tids: &TidLease) -> Stamp {
        if self.any && !self.is_prepared { tids.successor() } else { Stamp::INFINITY }
    }

    /// Whether no transaction has overwritten a version that this one has read, or is about to commit that. The
    /// versions are not known, so this waits for every transaction that is committing now. Any other transaction will
    /// look for prepared transactions before it pushes.
    pub(super) fn hold(&self, shared: &Shared, tids: &TidLease) -> bool {
        if !self.any {
            return true;
        }
        let own = tids.running();
        let waited: Result<(), std::convert::Infallible> = shared.readers.try_for_each_slot(u64::MAX, |slot| {
            let mut spin = Spin::default();
            while let Some(reader) = slot.reader().filter(|reader| Some(reader.tid) != own)
                && matches!(shared.tids.inquire(reader.tid), Inquiry::Committing(_) | Inquiry::Stale)
            {
                spin.wait();
            }
            Ok(())
        });
        let Ok(()) = waited;
        self.successor(tids) == Stamp::INFINITY
    }

    /// Calls `show` with the tables in which it has read.
    pub(super) fn show(&self, show: &mut dyn FnMut(ConflictSite)) {
        self.tables.iter().for_each(|table| show(ConflictSite { table: *table, at: 0, length: 0 }));
    }

    /// The transaction is prepared: its reads remain valid until it ends.
    pub(super) fn prepare(&mut self) {
        self.is_prepared = true;
    }

    /// Locks the pushed stamp and returns it (invariant 2).
    pub(super) fn lock(&self, tids: &TidLease) -> Stamp {
        if !self.any {
            return Stamp::INFINITY;
        }
        let pushed = tids.lock_successor();
        if self.is_prepared { Stamp::INFINITY } else { pushed }
    }

    /// Whether the stamps pushed to others are valid, if the successor stamp has become `successor` (invariant 3).
    pub(super) fn stands(&self, successor: Stamp) -> bool {
        self.pushed.is_none_or(|pushed| pushed <= successor) || Mutant::NoStand.is_on()
    }

    /// Publishes the stamp of the committed transaction.
    pub(super) fn publish(&self, slot: &ReaderSlot, stamp: Stamp) {
        if self.any {
            self.whole.iter().for_each(|(_, table)| table.publish(stamp));
            slot.raise_last_untracked(stamp);
        }
    }

    /// Ends the transaction.
    pub(super) fn end(&mut self, slot: &ReaderSlot) {
        self.whole.drain(..).for_each(|(_, table)| table.leave(slot));
    }

    /// Ends a transaction without writes just below its snapshot, unless a pushed stamp is as low: then it goes on.
    pub(super) fn end_read_only(&self, tids: &TidLease, slot: &ReaderSlot, stamp: Stamp) -> bool {
        if !self.any {
            return true;
        }
        if tids.lock_successor() <= stamp {
            tids.unlock_successor();
            return false;
        }
        self.publish(slot, stamp);
        true
    }

    /// Returns the table in which untracked reads may have caused an abort.
    pub(super) fn table(&self) -> Option<TableId> {
        self.tables.last().copied()
    }
}

/// Reads of rows of one table that follow one another.
pub(super) struct Run<'u, 'r, F> {
    untracked: &'u mut Untracked,
    staleness: &'r Staleness,
    running: Option<F>,
    /// Set by the first read that may go untracked.
    began: Option<Began<'r>>,
}

/// The state of a run whose reads may go untracked.
struct Began<'r> {
    running: Running<'r>,
    how: How,
}

/// How the reads of a run are treated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    /// All are tracked.
    Tracked,
    /// Reads of stale versions are not tracked: there was none yet.
    Unannounced,
    /// The same, after the first one.
    Announced,
    /// The table is read as a whole.
    Whole,
}

impl<'r, F: FnOnce() -> Running<'r>> Run<'_, 'r, F> {
    /// Reads a version without tracking, if the transaction is long, the version is stale, and no transaction is about
    /// to overwrite it. `tracked`: how many reads the transaction tracks so far.
    ///
    /// A short transaction tracks everything: that is cheap, it goes on to write most rows that it reads, and it leaves
    /// no stamp in its slot that would harm overwriters of rows that it never read.
    #[inline(always)]
    pub(super) fn read<H: Tracked>(
        &mut self,
        tracked: usize,
        version: VersionPtr<H>,
        created: Stamp,
        site: ConflictSite,
    ) -> bool {
        (tracked >= LONG || self.staleness.is_given()) && self.read_long(version, created, site.table)
    }

    #[inline]
    fn read_long<H: Tracked>(&mut self, version: VersionPtr<H>, created: Stamp, table: TableId) -> bool {
        let Self { untracked, staleness, running, began } = self;
        let Began { running, how } = match began {
            Some(began) => began,
            None => began.insert(untracked.begin_run(running.take().expect("it begins once")(), table)),
        };
        if *how == How::Tracked {
            return false;
        }
        let track = version.certifier().track();
        if *how != How::Whole {
            untracked.of_table.1 += 1;
            if !untracked.is_stale(staleness, running.begin, created) {
                return false;
            }
            if *how == How::Unannounced && !Mutant::UntrackedSaidLate.is_on() {
                if !untracked.announce_in(running, table) {
                    *how = How::Tracked;
                    return false;
                }
                *how = How::Announced;
            }
            track.add_reader(running.slot.bit());
            version.certifier().read_by(running.begin);
        }
        // Invariant 1.
        let stays = match track.successor.load_in_order() {
            Origin::At(Stamp::INFINITY) => true,
            Origin::By(_) => Mutant::NoLockout.is_on(),
            Origin::At(_) => false,
        };
        if stays && Mutant::UntrackedSaidLate.is_on() {
            return untracked.announce_in(running, table);
        }
        stays
    }
}

/// A transaction that overwrites versions, at its commit.
pub(super) struct Overwriting<'a> {
    pub(super) shared: &'a Shared,
    pub(super) tid: Tid,
    pub(super) stamp: Stamp,
    /// The stamp that it leaves to its predecessors.
    pub(super) successor: Stamp,
}

/// A reader behind a bit.
pub(super) enum Met {
    /// It committed at this stamp, below the overwriter's.
    Committed(Stamp, Option<Tid>, Dependency),
    /// It runs and has been pushed a stamp: it may have read the version.
    Told,
}

/// A reader that may have read the version, comes later, and has fixed its stamps already.
pub(super) struct TooLate(pub(super) Option<Tid>);

impl Overwriting<'_> {
    /// Calls `met` with the readers of a version. `last_begin`: no transaction with a snapshot above it has read the
    /// version untracked.
    pub(super) fn meet_readers(
        &self,
        track: &Track,
        table: &TableReaders,
        untracked: &mut Untracked,
        last_begin: Stamp,
        mut met: impl FnMut(Met),
    ) -> Result<(), TooLate> {
        let (bits, whole) = (track.readers(), table.bits());
        let last_begin = if whole == 0 { last_begin } else { Stamp::INFINITY };
        if bits | whole != 0 {
            self.shared.readers.try_for_each_slot(bits | whole, |slot| {
                self.meet_reader(&slot, untracked, last_begin, &mut met)?;
                if last_begin == Stamp::ZERO {
                    return Ok(());
                }
                // After the reader: a transaction that has left the slot has raised this (invariant 5).
                let last = slot.last_untracked();
                if Mutant::NoLastUntracked.is_on()
                    || Mutant::OwnSlotSkipped.is_on() && slot.reader().is_some_and(|reader| reader.tid == self.tid)
                {
                    return Ok(());
                }
                if last > self.stamp {
                    return Err(TooLate(None));
                }
                met(Met::Committed(last, None, Dependency::MayHaveBeenReadBy));
                Ok(())
            })?;
        }
        // After the bits: a transaction that removed its bit has raised this.
        let last = table.last_read();
        if last > self.stamp {
            return Err(TooLate(None));
        }
        met(Met::Committed(last, None, Dependency::MayHaveBeenReadBy));
        // After the slots: a transaction that left its slot has raised this (tracking, invariant 3).
        met(Met::Committed(track.last_read(), None, Dependency::WasReadBy));
        Ok(())
    }

    fn meet_reader(
        &self,
        slot: &SlotView<'_>,
        untracked: &mut Untracked,
        last_begin: Stamp,
        met: &mut impl FnMut(Met),
    ) -> Result<(), TooLate> {
        let mut spin = Spin::default();
        loop {
            let Some(reader) = slot.reader().filter(|reader| reader.tid != self.tid) else { return Ok(()) };
            let begin = slot.begin();
            let other = self.shared.tids.inquire(reader.tid);
            let running = match other {
                Inquiry::Aborted => return Ok(()),
                Inquiry::InFlight => true,
                Inquiry::Committing(Some(stamp)) if stamp > self.stamp => false,
                Inquiry::Committing(_) | Inquiry::Stale => {
                    spin.wait();
                    continue;
                }
                Inquiry::Committed { stamp, .. } if stamp < self.stamp => {
                    let dependency =
                        if reader.untracked { Dependency::MayHaveBeenReadBy } else { Dependency::WasReadBy };
                    met(Met::Committed(stamp, Some(reader.tid), dependency));
                    return Ok(());
                }
                Inquiry::Committed { .. } if reader.untracked => return Err(TooLate(Some(reader.tid))),
                Inquiry::Committed { .. } => return Ok(()),
            };
            if !reader.untracked {
                // The reader looks for the overwriter itself. If it announces untracked reads later, the mark locks
                // them out.
                return Ok(());
            }
            if begin > last_begin {
                if slot.reader() == Some(reader) {
                    return Ok(());
                }
                continue;
            }
            let pushed = if Mutant::PushStamp.is_on() { self.stamp } else { self.successor };
            let told = Mutant::NoPush.is_on() || self.shared.tids.push_successor(reader.tid, pushed);
            if slot.reader() != Some(reader) {
                continue;
            }
            if told {
                untracked.pushed = Some(untracked.pushed.map_or(self.successor, |pushed| pushed.min(self.successor)));
                met(Met::Told);
                return Ok(());
            }
            if !running {
                return Err(TooLate(Some(reader.tid)));
            }
            // The reader is about to end without a stamp of its own.
            spin.wait();
        }
    }
}

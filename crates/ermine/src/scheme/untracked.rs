//! Reads of stale versions that are not tracked (SSN 5.3; for SSI, ERMIA 3.6, "read optimization").
//!
//! A long transaction reads much that hardly ever changes. Keeping each such read in a list, looking at it again at commit
//! and leaving a stamp in it costs cache misses and shared writes for nothing. So such a read only sees to it that the
//! reader's bit is set, once and for all, and everything else is the overwriter's work, should there ever be one:
//!
//! | the reader behind the bit | what the overwriter does |
//! |---|---|
//! | committed with a lower stamp | counts it as a predecessor |
//! | is committing with a lower stamp | waits for its outcome |
//! | runs, or has a higher stamp, and has untracked reads | *pushes* its own successor stamp (SSN: pi, SSI: s1) into the reader's context |
//! | the same, but has fixed its stamps already | aborts: there is nobody left who could see the edge |
//! | has ended: its slot is free or another's | takes the slot's `last_untracked` for it: above its own stamp it aborts, otherwise it counts it |
//!
//! A bit may belong to transactions that never read the version: then this aborts too much, never too little.
//!
//! Invariants
//! 1. A reader says in its slot that it has untracked reads, *then* sees to its bit, *then* looks at `successor`; an
//!    overwriter marks `successor`, *then* reads bits and slots. All sequentially consistent. The read stays untracked only if
//!    `successor` was infinite: then the overwriter finds bit and slot. A mark locks untracked reads out.
//! 2. A reader takes what was pushed into account when it *locks* the word, right before its last test; later pushes fail.
//!    Nothing waits between the lock and the outcome.
//! 3. What an overwriter pushes must be final. Others may lower it while it pushes, if it has untracked reads itself: if
//!    after its own lock it is below what it pushed, it aborts. (The paper pushes the commit stamp and has no such rule. Both
//!    let cycles through: about 1 random history in 50 000.)
//! 4. After a push the overwriter looks at the slot again: if the reader is still there, the push went to the right
//!    context. A push that meets a later owner of the context makes that one abort too much at worst.
//! 5. `last_untracked` is raised before the slot is given up. One's own slot is no exception: an earlier transaction in
//!    it may have read the version.

use std::sync::Arc;

use super::{
    Place, Running, Shared,
    tracking::{Track, Tracked},
};
use crate::{
    error::Dependency,
    ids::{Stamp, TableId, Tid},
    mutant::Mutant,
    rows::chain::{Origin, VersionPtr},
    scheme::{escalation::TableReaders, staleness::READS_A_STEP},
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
    /// It has some: its slot says so.
    any: bool,
    /// In which tables they were, the one of the last read at the end.
    tables: Vec<TableId>,
    /// It is to have none.
    tracks_all: bool,
    /// Nobody can have overwritten what it has read: what is pushed to it is meant for an earlier transaction of its slot.
    promised: bool,
    /// The lowest successor stamp that it has pushed.
    pushed: Option<Stamp>,
    /// Reads that were tracked because the version was young; over all transactions of the worker.
    young: u32,
    /// Reads of the table that it reads now.
    of_table: (Option<TableId>, u64),
    /// The tables that it reads as a whole.
    whole: Vec<(TableId, Arc<TableReaders>)>,
}

impl Untracked {
    /// A new transaction.
    pub(super) fn begin(&mut self) {
        debug_assert!(self.whole.is_empty(), "the last transaction has ended");
        self.tables.clear();
        (self.any, self.tracks_all, self.promised, self.pushed, self.of_table) = (false, false, false, None, (None, 0));
    }

    /// Every read is tracked from here on.
    pub(super) fn track_all(&mut self) {
        self.tracks_all = true;
    }

    /// Reads a version without tracking, if the transaction is long, the version is stale, and nobody is about to overwrite it.
    /// `tracked`: how many reads the transaction tracks so far.
    ///
    /// A short transaction tracks everything: that is cheap, most of what it reads it goes on to write, and it leaves no
    /// stamp in its slot under which overwriters of rows that it never read would suffer.
    #[inline]
    pub(super) fn read<H: Tracked>(
        &mut self,
        running: &mut Running<'_>,
        version: VersionPtr<H>,
        created: Stamp,
        place: Place,
        tracked: usize,
    ) -> bool {
        (tracked >= LONG || running.staleness.is_given()) && self.read_long(running, version, created, place)
    }

    fn read_long<H: Tracked>(
        &mut self,
        running: &mut Running<'_>,
        version: VersionPtr<H>,
        created: Stamp,
        place: Place,
    ) -> bool {
        if self.tracks_all {
            return false;
        }
        let track = version.certifier().track();
        let is_whole = self.reads_whole(place.table) || self.escalates(running, place.table);
        if !is_whole && !self.is_stale(running, created) {
            return false;
        }
        if !Mutant::UntrackedSaidLate.is_on() && !self.announce(running) {
            return false;
        }
        if self.tables.last() != Some(&place.table) {
            self.tables.retain(|table| *table != place.table);
            self.tables.push(place.table);
        }
        if !is_whole {
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
            return self.announce(running);
        }
        stays
    }

    fn is_stale(&mut self, running: &Running<'_>, created: Stamp) -> bool {
        let is_stale = running.staleness.is_stale(created, running.begin);
        if !is_stale {
            self.young += 1;
            if self.young == READS_A_STEP {
                self.young = 0;
                running.staleness.lower();
            }
        }
        is_stale
    }

    /// Whether it reads a table as a whole.
    #[inline]
    pub(super) fn reads_whole(&self, table: TableId) -> bool {
        self.whole.iter().any(|&(whole, _)| whole == table)
    }

    /// Counts a read; when it has read most of the table, it reads all of it.
    #[inline]
    fn escalates(&mut self, running: &mut Running<'_>, table: TableId) -> bool {
        let reads = if self.of_table.0 == Some(table) { self.of_table.1 + 1 } else { 1 };
        self.of_table = (Some(table), reads);
        let escalates = running.table_readers.is_most(reads, running.rows)
            && self.announce(running)
            && running.table_readers.enter(running.slot);
        if escalates {
            self.whole.push((table, running.table_readers.clone()));
        }
        escalates
    }

    /// Says that there are untracked reads, once; `false` if it cannot.
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

    /// What has been pushed so far; infinity: nothing.
    pub(super) fn successor(&self, tids: &TidLease) -> Stamp {
        if self.any && !self.promised { tids.successor() } else { Stamp::INFINITY }
    }

    /// Whether no transaction has overwritten what it has read, or is about to commit that. It does not know what it has read, so it waits for every
    /// transaction that is committing now. Any other one will look at the promises before it pushes.
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

    /// Shows the tables in which it has read.
    pub(super) fn show(&self, show: &mut dyn FnMut(Place)) {
        self.tables.iter().for_each(|table| show(Place { table: *table, at: 0, length: 0 }));
    }

    /// What it has read stays as it is until it ends.
    pub(super) fn promise(&mut self) {
        self.promised = true;
    }

    /// Takes what has been pushed, the last time (invariant 2).
    pub(super) fn lock(&self, tids: &TidLease) -> Stamp {
        if !self.any {
            return Stamp::INFINITY;
        }
        let pushed = tids.lock_successor();
        if self.promised { Stamp::INFINITY } else { pushed }
    }

    /// Whether what was pushed to others stands, if the successor stamp has come to be `successor` (invariant 3).
    pub(super) fn stands(&self, successor: Stamp) -> bool {
        self.pushed.is_none_or(|pushed| pushed <= successor) || Mutant::NoStand.is_on()
    }

    /// The transaction has committed.
    pub(super) fn publish(&self, slot: &ReaderSlot, stamp: Stamp) {
        if self.any {
            self.whole.iter().for_each(|(_, table)| table.publish(stamp));
            slot.raise_last_untracked(stamp);
        }
    }

    /// The transaction is over.
    pub(super) fn end(&mut self, slot: &ReaderSlot) {
        self.whole.drain(..).for_each(|(_, table)| table.leave(slot));
    }

    /// A transaction without writes ends just below its snapshot, unless something pushed reaches back as far: then it
    /// goes on.
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

    /// In which table untracked reads may have caused an abort.
    pub(super) fn table(&self) -> Option<TableId> {
        self.tables.last().copied()
    }
}

/// Who overwrites something, at its commit.
pub(super) struct Overwriting<'a> {
    pub(super) shared: &'a Shared,
    pub(super) tid: Tid,
    pub(super) stamp: Stamp,
    /// What it leaves its predecessors.
    pub(super) successor: Stamp,
}

/// A reader behind a bit.
pub(super) enum Met {
    /// It committed at this stamp, below the overwriter's.
    Committed(Stamp, Option<Tid>, Dependency),
    /// It runs and has been told: it may have read the version.
    Told,
}

/// A reader that may have read the version, comes later, and cannot be told any more.
pub(super) struct TooLate(pub(super) Option<Tid>);

impl Overwriting<'_> {
    /// Calls `met` with the readers of a version. `last_begin`: nobody whose snapshot is above that has read it untracked.
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
                // After the reader: whoever has left the slot has raised this (invariant 5).
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
        // After the bits: who took one off has raised this.
        let last = table.last_read();
        if last > self.stamp {
            return Err(TooLate(None));
        }
        met(Met::Committed(last, None, Dependency::MayHaveBeenReadBy));
        // After the slots: who left its slot has raised this (tracking, invariant 3).
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
                // It looks for the overwriter itself. Unless this changes after it was read: then the mark locked it out.
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
            // About to end without a stamp of its own.
            spin.wait();
        }
    }
}

//! Deliberate faults, one at a time, to see whether tests and checkers find them.
//!
//! Only under `RUSTFLAGS="--cfg ermine_mutants"`; otherwise every question is answered with a constant `false`.

/// A rule that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, dead_code, reason = "each name is the fault")]
pub enum Mutant {
    /// No certifier ever finds anything.
    NoTest,
    /// A transaction may come before one that was acknowledged when it began.
    NoRealTime,
    /// A safe snapshot is handed out again to a transaction in strict order.
    OldSnapshot,
    /// Leaf sets are not validated.
    NoLeafValidation,
    /// Inserts do not look at the gap stamp.
    NoGapStamp,
    /// Who reads a version sets no bit in it.
    NoReaderBit,
    /// Reader bits are set after the stamp is taken.
    BitsAfterStamp,
    /// The stamp is taken before the transaction says that it commits.
    StampBeforeMark,
    /// The reader slot is given up before the stamps stand in the versions.
    SlotBeforeStamps,
    /// An overwriter does not count the creator of what it overwrites.
    NoCreator,
    /// A transaction without writes commits below its snapshot without a test.
    ReadOnlyAnyway,
    /// Committers do not look for safe snapshots.
    NoSafeSnapshot,
    /// A reader says that it has untracked reads after it has looked at the version.
    UntrackedSaidLate,
    /// A mark does not lock untracked reads out.
    NoLockout,
    /// Overwriters push nothing.
    NoPush,
    /// Overwriters push their commit stamp.
    PushStamp,
    /// What fell after it was pushed does not matter.
    NoStand,
    /// The last stamp of a reader slot is ignored.
    NoLastUntracked,
    /// The last stamp of one's own reader slot is ignored.
    OwnSlotSkipped,
    /// Who updates what was committed after its snapshot goes on.
    LostUpdate,
    /// Versions of running transactions are visible.
    DirtyRead,
    /// Records are unlocked before the values are in.
    UnlockedEarly,
    /// A committing transaction does not make sure that its index entries are there.
    EntriesNotSettled,
    /// A shared lock is granted beside an exclusive one.
    SharedBesideExclusive,
    /// Who reads a record does not raise its read timestamp.
    NoReadTimestamp,
    /// Who has copied a record does not look at its write timestamp again.
    NoSecondLook,
    /// What a snapshot shows is not kept when it is overwritten.
    NothingKept,
    /// Index entries that a snapshot needs leave.
    NoEntryLeft,
    /// An error leaves although what its transaction has read was not certified.
    UncertifiedError,
    /// The cleaner's addresses have 14 bits of a record's number, without a check.
    ShortRecordNumber,
    /// A transaction that commits does not look at what prepared transactions have read.
    PromiseIgnored,
    /// A transaction that promises to commit does not look whether what it has read was overwritten.
    PromiseUnseen,
}

impl Mutant {
    /// All of them.
    #[cfg(ermine_mutants)]
    pub const ALL: &[Self] = &[
        Self::NoTest,
        Self::NoRealTime,
        Self::OldSnapshot,
        Self::NoLeafValidation,
        Self::NoGapStamp,
        Self::NoReaderBit,
        Self::BitsAfterStamp,
        Self::StampBeforeMark,
        Self::SlotBeforeStamps,
        Self::NoCreator,
        Self::ReadOnlyAnyway,
        Self::NoSafeSnapshot,
        Self::UntrackedSaidLate,
        Self::NoLockout,
        Self::NoPush,
        Self::PushStamp,
        Self::NoStand,
        Self::NoLastUntracked,
        Self::OwnSlotSkipped,
        Self::LostUpdate,
        Self::DirtyRead,
        Self::UnlockedEarly,
        Self::EntriesNotSettled,
        Self::SharedBesideExclusive,
        Self::NoReadTimestamp,
        Self::NoSecondLook,
        Self::NothingKept,
        Self::NoEntryLeft,
        Self::UncertifiedError,
        Self::ShortRecordNumber,
        Self::PromiseIgnored,
        Self::PromiseUnseen,
    ];

    /// Whether this fault is in force.
    #[inline(always)]
    pub(crate) fn is_on(self) -> bool {
        #[cfg(ermine_mutants)]
        return chosen::get() == self as u8;
        #[cfg(not(ermine_mutants))]
        false
    }

    /// Puts a fault in force, for the whole process; under `--cfg shuttle`, where all tasks of a schedule are one thread, for this thread.
    #[cfg(ermine_mutants)]
    pub fn choose(mutant: Option<Self>) {
        chosen::set(mutant.map_or(NONE, |mutant| mutant as u8));
    }
}

#[cfg(ermine_mutants)]
const NONE: u8 = u8::MAX;

#[cfg(all(ermine_mutants, not(shuttle)))]
mod chosen {
    use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

    static CHOSEN: AtomicU8 = AtomicU8::new(super::NONE);

    #[inline(always)]
    pub(super) fn get() -> u8 {
        CHOSEN.load(Relaxed)
    }

    pub(super) fn set(mutant: u8) {
        CHOSEN.store(mutant, Relaxed);
    }
}

#[cfg(all(ermine_mutants, shuttle))]
mod chosen {
    use std::cell::Cell;

    thread_local! {
        static CHOSEN: Cell<u8> = const { Cell::new(super::NONE) };
    }

    #[inline(always)]
    pub(super) fn get() -> u8 {
        CHOSEN.get()
    }

    pub(super) fn set(mutant: u8) {
        CHOSEN.set(mutant);
    }
}

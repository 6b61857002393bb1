//! Deliberate faults, one at a time, to check whether tests and checkers find them.
//!
//! Only under `RUSTFLAGS="--cfg ermine_mutants"`; otherwise every query returns a constant `false`.

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
    /// Inserts do not read the gap stamp.
    NoGapStamp,
    /// A reader of a version sets no bit in it.
    NoReaderBit,
    /// Reader bits are set after the stamp is taken.
    BitsAfterStamp,
    /// The stamp is taken before the transaction marks itself committing.
    StampBeforeMark,
    /// The reader slot is given up before the stamps are stored in the versions.
    SlotBeforeStamps,
    /// An overwriter does not count the creator of the version that it overwrites.
    NoCreator,
    /// A transaction without writes commits below its snapshot without a test.
    ReadOnlyAnyway,
    /// A version that leaves memory takes the stamps of its readers along.
    EvictionForgets,
    /// A version leaves memory while transactions run that have read it.
    EvictedEarly,
    /// A scan that reads rows from their files does not announce that it reads the table.
    UncachedUntold,
    /// Committers do not look for safe snapshots.
    NoSafeSnapshot,
    /// A reader announces its untracked reads after it has inspected the version.
    UntrackedSaidLate,
    /// A mark does not exclude untracked reads.
    NoLockout,
    /// Overwriters push no successor stamp.
    NoPush,
    /// Overwriters push their commit stamp.
    PushStamp,
    /// A successor stamp that fell after it was pushed is not rechecked.
    NoStand,
    /// The last stamp of a reader slot is ignored.
    NoLastUntracked,
    /// The last stamp of the transaction's own reader slot is ignored.
    OwnSlotSkipped,
    /// A transaction that updates a row committed after its snapshot goes on.
    LostUpdate,
    /// Versions of running transactions are visible.
    DirtyRead,
    /// Records are unlocked before the values are stored in them.
    UnlockedEarly,
    /// A committing transaction does not make sure that its index entries exist.
    EntriesNotSettled,
    /// A shared lock is granted beside an exclusive one.
    SharedBesideExclusive,
    /// A reader of a record does not raise its read timestamp.
    NoReadTimestamp,
    /// A reader that has copied a record does not check its write timestamp again.
    NoSecondLook,
    /// A version that a snapshot shows is not kept when it is overwritten.
    NothingKept,
    /// Index entries that a snapshot needs are removed.
    NoEntryLeft,
    /// An error is returned although its transaction's reads were not certified.
    UncertifiedError,
    /// The cleaner's addresses have only 8 bits of a record's number, without a check.
    ShortRecordNumber,
    /// A committing transaction ignores the reads of prepared transactions.
    PrepareIgnored,
    /// A transaction that is being prepared does not check whether its reads were overwritten.
    PrepareUnseen,
    /// An index is built without regard to running transactions that have written rows and do not know it.
    IndexBuiltEarly,
    /// A transaction runs although a record that it declared was removed before it counted itself there.
    GoneRecordDeclared,
}

impl Mutant {
    /// All mutants.
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
        Self::EvictionForgets,
        Self::EvictedEarly,
        Self::UncachedUntold,
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
        Self::PrepareIgnored,
        Self::PrepareUnseen,
        Self::IndexBuiltEarly,
        Self::GoneRecordDeclared,
    ];

    /// Returns whether this fault is active.
    #[inline(always)]
    pub(crate) fn is_on(self) -> bool {
        #[cfg(ermine_mutants)]
        return chosen::get() == self as u8;
        #[cfg(not(ermine_mutants))]
        false
    }

    /// Activates a fault for the whole process; under `--cfg shuttle`, where all tasks of a schedule are one thread,
    /// for this thread.
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

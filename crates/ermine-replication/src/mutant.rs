//! Deliberate faults, one at a time, to check whether the simulation finds them.
//!
//! Only under `RUSTFLAGS="--cfg ermine_mutants"`; otherwise every query returns a constant `false`.

/// A rule that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "each name is the fault")]
pub enum Mutant {
    /// A publisher that meets a foreign message appends behind it.
    ForeignIgnored,
    /// A publisher whose lease is lost goes on.
    LostLeaseIgnored,
    /// A publisher appends behind whatever the last message is.
    NoExpectedSequence,
    /// A piece is reported as replicated before it is appended.
    AcknowledgedEarly,
    /// An append with an unknown outcome counts as one that happened.
    UnknownIsSuccess,
    /// The hash of the predecessor is not checked.
    ChainUnchecked,
    /// A reader that brings nothing is not asked whether there is more.
    SilenceBelieved,
    /// A node that acquires the lease does not wait for those that may keep an earlier one.
    LogClockTrusted,
    /// A node waits until the log lets a lease expire.
    LogClockAwaited,
}

impl Mutant {
    /// All mutants.
    #[cfg(ermine_mutants)]
    pub const ALL: &[Self] = &[
        Self::ForeignIgnored,
        Self::LostLeaseIgnored,
        Self::NoExpectedSequence,
        Self::AcknowledgedEarly,
        Self::UnknownIsSuccess,
        Self::ChainUnchecked,
        Self::SilenceBelieved,
        Self::LogClockTrusted,
        Self::LogClockAwaited,
    ];

    /// Returns whether this fault is active.
    pub(crate) fn is_on(self) -> bool {
        #[cfg(ermine_mutants)]
        return chosen::CHOSEN.get() == Some(self);
        #[cfg(not(ermine_mutants))]
        false
    }

    /// Activates a fault for this thread: a simulation is one thread.
    #[cfg(ermine_mutants)]
    pub fn choose(mutant: Option<Self>) {
        chosen::CHOSEN.set(mutant);
    }
}

#[cfg(ermine_mutants)]
mod chosen {
    use std::cell::Cell;

    thread_local! {
        pub(super) static CHOSEN: Cell<Option<super::Mutant>> = const { Cell::new(None) };
    }
}

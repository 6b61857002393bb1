//! The steps of a transaction: its admission, its accesses, its commit.
//!
//! The first access takes place after the time that the access takes, each further one after the time that it takes
//! from then on, at last the commit. Admission takes no time. A step that has waited is repeated at once.

use crate::{
    control::Control,
    offers::{Offer, Ticks},
    outcome::Cause,
    table::Slot,
    world::{Progress, World},
};

/// A transaction under way.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    pub(crate) offer: Offer,
    is_admitted: bool,
    /// Place of the next access; behind the last one, the commit follows.
    next: usize,
}

/// What became of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It took place; the next one follows after this time.
    Next(Ticks),
    /// It is repeated when the world names the transaction as woken.
    Waits,
    /// The transaction has committed.
    Committed,
    /// The transaction has aborted.
    Aborted(Cause),
}

impl Steps {
    /// A transaction that has taken no step.
    pub(crate) fn new(offer: Offer) -> Self {
        Self { offer, ..Self::default() }
    }

    /// Begins with the first step.
    pub(crate) fn restart(&mut self) {
        (self.is_admitted, self.next) = (false, 0);
    }

    /// Whether no access has taken place.
    #[cfg(test)]
    pub(crate) fn is_new(&self) -> bool {
        self.next == 0
    }

    /// Takes the next step of transaction `t`.
    pub(crate) fn take<C: Control>(&mut self, world: &mut World<C>, t: Slot) -> Step {
        let access = self.offer.accesses.get(self.next);
        let is_commit = self.is_admitted && access.is_none();
        let progress = match access {
            _ if !self.is_admitted => world.enter(t, &self.offer.accesses),
            Some(access) if access.is_write => world.write(t, access.record),
            Some(access) => world.read(t, access.record),
            None => world.commit(t),
        };
        match progress {
            Progress::Done if is_commit => Step::Committed,
            Progress::Done => {
                self.next += usize::from(self.is_admitted);
                self.is_admitted = true;
                Step::Next(self.takes())
            }
            Progress::Waits => Step::Waits,
            Progress::Aborted(cause) => Step::Aborted(cause),
        }
    }

    /// The time that the next step takes.
    fn takes(&self) -> Ticks {
        self.offer.accesses.get(self.next).map_or(self.offer.commit_takes, |access| access.takes)
    }
}

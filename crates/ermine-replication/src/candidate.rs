//! A candidate: a node that asks for the lease now and then, and knows until when the node before it may keep it.
//!
//! A primary keeps the lease, and answers reads, for a part of its lifetime behind the begin of its last renewal, by
//! its own clock. The log may let the lease expire earlier than that, or never: its clock may jump, or its servers'
//! clocks may differ. So a node that acquires it serves no client before the node before it has stopped, by a clock of
//! its own; and it acquires a lease that it has seen unchanged for longer than a lease lives.
//!
//! Invariants:
//! 1. Let `w` be the last write of the lease before an acquisition, and `t` a time at which the candidate knew that `w`
//!    was there. Any earlier holder began its last renewal before `t`, and keeps the lease for no longer than the kept
//!    part of the lifetime behind `t`: [`Candidate::free_from`] returns `t`.
//! 2. A node gives the lease back only when no earlier one is kept any more: the next one waits for nothing then.
//!
//! A candidate looks often, so in a failover the time is over when the lease expires as it should. One that has not
//! seen `w` waits from its acquisition on.
//!
//! Rejected: to trust the log's clock, with a fifth of the lifetime as reserve. When the clocks of the servers of
//! JetStream jump (`scripts/failures --only clock-logs`), a lease expires within milliseconds, or stays for a year.

use crate::{
    log::{Lease, LeaseError, LeaseWrite},
    mutant::Mutant,
};

/// What a node has seen of the lease of others; `T` is a time by the clock of the node.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<T>(Option<(LeaseWrite, T)>);

impl<T: Copy> Candidate<T> {
    /// Returns a candidate that has seen nothing.
    pub fn new() -> Self {
        Self(None)
    }

    /// Notes what an attempt to acquire the lease has shown, at a time behind its answer.
    pub fn note(&mut self, answer: &Result<Lease, LeaseError>, at: T) {
        if let Err(LeaseError::Held { write, .. }) = answer
            && self.0.is_none_or(|(seen, _)| seen != *write)
        {
            self.0 = Some((*write, at));
        }
    }

    /// Returns the last write of the lease, if this node has first seen it at an old time: longer ago than a lease
    /// lives.
    pub fn old(&self, is_old: impl FnOnce(T) -> bool) -> Option<LeaseWrite> {
        self.0.filter(|(_, at)| is_old(*at) && !Mutant::LogClockAwaited.is_on()).map(|(write, _)| write)
    }

    /// Returns a time behind the begin of every renewal of an earlier lease, for a lease that was acquired before `at`;
    /// `None`: no earlier one is kept.
    pub fn free_from(&self, lease: &Lease, at: T) -> Option<T> {
        let expired = lease.expired.filter(|_| !Mutant::LogClockTrusted.is_on())?;
        match self.0 {
            Some((seen, seen_at)) if seen == expired => Some(seen_at),
            _ => Some(at),
        }
    }
}

impl<T: Copy> Default for Candidate<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Term;

    #[test]
    fn an_expired_lease_is_kept_until_the_last_renewal_that_may_have_been_is_old() {
        let held = |write| Err(LeaseError::Held { holder: "other".into(), write: LeaseWrite(write) });
        let lease =
            |expired: Option<u64>| Lease { holder: "own".into(), term: Term(9), expired: expired.map(LeaseWrite) };
        let mut candidate = Candidate::new();
        // It was given back.
        assert_eq!(candidate.free_from(&lease(None), 10), None);
        // This node has not seen it.
        assert_eq!(candidate.free_from(&lease(Some(4)), 10), Some(10));
        candidate.note(&held(3), 11);
        candidate.note(&held(4), 12);
        candidate.note(&held(4), 13);
        assert_eq!((candidate.old(|at| at < 12), candidate.old(|at| at < 13)), (None, Some(LeaseWrite(4))));
        assert_eq!(candidate.free_from(&lease(Some(4)), 20), Some(12));
        // It was renewed behind the last look.
        assert_eq!(candidate.free_from(&lease(Some(5)), 20), Some(20));
        candidate.note(&Err(LeaseError::Lost), 14);
        assert_eq!(candidate.free_from(&lease(Some(4)), 20), Some(12));
    }
}

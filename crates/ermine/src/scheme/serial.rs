//! Serial execution: one transaction at a time (STO 2.1).
//!
//! Nothing is checked and nothing is locked but the database: a transaction costs here what it costs without any
//! concurrency control; the other schemes are measured against that.

use std::time::Duration;

use super::{
    Conflict, ConflictSite,
    in_place::{Begun, InPlace, Limits, Ranges, Read, patience_ends},
    interactive::{InteractiveTurns, patience},
};
use crate::{
    rows::{copies::Copies, in_place::RecordPtr},
    sync::{
        mcs::{McsHeld, McsLock},
        queue::QueueNodes,
    },
};

/// `serial`.
pub(crate) struct Serial;

/// The lock of the database, for which transactions queue.
pub(crate) struct Lock {
    lock: McsLock,
    interactive: InteractiveTurns,
    wait_max: Duration,
}

/// Whether the transaction has the lock.
pub(crate) struct Has {
    held: Option<McsHeld>,
    nodes: QueueNodes,
}

impl Default for Has {
    fn default() -> Self {
        Self { held: None, nodes: QueueNodes::new() }
    }
}

impl InPlace for Serial {
    type Control = ();
    type Shared = Lock;
    type State = Has;

    const RANGES: Ranges = Ranges::Excluded;

    fn shared(limits: &Limits) -> Lock {
        Lock { lock: McsLock::new(), interactive: InteractiveTurns::default(), wait_max: limits.wait_max }
    }

    fn begin(lock: &Lock, has: &mut Has, runs_through: bool) -> Result<Begun, Conflict> {
        if runs_through {
            // In the queue: transactions ahead end without input from outside, unless an application drives one.
            lock.interactive.give_way(lock.wait_max);
            has.held = lock.lock.acquire_while(has.nodes.take(), patience(lock.wait_max));
            return if has.held.is_some() { Ok(Begun::Running) } else { Err(patience_ends(None)) };
        }
        let Has { held, nodes } = has;
        let looks = || {
            match lock.lock.try_acquire(nodes.take()) {
                Ok(taken) => *held = Some(taken),
                Err(node) => nodes.put(node),
            }
            held.is_some()
        };
        if lock.interactive.wait(lock.wait_max, looks) { Ok(Begun::Running) } else { Err(patience_ends(None)) }
    }

    #[inline]
    fn read(
        _: &Lock,
        _: &mut Has,
        record: RecordPtr<()>,
        _: ConflictSite,
        copies: Option<&mut Copies>,
    ) -> Result<Read, Conflict> {
        Ok(record.read(copies))
    }

    #[inline]
    fn claim(_: &Lock, _: &mut Has, _: RecordPtr<()>, _: ConflictSite) -> Result<(), Conflict> {
        Ok(())
    }

    fn certify(_: &Lock, _: &mut Has, _: impl Fn(RecordPtr<()>) -> bool) -> Result<(), Conflict> {
        Ok(())
    }

    fn end(lock: &Lock, has: &mut Has, _: bool) {
        if let Some(held) = has.held.take() {
            has.nodes.put(lock.lock.release(held));
        }
    }
}

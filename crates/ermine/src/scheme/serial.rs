//! Serial execution: one transaction at a time (STO 2.1).
//!
//! Nothing is checked and nothing is locked but the database: what a transaction costs here is what it costs without any
//! concurrency control, which is what the other schemes are measured against.

use std::time::Duration;

use super::{
    Conflict, Place,
    in_place::{Begun, InPlace, Limits, Ranges, Read, patience_ends},
};
use crate::{
    rows::{copies::Copies, in_place::RecordPtr},
    sync::{
        AtomicU64, Instant, Ordering, Spin,
        mcs::{McsHeld, McsLock},
        queue::QueueNodes,
    },
};

/// `serial`.
pub(crate) struct Serial;

/// The lock of the database, which is queued for.
pub(crate) struct Lock {
    lock: McsLock,
    by_hand: ByHand,
    wait_max: Duration,
}

/// How many transactions that applications drive wait for a turn. They cannot stand in a queue, which they could not leave when
/// their patience ends; so those that run through hold back until the queue has run dry and they have had their turn.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct ByHand(AtomicU64);

impl ByHand {
    /// Lets those who wait go first, for as long as anybody may wait.
    pub(super) fn give_way(&self, wait_max: Duration) {
        // Relaxed: a courtesy.
        if self.0.load(Ordering::Relaxed) > 0 {
            self.look(wait_max, || self.0.load(Ordering::Relaxed) == 0);
        }
    }

    /// Looks until something is so, while others hold back; `false`: patience has ended.
    pub(super) fn wait(&self, wait_max: Duration, mut looks: impl FnMut() -> bool) -> bool {
        if looks() {
            return true;
        }
        self.0.fetch_add(1, Ordering::Relaxed);
        let seen = self.look(wait_max, looks);
        self.0.fetch_sub(1, Ordering::Relaxed);
        seen
    }

    fn look(&self, wait_max: Duration, mut looks: impl FnMut() -> bool) -> bool {
        let (mut spin, mut since) = (Spin::default(), None);
        while !looks() {
            if since.get_or_insert_with(Instant::now).elapsed() >= wait_max {
                return false;
            }
            spin.wait();
        }
        true
    }
}

/// Whether the transaction has it.
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
        Lock { lock: McsLock::new(), by_hand: ByHand::default(), wait_max: limits.wait_max }
    }

    fn begin(lock: &Lock, has: &mut Has, runs_through: bool) -> Result<Begun, Conflict> {
        if runs_through {
            // In the queue, however long that takes: those ahead end by themselves.
            lock.by_hand.give_way(lock.wait_max);
            has.held = Some(lock.lock.acquire(has.nodes.take()));
            return Ok(Begun::Running);
        }
        let Has { held, nodes } = has;
        let looks = || {
            match lock.lock.try_acquire(nodes.take()) {
                Ok(taken) => *held = Some(taken),
                Err(node) => nodes.put(node),
            }
            held.is_some()
        };
        if lock.by_hand.wait(lock.wait_max, looks) { Ok(Begun::Running) } else { Err(patience_ends(None)) }
    }

    #[inline]
    fn read(_: &Lock, _: &mut Has, record: RecordPtr<()>, _: Place, copies: &mut Copies) -> Result<Read, Conflict> {
        Ok(record.read(copies))
    }

    #[inline]
    fn claim(_: &Lock, _: &mut Has, _: RecordPtr<()>, _: Place) -> Result<(), Conflict> {
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

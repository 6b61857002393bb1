//! Partitioned execution (STO 2.2; H-Store, HyPer): serial within a partition, and partitions in parallel.
//!
//! The application determines the partition of a key ([`crate::TableOptions::partition_by`]). A transaction locks the
//! partition of the first row that it touches, and nothing else: no record is locked or checked. A transaction that
//! touches a second partition, or a range over several, locks the whole database: it waits until all others have ended,
//! and none begins meanwhile. Every transaction may read tables without partitions (TPC-C's items); one that writes
//! them locks the database.
//!
//! A transaction that holds a partition shares the lock of the database, so that one that wants all of it has to wait
//! for it. Transactions queue for partitions (MCS locks), and before they share the database: no transaction that
//! shares it waits in a queue, so a transaction that waits for all others to leave it is not waited for.
//!
//! Invariants
//! 1. The database is shared by a number of transactions, or one has it alone; of those that share it one at most wants
//!    it alone, and others that want that, too, abort.
//! 2. A transaction that shares the database and needs a partition does not wait for it while another one wants the
//!    database alone.

use std::time::Duration;

use super::{
    Cause, Conflict, ConflictSite,
    in_place::{Begun, InPlace, Limits, Ranges, Reach, Read, patience_ends},
    interactive::{InteractiveTurns, patience},
};
use crate::{
    error::{AbortKind, Dependency},
    ids::Stamp,
    rows::{copies::Copies, in_place::RecordPtr},
    sync::{
        AtomicU64, Ordering,
        mcs::{McsHeld, McsLock},
        queue::QueueNodes,
    },
};

/// `partitioned`.
pub(crate) struct Partitioned;

/// The locks.
pub(crate) struct Locks {
    database: DatabaseLock,
    /// By number, modulo the number of locks.
    partitions: Box<[McsLock]>,
    interactive: InteractiveTurns,
    wait_max: Duration,
}

/// Number of transactions that share the database, and whether one wants or has it alone.
#[repr(align(128))]
struct DatabaseLock(AtomicU64);

const ALONE: u64 = 1 << 63;

/// The locks that a transaction holds.
#[derive(Default)]
enum Holds {
    #[default]
    Nothing,
    /// It shares the database.
    Shares,
    /// It shares the database and has a partition.
    Partition(usize, McsHeld),
    /// It has the whole database.
    Everything,
}

/// One transaction.
#[derive(Default)]
pub(crate) struct Running {
    holds: Holds,
    /// A partition that it has kept while it took the database.
    kept: Option<(usize, McsHeld)>,
    nodes: Nodes,
    runs_through: bool,
}

/// Nodes for queues.
struct Nodes(QueueNodes);

impl Default for Nodes {
    fn default() -> Self {
        Self(QueueNodes::new())
    }
}

impl Locks {
    fn look(&self, looks: impl FnMut() -> bool) -> bool {
        self.interactive.wait(self.wait_max, looks)
    }
}

impl DatabaseLock {
    fn try_share(&self) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        // Acquire: pairs with the releases below.
        word & ALONE == 0 && self.0.compare_exchange(word, word + 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Whether a transaction wants the database alone, or has it.
    fn is_wanted(&self) -> bool {
        self.0.load(Ordering::Relaxed) & ALONE != 0
    }

    /// Announces that a transaction wants the database alone; `false`: another one has done so.
    fn want(&self) -> bool {
        self.0.fetch_or(ALONE, Ordering::Acquire) & ALONE == 0
    }

    fn is_shared_by(&self, count: u64) -> bool {
        // Acquire: the actions of transactions that have left have happened.
        self.0.load(Ordering::Acquire) == ALONE | count
    }

    fn share_no_more(&self) {
        self.0.fetch_sub(1, Ordering::Release);
    }

    fn give_up(&self) {
        self.0.fetch_and(!ALONE, Ordering::Release);
    }
}

fn crossing(site: ConflictSite) -> Conflict {
    Conflict::before(AbortKind::Lock, Cause::new(Stamp::INFINITY, Dependency::BothWrite, site))
}

impl Running {
    /// Shares the database, with or without a partition.
    fn share(&mut self, locks: &Locks, partition: Option<usize>, site: ConflictSite) -> Result<(), Conflict> {
        let held = match partition {
            None => None,
            // In the queue: transactions ahead end without input from outside, unless an application drives one.
            Some(at) if self.runs_through => {
                locks.interactive.give_way(locks.wait_max);
                match locks.partitions[at].acquire_while(self.nodes.0.take(), patience(locks.wait_max)) {
                    Some(held) => Some((at, held)),
                    None => return Err(patience_ends(Some(site))),
                }
            }
            Some(at) => {
                let mut held = None;
                if !locks.look(|| self.try_partition(locks, at, &mut held)) {
                    return Err(patience_ends(Some(site)));
                }
                held
            }
        };
        if !locks.look(|| locks.database.try_share()) {
            self.put_back(locks, held);
            return Err(patience_ends(Some(site)));
        }
        self.holds = held.map_or(Holds::Shares, |(at, held)| Holds::Partition(at, held));
        Ok(())
    }

    fn try_partition(&self, locks: &Locks, at: usize, held: &mut Option<(usize, McsHeld)>) -> bool {
        match locks.partitions[at].try_acquire(self.nodes.0.take()) {
            Ok(taken) => *held = Some((at, taken)),
            Err(node) => self.nodes.0.put(node),
        }
        held.is_some()
    }

    fn put_back(&self, locks: &Locks, held: Option<(usize, McsHeld)>) {
        if let Some((at, held)) = held {
            self.nodes.0.put(locks.partitions[at].release(held));
        }
    }

    /// Takes a partition while the transaction shares the database.
    fn add_partition(&mut self, locks: &Locks, at: usize, site: ConflictSite) -> Result<(), Conflict> {
        let mut held = None;
        let looks = || locks.database.is_wanted() || self.try_partition(locks, at, &mut held);
        if !locks.look(looks) {
            return Err(patience_ends(Some(site)));
        }
        let (at, held) = held.ok_or_else(|| crossing(site))?;
        self.holds = Holds::Partition(at, held);
        Ok(())
    }

    /// Takes the whole database.
    fn take_everything(&mut self, locks: &Locks, site: ConflictSite) -> Result<(), Conflict> {
        let shares = u64::from(!matches!(self.holds, Holds::Nothing));
        let database = &locks.database;
        if shares == 0 {
            if !locks.look(|| database.want()) {
                return Err(patience_ends(Some(site)));
            }
        } else if !database.want() {
            // The other transaction waits for this one.
            return Err(crossing(site));
        }
        if !locks.look(|| database.is_shared_by(shares)) {
            database.give_up();
            return Err(patience_ends(Some(site)));
        }
        if shares > 0 {
            database.share_no_more();
        }
        if let Holds::Partition(at, held) = std::mem::replace(&mut self.holds, Holds::Everything) {
            self.kept = Some((at, held));
        }
        Ok(())
    }
}

impl InPlace for Partitioned {
    type Control = ();
    type Shared = Locks;
    type State = Running;

    const RANGES: Ranges = Ranges::Excluded;
    const PARTITIONS: bool = true;

    fn shared(limits: &Limits) -> Locks {
        /// Partitions that have a lock of their own.
        const PARTITIONS: usize = if cfg!(any(loom, shuttle)) { 4 } else { 256 };
        Locks {
            database: DatabaseLock(AtomicU64::new(0)),
            partitions: (0..PARTITIONS).map(|_| McsLock::new()).collect(),
            interactive: InteractiveTurns::default(),
            wait_max: limits.wait_max,
        }
    }

    fn begin(_: &Locks, running: &mut Running, runs_through: bool) -> Result<Begun, Conflict> {
        running.runs_through = runs_through;
        Ok(Begun::Running)
    }

    fn reach(locks: &Locks, running: &mut Running, reach: Reach, site: ConflictSite) -> Result<(), Conflict> {
        let at = |partition: u64| partition as usize % locks.partitions.len();
        match (&running.holds, reach) {
            (Holds::Everything, _) | (Holds::Shares | Holds::Partition(..), Reach::Common) => Ok(()),
            (Holds::Partition(held, _), Reach::Partition(partition)) if *held == at(partition) => Ok(()),
            (Holds::Nothing, Reach::Common) => running.share(locks, None, site),
            (Holds::Nothing, Reach::Partition(partition)) => running.share(locks, Some(at(partition)), site),
            (Holds::Shares, Reach::Partition(partition)) => running.add_partition(locks, at(partition), site),
            (_, Reach::Everything) | (Holds::Partition(..), Reach::Partition(_)) => {
                running.take_everything(locks, site)
            }
        }
    }

    #[inline]
    fn read(
        _: &Locks,
        _: &mut Running,
        record: RecordPtr<()>,
        _: ConflictSite,
        copies: Option<&mut Copies>,
    ) -> Result<Read, Conflict> {
        Ok(record.read(copies))
    }

    #[inline]
    fn claim(_: &Locks, _: &mut Running, _: RecordPtr<()>, _: ConflictSite) -> Result<(), Conflict> {
        Ok(())
    }

    fn certify(_: &Locks, _: &mut Running, _: impl Fn(RecordPtr<()>) -> bool) -> Result<(), Conflict> {
        Ok(())
    }

    fn end(locks: &Locks, running: &mut Running, _: bool) {
        let partition = match std::mem::take(&mut running.holds) {
            Holds::Nothing => None,
            Holds::Shares => {
                locks.database.share_no_more();
                None
            }
            Holds::Partition(at, held) => {
                locks.database.share_no_more();
                Some((at, held))
            }
            Holds::Everything => {
                locks.database.give_up();
                running.kept.take()
            }
        };
        running.put_back(locks, partition);
    }
}

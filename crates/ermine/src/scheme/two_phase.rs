//! Strict two-phase locking: a shared lock for every record that is read, an exclusive one for every record that is
//! written, all held until the transaction ends (Bernstein, Hadzilacos, Goodman 1987, chapter 3).
//!
//! Each record has a queue of requests, in the order of their arrival: the holders of the lock in front, the waiting
//! requests behind. The queue is linked through requests that the transactions own and is changed under the record's
//! own latch; a waiting transaction spins on its own request. The policy decides what happens when a lock is not free:
//!
//! - `2pl-nowait`: the transaction aborts.
//! - `2pl-waitdie`: it waits if it is older than all transactions with a conflicting request in front, and than those
//!   in front of them, and aborts otherwise (Rosenkrantz, Stearns, Lewis 1978).
//! - `2pl-wdl`: it waits if no transaction waits for it, and aborts otherwise; those in its way that wait themselves
//!   are made to abort (wait-depth limiting with running priority: Franaszek, Robinson, Thomasian 1992).
//!
//! So none can deadlock: without waiting there is no deadlock; under wait-die only older transactions wait for younger
//! ones; under wait-depth limiting no transaction waits that another one waits for. Other long waits, for threads that
//! do not run and applications that leave a transaction open, end after the longest wait that the options allow.
//!
//! Ranges: a scan locks the records that it meets. Keys that are inserted between them are found by validating the
//! leaves before the commit, while all locks are held; a transaction that inserted one holds the lock of its record, or
//! has committed.
//!
//! Invariants
//! 1. A request is in the queue of one record, from before it counts until it has been removed under the latch. It is
//!    not reused before.
//! 2. Held locks of a record are one exclusive one or any number of shared ones.
//! 3. Under wait-depth limiting, a transaction that is about to wait publishes that (`waits`, and `waited_for` of those
//!    in front) before it checks whether the others wait: of two that would wait for each other, or in a row, at least
//!    one sees the other.

use std::{marker::PhantomData, ptr::NonNull, sync::Arc, time::Duration};

use super::{
    Cause, Conflict, ConflictSite,
    in_place::{Begun, InPlace, Limits, Ranges, Read},
};
use crate::{
    error::{AbortKind, Dependency},
    ids::Stamp,
    mutant::Mutant,
    rows::{
        copies::Copies,
        in_place::{Control, RecordPtr},
    },
    sync::{AtomicPtr, AtomicU32, AtomicU64, Instant, Ordering, Spin, fence},
};

/// The treatment of a lock that is not free.
pub(crate) trait Policy: Send + Sync + 'static {
    const WAITS: Waits;
}

/// The transactions that may wait.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waits {
    None,
    Older,
    Unwaited,
}

/// `2pl-nowait`.
pub(crate) struct NoWait;
/// `2pl-waitdie`.
pub(crate) struct WaitDie;
/// `2pl-wdl`.
pub(crate) struct WaitDepthLimited;

impl Policy for NoWait {
    const WAITS: Waits = Waits::None;
}
impl Policy for WaitDie {
    const WAITS: Waits = Waits::Older;
}
impl Policy for WaitDepthLimited {
    const WAITS: Waits = Waits::Unwaited;
}

/// Strict two-phase locking under a policy.
pub(crate) struct TwoPhase<W>(PhantomData<W>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Shared,
    Exclusive,
}

/// The part of a transaction that is shared with transactions that wait for it.
#[repr(align(128))]
struct Owner {
    /// The transaction's age: lower is older.
    age: AtomicU64,
    /// 1 while it waits.
    waits: AtomicU32,
    /// Number of requests that wait for the transaction, or are about to.
    waited_for: AtomicU32,
    /// 1: the transaction has to give up the request it waits with.
    ousted: AtomicU32,
}

/// One lock that a transaction holds or waits for.
struct Request {
    owner: Arc<Owner>,
    record: Option<RecordPtr<Locks>>,
    /// Changed by the owner, under the latch.
    exclusive: AtomicU32,
    /// 1: held. Set under the latch, by the thread that grants the request.
    held: AtomicU32,
    /// The request behind it.
    next: AtomicPtr<Request>,
}

/// The queue of a record.
#[derive(Default)]
pub(crate) struct Locks {
    /// 1: a thread is changing the queue.
    latch: AtomicU32,
    first: AtomicPtr<Request>,
}

impl Control for Locks {}

/// The queue of a record, latched.
struct Queue<'a>(&'a Locks);

impl Locks {
    fn latch(&self) -> Queue<'_> {
        let mut spin = Spin::default();
        // Acquire: pairs with the release of the last holder.
        while self.latch.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            spin.wait();
        }
        Queue(self)
    }
}

impl Drop for Queue<'_> {
    fn drop(&mut self) {
        // Release: pairs with `latch`.
        self.0.latch.store(0, Ordering::Release);
    }
}

impl Queue<'_> {
    /// The requests in the queue, in order.
    fn requests(&self) -> impl Iterator<Item = &Request> {
        // Relaxed: ordered by the latch.
        let mut next = self.0.first.load(Ordering::Relaxed);
        std::iter::from_fn(move || {
            // SAFETY: requests stay where they are while they are in a queue (invariant 1), and the latch is held.
            let request = unsafe { NonNull::new(next)?.as_ref() };
            next = request.next.load(Ordering::Relaxed);
            Some(request)
        })
    }

    /// Returns the link that leads to `request`, or the last one.
    fn link_to(&self, request: *const Request) -> &AtomicPtr<Request> {
        let mut link = &self.0.first;
        loop {
            let next = link.load(Ordering::Relaxed);
            if next.is_null() || std::ptr::eq(next, request) {
                return link;
            }
            // SAFETY: as above.
            link = unsafe { &(*next).next };
        }
    }

    /// Appends a request.
    fn push(&self, request: &Request) {
        request.next.store(std::ptr::null_mut(), Ordering::Relaxed);
        self.link_to(std::ptr::null()).store(std::ptr::from_ref(request).cast_mut(), Ordering::Relaxed);
    }

    /// Removes a request, and grants those that waited for it.
    fn remove(&self, request: &Request) {
        let link = self.link_to(request);
        link.store(request.next.load(Ordering::Relaxed), Ordering::Relaxed);
        self.let_through();
    }

    /// Grants all requests that no other request blocks.
    fn let_through(&self) {
        for waiting in self.requests().filter(|request| !request.is_held() || request.is_upgrading()) {
            if self.in_the_way(waiting).next().is_some() {
                break;
            }
            // Release: pairs with the loads of the waiting thread.
            waiting.held.store(if waiting.is_exclusive() { HELD_EXCLUSIVE } else { HELD }, Ordering::Release);
        }
    }

    /// Returns the requests that block a request: all in front of it that are not compatible with it; for an upgrade of
    /// a held lock, all other holders.
    fn in_the_way<'q>(&'q self, request: &'q Request) -> impl Iterator<Item = &'q Request> {
        let upgrades = request.held.load(Ordering::Relaxed) == HELD;
        let mut in_front = true;
        self.requests().filter(move |other| {
            if std::ptr::eq(*other, request) {
                in_front = false;
                return false;
            }
            match upgrades {
                true => other.is_held(),
                false => in_front && request.clashes_with(other),
            }
        })
    }

    /// Whether all requests for which a request may have to wait are younger: those that block it, and those in front
    /// of them, too, which may share the lock now and upgrade it later.
    fn is_oldest(&self, request: &Request) -> bool {
        let is_younger = |other: &Request| request.age() < other.age();
        if request.is_upgrading() {
            return self.in_the_way(request).all(is_younger);
        }
        let mut all_younger = true;
        let mut in_front = self.requests().take_while(|other| !std::ptr::eq(*other, request));
        in_front.all(|other| {
            all_younger &= is_younger(other);
            all_younger || !request.clashes_with(other)
        })
    }
}

const WAITING: u32 = 0;
const HELD: u32 = 1;
const HELD_EXCLUSIVE: u32 = 2;

impl Request {
    fn is_exclusive(&self) -> bool {
        self.exclusive.load(Ordering::Relaxed) != 0
    }

    fn is_held(&self) -> bool {
        // Acquire: pairs with `let_through`; the last holder's actions have happened.
        self.held.load(Ordering::Acquire) != WAITING
    }

    /// Whether one of them has to wait for the other.
    fn clashes_with(&self, other: &Self) -> bool {
        self.is_exclusive() || other.is_exclusive() && !Mutant::SharedBesideExclusive.is_on()
    }

    fn age(&self) -> u64 {
        self.owner.age.load(Ordering::Relaxed)
    }

    /// Whether it shares the lock and waits to hold it exclusively.
    fn is_upgrading(&self) -> bool {
        self.is_exclusive() && self.held.load(Ordering::Relaxed) == HELD
    }

    /// Whether the request has been granted in its mode.
    fn is_served(&self) -> bool {
        let held = self.held.load(Ordering::Acquire);
        held == HELD_EXCLUSIVE || held == HELD && !self.is_exclusive()
    }
}

/// The state that all transactions share: the source of ages, and the longest wait.
pub(crate) struct Shared {
    ages: Ages,
    wait_max: Duration,
}

#[repr(align(128))]
struct Ages(AtomicU64);

/// One transaction's locks.
pub(crate) struct Held {
    owner: Arc<Owner>,
    /// In use up to `used`; boxed, so that they do not move.
    #[expect(clippy::vec_box, reason = "queues point at them while the vector grows")]
    requests: Vec<Box<Request>>,
    used: usize,
}

impl Default for Held {
    fn default() -> Self {
        let owner = Owner {
            age: AtomicU64::new(0),
            waits: AtomicU32::new(0),
            waited_for: AtomicU32::new(0),
            ousted: AtomicU32::new(0),
        };
        Self { owner: Arc::new(owner), requests: Vec::new(), used: 0 }
    }
}

impl Held {
    /// Requests for which memory is kept.
    const KEPT: usize = 1 << 14;

    /// Returns a request that is in no queue.
    fn take(&mut self, record: RecordPtr<Locks>, mode: Mode) -> &Request {
        if self.used == self.requests.len() {
            self.requests.push(Box::new(Request {
                owner: self.owner.clone(),
                record: None,
                exclusive: AtomicU32::new(0),
                held: AtomicU32::new(WAITING),
                next: AtomicPtr::default(),
            }));
        }
        let request = &mut self.requests[self.used];
        self.used += 1;
        request.record = Some(record);
        request.exclusive.store(u32::from(mode == Mode::Exclusive), Ordering::Relaxed);
        request.held.store(WAITING, Ordering::Relaxed);
        request
    }

    fn lock<W: Policy>(
        &mut self,
        shared: &Shared,
        record: RecordPtr<Locks>,
        mode: Mode,
        site: ConflictSite,
    ) -> Result<(), Conflict> {
        let queue = record.control().latch();
        let own = queue.requests().find(|request| Arc::ptr_eq(&request.owner, &self.owner));
        let request = match own {
            Some(own) if mode == Mode::Shared || own.is_exclusive() => return Ok(()),
            Some(own) => {
                own.exclusive.store(1, Ordering::Relaxed);
                own
            }
            None => {
                let request = self.take(record, mode);
                queue.push(request);
                request
            }
        };
        if queue.in_the_way(request).next().is_none() {
            request.held.store(if mode == Mode::Exclusive { HELD_EXCLUSIVE } else { HELD }, Ordering::Relaxed);
            return Ok(());
        }
        // SAFETY: requests are boxed and neither moved nor freed before the transaction has ended and removed them from
        // their queues; the borrow of `self` ends here only so that `self.owner` can be used beside it.
        let request: &Request = unsafe { &*std::ptr::from_ref(request) };
        match W::WAITS {
            Waits::None => Err(AbortKind::Lock),
            Waits::Older => {
                let is_oldest = queue.is_oldest(request);
                if !is_oldest && request.is_upgrading() {
                    // A refused upgrade keeps its lock as it is. If the request stayed marked as exclusive, a younger
                    // one could wait for it alone, and then for older ones, which hold the lock behind it and upgrade.
                    request.exclusive.store(0, Ordering::Relaxed);
                }
                drop(queue);
                if is_oldest { wait(request, shared.wait_max, || false) } else { Err(AbortKind::Lock) }
            }
            Waits::Unwaited => {
                let others: Vec<_> = queue.in_the_way(request).map(|other| other.owner.clone()).collect();
                drop(queue);
                self.wait_unwaited(request, &others, shared.wait_max)
            }
        }
        .map_err(|kind| {
            let cause = Cause::new(Stamp::INFINITY, Dependency::BothWrite, site);
            Conflict::before(kind, cause)
        })
    }

    /// Waits, unless that makes a chain of waiting transactions.
    fn wait_unwaited(&self, request: &Request, others: &[Arc<Owner>], wait_max: Duration) -> Result<(), AbortKind> {
        let owner = &self.owner;
        owner.waits.store(1, Ordering::SeqCst);
        others.iter().for_each(|other| {
            other.waited_for.fetch_add(1, Ordering::SeqCst);
        });
        fence(Ordering::SeqCst);
        let waited = if owner.waited_for.load(Ordering::SeqCst) > 0 {
            Err(AbortKind::Lock)
        } else {
            // Running transactions take precedence over waiting ones.
            let waiting = others.iter().filter(|other| other.waits.load(Ordering::SeqCst) != 0);
            waiting.for_each(|other| other.ousted.store(1, Ordering::SeqCst));
            wait(request, wait_max, || owner.ousted.load(Ordering::SeqCst) != 0)
        };
        others.iter().for_each(|other| {
            other.waited_for.fetch_sub(1, Ordering::SeqCst);
        });
        owner.waits.store(0, Ordering::SeqCst);
        waited
    }

    fn release(&mut self) {
        for request in &self.requests[..self.used] {
            let record = request.record.expect("a request in use is for a record");
            record.control().latch().remove(request);
        }
        self.used = 0;
        // Frees the memory that a very large transaction needed.
        self.requests.truncate(Self::KEPT);
        self.owner.ousted.store(0, Ordering::SeqCst);
    }
}

/// Waits until a request is granted, or `gives_up` or the time limit ends the wait.
fn wait(request: &Request, wait_max: Duration, gives_up: impl Fn() -> bool) -> Result<(), AbortKind> {
    let (mut spin, since) = (Spin::default(), Instant::now());
    while !request.is_served() {
        if gives_up() {
            return Err(AbortKind::Lock);
        }
        if since.elapsed() >= wait_max {
            return Err(AbortKind::Timeout);
        }
        spin.wait();
    }
    Ok(())
}

impl<W: Policy> InPlace for TwoPhase<W> {
    type Control = Locks;
    type Shared = Shared;
    type State = Held;

    const RANGES: Ranges = Ranges::AtCommit;

    fn shared(limits: &Limits) -> Shared {
        Shared { ages: Ages(AtomicU64::new(1)), wait_max: limits.wait_max }
    }

    fn begin(shared: &Shared, held: &mut Held, _: bool) -> Result<Begun, Conflict> {
        if W::WAITS == Waits::Older {
            // Relaxed: only the number counts.
            held.owner.age.store(shared.ages.0.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        }
        Ok(Begun::Running)
    }

    fn read(
        shared: &Shared,
        held: &mut Held,
        record: RecordPtr<Locks>,
        site: ConflictSite,
        copies: Option<&mut Copies>,
    ) -> Result<Read, Conflict> {
        held.lock::<W>(shared, record, Mode::Shared, site)?;
        Ok(record.read(copies))
    }

    fn kept_bytes(held: &Held) -> usize {
        held.requests.len() * 2 * size_of::<Request>()
    }

    fn claim(shared: &Shared, held: &mut Held, record: RecordPtr<Locks>, site: ConflictSite) -> Result<(), Conflict> {
        held.lock::<W>(shared, record, Mode::Exclusive, site)
    }

    fn certify(_: &Shared, _: &mut Held, _: impl Fn(RecordPtr<Locks>) -> bool) -> Result<(), Conflict> {
        Ok(())
    }

    fn is_unclaimed(_: &Shared, record: RecordPtr<Locks>) -> bool {
        record.control().latch().requests().next().is_none()
    }

    fn end(_: &Shared, held: &mut Held, _: bool) {
        held.release();
    }
}

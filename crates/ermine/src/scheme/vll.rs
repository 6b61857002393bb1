//! Very lightweight locking (HTM paper, VI.C; Ren, Thomson, Abadi, PVLDB 6(2), 2012).
//!
//! There is no lock manager. A record has two counters: the transactions that have requested to write it, and to read
//! it. A transaction declares beforehand what it will touch, and requests all of it at once, in one critical section,
//! which also appends it to the transaction queue. If no counter shows a conflicting transaction, it runs; otherwise it
//! is blocked. The counters do not record which transaction waits for which; the queue's order does:
//!
//! - the transaction at the front of the queue waits for none any more, whatever the counters say;
//! - selective contention analysis: when a transaction ends, the queue is walked from the front with the keys of those
//!   ahead in two bit maps; a blocked transaction that meets none of them runs, too.
//!
//! So there is no deadlock, no transaction aborts for a conflict, and every transaction reaches the front. The
//! application declares what the transaction will touch ([`crate::AccessSet`]); one that declares nothing conflicts
//! with all others, and runs alone. Ranges cannot be declared: only a transaction that runs alone may scan one.
//!
//! Invariants
//! 1. Counters and queue change in the critical section only, together: a record's counters count the transactions in
//!    the queue that have declared it.
//! 2. A record that was not gone after it was counted stays in its table until the transaction ends (`want`).
//! 3. Two transactions that run at the same time have declared nothing in common that one of them writes.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use super::{
    Conflict, ConflictSite,
    in_place::{Begun, Declared, Entering, InPlace, Limits, Ranges, Read, patience_ends},
};
use crate::{
    mutant::Mutant,
    rows::{
        copies::Copies,
        in_place::{Control, RecordPtr},
    },
    sync::{AtomicU32, Instant, Mutex, Ordering, Spin},
};

/// `vll`.
pub(crate) struct Vll;

/// The counters of a record: the transactions in the queue that declared it.
#[derive(Default)]
pub(crate) struct Counters {
    writers: AtomicU32,
    readers: AtomicU32,
}

impl Control for Counters {}

/// A record that a transaction has declared, and whether it will write it.
type Wanted = (RecordPtr<Counters>, bool);

/// A transaction in the queue.
struct Entry {
    /// 1: it runs.
    runs: Arc<AtomicU32>,
    /// `None`: everything.
    wanted: Option<Arc<[Wanted]>>,
}

/// The state that all transactions share.
pub(crate) struct Shared {
    queue: Mutex<VecDeque<Entry>>,
    wait_max: Duration,
}

/// One transaction.
#[derive(Default)]
pub(crate) struct Running {
    /// Set to 1 when the transaction runs; the transaction is in the queue while this exists.
    runs: Option<Arc<AtomicU32>>,
    wanted: Option<Arc<[Wanted]>>,
}

/// Records by a hash of their address, for possible conflicts.
struct Bits([u64; Self::WORDS]);

impl Bits {
    const WORDS: usize = 64;

    fn site(record: RecordPtr<Counters>) -> (usize, u64) {
        let hash = (record.address() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52;
        (hash as usize / 64, 1 << (hash % 64))
    }

    fn has(&self, record: RecordPtr<Counters>) -> bool {
        let (word, bit) = Self::site(record);
        self.0[word] & bit != 0
    }

    fn add(&mut self, record: RecordPtr<Counters>) {
        let (word, bit) = Self::site(record);
        self.0[word] |= bit;
    }
}

/// Counts a transaction at its records; returns whether it meets others there.
fn count_in(wanted: &[Wanted]) -> bool {
    let mut meets = false;
    for (record, writes) in wanted {
        let Counters { writers, readers } = record.control();
        // Relaxed, here and below: in the critical section.
        if *writes {
            meets |= writers.fetch_add(1, Ordering::Relaxed) > 0 || readers.load(Ordering::Relaxed) > 0;
        } else {
            readers.fetch_add(1, Ordering::Relaxed);
            meets |= writers.load(Ordering::Relaxed) > 0;
        }
    }
    meets
}

fn count_out(wanted: &[Wanted]) {
    for (record, writes) in wanted {
        let Counters { writers, readers } = record.control();
        if *writes { writers } else { readers }.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Lets those transactions run that conflict with none ahead.
fn analyze(queue: &VecDeque<Entry>) {
    let (mut written, mut read) = (Bits([0; Bits::WORDS]), Bits([0; Bits::WORDS]));
    for (at, entry) in queue.iter().enumerate() {
        let Some(wanted) = &entry.wanted else {
            if at == 0 {
                // Release: pairs with the load of the waiting transaction.
                entry.runs.store(1, Ordering::Release);
            }
            return;
        };
        let meets = |(record, writes): &Wanted| written.has(*record) || *writes && read.has(*record);
        if at == 0 || !wanted.iter().any(meets) {
            entry.runs.store(1, Ordering::Release);
        }
        for (record, writes) in wanted.iter() {
            if *writes { &mut written } else { &mut read }.add(*record);
        }
    }
}

impl Shared {
    /// Enters the critical section.
    fn lock(&self) -> impl std::ops::DerefMut<Target = VecDeque<Entry>> {
        self.queue.lock().expect("no code panics while it holds the queue")
    }

    fn leave(&self, running: &mut Running) {
        let Some(runs) = running.runs.take() else { return };
        let mut queue = self.lock();
        running.wanted.take().iter().for_each(|wanted| count_out(wanted));
        queue.retain(|entry| !Arc::ptr_eq(&entry.runs, &runs));
        analyze(&queue);
    }
}

impl InPlace for Vll {
    type Control = Counters;
    type Shared = Shared;
    type State = Running;

    const RANGES: Ranges = Ranges::Excluded;
    const DECLARES: bool = true;

    fn shared(limits: &Limits) -> Shared {
        Shared { queue: Mutex::new(VecDeque::new()), wait_max: limits.wait_max }
    }

    fn begin(_: &Shared, _: &mut Running, _: bool) -> Result<Begun, Conflict> {
        Ok(Begun::Running)
    }

    fn enter(shared: &Shared, running: &mut Running, declared: Declared<Counters>) -> Result<Entering, Conflict> {
        let runs = Arc::new(AtomicU32::new(0));
        let wanted: Option<Arc<[Wanted]>> = match declared {
            Declared::Everything => None,
            Declared::Records(mut records) => {
                // A record that is both written and read counts as written.
                records.sort_unstable_by_key(|&(record, writes)| (record, !writes));
                records.dedup_by_key(|(record, _)| *record);
                Some(records.into())
            }
        };
        {
            let mut queue = shared.lock();
            let meets = match &wanted {
                None => !queue.is_empty(),
                // Counted in, whether a transaction runs alone or not.
                Some(wanted) => count_in(wanted) | queue.iter().any(|entry| entry.wanted.is_none()),
            };
            runs.store(u32::from(!meets), Ordering::Relaxed);
            queue.push_back(Entry { runs: runs.clone(), wanted: wanted.clone() });
        }
        (running.runs, running.wanted) = (Some(runs.clone()), wanted);
        // A record that is not gone now is not removed before the transaction has ended (in_place.rs, invariant 5).
        let is_gone = |(record, _): &Wanted| record.want().is_gone() && !Mutant::GoneRecordDeclared.is_on();
        if running.wanted.iter().any(|wanted| wanted.iter().any(is_gone)) {
            shared.leave(running);
            return Ok(Entering::Gone);
        }
        let (mut spin, mut since) = (Spin::default(), None);
        // Acquire: pairs with `analyze`.
        while runs.load(Ordering::Acquire) == 0 {
            if since.get_or_insert_with(Instant::now).elapsed() >= shared.wait_max {
                return Err(patience_ends(None));
            }
            spin.wait();
        }
        Ok(Entering::Entered)
    }

    #[inline]
    fn read(
        _: &Shared,
        _: &mut Running,
        record: RecordPtr<Counters>,
        _: ConflictSite,
        copies: Option<&mut Copies>,
    ) -> Result<Read, Conflict> {
        Ok(record.read(copies))
    }

    #[inline]
    fn claim(_: &Shared, _: &mut Running, _: RecordPtr<Counters>, _: ConflictSite) -> Result<(), Conflict> {
        Ok(())
    }

    fn is_declared(running: &Running, record: Option<RecordPtr<Counters>>, writes: bool) -> bool {
        let Some(wanted) = &running.wanted else { return true };
        let found = record.and_then(|record| wanted.binary_search_by_key(&record, |(record, _)| *record).ok());
        found.is_some_and(|at| wanted[at].1 || !writes)
    }

    fn certify(_: &Shared, _: &mut Running, _: impl Fn(RecordPtr<Counters>) -> bool) -> Result<(), Conflict> {
        Ok(())
    }

    fn end(shared: &Shared, running: &mut Running, _: bool) {
        shared.leave(running);
    }
}

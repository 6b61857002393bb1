//! Write skew: whether an engine keeps an invariant that two transactions would break together, and neither alone.
//!
//! Both read the same rows, or the same range. If nothing has been written there, each writes: one its own of the two
//! rows, or one row of its own into the range. After any serial order, one of them has written. Snapshot isolation lets
//! both write, since they write different rows; an engine that locks or validates rows lets both insert into a range.
//!
//! The transactions meet between their reads and their writes. An engine that makes one of them wait before would keep
//! them from meeting, so the other one goes on after a while.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::{
    engine::{Engine, Lost, Session, Transaction},
    value::{check as number, increment, value},
    work::{Outcome, Size},
};

/// Pairs of transactions.
const PAIRS: u64 = 500;
/// Keys between the ranges of two pairs.
const RANGE: u64 = 16;
const MEET_MAX: Duration = Duration::from_millis(2);

/// Runs the pairs, on rows or on ranges beyond the last row.
pub fn check(engine: &dyn Engine, is_range: bool, size: &Size) -> Outcome {
    assert!(size.rows >= 2 * PAIRS, "two rows a pair are needed");
    let (rows, bytes) = (size.rows, size.value_bytes as usize);
    let mut session = engine.session();
    if is_range {
        let found = count(&mut *session, rows..rows + PAIRS * RANGE);
        assert_eq!(found, 0, "an earlier check has left rows");
    } else {
        session.transact(&mut |txn| (0..2 * PAIRS).try_for_each(|key| txn.write(key, &value(key, bytes))));
    }
    let barrier = Barrier::new(2);
    let met: Vec<_> = (0..PAIRS).map(|_| AtomicU64::new(0)).collect();
    let begin = Instant::now();
    let retried: u64 = thread::scope(|scope| {
        let (barrier, met) = (&barrier, &met);
        let pair_of = |side: u64| {
            move || {
                let mut session = engine.session();
                let mut retried = 0;
                for (pair, met) in (0..).zip(met) {
                    barrier.wait();
                    retried += session.transact(&mut |txn| match is_range {
                        true => insert_into_empty(txn, rows + pair * RANGE, side, bytes, met),
                        false => write_one_of_two(txn, 2 * pair, side, bytes, met),
                    });
                }
                retried
            }
        };
        let sides = [0, 1].map(|side| scope.spawn(pair_of(side)));
        sides.map(|side| side.join().expect("no transaction fails")).iter().sum()
    });
    let elapsed = begin.elapsed();
    let written = |pair: u64| match is_range {
        true => count(&mut *session, rows + pair * RANGE..rows + (pair + 1) * RANGE),
        false => [2 * pair, 2 * pair + 1].map(|key| get(&mut *session, key)).iter().sum(),
    };
    let written: Vec<_> = (0..PAIRS).map(written).collect();
    assert!(written.iter().all(|&count| count > 0), "the first of two transactions has not written");
    Outcome {
        rate: 2.0 * PAIRS as f64 / elapsed.as_secs_f64(),
        retries: retried as f64 / (2 * PAIRS) as f64,
        broken: written.iter().filter(|&&count| count > 1).count() as f64,
    }
}

/// Waits for the other transaction of the pair, for a while.
fn meet(met: &AtomicU64) {
    // Relaxed: nothing else is shared through it.
    met.fetch_add(1, Ordering::Relaxed);
    let begin = Instant::now();
    while met.load(Ordering::Relaxed) < 2 && begin.elapsed() < MEET_MAX {
        thread::yield_now();
    }
}

fn write_one_of_two(
    txn: &mut dyn Transaction,
    first: u64,
    side: u64,
    bytes: usize,
    met: &AtomicU64,
) -> Result<(), Lost> {
    let (mut written, mut copy) = (0, Vec::with_capacity(bytes));
    for key in [first, first + 1] {
        txn.read(key, &mut |seen| {
            written += number(key, seen);
            if key == first + side {
                increment(key, seen, &mut copy);
            }
        })?;
    }
    meet(met);
    if written == 0 { txn.write(first + side, &copy) } else { Ok(()) }
}

fn insert_into_empty(
    txn: &mut dyn Transaction,
    first: u64,
    side: u64,
    bytes: usize,
    met: &AtomicU64,
) -> Result<(), Lost> {
    let mut found = 0;
    txn.scan(first..first + RANGE, RANGE as usize, &mut |_, _| found += 1)?;
    meet(met);
    // Far from each other, with room between them.
    let key = first + side * (RANGE / 2);
    if found == 0 { txn.write(key, &value(key, bytes)) } else { Ok(()) }
}

fn count(session: &mut dyn Session, keys: std::ops::Range<u64>) -> u64 {
    let mut found = std::collections::BTreeSet::new();
    session.scan(keys.clone(), (keys.end - keys.start) as usize, &mut |key, value| {
        number(key, value);
        found.insert(key);
    });
    found.len() as u64
}

fn get(session: &mut dyn Session, key: u64) -> u64 {
    let mut seen = 0;
    session.get(key, &mut |value| seen = number(key, value));
    seen
}

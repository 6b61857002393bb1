//! The engine under the judge: what a serializable scheme lets through is serializable, and what the others permit is seen.
//!
//! Method: a few threads with random transactions on a handful of rows, by key, through the primary index and through a
//! secondary one; everything that the engine tells is judged.

use std::sync::Arc;

use ermine::{Database, Options, Result, Scheme, SecondaryIndex, Table, Transaction, TxnOptions, Uniqueness};
use ermine_check::{AnomalyKind, Level, Recorder, Report, judge};
use fastrand::Rng;

const KEYS: u64 = 12;
const GROUPS: u64 = 3;
const THREADS: u64 = 3;
const TRANSACTIONS: u64 = 1500;

/// A value tells its group, and is written once.
fn value(group: u64, rng: &mut Rng) -> u64 {
    group << 56 | rng.u64(..1 << 56)
}

fn step(
    txn: &Transaction<'_>,
    rows: &Table<u64, u64>,
    groups: &SecondaryIndex<u64, u64, u64>,
    rng: &mut Rng,
) -> Result<()> {
    let (key, group) = (rng.u64(..KEYS), rng.u64(..GROUPS));
    match rng.u8(..12) {
        0..4 => txn.get(rows, &key).map(drop),
        4 => txn.scan(rows, key..key + 4).collect().map(drop),
        5 => txn.scan_by(groups, group..group + 1).collect().map(drop),
        6 => txn.delete(rows, &key).map(drop),
        _ => txn.put(rows, &key, &value(group, rng)),
    }
}

fn judged(scheme: Scheme, seed: u64) -> Report {
    let recorder = Arc::new(Recorder::everything());
    let db = Database::open_in_memory(Options::default().scheme(scheme).observer(recorder.clone())).unwrap();
    let rows = db.table::<u64, u64>("rows").unwrap();
    let groups = db.index(&rows, "by group", Uniqueness::NonUnique, |_, value: u64| value >> 56).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (db, rows, groups) = (&db, &rows, &groups);
            scope.spawn(move || {
                let mut rng = Rng::with_seed(seed + thread);
                for _ in 0..TRANSACTIONS {
                    let txn = db.begin(TxnOptions::default()).unwrap();
                    let steps = rng.usize(1..6);
                    let done = (0..steps).try_for_each(|_| {
                        std::thread::yield_now();
                        step(&txn, rows, groups, &mut rng)
                    });
                    // An abort is an outcome like any other.
                    let _ = done.and_then(|()| txn.commit().map(drop));
                }
            });
        }
    });
    drop(db);
    let history = recorder.finish();
    // Some had done nothing when they lost.
    assert!(history.len() as u64 > THREADS * TRANSACTIONS / 2);
    judge(&history, &mut |_| ())
}

#[test]
fn what_each_scheme_promises_holds() {
    let seed = std::env::var("ERMINE_SEED").map_or_else(|_| fastrand::u64(..1 << 40), |seed| seed.parse().unwrap());
    for scheme in Scheme::ALL {
        let report = judged(scheme, seed);
        let promised = match scheme {
            Scheme::Rc => Level::ReadCommitted,
            Scheme::Si => Level::SnapshotIsolation,
            _ => Level::Serializable,
        };
        eprintln!("{scheme}: {:?}, {} committed", report.kinds(), report.counts.committed);
        assert!(report.holds(promised), "seed {seed}, {scheme}\n{report}");
        if scheme == Scheme::Si {
            assert!(!report.holds(Level::Serializable), "seed {seed}: no write skew, so this proves little\n{report}");
        }
        if scheme == Scheme::Rc {
            assert!(report.anomaly(AnomalyKind::GSingle).is_some(), "seed {seed}: no read skew\n{report}");
        }
    }
}

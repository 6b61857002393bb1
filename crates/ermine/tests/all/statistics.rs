//! Goal: the counters of a database say what its transactions have done.
//! Method: a known number of transactions under a scheme of each family, whose effect on each counter is known.

use std::collections::HashSet;

use ermine::{Aborts, Database, Error, Metric, MetricValue, Options, Scheme, TxnOptions};

fn open(scheme: Scheme) -> Database {
    Database::open_in_memory(Options::default().scheme(scheme)).unwrap()
}

#[test]
fn commits_reads_and_versions_are_counted() {
    for scheme in [Scheme::SiSsn, Scheme::Si, Scheme::Rc, Scheme::Silo, Scheme::TwoPhaseNoWait] {
        let db = open(scheme);
        let rows = db.table::<u64, u64>("rows").unwrap();
        db.run(|txn| (0..100).try_for_each(|key| txn.insert(&rows, &key, &0))).unwrap();
        let before = db.statistics();
        for _ in 0..10 {
            db.run(|txn| (0..5).try_for_each(|key| txn.get(&rows, &key).map(drop))).unwrap();
        }
        let after = db.statistics();
        assert_eq!((after.commits - before.commits, after.rows_read - before.rows_read), (10, 50), "{scheme}");
        assert_eq!(after.aborts, Aborts::default(), "{scheme}");
        // A rolled-back transaction has read, too.
        let txn = db.begin(TxnOptions::default()).unwrap();
        txn.get(&rows, &0).unwrap();
        drop(txn);
        let last = db.statistics();
        assert_eq!((last.commits - after.commits, last.rows_read - after.rows_read), (0, 1), "{scheme}");
    }
}

#[test]
fn versions_that_a_snapshot_skips_are_counted() {
    let db = open(Scheme::Si);
    let rows = db.table::<u64, u64>("rows").unwrap();
    db.run(|txn| txn.put(&rows, &1, &0)).unwrap();
    let old = db.begin(TxnOptions::default()).unwrap();
    for value in 1..=3 {
        db.run(|txn| txn.put(&rows, &1, &value)).unwrap();
    }
    let before = db.statistics().versions_walked;
    assert_eq!(old.get(&rows, &1).unwrap(), Some(0));
    old.commit().unwrap();
    assert_eq!(db.statistics().versions_walked - before, 3);
}

#[test]
fn aborts_are_counted_by_their_cause() {
    let db = open(Scheme::SiSsn);
    let rows = db.table::<u64, u64>("rows").unwrap();
    db.run(|txn| txn.put(&rows, &1, &0)).unwrap();
    let (first, second) = (db.begin(TxnOptions::default()).unwrap(), db.begin(TxnOptions::default()).unwrap());
    first.put(&rows, &1, &1).unwrap();
    let Err(Error::Abort(abort)) = second.put(&rows, &1, &2) else { panic!("the second writer loses") };
    first.commit().unwrap();
    let aborts = db.statistics().aborts;
    assert_eq!((aborts[abort.kind], aborts.total()), (1, 1));
    assert_eq!(aborts.iter().filter(|(_, count)| *count > 0).count(), 1);
}

#[test]
fn every_metric_has_a_name_of_its_own() {
    let db = open(Scheme::default());
    db.run(|_| Ok::<_, Error>(())).unwrap();
    let statistics = db.statistics();
    let metrics = statistics.metrics();
    let names: HashSet<_> = metrics.iter().map(|metric| (metric.name, metric.label)).collect();
    assert_eq!(names.len(), metrics.len());
    let commits = metrics.iter().find(|metric| metric.name == "ermine_commits_total");
    assert!(matches!(commits, Some(Metric { value: MetricValue::Counter(count), .. }) if *count == statistics.commits));
    for Metric { name, value, help, .. } in &metrics {
        assert!(help.ends_with('.'), "{name}");
        assert_eq!(matches!(value, MetricValue::Counter(_)), name.ends_with("_total"), "{name}");
        assert_eq!(matches!(value, MetricValue::Latencies(_)), name.ends_with("_seconds") && !name.contains("_age_"));
    }
}

//! Goal: the counters of a database say what its transactions have done.
//! Method: a known number of transactions under a scheme of each family, whose effect on each counter is known.

use std::{collections::HashSet, sync::Arc, thread, time::Duration};

use ermine::{Aborts, Database, Error, Metric, MetricValue, Options, Scheme, Statistics, TxnOptions};
use ermine_testing::faulty::FaultyDirectory;

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

/// The workers' count follows the one that walks over all indexes, up to what a worker has not told yet.
#[test]
fn the_memory_of_indexes_is_counted() {
    for scheme in [Scheme::SiSsn, Scheme::Silo] {
        let db = open(scheme);
        let rows = db.table::<u64, u64>("rows").unwrap();
        let is_near = |db: &Database| {
            let (counted, walked) = (db.statistics().index_bytes, db.index_bytes());
            assert!(counted.abs_diff(walked) < 512 << 10, "{scheme}: {counted} counted, {walked} found");
            walked
        };
        let before = is_near(&db);
        for begin in (0..200_000).step_by(1000) {
            db.run(|txn| (begin..begin + 1000).try_for_each(|key| txn.insert(&rows, &key, &0))).unwrap();
        }
        assert!(is_near(&db) > before + (2 << 20), "{scheme}");
        // The indexes of a dropped table go as a whole.
        db.drop_table("rows").unwrap();
        drop(rows);
        let mut waits = 0;
        while db.index_bytes() > before + (1 << 20) || db.statistics().index_bytes > before + (1 << 20) {
            thread::sleep(Duration::from_millis(1));
            waits += 1;
            assert!(waits < 60_000, "{scheme}: {} bytes, {} counted", db.index_bytes(), db.statistics().index_bytes);
        }
        is_near(&db);
    }
}

#[test]
fn a_checkpoint_in_progress_is_shown_and_what_checkpoints_freed() {
    for scheme in [Scheme::SiSsn, Scheme::Silo] {
        let options = Options::default().scheme(scheme).segment_bytes(64 << 10).log_buffer_bytes(64 << 10);
        let options = options.checkpoint_after(1 << 40).keep_log(0);
        let db = Database::open_in(Arc::new(FaultyDirectory::new()), options).unwrap();
        let rows = db.table::<u64, Vec<u8>>("rows").unwrap();
        for key in 0..2000 {
            db.run(|txn| txn.put(&rows, &key, &vec![1; 100])).unwrap();
        }
        let is_seen = |statistics: &Statistics| statistics.checkpoint_rows.is_some_and(|rows| rows > 0);
        let mut seen = false;
        // Some are over before they are looked at.
        for round in 0..1000 {
            db.run(|txn| txn.put(&rows, &0, &vec![round as u8; 100])).unwrap();
            thread::scope(|scope| {
                let checkpoint = scope.spawn(|| db.checkpoint().unwrap());
                while !checkpoint.is_finished() {
                    seen |= is_seen(&db.statistics());
                }
            });
            assert_eq!(db.statistics().checkpoint_rows, None, "{scheme}");
            if seen {
                break;
            }
        }
        assert!(seen, "{scheme}");
        // Rows that never change are moved out of the log's oldest segments, where they are part of the log.
        for round in 0..4000 {
            db.run(|txn| txn.put(&rows, &(round % 10), &vec![2; 500])).unwrap();
        }
        db.checkpoint().unwrap();
        let Statistics { moved_rows, moved_bytes, freed_segments, .. } = db.statistics();
        let moves = scheme == Scheme::SiSsn;
        assert_eq!((moved_rows > 0, moved_bytes > 0, freed_segments > 0), (moves, moves, true), "{scheme}");
    }
}

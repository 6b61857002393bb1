//! The workloads that stress certifiers.
//!
//! Goal: under the serializable schemes no anomaly is found, under snapshot isolation the anomaly that the workload is
//! made for is found, and the data is checked afterwards. Method: short runs of few threads with much contention. An
//! anomaly is a matter of chance in each run, so several runs are tried if one is expected.

use std::{
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ermine::{
    Scheme,
    observer::{Observed, Observer},
};
use ermine_bench::{
    Result, batch,
    pause::Pause,
    read_mostly,
    report::Setting,
    rounds::Comparison,
    sibench, stock,
    summary::{KindSummary, Summary},
    trial::{Retry, RunOptions},
    write_skew,
};

const SEED: u64 = 20_240_229;
/// Number of runs tried if an anomaly is expected.
const TRIES: u64 = 20;

/// Measured once: it takes a second.
fn setting() -> Setting {
    static SETTING: LazyLock<Setting> = LazyLock::new(Setting::here);
    SETTING.clone()
}

fn run_options() -> RunOptions {
    let (warmup, measured) = (Duration::from_millis(50), Duration::from_millis(250));
    // On a busy machine the time is too short.
    RunOptions { warmup, measured, least: 100, seed: SEED, explain_aborts: true, ..RunOptions::default() }
}

fn write_skew(scheme: Scheme, run_options: RunOptions) -> Summary<write_skew::Options> {
    let options = write_skew::Options { scheme, threads: 4, pairs: 4, pause: Pause::Yield, run_options };
    write_skew::drive(&options, setting(), &mut |_| {}).unwrap()
}

fn batch(scheme: Scheme, snapshot_reports: bool, run_options: RunOptions) -> Summary<batch::Options> {
    let options =
        batch::Options { scheme, threads: 4, receipts: 5, pause: Pause::Yield, snapshot_reports, run_options };
    batch::drive(&options, setting(), &mut |_| {}).unwrap()
}

fn serializable() -> impl Iterator<Item = Scheme> {
    Scheme::ALL.into_iter().filter(|scheme| scheme.is_serializable())
}

fn assert_clean<O: std::fmt::Display>(scheme: Scheme, summary: &Summary<O>) {
    assert!(summary.holds(), "{summary}");
    assert_eq!(summary.violations.unwrap_or(0), 0, "{summary}");
    assert!(summary.kinds.iter().all(|kind| kind.committed > 0), "{scheme}: {summary}");
}

#[test]
fn no_pair_is_overdrawn_under_serializable_schemes() {
    serializable().for_each(|scheme| assert_clean(scheme, &write_skew(scheme, run_options())));
}

#[test]
fn pairs_are_overdrawn_under_snapshot_isolation_and_below() {
    for scheme in [Scheme::Rc, Scheme::Si] {
        let found = (0..TRIES).any(|try_| {
            let summary = write_skew(scheme, RunOptions { seed: SEED + try_, ..run_options() });
            assert!(summary.holds(), "permitted under {scheme}: {summary}");
            summary.violations.unwrap() > 0
        });
        assert!(found, "{scheme}");
    }
}

#[test]
fn no_report_of_a_closed_batch_turns_out_wrong_under_serializable_schemes() {
    for scheme in serializable() {
        assert_clean(scheme, &batch(scheme, false, run_options()));
        if scheme.has_snapshots() {
            assert_clean(scheme, &batch(scheme, true, run_options()));
        }
    }
}

#[test]
fn reports_of_closed_batches_turn_out_wrong_under_snapshot_isolation_and_below() {
    for scheme in [Scheme::Rc, Scheme::Si] {
        let found = (0..TRIES).any(|try_| {
            let summary = batch(scheme, false, RunOptions { seed: SEED + try_, ..run_options() });
            assert!(summary.holds(), "permitted under {scheme}: {summary}");
            summary.violations.unwrap() > 0
        });
        assert!(found, "{scheme}");
    }
}

#[test]
fn sibench_leaves_marks_of_committed_attempts_only() {
    for scheme in Scheme::ALL {
        for retry in [Retry::Yes, Retry::No] {
            let groups = ["2:8-12:3", "2:50-100:1"].map(|group| group.parse().unwrap()).to_vec();
            let run_options = RunOptions { retry, ..run_options() };
            let options = sibench::Options { scheme, records: 100, theta: 0.5, groups, run_options };
            let summary = sibench::drive(&options, setting(), &mut |_| {}).unwrap();
            assert!(summary.holds(), "{summary}");
            assert!(summary.kinds[0].committed > 0, "{summary}");
            let lost = |kind: &KindSummary| if retry == Retry::No { kind.aborted } else { 0 };
            assert!(summary.kinds.iter().all(|kind| kind.dropped == lost(kind)), "{summary}");
        }
    }
}

#[test]
fn stock_compares_all_schemes_at_each_point() {
    let options = stock::Options {
        schemes: Scheme::ALL.to_vec(),
        threads: 2,
        records: 1_000,
        theta: 0.0,
        reads: vec![10, 100],
        write_percents: vec![0.1, 10.0],
        rounds: 2,
        run_options: RunOptions { measured: Duration::from_millis(100), ..run_options() },
    };
    let mut turns = 0;
    let summary = stock::drive(&options, setting(), &mut |_, _| turns += 1).unwrap();
    assert!(summary.holds(), "{summary}");
    assert_eq!((summary.points.len(), turns), (4, 4 * 2 * Scheme::ALL.len()));
    assert_each_scheme_committed(&summary);
    let json = serde_json::to_value(&summary).unwrap();
    assert_eq!(json["points"][0]["schemes"][1]["scheme"], "si");
    assert_eq!(json["points"][0]["schemes"][1]["ratio_to_si"][0]["median"], 1.0);
}

#[test]
fn read_mostly_compares_all_schemes() {
    let options = read_mostly::Options {
        schemes: Scheme::ALL.to_vec(),
        long: 1,
        short: 2,
        rows: 5_000,
        scan_percent: 20.0,
        short_rows: 4,
        rounds: 2,
        run_options: RunOptions { least: 2, ..run_options() },
    };
    let summary = read_mostly::drive(&options, setting(), &mut |_| {}).unwrap();
    assert!(summary.holds(), "{summary}");
    assert_each_scheme_committed(&summary);
}

fn assert_each_scheme_committed<O: std::fmt::Display>(summary: &Comparison<O>) {
    for point in &summary.points {
        assert_eq!(point.schemes.len(), Scheme::ALL.len());
        for scheme in &point.schemes {
            assert!(scheme.kinds.iter().all(|kind| kind.committed > 0), "{}: {summary}", scheme.scheme);
        }
    }
}

#[test]
fn aborts_are_explained_when_asked_and_counted_as_the_engine_does() {
    let summary = write_skew(Scheme::SiSsn, run_options());
    let aborted: u64 = summary.kinds.iter().map(|kind| kind.aborted).sum();
    let explained: u64 = summary.abort_shapes.iter().map(|shape| shape.aborts).sum();
    assert!(aborted > 0, "{summary}");
    assert_eq!(aborted, explained);
    assert!(summary.abort_shapes.iter().all(|shape| shape.table.as_deref() == Some("account")), "{summary}");
    let json = serde_json::to_value(&summary).unwrap();
    assert_eq!((&json["workload"], &json["options"]["scheme"]), (&"write-skew".into(), &"si-ssn".into()));
    assert_eq!(json["options"]["measured_seconds"], 0.25);

    let unexplained = write_skew(Scheme::SiSsn, RunOptions { explain_aborts: false, ..run_options() });
    assert!(unexplained.abort_shapes.is_empty());
}

/// Counts the transactions that it observes.
#[derive(Default)]
struct Counter(AtomicU64);

impl Observer for Counter {
    fn ended(&self, _: &Observed<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn an_observer_watches_one_database() -> Result<()> {
    let observer: Arc<dyn Observer> = Arc::new(Counter::default());
    let run_options = RunOptions { observer: Some(observer), ..run_options() };
    let options = |schemes: &[Scheme]| stock::Options {
        schemes: schemes.to_vec(),
        threads: 1,
        records: 10,
        theta: 0.0,
        reads: vec![1],
        write_percents: vec![1.0],
        rounds: 1,
        run_options: run_options.clone(),
    };
    options(&[Scheme::Si]).check()?;
    assert!(options(&[Scheme::Si, Scheme::SiSsn]).check().is_err());
    Ok(())
}

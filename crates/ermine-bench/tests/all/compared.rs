//! The workloads of the literature that several schemes run in turn.
//!
//! Goal: each runs under every scheme, commits transactions of every kind, and leaves the data as its conditions say.
//! Method: short runs of few threads with much contention.

use std::{fmt, time::Duration};

use ermine::Scheme;
use ermine_bench::{
    compare::{self, Workload},
    pause::Pause,
    report::Setting,
    rounds::Comparison,
    smallbank::SmallBank,
    tatp::Tatp,
    trial::{Retry, RunOptions},
    ycsb::{Mix, Ycsb},
};
use indicatif::ProgressBar;

/// Each client completes at least `least` transactions: on a busy machine the time is too short.
fn driven<W: Workload>(workload: W, schemes: &[Scheme], retry: Retry, least: u64) -> Comparison<compare::Options<W>> {
    let (warmup, measured) = (Duration::from_millis(10), Duration::from_millis(40));
    let run_options = RunOptions { warmup, measured, retry, least, seed: 20_240_229, ..RunOptions::default() };
    let options = compare::Options { workload, schemes: schemes.to_vec(), threads: 3, rounds: 2, run_options };
    let (mut turns, mut loaded, mut checked) = (0, 0, 0);
    let summary = compare::drive(&options, Setting::uncalibrated(), &ProgressBar::hidden(), &mut |event| match event {
        compare::Event::Loaded(..) => loaded += 1,
        compare::Event::Turn(..) => turns += 1,
        compare::Event::Checked(..) => checked += 1,
    })
    .unwrap();
    assert_eq!((loaded, checked), (schemes.len(), schemes.len()));
    assert_eq!(turns, schemes.len() * 2 * summary.points.len());
    summary
}

fn assert_sound<O: fmt::Display>(summary: &Comparison<O>) {
    assert!(summary.holds(), "{summary}");
    for scheme in summary.points.iter().flat_map(|point| &point.schemes) {
        assert!(scheme.kinds.iter().all(|kind| kind.committed > 0), "{}: {summary}", scheme.scheme);
    }
}

fn smallbank() -> SmallBank {
    SmallBank { customers: 500, hot_customers: 10, hot_percent: 90, pause: Pause::Yield }
}

#[test]
fn smallbank_keeps_the_money_under_every_scheme() {
    let summary = driven(smallbank(), &Scheme::ALL, Retry::Yes, 400);
    assert_sound(&summary);
    assert_eq!(summary.points[0].schemes.len(), Scheme::ALL.len());
    let json = serde_json::to_value(&summary).unwrap();
    assert_eq!((&json["workload"], &json["options"]["customers"]), (&"smallbank".into(), &500.into()));
    assert_eq!(json["points"][0]["schemes"][1]["ratio_to_si"][6]["median"], 1.0, "of all kinds together");
}

#[test]
fn smallbank_keeps_the_money_when_transactions_are_dropped() {
    assert_sound(&driven(
        smallbank(),
        &[Scheme::Si, Scheme::SiSsn, Scheme::Silo, Scheme::TwoPhaseNoWait],
        Retry::No,
        400,
    ));
}

fn ycsb(operations: u32) -> Ycsb {
    Ycsb {
        mixes: Mix::ALL.to_vec(),
        records: 300,
        fields: 3,
        field_bytes: 20,
        distribution: None,
        theta: 0.99,
        scan_max: 20,
        operations,
    }
}

#[test]
fn ycsb_keeps_every_record_under_every_scheme() {
    let summary = driven(ycsb(1), &Scheme::ALL, Retry::Yes, 400);
    assert_sound(&summary);
    let kinds: Vec<_> = summary.points[4].schemes[0].kinds.iter().map(|kind| &*kind.name).collect();
    assert_eq!((&*summary.points[4].name, kinds), ("E", vec!["scan", "insert", "all"]));
}

#[test]
fn ycsb_keeps_every_record_in_long_transactions_and_without_retries() {
    let schemes = [Scheme::Si, Scheme::SiSsn, Scheme::Silo, Scheme::TwoPhaseNoWait];
    for retry in [Retry::Yes, Retry::No] {
        assert_sound(&driven(ycsb(8), &schemes, retry, 100));
    }
}

#[test]
fn tatp_keeps_the_register_under_every_scheme() {
    let summary = driven(Tatp { subscribers: 100, uniform: true }, &Scheme::ALL, Retry::Yes, 4_000);
    assert_sound(&summary);
    for scheme in &summary.points[0].schemes {
        let of = |name| scheme.kinds.iter().find(|kind| kind.name == name).unwrap();
        assert_eq!(of("get-subscriber-data").rolled_back, 0, "{summary}");
        assert!(of("get-access-data").rolled_back > 0, "failures by the rules: {summary}");
    }
    assert_sound(&driven(Tatp { subscribers: 100, uniform: true }, &[Scheme::Si, Scheme::Silo], Retry::No, 4_000));
}

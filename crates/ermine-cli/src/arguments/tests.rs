//! The meanings of command lines.

use std::time::Duration;

use clap::{CommandFactory, Parser, error::ErrorKind};
use ermine::{Durability, Order, Scheme};
use ermine_bench::{
    brokerage, machine, micro, pause::Pause, sibench, smallbank::SmallBank, stock, tpcc, trial::Retry, ycsb,
};

use super::*;

fn parse(line: &str) -> Result<Workload, ErrorKind> {
    match Ermine::try_parse_from(line.split_whitespace()).map_err(|error| error.kind())?.command {
        Command::Bench { workload } => Ok(*workload),
        other => panic!("{other:?}"),
    }
}

fn tpcc(line: &str) -> tpcc::Options {
    match parse(&format!("ermine bench tpcc {line}")).unwrap() {
        Workload::Tpcc(arguments) => arguments.options().unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_definition_is_sound() {
    Ermine::command().debug_assert();
}

#[test]
fn defaults_follow_the_machine_and_the_rules() {
    let options = tpcc("");
    assert_eq!((options.threads, options.warehouses as usize), (machine::cores(), machine::cores()));
    assert_eq!((options.scheme, options.remote_percent), (Scheme::SiSsn, 1));
    let run_options = &options.run_options;
    assert_eq!((options.home, run_options.retry), (tpcc::Home::Fixed, Retry::Yes));
    assert_eq!((run_options.measured, run_options.warmup), (Duration::from_secs(10), Duration::from_secs(2)));
    assert_eq!(options.scale, tpcc::Scale::FULL);
}

#[test]
fn every_option_arrives() {
    let options = tpcc(
        "--scheme si --threads 4 --warehouses 3 --seconds 0.5 --warmup 0 --remote-percent 100 --home random \
         --retry no --seed 9 --scale small",
    );
    assert_eq!((options.scheme, options.threads, options.warehouses), (Scheme::Si, 4, 3));
    let run_options = &options.run_options;
    assert_eq!((run_options.measured, run_options.warmup), (Duration::from_millis(500), Duration::ZERO));
    assert_eq!((options.remote_percent, run_options.seed), (100, 9));
    assert_eq!((options.home, run_options.retry), (tpcc::Home::Random, Retry::No));
    assert_eq!(options.scale, tpcc::Scale::SMALL);
    assert_eq!(tpcc("--threads 4").warehouses, 4);
}

#[test]
fn what_cannot_work_is_refused() {
    for line in [
        "tpcc --scheme parallel",
        "tpcc --threads 0",
        "tpcc --warehouses 0",
        "tpcc --seconds 0",
        "tpcc --seconds -1",
        "tpcc --remote-percent 101",
        "tpcc --home mine",
        "tpcc --durability async",
        "tpcc --outstanding 8",
        "tpcc --dir d --outstanding 0",
        "tpcc --dir d --durability often",
        "tpcc --keep",
        "tpcc --dir d --expect orders",
        "commit-latency",
        "micro --records 99",
        "micro --operation put",
        "micro --index heap",
        "micro --epoch-interval 1",
        "micro --log-dir l",
        "micro --compress-checkpoints",
        "micro --checkpoint-after 5",
        "micro --dir d --checkpoint-after 0",
        "micro --wait-max soon",
        "churn --rows 10",
        "sibench --group 2:8-12",
        "sibench --threads 2 --group 2:8-12:3",
        "write-skew --pairs 0",
        "batch --pause long",
        "stock --scheme si,parallel",
        "stock --sweep --reads 10",
        "read-mostly --long 1",
        "brokerage --mix heavy",
        "brokerage --customers 0",
        "brokerage --scheme si,parallel",
        "smallbank --customers many",
        "ycsb --workload g",
        "ycsb --distribution normal",
        "tatp --subscribers few",
        "seats",
    ] {
        assert!(parse(&format!("ermine bench {line}")).is_err(), "{line}");
    }
}

#[test]
fn micro_runs_one_operation_or_all() {
    let operations = |line: &str| match parse(line).unwrap() {
        Workload::Micro(arguments) => arguments.options().operations,
        other => panic!("{other:?}"),
    };
    assert_eq!(operations("ermine bench micro"), micro::Operation::ALL);
    assert_eq!(operations("ermine bench micro --operation rmw10"), [micro::Operation::Rmw10]);
}

#[test]
fn smallbank_takes_its_hotspot_and_the_schemes() {
    let options = |line: &str| match parse(&format!("ermine bench smallbank {line}")).unwrap() {
        Workload::SmallBank(arguments) => arguments.options(),
        other => panic!("{other:?}"),
    };
    let default = options("");
    let SmallBank { customers, hot_customers, hot_percent, pause } = default.workload;
    assert_eq!((customers, hot_customers, hot_percent, pause), (18_000, 1_000, 90, Pause::NONE));
    assert_eq!((default.schemes.len(), default.rounds, default.threads), (4, 3, machine::cores()));
    let given = options("--hot-customers 10 --pause yield --scheme silo,si --rounds 1 --threads 3 --seed 4");
    assert_eq!((given.workload.hot_customers, given.workload.pause), (10, Pause::Yield));
    assert_eq!((given.schemes, given.rounds, given.threads), (vec![Scheme::Silo, Scheme::Si], 1, 3));
    assert_eq!(given.run_options.seed, 4);
}

#[test]
fn ycsb_runs_all_workloads_or_some() {
    let options = |line: &str| match parse(&format!("ermine bench ycsb {line}")).unwrap() {
        Workload::Ycsb(arguments) => arguments.options().workload,
        other => panic!("{other:?}"),
    };
    let default = options("");
    assert_eq!((default.mixes, default.distribution), (ycsb::Mix::ALL.to_vec(), None));
    assert_eq!((default.fields, default.field_bytes, default.theta), (10, 100, 0.99));
    assert_eq!((default.scan_max, default.operations), (100, 1));
    let given = options("--workload a,E --operations-per-transaction 16 --distribution uniform --records 7");
    assert_eq!((given.mixes, given.operations), (vec![ycsb::Mix::A, ycsb::Mix::E], 16));
    assert_eq!((given.distribution, given.records), (Some(ycsb::Distribution::Uniform), 7));
}

#[test]
fn tatp_takes_its_subscribers() {
    let options = |line: &str| match parse(&format!("ermine bench tatp {line}")).unwrap() {
        Workload::Tatp(arguments) => arguments.options().workload,
        other => panic!("{other:?}"),
    };
    assert_eq!((options("").subscribers, options("").uniform), (100_000, false));
    let given = options("--subscribers 7 --uniform");
    assert_eq!((given.subscribers, given.uniform), (7, true));
}

#[test]
fn groups_come_from_the_threads_or_one_by_one() {
    let groups = |line: &str| match parse(&format!("ermine bench sibench {line}")).unwrap() {
        Workload::Sibench(arguments) => arguments.options().groups,
        other => panic!("{other:?}"),
    };
    assert_eq!(groups("--threads 3"), sibench::Group::usual(3));
    let given = groups("--group 2:8-12:3 --group 1:5:0");
    assert_eq!(given.iter().map(ToString::to_string).collect::<Vec<_>>(), ["2:8-12:3", "1:5-5:0"]);
}

#[test]
fn schemes_are_one_or_several() {
    let stock = |line: &str| match parse(&format!("ermine bench stock {line}")).unwrap() {
        Workload::Stock(arguments) => arguments.options(),
        other => panic!("{other:?}"),
    };
    assert_eq!(stock("--scheme si-ssn,si").schemes, [Scheme::SiSsn, Scheme::Si]);
    assert_eq!(stock("").schemes[0], Scheme::Si);
    assert_eq!(stock("--sweep").reads, stock::SWEEP_READS);
    assert_eq!(stock("--reads 10,20 --write-share 0.01").write_percents, [0.01]);
    let (long, short) = match parse("ermine bench read-mostly --threads 3").unwrap() {
        Workload::ReadMostly(arguments) => (arguments.options().long, arguments.options().short),
        other => panic!("{other:?}"),
    };
    assert_eq!((long, short), (2, 1));
}

#[test]
fn a_brokerage_has_a_mix_and_schemes() {
    let brokerage = |line: &str| match parse(&format!("ermine bench brokerage {line}")).unwrap() {
        Workload::Brokerage(arguments) => arguments.options(),
        other => panic!("{other:?}"),
    };
    let usual = brokerage("");
    assert_eq!((usual.schemes, usual.customers, usual.mix), (vec![Scheme::SiSsn], 1_000, brokerage::Mix::Standard));
    let given = brokerage("--mix hybrid --group 5 --scheme si,silo --customers 3000 --initial-trades 9 --rounds 4");
    assert_eq!((given.mix, given.group_percent, given.rounds), (brokerage::Mix::Hybrid, 5.0, 4));
    assert_eq!((&given.schemes[..], given.customers), (&[Scheme::Si, Scheme::Silo][..], 3_000));
    assert_eq!(given.initial_trades, 9);
    assert!(given.check().is_ok() && brokerage("--customers 1500").check().is_err());
    assert!(brokerage("--mix hybrid --group 0").check().is_err() && brokerage("--group 101").check().is_err());
}

#[test]
fn the_mix_is_that_of_the_verb() {
    match parse("ermine bench credit-check --threads 1 --pause yield").unwrap() {
        Workload::CreditCheck(arguments) => {
            let options = arguments.options().unwrap();
            assert_eq!((options.mix, options.credit_pause), (tpcc::Mix::CreditCheck, Pause::Yield));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_history_is_expected_to_be_serializable() {
    let check = |line: &str| match Ermine::try_parse_from(line.split_whitespace()).map(|ermine| ermine.command) {
        Ok(Command::Check(arguments)) => Some((arguments.format, arguments.expect.level())),
        _ => None,
    };
    use ermine_check::Level;
    assert_eq!(check("ermine check h.jsonl"), Some((Format::Auto, Level::Serializable)));
    let line = "ermine check - --format elle-list-append --expect si --json - --export h.edn";
    assert_eq!(check(line), Some((Format::ElleListAppend, Level::SnapshotIsolation)));
    assert_eq!(check("ermine check"), None);
    assert_eq!(check("ermine check h --expect snapshot"), None);
}

#[test]
fn a_directory_comes_with_durability_and_outstanding_commits() {
    assert!(tpcc("").run_options.storage.is_none());
    let storage = tpcc("--dir d").run_options.storage.unwrap();
    assert_eq!((storage.durability, storage.outstanding, storage.keep), (Durability::Durable, 64, false));
    let storage = tpcc("--dir d --durability async --outstanding 1 --keep").run_options.storage.unwrap();
    assert_eq!((storage.durability, storage.outstanding, storage.keep), (Durability::Async, 1, true));
    assert_eq!(storage.directory, std::path::Path::new("d"));
    for workload in
        ["credit-check", "sibench", "write-skew", "batch", "stock", "read-mostly", "brokerage", "micro", "churn"]
    {
        assert!(parse(&format!("ermine bench {workload} --dir d --durability none")).is_ok(), "{workload}");
    }
}

#[test]
fn what_is_tuned_arrives() {
    let tuning = tpcc(
        "--dir d --log-dir a --log-dir b --epoch-interval 0.25 --checkpoint-after 64 --wait-max 20 --memory-limit 512",
    )
    .run_options
    .tuning;
    assert_eq!(tuning.log_directories, ["a", "b"].map(std::path::PathBuf::from));
    assert_eq!(tuning.epoch_interval, Some(Duration::from_micros(250)));
    assert_eq!((tuning.checkpoint_after, tuning.wait_max), (Some(64 << 20), Some(Duration::from_millis(20))));
    assert_eq!(tuning.memory_limit, Some(512 << 20));
    let micro = |line: &str| match parse(line).unwrap() {
        Workload::Micro(arguments) => arguments.options(),
        other => panic!("{other:?}"),
    };
    let usage = |line: &str| micro(line).check().unwrap_err().to_string();
    assert_eq!(tpcc("--order none").run_options.tuning.order, Some(Order::None));
    assert!(usage("ermine bench micro --scheme silo --order session").contains("--order means nothing under silo"));
    let error = usage("ermine bench micro --scheme si --dir nowhere --epoch-interval 2");
    assert!(error.contains("--epoch-interval means nothing under si"), "{error}");
    assert!(usage("ermine bench micro --scheme silo --wait-max 2").contains("--wait-max means nothing under silo"));
    assert!(usage("ermine bench micro --index hash").contains("no order"));
    assert!(micro("ermine bench micro --index hash --operation get").check().is_ok());
}

#[test]
fn a_simulation_has_groups_and_schemes() {
    let sim = |line: &str| match Ermine::try_parse_from(line.split_whitespace()).map(|ermine| ermine.command) {
        Ok(Command::Sim { what }) => Some(what),
        _ => None,
    };
    let run = |line: &str| match sim(line) {
        Some(Sim::Run(arguments)) => arguments,
        other => panic!("{line}: {other:?}"),
    };
    assert_eq!(run("ermine sim run").options(), ermine_sim::Options::default());
    assert_eq!(run("ermine sim run").schemes(), ermine_sim::Scheme::SSN_PAPER);
    let some = run("ermine sim run --scheme 2pl,si-ssn --group 10:8-12:100% --group 5:9:0@40 --safe-snapshots 50");
    assert_eq!(some.schemes(), [ermine_sim::Scheme::TwoPhase, ermine_sim::Scheme::SiSsn]);
    assert_eq!((some.options().groups.len(), some.options().safe_snapshot_interval), (2, Some(50.0)));
    assert!(matches!(sim("ermine sim figure 9 --quick"), Some(Sim::Figure(arguments)) if arguments.quick));
    for line in
        ["sim", "sim run --scheme occ", "sim run --group 3", "sim figure", "sim figure 5", "sim figure 6 --seeds 0"]
    {
        assert!(sim(&format!("ermine {line}")).is_none(), "{line}");
    }
}

//! The shares, the distributions, the numbers of inserts, and conditions that are broken.

use std::collections::HashMap;

use ermine::Scheme;
use indicatif::ProgressBar;

use super::{
    check::check,
    record::{Shape, key},
    transaction::{Batch, Operation},
    *,
};
use crate::random::Random;

fn options() -> Ycsb {
    Ycsb {
        mixes: Mix::ALL.to_vec(),
        records: 200,
        fields: 4,
        field_bytes: 13,
        distribution: None,
        theta: 0.99,
        scan_max: 10,
        operations: 1,
    }
}

fn store(scheme: Scheme) -> (Database, Store) {
    let db = Database::open_in_memory(ermine::Options::default().scheme(scheme)).unwrap();
    let store = options().load(&db, &LoadPlan { seed: 7, threads: 2, progress: &ProgressBar::hidden() }).unwrap();
    (db, store)
}

fn run(db: &Database, store: &Store, operations: &[Operation]) -> u64 {
    let (shape, row) = (options().shape(), &mut Vec::new());
    db.run_job(&mut Batch { records: &store.records, shape, operations, row }).unwrap()
}

/// The conditions that do not hold of `count` records after `updates`.
fn failed(db: &Database, store: &Store, count: u64, updates: u64) -> Vec<&'static str> {
    let verdicts = check(db, &store.records, options().shape(), count, updates).unwrap();
    verdicts.into_iter().filter(|(verdict, _)| !verdict.holds()).map(|(verdict, _)| verdict.condition).collect()
}

/// Draws operations, and counts them by the name of their kind.
fn drawn(options: &Ycsb, mix: Mix, count: u32) -> (HashMap<&'static str, u32>, Vec<u64>) {
    let (_db, store) = store(Scheme::Si);
    let mut user = User::new(options, mix, store.shared(), Random::new(3, 1));
    let (mut kinds, mut numbers) = (HashMap::new(), Vec::new());
    let names: Vec<_> = mix.operations().map(|(kind, _)| kind.name()).collect();
    for _ in 0..count {
        let (place, operation) = user.draw();
        *kinds.entry(names[place]).or_default() += 1;
        match operation {
            Operation::Insert { number, .. } => store.recent.committed(number),
            Operation::Scan { number, rows } => {
                assert!((1..=10).contains(&rows));
                numbers.push(number);
            }
            Operation::Update { number, field, .. } | Operation::ReadModifyWrite { number, field } => {
                assert!(field < 4);
                numbers.push(number);
            }
            Operation::Read(number) => numbers.push(number),
        }
    }
    (kinds, numbers)
}

#[test]
fn each_workload_has_its_shares() {
    for mix in Mix::ALL {
        let (kinds, numbers) = drawn(&options(), mix, 10_000);
        for (kind, share) in mix.operations() {
            assert!(kinds[kind.name()].abs_diff(100 * share) < 300, "{mix}: {kinds:?}");
        }
        assert!(mix == Mix::D || numbers.iter().all(|&number| number < 200), "{mix}: loaded records");
    }
}

#[test]
fn distributions_are_skewed_uniform_or_recent() {
    let count = |distribution, mix| {
        let (_, numbers) = drawn(&Ycsb { distribution: Some(distribution), ..options() }, mix, 20_000);
        let mut counts = HashMap::<u64, u32>::new();
        numbers.iter().for_each(|&number| *counts.entry(number).or_default() += 1);
        (numbers, counts)
    };
    // The most frequent of 200 has 1 / zeta(200, 0.99) = 17 %.
    let (_, zipfian) = count(Distribution::Zipfian, Mix::C);
    assert!((3_000..3_800).contains(zipfian.values().max().unwrap()), "{zipfian:?}");
    let (_, uniform) = count(Distribution::Uniform, Mix::C);
    assert!(uniform.len() == 200 && uniform.values().all(|count| (50..160).contains(count)), "{uniform:?}");
    // About 1,000 inserts: those of the end are read at the end.
    let (latest, _) = count(Distribution::Latest, Mix::D);
    assert!(latest[..20].iter().all(|&number| number < 210), "{:?}", &latest[..20]);
    let end = &latest[latest.len() - 100..];
    assert!(end.iter().filter(|&&number| number > 1_000).count() > 80, "{end:?}");
}

#[test]
fn the_newest_record_waits_for_those_before_it() {
    let recent = Recent::new(10);
    assert_eq!((recent.draw(), recent.draw(), recent.draw()), (10, 11, 12));
    recent.committed(12);
    recent.committed(11);
    assert_eq!(recent.newest(), 9);
    recent.committed(10);
    assert_eq!((recent.newest(), recent.drawn()), (12, 13));
}

#[test]
fn operations_do_what_they_say_under_every_scheme() {
    for scheme in Scheme::ALL {
        let (db, store) = store(scheme);
        let get = |number| db.run(|txn| txn.get(&store.records, &key(number))).unwrap();
        let before = get(5).unwrap();
        let update = Operation::Update { number: 5, field: 2, stamp: 99 };
        let done = run(&db, &store, &[Operation::Read(4), update, Operation::ReadModifyWrite { number: 5, field: 2 }]);
        let (after, shape) = (get(5).unwrap(), options().shape());
        assert_eq!((done, Shape::writes(&after), shape.stamp(&after, 2)), (2, 2, 100), "{scheme}");
        assert_eq!(after[8..34], before[8..34], "the other fields stay");
        assert_eq!(run(&db, &store, &[Operation::Insert { number: 200, stamp: 1 }]), 0);
        assert_eq!(run(&db, &store, &[Operation::Scan { number: 3, rows: 9 }, Operation::Read(1_000)]), 0);
        assert_eq!(failed(&db, &store, 201, 2), [""; 0], "{scheme}");
    }
}

#[test]
fn broken_conditions_are_found() {
    let (db, store) = store(Scheme::SiSsn);
    let put = |number, row: &[u8]| db.run(|txn| txn.put(&store.records, &key(number), row)).unwrap();
    assert_eq!(failed(&db, &store, 200, 0), [""; 0]);
    assert_eq!(failed(&db, &store, 200, 1), ["writes"], "an update that is not there");
    assert_eq!(failed(&db, &store, 201, 0), ["rows"], "an insert that is not there");
    assert_eq!(failed(&db, &store, 199, 0), ["rows"], "a record too many");
    let whole = db.run(|txn| txn.get(&store.records, &key(5))).unwrap().unwrap();
    for byte in 8..whole.len() {
        let mut torn = whole.clone();
        torn[byte] ^= 1;
        put(5, &torn);
        assert_eq!(failed(&db, &store, 200, 0), ["fields"], "byte {byte}");
    }
    put(5, &whole[1..]);
    assert_eq!(failed(&db, &store, 200, 0), ["fields"], "too short");
    let other = db.run(|txn| txn.get(&store.records, &key(6))).unwrap().unwrap();
    put(5, &other);
    assert_eq!(failed(&db, &store, 200, 0), ["fields"], "another record");
}

#[test]
fn options_that_cannot_work_are_refused() {
    options().check().unwrap();
    for bad in [
        Ycsb { mixes: vec![], ..options() },
        Ycsb { records: 0, ..options() },
        Ycsb { fields: 0, ..options() },
        Ycsb { field_bytes: 7, ..options() },
        Ycsb { fields: usize::MAX, ..options() },
        Ycsb { theta: 1.0, ..options() },
        Ycsb { scan_max: 0, ..options() },
        Ycsb { operations: 0, ..options() },
    ] {
        assert!(bad.check().is_err(), "{bad}");
    }
    assert_eq!("e".parse::<Mix>().unwrap(), Mix::E);
    assert!("G".parse::<Mix>().is_err());
}

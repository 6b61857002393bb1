//! Traces with known speedups: without conflicts, with nothing but conflicts, with a share of serial transactions; and
//! random ones, under every scheme.

use super::*;
use crate::trace::{Kind, Touch};

/// The schemes whose transactions wait for the records of others after they have accessed some: their first access may
/// fall into the wait.
const LOCKING: [Scheme; 9] = [
    Scheme::TwoPhase,
    Scheme::Rcl,
    Scheme::RclSsn,
    Scheme::Rc,
    Scheme::RcSsn,
    Scheme::Si,
    Scheme::SiSsi,
    Scheme::SiSsn,
    Scheme::Sto,
];

fn read(record: u32) -> Touch {
    Touch { table: 0, record, partition: Some(0), kind: Kind::Read }
}

fn write(record: u32) -> Touch {
    Touch { kind: Kind::Write, ..read(record) }
}

fn in_partition(partition: u32, touch: Touch) -> Touch {
    Touch { partition: Some(partition), ..touch }
}

fn simulate(scheme: Scheme, trace: &Trace, cores: u32) -> CoresOutcome {
    simulate_cores(scheme, trace, &CoresOptions { cores, homes: Homes::Fixed, cycle_test: true }).unwrap()
}

fn speedup(scheme: Scheme, trace: &Trace, cores: u32) -> f64 {
    let outcome = simulate(scheme, trace, cores);
    assert!(outcome.holds(), "{scheme} on {cores} cores: {:?}", outcome.cycles);
    outcome.speedup
}

/// Transactions of 8 accesses to few records, of which half are writes, in four partitions with some that cross.
fn contended(seed: u64) -> Trace {
    let (mut random, mut trace) = (fastrand::Rng::with_seed(seed), Trace::new(seed));
    for _ in 0..2000 {
        let home = random.u32(0..4);
        let crosses = random.u32(0..10) == 0;
        trace.add((0..8).map(|_| {
            let partition = if crosses { random.u32(0..4) } else { home };
            let record = 10 * partition + random.u32(0..10);
            in_partition(partition, if random.bool() { write(record) } else { read(record) })
        }));
    }
    trace
}

/// Every transaction has records and a partition of its own.
fn without_conflicts() -> Trace {
    let mut trace = Trace::new(1);
    for number in 0..4096 {
        trace.add(
            (0..5)
                .flat_map(|at| [read(5 * number + at), write(5 * number + at)])
                .map(|touch| in_partition(number, touch)),
        );
    }
    trace
}

#[test]
fn one_core_takes_exactly_the_serial_time() {
    let trace = contended(1);
    for scheme in Scheme::ALL {
        assert_eq!(speedup(scheme, &trace, 1), 1.0, "{scheme}");
    }
}

#[test]
fn without_conflicts_cores_are_used_in_full() {
    let trace = without_conflicts();
    for scheme in Scheme::ALL {
        let mut before = 0.0;
        for cores in [1, 2, 4, 8, 16, 32, 64] {
            let speedup = speedup(scheme, &trace, cores);
            assert!(speedup >= before, "{scheme} on {cores} cores: {speedup}, on half of them {before}");
            let expected = if scheme == Scheme::Serial { 1.0 } else { f64::from(cores) };
            assert!((0.97 * expected..=expected).contains(&speedup), "{scheme} on {cores} cores: {speedup}");
            before = speedup;
        }
    }
}

#[test]
fn with_nothing_but_conflicts_cores_do_not_help() {
    let mut trace = Trace::new(1);
    for _ in 0..2000 {
        trace.add([read(0), write(0)].into_iter().chain((0..18).flat_map(|_| [read(0), write(0)])));
    }
    for scheme in Scheme::ALL {
        for cores in [2, 16, 64] {
            let speedup = speedup(scheme, &trace, cores);
            match scheme {
                Scheme::Serial | Scheme::Partitioned | Scheme::Vll => assert_eq!(speedup, 1.0, "{scheme}"),
                scheme if LOCKING.contains(&scheme) => assert!(speedup < 1.1, "{scheme} on {cores} cores: {speedup}"),
                _ => assert!(speedup <= 1.0, "{scheme} on {cores} cores: {speedup}"),
            }
        }
    }
}

/// "By Amdahl's law, 11% serial transactions (as in TPC-C) result in a maximum speedup of 9.1" (HTM VI.A).
#[test]
fn transactions_that_cross_partitions_bound_the_speedup() {
    let mut trace = Trace::new(1);
    for number in 0..10_000 {
        let (home, other) = (number % 64, (number + 1) % 64);
        let crosses = number % 9 == 0;
        let record = |at: u32| 10 * number + at;
        trace.add((0..10).map(|at| in_partition(if crosses && at == 5 { other } else { home }, write(record(at)))));
    }
    assert!((trace.crossing_percent() - 11.1).abs() < 0.1);
    let (partitioned, vll) = (speedup(Scheme::Partitioned, &trace, 64), speedup(Scheme::Vll, &trace, 64));
    assert!(partitioned < 9.1 && vll > 60.0, "{partitioned}, {vll}");
}

#[test]
fn serializable_schemes_have_no_cycles() {
    let mut others = 0;
    for seed in 0..4 {
        let trace = contended(seed);
        for scheme in Scheme::ALL {
            for (cores, homes) in [(2, Homes::Fixed), (4, Homes::Any), (16, Homes::Fixed), (16, Homes::Any)] {
                let options = CoresOptions { cores, homes, cycle_test: true };
                let outcome = simulate_cores(scheme, &trace, &options).unwrap();
                assert!(outcome.holds(), "{scheme} on {cores} cores: {:?}", outcome.cycles);
                assert_eq!(outcome.committed, 2000);
                others += outcome.cycles.unwrap().components;
            }
        }
    }
    assert!(others > 100, "the others have cycles: {others}");
}

#[test]
fn every_transaction_commits_in_the_end() {
    let outcome = simulate(Scheme::Hardware, &contended(1), 64);
    assert!(outcome.alone > 0 && outcome.alone <= outcome.restarted_often, "{outcome:?}");
    let outcome = simulate(Scheme::Vll, &contended(1), 64);
    assert_eq!((outcome.aborted.sum(), outcome.restarted), (0, 0));
}

#[test]
fn the_same_trace_gives_the_same_outcome() {
    for scheme in Scheme::ALL {
        let run = |seed| simulate(scheme, &contended(seed), 8);
        assert_eq!(run(5), run(5));
    }
}

#[test]
fn requests_that_cannot_work_are_refused() {
    let with = |cores| CoresOptions { cores, homes: Homes::Any, cycle_test: false };
    assert!(simulate_cores(Scheme::Silo, &Trace::new(1), &with(1)).is_err());
    assert!(simulate_cores(Scheme::Silo, &contended(1), &with(0)).is_err());
}

//! Whole simulations: every serializable scheme keeps its promise, and the cycle test sees when one does not.

use super::*;
use crate::{
    control::{Parts, Rc, Si, Ssi, Ssn, TwoPhase},
    offers::Access,
    options::Group,
};

fn options(records: u32, groups: &[&str], transactions: u32, seed: u64) -> Options {
    let groups = groups.iter().map(|group| group.parse::<Group>().unwrap()).collect();
    Options { records, groups, transactions, seed, ..Options::default() }
}

/// Few records, many conflicts, and shapes that differ: mixes of readers and writers, blind writes, long transactions.
fn shapes(seed: u64) -> Vec<Options> {
    let mut shapes = vec![
        options(20, &["6:2-5:40%"], 1500, seed),
        options(60, &["30:8-12:25%"], 1500, seed),
        options(50, &["8:2-6:50%", "4:5-20:0"], 1500, seed),
        options(100, &["8:8-12:100%", "6:20-40:0", "2:10-30:1"], 1500, seed),
        options(8, &["4:1-3:1"], 1500, seed),
    ];
    let with_snapshots = |shape: &Options| Options { safe_snapshot_interval: Some(7.5), ..shape.clone() };
    shapes.extend(shapes.iter().map(with_snapshots).collect::<Vec<_>>());
    shapes
}

#[test]
fn serializable_schemes_have_no_cycles() {
    let mut others = 0;
    for seed in 0..3 {
        for options in shapes(seed) {
            for scheme in Scheme::ALL.into_iter().filter(|scheme| !scheme.only_queues()) {
                let outcome = simulate(scheme, &options).unwrap();
                assert!(outcome.holds(), "{scheme}, {options:?}: {:?}", outcome.cycles);
                let total = outcome.total();
                assert_eq!(total.committed + total.aborted.sum(), u64::from(options.transactions));
                others += outcome.cycles.unwrap().components;
            }
        }
    }
    assert!(others > 300, "the others have cycles: {others}");
}

/// Certifiers with one part missing.
macro_rules! without {
    ($($name:ident: $part:ident),* $(,)?) => {
        $(struct $name;
        impl Parts for $name {
            const $part: bool = false;
        })*
    };
}

without! {
    NoReaders: READERS_LEAVE_STAMPS,
    NoPi: OVERWRITES_PASS_ON_PI,
    NoCreators: CREATORS_ARE_PREDECESSORS,
    NoLateOverwrites: LATE_OVERWRITES_COUNT,
    NoReadOnlyCheck: READ_ONLY_IS_CHECKED,
    NoSnapshots: SNAPSHOTS_ARE_READERS,
    NoPivots: PIVOTS_ARE_TESTED,
    NoFirst: FIRST_IS_TESTED,
}

/// Simulates until there is a cycle; returns the number of transactions until then.
fn transactions_until_a_cycle<C: Control>() -> Option<u32> {
    let mut transactions = 0;
    for seed in 0..40 {
        for options in shapes(seed) {
            transactions += options.transactions;
            if simulate_control::<C>(&options).1.unwrap().components > 0 {
                return Some(transactions);
            }
        }
    }
    None
}

#[test]
fn the_cycle_test_finds_every_missing_part() {
    let found = [
        ("SSN over RC, readers", transactions_until_a_cycle::<Ssn<Rc, NoReaders>>()),
        ("SSN over RC, pi", transactions_until_a_cycle::<Ssn<Rc, NoPi>>()),
        ("SSN over RC, creators", transactions_until_a_cycle::<Ssn<Rc, NoCreators>>()),
        ("SSN over RC, late overwrites", transactions_until_a_cycle::<Ssn<Rc, NoLateOverwrites>>()),
        ("SSN over RC, snapshots", transactions_until_a_cycle::<Ssn<Rc, NoSnapshots>>()),
        ("SSN over SI, readers", transactions_until_a_cycle::<Ssn<Si, NoReaders>>()),
        ("SSN over SI, pi", transactions_until_a_cycle::<Ssn<Si, NoPi>>()),
        ("SSN over SI, late overwrites", transactions_until_a_cycle::<Ssn<Si, NoLateOverwrites>>()),
        ("SSN over SI, read-only", transactions_until_a_cycle::<Ssn<Si, NoReadOnlyCheck>>()),
        ("SSN over SI, snapshots", transactions_until_a_cycle::<Ssn<Si, NoSnapshots>>()),
        ("SSI, readers", transactions_until_a_cycle::<Ssi<NoReaders>>()),
        ("SSI, late overwrites", transactions_until_a_cycle::<Ssi<NoLateOverwrites>>()),
        ("SSI, pivots", transactions_until_a_cycle::<Ssi<NoPivots>>()),
        ("SSI, first", transactions_until_a_cycle::<Ssi<NoFirst>>()),
        ("SSI, snapshots", transactions_until_a_cycle::<Ssi<NoSnapshots>>()),
    ];
    let missed: Vec<_> = found.iter().filter(|(_, transactions)| transactions.is_none()).collect();
    assert!(missed.is_empty(), "{found:?}");
}

#[test]
fn the_same_options_give_the_same_outcome() {
    for scheme in Scheme::SSN_PAPER {
        let run = |seed| simulate(scheme, &options(200, &["20:8-12:25%", "3:50-90:0"], 3000, seed)).unwrap();
        assert_eq!(run(5), run(5));
        assert_ne!(run(5), run(6));
    }
}

/// Schemes are offered the same transactions at the same times, whatever became of earlier ones.
#[test]
fn offers_do_not_depend_on_the_scheme() {
    fn offers<C: Control>(options: &Options) -> Vec<(Ticks, usize, Vec<Access>, Ticks)> {
        let mut simulation = Simulation::<C>::new(options);
        let mut offers = Vec::new();
        while let Some((now, event)) = simulation.agenda.next() {
            let left = simulation.left;
            simulation.handle(now, event);
            if simulation.left < left {
                let submitted = |run: &&Run| run.submitted == now && run.steps.is_new();
                let run = simulation.runs.iter().rev().find(submitted).expect("it was submitted now");
                offers.push((now, run.group, run.steps.offer.accesses.clone(), run.steps.offer.commit_takes));
            }
        }
        offers
    }
    let options = options(30, &["10:8-12:25%", "5:20-30:0"], 400, 3);
    let expected = offers::<Rc>(&options);
    assert_eq!(expected.len(), 400);
    assert_eq!(offers::<TwoPhase>(&options), expected);
    assert_eq!(offers::<Ssn<Si>>(&options), expected);
}

#[test]
fn groups_are_counted_apart() {
    let options = options(1000, &["10:8-12:100%", "10:100-200:0"], 4000, 1);
    let outcome = simulate(Scheme::SiSsn, &options).unwrap();
    let [writers, readers] = &outcome.groups[..] else { panic!("two groups") };
    // Both have ten clients; a writer submits about fourteen times as often.
    assert!((10..18).contains(&(writers.offered / readers.offered)), "{outcome:?}");
    assert!(
        (10.0..13.0).contains(&writers.latency.mean) && (140.0..162.0).contains(&readers.latency.p50),
        "{outcome:?}"
    );
    assert!(readers.latency.p50 < readers.latency.p99);
}

#[test]
fn read_only_transactions_in_safe_snapshots_always_commit() {
    let mut options = options(30, &["10:4-8:50%", "5:20-40:0"], 3000, 1);
    options.safe_snapshot_interval = Some(20.0);
    for scheme in [Scheme::RcSsn, Scheme::SiSsn, Scheme::SiSsi] {
        let outcome = simulate(scheme, &options).unwrap();
        assert_eq!(outcome.groups[1].completion_percent(), 100.0);
        assert!(outcome.groups[0].aborted.safe_snapshot > 0);
    }
}

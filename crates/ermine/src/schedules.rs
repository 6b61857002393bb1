//! Goal: no order in which threads take their turns breaks what a scheme promises.
//!
//! Method. The whole engine is built so that before each access to shared memory another thread may go on (`sync.rs`,
//! `--cfg shuttle`), and only one runs at a time; a seed decides which. A few threads run a few transactions each on a
//! handful of rows, in shapes that certifiers and garbage collection find hard, and the judge of [`history::graph`]
//! checks every history. A seed determines the transactions and the schedule: it plays the same again, step by step.
//!
//! Memory is sequentially consistent here. What weaker orderings allow is checked by the loom models.
//!
//! `ERMINE_TEST_SCHEDULES=n` plays n schedules under each scheme, `ERMINE_TEST_SEED=n` the one of a failure (with both:
//! that number of schedules from the seed on).

#[path = "../tests/all/history/mod.rs"]
mod history;
mod plan;
mod turns;

use std::{
    cell::Cell,
    io::{self, Write},
    panic,
    sync::{Arc, Mutex, Once},
    time::{Duration, Instant},
};

use ermine::{AbortKind, Isolation, Scheme};
use fastrand::Rng;
use shuttle::{Config, MaxSteps, Runner, thread};

use history::{Record, Session, Store};
use plan::{End, Plan, Script};
use turns::Turns;

/// Schedules under each scheme: less than a minute on two idle cores for all of them.
const SCHEDULES: u64 = 15_000;

/// More steps than any schedule takes that comes to an end.
const STEPS_MAX: usize = 300_000;

/// Longer than any schedule.
const WAIT_MAX: Duration = Duration::from_secs(3600);

/// Rounds of maintenance after which no superseded version is left: each advances every epoch by one.
const ROUNDS_TO_CLEAN: usize = 8;

thread_local! {
    /// The schedule that this thread of the test program plays: all threads of a schedule are one.
    static PLAYED: Cell<Option<Played>> = const { Cell::new(None) };
}

/// A schedule.
#[derive(Clone, Copy)]
struct Played {
    test: &'static str,
    scheme: Scheme,
    seed: u64,
    /// Number of schedules before it that did not fail.
    before: u64,
}

/// Counts over the schedules played so far.
#[derive(Default)]
struct Tally {
    steps: usize,
    commits: usize,
    aborts: usize,
    cycles: usize,
}

/// Names the schedule in front of each message of failure.
fn name_failures() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if let Some(Played { test, scheme, seed, before }) = PLAYED.get() {
                eprintln!(
                    "a schedule under {scheme} failed after {before} that did not; again with\n  \
                     ERMINE_TEST_SEED={seed} RUSTFLAGS='--cfg shuttle' CARGO_TARGET_DIR=target/shuttle cargo test \
                     --profile checks -p ermine --lib -- --exact schedules::{test}"
                );
            }
            others(panic);
        }));
    });
}

/// Plays `schedules` schedules from a seed on, with the plans that follow from the seeds.
fn play(test: &'static str, scheme: Scheme, first: u64, schedules: u64, plan: fn(u64) -> Plan) -> Tally {
    name_failures();
    let tally = Arc::new(Mutex::new(Tally::default()));
    let mut config = Config::new();
    config.stack_size = 256 << 10;
    config.failure_persistence = shuttle::FailurePersistence::None;
    config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
    config.silence_warnings = true;
    config.ungraceful_shutdown_config.immediately_return_on_panic = true;
    let turns = Turns::new(first, schedules, move |seed| {
        PLAYED.set(Some(Played { test, scheme, seed, before: seed - first }));
    });
    let total = tally.clone();
    Runner::new(turns, config).run(move || {
        let Played { seed, .. } = PLAYED.get().expect("set when the schedule began");
        let one = play_one(scheme, &plan(seed));
        let mut total = total.lock().unwrap();
        total.steps += shuttle::current::context_switches();
        total.commits += one.commits;
        total.aborts += one.aborts;
        total.cycles += one.cycles;
    });
    PLAYED.set(None);
    Arc::into_inner(tally).expect("the runner is gone").into_inner().unwrap()
}

/// Plays a plan in the order of turns that the scheduler chooses, and judges it.
fn play_one(scheme: Scheme, plan: &Plan) -> Tally {
    let store = Store::create(scheme, &plan.shape, &plan.initial, WAIT_MAX, None, false);
    let records = Mutex::new((Vec::new(), Vec::new()));
    thread::scope(|scope| {
        for (number, scripts) in plan.threads.iter().enumerate() {
            let (store, records) = (&store, &records);
            scope.spawn(move || {
                for (at, script) in scripts.iter().enumerate() {
                    let (record, committed) = play_script(store, (number, at), script);
                    let mut records = records.lock().unwrap();
                    if committed { records.0.push(record) } else { records.1.push(record) }
                }
            });
        }
        for round in 0..plan.maintenance {
            store.database.maintain();
            tell((plan.threads.len(), round), || "maintenance".into());
        }
    });
    let (committed, aborted) = records.into_inner().unwrap();
    let state = store.state();
    let has_cycle = history::check(scheme, &plan.initial, &committed, &aborted, &state);
    if scheme.has_snapshots() {
        // Replaces an older snapshot that is still handed out again and keeps the versions that it shows.
        drop(store.database.snapshot().unwrap());
    }
    for _ in 0..ROUNDS_TO_CLEAN {
        store.database.maintain();
    }
    assert_eq!(store.state(), state, "collecting garbage changes no row");
    for _ in 0..ROUNDS_TO_CLEAN {
        store.database.maintain();
    }
    assert_eq!(store.database.statistics().garbage_versions, 0, "garbage that no snapshot needs stays");
    Tally { steps: 0, commits: committed.len(), aborts: aborted.len(), cycles: usize::from(has_cycle) }
}

/// Plays a transaction; returns whether it has committed.
fn play_script(store: &Store, name: (usize, usize), script: &Script) -> (Record, bool) {
    let mut options = script.options.clone();
    options.snapshot &= store.database.scheme().has_snapshots();
    if script.declares && store.database.scheme() == Scheme::Vll {
        options.declared = store.declared(&script.operations).map(Arc::new);
    }
    let mut session = Session::begin(store, name, options);
    tell(name, || "begun".into());
    for operation in &script.operations {
        let outcome = session.apply(operation);
        tell(name, || format!("{operation:?} -> {outcome:?}"));
        if let Some(abort) = &session.aborted {
            // A schedule is far shorter than the longest wait, and no thread leaves a transaction open.
            assert_ne!(abort.kind, AbortKind::Timeout, "a wait that has no end: {abort}");
            if !script.options.isolation.eq(&Isolation::Snapshot) {
                break;
            }
        }
    }
    match script.end {
        End::Rollback { dropped } => {
            let record = session.rollback(dropped);
            tell(name, || "rolled back".into());
            (record, false)
        }
        End::Commit | End::PrepareAndCommit | End::Fail => {
            if script.end == End::PrepareAndCommit {
                session.prepare();
                tell(name, || "asked to prepare".into());
                shuttle::thread::yield_now();
            }
            let (record, result) = if script.end == End::Fail { session.fail() } else { session.commit() };
            tell(name, || format!("commit -> {:?}", result.as_ref().map(|()| record.stamp)));
            (record, result.is_ok())
        }
    }
}

/// Prints what happens in a schedule, if a single one is played again.
fn tell((session, at): (usize, usize), what: impl FnOnce() -> String) {
    if asked_for() == Some(1) {
        eprintln!("{:7} session {session}, transaction {at}: {}", shuttle::current::context_switches(), what());
    }
}

/// Returns how many schedules under each scheme the environment asks for.
fn asked_for() -> Option<u64> {
    match std::env::var("ERMINE_TEST_SCHEDULES") {
        Ok(number) => Some(number.parse().expect("ERMINE_TEST_SCHEDULES is a number")),
        Err(_) => history::one_seed().then_some(1),
    }
}

fn explore(scheme: Scheme) -> Tally {
    let schedules = asked_for().unwrap_or(SCHEDULES);
    let (seed, since) = (history::seed(), Instant::now());
    // Bypasses the harness, which captures output: a fault that corrupts memory may end the process without a message.
    let mut directly = io::stderr();
    writeln!(directly, "{scheme}: ERMINE_TEST_SEED={seed} ERMINE_TEST_SCHEDULES={schedules}").unwrap();
    let tally = play(test_of(scheme), scheme, seed, schedules, any_plan);
    let (seconds, each) = (since.elapsed().as_secs_f64(), schedules as usize);
    eprintln!(
        "{scheme}: {schedules} schedules from seed {seed} in {seconds:.1} s, {:.0} a second, {} steps each; {} \
         commits, {} aborts, {} with cycles",
        schedules as f64 / seconds,
        tally.steps / each,
        tally.commits,
        tally.aborts,
        tally.cycles,
    );
    tally
}

fn any_plan(seed: u64) -> Plan {
    Plan::random(&mut Rng::with_seed(seed))
}

/// Returns the name of the test below.
fn test_of(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::Rc => "schedules_under_rc",
        Scheme::Si => "schedules_under_si",
        Scheme::RcSsn => "schedules_under_rc_ssn",
        Scheme::SiSsn => "schedules_under_si_ssn",
        Scheme::SiSsi => "schedules_under_si_ssi",
        Scheme::MvOcc => "schedules_under_mvocc",
        Scheme::Silo => "schedules_under_silo",
        Scheme::TwoPhaseNoWait => "schedules_under_2pl_nowait",
        Scheme::TwoPhaseWaitDie => "schedules_under_2pl_waitdie",
        Scheme::TwoPhaseWdl => "schedules_under_2pl_wdl",
        Scheme::Serial => "schedules_under_serial",
        Scheme::Sto => "schedules_under_sto",
        Scheme::Sto32 => "schedules_under_sto_32",
        Scheme::Tso => "schedules_under_tso",
        Scheme::TsoValidate => "schedules_under_tso_validate",
        Scheme::Vll => "schedules_under_vll",
        Scheme::Partitioned => "schedules_under_partitioned",
    }
}

/// Explores a weaker scheme: if it must show cycles, it must show them here, or else the other schemes prove nothing.
fn explore_a_weaker(scheme: Scheme) {
    let cycles = explore(scheme).cycles;
    assert!(cycles > 0 || asked_for().is_some(), "no schedule has shown what {scheme} permits");
}

#[test]
fn schedules_under_rc() {
    explore_a_weaker(Scheme::Rc);
}

#[test]
fn schedules_under_si() {
    explore_a_weaker(Scheme::Si);
}

#[test]
fn schedules_under_rc_ssn() {
    explore(Scheme::RcSsn);
}

#[test]
fn schedules_under_si_ssn() {
    explore(Scheme::SiSsn);
}

#[test]
fn schedules_under_si_ssi() {
    explore(Scheme::SiSsi);
}

#[test]
fn schedules_under_mvocc() {
    explore(Scheme::MvOcc);
}

#[test]
fn schedules_under_silo() {
    explore(Scheme::Silo);
}

#[test]
fn schedules_under_2pl_nowait() {
    explore(Scheme::TwoPhaseNoWait);
}

#[test]
fn schedules_under_2pl_waitdie() {
    explore(Scheme::TwoPhaseWaitDie);
}

#[test]
fn schedules_under_2pl_wdl() {
    explore(Scheme::TwoPhaseWdl);
}

#[test]
fn schedules_under_serial() {
    explore(Scheme::Serial);
}

#[test]
fn schedules_under_sto() {
    explore(Scheme::Sto);
}

#[test]
fn schedules_under_sto_32() {
    explore(Scheme::Sto32);
}

#[test]
fn schedules_under_tso() {
    explore(Scheme::Tso);
}

#[test]
fn schedules_under_tso_validate() {
    explore(Scheme::TsoValidate);
}

#[test]
fn schedules_under_vll() {
    explore(Scheme::Vll);
}

#[test]
fn schedules_under_partitioned() {
    explore(Scheme::Partitioned);
}

#[test]
fn a_seed_plays_the_same_again() {
    for scheme in Scheme::ALL {
        for seed in 0..20 {
            let once = || play("a_seed_plays_the_same_again", scheme, seed, 1, any_plan);
            let (first, second) = (once(), once());
            assert_eq!((first.steps, first.commits), (second.steps, second.commits), "seed {seed} under {scheme}");
        }
    }
}

/// A writer that rolls back takes its version out of the row, and then its entry out of the secondary index. A
/// transaction that writes the same value to the row in between finds the entry in place. A scan from before the entry
/// was inserted has not seen it, and has left nothing at the row: only the gap stamp of the leaf records it.
#[test]
fn an_entry_that_an_aborted_writer_leaves_hides_no_scan() {
    let test = "an_entry_that_an_aborted_writer_leaves_hides_no_scan";
    let (first, schedules) = if history::one_seed() { (history::seed(), 1) } else { (0, 3000) };
    for scheme in Scheme::ALL.into_iter().filter(|scheme| scheme.is_serializable()) {
        play(test, scheme, first, schedules, |_| Plan::entry_of_an_aborted_writer());
    }
}

/// Goal: a fault in the engine does not stay hidden. Each of the rules that keep a scheme correct is broken on purpose,
/// one at a time (`--cfg ermine_mutants`), and schedules are played until the judge objects.
#[cfg(ermine_mutants)]
mod faults {
    use super::*;
    use ermine::mutant::Mutant;

    /// Schedules in which a fault must show.
    const SCHEDULES_MAX: u64 = 2_000_000;

    /// Returns the faults, and the schemes whose rules they break.
    fn faults() -> Vec<(Mutant, Vec<Scheme>)> {
        use Scheme::{
            MvOcc, RcSsn, SiSsi, SiSsn, Silo, Sto, Sto32, TsoValidate, TwoPhaseNoWait, TwoPhaseWaitDie, TwoPhaseWdl,
        };
        vec![
            (Mutant::NoTest, vec![RcSsn, SiSsn, SiSsi, MvOcc, Silo]),
            (Mutant::NoRealTime, vec![RcSsn, SiSsn]),
            (Mutant::OldSnapshot, vec![RcSsn, SiSsn, SiSsi]),
            (Mutant::NoLeafValidation, vec![RcSsn, SiSsn, SiSsi, MvOcc, Silo, TwoPhaseNoWait, TwoPhaseWaitDie]),
            (Mutant::NoGapStamp, vec![RcSsn, SiSsn, SiSsi, Sto]),
            (Mutant::NoReaderBit, vec![SiSsn, SiSsi]),
            (Mutant::BitsAfterStamp, vec![RcSsn]),
            (Mutant::StampBeforeMark, vec![SiSsn, MvOcc]),
            (Mutant::SlotBeforeStamps, vec![SiSsn]),
            (Mutant::NoCreator, vec![RcSsn]),
            (Mutant::ReadOnlyAnyway, vec![SiSsn, SiSsi]),
            (Mutant::NoSafeSnapshot, vec![SiSsn, SiSsi]),
            (Mutant::UntrackedSaidLate, vec![SiSsn]),
            (Mutant::NoLockout, vec![SiSsn]),
            (Mutant::NoPush, vec![SiSsn, SiSsi]),
            (Mutant::PushStamp, vec![SiSsn]),
            (Mutant::NoStand, vec![SiSsn]),
            (Mutant::NoLastUntracked, vec![SiSsn, SiSsi]),
            (Mutant::OwnSlotSkipped, vec![SiSsn]),
            (Mutant::LostUpdate, vec![Scheme::Si]),
            (Mutant::DirtyRead, vec![Scheme::Rc]),
            (Mutant::UnlockedEarly, vec![Silo]),
            (Mutant::EntriesNotSettled, vec![Silo]),
            (Mutant::SharedBesideExclusive, vec![TwoPhaseNoWait, TwoPhaseWaitDie, TwoPhaseWdl]),
            (Mutant::NoReadTimestamp, vec![Sto, Sto32]),
            (Mutant::NoSecondLook, vec![Sto]),
            (Mutant::NothingKept, vec![Silo, TwoPhaseNoWait]),
            (Mutant::NoEntryLeft, vec![Silo]),
            (Mutant::UncertifiedError, vec![RcSsn, SiSsn, SiSsi, Silo, TsoValidate]),
            (Mutant::PrepareIgnored, vec![SiSsi, MvOcc]),
            (Mutant::PrepareUnseen, vec![SiSsn, MvOcc]),
            (Mutant::GoneRecordDeclared, vec![Scheme::Vll]),
        ]
    }

    #[test]
    fn every_fault_on_purpose_is_found() {
        let only = std::env::var("ERMINE_TEST_FAULT").ok();
        let pairs =
            faults().into_iter().flat_map(|(fault, schemes)| schemes.into_iter().map(move |scheme| (fault, scheme)));
        let named = pairs.map(|(fault, scheme)| (fault, scheme, format!("{fault:?} under {scheme}")));
        let wanted = named.filter(|(.., name)| only.as_ref().is_none_or(|only| name.starts_with(only.as_str())));
        let (wanted, missed) = (Mutex::new(wanted), Mutex::new(Vec::new()));
        panic::set_hook(Box::new(|_| {}));
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            for _ in 0..processors {
                scope.spawn(|| {
                    let next = || wanted.lock().unwrap().next();
                    while let Some((fault, scheme, name)) = next() {
                        if !is_found(fault, scheme, &name) {
                            missed.lock().unwrap().push(name);
                        }
                    }
                });
            }
        });
        let _ = panic::take_hook();
        let missed = missed.into_inner().unwrap();
        assert!(missed.is_empty(), "not found: {missed:?}");
    }

    fn is_found(fault: Mutant, scheme: Scheme, name: &str) -> bool {
        let (seed, since) = (history::seed(), Instant::now());
        // In a thread of its own: a failed schedule leaves its thread in an undefined state, and the fault is in force
        // for the thread.
        let (found, before) = std::thread::spawn(move || {
            Mutant::choose(Some(fault));
            let schedules = asked_for().unwrap_or(SCHEDULES_MAX);
            let played = panic::catch_unwind(|| play("faults", scheme, seed, schedules, any_plan));
            (played.is_err(), PLAYED.get().map_or(schedules, |played| played.before))
        })
        .join()
        .unwrap();
        let how = if found { "found after" } else { "MISSED in" };
        writeln!(io::stderr(), "{name}: {how} {before} schedules, {:.1} s", since.elapsed().as_secs_f64()).unwrap();
        found
    }
}

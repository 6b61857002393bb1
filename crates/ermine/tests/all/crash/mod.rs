//! Goal: nothing that was acknowledged is ever lost, whatever a crash leaves of the files; and the commits that remain
//! are a prefix of the order of commits, no more and no less.
//!
//! Method. A workload runs in a directory that records every operation ([`faulty`]). For each point between two
//! operations, and for each choice of the unsynced data that survives, the directory is built as a crash may have left
//! it, and a database is opened in it. Its content must be the state after some first commits, all acknowledged ones
//! among them ([`past`]); then it must work on, and be opened again. Recovery is cut short in the same way, operations
//! fail while the workload runs, and bits of files at rest are flipped.
//!
//! The long form takes a quarter of an hour on two cores:
//! `ERMINE_TEST_POINTS=10000 cargo test -p ermine --test all crash:: -- --nocapture`. Each of the two main tests checks
//! that number of crash points, all points of one workload before the next begins; the others check fewer, in
//! proportion, each of which is several crashes.
//!
//! `ERMINE_TEST_SEED=n` runs the workload of a failure again, `ERMINE_TEST_SCHEME=name` those of one scheme,
//! `ERMINE_TEST_TRACE=1` prints all its operations. Threads may take their turns in another order then: so the files on
//! which recovery failed are left in a directory that the message names, and `ERMINE_TEST_FILES` opens them.
//!
//! [`faulty`]: ermine_testing::faulty

mod case;
mod past;
mod tables;
mod workload;

use std::{
    fs,
    sync::{Arc, Mutex},
};

use ermine::{
    Database, Durability, Error, Scheme, TxnOptions,
    files::{Directory, Open},
};
use ermine_testing::faulty::{Attempt, Fault, FaultyDirectory, Keep, Trace};
use fastrand::Rng;

use case::{Case, POINTS, keeps, points, seed};
use past::{Found, Past};
use workload::Setting;

fn open(directory: &FaultyDirectory, setting: &Setting) -> Database {
    try_open(directory, setting).unwrap_or_else(|error| panic!("it does not open: {error}"))
}

fn try_open(directory: &FaultyDirectory, setting: &Setting) -> Result<Database, Error> {
    Database::open_in(Arc::new(directory.clone()), setting.options())
}

/// One database from its beginning to its end, in a directory of its own.
struct Life {
    seed: u64,
    setting: Setting,
    past: Past,
    trace: Trace,
}

impl Life {
    fn run(seed: u64, clients: usize, steps: usize) -> Self {
        let setting = Setting::random(&mut Rng::with_seed(seed), clients, steps);
        let directory = FaultyDirectory::new();
        let _case = Case::new(seed, format!("{setting:?}"), &directory);
        let db = open(&directory, &setting);
        let (past, ended) = workload::run(&db, &directory, &setting, seed, Past::default());
        ended.expect("nothing fails");
        drop(db);
        let trace = directory.trace();
        Self { seed, setting, past, trace }
    }

    /// Opens a database in a directory that a crash has left, and checks its content.
    fn look(&self, directory: &FaultyDirectory, past: &Past, marks: &[u64]) -> (Database, Found) {
        let db = open(directory, &self.setting);
        let found = past.judge(&db, marks).unwrap_or_else(|error| panic!("it cannot be read: {error}"));
        (db, found)
    }

    /// Lets a recovered database work on for a while; returns its whole past.
    fn go_on(&self, db: Database, directory: &FaultyDirectory, found: Found, steps: usize, rng: &mut Rng) -> Past {
        let setting = Setting { clients: 1, steps, ..self.setting.clone() };
        let past = self.past.cut(found, directory);
        let (past, ended) = workload::run(&db, directory, &setting, rng.u64(..), past);
        ended.unwrap_or_else(|error| panic!("after recovery: {error}"));
        drop(db);
        past
    }

    fn case(&self, directory: &FaultyDirectory, what: String) -> Case {
        let (commits, operations) = (self.past.commits(), self.trace.operations());
        let mut what = format!("{:?}, {commits} commits in {operations} operations\n{what}", self.setting);
        if std::env::var_os("ERMINE_TEST_TRACE").is_some() {
            what += &format!("\n{:#?}", self.trace);
        }
        Case::new(self.seed, what, directory)
    }
}

/// Checks the crash points of lives, as many as asked for: all points of one life, in random order, then those of the
/// next.
fn enumerate(otherwise: usize, clients: usize, mut check: impl FnMut(&Life, usize, Keep, &mut Rng)) {
    let mut left = points(otherwise);
    let began = std::time::Instant::now();
    let checked = left;
    while left > 0 {
        let life = Life::run(seed(), clients, 300 / clients);
        let mut rng = Rng::with_seed(life.seed);
        let mut all: Vec<_> =
            (0..=life.trace.operations()).flat_map(|at| keeps(&mut rng).map(|keep| (at, keep))).collect();
        rng.shuffle(&mut all);
        all.truncate(left);
        left -= all.len();
        for (at, keep) in all {
            check(&life, at, keep, &mut rng);
        }
    }
    let took = began.elapsed();
    eprintln!("{checked} points in {took:.1?}, {:.0} a second", checked as f64 / took.as_secs_f64());
}

/// The check that the first test makes at each point.
fn recover_and_go_on(life: &Life, at: usize, keep: Keep, rng: &mut Rng) {
    let directory = life.trace.crash(at, keep);
    let _case = life.case(&directory, format!("crash at {at}, {keep:?}"));
    let (db, found) = life.look(&directory, &life.past, life.trace.marks_before(at));
    let past = life.go_on(db, &directory, found, 6, rng);
    // The database was closed in good order.
    let (db, found) = life.look(&directory, &past, &[]);
    assert_eq!(found, past.whole());
    drop(db);
    // The database might have crashed at any point of this life, too.
    let trace = directory.trace();
    let at = rng.usize(..=trace.operations());
    let keep = keeps(rng)[rng.usize(..6)];
    let again = trace.crash(at, keep);
    let _case = life.case(&again, format!("a second crash, at {at}, {keep:?}"));
    life.look(&again, &past, trace.marks_before(at));
}

#[test]
fn what_one_client_was_told_survives_every_crash() {
    enumerate(POINTS, 1, recover_and_go_on);
}

#[test]
fn what_three_clients_were_told_survives_every_crash() {
    enumerate(POINTS, 3, recover_and_go_on);
}

#[test]
fn a_recovery_that_crashes_is_begun_again() {
    enumerate(25, 2, |life, at, keep, rng| {
        let directory = life.trace.crash(at, keep);
        let _case = life.case(&directory, format!("crash at {at}, {keep:?}"));
        let (db, found) = life.look(&directory, &life.past, life.trace.marks_before(at));
        drop(db);
        let recovery = directory.trace();
        for again_at in 0..=recovery.operations() {
            for again_keep in keeps(rng) {
                let again = recovery.crash(again_at, again_keep);
                let _case = life.case(
                    &again,
                    format!("crash at {at}, {keep:?}, and of its recovery at {again_at}, {again_keep:?}: {recovery:?}"),
                );
                let (_, found_again) = life.look(&again, &life.past, &[]);
                assert_eq!(found_again, found, "another recovery finds the same");
            }
        }
    });
}

#[test]
fn a_process_that_is_killed_leaves_a_device_that_lags_behind() {
    enumerate(40, 2, |life, at, _, rng| {
        let directory = life.trace.kill(at);
        let _case = life.case(&directory, format!("killed at {at}"));
        let (db, found) = life.look(&directory, &life.past, life.trace.marks_before(at));
        let past = life.go_on(db, &directory, found, 3, rng);
        // Then the power fails.
        let trace = directory.trace();
        for _ in 0..3 {
            let then_at = rng.usize(at..=trace.operations());
            for keep in keeps(rng) {
                let then = trace.crash(then_at, keep);
                let _case = life.case(&then, format!("killed at {at}, crash at {then_at}, {keep:?}"));
                life.look(&then, &past, trace.marks_before(then_at));
            }
        }
    });
}

#[test]
fn many_lives_end_in_crashes() {
    enumerate(20, 2, |life, at, keep, rng| {
        let mut directory = life.trace.crash(at, keep);
        let mut marks = life.trace.marks_before(at).to_vec();
        let mut past = life.past.clone();
        for number in 0..5 {
            let _case = life.case(&directory, format!("crash at {at}, {keep:?}, life {number}"));
            let (db, found) = life.look(&directory, &past, &marks);
            let setting = Setting { clients: rng.usize(1..=3), steps: 20, ..life.setting.clone() };
            let (next, ended) = workload::run(&db, &directory, &setting, rng.u64(..), past.cut(found, &directory));
            ended.unwrap_or_else(|error| panic!("after recovery: {error}"));
            drop(db);
            let trace = directory.trace();
            let next_at = rng.usize(..=trace.operations());
            directory = trace.crash(next_at, keeps(rng)[rng.usize(..6)]);
            marks = trace.marks_before(next_at).to_vec();
            past = next;
        }
    });
}

/// Whether a failure of this attempt makes the log untrustworthy. Names are synced for other files, too. If the device
/// is full, the log waits and tries again.
fn breaks_the_log(attempt: Attempt<'_>, fault: Fault) -> bool {
    let is_full = matches!(fault, Fault::NoSpace | Fault::Short(_));
    match attempt {
        // The sync of a segment that is being made is tried again, too.
        _ if is_full => false,
        Attempt::Create(name) | Attempt::Write { name, .. } | Attempt::SetLength { name, .. } | Attempt::Sync(name) => {
            ["log-", "redo-", "pepoch-"].iter().any(|prefix| name.starts_with(prefix))
        }
        Attempt::Rename { .. } | Attempt::Remove(_) | Attempt::SyncDirectory => false,
    }
}

#[test]
fn operations_that_fail_end_all_acknowledgements() {
    enumerate(30, 2, |life, at, keep, rng| {
        let fault = match rng.u8(..4) {
            0 => Fault::NoSpace,
            1 => Fault::Short(rng.usize(..600)),
            2 => Fault::Broken,
            _ => Fault::Gone,
        };
        let setting = Setting { clients: rng.usize(1..=2), steps: 150, heavy: rng.bool(), ..life.setting.clone() };
        // So that in most cases further operations follow it.
        let at = at % 300;
        let directory = FaultyDirectory::new();
        let struck = Arc::new(Mutex::new(None));
        let strike = struck.clone();
        directory.fail_when(move |number, attempt| {
            (number == at).then(|| {
                *strike.lock().unwrap() = Some(breaks_the_log(attempt, fault));
                fault
            })
        });
        let _case = life.case(&directory, format!("{setting:?}, {fault:?} at {at}, crash {keep:?}"));
        let Ok(db) = try_open(&directory, &setting) else {
            assert!(struck.lock().unwrap().is_some(), "it does not open");
            return;
        };
        let (past, ended) = workload::run(&db, &directory, &setting, rng.u64(..), Past::default());
        let broken = *struck.lock().unwrap();
        if broken == Some(true) {
            for _ in 0..2 {
                let probe = db.table::<u64, u64>("probe");
                assert!(matches!(&probe, Err(Error::Poisoned(why)) if why.contains("(memory)")), "{:?}", probe.err());
            }
        }
        if let Err(error) = ended {
            let is_told = match &error {
                Error::Poisoned(why) => broken.is_some() && why.contains("(memory)"),
                // The commit failed before anything of the transaction counted; the next one may find room.
                Error::DiskFull(why) => broken == Some(false) && why.contains("(memory)"),
                _ => false,
            };
            assert!(is_told, "{error:?}");
        }
        drop(db);
        if struck.lock().unwrap().is_none() {
            return;
        }
        let trace = directory.trace();
        for _ in 0..4 {
            let then_at = rng.usize(at.min(trace.operations())..=trace.operations());
            for keep in keeps(rng) {
                let then = trace.crash(then_at, keep);
                let _case = life.case(&then, format!("{fault:?} at {at}, crash at {then_at}, {keep:?}: {trace:?}"));
                life.look(&then, &past, trace.marks_before(then_at));
            }
        }
        if fault == Fault::Gone {
            return;
        }
        // The machine keeps running: data read from its cache after a failed sync may not be on the device.
        let _case = life.case(&directory, format!("{fault:?} at {at}, opened again"));
        let (db, found) = life.look(&directory, &past, trace.marks_before(trace.operations()));
        let from = directory.operations();
        let past = past.cut(found, &directory);
        let (past, ended) = workload::run(&db, &directory, &Setting { steps: 5, ..setting }, rng.u64(..), past);
        ended.unwrap_or_else(|error| panic!("after recovery: {error}"));
        drop(db);
        let trace = directory.trace();
        for _ in 0..3 {
            let then_at = rng.usize(from..=trace.operations());
            for keep in keeps(rng) {
                let then = trace.crash(then_at, keep);
                let _case = life
                    .case(&then, format!("{fault:?} at {at}, opened again, crash at {then_at}, {keep:?}: {trace:?}"));
                life.look(&then, &past, trace.marks_before(then_at));
            }
        }
    });
}

#[test]
fn a_database_is_opened_any_number_of_times() {
    open_many_times(Scheme::Si, "log-", 16);
    // Each opening adds a file, until a database with sixteen of them is closed in good order; a checkpoint in the
    // background can leave that one with fewer.
    open_many_times(Scheme::Silo, "redo-", 16 + 25);
}

fn open_many_times(scheme: Scheme, prefix: &str, files: usize) {
    let setting = Setting { scheme, ..Setting::random(&mut Rng::with_seed(1), 1, 0) };
    let mut directory = FaultyDirectory::new();
    for turn in 0..60 {
        let db = open(&directory, &setting);
        let table = db.table::<u64, u64>("turns").unwrap();
        db.run(|txn| txn.insert(&table, &turn, &turn)).unwrap();
        // Most of the databases crash at once, before a checkpoint can have been made.
        let crashed = directory.trace();
        assert_eq!(db.run(|txn| txn.scan(&table, ..).collect()).unwrap().len() as u64, turn + 1);
        drop(db);
        if turn % 25 != 24 {
            directory = crashed.crash(crashed.operations(), Keep::Nothing);
        }
    }
    let names = directory.list().unwrap();
    assert!(names.iter().filter(|name| name.starts_with(prefix)).count() < files, "{names:?}");
}

#[test]
fn a_full_buffer_stops_nobody() {
    let setting = Setting::random(&mut Rng::with_seed(1), 8, 0);
    let directory = FaultyDirectory::new();
    let db = open(&directory, &setting);
    let table = db.table::<u64, Vec<u8>>("large").unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (db, table) = (&db, &table);
            scope.spawn(move || {
                let options = TxnOptions::default().durability(Durability::Async);
                for turn in 0..400u64 {
                    let rows = turn % 4;
                    let write = |txn: &ermine::Transaction<'_>| {
                        (0..rows).try_for_each(|row| txn.put(table, &(thread * 10 + row), &vec![turn as u8; 5000]))
                    };
                    db.run_with(options.clone(), write).unwrap();
                }
            });
        }
    });
}

#[test]
fn a_flipped_bit_is_found_or_harmless() {
    let mut found_out = [0; 2];
    enumerate(300, 1, |life, _, _, rng| {
        let directory = life.trace.crash(life.trace.operations(), Keep::Everything);
        let length = |name: &String| directory.open(name, Open::Read).unwrap().length().unwrap();
        let mut names = directory.list().unwrap();
        names.retain(|name| length(name) > 0);
        let name = &names[rng.usize(..names.len())];
        let (offset, bit) = (rng.u64(..length(name)), rng.u8(..8));
        directory.flip(name, offset, bit).unwrap();
        let _case = life.case(&directory, format!("bit {bit} of byte {offset} of {name}"));
        let found = try_open(&directory, &life.setting).and_then(|db| life.past.judge(&db, &[]));
        match found {
            Err(Error::Corrupt { file, offset: at, .. }) => {
                assert_eq!(file, *name);
                assert!(at <= offset, "it is named at or before the damage, at the beginning of a block");
                found_out[0] += 1;
            }
            // Its label is no label any more: the file is refused by name.
            Err(Error::Storage(what)) if what.starts_with(&**name) => found_out[0] += 1,
            Err(error) => panic!("{error}"),
            Ok(found) => {
                assert_eq!(found, life.past.whole(), "it was closed in good order");
                found_out[1] += 1;
            }
        }
    });
    eprintln!("{found_out:?} flips were found out, and did no harm");
    assert!(found_out[0] > 0);
}

/// Opens the files that a failure has left: `ERMINE_TEST_FILES=directory cargo test --test all crash:: -- --ignored`.
#[test]
#[ignore = "for the files of a failure"]
fn files_that_a_failure_left() {
    let from = std::env::var_os("ERMINE_TEST_FILES").expect("ERMINE_TEST_FILES names a directory");
    let directory = FaultyDirectory::new();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let file = directory.open(entry.file_name().to_str().unwrap(), Open::Create).unwrap();
        file.write_at(0, &fs::read(entry.path()).unwrap()).unwrap();
    }
    directory.settle();
    let db = open(&directory, &Setting::random(&mut Rng::with_seed(0), 1, 0));
    eprintln!("{:?}", db.recovery());
    for table in 0..db.recovery().tables as usize {
        let opened = workload::Opened::open(&db, table).unwrap();
        eprintln!("table {table}: {} rows", past::check_table(&db, &opened).unwrap().len());
    }
    drop(db);
    eprintln!("{:?}", directory.trace());
}

//! Backups, archives, restores and verification: a copy has every acknowledged commit, a restore to a place has exactly
//! the commits up to it, half a copy is never taken for a database, and every flipped bit that counts is reported.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use ermine::{
    Database, Durability, Error, Options, SecondaryIndex, Table, TxnOptions, Uniqueness, Until,
    files::{Directory, Open},
    restore_in, verify_in,
};
use ermine_testing::faulty::{Attempt, Fault, FaultyDirectory, Keep};

type Rows = Table<u64, Vec<u8>>;
type ByFirst = SecondaryIndex<u8, u64, Vec<u8>>;
type State = BTreeMap<u64, Vec<u8>>;

fn options() -> Options {
    Options::default().log_buffer_bytes(64 << 10).segment_bytes(64 << 10)
}

fn archiving(archive: &FaultyDirectory) -> Options {
    let mut options = options();
    options.archive_in = Some(Arc::new(archive.clone()));
    options
}

fn open(directory: &FaultyDirectory, options: Options) -> (Database, Rows, ByFirst) {
    let db = Database::open_in(Arc::new(directory.clone()), options).unwrap();
    let rows = db.table("rows").unwrap();
    let index = db
        .index(&rows, "by first", Uniqueness::NonUnique, |_: &u64, value: &[u8]| value.first().copied().unwrap_or(0))
        .unwrap();
    (db, rows, index)
}

fn content(directory: &FaultyDirectory) -> State {
    let (db, rows, index) = open(directory, options());
    let all: State = db.run(|txn| txn.scan(&rows, ..).collect()).unwrap().into_iter().collect();
    let by_first: State = db.run(|txn| txn.scan_by(&index, ..).collect()).unwrap().into_iter().collect();
    assert_eq!(all, by_first);
    all
}

/// A database with an archive, a backup in the middle, and the state after every commit.
struct Past {
    directory: FaultyDirectory,
    archive: FaultyDirectory,
    backup: FaultyDirectory,
    /// By place in the log.
    states: Vec<(u64, State)>,
    /// The time at which each of them was acknowledged.
    acknowledged: Vec<SystemTime>,
    /// Number of states when the backup was made.
    backed_up: usize,
    from_lsn: u64,
}

impl Past {
    fn new(seed: u64, commits: usize) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let (directory, archive, backup) = (FaultyDirectory::new(), FaultyDirectory::new(), FaultyDirectory::new());
        let mut past = Self {
            directory,
            archive,
            backup,
            states: Vec::new(),
            acknowledged: Vec::new(),
            backed_up: 0,
            from_lsn: 0,
        };
        let mut state = State::new();
        for part in 0..4 {
            let (db, rows, _) = open(&past.directory, archiving(&past.archive));
            for turn in 0..commits / 4 {
                past.commit(&db, &rows, &mut state, &mut random);
                if turn % 150 == 100 {
                    db.checkpoint().unwrap();
                }
                if part == 1 && turn == commits / 8 {
                    past.from_lsn = db.backup_in(&past.backup).unwrap().from_lsn;
                    past.backed_up = past.states.len();
                }
                if turn % 170 == 60 {
                    db.archive_now().unwrap();
                }
            }
            assert_eq!(db.statistics().checkpoint_failure, None);
        }
        past
    }

    fn commit(&mut self, db: &Database, rows: &Rows, state: &mut State, random: &mut fastrand::Rng) {
        let txn = db.begin(TxnOptions::default()).unwrap();
        for _ in 0..random.usize(1..4) {
            let key = random.u64(..60);
            if random.u8(..5) == 0 {
                txn.delete(rows, &key).unwrap();
                state.remove(&key);
            } else {
                // Some of them are large values, which have files of their own.
                let length = if random.u8(..20) == 0 { 9000 } else { random.usize(1..900) };
                let value = vec![random.u8(..); length];
                txn.put(rows, &key, value.as_slice()).unwrap();
                state.insert(key, value);
            }
        }
        let stamp = txn.commit().unwrap();
        self.acknowledged.push(SystemTime::now());
        self.states.push((stamp.as_u64(), state.clone()));
    }

    fn restore(&self, until: Until) -> Result<(FaultyDirectory, ermine::RestoreReport), Error> {
        restore(&self.backup, Some(&self.archive), until)
    }

    /// Returns the state after the commits up to an LSN.
    fn at(&self, lsn: u64) -> State {
        let commits = self.states.partition_point(|(stamp, _)| *stamp <= lsn);
        commits.checked_sub(1).map_or(State::new(), |last| self.states[last].1.clone())
    }
}

fn restore(
    backup: &FaultyDirectory,
    archive: Option<&FaultyDirectory>,
    until: Until,
) -> Result<(FaultyDirectory, ermine::RestoreReport), Error> {
    let target = FaultyDirectory::new();
    let of = |directory: &FaultyDirectory| Arc::new(directory.clone()) as Arc<dyn Directory>;
    let report = restore_in(&of(backup), archive.map(of).as_ref(), &of(&target), until, &mut |_| ())?;
    Ok((target, report))
}

fn verify(directory: &FaultyDirectory) -> ermine::Verification {
    verify_in(&(Arc::new(directory.clone()) as Arc<dyn Directory>), &Options::default(), &mut |_| ()).unwrap()
}

fn assert_right(directory: &FaultyDirectory, what: &str) {
    let verification = verify(directory);
    assert!(verification.is_right() && verification.not_checked.is_empty(), "{what}: {verification:?}");
    assert_eq!(verification.torn, None, "{what}");
}

#[test]
fn a_backup_under_way_with_writers_and_checkpoints_has_what_was_acknowledged() {
    let directory = FaultyDirectory::new();
    let (db, rows, index) = open(&directory, options().durability(Durability::Async).checkpoint_after(200 << 10));
    let (done, acknowledged) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; 3]);
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let (db, rows, done, acknowledged) = (&db, &rows, &done, &acknowledged[thread as usize]);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread);
                for turn in 1u64.. {
                    if done.load(Ordering::Relaxed) {
                        return;
                    }
                    // Two rows that are always equal, and a counter.
                    let key = 3 * random.u64(..100) + thread;
                    let length = if turn % 50 == 0 { 9000 } else { random.usize(1..300) };
                    let value = [vec![random.u8(..); length], turn.to_le_bytes().to_vec()].concat();
                    db.run(|txn| {
                        txn.put(rows, &(100_000 + thread), &turn.to_le_bytes()[..])?;
                        if turn % 7 == 0 {
                            txn.delete(rows, &key)?;
                            return txn.delete(rows, &(key + 10_000)).map(drop);
                        }
                        txn.put(rows, &key, value.as_slice())?;
                        txn.put(rows, &(key + 10_000), value.as_slice())
                    })
                    .unwrap();
                    acknowledged.store(turn, Ordering::SeqCst);
                }
            });
        }
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                db.checkpoint().unwrap();
            }
        });
        let mut backups = Vec::new();
        for _ in 0..6 {
            std::thread::sleep(Duration::from_millis(60));
            let before = acknowledged.each_ref().map(|turn| turn.load(Ordering::SeqCst));
            let backup = FaultyDirectory::new();
            let report = db.backup_in(&backup).unwrap();
            assert!(report.from_lsn <= report.to_lsn && report.bytes > 0);
            backups.push((before, backup));
        }
        done.store(true, Ordering::Relaxed);
        for (number, (before, backup)) in backups.into_iter().enumerate() {
            // The backup as a crash of the machine leaves it right after the call.
            let backup = backup.trace().crash(backup.operations(), Keep::Nothing);
            assert_right(&backup, &format!("backup {number}"));
            let found = content(&backup);
            for (thread, before) in (0..3u64).zip(before) {
                let count = found
                    .get(&(100_000 + thread))
                    .map_or(0, |turn| u64::from_le_bytes(turn.as_slice().try_into().unwrap()));
                assert!(count >= before, "backup {number}: {count} of {before}");
            }
            for (key, value) in found.range(..10_000) {
                assert_eq!(found.get(&(key + 10_000)), Some(value), "half a transaction");
            }
            let doubles = found.range(10_000..100_000).count();
            assert_eq!(doubles, found.range(..10_000).count());
        }
    });
    // The removals that were put off have been done.
    db.checkpoint().unwrap();
    let markers = directory.list().unwrap().iter().filter(|name| name.starts_with("marker-")).count();
    assert_eq!(markers, 1);
    drop((db, rows, index));
    assert_right(&directory, "the database");
}

#[test]
fn a_backup_that_fails_or_is_told_to_end_leaves_nothing() {
    let path = std::env::temp_dir().join(format!("ermine-backup-ended-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    let db = Database::open(path.join("db"), options()).unwrap();
    let rows: Rows = db.table("rows").unwrap();
    for key in 0..500 {
        db.run(|txn| txn.put(&rows, &key, &[7; 900][..])).unwrap();
    }
    let left = || std::fs::read_dir(path.join("copy")).unwrap().count();
    let mut steps = 0;
    db.backup_with(path.join("whole"), &mut |_| {
        steps += 1;
        Ok(())
    })
    .unwrap();
    assert!(steps > 5, "{steps} steps");
    for last in 0..steps {
        let mut step = 0;
        let ended = db.backup_with(path.join("copy"), &mut |_| {
            step += 1;
            if step > last { Err(Error::other("enough")) } else { Ok(()) }
        });
        // Later backups need fewer steps, because the checkpoint exists.
        if ended.is_ok() {
            std::fs::remove_dir_all(path.join("copy")).unwrap();
            break;
        }
        assert_eq!(ended.unwrap_err().to_string(), "enough");
        assert_eq!(left(), 0, "after {last} steps");
    }
    // A full device does not leave half a copy behind, and the next attempt works.
    let full = FaultyDirectory::new();
    full.fail_when(|_, attempt| matches!(attempt, Attempt::Write { offset: 1.., .. }).then_some(Fault::NoSpace));
    assert!(db.backup_in(&full).is_err());
    assert_eq!(full.list().unwrap(), Vec::<String>::new());
    full.fail_when(|_, _| None);
    db.backup_in(&full).unwrap();
    drop((db, rows));
    let copy = Database::open_in(Arc::new(full), options()).unwrap();
    let rows: Rows = copy.table("rows").unwrap();
    assert_eq!(copy.run(|txn| txn.scan(&rows, ..).collect()).unwrap().len(), 500);
    std::fs::remove_dir_all(path).unwrap();
}

#[test]
fn a_restore_to_an_lsn_has_exactly_the_commits_up_to_it() {
    for seed in 0..3 {
        let past = Past::new(seed, 2000);
        let segments = past.archive.list().unwrap().iter().filter(|name| name.starts_with("log-")).count();
        assert!(segments > 8, "{segments} segments are archived");
        let mut random = fastrand::Rng::with_seed(seed);
        let first = past.states.partition_point(|(stamp, _)| *stamp < past.from_lsn);
        for turn in 0..25 {
            let commit = match turn {
                0 => first,
                1 => past.states.len() - 1,
                _ => random.usize(first..past.states.len()),
            };
            let (lsn, state) = &past.states[commit];
            let between = if random.bool() { 0 } else { 15 };
            let (restored, report) = past.restore(Until::Lsn(lsn + between)).unwrap();
            assert!(report.lsn > *lsn);
            assert_right(&restored, &format!("seed {seed}, commit {commit}"));
            assert_eq!(&content(&restored), state, "seed {seed}, commit {commit}");
            // The cut is permanent, and the database goes on.
            let (db, rows, _) = open(&restored, options());
            db.run(|txn| txn.put(&rows, &1000, &b"new"[..])).unwrap();
            drop(db);
            let mut more = state.clone();
            more.insert(1000, b"new".to_vec());
            assert_eq!(content(&restored), more);
        }
        let (restored, _) = past.restore(Until::End).unwrap();
        assert_eq!(content(&restored), past.states[past.states.len() - 1].1, "seed {seed}: to the end");
        let (restored, report) = restore(&past.backup, None, Until::End).unwrap();
        assert_eq!(content(&restored), past.states[past.backed_up - 1].1, "seed {seed}: without archive");
        assert_eq!(report.archived_segments, 0);
        assert_eq!(content(&past.backup), past.states[past.backed_up - 1].1, "seed {seed}: the backup itself");
    }
}

#[test]
fn a_restore_to_a_moment_has_what_was_acknowledged_well_before_and_nothing_later() {
    let (directory, archive, backup) = (FaultyDirectory::new(), FaultyDirectory::new(), FaultyDirectory::new());
    let mut past =
        Past { directory, archive, backup, states: Vec::new(), acknowledged: Vec::new(), backed_up: 0, from_lsn: 0 };
    let (mut state, mut random) = (State::new(), fastrand::Rng::with_seed(9));
    let (db, rows, _) = open(&past.directory, archiving(&past.archive));
    let mut began = Vec::new();
    for burst in 0..12 {
        for _ in 0..60 {
            began.push(SystemTime::now());
            past.commit(&db, &rows, &mut state, &mut random);
        }
        if burst == 2 {
            db.backup_in(&past.backup).unwrap();
            past.backed_up = past.states.len();
        }
        std::thread::sleep(Duration::from_millis(30));
    }
    let ended = SystemTime::now();
    drop((db, rows));
    let (mut late, mut advanced, mut moments) = (0, 0, Vec::new());
    for turn in 0..30 {
        let commit = random.usize(past.backed_up + 60..past.states.len());
        let moment = (past.acknowledged[commit] + Duration::from_millis(random.u64(..40))).min(ended);
        let (restored, report) = past.restore(Until::Time(moment)).unwrap();
        assert!(report.moment.is_some_and(|noted| noted <= moment));
        let found = content(&restored);
        let commits = past.states.partition_point(|(stamp, _)| *stamp < report.lsn);
        assert_eq!(found, past.states[commits - 1].1, "turn {turn}");
        // Everything that was acknowledged before the moment that was noted.
        let noted = report.moment.unwrap();
        let least = past.acknowledged.partition_point(|acknowledged| *acknowledged < noted);
        assert!(commits >= least, "turn {turn}: {commits} commits of {least}");
        // Nothing that began later, unless the thread that noted the moment lost its processor just then.
        late += u32::from(commits > began.partition_point(|began| *began <= moment));
        advanced += u32::from(commits > past.backed_up);
        moments.push((moment, noted));
    }
    // Each restore goes as far as it may.
    for (moment, noted) in &moments {
        assert!(moments.iter().all(|(_, other)| other <= noted || other > moment), "{noted:?} for {moment:?}");
    }
    assert!(late < 15 && advanced > 0, "{late} turns had later commits, {advanced} more than the backup");
    let early = past.restore(Until::Time(past.acknowledged[0] - Duration::from_secs(1))).unwrap_err();
    let Error::TooEarly { moment: Some(earliest), .. } = early else { panic!("{early}") };
    past.restore(Until::Time(earliest)).unwrap();
    let beyond = past.restore(Until::Time(SystemTime::now() + Duration::from_secs(3600))).unwrap_err();
    assert!(beyond.to_string().contains("before the moment that was asked for"), "{beyond}");
}

#[test]
fn what_cannot_be_restored_is_told() {
    let past = Past::new(7, 1600);
    let last = past.states[past.states.len() - 1].0;
    assert!(matches!(past.restore(Until::Lsn(16)), Err(Error::TooEarly { .. })));
    assert!(matches!(past.restore(Until::Lsn(past.from_lsn - 16)), Err(Error::TooEarly { .. })));
    let beyond = past.restore(Until::Lsn(last + (1 << 30))).unwrap_err();
    assert!(beyond.to_string().contains("ends at LSN"), "{beyond}");
    // A segment in the middle is lost: restores to places before it still work.
    let mut names: Vec<_> = past.archive.list().unwrap().into_iter().filter(|name| name.starts_with("log-")).collect();
    names.sort();
    let middle = names.iter().position(|name| {
        let start = u64::from_str_radix(&name[21..37], 16).unwrap();
        past.states.iter().filter(|(stamp, _)| *stamp >= past.from_lsn && *stamp < start).count() > 300
    });
    let lost = &names[middle.unwrap()];
    past.archive.lose(lost).unwrap();
    for until in [Until::End, Until::Lsn(last), Until::Time(SystemTime::now())] {
        let missing = past.restore(until).unwrap_err();
        assert!(missing.to_string().contains(&lost[4..20]), "{missing}");
    }
    let start = u64::from_str_radix(&lost[21..37], 16).unwrap();
    let before = past.states.partition_point(|(stamp, _)| *stamp < start);
    let (restored, _) = past.restore(Until::Lsn(past.states[before - 10].0)).unwrap();
    assert_eq!(content(&restored), past.at(past.states[before - 10].0));
    // A backup into a directory that is not empty, and an archive for a database that names none.
    let (db, ..) = open(&past.directory, options());
    assert!(db.backup_in(&past.backup).unwrap_err().to_string().contains("not empty"));
    assert!(matches!(db.archive_now(), Err(Error::Options(_))));
    let in_memory = Database::open_in_memory(Options::default()).unwrap();
    assert!(matches!(in_memory.backup_in(&FaultyDirectory::new()), Err(Error::Options(_))));
}

#[test]
fn half_a_backup_is_not_taken_for_one_and_harms_nothing() {
    let directory = FaultyDirectory::new();
    let (db, rows, _) = open(&directory, options());
    for key in 0..200u64 {
        let value = vec![1; if key % 40 == 0 { 9000 } else { 300 }];
        db.run(|txn| txn.put(&rows, &key, value.as_slice())).unwrap();
    }
    let expected: State = db.run(|txn| txn.scan(&rows, ..).collect()).unwrap().into_iter().collect();
    let whole = FaultyDirectory::new();
    db.backup_in(&whole).unwrap();
    let operations = whole.operations();
    assert!(operations > 10);
    for at in 0..operations {
        for fault in [Fault::NoSpace, Fault::Gone] {
            let backup = FaultyDirectory::new();
            backup.fail_at(at, fault);
            assert!(db.backup_in(&backup).is_err(), "{at} {fault:?}");
            for keep in [Keep::Everything, Keep::Nothing, Keep::Random(at as u64)] {
                let left = backup.trace().crash(backup.operations(), keep);
                let names = left.list().unwrap();
                match Database::open_in(Arc::new(left.clone()), options()) {
                    Ok(opened) => {
                        drop(opened);
                        // The copy is complete except for the last sync, or all of it was removed.
                        assert!(names.is_empty() || content(&left) == expected, "{at} {fault:?} {keep:?}: {names:?}");
                    }
                    Err(error) => assert!(error.to_string().contains("broken off"), "{error}"),
                }
            }
        }
    }
    db.run(|txn| txn.put(&rows, &1000, &b"still works"[..])).unwrap();
    db.checkpoint().unwrap();
    let markers = directory.list().unwrap().iter().filter(|name| name.starts_with("marker-")).count();
    assert_eq!(markers, 1, "a hold is left");
}

#[test]
fn half_a_restore_is_not_taken_for_one() {
    let past = Past::new(5, 1200);
    let (until, state) = (Until::Lsn(past.states[past.states.len() - 50].0), &past.states[past.states.len() - 50].1);
    let operations = past.restore(until).unwrap().0.operations();
    let of = |directory: &FaultyDirectory| Arc::new(directory.clone()) as Arc<dyn Directory>;
    let mut random = fastrand::Rng::with_seed(1);
    for at in (0..12).map(|_| random.usize(..operations)).chain(operations - 12..operations) {
        let target = FaultyDirectory::new();
        target.fail_at(at, Fault::Gone);
        let done = restore_in(&of(&past.backup), Some(&of(&past.archive)), &of(&target), until, &mut |_| ());
        assert!(done.is_err());
        let left = target.trace().crash(target.operations(), Keep::Random(at as u64));
        let names = left.list().unwrap();
        match Database::open_in(Arc::new(left.clone()), options()) {
            Ok(opened) => {
                drop(opened);
                assert!(names.is_empty() || content(&left) == *state, "{at}: {names:?}");
            }
            Err(error) => assert!(error.to_string().contains("broken off"), "{error}"),
        }
    }
}

#[test]
fn a_segment_that_cannot_be_archived_stays() {
    let (directory, archive) = (FaultyDirectory::new(), FaultyDirectory::new());
    let (db, rows, _) = open(&directory, archiving(&archive));
    archive.fail_when(|_, attempt| matches!(attempt, Attempt::Write { .. }).then_some(Fault::NoSpace));
    let mut random = fastrand::Rng::with_seed(1);
    let mut state = State::new();
    let mut write = |db: &Database, rows: &Rows| {
        for _ in 0..800 {
            let (key, value) = (random.u64(..50), vec![random.u8(..); 600]);
            db.run(|txn| txn.put(rows, &key, value.as_slice())).unwrap();
            state.insert(key, value);
        }
        state.clone()
    };
    let segments = || directory.list().unwrap().iter().filter(|name| name.starts_with("log-")).count();
    write(&db, &rows);
    db.checkpoint().unwrap();
    let failure = db.statistics().checkpoint_failure.unwrap();
    assert!(failure.contains("cannot write"), "{failure}");
    let kept = segments();
    assert!(kept > 6, "{kept}");
    // Another process finds the files, and meets the same errors.
    drop((db, rows));
    let (db, rows, _) = open(&directory, archiving(&archive));
    assert!(segments() >= kept && db.statistics().checkpoint_failure.is_some());
    archive.fail_when(|_, _| None);
    let state = write(&db, &rows);
    db.checkpoint().unwrap();
    assert_eq!(db.statistics().checkpoint_failure, None);
    assert!(segments() < 6);
    let backup = FaultyDirectory::new();
    db.backup_in(&backup).unwrap();
    drop((db, rows));
    let (restored, _) = restore(&backup, Some(&archive), Until::End).unwrap();
    assert_eq!(content(&restored), state);
    // From the very beginning: an empty directory and the whole log.
    let (restored, report) = restore(&FaultyDirectory::new(), Some(&archive), Until::End).unwrap();
    assert_eq!(content(&restored), state);
    let (restored, _) = restore(&FaultyDirectory::new(), Some(&archive), Until::Lsn(report.lsn / 2)).unwrap();
    // A restored database does not write into the archive of the database that it comes from.
    let (db, rows, _) = open(&restored, archiving(&archive));
    for _ in 0..2 {
        for key in 0..800u64 {
            db.run(|txn| txn.put(&rows, &(key % 50), &[3; 700][..])).unwrap();
        }
        db.checkpoint().unwrap();
    }
    let failure = db.statistics().checkpoint_failure.unwrap_or_default();
    assert!(failure.contains("needs an archive of its own"), "{failure}");
}

/// Returns a database at rest with all kinds of files.
fn at_rest() -> FaultyDirectory {
    let directory = FaultyDirectory::new();
    let mut random = fastrand::Rng::with_seed(2);
    for _ in 0..2 {
        let (db, rows, _) = open(&directory, options());
        for round in 0..3 {
            for _ in 0..400 {
                let key = random.u64(..300);
                let length = if random.u8(..40) == 0 { 9000 } else { random.usize(1..500) };
                db.run(|txn| txn.put(&rows, &key, vec![random.u8(..); length].as_slice())).unwrap();
            }
            if round < 2 {
                db.checkpoint().unwrap();
            }
        }
    }
    directory.settle();
    directory
}

fn copy(directory: &FaultyDirectory) -> FaultyDirectory {
    directory.trace().crash(0, Keep::Everything)
}

#[test]
fn every_flipped_bit_that_counts_is_found() {
    let directory = at_rest();
    assert_right(&directory, "undamaged");
    let verification = verify(&directory);
    assert_eq!((verification.tables, verification.entries), (1, verification.rows));
    let before = content(&copy(&directory));
    assert_eq!(verification.rows, before.len() as u64);
    let names = directory.list().unwrap();
    for prefix in ["log-", "checkpoint-", "cold-", "blob-", "marker-"] {
        assert!(names.iter().any(|name| name.starts_with(prefix)), "{prefix} {names:?}");
    }
    let mut random = fastrand::Rng::with_seed(3);
    let mut quiet = 0;
    for name in names.iter().filter(|name| *name != "LOCK") {
        let length = directory.open(name, Open::Read).unwrap().length().unwrap();
        for _ in 0..if length == 0 { 0 } else { 40 } {
            let damaged = copy(&directory);
            let (offset, bit) = (random.u64(..length), random.u8(..8));
            damaged.flip(name, offset, bit).unwrap();
            let verification = verify(&damaged);
            assert_eq!(damaged.operations(), 0, "it changes nothing");
            if verification.is_right() && verification.torn.is_none() {
                // The flipped bit lies in what a skip covers, behind the end of the log, or in a value that is no
                // longer referenced: nothing is lost.
                quiet += 1;
                assert!(!name.starts_with("checkpoint-") && !name.starts_with("cold-"), "{name} {offset} {bit}");
                assert_eq!(content(&damaged), before, "{name} {offset} {bit}");
            } else if let Some(finding) = verification.findings.first() {
                assert!(!finding.file.is_empty(), "{name} {offset} {bit}: {finding:?}");
            }
        }
    }
    println!("{quiet} flips are of no consequence");
    for name in names.iter().filter(|name| *name != "LOCK") {
        let damaged = copy(&directory);
        damaged.lose(name).unwrap();
        let verification = verify_in(&(Arc::new(damaged) as Arc<dyn Directory>), &Options::default(), &mut |_| ());
        let Ok(verification) = verification else { continue };
        // Neither the last segment is missed, nor a large value that was replaced since the checkpoint.
        if verification.is_right() {
            let last = names.iter().filter(|name| name.starts_with("log-")).max().unwrap();
            let is_spare = ["blob-", "heads-", "RESERVE"].iter().any(|prefix| name.starts_with(prefix));
            assert!(name == last || is_spare, "{name} is not missed");
        }
    }
}

#[test]
fn a_torn_tail_is_no_damage() {
    let directory = FaultyDirectory::new();
    {
        let (db, rows, _) = open(&directory, options());
        for key in 0..300u64 {
            db.run(|txn| txn.put(&rows, &key, &[1; 100][..])).unwrap();
        }
        std::mem::forget(db.run_async(|txn| txn.put(&rows, &7, &[2; 5000][..])).unwrap());
    }
    let trace = directory.trace();
    for at in (0..trace.operations()).step_by(7) {
        for keep in [Keep::Nothing, Keep::Random(at as u64), Keep::Everything] {
            let crashed = trace.crash(at, keep);
            let Ok(verification) =
                verify_in(&(Arc::new(crashed) as Arc<dyn Directory>), &Options::default(), &mut |_| ())
            else {
                continue;
            };
            assert!(verification.is_right(), "{at} {keep:?}: {verification:?}");
        }
    }
}

#[test]
fn a_row_number_used_again_while_a_checkpoint_was_made_is_no_damage() {
    const LENGTH: u64 = 10_000;
    let directory = FaultyDirectory::new();
    let (db, rows, _index) = open(&directory, options().durability(Durability::Async));
    for from in (0..LENGTH).step_by(1000) {
        db.run(|txn| (from..from + 1000).try_for_each(|key| txn.put(&rows, &key, &key.to_le_bytes()[..]))).unwrap();
    }
    let walking = AtomicBool::new(true);
    std::thread::scope(|scope| {
        // A queue: a row that the walk has passed at the head is put back at the tail, ahead of the walk.
        scope.spawn(|| {
            for head in 0.. {
                if !walking.load(Ordering::Relaxed) {
                    return;
                }
                db.run(|txn| {
                    txn.delete(&rows, &head)?;
                    txn.put(&rows, &(head + LENGTH), &head.to_le_bytes()[..])
                })
                .unwrap();
            }
        });
        for _ in 0..5 {
            db.checkpoint().unwrap();
        }
        walking.store(false, Ordering::Relaxed);
    });
    // The directory as a kill leaves it: the log behind the checkpoint has not been applied to it.
    let trace = directory.trace();
    let killed = trace.crash(trace.operations(), Keep::Everything);
    let verification = verify(&killed);
    assert!(verification.is_right() && verification.not_checked.is_empty(), "{verification:?}");
    let found = content(&killed);
    let head = *found.keys().next().unwrap();
    let queue = (head..head + LENGTH).zip(found.keys()).all(|(expected, key)| expected == *key);
    assert!(queue && found.len() as u64 == LENGTH, "{} rows from {head} on", found.len());
}

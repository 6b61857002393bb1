//! Backups, archives and restores of databases of single-version schemes: a copy has every acknowledged commit, a
//! restore to a stamp has exactly the commits of its epoch and earlier ones, and what is missing, damaged or another
//! database's is reported.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use ermine::{
    Database, Durability, Error, Options, RestoreReport, Scheme, SecondaryIndex, Table, TxnOptions, Uniqueness, Until,
    files::Directory, restore_in, verify_in,
};
use ermine_testing::faulty::{Attempt, Fault, FaultyDirectory, Keep};

type Rows = Table<u64, Vec<u8>>;
type ByFirst = SecondaryIndex<u8, u64, Vec<u8>>;
type State = BTreeMap<u64, Vec<u8>>;

fn options(scheme: Scheme) -> Options {
    let mut options = Options::default().scheme(scheme).log_buffer_bytes(64 << 10).segment_bytes(64 << 10);
    options.epoch_interval = Duration::from_micros(200);
    options
}

fn epoch_of(stamp: u64) -> u64 {
    stamp >> 20
}

fn shared(directory: &FaultyDirectory) -> Arc<dyn Directory> {
    Arc::new(directory.clone())
}

fn open(directory: &FaultyDirectory, options: Options) -> (Database, Rows, ByFirst) {
    let db = Database::open_in(shared(directory), options).unwrap();
    let rows = db.table("rows").unwrap();
    let index = db
        .index(&rows, "by first", Uniqueness::NonUnique, |_: &u64, value: &[u8]| value.first().copied().unwrap_or(0))
        .unwrap();
    (db, rows, index)
}

fn content(directory: &FaultyDirectory, scheme: Scheme) -> State {
    let (db, rows, index) = open(directory, options(scheme));
    let all: State = db.run(|txn| txn.scan(&rows, ..).collect()).unwrap().into_iter().collect();
    let by_first: State = db.run(|txn| txn.scan_by(&index, ..).collect()).unwrap().into_iter().collect();
    assert_eq!(all, by_first);
    all
}

fn assert_right(directory: &FaultyDirectory, what: &str) {
    let verification = verify_in(&shared(directory), &Options::default(), &mut |_| ()).unwrap();
    assert!(verification.is_right() && verification.not_checked.is_empty(), "{what}: {verification:?}");
}

fn restored(
    backup: &FaultyDirectory,
    archive: Option<&FaultyDirectory>,
    until: Until,
) -> Result<(FaultyDirectory, RestoreReport), Error> {
    let target = FaultyDirectory::new();
    let report = restore_in(&shared(backup), archive.map(shared).as_ref(), &shared(&target), until, &mut |_| ())?;
    Ok((target, report))
}

/// A database with an archive, a backup in the middle, and the state after every commit.
struct Past {
    scheme: Scheme,
    directory: FaultyDirectory,
    devices: Vec<FaultyDirectory>,
    archive: FaultyDirectory,
    backup: FaultyDirectory,
    /// By stamp.
    states: Vec<(u64, State)>,
    acknowledged: Vec<SystemTime>,
    backed_up: usize,
    from: u64,
}

impl Past {
    fn new(scheme: Scheme, seed: u64, devices: usize) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut past = Self {
            scheme,
            directory: FaultyDirectory::new(),
            devices: (0..devices).map(|_| FaultyDirectory::new()).collect(),
            archive: FaultyDirectory::new(),
            backup: FaultyDirectory::new(),
            states: Vec::new(),
            acknowledged: Vec::new(),
            backed_up: 0,
            from: 0,
        };
        let mut state = State::new();
        for life in 0..4 {
            let (db, rows, _) = open(&past.directory, past.archiving());
            for turn in 0..250 {
                past.commit(&db, &rows, &mut state, &mut random);
                if turn % 110 == 70 {
                    db.checkpoint().unwrap();
                }
                if life == 1 && turn == 120 {
                    past.from = db.backup_in(&past.backup).unwrap().from_lsn;
                    past.backed_up = past.states.len();
                }
                if turn % 130 == 40 {
                    db.archive_now().unwrap();
                }
            }
            assert_eq!(db.statistics().checkpoint_failure, None);
            if life == 2 {
                // The engine does not archive the end of this life: the machine loses power.
                db.sync().unwrap();
                std::mem::forget(db);
                let at = past.directory.operations();
                past.directory = past.directory.trace().crash(at, Keep::Nothing);
                for device in &mut past.devices {
                    *device = device.trace().crash(device.operations(), Keep::Nothing);
                }
            }
        }
        past
    }

    fn archiving(&self) -> Options {
        let mut options = options(self.scheme);
        options.archive_in = Some(shared(&self.archive));
        options.log_directories_in = self.devices.iter().map(shared).collect();
        options
    }

    fn commit(&mut self, db: &Database, rows: &Rows, state: &mut State, random: &mut fastrand::Rng) {
        // Many commits in an epoch, and some that end it.
        let durability = if random.u8(..6) == 0 { Durability::Durable } else { Durability::Async };
        let mut next = state.clone();
        let keys: Vec<u64> = (0..random.usize(1..4)).map(|_| random.u64(..60)).collect();
        let values: Vec<Option<Vec<u8>>> =
            keys.iter().map(|_| (random.u8(..5) > 0).then(|| vec![random.u8(..); random.usize(1..900)])).collect();
        let txn = db.begin(TxnOptions::default().durability(durability)).unwrap();
        for (key, value) in keys.iter().zip(&values) {
            match value {
                Some(value) => {
                    txn.put(rows, key, value.as_slice()).unwrap();
                    next.insert(*key, value.clone());
                }
                None => {
                    txn.delete(rows, key).unwrap();
                    next.remove(key);
                }
            }
        }
        let stamp = txn.commit().unwrap().as_u64();
        self.acknowledged.push(SystemTime::now());
        // One that has deleted nothing has the stamp of what it has read.
        let stamp = self.states.last().map_or(stamp, |(before, _)| stamp.max(*before));
        self.states.push((stamp, next.clone()));
        *state = next;
    }

    fn restore(&self, until: Until) -> Result<(FaultyDirectory, RestoreReport), Error> {
        restored(&self.backup, Some(&self.archive), until)
    }

    /// Returns the state after all commits of an epoch.
    fn at_end_of(&self, epoch: u64) -> &State {
        let commits = self.states.partition_point(|(stamp, _)| epoch_of(*stamp) <= epoch);
        &self.states[commits - 1].1
    }

    fn last(&self) -> &(u64, State) {
        &self.states[self.states.len() - 1]
    }
}

#[test]
fn a_restore_to_a_stamp_has_exactly_the_commits_up_to_its_epoch() {
    use Scheme::{Silo, Sto, Tso, TwoPhaseNoWait};
    for (seed, scheme, devices) in [(0, Silo, 0), (1, TwoPhaseNoWait, 2), (2, Sto, 3), (3, Tso, 0)] {
        let past = Past::new(scheme, seed, devices);
        let mut random = fastrand::Rng::with_seed(seed);
        let first = past.states.partition_point(|(stamp, _)| *stamp < past.from);
        for turn in 0..12 {
            let commit = match turn {
                0 => first,
                1 => past.states.len() - 1,
                _ => random.usize(first..past.states.len()),
            };
            let what = format!("{scheme}, seed {seed}, commit {commit}");
            let (stamp, _) = past.states[commit];
            let (target, report) = past.restore(Until::Lsn(stamp)).unwrap();
            assert_eq!(epoch_of(report.lsn), epoch_of(stamp) + 1, "{what}");
            assert_right(&target, &what);
            let state = past.at_end_of(epoch_of(stamp));
            assert_eq!(&content(&target, scheme), state, "{what}");
            // The cut is permanent, and the database goes on.
            let (db, rows, _) = open(&target, options(scheme));
            db.run(|txn| txn.put(&rows, &1000, &b"new"[..])).unwrap();
            drop((db, rows));
            let mut more = state.clone();
            more.insert(1000, b"new".to_vec());
            assert_eq!(content(&target, scheme), more, "{what}");
        }
        let (target, report) = past.restore(Until::End).unwrap();
        assert_eq!(content(&target, scheme), past.last().1, "{scheme}: to the end");
        assert!(report.archived_segments > 0 && report.archived_segments <= report.segments);
        // Without the archive, and of the backup as a crash of the machine leaves it right after the call.
        let (target, report) = restored(&past.backup, None, Until::End).unwrap();
        assert_eq!(
            (content(&target, scheme), report.archived_segments),
            (past.states[past.backed_up - 1].1.clone(), 0)
        );
        let backup = past.backup.trace().crash(past.backup.operations(), Keep::Nothing);
        assert_right(&backup, "the backup");
        assert_eq!(content(&backup, scheme), past.states[past.backed_up - 1].1);
    }
}

/// A backup numbers the files of its source anew: none of them takes the place of one in the archive, or is replaced by
/// one. Every file of the archive is short for a while, after each end of a longer one.
#[test]
fn files_of_the_backup_and_of_the_archive_are_no_copies_of_each_other() {
    for devices in 1..4 {
        let (directory, archive, backup) = (FaultyDirectory::new(), FaultyDirectory::new(), FaultyDirectory::new());
        let logs: Vec<_> = (0..devices).map(|_| FaultyDirectory::new()).collect();
        let mut archiving = options(Scheme::Silo);
        archiving.archive_in = Some(shared(&archive));
        archiving.log_directories_in = logs.iter().map(shared).collect();
        let (db, rows, _) = open(&directory, archiving);
        let commit = |key: u64| db.run(|txn| txn.put(&rows, &(key % 50), &vec![key as u8; 10_000])).unwrap();
        (0..20).for_each(commit);
        db.checkpoint().unwrap();
        (20..60).for_each(commit);
        db.backup_in(&backup).unwrap();
        for key in 60..120 {
            commit(key);
            db.archive_now().unwrap();
            let (target, report) = restored(&backup, Some(&archive), Until::End).unwrap();
            let expected = (key - 49..=key).map(|key| (key % 50, vec![key as u8; 10_000])).collect();
            assert!(content(&target, Scheme::Silo) == expected, "{devices} devices, row {key}: {report:?}");
        }
    }
}

#[test]
fn a_restore_to_a_moment_has_what_was_acknowledged_well_before_and_nothing_later() {
    let past = Past::new(Scheme::Silo, 9, 2);
    let mut random = fastrand::Rng::with_seed(9);
    for turn in 0..15 {
        let commit = random.usize(past.backed_up + 60..past.states.len() - 1);
        let moment = past.acknowledged[commit];
        let (target, report) = past.restore(Until::Time(moment)).unwrap();
        assert!(report.moment.is_some_and(|noted| noted <= moment), "turn {turn}");
        let found = content(&target, Scheme::Silo);
        assert_eq!(&found, past.at_end_of(epoch_of(report.lsn) - 1), "turn {turn}");
        // The time is read when the epochs that it is noted for have ended: nothing later is restored.
        let commits = past.states.partition_point(|(stamp, _)| epoch_of(*stamp) < epoch_of(report.lsn));
        let latest = past.acknowledged.partition_point(|acknowledged| *acknowledged <= moment);
        assert!(commits <= latest + 60, "turn {turn}: {commits} commits, {latest} were acknowledged");
    }
    let early = past.restore(Until::Time(past.acknowledged[0] - Duration::from_secs(1))).unwrap_err();
    let Error::TooEarly { moment: Some(earliest), .. } = early else { panic!("{early}") };
    past.restore(Until::Time(earliest)).unwrap();
    // The last note has everything.
    let (_, report) = past.restore(Until::End).unwrap();
    let (target, _) = past.restore(Until::Time(report.moment.unwrap())).unwrap();
    assert_eq!(content(&target, Scheme::Silo), past.last().1);
    let beyond = past.restore(Until::Time(SystemTime::now() + Duration::from_secs(3600))).unwrap_err();
    assert!(beyond.to_string().contains("ends before that moment"), "{beyond}");
    assert!(matches!(past.restore(Until::Lsn(past.from - 1)), Err(Error::TooEarly { .. })));
    let beyond = past.restore(Until::Lsn(past.last().0 + (1 << 40))).unwrap_err();
    assert!(beyond.to_string().contains("ends at epoch"), "{beyond}");
}

#[test]
fn what_an_archive_lacks_is_told_by_name() {
    let past = Past::new(Scheme::Silo, 5, 2);
    let names = || past.archive.list().unwrap().into_iter().filter(|name| name.starts_with("redo-"));
    let mut last: Vec<_> = names().filter(|name| name.starts_with("redo-00000004")).collect();
    last.sort();
    let victim = &last[0];
    let change = |change: &dyn Fn(&FaultyDirectory), words: &str| {
        let archive = past.archive.trace().crash(past.archive.operations(), Keep::Everything);
        change(&archive);
        let error = restored(&past.backup, Some(&archive), Until::End).unwrap_err().to_string();
        assert!(error.contains(words), "{words}: {error}");
    };
    change(&|archive| archive.lose(victim).unwrap(), victim);
    change(&|archive| archive.cut(victim, 600).unwrap(), victim);
    change(&|archive| archive.flip(victim, 700, 3).unwrap(), victim);
    change(&|archive| archive.flip("history", 40, 3).unwrap(), "history");
    // The database is opened without its archive, and a checkpoint frees log that was not archived.
    let (db, rows, _) = {
        let mut options = options(Scheme::Silo);
        options.log_directories_in = past.devices.iter().map(shared).collect();
        open(&past.directory, options)
    };
    for key in 0..50 {
        db.run(|txn| txn.put(&rows, &key, &[1; 500][..])).unwrap();
    }
    db.checkpoint().unwrap();
    db.run(|txn| txn.put(&rows, &1, &b"behind"[..])).unwrap();
    drop((db, rows));
    let (db, rows, _) = open(&past.directory, past.archiving());
    db.run(|txn| txn.put(&rows, &2, &b"last"[..])).unwrap();
    db.archive_now().unwrap();
    let gap = past.restore(Until::End).unwrap_err().to_string();
    assert!(gap.contains("lacks the log of epochs"), "{gap}");
    let (target, _) = past.restore(Until::Lsn(past.last().0)).unwrap();
    assert_eq!(content(&target, Scheme::Silo), past.last().1);
    // A new backup makes a new beginning.
    let backup = FaultyDirectory::new();
    db.backup_in(&backup).unwrap();
    db.run(|txn| txn.put(&rows, &3, &b"more"[..])).unwrap();
    db.archive_now().unwrap();
    let expected: State = db.run(|txn| txn.scan(&rows, ..).collect()).unwrap().into_iter().collect();
    let (target, _) = restored(&backup, Some(&past.archive), Until::End).unwrap();
    assert_eq!(content(&target, Scheme::Silo), expected);
}

#[test]
fn an_archive_belongs_to_one_history() {
    let past = Past::new(Scheme::Silo, 6, 0);
    let (target, _) = past.restore(Until::Lsn(past.states[past.states.len() - 300].0)).unwrap();
    let mut other = options(Scheme::Silo);
    other.archive_in = Some(shared(&past.archive));
    for directory in [&target, &FaultyDirectory::new()] {
        let refused = Database::open_in(shared(directory), other.clone()).err().unwrap().to_string();
        assert!(refused.contains("needs an archive of its own"), "{refused}");
    }
    let (db, ..) = open(&FaultyDirectory::new(), options(Scheme::Silo));
    assert!(db.archive_now().unwrap_err().to_string().contains("without Options::archive"));
}

#[test]
fn an_archive_that_cannot_be_written_frees_nothing_and_a_crash_leaves_it_whole() {
    let (directory, archive, backup) = (FaultyDirectory::new(), FaultyDirectory::new(), FaultyDirectory::new());
    let mut with = options(Scheme::Silo);
    with.archive_in = Some(shared(&archive));
    let (db, rows, _) = open(&directory, with.clone());
    let fill = |from: u64| {
        for key in from..from + 150 {
            db.run(|txn| txn.put(&rows, &key, &[1; 900][..])).unwrap();
        }
    };
    fill(0);
    db.backup_in(&backup).unwrap();
    fill(1000);
    let files = || directory.list().unwrap().iter().filter(|name| name.starts_with("redo-")).count();
    let before = files();
    archive.fail_when(|_, attempt| matches!(attempt, Attempt::Write { .. }).then_some(Fault::NoSpace));
    assert!(db.checkpoint().is_err() && db.archive_now().is_err());
    assert_eq!(files(), before);
    archive.fail_when(|_, _| None);
    db.checkpoint().unwrap();
    assert!(files() < before);
    fill(2000);
    let began = archive.operations();
    db.archive_now().unwrap();
    let ended = archive.operations();
    let count = |archive: &FaultyDirectory| {
        let (target, _) = restored(&backup, Some(archive), Until::End).unwrap();
        content(&target, Scheme::Silo).len()
    };
    assert_eq!(count(&archive), 450);
    for at in began..=ended {
        for keep in [Keep::Everything, Keep::Nothing, Keep::Random(at as u64)] {
            let found = count(&archive.trace().crash(at, keep));
            assert!((300..=450).contains(&found), "{at} {keep:?}: {found}");
        }
    }
}

#[test]
fn a_backup_under_way_with_writers_has_what_was_acknowledged_and_half_of_one_is_none() {
    let directory = FaultyDirectory::new();
    let (db, rows, _) = open(&directory, options(Scheme::Silo).checkpoint_after(200 << 10));
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
                    let value = [vec![random.u8(..); random.usize(1..300)], turn.to_le_bytes().to_vec()].concat();
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
        let mut backups = Vec::new();
        for _ in 0..4 {
            std::thread::sleep(Duration::from_millis(40));
            let before = acknowledged.each_ref().map(|turn| turn.load(Ordering::SeqCst));
            let backup = FaultyDirectory::new();
            let report = db.backup_in(&backup).unwrap();
            assert!(report.from_lsn <= report.to_lsn && report.bytes > 0);
            backups.push((before, backup));
        }
        done.store(true, Ordering::Relaxed);
        for (number, (before, backup)) in backups.into_iter().enumerate() {
            let backup = backup.trace().crash(backup.operations(), Keep::Nothing);
            assert_right(&backup, &format!("backup {number}"));
            let found = content(&backup, Scheme::Silo);
            for (thread, before) in (0..3u64).zip(before) {
                let count = found
                    .get(&(100_000 + thread))
                    .map_or(0, |turn| u64::from_le_bytes(turn.as_slice().try_into().unwrap()));
                assert!(count >= before, "backup {number}: {count} of {before}");
            }
            for (key, value) in found.range(..10_000) {
                assert_eq!(found.get(&(key + 10_000)), Some(value), "half a transaction");
            }
            assert_eq!(found.range(10_000..100_000).count(), found.range(..10_000).count());
        }
    });
    let expected: State = db.run(|txn| txn.scan(&rows, ..).collect()).unwrap().into_iter().collect();
    let whole = FaultyDirectory::new();
    db.backup_in(&whole).unwrap();
    for at in 0..whole.operations() {
        for fault in [Fault::NoSpace, Fault::Gone] {
            let backup = FaultyDirectory::new();
            backup.fail_at(at, fault);
            // A backup that needed fewer operations, because a checkpoint was made meanwhile, has not met the fault.
            let done = db.backup_in(&backup);
            assert!(done.is_err() || backup.operations() <= at, "{at} {fault:?}");
            for keep in [Keep::Everything, Keep::Nothing, Keep::Random(at as u64)] {
                let left = backup.trace().crash(backup.operations(), keep);
                let names = left.list().unwrap();
                match Database::open_in(shared(&left), options(Scheme::Silo)) {
                    Ok(opened) => {
                        drop(opened);
                        let all = names.is_empty() || content(&left, Scheme::Silo) == expected;
                        assert!(all, "{at} {fault:?} {keep:?}: {names:?}");
                    }
                    Err(error) => assert!(error.to_string().contains("broken off"), "{error}"),
                }
            }
        }
    }
}

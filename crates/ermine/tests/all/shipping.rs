//! Goal: a standby has everything that it received, whatever happens to it or to the original, and nothing else.
//! Method: a database whose states are known by the stamps of their commits ships its log to a standby; both crash and
//! are opened again at random, checkpoints remove files, pieces come twice. From time to time a copy of the standby is
//! promoted: its rows must be those of the last commit below its position.

use std::{collections::BTreeMap, sync::Arc, thread, time::Duration};

use ermine::{
    Database, Error, LogPiece, LogReader, LogReceiver, Options, Scheme, Table, TxnOptions, files::Directory, verify_in,
};
use ermine_testing::faulty::{Attempt, FaultyDirectory, Keep};
use fastrand::Rng;

pub(super) type Rows = BTreeMap<u64, Vec<u8>>;

/// Values above an eighth of the log's buffer have files of their own.
const LARGE: usize = 8 << 10;

pub(super) fn options() -> Options {
    let options = Options::default().log_buffer_bytes(8 * LARGE as u64).segment_bytes(64 << 10);
    options.checkpoint_after(64 << 10).keep_log(1 << 30).log_keys(true)
}

pub(super) fn open(directory: &FaultyDirectory) -> (Database, Table<u64, Vec<u8>>) {
    let db = Database::open_in(Arc::new(directory.clone()), options()).unwrap();
    let rows = db.table("rows").unwrap();
    (db, rows)
}

pub(super) fn receiver(directory: &FaultyDirectory) -> LogReceiver {
    LogReceiver::open_in(Arc::new(directory.clone())).unwrap()
}

pub(super) fn rows_in(db: &Database, table: &Table<u64, Vec<u8>>) -> Rows {
    db.run(|txn| txn.scan(table, ..).collect()).unwrap().into_iter().collect()
}

/// The states of the original, each with the stamp of the commit that made it.
pub(super) struct Past(pub(super) Vec<(u64, Rows)>);

impl Past {
    pub(super) fn step(&mut self, db: &Database, table: &Table<u64, Vec<u8>>, rng: &mut Rng) {
        let mut rows = self.0.last().map_or_else(Rows::new, |(_, rows)| rows.clone());
        let txn = db.begin(TxnOptions::default()).unwrap();
        let mut has_written = false;
        for _ in 0..rng.usize(1..6) {
            let key = rng.u64(..20);
            if rng.u8(..4) == 0 {
                let was_there = rows.remove(&key).is_some();
                assert_eq!(txn.delete(table, &key).unwrap(), was_there);
                has_written |= was_there;
            } else {
                let length = if rng.u8(..8) == 0 { LARGE + rng.usize(..5000) } else { rng.usize(..600) };
                let value = vec![rng.u8(..); length];
                txn.put(table, &key, value.as_slice()).unwrap();
                rows.insert(key, value);
                has_written = true;
            }
        }
        if rng.u8(..10) == 0 || !has_written {
            return txn.rollback();
        }
        self.0.push((txn.commit().unwrap().as_u64(), rows));
    }

    /// The state after the last commit below a position.
    pub(super) fn at(&self, position: u64) -> &Rows {
        let below = self.0.partition_point(|(stamp, _)| *stamp < position);
        &self.0[below - 1].1
    }
}

/// Promotes a standby, and compares its rows with those of the original at its position.
fn check_promoted(crashed: &FaultyDirectory, past: &Past) {
    let receiver = receiver(crashed);
    let position = receiver.position();
    receiver.promote().unwrap();
    let (db, table) = open(crashed);
    assert_eq!(&rows_in(&db, &table), past.at(position), "at {position}");
    // It goes on as a database of its own.
    db.run(|txn| txn.put(&table, &99, &vec![1; 100])).unwrap();
    drop((db, table));
    let of: Arc<dyn Directory> = Arc::new(crashed.clone());
    let verification = verify_in(&of, &options(), &mut |_| ()).unwrap();
    assert!(verification.is_right(), "{:?}", verification.findings);
    assert_eq!(open(crashed).0.run(|_| Ok::<_, Error>(())).ok(), Some(()));
}

/// Returns the directory as a crash now leaves it.
pub(super) fn crashed(directory: &FaultyDirectory, keep: Keep) -> FaultyDirectory {
    let trace = directory.trace();
    trace.crash(trace.operations(), keep)
}

pub(super) fn keep(rng: &mut Rng) -> Keep {
    [Keep::Everything, Keep::Nothing, Keep::Last, Keep::Random(rng.u64(..))][rng.usize(..4)]
}

/// Ships some pieces, some of them twice; returns whether everything was shipped.
pub(super) fn ship(reader: &mut LogReader<'_>, standby: &FaultyDirectory, to: &mut LogReceiver, rng: &mut Rng) -> bool {
    for _ in 0..rng.usize(1..8) {
        let Some(piece) = reader.next(rng.usize(1..20_000)).unwrap() else { return true };
        assert!(piece.from < piece.to && piece.from <= to.position());
        to.receive(&piece).unwrap();
        if rng.u8(..4) == 0 {
            to.receive(&piece).unwrap();
        }
        assert_eq!(to.position(), piece.to);
        assert_eq!(reader.position(), piece.to);
        standby.mark(piece.to);
    }
    false
}

/// Ends the original, in good order or not, and opens it again.
pub(super) fn reopened(
    original: &mut FaultyDirectory,
    open_before: (Database, Table<u64, Vec<u8>>),
    rng: &mut Rng,
) -> (Database, Table<u64, Vec<u8>>) {
    if rng.bool() {
        *original = crashed(original, keep(rng));
    }
    drop(open_before);
    open(original)
}

fn live(seed: u64) {
    let rng = &mut Rng::with_seed(seed);
    let (mut original, mut standby) = (FaultyDirectory::new(), FaultyDirectory::new());
    let mut past = Past(Vec::new());
    let (mut db, mut table) = open(&original);
    for _ in 0..rng.usize(1..60) {
        past.step(&db, &table, rng);
    }
    db.backup_in(&standby).unwrap();
    let mut to = receiver(&standby);
    let mut reader = db.log_reader(Some(to.position())).unwrap();
    for _ in 0..60 {
        for _ in 0..rng.usize(..12) {
            past.step(&db, &table, rng);
        }
        match rng.u8(..8) {
            0 => drop(db.checkpoint().unwrap()),
            1 => {
                (db, table) = reopened(&mut original, (db, table), rng);
                reader = db.log_reader(Some(to.position())).unwrap();
            }
            2 => {
                // The standby crashes in the middle of its work.
                let trace = standby.trace();
                let at = trace.operations() - rng.usize(..8).min(trace.operations());
                let acknowledged = trace.marks_before(at).last().copied().unwrap_or(0);
                let is_ready = trace.crash(at, Keep::Everything).list().unwrap().iter().any(|name| name == "STANDBY");
                if is_ready {
                    let keep = keep(rng);
                    check_promoted(&trace.crash(at, keep), &past);
                    // The process dies, or the machine.
                    standby = if rng.bool() { trace.kill(at) } else { trace.crash(at, keep) };
                    to = receiver(&standby);
                    assert!(to.position() >= acknowledged, "{} of {acknowledged}", to.position());
                    standby.mark(to.position());
                    reader = db.log_reader(Some(to.position())).unwrap();
                }
            }
            3 => check_promoted(&crashed(&standby, keep(rng)), &past),
            _ => drop(ship(&mut reader, &standby, &mut to, rng)),
        }
    }
    while !ship(&mut reader, &standby, &mut to, rng) {}
    assert!(to.position() > past.0.last().unwrap().0);
    check_promoted(&crashed(&standby, Keep::Nothing), &past);
}

#[test]
fn a_standby_has_what_it_received() {
    let seeds = std::env::var("ERMINE_TEST_SEED").ok().map(|seed| seed.parse().unwrap());
    for seed in seeds.map_or(0..20, |seed| seed..seed + 1) {
        eprintln!("ERMINE_TEST_SEED={seed}");
        live(seed);
    }
}

/// Returns a database, a standby of it, and the pieces between them.
fn shipped(commits: usize) -> (FaultyDirectory, FaultyDirectory, Past, Vec<LogPiece>) {
    let (original, standby) = (FaultyDirectory::new(), FaultyDirectory::new());
    let (db, table) = open(&original);
    let (mut past, rng) = (Past(Vec::new()), &mut Rng::with_seed(7));
    past.step(&db, &table, rng);
    // Begins before the backup ends: the first pieces overlap.
    let mut reader = db.log_reader(None).unwrap();
    db.backup_in(&standby).unwrap();
    (0..commits).for_each(|_| past.step(&db, &table, rng));
    let mut pieces = Vec::new();
    while let Some(piece) = reader.next(3000).unwrap() {
        pieces.push(piece);
    }
    drop((db, table));
    (original, standby, past, pieces)
}

#[test]
fn wrong_pieces_are_refused_and_change_nothing() {
    let (_original, standby, past, pieces) = shipped(40);
    let mut to = receiver(&standby);
    let mut rng = Rng::with_seed(3);
    let refused = |to: &mut LogReceiver, piece: &LogPiece| {
        let before = to.position();
        let error = to.receive(piece).unwrap_err().to_string();
        assert!(error.contains("is refused"), "{error}");
        assert_eq!(to.position(), before);
    };
    for (piece, next) in pieces.iter().zip(&pieces[1..]) {
        if next.from > to.position() {
            refused(&mut to, next);
            // Whatever it says of its beginning.
            refused(&mut to, &LogPiece { from: piece.from, ..next.clone() });
        }
        for _ in 0..40 {
            let mut wrong = piece.clone();
            let at = rng.usize(..wrong.body.len());
            wrong.body[at] ^= 1 << rng.u8(..8);
            let is_new = wrong.to > to.position();
            if is_new {
                refused(&mut to, &wrong);
            }
            wrong.body.truncate(at);
            if is_new {
                refused(&mut to, &wrong);
            }
        }
        to.receive(piece).unwrap();
    }
    to.receive(pieces.last().unwrap()).unwrap();
    // Another database's piece at the right place.
    let (_, foreign, _, _) = shipped(1);
    let mut foreign = receiver(&foreign);
    let piece = pieces.iter().find(|piece| (piece.from..piece.to).contains(&foreign.position()));
    refused(&mut foreign, piece.unwrap_or(&pieces[0]));
    drop(to);
    check_promoted(&crashed(&standby, Keep::Nothing), &past);
}

#[test]
fn a_standby_is_opened_when_it_is_promoted() {
    let (_original, standby, past, pieces) = shipped(3);
    let mut to = receiver(&standby);
    pieces.iter().for_each(|piece| to.receive(piece).unwrap());
    drop(to);
    let refused = Database::open_in(Arc::new(standby.clone()), options()).err();
    assert!(matches!(&refused, Some(Error::Storage(why)) if why.contains("promote")), "{refused:?}");
    receiver(&standby).promote().unwrap();
    let (db, table) = open(&standby);
    assert_eq!(&rows_in(&db, &table), &past.0.last().unwrap().1);
}

#[test]
fn the_log_is_kept_for_readers_that_are_not_too_far_behind() {
    for (kept, is_kept) in [(1 << 30, true), (100 << 10, false)] {
        let original = FaultyDirectory::new();
        let open = || {
            let db = Database::open_in(Arc::new(original.clone()), options().keep_log(kept)).unwrap();
            let table = db.table::<u64, Vec<u8>>("rows").unwrap();
            (db, table)
        };
        let (mut past, rng) = (Past(Vec::new()), &mut Rng::with_seed(1));
        let (mut db, mut table) = open();
        let begin = db.log_reader(None).unwrap().position();
        for round in 0..20 {
            (0..50).for_each(|_| past.step(&db, &table, rng));
            db.checkpoint().unwrap();
            if round % 8 == 7 {
                drop((db, table));
                (db, table) = open();
            }
        }
        let files = original.list().unwrap().iter().filter(|name| name.starts_with("log-")).count();
        let mut read = begin;
        let reader = db.log_reader(Some(begin)).map(|mut reader| {
            while let Some(piece) = reader.next(10_000).unwrap() {
                assert_eq!(piece.from, read);
                read = piece.to;
            }
        });
        match is_kept {
            true => assert!(reader.is_ok() && read > past.0.last().unwrap().0 && files >= 8, "{read}, {files}"),
            false => assert!(matches!(reader, Err(Error::LogRemoved { .. })) && files < 8, "{reader:?}, {files}"),
        }
    }
}

#[test]
fn a_reader_that_waits_is_woken() {
    let original = FaultyDirectory::new();
    let (db, table) = open(&original);
    let mut reader = db.log_reader(None).unwrap();
    while reader.next(1 << 20).unwrap().is_some() {}
    assert!(!reader.wait(Duration::from_millis(1)).unwrap() || reader.next(1 << 20).unwrap().is_some());
    thread::scope(|scope| {
        scope.spawn(|| {
            // Far longer than a commit takes: the thread is woken, or the test hangs.
            while !reader.wait(Duration::from_secs(3600)).unwrap() {}
        });
        db.run(|txn| txn.put(&table, &1, &vec![1])).unwrap();
    });
}

/// A standby makes no checkpoints: it may have far more segments than the original ever has at a time.
#[test]
fn a_standby_with_many_segments_takes_over() {
    let (original, copy) = (FaultyDirectory::new(), FaultyDirectory::new());
    let (db, table) = open(&original);
    db.run(|txn| txn.put(&table, &0, &vec![0])).unwrap();
    db.backup_in(&copy).unwrap();
    let mut standby = receiver(&copy);
    let mut reader = db.log_reader(Some(standby.position())).unwrap();
    let write = |db: &Database, table: &Table<u64, Vec<u8>>, rounds: u64| {
        for round in 0..rounds {
            db.run(|txn| (0..20).try_for_each(|key| txn.put(table, &(round % 7 * 20 + key), &vec![7; 2000]))).unwrap();
        }
    };
    for _ in 0..10 {
        write(&db, &table, 10);
        db.checkpoint().unwrap();
        while let Some(piece) = reader.next(1 << 20).unwrap() {
            standby.receive(&piece).unwrap();
        }
    }
    standby.promote().unwrap();
    let segments = copy.list().unwrap().iter().filter(|name| name.starts_with("log-")).count();
    assert!(segments > 16, "{segments}");
    let (promoted, rows) = open(&copy);
    assert_eq!(rows_in(&promoted, &rows), rows_in(&db, &table));
    write(&promoted, &rows, 30);
    promoted.checkpoint().unwrap();
    write(&promoted, &rows, 3);
    let expected = rows_in(&promoted, &rows);
    drop((promoted, rows));
    let (promoted, rows) = open(&copy);
    assert_eq!(rows_in(&promoted, &rows), expected);
}

/// A carrier of the log goes on where an earlier one has ended, however long the log has become.
#[test]
fn the_log_is_kept_from_the_end_of_an_earlier_carrier_on() {
    let (directory, little) = (FaultyDirectory::new(), options().keep_log(1));
    let open = |options: Options| {
        let db = Database::open_in(Arc::new(directory.clone()), options).unwrap();
        let rows = db.table::<u64, Vec<u8>>("rows").unwrap();
        (db, rows)
    };
    let grow = |db: &Database, rows: &Table<u64, Vec<u8>>| {
        for round in 0..4 {
            (0..100).for_each(|key| db.run(|txn| txn.put(rows, &key, &vec![round; 2000])).unwrap());
            db.checkpoint().unwrap();
        }
    };
    let (db, rows) = open(little.clone());
    db.run(|txn| txn.put(&rows, &0, &vec![0])).unwrap();
    let carried = db.log_reader(None).unwrap().position();
    drop((rows, db));
    for _ in 0..3 {
        let (db, rows) = open(little.clone().keep_log_from(carried));
        grow(&db, &rows);
        let mut reader = db.log_reader(Some(carried)).unwrap();
        while reader.next(1 << 20).unwrap().is_some() {}
    }
    // As soon as commits are held, the hold says what is kept.
    let (db, rows) = open(little.keep_log_from(carried));
    let reader = db.log_reader(None).unwrap();
    let hold = reader.hold_commits(u64::MAX);
    grow(&db, &rows);
    assert!(matches!(db.log_reader(Some(carried)), Err(Error::LogRemoved { .. })));
    hold.end();
}

/// Commits that are held, and what has read of them, are durable when the standby has them.
#[test]
fn held_commits_wait_for_the_standby() {
    let (original, copy) = (FaultyDirectory::new(), FaultyDirectory::new());
    let (db, table) = open(&original);
    db.run(|txn| txn.put(&table, &0, &vec![0])).unwrap();
    db.backup_in(&copy).unwrap();
    let mut standby = receiver(&copy);
    let mut reader = db.log_reader(Some(standby.position())).unwrap();
    let mut changes = db.changes(Some(standby.position())).unwrap();
    let hold = reader.hold_commits(standby.position());
    thread::scope(|scope| {
        let (_, receipt) = db.run_async(|txn| txn.put(&table, &1, &vec![1])).unwrap();
        let (read, reads) = db.run_async(|txn| txn.get(&table, &1)).unwrap();
        assert_eq!(read, Some(vec![1]));
        let (_, local) = db.run_async(|txn| txn.put(&table, &2, &vec![2])).unwrap();
        let stamp = local.locally().wait().unwrap().as_u64();
        let waiting = scope.spawn(|| db.sync());
        let (_, old) = db.run_async(|txn| txn.get(&table, &0)).unwrap();
        old.wait().unwrap();
        assert!(!receipt.is_durable() && !reads.is_durable() && !waiting.is_finished());
        assert!(db.statistics().held_log_bytes.unwrap() > 0);
        assert!(changes.next().unwrap().is_none() && !changes.wait(Duration::ZERO).unwrap());
        let told = scope.spawn(move || {
            // The thread is woken, or the test hangs.
            while changes.next().unwrap().is_none() {
                changes.wait(Duration::from_secs(3600)).unwrap();
            }
        });
        while standby.position() <= stamp {
            let piece = reader.next(1).unwrap().expect("the commit is durable");
            standby.receive(&piece).unwrap();
            hold.release_to(piece.to);
        }
        receipt.wait().unwrap();
        reads.wait().unwrap();
        told.join().unwrap();
        // A time that was noted after the commits may still be held.
        hold.release_to(u64::MAX);
        waiting.join().unwrap().unwrap();
    });
    hold.release_to(standby.position());
    let (_, receipt) = db.run_async(|txn| txn.put(&table, &3, &vec![3])).unwrap();
    hold.fail("another one is the primary");
    let failed = receipt.wait();
    assert!(matches!(&failed, Err(Error::Poisoned(why)) if why.contains("another one")), "{failed:?}");
    assert!(db.run(|txn| txn.put(&table, &4, &vec![4])).is_err() && db.failure().is_some());
    drop(db);
    // A carrier that dies holds no commit forever.
    let (db, _) = open(&original);
    let reader = db.log_reader(None).unwrap();
    drop(reader.hold_commits(reader.position()));
    assert!(db.failure().is_some());
}

#[test]
fn other_logs_are_refused_by_name() {
    let open = |scheme| Database::open_in(Arc::new(FaultyDirectory::new()), options().scheme(scheme)).unwrap();
    let refused = open(Scheme::Silo).log_reader(None).err();
    assert!(matches!(&refused, Some(Error::Options(why)) if why.contains("silo")), "{refused:?}");
    let db = Database::open_in_memory(options()).unwrap();
    assert!(matches!(db.log_reader(None).err(), Some(Error::Options(_))));
    let refused = open(Scheme::SiSsn).log_reader(Some(1 << 40)).err();
    assert!(matches!(refused, Some(Error::Options(_))));
}

/// A log that refuses commits still writes what was claimed: no hole is called durable.
#[test]
fn what_was_claimed_is_written_when_commits_are_refused() {
    for round in 0..6 {
        let directory = FaultyDirectory::new();
        let (db, table) = open(&directory);
        // The buffer is full most of the time.
        directory.fail_when(|_, attempt| {
            if matches!(attempt, Attempt::Sync(_)) {
                thread::sleep(Duration::from_millis(1));
            }
            None
        });
        let reader = db.log_reader(None).unwrap();
        let hold = reader.hold_commits(reader.position());
        let written: Vec<u64> = thread::scope(|scope| {
            let write = |writer: u64| {
                let (db, table) = (&db, &table);
                move || {
                    let put = |number| db.run_async(|txn| txn.put(table, &(writer << 32 | number), &vec![7; 5000]));
                    (0..2000).take_while(|number| put(*number).is_ok()).count() as u64
                }
            };
            let writers: Vec<_> = (0..4).map(|writer| scope.spawn(write(writer))).collect();
            thread::sleep(Duration::from_millis(10 + 10 * round));
            hold.fail("another one is the primary");
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        directory.fail_when(|_, _| None);
        drop(db);
        let (db, table) = open(&directory);
        let rows = rows_in(&db, &table);
        // Each writer's rows up to some: what was not acknowledged may be missing, but no row between others.
        for (writer, written) in written.iter().enumerate() {
            let numbers: Vec<_> =
                rows.keys().filter(|key| **key >> 32 == writer as u64).map(|key| *key as u32).collect();
            assert!(numbers.iter().enumerate().all(|(at, number)| at as u32 == *number), "{numbers:?}");
            assert!(numbers.len() as u64 <= written + 1, "{} of {written}", numbers.len());
        }
        drop(db);
        let of: Arc<dyn Directory> = Arc::new(directory);
        let verification = verify_in(&of, &options(), &mut |_| ()).unwrap();
        assert!(verification.is_right(), "{:?}", verification.findings);
    }
}

//! Goal: every file belongs to its database and its place, and a lost end of the log is distinguished from one that a
//! crash has torn.
//! Method: two databases with the same history, so that their files have the same names; a file of one is lost,
//! emptied, cut, or replaced by one of the other or by another one of its own. Opening and verifying the database must
//! name the file, after a crash and after a stop in good order; restores from such copies must fail, and leave nothing
//! that opens.

use std::sync::Arc;

use ermine::{
    Database, Error, Options, Scheme, Until, Verification,
    files::{Directory, Open},
    restore_in, verify_in,
};
use ermine_testing::faulty::{FaultyDirectory, Keep};

fn options() -> Options {
    Options::default().log_buffer_bytes(64 << 10).segment_bytes(64 << 10).checkpoint_after(1 << 40)
}

fn archiving(archive: &FaultyDirectory) -> Options {
    let mut options = options();
    options.archive_in = Some(Arc::new(archive.clone()));
    options
}

fn open(directory: &FaultyDirectory) -> Result<Database, Error> {
    Database::open_in(Arc::new(directory.clone()), options())
}

fn verify(directory: &FaultyDirectory) -> Verification {
    verify_in(&(Arc::new(directory.clone()) as Arc<dyn Directory>), &Options::default(), &mut |_| ()).unwrap()
}

/// Writes the common content of the databases here: a checkpoint, rows in the cold store, and some segments behind it.
fn fill(directory: &FaultyDirectory, options: Options) -> Database {
    let db = Database::open_in(Arc::new(directory.clone()), options).unwrap();
    let table = db.table::<u64, Vec<u8>>("rows").unwrap();
    let put = |key: u64, bytes: usize| db.run(|txn| txn.put(&table, &key, vec![key as u8; bytes].as_slice())).unwrap();
    (0..50).for_each(|key| put(key, 500));
    (0..150).for_each(|turn| put(100 + turn % 5, 4000));
    db.checkpoint().unwrap();
    (0..40).for_each(|turn| put(100 + turn % 5, 4000));
    db
}

/// Returns a database that was closed, or one as a crash has left it.
fn database(is_closed: bool) -> FaultyDirectory {
    let directory = FaultyDirectory::new();
    let db = fill(&directory, options());
    db.sync().unwrap();
    if is_closed {
        drop(db);
        directory.settle();
        return directory;
    }
    let trace = directory.trace();
    trace.crash(trace.operations(), Keep::Nothing)
}

fn names(directory: &FaultyDirectory, prefix: &str) -> Vec<String> {
    let mut names: Vec<_> = directory.list().unwrap().into_iter().filter(|name| name.starts_with(prefix)).collect();
    names.sort();
    names
}

fn content(directory: &FaultyDirectory, name: &str) -> Vec<u8> {
    let file = directory.open(name, Open::Read).unwrap();
    let mut bytes = vec![0; file.length().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

fn replace(directory: &FaultyDirectory, name: &str, bytes: &[u8]) {
    directory.lose(name).unwrap();
    let file = directory.open(name, Open::Create).unwrap();
    file.write_at(0, bytes).unwrap();
    directory.settle();
}

/// Checks that opening and verifying both fail, and that both name the file; `what` names the case.
fn assert_refused(directory: &FaultyDirectory, name: &str, what: &str) {
    let verification = verify(directory);
    let found = verification.findings.iter().any(|finding| format!("{} {}", finding.file, finding.what).contains(name));
    assert!(found, "{what}: verify says of {name}: {:?}", verification.findings);
    match open(directory) {
        Ok(_) => panic!("{what}: it opens"),
        Err(error) => assert!(error.to_string().contains(name), "{what}: {error}"),
    }
}

#[test]
fn a_whole_database_opens_after_a_crash_and_after_a_stop() {
    for is_closed in [false, true] {
        let directory = database(is_closed);
        assert!(!names(&directory, "cold-").is_empty() && names(&directory, "log-").len() > 1);
        for _ in 0..3 {
            let verification = verify(&directory);
            assert!(verification.is_right(), "{:?}", verification.findings);
            let db = open(&directory).unwrap();
            let table = db.table::<u64, Vec<u8>>("rows").unwrap();
            assert_eq!(db.run(|txn| txn.scan(&table, ..).collect()).unwrap().len(), 55);
        }
    }
}

#[test]
fn a_lost_end_of_the_log_is_told_from_a_torn_one() {
    for is_closed in [false, true] {
        let built = database(is_closed);
        let fresh = || built.trace().crash(0, Keep::Everything);
        let segments = names(&built, "log-");
        let (newest, before) = (segments.last().unwrap(), &segments[segments.len() - 2]);
        let length = content(&fresh(), newest).len() as u64;
        let directory = fresh();
        directory.lose(newest).unwrap();
        assert_refused(&directory, &newest[4..20], "missing");
        for bytes in [0, 1, 5000, length / 2, length - 4096, length - 4090] {
            let directory = fresh();
            directory.cut(newest, bytes).unwrap();
            assert_refused(&directory, newest, &format!("cut to {bytes} of {length}"));
        }
        let directory = fresh();
        let other = content(&directory, before);
        replace(&directory, newest, &other);
        assert_refused(&directory, newest, "another segment of the same database");
        let directory = fresh();
        let bytes = with_identity_of(&database(is_closed), content(&directory, newest));
        replace(&directory, newest, &bytes);
        assert_refused(&directory, newest, "a segment of another database");
        // Only the label is left. After a crash nothing outside the file says how far the newest segment had come.
        if is_closed {
            let directory = fresh();
            let mut bytes = content(&directory, newest);
            bytes[..(length - 4096) as usize].fill(0);
            replace(&directory, newest, &bytes);
            assert_refused(&directory, newest, "blank");
        }
    }
}

#[test]
fn files_of_another_database_are_refused_by_name() {
    let (one, other) = (database(true), database(true));
    for name in names(&one, "log-") {
        let directory = one.trace().crash(0, Keep::Everything);
        replace(&directory, &name, &with_identity_of(&other, content(&one, &name)));
        assert_refused(&directory, &name, "of another database");
    }
    let directory = one.trace().crash(0, Keep::Everything);
    directory.lose("IDENTITY").unwrap();
    assert_refused(&directory, "IDENTITY", "missing");
    let directory = one.trace().crash(0, Keep::Everything);
    directory.cut("IDENTITY", 0).unwrap();
    assert_refused(&directory, "IDENTITY", "empty");
    let directory = one.trace().crash(0, Keep::Everything);
    replace(&directory, "IDENTITY", &content(&other, "IDENTITY"));
    assert_refused(&directory, &names(&one, "checkpoint-")[0], "of another database");
}

#[test]
fn a_restore_says_success_of_what_is_right_only() {
    let of = |directory: &FaultyDirectory| Arc::new(directory.clone()) as Arc<dyn Directory>;
    let (directory, archive, backup) = (FaultyDirectory::new(), FaultyDirectory::new(), FaultyDirectory::new());
    let db = fill(&directory, archiving(&archive));
    db.backup_in(&backup).unwrap();
    let table = db.table::<u64, Vec<u8>>("rows").unwrap();
    let put = |turn: u64| db.run(|txn| txn.put(&table, &(turn % 5), vec![7; 4000].as_slice())).unwrap();
    (0..60).for_each(put);
    db.checkpoint().unwrap();
    (0..5).for_each(put);
    db.archive_now().unwrap();
    drop(db);
    [&archive, &backup].iter().for_each(|directory| directory.settle());
    let restore = |backup: &FaultyDirectory, archive: Option<&FaultyDirectory>| {
        let target = FaultyDirectory::new();
        let restored = restore_in(&of(backup), archive.map(of).as_ref(), &of(&target), Until::End, &mut |_| ());
        if restored.is_err() {
            assert!(names(&target, "").is_empty() || open(&target).is_err(), "half a restore opens");
        } else {
            open(&target).unwrap();
        }
        restored
    };
    restore(&backup, None).unwrap();
    restore(&backup, Some(&archive)).unwrap();
    let copy = |directory: &FaultyDirectory| directory.trace().crash(0, Keep::Everything);
    let refused = |restored: Result<ermine::RestoreReport, Error>, name: &str, what: &str| match restored {
        Ok(report) => panic!("{what}: {report:?}"),
        Err(error) => assert!(error.to_string().contains(name), "{what}: {error}"),
    };
    // The last segment of a backup, and the partial one in an archive, end where they were cut off, and their labels
    // say where.
    let last = names(&backup, "log-").pop().unwrap();
    let part = names(&archive, "log-").into_iter().find(|name| name.ends_with(".part")).unwrap();
    for (from, name) in [(&backup, &last), (&archive, &part)] {
        let mut bytes = content(from, name);
        let end = bytes.len() - 4096;
        let said = bytes[..end].iter().rposition(|byte| *byte != 0).unwrap();
        bytes[said - 200..end].fill(0);
        let short = copy(from);
        replace(&short, name, &bytes);
        let whole = name.strip_suffix(".part").unwrap_or(name);
        let restored = if std::ptr::eq(from, &backup) { restore(&short, None) } else { restore(&backup, Some(&short)) };
        refused(restored, whole, "short");
    }
    // A segment of another database in the archive.
    let whole = names(&archive, "log-").into_iter().rfind(|name| !name.ends_with(".part")).unwrap();
    let mixed = copy(&archive);
    replace(&mixed, &whole, &with_identity_of(&database(true), content(&archive, &whole)));
    refused(restore(&backup, Some(&mixed)), &whole, "of another database");
    let lost = copy(&archive);
    lost.lose(&whole).unwrap();
    refused(restore(&backup, Some(&lost)), &whole[4..20], "missing");
}

/// Returns a database of a single-version scheme that was opened twice: a checkpoint, files of the log from before and
/// after it, closed.
fn single_version(archive: Option<&FaultyDirectory>) -> FaultyDirectory {
    let directory = FaultyDirectory::new();
    for turn in 0..2 {
        let options = archive.map_or_else(options, archiving).scheme(Scheme::Silo);
        let db = Database::open_in(Arc::new(directory.clone()), options).unwrap();
        let table = db.table::<u64, Vec<u8>>("rows").unwrap();
        let put = |key: u64| db.run_async(|txn| txn.put(&table, &(key % 50), &[turn; 2000][..])).map(drop).unwrap();
        (0..200).for_each(put);
        db.sync().unwrap();
        if turn == 0 {
            db.checkpoint().unwrap();
        }
        (0..200).for_each(put);
        db.sync().unwrap();
    }
    archive.into_iter().chain([&directory]).for_each(FaultyDirectory::settle);
    directory
}

fn open_single(directory: &FaultyDirectory) -> Result<usize, Error> {
    let db = Database::open_in(Arc::new(directory.clone()), options().scheme(Scheme::Silo))?;
    let table = db.table::<u64, Vec<u8>>("rows")?;
    db.run(|txn| Ok(txn.scan(&table, ..).collect()?.len()))
}

/// As [`assert_refused`], under a single-version scheme.
fn assert_single_refused(directory: &FaultyDirectory, name: &str, what: &str) {
    let of = Arc::new(directory.clone()) as Arc<dyn Directory>;
    let verified = verify_in(&of, &Options::default().scheme(Scheme::Silo), &mut |_| ());
    let said = match &verified {
        Ok(verification) => format!("{:?}", verification.findings),
        Err(error) => error.to_string(),
    };
    assert!(said.contains(name), "{what}: verify says of {name}: {said}");
    match open_single(directory) {
        Ok(rows) => panic!("{what}: it opens with {rows} rows"),
        Err(error) => assert!(error.to_string().contains(name), "{what}: {error}"),
    }
}

#[test]
fn files_of_another_single_version_database_are_refused_by_name() {
    let (one, other) = (single_version(None), single_version(None));
    for prefix in ["redo-", "pepoch-", "manifest-", "rows-"] {
        let (own, others) = (names(&one, prefix), names(&other, prefix));
        assert!(!own.is_empty(), "{:?}", one.list());
        for (name, from) in own.iter().zip(&others) {
            let directory = one.trace().crash(0, Keep::Everything);
            replace(&directory, name, &content(&other, from));
            assert_single_refused(&directory, name, "of another database");
        }
    }
    for bytes in [None, Some(0)] {
        let directory = one.trace().crash(0, Keep::Everything);
        bytes.map_or_else(|| directory.lose("IDENTITY"), |bytes| directory.cut("IDENTITY", bytes)).unwrap();
        assert!(open_single(&directory).is_err(), "IDENTITY cut to {bytes:?}");
    }
    assert_eq!(open_single(&one).unwrap(), 50);
}

#[test]
fn a_generation_of_a_single_version_database_that_is_gone_as_a_whole_is_missed() {
    let built = single_version(None);
    let newest = names(&built, "pepoch-").pop().unwrap();
    let directory = built.trace().crash(0, Keep::Everything);
    for name in names(&directory, &newest.replace("pepoch-", "redo-")) {
        directory.lose(&name).unwrap();
    }
    directory.lose(&newest).unwrap();
    assert_single_refused(&directory, &newest, "gone as a whole");
    // A checkpoint of a later generation has all rows, and a generation that wrote nothing leaves nothing to miss.
    for _ in 0..3 {
        open_single(&built).unwrap();
        let db = Database::open_in(Arc::new(built.clone()), options().scheme(Scheme::Silo)).unwrap();
        db.checkpoint().unwrap();
        drop(db);
        built.settle();
    }
    assert_eq!(open_single(&built).unwrap(), 50);
}

#[test]
fn copies_of_a_single_version_database_are_of_the_same_database() {
    let of = |directory: &FaultyDirectory| Arc::new(directory.clone()) as Arc<dyn Directory>;
    let (archive, foreign, backup) = (FaultyDirectory::new(), FaultyDirectory::new(), FaultyDirectory::new());
    let directory = single_version(Some(&archive));
    single_version(Some(&foreign));
    let db = Database::open_in(Arc::new(directory.clone()), archiving(&archive).scheme(Scheme::Silo)).unwrap();
    db.backup_in(&backup).unwrap();
    let table = db.table::<u64, Vec<u8>>("rows").unwrap();
    db.run(|txn| txn.put(&table, &100, &[1; 2000][..])).unwrap();
    db.archive_now().unwrap();
    drop(db);
    [&directory, &archive, &backup].iter().for_each(|directory| directory.settle());
    let own = content(&directory, "IDENTITY")[16..32].to_vec();
    assert_eq!(content(&backup, "IDENTITY")[16..32], own);
    assert_eq!(open_single(&backup.trace().crash(0, Keep::Everything)).unwrap(), 50);
    let restore = |archive: &FaultyDirectory, target: &FaultyDirectory| {
        restore_in(&of(&backup), Some(&of(archive)), &of(target), Until::End, &mut |_| ())
    };
    let target = FaultyDirectory::new();
    let restored = restore(&archive, &target).unwrap();
    assert!(restored.archived_segments > 0, "{restored:?}");
    assert_eq!(content(&target, "IDENTITY")[16..32], own);
    assert_eq!(open_single(&target).unwrap(), 51);
    // The log of another database with the same history, in the archive and as the archive.
    let name = names(&archive, "redo-").pop().unwrap();
    let mixed = archive.trace().crash(0, Keep::Everything);
    replace(&mixed, &name, &content(&foreign, names(&foreign, "redo-").last().unwrap()));
    let opened = Database::open_in(Arc::new(directory), archiving(&foreign).scheme(Scheme::Silo)).map(drop);
    assert!(opened.unwrap_err().to_string().contains("archive"), "the archive of another database");
    let restored = restore(&mixed, &FaultyDirectory::new());
    assert!(restored.unwrap_err().to_string().contains(&name), "a file of another database");
    let restored = restore(&foreign, &FaultyDirectory::new());
    assert!(restored.unwrap_err().to_string().contains("archive"), "the archive of another database");
}

/// Returns a segment with the label that it would have in another database.
fn with_identity_of(other: &FaultyDirectory, mut segment: Vec<u8>) -> Vec<u8> {
    let label = segment.len() - 4096;
    segment[label + 8..label + 24].copy_from_slice(&content(other, "IDENTITY")[16..32]);
    let crc = crc32c(&segment[label..label + 56]);
    segment[label + 56..label + 60].copy_from_slice(&crc.to_le_bytes());
    segment
}

/// Computes CRC-32C, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

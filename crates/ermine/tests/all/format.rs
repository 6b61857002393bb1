//! Databases that earlier versions wrote must remain readable forever.
//!
//! `tests/fixtures/format-N` is a directory that a version with format N left, without a stop in good order: a
//! checkpoint, rows in the cold store, a value in a file of its own, secondary indexes, a transaction of several
//! blocks, deletions, and a log behind the checkpoint. It is never written again; a new format gets a directory of its
//! own, by `ERMINE_TEST_FIXTURE=DIR cargo test -p ermine --test all format:: -- --ignored`. `tests/fixtures/parallel-1`
//! is the directory of a single-version scheme, from before files had their database's identity: two generations, a
//! checkpoint in the first, killed.

use std::{env, fs, path::Path, sync::Arc};

use ermine::{
    Database, Error, Options, Scheme, SecondaryIndex, Table, Uniqueness, Until,
    files::{Directory, Open, real::RealDirectory},
    restore_in, verify_in,
};
use ermine_testing::faulty::{FaultyDirectory, Keep};

type People = Table<u64, String>;

fn options() -> Options {
    Options::default().log_buffer_bytes(64 << 10).segment_bytes(64 << 10)
}

fn open(directory: Arc<dyn Directory>) -> (Database, People, SecondaryIndex<String, u64, String>) {
    let db = Database::open_in(directory, options()).unwrap();
    let people: People = db.table("people").unwrap();
    let by_name = db
        .index(&people, "by name", Uniqueness::NonUnique, |_: &u64, name: &str| name.chars().take(4).collect())
        .unwrap();
    (db, people, by_name)
}

fn name_of(key: u64) -> String {
    format!("{}{}", ["anna", "bert", "carl", "dora"][key as usize % 4], "-".repeat(key as usize % 50))
}

/// Returns the rows of the fixture.
fn expected() -> Vec<(u64, String)> {
    let mut rows: Vec<_> = (0..1000).filter(|key| key % 7 != 3).map(|key| (key, name_of(key))).collect();
    rows.iter_mut().filter(|(key, _)| key % 10 == 0).for_each(|(key, name)| *name = format!("eve {key}"));
    rows.push((5000, "large ".repeat(15_000)));
    rows.extend((6000..6200).map(|key| (key, name_of(key))));
    rows
}

/// How many times the numbers are written.
const ROUNDS: u32 = 20;

/// Returns a directory as a killed process leaves it.
fn write() -> FaultyDirectory {
    let directory = FaultyDirectory::new();
    let (db, people, _) = open(Arc::new(directory.clone()));
    let numbers = db.table::<(u32, String), i64>("numbers").unwrap();
    for key in 0..1000u64 {
        db.run(|txn| txn.insert(&people, &key, &name_of(key))).unwrap();
    }
    db.run(|txn| txn.put(&people, &5000, &"large ".repeat(15_000))).unwrap();
    // Until the oldest segments are removed, and their rows are moved.
    for round in 0..ROUNDS {
        for key in 0..300u32 {
            db.run(|txn| txn.put(&numbers, &(key, "x".repeat(key as usize % 9)), &i64::from(round))).unwrap();
        }
        db.checkpoint().unwrap();
    }
    for key in (0..1000u64).filter(|key| key % 7 == 3) {
        assert!(db.run(|txn| txn.delete(&people, &key)).unwrap());
    }
    for key in (0..1000u64).filter(|key| key % 7 != 3 && key % 10 == 0) {
        assert!(db.run(|txn| txn.update(&people, &key, &format!("eve {key}"))).unwrap());
    }
    db.run(|txn| (6000..6200u64).try_for_each(|key| txn.insert(&people, &key, &name_of(key)))).unwrap();
    db.run(|txn| txn.put(&people, &7000, "gone")).unwrap();
    db.run(|txn| txn.delete(&people, &7000)).unwrap();
    let names = directory.list().unwrap();
    for prefix in ["cold-", "blob-", "checkpoint-", "marker-"] {
        assert!(names.iter().any(|name| name.starts_with(prefix)), "{prefix} {names:?}");
    }
    let trace = directory.trace();
    trace.crash(trace.operations(), Keep::Everything)
}

fn check(directory: Arc<dyn Directory>) {
    let (db, people, by_name) = open(directory);
    assert!(db.recovery().transactions > 100, "{:?}", db.recovery());
    let rows = db.run(|txn| txn.scan(&people, ..).collect()).unwrap();
    assert!(rows == expected(), "other rows than were written");
    let eves = db.run(|txn| txn.scan_by(&by_name, "eve ".to_string()..="eve ".to_string()).collect()).unwrap();
    assert_eq!(eves, expected().into_iter().filter(|(_, name)| name.starts_with("eve ")).collect::<Vec<_>>());
    let numbers = db.table::<(u32, String), i64>("numbers").unwrap();
    let numbers = db.run(|txn| txn.scan(&numbers, ..).collect()).unwrap();
    assert!(
        numbers.len() == 300
            && numbers
                .iter()
                .all(|((key, text), round)| *round == i64::from(ROUNDS - 1) && text.len() == *key as usize % 9)
    );
    db.run(|txn| txn.insert(&people, &8000, "new")).unwrap();
}

/// Copies each fixture whose name begins with `prefix`, and passes the copy to `check`.
fn with_copies(prefix: &str, check: impl Fn(&Path)) {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let of_kind = |fixture: &fs::DirEntry| fixture.file_name().to_str().is_some_and(|name| name.starts_with(prefix));
    let mut count = 0;
    for fixture in fs::read_dir(fixtures).unwrap().map(Result::unwrap).filter(of_kind) {
        let copy = env::temp_dir().join(format!("ermine-{prefix}{}-{count}", std::process::id()));
        let _ = fs::remove_dir_all(&copy);
        fs::create_dir(&copy).unwrap();
        for file in fs::read_dir(fixture.path()).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), copy.join(file.file_name())).unwrap();
        }
        check(&copy);
        fs::remove_dir_all(&copy).unwrap();
        count += 1;
    }
    assert!(count > 0);
}

#[test]
fn directories_of_all_formats_open() {
    with_copies("format-", |copy| {
        check(Arc::new(RealDirectory::open(copy).unwrap()));
        check_again(copy);
    });
}

/// An earlier program's directory opens and gets an identity, and every file made later has it.
#[test]
fn directories_of_single_version_schemes_open() {
    with_copies("parallel-", |copy| {
        // Taken as a backup that the earlier program has made; the archive continues behind it.
        let (backup, archive) = (FaultyDirectory::new(), FaultyDirectory::new());
        for file in fs::read_dir(copy).unwrap().map(Result::unwrap) {
            let made = backup.open(file.file_name().to_str().unwrap(), Open::Create).unwrap();
            made.write_at(0, &fs::read(file.path()).unwrap()).unwrap();
        }
        backup.settle();
        let plain = || options().scheme(Scheme::Silo);
        let options = || {
            let mut options = plain();
            options.archive_in = Some(Arc::new(archive.clone()));
            options
        };
        let of = || Arc::new(RealDirectory::open(copy).unwrap()) as Arc<dyn Directory>;
        let name_of = |key: u64| format!("{} 1", ["anna", "bert", "carl", "dora"][key as usize % 4]);
        let kept = |range: std::ops::Range<u64>| range.filter(|key| key % 7 != 0).map(|key| (key, name_of(key)));
        for turn in 0..4 {
            let verification = verify_in(&of(), &options(), &mut |_| ()).unwrap();
            assert!(verification.is_right(), "turn {turn}: {:?}", verification.findings);
            let db = Database::open_in(of(), options()).unwrap();
            let people: People = db.table("people").unwrap();
            let by_name = db
                .index(&people, "by name", Uniqueness::NonUnique, |_: &u64, name: &str| {
                    name.chars().take(4).collect::<String>()
                })
                .unwrap();
            let mut expected: Vec<_> = kept(0..300).collect();
            expected.extend((1000..1000 + turn).map(|key| (key, "new".to_owned())));
            assert_eq!(db.run(|txn| txn.scan(&people, ..).collect()).unwrap(), expected, "turn {turn}");
            let anna = db.run(|txn| txn.scan_by(&by_name, "anna".to_owned()..="anna".to_owned()).collect()).unwrap();
            assert_eq!(anna, kept(0..300).filter(|(key, _)| key % 4 == 0).collect::<Vec<_>>());
            db.run(|txn| txn.insert(&people, &(1000 + turn), "new")).unwrap();
            if turn == 2 {
                db.checkpoint().unwrap();
            }
        }
        archive.settle();
        let target = FaultyDirectory::new();
        let as_directory = |directory: &FaultyDirectory| Arc::new(directory.clone()) as Arc<dyn Directory>;
        let (from, to) = (as_directory(&backup), as_directory(&target));
        let restored = restore_in(&from, Some(&as_directory(&archive)), &to, Until::End, &mut |_| ()).unwrap();
        assert!(restored.archived_segments > 0, "{restored:?}");
        let db = Database::open_in(to, plain()).unwrap();
        let people: People = db.table("people").unwrap();
        let rows = db.run(|txn| Ok::<_, Error>(txn.scan(&people, ..).collect()?.len())).unwrap();
        assert_eq!(rows, kept(0..300).count() + 4);
        drop(db);
        fs::remove_file(copy.join("IDENTITY")).unwrap();
        assert!(Database::open_in(of(), options()).is_err(), "nothing says whose the files are");
    });
}

/// The files that recovery and a stop in good order leave open, too.
fn check_again(directory: &Path) {
    let (db, people, _) = open(Arc::new(RealDirectory::open(directory).unwrap()));
    assert_eq!(db.run(|txn| txn.scan(&people, ..).collect()).unwrap().len(), expected().len() + 1);
}

#[test]
fn a_log_of_a_later_format_is_refused() {
    let directory = FaultyDirectory::new();
    let (db, people, _) = open(Arc::new(directory.clone()));
    (0..100).for_each(|key| db.run(|txn| txn.insert(&people, &key, &name_of(key))).unwrap());
    let trace = directory.trace();
    let directory = trace.crash(trace.operations(), Keep::Everything);
    // So few rows bring about no checkpoint: recovery reads the log from its first block on.
    let names = directory.list().unwrap();
    assert!(!names.iter().any(|name| name.starts_with("marker-")), "{names:?}");
    let log = names.iter().filter(|name| name.starts_with("log-")).min().unwrap();
    let start = u64::from_str_radix(log.split('-').nth(2).unwrap(), 16).unwrap();
    let first = start % 4096;
    directory.settle();
    // Its third byte is the version, which its head has too, behind the identity of the database.
    directory.flip(log, first + 2, 7).unwrap();
    let heads = names.iter().filter(|name| name.starts_with("heads-")).min().unwrap();
    directory.flip(heads, 16 + 2, 7).unwrap();
    let refused = Database::open_in(Arc::new(directory), options()).err();
    assert!(matches!(&refused, Some(Error::Corrupt { what, .. }) if what.contains("newer")), "{refused:?}");
}

#[test]
#[ignore = "writes a fixture"]
fn write_fixture() {
    let target = env::var("ERMINE_TEST_FIXTURE").expect("ERMINE_TEST_FIXTURE names the directory to be made");
    let directory = write();
    fs::create_dir(&target).unwrap();
    for (name, bytes) in directory.contents() {
        fs::write(Path::new(&target).join(name), bytes).unwrap();
    }
    check(Arc::new(directory));
}

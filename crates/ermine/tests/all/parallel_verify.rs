//! Goal: `verify` and `inspect` count correctly, and `verify` finds every damaged byte that counts in a directory of a
//! single-version scheme, finds nothing in one that is whole, also after a crash, and changes nothing.
//! Method: a database with a checkpoint and a log behind it in directories in memory; bits of all its files are flipped
//! one by one, and it crashes at every operation.

use std::sync::Arc;

use ermine::{
    Database, Options, Scheme, Uniqueness, Verification,
    files::{Directory, Open},
    inspect::ParallelLog,
    verify_in,
};
use ermine_testing::faulty::{FaultyDirectory, Keep};

fn options() -> Options {
    Options::default().scheme(Scheme::Silo).log_buffer_bytes(64 << 10).segment_bytes(64 << 10)
}

/// Writes 300 rows with an index entry each: a checkpoint, then half of them again, and some deletions.
fn build(directory: &FaultyDirectory, options: Options) {
    let db = Database::open_in(Arc::new(directory.clone()), options).unwrap();
    let rows = db.table::<u64, Vec<u8>>("rows").unwrap();
    let by_length = |_: &u64, value: &[u8]| value.len() as u64;
    db.index(&rows, "by length", Uniqueness::NonUnique, by_length).unwrap();
    let put = |key: u64, length: u64| {
        db.run_async(|txn| txn.put(&rows, &key, vec![key as u8; length as usize].as_slice())).map(drop).unwrap();
    };
    (0..310).for_each(|key| put(key, 100 + key % 7));
    db.checkpoint().unwrap();
    (0..150).for_each(|key| put(key, 90));
    (300..310u64).for_each(|key| assert!(db.run(|txn| txn.delete(&rows, &key)).unwrap()));
}

fn verify_with(directory: &FaultyDirectory, options: &Options) -> Verification {
    let operations = directory.trace().operations();
    let of: Arc<dyn Directory> = Arc::new(directory.clone());
    let verification = verify_in(&of, options, &mut |_| ()).unwrap();
    assert_eq!(directory.trace().operations(), operations, "verify changes nothing");
    verification
}

fn verify(directory: &FaultyDirectory) -> Verification {
    verify_with(directory, &Options::default())
}

/// Returns the end of the last byte that is not zero.
fn end(directory: &FaultyDirectory, name: &str) -> u64 {
    let file = directory.open(name, Open::Read).unwrap();
    let mut bytes = vec![0; file.length().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1)
}

#[test]
fn a_whole_database_is_right_and_counted() {
    let directory = FaultyDirectory::new();
    build(&directory, options());
    let verification = verify(&directory);
    assert!(verification.is_right() && verification.not_checked.is_empty(), "{verification:?}");
    assert_eq!((verification.torn, verification.tables, verification.rows), (None, 1, 300));
    assert_eq!(verification.entries, 300);
    // The reserve, which is made in the background, is no file of the database.
    let names: Vec<_> = directory.list().unwrap().into_iter().filter(|name| name != "RESERVE").collect();
    assert_eq!(verification.files, names.len() as u64, "{names:?}");
    assert!(verification.blocks > 0 && verification.log_records >= 160 && verification.bytes > 300 * 100);
    assert!(verification.persistent_epoch.unwrap() > 1);
}

#[test]
fn every_flipped_bit_is_found() {
    find_flipped_bits(options());
}

#[test]
fn every_flipped_bit_of_a_compressed_checkpoint_is_found() {
    find_flipped_bits(options().compress_checkpoints(true));
}

fn find_flipped_bits(options: Options) {
    let directory = FaultyDirectory::new();
    build(&directory, options);
    for name in directory.list().unwrap() {
        let end = end(&directory, &name);
        let slot_bytes = if name.starts_with("pepoch-") { 48 } else { 60 };
        let has_slots = name.starts_with("pepoch-") || name == "IDENTITY";
        let is_counted = |at: &u64| !has_slots || at % 4096 < slot_bytes;
        let step = if name.starts_with("rows-") || name.starts_with("redo-") { end / 97 + 1 } else { 1 };
        // A file of the log that has just been begun may be empty.
        for at in (0..end).step_by(step as usize).chain(end.checked_sub(1)).filter(is_counted) {
            directory.flip(&name, at, (at % 8) as u8).unwrap();
            let verification = verify(&directory);
            assert!(!verification.is_right(), "{name} at {at}");
            assert!(
                verification.findings.iter().any(|finding| finding.file == name),
                "{name} at {at}: {verification:?}"
            );
            directory.flip(&name, at, (at % 8) as u8).unwrap();
        }
    }
    assert!(verify(&directory).is_right());
}

#[test]
fn a_lost_file_is_found() {
    let directory = FaultyDirectory::new();
    build(&directory, options());
    let whole = directory.trace();
    for name in directory.list().unwrap() {
        let directory = whole.crash(whole.operations(), Keep::Everything);
        directory.lose(&name).unwrap();
        let verification = verify(&directory);
        if name.starts_with("manifest-") {
            // The log still has everything: there is no older file of it.
            assert!(verification.is_right() && verification.rows == 300, "{verification:?}");
        } else {
            assert!(!verification.is_right(), "{name}");
        }
    }
}

#[test]
fn a_crash_is_no_damage() {
    let directory = FaultyDirectory::new();
    build(&directory, options());
    build(&directory, options());
    let trace = directory.trace();
    let mut torn = 0;
    for at in 0..=trace.operations() {
        for keep in [Keep::Nothing, Keep::Everything, Keep::Last, Keep::Random(at as u64)] {
            let directory: Arc<dyn Directory> = Arc::new(trace.crash(at, keep));
            // No database exists yet.
            let Ok(verification) = verify_in(&directory, &Options::default(), &mut |_| ()) else { continue };
            assert!(verification.is_right(), "at {at}, {keep:?}: {verification:?}");
            torn += usize::from(verification.torn.is_some());
        }
    }
    assert!(torn > 0);
}

#[test]
fn log_directories_are_looked_into_when_they_are_named() {
    let (directory, devices) = (FaultyDirectory::new(), [(); 2].map(|()| FaultyDirectory::new()));
    let mut several = options();
    several.log_directories_in = devices.iter().map(|device| Arc::new(device.clone()) as Arc<dyn Directory>).collect();
    build(&directory, several.clone());
    let verification = verify_with(&directory, &several);
    assert!(verification.is_right() && verification.rows == 300, "{verification:?}");
    several.log_directories_in.pop();
    assert!(!verify_with(&directory, &several).is_right());
}

#[test]
fn inspect_counts_what_verify_counts() {
    let directory = FaultyDirectory::new();
    build(&directory, options());
    let of: Arc<dyn Directory> = Arc::new(directory.clone());
    let log = ParallelLog::open_in(&of, &Options::default()).unwrap().unwrap();
    let (mut records, mut rows) = (0, 0);
    for file in log.files() {
        let mut found = log.records(file).unwrap();
        for record in &mut found {
            let record = record.unwrap();
            assert!((1..=file.persistent_epoch.unwrap()).contains(&record.epoch), "{record:?}");
            // The other records have no rows, and note when an epoch had ended.
            (records, rows) = (records + u64::from(record.rows > 0), rows + record.rows);
        }
        assert_eq!(found.end(), file.durable_bytes);
    }
    let verification = verify(&directory);
    assert_eq!(records, verification.log_records);
    assert!(rows >= records);
    let checkpoint = log.checkpoint().unwrap().unwrap();
    assert_eq!(checkpoint.files.iter().map(|file| file.rows).sum::<u64>(), 311, "and one of the catalog");
    assert_eq!(checkpoint.tables.last().map(String::as_str), Some("rows"));
    let file = log.files().last().unwrap();
    directory.flip(&file.file, file.durable_bytes / 2, 1).unwrap();
    let mut found = log.records(file).unwrap();
    assert!(found.by_ref().all(|record| record.is_ok()) && found.end() < file.durable_bytes);
    // A database of the other family.
    let directory = FaultyDirectory::new();
    drop(Database::open_in(Arc::new(directory.clone()), options().scheme(Scheme::Si)).unwrap());
    let of: Arc<dyn Directory> = Arc::new(directory);
    assert!(ParallelLog::open_in(&of, &Options::default()).unwrap().is_none());
}

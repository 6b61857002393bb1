//! Goal: scans and groups of lookups announce the blocks of rows that are only in files before they read them, read
//! each block once where its rows are read one after another, and return the same as if all rows were in memory, also
//! where reads fail and while rows are written, evicted and moved.
//!
//! Method: a directory that notes announcements and reads in their order, and fails some reads, around one in memory.

use std::{
    io,
    ops::ControlFlow,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use ermine::{
    Database, Durability, Error, Options, Scheme, Table, TxnOptions,
    files::{Directory, File, Open},
};
use ermine_testing::faulty::FaultyDirectory;
use fastrand::Rng;

/// A part of a file that was announced or read.
#[derive(Clone, Debug)]
struct Part {
    is_read: bool,
    name: String,
    from: u64,
    to: u64,
}

#[derive(Debug, Default)]
struct Notes {
    parts: Mutex<Vec<Part>>,
    reads: AtomicU64,
    /// One read in so many fails; 0: none.
    failing: AtomicU64,
}

impl Notes {
    fn add(&self, is_read: bool, name: &str, from: u64, bytes: u64) {
        self.parts.lock().unwrap().push(Part { is_read, name: name.into(), from, to: from + bytes });
    }

    fn take(&self) -> Vec<Part> {
        std::mem::take(&mut self.parts.lock().unwrap())
    }
}

#[derive(Debug, Default)]
struct Noted {
    below: FaultyDirectory,
    notes: Arc<Notes>,
}

impl Directory for Noted {
    fn list(&self) -> io::Result<Vec<String>> {
        self.below.list()
    }
    fn open(&self, name: &str, how: Open) -> io::Result<Arc<dyn File>> {
        let below = self.below.open(name, how)?;
        Ok(Arc::new(NotedFile { below, name: name.into(), notes: self.notes.clone() }))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.below.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.below.remove(name)
    }
    fn sync(&self) -> io::Result<()> {
        self.below.sync()
    }
    fn path(&self) -> String {
        self.below.path()
    }
}

#[derive(Debug)]
struct NotedFile {
    below: Arc<dyn File>,
    name: String,
    notes: Arc<Notes>,
}

impl File for NotedFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.below.write_at(offset, bytes)
    }
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.notes.add(true, &self.name, offset, into.len() as u64);
        let number = self.notes.reads.fetch_add(1, Ordering::Relaxed);
        match self.notes.failing.load(Ordering::Relaxed) {
            failing if failing > 0 && number.is_multiple_of(failing) => Err(io::Error::from_raw_os_error(5)),
            _ => self.below.read_at(offset, into),
        }
    }
    fn will_read(&self, offset: u64, bytes: u64) {
        self.notes.add(false, &self.name, offset, bytes);
    }
    fn sync(&self) -> io::Result<()> {
        self.below.sync()
    }
    fn length(&self) -> io::Result<u64> {
        self.below.length()
    }
    fn set_length(&self, bytes: u64) -> io::Result<()> {
        self.below.set_length(bytes)
    }
}

const ROWS: u64 = 10_000;

/// The order in which rows are written.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Written {
    /// That of their keys.
    InOrder,
    /// Neighbours in the table are no neighbours in the file.
    Scattered,
}

fn value(key: u64) -> Vec<u8> {
    let mut value = vec![key as u8; 100 + (key % 7 * 40) as usize];
    value[..8].copy_from_slice(&key.to_le_bytes());
    value
}

/// Writes the rows, in the log or also in the cold store, and evicts them.
fn database(scheme: Scheme, written: Written, is_moved: bool) -> (Database, Table<u64, Vec<u8>>, Arc<Notes>) {
    let directory = Noted::default();
    let notes = directory.notes.clone();
    let options = Options::default().scheme(scheme).durability(Durability::Async);
    let options = if is_moved { options.segment_bytes(256 << 10).log_buffer_bytes(256 << 10) } else { options };
    let db = Database::open_in(Arc::new(directory), options).unwrap();
    let rows = db.table::<u64, Vec<u8>>("rows").unwrap();
    for first in (0..ROWS).step_by(50) {
        let keys = (first..first + 50).map(|at| if written == Written::InOrder { at } else { at * 7919 % ROWS });
        db.run(|txn| keys.clone().try_for_each(|key| txn.put(&rows, &key, &value(key)))).unwrap();
    }
    db.sync().unwrap();
    if is_moved {
        db.checkpoint().unwrap();
    }
    evict(&db);
    notes.take();
    (db, rows, notes)
}

/// Evicts all rows of the table.
fn evict(db: &Database) {
    (0..10).take_while(|_| db.statistics().unloaded_rows < ROWS).for_each(|_| _ = db.evict(|_| true));
    assert!(db.statistics().unloaded_rows >= ROWS, "{:?}", db.statistics());
}

/// Returns the keys that a scan of all rows shows, after checking their values.
fn scan(db: &Database, rows: &Table<u64, Vec<u8>>, reverse: bool) -> Result<Vec<u64>, Error> {
    let txn = db.begin(TxnOptions::read_only())?;
    let mut keys = Vec::new();
    let scan = txn.scan(rows, ..);
    let scan = if reverse { scan.rev() } else { scan };
    scan.for_each(|key, bytes| {
        assert_eq!(bytes, value(key));
        keys.push(key);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(keys)
}

/// What a list of announcements and reads amounts to.
#[derive(Debug, Default)]
struct Summary {
    reads: usize,
    read_bytes: u64,
    announced_bytes: u64,
    /// Reads whose beginning had not been announced.
    surprises: usize,
    /// The most announcements that were waiting to be read.
    depth: usize,
}

fn summary(parts: &[Part]) -> Summary {
    let mut summary = Summary::default();
    let mut announced: Vec<&Part> = Vec::new();
    let mut waiting: Vec<&Part> = Vec::new();
    for part in parts {
        let meets = |other: &Part| other.name == part.name && other.from < part.to && part.from < other.to;
        if part.is_read {
            summary.reads += 1;
            summary.read_bytes += part.to - part.from;
            let is_announced = announced.iter().any(|other| meets(other) && other.from <= part.from);
            summary.surprises += usize::from(!is_announced);
            waiting.retain(|other| !meets(other));
        } else {
            summary.announced_bytes += part.to - part.from;
            announced.push(part);
            waiting.push(part);
            summary.depth = summary.depth.max(waiting.len());
        }
    }
    summary
}

#[test]
fn a_scan_announces_the_blocks_that_it_reads() {
    for (written, is_moved) in
        [(Written::InOrder, false), (Written::InOrder, true), (Written::Scattered, false), (Written::Scattered, true)]
    {
        for reverse in [false, true] {
            let (db, rows, notes) = database(Scheme::default(), written, is_moved);
            let mut expected: Vec<u64> = (0..ROWS).collect();
            if reverse {
                expected.reverse();
            }
            assert_eq!(scan(&db, &rows, reverse).unwrap(), expected);
            let parts = notes.take();
            let found = summary(&parts);
            let context = format!("{written:?}, moved: {is_moved}, reverse: {reverse}: {found:?}");
            // The rest of a block that is longer than expected.
            assert!(found.surprises <= found.reads / 10 + 4, "{context}");
            match written {
                Written::InOrder => {
                    assert!(found.reads < ROWS as usize / 20, "{context}");
                    assert!(found.announced_bytes < 2 * found.read_bytes + (2 << 20), "{context}");
                }
                Written::Scattered => {
                    assert!(found.depth >= 32, "{context}");
                    assert!(found.announced_bytes < 2 * found.read_bytes, "{context}");
                }
            }
            // Rows in memory are neither announced nor read.
            assert_eq!(scan(&db, &rows, reverse).unwrap(), expected);
            assert!(notes.take().is_empty());
        }
    }
}

#[test]
fn a_scan_that_ends_early_announces_little() {
    let (db, rows, notes) = database(Scheme::default(), Written::Scattered, false);
    let first = db.run(|txn| txn.scan(&rows, 100..).limit(10).collect()).unwrap();
    assert_eq!(first, (100..110).map(|key| (key, value(key))).collect::<Vec<_>>());
    let found = summary(&notes.take());
    assert!((9..=12).contains(&found.reads) && found.depth <= 12 && found.depth >= 8, "{found:?}");
}

#[test]
fn a_group_of_lookups_announces_its_rows() {
    for is_moved in [false, true] {
        let (db, rows, notes) = database(Scheme::default(), Written::Scattered, is_moved);
        let mut rng = Rng::with_seed(3);
        let keys: Vec<u64> = (0..200).map(|_| rng.u64(..ROWS)).collect();
        let expected: Vec<_> = keys.iter().map(|key| Some(value(*key))).collect();
        assert_eq!(db.run(|txn| txn.get_many(&rows, &keys)).unwrap(), expected);
        let found = summary(&notes.take());
        assert!(found.surprises <= found.reads / 10 && found.depth >= 32, "{found:?}");

        evict(&db);
        notes.take();
        let read: Vec<Result<_, Error>> = db.run_many(
            keys.clone(),
            |key, reads| reads.row(&rows, key),
            |txn, key| Ok(txn.get(&rows, key)?.expect("a row")),
        );
        assert!(read.into_iter().zip(&keys).all(|(read, key)| read.unwrap() == value(*key)));
        let found = summary(&notes.take());
        // The first group of a batch announces its rows in any case.
        assert!(found.depth >= 10, "{found:?}");

        evict(&db);
        notes.take();
        let txn = db.begin(TxnOptions::default()).unwrap();
        txn.prefetch(&rows, &keys[..40]).unwrap();
        let announced = notes.take();
        assert!(announced.len() >= 10 && announced.iter().all(|part| !part.is_read), "{announced:?}");
        keys[..40].iter().for_each(|key| assert_eq!(txn.get(&rows, key).unwrap(), Some(value(*key))));
        let found = summary(&[announced, notes.take()].concat());
        assert!(found.surprises <= found.reads / 10, "{found:?}");
    }
}

/// A read that fails is an error of the transaction that wanted the row; what was read before is right, and the next
/// transaction goes on.
#[test]
fn reads_that_fail_are_errors_of_their_transaction() {
    for scheme in [Scheme::default(), Scheme::Si] {
        let (db, rows, notes) = database(scheme, Written::Scattered, false);
        notes.failing.store(50, Ordering::Relaxed);
        let mut failures = 0;
        // Each attempt brings rows into memory.
        let keys = (0..2 * ROWS).find_map(|_| match scan(&db, &rows, false) {
            Ok(keys) => Some(keys),
            Err(error) => {
                assert!(matches!(error, Error::Storage(_)), "{error}");
                failures += 1;
                None
            }
        });
        assert_eq!(keys.unwrap(), (0..ROWS).collect::<Vec<_>>());
        assert!(failures > 0);
        evict(&db);
        notes.failing.store(1, Ordering::Relaxed);
        assert!(matches!(db.run(|txn| txn.get_many(&rows, &[1, 2, 3])), Err(Error::Storage(_))));
        notes.failing.store(0, Ordering::Relaxed);
        let read = db.run(|txn| txn.get_many(&rows, &[1, 2, 3])).unwrap();
        assert_eq!(read, [1, 2, 3].map(|key| Some(value(key))));
        // The database goes on.
        db.run(|txn| txn.put(&rows, &1, &value(1))).unwrap();
        db.checkpoint().unwrap();
    }
}

/// Scans and groups of lookups beside writers, eviction, and checkpoints that move rows and free their files.
#[test]
fn scans_and_lookups_beside_eviction_and_checkpoints() {
    const KEYS: u64 = 400;
    // Without a snapshot, the rows of a pair may be seen one before and one after a transaction that writes both.
    let schemes = Scheme::ALL.into_iter().filter(|scheme| scheme.has_versions() && *scheme != Scheme::Rc);
    for scheme in schemes {
        let options = Options::default().scheme(scheme).durability(Durability::Async);
        let options = options.segment_bytes(64 << 10).log_buffer_bytes(64 << 10);
        let db = Database::open_in(Arc::new(Noted::default()), options).unwrap();
        let rows = db.table::<u64, Vec<u8>>("rows").unwrap();
        // Pairs of rows have the same generation.
        let generation = |value: &[u8]| u64::from_le_bytes(value[..8].try_into().unwrap());
        let value = |generation: u64| [&generation.to_le_bytes()[..], &[generation as u8; 150]].concat();
        db.run(|txn| (0..KEYS).try_for_each(|key| txn.put(&rows, &(key * 7919 % KEYS), &value(0)))).unwrap();
        // The first reads, at least, find nothing in memory.
        db.sync().unwrap();
        (0..10).for_each(|_| _ = db.evict(|_| true));
        let (turns, running) = (60, AtomicU64::new(3));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut rng = Rng::with_seed(1);
                for turn in 1..=20 * turns {
                    let pair = rng.u64(..KEYS / 2) * 2;
                    db.run(|txn| {
                        txn.put(&rows, &pair, &value(turn))?;
                        txn.put(&rows, &(pair + 1), &value(turn))
                    })
                    .unwrap();
                }
                running.fetch_sub(1, Ordering::Relaxed);
            });
            scope.spawn(|| {
                for turn in (0..).take_while(|_| running.load(Ordering::Relaxed) > 0) {
                    db.sync().unwrap();
                    (0..3).for_each(|_| _ = db.evict(|row| row % 5 != turn % 5));
                    if turn % 8 == 0 {
                        db.checkpoint().unwrap();
                    }
                }
            });
            for reader in 0..2 {
                let (db, rows, running) = (&db, &rows, &running);
                scope.spawn(move || {
                    let mut rng = Rng::with_seed(reader + 10);
                    for _ in 0..turns {
                        let all = db.run_with(TxnOptions::read_only(), |txn| txn.scan(rows, ..).collect()).unwrap();
                        assert_eq!(all.len() as u64, KEYS, "{scheme}");
                        for pair in all.chunks_exact(2) {
                            assert_eq!(generation(&pair[0].1), generation(&pair[1].1), "{scheme}: {}", pair[0].0);
                        }
                        let pairs: Vec<u64> = (0..40).map(|_| rng.u64(..KEYS / 2) * 2).collect();
                        let keys: Vec<u64> = pairs.iter().flat_map(|pair| [*pair, pair + 1]).collect();
                        let read = db.run(|txn| txn.get_many(rows, &keys)).unwrap();
                        for pair in read.chunks_exact(2) {
                            let [one, other] = [&pair[0], &pair[1]].map(|value| generation(value.as_ref().unwrap()));
                            assert_eq!(one, other, "{scheme}");
                        }
                    }
                    running.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        assert!(db.statistics().cold_reads >= KEYS, "{scheme}: {:?}", db.statistics());
    }
}

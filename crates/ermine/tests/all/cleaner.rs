//! Goal: rows of every shape survive the cleaner: its blocks, the addresses into them, checkpoints that fail, and
//! crashes while it runs.
//! Method: rows that never change again are written once, narrow or wide, in files of their own or in many tables; a
//! table of filler is then rewritten until the segments with those rows are removed. Every row is read in the running
//! database and after each of several openings, and `verify` finds nothing wrong before any of them. The same is done
//! at random points of a crash, and behind checkpoints that failed.
//!
//! `ERMINE_TEST_POINTS=n` checks n crash points per shape, `ERMINE_TEST_SEED=n` draws the same ones again. Built with
//! `--cfg ermine_mutants`, `a_fault_on_purpose_is_found` breaks the addresses again.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
};

use ermine::{
    Database, Durability, Error, Options, Result, SecondaryIndex, Table, Uniqueness, Verification, files::Directory,
    verify_in,
};
use ermine_testing::faulty::{Attempt, Fault, FaultyDirectory, Keep};
use fastrand::Rng;

type Rows = Table<u64, Vec<u8>>;
type ByLength = SecondaryIndex<u64, u64, Vec<u8>>;

/// The shape of the rows that the cleaner moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Rows so small that a block of the cold store holds more than 256 of them.
    Narrow,
    /// Some of them fill a block.
    Wide,
    /// Each value has a file of its own.
    Blobs,
    /// Few rows each.
    ManyTables,
}

impl Shape {
    const ALL: [Self; 4] = [Self::Narrow, Self::Wide, Self::Blobs, Self::ManyTables];

    fn tables(self) -> u64 {
        if self == Self::ManyTables { 60 } else { 1 }
    }

    /// Returns the number of rows in each table.
    fn rows(self) -> u64 {
        match self {
            Self::Narrow => 40_000,
            Self::Wide => 200,
            Self::Blobs => 12,
            Self::ManyTables => 30,
        }
    }

    fn value(self, key: u64) -> Vec<u8> {
        let bytes = match self {
            Self::Narrow => key % 2,
            Self::Wide => 3000 + key * 17 % 4000,
            Self::Blobs => 70_000 + key,
            Self::ManyTables => key * 7 % 90,
        };
        vec![key as u8; bytes as usize]
    }
}

fn options() -> Options {
    let options = Options::default().log_buffer_bytes(256 << 10).segment_bytes(256 << 10);
    options.checkpoint_after(1 << 40).durability(Durability::Async)
}

/// A database with rows that stay and rows that are written again and again.
struct Cleaned {
    db: Database,
    shape: Shape,
    tables: Vec<(Rows, ByLength)>,
    filler: Rows,
}

impl Cleaned {
    fn open(directory: &FaultyDirectory, shape: Shape) -> Result<Self> {
        let db = Database::open_in(Arc::new(directory.clone()), options())?;
        let of_length = |_: &u64, value: &[u8]| value.len() as u64;
        let table = |number: u64| {
            let rows = db.table(&format!("rows {number}"))?;
            let by_length = db.index(&rows, "by length", Uniqueness::NonUnique, of_length)?;
            Ok((rows, by_length))
        };
        let tables = (0..shape.tables()).map(table).collect::<Result<_>>()?;
        let filler = db.table("filler")?;
        Ok(Self { db, shape, tables, filler })
    }

    /// Writes the rows that stay, many in a transaction.
    fn fill(&self) {
        for (rows, _) in &self.tables {
            let keys: Vec<_> = (0..self.shape.rows()).collect();
            for some in keys.chunks(if self.shape == Shape::Narrow { 1000 } else { 20 }) {
                let put =
                    |key: &u64, txn: &ermine::Transaction<'_>| txn.put(rows, key, self.shape.value(*key).as_slice());
                self.db.run(|txn| some.iter().try_for_each(|key| put(key, txn))).unwrap();
            }
        }
    }

    /// Writes as much log as `segments` segments hold.
    fn churn(&self, segments: u64) {
        for turn in 0..segments * 45 {
            self.db.run(|txn| txn.put(&self.filler, &(turn % 20), vec![turn as u8; 6000].as_slice())).unwrap();
        }
    }

    /// Writes some of the rows that stay once more, so that the cleaner finds them scattered.
    fn stir(&self, rng: &mut Rng) {
        let (rows, _) = &self.tables[rng.usize(..self.tables.len())];
        for _ in 0..20 {
            let key = rng.u64(..self.shape.rows());
            self.db.run(|txn| txn.put(rows, &key, self.shape.value(key).as_slice())).unwrap();
        }
    }

    fn clean(&self) -> u64 {
        self.churn(6);
        self.db.checkpoint().unwrap().moved
    }

    /// Checks that all rows exist, in both indexes.
    fn check(&self) {
        let expected: BTreeMap<_, _> = (0..self.shape.rows()).map(|key| (key, self.shape.value(key))).collect();
        for (number, (rows, by_length)) in self.tables.iter().enumerate() {
            let found = |all: Result<Vec<(u64, Vec<u8>)>>| match all {
                Ok(all) => all.into_iter().collect::<BTreeMap<_, _>>(),
                Err(error) => panic!("table {number} of {:?}: {error}", self.shape),
            };
            let all = found(self.db.run(|txn| txn.scan(rows, ..).collect()));
            assert!(all == expected, "table {number} of {:?}: other rows than were written", self.shape);
            let by_length = found(self.db.run(|txn| txn.scan_by(by_length, ..).collect()));
            assert!(by_length == expected, "table {number} of {:?}: other entries than rows", self.shape);
        }
    }
}

fn verify(directory: &FaultyDirectory) -> Verification {
    verify_in(&(Arc::new(directory.clone()) as Arc<dyn Directory>), &Options::default(), &mut |_| ()).unwrap()
}

fn assert_right(directory: &FaultyDirectory, when: &str) {
    let verification = verify(directory);
    assert!(verification.is_right(), "{when}: {:?}", verification.findings);
}

/// Builds and closes a database whose rows the cleaner has moved at least once; returns how many were moved.
fn build(directory: &FaultyDirectory, shape: Shape) -> u64 {
    let mut rng = Rng::with_seed(7);
    let cleaned = Cleaned::open(directory, shape).unwrap();
    cleaned.fill();
    cleaned.stir(&mut rng);
    let mut moved = cleaned.clean();
    cleaned.stir(&mut rng);
    moved += cleaned.clean();
    cleaned.check();
    moved
}

#[test]
fn rows_of_every_shape_survive_the_cleaner() {
    for shape in Shape::ALL {
        let directory = FaultyDirectory::new();
        let moved = build(&directory, shape);
        assert!(moved >= shape.tables() * shape.rows() / 2, "{shape:?}: only {moved} rows were moved");
        for opening in 0..3 {
            assert_right(&directory, &format!("{shape:?}, before opening {opening}"));
            let cleaned = Cleaned::open(&directory, shape).unwrap();
            cleaned.check();
            cleaned.stir(&mut Rng::with_seed(opening));
            cleaned.clean();
            cleaned.check();
        }
        assert_right(&directory, &format!("{shape:?}, at the end"));
    }
}

/// Returns how many crash points of a shape are checked, and the seed they are drawn with.
fn points_and_seed() -> (usize, u64) {
    let number = |name: &str| std::env::var(name).ok().map(|number| number.parse::<u64>().expect("a number"));
    let seed = number("ERMINE_TEST_SEED").unwrap_or_else(|| fastrand::u64(..1 << 48));
    println!("ERMINE_TEST_SEED={seed}");
    (number("ERMINE_TEST_POINTS").map_or(6, |points| points as usize), seed)
}

#[test]
fn rows_of_every_shape_survive_a_crash_while_they_are_cleaned() {
    let (points, seed) = points_and_seed();
    let mut rng = Rng::with_seed(seed);
    for shape in Shape::ALL {
        let directory = FaultyDirectory::new();
        let filled = {
            let cleaned = Cleaned::open(&directory, shape).unwrap();
            cleaned.fill();
            cleaned.db.sync().unwrap();
            let filled = directory.operations();
            cleaned.clean();
            cleaned.stir(&mut rng);
            cleaned.clean();
            filled
        };
        let trace = directory.trace();
        for _ in 0..points {
            let at = rng.usize(filled..=trace.operations());
            let keep = [Keep::Nothing, Keep::Everything, Keep::Last, Keep::Random(rng.u64(..))][rng.usize(..4)];
            let crashed = trace.crash(at, keep);
            let when = format!("{shape:?}, seed {seed}, crash at {at}, {keep:?}");
            assert_right(&crashed, &when);
            let cleaned = Cleaned::open(&crashed, shape).unwrap_or_else(|error| panic!("{when}: {error}"));
            cleaned.check();
            cleaned.clean();
            cleaned.check();
            drop(cleaned);
            assert_right(&crashed, &format!("{when}, and cleaned again"));
            Cleaned::open(&crashed, shape).unwrap().check();
        }
    }
}

/// Returns the names of the files that only an unfinished checkpoint has made.
fn unfinished(directory: &FaultyDirectory, before: &[String]) -> Vec<String> {
    let is_its = |name: &String| name.starts_with("checkpoint-") || name.starts_with("cold-");
    directory.list().unwrap().into_iter().filter(|name| is_its(name) && !before.contains(name)).collect()
}

#[test]
fn a_checkpoint_that_fails_leaves_nothing_and_the_next_one_works() {
    for shape in Shape::ALL {
        let directory = FaultyDirectory::new();
        let cleaned = Cleaned::open(&directory, shape).unwrap();
        cleaned.fill();
        cleaned.churn(6);
        let (is_full, written, room) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU64::new(0)), Arc::default());
        let (full, count, limit) = (is_full.clone(), written.clone(), Arc::<AtomicU64>::clone(&room));
        directory.fail_when(move |_, attempt| match attempt {
            Attempt::Write { name, bytes, .. }
                if full.load(SeqCst) && (name.starts_with("checkpoint-") || name.starts_with("cold-")) =>
            {
                let before = count.fetch_add(bytes as u64, SeqCst);
                (before + bytes as u64 > limit.load(SeqCst)).then_some(Fault::Short(bytes / 2))
            }
            Attempt::Create(name) if full.load(SeqCst) && name.starts_with("marker-") => Some(Fault::NoSpace),
            _ => None,
        });
        let before = directory.list().unwrap();
        let mut rooms = vec![0, 100, 5_000, 100_000, 300_000, 600_000, 1 << 40];
        // With unlimited room a checkpoint fails only at its very end, several times over.
        rooms.extend([1 << 40; 3]);
        for bytes in rooms {
            written.store(0, SeqCst);
            room.store(bytes, SeqCst);
            let failed = cleaned.db.checkpoint();
            assert!(matches!(&failed, Err(Error::DiskFull(_))), "{shape:?}, room for {bytes}: {failed:?}");
            let left = unfinished(&directory, &before);
            assert!(left.is_empty(), "{shape:?}, room for {bytes}: {left:?}");
            cleaned.check();
        }
        is_full.store(false, SeqCst);
        assert!(cleaned.db.checkpoint().unwrap().moved > 0, "{shape:?}");
        cleaned.check();
        drop(cleaned);
        assert_right(&directory, &format!("{shape:?}"));
        Cleaned::open(&directory, shape).unwrap().check();
    }
}

#[test]
fn checkpoints_that_fail_while_rows_are_loaded_do_not_add_up() {
    let directory = FaultyDirectory::new();
    build(&directory, Shape::Wide);
    let directory = directory.trace().crash(directory.operations(), Keep::Everything);
    let cleaned = Cleaned::open(&directory, Shape::Wide).unwrap();
    // Meanwhile some rows are read into memory, and others are moved where they are.
    cleaned.churn(6);
    fail_six_checkpoints(&directory, cleaned);
}

#[test]
fn checkpoints_that_fail_while_most_of_a_file_is_waste_do_not_add_up() {
    let directory = FaultyDirectory::new();
    let cleaned = Cleaned::open(&directory, Shape::Wide).unwrap();
    cleaned.fill();
    cleaned.clean();
    // The next run of the cleaner moves these rows out of the log, and the others out of the file that they leave.
    let (rows, _) = &cleaned.tables[0];
    for key in 0..Shape::Wide.rows() * 3 / 5 {
        cleaned.db.run(|txn| txn.put(rows, &key, Shape::Wide.value(key).as_slice())).unwrap();
    }
    cleaned.db.checkpoint().unwrap();
    cleaned.churn(6);
    fail_six_checkpoints(&directory, cleaned);
}

/// Fails checkpoints at their very end, and checks that all of them together leave no more than the first one.
fn fail_six_checkpoints(directory: &FaultyDirectory, cleaned: Cleaned) {
    directory.fail_when(|_, attempt| match attempt {
        Attempt::Create(name) if name.starts_with("marker-") => Some(Fault::NoSpace),
        _ => None,
    });
    let cold = || directory.bytes_of("cold-");
    assert!(cleaned.db.checkpoint().is_err());
    let left = cold();
    for _ in 0..5 {
        assert!(cleaned.db.checkpoint().is_err());
        cleaned.check();
    }
    assert!(cold() <= left, "{} bytes of the cold store after one failure, {} after six", left, cold());
    directory.fail_when(|_, _| None);
    cleaned.db.checkpoint().unwrap();
    let shape = cleaned.shape;
    drop(cleaned);
    assert_right(directory, "after the failures");
    Cleaned::open(directory, shape).unwrap().check();
}

/// The fault that the narrow shape is for:
/// `RUSTFLAGS="--cfg ermine_mutants" cargo test -p ermine --test all a_fault -- --test-threads 1`.
#[cfg(ermine_mutants)]
#[test]
fn a_fault_on_purpose_is_found() {
    use ermine::mutant::Mutant;
    let began = std::time::Instant::now();
    let directory = FaultyDirectory::new();
    Mutant::choose(Some(Mutant::ShortRecordNumber));
    build(&directory, Shape::Narrow);
    let reads = std::panic::catch_unwind(|| Cleaned::open(&directory, Shape::Narrow).unwrap().check());
    Mutant::choose(None);
    assert!(reads.is_err(), "rows with wrong addresses were read");
    assert!(!verify(&directory).is_right(), "verify does not follow the addresses of a checkpoint");
    println!("ShortRecordNumber: found in {:.1?}", began.elapsed());
}

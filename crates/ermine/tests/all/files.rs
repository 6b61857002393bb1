//! Goal: the directory of the tests behaves as the operating system's does, as long as nothing fails.
//! Method: random operations from a printed seed on both, in turn; every result and error kind is compared.
//! `ERMINE_TEST_SEED=n` runs the one history of a failure again.

use std::{env, fs, io, path::Path, process, sync::Arc};

use ermine::{
    Database, Error, Options, Scheme,
    files::{Directory, File, Open, real::RealDirectory},
};
use ermine_testing::faulty::FaultyDirectory;
use fastrand::Rng;

const NAMES: [&str; 6] = ["log.1", "log.2", "checkpoint", "checkpoint.new", "..", "a/b"];

/// The outcome of an operation, in a form in which both sides can be compared.
#[derive(Debug, PartialEq)]
enum Outcome {
    Done,
    Opened,
    Names(Vec<String>),
    Bytes(Vec<u8>),
    Length(u64),
    Failed(io::ErrorKind),
    /// The system has several errors for one mistake.
    Refused,
}

/// One of the two sides, with its open files.
struct Side {
    directory: Box<dyn Directory>,
    files: Vec<Arc<dyn File>>,
}

#[derive(Debug)]
enum Step {
    Open(&'static str, Open),
    Close(usize),
    Rename(&'static str, &'static str),
    Remove(&'static str),
    List,
    SyncDirectory,
    Write(usize, u64, Vec<u8>),
    Read(usize, u64, usize),
    SetLength(usize, u64),
    Length(usize),
    Sync(usize),
}

impl Step {
    fn random(random: &mut Rng, open: usize) -> Self {
        let name = |random: &mut Rng| {
            let among = if random.u8(..20) == 0 { &NAMES[..] } else { &NAMES[..4] };
            among[random.usize(..among.len())]
        };
        let file = if open == 0 { 0 } else { random.usize(..open) };
        match random.u8(..100) {
            0..8 => Self::Open(name(random), Open::Create),
            8..12 => Self::Open(name(random), Open::Write),
            12..16 => Self::Open(name(random), Open::Read),
            16..20 => Self::Rename(name(random), name(random)),
            20..23 => Self::Remove(name(random)),
            23..26 => Self::List,
            26..27 => Self::SyncDirectory,
            _ if open == 0 => Self::List,
            27..33 => Self::Close(file),
            33..58 => {
                let bytes = random.usize(..5000);
                Self::Write(file, random.u64(..20_000), (0..bytes).map(|_| random.u8(..)).collect())
            }
            58..80 => Self::Read(file, random.u64(..25_000), random.usize(..8000)),
            80..90 => Self::SetLength(file, random.u64(..25_000)),
            90..98 => Self::Length(file),
            _ => Self::Sync(file),
        }
    }
}

impl Side {
    fn take(&mut self, step: &Step) -> Outcome {
        self.attempt(step).unwrap_or_else(|error| Outcome::Failed(error.kind()))
    }

    fn attempt(&mut self, step: &Step) -> io::Result<Outcome> {
        match step {
            Step::Open(name, how) => {
                self.files.push(self.directory.open(name, *how)?);
                return Ok(Outcome::Opened);
            }
            Step::Close(file) => drop(self.files.swap_remove(*file)),
            Step::Rename(from, to) => self.directory.rename(from, to)?,
            Step::Remove(name) => self.directory.remove(name)?,
            Step::List => {
                let mut names = self.directory.list()?;
                names.sort();
                return Ok(Outcome::Names(names));
            }
            Step::SyncDirectory => self.directory.sync()?,
            Step::Write(file, offset, bytes) => self.files[*file].write_at(*offset, bytes)?,
            Step::Read(file, offset, bytes) => {
                let mut into = vec![0xee; *bytes];
                let read = self.files[*file].read_at(*offset, &mut into)?;
                assert!(into[read..].iter().all(|byte| *byte == 0xee), "no more is filled than was read");
                into.truncate(read);
                return Ok(Outcome::Bytes(into));
            }
            Step::SetLength(file, bytes) => {
                let set = self.files[*file].set_length(*bytes);
                return Ok(set.map_or(Outcome::Refused, |()| Outcome::Done));
            }
            Step::Length(file) => return Ok(Outcome::Length(self.files[*file].length()?)),
            Step::Sync(file) => self.files[*file].sync()?,
        }
        Ok(Outcome::Done)
    }
}

/// A directory that is removed at the end.
struct Scratch(std::path::PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn both_behave_alike() {
    let seed = env::var("ERMINE_TEST_SEED").map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
    println!("seed {seed}");
    let mut random = Rng::with_seed(seed);
    for history in 0..20 {
        let scratch = Scratch(env::temp_dir().join(format!("ermine-{}-alike-{history}", process::id())));
        let _ = fs::remove_dir_all(&scratch.0);
        let mut real = Side { directory: Box::new(RealDirectory::create(&scratch.0).unwrap()), files: Vec::new() };
        let mut faulty = Side { directory: Box::new(FaultyDirectory::new()), files: Vec::new() };
        for number in 0..500 {
            let step = Step::random(&mut random, real.files.len());
            let (one, other) = (real.take(&step), faulty.take(&step));
            assert!(one == other, "history {history}, step {number}, {step:?}: real {one:?}, faulty {other:?}");
        }
    }
}

/// Directories and files of both families are accessible to their owner alone, whatever umask the process was started
/// with.
#[test]
fn what_is_made_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    for scheme in [Scheme::SiSsn, Scheme::Silo] {
        let scratch = Scratch(env::temp_dir().join(format!("ermine-{}-modes-{scheme}", process::id())));
        let _ = fs::remove_dir_all(&scratch.0);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let db = Database::open(&scratch.0, Options::default().scheme(scheme)).unwrap();
        let table = db.table::<u64, Vec<u8>>("t").unwrap();
        db.run(|txn| txn.put(&table, &1, &vec![1; 100_000])).unwrap();
        db.checkpoint().unwrap();
        assert_eq!(mode(&scratch.0), 0o700);
        let files: Vec<_> = fs::read_dir(&scratch.0).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(files.len() > 3, "{files:?}");
        files.iter().for_each(|file| assert_eq!(mode(file), 0o600, "{file:?}"));
    }
}

#[test]
fn a_mistyped_directory_does_not_come_up_as_an_empty_database() {
    let scratch = Scratch(env::temp_dir().join(format!("ermine-{}-mistyped", process::id())));
    let _ = fs::remove_dir_all(&scratch.0);
    let existing = || Database::open(&scratch.0, Options::default().create(false)).map(drop);
    let refused = |result: Result<(), Error>| {
        let message = result.unwrap_err().to_string();
        assert!(message.contains("no database in") && message.contains("mistyped"), "{message}");
    };
    refused(existing());
    assert!(!scratch.0.exists(), "nothing is made");
    // A directory of another program.
    fs::create_dir(&scratch.0).unwrap();
    fs::write(scratch.0.join("letter"), "dear").unwrap();
    refused(existing());
    assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 1);
    drop(Database::open(&scratch.0, Options::default()).unwrap().table::<u64, u64>("t").unwrap());
    existing().unwrap();
    // The same without the lock file, as in a backup.
    fs::remove_file(scratch.0.join("LOCK")).unwrap();
    existing().unwrap();
}

#[test]
fn a_directory_is_one_database_s_also_when_its_lock_file_is_removed() {
    let scratch = Scratch(env::temp_dir().join(format!("ermine-{}-unlocked", process::id())));
    let _ = fs::remove_dir_all(&scratch.0);
    let open = || Database::open(&scratch.0, Options::default());
    let first = open().unwrap();
    let in_use = |result: Result<(), Error>, by: &str| {
        let message = result.unwrap_err().to_string();
        assert!(message.contains("is in use by") && message.contains(by), "{message}");
    };
    in_use(open().map(drop), &format!("process {}", process::id()));
    fs::remove_file(scratch.0.join("LOCK")).unwrap();
    in_use(open().map(drop), "another process");
    in_use(ermine::verify(&scratch.0, &Options::default(), &mut |_| ()).map(drop), "another process");
    drop(first);
    open().unwrap();
}

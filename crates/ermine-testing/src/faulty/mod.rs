//! A directory in memory that loses, tears and breaks data as a real one may: test equipment.
//!
//! A test runs its workload in a [`FaultyDirectory`], which records every operation. From the record, a [`Trace`], the
//! test builds the directory as a crash at any point may have left it, any number of times, and runs recovery there:
//!
//! ```
//! use ermine::files::{Directory, Open};
//! use ermine_testing::faulty::{FaultyDirectory, Keep};
//!
//! let directory = FaultyDirectory::new();
//! let log = directory.open("log", Open::Create)?;
//! directory.sync()?;
//! log.write_at(0, b"transaction 1")?;
//! log.sync()?;
//! directory.mark(1); // acknowledged
//! let trace = directory.trace();
//! for at in 0..=trace.operations() {
//!     let crashed = trace.crash(at, Keep::Random(7));
//!     if trace.marks_before(at).contains(&1) {
//!         assert_eq!(crashed.open("log", Open::Read)?.length()?, 13);
//!     }
//! }
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! In addition, operations can be made to fail while the workload runs ([`Fault`]), and files at rest can be damaged
//! ([`FaultyDirectory::flip`] and others).
//!
//! 1. Operations are numbered from zero in the order in which they took effect, including those that failed. An empty
//!    write is not an operation.
//! 2. Without faults it behaves as `files::real` does.
//! 3. A directory after a crash is like any other: it can crash again. It shares with the original directory only
//!    memory that neither changes.
//!
//! | file | does |
//! |---|---|
//! | `mod` | the test's interface: the directory and its files |
//! | `running` | the directory as the running process sees it |
//! | `fault` | which operations fail |
//! | `trace` | the operations, in order |
//! | `disk` | the changes that are certainly on the disk, and those that may be |
//! | `crash` | decides which of the latter survive |
//! | `content` | bytes of files, shared between states |

mod content;
mod crash;
mod disk;
mod fault;
mod running;
mod trace;

use std::{
    collections::BTreeMap,
    fmt, io,
    sync::{Arc, Mutex, MutexGuard},
};

use self::{
    content::Content,
    disk::{Disk, FileNumber, Names},
    fault::system,
    running::State,
    trace::{Marks, Operation},
};
pub use self::{
    crash::Keep,
    fault::{Attempt, Fault},
    trace::Trace,
};
use super::{Directory, File, Open, failure::during};

/// The path that a directory in memory reports.
const PATH: &str = "(memory)";

/// A directory in memory. Its clones are the same directory.
#[derive(Clone, Default)]
pub struct FaultyDirectory {
    state: Arc<Mutex<State>>,
}

impl FaultyDirectory {
    /// Creates an empty directory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a directory with these files and no past.
    fn with(names: Names, contents: Vec<Content>) -> Self {
        Self { state: Arc::new(Mutex::new(State::with(names, contents))) }
    }

    /// Creates a directory that began as `start` says, and executed these operations.
    fn resumed(start: Disk, operations: Vec<Operation>, marks: Marks) -> Self {
        Self { state: Arc::new(Mutex::new(State::resumed(start, operations, marks))) }
    }

    /// Records a mark between the operations, such as "transaction 7 was acknowledged".
    pub fn mark(&self, what: u64) {
        self.state().mark(what);
    }

    /// Returns the number of operations so far; the next one has this number.
    pub fn operations(&self) -> usize {
        self.state().operations()
    }

    /// Returns the record of all operations so far.
    pub fn trace(&self) -> Trace {
        let (start, operations, marks) = self.state().record();
        Trace::new(start, operations, marks)
    }

    /// Returns the bytes of all files at one moment, by name. A database that is open may remove a file between a list
    /// of names and the opening of one.
    pub fn contents(&self) -> BTreeMap<String, Vec<u8>> {
        let state = self.state();
        let bytes = |content: &Content| {
            let mut bytes = vec![0; content.length() as usize];
            content.read(0, &mut bytes);
            bytes
        };
        state.names.iter().map(|(name, file)| (name.clone(), bytes(&state.files[file.0].content))).collect()
    }

    /// Returns how many bytes the files whose names begin so have at one moment.
    pub fn bytes_of(&self, prefix: &str) -> u64 {
        let state = self.state();
        let files = state.names.iter().filter(|(name, _)| name.starts_with(prefix));
        files.map(|(_, file)| state.files[file.0].content.length()).sum()
    }

    /// Makes everything durable, as a machine does that is shut down properly, and forgets the past: the trace begins
    /// anew, and operations are numbered from zero again.
    pub fn settle(&self) {
        self.state().settle();
    }

    /// Makes the operation with this number fail.
    pub fn fail_at(&self, operation: usize, fault: Fault) {
        self.state().faults.plan(operation, fault);
    }

    /// Calls `policy` before every operation, with its number, to decide whether it fails. The policy must not use the
    /// directory.
    pub fn fail_when(&self, policy: impl FnMut(usize, Attempt<'_>) -> Option<Fault> + Send + 'static) {
        self.state().faults.ask(Box::new(policy));
    }

    /// From now on, reads of files fail (EIO), or do not.
    pub fn fail_reads(&self, fail: bool) {
        self.state().faults.unreadable = fail;
    }

    /// Flips one bit of a file at rest. As the other kinds of damage do, it [settles](Self::settle) the directory
    /// first.
    pub fn flip(&self, name: &str, offset: u64, bit: u8) -> io::Result<()> {
        self.damage("flip a bit of", name, |content| {
            let mut byte = [0];
            if bit > 7 || content.read(offset, &mut byte) == 0 {
                return Err(system::INVALID.error());
            }
            content.write(offset, &[byte[0] ^ (1 << bit)]);
            Ok(())
        })
    }

    /// Cuts a file at rest.
    pub fn cut(&self, name: &str, bytes: u64) -> io::Result<()> {
        self.damage("cut", name, |content| {
            if bytes > content.length() {
                return Err(system::INVALID.error());
            }
            content.set_length(bytes);
            Ok(())
        })
    }

    /// Removes a file at rest.
    pub fn lose(&self, name: &str) -> io::Result<()> {
        self.damage("lose", name, |_| Ok(()))?;
        let mut state = self.state();
        state.names.remove(name);
        state.settle();
        Ok(())
    }

    fn damage(
        &self,
        operation: &'static str,
        name: &str,
        damage: impl FnOnce(&mut Content) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut state = self.state();
        let damaged = state.find(name).and_then(|file| damage(&mut state.files[file.0].content));
        state.settle();
        damaged.map_err(at(operation, name))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// A test that failed in another thread reports that itself.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// As [`during`], for a file of the directory.
fn at(operation: &'static str, name: &str) -> impl FnOnce(io::Error) -> io::Error {
    during(operation, format!("{PATH}/{name}"))
}

impl fmt::Debug for FaultyDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        let files: BTreeMap<_, _> =
            state.names.iter().map(|(name, file)| (name, state.files[file.0].content.length())).collect();
        f.debug_struct("FaultyDirectory")
            .field("files", &files)
            .field("operations", &state.operations())
            .field("faults", &state.faults)
            .finish()
    }
}

impl Directory for FaultyDirectory {
    fn list(&self) -> io::Result<Vec<String>> {
        let state = self.state();
        state.faults.check_machine().map_err(during("list", PATH))?;
        Ok(state.names.keys().cloned().collect())
    }

    fn open(&self, name: &str, how: Open) -> io::Result<Arc<dyn File>> {
        let operation = if how == Open::Create { "create" } else { "open" };
        let file = self.state().open(name, how).map_err(at(operation, name))?;
        Ok(Arc::new(FaultyFile { state: self.state.clone(), file, writes: how != Open::Read }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let renamed = self.state().rename(from, to);
        renamed.map_err(during("rename", format_args!("{PATH}/{from} to {PATH}/{to}")))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.state().remove(name).map_err(at("remove", name))
    }

    fn sync(&self) -> io::Result<()> {
        self.state().sync_directory().map_err(during("sync directory", PATH))
    }

    fn path(&self) -> String {
        PATH.into()
    }
}

/// An open file of a [`FaultyDirectory`].
struct FaultyFile {
    state: Arc<Mutex<State>>,
    file: FileNumber,
    /// Whether it was opened for writing.
    writes: bool,
}

impl FaultyFile {
    /// Applies an operation to the directory; its error names the operation.
    fn during<R>(&self, operation: &'static str, act: impl FnOnce(&mut State) -> io::Result<R>) -> io::Result<R> {
        let mut state = lock(&self.state);
        let done = act(&mut state);
        done.map_err(at(operation, &state.files[self.file.0].name))
    }

    fn check_writes(&self) -> io::Result<()> {
        if self.writes { Ok(()) } else { Err(system::BAD_FILE.error()) }
    }
}

impl File for FaultyFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.during("write", |state| {
            if bytes.is_empty() {
                // The system is not called.
                return state.faults.check_machine();
            }
            self.check_writes()?;
            state.write(self.file, offset, bytes)
        })
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.during("read", |state| {
            state.faults.check_read()?;
            Ok(state.files[self.file.0].content.read(offset, into))
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.during("sync", |state| state.sync(self.file))
    }

    fn length(&self) -> io::Result<u64> {
        self.during("ask the length of", |state| {
            state.faults.check_machine()?;
            Ok(state.files[self.file.0].content.length())
        })
    }

    fn set_length(&self, bytes: u64) -> io::Result<()> {
        self.during("set the length of", |state| {
            self.check_writes()?;
            state.set_length(self.file, bytes)
        })
    }
}

impl fmt::Debug for FaultyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = lock(&self.state);
        let running = &state.files[self.file.0];
        f.debug_struct("FaultyFile").field("name", &running.name).field("length", &running.content.length()).finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const fn threads_may_share<T: Send + Sync>() {}
    const _: () = threads_may_share::<FaultyDirectory>();
    const _: () = threads_may_share::<Trace>();

    fn content(directory: &FaultyDirectory, name: &str) -> Vec<u8> {
        let file = directory.open(name, Open::Read).unwrap();
        let mut bytes = vec![0; file.length().unwrap() as usize];
        assert_eq!(file.read_at(0, &mut bytes).unwrap(), bytes.len());
        bytes
    }

    #[test]
    fn operations_are_numbered_and_marks_stand_between_them() {
        let directory = FaultyDirectory::new();
        directory.mark(7);
        let file = directory.open("a", Open::Create).unwrap(); // 0
        directory.open("a", Open::Read).unwrap();
        assert_eq!(directory.open("a", Open::Create).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        file.write_at(0, b"").unwrap();
        file.write_at(0, b"abc").unwrap(); // 1
        directory.mark(8);
        directory.mark(9);
        file.set_length(700).unwrap(); // 2
        file.sync().unwrap(); // 3
        directory.rename("a", "b").unwrap(); // 4
        directory.sync().unwrap(); // 5
        directory.remove("b").unwrap(); // 6
        assert_eq!(directory.operations(), 7);
        let trace = directory.trace();
        let told = "{0: create a as file 0, 1: write file 0, 0 + 3, 2: set the length of file 0 to 700, \
                    3: sync file 0, 4: rename a to b, 5: sync the directory, 6: remove b}";
        assert_eq!(format!("{trace:?}"), told);
        assert_eq!(trace.operations(), 7);
        assert_eq!([0, 1, 2, 7].map(|at| trace.marks_before(at)), [&[7][..], &[7], &[7, 8, 9], &[7, 8, 9]]);
    }

    #[test]
    fn a_removed_file_is_still_read_by_who_has_it_open() {
        let directory = FaultyDirectory::new();
        let old = directory.open("a", Open::Create).unwrap();
        old.write_at(0, b"old").unwrap();
        directory.remove("a").unwrap();
        directory.open("a", Open::Create).unwrap().write_at(0, b"new").unwrap();
        let mut into = [0; 3];
        old.read_at(0, &mut into).unwrap();
        assert_eq!(&into, b"old");
        assert_eq!(content(&directory, "a"), b"new");
    }

    #[test]
    fn a_full_device_writes_nothing_or_a_part() {
        let directory = FaultyDirectory::new();
        let file = directory.open("a", Open::Create).unwrap();
        directory.fail_at(1, Fault::NoSpace);
        directory.fail_at(2, Fault::Short(2));
        directory.fail_at(3, Fault::Short(0));
        let error = file.write_at(0, b"abc").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(error.to_string().starts_with("cannot write (memory)/a: "), "{error}");
        assert_eq!(content(&directory, "a"), b"");
        assert_eq!(file.write_at(0, b"abc").unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(content(&directory, "a"), b"ab");
        assert_eq!(file.write_at(10, b"abc").unwrap_err().kind(), io::ErrorKind::StorageFull);
        file.write_at(0, b"abc").unwrap();
        assert_eq!(content(&directory, "a"), b"abc");
        assert_eq!(directory.operations(), 5);
        assert_eq!(content(&directory.trace().crash(3, Keep::Everything), "a"), b"ab");
    }

    #[test]
    fn a_policy_sees_what_is_tried() {
        let directory = FaultyDirectory::new();
        let mut left = 1000;
        directory.fail_when(move |_, attempt| match attempt {
            Attempt::Write { name: "log", bytes, .. } if bytes > left => Some(Fault::NoSpace),
            Attempt::Write { name: "log", bytes, .. } => {
                left -= bytes;
                None
            }
            Attempt::Rename { to: "forbidden", .. } => Some(Fault::Broken),
            _ => None,
        });
        let log = directory.open("log", Open::Create).unwrap();
        let other = directory.open("other", Open::Create).unwrap();
        log.write_at(0, &[1; 900]).unwrap();
        other.write_at(0, &[1; 900]).unwrap();
        assert!(log.write_at(900, &[1; 101]).is_err());
        log.write_at(900, &[1; 100]).unwrap();
        assert!(directory.rename("log", "forbidden").is_err());
        directory.rename("log", "allowed").unwrap();
        assert_eq!(directory.list().unwrap(), ["allowed", "other"]);
    }

    #[test]
    fn nothing_works_when_the_machine_is_gone() {
        let directory = FaultyDirectory::new();
        let file = directory.open("a", Open::Create).unwrap();
        file.write_at(0, b"abc").unwrap();
        directory.fail_at(2, Fault::Gone);
        assert_eq!(file.read_at(0, &mut [0]).unwrap(), 1);
        assert!(file.sync().is_err());
        assert!(file.write_at(0, b"x").is_err() && file.set_length(9).is_err() && file.sync().is_err());
        assert!(file.read_at(0, &mut [0]).is_err() && file.length().is_err());
        assert!(directory.list().is_err() && directory.sync().is_err());
        assert!(directory.open("a", Open::Read).is_err() && directory.open("b", Open::Create).is_err());
        assert!(directory.rename("a", "b").is_err() && directory.remove("a").is_err());
        directory.mark(1);
        let trace = directory.trace();
        assert_eq!((trace.operations(), trace.marks_before(2)), (2, &[1][..]));
        assert_eq!(content(&trace.crash(2, Keep::Everything), "a"), b"abc");
        assert_eq!(trace.crash(2, Keep::Nothing).list().unwrap(), [""; 0]);
    }

    #[test]
    fn files_at_rest_are_damaged() {
        let directory = FaultyDirectory::new();
        for name in ["a", "b", "c"] {
            directory.open(name, Open::Create).unwrap().write_at(0, b"abc").unwrap();
        }
        directory.flip("a", 1, 0).unwrap();
        directory.cut("b", 1).unwrap();
        directory.lose("c").unwrap();
        assert_eq!((content(&directory, "a"), content(&directory, "b")), (b"acc".to_vec(), b"a".to_vec()));
        assert_eq!(directory.list().unwrap(), ["a", "b"]);
        assert_eq!(directory.operations(), 0);
        let crashed = directory.trace().crash(0, Keep::Nothing);
        assert_eq!((content(&crashed, "a"), content(&crashed, "b")), (b"acc".to_vec(), b"a".to_vec()));

        assert_eq!(directory.flip("c", 0, 0).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(directory.lose("c").unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(directory.flip("a", 3, 0).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(directory.flip("a", 0, 8).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(directory.cut("a", 4).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_crash_leaves_the_running_directory_alone_and_may_be_followed_by_another() {
        let directory = FaultyDirectory::new();
        let file = directory.open("a", Open::Create).unwrap();
        directory.sync().unwrap();
        file.write_at(0, &[1; 5000]).unwrap();
        file.sync().unwrap();
        let crashed = directory.trace().crash(4, Keep::Nothing);
        let again = crashed.open("a", Open::Write).unwrap();
        again.write_at(0, &[2; 10]).unwrap();
        again.sync().unwrap();
        again.write_at(0, &[3; 10]).unwrap();
        assert_eq!(content(&directory, "a"), [1; 5000]);
        let twice = crashed.trace().crash(3, Keep::Nothing);
        assert_eq!(content(&twice, "a"), [[2; 10].as_slice(), &[1; 4990]].concat());
        assert_eq!(content(&crashed, "a")[..10], [3; 10]);
    }

    #[test]
    fn a_killed_process_leaves_what_is_not_synced_unsynced() {
        let directory = FaultyDirectory::new();
        let file = directory.open("a", Open::Create).unwrap();
        directory.sync().unwrap();
        file.write_at(0, b"abc").unwrap();
        directory.mark(1);
        file.write_at(0, b"xyz").unwrap();
        directory.rename("a", "b").unwrap();
        directory.mark(2);
        let killed = directory.trace().kill(3);
        assert_eq!((content(&killed, "a"), killed.operations()), (b"abc".to_vec(), 3));
        killed.open("c", Open::Create).unwrap();
        let trace = killed.trace();
        assert_eq!(trace.marks_before(4), [1]);
        assert_eq!(trace.crash(4, Keep::Everything).list().unwrap(), ["a", "c"]);
        assert_eq!(content(&trace.crash(4, Keep::Nothing), "a"), b"");
        killed.open("a", Open::Write).unwrap().sync().unwrap();
        assert_eq!(content(&killed.trace().crash(5, Keep::Nothing), "a"), b"abc");
        let renamed = directory.trace().kill(5);
        assert_eq!((renamed.list().unwrap(), content(&renamed, "b")), (vec!["b".to_string()], b"xyz".to_vec()));
    }

    #[test]
    fn threads_write_side_by_side() {
        let directory = FaultyDirectory::new();
        let file = directory.open("a", Open::Create).unwrap();
        std::thread::scope(|threads| {
            for thread in 0..4u64 {
                let file = &file;
                threads.spawn(move || {
                    for at in 0..100 {
                        file.write_at((at * 4 + thread) * 100, &[thread as u8; 100]).unwrap();
                    }
                    file.sync().unwrap();
                });
            }
        });
        assert_eq!(directory.operations(), 1 + 4 * 101);
        let expected: Vec<u8> = (0..40_000).map(|at| (at / 100 % 4) as u8).collect();
        assert_eq!(content(&directory, "a"), expected);
        let trace = directory.trace();
        directory.sync().unwrap();
        assert_eq!(content(&trace.crash(trace.operations(), Keep::Everything), "a"), expected);
    }
}

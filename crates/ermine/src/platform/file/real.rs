//! The operating system's files.
//!
//! 1. A file is synced with `fdatasync`, which on Linux covers its length too: that is metadata without which the data
//!    could not be read back.
//! 2. A file that grows allocates its space on the device at once where the system supports that, so that a full device
//!    is detected when a log file is prepared and not while a commit is in flight.
//! 3. The path is made absolute when the directory is opened: it stays valid if the process changes its working
//!    directory later.
//! 4. Whole pages from or to whole pages of memory bypass the page cache, where the system supports that (Linux:
//!    `O_DIRECT`): the log is not read again soon, and copying it would cost as much as writing or reading it
//!    (docs/benchmarks.md).
//! 5. A part that is announced is read into the page cache in the background, where the system supports that (Linux:
//!    `POSIX_FADV_WILLNEED`). Threads that ask for one page at a time share its read there.
//! 6. Directories and files are created with permissions for their owner alone.
//! 7. Every error names the operation and the path, and keeps the kind and the message of the system's error.

use std::{
    fs::{self, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

pub use super::lock::Lock;
pub(crate) use super::lock::NAME as LOCK;
use super::{
    Directory, File, Open,
    failure::{check_name, during},
};

/// Permissions of the directories and files that are created.
const DIRECTORY_MODE: u32 = 0o700;
pub(super) const FILE_MODE: u32 = 0o600;

/// A directory of the file system.
#[derive(Debug)]
pub struct RealDirectory {
    path: PathBuf,
    /// Open for its syncs.
    handle: fs::File,
}

impl RealDirectory {
    /// Opens a directory that exists.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        let opened = fs::canonicalize(path).and_then(|path| {
            if !fs::metadata(&path)?.is_dir() {
                return Err(io::ErrorKind::NotADirectory.into());
            }
            Ok(Self { handle: fs::File::open(&path)?, path })
        });
        opened.map_err(during("open directory", path.display()))
    }

    /// Opens a directory, and creates it first if it does not exist. Its parent must exist. The directory survives a
    /// crash.
    pub fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        match fs::DirBuilder::new().mode(DIRECTORY_MODE).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(during("create directory", path.display())(error));
            }
            // An existing directory may have been created just before a crash: its name is synced as well.
            _ => {}
        }
        let directory = Self::open(path)?;
        if let Some(parent) = directory.path.parent() {
            let synced = fs::File::open(parent).and_then(|parent| parent.sync_all());
            synced.map_err(during("sync directory", parent.display()))?;
        }
        Ok(directory)
    }

    /// Locks the directory for this process, as long as the lock lives.
    pub fn lock(&self) -> io::Result<Lock> {
        Lock::take(&self.path)
    }

    /// As [`lock`](Self::lock), for a process that only reads: leaves no trace. `None`: the directory was never locked.
    pub(crate) fn lock_to_look(&self) -> io::Result<Option<Lock>> {
        Lock::take_to_look(&self.path)
    }

    /// Returns the directory's permissions, if users other than its owner have any.
    pub(crate) fn open_to_others(&self) -> Option<u32> {
        let mode = self.handle.metadata().ok()?.permissions().mode() & 0o777;
        Some(mode).filter(|mode| mode & 0o077 != 0)
    }

    fn path_of(&self, name: &str) -> io::Result<PathBuf> {
        check_name(name).map_err(during("use the name", name))?;
        Ok(self.path.join(name))
    }
}

impl Directory for RealDirectory {
    fn list(&self) -> io::Result<Vec<String>> {
        let list = || {
            let mut names = Vec::new();
            for entry in fs::read_dir(&self.path)? {
                let entry = entry?;
                // A name that is not UTF-8 is not a file of the database.
                if !entry.file_type()?.is_dir()
                    && let Ok(name) = entry.file_name().into_string()
                {
                    names.push(name);
                }
            }
            Ok(names)
        };
        list().map_err(during("list", self.path.display()))
    }

    fn open(&self, name: &str, how: Open) -> io::Result<Arc<dyn File>> {
        let path = self.path_of(name)?;
        let operation = if how == Open::Create { "create" } else { "open" };
        let file = OpenOptions::new()
            .read(true)
            .write(how != Open::Read)
            .create_new(how == Open::Create)
            .mode(FILE_MODE)
            .open(&path)
            .map_err(during(operation, path.display()))?;
        Ok(Arc::new(RealFile { file, direct: OnceLock::new(), writable: how != Open::Read, path }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (from, to) = (self.path_of(from)?, self.path_of(to)?);
        fs::rename(&from, &to).map_err(during("rename", format_args!("{} to {}", from.display(), to.display())))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let path = self.path_of(name)?;
        fs::remove_file(&path).map_err(during("remove", path.display()))
    }

    fn sync(&self) -> io::Result<()> {
        self.handle.sync_all().map_err(during("sync directory", self.path.display()))
    }

    fn path(&self) -> String {
        self.path.display().to_string()
    }

    fn location(&self) -> Option<&Path> {
        Some(&self.path)
    }
}

/// Gives a file that is no longer written a second name in another directory. Not always possible: returns whether it
/// was.
pub(crate) fn link(from: &dyn Directory, to: &dyn Directory, name: &str) -> bool {
    let places = from.location().zip(to.location());
    places.is_some_and(|(from, to)| fs::hard_link(from.join(name), to.join(name)).is_ok())
}

/// A file of the file system.
#[derive(Debug)]
struct RealFile {
    file: fs::File,
    /// The same file without the page cache, opened at the first access that can use it.
    direct: OnceLock<Option<fs::File>>,
    writable: bool,
    /// The file's path when it was opened.
    path: PathBuf,
}

impl RealFile {
    /// Returns the handle for an access that the device can do directly: whole pages from or to whole pages. `None`:
    /// not possible for this access, or not supported by the system or file system.
    fn direct(&self, offset: u64, bytes: &[u8]) -> Option<&fs::File> {
        let is_whole = is_whole(bytes) && offset.is_multiple_of(PAGE as u64);
        if is_whole { self.direct.get_or_init(|| open_direct(&self.file, self.writable)).as_ref() } else { None }
    }
}

const PAGE: usize = 4096;

/// Whether these are whole pages of memory.
fn is_whole(bytes: &[u8]) -> bool {
    bytes.as_ptr().addr().is_multiple_of(PAGE) && bytes.len().is_multiple_of(PAGE)
}

/// Writes part of two pieces, in one request; returns the number of bytes.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn write_some_of_both(file: &fs::File, offset: u64, first: &[u8], second: &[u8]) -> io::Result<usize> {
    Ok(rustix::io::pwritev(file, &[io::IoSlice::new(first), io::IoSlice::new(second)], offset)?)
}

/// Writes nothing: a single request for both is not supported.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn write_some_of_both(_: &fs::File, _: u64, _: &[u8], _: &[u8]) -> io::Result<usize> {
    Ok(0)
}

/// Starts to read a part of a file into the page cache.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn start_reading(file: &fs::File, offset: u64, bytes: u64) {
    use std::num::NonZeroU64;

    use rustix::fs::Advice;
    /// Linux reads no more for one request than it reads ahead by itself, which is this much by default.
    const REQUEST_BYTES: u64 = 128 << 10;
    let end = offset.saturating_add(bytes);
    for at in (offset..end).step_by(REQUEST_BYTES as usize) {
        let _ = rustix::fs::fadvise(file, at, NonZeroU64::new(REQUEST_BYTES.min(end - at)), Advice::WillNeed);
    }
}

/// Not supported.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn start_reading(_: &fs::File, _: u64, _: u64) {}

/// Opens a file once more, without the page cache. Not by its path: that may have become another file's.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn open_direct(file: &fs::File, writable: bool) -> Option<fs::File> {
    use std::os::fd::AsRawFd;
    let flags = rustix::fs::OFlags::DIRECT.bits() as i32;
    OpenOptions::new()
        .read(true)
        .write(writable)
        .custom_flags(flags)
        .open(format!("/proc/self/fd/{}", file.as_raw_fd()))
        .ok()
}

/// Not supported.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn open_direct(_: &fs::File, _: bool) -> Option<fs::File> {
    None
}

impl File for RealFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let file = self.direct(offset, bytes).unwrap_or(&self.file);
        file.write_all_at(bytes, offset).map_err(during("write", self.path.display()))
    }

    fn write_both_at(&self, offset: u64, first: &[u8], second: &[u8]) -> io::Result<()> {
        let direct = if is_whole(second) { self.direct(offset, first) } else { None };
        let written = match direct {
            Some(file) if !second.is_empty() => write_some_of_both(file, offset, first, second),
            _ => Ok(0),
        };
        // Written piece by piece instead. A request that has failed is not tried again.
        let is_refused = |error: &io::Error| {
            use io::ErrorKind::{Interrupted, InvalidInput, Unsupported};
            matches!(error.kind(), Interrupted | InvalidInput | Unsupported)
        };
        let written = written.or_else(|error| if is_refused(&error) { Ok(0) } else { Err(error) });
        let written = written.map_err(during("write", self.path.display()))?;
        let first_written = written.min(first.len());
        let (first, second) = (&first[first_written..], &second[written - first_written..]);
        if !first.is_empty() {
            self.write_at(offset + first_written as u64, first)?;
        }
        let behind = offset + (first_written + first.len()) as u64;
        let skipped = (written - first_written) as u64;
        if second.is_empty() { Ok(()) } else { self.write_at(behind + skipped, second) }
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut read = 0;
        while read < into.len() {
            match self.file.read_at(&mut into[read..], offset + read as u64) {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(during("read", self.path.display())(error)),
            }
        }
        Ok(read)
    }

    fn read_past_cache_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let once;
        let direct = if !is_whole(into) || !offset.is_multiple_of(PAGE as u64) {
            None
        } else if self.writable {
            self.direct(offset, into)
        } else {
            // There may be many such files, which are read once: keeping these handles would cost one descriptor each.
            once = open_direct(&self.file, false);
            once.as_ref()
        };
        let mut read = 0;
        if let Some(file) = direct {
            // Any part that cannot be read directly is read the ordinary way, and fails there if it must.
            while read < into.len() && read.is_multiple_of(PAGE) {
                match file.read_at(&mut into[read..], offset + read as u64) {
                    Ok(more) if more > 0 => read += more,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    _ => break,
                }
            }
        }
        Ok(read + self.read_at(offset + read as u64, &mut into[read..])?)
    }

    fn will_read(&self, offset: u64, bytes: u64) {
        start_reading(&self.file, offset, bytes);
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data().map_err(during("sync", self.path.display()))
    }

    fn length(&self) -> io::Result<u64> {
        let metadata = self.file.metadata().map_err(during("ask the length of", self.path.display()))?;
        Ok(metadata.len())
    }

    fn set_length(&self, bytes: u64) -> io::Result<()> {
        let length = self.length()?;
        let set = if bytes > length { grow(&self.file, length, bytes) } else { self.file.set_len(bytes) };
        set.map_err(during("set the length of", self.path.display()))
    }
}

/// Extends a file by zeros whose space on the device is allocated.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn grow(file: &fs::File, from: u64, to: u64) -> io::Result<()> {
    use rustix::{
        fs::{FallocateFlags, fallocate},
        io::{Errno, retry_on_intr},
    };
    match retry_on_intr(|| fallocate(file, FallocateFlags::empty(), from, to - from)) {
        Ok(()) => Ok(()),
        // A file system that cannot allocate space.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => file.set_len(to),
        Err(error) => Err(error.into()),
    }
}

/// Extends a file by zeros.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn grow(file: &fs::File, _: u64, to: u64) -> io::Result<()> {
    file.set_len(to)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::{env, process};

    use super::*;

    /// A directory for one test, removed at its end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(test: &str) -> Self {
            let path = env::temp_dir().join(format!("ermine-{}-{test}", process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_directory_is_made_once_and_opened_again() {
        let scratch = Scratch::new("create");
        let path = scratch.0.join("database");
        assert_eq!(RealDirectory::open(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        RealDirectory::create(&path).unwrap().open("a", Open::Create).unwrap();
        assert_eq!(RealDirectory::create(&path).unwrap().list().unwrap(), ["a"]);
        assert_eq!(RealDirectory::open(&path).unwrap().list().unwrap(), ["a"]);
        let deep = RealDirectory::create(scratch.0.join("no/where")).unwrap_err();
        assert_eq!(deep.kind(), io::ErrorKind::NotFound);
        let file = RealDirectory::open(path.join("a")).unwrap_err();
        assert_eq!(file.kind(), io::ErrorKind::NotADirectory);
    }

    #[test]
    fn what_is_written_is_read_by_another_handle() {
        let scratch = Scratch::new("write");
        let directory = RealDirectory::open(&scratch.0).unwrap();
        let file = directory.open("a", Open::Create).unwrap();
        file.write_at(3, b"abc").unwrap();
        file.sync().unwrap();
        directory.sync().unwrap();
        let reader = directory.open("a", Open::Read).unwrap();
        let mut into = [9; 10];
        assert_eq!(reader.read_at(0, &mut into).unwrap(), 6);
        assert_eq!(into, *b"\0\0\0abc\x09\x09\x09\x09");
        assert_eq!(reader.read_at(6, &mut into).unwrap(), 0);
        assert!(reader.write_at(0, b"x").is_err());
    }

    #[test]
    fn two_pieces_are_written_as_one() {
        #[repr(align(4096))]
        struct Pages([u8; 3 * PAGE]);
        let scratch = Scratch::new("both");
        let file = RealDirectory::open(&scratch.0).unwrap().open("a", Open::Create).unwrap();
        let pages = Box::new(Pages(std::array::from_fn(|at| (at / 64) as u8)));
        // Whole pages, which may bypass the page cache in one request, and others.
        for (offset, first, second) in
            [(0, 0..2 * PAGE, 0..PAGE), (PAGE, 0..0, PAGE..3 * PAGE), (7, 5..70, 100..PAGE), (PAGE, 64..PAGE, 0..0)]
        {
            let (first, second) = (&pages.0[first], &pages.0[second]);
            file.write_both_at(offset as u64, first, second).unwrap();
            let mut read = vec![0; first.len() + second.len()];
            assert_eq!(file.read_at(offset as u64, &mut read).unwrap(), read.len());
            assert_eq!(read, [first, second].concat());
        }
    }

    #[test]
    fn a_file_grows_by_zeros_that_have_their_place() {
        use std::os::unix::fs::MetadataExt;
        let scratch = Scratch::new("grow");
        let directory = RealDirectory::open(&scratch.0).unwrap();
        let file = directory.open("a", Open::Create).unwrap();
        file.write_at(0, b"abc").unwrap();
        file.set_length(1 << 20).unwrap();
        assert_eq!(file.length().unwrap(), 1 << 20);
        let mut into = [9; 4];
        assert_eq!(file.read_at((1 << 20) - 4, &mut into).unwrap(), 4);
        assert_eq!(into, [0; 4]);
        let blocks = fs::metadata(scratch.0.join("a")).unwrap().blocks();
        // Not every file system supports that.
        println!("{blocks} blocks of 512 bytes");
        file.set_length(2).unwrap();
        file.set_length(4).unwrap();
        assert_eq!(file.read_at(0, &mut into).unwrap(), 4);
        assert_eq!(into, *b"ab\0\0");
    }

    #[test]
    fn a_full_device_is_told() {
        let full = Path::new("/dev/full");
        if !full.exists() {
            return;
        }
        let file = RealFile {
            file: OpenOptions::new().write(true).open(full).unwrap(),
            direct: OnceLock::new(),
            writable: true,
            path: full.into(),
        };
        let error = file.write_at(0, b"x").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(error.to_string().starts_with("cannot write /dev/full: "), "{error}");
    }

    #[test]
    fn an_error_says_what_and_where() {
        let scratch = Scratch::new("error");
        let directory = RealDirectory::open(&scratch.0).unwrap();
        let error = directory.open("missing", Open::Read).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        let path = format!("{}/missing", directory.path());
        assert!(error.to_string().starts_with(&format!("cannot open {path}: ")), "{error}");
        assert!(error.to_string().contains("os error"), "{error}");
        assert_eq!(directory.open("../a", Open::Create).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn one_at_a_time_holds_the_lock() {
        let scratch = Scratch::new("lock");
        let directory = RealDirectory::open(&scratch.0).unwrap();
        let lock = directory.lock().unwrap();
        let error = RealDirectory::open(&scratch.0).unwrap().lock().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        let program = env::current_exe().unwrap();
        let program = program.file_name().unwrap().to_str().unwrap();
        let told =
            format!("database directory {} is in use by process {} ({program})", directory.path(), process::id());
        assert_eq!(error.to_string(), told);
        let signed = fs::read_to_string(scratch.0.join("LOCK")).unwrap();
        assert_eq!(signed, format!("pid {} program {program}\n", process::id()));
        drop(lock);
        drop(directory.lock().unwrap());
        assert_eq!(directory.list().unwrap(), ["LOCK"]);
    }

    #[test]
    fn a_lock_whose_holder_did_not_sign_is_still_held() {
        let scratch = Scratch::new("unsigned");
        let directory = RealDirectory::open(&scratch.0).unwrap();
        let _lock = directory.lock().unwrap();
        fs::write(scratch.0.join("LOCK"), "").unwrap();
        let error = directory.lock().unwrap_err();
        assert!(error.to_string().ends_with("is in use by another process"), "{error}");
    }
}

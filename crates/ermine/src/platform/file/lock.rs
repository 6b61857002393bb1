//! One process at a time in a database directory.
//!
//! The lock is the system's, on the directory itself and on a file `LOCK` in it. The lock on the directory holds even
//! if a user has removed the file: a second file of that name would be a different file, with a lock of its own. The
//! lock on the file is needed where the file system cannot lock directories (NFS), and for earlier releases; the file
//! stays when the lock is released. The system releases the locks when their holder dies, so nothing has to be cleaned
//! up after a crash. The content of the file is used in messages only.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read, Seek, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    process,
};

use super::{failure::during, real::FILE_MODE};

pub(crate) const NAME: &str = "LOCK";

/// The right to use a directory; ends when this is dropped.
#[derive(Debug)]
#[must_use = "the lock goes with this value"]
pub struct Lock {
    file: File,
    /// `None`: the file system cannot lock directories.
    directory: Option<File>,
}

impl Lock {
    /// Takes the lock of `directory`, or reports its holder: an error of the kind [`ResourceBusy`](io::ErrorKind).
    pub(super) fn take(directory: &Path) -> io::Result<Self> {
        let path = directory.join(NAME);
        let own = lock_directory(directory)?;
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(FILE_MODE)
            .open(&path)
            .map_err(during("open", path.display()))?;
        lock(&mut file, directory)?;
        let lock = Self { file, directory: own };
        lock.sign().map_err(during("write", path.display()))?;
        Ok(lock)
    }

    /// As [`take`](Self::take), without a signature; `None` if there is no file to lock, and so no holder.
    pub(super) fn take_to_look(directory: &Path) -> io::Result<Option<Self>> {
        let path = directory.join(NAME);
        let own = lock_directory(directory)?;
        let mut file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(during("open", path.display()))?,
        };
        lock(&mut file, directory)?;
        Ok(Some(Self { file, directory: own }))
    }

    /// Writes the identity of the lock's holder.
    fn sign(&self) -> io::Result<()> {
        let program = std::env::current_exe().ok();
        let program = program.as_deref().and_then(Path::file_name).map_or("?".into(), |name| name.to_string_lossy());
        self.file.set_len(0)?;
        (&self.file).write_all(format!("pid {} program {program}\n", process::id()).as_bytes())
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Only for messages: a name that stays would be reported in the moment before the next holder has signed.
        let _ = self.file.set_len(0);
        // As closing the files does, but also effective if a child process has inherited them.
        let _ = self.file.unlock();
        let _ = self.directory.as_ref().map(File::unlock);
    }
}

/// Takes the system's lock on a directory, if the file system supports that.
fn lock_directory(directory: &Path) -> io::Result<Option<File>> {
    let own = File::open(directory).map_err(during("open directory", directory.display()))?;
    match own.try_lock() {
        Ok(()) => Ok(Some(own)),
        Err(TryLockError::WouldBlock) => {
            let holder =
                File::open(directory.join(NAME)).map_or_else(|_| holder(None), |mut file| holder(Some(&mut file)));
            Err(in_use(directory, &holder))
        }
        // Only the lock on the file is available.
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

/// Takes the system's lock on the file, or reports its holder.
fn lock(file: &mut File, directory: &Path) -> io::Result<()> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(in_use(directory, &holder(Some(file)))),
        Err(TryLockError::Error(error)) => Err(during("lock", directory.display())(error)),
    }
}

fn in_use(directory: &Path, holder: &str) -> io::Error {
    let message = format!("database directory {} is in use by {holder}", directory.display());
    io::Error::new(io::ErrorKind::ResourceBusy, message)
}

/// Returns the holder that signed. There may be none: the lock is taken a moment before the signature is written.
fn holder(file: Option<&mut File>) -> String {
    let mut text = String::new();
    let read = file.map(|file| file.rewind().and_then(|()| file.take(1024).read_to_string(&mut text)));
    let signature = text.trim_end().strip_prefix("pid ").and_then(|rest| rest.split_once(" program "));
    match (read, signature) {
        (Some(Ok(_)), Some((pid, program))) => format!("process {pid} ({program})"),
        _ => "another process".into(),
    }
}

//! One process at a time in a database directory.
//!
//! The lock is the system's on a file `LOCK`, which stays when the lock goes: whoever removed it could not know whether
//! another process has opened it meanwhile, and two would then hold locks on two files of one name. The system lets go
//! of the lock when its holder dies, so nothing has to be cleared away after a crash. What the file says serves messages
//! only.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read, Seek, Write},
    path::Path,
    process,
};

use super::failure::during;

pub(crate) const NAME: &str = "LOCK";

/// The right to use a directory; ends when this is dropped.
#[derive(Debug)]
#[must_use = "the lock goes with this value"]
pub struct Lock(File);

impl Lock {
    /// Takes the lock of `directory`, or says who has it: an error of the kind [`ResourceBusy`](io::ErrorKind).
    pub(super) fn take(directory: &Path) -> io::Result<Self> {
        let path = directory.join(NAME);
        let shown = path.display();
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(during("open", shown))?;
        lock(&mut file, directory)?;
        let lock = Self(file);
        lock.sign().map_err(during("write", path.display()))?;
        Ok(lock)
    }

    /// As [`take`](Self::take), without a signature; `None` where there is no file to lock, and so nobody who has.
    pub(super) fn take_to_look(directory: &Path) -> io::Result<Option<Self>> {
        let path = directory.join(NAME);
        let mut file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(during("open", path.display()))?,
        };
        lock(&mut file, directory)?;
        Ok(Some(Self(file)))
    }

    /// Writes who holds the lock.
    fn sign(&self) -> io::Result<()> {
        let program = std::env::current_exe().ok();
        let program = program.as_deref().and_then(Path::file_name).map_or("?".into(), |name| name.to_string_lossy());
        self.0.set_len(0)?;
        (&self.0).write_all(format!("pid {} program {program}\n", process::id()).as_bytes())
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Only for messages: a name that stays would be told in the moment before the next holder has signed.
        let _ = self.0.set_len(0);
        // As closing the file does, but also where a child process has inherited it.
        let _ = self.0.unlock();
    }
}

/// Takes the system's lock, or says who has it.
fn lock(file: &mut File, directory: &Path) -> io::Result<()> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            let message = format!("database directory {} is in use by {}", directory.display(), holder(file));
            Err(io::Error::new(io::ErrorKind::ResourceBusy, message))
        }
        Err(TryLockError::Error(error)) => Err(during("lock", directory.display())(error)),
    }
}

/// Who signed. There may be nobody: the lock is taken a moment before the signature is written.
fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.rewind().and_then(|()| file.take(1024).read_to_string(&mut text));
    let signature = text.trim_end().strip_prefix("pid ").and_then(|rest| rest.split_once(" program "));
    match (read, signature) {
        (Ok(_), Some((pid, program))) => format!("process {pid} ({program})"),
        _ => "another process".into(),
    }
}

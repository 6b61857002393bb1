//! Room on the device: what is kept for the time when others have taken the rest, and what happens then.
//!
//! A file `RESERVE` takes space ahead, for the next file of the log and for a checkpoint. When it cannot be had, the database is *short
//! of room*: transactions that add or change rows get [`Error::DiskFull`] before they take their place, so that what the reserve holds is
//! left for those that are on their way, for transactions that only delete, and for the checkpoint that frees what they deleted. When the
//! log has taken its part of the reserve, deletions wait, too, until a checkpoint has made room: nothing else takes its part, and what is left
//! of the log's newest file is for it to become durable. Readers notice nothing. A thread tries again all the time; as soon as the reserve is whole,
//! writing goes on.
//!
//! Should others use up the device even so, the log *waits* for room: what was acknowledged is safe, what is on its way is acknowledged
//! later, and nothing new is taken. The log is not broken by that: only a write that did not happen is repeated, no sync. After a sync
//! that failed nothing is known, so that breaks the log for good.

use std::{
    io,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::{
    error::{Error, Result},
    platform::file::{Directory, File, Open},
};

/// The name of the file.
const RESERVE: &str = "RESERVE";

/// Whether an error says that there is no room: the operation may be tried again later.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// What of a directory's device is kept: room for the next file of the log, and beyond that for a checkpoint.
pub(crate) struct Room {
    directory: Arc<dyn Directory>,
    kept: Mutex<Kept>,
    /// Why there is not enough.
    why: Mutex<Option<Arc<str>>>,
    /// The reserve is not whole.
    is_short: AtomicBool,
    /// Not even the next file of the log has its room in it: what is left of the newest one is for those on their way.
    is_tight: AtomicBool,
    /// The log waits for room.
    is_waiting: AtomicBool,
}

#[derive(Default)]
struct Kept {
    file: Option<Arc<dyn File>>,
    bytes: u64,
    /// What shall be kept: the next file of the log, beside it the one after that, and what a checkpoint needs.
    log: u64,
    checkpoint: u64,
    /// A checkpoint uses its part.
    is_lent: bool,
    /// The last checkpoint has failed, maybe for want of room.
    has_failed: bool,
}

impl Kept {
    /// What of it is for a checkpoint.
    fn of_checkpoint(&self) -> u64 {
        if self.is_lent { 0 } else { self.checkpoint }
    }

    /// Whether there is no room for the next file of the log.
    fn is_tight(&self) -> bool {
        self.bytes.saturating_sub(self.of_checkpoint()) < self.log
    }
}

impl Room {
    /// What a process before has kept is kept.
    pub(crate) fn new(directory: Arc<dyn Directory>) -> Self {
        let file = directory.open(RESERVE, Open::Write).ok();
        let bytes = file.as_ref().and_then(|file| file.length().ok()).unwrap_or(0);
        Self {
            directory,
            kept: Mutex::new(Kept { file, bytes, ..Kept::default() }),
            why: Mutex::default(),
            is_short: AtomicBool::new(false),
            is_tight: AtomicBool::new(false),
            is_waiting: AtomicBool::new(false),
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().expect("no code panics while it holds the reserve")
    }

    /// A checkpoint needs so many bytes.
    pub(crate) fn want_for_checkpoint(&self, bytes: u64) {
        self.kept().checkpoint = bytes;
    }

    /// Has the reserve whole, as far as that can be done, for a next file of the log that is `large` if there is room for that and else
    /// `small`, and for the one `after` it. Whether the next one may be large; what else is allowed then, [`Room::check`] says.
    ///
    /// A reserve that was whole and has lost the next file still holds `after`, so the database becomes short before it becomes tight.
    pub(crate) fn keep(&self, large: u64, small: u64, after: u64) -> bool {
        let mut kept = self.kept();
        let checkpoint = kept.of_checkpoint();
        let may_be_large = large > small && self.grow(&mut kept, large + after + checkpoint).is_ok();
        kept.log = if may_be_large { large } else { small };
        match self.grow(&mut kept, small + after + checkpoint) {
            // Whatever else is wrong with the device shows elsewhere.
            Err(error) if is_full(&error) => {
                // Some of it, at least.
                let _ = self.grow(&mut kept, small + checkpoint);
                self.tell(&self.is_short, &error);
            }
            _ if kept.is_lent => {}
            _ => self.forget(&self.is_short),
        }
        self.is_tight.store(kept.is_tight(), Ordering::Relaxed);
        may_be_large
    }

    fn grow(&self, kept: &mut Kept, bytes: u64) -> io::Result<()> {
        if kept.bytes >= bytes {
            return Ok(());
        }
        if kept.file.is_none() {
            kept.file = Some(self.directory.open(RESERVE, Open::Create)?);
        }
        let file = kept.file.as_ref().expect("made above");
        let grown = file.set_length(bytes);
        match grown {
            Ok(()) => kept.bytes = bytes,
            // The part of it that there was room for would be missing elsewhere.
            Err(_) => drop(file.set_length(kept.bytes)),
        }
        grown
    }

    /// Gives back so much of what is kept; whether there was anything.
    fn release(&self, kept: &mut Kept, bytes: u64) -> bool {
        let left = kept.bytes.saturating_sub(bytes);
        let Some(file) = kept.file.clone().filter(|_| left < kept.bytes) else { return false };
        let is_less = file.set_length(left).is_ok();
        if is_less {
            kept.bytes = left;
        }
        is_less
    }

    /// A checkpoint begins: where room is short, or was for the last one, it may use what is kept for it, until the end of what is returned.
    pub(crate) fn lend(&self) -> Lent<'_> {
        let mut kept = self.kept();
        if self.is_short() || kept.has_failed {
            kept.is_lent = true;
            let bytes = kept.checkpoint;
            self.release(&mut kept, bytes);
        }
        Lent { room: self, is_done: false }
    }

    fn tell(&self, state: &AtomicBool, error: &io::Error) {
        *self.why.lock().expect("no code panics while it holds the reason") = Some(error.to_string().into());
        if !state.swap(true, Ordering::Relaxed) {
            ::log::warn!("no room is left: {error}; rows can be read, and writing goes on when there is room again");
        }
    }

    fn forget(&self, state: &AtomicBool) {
        if state.swap(false, Ordering::Relaxed) {
            ::log::info!("there is room again in {}", self.directory.path());
        }
    }

    /// Whether the reserve is not whole.
    pub(crate) fn is_short(&self) -> bool {
        self.is_short.load(Ordering::Relaxed)
    }

    /// Fails where a transaction must not take room: one that `grows` the database sooner than one that only deletes.
    #[inline]
    pub(crate) fn check(&self, grows: bool) -> Result<()> {
        // Relaxed: it guards nothing. A log that waits or is tight is short.
        let is_refused = self.is_short() && (grows || self.is_tight.load(Ordering::Relaxed));
        if is_refused || self.is_waiting.load(Ordering::Relaxed) { Err(self.error()) } else { Ok(()) }
    }

    /// Fails while the log waits for room.
    pub(crate) fn check_waiting(&self) -> Result<()> {
        if self.is_waiting.load(Ordering::Relaxed) { Err(self.error()) } else { Ok(()) }
    }

    /// What a transaction is told that needs room.
    #[cold]
    fn error(&self) -> Error {
        let why = self.why.lock().expect("no code panics while it holds the reason").clone();
        Error::DiskFull(why.map_or_else(|| "no room is left".into(), |why| why.to_string()))
    }

    /// Repeats what the log has failed to do for want of room until it succeeds, or `gives_up` says so. What is kept for the log is
    /// used for it, and in the end what is kept for a checkpoint.
    pub(crate) fn until_there_is<T>(
        &self,
        gives_up: impl Fn() -> bool,
        mut attempt: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            match attempt() {
                Err(error) if is_full(&error) => {
                    // New transactions must not use up what is left.
                    self.tell(&self.is_short, &error);
                    let mut kept = self.kept();
                    // Where nothing was asked for yet, all that a process before has left.
                    let bytes = if kept.log > 0 { kept.log } else { kept.bytes };
                    let is_released = self.release(&mut kept, bytes);
                    self.is_tight.store(kept.is_tight(), Ordering::Relaxed);
                    drop(kept);
                    if is_released {
                        continue;
                    }
                    self.tell(&self.is_waiting, &error);
                    if gives_up() {
                        return Err(error);
                    }
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
                done => {
                    self.forget(&self.is_waiting);
                    return done;
                }
            }
        }
    }
}

/// A checkpoint uses its part of the reserve.
pub(crate) struct Lent<'r> {
    room: &'r Room,
    is_done: bool,
}

impl Lent<'_> {
    /// The checkpoint has been made.
    pub(crate) fn done(&mut self) {
        self.is_done = true;
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut kept = self.room.kept();
        kept.is_lent = false;
        kept.has_failed = !self.is_done;
    }
}

/// Makes an error final whose operation must not be repeated.
pub(crate) fn is_final(error: io::Error) -> io::Error {
    io::Error::other(error)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::platform::file::faulty::{Attempt, Fault, FaultyDirectory};

    /// Files of the log double when there are many: the reserve is whole only with the larger one that comes next.
    #[test]
    fn a_larger_file_after_the_next_one_is_there_for_deletions() {
        let directory = FaultyDirectory::new();
        let room = Room::new(Arc::new(directory.clone()));
        room.want_for_checkpoint(500);
        room.keep(1000, 1000, 2000);
        directory.fail_when(|_, attempt| matches!(attempt, Attempt::SetLength { .. }).then_some(Fault::NoSpace));
        let mut failures = 1;
        let next_file = || match failures {
            0 => Ok(()),
            _ => {
                failures -= 1;
                directory.fail_when(|_, _| None);
                Err(io::Error::from(io::ErrorKind::StorageFull))
            }
        };
        room.until_there_is(|| false, next_file).unwrap();
        directory.fail_when(|_, attempt| matches!(attempt, Attempt::SetLength { .. }).then_some(Fault::NoSpace));
        room.keep(4000, 2000, 4000);
        assert!(room.check(true).is_err());
        room.check(false).unwrap();
    }

    #[test]
    fn what_is_kept_is_used_before_anything_waits_and_comes_back() {
        let directory = FaultyDirectory::new();
        let full = Arc::new(AtomicBool::new(false));
        let (is_full, mut length) = (full.clone(), 0);
        directory.fail_when(move |_, attempt| match attempt {
            Attempt::SetLength { bytes, .. } if bytes > length && is_full.load(Ordering::SeqCst) => {
                Some(Fault::NoSpace)
            }
            Attempt::SetLength { bytes, .. } => {
                length = bytes;
                None
            }
            _ => None,
        });
        let room = Room::new(Arc::new(directory.clone()));
        room.want_for_checkpoint(500);
        room.keep(1000, 1000, 1000);
        room.check(true).unwrap();
        full.store(true, Ordering::SeqCst);
        let no_space = || io::Error::from(io::ErrorKind::StorageFull);
        let length = || directory.open(RESERVE, Open::Read).unwrap().length().unwrap();
        let take = || {
            let mut attempts = 0;
            let attempt = || {
                attempts += 1;
                if attempts == 1 { Err(no_space()) } else { Ok(()) }
            };
            room.until_there_is(|| false, attempt).unwrap();
        };
        // Once, and rows can still be deleted; twice, and they cannot.
        take();
        room.keep(1000, 1000, 1000);
        assert_eq!(length(), 1500);
        assert!(matches!(room.check(true), Err(Error::DiskFull(_))) && room.check(false).is_ok());
        take();
        room.keep(1000, 1000, 1000);
        assert_eq!(length(), 500);
        assert!(room.check(true).is_err() && room.check(false).is_err() && room.check_waiting().is_ok());
        // A checkpoint gets what is kept for it.
        drop(room.lend());
        assert_eq!(length(), 0);
        full.store(false, Ordering::SeqCst);
        room.keep(1000, 1000, 1000);
        room.check(true).unwrap();
        assert_eq!(length(), 2500);
        // That one has failed, so the next one gets it although room is not short; the one after that not.
        room.lend().done();
        assert_eq!(length(), 2000);
        room.keep(1000, 1000, 1000);
        room.lend().done();
        assert_eq!(length(), 2500);
        full.store(true, Ordering::SeqCst);
        // Used up: everything waits, until an attempt is given up.
        let given_up = room.until_there_is(|| room.check_waiting().is_err(), || Err::<(), _>(no_space()));
        assert!(given_up.is_err() && room.check(false).is_err());
        // What a process has left is used by the next one.
        full.store(false, Ordering::SeqCst);
        room.keep(1000, 1000, 1000);
        assert_eq!(length(), 2500);
        full.store(true, Ordering::SeqCst);
        let room = Room::new(Arc::new(directory.clone()));
        let mut failures = 1;
        let attempt = || {
            failures -= 1;
            if failures == 0 { Err(no_space()) } else { Ok(()) }
        };
        room.until_there_is(|| true, attempt).unwrap();
        assert_eq!(length(), 0);
        // Other errors are not waited for.
        let broken = room.until_there_is(|| false, || Err::<(), _>(io::Error::other("broken")));
        assert!(broken.is_err());
    }
}

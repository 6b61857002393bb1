//! Room on the device: the reserve for the time when other files have taken the rest, and what happens then.
//!
//! A file `RESERVE` takes space in advance, for the next file of the log and for a checkpoint. When that space is not
//! available, the database is *short of room*: transactions that add or change rows get [`Error::DiskFull`] before they
//! take their place, so that the reserve is left for transactions in flight, for transactions that only delete, and for
//! the checkpoint that frees the space of the deleted rows. When the log has used its part of the reserve, deletions
//! wait, too, until a checkpoint has made room: no transaction uses the checkpoint's part, and the rest of the log's
//! newest file is left for making it durable. Readers are not affected. A thread retries continually; as soon as the
//! reserve is whole, writing continues.
//!
//! A database keeps no reserve before its log has some length. The first transaction that needs room after an opening
//! therefore tries whether there is room for the file that the log makes for it, and gets [`Error::DiskFull`] if not.
//!
//! If the device is nevertheless used up, the log *waits* for room: acknowledged transactions are safe, transactions in
//! flight are acknowledged later, and no new ones are taken. That does not break the log: only a write that did not
//! happen is repeated, never a sync. After a failed sync the state of the file is unknown, so a failed sync breaks the
//! log permanently.

use std::{
    io,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU8, Ordering},
    },
};

use crate::{
    error::{Error, Result},
    platform::file::{Directory, File, Open},
};

/// The name of the reserve's file.
const RESERVE: &str = "RESERVE";

/// Whether an error says that there is no room: the operation may be tried again later.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The reserve of a directory's device: room for the next file of the log, and beyond that for a checkpoint.
pub(crate) struct Room {
    directory: Arc<dyn Directory>,
    /// Bytes of the log's first file.
    file_bytes: u64,
    kept: Mutex<Kept>,
    /// Why there is not enough room.
    why: Mutex<Option<Arc<str>>>,
    /// The states below that hold: mostly none.
    state: AtomicU8,
}

/// The reserve is not whole.
const SHORT: u8 = 1;
/// The reserve does not even hold the next file of the log: the rest of the newest one is for transactions in flight.
const TIGHT: u8 = 2;
/// The log waits for room.
const WAITING: u8 = 4;
/// The log has made no file since the opening, and whether there is room for one is not known.
const UNTRIED: u8 = 8;

#[derive(Default)]
struct Kept {
    file: Option<Arc<dyn File>>,
    bytes: u64,
    /// Bytes to be kept: `log` for the next file of the log (room for the file after it is kept beside that),
    /// `checkpoint` for a checkpoint.
    log: u64,
    checkpoint: u64,
    /// A checkpoint is using its part.
    is_lent: bool,
    /// The last checkpoint has failed, possibly for lack of room.
    has_failed: bool,
}

impl Kept {
    /// Returns the part of the reserve that is kept for a checkpoint.
    fn of_checkpoint(&self) -> u64 {
        if self.is_lent { 0 } else { self.checkpoint }
    }

    /// Whether there is no room for the next file of the log.
    fn is_tight(&self) -> bool {
        self.bytes.saturating_sub(self.of_checkpoint()) < self.log
    }
}

impl Room {
    /// Opens the reserve for a log whose files have `file_bytes` bytes; the reserve that an earlier process has left is
    /// kept.
    pub(crate) fn new(directory: Arc<dyn Directory>, file_bytes: u64) -> Self {
        let file = directory.open(RESERVE, Open::Write).ok();
        let bytes = file.as_ref().and_then(|file| file.length().ok()).unwrap_or(0);
        Self {
            directory,
            file_bytes,
            kept: Mutex::new(Kept { file, bytes, checkpoint: file_bytes, ..Kept::default() }),
            why: Mutex::default(),
            state: AtomicU8::new(UNTRIED),
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().expect("no code panics while it holds the reserve")
    }

    /// Sets the number of bytes that a checkpoint needs: those of a file of the log until then.
    pub(crate) fn want_for_checkpoint(&self, bytes: u64) {
        self.kept().checkpoint = bytes;
    }

    /// Fills the reserve as far as possible, for a next file of the log that is `large` if there is room for that and
    /// else `small`, and for the file `after` it. Returns whether the next file may be large; [`Room::check`] decides
    /// what else is allowed then.
    ///
    /// A reserve that was whole and has lost the next file still holds `after`, so the database becomes short before it
    /// becomes tight.
    pub(crate) fn keep(&self, large: u64, small: u64, after: u64) -> bool {
        let mut kept = self.kept();
        let checkpoint = kept.of_checkpoint();
        let may_be_large = large > small && self.grow(&mut kept, large + after + checkpoint).is_ok();
        kept.log = if may_be_large { large } else { small };
        match self.grow(&mut kept, small + after + checkpoint) {
            // Any other problem with the device shows elsewhere.
            Err(error) if is_full(&error) => {
                // At least a part of it.
                let _ = self.grow(&mut kept, small + checkpoint);
                let missing = small + after + checkpoint - kept.bytes;
                self.tell(SHORT, &format!("{error}, {missing} more bytes are needed"));
            }
            _ if kept.is_lent => {}
            _ => self.forget(SHORT),
        }
        self.note_tightness(&kept);
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
            // The part that the failed attempt did get would be missing elsewhere.
            Err(_) => drop(file.set_length(kept.bytes)),
        }
        grown
    }

    /// Returns up to `bytes` of the reserve to the device; false if there was nothing to return.
    fn release(&self, kept: &mut Kept, bytes: u64) -> bool {
        let left = kept.bytes.saturating_sub(bytes);
        let Some(file) = kept.file.clone().filter(|_| left < kept.bytes) else { return false };
        let is_less = file.set_length(left).is_ok();
        if is_less {
            kept.bytes = left;
        }
        is_less
    }

    /// Lends the checkpoint that begins its part of the reserve, if room is short or the last checkpoint failed, until
    /// the returned guard is dropped.
    pub(crate) fn lend(&self) -> Lent<'_> {
        let mut kept = self.kept();
        if self.is_short() || kept.has_failed {
            kept.is_lent = true;
            let bytes = kept.checkpoint;
            self.release(&mut kept, bytes);
        }
        Lent { room: self, is_done: false }
    }

    fn note_tightness(&self, kept: &Kept) {
        match kept.is_tight() {
            true => self.state.fetch_or(TIGHT, Ordering::Relaxed),
            false => self.state.fetch_and(!TIGHT, Ordering::Relaxed),
        };
    }

    fn tell(&self, state: u8, why: &str) {
        *self.why.lock().expect("no code panics while it holds the reason") = Some(why.into());
        if self.state.fetch_or(state, Ordering::Relaxed) & state == 0 {
            ::log::warn!("no room is left: {why}; rows can be read, and writing goes on when there is room again");
        }
    }

    fn forget(&self, state: u8) {
        if self.state.fetch_and(!state, Ordering::Relaxed) & state != 0 {
            ::log::info!("there is room again in {}", self.directory.path());
        }
    }

    fn is(&self, state: u8) -> bool {
        self.state.load(Ordering::Relaxed) & state != 0
    }

    /// Whether the reserve is not whole.
    pub(crate) fn is_short(&self) -> bool {
        self.is(SHORT)
    }

    /// Fails if a transaction must not take room: a transaction that `grows` the database is refused sooner than one
    /// that only deletes.
    #[inline]
    pub(crate) fn check(&self, grows: bool) -> Result<()> {
        // Relaxed: it guards nothing.
        match self.state.load(Ordering::Relaxed) {
            0 => Ok(()),
            state => self.check_slowly(state, grows),
        }
    }

    #[cold]
    fn check_slowly(&self, state: u8, grows: bool) -> Result<()> {
        // A log that waits or is tight is short.
        if state & WAITING != 0 || state & SHORT != 0 && (grows || state & TIGHT != 0) {
            return Err(self.error());
        }
        if state & UNTRIED != 0 { self.try_first_file() } else { Ok(()) }
    }

    /// Fails if there is no room for a file of the log: takes that room, and returns it.
    fn try_first_file(&self) -> Result<()> {
        let mut kept = self.kept();
        if !self.is(UNTRIED) {
            // Another transaction has tried meanwhile.
            return Ok(());
        }
        let (bytes, before) = (self.file_bytes, kept.bytes);
        let tried = self.grow(&mut kept, bytes);
        self.release(&mut kept, bytes.saturating_sub(before));
        if before == 0 && kept.file.take().is_some() {
            // Small databases have no reserve.
            kept.bytes = 0;
            let _ = self.directory.remove(RESERVE);
        }
        if let Err(error) = tried
            && is_full(&error)
        {
            return Err(Error::DiskFull(format!("{error}: a file of the log needs {bytes} bytes")));
        }
        // Any other problem with the device shows elsewhere.
        self.state.fetch_and(!UNTRIED, Ordering::Relaxed);
        Ok(())
    }

    /// Fails while the log waits for room.
    pub(crate) fn check_waiting(&self) -> Result<()> {
        if self.is(WAITING) { Err(self.error()) } else { Ok(()) }
    }

    /// Returns the error for a transaction that needs room.
    #[cold]
    fn error(&self) -> Error {
        let why = self.why.lock().expect("no code panics while it holds the reason").clone();
        Error::DiskFull(why.map_or_else(|| "no room is left".into(), |why| why.to_string()))
    }

    /// Repeats an operation of the log that fails for lack of room until it succeeds, or `gives_up` returns true. The
    /// log's part of the reserve is used for it, and finally the checkpoint's part.
    pub(crate) fn until_there_is<T>(
        &self,
        gives_up: impl Fn() -> bool,
        mut attempt: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            match attempt() {
                Err(error) if is_full(&error) => {
                    // New transactions must not use up the rest.
                    self.tell(SHORT, &error.to_string());
                    let mut kept = self.kept();
                    // If no size was requested yet, everything that an earlier process has left.
                    let bytes = if kept.log > 0 { kept.log } else { kept.bytes };
                    let is_released = self.release(&mut kept, bytes);
                    self.note_tightness(&kept);
                    drop(kept);
                    if is_released {
                        continue;
                    }
                    self.tell(WAITING, &error.to_string());
                    if gives_up() {
                        return Err(error);
                    }
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
                done => {
                    self.forget(WAITING);
                    return done;
                }
            }
        }
    }
}

/// Lets a checkpoint use its part of the reserve.
pub(crate) struct Lent<'r> {
    room: &'r Room,
    is_done: bool,
}

impl Lent<'_> {
    /// Notes that the checkpoint has been made.
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

/// Makes an error final if its operation must not be repeated.
pub(crate) fn is_final(error: io::Error) -> io::Error {
    io::Error::other(error)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::platform::file::faulty::{Attempt, Fault, FaultyDirectory};

    /// Log files double in size when there are many: the reserve is whole only with the larger one that comes next.
    #[test]
    fn a_larger_file_after_the_next_one_is_there_for_deletions() {
        let directory = FaultyDirectory::new();
        let room = Room::new(Arc::new(directory.clone()), 500);
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
        let room = Room::new(Arc::new(directory.clone()), 500);
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
        // After the first file, rows can still be deleted; after the second, they cannot.
        take();
        room.keep(1000, 1000, 1000);
        assert_eq!(length(), 1500);
        let refused = room.check(true);
        assert!(matches!(&refused, Err(Error::DiskFull(why)) if why.contains("1000 more bytes")), "{refused:?}");
        room.check(false).unwrap();
        take();
        room.keep(1000, 1000, 1000);
        assert_eq!(length(), 500);
        assert!(room.check(true).is_err() && room.check(false).is_err() && room.check_waiting().is_ok());
        // A checkpoint gets its part of the reserve.
        drop(room.lend());
        assert_eq!(length(), 0);
        full.store(false, Ordering::SeqCst);
        room.keep(1000, 1000, 1000);
        room.check(true).unwrap();
        assert_eq!(length(), 2500);
        // That checkpoint has failed, so the next one gets it although room is not short; the one after that does not.
        room.lend().done();
        assert_eq!(length(), 2000);
        room.keep(1000, 1000, 1000);
        room.lend().done();
        assert_eq!(length(), 2500);
        full.store(true, Ordering::SeqCst);
        // The reserve is used up: everything waits, until an attempt is given up.
        let given_up = room.until_there_is(|| room.check_waiting().is_err(), || Err::<(), _>(no_space()));
        assert!(given_up.is_err() && room.check(false).is_err());
        // The reserve that a process has left is used by the next one.
        full.store(false, Ordering::SeqCst);
        room.keep(1000, 1000, 1000);
        assert_eq!(length(), 2500);
        full.store(true, Ordering::SeqCst);
        let room = Room::new(Arc::new(directory.clone()), 500);
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

//! Replication slots: the positions of readers of changes, kept over restarts.
//!
//! Each slot has a file, with its position and the definitions as of there ([`Image`]). A file is replaced as a whole,
//! by a rename, so a crash leaves the old one or the new one. The position in the file may be behind the one that the
//! reader has confirmed: it is written now and then, and a reader that needs it to the byte keeps its own.
//!
//! Invariants
//! 1. *The log is kept from the position in the file on* ([`ermine::Database::keep_changes_from`]), for all slots.
//! 2. *Position and definitions belong together*: the definitions of a slot are changed, by what the reader has passed,
//!    when and only when its position passes that.
//! 3. *One reader at a time* has a slot.

use std::{
    collections::{BTreeMap, VecDeque},
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use ermine::{Database, Error};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use super::history::{Image, ImageChange};
use crate::error::{Result, SqlError, SqlState};

/// The directory of the files, in that of the database.
const DIRECTORY: &str = "slots";
/// The extension of a file that is being written.
const UNFINISHED: &str = "new";
/// How a file begins; behind it is the SHA-256 of the rest.
const MAGIC: &[u8; 8] = b"ERMSLOT1";
const SUM_BYTES: usize = 32;
/// A confirmed position is written when it is so much ahead of the one in the file, or so old.
const WRITE_AFTER_BYTES: u64 = 16 << 20;
const WRITE_AFTER: Duration = Duration::from_secs(5);
/// The plugin that there is.
const PLUGIN: &str = "pgoutput";

/// The content of a file.
#[derive(Serialize, Deserialize)]
struct Stored {
    position: u64,
    image: Image,
}

/// The slots of a database.
pub(crate) struct Slots {
    directory: PathBuf,
    database: Arc<Database>,
    all: Mutex<BTreeMap<String, Arc<Slot>>>,
    /// Bytes of log that a slot may hold back; `u64::MAX`: as many as fit on the device.
    keep_max: AtomicU64,
}

/// A slot.
pub(crate) struct Slot {
    pub(crate) name: String,
    state: Mutex<State>,
    /// The end of what its reader has been shown.
    sent: AtomicU64,
}

struct State {
    /// Everything below is confirmed.
    confirmed: u64,
    /// The definitions as of there.
    image: Image,
    /// Changes of definitions that the reader has passed and not confirmed, with the ends of their transactions.
    passed: VecDeque<(u64, Vec<ImageChange>)>,
    /// The position in the file.
    saved: u64,
    saved_at: Instant,
    /// The number of the connection that reads it; 0: none does, but a session has it.
    reader: Option<i32>,
    /// When a reader last confirmed something.
    heard: Option<Instant>,
    /// The slot holds back nothing any more: it was too far behind.
    is_lost: bool,
}

/// A slot as the system's table shows it.
pub(crate) struct Shown {
    pub(crate) name: String,
    pub(crate) plugin: &'static str,
    pub(crate) reader: Option<i32>,
    pub(crate) saved: u64,
    pub(crate) confirmed: u64,
    pub(crate) sent: u64,
    /// When a reader last confirmed something.
    pub(crate) heard: Option<Instant>,
    pub(crate) is_lost: bool,
}

/// A slot that its reader has, until this is dropped.
pub(crate) struct Lease {
    slots: Arc<Slots>,
    pub(crate) slot: Arc<Slot>,
}

/// Returns the position from which on the slots of a database need the log, before the database is opened: for
/// [`ermine::Options::keep_changes_from`].
///
/// # Errors
/// For a file that is damaged or cannot be read.
pub fn kept_from(database_directory: &Path) -> Result<Option<u64>> {
    let stored = read_all(&database_directory.join(DIRECTORY))?;
    Ok(stored.into_iter().map(|(_, stored)| stored.position).min())
}

fn read_all(directory: &Path) -> Result<Vec<(String, Stored)>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| unreadable(directory, &error))?,
    };
    let mut all = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| unreadable(directory, &error))?.path();
        let name = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".slot"));
        if let Some(name) = name {
            all.push((name.to_owned(), read(&path)?));
        }
    }
    Ok(all)
}

fn read(path: &Path) -> Result<Stored> {
    let bytes = fs::read(path).map_err(|error| unreadable(path, &error))?;
    let stored = bytes.strip_prefix(MAGIC).and_then(|rest| rest.split_at_checked(SUM_BYTES));
    let stored = stored.filter(|(sum, stored)| digest(&SHA256, stored).as_ref() == *sum);
    stored.and_then(|(_, stored)| postcard::from_bytes(stored).ok()).ok_or_else(|| {
        let message = format!("the replication slot in {} is damaged", path.display());
        SqlError::new(SqlState::DATA_CORRUPTED, message).hint("Remove the file: its reader has to begin again.")
    })
}

fn unreadable(path: &Path, error: &io::Error) -> SqlError {
    SqlError::new(SqlState::IO_ERROR, format!("{} cannot be read or written: {error}", path.display()))
}

impl Slots {
    /// Reads the slots of a database.
    pub(crate) fn open(database_directory: &Path, database: Arc<Database>) -> Result<Self> {
        let directory = database_directory.join(DIRECTORY);
        let stored = read_all(&directory)?;
        if let Some((name, _)) = stored.first().filter(|_| !database.logs_keys()) {
            let message = format!("logical replication slot \"{name}\" exists, but wal_level < logical");
            let hint = "Change wal_level to be logical or higher, or remove the files of the slots.";
            return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message).hint(hint));
        }
        // What a crash has left of files that were being written.
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if entry.path().extension().is_some_and(|extension| extension == UNFINISHED) {
                let _ = fs::remove_file(entry.path());
            }
        }
        let slots = stored.into_iter().map(|(name, Stored { position, image })| {
            let slot = Slot::new(&name, position, image);
            (name, Arc::new(slot))
        });
        let (all, keep_max) = (Mutex::new(slots.collect()), AtomicU64::new(u64::MAX));
        let slots = Self { directory, database, all, keep_max };
        slots.keep(&slots.all());
        Ok(slots)
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Slot>>> {
        self.all.lock().expect("no code panics while it holds the slots")
    }

    /// Sets how many bytes of log a slot may hold back.
    pub(crate) fn limit(&self, bytes: Option<u64>) {
        // Relaxed: it counts from the next look on.
        self.keep_max.store(bytes.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Returns the end of the log up to which changes can be read.
    fn end(&self) -> u64 {
        self.database.changes(None).map_or(0, |reader| reader.position())
    }

    /// Returns the position from which on a slot may hold back the log.
    fn oldest(&self) -> u64 {
        match self.keep_max.load(Ordering::Relaxed) {
            u64::MAX => 0,
            limit => self.end().saturating_sub(limit),
        }
    }

    /// Says from where on the log is kept (invariant 1); slots that are too far behind lose it.
    fn keep(&self, all: &BTreeMap<String, Arc<Slot>>) {
        let oldest = self.oldest();
        let mut kept = None;
        for slot in all.values() {
            let mut state = slot.state();
            let is_behind = state.confirmed < oldest;
            let is_gone = || matches!(self.database.changes(Some(state.saved)), Err(Error::LogRemoved { .. }));
            if !state.is_lost && (is_behind || is_gone()) {
                log_lost(&slot.name, is_behind);
                state.is_lost = true;
            }
            if !state.is_lost && state.saved < oldest {
                // Its reader is not behind; if it fails, the file has the position before.
                let _ = self.write(slot, &mut state);
            }
            if !state.is_lost {
                kept = Some(kept.unwrap_or(u64::MAX).min(state.saved));
            }
        }
        self.database.keep_changes_from(kept);
    }

    /// Looks whether a slot holds back too much, or has lost its log; to be called now and then.
    pub(crate) fn look(&self) {
        let all = self.all();
        if !all.is_empty() {
            self.keep(&all);
        }
    }

    /// Reserves a new slot, which keeps the log from now on.
    pub(crate) fn reserve(self: &Arc<Self>, name: &str, plugin: &str) -> Result<Lease> {
        check_name(name)?;
        if plugin != PLUGIN {
            let error = SqlError::new(SqlState::UNDEFINED_FILE, format!("could not access file \"{plugin}\""));
            return Err(error.hint("The output plugin that there is has the name pgoutput."));
        }
        if !self.database.logs_keys() {
            let message = "logical decoding requires wal_level >= logical";
            let error = SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message);
            return Err(error.hint("Start the server with --wal-level logical."));
        }
        let mut all = self.all();
        if all.contains_key(name) {
            let message = format!("replication slot \"{name}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
        }
        let slot = Arc::new(Slot::new(name, self.end(), Image::default()));
        slot.state().reader = Some(0);
        all.insert(name.to_owned(), slot.clone());
        self.keep(&all);
        Ok(Lease { slots: self.clone(), slot })
    }

    /// Returns a slot to a reader.
    pub(crate) fn acquire(self: &Arc<Self>, name: &str, reader: i32) -> Result<Lease> {
        let slot = self.find(name)?;
        slot.take(reader)?;
        Ok(Lease { slots: self.clone(), slot })
    }

    fn find(&self, name: &str) -> Result<Arc<Slot>> {
        self.all().get(name).cloned().ok_or_else(|| {
            SqlError::new(SqlState::UNDEFINED_OBJECT, format!("replication slot \"{name}\" does not exist"))
        })
    }

    /// Removes a slot.
    pub(crate) fn drop_slot(self: &Arc<Self>, name: &str) -> Result<()> {
        self.acquire(name, 0)?.remove()
    }

    fn remove(&self, slot: &Slot) -> Result<()> {
        // With the lock: a look may write the file of a slot that is in the list.
        let (mut all, path) = (self.all(), self.path(&slot.name));
        let removed = match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) => sync_directory(&self.directory),
            Err(_) => Ok(()),
        };
        removed.map_err(|error| unreadable(&path, &error))?;
        all.remove(&slot.name);
        self.keep(&all);
        Ok(())
    }

    /// Returns all slots, by name.
    pub(crate) fn shown(&self) -> Vec<Shown> {
        self.keep(&self.all());
        let shown = |slot: &Arc<Slot>| {
            let state = slot.state();
            Shown {
                name: slot.name.clone(),
                plugin: PLUGIN,
                reader: state.reader.filter(|reader| *reader != 0),
                saved: state.saved,
                confirmed: state.confirmed,
                // Relaxed: statistics.
                sent: slot.sent.load(Ordering::Relaxed).max(state.confirmed),
                heard: state.heard,
                is_lost: state.is_lost,
            }
        };
        let all: Vec<_> = self.all().values().cloned().collect();
        all.iter().map(shown).collect()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.slot"))
    }

    /// Writes the file of a slot.
    fn write(&self, slot: &Slot, state: &mut State) -> Result<()> {
        let (path, position) = (self.path(&slot.name), state.confirmed);
        let stored = Stored { position, image: state.image.clone() };
        let stored = postcard::to_stdvec(&stored)
            .map_err(|error| SqlError::new(SqlState::INTERNAL_ERROR, format!("a slot cannot be stored: {error}")))?;
        let written = || {
            if !self.directory.exists() {
                DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
                self.directory.parent().map_or(Ok(()), sync_directory)?;
            }
            let unfinished = path.with_extension(UNFINISHED);
            let mut options = OpenOptions::new();
            let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
            file.write_all(MAGIC)?;
            file.write_all(digest(&SHA256, &stored).as_ref())?;
            file.write_all(&stored)?;
            file.sync_all()?;
            fs::rename(&unfinished, &path)?;
            sync_directory(&self.directory)
        };
        written().map_err(|error| unreadable(&path, &error))?;
        (state.saved, state.saved_at) = (position, Instant::now());
        Ok(())
    }
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    fs::File::open(directory)?.sync_all()
}

fn log_lost(name: &str, is_behind: bool) {
    let why = match is_behind {
        true => "it holds back more log than max_slot_wal_keep_size allows",
        false => "the log from its position on is not there any more",
    };
    log::warn!("replication slot \"{name}\" is lost: {why}");
}

fn check_name(name: &str) -> Result<()> {
    let is_good = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'_';
    let what = match name.len() {
        0 => "is too short",
        64.. => "is too long",
        _ if !name.as_bytes().iter().all(is_good) => "contains invalid character",
        _ => return Ok(()),
    };
    let hint = "Replication slot names may only contain lower case letters, numbers, and the underscore character.";
    Err(SqlError::new(SqlState::INVALID_NAME, format!("replication slot name \"{name}\" {what}")).hint(hint))
}

impl Slot {
    fn new(name: &str, position: u64, image: Image) -> Self {
        let state = State {
            confirmed: position,
            image,
            passed: VecDeque::new(),
            saved: position,
            saved_at: Instant::now(),
            reader: None,
            heard: None,
            is_lost: false,
        };
        Self { name: name.to_owned(), state: Mutex::new(state), sent: AtomicU64::new(position) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no code panics while it holds a slot")
    }

    fn take(&self, reader: i32) -> Result<()> {
        let mut state = self.state();
        if let Some(other) = state.reader {
            let message = format!("replication slot \"{}\" is active for PID {other}", self.name);
            return Err(SqlError::new(SqlState::OBJECT_IN_USE, message));
        }
        (state.reader, state.heard) = (Some(reader), None);
        // Relaxed: statistics.
        self.sent.store(state.confirmed, Ordering::Relaxed);
        Ok(())
    }
}

impl Lease {
    /// Returns the confirmed position, and the definitions as of there; the reader begins again from there.
    pub(crate) fn begin(&self) -> Result<(u64, Image)> {
        let mut state = self.slot.state();
        if state.is_lost {
            return Err(lost(&self.slot.name));
        }
        state.passed.clear();
        Ok((state.confirmed, state.image.clone()))
    }

    /// Whether the slot may hold back the log from a position on.
    pub(crate) fn may_keep(&self, position: u64) -> bool {
        position >= self.slots.oldest()
    }

    /// Keeps the log from an earlier position on, until the slot is placed there, or given back.
    pub(crate) fn keep_from(&self, position: u64) {
        self.slot.state().saved = position;
        self.slots.keep(&self.slots.all());
    }

    /// Gives the slot its position; the file is durable when it returns.
    pub(crate) fn place(&self, position: u64, image: Image) -> Result<()> {
        let mut state = self.slot.state();
        (state.confirmed, state.saved, state.image) = (position, position, image);
        self.slots.write(&self.slot, &mut state)
    }

    /// Notes changes of definitions of a transaction that ends at `end`, before the reader is shown it.
    pub(crate) fn pass(&self, end: u64, changes: Vec<ImageChange>) {
        if !changes.is_empty() {
            self.slot.state().passed.push_back((end, changes));
        }
    }

    /// Notes how far the reader has been shown everything.
    pub(crate) fn sends(&self, end: u64) {
        // Relaxed: statistics.
        self.slot.sent.store(end, Ordering::Relaxed);
    }

    /// Notes that the reader has said something.
    pub(crate) fn hears(&self) {
        self.slot.state().heard = Some(Instant::now());
    }

    /// Notes that everything below a position will not be asked for again.
    pub(crate) fn confirm(&self, position: u64) -> Result<()> {
        self.hears();
        let mut state = self.slot.state();
        if position > state.confirmed {
            state.confirmed = position;
            while state.passed.front().is_some_and(|(end, _)| *end <= position) {
                let (_, changes) = state.passed.pop_front().expect("there is one");
                changes.into_iter().for_each(|change| state.image.apply(change));
            }
        }
        let ahead = state.confirmed - state.saved;
        if ahead > WRITE_AFTER_BYTES || ahead > 0 && state.saved_at.elapsed() > WRITE_AFTER {
            return self.save(state);
        }
        Ok(())
    }

    fn save(&self, mut state: MutexGuard<'_, State>) -> Result<()> {
        self.slots.write(&self.slot, &mut state)?;
        drop(state);
        self.slots.keep(&self.slots.all());
        Ok(())
    }

    /// Removes the slot.
    pub(crate) fn remove(self) -> Result<()> {
        self.slots.remove(&self.slot)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let is_there = self.slots.all().get(&self.slot.name).is_some_and(|known| Arc::ptr_eq(known, &self.slot));
        let state = self.slot.state();
        if is_there && state.confirmed > state.saved {
            // If it fails, the file has the position before: the reader is sent more again.
            let _ = self.save(state);
        } else {
            drop(state);
        }
        self.slot.state().reader = None;
    }
}

/// Returns the error of a slot whose log is gone.
pub(super) fn lost(name: &str) -> SqlError {
    let message = format!("can no longer get changes from replication slot \"{name}\"");
    let detail = "This slot has been invalidated because it exceeded the maximum reserved size.";
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message).detail(detail)
}

//! Removes files that are not needed any more, after making sure that neither a backup nor the archive still needs
//! them.
//!
//! Invariants
//! 1. *Held off.* While a [`Hold`] lives, no file is removed: a backup copies the files that it listed when it took the
//!    hold.
//! 2. *Archived first.* A segment of the log or a large value is removed when the archive has it, if there is an
//!    archive. A file that could not be archived stays and is tried again; the failure shows in the statistics.
//! 3. *Markers first.* The files that an older checkpoint needs are removed when the removal of its marker is durable:
//!    a marker that exists belongs to a whole checkpoint.
//! 4. *Kept for readers.* A segment, or a large value, that a reader of the log may ask for stays until the log is as
//!    long as [`Options::keep_log`](crate::Options::keep_log) says behind it, unless room is short.
//! 5. *Kept for readers of changes.* From the position of such a reader on, commits and all that they are chained to
//!    stay, unless room is short. The chained blocks of a commit lie anywhere before it; but what is removed here
//!    belongs to no commit behind the end of the log at that time, so a file stays until the reader has come to that
//!    end.
//! 6. *Forgetting is allowed.* A file that is still waiting here when the process ends is found by its name when the
//!    database is opened next, and removed then.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard},
};

use super::{archive::Archive, blobs, image::Marker};
use crate::{
    log::{
        heads,
        segment::{SegmentFiles, span_of},
    },
    platform::file::Directory,
};

/// Files to be removed.
pub(crate) struct Removals {
    directory: Arc<dyn Directory>,
    files: Arc<SegmentFiles>,
    pub(crate) archive: Option<Archive>,
    waiting: Mutex<Waiting>,
    failure: Mutex<Option<String>>,
}

#[derive(Default)]
struct Waiting {
    holds: usize,
    /// In the order of their removal.
    names: Vec<Waste>,
    kept: Kept,
    /// The position of the reader of changes that is farthest behind; `u64::MAX`: there is none.
    changes_from: u64,
}

/// How much of the log is kept for readers.
#[derive(Clone, Copy, Default)]
pub(crate) struct Kept {
    /// The position from which on its segments are kept.
    pub(crate) log: u64,
    /// Whether commits are kept for readers of changes, with all that they are chained to.
    pub(crate) changes: bool,
}

/// A file that is not needed any more.
struct Waste {
    name: String,
    /// A reader of the log asks for the file only before it has read up to here.
    read_by: u64,
    /// A reader of changes, likewise.
    changes_read_by: u64,
}

impl Waste {
    /// Whether the file may be removed.
    fn is_read(&self, kept: Kept, changes_from: u64) -> bool {
        self.read_by <= kept.log && (!kept.changes || self.changes_read_by <= changes_from)
    }
}

/// Prevents all removals while it lives.
pub(crate) struct Hold<'r>(&'r Removals);

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        let mut waiting = self.0.waiting();
        waiting.holds -= 1;
        self.0.settle(&mut waiting);
    }
}

impl Removals {
    pub(crate) fn new(directory: Arc<dyn Directory>, files: Arc<SegmentFiles>, archive: Option<Archive>) -> Self {
        let waiting = Mutex::new(Waiting { changes_from: u64::MAX, ..Waiting::default() });
        Self { directory, files, archive, waiting, failure: Mutex::default() }
    }

    /// Keeps the log for readers of changes from a position on; `u64::MAX`: for none. A removal before it has removed
    /// nothing that belongs to a commit behind the end of the log as of now: that end was read before the lock was taken,
    /// and a position that the caller takes later is behind it.
    pub(crate) fn keep_changes_from(&self, position: u64) {
        self.waiting().changes_from = position;
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("no code panics while it removes files")
    }

    /// Prevents removals from now on. Waits for a removal that is in progress.
    pub(crate) fn hold(&self) -> Hold<'_> {
        self.waiting().holds += 1;
        Hold(self)
    }

    /// Removes files, now or as soon as they may be removed. They are not needed any more, and their names are not used
    /// again, except for heads of segments, which nothing depends on. The log ends at `log_end` now.
    pub(crate) fn remove(&self, names: impl IntoIterator<Item = String>, log_end: u64, kept: Kept) {
        let mut waiting = self.waiting();
        waiting.names.extend(names.into_iter().map(|name| {
            let (read_by, changes_read_by) = match span_of(&name) {
                Some(span) => (span.end, log_end),
                None if blobs::parse(&name).is_some() => (log_end, log_end),
                None => (0, 0),
            };
            Waste { name, read_by, changes_read_by }
        }));
        waiting.kept = kept;
        self.settle(&mut waiting);
    }

    /// Tries failed removals again, and removes what is not kept for readers any more.
    #[cfg(not(shuttle))]
    pub(crate) fn retry(&self, kept: Kept) {
        let mut waiting = self.waiting();
        waiting.kept = kept;
        self.settle(&mut waiting);
    }

    /// Why a file that should have been removed still exists.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.lock().expect("no code panics while it holds the failure").clone()
    }

    fn settle(&self, waiting: &mut Waiting) {
        if waiting.holds > 0 || waiting.names.is_empty() {
            return;
        }
        let (kept, changes_from) = (waiting.kept, waiting.changes_from);
        if !waiting.names.iter().any(|waste| waste.is_read(kept, changes_from)) {
            return;
        }
        let is_marker = |waste: &Waste| Marker::parse(&waste.name).is_some();
        let mut settled = Ok(());
        if waiting.names.iter().any(is_marker) {
            settled = self.settle_those(&mut waiting.names, is_marker);
        }
        let settled =
            settled.and_then(|()| self.settle_those(&mut waiting.names, |waste| waste.is_read(kept, changes_from)));
        let failure = settled.err().map(|error| error.to_string());
        *self.failure.lock().expect("no code panics while it holds the failure") = failure;
    }

    fn settle_those(&self, names: &mut Vec<Waste>, which: impl Fn(&Waste) -> bool) -> io::Result<()> {
        let mut settled = Ok(());
        names.retain(|waste| {
            let removed = if which(waste) { self.remove_one(&waste.name).map(|()| false) } else { Ok(true) };
            removed.unwrap_or_else(|error| {
                settled = Err(error);
                true
            })
        });
        settled.and(self.directory.sync())
    }

    fn remove_one(&self, name: &str) -> io::Result<()> {
        if let Some(archive) = &self.archive {
            archive.keep_removed(&*self.directory, name)?;
        }
        if let Some(span) = span_of(name) {
            self.files.forget(&span);
            heads::remove(&*self.directory, &span)?;
        }
        match self.directory.remove(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

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
//! 4. *Forgetting is allowed.* A file that is still waiting here when the process ends is found by its name when the
//!    database is opened next, and removed then.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard},
};

use super::{archive::Archive, image::Marker};
use crate::{
    log::segment::{SegmentFiles, span_of},
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
    names: Vec<String>,
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
        Self { directory, files, archive, waiting: Mutex::default(), failure: Mutex::default() }
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
    /// again.
    pub(crate) fn remove(&self, names: impl IntoIterator<Item = String>) {
        let mut waiting = self.waiting();
        waiting.names.extend(names);
        self.settle(&mut waiting);
    }

    /// Tries failed removals again.
    #[cfg(not(shuttle))]
    pub(crate) fn retry(&self) {
        self.settle(&mut self.waiting());
    }

    /// Why a file that should have been removed still exists.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.lock().expect("no code panics while it holds the failure").clone()
    }

    fn settle(&self, waiting: &mut Waiting) {
        if waiting.holds > 0 || waiting.names.is_empty() {
            return;
        }
        let is_marker = |name: &str| Marker::parse(name).is_some();
        let mut settled = Ok(());
        if waiting.names.iter().any(|name| is_marker(name)) {
            settled = self.settle_those(&mut waiting.names, is_marker);
        }
        let settled = settled.and_then(|()| self.settle_those(&mut waiting.names, |_| true));
        let failure = settled.err().map(|error| error.to_string());
        *self.failure.lock().expect("no code panics while it holds the failure") = failure;
    }

    fn settle_those(&self, names: &mut Vec<String>, which: impl Fn(&str) -> bool) -> io::Result<()> {
        let mut settled = Ok(());
        names.retain(|name| {
            let removed = if which(name) { self.remove_one(name).map(|()| false) } else { Ok(true) };
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
        }
        match self.directory.remove(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

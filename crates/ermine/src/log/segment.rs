//! The files of the log's segments.
//!
//! A file's name describes it completely, `log-SEQUENCE-START-END` in hexadecimal digits, so that the segment table is
//! rebuilt from names (ERMIA 3.2). A file begins with the page of the LSN space in which its segment begins, and is as
//! long as its segment, in whole pages. Parts that have not been written yet are zeros. The page behind the segment
//! holds the file's [`Label`]: it names the database that the segment belongs to, and shows that the file has its whole
//! length.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex, MutexGuard, OnceLock},
};

use super::{
    heads,
    identity::{IdentityFile, Label},
    lsn::{GRANULE, OFFSET_MAX},
    room::{is_final, is_full},
    space::{PAGE_BYTES, SEGMENT_BYTES_MAX, Span},
};
use crate::platform::file::{Directory, File, Open};

pub(super) const PREFIX: &str = "log-";

/// Returns the name of a segment's file.
pub(crate) fn name_of(span: &Span) -> String {
    format!("{PREFIX}{:016x}-{:016x}-{:016x}", span.sequence, span.start, span.end)
}

/// Parses a file name; returns the segment if the file is one of the log's.
pub(crate) fn span_of(name: &str) -> Option<Span> {
    let mut numbers = name.strip_prefix(PREFIX)?.split('-').map(|digits| {
        let is_plain = digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_plain.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
    });
    let (sequence, start, end) = (numbers.next()??, numbers.next()??, numbers.next()??);
    let span = Span { sequence, start, end };
    let is_sound = GRANULE <= start && start < end && end <= OFFSET_MAX;
    let is_sound = is_sound && start.is_multiple_of(GRANULE) && end.is_multiple_of(GRANULE);
    let is_sound = is_sound && end - start <= SEGMENT_BYTES_MAX;
    (numbers.next().is_none() && is_sound && name_of(&span) == name).then_some(span)
}

/// Open files, by the sequence number of their segment.
pub(crate) struct SegmentFiles {
    directory: Arc<dyn Directory>,
    how: Open,
    open: Mutex<HashMap<u64, Arc<dyn File>>>,
    /// The identity file that new segments are labelled with, as soon as the database has one.
    identity: OnceLock<Arc<IdentityFile>>,
}

impl SegmentFiles {
    pub(crate) fn new(directory: Arc<dyn Directory>) -> Self {
        Self { directory, how: Open::Write, open: Mutex::default(), identity: OnceLock::new() }
    }

    /// Returns files that are only read.
    pub(crate) fn read_only(directory: Arc<dyn Directory>) -> Self {
        Self { directory, how: Open::Read, open: Mutex::default(), identity: OnceLock::new() }
    }

    /// Returns the directory of the files.
    pub(crate) fn directory(&self) -> &Arc<dyn Directory> {
        &self.directory
    }

    /// From now on, new segments get labels of this identity, and are noted in its file.
    pub(crate) fn label(&self, identity: Arc<IdentityFile>) {
        assert!(self.identity.set(identity).is_ok(), "a database has one identity");
    }

    /// Returns the identity file, if there is one.
    pub(crate) fn identity(&self) -> Option<&Arc<IdentityFile>> {
        self.identity.get()
    }

    /// Returns the file of a segment that exists.
    pub(crate) fn get(&self, span: &Span) -> io::Result<Arc<dyn File>> {
        let mut open = self.files();
        if let Some(file) = open.get(&span.sequence) {
            return Ok(file.clone());
        }
        let file = self.directory.open(&name_of(span), self.how)?;
        open.insert(span.sequence, file.clone());
        Ok(file)
    }

    /// Makes the file of a new segment, with its whole length, so that later writes change no length. When this
    /// returns, the name is durable, and the existence of the segment is noted: nothing in the segment counts before.
    /// Everything in front of the segment is durable already.
    ///
    /// An attempt that fails for lack of room can be repeated. The file stays if it was to be noted: it may have been.
    pub(crate) fn create(&self, span: &Span) -> io::Result<Arc<dyn File>> {
        let made = self.files().get(&span.sequence).cloned();
        let file = made.map_or_else(|| self.make(span), Ok)?;
        if let Some(identity) = self.identity.get() {
            identity.note(span.sequence + 1, span.start)?;
        }
        Ok(file)
    }

    /// Makes the file of a new segment, durably, and undoes that for lack of room.
    fn make(&self, span: &Span) -> io::Result<Arc<dyn File>> {
        let made = self.try_make(span);
        if made.as_ref().is_err_and(is_full) {
            // If the file stayed, the next attempt would fail permanently.
            let _ = self.directory.remove(&name_of(span));
        }
        made
    }

    fn try_make(&self, span: &Span) -> io::Result<Arc<dyn File>> {
        heads::remove(&*self.directory, span)?;
        let file = self.directory.open(&name_of(span), Open::Create)?;
        file.set_length(span.position(span.end).next_multiple_of(PAGE_BYTES))?;
        if let Some(identity) = self.identity.get() {
            Label { identity: identity.identity(), span: *span, whole: span.start }.write(&*file)?;
            file.sync()?;
        }
        self.directory.sync().map_err(is_final)?;
        self.files().insert(span.sequence, file.clone());
        Ok(file)
    }

    fn files(&self) -> MutexGuard<'_, HashMap<u64, Arc<dyn File>>> {
        self.open.lock().expect("no code panics while it holds the files")
    }

    /// Removes the files of a segment.
    pub(crate) fn remove(&self, span: &Span) -> io::Result<()> {
        self.forget(span);
        heads::remove(&*self.directory, span)?;
        self.directory.remove(&name_of(span))
    }

    /// Closes the file of a segment that is no longer live.
    pub(crate) fn forget(&self, span: &Span) {
        self.files().remove(&span.sequence);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    #[cfg(not(shuttle))]
    use crate::{
        log::identity::{IDENTITY, Said, read},
        platform::file::faulty::{Attempt, Fault, FaultyDirectory},
    };

    /// The note may have reached the device although its write failed: then the database opens only with the file.
    #[cfg(not(shuttle))]
    #[test]
    fn a_segment_that_may_have_been_noted_keeps_its_file() {
        for written in [0, 59, 60] {
            let directory = FaultyDirectory::new();
            let files = SegmentFiles::new(Arc::new(directory.clone()));
            files.label(Arc::new(IdentityFile::create(&directory, Said::of_new(0)).unwrap()));
            directory.fail_when(move |_, attempt| match attempt {
                Attempt::Write { name, .. } if name == IDENTITY => Some(Fault::Short(written)),
                _ => None,
            });
            let span = Span { sequence: 0, start: 32, end: 8192 };
            assert!(files.create(&span).is_err_and(|error| is_full(&error)));
            let is_noted = read(&directory).unwrap().unwrap().newest == 1;
            assert_eq!(is_noted, written == 60);
            assert!(directory.list().unwrap().contains(&name_of(&span)), "{written}");
            directory.fail_when(|_, _| None);
            files.create(&span).unwrap();
            assert_eq!(read(&directory).unwrap().unwrap().newest, 1);
        }
    }

    #[test]
    fn a_name_gives_its_segment_back() {
        let span = Span { sequence: 17, start: 4096, end: 1 << 35 };
        assert_eq!(span_of(&name_of(&span)), Some(span));
        let name = name_of(&span);
        for other in
            ["", "log-", "log-1-2-3", "LOCK", &name[..name.len() - 1], &format!("{name}-0"), &format!("{name}.x")]
        {
            assert_eq!(span_of(other), None, "{other}");
        }
        for (start, end) in [(32, 32), (32, 16), (17, 4096), (32, u64::MAX)] {
            assert_eq!(span_of(&format!("log-{:016x}-{:016x}-{:016x}", 1, start, end)), None);
        }
    }
}

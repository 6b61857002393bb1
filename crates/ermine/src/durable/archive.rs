//! The archive: the files a backup needs besides itself to be restored to any later moment.
//!
//! The archive is a directory with every segment of the log, under its own name, and every large value. A segment is
//! archived before it is freed. The segment that is being written is archived as far as it is durable, under its name
//! with the suffix `.part`, when the database is closed or on request; the partial file is removed once the whole
//! segment is archived. Where the system can, a file is not copied but gets a second name (a hard link): a segment that
//! ends below the durable end of the log is not written to any more, and a large value never is.
//!
//! Invariants
//! 1. A name without a suffix denotes a whole, durable file: it is written under another name, synced, and renamed.
//! 2. Large values are archived before the segments that refer to them.
//! 3. A file is never replaced by another one of the same name: that one belongs to another database, or to a restored
//!    one that has diverged, and needs an archive of its own.

use std::{
    collections::HashSet,
    io,
    path::Path,
    sync::{Arc, Mutex, MutexGuard},
};

use super::{
    blobs,
    copy::{close_segment, copy_bytes},
};
use crate::{
    error::{Error, Result},
    log::{
        identity::Identity,
        segment::{name_of, span_of},
        space::Span,
    },
    options::Options,
    platform::file::{
        Directory, Open,
        real::{RealDirectory, link},
    },
};

/// Suffix of a segment that is archived in part.
const PART: &str = ".part";
/// Suffix of a file that is being written.
const NEW: &str = ".new";

/// The archive of a database.
pub(crate) struct Archive {
    to: Arc<dyn Directory>,
    /// Files that are certainly in the archive. Locked while a file is being archived.
    known: Mutex<HashSet<String>>,
    /// Identity of the database.
    identity: Identity,
}

impl Archive {
    /// Opens the archive that the options name, for the database in `directory`.
    pub(crate) fn open(options: &Options, directory: &dyn Directory, identity: Identity) -> Result<Option<Self>> {
        let to = match (&options.archive, &options.archive_in) {
            (_, Some(to)) => to.clone(),
            (Some(path), None) => open_directory(path)?,
            (None, None) => return Ok(None),
        };
        if to.location().is_some() && to.location() == directory.location() {
            return Err(Error::Options("the archive cannot be the directory of the database itself".into()));
        }
        Ok(Some(Self { to, known: Mutex::default(), identity }))
    }

    fn known(&self) -> MutexGuard<'_, HashSet<String>> {
        self.known.lock().expect("no code panics while it archives")
    }

    /// Archives a file that is about to be removed, if the archive has a use for it.
    pub(crate) fn keep_removed(&self, from: &dyn Directory, name: &str) -> io::Result<()> {
        if blobs::parse(name).is_some() {
            return self.keep(from, name);
        }
        let Some(span) = span_of(name) else { return Ok(()) };
        self.keep_blobs(from)?;
        self.keep_segment(from, &span)
    }

    /// Archives all large values that exist.
    pub(crate) fn keep_blobs(&self, from: &dyn Directory) -> io::Result<()> {
        from.list()?.into_iter().filter(|name| blobs::parse(name).is_some()).try_for_each(|name| self.keep(from, &name))
    }

    /// Archives a whole segment.
    pub(crate) fn keep_segment(&self, from: &dyn Directory, span: &Span) -> io::Result<()> {
        let name = name_of(span);
        self.keep(from, &name)?;
        let part = name + PART;
        if self.to.list()?.contains(&part) {
            self.to.remove(&part)?;
        }
        Ok(())
    }

    /// Archives a segment as far as it is durable.
    pub(crate) fn keep_part(&self, from: &dyn Directory, span: &Span, durable: u64) -> io::Result<()> {
        let _known = self.known();
        let name = name_of(span);
        let new = self.make_new(&name)?;
        copy_bytes(&*from.open(&name, Open::Read)?, &*new, span.position(durable), |_| Ok(()))?;
        close_segment(&*new, span, durable, Some(self.identity))?;
        self.to.rename(&(name.clone() + NEW), &(name + PART))?;
        self.to.sync()
    }

    fn make_new(&self, name: &str) -> io::Result<Arc<dyn crate::platform::file::File>> {
        let new = name.to_string() + NEW;
        if self.to.list()?.contains(&new) {
            self.to.remove(&new)?;
        }
        self.to.open(&new, Open::Create)
    }

    fn keep(&self, from: &dyn Directory, name: &str) -> io::Result<()> {
        let mut known = self.known();
        if known.contains(name) {
            return Ok(());
        }
        if self.to.list()?.iter().any(|there| there == name) {
            if !is_same(from, &*self.to, name)? {
                let path = self.to.path();
                return Err(io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    format!(
                        "{path} has another {name}: a restored database, or another one, needs an archive of its own"
                    ),
                ));
            }
        } else if !link(from, &*self.to, name) {
            let source = match from.open(name, Open::Read) {
                // A large value that was rolled back, or a segment that was removed before a crash.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                source => source?,
            };
            let new = self.make_new(name)?;
            copy_bytes(&*source, &*new, u64::MAX, |_| Ok(()))?;
            new.sync()?;
            self.to.rename(&(name.to_string() + NEW), name)?;
        }
        self.to.sync()?;
        known.insert(name.to_string());
        Ok(())
    }
}

/// Opens the directory of an archive; creates it if it does not exist.
pub(super) fn open_directory(path: &Path) -> Result<Arc<dyn Directory>> {
    Ok(Arc::new(RealDirectory::create(path).map_err(super::store::storage)?))
}

/// The segment that a file of an archive holds, and whether it holds all of it.
pub(super) fn archived_span(name: &str) -> Option<(Span, bool)> {
    match name.strip_suffix(PART) {
        Some(whole) => span_of(whole).map(|span| (span, false)),
        None => span_of(name).map(|span| (span, true)),
    }
}

/// Whether the files of this name in two directories have the same contents.
fn is_same(one: &dyn Directory, other: &dyn Directory, name: &str) -> io::Result<bool> {
    const BYTES: usize = 1 << 20;
    let one = match one.open(name, Open::Read) {
        // The file has been removed in the meantime.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        one => one?,
    };
    let other = other.open(name, Open::Read)?;
    if one.length()? != other.length()? {
        return Ok(false);
    }
    let mut buffers = [vec![0; BYTES], vec![0; BYTES]];
    for at in (0..one.length()?).step_by(BYTES) {
        let [first, second] = &mut buffers;
        let read = [one.read_at(at, first)?, other.read_at(at, second)?];
        if read[0] != read[1] || first[..read[0]] != second[..read[1]] {
            return Ok(false);
        }
    }
    Ok(true)
}

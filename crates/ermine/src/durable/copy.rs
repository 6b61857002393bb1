//! Durable copying of a database's files from directory to directory, such that half a copy is never taken for a
//! database.
//!
//! A directory that is being filled has a file [`UNFINISHED`] from its first moment to its last. The marker of the
//! checkpoint is made when all the rest is durable, and then [`UNFINISHED`] is removed. Recovery refuses a directory
//! that has it.
//!
//! Copies are of the same database: they carry its identity. Segments get labels of their own, which say where they
//! were cut.

use std::io;

use super::{
    blobs,
    image::{self, Image, Marker},
    store::storage,
};
use crate::{
    error::{Error, Result},
    log::{
        block::{HEADER_BYTES, Sealed},
        identity::{IDENTITY, Identity, IdentityFile, Label, Said},
        space::Span,
    },
    platform::file::{Directory, File, Open, real},
};

/// Name of the file that marks a directory as incomplete.
pub(crate) const UNFINISHED: &str = "UNFINISHED";

/// Bytes copied at a time.
const COPY_BYTES: usize = 1 << 20;

/// Progress of a long operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The current step.
    pub step: &'static str,
    /// Bytes done.
    pub done: u64,
    /// Bytes in total; zero when that is not known.
    pub total: u64,
}

/// Callback that receives the progress of a copy; if it returns an error, the copy ends.
pub(crate) type Watch<'a> = dyn FnMut(Progress) -> io::Result<()> + 'a;

/// A directory that is being filled. Its files are removed again if the filling ends without [`Filling::finish`].
pub(super) struct Filling<'a> {
    to: &'a dyn Directory,
    /// Names in the directory, [`UNFINISHED`] first.
    made: Vec<String>,
    /// Bytes and files copied.
    pub(super) bytes: u64,
    pub(super) files: u64,
    total: u64,
    /// Identity and state to be recorded in the copy; `None`: the source was written by an earlier program.
    said: Option<Said>,
    progress: &'a mut Watch<'a>,
}

impl Drop for Filling<'_> {
    /// Removes the files of a copy that has failed: they may be filling the device. [`UNFINISHED`] is removed when the
    /// removal of the others is durable, so that a part of a copy is never taken for a database. Files that cannot be
    /// removed stay, and the next copy reports them.
    fn drop(&mut self) {
        let remove = |name: &str| match self.to.remove(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        let Some((unfinished, others)) = self.made.split_first() else { return };
        let removed = others.iter().rev().try_for_each(|name| remove(name)).and_then(|()| self.to.sync());
        let removed = removed.and_then(|()| remove(unfinished)).and_then(|()| self.to.sync());
        if let Err(error) = removed {
            ::log::warn!("an unfinished copy is left in {}: {error}", self.to.path());
        }
    }
}

impl<'a> Filling<'a> {
    /// Begins with an empty directory.
    pub(super) fn begin(to: &'a dyn Directory, said: Option<Said>, progress: &'a mut Watch<'a>) -> Result<Self> {
        let path = to.path();
        let names = to.list().map_err(storage)?;
        if names.iter().any(|name| name == UNFINISHED) {
            return Err(Error::Storage(format!(
                "{path} holds what a backup or restore that broke off has left: remove its files first"
            )));
        }
        if names.iter().any(|name| name != real::LOCK) {
            return Err(Error::Storage(format!("{path} is not empty: name a new directory")));
        }
        // The extent of the copied log is noted as the log is copied.
        let said = said.map(|said| Said { newest: 0, durable: 0, ..said });
        let filling = Self { to, made: vec![UNFINISHED.into()], bytes: 0, files: 0, total: 0, said, progress };
        let begun = to.open(UNFINISHED, Open::Create).and_then(|file| file.sync()).and_then(|()| to.sync());
        begun.map_err(storage)?;
        Ok(filling)
    }

    /// Reports the step that begins now.
    pub(super) fn tell(&mut self, step: &'static str) -> io::Result<()> {
        (self.progress)(Progress { step, done: self.bytes, total: self.total })
    }

    /// Adds `bytes` to the expected total.
    pub(super) fn expect(&mut self, bytes: u64) {
        self.total += bytes;
    }

    /// Copies the first `bytes` of a file (all of it if it is shorter) under the name `to`.
    pub(super) fn copy(&mut self, from: &dyn Directory, name: &str, to: &str, bytes: u64) -> io::Result<()> {
        let file = self.copy_unsynced(from, name, to, bytes)?;
        file.sync()
    }

    fn copy_unsynced(
        &mut self,
        from: &dyn Directory,
        name: &str,
        to: &str,
        bytes: u64,
    ) -> io::Result<std::sync::Arc<dyn File>> {
        let source = from.open(name, Open::Read)?;
        let target = self.create(to)?;
        let Self { bytes: all, total, progress, .. } = self;
        copy_bytes(&*source, &*target, bytes, |copied| {
            *all += copied;
            progress(Progress { step: "copying", done: *all, total: *total })
        })?;
        Ok(target)
    }

    /// Like [`Filling::copy`], with the bytes at the beginning replaced by `head`.
    pub(super) fn copy_behind(
        &mut self,
        from: &dyn Directory,
        name: &str,
        to: &str,
        head: &[u8],
        bytes: u64,
    ) -> io::Result<()> {
        let file = self.copy_unsynced(from, name, to, bytes)?;
        file.write_at(0, head)?;
        file.sync()
    }

    /// Creates a file.
    pub(super) fn create(&mut self, name: &str) -> io::Result<std::sync::Arc<dyn File>> {
        self.made.push(name.to_owned());
        self.files += 1;
        self.to.open(name, Open::Create)
    }

    /// Copies a segment up to `at`; if that is not its end, the rest is permanently closed.
    pub(super) fn copy_segment(&mut self, from: &dyn Directory, name: &str, span: &Span, at: u64) -> io::Result<()> {
        let target = crate::log::segment::name_of(span);
        let at = at.min(span.end);
        let file = self.copy_unsynced(from, name, &target, span.position(at))?;
        close_segment(&*file, span, at, self.said.map(|said| said.identity))?;
        self.note(span.sequence + 1, at);
        Ok(())
    }

    /// Identity and state to be recorded in the copy; `None`: nothing is recorded.
    pub(super) fn said(&self) -> Option<Said> {
        self.said
    }

    /// Notes that a file of the log has been copied: its number plus one, and the offset up to which the log is durable
    /// with it.
    pub(super) fn note(&mut self, newest: u64, durable: u64) {
        if let Some(said) = &mut self.said {
            (said.newest, said.durable) = (said.newest.max(newest), said.durable.max(durable));
        }
    }

    /// Copies the checkpoint, without its marker, and the files of the cold store that it names.
    pub(super) fn copy_checkpoint(&mut self, from: &dyn Directory, image: &Image) -> io::Result<()> {
        self.expect(image.bytes() + image.cold.iter().map(|file| file.end - file.start).sum::<u64>());
        for file in &image.cold {
            let name = super::cold::name_of(file.start);
            self.copy(from, &name, &name, file.end - file.start)?;
        }
        let name = image::name_of(image.marker.begin);
        self.copy(from, &name, &name, image.bytes())
    }

    /// Copies all large values that the target does not have yet.
    pub(super) fn copy_blobs(&mut self, from: &dyn Directory) -> io::Result<()> {
        let there = self.to.list()?;
        for name in from.list()?.into_iter().filter(|name| blobs::parse(name).is_some() && !there.contains(name)) {
            match self.copy(from, &name, &name, u64::MAX) {
                // The value of a transaction that has been rolled back in the meantime.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                copied => copied?,
            }
        }
        Ok(())
    }

    /// Makes the complete copy a database, provided that `check` passes.
    pub(super) fn finish(mut self, marker: Option<Marker>, check: impl FnOnce() -> Result<()>) -> Result<()> {
        self.complete(marker).map_err(storage)?;
        check()?;
        self.to.remove(UNFINISHED).map_err(storage)?;
        self.made.clear();
        self.to.sync().map_err(storage)
    }

    fn complete(&mut self, marker: Option<Marker>) -> io::Result<()> {
        if let Some(said) = self.said.take() {
            // Under its own name, unlike a new database's: `UNFINISHED` guards it. A renamed file is removed by its new
            // name, and after a failed sync of the directory the old name can be there again.
            self.made.push(IDENTITY.into());
            IdentityFile::fill(&*self.to.open(IDENTITY, Open::Create)?, said)?;
        }
        self.to.sync()?;
        if let Some(marker) = marker {
            self.made.push(marker.name());
            self.to.open(&marker.name(), Open::Create)?.sync()?;
            self.to.sync()?;
        }
        Ok(())
    }
}

/// Copies the first `bytes` of a file, or all of it if it is shorter.
pub(super) fn copy_bytes(
    from: &dyn File,
    to: &dyn File,
    bytes: u64,
    mut copied: impl FnMut(u64) -> io::Result<()>,
) -> io::Result<()> {
    let mut buffer = vec![0; COPY_BYTES];
    let mut at = 0;
    while at < bytes {
        let wanted = (bytes - at).min(COPY_BYTES as u64) as usize;
        let read = from.read_at(at, &mut buffer[..wanted])?;
        to.write_at(at, &buffer[..read])?;
        at += read as u64;
        copied(read as u64)?;
        if read < wanted {
            break;
        }
    }
    Ok(())
}

/// Ends the log at `at`: a skip covers the rest of the segment. Makes the file durable, with a label where the database
/// has an identity.
pub(super) fn close_segment(file: &dyn File, span: &Span, at: u64, identity: Option<Identity>) -> io::Result<()> {
    if at < span.end && span.end - at >= HEADER_BYTES as u64 {
        let skip = Sealed::skip(span.end - at).place(&[], span.lsn(at), at);
        file.write_at(span.position(at), &skip)?;
    }
    if let Some(identity) = identity {
        Label { identity, span: *span, whole: at }.write(file)?;
    }
    file.sync()
}

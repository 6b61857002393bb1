//! Backups of an open database, and archiving of its log up to now.
//!
//! A backup is the newest checkpoint, the files of the cold store that it names, the log after it up to the durable
//! offset when the copy gets there, and all large values. Transactions and checkpoints go on; only the removal of files
//! waits. The log's last segment is cut at the durable offset and closed, so that the copy ends as a log does after
//! recovery. See docs/design/backup.md.
//!
//! Invariants
//! 1. *Everything acknowledged is in the backup*: the durable end of the log is taken after the call began, and nothing
//!    that was committed before the call lies above it.
//! 2. *Nothing is removed meanwhile*: the names are listed under a hold, and the files that the newest marker names
//!    were not removed before it.
//! 3. *Large values last*: a value that the copied log refers to was durable before its transaction took its place in
//!    the log.

use std::time::{Duration, Instant};

use super::{
    checkpoint::Pace,
    copy::{Filling, Watch},
    image::{Image, Marker},
    shipping::{changes::ChangeReader, reader::LogReader},
    store::{Store, storage},
};
use crate::{
    engine::Engine,
    error::{Error, Result},
    log::{
        Log,
        segment::{name_of, span_of},
        space::Span,
    },
    platform::file::Directory,
    scheme::{Certifier as _, Scheme},
};

/// Bytes of log after the newest checkpoint from which on a backup makes a new checkpoint first.
const OLD_BYTES: u64 = 64 << 20;

/// Summary of a backup.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct BackupReport {
    /// The lowest LSN that the backup can be restored to: the end of the checkpoint's walk. Under single-version
    /// schemes this and `to_lsn` are commit stamps, too ([`crate::Stamp::as_u64`]), each the first of an epoch.
    pub from_lsn: u64,
    /// The backup contains everything that was committed below this LSN.
    pub to_lsn: u64,
    /// Files copied.
    pub files: u64,
    /// Bytes copied.
    pub bytes: u64,
    /// Duration of the backup.
    pub took: Duration,
}

impl<S: Scheme> Engine<S> {
    /// Copies the database to an empty directory.
    pub(crate) fn backup<'w>(&self, to: &'w dyn Directory, watch: &'w mut Watch<'w>) -> Result<BackupReport> {
        let (log, store) = self.log_and_store()?;
        let began = Instant::now();
        log.check()?;
        let said = store.segment_files().identity().map(|identity| identity.said());
        let mut filling = Filling::begin(to, said, watch)?;
        let (distance, size) = store.checkpoints.distance(self.shared.clock.now().0);
        if !store.checkpoints.has_one() || distance > OLD_BYTES.max(size / 2) {
            filling.tell("making a checkpoint").map_err(storage)?;
            self.checkpoint(Pace::Gentle)?;
        }
        let hold = store.removals.hold();
        let from = &*store.directory;
        let names = from.list().map_err(storage)?;
        let marker = names.iter().filter_map(|name| Marker::parse(name)).max();
        let marker = marker.ok_or_else(|| Error::Storage("the checkpoint's marker is gone".into()))?;
        let image = Image::open(from, marker)?;
        filling.copy_checkpoint(from, &image).map_err(storage)?;
        log.note_moment();
        log.sync()?;
        let end = log.durable();
        let segments = segments_below(from, end)?;
        let needed: Vec<_> = segments.iter().filter(|span| span.sequence >= image.head.log_sequence).collect();
        filling.expect(needed.iter().map(|span| end.min(span.end) - span.start).sum());
        for span in needed {
            filling.copy_segment(from, &name_of(span), span, end).map_err(storage)?;
        }
        filling.copy_blobs(from).map_err(storage)?;
        drop(hold);
        let (files, bytes) = (filling.files, filling.bytes);
        filling.finish(Some(marker), || Ok(()))?;
        Ok(BackupReport { from_lsn: image.walked, to_lsn: end, files, bytes, took: began.elapsed() })
    }

    /// Reads the log from a position on, or from its durable end on.
    pub(crate) fn log_reader(&self, from: Option<u64>) -> Result<LogReader<'_>> {
        let (log, store) = self.log_and_store()?;
        LogReader::new(log, store, from)
    }

    /// Marks the present state in the log as a safe snapshot; returns whether the log ends with one, or has none.
    pub(crate) fn mark_safe_snapshot(&self) -> bool {
        /// Others may take the place first.
        const ATTEMPTS: usize = 16;
        let Some(log) = self.log.as_ref().filter(|_| self.options.scheme.is_serializable()) else { return true };
        let mark = || {
            log.try_mark(|claim| match S::Certifier::SNAPSHOT_IS_SERIAL {
                true => claim(),
                false => self.safe.mark(&self.shared.safe, claim),
            })
        };
        (0..ATTEMPTS).any(|_| mark())
    }

    /// Reads the changes of committed transactions from a position on, or from the durable end of the log on.
    pub(crate) fn changes(&self, from: Option<u64>) -> Result<ChangeReader<'_>> {
        let (log, store) = self.log_and_store()?;
        if !self.options.log_keys {
            return Err(Error::Options("the log has no keys to read changes by: use Options::log_keys".into()));
        }
        ChangeReader::new(log, store, from, Box::new(|table| self.tables.name_of(table)))
    }

    fn log_and_store(&self) -> Result<(&Log, &Store)> {
        match (&self.log, &self.store) {
            (Some(log), Some(store)) => Ok((log, store)),
            _ => Err(Error::Options("a database that writes nothing to files has nothing to copy".into())),
        }
    }

    /// Archives everything that is committed.
    pub(crate) fn archive_now(&self) -> Result<()> {
        let (log, store) = self.log_and_store()?;
        if store.removals.archive.is_none() {
            return Err(Error::Options("the database was opened without Options::archive".into()));
        }
        log.note_moment();
        log.sync()?;
        self.archive_durable(log, store)
    }

    /// Archives everything that is durable, if there is an archive.
    pub(crate) fn archive_durable(&self, log: &Log, store: &Store) -> Result<()> {
        let Some(archive) = &store.removals.archive else { return Ok(()) };
        let _hold = store.removals.hold();
        let (from, end) = (&*store.directory, log.durable());
        let segments = segments_below(from, end)?;
        archive.keep_blobs(from).map_err(storage)?;
        for span in &segments {
            let kept =
                if span.end <= end { archive.keep_segment(from, span) } else { archive.keep_part(from, span, end) };
            kept.map_err(storage)?;
        }
        Ok(())
    }
}

/// The segments with files that begin below `end`, oldest first.
fn segments_below(directory: &dyn Directory, end: u64) -> Result<Vec<Span>> {
    let names = directory.list().map_err(storage)?;
    let mut segments: Vec<_> = names.iter().filter_map(|name| span_of(name)).filter(|span| span.start < end).collect();
    segments.sort_unstable_by_key(|span| span.sequence);
    Ok(segments)
}

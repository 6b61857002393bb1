//! Backups of an open database of a single-version scheme, and archiving of its log up to now.
//!
//! A backup is the newest checkpoint and the log after it, up to the persistent epoch when the copy gets there. It has
//! one device, the directory that it is in, and is a database like any other. Transactions go on meanwhile; checkpoints
//! wait.
//!
//! Invariant: *everything acknowledged is in the backup*. The persistent epoch is read after the log was synced, and
//! the log is synced after the call began.

use std::time::Instant;

use super::{
    super::{
        backup::BackupReport,
        checkpoint::Pace,
        copy::{Filling, Watch},
        shipping::{changes::ChangeReader, reader::LogReader},
        store::storage,
    },
    checkpoint::Checkpoints,
    files::{Role, find},
    history::History,
    image::Manifest,
};
use crate::{
    error::{Error, Result},
    log::parallel::ParallelLog,
    platform::file::Directory,
    rows::in_place::CommitTid,
    scheme::in_place::InPlace,
    single::Engine,
};

/// Bytes of log after the newest checkpoint from which on a backup makes a new checkpoint first.
const OLD_BYTES: u64 = 64 << 20;

impl<P: InPlace> Engine<P> {
    /// Copies the database to an empty directory.
    pub(crate) fn backup<'w>(&self, to: &'w dyn Directory, watch: &'w mut Watch<'w>) -> Result<BackupReport> {
        let (log, checkpoints) = self.log_and_checkpoints()?;
        let began = Instant::now();
        log.check()?;
        let mut filling = Filling::begin(to, checkpoints.places.said, watch)?;
        let mut state = checkpoints.lock();
        let (distance, bytes) = state.distance(log);
        if !state.has_one() || distance > OLD_BYTES.max(bytes / 2) {
            filling.tell("making a checkpoint").map_err(storage)?;
            self.make_checkpoint(&mut state, Pace::Gentle, true)?;
        }
        log.sync()?;
        let places = &checkpoints.places;
        let found = find(places, self.options.scheme)?;
        let history = History::of(places, &found);
        let manifest = found.manifest.as_ref().ok_or_else(|| Error::Storage("the checkpoint is gone".into()))?;
        filling.expect(history.bytes());
        manifest.copy_rows(&mut filling, &places.devices).map_err(storage)?;
        history.copy_to(&mut filling, u64::MAX).map_err(storage)?;
        manifest.copy_to(&mut filling).map_err(storage)?;
        let (from_lsn, to_lsn) = (position(manifest.last_epoch), position(found.epoch + 1));
        let (files, bytes) = (filling.files, filling.bytes);
        filling.finish(None, || Ok(()))?;
        Ok(BackupReport { from_lsn, to_lsn, files, bytes, took: began.elapsed() })
    }

    fn log_and_checkpoints(&self) -> Result<(&ParallelLog, &Checkpoints)> {
        match (&self.log, &self.checkpoints) {
            (Some(log), Some(checkpoints)) => Ok((log, checkpoints)),
            _ => Err(Error::Options("a database that writes nothing to files has nothing to copy".into())),
        }
    }

    /// Refuses to read the log: it has another form than the one that is shipped.
    pub(crate) fn log_reader(&self, _from: Option<u64>) -> Result<LogReader<'_>> {
        Err(Error::Options(format!(
            "the log of a database under {} is not shipped: use a scheme that keeps versions, like si-ssn",
            self.options.scheme
        )))
    }

    /// Marks nothing: the log is not shipped.
    pub(crate) fn mark_safe_snapshot(&self) -> bool {
        true
    }

    /// Keeps nothing: no changes are read.
    pub(crate) fn keep_changes_from(&self, _position: Option<u64>) {}

    /// Refuses to read changes, as it does to read the log.
    pub(crate) fn changes(&self, _from: Option<u64>) -> Result<ChangeReader<'_>> {
        Err(Error::Options(format!(
            "changes cannot be read from the log of a database under {}: use a scheme that keeps versions, like si-ssn",
            self.options.scheme
        )))
    }

    /// Archives everything that is committed.
    pub(crate) fn archive_now(&self) -> Result<()> {
        let (log, checkpoints) = self.log_and_checkpoints()?;
        let Some(archive) = &checkpoints.archive else {
            return Err(Error::Options("the database was opened without Options::archive".into()));
        };
        let _state = checkpoints.lock();
        log.sync()?;
        archive.keep(&checkpoints.places, log)
    }
}

/// The first commit stamp of an epoch.
pub(super) fn position(epoch: u64) -> u64 {
    CommitTid::first(epoch).stamp().as_u64()
}

impl Manifest {
    /// Copies the rows of the checkpoint.
    pub(super) fn copy_rows(
        &self,
        filling: &mut Filling<'_>,
        devices: &[std::sync::Arc<dyn Directory>],
    ) -> std::io::Result<()> {
        filling.expect(self.files.iter().map(|file| file.bytes).sum());
        for (number, file) in (0..).zip(&self.files) {
            let name = Role::Rows(self.epoch, number).name();
            filling.copy(&*devices[file.device], &name, &name, file.bytes)?;
        }
        Ok(())
    }

    /// Makes the checkpoint count in a copy, which has one device and files of the log numbered from 1.
    pub(super) fn copy_to(&self, filling: &mut Filling<'_>) -> std::io::Result<()> {
        let mut copy = Self { first: vec![1], ..self.clone() };
        copy.files.iter_mut().for_each(|file| file.device = 0);
        let file = filling.create(&Role::Manifest(self.epoch).name())?;
        file.write_at(0, &copy.encode())?;
        file.sync()
    }
}

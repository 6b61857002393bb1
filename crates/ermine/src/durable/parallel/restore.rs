//! Restores a single-version database as of a moment: a backup, the archived log after it, and the last epoch that
//! counts.
//!
//! Epochs are in serial order, so a state is the end of an epoch: the cut is made in the copy's persistent epochs. All
//! records that are copied are read first, so that a restore with damaged records is never reported as successful.
//!
//! Invariants
//! 1. *Not inside the checkpoint*: it may have met changes up to its last epoch, so the cut keeps all of them.
//! 2. *Nothing is skipped*: the backup is complete from its checkpoint on, and the archive from the first epoch of a
//!    span that begins before the backup ends. A file that either of them names and that is missing, short or damaged
//!    before the cut is an error.

use std::{
    sync::Arc,
    time::{Instant, SystemTime},
};

use super::{
    super::{
        copy::{Filling, Progress},
        restore::{RestoreReport, Until},
        store::storage,
    },
    archive,
    backup::position,
    files::{Found, Places, find},
    history::{Contents, History},
};
use crate::{
    error::{Error, Result},
    ids::Stamp,
    log::parallel::record::Note,
    options::{Options, Scheme},
    platform::file::Directory,
    rows::in_place::CommitTid,
};

/// Restores; see [`super::super::restore::restore`].
pub(in super::super) fn restore(
    backup: &Arc<dyn Directory>,
    archive: Option<&Arc<dyn Directory>>,
    target: &dyn Directory,
    until: Until,
    progress: &mut dyn FnMut(Progress),
) -> Result<RestoreReport> {
    let began = Instant::now();
    let places = Places::open_to_look(backup, &Options::default())?;
    // Any scheme of the family will do.
    let found = find(&places, Scheme::Silo)?;
    let mut history = History::of(&places, &found);
    let mut log = Log { from: found.epoch, to: found.epoch, archived: None };
    let mut said = places.said;
    if let Some(directory) = archive {
        let contents = archive::Contents::read(&**directory)?;
        // A backup by an earlier program does not have the identity that its database got later.
        said = said.or(contents.said);
        if let (Some(own), Some(archived)) = (said, contents.said)
            && own.identity != archived.identity
        {
            return Err(Error::Storage(format!(
                "the archive in {} is of database {}, and the backup of {}: name the archive of the backup's database",
                directory.path(),
                archived.identity,
                own.identity
            )));
        }
        log.go_on(&contents, until, &directory.path())?;
        contents.add_to(&mut history, directory, found.manifest.as_ref().map_or(0, |manifest| manifest.generation));
    }
    let (mut notes, total) = (Vec::new(), history.bytes());
    let mut read: Vec<(_, Contents)> = Vec::new();
    let mut done = 0;
    for (file, place) in &history.files {
        let contents = place.read(history.limits[&file.generation].min(log.to), said)?;
        notes.extend(&contents.notes);
        done += place.bytes;
        progress(Progress { step: "reading the log", done, total });
        read.push((*file, contents));
    }
    let walked = found.manifest.as_ref().filter(|manifest| manifest.micros > 0);
    notes.extend(walked.map(|manifest| Note { epoch: manifest.last_epoch, micros: manifest.micros }));
    notes.sort_unstable_by_key(|note: &Note| (note.epoch, note.micros));
    let cut = log.cut(&found, &notes, until)?;
    let first = found.manifest.as_ref().map_or(0, |manifest| manifest.epoch);
    for (file, contents) in read {
        // A file with no record between the checkpoint and the cut is left out.
        if contents.epochs.is_none_or(|(least, greatest)| least > cut || greatest < first) {
            history.files.remove(&file);
        }
    }
    let watch = &mut |copied| {
        progress(copied);
        Ok(())
    };
    let mut filling = Filling::begin(target, said, watch)?;
    filling.expect(history.bytes());
    if let Some(manifest) = &found.manifest {
        manifest.copy_rows(&mut filling, &places.devices).map_err(storage)?;
    }
    history.copy_to(&mut filling, cut).map_err(storage)?;
    if let Some(manifest) = &found.manifest {
        manifest.copy_to(&mut filling).map_err(storage)?;
    }
    let bytes = filling.bytes;
    filling.finish(None, || Ok(()))?;
    Ok(RestoreReport {
        lsn: position(cut + 1),
        moment: moment_of(&notes, cut),
        segments: history.files.len() as u64,
        archived_segments: history.files.values().filter(|place| place.is_archived).count() as u64,
        bytes,
        took: began.elapsed(),
    })
}

/// The epochs that are available.
struct Log {
    /// The last epoch of the backup.
    from: u64,
    /// The last epoch of all.
    to: u64,
    /// When the archive was last updated.
    archived: Option<SystemTime>,
}

impl Log {
    /// Extends the log of the backup with that of an archive.
    fn go_on(&mut self, contents: &archive::Contents, until: Until, path: &str) -> Result<()> {
        let reaches = |span: &&(u64, u64)| span.0 <= self.from + 1 && span.1 >= self.from;
        let is_enough = matches!(until, Until::Lsn(stamp) if epoch_of(stamp) <= self.from);
        match contents.spans.iter().rfind(reaches) {
            Some((_, to)) => self.to = *to,
            None if is_enough => {}
            None => {
                let Some((next, _)) = contents.spans.iter().find(|(from, _)| *from > self.from) else { return Ok(()) };
                return Err(gap(path, self.from + 1, next - 1));
            }
        }
        let later = contents.spans.iter().find(|(from, _)| *from > self.to);
        let asks_for_later = match until {
            Until::End => true,
            Until::Lsn(stamp) => epoch_of(stamp) > self.to,
            // The notes decide that.
            Until::Time(_) => false,
        };
        match later {
            Some((next, _)) if asks_for_later => return Err(gap(path, self.to + 1, next - 1)),
            Some(_) => {}
            None => self.archived = contents.moment(),
        }
        Ok(())
    }

    /// The last epoch that is kept.
    fn cut(&self, found: &Found, notes: &[Note], until: Until) -> Result<u64> {
        let last = found.manifest.as_ref().map_or(0, |manifest| manifest.last_epoch);
        let too_early = || {
            let moment = notes.iter().find(|note| note.epoch >= last).and_then(Note::moment);
            Error::TooEarly { lsn: position(last), moment }
        };
        match until {
            Until::End => Ok(self.to),
            Until::Lsn(stamp) => match epoch_of(stamp) {
                epoch if epoch < last => Err(too_early()),
                epoch if epoch <= self.to => Ok(epoch),
                epoch => Err(Error::Storage(format!(
                    "the log in backup and archive ends at epoch {}, before epoch {epoch} of stamp {stamp}: bring what \
                     was logged behind it",
                    self.to
                ))),
            },
            Until::Time(time) => {
                let known = notes.iter().filter_map(Note::moment).chain(self.archived).max();
                if known.is_none_or(|known| known < time) {
                    return Err(Error::Storage(
                        "the log in backup and archive ends before that moment: bring what was archived later, or \
                         restore to the end"
                            .into(),
                    ));
                }
                let note = notes.iter().rfind(|note| note.moment().is_some_and(|moment| moment <= time));
                note.map(|note| note.epoch).filter(|epoch| *epoch >= last).ok_or_else(too_early)
            }
        }
    }
}

/// The moment at which all epochs up to `cut` had ended: of several devices' notes of an epoch the first one counts.
fn moment_of(notes: &[Note], cut: u64) -> Option<SystemTime> {
    let last = notes.iter().rfind(|note| note.epoch <= cut)?.epoch;
    notes.iter().find(|note| note.epoch == last).and_then(Note::moment)
}

fn epoch_of(stamp: u64) -> u64 {
    CommitTid::from_stamp(Stamp(stamp)).epoch()
}

fn gap(path: &str, from: u64, to: u64) -> Error {
    Error::Storage(format!(
        "the archive in {path} lacks the log of epochs {from} to {to}: the database was open without its archive. \
         Restore to an earlier moment, or from a later backup"
    ))
}

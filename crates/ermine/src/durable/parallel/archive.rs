//! The archive of a single-version database: all of its log, kept permanently, and which parts of it are complete.
//!
//! ```text
//!   redo-GENERATION-SEQUENCE.DEVICE        a file of the log up to where it is whole, when it is not written any more
//!   redo-GENERATION-SEQUENCE.DEVICE.part   one that is being written, as far as it was durable
//!   history     magic 8 bytes | sum u32 | length u32 | when, in microseconds since 1970 |
//!               spans: count, first and last epoch of each |
//!               generations: count, number and last epoch that counts of each |
//!               files: count, generation, device, sequence, bytes, 1 for a part of each |
//!               identity of the database 16 bytes, `unlabelled` of it; nothing: an earlier program wrote it
//! ```
//!
//! Numbers after the length are varints. The files are archived before the history that names them, which is written
//! under another name, synced and renamed. A *span* is a range of epochs for which the archive's files are complete.
//! Each time the archive is updated, it receives everything that is in files of the database and needed with its
//! checkpoint: so a span grows from the checkpoint's epoch to the persistent epoch. If the checkpoint is behind the end
//! of the last span, the database was open without its archive, and a new span begins.
//!
//! Invariants
//! 1. *Archived before freed*: a checkpoint archives the log up to its own epoch before it begins its walk; it frees
//!    only files that have nothing but earlier epochs. If archiving fails, the checkpoint fails, and all files stay.
//! 2. *The files that the history names are whole*, and durable.
//! 3. *One history*: an archive that has a later generation than the database, or more of one than the database has,
//!    belongs to another database and is refused.

use std::{
    collections::BTreeMap,
    io,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::{
    super::{archive::open_directory, copy::copy_bytes, image::now_micros, store::storage},
    files::{Places, newest_manifest, whole_to},
    history::{History, LogFile, Place},
};
use crate::{
    error::{Error, Result},
    log::{
        identity::{Identity, Said},
        parallel::{
            ParallelLog,
            file::FileName,
            pepoch::{self, Persistent},
        },
        record::{put_number, take_number},
    },
    options::Options,
    platform::file::{Directory, Open},
};

const HISTORY: &str = "history";
const NEW: &str = ".new";
const PART: &str = ".part";
const MAGIC: [u8; 8] = *b"ERMHIST1";
const HEAD_BYTES: usize = 16;

/// Contents of an archive.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Contents {
    /// When it was last updated: everything that had been committed by then is in the archive.
    pub(super) micros: u64,
    /// Ranges of epochs that are complete, in order, each followed by a gap.
    pub(super) spans: Vec<(u64, u64)>,
    pub(super) limits: BTreeMap<u32, u64>,
    /// Length of each file, and whether that is only a part of the file.
    files: BTreeMap<LogFile, (u64, bool)>,
    /// The database it belongs to; `None`: an earlier program wrote it.
    pub(super) said: Option<Said>,
}

fn name_of(file: LogFile, is_part: bool) -> String {
    format!("{}.{:02x}{}", file.name(), file.device, if is_part { PART } else { "" })
}

impl Contents {
    /// Reads the contents of the archive in a directory; they are empty if the directory is.
    pub(super) fn read(directory: &dyn Directory) -> Result<Self> {
        if !directory.list().map_err(storage)?.iter().any(|name| name == HISTORY) {
            return Ok(Self::default());
        }
        let file = directory.open(HISTORY, Open::Read).map_err(storage)?;
        let mut bytes = vec![0; file.length().map_err(storage)? as usize];
        let read = file.read_at(0, &mut bytes).map_err(storage)?;
        Self::decode(&bytes[..read]).ok_or_else(|| Error::Corrupt {
            file: format!("{}/{HISTORY}", directory.path()),
            offset: 0,
            what: "it does not say what the archive has: make a new backup, with a new archive".into(),
        })
    }

    fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        put_number(&mut body, self.micros);
        put_number(&mut body, self.spans.len() as u64);
        self.spans.iter().for_each(|(from, to)| [*from, *to].iter().for_each(|epoch| put_number(&mut body, *epoch)));
        put_number(&mut body, self.limits.len() as u64);
        for (generation, limit) in &self.limits {
            [u64::from(*generation), *limit].iter().for_each(|number| put_number(&mut body, *number));
        }
        put_number(&mut body, self.files.len() as u64);
        for (LogFile { generation, device, sequence }, (bytes, is_part)) in &self.files {
            let numbers = [u64::from(*generation), (*device).into(), (*sequence).into(), *bytes, (*is_part).into()];
            numbers.iter().for_each(|number| put_number(&mut body, *number));
        }
        if let Some(said) = self.said {
            body.extend(said.identity.bytes());
            put_number(&mut body, said.unlabelled);
        }
        let mut bytes = MAGIC.to_vec();
        bytes.extend(crc32c::crc32c(&body).to_le_bytes());
        bytes.extend((body.len() as u32).to_le_bytes());
        bytes.extend(body);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (head, mut body) = bytes.split_at_checked(HEAD_BYTES)?;
        let is_whole = head[..8] == MAGIC
            && head[8..12] == crc32c::crc32c(body).to_le_bytes()
            && head[12..] == (body.len() as u32).to_le_bytes();
        if !is_whole {
            return None;
        }
        let input = &mut body;
        let number = |input: &mut &[u8]| u32::try_from(take_number(input)?).ok();
        let mut contents = Self { micros: take_number(input)?, ..Self::default() };
        for _ in 0..take_number(input)? {
            contents.spans.push((take_number(input)?, take_number(input)?));
        }
        for _ in 0..take_number(input)? {
            contents.limits.insert(number(input)?, take_number(input)?);
        }
        for _ in 0..take_number(input)? {
            let (generation, device, sequence) = (number(input)?, number(input)?, number(input)?);
            let state = (take_number(input)?, take_number(input)? == 1);
            contents.files.insert(LogFile { generation, device, sequence }, state);
        }
        if let Some((identity, mut rest)) = input.split_at_checked(Identity::BYTES) {
            let (identity, unlabelled) = (Identity::read(identity)?, take_number(&mut rest)?);
            contents.said = Some(Said { identity, unlabelled, newest: 0, durable: 0 });
        }
        Some(contents)
    }

    /// Adds the archive's files of a generation and later ones to `history`, which is that of a backup. Those of the
    /// backup have other numbers than in the database that it is of, and device 0: files of the archive get devices of
    /// their own, as otherwise one would take the place of another. Records that are in both count once.
    pub(super) fn add_to(&self, history: &mut History, directory: &Arc<dyn Directory>, generation: u32) {
        for (file, (bytes, is_part)) in self.files.range(LogFile { generation, device: 0, sequence: 0 }..) {
            let name = name_of(*file, *is_part);
            let place = Place { directory: directory.clone(), name, bytes: *bytes, is_archived: true };
            let own = LogFile { device: file.device.saturating_add(1), ..*file };
            history.add(own, place, self.limits.get(&file.generation).copied().unwrap_or(0));
        }
    }

    pub(super) fn moment(&self) -> Option<SystemTime> {
        UNIX_EPOCH.checked_add(Duration::from_micros(self.micros))
    }

    /// Marks a range of epochs as complete.
    fn extend(&mut self, from: u64, to: u64) {
        match self.spans.last_mut() {
            Some((_, last)) if from <= *last + 1 => *last = to.max(*last),
            _ => self.spans.push((from, to)),
        }
    }
}

/// The archive of an open database.
pub(crate) struct Archive {
    to: Arc<dyn Directory>,
    contents: std::sync::Mutex<Contents>,
}

impl Archive {
    /// Opens the archive that the options name, for a database whose next generation is `generation`.
    pub(crate) fn open(options: &Options, places: &Places, generation: u32) -> Result<Option<Self>> {
        let to = match (&options.archive, &options.archive_in) {
            (_, Some(to)) => to.clone(),
            (Some(path), None) => open_directory(path)?,
            (None, None) => return Ok(None),
        };
        let own = places.devices.iter().chain([&places.directory]);
        if to.location().is_some() && own.into_iter().any(|own| own.location() == to.location()) {
            return Err(Error::Options("the archive cannot be a directory of the database itself".into()));
        }
        let contents = Contents::read(&*to)?;
        let archive = Self { to, contents: std::sync::Mutex::new(contents.clone()) };
        for (of, limit) in &contents.limits {
            let own = match places.directory.list().map_err(storage)?.contains(&pepoch::name_of(*of)) {
                true => pepoch::read(&*places.directory, *of, places.said).map_err(storage)?,
                false => None,
            };
            if *of >= generation || own.is_some_and(|own| own.epoch < *limit) {
                return Err(archive.is_of_another());
            }
        }
        let own = places.said.map(|said| said.identity);
        if contents.said.is_some_and(|said| Some(said.identity) != own) {
            return Err(archive.is_of_another());
        }
        Ok(Some(archive))
    }

    fn is_of_another(&self) -> Error {
        let path = self.to.path();
        Error::Storage(format!(
            "the archive in {path} has what this database has not: a restored database, or another one, needs an \
             archive of its own"
        ))
    }

    /// Archives everything that is persistent in the files of the database. No file is removed meanwhile.
    pub(crate) fn keep(&self, places: &Places, log: &ParallelLog) -> Result<()> {
        let (generation, durable) = (log.generation(), log.waiters.durable() - 1);
        let mut contents = self.contents.lock().expect("no code panics while it archives").clone();
        let micros = now_micros();
        let names = places.directory.list().map_err(storage)?;
        let manifest = newest_manifest(&*places.directory, &names, places.said)?;
        let from = manifest.as_ref().map_or(0, |manifest| manifest.epoch);
        let last = manifest.as_ref().map_or(0, |manifest| manifest.last_epoch);
        let mut persistent: BTreeMap<u32, Persistent> = BTreeMap::new();
        for of in names.iter().filter_map(|name| pepoch::generation_of(name)) {
            persistent
                .extend(pepoch::read(&*places.directory, of, places.said).map_err(storage)?.map(|read| (of, read)));
        }
        if let Some(own) = persistent.get_mut(&generation) {
            // The epoch may have been read before it was synced. What the file says of other files was synced before.
            own.epoch = own.epoch.min(durable);
        }
        let mut parts = Vec::new();
        for (device, directory) in places.devices.iter().enumerate() {
            for name in directory.list().map_err(storage)?.iter().filter_map(|name| FileName::parse(name)) {
                let Some(of) = persistent.get(&name.generation) else { continue };
                if manifest.as_ref().is_some_and(|manifest| !manifest.needs(device, name)) {
                    continue;
                }
                let bytes = whole_to(places, device, name, of)?;
                let reach = of.reach.get(device).copied().unwrap_or_default();
                let is_part = name.generation == generation && name.sequence >= reach.sequence;
                let file = LogFile::new(device as u32, name);
                if bytes == 0 || contents.files.get(&file) == Some(&(bytes, is_part)) {
                    continue;
                }
                self.copy(&**directory, name, file, bytes, is_part).map_err(storage)?;
                if !is_part && contents.files.get(&file).is_some_and(|(_, was_part)| *was_part) {
                    parts.push(name_of(file, true));
                }
                contents.files.insert(file, (bytes, is_part));
            }
        }
        // Only generations that have files: no later one begins at an epoch that has been declared complete.
        persistent.retain(|of, _| contents.files.keys().any(|file| file.generation == *of));
        let to = persistent.values().map(|persistent| persistent.epoch).fold(last, u64::max);
        contents.limits.extend(persistent.iter().map(|(of, persistent)| (*of, persistent.epoch)));
        contents.extend(from, to);
        contents.micros = micros;
        contents.said = places.said.map(|said| Said { newest: 0, durable: 0, ..said });
        self.write(&contents).map_err(storage)?;
        for part in parts {
            self.to.remove(&part).map_err(storage)?;
        }
        *self.contents.lock().expect("no code panics while it archives") = contents;
        Ok(())
    }

    /// Extends the last span to the epoch of a checkpoint that counts now. Everything of earlier epochs was archived
    /// before its walk, so the span reaches to that epoch, though nothing may have been logged in the last of the
    /// earlier ones.
    pub(crate) fn reach(&self, epoch: u64) -> Result<()> {
        let mut contents = self.contents.lock().expect("no code panics while it archives");
        if let Some((_, to)) = contents.spans.last_mut() {
            *to = epoch.max(*to);
        }
        self.write(&contents).map_err(storage)
    }

    fn copy(&self, from: &dyn Directory, name: FileName, file: LogFile, bytes: u64, is_part: bool) -> io::Result<()> {
        let source = from.open(&name.to_string(), Open::Read)?;
        self.replace(&name_of(file, is_part), |target| copy_bytes(&*source, target, bytes, |_| Ok(())))
    }

    fn write(&self, contents: &Contents) -> io::Result<()> {
        // The files that it names come first.
        self.to.sync()?;
        self.replace(HISTORY, |file| file.write_at(0, &contents.encode()))?;
        self.to.sync()
    }

    /// Makes a file whole and durable before it gets its name.
    fn replace(
        &self,
        name: &str,
        fill: impl FnOnce(&dyn crate::platform::file::File) -> io::Result<()>,
    ) -> io::Result<()> {
        let new = name.to_owned() + NEW;
        if self.to.list()?.contains(&new) {
            self.to.remove(&new)?;
        }
        let file = self.to.open(&new, Open::Create)?;
        fill(&*file)?;
        file.sync()?;
        self.to.rename(&new, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_comes_back_or_is_found_out() {
        let mut contents = Contents { micros: 1 << 50, ..Contents::default() };
        contents.extend(0, 7);
        contents.extend(8, 20);
        contents.extend(15, 25);
        contents.extend(27, 30);
        assert_eq!(contents.spans, [(0, 25), (27, 30)]);
        contents.limits.insert(3, 25);
        contents.said = Some(Said::of_new(7));
        contents.files.insert(LogFile { generation: 3, device: 1, sequence: 9 }, (1 << 33, true));
        let bytes = contents.encode();
        assert_eq!(Contents::decode(&bytes), Some(contents));
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1;
            assert_eq!(Contents::decode(&flipped), None, "a flip at {at}");
            assert_eq!(Contents::decode(&bytes[..at]), None);
        }
    }
}

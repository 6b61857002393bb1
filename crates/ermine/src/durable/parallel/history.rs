//! The log of a single-version database as a set of files, wherever they lie: in an open database, a backup or an
//! archive.
//!
//! Files are named by generation, device and sequence ([`LogFile`]). A copy of a log has one device, whatever its
//! source had: the files of each generation are renumbered, device after device, and their heads are rewritten. Records
//! name no file, and have no order across files, so they are copied as they are.
//!
//! Invariant: a set of files is *complete* from an epoch e to an epoch f if every record of an epoch from e to f that
//! counts is stored in one of them. An open database is complete from its checkpoint's epoch to its persistent epoch,
//! and so is a copy of it if no file is removed meanwhile.

use std::{collections::BTreeMap, io, sync::Arc};

use super::{
    super::{copy::Filling, store::storage},
    files::{Found, Places, Redo},
};
use crate::{
    error::{Error, Result},
    log::{
        identity::Said,
        parallel::{
            file::{FILE_HEAD_BYTES, FileHead, FileName, Records},
            pepoch::{self, Persistent, PersistentFile, Reach},
            record::Note,
        },
    },
    platform::file::{Directory, File, Open},
    rows::in_place::CommitTid,
};

/// A file of a log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct LogFile {
    pub(super) generation: u32,
    pub(super) device: u32,
    pub(super) sequence: u32,
}

/// The place where a file of a log lies.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) directory: Arc<dyn Directory>,
    pub(super) name: String,
    /// The offset up to which it is whole.
    pub(super) bytes: u64,
    pub(super) is_archived: bool,
}

/// A log.
#[derive(Default)]
pub(super) struct History {
    pub(super) files: BTreeMap<LogFile, Place>,
    /// The last epoch that counts, by generation.
    pub(super) limits: BTreeMap<u32, u64>,
}

/// The contents of a file of a log, as far as they count.
#[derive(Default)]
pub(super) struct Contents {
    /// The lowest and the highest epoch of a record.
    pub(super) epochs: Option<(u64, u64)>,
    pub(super) notes: Vec<Note>,
}

impl History {
    /// The log of a database, up to its persistent epoch.
    pub(super) fn of(places: &Places, found: &Found) -> Self {
        let mut history = Self::default();
        for &Redo { device, name, whole, limit } in &found.redo {
            let directory = places.devices[device].clone();
            let place = Place { directory, name: name.to_string(), bytes: whole, is_archived: false };
            history.add(LogFile::new(device as u32, name), place, limit);
        }
        history
    }

    /// Adds a file whose records count up to the epoch `limit`.
    pub(super) fn add(&mut self, file: LogFile, place: Place, limit: u64) {
        let of_generation = self.limits.entry(file.generation).or_default();
        *of_generation = limit.max(*of_generation);
        self.files.insert(file, place);
    }

    /// Bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        self.files.values().map(|place| place.bytes).sum()
    }

    /// Copies the files such that the copy is a log of one device in which records of later epochs than `until` do not
    /// count.
    pub(super) fn copy_to(&self, filling: &mut Filling<'_>, until: u64) -> io::Result<()> {
        let identity = filling.said().map(|said| said.identity);
        let mut last: BTreeMap<u32, Reach> = BTreeMap::new();
        for (file, place) in self.files.iter().filter(|(_, place)| place.bytes > FILE_HEAD_BYTES as u64) {
            let before = last.entry(file.generation).or_default();
            let name = FileName { generation: file.generation, sequence: before.sequence + 1 };
            let head = FileHead { name, device: 0, before: before.bytes };
            filling.copy_behind(
                &*place.directory,
                &place.name,
                &name.to_string(),
                &head.bytes(identity),
                place.bytes,
            )?;
            *before = Reach { sequence: name.sequence, bytes: place.bytes };
        }
        for (generation, reach) in last {
            let persistent = Persistent { epoch: self.limits[&generation].min(until), reach: vec![reach] };
            let of = pepoch::Of { generation, identity };
            PersistentFile::fill(filling.create(&pepoch::name_of(generation))?, of, &persistent)?;
            filling.note(u64::from(generation) + 1, persistent.epoch);
        }
        Ok(())
    }
}

impl LogFile {
    pub(super) fn new(device: u32, name: FileName) -> Self {
        Self { generation: name.generation, device, sequence: name.sequence }
    }

    pub(super) fn name(self) -> FileName {
        FileName { generation: self.generation, sequence: self.sequence }
    }
}

impl Place {
    /// Reads the records of a file, all of which must be whole. `limit` is the last epoch that counts; `said` is the
    /// identity of the database that the file belongs to.
    pub(super) fn read(&self, limit: u64, said: Option<Said>) -> Result<Contents> {
        let mut contents = Contents::default();
        if self.bytes <= FILE_HEAD_BYTES as u64 {
            return Ok(contents);
        }
        let damaged = |offset: u64, what: &str| Error::Corrupt {
            file: format!("{}/{}", self.directory.path(), self.name),
            offset,
            what: what.into(),
        };
        let file: Arc<dyn File> = match self.directory.open(&self.name, Open::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(damaged(0, "it is missing")),
            file => file.map_err(storage)?,
        };
        let (head, mut records) = Records::of(file, said).map_err(storage)?;
        if head.is_none() {
            return Err(damaged(0, "it has no head of this database"));
        }
        while records.at() < self.bytes {
            let at = records.at();
            let Some((tid, rows)) = records.next().map_err(storage)? else {
                return Err(damaged(at, "there is no whole record where one was durable"));
            };
            if let Some(note) = Note::read(tid, rows) {
                contents.notes.extend((note.epoch <= limit).then_some(note));
                continue;
            }
            let epoch = CommitTid::from_stamp(crate::ids::Stamp(tid)).epoch();
            if epoch <= limit {
                let (least, greatest) = contents.epochs.unwrap_or((epoch, epoch));
                contents.epochs = Some((epoch.min(least), epoch.max(greatest)));
            }
        }
        Ok(contents)
    }
}

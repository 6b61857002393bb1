//! The files of a database of a single-version scheme: the parallel log, and the description of its checkpoint.

use std::{path::Path, sync::Arc, time::SystemTime};

use crate::{
    durable::{
        parallel::files::{Places, Role, is_in_place, newest_manifest, whole_to},
        store::storage,
    },
    error::{Error, Result},
    ids::Stamp,
    log::parallel::{
        file::{FileName, Records},
        pepoch,
        record::{Note, Row},
    },
    options::Options,
    platform::file::{Directory, Open, real::RealDirectory},
    rows::in_place::CommitTid,
};

/// The parallel log of a database, by the names of its files.
pub struct ParallelLog {
    places: Places,
    names: Vec<String>,
    files: Vec<LogFile>,
}

/// A file of the parallel log.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LogFile {
    /// The file's name.
    pub file: String,
    /// The number of the file's log directory, from 0.
    pub device: usize,
    /// The generation in which the file was written: one time that the database was open, from 1.
    pub generation: u32,
    /// The file's number among those of its generation and device, from 1.
    pub sequence: u32,
    /// The length of the file.
    pub length: u64,
    /// The length up to which its content was durable.
    pub durable_bytes: u64,
    /// The last epoch whose records count; `None` if it cannot be read.
    pub persistent_epoch: Option<u64>,
    name: FileName,
}

/// Iterates over the records of a file, up to the first incomplete one.
pub struct LogRecords {
    /// `None` if the file has no head.
    records: Option<Records>,
}

/// The record of a transaction, or a note of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogRecord {
    /// The byte position in the file.
    pub position: u64,
    /// All bytes of the record.
    pub bytes: u64,
    /// The epoch of the record's transaction.
    pub epoch: u64,
    /// The transaction's TID, which begins with the epoch.
    pub tid: u64,
    /// Number of rows that the transaction wrote, including those that it deleted.
    pub rows: u64,
    /// Of a note of the time, which has no rows: the time when all transactions up to that epoch had ended.
    pub moment: Option<SystemTime>,
}

/// The newest checkpoint.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ParallelCheckpoint {
    /// The file that describes the checkpoint.
    pub file: String,
    /// The epoch in which the checkpoint began: rows of that and later epochs are in the log only.
    pub epoch: u64,
    /// The last epoch whose changes the checkpoint may contain.
    pub last_epoch: u64,
    /// The first generation of the log that is replayed on top of the checkpoint.
    pub generation: u32,
    /// The first file of that generation that is needed, by device.
    pub first: Vec<u32>,
    /// The files with the checkpoint's rows.
    pub files: Vec<RowsOfCheckpoint>,
    /// Names of the tables, the catalog first.
    pub tables: Vec<String>,
}

/// A file with rows of the checkpoint.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RowsOfCheckpoint {
    /// The file's name.
    pub file: String,
    /// The number of the file's log directory, from 0.
    pub device: usize,
    /// The file's length.
    pub bytes: u64,
    /// Number of rows in the file.
    pub rows: u64,
}

impl ParallelLog {
    /// Opens the parallel log in the directory of a database; returns `None` if the directory holds no database of a
    /// single-version scheme. Of the options only the log directories matter.
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Option<Self>> {
        Self::open_in(&(Arc::new(RealDirectory::open(path).map_err(storage)?) as Arc<dyn Directory>), options)
    }

    /// Works as [`ParallelLog::open`] for any implementation of a directory.
    #[doc(hidden)]
    pub fn open_in(directory: &Arc<dyn Directory>, options: &Options) -> Result<Option<Self>> {
        let names = directory.list().map_err(storage)?;
        if !is_in_place(&names) {
            return Ok(None);
        }
        let places = Places::open_to_look(directory, options)?;
        let mut files = Vec::new();
        for (device, of) in places.devices.iter().enumerate() {
            for name in of.list().map_err(storage)?.iter().filter_map(|name| FileName::parse(name)) {
                files.push(LogFile::look(&places, device, name, &names)?);
            }
        }
        files.sort_unstable_by_key(|file| (file.name, file.device));
        Ok(Some(Self { places, names, files }))
    }

    /// Returns the files, oldest first.
    pub fn files(&self) -> &[LogFile] {
        &self.files
    }

    /// Returns an iterator over the records of a file.
    pub fn records(&self, file: &LogFile) -> Result<LogRecords> {
        let (head, records) =
            Records::open(&*self.places.devices[file.device], file.name, self.places.said).map_err(storage)?;
        let is_its_own = head.is_some_and(|head| head.name == file.name && head.device as usize == file.device);
        Ok(LogRecords { records: is_its_own.then_some(records) })
    }

    /// Returns the description of the newest checkpoint; `None` if there is none.
    pub fn checkpoint(&self) -> Result<Option<ParallelCheckpoint>> {
        let Some(manifest) = newest_manifest(&*self.places.directory, &self.names, self.places.said)? else {
            return Ok(None);
        };
        let rows = (0..).zip(&manifest.files).map(|(number, of)| RowsOfCheckpoint {
            file: Role::Rows(manifest.epoch, number).name(),
            device: of.device,
            bytes: of.bytes,
            rows: of.rows,
        });
        Ok(Some(ParallelCheckpoint {
            file: Role::Manifest(manifest.epoch).name(),
            epoch: manifest.epoch,
            last_epoch: manifest.last_epoch,
            generation: manifest.generation,
            files: rows.collect(),
            first: manifest.first,
            tables: manifest.tables,
        }))
    }
}

impl LogFile {
    /// `names` are the files in the database's directory.
    fn look(places: &Places, device: usize, name: FileName, names: &[String]) -> Result<Self> {
        let length = places.devices[device].open(&name.to_string(), Open::Read).and_then(|file| file.length());
        let persistent = match names.contains(&pepoch::name_of(name.generation)) {
            true => pepoch::read(&*places.directory, name.generation, places.said).map_err(storage)?,
            false => None,
        };
        let whole = persistent.as_ref().map(|persistent| whole_to(places, device, name, persistent)).transpose()?;
        Ok(Self {
            file: name.to_string(),
            device,
            generation: name.generation,
            sequence: name.sequence,
            length: length.map_err(storage)?,
            durable_bytes: whole.unwrap_or(0),
            persistent_epoch: persistent.map(|persistent| persistent.epoch),
            name,
        })
    }
}

impl LogRecords {
    /// Returns the end of the records that have been read so far; zero where the file has no head.
    pub fn end(&self) -> u64 {
        self.records.as_ref().map_or(0, Records::at)
    }
}

impl Iterator for LogRecords {
    type Item = Result<LogRecord>;

    fn next(&mut self) -> Option<Result<LogRecord>> {
        let records = self.records.as_mut()?;
        let position = records.at();
        let (tid, rows, note) = match records.next().map_err(storage).transpose()? {
            Ok((tid, mut bytes)) => {
                let (mut rows, note) = (0, Note::read(tid, bytes));
                while !bytes.is_empty() && note.is_none() {
                    if Row::take(&mut bytes).is_none() {
                        let what = format!("a record at byte {position} has what is no row");
                        return Some(Err(Error::Storage(what)));
                    }
                    rows += 1;
                }
                (CommitTid::from_stamp(Stamp(tid)), rows, note)
            }
            Err(error) => return Some(Err(error)),
        };
        let (epoch, bytes) = (note.map_or(tid.epoch(), |note| note.epoch), records.at() - position);
        let moment = note.and_then(|note| note.moment());
        Some(Ok(LogRecord { position, bytes, epoch, tid: tid.stamp().as_u64(), rows, moment }))
    }
}

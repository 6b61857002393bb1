//! The contents of a checkpoint, for people: read from a directory that is not open, and without changing it.

use std::{
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::{
    cold,
    image::{self, Image, Marker},
    store::storage,
};
use crate::{
    error::{Error, Result},
    ids::TableId,
    log::lsn::Space,
    platform::file::{Directory, real::RealDirectory},
};

/// The newest checkpoint of a database.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CheckpointContents {
    /// The name of its file.
    pub file: String,
    /// The length of its file.
    pub bytes: u64,
    /// The moment when its walk began.
    pub moment: SystemTime,
    /// Position of the log when the walk began.
    pub begin_lsn: u64,
    /// Position of the log when the walk ended.
    pub walked_lsn: u64,
    /// Sequence number of the oldest segment of the log that the checkpoint needs.
    pub log_sequence: u64,
    /// The files of the cold store.
    pub cold: Vec<ColdContents>,
    /// Keys of each table, and entries of each index.
    pub sections: Vec<SectionContents>,
}

/// A file of the cold store.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ColdContents {
    /// Its name.
    pub file: String,
    /// Its length.
    pub bytes: u64,
    /// Rows in it.
    pub rows: u64,
    /// Live rows among them.
    pub live: u64,
}

/// The keys of a table, or the entries of one of its indexes.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SectionContents {
    /// The table.
    pub table: TableId,
    /// Zero: the table's keys; otherwise the number of the index.
    pub index: u16,
    /// Offset of the section in the file.
    pub offset: u64,
    /// Number of keys or entries.
    pub count: u64,
}

/// A key of a checkpoint, or an index entry.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KeyContents {
    /// As in [`SectionContents`].
    pub table: TableId,
    /// As in [`SectionContents`].
    pub index: u16,
    /// Its bytes.
    pub key: Vec<u8>,
    /// Its row.
    pub row: u64,
    /// For keys, the place of the row's value: in the cold store or in the log, with the record's number in the block.
    pub place: Option<String>,
}

/// Reads the newest checkpoint of a database, which must not be open; `None`: it has none. Every key is handed to
/// `visit`.
pub fn checkpoint_contents(
    path: impl AsRef<Path>,
    visit: Option<&mut dyn FnMut(KeyContents)>,
) -> Result<Option<CheckpointContents>> {
    let directory = RealDirectory::open(path.as_ref()).map_err(storage)?;
    let _lock = directory.lock_to_look().map_err(storage)?;
    let names = directory.list().map_err(storage)?;
    let Some(marker) = names.iter().filter_map(|name| Marker::parse(name)).max() else { return Ok(None) };
    let image = Image::open(&directory, marker)?;
    if let Some(visit) = visit {
        visit_keys(&image, visit)?;
    }
    let cold = image.cold.iter().map(|file| ColdContents {
        file: cold::name_of(file.start),
        bytes: file.end - file.start,
        rows: file.rows,
        live: file.live,
    });
    let sections = image.sections.iter().map(|section| SectionContents {
        table: section.table,
        index: section.index,
        offset: section.offset,
        count: section.count,
    });
    Ok(Some(CheckpointContents {
        file: image::name_of(marker.begin),
        bytes: image.bytes(),
        moment: UNIX_EPOCH
            .checked_add(Duration::from_micros(image.head.micros))
            .ok_or_else(|| Error::Storage("the checkpoint has a moment that no clock knows".into()))?,
        begin_lsn: image.head.begin,
        walked_lsn: image.walked,
        log_sequence: image.head.log_sequence,
        cold: cold.collect(),
        sections: sections.collect(),
    }))
}

fn visit_keys(image: &Image, visit: &mut dyn FnMut(KeyContents)) -> Result<()> {
    for section in &image.sections {
        for key in image.keys(section) {
            let (key, row, address) = key?;
            let place = address.map(|address| {
                let (space, start) = match address.space() {
                    Space::Log => ("log", image.head.log_start),
                    Space::Cold => ("cold", image.head.cold_start),
                };
                format!("{space} {} record {}", address.lsn(start).offset(), address.record())
            });
            visit(KeyContents { table: section.table, index: section.index, key: key.to_vec(), row: row.0, place });
        }
    }
    Ok(())
}

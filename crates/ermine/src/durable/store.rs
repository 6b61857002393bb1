//! Reads durable rows by their addresses.

use std::{io, sync::Arc};

use crate::{
    error::{Error, Result},
    ids::{RowId, Stamp, TableId},
    log::{
        block::HEADER_BYTES,
        lsn::{Address, Lsn, Space},
        record::{Record, find_row},
        scan::{Extent, read_block},
        segment::{SegmentFiles, name_of},
        space::Span,
    },
    platform::file::File,
};

/// An error of an operation on files, in words.
pub(crate) fn storage(error: io::Error) -> Error {
    Error::Storage(error.to_string())
}

/// A row as it was read.
pub(crate) struct StoredRow {
    /// What makes the version's origin: it names the block.
    pub(crate) stamp: Stamp,
    /// Its number in the block.
    pub(crate) number: u32,
    pub(crate) value: Vec<u8>,
}

/// The durable rows of a database.
pub(crate) struct Store {
    files: Arc<SegmentFiles>,
    /// The segments in which rows may be that are in files only, oldest first: those that were there when the database was
    /// opened, as long as they are live.
    segments: Vec<Span>,
}

impl Store {
    pub(crate) fn new(files: Arc<SegmentFiles>, segments: Vec<Span>) -> Self {
        Self { files, segments }
    }

    /// The files of the log.
    pub(crate) fn segment_files(&self) -> &Arc<SegmentFiles> {
        &self.files
    }

    /// Reads the row at `address`, which must be that one.
    pub(crate) fn read(&self, address: Address, table: TableId, row: RowId) -> Result<StoredRow> {
        match address.space() {
            Space::Log => {
                let start = self.segments.first().map_or(0, |span| span.start);
                let lsn = address.lsn(start);
                let span = self.segments.iter().find(|span| (span.start..span.end).contains(&lsn.offset()));
                let span = span.ok_or_else(|| {
                    Error::Storage(format!("a row is said to be at {lsn} of the log, for which there is no segment"))
                })?;
                let file = self.files.get(span).map_err(storage)?;
                read_row(&*file, &name_of(span), (*span).into(), lsn, address, table, row)
            }
            Space::Cold => Err(Error::Storage("a row is said to be in the cold store, which is empty".into())),
        }
    }
}

fn read_row(
    file: &dyn File,
    name: &str,
    extent: Extent,
    lsn: Lsn,
    address: Address,
    table: TableId,
    row: RowId,
) -> Result<StoredRow> {
    let damaged = |what: &str| Error::Corrupt {
        file: name.into(),
        offset: lsn.offset() - extent.start,
        what: format!("{what} (row {} of table {})", row.0, table.0),
    };
    let block = read_block(file, extent, lsn).map_err(storage)?;
    let (header, bytes) = block.map_err(|_| damaged("no whole block where a row should be"))?;
    let (descriptors, payloads) = bytes[HEADER_BYTES..].split_at(header.descriptors as usize);
    let (record, at) =
        find_row(descriptors, address.record()).ok_or_else(|| damaged("the block has no such record"))?;
    let (found, value, stamp) = match record {
        Record::Insert { table, row, value, .. } | Record::Update { table, row, value } => {
            ((table, row), value, lsn.stamp())
        }
        Record::Moved { table, row, stamp, value } => ((table, row), value, Stamp(stamp)),
        _ => return Err(damaged("the record has no value")),
    };
    if found != (table, row) {
        return Err(damaged("the record is another row's"));
    }
    let value = payloads.get(at..at + value.length).ok_or_else(|| damaged("the value is cut off"))?.to_vec();
    Ok(StoredRow { stamp, number: address.record() as u32, value })
}

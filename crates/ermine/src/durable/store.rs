//! Reads durable rows by their addresses.

use std::{
    borrow::Cow,
    io,
    ops::DerefMut,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use super::{
    blobs::{self, Blobs},
    checkpoint::Checkpoints,
    cold::{self, ColdFile, ColdStore},
    removal::Removals,
};
use crate::{
    error::{Error, Result},
    ids::{RowId, Stamp, TableId},
    log::{
        Log,
        block::HEADER_BYTES,
        lsn::{Address, Lsn, Space},
        record::{BlobRef, Payload, Record, find_row},
        room::is_full,
        scan::{Extent, read_block},
        segment::{SegmentFiles, name_of},
        space::Span,
    },
    platform::{
        budget::Need,
        file::{Directory, File},
    },
    rows::{
        arena::Arena,
        array::ChainArray,
        chain::{AT_HOME, CertifierStamps, VersionPtr},
    },
    sync::Mutex,
    table::TableStore,
};

/// Converts an error of a file operation.
pub(crate) fn storage(error: io::Error) -> Error {
    if is_full(&error) { Error::DiskFull(error.to_string()) } else { Error::Storage(error.to_string()) }
}

/// A record of a row as it was read.
pub(crate) struct StoredRecord {
    /// The commit stamp.
    pub(crate) stamp: Stamp,
    pub(crate) value: Payload,
    pub(crate) bytes: Vec<u8>,
}

/// Places that are about to be freed: no slot may be given an address there.
#[derive(Default)]
pub(crate) struct Leaving {
    /// The log below this offset.
    pub(crate) log_below: u64,
    /// Files of the cold store.
    pub(crate) cold: Vec<ColdFile>,
}

/// The files of a database except the end of the log.
pub(crate) struct Store {
    pub(crate) directory: Arc<dyn Directory>,
    files: Arc<SegmentFiles>,
    /// The segments that existed when the database was opened, oldest first.
    segments: Vec<Span>,
    /// The log that has been continued in further segments; empty: rows are only in those of before.
    log: OnceLock<Arc<Log>>,
    pub(crate) cold: ColdStore,
    pub(crate) blobs: Blobs,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) removals: Removals,
    /// As the last checkpoint has it that has begun. Held while rows are evicted.
    leaving: Mutex<Leaving>,
    /// Number of rows that are only in files.
    unloaded: AtomicU64,
    /// Number of rows read on demand.
    reads: AtomicU64,
    /// Set when a message has reported that some of these rows stay in files.
    said_unloaded: AtomicBool,
}

impl Store {
    pub(crate) fn new(
        directory: Arc<dyn Directory>,
        files: Arc<SegmentFiles>,
        segments: Vec<Span>,
        cold: ColdStore,
        blobs: Blobs,
        checkpoints: Checkpoints,
        removals: Removals,
    ) -> Self {
        Self {
            directory,
            files,
            segments,
            log: OnceLock::new(),
            cold,
            blobs,
            checkpoints,
            removals,
            leaving: Mutex::new(Leaving::default()),
            unloaded: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            said_unloaded: AtomicBool::new(false),
        }
    }

    /// The files of the log.
    pub(crate) fn segment_files(&self) -> &Arc<SegmentFiles> {
        &self.files
    }

    /// Attaches the log that continues in these files.
    pub(crate) fn continues_in(&self, log: &Arc<Log>) {
        assert!(self.log.set(log.clone()).is_ok(), "a database has one log");
    }

    /// The segments that may have rows that are only in files, oldest first.
    fn live_segments(&self) -> Cow<'_, [Span]> {
        self.log.get().map_or(Cow::Borrowed(&self.segments), |log| Cow::Owned(log.segments()))
    }

    /// The segments that existed when the database was opened.
    pub(crate) fn segments(&self) -> &[Span] {
        &self.segments
    }

    /// The offset from which addresses into the log are counted.
    pub(crate) fn log_start(&self) -> u64 {
        self.segments.first().map_or(0, |span| span.start)
    }

    /// Number of rows that are only in files.
    pub(crate) fn unloaded(&self) -> u64 {
        self.unloaded.load(Ordering::Relaxed)
    }

    /// Number of rows that were read on demand.
    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Subtracts rows that were dropped with a table without having been read, or that stay in memory.
    pub(crate) fn forget_unloaded(&self, rows: u64) {
        self.unloaded.fetch_sub(rows, Ordering::Relaxed);
    }

    /// Whether a message has reported that rows stay in files; from now on one has.
    pub(crate) fn says_unloaded(&self) -> bool {
        self.said_unloaded.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn set_unloaded(&self, rows: u64) {
        self.unloaded.store(rows, Ordering::Relaxed);
    }

    /// Reads the record at `address`, which must belong to that row; if it is in the log, it lies in one of `segments`.
    pub(crate) fn read_raw(
        &self,
        segments: &[Span],
        address: Address,
        table: TableId,
        row: RowId,
    ) -> Result<StoredRecord> {
        let missing = |lsn: Lsn| Error::Storage(format!("a row is said to be at {lsn}, and there is no file for that"));
        match address.space() {
            Space::Log => {
                let lsn = address.lsn(segments.first().map_or(0, |span| span.start));
                let span = segments.iter().find(|span| (span.start..span.end).contains(&lsn.offset()));
                let span = span.ok_or_else(|| missing(lsn))?;
                let file = self.files.get(span).map_err(storage)?;
                read_row(&*file, &name_of(span), (*span).into(), lsn, address, table, row)
            }
            Space::Cold => {
                let lsn = address.lsn(self.cold.start());
                let (info, file) = self.cold.file_at(lsn.offset()).ok_or_else(|| missing(lsn))?;
                read_row(&*file, &cold::name_of(info.start), info.extent(), lsn, address, table, row)
            }
        }
    }

    /// The value of a record.
    pub(crate) fn value<'r>(
        &self,
        payload: Payload,
        bytes: &'r [u8],
        table: TableId,
        row: RowId,
    ) -> Result<Cow<'r, [u8]>> {
        if !payload.diverted {
            return Ok(Cow::Borrowed(bytes));
        }
        let of = BlobRef::from_bytes(bytes);
        let value = of.map(|of| self.blobs.read((table, row), of)).transpose().map_err(storage)?;
        let damaged = || Error::Corrupt {
            file: of.map_or_else(String::new, |of| blobs::name_of(of.blob, (table, row))),
            offset: 0,
            what: format!("it is not what was written (row {} of table {})", row.0, table.0),
        };
        value.flatten().map(Cow::Owned).ok_or_else(damaged)
    }

    /// Reads a row's newest version into memory if it is only in a file and there is memory for that `need`. The caller
    /// is in the epoch of operations.
    pub(crate) fn bring_in<H: CertifierStamps>(
        &self,
        table: &TableStore<H>,
        row: RowId,
        arena: &mut Arena,
        need: Need,
    ) -> Result<()> {
        if let Some(address) = table.rows.slot(row).stored() {
            let StoredRecord { stamp, value, bytes } = self.read_raw(&self.live_segments(), address, table.id, row)?;
            let value = self.value(value, &bytes, table.id, row)?;
            self.reads.fetch_add(1, Ordering::Relaxed);
            let bytes = VersionPtr::<H>::bytes(value.len());
            // Where rows can be evicted, what is taken from the reserve is given back to it.
            let last = if self.log.get().is_some() { Need::Shrink } else { need };
            arena
                .provide(bytes, Need::Grow)
                .or_else(|_| arena.provide(bytes, need))
                .or_else(|_| arena.provide(bytes, last))?;
            self.install(&table.rows, row, address, stamp, &value, arena);
        }
        Ok(())
    }

    /// Installs the value that was read from `address`, unless another thread was faster.
    pub(crate) fn install<H: CertifierStamps>(
        &self,
        rows: &ChainArray<H>,
        row: RowId,
        address: Address,
        stamp: Stamp,
        value: &[u8],
        arena: &mut Arena,
    ) {
        let (stamp, number) = self.written_as(address, stamp);
        if rows.slot(row).bring_in(arena, address, stamp, number, value) {
            if address.space() == Space::Cold {
                rows.set_first_home(row, address);
            }
            self.unloaded.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Returns the stamp of the transaction that wrote the version at an address, and the version's number in its log:
    /// `stamp` is what the record says.
    pub(crate) fn written_as(&self, address: Address, stamp: Stamp) -> (Stamp, u32) {
        let number = address.record() as u32;
        match (address.space(), self.log.get()) {
            (Space::Cold, _) => (stamp, AT_HOME),
            // The record of an overflow block knows only the block.
            (Space::Log, Some(log)) => log.chains.written_by(stamp, number).unwrap_or((stamp, number)),
            (Space::Log, None) => (stamp, number),
        }
    }

    /// Returns the places that are about to be freed; no checkpoint adds any while the guard lives.
    pub(crate) fn leaving(&self) -> impl DerefMut<Target = Leaving> {
        self.leaving.lock().expect("no code panics while it evicts rows")
    }

    /// Counts a row that is about to be in its file only.
    pub(crate) fn evicted(&self) {
        self.unloaded.fetch_add(1, Ordering::Relaxed);
    }
}

/// Reads the record at an address, which must belong to that row.
pub(super) fn read_row(
    file: &dyn File,
    name: &str,
    extent: Extent,
    lsn: Lsn,
    address: Address,
    table: TableId,
    row: RowId,
) -> Result<StoredRecord> {
    let damaged = |what: &str| Error::Corrupt {
        file: name.into(),
        offset: lsn.offset() - extent.base,
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
    let end = at.checked_add(value.length);
    let bytes = end.and_then(|end| payloads.get(at..end)).ok_or_else(|| damaged("the value is cut off"))?.to_vec();
    Ok(StoredRecord { stamp, value, bytes })
}

//! Reads durable rows by their addresses.

use std::{
    borrow::Cow,
    io,
    ops::DerefMut,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use super::{
    blobs::{self, Blobs},
    checkpoint::Checkpoints,
    cold::{self, ColdFile, ColdStore},
    removal::Removals,
    stored_block::{Block, Blocks, StoredRecord, StoredRow},
};
use crate::{
    error::{Error, Result},
    ids::{RowId, Stamp, TableId},
    latency::{Latencies, LatencyRecorder},
    log::{
        Log,
        lsn::{Address, Lsn, Space},
        record::{BlobRef, Payload},
        room::is_full,
        scan::Extent,
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

/// Places that are about to be freed: no slot may be given an address there.
#[derive(Default)]
pub(crate) struct Leaving {
    /// The log below this offset.
    pub(crate) log_below: u64,
    /// Files of the cold store.
    pub(crate) cold: Vec<ColdFile>,
}

/// A file with blocks.
pub(crate) struct StoredAt {
    /// The segment of the log that it is; `None`: a file of the cold store.
    segment: Option<Span>,
    pub(super) extent: Extent,
    pub(super) file: Arc<dyn File>,
}

/// Upper bound of the length that is expected of a block: a longer one has a single large value.
const EXPECTED_MAX: u64 = 24 << 10;

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
    /// The times of the reads of blocks.
    read_times: LatencyRecorder,
    /// See [`Store::expected`].
    expected: [AtomicU64; 2],
    /// Set when a message has reported that some of these rows stay in files.
    said_unloaded: AtomicBool,
    /// Set when the loader has ended: what is in memory from then on is what transactions use.
    has_loaded: AtomicBool,
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
            read_times: LatencyRecorder::new(),
            expected: [AtomicU64::new(EXPECTED_MAX / 3 * 2), AtomicU64::new(EXPECTED_MAX / 3 * 2)],
            said_unloaded: AtomicBool::new(false),
            has_loaded: AtomicBool::new(true),
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
    pub(super) fn live_segments(&self) -> Cow<'_, [Span]> {
        self.log.get().map_or(Cow::Borrowed(&self.segments), |log| Cow::Owned(log.segments()))
    }

    /// The end of the log that no write changes any more.
    pub(super) fn durable(&self) -> u64 {
        self.log.get().map_or(u64::MAX, |log| log.durable())
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

    /// Returns the times of the reads of blocks.
    pub(crate) fn read_times(&self) -> Latencies {
        self.read_times.read()
    }

    /// Subtracts rows that were dropped with a table without having been read, or that stay in memory.
    pub(crate) fn forget_unloaded(&self, rows: u64) {
        self.unloaded.fetch_sub(rows, Ordering::Relaxed);
    }

    /// Whether a message has reported that rows stay in files; from now on one has.
    pub(crate) fn says_unloaded(&self) -> bool {
        self.said_unloaded.swap(true, Ordering::Relaxed)
    }

    /// Notes that the loader has ended.
    pub(crate) fn loaded(&self) {
        self.has_loaded.store(true, Ordering::Relaxed);
    }

    /// Whether the loader has ended.
    pub(crate) fn has_loaded(&self) -> bool {
        self.has_loaded.load(Ordering::Relaxed)
    }

    /// Sets the number of rows that recovery has left in files, for the loader.
    pub(crate) fn set_unloaded(&self, rows: u64) {
        self.unloaded.store(rows, Ordering::Relaxed);
        self.has_loaded.store(rows == 0, Ordering::Relaxed);
    }

    /// Reads the record at `address`, which must belong to that row; if it is in the log, it lies in one of `segments`.
    pub(crate) fn read_raw(
        &self,
        segments: &[Span],
        address: Address,
        table: TableId,
        row: RowId,
        blocks: &mut Blocks,
    ) -> Result<StoredRecord> {
        let place = self.place(segments, address);
        let block = blocks.get((address.space(), place), || self.read_block(segments, address, place, (table, row)))?;
        let record = block.record(address, table, row);
        blocks.shed();
        record
    }

    /// Returns the place of the block that an address is in.
    pub(super) fn place(&self, segments: &[Span], address: Address) -> Lsn {
        match address.space() {
            Space::Log => address.lsn(segments.first().map_or(0, |span| span.start)),
            Space::Cold => address.lsn(self.cold.start()),
        }
    }

    /// Reads a block, for the sake of a row.
    fn read_block(&self, segments: &[Span], address: Address, lsn: Lsn, of: (TableId, RowId)) -> Result<Block> {
        let missing = || Error::Storage(format!("a row is said to be at {lsn}, and there is no file for that"));
        let place = self.file_at(segments, address.space(), lsn).map_err(storage)?.ok_or_else(missing)?;
        let expected = self.expected(address.space());
        // Relaxed: a guess.
        let bytes = expected.load(Ordering::Relaxed);
        let name = || match place.segment {
            Some(span) => name_of(&span),
            None => cold::name_of(place.extent.start),
        };
        let began = Instant::now();
        let block = Block::read(&*place.file, name, place.extent, (address.space(), lsn), bytes, of)?;
        self.read_times.record(began.elapsed());
        // Short blocks among long ones change little: a second read costs more than some pages.
        let next = block.length().max(bytes - bytes / 8).min(EXPECTED_MAX);
        if next != bytes {
            expected.store(next, Ordering::Relaxed);
        }
        Ok(block)
    }

    /// Returns the file that has the block at a place; `None`: there is none.
    pub(super) fn file_at(&self, segments: &[Span], space: Space, lsn: Lsn) -> io::Result<Option<StoredAt>> {
        Ok(match space {
            Space::Log => {
                let span = segments.iter().find(|span| (span.start..span.end).contains(&lsn.offset())).copied();
                let file = span.map(|span| self.files.get(&span)).transpose()?;
                span.zip(file).map(|(span, file)| StoredAt { segment: Some(span), extent: span.into(), file })
            }
            Space::Cold => self.cold.file_at(lsn.offset()).map(|(info, file)| StoredAt {
                segment: None,
                extent: info.extent(),
                file,
            }),
        })
    }

    /// The length that blocks of a space are likely to have, as the last ones had.
    pub(super) fn expected(&self, space: Space) -> &AtomicU64 {
        &self.expected[usize::from(space == Space::Cold)]
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

    /// Reads a row's newest version into memory if it is only in a file and there is memory for that `need`. Returns
    /// the bytes that it takes there. The caller is in the epoch of operations: until it ends, no file is removed that
    /// has a row at an address that was found in its slot.
    pub(crate) fn bring_in<H: CertifierStamps>(
        &self,
        table: &TableStore<H>,
        row: RowId,
        blocks: &mut Blocks,
        arena: &mut Arena,
        need: Need,
    ) -> Result<usize> {
        let Some(address) = table.rows.slot(row).stored() else { return Ok(0) };
        let brought = self.read_at(table, row, address, blocks, |stamp, value| {
            let bytes = self.provide::<H>(value.len(), arena, need)?;
            self.install(&table.rows, row, address, stamp, value, arena);
            Ok(bytes)
        });
        blocks.shed();
        brought
    }

    /// Shows `then` the stamp and the value of the record at an address, which is a row's.
    fn read_at<H: CertifierStamps, R>(
        &self,
        table: &TableStore<H>,
        row: RowId,
        address: Address,
        blocks: &mut Blocks,
        then: impl FnOnce(Stamp, &[u8]) -> Result<R>,
    ) -> Result<R> {
        let segments = self.live_segments();
        let place = self.place(&segments, address);
        let block =
            blocks.get((address.space(), place), || self.read_block(&segments, address, place, (table.id, row)))?;
        let StoredRow { stamp, value, bytes } = block.row(address, table.id, row)?;
        let value = self.value(value, bytes, table.id, row)?;
        self.reads.fetch_add(1, Ordering::Relaxed);
        then(stamp, &value)
    }

    /// Reads a row's newest version into memory that no slot refers to, if the row is only in a file. The caller is in
    /// the epoch of operations.
    pub(crate) fn read_uncached<H: CertifierStamps>(
        &self,
        table: &TableStore<H>,
        row: RowId,
        blocks: &mut Blocks,
        arena: &mut Arena,
    ) -> Result<Option<VersionPtr<H>>> {
        let Some(address) = table.rows.slot(row).stored() else { return Ok(None) };
        let version = self.read_at(table, row, address, blocks, |stamp, value| {
            self.provide::<H>(value.len(), arena, Need::Work)?;
            Ok(VersionPtr::loose(arena, self.written_as(address, stamp).0, value))
        });
        blocks.shed();
        version.map(Some)
    }

    /// Takes memory for a value that was read; returns the bytes of its version.
    fn provide<H: CertifierStamps>(&self, value: usize, arena: &mut Arena, need: Need) -> Result<usize> {
        let bytes = VersionPtr::<H>::bytes(value);
        // Where rows can be evicted, what is taken from the reserve is given back to it.
        let last = if self.log.get().is_some() { Need::Shrink } else { need };
        arena
            .provide(bytes, Need::Grow)
            .or_else(|_| arena.provide(bytes, need))
            .or_else(|_| arena.provide(bytes, last))?;
        Ok(bytes)
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

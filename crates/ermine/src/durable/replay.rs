//! Replays the log after the checkpoint.
//!
//! Only the heads of blocks count, which are also in files of their own (`log::heads`): a record puts its address into
//! its row's slot if the address there is older, so blocks can be replayed in parallel and in any order. Keys and index
//! entries are noted for `index_rebuild`.
//!
//! Invariant: slots only rise, by the age of addresses. A commit block names overflow blocks below it; between them and
//! the commit no other transaction wrote the rows that they write (their writer had these locked), so the age of the
//! overflow block serves.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use super::{
    header_scan::{Headers, Stop, read_window, side_by_side},
    row_set::RowSet,
    store::storage,
};
use crate::{
    catalog::TABLES_MAX,
    error::{Error, Result},
    ids::{RowId, TableId},
    log::{
        block::{BlockKind, HEADER_BYTES, Header, Invalid},
        heads::{HeadsReader, Run, read_head},
        identity::Identity,
        lsn::{Address, Lsn, Space},
        record::{Record, Records},
        scan::read_block,
        segment::{SegmentFiles, name_of},
        space::Span,
    },
    platform::{
        budget::{Budget, Need},
        file::File,
    },
    rows::{array::ChainArray, chain::CertifierStamps},
};

/// Indirection arrays under construction.
pub(super) struct Arrays<H> {
    arrays: RwLock<Vec<Option<Arc<ChainArray<H>>>>>,
    budget: Arc<Budget>,
}

impl<H: CertifierStamps> Arrays<H> {
    /// Creates an empty set of arrays, whose memory is charged to `budget`.
    pub(super) fn new(budget: &Arc<Budget>) -> Self {
        Self { arrays: RwLock::new(Vec::new()), budget: budget.clone() }
    }

    /// The array of a table, created on first use; `None`: no table has that number.
    pub(super) fn get(&self, table: TableId) -> Result<Option<Arc<ChainArray<H>>>> {
        if table.0 >= TABLES_MAX {
            return Ok(None);
        }
        let at = table.0 as usize;
        let known = self.arrays.read().expect("no code panics while it holds the arrays");
        if let Some(Some(array)) = known.get(at) {
            return Ok(Some(array.clone()));
        }
        drop(known);
        let mut known = self.arrays.write().expect("no code panics while it holds the arrays");
        if known.len() <= at {
            known.resize_with(at + 1, || None);
        }
        if known[at].is_none() {
            known[at] = Some(Arc::new(ChainArray::new(&self.budget)));
        }
        Ok(known[at].clone())
    }

    /// The tables that have an array.
    pub(super) fn tables(&self) -> Vec<TableId> {
        let arrays = self.arrays.read().expect("no code panics while it holds the arrays");
        (0..).zip(&*arrays).filter(|(_, array)| array.is_some()).map(|(id, _)| TableId(id)).collect()
    }

    /// All arrays, by the number of their table.
    pub(super) fn into_vec(self) -> Vec<Option<Arc<ChainArray<H>>>> {
        self.arrays.into_inner().expect("no code panics while it holds the arrays")
    }
}

/// A key that a row got, or an entry in an index.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyNote {
    pub(super) row: RowId,
    /// Offset of the block: when the row got the key or entry.
    pub(super) offset: u64,
    /// Position of its bytes in those of the notes.
    at: usize,
    length: u32,
}

/// The notes of one thread.
#[derive(Default)]
pub(super) struct Notes {
    bytes: Vec<u8>,
    pub(super) keys: HashMap<TableId, Vec<KeyNote>>,
    pub(super) entries: HashMap<(TableId, u16), Vec<KeyNote>>,
    /// The rows that were seen.
    pub(super) rows: HashMap<TableId, RowSet>,
    pub(super) transactions: u64,
    pub(super) log_bytes: u64,
    /// The highest offset up to which a block says that the log was durable when it was filled.
    pub(super) durable: u64,
    /// Number of keys and entries noted.
    noted: usize,
    /// Bytes that are charged to the budget.
    counted: u64,
}

impl Notes {
    pub(super) fn bytes(&self, note: &KeyNote) -> &[u8] {
        &self.bytes[note.at..][..note.length as usize]
    }

    /// Charges the memory of the notes, including what sorting them will take.
    fn count(&mut self, budget: &Budget) -> Result<()> {
        let bytes = (self.bytes.capacity() + self.noted * 3 * size_of::<KeyNote>()) as u64;
        budget.take_for(bytes.saturating_sub(self.counted), Need::Shrink)?;
        self.counted = self.counted.max(bytes);
        Ok(())
    }

    /// Returns the charged memory to the budget; the notes are about to be dropped.
    pub(super) fn count_back(&self, budget: &Budget) {
        budget.give(self.counted);
    }

    fn keep(&mut self, row: RowId, offset: u64, bytes: &[u8]) -> KeyNote {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.noted += 1;
        KeyNote { row, offset, at, length: bytes.len() as u32 }
    }
}

/// State that all threads of a replay share.
pub(super) struct Replay<'a, H> {
    pub(super) files: &'a SegmentFiles,
    /// Oldest first.
    pub(super) segments: &'a [Span],
    arrays: &'a Arrays<H>,
    /// Everything below is in the checkpoint.
    begin: u64,
    /// Of the database; `None`: it is an earlier program's, whose segments have no files of heads.
    identity: Option<Identity>,
    passed: Mutex<Passed>,
    progress: Progress,
}

/// Logs the progress of a replay from time to time.
struct Progress {
    began: Instant,
    /// Full seconds at the last message.
    told: AtomicU64,
}

impl Progress {
    fn tell(&self, replayed: u64, all: u64) {
        let seconds = self.began.elapsed().as_secs();
        // Relaxed: it guards nothing.
        if self.told.swap(seconds, Ordering::Relaxed) < seconds {
            ::log::info!("replayed {} of at most {} MiB of log in {seconds} s", replayed >> 20, all >> 20);
        }
    }
}

/// The overflow blocks in the files of heads that have been read: a commit refers to them later.
#[derive(Default)]
struct Passed(Vec<(Arc<dyn File>, Positions)>);

/// Blocks, in order, and where their heads are in a file.
type Positions = Vec<(Lsn, u64)>;

impl Passed {
    /// Notes those of a run; runs come in order.
    fn note(&mut self, file: &Arc<dyn File>, run: &Run) {
        let mut positions = run.positions(BlockKind::Overflow).peekable();
        match self.0.last_mut() {
            Some((last, blocks)) if Arc::ptr_eq(last, file) => blocks.extend(positions),
            _ if positions.peek().is_some() => self.0.push((file.clone(), positions.collect())),
            _ => {}
        }
    }

    /// Returns where the head of a block is.
    fn find(&self, lsn: Lsn) -> Option<(Arc<dyn File>, u64)> {
        self.0.iter().rev().find_map(|(file, blocks)| {
            let at = blocks.binary_search_by_key(&lsn, |(lsn, _)| *lsn).ok()?;
            Some((file.clone(), blocks[at].1))
        })
    }
}

/// How a segment's blocks end.
pub(super) enum End {
    /// At the end of the segment.
    Whole,
    /// At this offset, where there is no valid block.
    Invalid(u64, Invalid),
}

impl<'a, H: CertifierStamps> Replay<'a, H> {
    /// Creates a replay of `segments`, oldest first, from `begin` on.
    pub(super) fn new(
        files: &'a SegmentFiles,
        segments: &'a [Span],
        arrays: &'a Arrays<H>,
        begin: u64,
        identity: Option<Identity>,
    ) -> Self {
        let progress = Progress { began: Instant::now(), told: AtomicU64::new(0) };
        Self { files, segments, arrays, begin, identity, passed: Mutex::default(), progress }
    }

    /// Replays the heads of a segment's blocks from its file of heads, with a thread for each of `notes`, as far as they
    /// count. Returns the offset up to which they do.
    fn heads(&self, span: &Span, notes: &mut [Notes]) -> Result<u64> {
        let directory = &**self.files.directory();
        let reader = self.identity.and_then(|identity| HeadsReader::open(directory, span, identity));
        let mut at = span.start;
        let Some(mut reader) = reader else { return Ok(at) };
        let file = self.files.get(span).map_err(storage)?;
        // If the segment has lost its end, reading it finds that.
        while let Some(run) = reader.run()
            && run.is_in(&*file, span).map_err(storage)?
        {
            self.passed().note(&reader.file, &run);
            let shares = run.parts(notes.len()).zip(notes.iter_mut()).collect();
            let replayed = side_by_side(shares, |(part, notes)| {
                part.into_iter().try_for_each(|(header, head)| self.head(span, header, head, notes))
            });
            replayed.into_iter().collect::<Result<()>>()?;
            at = reader.next();
            self.count(notes, at)?;
        }
        Ok(at)
    }

    fn head(&self, span: &Span, header: &Header, head: &[u8], notes: &mut Notes) -> Result<()> {
        if header.lsn.offset() < self.begin {
            return Ok(());
        }
        notes.log_bytes += header.size;
        notes.durable = notes.durable.max(header.durable());
        if header.kind == BlockKind::Commit { self.commit(span, header, head, notes) } else { Ok(()) }
    }

    fn passed(&self) -> MutexGuard<'_, Passed> {
        self.passed.lock().expect("no code panics while it holds the positions")
    }

    /// Charges the memory of the notes, and tells the progress.
    fn count(&self, notes: &mut [Notes], at: u64) -> Result<()> {
        notes.iter_mut().try_for_each(|notes| notes.count(&self.arrays.budget))?;
        let end = self.segments.last().map_or(at, |last| last.end);
        self.progress.tell(at.saturating_sub(self.begin), end.saturating_sub(self.begin));
        Ok(())
    }

    /// Replays the part of a segment after the checkpoint, with a thread for each of `notes`.
    pub(super) fn segment(&self, span: &Span, notes: &mut [Notes]) -> Result<End> {
        if span.end <= self.begin {
            return Ok(End::Whole);
        }
        let mut at = self.heads(span, notes)?.max(self.begin);
        if span.end - at < HEADER_BYTES as u64 {
            return Ok(End::Whole);
        }
        let file = self.files.get(span).map_err(storage)?;
        loop {
            let window = read_window(&*file, (*span).into(), at, notes.len()).map_err(storage)?;
            let shares = window.pieces.iter().zip(notes.iter_mut()).collect();
            let replayed = side_by_side(shares, |(headers, notes)| self.headers(span, headers, notes));
            replayed.into_iter().collect::<Result<()>>()?;
            at = window.end;
            self.count(notes, at)?;
            match window.stop {
                None => {}
                Some(Stop::End) => return Ok(End::Whole),
                Some(Stop::Invalid(invalid)) => return Ok(End::Invalid(at, invalid)),
            }
        }
    }

    fn headers(&self, span: &Span, headers: &Headers, notes: &mut Notes) -> Result<()> {
        notes.log_bytes += headers.log_bytes;
        notes.durable = notes.durable.max(headers.durable);
        headers.commits().try_for_each(|(header, head)| self.commit(span, header, head, notes))
    }

    fn commit(&self, span: &Span, header: &Header, block: &[u8], notes: &mut Notes) -> Result<()> {
        notes.transactions += 1;
        self.part(header, block, notes)?;
        // From the last to the first, one in memory at a time: addresses and notes are ordered by their offsets.
        let (mut before, mut above) = (chained(block, header), header.lsn);
        while let Some(lsn) = before {
            let (header, block) = self.overflow(lsn, above, span, header)?;
            self.part(&header, &block, notes)?;
            (before, above) = (chained(&block, &header), lsn);
        }
        Ok(())
    }

    /// Reads the overflow block at `lsn`, which precedes the one at `above`, of the transaction that committed with
    /// `commit`; only its head, where that was passed in a file of heads.
    fn overflow(&self, lsn: Lsn, above: Lsn, span: &Span, commit: &Header) -> Result<(Header, Vec<u8>)> {
        let damaged = |span: &Span, at: Lsn, what: String| Error::Corrupt {
            file: name_of(span),
            offset: span.position(at.offset()),
            what,
        };
        let home = self.segments.iter().find(|span| (span.start..span.end).contains(&lsn.offset()));
        let Some(home) = home.filter(|_| lsn < above) else {
            return Err(damaged(
                span,
                commit.lsn,
                format!("it names an overflow block at {lsn}, where there is no log"),
            ));
        };
        let passed = self.passed().find(lsn);
        let head = passed.map(|(file, at)| read_head(&*file, at, lsn)).transpose().map_err(storage)?;
        let found = match head {
            Some(head) => head,
            None => {
                let file = self.files.get(home).map_err(storage)?;
                read_block(&*file, (*home).into(), lsn).map_err(storage)?.ok()
            }
        };
        found.filter(|(header, _)| header.kind == BlockKind::Overflow).ok_or_else(|| {
            damaged(
                home,
                lsn,
                format!("the overflow block of the transaction that committed at {} is not there", commit.lsn),
            )
        })
    }

    /// Replays the records of one block.
    fn part(&self, header: &Header, block: &[u8], notes: &mut Notes) -> Result<()> {
        let damaged = |what: &str| {
            let span = self.segments.iter().find(|span| (span.start..span.end).contains(&header.lsn.offset()));
            Error::Corrupt {
                file: span.map_or_else(String::new, name_of),
                offset: span.map_or(0, |span| span.position(header.lsn.offset())),
                what: what.into(),
            }
        };
        let start = self.segments[0].start;
        let offset = header.lsn.offset();
        let mut number = 0;
        let mut known: Option<(TableId, Arc<ChainArray<H>>)> = None;
        for record in Records::new(descriptors(block, header)) {
            let record = record.ok_or_else(|| damaged("a record of an unknown kind: written by a newer version?"))?;
            let (table, row) = match record {
                Record::Insert { table, row, .. }
                | Record::Update { table, row, .. }
                | Record::Delete { table, row }
                | Record::Entry { table, row, .. } => (table, row),
                Record::Chain { .. } | Record::Unlogged | Record::Key { .. } => {
                    number += usize::from(record.is_row());
                    continue;
                }
                Record::Moved { .. } => return Err(damaged("a record of the cold store in the log")),
            };
            if !ChainArray::<H>::has_place(row) {
                return Err(damaged("a row number that no table has"));
            }
            match record {
                Record::Insert { key, .. } => {
                    let note = notes.keep(row, offset, key);
                    notes.keys.entry(table).or_default().push(note);
                }
                Record::Entry { index, entry, .. } => {
                    let note = notes.keep(row, offset, entry);
                    notes.entries.entry((table, index)).or_default().push(note);
                    continue;
                }
                _ => {}
            }
            let array = match &known {
                Some((of, array)) if *of == table => array,
                _ => {
                    let array = self.arrays.get(table)?.ok_or_else(|| damaged("a table number that no table has"))?;
                    &known.insert((table, array)).1
                }
            };
            let address = Address::new(Space::Log, header.lsn, number);
            let address = address.map_err(|_| damaged("more records than addresses can name"))?;
            let address = if matches!(record, Record::Delete { .. }) { address.deleted() } else { address };
            raise(array, row, address, start);
            notes.rows.entry(table).or_default().insert(row);
            number += 1;
        }
        Ok(())
    }
}

pub(super) fn descriptors<'a>(block: &'a [u8], header: &Header) -> &'a [u8] {
    &block[HEADER_BYTES..header.payload_at() as usize]
}

/// The overflow block before this one.
pub(super) fn chained(block: &[u8], header: &Header) -> Option<Lsn> {
    Records::new(descriptors(block, header)).find_map(|record| match record {
        Some(Record::Chain { before, .. }) => Some(Lsn::from_word(before)),
        _ => None,
    })
}

/// Puts an address into a row's slot, unless the slot has a newer one.
pub(super) fn raise<H: CertifierStamps>(array: &ChainArray<H>, row: RowId, address: Address, start: u64) {
    let slot = array.slot(row);
    loop {
        let current = slot.stored();
        if current.is_some_and(|current| current.age_rank(start) > address.age_rank(start))
            || slot.replace_stored(current, Some(address))
        {
            return;
        }
    }
}

//! Going through the log behind the checkpoint.
//!
//! Only the headers count: a record puts its address into its row's slot if what stands there is older, so blocks can be
//! replayed side by side and in any order. Keys and index entries are noted for `rebuild`.
//!
//! Invariant: slots only rise, by the age of addresses. A commit block names overflow blocks below it; a row that they write
//! was written by nobody between them and the commit (its writer had it locked), so the age of the overflow block serves.

use std::{
    collections::HashMap,
    sync::{
        Arc, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use super::{
    heads::{Heads, Stop, read_window, side_by_side},
    row_set::RowSet,
    store::storage,
};
use crate::{
    catalog::TABLES_MAX,
    error::{Error, Result},
    ids::{RowId, TableId},
    log::{
        block::{BlockKind, HEADER_BYTES, Header, Invalid},
        lsn::{Address, Lsn, Space},
        record::{Record, Records},
        scan::read_block,
        segment::{SegmentFiles, name_of},
        space::Span,
    },
    platform::budget::{Budget, Need},
    rows::{array::ChainArray, chain::CertifierStamps},
};

/// Indirection arrays as they come up.
pub(super) struct Arrays<H> {
    arrays: RwLock<Vec<Option<Arc<ChainArray<H>>>>>,
    budget: Arc<Budget>,
}

impl<H: CertifierStamps> Arrays<H> {
    /// Arrays that count in `budget`.
    pub(super) fn new(budget: &Arc<Budget>) -> Self {
        Self { arrays: RwLock::new(Vec::new()), budget: budget.clone() }
    }

    /// The array of a table, made when it is first asked for; `None`: no table has that number.
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

    /// The tables that have one.
    pub(super) fn tables(&self) -> Vec<TableId> {
        let arrays = self.arrays.read().expect("no code panics while it holds the arrays");
        (0..).zip(&*arrays).filter(|(_, array)| array.is_some()).map(|(id, _)| TableId(id)).collect()
    }

    /// All of them, by the number of their table.
    pub(super) fn into_vec(self) -> Vec<Option<Arc<ChainArray<H>>>> {
        self.arrays.into_inner().expect("no code panics while it holds the arrays")
    }
}

/// A key that a row got, or an entry in an index.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyNote {
    pub(super) row: RowId,
    /// When: the offset of the block.
    pub(super) offset: u64,
    /// Where its bytes are, among those of the notes.
    at: usize,
    length: u32,
}

/// What one thread has noted.
#[derive(Default)]
pub(super) struct Notes {
    bytes: Vec<u8>,
    pub(super) keys: HashMap<TableId, Vec<KeyNote>>,
    pub(super) entries: HashMap<(TableId, u16), Vec<KeyNote>>,
    /// The rows that were seen.
    pub(super) rows: HashMap<TableId, RowSet>,
    pub(super) transactions: u64,
    pub(super) log_bytes: u64,
    /// Up to where a block says that the log was durable when it was filled.
    pub(super) durable: u64,
    /// How many keys and entries it has noted.
    noted: usize,
    /// Bytes of it that the budget knows of.
    counted: u64,
}

impl Notes {
    pub(super) fn bytes(&self, note: &KeyNote) -> &[u8] {
        &self.bytes[note.at..][..note.length as usize]
    }

    /// Counts what it takes, with what sorting it will.
    fn count(&mut self, budget: &Budget) -> Result<()> {
        let bytes = (self.bytes.capacity() + self.noted * 3 * size_of::<KeyNote>()) as u64;
        budget.take_for(bytes.saturating_sub(self.counted), Need::Shrink)?;
        self.counted = self.counted.max(bytes);
        Ok(())
    }

    /// It is about to be dropped.
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

/// What all threads of a replay share.
pub(super) struct Replay<'a, H> {
    pub(super) files: &'a SegmentFiles,
    /// Oldest first.
    pub(super) segments: &'a [Span],
    arrays: &'a Arrays<H>,
    /// What is below is in the checkpoint.
    begin: u64,
    progress: Progress,
}

/// Tells now and then how far a replay has come.
struct Progress {
    began: Instant,
    /// Full seconds when it was last told.
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

/// Where a segment's blocks end.
pub(super) enum End {
    /// As they should.
    Whole,
    /// Here, with something that is no block.
    Invalid(u64, Invalid),
}

impl<'a, H: CertifierStamps> Replay<'a, H> {
    /// A replay of `segments`, oldest first, from `begin` on.
    pub(super) fn new(files: &'a SegmentFiles, segments: &'a [Span], arrays: &'a Arrays<H>, begin: u64) -> Self {
        let progress = Progress { began: Instant::now(), told: AtomicU64::new(0) };
        Self { files, segments, arrays, begin, progress }
    }

    /// Replays what a segment has behind the checkpoint, with a thread for each of `notes`.
    pub(super) fn segment(&self, span: &Span, notes: &mut [Notes]) -> Result<End> {
        if span.end <= self.begin {
            return Ok(End::Whole);
        }
        let file = self.files.get(span).map_err(storage)?;
        let mut at = self.begin.max(span.start);
        loop {
            let window = read_window(&*file, (*span).into(), at, notes.len()).map_err(storage)?;
            let shares = window.pieces.iter().zip(notes.iter_mut()).collect();
            let replayed = side_by_side(shares, |(heads, notes)| self.heads(span, heads, notes));
            replayed.into_iter().collect::<Result<()>>()?;
            notes.iter_mut().try_for_each(|notes| notes.count(&self.arrays.budget))?;
            at = window.end;
            let end = self.segments.last().map_or(at, |last| last.end);
            self.progress.tell(at.saturating_sub(self.begin), end.saturating_sub(self.begin));
            match window.stop {
                None => {}
                Some(Stop::End) => return Ok(End::Whole),
                Some(Stop::Invalid(invalid)) => return Ok(End::Invalid(at, invalid)),
            }
        }
    }

    fn heads(&self, span: &Span, heads: &Heads, notes: &mut Notes) -> Result<()> {
        notes.log_bytes += heads.log_bytes;
        notes.durable = notes.durable.max(heads.durable);
        for (header, head) in heads.commits() {
            notes.transactions += 1;
            self.commit(span, header, head, notes)?;
        }
        Ok(())
    }

    fn commit(&self, span: &Span, header: &Header, block: &[u8], notes: &mut Notes) -> Result<()> {
        self.part(header, block, notes)?;
        // From the last to the first, one in memory at a time: addresses and notes are ordered by where they are.
        let (mut before, mut above) = (chained(block, header), header.lsn);
        while let Some(lsn) = before {
            let (header, block) = self.overflow(lsn, above, span, header)?;
            self.part(&header, &block, notes)?;
            (before, above) = (chained(&block, &header), lsn);
        }
        Ok(())
    }

    /// An overflow block of the transaction that committed with `commit`, in front of the one at `above`.
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
        let file = self.files.get(home).map_err(storage)?;
        let block = read_block(&*file, (*home).into(), lsn).map_err(storage)?;
        block.ok().filter(|(header, _)| header.kind == BlockKind::Overflow).ok_or_else(|| {
            damaged(
                home,
                lsn,
                format!("the overflow block of the transaction that committed at {} is not there", commit.lsn),
            )
        })
    }

    /// The records of one block.
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
                Record::Chain { .. } => continue,
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

fn descriptors<'a>(block: &'a [u8], header: &Header) -> &'a [u8] {
    &block[HEADER_BYTES..header.payload_at() as usize]
}

/// The overflow block before this one.
fn chained(block: &[u8], header: &Header) -> Option<Lsn> {
    Records::new(descriptors(block, header)).find_map(|record| match record {
        Some(Record::Chain { before, .. }) => Some(Lsn::from_word(before)),
        _ => None,
    })
}

/// Puts an address into a row's slot, unless a newer one is there.
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

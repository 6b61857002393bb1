//! The file of a checkpoint: keys, rows and their addresses, as of about one moment (ERMIA 3.7).
//!
//! A file `checkpoint-BEGIN` of blocks: one begin block, then for each table its keys and the entries of its indexes,
//! each in order (but for the keys of a hash index) and cut into blocks, then one end block. An empty file
//! `marker-BEGIN-END` makes the checkpoint count: it is made when all the rest is durable, and names the position of
//! the end block. BEGIN is the place in the log from which it is to be replayed.
//!
//! Contents of the blocks:
//! - begin: descriptors: begin, start of the log, sequence of its first segment, start of the cold store, microseconds
//!   since 1970, identity of the database (16 bytes); no payload
//! - keys: descriptors: table, 0, count; payload, per key: bytes shared with the one before, length of the rest, rest,
//!   row, address (8 bytes)
//! - entries: descriptors: table, index, count; payload, per entry: as above, without address
//! - end: descriptors: count of cold files, then start, end, rows, live rows of each; count of sections, then table,
//!   index, offset, count of each; position of the log when the walk ended; no payload
//!
//! All numbers but the addresses are varints. A section begins with a block of its own; its offset is that block's.

use std::{
    io,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use smallvec::SmallVec;

use super::{
    cold::{ColdFile, whole_block},
    store::storage,
};
use crate::{
    error::{Error, Result},
    ids::{RowId, TableId},
    log::{
        block::{BlockKind, Body, HEADER_BYTES},
        identity::Identity,
        lsn::{Address, GRANULE, Lsn, OFFSET_MAX},
        record::{put_number, take_number},
        scan::{Extent, Found, Scan, read_block},
    },
    platform::file::{Directory, File, Open},
};

const PREFIX: &str = "checkpoint-";
const MARKER: &str = "marker-";

/// Bytes of payload from which on a block is written.
const BLOCK_BYTES: usize = 256 << 10;
/// Bytes between two syncs while the file is written.
const SYNC_BYTES: u64 = 32 << 20;

/// A key or index entry that is being copied.
pub(crate) type KeyBytes = SmallVec<[u8; 32]>;

/// The file of the checkpoint that begins at `begin`.
pub(crate) fn name_of(begin: u64) -> String {
    format!("{PREFIX}{begin:016x}")
}

/// The beginning of the checkpoint whose file has that name.
pub(crate) fn begin_of(name: &str) -> Option<u64> {
    let begin = u64::from_str_radix(name.strip_prefix(PREFIX)?, 16).ok()?;
    (name_of(begin) == name).then_some(begin)
}

/// The marker of a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Marker {
    pub(crate) begin: u64,
    /// Position of the end block in the file.
    pub(crate) end: u64,
}

impl Marker {
    pub(crate) fn name(&self) -> String {
        format!("{MARKER}{:016x}-{:016x}", self.begin, self.end)
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (begin, end) = name.strip_prefix(MARKER)?.split_once('-')?;
        let marker = Self { begin: u64::from_str_radix(begin, 16).ok()?, end: u64::from_str_radix(end, 16).ok()? };
        (marker.name() == name).then_some(marker)
    }
}

/// Header of a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    /// The log is replayed from here on.
    pub(crate) begin: u64,
    /// Start and sequence number of the oldest segment that the checkpoint's addresses need.
    pub(crate) log_start: u64,
    pub(crate) log_sequence: u64,
    /// Start of the oldest file of the cold store.
    pub(crate) cold_start: u64,
    pub(crate) micros: u64,
    /// Identity of the database; `None`: an earlier program wrote the checkpoint.
    pub(crate) identity: Option<Identity>,
}

/// The keys of a table (index 0), or the entries of one of its indexes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Section {
    pub(crate) table: TableId,
    pub(crate) index: u16,
    /// Position of its first block.
    pub(crate) offset: u64,
    pub(crate) count: u64,
}

/// Writes the file of a checkpoint.
pub(crate) struct ImageWriter {
    file: Arc<dyn File>,
    at: u64,
    synced: u64,
    sections: Vec<Section>,
    payload: Vec<u8>,
    /// Number of keys in `payload`, and the last of them.
    count: u64,
    last: Vec<u8>,
}

impl ImageWriter {
    pub(crate) fn create(directory: &dyn Directory, head: &Head) -> io::Result<Self> {
        let name = name_of(head.begin);
        // An unfinished file may exist. If it got a marker it might count: the marker is durably removed first.
        let names = directory.list()?;
        let is_its = |name: &&String| Marker::parse(name).is_some_and(|marker| marker.begin == head.begin);
        for marker in names.iter().filter(is_its) {
            directory.remove(marker)?;
            directory.sync()?;
        }
        if names.contains(&name) {
            directory.remove(&name)?;
        }
        let file = directory.open(&name, Open::Create)?;
        let (payload, last) = (Vec::new(), Vec::new());
        let mut writer = Self { file, at: 0, synced: 0, sections: Vec::new(), payload, count: 0, last };
        let mut descriptors = Vec::new();
        for number in [head.begin, head.log_start, head.log_sequence, head.cold_start, head.micros] {
            put_number(&mut descriptors, number);
        }
        descriptors.extend(head.identity.into_iter().flat_map(Identity::bytes));
        writer.write(BlockKind::Begin, &descriptors, &[])?;
        Ok(writer)
    }

    fn write(&mut self, kind: BlockKind, descriptors: &[u8], payload: &[u8]) -> io::Result<()> {
        let block = whole_block(Body::of(kind, descriptors, payload), self.at);
        self.file.write_at(self.at, &block)?;
        self.at += block.len() as u64;
        if self.at - self.synced >= SYNC_BYTES {
            self.file.sync()?;
            self.synced = self.at;
        }
        Ok(())
    }

    /// Begins a section: a table's keys, or the entries of one of its indexes.
    pub(crate) fn section(&mut self, table: TableId, index: u16) -> io::Result<()> {
        self.flush()?;
        self.sections.push(Section { table, index, offset: self.at, count: 0 });
        Ok(())
    }

    /// Adds a key greater than those before; with an address in a section of keys.
    pub(crate) fn add(&mut self, key: &[u8], row: RowId, address: Option<Address>) -> io::Result<()> {
        let shared = key.iter().zip(&self.last).take_while(|(one, other)| one == other).count();
        put_number(&mut self.payload, shared as u64);
        put_number(&mut self.payload, (key.len() - shared) as u64);
        self.payload.extend_from_slice(&key[shared..]);
        put_number(&mut self.payload, row.0);
        if let Some(address) = address {
            self.payload.extend_from_slice(&address.word().to_le_bytes());
        }
        self.last.truncate(shared);
        self.last.extend_from_slice(&key[shared..]);
        self.count += 1;
        if self.payload.len() >= BLOCK_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.count == 0 {
            return Ok(());
        }
        let count = std::mem::take(&mut self.count);
        let section = self.sections.last_mut().expect("keys are in a section");
        section.count += count;
        let mut descriptors = Vec::new();
        for number in [section.table.0.into(), section.index.into(), count] {
            put_number(&mut descriptors, number);
        }
        let kind = if section.index == 0 { BlockKind::Keys } else { BlockKind::Entries };
        let payload = std::mem::take(&mut self.payload);
        self.write(kind, &descriptors, &payload)?;
        self.payload = payload;
        self.payload.clear();
        self.last.clear();
        Ok(())
    }

    /// Writes the end block and makes everything durable but the name; returns the position of the end block.
    pub(crate) fn finish(&mut self, cold: &[ColdFile], walked: u64) -> io::Result<u64> {
        self.flush()?;
        let mut descriptors = Vec::new();
        put_number(&mut descriptors, cold.len() as u64);
        for file in cold {
            let numbers = [file.start, file.end, file.rows, file.live];
            numbers.into_iter().for_each(|number| put_number(&mut descriptors, number));
        }
        put_number(&mut descriptors, self.sections.len() as u64);
        for section in &self.sections {
            let numbers = [section.table.0.into(), section.index.into(), section.offset, section.count];
            numbers.into_iter().for_each(|number| put_number(&mut descriptors, number));
        }
        put_number(&mut descriptors, walked);
        let end = self.at;
        self.write(BlockKind::End, &descriptors, &[])?;
        self.file.sync()?;
        Ok(end)
    }

    /// Bytes written so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.at
    }
}

/// A complete checkpoint.
pub(crate) struct Image {
    pub(crate) marker: Marker,
    pub(crate) head: Head,
    pub(crate) cold: Vec<ColdFile>,
    pub(crate) sections: Vec<Section>,
    /// Position of the log when the walk ended: the checkpoint has nothing that was committed later.
    pub(crate) walked: u64,
    name: String,
    file: Arc<dyn File>,
    bytes: u64,
}

impl Image {
    /// Opens the checkpoint that a marker names.
    pub(crate) fn open(directory: &dyn Directory, marker: Marker) -> Result<Self> {
        let name = name_of(marker.begin);
        let file = directory.open(&name, Open::Read).map_err(storage)?;
        let bytes = file.length().map_err(storage)?;
        let damaged = |offset| Error::Corrupt {
            file: name.clone(),
            offset,
            what: "the checkpoint is damaged: restore a backup".into(),
        };
        let extent = Extent { base: 0, start: 0, end: bytes, segment: 0 };
        let block_at = |offset: u64, kind| {
            if !is_place(offset, bytes) {
                return Err(damaged(0));
            }
            let block = read_block(&*file, extent, Lsn::new(offset, 0)).map_err(storage)?;
            let (header, bytes) = block.map_err(|_| damaged(offset))?;
            let descriptors = bytes[HEADER_BYTES..header.payload_at() as usize].to_vec();
            if header.kind == kind { Ok(descriptors) } else { Err(damaged(offset)) }
        };
        let head = read_head(&block_at(0, BlockKind::Begin)?).ok_or_else(|| damaged(0))?;
        let (cold, sections, walked) =
            read_end(&block_at(marker.end, BlockKind::End)?).ok_or_else(|| damaged(marker.end))?;
        if head.begin != marker.begin || !head.is_sound() {
            return Err(damaged(0));
        }
        if !cold.iter().all(ColdFile::is_sound) || !sections.iter().all(|section| is_place(section.offset, bytes)) {
            return Err(damaged(marker.end));
        }
        Ok(Self { marker, head, cold, sections, walked, name, file, bytes })
    }

    /// The section of a table's keys, or of the entries of one of its indexes.
    pub(crate) fn section(&self, table: TableId, index: u16) -> Option<&Section> {
        self.sections.iter().find(|section| section.table == table && section.index == index)
    }

    /// The keys of a section, in order.
    pub(crate) fn keys(&self, section: &Section) -> Keys<'_> {
        let extent = Extent { base: 0, start: 0, end: self.bytes, segment: 0 };
        let scan = Scan::new(&*self.file, extent, section.offset);
        let (section, left) = (*section, section.count);
        Keys { image: self, scan, section, left, in_block: 0, block: Vec::new(), at: 0, last: KeyBytes::new() }
    }

    /// Its size in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Whether a block may begin at this offset.
fn is_place(offset: u64, end: u64) -> bool {
    offset <= end && offset.is_multiple_of(GRANULE)
}

impl Head {
    fn is_sound(&self) -> bool {
        is_place(self.begin, OFFSET_MAX)
            && is_place(self.log_start, OFFSET_MAX)
            && is_place(self.cold_start, OFFSET_MAX)
    }
}

fn read_head(mut descriptors: &[u8]) -> Option<Head> {
    let mut next = || take_number(&mut descriptors);
    let (begin, log_start, log_sequence, cold_start, micros) = (next()?, next()?, next()?, next()?, next()?);
    let identity = if descriptors.is_empty() { None } else { Some(Identity::read(descriptors)?) };
    Some(Head { begin, log_start, log_sequence, cold_start, micros, identity })
}

fn read_end(mut descriptors: &[u8]) -> Option<(Vec<ColdFile>, Vec<Section>, u64)> {
    let mut next = || take_number(&mut descriptors);
    let mut cold = Vec::new();
    for _ in 0..next()? {
        cold.push(ColdFile { start: next()?, end: next()?, rows: next()?, live: next()? });
    }
    let mut sections = Vec::new();
    for _ in 0..next()? {
        let (table, index) = (u32::try_from(next()?).ok()?, u16::try_from(next()?).ok()?);
        sections.push(Section { table: TableId(table), index, offset: next()?, count: next()? });
    }
    Some((cold, sections, next()?))
}

/// The number of keys in a block, if it is one of that section.
fn read_count(mut descriptors: &[u8], section: &Section) -> Option<u64> {
    let table = take_number(&mut descriptors)?;
    let index = take_number(&mut descriptors)?;
    let is_right = table == u64::from(section.table.0) && index == u64::from(section.index);
    take_number(&mut descriptors).filter(|_| is_right)
}

/// The keys of a section.
pub(crate) struct Keys<'i> {
    image: &'i Image,
    scan: Scan<'i>,
    section: Section,
    left: u64,
    /// Keys left in the block.
    in_block: u64,
    /// The payload that is being read, and the position in it.
    block: Vec<u8>,
    at: usize,
    last: KeyBytes,
}

impl Keys<'_> {
    fn damaged(&self) -> Error {
        let what = "the checkpoint is damaged: restore a backup".into();
        Error::Corrupt { file: self.image.name.clone(), offset: self.scan.at(), what }
    }

    /// Reads the next block of the section.
    fn load(&mut self) -> Result<()> {
        let kind = if self.section.index == 0 { BlockKind::Keys } else { BlockKind::Entries };
        self.last.clear();
        self.at = 0;
        self.block.clear();
        self.in_block = 0;
        if let Found::Block(header, bytes) = self.scan.next().map_err(storage)?
            && header.kind == kind
        {
            let (descriptors, payload) = bytes[HEADER_BYTES..].split_at(header.descriptors as usize);
            self.block.extend_from_slice(payload);
            self.in_block = read_count(descriptors, &self.section).unwrap_or(0);
        }
        if self.in_block == 0 { Err(self.damaged()) } else { Ok(()) }
    }

    fn read(&mut self) -> Option<(RowId, Option<Address>)> {
        let mut rest = &self.block[self.at..];
        let shared = usize::try_from(take_number(&mut rest)?).ok()?;
        let length = usize::try_from(take_number(&mut rest)?).ok()?;
        let (suffix, mut rest) = rest.split_at_checked(length)?;
        if shared > self.last.len() {
            return None;
        }
        let row = RowId(take_number(&mut rest)?);
        let mut address = None;
        if self.section.index == 0 {
            let (word, after) = rest.split_first_chunk()?;
            address = Some(Address::from_word(u64::from_le_bytes(*word))?);
            rest = after;
        }
        self.last.truncate(shared);
        self.last.extend_from_slice(suffix);
        self.at = self.block.len() - rest.len();
        Some((row, address))
    }
}

impl Iterator for Keys<'_> {
    type Item = Result<(KeyBytes, RowId, Option<Address>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        if self.in_block == 0
            && let Err(error) = self.load()
        {
            self.left = 0;
            return Some(Err(error));
        }
        self.in_block -= 1;
        Some(match self.read() {
            Some((row, address)) => Ok((self.last.clone(), row, address)),
            None => {
                self.left = 0;
                Err(self.damaged())
            }
        })
    }
}

/// Microseconds since 1970.
pub(crate) fn now_micros() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

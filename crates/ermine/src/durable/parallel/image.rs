//! The files of a checkpoint: rows in blocks, and a manifest that says what counts (SiloR 4).
//!
//! ```text
//!   rows-EPOCH-NUMBER   head: magic 8 bytes | epoch u64 | number u32 | crc u32
//!                       blocks: length u32 | crc u32 | count of rows u32 | per row: TID u64, row as in the log;
//!                       with the count's topmost bit: length of the rows u32 | the rows, compressed (LZ4)
//!   manifest-EPOCH      magic 8 bytes | crc u32 | length u32 | epoch, last epoch, generation |
//!                       devices: count, the first file needed of each | files: count, device, bytes, rows of each |
//!                       tables: count, name of each | when the last epoch had ended, in microseconds since 1970
//! ```
//!
//! EPOCH is the epoch in which the checkpoint began; numbers of the manifest's second half are varints. A block's
//! checksum covers everything that follows it in the block. The manifest is written under another name and renamed when
//! it is synced, so a file with its name is either whole or damaged.

use std::{io, sync::Arc};

use super::{
    super::store::storage,
    files::{Places, Role},
};
use crate::{
    error::{Error, Result},
    log::{
        identity::{Identity, Said},
        parallel::{file::FileName, record::Row},
        record::{put_number, take_number},
    },
    platform::file::{Directory, File, Open},
    rows::in_place::CommitTid,
};

const ROWS_MAGIC: [u8; 8] = *b"ERMROWS1";
const MANIFEST_MAGIC: [u8; 8] = *b"ERMMANI1";
const HEAD_BYTES: usize = 24;
const BLOCK_HEAD_BYTES: usize = 12;
const MANIFEST_HEAD_BYTES: usize = 16;
/// Maximum length of a manifest: with the names of a million tables, more than there are addresses for.
const MANIFEST_BYTES_MAX: u64 = 64 << 20;
/// Bytes of rows from which on a block is written.
const BLOCK_BYTES: usize = 256 << 10;
/// Bit in the count of rows that says that the rows are compressed.
const COMPRESSED: u32 = 1 << 31;
/// Maximum bytes of the rows of a block: the last row may be as long as a row can be.
const UNPACKED_BYTES_MAX: usize = BLOCK_BYTES + 2 * crate::MAX_VALUE_BYTES;
// Length and count of a block do not overflow: each row has several bytes.
const _: () = assert!(UNPACKED_BYTES_MAX < COMPRESSED as usize);

/// A file of rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RowsFile {
    pub(crate) device: usize,
    pub(crate) bytes: u64,
    pub(crate) rows: u64,
}

/// The manifest of a checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Manifest {
    /// Rows of this epoch and later ones are in the log only.
    pub(crate) epoch: u64,
    /// The last epoch whose changes the walk may have met.
    pub(crate) last_epoch: u64,
    /// The generation of the log, and the first needed one of its files, by device. No file of an earlier generation is
    /// needed.
    pub(crate) generation: u32,
    pub(crate) first: Vec<u32>,
    /// Files of rows, by number.
    pub(crate) files: Vec<RowsFile>,
    /// Names of the tables, for people.
    pub(crate) tables: Vec<String>,
    /// A moment at which the last epoch had ended, in microseconds since 1970; zero: an earlier version wrote it.
    pub(crate) micros: u64,
    /// Identity of the database, which the checksums of the manifest and of its files cover; `None`: an earlier program
    /// wrote it.
    pub(crate) identity: Option<Identity>,
}

impl Manifest {
    /// Whether a file of the log is replayed on top of this checkpoint.
    pub(super) fn needs(&self, device: usize, name: FileName) -> bool {
        let first = self.first.get(device).copied().unwrap_or(1);
        name.generation > self.generation || name.generation == self.generation && name.sequence >= first
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        [self.epoch, self.last_epoch, self.generation.into()].iter().for_each(|number| put_number(&mut body, *number));
        put_number(&mut body, self.first.len() as u64);
        self.first.iter().for_each(|first| put_number(&mut body, (*first).into()));
        put_number(&mut body, self.files.len() as u64);
        for RowsFile { device, bytes, rows } in &self.files {
            [*device as u64, *bytes, *rows].iter().for_each(|number| put_number(&mut body, *number));
        }
        put_number(&mut body, self.tables.len() as u64);
        for table in &self.tables {
            put_number(&mut body, table.len() as u64);
            body.extend_from_slice(table.as_bytes());
        }
        put_number(&mut body, self.micros);
        assert!(
            body.len() as u64 <= MANIFEST_BYTES_MAX - MANIFEST_HEAD_BYTES as u64,
            "a manifest is longer than is read"
        );
        let mut bytes = MANIFEST_MAGIC.to_vec();
        bytes.extend(Identity::sum(self.identity, &body).to_le_bytes());
        bytes.extend((body.len() as u32).to_le_bytes());
        bytes.extend(body);
        bytes
    }

    fn decode(bytes: &[u8], of: Option<Identity>) -> Option<Self> {
        let (head, mut body) = bytes.split_at_checked(MANIFEST_HEAD_BYTES)?;
        let is_whole = head[..8] == MANIFEST_MAGIC
            && head[8..12] == Identity::sum(of, body).to_le_bytes()
            && head[12..] == (body.len() as u32).to_le_bytes();
        if !is_whole {
            return None;
        }
        let input = &mut body;
        let (epoch, last_epoch) = (take_number(input)?, take_number(input)?);
        let generation = u32::try_from(take_number(input)?).ok()?;
        let first = (0..take_number(input)?).map(|_| u32::try_from(take_number(input)?).ok());
        let first = first.collect::<Option<_>>()?;
        let files = (0..take_number(input)?).map(|_| {
            let device = usize::try_from(take_number(input)?).ok()?;
            Some(RowsFile { device, bytes: take_number(input)?, rows: take_number(input)? })
        });
        let files = files.collect::<Option<_>>()?;
        let tables = (0..take_number(input)?).map(|_| {
            let length = usize::try_from(take_number(input)?).ok()?;
            let (name, rest) = input.split_at_checked(length)?;
            *input = rest;
            String::from_utf8(name.to_vec()).ok()
        });
        let tables = tables.collect::<Option<_>>()?;
        let micros = take_number(input).unwrap_or(0);
        Some(Self { epoch, last_epoch, generation, first, files, tables, micros, identity: of })
    }

    /// Reads the manifest of a checkpoint.
    pub(super) fn read(directory: &dyn Directory, epoch: u64, said: Option<Said>) -> Result<Self> {
        let name = Role::Manifest(epoch).name();
        let damaged = |what: &str| Error::Corrupt { file: name.clone(), offset: 0, what: what.into() };
        let file = directory.open(&name, Open::Read).map_err(storage)?;
        let length = file.length().map_err(storage)?;
        if length > MANIFEST_BYTES_MAX {
            return Err(damaged("it is longer than any manifest"));
        }
        let mut bytes = vec![0; length as usize];
        let read = file.read_at(0, &mut bytes).map_err(storage)?;
        let own = said.and_then(|said| Self::decode(&bytes[..read], Some(said.identity)));
        let is_old = |old: &Self| said.is_none_or(|said| u64::from(old.generation) < said.unlabelled);
        let manifest = own.or_else(|| Self::decode(&bytes[..read], None).filter(is_old));
        manifest
            .filter(|manifest| manifest.epoch == epoch)
            .ok_or_else(|| damaged("it is no whole manifest of this database"))
    }

    /// Makes the checkpoint count; it is durable when this returns.
    pub(super) fn publish(&self, directory: &dyn Directory) -> io::Result<()> {
        let (name, unfinished) = (Role::Manifest(self.epoch).name(), Role::Unfinished(self.epoch).name());
        if directory.list()?.contains(&unfinished) {
            directory.remove(&unfinished)?;
        }
        let file = directory.open(&unfinished, Open::Create)?;
        file.write_at(0, &self.encode())?;
        file.sync()?;
        directory.rename(&unfinished, &name)?;
        directory.sync()
    }
}

fn head(epoch: u64, number: u32, of: Option<Identity>) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(&ROWS_MAGIC);
    head[8..16].copy_from_slice(&epoch.to_le_bytes());
    head[16..20].copy_from_slice(&number.to_le_bytes());
    let crc = Identity::sum(of, &head[..20]);
    head[20..].copy_from_slice(&crc.to_le_bytes());
    head
}

/// Rows that are being collected for a block.
#[derive(Default)]
pub(super) struct Block {
    bytes: Vec<u8>,
    rows: u32,
}

impl Block {
    pub(super) fn add(&mut self, tid: CommitTid, row: &Row<'_>) {
        if self.bytes.is_empty() {
            self.bytes.resize(BLOCK_HEAD_BYTES, 0);
        }
        self.bytes.extend(tid.stamp().as_u64().to_le_bytes());
        row.write(&mut self.bytes);
        self.rows += 1;
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= BLOCK_BYTES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// Writes a file of rows.
pub(super) struct RowsWriter {
    file: Arc<dyn File>,
    pub(super) info: RowsFile,
    pub(super) is_synced: bool,
    /// Buffer for compressed blocks, if blocks are compressed.
    packed: Option<Vec<u8>>,
}

/// Completes the head of a block, for which the block has room in front.
fn seal(block: &mut [u8], count: u32) {
    let length = (block.len() - BLOCK_HEAD_BYTES) as u32;
    block[..4].copy_from_slice(&length.to_le_bytes());
    block[8..12].copy_from_slice(&count.to_le_bytes());
    let crc = crc32c::crc32c(&block[8..]);
    block[4..8].copy_from_slice(&crc.to_le_bytes());
}

/// Compresses the rows of a block, with room for a head in front; returns whether that made them shorter.
fn pack(rows: &[u8], packed: &mut Vec<u8>) -> bool {
    const FRONT_BYTES: usize = BLOCK_HEAD_BYTES + 4;
    packed.resize(FRONT_BYTES + lz4_flex::block::get_maximum_output_size(rows.len()), 0);
    packed[BLOCK_HEAD_BYTES..FRONT_BYTES].copy_from_slice(&(rows.len() as u32).to_le_bytes());
    let length = lz4_flex::block::compress_into(rows, &mut packed[FRONT_BYTES..]).expect("there is room for the worst");
    packed.truncate(FRONT_BYTES + length);
    packed.len() < BLOCK_HEAD_BYTES + rows.len()
}

/// The rows of a compressed block; `None`: these bytes are not one.
fn unpack<'a>(packed: &[u8], rows: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    /// Maximum number of bytes that one compressed byte can expand to.
    const RATIO_MAX: usize = 255;
    let (length, packed) = packed.split_first_chunk()?;
    let length = u32::from_le_bytes(*length) as usize;
    if length > UNPACKED_BYTES_MAX || length > packed.len() * RATIO_MAX {
        return None;
    }
    rows.resize(length, 0);
    let unpacked = lz4_flex::block::decompress_into(packed, rows).ok()?;
    (unpacked == length).then_some(&rows[..])
}

impl RowsWriter {
    pub(super) fn create(
        places: &Places,
        device: usize,
        epoch: u64,
        number: u32,
        compresses: bool,
    ) -> io::Result<Self> {
        let file = places.devices[device].open(&Role::Rows(epoch, number).name(), Open::Create)?;
        file.write_at(0, &head(epoch, number, places.said.map(|said| said.identity)))?;
        let info = RowsFile { device, bytes: HEAD_BYTES as u64, rows: 0 };
        Ok(Self { file, info, is_synced: false, packed: compresses.then(Vec::new) })
    }

    /// Writes the block and empties it; returns its length.
    pub(super) fn write(&mut self, block: &mut Block) -> io::Result<u64> {
        let Block { bytes, rows } = block;
        let is_packed = self.packed.as_mut().is_some_and(|packed| pack(&bytes[BLOCK_HEAD_BYTES..], packed));
        let sealed = match &mut self.packed {
            Some(packed) if is_packed => packed,
            _ => &mut *bytes,
        };
        seal(sealed, if is_packed { *rows | COMPRESSED } else { *rows });
        self.file.write_at(self.info.bytes, sealed)?;
        let length = sealed.len() as u64;
        self.info.bytes += length;
        self.info.rows += u64::from(*rows);
        self.is_synced = false;
        bytes.clear();
        *rows = 0;
        Ok(length)
    }

    pub(super) fn sync(&mut self) -> io::Result<()> {
        if !self.is_synced {
            self.file.sync()?;
            self.is_synced = true;
        }
        Ok(())
    }
}

/// Passes every row of a file with its TID to `visit`; returns the number of blocks.
pub(super) fn read_rows(
    places: &Places,
    manifest: &Manifest,
    number: u32,
    mut visit: impl FnMut(CommitTid, &Row<'_>) -> Result<()>,
) -> Result<u64> {
    let name = Role::Rows(manifest.epoch, number).name();
    let damaged = |offset: u64, what: &str| Error::Corrupt { file: name.clone(), offset, what: what.into() };
    let of = manifest.files[number as usize];
    let directory = places.devices.get(of.device).ok_or_else(|| damaged(0, "its log directory was not named"))?;
    if !directory.list().map_err(storage)?.contains(&name) {
        return Err(damaged(0, "it is missing"));
    }
    let file = directory.open(&name, Open::Read).map_err(storage)?;
    if file.length().map_err(storage)? < of.bytes {
        return Err(damaged(0, "it is shorter than the manifest says"));
    }
    let mut first = [0; HEAD_BYTES];
    file.read_at(0, &mut first).map_err(storage)?;
    if first != head(manifest.epoch, number, manifest.identity) {
        return Err(damaged(0, "it has no head of this database"));
    }
    let (mut at, mut rows, mut blocks) = (HEAD_BYTES as u64, 0, 0);
    let (mut block, mut unpacked) = (Vec::new(), Vec::new());
    while at < of.bytes {
        let broken = || damaged(at, "there is no whole block of rows");
        let mut front = [0; BLOCK_HEAD_BYTES];
        file.read_at(at, &mut front).map_err(storage)?;
        let word = |from: usize| u32::from_le_bytes(front[from..from + 4].try_into().expect("four bytes"));
        let (length, crc, count) = (u64::from(word(0)), word(4), word(8));
        let end = at + BLOCK_HEAD_BYTES as u64 + length;
        if length == 0 || end > of.bytes {
            return Err(broken());
        }
        block.resize(length as usize, 0);
        let read = file.read_at(at + BLOCK_HEAD_BYTES as u64, &mut block).map_err(storage)?;
        if read != block.len() || crc32c::crc32c_append(crc32c::crc32c(&count.to_le_bytes()), &block) != crc {
            return Err(broken());
        }
        let is_compressed = count & COMPRESSED != 0;
        let mut input = if is_compressed { unpack(&block, &mut unpacked).ok_or_else(broken)? } else { &block[..] };
        let count = count & !COMPRESSED;
        for _ in 0..count {
            let (tid, rest) = input.split_first_chunk().ok_or_else(broken)?;
            input = rest;
            let row = Row::take(&mut input).ok_or_else(broken)?;
            visit(CommitTid::from_stamp(crate::ids::Stamp(u64::from_le_bytes(*tid))), &row)?;
        }
        rows += u64::from(count);
        blocks += 1;
        at = end;
    }
    if rows == of.rows { Ok(blocks) } else { Err(damaged(at, "it has not as many rows as the manifest says")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_rows_come_back_or_are_found_out() {
        let (mut packed, mut rows, mut random) = (Vec::new(), Vec::new(), fastrand::Rng::with_seed(7));
        for length in [1, 100, 5_000, 300_000] {
            let text: Vec<u8> = (0..length).map(|at| if at % 50 < 25 { random.u8(..) } else { 7 }).collect();
            let is_shorter = pack(&text, &mut packed);
            assert_eq!(is_shorter, length > 1, "{length}");
            let packed = &packed[BLOCK_HEAD_BYTES..];
            assert_eq!(unpack(packed, &mut rows), Some(&text[..]));
            // The checksum of a block is verified earlier; damaged bytes that pass it do no harm.
            for _ in 0..300 {
                let mut damaged = packed.to_vec();
                damaged[random.usize(..packed.len())] ^= 1 << random.u8(..8);
                unpack(&damaged, &mut rows);
                assert!(rows.len() <= UNPACKED_BYTES_MAX);
                assert_eq!(unpack(&packed[..random.usize(..packed.len())], &mut rows), None);
            }
        }
        // More rows than these few bytes can expand to.
        assert_eq!(unpack(&[255, 255, 255, 1, 0, 0], &mut Vec::new()), None);
        assert!(!pack(&(0..999).map(|_| random.u8(..)).collect::<Vec<_>>(), &mut packed), "noise stays as it is");
    }

    #[test]
    fn a_manifest_comes_back_or_is_found_out() {
        let files = vec![RowsFile { device: 1, bytes: 1 << 40, rows: 7 }];
        let (first, tables) = (vec![3, 1], vec!["accounts".into()]);
        let (micros, identity) = (1 << 50, Some(Identity::draw()));
        let manifest = Manifest { epoch: 300, last_epoch: 301, generation: 4, first, files, tables, micros, identity };
        let bytes = manifest.encode();
        assert_eq!(Manifest::decode(&bytes, identity), Some(manifest));
        // It belongs to this database and to no other.
        for of in [None, Some(Identity::draw())] {
            assert_eq!(Manifest::decode(&bytes, of), None);
        }
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1;
            assert_eq!(Manifest::decode(&flipped, identity), None, "a flip at {at}");
            assert_eq!(Manifest::decode(&bytes[..at], identity), None);
        }
    }
}

//! Reading blocks from files: sequentially, or one block by its address.

use std::io;

use super::{
    block::{BLOCK_BYTES_MAX, BlockKind, HEADER_BYTES, Header, Invalid, may_be_block},
    lsn::{GRANULE, Lsn},
    space::{PAGE_BYTES, Span},
};
use crate::platform::file::File;

/// Bytes read at a time.
const READ_BYTES: usize = 1 << 20;
const PAGE: usize = PAGE_BYTES as usize;

/// A file of blocks: the place of its first byte in the LSN space, and its maximum length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// The offset that the file's first byte would have.
    pub(crate) base: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// The segment number in the LSNs; 0 in the cold store.
    pub(crate) segment: u8,
}

impl From<Span> for Extent {
    fn from(span: Span) -> Self {
        Self { base: span.start - span.position(span.start), start: span.start, end: span.end, segment: span.number() }
    }
}

/// The result of reading at a place.
#[derive(Debug)]
pub(crate) enum Found<'a> {
    /// A whole and correct block, header first. Of a skip, only the header.
    Block(Header, &'a [u8]),
    /// The file ends here, as it should.
    End,
    /// No block.
    Invalid(Invalid),
}

/// Iterates over the blocks of a file.
pub(crate) struct Scan<'f> {
    file: &'f dyn File,
    extent: Extent,
    /// The offset of the next block.
    at: u64,
    /// The offset up to which the scan reads ahead.
    ahead: u64,
    buffer: Buffer,
}

/// Some of a file's pages in whole pages of memory, so that the device can write them there directly.
#[derive(Default)]
struct Buffer {
    memory: Vec<u8>,
    /// The start of the first whole page in `memory`.
    skip: usize,
    /// The position of the first page in the file, and the number of bytes in the buffer.
    position: u64,
    length: usize,
}

impl Buffer {
    /// Returns the buffered bytes from a position on.
    fn from(&self, position: u64) -> &[u8] {
        let from = position.checked_sub(self.position).map_or(self.length, |from| self.length.min(from as usize));
        &self.memory[self.skip + from..self.skip + self.length]
    }

    /// Makes sure that the buffer holds `bytes` from `position` on, and more up to `ahead`; fewer where the file ends.
    fn fill(&mut self, file: &dyn File, position: u64, bytes: usize, ahead: u64) -> io::Result<()> {
        let first = position - position % PAGE_BYTES;
        let kept = self.from(first).len();
        // The buffered part ends with a whole page, unless it ends with the file.
        let kept = kept - kept % PAGE;
        let needed = (position - first) as usize + bytes;
        let wanted = needed.max(ahead.saturating_sub(first).min(READ_BYTES as u64) as usize);
        let room = wanted.next_multiple_of(PAGE);
        let from = self.skip + (first.saturating_sub(self.position) as usize).min(self.length);
        if self.memory.len() < room + PAGE {
            let mut memory = vec![0; room + PAGE];
            let skip = memory.as_ptr().align_offset(PAGE).min(PAGE);
            memory[skip..skip + kept].copy_from_slice(&self.memory[from..from + kept]);
            (self.memory, self.skip) = (memory, skip);
        } else {
            self.memory.copy_within(from..from + kept, self.skip);
        }
        (self.position, self.length) = (first, kept);
        let into = &mut self.memory[self.skip + kept..self.skip + room.max(kept)];
        self.length += file.read_past_cache_at(first + kept as u64, into)?;
        Ok(())
    }
}

/// A scan without its file, to be continued later.
pub(crate) struct Paused {
    at: u64,
    buffer: Buffer,
}

impl Paused {
    /// Returns a scan that will continue from `at`.
    pub(crate) fn new(at: u64) -> Self {
        Self { at, buffer: Buffer::default() }
    }

    /// Continues the scan where it was paused.
    pub(crate) fn resume(self, file: &dyn File, extent: Extent) -> Scan<'_> {
        let Self { at, buffer } = self;
        Scan { file, extent, at, ahead: extent.end, buffer }
    }
}

impl<'f> Scan<'f> {
    /// Begins a scan at `from`.
    pub(crate) fn new(file: &'f dyn File, extent: Extent, from: u64) -> Self {
        Self { file, extent, at: from, ahead: extent.end, buffer: Buffer::default() }
    }

    /// Reads ahead no farther than `until`: beyond it, only bytes that blocks before it need are read.
    pub(crate) fn until(self, until: u64) -> Self {
        Self { ahead: until.min(self.extent.end), ..self }
    }

    /// Releases the file.
    pub(crate) fn pause(self) -> Paused {
        let Self { at, buffer, .. } = self;
        Paused { at, buffer }
    }

    /// Returns the offset where the next block is, or would be.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// Whether the rest of the extent is too short for a block.
    pub(crate) fn is_at_end(&self) -> bool {
        self.extent.end - self.at < HEADER_BYTES as u64
    }

    /// Returns the next block.
    pub(crate) fn next(&mut self) -> io::Result<Found<'_>> {
        if self.is_at_end() {
            return Ok(Found::End);
        }
        let header = match self.header()? {
            Ok(header) => header,
            Err(invalid) => return Ok(Found::Invalid(invalid)),
        };
        let bytes = if header.kind == BlockKind::Skip { header.payload_at() } else { header.size };
        if header.end() > self.extent.end || bytes > BLOCK_BYTES_MAX || !self.fetch(bytes as usize)? {
            return Ok(Found::Invalid(Invalid::Damaged));
        }
        let (at, end) = (self.at, header.end());
        let block = &self.buffer.from(at - self.extent.base)[..bytes as usize];
        if !header.verify(block) || header.kind != BlockKind::Skip && !header.verify_payload(block) {
            return Ok(Found::Invalid(Invalid::Damaged));
        }
        self.at = end;
        Ok(Found::Block(header, block))
    }

    fn header(&mut self) -> io::Result<Result<Header, Invalid>> {
        if !self.fetch(HEADER_BYTES)? {
            return Ok(Err(Invalid::Blank));
        }
        let bytes = self.there().first_chunk().expect("as many bytes as a header has");
        Ok(Header::read(bytes, Lsn::new(self.at, self.extent.segment)))
    }

    /// Returns the bytes in the buffer from the next block's beginning on.
    fn there(&self) -> &[u8] {
        let there = self.buffer.from(self.at - self.extent.base);
        &there[..there.len().min((self.extent.end - self.at) as usize)]
    }

    /// Makes sure that `bytes` from the next block's beginning on are in the buffer; false if the file ends before.
    fn fetch(&mut self, bytes: usize) -> io::Result<bool> {
        if self.there().len() >= bytes {
            return Ok(true);
        }
        let (position, ahead) = (self.at - self.extent.base, self.ahead - self.extent.base);
        if bytes > READ_BYTES && !has(self.file, position, bytes)? {
            return Ok(false);
        }
        self.buffer.fill(self.file, position, bytes, ahead)?;
        Ok(self.there().len() >= bytes)
    }

    /// Returns the header at this place and the bytes from it to the end of its descriptors, if both are correct,
    /// whatever the payloads are.
    pub(crate) fn head(&mut self) -> io::Result<Option<(Header, &[u8])>> {
        if self.extent.end - self.at >= HEADER_BYTES as u64
            && let Ok(header) = self.header()?
            && header.end() <= self.extent.end
            && header.payload_at() <= BLOCK_BYTES_MAX
            && self.fetch(header.payload_at() as usize)?
        {
            let bytes = &self.there()[..header.payload_at() as usize];
            return Ok(header.verify(bytes).then_some((header, bytes)));
        }
        Ok(None)
    }

    /// Continues at `at`, which lies behind this place.
    pub(crate) fn go_to(&mut self, at: u64) {
        debug_assert!(at >= self.at);
        self.at = at.min(self.extent.end);
    }

    /// Continues behind this place, at the next correct header; false if there is none, and the end is reached.
    pub(crate) fn seek(&mut self) -> io::Result<bool> {
        while self.step(self.extent.end)? {
            if self.head()?.is_some() {
                return Ok(true);
            }
        }
        self.at = self.extent.end;
        Ok(false)
    }

    /// Goes to a correct header at this place or behind it, before `until`. Checks only a limited number of wrong
    /// candidates, which occur only where values look like blocks; a header behind those is not found.
    pub(crate) fn try_seek(&mut self, until: u64) -> io::Result<bool> {
        const LOOKS: usize = 1000;
        for _ in 0..LOOKS {
            if self.head()?.is_some() {
                return Ok(true);
            }
            if !self.step(until)? {
                break;
            }
        }
        Ok(false)
    }

    /// Advances to the next granule that begins as a block does; false if there is none before `until`.
    fn step(&mut self, until: u64) -> io::Result<bool> {
        self.at = (self.at + GRANULE).min(self.extent.end);
        // Also ends where the file is shorter than its name says.
        while self.at < until && self.extent.end - self.at >= HEADER_BYTES as u64 && self.fetch(HEADER_BYTES)? {
            let rest = self.there();
            let mut granules = rest.chunks_exact(GRANULE as usize);
            if let Some(found) = granules.position(may_be_block) {
                self.at += found as u64 * GRANULE;
                let is_there = self.at < until && self.extent.end - self.at >= HEADER_BYTES as u64;
                return Ok(is_there && self.fetch(HEADER_BYTES)?);
            }
            self.at += rest.len() as u64 / GRANULE * GRANULE;
        }
        Ok(false)
    }

    /// Looks for headers of blocks from this place on, and whether one says that the log was durable beyond `beyond` when
    /// it was written.
    pub(crate) fn behind(mut self, beyond: u64) -> io::Result<Behind> {
        let mut behind = Behind::Nothing;
        loop {
            match self.head()? {
                Some((header, _)) if header.durable() > beyond => return Ok(Behind::Proof),
                Some(_) => behind = Behind::Blocks,
                None => {}
            }
            if !self.step(self.extent.end)? {
                return Ok(behind);
            }
        }
    }
}

/// The contents of a segment behind a place where a block is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Behind {
    Nothing,
    /// Blocks, each written before the log was durable beyond the missing one.
    Blocks,
    /// A block that proves that the missing one was durable.
    Proof,
}

/// Whether a file has `bytes` bytes behind a position: checked before memory is allocated for them.
fn has(file: &dyn File, position: u64, bytes: usize) -> io::Result<bool> {
    Ok(file.length()?.saturating_sub(position) >= bytes as u64)
}

/// Reads the block at `lsn`.
pub(crate) fn read_block(file: &dyn File, extent: Extent, lsn: Lsn) -> io::Result<Result<(Header, Vec<u8>), Invalid>> {
    read_block_of(file, extent, lsn, PAGE as u64)
}

/// Returns the part of a file, its position and length, to read for a block at an offset that is likely to be as long as
/// `expected`: up to the end of a page, since the device reads whole pages.
pub(crate) fn part_to_read(extent: Extent, offset: u64, expected: u64) -> (u64, u64) {
    let position = offset - extent.base;
    (position, (position + expected).next_multiple_of(PAGE_BYTES) - position)
}

/// Reads the block at `lsn`, in one request if it is not longer than `expected`.
pub(crate) fn read_block_of(
    file: &dyn File,
    extent: Extent,
    lsn: Lsn,
    expected: u64,
) -> io::Result<Result<(Header, Vec<u8>), Invalid>> {
    let (position, first) = part_to_read(extent, lsn.offset(), expected);
    let mut bytes = vec![0; first as usize];
    let read = file.read_at(position, &mut bytes)?;
    bytes.truncate(read);
    let Some(header) = bytes.first_chunk() else { return Ok(Err(Invalid::Blank)) };
    let header = match Header::read(header, lsn) {
        Ok(header) => header,
        Err(invalid) => return Ok(Err(invalid)),
    };
    let size = header.size as usize;
    if header.end() > extent.end || header.size > BLOCK_BYTES_MAX || size > READ_BYTES && !has(file, position, size)? {
        return Ok(Err(Invalid::Damaged));
    }
    if read < size {
        bytes.resize(size, 0);
        let rest = file.read_at(position + read as u64, &mut bytes[read..])?;
        bytes.truncate(read + rest);
    }
    bytes.truncate(size);
    if size < bytes.capacity() / 2 {
        bytes.shrink_to_fit();
    }
    let right = bytes.len() == size && header.verify(&bytes) && header.verify_payload(&bytes);
    Ok(if right { Ok((header, bytes)) } else { Err(Invalid::Damaged) })
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        log::block::{Body, Sealed},
        platform::file::{Directory, Open, faulty::FaultyDirectory},
    };

    const START: u64 = 4096 + 32;

    /// Builds a segment with blocks of these sizes, and a skip where one is negative.
    fn segment(sizes: &[i64], more: u64) -> (Arc<dyn File>, Span, Vec<Lsn>) {
        let file = FaultyDirectory::new().open("a", Open::Create).unwrap();
        let end = START + sizes.iter().map(|size| size.unsigned_abs()).sum::<u64>() + more;
        let span = Span { sequence: 5, start: START, end };
        let (mut at, mut places) = (START, Vec::new());
        for &size in sizes {
            let lsn = span.lsn(at);
            let payload = vec![size as u8; size.max(32) as usize - HEADER_BYTES];
            let body = Body::of(BlockKind::Commit, &[], &payload);
            // As if everything before were durable.
            let header = if size < 0 { Sealed::skip(size.unsigned_abs()) } else { body.seal() }.place(&[], lsn, at);
            file.write_at(span.position(at), &header).unwrap();
            if size > 0 {
                file.write_at(span.position(at) + HEADER_BYTES as u64, &payload).unwrap();
            }
            places.push(lsn);
            at += size.unsigned_abs();
        }
        (file, span, places)
    }

    /// Returns the places of the blocks that a scan finds, and why it stopped if it did not reach the end.
    fn scan(file: &dyn File, span: Span) -> (Vec<Lsn>, Option<Invalid>) {
        let (mut scan, mut places) = (Scan::new(file, span.into(), span.start), Vec::new());
        loop {
            match scan.next().unwrap() {
                Found::Block(header, _) => places.push(header.lsn),
                Found::End => return (places, None),
                Found::Invalid(invalid) => return (places, Some(invalid)),
            }
        }
    }

    #[test]
    fn blocks_are_found_across_reads_and_behind_long_skips() {
        let sizes = [64, (1 << 20) - 16, 32, -(3 << 20), 64, (2 << 20) + 48, -32, 48];
        for (more, end) in [(0, None), (16, None), (64, Some(Invalid::Blank))] {
            let (file, span, places) = segment(&sizes, more);
            assert_eq!(scan(&*file, span), (places.clone(), end));
            let block = read_block(&*file, span.into(), places[5]).unwrap().unwrap();
            assert_eq!((block.0.size, block.1.len()), ((2 << 20) + 48, (2 << 20) + 48));
            assert!(read_block(&*file, span.into(), Lsn::new(places[5].offset() + 16, 5)).unwrap().is_err());
        }
    }

    #[test]
    fn a_scan_ends_at_damage_which_later_blocks_prove() {
        let sizes = [64, 64, 64, 64];
        for (bit, reason) in
            [(0, Invalid::Blank), (40, Invalid::Damaged), (17, Invalid::Version(3)), (300, Invalid::Damaged)]
        {
            let (file, span, places) = segment(&sizes, 1 << 20);
            let position = span.position(places[1].offset()) + bit / 8;
            let mut byte = [0];
            file.read_at(position, &mut byte).unwrap();
            file.write_at(position, &[byte[0] ^ 1 << (bit % 8)]).unwrap();
            assert_eq!(scan(&*file, span), (places[..1].to_vec(), Some(reason)));
            let hole = places[1].offset();
            let from = |from| Scan::new(&*file, span.into(), from);
            assert_eq!(from(hole + GRANULE).behind(hole).unwrap(), Behind::Proof);
            assert_eq!(from(places[3].offset() + GRANULE).behind(hole).unwrap(), Behind::Nothing);
            assert_eq!(from(hole + GRANULE).behind(places[3].offset()).unwrap(), Behind::Blocks);
        }
    }

    #[test]
    fn a_header_asks_for_no_more_than_the_file_has() {
        let (file, span, places) = segment(&[64, 64], 200 << 20);
        // The header says that the block is long; its checksum is checked later.
        file.write_at(span.position(places[1].offset()) + 16, &((150 << 20) / 16u32).to_le_bytes()).unwrap();
        let mut scan = Scan::new(&*file, span.into(), places[1].offset());
        assert!(matches!(scan.next().unwrap(), Found::Invalid(Invalid::Damaged)));
        assert!(scan.buffer.memory.capacity() <= 2 * READ_BYTES);
        assert_eq!(read_block(&*file, span.into(), places[1]).unwrap().unwrap_err(), Invalid::Damaged);
    }
}

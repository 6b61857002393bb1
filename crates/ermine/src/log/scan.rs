//! Reading blocks from files: one behind the other, or one by its address.

use std::io;

use super::{
    block::{BLOCK_BYTES_MAX, BlockKind, HEADER_BYTES, Header, Invalid},
    lsn::{GRANULE, Lsn},
    space::Span,
};
use crate::platform::file::File;

/// Bytes read at a time.
const READ_BYTES: usize = 1 << 20;

/// A file of blocks: where its first byte lies in the space of LSNs, and how long it may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// The offset that its first byte would have.
    pub(crate) base: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// The segment in the LSNs; 0 in the cold store.
    pub(crate) segment: u8,
}

impl From<Span> for Extent {
    fn from(span: Span) -> Self {
        Self { base: span.start - span.position(span.start), start: span.start, end: span.end, segment: span.number() }
    }
}

/// What stands at a place.
#[derive(Debug)]
pub(crate) enum Found<'a> {
    /// A whole and right block, header first. Of a skip, the header alone.
    Block(Header, &'a [u8]),
    /// The file ends here as it should.
    End,
    /// No block.
    Invalid(Invalid),
}

/// Goes through the blocks of a file.
pub(crate) struct Scan<'f> {
    file: &'f dyn File,
    extent: Extent,
    /// The next block.
    at: u64,
    buffer: Vec<u8>,
    /// The offset of the buffer's first byte.
    buffered: u64,
}

/// A scan without its file, to go on with later.
pub(crate) struct Paused {
    at: u64,
    buffer: Vec<u8>,
    buffered: u64,
}

impl Paused {
    /// Goes on from `at`.
    pub(crate) fn new(at: u64) -> Self {
        Self { at, buffer: Vec::new(), buffered: at }
    }

    /// Goes on where it was.
    pub(crate) fn resume(self, file: &dyn File, extent: Extent) -> Scan<'_> {
        let Self { at, buffer, buffered } = self;
        Scan { file, extent, at, buffer, buffered }
    }
}

impl<'f> Scan<'f> {
    /// Begins at `from`.
    pub(crate) fn new(file: &'f dyn File, extent: Extent, from: u64) -> Self {
        Self { file, extent, at: from, buffer: Vec::new(), buffered: from }
    }

    /// Lets go of the file.
    pub(crate) fn pause(self) -> Paused {
        let Self { at, buffer, buffered, .. } = self;
        Paused { at, buffer, buffered }
    }

    /// Where the next block is, or would be.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// The next block.
    pub(crate) fn next(&mut self) -> io::Result<Found<'_>> {
        if self.extent.end - self.at < HEADER_BYTES as u64 {
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
        let from = (self.at - self.buffered) as usize;
        let block = &self.buffer[from..from + bytes as usize];
        if !header.verify(block) || header.kind != BlockKind::Skip && !header.verify_payload(block) {
            return Ok(Found::Invalid(Invalid::Damaged));
        }
        self.at = header.end();
        Ok(Found::Block(header, block))
    }

    fn header(&mut self) -> io::Result<Result<Header, Invalid>> {
        if !self.fetch(HEADER_BYTES)? {
            return Ok(Err(Invalid::Blank));
        }
        let from = (self.at - self.buffered) as usize;
        let bytes = self.buffer[from..from + HEADER_BYTES].try_into().expect("as many bytes as a header has");
        Ok(Header::read(bytes, Lsn::new(self.at, self.extent.segment)))
    }

    /// Has `bytes` from the next block's beginning in the buffer; false where the file ends before.
    fn fetch(&mut self, bytes: usize) -> io::Result<bool> {
        if self.at > self.buffered + self.buffer.len() as u64 {
            // Behind a long skip.
            self.buffer.clear();
            self.buffered = self.at;
        }
        let from = (self.at - self.buffered) as usize;
        if self.buffer.len() - from >= bytes {
            return Ok(true);
        }
        let left = self.extent.end - self.at;
        if bytes > READ_BYTES && !has(self.file, self.at - self.extent.base, bytes)? {
            return Ok(false);
        }
        self.buffer.drain(..from);
        self.buffered = self.at;
        let kept = self.buffer.len();
        let wanted = (bytes.max(READ_BYTES) as u64).min(left) as usize;
        self.buffer.resize(wanted.max(kept), 0);
        let read = self.file.read_at(self.at + kept as u64 - self.extent.base, &mut self.buffer[kept..])?;
        self.buffer.truncate(kept + read);
        Ok(self.buffer.len() >= bytes)
    }

    /// The header at this place and the bytes from it on to the end of its descriptors, if both are right, whatever the
    /// payloads are.
    pub(crate) fn head(&mut self) -> io::Result<Option<(Header, &[u8])>> {
        if self.extent.end - self.at >= HEADER_BYTES as u64
            && let Ok(header) = self.header()?
            && header.payload_at() <= BLOCK_BYTES_MAX
            && self.fetch(header.payload_at() as usize)?
        {
            let from = (self.at - self.buffered) as usize;
            let bytes = &self.buffer[from..from + header.payload_at() as usize];
            return Ok(header.verify(bytes).then_some((header, bytes)));
        }
        Ok(None)
    }

    /// Goes on at `at`, which lies behind this place.
    pub(crate) fn go_to(&mut self, at: u64) {
        debug_assert!(at >= self.at);
        self.at = at.min(self.extent.end);
    }

    /// Goes on behind this place, to where a right header stands; false if there is none, and the end is reached.
    pub(crate) fn seek(&mut self) -> io::Result<bool> {
        while self.step()? {
            if self.head()?.is_some() {
                return Ok(true);
            }
        }
        self.at = self.extent.end;
        Ok(false)
    }

    /// A granule on; false where there is no more.
    fn step(&mut self) -> io::Result<bool> {
        self.at = (self.at + GRANULE).min(self.extent.end);
        let has_header = self.extent.end - self.at >= HEADER_BYTES as u64;
        // Also where the file is shorter than its name says.
        Ok(has_header && self.fetch(HEADER_BYTES)?)
    }

    /// Whether a right header behind this place says that the log had been durable beyond `beyond` when it was written.
    pub(crate) fn proves_durable(mut self, beyond: u64) -> io::Result<bool> {
        loop {
            if self.head()?.is_some_and(|(header, _)| header.durable() > beyond) {
                return Ok(true);
            }
            if !self.step()? {
                return Ok(false);
            }
        }
    }
}

/// Whether a file has so many bytes behind a position: asked before memory is taken for them.
fn has(file: &dyn File, position: u64, bytes: usize) -> io::Result<bool> {
    Ok(file.length()?.saturating_sub(position) >= bytes as u64)
}

/// Reads the block at `lsn`, header first.
pub(crate) fn read_block(file: &dyn File, extent: Extent, lsn: Lsn) -> io::Result<Result<(Header, Vec<u8>), Invalid>> {
    let position = lsn.offset() - extent.base;
    let mut bytes = vec![0; 4096];
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
    let right = bytes.len() == size && header.verify(&bytes) && header.verify_payload(&bytes);
    Ok(if right { Ok((header, bytes)) } else { Err(Invalid::Damaged) })
}

//! The heads of a segment's blocks, their headers and descriptors, in a file of their own: what recovery needs of a
//! segment (ERMIA 3.7), without the payloads that lie between them.
//!
//! ```text
//!   heads-SEQUENCE-START-END   identity of the database, 16 bytes | head of the first block | head of the second | ..
//! ```
//!
//! The flusher collects the heads while it writes the segment, and writes them when the blocks are durable. The file
//! itself is not synced: each head has a checksum and the place and size of its block, so as many of them count as
//! follow each other from the beginning of the segment on. Recovery takes some megabytes of them at a time, if the
//! segment has the block of the last one. The rest of the segment is read itself.
//!
//! Invariants
//! 1. *Only of what is durable*: a head is written after its block has been synced. So heads end where the durable log
//!    ends, or before, and recovery cuts nothing off that has one.
//! 2. *Only of what does not change.* Those of a name are removed before a segment of that name is made, and with it;
//!    those of a segment that a standby continues are removed first, durably.
//! 3. *Nothing depends on it.* A file that is missing, torn or too large costs time, nothing else; an error while it is
//!    written ends it and not the log.

use std::{io, sync::Arc};

use super::{
    block::{BLOCK_BYTES_MAX, BlockKind, HEADER_BYTES, Header},
    identity::Identity,
    lsn::Lsn,
    segment::{self, name_of},
    space::Span,
};
use crate::platform::file::{Directory, File, Open};

const PREFIX: &str = "heads-";

/// A segment has such a file if its heads are at most this part of it: otherwise reading them saves little, and writing
/// them costs much. In builds for tests, whose rows are small, always.
const SHARE: u64 = if cfg!(debug_assertions) { 1 } else { 4 };
/// Bytes that are collected before they are written.
const WRITE_BYTES: usize = if cfg!(debug_assertions) { 4 << 10 } else { 256 << 10 };
/// Bytes that are read at a time, unless a single head is longer.
const READ_BYTES: usize = if cfg!(debug_assertions) { 16 << 10 } else { 8 << 20 };

/// Returns the name of the file with the heads of a segment.
pub(crate) fn heads_of(span: &Span) -> String {
    format!("{PREFIX}{}", name_of(span).trim_start_matches(segment::PREFIX))
}

/// Parses a file name; returns the segment if the file has the heads of one.
pub(crate) fn span_of_heads(name: &str) -> Option<Span> {
    segment::span_of(&format!("{}{}", segment::PREFIX, name.strip_prefix(PREFIX)?))
}

/// Removes the file of a segment's heads, if there is one; returns whether there was. Durable with the next sync of the
/// directory.
pub(crate) fn remove(directory: &dyn Directory, span: &Span) -> io::Result<bool> {
    match directory.remove(&heads_of(span)) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Collects the heads of a segment that is being written.
pub(super) struct Collector {
    span: Span,
    /// The offset of the next block.
    next: u64,
    /// What has not been written to the file.
    buffer: Vec<u8>,
    /// Bytes in the file.
    written: u64,
    file: Option<Arc<dyn File>>,
}

impl Collector {
    /// Begins with the first block of a segment.
    pub(super) fn new(span: Span, identity: Identity) -> Self {
        Self { span, next: span.start, buffer: identity.bytes().to_vec(), written: 0, file: None }
    }

    /// Adds the heads of the blocks that end at or before `to`. `copy` appends the bytes between two offsets. Returns
    /// false, for good, if these are no blocks.
    pub(super) fn add(&mut self, to: u64, mut copy: impl FnMut(u64, u64, &mut Vec<u8>)) -> bool {
        while self.next + HEADER_BYTES as u64 <= to {
            let at = self.buffer.len();
            copy(self.next, self.next + HEADER_BYTES as u64, &mut self.buffer);
            let header = self.buffer[at..].first_chunk().expect("as many bytes as a header has");
            let header = Header::read(header, self.span.lsn(self.next));
            let Some(header) = header.ok().filter(|header| header.end() <= to) else {
                debug_assert!(false, "what is written are whole blocks");
                return false;
            };
            copy(self.next + HEADER_BYTES as u64, self.next + header.payload_at(), &mut self.buffer);
            self.next = header.end();
        }
        true
    }

    /// Writes what has been collected, if it is much. Returns false, for good, if this segment is to have no file.
    pub(super) fn spill(&mut self, directory: &dyn Directory) -> bool {
        self.buffer.len() < WRITE_BYTES || self.write(directory)
    }

    /// Whether so many heads are worth a file.
    fn is_worth(&self) -> bool {
        (self.written + self.buffer.len() as u64) * SHARE <= self.next - self.span.start + Identity::BYTES as u64
    }

    fn write(&mut self, directory: &dyn Directory) -> bool {
        let written = self.is_worth() && self.try_write(directory).is_ok();
        if !written {
            self.abandon(directory);
        }
        written
    }

    fn try_write(&mut self, directory: &dyn Directory) -> io::Result<()> {
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(directory.open(&heads_of(&self.span), Open::Create)?),
        };
        file.write_at(self.written, &self.buffer)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Ends with the last block of the segment, or of the log.
    pub(super) fn finish(mut self, directory: &dyn Directory) {
        self.write(directory);
    }

    /// Ends without a file.
    fn abandon(&mut self, directory: &dyn Directory) {
        if self.file.take().is_some() {
            // A file that stays has correct heads of the first blocks.
            let _ = remove(directory, &self.span);
        }
    }
}

/// Reads the heads of a segment.
pub(crate) struct HeadsReader {
    pub(crate) file: Arc<dyn File>,
    span: Span,
    /// The position of the next head.
    position: u64,
    /// The offset of its block.
    next: u64,
}

impl HeadsReader {
    /// Begins to read the heads of a segment of this database; `None`: there is no such file.
    pub(crate) fn open(directory: &dyn Directory, span: &Span, of: Identity) -> Option<Self> {
        let file = directory.open(&heads_of(span), Open::Read).ok()?;
        let mut identity = [0; Identity::BYTES];
        let is_read = file.read_at(0, &mut identity).ok()? == identity.len();
        let position = identity.len() as u64;
        (is_read && identity == of.bytes()).then_some(Self { file, span: *span, position, next: span.start })
    }

    /// Returns the offset where the block of the next head begins.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Returns the next heads; `None`: no further ones count.
    pub(crate) fn run(&mut self) -> Option<Run> {
        let mut bytes = vec![0; READ_BYTES];
        let read = self.file.read_at(self.position, &mut bytes).ok()?;
        if read == bytes.len()
            && let Some(header) = self.header(&bytes, self.next)
            && header.payload_at() as usize > read
        {
            bytes.resize(header.payload_at().min(BLOCK_BYTES_MAX) as usize, 0);
            let more = self.file.read_at(self.position + read as u64, &mut bytes[read..]).ok()?;
            bytes.truncate(read + more);
        } else {
            bytes.truncate(read);
        }
        let (mut heads, mut at, mut next) = (Vec::new(), 0, self.next);
        while let Some(header) = self.header(&bytes[at..], next).filter(|header| header.verify(&bytes[at..])) {
            heads.push((header, at));
            at += header.payload_at() as usize;
            next = header.end();
        }
        let run = Run { position: self.position, bytes, heads };
        (self.position, self.next) = (self.position + at as u64, next);
        (at > 0).then_some(run)
    }

    /// Returns the header that bytes begin with, if it is the one of the block at `next`.
    fn header(&self, bytes: &[u8], next: u64) -> Option<Header> {
        let lsn = Some(next).filter(|next| *next < self.span.end).map(|next| self.span.lsn(next))?;
        let header = Header::read(bytes.first_chunk()?, lsn).ok()?;
        (header.size >= HEADER_BYTES as u64 && header.end() <= self.span.end).then_some(header)
    }
}

/// Heads of consecutive blocks.
pub(crate) struct Run {
    /// The position of the first.
    position: u64,
    bytes: Vec<u8>,
    heads: Vec<(Header, usize)>,
}

impl Run {
    /// The blocks in order, in so many parts: the header of each, and the bytes of header and descriptors.
    pub(crate) fn parts(&self, count: usize) -> impl Iterator<Item = impl Iterator<Item = (&Header, &[u8])>> {
        let part = self.heads.len().div_ceil(count).max(1);
        self.heads.chunks(part).map(|part| part.iter().map(|(header, at)| (header, self.head(header, *at))))
    }

    fn head(&self, header: &Header, at: usize) -> &[u8] {
        &self.bytes[at..at + header.payload_at() as usize]
    }

    /// Whether the segment has the last of these blocks: it has not lost its end, and is not an older copy.
    pub(crate) fn is_in(&self, file: &dyn File, span: &Span) -> io::Result<bool> {
        let Some((header, at)) = self.heads.last() else { return Ok(true) };
        let mut there = [0; HEADER_BYTES];
        let read = file.read_at(span.position(header.lsn.offset()), &mut there)?;
        Ok(there[..read] == self.bytes[*at..*at + HEADER_BYTES])
    }

    /// The blocks of a kind, and the position of the head of each.
    pub(crate) fn positions(&self, kind: BlockKind) -> impl Iterator<Item = (Lsn, u64)> {
        let of_kind = self.heads.iter().filter(move |(header, _)| header.kind == kind);
        of_kind.map(|(header, at)| (header.lsn, self.position + *at as u64))
    }
}

/// Reads the head of the block at `lsn`, at a position where a run had it.
pub(crate) fn read_head(file: &dyn File, position: u64, lsn: Lsn) -> io::Result<Option<(Header, Vec<u8>)>> {
    let mut bytes = vec![0; 4096];
    let read = file.read_at(position, &mut bytes)?;
    let header = bytes.first_chunk().and_then(|header| Header::read(header, lsn).ok());
    let Some(header) = header.filter(|header| header.payload_at() <= BLOCK_BYTES_MAX) else { return Ok(None) };
    let length = header.payload_at() as usize;
    bytes.resize(length, 0);
    if length > read {
        file.read_at(position + read as u64, &mut bytes[read..])?;
    }
    Ok(header.verify(&bytes).then_some((header, bytes)))
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::{
        log::block::{BlockKind, Body, Sealed},
        platform::file::faulty::FaultyDirectory,
    };

    /// A segment of blocks of random sizes as the log has it, from its start on, and the lengths of their heads.
    fn segment(random: &mut fastrand::Rng, bytes: u64) -> (Span, Vec<u8>, Vec<(u64, usize)>) {
        let start = 4096 * random.u64(1..100) + 16 * random.u64(..256);
        let span = Span { sequence: random.u64(..40), start, end: start + bytes };
        let (mut log, mut heads) = (Vec::new(), Vec::new());
        loop {
            let (at, left) = (start + log.len() as u64, bytes - log.len() as u64);
            if left < 32 {
                log.resize(bytes as usize, 0);
                return (span, log, heads);
            }
            let (descriptors, payload) = (vec![1; random.usize(..100)], vec![7; random.usize(..600)]);
            let kind = [BlockKind::Commit, BlockKind::Overflow, BlockKind::Clock][random.usize(..3)];
            let body = Body::of(kind, &descriptors, &payload);
            if body.size() > left {
                log.extend(Sealed::skip(left).place(&[], span.lsn(at), at));
                log.resize(bytes as usize, 0);
                heads.push((at, HEADER_BYTES));
                return (span, log, heads);
            }
            log.extend(body.seal().place(&descriptors, span.lsn(at), at));
            log.extend([&descriptors[..], &payload, body.padding()].concat());
            heads.push((at, HEADER_BYTES + descriptors.len()));
        }
    }

    /// Collects the heads of a segment in rounds that end with blocks, as far as `rounds` go.
    fn collect(directory: &FaultyDirectory, (span, log, heads): &(Span, Vec<u8>, Vec<(u64, usize)>), of: Identity) {
        let _ = remove(directory, span);
        let mut collector = Collector::new(*span, of);
        let ends = heads.iter().skip(1).map(|(at, _)| *at).step_by(7).chain([span.end]);
        for end in ends {
            assert!(collector.add(end, |from, to, into| {
                into.extend_from_slice(&log[(from - span.start) as usize..(to - span.start) as usize]);
            }));
            assert!(collector.spill(directory));
        }
        collector.finish(directory);
    }

    /// Returns the offsets of the blocks that have heads, and their lengths, and where the heads end.
    fn read(directory: &FaultyDirectory, span: &Span, of: Identity) -> Option<(Vec<(u64, usize)>, u64)> {
        let mut reader = HeadsReader::open(directory, span, of)?;
        let mut found = Vec::new();
        while let Some(run) = reader.run() {
            found.extend(run.parts(3).flatten().map(|(header, head)| {
                assert!(header.verify(head));
                (header.lsn.offset(), head.len())
            }));
            for (lsn, position) in run.positions(BlockKind::Overflow) {
                let (header, head) = read_head(&*reader.file, position, lsn).unwrap().unwrap();
                assert!(header.lsn == lsn && header.kind == BlockKind::Overflow && header.verify(&head));
            }
        }
        Some((found, reader.next()))
    }

    #[test]
    fn as_many_heads_come_back_as_count() {
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..100 {
            let bytes = 16 * random.u64(4..10_000);
            let (directory, identity) = (FaultyDirectory::new(), Identity::draw());
            let (span, log, heads) = segment(&mut random, bytes);
            collect(&directory, &(span, log.clone(), heads.clone()), identity);
            let name = heads_of(&span);
            assert_eq!((directory.list().unwrap(), span_of_heads(&name)), (vec![name.clone()], Some(span)));
            let (found, end) = read(&directory, &span, identity).unwrap();
            assert_eq!(found, heads);
            assert!(span.end - end < HEADER_BYTES as u64);
            // Of another database, of another segment, damaged, and cut.
            assert!(read(&directory, &span, Identity::draw()).is_none());
            let other = Span { sequence: span.sequence + 1, ..span };
            directory.rename(&name, &heads_of(&other)).unwrap();
            assert_eq!(read(&directory, &other, identity).unwrap(), (Vec::new(), span.start));
            directory.rename(&heads_of(&other), &name).unwrap();
            let length = directory.open(&name, Open::Read).unwrap().length().unwrap();
            directory.flip(&name, random.u64(..length), random.u8(..8)).unwrap();
            if let Some((found, end)) = read(&directory, &span, identity) {
                assert!(found.len() < heads.len() && heads.starts_with(&found));
                assert_eq!(end, heads[found.len()].0);
            }
            collect(&directory, &(span, log.clone(), heads.clone()), identity);
            directory.cut(&name, random.u64(..length)).unwrap();
            if let Some((found, _)) = read(&directory, &span, identity) {
                assert!(found.len() < heads.len() && heads.starts_with(&found));
            }
            assert!(remove(&directory, &span).unwrap() && !remove(&directory, &span).unwrap());
        }
    }
}

//! The segments of a log.

use std::{path::Path, sync::Arc};

use super::blocks::Blocks;
use crate::{
    durable::store::storage,
    error::{Error, Result},
    log::{
        lsn::GRANULE,
        scan::{Behind, Scan},
        segment::{name_of, span_of},
        space::Span,
    },
    platform::file::{Directory, Open, real::RealDirectory},
};

/// The log of a database, by the names of its files.
#[derive(Debug)]
pub struct Log {
    directory: Arc<dyn Directory>,
    segments: Vec<Segment>,
}

/// A segment of the log.
#[derive(Clone, Debug)]
pub struct Segment {
    /// The name of the segment's file.
    pub file: String,
    /// The segment's number, which only increases; in addresses it is stored modulo 16.
    pub sequence: u64,
    /// The log offset of the segment's first byte.
    pub start: u64,
    /// The log offset behind the segment's last byte.
    pub end: u64,
    /// The length of the file.
    pub length: u64,
    span: Span,
}

impl Segment {
    /// Returns whether the file ends before the segment does: it was truncated.
    pub fn is_cut(&self) -> bool {
        self.length < self.span.position(self.end)
    }

    /// Returns whether the segment continues where `earlier` ends: no segment is missing between them. There may be a
    /// gap in the offsets.
    pub fn follows(&self, earlier: &Self) -> bool {
        self.sequence == earlier.sequence + 1 && self.start >= earlier.end
    }
}

impl Log {
    /// Opens the log in the directory of a database.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_in(Arc::new(RealDirectory::open(path).map_err(storage)?))
    }

    /// Works as [`Log::open`] for any implementation of a directory.
    #[doc(hidden)]
    pub fn open_in(directory: Arc<dyn Directory>) -> Result<Self> {
        let mut segments = Vec::new();
        for name in directory.list().map_err(storage)? {
            let Some(span) = span_of(&name) else { continue };
            let length = directory.open(&name, Open::Read).and_then(|file| file.length()).map_err(storage)?;
            let Span { sequence, start, end } = span;
            segments.push(Segment { file: name, sequence, start, end, length, span });
        }
        segments.sort_unstable_by_key(|segment| (segment.sequence, segment.start, segment.end));
        Ok(Self { directory, segments })
    }

    /// Returns the segments, oldest first.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Returns the segment with that file name.
    pub fn segment(&self, file: &str) -> Result<&Segment> {
        let found = self.segments.iter().find(|segment| segment.file == file);
        found.ok_or_else(|| Error::Storage(format!("{} has no log segment {file}", self.directory.path())))
    }

    /// Returns an iterator over the blocks of a segment.
    pub fn blocks(&self, segment: &Segment) -> Result<Blocks> {
        let file = self.directory.open(&segment.file, Open::Read).map_err(storage)?;
        Ok(Blocks::new(file, segment.span.into()))
    }

    /// Returns whether a [`Hole`](super::Hole), or an invalid block, at this offset is damage, and not the end that a
    /// crash has left in the log: such an end lies in the last segment, behind every offset that a later block records
    /// as durable.
    pub fn is_damage(&self, offset: u64) -> Result<bool> {
        let Some((last, settled)) = self.segments.split_last() else { return Ok(false) };
        if settled.iter().any(|segment| offset < segment.end) {
            return Ok(true);
        }
        let file = self.directory.open(&last.file, Open::Read).map_err(storage)?;
        let from = last.start.max(offset / GRANULE * GRANULE);
        let behind = Scan::new(&*file, last.span.into(), from).behind(offset).map_err(storage)?;
        Ok(behind == Behind::Proof)
    }
}

impl PartialEq for Segment {
    fn eq(&self, other: &Self) -> bool {
        name_of(&self.span) == name_of(&other.span)
    }
}
impl Eq for Segment {}

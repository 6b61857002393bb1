//! The durable log of an open database, block by block, in the order of the log.
//!
//! Invariants
//! 1. *Only what is durable.* Reading ends at the durable end of the log: a reader is never ahead of the database as a
//!    crash would leave it.
//! 2. *Nothing is left out.* Blocks follow each other; segments follow by their numbers. A reader that is so far behind
//!    that files which it still has to read were removed (`durable::removal`) gets [`Error::LogRemoved`].

use std::{
    io::ErrorKind,
    ops::ControlFlow,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    durable::{
        blobs::{self, Owner},
        recovery::damage,
        store::{Store, storage},
    },
    error::{Error, Result},
    log::{
        Log,
        block::{BlockKind, HEADER_BYTES, Header},
        lsn::{GRANULE, Lsn},
        record::BlobRef,
        scan::{Found, Scan, read_block},
        segment::{SegmentFiles, name_of, span_of},
        space::Span,
    },
    platform::file::File,
};

/// How far a log is read.
#[derive(Clone, Copy)]
pub(super) enum Reach {
    /// As far as it is durable here.
    Durable,
    /// As far as commits are reported as durable: not beyond those that are held.
    Settled,
}

/// A reader of the log of an open database.
pub(super) struct DurableBlocks<'db> {
    log: &'db Log,
    reach: Reach,
    files: LogFiles<'db>,
    /// The end of what has been read.
    position: u64,
    /// Where reading goes on: behind the position, if a segment ends there.
    at: u64,
    /// The segment that was read last.
    last: Option<Span>,
    /// The number of the segment that comes next.
    next: u64,
}

/// Receives a block; tells whether it wants another one.
pub(super) type Each<'e> = dyn FnMut(&Header, &[u8]) -> Result<ControlFlow<()>> + 'e;

/// The files that a reader of the log reads.
#[derive(Clone, Copy)]
pub(super) struct LogFiles<'db>(pub(super) &'db SegmentFiles);

/// Blocks that were read, all of one segment.
pub(super) struct Stretch {
    pub(super) span: Span,
    /// The offset of the first block.
    pub(super) at: u64,
    /// The end of the last block.
    pub(super) to: u64,
}

impl Reach {
    /// Returns the end of what can be read now.
    fn end(self, log: &Log) -> u64 {
        match self {
            Self::Durable => log.durable(),
            Self::Settled => log.durable().min(log.held_from()),
        }
    }
}

impl<'db> DurableBlocks<'db> {
    /// Reads from `from` on, which is the end of a block that was read, or its beginning; or from the durable end of
    /// the log on.
    pub(super) fn new(log: &'db Log, store: &'db Store, from: Option<u64>, reach: Reach) -> Result<Self> {
        let position = from.unwrap_or_else(|| reach.end(log));
        if position > log.durable() {
            return Err(Error::Options(format!(
                "the log ends at {}, and cannot be read from {position} on: that is another database's position",
                log.durable()
            )));
        }
        let files = LogFiles(store.segment_files());
        let mut blocks = Self { log, reach, files, position, at: position, last: None, next: 0 };
        let segments = files.spans()?;
        // The segment with the position or, if the position is between two, the one behind it. One that begins there
        // may be the first that is left.
        let (before, behind) = segments.split_at(segments.partition_point(|span| span.end <= position));
        if let (None, Some(last)) = (from, before.last())
            && behind.first().is_none_or(|span| span.start >= position)
        {
            // Between two segments: after a crash, the next one may begin at the end of this one.
            (blocks.position, blocks.at) = (last.end, last.end);
        }
        // The next segment may begin at the durable end, and the last one end before it.
        let position = blocks.position;
        blocks.next = match (before.last(), behind.first()) {
            (_, Some(span)) if span.start <= position => {
                blocks.check_boundary(span)?;
                span.sequence
            }
            (Some(before), Some(span)) if before.sequence + 1 == span.sequence => span.sequence,
            (None, Some(span)) if span.sequence == 0 => 0,
            (Some(before), None) => before.sequence + 1,
            (None, None) => match log.segments().last() {
                Some(newest) if newest.sequence == 0 || position >= newest.start => newest.sequence,
                _ => return Err(Error::LogRemoved { position }),
            },
            _ => return Err(Error::LogRemoved { position }),
        };
        Ok(blocks)
    }

    /// Fails if the position, which lies in `span`, is inside of a block.
    fn check_boundary(&self, span: &Span) -> Result<()> {
        let position = self.position;
        if position == self.log.durable() || span.end - position < HEADER_BYTES as u64 {
            return Ok(());
        }
        let is_boundary = position.is_multiple_of(GRANULE) && {
            let file = self.files.open(span, position)?;
            let mut scan = Scan::new(&*file, (*span).into(), position).until(position + 1);
            scan.head().map_err(storage)?.is_some()
        };
        if is_boundary {
            return Ok(());
        }
        Err(Error::Options(format!(
            "the log cannot be read from {position} on, where nothing in it begins: use a position that a reader of \
             this database returned, or the stamp of a commit"
        )))
    }

    /// Returns the log that is read.
    pub(super) fn log(&self) -> &'db Log {
        self.log
    }

    /// Returns the files that are read.
    pub(super) fn files(&self) -> LogFiles<'db> {
        self.files
    }

    /// Returns the end of what has been read.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Waits until there is more to read, at most for `timeout`; returns whether there is.
    pub(super) fn wait(&self, timeout: Duration) -> Result<bool> {
        let until = Instant::now().checked_add(timeout);
        let _reader = self.log.readers.enter();
        loop {
            if self.reach.end(self.log) > self.at {
                return Ok(true);
            }
            self.log.check()?;
            match until.map(|until| until.saturating_duration_since(Instant::now())) {
                None => std::thread::park(),
                Some(Duration::ZERO) => return Ok(false),
                Some(left) => std::thread::park_timeout(left),
            }
        }
    }

    /// Shows the next blocks to `each`, until that breaks off behind one or the segment has no more; of a skip, only
    /// the header. `None`: everything that is durable has been read. After an error, which `each` can cause as well,
    /// reading goes on where it was.
    pub(super) fn read(&mut self, each: &mut Each<'_>) -> Result<Option<Stretch>> {
        let durable = self.reach.end(self.log);
        while self.at < durable {
            let Some(span) = self.span(durable)? else {
                // No block lies between two segments, and the next one has none yet.
                self.check_unborn(durable)?;
                self.at = durable;
                break;
            };
            (self.last, self.next) = (Some(span), span.sequence + 1);
            let at = self.at.max(span.start);
            let to = self.files.read_segment(&span, at, durable.min(span.end), each)?;
            if to > at {
                (self.position, self.at) = (to, to);
                return Ok(Some(Stretch { span, at, to }));
            }
            self.at = span.end;
        }
        Ok(None)
    }

    /// Returns the segment that has the next block: the last one, if that has not ended, or its successor; `None`: that
    /// has no block yet.
    fn span(&self, durable: u64) -> Result<Option<Span>> {
        if let Some(last) = self.last
            && self.at < last.end
        {
            return Ok(Some(last));
        }
        let segments = self.files.spans()?;
        match segments.iter().find(|span| span.sequence >= self.next) {
            Some(span) if span.sequence > self.next => Err(Error::LogRemoved { position: self.position }),
            next => Ok(next.filter(|span| span.start < durable).copied()),
        }
    }

    /// Fails if the next segment has blocks that are durable: its file was removed.
    fn check_unborn(&self, durable: u64) -> Result<()> {
        let live = self.log.segments();
        let is_unborn = match live.iter().find(|span| span.sequence >= self.next) {
            Some(span) => span.sequence == self.next && span.start >= durable,
            None => true,
        };
        if is_unborn { Ok(()) } else { Err(Error::LogRemoved { position: self.position }) }
    }
}

impl LogFiles<'_> {
    /// Returns the segments that have files, oldest first: also those that are kept for readers.
    pub(super) fn spans(&self) -> Result<Vec<Span>> {
        let names = self.0.directory().list().map_err(storage)?;
        let mut segments: Vec<_> = names.iter().filter_map(|name| span_of(name)).collect();
        segments.sort_unstable_by_key(|span| span.sequence);
        Ok(segments)
    }

    /// Shows the blocks of a segment from `at` on; returns the end of the last one. Fails only at the first: the blocks
    /// in front of one that cannot be read have been shown.
    pub(super) fn read_segment(&self, span: &Span, at: u64, until: u64, each: &mut Each<'_>) -> Result<u64> {
        let file = self.open(span, at)?;
        let mut scan = Scan::new(&*file, (*span).into(), at).until(until);
        let mut to = at;
        while to < until {
            let shown = match scan.next().map_err(storage) {
                Ok(Found::Block(header, block)) => each(&header, block).map(|goes_on| (goes_on, header.end())),
                // The rest is shorter than a header.
                Ok(Found::End) => break,
                Ok(Found::Invalid(invalid)) => Err(damage(span, to, invalid)),
                Err(error) => Err(error),
            };
            match shown {
                Ok((goes_on, end)) => {
                    to = end;
                    if goes_on.is_break() {
                        break;
                    }
                }
                Err(error) if to == at => return Err(error),
                Err(_) => break,
            }
        }
        Ok(to)
    }

    /// Returns the file of a segment that has to be read from `position` on.
    fn open(&self, span: &Span, position: u64) -> Result<Arc<dyn File>> {
        match self.0.get(span) {
            Err(error) if error.kind() == ErrorKind::NotFound => Err(Error::LogRemoved { position }),
            file => file.map_err(storage),
        }
    }

    /// Reads an overflow block, which a later block of its transaction names.
    pub(super) fn overflow(&self, lsn: Lsn, later: &Header) -> Result<(Header, Vec<u8>)> {
        let position = lsn.offset();
        if lsn >= later.lsn {
            return Err(self.damaged(later.lsn, "it names an overflow block that is not in front of it"));
        }
        let segments = self.spans()?;
        let span = segments.iter().find(|span| (span.start..span.end).contains(&position));
        let span = span.ok_or(Error::LogRemoved { position })?;
        let block = read_block(&*self.open(span, position)?, (*span).into(), lsn).map_err(storage)?;
        let block = block.ok().filter(|(header, _)| header.kind == BlockKind::Overflow);
        block.ok_or_else(|| self.damaged(lsn, "the overflow block of a committed transaction is not there"))
    }

    /// Reads the large value of a row that a block refers to.
    pub(super) fn large_value(&self, header: &Header, owner: Owner, reference: &[u8]) -> Result<(u64, Vec<u8>)> {
        let of = BlobRef::from_bytes(reference)
            .ok_or_else(|| self.damaged(header.lsn, "a reference to a large value is damaged"))?;
        match blobs::read(&**self.0.directory(), owner, of) {
            Ok(Some(bytes)) => Ok((of.blob, bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Err(Error::LogRemoved { position: header.lsn.offset() })
            }
            Err(error) => Err(storage(error)),
            Ok(None) => Err(Error::Corrupt {
                file: blobs::name_of(of.blob, owner),
                offset: 0,
                what: "it does not hold the large value that was written".into(),
            }),
        }
    }

    /// Returns the error that the block at `lsn` is damaged.
    pub(super) fn damaged(&self, lsn: Lsn, what: &str) -> Error {
        let at = lsn.offset();
        let segments = self.spans().unwrap_or_default();
        let span = segments.iter().find(|span| (span.start..span.end).contains(&at));
        let (file, offset) = span.map_or_else(Default::default, |span| (name_of(span), span.position(at)));
        Error::Corrupt { file, offset, what: what.into() }
    }
}

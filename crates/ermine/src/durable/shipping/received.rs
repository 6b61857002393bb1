//! The committed transactions in the files of a standby, in the order of their commits, and the safe snapshots between
//! them.
//!
//! Invariant: everything below the reader's position was shown to `each`, which succeeded; a block for which it failed is
//! shown again.

use std::{ops::ControlFlow, sync::Arc, time::SystemTime};

use super::{blocks::LogFiles, changes::Rows, receiver::LogReceiver};
use crate::{
    error::Result,
    log::{
        block::{BlockKind, Header},
        moment::Moment,
        segment::SegmentFiles,
        space::Span,
    },
};

/// A position in the log of a standby, whose receiver may run in another thread.
#[derive(Clone)]
pub(crate) struct ReceivedLog {
    files: Arc<SegmentFiles>,
    at: u64,
    /// The segment that was read last.
    last: Option<Span>,
}

/// What the log of the original says.
pub(crate) enum Received {
    /// A transaction has committed.
    Committed(Rows),
    /// What was committed up to this position is a safe snapshot, at this time.
    SafeSnapshot(u64, SystemTime),
    /// The log came to this time.
    Moment(SystemTime),
}

impl ReceivedLog {
    /// Reads from `at` on, where a block ends or begins.
    pub(crate) fn new(files: Arc<SegmentFiles>, at: u64) -> Self {
        Self { files, at, last: None }
    }

    /// Returns the end of what has been read.
    pub(crate) fn position(&self) -> u64 {
        self.at
    }

    /// Goes on behind what another reader of this log has shown.
    pub(crate) fn pass(&mut self, to: u64) {
        self.at = to;
    }

    /// Shows everything up to `end`, a position of the receiver, with the position behind each; or less, when `each`
    /// wants no more.
    pub(crate) fn read(
        &mut self,
        end: u64,
        each: &mut dyn FnMut(u64, Received) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let segments = self.files.clone();
        let files = LogFiles(&segments);
        while self.at < end {
            let Some(span) = self.span(files)? else {
                // No block lies between two segments.
                self.at = end;
                break;
            };
            self.last = Some(span);
            let at = self.at.max(span.start);
            let mut stopped = None;
            let to = files.read_segment(&span, at, end.min(span.end), &mut |header, block| {
                let mut show = || {
                    let received = match header.kind {
                        BlockKind::Commit => Some(Received::Committed(Rows::of_transaction(files, header, block)?)),
                        _ => Received::moment(header, block),
                    };
                    received.map_or(Ok(ControlFlow::Continue(())), |received| each(header.end(), received))
                };
                let goes_on = show();
                stopped = match &goes_on {
                    Ok(ControlFlow::Continue(())) => return goes_on,
                    Ok(ControlFlow::Break(())) => Some((header.end(), Ok(()))),
                    Err(_) => Some((header.lsn.offset(), goes_on.map(drop))),
                };
                Ok(ControlFlow::Break(()))
            })?;
            if let Some((at, stopped)) = stopped {
                self.at = at;
                return stopped;
            }
            // Of a segment without another block, the rest is shorter than a header.
            self.at = if to > at { to } else { span.end };
        }
        Ok(())
    }

    /// Returns the time of a safe snapshot with which what was received ends: nothing has been committed behind it.
    pub(crate) fn safe_end(receiver: &LogReceiver) -> Option<SystemTime> {
        let (files, end, mut safe) = (LogFiles(receiver.files()), receiver.position(), None);
        let span = files.spans().ok()?.into_iter().rfind(|span| span.start < end)?;
        let read = files.read_segment(&span, span.start, end.min(span.end), &mut |header, block| {
            safe = match Received::moment(header, block) {
                Some(Received::SafeSnapshot(_, time)) => Some(time),
                _ => safe.filter(|_| header.kind != BlockKind::Commit),
            };
            Ok(ControlFlow::Continue(()))
        });
        // A segment of a backup may begin in its middle: then nothing is known before the next one.
        safe.filter(|_| read.is_ok_and(|to| to >= end.min(span.end)))
    }

    /// Returns the segment that has the next block.
    fn span(&self, files: LogFiles<'_>) -> Result<Option<Span>> {
        if let Some(last) = self.last
            && self.at < last.end
        {
            return Ok(Some(last));
        }
        Ok(files.spans()?.into_iter().find(|span| span.end > self.at))
    }
}

impl Received {
    /// Bytes of keys and values, which are in memory.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Committed(rows) => rows.bytes(),
            Self::SafeSnapshot(..) | Self::Moment(_) => 0,
        }
    }

    /// Returns what a block says of the time.
    fn moment(header: &Header, block: &[u8]) -> Option<Self> {
        let moment = Moment::read(header, block)?;
        let time = moment.time()?;
        Some(if moment.is_safe() { Self::SafeSnapshot(header.end(), time) } else { Self::Moment(time) })
    }
}

//! The committed transactions in the files of a standby, in the order of their commits, and the safe snapshots between
//! them.
//!
//! Invariant: everything below the reader's position was shown to `each`, which succeeded; a transaction for which it
//! failed is shown again.

use std::{ops::ControlFlow, sync::Arc, time::SystemTime};

use super::{
    blocks::LogFiles,
    changes::{CommittedTransaction, Rows},
    receiver::LogReceiver,
};
use crate::{
    catalog::{CatalogRow, TableEntry},
    error::Result,
    ids::{Stamp, TableId},
    log::{
        block::{BlockKind, Header},
        moment::Moment,
        segment::SegmentFiles,
        space::Span,
    },
};

/// A position in the log of a standby, whose receiver may run in another thread.
pub(crate) struct ReceivedLog {
    files: Arc<SegmentFiles>,
    at: u64,
    /// The segment that was read last.
    last: Option<Span>,
}

/// What the log of the original says.
pub(crate) enum Received {
    /// A transaction has committed; with the descriptions of tables that it wrote.
    Committed(CommittedTransaction, Vec<TableEntry>),
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

    /// Shows everything up to `end`, a position of the receiver. `name_of` returns the name that a table has now.
    pub(crate) fn read(
        &mut self,
        end: u64,
        name_of: impl Fn(TableId) -> Option<Arc<str>>,
        each: &mut dyn FnMut(Received) -> Result<()>,
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
            let mut failure = None;
            let to = files.read_segment(&span, at, end.min(span.end), &mut |header, block| {
                let mut show = || match header.kind {
                    BlockKind::Commit => {
                        let rows = Rows::of_transaction(files, header, block)?;
                        each(Received::transaction(header.lsn.stamp(), rows, &name_of)?)
                    }
                    _ => Received::moment(header, block).map_or(Ok(()), &mut *each),
                };
                if let Err(error) = show() {
                    failure = Some((header.lsn.offset(), error));
                    return Ok(ControlFlow::Break(()));
                }
                Ok(ControlFlow::Continue(()))
            })?;
            if let Some((at, error)) = failure {
                self.at = at;
                return Err(error);
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
    /// Returns what a block says of the time.
    fn moment(header: &Header, block: &[u8]) -> Option<Self> {
        let moment = Moment::read(header, block)?;
        let time = moment.time()?;
        Some(if moment.is_safe() { Self::SafeSnapshot(header.end(), time) } else { Self::Moment(time) })
    }

    fn transaction(stamp: Stamp, rows: Rows<'_>, name_of: impl Fn(TableId) -> Option<Arc<str>>) -> Result<Self> {
        let mut tables = Vec::new();
        for row in rows.catalog.present() {
            if let CatalogRow::Table(entry) = CatalogRow::decode(row)? {
                tables.push(entry);
            }
        }
        Ok(Self::Committed(CommittedTransaction { stamp, changes: rows.changes(name_of) }, tables))
    }
}

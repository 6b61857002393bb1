//! COPY FROM STDIN: the client's messages after a statement has asked for data.
//!
//! Until the copy ends, only its pieces are handled; `Sync` and `Flush` are passed over, because clients send them
//! before they know that it is a copy. Pieces that arrive after the copy has failed are dropped.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use ermine_sql::{Parent, Result, SqlError, SqlState};

use super::{Connection, aside::LONG, logged::Ended, rows::Sink};
use crate::{
    backend::{Backend, Session},
    codec,
    protocol::{Formats, frontend::Message},
};

/// A copy from the client in progress.
pub struct Copying<S: Session> {
    /// When its statement began, and how long the session has worked on it since.
    began: Instant,
    worked: Duration,
    parent: Option<Parent>,
    /// The statement, if a portal began it; otherwise a simple query.
    prepared: Option<Arc<S::Statement>>,
    /// Whether a piece took long the last time.
    was_long: bool,
}

impl<S: Session> Copying<S> {
    /// Begins a copy whose statement has asked for data.
    pub fn begin(began: Instant, parent: Option<Parent>, prepared: Option<Arc<S::Statement>>) -> Self {
        Self { began, worked: began.elapsed(), parent, prepared, was_long: false }
    }
}

impl<B: Backend> Connection<'_, B> {
    /// Handles a message during a copy.
    pub(super) fn copied(&mut self, message: &Message<'_>) {
        let Some(mut copying) = self.copying.take() else { return };
        let began = Instant::now();
        let done = match message {
            Message::Sync | Message::Flush => Ok(true),
            Message::CopyData(piece) => self.copied_piece(&mut copying, began, piece).map(|()| true),
            Message::CopyDone => self.copied_all(&copying, began),
            Message::CopyFail(reason) => Err(self.session.copy_fail(codec::utf8(reason).unwrap_or_default())),
            _ => {
                let what = "unexpected message during COPY from stdin";
                Err(self.session.copy_abort(SqlError::new(SqlState::PROTOCOL_VIOLATION, what)))
            }
        };
        copying.worked += began.elapsed();
        match done {
            // Also if another one of the same text has begun.
            Ok(_) if self.session.is_copying() => self.copying = Some(copying),
            Ok(is_durable) => {
                let is_simple = copying.prepared.is_none();
                self.copy_ended(copying, None, is_durable);
                if is_simple {
                    self.ready();
                }
            }
            Err(error) => self.copy_failed(copying, &error),
        }
    }

    /// Aborts the copy because there is no memory for a piece.
    pub(super) fn copy_refused(&mut self, error: SqlError) {
        let Some(copying) = self.copying.take() else { return };
        let error = self.session.copy_abort(error);
        self.copy_failed(copying, &error);
    }

    fn copy_failed(&mut self, copying: Copying<B::Session>, error: &SqlError) {
        let is_simple = copying.prepared.is_none();
        self.copy_ended(copying, Some(error), true);
        self.output.release(error);
        self.report(error);
        if is_simple { self.ready() } else { self.is_skipping = true }
    }

    fn copy_ended(&mut self, copying: Copying<B::Session>, failure: Option<&SqlError>, is_durable: bool) {
        let Copying { began, worked, parent, prepared, .. } = copying;
        let took = began.elapsed();
        self.ended(Ended { began, took, client: took.saturating_sub(worked), failure, parent }, is_durable, prepared);
    }

    fn copied_piece(&mut self, copying: &mut Copying<B::Session>, began: Instant, piece: &[u8]) -> Result<()> {
        let is_long = copying.was_long || self.shared.backend.waits();
        let done = self.shared.watch.run(is_long, began, || self.session.copy_write(piece));
        copying.was_long = began.elapsed() > LONG;
        done
    }

    /// Ends the copy; returns whether all that its statement has committed is durable.
    fn copied_all(&mut self, copying: &Copying<B::Session>, began: Instant) -> Result<bool> {
        let from = self.output.bytes().len();
        let formats = Formats::default();
        let mut sink = match copying.prepared {
            None => Sink::simple(&mut self.output, &mut self.environment, &mut self.scratch),
            Some(_) => Sink::portal(&mut self.output, &mut self.environment, &formats, &mut self.scratch),
        };
        // Its commit, and the statements behind it in its text.
        let done = self.shared.watch.run(true, began, || self.session.copy_finish(&mut sink));
        self.has_set |= sink.has_set;
        done.map(|completion| {
            let is_durable = completion.receipt.is_none();
            self.output.completed(from, completion);
            is_durable
        })
    }
}

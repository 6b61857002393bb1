//! COPY FROM STDIN: the client's messages after a statement has asked for data.
//!
//! Until the copy ends, only its pieces are handled; `Sync` and `Flush` are passed over, because clients send them
//! before they know that it is a copy. Pieces that arrive after the copy has failed are dropped.

use std::time::Instant;

use ermine_sql::{Result, SqlError, SqlState};

use super::{Connection, aside::LONG, rows::Sink};
use crate::{
    backend::{Backend, Session},
    codec,
    protocol::{Formats, frontend::Message},
};

/// A copy from the client in progress.
pub struct Copying {
    /// Whether a simple query began it; otherwise a portal.
    is_simple: bool,
    /// Whether a piece took long the last time.
    was_long: bool,
}

impl<B: Backend> Connection<'_, B> {
    pub(super) fn begin_copying(&mut self, is_simple: bool) {
        self.copying = Some(Copying { is_simple, was_long: false });
    }

    /// Handles a message during a copy.
    pub(super) fn copied(&mut self, message: &Message<'_>) {
        let Some(copying) = self.copying.take() else { return };
        let is_simple = copying.is_simple;
        let done = match message {
            Message::Sync | Message::Flush => {
                self.copying = Some(copying);
                return;
            }
            Message::CopyData(piece) => self.copied_piece(copying, piece),
            Message::CopyDone => self.copied_all(&copying),
            Message::CopyFail(reason) => Err(self.session.copy_fail(codec::utf8(reason).unwrap_or_default())),
            _ => {
                let what = "unexpected message during COPY from stdin";
                Err(self.session.copy_abort(SqlError::new(SqlState::PROTOCOL_VIOLATION, what)))
            }
        };
        match done {
            Ok(()) if self.copying.is_some() => {}
            Ok(()) if is_simple => self.ready_or_copying(),
            Ok(()) => {}
            Err(error) => self.copy_failed(is_simple, &error),
        }
    }

    /// Aborts the copy because there is no memory for a piece.
    pub(super) fn copy_refused(&mut self, error: SqlError) {
        let Some(copying) = self.copying.take() else { return };
        let error = self.session.copy_abort(error);
        self.copy_failed(copying.is_simple, &error);
    }

    fn copy_failed(&mut self, is_simple: bool, error: &SqlError) {
        self.output.release();
        self.report(error);
        if is_simple { self.ready() } else { self.is_skipping = true }
    }

    fn copied_piece(&mut self, mut copying: Copying, piece: &[u8]) -> Result<()> {
        let began = Instant::now();
        let is_long = copying.was_long || self.shared.backend.waits();
        let done = self.shared.watch.run(is_long, began, || self.session.copy_write(piece));
        copying.was_long = began.elapsed() > LONG;
        done.map(|()| self.copying = Some(copying))
    }

    fn copied_all(&mut self, copying: &Copying) -> Result<()> {
        let (began, from) = (Instant::now(), self.output.bytes().len());
        let formats = Formats::default();
        let mut sink = if copying.is_simple {
            Sink::simple(&mut self.output, &mut self.environment, &mut self.scratch)
        } else {
            Sink::portal(&mut self.output, &mut self.environment, &formats, &mut self.scratch)
        };
        // Its commit, and the statements behind it in its text.
        let done = self.shared.watch.run(true, began, || self.session.copy_finish(&mut sink));
        self.has_set |= sink.has_set;
        done.map(|completion| self.output.completed(from, completion))
    }
}

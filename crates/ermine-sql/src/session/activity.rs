//! State of a session as other sessions see it: the statement it runs, and whether it waits for its client.

use std::sync::Arc;

use super::{Session, Status, now};
use crate::{catalog::sessions::Activity, password_in};

impl Session {
    /// Assigns the session to the connection numbered `process`; `end` ends that connection and may be called from any
    /// thread.
    pub fn connect(&mut self, process: i32, client: Option<String>, end: Box<dyn Fn() + Send + Sync>) {
        self.environment.process = process;
        self.registered.presence.connect(process, client, end);
    }

    /// Records that statements begin to run: those of one message.
    #[inline]
    pub(super) fn begins(&mut self, text: impl FnOnce() -> Arc<str>) {
        let began = now();
        self.environment.statement_began = began;
        self.registered.presence.change(|doing| {
            (doing.state, doing.since) = (Activity::Active, began);
            (doing.query, doing.query_began) = (text(), Some(began));
            doing.transaction_began.get_or_insert(began);
        });
    }

    /// Records that the session is idle until its client sends something.
    #[inline]
    pub(super) fn rests(&self) {
        self.environment.memory.end();
        let state = match self.status() {
            Status::Idle => Activity::Idle,
            Status::Open if self.is_copying() => Activity::Active,
            Status::Open => Activity::IdleInTransaction,
            Status::Failed => Activity::IdleInFailed,
        };
        self.registered.presence.change(|doing| {
            (doing.state, doing.since) = (state, now());
            if state == Activity::Idle {
                doing.transaction_began = None;
            }
        });
    }
}

/// Returns the prefix of a text that other sessions are shown.
pub(super) fn shown(text: &str) -> Arc<str> {
    const SHOWN: usize = 1024;
    let end = (0..=SHOWN.min(text.len())).rev().find(|&at| text.is_char_boundary(at));
    let text = &text[..end.unwrap_or(0)];
    match password_in(text) {
        Some(at) => format!("{} ...", &text[..at]).into(),
        None => text.into(),
    }
}

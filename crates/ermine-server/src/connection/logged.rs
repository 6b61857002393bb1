//! What a connection writes into the log: its begin and its end, statements that fail, and slow ones; and the spans of
//! statements.
//!
//! A statement that is not slow costs one comparison. The time of one that commits ends when its commit is durable, so
//! such a statement is looked at once more when the replies are sent. A COPY FROM STDIN ends with its last piece.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use ermine_sql::{Effort, Parent, SqlError, loggable};
use log::Level;
use serde_json::json;

use super::Connection;
use crate::{
    backend::{Backend, Session, Statement},
    traces::Span,
};

/// A statement whose commit is not durable yet.
pub struct Unsynced<S: Session> {
    began: Instant,
    took: Duration,
    client: Duration,
    effort: Effort,
    prepared: Option<Arc<S::Statement>>,
    parent: Option<Parent>,
    failure: Option<(&'static str, String)>,
}

/// A statement that has ended.
pub struct Ended<'e> {
    pub began: Instant,
    pub took: Duration,
    /// The part of `took` in which it waited for the client's data.
    pub client: Duration,
    pub failure: Option<&'e SqlError>,
    /// The client's span that its text names.
    pub parent: Option<Parent>,
}

/// Longest plan that is logged, in bytes.
const PLAN_MAX: usize = 1000;

impl<B: Backend> Connection<'_, B> {
    /// Logs a statement that failed; `text` is that of one that did not begin.
    pub(super) fn log_failure(&self, error: &SqlError, text: Option<&str>) {
        // Conflicts are a matter of course: the client tries again.
        let level = if error.state().0.starts_with("40") { Level::Debug } else { Level::Info };
        if level > log::max_level() || !self.session.logs_failures() {
            return;
        }
        let text = text.map_or_else(|| self.session.effort().text, loggable);
        log::log!(
            level,
            connection = self.process, role = &*self.user, sqlstate = error.state().0, statement = &*text;
            "a statement failed: {}", error.report().message
        );
    }

    /// Returns the span of the client that a text names, if spans are sent to a collector.
    #[inline]
    pub(super) fn parent_of(&self, text: &str) -> Option<Parent> {
        self.options.fixed.traces.as_ref().and_then(|_| Parent::of(text))
    }

    /// Logs a statement that has ended, if it was slow, and makes its span.
    #[inline]
    pub(super) fn ended(
        &mut self,
        ended: Ended<'_>,
        is_durable: bool,
        prepared: Option<Arc<<B::Session as Session>::Statement>>,
    ) {
        if ended.parent.is_some() || self.session.slow_after().is_some() {
            self.look(ended, is_durable, prepared);
        }
    }

    #[cold]
    fn look(
        &mut self,
        Ended { began, took, client, failure, parent }: Ended<'_>,
        is_durable: bool,
        prepared: Option<Arc<<B::Session as Session>::Statement>>,
    ) {
        let failure = failure.map(|error| (error.state().0, error.report().message.to_string()));
        let statement = Unsynced { began, took, client, effort: self.session.effort(), prepared, parent, failure };
        if is_durable {
            self.told(&statement, Duration::ZERO);
        } else if self.unsynced.is_none() {
            self.unsynced = Some(statement);
        } else {
            // Of several that are sent together, the first has waited longest: it stands for the sync of all.
            self.told(&statement, Duration::ZERO);
        }
    }

    /// Looks at the statement whose commit has become durable now.
    #[inline]
    pub(super) fn synced(&mut self) {
        if let Some(statement) = self.unsynced.take() {
            self.told(&statement, statement.began.elapsed().saturating_sub(statement.took));
        }
    }

    fn told(&self, statement: &Unsynced<B::Session>, synced: Duration) {
        let is_slow = self.session.slow_after().is_some_and(|limit| statement.took + synced >= limit);
        if is_slow {
            self.log_slow(statement, synced);
        }
        if is_slow || statement.parent.is_some() {
            self.trace(statement, synced);
        }
    }

    /// Makes the span of a statement, if spans are sent to a collector.
    fn trace(&self, statement: &Unsynced<B::Session>, synced: Duration) {
        let Some(traces) = &self.options.fixed.traces else { return };
        let Unsynced { began, took, client, effort, parent, failure, .. } = statement;
        let mut attributes = vec![
            ("enduser.id", json!(self.user)),
            ("ermine.connection", json!(self.process)),
            ("ermine.waited_ms", json!(millis(effort.waited))),
            ("ermine.client_ms", json!(millis(*client))),
            ("ermine.synced_ms", json!(millis(synced))),
            ("ermine.retries", json!(effort.retries)),
        ];
        let shape = self.shape_of(statement);
        if !shape.is_empty() {
            attributes.push(("ermine.plan", json!(shape)));
        }
        traces.tell(Span {
            parent: *parent,
            ago: began.elapsed(),
            took: *took + synced,
            text: effort.text.clone(),
            failure: failure.clone(),
            attributes,
        });
    }

    /// Returns the nodes of a statement's plan, as far as they are known; empty: it has none.
    fn shape_of(&self, Unsynced { effort, prepared, .. }: &Unsynced<B::Session>) -> String {
        let shape = match prepared {
            Some(prepared) => prepared.shape(),
            None => self.session.shape_of(&effort.text),
        };
        let mut shape = shape.unwrap_or_default();
        shape.truncate((0..=PLAN_MAX.min(shape.len())).rev().find(|&at| shape.is_char_boundary(at)).unwrap_or(0));
        shape
    }

    fn log_slow(&self, statement: &Unsynced<B::Session>, synced: Duration) {
        let Unsynced { took, client, effort, failure, .. } = statement;
        let worked = took.saturating_sub(effort.waited + *client);
        let reason = match () {
            () if *client > synced.max(effort.waited).max(worked) => "waited for its client",
            () if synced > effort.waited.max(worked) => "waited for the device",
            () if effort.waited > worked => "waited for other transactions",
            () if effort.retries > 0 => "was tried again",
            () => "worked",
        };
        let (end, sqlstate) = failure.as_ref().map_or(("", None), |(sqlstate, _)| (", and failed", Some(*sqlstate)));
        let shape = self.shape_of(statement);
        log::info!(
            connection = self.process, role = &*self.user, sqlstate = sqlstate, duration_ms = millis(*took + synced),
            worked_ms = millis(worked), waited_ms = millis(effort.waited), client_ms = millis(*client),
            synced_ms = millis(synced), retries = effort.retries, plan = Some(&*shape).filter(|shape| !shape.is_empty()),
            statement = &*effort.text;
            "a statement was slow: it mostly {reason}{end}"
        );
    }
}

/// Returns a time in milliseconds, down to microseconds.
fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

//! State of a session as other sessions see it: the statement it runs, and whether it waits for its client.

use std::{borrow::Cow, sync::Arc, time::Duration};

use sqlparser::ast::Statement;

use super::{Prepared, Session, Status, now, tree::Tree};
use crate::{
    catalog::{sessions::Activity, statement_uses::StatementEntry, wait_event::WaitEvents},
    password_in,
};

impl Session {
    /// Assigns the session to the connection numbered `process`; `end` ends that connection and may be called from any
    /// thread.
    pub fn connect(&mut self, process: i32, client: Option<String>, end: Box<dyn Fn() + Send + Sync>) {
        self.environment.process = process;
        self.registered.presence.connect(process, client, end);
    }

    /// Returns what shows other sessions that this one waits for its client or the log.
    pub fn wait_events(&self) -> WaitEvents {
        WaitEvents(Some(self.party.footprint.clone()))
    }

    /// Records that statements begin to run: those of one message.
    #[inline]
    pub(super) fn begins(&mut self, text: impl FnOnce() -> Arc<str>) {
        self.follow_configuration();
        self.retries = 0;
        self.registered.presence.footprint.take_waits();
        let began = now();
        self.environment.statement_began = began;
        self.registered.presence.change(|doing| {
            (doing.state, doing.since) = (Activity::Active, began);
            (doing.query, doing.query_began) = (text(), Some(began));
            doing.transaction_began.get_or_insert(began);
        });
    }

    /// Records that the session is idle until its client sends something; returns the time.
    #[inline]
    pub(super) fn rests(&self) -> i64 {
        self.environment.memory.end();
        let state = match self.status() {
            Status::Idle => Activity::Idle,
            Status::Open if self.is_copying() => Activity::Active,
            Status::Open => Activity::IdleInTransaction,
            Status::Failed => Activity::IdleInFailed,
        };
        let now = now();
        self.registered.presence.change(|doing| {
            (doing.state, doing.since) = (state, now);
            if state == Activity::Idle {
                doing.transaction_began = None;
            }
        });
        now
    }

    /// Counts a run of a statement from `began` to `ended`, in microseconds.
    #[inline]
    pub(super) fn ran(&self, prepared: &Prepared, (began, ended): (i64, i64), is_ok: bool) {
        // A COPY is counted when it has ended, and EXECUTE as the statement that it runs.
        if !self.is_copying() && !prepared.is_about_named() {
            self.counts_run(self.uses(prepared).as_deref().map(|uses| &**uses), (began, ended), is_ok);
        }
    }

    /// Returns the entry that counts a statement for the role that runs it, which may have been prepared by another.
    #[inline]
    pub(super) fn uses<'p>(&self, prepared: &'p Prepared) -> Option<Cow<'p, Arc<StatementEntry>>> {
        let (uses, role) = (prepared.uses.as_ref()?, self.environment.role);
        match uses.role == role {
            true => Some(Cow::Borrowed(uses)),
            false => self.registered.sessions.statements.of_role(role, uses).map(Cow::Owned),
        }
    }

    /// Works as [`Self::ran`], for the entry of a statement, if it has one.
    #[inline]
    pub(super) fn counts_run(&self, uses: Option<&StatementEntry>, (began, ended): (i64, i64), is_ok: bool) {
        let (session, micros) = (self.party.footprint.session, u64::try_from(ended - began).unwrap_or(0));
        if let Some(uses) = uses {
            uses.ran(session, micros, is_ok.then_some(self.affected));
        }
        let times = &self.registered.sessions.statements.times;
        times.of(session).record(Duration::from_micros(micros));
    }
}

impl Prepared {
    /// Whether it prepares, runs or removes a statement with a name.
    fn is_about_named(&self) -> bool {
        let Some(Tree::Plain(statement)) = &self.tree else { return false };
        matches!(**statement, Statement::Prepare { .. } | Statement::Execute { .. } | Statement::Deallocate { .. })
    }
}

/// Returns the prefix of a text that other sessions are shown, and the log: without a password that may be in it.
pub fn shown(text: &str) -> Arc<str> {
    const SHOWN: usize = 1024;
    let end = (0..=SHOWN.min(text.len())).rev().find(|&at| text.is_char_boundary(at));
    let text = &text[..end.unwrap_or(0)];
    match password_in(text) {
        Some(at) => format!("{} ...", &text[..at]).into(),
        None => text.into(),
    }
}

//! LISTEN, UNLISTEN and NOTIFY, and the notifications that have come.

use sqlparser::ast::Statement;

use super::{Completion, Session, State, Status};
use crate::{
    bind::names::name_of,
    catalog::notifications::{Note, Notification, Sender},
    error::Result,
    failure::outcome_unknown,
    result::RowSink,
    transaction::{ActiveTransaction, Marks},
};

impl Session {
    /// Runs such a statement: it takes effect when its transaction commits.
    pub(super) fn note(&mut self, statement: &Statement, rows: &mut dyn RowSink) -> Result<Completion> {
        let (notes, memory) = (&mut self.given.get_mut().notes, &self.environment.memory);
        notes.undo();
        let tag = match statement {
            Statement::LISTEN { channel } => {
                notes.add(Note::Listen(name_of(channel).into()), memory)?;
                "LISTEN"
            }
            Statement::UNLISTEN { channel } => {
                let is_all = channel.quote_style.is_none() && channel.value == "*";
                let note = if is_all { Note::UnlistenAll } else { Note::Unlisten(name_of(channel).into()) };
                notes.add(note, memory)?;
                "UNLISTEN"
            }
            Statement::NOTIFY { channel, payload } => {
                notes.send(&name_of(channel), payload.as_deref().unwrap_or_default(), memory)?;
                "NOTIFY"
            }
            _ => unreachable!("there are three"),
        };
        notes.settle();
        if matches!(self.state, State::Idle) {
            self.commit_notes(None)?;
        }
        rows.complete(tag)?;
        Ok(Completion::default())
    }

    /// Commits a transaction that has notes, if it has begun, and waits until the commit is durable before others are
    /// shown what it has sent.
    pub(super) fn commit_notes(&mut self, active: Option<ActiveTransaction>) -> Result<()> {
        let notes = std::mem::take(&mut self.given.get_mut().notes);
        let catalog = &self.shared.catalog;
        let sessions = catalog.current().sessions.clone();
        let bell = &self.registered.presence.bell;
        let footprint = &self.party.footprint;
        let (session, database) = (footprint.session, footprint.database);
        let sender = Sender { session, database, process: self.environment.process, bell };
        let synchronous = self.modes().synchronous;
        let commit = || {
            let commit = || active.map(|active| active.commit(catalog)).transpose();
            let (receipt, posted) = sessions.notifications.commit(&sender, notes, commit)?;
            if let Some(receipt) = synchronous.waits_for(receipt) {
                receipt.wait().map_err(|error| outcome_unknown(&error))?;
            }
            posted.show();
            Ok(())
        };
        let (mut commit, mut done) = (Some(commit), Ok(()));
        (self.environment.interrupt.aside)(&mut || {
            if let Some(commit) = commit.take() {
                done = commit();
            }
        });
        done
    }

    /// Returns the state to which the session goes back with its transaction.
    pub(super) fn marks(&self) -> Marks {
        Marks { settings: self.settings.mark(), notes: self.given.borrow().notes.mark() }
    }

    /// Whether there may be notifications for the session.
    pub fn has_notifications(&self) -> bool {
        self.registered.presence.bell.has_rung()
    }

    /// Returns notifications for the session, in the order of the commits that have sent them, or the first of them
    /// (then [`Session::has_notifications`] stays true). Within a transaction there are none: they come when it has
    /// ended.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use ermine::{Database, Options};
    /// # use ermine_sql::{RowSet, SqlDatabase};
    /// # let engine = Arc::new(Database::open_in_memory(Options::default())?);
    /// # let database = SqlDatabase::open(engine)?;
    /// let (mut one, mut two) = (database.session("ann", "shop"), database.session("bob", "shop"));
    /// one.run("LISTEN orders", &mut RowSet::default())?;
    /// two.run("NOTIFY orders, '17'", &mut RowSet::default())?;
    /// assert_eq!(&*one.notifications()[0].payload, "17");
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn notifications(&mut self) -> Vec<Notification> {
        if self.status() == Status::Idle && self.has_notifications() {
            self.registered.notifications()
        } else {
            Vec::new()
        }
    }

    /// Sets the function that is called, on any thread, when there are notifications for the session.
    pub fn on_notification(&self, wake: Box<dyn Fn() + Send + Sync>) {
        self.registered.presence.bell.connect(wake);
    }
}

//! A reader that follows the log from its slot on.

use std::{
    collections::VecDeque,
    ops::ControlFlow,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use ermine::Error;

use super::{
    decode::{Decoder, TableChange},
    history::History,
    slots::{Lease, lost},
};
use crate::{
    error::Result,
    failure::{EngineResult as _, sql_error},
    session::SqlDatabase,
    types::user_types::UserTypes,
};

/// A transaction with published changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decoded {
    /// The position of its commit.
    pub commit: u64,
    /// The position behind it.
    pub end: u64,
}

/// A step of a reader, in this order: the begin of a transaction, its changes, its end.
#[derive(Debug)]
pub enum Event<'e> {
    /// A transaction begins.
    Begin(Decoded),
    /// A change of it, and the types that its values need.
    Change(TableChange, &'e Arc<UserTypes>),
    /// The transaction is complete.
    Commit(Decoded),
    /// Everything below this position was shown: all that is durable, or the last of it was not published.
    Idle(u64),
}

/// A reader is told how far it is when so much of the log has had nothing for it.
const TELL_AFTER_BYTES: u64 = 1 << 20;

/// A reader of the changes of publications, which has its slot until it is ended, or dropped.
pub struct ChangeStream {
    database: SqlDatabase,
    slot: String,
    /// `None`: it was ended.
    lease: Mutex<Option<Lease>>,
    publications: Vec<String>,
    /// Transactions that commit below are not shown.
    from: u64,
    /// Ends of what was shown, which can be confirmed.
    shown: Mutex<VecDeque<u64>>,
}

impl ChangeStream {
    /// Returns a reader of a slot; transactions that commit below `from` are not shown.
    pub(crate) fn new(database: SqlDatabase, lease: Lease, publications: Vec<String>, from: u64) -> Self {
        let (slot, lease) = (lease.slot.name.clone(), Mutex::new(Some(lease)));
        Self { database, slot, lease, publications, from, shown: Mutex::default() }
    }

    /// Shows `each` the changes from the confirmed position on, as they become durable, until it says that it wants no
    /// more, or [`ChangeStream::end`] is called. When all are shown, it is called with [`Event::Idle`], again after at
    /// most `wait`; and between transactions, where much of the log has no published changes.
    ///
    /// # Errors
    /// For a slot whose log was removed, a publication that does not exist at the time of a change, and what `each`
    /// returns.
    pub fn run(&self, wait: Duration, each: &mut dyn FnMut(Event<'_>) -> Result<ControlFlow<()>>) -> Result<()> {
        let Some(begun) = self.lease().as_ref().map(Lease::begin) else { return Ok(()) };
        let (position, image) = begun?;
        let history = History::new(image)?;
        let shared = &self.database.0;
        let catalog = shared.catalog.table_id().as_u32();
        let mut decoder = Decoder::new(history, self.publications.clone(), catalog);
        let removed = |error| match error {
            Error::LogRemoved { .. } => lost(&self.slot),
            error => sql_error(error),
        };
        let mut reader = shared.database.changes(Some(position)).map_err(removed)?;
        // The last position that the reader can confirm.
        let mut noted = position;
        loop {
            let Some(transaction) = reader.next().map_err(removed)? else {
                noted = reader.position();
                self.note(noted);
                if each(Event::Idle(noted))?.is_break() {
                    return Ok(());
                }
                reader.wait(wait).sql()?;
                continue;
            };
            let decoded = Decoded { commit: transaction.stamp.as_u64(), end: reader.position() };
            let (mut has_begun, mut goes_on) = (false, ControlFlow::Continue(()));
            let is_wanted = decoded.commit >= self.from;
            let mut show = |event: Event<'_>| {
                if goes_on.is_continue() {
                    goes_on = each(event)?;
                }
                Ok(())
            };
            let definitions = decoder.decode(&transaction.changes, &mut |change, types| {
                if !is_wanted {
                    return Ok(());
                }
                if !has_begun {
                    has_begun = true;
                    show(Event::Begin(decoded))?;
                }
                show(Event::Change(change, types))
            })?;
            match &*self.lease() {
                Some(lease) => lease.pass(decoded.end, definitions),
                None => return Ok(()),
            }
            if has_begun || decoded.end.saturating_sub(noted) >= TELL_AFTER_BYTES {
                noted = decoded.end;
                self.note(noted);
                show(if has_begun { Event::Commit(decoded) } else { Event::Idle(noted) })?;
            }
            if goes_on.is_break() {
                return Ok(());
            }
        }
    }

    fn lease(&self) -> MutexGuard<'_, Option<Lease>> {
        self.lease.lock().expect("no code panics while it holds the slot")
    }

    /// Gives the slot back at once, also while another thread is in [`ChangeStream::run`], which shows little more.
    pub fn end(&self) {
        drop(self.lease().take());
    }

    fn shown(&self) -> MutexGuard<'_, VecDeque<u64>> {
        self.shown.lock().expect("no code panics while it holds the positions")
    }

    /// Notes an end of what is shown.
    fn note(&self, end: u64) {
        self.lease().iter().for_each(|lease| lease.sends(end));
        let mut shown = self.shown();
        if shown.back().is_none_or(|last| *last < end) {
            shown.push_back(end);
        }
    }

    /// Notes that the reader will not ask for anything below a position again. A position that was not shown counts as
    /// the last one before it that was.
    pub fn confirm(&self, position: u64) -> Result<()> {
        let mut last = None;
        {
            let mut shown = self.shown();
            while shown.front().is_some_and(|end| *end <= position) {
                last = shown.pop_front();
            }
        }
        match (&*self.lease(), last) {
            (Some(lease), Some(last)) => lease.confirm(last),
            (Some(lease), None) => {
                lease.hears();
                Ok(())
            }
            (None, _) => Ok(()),
        }
    }
}

//! LISTEN and NOTIFY: the channels that sessions listen to, and the queue of what they have not been told.
//!
//! A transaction that notifies commits while it holds the queue: its notifications are in the queue in the order of such
//! commits. They are shown when the commit is durable; until then listeners stop in front of them. Other commits do not
//! touch the queue.
//!
//! | lock | held |
//! |---|---|
//! | `order` | by a transaction that notifies, over its commit |
//! | `queue` | for moments, inside of `order` or alone |
//!
//! Invariants
//! 1. A listener is shown the notifications of the transactions that commit after its LISTEN, each once, in the order of
//!    the queue.
//! 2. The queue is bounded: a commit for which it has no room fails. What all listeners have been shown leaves it.
//! 3. A listener never waits for another one, and nothing waits for a listener.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use super::definition::ObjectId;
use crate::{
    error::{Result, SqlError, SqlState},
    memory::{Held, Memory},
};

/// The bytes of notifications that listeners may not have been shown.
const BYTES_MAX: usize = 64 << 20;
/// The bytes after which no further batch is taken at once.
const TAKEN_MAX: usize = 64 << 10;
/// Bytes that a notification takes beside its texts.
const OVERHEAD: usize = 128;
/// The bytes of a payload are fewer.
const PAYLOAD_END: usize = 8000;
/// The bytes of a channel's name are fewer.
const CHANNEL_END: usize = 64;

/// A notification, as a session that listens to its channel gets it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Notification {
    /// The number of the session that has sent it.
    pub process: i32,
    /// The channel.
    pub channel: Arc<str>,
    /// The text that was sent with it; empty if there was none.
    pub payload: Arc<str>,
}

/// A statement about notifications, which takes effect when its transaction commits.
#[derive(Clone, Debug)]
pub(crate) enum Note {
    Send(Arc<str>, Arc<str>),
    Listen(Arc<str>),
    Unlisten(Arc<str>),
    UnlistenAll,
}

/// The notes of a transaction, in their order.
#[derive(Default, Debug)]
pub(crate) struct Notes {
    all: Vec<Note>,
    sent: HashSet<(Arc<str>, Arc<str>)>,
    /// The number of notes of the statements that have ended.
    settled: usize,
    bytes: usize,
    held: Held,
}

impl Notes {
    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Forgets all: the transaction has ended.
    pub(crate) fn clear(&mut self) {
        if !self.all.is_empty() || self.settled > 0 {
            *self = Self::default();
        }
    }

    /// Adds a notification, unless the transaction has the same already.
    pub(crate) fn send(&mut self, channel: &str, payload: &str, memory: &Memory) -> Result<()> {
        let invalid = |message: &str| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        match channel.len() {
            0 => return invalid("channel name cannot be empty"),
            CHANNEL_END.. => return invalid("channel name too long"),
            _ if payload.len() >= PAYLOAD_END => return invalid("payload string too long"),
            _ => {}
        }
        let sent = (Arc::from(channel), Arc::from(payload));
        if self.sent.contains(&sent) {
            return Ok(());
        }
        self.add(Note::Send(sent.0.clone(), sent.1.clone()), memory)?;
        self.sent.insert(sent);
        Ok(())
    }

    /// Adds a note.
    pub(crate) fn add(&mut self, note: Note, memory: &Memory) -> Result<()> {
        if self.bytes == 0 {
            self.held = memory.hold();
        }
        let bytes = self.bytes + note.bytes();
        self.held.grow_to(bytes, memory.work_mem())?;
        self.bytes = bytes;
        self.all.push(note);
        Ok(())
    }

    /// Returns the number of notes, for [`Notes::go_back`].
    pub(crate) fn mark(&self) -> usize {
        self.settled
    }

    /// Removes the notes of statements since `mark`.
    pub(crate) fn go_back(&mut self, mark: usize) {
        self.settled = mark;
        self.undo();
    }

    /// Keeps the notes of the statement that has ended.
    pub(crate) fn settle(&mut self) {
        self.settled = self.all.len();
    }

    /// Removes the notes of a statement that has not ended.
    pub(crate) fn undo(&mut self) {
        for note in self.all.drain(self.settled.min(self.all.len())..) {
            self.bytes -= note.bytes();
            if let Note::Send(channel, payload) = note {
                self.sent.remove(&(channel, payload));
            }
        }
        self.held.shrink_to(self.bytes);
    }

    fn sent_bytes(&self) -> usize {
        self.all.iter().filter(|note| matches!(note, Note::Send(..))).map(Note::bytes).sum()
    }
}

impl Note {
    fn bytes(&self) -> usize {
        OVERHEAD
            + match self {
                Self::Send(channel, payload) => channel.len() + payload.len(),
                Self::Listen(channel) | Self::Unlisten(channel) => channel.len(),
                Self::UnlistenAll => 0,
            }
    }
}

/// The way to a session that listens.
#[derive(Default)]
pub(crate) struct Bell {
    has_rung: AtomicBool,
    /// Wakes the session's client, if it has one.
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Bell {
    /// Sets what is called, from any thread, when there is something for the session.
    pub(crate) fn connect(&self, wake: Box<dyn Fn() + Send + Sync>) {
        // The first one stays: a session has one client.
        let _ = self.wake.set(wake);
    }

    /// Whether there is something for the session.
    pub(crate) fn has_rung(&self) -> bool {
        self.has_rung.load(Ordering::Acquire)
    }

    fn ring(&self) {
        self.has_rung.store(true, Ordering::Release);
        if let Some(wake) = self.wake.get() {
            wake();
        }
    }
}

/// The notifications of one transaction.
struct Batch {
    /// The number of the database in which they were sent.
    database: ObjectId,
    all: Vec<Notification>,
    /// Whether its commit is durable, or need not be.
    is_shown: bool,
    bytes: usize,
    _held: Held,
}

struct Listener {
    database: ObjectId,
    channels: BTreeSet<Arc<str>>,
    /// The number of the next batch that it is shown.
    next: u64,
    bell: Arc<Bell>,
}

#[derive(Default)]
struct Queue {
    batches: VecDeque<Batch>,
    /// The number of the first batch.
    first: u64,
    bytes: usize,
    listeners: BTreeMap<u64, Listener>,
}

/// The listeners and the queue of a database.
#[derive(Default)]
pub(crate) struct Notifications {
    /// Held by a transaction with notes while it commits.
    order: Mutex<()>,
    /// Held for short moments.
    queue: Mutex<Queue>,
}

/// The session that a transaction belongs to.
pub(crate) struct Sender<'s> {
    pub(crate) session: u64,
    /// The number of its database: channels are its own.
    pub(crate) database: ObjectId,
    pub(crate) process: i32,
    pub(crate) bell: &'s Arc<Bell>,
}

/// Notifications of a transaction that has committed. Dropped without [`Posted::show`], they are shown to nothing.
pub(crate) struct Posted<'n> {
    notifications: &'n Notifications,
    /// The number of the batch; `None`: nothing was sent, or nothing listens.
    batch: Option<u64>,
}

impl Notifications {
    /// Commits a transaction with notes: `commit` is called while no other one with notes commits.
    pub(crate) fn commit<T>(
        &self,
        sender: &Sender<'_>,
        notes: Notes,
        commit: impl FnOnce() -> Result<T>,
    ) -> Result<(T, Posted<'_>)> {
        let _order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = notes.sent_bytes();
        let listens = notes.all.iter().any(|note| matches!(note, Note::Listen(_)));
        // Until the commit, listeners can only make room.
        if bytes > 0 && !self.queue().has_room(bytes, listens) {
            let message = "too many notifications in the NOTIFY queue";
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        let done = commit()?;
        let mut queue = self.queue();
        let Notes { all, mut held, .. } = notes;
        let mut sent = Vec::new();
        for note in all {
            match note {
                Note::Send(channel, payload) => sent.push(Notification { process: sender.process, channel, payload }),
                Note::Listen(channel) => queue.listen(sender, channel),
                Note::Unlisten(channel) => queue.unlisten(sender.session, &channel),
                Note::UnlistenAll => queue.remove(sender.session),
            }
        }
        let is_posted = !sent.is_empty() && !queue.listeners.is_empty();
        let batch = is_posted.then(|| {
            held.shrink_to(bytes);
            queue.bytes += bytes;
            queue.batches.push_back(Batch {
                database: sender.database,
                all: sent,
                is_shown: false,
                bytes,
                _held: held,
            });
            queue.end() - 1
        });
        Ok((done, Posted { notifications: self, batch }))
    }

    /// Returns what there is for a session, or the first part of it: then its bell stays rung.
    pub(crate) fn take(&self, session: u64) -> Vec<Notification> {
        let queue = &mut *self.queue();
        let Some(listener) = queue.listeners.get_mut(&session) else { return Vec::new() };
        // Before the batches are looked at: one that is shown later rings again.
        listener.bell.has_rung.store(false, Ordering::Relaxed);
        let (mut taken, mut bytes) = (Vec::new(), 0);
        for batch in queue.batches.range((listener.next - queue.first) as usize..) {
            if !batch.is_shown || bytes > TAKEN_MAX {
                listener.bell.has_rung.store(batch.is_shown, Ordering::Relaxed);
                break;
            }
            bytes += batch.bytes;
            let is_wanted =
                |one: &&Notification| batch.database == listener.database && listener.channels.contains(&one.channel);
            let wanted = batch.all.iter().filter(is_wanted);
            taken.extend(wanted.cloned());
            listener.next += 1;
        }
        queue.trim();
        taken
    }

    /// Returns the channels that a session listens to.
    pub(crate) fn channels(&self, session: u64) -> Vec<Arc<str>> {
        self.queue().listeners.get(&session).map_or(Vec::new(), |own| own.channels.iter().cloned().collect())
    }

    /// Ends all listening of a session.
    pub(crate) fn remove(&self, session: u64) {
        self.queue().remove(session);
    }

    /// Returns the share of the queue that is in use.
    pub(crate) fn usage(&self) -> f64 {
        self.queue().bytes as f64 / BYTES_MAX as f64
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// Whether there is room for `bytes` more; without a listener nothing is kept.
    fn has_room(&self, bytes: usize, listens: bool) -> bool {
        !listens && self.listeners.is_empty() || self.bytes + bytes <= BYTES_MAX
    }

    /// Returns the number of the next batch.
    fn end(&self) -> u64 {
        self.first + self.batches.len() as u64
    }

    fn listen(&mut self, sender: &Sender<'_>, channel: Arc<str>) {
        let next = self.end();
        let new = || Listener { database: sender.database, channels: BTreeSet::new(), next, bell: sender.bell.clone() };
        self.listeners.entry(sender.session).or_insert_with(new).channels.insert(channel);
    }

    fn unlisten(&mut self, session: u64, channel: &str) {
        let Some(listener) = self.listeners.get_mut(&session) else { return };
        listener.channels.remove(channel);
        if listener.channels.is_empty() {
            self.remove(session);
        }
    }

    fn remove(&mut self, session: u64) {
        if self.listeners.remove(&session).is_some() {
            self.trim();
        }
    }

    /// Drops the batches that all listeners have been shown.
    fn trim(&mut self) {
        let next = self.listeners.values().map(|listener| listener.next).min().unwrap_or(self.end());
        while self.first < next {
            let Some(batch) = self.batches.pop_front() else { break };
            self.bytes -= batch.bytes;
            self.first += 1;
        }
    }

    /// Shows a batch, and tells the listeners; an empty one only lets them go on.
    fn show(&mut self, number: u64) -> Vec<Arc<Bell>> {
        // It is gone if all listeners are gone.
        let Some(at) = number.checked_sub(self.first) else { return Vec::new() };
        let Some(batch) = self.batches.get_mut(at as usize) else { return Vec::new() };
        batch.is_shown = true;
        self.listeners.values().filter(|listener| listener.next <= number).map(|one| one.bell.clone()).collect()
    }
}

impl Posted<'_> {
    /// Shows the notifications: the commit is durable, or need not be.
    pub(crate) fn show(mut self) {
        let Some(number) = self.batch.take() else { return };
        let bells = self.notifications.queue().show(number);
        bells.iter().for_each(|bell| bell.ring());
    }
}

impl Drop for Posted<'_> {
    fn drop(&mut self) {
        let Some(number) = self.batch.take() else { return };
        let bells = {
            let mut queue = self.notifications.queue();
            let at = number.checked_sub(queue.first).map(|at| at as usize);
            if let Some(batch) = at.and_then(|at| queue.batches.get_mut(at)) {
                batch.all.clear();
            }
            queue.show(number)
        };
        // What comes behind it may be shown by now.
        bells.iter().for_each(|bell| bell.ring());
    }
}

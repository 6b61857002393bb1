//! Publishes the changes of a publication to NATS JetStream, as objects of JSON: one message a changed row.
//!
//! | module | contents |
//! |---|---|
//! | `message` | changes as messages |
//! | `slot` | the replication slot, and where the stream goes on |
//!
//! A thread of its own publishes, and survives everything but the end of the server: what fails is logged once, and
//! tried again. A second thread has the connection to NATS; a third reads the log, a few batches ahead at most, because
//! that blocks.
//!
//! Invariants
//! 1. *Each once, in order*: the message at a sequence of the stream is the one that follows the message before it, by
//!    the log. A publisher begins with the message behind the stream's last one, and each message names the sequence
//!    before it ([`ermine_replication::feed`]). So the outcome of an error, a crash or a timeout makes no difference.
//! 2. *The slot is behind the stream*: it is confirmed up to the ends of transactions whose messages are all
//!    acknowledged.
//! 3. *A gap is said*: where changes between the last message and the slot's position are missing, and the slot cannot
//!    be moved back, or that message is gone and this process does not know its place, a message of the kind `gap`
//!    comes first.

mod message;
mod slot;

use std::{
    collections::VecDeque,
    convert::Infallible,
    io,
    ops::ControlFlow,
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use ermine_replication::{
    Sequence,
    feed::{self, Feed, Last, Sent},
};
use ermine_sql::{
    SqlDatabase, SqlError, SqlState,
    logical::{ChangeStream, Event, lsn},
};
use tokio::{
    sync::{
        mpsc::{self, Receiver, Sender},
        watch,
    },
    task::spawn_blocking,
    time::{sleep, timeout},
};

use self::{
    message::{Encoder, Mark, Message, Place},
    slot::{Begin, Slot},
};

/// Bytes of messages that the reader passes on at a time, and how many such batches it may be ahead.
const BATCH_BYTES: usize = 64 << 10;
const BATCHES_AHEAD: usize = 4;
/// Messages that are not acknowledged, and their bytes; a single message may have more.
const WINDOW: usize = 512;
const WINDOW_BYTES: usize = 4 << 20;
/// How often the reader looks whether it is still wanted, and the publisher whether it is connected.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// The pause after a failure.
const PAUSE: Duration = Duration::from_secs(1);
/// A failure that comes again is logged again after so long.
const LOG_AGAIN: Duration = Duration::from_secs(60);
/// The time after which an operation of JetStream has failed.
const TIMEOUT: Duration = Duration::from_secs(5);

/// What is published, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// Addresses of the servers of NATS, separated by commas.
    pub servers: String,
    /// The publication, whose name has lower-case letters, digits and `_` only.
    pub publication: String,
    /// The number of servers that store each message.
    pub replicas: usize,
    /// The database is that of a cluster.
    pub is_replicated: bool,
}

/// The threads that publish, which end when this is dropped.
pub struct JsonStream {
    end: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl JsonStream {
    /// Begins to publish.
    pub fn start(options: Options, database: SqlDatabase) -> io::Result<Self> {
        // Apart from the sessions: their threads may all wait. Its own thread has the connection to NATS.
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).thread_name("ermined-nats").enable_all().build()?;
        let (end, ended) = watch::channel(false);
        let mut publisher = Publisher::new(options, database);
        let publish = move || {
            runtime.block_on(publisher.publish(ended));
            runtime.shutdown_timeout(PAUSE);
        };
        let thread = thread::Builder::new().name("ermined-json".into()).spawn(publish)?;
        Ok(Self { end, thread: Some(thread) })
    }
}

impl Drop for JsonStream {
    fn drop(&mut self) {
        self.end.send_replace(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Publishes.
struct Publisher {
    options: Options,
    feed: feed::Options,
    /// The subject of messages that are not of a table, and the beginning of the others.
    subject: String,
    database: SqlDatabase,
    /// The database's number, as IDENTIFY_SYSTEM shows it.
    number: u64,
    /// The slot that was made and has no message yet.
    new_slot: Option<String>,
    /// Whether the slot cannot be read on, because its publication was dropped meanwhile.
    is_slot_useless: bool,
    /// The last message that was acknowledged.
    acknowledged: Acknowledged,
    failures: Failures,
}

/// A message that is in the stream.
#[derive(Default)]
struct Acknowledged {
    sequence: Sequence,
    /// `None`: it is not known.
    mark: Option<String>,
}

/// Messages on their way, in their order.
#[derive(Default)]
struct Pending {
    messages: VecDeque<OnItsWay>,
    /// The bytes of their payloads.
    bytes: usize,
}

/// A message on its way.
struct OnItsWay {
    sent: Sent,
    bytes: usize,
    mark: String,
    /// The position that is confirmed when it is acknowledged.
    end: Option<u64>,
}

impl Pending {
    /// Whether a message may be sent.
    fn has_room(&self, bytes: usize) -> bool {
        self.messages.is_empty() || self.messages.len() < WINDOW && self.bytes + bytes <= WINDOW_BYTES
    }

    fn add(&mut self, message: OnItsWay) {
        self.bytes += message.bytes;
        self.messages.push_back(message);
    }

    fn take_first(&mut self) -> Option<OnItsWay> {
        let message = self.messages.pop_front()?;
        self.bytes -= message.bytes;
        Some(message)
    }
}

/// The failure that was logged last. Texts that differ in digits only count as the same one.
#[derive(Default)]
struct Failures {
    logged: Option<(String, Instant)>,
    /// Whether publishing went on behind it, and that was logged.
    is_over: bool,
}

impl Failures {
    /// Returns whether a failure is to be logged.
    fn fails(&mut self, why: &str, now: Instant) -> bool {
        let mut kind = why.to_owned();
        kind.retain(|c| !c.is_ascii_digit());
        let is_known = |(logged, at): &(String, Instant)| *logged == kind && (!self.is_over || now - *at < LOG_AGAIN);
        if self.logged.as_ref().is_some_and(is_known) {
            return false;
        }
        (self.logged, self.is_over) = (Some((kind, now)), false);
        true
    }

    /// Returns whether it is to be logged that publishing goes on.
    fn goes_on(&mut self) -> bool {
        self.logged.is_some() && !std::mem::replace(&mut self.is_over, true)
    }
}

/// Why publishing has stopped.
struct Failure(String);

impl Publisher {
    fn new(options: Options, database: SqlDatabase) -> Self {
        let subject = format!("ermine.json.{}", options.publication);
        let feed = feed::Options {
            servers: options.servers.clone(),
            stream: format!("ermine-json-{}", options.publication),
            subjects: vec![subject.clone(), format!("{subject}.>")],
            replicas: options.replicas,
            timeout: TIMEOUT,
            window: WINDOW,
        };
        let number = u64::from_be_bytes(database.secret().first_chunk().copied().unwrap_or_default()) >> 1;
        Self {
            options,
            feed,
            subject,
            database,
            number,
            new_slot: None,
            is_slot_useless: false,
            acknowledged: Acknowledged::default(),
            failures: Failures::default(),
        }
    }

    /// Publishes until the end.
    async fn publish(&mut self, mut ended: watch::Receiver<bool>) {
        loop {
            tokio::select! {
                biased;
                _ = ended.wait_for(|ended| *ended) => return,
                Err(Failure(why)) = self.try_to_publish() => {
                    if self.failures.fails(&why, Instant::now()) {
                        log::warn!("the JSON stream of publication \"{}\" waits: {why}", self.options.publication);
                    }
                }
            }
            tokio::select! {
                _ = ended.wait_for(|ended| *ended) => return,
                () = sleep(PAUSE) => {}
            }
        }
    }

    /// Publishes until something fails.
    async fn try_to_publish(&mut self) -> Result<Infallible, Failure> {
        let slot = self.slot().await?;
        let (mut feed, mut last) = Feed::open(&self.feed).await?;
        let has_lost = feed.last() < self.acknowledged.sequence;
        if last == Last::Removed
            && feed.last() == self.acknowledged.sequence
            && let Some(mark) = &self.acknowledged.mark
        {
            last = Last::Message(Some(mark.clone()));
        }
        let begin = slot.follow(&last, self.number, has_lost, self.options.is_replicated);
        let begin = begin.map_err(|why| Failure(format!("{} of JetStream: {why}", self.feed.stream)))?;
        let from = match begin {
            Begin::At(place) => place,
            Begin::Behind(place) if self.rewind(&slot, place).await? => place,
            Begin::Behind(Place { commit: from, .. }) | Begin::Gap { from } => {
                let to = slot.confirmed;
                log::warn!(
                    "the JSON stream of publication \"{}\" lacks the changes from {} to {}: its readers are told",
                    self.options.publication,
                    lsn(from),
                    lsn(to)
                );
                let gap = self.send(&mut feed, &slot, message::gap(&self.subject, from, to)).await?;
                gap.sent.await?;
                last = Last::Message(Some(gap.mark));
                Place::from(to)
            }
        };
        let mark = if let Last::Message(mark) = last { mark } else { None };
        (self.new_slot, self.acknowledged) = (None, Acknowledged { sequence: feed.last(), mark });
        let (database, publication) = (self.database.clone(), self.options.publication.clone());
        let reader = slot.clone();
        let stream = spawn_blocking(move || reader.read(&database, from.commit, &publication)).await;
        let stream = Arc::new(stream.map_err(|error| Failure(error.to_string()))??);
        let mut reading = Reading::begin(stream.clone(), from, &self.subject)?;
        let mut pending = Pending::default();
        loop {
            tokio::select! {
                biased;
                acknowledged = self.acknowledge(&feed, &stream, &mut pending), if !pending.messages.is_empty() => {
                    acknowledged?;
                }
                batch = reading.next(), if pending.has_room(0) => {
                    let batch = batch.inspect_err(|error| {
                        self.is_slot_useless = error.state() == SqlState::UNDEFINED_OBJECT;
                    })?;
                    for message in batch.messages {
                        while !pending.has_room(message.payload.len()) {
                            self.acknowledge(&feed, &stream, &mut pending).await?;
                        }
                        pending.add(self.send(&mut feed, &slot, message).await?);
                    }
                    match (batch.idle, pending.messages.back_mut()) {
                        (Some(position), None) => self.confirm(&stream, position),
                        (Some(position), Some(last)) => last.end = Some(position),
                        (None, _) => {}
                    }
                }
            }
        }
    }

    /// Waits until the first of some messages is stored, or for a moment.
    async fn acknowledge(&mut self, feed: &Feed, stream: &ChangeStream, pending: &mut Pending) -> Result<(), Failure> {
        let Some(first) = pending.messages.front_mut() else { return Ok(()) };
        match timeout(LOOK_EVERY, &mut first.sent).await {
            Ok(stored) => {
                let sequence = stored?;
                if let Some(OnItsWay { mark, end, .. }) = pending.take_first() {
                    self.acknowledged = Acknowledged { sequence, mark: Some(mark) };
                    end.into_iter().for_each(|end| self.confirm(stream, end));
                }
                Ok(())
            }
            Err(_) if feed.is_connected() => Ok(()),
            Err(_) => Err(Failure("the connection to NATS is lost".into())),
        }
    }

    /// Returns the slot, which is made if there is none.
    async fn slot(&mut self) -> Result<Slot, Failure> {
        let (database, publication, is_useless) =
            (self.database.clone(), self.options.publication.clone(), self.is_slot_useless);
        // It waits for the log, and for files.
        let found = spawn_blocking(move || {
            if is_useless {
                Slot::remove(&database, &publication)?;
            }
            Slot::find_or_create(&database, &publication)
        });
        let mut slot = found.await.map_err(|error| Failure(error.to_string()))??;
        self.is_slot_useless = false;
        if slot.is_new {
            log::info!(
                "the JSON stream of publication \"{}\" has the slot \"{}\"",
                self.options.publication,
                slot.name
            );
            self.new_slot = Some(slot.name.clone());
        }
        slot.is_new = self.new_slot.as_ref() == Some(&slot.name);
        Ok(slot)
    }

    /// Moves the slot back to where the stream has come; returns whether it is there.
    async fn rewind(&self, slot: &Slot, to: Place) -> Result<bool, Failure> {
        let (database, moved) = (self.database.clone(), slot.clone());
        let is_there = spawn_blocking(move || moved.rewind(&database, to)).await;
        let is_there = is_there.map_err(|error| Failure(error.to_string()))??;
        if is_there {
            let (publication, at) = (&self.options.publication, lsn(to.commit));
            log::info!("the JSON stream of publication \"{publication}\" goes on at {at}, and its slot with it");
        }
        Ok(is_there)
    }

    async fn send(&self, feed: &mut Feed, slot: &Slot, message: Message) -> Result<OnItsWay, Failure> {
        let mark = Mark { database: self.number, slot: slot.name.clone(), next: message.next }.text();
        let (bytes, end) = (message.payload.len(), message.end);
        let sent = feed.send(&message.subject, &mark, message.payload.into()).await?;
        Ok(OnItsWay { sent, bytes, mark, end })
    }

    /// Notes that everything below a position is in the stream.
    fn confirm(&mut self, stream: &ChangeStream, position: u64) {
        if let Err(error) = stream.confirm(position) {
            log::warn!("a confirmed position of the JSON stream is not kept: {error}");
        }
        if self.failures.goes_on() {
            log::info!("the JSON stream of publication \"{}\" goes on", self.options.publication);
        }
    }
}

/// Messages, and how far the reader is with them, if everything below a position was read.
#[derive(Default)]
struct Batch {
    messages: Vec<Message>,
    bytes: usize,
    idle: Option<u64>,
}

/// The thread that reads the log, which ends when this is dropped.
struct Reading {
    stream: Arc<ChangeStream>,
    /// `None`: it ends.
    batches: Option<Receiver<Result<Batch, SqlError>>>,
    thread: Option<JoinHandle<()>>,
}

impl Reading {
    fn begin(stream: Arc<ChangeStream>, from: Place, subject: &str) -> Result<Self, Failure> {
        let (sender, batches) = mpsc::channel(BATCHES_AHEAD);
        let (encoder, reading) = (Encoder::new(subject), stream.clone());
        let thread = thread::Builder::new().name("ermined-changes".into());
        let thread = thread.spawn(move || {
            if let Err(error) = read(&reading, &sender, from, encoder) {
                let _ = sender.blocking_send(Err(error));
            }
        });
        let thread = thread.map_err(|error| Failure(format!("a thread cannot be started: {error}")))?;
        Ok(Self { stream, batches: Some(batches), thread: Some(thread) })
    }

    async fn next(&mut self) -> Result<Batch, SqlError> {
        let batch = match &mut self.batches {
            Some(batches) => batches.recv().await,
            None => None,
        };
        batch.unwrap_or_else(|| Err(SqlError::new(SqlState::INTERNAL_ERROR, "the reader of changes has ended")))
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.stream.end();
        self.batches = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Reads and encodes changes from a place on, until they are not wanted any more.
fn read(
    stream: &ChangeStream,
    sender: &Sender<Result<Batch, SqlError>>,
    from: Place,
    mut encoder: Encoder,
) -> Result<(), SqlError> {
    let mut batch = Batch::default();
    stream.run(LOOK_EVERY, &mut |event| {
        let mut is_wanted = true;
        let mut add = |message: Message| {
            // Of a transaction of which the stream has a part.
            if message.next > from {
                batch.bytes += message.payload.len();
                batch.messages.push(message);
            }
            if batch.bytes >= BATCH_BYTES && is_wanted {
                is_wanted = sender.blocking_send(Ok(std::mem::take(&mut batch))).is_ok();
            }
        };
        match event {
            Event::Begin(transaction) => encoder.begin(transaction),
            Event::Change(change, types) => encoder.change(&change, types, &mut add)?,
            Event::Commit(transaction) => encoder.commit(transaction).into_iter().for_each(add),
            Event::Idle(position) => {
                batch.idle = Some(position);
                is_wanted = sender.blocking_send(Ok(std::mem::take(&mut batch))).is_ok();
            }
        }
        Ok(if is_wanted { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })
}

impl From<feed::FeedError> for Failure {
    fn from(error: feed::FeedError) -> Self {
        Self(format!("NATS JetStream: {error}"))
    }
}

impl From<SqlError> for Failure {
    fn from(error: SqlError) -> Self {
        Self(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_logged_once() {
        let (mut failures, start) = (Failures::default(), Instant::now());
        assert!(!failures.goes_on());
        assert!(failures.fails("refused at 10", start));
        assert!(!failures.fails("refused at 112", start + LOG_AGAIN));
        assert!(failures.fails("another one", start));
        assert!(failures.goes_on());
        assert!(!failures.goes_on());
        // At once again: neither the failure nor its end is logged, unless it lasts.
        assert!(!failures.fails("another one", start));
        assert!(!failures.goes_on());
        assert!(failures.fails("another one", start + LOG_AGAIN));
        assert!(failures.goes_on());
    }
}

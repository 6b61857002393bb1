//! A replicated log in memory whose network has faults: requests and replies are lost, doubled, delayed and so
//! reordered, clients are cut off, the lease expires early, answers are old. All of it comes from the simulation's
//! seed.
//!
//! Invariants:
//! 1. What is stored obeys the rules of a [`ReplicatedLog`]: a request is carried out at one moment, against the state
//!    at that moment. Only [`MemoryLog::replace_tail`] breaks them, on request.
//! 2. A request that is on its way is carried out even if its client has given up, or is gone.
//! 3. A client that gets no answer within [`Faults::timeout`] is told so; it never waits forever.

use std::{
    collections::BTreeMap,
    future::poll_fn,
    io::Cursor,
    sync::{Arc, Mutex},
    task::{Poll, Waker},
};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::{
    log::{
        AppendError, BlobError, BlobInfo, Lease, LeaseError, LeaseWrite, LogReader, NoteReader, ReadError,
        ReplicatedLog, Sequence, Term,
    },
    simulation::{Clock, Simulation, lock},
};

const CUT_OFF: &str = "no answer in time";
/// Bytes of a blob that are read at a time.
const CHUNK: usize = 1 << 10;

/// How often the network fails: chances in 1000 for each message, times in ticks.
#[derive(Clone, Debug)]
pub struct Faults {
    /// A request is lost.
    pub request_lost: u64,
    /// A reply is lost, after the request was carried out.
    pub reply_lost: u64,
    /// A request arrives a second time.
    pub doubled: u64,
    /// A message is on its way for long: up to [`delay_max`](Self::delay_max).
    pub delayed: u64,
    /// An answer misses the newest messages.
    pub old_answer: u64,
    /// A reader brings nothing any more, and does not notice.
    pub silent_reader: u64,
    /// The longest time on the way.
    pub delay_max: u64,
    /// The time after which a client gives up.
    pub timeout: u64,
    /// The lifetime of the lease.
    pub lifetime: u64,
}

/// A client of a log in memory.
#[derive(Clone)]
pub struct MemoryLog {
    clock: Clock,
    faults: Arc<Faults>,
    store: Arc<Mutex<Store>>,
    link: Arc<Mutex<Link>>,
}

/// Whether a client is cut off.
#[derive(Default)]
struct Link {
    cut: bool,
}

/// What the log stores.
#[derive(Default)]
struct Store {
    /// The sequences that retention has removed.
    removed: u64,
    messages: Vec<Bytes>,
    term: Term,
    /// The last write of the lease, and whether it was its return.
    lease_write: (LeaseWrite, bool),
    lease: Option<Held>,
    blobs: BTreeMap<String, Bytes>,
    notes: Vec<Bytes>,
}

struct Held {
    lease: Lease,
    expiry: u64,
}

/// A place for the first answer of a request.
struct Slot<T> {
    answer: Option<Option<T>>,
    waker: Option<Waker>,
}

/// Reads a log in memory: asks for one message after the other.
pub struct MemoryReader {
    log: MemoryLog,
    next: Sequence,
    is_silent: bool,
}

/// Reads the notes of a log in memory.
pub struct MemoryNotes {
    log: MemoryLog,
    /// The number of those that were there before.
    read: usize,
}

impl Faults {
    /// Returns a network without faults.
    pub fn none() -> Self {
        Self {
            request_lost: 0,
            reply_lost: 0,
            doubled: 0,
            delayed: 0,
            old_answer: 0,
            silent_reader: 0,
            delay_max: 5,
            timeout: 1000,
            lifetime: 3000,
        }
    }

    /// Returns a network with random faults of each kind, or without it.
    pub fn random(clock: &Clock) -> Self {
        let chance = |bound| if clock.chance(300) { 0 } else { clock.below(bound) };
        Self {
            request_lost: chance(150),
            reply_lost: chance(150),
            doubled: chance(150),
            delayed: chance(150),
            old_answer: chance(200),
            silent_reader: chance(50),
            delay_max: 10 + clock.below(2000),
            timeout: 20 + clock.below(200),
            lifetime: 200 + clock.below(800),
        }
    }
}

impl MemoryLog {
    /// Returns a client of a new log.
    pub fn new(simulation: &Simulation, faults: Faults) -> Self {
        let clock = simulation.clock().clone();
        Self { clock, faults: Arc::new(faults), store: Arc::default(), link: Arc::default() }
    }

    /// Returns a client of the same log with a link of its own. Clones share a link.
    pub fn client(&self) -> Self {
        Self { link: Arc::default(), ..self.clone() }
    }

    /// Cuts this client off the log, or connects it again. Messages that arrive meanwhile are lost, in both directions.
    pub fn cut(&self, cut: bool) {
        lock(&self.link).cut = cut;
    }

    /// Lets the lease expire now, as if the log's clock had jumped.
    pub fn expire_lease(&self) {
        lock(&self.store).lease = None;
    }

    /// Lets the lease that is in force never expire, unless it is renewed: as if it had been written when the log's
    /// clock was ahead.
    pub fn keep_lease(&self) {
        if let Some(held) = lock(&self.store).held(self.clock.now()) {
            held.expiry = u64::MAX;
        }
    }

    /// Removes the messages before `first`, as retention does.
    pub fn remove_before(&self, first: Sequence) {
        lock(&self.store).trim(first);
    }

    /// Replaces the newest messages, although they were acknowledged: as a log does that breaks its promise.
    pub fn replace_tail(&self, count: usize, messages: impl IntoIterator<Item = Bytes>) {
        let mut store = lock(&self.store);
        let left = store.messages.len().saturating_sub(count);
        store.messages.truncate(left);
        store.messages.extend(messages);
    }

    /// Returns the messages that are stored, past the network.
    pub fn messages(&self) -> Vec<Bytes> {
        lock(&self.store).messages.clone()
    }

    fn delay(&self) -> u64 {
        if self.clock.chance(self.faults.delayed) {
            self.clock.below(self.faults.delay_max)
        } else {
            1 + self.clock.below(4)
        }
    }

    /// Sends a request; waits for the first answer. Returns nothing if there is none in time.
    async fn request<T: Send + 'static>(
        &self,
        request: impl Fn(&mut Store, u64) -> T + Send + Sync + 'static,
    ) -> Option<T> {
        let slot = Arc::new(Mutex::new(Slot { answer: None, waker: None }));
        let request = Arc::new(request);
        for _ in 0..=u64::from(self.clock.chance(self.faults.doubled)) {
            let lost = self.clock.chance(self.faults.request_lost);
            let (client, slot, request) = (self.clone(), slot.clone(), request.clone());
            self.clock.after(self.delay(), move || {
                if lost || lock(&client.link).cut {
                    return;
                }
                let answer = request(&mut lock(&client.store), client.clock.now());
                if client.clock.chance(client.faults.reply_lost) {
                    return;
                }
                let link = client.link.clone();
                client.clock.after(client.delay(), move || {
                    if !lock(&link).cut {
                        lock(&slot).fill(Some(answer));
                    }
                });
            });
        }
        let given_up = slot.clone();
        self.clock.after(self.faults.timeout, move || lock(&given_up).fill(None));
        poll_fn(move |context| {
            let mut slot = lock(&slot);
            match slot.answer.take() {
                Some(answer) => Poll::Ready(answer),
                None => {
                    slot.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Returns how many of the newest messages the next answer misses.
    fn missed(&self) -> u64 {
        if self.clock.chance(self.faults.old_answer) { 1 + self.clock.below(3) } else { 0 }
    }

    async fn blob_request<T: Send + 'static>(
        &self,
        request: impl Fn(&mut Store) -> T + Send + Sync + 'static,
    ) -> Result<T, BlobError> {
        self.request(move |store, _| request(store)).await.ok_or_else(|| BlobError::Unreachable(CUT_OFF.into()))
    }
}

impl Store {
    fn last(&self) -> Sequence {
        Sequence(self.removed + self.messages.len() as u64)
    }

    fn append(&mut self, expected: Sequence, message: &Bytes) -> Result<Sequence, AppendError> {
        if expected != self.last() {
            return Err(AppendError::Taken);
        }
        self.messages.push(message.clone());
        Ok(self.last())
    }

    fn trim(&mut self, before: Sequence) {
        let first = before.min(self.last()).0.saturating_sub(1).max(self.removed);
        self.messages.drain(..(first - self.removed) as usize);
        self.removed = first;
    }

    fn get(&self, sequence: Sequence, missed: u64) -> Result<Option<Bytes>, ReadError> {
        if sequence.0 + missed > self.last().0 {
            return Ok(None);
        }
        match sequence.0.checked_sub(self.removed + 1) {
            Some(index) => Ok(self.messages.get(index as usize).cloned()),
            None => Err(ReadError::Gone { first: Sequence(self.removed + 1) }),
        }
    }

    /// Returns the lease that is in force.
    fn held(&mut self, now: u64) -> Option<&mut Held> {
        self.lease.as_mut().filter(|held| now < held.expiry)
    }

    fn acquire(&mut self, holder: &str, old: Option<LeaseWrite>, now: u64, lifetime: u64) -> Result<Lease, LeaseError> {
        let (write, is_free) = self.lease_write;
        if let Some(held) = self.held(now)
            && old != Some(write)
        {
            return Err(LeaseError::Held { holder: held.lease.holder.clone(), write });
        }
        self.term.0 += 1;
        self.lease_write = (LeaseWrite(write.0 + 1), false);
        let expired = (write != LeaseWrite(0) && !is_free).then_some(write);
        let lease = Lease { holder: holder.into(), term: self.term, expired };
        self.lease = Some(Held { lease: lease.clone(), expiry: now + lifetime });
        Ok(lease)
    }

    fn renew(&mut self, lease: &Lease, now: u64, lifetime: u64) -> Result<(), LeaseError> {
        let held = self.held(now).filter(|held| held.lease.term == lease.term).ok_or(LeaseError::Lost)?;
        held.expiry = now + lifetime;
        self.lease_write = (LeaseWrite(self.lease_write.0.0 + 1), false);
        Ok(())
    }

    fn release(&mut self, lease: &Lease, now: u64) -> Result<(), LeaseError> {
        self.renew(lease, now, 0)?;
        self.lease_write.1 = true;
        Ok(())
    }
}

impl<T> Slot<T> {
    /// The first answer counts.
    fn fill(&mut self, answer: Option<T>) {
        self.answer.get_or_insert(answer);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl ReplicatedLog for MemoryLog {
    type Reader = MemoryReader;
    type Blob = Cursor<Bytes>;
    type Notes = MemoryNotes;

    async fn append(&self, expected: Sequence, message: Bytes) -> Result<Sequence, AppendError> {
        let appended = self.request(move |store, _| store.append(expected, &message)).await;
        appended.unwrap_or_else(|| Err(AppendError::Unknown(CUT_OFF.into())))
    }

    async fn get(&self, sequence: Sequence) -> Result<Option<Bytes>, ReadError> {
        let missed = self.missed();
        let read = self.request(move |store, _| store.get(sequence, missed)).await;
        read.unwrap_or_else(|| Err(ReadError::Unreachable(CUT_OFF.into())))
    }

    async fn read(&self, from: Sequence) -> Result<MemoryReader, ReadError> {
        Ok(MemoryReader { log: self.clone(), next: from, is_silent: false })
    }

    async fn last(&self) -> Result<Sequence, ReadError> {
        let missed = self.missed();
        let last = self.request(move |store, _| Sequence(store.last().0.saturating_sub(missed))).await;
        last.ok_or_else(|| ReadError::Unreachable(CUT_OFF.into()))
    }

    async fn trim(&self, before: Sequence) -> Result<(), ReadError> {
        let trimmed = self.request(move |store, _| store.trim(before)).await;
        trimmed.ok_or_else(|| ReadError::Unreachable(CUT_OFF.into()))
    }

    async fn acquire(&self, holder: &str, old: Option<LeaseWrite>) -> Result<Lease, LeaseError> {
        let (holder, lifetime) = (holder.to_owned(), self.faults.lifetime);
        let acquired = self.request(move |store, now| store.acquire(&holder, old, now, lifetime)).await;
        acquired.unwrap_or_else(|| Err(LeaseError::Unreachable(CUT_OFF.into())))
    }

    async fn renew(&self, lease: &Lease) -> Result<(), LeaseError> {
        let (lease, lifetime) = (lease.clone(), self.faults.lifetime);
        let renewed = self.request(move |store, now| store.renew(&lease, now, lifetime)).await;
        renewed.unwrap_or_else(|| Err(LeaseError::Unreachable(CUT_OFF.into())))
    }

    async fn release(&self, lease: &Lease) -> Result<(), LeaseError> {
        let lease = lease.clone();
        let released = self.request(move |store, now| store.release(&lease, now)).await;
        released.unwrap_or_else(|| Err(LeaseError::Unreachable(CUT_OFF.into())))
    }

    async fn put_blob(&self, name: &str, mut source: impl AsyncRead + Unpin + Send) -> Result<(), BlobError> {
        let (mut bytes, mut chunk) = (Vec::new(), [0; CHUNK]);
        loop {
            let read = source.read(&mut chunk).await.map_err(BlobError::Source)?;
            if read == 0 {
                break;
            }
            bytes.extend_from_slice(&chunk[..read]);
            self.clock.sleep(1).await;
        }
        let (name, bytes) = (name.to_owned(), Bytes::from(bytes));
        self.blob_request(move |store| drop(store.blobs.insert(name.clone(), bytes.clone()))).await
    }

    async fn get_blob(&self, name: &str) -> Result<Cursor<Bytes>, BlobError> {
        let name = name.to_owned();
        let blob = self.blob_request(move |store| store.blobs.get(&name).cloned()).await?;
        blob.map(Cursor::new).ok_or(BlobError::Missing)
    }

    async fn list_blobs(&self) -> Result<Vec<BlobInfo>, BlobError> {
        let info = |(name, bytes): (&String, &Bytes)| BlobInfo { name: name.clone(), bytes: bytes.len() as u64 };
        self.blob_request(move |store| store.blobs.iter().map(info).collect()).await
    }

    async fn delete_blob(&self, name: &str) -> Result<(), BlobError> {
        let name = name.to_owned();
        self.blob_request(move |store| drop(store.blobs.remove(&name))).await
    }

    async fn tell(&self, note: Bytes) -> Result<(), ReadError> {
        let told = self.request(move |store, _| store.notes.push(note.clone())).await;
        told.ok_or_else(|| ReadError::Unreachable(CUT_OFF.into()))
    }

    async fn listen(&self) -> Result<MemoryNotes, ReadError> {
        let read = self.request(|store, _| store.notes.len()).await;
        let read = read.ok_or_else(|| ReadError::Unreachable(CUT_OFF.into()))?;
        Ok(MemoryNotes { log: self.clone(), read })
    }
}

impl NoteReader for MemoryNotes {
    async fn next(&mut self) -> Result<Bytes, ReadError> {
        loop {
            let at = self.read;
            let note = self.log.request(move |store, _| store.notes.get(at).cloned()).await;
            if let Some(note) = note.ok_or_else(|| ReadError::Unreachable(CUT_OFF.into()))? {
                self.read += 1;
                return Ok(note);
            }
            self.log.clock.sleep(10).await;
        }
    }
}

impl LogReader for MemoryReader {
    async fn next(&mut self) -> Result<(Sequence, Bytes), ReadError> {
        loop {
            if self.is_silent {
                self.log.clock.sleep(1000).await;
                continue;
            }
            if let Some(message) = self.log.get(self.next).await? {
                self.is_silent = self.log.clock.chance(self.log.faults.silent_reader);
                let sequence = self.next;
                self.next = sequence.next();
                return Ok((sequence, message));
            }
            self.log.clock.sleep(10).await;
        }
    }
}

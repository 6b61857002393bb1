//! The log's interface to workers: claim, fill, wait.

use std::{
    sync::{Arc, OnceLock, atomic::AtomicBool},
    task::Waker,
    thread::{self, JoinHandle},
    time::{Duration, SystemTime},
};

use super::{
    block::{BlockKind, Body, Sealed},
    chains::Chains,
    draft::Draft,
    flusher::Flusher,
    lsn::{GRANULE, Lsn, SEGMENTS},
    moment::Moment,
    readers::Readers,
    ring::Ring,
    room::Room,
    segment::SegmentFiles,
    space::{Filling, LogSpace, PAGE_BYTES, Piece, SEGMENT_BYTES_MAX, Span},
    waiters::Waiters,
};
use crate::{
    clock::LogOffset,
    error::{Error, Result},
    ids::Stamp,
    latency::{Latencies, LatencyRecorder},
    sync::{AtomicU64, Mutex, Ordering},
};

/// The log of a database.
pub(crate) struct Log {
    pub(super) space: LogSpace,
    pub(super) ring: Ring,
    pub(super) files: Arc<SegmentFiles>,
    pub(super) waiters: Waiters,
    /// How far commits count as durable at all, and which threads and tasks wait for that: no bound, unless commits are
    /// held until a carrier has them elsewhere ([`CommitHold`](crate::CommitHold)).
    pub(super) held: Waiters,
    /// The position from which on the log is kept until commits are held.
    kept_from: AtomicU64,
    /// The threads that wait for more of the durable log.
    pub(crate) readers: Readers,
    pub(crate) chains: Chains,
    pub(crate) room: Room,
    /// Announcements of the flusher itself.
    pub(super) clock_filling: Arc<Filling>,
    /// Announcements of threads that note the time on request.
    moment_filling: Mutex<Arc<Filling>>,
    /// Announcements of threads that mark safe snapshots.
    mark_filling: Mutex<Arc<Filling>>,
    /// The end of the last block that marks a safe snapshot.
    marked_to: AtomicU64,
    bytes: AtomicU64,
    flushes: LatencyRecorder,
    /// Sequence number of the first segment that has no file yet.
    first_new: u64,
    pub(super) stop: AtomicBool,
    failure: OnceLock<Arc<str>>,
    /// The flusher has ended by a failure: nothing is written any more. A log that refuses commits still has one.
    flusher_failed: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The state from which a log continues.
pub(crate) struct Start {
    /// Segments that have files, oldest first.
    pub(crate) segments: Vec<Span>,
    /// Sequence number and offset of the next segment.
    pub(crate) sequence: u64,
    pub(crate) offset: u64,
    pub(crate) segment_bytes: u64,
    pub(crate) buffer_bytes: u64,
}

impl Log {
    /// Starts a log that continues as `start` says, with its flusher.
    pub(crate) fn start(files: Arc<SegmentFiles>, offset: Arc<LogOffset>, start: Start) -> Result<Arc<Self>> {
        let Start { mut segments, sequence, offset: from, segment_bytes, buffer_bytes } = start;
        let segment_bytes = segment_bytes.next_multiple_of(GRANULE).min(SEGMENT_BYTES_MAX);
        segments.push(Span { sequence, start: from, end: from + segment_bytes });
        let ring = Ring::new(buffer_bytes, from / PAGE_BYTES * PAGE_BYTES);
        let ring = ring.map_err(|_| Error::Limit("memory: the system refused to reserve the log buffer"))?;
        let space = LogSpace::new(offset, segments, segment_bytes);
        let log = Arc::new(Self {
            clock_filling: space.join(),
            moment_filling: Mutex::new(space.join()),
            mark_filling: Mutex::new(space.join()),
            marked_to: AtomicU64::new(0),
            space,
            ring,
            room: Room::new(files.directory().clone(), segment_bytes),
            files,
            waiters: Waiters::new(from),
            held: Waiters::new(u64::MAX),
            kept_from: AtomicU64::new(u64::MAX),
            readers: Readers::new(),
            chains: Chains::new(),
            bytes: AtomicU64::new(0),
            flushes: LatencyRecorder::new(),
            first_new: sequence,
            stop: AtomicBool::new(false),
            failure: OnceLock::new(),
            flusher_failed: AtomicBool::new(false),
            thread: Mutex::new(None),
        });
        let flusher = Flusher::new(log.clone());
        let thread = thread::Builder::new().name("ermine-log".into()).spawn(move || flusher.run());
        let thread = thread.map_err(|_| Error::Limit("threads: the log's flusher could not start"))?;
        *log.thread() = Some(thread);
        Ok(log)
    }

    fn thread(&self) -> impl std::ops::DerefMut<Target = Option<JoinHandle<()>>> {
        self.thread.lock().expect("no code panics while it holds the thread")
    }

    /// Makes everything durable and ends the flusher. No transaction commits any more.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.wake_flusher();
        // Not in the condition: the lock would be held until the thread has ended.
        let thread = self.thread().take();
        if let Some(thread) = thread {
            // A panic of the flusher has been printed already; there is nothing to save.
            let _ = thread.join();
        }
    }

    /// Returns a new worker's handle to the log.
    pub(crate) fn join(&self) -> Position {
        let draft = Draft::of_log(self.ring.bytes());
        Position { filling: self.space.join(), draft, blobs: Vec::new(), sealed: None, piece: None }
    }

    /// Returns the offset up to which the log is durable.
    pub(crate) fn durable(&self) -> u64 {
        self.waiters.durable()
    }

    /// Counts a flush that took `took` to write and sync `bytes`.
    pub(super) fn count_flush(&self, bytes: u64, took: Duration) {
        // Relaxed: statistics.
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.flushes.record(took);
    }

    /// Returns the number of bytes written so far, and the times of the flushes.
    pub(crate) fn written(&self) -> (u64, Latencies) {
        (self.bytes.load(Ordering::Relaxed), self.flushes.read())
    }

    /// Whether the log is durable beyond `offset`.
    pub(crate) fn is_durable(&self, offset: u64) -> bool {
        offset < self.durable()
    }

    /// Whether the log is durable beyond `offset`, here and where commits are held for.
    pub(crate) fn is_settled(&self, offset: u64) -> bool {
        self.is_durable(offset) && offset < self.held.durable()
    }

    /// Waits until the log is durable beyond `offset`, here and where commits are held for.
    pub(crate) fn settle(&self, offset: u64) -> Result<()> {
        self.wait(offset)?;
        self.held.block(offset, || self.is_settled(offset) || self.failure.get().is_some());
        if self.is_settled(offset) { Ok(()) } else { Err(self.broken()) }
    }

    /// Holds the commits beyond an offset from now on; those below it are let go. `u64::MAX`: none is held any more.
    pub(crate) fn hold_beyond(&self, offset: u64) {
        self.held.publish(offset);
        // Release: what finds no such position any more finds the hold.
        self.kept_from.store(u64::MAX, Ordering::Release);
        self.readers.wake();
    }

    /// Keeps the log from a position on, until commits are held.
    pub(crate) fn keep_from(&self, position: u64) {
        // Relaxed: no other thread has the log yet that removes files of it.
        self.kept_from.store(position, Ordering::Relaxed);
    }

    /// Returns the position from which on the log is kept for what carries it elsewhere; `u64::MAX`: nothing does.
    pub(crate) fn kept_from(&self) -> u64 {
        // Acquire: pairs with the store in `hold_beyond`.
        let kept = self.kept_from.load(Ordering::Acquire);
        kept.min(self.held_from())
    }

    /// Returns the place from which on commits are held; `u64::MAX`: none is.
    pub(crate) fn held_from(&self) -> u64 {
        self.held.durable()
    }

    /// Returns the bytes of the log that are durable here and for which commits are held, if any are held.
    pub(crate) fn held_bytes(&self) -> Option<u64> {
        let from = self.held_from();
        (from != u64::MAX).then(|| self.durable().saturating_sub(from))
    }

    /// Waits until the log is durable beyond `offset`, here.
    pub(crate) fn wait(&self, offset: u64) -> Result<()> {
        if !self.is_durable(offset) {
            let mut woken = false;
            self.waiters.block(offset, || {
                let done = self.is_durable(offset) || self.failure.get().is_some();
                if !done && !woken {
                    // After the first call the thread is in the list.
                    woken = true;
                } else if !done {
                    self.wake_flusher();
                }
                done
            });
        }
        if self.is_durable(offset) { Ok(()) } else { Err(self.broken()) }
    }

    /// Waits until everything that has been committed is durable: it lies below the current offset.
    pub(crate) fn sync(&self) -> Result<()> {
        self.settle(self.space.now() - 1)
    }

    /// Makes the flusher check for waiters.
    pub(crate) fn wake_flusher(&self) {
        if self.waiters.is_flusher_resting() || self.stop.load(Ordering::SeqCst) {
            self.thread().iter().for_each(|thread| thread.thread().unpark());
        }
    }

    /// Whether the log is being stopped: then nothing waits for room.
    pub(super) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Keeps room in reserve for the next segment: a larger one where there is room for that, else one of the usual
    /// size.
    pub(crate) fn keep_room(&self) {
        let bytes = |is_sparing, ahead| self.space.next_bytes(is_sparing, ahead) + 2 * PAGE_BYTES;
        self.space.spare(!self.room.keep(bytes(false, 0), bytes(true, 0), bytes(true, 1)));
    }

    /// Fails when the log is broken.
    pub(crate) fn check(&self) -> Result<()> {
        if self.failure.get().is_some() { Err(self.broken()) } else { Ok(()) }
    }

    fn broken(&self) -> Error {
        Error::Poisoned(self.failure.get().cloned().unwrap_or_else(|| "it was closed".into()))
    }

    /// Marks the log as permanently broken.
    pub(crate) fn fail(&self, why: &str) {
        if self.refuse(why) {
            ::log::error!(
                "the log is broken, and nothing can be committed any more until the database is opened again: {why}"
            );
        }
    }

    /// Marks the log as permanently broken: nothing is written any more. For the flusher's thread.
    pub(super) fn fail_flusher(&self, why: &str) {
        // SeqCst: pairs with the load in `fill`, which nothing else orders.
        self.flusher_failed.store(true, Ordering::SeqCst);
        self.fail(why);
    }

    /// Refuses commits from now on, and those that are not durable yet; returns whether nothing did before.
    pub(crate) fn refuse(&self, why: &str) -> bool {
        let is_first = self.failure.set(why.into()).is_ok();
        self.waiters.wake_all();
        self.held.wake_all();
        self.readers.wake();
        is_first
    }

    /// As [`Log::wait`], but fails while the log waits for room on the device: the caller may free some.
    pub(crate) fn wait_or_fail(&self, offset: u64) -> Result<()> {
        if !self.is_durable(offset) {
            // The flusher flushes sooner where a thread waits.
            self.waiters.enlist(offset, Waker::noop().clone());
        }
        while !self.is_durable(offset) {
            self.check()?;
            self.room.check_waiting()?;
            self.wake_flusher();
            thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }

    /// Waits for room in the buffer, before other transactions can come to wait for this one.
    fn wait_for_room(&self, bytes: u64) -> Result<()> {
        // At most half of the buffer, so that the rest of a page that is written again fits, and that a block finds
        // room under load, too.
        assert!(bytes <= self.ring.bytes() / 2, "a block of {bytes} bytes: long values go to files of their own");
        while self.space.now() + bytes > self.ring.free_to() {
            self.check()?;
            self.room.check_waiting()?;
            self.wake_flusher();
            thread::sleep(Duration::from_micros(50));
        }
        Ok(())
    }

    /// Whether a segment had a file when the log was started.
    pub(super) fn existed(&self, span: &Span) -> bool {
        span.sequence < self.first_new
    }

    /// Puts a block into the log.
    pub(crate) fn append(&self, filling: &Filling, body: Body<'_>) -> Lsn {
        let sealed = body.seal();
        let piece = self.claim(filling, body.size());
        self.fill(piece, sealed, body);
        self.space.filled(filling);
        piece.lsn
    }

    /// Notes the time after everything that has been committed, for restores to a point in time.
    pub(crate) fn note_moment(&self) {
        let filling = self.moment_filling.lock().expect("no code panics while it notes the time");
        self.append(&filling, Moment::from(SystemTime::now()).body());
    }

    /// As [`Log::note_moment`], but does nothing if it would have to wait.
    #[cfg(not(shuttle))]
    pub(crate) fn try_note_moment(&self) {
        let filling = self.moment_filling.lock().expect("no code panics while it notes the time");
        self.try_append(&filling, Moment::from(SystemTime::now()).body());
    }

    /// Marks the place of a safe snapshot, if that is possible at once; returns whether it is the end of the log.
    /// `renew` makes a snapshot of the place that the function takes.
    pub(crate) fn try_mark(&self, renew: impl FnOnce(&mut dyn FnMut() -> Option<Stamp>) -> Option<Stamp>) -> bool {
        let filling = self.mark_filling.lock().expect("no code panics while it marks a snapshot");
        let now = self.space.now();
        if now == self.marked_to() {
            return true;
        }
        let moment = Moment::from(SystemTime::now()).safe();
        let (body, free_to, mut piece) = (moment.body(), self.ring.free_to(), None);
        let sealed = body.seal();
        renew(&mut || {
            piece = self.space.try_claim(&filling, body.size(), free_to);
            piece.map(|piece| piece.lsn.stamp())
        });
        let Some(piece) = piece else {
            if self.space.now() == now && now + 2 * body.size() <= free_to {
                // Neither another thread nor the buffer was in the way: the segment is full. This opens the next one.
                self.append(&filling, moment.plain().body());
            }
            return false;
        };
        self.fill(piece, sealed, body);
        // Relaxed: the flusher may note the time once more.
        self.marked_to.store(piece.lsn.offset() + piece.size, Ordering::Relaxed);
        self.space.filled(&filling);
        true
    }

    /// Returns the end of the last block that marks a safe snapshot.
    pub(super) fn marked_to(&self) -> u64 {
        // Relaxed: one caller holds the lock under which it is stored; the flusher may note the time once more.
        self.marked_to.load(Ordering::Relaxed)
    }

    /// As [`Log::append`], but returns `None` if it would have to wait.
    pub(super) fn try_append(&self, filling: &Filling, body: Body<'_>) -> Option<Lsn> {
        let piece = self.space.try_claim(filling, body.size(), self.ring.free_to())?;
        self.fill(piece, body.seal(), body);
        self.space.filled(filling);
        Some(piece.lsn)
    }

    fn claim(&self, filling: &Filling, size: u64) -> Piece {
        let close = |piece: Piece| self.fill(piece, Sealed::skip(piece.size), Body::nothing());
        self.space.claim(filling, size, close)
    }

    /// Copies a block into its piece, once there is room.
    fn fill(&self, piece: Piece, sealed: Sealed, body: Body<'_>) {
        let header = sealed.place(body.descriptors, piece.lsn, self.durable());
        let mut at = piece.lsn.offset();
        for part in [&header, body.descriptors, body.payload, body.padding()] {
            // A skip's piece is longer than its content: only the content needs room.
            while at + part.len() as u64 > self.ring.free_to() {
                // Not before: a log that only refuses commits is still written, and what is claimed has to be filled.
                if self.flusher_failed.load(Ordering::SeqCst) {
                    return;
                }
                self.wake_flusher();
                thread::sleep(Duration::from_micros(20));
            }
            // SAFETY: the piece is the caller's, and below `free_to`.
            unsafe { self.ring.fill(at, part) };
            at += part.len() as u64;
        }
    }

    /// Whether so many segments are live that the oldest should be freed soon.
    pub(crate) fn is_crowded(&self) -> bool {
        self.space.segments().len() >= SEGMENTS * 9 / 16
    }

    /// Frees and returns the segments that end at or below `offset`: they are no longer live, and nothing reads them.
    pub(crate) fn free_below(&self, offset: u64) -> Vec<Span> {
        self.space.free_below(offset)
    }

    /// Returns the place of an offset in the log, if it lies in a live segment.
    pub(crate) fn lsn_at(&self, offset: u64) -> Option<Lsn> {
        self.space.find(offset).map(|span| span.lsn(offset))
    }

    /// Returns the live segments, oldest first.
    pub(crate) fn segments(&self) -> Vec<Span> {
        self.space.segments()
    }
}

/// A worker's handle to the log: the blocks of its transaction, and the piece that they get.
pub(crate) struct Position {
    filling: Arc<Filling>,
    pub(crate) draft: Draft,
    /// Large values that the transaction has written to files of their own.
    pub(crate) blobs: Vec<u64>,
    sealed: Option<Sealed>,
    piece: Option<Piece>,
}

impl Position {
    /// Hands the full block out as an overflow block.
    pub(crate) fn spill(&mut self, log: &Log) -> Result<()> {
        if !self.draft.is_chain() {
            log.chains.open(self.owner(), log.space.offset());
        }
        self.draft.chain();
        let body = self.draft.body(BlockKind::Overflow);
        log.wait_for_room(body.size())?;
        let lsn = log.append(&self.filling, body);
        self.draft.spilled(lsn);
        Ok(())
    }

    /// Completes the draft, and waits for room.
    pub(crate) fn seal(&mut self, log: &Log) -> Result<()> {
        self.draft.chain();
        let body = self.draft.body(BlockKind::Commit);
        self.sealed = Some(body.seal());
        log.wait_for_room(body.size())
    }

    /// Takes the place of the commit block, and with it the transaction's stamp.
    pub(crate) fn claim(&mut self, log: &Log) -> Stamp {
        let piece = log.claim(&self.filling, self.draft.body(BlockKind::Commit).size());
        self.piece = Some(piece);
        piece.lsn.stamp()
    }

    /// Fills the piece with the commit block.
    pub(crate) fn fill(&mut self, log: &Log) {
        let sealed = self.sealed.take().expect("a draft is sealed before it is placed");
        if let Some(piece) = self.piece.take() {
            log.fill(piece, sealed, self.draft.body(BlockKind::Commit));
            log.space.filled(&self.filling);
            if self.draft.is_chain() {
                log.chains.end(self.owner(), Some((piece.lsn.stamp(), self.draft.parts(piece.lsn))));
            }
        }
        self.draft.end();
    }

    /// Gives up the transaction: before it claimed its place, or with a piece that is then filled with a skip.
    pub(crate) fn skip(&mut self, log: &Log) {
        self.sealed = None;
        if let Some(piece) = self.piece.take() {
            log.fill(piece, Sealed::skip(piece.size), Body::nothing());
            log.space.filled(&self.filling);
        }
        if self.draft.is_chain() {
            log.chains.end(self.owner(), None);
        }
    }

    /// Returns a number that distinguishes the chain of this worker's transaction from others.
    fn owner(&self) -> usize {
        Arc::as_ptr(&self.filling).addr()
    }
}

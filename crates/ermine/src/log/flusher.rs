//! The thread that takes the log from the ring to its files.
//!
//! It writes everything that is filled, syncs, and says how far the log is durable; what was filled meanwhile is the next
//! round. So commits are grouped by what the device can do, without a timer: a lone commit is flushed at once, and the more
//! come, the more share a sync. While nobody waits, it lets some gather.
//!
//! Invariants
//! 1. *In order.* A round begins where the one before ended, and ends before the next begins.
//! 2. *Durable after sync.* `durable` rises to the end of a round after all files that the round wrote to have been synced,
//!    and the name of a new file before anything in it counts.
//! 3. *Once broken, always broken.* After an operation that failed nothing is written and nothing becomes durable any more:
//!    what the failed one left behind is not known (a sync that fails may have dropped what it was to write).

use std::{
    io,
    sync::{Arc, atomic::Ordering},
    thread,
    time::{Duration, SystemTime},
};

use super::{
    Log,
    block::{BlockKind, Body},
    space::{PAGE_BYTES, Span},
};
use crate::platform::file::File;

/// How long commits gather while nobody waits for one.
const GATHER: Duration = Duration::from_millis(10);
/// Between two moments in the log, if anything was committed in between.
const CLOCK_INTERVAL: Duration = Duration::from_millis(10);
/// Written at a time, so that the ring is freed bit by bit.
const WRITE_BYTES: u64 = 1 << 20;

/// What the thread keeps between rounds.
pub(super) struct Flusher {
    log: Arc<Log>,
    /// Up to where everything is durable.
    from: u64,
    /// The segment that was written last, and its file.
    current: Option<(Span, Arc<dyn File>)>,
    /// The last page of a round.
    page: Box<Page>,
    /// When the last moment was noted, and where its block ends.
    last_moment: Option<(SystemTime, u64)>,
}

/// A flusher that panics leaves a log that is broken, not one that is waited for.
struct BrokenByPanic(Arc<Log>);

impl Drop for BrokenByPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.fail(&io::Error::other("the thread that writes it has panicked"));
        }
    }
}

/// A page, where the device can take it from.
#[repr(align(4096))]
struct Page([u8; PAGE_BYTES as usize]);

impl Flusher {
    pub(super) fn new(log: Arc<Log>) -> Self {
        let from = log.durable();
        // What recovery found needs no moment: there was one behind it, or its process was killed.
        let last_moment = Some((SystemTime::UNIX_EPOCH, from));
        Self { log, from, current: None, page: Box::new(Page([0; PAGE_BYTES as usize])), last_moment }
    }

    /// Flushes until told to stop, and then what is left.
    pub(super) fn run(mut self) {
        let _broken = BrokenByPanic(self.log.clone());
        loop {
            // Before the look at what is filled: who has committed before asking to stop is flushed.
            let stop = self.log.stop.load(Ordering::SeqCst);
            self.note_moment();
            let to = self.log.space.filled_to();
            let due = to > self.from && (stop || !self.log.waiters.is_empty() || self.is_much(to));
            if due {
                if let Err(error) = self.flush(to) {
                    self.log.fail(&error);
                    return;
                }
            } else if stop {
                return;
            } else {
                self.rest(to);
            }
        }
    }

    fn is_much(&self, to: u64) -> bool {
        to - self.from >= self.log.ring.bytes() / 4
    }

    /// Until there is something to do, or what has gathered is due.
    fn rest(&mut self, to: u64) {
        self.log.resting.store(true, Ordering::SeqCst);
        // Whoever begins to wait after this look sees that the flusher rests, and wakes it.
        if self.log.waiters.is_empty() && !self.log.stop.load(Ordering::SeqCst) {
            thread::park_timeout(GATHER);
        }
        self.log.resting.store(false, Ordering::SeqCst);
        if to > self.from
            && self.log.waiters.is_empty()
            && let Err(error) = self.flush(to)
        {
            self.log.fail(&error);
        }
    }

    /// Puts the time into the log, for restores to a moment: while commits go on every so often, and once behind the last.
    fn note_moment(&mut self) {
        let now = SystemTime::now();
        if let Some((last, end)) = self.last_moment
            && (self.log.space.filled_to() == end
                || now.duration_since(last).is_ok_and(|passed| passed < CLOCK_INTERVAL))
        {
            return;
        }
        let micros = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64);
        let body = Body { kind: BlockKind::Clock, descriptors: &[], payload: &micros.to_le_bytes() };
        // Not when the ring is so full that the flusher would wait for itself.
        if self.log.has_room(body.size() * 2)
            && let Some(lsn) = self.log.append(&self.log.clock_filling, body)
        {
            self.last_moment = Some((now, lsn.offset() + body.size()));
        }
    }

    /// Makes everything below `to` durable.
    fn flush(&mut self, to: u64) -> io::Result<()> {
        let (mut at, mut bytes) = (self.from, 0);
        while at < to {
            let span = self.span_at(at)?;
            let start = at.max(span.start);
            let end = to.min(span.end);
            if start < end {
                self.write(span, start, end)?;
                bytes += end - start;
            }
            at = end.max(start);
            if end == span.end {
                // What follows is a gap: the next segment's start says how long.
                at = self.next_start(&span, to);
            }
            self.log.ring.wrote(at.min(to) / PAGE_BYTES * PAGE_BYTES);
        }
        if let Some((_, file)) = &self.current {
            file.sync()?;
        }
        self.from = to;
        self.log.count_flush(bytes);
        self.log.set_durable(to);
        Ok(())
    }

    /// The segment in which, or after a gap behind `at`, the log goes on.
    fn span_at(&self, at: u64) -> io::Result<Span> {
        if let Some((span, _)) = &self.current
            && span.start <= at
            && at < span.end
        {
            return Ok(*span);
        }
        let found = self.log.space.segments().into_iter().find(|span| at < span.end);
        found.ok_or_else(|| io::Error::other("the log has no segment for what has been filled"))
    }

    fn next_start(&self, span: &Span, to: u64) -> u64 {
        let mut segments = self.log.space.segments().into_iter();
        let next = segments.find(|next| next.sequence == span.sequence + 1);
        next.map_or(to, |next| next.start.min(to))
    }

    /// Writes whole pages, from whole pages of the ring, so that the device can take them from there. The last one is mostly not
    /// full: what there is of it is written with zeros behind, and stays in the ring to be written again with the next round.
    fn write(&mut self, span: Span, start: u64, end: u64) -> io::Result<()> {
        let file = self.file(span)?;
        let whole = end / PAGE_BYTES * PAGE_BYTES;
        let mut at = start / PAGE_BYTES * PAGE_BYTES;
        while at < whole {
            // SAFETY: below `filled_to`, and not freed before `wrote`; nor is what is below `start` in its page, which was written
            // before, or lies in front of the segment and is nobody's.
            let bytes = unsafe { self.log.ring.filled(at, whole.min(at + WRITE_BYTES)) };
            file.write_at(span.position(at), bytes)?;
            at += bytes.len() as u64;
            self.log.ring.wrote(at);
        }
        if at < end {
            // SAFETY: as above.
            let bytes = unsafe { self.log.ring.filled(at, end) };
            self.page.0[..bytes.len()].copy_from_slice(bytes);
            self.page.0[bytes.len()..].fill(0);
            file.write_at(span.position(at), &self.page.0)?;
        }
        Ok(())
    }

    /// The file of a segment. What was written to the one before is synced first: its round ends here.
    fn file(&mut self, span: Span) -> io::Result<Arc<dyn File>> {
        if let Some((current, file)) = &self.current {
            if *current == span {
                return Ok(file.clone());
            }
            file.sync()?;
        }
        let file = if self.log.existed(&span) { self.log.files.get(&span)? } else { self.log.files.create(&span)? };
        self.current = Some((span, file.clone()));
        Ok(file)
    }
}

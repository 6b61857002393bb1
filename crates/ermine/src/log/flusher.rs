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
//! 4. *The flusher waits for nobody's flush.* Where the buffer is too full for a block of its own it flushes what is below;
//!    whoever has claimed that fills it, for which he needs nothing but the room that this makes.
//! 5. *A clean stop ends with a proof.* The last block of a log that was stopped says that everything before it is durable:
//!    what is damaged later is not taken for torn.

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
    /// When the last moment was noted.
    last_moment: SystemTime,
    /// Where its block ends.
    moment_end: u64,
    /// Where a block ends that says that everything before it is durable.
    proven: u64,
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
        let page = Box::new(Page([0; PAGE_BYTES as usize]));
        let last_moment = SystemTime::UNIX_EPOCH;
        Self { log, from, current: None, page, last_moment, moment_end: from, proven: from }
    }

    /// Flushes until told to stop, and then what is left.
    pub(super) fn run(mut self) {
        let log = self.log.clone();
        let _broken = BrokenByPanic(log.clone());
        while log.check().is_ok() {
            // Before the look at what is filled: who has committed before asking to stop is flushed.
            let stop = log.stop.load(Ordering::SeqCst);
            if stop && self.from == self.proven && log.space.filled_to() == self.proven {
                return;
            }
            if let Err(error) = self.round(stop) {
                log.fail(&error);
            }
        }
    }

    fn round(&mut self, stop: bool) -> io::Result<()> {
        self.note_moment(stop);
        let to = self.log.space.filled_to();
        let due = to > self.from && (stop || !self.log.waiters.is_empty() || self.is_much(to));
        if due {
            self.flush(to)
        } else if !stop {
            self.rest(to)
        } else {
            Ok(())
        }
    }

    fn is_much(&self, to: u64) -> bool {
        to - self.from >= self.log.ring.bytes() / 4
    }

    /// Until there is something to do, or what has gathered is due.
    fn rest(&mut self, to: u64) -> io::Result<()> {
        self.log.resting.store(true, Ordering::SeqCst);
        // Whoever begins to wait after this look sees that the flusher rests, and wakes it.
        if self.log.waiters.is_empty() && !self.log.stop.load(Ordering::SeqCst) {
            thread::park_timeout(GATHER);
        }
        self.log.resting.store(false, Ordering::SeqCst);
        if to > self.from && self.log.waiters.is_empty() { self.flush(to) } else { Ok(()) }
    }

    /// Puts the time into the log, for restores to a moment: while commits go on every so often, and once behind the last
    /// (invariant 5).
    fn note_moment(&mut self, stop: bool) {
        let now = SystemTime::now();
        let filled = self.log.space.filled_to();
        let due = if stop {
            filled == self.from
        } else {
            filled != self.moment_end
                && now.duration_since(self.last_moment).map_or(true, |passed| passed >= CLOCK_INTERVAL)
        };
        if !due {
            return;
        }
        let micros = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64);
        let body = Body { kind: BlockKind::Clock, descriptors: &[], payload: &micros.to_le_bytes() };
        let log = self.log.clone();
        let from = self.from;
        let placed = log.append_making_room(&log.clock_filling, body, &mut || self.make_room());
        if let Some(lsn) = placed {
            (self.last_moment, self.moment_end) = (now, lsn.offset() + body.size());
            if lsn.offset() == from {
                self.proven = self.moment_end;
            }
        }
    }

    /// Invariant 4.
    fn make_room(&mut self) {
        let to = self.log.space.filled_to();
        if to == self.from {
            // Others are filling what is below.
            thread::yield_now();
        } else if let Err(error) = self.flush(to) {
            self.log.fail(&error);
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

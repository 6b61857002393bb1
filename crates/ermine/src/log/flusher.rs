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
//!    what the failed one left behind is not known (a sync that fails may have dropped what it was to write). The thread ends
//!    with the first failure, also with a panic of its own, and all who wait are told.
//! 4. *It waits for nobody.* All wait for it. What it puts into the log itself therefore takes a place only where that needs
//!    neither room in the ring nor a new segment, and else is left for the next round.

use std::{
    io,
    ops::Range,
    sync::{Arc, atomic::Ordering},
    thread,
    time::{Duration, SystemTime},
};

use super::{
    Log,
    block::{BlockKind, Body},
    space::Span,
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
    /// When the last moment was noted.
    last_moment: SystemTime,
    /// Where its block ends.
    last_moment_end: u64,
}

/// Tells those who wait when the thread panics.
struct Watch(Arc<Log>);

impl Drop for Watch {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.fail("its flusher panicked");
        }
    }
}

impl Flusher {
    pub(super) fn new(log: Arc<Log>) -> Self {
        let from = log.durable();
        // What recovery found needs no moment: there was one behind it, or its process was killed.
        Self { log, from, current: None, last_moment: SystemTime::UNIX_EPOCH, last_moment_end: from }
    }

    /// Flushes until told to stop, and then what is left.
    pub(super) fn run(mut self) {
        let watch = Watch(self.log.clone());
        if let Err(error) = self.flush_until_stopped() {
            watch.0.fail(&error.to_string());
        }
    }

    fn flush_until_stopped(&mut self) -> io::Result<()> {
        loop {
            // Before the look at what is filled: who has committed before asking to stop is flushed.
            let stop = self.log.stop.load(Ordering::SeqCst);
            self.note_moment(stop);
            let to = self.log.space.filled_to();
            if to > self.from && (stop || !self.log.waiters.is_empty() || self.is_much(to)) {
                self.flush(to)?;
            } else if stop {
                return Ok(());
            } else {
                self.rest(to)?;
            }
        }
    }

    fn is_much(&self, to: u64) -> bool {
        to - self.from >= self.log.ring.bytes() / 4
    }

    /// Until there is something to do, or what has gathered is due.
    fn rest(&mut self, to: u64) -> io::Result<()> {
        if self.log.waiters.begin_rest() {
            if !self.log.stop.load(Ordering::SeqCst) {
                thread::park_timeout(GATHER);
            }
        } else if to <= self.from {
            // What they wait for has been claimed and not filled yet: by a thread that may want this core.
            thread::yield_now();
        }
        self.log.waiters.end_rest();
        if to > self.from && self.log.waiters.is_empty() { self.flush(to) } else { Ok(()) }
    }

    /// Puts the time into the log, for restores to a moment: while commits go on every so often, and once behind the `last`.
    fn note_moment(&mut self, last: bool) {
        let now = SystemTime::now();
        if self.log.space.filled_to() == self.last_moment_end
            || !last && now.duration_since(self.last_moment).is_ok_and(|passed| passed < CLOCK_INTERVAL)
        {
            return;
        }
        let micros = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64);
        let body = Body { kind: BlockKind::Clock, descriptors: &[], payload: &micros.to_le_bytes() };
        if let Some(lsn) = self.log.try_append(&self.log.clock_filling, body) {
            (self.last_moment, self.last_moment_end) = (now, lsn.offset() + body.size());
        }
    }

    /// Makes everything below `to` durable.
    fn flush(&mut self, to: u64) -> io::Result<()> {
        for (span, stretch) in self.log.space.stretches(self.from..to) {
            // Before it there may have been a gap.
            self.log.ring.wrote(stretch.start);
            self.write(span, stretch)?;
        }
        self.log.ring.wrote(to);
        if let Some((_, file)) = &self.current {
            file.sync()?;
        }
        self.from = to;
        self.log.waiters.publish(to);
        Ok(())
    }

    fn write(&mut self, span: Span, stretch: Range<u64>) -> io::Result<()> {
        let file = self.file(span)?;
        let mut at = stretch.start;
        while at < stretch.end {
            // SAFETY: below `filled_to`, and not freed before `wrote`.
            let bytes = unsafe { self.log.ring.filled(at, stretch.end.min(at + WRITE_BYTES)) };
            file.write_at(at - span.start, &bytes)?;
            at += bytes.len() as u64;
            self.log.ring.wrote(at);
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

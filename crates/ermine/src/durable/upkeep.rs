//! State about checkpoints from one to the next, shared by both families of schemes.

#[cfg(not(shuttle))]
use std::time::Instant;
use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

#[cfg(not(shuttle))]
use crate::error::{Error, Result};
use crate::{durable::checkpoint::CheckpointReport, latency::LatencyRecorder, statistics::Statistics};

/// How many checkpoints were made and what they freed, how the last attempt ended, how far the current one is, and
/// whether it may still be gentle. Counts are relaxed: statistics.
#[derive(Default)]
pub(crate) struct Upkeep {
    hurry: AtomicBool,
    made: LatencyRecorder,
    /// Rows that the current one has passed, and one more; 0: none is being made.
    passed: AtomicU64,
    moved_rows: AtomicU64,
    moved_bytes: AtomicU64,
    freed_segments: AtomicU64,
    failure: Mutex<Option<String>>,
    /// Earliest time of the next attempt.
    #[cfg(not(shuttle))]
    next: Mutex<Option<Instant>>,
}

/// A checkpoint that is being made.
pub(crate) struct InProgress<'u>(&'u Upkeep);

impl Drop for InProgress<'_> {
    fn drop(&mut self) {
        self.0.passed.store(0, Ordering::Relaxed);
    }
}

impl Upkeep {
    /// Notes that a checkpoint is being made.
    pub(crate) fn begin(&self) -> InProgress<'_> {
        self.passed.store(1, Ordering::Relaxed);
        InProgress(self)
    }

    /// Notes that the checkpoint has passed some more rows.
    pub(crate) fn passes(&self, rows: u64) {
        self.passed.fetch_add(rows, Ordering::Relaxed);
    }

    /// Asks the thread that makes a checkpoint to hurry.
    pub(crate) fn hurry(&self) {
        self.hurry.store(true, Ordering::Relaxed);
    }

    /// Whether a caller waits for the checkpoint that is being made.
    pub(crate) fn is_hurried(&self) -> bool {
        self.hurry.load(Ordering::Relaxed)
    }

    /// Counts a checkpoint that took `took`.
    pub(crate) fn count(&self, took: Duration) {
        self.made.record(took);
    }

    /// Counts what a checkpoint has freed.
    pub(crate) fn cleaned(&self, report: &CheckpointReport) {
        self.moved_rows.fetch_add(report.moved, Ordering::Relaxed);
        self.moved_bytes.fetch_add(report.moved_bytes, Ordering::Relaxed);
        self.freed_segments.fetch_add(report.freed_segments, Ordering::Relaxed);
    }

    /// Makes a checkpoint that is due, or wanted for the room that it frees, after a pause since the last one. After a
    /// failure the pause is at least as long as the failed attempt took, so that attempts do not keep the device busy.
    /// A failure for lack of room is no error: after the pause the next attempt follows.
    #[cfg(not(shuttle))]
    pub(crate) fn try_one(
        &self,
        is_due: bool,
        frees_room: bool,
        make: impl FnOnce() -> Result<CheckpointReport>,
    ) -> Result<()> {
        /// Shortest pause between checkpoints.
        const PAUSE: Duration = Duration::from_millis(250);
        let next = || self.next.lock().expect("no code panics while it holds the time");
        if !(is_due || frees_room) || next().is_some_and(|next| next > Instant::now()) {
            return Ok(());
        }
        let began = Instant::now();
        let made = make();
        let failure = made.as_ref().err().map(ToString::to_string);
        let mut last = self.failure.lock().expect("no code panics while it holds the failure");
        if let Some(failure) = failure.as_ref().filter(|_| last.is_none()) {
            ::log::warn!("a checkpoint failed, it is tried again: {failure}");
        }
        last.clone_from(&failure);
        drop(last);
        let now = Instant::now();
        *next() = Some(now + if failure.is_some() { PAUSE.max(now - began) } else { PAUSE });
        match made {
            Err(Error::DiskFull(_)) => Ok(()),
            made => made.map(drop),
        }
    }

    /// Adds what is known about checkpoints.
    pub(crate) fn tell(&self, statistics: &mut Statistics) {
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        statistics.checkpoints = self.made.read();
        statistics.checkpoint_failure = self.failure.lock().expect("no code panics while it holds the failure").clone();
        statistics.checkpoint_rows = count(&self.passed).checked_sub(1);
        statistics.moved_rows = count(&self.moved_rows);
        statistics.moved_bytes = count(&self.moved_bytes);
        statistics.freed_segments = count(&self.freed_segments);
    }
}

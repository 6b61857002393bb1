//! State about checkpoints from one to the next, shared by both families of schemes.

#[cfg(not(shuttle))]
use std::time::Instant;
use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::latency::{Latencies, LatencyRecorder};
#[cfg(not(shuttle))]
use crate::{
    durable::checkpoint::CheckpointReport,
    error::{Error, Result},
};

/// How many checkpoints were made, how the last attempt ended, and whether the current one may still be gentle.
#[derive(Default)]
pub(crate) struct Upkeep {
    hurry: AtomicBool,
    made: LatencyRecorder,
    failure: Mutex<Option<String>>,
    /// Earliest time of the next attempt.
    #[cfg(not(shuttle))]
    next: Mutex<Option<Instant>>,
}

impl Upkeep {
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

    /// The times of the checkpoints made, and why the last one failed, if it did.
    pub(crate) fn statistics(&self) -> (Latencies, Option<String>) {
        let failure = self.failure.lock().expect("no code panics while it holds the failure").clone();
        (self.made.read(), failure)
    }
}

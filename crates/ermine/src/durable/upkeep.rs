//! What is known of checkpoints from one to the next, whatever they are made of.

use std::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
};
#[cfg(not(shuttle))]
use std::time::{Duration, Instant};

#[cfg(not(shuttle))]
use crate::{durable::checkpoint::CheckpointReport, error::Result};

/// How often checkpoints were made, how the last attempt ended, and whether they may still be gentle.
#[derive(Default)]
pub(crate) struct Upkeep {
    hurry: AtomicBool,
    made: AtomicU64,
    failure: Mutex<Option<String>>,
    /// When the last attempt ended.
    #[cfg(not(shuttle))]
    ended: Mutex<Option<Instant>>,
}

impl Upkeep {
    /// Whoever makes one need not be gentle any more.
    pub(crate) fn hurry(&self) {
        self.hurry.store(true, Ordering::Relaxed);
    }

    /// Whether somebody waits for the one that is being made.
    pub(crate) fn is_hurried(&self) -> bool {
        self.hurry.load(Ordering::Relaxed)
    }

    /// Whether one may be tried for the room that it frees: some time after the last attempt.
    #[cfg(not(shuttle))]
    pub(crate) fn may_try_for_room(&self) -> bool {
        const PAUSE: Duration = Duration::from_millis(250);
        let ended = self.ended.lock().expect("no code panics while it looks at the time");
        ended.is_none_or(|ended| ended.elapsed() >= PAUSE)
    }

    /// One has been made.
    pub(crate) fn count(&self) {
        self.made.fetch_add(1, Ordering::Relaxed);
    }

    /// One that was due has been tried.
    #[cfg(not(shuttle))]
    pub(crate) fn tried(&self, made: Result<CheckpointReport>) -> Result<()> {
        let failure = made.as_ref().err().map(ToString::to_string);
        let mut last = self.failure.lock().expect("no code panics while it holds the failure");
        if let Some(failure) = failure.as_ref().filter(|_| last.is_none()) {
            ::log::warn!("a checkpoint failed, the next one is tried in some seconds: {failure}");
        }
        *last = failure;
        drop(last);
        *self.ended.lock().expect("no code panics while it looks at the time") = Some(Instant::now());
        made.map(drop)
    }

    /// How many have been made, and why the last one failed, if it did.
    pub(crate) fn statistics(&self) -> (u64, Option<String>) {
        let failure = self.failure.lock().expect("no code panics while it holds the failure").clone();
        (self.made.load(Ordering::Relaxed), failure)
    }
}

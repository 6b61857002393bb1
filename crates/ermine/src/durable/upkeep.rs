//! What is known of checkpoints from one to the next, whatever they are made of.

use std::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
};
#[cfg(not(shuttle))]
use std::time::{Duration, Instant};

#[cfg(not(shuttle))]
use crate::{
    durable::checkpoint::CheckpointReport,
    error::{Error, Result},
};

/// How often checkpoints were made, how the last attempt ended, and whether they may still be gentle.
#[derive(Default)]
pub(crate) struct Upkeep {
    hurry: AtomicBool,
    made: AtomicU64,
    failure: Mutex<Option<String>>,
    /// When another one may be tried.
    #[cfg(not(shuttle))]
    next: Mutex<Option<Instant>>,
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

    /// One has been made.
    pub(crate) fn count(&self) {
        self.made.fetch_add(1, Ordering::Relaxed);
    }

    /// Makes one that is due, or wanted for the room that it frees, some time after the last one: after a failure as long as that took, so that
    /// attempts do not keep the device busy. A failure for want of room is no error: the next attempt comes soon.
    #[cfg(not(shuttle))]
    pub(crate) fn try_one(
        &self,
        is_due: bool,
        frees_room: bool,
        make: impl FnOnce() -> Result<CheckpointReport>,
    ) -> Result<()> {
        /// From one to the next, at least.
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
            ::log::warn!("a checkpoint failed, the next one is tried in some seconds: {failure}");
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

    /// How many have been made, and why the last one failed, if it did.
    pub(crate) fn statistics(&self) -> (u64, Option<String>) {
        let failure = self.failure.lock().expect("no code panics while it holds the failure").clone();
        (self.made.load(Ordering::Relaxed), failure)
    }
}

//! Idle workers of a database.
//!
//! A worker holds the private state of a transaction; it belongs to one transaction at a time, not to a thread, and
//! waits here in between. A thread mostly gets the worker that it used last, with its memory and counters still in the
//! core's cache.

use crate::sync::{Mutex, home_of_thread};

/// Idle workers, each in a place with a lock of its own, so that threads do not contend.
pub(crate) struct WorkerPool<W> {
    places: Box<[Place<W>]>,
    overflow: Mutex<Vec<Box<W>>>,
}

/// A place for one worker, on a cache line of its own.
#[repr(align(128))]
struct Place<W>(Mutex<Option<Box<W>>>);

impl<W> WorkerPool<W> {
    const PLACES: usize = if cfg!(shuttle) { 4 } else { 64 };

    pub(crate) fn new() -> Self {
        Self { places: (0..Self::PLACES).map(|_| Place(Mutex::new(None))).collect(), overflow: Mutex::new(Vec::new()) }
    }

    fn places_from_home(&self) -> impl Iterator<Item = &Place<W>> {
        let home = home_of_thread();
        (0..Self::PLACES).map(move |step| &self.places[(home + step) % Self::PLACES])
    }

    /// Takes an idle worker, mostly the one that this thread used last.
    pub(crate) fn take(&self) -> Option<Box<W>> {
        let idle = self.places_from_home().find_map(|place| place.0.try_lock().ok()?.take());
        idle.or_else(|| self.overflow.lock().ok()?.pop())
    }

    /// Returns a worker to the pool.
    pub(crate) fn give(&self, worker: Box<W>) {
        for place in self.places_from_home() {
            if let Ok(mut place) = place.0.try_lock()
                && place.is_none()
            {
                *place = Some(worker);
                return;
            }
        }
        self.overflow.lock().expect("no code panics while it holds the pool").push(worker);
    }

    /// Calls `visit` with every idle worker in turn.
    pub(crate) fn for_each_idle(&self, mut visit: impl FnMut(&mut W)) {
        for place in &self.places {
            // Removed for the visit, so that no thread waits for the place.
            let idle = place.0.try_lock().ok().and_then(|mut place| place.take());
            if let Some(mut worker) = idle {
                visit(&mut worker);
                self.give(worker);
            }
        }
        let idle = std::mem::take(&mut *self.overflow.lock().expect("no code panics while it holds the pool"));
        for mut worker in idle {
            visit(&mut worker);
            self.give(worker);
        }
    }
}

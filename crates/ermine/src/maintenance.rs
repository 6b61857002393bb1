//! The background threads of a database: the first advances epochs and frees the garbage of idle workers, the second
//! keeps room on the device, the third makes checkpoints, the fourth evicts rows when memory is short, and the last loads
//! the rows that are in files only.
//!
//! The schedule explorer runs none of them: its tests call `Database::maintain` from one of their tasks.

#[cfg(shuttle)]
pub(crate) use absent::Helpers;
#[cfg(not(shuttle))]
pub(crate) use background::Helpers;

#[cfg(not(shuttle))]
mod background {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering},
        },
        thread::{self, JoinHandle},
        time::Duration,
    };

    use crate::{
        any::{AnyEngine, with_engine},
        durable::eviction::Progress,
        error::{Error, Result},
    };

    /// The background threads.
    pub(crate) struct Helpers {
        stop: Arc<AtomicBool>,
        threads: Vec<JoinHandle<()>>,
    }

    impl Helpers {
        const BUSY_INTERVAL: Duration = Duration::from_millis(5);
        const IDLE_INTERVAL: Duration = Duration::from_millis(100);
        /// Pause after a checkpoint that failed.
        const RETRY_INTERVAL: Duration = Duration::from_secs(10);

        pub(crate) fn start(engine: &Arc<AnyEngine>) -> Result<Self> {
            let mut helpers = Self { stop: Arc::new(AtomicBool::new(false)), threads: Vec::new() };
            helpers.repeat("ermine-maintenance", engine, |engine| {
                let busy = with_engine!(engine, engine => engine.maintain());
                if busy { Self::BUSY_INTERVAL } else { Self::IDLE_INTERVAL }
            })?;
            let chores = with_engine!(&**engine, engine => engine.chores());
            if chores.checkpoints {
                // In a thread apart from checkpoints, which take long.
                helpers.repeat("ermine-room", engine, |engine| {
                    with_engine!(engine, engine => engine.keep_room());
                    Self::IDLE_INTERVAL
                })?;
                helpers.repeat("ermine-checkpoint", engine, |engine| {
                    let made = with_engine!(engine, engine => engine.checkpoint_if_due());
                    if made.is_ok() { Self::IDLE_INTERVAL } else { Self::RETRY_INTERVAL }
                })?;
            }
            if chores.eviction {
                helpers.repeat("ermine-eviction", engine, |engine| {
                    match with_engine!(engine, engine => engine.evict_some(true)) {
                        Progress::Idle => Self::IDLE_INTERVAL,
                        Progress::Waiting => Self::BUSY_INTERVAL,
                        Progress::Evicted => Duration::ZERO,
                    }
                })?;
            }
            if chores.loading {
                let (engine, stop) = (engine.clone(), helpers.stop.clone());
                // A row that the loader cannot read is an error for the transaction that asks for it.
                helpers.spawn("ermine-loader", move || drop(with_engine!(&*engine, engine => engine.load(&stop))))?;
            }
            Ok(helpers)
        }

        /// Runs `work` repeatedly, with the pauses that it returns.
        fn repeat(
            &mut self,
            name: &str,
            engine: &Arc<AnyEngine>,
            work: impl Fn(&AnyEngine) -> Duration + Send + 'static,
        ) -> Result<()> {
            let (engine, stop) = (engine.clone(), self.stop.clone());
            self.spawn(name, move || {
                // Relaxed: unparking orders it.
                while !stop.load(Ordering::Relaxed) {
                    thread::park_timeout(work(&engine));
                }
            })
        }

        fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
            let thread = thread::Builder::new().name(name.into()).spawn(work);
            self.threads.push(thread.map_err(|_| Error::Limit("threads: a background helper could not start"))?);
            Ok(())
        }
    }

    impl Drop for Helpers {
        fn drop(&mut self) {
            self.stop.store(true, Ordering::Relaxed);
            for thread in self.threads.drain(..) {
                thread.thread().unpark();
                // A panic of the helper has been printed; there is nothing to save.
                let _ = thread.join();
            }
        }
    }
}

#[cfg(shuttle)]
mod absent {
    use std::sync::Arc;

    use crate::{any::AnyEngine, error::Result};

    /// The stand-in without threads.
    pub(crate) struct Helpers;

    impl Helpers {
        pub(crate) fn start(_: &Arc<AnyEngine>) -> Result<Self> {
            Ok(Self)
        }
    }
}

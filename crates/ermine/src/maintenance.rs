//! The background thread of a database: it lets epochs go on and frees what idle workers left behind.
//!
//! The schedule explorer runs none: its tests call `Database::maintain` from a task of theirs.

#[cfg(shuttle)]
pub(crate) use absent::Helper;
#[cfg(not(shuttle))]
pub(crate) use background::Helper;

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
        error::{Error, Result},
    };

    /// The thread.
    pub(crate) struct Helper {
        stop: Arc<AtomicBool>,
        thread: JoinHandle<()>,
    }

    impl Helper {
        const BUSY_INTERVAL: Duration = Duration::from_millis(5);
        const IDLE_INTERVAL: Duration = Duration::from_millis(100);

        pub(crate) fn start(engine: Arc<AnyEngine>) -> Result<Self> {
            let stop = Arc::new(AtomicBool::new(false));
            let stopped = stop.clone();
            let work = move || {
                // Relaxed: unparking orders it.
                while !stopped.load(Ordering::Relaxed) {
                    let busy = with_engine!(&*engine, engine => engine.maintain());
                    thread::park_timeout(if busy { Self::BUSY_INTERVAL } else { Self::IDLE_INTERVAL });
                }
            };
            let thread = thread::Builder::new().name("ermine-maintenance".into()).spawn(work);
            let thread = thread.map_err(|_| Error::Limit("threads: the background helper could not start"))?;
            Ok(Self { stop, thread })
        }

        pub(crate) fn stop(self) {
            self.stop.store(true, Ordering::Relaxed);
            self.thread.thread().unpark();
            // A panic of the helper has been printed; there is nothing to save.
            let _ = self.thread.join();
        }
    }
}

#[cfg(shuttle)]
mod absent {
    use std::sync::Arc;

    use crate::{any::AnyEngine, error::Result};

    /// No thread.
    pub(crate) struct Helper;

    impl Helper {
        pub(crate) fn start(_: Arc<AnyEngine>) -> Result<Self> {
            Ok(Self)
        }

        pub(crate) fn stop(self) {}
    }
}

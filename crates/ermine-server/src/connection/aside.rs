//! Where statements run, so that long ones do not stop other connections.
//!
//! Sessions are synchronous, and most statements take microseconds, less than handing them to another thread. So they
//! run on the connection's task, on one of the runtime's threads, and five things keep long ones from getting in the
//! way of others:
//!
//! 1. A statement that is known to be long runs in `block_in_place`, which gives the thread's queue to another thread
//!    first. The backend says so ([`crate::backend::Statement::is_long`], [`crate::backend::Backend::waits`]), or it
//!    took more than [`LONG`] the last time.
//! 2. A statement that turns out to be long does the same in the middle, where the backend calls [`pause`] (see
//!    [`crate::backend::Opening`]), or where its rows fill the output's buffer.
//! 3. A part of a statement that takes long in one piece, a function of large values for one, is handed over by the
//!    backend ([`aside`]) before it begins, and runs in `block_in_place`.
//! 4. A thread that has waited for sockets and then runs a statement leaves no thread waiting for them: tokio wakes a
//!    second thread only for a second task. So a watchdog wakes one while statements run. Without it, one statement
//!    stops all connections, new ones too.
//! 5. There are more threads than cores.
//!
//! Tried and rejected: `block_in_place` for every statement, 23 us of CPU per prepared point query instead of 10
//! (2026-11-22, `tests/all/server/cost.rs`).

use std::{
    cell::Cell,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use tokio::{runtime::Handle, task::block_in_place};

/// A statement that took longer is expected to do so again, and does not run where it could block others.
pub const LONG: Duration = Duration::from_millis(1);

/// Interval of the watchdog's checks. Half of the delay that a client may notice: two checks in a row have to find that
/// no statement has begun, and one has not ended.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// How long a thread waits for another to take over its queue. A statement tries this repeatedly, each time after twice
/// as long: on a crowded machine the other thread may not arrive in time.
const HAND_OVER: Duration = Duration::from_micros(100);
const TRIES: u32 = 20;

thread_local! {
    /// When the statement that runs on this thread began, and how often it has stepped aside.
    static RUNNING: Cell<Option<(Instant, u32)>> = const { Cell::new(None) };
}

/// Counts the statements that run where they could block others, and wakes threads beside them.
#[derive(Default)]
pub struct Watch {
    /// How many run, and how many have begun, in units of [`BEGUN`].
    statements: AtomicU64,
    has_ended: AtomicBool,
}

/// A statement that has begun, in the count.
const BEGUN: u64 = 1 << 32;

struct Run<'a>(&'a Watch);

impl Watch {
    /// Runs a part of a statement that began at `began`.
    #[inline]
    pub fn run<T>(&self, is_long: bool, began: Instant, part: impl FnOnce() -> T) -> T {
        if is_long {
            return block_in_place(part);
        }
        // Relaxed: the watchdog only asks whether there is any.
        self.statements.fetch_add(BEGUN + 1, Ordering::Relaxed);
        RUNNING.set(Some((began, 0)));
        let _run = Run(self);
        part()
    }

    /// Watches over this runtime until [`Watch::end`].
    pub fn start(self: &Arc<Self>) {
        let (watch, runtime) = (self.clone(), Handle::current());
        let watchdog = thread::Builder::new().name("ermined-watch".into()).spawn(move || {
            let mut last = 0;
            while !watch.has_ended.load(Ordering::Relaxed) {
                thread::sleep(LOOK_EVERY);
                let statements = watch.statements.load(Ordering::Relaxed);
                // A thread that runs one short statement after the other looks after the sockets in between (`polling`).
                if std::mem::replace(&mut last, statements) == statements && statements % BEGUN > 0 {
                    // A thread that wakes up without work goes on to wait for sockets.
                    drop(runtime.spawn(async {}));
                }
            }
        });
        if let Err(error) = watchdog {
            log::error!("no watchdog can be started, long statements may stop others: {error}");
        }
    }

    /// Stops the watchdog.
    pub fn end(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }
}

impl Drop for Run<'_> {
    #[inline]
    fn drop(&mut self) {
        RUNNING.set(None);
        self.0.statements.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs a part of a statement that may take long in one piece: another thread has this thread's queue meanwhile.
pub fn aside(part: &mut dyn FnMut()) {
    match RUNNING.take() {
        None => part(),
        Some(running) => {
            block_in_place(part);
            RUNNING.set(Some(running));
        }
    }
}

/// To be called now and then within a statement that may take long, some thousand times a second: lets others run if it
/// does. Outside of a statement it does nothing.
pub fn pause() {
    let Some((began, tries)) = RUNNING.get() else { return };
    if tries < TRIES && began.elapsed() > LONG * (1 << tries) {
        RUNNING.set(Some((began, tries + 1)));
        // Whether another thread has taken over is not reported; if so, the next try does nothing.
        block_in_place(|| thread::sleep(HAND_OVER));
    }
}

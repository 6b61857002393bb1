//! Who uses a table, and who changes what it is.
//!
//! A transaction shares the latch of each table that it uses, from its first use to its end; who changes the table's definition
//! has it alone. Sharing costs one addition to a number that all share: tens of nanoseconds where many threads use one table,
//! once a transaction.
//!
//! Invariants
//! 1. Who shares has announced itself and then seen that nobody is alone; who is alone has said so and then seen that nobody
//!    else shares. Sequentially consistent: one sees the other.
//! 2. Nobody waits for ever: both sides give up after a time.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

/// The latch of one table.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Latch {
    sharing: AtomicU64,
    is_taken: AtomicBool,
}

/// How long waiters sleep between looks: changes of tables are rare, and take long.
const LOOK: Duration = Duration::from_micros(200);

impl Latch {
    /// Begins to share; false: somebody was alone for longer than that.
    pub(crate) fn share(&self, patience: Duration) -> bool {
        // SeqCst, both: invariant 1.
        self.sharing.fetch_add(1, Ordering::SeqCst);
        if !self.is_taken.load(Ordering::SeqCst) {
            return true;
        }
        self.share_slowly(patience)
    }

    #[cold]
    fn share_slowly(&self, patience: Duration) -> bool {
        let since = Instant::now();
        loop {
            self.unshare();
            while self.is_taken.load(Ordering::SeqCst) {
                if since.elapsed() > patience {
                    return false;
                }
                thread::sleep(LOOK);
            }
            self.sharing.fetch_add(1, Ordering::SeqCst);
            if !self.is_taken.load(Ordering::SeqCst) {
                return true;
            }
        }
    }

    /// Shares no more.
    pub(crate) fn unshare(&self) {
        // Release: what was done meanwhile comes before what is done alone.
        self.sharing.fetch_sub(1, Ordering::Release);
    }

    /// Has it alone, beside `own` times that the caller shares it; false: others used the table for longer than that.
    pub(crate) fn take(&self, own: u64, patience: Duration) -> bool {
        let since = Instant::now();
        while self.is_taken.swap(true, Ordering::SeqCst) {
            if since.elapsed() > patience {
                return false;
            }
            thread::sleep(LOOK);
        }
        while self.sharing.load(Ordering::SeqCst) > own {
            if since.elapsed() > patience {
                self.give_back();
                return false;
            }
            thread::sleep(LOOK);
        }
        true
    }

    /// Is alone no more.
    pub(crate) fn give_back(&self) {
        self.is_taken.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    /// Those who share a table add to a number and take it away again; who has it alone finds nothing added, nor while he stays.
    #[test]
    fn who_is_alone_is_alone() {
        let (latch, users, alone) = (Latch::default(), AtomicU64::new(0), AtomicU64::new(0));
        let patience = Duration::from_secs(20);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        assert!(latch.share(patience));
                        users.fetch_add(1, Ordering::Relaxed);
                        thread::yield_now();
                        assert_eq!(alone.load(Ordering::Relaxed), 0);
                        users.fetch_sub(1, Ordering::Relaxed);
                        latch.unshare();
                    }
                });
            }
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        assert!(latch.take(0, patience));
                        assert_eq!(alone.fetch_add(1, Ordering::Relaxed), 0);
                        for _ in 0..20 {
                            thread::yield_now();
                            assert_eq!(users.load(Ordering::Relaxed), 0);
                        }
                        alone.fetch_sub(1, Ordering::Relaxed);
                        latch.give_back();
                    }
                });
            }
        });
        assert_eq!(latch.sharing.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn waiting_ends() {
        let (latch, short) = (Latch::default(), Duration::from_millis(5));
        assert!(latch.share(short));
        assert!(!latch.take(0, short), "somebody else shares it");
        assert!(latch.take(1, short), "only the caller does");
        assert!(!latch.share(short) && !latch.take(1, short), "somebody is alone");
        latch.give_back();
        assert!(latch.share(short));
    }
}

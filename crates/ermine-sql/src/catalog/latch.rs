//! Who uses a table, and who changes what it is.
//!
//! A transaction shares the latch of each table that it uses, from its first use to its end. Sharing costs one addition to a number
//! that all share: tens of nanoseconds where many threads use one table, once a transaction. A change of the table's definition is the only one
//! meanwhile ([`Latch::change`]). Most changes have the table alone besides ([`Latch::take`]); one that is made while others use the table
//! only waits until nobody uses it any more who began before the change was shown ([`Latch::outlast`]).
//!
//! Those who share are counted in two halves. Newcomers go to one of them; who waits for all that were there before turns them to the other
//! one, and waits until the first is empty.
//!
//! Invariants
//! 1. Who shares has announced itself and then seen that nobody is alone; who is alone has said so and then seen that nobody
//!    else shares. Sequentially consistent: one sees the other.
//! 2. Who shares has announced itself and then looks at what the table is; who outlasts others has shown what the table is and then sees that a
//!    half is empty. Sequentially consistent: whoever is not seen there sees what was shown, be it that he comes late to that half.
//! 3. Nobody is alone or outlasts others but who changes the table, so the halves are turned by one at a time.
//! 4. Who shares waits for a bounded time, and so does who takes; waits of changes end when their callers say so.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

/// The latch of one table.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Latch {
    /// How many share, by halves.
    sharing: [AtomicU64; 2],
    /// Where newcomers go.
    half: AtomicUsize,
    is_taken: AtomicBool,
    is_changing: AtomicBool,
}

/// One share of a latch: in which half it is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "it is given back with `unshare`"]
pub(crate) struct Share(usize);

/// How long waiters sleep between looks: changes of tables are rare, and take long.
const LOOK: Duration = Duration::from_micros(200);
/// The longer they have waited already, up to this.
const LOOK_MAX: Duration = Duration::from_millis(2);

/// Waits for something, as long as the caller does not break off.
fn wait<E>(is_there: impl Fn() -> bool, go_on: &mut dyn FnMut() -> Result<(), E>) -> Result<(), E> {
    let mut sleep = LOOK;
    while !is_there() {
        go_on()?;
        thread::sleep(sleep);
        sleep = LOOK_MAX.min(sleep * 2);
    }
    Ok(())
}

impl Latch {
    /// Begins to share; `None`: somebody was alone for longer than that.
    pub(crate) fn share(&self, patience: Duration, pause: fn()) -> Option<Share> {
        let share = self.announce();
        if !self.is_taken.load(Ordering::SeqCst) {
            return Some(share);
        }
        self.share_slowly(share, patience, pause)
    }

    /// Is counted.
    fn announce(&self) -> Share {
        // Relaxed: whoever comes late to a half is no harm (invariant 2).
        let half = self.half.load(Ordering::Relaxed);
        // SeqCst: invariants 1 and 2.
        self.sharing[half].fetch_add(1, Ordering::SeqCst);
        Share(half)
    }

    #[cold]
    fn share_slowly(&self, mut share: Share, patience: Duration, pause: fn()) -> Option<Share> {
        let since = Instant::now();
        loop {
            self.unshare(share);
            while self.is_taken.load(Ordering::SeqCst) {
                if since.elapsed() > patience {
                    return None;
                }
                pause();
                thread::sleep(LOOK);
            }
            share = self.announce();
            if !self.is_taken.load(Ordering::SeqCst) {
                return Some(share);
            }
        }
    }

    /// Shares no more.
    pub(crate) fn unshare(&self, share: Share) {
        // Release: what was done meanwhile comes before what is done alone.
        self.sharing[share.0].fetch_sub(1, Ordering::Release);
    }

    /// Becomes the only one who changes the table, when the one before has ended; until [`Latch::end_change`].
    pub(crate) fn change<E>(&self, go_on: &mut dyn FnMut() -> Result<(), E>) -> Result<(), E> {
        // Acquire: pairs with `end_change`; the one before is done.
        wait(|| !self.is_changing.swap(true, Ordering::Acquire), go_on)
    }

    pub(crate) fn end_change(&self) {
        self.is_changing.store(false, Ordering::Release);
    }

    /// Has it alone, beside `own` times that the caller shares it; false: others used the table for longer than that. Called by who changes
    /// the table.
    pub(crate) fn take(&self, own: u64, patience: Duration) -> bool {
        let since = Instant::now();
        // SeqCst: invariant 1.
        self.is_taken.store(true, Ordering::SeqCst);
        let others = || self.sharing.iter().map(|half| half.load(Ordering::SeqCst)).sum::<u64>() > own;
        let done = wait(|| !others(), &mut || if since.elapsed() > patience { Err(()) } else { Ok(()) });
        if done.is_err() {
            self.give_back();
        }
        done.is_ok()
    }

    /// Is alone no more.
    pub(crate) fn give_back(&self) {
        self.is_taken.store(false, Ordering::Release);
    }

    /// Waits until all have ended who share it now; who begins meanwhile is not waited for. Called by who changes the table.
    pub(crate) fn outlast<E>(&self, go_on: &mut dyn FnMut() -> Result<(), E>) -> Result<(), E> {
        let before = self.half.load(Ordering::Relaxed);
        // SeqCst: invariant 2. It also comes after what those did who are gone (`unshare`).
        let is_empty = |half: usize| self.sharing[half].load(Ordering::SeqCst) == 0;
        // Whoever broke off such a wait has left others there.
        wait(|| is_empty(1 - before), go_on)?;
        self.half.store(1 - before, Ordering::Relaxed);
        wait(|| is_empty(before), go_on)
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
                        let share = latch.share(patience, || {}).unwrap();
                        users.fetch_add(1, Ordering::Relaxed);
                        thread::yield_now();
                        assert_eq!(alone.load(Ordering::Relaxed), 0);
                        users.fetch_sub(1, Ordering::Relaxed);
                        latch.unshare(share);
                    }
                });
            }
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        latch.change(&mut || Ok::<_, ()>(())).unwrap();
                        assert!(latch.take(0, patience));
                        assert_eq!(alone.fetch_add(1, Ordering::Relaxed), 0);
                        for _ in 0..20 {
                            thread::yield_now();
                            assert_eq!(users.load(Ordering::Relaxed), 0);
                        }
                        alone.fetch_sub(1, Ordering::Relaxed);
                        latch.give_back();
                        latch.end_change();
                    }
                });
            }
        });
        assert!(latch.sharing.iter().all(|half| half.load(Ordering::Relaxed) == 0));
    }

    /// What is outlasted are those who may not have seen what was shown before: whoever shares and has not seen it is gone afterwards.
    #[test]
    fn who_is_outlasted_is_gone() {
        let (latch, shown, unaware) = (Latch::default(), AtomicU64::new(0), [const { AtomicU64::new(0) }; 101]);
        let patience = Duration::from_secs(20);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while shown.load(Ordering::SeqCst) < 100 {
                        let share = latch.share(patience, || {}).unwrap();
                        // All that are shown later are not known.
                        let known = shown.load(Ordering::SeqCst) as usize;
                        unaware[known].fetch_add(1, Ordering::SeqCst);
                        thread::yield_now();
                        unaware[known].fetch_sub(1, Ordering::SeqCst);
                        latch.unshare(share);
                    }
                });
            }
            for next in 1..=100 {
                shown.store(next, Ordering::SeqCst);
                latch.outlast(&mut || Ok::<_, ()>(())).unwrap();
                assert!(unaware[..next as usize].iter().all(|users| users.load(Ordering::SeqCst) == 0));
            }
        });
    }

    #[test]
    fn waiting_ends() {
        let (latch, short) = (Latch::default(), Duration::from_millis(5));
        let own = latch.share(short, || {}).unwrap();
        assert!(!latch.take(0, short), "another session shares it");
        assert!(latch.take(1, short), "only the caller does");
        assert_eq!(latch.share(short, || {}), None, "another session is alone");
        latch.give_back();
        assert_eq!(latch.outlast(&mut || Err("enough")), Err("enough"), "another session shares it");
        let later = latch.share(short, || {}).unwrap();
        assert_eq!(latch.outlast(&mut || Err("enough")), Err("enough"), "the same, though that wait was broken off");
        latch.unshare(own);
        assert_eq!(latch.outlast(&mut || Err("enough")), Err("enough"), "another session came later");
        latch.unshare(later);
        assert_eq!(latch.outlast(&mut || Err("enough")), Ok(()));
        assert_eq!(latch.change(&mut || Err("enough")), Ok(()));
        assert_eq!(latch.change(&mut || Err("enough")), Err("enough"), "another session changes it");
        latch.end_change();
        assert_eq!(latch.change(&mut || Err("enough")), Ok(()));
    }
}

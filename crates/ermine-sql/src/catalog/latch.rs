//! The latch of a table: transactions that use the table share it, and a change of the table's definition takes it.
//!
//! A transaction shares the latch of each table that it uses, from its first use to its end. Sharing costs one addition
//! to a shared counter, once a transaction: tens of nanoseconds where many threads use one table. Changes of the
//! table's definition exclude each other ([`Latch::change`]). Most changes also have the table alone ([`Latch::take`]);
//! a change that runs while transactions use the table only waits until all those that began before the change was
//! published have ended ([`Latch::outlast`]).
//!
//! Sharing transactions are counted in two halves. New ones enter one of them; a thread that waits for all existing
//! ones redirects new ones to the other half, and waits until the first is empty.
//!
//! Invariants
//! 1. A sharing transaction announces itself, and then sees that no change has the table alone; a change that takes the
//!    table announces that, and then sees that no other transaction shares it. Sequentially consistent: one sees the
//!    other.
//! 2. A sharing transaction announces itself, and then reads the table's definition; a change that outlasts the others
//!    publishes the definition, and then sees that a half is empty. Sequentially consistent: a transaction that is not
//!    seen in the half sees the published definition, even if it enters that half late.
//! 3. Only the change that holds the right to change the table takes the latch or outlasts others, so one thread at a
//!    time switches the halves.
//! 4. All waits end when their callers say so; those that wait look at least every two milliseconds.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    thread,
    time::Duration,
};

/// The latch of one table.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Latch {
    /// The number of sharing transactions, by halves.
    sharing: [AtomicU64; 2],
    /// The half that new ones enter.
    half: AtomicUsize,
    is_taken: AtomicBool,
    is_changing: AtomicBool,
}

/// One share of a latch: the half that it is counted in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "it is given back with `unshare`"]
pub(crate) struct Share(usize);

/// The time that waiters sleep between checks: changes of tables are rare, and take long.
const LOOK: Duration = Duration::from_micros(200);
/// The sleep grows with the time waited, up to this.
const LOOK_MAX: Duration = Duration::from_millis(2);

/// Waits until `is_there` returns true, unless `go_on` fails.
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
    /// Begins to share, unless a change has the table alone or waits for that.
    #[inline]
    pub(crate) fn try_share(&self) -> Option<Share> {
        let share = self.announce();
        if !self.is_taken.load(Ordering::SeqCst) {
            return Some(share);
        }
        self.unshare(share);
        None
    }

    /// Counts the caller as sharing.
    fn announce(&self) -> Share {
        // Relaxed: entering a half late does no harm (invariant 2).
        let half = self.half.load(Ordering::Relaxed);
        // SeqCst: invariants 1 and 2.
        self.sharing[half].fetch_add(1, Ordering::SeqCst);
        Share(half)
    }

    /// Begins to share when no change has the table alone.
    #[cold]
    pub(crate) fn share<E>(&self, go_on: &mut dyn FnMut() -> Result<(), E>) -> Result<Share, E> {
        loop {
            if let Some(share) = self.try_share() {
                return Ok(share);
            }
            wait(|| !self.is_taken.load(Ordering::SeqCst), go_on)?;
        }
    }

    /// Stops sharing.
    pub(crate) fn unshare(&self, share: Share) {
        // Release: the work done while sharing comes before the work of the change that has the table alone.
        self.sharing[share.0].fetch_sub(1, Ordering::Release);
    }

    /// Waits until the previous change has ended, and excludes other changes until [`Latch::end_change`].
    pub(crate) fn change<E>(&self, go_on: &mut dyn FnMut() -> Result<(), E>) -> Result<(), E> {
        // Acquire: pairs with `end_change`; the previous change is done.
        wait(|| !self.is_changing.swap(true, Ordering::Acquire), go_on)
    }

    pub(crate) fn end_change(&self) {
        self.is_changing.store(false, Ordering::Release);
    }

    /// Takes the table alone when only the caller's `own` shares are left. The caller is the change of the table.
    pub(crate) fn take<E>(&self, own: u64, go_on: &mut dyn FnMut() -> Result<(), E>) -> Result<(), E> {
        // SeqCst: invariant 1.
        self.is_taken.store(true, Ordering::SeqCst);
        let others = || self.sharing.iter().map(|half| half.load(Ordering::SeqCst)).sum::<u64>() > own;
        wait(|| !others(), go_on).inspect_err(|_| self.give_back())
    }

    /// Lets other transactions share the table again.
    pub(crate) fn give_back(&self) {
        self.is_taken.store(false, Ordering::Release);
    }

    /// Waits until all transactions that share the table now have ended, but not for those that begin meanwhile. The
    /// caller is the change of the table.
    pub(crate) fn outlast<E>(&self, go_on: &mut dyn FnMut() -> Result<(), E>) -> Result<(), E> {
        let before = self.half.load(Ordering::Relaxed);
        // SeqCst: invariant 2. It also comes after the work of the transactions that have ended (`unshare`).
        let is_empty = |half: usize| self.sharing[half].load(Ordering::SeqCst) == 0;
        // A wait that was broken off has left transactions in this half.
        wait(|| is_empty(1 - before), go_on)?;
        self.half.store(1 - before, Ordering::Relaxed);
        wait(|| is_empty(before), go_on)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    fn go_on() -> Result<(), &'static str> {
        Ok(())
    }

    fn enough() -> Result<(), &'static str> {
        Err("enough")
    }

    /// Sharing threads add to a number and subtract again; a thread that has the latch alone finds nothing added, at
    /// any time.
    #[test]
    fn who_is_alone_is_alone() {
        let (latch, users, alone) = (Latch::default(), AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        let share = latch.share(&mut go_on).unwrap();
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
                        latch.change(&mut go_on).unwrap();
                        latch.take(0, &mut go_on).unwrap();
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

    /// A change outlasts all threads that may not have seen what was published before: threads that share and have not
    /// seen it are gone afterwards.
    #[test]
    fn who_is_outlasted_is_gone() {
        let (latch, shown, unaware) = (Latch::default(), AtomicU64::new(0), [const { AtomicU64::new(0) }; 101]);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while shown.load(Ordering::SeqCst) < 100 {
                        let share = latch.share(&mut go_on).unwrap();
                        // Values published later are not known.
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
                latch.outlast(&mut go_on).unwrap();
                assert!(unaware[..next as usize].iter().all(|users| users.load(Ordering::SeqCst) == 0));
            }
        });
    }

    #[test]
    fn waiting_ends() {
        let latch = Latch::default();
        let own = latch.share(&mut enough).unwrap();
        assert_eq!(latch.take(0, &mut enough), Err("enough"), "another session shares it");
        assert_eq!(latch.take(1, &mut enough), Ok(()), "only the caller does");
        assert_eq!(latch.share(&mut enough), Err("enough"), "another session is alone");
        latch.give_back();
        assert_eq!(latch.outlast(&mut enough), Err("enough"), "another session shares it");
        let later = latch.share(&mut enough).unwrap();
        assert_eq!(latch.outlast(&mut enough), Err("enough"), "the same, though that wait was broken off");
        latch.unshare(own);
        assert_eq!(latch.outlast(&mut enough), Err("enough"), "another session came later");
        latch.unshare(later);
        assert_eq!(latch.outlast(&mut enough), Ok(()));
        assert_eq!(latch.change(&mut enough), Ok(()));
        assert_eq!(latch.change(&mut enough), Err("enough"), "another session changes it");
        latch.end_change();
        assert_eq!(latch.change(&mut enough), Ok(()));
    }
}

//! Growing by one bucket, which takes over half of the range of another.

use super::{Bucket, Guard, Hash, LeafChange, LeafPtr, Ordering};
use crate::sync::Spin;

impl Hash {
    /// Adds a bucket, unless another thread is about to; returns what happened to the bucket that was split.
    #[cold]
    pub(super) fn grow(&self, guard: &Guard<'_>) -> Option<LeafChange> {
        // Acquire pairs with the Release store below: the previous growth is complete.
        if self.growing.swap(1, Ordering::Acquire) == 1 {
            return None;
        }
        let count = self.count.load(Ordering::Relaxed);
        let level = count.ilog2();
        let bucket = self.bucket(count - (1 << level));
        debug_assert_eq!(bucket.level(), level);
        let mut spin = Spin::default();
        let mut lock = loop {
            match bucket.coverage.version.try_lock() {
                Some(lock) => break lock,
                None => spin.wait(),
            }
        };
        // A part of the range leaves the bucket (invariant 1).
        lock.bump_phantom();
        let (gap, removed) = bucket.coverage.stamps(&lock);
        let new = Bucket::new(level + 1, lock.phantoms().1, gap, removed);
        for entry in bucket.raise_level(guard) {
            new.push(entry, guard);
        }
        // Buckets are allocated in chunks of increasing size, each with a word that says whether it exists.
        guard.allocated(size_of::<Bucket>() + 8);
        let at = self.buckets.push(new);
        assert_eq!(at as u64, count, "buckets are added one at a time");
        // Release pairs with the Acquire load of `try_find`: the bucket exists.
        self.count.store(count + 1, Ordering::Release);
        let mut change = LeafChange::by(&bucket.coverage, &lock);
        change.split = Some((LeafPtr::of(&self.bucket(count).coverage), change.after));
        drop(lock);
        self.growing.store(0, Ordering::Release);
        Some(change)
    }
}

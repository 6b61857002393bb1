//! Removal of a key that no transaction can see any more.

use super::{Guard, Hash, KeyHash, RowId, Stamp, Torn, bucket::LookupKey};

impl Hash {
    /// See [`Index::remove_if`](crate::index::Index::remove_if).
    pub(crate) fn remove_if(
        &self,
        guard: &Guard<'_>,
        key: &[u8],
        row: RowId,
        gap: Stamp,
        removed: Stamp,
        still: impl FnOnce() -> bool,
    ) -> bool {
        let hash = KeyHash::of(key);
        let sought = LookupKey::new(key, hash);
        let mut still = Some(still);
        loop {
            if let Ok(done) = self.try_remove(guard, hash, sought, row, (gap, removed), &mut still) {
                return done;
            }
        }
    }

    fn try_remove(
        &self,
        guard: &Guard<'_>,
        hash: KeyHash,
        sought: LookupKey<'_>,
        row: RowId,
        (gap, removed): (Stamp, Stamp),
        still: &mut Option<impl FnOnce() -> bool>,
    ) -> Result<bool, Torn> {
        let at = self.try_find(hash)?;
        let found = at.bucket.find(sought, &at.still())?.filter(|&(_, found)| found == row);
        at.believed()?;
        let Some((place, _)) = found else { return Ok(false) };
        let lock = at.bucket.coverage.version.lock(at.seen).ok_or(Torn)?;
        let still = still.take().expect("asked once: the lock is not given up before the removal is done or refused");
        if !still() {
            lock.release_unchanged();
            return Ok(false);
        }
        at.bucket.coverage.raise(gap, removed, &lock);
        let entry = at.bucket.swap_remove(place, guard);
        // SAFETY: just removed, under the lock.
        unsafe { entry.retire(guard) };
        Ok(true)
    }
}

//! Removal of a key that no transaction can see any more.

use super::{
    At, BTree,
    key::{KEY_LENGTH_MAX, LongKey},
    node::Target,
    version::Torn,
};
use crate::{
    epoch::Guard,
    ids::{RowId, Stamp},
};

impl BTree {
    /// See [`Index::remove_if`](crate::index::Index::remove_if).
    pub(in crate::index) fn remove_if(
        &self,
        guard: &Guard<'_>,
        key: &[u8],
        row: RowId,
        gap: Stamp,
        removed: Stamp,
        still: impl FnOnce() -> bool,
    ) -> bool {
        debug_assert!(key.len() <= KEY_LENGTH_MAX);
        let mut still = Some(still);
        loop {
            if let Ok(done) = self.try_remove(guard, key, row, (gap, removed), &mut still) {
                return done;
            }
        }
    }

    fn try_remove(
        &self,
        guard: &Guard<'_>,
        key: &[u8],
        row: RowId,
        (gap, removed): (Stamp, Stamp),
        still: &mut Option<impl FnOnce() -> bool>,
    ) -> Result<bool, Torn> {
        let at = self.try_descend(guard, Target::At(key), |_| Ok(()))?;
        let place = at.leaf.keys.find(key, &at.still())?;
        let found = place.exact && at.leaf.keys.row(place.index, &at.still())? == row;
        at.believed()?;
        if !found {
            return Ok(false);
        }
        let At { leaf, seen } = at;
        let lock = leaf.version().lock(seen).ok_or(Torn)?;
        let still = still.take().expect("asked once: the lock is not given up before the removal is done or refused");
        if !still() {
            lock.release_unchanged();
            return Ok(false);
        }
        leaf.coverage.raise(gap, removed, &lock);
        let word = leaf.keys.word(place.index);
        leaf.keys.remove(place.index);
        if word.is_long() {
            // SAFETY: just removed from the leaf, under the lock.
            unsafe { LongKey::retire(word.long_pointer(), guard) };
        }
        let emptied = leaf.keys.count() == 0;
        drop(lock);
        if emptied {
            self.unlink_if_empty(guard, key);
        }
        Ok(true)
    }
}

//! Point lookup.

use super::{Art, Lookup, Place, Synchronization, Torn, believed};
use crate::epoch::Guard;

impl<S: Synchronization> Art<S> {
    /// See [`Index::get`](crate::index::Index::get).
    #[inline]
    pub(crate) fn get(&self, guard: &Guard<'_>, key: &[u8]) -> Lookup {
        S::reading(&self.latch, || {
            loop {
                if let Ok(lookup) = self.try_get(guard, key) {
                    return lookup;
                }
            }
        })
    }

    #[inline]
    fn try_get(&self, guard: &Guard<'_>, key: &[u8]) -> Result<Lookup, Torn> {
        let at = self.try_descend(guard, key)?;
        let row = match at.place {
            Place::Apart(_) => None,
            Place::Slot { child, depth, .. } => child.row_of(key, depth, &at.still())?,
        };
        Ok(Lookup { row, seen: believed(at.node, &at.hold)? })
    }
}

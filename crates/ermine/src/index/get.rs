//! Point lookup.

use super::{Index, Lookup, keys::Torn, node::Target};
use crate::epoch::Guard;

impl Index {
    /// The row of `key`, and the observation that it is there or is not. Writes nothing shared, allocates nothing.
    #[inline]
    pub(crate) fn get(&self, guard: &Guard<'_>, key: &[u8]) -> Lookup {
        loop {
            if let Ok(lookup) = self.try_get(guard, key) {
                return lookup;
            }
        }
    }

    #[inline]
    fn try_get(&self, guard: &Guard<'_>, key: &[u8]) -> Result<Lookup, Torn> {
        let at = self.try_descend(guard, Target::At(key), |_| Ok(()))?;
        let place = at.leaf.keys.find(key, &at.still())?;
        let row = if place.exact { Some(at.leaf.keys.row(place.index, &at.still())?) } else { None };
        Ok(Lookup { row, seen: at.believed()? })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{epoch::EpochManager, ids::RowId};

    #[test]
    fn finds_what_was_inserted_and_nothing_else() {
        let epochs = EpochManager::new("test");
        let worker = epochs.join();
        let guard = worker.enter();
        let index = Index::new();
        let keys: [&[u8]; 6] = [b"", b"a", b"ab", b"ab\0", b"abcdefgh", b"abcdefghi"];
        for (row, key) in keys.iter().enumerate() {
            assert_eq!(index.get(&guard, key).row, None);
            index.insert_if_absent(&guard, key, RowId(row as u64));
        }
        for (row, key) in keys.iter().enumerate() {
            assert_eq!(index.get(&guard, key).row, Some(RowId(row as u64)), "{key:?}");
        }
        for absent in [&b"\0"[..], b"b", b"abc", b"ab\0\0", b"abcdefgi", b"abcdefghij", b"abcdefgh\0"] {
            assert_eq!(index.get(&guard, absent).row, None, "{absent:?}");
        }
    }

    #[test]
    fn the_longest_key_works() {
        let epochs = EpochManager::new("test");
        let worker = epochs.join();
        let guard = worker.enter();
        let index = Index::new();
        let long = vec![7; crate::index::KEY_LENGTH_MAX];
        index.insert_if_absent(&guard, &long, RowId(1));
        index.insert_if_absent(&guard, &long[1..], RowId(2));
        assert_eq!(index.get(&guard, &long).row, Some(RowId(1)));
        assert_eq!(index.get(&guard, &long[1..]).row, Some(RowId(2)));
        assert_eq!(index.get(&guard, &long[2..]).row, None);
    }
}

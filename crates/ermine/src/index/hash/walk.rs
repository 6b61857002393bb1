//! All entries, in the order of their hashes read backwards (invariant 4).

use super::{Batch, Guard, Hash, KeyHash, Torn};

impl Hash {
    /// Adds at least `at_least` entries to the batch, those of whole buckets, from a place in the order on; returns the
    /// place where to continue. Entries inserted or removed meanwhile may be met or not; an entry that exists
    /// throughout is met once.
    pub(crate) fn walk(&self, _guard: &Guard<'_>, from: u64, batch: &mut Batch, at_least: usize) -> Option<u64> {
        let mut next = Some(from);
        while let Some(from) = next
            && batch.len() < at_least
        {
            next = loop {
                let known = batch.len();
                match self.try_visit(from, batch) {
                    Ok(next) => break next,
                    Err(Torn) => batch.truncate(known),
                }
            };
        }
        next
    }

    /// Adds the entries of the bucket that has this place.
    fn try_visit(&self, from: u64, batch: &mut Batch) -> Result<Option<u64>, Torn> {
        let at = self.try_find(KeyHash(from.reverse_bits()))?;
        let still = at.still();
        at.bucket.visit(&still, |entry| entry.visit(&still, |key, row| batch.push([key, &[]], row)))?;
        let stretch = 1u64 << (u64::BITS - at.bucket.level());
        at.believed()?;
        debug_assert_eq!(from % stretch, 0, "stretches are only ever cut");
        Ok(from.checked_add(stretch))
    }
}

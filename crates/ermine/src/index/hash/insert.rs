//! Insertion of a key that is not in the index yet.

use super::{Guard, Hash, Insert, Inserted, KEY_LENGTH_MAX, KeyHash, RowId, Torn, assert_row_fits, bucket::LookupKey};

impl Hash {
    /// See [`Index::insert_if_absent`](crate::index::Index::insert_if_absent).
    pub(crate) fn insert_if_absent(&self, guard: &Guard<'_>, key: &[u8], row: RowId) -> Insert {
        assert!(key.len() <= KEY_LENGTH_MAX, "a key of {} bytes is too long for the index", key.len());
        assert_row_fits(row);
        let hash = KeyHash::of(key);
        let sought = LookupKey::new(key, hash);
        loop {
            if let Ok((mut outcome, was_full)) = self.try_insert(guard, hash, sought, row) {
                if let Insert::Done(inserted) = &mut outcome
                    && was_full
                {
                    inserted.growth = self.grow(guard);
                }
                return outcome;
            }
        }
    }

    /// Also returns whether the key was inserted into a full bucket.
    fn try_insert(
        &self,
        guard: &Guard<'_>,
        hash: KeyHash,
        sought: LookupKey<'_>,
        row: RowId,
    ) -> Result<(Insert, bool), Torn> {
        let at = self.try_find(hash)?;
        let coverage = &at.bucket.coverage;
        if let Some((_, existing)) = at.bucket.find(sought, &at.still())? {
            // Transactions that looked before the key was inserted raised the stamp before the insert locked the
            // bucket, or fail.
            let looked = coverage.last_looked();
            at.believed()?;
            return Ok((Insert::Exists(existing, looked), false));
        }
        let mut lock = coverage.version.lock(at.seen).ok_or(Torn)?;
        let inserted = Inserted::begin(coverage, &mut lock);
        let was_full = at.bucket.push(sought.entry(row, guard), guard);
        Ok((Insert::Done(inserted), was_full))
    }
}

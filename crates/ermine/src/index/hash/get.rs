//! Point lookup.

use super::{At, Guard, Hash, KeyHash, Lookup, Torn, bucket::LookupKey};

impl Hash {
    /// See [`Index::get`](crate::index::Index::get).
    #[inline]
    pub(crate) fn get(&self, _guard: &Guard<'_>, key: &[u8]) -> Lookup {
        let hash = KeyHash::of(key);
        let sought = LookupKey::new(key, hash);
        loop {
            if let Ok(lookup) = self.try_find(hash).and_then(|at| at.lookup(sought)) {
                return lookup;
            }
        }
    }

    /// Starts loading the bucket that a key belongs to.
    #[inline]
    pub(crate) fn prefetch(&self, key: &[u8]) {
        // Relaxed: only speed depends on it.
        let number = KeyHash::of(key).bucket_among(self.count.load(super::Ordering::Relaxed));
        if let Some(bucket) = self.buckets.get(number as usize) {
            crate::platform::prefetch::lines(std::ptr::from_ref(bucket).cast(), size_of_val(bucket).div_ceil(64));
        }
    }
}

impl At<'_> {
    #[inline]
    fn lookup(&self, sought: LookupKey<'_>) -> Result<Lookup, Torn> {
        let row = self.bucket.find(sought, &self.still())?.map(|(_, row)| row);
        Ok(Lookup { row, seen: self.believed()? })
    }
}

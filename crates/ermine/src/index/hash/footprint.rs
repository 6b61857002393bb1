//! Memory usage of an index.

use super::{Bucket, Footprint, Guard, Hash, Ordering};

impl Hash {
    /// Walks over all buckets.
    pub(crate) fn footprint(&self, _guard: &Guard<'_>) -> Footprint {
        let mut sum = Footprint::default();
        for number in 0..self.count.load(Ordering::Acquire) {
            let bucket = self.bucket(number);
            let version = &bucket.coverage.version;
            loop {
                let seen = version.observe().expect("buckets do not die");
                let (entries, outside) = (bucket.count(), bucket.bytes_outside(&|| version.is_still(seen)));
                if let Ok((blocks, long_key_bytes)) = outside
                    && version.is_still(seen)
                {
                    let node_bytes = size_of::<Bucket>() + blocks;
                    sum += Footprint { entries, leaves: 1, inner_nodes: 0, node_bytes, long_key_bytes };
                    break;
                }
            }
        }
        sum
    }
}

//! The hash index: finds keys, and maintains no order among them.
//!
//! Linear hashing (Litwin, VLDB 1980): there are between 2^l and 2^(l+1) buckets; a key belongs to the bucket that the
//! last l + 1 bits of its hash number, or the last l where there is no such bucket yet. The index grows by one bucket
//! at a time, which takes half of the keys of one other, whenever an insert finds its bucket full: no thread ever waits
//! for more than that one bucket. Buckets never move and are never removed.
//!
//! Readers write nothing shared. A bucket is a leaf, with versions and stamps; it records how many bits of the hash it
//! uses, so a thread that found it by an old number of buckets detects that under the bucket's version.
//!
//! One file per operation: [`get`], [`insert`] with [`grow`], [`remove`], [`walk`], [`footprint`]; `bucket.rs` has the
//! content of a bucket.
//!
//! Invariants, besides those of every index:
//! 1. A bucket's level and contents change only under its lock. When the level rises, a part of the range leaves the
//!    bucket: the phantom version changes, and the new bucket begins with the old one's stamps.
//! 2. The number of buckets is published before the bucket that was split is unlocked: a thread that finds a bucket
//!    that no longer has a key's range finds the bucket that has it in the next attempt.
//! 3. One thread at a time makes the index grow; it holds one bucket's lock.
//! 4. In the order of hashes read backwards, a bucket's range is one stretch, and splitting cuts it in two (Shalev and
//!    Shavit, "Split-Ordered Lists", JACM 2006). A walk in that order meets each key once, whatever is split meanwhile.
//!
//! An observation becomes void when its bucket is split, also by another transaction's insert into another bucket: that
//! is rare (once per bucket in a doubling), and the leaf set is checked again then. The transaction that inserted is
//! informed of the split, and its own observations stay valid.

mod bucket;
mod footprint;
mod get;
mod grow;
mod insert;
mod remove;
mod walk;

use self::bucket::Bucket;
use super::{
    Footprint, Insert, Inserted, LeafChange, LeafPtr, LeafSeen, LeafVersion, Lookup,
    batch::Batch,
    key::{HEAD, KEY_LENGTH_MAX, LongKey, Word, assert_row_fits, head_of},
    version::{Coverage, Seen, Torn},
};
use crate::{
    epoch::Guard,
    ids::{RowId, Stamp},
    sync::{AtomicU64, Ordering},
};

/// Buckets of an empty index.
const FIRST_BUCKETS: u64 = 8;

/// A concurrent map from key bytes to rows, without order.
pub(crate) struct Hash {
    buckets: boxcar::Vec<Bucket>,
    /// The number of buckets that all threads use.
    count: AtomicU64,
    /// 1 while a thread makes the index grow.
    growing: AtomicU64,
}

/// The hash of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct KeyHash(u64);

/// A bucket, as a reader or writer found it.
struct At<'h> {
    bucket: &'h Bucket,
    seen: Seen,
}

impl Hash {
    /// Creates an empty index.
    pub(crate) fn new() -> Self {
        let level = FIRST_BUCKETS.ilog2();
        let first = || Bucket::new(level, LeafVersion::FIRST, Stamp::ZERO, Stamp::ZERO);
        Self {
            buckets: (0..FIRST_BUCKETS).map(|_| first()).collect(),
            count: AtomicU64::new(FIRST_BUCKETS),
            growing: AtomicU64::new(0),
        }
    }

    fn bucket(&self, number: u64) -> &Bucket {
        self.buckets.get(number as usize).expect("a bucket is there before it is counted")
    }

    /// Returns the bucket that a hash belongs to.
    #[inline]
    fn try_find(&self, hash: KeyHash) -> Result<At<'_>, Torn> {
        // Acquire pairs with the Release store of `grow`: all buckets below the count exist.
        let number = hash.bucket_among(self.count.load(Ordering::Acquire));
        let bucket = self.bucket(number);
        let seen = bucket.coverage.version.observe().expect("buckets do not die");
        if hash.last_bits(bucket.level()) == number { Ok(At { bucket, seen }) } else { Err(Torn) }
    }
}

impl At<'_> {
    fn still(&self) -> impl Fn() -> bool {
        || self.bucket.coverage.version.is_still(self.seen)
    }

    /// Returns the observation, if everything read from the bucket since is consistent.
    #[inline]
    fn believed(&self) -> Result<LeafSeen, Torn> {
        let coverage = &self.bucket.coverage;
        let removed = coverage.removed();
        if !coverage.version.is_still(self.seen) {
            return Err(Torn);
        }
        Ok(LeafSeen { leaf: LeafPtr::of(coverage), version: self.seen.phantom(), removed })
    }
}

impl KeyHash {
    #[inline]
    fn of(key: &[u8]) -> Self {
        const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut hash = SEED ^ key.len() as u64;
        let mut rest = key;
        while rest.len() > HEAD {
            hash = folded(hash ^ head_of(rest), 0xa076_1d64_78bd_642f);
            rest = &rest[HEAD..];
        }
        Self(folded(folded(hash ^ head_of(rest), 0xe703_7ed1_a0b4_28db), SEED))
    }

    #[inline]
    fn last_bits(self, bits: u32) -> u64 {
        self.0 & ((1 << bits) - 1)
    }

    /// Returns the number of the hash's bucket when there are `count`.
    #[inline]
    fn bucket_among(self, count: u64) -> u64 {
        let level = count.ilog2();
        let number = self.last_bits(level + 1);
        if number < count { number } else { self.last_bits(level) }
    }
}

/// Combines both halves of a product: every bit of the result depends on every bit of the factors.
#[inline]
fn folded(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_belongs_to_the_bucket_that_has_taken_it_over() {
        for n in 0..1000u64 {
            let hash = KeyHash::of(&n.to_be_bytes());
            for count in FIRST_BUCKETS..100 {
                let (before, after) = (hash.bucket_among(count), hash.bucket_among(count + 1));
                let split = count - (1 << count.ilog2());
                assert!(before < count);
                assert!(before == after || (before == split && after == count), "{n} {count}: {before} {after}");
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "a statistic over megabytes, and nothing that Miri could find")]
    fn hashes_of_similar_keys_are_spread() {
        for shape in [
            |n: u64| n.to_be_bytes().to_vec(),
            |n: u64| [[0; 30].as_slice(), &n.to_le_bytes()].concat(),
            |n: u64| vec![7; n as usize],
        ] {
            let mut buckets = [0; 64];
            (0..4096).for_each(|n| buckets[KeyHash::of(&shape(n)).last_bits(6) as usize] += 1);
            assert!(buckets.iter().all(|&count| (30..110).contains(&count)), "{buckets:?}");
        }
    }
}

//! The versions that a running transaction may know: those that it has tracked, and those whose values it has lent to the
//! application until it ends.
//!
//! A set of hashes (a Bloom filter with one hash), because a transaction adds to it with every such read, and only
//! eviction asks: a version that seems to be known stays in memory for now. Eviction asks the union of the sets of all
//! running transactions: with n versions in it, one that no transaction knows seems known with a probability of
//! 1 - (1 - 1 / 8192)^n: 1 % with 80, a tenth with 860, half with 5700.
//!
//! Invariants
//! 1. A transaction adds a version in the operation that finds it, and so before that operation leaves its epoch.
//! 2. It clears the set when it has done with all versions. When it reads whole tables, where writers find it without
//!    its bits in versions, it may leave in the set only the versions that it keeps. Only the owner of the worker
//!    writes.

use crate::sync::{AtomicU64, Ordering};

const WORDS: usize = if cfg!(any(loom, shuttle)) { 2 } else { 128 };

/// Returns the word and the bit of a version, given by its address.
fn place(version: usize) -> (usize, u64) {
    let hash = (version as u64 >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    (hash as usize / 64 % WORDS, 1 << (hash % 64))
}

/// The set of one worker's transaction.
pub(crate) struct Known {
    /// A bit for each pair of words: whether it has bits.
    pairs: AtomicU64,
    words: [AtomicU64; WORDS],
}

impl Known {
    pub(crate) fn new() -> Self {
        Self { pairs: AtomicU64::new(0), words: std::array::from_fn(|_| AtomicU64::new(0)) }
    }

    /// Adds a version, given by its address.
    #[inline]
    pub(crate) fn add(&self, version: usize) {
        let (word, bit) = place(version);
        // Relaxed: the owner's own.
        let (pairs, bits) = (self.pairs.load(Ordering::Relaxed), self.words[word].load(Ordering::Relaxed));
        // Release: pairs with `add_to`. A thread that finds what a later transaction of the worker has added comes after
        // the end of the one before, too.
        self.pairs.store(pairs | 1 << (word / 2), Ordering::Release);
        self.words[word].store(bits | bit, Ordering::Release);
    }

    /// Removes all versions.
    #[inline]
    pub(crate) fn clear(&self) {
        let mut pairs = self.pairs.load(Ordering::Relaxed);
        while pairs != 0 {
            let pair = pairs.trailing_zeros() as usize;
            // Release: pairs with `add_to`; a thread that finds the set cleared comes after everything that the
            // transaction has done to the versions.
            self.words[2 * pair].store(0, Ordering::Release);
            self.words[2 * pair + 1].store(0, Ordering::Release);
            pairs &= pairs - 1;
        }
        self.pairs.store(0, Ordering::Release);
    }

    /// Removes the versions other than these, given by their addresses, all of which are in the set.
    pub(crate) fn keep_only(&self, versions: impl Iterator<Item = usize>) {
        let mut kept = KnownToAny::new();
        versions.map(place).for_each(|(word, bit)| kept.0[word] |= bit);
        // Release: as in `clear`. The bits that stay are set all the time.
        self.words.iter().zip(kept.0).for_each(|(word, bits)| word.store(bits, Ordering::Release));
    }

    /// Adds the set to a union.
    pub(crate) fn add_to(&self, union: &mut KnownToAny) {
        let mut pairs = self.pairs.load(Ordering::Acquire);
        while pairs != 0 {
            let pair = pairs.trailing_zeros() as usize;
            for word in [2 * pair, 2 * pair + 1] {
                union.0[word] |= self.words[word].load(Ordering::Acquire);
            }
            pairs &= pairs - 1;
        }
    }
}

/// The union of several such sets, at one moment.
pub(crate) struct KnownToAny([u64; WORDS]);

impl KnownToAny {
    pub(crate) fn new() -> Self {
        Self([0; WORDS])
    }

    /// Whether a version may be in one of them.
    pub(crate) fn may_have(&self, version: usize) -> bool {
        let (word, bit) = place(version);
        self.0[word] & bit != 0
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_known_until_it_is_cleared() {
        let (one, other) = (Known::new(), Known::new());
        let versions: Vec<usize> = (0..80).map(|at| 0x7f00_0000_0000 + at * 264).collect();
        versions.iter().for_each(|version| one.add(*version));
        other.add(0x1000);
        let union = |sets: &[&Known]| {
            let mut union = KnownToAny::new();
            sets.iter().for_each(|set| set.add_to(&mut union));
            union
        };
        let both = union(&[&one, &other]);
        assert!(versions.iter().all(|version| both.may_have(*version)) && both.may_have(0x1000));
        let seems = (0..10_000).filter(|at| both.may_have(0x7f80_0000_0000 + at * 136)).count();
        assert!((20..300).contains(&seems), "{seems} of 10000, where a hundred are expected");
        one.keep_only(versions.iter().copied().step_by(8));
        let rest = union(&[&one, &other]);
        assert!(versions.iter().step_by(8).all(|version| rest.may_have(*version)) && rest.may_have(0x1000));
        assert!(versions.iter().filter(|version| rest.may_have(**version)).count() < 14);
        one.clear();
        let rest = union(&[&one, &other]);
        assert!(rest.may_have(0x1000) && versions.iter().filter(|version| rest.may_have(**version)).count() <= 1);
    }
}

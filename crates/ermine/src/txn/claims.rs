//! Numbers that are handed out, lowest free first, without a lock.

use crate::sync::{AtomicU64, Ordering};

/// The set of numbers in `0..count` that are taken. Claims are made once per lease, not once per transaction.
///
/// Invariant: a number has at most one claimant at a time, and the actions of its last claimant before giving it back
/// happened before its next claim (each word changes by read-modify-writes only, which hand the release on).
pub(crate) struct Claims {
    words: Box<[AtomicU64]>,
    count: usize,
}

impl Claims {
    const PER_WORD: usize = u64::BITS as usize;

    pub(crate) fn new(count: usize) -> Self {
        Self { words: (0..count.div_ceil(Self::PER_WORD)).map(|_| AtomicU64::new(0)).collect(), count }
    }

    /// Claims the lowest free number, unless all are taken.
    pub(crate) fn claim(&self) -> Option<usize> {
        for (index, word) in self.words.iter().enumerate() {
            // Relaxed: the exchange below decides.
            let mut taken = word.load(Ordering::Relaxed);
            while taken != u64::MAX {
                let bit = taken.trailing_ones() as usize;
                let number = index * Self::PER_WORD + bit;
                if number >= self.count {
                    return None;
                }
                // Acquire pairs with the release of `give_back`.
                match word.compare_exchange_weak(taken, taken | 1 << bit, Ordering::AcqRel, Ordering::Relaxed) {
                    Ok(_) => return Some(number),
                    Err(newer) => taken = newer,
                }
            }
        }
        None
    }

    /// Frees a number that the caller claimed.
    pub(crate) fn give_back(&self, number: usize) {
        let bit = 1 << (number % Self::PER_WORD);
        // Release pairs with the acquire of `claim`.
        let taken = self.words[number / Self::PER_WORD].fetch_and(!bit, Ordering::Release);
        assert!(taken & bit != 0, "{number} was given back twice");
    }

    /// Returns the numbers that are claimed now, each read once.
    pub(crate) fn claimed(&self) -> impl Iterator<Item = usize> {
        self.words.iter().enumerate().flat_map(|(index, word)| {
            // Relaxed: a snapshot for statistics.
            let taken = word.load(Ordering::Relaxed);
            (0..Self::PER_WORD).filter(move |bit| taken >> bit & 1 != 0).map(move |bit| index * Self::PER_WORD + bit)
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn lowest_free_first_until_all_are_taken() {
        let claims = Claims::new(70);
        for expected in 0..70 {
            assert_eq!(claims.claim(), Some(expected));
        }
        assert_eq!(claims.claim(), None);
        claims.give_back(65);
        claims.give_back(3);
        assert_eq!(claims.claimed().count(), 68);
        assert_eq!(claims.claim(), Some(3));
        assert_eq!(claims.claim(), Some(65));
        assert_eq!(claims.claim(), None);
    }

    #[test]
    #[should_panic(expected = "given back twice")]
    fn giving_back_twice_is_noticed() {
        let claims = Claims::new(2);
        claims.claim();
        claims.give_back(0);
        claims.give_back(0);
    }
}

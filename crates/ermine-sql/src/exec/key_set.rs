//! Sets of keys: of the groups of a query, of the rows of a hash join, of values that count once.
//!
//! The bytes of all keys are one after the other: a set of a million keys makes a few allocations.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::{
    error::{Result, SqlError, SqlState},
    memory::Kept,
};

/// Bytes that a key takes besides its own: its end in a list of which up to half is empty, and its number in a table of
/// which up to half is empty and that is copied when it grows.
const PLACE: usize = 2 * size_of::<usize>() + 4 * (size_of::<u32>() + 1);

/// A set of keys, which are numbered in the order in which they were added.
#[derive(Default)]
pub(super) struct KeySet {
    bytes: Vec<u8>,
    /// The end of each key; it begins where the one before ends.
    ends: Vec<usize>,
    /// Small, so that it stays in the caches: places and lengths beside the numbers made joins slower by a tenth.
    numbers: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl KeySet {
    /// Returns the number of a key.
    pub(super) fn number(&self, key: &[u8]) -> Option<usize> {
        self.find(self.hasher.hash_one(key), key)
    }

    pub(super) fn contains(&self, key: &[u8]) -> bool {
        self.number(key).is_some()
    }

    /// Adds a key; returns its number, and whether the set lacked it.
    pub(super) fn add(&mut self, key: &[u8], kept: &mut Kept<'_>) -> Result<(usize, bool)> {
        let hash = self.hasher.hash_one(key);
        if let Some(number) = self.find(hash, key) {
            return Ok((number, false));
        }
        kept.add(bytes_of(key))?;
        Ok((self.insert(hash, key)?, true))
    }

    /// Works as `add`, for a key that the caller gives `more` bytes besides; `None`: the set lacks the key, and has no
    /// room for it. The first key is added in any case, if the statement may have the bytes.
    pub(super) fn try_add(
        &mut self,
        key: &[u8],
        more: impl FnOnce() -> usize,
        kept: &mut Kept<'_>,
    ) -> Result<Option<(usize, bool)>> {
        let hash = self.hasher.hash_one(key);
        if let Some(number) = self.find(hash, key) {
            return Ok(Some((number, false)));
        }
        let bytes = bytes_of(key) + more();
        if self.ends.is_empty() {
            kept.add(bytes)?;
        } else if !kept.try_add(bytes) {
            return Ok(None);
        }
        Ok(Some((self.insert(hash, key)?, true)))
    }

    /// Inserts a key that the set lacks; returns its number.
    fn insert(&mut self, hash: u64, key: &[u8]) -> Result<usize> {
        let number = u32::try_from(self.ends.len())
            .map_err(|_| SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "more than 2^32 different keys"))?;
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
        let Self { bytes, ends, numbers, hasher } = self;
        numbers.insert_unique(hash, number, |number| hasher.hash_one(key_at(bytes, ends, *number)));
        Ok(number as usize)
    }

    /// Adds a key; returns whether the set lacked it.
    pub(super) fn is_new(&mut self, key: &[u8], kept: &mut Kept<'_>) -> Result<bool> {
        self.add(key, kept).map(|(_, is_new)| is_new)
    }

    /// Returns a key by its number.
    pub(super) fn key(&self, number: usize) -> &[u8] {
        key_at(&self.bytes, &self.ends, number as u32)
    }

    fn find(&self, hash: u64, key: &[u8]) -> Option<usize> {
        let is_key = |number: &u32| key_at(&self.bytes, &self.ends, *number) == key;
        self.numbers.find(hash, is_key).map(|number| *number as usize)
    }
}

fn bytes_of(key: &[u8]) -> usize {
    2 * key.len() + PLACE
}

fn key_at<'k>(bytes: &'k [u8], ends: &[usize], number: u32) -> &'k [u8] {
    let number = number as usize;
    let start = number.checked_sub(1).map_or(0, |before| ends[before]);
    &bytes[start..ends[number]]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;

    #[test]
    fn keys_have_the_numbers_of_their_order() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let memory = Memory::default();
        let (mut set, mut kept, mut known) = (KeySet::default(), Kept::new(&memory), Vec::<Vec<u8>>::new());
        for _ in 0..3000 {
            let key: Vec<u8> = (0..random.usize(..4)).map(|_| random.u8(..6)).collect();
            let expected = known.iter().position(|other| *other == key);
            assert_eq!(set.number(&key), expected);
            let added = set.add(&key, &mut kept).unwrap();
            assert_eq!(added, (expected.unwrap_or(known.len()), expected.is_none()));
            if expected.is_none() {
                known.push(key);
            }
        }
    }
}

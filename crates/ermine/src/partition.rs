//! The mapping from a key to its partition of the database, as the application defines it.

use std::{fmt, sync::Arc};

use crate::{
    error::Result,
    types::{Key, KeyBuffer, byte_successor},
};

/// Returns the partition of a key, and the length of the part of the key that determines it.
type Decide = dyn Fn(&[u8]) -> Result<(u64, usize)> + Send + Sync;

/// The function that computes a key's partition, from the part at its front.
#[derive(Clone)]
pub(crate) struct PartitionOf {
    decide: Arc<Decide>,
    /// Whether keys of secondary indexes begin with the same part.
    pub(crate) indexes_alike: bool,
}

impl fmt::Debug for PartitionOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PartitionOf")
    }
}

impl PartitionOf {
    pub(crate) fn new<Q: Key>(of: impl Fn(&Q) -> u64 + Send + Sync + 'static) -> Self {
        let decide = move |key: &[u8]| {
            let mut rest = key;
            let front = Q::decode(&mut rest)?;
            Ok((of(&front), key.len() - rest.len()))
        };
        Self { decide: Arc::new(decide), indexes_alike: true }
    }

    pub(crate) fn of_key(&self, key: &[u8]) -> Result<u64> {
        Ok((self.decide)(key)?.0)
    }

    /// Returns the partition that all keys of a range are in, if there is one.
    pub(crate) fn of_range(&self, lower: &[u8], upper: Option<&[u8]>) -> Option<u64> {
        let (partition, length) = (self.decide)(lower).ok()?;
        let end = byte_successor(KeyBuffer::from_slice(&lower[..length]));
        let inside = match (upper, &end) {
            (Some(upper), Some(end)) => *upper <= **end,
            (_, None) => true,
            (None, Some(_)) => false,
        };
        inside.then_some(partition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::AsKey;

    fn key(parts: (u32, u32)) -> KeyBuffer {
        let mut out = KeyBuffer::new();
        parts.encode(&mut out);
        out
    }

    #[test]
    fn ranges_are_in_a_partition_or_cross() {
        let of = PartitionOf::new(|&warehouse: &u32| u64::from(warehouse) * 10);
        assert_eq!(of.of_key(&key((3, 9))).unwrap(), 30);
        let within = |lower: (u32, u32), upper: &[u8]| of.of_range(&key(lower), Some(upper));
        assert_eq!(within((3, 9), &key((3, 12))), Some(30));
        assert_eq!(within((3, 9), &4u32.to_be_bytes()), Some(30), "to the end of the partition");
        assert_eq!(within((3, 9), &key((4, 1))), None);
        assert_eq!(of.of_range(&3u32.to_be_bytes(), Some(&4u32.to_be_bytes())), Some(30), "a prefix");
        assert_eq!(of.of_range(&key((3, 9)), None), None);
        assert_eq!(of.of_range(&[], None), None, "everything");
        assert_eq!(of.of_range(&u32::MAX.to_be_bytes(), None), Some(u64::from(u32::MAX) * 10), "the last partition");
    }
}

//! Ranges of keys as ranges of encoded bytes.
//!
//! An index entry is an encoded key that may be followed by more bytes: a secondary index holds (secondary key, primary
//! key), and a prefix omits fields. A bound is therefore a bound on everything that begins with its encoding. All byte
//! strings that begin with `encode(k)` lie between `encode(k)` itself and its *byte successor*, the lowest byte string
//! above all of them:
//!
//! | bound | lower, inclusive | upper, exclusive |
//! |---|---|---|
//! | included `k` | `encode(k)` | successor of `encode(k)` |
//! | excluded `k` | successor of `encode(k)` | `encode(k)` |
//!
//! No encoding is a proper prefix of another one (invariant 2 of the parent module), so this is exact: no other key
//! begins with `encode(k)`.

use std::ops::{Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use super::{
    for_each_tuple_split,
    key::{AsKey, Key, KeyBuffer},
};

/// A range of encoded keys: from `lower` (inclusive; empty for the start) to `upper` (exclusive; `None` for the end).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncodedRange {
    /// First bytes inside the range.
    pub lower: KeyBuffer,
    /// First bytes above the range.
    pub upper: Option<KeyBuffer>,
}

impl EncodedRange {
    /// Returns the range without keys.
    fn empty() -> Self {
        Self { lower: KeyBuffer::new(), upper: Some(KeyBuffer::new()) }
    }

    /// Returns whether no key can be inside, as for reversed bounds.
    pub fn is_empty(&self) -> bool {
        self.upper.as_ref().is_some_and(|upper| upper <= &self.lower)
    }

    fn of_bounds<K: Key, Q: AsKey<K>>(range: &impl RangeBounds<Q>) -> Self {
        let lower = match range.start_bound() {
            Bound::Unbounded => KeyBuffer::new(),
            Bound::Included(key) => encoded(key),
            Bound::Excluded(key) => match byte_successor(encoded(key)) {
                Some(lower) => lower,
                None => return Self::empty(),
            },
        };
        let upper = match range.end_bound() {
            Bound::Unbounded => None,
            Bound::Included(key) => byte_successor(encoded(key)),
            Bound::Excluded(key) => Some(encoded(key)),
        };
        Self { lower, upper }
    }
}

fn encoded<K: Key>(key: &impl AsKey<K>) -> KeyBuffer {
    let mut out = KeyBuffer::new();
    key.encode(&mut out);
    out
}

/// Returns the lowest byte string above all that begin with `bytes`; `None` where there is none.
pub(crate) fn byte_successor(mut bytes: KeyBuffer) -> Option<KeyBuffer> {
    while let Some(last) = bytes.pop() {
        if let Some(next) = last.checked_add(1) {
            bytes.push(next);
            return Some(bytes);
        }
    }
    None
}

/// A range of keys of type `K`: any range expression over forms of `K`, or [`prefix`].
///
/// ```no_run
/// # use ermine::prefix;
/// # fn example(txn: &ermine::Transaction, by_id: &ermine::Table<u64, u64>,
/// #     orders: &ermine::Table<(u32, u32, u64), u64>, by_name: &ermine::Table<String, u64>) -> ermine::Result<()> {
/// txn.scan(by_id, 10..20).collect()?;
/// txn.scan(by_name, "a".."b").collect()?;
/// txn.scan(orders, (1, 2, 0)..=(1, 2, 99)).collect()?;
/// txn.scan(orders, prefix((1, 2))).rev().first()?;
/// # Ok(())
/// # }
/// ```
pub trait KeyRange<K: Key> {
    /// Returns the range of encodings.
    fn encode(&self) -> EncodedRange;
}

impl<K: Key> KeyRange<K> for RangeFull {
    fn encode(&self) -> EncodedRange {
        EncodedRange::default()
    }
}

macro_rules! range_of_keys {
    ($($range:ty),+) => {$(
        impl<K: Key, Q: AsKey<K>> KeyRange<K> for $range {
            fn encode(&self) -> EncodedRange {
                EncodedRange::of_bounds::<K, Q>(self)
            }
        }
    )+};
}

range_of_keys!(Range<Q>, RangeInclusive<Q>, RangeFrom<Q>, RangeTo<Q>, RangeToInclusive<Q>, (Bound<Q>, Bound<Q>));

/// Leading fields of a tuple key `K`, or all of them.
///
/// A tuple that is not a prefix of the key does not compile:
///
/// ```compile_fail,E0277
/// # use ermine::prefix;
/// # fn example(txn: &ermine::Transaction, orders: &ermine::Table<(u32, String), u64>) -> ermine::Result<()> {
/// txn.scan(orders, prefix(("stoat",))).collect()?;
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    note = "a prefix is a tuple of the first fields of the key: `prefix((a,))` has one field, `prefix((a, b))` two"
)]
pub trait PrefixOf<K: Key> {
    /// Appends the encoding of the fields.
    fn encode_prefix(&self, out: &mut KeyBuffer);
}

macro_rules! tuple_prefix {
    ([$($key:ident $form:ident $field:tt)+] [$($rest:ident $rest_form:ident $rest_field:tt)*]) => {
        impl<$($key: Key, $form: AsKey<$key>,)+ $($rest: Key),*> PrefixOf<($($key,)+ $($rest,)*)> for ($($form,)+) {
            #[inline]
            fn encode_prefix(&self, out: &mut KeyBuffer) {
                $(self.$field.encode(out);)+
            }
        }
    };
}

for_each_tuple_split!(tuple_prefix);

/// The keys that begin with the given leading fields of a tuple.
#[derive(Clone, Copy, Debug)]
pub struct Prefix<Q>(Q);

/// Returns the range of all keys that begin with `fields`, a tuple as long as the key or shorter.
pub fn prefix<Q>(fields: Q) -> Prefix<Q> {
    Prefix(fields)
}

impl<K: Key, Q: PrefixOf<K>> KeyRange<K> for Prefix<Q> {
    fn encode(&self) -> EncodedRange {
        let mut lower = KeyBuffer::new();
        self.0.encode_prefix(&mut lower);
        // Not cloned: a clone copies byte by byte.
        EncodedRange { upper: byte_successor(KeyBuffer::from_slice(&lower)), lower }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn range<K: Key>(range: impl KeyRange<K>) -> (Vec<u8>, Option<Vec<u8>>) {
        let EncodedRange { lower, upper } = range.encode();
        (lower.to_vec(), upper.map(|upper| upper.to_vec()))
    }

    #[test]
    fn bounds_cover_everything_that_begins_with_them() {
        assert_eq!(range::<u16>(..), (vec![], None));
        assert_eq!(range::<u16>(1..0x0200), (vec![0, 1], Some(vec![2, 0])));
        assert_eq!(range::<u16>(1..=0x01ff), (vec![0, 1], Some(vec![2])));
        assert_eq!(range::<u16>(7..), (vec![0, 7], None));
        assert_eq!(range::<u16>(..7), (vec![], Some(vec![0, 7])));
        assert_eq!(range::<u16>(..=7), (vec![], Some(vec![0, 8])));
        assert_eq!(range::<u16>((Bound::Excluded(7), Bound::Unbounded)), (vec![0, 8], None));
        assert_eq!(range::<(u8, u16)>(prefix((7,))), (vec![7], Some(vec![8])));
        assert_eq!(range::<(u8, u16)>(prefix((7, 1))), (vec![7, 0, 1], Some(vec![7, 0, 2])));
    }

    #[test]
    fn the_highest_key_has_no_successor() {
        assert_eq!(range::<u16>(..=u16::MAX), (vec![], None));
        assert_eq!(range::<(u8, u16)>(prefix((0xff,))), (vec![0xff], None));
        assert!(KeyRange::<u16>::encode(&(Bound::Excluded(u16::MAX), Bound::Unbounded)).is_empty());
        assert_eq!(range::<()>(..=()), (vec![], None));
    }

    #[test]
    #[expect(clippy::reversed_empty_ranges, reason = "that they are empty is the point")]
    fn reversed_bounds_are_empty() {
        assert!(KeyRange::<u16>::encode(&(7..3)).is_empty());
        assert!(KeyRange::<u16>::encode(&(7..7)).is_empty());
        assert!(!KeyRange::<u16>::encode(&(7..=7)).is_empty());
    }
}

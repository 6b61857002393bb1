//! The beginning of a row's sort keys as numbers, which decide most comparisons without looking at the values.

use crate::types::{Value, order::without_padding};

/// The upper and the lower half of a number of 128 bits, which takes no place for its alignment.
pub(super) type Prefix = (u64, u64);

/// The bits of a prefix.
const ROOM: u32 = u128::BITS;

/// Returns a prefix of sort keys, each with whether it is descending and whether NULL comes first: if it is less than
/// the prefix of another row's keys, the row comes before that one.
///
/// Each key contributes a bit for NULL and the bits of its value, until there is no room; behind a text, whose end is
/// not marked, and behind a value of another type, there is nothing.
pub(super) fn prefix<'v>(keys: impl Iterator<Item = (&'v Value, bool, bool)>) -> Prefix {
    let mut prefix = Bits { bits: 0, room: ROOM };
    for (value, descending, nulls_first) in keys {
        prefix.push(u128::from(value.is_null() != nulls_first), 1);
        let (bits, width) = match value {
            Value::Null => continue,
            Value::Bool(truth) => (u128::from(*truth), 1),
            Value::Int2(number) => (u128::from(*number as u16 ^ 1 << 15), 16),
            Value::Int4(number) | Value::Date(number) => (u128::from(*number as u32 ^ 1 << 31), 32),
            Value::Int8(number) | Value::Time(number) | Value::Timestamp(number) | Value::TimestampTz(number) => {
                (u128::from(*number as u64 ^ 1 << 63), 64)
            }
            Value::Text(text) => (beginning(text), ROOM),
            Value::Char(text) => (beginning(without_padding(text)), ROOM),
            _ => break,
        };
        prefix.push(if descending { !bits } else { bits }, width);
        if prefix.room == 0 {
            break;
        }
    }
    let bits = prefix.bits.unbounded_shl(prefix.room);
    ((bits >> u64::BITS) as u64, bits as u64)
}

struct Bits {
    bits: u128,
    /// The bits that are not taken yet.
    room: u32,
}

impl Bits {
    /// Appends the lowest `width` bits of a number; as many of them, from the highest on, as there is room for.
    fn push(&mut self, bits: u128, width: u32) {
        let taken = width.min(self.room);
        if taken == 0 {
            return;
        }
        let mask = u128::MAX >> (ROOM - taken);
        self.bits = self.bits.unbounded_shl(taken) | bits >> (width - taken) & mask;
        self.room -= taken;
    }
}

/// Returns the first bytes of a text as a number. Short ones are put together from numbers, not from bytes in memory,
/// which could not be read as a number before they have left the store buffer.
fn beginning(text: &str) -> u128 {
    let bytes = text.as_bytes();
    if let Some(first) = bytes.first_chunk() {
        return u128::from_be_bytes(*first);
    }
    let behind = 8 * (16 - bytes.len() as u32);
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        // Where they overlap, they are the same bytes.
        let [first, last] = [first, last].map(|eight| u128::from(u64::from_be_bytes(*eight)));
        return first << u64::BITS | last << behind;
    }
    bytes.iter().fold(0, |bits, byte| bits << 8 | u128::from(*byte)).unbounded_shl(behind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_all_lengths_have_their_first_bytes() {
        for length in 0..20 {
            let text: String = (0..length).map(|at| char::from(b'a' + at)).collect();
            let mut bytes = [0; 16];
            let first = &text.as_bytes()[..text.len().min(16)];
            bytes[..first.len()].copy_from_slice(first);
            assert_eq!(beginning(&text).to_be_bytes(), bytes, "{text}");
        }
    }
}

//! A record: a count of its writes, then its fields, each filled from a stamp at its beginning.
//!
//! The content of a field follows from the number of the record, that of the field, and the stamp: a field that is torn
//! or in the wrong record is found.

use ermine::Table;

/// Records by their keys.
pub type Records = Table<u64, Vec<u8>>;

/// Makes a key of a number; different numbers have different keys, neighbours far from each other.
pub fn key(number: u64) -> u64 {
    // The factor is odd, so that the product is one to one; it is that of Fibonacci hashing.
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The shape of all records.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub fields: usize,
    pub field_bytes: usize,
}

const WORD: usize = size_of::<u64>();

impl Shape {
    /// Length of the count of writes.
    pub const HEADER_BYTES: usize = WORD;
    /// Minimum length of a field: its stamp.
    pub const FIELD_BYTES_MIN: usize = WORD;

    /// A record that has never been updated.
    pub fn new_record(self, number: u64, stamp: u64) -> Vec<u8> {
        let mut row = vec![0; Self::HEADER_BYTES + self.fields * self.field_bytes];
        for field in 0..self.fields {
            fill(number, field, stamp, self.field_mut(&mut row, field));
        }
        row
    }

    /// Writes a field, and counts that.
    pub fn write_field(self, row: &mut [u8], number: u64, field: usize, stamp: u64) {
        let writes = Self::writes(row) + 1;
        row[..WORD].copy_from_slice(&writes.to_le_bytes());
        fill(number, field, stamp, self.field_mut(row, field));
    }

    /// The stamp of a field.
    pub fn stamp(self, row: &[u8], field: usize) -> u64 {
        word(&row[Self::HEADER_BYTES + field * self.field_bytes..])
    }

    /// Number of times that a field was written since the insert.
    pub fn writes(row: &[u8]) -> u64 {
        word(row)
    }

    /// Returns the first field that is not whole, or a place behind the last if the length is wrong.
    pub fn find_fault(self, number: u64, row: &[u8]) -> Option<usize> {
        if row.len() != Self::HEADER_BYTES + self.fields * self.field_bytes {
            return Some(self.fields);
        }
        let mut wanted = vec![0; self.field_bytes];
        row[Self::HEADER_BYTES..].chunks_exact(self.field_bytes).enumerate().position(|(field, found)| {
            fill(number, field, word(found), &mut wanted);
            found != wanted
        })
    }

    fn field_mut(self, row: &mut [u8], field: usize) -> &mut [u8] {
        let begin = Self::HEADER_BYTES + field * self.field_bytes;
        &mut row[begin..begin + self.field_bytes]
    }
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..WORD].try_into().expect("a word has eight bytes"))
}

/// Fills a field: the stamp, then words that follow from number, field and stamp.
fn fill(number: u64, field: usize, stamp: u64, to: &mut [u8]) {
    let (head, rest) = to.split_at_mut(WORD);
    head.copy_from_slice(&stamp.to_le_bytes());
    let mut state = stamp ^ key(number + 1) ^ (field as u64) << 32;
    for chunk in rest.chunks_mut(WORD) {
        // A linear congruential generator (Knuth's constants), whose high bits are the better ones.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let drawn = state.rotate_left(32).to_le_bytes();
        chunk.copy_from_slice(&drawn[..chunk.len()]);
    }
}

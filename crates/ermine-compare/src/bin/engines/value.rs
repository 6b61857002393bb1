//! The values of rows: each contains its key, which every read checks, and a number that read-modify-writes increment.

/// The least bytes of a value: the key and the number.
pub const VALUE_BYTES_MIN: usize = 16;

/// Creates the first value of a row.
pub fn value(key: u64, bytes: usize) -> Vec<u8> {
    let mut value = vec![key as u8; bytes];
    value[..8].copy_from_slice(&key.to_be_bytes());
    value[8..16].fill(0);
    value
}

/// Checks a value that was read, and returns its number.
pub fn check(key: u64, value: &[u8]) -> u64 {
    let word = |at: usize| u64::from_be_bytes(value[at..at + 8].try_into().expect("eight bytes"));
    assert!(value.len() >= VALUE_BYTES_MIN && word(0) == key, "key {key} has another row's value");
    word(8)
}

/// Checks a value, and copies it with its number incremented.
pub fn increment(key: u64, seen: &[u8], copy: &mut Vec<u8>) {
    let number = check(key, seen) + 1;
    copy.clear();
    copy.extend_from_slice(seen);
    copy[8..16].copy_from_slice(&number.to_be_bytes());
}

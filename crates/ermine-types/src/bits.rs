//! Strings of bits: `bit(n)` and `bit varying(n)`.

use std::{
    cmp::Ordering,
    fmt::{self, Write},
};

use crate::error::{Result, SqlError, SqlState};

/// A string of bits, eight a byte, the first one highest. The bits behind the last one are zero.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bits {
    length: u32,
    bytes: Box<[u8]>,
}

/// The greatest length that PostgreSQL's functions accept.
const LENGTH_MAX: u64 = i32::MAX as u64 / 8 * 8 - 8;

/// The error of strings that differ in length where they must not.
fn of_two_lengths(operation: &str) -> SqlError {
    let message = format!("cannot {operation} bit strings of different sizes");
    SqlError::new(SqlState("22026"), message)
}

pub(crate) fn too_long() -> SqlError {
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "bit string length exceeds the maximum allowed (2147483640)")
}

impl Bits {
    /// Creates a string of the first bits of `bytes`, as many as `length`, or of all and zeros behind them.
    fn new(length: u32, bytes: impl Into<Vec<u8>>) -> Self {
        let mut bytes = bytes.into();
        bytes.resize(length.div_ceil(8) as usize, 0);
        if let (Some(last), used @ 1..) = (bytes.last_mut(), length % 8) {
            *last &= 0xff << (8 - used);
        }
        Self { length, bytes: bytes.into() }
    }

    /// Creates a string of stored bits; `None`: they are not as many as they should be.
    pub(crate) fn of_stored(length: u32, bytes: &[u8]) -> Option<Self> {
        let bits = Self::new(length, bytes);
        (*bits.bytes == *bytes).then_some(bits)
    }

    /// Reads PostgreSQL's binary form: the length, and the bytes.
    pub(crate) fn read_binary(bytes: &[u8]) -> Option<Self> {
        let (length, bytes) = bytes.split_first_chunk()?;
        let length = u32::try_from(i32::from_be_bytes(*length)).ok()?;
        (bytes.len() == length.div_ceil(8) as usize).then(|| Self::new(length, bytes))
    }

    /// Reads a text: binary digits, perhaps behind `B`, or hexadecimal digits behind `X`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let (digits, is_hex) = match text.as_bytes().first() {
            Some(b'b' | b'B') => (&text[1..], false),
            Some(b'x' | b'X') => (&text[1..], true),
            _ => (text, false),
        };
        let width = if is_hex { 4 } else { 1 };
        let length = digits.chars().count() as u64 * width;
        let length =
            u32::try_from(length).ok().filter(|length| u64::from(*length) <= LENGTH_MAX).ok_or_else(too_long)?;
        let mut bytes = vec![0; length.div_ceil(8) as usize];
        for (at, digit) in digits.chars().enumerate() {
            let value = digit.to_digit(if is_hex { 16 } else { 2 }).ok_or_else(|| {
                let kind = if is_hex { "hexadecimal" } else { "binary" };
                let message = format!("\"{digit}\" is not a valid {kind} digit");
                SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
            })?;
            let place = at * width as usize;
            bytes[place / 8] |= (value as u8) << (8 - width as usize - place % 8);
        }
        Ok(Self { length, bytes: bytes.into() })
    }

    /// Returns the last bits of a number in two's complement.
    pub(crate) fn of_integer(number: i64, length: u32) -> Self {
        let mut bytes = vec![0; length.div_ceil(8) as usize];
        for at in 0..length {
            let place = (length - 1 - at).min(63);
            bytes[at as usize / 8] |= ((number >> place & 1) as u8) << (7 - at % 8);
        }
        Self { length, bytes: bytes.into() }
    }

    /// Returns the number of which these are the last bits; `None`: they are more than `width`.
    pub(crate) fn to_integer(&self, width: u32) -> Option<i64> {
        let number = self.bytes.iter().take(8).fold(0u64, |number, byte| number << 8 | u64::from(*byte));
        let unused = self.bytes.len() as u32 * 8 - self.length;
        let number = (number >> unused) as i64;
        (self.length <= width).then_some(if width == 32 { (number as i32).into() } else { number })
    }

    /// Returns the number of bits.
    pub fn length(&self) -> u32 {
        self.length
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Compares as bytes; of two that are alike so far, the shorter one comes first.
    pub fn order(&self, other: &Self) -> Ordering {
        let common = self.bytes.len().min(other.bytes.len());
        self.bytes[..common].cmp(&other.bytes[..common]).then(self.length.cmp(&other.length))
    }

    /// Returns a string of exactly this length: cut, or with zeros behind it.
    pub(crate) fn with_length(&self, length: u32) -> Self {
        let used = self.bytes.len().min(length.div_ceil(8) as usize);
        Self::new(length, &self.bytes[..used])
    }

    /// Applies an operation to the bits of two strings of one length.
    pub(crate) fn combine(&self, other: &Self, name: &str, operation: fn(u8, u8) -> u8) -> Result<Self> {
        if self.length != other.length {
            return Err(of_two_lengths(name));
        }
        let bytes = self.bytes.iter().zip(&other.bytes).map(|(left, right)| operation(*left, *right));
        Ok(Self { length: self.length, bytes: bytes.collect() })
    }

    /// Returns the string with each bit inverted.
    pub(crate) fn inverted(&self) -> Self {
        Self::new(self.length, self.bytes.iter().map(|byte| !byte).collect::<Vec<_>>())
    }

    /// Moves the bits towards the end, or with a negative number towards the beginning; zeros follow.
    pub(crate) fn moved(&self, by: i64) -> Self {
        let mut bytes = vec![0; self.bytes.len()];
        for at in 0..self.length {
            let from = i64::from(at) - by;
            if (0..i64::from(self.length)).contains(&from) && self.has(from as u32) {
                bytes[at as usize / 8] |= 0x80 >> (at % 8);
            }
        }
        Self { length: self.length, bytes: bytes.into() }
    }

    /// Returns the bits of both, one behind the other.
    pub(crate) fn followed_by(&self, other: &Self) -> Result<Self> {
        let length = u64::from(self.length) + u64::from(other.length);
        let length =
            u32::try_from(length).ok().filter(|length| u64::from(*length) <= LENGTH_MAX).ok_or_else(too_long)?;
        let mut bytes = self.bytes.to_vec();
        bytes.resize(length.div_ceil(8) as usize, 0);
        let (start, shift) = (self.length as usize / 8, self.length % 8);
        for (at, byte) in other.bytes.iter().enumerate() {
            let spread = u16::from(*byte) << 8 >> shift;
            let [high, low] = spread.to_be_bytes();
            bytes[start + at] |= high;
            if let Some(next) = bytes.get_mut(start + at + 1) {
                *next |= low;
            }
        }
        Ok(Self { length, bytes: bytes.into() })
    }

    /// Returns some of the bits, counted from 0.
    pub(crate) fn part(&self, start: u32, end: u32) -> Self {
        let mut bytes = vec![0; end.saturating_sub(start).div_ceil(8) as usize];
        for at in start..end {
            if self.has(at) {
                bytes[(at - start) as usize / 8] |= 0x80 >> ((at - start) % 8);
            }
        }
        Self { length: end.saturating_sub(start), bytes: bytes.into() }
    }

    /// Whether a bit is one, which has to be there.
    pub(crate) fn has(&self, at: u32) -> bool {
        self.bytes[at as usize / 8] & 0x80 >> (at % 8) != 0
    }

    /// Returns the string with a bit changed, which has to be there.
    pub(crate) fn with(&self, at: u32, bit: bool) -> Self {
        let mut bytes = self.bytes.clone();
        let mask = 0x80 >> (at % 8);
        match bit {
            true => bytes[at as usize / 8] |= mask,
            false => bytes[at as usize / 8] &= !mask,
        }
        Self { length: self.length, bytes }
    }

    /// Returns the place of the first occurrence of other bits. Calls `check` from time to time to decide whether to go
    /// on: the time is bounded by the product of the lengths.
    pub(crate) fn find(&self, wanted: &Self, check: impl Fn() -> Result<()>) -> Result<Option<u32>> {
        const STARTS: u32 = 256;
        let Some(last) = self.length.checked_sub(wanted.length) else { return Ok(None) };
        for start in 0..=last {
            if start % STARTS == STARTS - 1 {
                check()?;
            }
            if (0..wanted.length).all(|at| self.has(start + at) == wanted.has(at)) {
                return Ok(Some(start));
            }
        }
        Ok(None)
    }

    /// Returns the number of bits that are one.
    pub(crate) fn count_ones(&self) -> i64 {
        self.bytes.iter().map(|byte| i64::from(byte.count_ones())).sum()
    }

    /// Writes the binary digits.
    pub(crate) fn write(&self, out: &mut impl Write) -> fmt::Result {
        (0..self.length).try_for_each(|at| out.write_char(if self.has(at) { '1' } else { '0' }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(text: &str) -> Bits {
        Bits::parse(text).unwrap()
    }

    fn text(bits: &Bits) -> String {
        let mut out = String::new();
        bits.write(&mut out).unwrap();
        out
    }

    /// Each operation does what it says to each place, at every length around whole bytes.
    #[test]
    fn operations_are_those_of_digits() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..3000 {
            let mut digits = || (0..random.usize(..20)).map(|_| random.choice(['0', '1']).unwrap()).collect::<String>();
            let (left, right) = (digits(), digits());
            let (first, second) = (bits(&left), bits(&right));
            assert_eq!(text(&first), left);
            assert_eq!(text(&first.followed_by(&second).unwrap()), format!("{left}{right}"));
            assert_eq!(
                first.find(&second, || Ok(())).unwrap(),
                left.find(&right).map(|at| at as u32),
                "{left} {right}"
            );
            let by = right.len() as i64 - 10;
            let zeros = |count: usize| "0".repeat(count.min(left.len()));
            let moved = match by {
                0.. => format!("{}{}", zeros(by as usize), &left[..left.len().saturating_sub(by as usize)]),
                _ => format!("{}{}", left.get(-by as usize..).unwrap_or_default(), zeros(-by as usize)),
            };
            assert_eq!(text(&first.moved(by)), moved, "{left} {by}");
            assert_eq!(text(&first.inverted()).len(), left.len());
            assert_eq!(first.inverted().count_ones() + first.count_ones(), left.len() as i64);
            assert_eq!(text(&first.with_length(right.len() as u32)).len(), right.len());
            assert_eq!(Bits::of_stored(first.length, &first.bytes), Some(first.clone()));
            assert_eq!(Bits::of_integer(first.to_integer(64).unwrap(), first.length), first);
        }
    }

    #[test]
    fn numbers_are_in_twos_complement() {
        assert_eq!(text(&Bits::of_integer(44, 10)), "0000101100");
        assert_eq!(text(&Bits::of_integer(-44, 12)), "111111010100");
        assert_eq!(text(&Bits::of_integer(-1, 70)), "1".repeat(70));
        assert_eq!(bits("X2C").to_integer(32), Some(44));
        assert_eq!(bits(&"1".repeat(32)).to_integer(32), Some(-1));
        assert_eq!(bits(&"1".repeat(32)).to_integer(64), Some(u32::MAX.into()));
        assert_eq!(bits(&"1".repeat(33)).to_integer(32), None);
    }
}

//! The fields of a message, one after the other, checked.

use super::{Format, Formats, Malformed};

/// The rest of a message.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Returns a reader of a message's body, which begins behind the message's length.
    pub fn new(body: &'a [u8]) -> Self {
        Self(body)
    }

    /// Returns all remaining bytes.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    /// Returns the next `count` bytes.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or(Malformed("a message ends too early"))?;
        self.0 = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(Malformed("a message ends too early"))?;
        self.0 = rest;
        Ok(*bytes)
    }

    /// Returns a byte.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    /// Returns a number of two bytes.
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    /// Returns a number of four bytes.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// Returns a number of four bytes with a sign.
    pub fn i32(&mut self) -> Result<i32, Malformed> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    /// Returns bytes that end with a zero, without the zero.
    pub fn text(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.0.iter().position(|&byte| byte == 0).ok_or(Malformed("a string has no end"))?;
        let (text, rest) = self.0.split_at(length);
        self.0 = &rest[1..];
        Ok(text)
    }

    /// Returns a value: a length of four bytes and that number of bytes; -1 is NULL.
    pub fn value(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        match self.i32()? {
            -1 => Ok(None),
            length => {
                let length = usize::try_from(length).map_err(|_| Malformed("a value has a negative length"))?;
                self.bytes(length).map(Some)
            }
        }
    }

    /// Returns formats: a count, then the formats; none means text for all, one applies to all.
    pub fn formats(&mut self) -> Result<Formats, Malformed> {
        let count = usize::from(self.u16()?);
        let codes = Reader(self.bytes(2 * count)?);
        Ok(match count {
            0 => Formats::default(),
            1 => Formats::All(codes.format_at(0)?),
            _ => Formats::Each((0..count).map(|index| codes.format_at(index)).collect::<Result<_, _>>()?),
        })
    }

    fn format_at(&self, index: usize) -> Result<Format, Malformed> {
        match self.0[2 * index..2 * index + 2] {
            [0, 0] => Ok(Format::Text),
            [0, 1] => Ok(Format::Binary),
            _ => Err(Malformed("a format is neither text nor binary")),
        }
    }

    /// Fails if bytes remain.
    pub fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed("a message is longer than what it says")) }
    }
}

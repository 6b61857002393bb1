//! Parser of the binary format: a header, rows of fields with their lengths, and an end mark (PostgreSQL, COPY, "Binary
//! Format").

use std::ops::Range;

use super::{
    ROW_BYTES_MAX,
    lines::{bad, too_long},
};
use crate::error::Result;

/// The first bytes of every stream.
pub(super) const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";
/// The number of fields that marks the end.
pub(super) const END: i16 = -1;
/// The length that marks NULL.
pub(super) const NULL: i32 = -1;

/// Flags that a reader has to understand.
const CRITICAL: i32 = !0xffff;

/// Received bytes that are not yet a row.
pub(super) struct Rows {
    bytes: Vec<u8>,
    /// Where the next row begins.
    start: usize,
    has_header: bool,
    pub(super) has_ended: bool,
    is_whole: bool,
    /// The number of the row that was returned last.
    pub(super) number: u64,
    /// The fields of that row; `None` is NULL.
    fields: Vec<Option<Range<usize>>>,
}

/// Reads numbers from the front.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        Some(taken)
    }

    fn i16(&mut self) -> Option<i16> {
        Some(i16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    fn i32(&mut self) -> Option<i32> {
        Some(i32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }
}

impl Rows {
    pub(super) fn new() -> Self {
        Self {
            bytes: Vec::new(),
            start: 0,
            has_header: false,
            has_ended: false,
            is_whole: false,
            number: 0,
            fields: Vec::new(),
        }
    }

    /// Returns the number of received bytes of rows that have not been read.
    pub(super) fn waiting(&self) -> usize {
        self.bytes.len() - self.start
    }

    pub(super) fn push(&mut self, piece: &[u8]) {
        self.bytes.drain(..self.start);
        self.start = 0;
        self.bytes.extend_from_slice(piece);
    }

    pub(super) fn finish(&mut self) {
        self.is_whole = true;
    }

    /// Returns a field of the row; `None` is NULL.
    pub(super) fn get(&self, at: usize) -> Option<&[u8]> {
        self.fields[at].clone().map(|place| &self.bytes[place])
    }

    /// Advances to the next row, of `count` fields; returns false if there is none yet, or no more.
    pub(super) fn next(&mut self, count: usize) -> Result<bool> {
        if !self.has_header {
            match self.header()? {
                Some(length) => (self.start, self.has_header) = (self.start + length, true),
                None => return self.incomplete("COPY file signature not recognized"),
            }
        }
        if self.has_ended {
            return match self.start == self.bytes.len() {
                true => Ok(false),
                false => Err(bad("received copy data after EOF marker")),
            };
        }
        // A stream may also end without the end mark.
        if self.is_whole && self.start == self.bytes.len() {
            return Ok(false);
        }
        self.number += 1;
        match self.row(count)? {
            Some(end) => self.start = end,
            None => {
                self.number -= u64::from(!self.is_whole);
                return self.incomplete("unexpected EOF in COPY data");
            }
        }
        if self.has_ended { self.next(count) } else { Ok(true) }
    }

    fn incomplete(&self, what: &str) -> Result<bool> {
        if self.is_whole {
            return Err(bad(what));
        }
        if self.bytes.len() - self.start > ROW_BYTES_MAX { Err(too_long()) } else { Ok(false) }
    }

    /// Returns the length of the header; `None`: it is incomplete.
    fn header(&self) -> Result<Option<usize>> {
        let bytes = &self.bytes[self.start..];
        let known = bytes.len().min(SIGNATURE.len());
        if bytes[..known] != SIGNATURE[..known] {
            return Err(bad("COPY file signature not recognized"));
        }
        let mut reader = Reader { bytes, at: SIGNATURE.len() };
        let Some(flags) = reader.i32() else { return Ok(None) };
        if flags & CRITICAL != 0 {
            return Err(bad("unrecognized critical flags in COPY file header"));
        }
        let Some(length) = reader.i32() else { return Ok(None) };
        let length = usize::try_from(length).map_err(|_| bad("invalid COPY file header (wrong length)"))?;
        Ok(reader.take(length).map(|_| reader.at))
    }

    /// Finds the fields of a row; returns where the row ends, or `None` if it is incomplete.
    fn row(&mut self, wanted: usize) -> Result<Option<usize>> {
        let mut reader = Reader { bytes: &self.bytes, at: self.start };
        let Some(count) = reader.i16() else { return Ok(None) };
        if count == END {
            self.has_ended = true;
            return Ok(Some(reader.at));
        }
        if usize::try_from(count) != Ok(wanted) {
            return Err(bad(format!("row field count is {count}, expected {wanted}")));
        }
        self.fields.clear();
        for _ in 0..wanted {
            let Some(length) = reader.i32() else { return Ok(None) };
            self.fields.push(match length {
                NULL => None,
                length => {
                    let length = usize::try_from(length).map_err(|_| bad("invalid field size"))?;
                    let first = reader.at;
                    if reader.take(length).is_none() {
                        return Ok(None);
                    }
                    Some(first..reader.at)
                }
            });
        }
        Ok(Some(reader.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(rows: &[&[Option<&[u8]>]], end: bool) -> Vec<u8> {
        let mut out = SIGNATURE.to_vec();
        out.extend([0, 0, 0, 0, 0, 0, 0, 2, 7, 7]);
        for row in rows {
            out.extend((row.len() as i16).to_be_bytes());
            for field in *row {
                out.extend(field.map_or(NULL, |field| field.len() as i32).to_be_bytes());
                out.extend(field.unwrap_or_default());
            }
        }
        if end {
            out.extend(END.to_be_bytes());
        }
        out
    }

    fn read(input: &[u8], piece: usize) -> Result<Vec<Vec<Option<Vec<u8>>>>> {
        let (mut rows, mut found) = (Rows::new(), Vec::new());
        for piece in input.chunks(piece) {
            rows.push(piece);
            while rows.next(2)? {
                found.push((0..2).map(|at| rows.get(at).map(<[u8]>::to_vec)).collect());
            }
        }
        rows.finish();
        while rows.next(2)? {}
        Ok(found)
    }

    #[test]
    fn pieces_of_any_length_give_the_same_rows() {
        let row: &[Option<&[u8]>] = &[Some(b"abc"), None];
        for end in [true, false] {
            let input = stream(&[row, &[Some(b""), Some(b"x")]], end);
            for piece in 1..=input.len() {
                let rows = read(&input, piece).unwrap();
                assert_eq!(rows, [vec![Some(b"abc".to_vec()), None], vec![Some(vec![]), Some(b"x".to_vec())]]);
            }
        }
    }

    #[test]
    fn no_bytes_panic_and_what_is_cut_is_told() {
        let whole = stream(&[&[Some(b"abc"), None]], true);
        for length in 0..whole.len() {
            let header = SIGNATURE.len() + 10;
            // The stream may end after the header and after the row.
            let may_end = length == header || length == whole.len() - 2;
            assert_eq!(read(&whole[..length], 3).is_ok(), may_end, "{length}");
        }
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..20_000 {
            let mut input = whole.clone();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(..input.len());
                input[at] = random.u8(..);
            }
            let _ = read(&input, random.usize(1..20));
        }
        let mut more = whole;
        more.push(0);
        assert_eq!(read(&more, 100).unwrap_err().report().message, "received copy data after EOF marker");
    }
}

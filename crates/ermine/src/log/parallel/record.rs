//! A transaction in the parallel log: its TID, and the row that it left under each key that it wrote.
//!
//! ```text
//!   record   length of the rows u32 | crc u32 | TID u64 | rows
//!   row      tag (0: no row, 1: a row) | table | key | value | count of entries | entries
//!   entry    index | secondary key
//!   note     in place of rows, with TID 0: tag 2 | epoch u64 | microseconds since 1970 u64. All transactions of that
//!            epoch and of earlier ones had ended by then
//! ```
//!
//! Numbers of the head are little-endian; all others are LEB128 varints, and bytes have their length in front. The
//! checksum is CRC-32C over rows, TID and length in this order, so that only its end must be computed once the TID is
//! known. A row without value has neither value nor entries. A record describes a row completely: of two records the
//! one with the greater TID counts, and the other is ignored (SiloR 5.2).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{
    ids::TableId,
    log::record::{put_number, take_number},
};

/// Bytes before the rows.
pub(crate) const HEAD_BYTES: usize = 16;

/// Upper bound of a record's length.
pub(crate) const RECORD_BYTES_MAX: usize = 1 << 31;

/// A record that waits for its TID.
#[derive(Default)]
pub(crate) struct Draft {
    rows: Vec<u8>,
    crc: u32,
}

/// The state that a transaction left under a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Row<'a> {
    pub(crate) table: TableId,
    pub(crate) key: &'a [u8],
    /// `None`: no row.
    pub(crate) value: Option<&'a [u8]>,
    /// Its entries in secondary indexes, as [`put_entry`] writes them.
    pub(crate) entries: Entries<'a>,
}

/// A note of the time, which is stored in the log as a record: the epoch had ended at that time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Note {
    pub(crate) epoch: u64,
    /// Microseconds since 1970.
    pub(crate) micros: u64,
}

impl Note {
    const TAG: u8 = 2;

    /// Returns a note that the epoch has ended by now.
    pub(crate) fn now(epoch: u64) -> Self {
        let micros = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64);
        Self { epoch, micros }
    }

    /// Appends the note as a record.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let mut rows = vec![Self::TAG];
        [self.epoch, self.micros].iter().for_each(|number| rows.extend(number.to_le_bytes()));
        let mut draft = Draft { rows, crc: 0 };
        draft.seal();
        draft.write(0, out);
    }

    /// Decodes the record of that TID as a note, if it is one.
    pub(crate) fn read(tid: u64, rows: &[u8]) -> Option<Self> {
        let (&tag, numbers) = rows.split_first()?;
        let (epoch, micros) = numbers.split_first_chunk()?;
        let is_note = tid == 0 && tag == Self::TAG;
        let micros = u64::from_le_bytes(micros.try_into().ok().filter(|_| is_note)?);
        Some(Self { epoch: u64::from_le_bytes(*epoch), micros })
    }

    pub(crate) fn moment(&self) -> Option<SystemTime> {
        UNIX_EPOCH.checked_add(Duration::from_micros(self.micros))
    }
}

/// The encoded entries of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Entries<'a>(pub(crate) &'a [u8]);

/// Appends an entry.
pub(crate) fn put_entry(out: &mut Vec<u8>, index: u16, secondary_key: &[u8]) {
    put_number(out, index.into());
    put_bytes(out, secondary_key);
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn take_bytes<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(take_number(input)?).ok()?;
    let (bytes, rest) = input.split_at_checked(length)?;
    *input = rest;
    Some(bytes)
}

impl<'a> Row<'a> {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.push(self.value.is_some().into());
        put_number(out, self.table.0.into());
        put_bytes(out, self.key);
        if let Some(value) = self.value {
            put_bytes(out, value);
            put_bytes(out, self.entries.0);
        }
    }

    /// Removes a row from the front; `None`: these bytes are not a row.
    pub(crate) fn take(input: &mut &'a [u8]) -> Option<Self> {
        let (&tag, rest) = input.split_first().filter(|(tag, _)| **tag <= 1)?;
        *input = rest;
        let table = TableId(u32::try_from(take_number(input)?).ok()?);
        let key = take_bytes(input).filter(|key| key.len() <= crate::MAX_KEY_BYTES)?;
        if tag == 0 {
            return Some(Self { table, key, value: None, entries: Entries::default() });
        }
        let value = take_bytes(input).filter(|value| value.len() <= crate::MAX_VALUE_BYTES)?;
        let entries = Entries(take_bytes(input)?);
        Some(Self { table, key, value: Some(value), entries })
    }
}

impl<'a> Iterator for Entries<'a> {
    /// The index and the secondary key; `None`: these bytes are not an entry.
    type Item = Option<(u16, &'a [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let index = take_number(&mut self.0).and_then(|index| u16::try_from(index).ok());
        let entry = index.zip(take_bytes(&mut self.0));
        if entry.is_none() {
            self.0 = &[];
        }
        Some(entry)
    }
}

impl Draft {
    /// Begins a new draft; frees the memory that a very large one needed.
    pub(crate) fn begin(&mut self) {
        self.rows.clear();
        self.rows.shrink_to(1 << 20);
    }

    pub(crate) fn add(&mut self, row: &Row<'_>) {
        row.write(&mut self.rows);
    }

    /// Whether it has no row.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Completes the draft except for the TID; returns the length of the record. `None`: it is too long.
    pub(crate) fn seal(&mut self) -> Option<usize> {
        self.crc = crc32c::crc32c(&self.rows);
        (self.rows.len() <= RECORD_BYTES_MAX - HEAD_BYTES).then(|| HEAD_BYTES + self.rows.len())
    }

    /// Appends the record.
    pub(crate) fn write(&self, tid: u64, out: &mut Vec<u8>) {
        let length = self.rows.len() as u32;
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&finish(self.crc, tid, length).to_le_bytes());
        out.extend_from_slice(&tid.to_le_bytes());
        out.extend_from_slice(&self.rows);
    }
}

fn finish(crc: u32, tid: u64, length: u32) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(crc, &tid.to_le_bytes()), &length.to_le_bytes())
}

/// The front of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) length: u32,
    crc: u32,
    pub(crate) tid: u64,
}

impl Head {
    pub(crate) fn read(bytes: &[u8; HEAD_BYTES]) -> Self {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        Self { length: word(0), crc: word(4), tid: u64::from(word(8)) | u64::from(word(12)) << 32 }
    }

    /// Whether these rows belong to this head.
    pub(crate) fn fits(&self, rows: &[u8]) -> bool {
        // No transaction is without rows: zeros are not a record.
        self.length > 0 && self.crc == finish(crc32c::crc32c(rows), self.tid, self.length)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_and_what_is_cut_does_not() {
        let mut entries = Vec::new();
        put_entry(&mut entries, 1, b"blue");
        put_entry(&mut entries, 2, b"");
        let rows = [
            Row { table: TableId(300), key: b"k", value: Some(b"value"), entries: Entries(&entries) },
            Row { table: TableId(0), key: b"", value: None, entries: Entries::default() },
        ];
        let mut draft = Draft::default();
        draft.begin();
        rows.iter().for_each(|row| draft.add(row));
        let length = draft.seal().unwrap();
        let mut record = Vec::new();
        draft.write(7 << 40 | 9, &mut record);
        assert_eq!(record.len(), length);
        let head = Head::read(record[..HEAD_BYTES].try_into().unwrap());
        assert_eq!((head.tid, head.length as usize), (7 << 40 | 9, length - HEAD_BYTES));
        let mut body = &record[HEAD_BYTES..];
        assert!(head.fits(body));
        let found = [Row::take(&mut body), Row::take(&mut body)].map(Option::unwrap);
        assert_eq!((found, body.len()), (rows, 0));
        let list: Vec<_> = found[0].entries.map(Option::unwrap).collect();
        assert_eq!(list, [(1, &b"blue"[..]), (2, &b""[..])]);
        for at in 0..record.len() {
            let mut flipped = record.clone();
            flipped[at] ^= 4;
            let head = Head::read(flipped[..HEAD_BYTES].try_into().unwrap());
            assert!(!head.fits(&flipped[HEAD_BYTES..]), "a flip at {at}");
        }
        for cut in 0..record.len() - HEAD_BYTES {
            let mut body = &record[HEAD_BYTES..][..cut];
            while !body.is_empty() && Row::take(&mut body).is_some() {}
        }
        assert!(Entries(&[1, 200]).any(|entry| entry.is_none()));
    }

    #[test]
    fn notes_of_the_time_are_no_rows_and_come_back() {
        let note = Note { epoch: 77, micros: 1 << 50 };
        let mut record = Vec::new();
        note.write(&mut record);
        let head = Head::read(record[..HEAD_BYTES].try_into().unwrap());
        let mut rows = &record[HEAD_BYTES..];
        assert!(head.fits(rows));
        assert_eq!(Note::read(head.tid, rows), Some(note));
        assert_eq!(Row::take(&mut rows), None);
        let mut row = Vec::new();
        Row { table: TableId(1), key: b"sevenbyt", value: None, entries: Entries::default() }.write(&mut row);
        assert_eq!(Note::read(head.tid, &row), None);
    }
}

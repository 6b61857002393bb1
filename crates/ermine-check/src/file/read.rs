//! Reads a history from a file.

use std::{io::BufRead, num::NonZeroU32};

use super::{
    FileError,
    lines::{FORMAT, Header, Line, Op, Promised, VERSION, Version},
};
use crate::history::{
    Builder, Digest, History, Index, Moment, Operation, Order, Outcome, Process, ReadVersion, Stamp, Table,
    TransactionContext,
};

/// Stamps have 63 bits.
const STAMP_MAX: u64 = (1 << 63) - 1;

/// Reads a history. `progress` receives the number of bytes read.
pub fn read(from: &mut dyn BufRead, progress: &mut dyn FnMut(u64)) -> Result<History, FileError> {
    let mut text = String::new();
    let (mut number, mut bytes, mut header, mut builder) = (0, 0, None, Builder::new());
    loop {
        text.clear();
        number += 1;
        let length = from.read_line(&mut text).map_err(|error| FileError::new(number, error.to_string()))?;
        if length == 0 {
            break;
        }
        bytes += length as u64;
        progress(bytes);
        if text.trim().is_empty() {
            continue;
        }
        match header {
            None => header = Some(parse_header(&text, number)?),
            Some(_) => push(&text, number, &mut builder)?,
        }
    }
    let header = header.ok_or_else(|| FileError::new(0, "the file is empty"))?;
    let mut history = builder.finish(header.sample);
    for name in header.tables {
        history.name_table(Table(name.table), name.name);
    }
    Ok(history)
}

fn parse_header(text: &str, number: u64) -> Result<Header, FileError> {
    let header: Header = json(text, number)?;
    if header.format != FORMAT {
        return Err(FileError::new(number, format!("the format is {:?}, not {FORMAT:?}", header.format)));
    }
    if !(1..=VERSION).contains(&header.version) {
        let what = format!("version {} of the format; this program knows versions 1 to {VERSION}", header.version);
        return Err(FileError::new(number, what));
    }
    if NonZeroU32::new(header.sample).is_none() {
        return Err(FileError::new(number, "one row in 0 cannot be recorded: sample is 1 or more"));
    }
    Ok(header)
}

fn json<'t, T: serde::Deserialize<'t>>(text: &'t str, number: u64) -> Result<T, FileError> {
    serde_json::from_str(text).map_err(|error| {
        let what = error.to_string();
        // The line number in the message counts within one line; remove it.
        let what = what.split(" at line ").next().unwrap_or(&what);
        FileError::new(number, format!("{what} (column {})", error.column()))
    })
}

fn push(text: &str, number: u64, builder: &mut Builder) -> Result<(), FileError> {
    let Line { begin, commit, process, began, ended, order, snapshot, ops } = json(text, number)?;
    let wrong = |what: String| FileError::new(number, what);
    let owned = ops.iter().map(Owned::of).collect::<Result<Vec<_>, _>>().map_err(wrong)?;
    check_entries(&ops).map_err(wrong)?;
    let begin = stamp(begin).map_err(wrong)?;
    let outcome = match commit {
        Some(commit) => Outcome::Committed(stamp(commit).map_err(wrong)?),
        None => Outcome::Aborted,
    };
    let writes = ops.iter().any(|op| matches!(op, Op::Write { .. }));
    if let Outcome::Committed(stamp) = outcome
        && writes
        && stamp < begin
    {
        return Err(wrong(format!("it commits at {stamp}, before it begins at {begin}")));
    }
    if let (Some(began), Some(ended)) = (began, ended)
        && ended < began
    {
        return Err(wrong(format!("it ended at moment {ended}, before it began at {began}")));
    }
    let order = match order {
        Promised::None => Order::None,
        Promised::Process => Order::Process,
        Promised::Realtime => Order::Realtime,
    };
    let (process, began, ended) = (process.map(Process), began.map(Moment), ended.map(Moment));
    let context = TransactionContext { process, began, ended, order, snapshot };
    builder.push_with(context, begin, outcome, ops.iter().zip(&owned).map(|(op, owned)| owned.operation(op)));
    Ok(())
}

/// Checks that an entry ends with the key of the row that was written last.
fn check_entries(ops: &[Op]) -> Result<(), String> {
    let mut written = None;
    for op in ops {
        match op {
            Op::Write { table, key, .. } => written = Some((table, key)),
            Op::Entry { table, entry, .. } => {
                let is_of = |(of, key): (&u32, &String)| of == table && entry.ends_with(&**key);
                if !written.is_some_and(is_of) {
                    return Err(format!("entry {entry} does not end with the key of the write before it"));
                }
            }
            Op::Read { .. } | Op::Range { .. } => {}
        }
    }
    Ok(())
}

fn stamp(number: u64) -> Result<Stamp, String> {
    if number <= STAMP_MAX { Ok(Stamp(number)) } else { Err(format!("{number} is no stamp: they have 63 bits")) }
}

/// The bytes of an operation; reading them checks the rest of it.
struct Owned {
    key: Vec<u8>,
    upper: Option<Vec<u8>>,
    value: Option<Digest>,
}

impl Owned {
    fn of(op: &Op) -> Result<Self, String> {
        let (key, upper, value) = match op {
            Op::Read { key, value, version, .. } => {
                if let Version::At(number) | Version::Missing(number) = *version {
                    stamp(number)?;
                }
                (key, None, value)
            }
            Op::Write { key, value, .. } => (key, None, value),
            Op::Range { lower, upper, at, .. } => {
                stamp(*at)?;
                (lower, upper.as_deref().map(unhex).transpose()?, &None)
            }
            Op::Entry { entry, index: 0, .. } => {
                return Err(format!("entry {entry} is one of index 0, the primary one"));
            }
            Op::Entry { entry, .. } => (entry, None, &None),
        };
        Ok(Self { key: unhex(key)?, upper, value: value.as_deref().map(digest).transpose()? })
    }

    fn operation(&self, op: &Op) -> Operation<'_> {
        let (key, value) = (&self.key[..], self.value);
        match *op {
            Op::Read { table, version, .. } => {
                let version = match version {
                    Version::At(stamp) => ReadVersion::At(Stamp(stamp)),
                    Version::Own => ReadVersion::Own,
                    Version::Missing(at) => ReadVersion::Missing(Stamp(at)),
                };
                Operation::Read { table: Table(table), key, version, value }
            }
            Op::Range { table, index, at, .. } => {
                let index = Index { table: Table(table), ordinal: index };
                Operation::Range { index, lower: key, upper: self.upper.as_deref(), at: Stamp(at) }
            }
            Op::Write { table, .. } => Operation::Write { table: Table(table), key, value },
            Op::Entry { table, index, present, .. } => {
                Operation::Entry { index: Index { table: Table(table), ordinal: index }, entry: key, present }
            }
        }
    }
}

fn digest(text: &str) -> Result<Digest, String> {
    u64::from_str_radix(text, 16).map(Digest).map_err(|error| format!("{text:?} is no digest: {error}"))
}

fn unhex(text: &str) -> Result<Vec<u8>, String> {
    let nibble = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let bytes = pairs.iter().map(|&[high, low]| Some(nibble(high)? << 4 | nibble(low)?));
    let bytes = if rest.is_empty() { bytes.collect() } else { None };
    bytes.ok_or_else(|| format!("{text:?} is no key: two hexadecimal digits make a byte"))
}

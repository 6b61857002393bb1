//! Writes a history as a file.

use std::{
    fmt::Write as _,
    io::{self, Write},
};

use super::lines::{FORMAT, Header, Line, Name, Op, Promised, VERSION, Version};
use crate::history::{Digest, History, Operation, Order, Outcome, ReadVersion};

/// Writes a history.
pub fn write(history: &History, to: &mut dyn Write) -> io::Result<()> {
    let tables = history.table_names().map(|(table, name)| Name { table: table.0, name: name.into() });
    let header = Header { format: FORMAT.into(), version: VERSION, tables: tables.collect(), sample: history.sample() };
    line(&header, to)?;
    for transaction in history.transactions() {
        let commit = match transaction.outcome() {
            Outcome::Committed(stamp) => Some(stamp.0),
            Outcome::Aborted => None,
        };
        let ops = transaction.operations().map(op).collect();
        let context = transaction.context();
        let written = Line {
            begin: transaction.begin().0,
            commit,
            process: context.process.map(|process| process.0),
            began: context.began.map(|moment| moment.0),
            ended: context.ended.map(|moment| moment.0),
            order: match context.order {
                Order::None => Promised::None,
                Order::Process => Promised::Process,
                Order::Realtime => Promised::Realtime,
            },
            snapshot: context.snapshot,
            ops,
        };
        line(&written, to)?;
    }
    to.flush()
}

fn line(line: &impl serde::Serialize, to: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *to, line)?;
    to.write_all(b"\n")
}

fn op(operation: Operation<'_>) -> Op {
    match operation {
        Operation::Read { table, key, version, value } => {
            let version = match version {
                ReadVersion::At(stamp) => Version::At(stamp.0),
                ReadVersion::Own => Version::Own,
                ReadVersion::Missing(at) => Version::Missing(at.0),
            };
            Op::Read { table: table.0, key: hex(key), version, value: digest(value) }
        }
        Operation::Range { index, lower, upper, at } => {
            let (lower, upper) = (hex(lower), upper.map(hex));
            Op::Range { table: index.table.0, index: index.ordinal, lower, upper, at: at.0 }
        }
        Operation::Write { table, key, value } => Op::Write { table: table.0, key: hex(key), value: digest(value) },
        Operation::Entry { index, entry, present } => {
            Op::Entry { table: index.table.0, index: index.ordinal, entry: hex(entry), present }
        }
    }
}

fn digest(value: Option<Digest>) -> Option<String> {
    value.map(|Digest(digest)| format!("{digest:x}"))
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        write!(text, "{byte:02x}").expect("text can always grow");
    }
    text
}

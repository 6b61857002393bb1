//! `ermine inspect`: the content of a database's files, and their damage.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::{self, Write},
};

use ermine::inspect::{Block, Found, Hole, Log, ParallelLog, Record, Segment};
use ermine_bench::{Error, Result, report::grouped};
use serde::Serialize;

use crate::{
    arguments::InspectLog,
    inspect_output::{Stop, shown},
    inspect_parallel,
};

/// Shows a log; returns whether all of it is right.
pub fn log(arguments: &InspectLog) -> Result<bool> {
    let unreadable = |error: ermine::Error| Error::Usage(error.to_string());
    if let Some(log) = ParallelLog::open(&arguments.directory, &arguments.log.options()).map_err(unreadable)? {
        if arguments.records {
            let why = "--records: not for logs of single-version schemes, whose records are shown without it";
            return Err(Error::Usage(why.into()));
        }
        return shown(|out, damage| inspect_parallel::show_log(arguments, &log, out, damage));
    }
    let log = Log::open(&arguments.directory).map_err(unreadable)?;
    let segments = match &arguments.segment {
        Some(file) => std::slice::from_ref(log.segment(file).map_err(unreadable)?),
        None => log.segments(),
    };
    shown(|out, damage| Show { arguments, out, sums: BTreeMap::new(), damage }.log(&log, segments))
}

struct Show<'a, W: Write> {
    arguments: &'a InspectLog,
    out: W,
    /// By the name of the kind.
    sums: BTreeMap<&'static str, Sum>,
    damage: &'a mut u64,
}

/// Sums over the blocks of a kind.
#[derive(Default, Serialize)]
struct Sum {
    blocks: u64,
    rows: u64,
    header_bytes: u64,
    descriptor_bytes: u64,
    payload_bytes: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Line<'a> {
    Segment {
        file: &'a str,
        sequence: u64,
        start: u64,
        end: u64,
        length: u64,
        follows: bool,
    },
    Block {
        file: &'a str,
        position: u64,
        offset: u64,
        segment: u8,
        kind: &'static str,
        bytes: u64,
        descriptor_bytes: u64,
        payload_bytes: u64,
        rows: u64,
        durable_to: u64,
        is_right: bool,
        is_damage: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        clock_us: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        records: Option<Vec<String>>,
    },
    Hole {
        file: &'a str,
        position: u64,
        offset: u64,
        bytes: u64,
        reason: String,
        is_damage: bool,
    },
    Sums {
        kinds: &'a BTreeMap<&'static str, Sum>,
        damage: u64,
    },
}

const HEADER_BYTES: u64 = 32;

impl<W: Write> Show<'_, W> {
    fn log(&mut self, log: &Log, segments: &[Segment]) -> Result<(), Stop> {
        let mut before: Option<&Segment> = None;
        for segment in segments {
            let follows = before.is_none_or(|before| segment.follows(before));
            before = Some(segment);
            self.segment(segment, follows)?;
            for found in log.blocks(segment)? {
                match found? {
                    Found::Block(block) => {
                        let is_damage = !block.is_right && log.is_damage(block.offset)?;
                        self.block(segment, &block, is_damage)?;
                    }
                    Found::Hole(hole) => {
                        let is_damage = log.is_damage(hole.offset)?;
                        self.hole(segment, &hole, is_damage)?;
                    }
                }
            }
        }
        self.sums()?;
        Ok(self.out.flush()?)
    }

    fn line(&mut self, line: &Line<'_>) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, line)?;
        writeln!(self.out)
    }

    fn segment(&mut self, segment: &Segment, follows: bool) -> io::Result<()> {
        let Segment { file, sequence, start, end, length, .. } = segment;
        *self.damage += u64::from(!follows);
        if self.arguments.json {
            let line = Line::Segment { file, sequence: *sequence, start: *start, end: *end, length: *length, follows };
            return self.line(&line);
        }
        if !follows {
            writeln!(self.out, "DAMAGE: a segment before {file} is missing")?;
        }
        let cut = if segment.is_cut() { format!(", the file is cut off at {length}") } else { String::new() };
        writeln!(self.out, "{file}\n  segment {sequence}, LSNs {start} to {end}{cut}")?;
        match self.arguments.summary {
            true => Ok(()),
            false => writeln!(
                self.out,
                "  {:>12}  {:>18}  {:<8}  {:>9}  {:>6}  {:>11}  {:>9}  {:>15}  checksum",
                "position", "LSN", "kind", "bytes", "rows", "descriptors", "payloads", "durable to"
            ),
        }
    }

    fn block(&mut self, segment: &Segment, block: &Block, is_damage: bool) -> io::Result<()> {
        let sum = self.sums.entry(block.kind.name()).or_default();
        sum.blocks += 1;
        sum.rows += block.rows;
        sum.header_bytes += HEADER_BYTES;
        sum.descriptor_bytes += block.descriptor_bytes;
        sum.payload_bytes += block.payload_bytes();
        *self.damage += u64::from(is_damage);
        if self.arguments.summary && block.is_right {
            return Ok(());
        }
        let records = self.arguments.records.then(|| block.records().iter().map(describe).collect::<Vec<_>>());
        if self.arguments.json {
            return self.line(&Line::Block {
                file: &segment.file,
                position: block.position,
                offset: block.offset,
                segment: block.segment,
                kind: block.kind.name(),
                bytes: block.bytes,
                descriptor_bytes: block.descriptor_bytes,
                payload_bytes: block.payload_bytes(),
                rows: block.rows,
                durable_to: block.durable_to,
                is_right: block.is_right,
                is_damage,
                clock_us: block.clock_us,
                records,
            });
        }
        let checksum = match (block.is_right, is_damage) {
            (true, _) => "right",
            (false, true) => "DAMAGE: the payloads are not what was written",
            (false, false) => "torn: the payloads are not what was written",
        };
        writeln!(
            self.out,
            "  {:>12}  {:>18}  {:<8}  {:>9}  {:>6}  {:>11}  {:>9}  {:>15}  {checksum}",
            block.position,
            format!("{}.{}", block.offset, block.segment),
            block.kind,
            block.bytes,
            block.rows,
            block.descriptor_bytes,
            block.payload_bytes(),
            block.durable_to
        )?;
        if let Some(clock) = block.clock_us {
            writeln!(self.out, "{:16}{clock} microseconds since 1970", "")?;
        }
        records.iter().flatten().try_for_each(|record| writeln!(self.out, "{:16}{record}", ""))
    }

    fn hole(&mut self, segment: &Segment, hole: &Hole, is_damage: bool) -> io::Result<()> {
        *self.damage += u64::from(is_damage);
        let &Hole { position, offset, bytes, reason, .. } = hole;
        if self.arguments.json {
            let (file, reason) = (&segment.file[..], reason.to_string());
            return self.line(&Line::Hole { file, position, offset, bytes, reason, is_damage });
        }
        let what = if is_damage { "DAMAGE: the log had been durable here" } else { "not durable yet: the log ends" };
        writeln!(self.out, "  {position:>12}  {reason} for {} bytes; {what}", grouped(bytes))
    }

    fn sums(&mut self) -> io::Result<()> {
        if self.arguments.json {
            let kinds = std::mem::take(&mut self.sums);
            return self.line(&Line::Sums { kinds: &kinds, damage: *self.damage });
        }
        let mut grid =
            ermine_bench::report::Grid::new(&["kind", "blocks", "rows", "headers", "descriptors", "payloads"]);
        for (kind, sum) in &self.sums {
            let &Sum { blocks, rows, header_bytes, descriptor_bytes, payload_bytes } = sum;
            let figures = [blocks, rows, header_bytes, descriptor_bytes, payload_bytes].map(grouped);
            grid.row([(*kind).to_owned()].into_iter().chain(figures));
        }
        writeln!(self.out, "\n{grid}\n")?;
        match *self.damage {
            0 => writeln!(self.out, "nothing is damaged"),
            damage => {
                writeln!(self.out, "DAMAGED in {damage} places: docs/design/log.md says how to save what is left")
            }
        }
    }
}

/// Describes a record in words.
fn describe(record: &Record) -> String {
    let value = |bytes: &u64, diverted: &bool| {
        if *diverted { "value in a file of its own".to_owned() } else { format!("value of {bytes} bytes") }
    };
    match record {
        Record::Insert { table, row, key, value_bytes, diverted } => {
            format!("insert  table {table} row {row} key {} {}", hex(key), value(value_bytes, diverted))
        }
        Record::Update { table, row, value_bytes, diverted } => {
            format!("update  table {table} row {row} {}", value(value_bytes, diverted))
        }
        Record::Delete { table, row } => format!("delete  table {table} row {row}"),
        Record::Entry { table, row, index, entry } => {
            format!("entry   table {table} row {row} index {index} {}", hex(entry))
        }
        Record::Chain { offset, rows_before } => format!("chain   the block at {offset}, {rows_before} rows before"),
        Record::Unlogged => "a row of a table that is in memory only".into(),
        Record::Key { table, row, key } => format!("key     table {table} row {row} key {}", hex(key)),
        Record::Moved { table, row, stamp, value_bytes, diverted } => {
            format!("moved   table {table} row {row} stamp {stamp} {}", value(value_bytes, diverted))
        }
        Record::Unknown => "unknown: the descriptors cannot be read from here on".to_owned(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

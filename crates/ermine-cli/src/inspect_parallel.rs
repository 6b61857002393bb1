//! `ermine inspect` for databases of single-version schemes: the files of the parallel log, and the manifest of a
//! checkpoint.

use std::io::{self, Write};

use ermine::inspect::{LogFile, LogRecord, ParallelCheckpoint, ParallelLog};
use ermine_bench::{
    Result,
    report::{grouped, mib},
    standard_output::Stdout,
};
use serde::Serialize;

use crate::{arguments::InspectLog, inspect_output::Stop};

/// Sums over a file, or over all of them.
#[derive(Default, Serialize)]
struct Sum {
    records: u64,
    rows: u64,
    bytes: u64,
    first_epoch: Option<u64>,
    last_epoch: Option<u64>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Line<'a> {
    Record {
        file: &'a str,
        device: usize,
        position: u64,
        bytes: u64,
        epoch: u64,
        tid: u64,
        rows: u64,
    },
    File {
        file: &'a str,
        device: usize,
        generation: u32,
        sequence: u32,
        length: u64,
        persistent_epoch: Option<u64>,
        durable_bytes: u64,
        #[serde(flatten)]
        sum: &'a Sum,
        is_damaged: bool,
    },
    Sums {
        files: u64,
        #[serde(flatten)]
        sum: &'a Sum,
        damage: u64,
    },
}

/// Shows a log, and counts the files that are damaged.
pub fn show_log(arguments: &InspectLog, log: &ParallelLog, out: &mut dyn Write, damage: &mut u64) -> Result<(), Stop> {
    let is_wanted = |file: &&LogFile| arguments.segment.as_ref().is_none_or(|wanted| *wanted == file.file);
    let (mut sums, mut count) = (Sum::default(), 0);
    for file in log.files().iter().filter(is_wanted) {
        let (sum, is_damaged) = show_file(arguments, log, file, out)?;
        sums.add(sum.records, sum.rows, sum.bytes, [sum.first_epoch, sum.last_epoch]);
        count += 1;
        *damage += u64::from(is_damaged);
    }
    if arguments.json {
        line(out, &Line::Sums { files: count, sum: &sums, damage: *damage })?;
    } else {
        writeln!(out, "\n{} files: {sums}", grouped(count))?;
        match *damage {
            0 => writeln!(out, "nothing is damaged")?,
            damage => writeln!(out, "DAMAGED in {damage} files")?,
        }
    }
    Ok(out.flush()?)
}

fn show_file(
    arguments: &InspectLog,
    log: &ParallelLog,
    file: &LogFile,
    out: &mut dyn Write,
) -> Result<(Sum, bool), Stop> {
    let &LogFile { device, generation, sequence, length, persistent_epoch, durable_bytes, .. } = file;
    if !arguments.json {
        writeln!(out, "{}\n  log directory {device}, generation {generation}, file {sequence}", file.file)?;
    }
    if !arguments.json && !arguments.summary {
        writeln!(out, "  {:>12}  {:>12}  {:>22}  {:>9}  {:>6}", "position", "epoch", "TID", "bytes", "rows")?;
    }
    let (mut sum, mut records) = (Sum::default(), log.records(file)?);
    for record in &mut records {
        let LogRecord { position, bytes, epoch, tid, rows, moment, .. } = record?;
        // A note of the time belongs to no transaction.
        if moment.is_some() {
            continue;
        }
        sum.add(1, rows, bytes, [Some(epoch); 2]);
        match (arguments.summary, arguments.json) {
            (true, _) => {}
            (_, true) => line(out, &Line::Record { file: &file.file, device, position, bytes, epoch, tid, rows })?,
            (_, false) => writeln!(out, "  {position:>12}  {epoch:>12}  {tid:>22}  {bytes:>9}  {rows:>6}")?,
        }
    }
    let end = records.end();
    let is_damaged = end < durable_bytes || persistent_epoch.is_none();
    if arguments.json {
        let file = &file.file;
        let shown = Line::File {
            file,
            device,
            generation,
            sequence,
            length,
            persistent_epoch,
            durable_bytes,
            sum: &sum,
            is_damaged,
        };
        line(out, &shown)?;
        return Ok((sum, is_damaged));
    }
    writeln!(out, "  {sum}")?;
    match persistent_epoch {
        Some(epoch) => {
            writeln!(out, "  counts up to epoch {epoch}, was durable up to byte {durable_bytes} of {length}")?
        }
        None => writeln!(out, "  DAMAGE: no persistent epoch says what of it counts")?,
    }
    if end < durable_bytes {
        writeln!(out, "  DAMAGE: there is no whole record at byte {end}, and the log had been durable there")?;
    }
    Ok((sum, is_damaged))
}

fn line(out: &mut dyn Write, line: &Line<'_>) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    writeln!(out)
}

impl Sum {
    fn add(&mut self, records: u64, rows: u64, bytes: u64, [first, last]: [Option<u64>; 2]) {
        self.records += records;
        self.rows += rows;
        self.bytes += bytes;
        self.first_epoch = self.first_epoch.into_iter().chain(first).min();
        self.last_epoch = self.last_epoch.max(last);
    }
}

impl std::fmt::Display for Sum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [records, rows, bytes] = [self.records, self.rows, self.bytes].map(grouped);
        write!(f, "{records} records of {rows} rows in {bytes} bytes")?;
        match (self.first_epoch, self.last_epoch) {
            (Some(first), Some(last)) => write!(f, ", epochs {first} to {last}"),
            _ => Ok(()),
        }
    }
}

/// Shows a manifest.
pub fn show_checkpoint(checkpoint: &ParallelCheckpoint) -> Result<()> {
    let ParallelCheckpoint { file, epoch, last_epoch, generation, first, files, tables, .. } = checkpoint;
    writeln!(Stdout, "{file}: begun in epoch {epoch}, complete when epoch {last_epoch} was persistent")?;
    let first: Vec<_> = (0..).zip(first).map(|(device, first)| format!("file {first} of directory {device}")).collect();
    writeln!(Stdout, "log from generation {generation} on, there from {}", first.join(", "))?;
    for of in files {
        writeln!(Stdout, "{} in directory {}: {} rows, {}", of.file, of.device, grouped(of.rows), mib(of.bytes))?;
    }
    writeln!(Stdout, "tables: {}", tables.join(", "))
}

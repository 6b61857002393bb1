//! `ermine verify`: every byte of a database that is not open.

use std::path::Path;

use ermine::{Finding, Verification};
use ermine_bench::{Result, report, standard_output::Stdout};
use serde::Serialize;

use crate::{arguments::Verify, progress};

/// Verifies a database and reports the findings; returns whether there are none.
pub fn verify(arguments: &Verify) -> Result<bool> {
    let bar = progress::bar();
    let verification = ermine::verify(&arguments.directory, &arguments.log.options(), &mut |of| {
        progress::show(&bar, of.step, of.done, of.total)
    });
    bar.finish_and_clear();
    let verification = verification?;
    match arguments.json {
        true => report::write_json(&Json::from(&verification), Path::new("-"))?,
        false => print(&verification)?,
    }
    Ok(verification.is_right())
}

fn print(verification: &Verification) -> Result<()> {
    verification.findings.iter().try_for_each(|finding| writeln!(Stdout, "{}", line(finding)))?;
    if verification.wrong > verification.findings.len() as u64 {
        writeln!(Stdout, ".. and {} more", verification.wrong - verification.findings.len() as u64)?;
    }
    verification.not_checked.iter().try_for_each(|what| writeln!(Stdout, "not checked: {what}"))?;
    if let Some(torn) = &verification.torn {
        writeln!(Stdout, "as after a crash: {}", line(torn))?;
    }
    let log = match verification.persistent_epoch {
        Some(epoch) => format!(", {} log records up to epoch {epoch}", verification.log_records),
        None => String::new(),
    };
    writeln!(
        Stdout,
        "{}: {} tables, {} rows, {} entries of indexes; {} files, {} blocks{log}, {} in {:.1} s",
        if verification.is_right() { "nothing is wrong" } else { "DAMAGED" },
        verification.tables,
        verification.rows,
        verification.entries,
        verification.files,
        verification.blocks,
        report::mib(verification.bytes),
        verification.took.as_secs_f64()
    )
}

fn line(finding: &Finding) -> String {
    match finding.file.is_empty() {
        true => finding.what.clone(),
        false => format!("{} at byte {}: {}", finding.file, finding.offset, finding.what),
    }
}

/// The output of `--json`.
#[derive(Serialize)]
struct Json<'v> {
    right: bool,
    wrong: u64,
    findings: Vec<JsonFinding<'v>>,
    torn: Option<JsonFinding<'v>>,
    not_checked: &'v [String],
    tables: u64,
    rows: u64,
    entries: u64,
    files: u64,
    blocks: u64,
    log_records: u64,
    persistent_epoch: Option<u64>,
    bytes: u64,
    seconds: f64,
}

#[derive(Serialize)]
struct JsonFinding<'v> {
    file: &'v str,
    offset: u64,
    what: &'v str,
}

impl<'v> From<&'v Verification> for Json<'v> {
    fn from(of: &'v Verification) -> Self {
        let finding = |of: &'v Finding| JsonFinding { file: &of.file, offset: of.offset, what: &of.what };
        Self {
            right: of.is_right(),
            wrong: of.wrong,
            findings: of.findings.iter().map(finding).collect(),
            torn: of.torn.as_ref().map(finding),
            not_checked: &of.not_checked,
            tables: of.tables,
            rows: of.rows,
            entries: of.entries,
            files: of.files,
            blocks: of.blocks,
            log_records: of.log_records,
            persistent_epoch: of.persistent_epoch,
            bytes: of.bytes,
            seconds: of.took.as_secs_f64(),
        }
    }
}

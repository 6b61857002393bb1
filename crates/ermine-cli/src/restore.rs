//! `ermine restore`: a database as of a moment.

use std::{path::PathBuf, time::SystemTime};

use clap::Args;
use ermine::{Error, Until};
use ermine_bench::{Error as Failure, Result, report};
use jiff::Timestamp;

use crate::check;

#[derive(Debug, Args)]
pub struct Arguments {
    /// The directory of the backup
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,
    /// Directory for the database: a new one, or an empty one
    #[arg(value_name = "TARGET")]
    target: PathBuf,
    /// The archived log of the same database (ermined serve --archive, Options::archive), to continue behind the backup
    #[arg(long, value_name = "DIR")]
    archive: Option<PathBuf>,
    /// Only commits at this LSN or before; for a database of a single-version scheme, the stamp of a commit, whose
    /// epoch is kept as a whole
    #[arg(long, value_name = "N", conflicts_with = "until_time")]
    until_lsn: Option<u64>,
    /// Only commits up to this moment, as in 2026-03-01T12:00:00.5+01:00
    ///
    /// The log notes the time every 10 ms while transactions commit.
    #[arg(long, value_name = "RFC3339")]
    until_time: Option<Timestamp>,
}

/// Restores a database.
pub fn restore(arguments: &Arguments) -> Result<bool> {
    let Arguments { backup, target, archive, until_lsn, until_time } = arguments;
    let until = match (until_lsn, until_time) {
        (Some(lsn), _) => Until::Lsn(*lsn),
        (None, Some(time)) => Until::Time((*time).into()),
        (None, None) => Until::End,
    };
    let bar = check::bar();
    let report = ermine::restore(backup, archive.as_deref(), target, until, &mut |progress| {
        bar.set_message(progress.step);
        bar.set_length(progress.total);
        bar.set_position(progress.done);
    });
    bar.finish_and_clear();
    let report = report.map_err(explain)?;
    println!(
        "{}: the log ends at LSN {}, its last note of the time is {}; {}, {} segments of the log ({} archived), in {:.1} s",
        target.display(),
        report.lsn,
        report.moment.map_or("none".into(), shown),
        report::mib(report.bytes),
        report.segments,
        report.archived_segments,
        report.took.as_secs_f64()
    );
    Ok(true)
}

fn explain(error: Error) -> Failure {
    match error {
        Error::TooEarly { lsn, moment } => Failure::Usage(format!(
            "this backup can be restored to LSN {lsn} and later{}: take an older backup for what was before",
            moment.map_or(String::new(), |moment| format!(", or to {} and later", shown(moment)))
        )),
        error => error.into(),
    }
}

/// Returns a moment in the form that the command line takes.
pub fn shown(moment: SystemTime) -> String {
    Timestamp::try_from(moment).map_or_else(|_| "a moment out of range".into(), |moment| moment.to_string())
}

//! `ermine backup`: a copy of a database that is not open.

use std::path::PathBuf;

use clap::Args;
use ermine::{Database, Error, Scheme, inspect::ParallelLog};
use ermine_bench::{Error as Failure, Result, report};

use crate::{arguments::LogDirectories, check};

#[derive(Debug, Args)]
pub struct Arguments {
    /// The directory of the database
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Directory for the copy: a new one, or an empty one
    #[arg(value_name = "DEST")]
    target: PathBuf,
    /// The database's archive of its log, if it has one: log that this command frees is archived first
    #[arg(long, value_name = "DIR")]
    archive: Option<PathBuf>,
    #[command(flatten)]
    log: LogDirectories,
}

/// Opens the database and makes the backup.
pub fn backup(arguments: &Arguments) -> Result<bool> {
    let Arguments { directory, target, archive, log } = arguments;
    let names = std::fs::read_dir(directory).map_err(|error| usage(format!("{}: {error}", directory.display())))?;
    let is_in_place = ParallelLog::open(directory, &log.options())?.is_some();
    let is_ours = |name: &str| name.starts_with("log-") || name.starts_with("checkpoint-");
    if !is_in_place && !names.flatten().any(|entry| entry.file_name().to_str().is_some_and(is_ours)) {
        return Err(usage(format!("{} holds no database", directory.display())));
    }
    // A directory does not name its scheme, only how many versions rows have: any scheme that fits can copy it.
    let mut options = log.options();
    if is_in_place {
        options = options.scheme(Scheme::Silo);
    }
    options.archive = archive.clone();
    let db = Database::open(directory, options).map_err(explain)?;
    let bar = check::bar();
    let report = db.backup_with(target, &mut |progress| {
        bar.set_message(progress.step);
        bar.set_length(progress.total);
        bar.set_position(progress.done);
        Ok(())
    });
    bar.finish_and_clear();
    let report = report?;
    println!(
        "{}: {} in {} files in {:.1} s; can be restored to LSN {} and later, and has everything below {}",
        target.display(),
        report::mib(report.bytes),
        report.files,
        report.took.as_secs_f64(),
        report.from_lsn,
        report.to_lsn
    );
    Ok(true)
}

/// Words the error for a database that another process has open.
fn explain(error: Error) -> Failure {
    match error {
        Error::Storage(what) if what.contains(" is in use by ") => usage(format!(
            "{what}: the process that has it open makes the backup (a server, with BACKUP TO 'directory')"
        )),
        error => error.into(),
    }
}

fn usage(what: String) -> Failure {
    Failure::Usage(what)
}

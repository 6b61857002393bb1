//! `ermine backup`: a copy of a database that is not open.

use ermine::{Database, Error, Scheme, inspect::ParallelLog};
use ermine_bench::{Error as Failure, Result, report, standard_output::Stdout};

use crate::{arguments::Backup, progress};

/// Opens the database and makes the backup.
pub fn backup(arguments: &Backup) -> Result<bool> {
    let Backup { directory, target, archive, log } = arguments;
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
    let bar = progress::bar();
    let report = db.backup_with(target, &mut |of| {
        progress::show(&bar, of.step, of.done, of.total);
        Ok(())
    });
    bar.finish_and_clear();
    let report = report?;
    writeln!(
        Stdout,
        "{}: {} in {} files in {:.1} s; can be restored to LSN {} and later, and has everything below {}",
        target.display(),
        report::mib(report.bytes),
        report.files,
        report.took.as_secs_f64(),
        report.from_lsn,
        report.to_lsn
    )?;
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

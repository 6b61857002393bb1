//! `ermine restore`: a database as of a moment.

use std::time::SystemTime;

use ermine::{Error, Until};
use ermine_bench::{Error as Failure, Result, report, standard_output::Stdout};
use jiff::Timestamp;

use crate::{arguments::Restore, progress};

/// Restores a database.
pub fn restore(arguments: &Restore) -> Result<bool> {
    let Restore { backup, target, archive, until_lsn, until_time } = arguments;
    let until = match (until_lsn, until_time) {
        (Some(lsn), _) => Until::Lsn(*lsn),
        (None, Some(time)) => Until::Time((*time).into()),
        (None, None) => Until::End,
    };
    let bar = progress::bar();
    let report = ermine::restore(backup, archive.as_deref(), target, until, &mut |of| {
        progress::show(&bar, of.step, of.done, of.total)
    });
    bar.finish_and_clear();
    let report = report.map_err(explain)?;
    writeln!(
        Stdout,
        "{}: the log ends at LSN {}, its last note of the time is {}; {}, {} segments of the log ({} archived), in \
         {:.1} s",
        target.display(),
        report.lsn,
        report.moment.map_or("none".into(), shown),
        report::mib(report.bytes),
        report.segments,
        report.archived_segments,
        report.took.as_secs_f64()
    )?;
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

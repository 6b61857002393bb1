//! `ermine inspect checkpoint`: the content of the newest checkpoint.

use ermine::{KeyContents, inspect::ParallelLog};
use ermine_bench::{Error, Result, report, standard_output::Stdout};

use crate::{arguments::InspectCheckpoint, inspect_parallel, restore::shown};

/// Shows the newest checkpoint.
pub fn inspect(arguments: &InspectCheckpoint) -> Result<bool> {
    let none = || writeln!(Stdout, "{} has no checkpoint: the log has everything", arguments.directory.display());
    if let Some(log) = ParallelLog::open(&arguments.directory, &arguments.log.options())? {
        if arguments.keys {
            return Err(Error::Usage("--keys: not for checkpoints of single-version schemes".into()));
        }
        log.checkpoint()?.map_or_else(none, |checkpoint| inspect_parallel::show_checkpoint(&checkpoint))?;
        return Ok(true);
    }
    let mut written = Ok(());
    let mut visit = |of: KeyContents| {
        if written.is_err() {
            return;
        }
        let key: String = of.key.iter().map(|byte| format!("{byte:02x}")).collect();
        let place = of.place.unwrap_or_default();
        written = writeln!(Stdout, "table {} index {} key {key} row {} {place}", of.table.as_u32(), of.index, of.row);
    };
    let visit = arguments.keys.then_some(&mut visit as &mut dyn FnMut(KeyContents));
    let contents = ermine::checkpoint_contents(&arguments.directory, visit)?;
    written?;
    let Some(contents) = contents else {
        none()?;
        return Ok(true);
    };
    writeln!(Stdout, "{}: {}, begun {}", contents.file, report::mib(contents.bytes), shown(contents.moment))?;
    writeln!(
        Stdout,
        "log from LSN {} on, from segment {:016x}; complete at LSN {}",
        contents.begin_lsn, contents.log_sequence, contents.walked_lsn
    )?;
    for section in &contents.sections {
        let (table, what) = (section.table.as_u32(), if section.index == 0 { "keys" } else { "entries" });
        writeln!(Stdout, "table {table} index {}: {} {what} at byte {}", section.index, section.count, section.offset)?;
    }
    for file in &contents.cold {
        writeln!(Stdout, "{}: {}, {} rows, {} of use", file.file, report::mib(file.bytes), file.rows, file.live)?;
    }
    Ok(true)
}

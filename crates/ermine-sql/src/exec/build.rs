//! What changes of the catalog do with rows that are there.

use std::ops::ControlFlow;

use super::{EachRow, Run};
use crate::{
    bind::write::Rules,
    catalog::Table,
    error::{Result, SqlError, SqlState},
    failure::of_engine,
    storage::RawKey,
    types::row::RowReader,
};

/// Shows all rows of a table with their keys.
fn for_each_row(run: &Run<'_>, table: &Table, each: &mut EachRow<'_>) -> Result<()> {
    let mut failure = None;
    let scanned = run.txn.scan(&table.rows, ..).for_each(|RawKey(key), bytes| {
        let mut values = Vec::with_capacity(table.types.len());
        let done = run.check_cancelled().and_then(|()| {
            RowReader::new(bytes, &table.types)?.read_all(&mut values)?;
            for column in &table.def.columns[values.len()..] {
                values.push(super::scan::missing(column)?);
            }
            each(&key, &values)
        });
        Ok(match done {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        })
    });
    match failure {
        Some(error) => Err(error),
        None => scanned.map_err(of_engine),
    }
}

/// Fails when a row of a table breaks its rules.
pub(crate) fn check_rows(run: &Run<'_>, table: &Table, rules: &Rules) -> Result<()> {
    for_each_row(run, table, &mut |_, row| {
        run.check_row(table, rules, row).map_err(|error| {
            let report = error.report();
            match report.state {
                SqlState::NOT_NULL_VIOLATION => {
                    let column = report.column.as_deref().unwrap_or_default();
                    let message = format!("column \"{column}\" of relation \"{}\" contains null values", table.name());
                    SqlError::new(SqlState::NOT_NULL_VIOLATION, message).table(table.name()).column(column)
                }
                SqlState::CHECK_VIOLATION => {
                    let name = report.constraint.as_deref().unwrap_or_default();
                    let message =
                        format!("check constraint \"{name}\" of relation \"{}\" is violated by some row", table.name());
                    SqlError::new(SqlState::CHECK_VIOLATION, message).table(table.name()).constraint(name)
                }
                _ => error,
            }
        })
    })
}

/// Puts all rows of a table into a new index.
pub(crate) fn fill_index(run: &Run<'_>, table: &Table, rules: &Rules, at: usize) -> Result<()> {
    for_each_row(run, table, &mut |key, row| run.build_entry(table, rules, at, row, key))
}

/// Inserts all rows of a table into what it becomes.
pub(crate) fn move_rows(run: &Run<'_>, old: &Table, new: &Table, rules: &Rules) -> Result<()> {
    for_each_row(run, old, &mut |_, row| {
        run.check_row(new, rules, row)?;
        run.insert_row(new, rules, row).map(drop)
    })
}

//! What changes of the catalog do with rows that are there.
//!
//! While nobody else uses the table, they go through all rows in one transaction. While others do, they go through them in batches, each a
//! transaction of its own that may lose a conflict; what others do meanwhile is their own business:
//!
//! Invariants of a table with an index that is being built, from when all who use the table know of it
//! 1. *Writers have it right*: whoever writes a row writes its entry, and deletes the one that the row had, if it is there.
//! 2. *A batch writes what it puts in*: the row, as it is, and its entry. So of two that write a row, a batch among them, one comes after the other
//!    and sees what that did, under every scheme in which writers of a row do. A writer after the batch finds the entry and deletes it; a batch
//!    after a writer finds its entry and leaves it. No entry of a row that has become another one stays.
//! 3. *What lies behind is complete*: every row up to where the batches have come has its entry. What comes to lie there later was put
//!    there by a writer. When the batches have come to the end, every row has its entry.
//! 4. *Nobody takes another's entry away*: in a unique index, a row that has no entry yet may be equal to one that has it (`delete_entry`).

use std::ops::ControlFlow;

use ermine::{EncodedRange, KeyBuffer, OwnedTransaction, RowLock};

use super::{EachRow, Run, scan::whole_row, write::primary_key};
use crate::{
    bind::write::Rules,
    catalog::Table,
    error::{Result, SqlError, SqlState},
    failure::of_engine,
    query::Path,
    storage::{RawKey, RawRange, Rows},
    types::Value,
};

/// Shows all rows of a table with their keys.
fn for_each_row(run: &Run<'_>, table: &Table, each: &mut EachRow<'_>) -> Result<()> {
    let (mut failure, mark) = (None, run.environment.memory.mark());
    let scanned = run.txn.scan(&table.rows, ..).for_each(|RawKey(key), bytes| {
        run.next_row(mark);
        let done = run.check_cancelled().and_then(|()| each(&key, &whole_row(table, bytes)?));
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

/// Whether a transaction sees all rows of a table as they are. It has the table alone; `newest` has begun since.
pub(crate) fn sees_all(
    txn: &OwnedTransaction,
    newest: &OwnedTransaction,
    table: &Table,
    check_cancelled: &dyn Fn() -> Result<()>,
) -> Result<bool> {
    let (mut sees_all, mut goes_on) = (true, Ok(()));
    // Of rows that were deleted since only the older one knows.
    for scanned in [newest, txn] {
        let look = |RawKey(key), _: &[u8]| {
            sees_all &= txn.row_lock(&table.rows, &key[..])? != RowLock::Outdated;
            goes_on = check_cancelled();
            Ok(if sees_all && goes_on.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        };
        let scanned = scanned.scan(&table.rows, ..).for_each(look);
        std::mem::replace(&mut goes_on, Ok(()))?;
        scanned.map_err(of_engine)?;
    }
    Ok(sees_all)
}

/// Fails when a row of a table breaks its rules.
pub(crate) fn check_rows(run: &Run<'_>, table: &Table, rules: &Rules) -> Result<()> {
    for_each_row(run, table, &mut |_, row| check_old_row(run, table, rules, row))
}

/// Fails when a row that was there before breaks a rule of its table.
fn check_old_row(run: &Run<'_>, table: &Table, rules: &Rules, row: &[Value]) -> Result<()> {
    run.check_row(table, rules, row).map_err(|error| {
        let report = error.report();
        match report.state {
            SqlState::NOT_NULL_VIOLATION => {
                let column = report.column.as_deref().unwrap_or_default();
                let message = format!("column \"{column}\" of relation \"{}\" contains null values", table.name());
                SqlError::new(SqlState::NOT_NULL_VIOLATION, message)
                    .table(&*table.def.schema, table.name())
                    .column(column)
            }
            SqlState::CHECK_VIOLATION => {
                let name = report.constraint.as_deref().unwrap_or_default();
                let message =
                    format!("check constraint \"{name}\" of relation \"{}\" is violated by some row", table.name());
                SqlError::new(SqlState::CHECK_VIOLATION, message)
                    .table(&*table.def.schema, table.name())
                    .constraint(name)
            }
            _ => error,
        }
    })
}

/// Puts all rows of a table into a new index.
pub(crate) fn fill_index(run: &Run<'_>, table: &Table, rules: &Rules, at: usize) -> Result<()> {
    for_each_row(run, table, &mut |key, row| {
        let Some((entry, is_unique)) = run.entry(table, rules, at, row, key)? else { return Ok(()) };
        let put = run.put_entry(table, at, &entry, is_unique, key, row);
        put.map_err(|error| duplicated(&table.def.indexes[at].name, error))
    })
}

/// Inserts all rows of a table into what it becomes.
pub(crate) fn move_rows(run: &Run<'_>, old: &Table, new: &Table, rules: &Rules) -> Result<()> {
    for_each_row(run, old, &mut |_, row| {
        run.check_row(new, rules, row)?;
        run.insert_row(new, rules, row).map(drop)
    })
}

/// What a batch does with rows.
#[derive(Clone, Copy)]
pub(crate) enum Batch {
    /// Puts them into an index.
    Fill(usize),
    /// Looks at whether they meet the rules.
    Check,
}

/// Goes through the next rows of a table, from a key on; gives where it goes on, if there may be more.
pub(crate) fn run_batch(
    run: &Run<'_>,
    table: &Table,
    rules: &Rules,
    batch: Batch,
    from: &[u8],
    rows_max: usize,
) -> Result<Option<KeyBuffer>> {
    let range = RawRange(EncodedRange { lower: KeyBuffer::from_slice(from), upper: None });
    let rows = run.txn.scan(&table.rows, range).limit(rows_max).collect().map_err(of_engine)?;
    let mark = run.environment.memory.mark();
    for (RawKey(key), bytes) in &rows {
        run.next_row(mark);
        run.check_cancelled()?;
        let row = whole_row(table, bytes)?;
        match batch {
            Batch::Fill(at) => fill_row(run, table, rules, at, key, bytes, &row)?,
            Batch::Check => check_old_row(run, table, rules, &row)?,
        }
    }
    Ok(rows.into_iter().nth(rows_max - 1).map(|(RawKey(mut last), _)| {
        last.push(0);
        last
    }))
}

/// Puts the entry of a row into an index, while others write.
fn fill_row(
    run: &Run<'_>,
    table: &Table,
    rules: &Rules,
    at: usize,
    key: &[u8],
    bytes: &[u8],
    row: &[Value],
) -> Result<()> {
    let Some((entry, is_unique)) = run.entry(table, rules, at, row, key)? else { return Ok(()) };
    let put = match run.txn.view(&table.indexes[at], &entry[..]).map_err(of_engine)? {
        Some(own) if own == key => Ok(()),
        Some(_) => Err(run.exists(table, Path::Index(at), row)),
        None => {
            // Invariant 2.
            if !run.txn.update(&table.rows, key, bytes).map_err(of_engine)? {
                let message = "could not serialize access due to concurrent delete";
                return Err(SqlError::new(SqlState::SERIALIZATION_FAILURE, message));
            }
            run.put_entry(table, at, &entry, is_unique, key, row)
        }
    };
    put.map_err(|error| duplicated(&table.def.indexes[at].name, error))
}

/// The error of two rows that a new unique index cannot both have.
pub(crate) fn duplicated(index: &str, error: SqlError) -> SqlError {
    if error.state() != SqlState::UNIQUE_VIOLATION {
        return error;
    }
    let report = error.report();
    let detail = report.detail.as_deref().unwrap_or_default().replace("already exists", "is duplicated");
    let (schema, table) = (report.schema.clone().unwrap_or_default(), report.table.clone().unwrap_or_default());
    SqlError::new(SqlState::UNIQUE_VIOLATION, format!("could not create unique index \"{index}\""))
        .detail(detail)
        .table(schema, table)
        .constraint(index)
}

/// What was found in a table.
#[derive(Default)]
pub(crate) struct TableCheck {
    pub(crate) rows: u64,
    pub(crate) entries: u64,
    /// In words, what is wrong; of much the first.
    pub(crate) findings: Vec<String>,
}

impl TableCheck {
    const FINDINGS_MAX: usize = 100;

    fn tell(&mut self, finding: impl FnOnce() -> String) {
        if self.findings.len() < Self::FINDINGS_MAX {
            self.findings.push(finding());
        }
    }
}

/// Decodes every row of a table, and holds rows and the entries of all indexes against each other, both ways.
pub(crate) fn check_table(run: &Run<'_>, table: &Table, rules: &Rules) -> Result<TableCheck> {
    let mut check = TableCheck::default();
    let name = table.name();
    let index = |at: usize| &table.def.indexes[at].name;
    let unreadable =
        |key: &[u8], error: &SqlError| format!("table {name}: the row at {} cannot be read: {error}", hex(key));
    let read = in_batches(run, &table.rows, |key, bytes| {
        check.rows += 1;
        let row = match whole_row(table, bytes) {
            Ok(row) => row,
            Err(error) => {
                check.tell(|| unreadable(key, &error));
                return Ok(());
            }
        };
        if table.def.primary_key.is_some() && primary_key(table, &row)[..] != *key {
            check.tell(|| format!("table {name}: the row at {} has another primary key", hex(key)));
        }
        for at in 0..table.indexes.len() {
            if let Some((entry, _)) = run.entry(table, rules, at, &row, key)? {
                match run.txn.view(&table.indexes[at], &entry[..]).map_err(of_engine)? {
                    Some(of) if of == key => {}
                    Some(of) => {
                        let of = hex(of);
                        check.tell(|| {
                            format!("index {}: the entry of the row at {} is that of {of}", index(at), hex(key))
                        });
                    }
                    None => check.tell(|| format!("index {}: the row at {} has no entry", index(at), hex(key))),
                }
            }
        }
        Ok(())
    });
    if let Err(error) = read {
        check.tell(|| format!("table {name} cannot be read: {error}"));
    }
    for at in 0..table.indexes.len() {
        let read = in_batches(run, &table.indexes[at], |entry, key| {
            check.entries += 1;
            let wanted = match run.txn.view(&table.rows, key).map_err(of_engine)? {
                None => None,
                Some(bytes) => match whole_row(table, bytes) {
                    Ok(row) => run.entry(table, rules, at, &row, key)?,
                    // That has been told.
                    Err(_) => return Ok(()),
                },
            };
            if wanted.is_none_or(|(wanted, _)| wanted[..] != *entry) {
                check.tell(|| {
                    format!("index {}: an entry of the row at {}, which has another or none", index(at), hex(key))
                });
            }
            Ok(())
        });
        if let Err(error) = read {
            check.tell(|| format!("index {} cannot be read: {error}", index(at)));
        }
    }
    Ok(check)
}

/// Shows all keys and values of a table of the engine, some at a time.
fn in_batches(run: &Run<'_>, rows: &Rows, mut each: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
    const ROWS: usize = 1000;
    let mark = run.environment.memory.mark();
    let mut lower = KeyBuffer::new();
    loop {
        let range = RawRange(EncodedRange { lower: lower.clone(), upper: None });
        let batch = run.txn.scan(rows, range).limit(ROWS).collect().map_err(of_engine)?;
        for (RawKey(key), value) in &batch {
            run.next_row(mark);
            run.check_cancelled()?;
            each(key, value)?;
        }
        let Some((RawKey(last), _)) = batch.into_iter().nth(ROWS - 1) else { return Ok(()) };
        lower = last;
        lower.push(0);
    }
}

fn hex(key: &[u8]) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

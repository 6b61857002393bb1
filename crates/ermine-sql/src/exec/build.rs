//! Processing of existing rows by changes of the catalog.
//!
//! While no other transaction uses the table, a change processes all rows in one transaction. While others use it, the
//! rows are processed in batches, each a separate transaction that may lose a conflict; the concurrent transactions
//! follow these rules:
//!
//! Invariants of a table with an index that is being built, once all transactions that use the table know of it
//! 1. *Writers maintain it*: a transaction that writes a row writes its entry, and deletes the row's old entry, if it
//!    exists.
//! 2. *A batch writes the rows it indexes*: the row, unchanged, and its entry, if it is not there yet. So of two
//!    transactions that write a row, a batch among them, one comes after the other and sees its effect, under every
//!    scheme in which writers of a row do. A writer after the batch finds the entry and deletes it; a batch after a
//!    writer finds the writer's entry and leaves it. No entry of an old version of a row stays.
//! 3. *The part behind the batches is complete*: every row up to the key that the batches have reached has its entry. A
//!    row that appears there later was put there by a writer. When the batches have reached the end, every row has its
//!    entry.
//! 4. *No writer deletes another row's entry*: in a unique index, a row that has no entry yet may be equal to one that
//!    has it (`delete_entry`).

use std::ops::ControlFlow;

use ermine::{EncodedRange, KeyBuffer};

use super::{EachRow, Run, scan::whole_row, write::primary_key};
use crate::{
    bind::{references::Reference, write::Rules},
    catalog::{
        Table,
        progress::{Progress, ROWS_PER_REPORT},
    },
    error::{Result, SqlError, SqlState},
    expr::{Expr, Frame},
    failure::EngineResult as _,
    storage::{RawKey, RawRange, RawTable},
    types::Value,
};

/// Calls `each` with all rows of a table.
fn for_each_row(run: &Run<'_>, table: &Table, each: &mut EachRow<'_>) -> Result<()> {
    let (mut failure, mark) = (None, run.environment.memory.mark());
    let scanned = run.txn.scan(&table.rows, ..).for_each_encoded(|key, bytes| {
        run.next_row(mark);
        let done = run.check_cancelled().and_then(|()| each(key, bytes, &whole_row(table, bytes)?));
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
        None => scanned.sql(),
    }
}

/// Fails when a row of a table breaks its rules.
pub(crate) fn check_rows(run: &Run<'_>, table: &Table, rules: &Rules) -> Result<()> {
    for_each_row(run, table, &mut |_, _, row| check_old_row(run, table, rules, row))
}

/// Fails when a row of a table refers to a key that no row has.
pub(crate) fn check_references(run: &Run<'_>, reference: &Reference) -> Result<()> {
    for_each_row(run, &reference.child, &mut |_, _, row| run.check_reference(reference, row))
}

/// Fails when an existing row breaks a rule of its table.
fn check_old_row(run: &Run<'_>, table: &Table, rules: &Rules, row: &[Value]) -> Result<()> {
    run.check_row(table, rules, row).map_err(|error| {
        let report = error.report();
        match report.state {
            // Of a domain.
            _ if report.table.is_none() => error,
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
pub(crate) fn fill_index(run: &Run<'_>, table: &Table, rules: &Rules, at: usize, progress: &Progress) -> Result<()> {
    let mut done = 0;
    for_each_row(run, table, &mut |key, _, row| {
        done += 1;
        if done % ROWS_PER_REPORT == 0 {
            progress.reaches(done);
        }
        let Some((entry, is_unique)) = run.entry(table, rules, at, row, key)? else { return Ok(()) };
        let put = run.put_entry(table, rules, at, (&entry, is_unique), key, row);
        put.map_err(|error| duplicated(&table.def.indexes[at].name, error))
    })
}

/// Inserts all rows of a table into its new version.
pub(crate) fn move_rows(run: &Run<'_>, old: &Table, new: &Table, rules: &Rules) -> Result<()> {
    for_each_row(run, old, &mut |_, bytes, row| {
        check_old_row(run, new, rules, row)?;
        run.insert_stored_row(new, rules, row, bytes).map(drop)
    })
}

/// Writes all rows of a table into its new version, with some columns computed from the old row.
pub(crate) fn rewrite_rows(
    run: &Run<'_>,
    old: &Table,
    new: &Table,
    rules: &Rules,
    computed: &[(usize, Expr)],
) -> Result<()> {
    for_each_row(run, old, &mut |_, _, row| {
        let mut row = row.to_vec();
        row.resize(new.types.len(), Value::Null);
        let values = computed
            .iter()
            .map(|(at, expr)| Ok((*at, expr.eval(&Frame { row: &row, outer: None }, run)?.into_owned())));
        for (at, value) in values.collect::<Result<Vec<_>>>()? {
            row[at] = value;
        }
        run.generate(rules, &mut row)?;
        check_old_row(run, new, rules, &row)?;
        run.insert_row(new, rules, &row).map(drop)
    })
}

/// The work of a batch on its rows.
#[derive(Clone, Copy)]
pub(crate) enum Batch {
    /// Deletes the entries of an index that their rows do not have.
    Purge(usize),
    /// Adds them to an index.
    Fill(usize),
    /// Checks whether they meet the rules.
    Check,
}

/// Processes the next rows of a table, from a key on; returns how many, and where to continue, if there may be more.
pub(crate) fn run_batch(
    run: &Run<'_>,
    table: &Table,
    rules: &Rules,
    batch: Batch,
    from: &[u8],
    rows_max: usize,
) -> Result<(u64, Option<KeyBuffer>)> {
    let range = RawRange(EncodedRange { lower: KeyBuffer::from_slice(from), upper: None });
    let scanned = match batch {
        Batch::Purge(at) => &table.indexes[at],
        Batch::Fill(_) | Batch::Check => &table.rows,
    };
    let rows = run.txn.scan(scanned, range).limit(rows_max).collect().sql()?;
    let mark = run.environment.memory.mark();
    for (RawKey(key), bytes) in &rows {
        run.next_row(mark);
        run.check_cancelled()?;
        match batch {
            Batch::Purge(at) => purge_entry(run, table, rules, at, key, bytes)?,
            Batch::Fill(at) => fill_row(run, table, rules, at, key, bytes, &whole_row(table, bytes)?)?,
            Batch::Check => check_old_row(run, table, rules, &whole_row(table, bytes)?)?,
        }
    }
    let count = rows.len() as u64;
    let next = rows.into_iter().nth(rows_max - 1).map(|(RawKey(mut last), _)| {
        last.push(0);
        last
    });
    Ok((count, next))
}

/// Deletes an entry if its row has another one or none, while other transactions write.
fn purge_entry(run: &Run<'_>, table: &Table, rules: &Rules, at: usize, entry: &[u8], key: &[u8]) -> Result<()> {
    let wanted = match run.txn.view(&table.rows, key).sql()? {
        Some(bytes) => run.entry(table, rules, at, &whole_row(table, bytes)?, key)?,
        None => None,
    };
    if wanted.is_none_or(|(wanted, _)| wanted[..] != *entry) {
        run.txn.delete(&table.indexes[at], entry).sql()?;
    }
    Ok(())
}

/// Puts the entry of a row into an index, while other transactions write.
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
    // Invariant 2.
    if !run.txn.update(&table.rows, key, bytes).sql()? {
        let message = "could not serialize access due to concurrent delete";
        return Err(SqlError::new(SqlState::SERIALIZATION_FAILURE, message));
    }
    match run.put_entry(table, rules, at, (&entry, is_unique), key, row) {
        // A writer has put it there.
        Err(error)
            if error.state() == SqlState::UNIQUE_VIOLATION
                && run.txn.view(&table.indexes[at], &entry[..]).sql()? == Some(key) =>
        {
            Ok(())
        }
        put => put.map_err(|error| duplicated(&table.def.indexes[at].name, error)),
    }
}

/// Returns the error of two rows that conflict in a new unique index.
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

/// Results of checking a table.
#[derive(Default)]
pub(crate) struct TableCheck {
    pub(crate) rows: u64,
    pub(crate) entries: u64,
    /// Findings in words; if there are many, only the first ones.
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

/// Decodes every row of a table, and compares rows with the entries of all indexes, in both directions.
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
                match run.txn.view(&table.indexes[at], &entry[..]).sql()? {
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
            let wanted = match run.txn.view(&table.rows, key).sql()? {
                None => None,
                Some(bytes) => match whole_row(table, bytes) {
                    Ok(row) => run.entry(table, rules, at, &row, key)?,
                    // That error is reported already.
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

/// Calls `each` with all keys and values of a table of the engine, some at a time.
fn in_batches(run: &Run<'_>, rows: &RawTable, mut each: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
    const ROWS: usize = 1000;
    let mark = run.environment.memory.mark();
    let mut lower = KeyBuffer::new();
    loop {
        let range = RawRange(EncodedRange { lower: lower.clone(), upper: None });
        let batch = run.txn.scan(rows, range).limit(ROWS).collect().sql()?;
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

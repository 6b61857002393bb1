//! Rows of a table, read by the path that was chosen for them.

use std::ops::{Bound as RangeBound, ControlFlow};

use ermine::{EncodedRange, KeyBuffer};

use super::{EachEntry, EachJoined, Run};
use crate::{
    catalog::{
        Table,
        definition::{ColumnDef, TableDef},
        uses::add,
    },
    cursors::missing as missing_cursor,
    error::{Result, SqlError, SqlState},
    expr::{Comparison, Frame},
    failure::EngineResult as _,
    key::write_key,
    query::{Access, Bound, Path, TableSource},
    storage::{RawRange, successor},
    types::{SqlType, Value, row::RowReader},
};

/// A value converted to the type of a column.
enum Fit {
    Exactly(Value),
    /// The value is below, or above, every value of the column's type.
    Below,
    Above,
    Null,
}

/// The part of a table that is read: the part of a path.
enum Part {
    Nothing,
    Point(KeyBuffer),
    Range(RawRange),
}

impl Run<'_> {
    /// Emits the rows of a table, each put into `row` from place `first` on.
    pub(super) fn table_rows(
        &self,
        source: &TableSource,
        first: usize,
        row: &mut Vec<Value>,
        outer: Option<&Frame<'_>>,
        each: &mut EachJoined<'_>,
    ) -> Result<ControlFlow<()>> {
        let TableSource { table, access, visible, .. } = source;
        let (part, mut seen) = (self.part(table, access, &Frame { row, outer })?, None);
        let each: &mut EachJoined<'_> = match visible.is_empty() {
            true => each,
            false => seen.insert(|row: &mut Vec<Value>| match self.all_hold(visible, row, outer)? {
                true => each(row),
                false => Ok(ControlFlow::Continue(())),
            }),
        };
        match (part, access.path) {
            (Part::Nothing, _) => Ok(ControlFlow::Continue(())),
            (Part::Point(key), Path::Primary) => self.looked_up(source, &key, first, row, each),
            (Part::Point(key), Path::Index(at)) => {
                // What follows is no part of the engine's operation: memory cannot be freed meanwhile.
                let entry =
                    self.txn.view_with(&table.indexes[at], &key[..], |key| Ok(KeyBuffer::from_slice(key))).sql()?;
                match entry {
                    Some(key) => self.looked_up(source, &key, first, row, each),
                    None => {
                        add(&self.uses(table).lookups, 1);
                        Ok(ControlFlow::Continue(()))
                    }
                }
            }
            (Part::Range(range), Path::Primary) => {
                let mut read = 0;
                let scanned = self.scan(&table.rows, range, access.reverse, &mut |key, bytes| {
                    read += 1;
                    self.fill(source, key, bytes, first, row)?;
                    each(row)
                });
                let uses = self.uses(table);
                add(&uses.scans, 1);
                add(&uses.scanned, read);
                scanned
            }
            (Part::Range(range), Path::Index(at)) => {
                // One addition for all rows.
                let mut found = 0;
                let scanned = self.scan(&table.indexes[at], range, access.reverse, &mut |_, key| {
                    found += 1;
                    self.row_under(source, key, first, row, each)
                });
                let uses = self.uses(table);
                add(&uses.lookups, 1);
                add(&uses.found, found);
                scanned
            }
        }
    }

    /// Emits the entries of a range of one of the engine's tables.
    fn scan(
        &self,
        rows: &crate::storage::RawTable,
        range: RawRange,
        reverse: bool,
        each: &mut EachEntry<'_>,
    ) -> Result<ControlFlow<()>> {
        let mut ended = Ok(ControlFlow::Continue(()));
        let scan = self.txn.scan(rows, range);
        let scan = if reverse { scan.rev() } else { scan };
        let scanned = scan.for_each_encoded(|key, bytes| {
            ended = self.check_cancelled().and_then(|()| each(key, bytes));
            Ok(match ended {
                Ok(flow) => flow,
                Err(_) => ControlFlow::Break(()),
            })
        });
        let flow = ended?;
        scanned.sql()?;
        Ok(flow)
    }

    /// Emits the row under the key of a lookup, if there is one.
    fn looked_up(
        &self,
        source: &TableSource,
        key: &[u8],
        first: usize,
        row: &mut Vec<Value>,
        each: &mut EachJoined<'_>,
    ) -> Result<ControlFlow<()>> {
        let uses = self.uses(&source.table);
        add(&uses.lookups, 1);
        self.row_under(source, key, first, row, &mut |row| {
            add(&uses.found, 1);
            each(row)
        })
    }

    // Sources are looped over inside one another, on one stack: what is inlined here would take room in each loop.
    #[inline(never)]
    fn row_under(
        &self,
        source: &TableSource,
        key: &[u8],
        first: usize,
        row: &mut Vec<Value>,
        each: &mut EachJoined<'_>,
    ) -> Result<ControlFlow<()>> {
        // An error of the statement is none of the engine.
        let filled = |bytes: &[u8]| Ok(self.fill(source, key, bytes, first, row));
        match self.txn.view_with(&source.table.rows, key, filled).sql()? {
            Some(filled) => filled.and_then(|()| each(row)),
            None => Ok(ControlFlow::Continue(())),
        }
    }

    /// Puts the requested columns into their places.
    fn fill(&self, source: &TableSource, key: &[u8], bytes: &[u8], first: usize, row: &mut [Value]) -> Result<()> {
        let reader = RowReader::new(bytes, &source.table.types)?;
        let stored = reader.stored();
        reader.read_into(&source.needed, &mut row[first..])?;
        for &column in source.needed.iter().skip_while(|column| **column < stored) {
            row[first + column] = match source.table.def.columns.get(column) {
                Some(column) => missing(column)?,
                None => Value::Oid(source.table.def.id),
            };
        }
        if let Some(at) = source.key_at {
            row[at] = Value::Bytea(key.into());
        }
        Ok(())
    }

    /// Returns the part of a path that is to be read.
    #[inline(never)]
    fn part(&self, table: &Table, access: &Access, frame: &Frame<'_>) -> Result<Part> {
        if let Some(cursor) = &access.cursor {
            return self.current_of(cursor, table);
        }
        let mut prefix = KeyBuffer::new();
        for bound in &access.equal {
            match self.fit(bound, frame)? {
                Fit::Exactly(value) => write_key(&value, bound.descending, &mut prefix),
                Fit::Below | Fit::Above | Fit::Null => return Ok(Part::Nothing),
            }
        }
        if access.is_point {
            return Ok(Part::Point(prefix));
        }
        if access.lower.is_none() && access.upper.is_none() {
            return Ok(Part::Range(RawRange::prefix(prefix)));
        }
        let (mut lower, mut upper) = (RangeBound::Included(prefix.clone()), after(&prefix));
        let descending = is_descending(table, access);
        let null = with(&prefix, &Value::Null, descending);
        // No comparison holds for NULL.
        if descending {
            lower = RangeBound::Excluded(null);
        } else {
            upper = RangeBound::Excluded(null);
        }
        for (comparison, bound) in [&access.lower, &access.upper].into_iter().flatten() {
            let is_lower = matches!(comparison, Comparison::Greater | Comparison::GreaterOrEqual);
            let value = match self.fit(bound, frame)? {
                Fit::Exactly(value) => value,
                Fit::Below if is_lower => continue,
                Fit::Above if !is_lower => continue,
                Fit::Below | Fit::Above | Fit::Null => return Ok(Part::Nothing),
            };
            let key = with(&prefix, &value, bound.descending);
            let is_included = matches!(comparison, Comparison::GreaterOrEqual | Comparison::LessOrEqual);
            let key = if is_included { RangeBound::Included(key) } else { RangeBound::Excluded(key) };
            if is_lower != bound.descending {
                lower = key;
            } else {
                upper = key;
            }
        }
        let lower = match lower {
            RangeBound::Included(key) => Some(key),
            RangeBound::Excluded(key) => successor(&key),
            RangeBound::Unbounded => Some(KeyBuffer::new()),
        };
        let Some(lower) = lower else { return Ok(Part::Nothing) };
        let upper = match upper {
            RangeBound::Included(key) => successor(&key),
            RangeBound::Excluded(key) => Some(key),
            RangeBound::Unbounded => None,
        };
        Ok(Part::Range(RawRange(EncodedRange { lower, upper })))
    }

    /// Returns the row that a cursor is on.
    #[cold]
    fn current_of(&self, name: &str, table: &Table) -> Result<Part> {
        let Some([own, held]) = self.own.map(|own| own.cursors) else { return Err(missing_cursor(name)) };
        let Some(cursor) = own.find(name) else {
            return Err(match held.find(name) {
                Some(_) => {
                    let message = format!("cursor \"{name}\" is held from a previous transaction");
                    SqlError::new(SqlState::INVALID_CURSOR_STATE, message)
                }
                None => missing_cursor(name),
            });
        };
        Ok(match cursor.current(table.def.id, table.name())? {
            Value::Bytea(key) => Part::Point(KeyBuffer::from_slice(&key)),
            _ => Part::Nothing,
        })
    }

    /// Converts the value that a column is compared with to the column's type.
    fn fit(&self, bound: &Bound, frame: &Frame<'_>) -> Result<Fit> {
        let value = bound.value.eval(frame, self)?;
        if value.is_null() {
            return Ok(Fit::Null);
        }
        if bound.from == bound.column || bound.column.is_text() {
            return Ok(Fit::Exactly(value.into_owned()));
        }
        let number = match &*value {
            Value::Int2(number) => i64::from(*number),
            Value::Int4(number) => i64::from(*number),
            Value::Int8(number) => *number,
            _ => return Err(SqlError::new(SqlState::INTERNAL_ERROR, "a path is bounded by a value of another type")),
        };
        let fitting = match bound.column {
            SqlType::INT2 => number.try_into().ok().map(Value::Int2),
            SqlType::INT4 => number.try_into().ok().map(Value::Int4),
            _ => Some(Value::Int8(number)),
        };
        Ok(match fitting {
            Some(value) => Fit::Exactly(value),
            None if number < 0 => Fit::Below,
            None => Fit::Above,
        })
    }
}

/// Whether the column of a path after those that are compared by equality is descending.
fn is_descending(table: &Table, access: &Access) -> bool {
    match access.path {
        Path::Primary => false,
        Path::Index(index) => table.def.indexes[index].columns[access.equal.len()].1,
    }
}

fn with(prefix: &[u8], value: &Value, descending: bool) -> KeyBuffer {
    let mut key = KeyBuffer::from_slice(prefix);
    write_key(value, descending, &mut key);
    key
}

fn after(prefix: &[u8]) -> RangeBound<KeyBuffer> {
    successor(prefix).map_or(RangeBound::Unbounded, RangeBound::Excluded)
}

/// Returns all columns of a stored row.
pub(super) fn whole_row(table: &Table, bytes: &[u8]) -> Result<Vec<Value>> {
    whole_row_of(&table.def, &table.types, bytes)
}

/// Returns all columns of a stored row of a table with a definition, and the types of its columns.
pub(crate) fn whole_row_of(def: &TableDef, types: &[SqlType], bytes: &[u8]) -> Result<Vec<Value>> {
    let mut row = Vec::with_capacity(types.len());
    RowReader::new(bytes, types)?.read_all(&mut row)?;
    for column in &def.columns[row.len()..] {
        row.push(missing(column)?);
    }
    Ok(row)
}

/// Returns the value that a row has in a column that was added after the row was written.
#[cold]
#[inline(never)]
fn missing(column: &ColumnDef) -> Result<Value> {
    let Some(bytes) = &column.missing else { return Ok(Value::Null) };
    let mut values = Vec::new();
    RowReader::new(bytes, &[column.ty])?.read_all(&mut values)?;
    Ok(values.pop().unwrap_or(Value::Null))
}

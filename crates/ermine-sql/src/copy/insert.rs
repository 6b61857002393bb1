//! Inserts the rows of a stream into a table, and reports where in the stream an error happened.

use std::sync::Arc;

use super::{
    binary,
    fields::Fields,
    lines::{Lines, bad},
    options::{Format, Header},
    plan::CopyFrom,
};
use crate::{
    catalog::progress::Progress,
    error::{Result, SqlError, SqlState},
    exec::{Run, references::Owed},
    expr::Frame,
    memory::{Held, Memory},
    types::{self, Environment, Value},
};

/// A COPY FROM in progress.
pub(crate) struct Insertion {
    from: Arc<CopyFrom>,
    stream: Stream,
    inserted: u64,
    /// Rows that do not meet the condition.
    excluded: u64,
    /// Bytes of the stream so far.
    bytes: u64,
    owed: Owed,
    /// The memory of incomplete rows that the stream holds.
    held: Held,
}

/// Received data that is not yet a row.
enum Stream {
    Text { lines: Lines, fields: Fields, is_header_next: bool },
    Binary(binary::Rows),
}

impl Insertion {
    pub(crate) fn new(from: Arc<CopyFrom>, memory: &Memory) -> Self {
        let stream = match from.options.format {
            Format::Binary => Stream::Binary(binary::Rows::new()),
            Format::Text | Format::Csv => Stream::Text {
                lines: Lines::new(&from.options),
                fields: Fields::default(),
                is_header_next: from.options.header != Header::No,
            },
        };
        let owed = Owed::new(from.references.clone(), memory);
        Self { from, stream, inserted: 0, excluded: 0, bytes: 0, owed, held: memory.hold() }
    }

    /// Consumes a piece of the stream: inserts the rows that it completes.
    pub(crate) fn push(&mut self, piece: &[u8], run: &Run<'_>) -> Result<()> {
        let waiting = match &self.stream {
            Stream::Text { lines, .. } => lines.waiting(),
            Stream::Binary(rows) => rows.waiting(),
        };
        // Room for the growing buffers, and for the fields of the row.
        self.held.grow_to(3 * (waiting + piece.len()), usize::MAX).map_err(|error| self.placed(error))?;
        match &mut self.stream {
            Stream::Text { lines, .. } => lines.push(piece),
            Stream::Binary(rows) => rows.push(piece),
        }
        self.bytes += piece.len() as u64;
        self.insert_all(run)
    }

    /// Says how far it is.
    pub(crate) fn report(&self, progress: &Progress) {
        progress.copies(self.bytes, self.inserted, self.excluded);
    }

    /// Ends the stream; returns how many rows were inserted.
    pub(crate) fn finish(&mut self, run: &Run<'_>) -> Result<u64> {
        match &mut self.stream {
            Stream::Text { lines, .. } => lines.finish(),
            Stream::Binary(rows) => rows.finish(),
        }
        self.insert_all(run)?;
        self.owed.settle(run)?;
        Ok(self.inserted)
    }

    /// Adds the place in the stream to an error that is not about the received data.
    pub(crate) fn placed(&self, error: SqlError) -> SqlError {
        error.context(self.place())
    }

    /// Returns the number of the row in the stream.
    fn place(&self) -> String {
        let number = match &self.stream {
            Stream::Text { lines, .. } => lines.number,
            Stream::Binary(rows) => rows.number,
        };
        place(&self.from, number)
    }

    /// Returns the place with the row as it was received, if that is readable.
    fn shown_place(&self) -> String {
        match &self.stream {
            Stream::Text { lines, .. } => line_place(&self.from, lines),
            Stream::Binary(_) => self.place(),
        }
    }

    fn insert_all(&mut self, run: &Run<'_>) -> Result<()> {
        let (from, mark) = (self.from.clone(), run.environment.memory.mark());
        loop {
            run.next_row(mark);
            let mut row = vec![Value::Null; from.table.types.len()];
            let has_more = match &mut self.stream {
                Stream::Text { lines, fields, is_header_next } => {
                    if std::mem::take(is_header_next) && !check_header(&from, lines, fields)? {
                        // The header line is incomplete.
                        *is_header_next = true;
                        return Ok(());
                    }
                    read_line(&from, lines, fields, run.environment, &mut row)?
                }
                Stream::Binary(rows) => read_binary(&from, rows, run.environment, &mut row)?,
            };
            if !has_more {
                return Ok(());
            }
            run.check_cancelled().map_err(|error| self.placed(error))?;
            let is_inserted = self.insert(&from, row, run)?;
            self.inserted += u64::from(is_inserted);
            self.excluded += u64::from(!is_inserted);
        }
    }

    /// Inserts a row whose fields are in their places; returns false if it does not meet the condition.
    fn insert(&mut self, from: &CopyFrom, mut row: Vec<Value>, run: &Run<'_>) -> Result<bool> {
        let CopyFrom { table, rules, defaults, condition, .. } = from;
        let nothing = Frame { row: &[], outer: None };
        for (at, default) in defaults {
            row[*at] = default.eval(&nothing, run).map_err(|error| self.placed(error))?.into_owned();
        }
        run.generate(rules, &mut row).map_err(|error| self.placed(error))?;
        if let Some(condition) = condition
            && !condition.is_true(&Frame { row: &row, outer: None }, run).map_err(|error| self.placed(error))?
        {
            return Ok(false);
        }
        run.check_row(table, rules, &row).map_err(|error| error.context(self.shown_place()))?;
        run.insert_row(table, rules, &row).map_err(|error| self.placed(error))?;
        let owed = self.owed.inserted(run, &row);
        owed.map_err(|error| self.placed(error))?;
        Ok(true)
    }
}

/// Reads the next line into the columns of a row; returns false if there is none.
fn read_line(
    from: &CopyFrom,
    lines: &mut Lines,
    fields: &mut Fields,
    environment: &Environment,
    row: &mut [Value],
) -> Result<bool> {
    if !split(from, lines, fields)? {
        return Ok(false);
    }
    if fields.count() > from.fields.len() {
        return Err(bad("extra data after last expected column").context(line_place(from, lines)));
    }
    for (at, plan) in from.fields.iter().enumerate() {
        if at == fields.count() {
            return Err(bad(format!("missing data for column \"{}\"", plan.name)).context(line_place(from, lines)));
        }
        let text = match fields.get(at) {
            None if plan.force_not_null => &*from.options.null,
            None => continue,
            Some(text) if plan.force_null && text == from.options.null => continue,
            Some(text) => text,
        };
        row[plan.at] = types::text::parse(plan.ty, plan.modifier, text, environment).map_err(|error| {
            let place = place(from, lines.number);
            error.context(format!("{place}, column {}: {}", plan.name, shown(text.as_bytes())))
        })?;
    }
    Ok(true)
}

/// Finds the next line and its fields; returns false if there is none.
fn split(from: &CopyFrom, lines: &mut Lines, fields: &mut Fields) -> Result<bool> {
    let next = lines.next();
    if !next.map_err(|error| error.context(place(from, lines.number + 1)))? {
        return Ok(false);
    }
    fields.split(lines.line(), &from.options).map_err(|error| match error.state() {
        // A line that is not text cannot be shown.
        SqlState::CHARACTER_NOT_IN_REPERTOIRE => error.context(place(from, lines.number)),
        _ => error.context(line_place(from, lines)),
    })?;
    Ok(true)
}

/// Consumes the first line, which has the names of the columns; returns false if it is incomplete.
fn check_header(from: &CopyFrom, lines: &mut Lines, fields: &mut Fields) -> Result<bool> {
    if !split(from, lines, fields)? {
        return Ok(false);
    }
    if from.options.header != Header::Match {
        return Ok(true);
    }
    let (count, wanted) = (fields.count(), from.fields.len());
    if count != wanted {
        let message = format!("wrong number of fields in header line: field count is {count}, expected {wanted}");
        return Err(bad(message).context(line_place(from, lines)));
    }
    for (at, plan) in from.fields.iter().enumerate() {
        let got = match fields.get(at) {
            Some(name) if name == plan.name => continue,
            Some(name) => format!("got \"{name}\""),
            None => format!("got null value (\"{}\")", from.options.null),
        };
        let message =
            format!("column name mismatch in header line field {}: {got}, expected \"{}\"", at + 1, plan.name);
        return Err(bad(message).context(line_place(from, lines)));
    }
    Ok(true)
}

/// Reads the next row of the binary format; returns false if there is none.
fn read_binary(from: &CopyFrom, rows: &mut binary::Rows, environment: &Environment, row: &mut [Value]) -> Result<bool> {
    let next = rows.next(from.fields.len()).map_err(|error| match rows.number {
        // The header belongs to no row.
        0 => error,
        number => error.context(place(from, number)),
    });
    if !next? {
        return Ok(false);
    }
    for (at, plan) in from.fields.iter().enumerate() {
        let Some(bytes) = rows.get(at) else { continue };
        row[plan.at] = types::binary::read(plan.ty, plan.modifier, bytes, environment)
            .map_err(|error| error.context(format!("{}, column {}", place(from, rows.number), plan.name)))?;
    }
    Ok(true)
}

fn place(from: &CopyFrom, number: u64) -> String {
    format!("COPY {}, line {number}", from.table.name())
}

/// Returns the place with the line itself.
fn line_place(from: &CopyFrom, lines: &Lines) -> String {
    format!("{}: {}", place(from, lines.number), shown(lines.line()))
}

/// Returns the beginning of received bytes, in quotes.
fn shown(bytes: &[u8]) -> String {
    const SHOWN: usize = 100;
    let mut text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * SHOWN)]).into_owned();
    if let Some((end, _)) = text.char_indices().nth(SHOWN) {
        text.truncate(end);
        text += "...";
    }
    format!("\"{text}\"")
}

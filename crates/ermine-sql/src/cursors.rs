//! Open cursors, with their rows and positions.

use std::sync::Arc;

use crate::{
    catalog::definition::ObjectId,
    error::{Result, SqlError, SqlState},
    result::{Column, RowSink},
    row_buffer::RowBuffer,
    types::Value,
};

/// An open cursor.
pub(crate) struct Cursor {
    pub(crate) name: String,
    pub(crate) about: About,
    pub(crate) columns: Vec<Column>,
    /// The rows of tables from which each of its rows comes: the table, and the place of the key behind the columns.
    pub(crate) keys: Vec<(ObjectId, usize)>,
    /// Whether it locks those rows.
    pub(crate) is_locking: bool,
    /// All its rows if it scrolls, otherwise the current one and those after it.
    pub(crate) rows: RowBuffer,
    pub(crate) position: Position,
    /// The number of cursors that the transaction had opened before this one.
    pub(crate) number: usize,
}

/// The declaration of a cursor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Modes {
    pub(crate) is_binary: bool,
    /// WITH HOLD: it outlives its transaction.
    pub(crate) is_held: bool,
    /// Whether it is fetched in any direction, not forward only.
    pub(crate) scrolls: bool,
}

/// The state of a cursor that `pg_cursors` shows.
#[derive(Clone)]
pub(crate) struct About {
    pub(crate) modes: Modes,
    pub(crate) statement: Arc<str>,
    /// Microseconds since 2000-01-01.
    pub(crate) created: i64,
}

/// The place of a cursor among its rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position {
    /// The number of rows up to the current one; at the end, of all.
    at: usize,
    is_at_start: bool,
    is_at_end: bool,
    /// The number of rows that have been dropped.
    dropped: usize,
}

impl Position {
    pub(crate) const START: Self = Self { at: 0, is_at_start: true, is_at_end: false, dropped: 0 };
}

/// A number of rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Count {
    Rows(i64),
    All,
}

/// Which rows are fetched.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Movement {
    Forward(Count),
    Backward(Count),
    Absolute(i64),
    Relative(i64),
}

fn only_forward() -> SqlError {
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "cursor can only scan forward")
        .hint("Declare it with SCROLL option to enable backward scan.")
}

impl Cursor {
    /// Moves, and sends the rows that are fetched; without a receiver nothing is sent. Returns the number of rows.
    pub(crate) fn go(&mut self, movement: Movement, mut rows: Option<&mut dyn RowSink>) -> Result<usize> {
        let (is_forward, count) = match movement {
            Movement::Absolute(to) => return self.go_to(to, rows),
            Movement::Relative(by @ 1..) => {
                self.forward(all_but_one(by), None)?;
                return self.forward(Some(1), rows);
            }
            Movement::Relative(by @ ..0) => {
                self.backward(all_but_one(by), None)?;
                return self.backward(Some(1), rows);
            }
            Movement::Relative(0) => (true, Count::Rows(0)),
            Movement::Forward(Count::Rows(count)) => (count >= 0, Count::Rows(count)),
            Movement::Backward(Count::Rows(count)) => (count < 0, Count::Rows(count)),
            Movement::Forward(Count::All) => (true, Count::All),
            Movement::Backward(Count::All) => (false, Count::All),
        };
        let count = match count {
            Count::Rows(0) => return self.again(rows),
            Count::Rows(count) => Some(usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX)),
            Count::All => None,
        };
        if is_forward {
            return self.forward(count, rows);
        }
        if count.is_none() && rows.is_none() {
            let Position { at, is_at_end, .. } = self.position;
            self.rewind()?;
            return Ok(if is_at_end { at } else { at.saturating_sub(1) });
        }
        self.backward(count, rows.take())
    }

    /// Goes to a row by its number, from the end if that is negative; 0 is the place before the first.
    fn go_to(&mut self, to: i64, rows: Option<&mut dyn RowSink>) -> Result<usize> {
        let before = all_but_one(to);
        match to {
            1.. => {
                let Position { at, is_at_end, .. } = self.position;
                let (wanted, here) = (before.unwrap_or(0).saturating_add(1), at + usize::from(is_at_end));
                if wanted - 1 <= at / 2 {
                    self.rewind()?;
                    self.forward(before, None)?;
                } else if wanted <= here {
                    self.backward(Some(here - wanted + 1), None)?;
                } else {
                    self.forward(Some(wanted - here - 1), None)?;
                }
                self.forward(Some(1), rows)
            }
            0 => {
                self.rewind()?;
                self.forward(Some(0), rows)
            }
            _ => {
                self.forward(None, None)?;
                if before != Some(0) {
                    self.backward(before, None)?;
                }
                self.backward(Some(1), rows)
            }
        }
    }

    /// Sends the current row again, if there is one.
    fn again(&mut self, rows: Option<&mut dyn RowSink>) -> Result<usize> {
        let is_on_row = !self.position.is_at_start && !self.position.is_at_end;
        if rows.is_none() || !is_on_row {
            return Ok(usize::from(is_on_row));
        }
        self.backward(Some(1), None)?;
        self.forward(Some(1), rows)
    }

    fn rewind(&mut self) -> Result<()> {
        if self.position.is_at_start && !self.position.is_at_end {
            return Ok(());
        }
        if !self.about.modes.scrolls {
            return Err(only_forward());
        }
        self.position = Position { dropped: self.position.dropped, ..Position::START };
        Ok(())
    }

    /// Goes forward by a number of rows, or behind the last.
    fn forward(&mut self, count: Option<usize>, rows: Option<&mut dyn RowSink>) -> Result<usize> {
        let position = &mut self.position;
        if position.is_at_end || count == Some(0) {
            return Ok(0);
        }
        let (from, all) = (position.at, position.dropped + self.rows.len());
        let moved = count.unwrap_or(usize::MAX).min(all - from);
        position.is_at_start &= moved == 0;
        position.is_at_end = count.is_none_or(|count| moved < count);
        position.at += moved;
        let dropped = position.dropped;
        if let Some(sink) = rows {
            (from..from + moved).try_for_each(|at| sink.row(self.shown(at - dropped)?))?;
        }
        if !self.about.modes.scrolls {
            let Position { at, is_at_end, .. } = self.position;
            let needless = if is_at_end { at } else { at.saturating_sub(1) } - dropped;
            self.rows.drop_first(needless);
            self.position.dropped += needless;
        }
        Ok(moved)
    }

    /// Goes backward by a number of rows, or before the first.
    fn backward(&mut self, count: Option<usize>, rows: Option<&mut dyn RowSink>) -> Result<usize> {
        if !self.about.modes.scrolls {
            return Err(only_forward());
        }
        let position = &mut self.position;
        if position.is_at_start || count == Some(0) {
            return Ok(0);
        }
        let from = if position.is_at_end { position.at } else { position.at - 1 };
        let moved = count.unwrap_or(usize::MAX).min(from);
        if count.is_none_or(|count| moved < count) {
            *position = Position::START;
        } else {
            (position.at, position.is_at_end) = (from + 1 - moved, false);
        }
        if let Some(sink) = rows {
            (from - moved..from).rev().try_for_each(|at| sink.row(self.shown(at)?))?;
        }
        Ok(moved)
    }

    fn shown(&mut self, at: usize) -> Result<&[Value]> {
        Ok(&self.rows.row(at)?[..self.columns.len()])
    }

    /// Returns the key of the row of a table from which the current row comes (WHERE CURRENT OF); NULL: an outer join
    /// found no row.
    pub(crate) fn current(&self, table: ObjectId, table_name: &str) -> Result<Value> {
        let invalid = |what: String| {
            let message = format!("cursor \"{}\" {what}", self.name);
            SqlError::new(SqlState::INVALID_CURSOR_STATE, message)
        };
        let mut places = self.keys.iter().filter(|(of, _)| *of == table).map(|(_, place)| *place);
        let place = match (places.next(), places.next()) {
            (Some(place), None) => place,
            (Some(_), Some(_)) => {
                let what = format!("has multiple FOR UPDATE/SHARE references to table \"{table_name}\"");
                return Err(invalid(what));
            }
            (None, _) if self.is_locking => {
                let what = format!("does not have a FOR UPDATE/SHARE reference to table \"{table_name}\"");
                return Err(invalid(what));
            }
            (None, _) => {
                return Err(invalid(format!("is not a simply updatable scan of table \"{table_name}\"")));
            }
        };
        let Position { at, is_at_start, is_at_end, dropped } = self.position;
        if is_at_start || is_at_end {
            return Err(invalid("is not positioned on a row".into()));
        }
        self.rows.value(at - 1 - dropped, place)
    }
}

/// Returns the number of rows before the last one of a movement.
fn all_but_one(by: i64) -> Option<usize> {
    Some(usize::try_from(by.unsigned_abs().saturating_sub(1)).unwrap_or(usize::MAX - 1))
}

/// Cursors that are open: those of a transaction, or those that a session holds.
#[derive(Default)]
pub(crate) struct Cursors {
    pub(crate) open: Vec<Cursor>,
    /// The number of cursors opened so far.
    pub(crate) opened: usize,
}

impl Cursors {
    /// Returns the number of cursors opened so far, for [`Cursors::go_back`].
    pub(crate) fn mark(&self) -> usize {
        self.opened
    }

    /// Closes the cursors that were opened since `mark`.
    pub(crate) fn go_back(&mut self, mark: usize) {
        self.open.retain(|cursor| cursor.number < mark);
    }

    /// Returns an open cursor.
    pub(crate) fn find(&self, name: &str) -> Option<&Cursor> {
        self.open.iter().find(|cursor| cursor.name == name)
    }

    /// Returns an open cursor, mutably.
    pub(crate) fn find_mut(&mut self, name: &str) -> Option<&mut Cursor> {
        self.open.iter_mut().find(|cursor| cursor.name == name)
    }

    /// Opens a cursor.
    pub(crate) fn add(&mut self, cursor: Cursor) {
        self.open.push(Cursor { number: self.opened, ..cursor });
        self.opened += 1;
    }

    /// Closes a cursor; returns whether it was open.
    pub(crate) fn close(&mut self, name: &str) -> bool {
        let found = self.open.iter().position(|cursor| cursor.name == name);
        found.map(|at| self.open.swap_remove(at)).is_some()
    }

    /// Returns the bytes that the rows take.
    pub(crate) fn bytes(&self) -> usize {
        self.open.iter().map(|cursor| cursor.rows.bytes()).sum()
    }

    /// Removes the cursors that outlive their transaction.
    pub(crate) fn take_held(&mut self) -> Vec<Cursor> {
        self.open.extract_if(.., |cursor| cursor.about.modes.is_held).collect()
    }
}

/// Returns the error for a cursor that is not open.
pub(crate) fn missing(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("cursor \"{name}\" does not exist"))
}

//! Set-returning functions, of results and in FROM.

use std::ops::ControlFlow;

use super::{EachJoined, Emit, Run, instrumentation::Step};
use crate::{
    error::Result,
    expr::{Expr, Frame},
    functions::SetRows,
    memory::Kept,
    query::{
        Select,
        sets::{SetCall, Sets},
    },
    types::{Record, Value},
};

impl Run<'_> {
    /// Emits the rows on which the results of a query are evaluated.
    pub(super) fn result_rows(
        &self,
        select: &Select,
        outer: Option<&Frame<'_>>,
        emit: &mut Emit<'_>,
    ) -> Result<ControlFlow<()>> {
        let Sets { first, levels } = &select.sets;
        if levels.is_empty() {
            return self.rows_below_sets(select, outer, emit);
        }
        let mut extended = Vec::new();
        self.rows_below_sets(select, outer, &mut |row| {
            extended.clear();
            extended.extend_from_slice(row);
            extended.resize(select.sets.width(), Value::Null);
            self.extend(levels, *first, &mut extended, outer, emit)
        })
    }

    /// Emits the rows of a query's windows, groups or sources.
    fn rows_below_sets(
        &self,
        select: &Select,
        outer: Option<&Frame<'_>>,
        emit: &mut Emit<'_>,
    ) -> Result<ControlFlow<()>> {
        match select.windows.is_empty() {
            true => self.joined_or_grouped(select, outer, emit),
            false => self.step(select, Step::Windows, emit, |emit| self.windowed(select, outer, emit)),
        }
    }

    /// Emits a row with each row of the functions of some levels, whose places begin at `first`.
    fn extend(
        &self,
        levels: &[Vec<SetCall>],
        first: usize,
        row: &mut Vec<Value>,
        outer: Option<&Frame<'_>>,
        emit: &mut Emit<'_>,
    ) -> Result<ControlFlow<()>> {
        let [calls, inner @ ..] = levels else { return emit(row) };
        self.set_rows(calls, false, first, row, outer, &mut |row| {
            self.extend(inner, first + calls.len(), row, outer, emit)
        })
    }

    /// Emits the rows of functions, side by side; those that end earlier are extended with NULL. If they are numbered,
    /// the number of the row follows (WITH ORDINALITY).
    #[inline(never)]
    pub(super) fn set_rows(
        &self,
        calls: &[SetCall],
        is_numbered: bool,
        first: usize,
        row: &mut Vec<Value>,
        outer: Option<&Frame<'_>>,
        each: &mut EachJoined<'_>,
    ) -> Result<ControlFlow<()>> {
        let (mut kept, mark) = (Kept::new(&self.environment.memory), self.environment.memory.mark());
        let mut all = Vec::with_capacity(calls.len());
        for call in calls {
            let rows = self.rows_of(call, &Frame { row, outer })?;
            if let Some(rows) = &rows {
                kept.add(rows.bytes())?;
            }
            all.push(rows);
        }
        for number in 1.. {
            self.check_cancelled()?;
            self.next_row(mark);
            let (mut at, mut has_row) = (first, false);
            for (call, rows) in calls.iter().zip(&mut all) {
                let own = &mut row[at..at + call.width];
                let is_there = match rows {
                    Some(rows) => self.next_of_call(rows, call, own)?,
                    None => false,
                };
                if is_there {
                    has_row = true;
                } else {
                    *rows = None;
                    own.fill(Value::Null);
                }
                at += call.width;
            }
            if !has_row {
                break;
            }
            if is_numbered {
                row[at] = Value::Int8(number);
            }
            if each(row)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Writes the next row of a call to its places; returns whether there is one.
    fn next_of_call(&self, rows: &mut SetRows, call: &SetCall, own: &mut [Value]) -> Result<bool> {
        let Some(fields) = &call.record else { return rows.next(own, self.environment) };
        let mut values = vec![Value::Null; fields.len()];
        let is_there = rows.next(&mut values, self.environment)?;
        if is_there {
            own[0] = Value::Record(Box::new(Record::new(fields.clone(), values)?));
        }
        Ok(is_there)
    }

    /// Returns the rows of a call; `None`: there are none, because an argument is NULL.
    fn rows_of(&self, call: &SetCall, frame: &Frame<'_>) -> Result<Option<SetRows>> {
        let value = |argument: &Expr| Ok(argument.eval(frame, self)?.into_owned());
        let arguments = call.arguments.iter().map(value).collect::<Result<Vec<_>>>()?;
        if call.is_strict && arguments.iter().any(Value::is_null) {
            return Ok(None);
        }
        (call.eval)(arguments, self.environment).map(Some)
    }
}

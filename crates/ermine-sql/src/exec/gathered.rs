//! Rows that a statement gathers, to be read in the order in which they came.

use std::{mem, ops::ControlFlow};

use super::{Emit, space::Space};
use crate::{
    error::Result,
    memory::{Kept, Memory},
    tape::Tape,
    types::Value,
};

/// Rows of one width: in memory, or all of them on a tape when there was no room.
pub(super) struct Gathered<'r> {
    rows: Vec<Vec<Value>>,
    kept: Kept<'r>,
    tape: Option<Tape>,
    width: usize,
}

impl<'r> Gathered<'r> {
    pub(super) fn new(memory: &'r Memory) -> Self {
        Self { rows: Vec::new(), kept: Kept::new(memory), tape: None, width: 0 }
    }

    pub(super) fn push(&mut self, row: Vec<Value>, space: &Space<'r>) -> Result<()> {
        if let Some(tape) = &mut self.tape {
            return tape.push(&[], &row);
        }
        if self.kept.try_add_row(&row) {
            self.rows.push(row);
            return Ok(());
        }
        self.width = row.len();
        let all = mem::take(&mut self.rows);
        let mut tape = space.tape()?;
        for row in all.iter().chain([&row]) {
            tape.push(&[], row)?;
        }
        self.tape = Some(tape);
        self.kept.shrink_to(0);
        Ok(())
    }

    /// Shows each row.
    pub(super) fn each(&self, space: &Space<'r>, emit: &mut Emit<'_>) -> Result<ControlFlow<()>> {
        for row in &self.rows {
            if emit(row)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        let Some(tape) = &self.tape else { return Ok(ControlFlow::Continue(())) };
        let (mut row, mut reader) = (vec![Value::Null; self.width], space.read(tape));
        while reader.next(&mut row)?.is_some() {
            if emit(&row)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Shows each row, which may be changed, and drops it.
    pub(super) fn drain(self, space: &Space<'r>, each: &mut dyn FnMut(&mut [Value]) -> Result<()>) -> Result<()> {
        for mut row in self.rows {
            each(&mut row)?;
        }
        let Some(tape) = self.tape else { return Ok(()) };
        let (mut row, mut reader) = (vec![Value::Null; self.width], space.read(&tape));
        while reader.next(&mut row)?.is_some() {
            each(&mut row)?;
        }
        Ok(())
    }
}

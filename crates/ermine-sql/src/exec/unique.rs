//! Rows without those that equal an earlier one.
//!
//! Each new row is shown at once, until there is no room for its key. From then on rows with unknown keys go to batches
//! in a temporary file, each of which is read by itself when all rows have come.

use std::ops::ControlFlow;

use super::{
    Emit,
    key_set::KeySet,
    space::{Batches, Space},
};
use crate::{error::Result, memory::Kept, tape::Tape, types::Value};

pub(super) struct Unique<'q, 'r> {
    seen: KeySet,
    kept: Kept<'r>,
    space: &'q Space<'r>,
    later: Option<Batches>,
    /// The number of values of a row in the batches.
    width: usize,
}

impl<'q, 'r> Unique<'q, 'r> {
    pub(super) fn new(space: &'q Space<'r>) -> Self {
        let (seen, kept) = (KeySet::default(), Kept::new(space.memory()));
        Self { seen, kept, space, later: None, width: 0 }
    }

    /// Adds a row with this key; returns whether it is new, and to be shown now.
    pub(super) fn is_new(&mut self, key: &[u8], row: &[Value]) -> Result<bool> {
        // A key that waits may not come into memory later.
        let Some(later) = &mut self.later else {
            if let Some((_, is_new)) = self.seen.try_add(key, || 0, &mut self.kept)? {
                return Ok(is_new);
            }
            self.width = row.len();
            self.later.insert(self.space.batches()?).push(key, row)?;
            return Ok(false);
        };
        if !self.seen.contains(key) {
            later.push(key, row)?;
        }
        Ok(false)
    }

    /// Shows the other rows that are new.
    pub(super) fn finish(self, emit: &mut Emit<'_>) -> Result<ControlFlow<()>> {
        let (space, mut row) = (self.space, vec![Value::Null; self.width]);
        let mark = space.memory().mark();
        let mut batches = self.later()?;
        while let Some(batch) = batches.pop() {
            let (mut unique, mut reader) = (Self::new(space), space.read(&batch));
            while let Some(key) = reader.next(&mut row)? {
                space.memory().next_row(mark);
                if unique.is_new(key, &row)? && emit(&row)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            batches.extend(unique.later()?);
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Returns the batches that are left, and releases all memory.
    fn later(self) -> Result<Vec<Tape>> {
        self.later.map_or_else(|| Ok(Vec::new()), Batches::end)
    }
}

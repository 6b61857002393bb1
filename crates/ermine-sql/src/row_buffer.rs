//! Rows that are kept until the client fetches them, or while a statement runs.

use std::collections::VecDeque;

use crate::{
    error::{Result, SqlError, SqlState},
    memory::{Held, Memory, bytes_of},
    result::RowSink,
    types::Value,
};

/// Rows of a portal or a cursor that have not been fetched, or of a query that is run once, in their order.
#[derive(Debug)]
pub struct RowBuffer {
    rows: VecDeque<Box<[Value]>>,
    bytes: usize,
    bytes_max: usize,
    held: Held,
    /// The share of `work_mem` that the rows may take.
    held_max: usize,
}

impl Default for RowBuffer {
    fn default() -> Self {
        Self::new(Self::BYTES_MAX)
    }
}

impl RowBuffer {
    /// The bytes of rows that may be kept at a time.
    pub const BYTES_MAX: usize = 256 << 20;

    /// Returns an empty set of rows with room for `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self { rows: VecDeque::new(), bytes: 0, bytes_max, held: Held::default(), held_max: usize::MAX }
    }

    /// Like [`RowBuffer::new`], for rows that outlive the statement: they count against the database's budget, and
    /// `work_mem` bounds them.
    pub(crate) fn counted(bytes_max: usize, memory: &Memory, work_mem: usize) -> Self {
        Self { held: memory.hold(), held_max: work_mem, ..Self::new(bytes_max) }
    }

    /// Returns the approximate bytes that the rows take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Appends a row; fails if there is no room for it.
    pub fn push(&mut self, row: &[Value]) -> Result<()> {
        self.bytes += bytes_of(row);
        if self.bytes > self.bytes_max {
            let what = "too many rows would have to be kept, of a portal or a cursor that is fetched in parts, or of a \
                query that is run once";
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what)
                .hint("Fetch all rows at once, or fewer by LIMIT."));
        }
        self.held.grow_to(self.bytes, self.held_max)?;
        self.rows.push_back(row.into());
        Ok(())
    }

    /// Iterates over all rows and keeps them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[Value]> {
        self.rows.iter().map(|row| &**row)
    }

    /// Sends the first rows, at most `count`, and drops them; returns their number.
    pub fn fetch(&mut self, count: usize, rows: &mut dyn RowSink) -> Result<usize> {
        let mut fetched = 0;
        while fetched < count
            && let Some(row) = self.rows.pop_front()
        {
            self.bytes -= bytes_of(&row);
            self.held.shrink_to(self.bytes);
            rows.row(&row)?;
            fetched += 1;
        }
        Ok(fetched)
    }

    /// Returns the number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns a row by its place.
    pub(crate) fn row(&self, at: usize) -> &[Value] {
        &self.rows[at]
    }

    /// Drops the first rows.
    pub(crate) fn drop_first(&mut self, count: usize) {
        self.bytes -= self.rows.drain(..count).map(|row| bytes_of(&row)).sum::<usize>();
        self.held.shrink_to(self.bytes);
    }

    /// Drops all rows.
    pub fn clear(&mut self) {
        (self.rows, self.bytes) = (VecDeque::new(), 0);
        self.held.shrink_to(0);
    }
}

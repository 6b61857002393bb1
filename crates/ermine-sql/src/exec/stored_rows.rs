//! Rows that a statement keeps until it writes them: as they are stored, a fraction of what their values take.

use crate::{
    error::Result,
    memory::{Kept, Memory},
    types::{
        SqlType, Value,
        row::{RowReader, write_row},
    },
};

/// Rows of a table, one after the other.
pub(super) struct StoredRows<'m> {
    types: &'m [SqlType],
    bytes: Vec<u8>,
    /// The end of each row; it begins where the one before ends.
    ends: Vec<usize>,
    kept: Kept<'m>,
}

impl<'m> StoredRows<'m> {
    /// Returns an empty set of rows of a table with columns of these types.
    pub(super) fn new(types: &'m [SqlType], memory: &'m Memory) -> Self {
        Self { types, bytes: Vec::new(), ends: Vec::new(), kept: Kept::new(memory) }
    }

    pub(super) fn push(&mut self, row: &[Value]) -> Result<()> {
        let before = self.bytes.len();
        write_row(row, &mut self.bytes);
        // Up to half of each list is empty.
        self.kept.add(2 * (self.bytes.len() - before + size_of::<usize>()))?;
        self.ends.push(self.bytes.len());
        Ok(())
    }

    /// Returns all rows, in the order in which they were added.
    pub(super) fn iter(&self) -> impl Iterator<Item = Result<Vec<Value>>> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let bytes = &self.bytes[start..end];
            start = end;
            let mut row = Vec::new();
            RowReader::new(bytes, self.types)?.read_all(&mut row)?;
            Ok(row)
        })
    }
}

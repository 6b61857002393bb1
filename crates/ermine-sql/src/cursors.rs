//! The open cursors of a transaction, with the rows that are not fetched yet.

use crate::{result::Column, row_buffer::RowBuffer};

/// An open cursor.
pub(crate) struct Cursor {
    pub(crate) name: String,
    pub(crate) is_binary: bool,
    pub(crate) columns: Vec<Column>,
    /// Rows not fetched yet.
    pub(crate) rows: RowBuffer,
    /// The number of cursors that the transaction had opened before this one.
    pub(crate) number: usize,
}

/// The cursors of a transaction.
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

    /// Returns the position of an open cursor.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.open.iter().position(|cursor| cursor.name == name)
    }
}

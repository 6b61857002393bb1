//! COPY: rows from a stream of bytes into a table, and from a query into one.
//!
//! Nothing here knows where the bytes come from or go to. Out: [`CopyTo`] hands each row, as bytes, to [`crate::Rows::copy_data`]. In: a COPY FROM
//! STDIN does not end with its statement, it waits in the session for pieces of any length ([`crate::CopyIn`]), and what is a whole row of them
//! is inserted at once.
//!
//! | module | what |
//! |---|---|
//! | `tree` | the grammar, which is richer than sqlparser's |
//! | `options` | what the options mean, and which do not go together |
//! | `plan` | binding |
//! | `lines`, `fields` | from text and csv |
//! | `binary` | from the binary format |
//! | `insert` | rows of whatever format into the table; where an error happened |
//! | `output` | rows to bytes |
//!
//! Invariant: memory depends on the longest row and the longest piece, not on how many of them there are. A row may have
//! [`ROW_BYTES_MAX`].

mod binary;
mod fields;
mod insert;
mod lines;
mod options;
mod output;
mod plan;
mod tree;

pub(crate) use self::{
    insert::Insertion,
    output::copy_to,
    plan::{CopyFrom, CopyTo, bind},
    tree::CopyTree,
};

/// Bytes that a row may have in a stream: those of a value of the engine, each of which may be written with four letters, and the
/// delimiters.
const ROW_BYTES_MAX: usize = 5 * ermine::MAX_VALUE_BYTES;

/// What the other side of a COPY is told at its beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CopyFormat {
    /// Whether values travel as their types' bytes; otherwise as text.
    pub is_binary: bool,
    /// How many columns there are.
    pub columns: usize,
}

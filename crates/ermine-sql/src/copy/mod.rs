//! COPY: rows from a stream of bytes into a table, and from a query into one.
//!
//! This module does not know where the bytes come from or go to. Out: [`CopyTo`] passes each row, as bytes, to
//! [`crate::Rows::copy_data`]. In: a COPY FROM STDIN does not end with its statement; it waits in the session for
//! pieces of any length ([`crate::CopyIn`]), and each row is inserted as soon as it is complete.
//!
//! | module | content |
//! |---|---|
//! | `tree` | the grammar, which is richer than sqlparser's |
//! | `options` | the options, their meaning and forbidden combinations |
//! | `plan` | binding |
//! | `lines`, `fields` | from text and csv |
//! | `binary` | from the binary format |
//! | `insert` | rows of every format into the table; where an error happened |
//! | `output` | rows to bytes |
//!
//! Invariant: memory depends on the longest row and the longest piece, not on their number. A row may have
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

/// Maximum bytes of a row in a stream: those of a value of the engine, each of which may be written with four letters,
/// and the delimiters.
const ROW_BYTES_MAX: usize = 5 * ermine::MAX_VALUE_BYTES;

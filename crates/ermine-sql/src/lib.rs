//! SQL on the transaction path of Ermine.
//!
//! A statement is parsed (`sqlparser`), bound (`bind`) and run straight on the engine (`exec`). There is no optimizer
//! beyond the choice of an access path to each table's rows, and no layer between an expression and the rows that it
//! reads. [`SqlDatabase`] opens SQL's tables in a database of the engine; [`Session`] runs statements.
//!
//! | module | contents |
//! |---|---|
//! | `types` | types and values: text, bytes, keys, rows, casts |
//! | `operators`, `functions` | the parts of expressions |
//! | `storage` | rows as keys and values of the engine |
//! | `catalog` | schemas, tables, indexes, sequences, roles |
//! | `bind` | from the tree of a statement to `query`, `expr` |
//! | `fold` | constant folding |
//! | `exec` | the execution of plans |
//! | `copy` | COPY, in and out, in text, csv and binary |
//! | `ddl` | statements that change the catalog |
//! | `memory` | the memory that a statement may take |
//! | `session` | transactions, settings, statement by statement |
//! | `system` | tables and functions about the catalog |
//! | [`verifier`] | the stored form of passwords |

#![forbid(unsafe_code)]

mod bind;
mod catalog;
mod copy;
mod ddl;
mod error;
mod exec;
mod explain;
mod expr;
mod failure;
mod fold;
mod functions;
mod keywords;
mod memory;
mod operators;
mod prepared;
mod query;
mod session;
mod storage;
mod system;
pub mod types;
pub mod verifier;

pub use copy::CopyFormat;
pub use ddl::role::password_in;
pub use error::{Report, Result, SqlError, SqlState};
pub use memory::Held;
pub use session::{
    Column, Completion, CopyIn, Gathered, KeptRows, Prepared, Rows, Session, SqlDatabase, SqlVerification, Status,
};

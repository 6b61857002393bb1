//! SQL on the transaction path of Ermine.
//!
//! A statement is parsed (`sqlparser`), bound (`bind`) and run straight on the engine (`exec`): there is no optimizer beyond the choice of
//! a path to each table's rows, and nothing between an expression and the rows it looks at. [`SqlDatabase`] opens the tables that
//! SQL knows in a database of the engine; [`Session`] runs statements.
//!
//! | module | what |
//! |---|---|
//! | `types` | types and values: text, bytes, keys, rows, casts |
//! | `operators`, `functions` | what expressions are made of |
//! | `storage` | rows as keys and values of the engine |
//! | `catalog` | schemas, tables, indexes, sequences, roles |
//! | `bind` | from the tree of a statement to `query`, `expr` |
//! | `fold` | what constants decide, decided before |
//! | `exec` | runs them |
//! | `copy` | COPY, in and out, in text, csv and binary |
//! | `ddl` | statements that change the catalog |
//! | `memory` | what a statement may take |
//! | `session` | transactions, settings, statement by statement |
//! | `system` | tables and functions about the catalog |
//! | [`verifier`] | what is stored of passwords |

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

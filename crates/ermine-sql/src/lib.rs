//! SQL on the transaction path of Ermine.
//!
//! A statement is parsed (`sqlparser`), bound (`bind`) and run straight on the engine (`exec`). There is no optimizer
//! beyond the choice of an access path to each table's rows, and no layer between an expression and the rows that it
//! reads. [`SqlDatabase`] opens SQL's tables in a database of the engine; [`Session`] runs statements.
//!
//! | module | contents |
//! |---|---|
//! | [`types`] | types, values, operators, functions and errors: the crate `ermine-types` |
//! | `storage`, `key` | rows as keys and values of the engine |
//! | `parse` | texts to the parser's trees |
//! | `catalog` | schemas, tables, indexes, sequences, roles |
//! | `bind` | from the tree of a statement to `query`, `expr` |
//! | `collation` | collations, which decide what a letter is |
//! | `fold` | constant folding |
//! | `plan` | plans, and the statement that each of them runs |
//! | `exec` | loops, groups, orders, writes |
//! | `configuration`, `parameters` | the server's configuration; the settings of sessions |
//! | `copy` | COPY, in and out, in text, csv and binary |
//! | `ddl` | statements that change the catalog |
//! | `budget`, `failure` | the engine's memory and errors, as statements see them |
//! | `result` | columns, and the receiver of rows |
//! | `session` | transactions, settings, statement by statement |
//! | `system` | tables and functions about the catalog |
//! | [`verifier`] | the stored form of passwords |

#![forbid(unsafe_code)]

mod bind;
mod budget;
mod catalog;
mod claims;
mod collation;
mod configuration;
mod copy;
mod cursors;
mod ddl;
mod exec;
mod explain;
mod expr;
mod failure;
mod fold;
mod key;
mod level;
pub mod logical;
mod normal;
mod parameters;
mod parse;
mod plan;
mod prepared;
mod query;
mod result;
mod row_buffer;
mod session;
mod storage;
mod synchronous;
mod system;
mod tape;
mod transaction;
pub mod verifier;

/// SQL's types and values, operators and functions.
pub use ermine_types as types;
// The modules of that crate that this one uses as its own.
use ermine_types::{error, functions, keywords, memory, operators};

pub use bind::call::function_names;
pub use catalog::{
    notifications::Notification,
    wait_event::{During, WaitEvent, WaitEvents},
};
pub use configuration::{Alteration, Origin, ServerConfiguration, ServerControl, ServerOption, Standby};
pub use error::{Report, Result, SqlError, SqlState};
pub use failure::outcome_unknown;
pub use memory::Held;
pub use parse::password_in;
pub use result::{Column, CopyFormat, RowSet, RowSink};
pub use row_buffer::RowBuffer;
pub use session::activity::shown as loggable;
pub use session::{
    ClientStatement, Completion, CopyIn, Effort, Parent, Prepared, Session, SqlDatabase, SqlStatistics,
    SqlVerification, Status, WeakSqlDatabase,
};
pub use system::system_tables;

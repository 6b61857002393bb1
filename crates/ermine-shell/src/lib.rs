//! A prompt for SQL, on a database in this process or on a server.
//!
//! [`Statements`] is the interface for running statements; [`Local`] and [`Connected`] implement it, and no code above
//! depends on which one it has. [`run`] takes statements and commands from a script or from a user, and shows their
//! results.
//!
//! | module | content |
//! |---|---|
//! | `statements` | the interface for running statements |
//! | `local`, `connected` | its implementations, in this process and on a server |
//! | `input` | lines, typed or not; the pieces they are cut into |
//! | `output`, `report` | rows; failures |
//! | `commands`, `describe`, `copy` | commands with a backslash; `\d`; `\copy` |
//! | `shell` | running one after the other |
//!
//! It is a crate of its own, beside the server: it depends on SQL's sessions and the client's side of the protocol, and
//! on nothing that serves clients.

#![forbid(unsafe_code)]

mod commands;
mod connected;
mod copy;
mod describe;
mod input;
mod local;
mod output;
mod report;
mod shell;
mod statements;

pub use connected::{Connected, Target};
pub use local::Local;
pub use output::{Format, Layout};
pub use shell::{Step, Task, run};
pub use statements::{Column, Ends, Failure, Reply, Standing, Statements, Table};

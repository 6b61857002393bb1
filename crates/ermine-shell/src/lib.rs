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
//! | `input` | lines, typed or not; the pieces they are cut into; completion |
//! | `output`, `report` | rows, the pager and colors; failures |
//! | `commands`, `describe`, `copy`, `meter` | commands with a backslash; `\d`; `\copy`, and its progress |
//! | `patient` | files that are waited for until Ctrl-C |
//! | `building` | the progress of CREATE INDEX and BACKUP |
//! | `buffer`, `edit` | commands on the statement that is being typed, like `\g` and `\watch`; the user's editor |
//! | `shell` | running one after the other |
//!
//! It is a crate of its own, beside the server: it depends on SQL's sessions and the client's side of the protocol, and
//! on nothing that serves clients.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout)]

mod buffer;
mod building;
mod commands;
mod connected;
mod copy;
mod describe;
mod edit;
mod input;
mod local;
mod meter;
mod output;
mod patient;
mod report;
mod shell;
mod statements;

pub use connected::{Connected, Target};
pub use input::split::{Piece, Splitter};
pub use local::Local;
pub use output::{Expanded, Format, Layout, Paging};
pub use shell::{Step, Task, run};
pub use statements::{Beside, Column, Ends, Failure, Reply, Standing, Statements, Table};

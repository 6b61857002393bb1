//! A prompt for SQL, on a database in this process or on a server.
//!
//! [`Statements`] is what runs statements; [`Local`] and [`Connected`] are two of them, and nothing above knows which it has. [`run`] takes
//! statements and commands from a script or from who types them, and shows what comes of them.
//!
//! | module | what |
//! |---|---|
//! | `statements` | what is asked of whatever runs statements |
//! | `local`, `connected` | in this process; on a server |
//! | `input` | lines, typed or not; what they are cut into |
//! | `output`, `report` | rows; failures |
//! | `commands`, `describe`, `copy` | what begins with a backslash; `\d`; `\copy` |
//! | `shell` | one after the other |
//!
//! It is a crate of its own, beside the server: it knows SQL's sessions and the protocol's other side, and nothing of how clients are served.

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

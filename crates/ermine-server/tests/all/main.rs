//! Tests of the server, in one executable: every executable links the engine and SQL. Tests of the `ermined` command
//! run it as a process.

mod cluster;
mod import;
mod json_stream;
mod kill;
mod memory;
mod nats;
mod process;
mod raw;
mod server;
mod shell;
mod sql;
mod terminal;

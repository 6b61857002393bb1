//! Tests of the commands, each run as a process.

mod check;
mod files;
mod kill;
mod sim;

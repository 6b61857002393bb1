//! Tests of the commands, each run as a process.

mod bench;
mod check;
mod files;
mod kill;
mod pages;
mod sim;
mod standard_output;

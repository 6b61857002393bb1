//! The `ermined` command: serves a database, runs SQL on one, verifies one, and manages its users. Exits with 1 when it
//! failed, with 2 when the request cannot work.
#![forbid(unsafe_code)]

mod arguments;
mod init;
mod serve;
mod shell;
mod user;
mod verify;

use std::{path::Path, process::ExitCode};

use clap::Parser;
use ermine::Database;

use crate::arguments::{Command, Ermined, User};

fn main() -> ExitCode {
    let Ermined { command } = Ermined::parse();
    let done = match command {
        Command::Init(arguments) => init::init(&arguments),
        Command::Serve(arguments) => serve::serve(&arguments),
        Command::Shell(arguments) => shell::shell(&arguments),
        Command::Verify(arguments) => verify::verify(&arguments),
        Command::User { what: User::Add { name, place } } => user::add(&name, &place),
        Command::User { what: User::Drop { name, place } } => user::drop(&name, &place),
        Command::User { what: User::List { place } } => user::list(&place),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let (message, code) = match failure {
                Failure::Usage(message) => (message, USAGE),
                Failure::Failed(message) => (message, FAILED),
                Failure::Told => return ExitCode::from(FAILED),
            };
            eprintln!("error: {message}");
            ExitCode::from(code)
        }
    }
}

/// The reason why a verb failed.
pub enum Failure {
    /// The request cannot work at all.
    Usage(String),
    /// The operation failed.
    Failed(String),
    /// The operation failed, and the failure has already been reported.
    Told,
}

/// Fails where no database exists: a directory that was mistyped is not made one.
pub fn check_exists(dir: &Path) -> Result<(), Failure> {
    if Database::exists(dir) {
        return Ok(());
    }
    let dir = dir.display();
    Err(Failure::Usage(format!("there is no database in {dir}; `ermined init {dir}` makes one")))
}

/// Returns the failure of an operation.
pub fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Failed(error.to_string())
}

const FAILED: u8 = 1;
/// Exit status of a request that cannot work; clap uses the same.
const USAGE: u8 = 2;

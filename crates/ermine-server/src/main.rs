//! The `ermined` command: serves a database, runs SQL on one, copies PostgreSQL's into one, watches, verifies and
//! upgrades one, and manages its users. Exits with 1 when it failed, with 2 when the request cannot work.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout)]

mod arguments;
mod configuration;
mod import;
mod init;
mod json_stream;
mod notify;
mod operator;
mod packaging;
mod pid_file;
mod promote;
mod replication;
mod serve;
mod shell;
mod standard_output;
mod top;
mod upgrade;
mod user;
mod verify;

use std::{path::Path, process::ExitCode};

use ermine::{Database, Options};
use ermine_sql::logical::slots_kept_from;

use crate::{
    arguments::{Command, Config, Engine, Ermined, User},
    configuration::Unusable,
};

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    let (Ermined { command }, effective) = match configuration::parse(&arguments) {
        Ok(parsed) => parsed,
        Err(Unusable::Arguments(error)) => error.exit(),
        Err(Unusable::File(what)) => {
            eprintln!("error: {what}");
            return ExitCode::from(USAGE);
        }
    };
    let done = match command {
        Command::Init(arguments) => init::init(&arguments),
        Command::Serve(serve) => serve::serve(*serve, effective, arguments),
        Command::Config(Config::Check { file }) => configuration::commands::check(&file),
        Command::Config(Config::Show(_)) => configuration::commands::show(&effective),
        Command::Shell(arguments) => shell::shell(&arguments),
        Command::Top(arguments) => top::top(&arguments),
        Command::Import(arguments) => import::import(&arguments),
        Command::Verify(arguments) => verify::verify(&arguments),
        Command::Promote { dir } => promote::promote(&dir),
        Command::Upgrade(arguments) => upgrade::upgrade(&arguments),
        Command::User { what: User::Add { name, place } } => user::add(&name, &place),
        Command::User { what: User::Drop { name, place } } => user::drop(&name, &place),
        Command::User { what: User::List { place } } => user::list(&place),
        Command::Completions { shell } => packaging::completions(shell),
        Command::Man { dir } => packaging::man(&dir),
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

/// Returns the options with which a verb opens a database that is not served: its replication slots keep what they need
/// of the log.
pub fn options_in(dir: &Path, engine: &Engine) -> Result<Options, Failure> {
    let options = engine.options();
    Ok(match slots_kept_from(dir).map_err(failed)? {
        Some(position) => options.log_keys(true).keep_changes_from(position),
        None => options,
    })
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

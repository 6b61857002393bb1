//! The configuration of a server: which value each option of `ermined serve` has, and where the value comes from.
//!
//! The arguments of clap are the only definition of the options. A value of a file becomes an argument in front of
//! those of the command line, unless the command line or the environment has the option, so that the values of all
//! places are parsed, combined and refused in the same way.
//!
//! The places, from the strongest: the command line, variables `ERMINED_..`, `ermined.auto.toml` in the directory of
//! the database, which ALTER SYSTEM writes, the configuration file, the default.

pub mod altered;
pub mod commands;
mod file;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::{
    Arg, ArgMatches, Command as Clap, CommandFactory as _, FromArgMatches as _, error::ErrorKind, parser::ValueSource,
};

use self::file::Entry;
pub use self::file::{is_flag, is_number};
use crate::arguments::{Command, Config, Ermined, Serve};

/// The name of the configuration file in the directory of a database.
pub const FILE: &str = "ermined.toml";
/// The option that gives settings of sessions.
pub const SET: &str = "set";
/// How the names of variables begin.
const VARIABLES: &str = "ERMINED_";
/// Options that no file can have: those that say which file is read.
const OF_THE_COMMAND_LINE: [&str; 2] = ["config", "help"];

/// The place that a value comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    Default,
    /// A file and a line of it.
    File(String, u32),
    /// A variable.
    Environment(String),
    CommandLine,
}

/// The values of all options.
#[derive(Clone, Debug, Default)]
pub struct Effective {
    /// By the option's name; `None`: there is no value.
    pub options: BTreeMap<String, (Option<String>, Source)>,
    /// Values of settings of sessions.
    pub settings: BTreeMap<String, (String, Source)>,
}

/// The reason why a command line cannot be used.
pub enum Unusable {
    Arguments(clap::Error),
    File(String),
}

impl From<clap::Error> for Unusable {
    fn from(error: clap::Error) -> Self {
        Self::Arguments(error)
    }
}

impl Unusable {
    /// Returns one line about it.
    pub fn line(&self) -> String {
        match self {
            Self::Arguments(error) => first_line(error),
            Self::File(what) => what.clone(),
        }
    }
}

/// Parses a command line; for a server, with its configuration.
pub fn parse(arguments: &[OsString]) -> Result<(Ermined, Effective), Unusable> {
    let Some((words, found)) = of_server(arguments) else {
        return Ok((Ermined::from_arg_matches(&command().try_get_matches_from(arguments)?)?, Effective::default()));
    };
    check_variables(std::env::vars_os().filter_map(|(name, _)| name.into_string().ok())).map_err(Unusable::File)?;
    let entries = entries(&found)?;
    let is_elsewhere = |key: &str| !matches!(found.value_source(&id_of(key)), None | Some(ValueSource::DefaultValue));
    let used: Vec<_> = entries.into_iter().filter(|entry| entry.key == SET || !is_elsewhere(&entry.key)).collect();
    let mut all = arguments.to_vec();
    all.splice(1 + words..1 + words, used.iter().flat_map(Entry::arguments).map(OsString::from));
    let matches = command().try_get_matches_from(all)?;
    let parsed = Ermined::from_arg_matches(&matches)?;
    let serve = match &parsed.command {
        Command::Serve(serve) | Command::Config(Config::Show(serve)) => serve,
        _ => return Ok((parsed, Effective::default())),
    };
    let effective = effective(&found, innermost(&matches), &used, serve);
    Ok((parsed, effective))
}

/// Parses the command line of a server.
pub fn parse_server(arguments: &[OsString]) -> Result<(Serve, Effective), String> {
    match parse(arguments).map_err(|error| error.line())? {
        (Ermined { command: Command::Serve(serve) }, effective) => Ok((*serve, effective)),
        _ => Err("this is not the command line of a server".into()),
    }
}

/// Returns the options that files may have.
pub fn options() -> Vec<Arg> {
    let command = Ermined::command();
    let serve = command.find_subcommand("serve").expect("there is a verb serve");
    let is_option = |option: &&Arg| {
        option.get_long().is_some_and(|long| !OF_THE_COMMAND_LINE.contains(&long)) && option.get_id() != SET
    };
    serve.get_arguments().filter(is_option).cloned().collect()
}

/// Returns the name of an option in files.
pub fn key_of(option: &Arg) -> String {
    option.get_long().unwrap_or_default().to_owned()
}

fn id_of(key: &str) -> String {
    key.replace('-', "_")
}

/// Returns the reason why the value of an option that these arguments give is refused. Whether it fits to others does
/// not matter.
pub fn refusal(arguments: &[String]) -> Option<String> {
    let error = attempt(arguments).err()?;
    let is_of_others = matches!(error.kind(), ErrorKind::MissingRequiredArgument | ErrorKind::ArgumentConflict);
    (!is_of_others).then(|| first_line(&error))
}

/// Parses a server with these arguments and no others.
fn attempt(arguments: &[String]) -> Result<Serve, clap::Error> {
    let words = ["ermined", "serve", "DIR"].map(String::from);
    let matches = Ermined::command().try_get_matches_from(words.iter().chain(arguments))?;
    Serve::from_arg_matches(innermost(&matches))
}

/// Fails for a variable that begins like those of options, and is none: a misspelt name would have no effect.
fn check_variables(names: impl Iterator<Item = String>) -> Result<(), String> {
    let known: Vec<_> = options().iter().map(|option| variable_of(&key_of(option))).collect();
    // Kubernetes describes a service whose name begins with `ermined` by such variables.
    let is_of_service = |name: &str| {
        let is_of_port =
            name.split_once("_PORT_").is_some_and(|(_, port)| port.starts_with(|one: char| one.is_ascii_digit()));
        is_of_port || name.contains("_SERVICE_PORT") || name.ends_with("_SERVICE_HOST") || name.ends_with("_PORT")
    };
    let is_unknown = |name: &String| {
        let is_known = known.contains(name) || *name == variable_of(OF_THE_COMMAND_LINE[0]);
        name.starts_with(VARIABLES) && !is_known && !is_of_service(name)
    };
    let unknown = names.into_iter().find(is_unknown);
    unknown.map_or(Ok(()), |name| Err(file::unknown(&name, known.into_iter())))
}

fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines = text.lines().map(str::trim).take_while(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ").trim_start_matches("error: ").to_owned()
}

/// Returns the command, whose options for servers may come from the environment.
fn command() -> Clap {
    let variables = |command: Clap| {
        command.mut_args(|option| match option.get_long() {
            Some(long) if long != SET => {
                let variable = variable_of(long);
                option.env(variable).hide_env(true)
            }
            _ => option,
        })
    };
    Ermined::command()
        .mut_subcommand("serve", variables)
        .mut_subcommand("config", |config| config.mut_subcommand("show", variables))
}

fn variable_of(key: &str) -> String {
    format!("{VARIABLES}{}", id_of(key).to_uppercase())
}

/// Looks for the options of a server in a command line, whether they fit together or not; returns the number of words
/// of the verb, too.
fn of_server(arguments: &[OsString]) -> Option<(usize, ArgMatches)> {
    let mut matches = command().ignore_errors(true).try_get_matches_from(arguments).ok()?;
    let words = match arguments.get(1)?.to_str()? {
        "serve" => 1,
        "config" if arguments.get(2)? == "show" => 2,
        _ => return None,
    };
    for _ in 0..words {
        matches = matches.remove_subcommand()?.1;
    }
    Some((words, matches))
}

fn innermost(matches: &ArgMatches) -> &ArgMatches {
    matches.subcommand().map_or(matches, |(_, inner)| innermost(inner))
}

/// Returns the values of the files; of two for one option, the second file's.
fn entries(found: &ArgMatches) -> Result<Vec<Entry>, Unusable> {
    let path = |id: &str| found.try_get_one::<PathBuf>(id).ok().flatten();
    let Some(dir) = path("dir") else { return Ok(Vec::new()) };
    let first = match path("config") {
        Some(file) => file::read(file),
        None => file::read_if_there(&dir.join(FILE)),
    };
    let (mut entries, second) = (first.map_err(Unusable::File)?, altered::read(dir).map_err(Unusable::File)?);
    let is_replaced =
        |old: &Entry| second.iter().any(|entry| (&entry.key, entry.setting()) == (&old.key, old.setting()));
    entries.retain(|entry| !is_replaced(entry));
    Ok(entries.into_iter().chain(second).collect())
}

fn effective(found: &ArgMatches, matches: &ArgMatches, used: &[Entry], serve: &Serve) -> Effective {
    let place = |entry: &Entry| Source::File(entry.place.0.clone(), entry.place.1);
    let mut effective = Effective::default();
    for option in options() {
        let (key, id) = (key_of(&option), option.get_id().as_str());
        let raw = matches
            .get_raw(id)
            .map(|values| values.map(|value| value.to_string_lossy().into_owned()).collect::<Vec<_>>().join(","));
        let source = match used.iter().find(|entry| entry.key == key) {
            Some(entry) => place(entry),
            None => match found.value_source(id) {
                Some(ValueSource::CommandLine) => Source::CommandLine,
                Some(ValueSource::EnvVariable) => Source::Environment(variable_of(&key)),
                _ => Source::Default,
            },
        };
        let value = if is_flag(&option) { Some(matches.get_flag(id).to_string()) } else { raw };
        effective.options.insert(key, (value, source));
    }
    let from_files = used.iter().filter_map(|entry| Some((entry.setting()?, place(entry))));
    let from_files: BTreeMap<_, _> = from_files.collect();
    // Those of the command line come last, and win.
    let given = found.get_many::<(String, String)>(SET).into_iter().flatten().map(|(name, _)| name).collect::<Vec<_>>();
    for (name, value) in &serve.set {
        let of_file = from_files.get(&**name).filter(|_| !given.contains(&name)).cloned();
        effective.settings.insert(name.clone(), (value.clone(), of_file.unwrap_or(Source::CommandLine)));
    }
    effective
}

/// Returns the file that `ermined serve` reads for a database, if no other is named.
pub fn file_in(dir: &Path) -> PathBuf {
    dir.join(FILE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_variables_are_named() {
        let check = |name: &str| check_variables([String::from("PATH"), name.into()].into_iter());
        for known in [
            "ERMINED_LISTEN",
            "ERMINED_CONFIG",
            "ERMINED_PORT",
            "ERMINED_PORT_5432_TCP_ADDR",
            "ERMINED_SERVICE_HOST",
            "ERMINED_PROD_SERVICE_HOST",
            "ERMINED_PROD_SERVICE_PORT_SQL",
            "ERMINED_PROD_PORT_5432_TCP",
            "ERMINE_X",
        ] {
            assert_eq!(check(known), Ok(()));
        }
        let misspelt = check("ERMINED_MAX_CONECTIONS").unwrap_err();
        assert!(misspelt.ends_with("did you mean ERMINED_MAX_CONNECTIONS?"), "{misspelt}");
        assert!(check("ERMINED_").is_err());
    }
}

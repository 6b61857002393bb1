//! The operator's side of a running server: the options as SQL shows them, ALTER SYSTEM, and reading the configuration
//! again.
//!
//! Invariants
//! 1. *A configuration is taken over as a whole or not at all*: everything that can be refused is examined before the
//!    first change.
//! 2. *Statements change only what can be changed at run time, and neither files nor rights of the server*: a superuser
//!    of the database is not the operator of the machine.

use std::{
    ffi::OsString,
    net::SocketAddr,
    path::Path,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use clap::Arg;
use ermine::Database;
use ermine_server::{logger, server::Control};
use ermine_sql::{
    Alteration, Origin, ServerConfiguration, ServerControl, ServerOption, SqlDatabase, SqlError, SqlState, Standby,
    WeakSqlDatabase,
};

use crate::{
    arguments::Serve,
    configuration::{
        self, Effective, Source,
        altered::{self, Change, quoted},
        is_flag, is_number, key_of, options, refusal,
    },
    replication::Standbys,
};

/// Options that are taken over while the server runs, and whether statements may set them.
const RELOADABLE: [(&str, bool); 13] = [
    ("auth-delay", true),
    ("busy-poll", true),
    ("drain-seconds", true),
    ("hba-file", false),
    ("log", true),
    ("log-connections", true),
    ("log-disconnections", true),
    ("max-connections", true),
    ("max-message", true),
    ("memory-limit", true),
    ("superuser-reserved-connections", true),
    ("tls-required", false),
    ("trust", false),
];

/// Options that SQL does not show: one that a setting of sessions shows, and one of the start only.
const NOT_SHOWN: [&str; 2] = ["order", "create"];

/// A running server, as its configuration changes it.
pub struct Operator {
    command_line: Vec<OsString>,
    /// The options that the server has begun with.
    began: Serve,
    began_effective: Effective,
    addresses: Vec<SocketAddr>,
    database: WeakSqlDatabase,
    engine: Weak<Database>,
    server: Control,
    /// Held while files are read or written.
    files: Mutex<()>,
    /// Of the primary of a cluster.
    standbys: Option<Arc<Standbys>>,
}

/// Returns the values of settings of sessions, if all of them can be used.
pub fn defaults(database: &SqlDatabase, effective: &Effective) -> Result<ServerConfiguration, String> {
    let mut configuration = ServerConfiguration::default();
    for (name, (value, source)) in &effective.settings {
        let value = database.configurable(name, value).map_err(|error| match source {
            Source::File(file, line) => format!("{file}, line {line}: {error}"),
            _ => format!("--set {name}: {error}"),
        })?;
        configuration.defaults.insert(name.clone(), (value, origin(source)));
    }
    Ok(configuration)
}

impl Operator {
    /// Lets statements show and change the configuration of a server, and returns its operator.
    pub fn begin(
        (began, began_effective): (Serve, Effective),
        command_line: Vec<OsString>,
        (database, engine): (&SqlDatabase, Weak<Database>),
        (server, addresses): (Control, Vec<SocketAddr>),
        standbys: Option<Arc<Standbys>>,
    ) -> Result<Arc<Self>, String> {
        let operator = Arc::new(Self {
            command_line,
            began,
            began_effective,
            addresses,
            database: database.downgrade(),
            engine,
            server,
            files: Mutex::default(),
            standbys,
        });
        let defaults = defaults(database, &operator.began_effective)?;
        database.configure(operator.shown(&operator.began_effective, defaults));
        database.control_with(operator.clone());
        Ok(operator)
    }

    fn read_again(&self) -> Result<(), String> {
        let (serve, effective) = configuration::parse_server(&self.command_line)?;
        let (Some(database), Some(engine)) = (self.database.upgrade(), self.engine.upgrade()) else { return Ok(()) };
        let defaults = defaults(&database, &effective)?;
        let rules = Serve { tls_client_ca: self.began.tls_client_ca.clone(), ..serve.clone() }.rules()?;
        engine.set_memory_limit(serve.engine.options().memory_limit).map_err(|error| error.to_string())?;
        // From here on, nothing is refused.
        self.server.change(|options| {
            let mut new = serve.options();
            (new.rules, new.fixed) = (rules, std::mem::take(&mut options.fixed));
            new.trust = serve.trust || self.began.is_local();
            // A certificate needs a restart: before it, no client could meet the condition.
            new.tls_required = serve.tls_required && self.began.tls_cert.is_some();
            *options = new;
        });
        let shown = self.shown(&effective, defaults);
        let pending = shown.options.values().filter(|option| option.configured != option.value);
        let pending: Vec<_> = pending.map(|option| option.name.clone()).collect();
        database.configure(shown);
        // After the messages of a level that may be gone now.
        log::info!("the configuration was read again");
        if !pending.is_empty() {
            log::warn!("these options have changed, and need a restart: {}", pending.join(", "));
        }
        logger::level(serve.log);
        Ok(())
    }

    /// Returns the configuration as SQL shows it.
    fn shown(&self, effective: &Effective, mut configuration: ServerConfiguration) -> ServerConfiguration {
        for option in options().iter().filter(|option| !NOT_SHOWN.contains(&&*key_of(option))) {
            let shown = self.option(option, effective);
            configuration.options.insert(shown.name.clone(), shown);
        }
        let fixed = |name: &str, value: String, kind, description: &str| ServerOption {
            name: name.into(),
            configured: value.clone(),
            boot: value.clone(),
            value,
            unit: None,
            kind,
            category: "Connections".into(),
            description: description.into(),
            is_reloadable: false,
            is_private: kind == "path",
            origin: Origin { source: "override", place: None },
        };
        let port = self.addresses.first().map_or(0, SocketAddr::port);
        let hosts: Vec<_> = self.addresses.iter().map(|address| address.ip().to_string()).collect();
        let directory = std::path::absolute(&self.began.dir).unwrap_or_else(|_| self.began.dir.clone());
        let ssl = if self.began.tls_cert.is_some() { "on" } else { "off" };
        for option in [
            fixed("port", port.to_string(), "integer", "Port of the first address that is listened on"),
            fixed("listen_addresses", hosts.join(", "), "string", "Addresses that are listened on"),
            fixed("ssl", ssl.into(), "bool", "Whether TLS is offered"),
            fixed("data_directory", directory.display().to_string(), "path", "Directory of the database"),
        ] {
            let option = ServerOption { kind: if option.is_private { "string" } else { option.kind }, ..option };
            configuration.options.insert(option.name.clone(), option);
        }
        configuration
    }

    fn option(&self, option: &Arg, effective: &Effective) -> ServerOption {
        let key = key_of(option);
        let is_reloadable = RELOADABLE.iter().any(|(known, _)| *known == key);
        let in_sql = |value: &Option<String>| match value.as_deref() {
            Some("true") if is_flag(option) => "on".to_owned(),
            Some("false") if is_flag(option) => "off".to_owned(),
            value => value.unwrap_or_default().to_owned(),
        };
        let of = |effective: &Effective| {
            effective.options.get(&key).map(|(value, source)| (in_sql(value), origin(source))).unwrap_or_default()
        };
        let (configured, new) = of(effective);
        let (mut value, origin) = if is_reloadable { (configured.clone(), new) } else { of(&self.began_effective) };
        if key == "memory-limit" && value.is_empty() {
            value = self.engine.upgrade().map_or(0, |engine| engine.budget().limit() >> 20).to_string();
        }
        let default = option.get_default_values().first().map(|value| value.to_string_lossy().into_owned());
        let default = default.or_else(|| is_flag(option).then(|| "false".to_owned()));
        ServerOption {
            name: sql_name(&key),
            configured: if key == "memory-limit" { value.clone() } else { configured },
            value,
            boot: in_sql(&default),
            unit: unit(option),
            kind: match () {
                () if is_flag(option) => "bool",
                () if is_number(option) => "integer",
                () => "string",
            },
            category: option.get_help_heading().unwrap_or("General").to_owned(),
            description: option.get_help().map(ToString::to_string).unwrap_or_default(),
            is_reloadable,
            // Addresses may have a password.
            is_private: matches!(value_name(option), "FILE" | "DIR" | "URLS"),
            origin,
        }
    }

    fn dir(&self) -> &Path {
        &self.began.dir
    }

    /// Returns the change of the file that a value of an option is.
    fn change_of(option: &Arg, name: &str, value: &str) -> Result<Change, SqlError> {
        let key = key_of(option);
        let invalid = |what: String| {
            let message = format!("invalid value for parameter \"{name}\": \"{value}\"");
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).detail(what)
        };
        let literal = match value.to_ascii_lowercase().as_str() {
            "on" | "true" | "yes" | "1" if is_flag(option) => "true".to_owned(),
            "off" | "false" | "no" | "0" if is_flag(option) => "false".to_owned(),
            _ if is_flag(option) => return Err(invalid("It is on or off.".into())),
            _ if is_number(option) => {
                let unit = unit(option);
                let number = in_unit(value, unit);
                number
                    .ok_or_else(|| invalid(format!("It is an integer, in {}.", unit.unwrap_or("no unit"))))?
                    .to_string()
            }
            _ => quoted(value),
        };
        let argument = format!("--{key}={}", literal.trim_matches('"'));
        match refusal(&[argument]).filter(|_| !is_flag(option)) {
            Some(what) => Err(invalid(what)),
            None => Ok(Change::Option(key, literal)),
        }
    }

    fn change(&self, alteration: Alteration<'_>) -> Result<Change, SqlError> {
        let (name, value) = match alteration {
            Alteration::Set(name, value) => (name, Some(value)),
            Alteration::Reset(name) => (name, None),
            Alteration::ResetAll => return Ok(Change::RemoveAll),
        };
        let all = options();
        if let Some(option) = all.iter().find(|option| sql_name(&key_of(option)) == name) {
            let key = key_of(option);
            if !RELOADABLE.contains(&(&*key, true)) {
                let message = format!("parameter \"{name}\" cannot be changed by ALTER SYSTEM");
                let hint = format!("The operator of the server sets {key} in the configuration file.");
                return Err(SqlError::new(SqlState::CANT_CHANGE_RUNTIME_PARAM, message).hint(hint));
            }
            return match value {
                Some(value) => Self::change_of(option, name, value),
                None => Ok(Change::Remove(key)),
            };
        }
        let Some(value) = value else { return Ok(Change::Remove(name.to_owned())) };
        let database = self.database.upgrade();
        let value = database.map_or_else(|| Ok(value.to_owned()), |database| database.configurable(name, value))?;
        Ok(Change::Setting(name.to_owned(), value))
    }
}

impl ServerControl for Operator {
    fn alter(&self, alteration: Alteration<'_>) -> Result<(), SqlError> {
        let _files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let change = self.change(alteration)?;
        altered::change(self.dir(), change).map_err(|what| SqlError::new(SqlState("58030"), what))
    }

    fn reload(&self) -> bool {
        let _files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let read = self.read_again();
        if let Err(what) = &read {
            log::error!("the configuration is not taken over: {what}");
        }
        read.is_ok()
    }

    fn standbys(&self) -> Vec<Standby> {
        self.standbys.as_ref().map_or_else(Vec::new, |standbys| standbys.all())
    }
}

/// Returns the name of an option in SQL: PostgreSQL's, where it has the option.
fn sql_name(key: &str) -> String {
    match key {
        "listen" => "ermine.listen".into(),
        "hba-file"
        | "log-connections"
        | "log-disconnections"
        | "max-connections"
        | "max-slot-wal-keep-size"
        | "superuser-reserved-connections"
        | "wal-level" => key.replace('-', "_"),
        "pid-file" => "external_pid_file".into(),
        "tls-cert" => "ssl_cert_file".into(),
        "tls-client-ca" => "ssl_ca_file".into(),
        "tls-key" => "ssl_key_file".into(),
        key => format!("ermine.{}", key.replace('-', "_")),
    }
}

fn origin(source: &Source) -> Origin {
    match source {
        Source::Default => Origin { source: "default", place: None },
        Source::File(file, line) => Origin { source: "configuration file", place: Some((file.clone(), *line)) },
        Source::Environment(_) => Origin { source: "environment variable", place: None },
        Source::CommandLine => Origin { source: "command line", place: None },
    }
}

fn value_name(option: &Arg) -> &str {
    option.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str())
}

/// Returns the unit of an option, as PostgreSQL writes it.
fn unit(option: &Arg) -> Option<&'static str> {
    match value_name(option) {
        "US" => Some("us"),
        "MS" => Some("ms"),
        "S" => Some("s"),
        "BYTES" => Some("B"),
        "MIB" => Some("MB"),
        _ => None,
    }
}

/// Returns a number in a unit; the text may have another one of the same kind.
fn in_unit(text: &str, unit: Option<&str>) -> Option<u64> {
    const UNITS: [(&str, bool, u64); 10] = [
        ("us", false, 1),
        ("ms", false, 1_000),
        ("s", false, 1_000_000),
        ("min", false, 60_000_000),
        ("h", false, 3_600_000_000),
        ("B", true, 1),
        ("kB", true, 1 << 10),
        ("MB", true, 1 << 20),
        ("GB", true, 1 << 30),
        ("TB", true, 1 << 40),
    ];
    let digits = text.trim().trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let (suffix, number) = (&text.trim()[digits.len()..], digits.trim().parse::<u64>().ok()?);
    if suffix.is_empty() {
        return Some(number);
    }
    let of = |name: &str| UNITS.iter().find(|(known, ..)| *known == name);
    let ((_, is_memory, factor), (_, is_own_memory, own)) = (of(suffix)?, of(unit?)?);
    let whole = number.checked_mul(*factor).filter(|_| is_memory == is_own_memory)?;
    whole.is_multiple_of(*own).then_some(whole / own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_converted() {
        assert_eq!(in_unit("12", None), Some(12));
        assert_eq!(in_unit("2GB", Some("MB")), Some(2048));
        assert_eq!(in_unit(" 2 s ", Some("ms")), Some(2000));
        for (text, unit) in
            [("2kB", Some("MB")), ("1s", Some("MB")), ("1s", None), ("x", None), ("99999999TB", Some("B"))]
        {
            assert_eq!(in_unit(text, unit), None, "{text}");
        }
    }

    #[test]
    fn every_reloadable_option_is_one() {
        for (key, _) in RELOADABLE {
            assert!(options().iter().any(|option| key_of(option) == key), "{key}");
        }
    }
}

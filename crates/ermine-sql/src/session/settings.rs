//! Settings of a session.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ermine::{Database, Durability, Order};

use crate::{
    configuration::ServerConfiguration,
    error::{Result, SqlError, SqlState},
    level::Level,
    logical::parse_lsn,
    memory::Memory,
    parameters::{
        IN_HOT_STANDBY, Kind, ORDER, Parameter, READ_AFTER, kilobytes, milliseconds, shown_kilobytes,
        shown_milliseconds, shown_name,
    },
    synchronous::Synchronous,
    transaction::Modes,
    types::datetime::{IntervalStyle, NoDateStyle, Style},
};

/// The settings of a session, and their defaults.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    values: BTreeMap<String, String>,
    /// The server's configuration, whose values hold where the session sets none.
    configured: Arc<ServerConfiguration>,
    /// The former values of the settings that the transaction has set.
    before: Vec<Before>,
    usual: Usual,
    /// The strongest level that the database's scheme provides.
    strongest: Level,
    in_force: InForce,
}

/// The settings of a session that sets none, as far as they follow from those of the database.
#[derive(Clone, Copy, Debug)]
struct Usual {
    level: Level,
    order: Order,
    synchronous: Synchronous,
    /// Whether the database is a standby: all transactions only read.
    is_standby: bool,
}

/// The settings that statements use, in the form in which they use them: made when a setting changes, since every
/// statement uses several.
#[derive(Clone, Debug)]
pub(crate) struct InForce {
    /// Of transactions that do not specify them.
    pub(crate) modes: Modes,
    /// Which transactions precede those of the session.
    pub(crate) order: Order,
    /// Zero: no limit.
    pub(crate) lock_timeout: Duration,
    /// Zero: no limit.
    pub(crate) statement_timeout: Duration,
    /// The time from which on a statement is logged as slow.
    pub(crate) slow_after: Option<Duration>,
    /// `idle_in_transaction_session_timeout`; zero: no limit.
    pub(crate) idle_in_transaction: Duration,
    /// The bytes that a statement may take.
    pub(crate) work_mem: usize,
    /// The bytes that a temporary file may have; `None`: any.
    pub(crate) temp_file_limit: Option<u64>,
    /// The position up to which a standby has replayed the log when a transaction begins.
    pub(crate) read_after: u64,
}

/// A setting before a transaction set it.
#[derive(Clone, Debug)]
struct Before {
    name: String,
    value: Option<String>,
    /// Whether the new value lasts only until the transaction ends (SET LOCAL).
    is_local: bool,
}

/// How long a new value lasts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Extent {
    /// For the session, whether or not the transaction commits.
    Session,
    /// For the session, if the transaction commits.
    Transaction,
    /// Until the transaction ends.
    Local,
}

/// Settings that are not configured: of a transaction, or of what a session is.
const OWN: [&str; 5] =
    ["role", "session_authorization", "transaction_deferrable", "transaction_isolation", "transaction_read_only"];

/// Returns the value that a setting begins with in a server that configures none.
fn initial(name: &str) -> Option<&'static str> {
    Parameter::named(name).map(|parameter| parameter.boot)
}

impl Settings {
    /// Returns all settings with their current values.
    pub(crate) fn shown(&self) -> Arc<[(String, String)]> {
        self.all().map(|(name, value)| (shown_name(name).to_owned(), value.to_owned())).collect()
    }

    pub(crate) fn new(user: &str, database: &Database, configured: Arc<ServerConfiguration>) -> Self {
        let (scheme, order) = (database.scheme(), database.order());
        let values = BTreeMap::from([("session_authorization".to_owned(), user.to_owned())]);
        let level = match scheme {
            _ if scheme.is_serializable() => Level::Serializable,
            _ if scheme.reads_snapshot() => Level::RepeatableRead,
            _ => Level::ReadCommitted,
        };
        // A standby has safe snapshots, if its original marks them.
        let strongest = if database.is_standby() { Level::Serializable } else { level.max(Level::RepeatableRead) };
        let synchronous = match database.durability() {
            Durability::Durable => Synchronous::On,
            _ => Synchronous::Off,
        };
        let usual = Usual { level, order, synchronous, is_standby: database.is_standby() };
        let in_force = in_force(&values, &configured, usual);
        Self { values, configured, before: Vec::new(), usual, strongest, in_force }
    }

    /// Takes over another configuration of the server.
    pub(super) fn configure(&mut self, configured: Arc<ServerConfiguration>) {
        self.configured = configured;
        self.changed();
    }

    /// Returns a value that the server configures for sessions in the form in which it is shown.
    ///
    /// # Errors
    /// As SET has them, and for settings that belong to a transaction or a session.
    pub(crate) fn configurable(&mut self, name: &str, value: &str) -> Result<String> {
        if OWN.contains(&name) {
            let message = format!("parameter \"{name}\" cannot be configured");
            return Err(SqlError::new(SqlState::CANT_CHANGE_RUNTIME_PARAM, message));
        }
        if name == "timezone" {
            crate::types::datetime::find_zone(value)?;
        }
        if self.usual.is_standby {
            // The values are also those of the primary that the server may become.
            self.usual.is_standby = false;
        }
        self.set(name, Some(value), Extent::Session)?;
        Ok(self.get(name).unwrap_or(value).to_owned())
    }

    /// Returns the settings that statements use.
    pub(crate) fn in_force(&self) -> &InForce {
        &self.in_force
    }

    fn changed(&mut self) {
        self.in_force = in_force(&self.values, &self.configured, self.usual);
    }

    /// Returns the level with a name; fails if the scheme does not provide it.
    pub(crate) fn level_of(&self, name: &str) -> Result<Level> {
        self.promised(Level::of(&name.to_lowercase()))
    }

    /// Returns `level`; fails if it is stronger than the database's scheme provides.
    pub(super) fn promised(&self, level: Level) -> Result<Level> {
        if level <= self.strongest {
            return Ok(level);
        }
        let (asked, strongest) = (level.name(), self.strongest.name());
        let what = format!("{asked} under the scheme of this database, whose strongest level is {strongest},");
        Err(SqlError::unsupported(what)
            .hint("The scheme is chosen when the database is opened: si-ssn is serializable."))
    }

    /// Fails on a standby.
    pub(super) fn check_may_write(&self) -> Result<()> {
        if !self.usual.is_standby {
            return Ok(());
        }
        let message = "cannot set transaction read-write mode during recovery";
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let own = set(&self.values, &self.configured, name);
        if self.usual.is_standby && (name.ends_with("transaction_read_only") || name == IN_HOT_STANDBY) {
            return Some("on");
        }
        if name.ends_with("transaction_isolation") {
            return Some(self.in_force.modes.level.name());
        }
        if name == ORDER {
            return Some(self.in_force.order.name());
        }
        if name == "synchronous_commit" {
            return Some(self.in_force.modes.synchronous.name());
        }
        own.or_else(|| initial(name))
    }

    /// Iterates over all settings, by name.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        let known = Parameter::all().map(|known| (known.name, self.get(known.name).unwrap_or(known.boot)));
        let configured = self.configured.defaults.iter().filter(|(name, _)| !self.values.contains_key(*name));
        let configured = configured.map(|(name, (value, _))| (&**name, &**value));
        let own = self.values.iter().map(|(name, value)| (&**name, &**value));
        known.chain(own.chain(configured).filter(|(name, _)| initial(name).is_none()))
    }

    /// Sets a setting; `None`: to its initial value. If its transaction is rolled back, the setting has its former
    /// value again.
    pub(crate) fn set(&mut self, name: &str, value: Option<&str>, extent: Extent) -> Result<()> {
        // Names with a dot belong to applications.
        if let Some(option) = self.configured.options.get(name) {
            let message = match option.is_reloadable {
                true => format!("parameter \"{name}\" cannot be changed now"),
                false => format!("parameter \"{name}\" cannot be changed without restarting the server"),
            };
            return Err(SqlError::new(SqlState::CANT_CHANGE_RUNTIME_PARAM, message));
        }
        if self.get(name).is_none() && name.starts_with("ermine.") {
            let message = format!("invalid configuration parameter name \"{name}\"");
            return Err(SqlError::new(SqlState::INVALID_NAME, message).detail("\"ermine\" is a reserved prefix."));
        }
        if self.get(name).is_none() && !name.contains('.') {
            let message = format!("unrecognized configuration parameter \"{name}\"");
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
        }
        if Parameter::named(name).is_some_and(|parameter| parameter.is_fixed()) {
            let message = format!("parameter \"{name}\" cannot be changed");
            return Err(SqlError::new(SqlState::CANT_CHANGE_RUNTIME_PARAM, message));
        }
        let value = match (name, value) {
            ("datestyle", Some(words)) => Some(date_style(self.style(), words)?.shown_dates()),
            _ => value.map(|value| normal(name, value)).transpose()?,
        };
        if let Some(level) = value.as_ref().filter(|_| name.ends_with("transaction_isolation")) {
            self.level_of(level)?;
        }
        // Clients that set the default do not expect an error: it has no effect.
        if name == "transaction_read_only" && value.as_deref() == Some("off") {
            self.check_may_write()?;
        }
        if extent != Extent::Session {
            let (own, is_local) = (self.values.get(name).cloned(), extent == Extent::Local);
            self.before.push(Before { name: name.to_owned(), value: own, is_local });
        }
        match value {
            Some(value) => self.values.insert(name.to_owned(), value),
            None => self.values.remove(name),
        };
        self.changed();
        Ok(())
    }

    /// Returns the style of dates, times and intervals.
    pub(super) fn style(&self) -> Style {
        let usual = Style::default();
        let value = |name| set(&self.values, &self.configured, name);
        let style = value("datestyle").and_then(|words| usual.with_dates(words).ok()).unwrap_or(usual);
        let intervals = value("intervalstyle").and_then(IntervalStyle::named);
        Style { intervals: intervals.unwrap_or_default(), ..style }
    }

    /// Sets what `is_superuser` shows.
    pub(super) fn show_superuser(&mut self, is_superuser: bool) {
        self.values.insert("is_superuser".into(), if is_superuser { "on" } else { "off" }.into());
    }

    /// Whether a setting is on.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.get(name) == Some("on")
    }

    /// Returns the number of settings that the transaction has set, for [`Settings::go_back`].
    pub(crate) fn mark(&self) -> usize {
        self.before.len()
    }

    /// Ends the transaction; returns whether any setting has changed by that.
    pub(crate) fn end_transaction(&mut self, committed: bool) -> bool {
        self.undo(0, |before| before.is_local || !committed)
    }

    /// Takes the transaction back to the point at which it had set `mark` settings.
    pub(crate) fn go_back(&mut self, mark: usize) -> bool {
        self.undo(mark, |_| true)
    }

    fn undo(&mut self, kept: usize, is_undone: impl Fn(&Before) -> bool) -> bool {
        let before = self.before.split_off(kept.min(self.before.len()));
        let is_changed = !before.is_empty();
        for Before { name, value, .. } in before.into_iter().rev().filter(is_undone) {
            match value {
                Some(value) => self.values.insert(name, value),
                None => self.values.remove(&name),
            };
        }
        if is_changed {
            self.changed();
        }
        is_changed
    }

    /// Returns the schemas in which names are looked up.
    pub(crate) fn search_path(&self, user: &str) -> Vec<String> {
        let path = self.get("search_path").unwrap_or_default();
        let names = path.split(',').map(|name| name.trim().trim_matches('"'));
        names
            .filter(|name| !name.is_empty())
            .map(|name| if name == "$user" { user.to_owned() } else { name.to_owned() })
            .collect()
    }
}

/// Returns the value of a setting that the session or else the server's configuration has set.
fn set<'a>(values: &'a BTreeMap<String, String>, configured: &'a ServerConfiguration, name: &str) -> Option<&'a str> {
    let own = values.get(name).map(|value| &**value);
    own.or_else(|| configured.defaults.get(name).map(|(value, _)| &**value))
}

/// Returns the settings that statements use.
fn in_force(values: &BTreeMap<String, String>, configured: &ServerConfiguration, usual: Usual) -> InForce {
    let value = |name: &str| set(values, configured, name);
    let is_on = |name: &str| value(name) == Some("on");
    let duration = |name: &str| value(name).and_then(milliseconds).map(Duration::from_millis);
    let time = |name: &str| duration(name).unwrap_or_default();
    const LEVEL: &str = "default_transaction_isolation";
    let level = value(LEVEL).map_or(usual.level, Level::of);
    let modes = Modes {
        read_only: usual.is_standby || is_on("default_transaction_read_only"),
        deferrable: is_on("default_transaction_deferrable"),
        synchronous: value("synchronous_commit").map_or(usual.synchronous, Synchronous::of),
        // That of a configuration may be the primary's: a session of a standby says itself that it wants a safe
        // snapshot.
        level: if usual.is_standby && !values.contains_key(LEVEL) { level.min(usual.level) } else { level },
        tracks_all: false,
    };
    let work_mem = value("work_mem").and_then(|value| kilobytes(&value.to_ascii_lowercase()));
    // -1: no limit.
    let limit = value("temp_file_limit").and_then(|value| kilobytes(&value.to_ascii_lowercase()));
    InForce {
        modes,
        order: value(ORDER).and_then(|name| name.parse().ok()).unwrap_or(usual.order),
        lock_timeout: time("lock_timeout"),
        statement_timeout: time("statement_timeout"),
        slow_after: duration("log_min_duration_statement"),
        idle_in_transaction: time("idle_in_transaction_session_timeout"),
        temp_file_limit: limit.map(|kilobytes| (kilobytes as u64) << 10),
        work_mem: work_mem.map_or(Memory::DEFAULT, |kilobytes| kilobytes << 10),
        read_after: value(READ_AFTER).and_then(position).unwrap_or(0),
    }
}

/// Returns a position that is written as a number or as `pg_current_wal_lsn()` has it.
fn position(text: &str) -> Option<u64> {
    parse_lsn(text).or_else(|| text.parse().ok())
}

/// Returns the style after a value of `DateStyle` has changed it.
fn date_style(style: Style, words: &str) -> Result<Style> {
    style.with_dates(words).map_err(|reason| {
        let message = format!("invalid value for parameter \"DateStyle\": \"{words}\"");
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).detail(match reason {
            NoDateStyle::Syntax => "List syntax is invalid.".into(),
            NoDateStyle::Word(word) => format!("Unrecognized key word: \"{word}\"."),
            NoDateStyle::Conflict => "Conflicting \"datestyle\" specifications.".to_owned(),
        })
    })
}

/// Returns a value in the form in which it is shown; fails for an invalid value.
fn normal(name: &str, value: &str) -> Result<String> {
    let invalid = || {
        let message = format!("invalid value for parameter \"{name}\": \"{value}\"");
        Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
    };
    let lower = value.to_ascii_lowercase();
    let usual = initial(name).unwrap_or_default();
    match name {
        _ if Parameter::named(name).is_some_and(|of| of.kind == Kind::Milliseconds) => {
            milliseconds(&lower).map_or_else(invalid, |millis| Ok(shown_milliseconds(millis)))
        }
        "log_min_duration_statement" if value.trim() == "-1" => Ok("-1".into()),
        "log_min_duration_statement" => {
            milliseconds(&lower).map_or_else(invalid, |millis| Ok(shown_milliseconds(millis)))
        }
        "work_mem" => match kilobytes(&lower) {
            Some(kilobytes @ 64..) => Ok(shown_kilobytes(kilobytes)),
            _ => invalid().map_err(|error| error.hint("From 64kB to 2047GB; a number without a unit is in kB.")),
        },
        "temp_file_limit" => match kilobytes(&lower) {
            _ if lower == "-1" => Ok(lower),
            Some(kilobytes) => Ok(shown_kilobytes(kilobytes)),
            None => invalid().map_err(|error| error.hint("An amount of memory, or -1 for no limit.")),
        },
        // Only letters and digits count in the name of an encoding; asyncpg sends the value in quotes.
        "client_encoding" => match &*lower.replace(|c: char| !c.is_ascii_alphanumeric(), "") {
            "utf8" | "unicode" | "sqlascii" => Ok("UTF8".into()),
            _ => invalid(),
        },
        "intervalstyle" => IntervalStyle::named(value).map(|style| style.name().into()).ok_or_else(|| {
            let message = format!("invalid value for parameter \"{name}\": \"{value}\"");
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
                .hint("Available values: postgres, postgres_verbose, sql_standard, iso_8601.")
        }),
        "bytea_output" if lower == "hex" => Ok(lower),
        "bytea_output" => Err(SqlError::unsupported(format_args!("bytea_output {value}"))),
        "password_encryption" if lower != "scram-sha-256" => {
            Err(SqlError::unsupported(format_args!("password_encryption {value}")))
        }
        "standard_conforming_strings" if !is_true(&lower) => {
            Err(SqlError::unsupported("standard_conforming_strings = off"))
        }
        "default_transaction_isolation" | "transaction_isolation" => match &*lower {
            "serializable" | "repeatable read" | "read committed" | "read uncommitted" => Ok(lower),
            _ => invalid(),
        },
        "synchronous_commit" => match &*lower {
            "on" | "true" | "yes" | "1" | "remote" | "remote_write" | "remote_apply" => Ok("on".into()),
            "local" => Ok(lower),
            "off" | "false" | "no" | "0" => Ok("off".into()),
            _ => invalid(),
        },
        READ_AFTER if value.is_empty() || position(value).is_some() => Ok(value.to_owned()),
        READ_AFTER => invalid().map_err(|error| error.hint("A position is written as by pg_current_wal_lsn().")),
        ORDER => lower.parse::<Order>().map_or_else(|_| invalid(), |_| Ok(lower)),
        "timezone" => Ok(value.to_owned()),
        "log_min_error_statement" => match Parameter::named(name).map(|parameter| parameter.kind) {
            Some(Kind::Enum(all)) if all.contains(&&*lower) => Ok(lower),
            _ => invalid(),
        },
        _ if matches!(usual, "on" | "off") => match () {
            () if is_true(&lower) => Ok("on".into()),
            () if matches!(&*lower, "off" | "false" | "no" | "0" | "f" | "n") => Ok("off".into()),
            () => invalid(),
        },
        _ if usual.parse::<f64>().is_ok() && !is_number(value) => invalid(),
        _ => Ok(value.to_owned()),
    }
}

/// Whether a value is a number, with a unit or without.
fn is_number(value: &str) -> bool {
    const UNITS: [&str; 12] = ["", "us", "ms", "s", "min", "h", "d", "B", "kB", "MB", "GB", "TB"];
    let digits = value.trim().trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let unit = value.trim()[digits.len()..].trim();
    UNITS.contains(&unit) && digits.trim().parse::<f64>().is_ok_and(f64::is_finite)
}

fn is_true(lower: &str) -> bool {
    matches!(lower, "on" | "true" | "yes" | "1" | "t" | "y")
}

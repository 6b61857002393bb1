//! Settings of a session.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ermine::{Database, Durability, Order};

use crate::{
    error::{Result, SqlError, SqlState},
    level::Level,
    memory::Memory,
    transaction::Modes,
    types::datetime::{IntervalStyle, NoDateStyle, Style},
};

/// The settings of a session, and their defaults.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    values: BTreeMap<String, String>,
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
    /// Whether commits are acknowledged before they are durable.
    is_async: bool,
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
    /// `idle_in_transaction_session_timeout`; zero: no limit.
    pub(crate) idle_in_transaction: Duration,
    /// The bytes that a statement may take.
    pub(crate) work_mem: usize,
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

/// Known settings and their initial values.
const KNOWN: [(&str, &str); 39] = [
    ("application_name", ""),
    ("bytea_output", "hex"),
    ("client_encoding", "UTF8"),
    ("client_min_messages", "notice"),
    ("datestyle", "ISO, MDY"),
    ("default_transaction_deferrable", "off"),
    ("default_transaction_isolation", "serializable"),
    ("default_transaction_read_only", "off"),
    ("enable_seqscan", "on"),
    (ORDER, "strict"),
    ("extra_float_digits", "1"),
    ("idle_in_transaction_session_timeout", "0"),
    ("integer_datetimes", "on"),
    ("intervalstyle", "postgres"),
    ("is_superuser", "on"),
    ("lc_collate", "C"),
    ("lc_ctype", "C"),
    ("lock_timeout", "0"),
    ("max_identifier_length", "63"),
    ("max_index_keys", "32"),
    ("password_encryption", "scram-sha-256"),
    ("role", "none"),
    ("row_security", "on"),
    ("search_path", "public"),
    ("server_encoding", "UTF8"),
    ("server_version", "15.0"),
    ("server_version_num", "150000"),
    ("session_authorization", ""),
    ("standard_conforming_strings", "on"),
    ("statement_timeout", "0"),
    ("synchronous_commit", "on"),
    ("synchronize_seqscans", "on"),
    ("timezone", "UTC"),
    ("transaction_deferrable", "off"),
    ("transaction_isolation", "serializable"),
    ("transaction_read_only", "off"),
    ("work_mem", "256MB"),
    ("xmloption", "content"),
    ("default_table_access_method", "heap"),
];

/// Settings of PostgreSQL that change nothing here: of its planner, its processes, its storage, its messages. Clients and
/// files of pg_dump set them.
const WITHOUT_EFFECT: [(&str, &str); 83] = [
    ("allow_in_place_tablespaces", "off"),
    ("backend_flush_after", "0"),
    ("backslash_quote", "safe_encoding"),
    ("check_function_bodies", "on"),
    ("client_connection_check_interval", "0"),
    ("commit_delay", "0"),
    ("commit_siblings", "5"),
    ("constraint_exclusion", "partition"),
    ("cpu_index_tuple_cost", "0.005"),
    ("cpu_operator_cost", "0.0025"),
    ("cpu_tuple_cost", "0.01"),
    ("cursor_tuple_fraction", "0.1"),
    ("deadlock_timeout", "1s"),
    ("debug_pretty_print", "on"),
    ("debug_print_parse", "off"),
    ("debug_print_plan", "off"),
    ("default_statistics_target", "100"),
    ("default_tablespace", ""),
    ("default_text_search_config", "pg_catalog.simple"),
    ("default_toast_compression", "pglz"),
    ("effective_cache_size", "4GB"),
    ("effective_io_concurrency", "1"),
    ("enable_async_append", "on"),
    ("enable_bitmapscan", "on"),
    ("enable_gathermerge", "on"),
    ("enable_hashagg", "on"),
    ("enable_hashjoin", "on"),
    ("enable_incremental_sort", "on"),
    ("enable_indexonlyscan", "on"),
    ("enable_indexscan", "on"),
    ("enable_material", "on"),
    ("enable_memoize", "on"),
    ("enable_mergejoin", "on"),
    ("enable_nestloop", "on"),
    ("enable_parallel_append", "on"),
    ("enable_parallel_hash", "on"),
    ("enable_partition_pruning", "on"),
    ("enable_partitionwise_aggregate", "off"),
    ("enable_partitionwise_join", "off"),
    ("enable_sort", "on"),
    ("enable_tidscan", "on"),
    ("escape_string_warning", "on"),
    ("force_parallel_mode", "off"),
    ("from_collapse_limit", "8"),
    ("geqo", "on"),
    ("geqo_effort", "5"),
    ("geqo_threshold", "12"),
    ("gin_fuzzy_search_limit", "0"),
    ("gin_pending_list_limit", "4MB"),
    ("hash_mem_multiplier", "2"),
    ("jit", "on"),
    ("jit_above_cost", "100000"),
    ("jit_inline_above_cost", "500000"),
    ("jit_optimize_above_cost", "500000"),
    ("join_collapse_limit", "8"),
    ("lc_messages", "C"),
    ("lc_monetary", "C"),
    ("lc_numeric", "C"),
    ("lc_time", "C"),
    ("log_duration", "off"),
    ("log_error_verbosity", "default"),
    ("log_lock_waits", "off"),
    ("log_min_duration_statement", "-1"),
    ("log_min_error_statement", "error"),
    ("log_min_messages", "warning"),
    ("log_statement", "none"),
    ("maintenance_work_mem", "64MB"),
    ("max_parallel_maintenance_workers", "2"),
    ("max_parallel_workers", "8"),
    ("max_parallel_workers_per_gather", "2"),
    ("parallel_leader_participation", "on"),
    ("parallel_setup_cost", "1000"),
    ("parallel_tuple_cost", "0.1"),
    ("plan_cache_mode", "auto"),
    ("quote_all_identifiers", "off"),
    ("random_page_cost", "4"),
    ("seq_page_cost", "1"),
    ("session_replication_role", "origin"),
    ("temp_buffers", "8MB"),
    ("temp_tablespaces", ""),
    ("track_activities", "on"),
    ("track_io_timing", "off"),
    ("xmlbinary", "base64"),
];

/// Returns the initial value of a setting.
fn initial(name: &str) -> Option<&'static str> {
    KNOWN.iter().chain(&WITHOUT_EFFECT).find(|(known, _)| *known == name).map(|(_, value)| *value)
}

/// The setting that decides which transactions precede those of the session.
const ORDER: &str = "ermine.transaction_order";

/// Returns the name of a setting as it is shown.
pub(crate) fn shown_name(name: &str) -> &str {
    match name {
        "datestyle" => "DateStyle",
        "intervalstyle" => "IntervalStyle",
        "timezone" => "TimeZone",
        name => name,
    }
}

/// Settings that cannot be changed.
const FIXED: [&str; 9] = [
    "integer_datetimes",
    "is_superuser",
    "lc_collate",
    "lc_ctype",
    "max_identifier_length",
    "max_index_keys",
    "server_encoding",
    "server_version",
    "server_version_num",
];

/// Settings that are times in milliseconds.
const TIMES: [&str; 3] = ["idle_in_transaction_session_timeout", "lock_timeout", "statement_timeout"];

impl Settings {
    /// Returns all settings with their current values.
    pub(crate) fn shown(&self) -> Arc<[(String, String)]> {
        self.all().map(|(name, value)| (shown_name(name).to_owned(), value.to_owned())).collect()
    }

    pub(crate) fn new(user: &str, database: &Database) -> Self {
        let (scheme, order) = (database.scheme(), database.order());
        let values = BTreeMap::from([("session_authorization".to_owned(), user.to_owned())]);
        let level = match scheme {
            _ if scheme.is_serializable() => Level::Serializable,
            _ if scheme.reads_snapshot() => Level::RepeatableRead,
            _ => Level::ReadCommitted,
        };
        let strongest = level.max(Level::RepeatableRead);
        let usual = Usual { level, order, is_async: database.durability() != Durability::Durable };
        let in_force = in_force(&values, usual);
        Self { values, before: Vec::new(), usual, strongest, in_force }
    }

    /// Returns the settings that statements use.
    pub(crate) fn in_force(&self) -> &InForce {
        &self.in_force
    }

    fn changed(&mut self) {
        self.in_force = in_force(&self.values, self.usual);
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

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let own = self.values.get(name).map(|value| &**value);
        if name.ends_with("transaction_isolation") {
            return Some(self.in_force.modes.level.name());
        }
        if name == ORDER {
            return Some(self.in_force.order.name());
        }
        if name == "synchronous_commit" {
            return Some(if self.in_force.modes.is_async { "off" } else { "on" });
        }
        own.or_else(|| initial(name))
    }

    /// Iterates over all settings, by name.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        let known = KNOWN.iter().chain(&WITHOUT_EFFECT).map(|(name, usual)| (*name, self.get(name).unwrap_or(usual)));
        let of_applications = self.values.iter().filter(|(name, _)| initial(name).is_none());
        known.chain(of_applications.map(|(name, value)| (&**name, &**value)))
    }

    /// Sets a setting; `None`: to its initial value. If its transaction is rolled back, the setting has its former
    /// value again.
    pub(crate) fn set(&mut self, name: &str, value: Option<&str>, extent: Extent) -> Result<()> {
        // Names with a dot belong to applications.
        if self.get(name).is_none() && !name.contains('.') {
            let message = format!("unrecognized configuration parameter \"{name}\"");
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
        }
        if FIXED.contains(&name) {
            let message = format!("parameter \"{name}\" cannot be changed");
            return Err(SqlError::new(SqlState("55P02"), message));
        }
        let value = match (name, value) {
            ("datestyle", Some(words)) => Some(date_style(self.style(), words)?.shown_dates()),
            _ => value.map(|value| normal(name, value)).transpose()?,
        };
        if let Some(level) = value.as_ref().filter(|_| name.ends_with("transaction_isolation")) {
            self.level_of(level)?;
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
        let style = self.values.get("datestyle").and_then(|words| usual.with_dates(words).ok()).unwrap_or(usual);
        let intervals = self.values.get("intervalstyle").and_then(|name| IntervalStyle::named(name));
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

/// Returns the settings that statements use.
fn in_force(values: &BTreeMap<String, String>, usual: Usual) -> InForce {
    let value = |name: &str| values.get(name).map(|value| &**value);
    let is_on = |name: &str| value(name) == Some("on");
    let time = |name: &str| Duration::from_millis(value(name).and_then(|value| value.parse().ok()).unwrap_or(0));
    let modes = Modes {
        read_only: is_on("default_transaction_read_only"),
        deferrable: is_on("default_transaction_deferrable"),
        is_async: value("synchronous_commit").map_or(usual.is_async, |value| value == "off"),
        level: value("default_transaction_isolation").map_or(usual.level, Level::of),
        tracks_all: false,
    };
    let work_mem = value("work_mem").and_then(|value| kilobytes(&value.to_ascii_lowercase()));
    InForce {
        modes,
        order: value(ORDER).and_then(|name| name.parse().ok()).unwrap_or(usual.order),
        lock_timeout: time("lock_timeout"),
        statement_timeout: time("statement_timeout"),
        idle_in_transaction: time("idle_in_transaction_session_timeout"),
        work_mem: work_mem.map_or(Memory::DEFAULT, |kilobytes| kilobytes << 10),
    }
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
        _ if TIMES.contains(&name) => milliseconds(&lower).map_or_else(invalid, |millis| Ok(millis.to_string())),
        "work_mem" => match kilobytes(&lower) {
            Some(kilobytes @ 64..) => Ok(in_units(kilobytes)),
            _ => invalid().map_err(|error| error.hint("From 64kB to 2047GB; a number without a unit is in kB.")),
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
            "on" | "true" | "yes" | "1" | "local" | "remote_write" | "remote_apply" => Ok("on".into()),
            "off" | "false" | "no" | "0" => Ok("off".into()),
            _ => invalid(),
        },
        ORDER => lower.parse::<Order>().map_or_else(|_| invalid(), |_| Ok(lower)),
        "timezone" => Ok(value.to_owned()),
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

fn milliseconds(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|character: char| character.is_ascii_alphabetic() || character == ' ');
    let unit = match text[digits.len()..].trim() {
        "" | "ms" => 1,
        "s" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    digits.trim().parse::<u64>().ok()?.checked_mul(unit).filter(|millis| *millis <= i32::MAX as u64)
}

/// Parses an amount of memory, as PostgreSQL does.
fn kilobytes(text: &str) -> Option<usize> {
    let digits = text.trim_end_matches(|character: char| character.is_ascii_alphabetic() || character == ' ');
    let unit = match text[digits.len()..].trim() {
        "" | "kb" => 1,
        "mb" => 1 << 10,
        "gb" => 1 << 20,
        "tb" => 1 << 30,
        _ => return None,
    };
    digits.trim().parse::<usize>().ok()?.checked_mul(unit).filter(|kilobytes| *kilobytes <= i32::MAX as usize)
}

/// Formats an amount of memory in the largest unit that divides it.
fn in_units(kilobytes: usize) -> String {
    match kilobytes {
        _ if kilobytes.is_multiple_of(1 << 20) => format!("{}GB", kilobytes >> 20),
        _ if kilobytes.is_multiple_of(1 << 10) => format!("{}MB", kilobytes >> 10),
        _ => format!("{kilobytes}kB"),
    }
}

//! The settings of sessions: one table of their names, initial values, types and descriptions, from which SET takes what
//! it knows, and `pg_settings` its rows.

/// A setting of sessions.
#[derive(Clone, Copy)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    /// The value of a session of a server that configures none.
    pub(crate) boot: &'static str,
    /// PostgreSQL's, without its parts.
    pub(crate) category: &'static str,
    pub(crate) kind: Kind,
    pub(crate) description: &'static str,
}

/// The values of a setting.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Bool,
    Enum(&'static [&'static str]),
    /// From the first number to the second.
    Integer(i64, i64),
    /// An amount of memory, shown with a unit.
    Kilobytes(i64, i64),
    /// An amount of memory from 0 on, or -1 for any, shown with a unit.
    KilobytesOrNone,
    /// A time from 0 on, shown with a unit.
    Milliseconds,
    /// A time from 0 on, or -1 for none.
    LogMilliseconds,
    Real,
    Text,
}

impl Kind {
    /// Returns the kind's name in `pg_settings`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Enum(_) => "enum",
            Self::Integer(..)
            | Self::Kilobytes(..)
            | Self::KilobytesOrNone
            | Self::Milliseconds
            | Self::LogMilliseconds => "integer",
            Self::Real => "real",
            Self::Text => "string",
        }
    }

    pub(crate) fn unit(self) -> Option<&'static str> {
        match self {
            Self::Kilobytes(..) | Self::KilobytesOrNone => Some("kB"),
            Self::Milliseconds | Self::LogMilliseconds => Some("ms"),
            _ => None,
        }
    }

    /// Returns the smallest and the largest value.
    pub(crate) fn range(self) -> Option<(i64, i64)> {
        match self {
            Self::Integer(least, most) | Self::Kilobytes(least, most) => Some((least, most)),
            Self::Milliseconds => Some((0, i32::MAX.into())),
            Self::KilobytesOrNone | Self::LogMilliseconds => Some((-1, i32::MAX.into())),
            _ => None,
        }
    }

    /// Returns a value as `pg_settings` has it: a number in the unit of the setting.
    pub(crate) fn number(self, shown: &str) -> String {
        let lower = shown.to_ascii_lowercase();
        match self {
            Self::Kilobytes(..) | Self::KilobytesOrNone => kilobytes(&lower).map(|number| number.to_string()),
            Self::Milliseconds | Self::LogMilliseconds => milliseconds(&lower).map(|number| number.to_string()),
            _ => None,
        }
        .unwrap_or_else(|| shown.to_owned())
    }
}

/// The setting that decides which transactions precede those of the session.
pub(crate) const ORDER: &str = "ermine.transaction_order";

/// The setting that makes a standby wait for the log.
pub(crate) const READ_AFTER: &str = "ermine.read_after";
/// The setting that says whether the server is a standby.
pub(crate) const IN_HOT_STANDBY: &str = "in_hot_standby";

const LEVELS: &[&str] = &["serializable", "repeatable read", "read committed", "read uncommitted"];

const SYNCHRONOUS: &[&str] = &["local", "remote_write", "remote_apply", "on", "off"];

const SEVERITIES: &[&str] = &[
    "debug5", "debug4", "debug3", "debug2", "debug1", "debug", "info", "notice", "warning", "error", "log", "fatal",
    "panic",
];

const AUTHENTICATION: &str = "Connections and Authentication / Authentication";
const BEHAVIOR: &str = "Client Connection Defaults / Statement Behavior";
const CLIENT: &str = "Reporting and Logging / What to Log";
const COMPATIBILITY: &str = "Version and Platform Compatibility / Previous PostgreSQL Versions";
const DISK: &str = "Resource Usage / Disk";
const LOCALE: &str = "Client Connection Defaults / Locale and Formatting";
const LOG: &str = "Write-Ahead Log / Settings";
const MEMORY: &str = "Resource Usage / Memory";
const PLANNER: &str = "Query Tuning / Planner Method Configuration";
const PRESET: &str = "Preset Options";
const WHEN: &str = "Reporting and Logging / When to Log";

/// The settings that change something.
#[rustfmt::skip]
const KNOWN: [Parameter; 42] = [
    known("application_name", "", CLIENT, Kind::Text,
          "Name of the program that a session belongs to"),
    known("bytea_output", "hex", LOCALE, Kind::Enum(&["hex"]),
          "Form of values of bytea in texts"),
    known("client_encoding", "UTF8", LOCALE, Kind::Text,
          "Encoding of the texts of the client"),
    known("client_min_messages", "notice", BEHAVIOR, Kind::Text,
          "Least severity of the messages that the client is sent"),
    known("data_directory_mode", "0700", PRESET, Kind::Text,
          "Mode of the directory of the database"),
    known("datestyle", "ISO, MDY", LOCALE, Kind::Text,
          "Form of dates and times in texts, and the order of the parts of a date"),
    known("default_transaction_deferrable", "off", BEHAVIOR, Kind::Bool,
          "Whether transactions that only read wait for a snapshot that cannot lose a conflict"),
    known("default_transaction_isolation", "serializable", BEHAVIOR, Kind::Enum(LEVELS),
          "Isolation level of transactions that name none"),
    known("default_transaction_read_only", "off", BEHAVIOR, Kind::Bool,
          "Whether transactions that do not say so only read"),
    known("enable_seqscan", "on", PLANNER, Kind::Bool,
          "Whether a plan may read all rows of a table where an index would do"),
    known(ORDER, "strict", BEHAVIOR, Kind::Enum(&["strict", "session", "none"]),
          "Transactions that precede those of the session: all acknowledged ones, those of the session, none"),
    known(READ_AFTER, "", BEHAVIOR, Kind::Text,
          "Position in the log up to which a standby has replayed it when a transaction begins"),
    known("extra_float_digits", "1", LOCALE, Kind::Integer(-15, 3),
          "Digits of floating-point numbers in texts"),
    known("idle_in_transaction_session_timeout", "0", BEHAVIOR, Kind::Milliseconds,
          "Longest silence of a client within a transaction; 0: no limit"),
    known(IN_HOT_STANDBY, "off", PRESET, Kind::Bool,
          "Whether the server is a standby, which only reads"),
    known("integer_datetimes", "on", PRESET, Kind::Bool,
          "Whether dates and times are stored as integers"),
    known("intervalstyle", "postgres", LOCALE, Kind::Enum(&["postgres", "postgres_verbose", "sql_standard", "iso_8601"]),
          "Form of intervals in texts"),
    known("is_superuser", "on", PRESET, Kind::Bool,
          "Whether the role of the session is a superuser"),
    known("lc_collate", "C", PRESET, Kind::Text,
          "Order of texts"),
    known("lc_ctype", "C", PRESET, Kind::Text,
          "Classes of characters"),
    known("lock_timeout", "0", BEHAVIOR, Kind::Milliseconds,
          "Longest wait of a statement for rows and locks of other transactions; 0: no limit"),
    known("log_min_duration_statement", "-1", WHEN, Kind::LogMilliseconds,
          "Time from which on a statement is logged as slow; 0: all are; -1: none is"),
    known("log_min_error_statement", "error", WHEN, Kind::Enum(SEVERITIES),
          "Least severity with which a statement that failed is logged: error, or log to log none"),
    known("max_identifier_length", "63", PRESET, Kind::Integer(63, 63),
          "Bytes of a name that count"),
    known("max_index_keys", "32", PRESET, Kind::Integer(32, 32),
          "Columns that an index can have"),
    known("password_encryption", "scram-sha-256", AUTHENTICATION, Kind::Enum(&["scram-sha-256"]),
          "Form in which passwords are stored"),
    known("role", "none", BEHAVIOR, Kind::Text,
          "Role whose rights the session has"),
    known("row_security", "on", BEHAVIOR, Kind::Bool,
          "Whether policies hide rows; off: a query whose rows they would hide fails"),
    known("search_path", "public", BEHAVIOR, Kind::Text,
          "Schemas in which names without a schema are looked up"),
    known("server_encoding", "UTF8", PRESET, Kind::Text,
          "Encoding of stored texts"),
    known("server_version", "15.0", PRESET, Kind::Text,
          "Version of PostgreSQL whose dialect and protocol are served"),
    known("server_version_num", "150000", PRESET, Kind::Integer(150_000, 150_000),
          "That version as a number"),
    known("session_authorization", "", BEHAVIOR, Kind::Text,
          "User of the session"),
    known("standard_conforming_strings", "on", COMPATIBILITY, Kind::Bool,
          "Whether a backslash in a string stands for itself"),
    known("statement_timeout", "0", BEHAVIOR, Kind::Milliseconds,
          "Longest time of a statement; 0: no limit"),
    known("synchronous_commit", "on", LOG, Kind::Enum(SYNCHRONOUS),
          "When a commit is acknowledged: when it is durable (on: wherever the log is replicated, local: here) or at once"),
    known("temp_file_limit", "-1", DISK, Kind::KilobytesOrNone,
          "Bytes of temporary files that a statement may write; -1: no limit"),
    known("timezone", "UTC", LOCALE, Kind::Text,
          "Time zone of times in texts"),
    known("transaction_deferrable", "off", BEHAVIOR, Kind::Bool,
          "Whether the transaction waits for a snapshot that cannot lose a conflict"),
    known("transaction_isolation", "serializable", BEHAVIOR, Kind::Enum(LEVELS),
          "Isolation level of the transaction"),
    known("transaction_read_only", "off", BEHAVIOR, Kind::Bool,
          "Whether the transaction only reads"),
    known("work_mem", "256MB", MEMORY, Kind::Kilobytes(64, 2_147_483_647),
          "Memory that a statement may take"),
];

const fn known(
    name: &'static str,
    boot: &'static str,
    category: &'static str,
    kind: Kind,
    description: &'static str,
) -> Parameter {
    Parameter { name, boot, category, kind, description }
}

/// Settings of PostgreSQL that change nothing here: of its planner, its processes, its storage, its messages. Clients and
/// files of pg_dump set them.
const WITHOUT_EFFECT: [(&str, &str); 84] = [
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
    ("default_table_access_method", "heap"),
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
    ("synchronize_seqscans", "on"),
    ("temp_buffers", "8MB"),
    ("temp_tablespaces", ""),
    ("track_activities", "on"),
    ("track_io_timing", "off"),
    ("xmlbinary", "base64"),
    ("xmloption", "content"),
];

impl Parameter {
    /// Iterates over all settings.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        KNOWN.into_iter().chain(WITHOUT_EFFECT.into_iter().map(|(name, boot)| Self::without_effect(name, boot)))
    }

    /// Returns a setting by its name in small letters.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let known = KNOWN.iter().find(|known| known.name == name).copied();
        known.or_else(|| {
            let (name, boot) = WITHOUT_EFFECT.iter().find(|(known, _)| *known == name)?;
            Some(Self::without_effect(name, boot))
        })
    }

    fn without_effect(name: &'static str, boot: &'static str) -> Self {
        let kind = match boot {
            "on" | "off" => Kind::Bool,
            number if number.parse::<f64>().is_ok() => Kind::Real,
            _ => Kind::Text,
        };
        let description = "Accepted for programs that set it, and without effect";
        Self { name, boot, category: "Without Effect", kind, description }
    }

    /// Whether only superusers may set it.
    pub(crate) fn is_of_superusers(&self) -> bool {
        self.category == WHEN || self.category == DISK
    }

    /// Whether its value cannot be changed.
    pub(crate) fn is_fixed(&self) -> bool {
        self.category == PRESET
    }
}

/// Returns the name of a setting as it is shown.
pub(crate) fn shown_name(name: &str) -> &str {
    match name {
        "datestyle" => "DateStyle",
        "intervalstyle" => "IntervalStyle",
        "timezone" => "TimeZone",
        name => name,
    }
}

/// Parses an amount of memory, as PostgreSQL does; its unit is in small letters.
pub(crate) fn kilobytes(text: &str) -> Option<usize> {
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
pub(crate) fn shown_kilobytes(kilobytes: usize) -> String {
    match kilobytes {
        0 => "0".into(),
        _ if kilobytes.is_multiple_of(1 << 20) => format!("{}GB", kilobytes >> 20),
        _ if kilobytes.is_multiple_of(1 << 10) => format!("{}MB", kilobytes >> 10),
        _ => format!("{kilobytes}kB"),
    }
}

/// Units of time and their lengths in milliseconds, the longest first.
const TIMES: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000), ("ms", 1)];

/// Parses a time, as PostgreSQL does; its unit is in small letters.
pub(crate) fn milliseconds(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|character: char| character.is_ascii_alphabetic() || character == ' ');
    let length = match text[digits.len()..].trim() {
        "" => 1,
        unit => TIMES.iter().find(|(name, _)| *name == unit)?.1,
    };
    digits.trim().parse::<u64>().ok()?.checked_mul(length).filter(|millis| *millis <= i32::MAX as u64)
}

/// Formats a time in the longest unit that divides it.
pub(crate) fn shown_milliseconds(millis: u64) -> String {
    match TIMES.iter().find(|(_, length)| millis > 0 && millis.is_multiple_of(*length)) {
        Some((unit, length)) => format!("{}{unit}", millis / length),
        None => "0".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_described_once() {
        for (at, parameter) in Parameter::all().enumerate() {
            let Parameter { name, boot, kind, description, .. } = parameter;
            assert!(!Parameter::all().skip(at + 1).any(|other| other.name == name), "{name}");
            assert!(!description.is_empty() && !description.ends_with('.'), "{name}");
            match kind {
                Kind::Bool => assert!(matches!(boot, "on" | "off"), "{name}"),
                Kind::Enum(all) => assert!(all.contains(&boot), "{name}"),
                _ => {}
            }
            if let Some((least, most)) = kind.range() {
                let boot: i64 = kind.number(boot).parse().unwrap();
                assert!((least..=most).contains(&boot), "{name}");
            }
        }
    }
}

//! Log messages on the standard error, one a line: for people, or as JSON for programs that gather them.
//!
//! Messages have fields (`log`'s key-value pairs). `tracing` would add spans, which nothing here needs: a statement is
//! one message, when it has ended. The engine and the libraries below it log through `log` already.

use std::{fmt::Write as _, io::Write as _};

use clap::ValueEnum;
use log::{
    LevelFilter, Log, Metadata, Record,
    kv::{self, Key, Value, VisitSource, VisitValue},
};

/// The form of log messages.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, ValueEnum)]
pub enum Format {
    /// Time, level, message, `name=value` for each field.
    #[default]
    Text,
    /// One object a line.
    Json,
}

struct Lines(Format);

/// Writes messages that are logged from now on, down to a level. A logger that the process already has is kept.
pub fn start(level: LevelFilter, format: Format) {
    if log::set_boxed_logger(Box::new(Lines(format))).is_ok() {
        self::level(level);
    }
}

/// Changes the level down to which messages are written.
pub fn level(level: LevelFilter) {
    log::set_max_level(level);
}

impl Log for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // Other crates log little that an operator of a server could use.
        metadata.target().starts_with("ermine") || metadata.level() <= log::Level::Warn
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let line = line(self.0, &jiff::Timestamp::now(), record);
            // A message that cannot be written is lost; there is no other place to report it.
            let _ = writeln!(std::io::stderr().lock(), "{line}");
        }
    }

    fn flush(&self) {}
}

fn line(format: Format, now: &jiff::Timestamp, record: &Record<'_>) -> String {
    let (level, message) = (record.level(), record.args().to_string());
    let (mut line, is_json) = match format {
        // A message may have texts of clients in it, and stays one line.
        Format::Text => (format!("{now:.3} {level:5} {}", escaped(&message, false)), false),
        Format::Json => {
            let (level, message) = (level.as_str().to_ascii_lowercase(), escaped(&message, true));
            (format!("{{\"time\":\"{now:.3}\",\"level\":\"{level}\",\"message\":\"{message}\""), true)
        }
    };
    // Writing to a string does not fail.
    let _ = record.key_values().visit(&mut Fields { line: &mut line, is_json });
    if is_json {
        line.push('}');
    }
    line
}

/// Appends fields to a line.
struct Fields<'l> {
    line: &'l mut String,
    is_json: bool,
}

impl<'kvs> VisitSource<'kvs> for Fields<'_> {
    fn visit_pair(&mut self, key: Key<'kvs>, value: Value<'kvs>) -> Result<(), kv::Error> {
        let mut absent = Absent(false);
        value.visit(&mut absent)?;
        if absent.0 {
            return Ok(());
        }
        let is_number = value.to_i64().is_some() || value.to_f64().is_some_and(f64::is_finite);
        let text = value.to_string();
        let is_word = !text.is_empty() && text.chars().all(|one| one.is_alphanumeric() || "-_.:/".contains(one));
        let is_bare = is_number || (is_word && !self.is_json);
        let quote = if is_bare { "" } else { "\"" };
        let text = escaped(&text, !is_bare);
        let written = match self.is_json {
            true => write!(self.line, ",\"{key}\":{quote}{text}{quote}"),
            false => write!(self.line, " {key}={quote}{text}{quote}"),
        };
        written.map_err(|_| kv::Error::msg("no line"))
    }
}

/// Whether a field has no value.
struct Absent(bool);

impl<'v> VisitValue<'v> for Absent {
    fn visit_any(&mut self, _: Value<'_>) -> Result<(), kv::Error> {
        Ok(())
    }

    fn visit_null(&mut self) -> Result<(), kv::Error> {
        self.0 = true;
        Ok(())
    }
}

/// Replaces control characters, and with `quotes` also what ends a string of JSON.
fn escaped(text: &str, quotes: bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' | '\\' if quotes => escaped.extend(['\\', character]),
            '\n' => escaped += "\\n",
            '\t' => escaped += "\\t",
            control if control.is_control() => {
                let _ = write!(escaped, "\\u{:04x}", u32::from(control));
            }
            plain => escaped.push(plain),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(format: Format) -> String {
        let now = "2026-11-28T01:02:03.004Z".parse().unwrap();
        let fields = [
            ("connection", Value::from(7)),
            ("waited_ms", Value::from(1.5)),
            ("sqlstate", Value::from("22012")),
            ("plan", Value::null()),
            ("role", Value::from("a b")),
            ("statement", Value::from("SELECT \"a\"\n\u{1b}\\ -- ä")),
        ];
        line(format, &now, &Record::builder().args(format_args!("one\ntwo")).key_values(&fields).build())
    }

    #[test]
    fn a_message_is_one_line_whatever_clients_send() {
        assert_eq!(
            shown(Format::Text),
            "2026-11-28T01:02:03.004Z INFO  one\\ntwo connection=7 waited_ms=1.5 sqlstate=22012 role=\"a b\" \
             statement=\"SELECT \\\"a\\\"\\n\\u001b\\\\ -- ä\""
        );
        assert_eq!(
            shown(Format::Json),
            "{\"time\":\"2026-11-28T01:02:03.004Z\",\"level\":\"info\",\"message\":\"one\\ntwo\",\"connection\":7,\
             \"waited_ms\":1.5,\"sqlstate\":\"22012\",\"role\":\"a b\",\
             \"statement\":\"SELECT \\\"a\\\"\\n\\u001b\\\\ -- ä\"}"
        );
    }
}

//! The options of COPY: their meaning, and which of them cannot be combined.

use super::tree::{GivenOption, OptionValue};
use crate::error::{Result, SqlError, SqlState};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Format {
    Text,
    Csv,
    Binary,
}

/// Whether the first line has the names of the columns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Header {
    No,
    Yes,
    /// The names in the first line have to match those of the columns.
    Match,
}

/// The columns that an option applies to, by their names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Named {
    These(Vec<String>),
    All,
}

/// All options, checked.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) format: Format,
    pub(crate) delimiter: u8,
    /// The marker of NULL.
    pub(crate) null: String,
    pub(crate) header: Header,
    pub(crate) quote: u8,
    pub(crate) escape: u8,
    pub(crate) force_quote: Named,
    pub(crate) force_not_null: Named,
    pub(crate) force_null: Named,
}

impl Options {
    pub(crate) fn of(given: &[GivenOption], is_from: bool) -> Result<Self> {
        for (at, option) in given.iter().enumerate() {
            if given[..at].iter().any(|other| other.name == option.name) {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options"));
            }
        }
        let get = |name: &str| given.iter().find(|option| option.name == name);
        let word = |name: &str| get(name).map(word_of).transpose();
        let columns = |name: &str| get(name).map(names_of).transpose();
        let unknown = given.iter().find(|option| !KNOWN.contains(&&*option.name));
        if let Some(option) = unknown {
            let message = format!("option \"{}\" not recognized", option.name);
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        let format = match word("format")?.as_deref() {
            None | Some("text") => Format::Text,
            Some("csv") => Format::Csv,
            Some("binary") => Format::Binary,
            Some(other) => return Err(invalid(format!("COPY format \"{other}\" not recognized"))),
        };
        // Rows are stored in their final place from the beginning, so this option changes nothing.
        get("freeze").map(is_true).transpose()?;
        if let Some(encoding) = word("encoding")? {
            check_encoding(&encoding)?;
        }
        let is_csv = format == Format::Csv;
        let (delimiter, null, quote, escape) = (word("delimiter")?, word("null")?, word("quote")?, word("escape")?);
        let given_columns = [columns("force_quote")?, columns("force_not_null")?, columns("force_null")?];
        if format == Format::Binary {
            let refused = [("DELIMITER", delimiter.is_some()), ("NULL", null.is_some())];
            if let Some((name, _)) = refused.iter().find(|(_, given)| *given) {
                let message = format!("cannot specify {name} in BINARY mode");
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
        }
        let header = get("header").map_or(Ok(Header::No), |option| header_of(option, is_from))?;
        if format == Format::Binary && header != Header::No {
            return Err(refused("cannot specify HEADER in BINARY mode"));
        }
        if !is_csv {
            for (name, given) in [("quote", quote.is_some()), ("escape", escape.is_some())] {
                if given {
                    return Err(refused(format!("COPY {name} available only in CSV mode")));
                }
            }
        }
        check_forced(&given_columns, is_csv, is_from)?;
        let quote = one_byte("quote", quote, b'"')?;
        let [force_quote, force_not_null, force_null] =
            given_columns.map(|columns| columns.unwrap_or(Named::These(Vec::new())));
        let options = Self {
            format,
            delimiter: one_byte("delimiter", delimiter, if is_csv { b',' } else { b'\t' })?,
            null: null.unwrap_or_else(|| if is_csv { String::new() } else { "\\N".into() }),
            header,
            quote,
            escape: one_byte("escape", escape, quote)?,
            force_quote,
            force_not_null,
            force_null,
        };
        if format != Format::Binary {
            options.check()?;
        }
        Ok(options)
    }

    /// Checks that written data can be read back.
    fn check(&self) -> Result<()> {
        let Self { delimiter, null, .. } = self;
        let is_csv = self.format == Format::Csv;
        if matches!(delimiter, b'\n' | b'\r') {
            return Err(invalid("COPY delimiter cannot be newline or carriage return"));
        }
        if null.contains(['\n', '\r']) {
            return Err(invalid("COPY null representation cannot use newline or carriage return"));
        }
        // Any character that may follow a backslash.
        if !is_csv && matches!(delimiter, b'\\' | b'.' | b'a'..=b'z' | b'0'..=b'9') {
            return Err(invalid(format!("COPY delimiter cannot be \"{}\"", char::from(*delimiter))));
        }
        if is_csv && *delimiter == self.quote {
            return Err(invalid("COPY delimiter and quote must be different"));
        }
        if null.as_bytes().contains(delimiter) {
            return Err(refused("COPY delimiter must not appear in the NULL specification"));
        }
        if is_csv && null.as_bytes().contains(&self.quote) {
            return Err(refused("CSV quote character must not appear in the NULL specification"));
        }
        Ok(())
    }
}

/// Checks that the options that force columns fit the format and the direction.
fn check_forced(given_columns: &[Option<Named>; 3], is_csv: bool, is_from: bool) -> Result<()> {
    for ((name, side, is_out), given) in FORCED.into_iter().zip(given_columns) {
        if given.is_some() && !is_csv {
            return Err(refused(format!("COPY {name} available only in CSV mode")));
        }
        if given.is_some() && is_out == is_from {
            return Err(refused(format!("COPY {name} only available using {side}")));
        }
    }
    Ok(())
}

const KNOWN: &[&str] = &[
    "format",
    "freeze",
    "delimiter",
    "null",
    "header",
    "quote",
    "escape",
    "force_quote",
    "force_not_null",
    "force_null",
    "encoding",
];

/// Options with columns, the statements in which they may be used, and whether that is COPY TO.
const FORCED: [(&str, &str, bool); 3] =
    [("force quote", "COPY TO", true), ("force not null", "COPY FROM", false), ("force null", "COPY FROM", false)];

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn refused(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
}

fn word_of(option: &GivenOption) -> Result<String> {
    match &option.value {
        Some(OptionValue::Word(word)) => Ok(word.clone()),
        _ => {
            let message = format!("{} requires a parameter", option.name);
            Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
        }
    }
}

fn names_of(option: &GivenOption) -> Result<Named> {
    match &option.value {
        Some(OptionValue::Names(names)) => Ok(Named::These(names.clone())),
        Some(OptionValue::All) if option.name == "force_quote" => Ok(Named::All),
        _ => Err(invalid(format!("argument to option \"{}\" must be a list of column names", option.name))),
    }
}

/// Returns the value that a word has for an option that is on or off.
fn truth(word: &str) -> Option<bool> {
    match &*word.to_lowercase() {
        "true" | "on" | "1" => Some(true),
        "false" | "off" | "0" => Some(false),
        _ => None,
    }
}

fn is_true(option: &GivenOption) -> Result<bool> {
    let word = option.value.as_ref().map(|_| word_of(option)).transpose()?;
    word.map_or(Some(true), |word| truth(&word))
        .ok_or_else(|| SqlError::new(SqlState::SYNTAX_ERROR, format!("{} requires a Boolean value", option.name)))
}

fn header_of(option: &GivenOption, is_from: bool) -> Result<Header> {
    let word = option.value.as_ref().map(|_| word_of(option)).transpose()?;
    match word.as_deref().map(|word| (truth(word), word)) {
        None | Some((Some(true), _)) => Ok(Header::Yes),
        Some((Some(false), _)) => Ok(Header::No),
        Some((None, word)) if word.eq_ignore_ascii_case("match") => {
            if is_from {
                Ok(Header::Match)
            } else {
                Err(refused("cannot use \"match\" with HEADER in COPY TO"))
            }
        }
        Some(_) => {
            let message = "header requires a Boolean value or \"match\"";
            Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
        }
    }
}

fn one_byte(name: &str, given: Option<String>, usual: u8) -> Result<u8> {
    match given.as_deref().map(str::as_bytes) {
        None => Ok(usual),
        Some([byte]) => Ok(*byte),
        Some(_) => Err(refused(format!("COPY {name} must be a single one-byte character"))),
    }
}

fn check_encoding(name: &str) -> Result<()> {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    match &*plain.to_lowercase() {
        "utf8" | "unicode" => Ok(()),
        _ => Err(SqlError::unsupported(format_args!("encoding \"{name}\" of COPY")).hint("Convert it to UTF8.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn option(name: &str, value: &str) -> GivenOption {
        GivenOption { name: name.into(), value: Some(OptionValue::Word(value.into())) }
    }

    fn state(given: &[GivenOption], is_from: bool) -> &'static str {
        Options::of(given, is_from).map_or_else(|error| error.state().0, |_| "")
    }

    #[test]
    fn csv_has_its_own_defaults_and_the_escape_is_the_quote() {
        let options = Options::of(&[option("format", "csv"), option("quote", "'")], true).unwrap();
        assert_eq!((options.delimiter, &*options.null, options.quote, options.escape), (b',', "", b'\'', b'\''));
        let options = Options::of(&[], true).unwrap();
        assert_eq!((options.delimiter, &*options.null), (b'\t', "\\N"));
    }

    #[test]
    fn what_does_not_go_together_is_refused_with_its_code() {
        let (csv, binary) = (option("format", "csv"), option("format", "binary"));
        assert_eq!(state(&[csv.clone(), option("delimiter", "\"")], true), "22023");
        assert_eq!(state(&[option("delimiter", "a")], true), "22023");
        assert_eq!(state(&[csv.clone(), option("delimiter", "a")], true), "");
        assert_eq!(state(&[option("delimiter", "ab")], true), "0A000");
        assert_eq!(state(&[binary.clone(), option("delimiter", ",")], true), "42601");
        assert_eq!(state(&[binary, option("header", "on")], true), "0A000");
        assert_eq!(state(&[option("quote", "'")], true), "0A000");
        assert_eq!(state(&[csv.clone(), option("header", "match")], true), "");
        assert_eq!(state(&[csv.clone(), option("header", "match")], false), "0A000");
        assert_eq!(state(&[csv.clone(), option("null", "a,b")], false), "0A000");
        assert_eq!(state(&[csv.clone(), csv], true), "42601");
        assert_eq!(state(&[option("format", "xml")], true), "22023");
        assert_eq!(state(&[option("colour", "red")], true), "42601");
        assert_eq!(state(&[option("encoding", "latin1")], true), "0A000");
        assert_eq!(state(&[option("encoding", "UTF-8")], true), "");
        assert_eq!(state(&[option("freeze", "on")], true), "");
        assert_eq!(state(&[option("freeze", "perhaps")], true), "42601");
    }
}

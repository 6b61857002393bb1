//! Files of the configuration: TOML whose keys are the names of the options of `ermined serve`, and a table `set`.

use std::{any::TypeId, fs, io, ops::Range, path::Path};

use clap::{Arg, ArgAction};
use toml::{Spanned, de::DeValue};

use super::{SET, key_of, options, refusal};

/// A value of a file.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The option's name.
    pub key: String,
    /// The value as arguments give it; several for an option that is given several times.
    pub values: Vec<String>,
    /// The value as the file has it.
    pub literal: String,
    /// The file and the line.
    pub place: (String, u32),
}

impl Entry {
    /// Returns the arguments that say the same.
    pub fn arguments(&self) -> Vec<String> {
        let is_flag = options().iter().any(|option| key_of(option) == self.key && is_flag(option));
        match self.values.first().map(|value| &**value) {
            Some("true") if is_flag => vec![format!("--{}", self.key)],
            _ if is_flag => Vec::new(),
            _ => self.values.iter().map(|value| format!("--{}={value}", self.key)).collect(),
        }
    }

    /// The setting of sessions that it is about.
    pub fn setting(&self) -> Option<&str> {
        self.values.first().filter(|_| self.key == SET)?.split_once('=').map(|(name, _)| name)
    }
}

/// Reads a file, each of whose values is one of its option.
///
/// # Errors
/// With the place of the first mistake.
pub fn read(path: &Path) -> Result<Vec<Entry>, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    parse(&text, &path.display().to_string())
}

/// Reads a file that may be missing.
pub fn read_if_there(path: &Path) -> Result<Vec<Entry>, String> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        _ => read(path),
    }
}

/// As [`read`], of a text.
pub fn parse(text: &str, file: &str) -> Result<Vec<Entry>, String> {
    let file = File { text, name: file };
    let table = toml::de::DeTable::parse(text)
        .map_err(|error| file.mistake(error.span().unwrap_or_default(), error.message()))?;
    let mut entries = Vec::new();
    for (key, value) in table.get_ref() {
        let name: &str = key.get_ref();
        match value.get_ref() {
            DeValue::Table(settings) if name == SET => {
                for (setting, value) in settings {
                    let name: &str = setting.get_ref();
                    let text = scalar(value.get_ref()).ok_or_else(|| {
                        file.mistake(value.span(), &format!("{SET}.{name} is no string, number or boolean"))
                    })?;
                    entries.push(file.entry(SET, vec![format!("{}={text}", name.to_lowercase())], value));
                }
            }
            _ if name == SET => return Err(file.mistake(value.span(), &format!("{SET} is no table, as in [{SET}]"))),
            _ => entries.push(file.option(name, key.span(), value)?),
        }
    }
    // In the order of the file.
    entries.sort_by_key(|entry| entry.place.1);
    Ok(entries)
}

struct File<'t> {
    text: &'t str,
    name: &'t str,
}

impl File<'_> {
    fn line(&self, span: &Range<usize>) -> u32 {
        let before = self.text.as_bytes().get(..span.start).unwrap_or_default();
        1 + before.iter().filter(|byte| **byte == b'\n').count() as u32
    }

    fn mistake(&self, span: Range<usize>, what: &str) -> String {
        format!("{}, line {}: {what}", self.name, self.line(&span))
    }

    fn entry(&self, key: &str, values: Vec<String>, value: &Spanned<DeValue<'_>>) -> Entry {
        let literal = self.text.get(value.span()).unwrap_or_default().to_owned();
        Entry { key: key.to_owned(), values, literal, place: (self.name.to_owned(), self.line(&value.span())) }
    }

    fn option(&self, name: &str, at: Range<usize>, value: &Spanned<DeValue<'_>>) -> Result<Entry, String> {
        let known = options();
        let Some(option) = known.iter().find(|option| key_of(option) == name) else {
            return Err(self.mistake(at, &unknown(name, known.iter().map(key_of))));
        };
        let wrong = |wanted: &str| self.mistake(value.span(), &format!("{name} is no {wanted}"));
        let values = match value.get_ref() {
            DeValue::Boolean(value) if is_flag(option) => vec![value.to_string()],
            _ if is_flag(option) => return Err(wrong("boolean: true or false")),
            DeValue::Array(values) if matches!(option.get_action(), ArgAction::Append) => {
                let values = values.iter().map(|value| scalar(value.get_ref()));
                values.collect::<Option<_>>().ok_or_else(|| wrong("array of strings"))?
            }
            DeValue::Integer(_) if is_number(option) => {
                vec![scalar(value.get_ref()).ok_or_else(|| wrong("integer of 64 bits"))?]
            }
            _ if is_number(option) => return Err(wrong("integer")),
            DeValue::String(text) => vec![text.to_string()],
            _ => return Err(wrong("string")),
        };
        let entry = self.entry(name, values, value);
        match refusal(&entry.arguments()) {
            None => Ok(entry),
            Some(what) => Err(self.mistake(value.span(), &format!("{name}: {what}"))),
        }
    }
}

/// Whether an option is true where it is given.
pub fn is_flag(option: &Arg) -> bool {
    matches!(option.get_action(), ArgAction::SetTrue)
}

/// Whether the values of an option are integers.
pub fn is_number(option: &Arg) -> bool {
    let ty = option.get_value_parser().type_id();
    ty == TypeId::of::<u32>() || ty == TypeId::of::<u64>()
}

/// Returns the text of a value that is neither an array nor a table.
fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok().map(|n| n.to_string()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(value) => Some(value.to_string()),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

/// Returns the message about an unknown name.
pub(super) fn unknown(name: &str, known: impl Iterator<Item = String>) -> String {
    let near = known.map(|known| (strsim::damerau_levenshtein(name, &known), known)).min();
    let hint = near.filter(|(distance, known)| *distance <= 1 + known.len() / 3);
    match hint {
        Some((_, known)) => format!("there is no option {name}; did you mean {known}?"),
        None => format!("there is no option {name}; `ermined serve --help` lists them"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistake(text: &str) -> String {
        parse(text, "f").unwrap_err()
    }

    #[test]
    fn mistakes_name_the_key_its_line_and_the_nearest_name() {
        assert_eq!(
            mistake("\nmax-conections = 1"),
            "f, line 2: there is no option max-conections; did you mean max-connections?"
        );
        assert_eq!(mistake("[server]"), "f, line 1: there is no option server; `ermined serve --help` lists them");
        assert_eq!(mistake("# a\n\nmax-connections = \"9\""), "f, line 3: max-connections is no integer");
        assert_eq!(mistake("trust = 1"), "f, line 1: trust is no boolean: true or false");
        assert_eq!(mistake("scheme = [\"silo\"]"), "f, line 1: scheme is no string");
        assert_eq!(mistake("listen = [[]]"), "f, line 1: listen is no array of strings");
        assert_eq!(mistake("set = 1"), "f, line 1: set is no table, as in [set]");
        assert_eq!(mistake("[set]\nwork_mem = []"), "f, line 2: set.work_mem is no string, number or boolean");
        assert!(mistake("max-connections = 0").starts_with("f, line 1: max-connections: invalid value '0'"));
        assert!(mistake("listen = \"here\"").starts_with("f, line 1: listen: invalid value 'here'"));
        assert!(mistake("config = \"x\"").contains("no option config"));
        assert!(mistake("trust = true\ntrust = false").starts_with("f, line 2: "));
        assert!(mistake("trust").starts_with("f, line 1: "));
    }

    #[test]
    fn values_are_those_of_arguments() {
        let text = "trust = true\ncreate = false\nlisten = [\"127.0.0.1:1\", \"127.0.0.1:2\"]\nmax-connections = 1_000\n\
            tls-key = \"k\"\n[set]\nWork_Mem = \"64MB\"\nlock_timeout = 0x10\n";
        let entries = parse(text, "f").unwrap();
        let arguments: Vec<_> = entries.iter().flat_map(Entry::arguments).collect();
        let wanted = [
            "--trust",
            "--listen=127.0.0.1:1",
            "--listen=127.0.0.1:2",
            "--max-connections=1000",
            "--tls-key=k",
            "--set=work_mem=64MB",
            "--set=lock_timeout=16",
        ];
        assert_eq!(arguments, wanted);
        assert_eq!(entries.iter().map(|entry| entry.place.1).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 7, 8]);
        assert_eq!(entries[6].setting(), Some("lock_timeout"));
    }
}

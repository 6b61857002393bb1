//! The common values of EDN and JSON, as far as histories use them.

use std::fmt;

/// A value of EDN or JSON.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Datum {
    /// `nil`, `null`.
    Nil,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Any other number, as it was written.
    Number(String),
    /// A string or a character.
    Text(String),
    /// `:name`, stored without the colon.
    Keyword(String),
    /// `name`.
    Symbol(String),
    /// A vector, list or set; an array.
    Seq(Vec<Datum>),
    /// A map; an object.
    Map(Vec<(Datum, Datum)>),
}

impl Datum {
    /// The text of a name, in any of its notations: `:ok`, `"ok"`, `":ok"`.
    pub(super) fn as_name(&self) -> Option<&str> {
        match self {
            Self::Keyword(name) | Self::Symbol(name) => Some(name),
            Self::Text(name) => Some(name.strip_prefix(':').unwrap_or(name)),
            _ => None,
        }
    }

    pub(super) fn as_seq(&self) -> Option<&[Datum]> {
        match self {
            Self::Seq(items) => Some(items),
            _ => None,
        }
    }

    /// A field of a map.
    pub(super) fn field(&self, name: &str) -> Option<&Datum> {
        let Self::Map(fields) = self else { return None };
        fields.iter().find(|(field, _)| field.as_name() == Some(name)).map(|(_, value)| value)
    }
}

impl From<serde_json::Value> for Datum {
    fn from(value: serde_json::Value) -> Self {
        match value {
            serde_json::Value::Null => Self::Nil,
            serde_json::Value::Bool(truth) => Self::Bool(truth),
            serde_json::Value::Number(number) => {
                number.as_i64().map_or_else(|| Self::Number(number.to_string()), Self::Int)
            }
            serde_json::Value::String(text) => Self::Text(text),
            serde_json::Value::Array(items) => Self::Seq(items.into_iter().map(Self::from).collect()),
            serde_json::Value::Object(fields) => {
                Self::Map(fields.into_iter().map(|(name, value)| (Self::Text(name), Self::from(value))).collect())
            }
        }
    }
}

impl From<&Datum> for serde_json::Value {
    fn from(datum: &Datum) -> Self {
        match datum {
            Datum::Nil => Self::Null,
            Datum::Bool(truth) => Self::Bool(*truth),
            Datum::Int(number) => (*number).into(),
            Datum::Number(text) | Datum::Text(text) | Datum::Keyword(text) | Datum::Symbol(text) => text.clone().into(),
            Datum::Seq(items) => items.iter().map(Self::from).collect(),
            Datum::Map(_) => datum.to_string().into(),
        }
    }
}

impl fmt::Display for Datum {
    /// Formats the value as EDN.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nil => f.write_str("nil"),
            Self::Bool(truth) => truth.fmt(f),
            Self::Int(number) => number.fmt(f),
            Self::Number(text) | Self::Symbol(text) => f.write_str(text),
            Self::Keyword(name) => write!(f, ":{name}"),
            Self::Text(text) => {
                f.write_str("\"")?;
                for character in text.chars() {
                    match character {
                        '"' | '\\' => write!(f, "\\{character}")?,
                        '\n' => f.write_str("\\n")?,
                        '\t' => f.write_str("\\t")?,
                        '\r' => f.write_str("\\r")?,
                        _ => write!(f, "{character}")?,
                    }
                }
                f.write_str("\"")
            }
            Self::Seq(items) => {
                f.write_str("[")?;
                for (at, item) in items.iter().enumerate() {
                    let space = if at > 0 { " " } else { "" };
                    write!(f, "{space}{item}")?;
                }
                f.write_str("]")
            }
            Self::Map(fields) => {
                f.write_str("{")?;
                for (at, (name, value)) in fields.iter().enumerate() {
                    let comma = if at > 0 { ", " } else { "" };
                    write!(f, "{comma}{name} {value}")?;
                }
                f.write_str("}")
            }
        }
    }
}

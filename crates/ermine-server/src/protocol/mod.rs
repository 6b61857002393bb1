//! The PostgreSQL protocol, version 3: bytes to messages and messages to bytes, and nothing of when they are sent.
//!
//! What comes from clients is decoded here, not by pgwire: its decoders (0.42.1) take a message's fields out of the shared buffer without
//! regard to the message's length, so that a cut `Parse` or `Bind` panics or eats the message behind it, and they replace what is
//! not UTF-8 in silence. What goes to clients is encoded by pgwire where it is rare, and by hand where there is one for every query. The
//! tests let pgwire judge both directions.
//!
//! Invariants
//! 1. No input makes a decoder panic, and none of them looks beyond its message.
//! 2. A decoded message borrows from the input: decoding takes no memory but for lists of formats, which are as long as what was sent.
//! 3. Nobody outside of this module knows pgwire.

pub mod backend;
pub mod frontend;
pub mod reader;
pub mod startup;

use std::fmt;

/// Input that is none of the protocol's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// How a value is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Format {
    /// As text.
    #[default]
    Text,
    /// As its type's bytes.
    Binary,
}

/// The formats of a row's values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Formats {
    /// All the same.
    All(Format),
    /// One each.
    Each(Box<[Format]>),
}

impl Default for Formats {
    fn default() -> Self {
        Self::All(Format::Text)
    }
}

impl Formats {
    /// The format of the value at `index`, counted from 0.
    #[inline]
    pub fn of(&self, index: usize) -> Format {
        match self {
            Self::All(format) => *format,
            Self::Each(formats) => formats.get(index).copied().unwrap_or_default(),
        }
    }

    /// Whether there is one for each of `count` values.
    pub fn fits(&self, count: usize) -> bool {
        matches!(self, Self::All(_)) || matches!(self, Self::Each(formats) if formats.len() == count)
    }

    /// How many were given, where it matters.
    pub fn count(&self) -> usize {
        match self {
            Self::All(_) => 1,
            Self::Each(formats) => formats.len(),
        }
    }
}

//! The PostgreSQL protocol, version 3: bytes to messages and messages to bytes, independent of when they are sent.
//!
//! The crate pgwire does not serve for that: its decoders (0.42.1) take a message's fields out of the shared buffer
//! without regard to the message's length, so that a cut `Parse` or `Bind` panics or consumes the message behind it,
//! and they silently replace bytes that are not UTF-8. It judges both directions in the tests.
//!
//! Invariants
//! 1. No input makes a decoder panic, and none of them reads beyond its message.
//! 2. A decoded message borrows from the input: decoding takes no memory but for lists of formats, which are as long as
//!    what was sent.

pub mod backend;
pub mod frontend;
pub mod pgoutput;
pub mod reader;
pub mod replication;
pub mod startup;

use std::fmt;

/// Input that violates the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// The form in which a value is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Format {
    /// As text.
    #[default]
    Text,
    /// As its type's binary form.
    Binary,
}

/// The formats of a row's values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Formats {
    /// One format for all values.
    All(Format),
    /// One format for each value.
    Each(Box<[Format]>),
}

impl Default for Formats {
    fn default() -> Self {
        Self::All(Format::Text)
    }
}

impl Formats {
    /// Returns the format of the value at `index`, counted from 0.
    #[inline]
    pub fn of(&self, index: usize) -> Format {
        match self {
            Self::All(format) => *format,
            Self::Each(formats) => formats.get(index).copied().unwrap_or_default(),
        }
    }

    /// Whether there is a format for each of `count` values.
    pub fn fits(&self, count: usize) -> bool {
        matches!(self, Self::All(_)) || matches!(self, Self::Each(formats) if formats.len() == count)
    }

    /// Returns the number of formats given; a single one for all values counts as one.
    pub fn count(&self) -> usize {
        match self {
            Self::All(_) => 1,
            Self::Each(formats) => formats.len(),
        }
    }
}

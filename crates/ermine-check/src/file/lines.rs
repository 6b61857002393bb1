//! The lines of a history file, as serde sees them.

use serde::{Deserialize, Serialize};

/// Name of the format, in the first line.
pub(super) const FORMAT: &str = "ermine-history";
/// Higher versions are refused. Since 2 a transaction has moments, a process, an order and a snapshot.
pub(super) const VERSION: u32 = 2;

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    pub(super) format: String,
    pub(super) version: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) tables: Vec<Name>,
    #[serde(default = "everything")]
    pub(super) sample: u32,
}

fn everything() -> u32 {
    1
}

/// A table's name.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Name {
    pub(super) table: u32,
    pub(super) name: String,
}

/// Any other line. A transaction without `commit` is aborted.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line {
    pub(super) begin: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) commit: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) process: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) began: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ended: Option<u64>,
    #[serde(default, skip_serializing_if = "Promised::is_realtime")]
    pub(super) order: Promised,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) snapshot: bool,
    pub(super) ops: Vec<Op>,
}

/// The order that a transaction was promised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Promised {
    None,
    Process,
    #[default]
    Realtime,
}

impl Promised {
    fn is_realtime(&self) -> bool {
        *self == Self::Realtime
    }
}

/// An operation; keys and digests are hexadecimal: JSON numbers are not exact up to 2^64 everywhere.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Op {
    Read {
        table: u32,
        key: String,
        version: Version,
        #[serde(default)]
        value: Option<String>,
    },
    Range {
        table: u32,
        #[serde(default)]
        index: u16,
        lower: String,
        #[serde(default)]
        upper: Option<String>,
        at: u64,
    },
    Write {
        table: u32,
        key: String,
        #[serde(default)]
        value: Option<String>,
    },
    Entry {
        table: u32,
        index: u16,
        entry: String,
        present: bool,
    },
}

/// A version that was read.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Version {
    At(u64),
    Own,
    Missing(u64),
}

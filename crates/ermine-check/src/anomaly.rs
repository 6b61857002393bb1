//! Names of what can go wrong, and which level of isolation forbids it (Adya 1999, chapter 4; Berenson et al. 1995).

use std::fmt;

use serde::Serialize;

/// A kind of anomaly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum AnomalyKind {
    /// A cycle of overwritten writes.
    #[serde(rename = "G0")]
    G0,
    /// Somebody who committed read what an aborted transaction wrote.
    #[serde(rename = "G1a")]
    G1a,
    /// Somebody who committed read what its writer replaced before it committed.
    #[serde(rename = "G1b")]
    G1b,
    /// A cycle of overwriting and reading what others wrote.
    #[serde(rename = "G1c")]
    G1c,
    /// A committed write went over one that was aborted, and kept it.
    #[serde(rename = "dirty update")]
    DirtyUpdate,
    /// Somebody overwrote a row that had changed since he read it.
    #[serde(rename = "lost update")]
    LostUpdate,
    /// A cycle with exactly one anti-dependency: read skew, for one.
    #[serde(rename = "G-single")]
    GSingle,
    /// A cycle with several anti-dependencies, all of them on rows that were read: write skew, for one.
    #[serde(rename = "G2-item")]
    G2Item,
    /// A cycle with several anti-dependencies, one of them a row that came into a range.
    #[serde(rename = "G2")]
    G2,
    /// A range, or a lookup, did not show a row that its snapshot has.
    #[serde(rename = "missed row")]
    MissedRow,
    /// A transaction did not see its own write.
    #[serde(rename = "internal")]
    Internal,
    /// A read of what nobody wrote.
    #[serde(rename = "corrupt read")]
    CorruptRead,
    /// Reads of one key that cannot all be true: no order of its versions explains them.
    #[serde(rename = "incompatible order")]
    IncompatibleOrder,
    /// A value that was written once is there twice.
    #[serde(rename = "duplicate")]
    Duplicate,
}

impl AnomalyKind {
    /// As it is called in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::G0 => "G0",
            Self::G1a => "G1a",
            Self::G1b => "G1b",
            Self::G1c => "G1c",
            Self::DirtyUpdate => "dirty update",
            Self::LostUpdate => "lost update",
            Self::GSingle => "G-single",
            Self::G2Item => "G2-item",
            Self::G2 => "G2",
            Self::MissedRow => "missed row",
            Self::Internal => "internal",
            Self::CorruptRead => "corrupt read",
            Self::IncompatibleOrder => "incompatible order",
            Self::Duplicate => "duplicate",
        }
    }

    /// What it means, in a line.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::G0 => "dirty write: transactions overwrote each other's writes in a circle",
            Self::G1a => "aborted read: a committed transaction read what an aborted one wrote",
            Self::G1b => "intermediate read: a committed transaction read what its writer then replaced",
            Self::G1c => "circular information flow: transactions saw each other's writes",
            Self::DirtyUpdate => "a committed write was built on an aborted one",
            Self::LostUpdate => "a row that changed after it was read was overwritten",
            Self::GSingle => "a cycle with exactly one anti-dependency",
            Self::G2Item => "a cycle with several anti-dependencies, all between rows",
            Self::G2 => "a cycle with several anti-dependencies, of which one is a phantom",
            Self::MissedRow => "a row was not shown that was there by the transaction's own snapshot",
            Self::Internal => "a transaction did not see its own write",
            Self::CorruptRead => "a read returned what nobody wrote",
            Self::IncompatibleOrder => "no order of the versions of a key explains all reads of it",
            Self::Duplicate => "a value that was written once was read twice",
        }
    }

    /// Whether a level forbids it.
    pub fn is_forbidden_by(self, level: Level) -> bool {
        match self {
            Self::LostUpdate | Self::GSingle => level >= Level::SnapshotIsolation,
            // By itself it is a read of an older state: serializable, unless it closes a cycle.
            Self::MissedRow => level == Level::SnapshotIsolation,
            Self::G2Item | Self::G2 => level == Level::Serializable,
            _ => true,
        }
    }
}

impl fmt::Display for AnomalyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A level of isolation, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Level {
    /// PL-2: neither G0 nor G1.
    #[serde(rename = "rc")]
    ReadCommitted,
    /// PL-SI, as far as a history without real time shows it: nor G-single.
    #[serde(rename = "si")]
    SnapshotIsolation,
    /// PL-3: no cycle at all.
    #[serde(rename = "serializable")]
    Serializable,
}

impl Level {
    /// All of them, weakest first.
    pub const ALL: [Self; 3] = [Self::ReadCommitted, Self::SnapshotIsolation, Self::Serializable];

    /// Its full name.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadCommitted => "read committed",
            Self::SnapshotIsolation => "snapshot isolation",
            Self::Serializable => "serializable",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

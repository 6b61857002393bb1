//! The operations of each workload, their shares, and the distribution of the records.

use std::{fmt, str::FromStr};

use serde::Serialize;

use crate::{Error, Result, random::Random};

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Read,
    Update,
    Insert,
    Scan,
    ReadModifyWrite,
}

impl Kind {
    /// The name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Update => "update",
            Self::Insert => "insert",
            Self::Scan => "scan",
            Self::ReadModifyWrite => "read-modify-write",
        }
    }
}

/// A workload of YCSB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Mix {
    /// Reads and updates.
    A,
    /// Mostly reads, some updates.
    B,
    /// Reads.
    C,
    /// Reads of the latest records, and inserts.
    D,
    /// Scans, and inserts.
    E,
    /// Reads and read-modify-writes.
    F,
}

impl Mix {
    /// All workloads.
    pub const ALL: [Self; 6] = [Self::A, Self::B, Self::C, Self::D, Self::E, Self::F];

    /// The operations that have a share, with their shares in percent.
    pub(super) fn operations(self) -> impl Iterator<Item = (Kind, u32)> {
        let shares = match self {
            Self::A => [(Kind::Read, 50), (Kind::Update, 50)],
            Self::B => [(Kind::Read, 95), (Kind::Update, 5)],
            Self::C => [(Kind::Read, 100), (Kind::Update, 0)],
            Self::D => [(Kind::Read, 95), (Kind::Insert, 5)],
            Self::E => [(Kind::Scan, 95), (Kind::Insert, 5)],
            Self::F => [(Kind::Read, 50), (Kind::ReadModifyWrite, 50)],
        };
        shares.into_iter().filter(|&(_, share)| share > 0)
    }

    /// Draws an operation; returns its place among [`Self::operations`], too.
    pub(super) fn draw(self, random: &mut Random) -> (usize, Kind) {
        let mut drawn = random.below(100) as u32;
        for (place, (kind, share)) in self.operations().enumerate() {
            if drawn < share {
                return (place, kind);
            }
            drawn -= share;
        }
        unreachable!("the shares are 100 % together")
    }

    /// The distribution that the definition of the workload names.
    pub(super) fn distribution(self) -> Distribution {
        match self {
            Self::D => Distribution::Latest,
            _ => Distribution::Zipfian,
        }
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl FromStr for Mix {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let named = |mix: &Self| mix.to_string().eq_ignore_ascii_case(name);
        let unknown = || Error::Usage(format!("{name:?} is no workload of YCSB: use A, B, C, D, E or F"));
        Self::ALL.into_iter().find(named).ok_or_else(unknown)
    }
}

/// The distribution of the records that operations are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distribution {
    /// Some of the loaded records are much more frequent than others (Zipf); they are scattered over the keys.
    Zipfian,
    /// All loaded records alike.
    Uniform,
    /// The more recently inserted, the more frequent, by Zipf's law.
    Latest,
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Zipfian => "zipfian",
            Self::Uniform => "uniform",
            Self::Latest => "latest",
        })
    }
}

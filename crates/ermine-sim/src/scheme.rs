//! The schemes by name.

use std::{fmt, str::FromStr};

use serde::Serialize;

use crate::options::Usage;

/// A scheme that can be simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scheme {
    /// Strict two-phase locking.
    TwoPhase,
    /// Read committed with locks that readers wait for.
    Rcl,
    /// The same, certified by the Serial Safety Net.
    RclSsn,
    /// Read committed.
    Rc,
    /// The same, certified by the Serial Safety Net.
    RcSsn,
    /// Snapshot isolation.
    Si,
    /// Serializable snapshot isolation.
    SiSsi,
    /// Snapshot isolation, certified by the Serial Safety Net.
    SiSsn,
    /// Snapshot isolation, with validation of the read set at commit.
    MvOcc,
    /// Private writes, with validation of the read set at commit.
    Silo,
    /// Strict timestamp ordering.
    Sto,
    /// Timestamp ordering without waiting.
    Tso,
    /// Timestamp ordering by the safe timestamp alone, as the HTM paper has it.
    TsoSafe,
    /// A transaction as one hardware transaction, in a buffer without limits.
    Hardware,
    /// One transaction at a time.
    Serial,
    /// One transaction at a time in each partition.
    Partitioned,
    /// Very lightweight locking.
    Vll,
}

impl Scheme {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::TwoPhase,
        Self::Rcl,
        Self::RclSsn,
        Self::Rc,
        Self::RcSsn,
        Self::Si,
        Self::SiSsi,
        Self::SiSsn,
        Self::MvOcc,
        Self::Silo,
        Self::Sto,
        Self::Tso,
        Self::TsoSafe,
        Self::Hardware,
        Self::Serial,
        Self::Partitioned,
        Self::Vll,
    ];

    /// Those of the SSN paper.
    pub const SSN_PAPER: [Self; 8] =
        [Self::TwoPhase, Self::Rcl, Self::RclSsn, Self::Rc, Self::RcSsn, Self::Si, Self::SiSsi, Self::SiSsn];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::TwoPhase => "2pl",
            Self::Rcl => "rcl",
            Self::RclSsn => "rcl-ssn",
            Self::Rc => "rc",
            Self::RcSsn => "rc-ssn",
            Self::Si => "si",
            Self::SiSsi => "si-ssi",
            Self::SiSsn => "si-ssn",
            Self::MvOcc => "mvocc",
            Self::Silo => "silo",
            Self::Sto => "sto",
            Self::Tso => "tso",
            Self::TsoSafe => "tso-safe",
            Self::Hardware => "htm",
            Self::Serial => "serial",
            Self::Partitioned => "partitioned",
            Self::Vll => "vll",
        }
    }

    /// The papers' name.
    pub fn title(self) -> &'static str {
        match self {
            Self::TwoPhase => "2PL",
            Self::Rcl => "RCL",
            Self::RclSsn => "RCL+SSN",
            Self::Rc => "RC",
            Self::RcSsn => "RC+SSN",
            Self::Si => "SI",
            Self::SiSsi => "SSI",
            Self::SiSsn => "SI+SSN",
            Self::MvOcc => "MVOCC",
            Self::Silo => "Silo",
            Self::Sto => "STO",
            Self::Tso => "TSO",
            Self::TsoSafe => "TSO, safe",
            Self::Hardware => "HTM, whole",
            Self::Serial => "serial",
            Self::Partitioned => "partitioned",
            Self::Vll => "VLL",
        }
    }

    /// Whether its transactions never abort, and wait in a queue instead, which has no bound where clients do not wait.
    pub fn only_queues(self) -> bool {
        matches!(self, Self::Serial | Self::Partitioned | Self::Vll)
    }

    /// Whether every history of it is serializable.
    pub fn is_serializable(self) -> bool {
        !matches!(self, Self::Rc | Self::Rcl | Self::Si)
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Scheme {
    type Err = Usage;

    fn from_str(text: &str) -> Result<Self, Usage> {
        let named = Self::ALL.into_iter().find(|scheme| scheme.name() == text);
        named.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            Usage(format!("there is no scheme {text:?}; the simulator has {names}"))
        })
    }
}

impl Serialize for Scheme {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

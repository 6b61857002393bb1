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
}

impl Scheme {
    /// All of them.
    pub const ALL: [Self; 8] =
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
        }
    }

    /// The paper's name.
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
        }
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

//! Collations.

use crate::types::{Scalar, SqlType};

/// A collation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Collation {
    #[default]
    Default,
    C,
    Posix,
    UcsBasic,
}

impl Collation {
    /// Returns the collation of values of a type that come from no other text.
    pub(crate) fn of(ty: SqlType) -> Self {
        if ty.scalar == Scalar::Name { Self::C } else { Self::Default }
    }

    /// Returns the collation of a column whose values come from two sources.
    pub(crate) fn or(self, other: Self) -> Self {
        if self == Self::Default { other } else { self }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::C => "C",
            Self::Posix => "POSIX",
            Self::UcsBasic => "ucs_basic",
        }
    }
}

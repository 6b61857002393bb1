//! Isolation levels of SQL.

/// Isolation levels, weaker ones first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Level {
    /// Each statement sees what was committed when it began.
    ReadCommitted,
    /// Snapshot isolation.
    RepeatableRead,
    Serializable,
}

impl Level {
    const ALL: [Self; 3] = [Self::ReadCommitted, Self::RepeatableRead, Self::Serializable];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ReadCommitted => "read committed",
            Self::RepeatableRead => "repeatable read",
            Self::Serializable => "serializable",
        }
    }

    /// Returns the level with a name in lower case; dirty reads are not supported.
    pub(crate) fn of(name: &str) -> Self {
        Self::ALL.into_iter().find(|level| level.name() == name).unwrap_or(Self::ReadCommitted)
    }
}

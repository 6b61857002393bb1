//! The memory of a database of the engine, as the limit that sessions share.

use std::sync::Arc;

use ermine::Error;

use crate::{error::Result, failure::sql_error, memory::Budget};

/// The budget of a database.
#[derive(Debug)]
pub(crate) struct DatabaseBudget(Arc<ermine::Budget>);

impl DatabaseBudget {
    /// Returns the budget of the database, for the memory of a session.
    pub(crate) fn of(database: &ermine::Database) -> Arc<dyn Budget> {
        Arc::new(Self(database.budget().clone()))
    }
}

impl Budget for DatabaseBudget {
    fn take(&self, bytes: u64, frees: bool) -> Result<()> {
        let taken = if frees { self.0.take_to_delete(bytes) } else { self.0.take(bytes) };
        taken.map_err(|error| match error {
            Error::OutOfMemory { .. } => sql_error(error).hint(
                "Let the statement gather fewer or smaller rows at a time, try again when others have ended, or start \
                 the server with a larger --memory-limit.",
            ),
            error => sql_error(error),
        })
    }

    fn give(&self, bytes: u64) {
        self.0.give(bytes);
    }

    fn left(&self) -> u64 {
        self.0.left()
    }
}

#[cfg(test)]
mod tests {
    use ermine::{Database, Options};

    use super::*;
    use crate::error::SqlState;

    #[test]
    fn a_database_without_memory_says_what_to_do() {
        let database = Database::open_in_memory(Options::default().memory_limit(64 << 20)).unwrap();
        let (before, budget) = (database.budget().taken(), DatabaseBudget::of(&database));
        let refused = budget.take(80 << 20, false).unwrap_err();
        assert_eq!(refused.state(), SqlState::OUT_OF_MEMORY);
        assert!(refused.report().hint.as_deref().is_some_and(|hint| hint.contains("--memory-limit")));
        budget.take(1 << 20, false).unwrap();
        assert_eq!(database.budget().taken(), before + (1 << 20));
        budget.give(1 << 20);
        assert_eq!(database.budget().taken(), before);
        // An eighth is kept, half of it for what deletes.
        let most = (60 << 20) - before;
        assert!(budget.take(most + 1, false).is_err());
        budget.take(most + 1, true).unwrap();
        budget.give(most + 1);
    }
}

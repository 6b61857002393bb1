//! The memory of a database of the engine, as the limit that sessions share.

use std::{sync::Arc, thread, time::Duration};

use ermine::Error;

use crate::{error::Result, failure::sql_error, memory::Budget};

/// The budget of a database.
#[derive(Debug)]
pub(crate) struct DatabaseBudget {
    shared: Arc<ermine::Budget>,
    /// Whether rows may leave memory for its files.
    evicts: bool,
}

/// Number of pauses at most in which a refused statement waits for rows to leave memory, and their length. They are short:
/// inside of a scan, the statement keeps rows in memory itself.
const PAUSES: usize = 40;
const PAUSE: Duration = Duration::from_micros(250);

impl DatabaseBudget {
    /// Returns the budget of the database, for the memory of a session.
    pub(crate) fn of(database: &ermine::Database) -> Arc<dyn Budget> {
        Arc::new(Self { shared: database.budget().clone(), evicts: database.path().is_some() })
    }

    /// Takes memory. Where rows may leave memory, it may be full for a moment only: then waits with `pause` before it
    /// fails.
    fn take_or(&self, bytes: u64, frees: bool, mut pause: impl FnMut()) -> ermine::Result<()> {
        let take = || if frees { self.shared.take_to_delete(bytes) } else { self.shared.take(bytes) };
        let mut taken = take();
        for _ in 0..if self.evicts { PAUSES } else { 0 } {
            if !matches!(taken, Err(Error::OutOfMemory { .. })) {
                break;
            }
            pause();
            taken = take();
        }
        taken
    }
}

impl Budget for DatabaseBudget {
    fn take(&self, bytes: u64, frees: bool) -> Result<()> {
        self.take_or(bytes, frees, || thread::sleep(PAUSE)).map_err(|error| match error {
            Error::OutOfMemory { .. } => sql_error(error).hint(
                "Let the statement gather fewer or smaller rows at a time, try again when others have ended, or start \
                 the server with a larger --memory-limit.",
            ),
            error => sql_error(error),
        })
    }

    fn give(&self, bytes: u64) {
        self.shared.give(bytes);
    }

    fn left(&self) -> u64 {
        self.shared.left()
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

    #[test]
    fn a_statement_waits_for_rows_to_leave_memory() {
        let database = Database::open_in_memory(Options::default().memory_limit(64 << 20)).unwrap();
        let all = database.budget().left();
        database.budget().take(all).unwrap();
        let mut pauses = 0;
        let mut ask = |evicts| {
            let budget = DatabaseBudget { shared: database.budget().clone(), evicts };
            pauses = 0;
            let taken = budget.take_or(1 << 20, false, || {
                pauses += 1;
                if pauses == 3 {
                    database.budget().give(1 << 20);
                }
            });
            (taken.is_ok(), pauses)
        };
        assert_eq!(ask(false), (false, 0));
        assert_eq!(ask(true), (true, 3));
        database.budget().give(all);
    }
}

//! The memory of a connection's buffers, as far as it counts against the database's budget.

use std::sync::Arc;

use ermine::{Budget, Error};
use ermine_sql::{SqlError, SqlState};

/// Buffers up to this size in bytes are not counted, larger ones in steps of it.
const STEP: usize = 64 << 10;

/// Bytes of one buffer that are taken from a budget; dropping this returns them.
#[derive(Default)]
pub struct Counted {
    budget: Option<Arc<Budget>>,
    bytes: usize,
}

impl Counted {
    /// Without a budget nothing is counted.
    pub fn new(budget: Option<Arc<Budget>>) -> Self {
        Self { budget, bytes: 0 }
    }

    /// Counts a buffer that is about to have `bytes` bytes. Fails with 53200 if there is no room for `what`.
    pub fn grow_to(&mut self, bytes: usize, what: &str) -> Result<(), SqlError> {
        let Some(budget) = &self.budget else { return Ok(()) };
        let wanted = if bytes > STEP { bytes.next_multiple_of(STEP) } else { 0 };
        if wanted > self.bytes {
            budget.take((wanted - self.bytes) as u64).map_err(|error| no_room(what, &error))?;
            self.bytes = wanted;
        }
        Ok(())
    }

    /// Records that the buffer is small again.
    pub fn clear(&mut self) {
        if let Some(budget) = self.budget.as_ref().filter(|_| self.bytes > 0) {
            budget.give(self.bytes as u64);
            self.bytes = 0;
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.clear();
    }
}

fn no_room(what: &str, error: &Error) -> SqlError {
    SqlError::new(SqlState::OUT_OF_MEMORY, format!("out of memory for {what}")).detail(error.to_string()).hint(
        "Send less at a time, try again when others have ended, or start the server with a larger --memory-limit.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_buffers_count_until_they_are_small_again() {
        let options = ermine::Options::default().memory_limit(64 << 20);
        let budget = ermine::Database::open_in_memory(options).unwrap().budget().clone();
        let before = budget.taken();
        let mut counted = Counted::new(Some(budget.clone()));
        counted.grow_to(STEP, "a test").unwrap();
        assert_eq!(budget.taken(), before);
        counted.grow_to(10 << 20, "a test").unwrap();
        counted.grow_to(1 << 20, "a test").unwrap();
        assert_eq!(budget.taken(), before + (10 << 20));
        let refused = counted.grow_to(100 << 20, "a test").unwrap_err();
        assert_eq!(refused.state(), SqlState::OUT_OF_MEMORY);
        counted.clear();
        assert_eq!(budget.taken(), before);
        counted.grow_to(10 << 20, "a test").unwrap();
        drop(counted);
        assert_eq!(budget.taken(), before);
    }
}

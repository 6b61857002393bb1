//! Locked instructions and shared cache lines, in a build that counts them (`RUSTFLAGS="--cfg ermine_counts"`, as
//! `scripts/scaling counts` makes it).

use std::fmt;

use serde::Serialize;

/// What transactions did that threads wait for on machines with many cores, on average.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Sharing {
    /// Locked instructions a transaction.
    pub locked: f64,
    /// Writes of cache lines that other threads held.
    pub invalidations: f64,
    /// Reads of cache lines that another thread had written since.
    pub fetches: f64,
    /// The two of the line that had most of them: transactions wait for one another there.
    pub hottest: f64,
}

impl Sharing {
    /// Begins to count.
    pub(crate) fn start() -> Start {
        Start {
            #[cfg(ermine_counts)]
            before: ermine::counted::start(),
        }
    }
}

/// The moment at which counting began.
#[derive(Clone, Copy)]
pub(crate) struct Start {
    #[cfg(ermine_counts)]
    before: ermine::counted::Counted,
}

impl Start {
    /// Returns the averages of what was counted since then; `None` in builds that do not count.
    pub(crate) fn per_transaction(self, transactions: u64) -> Option<Sharing> {
        #[cfg(ermine_counts)]
        {
            let counted = ermine::counted::read().since(&self.before);
            let ermine::counted::Counted { locked, invalidations, fetches, hottest } = counted;
            let each = |count: u64| count as f64 / transactions.max(1) as f64;
            let (locked, invalidations) = (each(locked), each(invalidations));
            Some(Sharing { locked, invalidations, fetches: each(fetches), hottest: each(hottest) })
        }
        #[cfg(not(ermine_counts))]
        {
            let _ = transactions;
            None
        }
    }
}

impl fmt::Display for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { locked, invalidations, fetches, hottest } = self;
        write!(
            f,
            "{locked:.1} locked instructions a transaction, {invalidations:.2} writes and {fetches:.2} reads of cache \
             lines that other threads changed or held, {hottest:.2} of them on one line"
        )
    }
}

//! Counters of what sessions do: of tables, of transactions, of the time that statements take.
//!
//! Each session adds to one of [`SHARDS`] parts of a counter, so that sessions on different cores rarely write the same
//! cache line; a reader adds the parts up. A part takes memory from its first use on.

use std::{
    array,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use ermine::{Latencies, LatencyRecorder};

/// Parts of a counter. Two sessions whose numbers differ by a multiple of it share one.
const SHARDS: usize = 16;

/// A counter in parts, each used by some of the sessions.
pub(crate) struct Sharded<T>([OnceLock<Box<T>>; SHARDS]);

impl<T> Default for Sharded<T> {
    fn default() -> Self {
        Self(array::from_fn(|_| OnceLock::new()))
    }
}

impl<T: Default> Sharded<T> {
    /// Returns the part that a session adds to.
    #[inline]
    pub(crate) fn of(&self, session: u64) -> &T {
        self.0[session as usize % SHARDS].get_or_init(Box::default)
    }
}

impl<T> Sharded<T> {
    /// Returns the parts that have been used.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &T> {
        self.0.iter().filter_map(OnceLock::get).map(Box::as_ref)
    }
}

impl Sharded<LatencyRecorder> {
    /// Returns what all sessions have counted.
    pub(crate) fn read(&self) -> Latencies {
        let mut all = Latencies::default();
        self.parts().for_each(|part| all.merge(&part.read()));
        all
    }
}

/// Adds to a counter.
#[inline]
pub(crate) fn add(counter: &AtomicU64, count: u64) {
    // Relaxed: statistics.
    counter.fetch_add(count, Ordering::Relaxed);
}

macro_rules! counters {
    ($(#[$about:meta])* $name:ident, $read:ident { $($(#[$doc:meta])* $field:ident,)* }) => {
        $(#[$about])*
        #[derive(Default)]
        #[repr(align(64))]
        pub(crate) struct $name {
            $($(#[$doc])* pub(crate) $field: AtomicU64,)*
        }

        /// The sums of all parts.
        #[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
        pub(crate) struct $read {
            $(pub(crate) $field: u64,)*
        }

        impl Sharded<$name> {
            /// Returns what all sessions have counted.
            pub(crate) fn read(&self) -> $read {
                let mut all = $read::default();
                for part in self.parts() {
                    $(all.$field = all.$field.wrapping_add(part.$field.load(Ordering::Relaxed));)*
                }
                all
            }

            /// Sets all counters to zero; what is counted meanwhile may be lost.
            #[allow(dead_code, reason = "some counters are only read")]
            pub(crate) fn reset(&self) {
                for part in self.parts() {
                    $(part.$field.store(0, Ordering::Relaxed);)*
                }
            }
        }
    };
}
pub(super) use counters;

counters! {
    /// Uses of a table, also by transactions that did not commit.
    TableUse, TableUses {
        /// Scans of the whole table, or of a range of its primary key.
        scans,
        /// Rows that they have read.
        scanned,
        /// Lookups and ranges of an index, or lookups of a primary key.
        lookups,
        /// Rows that they have found.
        found,
        inserted,
        updated,
        deleted,
    }
}

counters! {
    /// Transactions of sessions.
    Ends, EndCounts {
        commits,
        rollbacks,
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn no_count_is_lost_between_sessions() {
        let uses = Sharded::<TableUse>::default();
        thread::scope(|scope| {
            for session in 0..3 * SHARDS as u64 {
                let uses = &uses;
                scope.spawn(move || (0..1000).for_each(|_| add(&uses.of(session).inserted, 1)));
            }
        });
        assert_eq!(uses.parts().count(), SHARDS);
        assert_eq!(uses.read(), TableUses { inserted: 3 * SHARDS as u64 * 1000, ..TableUses::default() });
        uses.reset();
        assert_eq!(uses.read(), TableUses::default());
    }
}

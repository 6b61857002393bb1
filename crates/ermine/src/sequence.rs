//! Surrogate keys that do not queue up at one end of an index (HTM paper, V.B and figure 10).
//!
//! Ascending numbers put all concurrent inserts into the same leaf. A sequence is therefore cut into chunks of equal
//! size, and threads draw from different chunks: their inserts go to different places. Numbers are unique, and ascend
//! for each thread within a chunk, not among threads. A chunk that is used up is replaced by the next free one.
//!
//! In a database that is kept in files, a row of a table records the end of the numbers that were reserved. It is
//! written well ahead, so that few numbers wait for the device; numbers that were not used before a crash are skipped.

use std::sync::Arc;

use crate::{
    database::Database,
    error::{Error, Result},
    handle::Table,
    options::TxnOptions,
    sync::{Mutex, home_of_thread},
};

/// A source of unique numbers for surrogate keys; see [`Database::sequence`].
pub struct Sequence {
    name: Arc<str>,
    table: Table<String, u64>,
    chunk: u64,
    zones: Box<[Zone]>,
    /// Numbers that are reserved in the table and belong to no zone.
    reserve: Mutex<Reserve>,
}

/// The numbers of one group of threads, on a cache line of its own.
#[repr(align(128))]
struct Zone(Mutex<Reserve>);

/// Numbers from `next` to before `end`.
#[derive(Clone, Copy, Default)]
struct Reserve {
    next: u64,
    end: u64,
}

impl Reserve {
    /// Cuts `count` numbers off the front; returns `None` when fewer are left.
    fn cut(&mut self, count: u64) -> Option<Self> {
        let end = self.next.checked_add(count).filter(|&end| end <= self.end)?;
        Some(Self { next: std::mem::replace(&mut self.next, end), end })
    }
}

impl Sequence {
    /// Chunks that are reserved at a time.
    const CHUNKS_AHEAD: u64 = 64;

    /// Creates twice as many zones as threads run at the same time, so that two threads seldom share one (HTM paper,
    /// V.A).
    pub(crate) fn new(name: &str, table: Table<String, u64>, chunk: u64) -> Result<Self> {
        if chunk == 0 || chunk > 1 << 32 {
            return Err(Error::Options(format!("a sequence with chunks of {chunk} numbers: use 1 to 4294967296")));
        }
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let zones = (0..2 * threads).map(|_| Zone(Mutex::new(Reserve::default()))).collect();
        Ok(Self { name: name.into(), table, chunk, zones, reserve: Mutex::new(Reserve::default()) })
    }

    /// Returns a number that has not been returned before and will not be again; the first is 1. Numbers of
    /// transactions that abort are lost; so are up to a chunk per zone, and some reserved chunks, when the database is
    /// closed.
    ///
    /// Now and then this runs a short transaction of its own. That works inside another transaction, unless that one
    /// excludes all others (`serial`, `vll`, `partitioned`). There it fails after [`crate::Options::wait_max`] with
    /// [`Error::Nested`] inside [`Database::run`]; beside a transaction that this thread has begun by
    /// [`Database::begin`], with [`crate::AbortKind::Timeout`], after up to a hundred times that.
    pub fn next(&self, database: &Database) -> Result<u64> {
        self.table.id_in(database.identity().address())?;
        let mut zone = self.zones[home_of_thread() % self.zones.len()].0.lock().unwrap_or_else(|e| e.into_inner());
        if zone.next == zone.end {
            *zone = self.next_chunk(database)?;
        }
        zone.next += 1;
        Ok(zone.next - 1)
    }

    #[cold]
    fn next_chunk(&self, database: &Database) -> Result<Reserve> {
        let mut reserve = self.reserve.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(chunk) = reserve.cut(self.chunk) {
            return Ok(chunk);
        }
        // Begun directly, not by `run`: so a wait for a transaction of the same thread ends.
        let mut failure = None;
        for _ in 0..100 {
            match self.write_ahead(database) {
                Ok(written) => {
                    *reserve = written;
                    return reserve.cut(self.chunk).ok_or(Error::Limit("numbers of a sequence"));
                }
                Err(error) if error.as_abort().is_some() && database.waits_for_itself() => {
                    return Err(Error::Nested(
                        "a sequence had to reserve numbers inside of a transaction that excludes all others: draw \
                         the number before the transaction begins",
                    ));
                }
                Err(error) if error.as_abort().is_some() => failure = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(failure.expect("it has failed a hundred times"))
    }

    /// Reserves more numbers, and records that in the table.
    fn write_ahead(&self, database: &Database) -> Result<Reserve> {
        let txn = database.begin(TxnOptions::default())?;
        let next = txn.get(&self.table, &*self.name)?.unwrap_or(1);
        let end = next.checked_add(self.chunk * Self::CHUNKS_AHEAD).ok_or(Error::Limit("numbers of a sequence"))?;
        txn.put(&self.table, &*self.name, &end)?;
        txn.commit()?;
        Ok(Reserve { next, end })
    }
}

#[cfg(all(test, not(any(loom, shuttle, miri))))]
mod tests {
    use std::{collections::HashSet, thread};

    use super::*;
    use crate::options::{Options, Scheme};

    #[test]
    fn numbers_are_unique_among_threads_and_lives() {
        let path = std::env::temp_dir().join(format!("ermine-sequence-{}", std::process::id()));
        let mut all = HashSet::new();
        for _ in 0..3 {
            let database = Database::open(&path, Options::default()).unwrap();
            let (one, two) = (database.sequence("orders", 10).unwrap(), database.sequence("others", 10).unwrap());
            let draw = || (0..1000).map(|_| one.next(&database).unwrap()).collect::<Vec<_>>();
            let drawn: Vec<_> = thread::scope(|scope| {
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(draw)).collect();
                threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
            });
            assert!(drawn.into_iter().all(|number| number > 0 && all.insert(number)), "a number came twice");
            assert!(two.next(&database).unwrap() > 0);
        }
        assert!(all.iter().max().unwrap() < &40_000, "most numbers are given out");
        std::fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn a_thread_ascends_within_a_chunk_and_zones_are_apart() {
        let database = Database::open_in_memory(Options::default().scheme(Scheme::Silo)).unwrap();
        let sequence = database.sequence("orders", 100).unwrap();
        let numbers: Vec<_> = (0..150).map(|_| sequence.next(&database).unwrap()).collect();
        assert!(numbers[..100].is_sorted() && numbers[100..].is_sorted());
        assert!(database.sequence("none", 0).is_err());
    }

    #[test]
    fn drawing_inside_a_transaction_that_has_everything_fails_in_bounded_time() {
        let options = Options::default().scheme(Scheme::Serial).wait_max(std::time::Duration::ZERO);
        let database = Database::open_in_memory(options).unwrap();
        let sequence = database.sequence("orders", 100).unwrap();
        let txn = database.begin(TxnOptions::default()).unwrap();
        assert!(sequence.next(&database).unwrap_err().as_abort().is_some());
        drop(txn);
        let drawn = database.run(|_| sequence.next(&database));
        assert!(matches!(drawn, Err(Error::Nested(_))), "{drawn:?}");
        assert_eq!(sequence.next(&database).unwrap(), 1);
    }
}

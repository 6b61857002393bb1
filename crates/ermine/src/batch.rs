//! Batches of independent transactions, whose waits for memory overlap.
//!
//! A short transaction on data that are not in the processor's caches spends most of its time on a few loads that
//! depend on one another: the leaf of the index, the row's slot, its newest version. Those of one transaction cannot
//! overlap; those of several can. So a batch looks up the rows that its next jobs read first, side by side
//! ([`Transaction::prefetch`]), and then runs the jobs one after another: each finds its rows in the caches, and the
//! device is reading those that are only in files. (CoroBase interleaves the transactions themselves. Here a job is a
//! plain closure, none of them holds anything while another one runs, and a lookup is done twice instead.)

use std::time::Duration;

use smallvec::SmallVec;

use crate::{
    database::Database,
    error::{Error, Result},
    handle::Table,
    ids::TableId,
    options::TxnOptions,
    sync::Instant,
    table::SIDE_BY_SIDE,
    transaction::Transaction,
    types::{AsKey, Key, KeyList, Value},
};

/// Decides, by trying both, whether it pays to load the rows of a group beforehand: not where they are in the caches.
struct Trial {
    group: usize,
    /// The shortest time of a group whose rows were loaded beforehand, and of one without.
    fastest: [Duration; 2],
    /// When the group that is timed began, and how it is run.
    timed: Option<(Instant, usize)>,
}

impl Trial {
    /// Groups that are timed, in each round.
    const TIMED: usize = 4;
    const ROUND: usize = 128;

    fn new() -> Self {
        Self { group: 0, fastest: [Duration::MAX; 2], timed: None }
    }

    /// Begins a group; returns whether its rows are to be loaded beforehand. The first group's are.
    fn begin(&mut self) -> bool {
        let place = self.group % Self::ROUND;
        self.group += 1;
        if place == 0 {
            self.fastest = [Duration::MAX; 2];
        }
        self.timed = (place < Self::TIMED).then(|| (Instant::now(), place % 2));
        self.timed.map_or(self.fastest[0] <= self.fastest[1], |(_, how)| how == 0)
    }

    fn end(&mut self) {
        if let Some((begun, how)) = self.timed {
            self.fastest[how] = self.fastest[how].min(begun.elapsed());
        }
    }
}

/// The rows that some jobs of a batch read first: see [`Database::run_many`].
pub struct FirstReads {
    database: usize,
    tables: SmallVec<[(TableId, KeyList); 2]>,
}

impl FirstReads {
    /// Adds the row of `table` under `key`, which need not exist.
    #[inline]
    pub fn row<K: Key, V: Value>(&mut self, table: &Table<K, V>, key: &(impl AsKey<K> + ?Sized)) {
        // A table of another database: the job's own access reports it.
        let Ok(id) = table.id_in(self.database) else { return };
        let at = self.tables.iter().position(|(table, _)| *table == id).unwrap_or_else(|| {
            self.tables.push((id, KeyList::default()));
            self.tables.len() - 1
        });
        self.tables[at].1.push(key);
    }
}

impl Database {
    /// Runs a transaction for each job and returns their results, in the order of the jobs.
    ///
    /// The transactions are independent of one another: each is run as by [`Database::run`], commits or fails alone,
    /// and sees those before it. `first_reads` names rows that a job will read or write; they are loaded from memory
    /// for several jobs at once, so that a job does not wait for them. It is a hint that changes no result: rows that
    /// it does not name are read as usual. In a long batch it is left out where it does not pay, because the rows are in
    /// the processor's caches anyway.
    ///
    /// Where commits are durable, the call waits for the device once, at its end.
    ///
    /// ```
    /// # use ermine::{Database, Options};
    /// # let db = Database::open_in_memory(Options::default())?;
    /// let balances = db.table::<u64, i64>("balances")?;
    /// let deposits = [(1, 50), (2, 20), (1, 30)];
    /// let results: Vec<ermine::Result<i64>> = db.run_many(
    ///     deposits,
    ///     |(account, _), rows| rows.row(&balances, account),
    ///     |txn, (account, amount)| {
    ///         let balance = txn.get(&balances, account)?.unwrap_or(0) + amount;
    ///         txn.put(&balances, account, &balance)?;
    ///         Ok(balance)
    ///     },
    /// );
    /// assert_eq!(results.into_iter().collect::<ermine::Result<Vec<_>>>()?, [50, 20, 80]);
    /// # Ok::<_, ermine::Error>(())
    /// ```
    pub fn run_many<'db, J, T, E: From<Error>>(
        &'db self,
        jobs: impl IntoIterator<Item = J>,
        first_reads: impl Fn(&J, &mut FirstReads),
        mut body: impl FnMut(&Transaction<'db>, &J) -> Result<T, E>,
    ) -> Vec<Result<T, E>> {
        let mut jobs = jobs.into_iter();
        let (mut ended, mut trial) = (Vec::with_capacity(jobs.size_hint().0), Trial::new());
        loop {
            let group: SmallVec<[J; SIDE_BY_SIDE]> = jobs.by_ref().take(SIDE_BY_SIDE).collect();
            if group.is_empty() {
                break;
            }
            if trial.begin() {
                let mut reads = FirstReads { database: self.identity().address(), tables: SmallVec::new() };
                group.iter().for_each(|job| first_reads(job, &mut reads));
                reads.tables.iter().for_each(|(table, keys)| self.prefetch_rows(*table, keys));
            }
            ended.extend(group.iter().map(|job| self.run_body(TxnOptions::default(), |txn| body(txn, job))));
            trial.end();
        }
        ended.into_iter().map(|ended| self.settle(None, ended?)).collect()
    }
}

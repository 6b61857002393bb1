//! The retry loop for callers that begin their transactions themselves, such as statements of SQL.

use crate::{any::with_engine, begin::Begins, database::Database, gate::Pass, ids::Tid, run::Attempts};

/// The attempts of a transaction that its caller begins: [`Database::retries`].
pub struct Retries<'db> {
    database: &'db Database,
    attempts: Attempts,
}

/// The turn of an attempt. If the attempt runs alone, other transactions that are retried are held back until this is
/// dropped.
#[must_use = "an attempt runs alone only while its turn exists"]
pub struct Turn<'db>(#[expect(dead_code, reason = "held for its drop")] Option<Pass<'db>>);

impl Database {
    /// Returns what [`Database::run`] does between attempts, for a caller that cannot use it because its transactions
    /// are stored in a structure ([`Database::begin_owned`]) or are shown to a client while they run.
    ///
    /// ```
    /// # use ermine::{Database, Error, Options, TxnOptions};
    /// # let db = Database::open_in_memory(Options::default())?;
    /// let accounts = db.table::<u64, i64>("accounts")?;
    /// let mut retries = db.retries();
    /// loop {
    ///     let turn = retries.turn();
    ///     let txn = db.begin(TxnOptions::default())?;
    ///     let done = txn.put(&accounts, &7, &100).and_then(|()| txn.commit());
    ///     drop(turn);
    ///     match done {
    ///         Err(Error::Abort(abort)) if retries.lost(abort.other) => {}
    ///         done => break done?,
    ///     }
    /// };
    /// # Ok::<_, ermine::Error>(())
    /// ```
    pub fn retries(&self) -> Retries<'_> {
        Retries { database: self, attempts: Attempts::default() }
    }

    /// Whether the transaction with this number ([`crate::Abort::other`]) has not ended yet. A number is used again
    /// after many other transactions.
    pub fn is_in_flight(&self, tid: Tid) -> bool {
        with_engine!(&*self.engine, engine => Begins::is_in_flight(engine, tid))
    }
}

impl<'db> Retries<'db> {
    /// Waits, before the next attempt begins, while another transaction runs alone, for at most
    /// [`crate::Options::wait_max`]. The 13th attempt itself runs alone, as do the 14th, 16th, 20th and so on: no
    /// transaction that [`Database::run`] runs, or that waits for its turn here, begins before the turn is dropped. An
    /// attempt must not call [`Database::run`].
    pub fn turn(&self) -> Turn<'db> {
        with_engine!(&*self.database.engine, engine => Turn(self.attempts.turn(engine)))
    }

    /// Counts an attempt that has lost, to the transaction `other` where that is known, and waits before the next one:
    /// until that transaction has ended, but not for long; then the longer the more attempts were lost, at most 32 ms.
    /// The turn of the attempt has to be dropped before. Returns false, without waiting, where [`Database::run`] would
    /// give up: after [`crate::Options::attempts_max`] attempts, or after [`crate::Options::run_max`].
    pub fn lost(&mut self, other: Option<Tid>) -> bool {
        self.attempts.count();
        with_engine!(&*self.database.engine, engine => {
            let goes_on = !self.attempts.is_limit_reached(engine);
            if goes_on {
                self.attempts.pause(engine, other);
            }
            goes_on
        })
    }
}

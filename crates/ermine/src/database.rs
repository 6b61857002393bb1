//! Opens a database and owns every part of it.

use std::{any::TypeId, sync::Arc, time::Duration};

use crate::{
    access::sealed::Attempt,
    any::{AnyAccess, AnyEngine, with_engine},
    error::{AbortKind, Error, Result},
    handle::{SecondaryIndex, Table},
    ids::Stamp,
    index::Index,
    job::Job,
    maintenance::Helper,
    options::{Options, Scheme, TxnOptions},
    table::Secondary,
    transaction::Transaction,
    types::{Key, Value},
};

/// A database in memory. Share it by reference or in an [`Arc`]; it is gone when dropped.
pub struct Database {
    engine: Arc<AnyEngine>,
    helper: Option<Helper>,
}

/// Whether two rows may share a key of a secondary index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uniqueness {
    /// At most one row a key.
    Unique,
    /// Any number of rows a key.
    NonUnique,
}

/// Counts since the database was opened, and what it holds now.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Statistics {
    /// Committed transactions.
    pub commits: u64,
    /// Aborted attempts, in the order of [`crate::AbortKind::ALL`].
    pub aborts: [u64; AbortKind::ALL.len()],
    /// Bytes taken for versions, in use or free for new ones.
    pub version_bytes: u64,
    /// Bytes of indirection arrays in use.
    pub row_bytes: u64,
    /// Rows whose superseded versions have not been freed yet, as of each worker's last housekeeping.
    pub garbage_versions: u64,
    /// How old the newest safe snapshot is, where one has been taken.
    pub snapshot_age: Option<Duration>,
}

impl Database {
    /// Opens an empty database in memory.
    pub fn open_in_memory(options: Options) -> Result<Self> {
        let engine = Arc::new(AnyEngine::open(&options));
        let helper = Helper::start(engine.clone())?;
        Ok(Self { engine, helper: Some(helper) })
    }

    /// The scheme it was opened with.
    pub fn scheme(&self) -> Scheme {
        self.engine.scheme()
    }

    /// The table of that name, created when absent; [`Error::Schema`] when it exists with other types.
    pub fn table<K: Key, V: Value>(&self, name: &str) -> Result<Table<K, V>> {
        let types = [TypeId::of::<K>(), TypeId::of::<V>()];
        let (id, name) = with_engine!(&*self.engine, engine => engine.open_table(name, types))?;
        Ok(Table::new(id, name))
    }

    /// The secondary index of that name, created when absent; the table must never have had rows then.
    ///
    /// `key_of` gives a row's key in the index; it must depend on nothing but its arguments.
    pub fn index<S: Key, K: Key, V: Value>(
        &self,
        table: &Table<K, V>,
        name: &str,
        uniqueness: Uniqueness,
        key_of: impl for<'a> Fn(&K, V::View<'a>) -> S + Send + Sync + 'static,
    ) -> Result<SecondaryIndex<S, K, V>> {
        let secondary = Secondary {
            name: name.into(),
            uniqueness,
            entries: Index::new(),
            extract: Box::new(move |mut key, value, out| {
                key_of(&K::decode(&mut key)?, V::view(value)?).encode(out);
                Ok(())
            }),
            secondary_length: |entry| {
                let mut rest = entry;
                S::skip(&mut rest)?;
                Ok(entry.len() - rest.len())
            },
            key_type: TypeId::of::<S>(),
        };
        let ordinal = with_engine!(&*self.engine, engine => engine.open_index(table.id(), secondary))?;
        Ok(SecondaryIndex::new(table.clone(), ordinal))
    }

    /// Begins a transaction that ends with [`Transaction::commit`], or is rolled back when dropped.
    ///
    /// It may stay open between operations for long; [`Database::run`] suits transactions that run through.
    pub fn begin(&self, options: TxnOptions) -> Result<Transaction<'_>> {
        Ok(Transaction::new(self.engine.begin(options)?))
    }

    /// Begins a transaction that reads a safe snapshot: it sees what had been committed, is tracked nowhere and never loses
    /// a conflict, however long it reads (SSN 5.2). See [`Options::snapshot_interval`] for how fresh it is.
    ///
    /// ```
    /// # use ermine::{Database, Options};
    /// # let db = Database::open_in_memory(Options::default())?;
    /// # let accounts = db.table::<u64, i64>("accounts")?;
    /// let report = db.snapshot()?;
    /// let total: i64 = report.scan(&accounts, ..).collect()?.iter().map(|(_, balance)| balance).sum();
    /// # assert_eq!(total, 0);
    /// # Ok::<_, ermine::Error>(())
    /// ```
    pub fn snapshot(&self) -> Result<Transaction<'_>> {
        self.begin(TxnOptions::snapshot())
    }

    /// Runs a transaction until it commits or fails for good.
    ///
    /// When it loses a conflict it is run again from the beginning with a new snapshot; a transaction that has lost many
    /// times runs alone, so that it gets through. An error that `body` returns for any other reason rolls it back and is
    /// handed on. `body` must not keep anything of a failed attempt.
    pub fn run<'db, T, E: From<Error>>(&'db self, body: impl FnMut(&Transaction<'db>) -> Result<T, E>) -> Result<T, E> {
        self.engine.run(body)
    }

    /// As [`Database::run`] for a [`Job`], which is compiled for each scheme.
    pub fn run_job<J: Job>(&self, job: &mut J) -> Result<J::Output, J::Error> {
        self.engine.run_job(job, true)
    }

    /// One attempt of a job: a lost conflict comes back as [`Error::Abort`].
    pub fn try_job<J: Job>(&self, job: &mut J) -> Result<J::Output, J::Error> {
        self.engine.run_job(job, false)
    }

    /// Counts and sizes.
    pub fn statistics(&self) -> Statistics {
        with_engine!(&*self.engine, engine => engine.statistics())
    }

    /// Who keeps garbage from being freed, one line each: transactions, or operations of them, that have been open for a
    /// whole epoch. An open transaction is no fault; one that stays in this list for long was perhaps forgotten.
    pub fn stragglers(&self) -> Vec<String> {
        with_engine!(&*self.engine, engine => engine.stragglers())
    }

    /// One round of the background helper; says whether garbage is left. For the schedule explorer, which runs no helper.
    #[cfg(shuttle)]
    #[doc(hidden)]
    pub fn maintain(&self) -> bool {
        with_engine!(&*self.engine, engine => engine.maintain())
    }

    /// Bytes of all indexes. Takes time: it walks over them.
    pub fn index_bytes(&self) -> u64 {
        with_engine!(&*self.engine, engine => engine.index_bytes())
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if let Some(helper) = self.helper.take() {
            helper.stop();
        }
    }
}

impl<'db> Transaction<'db, AnyAccess<'db>> {
    /// Commits; an [`Error::Abort`] means that nothing of it happened. Gives its place in the order of commits.
    pub fn commit(self) -> Result<Stamp> {
        self.into_access().commit()
    }

    /// Rolls back, as dropping does.
    pub fn rollback(self) {}
}

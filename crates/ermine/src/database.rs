//! Opens a database and owns every part of it.

use std::{
    any::TypeId,
    io,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use crate::{
    access::sealed::Attempt,
    any::{AnyAccess, AnyEngine, Body, with_engine},
    catalog::{IndexEntry, SEQUENCES_NAME, TableEntry},
    durable::{
        backup::BackupReport,
        checkpoint::{CheckpointReport, Pace},
        copy::Progress,
        is_of_database,
        parallel::files::readable_under,
        recovery::Recovery,
        shipping::{changes::ChangeReader, reader::LogReader, receiver::STANDBY},
        store::storage,
    },
    error::{Abort, Error, Result},
    handle::{SecondaryIndex, Table},
    ids::{DatabaseId, IndexOrdinal, Stamp, TableId},
    index::IndexKind,
    inside,
    job::Job,
    log::Receipt,
    maintenance::Helpers,
    options::{Durability, IndexOptions, Options, Order, Replayed, Scheme, TableOptions, TxnOptions, Uniqueness},
    platform::{
        budget::Budget,
        file::{
            Directory,
            overlay::OverlayDirectory,
            real::{Lock, RealDirectory},
        },
    },
    schema::Schema as _,
    sequence::Sequence,
    statistics::Statistics,
    table::KeyOf,
    tables::{OpenTable, TableTypes},
    transaction::Transaction,
    types::{Key, KeyList, Value, type_name},
};

/// Why no checkpoint is made.
const CHECKPOINT_INSIDE: &str = "a checkpoint or backup was requested inside of a transaction that Database::run runs, \
                                 for which it would wait: make it outside";

/// A database: in memory, and also in a directory if it was opened in one. Share it by reference or in an [`Arc`].
/// Dropping it makes everything durable and closes it.
pub struct Database {
    pub(crate) engine: Arc<AnyEngine>,
    durability: Durability,
    order: Order,
    recovery: Recovery,
    /// `None`: it is in memory, or not in a directory of the system.
    path: Option<PathBuf>,
    helpers: Option<Helpers>,
    /// Declared last: the directory is unlocked after everything else has ended.
    lock: Option<Lock>,
}

/// A table, as [`Database::tables`] describes it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TableDescription {
    /// The table's number, which no other table ever gets.
    pub id: TableId,
    /// The table's name.
    pub name: String,
    /// The type of the table's keys.
    pub key_type: String,
    /// The type of the table's values.
    pub value_type: String,
    /// The known layouts of the values' bytes, for each version of the type that may be in the table; empty in a table
    /// of an earlier release until a program opens it. Types without versions have one layout, numbered 0.
    pub layouts: Vec<(u8, String)>,
    /// The kind of the primary index.
    pub index: IndexKind,
    /// The secondary indexes, in order of creation.
    pub indexes: Vec<IndexDescription>,
}

/// A secondary index, as [`Database::tables`] describes it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct IndexDescription {
    /// The index's name.
    pub name: String,
    /// The type of the index's keys.
    pub key_type: String,
    /// The options that the index was created with.
    pub options: IndexOptions,
}

impl From<TableEntry> for TableDescription {
    fn from(entry: TableEntry) -> Self {
        let TableEntry { id, name, key_type, value_type, layouts, kind, indexes, .. } = entry;
        let describe = |IndexEntry { name, uniqueness, key_type, version, kind, .. }| {
            let options = IndexOptions::new(uniqueness).kind(kind).version(version);
            IndexDescription { name, key_type, options }
        };
        let indexes = indexes.into_iter().map(describe).collect();
        Self { id, name, key_type, value_type, layouts: layouts.known().to_vec(), index: kind, indexes }
    }
}

impl Database {
    /// Opens the database in the directory `path`, which is created if it does not exist ([`Options::create`]). Created
    /// files and directories are accessible to their owner alone (modes 0700 and 0600).
    ///
    /// The state that an earlier process left is recovered first, however that process ended ([`Database::recovery`]
    /// reports what was found). Progress and a summary go to the application's logger, where it has one for the `log`
    /// crate, as do failures in the background. Only one process can have a database open at a time.
    ///
    /// ```
    /// # use ermine::{Database, Options};
    /// # let path = std::env::temp_dir().join(format!("ermine-doc-{}", std::process::id()));
    /// let db = Database::open(&path, Options::default())?;
    /// let accounts = db.table::<u64, i64>("accounts")?;
    /// db.run(|txn| txn.put(&accounts, &7, &100))?; // on the device when this returns
    /// drop(db);
    ///
    /// let db = Database::open(&path, Options::default())?;
    /// let accounts = db.table::<u64, i64>("accounts")?;
    /// assert_eq!(db.run(|txn| txn.get(&accounts, &7))?, Some(100));
    /// # drop(db);
    /// # std::fs::remove_dir_all(&path).unwrap();
    /// # Ok::<_, ermine::Error>(())
    /// ```
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        let path = path.as_ref();
        if !options.create && !Self::exists(path) {
            return Err(Error::Storage(format!(
                "there is no database in {}: check the path, or make one (`Options::create`)",
                path.display()
            )));
        }
        let directory = RealDirectory::create(path).map_err(storage)?;
        if let Some(mode) = directory.open_to_others() {
            ::log::warn!("others than its owner have access to {} (mode {mode:o}): `chmod 700` it", path.display());
        }
        let lock = directory.lock().map_err(storage)?;
        let mut database = Self::open_in(Arc::new(directory), options)?;
        database.lock = Some(lock);
        Ok(database)
    }

    /// Returns whether there is a database in the directory `path`.
    pub fn exists(path: impl AsRef<Path>) -> bool {
        let names = RealDirectory::open(path).and_then(|directory| directory.list());
        names.is_ok_and(|names| names.iter().any(|name| is_of_database(name)))
    }

    /// Opens a database for inspection, without changing anything in its directory: writes stay in memory, and are lost
    /// when the database is dropped. No other program can have it open meanwhile. If the scheme of the options cannot
    /// read the rows, it is opened under one that can.
    pub fn open_to_look(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        let open = |path: &Path| RealDirectory::open(path).map_err(storage);
        let overlay = |directory| Arc::new(OverlayDirectory::new(Arc::new(directory))) as Arc<dyn Directory>;
        let directory = open(path.as_ref())?;
        let lock = directory.lock_to_look().map_err(storage)?;
        let mut options = options.durability(Durability::None);
        options.scheme = readable_under(&directory.list().map_err(storage)?, options.scheme);
        (options.archive, options.archive_in) = (None, None);
        let devices = std::mem::take(&mut options.log_directories);
        for path in &devices {
            options.log_directories_in.push(overlay(open(path)?));
        }
        let mut database = Self::open_in(overlay(directory), options)?;
        database.lock = lock;
        Ok(database)
    }

    /// Works as [`Database::open`] for any implementation of a directory, which has no other user meanwhile.
    #[doc(hidden)]
    pub fn open_in(directory: Arc<dyn Directory>, options: Options) -> Result<Self> {
        options.check()?;
        let (engine, recovery) = AnyEngine::open(&options.fitted(), &directory)?;
        let engine = Arc::new(engine);
        if let Some(seed) = options.memory_faults {
            with_engine!(&*engine, engine => engine.budget.fail(seed));
        }
        let helpers = Helpers::start(&engine)?;
        let Options { durability, order, .. } = options;
        let path = directory.location().map(Path::to_path_buf);
        Ok(Self { engine, durability, order, recovery, path, helpers: Some(helpers), lock: None })
    }

    /// Opens the image of a standby, without changing anything in its directory ([`crate::HotStandby`]).
    pub(crate) fn open_image(
        directory: &Arc<dyn Directory>,
        options: Options,
        replayed: Arc<Replayed>,
    ) -> Result<Self> {
        let directory = OverlayDirectory::new(directory.clone());
        directory.remove(STANDBY).map_err(storage)?;
        let replayed = Some(replayed);
        let image = Options { scheme: Scheme::Si, replayed, archive: None, archive_in: None, ..options };
        Self::open_in(Arc::new(directory), image.durability(Durability::None))
    }

    /// Returns the directory in which the database was opened; `None`: it is in memory, or a standby's image.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Returns whether the database is the image of a standby ([`crate::HotStandby`]), where all transactions are
    /// read-only.
    pub fn is_standby(&self) -> bool {
        with_engine!(&*self.engine, engine => engine.options.is_standby())
    }

    /// Returns the position of the original's log up to which the standby has replayed it: a transaction that begins
    /// now sees all that committed below. `None`: the database is no standby.
    pub fn replayed(&self) -> Option<u64> {
        let replayed = with_engine!(&*self.engine, engine => engine.options.replayed.as_ref())?;
        // Acquire: pairs with the release of `HotStandby`.
        Some(replayed.to.load(Ordering::Acquire))
    }

    /// Returns a position of the original's log above which a standby shows nothing to a transaction that has begun.
    #[doc(hidden)]
    pub fn shown_below(&self) -> Option<u64> {
        let replayed = with_engine!(&*self.engine, engine => engine.options.replayed.as_ref())?;
        // Acquire: pairs with the releases of `HotStandby`.
        Some(replayed.to.load(Ordering::Acquire).max(replayed.begun_to.load(Ordering::Acquire)))
    }

    /// Returns the position of the original's log up to which the standby's newest safe snapshot shows it
    /// ([`TxnOptions::snapshot`]): all that committed below, and nothing that committed behind it. `None`: the standby
    /// has none, or the database is none. A snapshot is given up when the original has marked none for a second of its
    /// log.
    pub fn safe_replayed(&self) -> Option<u64> {
        with_engine!(&*self.engine, engine => engine.safe_replayed())
    }

    /// Returns how often a standby was asked for its safe snapshot, by [`Database::snapshot`] and
    /// [`Database::safe_replayed`]: an original that marks none, because nothing was asked for, had better begin to.
    pub fn safe_snapshots_asked(&self) -> u64 {
        with_engine!(&*self.engine, engine => engine.safe_snapshots_asked())
    }

    /// Hands a standby's safe snapshot out no more; transactions get the next one. For layers that keep something of
    /// their own, which has changed.
    #[doc(hidden)]
    pub fn forget_safe_snapshot(&self) {
        with_engine!(&*self.engine, engine => engine.forget_safe_snapshot());
    }

    /// Returns why no transaction can commit any more, if that is so: [`Error::Poisoned`]. Readers go on, but a program
    /// that serves clients had best end, and open the database again.
    pub fn failure(&self) -> Option<Error> {
        with_engine!(&*self.engine, engine => engine.failure())
    }

    /// Returns what recovery found when the database was opened, and how long it took.
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// Opens an empty database in memory.
    pub fn open_in_memory(options: Options) -> Result<Self> {
        options.check()?;
        let engine = Arc::new(AnyEngine::in_memory(&options.fitted()));
        let helpers = Helpers::start(&engine)?;
        let recovery = Recovery::default();
        let Options { durability, order, .. } = options;
        Ok(Self { engine, durability, order, recovery, path: None, helpers: Some(helpers), lock: None })
    }

    /// Returns the identity that the handles of this database's tables are compared with.
    pub(crate) fn identity(&self) -> &DatabaseId {
        with_engine!(&*self.engine, engine => engine.database())
    }

    /// Returns whether this thread runs a transaction of this database that excludes all others by default.
    pub(crate) fn waits_for_itself(&self) -> bool {
        matches!(self.scheme(), Scheme::Serial | Scheme::Vll | Scheme::Partitioned)
            && with_engine!(&*self.engine, engine => inside::is_running(engine))
    }

    /// Returns the scheme that the database was opened with.
    pub fn scheme(&self) -> Scheme {
        self.engine.scheme()
    }

    /// Whether the log has the keys of updated and deleted rows ([`Options::log_keys`]), so that [`Database::changes`]
    /// can be read.
    pub fn logs_keys(&self) -> bool {
        with_engine!(&*self.engine, engine => engine.options.log_keys)
    }

    /// Returns the order of transactions that the database was opened with.
    pub fn order(&self) -> Order {
        self.order
    }

    /// Returns when commits are acknowledged, unless the transaction says otherwise.
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// Opens the table of that name, and creates it when absent; [`Error::Schema`] when it exists with other types.
    pub fn table<K: Key, V: Value>(&self, name: &str) -> Result<Table<K, V>> {
        self.table_with(name, TableOptions::default())
    }

    /// Opens the table of that name, and creates it with these options when absent; [`Error::Schema`] when it exists
    /// with other options or other types.
    ///
    /// ```
    /// # use ermine::{Database, IndexKind, Options, TableOptions};
    /// # let db = Database::open_in_memory(Options::default())?;
    /// let sessions = db.table_with::<u64, String>("sessions", TableOptions::default().index(IndexKind::Hash))?;
    /// db.run(|txn| txn.put(&sessions, &7, "ada"))?;
    /// assert!(db.run(|txn| txn.scan(&sessions, ..).collect()).is_err(), "a hash index has no order");
    /// # Ok::<_, ermine::Error>(())
    /// ```
    pub fn table_with<K: Key, V: Value>(&self, name: &str, options: TableOptions) -> Result<Table<K, V>> {
        let types = TableTypes::of::<K, V>();
        let OpenTable { id, name, framing } = self.open_table(name, &types, &options)?;
        Ok(Table::new(id, framing, self.identity().clone(), name))
    }

    /// Opens the secondary index of that name, and builds it when absent: over all rows of the table, while
    /// transactions read and write it. When the call returns, the index is durable.
    ///
    /// The build is no part of a transaction, and fails inside of one that [`Database::run`] runs ([`Error::Nested`]).
    /// Under schemes with versions it waits for transactions that had written rows of the table when it began, each for
    /// at most [`IndexOptions::wait_max`]; under others, such transactions lose a conflict when they commit. Snapshots
    /// that were taken before the end do not use the index ([`Error::Schema`]). [`Error::KeyExists`] when two rows have
    /// one key in a unique index; while such an index is being built, it already refuses keys. A build that fails
    /// leaves nothing. After a crash the index is there as a whole or not at all.
    ///
    /// ```
    /// # use ermine::{Database, Options, Uniqueness};
    /// # let db = Database::open_in_memory(Options::default())?;
    /// let users = db.table::<u64, String>("users")?;
    /// db.run(|txn| txn.put(&users, &7, "Ann"))?;
    /// let by_name = db.index(&users, "by name", Uniqueness::NonUnique, |_, name| name.to_owned())?;
    /// let found = db.run(|txn| txn.scan_by(&by_name, "Ann".to_owned()..).collect())?;
    /// assert_eq!(found, [(7, "Ann".to_owned())]);
    /// # Ok::<_, ermine::Error>(())
    /// ```
    ///
    /// `key_of` returns a row's key in the index; it must depend on nothing but its arguments. When the database is
    /// opened again, the function is tried on some rows: [`Error::Schema`] when one of them has another key than it has
    /// in the index. [`IndexOptions::version`] announces a change of the function that no such row shows.
    pub fn index<S: Key, K: Key, V: Value>(
        &self,
        table: &Table<K, V>,
        name: &str,
        uniqueness: Uniqueness,
        key_of: impl for<'a> Fn(&K, V::View<'a>) -> S + Send + Sync + 'static,
    ) -> Result<SecondaryIndex<S, K, V>> {
        self.index_with(table, name, IndexOptions::new(uniqueness), key_of)
    }

    /// Works as [`Database::index`], with the index's kind and the version of its key function; [`Error::Schema`] for
    /// [`IndexKind::Hash`], which cannot find rows by the front of an entry, and when the index was built by another
    /// version.
    pub fn index_with<S: Key, K: Key, V: Value>(
        &self,
        table: &Table<K, V>,
        name: &str,
        options: IndexOptions,
        key_of: impl for<'a> Fn(&K, V::View<'a>) -> S + Send + Sync + 'static,
    ) -> Result<SecondaryIndex<S, K, V>> {
        let IndexOptions { uniqueness, kind, version, wait_max } = options;
        let entry =
            IndexEntry { name: name.into(), uniqueness, key_type: type_name::<S>(), version, kind, built: false };
        let framing = table.framing();
        let key_of = KeyOf {
            extract: Box::new(move |mut key, value, out| {
                key_of(&K::decode(&mut key)?, framing.view::<V>(value)?).encode(out);
                Ok(())
            }),
            secondary_length: |entry| {
                let mut rest = entry;
                S::skip(&mut rest)?;
                Ok(entry.len() - rest.len())
            },
            key_type: TypeId::of::<S>(),
        };
        let id = table.id_in(self.identity().address())?;
        let ordinal = self.open_index(id, entry, key_of, wait_max)?;
        Ok(SecondaryIndex::new(table.clone(), ordinal))
    }

    fn open_table(&self, name: &str, types: &TableTypes, options: &TableOptions) -> Result<OpenTable> {
        with_engine!(&*self.engine, engine => engine.open_table(name, types, options))
    }

    fn open_index(&self, table: TableId, entry: IndexEntry, key_of: KeyOf, wait_max: Duration) -> Result<IndexOrdinal> {
        with_engine!(&*self.engine, engine => engine.open_index(table, entry, key_of, wait_max))
    }

    /// Returns all tables, with the catalog's description of their types and indexes, in order of creation.
    ///
    /// ```
    /// # use ermine::{Database, Options};
    /// # let db = Database::open_in_memory(Options::default())?;
    /// db.table::<u64, String>("names")?;
    /// let [names] = &db.tables()[..] else { panic!("there is one table") };
    /// assert_eq!((&*names.name, &*names.key_type, &*names.value_type), ("names", "u64", "String"));
    /// # Ok::<_, ermine::Error>(())
    /// ```
    pub fn tables(&self) -> Vec<TableDescription> {
        let entries = with_engine!(&*self.engine, engine => engine.tables.entries());
        entries.into_iter().map(TableDescription::from).collect()
    }

    /// Drops the table of that name with its rows and indexes; returns whether there was one. When the call returns,
    /// the drop is durable.
    ///
    /// The drop is no part of a transaction and conflicts with none. Operations that begin afterwards fail with
    /// [`Error::Schema`], including those of transactions and snapshots that are open; a transaction that has written
    /// to the table may commit, and its writes there disappear with the table. Memory is freed when the transactions
    /// that are open now have ended, files at the next checkpoints. After a crash during the drop, the table exists as
    /// a whole or not at all.
    ///
    /// ```
    /// # use ermine::{Database, Options};
    /// # let db = Database::open_in_memory(Options::default())?;
    /// let names = db.table::<u64, String>("names")?;
    /// assert!(db.drop_table("names")?);
    /// assert!(db.run(|txn| txn.get(&names, &1)).is_err());
    /// assert!(!db.drop_table("names")?);
    /// # Ok::<_, ermine::Error>(())
    /// ```
    pub fn drop_table(&self, name: &str) -> Result<bool> {
        with_engine!(&*self.engine, engine => engine.drop_table(name))
    }

    /// Renames a table to a name that no table has. When the call returns, the new name is durable.
    ///
    /// The renaming is no part of a transaction. Handles of the table stay valid and report the name that they were
    /// created with.
    pub fn rename_table(&self, name: &str, new_name: &str) -> Result<()> {
        with_engine!(&*self.engine, engine => engine.rename_table(name, new_name))
    }

    /// Opens the sequence of that name: unique numbers for surrogate keys. Threads draw them from different chunks of
    /// `chunk` numbers, so that concurrent inserts of ascending keys do not meet in one leaf. Open it once and share
    /// it.
    ///
    /// ```
    /// # use ermine::{Database, Options};
    /// # let db = Database::open_in_memory(Options::default())?;
    /// let orders = db.table::<u64, String>("orders")?;
    /// let numbers = db.sequence("order numbers", 1000)?;
    /// let number = numbers.next(&db)?;
    /// db.run(|txn| txn.insert(&orders, &number, "tea"))?;
    /// # Ok::<_, ermine::Error>(())
    /// ```
    pub fn sequence(&self, name: &str, chunk: u64) -> Result<Sequence> {
        Sequence::new(name, self.table(SEQUENCES_NAME)?, chunk)
    }

    /// Begins a transaction that ends with [`Transaction::commit`], or is rolled back when dropped.
    ///
    /// It may stay open between operations for long; [`Database::run`] suits transactions that run through without a
    /// pause. At most [`crate::OPEN_TRANSACTIONS_MAX`] are open at the same time, under every scheme; each costs some
    /// ten kilobytes, and its write set and the data it retains. The results of its operations are valid once it
    /// commits, errors included: see [`Transaction::commit_reads`].
    pub fn begin(&self, options: TxnOptions) -> Result<Transaction<'_>> {
        Ok(Transaction::new(self.engine.begin(options)?))
    }

    /// Begins a transaction that reads a safe snapshot: it sees all that had been committed, is tracked nowhere and
    /// never loses a conflict, however long it reads (SSN 5.2). In strict order it sees everything that had been
    /// acknowledged; otherwise [`Options::snapshot_interval`] determines how fresh it is. It is an error under schemes
    /// that have no safe snapshots ([`Scheme::has_snapshots`]).
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

    /// Runs a transaction until it commits or fails permanently.
    ///
    /// When the transaction loses a conflict, it is run again from the beginning with a new snapshot; a transaction
    /// that has lost 12 times runs alone, so that it gets through. It can still be blocked by a transaction that an
    /// application drives ([`Database::begin`]) and leaves open: after [`Options::run_max`] or
    /// [`Options::attempts_max`] it fails with [`Error::GaveUp`]. `body` must not keep anything of a failed attempt,
    /// and must not run another transaction of the same database ([`Error::Nested`]): that inner transaction would wait
    /// for the outer one, or lose to it, each time.
    ///
    /// On any other error of `body`, the transaction's writes are undone and the error is returned. Such an error may
    /// follow from the transaction's reads, so under a serializable scheme the reads are certified first, as in
    /// [`Transaction::commit_reads`]; if they are not, the transaction has lost a conflict and is run again. A panic of
    /// `body` is not caught: under schemes without a snapshot ([`Scheme::reads_snapshot`]), `body` may see a state that
    /// no serial order has before it is run again.
    pub fn run<'db, T, E: From<Error>>(&'db self, body: impl FnMut(&Transaction<'db>) -> Result<T, E>) -> Result<T, E> {
        self.run_with(TxnOptions::default(), body)
    }

    /// Works as [`Database::run`], for a transaction with options: that it only reads, or how durable it shall be.
    pub fn run_with<'db, T, E: From<Error>>(
        &'db self,
        options: TxnOptions,
        body: impl FnMut(&Transaction<'db>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.settle(options.durability, self.run_body(options, body)?)
    }

    /// Works as [`Database::run`], without waiting for the device: the [`Receipt`] reports when the commit is durable.
    /// Other transactions see the writes at once. An error has no receipt: the state that it follows from is durable
    /// after [`Database::sync`].
    pub fn run_async<'db, T, E: From<Error>>(
        &'db self,
        body: impl FnMut(&Transaction<'db>) -> Result<T, E>,
    ) -> Result<(T, Receipt<'db>), E> {
        let (result, receipt) = self.run_body(TxnOptions::default(), body)?;
        result.map(|value| (value, receipt))
    }

    /// Runs a transaction until it ends, and returns the result of its body; fails if the transaction cannot be run.
    pub(crate) fn run_body<'db, T, E>(
        &'db self,
        options: TxnOptions,
        body: impl FnMut(&Transaction<'db>) -> Result<T, E>,
    ) -> Result<(Result<T, E>, Receipt<'db>)> {
        let mut run = BodyRun { body, result: None };
        let receipt = self.engine.run(options, true, &mut run)?;
        Ok((run.result.expect("the body has run"), receipt))
    }

    /// Works as [`Database::run`] for a [`Job`], which is compiled for the schemes that it names.
    pub fn run_job<J: Job>(&self, job: &mut J) -> Result<J::Output, J::Error> {
        let options = job.options();
        self.settle(options.durability, self.engine.run_job(options, job, true)?)
    }

    /// Works as [`Database::run_async`] for a [`Job`].
    pub fn run_job_async<J: Job>(&self, job: &mut J) -> Result<(J::Output, Receipt<'_>), J::Error> {
        let (result, receipt) = self.engine.run_job(job.options(), job, true)?;
        result.map(|output| (output, receipt))
    }

    /// Makes one attempt of a job; a lost conflict is returned as [`Error::Abort`].
    pub fn try_job<J: Job>(&self, job: &mut J) -> Result<J::Output, J::Error> {
        let options = job.options();
        self.settle(options.durability, self.engine.run_job(options, job, false)?)
    }

    /// Works as [`Database::try_job`], without waiting for the device.
    pub fn try_job_async<J: Job>(&self, job: &mut J) -> Result<(J::Output, Receipt<'_>), J::Error> {
        let (result, receipt) = self.engine.run_job(job.options(), job, false)?;
        result.map(|output| (output, receipt))
    }

    /// Waits until everything that has been committed so far is durable, whatever durability the transactions asked
    /// for. Returns at once where nothing is written to files.
    pub fn sync(&self) -> Result<()> {
        with_engine!(&*self.engine, engine => engine.sync())
    }

    /// Starts loading rows from memory.
    pub(crate) fn prefetch_rows(&self, table: TableId, keys: &KeyList) {
        with_engine!(&*self.engine, engine => engine.prefetch(table, keys));
    }

    /// Returns the result of a transaction; waits until it is durable first, where the transaction or the database asks
    /// for that.
    pub(crate) fn settle<T, E: From<Error>>(
        &self,
        durability: Option<Durability>,
        (result, receipt): (Result<T, E>, Receipt<'_>),
    ) -> Result<T, E> {
        if durability.unwrap_or(self.durability) == Durability::Durable {
            receipt.wait()?;
        }
        result
    }

    /// Returns the budget of the memory that the database may take. An application can count the memory of its own
    /// queries there, too.
    pub fn budget(&self) -> &Arc<Budget> {
        with_engine!(&*self.engine, engine => &engine.budget)
    }

    /// Changes the limit of the memory that the database may take, in bytes; `None`: the default one
    /// ([`Options::memory_limit`]). Memory that is taken stays so: under a smaller limit, writes that need more are
    /// refused until enough is free, while reads and deletes get a reserve above what is taken now.
    ///
    /// # Errors
    /// [`Error::Options`] for less than 16 MiB.
    pub fn set_memory_limit(&self, bytes: Option<u64>) -> Result<()> {
        let options = Options { memory_limit: bytes, ..Options::default() };
        options.check()?;
        self.budget().set_limit(options.fitted().memory_limit.unwrap_or(u64::MAX));
        Ok(())
    }

    /// Returns counters and sizes.
    pub fn statistics(&self) -> Statistics {
        with_engine!(&*self.engine, engine => engine.statistics())
    }

    /// Returns about how many rows a table has, without reading any: the number of RowIds in use. Rows that were deleted
    /// count until they are collected, and inserts that are rolled back until then. The cost grows with the number of
    /// threads that have used the table.
    ///
    /// ```
    /// # use ermine::{Database, Options};
    /// let db = Database::open_in_memory(Options::default())?;
    /// let names = db.table::<u64, String>("names")?;
    /// assert_eq!(db.estimated_rows(&names)?, 0);
    /// db.run(|txn| (0..10_000).try_for_each(|id| txn.insert(&names, &id, "a name")))?;
    /// assert_eq!(db.estimated_rows(&names)?, 10_000);
    /// # Ok::<_, ermine::Error>(())
    /// ```
    pub fn estimated_rows<K, V>(&self, table: &Table<K, V>) -> Result<u64> {
        let id = table.id_in(self.identity().address())?;
        Ok(with_engine!(&*self.engine, engine => engine.tables.estimated_rows(id)))
    }

    /// Lists what keeps garbage from being freed, one line each: transactions, or operations of them, that have been
    /// open for a whole epoch. An open transaction is no fault; one that stays in this list for long was perhaps
    /// forgotten.
    pub fn stragglers(&self) -> Vec<String> {
        with_engine!(&*self.engine, engine => engine.stragglers())
    }

    /// Runs one round of the background helper; returns whether garbage is left. For the schedule explorer, which runs
    /// no helper.
    #[cfg(shuttle)]
    #[doc(hidden)]
    pub fn maintain(&self) -> bool {
        with_engine!(&*self.engine, engine => engine.maintain())
    }

    /// Evicts all rows whose numbers `choose` accepts and that can leave memory, or begins to, where operations run:
    /// for tests. Returns the number of rows that were evicted.
    #[doc(hidden)]
    pub fn evict(&self, choose: impl Fn(u64) -> bool) -> u64 {
        with_engine!(&*self.engine, engine => engine.evict_chosen(choose))
    }

    /// Whether the loader has ended: for tests.
    #[doc(hidden)]
    pub fn has_loaded(&self) -> bool {
        with_engine!(&*self.engine, engine => engine.has_loaded())
    }

    /// Makes a checkpoint now, so that the next opening has less to replay, and frees the files that are no longer
    /// needed. The engine makes checkpoints automatically ([`Options::checkpoint_after`]). Inside a transaction that
    /// [`Database::run`] runs on this thread this fails ([`Error::Nested`]). It waits for operations that are running:
    /// do not call it inside the callback of a scan.
    pub fn checkpoint(&self) -> Result<CheckpointReport> {
        with_engine!(&*self.engine, engine => {
            inside::check_outside(engine, CHECKPOINT_INSIDE)?;
            engine.checkpoint(Pace::Full)
        })
    }

    /// Copies the database to the directory `path`, which is created if it does not exist and must be empty, while
    /// transactions go on, but not inside one that this thread runs ([`Error::Nested`]). The copy contains at least
    /// everything that was committed before the call; it is a database
    /// like any other, or the start of a [`crate::restore()`].
    ///
    /// ```
    /// # use ermine::{Database, Options};
    /// # let path = std::env::temp_dir().join(format!("ermine-doc-backup-{}", std::process::id()));
    /// # std::fs::create_dir(&path).unwrap();
    /// # let db = Database::open(path.join("db"), Options::default())?;
    /// db.backup(path.join("monday"))?;
    /// let copy = Database::open(path.join("monday"), Options::default())?;
    /// # drop((db, copy));
    /// # std::fs::remove_dir_all(&path).unwrap();
    /// # Ok::<_, ermine::Error>(())
    /// ```
    pub fn backup(&self, path: impl AsRef<Path>) -> Result<BackupReport> {
        self.backup_with(path, &mut |_| Ok(()))
    }

    /// Works as [`Database::backup`], and reports its progress. An error of `progress` ends the backup and is returned.
    /// A backup that fails removes the files that it has created.
    pub fn backup_with(
        &self,
        path: impl AsRef<Path>,
        progress: &mut dyn FnMut(Progress) -> Result<()>,
    ) -> Result<BackupReport> {
        let to = RealDirectory::create(path.as_ref()).map_err(storage)?;
        self.backup_to(&to, progress)
    }

    /// Works as [`Database::backup`] for any implementation of a directory.
    #[doc(hidden)]
    pub fn backup_in(&self, to: &dyn Directory) -> Result<BackupReport> {
        self.backup_to(to, &mut |_| Ok(()))
    }

    fn backup_to(&self, to: &dyn Directory, progress: &mut dyn FnMut(Progress) -> Result<()>) -> Result<BackupReport> {
        with_engine!(&*self.engine, engine => inside::check_outside(engine, CHECKPOINT_INSIDE))?;
        let mut stopped = None;
        let watch = &mut |copied| {
            progress(copied).map_err(|error| {
                stopped = Some(error);
                io::Error::other("the backup was told to end")
            })
        };
        let made = with_engine!(&*self.engine, engine => engine.backup(to, watch));
        stopped.map_or(made, Err)
    }

    /// Archives everything that has been committed so far ([`Options::archive`]), including the content of the segment
    /// that is being written. Closing the database does the same.
    pub fn archive_now(&self) -> Result<()> {
        with_engine!(&*self.engine, engine => engine.archive_now())
    }

    /// Reads the durable log from the position `from` on, or from its durable end on, to keep a standby up to date
    /// ([`LogReceiver`]). A carrier that was interrupted goes on at the standby's position.
    ///
    /// [`Options::keep_log`] says how far behind a reader may be; one that is farther behind may get
    /// [`Error::LogRemoved`]. Single-version schemes ship no log: [`Error::Options`].
    ///
    /// [`LogReceiver`]: crate::LogReceiver
    pub fn log_reader(&self, from: Option<u64>) -> Result<LogReader<'_>> {
        with_engine!(&*self.engine, engine => engine.log_reader(from))
    }

    /// Marks the present state in the log as a safe snapshot (SSN 5.2): standbys that replay the log show it to
    /// transactions that ask for one ([`crate::HotStandby`]). As after [`Database::snapshot`], a transaction in flight
    /// that precedes one that has committed already may lose a conflict.
    ///
    /// A program that ships the log calls this again and again, say every 20 ms, while standbys are asked for safe
    /// snapshots ([`Database::safe_snapshots_asked`]). Returns whether nothing is to be marked
    /// before the next commit; `false`: the log was in use, call again soon. Under a scheme that is not serializable,
    /// and where there is no log or it is not shipped, nothing is ever marked.
    pub fn mark_safe_snapshot(&self) -> bool {
        with_engine!(&*self.engine, engine => engine.mark_safe_snapshot())
    }

    /// Reads the changes of committed transactions from the position `from` on, or from the durable end of the log on:
    /// whole transactions, in the order of their commits, as soon as they are durable; while commits are held
    /// ([`CommitHold`](crate::CommitHold)), when they are released. A program that was interrupted goes on at the
    /// position of its reader ([`ChangeReader::position`]), also in another process, and misses nothing.
    ///
    /// The database is opened with [`Options::log_keys`]; [`Options::keep_log`] says how far behind a reader may be,
    /// and one that is farther behind may get [`Error::LogRemoved`]. Tables in memory only have no changes. Under
    /// single-version schemes: [`Error::Options`].
    ///
    /// ```
    /// # use ermine::{Change, Database, Options};
    /// # let path = std::env::temp_dir().join(format!("ermine-doc-changes-{}", std::process::id()));
    /// let db = Database::open(&path, Options::default().log_keys(true))?;
    /// let stock = db.table::<String, u64>("stock")?;
    /// let mut changes = db.changes(None)?;
    /// db.run(|txn| txn.put(&stock, "tea", &100))?;
    ///
    /// let transaction = changes.next()?.expect("it is durable");
    /// let Change::Row(row) = &transaction.changes[0] else { panic!("no table was created or dropped") };
    /// assert_eq!(row.of(&stock)?, Some(("tea".to_owned(), Some(100))));
    /// # drop(changes);
    /// # drop(db);
    /// # std::fs::remove_dir_all(&path).unwrap();
    /// # Ok::<_, ermine::Error>(())
    /// ```
    ///
    /// [`ChangeReader::position`]: crate::ChangeReader::position
    pub fn changes(&self, from: Option<u64>) -> Result<ChangeReader<'_>> {
        with_engine!(&*self.engine, engine => engine.changes(from))
    }

    /// Keeps the log from a position on, from now on, for the readers of changes that read from there: the first blocks
    /// of transactions that commit later as well. `None`: none is kept any more, beside what
    /// [`Options::keep_log`] says. What is kept gives way when the device is full. Nothing is kept under single-version
    /// schemes.
    ///
    /// The positions of a program's readers are the program's to remember, and to say again when it opens the database
    /// ([`Options::keep_changes_from`]).
    pub fn keep_changes_from(&self, position: Option<u64>) {
        with_engine!(&*self.engine, engine => engine.keep_changes_from(position));
    }

    /// Collects all garbage; returns the keys of a table and the entries of its first secondary index, with their rows.
    /// No transaction runs.
    #[cfg(test)]
    pub(crate) fn settled_entries(&self, table: &str) -> [Vec<(Vec<u8>, crate::ids::RowId)>; 2] {
        with_engine!(&*self.engine, engine => {
            // The helper in the background may be inside of an epoch: several rounds.
            let mut quiet = 0;
            while quiet < 10 {
                quiet = if engine.maintain() { 0 } else { quiet + 1 };
                std::thread::yield_now();
            }
            engine.tables.entries_of(table)
        })
    }

    /// Returns the bytes of all indexes. Takes time: it walks over them.
    pub fn index_bytes(&self) -> u64 {
        with_engine!(&*self.engine, engine => engine.index_bytes())
    }
}

/// The body of a transaction that is being run.
struct BodyRun<F, T, E> {
    body: F,
    /// Result of the last attempt.
    result: Option<Result<T, E>>,
}

impl<'db, T, E, F: FnMut(&Transaction<'db>) -> Result<T, E>> Body<'db> for BodyRun<F, T, E> {
    fn attempt(&mut self, txn: &Transaction<'db>) -> bool {
        self.result.insert((self.body)(txn)).is_ok()
    }

    fn lost(&mut self, _: &Abort) {
        self.result = None;
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        with_engine!(&*self.engine, engine => engine.hurry());
        self.helpers = None;
        with_engine!(&*self.engine, engine => engine.close());
    }
}

impl<'db> Transaction<'db, AnyAccess<'db>> {
    /// Commits; an [`Error::Abort`] means that the transaction had no effect. Returns the transaction's place in the
    /// order of commits.
    pub fn commit(self) -> Result<Stamp> {
        self.into_access().commit()
    }

    /// Commits without waiting for the device: other transactions see the writes at once, and the [`Receipt`] reports
    /// when they are durable.
    ///
    /// ```
    /// # use ermine::{Database, Options, TxnOptions};
    /// # let db = Database::open_in_memory(Options::default())?;
    /// # let accounts = db.table::<u64, i64>("accounts")?;
    /// let txn = db.begin(TxnOptions::default())?;
    /// txn.put(&accounts, &7, &100)?;
    /// let receipt = txn.commit_async()?;
    /// // .. other work, or `receipt.await` in a task ..
    /// receipt.wait()?;
    /// # Ok::<_, ermine::Error>(())
    /// ```
    pub fn commit_async(self) -> Result<Receipt<'db>> {
        self.into_access().commit_async()
    }

    /// Undoes the transaction's writes and commits its reads; an [`Error::Abort`] means that no serial order has these
    /// reads. Returns their place in the order of commits.
    ///
    /// Use it for an error that the application is about to report because of the transaction's reads: a key exists, a
    /// sum is wrong, a limit is exceeded. Under a serializable scheme such an error is true only if the reads are
    /// certified. [`Database::run`] does this for every error that leaves it.
    ///
    /// ```
    /// # use ermine::{Database, Error, Options, TxnOptions};
    /// # let db = Database::open_in_memory(Options::default())?;
    /// # let accounts = db.table::<u64, i64>("accounts")?;
    /// # db.run(|txn| txn.put(&accounts, &7, &100))?;
    /// let txn = db.begin(TxnOptions::default())?;
    /// if let Err(Error::KeyExists { .. }) = txn.insert(&accounts, &7, &200) {
    ///     txn.commit_reads()?; // an abort: begin again, the account may be gone
    ///     println!("account 7 exists");
    /// }
    /// # Ok::<_, Error>(())
    /// ```
    pub fn commit_reads(self) -> Result<Stamp> {
        self.into_access().commit_reads()
    }

    /// Rolls the transaction back, as dropping it does.
    pub fn rollback(self) {}
}

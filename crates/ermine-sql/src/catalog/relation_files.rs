//! Relation files: the engine's tables `sql N`, each of which stores one table or index of SQL; and the reuse of those
//! that store none any more. (PostgreSQL stores each in files of their own, numbered by `relfilenode`.)
//!
//! The engine can drop a table (`Database::drop_table`), but a drop is no part of a transaction, and a database creates
//! at most 2^20 tables, whose numbers are never reused. So a dropped relation file is emptied, which lets the engine
//! free its rows, and is then reused for another table or index. The engine drops those that turn out to be large:
//!
//! ```text
//!   in use: a definition refers to it
//!     | a change of the catalog that drops it             the catalog's table has a row for it: dropped
//!   dropped
//!     | a thread deletes its rows, some at a time         the row: free
//!     |   or drops the engine's table, if there are many  no row, and the file is gone
//!   free
//!     | a change of the catalog that needs one            no row
//!   in use
//! ```
//!
//! Invariants
//! 1. *No transaction reads a relation file that is being emptied*: the transaction that dropped it had the table alone
//!    until the change was published. So all transactions that used the file have ended, and no later one finds it.
//!    Where this does not hold (an unfinished index), the file is emptied when the database is next opened.
//! 2. *A free relation file is empty for the transaction that takes it*: that transaction began after the file had
//!    become free ([`RelationFiles::count`]), so its snapshot contains the deletes. No other one takes it: it is off the
//!    list until the transaction has ended, so that definitions in unrelated schemas are no conflict.
//! 3. *No relation file is lost*: the transaction that drops one writes its row. One that was created by a transaction
//!    that did not commit is empty, and becomes free unless the program ends before.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use ermine::{Database, EncodedRange, Error, KeyBuffer, OwnedTransaction};

use super::{
    Change,
    definition::{ObjectId, TableDef},
};
use crate::{
    error::{Result, SqlError, SqlState},
    failure::EngineResult as _,
    storage::{RawKey, RawRange, RawTable},
};

const BY_RELATION_FILE: u8 = 3;
const FREE: &[u8] = &[0];
const DROPPED: &[u8] = &[1];

/// How long the thread waits before it retries after a failure.
const AGAIN_AFTER: Duration = Duration::from_millis(50);

/// Rows deleted per transaction.
const BATCH: usize = 256;

/// Batches after which the engine's table is dropped with all further rows. Each drop uses up one of 2^20 numbers, and
/// 64 of them are a reason for a checkpoint.
const BATCHES_MAX: usize = 256;

/// The relation files that are not in use.
pub(crate) struct RelationFiles {
    rows: RawTable,
    free: Arc<Free>,
    dropped: Sender<Dropped>,
    ends: Arc<AtomicBool>,
    emptier: Option<JoinHandle<()>>,
}

/// The free relation files.
#[derive(Default)]
struct Free {
    /// The number of times that a relation file has become free.
    count: AtomicU64,
    /// Each free relation file, with the value of `count` when it became free.
    list: Mutex<Vec<(ObjectId, u64)>>,
}

/// A message to the thread that empties relation files.
enum Dropped {
    File(ObjectId),
    /// The database is being closed.
    End,
}

/// The relation files that a transaction has taken.
pub(crate) struct Taken {
    /// Those that were free, as in the list: if they are not used, they are free again.
    reused: Vec<(ObjectId, u64)>,
    free: Arc<Free>,
    /// Newly created ones, never used before.
    fresh: Vec<ObjectId>,
    dropped: Sender<Dropped>,
}

impl Taken {
    /// Called when the transaction has committed with these changes. The creation of a file that none of
    /// them uses was rolled back.
    pub(crate) fn keep(mut self, changes: &[Change]) {
        let used: BTreeSet<_> =
            changes.iter().filter_map(Change::table_after).flat_map(TableDef::relation_files).collect();
        self.fresh.retain(|file| !used.contains(file));
        self.reused.retain(|(file, _)| !used.contains(file));
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.free.list().append(&mut self.reused);
        self.fresh.drain(..).for_each(|file| drop(self.dropped.send(Dropped::File(file))));
    }
}

impl Free {
    fn list(&self) -> MutexGuard<'_, Vec<(ObjectId, u64)>> {
        self.list.lock().expect("no code panics while it holds the list")
    }

    fn add(&self, file: ObjectId) {
        let mut list = self.list();
        // Release: pairs with `RelationFiles::count`; a transaction that sees the count begins after the deletes.
        let count = self.count.fetch_add(1, Ordering::Release) + 1;
        list.push((file, count));
    }
}

impl Drop for RelationFiles {
    fn drop(&mut self) {
        // Relaxed: publishes nothing else.
        self.ends.store(true, Ordering::Relaxed);
        let _ = self.dropped.send(Dropped::End);
        // The thread must not keep the database alive after this is dropped.
        let _ = self.emptier.take().map(JoinHandle::join);
    }
}

fn key_of(file: ObjectId) -> KeyBuffer {
    let mut key = KeyBuffer::from_slice(&[BY_RELATION_FILE]);
    key.extend_from_slice(&file.to_be_bytes());
    key
}

/// The name of the engine's table that is this relation file.
pub(crate) fn engine_name(file: ObjectId) -> String {
    format!("sql {file}")
}

/// Returns the relation file that a table of the engine is, if it is one.
pub(crate) fn file_of(engine_name: &str) -> Option<ObjectId> {
    engine_name.strip_prefix("sql ")?.parse().ok()
}

impl TableDef {
    /// The relation files of the table and its indexes.
    pub(crate) fn relation_files(&self) -> impl Iterator<Item = ObjectId> {
        [self.relation_file].into_iter().chain(self.indexes.iter().map(|index| index.relation_file))
    }

    /// The relation file of the unfinished index, if any.
    pub(super) fn unfinished_storage(&self) -> Option<ObjectId> {
        let at = (0..self.indexes.len()).find(|at| !self.is_complete(*at))?;
        Some(self.indexes[at].relation_file)
    }
}

impl RelationFiles {
    /// Reads the rows about relation files in the catalog's table, and resumes emptying. On a standby none is taken or
    /// emptied.
    pub(super) fn open(database: &Arc<Database>, rows: &RawTable) -> Result<Self> {
        if database.is_standby() {
            let (free, ends, (dropped, _)) = (Arc::default(), Arc::default(), channel());
            return Ok(Self { rows: rows.clone(), free, dropped, ends, emptier: None });
        }
        let stored =
            database.run(|txn| txn.scan(rows, RawRange::prefix(KeyBuffer::from_slice(&[BY_RELATION_FILE]))).collect());
        let (free, ends) = (Arc::<Free>::default(), Arc::new(AtomicBool::new(false)));
        let (dropped, queue) = channel();
        for (RawKey(key), state) in stored.sql()? {
            let Some(file) = key[1..].try_into().ok().map(u32::from_be_bytes) else { continue };
            if state == FREE {
                free.add(file);
            } else {
                // The receiving thread starts below.
                let _ = dropped.send(Dropped::File(file));
            }
        }
        let emptier =
            Emptier { database: database.clone(), rows: rows.clone(), free: free.clone(), ends: ends.clone() };
        let emptier = thread::Builder::new().name("ermine-sql-emptier".into()).spawn(move || emptier.work(&queue));
        let emptier = emptier.map_err(|error| SqlError::new(SqlState::IO_ERROR, error.to_string()))?;
        Ok(Self { rows: rows.clone(), free, dropped, ends, emptier: Some(emptier) })
    }

    /// Takes a relation file for a transaction: one that was free when the transaction began, or else a `fresh` one.
    pub(crate) fn take(
        &self,
        txn: &OwnedTransaction,
        count: u64,
        taken: &mut Option<Taken>,
        fresh: impl FnOnce() -> Result<ObjectId>,
    ) -> Result<ObjectId> {
        let nothing =
            || Taken { reused: Vec::new(), free: self.free.clone(), fresh: Vec::new(), dropped: self.dropped.clone() };
        let taken = taken.get_or_insert_with(nothing);
        loop {
            let reused = {
                let mut list = self.free.list();
                list.iter().position(|(_, at)| *at <= count).map(|at| list.swap_remove(at))
            };
            let Some((file, at)) = reused else {
                let file = fresh()?;
                taken.fresh.push(file);
                return Ok(file);
            };
            taken.reused.push((file, at));
            let key = key_of(file);
            if txn.view(&self.rows, &key[..]).sql()? == Some(FREE) && txn.delete(&self.rows, &key[..]).sql()? {
                return Ok(file);
            }
            // A commit whose outcome was unknown has used it.
            taken.reused.pop();
        }
    }

    /// Returns the number of times that a relation file has become free; a transaction takes only files that were free
    /// before it began.
    pub(crate) fn count(&self) -> u64 {
        // Acquire: pairs with `Free::add`.
        self.free.count.load(Ordering::Acquire)
    }

    /// Records the relation files that a change of a table drops, in the transaction that makes the change.
    pub(super) fn write(
        &self,
        txn: &OwnedTransaction,
        before: Option<&TableDef>,
        after: Option<&TableDef>,
    ) -> Result<()> {
        let is_kept = |file| after.is_some_and(|after| after.relation_files().any(|kept| kept == file));
        let mut dropped = before.into_iter().flat_map(TableDef::relation_files).filter(|file| !is_kept(*file));
        dropped.try_for_each(|dropped| self.write_dropped(txn, dropped))
    }

    /// Records that the relation file is dropped.
    pub(super) fn write_dropped(&self, txn: &OwnedTransaction, file: ObjectId) -> Result<()> {
        txn.put(&self.rows, &key_of(file)[..], DROPPED).sql()
    }

    /// Describes the free relation files that are in use or not empty.
    pub(crate) fn disagreements(&self, database: &Database, used: &BTreeSet<ObjectId>) -> Result<Vec<String>> {
        let free: Vec<_> = self.free.list().iter().map(|(file, _)| *file).collect();
        let mut found = Vec::new();
        for file in free {
            let table: RawTable = database.table(&engine_name(file)).sql()?;
            let row = database.run(|txn| txn.scan(&table, ..).first()).sql()?;
            if used.contains(&file) || row.is_some() {
                found.push(format!("relation file {file} is free; in use: {}, a row: {row:?}", used.contains(&file)));
            }
        }
        Ok(found)
    }

    /// Called when a change that dropped this relation file has been committed and no transaction uses it any more.
    pub(crate) fn dropped(&self, file: ObjectId) {
        // If the thread has ended, the next opening finds the relation file.
        let _ = self.dropped.send(Dropped::File(file));
    }
}

/// The thread that empties dropped relation files.
struct Emptier {
    database: Arc<Database>,
    rows: RawTable,
    free: Arc<Free>,
    ends: Arc<AtomicBool>,
}

impl Emptier {
    fn work(&self, queue: &Receiver<Dropped>) {
        while let Ok(Dropped::File(file)) = queue.recv() {
            loop {
                match self.empty(file) {
                    Ok(true) => self.free.add(file),
                    Ok(false) => {}
                    // Without memory for the deletes, memory that other transactions free will serve them.
                    Err(Error::OutOfMemory { .. } | Error::GaveUp { .. }) => {
                        thread::sleep(AGAIN_AFTER);
                        continue;
                    }
                    // The relation file is emptied after the next opening.
                    Err(_) => {}
                }
                break;
            }
        }
    }

    /// Deletes all rows; returns whether the relation file is free. It is not if the database is being closed, or if
    /// the engine's table has been dropped.
    fn empty(&self, file: ObjectId) -> ermine::Result<bool> {
        let table: RawTable = self.database.table(&engine_name(file))?;
        let mut from = KeyBuffer::new();
        for batch in 0.. {
            if batch == BATCHES_MAX && self.drop_file(file)? {
                return Ok(false);
            }
            if self.ends.load(Ordering::Relaxed) {
                return Ok(false);
            }
            let range = || RawRange(EncodedRange { lower: from.clone(), upper: None });
            let (last, _) = self.database.run_async(|txn| -> ermine::Result<_> {
                let mut last = None;
                for (RawKey(key), _) in txn.scan(&table, range()).limit(BATCH).collect()? {
                    txn.delete(&table, &key[..])?;
                    last = Some(key);
                }
                Ok(last)
            })?;
            match last {
                Some(last) => from = last,
                None => break,
            }
        }
        self.database.run(|txn| txn.put(&self.rows, &key_of(file)[..], FREE))?;
        Ok(true)
    }

    /// Drops the engine's table; returns false if the engine drops no table until the next checkpoint. If the program
    /// ends before the file's row is deleted, the next opening creates the table, which is empty.
    fn drop_file(&self, file: ObjectId) -> ermine::Result<bool> {
        match self.database.drop_table(&engine_name(file)) {
            Err(Error::Limit(_)) => return Ok(false),
            dropped => dropped?,
        };
        self.database.run(|txn| txn.delete(&self.rows, &key_of(file)[..]))
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, sync::Barrier, time::Instant};

    use ermine::{Options, Scheme};

    use super::*;
    use crate::{
        catalog::{PUBLIC, Relation},
        result::RowSet,
        session::{Session, SqlDatabase},
    };

    fn run(session: &mut Session, text: &str) -> Result<Vec<Vec<String>>> {
        let mut rows = RowSet::default();
        session.run(text, &mut rows)?;
        Ok(rows.texts())
    }

    fn expect(session: &mut Session, text: &str) -> Vec<Vec<String>> {
        run(session, text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// The relation files of all tables.
    fn used(session: &Session) -> BTreeSet<ObjectId> {
        session.change_context().catalog_now().tables().iter().flat_map(|table| table.def.relation_files()).collect()
    }

    /// Waits until `count` relation files are free; returns them.
    fn free(database: &SqlDatabase, count: usize) -> BTreeSet<ObjectId> {
        let since = Instant::now();
        loop {
            let free: BTreeSet<_> = database.relation_files().free.list().iter().map(|(file, _)| *file).collect();
            if free.len() >= count {
                return free;
            }
            assert!(since.elapsed() < Duration::from_secs(20), "{free:?}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn in_memory(scheme: Scheme) -> SqlDatabase {
        SqlDatabase::open(Arc::new(Database::open_in_memory(Options::default().scheme(scheme)).unwrap())).unwrap()
    }

    /// Only existing relation files are used, however often tables are created and dropped, and new tables are empty.
    #[test]
    fn what_was_dropped_is_used_again() {
        for scheme in [Scheme::SiSsn, Scheme::Rc, Scheme::Silo] {
            let database = in_memory(scheme);
            let mut session = database.session("tester", "test");
            let mut all = BTreeSet::new();
            for _ in 0..20 {
                expect(&mut session, "CREATE TABLE t (id int PRIMARY KEY, a int UNIQUE)");
                all.extend(used(&session));
                assert_eq!(expect(&mut session, "SELECT id FROM t"), [[""; 0]; 0]);
                expect(&mut session, "INSERT INTO t SELECT n, n FROM generate_series(1, 600) n");
                expect(&mut session, "TRUNCATE t");
                all.extend(used(&session));
                expect(&mut session, "INSERT INTO t VALUES (1, 1); CREATE INDEX i ON t (a)");
                all.extend(used(&session));
                expect(&mut session, "DROP INDEX i; DROP TABLE t");
                free(&database, all.len());
            }
            assert_eq!(all.len(), 5, "{scheme}: {all:?}");
        }
    }

    /// The transaction that creates a table on a reused relation file can insert rows in it, also where rows have
    /// numbers and transactions have timestamps.
    #[test]
    fn what_is_used_again_is_written_at_once() {
        for scheme in Scheme::ALL.into_iter().filter(|scheme| SqlDatabase::serves(*scheme)) {
            let database = in_memory(scheme);
            let mut session = database.session("tester", "test");
            for _ in 0..3 {
                expect(&mut session, "BEGIN; CREATE TABLE t (a int); INSERT INTO t VALUES (1), (2); COMMIT");
                expect(&mut session, "INSERT INTO t VALUES (3)");
                assert_eq!(expect(&mut session, "SELECT a FROM t ORDER BY a"), [["1"], ["2"], ["3"]], "{scheme}");
                expect(&mut session, "DROP TABLE t");
                free(&database, 1);
            }
        }
    }

    /// The memory of an emptied relation file is freed.
    #[test]
    fn memory_is_bounded_by_what_is_there() {
        let database = in_memory(Scheme::SiSsn);
        let mut session = database.session("tester", "test");
        expect(&mut session, "CREATE TABLE t (id int PRIMARY KEY, a text)");
        let mut first = None;
        for _ in 0..12 {
            expect(&mut session, "INSERT INTO t SELECT n, repeat('x', 200) FROM generate_series(1, 10000) n");
            expect(&mut session, "TRUNCATE t");
            free(&database, 1);
            let engine = session.change_context().database;
            let bytes = engine.statistics().version_bytes + engine.index_bytes();
            println!("{bytes}");
            assert!(bytes <= 3 * *first.get_or_insert(bytes), "{bytes} bytes after {first:?}");
        }
    }

    /// The engine drops a relation file with many rows: it is not used again. If the program ends between the drop and
    /// the deletion of the file's row, the next opening finds the file empty.
    #[test]
    fn a_large_relation_file_is_dropped() {
        const ROWS: usize = BATCH * BATCHES_MAX + 1;
        let directory = std::env::temp_dir().join(format!("ermine-sql-large-files-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        let open = || SqlDatabase::open(Arc::new(Database::open(&directory, Options::default()).unwrap())).unwrap();
        let database = open();
        let mut session = database.session("tester", "test");
        expect(&mut session, "CREATE TABLE large (id int PRIMARY KEY); CREATE TABLE small (id int PRIMARY KEY)");
        let [large, small] = ["large", "small"].map(|name| {
            let Some(Relation::Table(table)) = session.change_context().catalog_now().find(PUBLIC, name) else {
                panic!("{name} is there");
            };
            table.def.relation_file
        });
        expect(&mut session, &format!("INSERT INTO large SELECT generate_series(1, {ROWS})"));
        expect(&mut session, "INSERT INTO small SELECT generate_series(1, 1000)");
        expect(&mut session, "DROP TABLE large");
        expect(&mut session, "DROP TABLE small");
        // Files are emptied in the order in which they were dropped.
        assert_eq!(free(&database, 1), BTreeSet::from([small]));
        let engine = session.change_context().database;
        assert!(engine.tables().iter().all(|table| *table.name != engine_name(large)));
        let rows: RawTable = engine.table("sql catalog").unwrap();
        let known = |file| engine.run(|txn| txn.get(&rows, &key_of(file)[..])).unwrap();
        assert_eq!((known(large), known(small)), (None, Some(FREE.to_vec())));
        engine.run(|txn| txn.put(&rows, &key_of(large)[..], DROPPED)).unwrap();
        drop((session, database));
        let database = open();
        assert_eq!(free(&database, 2), BTreeSet::from([large, small]));
        assert_eq!(database.verify().unwrap().findings, [""; 0]);
        drop(database);
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn what_is_rolled_back_drops_nothing() {
        let database = in_memory(Scheme::SiSsn);
        let mut session = database.session("tester", "test");
        expect(&mut session, "CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)");
        for _ in 0..5 {
            expect(&mut session, "BEGIN; TRUNCATE t; INSERT INTO t VALUES (2); DROP TABLE t; ROLLBACK");
            assert_eq!(expect(&mut session, "SELECT id FROM t"), [["1"]]);
            // The relation file that TRUNCATE replaced.
            assert_eq!(free(&database, 1).len(), 1);
        }
        // A table dropped by the transaction that created it.
        expect(
            &mut session,
            "BEGIN; CREATE TABLE u (id int PRIMARY KEY); INSERT INTO u VALUES (1); DROP TABLE u; COMMIT",
        );
        thread::sleep(Duration::from_millis(5));
        let was = free(&database, 1);
        expect(&mut session, "CREATE TABLE v (id int PRIMARY KEY)");
        assert!(used(&session).is_superset(&was), "{was:?}");
        assert_eq!(expect(&mut session, "SELECT id FROM v"), [[""; 0]; 0]);
        // A relation file whose creation is rolled back to a savepoint becomes free, though the rest is committed.
        let text =
            "CREATE TABLE a (id int PRIMARY KEY, a int UNIQUE); CREATE TABLE b (id int PRIMARY KEY, a int UNIQUE)";
        expect(&mut session, &format!("BEGIN; SAVEPOINT s; {text}; ROLLBACK TO s; COMMIT"));
        free(&database, 4);
    }

    /// A relation file that becomes free in the background makes no transaction lose that creates a table.
    #[test]
    fn emptying_is_in_the_way_of_nothing() {
        for scheme in [Scheme::SiSsn, Scheme::SiSsi, Scheme::MvOcc, Scheme::RcSsn, Scheme::Silo, Scheme::TsoValidate] {
            let database = in_memory(scheme);
            let (mut one, mut other) = (database.session("tester", "test"), database.session("tester", "test"));
            expect(&mut other, "BEGIN; CREATE TABLE t (id int PRIMARY KEY)");
            expect(&mut one, "BEGIN; CREATE TABLE u (id int PRIMARY KEY); INSERT INTO u VALUES (1)");
            expect(&mut other, "ROLLBACK");
            free(&database, 1);
            let committed = run(&mut one, "COMMIT");
            assert!(committed.is_ok(), "{scheme}: {committed:?}");
        }
    }

    /// Transactions that create unrelated tables take other relation files, and both commit.
    #[test]
    fn files_that_are_used_again_are_no_conflict() {
        for scheme in [Scheme::SiSsn, Scheme::SiSsi, Scheme::MvOcc, Scheme::RcSsn, Scheme::Silo, Scheme::TsoValidate] {
            let database = in_memory(scheme);
            let (mut one, mut other) = (database.session("tester", "test"), database.session("tester", "test"));
            expect(&mut one, "CREATE TABLE t (id int PRIMARY KEY, a int UNIQUE); DROP TABLE t");
            let files = free(&database, 2);
            expect(&mut one, "BEGIN; CREATE TABLE t (id int PRIMARY KEY)");
            expect(&mut other, "BEGIN; CREATE TABLE u (id int PRIMARY KEY)");
            expect(&mut one, "COMMIT");
            expect(&mut other, "COMMIT");
            assert_eq!(used(&one), files, "{scheme}");
            // What is rolled back leaves its file to the next one.
            expect(&mut one, "DROP TABLE u");
            let files = free(&database, 1);
            expect(&mut one, "BEGIN; CREATE TABLE v (id int PRIMARY KEY); ROLLBACK");
            assert_eq!(free(&database, 1), files, "{scheme}");
        }
    }

    /// Tables that are created and dropped concurrently have their own rows and no others.
    #[test]
    fn nobody_gets_what_another_has() {
        for scheme in [Scheme::SiSsn, Scheme::Si, Scheme::Rc, Scheme::Silo, Scheme::TwoPhaseWaitDie] {
            let (database, together) = (in_memory(scheme), Barrier::new(3));
            thread::scope(|scope| {
                for number in 0..3 {
                    let (mut session, together) = (database.session("tester", "test"), &together);
                    scope.spawn(move || {
                        for round in 0..15 {
                            together.wait();
                            expect(&mut session, &format!("CREATE TABLE t{number} (id int PRIMARY KEY, a int)"));
                            expect(&mut session, &format!("INSERT INTO t{number} VALUES ({round}, {number})"));
                            expect(&mut session, &format!("CREATE INDEX i{number} ON t{number} (a)"));
                            let rows = expect(&mut session, &format!("SELECT id, a FROM t{number}"));
                            assert_eq!(rows, [[round.to_string(), number.to_string()]], "{scheme}");
                            expect(&mut session, &format!("DROP TABLE t{number}"));
                        }
                    });
                }
            });
        }
    }

    /// A relation file that was dropped when the database was closed is emptied when the database is opened again.
    #[test]
    fn emptying_goes_on_after_an_opening() {
        let directory = std::env::temp_dir().join(format!("ermine-sql-relation-files-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        let open = || SqlDatabase::open(Arc::new(Database::open(&directory, Options::default()).unwrap())).unwrap();
        let mut dropped = BTreeSet::new();
        for round in 0..3 {
            let database = open();
            let mut session = database.session("tester", "test");
            if round > 0 {
                assert_eq!(free(&database, 2), dropped);
                for file in &dropped {
                    let engine = session.change_context().database;
                    let rows: RawTable = engine.table(&format!("sql {file}")).unwrap();
                    assert!(engine.run(|txn| txn.scan(&rows, ..).first()).unwrap().is_none());
                }
            }
            expect(&mut session, "CREATE TABLE t (id int PRIMARY KEY, a int UNIQUE)");
            expect(&mut session, "INSERT INTO t SELECT n, n FROM generate_series(1, 5000) n");
            dropped = used(&session);
            expect(&mut session, "DROP TABLE t");
        }
        std::fs::remove_dir_all(&directory).unwrap();
    }
}

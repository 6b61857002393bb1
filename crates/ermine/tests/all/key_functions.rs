//! Goal: a key function of an index that panics, or that uses the database, harms nothing but its own transaction.
//!
//! Method. An index whose key function does so on demand: while a row is written, while a scan reads it, and while a
//! commit checks a range again; then everything goes on, also after the database has been opened once more.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, OnceLock, Weak,
        atomic::{AtomicBool, AtomicPtr, Ordering},
    },
};

use ermine::{
    Database, Error, Options, OwnedTransaction, Scheme, SecondaryIndex, Table, Transaction, TxnOptions, Uniqueness,
};

/// Work that the key function does besides returning a key.
type Mischief = Box<dyn Fn() + Send + Sync>;

struct Rows {
    database: Arc<Database>,
    rows: Table<u64, u64>,
    by_group: SecondaryIndex<u64, u64, u64>,
    /// Rows without an index.
    others: Table<u64, u64>,
    is_on: Arc<AtomicBool>,
}

impl Rows {
    fn new(database: Database, mischief: Mischief) -> Self {
        let rows = database.table("rows").unwrap();
        let others = database.table("others").unwrap();
        let is_on = Arc::new(AtomicBool::new(false));
        let asked = is_on.clone();
        let key_of = move |_: &u64, value: u64| {
            if asked.load(Ordering::SeqCst) {
                mischief();
            }
            value % 10
        };
        let by_group = database.index(&rows, "by group", Uniqueness::NonUnique, key_of).unwrap();
        Self { database: Arc::new(database), rows, by_group, others, is_on }
    }

    fn in_memory(scheme: Scheme, mischief: Mischief) -> Self {
        let rows = Self::new(Database::open_in_memory(Options::default().scheme(scheme)).unwrap(), mischief);
        rows.fill();
        rows
    }

    fn fill(&self) {
        self.database.run(|txn| (0..5).try_for_each(|key| txn.put(&self.rows, &key, &key))).unwrap();
    }

    fn turn(&self, on: bool) {
        self.is_on.store(on, Ordering::SeqCst);
    }

    /// Checks that both ways to the rows show the same ones.
    fn check(&self, scheme: Scheme) {
        let read = |txn: &Transaction<'_>| {
            let mut by_group = txn.scan_by(&self.by_group, ..).collect()?;
            by_group.sort_unstable();
            Ok::<_, Error>((txn.scan(&self.rows, ..).collect()?, by_group))
        };
        let (rows, by_group) = self.database.run(read).unwrap();
        assert_eq!(rows, by_group, "{scheme}");
    }
}

fn panics() -> Mischief {
    Box::new(|| panic!("by design"))
}

fn is_key_function<T>(result: &Result<T, Error>, said: &str) -> bool {
    matches!(result, Err(Error::KeyFunction { index, panic }) if &**index == "by group" && panic.contains(said))
}

#[test]
fn a_write_whose_key_function_panics_ends_its_transaction() {
    for scheme in Scheme::ALL {
        let rows = Rows::in_memory(scheme, panics());
        let txn = rows.database.begin(TxnOptions::default()).unwrap();
        txn.put(&rows.rows, &1, &11).unwrap();
        rows.turn(true);
        let written = txn.put(&rows.rows, &7, &7);
        rows.turn(false);
        assert!(is_key_function(&written, "by design"), "{scheme}: {written:?}");
        let read = txn.get(&rows.rows, &1);
        assert!(is_key_function(&read, "by design"), "{scheme}: {read:?}");
        let committed = txn.commit();
        assert!(is_key_function(&committed, "by design"), "{scheme}: {committed:?}");
        let all = rows.database.run(|txn| txn.scan(&rows.rows, ..).collect()).unwrap();
        assert_eq!(all, (0..5).map(|key| (key, key)).collect::<Vec<_>>(), "{scheme}");
        rows.check(scheme);
    }
}

#[test]
fn a_body_cannot_swallow_the_panic_of_a_key_function() {
    for scheme in Scheme::ALL {
        let rows = Rows::in_memory(scheme, panics());
        let run = rows.database.run(|txn| {
            rows.turn(true);
            let _ = txn.put(&rows.rows, &1, &8);
            rows.turn(false);
            Ok::<_, Error>(())
        });
        assert!(is_key_function(&run, "by design"), "{scheme}: {run:?}");
        let run: Result<(), Error> = rows.database.run(|txn| {
            rows.turn(true);
            let written = txn.put(&rows.rows, &1, &8);
            rows.turn(false);
            written
        });
        assert!(is_key_function(&run, "by design"), "{scheme}: {run:?}");
        rows.check(scheme);
        rows.fill();
    }
}

#[test]
fn a_key_function_that_begins_a_transaction_fails() {
    for scheme in Scheme::ALL {
        let own: Arc<OnceLock<Weak<Database>>> = Arc::default();
        let database = own.clone();
        let begins = move || {
            let database = database.get().and_then(Weak::upgrade).unwrap();
            drop(database.begin(TxnOptions::default()).map_err(|error| error.to_string()).unwrap());
        };
        let rows = Rows::in_memory(scheme, Box::new(begins));
        own.set(Arc::downgrade(&rows.database)).unwrap();
        rows.turn(true);
        let run = rows.database.run(|txn| txn.put(&rows.rows, &1, &8));
        rows.turn(false);
        assert!(is_key_function(&run, "inside of the key function"), "{scheme}: {run:?}");
        rows.check(scheme);
    }
}

#[test]
fn a_key_function_that_uses_its_transaction_fails() {
    for scheme in Scheme::ALL {
        let own: Arc<AtomicPtr<OwnedTransaction>> = Arc::default();
        let table: Arc<Mutex<Option<Table<u64, u64>>>> = Arc::default();
        let (used, rows) = (own.clone(), table.clone());
        let uses = move || {
            let table = rows.lock().unwrap().clone().unwrap();
            // SAFETY: the test's transaction lives while this is set, and is used only by the test's thread, which
            // calls this.
            let txn = unsafe { &*used.load(Ordering::SeqCst) };
            let _ = txn.get(&table, &1);
        };
        let rows = Rows::in_memory(scheme, Box::new(uses));
        *table.lock().unwrap() = Some(rows.rows.clone());
        let txn = rows.database.begin_owned(TxnOptions::default()).unwrap();
        own.store((&raw const txn).cast_mut(), Ordering::SeqCst);
        rows.turn(true);
        let written = txn.put(&rows.rows, &1, &8);
        rows.turn(false);
        assert!(is_key_function(&written, "borrowed"), "{scheme}: {written:?}");
        assert!(txn.commit().is_err(), "{scheme}");
        rows.check(scheme);
    }
}

struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ermine-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A commit checks a range again, because rows were inserted there since: the key function panics at that point, with
/// the place in the log taken. Later commits must be found when the database is opened again.
#[test]
fn a_panic_in_the_middle_of_a_commit_leaves_the_log_whole() {
    for scheme in Scheme::ALL {
        let directory = Directory::new(&format!("key-functions-{scheme}"));
        let open = || Rows::new(Database::open(directory.path(), Options::default().scheme(scheme)).unwrap(), panics());
        let rows = open();
        rows.fill();
        let others_rows = if matches!(scheme, Scheme::Serial | Scheme::Vll | Scheme::Partitioned) {
            1
        } else {
            let txn = rows.database.begin(TxnOptions::default()).unwrap();
            let seen = txn.scan_by(&rows.by_group, 7..=9).collect().unwrap();
            assert_eq!(seen, []);
            txn.put(&rows.others, &0, &0).unwrap();
            // Under locks the insert is refused; then the commit has nothing to check again.
            let comes_in = rows.database.begin(TxnOptions::default()).unwrap();
            let _ = comes_in.insert(&rows.rows, &8, &8).and_then(|()| comes_in.commit());
            rows.turn(true);
            let committed = txn.commit();
            rows.turn(false);
            1 + u64::from(committed.is_ok())
        };
        rows.database.run(|txn| txn.put(&rows.others, &1, &1)).unwrap();
        let all = |rows: &Rows| rows.database.run(|txn| txn.scan(&rows.rows, ..).collect()).unwrap();
        let before = all(&rows);
        rows.check(scheme);
        drop(rows);
        let rows = open();
        assert_eq!(all(&rows), before, "{scheme}");
        let others = rows.database.run(|txn| txn.scan(&rows.others, ..).collect()).unwrap();
        assert_eq!(others.len() as u64, others_rows, "{scheme}: {others:?}");
        rows.check(scheme);
    }
}

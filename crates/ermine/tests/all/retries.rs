//! Goal: `Database::run` returns, whatever other transactions do, and gets through within a known number of attempts if
//! the others run through it as well.
//!
//! Method. A transaction that the test drives stays open in the middle while another one is run: that must end with
//! `Error::GaveUp` after exactly as many attempts as were asked for. A test that hangs has found a wait without an end.
//! Threads that meet in one row count the attempts that each transaction needs; no test measures how long anything
//! took.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Barrier, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};

use ermine::{Abort, Access, AccessSet, Database, Error, Job, Options, Scheme, Table, Transaction, TxnOptions};
use ermine_testing::faulty::FaultyDirectory;

/// Attempts of a transaction that cannot get through; more than are made beside other transactions.
const ATTEMPTS: u32 = 16;

/// The 13th attempt runs alone (`Database::run`).
const ATTEMPTS_UNTIL_ALONE: u32 = 13;

fn open(options: Options) -> (Database, Table<u64, i64>) {
    let database = Database::open_in_memory(options).unwrap();
    let table = database.table("rows").unwrap();
    database.run(|txn| (0..4).try_for_each(|key| txn.put(&table, &key, &0))).unwrap();
    (database, table)
}

fn impatient(scheme: Scheme) -> Options {
    Options::default().scheme(scheme).wait_max(Duration::from_millis(1)).attempts_max(ATTEMPTS)
}

/// Returns a transaction that has written row 1 and stays open.
fn left_open<'d>(database: &'d Database, table: &Table<u64, i64>) -> Transaction<'d> {
    let txn = database.begin(TxnOptions::default()).unwrap();
    txn.put(table, &1, &1).unwrap();
    txn
}

fn assert_gave_up<T: std::fmt::Debug>(scheme: Scheme, what: &str, result: Result<T, Error>) {
    match result {
        Err(Error::GaveUp { attempts: ATTEMPTS, .. }) => {}
        other => panic!("{scheme}, {what}: {other:?}"),
    }
}

/// Whether a transaction that declares nothing excludes all others.
fn runs_alone(scheme: Scheme) -> bool {
    matches!(scheme, Scheme::Serial | Scheme::Vll | Scheme::Partitioned)
}

#[test]
fn a_writer_of_a_row_that_an_open_transaction_has_written_gives_up() {
    // Under `silo` a transaction keeps its writes to itself until it commits.
    for scheme in Scheme::ALL.into_iter().filter(|&scheme| scheme != Scheme::Silo) {
        let (database, table) = open(impatient(scheme));
        let open = left_open(&database, &table);
        assert_gave_up(scheme, "the same row", database.run(|txn| txn.put(&table, &1, &2)));
        let other = database.run(|txn| txn.put(&table, &2, &2));
        if runs_alone(scheme) {
            assert_gave_up(scheme, "another row", other)
        } else {
            other.unwrap()
        }
        drop(open);
        database.run(|txn| txn.put(&table, &1, &2)).unwrap_or_else(|error| panic!("{scheme}: {error}"));
    }
}

#[test]
fn readers_beside_an_open_transaction_return() {
    for scheme in Scheme::ALL {
        let (database, table) = open(impatient(scheme));
        let open = left_open(&database, &table);
        match database.run(|txn| txn.get(&table, &1)) {
            Ok(value) => assert_eq!(value, Some(0), "{scheme}"),
            result if scheme.has_versions() || scheme == Scheme::Silo => panic!("{scheme}: {result:?}"),
            result => assert_gave_up(scheme, "a reader", result),
        }
        if scheme.has_snapshots() {
            let snapshot = database.snapshot().unwrap();
            assert_eq!(snapshot.get(&table, &1).unwrap(), Some(0), "{scheme}");
        }
        drop(open);
    }
}

#[test]
fn declared_transactions_beside_an_open_one_give_up_where_they_meet_it() {
    let (database, table) = open(impatient(Scheme::Vll));
    let declared = |key: u64| TxnOptions::declared(AccessSet::new().write(&table, &key));
    let open = database.begin(declared(1)).unwrap();
    assert_gave_up(Scheme::Vll, "a declared row", database.run_with(declared(1), |txn| txn.put(&table, &1, &1)));
    database.run_with(declared(2), |txn| txn.put(&table, &2, &2)).unwrap();
    drop(open);
    database.run_with(declared(1), |txn| txn.put(&table, &1, &1)).unwrap();
}

#[test]
fn the_time_limit_ends_a_run_too() {
    let limit = Duration::from_millis(20);
    let options = Options::default().attempts_max(u32::MAX).run_max(limit);
    let (database, table) = open(options);
    let _open = left_open(&database, &table);
    match database.run(|txn| txn.put(&table, &1, &2)) {
        Err(Error::GaveUp { elapsed, attempts, last }) => {
            assert!(elapsed >= limit && attempts > 0);
            assert_eq!(last.table.as_deref(), Some("rows"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_run_inside_of_a_run_is_refused() {
    for scheme in Scheme::ALL {
        let (database, table) = open(impatient(scheme));
        let (other, rows) = open(impatient(scheme));
        database
            .run(|txn| {
                txn.put(&table, &1, &1)?;
                let inner = database.run(|txn| txn.put(&table, &1, &2));
                assert!(matches!(inner, Err(Error::Nested(_))), "{scheme}: {inner:?}");
                // Another database is not affected, and hides nothing.
                other.run(|txn| {
                    let inner = database.run(|txn| txn.put(&table, &1, &2));
                    assert!(matches!(inner, Err(Error::Nested(_))), "{scheme}, through another database: {inner:?}");
                    txn.put(&rows, &1, &3)
                })
            })
            .unwrap_or_else(|error| panic!("{scheme}: {error}"));
        let read = |txn: &Transaction<'_>| txn.get(&table, &1);
        assert_eq!(database.run(read).unwrap(), Some(1), "{scheme}");
    }
}

#[test]
fn a_checkpoint_or_backup_inside_of_a_run_is_refused() {
    for scheme in Scheme::ALL {
        let files = FaultyDirectory::new();
        let database = Database::open_in(Arc::new(files), impatient(scheme)).unwrap();
        let table = database.table::<u64, i64>("rows").unwrap();
        database
            .run(|txn| {
                txn.put(&table, &1, &1)?;
                let made = database.checkpoint();
                assert!(matches!(made, Err(Error::Nested(_))), "{scheme}: {made:?}");
                let made = database.backup_in(&FaultyDirectory::new());
                assert!(matches!(made, Err(Error::Nested(_))), "{scheme}: {made:?}");
                Ok::<_, Error>(())
            })
            .unwrap_or_else(|error| panic!("{scheme}: {error}"));
        database.checkpoint().unwrap();
    }
}

#[test]
fn after_a_body_that_panics_transactions_run_as_before() {
    let (database, table) = open(Options::default());
    let run = || database.run(|_| -> Result<(), Error> { panic!("by design") });
    assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
    database.run(|txn| txn.put(&table, &1, &1)).unwrap();
}

/// Adds one to a row, with time for others to run in between.
struct Add<'t> {
    table: &'t Table<u64, i64>,
    attempts: u32,
}

impl Job for Add<'_> {
    type Output = ();
    type Error = Error;

    fn run<A: Access>(&mut self, txn: &Transaction<'_, A>) -> Result<(), Error> {
        self.attempts += 1;
        let value = txn.get(self.table, &1)?.expect("the row is there");
        thread::yield_now();
        txn.put(self.table, &1, &(value + 1))
    }

    fn lost(&mut self, _: &Abort) {}
}

/// The bound holds where an attempt ends within `wait_max`, which is long enough here for every attempt.
#[test]
fn a_transaction_commits_at_the_latest_when_it_runs_alone() {
    const THREADS: usize = 6;
    const ITERATIONS: i64 = 60;
    for scheme in Scheme::ALL {
        let options = Options::default().scheme(scheme).wait_max(Duration::from_secs(600));
        let (database, table) = open(options.run_max(Duration::from_secs(3600)));
        let (most, together) = (AtomicU32::new(0), Barrier::new(THREADS));
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    together.wait();
                    for _ in 0..ITERATIONS {
                        let mut add = Add { table: &table, attempts: 0 };
                        database.run_job(&mut add).unwrap();
                        most.fetch_max(add.attempts, Ordering::Relaxed);
                    }
                });
            }
        });
        let most = most.into_inner();
        assert!(most <= ATTEMPTS_UNTIL_ALONE, "{scheme}: {most} attempts");
        let sum = database.run(|txn| txn.get(&table, &1)).unwrap();
        assert!(scheme == Scheme::Rc || sum == Some(THREADS as i64 * ITERATIONS), "{scheme}: {sum:?}");
    }
}

#[test]
fn no_attempts_are_refused() {
    assert!(matches!(Database::open_in_memory(Options::default().attempts_max(0)), Err(Error::Options(_))));
}

/// A body may return an object that holds a lock, or memory. The result of a lost attempt must not stand in the way of
/// the next one.
#[test]
fn what_a_lost_attempt_has_returned_is_let_go() {
    for scheme in [Scheme::Silo, Scheme::MvOcc] {
        let database = Database::open_in_memory(Options::default().scheme(scheme)).unwrap();
        let table = database.table::<u64, i64>("table").unwrap();
        database.run(|txn| (0..2).try_for_each(|key| txn.insert(&table, &key, &0))).unwrap();
        let (held, attempts) = (Mutex::new(()), AtomicU32::new(0));
        let guard = database.run(|txn| {
            let guard = held.try_lock().expect("no other thread holds it");
            txn.get(&table, &0)?;
            txn.put(&table, &1, &1)?;
            if attempts.fetch_add(1, Ordering::SeqCst) == 0 {
                let other = database.begin(TxnOptions::default())?;
                other.put(&table, &0, &1)?;
                other.commit()?;
            }
            Ok::<_, Error>(guard)
        });
        drop(guard.unwrap());
        assert_eq!(attempts.into_inner(), 2, "{scheme}: the first attempt loses at its commit");
    }
}

//! Goal: an error that a transaction's body returns follows from reads that some serial order has.
//!
//! Method. A body reads one of two accounts, lets another transaction move money between them, reads the other account,
//! and fails if the sum is wrong. The other transaction runs in the middle of the first attempt, so every run takes the
//! same course under a given scheme. `a_wrong_sum_is_never_reported` does the same with threads that meet by chance.

use std::{
    cell::Cell,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use ermine::{
    Access, Database, Error, Job, Options, Scheme, SecondaryIndex, Table, TableOptions, Transaction, TxnOptions,
    Uniqueness,
};

const TOTAL: i64 = 200;

/// The finding of a transaction's body.
#[derive(Debug)]
enum Failure {
    /// The accounts have this sum.
    Sum(i64),
    /// No account has the balance that one of them has.
    NoBalance,
    Engine(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

struct Bank {
    database: Database,
    accounts: Table<u64, i64>,
    by_balance: SecondaryIndex<i64, u64, i64>,
    notes: Table<u64, i64>,
}

impl Bank {
    fn open(scheme: Scheme) -> Self {
        // Under schemes that wait, a transaction inside of another one of the same thread waits in vain.
        let options = Options::default().scheme(scheme).wait_max(Duration::from_millis(1));
        let database = Database::open_in_memory(options).unwrap();
        let accounts = database.table_with("accounts", TableOptions::default()).unwrap();
        let key_of = |_: &u64, balance| balance;
        let by_balance = database.index(&accounts, "by balance", Uniqueness::NonUnique, key_of).unwrap();
        let notes = database.table("notes").unwrap();
        let bank = Self { database, accounts, by_balance, notes };
        let open = |txn: &Transaction<'_>| (1..=2).try_for_each(|key| txn.put(&bank.accounts, &key, &(TOTAL / 2)));
        bank.database.run(open).unwrap();
        bank
    }

    /// Moves money in a transaction of its own, if the scheme lets it.
    fn transfer(&self, amount: i64) {
        let moved = || -> ermine::Result<()> {
            let txn = self.database.begin(TxnOptions::default())?;
            for (key, amount) in [(1, -amount), (2, amount)] {
                let balance = txn.get(&self.accounts, &key)?.unwrap();
                txn.put(&self.accounts, &key, &(balance + amount))?;
            }
            txn.commit().map(drop)
        };
        match moved() {
            Ok(()) | Err(Error::Abort(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Reads both accounts with a transfer in between, in the first attempt.
struct Sum<'b> {
    bank: &'b Bank,
    /// The writes that the body does before the reads.
    writes: Writes,
    attempts: Cell<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writes {
    Nothing,
    /// A row that no other transaction touches.
    Another,
    /// An account that the body reads first.
    Account,
    /// A new row, which is undone with the transaction.
    Insert,
}

impl<'b> Sum<'b> {
    const ALL: [Writes; 4] = [Writes::Nothing, Writes::Another, Writes::Account, Writes::Insert];

    fn new(bank: &'b Bank, writes: Writes) -> Self {
        Self { bank, writes, attempts: Cell::new(0) }
    }

    fn body<A: Access>(&self, txn: &Transaction<'_, A>) -> Result<(), Failure> {
        let Bank { accounts, notes, .. } = self.bank;
        let attempt = self.attempts.replace(self.attempts.get() + 1);
        match self.writes {
            Writes::Nothing => {}
            Writes::Another => txn.put(notes, &1, &1)?,
            Writes::Account => {
                let balance = txn.get(accounts, &1)?.unwrap();
                txn.put(accounts, &1, &balance)?;
            }
            Writes::Insert => {
                txn.insert(notes, &7, &7)?;
                txn.delete(notes, &7)?;
            }
        }
        let one = txn.get(accounts, &1)?.unwrap();
        if attempt == 0 {
            self.bank.transfer(10);
        }
        let two = txn.get(accounts, &2)?.unwrap();
        if one + two == TOTAL { Ok(()) } else { Err(Failure::Sum(one + two)) }
    }
}

impl Job for Sum<'_> {
    type Output = ();
    type Error = Failure;

    fn run<A: Access>(&mut self, txn: &Transaction<'_, A>) -> Result<(), Failure> {
        self.body(txn)
    }
}

fn serializable() -> impl Iterator<Item = Scheme> {
    Scheme::ALL.into_iter().filter(|scheme| scheme.is_serializable())
}

#[test]
fn a_transaction_that_is_retried_until_it_ends_reports_no_wrong_sum() {
    for scheme in serializable() {
        for writes in Sum::ALL {
            let bank = Bank::open(scheme);
            let sum = Sum::new(&bank, writes);
            bank.database.run(|txn| sum.body(txn)).unwrap_or_else(|error| panic!("{scheme}, {writes:?}: {error:?}"));
            let mut sum = Sum::new(&bank, writes);
            let job = bank.database.run_job(&mut sum);
            job.unwrap_or_else(|error| panic!("{scheme}, {writes:?}, as a job: {error:?}"));
            let sum = Sum::new(&bank, writes);
            let run = bank.database.run_async(|txn| sum.body(txn)).map(|((), _)| ());
            run.unwrap_or_else(|error| panic!("{scheme}, {writes:?}, async: {error:?}"));
        }
    }
}

#[test]
fn one_attempt_reports_a_conflict_and_no_wrong_sum() {
    for scheme in serializable() {
        for writes in Sum::ALL {
            let bank = Bank::open(scheme);
            match bank.database.try_job(&mut Sum::new(&bank, writes)) {
                Ok(()) | Err(Failure::Engine(Error::Abort(_))) => {}
                Err(error) => panic!("{scheme}, {writes:?}: {error:?}"),
            }
        }
    }
}

#[test]
fn what_an_application_drives_reports_a_wrong_sum_only_after_its_reads_are_committed() {
    for scheme in serializable() {
        for writes in Sum::ALL {
            let bank = Bank::open(scheme);
            let sum = Sum::new(&bank, writes);
            let txn = bank.database.begin(TxnOptions::default()).unwrap();
            match sum.body(&txn) {
                Err(Failure::Sum(sum)) => {
                    let certified = txn.commit_reads();
                    assert!(certified.is_err(), "{scheme}, {writes:?}: the sum {sum} was certified");
                }
                Ok(()) | Err(Failure::Engine(Error::Abort(_))) => drop(txn),
                Err(error) => panic!("{scheme}, {writes:?}: {error:?}"),
            }
        }
    }
}

/// A weaker scheme shows the anomaly that the others must prevent.
#[test]
fn read_committed_reports_a_wrong_sum() {
    let bank = Bank::open(Scheme::Rc);
    let sum = Sum::new(&bank, Writes::Nothing);
    assert!(matches!(bank.database.run(|txn| sum.body(txn)), Err(Failure::Sum(210))));
}

/// A true error leaves at once, and every effect of its transaction is undone.
#[test]
fn a_true_error_leaves_at_the_first_attempt_and_undoes_the_writes() {
    for scheme in Scheme::ALL {
        let bank = Bank::open(scheme);
        let attempts = Cell::new(0);
        let done: Result<(), Failure> = bank.database.run(|txn| {
            attempts.set(attempts.get() + 1);
            txn.put(&bank.accounts, &1, &0)?;
            txn.insert(&bank.accounts, &3, &5)?;
            txn.delete(&bank.accounts, &2)?;
            let sum = txn.scan(&bank.accounts, ..).collect()?.iter().map(|(_, balance)| balance).sum();
            Err(Failure::Sum(sum))
        });
        assert!(matches!(done, Err(Failure::Sum(5))), "{scheme}: {done:?}");
        assert_eq!(attempts.get(), 1, "{scheme}");
        let rows = bank.database.run(|txn| txn.scan(&bank.accounts, ..).collect()).unwrap();
        assert_eq!(rows, [(1, TOTAL / 2), (2, TOTAL / 2)], "{scheme}");
        let rows = bank.database.run(|txn| txn.scan_by(&bank.by_balance, ..).collect()).unwrap();
        assert_eq!(rows, [(1, TOTAL / 2), (2, TOTAL / 2)], "{scheme}, by balance");
        let inserted: Result<(), Error> = bank.database.run(|txn| txn.insert(&bank.accounts, &1, &1));
        assert!(matches!(inserted, Err(Error::KeyExists { .. })), "{scheme}: {inserted:?}");
    }
}

/// Transfers, and readers that fail if a sum is wrong or if no account has a balance that one of them must have.
#[test]
fn a_wrong_sum_is_never_reported() {
    const READS: u64 = if cfg!(miri) { 20 } else { 400 };
    for scheme in serializable() {
        let bank = Bank::open(scheme);
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let writer = scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let moved: Result<(), Error> = bank.database.run(|txn| {
                        let [one, two] = [1, 2].map(|key| txn.get(&bank.accounts, &key));
                        let (one, two) = (one?.unwrap(), two?.unwrap());
                        txn.put(&bank.accounts, &1, &two)?;
                        txn.put(&bank.accounts, &2, &one)?;
                        txn.put(&bank.accounts, &1, &(two - 7))?;
                        txn.put(&bank.accounts, &2, &(one + 7))
                    });
                    moved.unwrap();
                }
            });
            let readers: Vec<_> = (0..2)
                .map(|reader| {
                    let bank = &bank;
                    scope.spawn(move || {
                        for at in 0..READS {
                            let read = bank.database.run(|txn| {
                                if at % 2 == 0 {
                                    txn.put(&bank.notes, &(reader * READS + at), &1)?;
                                }
                                let one = txn.get(&bank.accounts, &1)?.unwrap();
                                // The writer runs in between, also on one core.
                                thread::yield_now();
                                let two = txn.get(&bank.accounts, &2)?.unwrap();
                                if one + two != TOTAL {
                                    return Err(Failure::Sum(one + two));
                                }
                                let with = txn.scan_by(&bank.by_balance, one..=one).collect()?;
                                if with.is_empty() { Err(Failure::NoBalance) } else { Ok(()) }
                            });
                            read.unwrap_or_else(|error| panic!("{scheme}: {error:?}"));
                        }
                    })
                })
                .collect();
            let read: Vec<_> = readers.into_iter().map(thread::ScopedJoinHandle::join).collect();
            done.store(true, Ordering::Relaxed);
            writer.join().unwrap();
            read.into_iter().for_each(|read| read.unwrap());
        });
    }
}

/// A row that a transaction has written without reading it disappears under it, so that its scan does not show its own
/// row. The error that follows from that never gets out, also when the write has been rolled back to a savepoint.
#[test]
fn a_transaction_that_missed_its_own_row_does_not_fail_for_that() {
    for scheme in Scheme::ALL.into_iter().filter(|scheme| scheme.is_serializable()) {
        for (goes_back, through_index) in [(false, false), (false, true), (true, false), (true, true)] {
            let bank = Bank::open(scheme);
            let begun = || bank.database.begin(TxnOptions::default());
            let mut txn = begun().unwrap();
            let mut step = || -> ermine::Result<bool> {
                let savepoint = txn.savepoint()?;
                txn.put(&bank.accounts, &1, &(TOTAL / 2))?;
                let deleted = begun().and_then(|other| {
                    other.delete(&bank.accounts, &1)?;
                    other.commit().map(drop)
                });
                assert!(matches!(deleted, Ok(()) | Err(Error::Abort(_))), "{scheme}: {deleted:?}");
                // The key leaves the index.
                for key in 10..100 {
                    let written = begun().and_then(|other| {
                        other.put(&bank.notes, &key, &0)?;
                        other.commit().map(drop)
                    });
                    assert!(matches!(written, Ok(()) | Err(Error::Abort(_))), "{scheme}: {written:?}");
                }
                let sees_own = match through_index {
                    true => txn.scan_by(&bank.by_balance, ..).collect()?.iter().any(|(key, _)| *key == 1),
                    false => txn.scan(&bank.accounts, ..).collect()?.iter().any(|(key, _)| *key == 1),
                };
                if goes_back {
                    txn.roll_back_to(savepoint)?;
                }
                Ok(sees_own)
            };
            match step() {
                Ok(sees_own) => {
                    let certified = txn.commit_reads();
                    assert!(sees_own || certified.is_err(), "{scheme}, {goes_back}, {through_index}: {certified:?}");
                }
                Err(Error::Abort(_)) => {}
                Err(error) => panic!("{scheme}: {error}"),
            }
        }
    }
}

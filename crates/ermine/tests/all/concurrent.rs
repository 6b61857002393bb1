//! Goal: what holds for one thread holds for many, with more threads than cores.
//!
//! Method: threads share a database for a fixed time, and every transaction checks an invariant that one lost update,
//! one torn snapshot, one missed phantom or one dirty read would break; the judge of [`history::graph`] checks whole
//! histories. Anomalies that a scheme permits are provoked, with barriers where they must be certain, so that each
//! check is known to be able to fail. Threads meet at barriers and channels, never by sleeping; where two transactions
//! should overlap on few cores, they yield in the middle.
//!
//! `ERMINE_TEST_SECONDS=n` runs each test for n seconds, `ERMINE_TEST_SEED=n` repeats the random numbers of a failure
//! (the threads may still take turns in another order).

use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Barrier, Mutex,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use ermine::{
    Access, Database, Error, Job, Options, Result, Scheme, Table, Transaction, TxnOptions, Uniqueness, files::Directory,
};
use ermine_testing::faulty::FaultyDirectory;
use fastrand::Rng;

use crate::history::{self, NameSeed, Operation, Session, Shape, Store};

/// More than the cores of most machines that this runs on, and several times more than a small machine has.
const THREADS: usize = 8;

/// Longer than any machine, however busy, keeps a transaction of another thread from going on.
const WAIT_MAX: Duration = Duration::from_secs(3600);

/// Returns the schemes under which a transaction reads one snapshot.
fn snapshot_schemes() -> impl Iterator<Item = Scheme> {
    Scheme::ALL.into_iter().filter(|scheme| scheme.reads_snapshot())
}

/// Returns the schemes under which the committed transactions have a serial order.
fn serializable_schemes() -> impl Iterator<Item = Scheme> {
    Scheme::ALL.into_iter().filter(|scheme| scheme.is_serializable())
}

fn open(scheme: Scheme) -> Database {
    Database::open_in_memory(Options::default().scheme(scheme)).unwrap()
}

fn fill(database: &Database, table: &Table<u64, i64>, rows: impl IntoIterator<Item = (u64, i64)>) {
    let txn = database.begin(TxnOptions::default()).unwrap();
    rows.into_iter().for_each(|(key, value)| txn.insert(table, &key, &value).unwrap());
    txn.commit().unwrap();
}

/// Runs `threads` copies of `work`, each with its number and a random number generator, until the time is up for all.
fn run_threads(threads: usize, seed: u64, work: impl Fn(usize, Rng) + Sync) {
    let start = Barrier::new(threads);
    thread::scope(|scope| {
        for number in 0..threads {
            let (start, work) = (&start, &work);
            scope.spawn(move || {
                let _on_failure = NameSeed(seed);
                start.wait();
                work(number, Rng::with_seed(seed ^ number as u64));
            });
        }
    });
}

// ---------------------------------------------------------------------------------------------------------------------
// A bank: money is moved and never made. Every reader sees the same sum, whichever way it is added up.

const ACCOUNTS: u64 = 20;
const BALANCE: i64 = 1000;

struct Transfer<'t> {
    accounts: &'t Table<u64, i64>,
    from: u64,
    to: u64,
    amount: i64,
}

impl Transfer<'_> {
    fn perform<A: Access>(&self, txn: &Transaction<'_, A>) -> Result<()> {
        let from = txn.get(self.accounts, &self.from)?.expect("accounts are not closed");
        if self.from.is_multiple_of(3) {
            thread::yield_now();
        }
        let to = txn.get(self.accounts, &self.to)?.expect("accounts are not closed");
        txn.put(self.accounts, &self.from, &(from - self.amount))?;
        assert!(txn.update(self.accounts, &self.to, &(to + self.amount))?);
        Ok(())
    }
}

impl Job for Transfer<'_> {
    type Output = ();
    type Error = Error;

    fn run<A: Access>(&mut self, txn: &Transaction<'_, A>) -> Result<()> {
        self.perform(txn)
    }
}

#[test]
fn transfers_keep_the_sum_for_every_reader() {
    for scheme in snapshot_schemes() {
        let seed = history::seed();
        let bank = open(scheme);
        let accounts = bank.table::<u64, i64>("accounts").unwrap();
        // A function of the key alone: entries do not move, and yet every scan re-checks them.
        let by_branch = bank.index(&accounts, "by branch", Uniqueness::NonUnique, |key, _| key % 4).unwrap();
        let by_balance = bank.index(&accounts, "by balance", Uniqueness::NonUnique, |_, balance| balance).unwrap();
        fill(&bank, &accounts, (0..ACCOUNTS).map(|key| (key, BALANCE)));
        let end = Instant::now() + history::seconds(0.4);
        let (transfers, audits) = (AtomicU64::new(0), AtomicU64::new(0));
        run_threads(THREADS, seed, |number, mut rng| {
            while Instant::now() < end {
                if number < 2 {
                    let options = if rng.bool() { TxnOptions::read_only() } else { TxnOptions::default() };
                    let txn = bank.begin(options).unwrap();
                    let way = rng.u8(..4);
                    let rows = match way {
                        0 => txn.scan(&accounts, ..).collect(),
                        1 => txn.scan(&accounts, ..).rev().collect(),
                        2 => txn.scan_by(&by_branch, ..).collect(),
                        _ => txn.scan_by(&by_balance, ..).collect(),
                    };
                    match rows {
                        // Even a transaction that cannot commit has read a snapshot.
                        Ok(rows) => {
                            let sum: i64 = rows.iter().map(|row| row.1).sum();
                            assert_eq!((rows.len(), sum), (ACCOUNTS as usize, BALANCE * ACCOUNTS as i64), "way {way}");
                            audits.fetch_add(1, SeqCst);
                        }
                        Err(Error::Abort(_)) => assert!(scheme.is_serializable(), "a snapshot can always be read"),
                        Err(error) => panic!("{error}"),
                    }
                    assert!(txn.commit().is_ok() || scheme.is_serializable(), "a reader cannot lose under si");
                } else {
                    let (from, to) = (rng.u64(..ACCOUNTS), rng.u64(..ACCOUNTS - 1));
                    let to = (from + 1 + to) % ACCOUNTS;
                    let mut transfer = Transfer { accounts: &accounts, from, to, amount: rng.i64(-9..=9) };
                    match number % 2 {
                        0 => bank.run(|txn| transfer.perform(txn)).unwrap(),
                        _ => bank.run_job(&mut transfer).unwrap(),
                    }
                    transfers.fetch_add(1, SeqCst);
                }
            }
        });
        let rows = bank.run(|txn| txn.scan(&accounts, ..).collect()).unwrap();
        assert_eq!(rows.iter().map(|row| row.1).sum::<i64>(), BALANCE * ACCOUNTS as i64);
        let (transfers, audits) = (transfers.into_inner(), audits.into_inner());
        assert!(transfers > 0 && audits > 0, "{transfers} transfers, {audits} audits");
        assert!(bank.statistics().commits >= transfers);
        eprintln!("{scheme}: {transfers} transfers, {audits} audits, {:?}", bank.statistics());
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Write skew: two accounts may be overdrawn one by one, but not together.

/// Draws 60 from one account of a pair if the pair can bear it, and fills it up if it cannot; returns whether it drew.
fn draw(txn: &Transaction<'_>, pairs: &Table<u64, i64>, pair: u64, first: bool) -> Result<()> {
    let (x, y) = (txn.get(pairs, &(pair * 2))?.unwrap(), txn.get(pairs, &(pair * 2 + 1))?.unwrap());
    thread::yield_now();
    if x + y < 60 {
        txn.put(pairs, &(pair * 2), &50)?;
        txn.put(pairs, &(pair * 2 + 1), &50)
    } else if first {
        txn.put(pairs, &(pair * 2), &(x - 60))
    } else {
        txn.put(pairs, &(pair * 2 + 1), &(y - 60))
    }
}

/// Draws from few pairs with many threads until the time is up or a pair is seen overdrawn; returns whether one was.
fn draw_with_threads(scheme: Scheme, longest: Duration) -> bool {
    const PAIRS: u64 = 4;
    let seed = history::seed();
    let database = open(scheme);
    let pairs = database.table::<u64, i64>("pairs").unwrap();
    fill(&database, &pairs, (0..PAIRS * 2).map(|key| (key, 50)));
    let overdrawn = AtomicBool::new(false);
    let end = Instant::now() + longest;
    run_threads(THREADS, seed, |_, mut rng| {
        while Instant::now() < end && !overdrawn.load(SeqCst) {
            let (pair, first) = (rng.u64(..PAIRS), rng.bool());
            database.run(|txn| draw(txn, &pairs, pair, first)).unwrap();
            // Only committed reads count: a reader that sees half of a cycle is refused.
            let sum = database.run(|txn| {
                Ok::<_, Error>(txn.get(&pairs, &(pair * 2))?.unwrap() + txn.get(&pairs, &(pair * 2 + 1))?.unwrap())
            });
            if sum.unwrap() < 0 {
                overdrawn.store(true, SeqCst);
            }
        }
    });
    overdrawn.into_inner()
}

#[test]
fn write_skew_under_load_never_happens_where_it_must_not() {
    for scheme in serializable_schemes() {
        assert!(!draw_with_threads(scheme, history::seconds(0.4)), "under {scheme}");
    }
}

#[test]
fn write_skew_under_load_happens_under_snapshot_isolation() {
    assert!(draw_with_threads(Scheme::Si, Duration::from_secs(60)), "then the test above proves nothing");
}

#[test]
fn write_skew_between_two_threads_is_decided_by_the_scheme() {
    for scheme in snapshot_schemes() {
        for round in 0..200 {
            let database = open(scheme);
            let table = database.table::<u64, i64>("pair").unwrap();
            fill(&database, &table, [(0, 50), (1, 50)]);
            let both_have_read = Barrier::new(2);
            let committed = [0, 1].map(|_| AtomicBool::new(false));
            run_threads(2, round, |number, _| {
                let txn = database.begin(TxnOptions::default()).unwrap();
                let sum = txn.get(&table, &0).unwrap().unwrap() + txn.get(&table, &1).unwrap().unwrap();
                both_have_read.wait();
                let key = number as u64;
                let drawn = txn.put(&table, &key, &(50 - sum)).and_then(|()| txn.commit().map(drop));
                committed[number].store(drawn.is_ok(), SeqCst);
            });
            let committed = committed.map(AtomicBool::into_inner);
            match scheme.is_serializable() {
                true => assert_ne!(committed, [true, true], "both drew everything in round {round} under {scheme}"),
                false => assert_eq!(committed, [true, true], "they wrote different rows"),
            }
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Counters and registers.

#[test]
fn increments_are_not_lost_where_snapshots_are_read() {
    for scheme in Scheme::ALL {
        let seed = history::seed();
        let database = open(scheme);
        let counters = database.table::<u64, i64>("counters").unwrap();
        fill(&database, &counters, (0..3).map(|key| (key, 0)));
        let end = Instant::now() + history::seconds(0.25);
        let done = [0; 3].map(AtomicI64::new);
        run_threads(THREADS * 4, seed, |_, mut rng| {
            let mut last = [0; 3];
            while Instant::now() < end {
                let key = rng.u64(..3);
                let slow = rng.u8(..8) == 0;
                let value = database.run(|txn| {
                    let value = txn.get(&counters, &key)?.unwrap();
                    if slow {
                        thread::yield_now();
                    }
                    txn.put(&counters, &key, &(value + 1))?;
                    Ok::<_, Error>(value + 1)
                });
                let value = value.unwrap();
                if scheme != Scheme::Rc {
                    assert!(value > last[key as usize], "counter {key} went from {last:?} to {value}");
                }
                last[key as usize] = value;
                done[key as usize].fetch_add(1, SeqCst);
            }
        });
        for (key, done) in done.into_iter().enumerate() {
            let (value, done) = (database.run(|txn| txn.get(&counters, &(key as u64))).unwrap(), done.into_inner());
            eprintln!("{scheme}: counter {key} at {value:?} after {done} increments");
            match scheme {
                Scheme::Rc => assert!(value.is_some_and(|value| 0 < value && value <= done)),
                _ => assert_eq!(value, Some(done)),
            }
        }
    }
}

#[test]
fn a_register_shows_committed_values_in_their_order() {
    // Writers put (writer, sequence, whether it will be rolled back); readers see no value that was rolled back, and
    // from each writer never an older value after a newer one.
    const WRITERS: usize = THREADS;
    for scheme in Scheme::ALL {
        let seed = history::seed();
        let database = open(scheme);
        let registers = database.table::<u64, Vec<u8>>("registers").unwrap();
        let name = |writer: usize, sequence: u64, doomed: bool| format!("{writer} {sequence} {doomed}").into_bytes();
        database.run(|txn| (0..2).try_for_each(|key| txn.insert(&registers, &key, &name(0, 0, false)))).unwrap();
        let end = Instant::now() + history::seconds(0.25);
        run_threads(WRITERS * 2, seed, |number, mut rng| {
            let mut sequence = 0;
            let mut newest = [[0; WRITERS]; 2];
            while Instant::now() < end {
                let key = rng.u64(..2);
                let txn = database.begin(TxnOptions::default()).unwrap();
                if number < WRITERS {
                    sequence += 1;
                    let doomed = rng.u8(..4) == 0;
                    if txn.put(&registers, &key, &name(number, sequence, doomed)).is_ok() {
                        thread::yield_now();
                        if doomed {
                            txn.rollback();
                        } else if let Err(error) = txn.commit() {
                            assert!(error.as_abort().is_some() && scheme.is_serializable(), "{error}");
                        }
                    }
                    continue;
                }
                for _ in 0..rng.u8(1..4) {
                    let Ok(view) = txn.view(&registers, &key) else {
                        assert!(scheme.is_serializable(), "a read cannot lose");
                        break;
                    };
                    let seen = String::from_utf8(view.unwrap().to_vec()).unwrap();
                    let words: Vec<_> = seen.split(' ').collect();
                    let (writer, sequence) = (words[0].parse::<usize>().unwrap(), words[1].parse::<u64>().unwrap());
                    assert_eq!(words[2], "false", "a value that was rolled back");
                    let newest = &mut newest[key as usize][writer];
                    assert!(sequence >= *newest, "{seen} after {newest}");
                    *newest = sequence;
                    thread::yield_now();
                }
            }
        });
    }
}

#[test]
fn what_has_committed_is_seen_by_whoever_is_told() {
    for scheme in Scheme::ALL {
        let database = open(scheme);
        let table = database.table::<u64, i64>("table").unwrap();
        fill(&database, &table, [(0, 0), (1, 0)]);
        let end = Instant::now() + history::seconds(0.3);
        thread::scope(|scope| {
            let (tell, told) = mpsc::channel::<i64>();
            let (database, table) = (&database, &table);
            for key in 1..3 {
                // Other transactions commit meanwhile, so that at all times some stamps are taken and not yet
                // published.
                scope.spawn(move || {
                    while Instant::now() < end {
                        database.run(|txn| txn.put(table, &key, &1)).unwrap();
                    }
                });
            }
            scope.spawn(move || {
                for value in 1.. {
                    database.run(|txn| txn.put(table, &0, &value)).unwrap();
                    let own = database.run(|txn| txn.get(table, &0)).unwrap();
                    assert_eq!(own, Some(value), "by the transaction that wrote it");
                    if tell.send(value).is_err() || Instant::now() >= end {
                        break;
                    }
                }
            });
            scope.spawn(move || {
                for value in told {
                    let seen = database.run(|txn| txn.get(table, &0)).unwrap();
                    assert!(seen >= Some(value), "told of {value} under {scheme}, and saw {seen:?}");
                }
            });
        });
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Whole histories before the judge.

/// Plays histories with threads until the time is up, or `enough` returns true; returns how many had a cycle.
fn judge_histories(scheme: Scheme, longest: Duration, enough: impl Fn(usize) -> bool) -> usize {
    let end = Instant::now() + longest;
    let (mut cycles, mut histories, mut commits, mut aborts) = (0, 0, 0, 0);
    while Instant::now() < end && !enough(cycles) {
        let seed = history::seed();
        let _on_failure = NameSeed(seed);
        let rng = &mut Rng::with_seed(seed);
        let shape = Shape::random(rng);
        let initial = shape.initial(rng);
        // Now and then whatever can leave memory does so all the time.
        let is_cold = scheme.has_versions() && rng.u8(..4) == 0;
        let directory = is_cold.then(|| Arc::new(FaultyDirectory::new()) as Arc<dyn Directory>);
        let store = Store::create(scheme, &shape, &initial, WAIT_MAX, directory, is_cold);
        let records = Mutex::new((Vec::new(), Vec::new()));
        run_threads(rng.usize(2..=THREADS), seed, |number, mut rng| {
            let (mut committed, mut aborted) = (Vec::new(), Vec::new());
            for at in 0..100 {
                let options = history::random_options(&mut rng, scheme);
                let read_only = options.read_only;
                let mut session = Session::begin(&store, (number, at), options);
                for operation in 0..rng.usize(1..=shape.operations) {
                    if rng.u8(..3) == 0 {
                        thread::yield_now();
                    }
                    let value = (number as u64 + 1) << 32 | (at as u64) << 8 | operation as u64;
                    session.apply(&Operation::random(&mut rng, &shape, read_only, value));
                    if session.aborted.is_some() {
                        break;
                    }
                }
                if rng.u8(..20) == 0 {
                    aborted.push(session.rollback(rng.bool()));
                    continue;
                }
                if rng.u8(..6) == 0 {
                    session.prepare();
                    (0..rng.u8(..4)).for_each(|_| thread::yield_now());
                }
                match session.commit() {
                    (record, Ok(())) => committed.push(record),
                    (record, Err(_)) => aborted.push(record),
                }
            }
            let mut all = records.lock().unwrap();
            all.0.append(&mut committed);
            all.1.append(&mut aborted);
        });
        let (committed, aborted) = records.into_inner().unwrap();
        let has_cycle = history::check(scheme, &initial, &committed, &aborted, &store.state());
        cycles += usize::from(has_cycle);
        histories += 1;
        commits += committed.len();
        aborts += aborted.len();
    }
    eprintln!("{scheme}: {histories} histories, {cycles} with cycles, {commits} commits, {aborts} aborts");
    cycles
}

#[test]
fn histories_of_threads_are_serializable_where_they_must_be() {
    for scheme in serializable_schemes() {
        assert_eq!(judge_histories(scheme, history::seconds(0.6), |_| false), 0);
    }
}

#[test]
fn histories_of_threads_show_their_cycles_under_the_weaker_schemes() {
    for scheme in [Scheme::Rc, Scheme::Si] {
        let cycles = judge_histories(scheme, Duration::from_secs(60), |cycles| cycles >= 10);
        assert!(cycles >= 10, "then the test above proves nothing: {cycles}");
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Keys that are inserted and deleted again.

#[test]
fn a_token_that_moves_between_keys_is_always_in_exactly_one_place() {
    // Keys are deleted and inserted again all the time: tombstones are overwritten, entries removed and reclaimed under
    // scans that must neither lose the token nor see it twice.
    for scheme in snapshot_schemes() {
        let seed = history::seed();
        let database = open(scheme);
        let places = database.table::<u64, i64>("places").unwrap();
        let by_color = database.index(&places, "by color", Uniqueness::NonUnique, |_, color| color).unwrap();
        fill(&database, &places, [(0, 0)]);
        let end = Instant::now() + history::seconds(0.4);
        let moves = AtomicU64::new(0);
        run_threads(THREADS, seed, |number, mut rng| {
            while Instant::now() < end {
                if number < THREADS / 2 {
                    let (to, color) = (rng.u64(..40), rng.i64(0..5));
                    let moved = database.run(|txn| {
                        let token = txn.scan(&places, ..).collect()?;
                        let [(from, _)] = token[..] else { panic!("the mover sees {token:?}") };
                        assert!(txn.delete(&places, &from)?);
                        assert_eq!(txn.scan_by(&by_color, ..).first()?, None, "deleted by itself");
                        txn.insert(&places, &to, &color)?;
                        Ok::<_, Error>(1)
                    });
                    moves.fetch_add(moved.unwrap(), SeqCst);
                    continue;
                }
                let options = if rng.bool() { TxnOptions::read_only() } else { TxnOptions::default() };
                let txn = database.begin(options).unwrap();
                let look = |rng: &mut Rng| match rng.u8(..4) {
                    0 => txn.scan(&places, ..).collect(),
                    1 => txn.scan(&places, ..).rev().collect(),
                    2 => txn.scan_by(&by_color, ..).collect(),
                    _ => txn.scan_by(&by_color, ..).rev().collect(),
                };
                let mut first = None;
                for _ in 0..3 {
                    let Ok(token) = look(&mut rng) else {
                        assert!(scheme.is_serializable(), "a snapshot can always be read");
                        break;
                    };
                    assert_eq!(token.len(), 1, "{token:?}");
                    assert_eq!(txn.get(&places, &token[0].0).ok().flatten().unwrap_or(token[0].1), token[0].1);
                    assert_eq!(*first.get_or_insert(token[0]), token[0], "within one transaction");
                    thread::yield_now();
                }
            }
        });
        assert!(moves.into_inner() > 0);
    }
}

#[test]
fn a_unique_value_is_held_by_one() {
    // A lock made of a row: the transaction that commits the row holds the lock, until the delete begins to commit.
    for scheme in Scheme::ALL {
        for through_index in [false, true] {
            let seed = history::seed();
            let database = open(scheme);
            let locks = database.table::<u64, i64>("locks").unwrap();
            let uniqueness = if through_index { Uniqueness::Unique } else { Uniqueness::NonUnique };
            database.index(&locks, "by name", uniqueness, |_, name| name).unwrap();
            let end = Instant::now() + history::seconds(0.25);
            let held = [const { AtomicBool::new(false) }; 3];
            let takes = AtomicU64::new(0);
            run_threads(THREADS, seed, |number, mut rng| {
                while Instant::now() < end {
                    let lock = rng.usize(..held.len());
                    // With the index every thread has a key of its own, and the threads contend for the value.
                    let key = if through_index { (number * held.len() + lock) as u64 } else { lock as u64 };
                    let txn = database.begin(TxnOptions::default()).unwrap();
                    match txn.insert(&locks, &key, &(lock as i64)).and_then(|()| txn.commit()) {
                        Ok(_) => {}
                        Err(Error::KeyExists { index, .. }) => {
                            assert_eq!(index.is_some(), through_index);
                            continue;
                        }
                        Err(Error::Abort(_)) => continue,
                        Err(error) => panic!("{error}"),
                    }
                    assert!(!held[lock].swap(true, SeqCst), "lock {lock} was taken while it was held");
                    takes.fetch_add(1, SeqCst);
                    thread::yield_now();
                    assert!(held[lock].swap(false, SeqCst));
                    let removed = database.run(|txn| txn.delete(&locks, &key)).unwrap();
                    assert!(removed, "lock {lock} was lost while it was held");
                }
            });
            assert_eq!(database.run(|txn| txn.scan(&locks, ..).collect()).unwrap(), []);
            assert!(takes.into_inner() > 0);
        }
    }
}

#[test]
fn a_unique_index_lets_one_of_many_inserters_win() {
    const VALUES: u64 = 200;
    for scheme in Scheme::ALL {
        let database = open(scheme);
        let users = database.table::<u64, i64>("users").unwrap();
        let by_name = database.index(&users, "by name", Uniqueness::Unique, |_, name| name).unwrap();
        let winners = Mutex::new(BTreeMap::new());
        // In small batches, so that all threads contend for most of the values.
        for batch in 0..VALUES / 10 {
            run_threads(THREADS, batch, |number, _| {
                for value in batch * 10..batch * 10 + 10 {
                    let key = value * THREADS as u64 + number as u64;
                    match database.run(|txn| txn.insert(&users, &key, &(value as i64))) {
                        Ok(()) => assert_eq!(winners.lock().unwrap().insert(value, key), None, "two have {value}"),
                        Err(Error::KeyExists { index, .. }) => assert_eq!(index.as_deref(), Some("by name")),
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        let winners: Vec<_> =
            winners.into_inner().unwrap().into_iter().map(|(value, key)| (key, value as i64)).collect();
        assert_eq!(winners.len(), VALUES as usize, "every value has a winner");
        assert_eq!(database.run(|txn| txn.scan(&users, ..).collect()).unwrap(), winners);
        assert_eq!(database.run(|txn| txn.scan_by(&by_name, ..).collect()).unwrap(), winners);
    }
}

#[test]
fn ascending_inserts_of_many_threads_are_all_there() {
    // All threads insert at the right end, into the leaf that is being split.
    for scheme in Scheme::ALL {
        let database = open(scheme);
        let table = database.table::<u64, i64>("table").unwrap();
        let by_value = database.index(&table, "by value", Uniqueness::NonUnique, |_, value| value).unwrap();
        let (next, end) = (AtomicU64::new(0), Instant::now() + history::seconds(0.25));
        run_threads(THREADS, 0, |number, _| {
            while Instant::now() < end && next.load(SeqCst) < 200_000 {
                let key = next.fetch_add(1, SeqCst);
                database.run(|txn| txn.insert(&table, &key, &(number as i64))).unwrap();
                assert_eq!(database.run(|txn| txn.get(&table, &key)).unwrap(), Some(number as i64));
            }
        });
        let keys = next.into_inner();
        let mut expected = 0;
        let txn = database.begin(TxnOptions::read_only()).unwrap();
        txn.scan(&table, ..)
            .for_each(|key, _| {
                assert_eq!(key, expected);
                expected += 1;
                Ok(ControlFlow::Continue(()))
            })
            .unwrap();
        assert_eq!(expected, keys);
        let mut rows = txn.scan_by(&by_value, ..).rev().collect().unwrap();
        assert!(rows.is_sorted_by_key(|&(key, value)| std::cmp::Reverse((value, key))));
        rows.dedup();
        assert_eq!(rows.len(), keys as usize);
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Transactions as objects: moved, dropped, long, and never starved.

#[test]
fn a_transaction_moves_between_threads() {
    for scheme in Scheme::ALL {
        let database = open(scheme);
        let table = database.table::<u64, i64>("table").unwrap();
        thread::scope(|scope| {
            let (database, table) = (&database, &table);
            for lane in 0..4_u64 {
                let (to_second, second) = mpsc::channel::<(u64, Transaction<'_>)>();
                let (to_third, third) = mpsc::channel::<(u64, Transaction<'_>)>();
                scope.spawn(move || {
                    for round in 0..200 {
                        let txn = database.begin(TxnOptions::default()).unwrap();
                        if txn.insert(table, &(lane * 1000 + round), &1).is_ok() {
                            to_second.send((round, txn)).unwrap();
                        }
                    }
                });
                scope.spawn(move || {
                    for (round, txn) in second {
                        let key = lane * 1000 + round;
                        assert_eq!(txn.get(table, &key).ok(), Some(Some(1)), "its own write on another thread");
                        if txn.update(table, &key, &2).is_ok() {
                            to_third.send((round, txn)).unwrap();
                        }
                    }
                });
                scope.spawn(move || {
                    for (round, txn) in third {
                        match round % 3 {
                            0 => drop(txn),
                            1 => txn.rollback(),
                            // Neighbours insert into the same leaves, which no transaction has scanned.
                            _ => drop(txn.commit().unwrap()),
                        }
                    }
                });
            }
        });
        let rows = database.run(|txn| txn.scan(&table, ..).collect()).unwrap();
        let expected: Vec<_> = (0..4_u64)
            .flat_map(|lane| (0..200).filter(|round| round % 3 == 2).map(move |round| (lane * 1000 + round, 2)))
            .collect();
        assert_eq!(rows, expected, "only what was committed, under {scheme}");
    }
}

#[test]
fn whatever_ends_without_a_commit_leaves_nothing() {
    for scheme in Scheme::ALL {
        let database = open(scheme);
        let table = database.table::<u64, i64>("table").unwrap();
        let by_value = database.index(&table, "by value", Uniqueness::Unique, |_, value| value).unwrap();
        fill(&database, &table, (0..4).map(|key| (key, key as i64)));
        run_threads(4, 0, |number, _| {
            let key = number as u64;
            for round in 0..100 {
                let scribble = |txn: &Transaction<'_>| {
                    txn.update(&table, &key, &(1000 + key as i64))?;
                    txn.insert(&table, &(100 + key), &(2000 + key as i64))?;
                    txn.delete(&table, &(100 + key))?;
                    txn.insert(&table, &(200 + key), &(3000 + key as i64))?;
                    txn.delete(&table, &key).map(drop)
                };
                let scribble_alone = || {
                    let txn = database.begin(TxnOptions::default()).unwrap();
                    let scribbled = scribble(&txn);
                    // Looking for a unique value can find the neighbours' inserts in the leaf.
                    assert!(scribbled.is_ok() || scheme.is_serializable(), "{scribbled:?}");
                    txn
                };
                match round % 4 {
                    0 => drop(scribble_alone()),
                    1 => {
                        let failed = database.run(|txn| {
                            scribble(txn)?;
                            Err::<(), _>(Error::other("the application says no"))
                        });
                        assert!(matches!(failed, Err(Error::Application(_))), "{failed:?}");
                    }
                    2 => {
                        let panics = AssertUnwindSafe(|| {
                            database.run(|txn| {
                                scribble(txn)?;
                                std::panic::resume_unwind(Box::new("the application panics"));
                                #[expect(unreachable_code, reason = "gives the closure its type")]
                                Ok::<(), Error>(())
                            })
                        });
                        assert!(catch_unwind(panics).is_err());
                    }
                    _ => scribble_alone().rollback(),
                }
                assert_eq!(database.run(|txn| txn.get(&table, &key)).unwrap(), Some(key as i64));
            }
        });
        let expected: Vec<_> = (0..4).map(|key| (key, key as i64)).collect();
        assert_eq!(database.run(|txn| txn.scan(&table, ..).collect()).unwrap(), expected);
        assert_eq!(database.run(|txn| txn.scan_by(&by_value, ..).collect()).unwrap(), expected);
    }
}

#[test]
fn a_writer_waits_for_the_one_before_it_under_read_committed() {
    for scheme in [Scheme::Rc, Scheme::RcSsn] {
        for commits in [true, false] {
            // Longer than the test may take: the wait does not end by a timeout.
            let options = Options::default().scheme(scheme).wait_max(Duration::from_secs(3600));
            let database = Database::open_in_memory(options).unwrap();
            let table = database.table::<u64, i64>("table").unwrap();
            fill(&database, &table, [(0, 0)]);
            let first = database.begin(TxnOptions::default()).unwrap();
            first.put(&table, &0, &1).unwrap();
            first.insert(&table, &1, &1).unwrap();
            thread::scope(|scope| {
                let second = scope.spawn(|| {
                    let second = database.begin(TxnOptions::default()).unwrap();
                    second.put(&table, &0, &2)?;
                    let inserted = second.insert(&table, &1, &2);
                    assert_eq!(matches!(inserted, Err(Error::KeyExists { .. })), commits, "{inserted:?}");
                    second.commit().map(drop)
                });
                // Whichever of the two is first, the second one does not lose.
                (0..1000).for_each(|_| thread::yield_now());
                if commits {
                    first.commit().unwrap();
                } else {
                    first.rollback();
                }
                second.join().unwrap().unwrap();
            });
            let expected = if commits { 1 } else { 2 };
            assert_eq!(
                database.run(|txn| txn.scan(&table, ..).collect()).unwrap(),
                [(0, 2), (1, expected)],
                "{scheme}"
            );
        }
    }
}

/// Of several transactions that would wait in a cycle one gives up at once, and the others go on.
#[test]
fn no_writers_wait_in_a_circle_under_read_committed() {
    const ROUNDS: u64 = 200;
    for scheme in [Scheme::Rc, Scheme::RcSsn] {
        // Longer than the test may take: no round may end by a timeout.
        let options = Options::default().scheme(scheme).wait_max(Duration::from_secs(3600));
        let database = Database::open_in_memory(options).unwrap();
        let table = database.table::<u64, i64>("table").unwrap();
        fill(&database, &table, (0..3).map(|key| (key, 0)));
        let barrier = Barrier::new(3);
        let written = AtomicU64::new(0);
        run_threads(3, 0, |number, _| {
            for round in 0..ROUNDS {
                barrier.wait();
                let txn = database.begin(TxnOptions::default()).unwrap();
                let mut lost = None;
                for step in 0..2 {
                    let key = (number as u64 + step) % 3;
                    lost = txn.put(&table, &key, &(round as i64)).err();
                    if lost.is_some() {
                        break;
                    }
                    thread::yield_now();
                }
                match lost {
                    None => {
                        txn.commit().unwrap();
                        written.fetch_add(1, SeqCst);
                    }
                    Some(error) => {
                        let kind = error.as_abort().map(|abort| abort.kind);
                        assert_eq!(kind, Some(ermine::AbortKind::WriteConflict), "{scheme}: {error}");
                    }
                }
            }
        });
        assert!(written.into_inner() > 0, "all give up under {scheme}");
    }
}

#[test]
fn a_wait_for_a_transaction_that_stays_open_ends_under_read_committed() {
    for scheme in [Scheme::Rc, Scheme::RcSsn] {
        let options = Options::default().scheme(scheme).wait_max(Duration::from_millis(5));
        let database = Database::open_in_memory(options).unwrap();
        let table = database.table::<u64, i64>("table").unwrap();
        fill(&database, &table, [(0, 0)]);
        let open = database.begin(TxnOptions::default()).unwrap();
        open.put(&table, &0, &1).unwrap();
        let late = database.begin(TxnOptions::default()).unwrap();
        let error = late.put(&table, &0, &2).unwrap_err();
        assert_eq!(error.as_abort().map(|abort| abort.kind), Some(ermine::AbortKind::Timeout), "{scheme}");
        open.commit().unwrap();
    }
}

#[test]
fn a_view_stays_what_it_was_until_its_transaction_ends() {
    // A row of equal bytes is overwritten all the time, mostly by transactions that are about to commit when another
    // begins.
    const BYTES: usize = 200;
    for scheme in Scheme::ALL {
        let seed = history::seed();
        let database = open(scheme);
        let table = database.table::<u64, Vec<u8>>("table").unwrap();
        database.run(|txn| txn.insert(&table, &0, &[0; BYTES][..])).unwrap();
        let end = Instant::now() + history::seconds(0.4);
        let (views, begun) = (AtomicU64::new(0), Instant::now());
        run_threads(THREADS, seed, |number, mut rng| {
            while Instant::now() < end {
                if number < THREADS / 2 {
                    database.run(|txn| txn.put(&table, &0, &[rng.u8(..0xdd); BYTES][..])).unwrap();
                    continue;
                }
                let may_lose = |error: ermine::Error| {
                    assert!(!scheme.has_versions() && error.as_abort().is_some(), "a read cannot lose: {error}");
                };
                let txn = match database.begin(TxnOptions::default()) {
                    Ok(txn) => txn,
                    // A transaction waits at most `wait_max` for its turn (`serial`): on a crowded machine that is not
                    // always enough.
                    Err(error) => {
                        assert!(scheme.waits(), "no transaction waits to begin: {error}");
                        may_lose(error);
                        continue;
                    }
                };
                let view = match txn.view(&table, &0) {
                    Ok(view) => view.expect("a row is there"),
                    Err(error) => {
                        may_lose(error);
                        continue;
                    }
                };
                let first = view[0];
                for _ in 0..20 {
                    thread::yield_now();
                    assert!(view.iter().all(|&byte| byte == first), "under {scheme} a view has become {view:?}");
                }
                views.fetch_add(1, SeqCst);
            }
        });
        eprintln!("{scheme}: {views:?} views in {:?}", begun.elapsed());
        assert!(views.into_inner() > 0);
    }
}

/// Sets the flag when this goes out of scope.
struct Set<'f>(&'f AtomicBool);

impl Drop for Set<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

#[test]
fn a_long_reader_sees_its_snapshot_while_everything_changes() {
    const ROWS: u64 = 50;
    for scheme in snapshot_schemes() {
        let seed = history::seed();
        let database = open(scheme);
        let table = database.table::<u64, i64>("table").unwrap();
        let by_value = database.index(&table, "by value", Uniqueness::NonUnique, |_, value| value).unwrap();
        fill(&database, &table, (0..ROWS).map(|key| (key, 0)));
        let expected: Vec<_> = (0..ROWS).map(|key| (key, 0)).collect();
        let reader = database.begin(TxnOptions::read_only()).unwrap();
        let borrowed = reader.view(&table, &7).unwrap();
        let (end, stop) = (Instant::now() + history::seconds(0.4), AtomicBool::new(false));
        thread::scope(|scope| {
            for number in 0..4 {
                let (database, table, stop) = (&database, &table, &stop);
                scope.spawn(move || {
                    let _on_failure = NameSeed(seed);
                    let mut rng = Rng::with_seed(seed ^ number);
                    while !stop.load(SeqCst) {
                        let (key, value) = (rng.u64(..ROWS), rng.i64(1..100));
                        // Writes that depend on nothing cannot be refused for long.
                        match rng.u8(..8) {
                            0 => drop(database.run(|txn| txn.delete(table, &key)).unwrap()),
                            1 => database.run(|txn| txn.put(table, &(key + 1000), &value)).unwrap(),
                            _ => database.run(|txn| txn.put(table, &key, &value)).unwrap(),
                        }
                    }
                });
            }
            // Set even if a check fails: the scope waits for the other threads.
            let _at_last = Set(&stop);
            let mut scans = 0;
            while Instant::now() < end {
                let rows = match scans % 3 {
                    0 => reader.scan(&table, ..).collect(),
                    1 => reader.scan(&table, ..).rev().collect().map(|rows| rows.into_iter().rev().collect()),
                    _ => reader.scan_by(&by_value, ..).collect(),
                };
                match rows {
                    Ok(rows) => assert_eq!(rows, expected, "scan {scans}"),
                    // A certified reader may learn early that it cannot commit.
                    Err(error) => assert!(scheme.is_serializable() && error.as_abort().is_some(), "{error}"),
                }
                assert_eq!(borrowed, Some(0), "a view stays what it was");
                scans += 1;
            }
            assert!(reader.commit().is_ok() || scheme.is_serializable());
            eprintln!("{scheme}: {scans} scans, then {:?}", database.statistics());
            // Once the reader has ended, its versions must be freed as long as some thread works.
            let patience = Instant::now() + Duration::from_secs(30);
            while database.statistics().garbage_versions > 20_000 {
                assert!(Instant::now() < patience, "garbage stays: {:?}", database.statistics());
                thread::yield_now();
            }
        });
    }
}

#[test]
fn a_slow_transaction_among_fast_ones_gets_through() {
    // All threads read and write the same three rows. Left to chance the slow transaction never gets through: between
    // reading and writing it waits until another one has overtaken it, or for a while if none does. The fast ones do
    // not stop before the slow one has finished. No attempt takes as long as `wait_max`: the bound of
    // docs/design/run.md holds.
    const SLOW_ROUNDS: i64 = 3;
    const PATIENCE: usize = 100;
    const ATTEMPTS_MAX: u32 = 13;
    for scheme in Scheme::ALL {
        let options = Options::default().scheme(scheme).wait_max(Duration::from_secs(600));
        let database = Database::open_in_memory(options.attempts_max(ATTEMPTS_MAX).run_max(Duration::MAX)).unwrap();
        let hot = database.table::<u64, i64>("hot").unwrap();
        fill(&database, &hot, (0..3).map(|key| (key, 0)));
        let finished = AtomicBool::new(false);
        let (increments, slow_attempts) = (AtomicI64::new(0), AtomicU64::new(0));
        let increment = |txn: &Transaction<'_>, between: &dyn Fn()| {
            for key in 0..3 {
                let value = txn.get(&hot, &key)?.unwrap();
                between();
                txn.put(&hot, &key, &(value + 1))?;
            }
            Ok::<_, Error>(())
        };
        run_threads(THREADS, 0, |number, _| {
            if number > 0 {
                while !finished.load(SeqCst) {
                    database.run(|txn| increment(txn, &|| ())).unwrap();
                    increments.fetch_add(1, SeqCst);
                }
                return;
            }
            for _ in 0..SLOW_ROUNDS {
                let done = database.run(|txn| {
                    slow_attempts.fetch_add(1, SeqCst);
                    let values: Vec<_> = (0..3).map(|key| txn.get(&hot, &key)).collect::<Result<_>>()?;
                    let before = increments.load(SeqCst);
                    for _ in (0..PATIENCE).take_while(|_| increments.load(SeqCst) == before) {
                        thread::yield_now();
                    }
                    (0..3).zip(values).try_for_each(|(key, value)| txn.put(&hot, &key, &(value.unwrap() + 1)))
                });
                if done.is_err() {
                    finished.store(true, SeqCst);
                }
                assert!(done.is_ok(), "the slow one starves under {scheme} after {slow_attempts:?} attempts: {done:?}");
                increments.fetch_add(1, SeqCst);
            }
            finished.store(true, SeqCst);
        });
        let values: Vec<_> = database.run(|txn| txn.scan(&hot, ..).collect()).unwrap();
        eprintln!("{scheme}: {increments:?} transactions, the slow one tried {slow_attempts:?} times, {values:?}");
        if scheme != Scheme::Rc {
            assert!(values.iter().all(|row| row.1 == increments.load(SeqCst)));
        }
    }
}

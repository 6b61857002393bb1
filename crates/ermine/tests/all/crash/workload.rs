//! The work of clients on the database, and the record of it.
//!
//! A few tables with indexes, one of them created in the middle; clients that insert, update, delete, insert again and
//! give up, in transactions of one row or of hundreds. Every transaction that writes has a number, and leaves it in the
//! ledger, a table with a row per client: so no two states of the database are equal.
//!
//! An acknowledged transaction is noted as a mark in the directory, by its number.

use std::{
    collections::BTreeMap,
    sync::{
        RwLock,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};

use ermine::{
    Database, Durability, Error, Options, Result, Scheme, SecondaryIndex, Stamp, Table, Transaction, TxnOptions,
    Uniqueness,
};
use ermine_testing::faulty::FaultyDirectory;
use fastrand::Rng;

use super::past::{Commit, Creation, Past, RowKey};

/// Tables by name, in the order of their creation.
const TABLES: [&str; 4] = ["ledger", "plain", "indexed", "late"];
pub const LEDGER: usize = 0;
/// Tables from this one on have indexes.
const INDEXED: usize = 2;
/// This table is created in the middle.
const LATE: usize = 3;

/// Keys of a table that are used again and again.
const KEYS: u64 = 90;

/// The configuration with which a database is run.
#[derive(Clone, Debug)]
pub struct Setting {
    pub clients: usize,
    /// Steps of each client.
    pub steps: usize,
    /// How many of 100 transactions wait for the device.
    pub durable: u32,
    pub scheme: Scheme,
    pub segment_bytes: u64,
    /// More large transactions and checkpoints, which are compressed where they can be.
    pub heavy: bool,
}

impl Setting {
    pub fn random(rng: &mut Rng, clients: usize, steps: usize) -> Self {
        let asked = std::env::var("ERMINE_TEST_SCHEME").map(|name| name.parse().expect("a scheme"));
        // Each family is as likely as the other.
        let has_versions = rng.bool();
        let schemes: Vec<_> = Scheme::ALL.into_iter().filter(|scheme| scheme.has_versions() == has_versions).collect();
        let scheme = schemes[rng.usize(..schemes.len())];
        Self {
            clients,
            steps,
            durable: [100, 80, 30][rng.usize(..3)],
            scheme: asked.unwrap_or(scheme),
            segment_bytes: [64 << 10, 70_001, 128 << 10][rng.usize(..3)],
            heavy: rng.u8(..4) == 0,
        }
    }

    pub fn options(&self) -> Options {
        let options = Options::default().scheme(self.scheme).compress_checkpoints(self.heavy);
        options.log_buffer_bytes(64 << 10).segment_bytes(self.segment_bytes)
    }
}

/// A table that has been opened, with its indexes.
#[derive(Clone)]
pub struct Opened {
    pub rows: Table<u64, Vec<u8>>,
    pub by_group: Option<SecondaryIndex<u64, u64, Vec<u8>>>,
    pub by_mark: Option<SecondaryIndex<u64, u64, Vec<u8>>>,
}

impl Opened {
    /// Opens a table, or creates it.
    pub fn open(db: &Database, table: usize) -> Result<Self> {
        let rows = db.table(TABLES[table])?;
        let (mut by_group, mut by_mark) = (None, None);
        if table >= INDEXED {
            by_group = Some(db.index(&rows, "by group", Uniqueness::NonUnique, |_, value| group_of(value))?);
            by_mark = Some(db.index(&rows, "by mark", Uniqueness::Unique, |_, value| mark_of(value))?);
        }
        Ok(Self { rows, by_group, by_mark })
    }
}

fn number_at(value: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(value[at..at + 8].try_into().expect("eight bytes"))
}

/// Returns the key of a row's entry in the non-unique index.
pub fn group_of(value: &[u8]) -> u64 {
    number_at(value, 0)
}

/// Returns the key of a row's entry in the unique index.
pub fn mark_of(value: &[u8]) -> u64 {
    number_at(value, 8)
}

fn random_value(rng: &mut Rng, number: u64, filler: usize) -> Vec<u8> {
    // Now and then a mark that another row may already have.
    let mark = if rng.u8(..8) == 0 { rng.u64(..100) } else { rng.u64(..1 << 40) };
    let mut value = rng.u64(..6).to_le_bytes().to_vec();
    value.extend(mark.to_le_bytes());
    value.extend(number.to_le_bytes());
    let length = value.len() + rng.usize(..=filler);
    value.resize_with(length, || rng.u8(..));
    value
}

/// The next action of a client.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A transaction on a few rows.
    Few,
    /// A transaction on many small rows.
    Many,
    /// A transaction that is too large for a block of the log.
    Large,
    /// A transaction that is given up at the end.
    GivenUp,
    /// A transaction with a value that gets a file of its own.
    Huge,
    /// Reads the ledger, and waits until the rows it has read are durable.
    Read,
    Checkpoint,
}

impl Step {
    fn random(rng: &mut Rng, heavy: bool) -> Self {
        match rng.u8(..100) {
            0..12 if heavy => Self::Large,
            12..20 if heavy => Self::Checkpoint,
            0..75 => Self::Few,
            75..79 => Self::Many,
            79..82 => Self::Large,
            82..84 => Self::Huge,
            84..92 => Self::GivenUp,
            92..98 => Self::Read,
            _ => Self::Checkpoint,
        }
    }
}

/// Runs clients on a database, which goes on where `past` ends. Returns what has happened since; an error means that
/// the log broke.
pub fn run(db: &Database, directory: &FaultyDirectory, setting: &Setting, seed: u64, past: Past) -> (Past, Result<()>) {
    let mut rng = Rng::with_seed(seed);
    let run = Run {
        db,
        directory,
        setting,
        tables: RwLock::default(),
        number: AtomicU64::new(past.highest_number() + 1),
        settled: past.settled(),
    };
    let mut first =
        Client { run: &run, name: 0, rng: rng.fork(), last: run.settled, commits: vec![], creations: vec![] };
    let prepared = (0..TABLES.len().min(LATE)).try_for_each(|table| first.open(table));
    // Existing tables are opened, too.
    let prepared = prepared.and_then(|()| if past.tables() > LATE { first.open(LATE) } else { Ok(()) });
    let others: Vec<_> = (1..setting.clients as u64)
        .map(|name| Client { run: &run, name, rng: rng.fork(), last: run.settled, commits: vec![], creations: vec![] })
        .collect();
    let (mut commits, mut creations) = (Vec::new(), Vec::new());
    let ended = std::thread::scope(|scope| {
        let clients: Vec<_> = std::iter::once(first)
            .chain(others)
            .map(|mut client| {
                let prepared = &prepared;
                scope.spawn(move || {
                    let ended = if prepared.is_ok() { client.run() } else { Ok(()) };
                    (client.commits, client.creations, ended)
                })
            })
            .collect();
        let mut all = Ok(());
        for client in clients {
            let (done, made, ended) = client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            commits.extend(done);
            creations.extend(made);
            all = all.and(ended);
        }
        all
    });
    (past.and(commits, creations), prepared.and(ended))
}

/// State shared by the clients.
struct Run<'a> {
    db: &'a Database,
    directory: &'a FaultyDirectory,
    setting: &'a Setting,
    tables: RwLock<Vec<Opened>>,
    number: AtomicU64,
    /// The stamp up to which everything existed before.
    settled: Option<Stamp>,
}

struct Client<'a> {
    run: &'a Run<'a>,
    name: u64,
    rng: Rng,
    /// The stamp of the client's last commit.
    last: Option<Stamp>,
    commits: Vec<Commit>,
    creations: Vec<Creation>,
}

/// The effects of a transaction so far: the value under each key that it wrote.
type Effects = BTreeMap<RowKey, Option<Vec<u8>>>;

impl<'a> Client<'a> {
    fn run(&mut self) -> Result<()> {
        for step in 0..self.run.setting.steps {
            if self.name == 0 && step == self.run.setting.steps / 2 && self.tables().len() == LATE {
                self.open(LATE)?;
            }
            match Step::random(&mut self.rng, self.run.setting.heavy) {
                Step::Read => self.read()?,
                Step::Checkpoint => match self.run.db.checkpoint() {
                    // A failed checkpoint has no effect; the database goes on.
                    Ok(_) | Err(Error::Storage(_) | Error::DiskFull(_)) => {}
                    Err(error) => return Err(error),
                },
                step => match self.write(step) {
                    // The file of a large value could not be written.
                    Err(Error::Storage(_) | Error::DiskFull(_)) => {}
                    ended => ended?,
                },
            }
        }
        Ok(())
    }

    fn tables(&self) -> Vec<Opened> {
        self.run.tables.read().unwrap().clone()
    }

    /// Opens a table, which may be created by this.
    fn open(&mut self, table: usize) -> Result<()> {
        let number = self.run.number.fetch_add(1, SeqCst);
        // The table may have been created even if this fails.
        self.creations.push(Creation { table, number, after: self.last, before: None });
        let opened = Opened::open(self.run.db, table)?;
        self.run.directory.mark(number);
        self.run.tables.write().unwrap().push(opened);
        Ok(())
    }

    fn write(&mut self, step: Step) -> Result<()> {
        for _attempt in 0..10 {
            let number = self.run.number.fetch_add(1, SeqCst);
            let durable = self.rng.u32(..100) < self.run.setting.durable;
            let durability = if durable { Durability::Durable } else { Durability::Async };
            let txn = self.run.db.begin(TxnOptions::default().durability(durability))?;
            let effects = match self.body(&txn, step, number) {
                Ok(effects) => effects,
                Err(Error::Abort(_)) => continue,
                Err(error) => return Err(error),
            };
            if let Step::GivenUp = step {
                return Ok(());
            }
            let receipt = match txn.commit_async() {
                Ok(receipt) => receipt,
                Err(Error::Abort(_)) => continue,
                Err(error) => return Err(error),
            };
            let stamp = receipt.stamp();
            assert!(Some(stamp) > self.run.settled, "stamps go on after those that were there");
            self.commits.push(Commit { stamp, number, effects: effects.into_iter().collect() });
            self.last = Some(stamp);
            self.creations.iter_mut().for_each(|creation| _ = creation.before.get_or_insert(stamp));
            if durable {
                receipt.wait()?;
                self.run.directory.mark(number);
            }
            return Ok(());
        }
        Ok(())
    }

    fn body(&mut self, txn: &Transaction<'_>, step: Step, number: u64) -> Result<Effects> {
        let (operations, filler) = match step {
            Step::Few | Step::GivenUp => (self.rng.usize(1..5), [0, 100, 100, 100, 3000][self.rng.usize(..5)]),
            Step::Many => (self.rng.usize(50..200), 30),
            Step::Large => (self.rng.usize(10..60), 3000),
            Step::Huge => (1, 40_000),
            Step::Read | Step::Checkpoint => (0, 0),
        };
        let tables = self.tables();
        let mut effects = Effects::new();
        for _ in 0..operations {
            let table = self.rng.usize(LEDGER + 1..tables.len());
            // Half of the keys are a client's own, so that large transactions get through.
            let key = self.rng.u64(..KEYS);
            let key = if key.is_multiple_of(2) { key } else { key + 1000 * (self.name + 1) };
            let mut value = || random_value(&mut self.rng, number, filler);
            let (one, two) = (value(), value());
            let rows = &tables[table].rows;
            let mut done = |what: Result<bool>, value: Option<Vec<u8>>| match what {
                Ok(true) => {
                    effects.insert((table, key), value);
                    Ok(true)
                }
                Ok(false) => Ok(false),
                Err(Error::KeyExists { .. }) => Ok(false),
                Err(error) => Err(error),
            };
            match self.rng.u8(..10) {
                0..2 => drop(done(txn.insert(rows, &key, &one).map(|()| true), Some(one))?),
                2..4 => drop(done(txn.update(rows, &key, &one), Some(one))?),
                4..6 => drop(done(txn.put(rows, &key, &one).map(|()| true), Some(one))?),
                6..8 => drop(done(txn.delete(rows, &key), None)?),
                8 => {
                    done(txn.delete(rows, &key), None)?;
                    done(txn.insert(rows, &key, &one).map(|()| true), Some(one))?;
                }
                // The row's secondary keys are replaced, then restored.
                _ => {
                    let before = txn.get(rows, &key)?;
                    done(txn.put(rows, &key, &one).map(|()| true), Some(one))?;
                    done(txn.put(rows, &key, &two).map(|()| true), Some(two))?;
                    if let Some(before) = before {
                        done(txn.update(rows, &key, &before), Some(before))?;
                    }
                }
            }
        }
        let row = number.to_le_bytes().to_vec();
        txn.put(&tables[LEDGER].rows, &self.name, &row)?;
        effects.insert((LEDGER, self.name), Some(row));
        Ok(effects)
    }

    /// Reads that wait for durability acknowledge the rows that they return, whichever client wrote them.
    fn read(&mut self) -> Result<()> {
        let ledger = &self.tables()[LEDGER].rows;
        let txn = self.run.db.begin(TxnOptions::default().durability(Durability::Durable))?;
        let found = match txn.scan(ledger, ..).collect() {
            Ok(found) => found,
            Err(Error::Abort(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        match txn.commit() {
            Ok(_) => found.iter().for_each(|(_, number)| self.run.directory.mark(number_at(number, 0))),
            Err(Error::Abort(_)) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

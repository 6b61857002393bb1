//! Random transactions on a small database, recorded for a judge to check afterwards.
//!
//! A history is what every transaction read and wrote, named by values that occur once; [`graph`] judges it. The same
//! sessions serve the single-threaded tests, which interleave them on purpose, and the tests with threads.
//!
//! A value carries the row's group in its top byte, over which a secondary index lies, and a number that no other write
//! of the history has.

pub mod graph;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use ermine::{
    Abort, AbortKind, AccessSet, Database, Durability, Error, IndexKind, IndexOptions, Isolation, Options, Order,
    Result, Savepoint, Scan, Scheme, SecondaryIndex, Table, TableOptions, Transaction, TxnOptions, Uniqueness,
    files::Directory,
};
use fastrand::Rng;

const GROUP_SHIFT: u32 = 56;

/// Returns the value of a row.
pub fn value_of(group: u64, number: u64) -> u64 {
    group << GROUP_SHIFT | number
}

/// Returns the group in a value.
pub fn group_of(value: u64) -> u64 {
    value >> GROUP_SHIFT
}

/// Returns the seed of a test: `ERMINE_TEST_SEED`, or a new one. It is in every message of failure.
pub fn seed() -> u64 {
    match std::env::var("ERMINE_TEST_SEED") {
        Ok(seed) => seed.parse().expect("ERMINE_TEST_SEED is a number"),
        Err(_) => fastrand::u64(..1 << 48),
    }
}

/// Whether one seed was asked for.
#[allow(dead_code, reason = "not all test programs that share this ask for it")]
pub fn one_seed() -> bool {
    std::env::var_os("ERMINE_TEST_SEED").is_some()
}

/// Prints the seed when the test fails.
#[allow(dead_code, reason = "not all test programs that share this ask for it")]
pub struct NameSeed(pub u64);

impl Drop for NameSeed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("again with ERMINE_TEST_SEED={}", self.0);
        }
    }
}

/// Returns the time limit of a test: `ERMINE_TEST_SECONDS`, or `otherwise`.
#[allow(dead_code, reason = "not all test programs that share this ask for it")]
pub fn seconds(otherwise: f64) -> std::time::Duration {
    let seconds = std::env::var("ERMINE_TEST_SECONDS").map(|seconds| seconds.parse().expect("a number of seconds"));
    std::time::Duration::from_secs_f64(seconds.unwrap_or(otherwise))
}

/// Returns any order; mostly the default.
pub fn random_order(rng: &mut Rng) -> Option<Order> {
    [None, None, Some(Order::Session), Some(Order::None)][rng.usize(..4)]
}

/// Returns options of transactions that write, that only read, that read safe snapshots, where the scheme has any, and
/// that ask for snapshot isolation only, in any order.
pub fn random_options(rng: &mut Rng, scheme: Scheme) -> TxnOptions {
    let mut options = match rng.u8(..12) {
        0 => TxnOptions::read_only(),
        1 if scheme.has_snapshots() => TxnOptions::snapshot(),
        2 => TxnOptions::default().isolation(Isolation::Snapshot),
        _ => TxnOptions::default(),
    };
    options.order = random_order(rng);
    options
}

/// The tables and keys that a history works on.
#[derive(Clone, Debug)]
pub struct Shape {
    pub tables: usize,
    /// The keys that change.
    pub keys: Vec<u64>,
    /// Further keys that are only read, so that the others lie in several leaves.
    pub fillers: Vec<u64>,
    /// Number of groups; they are numbered from 0.
    pub groups: u64,
    /// Whether the last table's index is unique.
    pub unique: bool,
    /// The highest number of operations in a transaction.
    pub operations: usize,
    pub thresholds: Thresholds,
    /// The kind of the tables' indexes, primary and secondary.
    pub index: IndexKind,
}

/// Thresholds beyond which reads are not tracked, or not one by one. Histories are much too short for the usual values.
#[derive(Clone, Copy, Debug, Default)]
pub struct Thresholds {
    pub stale_after: Option<u64>,
    pub escalate_after: Option<u64>,
    /// Scans keep no row that they find in a file.
    pub uncached: bool,
}

impl Thresholds {
    pub fn random(rng: &mut Rng) -> Self {
        Self {
            stale_after: [None, Some(0), Some(0), Some(500)][rng.usize(..4)],
            escalate_after: [None, None, Some(0), Some(2)][rng.usize(..4)],
            uncached: rng.bool(),
        }
    }
}

impl Shape {
    /// Returns a few hot keys; now and then far apart, now and then with a unique index.
    pub fn random(rng: &mut Rng) -> Self {
        let keys = rng.u64(3..=8);
        let apart = rng.bool();
        Self {
            tables: rng.usize(1..=2),
            keys: (0..keys).map(|key| if apart { key * 1000 } else { key }).collect(),
            fillers: if apart { (0..keys * 30).map(|at| at / 30 * 1000 + 1 + at % 30).collect() } else { Vec::new() },
            groups: rng.u64(2..=6),
            unique: rng.u8(..4) == 0,
            operations: rng.usize(2..=7),
            thresholds: Thresholds::random(rng),
            index: if rng.bool() { IndexKind::BTree } else { IndexKind::Art },
        }
    }

    /// Returns the rows at the start.
    pub fn initial(&self, rng: &mut Rng) -> State {
        let mut number = 0;
        let mut next = |group| {
            number += 1;
            value_of(group, number)
        };
        (0..self.tables)
            .map(|table| {
                let mut rows = BTreeMap::new();
                for (at, &key) in self.keys.iter().enumerate() {
                    let group = if self.is_unique(table) { at as u64 } else { rng.u64(..self.groups) };
                    if rng.bool() && group < self.groups {
                        rows.insert(key, next(group));
                    }
                }
                if !self.is_unique(table) {
                    rows.extend(self.fillers.iter().map(|&key| (key, next(rng.u64(..self.groups)))));
                }
                rows
            })
            .collect()
    }

    pub fn is_unique(&self, table: usize) -> bool {
        self.unique && table + 1 == self.tables
    }
}

/// The rows of every table.
pub type State = Vec<BTreeMap<u64, u64>>;

type ByGroup = SecondaryIndex<u64, u64, u64>;

/// The tables of a history in a database, and the clock by which its transactions distinguish before from after.
pub struct Store {
    pub database: Database,
    tables: Vec<(Table<u64, u64>, ByGroup)>,
    /// The table whose index is unique.
    unique: Option<usize>,
    /// Numbers the moments at which commits are called and return.
    moments: AtomicU64,
    sessions: [ermine::Session; SESSIONS],
}

/// Sessions of a history; any beyond share one.
const SESSIONS: usize = 16;

impl Store {
    /// `wait_max` limits how long a transaction waits for others; it is zero where one thread drives all of them. In a
    /// `directory`, rows can be evicted.
    pub fn create(
        scheme: Scheme,
        shape: &Shape,
        initial: &State,
        wait_max: Duration,
        directory: Option<Arc<dyn Directory>>,
        evict_always: bool,
    ) -> Self {
        // So long that a snapshot is handed out again whenever it may be.
        let mut options = Options::default().scheme(scheme).snapshot_interval(Duration::from_secs(3600));
        options.wait_max = wait_max;
        options.stale_after = shape.thresholds.stale_after;
        options.escalate_after = shape.thresholds.escalate_after;
        if shape.thresholds.uncached {
            options.uncached_after = 0;
        }
        if scheme == Scheme::Sto32 {
            // So few that counting begins anew in the middle of a history.
            options.timestamps_left = Some(4 * shape.keys.len() as u64);
        }
        options.evict_always = evict_always;
        let database = match directory {
            Some(directory) => {
                let options = options.log_buffer_bytes(64 << 10).segment_bytes(64 << 10);
                Database::open_in(directory, options.durability(Durability::Async)).unwrap()
            }
            None => Database::open_in_memory(options).unwrap(),
        };
        let tables = (0..shape.tables).map(|at| {
            let uniqueness = if shape.is_unique(at) { Uniqueness::Unique } else { Uniqueness::NonUnique };
            let built = TableOptions::default().index(shape.index);
            let table = database.table_with(&format!("table {at}"), built).unwrap();
            let by_group = |_: &u64, value| group_of(value);
            let by_group = database
                .index_with(&table, "by group", IndexOptions::new(uniqueness).kind(shape.index), by_group)
                .unwrap();
            (table, by_group)
        });
        let tables: Vec<_> = tables.collect();
        let txn = database.begin(TxnOptions::default()).unwrap();
        for ((table, _), rows) in tables.iter().zip(initial) {
            for (key, value) in rows {
                txn.insert(table, key, value).unwrap();
            }
        }
        txn.commit().unwrap();
        let unique = (0..shape.tables).find(|&table| shape.is_unique(table));
        Self { database, tables, unique, moments: AtomicU64::new(1), sessions: Default::default() }
    }

    /// Returns what a transaction with these operations declares, if that can be known beforehand: keys, and no unique
    /// index.
    #[allow(dead_code, reason = "not all test programs that share this declare")]
    pub fn declared(&self, operations: &[Operation]) -> Option<AccessSet> {
        operations.iter().try_fold(AccessSet::new(), |declared, operation| {
            let table = |at: usize| &self.tables[at].0;
            Some(match operation {
                Operation::Get { table: at, key } => declared.read(table(*at), key),
                Operation::GetMany { table: at, keys } => {
                    keys.iter().fold(declared, |declared, key| declared.read(table(*at), key))
                }
                Operation::Insert { table: at, key, .. }
                | Operation::Update { table: at, key, .. }
                | Operation::Put { table: at, key, .. }
                | Operation::Delete { table: at, key }
                    if self.unique != Some(*at) =>
                {
                    declared.write(table(*at), key)
                }
                Operation::Savepoint | Operation::GoBack => declared,
                _ => return None,
            })
        })
    }

    /// Returns all current rows; every index must show the same ones, in both directions.
    pub fn state(&self) -> State {
        let txn = self.database.begin(TxnOptions::read_only()).unwrap();
        let tables = self.tables.iter().map(|(table, by_group)| {
            let rows = txn.scan(table, ..).collect().unwrap();
            assert!(rows.is_sorted_by_key(|&(key, _)| key), "{} out of order: {rows:?}", table.name());
            let mut expected = rows.clone();
            expected.sort_by_key(|&(key, value)| (group_of(value), key));
            assert_eq!(txn.scan_by(by_group, ..).collect().unwrap(), expected, "{} by group", table.name());
            expected.reverse();
            assert_eq!(txn.scan_by(by_group, ..).rev().collect().unwrap(), expected, "{} backward", table.name());
            rows.into_iter().collect()
        });
        tables.collect()
    }
}

/// Judges a history by the promises of `scheme`, down to the rows it left behind; returns whether it has a cycle.
#[allow(dead_code, reason = "the single-threaded tests ask the graph themselves")]
pub fn check(scheme: Scheme, initial: &State, committed: &[Record], aborted: &[Record], state: &State) -> bool {
    let snapshots = scheme.reads_snapshot();
    let mut history = graph::History::new(initial, committed, scheme);
    history.permit_torn_scans = !snapshots && !scheme.is_serializable();
    assert_eq!(history.last_rows(initial), *state, "the order of stamps is the order of versions");
    if snapshots {
        for record in aborted {
            assert!(history.snapshot(record).is_some(), "no snapshot shows what this read: {record:?}");
        }
    }
    let verdict = history.judge().unwrap_or_else(|why| panic!("{why}"));
    if let Some(cycle) = verdict.information_flow {
        panic!("an effect before its cause under {scheme}:{}", history.explain(&cycle));
    }
    if let (Some(cycle), true) = (verdict.single, snapshots) {
        panic!("no snapshot under {scheme}:{}", history.explain(&cycle));
    }
    if let (Some(cycle), true) = (&verdict.cycle, scheme.is_serializable()) {
        panic!("no serial order, or none that agrees with time, under {scheme}:{}", history.explain(cycle));
    }
    verdict.cycle.is_some()
}

/// The index that a scan walks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Through {
    Primary,
    ByGroup,
}

impl Through {
    /// Returns the place of a row in the index: (key, 0), or (group, key).
    pub fn entry(self, key: u64, value: u64) -> Entry {
        match self {
            Self::Primary => (key, 0),
            Self::ByGroup => (group_of(value), key),
        }
    }
}

pub type Entry = (u64, u64);

#[derive(Clone, Debug)]
pub enum Operation {
    Get {
        table: usize,
        key: u64,
    },
    GetMany {
        table: usize,
        keys: Vec<u64>,
    },
    Scan {
        table: usize,
        through: Through,
        lower: u64,
        upper: u64,
        backward: bool,
        limit: usize,
    },
    Insert {
        table: usize,
        key: u64,
        value: u64,
    },
    Update {
        table: usize,
        key: u64,
        value: u64,
    },
    Put {
        table: usize,
        key: u64,
        value: u64,
    },
    Delete {
        table: usize,
        key: u64,
    },
    Savepoint,
    /// Rolls back to the last savepoint, if there is one.
    GoBack,
}

impl Operation {
    /// Returns any operation on the keys that change; `number` makes its value unique.
    pub fn random(rng: &mut Rng, shape: &Shape, read_only: bool, number: u64) -> Self {
        let table = rng.usize(..shape.tables);
        let key = shape.keys[rng.usize(..shape.keys.len())];
        let value = value_of(rng.u64(..shape.groups), number);
        match rng.u8(..if read_only { 7 } else { 18 }) {
            0..=2 => Self::Get { table, key },
            3 => {
                let keys = (0..rng.usize(..20)).map(|_| shape.keys[rng.usize(..shape.keys.len())]);
                Self::GetMany { table, keys: keys.collect() }
            }
            choice @ 4..=6 => {
                let through = if choice == 4 { Through::Primary } else { Through::ByGroup };
                let end = match through {
                    Through::Primary => shape.keys.last().unwrap() + 40,
                    Through::ByGroup => shape.groups,
                };
                let lower = rng.u64(..end);
                let upper = rng.u64(lower..end);
                let limit = if rng.u8(..4) == 0 { rng.usize(1..4) } else { usize::MAX };
                Self::Scan { table, through, lower, upper, backward: rng.bool(), limit }
            }
            7..=9 => Self::Insert { table, key, value },
            10 | 11 => Self::Update { table, key, value },
            12 | 13 => Self::Put { table, key, value },
            14 => Self::Savepoint,
            15 => Self::GoBack,
            _ => Self::Delete { table, key },
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Value(Option<u64>),
    Values(Vec<Option<u64>>),
    Rows(Vec<(u64, u64)>),
    /// Whether a write found the row, or its absence, that it needs.
    Wrote(bool),
    /// A savepoint was made, or rolled back to.
    Marked,
    KeyExists {
        /// Whether it exists in the unique index, not in the primary one.
        secondary: bool,
    },
    Aborted(AbortKind),
}

/// An observation by a transaction of versions that are not its own.
#[derive(Clone, Debug)]
pub enum Read {
    /// All rows between two entries of an index, both included; the read implies nothing for the keys in `own`.
    Range { table: usize, through: Through, lower: Entry, upper: Entry, seen: Vec<(u64, u64)>, own: Vec<u64> },
    /// The key has a row.
    Present { table: usize, key: u64 },
}

/// The last write of each (table, key): a value, or `None` for a delete.
pub type Writes = BTreeMap<(usize, u64), Option<u64>>;

/// One transaction of a history.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The session, and the number of the transaction within it.
    pub name: (usize, usize),
    /// The last moment before the transaction began, and the last one before `begin` had returned.
    pub begun: (u64, u64),
    /// The moments at which `commit` was called and had returned, if it did.
    pub committed: Option<(u64, u64)>,
    /// Whether the transaction asked for snapshot isolation only.
    pub relaxed: bool,
    /// Whether it read a safe snapshot.
    pub is_snapshot: bool,
    /// The order that it asked for.
    pub order: Order,
    /// The transaction's place in the order of commits.
    pub stamp: u64,
    pub reads: Vec<Read>,
    pub writes: Writes,
}

/// A running transaction that records its operations.
pub struct Session<'s> {
    store: &'s Store,
    txn: Transaction<'s>,
    snapshot: bool,
    /// Savepoints, each with the writes up to it.
    savepoints: Vec<(Savepoint, Writes)>,
    pub record: Record,
    pub aborted: Option<Abort>,
    /// Whether it has seen an impossible state, and must not commit.
    must_fail: bool,
    /// Whether it is prepared.
    is_prepared: bool,
}

impl<'s> Session<'s> {
    pub fn begin(store: &'s Store, name: (usize, usize), options: TxnOptions) -> Self {
        let before = store.moments.load(SeqCst);
        let snapshot = options.snapshot;
        let relaxed = options.isolation == Isolation::Snapshot && store.database.scheme().has_versions();
        let order = options.order.unwrap_or_default();
        let options = options.session(&store.sessions[name.0.min(SESSIONS - 1)]);
        let txn = store.database.begin(options).unwrap();
        let begun = (before, store.moments.load(SeqCst));
        Self {
            store,
            txn,
            snapshot,
            savepoints: Vec::new(),
            record: Record { name, begun, relaxed, is_snapshot: snapshot, order, ..Record::default() },
            aborted: None,
            must_fail: false,
            is_prepared: false,
        }
    }

    /// Runs an operation and records what it implies for the versions of others.
    pub fn apply(&mut self, operation: &Operation) -> Outcome {
        let outcome = match self.run(operation) {
            Ok(outcome) => outcome,
            Err(Error::KeyExists { index, .. }) => Outcome::KeyExists { secondary: index.is_some() },
            Err(Error::Abort(abort)) => return self.abort(*abort),
            Err(error) => panic!("{operation:?}: {error}"),
        };
        if let Some(first) = &self.aborted {
            panic!("{operation:?} gave {outcome:?} after {first:?}");
        }
        match (operation, &outcome) {
            (&Operation::Get { table, key }, Outcome::Value(value)) => {
                self.saw(table, Through::Primary, (key, 0), (key, 0), value.map(|value| (key, value)));
            }
            (Operation::GetMany { table, keys }, Outcome::Values(values)) => {
                assert_eq!(keys.len(), values.len());
                for (&key, value) in keys.iter().zip(values) {
                    self.saw(*table, Through::Primary, (key, 0), (key, 0), value.map(|value| (key, value)));
                }
            }
            (&Operation::Scan { table, through, lower, upper, backward, limit }, Outcome::Rows(rows)) => {
                let last = rows.last().map(|&(key, value)| through.entry(key, value)).filter(|_| rows.len() >= limit);
                let (mut lower, mut upper) = ((lower, 0), (upper, u64::MAX));
                match last {
                    Some(last) if backward => lower = last,
                    Some(last) => upper = last,
                    None => {}
                }
                self.saw(table, through, lower, upper, rows.iter().copied());
            }
            (
                &Operation::Insert { table, key, value }
                | &Operation::Update { table, key, value }
                | &Operation::Put { table, key, value },
                Outcome::Wrote(true),
            ) => self.wrote(operation, table, key, Some(value)),
            (&Operation::Delete { table, key }, Outcome::Wrote(true)) => self.wrote(operation, table, key, None),
            (&Operation::Update { table, key, .. } | &Operation::Delete { table, key }, Outcome::Wrote(false)) => {
                self.saw(table, Through::Primary, (key, 0), (key, 0), None);
            }
            (&Operation::Insert { table, key, .. }, Outcome::KeyExists { secondary: false }) => {
                if !self.record.writes.contains_key(&(table, key)) {
                    self.record.reads.push(Read::Present { table, key });
                }
            }
            (
                &Operation::Insert { table, value, .. }
                | &Operation::Update { table, value, .. }
                | &Operation::Put { table, value, .. },
                Outcome::KeyExists { secondary: true },
            ) => {
                // The row that has the value is read at once, so that the refusal is a read like any other. Without a
                // snapshot the row may be gone since, or the scan may meet the value in one row and then in the next.
                let group = group_of(value);
                let through = Through::ByGroup;
                let ask = Operation::Scan { table, through, lower: group, upper: group, backward: false, limit: 2 };
                match self.apply(&ask) {
                    Outcome::Rows(rows) => {
                        let may_move = !self.store.database.scheme().reads_snapshot() && !self.record.relaxed;
                        assert!(rows.len() == 1 || may_move, "{operation:?} was refused because of {rows:?}");
                    }
                    aborted @ Outcome::Aborted(_) => return aborted,
                    other => panic!("{ask:?} gave {other:?}"),
                }
            }
            (Operation::Savepoint | Operation::GoBack, Outcome::Marked) => {}
            _ => panic!("{operation:?} gave {outcome:?}"),
        }
        outcome
    }

    fn abort(&mut self, abort: Abort) -> Outcome {
        assert!(!self.snapshot, "a reader of a safe snapshot was aborted: {abort}");
        let first = self.aborted.get_or_insert_with(|| abort.clone());
        assert_eq!(abort, *first, "a transaction that is over keeps saying why");
        Outcome::Aborted(abort.kind)
    }

    fn run(&mut self, operation: &Operation) -> Result<Outcome> {
        let tables = &self.store.tables;
        Ok(match operation {
            Operation::Get { table, key } => Outcome::Value(self.txn.get(&tables[*table].0, key)?),
            Operation::GetMany { table, keys } => Outcome::Values(self.txn.get_many(&tables[*table].0, keys)?),
            Operation::Scan { table, through, lower, upper, backward, limit } => {
                let (table, by_group) = &tables[*table];
                let scan = match through {
                    Through::Primary => self.txn.scan(table, lower..=upper),
                    Through::ByGroup => self.txn.scan_by(by_group, lower..=upper),
                };
                let scan = if *backward { Scan::rev(scan) } else { scan };
                Outcome::Rows(scan.limit(*limit).collect()?)
            }
            Operation::Insert { table, key, value } => {
                self.txn.insert(&tables[*table].0, key, value)?;
                Outcome::Wrote(true)
            }
            Operation::Put { table, key, value } => {
                self.txn.put(&tables[*table].0, key, value)?;
                Outcome::Wrote(true)
            }
            Operation::Update { table, key, value } => {
                Outcome::Wrote(self.txn.update(&tables[*table].0, key, value)?)
            }
            Operation::Delete { table, key } => Outcome::Wrote(self.txn.delete(&tables[*table].0, key)?),
            Operation::Savepoint => {
                self.savepoints.push((self.txn.savepoint()?, self.record.writes.clone()));
                Outcome::Marked
            }
            Operation::GoBack => {
                if let Some((savepoint, writes)) = self.savepoints.pop() {
                    // A transaction that cannot go back, because its unique key was taken meanwhile, loses again.
                    self.aborted = None;
                    self.txn.roll_back_to(savepoint)?;
                    self.txn.release(savepoint)?;
                    self.record.writes = writes;
                } else if let Some(abort) = &self.aborted {
                    return Err(abort.clone().into());
                }
                Outcome::Marked
            }
        })
    }

    /// Records the rows of a range; the transaction's own rows must be as it wrote them.
    fn saw(
        &mut self,
        table: usize,
        through: Through,
        lower: Entry,
        upper: Entry,
        rows: impl IntoIterator<Item = (u64, u64)>,
    ) {
        let mut seen: Vec<_> = rows.into_iter().collect();
        let inside = |key, value| (lower..=upper).contains(&through.entry(key, value));
        let mut own = Vec::new();
        for (&(_, key), &written) in self.record.writes.range((table, 0)..=(table, u64::MAX)) {
            let shown = seen.iter().find(|row| row.0 == key).map(|row| row.1);
            let expected = written.filter(|&value| inside(key, value));
            // An entry that a transaction shares leaves together with the entry's other user: another writer of the
            // row, under schemes whose writers do not lock, or a snapshot. Where leaves are validated at commit, a
            // range may be shown without it: the transaction inserts the entry again at its end, which changes a leaf
            // that it has read, so it cannot commit (`put_entry` in `single/secondary.rs`).
            let scheme = self.store.database.scheme();
            let validates = scheme.has_snapshots() || scheme == Scheme::TsoValidate;
            let may_miss = !scheme.has_versions() && validates && through == Through::ByGroup;
            if may_miss && shown.is_none() && expected.is_some() {
                self.must_fail = true;
                own.push(key);
                continue;
            }
            assert_eq!(shown, expected, "own write of {key} in table {table}, {through:?} {lower:?}..={upper:?}");
            own.push(key);
        }
        seen.retain(|(key, _)| !own.contains(key));
        self.record.reads.push(Read::Range { table, through, lower, upper, seen, own });
    }

    /// Records a write, and what it implies for the versions of others: that there was a row, or none, and that no
    /// other row had the value in a unique index.
    fn wrote(&mut self, operation: &Operation, table: usize, key: u64, value: Option<u64>) {
        if !self.record.writes.contains_key(&(table, key)) {
            match operation {
                Operation::Insert { .. } => self.saw(table, Through::Primary, (key, 0), (key, 0), None),
                Operation::Update { .. } | Operation::Delete { .. } => {
                    self.record.reads.push(Read::Present { table, key });
                }
                _ => {}
            }
        }
        self.record.writes.insert((table, key), value);
        if let Some(value) = value
            && self.store.unique == Some(table)
        {
            let group = group_of(value);
            self.saw(table, Through::ByGroup, (group, 0), (group, u64::MAX), Some((key, value)));
        }
    }

    /// Prepares to commit, if possible: then the commit must not lose.
    #[allow(dead_code, reason = "not all test programs that share this ask for it")]
    pub fn prepare(&mut self) {
        match self.txn.prepare() {
            Ok(is_prepared) => self.is_prepared = is_prepared,
            Err(Error::Abort(abort)) => drop(self.abort(*abort)),
            Err(error) => panic!("prepare: {error}"),
        }
    }

    /// Commits; afterwards the record has the stamp.
    pub fn commit(mut self) -> (Record, Result<(), Abort>) {
        let called = self.store.moments.fetch_add(1, SeqCst);
        match self.txn.commit() {
            Ok(stamp) => {
                assert!(!self.must_fail, "committed without having seen its own row");
                assert_eq!(self.aborted, None, "an aborted transaction has committed");
                self.record.stamp = stamp.as_u64();
                self.record.committed = Some((called, self.store.moments.fetch_add(1, SeqCst)));
                (self.record, Ok(()))
            }
            Err(Error::Abort(abort)) => {
                if let Some(first) = &self.aborted {
                    assert_eq!(*abort, *first, "a transaction that is over keeps saying why");
                }
                assert!(!self.snapshot, "a reader of a safe snapshot was aborted: {abort}");
                assert!(!self.is_prepared, "a prepared transaction has lost: {abort}");
                (self.record, Err(*abort))
            }
            Err(error) => panic!("commit: {error}"),
        }
    }

    /// Fails with an error that must be true: undoes its writes and commits its reads; afterwards the record has the
    /// stamp.
    #[allow(dead_code, reason = "not all test programs that share this fail")]
    pub fn fail(mut self) -> (Record, Result<(), Abort>) {
        let called = self.store.moments.fetch_add(1, SeqCst);
        match self.txn.commit_reads() {
            Ok(stamp) => {
                assert!(!self.must_fail, "has read what cannot be, and its reads were certified");
                assert_eq!(self.aborted, None, "the reads of an aborted transaction were certified");
                self.record.stamp = stamp.as_u64();
                self.record.committed = Some((called, self.store.moments.fetch_add(1, SeqCst)));
                self.record.writes.clear();
                (self.record, Ok(()))
            }
            Err(Error::Abort(abort)) => {
                assert!(!self.snapshot, "a reader of a safe snapshot was aborted: {abort}");
                (self.record, Err(*abort))
            }
            Err(error) => panic!("commit of reads: {error}"),
        }
    }

    /// Rolls back, by a call or by dropping the transaction.
    pub fn rollback(self, dropped: bool) -> Record {
        if dropped {
            drop(self.txn);
        } else {
            self.txn.rollback();
        }
        self.record
    }
}

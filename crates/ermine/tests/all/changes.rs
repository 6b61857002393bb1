//! Goal: the changes that a reader returns are those of the committed transactions: each whole, in the order of
//! commits, and nothing else, wherever reading begins.
//! Method: random transactions on several tables, which are also created, renamed and dropped, change a database and a
//! model of it. A copy is made from the changes alone; after each transaction it is compared with the model as of the
//! same commit. Checkpoints and crashes come in between. In the end the changes are read again from each position.

use std::{collections::BTreeMap, sync::Arc, thread, time::Duration};

use ermine::{
    Change, ChangeReader, CommittedTransaction, Database, Error, Options, PAYLOAD_ALIGN, RowChange, RowWrite, Scheme,
    Table, TableId, TableOptions, Transaction, TxnOptions, Uniqueness, files::Directory, verify_in,
};
use ermine_testing::faulty::{FaultyDirectory, Keep};
use fastrand::Rng;

type Rows = BTreeMap<u64, Vec<u8>>;
type Handle = Table<u64, Vec<u8>>;

/// Values above an eighth of the log's buffer have files of their own.
const LARGE: usize = 8 << 10;

fn options() -> Options {
    let options = Options::default().log_buffer_bytes(8 * LARGE as u64).segment_bytes(64 << 10);
    options.checkpoint_after(64 << 10).keep_log(1 << 30).log_keys(true)
}

fn open(directory: &FaultyDirectory, options: Options) -> Database {
    Database::open_in(Arc::new(directory.clone()), options).unwrap()
}

/// Opens a table with an index, whose entries are in the log.
fn table(db: &Database, name: &str) -> Handle {
    let table = db.table(name).unwrap();
    db.index(&table, "by length", Uniqueness::NonUnique, |_, value: &[u8]| value.len() as u64).unwrap();
    table
}

/// The rows of each table, by the table's name.
type State = BTreeMap<String, Rows>;

/// A database and the states that it has had.
struct Original {
    directory: FaultyDirectory,
    db: Database,
    /// The state after each change that a reader returns; the first one is empty.
    past: Vec<State>,
    /// Places where the log ended, and how many changes had been made by then.
    ends: Vec<(u64, usize)>,
}

impl Original {
    fn new() -> Self {
        let directory = FaultyDirectory::new();
        Self { db: open(&directory, options()), directory, past: vec![State::new()], ends: Vec::new() }
    }

    fn state(&self) -> &State {
        self.past.last().unwrap()
    }

    /// Runs one transaction; notes the state after it, if it commits and has changed anything.
    fn transaction(&mut self, rng: &mut Rng) {
        let names: Vec<_> = self.state().keys().cloned().collect();
        let Some(name) = rng.choice(&names) else { return };
        let mut state = self.state().clone();
        let mut txn = self.db.begin(TxnOptions::default()).unwrap();
        let mut touched = Vec::new();
        let is_prepared = rng.u8(..4) == 0;
        if !is_prepared && rng.bool() {
            let scratch = self.db.table_with("scratch", TableOptions::default().unlogged()).unwrap();
            txn.put(&scratch, &rng.u64(..5), &vec![7; 50]).unwrap();
        }
        // Some need several blocks, the first of which are in the log before the transaction commits.
        for _ in 0..if rng.u8(..6) == 0 { 150 } else { rng.usize(1..6) } {
            let name = if rng.bool() { name } else { rng.choice(&names).unwrap() };
            self.write(&txn, name, &mut state, &mut touched, rng);
        }
        if rng.bool() {
            let before = state.clone();
            let savepoint = txn.savepoint().unwrap();
            (0..rng.usize(1..5)).for_each(|_| self.write(&txn, name, &mut state, &mut Vec::new(), rng));
            txn.roll_back_to(savepoint).unwrap();
            state = before;
        }
        if rng.u8(..8) == 0 {
            return txn.rollback();
        }
        if is_prepared {
            assert!(txn.prepare().unwrap());
            // Another one commits meanwhile: it comes first.
            let mut other = self.state().clone();
            let (rows, free) = (table(&self.db, name), 1000 + rng.u64(..1000));
            self.db.run(|txn| txn.put(&rows, &free, &vec![1])).unwrap();
            for state in [&mut other, &mut state] {
                state.get_mut(name).unwrap().insert(free, vec![1]);
            }
            self.past.push(other);
            if rng.u8(..4) == 0 {
                return txn.rollback();
            }
        }
        txn.commit().unwrap();
        let old = self.state();
        if touched.iter().any(|(name, key)| old[name].contains_key(key) || state[name].contains_key(key)) {
            self.past.push(state);
        }
    }

    fn write(
        &self,
        txn: &Transaction<'_>,
        name: &str,
        state: &mut State,
        touched: &mut Vec<(String, u64)>,
        rng: &mut Rng,
    ) {
        let (table, rows, key) = (table(&self.db, name), state.get_mut(name).unwrap(), rng.u64(..200));
        if rng.u8(..3) == 0 {
            assert_eq!(txn.delete(&table, &key).unwrap(), rows.remove(&key).is_some());
        } else {
            let length = if rng.u8(..20) == 0 { LARGE + rng.usize(..5000) } else { rng.usize(..400) };
            let value = vec![rng.u8(..); length];
            txn.put(&table, &key, value.as_slice()).unwrap();
            rows.insert(key, value);
        }
        touched.push((name.into(), key));
    }

    /// Runs a transaction of several blocks that loses a conflict when these are in the log.
    fn lost(&mut self) {
        let (db, mut state) = (&self.db, self.state().clone());
        let Some((name, copy)) = state.iter_mut().next() else { return };
        let rows = table(db, name);
        let [one, other] = [(); 2].map(|()| db.begin(TxnOptions::default()).unwrap());
        one.get(&rows, &5000).unwrap();
        other.get(&rows, &5001).unwrap();
        (5001..5100).for_each(|key| one.put(&rows, &key, &vec![3; 600]).unwrap());
        other.put(&rows, &5000, &vec![4]).unwrap();
        other.commit().unwrap();
        assert!(one.commit().is_err_and(|error| error.as_abort().is_some()));
        copy.insert(5000, vec![4]);
        self.past.push(state);
    }

    /// Creates, renames or drops a table.
    fn definition(&mut self, rng: &mut Rng) {
        let mut state = self.state().clone();
        let [one, other] = [(); 2].map(|()| format!("table {}", rng.u8(..6)));
        if rng.bool() && !state.contains_key(&one) {
            table(&self.db, &one);
            state.insert(one, Rows::new());
        } else if rng.bool() && state.contains_key(&one) && !state.contains_key(&other) {
            self.db.rename_table(&one, &other).unwrap();
            let rows = state.remove(&one).unwrap();
            state.insert(other, rows);
        } else if state.len() > 3 && state.remove(&one).is_some() {
            assert!(self.db.drop_table(&one).unwrap());
        } else {
            return;
        }
        self.past.push(state);
    }

    /// Opens the database again, after a crash or not.
    fn open_again(self, rng: &mut Rng) -> Self {
        let Self { mut directory, db, past, ends } = self;
        if rng.bool() {
            let trace = directory.trace();
            let keep = [Keep::Everything, Keep::Nothing, Keep::Last, Keep::Random(rng.u64(..))][rng.usize(..4)];
            directory = trace.crash(trace.operations(), keep);
        }
        drop(db);
        let original = Self { db: open(&directory, options()), directory, past, ends };
        for (name, rows) in original.state() {
            let table = table(&original.db, name);
            let found = original.db.run(|txn| txn.scan(&table, ..).collect()).unwrap();
            assert_eq!(&found.into_iter().collect::<Rows>(), rows, "{name}");
        }
        original
    }
}

/// The rows of a table, as bytes.
type EncodedRows = BTreeMap<Vec<u8>, Vec<u8>>;

/// A copy that is made from changes only.
#[derive(Default)]
struct Copy(BTreeMap<TableId, (String, EncodedRows)>);

impl Copy {
    fn apply(&mut self, transaction: &CommittedTransaction) {
        assert!(!transaction.changes.is_empty());
        for change in &transaction.changes {
            match change {
                Change::Row(RowChange { table, key, write, .. }) => {
                    let rows = &mut self.0.get_mut(table).unwrap().1;
                    // References to fixed structs need it.
                    let is_aligned = |value: &[u8]| value.as_ptr().addr().is_multiple_of(PAYLOAD_ALIGN);
                    assert!(write.value().is_none_or(is_aligned), "{write:?}");
                    match write {
                        RowWrite::Insert(value) => assert_eq!(rows.insert(key.to_vec(), value.to_vec()), None),
                        RowWrite::Update(value) => assert!(rows.insert(key.to_vec(), value.to_vec()).is_some()),
                        RowWrite::Delete => assert!(rows.remove(&key[..]).is_some()),
                    }
                }
                Change::TableCreated { table, name } => {
                    assert_eq!(self.0.insert(*table, (name.clone(), EncodedRows::new())), None);
                }
                Change::TableRenamed { table, name } => self.0.get_mut(table).unwrap().0 = name.clone(),
                Change::TableDropped { table, name } => assert_eq!(&self.0.remove(table).unwrap().0, name),
                _ => unreachable!("there are no others"),
            }
        }
    }

    fn state(&self) -> State {
        let rows = |rows: &EncodedRows| {
            let key = |key: &[u8]| u64::from_be_bytes(key.try_into().unwrap());
            rows.iter().map(|(bytes, value)| (key(bytes), value.clone())).collect()
        };
        self.0.values().map(|(name, of)| (name.clone(), rows(of))).collect()
    }
}

/// Applies some or all changes that there are to the copy.
fn follow(original: &Original, reader: &mut ChangeReader<'_>, copy: &mut Copy, applied: &mut usize, at_most: usize) {
    for _ in 0..at_most {
        let before = reader.position();
        let Some(transaction) = reader.next().unwrap() else {
            return assert_eq!(*applied + 1, original.past.len(), "changes are missing");
        };
        assert!(before <= transaction.stamp.as_u64() && transaction.stamp.as_u64() < reader.position());
        copy.apply(&transaction);
        *applied += 1;
        assert_eq!(&copy.state(), &original.past[*applied], "at {}", transaction.stamp);
    }
}

fn live(seed: u64) {
    let rng = &mut Rng::with_seed(seed);
    let mut original = Original::new();
    let (mut copy, mut applied, mut position) = (Copy::default(), 0, Some(0));
    for _ in 0..40 {
        for _ in 0..rng.usize(..10) {
            match rng.u8(..12) {
                0..3 => original.definition(rng),
                3 => original.lost(),
                4 => drop(original.db.checkpoint().unwrap()),
                _ => original.transaction(rng),
            }
        }
        if rng.u8(..4) == 0 {
            original = original.open_again(rng);
        }
        original.ends.push((original.db.changes(None).unwrap().position(), original.past.len() - 1));
        let mut reader = original.db.changes(position).unwrap();
        follow(&original, &mut reader, &mut copy, &mut applied, rng.usize(..30));
        position = Some(reader.position());
    }
    let mut reader = original.db.changes(position).unwrap();
    follow(&original, &mut reader, &mut copy, &mut applied, usize::MAX);
    check_each_position(&original, applied);
    drop(reader);
    drop(original.db);
    let of: Arc<dyn Directory> = Arc::new(original.directory);
    let verification = verify_in(&of, &options(), &mut |_| ()).unwrap();
    assert!(verification.is_right(), "{:?}", verification.findings);
}

/// Reading goes on with the same transactions wherever it begins.
fn check_each_position(Original { db, ends, .. }: &Original, count: usize) {
    let (mut reader, mut all) = (db.changes(Some(0)).unwrap(), Vec::new());
    loop {
        let position = reader.position();
        let Some(transaction) = reader.next().unwrap() else { break };
        all.push((position, transaction));
    }
    assert_eq!(all.len(), count);
    for (position, transaction) in &all {
        for from in [*position, transaction.stamp.as_u64()] {
            assert_eq!(db.changes(Some(from)).unwrap().next().unwrap().as_ref(), Some(transaction), "from {from}");
        }
    }
    for (end, made) in ends {
        let next = db.changes(Some(*end)).unwrap().next().unwrap();
        assert_eq!(next.as_ref(), all.get(*made).map(|(_, next)| next), "from {end}");
    }
    assert_eq!(db.changes(Some(reader.position())).unwrap().next().unwrap(), None);
}

#[test]
fn changes_make_the_same_rows() {
    let seeds = std::env::var("ERMINE_TEST_SEED").ok().map(|seed| seed.parse().unwrap());
    for seed in seeds.map_or(0..10, |seed| seed..seed + 1) {
        eprintln!("ERMINE_TEST_SEED={seed}");
        live(seed);
    }
}

#[test]
fn a_reader_follows_writers() {
    const COMMITS: u64 = 200;
    let db = open(&FaultyDirectory::new(), options());
    let rows = db.table::<u64, u64>("rows").unwrap();
    let mut reader = db.changes(None).unwrap();
    let mut copy = BTreeMap::new();
    thread::scope(|scope| {
        for writer in 0..2 {
            let (db, rows) = (&db, &rows);
            scope.spawn(move || {
                for number in 0..COMMITS {
                    db.run(|txn| txn.put(rows, &(number % 7), &(2 * number + writer))).unwrap();
                }
            });
        }
        let (mut seen, mut last) = (0, None);
        while seen < 2 * COMMITS {
            // Far longer than a commit takes: the thread is woken, or the test hangs.
            while !reader.wait(Duration::from_secs(3600)).unwrap() {}
            while let Some(CommittedTransaction { stamp, changes, .. }) = reader.next().unwrap() {
                assert!(last.replace(stamp) < Some(stamp) && changes.len() == 1);
                let Change::Row(row) = &changes[0] else { panic!("{changes:?}") };
                assert_eq!(row.table_name.as_deref(), Some("rows"));
                let (key, value) = row.of(&rows).unwrap().unwrap();
                copy.insert(key, value.unwrap());
                seen += 1;
            }
        }
    });
    let found = db.run(|txn| txn.scan(&rows, ..).collect()).unwrap();
    assert_eq!(found, copy.into_iter().collect::<Vec<_>>());
}

#[test]
fn only_the_beginnings_of_transactions_are_positions() {
    let db = open(&FaultyDirectory::new(), options());
    let rows = db.table::<u64, Vec<u8>>("rows").unwrap();
    for key in 0..20 {
        db.run(|txn| txn.put(&rows, &key, &vec![1; 10 + key as usize])).unwrap();
    }
    let (mut reader, mut good) = (db.changes(Some(0)).unwrap(), Vec::new());
    while let Some(transaction) = reader.next().unwrap() {
        good.extend([transaction.stamp.as_u64(), reader.position()]);
    }
    let end = reader.position();
    for from in (16..=end).chain([end + 1, end + 16, 1 << 40, u64::MAX]) {
        match db.changes(Some(from)) {
            Ok(mut reader) => assert!(good.contains(&from) || reader.next().is_ok(), "{from}"),
            Err(Error::Options(why)) => {
                assert!(!good.contains(&from) && why.contains(&from.to_string()), "{from}: {why}");
            }
            Err(error) => panic!("{from}: {error}"),
        }
        assert!(from.is_multiple_of(16) || db.changes(Some(from)).is_err(), "{from}");
        assert!(db.log_reader(Some(from)).is_ok() || !good.contains(&from), "{from}");
    }
}

#[test]
fn what_was_logged_without_keys_is_refused_and_the_position_stays() {
    let directory = FaultyDirectory::new();
    let db = open(&directory, options().log_keys(false));
    let rows = db.table::<u64, u64>("rows").unwrap();
    db.run(|txn| txn.put(&rows, &1, &1)).unwrap();
    assert!(matches!(db.changes(None).err(), Some(Error::Options(why)) if why.contains("log_keys")));
    db.run(|txn| txn.put(&rows, &1, &2)).unwrap();
    drop(db);
    let db = open(&directory, options());
    let rows = db.table::<u64, u64>("rows").unwrap();
    let later = db.changes(None).unwrap().position();
    db.run(|txn| txn.delete(&rows, &1)).unwrap();
    let mut reader = db.changes(Some(0)).unwrap();
    let names_a_table = |change: &Change| matches!(change, Change::TableCreated { .. });
    assert!(reader.next().unwrap().is_some_and(|created| created.changes.iter().all(names_a_table)));
    assert!(reader.next().unwrap().is_some(), "an insert");
    let position = reader.position();
    for _ in 0..2 {
        assert!(matches!(reader.next(), Err(Error::Options(why)) if why.contains("without keys")));
        assert_eq!(reader.position(), position);
    }
    let deleted = db.changes(Some(later)).unwrap().next().unwrap().unwrap();
    assert!(matches!(&deleted.changes[..], [Change::Row(RowChange { write: RowWrite::Delete, .. })]), "{deleted:?}");
}

#[test]
fn a_reader_that_is_left_behind_is_told() {
    let db = open(&FaultyDirectory::new(), options().keep_log(0));
    let rows = db.table::<u64, Vec<u8>>("rows").unwrap();
    let mut reader = db.changes(None).unwrap();
    for round in 0..4_u8 {
        (0..200).for_each(|key| db.run(|txn| txn.put(&rows, &key, &vec![round; 500])).unwrap());
        db.checkpoint().unwrap();
    }
    assert!(matches!(reader.next(), Err(Error::LogRemoved { position }) if position == reader.position()));
    assert!(matches!(db.changes(Some(0)).err(), Some(Error::LogRemoved { .. })));
}

/// The position of a reader is kept with the blocks of transactions that began before it and commit behind it.
#[test]
fn the_log_is_kept_for_a_reader_of_changes() {
    const ROWS: u64 = 4000;
    let directory = FaultyDirectory::new();
    let little = || options().keep_log(0);
    let overwrite = |db: &Database, rows: &Handle, rounds: std::ops::Range<u8>| {
        for round in rounds {
            (0..200).for_each(|key| db.run(|txn| txn.put(rows, &key, &vec![round; 500])).unwrap());
            db.checkpoint().unwrap();
        }
    };
    let db = open(&directory, little());
    let rows = db.table::<u64, Vec<u8>>("rows").unwrap();
    // Its records are written while it commits, and are longer than several segments. Returns a position in their
    // midst, if one was seen.
    let commit = |round: u8| {
        let txn = db.begin(TxnOptions::default()).unwrap();
        (1000..1000 + ROWS).for_each(|key| txn.put(&rows, &key, &vec![round; 500]).unwrap());
        let before = db.changes(None).unwrap().position();
        thread::scope(|scope| {
            let commit = scope.spawn(|| txn.commit().unwrap());
            let mut inside = None;
            while !commit.is_finished() {
                let position = db.changes(None).unwrap().position();
                inside = inside.or((position > before + (1 << 20)).then_some(position));
            }
            let stamp = commit.join().unwrap();
            inside.filter(|position| *position < stamp.as_u64())
        })
    };
    let (position, round) = (1..=u8::MAX).find_map(|round| Some((commit(round)?, round))).unwrap();
    db.keep_changes_from(Some(position));
    let is_whole = |db: &Database| {
        let (mut reader, mut written) = (db.changes(Some(position)).unwrap(), 0);
        let first = reader.next().unwrap().unwrap();
        for change in first.changes {
            let Change::Row(row) = &change else { continue };
            let (key, value) = row.of(&rows).unwrap().unwrap();
            assert_eq!((key, value), (1000 + written, Some(vec![round; 500])));
            written += 1;
        }
        written == ROWS
    };
    overwrite(&db, &rows, 0..6);
    assert!(is_whole(&db));
    drop(db);
    let db = open(&directory, little().keep_changes_from(position));
    let rows = db.table::<u64, Vec<u8>>("rows").unwrap();
    overwrite(&db, &rows, 6..9);
    assert!(is_whole(&db));
    db.keep_changes_from(None);
    overwrite(&db, &rows, 9..12);
    assert!(matches!(db.changes(Some(position)).err(), Some(Error::LogRemoved { .. })));
}

/// The rows of a snapshot, and the changes from its position on, are everything.
#[test]
fn a_snapshot_and_the_changes_behind_it_make_the_same_rows() {
    for scheme in [Scheme::SiSsn, Scheme::Si, Scheme::SiSsi] {
        let db = open(&FaultyDirectory::new(), options().scheme(scheme));
        let rows = db.table::<u64, u64>("rows").unwrap();
        thread::scope(|scope| {
            for writer in 0..2 {
                let (db, rows) = (&db, &rows);
                scope.spawn(move || {
                    for number in 0..300 {
                        db.run(|txn| txn.put(rows, &(number % 11), &(2 * number + writer))).unwrap();
                    }
                });
            }
            for _ in 0..20 {
                let snapshot = db.snapshot().unwrap();
                let position = snapshot.position().unwrap();
                let mut copy: BTreeMap<_, _> = snapshot.scan(&rows, ..).collect().unwrap().into_iter().collect();
                drop(snapshot);
                db.sync().unwrap();
                let mut reader = db.changes(Some(position)).unwrap();
                let behind = db.run(|txn| Ok::<_, Error>((txn.position()?, txn.scan(&rows, ..).collect()?))).unwrap();
                db.sync().unwrap();
                while let Some(CommittedTransaction { stamp, changes, .. }) = reader.next().unwrap() {
                    assert!(stamp.as_u64() >= position);
                    if stamp.as_u64() >= behind.0 {
                        break;
                    }
                    for change in changes {
                        let Change::Row(row) = &change else { continue };
                        let (key, value) = row.of(&rows).unwrap().unwrap();
                        copy.insert(key, value.unwrap());
                    }
                }
                assert_eq!(copy.into_iter().collect::<Vec<_>>(), behind.1);
            }
        });
    }
}

#[test]
fn databases_without_such_a_log_refuse_by_name() {
    let refused = open(&FaultyDirectory::new(), options().scheme(Scheme::Silo)).changes(None).err();
    assert!(matches!(&refused, Some(Error::Options(why)) if why.contains("silo")), "{refused:?}");
    let refused = Database::open_in_memory(options()).unwrap().changes(None).err();
    assert!(matches!(refused, Some(Error::Options(_))), "{refused:?}");
}

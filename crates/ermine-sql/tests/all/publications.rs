//! Goal: a reader of a publication is shown what committed transactions did to its tables, once, in order, with the
//! definitions of their time.
//! Method: random statements, among them such that change tables, and transactions that roll back, on a database; a copy
//! is made from the changes alone. At random places the reader confirms what it has, ends, and begins again; and the
//! database is closed, or copied as a crash leaves it, and opened again. In the end, and at each stop, copy and tables
//! are compared. A reader that begins in the middle takes the rows of the snapshot of its slot first. The log is in a
//! directory that crashes as a device may; the files of slots are real ones, and copied.

use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use ermine::{Database, Options};
use ermine_sql::{
    Session, SqlDatabase, SqlState,
    logical::{Decoded, Event, PublishedColumn, PublishedTable, RowChange, TableChange, lsn, slots_kept_from},
    types::{Environment, Value, text, user_types::UserTypes},
};
use ermine_testing::faulty::{FaultyDirectory, Keep};
use fastrand::Rng;

use crate::sessions::{ask, run};

/// A directory that is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ermine-publications-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns options with a short log, so that checkpoints remove what no slot keeps.
fn options(path: &Path) -> Options {
    let mut options = Options::default().log_keys(true).log_buffer_bytes(1 << 16);
    options = options.segment_bytes(1 << 16).checkpoint_after(1 << 17);
    options.keep_changes_from = slots_kept_from(path).unwrap();
    options
}

fn served(engine: Database, path: &Path) -> SqlDatabase {
    let database = SqlDatabase::open(Arc::new(engine)).unwrap();
    database.open_slots(path).unwrap();
    database
}

fn open(path: &Path) -> SqlDatabase {
    served(Database::open(path, options(path)).unwrap(), path)
}

/// Opens a database in a directory in memory; the files of its slots are below `path`.
fn open_in(directory: &FaultyDirectory, path: &Path) -> SqlDatabase {
    served(Database::open_in(Arc::new(directory.clone()), options(path)).unwrap(), path)
}

fn session(database: &SqlDatabase) -> Session {
    database.session("tester", "test")
}

/// Copies the files of slots, which a crash leaves as they are.
fn copy_slots(from: &Path, to: &Path) {
    std::fs::create_dir_all(to.join("slots")).unwrap();
    for entry in std::fs::read_dir(from.join("slots")).unwrap() {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name())).unwrap();
        std::fs::copy(path, to.join("slots").join(name)).unwrap();
    }
}

/// The rows of each table, by its number and the texts of their keys; each row with the names of its columns. A column
/// that is added and dropped is left out: readers are not sent its value again.
type Copy = BTreeMap<u32, BTreeMap<String, Vec<String>>>;

/// The name of that column.
const EXTRA: &str = "extra";

fn shown(table: &PublishedTable, values: &[Value], types: &Arc<UserTypes>) -> Vec<String> {
    let environment = Environment { types: types.clone(), ..Environment::default() };
    let column = |(column, value): (&PublishedColumn, &Value)| {
        let mut shown = format!("{}=", column.name);
        match value {
            Value::Null => shown.push_str("NULL"),
            value => text::write(value, column.ty, &environment, &mut shown),
        }
        shown
    };
    let columns = table.columns.iter().zip(values).filter(|(column, _)| column.name != EXTRA);
    columns.map(column).collect()
}

/// Makes a change to a copy; each change has to fit it. The key is the first column.
fn apply(copy: &mut Copy, change: &TableChange, types: &Arc<UserTypes>) {
    let (table, change) = match change {
        TableChange::Row(table, change) => (table, change),
        TableChange::Truncate(tables) => {
            return tables.iter().for_each(|table| copy.entry(table.oid).or_default().clear());
        }
    };
    assert!(table.columns[0].is_key);
    let rows = copy.entry(table.oid).or_default();
    let shown = |row: &[Value]| shown(table, row, types);
    match change {
        RowChange::Insert(row) => {
            let row = shown(row);
            assert_eq!(rows.insert(row[0].clone(), row), None, "{table:?}");
        }
        RowChange::Update(row) => {
            let row = shown(row);
            assert!(rows.insert(row[0].clone(), row).is_some(), "{table:?}");
        }
        RowChange::Delete(key) => assert!(rows.remove(&shown(key)[0]).is_some(), "{table:?} {key:?}"),
    }
    // As the subscriber's index would see it after each change.
    if table.name.starts_with('u') {
        let mut values: Vec<_> = rows.values().map(|row| &row[1]).collect();
        values.sort();
        assert!(values.windows(2).all(|two| two[0] != two[1]), "{values:?}");
    }
}

/// Follows a slot to the end of what is durable; returns the last position that was shown, and the transactions.
fn follow(
    session: &mut Session,
    from: u64,
    confirms: bool,
    each: &mut dyn FnMut(&TableChange, &Arc<UserTypes>),
) -> (u64, Vec<Decoded>) {
    let log_end = session.log_position().unwrap();
    let stream = session.stream("copy", from, vec!["all".into()]).unwrap();
    let (mut end, mut open, mut transactions) = (0, None, Vec::new());
    let read = stream.run(Duration::from_millis(1), &mut |event| {
        match event {
            Event::Begin(transaction) => assert_eq!(open.replace(transaction), None),
            Event::Change(change, types) => {
                assert!(open.is_some());
                each(&change, types);
            }
            Event::Commit(transaction) => {
                assert_eq!(open.take(), Some(transaction));
                assert!(transactions.last().is_none_or(|last: &Decoded| last.end <= transaction.commit));
                transactions.push(transaction);
                end = transaction.end;
            }
            Event::Idle(position) => {
                assert_eq!(open, None);
                end = end.max(position);
                if position >= log_end {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    });
    read.unwrap();
    if confirms {
        stream.confirm(end).unwrap();
    }
    (end, transactions)
}

/// Returns the rows of the tables as a copy has them.
fn tables(session: &mut Session) -> Copy {
    let mut all = Copy::new();
    let published = "SELECT relid::int8, relid::regclass FROM pg_get_publication_tables('all')";
    for table in ask(session, published) {
        let (number, name) = table.split_once(',').unwrap();
        let columns = format!(
            "SELECT attname FROM pg_attribute WHERE attrelid = {number} AND attnum > 0 AND NOT attisdropped \
             AND attgenerated = '' AND attname <> '{EXTRA}' ORDER BY attnum"
        );
        let columns = ask(session, &columns);
        let texts: Vec<_> = columns.iter().map(|column| format!("coalesce({column}::text, 'NULL')")).collect();
        let rows = all.entry(number.parse().unwrap()).or_default();
        for row in ask(session, &format!("SELECT concat_ws('|', {}) FROM {name}", texts.join(", "))) {
            let values = columns.iter().zip(row.split('|'));
            let values: Vec<_> = values.map(|(name, text)| format!("{name}={text}")).collect();
            rows.insert(values[0].clone(), values);
        }
    }
    all
}

/// Fails if a copy differs from the tables that there are.
fn compare(copy: &Copy, session: &mut Session, when: &str) {
    let empty = BTreeMap::new();
    for (table, rows) in tables(session) {
        assert_eq!(copy.get(&table).unwrap_or(&empty), &rows, "{when}");
    }
}

/// A random statement about one of three tables.
fn statement(random: &mut Rng) -> String {
    let (table, id) = (random.u32(0..3), random.u32(0..12));
    let word = ["a", "bb", "O''Brien", "", "zz"][random.usize(0..5)];
    match random.u32(0..49) {
        0..12 => format!("INSERT INTO t{table} (id, v) VALUES ({id}, '{word}') ON CONFLICT (id) DO NOTHING"),
        12..20 => format!("UPDATE t{table} SET v = v || '{word}' WHERE id = {id}"),
        20..24 => format!("DELETE FROM t{table} WHERE id = {id}"),
        24..26 => {
            format!("UPDATE t{table} SET id = id + 20 WHERE id = {id} AND id + 20 NOT IN (SELECT id FROM t{table})")
        }
        26 => format!("TRUNCATE t{table}"),
        27 => format!(
            "INSERT INTO t{table} (id, v) SELECT n, repeat('{word}x', 400) FROM generate_series(100, 160) n \
             ON CONFLICT (id) DO UPDATE SET v = excluded.v"
        ),
        28 => format!("ALTER TABLE t{table} ADD COLUMN IF NOT EXISTS extra integer DEFAULT 7"),
        29 => format!("ALTER TABLE t{table} DROP COLUMN IF EXISTS extra"),
        30 => format!("ALTER TABLE t{table} ALTER COLUMN v TYPE varchar USING v || ''"),
        31 => format!("DROP TABLE t{table}"),
        32..36 => {
            format!("CREATE TABLE t{table} (id numeric PRIMARY KEY, v text, g integer GENERATED ALWAYS AS (1) STORED)")
        }
        36 => format!("CREATE INDEX ON t{table} (v)"),
        37 => format!("ALTER TABLE t{table} RENAME TO t{}", random.u32(0..3)),
        39..48 => match random.u32(0..4) {
            0 => format!("INSERT INTO u VALUES ({id}, 'k{}') ON CONFLICT DO NOTHING", random.u32(0..12)),
            1 => format!("DELETE FROM u WHERE id = {id}"),
            2 => "UPDATE u SET id = id - 1".into(),
            _ => format!("UPDATE u SET k = 'k{}' WHERE id = {id}", random.u32(0..12)),
        },
        38 => "ALTER TYPE mood ADD VALUE IF NOT EXISTS 'fine'".into(),
        _ => format!("INSERT INTO moods (id, v) VALUES ({id}, 'sad') ON CONFLICT (id) DO UPDATE SET v = 'happy'"),
    }
}

/// Makes random changes, some of them in transactions, some of which are rolled back. Many statements fail, which is no
/// fault.
fn change(session: &mut Session, random: &mut Rng, count: usize) {
    for _ in 0..count {
        if random.u32(0..3) > 0 {
            let _ = run(session, &statement(random));
            continue;
        }
        ask(session, "BEGIN");
        for _ in 0..random.u32(1..6) {
            let _ = run(session, "SAVEPOINT s");
            if run(session, &statement(random)).is_err() || random.u32(0..5) == 0 {
                let _ = run(session, "ROLLBACK TO s");
            }
        }
        ask(session, if random.u32(0..3) > 0 { "COMMIT" } else { "ROLLBACK" });
    }
}

fn live(seed: u64) {
    let mut random = Rng::with_seed(seed);
    let scratch = Scratch::new(&format!("live-{seed}"));
    let (mut directory, mut home) = (FaultyDirectory::new(), scratch.0.join("0"));
    let mut database = open_in(&directory, &home);
    let mut writer = session(&database);
    ask(&mut writer, "CREATE TYPE mood AS ENUM ('sad', 'happy')");
    ask(&mut writer, "CREATE TABLE moods (id integer PRIMARY KEY, v mood)");
    ask(&mut writer, "CREATE TABLE u (id integer PRIMARY KEY, k text UNIQUE)");
    ask(&mut writer, "CREATE PUBLICATION \"all\" FOR ALL TABLES");
    change(&mut writer, &mut random, 20);
    // What was there before.
    let mut reader = session(&database);
    ask(&mut reader, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    let mut from = reader.create_slot("copy", "pgoutput", true).unwrap();
    let _ = run(&mut writer, "INSERT INTO moods VALUES (1000, 'sad')");
    let mut copy = tables(&mut reader);
    ask(&mut reader, "COMMIT");
    for round in 1..12 {
        change(&mut writer, &mut random, 30);
        let confirms = random.bool();
        let (end, transactions) =
            follow(&mut reader, from, confirms, &mut |change, types| apply(&mut copy, change, types));
        compare(&copy, &mut reader, &format!("seed {seed}, round {round}"));
        assert!(transactions.iter().all(|transaction| transaction.commit >= from));
        // The reader keeps its own position, as a subscriber does.
        from = end;
        if random.u32(0..3) == 0 {
            let crashed = random.bool().then(|| {
                let next = scratch.0.join(round.to_string());
                copy_slots(&home, &next);
                let trace = directory.trace();
                (trace.crash(trace.operations(), Keep::Nothing), next)
            });
            drop((reader, writer, database));
            (directory, home) = crashed.unwrap_or((directory, home));
            database = open_in(&directory, &home);
            (reader, writer) = (session(&database), session(&database));
        }
    }
    // Without a position of its own, a reader is shown again what is not confirmed; then nothing.
    follow(&mut reader, 0, true, &mut |_, _| ());
    follow(&mut reader, 0, true, &mut |change, _| panic!("{change:?} was confirmed"));
    ask(&mut reader, "SELECT pg_drop_replication_slot('copy')");
    assert!(slots_kept_from(&home).unwrap().is_none());
}

#[test]
fn changes_make_the_same_rows() {
    let seeds = std::env::var("ERMINE_TEST_SEED").ok().map(|seed| seed.parse().unwrap());
    for seed in seeds.map_or(0..12, |seed| seed..seed + 1) {
        eprintln!("ERMINE_TEST_SEED={seed}");
        live(seed);
    }
}

/// `pg_stat_replication` has a row for each stream that is read.
#[test]
fn streams_are_shown_while_they_are_read() {
    let scratch = Scratch::new("shown");
    let database = open(&scratch.0);
    let (mut one, mut other) = (session(&database), database.session("tester", "test"));
    other.connect(7, Some("127.0.0.1:999".into()), Box::new(|| {}));
    ask(&mut other, "SET application_name = 'warehouse'");
    other.create_slot("a", "pgoutput", false).unwrap();
    let shown = "SELECT pid, usename, application_name, client_addr, client_port, state, reply_time IS NULL, \
        sent_lsn = flush_lsn FROM pg_stat_replication";
    assert_eq!(ask(&mut one, shown), Vec::<String>::new());
    let stream = other.stream("a", 0, Vec::new()).unwrap();
    ask(&mut one, "CREATE TABLE t (id integer PRIMARY KEY)");
    let mut end = 0;
    let mut read = || {
        stream.run(Duration::ZERO, &mut |event| {
            if let Event::Idle(position) = event {
                end = position;
            }
            Ok(ControlFlow::Break(()))
        })
    };
    read().unwrap();
    assert_eq!(ask(&mut one, shown), ["7,tester,warehouse,127.0.0.1,999,streaming,t,f"]);
    stream.confirm(end).unwrap();
    assert_eq!(ask(&mut one, shown), ["7,tester,warehouse,127.0.0.1,999,streaming,f,t"]);
    let positions = "SELECT s.flush_lsn = c.confirmed_flush_lsn FROM pg_stat_replication s, pg_replication_slots c";
    assert_eq!(ask(&mut one, positions), ["t"]);
    drop(stream);
    assert_eq!(ask(&mut one, shown), Vec::<String>::new());
}

/// A reader that catches up with a log of other tables is told how far it is before the end.
#[test]
fn transactions_without_published_changes_are_confirmed_before_the_end() {
    let scratch = Scratch::new("unpublished");
    let database = open(&scratch.0);
    let mut one = session(&database);
    ask(&mut one, "CREATE TABLE t (id integer PRIMARY KEY); CREATE TABLE other (id integer PRIMARY KEY, v text)");
    ask(&mut one, "CREATE PUBLICATION p FOR TABLE t");
    one.create_slot("a", "pgoutput", false).unwrap();
    let mut random = Rng::with_seed(1);
    for n in 0..400 {
        let mut text = || (0..1000).map(|_| random.alphanumeric()).collect::<String>();
        let rows: Vec<String> = (0..10).map(|row| format!("({}, '{}')", n * 10 + row, text())).collect();
        ask(&mut one, &format!("INSERT INTO other VALUES {}", rows.join(", ")));
    }
    ask(&mut one, "INSERT INTO t VALUES (1)");
    let log_end = one.log_position().unwrap();
    assert!(log_end > 3 << 20, "{log_end:x}");
    let stream = one.stream("a", 0, vec!["p".into()]).unwrap();
    let (mut told, mut shown) = (Vec::new(), Vec::new());
    let read = stream.run(Duration::ZERO, &mut |event| {
        match event {
            Event::Idle(position) if position >= log_end => return Ok(ControlFlow::Break(())),
            Event::Idle(position) => {
                assert!(shown.is_empty());
                stream.confirm(position).unwrap();
                told.push(position);
            }
            Event::Change(change, types) => shown.push(in_words(&change, types)),
            Event::Begin(_) | Event::Commit(_) => {}
        }
        Ok(ControlFlow::Continue(()))
    });
    read.unwrap();
    assert!((2..=4).contains(&told.len()) && told.is_sorted(), "{told:x?} of {log_end:x}");
    assert_eq!(shown.len(), 1);
    let confirmed = "SELECT confirmed_flush_lsn FROM pg_replication_slots";
    assert_eq!(ask(&mut one, confirmed), [lsn(*told.last().unwrap())]);
}

#[test]
fn slots_are_refused_where_they_cannot_be() {
    let scratch = Scratch::new("refused");
    let engine = Database::open(&scratch.0, Options::default()).unwrap();
    let database = SqlDatabase::open(Arc::new(engine)).unwrap();
    let mut one = session(&database);
    let state = |result: ermine_sql::Result<u64>| result.unwrap_err().state();
    assert_eq!(state(one.create_slot("a", "pgoutput", false)), SqlState::FEATURE_NOT_SUPPORTED);
    database.open_slots(&scratch.0).unwrap();
    assert_eq!(state(one.create_slot("a", "pgoutput", false)), SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE);
    drop((one, database));

    let database = open(&scratch.0);
    let (mut one, mut other) = (session(&database), session(&database));
    for name in ["", "A", "a-b", &"a".repeat(64)] {
        assert_eq!(state(one.create_slot(name, "pgoutput", false)), SqlState::INVALID_NAME, "{name}");
    }
    assert_eq!(state(one.create_slot("a", "wal2json", false)), SqlState::UNDEFINED_FILE);
    assert_eq!(state(one.create_slot("a", "pgoutput", true)), SqlState::ACTIVE_SQL_TRANSACTION);
    ask(&mut one, "BEGIN ISOLATION LEVEL SERIALIZABLE");
    assert_eq!(state(one.create_slot("a", "pgoutput", true)), SqlState::ACTIVE_SQL_TRANSACTION);
    ask(&mut one, "ROLLBACK");
    one.create_slot("a", "pgoutput", false).unwrap();
    assert_eq!(state(one.create_slot("a", "pgoutput", false)), SqlState::DUPLICATE_OBJECT);
    let stream = one.stream("a", 0, vec!["none".into()]).unwrap();
    assert_eq!(other.stream("a", 0, Vec::new()).err().unwrap().state(), SqlState::OBJECT_IN_USE);
    assert_eq!(other.drop_slot("a", false).unwrap_err().state(), SqlState::OBJECT_IN_USE);
    stream.run(Duration::ZERO, &mut |_| Ok(ControlFlow::Break(()))).unwrap();
    ask(&mut other, "CREATE TABLE t (id integer PRIMARY KEY); INSERT INTO t VALUES (1)");
    let missing = stream.run(Duration::ZERO, &mut |_| Ok(ControlFlow::Break(()))).unwrap_err();
    assert_eq!(missing.state(), SqlState::UNDEFINED_OBJECT);
    drop(stream);
    ask(&mut one, "CREATE ROLE reader LOGIN; CREATE ROLE carrier LOGIN REPLICATION");
    // What a reader passes is kept with its slot, but for passwords.
    ask(&mut one, "CREATE ROLE secret PASSWORD 'word'; CREATE TABLE passed (id integer PRIMARY KEY)");
    let stream = one.stream("a", 0, Vec::new()).unwrap();
    let mut end = 0;
    stream
        .run(Duration::ZERO, &mut |event| {
            if let Event::Idle(position) = event {
                end = position;
            }
            Ok(ControlFlow::Break(()))
        })
        .unwrap();
    stream.confirm(end).unwrap();
    drop(stream);
    let kept = std::fs::read(scratch.0.join("slots/a.slot")).unwrap();
    let has = |text: &[u8]| kept.windows(text.len()).any(|part| part == text);
    assert!(has(b"passed") && !has(b"secret"));
    let (mut reader, mut carrier) = (database.session("reader", "test"), database.session("carrier", "test"));
    assert_eq!(state(reader.create_slot("b", "pgoutput", false)), SqlState::INSUFFICIENT_PRIVILEGE);
    carrier.create_slot("b", "pgoutput", false).unwrap();
    assert_eq!(reader.drop_slot("b", false).unwrap_err().state(), SqlState::INSUFFICIENT_PRIVILEGE);
    carrier.drop_slot("b", false).unwrap();
    let slots = ask(&mut one, "SELECT slot_name, plugin, active, wal_status FROM pg_replication_slots");
    assert_eq!(slots, ["a,pgoutput,f,reserved"]);
    drop((one, other, reader, carrier, database));

    // A database that logs no keys refuses its slots; a damaged file is named.
    let engine = Database::open(&scratch.0, Options::default()).unwrap();
    let database = SqlDatabase::open(Arc::new(engine)).unwrap();
    assert_eq!(database.open_slots(&scratch.0).unwrap_err().state(), SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE);
    drop(database);
    let file = scratch.0.join("slots/a.slot");
    let whole = std::fs::read(&file).unwrap();
    for at in [0, 9, 50] {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        std::fs::write(&file, damaged).unwrap();
        let error = slots_kept_from(&scratch.0).unwrap_err();
        assert!(error.state() == SqlState::DATA_CORRUPTED && error.to_string().contains("a.slot"), "{error}");
    }
}

/// A slot that holds back more than it may is lost, and the log goes.
#[test]
fn a_slot_that_is_left_behind_is_lost() {
    let scratch = Scratch::new("lost");
    let database = open(&scratch.0);
    let mut one = session(&database);
    ask(&mut one, "CREATE TABLE t (id integer PRIMARY KEY, v text); CREATE PUBLICATION p FOR TABLE t");
    one.create_slot("a", "pgoutput", false).unwrap();
    let grow = |session: &mut Session| {
        ask(session, "INSERT INTO t SELECT n, repeat('x', 500) FROM generate_series(1, 500) n");
        ask(session, "DELETE FROM t");
        ask(session, "CHECKPOINT");
    };
    for _ in 0..4 {
        grow(&mut one);
    }
    let status = "SELECT wal_status FROM pg_replication_slots";
    assert_eq!(ask(&mut one, status), ["reserved"]);
    database.limit_slots(Some(100_000));
    assert_eq!(ask(&mut one, status), ["lost"]);
    grow(&mut one);
    let stream = one.stream("a", 0, vec!["p".into()]).unwrap();
    let lost = stream.run(Duration::ZERO, &mut |_| Ok(ControlFlow::Break(()))).unwrap_err();
    assert_eq!(lost.state(), SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE);
    drop(stream);
    one.drop_slot("a", false).unwrap();
}

/// A slot goes back where the log is there, with the definitions that the slot has, and stays otherwise.
#[test]
fn a_slot_is_moved_back() {
    let scratch = Scratch::new("rewind");
    let database = open(&scratch.0);
    let mut one = session(&database);
    ask(&mut one, "CREATE TABLE t (id integer PRIMARY KEY, v text); CREATE PUBLICATION \"all\" FOR ALL TABLES");
    one.create_slot("copy", "pgoutput", false).unwrap();
    let read = |session: &mut Session| {
        let mut shown = Vec::new();
        let (_, all) = follow(session, 0, true, &mut |change, types| shown.push(in_words(change, types)));
        (shown, all.iter().map(|transaction| transaction.commit).collect::<Vec<_>>())
    };
    (1..4).for_each(|n| drop(ask(&mut one, &format!("INSERT INTO t VALUES ({n})"))));
    let (shown, commits) = read(&mut one);
    assert_eq!(shown, ["t + id=1 v=NULL", "t + id=2 v=NULL", "t + id=3 v=NULL"]);
    for n in [1, 0, 2] {
        assert!(one.rewind_slot("copy", commits[n]).unwrap());
        assert_eq!(read(&mut one).0, shown[n..]);
    }
    // A slot that was made anew, in its file as well.
    one.drop_slot("copy", false).unwrap();
    one.create_slot("copy", "pgoutput", false).unwrap();
    assert!(one.rewind_slot("copy", commits[0]).unwrap());
    drop((one, database));
    let database = open(&scratch.0);
    let mut one = session(&database);
    assert_eq!(read(&mut one).0, shown);

    let stays = |session: &mut Session, position: u64| {
        let confirmed = "SELECT confirmed_flush_lsn, wal_status FROM pg_replication_slots";
        let before = ask(session, confirmed);
        assert!(!session.rewind_slot("copy", position).unwrap());
        assert_eq!(ask(session, confirmed), before);
        assert_eq!(read(session).0, [""; 0]);
    };
    // No transaction has committed there.
    stays(&mut one, commits[1] + 32);
    stays(&mut one, u64::MAX >> 1);
    ask(&mut one, "ALTER TABLE t ADD COLUMN later integer");
    ask(&mut one, "INSERT INTO t VALUES (4)");
    let (shown, later) = read(&mut one);
    stays(&mut one, commits[2]);
    assert!(one.rewind_slot("copy", later[0]).unwrap());
    assert_eq!((read(&mut one).0, &*shown), (shown.clone(), &["t + id=4 v=NULL later=NULL".to_owned()][..]));
    let stream = one.stream("copy", 0, vec!["all".into()]).unwrap();
    assert_eq!(one.rewind_slot("copy", later[0]).unwrap_err().state(), SqlState::OBJECT_IN_USE);
    drop(stream);
    // More than it may hold back.
    ask(&mut one, "INSERT INTO t SELECT n, repeat('x', 500) FROM generate_series(10, 500) n");
    read(&mut one);
    database.limit_slots(Some(10_000));
    stays(&mut one, later[0]);
    database.limit_slots(None);
    assert!(one.rewind_slot("copy", later[0]).unwrap());
    read(&mut one);
    ask(&mut one, "DELETE FROM t WHERE id >= 10");
    // Checkpoints remove what no slot keeps.
    for _ in 0..4 {
        ask(&mut one, "INSERT INTO t SELECT n, repeat('x', 500) FROM generate_series(10, 500) n");
        ask(&mut one, "DELETE FROM t WHERE id >= 10");
        read(&mut one);
        one.drop_slot("copy", false).unwrap();
        ask(&mut one, "CHECKPOINT");
        one.create_slot("copy", "pgoutput", false).unwrap();
    }
    stays(&mut one, later[0]);
}

/// Returns a change in words.
fn in_words(change: &TableChange, types: &Arc<UserTypes>) -> String {
    let (table, change) = match change {
        TableChange::Row(table, change) => (table, change),
        TableChange::Truncate(tables) => {
            return tables.iter().map(|table| format!("{} 0", table.name)).collect::<Vec<_>>().join(", ");
        }
    };
    let (sign, row) = match change {
        RowChange::Insert(row) => ("+", row),
        RowChange::Update(row) => ("=", row),
        RowChange::Delete(row) => ("-", row),
    };
    format!("{} {sign} {}", table.name, shown(table, row, types).join(" "))
}

/// Rows that are written anew are not shown, rows of emptied tables are; several tables are emptied at once; the values
/// of unique columns pass from row to row.
#[test]
fn transactions_are_shown_so_that_each_change_can_be_made() {
    let scratch = Scratch::new("order");
    let database = open(&scratch.0);
    let mut one = session(&database);
    one.create_slot("copy", "pgoutput", false).unwrap();
    ask(
        &mut one,
        "CREATE PUBLICATION \"all\" FOR ALL TABLES; CREATE TABLE par (id integer PRIMARY KEY, v integer); \
         CREATE TABLE chi (id integer PRIMARY KEY, par integer REFERENCES par); \
         CREATE TABLE u (id integer PRIMARY KEY, k text UNIQUE)",
    );
    ask(&mut one, "INSERT INTO par VALUES (1, 5); INSERT INTO u VALUES (1, 'a'), (2, 'b')");
    ask(&mut one, "ALTER TABLE par ALTER v TYPE integer USING v + 1");
    ask(&mut one, "BEGIN; ALTER TABLE par ALTER v TYPE bigint");
    assert!(run(&mut one, "INSERT INTO par VALUES (2, 6)").is_err());
    ask(&mut one, "ROLLBACK; BEGIN; INSERT INTO par VALUES (2, 6)");
    assert!(run(&mut one, "ALTER TABLE par ALTER v TYPE bigint").is_err());
    ask(&mut one, "ROLLBACK");
    ask(
        &mut one,
        "BEGIN; TRUNCATE par, chi; ALTER TABLE par ALTER v TYPE bigint; INSERT INTO par VALUES (3, 7); COMMIT",
    );
    ask(&mut one, "BEGIN; UPDATE u SET k = 'c' WHERE id = 1; UPDATE u SET k = 'a' WHERE id = 2; COMMIT");
    ask(&mut one, "UPDATE u SET id = id - 1");
    ask(&mut one, "UPDATE u SET k = 'd' WHERE id = 1");
    let mut all = Vec::new();
    follow(&mut one, 0, false, &mut |change, types| all.push(in_words(change, types)));
    let expected = [
        "par + id=1 v=5",
        "u + id=1 k=a",
        "u + id=2 k=b",
        "par 0, chi 0",
        "par + id=3 v=7",
        "u - id=1 k=NULL",
        "u - id=2 k=NULL",
        "u + id=1 k=c",
        "u + id=2 k=a",
        "u - id=1 k=NULL",
        "u - id=2 k=NULL",
        "u + id=1 k=a",
        "u + id=0 k=c",
        "u = id=1 k=d",
    ];
    assert_eq!(all, expected);
}

/// What a publication leaves out is not shown, and what no reader could tell is refused where it is written.
#[test]
fn publications_have_kinds_and_tables() {
    let scratch = Scratch::new("kinds");
    let database = open(&scratch.0);
    let mut one = session(&database);
    ask(
        &mut one,
        "CREATE SCHEMA s; CREATE TABLE s.inside (id integer PRIMARY KEY); \
         CREATE TABLE a (id integer PRIMARY KEY, v text); CREATE TABLE bare (v text); \
         CREATE TABLE odd (id inet PRIMARY KEY); CREATE TABLE out (id integer PRIMARY KEY); \
         INSERT INTO bare VALUES ('x'); INSERT INTO odd VALUES ('::1')",
    );
    ask(
        &mut one,
        "CREATE PUBLICATION \"all\" FOR TABLE a, bare, odd, TABLES IN SCHEMA s WITH (publish = 'insert, delete')",
    );
    one.create_slot("copy", "pgoutput", false).unwrap();
    for (statement, state) in [
        ("INSERT INTO s.inside VALUES (1)", None),
        ("INSERT INTO a VALUES (1, 'a')", None),
        ("UPDATE a SET v = 'b'", None),
        ("INSERT INTO out VALUES (1)", None),
        ("INSERT INTO bare VALUES ('y')", None),
        ("UPDATE bare SET v = 'z'", None),
        ("DELETE FROM bare", Some(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE)),
        ("DELETE FROM odd", Some(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE)),
        ("DELETE FROM a", None),
        ("TRUNCATE a", None),
        ("INSERT INTO a VALUES (2, 'after')", None),
        ("ALTER TABLE a ALTER COLUMN v TYPE varchar USING v || '!'", None),
    ] {
        assert_eq!(run(&mut one, statement).err(), state, "{statement}");
    }
    let mut all = Vec::new();
    follow(&mut one, 0, false, &mut |change, types| all.push(in_words(change, types)));
    // The rewritten rows are those that readers have.
    let expected = ["inside + id=1", "a + id=1 v=a", "bare + v=y", "a - id=1 v=NULL", "a + id=2 v=after"];
    assert_eq!(all, expected);
    ask(&mut one, "ALTER PUBLICATION \"all\" DROP TABLE bare, odd; DELETE FROM bare; DELETE FROM odd");
}

/// Rows of tables that were not there for the snapshot of the slot, but whose relation files were.
#[test]
fn tables_of_transactions_that_were_running_are_followed() {
    let scratch = Scratch::new("running");
    let database = open(&scratch.0);
    let (mut one, mut other) = (session(&database), session(&database));
    ask(&mut one, "CREATE TABLE old (id integer PRIMARY KEY); INSERT INTO old VALUES (1); DROP TABLE old");
    ask(&mut one, "CREATE PUBLICATION \"all\" FOR ALL TABLES");
    ask(&mut other, "BEGIN; CREATE TABLE early (id integer PRIMARY KEY); INSERT INTO early VALUES (1)");
    // The file of the dropped table becomes free.
    std::thread::sleep(Duration::from_millis(300));
    one.create_slot("copy", "pgoutput", false).unwrap();
    ask(&mut other, "INSERT INTO early VALUES (2); COMMIT");
    for n in 0..5 {
        ask(&mut one, &format!("CREATE TABLE late{n} (id integer PRIMARY KEY); INSERT INTO late{n} VALUES (3)"));
    }
    ask(&mut one, "DROP TABLE early, late0");
    let mut seen = Vec::new();
    follow(&mut one, 0, true, &mut |change, types| seen.push(in_words(change, types)));
    let late = (0..5).map(|n| format!("late{n} + id=3"));
    let expected: Vec<_> = ["early + id=1".to_owned(), "early + id=2".to_owned()].into_iter().chain(late).collect();
    assert_eq!(seen, expected);
}

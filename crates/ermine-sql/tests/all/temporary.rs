//! Goal: temporary objects belong to one session, and nothing of them reaches a file.
//! Method: two sessions with objects of one name; files that are searched for a marker, also after rollbacks, crashes
//! and ends of sessions; the engine's tables are counted. What statements answer is in `temporary.slt`.

use std::sync::Arc;

use ermine::{Database, Options, Scheme};
use ermine_sql::{SqlDatabase, SqlState};
use ermine_testing::faulty::{FaultyDirectory, Keep};

use crate::sessions::{ask, run};

const MARKER: &str = "temporarymarker7f3a";

fn open(directory: &FaultyDirectory, scheme: Scheme) -> (Arc<Database>, SqlDatabase) {
    let options = Options::default().scheme(scheme).segment_bytes(256 << 10).log_buffer_bytes(128 << 10);
    let engine = Arc::new(Database::open_in(Arc::new(directory.clone()), options).unwrap());
    let database = SqlDatabase::open(engine.clone()).unwrap();
    (engine, database)
}

fn is_marked(directory: &FaultyDirectory) -> bool {
    directory.contents().values().any(|bytes| bytes.windows(MARKER.len()).any(|window| window == MARKER.as_bytes()))
}

#[test]
fn nothing_of_temporary_objects_reaches_a_file() {
    for scheme in [Scheme::SiSsn, Scheme::Silo, Scheme::TwoPhaseNoWait] {
        let directory = FaultyDirectory::new();
        let (engine, database) = open(&directory, scheme);
        let mut session = database.session("ann", "shop");
        ask(&mut session, "CREATE ROLE bob");
        ask(&mut session, "CREATE TABLE kept (id int PRIMARY KEY, v text)");
        let tables = engine.tables().len();
        for turn in 0..3 {
            ask(&mut session, "SET ROLE bob");
            ask(&mut session, "BEGIN");
            let create = format!(
                "CREATE TEMP TABLE {MARKER} (id serial PRIMARY KEY, {MARKER}1 text DEFAULT '{MARKER}2' UNIQUE, \
                 CHECK ({MARKER}1 <> '{MARKER}3'))"
            );
            ask(&mut session, &create);
            ask(&mut session, &format!("INSERT INTO {MARKER} ({MARKER}1) VALUES ('{MARKER}4'), ('{MARKER}5')"));
            ask(&mut session, &format!("CREATE TEMP VIEW {MARKER}6 AS SELECT '{MARKER}7'::text FROM {MARKER}"));
            ask(&mut session, &format!("CREATE INDEX {MARKER}8 ON {MARKER} ({MARKER}1)"));
            ask(&mut session, &format!("COMMENT ON TABLE {MARKER} IS '{MARKER}9'"));
            ask(&mut session, &format!("GRANT SELECT ON {MARKER} TO PUBLIC"));
            ask(&mut session, "RESET ROLE");
            let key = format!("INSERT INTO kept VALUES ({turn}, 'kept')");
            ask(&mut session, &key);
            ask(&mut session, if turn == 0 { "ROLLBACK" } else { "COMMIT" });
            if turn == 0 {
                assert_eq!(engine.tables().len(), tables + 1, "{scheme}: the one of sequences");
                continue;
            }
            ask(&mut session, &format!("UPDATE {MARKER} SET {MARKER}1 = {MARKER}1 || '{MARKER}a'"));
            assert_eq!(ask(&mut session, &format!("SELECT count(*) FROM {MARKER}6")), ["2"], "{scheme}");
            engine.checkpoint().unwrap();
            if turn == 1 {
                ask(&mut session, &format!("ALTER TABLE {MARKER} ADD COLUMN more text DEFAULT '{MARKER}b'"));
                ask(&mut session, &format!("TRUNCATE {MARKER}"));
                ask(&mut session, &format!("DROP TABLE {MARKER} CASCADE"));
                assert_eq!(engine.tables().len(), tables + 1, "{scheme}");
            }
        }
        engine.sync().unwrap();
        assert!(!is_marked(&directory), "{scheme}");
        // A crash, and the end of a session.
        let crashed = directory.trace().crash(directory.operations(), Keep::Everything);
        drop(session);
        assert_eq!(engine.tables().len(), tables + 1, "{scheme}");
        drop((database, engine));
        for directory in [crashed, directory] {
            let (engine, database) = open(&directory, scheme);
            assert_eq!(engine.tables().len(), tables, "{scheme}");
            let mut session = database.session("ann", "shop");
            assert_eq!(ask(&mut session, "SELECT count(*) FROM kept"), ["2"], "{scheme}");
            assert_eq!(run(&mut session, &format!("TABLE {MARKER}")), Err(SqlState::UNDEFINED_TABLE), "{scheme}");
            ask(&mut session, "DROP ROLE bob");
            assert_eq!(session.disagreements().unwrap(), Vec::<String>::new(), "{scheme}");
            assert!(!is_marked(&directory), "{scheme}");
            ask(&mut session, &format!("CREATE TABLE named (v text DEFAULT '{MARKER}')"));
            assert!(is_marked(&directory), "{scheme}: the search finds what is there");
        }
    }
}

#[test]
fn sessions_have_objects_of_their_own() {
    let (_, database) = open(&FaultyDirectory::new(), Scheme::SiSsn);
    let (mut one, mut other) = (database.session("ann", "shop"), database.session("bob", "shop"));
    ask(&mut other, "CREATE TABLE t (id int)");
    ask(&mut other, "INSERT INTO t VALUES (0)");
    ask(&mut one, "CREATE TEMP TABLE t (id int PRIMARY KEY)");
    ask(&mut one, "INSERT INTO t VALUES (1), (2)");
    ask(&mut other, "BEGIN");
    assert_eq!(ask(&mut other, "TABLE t"), ["0"]);
    ask(&mut other, "CREATE TEMP TABLE t (id int)");
    ask(&mut other, "INSERT INTO t VALUES (3)");
    assert_eq!(
        (ask(&mut other, "TABLE t"), ask(&mut one, "SELECT id FROM t ORDER BY id")),
        (vec!["3".into()], vec!["1".into(), "2".into()])
    );
    ask(&mut other, "ROLLBACK");
    assert_eq!(ask(&mut other, "TABLE t"), ["0"]);
    // The text is the same, and its plan another one.
    for _ in 0..3 {
        assert_eq!(ask(&mut one, "SELECT count(*) FROM t"), ["2"]);
    }
    ask(&mut other, "CREATE TABLE changed_since (id int)");
    assert_eq!(ask(&mut one, "SELECT count(*) FROM t"), ["2"]);
    ask(&mut one, "DROP TABLE t");
    assert_eq!(ask(&mut one, "SELECT count(*) FROM t"), ["1"]);
    // Neither waits for the other, nor loses to it.
    ask(&mut one, "CREATE TEMP TABLE u AS SELECT 1 AS id");
    ask(&mut other, "CREATE TEMP TABLE u AS SELECT 2 AS id");
    for session in [&mut one, &mut other] {
        ask(session, "BEGIN ISOLATION LEVEL SERIALIZABLE");
        ask(session, "SELECT * FROM u");
        ask(session, "UPDATE u SET id = id + 10");
    }
    ask(&mut one, "COMMIT");
    ask(&mut other, "COMMIT");
    assert_eq!((ask(&mut one, "TABLE u"), ask(&mut other, "TABLE u")), (vec!["11".into()], vec!["12".into()]));
    let names = "SELECT count(*) FROM pg_class WHERE relname = 'u'";
    assert_eq!((ask(&mut one, names), ask(&mut other, names)), (vec!["1".into()], vec!["1".into()]));
}

/// Another session drops what temporary objects use: it does not know of them. They give errors from then on.
#[test]
fn objects_survive_the_loss_of_what_they_use() {
    let (_, database) = open(&FaultyDirectory::new(), Scheme::SiSsn);
    let (mut one, mut other) = (database.session("ann", "shop"), database.session("bob", "shop"));
    ask(&mut other, "CREATE TYPE mood AS ENUM ('sad', 'ok')");
    ask(&mut other, "CREATE TABLE kept (id int, v text)");
    ask(&mut other, "CREATE SEQUENCE numbers");
    ask(&mut one, "CREATE TEMP TABLE m (x mood, n int DEFAULT nextval('numbers'))");
    ask(&mut one, "INSERT INTO m VALUES ('ok')");
    ask(&mut one, "CREATE TEMP VIEW shown AS SELECT id, v FROM kept");
    assert_eq!(ask(&mut one, "SELECT * FROM m"), ["ok,1"]);
    assert_eq!(run(&mut other, "ALTER TABLE kept DROP COLUMN v"), Ok(vec![]));
    assert!(run(&mut one, "SELECT * FROM shown").is_err());
    for statement in ["DROP TABLE kept", "DROP TYPE mood", "DROP SEQUENCE numbers"] {
        ask(&mut other, statement);
    }
    let uses =
        ["SELECT * FROM shown", "SELECT * FROM m", "SELECT x FROM m WHERE x = 'ok'", "INSERT INTO m VALUES ('ok')"];
    for statement in
        uses.iter().chain(&["INSERT INTO m (n) VALUES (1)", "UPDATE m SET n = 2", "ALTER TABLE m ADD c int"])
    {
        let _ = run(&mut one, statement);
    }
    for view in ["SELECT * FROM pg_attribute", "SELECT * FROM information_schema.columns", "SELECT * FROM pg_views"] {
        ask(&mut one, view);
    }
    ask(&mut one, "DROP VIEW shown");
    ask(&mut one, "DROP TABLE m");
    ask(&mut one, "CREATE TEMP TABLE m (x int)");
    assert_eq!(ask(&mut one, "SELECT * FROM m"), [""; 0]);
}

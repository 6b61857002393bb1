//! Goal: databases of one server have nothing in common but roles and each other's names, also after a crash.
//! Method: the same statements in two databases; random lives of several databases beside a model; changes of roles
//! and databases while other sessions look; directories that are copied while open.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    thread,
};

use ermine::{Database, Options, Scheme};
use ermine_sql::{RowSet, Session, SqlDatabase, SqlError, SqlState};

use crate::sessions::ask;

fn in_memory(scheme: Scheme) -> SqlDatabase {
    let engine = Database::open_in_memory(Options::default().scheme(scheme)).unwrap();
    SqlDatabase::open(Arc::new(engine)).unwrap()
}

fn schemes() -> impl Iterator<Item = Scheme> {
    Scheme::ALL.into_iter().filter(|scheme| SqlDatabase::serves(*scheme))
}

fn run(session: &mut Session, text: &str) -> Result<(), SqlError> {
    session.run(text, &mut RowSet::default()).map(drop)
}

fn state(session: &mut Session, text: &str) -> Option<SqlState> {
    run(session, text).err().map(|error| error.state())
}

/// Logs in as a client does that has proved nothing.
fn login(database: &SqlDatabase, user: &str, name: &str) -> Result<Session, SqlState> {
    database.login(user, name, false).map_err(|error| error.state())
}

/// Begins a session in a database.
fn enter(database: &SqlDatabase, name: &str) -> Session {
    login(database, "tester", name).unwrap()
}

const OBJECTS: &str = "CREATE SCHEMA s; CREATE TABLE t (id serial PRIMARY KEY, v text UNIQUE); \
    CREATE TYPE mood AS ENUM ('good', 'bad'); CREATE DOMAIN small AS int CHECK (VALUE < 10); \
    CREATE TABLE s.u (t int REFERENCES t, m mood, n small); CREATE VIEW w AS SELECT v FROM t; \
    CREATE MATERIALIZED VIEW x AS SELECT count(*) AS n FROM t; CREATE INDEX ON t ((lower(v))); \
    COMMENT ON TABLE t IS 'ours'; COMMENT ON SCHEMA public IS 'all'; CREATE PUBLICATION p FOR TABLE t; \
    ALTER TABLE t ENABLE ROW LEVEL SECURITY; CREATE POLICY y ON t USING (true); CREATE SEQUENCE q";

#[test]
fn databases_share_no_names_and_no_rows() {
    for scheme in schemes() {
        let database = in_memory(scheme);
        let mut main = enter(&database, "main");
        ask(&mut main, "CREATE DATABASE other");
        let mut other = enter(&database, "other");
        assert_eq!(ask(&mut other, "SELECT current_database()"), ["other"]);
        assert_eq!(ask(&mut main, "SELECT current_database()"), ["main"]);
        for (session, row) in [(&mut main, "one"), (&mut other, "two")] {
            ask(session, OBJECTS);
            ask(session, &format!("INSERT INTO t (v) VALUES ('{row}')"));
            ask(session, "INSERT INTO s.u VALUES (1, 'good', 1)");
        }
        for (session, row) in [(&mut main, "1,one"), (&mut other, "1,two")] {
            assert_eq!(ask(session, "SELECT * FROM t"), [row], "{scheme}");
            assert_eq!(ask(session, "SELECT nextval('q')"), ["1"]);
            assert_eq!(ask(session, "SELECT count(*) FROM pg_class WHERE relname = 't'"), ["1"]);
            assert_eq!(ask(session, "SELECT obj_description('t'::regclass)"), ["ours"]);
            assert_eq!(state(session, "INSERT INTO s.u VALUES (7, 'good', 1)"), Some(SqlState::FOREIGN_KEY_VIOLATION));
        }
        ask(&mut other, "DROP TABLE s.u; DROP SCHEMA s; ALTER TABLE t RENAME TO z");
        assert_eq!(ask(&mut main, "SELECT v FROM w"), ["one"]);
        assert_eq!(ask(&mut other, "SELECT v FROM w"), ["two"]);
        assert_eq!(database.verify().unwrap().findings, Vec::<String>::new(), "{scheme}");
    }
}

#[test]
fn locks_notifications_and_statements_belong_to_a_database() {
    let database = in_memory(Scheme::SiSsn);
    let mut main = enter(&database, "main");
    ask(&mut main, "CREATE DATABASE other");
    let mut other = enter(&database, "other");
    ask(&mut main, "SELECT pg_advisory_lock(7)");
    assert_eq!(ask(&mut other, "SELECT pg_try_advisory_lock(7)"), ["t"]);
    let counts = "SELECT count(DISTINCT database) FROM pg_locks WHERE locktype = 'advisory'";
    assert_eq!(ask(&mut other, counts), ["2"]);
    ask(&mut main, "LISTEN c");
    ask(&mut other, "LISTEN c; NOTIFY c, 'there'");
    assert!(main.notifications().is_empty());
    assert_eq!(&*other.notifications()[0].payload, "there");
    ask(&mut main, "NOTIFY c, 'here'");
    assert!(other.notifications().is_empty());
    assert_eq!(&*main.notifications()[0].payload, "here");
    for session in [&mut main, &mut other] {
        ask(session, "SELECT 4711");
    }
    let counted = "SELECT count(DISTINCT dbid) FROM pg_stat_statements WHERE query = 'SELECT $1'";
    assert_eq!(ask(&mut main, counted), ["2"]);
    let shown = "SELECT datname, a.datid = d.oid FROM pg_stat_activity a JOIN pg_database d USING (datname) ORDER BY 1";
    assert_eq!(ask(&mut main, shown), ["main,t", "other,t"]);
    let main_session = "SELECT datname FROM pg_database ORDER BY 1";
    assert_eq!(ask(&mut main, main_session), ["main", "other"]);
    assert_eq!(ask(&mut other, main_session), ["other", "postgres"]);
}

#[test]
fn roles_and_their_rights_are_those_of_all_databases() {
    for scheme in schemes() {
        let database = in_memory(scheme);
        let mut main = enter(&database, "main");
        ask(&mut main, "CREATE DATABASE other");
        let mut other = enter(&database, "other");
        ask(&mut other, "CREATE ROLE ann LOGIN; CREATE ROLE group_role; GRANT group_role TO ann");
        ask(&mut main, "ALTER ROLE ann CONNECTION LIMIT 3; COMMENT ON ROLE ann IS 'a person'");
        for session in [&mut main, &mut other] {
            let shown = "SELECT rolconnlimit, pg_has_role('ann', 'group_role', 'member'), shobj_description(oid, \
                'pg_authid') FROM pg_roles WHERE rolname = 'ann'";
            assert_eq!(ask(session, shown), ["3,t,a person"], "{scheme}");
        }
        // A role stays while any database has an object of it.
        ask(
            &mut other,
            "CREATE TABLE t (a int); ALTER TABLE t OWNER TO ann; CREATE TABLE u (a int); \
            GRANT SELECT ON u TO ann",
        );
        let error = run(&mut main, "DROP ROLE ann").unwrap_err();
        assert_eq!(error.state(), SqlState::DEPENDENT_OBJECTS_STILL_EXIST);
        assert_eq!(error.report().detail.as_deref(), Some("2 objects in database other"));
        ask(&mut other, "DROP OWNED BY ann");
        ask(&mut main, "DROP ROLE ann");
        assert_eq!(ask(&mut other, "SELECT count(*) FROM pg_roles WHERE rolname = 'ann'"), ["0"]);
        assert_eq!(database.verify().unwrap().findings, Vec::<String>::new(), "{scheme}");
    }
}

#[test]
fn rights_decide_about_databases() {
    let database = in_memory(Scheme::SiSsn);
    let mut main = enter(&database, "main");
    ask(&mut main, "CREATE ROLE maker LOGIN CREATEDB; CREATE ROLE ann LOGIN; CREATE ROLE boss LOGIN SUPERUSER");
    let mut ann = login(&database, "ann", "main").unwrap();
    assert_eq!(state(&mut ann, "CREATE DATABASE a"), Some(SqlState::INSUFFICIENT_PRIVILEGE));
    let mut maker = login(&database, "maker", "main").unwrap();
    ask(&mut maker, "CREATE DATABASE a");
    assert_eq!(state(&mut maker, "CREATE DATABASE b OWNER boss"), Some(SqlState::INSUFFICIENT_PRIVILEGE));
    for change in ["DROP DATABASE a", "ALTER DATABASE a RENAME TO b", "ALTER DATABASE a CONNECTION LIMIT 1"] {
        assert_eq!(state(&mut ann, change), Some(SqlState::INSUFFICIENT_PRIVILEGE), "{change}");
    }
    // The owner has all rights in it, and is a member of the role that owns `public`.
    let mut own = login(&database, "maker", "a").unwrap();
    ask(&mut own, "CREATE SCHEMA s; CREATE TABLE t (a int)");
    let mut in_a = login(&database, "ann", "a").unwrap();
    assert_eq!(state(&mut in_a, "CREATE SCHEMA x"), Some(SqlState::INSUFFICIENT_PRIVILEGE));
    ask(&mut own, "GRANT CREATE ON DATABASE a TO ann");
    ask(&mut in_a, "CREATE SCHEMA x");
    assert_eq!(ask(&mut main, "SELECT has_database_privilege('ann', 'a', 'create')"), ["t"]);
    assert_eq!(ask(&mut main, "SELECT has_database_privilege('ann', 'main', 'create')"), ["f"]);
    // CONNECT and ALLOW_CONNECTIONS.
    drop((in_a, own));
    ask(&mut maker, "REVOKE CONNECT ON DATABASE a FROM public");
    assert_eq!(login(&database, "ann", "a").err(), Some(SqlState::INSUFFICIENT_PRIVILEGE));
    drop(login(&database, "maker", "a").unwrap());
    ask(&mut maker, "ALTER DATABASE a WITH ALLOW_CONNECTIONS false");
    assert_eq!(login(&database, "boss", "a").err(), Some(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE));
    let shown = "SELECT datallowconn, datconnlimit, datistemplate FROM pg_database WHERE datname = 'a'";
    assert_eq!(ask(&mut main, shown), ["f,-1,f"]);
    ask(&mut maker, "ALTER DATABASE a ALLOW_CONNECTIONS = true CONNECTION LIMIT 2 IS_TEMPLATE = true");
    assert_eq!(ask(&mut main, shown), ["t,2,t"]);
    assert_eq!(state(&mut maker, "DROP DATABASE a"), Some(SqlState::WRONG_OBJECT_TYPE));
    ask(&mut maker, "ALTER DATABASE a IS_TEMPLATE false");
    ask(&mut main, "ALTER DATABASE a OWNER TO ann; COMMENT ON DATABASE a IS 'hers'");
    assert_eq!(state(&mut maker, "DROP DATABASE a"), Some(SqlState::INSUFFICIENT_PRIVILEGE));
    ask(&mut ann, "DROP DATABASE a");
    assert_eq!(ask(&mut main, "SELECT count(*) FROM pg_shdescription"), ["0"]);
    assert_eq!(database.verify().unwrap().findings, Vec::<String>::new());
}

#[test]
fn statements_about_databases_fail_as_in_postgresql() {
    let database = in_memory(Scheme::SiSsn);
    let mut main = enter(&database, "main");
    ask(
        &mut main,
        "CREATE DATABASE a WITH OWNER = DEFAULT TEMPLATE = template0 ENCODING 'UTF8' LOCALE 'C' TABLESPACE \
        pg_default CONNECTION LIMIT = -1",
    );
    for (statement, expected) in [
        ("CREATE DATABASE a", "42P04"),
        ("CREATE DATABASE main", "42P04"),
        ("CREATE DATABASE postgres", "42P04"),
        ("CREATE DATABASE template1", "42P04"),
        ("CREATE DATABASE b TEMPLATE c", "3D000"),
        ("CREATE DATABASE b TABLESPACE c", "42704"),
        ("CREATE DATABASE b OWNER c", "42704"),
        ("CREATE DATABASE b ENCODING 'LATIN1'", "0A000"),
        ("CREATE DATABASE b CONNECTION LIMIT -2", "22023"),
        ("CREATE DATABASE b ALLOW_CONNECTIONS maybe", "42601"),
        ("CREATE DATABASE b COLOUR red", "42601"),
        ("CREATE DATABASE b TEMPLATE template0 TEMPLATE template1", "42601"),
        ("CREATE DATABASE b OWNER", "42601"),
        ("DROP DATABASE b", "3D000"),
        ("DROP DATABASE main", "0A000"),
        ("DROP DATABASE a (GENTLY)", "42601"),
        ("ALTER DATABASE b RENAME TO c", "3D000"),
        ("ALTER DATABASE a RENAME TO main", "42P04"),
        ("ALTER DATABASE a SET work_mem = '1MB'", "0A000"),
        ("BEGIN; CREATE DATABASE b", "25001"),
        ("BEGIN; DROP DATABASE a", "25001"),
        ("GRANT CONNECT ON DATABASE b TO public", "3D000"),
    ] {
        assert_eq!(state(&mut main, statement).map(|state| state.0), Some(expected), "{statement}");
        let _ = run(&mut main, "ROLLBACK");
    }
    ask(&mut main, "DROP DATABASE IF EXISTS b");
    let mut a = enter(&database, "a");
    assert_eq!(state(&mut a, "DROP DATABASE a"), Some(SqlState::OBJECT_IN_USE));
    assert_eq!(state(&mut a, "ALTER DATABASE a RENAME TO b"), Some(SqlState::FEATURE_NOT_SUPPORTED));
    let error = run(&mut main, "DROP DATABASE a").unwrap_err();
    assert_eq!(error.state(), SqlState::OBJECT_IN_USE);
    assert_eq!(error.report().detail.as_deref(), Some("There is 1 other session using the database."));
    ask(&mut a, "CREATE TABLE t (a int)");
    assert_eq!(state(&mut main, "CREATE DATABASE b TEMPLATE a"), Some(SqlState::FEATURE_NOT_SUPPORTED));
    // A prepared transaction uses it, too, and is ended there.
    ask(&mut a, "BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'p'");
    drop(a);
    let error = run(&mut main, "DROP DATABASE a").unwrap_err();
    assert_eq!(error.report().detail.as_deref(), Some("There is 1 prepared transaction using the database."));
    assert_eq!(state(&mut main, "COMMIT PREPARED 'p'"), Some(SqlState::FEATURE_NOT_SUPPORTED));
    ask(&mut enter(&database, "a"), "COMMIT PREPARED 'p'");
    ask(&mut main, "ALTER DATABASE a RENAME TO b");
    assert_eq!(ask(&mut enter(&database, "b"), "SELECT a FROM t"), ["1"]);
    ask(&mut main, "DROP DATABASE b WITH (FORCE)");
    // The name of a database that was dropped is not one of the first database.
    assert_eq!(login(&database, "tester", "b").err(), Some(SqlState::INVALID_CATALOG_NAME));
    assert_eq!(login(&database, "tester", "a").err(), Some(SqlState::INVALID_CATALOG_NAME));
    ask(&mut main, "CREATE DATABASE b");
    assert_eq!(
        state(&mut login(&database, "tester", "b").unwrap(), "SELECT a FROM t"),
        Some(SqlState::UNDEFINED_TABLE)
    );
    assert_eq!(database.verify().unwrap().findings, Vec::<String>::new());
}

#[test]
fn names_may_have_to_be_those_of_databases() {
    let database = in_memory(Scheme::SiSsn);
    let mut main = login(&database, "tester", "anything").unwrap();
    ask(&mut main, "CREATE DATABASE a");
    database.require_names(true);
    assert_eq!(login(&database, "tester", "anything").err(), Some(SqlState::INVALID_CATALOG_NAME));
    for name in ["postgres", "a"] {
        assert_eq!(ask(&mut login(&database, "tester", name).unwrap(), "SELECT current_database()"), [name]);
    }
}

#[test]
fn what_a_database_is_given_keeps_it() {
    for scheme in schemes() {
        // A statement that meets an open transaction gives up soon.
        let engine = Database::open_in_memory(Options::default().scheme(scheme).attempts_max(3)).unwrap();
        let database = SqlDatabase::open(Arc::new(engine)).unwrap();
        let mut main = enter(&database, "main");
        ask(&mut main, "CREATE DATABASE a");
        ask(&mut main, "CREATE ROLE r");
        for change in ["GRANT CREATE ON DATABASE a TO r", "COMMENT ON DATABASE a IS 'x'", "ALTER DATABASE a OWNER TO r"]
        {
            // One of both loses, or waits and loses.
            ask(&mut main, "SET lock_timeout = '10ms'; BEGIN");
            let given = state(&mut main, change);
            let mut other = enter(&database, "other");
            ask(&mut other, "SET lock_timeout = '10ms'");
            let dropped = state(&mut other, "DROP DATABASE a");
            let committed = state(&mut main, "COMMIT");
            assert!(given.is_some() || dropped.is_some() || committed.is_some(), "{scheme}: {change}");
            assert_eq!(database.verify().unwrap().findings, Vec::<String>::new(), "{scheme}: {change}");
            if dropped.is_none() {
                ask(&mut main, "CREATE DATABASE a");
            }
        }
    }
}

#[test]
fn names_of_sessions_and_of_databases_meet() {
    let database = in_memory(Scheme::SiSsn);
    // The first database's session, whose name another database gets.
    let mut early = enter(&database, "a");
    ask(&mut early, "CREATE TABLE t (id int)");
    ask(&mut early, "BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'p'");
    let mut main = enter(&database, "postgres");
    ask(&mut main, "CREATE DATABASE a");
    assert_eq!(ask(&mut early, "SELECT datname FROM pg_database ORDER BY 1"), ["a", "postgres"]);
    ask(&mut early, "COMMENT ON DATABASE a IS 'the other'");
    assert_eq!(ask(&mut main, "SELECT count(*) FROM pg_shdescription WHERE objoid > 5"), ["1"]);
    // A prepared transaction belongs to the database where it was prepared.
    let mut other = enter(&database, "a");
    assert_eq!(state(&mut other, "ROLLBACK PREPARED 'p'"), Some(SqlState::FEATURE_NOT_SUPPORTED));
    drop(other);
    ask(&mut main, "DROP DATABASE a");
    ask(&mut early, "COMMIT PREPARED 'p'");
    assert_eq!(ask(&mut main, "SELECT id FROM t"), ["1"]);
    // A superuser needs no other right.
    ask(&mut main, "CREATE ROLE boss LOGIN SUPERUSER NOCREATEDB");
    ask(&mut main, "CREATE DATABASE b");
    let mut boss = login(&database, "boss", "postgres").unwrap();
    ask(&mut boss, "ALTER DATABASE b RENAME TO c");
    ask(&mut main, "CREATE ROLE other LOGIN");
    let mut plain = login(&database, "other", "postgres").unwrap();
    assert_eq!(state(&mut plain, "DROP DATABASE IF EXISTS c"), Some(SqlState::INSUFFICIENT_PRIVILEGE));
    assert_eq!(state(&mut main, "CREATE DATABASE \"\""), Some(SqlState::SYNTAX_ERROR));
    let long = "n".repeat(70);
    assert_eq!(ask(&mut enter(&database, &long), "SELECT length(current_database())"), ["63"]);
}

#[test]
fn a_database_without_definitions_outlives_a_restart() {
    let engine = Arc::new(Database::open_in_memory(Options::default()).unwrap());
    let database = SqlDatabase::open(engine.clone()).unwrap();
    ask(&mut enter(&database, "postgres"), "CREATE DATABASE a");
    ask(&mut enter(&database, "a"), "DROP SCHEMA public");
    drop(database);
    let database = SqlDatabase::open(engine).unwrap();
    ask(&mut enter(&database, "a"), "CREATE SCHEMA s; CREATE TABLE s.t (a int)");
    ask(&mut enter(&database, "postgres"), "DROP DATABASE a");
    assert_eq!(database.verify().unwrap().findings, Vec::<String>::new());
}

/// A directory that is removed at the end.
struct Scratch(std::path::PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Databases come and go, get tables, rows and roles, and are the same after the directory was opened again.
#[test]
fn a_random_life_leaves_what_a_model_has() {
    for scheme in [Scheme::SiSsn, Scheme::Silo, Scheme::TwoPhaseNoWait] {
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        println!("{scheme}, seed {seed}");
        let scratch = Scratch(std::env::temp_dir().join(format!("ermine-databases-{scheme}-{}", std::process::id())));
        let _ = std::fs::remove_dir_all(&scratch.0);
        let open = || {
            let options = Options::default().scheme(scheme).create(true);
            SqlDatabase::open(Arc::new(Database::open(&scratch.0, options).unwrap())).unwrap()
        };
        let mut database = open();
        // The tables of each database, with the sums of their rows.
        let mut model = BTreeMap::from([("postgres".to_owned(), BTreeMap::<String, i64>::new())]);
        let mut dropped = BTreeSet::new();
        for step in 0..120 {
            let names: Vec<_> = model.keys().cloned().collect();
            let of = names[random.usize(..names.len())].clone();
            let (name, table) = (format!("d{}", random.u8(..4)), format!("t{}", random.u8(..3)));
            let mut session = enter(&database, &of);
            match random.u8(..12) {
                0 | 1 if !model.contains_key(&name) => {
                    ask(&mut session, &format!("CREATE DATABASE {name}"));
                    dropped.remove(&name);
                    model.insert(name, BTreeMap::new());
                }
                2 if model.contains_key(&name) && of != name => {
                    ask(&mut session, &format!("DROP DATABASE {name}"));
                    model.remove(&name);
                    dropped.insert(name);
                }
                3 if model.contains_key(&name) && of != name => {
                    let to = format!("d{}", random.u8(4..8));
                    if !model.contains_key(&to) {
                        ask(&mut session, &format!("ALTER DATABASE {name} RENAME TO {to}"));
                        dropped.remove(&to);
                        dropped.insert(name.clone());
                        let tables = model.remove(&name).unwrap();
                        model.insert(to, tables);
                    }
                }
                4 => {
                    drop(session);
                    drop(database);
                    database = open();
                }
                5 | 6 => {
                    let tables = model.get_mut(&of).unwrap();
                    match tables.remove(&table) {
                        Some(_) => _ = ask(&mut session, &format!("DROP TABLE {table}")),
                        None => {
                            ask(&mut session, &format!("CREATE TABLE {table} (id serial PRIMARY KEY, v int UNIQUE)"));
                            tables.insert(table, 0);
                        }
                    }
                }
                _ => {
                    if let Some(sum) = model.get_mut(&of).unwrap().get_mut(&table) {
                        ask(&mut session, &format!("INSERT INTO {table} (v) VALUES ({step})"));
                        *sum += step;
                    }
                }
            }
            if step % 20 == 19 {
                assert_eq!(database.verify().unwrap().findings, Vec::<String>::new(), "step {step}");
            }
            for (name, tables) in &model {
                let mut session = login(&database, "tester", name).unwrap();
                let shown = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace \
                    ORDER BY 1";
                assert_eq!(ask(&mut session, shown), tables.keys().cloned().collect::<Vec<_>>(), "step {step}: {name}");
                for (table, sum) in tables {
                    let found = ask(&mut session, &format!("SELECT coalesce(sum(v), 0) FROM {table}"));
                    assert_eq!(found, [sum.to_string()], "step {step}: {table} of {name}");
                }
            }
            for name in &dropped {
                assert_eq!(login(&database, "tester", name).err(), Some(SqlState::INVALID_CATALOG_NAME), "step {step}");
            }
        }
    }
}

/// Roles and databases change in one database while sessions of others make objects, log in, and leave.
#[test]
fn what_is_shared_changes_beside_all_sessions() {
    for scheme in [Scheme::SiSsn, Scheme::Si, Scheme::Silo] {
        let database = in_memory(scheme);
        ask(&mut enter(&database, "main"), "CREATE DATABASE a");
        ask(&mut enter(&database, "a"), "CREATE DATABASE b");
        // Each conflict is one that a client may retry, and each refusal is one that is announced.
        let expected = |state: &SqlState| {
            ["40001", "2BP01", "42704", "42710", "42P04", "3D000", "55000", "55006", "42501", "42P07", "42P01"]
                .contains(&state.0)
        };
        thread::scope(|scope| {
            for (at, of) in ["main", "a", "b", "a"].into_iter().enumerate() {
                let (database, expected) = (&database, &expected);
                scope.spawn(move || {
                    let mut session = enter(database, of);
                    for turn in 0..150 {
                        let role = format!("r{}", fastrand::u8(..3));
                        let statement = match fastrand::u8(..8) {
                            0 => format!("CREATE ROLE {role}"),
                            1 => format!("DROP ROLE {role}"),
                            2 => format!("CREATE TABLE t{at} (a int); ALTER TABLE t{at} OWNER TO {role}"),
                            3 => format!("DROP TABLE t{at}"),
                            4 => "CREATE DATABASE c".to_owned(),
                            5 => "DROP DATABASE c".to_owned(),
                            6 => format!("GRANT CREATE ON DATABASE b TO {role}"),
                            _ => {
                                if let Ok(mut other) = login(database, "tester", "c") {
                                    let _ = run(&mut other, "CREATE TABLE t (a int); INSERT INTO t VALUES (1)");
                                }
                                continue;
                            }
                        };
                        if let Some(failed) = state(&mut session, &statement) {
                            assert!(expected(&failed), "{scheme}, turn {turn}: {statement}: {failed:?}");
                        }
                    }
                });
            }
        });
        assert_eq!(database.verify().unwrap().findings, Vec::<String>::new(), "{scheme}");
        let roles: BTreeSet<_> = ["main", "a", "b"]
            .map(|name| ask(&mut enter(&database, name), "SELECT rolname, oid FROM pg_roles ORDER BY 1"))
            .into_iter()
            .map(|mut roles| {
                // The first superuser has the name of the session.
                roles.retain(|role| role.starts_with('r'));
                roles
            })
            .collect();
        assert_eq!(roles.len(), 1, "{scheme}: {roles:?}");
    }
}

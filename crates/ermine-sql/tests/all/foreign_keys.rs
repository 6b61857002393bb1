//! Goal: no row refers to one that is not there, whatever runs at the same time, at whatever level.
//! Method: interleavings of two transactions, one statement at a time, and threads; under schemes of every kind.

use std::{
    sync::Arc,
    sync::atomic::{AtomicU64, Ordering},
};

use ermine::{Database, Options, Scheme};
use ermine_sql::{RowSet, Session, SqlDatabase, SqlState};

use crate::sessions::{ask, run};

const LEVELS: [&str; 3] = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];

fn open(scheme: Scheme) -> SqlDatabase {
    SqlDatabase::open(Arc::new(Database::open_in_memory(Options::default().scheme(scheme)).unwrap())).unwrap()
}

fn schemes() -> impl Iterator<Item = Scheme> {
    Scheme::ALL.into_iter().filter(|scheme| SqlDatabase::serves(*scheme))
}

/// The level that a scheme offers in the place of another one.
fn level(scheme: Scheme, wanted: usize) -> &'static str {
    let strongest = match scheme {
        Scheme::Rc => 0,
        Scheme::Si => 1,
        _ => 2,
    };
    LEVELS[wanted.min(strongest)]
}

/// Whether a lost conflict or a broken rule was reported.
fn lost(error: SqlState) -> bool {
    [SqlState::SERIALIZATION_FAILURE, SqlState::FOREIGN_KEY_VIOLATION, SqlState::LOCK_NOT_AVAILABLE].contains(&error)
}

/// Runs statements of two sessions in turn as `order` says; what fails ends its transaction.
fn interleave(sessions: &mut [Session; 2], scripts: [&[String]; 2], order: u32) -> [Result<(), SqlState>; 2] {
    let (mut next, mut done) = ([0, 0], [Ok(()), Ok(())]);
    for turn in 0..scripts[0].len() + scripts[1].len() {
        let mut one = (order >> turn & 1) as usize;
        if next[one] == scripts[one].len() {
            one = 1 - one;
        }
        let statement = &scripts[one][next[one]];
        next[one] += 1;
        if done[one].is_ok()
            && let Err(error) = run(&mut sessions[one], statement)
        {
            done[one] = Err(error);
            let _ = run(&mut sessions[one], "ROLLBACK");
        }
    }
    done
}

#[test]
fn a_row_and_the_one_it_refers_to_do_not_pass_each_other() {
    // The child can be found by an index, or by a look at all its rows; the parent by its key, or by a unique index.
    let tables = [
        "CREATE TABLE p (id integer PRIMARY KEY, x integer);
         CREATE TABLE c (id integer PRIMARY KEY, p integer REFERENCES p); CREATE INDEX ON c (p)",
        "CREATE TABLE p (other integer PRIMARY KEY, id integer UNIQUE, x integer);
         CREATE TABLE c (id integer PRIMARY KEY, p bigint REFERENCES p (id) DEFERRABLE INITIALLY DEFERRED)",
        // The removal takes rows along that refer, and no others.
        "CREATE TABLE p (id integer PRIMARY KEY, x integer);
         CREATE TABLE c (id integer PRIMARY KEY, p integer REFERENCES p ON DELETE CASCADE ON UPDATE CASCADE)",
        "CREATE TABLE p (id integer PRIMARY KEY, x integer);
         CREATE TABLE c (id integer PRIMARY KEY, p integer REFERENCES p ON DELETE RESTRICT ON UPDATE SET NULL)",
    ];
    for scheme in schemes().filter(|scheme| scheme.has_versions()) {
        for tables in tables {
            let database = open(scheme);
            let mut sessions = [database.session("ann", "shop"), database.session("bert", "shop")];
            ask(&mut sessions[0], tables);
            sessions.iter_mut().for_each(|session| drop(ask(session, "SET lock_timeout = 1")));
            let columns = if tables.contains("other") { "other, id" } else { "id, x" };
            let mut key = 0;
            let has_actions = tables.contains(" ON DELETE");
            for (levels, order) in
                (0..9).flat_map(|levels| [0b0011, 0b1100, 0b0101, 0b1010, 0b0110, 0b1001].map(|order| (levels, order)))
            {
                for removal in ["DELETE FROM p WHERE id = KEY", "UPDATE p SET id = -KEY WHERE id = KEY"] {
                    key += 1;
                    ask(&mut sessions[0], &format!("INSERT INTO p ({columns}) VALUES ({key}, {key})"));
                    let begin = |level: usize| format!("BEGIN ISOLATION LEVEL {}", self::level(scheme, level));
                    ask(&mut sessions[0], &begin(levels % 3));
                    ask(&mut sessions[1], &begin(levels / 3));
                    // So that both have a snapshot from before the other one's change.
                    sessions.iter_mut().for_each(|session| drop(ask(session, "SELECT count(*) FROM p WHERE id = 0")));
                    let adds = [format!("INSERT INTO c VALUES ({key}, {key})"), "COMMIT".to_owned()];
                    let removes = [removal.replace("KEY", &key.to_string()), "COMMIT".to_owned()];
                    let done = interleave(&mut sessions, [&adds, &removes], order);
                    let case = format!("{scheme} {} {} {order:04b} {removal}", LEVELS[levels % 3], LEVELS[levels / 3]);
                    assert!(done.iter().filter_map(|done| done.err()).all(lost), "{case}: {done:?}");
                    // One after the other, an action may have removed the row that refers, too.
                    let both = done.iter().all(Result::is_ok);
                    assert!(!both || tables.contains("CASCADE") || tables.contains("SET NULL"), "{case}: both");
                    let orphans =
                        "SELECT count(*) FROM c WHERE p IS NOT NULL AND NOT EXISTS (SELECT FROM p WHERE p.id = c.p)";
                    assert_eq!(ask(&mut sessions[0], orphans), ["0"], "{case}: {done:?}");
                    // A change of another column conflicts with neither.
                    if !scheme.is_serializable() || scheme == Scheme::MvOcc || has_actions {
                        continue;
                    }
                    key += 1;
                    ask(&mut sessions[0], &format!("INSERT INTO p ({columns}) VALUES ({key}, {key})"));
                    ask(&mut sessions[0], &begin(levels % 3));
                    ask(&mut sessions[1], &begin(levels / 3));
                    let adds = [format!("INSERT INTO c VALUES ({key}, {key})"), "COMMIT".to_owned()];
                    let changes = [format!("UPDATE p SET x = 5 WHERE id = {key}"), "COMMIT".to_owned()];
                    if columns == "id, x" {
                        let done = interleave(&mut sessions, [&adds, &changes], order);
                        assert_eq!(done, [Ok(()), Ok(())], "{case}");
                    } else {
                        sessions.iter_mut().for_each(|session| drop(ask(session, "ROLLBACK")));
                    }
                }
            }
            assert_eq!(sessions[0].disagreements().unwrap(), Vec::<String>::new(), "{scheme}");
        }
    }
}

#[test]
fn rows_and_those_they_refer_to_come_and_go_under_threads() {
    const ACTIONS: [&str; 3] = ["", "ON DELETE CASCADE", "ON DELETE SET NULL"];
    for scheme in schemes() {
        let database = open(scheme);
        let mut session = database.session("ann", "shop");
        ask(&mut session, "CREATE TABLE p (id integer PRIMARY KEY)");
        for (at, action) in ACTIONS.into_iter().enumerate() {
            ask(&mut session, &format!("CREATE TABLE c{at} (id bigint PRIMARY KEY, p integer REFERENCES p {action})"));
            ask(&mut session, &format!("CREATE INDEX ON c{at} (p)"));
        }
        let (next, committed) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (database, next, committed) = (&database, &next, &committed);
                scope.spawn(move || {
                    let mut session = database.session("bert", "shop");
                    ask(&mut session, "SET lock_timeout = '1s'");
                    for turn in 0..120 {
                        let (row, p) = (next.fetch_add(1, Ordering::Relaxed), fastrand::u32(0..6));
                        let statements = match fastrand::u32(0..4) {
                            0 => vec![format!("DELETE FROM p WHERE id = {p}")],
                            1 => vec![format!("INSERT INTO p VALUES ({p}) ON CONFLICT DO NOTHING")],
                            2 => vec![format!("UPDATE p SET id = {} WHERE id = {p}", (p + 1) % 6)],
                            _ => (0..3).map(|at| format!("INSERT INTO c{at} VALUES ({row}, {p})")).collect(),
                        };
                        let mut attempt = || -> Result<(), SqlState> {
                            let level = level(scheme, (thread + turn) % 3);
                            run(&mut session, &format!("BEGIN ISOLATION LEVEL {level}"))?;
                            for statement in &statements {
                                run(&mut session, statement)?;
                            }
                            let mut rows = RowSet::default();
                            session.run("COMMIT", &mut rows).map(drop).map_err(|error| error.state())
                        };
                        match attempt() {
                            Ok(()) => _ = committed.fetch_add(1, Ordering::Relaxed),
                            Err(error) => {
                                let expected = lost(error) || error == SqlState::UNIQUE_VIOLATION;
                                assert!(expected, "{scheme}: {error:?} of {statements:?}");
                                let _ = run(&mut session, "ROLLBACK");
                            }
                        }
                    }
                });
            }
        });
        assert!(committed.into_inner() > 0, "{scheme}");
        assert_eq!(session.disagreements().unwrap(), Vec::<String>::new(), "{scheme}");
        for at in 0..ACTIONS.len() {
            let orphans = format!("SELECT count(*) FROM c{at} WHERE p IS NOT NULL AND p NOT IN (SELECT id FROM p)");
            assert_eq!(ask(&mut session, &orphans), ["0"], "{scheme} c{at}");
        }
    }
}

/// A prepared transaction keeps what its foreign keys depend on, also after a restart.
#[test]
fn a_prepared_transaction_holds_what_it_refers_to() {
    let path = std::env::temp_dir().join(format!("ermine-sql-references-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    for level in LEVELS {
        let open = || SqlDatabase::open(Arc::new(Database::open(&path, Options::default()).unwrap())).unwrap();
        let database = open();
        let mut session = database.session("ann", "shop");
        ask(&mut session, "SET lock_timeout = 100");
        ask(&mut session, "CREATE TABLE p (id integer PRIMARY KEY); CREATE TABLE c (p integer REFERENCES p)");
        ask(&mut session, "INSERT INTO p VALUES (1), (2)");
        ask(&mut session, &format!("BEGIN ISOLATION LEVEL {level}"));
        ask(&mut session, "INSERT INTO c VALUES (1)");
        ask(&mut session, "PREPARE TRANSACTION 'refers'");
        assert!(run(&mut session, "DELETE FROM p WHERE id = 1").is_err_and(lost), "{level}");
        drop((session, database));
        let database = open();
        let mut session = database.session("ann", "shop");
        ask(&mut session, "SET lock_timeout = 100");
        assert!(run(&mut session, "DELETE FROM p WHERE id = 1").is_err_and(lost), "{level} after a restart");
        ask(&mut session, "COMMIT PREPARED 'refers'");
        assert_eq!(run(&mut session, "DELETE FROM p WHERE id = 1"), Err(SqlState::FOREIGN_KEY_VIOLATION), "{level}");
        ask(&mut session, "DROP TABLE c, p");
        drop((session, database));
        std::fs::remove_dir_all(&path).unwrap();
    }
}

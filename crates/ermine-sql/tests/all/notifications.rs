//! Goal: a session that listens is told of every notification of a transaction that has committed, once, in the order of
//! the commits, and of nothing else.
//! Method: sessions of one database, some in threads, under every scheme; a queue that is filled.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use ermine::{Database, Options, Scheme};
use ermine_sql::{Session, SqlDatabase, SqlState};

use crate::sessions::{ask, run};

fn in_memory(scheme: Scheme) -> SqlDatabase {
    let engine = Database::open_in_memory(Options::default().scheme(scheme)).unwrap();
    SqlDatabase::open(Arc::new(engine)).unwrap()
}

fn session(database: &SqlDatabase) -> Session {
    database.session("ann", "shop")
}

/// Returns what has come: channels and payloads.
fn told(session: &mut Session) -> Vec<String> {
    let mut told = Vec::new();
    while session.has_notifications() {
        let some = session.notifications();
        told.extend(some.iter().map(|one| format!("{}:{}", one.channel, one.payload)));
    }
    told
}

#[test]
fn a_transaction_tells_when_it_has_committed() {
    let database = in_memory(Scheme::SiSsn);
    let (mut one, mut two) = (session(&database), session(&database));
    ask(&mut one, "LISTEN a; LISTEN b");
    ask(&mut two, "NOTIFY a, '1'");
    ask(&mut two, "NOTIFY c, 'to no listener'");
    assert_eq!(told(&mut one), ["a:1"]);
    ask(&mut two, "BEGIN");
    ask(&mut two, "NOTIFY a, '2'");
    ask(&mut two, "NOTIFY b");
    ask(&mut two, "NOTIFY a, '2'");
    assert!(!one.has_notifications(), "it has not committed");
    ask(&mut two, "SAVEPOINT s");
    ask(&mut two, "NOTIFY a, '3'");
    ask(&mut two, "SELECT pg_notify('a', '2'), pg_notify('b', '4')");
    ask(&mut two, "ROLLBACK TO s");
    // What was undone is no duplicate.
    ask(&mut two, "SELECT pg_notify('a', '3')");
    assert_eq!(
        run(&mut two, "SELECT pg_notify('a', 'undone'), 1 / (SELECT count(*) - 0 FROM pg_class WHERE false)"),
        Err(SqlState::DIVISION_BY_ZERO)
    );
    ask(&mut two, "ROLLBACK TO s");
    ask(&mut two, "COMMIT");
    assert_eq!(told(&mut one), ["a:2", "b:"]);
    ask(&mut two, "BEGIN; NOTIFY a, 'rolled back'; ROLLBACK");
    assert!(run(&mut two, "SELECT pg_notify('a', 'failed'), 1 / (SELECT 0)").is_err());
    assert_eq!(run(&mut two, "NOTIFY a, 'with others'; SELECT 1 / 0"), Err(SqlState::DIVISION_BY_ZERO));
    assert_eq!(told(&mut one), [] as [&str; 0]);
}

#[test]
fn a_listener_hears_itself_and_waits_for_the_end_of_its_transaction() {
    let database = in_memory(Scheme::SiSsn);
    let (mut one, mut two) = (session(&database), session(&database));
    ask(&mut two, "NOTIFY a, 'before'");
    ask(&mut one, "BEGIN; NOTIFY a, 'first'; LISTEN a; COMMIT");
    assert_eq!(told(&mut one), ["a:first"]);
    ask(&mut one, "BEGIN");
    ask(&mut two, "NOTIFY a, 'meanwhile'");
    ask(&mut one, "NOTIFY a, 'own'");
    assert!(one.has_notifications() && one.notifications().is_empty());
    ask(&mut one, "COMMIT");
    assert_eq!(told(&mut one), ["a:meanwhile", "a:own"]);
    ask(&mut one, "BEGIN; UNLISTEN a; NOTIFY a, 'unheard'; COMMIT");
    ask(&mut two, "NOTIFY a, 'nor this'");
    assert_eq!(told(&mut one), [] as [&str; 0]);
    ask(&mut one, "LISTEN a; UNLISTEN *; LISTEN b");
    ask(&mut two, "NOTIFY a; NOTIFY b");
    assert_eq!(told(&mut one), ["b:"]);
    let rung = Arc::new(AtomicUsize::new(0));
    let counted = rung.clone();
    one.on_notification(Box::new(move || {
        counted.fetch_add(1, Ordering::Relaxed);
    }));
    ask(&mut two, "NOTIFY b, 'x'; NOTIFY b, 'y'");
    assert_eq!(rung.load(Ordering::Relaxed), 1);
    ask(&mut one, "DISCARD ALL");
    ask(&mut two, "NOTIFY b, 'z'");
    assert_eq!((rung.load(Ordering::Relaxed), one.notifications().len()), (1, 0));
}

/// Each thread counts a row up and tells the number, so the numbers are those of the commits.
#[test]
fn the_order_is_that_of_the_commits() {
    const THREADS: usize = 4;
    const EACH: usize = 50;
    for scheme in [Scheme::SiSsn, Scheme::Rc, Scheme::Silo, Scheme::TwoPhaseWdl] {
        let database = in_memory(scheme);
        let mut listener = session(&database);
        ask(&mut listener, "CREATE TABLE counter (n integer); INSERT INTO counter VALUES (0); LISTEN c");
        let counting = |_: usize| {
            let database = database.clone();
            thread::spawn(move || {
                let mut own = session(&database);
                let mut done = 0;
                while done < EACH {
                    let begun = run(&mut own, "BEGIN").and_then(|_| {
                        run(&mut own, "UPDATE counter SET n = n + 1 RETURNING pg_notify('c', n::text)")?;
                        run(&mut own, "COMMIT")
                    });
                    match begun {
                        Ok(_) => done += 1,
                        Err(_) => drop(run(&mut own, "ROLLBACK")),
                    }
                }
            })
        };
        let threads: Vec<_> = (0..THREADS).map(counting).collect();
        let mut told = Vec::new();
        while told.len() < THREADS * EACH {
            told.extend(listener.notifications().iter().map(|one| one.payload.parse::<usize>().unwrap()));
            thread::yield_now();
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(told.iter().copied().eq(1..=THREADS * EACH), "{scheme}: {told:?}");
    }
}

#[test]
fn a_full_queue_refuses_a_commit_and_is_emptied_by_its_listeners() {
    let database = in_memory(Scheme::SiSsn);
    let (mut slow, mut quick, mut own) = (session(&database), session(&database), session(&database));
    let much = "SELECT count(pg_notify('a', i || repeat('x', 7990))) FROM generate_series(1, 1000) AS i";
    ask(&mut own, "CREATE TABLE sent (n integer)");
    let usage = |own: &mut Session| ask(own, "SELECT pg_notification_queue_usage() * 1000").remove(0);
    ask(&mut own, much);
    assert_eq!(usage(&mut own), "0", "nothing listens");
    ask(&mut slow, "LISTEN a");
    ask(&mut quick, "LISTEN b; LISTEN a");
    ask(&mut slow, "BEGIN");
    let send = |own: &mut Session| {
        ask(own, "BEGIN");
        ask(own, "INSERT INTO sent VALUES (1)");
        ask(own, much);
        run(own, "COMMIT")
    };
    let mut sent = 0;
    let refused = loop {
        match send(&mut own) {
            Ok(_) => sent += 1,
            Err(state) => break state,
        }
        assert_eq!(told(&mut quick).len(), 1000, "what one has not heard is no matter of the other");
        assert!(sent < 100);
    };
    assert_eq!(refused, SqlState::PROGRAM_LIMIT_EXCEEDED);
    assert!(sent > 3);
    assert_eq!(ask(&mut own, "SELECT count(*) FROM sent"), [sent.to_string()], "the last one was rolled back");
    ask(&mut own, "INSERT INTO sent VALUES (2)");
    ask(&mut slow, "COMMIT");
    assert_eq!(told(&mut slow).len(), 1000 * sent);
    assert_eq!(usage(&mut own), "0");
    ask(&mut slow, "BEGIN");
    assert_eq!(send(&mut own), Ok(Vec::new()));
    told(&mut quick);
    assert_ne!(usage(&mut own), "0");
    drop(slow);
    assert_eq!(usage(&mut own), "0");
}

#[test]
fn a_prepared_transaction_tells_nothing() {
    let database = in_memory(Scheme::SiSsn);
    let mut one = session(&database);
    for statement in ["NOTIFY a", "LISTEN a", "UNLISTEN *", "SELECT pg_notify('a', 'x')"] {
        ask(&mut one, "BEGIN");
        ask(&mut one, statement);
        assert_eq!(run(&mut one, "PREPARE TRANSACTION 'x'"), Err(SqlState::FEATURE_NOT_SUPPORTED), "{statement}");
        assert_eq!(run(&mut one, "SELECT count(*) FROM pg_listening_channels()"), Ok(vec!["0".into()]));
    }
}

//! SQL over the wire, as programs use it.
//!
//! Goal: the messages of drivers are understood both ways, transactions are serializable, conflicts are reported so
//! that they can be retried, and acknowledged commits are found after the server was killed.
//! Method: the `ermined` command as a process on a free port of this machine, and `tokio-postgres` as an independent
//! client.
//!
//! `ERMINE_TEST_KILLS=100 cargo test --release -p ermine-server --test all kill` kills more often.

mod activity;
mod anomalies;
mod backup;
mod copy;
mod cursors;
mod functions;
mod http;
mod notifications;
mod prepared;
mod psql;
mod top;
mod types;
mod users;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio_postgres::{Client, NoTls, error::SqlState};

use crate::{
    process::{Directory, Serving},
    raw,
};

impl Serving {
    async fn client(&self) -> Client {
        let mut config = tokio_postgres::Config::new();
        config.host("127.0.0.1").port(self.address.port()).user("ann").dbname("shop");
        let (client, connection) = config.connect(NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }
}

#[tokio::test]
async fn the_operator_of_a_list_gives_a_parameter_its_type() {
    use tokio_postgres::types::Type;
    let directory = Directory::new("sql-lists");
    let serving = Serving::start(&directory.0, &[]);
    let client = serving.client().await;
    client.batch_execute("CREATE TABLE words (w varchar, n smallint)").await.unwrap();
    for (condition, ty) in [
        // No operator compares values of varchar.
        ("$1 IN ('a', 'b'::varchar)", Type::TEXT),
        ("$1 IN ('a', w)", Type::TEXT),
        ("$1 IN ('a', 'b')", Type::TEXT),
        ("$1 IN (1, 2::bigint)", Type::INT8),
        ("w IN ($1, 'b'::varchar)", Type::VARCHAR),
        ("$1 = ANY (SELECT w FROM words)", Type::TEXT),
        ("$1 IN (SELECT w FROM words)", Type::TEXT),
    ] {
        let statement = client.prepare(&format!("SELECT 1 FROM words WHERE {condition}")).await.unwrap();
        assert_eq!(statement.params(), [ty], "{condition}");
    }
    let row = client.query_one("SELECT $1 IN ('a', 'b'::varchar)", &[&"b"]).await.unwrap();
    assert!(row.get::<_, bool>(0));
}

#[tokio::test]
async fn rows_of_every_kind_come_back() {
    let directory = Directory::new("sql-kinds");
    let serving = Serving::start(&directory.0, &[]);
    let client = serving.client().await;
    client
        .batch_execute(
            "CREATE TABLE every (id bigint PRIMARY KEY, a smallint, b integer, c real, d double precision, e boolean, \
             f text, g bytea);
             CREATE INDEX by_text ON every (f)",
        )
        .await
        .unwrap();
    let insert = client.prepare("INSERT INTO every VALUES ($1, $2, $3, $4, $5, $6, $7, $8)").await.unwrap();
    for id in 0..100i64 {
        let text = (id % 3 != 0).then(|| format!("text {}", id % 10));
        let bytes = vec![id as u8; id as usize];
        let (a, b, c, d) = (id as i16, -id as i32, id as f32 / 2.0, id as f64 / 3.0);
        assert_eq!(client.execute(&insert, &[&id, &a, &b, &c, &d, &(id % 2 == 0), &text, &bytes]).await.unwrap(), 1);
    }
    for id in 0..100i64 {
        let row = client.query_one("SELECT * FROM every WHERE id = $1", &[&id]).await.unwrap();
        assert_eq!(row.get::<_, i16>("a"), id as i16);
        assert_eq!(row.get::<_, i32>("b"), -id as i32);
        assert_eq!(row.get::<_, f32>("c"), id as f32 / 2.0);
        assert_eq!(row.get::<_, f64>("d"), id as f64 / 3.0);
        assert_eq!(row.get::<_, bool>("e"), id % 2 == 0);
        assert_eq!(row.get::<_, Option<String>>("f"), (id % 3 != 0).then(|| format!("text {}", id % 10)));
        assert_eq!(row.get::<_, Vec<u8>>("g"), vec![id as u8; id as usize]);
    }
    let found = client.query("SELECT id FROM every WHERE f = $1 ORDER BY id", &[&"text 4"]).await.unwrap();
    let found: Vec<i64> = found.iter().map(|row| row.get(0)).collect();
    assert_eq!(found, (0..100).filter(|id| id % 3 != 0 && id % 10 == 4).collect::<Vec<i64>>());
    let sum =
        client.query_one("SELECT sum(b), count(f), max(c) FROM every WHERE id BETWEEN 10 AND 19", &[]).await.unwrap();
    assert_eq!((sum.get::<_, i64>(0), sum.get::<_, i64>(1), sum.get::<_, f32>(2)), (-145, 7, 9.5));
}

#[tokio::test]
async fn errors_say_what_happened() {
    let directory = Directory::new("sql-errors");
    let serving = Serving::start(&directory.0, &[]);
    let client = serving.client().await;
    client.batch_execute("CREATE TABLE t (a integer PRIMARY KEY, b text NOT NULL CHECK (b <> ''))").await.unwrap();
    client.execute("INSERT INTO t VALUES (1, 'x')", &[]).await.unwrap();
    let error = client.execute("INSERT INTO t VALUES (1, 'y')", &[]).await.unwrap_err();
    let report = error.as_db_error().unwrap();
    assert_eq!(
        (report.code(), report.constraint(), report.schema(), report.table()),
        (&SqlState::UNIQUE_VIOLATION, Some("t_pkey"), Some("public"), Some("t"))
    );
    assert_eq!(report.detail(), Some("Key (a)=(1) already exists."));
    let error = client.execute("INSERT INTO t VALUES (2, NULL)", &[]).await.unwrap_err();
    assert_eq!(error.as_db_error().unwrap().column(), Some("b"));
    let error = client.execute("INSERT INTO t VALUES (2, '')", &[]).await.unwrap_err();
    assert_eq!(error.as_db_error().unwrap().constraint(), Some("t_b_check"));
    let error = client.query("SELECT nothing FROM t", &[]).await.unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::UNDEFINED_COLUMN));
    assert_eq!(client.query("SELECT a FROM t", &[]).await.unwrap().len(), 1);
}

#[tokio::test]
async fn write_skew_is_prevented_and_conflicts_can_be_retried() {
    let directory = Directory::new("sql-skew");
    let serving = Serving::start(&directory.0, &[]);
    let (one, two) = (serving.client().await, serving.client().await);
    one.batch_execute("CREATE TABLE on_call (name text PRIMARY KEY, is_on boolean NOT NULL)").await.unwrap();
    one.batch_execute("INSERT INTO on_call VALUES ('ann', true), ('bob', true)").await.unwrap();
    let count = "SELECT count(*) FROM on_call WHERE is_on";
    one.batch_execute("BEGIN").await.unwrap();
    two.batch_execute("BEGIN").await.unwrap();
    for client in [&one, &two] {
        assert_eq!(client.query_one(count, &[]).await.unwrap().get::<_, i64>(0), 2);
    }
    one.execute("UPDATE on_call SET is_on = false WHERE name = 'ann'", &[]).await.unwrap();
    one.batch_execute("COMMIT").await.unwrap();
    let lost = match two.execute("UPDATE on_call SET is_on = false WHERE name = 'bob'", &[]).await {
        Err(error) => error,
        Ok(_) => two.batch_execute("COMMIT").await.unwrap_err(),
    };
    assert_eq!(lost.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE));
    let _ = two.batch_execute("ROLLBACK").await;
    assert_eq!(two.query_one(count, &[]).await.unwrap().get::<_, i64>(0), 1);
}

/// Single statements, each a transaction of its own, are retried by the server.
#[tokio::test(flavor = "multi_thread")]
async fn counters_count() {
    let directory = Directory::new("sql-counters");
    let serving = Arc::new(Serving::start(&directory.0, &[]));
    let client = serving.client().await;
    client.batch_execute("CREATE TABLE counters (id integer PRIMARY KEY, n bigint NOT NULL)").await.unwrap();
    client.batch_execute("INSERT INTO counters VALUES (1, 0)").await.unwrap();
    let counting = (0..4).map(|_| {
        let serving = serving.clone();
        tokio::spawn(async move {
            let client = serving.client().await;
            let update = client.prepare("UPDATE counters SET n = n + 1 WHERE id = $1").await.unwrap();
            for _ in 0..50 {
                assert_eq!(client.execute(&update, &[&1i32]).await.unwrap(), 1);
            }
        })
    });
    for task in counting.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    assert_eq!(client.query_one("SELECT n FROM counters", &[]).await.unwrap().get::<_, i64>(0), 200);
}

/// A client that uses a table while another one changes it sees the change whole, or fails with an error that says to
/// retry.
#[tokio::test]
async fn tables_change_beside_their_users() {
    let directory = Directory::new("sql-change");
    let serving = Serving::start(&directory.0, &[]);
    let (one, two) = (serving.client().await, serving.client().await);
    one.batch_execute("CREATE TABLE t (a integer PRIMARY KEY, b integer)").await.unwrap();
    let insert = two.prepare("INSERT INTO t (a, b) VALUES ($1, $2)").await.unwrap();
    for a in 0..50i32 {
        two.execute(&insert, &[&a, &(a % 7)]).await.unwrap();
    }
    one.batch_execute("CREATE INDEX by_b ON t (b)").await.unwrap();
    one.batch_execute("ALTER TABLE t ADD COLUMN c text DEFAULT 'c'").await.unwrap();
    for a in 50..100i32 {
        two.execute(&insert, &[&a, &(a % 7)]).await.unwrap();
    }
    let found = one.query("SELECT a, c FROM t WHERE b = 3", &[]).await.unwrap();
    assert_eq!(found.len(), (0..100).filter(|a| a % 7 == 3).count());
    assert!(found.iter().all(|row| row.get::<_, &str>(1) == "c"));
    two.batch_execute("BEGIN; SELECT 1 FROM t").await.unwrap();
    one.batch_execute("SET lock_timeout = '100ms'").await.unwrap();
    let refused = one.batch_execute("DROP TABLE t").await.unwrap_err();
    assert_eq!(refused.code(), Some(&SqlState::LOCK_NOT_AVAILABLE));
    two.batch_execute("COMMIT").await.unwrap();
    one.batch_execute("DROP TABLE t").await.unwrap();
    let gone = two.execute(&insert, &[&1i32, &1i32]).await.unwrap_err();
    assert_eq!(gone.code(), Some(&SqlState::UNDEFINED_TABLE));
}

/// A build waits for a client that is silent in its transaction; all other clients go on meanwhile, and so does that
/// client.
#[tokio::test(flavor = "multi_thread")]
async fn a_build_stops_nobody() {
    let directory = Directory::new("build");
    let serving = Serving::start(&directory.0, &[]);
    let (one, two) = (serving.client().await, serving.client().await);
    one.batch_execute("CREATE TABLE t (a int PRIMARY KEY, b int); INSERT INTO t VALUES (1, 1)").await.unwrap();
    two.batch_execute("BEGIN; INSERT INTO t VALUES (2, 2)").await.unwrap();
    let mut building = Vec::new();
    for number in 0..3 {
        let builder = serving.client().await;
        let text = format!("CREATE INDEX i{number} ON t (b)");
        building.push(tokio::spawn(async move { builder.batch_execute(&text).await }));
    }
    for a in 3..100i32 {
        let three = serving.client().await;
        three.execute("INSERT INTO t VALUES ($1, $1)", &[&a]).await.unwrap();
    }
    assert!(building.iter().all(|build| !build.is_finished()));
    two.batch_execute("INSERT INTO t VALUES (0, 0); COMMIT").await.unwrap();
    for build in building {
        build.await.unwrap().unwrap();
    }
    let found = two.query("SELECT a FROM t WHERE b >= 0 ORDER BY b", &[]).await.unwrap();
    assert_eq!(found.iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
}

/// The server is killed while indexes and constraints are created and dropped beside writers: those found afterwards
/// are finished, and have all rows.
#[tokio::test(flavor = "multi_thread")]
async fn builds_are_whole_or_gone_after_a_kill() {
    let kills = std::env::var("ERMINE_TEST_KILLS").map_or(4, |kills| kills.parse().unwrap());
    let directory = Directory::new("builds");
    for kill in 0..kills {
        let serving = Serving::start(&directory.0, &[]);
        let client = serving.client().await;
        client
            .batch_execute(
                "CREATE TABLE IF NOT EXISTS t (id bigint PRIMARY KEY, a bigint);
                 CREATE TABLE IF NOT EXISTS other (id bigint PRIMARY KEY, a bigint UNIQUE)",
            )
            .await
            .unwrap();
        let unfinished = client.query("SELECT 1 FROM pg_index WHERE NOT indisvalid", &[]).await.unwrap();
        assert_eq!(unfinished.len(), 0);
        let rows = |query: &'static str| {
            let client = &client;
            async move {
                let rows = client.query(query, &[]).await.unwrap();
                rows.iter().map(|row| (row.get(0), row.get(1))).collect::<Vec<(i64, i64)>>()
            }
        };
        let mut there = rows("SELECT id, a FROM t").await;
        // By the index, if it exists.
        let mut found = rows("SELECT id, a FROM t WHERE a >= 0 ORDER BY a").await;
        there.sort_unstable();
        found.sort_unstable();
        assert_eq!(there, found, "index and rows differ after kill {kill}");
        assert!(rows("SELECT id, a FROM other").await.len() <= 50, "kill {kill}");
        client.batch_execute("DROP INDEX IF EXISTS i; TRUNCATE other").await.unwrap();
        client.batch_execute("ALTER TABLE t DROP CONSTRAINT IF EXISTS c").await.unwrap();
        let mut tasks = Vec::new();
        for writer in 0..2i64 {
            let client = serving.client().await;
            tasks.push(tokio::spawn(async move {
                for number in 0.. {
                    let id = i64::from(kill) * 1_000_000 + number * 2 + writer;
                    let text = format!(
                        "INSERT INTO t VALUES ({id}, {id}); UPDATE t SET a = a + 1 WHERE id = {}",
                        id - 2 * (number % 50)
                    );
                    // A conflict, or the end of the connection.
                    if client.batch_execute(&text).await.is_err_and(|error| error.is_closed()) {
                        break;
                    }
                }
            }));
        }
        tasks.push(tokio::spawn(async move {
            for text in [
                "CREATE INDEX i ON t (a)",
                "ALTER TABLE t ADD CONSTRAINT c CHECK (a >= 0)",
                "INSERT INTO other SELECT n, n FROM generate_series(1, 50) n",
                "TRUNCATE other",
                "DROP INDEX i",
                "ALTER TABLE t DROP CONSTRAINT c",
            ]
            .iter()
            .cycle()
            {
                match client.batch_execute(text).await {
                    Err(error) if error.is_closed() => break,
                    done => done.unwrap(),
                }
            }
        }));
        tokio::time::sleep(Duration::from_millis(300)).await;
        let id = serving.child.id().to_string();
        assert!(std::process::Command::new("kill").args(["-KILL", &id]).status().unwrap().success());
        for task in tasks {
            task.await.unwrap();
        }
    }
}

/// More statements that run for long than the server has threads: other clients are served, and all of the statements
/// can be cancelled.
#[tokio::test(flavor = "multi_thread")]
async fn long_statements_stop_nobody() {
    let directory = Directory::new("long");
    let serving = Serving::start(&directory.0, &["--threads", "2"]);
    let mut running = Vec::new();
    for number in 0..6 {
        let client = serving.client().await;
        let token = client.cancel_token();
        let text = match number % 2 {
            0 => "SELECT count(*) FROM generate_series(1, 100000) AS a, generate_series(1, 1000000000) AS b",
            _ => "SELECT pg_sleep(600)",
        };
        running.push((token, tokio::spawn(async move { client.batch_execute(text).await })));
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    let others = async {
        let client = serving.client().await;
        for _ in 0..20 {
            client.query_one("SELECT 1", &[]).await.unwrap();
        }
        for (token, statement) in running {
            token.cancel_query(NoTls).await.unwrap();
            assert_eq!(statement.await.unwrap().unwrap_err().code(), Some(&SqlState::QUERY_CANCELED));
        }
    };
    tokio::time::timeout(Duration::from_secs(30), others).await.expect("long statements stop others");
}

/// Clients note acknowledged commits; the server is killed under load, and everything that was noted is found.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_a_kill() {
    let kills = std::env::var("ERMINE_TEST_KILLS").map_or(4, |kills| kills.parse().unwrap());
    let directory = Directory::new("sql-kill");
    let noted = Arc::new(Mutex::new(Vec::<i64>::new()));
    let mut next = 0i64;
    for kill in 0..kills {
        let serving = Arc::new(Serving::start(&directory.0, &["--durability", "durable"]));
        let client = serving.client().await;
        client
            .batch_execute(
                "CREATE TABLE IF NOT EXISTS noted (id bigint PRIMARY KEY, half bigint NOT NULL);
                 CREATE INDEX IF NOT EXISTS by_half ON noted (half)",
            )
            .await
            .unwrap();
        let there = client.query("SELECT id, half FROM noted ORDER BY id", &[]).await.unwrap();
        let there: Vec<i64> = there
            .iter()
            .map(|row| {
                assert_eq!(row.get::<_, i64>(1), row.get::<_, i64>(0) / 2);
                row.get(0)
            })
            .collect();
        let known = noted.lock().unwrap().clone();
        assert!(
            known.iter().all(|id| there.binary_search(id).is_ok()),
            "acknowledged rows are missing after kill {kill}"
        );
        let by_index = client.query("SELECT id FROM noted WHERE half >= 0 ORDER BY half, id", &[]).await.unwrap();
        assert_eq!(by_index.iter().map(|row| row.get::<_, i64>(0)).collect::<Vec<_>>(), there, "index and rows differ");
        let stop = Arc::new(AtomicBool::new(false));
        let writers = (0..3).map(|writer| {
            let (serving, noted, stop) = (serving.clone(), noted.clone(), stop.clone());
            tokio::spawn(async move {
                let client = serving.client().await;
                let insert = client.prepare("INSERT INTO noted VALUES ($1, $2), ($3, $4)").await.unwrap();
                let mut id = next + writer * 1_000_000;
                while !stop.load(Ordering::Relaxed) {
                    let other = id + 500_000;
                    if client.execute(&insert, &[&id, &(id / 2), &other, &(other / 2)]).await.is_err() {
                        break;
                    }
                    noted.lock().unwrap().extend([id, other]);
                    id += 1;
                }
            })
        });
        let writers: Vec<_> = writers.collect();
        tokio::time::sleep(Duration::from_millis(300)).await;
        serving.signal("KILL");
        stop.store(true, Ordering::Relaxed);
        for writer in writers {
            writer.await.unwrap();
        }
        next += 10_000_000;
    }
    assert!(!noted.lock().unwrap().is_empty());
}

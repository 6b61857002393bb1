//! The log of a server: failing and slow statements, connections, both forms; no passwords.

use super::{
    process::{Directory, Serving, output},
    raw::{self, Raw, message},
};

fn run(serving: &Serving, commands: &[&str]) {
    let url = format!("postgres://ann@127.0.0.1:{}/shop", serving.address.port());
    let all = commands.iter().flat_map(|command| ["-c", command]);
    let _ =
        output(&["shell", "--connect", &url, "--on-error", "continue"].into_iter().chain(all).collect::<Vec<_>>(), "");
}

/// Ends the server and returns the lines of its log with a text.
fn lines(mut serving: Serving, with: &str) -> Vec<String> {
    serving.signal("TERM");
    serving.rest().lines().filter(|line| line.contains(with)).map(str::to_owned).collect()
}

#[test]
fn statements_that_fail_are_logged_without_passwords() {
    let directory = Directory::new("failing");
    let serving = Serving::start(&directory.0, &["--log-format", "json"]);
    run(
        &serving,
        &[
            "SELECT 1 / 0",
            "SELECT 'two\nlines' FROM nowhere",
            "CREATE USER eve PASSWORD 'pencil'; SELECT broken",
            "ALTER USER eve PASSWORD 'pencil' NONSENSE",
            "SET log_min_error_statement = panic",
            "SELECT 2 / 0",
        ],
    );
    let failed = lines(serving, "a statement failed");
    assert_eq!(failed.len(), 4, "{failed:?}");
    assert!(failed[0].starts_with("{\"time\":\"") && failed[0].contains("\"level\":\"info\""), "{}", failed[0]);
    for part in ["\"connection\":1,", "\"role\":\"ann\"", "\"sqlstate\":\"22012\"", "\"statement\":\"SELECT 1 / 0\"}"] {
        assert!(failed[0].contains(part), "{part}: {}", failed[0]);
    }
    assert!(failed[1].contains("\"sqlstate\":\"42P01\"") && failed[1].contains("two\\nlines"), "{}", failed[1]);
    assert!(failed.iter().all(|line| !line.contains("pencil")), "{failed:?}");
    assert!(failed[3].contains("ALTER USER eve PASSWORD ..."), "{}", failed[3]);
}

/// Also of statements that drivers prepare, and of those that fail before they run.
#[tokio::test]
async fn prepared_statements_that_fail_are_logged() {
    let directory = Directory::new("failing-prepared");
    let serving = Serving::start(&directory.0, &[]);
    let mut config = tokio_postgres::Config::new();
    config.host("127.0.0.1").port(serving.address.port()).user("ann").dbname("shop");
    let (client, connection) = config.connect(tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.query("SELECT 5 / $1::int", &[&0]).await.unwrap_err();
    client.query("SELECT $1::int FROM nowhere", &[&0]).await.unwrap_err();
    drop(client);
    let failed = lines(serving, "a statement failed");
    assert_eq!(failed.len(), 2, "{failed:?}");
    assert!(failed[0].contains("sqlstate=22012 statement=\"SELECT 5 / $1::int\""), "{}", failed[0]);
    assert!(failed[1].contains("sqlstate=42P01 statement=\"SELECT $1::int FROM nowhere\""), "{}", failed[1]);
}

#[test]
fn connections_are_logged_where_that_is_wanted() {
    let directory = Directory::new("connections");
    let serving = Serving::start(&directory.0, &["--log-connections"]);
    // Also a reload counts, for connections that are there.
    run(&serving, &["ALTER SYSTEM SET log_disconnections = on", "SELECT pg_reload_conf()"]);
    run(&serving, &["SELECT 1"]);
    let all = lines(serving, "a connection ");
    let begun: Vec<_> = all.iter().filter(|line| line.contains("begins")).collect();
    assert_eq!(begun.len(), 2, "{all:?}");
    assert!(begun[1].contains("connection=2 role=ann database=shop client=127.0.0.1:"), "{}", begun[1]);
    assert!(all.iter().any(|line| line.contains("ends connection=1 role=ann seconds=")), "{all:?}");
}

#[test]
fn slow_statements_say_what_took_their_time() {
    let directory = Directory::new("slow");
    let serving = Serving::start(&directory.0, &["--set", "log_min_duration_statement=0"]);
    run(&serving, &["CREATE TABLE t (a int PRIMARY KEY, b int)", "INSERT INTO t VALUES (1, 2)"]);
    run(&serving, &["SELECT b FROM t WHERE a = 1"]);
    run(&serving, &["SELECT b / 0 FROM t"]);
    run(&serving, &["SET log_min_duration_statement = -1", "SELECT b FROM t WHERE a = 7"]);
    run(&serving, &["SET log_min_duration_statement = '1h'", "SELECT b FROM t WHERE a = 8"]);
    run(
        &serving,
        &["CREATE ROLE app", "SET ROLE app", "SET log_min_duration_statement = -1", "SELECT b FROM t WHERE a = 9"],
    );
    let slow = lines(serving, "a statement was slow: it mostly ");
    let of = |text: &str| slow.iter().filter(|line| line.contains(text)).collect::<Vec<_>>();
    let insert = of("statement=\"INSERT INTO t VALUES (1, 2)\"");
    assert_eq!(insert.len(), 1, "{slow:?}");
    assert!(number(insert[0], "synced_ms") > 0.0, "{}", insert[0]);
    let select = of("statement=\"SELECT b FROM t WHERE a = 1\"");
    assert!(select[0].contains("retries=0 plan=\"Index Scan using t_pkey on t; "), "{}", select[0]);
    let created = of("statement=\"CREATE TABLE t (a int PRIMARY KEY, b int)\"");
    assert!(created.len() == 1 && !created[0].contains("plan="), "{slow:?}");
    let failed = of("statement=\"SELECT b / 0 FROM t\"");
    assert!(failed[0].contains(", and failed connection=") && failed[0].contains(" sqlstate=22012 "), "{slow:?}");
    assert!(!insert[0].contains("sqlstate="), "{}", insert[0]);
    for unlogged in ["a = 7", "a = 8"] {
        assert!(of(unlogged).is_empty(), "{slow:?}");
    }
    // Only superusers may change it.
    assert_eq!(of("a = 9").len(), 1, "{slow:?}");
}

/// Returns a number of a line of the log.
fn number(line: &str, name: &str) -> f64 {
    let rest = line.split(&format!(" {name}=")).nth(1).unwrap_or_else(|| panic!("{name}: {line}"));
    rest.split(' ').next().unwrap().parse().unwrap()
}

/// Statements that commit and that a client sends together are logged one by one.
#[test]
fn each_slow_statement_of_a_pipeline_is_logged() {
    let directory = Directory::new("pipeline");
    let serving = Serving::start(&directory.0, &["--set", "log_min_duration_statement=0"]);
    let mut client = Raw::connect(serving.address);
    client.query("CREATE TABLE t (a int PRIMARY KEY)");
    let inserts: Vec<_> = (0..20).map(|key| format!("INSERT INTO t VALUES ({key})")).collect();
    client.send(&inserts.iter().map(|insert| raw::query(insert)).collect::<Vec<_>>());
    for _ in &inserts {
        assert_eq!(client.until_ready(), ["INSERT 0 1", "ready Idle"]);
    }
    drop(client);
    let slow = lines(serving, "a statement was slow: it mostly ");
    let of = |insert: &String| slow.iter().find(|line| line.contains(&format!("\"{insert}\"")));
    let all: Vec<_> = inserts.iter().map(|insert| of(insert).unwrap_or_else(|| panic!("{insert}: {slow:?}"))).collect();
    assert!(number(all[0], "synced_ms") > 0.0, "{}", all[0]);
    assert_eq!(slow.len(), 21, "{slow:?}");
}

/// The time of a COPY FROM STDIN ends with its data, however it ends.
#[test]
fn a_slow_copy_is_logged_with_all_of_its_time() {
    let directory = Directory::new("copies");
    let serving = Serving::start(&directory.0, &["--set", "log_min_duration_statement=0"]);
    let mut client = Raw::connect(serving.address);
    client.query("CREATE TABLE t (a int PRIMARY KEY)");
    let wait = |client: &mut Raw| while !raw::short(&client.next().unwrap()).starts_with("CopyIn") {};
    let (piece, done) = (|row: &[u8]| message(b'd', row), message(b'c', b""));

    client.send(&[raw::query("COPY t FROM STDIN; INSERT INTO t VALUES (10)")]);
    wait(&mut client);
    client.send(&[piece(b"1\n")]);
    client.send(&[piece(b"2\n"), done.clone()]);
    assert_eq!(client.until_ready(), ["COPY 2", "INSERT 0 1", "ready Idle"]);

    client.send(&[raw::parse("", "COPY t (a) FROM STDIN"), raw::bind("", "", &[]), raw::execute("", 0), raw::sync()]);
    wait(&mut client);
    client.send(&[piece(b"3\n"), done, raw::sync()]);
    assert_eq!(client.until_ready(), ["COPY 1", "ready Idle"]);

    client.send(&[raw::query("COPY t FROM STDIN -- broken")]);
    wait(&mut client);
    client.send(&[piece(b"4\n"), message(b'f', b"no more\0")]);
    assert_eq!(client.until_ready(), ["ERROR 57014", "ready Idle"]);
    drop(client);

    let slow = lines(serving, "a statement was slow: it mostly ");
    for text in ["COPY t FROM STDIN; INSERT INTO t VALUES (10)", "COPY t (a) FROM STDIN", "COPY t FROM STDIN -- broken"]
    {
        let of: Vec<_> = slow.iter().filter(|line| line.contains(&format!("statement=\"{text}\""))).collect();
        let [line] = of[..] else { panic!("{text}: {slow:?}") };
        let parts: f64 =
            ["worked_ms", "waited_ms", "client_ms", "synced_ms"].map(|part| number(line, part)).iter().sum();
        assert!(!line.contains("plan=") && line.contains("sqlstate=57014") == text.ends_with("broken"), "{line}");
        assert!(number(line, "client_ms") > 0.0 && (number(line, "duration_ms") - parts).abs() < 0.01, "{line}");
    }
}

/// A statement that waits for the row of another session is told apart from one that works.
#[tokio::test]
async fn a_slow_statement_that_waited_says_so() {
    let directory = Directory::new("waited");
    let serving = Serving::start(&directory.0, &["--set", "log_min_duration_statement=0"]);
    run(&serving, &["CREATE TABLE t (a int PRIMARY KEY, b int)", "INSERT INTO t VALUES (1, 2)"]);
    let mut config = tokio_postgres::Config::new();
    config.host("127.0.0.1").port(serving.address.port()).user("ann").dbname("shop");
    let (holder, connection) = config.connect(tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    holder.batch_execute("BEGIN; UPDATE t SET b = 3 WHERE a = 1").await.unwrap();
    let (waiter, connection) = config.connect(tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let update = tokio::spawn(async move { waiter.batch_execute("UPDATE t SET b = b + 1 WHERE a = 1").await });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    while holder.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    holder.batch_execute("COMMIT").await.unwrap();
    update.await.unwrap().unwrap();
    let slow = lines(serving, "statement=\"UPDATE t SET b = b + 1 WHERE a = 1\"");
    assert_eq!(slow.len(), 1, "{slow:?}");
    // It has lost nothing to the holder, however often it looked whether the row is free.
    assert!(number(&slow[0], "retries") == 0.0 && number(&slow[0], "waited_ms") > 0.0, "{slow:?}");
}

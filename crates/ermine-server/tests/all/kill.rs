//! Goal: a server that is killed while the cleaner moves narrow rows and index entries leaves a database in which
//! everything that it had acknowledged exists and is correct.
//! Method: a table of many narrow rows with indexes on integers, whose entries stay in the log's oldest segments, and
//! clients that rewrite wide rows of another one all the time, so that segments are removed and the cleaner moves their
//! content. The process is killed at random times. Before it is started again, and after each stop in good order,
//! `ermined verify` must find nothing wrong in its files, rows and indexes; after it, every acknowledged row must
//! exist, and every row be found through the index.
//!
//! `ERMINE_TEST_KILLS=n` kills n times (3 otherwise); `ERMINE_TEST_SEED=n` draws the same times again.
//! `ERMINE_TEST_KILLS=100 cargo test -p ermine-server --test all kill:: -- --nocapture` is the long form.

use std::{
    env,
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use tokio_postgres::{Client, NoTls};

use crate::process::{Directory, Serving};

/// More entries of an index than 14 bits can number, all of which fit one block.
const ROWS: i32 = 20_000;
const CLIENTS: i32 = 3;

fn start(directory: &Directory) -> Serving {
    Serving::start(&directory.0, &["--segment-bytes", "1048576", "--log", "info"])
}

async fn connect(serving: &Serving) -> Client {
    let config = format!("host=127.0.0.1 port={} user=test dbname=test", serving.address.port());
    let (client, connection) = tokio_postgres::connect(&config, NoTls).await.unwrap();
    // The task ends with the server.
    tokio::spawn(async move { drop(connection.await) });
    client
}

async fn create(client: &Client) {
    let sql = "CREATE TABLE narrow (a int PRIMARY KEY, n int, m int);
        CREATE INDEX narrow_n ON narrow (n);
        CREATE UNIQUE INDEX narrow_m ON narrow (m);
        CREATE TABLE wide (a int PRIMARY KEY, n int, b text);
        CREATE INDEX wide_n ON wide (n);
        CREATE TABLE ledger (client int, number int, PRIMARY KEY (client, number))";
    client.batch_execute(sql).await.unwrap();
    for from in (0..ROWS).step_by(5000) {
        let to = from + 4999;
        let sql = format!("INSERT INTO narrow SELECT a, a % 100, -a FROM generate_series({from}, {to}) AS g(a)");
        client.batch_execute(&sql).await.unwrap();
    }
    let sql = "INSERT INTO wide SELECT a, a % 10, repeat('x', 4000) FROM generate_series(0, 299) AS g(a)";
    client.batch_execute(sql).await.unwrap();
}

/// Rewrites wide rows and leaves a number in the ledger with each transaction; returns the numbers that were
/// acknowledged.
async fn work(client: Client, name: i32, first: i32, is_over: Arc<AtomicBool>) -> Vec<i32> {
    let mut acknowledged = Vec::new();
    for number in first.. {
        if is_over.load(SeqCst) {
            break;
        }
        let row = number * 7 % 100 + 100 * name;
        let (from, to) = (row, row + 20);
        // A row of the narrow table now and then, so that the cleaner finds gaps.
        let narrow = number * 37 % ROWS;
        let sql = format!(
            "BEGIN; UPDATE wide SET b = repeat('{letter}', 4000) WHERE a BETWEEN {from} AND {to};
             UPDATE narrow SET n = n WHERE a = {narrow}; INSERT INTO ledger VALUES ({name}, {number}); COMMIT",
            letter = char::from(b'a' + (number % 26) as u8)
        );
        match client.batch_execute(&sql).await {
            Ok(()) => acknowledged.push(number),
            Err(error) if error.code().is_some_and(|code| code.code() == "40001" || code.code() == "40P01") => {
                if client.batch_execute("ROLLBACK").await.is_err() {
                    break;
                }
            }
            Err(error) if error.code().is_some() => panic!("client {name}: {error:?}"),
            // The server was killed.
            Err(_) => break,
        }
    }
    acknowledged
}

/// Checks that all rows exist, and are found through every index.
async fn check(client: &Client, acknowledged: &[Vec<i32>], when: &str) {
    let count = async |sql: &str| {
        let row = client.query_one(sql, &[]).await.unwrap_or_else(|error| panic!("{when}: {sql}: {error:?}"));
        row.get::<_, i64>(0)
    };
    for (sql, expected) in [
        ("SELECT count(a) FROM narrow WHERE n BETWEEN 0 AND 2000", ROWS.into()),
        ("SELECT count(a) FROM narrow WHERE m BETWEEN -2000000 AND 0", ROWS.into()),
        ("SELECT count(a) FROM narrow WHERE a = -m AND n = a % 100", ROWS.into()),
        ("SELECT count(b) FROM wide WHERE n BETWEEN 0 AND 9 AND length(b) = 4000", 300),
    ] {
        assert_eq!(count(sql).await, expected, "{when}: {sql}");
    }
    for (name, numbers) in acknowledged.iter().enumerate() {
        let sql = format!("SELECT number FROM ledger WHERE client = {name} ORDER BY number");
        let found: Vec<i32> = client.query(&sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
        let lost: Vec<_> = numbers.iter().filter(|number| found.binary_search(number).is_err()).collect();
        assert!(lost.is_empty(), "{when}: client {name} was told of {lost:?}, which are lost");
    }
}

/// Returns the output of `ermined verify`, which must report that nothing is wrong.
fn verify(directory: &Directory, when: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_ermined")).args(["verify", directory.path()]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).trim().to_string();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{when}: {said} {error}");
    said
}

/// Keeps the directory if the test fails.
struct KeptOnFailure(Option<Directory>);

impl Drop for KeptOnFailure {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(directory) = self.0.take()
        {
            eprintln!("left for a look: {}", directory.path());
            std::mem::forget(directory);
        }
    }
}

#[test]
fn a_server_that_is_killed_under_the_cleaner_loses_nothing() {
    let kills = env::var("ERMINE_TEST_KILLS").map_or(3, |kills| kills.parse().unwrap());
    let seed = env::var("ERMINE_TEST_SEED").map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let kept = KeptOnFailure(Some(Directory::new("kill")));
    let directory = kept.0.as_ref().expect("it is there until the end");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let acknowledged = Arc::new(Mutex::new(vec![Vec::new(); CLIENTS as usize]));
    let (mut next, mut has_cleaned) = (vec![1; CLIENTS as usize], false);
    for kill in 0..kills {
        let when = format!("kill {kill}, seed {seed}");
        let mut serving = start(directory);
        let time = Duration::from_millis(random.u64(200..3_000));
        let is_over = Arc::new(AtomicBool::new(false));
        let workers: Vec<_> = runtime.block_on(async {
            let client = connect(&serving).await;
            if kill == 0 {
                create(&client).await;
            }
            let told = acknowledged.lock().unwrap().clone();
            check(&client, &told, &format!("before {when}")).await;
            let mut workers = Vec::new();
            for name in 0..CLIENTS {
                let client = connect(&serving).await;
                workers.push(tokio::spawn(work(client, name, next[name as usize], is_over.clone())));
            }
            workers
        });
        let due = Instant::now() + time;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        // Every fifth time the server ends in good order.
        let is_killed = kill % 5 != 4;
        if is_killed {
            serving.child.kill().unwrap();
        } else {
            is_over.store(true, SeqCst);
        }
        for (name, worker) in workers.into_iter().enumerate() {
            let numbers =
                runtime.block_on(worker).unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
            // The commit after the last acknowledged one may have happened.
            next[name] = numbers.last().map_or(next[name], |last| last + 1) + 100;
            acknowledged.lock().unwrap()[name].extend(numbers);
        }
        if !is_killed {
            serving.signal("TERM");
        }
        serving.child.wait().unwrap();
        let said = verify(directory, &when);
        has_cleaned |= std::fs::read_dir(directory.path())
            .unwrap()
            .any(|entry| entry.unwrap().file_name().to_string_lossy().starts_with("cold-"));
        let told: usize = acknowledged.lock().unwrap().iter().map(Vec::len).sum();
        println!("{} {kill} after {time:?}, {told} acknowledged: {said}", if is_killed { "kill" } else { "stop" });
    }
    assert!(has_cleaned, "the cleaner has moved nothing");
    let serving = start(directory);
    runtime.block_on(async {
        let told = acknowledged.lock().unwrap().clone();
        check(&connect(&serving).await, &told, "at the end").await;
    });
}

//! Goal: the stream of JSON in NATS JetStream has every change of a published table once, in the order of commits, with
//! whole transactions, whatever is killed meanwhile; and it says where changes are missing.
//! Method: a server of NATS and `ermined`, as processes. A client writes transactions of all kinds, while the two are
//! killed at random times and started again. At the end, all messages are read: their places follow one another without
//! a hole, and applied to an empty model they make the rows that the tables have. An insert of a row that is there, or
//! an update or a delete of one that is not, fails the test.
//!
//! `ERMINE_TEST_KILLS=n` kills n times (4 otherwise); `ERMINE_TEST_SEED=n` draws the same times and statements again.
//! Where there is no server of NATS, the test says so and ends.

use std::{
    collections::BTreeMap,
    env, fs,
    time::{Duration, Instant},
};

use async_nats::jetstream;
use serde_json::Value;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::{
    nats::Logs,
    process::{Directory, Serving},
};

/// How often a client looks for what must come, with a pause before each.
const ATTEMPTS: usize = 10_000;
const PAUSE: Duration = Duration::from_millis(20);
/// The tables, with the columns of their keys.
const TABLES: [(&str, &[&str]); 3] = [("plain", &["id"]), ("kinds", &["id", "part"]), ("Odd. name *%", &["the key"])];
const DEFINITIONS: &str = r#"
    CREATE TYPE mood AS ENUM ('sad', 'it''s fine');
    CREATE TABLE plain (id int PRIMARY KEY, n int, t text);
    CREATE TABLE kinds (id int, part text, n numeric(10, 2), d double precision, j jsonb, raw json, a int[],
        at timestamptz, plain timestamp, b bytea, m mood,
        twice int GENERATED ALWAYS AS (id * 2) STORED, PRIMARY KEY (id, part));
    CREATE TABLE "Odd. name *%" ("the key" text PRIMARY KEY, "select" date);
    CREATE TABLE unpublished (id int PRIMARY KEY);
    CREATE PUBLICATION followed FOR TABLE plain, kinds, "Odd. name *%""#;

/// A server of NATS, and servers that publish to it.
struct Nats(Logs);

impl Nats {
    fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.0.ports[0])
    }

    /// Starts `ermined`, which publishes to it.
    fn serve(&self, directory: &Directory) -> Serving {
        let json = ["--json-stream", &self.url(), "--json-publication", "followed", "--replicas", "1"];
        Serving::start(&directory.0.join("db"), &[&["--wal-level", "logical"], &json[..]].concat())
    }

    async fn messages(&self) -> Vec<(String, Value)> {
        messages(&self.url()).await
    }
}

/// Returns all messages of the stream of the publication `followed`: subjects and objects.
pub async fn messages(url: &str) -> Vec<(String, Value)> {
    let client = async_nats::connect(url).await.unwrap();
    let stream = jetstream::new(client).get_stream("ermine-json-followed").await.unwrap();
    let mut messages = Vec::new();
    for sequence in 1..=stream.get_info().await.unwrap().state.last_sequence {
        let message = stream.get_raw_message(sequence).await.unwrap();
        messages.push((message.subject.to_string(), serde_json::from_slice(&message.payload).unwrap()));
    }
    messages
}

async fn connect(serving: &Serving) -> Client {
    let config = format!("host=127.0.0.1 port={} user=test dbname=test", serving.address.port());
    let (client, connection) = tokio_postgres::connect(&config, NoTls).await.unwrap();
    // The task ends with the server.
    tokio::spawn(async move { drop(connection.await) });
    client
}

/// Returns the first column of a result.
async fn texts(client: &Client, sql: &str) -> Vec<String> {
    let rows = client.simple_query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    let text = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or_default().to_owned()),
        _ => None,
    };
    rows.iter().filter_map(text).collect()
}

/// Waits until a query returns `t`.
async fn until(client: &Client, sql: &str) {
    for _ in 0..ATTEMPTS {
        if texts(client, sql).await == ["t"] {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
    panic!("{sql}");
}

/// Waits until everything that has committed is in the stream.
pub async fn drained(client: &Client) {
    let end = &texts(client, "SELECT pg_current_wal_lsn()").await[0];
    let confirmed = "SELECT pg_wal_lsn_diff(confirmed_flush_lsn, ";
    until(client, &format!("{confirmed}'{end}') >= 0 FROM pg_replication_slots WHERE active")).await;
}

/// Returns the statements of a transaction of a client, by its number.
fn transaction(random: &mut fastrand::Rng, number: u32) -> String {
    let id = random.i32(0..200);
    let other = random.i32(0..200);
    let statement = match random.u32(0..40) {
        _ if number == 20 => format!(
            "DELETE FROM plain WHERE id >= 1000; INSERT INTO plain SELECT g, {id}, 'many' FROM \
             generate_series(1000, 1999) g"
        ),
        0 => "TRUNCATE plain; INSERT INTO plain VALUES (1, 1, 'after it was emptied')".into(),
        1 => "TRUNCATE plain, \"Odd. name *%\"".into(),
        2..8 => format!("DELETE FROM plain WHERE id BETWEEN {id} AND {id} + 3"),
        8..12 => format!("UPDATE plain SET id = id + 200 WHERE id = {id} AND id + 200 NOT IN (SELECT id FROM plain)"),
        12..16 => format!("DELETE FROM kinds WHERE id = {id}"),
        16..22 => format!(
            "INSERT INTO kinds VALUES ({id}, 'p{other}', {other} / 8.0, {other} / 3.0, '{{\"b\": [1, null, \"x\"]}}', \
             '{{\"b\":  1}}', ARRAY[{other}, NULL], now(), now(), '\\x00ff', 'it''s fine') ON CONFLICT DO NOTHING"
        ),
        22..25 => format!("INSERT INTO kinds (id, part) VALUES ({id}, 'a \"b\" \\ ü') ON CONFLICT DO NOTHING"),
        25..30 => format!(
            "INSERT INTO \"Odd. name *%\" VALUES ('k {other}', '2026-11-30') ON CONFLICT (\"the key\") DO UPDATE SET \
             \"select\" = NULL"
        ),
        30..32 => format!("INSERT INTO unpublished VALUES ({id}) ON CONFLICT DO NOTHING"),
        32..34 => format!("INSERT INTO unpublished SELECT {id} WHERE false"),
        _ => format!(
            "INSERT INTO plain VALUES ({id}, {other}, 'text') ON CONFLICT (id) DO UPDATE SET n = excluded.n; \
             UPDATE plain SET n = n + 1 WHERE id BETWEEN {other} AND {other} + 5"
        ),
    };
    let end = if random.u32(0..10) == 0 { "ROLLBACK" } else { "COMMIT" };
    format!("BEGIN; {statement}; {end}")
}

/// Rows, by their tables and keys.
pub type Model = BTreeMap<(String, String), Value>;

/// Applies messages to a model, and checks that they follow one another. `tables`: with the columns of their keys.
pub fn apply(messages: &[(String, Value)], tables: &[(&str, &[&str])], model: &mut Model) {
    let mut before: Option<(u64, u64, bool)> = None;
    for (number, (subject, message)) in messages.iter().enumerate() {
        let last_one = messages.get(number.wrapping_sub(1));
        let context = || format!("message {number}, {subject}, {message}; before it {last_one:?}");
        let text = |name: &str| message[name].as_str().unwrap_or_else(|| panic!("{}", context())).to_owned();
        let table = text("table");
        let commit = u64::from_str_radix(&text("commit").replace('/', ""), 16).unwrap();
        let (index, last) = (message["index"].as_u64().unwrap(), message["last"].as_bool().unwrap());
        let follows = match before {
            Some((same, before, false)) => (commit, index) == (same, before + 1),
            Some((earlier, _, true)) => commit > earlier && index == 0,
            None => index == 0,
        };
        assert!(follows, "{}", context());
        before = Some((commit, index, last));
        let token = if table.starts_with("Odd") { "Odd%2E%20name%20%2A%25" } else { &table };
        assert_eq!(*subject, format!("ermine.json.followed.public.{token}"));
        let (_, columns) = tables.iter().find(|(name, _)| *name == table).unwrap_or_else(|| panic!("{}", context()));
        let key_in = |values: &Value| {
            let key: Vec<_> = columns.iter().map(|column| values[*column].to_string()).collect();
            (table.clone(), key.join(","))
        };
        let is_right = match &*text("kind") {
            "insert" => model.insert(key_in(&message["row"]), message["row"].clone()).is_none(),
            "update" => model.insert(key_in(&message["row"]), message["row"].clone()).is_some(),
            "delete" => model.remove(&key_in(&message["key"])).is_some(),
            "truncate" => {
                model.retain(|(of, _), _| *of != table);
                true
            }
            _ => false,
        };
        assert!(is_right, "{}", context());
    }
    assert!(before.is_none_or(|(.., last)| last), "the last transaction is not whole");
}

#[test]
fn every_change_is_in_the_stream_once_whatever_is_killed() {
    let kills = env::var("ERMINE_TEST_KILLS").map_or(4, |kills| kills.parse().unwrap());
    let seed = env::var("ERMINE_TEST_SEED").map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let directory = Directory::new("json-stream");
    let Some(nats) = Logs::start(&directory.0, 1).map(Nats) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut serving = nats.serve(&directory);
        let mut client = connect(&serving).await;
        client.batch_execute(DEFINITIONS).await.unwrap();
        until(&client, "SELECT count(*) = 1 FROM pg_replication_slots WHERE slot_name LIKE 'json_followed_%'").await;
        for kill in 0..=kills {
            let fault = Instant::now() + Duration::from_millis(random.u64(100..1000));
            let end = fault + Duration::from_millis(300);
            let (mut ends_server, mut ends_nats) = (kill % 2 == 0, kill % 2 == 1);
            if random.bool() && kill > 1 {
                (ends_server, ends_nats) = (true, true);
            }
            let mut seeds = random.fork();
            let writer = tokio::spawn(async move {
                for number in 0.. {
                    if Instant::now() > end {
                        break;
                    }
                    match client.batch_execute(&transaction(&mut seeds, number)).await {
                        // NATS synchronizes its file at each message.
                        Ok(()) => tokio::time::sleep(Duration::from_millis(2)).await,
                        Err(error) => {
                            assert!(error.code().is_none(), "{error:?}");
                            break;
                        }
                    }
                }
            });
            tokio::time::sleep_until(fault.into()).await;
            if kill == kills {
                writer.await.unwrap();
                break;
            }
            if ends_nats {
                nats.0.run("kill");
                tokio::time::sleep(Duration::from_millis(random.u64(0..500))).await;
            }
            if ends_server {
                drop(serving);
                nats.0.run("start");
                writer.await.unwrap();
                serving = nats.serve(&directory);
            } else {
                nats.0.run("start");
                writer.await.unwrap();
            }
            client = connect(&serving).await;
        }
        let client = connect(&serving).await;
        drained(&client).await;
        let (messages, mut model) = (nats.messages().await, Model::new());
        println!("{} messages", messages.len());
        client.batch_execute("SET TimeZone = 'UTC'").await.unwrap();
        apply(&messages, &TABLES, &mut model);
        for (table, _) in TABLES {
            // Generated columns are not published.
            let rows = format!("SELECT to_jsonb(whole) - 'twice' FROM \"{table}\" AS whole");
            let sorted = |mut rows: Vec<String>| {
                rows.sort();
                rows
            };
            let rows = texts(&client, &rows).await.into_iter();
            let rows = rows.map(|row| serde_json::from_str::<Value>(&row).unwrap().to_string());
            let modelled = model.iter().filter(|((of, _), _)| of == table).map(|(_, row)| row.to_string());
            assert_eq!(sorted(modelled.collect()), sorted(rows.collect()), "{table}");
        }
        drop(client);

        // Without its slot, the server says what is missing.
        serving.signal("TERM");
        assert!(serving.child.wait().unwrap().success());
        fs::remove_dir_all(directory.0.join("db/slots")).unwrap();
        let serving = nats.serve(&directory);
        let client = connect(&serving).await;
        until(&client, "SELECT count(*) = 1 FROM pg_replication_slots WHERE active").await;
        client.batch_execute("INSERT INTO \"Odd. name *%\" VALUES ('behind the gap')").await.unwrap();
        drained(&client).await;
        let all = nats.messages().await;
        let [(subject, gap), (_, insert)] = &all[messages.len()..] else { panic!("{:?}", &all[messages.len()..]) };
        assert_eq!((&**subject, gap["kind"].as_str()), ("ermine.json.followed", Some("gap")));
        assert_eq!(gap["from"], messages.last().expect("there are some").1["commit"]);
        assert_eq!((insert["row"]["the key"].as_str(), insert["last"].as_bool()), (Some("behind the gap"), Some(true)));
        drop((client, serving));

        // Another database does not write into this one's stream.
        let other = Directory::new("json-stream-other");
        let serving = nats.serve(&other);
        let client = connect(&serving).await;
        client.batch_execute(DEFINITIONS).await.unwrap();
        until(&client, "SELECT count(*) = 1 FROM pg_replication_slots").await;
        client.batch_execute("INSERT INTO plain VALUES (1)").await.unwrap();
        let mut says = (0..ATTEMPTS).map(|_| {
            std::thread::sleep(PAUSE);
            serving.said().contains("its last message is not one of this database")
        });
        assert!(says.any(|says| says), "{}", serving.said());
        assert_eq!(nats.messages().await.len(), all.len());
    });
}

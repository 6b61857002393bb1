//! Goal: over the wire, every scheme permits exactly the anomalies that it permits in process, and prevents the others.
//!
//! Method: each of `scripts/anomalies` is played by as many clients as it has transactions, one statement per step, and
//! the outcome is compared with the verdict by the judge of the engine's own test
//! (`crates/ermine/tests/all/conformance`). Statements run one after the other: under schemes that lock, and at READ
//! COMMITTED, one that would wait for another client waits in vain, and aborts.
//!
//! `ERMINE_SCRIPT=name cargo test -p ermine-server --test all sql::anomalies -- --nocapture` prints what happens in the
//! scripts with that name.

#[path = "../../../../ermine/tests/all/conformance/script.rs"]
mod script;
#[path = "../../../../ermine/tests/all/conformance/serial.rs"]
mod serial;
#[path = "../../../../ermine/tests/all/conformance/verdict.rs"]
mod verdict;

use std::{fmt::Write as _, ops::Bound, path::PathBuf};

use tokio_postgres::{Client, Error, error::SqlState, types::ToSql};

use self::{
    script::{Bounds, Claim, Expect, IndexSpec, Op, Range, Script, TableSpec},
    serial::{State, done, exists, none, render},
    verdict::{End, Run},
};
use super::{Directory, Serving};

/// The verdicts of this scheme leave open which transaction gives way.
const WITH_LOCKS: &str = "2pl-waitdie";

/// A level of isolation on a database with a scheme.
struct Level {
    scheme: &'static str,
    /// The level that is asked for; the default if none.
    asked: Option<&'static str>,
    /// The scheme whose verdicts the level must match.
    verdicts: &'static str,
}

/// Returns the level of transactions that ask for none.
const fn of_scheme(scheme: &'static str) -> Level {
    Level { scheme, asked: None, verdicts: scheme }
}

#[tokio::test(flavor = "multi_thread")]
async fn anomalies_under_read_committed() {
    every_script(of_scheme("rc")).await;
    every_script(Level { asked: Some("READ COMMITTED"), verdicts: "rc", ..of_scheme("si-ssn") }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn anomalies_under_snapshot_isolation() {
    every_script(of_scheme("si")).await;
    for scheme in ["si", "si-ssn", "si-ssi", "mvocc"] {
        every_script(Level { asked: Some("REPEATABLE READ"), verdicts: "si", ..of_scheme(scheme) }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn anomalies_under_the_safety_net() {
    every_script(of_scheme("si-ssn")).await;
    every_script(Level { asked: Some("SERIALIZABLE"), ..of_scheme("si-ssn") }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn anomalies_under_other_certifiers() {
    every_script(of_scheme("si-ssi")).await;
    every_script(of_scheme("mvocc")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn anomalies_under_single_version_schemes() {
    // Statements read what they write: no write is blind, so the transaction that aborts depends on the order, as with
    // locks.
    every_script(Level { verdicts: WITH_LOCKS, ..of_scheme("silo") }).await;
    every_script(of_scheme(WITH_LOCKS)).await;
}

async fn every_script(level: Level) {
    let mut scripts = script::load(&PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scripts/anomalies"));
    assert!(scripts.len() >= 40, "only {} scripts found", scripts.len());
    // Clients are told of a lost conflict, but the rule by which it was lost is only in the message's text.
    for claim in
        scripts.iter_mut().flat_map(|script| script.verdicts.values_mut()).flat_map(|verdict| &mut verdict.claims)
    {
        if let Claim::Aborts(_, kind) = claim {
            *kind = None;
        }
    }
    let wanted = std::env::var("ERMINE_SCRIPT").unwrap_or_default();
    let directory = Directory::new(&format!("anomalies-{}-{}", level.scheme, level.asked.is_some()));
    let serving = Serving::start(&directory.0, &["--scheme", level.scheme, "--durability", "async"]);
    let setter = serving.client().await;
    let mut failures = String::new();
    for (number, script) in scripts.iter().enumerate().filter(|(_, script)| script.name.contains(&wanted)) {
        let Some(run) = play(&serving, &setter, number, script, level.asked).await else { continue };
        let mut faults = run.faults(script, level.verdicts);
        // A transaction that read where another client inserted, which has since given way, may have to give way as
        // well.
        faults.retain(|fault| level.verdicts != WITH_LOCKS || fault != "nothing commits");
        if !wanted.is_empty() {
            println!("{}", run.trace(script, level.verdicts));
        }
        for fault in &faults {
            writeln!(failures, "{} under {} ({:?}): {fault}", script.name, level.scheme, level.asked).unwrap();
        }
        if !faults.is_empty() {
            writeln!(failures, "{}", run.trace(script, level.verdicts)).unwrap();
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
}

/// The codes by which clients learn that a transaction has given way to another one.
const LOST: [SqlState; 2] = [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::LOCK_NOT_AVAILABLE];

/// A client that plays one transaction of a script.
struct Player {
    client: Client,
    end: Option<End>,
}

/// Plays a script in tables of its own. `None` if a step is refused in a way after which SQL cannot go on.
async fn play(serving: &Serving, setter: &Client, number: usize, script: &Script, asked: Option<&str>) -> Option<Run> {
    let names: Vec<_> = (0..script.tables.len()).map(|table| format!("t{number}_{table}")).collect();
    for (name, spec) in names.iter().zip(&script.tables) {
        create(setter, name, spec).await;
    }
    let mut players = Vec::new();
    for _ in &script.transactions {
        let client = serving.client().await;
        client.batch_execute("SET lock_timeout = '10ms'").await.unwrap();
        players.push(Player { client, end: None });
    }
    let mut began = vec![false; players.len()];
    let mut outcomes = Vec::new();
    for step in &script.steps {
        let (player, began) = (&mut players[step.transaction], &mut began[step.transaction]);
        if matches!(player.end, Some(End::Aborted(_))) {
            outcomes.push(None);
            continue;
        }
        if !*began {
            *began = true;
            let level = asked.map(|level| format!(" ISOLATION LEVEL {level}")).unwrap_or_default();
            let read_only = if matches!(step.op, Op::Begin { read_only: true }) { " READ ONLY" } else { "" };
            player.client.batch_execute(&format!("BEGIN{level}{read_only}")).await.unwrap();
        }
        let outcome = match run(&player.client, &names, &step.op).await {
            Ok(outcome) => {
                match step.op {
                    Op::Commit => player.end = Some(End::Committed),
                    Op::Rollback => player.end = Some(End::RolledBack),
                    _ => {}
                }
                Ok(outcome)
            }
            Err(error) if LOST.iter().any(|lost| error.code() == Some(lost)) => {
                let why = error.as_db_error().and_then(|report| report.detail()).unwrap_or_default().to_owned();
                player.end = Some(End::Aborted(why.clone()));
                let failed =
                    player.client.query("SELECT 1", &[]).await.map(|_| ()).map_err(|error| error.code().cloned());
                let is_over = step.op == Op::Commit;
                assert_eq!(failed, if is_over { Ok(()) } else { Err(Some(SqlState::IN_FAILED_SQL_TRANSACTION)) });
                player.client.batch_execute("ROLLBACK").await.unwrap();
                Err(why)
            }
            // A statement that fails aborts its transaction, as in PostgreSQL.
            Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => {
                assert_ne!(step.expect, Expect::Done, "{}, line {}", script.name, step.line);
                return None;
            }
            Err(error) => panic!("{}, line {}: {error:?}", script.name, step.line),
        };
        outcomes.push(Some(outcome));
    }
    let mut state = Vec::new();
    for (name, spec) in names.iter().zip(&script.tables) {
        state.push(rows_of(setter, name, spec).await);
    }
    let ends = players.into_iter().map(|player| player.end.expect("the parser saw to it")).collect();
    Some(Run { outcomes, ends, state, faults: Vec::new() })
}

async fn create(client: &Client, name: &str, spec: &TableSpec) {
    client.batch_execute(&format!("CREATE TABLE {name} (k text PRIMARY KEY, v bigint NOT NULL)")).await.unwrap();
    let unique = match spec.index {
        IndexSpec::None => None,
        IndexSpec::ByValue => Some(""),
        IndexSpec::UniqueByValue => Some("UNIQUE"),
    };
    if let Some(unique) = unique {
        client.batch_execute(&format!("CREATE {unique} INDEX {name}_by_value ON {name} (v)")).await.unwrap();
    }
    for (key, value) in &spec.rows {
        client.execute(&format!("INSERT INTO {name} VALUES ($1, $2)"), &[key, value]).await.unwrap();
    }
}

/// Returns all current rows; the index over the values must show the same ones.
async fn rows_of(client: &Client, name: &str, spec: &TableSpec) -> <State as IntoIterator>::Item {
    let rows = |found: Vec<tokio_postgres::Row>| found.iter().map(|row| (row.get(0), row.get(1))).collect();
    let by_key = rows(client.query(&format!("SELECT k, v FROM {name} ORDER BY k"), &[]).await.unwrap());
    if spec.index != IndexSpec::None {
        let by_value = format!("SELECT k, v FROM {name} WHERE v >= $1 ORDER BY v");
        let by_value = rows(client.query(&by_value, &[&i64::MIN]).await.unwrap());
        assert_eq!(by_key, by_value, "the index of {name} shows other rows than the table");
    }
    by_key
}

/// Runs one operation and returns its outcome, in the words of the scripts.
async fn run(client: &Client, names: &[String], op: &Op) -> Result<String, Error> {
    let written = |rows: u64, otherwise: fn() -> String| if rows > 0 { done() } else { otherwise() };
    Ok(match op {
        // The snapshot is that of the first statement.
        Op::Begin { .. } => client.query("SELECT 1", &[]).await.map(|_| done())?,
        Op::Commit => client.batch_execute("COMMIT").await.map(|()| done())?,
        Op::Rollback => client.batch_execute("ROLLBACK").await.map(|()| done())?,
        Op::Get { table, key } => {
            let found = client.query_opt(&format!("SELECT v FROM {} WHERE k = $1", names[*table]), &[key]).await?;
            found.map_or_else(none, |row| row.get::<_, i64>(0).to_string())
        }
        Op::Scan(range) => scan(client, &names[range.table], range).await?,
        Op::Insert { table, key, value } => {
            let insert = format!("INSERT INTO {} VALUES ($1, $2) ON CONFLICT DO NOTHING", names[*table]);
            written(client.execute(&insert, &[key, value]).await?, exists)
        }
        Op::Update { table, key, value } => {
            let update = format!("UPDATE {} SET v = $2 WHERE k = $1", names[*table]);
            written(client.execute(&update, &[key, value]).await?, none)
        }
        Op::Put { table, key, value } => {
            let put =
                format!("INSERT INTO {} VALUES ($1, $2) ON CONFLICT (k) DO UPDATE SET v = excluded.v", names[*table]);
            written(client.execute(&put, &[key, value]).await?, none)
        }
        Op::Delete { table, key } => {
            let delete = format!("DELETE FROM {} WHERE k = $1", names[*table]);
            written(client.execute(&delete, &[key]).await?, none)
        }
    })
}

async fn scan(client: &Client, name: &str, range: &Range) -> Result<String, Error> {
    let mut parameters: Vec<&(dyn ToSql + Sync)> = Vec::new();
    let mut conditions = vec!["true".to_owned()];
    let column = match &range.bounds {
        Bounds::Keys(lower, upper) => {
            bound("k", lower, upper, &mut parameters, &mut conditions);
            "k"
        }
        Bounds::Values(lower, upper) => {
            bound("v", lower, upper, &mut parameters, &mut conditions);
            "v"
        }
    };
    let order = match (column, range.backward) {
        ("k", false) => "k",
        ("k", true) => "k DESC",
        (_, false) => "v, k",
        (_, true) => "v DESC, k DESC",
    };
    let limit = range.limit.map(|limit| format!(" LIMIT {limit}")).unwrap_or_default();
    let text = format!("SELECT k, v FROM {name} WHERE {} ORDER BY {order}{limit}", conditions.join(" AND "));
    let rows: Vec<(String, i64)> =
        client.query(&text, &parameters).await?.iter().map(|row| (row.get(0), row.get(1))).collect();
    Ok(render(&rows))
}

/// Returns the conditions of a range on a column.
fn bound<'r, T: ToSql + Sync>(
    column: &str,
    lower: &'r Bound<T>,
    upper: &'r Bound<T>,
    parameters: &mut Vec<&'r (dyn ToSql + Sync)>,
    conditions: &mut Vec<String>,
) {
    for (bound, inside, outside) in [(lower, ">=", ">"), (upper, "<=", "<")] {
        let (operator, value) = match bound {
            Bound::Included(value) => (inside, value),
            Bound::Excluded(value) => (outside, value),
            Bound::Unbounded => continue,
        };
        parameters.push(value);
        conditions.push(format!("{column} {operator} ${}", parameters.len()));
    }
}

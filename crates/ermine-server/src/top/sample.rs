//! What a server is asked, and its answer: the status of the live page, and the histogram of the times of statements.

use std::io;

use ermine_server::status::STATUS;
use ermine_shell::{Connected, Ends, Failure, Reply, Statements as _, Table};
use serde::Deserialize;

/// The name of the own session, which is not shown.
pub const APPLICATION: &str = "ermined top";

/// Counters since the start of the server, and sizes.
#[derive(Deserialize)]
pub struct Sample {
    /// Seconds since 1970.
    pub now: f64,
    pub version: String,
    pub database: Database,
    pub memory: Memory,
    pub transactions: Transactions,
    pub log: Log,
    #[serde(default, deserialize_with = "list")]
    pub standbys: Vec<Standby>,
    #[serde(default, deserialize_with = "list")]
    pub aborts: Vec<Aborts>,
    #[serde(default, deserialize_with = "list")]
    pub sessions: Vec<Session>,
    #[serde(default, deserialize_with = "list")]
    pub statements: Vec<Statement>,
    #[serde(default, deserialize_with = "list")]
    pub hot_conflicts: Vec<HotConflict>,
    /// The longest time of each bucket in milliseconds, and its number of statements.
    #[serde(skip)]
    pub times: Vec<(f64, f64)>,
}

#[derive(Deserialize)]
pub struct Database {
    pub commits: f64,
    pub rollbacks: f64,
    /// The second since 1970 at which the server began.
    pub since: f64,
}

#[derive(Deserialize)]
pub struct Memory {
    pub memory_limit: f64,
    pub memory_taken: f64,
    pub versions: f64,
    pub versions_free: f64,
    pub row_arrays: f64,
    pub indexes: f64,
    pub garbage_versions: f64,
    pub rows_in_files: f64,
}

#[derive(Deserialize)]
pub struct Transactions {
    pub aborts: f64,
    pub oldest_pid: Option<i32>,
    pub oldest_seconds: Option<f64>,
}

#[derive(Deserialize)]
pub struct Log {
    pub bytes: f64,
    pub flushes: f64,
    pub flush_p99_time: Option<f64>,
    pub checkpoints: f64,
    pub checkpoint_failure: Option<String>,
}

#[derive(Deserialize)]
pub struct Standby {
    pub name: String,
    pub lag_bytes: f64,
}

#[derive(Deserialize)]
pub struct Aborts {
    pub cause: String,
    pub aborts: f64,
}

#[derive(Deserialize)]
pub struct Session {
    pub pid: i32,
    pub user: String,
    pub application: String,
    pub state: String,
    pub waits: Option<String>,
    pub transaction_seconds: Option<f64>,
    pub query: String,
}

#[derive(Deserialize)]
pub struct Statement {
    pub query: String,
    pub calls: f64,
    pub total_ms: f64,
    pub errors: f64,
    pub conflicts: f64,
}

#[derive(Deserialize)]
pub struct HotConflict {
    pub table: Option<String>,
    pub key: Option<String>,
    pub cause: String,
    pub conflicts: f64,
    pub last_seconds: f64,
    pub story: Option<String>,
}

/// Reads a list that is null where it is empty.
fn list<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    Option::<Vec<T>>::deserialize(from).map(Option::unwrap_or_default)
}

/// Prepares a session for samples.
pub fn begin(server: &mut Connected) -> Result<(), Box<Failure>> {
    // PGAPPNAME is not for this session, which is found by its name.
    run(server, &format!("SET application_name = '{APPLICATION}'; SET statement_timeout = '10s'")).map(drop)
}

/// Takes a sample.
pub fn take(server: &mut Connected) -> Result<Sample, Box<Failure>> {
    let text = format!("{STATUS}; SELECT up_to_time, statements FROM ermine_stat_latency_histogram");
    let tables = run(server, &text)?;
    let unknown = || Failure::of_shell("the server does not answer as one of Ermine does");
    let [status, times] = &tables[..] else { return Err(unknown()) };
    let status = status.rows.first().and_then(|row| row.first()?.as_deref()).ok_or_else(unknown)?;
    let mut sample: Sample = serde_json::from_str(status)
        .map_err(|error| Failure::of_shell(format!("the server is another version of Ermine: {error}")))?;
    let number = |value: Option<&Option<String>>| value?.as_deref()?.parse::<f64>().ok();
    let times = times.rows.iter().map(|row| Some((number(row.first())?, number(row.get(1))?)));
    sample.times = times.collect::<Option<_>>().ok_or_else(unknown)?;
    Ok(sample)
}

/// Runs statements; returns the tables of their results.
fn run(server: &mut Connected, text: &str) -> Result<Vec<Table>, Box<Failure>> {
    let mut replies = Vec::new();
    server.run(text, Ends { source: &mut io::empty(), sink: &mut io::sink() }, &mut replies)?;
    let table = |reply| if let Reply::Done { table, .. } = reply { table } else { None };
    Ok(replies.into_iter().filter_map(table).collect())
}

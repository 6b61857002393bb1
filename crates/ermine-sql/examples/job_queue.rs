//! A job queue: workers take jobs that no other worker has, and a job of a worker that dies goes back by itself.
//!
//! `FOR UPDATE SKIP LOCKED` is SQL's tool for this, so the queue is written in SQL, run in process. A program that
//! connects to a server sends the same statements.
//!
//! `cargo run -p ermine-sql --example job_queue`

use std::{error::Error, sync::Arc, thread};

use ermine::{Database, Options};
use ermine_sql::{RowSet, Session, SqlDatabase};

const JOBS: usize = 200;

// ANCHOR: schema
const SCHEMA: &str = "
    CREATE TABLE jobs (id serial PRIMARY KEY, task text NOT NULL);
    CREATE TABLE results (job integer PRIMARY KEY, worker integer NOT NULL, result text NOT NULL);
";
// ANCHOR_END: schema

// ANCHOR: take
/// The oldest job that no other transaction has; it is gone when the transaction commits, and back if it does not.
const TAKE: &str = "
    DELETE FROM jobs WHERE id = (SELECT id FROM jobs ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING id, task
";
// ANCHOR_END: take

fn query(session: &mut Session, text: &str) -> ermine_sql::Result<Vec<Vec<String>>> {
    let mut rows = RowSet::default();
    session.run(text, &mut rows)?;
    Ok(rows.texts())
}

// ANCHOR: work
/// Takes one job and does it; returns false if there is none.
fn work(session: &mut Session, worker: usize) -> ermine_sql::Result<bool> {
    query(session, "BEGIN ISOLATION LEVEL READ COMMITTED")?;
    let taken = query(session, TAKE)?;
    if let [job] = &taken[..] {
        let (id, result) = (&job[0], job[1].to_uppercase());
        query(session, &format!("INSERT INTO results VALUES ({id}, {worker}, '{result}')"))?;
    }
    query(session, "COMMIT")?;
    Ok(!taken.is_empty())
}
// ANCHOR_END: work

fn main() -> Result<(), Box<dyn Error>> {
    let database = SqlDatabase::open(Arc::new(Database::open_in_memory(Options::default())?))?;
    let mut session = database.session("ann", "jobs");
    query(&mut session, SCHEMA)?;
    query(&mut session, &format!("INSERT INTO jobs (task) SELECT 'task ' || n FROM generate_series(1, {JOBS}) AS n"))?;

    // A worker that dies with a job in its hands: its session ends, and the job is there for the others.
    let mut dying = database.session("worker", "jobs");
    query(&mut dying, "BEGIN ISOLATION LEVEL READ COMMITTED")?;
    assert_eq!(query(&mut dying, TAKE)?.len(), 1);
    drop(dying);

    thread::scope(|scope| {
        for worker in 0..4 {
            let mut session = database.session("worker", "jobs");
            scope.spawn(move || while work(&mut session, worker).unwrap_or_else(|error| panic!("{error}")) {});
        }
    });
    let done = query(&mut session, "SELECT count(*), count(DISTINCT result) FROM results")?;
    assert_eq!(done, [[JOBS.to_string(), JOBS.to_string()]]);
    assert_eq!(query(&mut session, "SELECT count(*) FROM jobs")?, [["0"]]);
    println!("{JOBS} jobs were done, each once");
    Ok(())
}

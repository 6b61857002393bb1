//! The cost of a statement without a server around it: time of one thread in a database in memory, each number the best
//! of several rounds.
//!
//! `cargo bench -p ermine-sql [-- WORDS]` prints nanoseconds per statement for those whose name contains these words,
//! and per row for statements with many rows. The rows are those of sysbench: two numbers and two texts of 120 and 60
//! letters.

use std::{hint::black_box, sync::Arc, time::Instant};

use ermine::{Database, Options};
use ermine_sql::{Column, Prepared, Result, RowSink, Session, SqlDatabase, types::Value};

const ROWS: i32 = 10_000;
const RANGE: i32 = 100;
const ROUNDS: usize = 7;

/// Takes rows, and keeps none.
#[derive(Default)]
struct Looked {
    rows: usize,
}

impl RowSink for Looked {
    fn columns(&mut self, columns: &[Column]) -> Result<()> {
        black_box(columns);
        Ok(())
    }

    fn row(&mut self, values: &[Value]) -> Result<()> {
        self.rows += 1;
        black_box(values);
        Ok(())
    }

    fn complete(&mut self, tag: &str) -> Result<()> {
        black_box(tag);
        Ok(())
    }
}

/// Returns the nanoseconds that one of `count` calls takes.
fn time(count: usize, mut one: impl FnMut()) -> f64 {
    let mut round = || {
        let began = Instant::now();
        (0..count).for_each(|_| one());
        began.elapsed().as_nanos() as f64 / count as f64
    };
    (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min)
}

fn report(what: &str, nanoseconds: f64, rows: usize) {
    let a_row = if rows > 1 { format!("{:9.0}", nanoseconds / rows as f64) } else { String::new() };
    println!("{what:<44}{nanoseconds:9.0}{a_row}");
}

/// Measures a prepared statement on random keys.
fn measure(session: &mut Session, what: &str, text: &str, count: usize, parameters: impl Fn(i32) -> Vec<Value>) {
    if std::env::args().skip(1).any(|word| !word.starts_with("--") && !what.contains(&word)) {
        return;
    }
    let prepared: Arc<Prepared> = session.prepare(text, &[]).expect("the statement is bound");
    let mut random = fastrand::Rng::with_seed(7);
    let (mut shown, mut ran) = (Looked::default(), 0);
    let nanoseconds = time(count, || {
        let parameters = parameters(random.i32(1..ROWS - RANGE));
        session.execute(&prepared, &parameters, &mut shown).expect("the statement runs").wait().expect("it is kept");
        ran += 1;
    });
    report(what, nanoseconds, shown.rows / ran);
}

fn main() {
    let database = Database::open_in_memory(Options::default()).expect("a database in memory");
    let database = SqlDatabase::open(Arc::new(database)).expect("it speaks SQL");
    let mut session = database.session("bench", "bench");
    let run = |session: &mut Session, text: &str| session.run(text, &mut Looked::default()).expect("it runs");
    run(&mut session, "CREATE TABLE t (id integer PRIMARY KEY, k integer, c char(120), pad char(60))");
    run(&mut session, "CREATE INDEX ON t (k)");
    let fill = "INSERT INTO t SELECT i, i % 5000, repeat(md5(i::text), 3), md5(i::text) FROM generate_series(1, $1) i";
    let prepared = session.prepare(fill, &[]).expect("the statement is bound");
    session.execute(&prepared, &[ROWS.into()], &mut Looked::default()).expect("it runs").wait().expect("it is kept");

    println!("{:<44}{:>9}{:>9}", "ns", "each", "a row");
    let point = "SELECT c FROM t WHERE id = $1";
    session.prepare(point, &[]).expect("it is bound");
    let hit = time(100_000, || drop(black_box(session.prepare(black_box(point), &[]))));
    report("the plan of a text that is known", hit, 1);
    let one = |id: i32| vec![id.into()];
    let range = |id: i32| vec![id.into(), (id + RANGE - 1).into()];
    measure(&mut session, "SELECT 1", "SELECT 1", 100_000, |_| Vec::new());
    measure(&mut session, "point SELECT", point, 100_000, one);
    measure(&mut session, "100 rows", "SELECT c FROM t WHERE id BETWEEN $1 AND $2", 2000, range);
    measure(&mut session, "sum of 100 rows", "SELECT sum(k) FROM t WHERE id BETWEEN $1 AND $2", 2000, range);
    measure(&mut session, "100 rows sorted", "SELECT c FROM t WHERE id BETWEEN $1 AND $2 ORDER BY c", 2000, range);
    let distinct = "SELECT DISTINCT c FROM t WHERE id BETWEEN $1 AND $2 ORDER BY c";
    measure(&mut session, "100 distinct rows sorted", distinct, 2000, range);
    measure(
        &mut session,
        "10 rows by an index",
        "SELECT c FROM t WHERE k BETWEEN $1 % 4000 AND $1 % 4000 + 4",
        10_000,
        one,
    );
    measure(&mut session, "UPDATE of a row", "UPDATE t SET c = 'new' WHERE id = $1", 50_000, one);
    measure(&mut session, "UPDATE of a row and its index", "UPDATE t SET k = k + 1 WHERE id = $1", 50_000, one);
    let insert = "INSERT INTO t VALUES ($1, 1, 'c', 'pad') ON CONFLICT (id) DO UPDATE SET pad = excluded.pad";
    measure(&mut session, "INSERT ON CONFLICT DO UPDATE", insert, 50_000, one);
}

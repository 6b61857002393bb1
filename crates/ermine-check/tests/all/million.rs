//! A long clean history is judged in time: near linear in its length, however many ranges and inserts overlap.
//!
//! Method: transactions in the order of their commits, ten operations each on a hundred thousand rows; and a queue that
//! they push to and pop from, so that a scan of the queue has most of the queue's past before it or its future behind
//! it. Every fifth transaction scans the queue, every tenth of these in a snapshot from long ago.
//!
//! The long form, which prints its numbers:
//! `cargo test --release -p ermine-check --test all million:: -- --ignored --nocapture`

use std::{collections::VecDeque, time::Instant};

use ermine_check::{Builder, Digest, History, Index, Level, Operation, Outcome, ReadVersion, Stamp, Table, judge};
use fastrand::Rng;

const ROWS: Table = Table(0);
const QUEUE: Table = Table(1);
const ROW_COUNT: usize = 100_000;
/// Rows of a tangled history.
const HOT_ROWS: usize = 1000;
const QUEUE_LENGTH: usize = 20;
const OPERATIONS: usize = 10;
/// How far back old snapshots are, in transactions.
const OLD: u64 = 1000;

/// The versions of each row, oldest first.
struct World {
    rows: Vec<Vec<Stamp>>,
    /// When each element of the queue was pushed and popped.
    queue: VecDeque<(u64, Stamp, Stamp)>,
    pushed: u64,
}

fn digest(row: usize, stamp: Stamp) -> Option<Digest> {
    Some(Digest((row as u64) << 32 | stamp.0))
}

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

impl World {
    fn version(&self, row: usize, below: Stamp) -> Stamp {
        let versions = &self.rows[row];
        versions[versions.partition_point(|&stamp| stamp < below) - 1]
    }
}

/// Keys and versions of one transaction.
#[derive(Default)]
struct Draft {
    reads: Vec<(Table, [u8; 8], Stamp, Option<Digest>)>,
    range: Option<Stamp>,
    writes: Vec<(Table, [u8; 8], Option<Digest>)>,
}

impl Draft {
    fn push(&self, begin: Stamp, stamp: Stamp, history: &mut Builder) {
        let reads = self.reads.iter().map(|(table, key, stamp, value)| Operation::Read {
            table: *table,
            key,
            version: ReadVersion::At(*stamp),
            value: *value,
        });
        let range = self.range.map(|at| Operation::Range { index: Index::primary(QUEUE), lower: b"", upper: None, at });
        let writes =
            self.writes.iter().map(|(table, key, value)| Operation::Write { table: *table, key, value: *value });
        history.push(begin, Outcome::Committed(stamp), reads.chain(range).chain(writes));
    }

    fn look_through(&mut self, world: &World, at: Stamp) {
        for &(number, came, went) in world.queue.iter().filter(|(_, came, went)| *came < at && *went >= at) {
            debug_assert!(went >= at);
            self.reads.push((QUEUE, key(number), came, digest(number as usize, came)));
        }
        self.range = Some(at);
    }
}

/// `tangled`: reads see any moment of the last hundred transactions, so that nearly every transaction is on a cycle.
fn history(transactions: u64, tangled: bool, rng: &mut Rng) -> History {
    let mut world = World { rows: vec![vec![Stamp(1)]; ROW_COUNT], queue: VecDeque::new(), pushed: 0 };
    let mut history = Builder::new();
    let rows_used = if tangled { HOT_ROWS } else { ROW_COUNT };
    for number in 0..transactions {
        let stamp = Stamp(100 + number * 100);
        let mut draft = Draft::default();
        let is_old = number % 50 == 0 && number > OLD;
        let at = if is_old { Stamp(stamp.0 - rng.u64(1..OLD) * 100 + 1) } else { stamp };
        if number % 5 == 0 {
            draft.look_through(&world, at);
        }
        let rows: Vec<_> = (0..OPERATIONS - 2).map(|_| rng.usize(..rows_used)).collect();
        for &row in &rows {
            let at = if tangled { Stamp(at.0.saturating_sub(rng.u64(..100) * 100).max(2)) } else { at };
            let version = world.version(row, at);
            draft.reads.push((ROWS, key(row as u64), version, digest(row, version)));
        }
        if is_old {
            draft.push(at, Stamp(at.0 - 1), &mut history);
            continue;
        }
        for &row in &rows[..2] {
            if world.rows[row].last() == Some(&stamp) {
                continue;
            }
            draft.writes.push((ROWS, key(row as u64), digest(row, stamp)));
            world.rows[row].push(stamp);
        }
        if number % 2 == 0 {
            world.pushed += 1;
            let pushed = world.pushed;
            draft.writes.push((QUEUE, key(pushed), digest(pushed as usize, stamp)));
            world.queue.push_back((pushed, stamp, Stamp(u64::MAX)));
        } else if let Some(first) =
            world.queue.iter_mut().rev().nth(QUEUE_LENGTH).filter(|(_, _, went)| went.0 == u64::MAX)
        {
            first.2 = stamp;
            draft.reads.push((QUEUE, key(first.0), first.1, digest(first.0 as usize, first.1)));
            draft.writes.push((QUEUE, key(first.0), None));
        }
        if world.queue.len() > 2 * OLD as usize {
            world.queue.pop_front();
        }
        draft.push(Stamp(stamp.0 - 50), stamp, &mut history);
    }
    history.finish(1)
}

/// The highest resident memory of this process so far.
fn peak() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("unknown").trim().to_owned()
}

fn judged(transactions: u64) {
    let seed = fastrand::u64(..1 << 40);
    eprintln!("seed {seed}");
    let history = history(transactions, false, &mut Rng::with_seed(seed));
    let (operations, bytes, before) = (history.operations(), history.bytes(), peak());
    let begun = Instant::now();
    let mut step = "";
    let report = judge(&history, &mut |progress| {
        if progress.step != step {
            step = progress.step;
            eprintln!("{:6.2} s {step}", begun.elapsed().as_secs_f64());
        }
    });
    let seconds = begun.elapsed().as_secs_f64();
    assert!(report.holds(Level::Serializable) && report.anomalies.is_empty(), "{report}");
    eprintln!("{report}");
    eprintln!("{:.1} bytes an operation, judged in {seconds:.2} s", bytes as f64 / operations as f64);
    eprintln!("peak memory {} (before judging {before})", peak());
}

#[test]
fn a_long_clean_history_is_judged_in_time() {
    judged(50_000);
}

#[test]
fn a_long_tangled_history_is_judged_in_time() {
    let history = history(50_000, true, &mut Rng::with_seed(7));
    let begun = Instant::now();
    let report = judge(&history, &mut |_| ());
    eprintln!("{report}\njudged in {:.2} s", begun.elapsed().as_secs_f64());
    assert!(report.counts.entangled > 10_000, "{report}");
    assert!(report.holds(Level::ReadCommitted) && !report.holds(Level::SnapshotIsolation), "{report}");
}

#[test]
#[ignore = "takes about a minute, and a gigabyte"]
fn a_million_transactions_are_judged_in_a_minute() {
    judged(1_000_000);
}

//! The last hour, second by second: rates, latencies and sizes for the live page.
//!
//! A task reads the counters once a second and keeps the differences: some 150 bytes a second, at most an hour of them.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use ermine::{Latencies, Statistics};
use ermine_sql::{SqlDatabase, SqlStatistics};
use serde::Serialize;
use tokio::{
    task::spawn_blocking,
    time::{MissedTickBehavior, interval},
};

use crate::server::Control;

/// Samples that are kept: those of an hour.
const KEPT: usize = 3600;

/// What happened in a second; rates are per second, times in milliseconds.
#[derive(Serialize)]
struct Sample {
    /// Increases by one from each sample to the next.
    number: u64,
    /// Seconds since 1970.
    at: f64,
    commits: f64,
    rollbacks: f64,
    statements: f64,
    p50: Option<f64>,
    p99: Option<f64>,
    aborts: f64,
    log_bytes: f64,
    flushes: f64,
    flush_p99: Option<f64>,
    unreplicated: Option<u64>,
    checkpoints: u64,
    evicted: f64,
    cold_reads: f64,
    memory: u64,
    memory_limit: u64,
    versions: u64,
    garbage: u64,
    sessions: usize,
    active: usize,
    oldest: Option<f64>,
}

/// The samples.
#[derive(Default)]
pub(super) struct History(Mutex<VecDeque<Sample>>);

/// The counters at one moment.
struct Reading {
    at: Instant,
    engine: Statistics,
    sql: SqlStatistics,
}

impl Reading {
    fn of(database: &SqlDatabase) -> Self {
        Self { at: Instant::now(), engine: database.engine().statistics(), sql: database.statistics() }
    }

    fn since(&self, earlier: &Self, number: u64) -> Sample {
        let seconds = (self.at - earlier.at).as_secs_f64().max(f64::MIN_POSITIVE);
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        let quantile = |times: &Latencies, share| times.quantile(share).map(|time: Duration| time.as_secs_f64() * 1e3);
        let (engine, sql, before) = (&self.engine, &self.sql, &earlier.engine);
        let statements = sql.statements.since(&earlier.sql.statements);
        let flushes = engine.log_flushes.since(&before.log_flushes);
        Sample {
            number,
            at: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64()),
            commits: rate(sql.commits, earlier.sql.commits),
            rollbacks: rate(sql.rollbacks, earlier.sql.rollbacks),
            statements: statements.count() as f64 / seconds,
            p50: quantile(&statements, 0.5),
            p99: quantile(&statements, 0.99),
            aborts: rate(engine.aborts.total(), before.aborts.total()),
            log_bytes: rate(engine.log_bytes, before.log_bytes),
            flushes: flushes.count() as f64 / seconds,
            flush_p99: quantile(&flushes, 0.99),
            unreplicated: engine.held_log_bytes,
            checkpoints: engine.checkpoints.count().saturating_sub(before.checkpoints.count()),
            evicted: rate(engine.evicted_rows, before.evicted_rows),
            cold_reads: rate(engine.cold_reads, before.cold_reads),
            memory: engine.memory_taken,
            memory_limit: engine.memory_limit,
            versions: engine.version_bytes,
            garbage: engine.garbage_versions,
            sessions: sql.sessions,
            active: sql.active,
            oldest: sql.oldest_transaction,
        }
    }
}

impl History {
    /// Takes a sample each second, until the server ends.
    pub(super) async fn record(&self, database: &SqlDatabase, control: &Control) {
        let mut ticks = interval(Duration::from_secs(1));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let (mut before, mut number) = (None, 0);
        while !control.is_ended() {
            ticks.tick().await;
            let database = database.clone();
            let Ok(now) = spawn_blocking(move || Reading::of(&database)).await else { continue };
            if let Some(before) = &before {
                number += 1;
                let mut samples = self.samples();
                if samples.len() >= KEPT {
                    samples.pop_front();
                }
                samples.push_back(now.since(before, number));
            }
            before = Some(now);
        }
    }

    /// Returns the samples after one of that number, as JSON.
    pub(super) fn after(&self, number: u64) -> String {
        let samples = self.samples();
        // A page that knows a later one knew an earlier server.
        let is_older = samples.back().is_some_and(|last| last.number < number);
        let new: Vec<_> = samples.iter().filter(|sample| is_older || sample.number > number).collect();
        serde_json::to_string(&new).expect("numbers can be written")
    }

    fn samples(&self) -> MutexGuard<'_, VecDeque<Sample>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Counters of all sessions of a database, for programs that watch it.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
};

use ermine::{Database, Latencies};

use super::SqlDatabase;
use crate::catalog::sessions::{Activity, now};

/// What the sessions of a database have done since it was opened, and do now: [`SqlDatabase::statistics`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SqlStatistics {
    /// Transactions that have committed.
    pub commits: u64,
    /// Transactions that were rolled back, by their client or by an error.
    pub rollbacks: u64,
    /// The times of statements, without the wait until their effects are durable.
    pub statements: Latencies,
    /// Lost conflicts, by table (`None`: not about one) and cause; also those after which a statement was run again.
    pub conflicts: Vec<(Option<String>, &'static str, u64)>,
    /// Statements that were run again because they lost a conflict, each time.
    pub retries: u64,
    /// Sessions with a client.
    pub sessions: usize,
    /// Those of them that run a statement.
    pub active: usize,
    /// The age in seconds of the oldest transaction that is open.
    pub oldest_transaction: Option<f64>,
}

impl SqlDatabase {
    /// Returns the counters of all sessions. Costs grow with the number of sessions and of kinds of conflicts.
    pub fn statistics(&self) -> SqlStatistics {
        let catalog = self.0.catalog.current();
        let sessions = &catalog.sessions;
        let ends = sessions.ends.read();
        let mut all = SqlStatistics {
            commits: ends.commits,
            rollbacks: ends.rollbacks,
            statements: sessions.statements.times.read(),
            // Relaxed: statistics.
            retries: sessions.retries.load(Ordering::Relaxed),
            ..SqlStatistics::default()
        };
        let mut conflicts = BTreeMap::<_, u64>::new();
        let catalogs: Vec<_> = self.0.catalog.all_databases().iter().map(|store| store.current()).collect();
        for (kind, count) in sessions.conflicts.all() {
            let name = |table| catalogs.iter().find_map(|catalog| Some(catalog.table(table)?.name().to_owned()));
            let table = kind.table.and_then(name);
            *conflicts.entry((table, kind.cause)).or_default() += count;
        }
        all.conflicts = conflicts.into_iter().map(|((table, cause), count)| (table, cause, count)).collect();
        let mut oldest = None;
        for session in sessions.all() {
            let doing = session.doing();
            all.sessions += usize::from(session.is_connected());
            all.active += usize::from(session.is_connected() && doing.state == Activity::Active);
            oldest = [oldest, doing.transaction_began].into_iter().flatten().min();
        }
        all.oldest_transaction = oldest.map(|began| (now() - began).max(0) as f64 / 1e6);
        all
    }

    /// Returns the database of the engine.
    pub fn engine(&self) -> &Arc<Database> {
        &self.0.database
    }
}

//! Statistics: those of PostgreSQL's collector, whose names monitoring programs query, and those of `pg_stat_statements`.
//! What is not counted here is NULL. Times are in milliseconds.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use super::{
    Described, Known, NULL, PG_CATALOG,
    definitions::{IndexView, indexes},
    table,
};
use crate::{
    catalog::{
        Catalog, Table,
        conflicts::ConflictKind,
        statement_uses::{StatementCounts, StatementEntry},
        uses::{EndCounts, TableUses},
    },
    types::Value,
};

/// A table and what was done with it.
struct TableView<'a> {
    table: &'a Table,
    uses: TableUses,
    /// About how many rows it has.
    rows: i64,
}

fn tables<'a>(known: Known<'a>) -> impl Iterator<Item = TableView<'a>> {
    known.catalog.tables().into_iter().map(move |table| TableView {
        table,
        uses: table.shared.uses.read(),
        rows: count(known.catalog.estimated_rows(table)),
    })
}

/// The database and what was done in it.
struct DatabaseView {
    sessions: usize,
    begun: i64,
    ends: EndCounts,
    uses: TableUses,
    deadlocks: u64,
}

fn database(catalog: &Catalog) -> DatabaseView {
    let mut all = TableUses::default();
    for table in catalog.tables() {
        let uses = table.shared.uses.read();
        all.scanned += uses.scanned;
        all.found += uses.found;
        all.inserted += uses.inserted;
        all.updated += uses.updated;
        all.deleted += uses.deleted;
    }
    let is_deadlock = |kind: &ConflictKind| kind.cause == "deadlock";
    let conflicts = catalog.sessions.conflicts.all().into_iter();
    DatabaseView {
        sessions: catalog.sessions.all().iter().filter(|session| session.database_number == catalog.number).count(),
        begun: count(catalog.sessions.begun()),
        ends: catalog.sessions.ends.read(),
        uses: all,
        deadlocks: conflicts.filter(|(kind, _)| is_deadlock(kind)).map(|(_, count)| count).sum(),
    }
}

/// Returns the time since which is counted: that at which the database was opened.
fn since(catalog: &Catalog) -> Value {
    catalog.sessions.opened.get().map_or(NULL, |opened| Value::TimestampTz(*opened))
}

/// A statement that has been run.
struct StatementView {
    entry: Arc<StatementEntry>,
    counts: StatementCounts,
    /// Whether the role of the session may see the text.
    is_shown: bool,
}

impl StatementView {
    fn runs(&self) -> Times {
        let StatementCounts { calls, micros, square_micros, .. } = self.counts;
        Times { count: calls, micros, square_micros, extremes: self.entry.runs.get() }
    }

    fn plannings(&self) -> Times {
        let StatementCounts { plans, plan_micros, square_plan_micros, .. } = self.counts;
        let extremes = self.entry.plannings.get();
        Times { count: plans, micros: plan_micros, square_micros: square_plan_micros, extremes }
    }
}

/// Times that were counted; results are in milliseconds.
struct Times {
    count: u64,
    micros: u64,
    square_micros: u64,
    extremes: [u64; 2],
}

impl Times {
    fn shortest(&self) -> f64 {
        if self.count == 0 { 0.0 } else { milliseconds(self.extremes[0]) }
    }

    fn longest(&self) -> f64 {
        milliseconds(self.extremes[1])
    }

    fn mean(&self) -> f64 {
        milliseconds(self.micros) / self.count.max(1) as f64
    }

    fn deviation(&self) -> f64 {
        let mean_square = self.square_micros as f64 / 1e6 / self.count.max(1) as f64;
        (mean_square - self.mean() * self.mean()).max(0.0).sqrt()
    }
}

fn statements(known: Known<'_>) -> impl Iterator<Item = StatementView> {
    known.catalog.sessions.statements.all().into_iter().map(move |(entry, counts)| {
        let is_shown = known.may_see(entry.role);
        StatementView { entry, counts, is_shown }
    })
}

/// A count, as large as SQL's integers go.
fn count(of: u64) -> i64 {
    i64::try_from(of).unwrap_or(i64::MAX)
}

fn milliseconds(micros: u64) -> f64 {
    micros as f64 / 1e3
}

/// Returns a time in milliseconds.
fn in_milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Returns a quantile of times in milliseconds; `None` if there are none.
pub(super) fn quantile(times: &ermine::Latencies, share: f64) -> Option<f64> {
    times.quantile(share).map(in_milliseconds)
}

/// Returns the mean of times in milliseconds; `None` if there are none.
pub(super) fn mean(times: &ermine::Latencies) -> Option<f64> {
    (times.count() > 0).then(|| in_milliseconds(times.total()) / times.count() as f64)
}

/// Returns the longest time, in milliseconds, and the number of statements of each bucket that has any.
fn buckets(times: &ermine::Latencies) -> Vec<(f64, u64)> {
    let mut before = 0;
    let bucket = |(end, up_to): (Duration, u64)| {
        let count = up_to - std::mem::replace(&mut before, up_to);
        (count > 0).then(|| (in_milliseconds(end), count))
    };
    times.up_to().filter_map(bucket).collect()
}

/// Returns the connection of the oldest transaction that is open, and its age in seconds.
fn oldest(known: Known<'_>) -> Option<(Option<i32>, f64)> {
    let all = known.catalog.sessions.all().into_iter();
    let open = all.filter_map(|session| Some((session.doing().transaction_began?, session.process())));
    let (began, process) = open.min_by_key(|(began, _)| *began)?;
    Some((process, (crate::catalog::sessions::now() - began).max(0) as f64 / 1e6))
}

/// Defines a table with a row for each table: PostgreSQL has each of them for all, and for those of users.
macro_rules! stat_tables {
    ($name:ident) => {
        table!(PG_CATALOG, 0 $name, known => tables(known), |of| {
            relid OID = of.table.def.id;
            schemaname NAME = &of.table.def.schema;
            relname NAME = &of.table.def.name;
            seq_scan INT8 = count(of.uses.scans);
            seq_tup_read INT8 = count(of.uses.scanned);
            idx_scan INT8 = count(of.uses.lookups);
            idx_tup_fetch INT8 = count(of.uses.found);
            n_tup_ins INT8 = count(of.uses.inserted);
            n_tup_upd INT8 = count(of.uses.updated);
            n_tup_del INT8 = count(of.uses.deleted);
            n_tup_hot_upd INT8 = 0i64;
            n_live_tup INT8 = of.rows;
            n_dead_tup INT8 = 0i64;
            n_mod_since_analyze INT8 = 0i64;
            n_ins_since_vacuum INT8 = 0i64;
            last_vacuum TIME = NULL;
            last_autovacuum TIME = NULL;
            last_analyze TIME = NULL;
            last_autoanalyze TIME = NULL;
            vacuum_count INT8 = 0i64;
            autovacuum_count INT8 = 0i64;
            analyze_count INT8 = 0i64;
            autoanalyze_count INT8 = 0i64;
        })
    };
}

pub(super) const TABLES: &[Described] = &[
    table!(PG_CATALOG, 0 pg_stat_database, known => std::iter::once(database(known.catalog)), |of| {
        datid OID = known.catalog.number;
        datname NAME = &*known.environment.database;
        numbackends INT4 = of.sessions as i32;
        xact_commit INT8 = count(of.ends.commits);
        xact_rollback INT8 = count(of.ends.rollbacks);
        blks_read INT8 = NULL;
        blks_hit INT8 = NULL;
        tup_returned INT8 = count(of.uses.scanned + of.uses.found);
        tup_fetched INT8 = count(of.uses.found);
        tup_inserted INT8 = count(of.uses.inserted);
        tup_updated INT8 = count(of.uses.updated);
        tup_deleted INT8 = count(of.uses.deleted);
        conflicts INT8 = 0i64;
        temp_files INT8 = count(known.catalog.sessions.temporary_files.files.load(Ordering::Relaxed));
        temp_bytes INT8 = count(known.catalog.sessions.temporary_files.bytes.load(Ordering::Relaxed));
        deadlocks INT8 = count(of.deadlocks);
        checksum_failures INT8 = NULL;
        checksum_last_failure TIME = NULL;
        blk_read_time FLOAT8 = NULL;
        blk_write_time FLOAT8 = NULL;
        session_time FLOAT8 = NULL;
        active_time FLOAT8 = NULL;
        idle_in_transaction_time FLOAT8 = NULL;
        sessions INT8 = of.begun;
        sessions_abandoned INT8 = NULL;
        sessions_fatal INT8 = NULL;
        sessions_killed INT8 = NULL;
        stats_reset TIME = since(known.catalog);
    }),
    table!(PG_CATALOG, 0 pg_stat_bgwriter, known => std::iter::once((known.statistics)()), |of| {
        checkpoints_timed INT8 = 0i64;
        checkpoints_req INT8 = count(of.checkpoints.count());
        checkpoint_write_time FLOAT8 = in_milliseconds(of.checkpoints.total());
        checkpoint_sync_time FLOAT8 = NULL;
        buffers_checkpoint INT8 = NULL;
        buffers_clean INT8 = NULL;
        maxwritten_clean INT8 = NULL;
        buffers_backend INT8 = NULL;
        buffers_backend_fsync INT8 = NULL;
        buffers_alloc INT8 = NULL;
        stats_reset TIME = since(known.catalog);
    }),
    table!(PG_CATALOG, 0 pg_stat_archiver, _known => std::iter::once(()), |()| {
        archived_count INT8 = NULL;
        last_archived_wal TEXT = NULL;
        last_archived_time TIME = NULL;
        failed_count INT8 = NULL;
        last_failed_wal TEXT = NULL;
        last_failed_time TIME = NULL;
        stats_reset TIME = NULL;
    }),
    table!(PG_CATALOG, 0 pg_stat_wal, known => std::iter::once((known.statistics)()), |of| {
        wal_records INT8 = NULL;
        wal_fpi INT8 = NULL;
        wal_bytes NUMERIC = Value::Numeric(count(of.log_bytes).into());
        wal_buffers_full INT8 = NULL;
        wal_write INT8 = count(of.log_flushes.count());
        wal_sync INT8 = count(of.log_flushes.count());
        wal_write_time FLOAT8 = NULL;
        wal_sync_time FLOAT8 = in_milliseconds(of.log_flushes.total());
        stats_reset TIME = since(known.catalog);
    }),
    stat_tables!(pg_stat_all_tables),
    stat_tables!(pg_stat_user_tables),
    table!(PG_CATALOG, 0 pg_stat_xact_user_tables, known => tables(known).map(|of| &of.table.def), |def| {
        relid OID = def.id;
        schemaname NAME = &def.schema;
        relname NAME = &def.name;
        seq_scan INT8 = NULL;
        seq_tup_read INT8 = NULL;
        idx_scan INT8 = NULL;
        idx_tup_fetch INT8 = NULL;
        n_tup_ins INT8 = NULL;
        n_tup_upd INT8 = NULL;
        n_tup_del INT8 = NULL;
        n_tup_hot_upd INT8 = NULL;
    }),
    table!(PG_CATALOG, 0 pg_statio_all_tables, known => tables(known).map(|of| &of.table.def), |def| {
        relid OID = def.id;
        schemaname NAME = &def.schema;
        relname NAME = &def.name;
        heap_blks_read INT8 = NULL;
        heap_blks_hit INT8 = NULL;
        idx_blks_read INT8 = NULL;
        idx_blks_hit INT8 = NULL;
        toast_blks_read INT8 = NULL;
        toast_blks_hit INT8 = NULL;
        tidx_blks_read INT8 = NULL;
        tidx_blks_hit INT8 = NULL;
    }),
    table!(PG_CATALOG, 0 pg_statio_user_tables, known => tables(known).map(|of| &of.table.def), |def| {
        relid OID = def.id;
        schemaname NAME = &def.schema;
        relname NAME = &def.name;
        heap_blks_read INT8 = NULL;
        heap_blks_hit INT8 = NULL;
        idx_blks_read INT8 = NULL;
        idx_blks_hit INT8 = NULL;
        toast_blks_read INT8 = NULL;
        toast_blks_hit INT8 = NULL;
        tidx_blks_read INT8 = NULL;
        tidx_blks_hit INT8 = NULL;
    }),
    table!(PG_CATALOG, 0 pg_stat_all_indexes, known => indexes(known.catalog), |IndexView { oid, name, table, .. }| {
        relid OID = table.def.id;
        indexrelid OID = oid;
        schemaname NAME = &table.def.schema;
        relname NAME = &table.def.name;
        indexrelname NAME = name;
        idx_scan INT8 = NULL;
        idx_tup_read INT8 = NULL;
        idx_tup_fetch INT8 = NULL;
    }),
    table!(PG_CATALOG, 0 pg_stat_user_indexes, known => indexes(known.catalog), |IndexView { oid, name, table, .. }| {
        relid OID = table.def.id;
        indexrelid OID = oid;
        schemaname NAME = &table.def.schema;
        relname NAME = &table.def.name;
        indexrelname NAME = name;
        idx_scan INT8 = NULL;
        idx_tup_read INT8 = NULL;
        idx_tup_fetch INT8 = NULL;
    }),
    table!(PG_CATALOG, 0 pg_statio_all_indexes, known => indexes(known.catalog), |IndexView { oid, name, table, .. }| {
        relid OID = table.def.id;
        indexrelid OID = oid;
        schemaname NAME = &table.def.schema;
        relname NAME = &table.def.name;
        indexrelname NAME = name;
        idx_blks_read INT8 = NULL;
        idx_blks_hit INT8 = NULL;
    }),
    table!(PG_CATALOG, 0 pg_statio_user_indexes, known => indexes(known.catalog), |IndexView { oid, name, table, .. }| {
        relid OID = table.def.id;
        indexrelid OID = oid;
        schemaname NAME = &table.def.schema;
        relname NAME = &table.def.name;
        indexrelname NAME = name;
        idx_blks_read INT8 = NULL;
        idx_blks_hit INT8 = NULL;
    }),
    table!(PG_CATALOG, 0 pg_statio_user_sequences, known => known.catalog.sequences().into_iter().map(|sequence| &sequence.def), |def| {
        relid OID = def.id;
        schemaname NAME = &def.schema;
        relname NAME = &def.name;
        blks_read INT8 = NULL;
        blks_hit INT8 = NULL;
    }),
    table!(PG_CATALOG, 0 pg_stat_statements, known => statements(known), |of| {
        userid OID = of.entry.role;
        dbid OID = of.entry.database;
        toplevel BOOL = true;
        queryid INT8 = of.is_shown.then_some(of.entry.id);
        query TEXT = if of.is_shown { &*of.entry.text } else { "<insufficient privilege>" };
        plans INT8 = count(of.counts.plans);
        total_plan_time FLOAT8 = milliseconds(of.counts.plan_micros);
        min_plan_time FLOAT8 = of.plannings().shortest();
        max_plan_time FLOAT8 = of.plannings().longest();
        mean_plan_time FLOAT8 = of.plannings().mean();
        stddev_plan_time FLOAT8 = of.plannings().deviation();
        calls INT8 = count(of.counts.calls);
        total_exec_time FLOAT8 = milliseconds(of.counts.micros);
        min_exec_time FLOAT8 = of.runs().shortest();
        max_exec_time FLOAT8 = of.runs().longest();
        mean_exec_time FLOAT8 = of.runs().mean();
        stddev_exec_time FLOAT8 = of.runs().deviation();
        rows INT8 = count(of.counts.rows);
        shared_blks_hit INT8 = NULL;
        shared_blks_read INT8 = NULL;
        shared_blks_dirtied INT8 = NULL;
        shared_blks_written INT8 = NULL;
        local_blks_hit INT8 = NULL;
        local_blks_read INT8 = NULL;
        local_blks_dirtied INT8 = NULL;
        local_blks_written INT8 = NULL;
        temp_blks_read INT8 = NULL;
        temp_blks_written INT8 = NULL;
        blk_read_time FLOAT8 = NULL;
        blk_write_time FLOAT8 = NULL;
        temp_blk_read_time FLOAT8 = NULL;
        temp_blk_write_time FLOAT8 = NULL;
        wal_records INT8 = NULL;
        wal_fpi INT8 = NULL;
        wal_bytes NUMERIC = NULL;
        errors INT8 = count(of.counts.errors);
        conflicts INT8 = count(of.counts.conflicts);
        waits INT8 = count(of.counts.waits);
        wait_time FLOAT8 = milliseconds(of.counts.wait_micros);
        plan TEXT = of.is_shown.then(|| of.entry.plan()).flatten().map(|plan| plan.to_string());
    }),
    table!(PG_CATALOG, 0 pg_stat_statements_info, known => std::iter::once(()), |()| {
        dealloc INT8 = count(known.catalog.sessions.statements.dropped.load(Ordering::Relaxed));
        stats_reset TIME = since(known.catalog);
    }),
    table!(PG_CATALOG, 0 ermine_stat_latency, known =>
        std::iter::once(known.catalog.sessions.statements.times.read()), |times| {
        statements INT8 = count(times.count());
        mean_time FLOAT8 = mean(&times);
        p50_time FLOAT8 = quantile(&times, 0.5);
        p90_time FLOAT8 = quantile(&times, 0.9);
        p99_time FLOAT8 = quantile(&times, 0.99);
        p999_time FLOAT8 = quantile(&times, 0.999);
        max_time FLOAT8 = quantile(&times, 1.0);
    }),
    table!(PG_CATALOG, 0 ermine_stat_latency_histogram, known =>
        buckets(&known.catalog.sessions.statements.times.read()).into_iter(), |(end, statements)| {
        up_to_time FLOAT8 = end;
        statements INT8 = count(statements);
    }),
    table!(PG_CATALOG, 0 ermine_stat_transactions, known => std::iter::once((known.statistics)()), |of| {
        commits INT8 = count(of.commits);
        aborts INT8 = count(of.aborts.total());
        rows_read INT8 = count(of.rows_read);
        versions_walked INT8 = count(of.versions_walked);
        garbage_rows INT8 = count(of.garbage_versions);
        epochs INT8 = count(of.epochs);
        stragglers INT8 = count(of.stragglers);
        oldest_pid INT4 = oldest(known).and_then(|(process, _)| process);
        oldest_seconds FLOAT8 = oldest(known).map(|(_, age)| age);
    }),
    table!(PG_CATALOG, 0 ermine_stat_aborts, known =>
        (known.statistics)().aborts.iter().collect::<Vec<_>>().into_iter(), |(kind, aborts)| {
        cause TEXT = kind.name();
        aborts INT8 = count(aborts);
    }),
    table!(PG_CATALOG, 0 ermine_stat_log, known => std::iter::once((known.statistics)()), |of| {
        bytes INT8 = count(of.log_bytes);
        flushes INT8 = count(of.log_flushes.count());
        flush_mean_time FLOAT8 = mean(&of.log_flushes);
        flush_p50_time FLOAT8 = quantile(&of.log_flushes, 0.5);
        flush_p99_time FLOAT8 = quantile(&of.log_flushes, 0.99);
        flush_max_time FLOAT8 = quantile(&of.log_flushes, 1.0);
        checkpoints INT8 = count(of.checkpoints.count());
        checkpoint_mean_time FLOAT8 = mean(&of.checkpoints);
        checkpoint_failure TEXT = of.checkpoint_failure;
        checkpoint_rows INT8 = of.checkpoint_rows.map(count);
        moved_rows INT8 = count(of.moved_rows);
        moved_bytes INT8 = count(of.moved_bytes);
        freed_segments INT8 = count(of.freed_segments);
    }),
];

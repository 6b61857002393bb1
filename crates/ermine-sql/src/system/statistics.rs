//! Statistics of PostgreSQL's collector, whose names monitoring programs query. What is not counted here is NULL.

use super::{
    Described, Known, NULL, PG_CATALOG, THE_DATABASE,
    definitions::{IndexView, indexes},
    table,
};
use crate::catalog::definition::TableDef;

fn tables<'a>(known: Known<'a>) -> impl Iterator<Item = &'a TableDef> {
    known.catalog.tables().into_iter().map(|table| &table.def)
}

pub(super) const TABLES: &[Described] = &[
    table!(PG_CATALOG, 0 pg_stat_database, known => std::iter::once(known.catalog.sessions.all().len()), |sessions| {
        datid OID = THE_DATABASE;
        datname NAME = &*known.environment.database;
        numbackends INT4 = sessions as i32;
        xact_commit INT8 = NULL;
        xact_rollback INT8 = NULL;
        blks_read INT8 = NULL;
        blks_hit INT8 = NULL;
        tup_returned INT8 = NULL;
        tup_fetched INT8 = NULL;
        tup_inserted INT8 = NULL;
        tup_updated INT8 = NULL;
        tup_deleted INT8 = NULL;
        conflicts INT8 = NULL;
        temp_files INT8 = NULL;
        temp_bytes INT8 = NULL;
        deadlocks INT8 = NULL;
        checksum_failures INT8 = NULL;
        checksum_last_failure TIME = NULL;
        blk_read_time FLOAT8 = NULL;
        blk_write_time FLOAT8 = NULL;
        session_time FLOAT8 = NULL;
        active_time FLOAT8 = NULL;
        idle_in_transaction_time FLOAT8 = NULL;
        sessions INT8 = NULL;
        sessions_abandoned INT8 = NULL;
        sessions_fatal INT8 = NULL;
        sessions_killed INT8 = NULL;
        stats_reset TIME = NULL;
    }),
    table!(PG_CATALOG, 0 pg_stat_bgwriter, _known => std::iter::once(()), |()| {
        checkpoints_timed INT8 = NULL;
        checkpoints_req INT8 = NULL;
        checkpoint_write_time FLOAT8 = NULL;
        checkpoint_sync_time FLOAT8 = NULL;
        buffers_checkpoint INT8 = NULL;
        buffers_clean INT8 = NULL;
        maxwritten_clean INT8 = NULL;
        buffers_backend INT8 = NULL;
        buffers_backend_fsync INT8 = NULL;
        buffers_alloc INT8 = NULL;
        stats_reset TIME = NULL;
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
    table!(PG_CATALOG, 0 pg_stat_wal, _known => std::iter::once(()), |()| {
        wal_records INT8 = NULL;
        wal_fpi INT8 = NULL;
        wal_bytes NUMERIC = NULL;
        wal_buffers_full INT8 = NULL;
        wal_write INT8 = NULL;
        wal_sync INT8 = NULL;
        wal_write_time FLOAT8 = NULL;
        wal_sync_time FLOAT8 = NULL;
        stats_reset TIME = NULL;
    }),
    table!(PG_CATALOG, 0 pg_stat_all_tables, known => tables(known), |def| {
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
        n_live_tup INT8 = NULL;
        n_dead_tup INT8 = NULL;
        n_mod_since_analyze INT8 = NULL;
        n_ins_since_vacuum INT8 = NULL;
        last_vacuum TIME = NULL;
        last_autovacuum TIME = NULL;
        last_analyze TIME = NULL;
        last_autoanalyze TIME = NULL;
        vacuum_count INT8 = NULL;
        autovacuum_count INT8 = NULL;
        analyze_count INT8 = NULL;
        autoanalyze_count INT8 = NULL;
    }),
    table!(PG_CATALOG, 0 pg_stat_user_tables, known => tables(known), |def| {
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
        n_live_tup INT8 = NULL;
        n_dead_tup INT8 = NULL;
        n_mod_since_analyze INT8 = NULL;
        n_ins_since_vacuum INT8 = NULL;
        last_vacuum TIME = NULL;
        last_autovacuum TIME = NULL;
        last_analyze TIME = NULL;
        last_autoanalyze TIME = NULL;
        vacuum_count INT8 = NULL;
        autovacuum_count INT8 = NULL;
        analyze_count INT8 = NULL;
        autoanalyze_count INT8 = NULL;
    }),
    table!(PG_CATALOG, 0 pg_stat_xact_user_tables, known => tables(known), |def| {
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
    table!(PG_CATALOG, 0 pg_statio_all_tables, known => tables(known), |def| {
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
    table!(PG_CATALOG, 0 pg_statio_user_tables, known => tables(known), |def| {
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
];

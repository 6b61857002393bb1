//! System tables that are always empty: inheritance, triggers, functions of users, the progress of VACUUM
//! and the like.

use super::{Described, PG_CATALOG};

/// Defines tables of a schema, each by its number, its name, and its columns with their types.
macro_rules! empty {
    ($schema:expr, $($oid:literal $name:ident { $($column:ident $kind:ident)* })*) => {
        &[$($crate::system::Described {
            schema: $schema,
            oid: $oid,
            name: stringify!($name),
            columns: &[$((stringify!($column), $crate::system::kind::$kind)),*],
            rows: |_, _| Vec::new(),
        }),*]
    };
}

pub(super) use empty;

pub(super) const TABLES: &[Described] = empty! { PG_CATALOG,
    2611 pg_inherits { inhrelid OID inhparent OID inhseqno INT4 inhdetachpending BOOL }
    3350 pg_partitioned_table {
        partrelid OID partstrat CHAR partnatts INT2 partdefid OID partattrs INT2VECTOR partclass OIDVECTOR
        partcollation OIDVECTOR partexprs TEXT
    }
    3381 pg_statistic_ext {
        oid OID stxrelid OID stxname NAME stxnamespace OID stxowner OID stxstattarget INT4 stxkeys INT2VECTOR
        stxkind CHARS stxexprs TEXT
    }
    3596 pg_seclabel { objoid OID classoid OID objsubid INT4 provider TEXT label TEXT }
    2620 pg_trigger {
        oid OID tgrelid OID tgparentid OID tgname NAME tgfoid OID tgtype INT2 tgenabled CHAR tgisinternal BOOL
        tgconstrrelid OID
        tgconstrindid OID tgconstraint OID tgdeferrable BOOL tginitdeferred BOOL tgnargs INT2 tgattr INT2VECTOR
        tgargs TEXT tgqual TEXT
        tgoldtable NAME tgnewtable NAME
    }
    3466 pg_event_trigger { oid OID evtname NAME evtevent NAME evtowner OID evtfoid OID evtenabled CHAR evttags TEXTS }
    0 pg_stat_progress_analyze {
        pid INT4 datid OID datname NAME relid OID phase TEXT sample_blks_total INT8 sample_blks_scanned INT8
        ext_stats_total INT8 ext_stats_computed INT8 child_tables_total INT8 child_tables_done INT8
        current_child_table_relid OID
    }
    0 pg_stat_progress_vacuum {
        pid INT4 datid OID datname NAME relid OID phase TEXT heap_blks_total INT8 heap_blks_scanned INT8
        heap_blks_vacuumed INT8 index_vacuum_count INT8 max_dead_tuples INT8 num_dead_tuples INT8
    }
    0 pg_stat_progress_cluster {
        pid INT4 datid OID datname NAME relid OID command TEXT phase TEXT cluster_index_relid OID
        heap_tuples_scanned INT8 heap_tuples_written INT8 heap_blks_total INT8 heap_blks_scanned INT8
        index_rebuild_count INT8
    }
    2600 pg_aggregate { aggfnoid OID aggkind CHAR aggnumdirectargs INT2 }
    2612 pg_language {
        oid OID lanname NAME lanowner OID lanispl BOOL lanpltrusted BOOL lanplcallfoid OID laninline OID
        lanvalidator OID lanacl TEXTS
    }
    3541 pg_range {
        rngtypid OID rngsubtype OID rngmultitypid OID rngcollation OID rngsubopc OID rngcanonical OID rngsubdiff OID
    }
    2605 pg_cast { oid OID castsource OID casttarget OID castfunc OID castcontext CHAR castmethod CHAR }
    2617 pg_operator {
        oid OID oprname NAME oprnamespace OID oprowner OID oprkind CHAR oprcanmerge BOOL oprcanhash BOOL oprleft OID
        oprright OID
        oprresult OID oprcom OID oprnegate OID oprcode OID oprrest OID oprjoin OID
    }
    2616 pg_opclass {
        oid OID opcmethod OID opcname NAME opcnamespace OID opcowner OID opcfamily OID opcintype OID opcdefault BOOL
        opckeytype OID
    }
    2328 pg_foreign_data_wrapper {
        oid OID fdwname NAME fdwowner OID fdwhandler OID fdwvalidator OID fdwacl TEXTS fdwoptions TEXTS
    }
    1417 pg_foreign_server {
        oid OID srvname NAME srvowner OID srvfdw OID srvtype TEXT srvversion TEXT srvacl TEXTS srvoptions TEXTS
    }
    3118 pg_foreign_table { ftrelid OID ftserver OID ftoptions TEXTS }
    1418 pg_user_mapping { oid OID umuser OID umserver OID umoptions TEXTS }
    2964 pg_db_role_setting { setdatabase OID setrole OID setconfig TEXTS }
    0 pg_rules { schemaname NAME tablename NAME rulename NAME definition TEXT }
    2602 pg_amop {
        oid OID amopfamily OID amoplefttype OID amoprighttype OID amopstrategy INT2 amoppurpose CHAR amopopr OID
        amopmethod OID amopsortfamily OID
    }
    2603 pg_amproc { oid OID amprocfamily OID amproclefttype OID amprocrighttype OID amprocnum INT2 amproc REGPROC }
    0 pg_available_extension_versions {
        name NAME version TEXT installed BOOL superuser BOOL trusted BOOL relocatable BOOL schema NAME
        requires NAMES comment TEXT
    }
    2607 pg_conversion {
        oid OID conname NAME connamespace OID conowner OID conforencoding INT4 contoencoding INT4 conproc REGPROC
        condefault BOOL
    }
    3394 pg_init_privs { objoid OID classoid OID objsubid INT4 privtype CHAR initprivs TEXTS }
    2995 pg_largeobject_metadata { oid OID lomowner OID lomacl TEXTS }
    2753 pg_opfamily { oid OID opfmethod OID opfname NAME opfnamespace OID opfowner OID }
    6243 pg_parameter_acl { oid OID parname TEXT paracl TEXTS }
    0 pg_seclabels {
        objoid OID classoid OID objsubid INT4 objtype TEXT objnamespace OID objname TEXT provider TEXT label TEXT
    }
    1214 pg_shdepend { dbid OID classid OID objid OID objsubid INT4 refclassid OID refobjid OID deptype CHAR }
    3592 pg_shseclabel { objoid OID classoid OID provider TEXT label TEXT }
    3429 pg_statistic_ext_data {
        stxoid OID stxdinherit BOOL stxdndistinct TEXT stxddependencies TEXT stxdmcv TEXT stxdexpr TEXTS
    }
    0 pg_stats {
        schemaname NAME tablename NAME attname NAME inherited BOOL null_frac FLOAT4 avg_width INT4 n_distinct FLOAT4
        most_common_vals TEXT most_common_freqs TEXTS histogram_bounds TEXT correlation FLOAT4
        most_common_elems TEXT most_common_elem_freqs TEXTS elem_count_histogram TEXTS
    }
    0 pg_stats_ext {
        schemaname NAME tablename NAME statistics_schemaname NAME statistics_name NAME statistics_owner NAME
        attnames NAMES exprs TEXTS kinds TEXTS inherited BOOL n_distinct TEXT dependencies TEXT
        most_common_vals TEXTS most_common_val_nulls TEXTS most_common_freqs TEXTS most_common_base_freqs TEXTS
    }
    0 pg_stats_ext_exprs {
        schemaname NAME tablename NAME statistics_schemaname NAME statistics_name NAME statistics_owner NAME
        expr TEXT inherited BOOL null_frac FLOAT4 avg_width INT4 n_distinct FLOAT4 most_common_vals TEXT
        most_common_freqs TEXTS histogram_bounds TEXT correlation FLOAT4 most_common_elems TEXT
        most_common_elem_freqs TEXTS elem_count_histogram TEXTS
    }
    0 pg_stat_subscription {
        subid OID subname NAME pid INT4 relid OID received_lsn TEXT last_msg_send_time TIME
        last_msg_receipt_time TIME latest_end_lsn TEXT latest_end_time TIME
    }
    0 pg_stat_user_functions { funcid OID schemaname NAME funcname NAME calls INT8 total_time TEXT self_time TEXT }
    0 pg_stat_wal_receiver {
        pid INT4 status TEXT receive_start_lsn TEXT receive_start_tli INT4 written_lsn TEXT flushed_lsn TEXT
        received_tli INT4 last_msg_send_time TIME last_msg_receipt_time TIME latest_end_lsn TEXT
        latest_end_time TIME slot_name TEXT sender_host TEXT sender_port INT4 conninfo TEXT
    }
    6100 pg_subscription {
        oid OID subdbid OID subskiplsn TEXT subname NAME subowner OID subenabled BOOL subbinary BOOL substream BOOL
        subtwophasestate CHAR subdisableonerr BOOL subconninfo TEXT subslotname NAME subsynccommit TEXT
        subpublications TEXTS
    }
    6102 pg_subscription_rel { srsubid OID srrelid OID srsubstate CHAR srsublsn TEXT }
    3576 pg_transform { oid OID trftype OID trflang OID trffromsql REGPROC trftosql REGPROC }
    3602 pg_ts_config { oid OID cfgname NAME cfgnamespace OID cfgowner OID cfgparser OID }
    3603 pg_ts_config_map { mapcfg OID maptokentype INT4 mapseqno INT4 mapdict OID }
    3600 pg_ts_dict { oid OID dictname NAME dictnamespace OID dictowner OID dicttemplate OID dictinitoption TEXT }
    3601 pg_ts_parser {
        oid OID prsname NAME prsnamespace OID prsstart REGPROC prstoken REGPROC prsend REGPROC prsheadline REGPROC
        prslextype REGPROC
    }
    3764 pg_ts_template { oid OID tmplname NAME tmplnamespace OID tmplinit REGPROC tmpllexize REGPROC }
    0 pg_user_mappings { umid OID srvid OID srvname NAME umuser OID usename NAME umoptions TEXTS }
};

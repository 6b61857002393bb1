//! The database, its roles, schemas and types.

use std::sync::Arc;

use ermine::Progress;

use super::{
    DATABASE_OWNER, Described, INFORMATION, INFORMATION_OID, Known, NULL, PG_CATALOG, PG_CATALOG_OID, ROLE,
    THE_DATABASE, UTF8, privileges,
    procedures::function_of,
    relations::{collation, storage},
    table,
};
use crate::{
    catalog::{
        Catalog, PUBLIC,
        advisory::{AdvisoryKey, ShownLock},
        sessions::{About, Activity, Doing, Presence},
    },
    types::{Scalar, SqlType, Value},
    verifier::Verifier,
};

const TABLESPACE: u32 = 1663;

fn schemas(catalog: &Catalog) -> impl Iterator<Item = (&str, u32)> {
    catalog.schemas().chain([(PG_CATALOG, PG_CATALOG_OID), (INFORMATION, INFORMATION_OID)])
}

/// Returns the sessions, their activity, and the numbers of their users.
fn sessions(known: Known<'_>) -> impl Iterator<Item = (Arc<Presence>, Doing, Option<u32>)> {
    known.catalog.sessions.all().into_iter().map(move |session| {
        let (doing, user) = (session.doing(), role_oid(known, &session.user));
        (session, doing, user)
    })
}

/// Returns the backups in progress.
fn backups(known: Known<'_>) -> impl Iterator<Item = (Arc<Presence>, Progress)> {
    known.catalog.sessions.all().into_iter().filter_map(|session| Some((session.clone(), session.doing().backup?)))
}

/// Returns the advisory locks, and the connections of the sessions that have them or wait for them.
fn advisory(catalog: &Catalog) -> impl Iterator<Item = (ShownLock, Option<i32>)> {
    let sessions = &catalog.sessions;
    sessions.locks.all().into_iter().map(|lock| {
        let process = sessions.numbered(lock.session).and_then(|session| session.process());
        (lock, process)
    })
}

fn prepared(catalog: &Catalog) -> impl Iterator<Item = (String, About)> {
    catalog.sessions.prepared().clone().into_iter()
}

/// A count, as large as SQL's integers go.
fn count(of: u64) -> i64 {
    i64::try_from(of).unwrap_or(i64::MAX)
}

/// A role, as the session sees it.
pub(super) struct RoleView<'a> {
    pub(super) oid: u32,
    pub(super) name: &'a str,
    verifier: Option<&'a Verifier>,
    can_login: bool,
}

/// Returns all roles, and the session's own even if no role of its name exists.
pub(super) fn roles(known: Known<'_>) -> impl Iterator<Item = RoleView<'_>> {
    let user = &*known.environment.user;
    let unknown = known.catalog.role(user).is_none().then_some(RoleView {
        oid: ROLE,
        name: user,
        verifier: None,
        can_login: true,
    });
    let known = known.catalog.roles().map(move |role| RoleView {
        oid: if role.name == user { ROLE } else { role.id },
        name: &role.name,
        verifier: role.verifier.as_ref(),
        can_login: role.name == user || role.verifier.is_some(),
    });
    let (name, oid) = DATABASE_OWNER;
    unknown.into_iter().chain(known).chain([RoleView { oid, name, verifier: None, can_login: false }])
}

/// Returns the number of a role.
pub(super) fn role_oid(known: Known<'_>, name: &str) -> Option<u32> {
    roles(known).find(|role| role.name == name).map(|role| role.oid)
}

/// Returns the name of a role.
pub(super) fn role_name(known: Known<'_>, oid: u32) -> Option<&str> {
    roles(known).find(|role| role.oid == oid).map(|role| role.name)
}

/// The delimiter between the texts of an array's elements.
const DELIMITER: &str = ",";

pub(super) const TABLES: &[Described] = &[
    table!(PG_CATALOG, 2615 pg_namespace, known => schemas(known.catalog), |(name, oid)| {
        oid OID = oid;
        nspname NAME = name;
        nspowner OID = if name == PUBLIC { DATABASE_OWNER.1 } else { ROLE };
        nspacl TEXTS = match name {
            PUBLIC => privileges::list(&[(DATABASE_OWNER.0, "UC"), ("", "U")], DATABASE_OWNER.0),
            _ => NULL,
        };
    }),
    table!(PG_CATALOG, 1262 pg_database, known => [&*known.environment.database].into_iter(), |name| {
        oid OID = THE_DATABASE;
        datname NAME = name;
        datdba OID = ROLE;
        encoding INT4 = UTF8;
        datlocprovider TEXT = "c";
        datistemplate BOOL = false;
        datallowconn BOOL = true;
        datconnlimit INT4 = -1i32;
        datfrozenxid OID = 0u32;
        datminmxid OID = 0u32;
        dattablespace OID = TABLESPACE;
        datcollate TEXT = "C";
        datctype TEXT = "C";
        daticulocale TEXT = NULL;
        datcollversion TEXT = NULL;
        datacl TEXTS = NULL;
    }),
    table!(PG_CATALOG, 0 pg_roles, known => roles(known), |role| {
        rolname NAME = role.name;
        rolsuper BOOL = true;
        rolinherit BOOL = true;
        rolcreaterole BOOL = true;
        rolcreatedb BOOL = true;
        rolcanlogin BOOL = role.can_login;
        rolreplication BOOL = false;
        rolconnlimit INT4 = -1i32;
        rolpassword TEXT = "********";
        rolvaliduntil TIME = NULL;
        rolbypassrls BOOL = true;
        rolconfig TEXTS = NULL;
        oid OID = role.oid;
    }),
    table!(PG_CATALOG, 1260 pg_authid, known => roles(known), |role| {
        oid OID = role.oid;
        rolname NAME = role.name;
        rolsuper BOOL = true;
        rolinherit BOOL = true;
        rolcreaterole BOOL = true;
        rolcreatedb BOOL = true;
        rolcanlogin BOOL = role.can_login;
        rolreplication BOOL = false;
        rolbypassrls BOOL = true;
        rolconnlimit INT4 = -1i32;
        rolpassword TEXT = role.verifier.map(Verifier::to_string);
        rolvaliduntil TIME = NULL;
    }),
    table!(PG_CATALOG, 0 pg_shadow, known => roles(known).filter(|role| role.can_login), |role| {
        usename NAME = role.name;
        usesysid OID = role.oid;
        usecreatedb BOOL = true;
        usesuper BOOL = true;
        userepl BOOL = false;
        usebypassrls BOOL = true;
        passwd TEXT = role.verifier.map(Verifier::to_string);
        valuntil TIME = NULL;
        useconfig TEXTS = NULL;
    }),
    table!(PG_CATALOG, 0 pg_user, known => roles(known).filter(|role| role.can_login), |role| {
        usename NAME = role.name;
        usesysid OID = role.oid;
        usecreatedb BOOL = true;
        usesuper BOOL = true;
        userepl BOOL = false;
        usebypassrls BOOL = true;
        passwd TEXT = "********";
        valuntil TIME = NULL;
        useconfig TEXTS = NULL;
    }),
    table!(PG_CATALOG, 0 pg_settings, known => known.environment.settings.iter(), |(name, value)| {
        name TEXT = name;
        setting TEXT = value;
        unit TEXT = NULL;
        category TEXT = "";
        short_desc TEXT = "";
        extra_desc TEXT = NULL;
        context TEXT = "user";
        vartype TEXT = "string";
        source TEXT = "default";
        min_val TEXT = NULL;
        max_val TEXT = NULL;
        enumvals TEXTS = NULL;
        boot_val TEXT = NULL;
        reset_val TEXT = NULL;
        sourcefile TEXT = NULL;
        sourceline INT4 = NULL;
        pending_restart BOOL = false;
    }),
    table!(PG_CATALOG, 0 pg_stat_activity, known => sessions(known), |(session, doing, user)| {
        datid OID = THE_DATABASE;
        datname NAME = &*session.database;
        pid INT4 = session.process();
        leader_pid INT4 = NULL;
        usesysid OID = user;
        usename NAME = &*session.user;
        application_name TEXT = &*doing.application;
        client_addr TEXT = session.client().and_then(|client| Some(client.rsplit_once(':')?.0));
        client_hostname TEXT = NULL;
        client_port INT4 = session.client().and_then(|client| client.rsplit_once(':')?.1.parse::<i32>().ok());
        backend_start TIME = Value::TimestampTz(session.began);
        xact_start TIME = doing.transaction_began.map(Value::TimestampTz);
        query_start TIME = doing.query_began.map(Value::TimestampTz);
        state_change TIME = Value::TimestampTz(doing.since);
        wait_event_type TEXT = (doing.state != Activity::Active).then_some("Client");
        wait_event TEXT = (doing.state != Activity::Active).then_some("ClientRead");
        state TEXT = doing.state.name();
        backend_xid OID = NULL;
        backend_xmin OID = NULL;
        query_id INT8 = NULL;
        query TEXT = &*doing.query;
        backend_type TEXT = "client backend";
    }),
    table!(PG_CATALOG, 0 ermine_stat_memory, known => std::iter::once((known.statistics)()), |of| {
        memory_limit INT8 = count(of.memory_limit);
        memory_taken INT8 = count(of.memory_taken);
        versions INT8 = count(of.version_bytes);
        versions_free INT8 = count(of.free_version_bytes);
        row_arrays INT8 = count(of.row_bytes);
        garbage_versions INT8 = count(of.garbage_versions);
        rows_in_files INT8 = count(of.unloaded_rows);
        rows_evicted INT8 = count(of.evicted_rows);
        rows_read_from_files INT8 = count(of.cold_reads);
    }),
    // Advisory locks: rows have no locks here, and those of tables are not shown.
    table!(PG_CATALOG, 0 pg_locks, known => advisory(known.catalog), |(lock, process)| {
        locktype TEXT = "advisory";
        database OID = THE_DATABASE;
        relation OID = NULL;
        page INT4 = NULL;
        tuple INT2 = NULL;
        virtualxid TEXT = NULL;
        transactionid OID = NULL;
        classid OID = lock.key.halves().0;
        objid OID = lock.key.halves().1;
        objsubid INT2 = match lock.key { AdvisoryKey::One(_) => 1i16, AdvisoryKey::Two(..) => 2 };
        virtualtransaction TEXT = NULL;
        pid INT4 = process;
        mode TEXT = if lock.is_shared { "ShareLock" } else { "ExclusiveLock" };
        granted BOOL = lock.is_granted;
        fastpath BOOL = false;
        waitstart TIME = NULL;
    }),
    table!(PG_CATALOG, 0 pg_stat_progress_basebackup, known => backups(known), |(session, progress)| {
        pid INT4 = session.process();
        phase TEXT = progress.step;
        backup_total INT8 = (progress.total > 0).then_some(progress.total as i64);
        backup_streamed INT8 = progress.done as i64;
        tablespaces_total INT4 = 1i32;
        tablespaces_streamed INT4 = 0i32;
    }),
    table!(PG_CATALOG, 0 pg_prepared_xacts, known => prepared(known.catalog), |(gid, about)| {
        transaction OID = about.number as u32;
        gid TEXT = gid;
        prepared TIME = Value::TimestampTz(about.prepared);
        owner NAME = &*about.owner;
        database NAME = &*about.database;
    }),
    table!(PG_CATALOG, 2601 pg_am, _known =>
        [(2u32, "heap", "t"), (403, "btree", "i")].into_iter(), |(oid, name, kind)| {
        oid OID = oid;
        amname NAME = name;
        amhandler REGPROC = 0u32;
        amtype TEXT = kind;
    }),
    table!(PG_CATALOG, 1213 pg_tablespace, _known => [(TABLESPACE, "pg_default")].into_iter(), |(oid, name)| {
        oid OID = oid;
        spcname NAME = name;
        spcowner OID = ROLE;
        spcacl TEXTS = NULL;
        spcoptions TEXTS = NULL;
    }),
    table!(PG_CATALOG, 3456 pg_collation, _known =>
        [(100u32, "default", "d"), (950, "C", "c")].into_iter(), |(oid, name, provider)| {
        oid OID = oid;
        collname NAME = name;
        collnamespace OID = PG_CATALOG_OID;
        collowner OID = ROLE;
        collprovider TEXT = provider;
        collisdeterministic BOOL = true;
        collencoding INT4 = -1i32;
        collcollate TEXT = "C";
        collctype TEXT = "C";
        colliculocale TEXT = NULL;
        collversion TEXT = NULL;
    }),
    table!(PG_CATALOG, 1247 pg_type, _known => SqlType::all(), |ty| {
        oid OID = ty.oid();
        typname NAME = ty.typname();
        typnamespace OID = PG_CATALOG_OID;
        typowner OID = ROLE;
        typlen INT2 = ty.typlen();
        typbyval BOOL = (1..=8).contains(&ty.typlen()) && ty.scalar != Scalar::Name;
        typtype TEXT = "b";
        typcategory TEXT = char::from(ty.category()).to_string();
        typispreferred BOOL = ty.is_preferred();
        typisdefined BOOL = true;
        typdelim TEXT = DELIMITER;
        typrelid OID = 0u32;
        typsubscript REGPROC = 0u32;
        typelem OID = ty.element().map_or(0, SqlType::oid);
        typarray OID = if ty.is_array { 0 } else { ty.array().oid() };
        typinput REGPROC = function_of(ty, 0);
        typoutput REGPROC = function_of(ty, 1);
        typreceive REGPROC = function_of(ty, 2);
        typsend REGPROC = function_of(ty, 3);
        typmodin REGPROC = 0u32;
        typmodout REGPROC = 0u32;
        typanalyze REGPROC = 0u32;
        typalign TEXT = "i";
        typstorage TEXT = storage(ty);
        typnotnull BOOL = false;
        typbasetype OID = 0u32;
        typtypmod INT4 = -1i32;
        typndims INT4 = 0i32;
        typcollation OID = collation(ty);
        typdefaultbin TEXT = NULL;
        typdefault TEXT = NULL;
        typacl TEXTS = NULL;
    }),
];

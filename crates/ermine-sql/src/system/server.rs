//! The database, its roles and schemas.

use std::{sync::Arc, time::Duration};

use super::{
    Described, EXTENSIONS, INFORMATION, INFORMATION_OID, Known, NULL, PG_CATALOG, PG_CATALOG_OID, ROLE, UTF8,
    definitions, locks, privileges,
    publications::slots,
    statistics::{mean, quantile},
    table,
};
use crate::{
    catalog::{
        Catalog,
        default_rights::DefaultRights,
        definition::{DatabaseDef, TraitsDef},
        rights::{Kind, Object},
        sessions::{About, Activity, Doing, Presence, now},
        wait_event::WaitEvent,
    },
    configuration::Standby,
    logical::{lsn, slots::Shown},
    types::{Array, Scalar, Value, network::Inet},
    verifier::Verifier,
};

const TABLESPACE: u32 = 1663;

/// Returns a schema that statements have created, or `public`.
fn schema_object(known: Known<'_>, oid: u32) -> Option<Object> {
    let is_known = known.catalog.schemas().any(|(_, known)| known == oid);
    is_known.then_some(Object { kind: Kind::Schema, id: oid })
}

fn schemas(catalog: &Catalog) -> impl Iterator<Item = (&str, u32)> {
    catalog.schemas().chain([(PG_CATALOG, PG_CATALOG_OID), (INFORMATION, INFORMATION_OID)])
}

/// Returns the sessions, their activity, and the numbers of their users.
fn sessions(known: Known<'_>) -> impl Iterator<Item = (Arc<Presence>, Doing, Option<u32>)> {
    known.catalog.sessions.all().into_iter().map(move |session| {
        let (mut doing, user) = (session.doing(), Some(session.role));
        if session.footprint.event().is_some() {
            // The client has not been told of the end of its statement.
            doing.state = Activity::Active;
        }
        (session, doing, user)
    })
}

/// Returns the servers that follow this one.
fn standbys(known: Known<'_>) -> impl Iterator<Item = Standby> {
    known.catalog.sessions.configuration.standbys().into_iter()
}

/// A reader of the log that is connected: a server that follows this one, or a stream of changes.
struct Follower {
    name: String,
    /// The session of a stream, and the number of its user.
    session: Option<(Arc<Presence>, Option<u32>)>,
    sent: u64,
    received: u64,
    heard: Value,
}

fn followers(known: Known<'_>) -> impl Iterator<Item = Follower> {
    let server = |of: Standby| {
        let heard = before(of.silence);
        Follower { name: of.name, session: None, sent: of.sent, received: of.received, heard }
    };
    let stream = move |slot: Shown| {
        let reader = slot.reader?;
        let (session, doing, user) = sessions(known).find(|(session, ..)| session.process() == Some(reader))?;
        Some(Follower {
            name: doing.application.to_string(),
            session: Some((session, user)),
            sent: slot.sent,
            received: slot.confirmed,
            heard: slot.heard.map_or(NULL, |heard| before(heard.elapsed())),
        })
    };
    standbys(known).map(server).chain(slots(known).into_iter().filter_map(stream))
}

/// Returns the address of a session's client, and its port.
fn address(session: &Presence) -> Option<(Value, Option<i32>)> {
    let client = session.client()?;
    let (address, port) = client.rsplit_once(':')?;
    let address = Inet::parse(address.trim_matches(['[', ']']), false).ok()?;
    Some((Value::Inet(address), port.parse().ok()))
}

/// Returns the moment that was so long ago.
fn before(time: Duration) -> Value {
    Value::TimestampTz(now() - time.as_micros() as i64)
}

/// Returns the event for which a session waits: its type and its name.
fn event(known: Known<'_>, session: &Presence, doing: &Doing) -> Option<(&'static str, &'static str)> {
    match session.footprint.event() {
        Some(event) => Some(event.name()),
        None if doing.state == Activity::Active => locks::event(known, session),
        None => Some(WaitEvent::ClientRead.name()),
    }
}

fn prepared(catalog: &Catalog) -> impl Iterator<Item = (String, About)> {
    catalog.sessions.prepared().clone().into_iter()
}

/// A count, as large as SQL's integers go.
fn count(of: u64) -> i64 {
    i64::try_from(of).unwrap_or(i64::MAX)
}

/// A role with its attributes.
struct RoleView<'a> {
    name: &'a str,
    verifier: Option<&'a Verifier>,
    traits: TraitsDef,
}

/// Returns the default rights of all roles, each with a number and the role.
fn default_rights(known: Known<'_>) -> impl Iterator<Item = (u32, u32, &DefaultRights)> {
    known.catalog.all_default_rights().flat_map(|def| {
        let numbered = def.entries.iter().enumerate();
        numbered.map(|(at, entry)| (definitions::part(def.id, at), def.role, entry))
    })
}

/// Returns all roles. Roles that are built in cannot log in.
fn roles(known: Known<'_>) -> impl Iterator<Item = RoleView<'_>> {
    known.catalog.role_names(known.environment).into_iter().map(move |(id, name)| {
        let verifier = known.catalog.role(name).filter(|role| role.id == id).and_then(|role| role.verifier.as_ref());
        RoleView { name, verifier, traits: known.catalog.traits(id) }
    })
}

/// Returns the roles that have members, with the numbers of these.
fn groups(known: Known<'_>) -> impl Iterator<Item = (RoleView<'_>, Value)> {
    roles(known).filter(|role| !role.traits.can_login).map(move |role| {
        let members = known.catalog.memberships().filter(|(_, of)| of.role == role.traits.role);
        let members = members.map(|(member, _)| Value::Oid(member)).collect();
        let members = Value::array(Array::new(Scalar::Oid, members));
        (role, members)
    })
}

/// Returns the extensions, with numbers of the system's.
fn extensions() -> impl Iterator<Item = (u32, &'static str, &'static str)> {
    const FIRST: u32 = 13_700;
    (FIRST..).zip(EXTENSIONS).map(|(oid, (name, version))| (oid, name, version))
}

/// A row of `pg_database`.
struct ShownDatabase<'k> {
    object: Object,
    name: &'k str,
    /// `None`: it is the first one.
    def: Option<&'k DatabaseDef>,
}

fn databases(known: Known<'_>) -> impl Iterator<Item = ShownDatabase<'_>> {
    known.catalog.database_names(&known.environment.database).map(move |(number, name)| {
        let def = known.catalog.database(number).map(|def| &**def);
        ShownDatabase { object: Object::new(Kind::Database, number), name, def }
    })
}

pub(super) const TABLES: &[Described] = &[
    table!(PG_CATALOG, 3079 pg_extension, _known => extensions(), |(oid, name, version)| {
        oid OID = oid;
        extname NAME = name;
        extowner OID = ROLE;
        extnamespace OID = PG_CATALOG_OID;
        extrelocatable BOOL = false;
        extversion TEXT = version;
        extconfig OIDS = NULL;
        extcondition TEXTS = NULL;
    }),
    table!(PG_CATALOG, 0 pg_available_extensions, _known => extensions(), |(_, name, version)| {
        name NAME = name;
        default_version TEXT = version;
        installed_version TEXT = version;
        comment TEXT = NULL;
    }),
    table!(PG_CATALOG, 2615 pg_namespace, known => schemas(known.catalog), |(name, oid)| {
        oid OID = oid;
        nspname NAME = name;
        nspowner OID = schema_object(known, oid).map_or(ROLE, |schema| known.catalog.owner(schema));
        nspacl TEXTS = schema_object(known, oid).map_or(NULL, |schema| privileges::of_object(known, schema));
    }),
    table!(PG_CATALOG, 1262 pg_database, known => databases(known), |of| {
        oid OID = of.object.id;
        datname NAME = of.name;
        datdba OID = known.catalog.owner(of.object);
        encoding INT4 = UTF8;
        datlocprovider CHAR = "c";
        datistemplate BOOL = of.def.is_some_and(|def| def.is_template);
        datallowconn BOOL = of.def.is_none_or(|def| def.allows_connections);
        datconnlimit INT4 = of.def.map_or(-1, |def| def.connection_limit);
        datfrozenxid OID = 0u32;
        datminmxid OID = 0u32;
        dattablespace OID = TABLESPACE;
        datcollate TEXT = "C";
        datctype TEXT = "C";
        daticulocale TEXT = NULL;
        datcollversion TEXT = NULL;
        datacl TEXTS = privileges::of_object(known, of.object);
    }),
    table!(PG_CATALOG, 0 pg_roles, known => roles(known), |role| {
        rolname NAME = role.name;
        rolsuper BOOL = role.traits.is_superuser;
        rolinherit BOOL = role.traits.inherits;
        rolcreaterole BOOL = role.traits.creates_roles;
        rolcreatedb BOOL = role.traits.creates_databases;
        rolcanlogin BOOL = role.traits.can_login;
        rolreplication BOOL = role.traits.replicates;
        rolconnlimit INT4 = role.traits.connection_limit;
        rolpassword TEXT = "********";
        rolvaliduntil TIME = role.traits.valid_until.map(Value::TimestampTz);
        rolbypassrls BOOL = role.traits.sees_all_rows;
        rolconfig TEXTS = NULL;
        oid OID = role.traits.role;
    }),
    table!(PG_CATALOG, 1260 pg_authid, known => roles(known), |role| {
        oid OID = role.traits.role;
        rolname NAME = role.name;
        rolsuper BOOL = role.traits.is_superuser;
        rolinherit BOOL = role.traits.inherits;
        rolcreaterole BOOL = role.traits.creates_roles;
        rolcreatedb BOOL = role.traits.creates_databases;
        rolcanlogin BOOL = role.traits.can_login;
        rolreplication BOOL = role.traits.replicates;
        rolbypassrls BOOL = role.traits.sees_all_rows;
        rolconnlimit INT4 = role.traits.connection_limit;
        rolpassword TEXT = role.verifier.map(Verifier::to_string);
        rolvaliduntil TIME = role.traits.valid_until.map(Value::TimestampTz);
    }),
    table!(PG_CATALOG, 1261 pg_auth_members, known => known.catalog.memberships(), |(member, of)| {
        roleid OID = of.role;
        member OID = member;
        grantor OID = of.grantor;
        admin_option BOOL = of.is_admin;
    }),
    table!(PG_CATALOG, 826 pg_default_acl, known => default_rights(known), |(oid, role, entry)| {
        oid OID = oid;
        defaclrole OID = role;
        defaclnamespace OID = entry.schema;
        defaclobjtype CHAR = entry.kind.letter();
        defaclacl TEXTS = privileges::list(known, &entry.granted);
    }),
    table!(PG_CATALOG, 0 pg_group, known => groups(known), |(role, members)| {
        groname NAME = role.name;
        grosysid OID = role.traits.role;
        grolist OIDS = members;
    }),
    table!(PG_CATALOG, 0 pg_shadow, known => roles(known).filter(|role| role.traits.can_login), |role| {
        usename NAME = role.name;
        usesysid OID = role.traits.role;
        usecreatedb BOOL = role.traits.creates_databases;
        usesuper BOOL = role.traits.is_superuser;
        userepl BOOL = role.traits.replicates;
        usebypassrls BOOL = role.traits.sees_all_rows;
        passwd TEXT = role.verifier.map(Verifier::to_string);
        valuntil TIME = role.traits.valid_until.map(Value::TimestampTz);
        useconfig TEXTS = NULL;
    }),
    table!(PG_CATALOG, 0 pg_user, known => roles(known).filter(|role| role.traits.can_login), |role| {
        usename NAME = role.name;
        usesysid OID = role.traits.role;
        usecreatedb BOOL = role.traits.creates_databases;
        usesuper BOOL = role.traits.is_superuser;
        userepl BOOL = role.traits.replicates;
        usebypassrls BOOL = role.traits.sees_all_rows;
        passwd TEXT = "********";
        valuntil TIME = role.traits.valid_until.map(Value::TimestampTz);
        useconfig TEXTS = NULL;
    }),
    table!(PG_CATALOG, 0 pg_stat_activity, known => sessions(known), |(session, doing, user)| {
        datid OID = session.database_number;
        datname NAME = &*session.database;
        pid INT4 = session.process();
        leader_pid INT4 = NULL;
        usesysid OID = user;
        usename NAME = &*session.user;
        application_name TEXT = &*doing.application;
        client_addr INET = address(&session).map(|(address, _)| address);
        client_hostname TEXT = NULL;
        client_port INT4 = address(&session).and_then(|(_, port)| port);
        backend_start TIME = Value::TimestampTz(session.began);
        xact_start TIME = doing.transaction_began.map(Value::TimestampTz);
        query_start TIME = doing.query_began.map(Value::TimestampTz);
        state_change TIME = Value::TimestampTz(doing.since);
        wait_event_type TEXT = event(known, &session, &doing).map(|event| event.0);
        wait_event TEXT = event(known, &session, &doing).map(|event| event.1);
        state TEXT = doing.state.name();
        backend_xid OID = NULL;
        backend_xmin OID = NULL;
        query_id INT8 = NULL;
        query TEXT = if known.may_see(session.role) { &*doing.query } else { "<insufficient privilege>" };
        backend_type TEXT = "client backend";
    }),
    table!(PG_CATALOG, 0 pg_stat_replication, known => followers(known), |of| {
        pid INT4 = of.session.as_ref().and_then(|(session, _)| session.process());
        usesysid OID = of.session.as_ref().and_then(|(_, user)| *user);
        usename NAME = of.session.as_ref().map(|(session, _)| session.user.to_string());
        application_name TEXT = &*of.name;
        client_addr INET = of.session.as_ref().and_then(|(session, _)| address(session)).map(|(address, _)| address);
        client_hostname TEXT = NULL;
        client_port INT4 = of.session.as_ref().and_then(|(session, _)| address(session)).and_then(|(_, port)| port);
        backend_start TIME = of.session.as_ref().map(|(session, _)| Value::TimestampTz(session.began));
        backend_xmin OID = NULL;
        state TEXT = "streaming";
        sent_lsn TEXT = &*lsn(of.sent);
        write_lsn TEXT = &*lsn(of.received);
        flush_lsn TEXT = &*lsn(of.received);
        replay_lsn TEXT = of.session.as_ref().map(|_| lsn(of.received));
        write_lag TEXT = NULL;
        flush_lag TEXT = NULL;
        replay_lag TEXT = NULL;
        sync_priority INT4 = 0i32;
        sync_state TEXT = "async";
        reply_time TIME = of.heard;
    }),
    table!(PG_CATALOG, 0 ermine_stat_standbys, known => standbys(known), |of| {
        name TEXT = &*of.name;
        published INT8 = count(of.sent);
        received INT8 = count(of.received);
        lag_bytes INT8 = count(of.sent - of.received);
        heard TIME = before(of.silence);
    }),
    table!(PG_CATALOG, 0 ermine_stat_memory, known => std::iter::once((known.statistics)()), |of| {
        memory_limit INT8 = count(of.memory_limit);
        memory_taken INT8 = count(of.memory_taken);
        versions INT8 = count(of.version_bytes);
        versions_free INT8 = count(of.free_version_bytes);
        row_arrays INT8 = count(of.row_bytes);
        indexes INT8 = count(of.index_bytes);
        garbage_versions INT8 = count(of.garbage_versions);
        rows_in_files INT8 = count(of.unloaded_rows);
        rows_evicted INT8 = count(of.evicted_rows);
        rows_read_from_files INT8 = count(of.cold_reads);
        file_read_mean_time FLOAT8 = mean(&of.cold_read_times);
        file_read_p99_time FLOAT8 = quantile(&of.cold_read_times, 0.99);
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
        amtype CHAR = kind;
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
        collprovider CHAR = provider;
        collisdeterministic BOOL = true;
        collencoding INT4 = -1i32;
        collcollate TEXT = "C";
        collctype TEXT = "C";
        colliculocale TEXT = NULL;
        collversion TEXT = NULL;
    }),
];

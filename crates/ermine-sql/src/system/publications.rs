//! Publications and replication slots.

use super::{Described, Known, NULL, PG_CATALOG, table};
use crate::{
    catalog::{
        Catalog, MAIN_DATABASE, Table,
        databases::MAIN_NAME,
        publication::{Member, PublicationDef, has_identity, is_publishable},
        rights::{Kind, Object},
    },
    error::{Result, SqlError, SqlState},
    logical::{lsn, parse_lsn, slots::Shown},
    types::{Array, Environment, Scalar, SqlType, Value},
};

/// The columns of `pg_get_publication_tables` that its calls have values for: tables are published with all their
/// columns and rows, so that the others are NULL.
pub(crate) const OF_PUBLICATION: [(&str, SqlType); 3] =
    [("relid", SqlType::OID), ("attrs", SqlType::INT2.array()), ("qual", SqlType::TEXT)];

/// Returns the members of each publication.
fn members(known: Known<'_>, of: fn(&PublicationDef) -> &[Member]) -> impl Iterator<Item = (&PublicationDef, &Member)> {
    known
        .catalog
        .publications()
        .flat_map(move |publication| of(publication).iter().map(move |member| (publication, member)))
}

fn published(known: Known<'_>) -> impl Iterator<Item = (&PublicationDef, &Table)> {
    let all = known.catalog.publications();
    all.flat_map(move |publication| {
        known.catalog.published(publication).into_iter().map(move |table| (publication, table))
    })
}

pub(super) fn slots(known: Known<'_>) -> Vec<Shown> {
    known.catalog.sessions.slots.get().map_or_else(Vec::new, |slots| slots.shown())
}

fn column_names(table: &Table) -> Value {
    let shown = table.def.live_columns().filter(|(_, column)| column.generation().is_none());
    Value::array(Array::new(Scalar::Name, shown.map(|(_, column)| column.name.as_str().into()).collect()))
}

/// `pg_get_publication_tables(name)`: the numbers of the tables.
pub(super) fn tables_of(values: &[Value], catalog: &Catalog, _: &Environment) -> Result<Value> {
    let [Value::Text(name)] = values else { return Ok(NULL) };
    let tables = catalog.publication(name).map_or_else(Vec::new, |publication| catalog.published(publication));
    let numbers = tables.into_iter().map(|table| Value::Oid(table.def.id)).collect();
    Ok(Value::array(Array::new(Scalar::Oid, numbers)))
}

/// `pg_get_replica_identity_index(table)`
pub(super) fn identity_of(values: &[Value], catalog: &Catalog, _: &Environment) -> Result<Value> {
    let [Value::Oid(id)] = values else { return Ok(NULL) };
    let def = catalog.table(*id).map(|table| &table.def).filter(|def| has_identity(def));
    Ok(def.and_then(|def| def.primary_key.as_ref()).map_or(NULL, |key| Value::Oid(key.id)))
}

/// `pg_relation_is_publishable(table)`
pub(super) fn may_be_published(values: &[Value], catalog: &Catalog, _: &Environment) -> Result<Value> {
    let [Value::Oid(id)] = values else { return Ok(NULL) };
    Ok(Value::Bool(catalog.table(*id).is_some_and(|table| is_publishable(&table.def))))
}

/// `pg_current_wal_lsn()`: the end of the log up to which it is durable.
pub(super) fn log_end(_: &[Value], catalog: &Catalog, _: &Environment) -> Result<Value> {
    if catalog.is_standby() {
        let error = SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "recovery is in progress");
        return Err(error.hint("WAL control functions cannot be executed during recovery."));
    }
    Ok(catalog.log_end().map_or(NULL, |end| lsn(end).into()))
}

/// `pg_last_wal_replay_lsn()`: the position up to which a standby has received and replayed the log.
pub(super) fn replayed(_: &[Value], catalog: &Catalog, _: &Environment) -> Result<Value> {
    Ok(catalog.replayed().map_or(NULL, |position| lsn(position).into()))
}

/// `pg_wal_lsn_diff(position, position)`
pub(super) fn difference(values: &[Value], _: &Catalog, _: &Environment) -> Result<Value> {
    let [Value::Text(left), Value::Text(right)] = values else { return Ok(NULL) };
    let position = |text: &str| {
        let message = || format!("invalid input syntax for type pg_lsn: \"{text}\"");
        parse_lsn(text).ok_or_else(|| SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message()))
    };
    let bytes = i128::from(position(left)?) - i128::from(position(right)?);
    Ok(bytes.to_string().parse().map_or(NULL, Value::Numeric))
}

/// `pg_drop_replication_slot(name)`
pub(super) fn drop_slot(values: &[Value], catalog: &Catalog, environment: &Environment) -> Result<Value> {
    let [Value::Text(name)] = values else { return Ok(NULL) };
    catalog.check_replicates(environment.role)?;
    catalog.slots()?.drop_slot(name)?;
    Ok("".into())
}

pub(super) const TABLES: &[Described] = &[
    table!(PG_CATALOG, 6104 pg_publication, known => known.catalog.publications(), |publication| {
        oid OID = publication.id;
        pubname NAME = &publication.name;
        pubowner OID = known.catalog.owner(Object::new(Kind::Publication, publication.id));
        puballtables BOOL = publication.has_all;
        pubinsert BOOL = publication.kinds.insert;
        pubupdate BOOL = publication.kinds.update;
        pubdelete BOOL = publication.kinds.delete;
        pubtruncate BOOL = publication.kinds.truncate;
        pubviaroot BOOL = false;
    }),
    table!(PG_CATALOG, 6106 pg_publication_rel, known => members(known, |publication| &publication.tables)
        .filter(move |(_, member)| known.catalog.table(member.of).is_some()), |(publication, member)| {
        oid OID = member.id;
        prpubid OID = publication.id;
        prrelid OID = member.of;
        prqual TEXT = NULL;
        prattrs INT2S = NULL;
    }),
    table!(PG_CATALOG, 6237 pg_publication_namespace, known => members(known, |publication| &publication.schemas)
        .filter(move |(_, member)| known.catalog.schemas().any(|(_, id)| id == member.of)), |(publication, member)| {
        oid OID = member.id;
        pnpubid OID = publication.id;
        pnnspid OID = member.of;
    }),
    table!(PG_CATALOG, 0 pg_publication_tables, known => published(known), |(publication, table)| {
        pubname NAME = &publication.name;
        schemaname NAME = &table.def.schema;
        tablename NAME = table.name();
        attnames NAMES = column_names(table);
        rowfilter TEXT = NULL;
    }),
    table!(PG_CATALOG, 0 pg_replication_slots, known => slots(known).into_iter(), |slot| {
        slot_name NAME = slot.name;
        plugin NAME = slot.plugin;
        slot_type TEXT = "logical";
        datoid OID = MAIN_DATABASE;
        database NAME = if known.catalog.number == MAIN_DATABASE { &*known.environment.database } else { MAIN_NAME };
        temporary BOOL = false;
        active BOOL = slot.reader.is_some();
        active_pid INT4 = slot.reader;
        xmin OID = NULL;
        catalog_xmin OID = NULL;
        restart_lsn TEXT = lsn(slot.saved);
        confirmed_flush_lsn TEXT = lsn(slot.confirmed);
        wal_status TEXT = if slot.is_lost { "lost" } else { "reserved" };
        safe_wal_size INT8 = NULL;
        two_phase BOOL = false;
    }),
];

//! Functions that read the catalog.

use std::sync::Arc;

use super::{
    Known, NULL, UTF8, comments,
    definitions::{self, indexes},
    inquiries,
    locks::blocking,
    privileges, procedures, publications,
    reg::{self, Reg},
    views::{self, is_column_updatable, is_updatable},
};
use crate::{
    catalog::{
        Catalog,
        definition::DefaultDef,
        rights::{Kind, Object, Rights, no_right, no_right_to},
        roles::SIGNAL_BACKEND,
        sessions::Presence,
    },
    error::{Result, SqlError, SqlState},
    functions::{
        quote_ident,
        resolution::{self, Candidate, Parameter, of},
        unresolved,
    },
    types::{Array, Environment, Scalar, SqlType, Value},
};

/// The implementation of such a function.
pub(crate) type Lookup = fn(&[Value], &Catalog, &Environment) -> Result<Value>;

/// The function that a call means.
pub(crate) struct Resolved {
    pub(crate) arguments: Vec<SqlType>,
    pub(crate) result: SqlType,
    pub(crate) modifier: i32,
    pub(crate) is_strict: bool,
    pub(crate) function: Lookup,
}

struct Entry {
    name: &'static str,
    parameters: &'static [Parameter],
    /// The number of trailing parameters that may be left out.
    optional: usize,
    result: SqlType,
    modifier: i32,
    is_strict: bool,
    function: Lookup,
}

impl Candidate for Entry {
    fn parameters(&self) -> &[Parameter] {
        self.parameters
    }

    fn optional(&self) -> usize {
        self.optional
    }
}

const OID: Parameter = of(Scalar::Oid);
const OIDS: Parameter = Parameter::Is(SqlType::OID.array());
const TEXT: Parameter = of(Scalar::Text);
const INT4: Parameter = of(Scalar::Int4);
const TEXTS: Parameter = Parameter::Is(SqlType::TEXT.array());
const INT8: Parameter = of(Scalar::Int8);
const BOOL: Parameter = of(Scalar::Bool);
const ANY: Parameter = Parameter::Any;

/// A strict function, all of whose parameters have to be given.
const fn entry(name: &'static str, parameters: &'static [Parameter], result: SqlType, function: Lookup) -> Entry {
    Entry { name, parameters, optional: 0, result, modifier: -1, is_strict: true, function }
}

impl Entry {
    const fn optional(mut self, count: usize) -> Self {
        self.optional = count;
        self
    }

    const fn accepts_null(mut self) -> Self {
        self.is_strict = false;
        self
    }

    /// Its results are numbers of objects of this kind.
    const fn reg(mut self, modifier: i32) -> Self {
        self.modifier = modifier;
        self
    }
}

const YES: Lookup = |_, _, _| Ok(Value::Bool(true));
const NO: Lookup = |_, _, _| Ok(Value::Bool(false));
const NOTHING: Lookup = |_, _, _| Ok(NULL);

/// One of the functions that tell whether a role has a right.
const fn privilege(at: usize) -> Entry {
    let (name, count, function) = inquiries::FUNCTIONS[at];
    // The role may be left out.
    let parameters: &[Parameter] = if count == 3 { &[ANY, ANY, ANY, ANY] } else { &[ANY, ANY, ANY] };
    entry(name, parameters, SqlType::BOOL, function).optional(1)
}

/// A function of the number of an object of a kind that does not exist here.
const fn nothing(name: &'static str) -> Entry {
    entry(name, &[OID, ANY, ANY], SqlType::TEXT, NOTHING).optional(2)
}

/// A size function: sizes are not known by table.
const fn size(name: &'static str) -> Entry {
    entry(name, &[ANY, TEXT], SqlType::INT8, NOTHING).optional(1)
}

static FUNCTIONS: &[Entry] = &[
    entry("pg_table_is_visible", &[OID], SqlType::BOOL, table_is_visible),
    entry("pg_type_is_visible", &[OID], SqlType::BOOL, |values, _, environment| match values {
        [Value::Oid(oid)] => Ok(match SqlType::from_oid(*oid) {
            Some(_) => Value::Bool(true),
            None => {
                let of_array = || environment.types.of_oid(*oid).and_then(SqlType::created);
                let user = environment.types.get(*oid).or_else(|| environment.types.get(of_array()?));
                user.map_or(NULL, |user| Value::Bool(environment.is_visible(user)))
            }
        }),
        _ => Ok(NULL),
    }),
    entry("pg_function_is_visible", &[OID], SqlType::BOOL, |values, catalog, environment| match values {
        [Value::Oid(oid)] => {
            Ok(procedures::function_name(Known::new(catalog, environment), *oid).map_or(NULL, |_| Value::Bool(true)))
        }
        _ => Ok(NULL),
    }),
    entry("pg_operator_is_visible", &[OID], SqlType::BOOL, NO),
    entry("pg_statistics_obj_is_visible", &[OID], SqlType::BOOL, NO),
    // Those that there are belong to `pg_catalog`.
    entry("pg_opclass_is_visible", &[OID], SqlType::BOOL, YES),
    entry("pg_opfamily_is_visible", &[OID], SqlType::BOOL, YES),
    entry("pg_conversion_is_visible", &[OID], SqlType::BOOL, YES),
    entry("pg_ts_config_is_visible", &[OID], SqlType::BOOL, YES),
    entry("pg_ts_dict_is_visible", &[OID], SqlType::BOOL, YES),
    entry("pg_ts_parser_is_visible", &[OID], SqlType::BOOL, YES),
    entry("pg_ts_template_is_visible", &[OID], SqlType::BOOL, YES),
    entry("pg_describe_object", &[OID, OID, INT4], SqlType::TEXT, |_, _, _| {
        Err(SqlError::unsupported("pg_describe_object"))
    }),
    entry("format_type", &[OID, INT4], SqlType::TEXT, |values, catalog, environment| match values {
        [Value::Oid(0), _] => Ok("-".into()),
        [Value::Oid(oid), modifier] => {
            let modifier = if let Value::Int4(modifier) = modifier { Some(*modifier) } else { None };
            let of_rows = || reg::row_type_name(Known::new(catalog, environment), *oid);
            Ok(environment.name_of_oid(*oid, modifier).or_else(of_rows).unwrap_or_else(|| "???".into()).into())
        }
        _ => Ok(NULL),
    })
    .accepts_null(),
    entry("oidvectortypes", &[OIDS], SqlType::TEXT, |values, _, environment| match values {
        [Value::Array(oids)] => {
            let name = |oid: &Value| match oid {
                Value::Oid(oid) => environment.name_of_oid(*oid, None).unwrap_or_else(|| "???".into()),
                _ => "-".into(),
            };
            Ok(oids.elements().iter().map(name).collect::<Vec<String>>().join(", ").into())
        }
        _ => Ok(NULL),
    }),
    entry("pg_get_userbyid", &[OID], SqlType::NAME, |values, catalog, environment| match values {
        [Value::Oid(oid)] => Ok(match catalog.role_name(*oid, environment) {
            Some(name) => name.into(),
            None => format!("unknown (OID={oid})").into(),
        }),
        _ => Ok(NULL),
    }),
    entry("pg_encoding_to_char", &[INT4], SqlType::NAME, |values, _, _| match values {
        [Value::Int4(UTF8)] => Ok("UTF8".into()),
        _ => Ok("".into()),
    }),
    entry("pg_get_indexdef", &[OID, INT4, BOOL], SqlType::TEXT, index_definition).optional(2),
    entry("pg_get_constraintdef", &[OID, BOOL], SqlType::TEXT, |values, catalog, environment| match values {
        [Value::Oid(oid), rest @ ..] => {
            let known = Known::new(catalog, environment);
            Ok(definitions::constraint_of(known, *oid, is_pretty(rest)).map_or(NULL, Value::from))
        }
        _ => Ok(NULL),
    })
    .optional(1),
    entry("row_security_active", &[OID], SqlType::BOOL, |values, catalog, environment| match values {
        [Value::Oid(table)] => Ok(Value::Bool(catalog.row_security_for(environment.role, *table).is_some())),
        _ => Ok(NULL),
    }),
    // Trees of expressions are texts here.
    entry("pg_get_expr", &[TEXT, OID, BOOL], SqlType::TEXT, |values, _, _| Ok(values.first().cloned().unwrap_or(NULL)))
        .optional(1),
    entry("pg_sequence_last_value", &[OID], SqlType::INT8, |values, catalog, environment| {
        if let [Value::Oid(id)] = values
            && catalog.sequence(*id).is_some()
            && !reads_sequence(catalog, environment.role, *id)
        {
            return Err(no_right(catalog, Object::new(Kind::Sequence, *id)));
        }
        Ok(state_of(values, catalog)?.filter(|(_, is_called)| *is_called).map_or(NULL, |(last, _)| Value::Int8(last)))
    }),
    // A name is an array of 64 bytes from 0 on; those behind its end are zero, which is shown as nothing.
    entry("name.element", &[of(Scalar::Name), INT4], SqlType::TEXT, |values, _, _| match values {
        [Value::Text(name), Value::Int4(place @ 0..64)] => {
            Ok(name.chars().nth(*place as usize).map(String::from).unwrap_or_default().into())
        }
        _ => Ok(NULL),
    }),
    entry("acldefault", &[TEXT, OID], SqlType::TEXT.array(), privileges::initial),
    entry("pg_get_serial_sequence", &[TEXT, TEXT], SqlType::TEXT, serial_sequence),
    entry("obj_description", &[OID, TEXT], SqlType::TEXT, comments::of_object).optional(1),
    entry("shobj_description", &[OID, TEXT], SqlType::TEXT, comments::of_object),
    entry("col_description", &[OID, INT4], SqlType::TEXT, comments::of_column),
    entry("pg_get_viewdef", &[OID, ANY], SqlType::TEXT, view_definition).optional(1),
    entry("pg_get_viewdef", &[TEXT, ANY], SqlType::TEXT, |values, catalog, environment| match values {
        [Value::Text(_), ..] => {
            let oid = (Reg::Class.numbers().function)(&values[..1], catalog, environment)?;
            view_definition(&[oid], catalog, environment)
        }
        _ => Ok(NULL),
    })
    .optional(1),
    entry("pg_relation_is_updatable", &[OID, BOOL], SqlType::INT4, |values, catalog, _| match values {
        // The events INSERT, UPDATE and DELETE.
        [Value::Oid(oid), ..] => Ok(Value::Int4(if takes_writes(*oid, catalog) { 28 } else { 0 })),
        _ => Ok(NULL),
    }),
    entry("pg_column_is_updatable", &[OID, of(Scalar::Int2), BOOL], SqlType::BOOL, |values, catalog, _| match values {
        [Value::Oid(oid), Value::Int2(number), ..] => Ok(Value::Bool(match catalog.view(*oid) {
            Some(view) => {
                let at = usize::try_from(i32::from(*number) - 1);
                is_updatable(catalog, view) && at.is_ok_and(|at| is_column_updatable(view, at))
            }
            None => catalog.table(*oid).is_some() && *number > 0,
        })),
        _ => Ok(NULL),
    }),
    nothing("pg_get_ruledef"),
    nothing("pg_get_function_sqlbody"),
    nothing("pg_get_triggerdef"),
    nothing("pg_get_functiondef"),
    nothing("pg_get_function_result"),
    nothing("pg_get_function_arguments"),
    nothing("pg_get_function_identity_arguments"),
    nothing("pg_get_partkeydef"),
    nothing("pg_get_partition_constraintdef"),
    nothing("pg_get_statisticsobjdef_columns"),
    // No table has partitions: there are no rows.
    nothing("pg_tablespace_location"),
    size("pg_relation_size"),
    size("pg_table_size"),
    size("pg_indexes_size"),
    size("pg_total_relation_size"),
    size("pg_database_size"),
    size("pg_tablespace_size"),
    entry("pg_size_pretty", &[INT8], SqlType::TEXT, |values, _, _| match values {
        [Value::Int8(bytes)] => Ok(pretty_size(*bytes).into()),
        _ => Ok(NULL),
    }),
    entry("pg_relation_is_publishable", &[OID], SqlType::BOOL, publications::may_be_published),
    entry("pg_get_replica_identity_index", &[OID], SqlType::OID, publications::identity_of),
    entry("pg_get_publication_tables.relid", &[TEXT], SqlType::OID.array(), publications::tables_of),
    entry("pg_current_wal_lsn", &[], SqlType::TEXT, publications::log_end),
    entry("pg_current_wal_flush_lsn", &[], SqlType::TEXT, publications::log_end),
    entry("pg_current_wal_insert_lsn", &[], SqlType::TEXT, publications::log_end),
    entry("pg_last_wal_receive_lsn", &[], SqlType::TEXT, publications::replayed),
    entry("pg_last_wal_replay_lsn", &[], SqlType::TEXT, publications::replayed),
    // Commits have no times.
    entry("pg_last_xact_replay_timestamp", &[], SqlType::TIMESTAMPTZ, NOTHING),
    entry("pg_wal_lsn_diff", &[TEXT, TEXT], SqlType::NUMERIC, publications::difference),
    entry("pg_drop_replication_slot", &[of(Scalar::Name)], SqlType::TEXT, publications::drop_slot),
    entry("pg_is_in_recovery", &[], SqlType::BOOL, |_, catalog, _| Ok(Value::Bool(catalog.is_standby()))),
    entry("pg_is_other_temp_schema", &[OID], SqlType::BOOL, NO),
    entry("pg_my_temp_schema", &[], SqlType::OID, |_, catalog, _| {
        let schema = catalog.temporary_schema().and_then(|name| catalog.schema(name));
        Ok(Value::Oid(schema.unwrap_or(0)))
    }),
    entry("pg_collation_is_visible", &[OID], SqlType::BOOL, YES),
    entry("current_setting", &[TEXT, BOOL], SqlType::TEXT, setting).optional(1),
    entry("pg_client_encoding", &[], SqlType::NAME, |_, _, _| Ok("UTF8".into())),
    entry("pg_char_to_encoding", &[TEXT], SqlType::INT4, |values, _, _| match values {
        [Value::Text(name)] if matches!(&*name.to_lowercase(), "utf8" | "utf-8" | "unicode") => Ok(Value::Int4(UTF8)),
        _ => Ok(Value::Int4(-1)),
    }),
    entry("getdatabaseencoding", &[], SqlType::NAME, |_, _, _| Ok("UTF8".into())),
    entry("pg_postmaster_start_time", &[], SqlType::TIMESTAMPTZ, |_, catalog, _| {
        Ok(catalog.sessions.opened.get().map_or(NULL, |opened| Value::TimestampTz(*opened)))
    }),
    entry("pg_notification_queue_usage", &[], SqlType::FLOAT8, |_, catalog, _| {
        Ok(Value::Float8(catalog.sessions.notifications.usage()))
    }),
    entry("pg_backend_pid", &[], SqlType::INT4, |_, _, environment| Ok(Value::Int4(environment.process))),
    entry("pg_cancel_backend", &[INT4], SqlType::BOOL, |values, catalog, environment| {
        let session = session_of(values, catalog);
        check_signal(session.as_deref(), catalog, environment, "cancel query")?;
        session.iter().for_each(|session| session.cancel());
        Ok(Value::Bool(session.is_some()))
    }),
    entry("pg_terminate_backend", &[INT4, INT8], SqlType::BOOL, |values, catalog, environment| {
        let session = session_of(values, catalog);
        check_signal(session.as_deref(), catalog, environment, "terminate process")?;
        Ok(Value::Bool(session.is_some_and(|session| session.end())))
    })
    .optional(1),
    entry("pg_reload_conf", &[], SqlType::BOOL, |_, catalog, environment| {
        if !catalog.is_superuser(environment.role) {
            let message = "permission denied for function pg_reload_conf";
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        Ok(Value::Bool(catalog.sessions.configuration.control.get().is_some_and(|control| control.reload())))
    }),
    entry("pg_blocking_pids", &[INT4], SqlType::INT4.array(), |values, catalog, _| match values {
        [Value::Int4(process)] => Ok(blocking(catalog, *process)),
        _ => Ok(NULL),
    }),
    entry("ermine_stat_conflicts_reset", &[], SqlType::TEXT, |_, catalog, environment| {
        check_reset(catalog, environment, "ermine_stat_conflicts_reset")?;
        catalog.sessions.conflicts.reset();
        catalog.sessions.hot_conflicts.reset();
        Ok("".into())
    }),
    entry("pg_stat_statements_reset", &[OID, OID, INT8], SqlType::TEXT, |_, catalog, environment| {
        check_reset(catalog, environment, "pg_stat_statements_reset")?;
        catalog.sessions.statements.reset();
        Ok("".into())
    })
    .optional(3),
    entry("current_schemas", &[BOOL], SqlType::NAME.array(), current_schemas),
    entry("to_regclass", &[TEXT], SqlType::OID, |values, catalog, environment| {
        found(Reg::Class, values, catalog, environment)
    })
    .reg(Reg::Class.modifier()),
    entry("to_regtype", &[TEXT], SqlType::OID, |values, catalog, environment| {
        found(Reg::Type, values, catalog, environment)
    })
    .reg(Reg::Type.modifier()),
    entry("to_regnamespace", &[TEXT], SqlType::OID, |values, catalog, environment| {
        found(Reg::Namespace, values, catalog, environment)
    })
    .reg(Reg::Namespace.modifier()),
    privilege(0),
    privilege(1),
    privilege(2),
    privilege(3),
    privilege(4),
    privilege(5),
    privilege(6),
    privilege(7),
    privilege(8),
    privilege(9),
    privilege(10),
    entry("aclexplode.grantor", &[TEXTS], SqlType::OID.array(), |values, catalog, environment| {
        privileges::exploded(values, catalog, environment, 0)
    }),
    entry("aclexplode.grantee", &[TEXTS], SqlType::OID.array(), |values, catalog, environment| {
        privileges::exploded(values, catalog, environment, 1)
    }),
    entry("aclexplode.privilege_type", &[TEXTS], SqlType::TEXT.array(), |values, catalog, environment| {
        privileges::exploded(values, catalog, environment, 2)
    }),
    entry("aclexplode.is_grantable", &[TEXTS], SqlType::BOOL.array(), |values, catalog, environment| {
        privileges::exploded(values, catalog, environment, 3)
    }),
];

/// Returns the names of the functions.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().map(|entry| entry.name)
}

/// Returns the function that a call means; `None`: no function here has that name.
pub(crate) fn resolve(name: &str, arguments: &[Option<SqlType>]) -> Result<Option<Resolved>> {
    let mut named = FUNCTIONS.iter().filter(|entry| entry.name == name).peekable();
    if named.peek().is_none() {
        return Ok(None);
    }
    let resolved = resolution::resolve(named, arguments)
        .map_err(|reason| unresolved(reason, &format!("{name}({})", resolution::describe(arguments))))?;
    let Entry { result, modifier, is_strict, function, .. } = *resolved.candidate;
    Ok(Some(Resolved { arguments: resolved.types, result, modifier, is_strict, function }))
}

/// Returns the number of a name, or NULL.
fn found(reg: Reg, values: &[Value], catalog: &Catalog, environment: &Environment) -> Result<Value> {
    let [Value::Text(name)] = values else { return Ok(NULL) };
    // A number is not a name here.
    if name.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(NULL);
    }
    Ok(reg.find(Known::new(catalog, environment), name)?.map_or(NULL, Value::Oid))
}

fn table_is_visible(values: &[Value], catalog: &Catalog, environment: &Environment) -> Result<Value> {
    let [Value::Oid(oid)] = values else { return Ok(NULL) };
    let known = Known::new(catalog, environment);
    let visible = |schema: &str, name: &str| Ok(Value::Bool(definitions::is_visible(known, schema, name)));
    if let Some(table) = catalog.table(*oid) {
        return visible(&table.def.schema, &table.def.name);
    }
    if let Some(view) = catalog.view(*oid) {
        return visible(&view.def.schema, &view.def.name);
    }
    if let Some(sequence) = catalog.sequence(*oid) {
        return visible(&sequence.def.schema, &sequence.def.name);
    }
    match indexes(catalog).find(|index| index.oid == *oid) {
        Some(index) => visible(&index.table.def.schema, index.name),
        None => Ok(NULL),
    }
}

fn view_definition(values: &[Value], catalog: &Catalog, environment: &Environment) -> Result<Value> {
    let Some(Value::Oid(oid)) = values.first() else { return Ok(NULL) };
    let definition = |view| views::definition(Known::new(catalog, environment), view).into();
    Ok(catalog.view(*oid).map_or(NULL, |view| definition(view)))
}

/// Whether a relation takes INSERT, UPDATE and DELETE.
fn takes_writes(oid: u32, catalog: &Catalog) -> bool {
    match catalog.view(oid) {
        Some(view) => is_updatable(catalog, view),
        None => catalog.table(oid).is_some(),
    }
}

/// The value of the last argument, if it is given.
fn is_pretty(values: &[Value]) -> bool {
    values.last() == Some(&Value::Bool(true))
}

/// Returns the whole definition, or one of its columns.
fn index_definition(values: &[Value], catalog: &Catalog, _: &Environment) -> Result<Value> {
    let Some(Value::Oid(oid)) = values.first() else { return Ok(NULL) };
    let Some(index) = indexes(catalog).find(|index| index.oid == *oid) else { return Ok(NULL) };
    Ok(match values.get(1) {
        None | Some(Value::Int4(0)) => definitions::index(&index, is_pretty(values)).into(),
        Some(Value::Int4(number)) => {
            let column = number.checked_sub(1).and_then(|at| index.all_columns().nth(usize::try_from(at).ok()?));
            let part = |at: usize| definitions::index_part(&index.table.def, at, is_pretty(values));
            column.map_or("".into(), |column| part(column).into())
        }
        Some(_) => NULL,
    })
}

fn serial_sequence(values: &[Value], catalog: &Catalog, environment: &Environment) -> Result<Value> {
    let [name, Value::Text(column)] = values else { return Ok(NULL) };
    let Value::Oid(oid) = (Reg::Class.numbers().function)(std::slice::from_ref(name), catalog, environment)? else {
        return Ok(NULL);
    };
    let table = catalog.table(oid);
    let column = table.and_then(|table| table.def.columns.get(table.def.column(column)?));
    let sequence = match column.and_then(|column| column.default.as_ref()) {
        Some(DefaultDef::NextOf(sequence)) => catalog.sequence(*sequence),
        _ => None,
    };
    let name = |def: &crate::catalog::definition::SequenceDef| {
        format!("{}.{}", quote_ident(&def.schema), quote_ident(&def.name))
    };
    Ok(sequence.map_or(NULL, |sequence| name(&sequence.def).into()))
}

/// Whether a role may see the last number of a sequence.
pub(super) fn reads_sequence(catalog: &Catalog, role: u32, id: u32) -> bool {
    catalog.has_any(role, Object::new(Kind::Sequence, id), Rights::USAGE | Rights::SELECT)
}

/// Returns the state of a sequence.
fn state_of(values: &[Value], catalog: &Catalog) -> Result<Option<(i64, bool)>> {
    match values {
        [Value::Oid(oid)] => catalog.sequence(*oid).map(|sequence| sequence.state()).transpose(),
        _ => Ok(None),
    }
}

/// The function of a sequence's number that returns its last number; NULL follows if that has not been returned yet.
pub(crate) fn sequence_state() -> Resolved {
    let function: Lookup = |values, catalog, _| {
        let (last, is_called) = state_of(values, catalog)?.unwrap_or_default();
        let mark = if is_called { Value::Int8(1) } else { NULL };
        Ok(Value::array(Array::new(Scalar::Int8, vec![Value::Int8(last), mark])))
    };
    let result = SqlType::INT8.array();
    Resolved { arguments: vec![SqlType::OID], result, modifier: -1, is_strict: true, function }
}

/// Returns a setting; an unknown one is an error, or NULL if that is wanted.
fn setting(values: &[Value], catalog: &Catalog, environment: &Environment) -> Result<Value> {
    let Some(Value::Text(name)) = values.first() else { return Ok(NULL) };
    if let Some(option) = catalog.sessions.configuration.current().options.get(&name.to_lowercase()) {
        return match option.is_private && !catalog.is_superuser(environment.role) {
            false => Ok(option.shown().as_str().into()),
            true => {
                let message = format!("must be superuser to examine \"{name}\"");
                Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
            }
        };
    }
    let known = environment.settings.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    match known {
        Some((_, value)) => Ok(value.as_str().into()),
        None if values.get(1) == Some(&Value::Bool(true)) => Ok(NULL),
        None => {
            let message = format!("unrecognized configuration parameter \"{name}\"");
            Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
        }
    }
}

/// Returns the session of a connection.
fn session_of(values: &[Value], catalog: &Catalog) -> Option<Arc<Presence>> {
    match values.first() {
        Some(Value::Int4(process)) => catalog.sessions.of_process(*process),
        _ => None,
    }
}

/// Fails if the role may not end a session's statement, or the session.
/// Fails where a role may not set counters to zero.
fn check_reset(catalog: &Catalog, environment: &Environment, name: &str) -> Result<()> {
    if catalog.is_superuser(environment.role) { Ok(()) } else { Err(no_right_to("function", name)) }
}

fn check_signal(session: Option<&Presence>, catalog: &Catalog, environment: &Environment, what: &str) -> Result<()> {
    let Some(session) = session else { return Ok(()) };
    let (role, other) = (environment.role, session.role);
    let hint = match () {
        () if catalog.is_superuser(role) => return Ok(()),
        () if catalog.is_superuser(other) => format!("must be a superuser to {what} of superuser"),
        () if catalog.has_role(role, other) || catalog.has_role(role, SIGNAL_BACKEND.1) => return Ok(()),
        () => format!(
            "must be a member of the role whose {} or member of pg_signal_backend",
            if what == "cancel query" { "query is being canceled" } else { "process is being terminated" }
        ),
    };
    Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, hint))
}

fn current_schemas(values: &[Value], catalog: &Catalog, environment: &Environment) -> Result<Value> {
    let path = environment.search_path.iter().map(|schema| &**schema);
    let all: Vec<_> = match values {
        [Value::Bool(true)] => {
            let temporary = catalog
                .temporary_schema()
                .filter(|own| catalog.schemas_of(&environment.search_path).next() == Some(own));
            temporary.into_iter().chain([super::PG_CATALOG]).chain(path).map(Value::from).collect()
        }
        _ => path.map(Value::from).collect(),
    };
    Ok(Value::array(Array::new(Scalar::Name, all)))
}

/// Shows a size in the largest unit that leaves more than ten, as PostgreSQL rounds.
fn pretty_size(bytes: i64) -> String {
    let (mut size, mut units) = (bytes, ["bytes", "kB", "MB", "GB", "TB", "PB"].into_iter());
    let mut unit = units.next().unwrap_or_default();
    if size.unsigned_abs() < 10 * 1024 {
        return format!("{size} {unit}");
    }
    // Half units of the next size, so that the number is rounded once.
    size /= 512;
    for next in units {
        unit = next;
        if size.unsigned_abs() < 20 * 1024 - 1 {
            break;
        }
        size /= 1024;
    }
    format!("{} {unit}", (size + size.signum()) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_as_postgresql_does() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (10239, "10239 bytes"),
            (10240, "10 kB"),
            (-10240, "-10 kB"),
            (10 << 20, "10 MB"),
            ((10 << 20) - 1, "10 MB"),
            ((10 << 20) - 1024, "10239 kB"),
            (12_345_678_901, "11 GB"),
        ] {
            assert_eq!(pretty_size(bytes), text, "{bytes}");
        }
    }

    #[test]
    fn calls_are_resolved_with_or_without_what_may_be_left_out() {
        let oid = Some(SqlType::OID);
        assert_eq!(resolve("pg_get_indexdef", &[oid]).unwrap().unwrap().arguments.len(), 1);
        assert_eq!(resolve("pg_get_indexdef", &[oid, None, None]).unwrap().unwrap().arguments[1], SqlType::INT4);
        assert!(resolve("lower", &[None]).unwrap().is_none());
        assert_eq!(resolve("pg_get_expr", &[oid]).err().unwrap().state().0, "42883");
    }
}

//! The functions that tell whether a role has a right: `has_table_privilege` and its like, and `pg_has_role`. Each takes
//! the role by its name or number, or leaves it out, and the object by its name or number.

use super::{Known, NULL, PG_CATALOG_OID, SystemTable, functions::Lookup, reg::Reg, tables};
use crate::{
    catalog::{
        Catalog,
        databases::no_database,
        definition::ObjectId,
        rights::{EVERYONE, Kind, Object, Rights},
    },
    error::{Result, SqlError, SqlState},
    types::{Environment, Value},
};

/// The question that a function answers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Table,
    AnyColumn,
    Column,
    Sequence,
    Database,
    Schema,
    Type,
    /// Of objects that are there for all roles.
    BuiltIn(&'static str),
}

/// The functions, by their names; the number of arguments without the role, and the implementation.
pub(super) const FUNCTIONS: [(&str, usize, Lookup); 11] = [
    ("has_table_privilege", 2, |values, catalog, environment| answer(Asked::Table, values, catalog, environment)),
    ("has_any_column_privilege", 2, |values, catalog, environment| {
        answer(Asked::AnyColumn, values, catalog, environment)
    }),
    ("has_column_privilege", 3, |values, catalog, environment| answer(Asked::Column, values, catalog, environment)),
    ("has_sequence_privilege", 2, |values, catalog, environment| answer(Asked::Sequence, values, catalog, environment)),
    ("has_database_privilege", 2, |values, catalog, environment| answer(Asked::Database, values, catalog, environment)),
    ("has_schema_privilege", 2, |values, catalog, environment| answer(Asked::Schema, values, catalog, environment)),
    ("has_type_privilege", 2, |values, catalog, environment| answer(Asked::Type, values, catalog, environment)),
    ("has_function_privilege", 2, |values, catalog, environment| {
        answer(Asked::BuiltIn("EXECUTE"), values, catalog, environment)
    }),
    ("has_language_privilege", 2, |values, catalog, environment| {
        answer(Asked::BuiltIn("USAGE"), values, catalog, environment)
    }),
    ("has_tablespace_privilege", 2, |values, catalog, environment| {
        answer(Asked::BuiltIn("CREATE"), values, catalog, environment)
    }),
    ("pg_has_role", 2, has_role),
];

/// The object that a question is about.
enum Found {
    Object(Object),
    Column(ObjectId, usize),
    /// A table of the system, which all roles may read.
    System(SystemTable),
    /// A schema, a type or the like of the system.
    BuiltIn,
    /// There is none with the number.
    Nothing,
}

fn answer(asked: Asked, values: &[Value], catalog: &Catalog, environment: &Environment) -> Result<Value> {
    let known = Known::new(catalog, environment);
    let wanted_count = if asked == Asked::Column { 3 } else { 2 };
    let (role, values) = match values.split_first() {
        Some((role, rest)) if rest.len() == wanted_count => (role_of(role, known)?, rest),
        _ => (environment.role, values),
    };
    let [object, column @ .., Value::Text(words)] = values else { return Ok(NULL) };
    let found = find(asked, object, column.first(), known)?;
    let wanted = wanted(asked, words)?;
    if matches!(found, Found::Nothing) {
        return Ok(NULL);
    }
    let is_held = |(right, option): &(Rights, bool)| holds(known, role, asked, &found, *right, *option);
    Ok(Value::Bool(wanted.iter().any(is_held)))
}

/// Returns the number of a role that an argument means; an unknown number has no rights.
fn role_of(value: &Value, known: Known<'_>) -> Result<ObjectId> {
    match value {
        Value::Text(name) if &**name == "public" => Ok(EVERYONE),
        Value::Text(name) => known
            .catalog
            .role_number(name, known.environment)
            .ok_or_else(|| SqlError::new(SqlState::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"))),
        number => Ok(number_of(number).unwrap_or(u32::MAX)),
    }
}

fn number_of(value: &Value) -> Option<u32> {
    match value {
        Value::Oid(number) => Some(*number),
        Value::Int2(number) => u32::try_from(*number).ok(),
        Value::Int4(number) => u32::try_from(*number).ok(),
        Value::Int8(number) => u32::try_from(*number).ok(),
        _ => None,
    }
}

/// Reads the names of rights, each with the option to grant it or without.
fn wanted(asked: Asked, words: &str) -> Result<Vec<(Rights, bool)>> {
    let unknown = |word: &str| {
        let message = format!("unrecognized privilege type: \"{word}\"");
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
    };
    let all = match asked {
        Asked::Table => Kind::Table.all(),
        Asked::AnyColumn | Asked::Column => Kind::Column.all(),
        Asked::Sequence => Kind::Sequence.all(),
        Asked::Database => Kind::Database.all(),
        Asked::Schema => Kind::Schema.all(),
        Asked::Type | Asked::BuiltIn(_) => Kind::Type.all(),
    };
    let one = |word: &str| {
        let word = word.trim();
        let upper = word.to_uppercase();
        let (name, option) = match upper.strip_suffix("WITH GRANT OPTION") {
            Some(name) => (name.trim_end(), true),
            None => (&*upper, false),
        };
        if let Asked::BuiltIn(right) = asked {
            return if name == right { Ok((Rights::USAGE, option)) } else { Err(unknown(word)) };
        }
        match Rights::named(name) {
            Some(right) if all.has(right) => Ok((right, option)),
            // A right that PostgreSQL has no use for any more.
            None if name == "RULE" && asked == Asked::Table => Ok((Rights::NONE, option)),
            _ => Err(unknown(word)),
        }
    };
    words.split(',').map(one).collect()
}

fn find(asked: Asked, object: &Value, column: Option<&Value>, known: Known<'_>) -> Result<Found> {
    let catalog = known.catalog;
    let by_reg = |reg: Reg| match object {
        Value::Text(_) => {
            let found = (reg.numbers().function)(std::slice::from_ref(object), catalog, known.environment)?;
            Ok::<_, SqlError>(number_of(&found))
        }
        number => Ok(number_of(number)),
    };
    let built_in = |number: Option<u32>| match number {
        Some(number) if number < crate::catalog::definition::FIRST_OBJECT => Found::BuiltIn,
        _ => Found::Nothing,
    };
    Ok(match asked {
        Asked::Table | Asked::AnyColumn | Asked::Column | Asked::Sequence => {
            let Some(number) = by_reg(Reg::Class)? else { return Ok(Found::Nothing) };
            if let Some(table) = tables().find(|table| table.oid == number && number != 0) {
                return Ok(Found::System(SystemTable(table)));
            }
            let Some(relation) = catalog.relation(number) else { return Ok(Found::Nothing) };
            let object = Object::of(&relation);
            if asked == Asked::Sequence && object.kind != Kind::Sequence {
                let message = format!("\"{}\" is not a sequence", catalog.described(object).1);
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            match column {
                Some(column) => find_column(object, column, known)?,
                None => Found::Object(object),
            }
        }
        Asked::Database => match object {
            Value::Text(name) => {
                let number = known.catalog.database_number(name, &known.environment.database);
                Found::Object(Object::new(Kind::Database, number.ok_or_else(|| no_database(name))?))
            }
            number => {
                let is_known = |number: &ObjectId| {
                    let mut all = known.catalog.database_names(&known.environment.database);
                    all.any(|(known, _)| known == *number)
                };
                let number = number_of(number).filter(is_known);
                number.map_or(Found::Nothing, |number| Found::Object(Object::new(Kind::Database, number)))
            }
        },
        Asked::Schema => {
            let number = match object {
                Value::Text(name) if matches!(&**name, "pg_catalog" | "information_schema") => Some(PG_CATALOG_OID),
                Value::Text(name) => Some(catalog.schema(name).ok_or_else(|| {
                    let message = format!("schema \"{name}\" does not exist");
                    SqlError::new(SqlState::INVALID_SCHEMA_NAME, message)
                })?),
                number => number_of(number),
            };
            let is_known = number.filter(|number| catalog.schemas().any(|(_, known)| known == *number));
            is_known.map_or_else(|| built_in(number), |id| Found::Object(Object::new(Kind::Schema, id)))
        }
        Asked::Type => {
            let number = by_reg(Reg::Type)?;
            let is_known = number.filter(|number| catalog.types.get(*number).is_some());
            is_known.map_or_else(|| built_in(number), |id| Found::Object(Object::new(Kind::Type, id)))
        }
        Asked::BuiltIn(_) => Found::BuiltIn,
    })
}

fn find_column(object: Object, column: &Value, known: Known<'_>) -> Result<Found> {
    let names: Vec<Option<&str>> = match (known.catalog.table(object.id), known.catalog.view(object.id)) {
        (Some(table), _) => {
            let columns = table.def.columns.iter();
            columns.map(|column| (!column.is_dropped).then_some(&*column.name)).collect()
        }
        (None, Some(view)) => view.def.columns.iter().map(|column| Some(&*column.name)).collect(),
        (None, None) => Vec::new(),
    };
    let at = match column {
        Value::Text(name) => Some(names.iter().position(|own| *own == Some(&**name)).ok_or_else(|| {
            let table = known.catalog.described(object).1;
            let message = format!("column \"{name}\" of relation \"{table}\" does not exist");
            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
        })?),
        number => number_of(number).and_then(|number| usize::try_from(number).ok()?.checked_sub(1)),
    };
    let is_there = at.filter(|at| names.get(*at).is_some_and(Option::is_some));
    Ok(is_there.map_or(Found::Nothing, |at| Found::Column(object.id, at)))
}

fn holds(known: Known<'_>, role: ObjectId, asked: Asked, found: &Found, right: Rights, option: bool) -> bool {
    let catalog = known.catalog;
    if right.is_empty() {
        return false;
    }
    match found {
        Found::Nothing => false,
        Found::System(table) => {
            catalog.is_superuser(role) || right == Rights::SELECT && !option && table.is_shown_to(catalog, role)
        }
        Found::BuiltIn => {
            catalog.is_superuser(role) || right == Rights::USAGE && !option && asked != Asked::BuiltIn("CREATE")
        }
        Found::Object(object) => {
            let by_object = has(catalog, role, *object, right, option);
            by_object
                || asked == Asked::AnyColumn
                    && columns(catalog, object.id).any(|at| has_column(catalog, role, object.id, at, right, option))
        }
        Found::Column(relation, at) => has_column(catalog, role, *relation, *at, right, option),
    }
}

/// Returns the numbers of a relation's columns.
fn columns(catalog: &Catalog, relation: ObjectId) -> impl Iterator<Item = usize> {
    let count = match (catalog.table(relation), catalog.view(relation)) {
        (Some(table), _) => table.def.columns.len(),
        (None, view) => view.map_or(0, |view| view.def.columns.len()),
    };
    0..count
}

fn has(catalog: &Catalog, role: ObjectId, object: Object, right: Rights, option: bool) -> bool {
    match option {
        false => catalog.has_any(role, object, right),
        true => {
            let options = catalog.held_of(role, &catalog.granted(object), catalog.owner(object)).1;
            catalog.is_superuser(role) || options.has(right)
        }
    }
}

fn has_column(
    catalog: &Catalog,
    role: ObjectId,
    relation: ObjectId,
    column: usize,
    right: Rights,
    option: bool,
) -> bool {
    let table = Object::new(Kind::Table, relation);
    match option {
        false => !catalog.held_of_column(role, relation, column, right).is_empty(),
        true => {
            let own = catalog.held_of(role, catalog.granted_of_column(relation, column), catalog.owner(table)).1;
            own.has(right) || has(catalog, role, table, right, true)
        }
    }
}

/// `pg_has_role`: MEMBER, that it may become the role; USAGE, that it has its rights.
fn has_role(values: &[Value], catalog: &Catalog, environment: &Environment) -> Result<Value> {
    let known = Known::new(catalog, environment);
    let (member, role, words) = match values {
        [role, Value::Text(words)] => (environment.role, role_of(role, known)?, words),
        [member, role, Value::Text(words)] => (role_of(member, known)?, role_of(role, known)?, words),
        _ => return Ok(NULL),
    };
    let one = |word: &str| {
        let word = word.trim();
        match &*word.to_uppercase() {
            "USAGE" => Ok(catalog.has_role(member, role)),
            "MEMBER" => Ok(catalog.is_member(member, role)),
            "USAGE WITH GRANT OPTION"
            | "USAGE WITH ADMIN OPTION"
            | "MEMBER WITH GRANT OPTION"
            | "MEMBER WITH ADMIN OPTION" => Ok(catalog.is_admin(member, role)),
            _ => {
                let message = format!("unrecognized privilege type: \"{word}\"");
                Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
            }
        }
    };
    let all = words.split(',').map(one).collect::<Result<Vec<_>>>()?;
    Ok(Value::Bool(all.contains(&true)))
}

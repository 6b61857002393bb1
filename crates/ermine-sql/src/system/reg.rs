//! `regclass` and its like: numbers that are written and shown as names; and vectors, arrays that are shown in a
//! different form.
//!
//! They are of type `oid`, which has no modifier in PostgreSQL; here the modifier is the kind of the numbered object.
//! So everything that accepts a number accepts them, and only casts and the results of statements check the modifier.

use std::sync::Arc;

use super::{
    INFORMATION, INFORMATION_OID, Known, PG_CATALOG, PG_CATALOG_OID, SystemTable,
    definitions::{indexes, relation_name},
    functions::{Lookup, Resolved},
    oid_of, procedures, tables,
    types::{relation_of_rows, row_type},
};
use crate::{
    catalog::{Catalog, Relation},
    error::{Result, SqlError, SqlState},
    expr::{Expr, Function},
    functions::quote_ident,
    query::{Body, Join, Query, Select, Source, SourceKind},
    result::Column,
    types::{self, Environment, SqlType, Value},
};

/// The kind of object that a number identifies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reg {
    Class,
    Type,
    Namespace,
    Role,
    /// Functions; most have no numbers.
    Function,
}

impl Reg {
    const ALL: [Self; 5] = [Self::Class, Self::Type, Self::Namespace, Self::Role, Self::Function];

    /// Returns the kind for the modifier of an `oid`.
    pub(crate) fn of(ty: SqlType, modifier: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|reg| ty == SqlType::OID && reg.modifier() == modifier)
    }

    /// Below the modifiers of other types.
    pub(crate) const fn modifier(self) -> i32 {
        -2 - self as i32
    }

    /// Returns the kind for the name of a type.
    pub(crate) fn named(type_name: &str) -> Option<Self> {
        Some(match type_name {
            "regclass" => Self::Class,
            "regtype" => Self::Type,
            "regnamespace" => Self::Namespace,
            "regrole" => Self::Role,
            "regproc" | "regprocedure" | "regoper" | "regoperator" => Self::Function,
            _ => return None,
        })
    }

    /// Returns the name of the type.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Class => "regclass",
            Self::Type => "regtype",
            Self::Namespace => "regnamespace",
            Self::Role => "regrole",
            Self::Function => "regproc",
        }
    }

    /// Returns the function that maps numbers to names.
    fn names(self) -> Resolved {
        let function: Lookup = match self {
            Self::Class => |values, catalog, environment| by_oid(values, catalog, environment, class_name),
            Self::Type => |values, catalog, environment| by_oid(values, catalog, environment, type_name),
            Self::Namespace => |values, catalog, environment| by_oid(values, catalog, environment, namespace_name),
            Self::Role => |values, catalog, environment| by_oid(values, catalog, environment, role_name),
            Self::Function => {
                |values, catalog, environment| by_oid(values, catalog, environment, procedures::function_name)
            }
        };
        Resolved { arguments: vec![SqlType::OID], result: SqlType::TEXT, modifier: -1, is_strict: true, function }
    }

    /// Returns the function that maps names to numbers; it fails for unknown names.
    pub(crate) fn numbers(self) -> Resolved {
        let function: Lookup = match self {
            Self::Class => |values, catalog, environment| by_name(Self::Class, values, catalog, environment),
            Self::Type => |values, catalog, environment| by_name(Self::Type, values, catalog, environment),
            Self::Namespace => |values, catalog, environment| by_name(Self::Namespace, values, catalog, environment),
            Self::Role => |values, catalog, environment| by_name(Self::Role, values, catalog, environment),
            Self::Function => |values, catalog, environment| by_name(Self::Function, values, catalog, environment),
        };
        Resolved {
            arguments: vec![SqlType::TEXT],
            result: SqlType::OID,
            modifier: self.modifier(),
            is_strict: true,
            function,
        }
    }

    /// Returns the number of a name, if it exists.
    pub(super) fn find(self, known: Known<'_>, name: &str) -> Result<Option<u32>> {
        if name == "-" {
            return Ok(Some(0));
        }
        if let Ok(number) = name.parse() {
            return Ok(Some(number));
        }
        Ok(match self {
            Self::Class => class_oid(known, name)?,
            Self::Type => match type_oid(name) {
                Some(oid) => Some(oid),
                None => match user_type_oid(known, name)? {
                    Some(oid) => Some(oid),
                    None => row_type_oid(known, name)?,
                },
            },
            Self::Namespace => namespace_oid(known, &parts(name)?.1),
            Self::Role => known.catalog.role_number(&parts(name)?.1, known.environment),
            Self::Function => procedures::function_oid(&parts(name)?.1),
        })
    }
}

/// The modifier of an array that is a vector: its text has no braces.
pub(super) const VECTOR: i32 = -8;

/// Returns the function that shows a value in the form that its modifier requires.
pub(crate) fn shown(ty: SqlType, modifier: i32) -> Option<Resolved> {
    if ty.is_array && modifier == VECTOR {
        let function: Lookup = |values, _, environment| {
            let [Value::Array(array)] = values else { return Ok(Value::Null) };
            let element = SqlType::scalar(array.element);
            let texts = array.elements().iter().map(|value| types::text::to_string(value, element, environment));
            Ok(texts.collect::<Vec<_>>().join(" ").into())
        };
        return Some(Resolved { arguments: vec![ty], result: SqlType::TEXT, modifier: -1, is_strict: true, function });
    }
    Reg::of(ty, modifier).map(Reg::names)
}

/// Returns the query with object numbers shown as names.
pub(crate) fn named(query: Query, columns: &mut [Column]) -> Query {
    if columns.iter().all(|column| shown(column.ty, column.modifier).is_none()) {
        return query;
    }
    let width = columns.len();
    let mut output: Vec<_> = (0..width).map(Expr::Column).collect();
    named_values(&mut output, columns);
    let kind = SourceKind::Derived(Arc::new(query));
    let source = Source::new(0, width, kind, Join::Inner, String::new());
    let select = Select { sources: vec![source], output, ..Select::default() };
    Query {
        body: Body::Select(Box::new(select)),
        order: Vec::new(),
        width,
        limit: None,
        offset: None,
        locks: Vec::new(),
    }
}

/// Makes values that are numbers of objects their names.
pub(crate) fn named_values(values: &mut [Expr], columns: &mut [Column]) {
    for (value, column) in values.iter_mut().zip(columns) {
        let Some(Resolved { result, is_strict, function: eval, .. }) = shown(column.ty, column.modifier) else {
            continue;
        };
        (column.ty, column.modifier) = (result, -1);
        let (is_immutable, is_volatile, grows) = (false, false, false);
        let function = Function { name: "text".into(), is_strict, is_immutable, is_volatile, grows, eval, result };
        *value = Expr::Lookup(function, vec![std::mem::replace(value, Expr::TRUE)]);
    }
}

fn by_oid(
    values: &[Value],
    catalog: &Catalog,
    environment: &Environment,
    name: impl FnOnce(Known<'_>, u32) -> Option<String>,
) -> Result<Value> {
    let [Value::Oid(oid)] = values else { return Ok(Value::Null) };
    // An object without a name is shown by its number.
    Ok(match oid {
        0 => "-".into(),
        oid => name(Known::new(catalog, environment), *oid).unwrap_or_else(|| oid.to_string()).into(),
    })
}

fn by_name(reg: Reg, values: &[Value], catalog: &Catalog, environment: &Environment) -> Result<Value> {
    let [Value::Text(name)] = values else { return Ok(Value::Null) };
    let found = reg.find(Known::new(catalog, environment), name)?;
    let (what, state) = match reg {
        Reg::Class => ("relation", SqlState::UNDEFINED_TABLE),
        Reg::Type => ("type", SqlState::UNDEFINED_OBJECT),
        Reg::Namespace => ("schema", SqlState::INVALID_SCHEMA_NAME),
        Reg::Role => ("role", SqlState::UNDEFINED_OBJECT),
        Reg::Function => ("function", SqlState::UNDEFINED_FUNCTION),
    };
    found.map(Value::Oid).ok_or_else(|| SqlError::new(state, format!("{what} \"{name}\" does not exist")))
}

/// Returns the schema and the name in a text, with quotes or without.
pub(super) fn parts(text: &str) -> Result<(Option<String>, String)> {
    let invalid = || SqlError::new(SqlState::SYNTAX_ERROR, format!("invalid name syntax: \"{text}\""));
    let (mut parts, mut rest) = (Vec::new(), text.trim());
    loop {
        let mut part = String::new();
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut pieces = quoted;
            loop {
                let (piece, behind) = pieces.split_once('"').ok_or_else(invalid)?;
                part += piece;
                match behind.strip_prefix('"') {
                    Some(more) => (part, pieces) = (part + "\"", more),
                    None => {
                        rest = behind;
                        break;
                    }
                }
            }
        } else {
            let end = rest.find('.').unwrap_or(rest.len());
            part += &rest[..end].trim().to_lowercase();
            rest = &rest[end..];
        }
        if part.is_empty() {
            return Err(invalid());
        }
        parts.push(part);
        rest = match rest.trim_start().strip_prefix('.') {
            Some(more) => more.trim_start(),
            None if rest.trim().is_empty() => break,
            None => return Err(invalid()),
        };
    }
    let own = parts.pop().ok_or_else(invalid)?;
    Ok((parts.pop(), own))
}

fn class_name(known: Known<'_>, oid: u32) -> Option<String> {
    if let Some(system) = tables().find(|table| table.oid == oid) {
        return Some(system.name.to_owned());
    }
    let catalog = known.catalog;
    if let Some(table) = catalog.table(oid) {
        return Some(relation_name(known, &table.def.schema, &table.def.name));
    }
    if let Some(view) = catalog.view(oid) {
        return Some(relation_name(known, &view.def.schema, &view.def.name));
    }
    if let Some(sequence) = catalog.sequence(oid) {
        return Some(relation_name(known, &sequence.def.schema, &sequence.def.name));
    }
    let index = indexes(catalog).find(|index| index.oid == oid)?;
    Some(relation_name(known, &index.table.def.schema, index.name))
}

fn class_oid(known: Known<'_>, name: &str) -> Result<Option<u32>> {
    let (schema, own) = parts(name)?;
    if let Some(SystemTable(table)) = SystemTable::find(schema.as_deref(), &own) {
        return Ok(Some(table.oid));
    }
    Ok(relation(known, schema.as_deref(), &own).map(|relation| oid_of(&relation)))
}

/// Returns the relation of a name, found as in statements.
fn relation(known: Known<'_>, schema: Option<&str>, name: &str) -> Option<Relation> {
    match schema {
        Some(schema) => known.catalog.find(schema, name),
        None => known.catalog.find_in(&known.environment.search_path, known.environment.role, name),
    }
}

fn role_name(known: Known<'_>, oid: u32) -> Option<String> {
    known.catalog.role_name(oid, known.environment).map(quote_ident)
}

fn type_name(known: Known<'_>, oid: u32) -> Option<String> {
    let pseudo = PSEUDO_TYPES.iter().find(|(_, own)| *own == oid);
    let value = || known.environment.name_of_oid(oid, None);
    pseudo.map(|(name, _)| (*name).to_owned()).or_else(value).or_else(|| row_type_name(known, oid))
}

/// Returns the name of a type of rows: that of the relation.
pub(super) fn row_type_name(known: Known<'_>, oid: u32) -> Option<String> {
    class_name(known, relation_of_rows(oid)?)
}

/// Types of PostgreSQL that no value has, with their numbers: clients compare results of functions with them.
const PSEUDO_TYPES: [(&str, u32); 5] =
    [("trigger", 2279), ("event_trigger", 3838), ("void", 2278), ("internal", 2281), ("cstring", 2275)];

/// Returns the number of a type's name, with modifiers or without, as in statements.
fn type_oid(name: &str) -> Option<u32> {
    if name.contains('"') {
        // In quotes a type has one name only, and that of an array begins with an underscore.
        let (element, is_array) = name.trim().strip_suffix("[]").map_or((name, false), |element| (element, true));
        let (schema, own) = parts(element).ok()?;
        let is_system = schema.is_none_or(|schema| schema == PG_CATALOG);
        let found = SqlType::all().find(|ty| is_system && ty.typname() == Some(&own))?;
        return Some(if is_array { found.array() } else { found }.oid());
    }
    let name = name.trim().to_lowercase();
    let name = name.strip_prefix("pg_catalog.").unwrap_or(&name);
    let plain = match (name.find('('), name.rfind(')')) {
        (Some(open), Some(close)) if open < close => format!("{}{}", name[..open].trim_end(), &name[close + 1..]),
        _ => name.to_owned(),
    };
    let pseudo = PSEUDO_TYPES.iter().find(|(own, _)| *own == plain);
    pseudo.map(|(_, oid)| *oid).or_else(|| SqlType::from_name(&plain).map(SqlType::oid))
}

/// Returns the number of the type of a name, if a statement has created it.
fn user_type_oid(known: Known<'_>, name: &str) -> Result<Option<u32>> {
    let name = name.trim();
    let (name, is_array) = match name.strip_suffix("[]") {
        Some(element) => (element, true),
        None => (name, false),
    };
    let (schema, own) = parts(name)?;
    let found = known.environment.user_type(schema.as_deref(), &own);
    Ok(found.filter(|user| !is_array || user.domain().is_none()).map(|user| user.oid + u32::from(is_array)))
}

/// Returns the number of the type of the rows of a table or a view.
fn row_type_oid(known: Known<'_>, name: &str) -> Result<Option<u32>> {
    let (schema, own) = parts(name)?;
    Ok(match relation(known, schema.as_deref(), &own) {
        Some(relation @ (Relation::Table(_) | Relation::View(_))) => Some(row_type(oid_of(&relation))),
        _ => None,
    })
}

fn namespace_name(known: Known<'_>, oid: u32) -> Option<String> {
    match oid {
        PG_CATALOG_OID => Some(PG_CATALOG.to_owned()),
        INFORMATION_OID => Some(INFORMATION.to_owned()),
        oid => known.catalog.schemas().find(|(_, own)| *own == oid).map(|(name, _)| quote_ident(name)),
    }
}

fn namespace_oid(known: Known<'_>, name: &str) -> Option<u32> {
    match name {
        PG_CATALOG => Some(PG_CATALOG_OID),
        INFORMATION => Some(INFORMATION_OID),
        name => known.catalog.schema(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart() {
        let parts = |text| parts(text).ok();
        let named = |schema: Option<&str>, own: &str| Some((schema.map(str::to_owned), own.to_owned()));
        assert_eq!(parts("T"), named(None, "t"));
        assert_eq!(parts(" public.\"A.b\"\"c\" "), named(Some("public"), "A.b\"c"));
        for wrong in ["", "a.", ".a", "\"a", "\"a\"b", "\"\""] {
            assert_eq!(parts(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn types_are_found_as_statements_write_them() {
        for (name, ty) in [
            ("int4", SqlType::INT4),
            ("character varying(20)", SqlType::VARCHAR),
            ("numeric(10,2)[]", SqlType::NUMERIC.array()),
            ("pg_catalog.text", SqlType::TEXT),
            ("TIMESTAMP with time zone", SqlType::TIMESTAMPTZ),
            ("\"pg_catalog\".\"int4\"", SqlType::INT4),
            ("\"_text\"", SqlType::TEXT.array()),
            ("\"char\"[]", SqlType::INTERNAL_CHAR.array()),
        ] {
            assert_eq!(type_oid(name), Some(ty.oid()), "{name}");
        }
        for unknown in ["hstore", "\"integer\"", "\"public\".\"int4\"", "\"int4"] {
            assert_eq!(type_oid(unknown), None, "{unknown}");
        }
    }
}

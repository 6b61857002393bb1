//! Comments, and the functions that return them.

use super::{Described, Known, NULL, PG_CATALOG, definitions, table};
use crate::{
    catalog::{
        Catalog, PUBLIC,
        comments::{PG_AUTHID, PG_CLASS, PG_CONSTRAINT, PG_DATABASE, PG_NAMESPACE},
        definition::CommentDef,
    },
    error::Result,
    types::{Environment, Value},
};

/// A comment as the tables show it: the table of its object, the object's number, the number of a column or 0, the text.
type Shown<'a> = (u32, u32, i32, &'a str);

/// The comment that the schema `public` has as long as it gets no other.
const OF_PUBLIC: &str = "standard public schema";

/// Returns the comments of objects that belong to the database.
fn descriptions(known: Known<'_>) -> impl Iterator<Item = Shown<'_>> {
    let public = known.catalog.schema(PUBLIC).map(|id| (PG_NAMESPACE, id, 0, OF_PUBLIC));
    let all: Vec<_> = all(known).filter(|(class, ..)| !is_shared(*class)).collect();
    let is_replaced = public.is_some_and(|(class, id, ..)| all.iter().any(|own| (own.0, own.1) == (class, id)));
    public.filter(|_| !is_replaced).into_iter().chain(all)
}

/// Returns the comments of roles and databases.
fn shared(known: Known<'_>) -> impl Iterator<Item = Shown<'_>> {
    all(known).filter(|(class, ..)| is_shared(*class))
}

fn is_shared(class: u32) -> bool {
    matches!(class, PG_AUTHID | PG_DATABASE)
}

fn all(known: Known<'_>) -> impl Iterator<Item = Shown<'_>> {
    let comments = known.catalog.comments().filter(move |comment| known.catalog.has_object(comment));
    comments.map(move |comment| (comment.class, number(known, comment), comment.column, &*comment.text))
}

/// Returns the number of a comment's object.
fn number(known: Known<'_>, comment: &CommentDef) -> u32 {
    match comment.class {
        PG_CONSTRAINT if !comment.check.is_empty() => {
            let table = known.catalog.table(comment.object);
            let at = table.and_then(|table| table.def.checks.iter().position(|check| check.name == comment.check));
            definitions::part(comment.object, at.unwrap_or(0))
        }
        _ => comment.object,
    }
}

/// `obj_description(oid, catalog)`, `shobj_description(oid, catalog)`; without the second, of any table's object.
pub(super) fn of_object(values: &[Value], catalog: &Catalog, environment: &Environment) -> Result<Value> {
    let Some(Value::Oid(oid)) = values.first() else { return Ok(NULL) };
    let class = match values.get(1) {
        Some(Value::Text(name)) => Some(super::tables().find(|table| table.name == &**name).map(|table| table.oid)),
        _ => None,
    };
    let known = Known::new(catalog, environment);
    let is_meant = |of: &Shown<'_>| of.1 == *oid && of.2 == 0 && class.is_none_or(|class| class == Some(of.0));
    Ok(descriptions(known).chain(shared(known)).find(is_meant).map_or(NULL, |of| of.3.into()))
}

/// `col_description(table, column)`
pub(super) fn of_column(values: &[Value], catalog: &Catalog, environment: &Environment) -> Result<Value> {
    let [Value::Oid(table), Value::Int4(column)] = values else { return Ok(NULL) };
    let is_meant = |of: &Shown<'_>| (of.0, of.1, of.2) == (PG_CLASS, *table, *column);
    Ok(descriptions(Known::new(catalog, environment)).find(is_meant).map_or(NULL, |of| of.3.into()))
}

pub(super) const TABLES: &[Described] = &[
    table!(PG_CATALOG, 2609 pg_description, known => descriptions(known), |(class, object, column, text)| {
        objoid OID = object;
        classoid OID = class;
        objsubid INT4 = column;
        description TEXT = text;
    }),
    table!(PG_CATALOG, 2396 pg_shdescription, known => shared(known), |(class, object, _, text)| {
        objoid OID = object;
        classoid OID = class;
        description TEXT = text;
    }),
];

//! Types: PostgreSQL's own, and those that statements have created.

use std::sync::Arc;

use super::{
    Described, Known, NULL, PG_CATALOG, PG_CATALOG_OID, ROLE, privileges,
    procedures::function_of,
    relations::{collation, storage},
    table,
};
use crate::{
    catalog::rights::{Kind, Object},
    types::{
        Scalar, SqlType,
        user_types::{Domain, GAP, Label, UserType},
    },
};

/// The delimiter between the texts of an array's elements.
const DELIMITER: &str = ",";

/// A type, as `pg_type` shows it.
struct TypeView<'a> {
    oid: u32,
    schema: u32,
    name: String,
    /// The type of its values.
    ty: SqlType,
    domain: Option<&'a Domain>,
    /// The number of the type that a domain is over.
    base: u32,
    /// The table or the view of whose rows it is the type; 0: none.
    relation: u32,
}

/// The bit by which the number of the type of a relation's rows differs from that of the relation.
const ROW_TYPE: u32 = 1 << 31;

/// Returns the number of the type of a relation's rows. No value has it: a row is a `record`.
pub(super) fn row_type(relation: u32) -> u32 {
    relation | ROW_TYPE
}

/// Returns the relation of whose rows a type is.
pub(super) fn relation_of_rows(oid: u32) -> Option<u32> {
    (oid & ROW_TYPE != 0).then_some(oid & !ROW_TYPE)
}

/// Returns the schema and the name of a type.
pub(super) fn name(known: Known<'_>, ty: SqlType) -> (String, String) {
    let user = ty.created().and_then(|oid| known.catalog.types.get(oid));
    match (ty.typname(), user) {
        (Some(name), _) => (PG_CATALOG.to_owned(), name.to_owned()),
        (None, Some(user)) if ty.is_array => (user.schema.clone(), user.array_name()),
        (None, Some(user)) => (user.schema.clone(), user.name.clone()),
        (None, None) => (String::new(), String::new()),
    }
}

fn all<'a>(known: Known<'a>) -> impl Iterator<Item = TypeView<'a>> {
    let own = SqlType::all().map(move |ty| TypeView {
        oid: ty.oid(),
        schema: PG_CATALOG_OID,
        name: name(known, ty).1,
        ty,
        domain: None,
        base: 0,
        relation: 0,
    });
    let created = known.catalog.types.all().into_iter().flat_map(move |user| {
        let schema = known.catalog.schema(&user.schema).unwrap_or(0);
        let domain = user.domain();
        let base = domain.map_or(0, |domain| user.parent().unwrap_or(domain.base.oid()));
        let (oid, relation) = (user.oid, 0);
        let itself = TypeView { oid, schema, name: user.name.clone(), ty: user.ty(), domain, base, relation };
        let (oid, ty) = (oid + 1, user.ty().array());
        let array = TypeView { oid, schema, name: user.array_name(), ty, domain, base, relation };
        [Some(itself), Some(array).filter(|_| domain.is_none())].into_iter().flatten()
    });
    let tables = known.catalog.tables().into_iter().map(|table| (table.def.id, &table.def.schema, &table.def.name));
    let views = known.catalog.plain_views().map(|view| (view.def.id, &view.def.schema, &view.def.name));
    let of_rows = tables.chain(views).map(move |(relation, schema, name)| TypeView {
        oid: row_type(relation),
        schema: known.catalog.schema(schema).unwrap_or(0),
        name: name.clone(),
        ty: SqlType::RECORD,
        domain: None,
        base: 0,
        relation,
    });
    own.chain(created).chain(of_rows)
}

/// Returns a type that a statement has created.
fn created(known: Known<'_>, oid: u32) -> Option<Object> {
    known.catalog.types.get(oid).map(|ty| Object::new(Kind::Type, ty.oid))
}

fn labels<'a>(known: Known<'a>) -> impl Iterator<Item = (u32, &'a Label)> {
    let labels = |user: &'a Arc<UserType>| user.labels().iter().map(|label| (user.oid, label));
    known.catalog.types.all().into_iter().flat_map(labels)
}

/// Returns the domains.
pub(super) fn domains<'a>(known: Known<'a>) -> impl Iterator<Item = (&'a UserType, &'a Domain)> {
    known.catalog.types.all().into_iter().filter_map(|user| Some((&**user, user.domain()?)))
}

pub(super) const TABLES: &[Described] = &[
    table!(PG_CATALOG, 1247 pg_type, known => all(known), |view| {
        oid OID = view.oid;
        typname NAME = view.name;
        typnamespace OID = view.schema;
        typowner OID = match (view.relation, created(known, view.oid)) {
            (0, None) => ROLE,
            (0, Some(object)) => known.catalog.owner(object),
            (relation, _) => known.catalog.owner(Object::new(Kind::Table, relation)),
        };
        typlen INT2 = view.ty.typlen();
        typbyval BOOL = (1..=8).contains(&view.ty.typlen()) && view.ty.scalar != Scalar::Name;
        typtype CHAR = match view.domain {
            Some(_) => "d",
            None if view.ty.is_enum() => "e",
            None if view.relation > 0 => "c",
            None => "b",
        };
        typcategory CHAR = if view.relation > 0 { "C".into() } else { char::from(view.ty.category()).to_string() };
        typispreferred BOOL = view.domain.is_none() && view.ty.is_preferred();
        typisdefined BOOL = true;
        typdelim CHAR = DELIMITER;
        typrelid OID = view.relation;
        typsubscript REGPROC = 0u32;
        typelem OID = view.ty.element().filter(|_| view.domain.is_none()).map_or(0, SqlType::oid);
        typarray OID = if view.ty.is_array || view.domain.is_some() || view.relation > 0 { 0 } else { view.ty.array().oid() };
        typinput REGPROC = function_of(view.ty, 0);
        typoutput REGPROC = function_of(view.ty, 1);
        typreceive REGPROC = function_of(view.ty, 2);
        typsend REGPROC = function_of(view.ty, 3);
        typmodin REGPROC = 0u32;
        typmodout REGPROC = 0u32;
        typanalyze REGPROC = 0u32;
        typalign CHAR = "i";
        typstorage CHAR = storage(view.ty);
        typnotnull BOOL = view.domain.is_some_and(|domain| domain.not_null);
        typbasetype OID = view.base;
        typtypmod INT4 = view.domain.map_or(-1, |domain| domain.modifier);
        typndims INT4 = view.domain.map_or(0, |domain| i32::from(domain.base.is_array));
        typcollation OID = collation(view.ty);
        typdefaultbin TEXT = NULL;
        typdefault TEXT = view.domain.and_then(|domain| domain.default.clone());
        typacl TEXTS = created(known, view.oid).map_or(NULL, |object| privileges::of_object(known, object));
    }),
    table!(PG_CATALOG, 3501 pg_enum, known => labels(known), |(ty, label)| {
        oid OID = label.oid;
        enumtypid OID = ty;
        // As in PostgreSQL: the first labels have 1, 2, 3, and a later one between two has their mean.
        enumsortorder FLOAT4 = (label.position as f64 / GAP as f64 + 1.0) as f32;
        enumlabel NAME = &label.name;
    }),
];

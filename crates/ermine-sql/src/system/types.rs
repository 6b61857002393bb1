//! Types: PostgreSQL's own, and those that statements have created.

use super::{Described, Known, NULL, PG_CATALOG, PG_CATALOG_OID, ROLE, relations::collation, table};
use crate::types::{
    Scalar, SqlType,
    user_types::{GAP, Label, UserType},
};

/// The delimiter between the texts of an array's elements.
const DELIMITER: &str = ",";

/// Returns the description of a type that a statement has created, or of its elements.
fn user_type<'a>(known: Known<'a>, ty: SqlType) -> Option<&'a UserType> {
    known.catalog.types.get(ty.created()?).map(|ty| &**ty)
}

/// Returns the schema and the name of a type.
pub(super) fn name(known: Known<'_>, ty: SqlType) -> (String, String) {
    let (schema, name) = match (ty.typname(), user_type(known, ty)) {
        (Some(name), _) => (PG_CATALOG.to_owned(), name.to_owned()),
        (None, Some(user)) if ty.is_array => (user.schema.clone(), user.array_name()),
        (None, Some(user)) => (user.schema.clone(), user.name.clone()),
        (None, None) => (String::new(), String::new()),
    };
    (schema, name)
}

/// Returns all types, with the numbers of their schemas and their names.
fn all<'a>(known: Known<'a>) -> impl Iterator<Item = (SqlType, u32, String)> + 'a {
    let created = known.catalog.types.all().into_iter().flat_map(|user| [user.ty(), user.ty().array()]);
    SqlType::all().chain(created).map(move |ty| {
        let (schema, name) = name(known, ty);
        let schema = if schema == PG_CATALOG { PG_CATALOG_OID } else { known.catalog.schema(&schema).unwrap_or(0) };
        (ty, schema, name)
    })
}

fn labels<'a>(known: Known<'a>) -> impl Iterator<Item = (u32, &'a Label)> {
    let labels = |user: &'a std::sync::Arc<UserType>| user.labels().iter().map(|label| (user.oid, label));
    known.catalog.types.all().into_iter().flat_map(labels)
}

pub(super) const TABLES: &[Described] = &[
    table!(PG_CATALOG, 1247 pg_type, known => all(known), |(ty, schema, name)| {
        oid OID = ty.oid();
        typname NAME = name;
        typnamespace OID = schema;
        typowner OID = ROLE;
        typlen INT2 = ty.typlen();
        typbyval BOOL = (1..=8).contains(&ty.typlen()) && ty.scalar != Scalar::Name;
        typtype TEXT = if ty.is_enum() { "e" } else { "b" };
        typcategory TEXT = char::from(ty.category()).to_string();
        typispreferred BOOL = ty.is_preferred();
        typisdefined BOOL = true;
        typdelim TEXT = DELIMITER;
        typrelid OID = 0u32;
        typsubscript REGPROC = 0u32;
        typelem OID = ty.element().map_or(0, SqlType::oid);
        typarray OID = if ty.is_array { 0 } else { ty.array().oid() };
        typinput REGPROC = 0u32;
        typoutput REGPROC = 0u32;
        typreceive REGPROC = 0u32;
        typsend REGPROC = 0u32;
        typmodin REGPROC = 0u32;
        typmodout REGPROC = 0u32;
        typanalyze REGPROC = 0u32;
        typalign TEXT = "i";
        typstorage TEXT = if ty.typlen() < 0 { "x" } else { "p" };
        typnotnull BOOL = false;
        typbasetype OID = 0u32;
        typtypmod INT4 = -1i32;
        typndims INT4 = 0i32;
        typcollation OID = collation(ty);
        typdefaultbin TEXT = NULL;
        typdefault TEXT = NULL;
        typacl TEXTS = NULL;
    }),
    table!(PG_CATALOG, 3501 pg_enum, known => labels(known), |(ty, label)| {
        oid OID = label.oid;
        enumtypid OID = ty;
        // As in PostgreSQL: the first labels have 1, 2, 3, and a later one between two has their mean.
        enumsortorder FLOAT4 = (label.position as f64 / GAP as f64 + 1.0) as f32;
        enumlabel NAME = &label.name;
    }),
];

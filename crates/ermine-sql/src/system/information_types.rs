//! Types in `information_schema`: how columns and domains show theirs, domains, and the elements of arrays.

use std::borrow::Cow;

use super::{
    Described, INFORMATION, Known, NULL,
    information::{columns, domain, yes},
    table,
    types::{domains, name},
};
use crate::types::{
    Scalar, SqlType,
    user_types::{Domain, UserType},
};

/// Returns the length of a type of texts or bits, where its modifier has one.
pub(super) fn length(ty: SqlType, modifier: i32) -> Option<i32> {
    match ty.scalar {
        _ if ty.is_array => None,
        Scalar::Bit | Scalar::Varbit => Some(modifier).filter(|length| *length >= 0),
        Scalar::Char | Scalar::Varchar => SqlType::length_of(modifier).map(|length| length as i32),
        _ => None,
    }
}

/// Returns the number of bytes that a text has at most.
pub(super) fn octets(ty: SqlType, modifier: i32) -> Option<i32> {
    let is_bits = matches!(ty.scalar, Scalar::Bit | Scalar::Varbit);
    length(ty, modifier).filter(|_| !is_bits).map(|length| length.saturating_mul(4))
}

/// Returns precision, its base, and scale.
pub(super) fn precision(ty: SqlType, modifier: i32) -> Option<(i32, i32, Option<i32>)> {
    if ty.is_array {
        return None;
    }
    Some(match ty.scalar {
        Scalar::Int2 => (16, 2, Some(0)),
        Scalar::Int4 => (32, 2, Some(0)),
        Scalar::Int8 => (64, 2, Some(0)),
        Scalar::Float4 => (24, 2, None),
        Scalar::Float8 => (53, 2, None),
        Scalar::Numeric => {
            let (precision, scale) = SqlType::precision_and_scale_of(modifier)?;
            (precision, 10, Some(scale))
        }
        _ => return None,
    })
}

/// Returns the number of digits of seconds.
pub(super) fn datetime_precision(ty: SqlType, modifier: i32) -> Option<i32> {
    match ty.scalar {
        _ if ty.is_array => None,
        Scalar::Date => Some(0),
        // The fields that it is limited to are in the upper half of the modifier.
        Scalar::Interval => Some(modifier & 0xffff).filter(|digits| modifier >= 0 && *digits != 0xffff).or(Some(6)),
        _ if ty.is_datetime() && modifier >= 0 => Some(modifier),
        _ if ty.is_datetime() => Some(6),
        _ => None,
    }
}

/// Returns the fields that an interval is limited to.
pub(super) fn interval_type(known: Known<'_>, ty: SqlType, modifier: i32) -> Option<String> {
    let name = (ty == SqlType::INTERVAL).then(|| known.environment.name_of_oid(ty.oid(), Some(modifier)))??;
    let fields = name.strip_prefix("interval ")?;
    Some(fields.to_uppercase())
}

/// Returns the word for a column's type.
pub(super) fn data_type(ty: SqlType) -> Cow<'static, str> {
    match ty {
        SqlType { is_array: true, .. } => "ARRAY".into(),
        SqlType { scalar: Scalar::Enum(_), .. } => "USER-DEFINED".into(),
        ty => ty.name(),
    }
}

/// A column, or a domain, of arrays.
struct OfArrays<'a> {
    schema: &'a str,
    name: &'a str,
    kind: &'static str,
    number: i32,
    element: SqlType,
}

fn arrays<'a>(known: Known<'a>) -> impl Iterator<Item = OfArrays<'a>> {
    let of_columns = columns(known).filter_map(move |(schema, name, number, column, _, table)| {
        // The element of a column of a domain is the domain's.
        let has_domain = domain(known, table, number).is_some();
        let column = Some(column).filter(|_| !has_domain)?;
        Some(OfArrays { schema, name, kind: "TABLE", number, element: column.ty.element()? })
    });
    let of_domains = domains(known).filter_map(|(user, domain)| {
        let (schema, name) = (&*user.schema, &*user.name);
        Some(OfArrays { schema, name, kind: "DOMAIN", number: 1, element: domain.base.element()? })
    });
    of_columns.chain(of_domains)
}

/// Returns the columns that have domains.
fn domain_columns<'a>(known: Known<'a>) -> impl Iterator<Item = (&'a UserType, &'a str, &'a str, String)> {
    columns(known).filter_map(move |(schema, table, number, column, _, id)| {
        let domain = known.catalog.types.of_column(id, usize::try_from(number - 1).ok()?)?;
        Some((&**domain, schema, table, column.name.clone()))
    })
}

/// Returns the constraints of domains.
fn domain_checks<'a>(known: Known<'a>) -> impl Iterator<Item = (&'a UserType, &'a str)> {
    let checks =
        |(user, domain): (&'a UserType, &'a Domain)| domain.checks.iter().map(move |check| (user, &*check.name));
    domains(known).flat_map(checks)
}

pub(super) const TABLES: &[Described] = &[
    table!(INFORMATION, 0 domains, known => domains(known), |(user, domain)| {
        domain_catalog NAME = &*known.environment.database;
        domain_schema NAME = &user.schema;
        domain_name NAME = &user.name;
        // As PostgreSQL: only columns are said to be an array.
        data_type TEXT = if domain.base.is_array { domain.base.name() } else { data_type(domain.base) };
        character_maximum_length INT4 = length(domain.base, domain.modifier);
        character_octet_length INT4 = octets(domain.base, domain.modifier);
        character_set_catalog NAME = NULL;
        character_set_schema NAME = NULL;
        character_set_name NAME = NULL;
        collation_catalog NAME = NULL;
        collation_schema NAME = NULL;
        collation_name NAME = NULL;
        numeric_precision INT4 = precision(domain.base, domain.modifier).map(|(precision, _, _)| precision);
        numeric_precision_radix INT4 = precision(domain.base, domain.modifier).map(|(_, radix, _)| radix);
        numeric_scale INT4 = precision(domain.base, domain.modifier).and_then(|(_, _, scale)| scale);
        datetime_precision INT4 = datetime_precision(domain.base, domain.modifier);
        interval_type TEXT = interval_type(known, domain.base, domain.modifier);
        interval_precision INT4 = NULL;
        domain_default TEXT = domain.default.clone();
        udt_catalog NAME = &*known.environment.database;
        udt_schema NAME = name(known, domain.base).0;
        udt_name NAME = name(known, domain.base).1;
        scope_catalog NAME = NULL;
        scope_schema NAME = NULL;
        scope_name NAME = NULL;
        maximum_cardinality INT4 = NULL;
        dtd_identifier NAME = "1";
    }),
    table!(INFORMATION, 0 domain_constraints, known => domain_checks(known), |(user, check)| {
        constraint_catalog NAME = &*known.environment.database;
        constraint_schema NAME = &user.schema;
        constraint_name NAME = check;
        domain_catalog NAME = &*known.environment.database;
        domain_schema NAME = &user.schema;
        domain_name NAME = &user.name;
        is_deferrable TEXT = yes(false);
        initially_deferred TEXT = yes(false);
    }),
    table!(INFORMATION, 0 column_domain_usage, known => domain_columns(known), |(user, schema, table, column)| {
        domain_catalog NAME = &*known.environment.database;
        domain_schema NAME = &user.schema;
        domain_name NAME = &user.name;
        table_catalog NAME = &*known.environment.database;
        table_schema NAME = schema;
        table_name NAME = table;
        column_name NAME = column;
    }),
    table!(INFORMATION, 0 element_types, known => arrays(known), |of| {
        object_catalog NAME = &*known.environment.database;
        object_schema NAME = of.schema;
        object_name NAME = of.name;
        object_type TEXT = of.kind;
        collection_type_identifier NAME = of.number.to_string();
        data_type TEXT = data_type(of.element);
        character_maximum_length INT4 = NULL;
        character_octet_length INT4 = NULL;
        character_set_catalog NAME = NULL;
        character_set_schema NAME = NULL;
        character_set_name NAME = NULL;
        collation_catalog NAME = NULL;
        collation_schema NAME = NULL;
        collation_name NAME = NULL;
        numeric_precision INT4 = NULL;
        numeric_precision_radix INT4 = NULL;
        numeric_scale INT4 = NULL;
        datetime_precision INT4 = NULL;
        interval_type TEXT = NULL;
        interval_precision INT4 = NULL;
        domain_default TEXT = NULL;
        udt_catalog NAME = &*known.environment.database;
        udt_schema NAME = name(known, of.element).0;
        udt_name NAME = name(known, of.element).1;
        scope_catalog NAME = NULL;
        scope_schema NAME = NULL;
        scope_name NAME = NULL;
        maximum_cardinality INT4 = NULL;
        dtd_identifier NAME = format!("a{}", of.number);
    }),
    table!(INFORMATION, 0 information_schema_catalog_name, known => std::iter::once(&*known.environment.database), |name| {
        catalog_name NAME = name;
    }),
    table!(INFORMATION, 0 character_sets, known => std::iter::once(&*known.environment.database), |database| {
        character_set_catalog NAME = NULL;
        character_set_schema NAME = NULL;
        character_set_name NAME = "UTF8";
        character_repertoire NAME = "UCS";
        form_of_use NAME = "UTF8";
        default_collate_catalog NAME = database;
        default_collate_schema NAME = NULL;
        default_collate_name NAME = NULL;
    }),
];

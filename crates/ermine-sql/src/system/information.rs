//! `information_schema`, as far as programs query it.

use std::{borrow::Cow, sync::Arc};

use super::{
    Described, INFORMATION, Known, NULL,
    definitions::{self, Constraint, ConstraintKind, constraints, foreign, plain_tables},
    relations::{owner_name, view_column},
    table, types,
    views::{self, is_column_updatable, is_updatable},
};
use crate::{
    catalog::{
        Table, View,
        definition::{CheckOption, ColumnDef, DefaultDef, ForeignKeyDef, Identity, TableDef},
        rights::{Kind, Object},
    },
    types::{Scalar, SqlType, user_types::UserType},
};

/// A table or a view: its schema and name, whether it is a view, and whether it takes statements that write.
struct Shown<'a> {
    schema: &'a str,
    name: &'a str,
    is_view: bool,
    is_updatable: bool,
}

/// Returns the tables, and the views.
fn relations<'a>(known: Known<'a>) -> impl Iterator<Item = Shown<'a>> {
    let tables = plain_tables(known.catalog).map(|table| Shown {
        schema: &table.def.schema,
        name: &table.def.name,
        is_view: false,
        is_updatable: true,
    });
    tables.chain(known.catalog.plain_views().map(move |view| Shown {
        schema: &view.def.schema,
        name: &view.def.name,
        is_view: true,
        is_updatable: is_updatable(known.catalog, view),
    }))
}

/// A column: the schema and the name of its relation, its number from 1 on, whether it can be written, and the number
/// of its table, or 0.
type ShownColumn<'a> = (&'a str, &'a str, i32, Cow<'a, ColumnDef>, bool, u32);

/// Returns the columns that are not dropped.
fn columns<'a>(known: Known<'a>) -> impl Iterator<Item = ShownColumn<'a>> {
    let of_table = |def: &'a TableDef| {
        let column = move |(at, column)| (&*def.schema, &*def.name, at as i32 + 1, Cow::Borrowed(column), true, def.id);
        def.live_columns().map(column)
    };
    let of_view = move |view: &'a Arc<View>| {
        let is_updatable = is_updatable(known.catalog, view);
        let column = move |at| {
            let is_updatable = is_updatable && is_column_updatable(view, at);
            (&*view.def.schema, &*view.def.name, at as i32 + 1, Cow::Owned(view_column(&view.def, at)), is_updatable, 0)
        };
        (0..view.def.columns.len()).map(column)
    };
    let tables = plain_tables(known.catalog).flat_map(move |table| of_table(&table.def));
    tables.chain(known.catalog.plain_views().flat_map(of_view))
}

/// A column of a key: the constraint, its table, the number of the column in the key from 1 on, its name, and its number
/// in the key that it refers to.
type KeyColumn<'a> = (&'a str, &'a TableDef, i32, &'a str, Option<i32>);

/// Returns the columns of keys.
fn key_columns<'a>(known: Known<'a>) -> impl Iterator<Item = KeyColumn<'a>> {
    constraints(known.catalog).flat_map(|Constraint { name, table, columns, kind, .. }| {
        let places = match kind {
            ConstraintKind::Foreign(key, parent) => {
                parent.def.unique_key(&key.parent_columns).map_or(Vec::new(), |path| path.1)
            }
            _ => Vec::new(),
        };
        let column = |(at, column): (usize, usize)| {
            let position = places.iter().position(|place| *place == at).map(|at| at as i32 + 1);
            (name, &table.def, at as i32 + 1, &*table.def.columns[column].name, position)
        };
        columns.into_iter().enumerate().map(column).collect::<Vec<_>>()
    })
}

/// Returns the foreign keys, and the tables that they refer to.
fn foreign_keys<'a>(known: Known<'a>) -> impl Iterator<Item = (Constraint<'a>, &'a ForeignKeyDef, &'a Arc<Table>)> {
    constraints(known.catalog)
        .filter_map(|constraint| foreign(&constraint).map(|(key, parent)| (constraint, key, parent)))
}

/// Returns the columns of keys, and those that foreign keys refer to.
fn used_columns<'a>(known: Known<'a>) -> Vec<(&'a TableDef, usize, Constraint<'a>)> {
    let mut used = Vec::new();
    for constraint in constraints(known.catalog) {
        let (table, columns) = match constraint.kind {
            ConstraintKind::Foreign(key, parent) => (&parent.def, key.parent_columns.clone()),
            _ => (&constraint.table.def, constraint.columns.clone()),
        };
        used.extend(columns.into_iter().map(|column| (table, column, constraint.clone())));
    }
    used
}

fn default(known: Known<'_>, column: &ColumnDef) -> Option<String> {
    match column.default.as_ref().filter(|_| column.identity.is_none())? {
        DefaultDef::Expression(text) => Some(text.clone()),
        DefaultDef::NextOf(sequence) => Some(definitions::next_of(known, *sequence)),
        DefaultDef::Generated(_) | DefaultDef::Computed(_) => None,
    }
}

fn length(column: &ColumnDef) -> Option<i32> {
    let is_text = !column.ty.is_array && matches!(column.ty.scalar, Scalar::Char | Scalar::Varchar);
    SqlType::length_of(column.modifier).filter(|_| is_text).map(|length| length as i32)
}

/// Returns precision, its base, and scale.
fn precision(column: &ColumnDef) -> Option<(i32, i32, Option<i32>)> {
    if column.ty.is_array {
        return None;
    }
    Some(match column.ty.scalar {
        Scalar::Int2 => (16, 2, Some(0)),
        Scalar::Int4 => (32, 2, Some(0)),
        Scalar::Int8 => (64, 2, Some(0)),
        Scalar::Float4 => (24, 2, None),
        Scalar::Float8 => (53, 2, None),
        Scalar::Numeric => {
            let (precision, scale) = SqlType::precision_and_scale_of(column.modifier)?;
            (precision, 10, Some(scale))
        }
        _ => return None,
    })
}

/// Returns the domain of a column, by its place from 1 on.
fn domain(known: Known<'_>, table: u32, number: i32) -> Option<&UserType> {
    known.catalog.types.of_column(table, usize::try_from(number - 1).ok()?).map(|ty| &**ty)
}

/// Returns the word for a column's type.
pub(super) fn data_type(ty: SqlType) -> Cow<'static, str> {
    match ty {
        SqlType { is_array: true, .. } => "ARRAY".into(),
        SqlType { scalar: Scalar::Enum(_), .. } => "USER-DEFINED".into(),
        ty => ty.name(),
    }
}

fn yes(truth: bool) -> &'static str {
    if truth { "YES" } else { "NO" }
}

pub(super) const TABLES: &[Described] = &[
    table!(INFORMATION, 0 tables, known => relations(known), |shown| {
        table_catalog NAME = &*known.environment.database;
        table_schema NAME = shown.schema;
        table_name NAME = shown.name;
        table_type TEXT = match shown.is_view {
            true => "VIEW",
            false if crate::catalog::temporary::is_temporary(shown.schema) => "LOCAL TEMPORARY",
            false => "BASE TABLE",
        };
        self_referencing_column_name NAME = NULL;
        reference_generation TEXT = NULL;
        user_defined_type_catalog NAME = NULL;
        user_defined_type_schema NAME = NULL;
        user_defined_type_name NAME = NULL;
        is_insertable_into TEXT = yes(shown.is_updatable);
        is_typed TEXT = "NO";
        commit_action TEXT = NULL;
    }),
    table!(INFORMATION, 0 views, known => known.catalog.plain_views(), |view| {
        table_catalog NAME = &*known.environment.database;
        table_schema NAME = &view.def.schema;
        table_name NAME = &view.def.name;
        view_definition TEXT = views::definition(known, view);
        check_option TEXT = match view.def.check {
            None => "NONE",
            Some(CheckOption::Local) => "LOCAL",
            Some(CheckOption::Cascaded) => "CASCADED",
        };
        is_updatable TEXT = yes(is_updatable(known.catalog, view));
        is_insertable_into TEXT = yes(is_updatable(known.catalog, view));
        is_trigger_updatable TEXT = "NO";
        is_trigger_deletable TEXT = "NO";
        is_trigger_insertable_into TEXT = "NO";
    }),
    table!(INFORMATION, 0 columns, known => columns(known), |(schema, name, number, column, is_updatable, table)| {
        table_catalog NAME = &*known.environment.database;
        table_schema NAME = schema;
        table_name NAME = name;
        column_name NAME = column.name.clone();
        ordinal_position INT4 = number;
        column_default TEXT = default(known, &column);
        is_nullable TEXT = yes(!column.not_null);
        data_type TEXT = data_type(column.ty);
        character_maximum_length INT4 = length(&column);
        character_octet_length INT4 = length(&column).map(|length| length.saturating_mul(4));
        numeric_precision INT4 = precision(&column).map(|(precision, _, _)| precision);
        numeric_precision_radix INT4 = precision(&column).map(|(_, radix, _)| radix);
        numeric_scale INT4 = precision(&column).and_then(|(_, _, scale)| scale);
        datetime_precision INT4 = match column.ty.scalar {
            Scalar::Date => Some(0),
            _ if column.ty.is_datetime() && column.modifier >= 0 => Some(column.modifier),
            _ if column.ty.is_datetime() => Some(6),
            _ => None,
        };
        domain_catalog NAME = domain(known, table, number).map(|_| &*known.environment.database);
        domain_schema NAME = domain(known, table, number).map(|domain| &domain.schema);
        domain_name NAME = domain(known, table, number).map(|domain| &domain.name);
        udt_catalog NAME = &*known.environment.database;
        udt_schema NAME = types::name(known, column.ty).0;
        udt_name NAME = types::name(known, column.ty).1;
        is_identity TEXT = yes(column.identity.is_some());
        identity_generation TEXT = column.identity.map(|identity| match identity {
            Identity::Always => "ALWAYS",
            Identity::ByDefault => "BY DEFAULT",
        });
        is_generated TEXT = if column.generation().is_some() { "ALWAYS" } else { "NEVER" };
        generation_expression TEXT = column.generation();
        is_updatable TEXT = yes(is_updatable);
    }),
    table!(INFORMATION, 0 schemata, known => known.catalog.schemas(), |(name, _)| {
        catalog_name NAME = &*known.environment.database;
        schema_name NAME = name;
        schema_owner NAME = known.catalog.schema(name).and_then(|id| owner_name(known, Object::new(Kind::Schema, id)));
    }),
    table!(INFORMATION, 0 table_constraints, known => constraints(known.catalog), |constraint| {
        constraint_catalog NAME = &*known.environment.database;
        constraint_schema NAME = &constraint.table.def.schema;
        constraint_name NAME = constraint.name;
        table_catalog NAME = &*known.environment.database;
        table_schema NAME = &constraint.table.def.schema;
        table_name NAME = &constraint.table.def.name;
        constraint_type TEXT = match constraint.kind {
            ConstraintKind::Primary => "PRIMARY KEY",
            ConstraintKind::Unique => "UNIQUE",
            ConstraintKind::Check(_) => "CHECK",
            ConstraintKind::Foreign(..) => "FOREIGN KEY",
        };
        is_deferrable TEXT = yes(foreign(&constraint).is_some_and(|(key, _)| key.is_deferrable));
        initially_deferred TEXT = yes(foreign(&constraint).is_some_and(|(key, _)| key.is_deferred));
    }),
    table!(INFORMATION, 0 referential_constraints, known => foreign_keys(known), |(constraint, key, parent)| {
        constraint_catalog NAME = &*known.environment.database;
        constraint_schema NAME = &constraint.table.def.schema;
        constraint_name NAME = constraint.name;
        unique_constraint_catalog NAME = &*known.environment.database;
        unique_constraint_schema NAME = &parent.def.schema;
        unique_constraint_name NAME = definitions::index_of(key, parent).1;
        match_option TEXT = if key.is_full { "FULL" } else { "NONE" };
        update_rule TEXT = key.on_update.words();
        delete_rule TEXT = key.on_delete.words();
    }),
    table!(INFORMATION, 0 constraint_column_usage, known => used_columns(known).into_iter(), |(table, column, constraint)| {
        table_catalog NAME = &*known.environment.database;
        table_schema NAME = &table.schema;
        table_name NAME = &table.name;
        column_name NAME = &table.columns[column].name;
        constraint_catalog NAME = &*known.environment.database;
        constraint_schema NAME = &constraint.table.def.schema;
        constraint_name NAME = constraint.name;
    }),
    table!(INFORMATION, 0 key_column_usage, known => key_columns(known), |(name, def, number, column, position)| {
        constraint_catalog NAME = &*known.environment.database;
        constraint_schema NAME = &def.schema;
        constraint_name NAME = name;
        table_catalog NAME = &*known.environment.database;
        table_schema NAME = &def.schema;
        table_name NAME = &def.name;
        column_name NAME = column;
        ordinal_position INT4 = number;
        position_in_unique_constraint INT4 = position;
    }),
    table!(INFORMATION, 0 sequences, known =>
        known.catalog.sequences().into_iter().map(|sequence| &sequence.def), |def| {
        sequence_catalog NAME = &*known.environment.database;
        sequence_schema NAME = &def.schema;
        sequence_name NAME = &def.name;
        data_type TEXT = definitions::sequence_type(def).name();
        start_value TEXT = def.start.to_string();
        minimum_value TEXT = def.least.to_string();
        maximum_value TEXT = def.greatest.to_string();
        increment TEXT = def.increment.to_string();
        cycle_option TEXT = yes(def.cycles);
    }),
];

//! `information_schema`, as far as programs query it.

use std::{borrow::Cow, sync::Arc};

use super::{
    Described, INFORMATION, Known, NULL,
    definitions::{self, Constraint, ConstraintKind, constraints, foreign, plain_tables, shown_constraints},
    information_types::{data_type, datetime_precision, interval_type, length, octets, precision},
    relations::{owner_name, view_column},
    table, types,
    views::{self, is_column_updatable, is_updatable},
};
use crate::{
    catalog::{
        Table, View,
        definition::{CheckOption, ColumnDef, DefaultDef, ForeignKeyDef, Identity, SequenceDef, TableDef},
        rights::{Kind, Object},
    },
    types::user_types::UserType,
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
pub(super) type ShownColumn<'a> = (&'a str, &'a str, i32, Cow<'a, ColumnDef>, bool, u32);

/// Returns the columns that are not dropped.
pub(super) fn columns<'a>(known: Known<'a>) -> impl Iterator<Item = ShownColumn<'a>> {
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

/// Returns the columns that take no NULL, each with the name of a check that PostgreSQL gives it.
fn not_null<'a>(known: Known<'a>) -> impl Iterator<Item = (&'a TableDef, String, &'a ColumnDef)> {
    plain_tables(known.catalog).flat_map(move |table| {
        let def = &table.def;
        let schema = known.catalog.schema(&def.schema).unwrap_or_default();
        let columns = def.live_columns().filter(|(_, column)| column.not_null);
        columns.map(move |(at, column)| (def, format!("{schema}_{}_{}_not_null", def.id, at + 1), column))
    })
}

/// Returns the constraints of tables; those without a definition are columns that take no NULL.
fn table_constraints<'a>(known: Known<'a>) -> impl Iterator<Item = (&'a TableDef, String, Option<Constraint<'a>>)> {
    let defined = constraints(known.catalog)
        .map(|constraint| (&constraint.table.def, constraint.name.to_owned(), Some(constraint)));
    defined.chain(not_null(known).map(|(def, name, _)| (def, name, None)))
}

fn key_of<'a>(constraint: Option<&Constraint<'a>>) -> Option<&'a ForeignKeyDef> {
    foreign(constraint?).map(|(key, _)| key)
}

/// Returns the checks of tables and domains, and the columns that take no NULL: schema, name and condition.
fn checks<'a>(known: Known<'a>) -> impl Iterator<Item = (&'a str, String, String)> {
    let defined = shown_constraints(known.catalog).filter_map(move |shown| {
        let definition = shown.condition.and_then(|_| definitions::constraint_of(known, shown.oid, false))?;
        Some((shown.schema, shown.name.to_owned(), definition.strip_prefix("CHECK ")?.to_owned()))
    });
    let columns =
        not_null(known).map(|(def, name, column)| (&*def.schema, name, format!("{} IS NOT NULL", column.name)));
    defined.chain(columns)
}

/// Returns the tables of keys, and those that foreign keys refer to.
fn used_tables<'a>(known: Known<'a>) -> impl Iterator<Item = (&'a TableDef, Constraint<'a>)> {
    constraints(known.catalog).filter_map(|constraint| {
        let table = match constraint.kind {
            ConstraintKind::Foreign(_, parent) => &parent.def,
            ConstraintKind::Primary | ConstraintKind::Unique => &constraint.table.def,
            ConstraintKind::Check(_) => return None,
        };
        Some((table, constraint))
    })
}

/// Returns the sequence of an identity column.
fn identity<'a>(known: Known<'a>, column: &ColumnDef) -> Option<&'a SequenceDef> {
    match column.default.as_ref().filter(|_| column.identity.is_some())? {
        DefaultDef::NextOf(sequence) => known.catalog.sequence(*sequence).map(|sequence| &sequence.def),
        _ => None,
    }
}

fn default(known: Known<'_>, column: &ColumnDef) -> Option<String> {
    match column.default.as_ref().filter(|_| column.identity.is_none())? {
        DefaultDef::Expression(text) => Some(definitions::default_of(known, column, text)),
        DefaultDef::NextOf(sequence) => Some(definitions::next_of(known, *sequence)),
        DefaultDef::Generated(_) | DefaultDef::Computed(_) => None,
    }
}

/// Returns the domain of a column, by its place from 1 on.
pub(super) fn domain(known: Known<'_>, table: u32, number: i32) -> Option<&UserType> {
    known.catalog.types.of_column(table, usize::try_from(number - 1).ok()?).map(|ty| &**ty)
}

pub(super) fn yes(truth: bool) -> &'static str {
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
        character_maximum_length INT4 = length(column.ty, column.modifier);
        character_octet_length INT4 = octets(column.ty, column.modifier);
        numeric_precision INT4 = precision(column.ty, column.modifier).map(|(precision, _, _)| precision);
        numeric_precision_radix INT4 = precision(column.ty, column.modifier).map(|(_, radix, _)| radix);
        numeric_scale INT4 = precision(column.ty, column.modifier).and_then(|(_, _, scale)| scale);
        datetime_precision INT4 = datetime_precision(column.ty, column.modifier);
        interval_type TEXT = interval_type(known, column.ty, column.modifier);
        interval_precision INT4 = NULL;
        character_set_catalog NAME = NULL;
        character_set_schema NAME = NULL;
        character_set_name NAME = NULL;
        collation_catalog NAME = NULL;
        collation_schema NAME = NULL;
        collation_name NAME = NULL;
        domain_catalog NAME = domain(known, table, number).map(|_| &*known.environment.database);
        domain_schema NAME = domain(known, table, number).map(|domain| &domain.schema);
        domain_name NAME = domain(known, table, number).map(|domain| &domain.name);
        udt_catalog NAME = &*known.environment.database;
        udt_schema NAME = types::name(known, column.ty).0;
        udt_name NAME = types::name(known, column.ty).1;
        scope_catalog NAME = NULL;
        scope_schema NAME = NULL;
        scope_name NAME = NULL;
        maximum_cardinality INT4 = NULL;
        dtd_identifier NAME = number.to_string();
        is_self_referencing TEXT = "NO";
        is_identity TEXT = yes(column.identity.is_some());
        identity_generation TEXT = column.identity.map(|identity| match identity {
            Identity::Always => "ALWAYS",
            Identity::ByDefault => "BY DEFAULT",
        });
        identity_start TEXT = identity(known, &column).map(|numbers| numbers.start.to_string());
        identity_increment TEXT = identity(known, &column).map(|numbers| numbers.increment.to_string());
        identity_maximum TEXT = identity(known, &column).map(|numbers| numbers.greatest.to_string());
        identity_minimum TEXT = identity(known, &column).map(|numbers| numbers.least.to_string());
        identity_cycle TEXT = yes(identity(known, &column).is_some_and(|numbers| numbers.cycles));
        is_generated TEXT = if column.generation().is_some() { "ALWAYS" } else { "NEVER" };
        generation_expression TEXT = column.generation();
        is_updatable TEXT = yes(is_updatable);
    }),
    table!(INFORMATION, 0 schemata, known => known.catalog.schemas(), |(name, _)| {
        catalog_name NAME = &*known.environment.database;
        schema_name NAME = name;
        schema_owner NAME = known.catalog.schema(name).and_then(|id| owner_name(known, Object::new(Kind::Schema, id)));
        default_character_set_catalog NAME = NULL;
        default_character_set_schema NAME = NULL;
        default_character_set_name NAME = NULL;
        sql_path TEXT = NULL;
    }),
    table!(INFORMATION, 0 table_constraints, known => table_constraints(known), |(def, name, constraint)| {
        constraint_catalog NAME = &*known.environment.database;
        constraint_schema NAME = &def.schema;
        constraint_name NAME = name;
        table_catalog NAME = &*known.environment.database;
        table_schema NAME = &def.schema;
        table_name NAME = &def.name;
        constraint_type TEXT = match constraint.as_ref().map(|constraint| constraint.kind) {
            Some(ConstraintKind::Primary) => "PRIMARY KEY",
            Some(ConstraintKind::Unique) => "UNIQUE",
            Some(ConstraintKind::Foreign(..)) => "FOREIGN KEY",
            Some(ConstraintKind::Check(_)) | None => "CHECK",
        };
        is_deferrable TEXT = yes(key_of(constraint.as_ref()).is_some_and(|key| key.is_deferrable));
        initially_deferred TEXT = yes(key_of(constraint.as_ref()).is_some_and(|key| key.is_deferred));
        enforced TEXT = "YES";
        nulls_distinct TEXT = constraint.filter(|constraint| matches!(constraint.kind, ConstraintKind::Unique)).map(|_| "YES");
    }),
    table!(INFORMATION, 0 check_constraints, known => checks(known), |(schema, name, clause)| {
        constraint_catalog NAME = &*known.environment.database;
        constraint_schema NAME = schema;
        constraint_name NAME = name;
        check_clause TEXT = clause;
    }),
    table!(INFORMATION, 0 constraint_table_usage, known => used_tables(known), |(table, constraint)| {
        table_catalog NAME = &*known.environment.database;
        table_schema NAME = &table.schema;
        table_name NAME = &table.name;
        constraint_catalog NAME = &*known.environment.database;
        constraint_schema NAME = &constraint.table.def.schema;
        constraint_name NAME = constraint.name;
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
        numeric_precision INT4 = precision(definitions::sequence_type(def), -1).map(|(precision, _, _)| precision);
        numeric_precision_radix INT4 = 2;
        numeric_scale INT4 = 0;
        start_value TEXT = def.start.to_string();
        minimum_value TEXT = def.least.to_string();
        maximum_value TEXT = def.greatest.to_string();
        increment TEXT = def.increment.to_string();
        cycle_option TEXT = yes(def.cycles);
    }),
];

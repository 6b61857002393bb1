//! Indexes, constraints and defaults, in the syntax of statements.

use std::sync::Arc;

use sqlparser::ast::{self, UnaryOperator};

use super::Known;
use crate::{
    catalog::{
        Catalog, Table,
        definition::{ColumnDef, ForeignKeyDef, ObjectId, ReferentialAction, SequenceDef, TableDef},
    },
    functions::quote_ident,
    parse,
    types::{Scalar, SqlType, datetime::depends_on_now, text},
};

/// An index, or a primary key, which has no index of its own but is shown as one.
pub(super) struct IndexView<'a> {
    pub(super) oid: u32,
    pub(super) name: &'a str,
    pub(super) table: &'a Arc<Table>,
    /// Numbers of columns, and whether each is descending.
    pub(super) columns: Vec<(usize, bool)>,
    pub(super) included: &'a [usize],
    pub(super) is_unique: bool,
    pub(super) is_primary: bool,
    pub(super) is_constraint: bool,
    pub(super) is_complete: bool,
    pub(super) predicate: Option<&'a str>,
}

/// Returns the tables that are no materialized views.
pub(super) fn plain_tables(catalog: &Catalog) -> impl Iterator<Item = &Arc<Table>> {
    catalog.tables().into_iter().filter(|table| table.def.materialized.is_none())
}

/// Returns all indexes.
pub(super) fn indexes(catalog: &Catalog) -> impl Iterator<Item = IndexView<'_>> {
    catalog.tables().into_iter().flat_map(|table| {
        let Table { def, .. } = &**table;
        let key = def.primary_key.iter().map(move |key| IndexView {
            oid: key.id,
            name: &key.name,
            table,
            columns: key.columns.iter().map(|at| (*at, false)).collect(),
            included: &key.included,
            is_unique: true,
            is_primary: true,
            is_constraint: true,
            is_complete: true,
            predicate: None,
        });
        key.chain(def.indexes.iter().enumerate().map(move |(at, index)| IndexView {
            oid: index.id,
            name: &index.name,
            table,
            columns: index.columns.clone(),
            included: &index.included,
            is_unique: index.is_unique,
            is_primary: false,
            is_constraint: index.is_constraint,
            is_complete: def.is_complete(at),
            predicate: index.predicate.as_deref(),
        }))
    })
}

impl IndexView<'_> {
    /// Returns the numbers of all its columns, those that it includes last.
    pub(super) fn all_columns(&self) -> impl Iterator<Item = usize> {
        self.columns.iter().map(|(at, _)| *at).chain(self.included.iter().copied())
    }
}

#[derive(Clone)]
pub(super) struct Constraint<'a> {
    /// The number of its index, or one derived from the table's.
    pub(super) oid: u32,
    pub(super) name: &'a str,
    pub(super) table: &'a Arc<Table>,
    pub(super) kind: ConstraintKind<'a>,
    /// The columns of a key.
    pub(super) columns: Vec<usize>,
    /// The columns that its index includes.
    included: &'a [usize],
}

#[derive(Clone, Copy)]
pub(super) enum ConstraintKind<'a> {
    Primary,
    Unique,
    /// Its condition.
    Check(&'a str),
    /// The foreign key, and the table that it refers to.
    Foreign(&'a ForeignKeyDef, &'a Arc<Table>),
}

/// Returns the foreign key that a constraint is, and the table that it refers to.
pub(super) fn foreign<'a>(constraint: &Constraint<'a>) -> Option<(&'a ForeignKeyDef, &'a Arc<Table>)> {
    match constraint.kind {
        ConstraintKind::Foreign(key, parent) => Some((key, parent)),
        _ => None,
    }
}

/// Returns the letter of an action in `pg_constraint`.
pub(super) fn action_code(action: ReferentialAction) -> &'static str {
    match action {
        ReferentialAction::NoAction => "a",
        ReferentialAction::Restrict => "r",
        ReferentialAction::Cascade => "c",
        ReferentialAction::SetNull => "n",
        ReferentialAction::SetDefault => "d",
    }
}

/// Returns all constraints.
pub(super) fn constraints(catalog: &Catalog) -> impl Iterator<Item = Constraint<'_>> {
    let keys = indexes(catalog).filter(|index| index.is_constraint).map(|index| Constraint {
        oid: index.oid,
        name: index.name,
        table: index.table,
        kind: if index.is_primary { ConstraintKind::Primary } else { ConstraintKind::Unique },
        columns: index.columns.iter().map(|(at, _)| *at).collect(),
        included: index.included,
    });
    let checks = catalog.tables().into_iter().flat_map(|table| {
        table.def.checks.iter().enumerate().map(move |(at, check)| Constraint {
            oid: part(table.def.id, at),
            name: &check.name,
            table,
            kind: ConstraintKind::Check(&check.condition),
            columns: Vec::new(),
            included: &[],
        })
    });
    let foreign = catalog.foreign_keys().filter_map(|key| {
        let (table, parent) = (catalog.table(key.child)?, catalog.table(key.parent)?);
        Some(Constraint {
            oid: key.id,
            name: &key.name,
            table,
            kind: ConstraintKind::Foreign(key, parent),
            columns: key.child_columns.clone(),
            included: &[],
        })
    });
    keys.chain(checks).chain(foreign)
}

/// A constraint of a table or of a domain.
pub(super) struct ShownConstraint<'a> {
    pub(super) oid: u32,
    pub(super) name: &'a str,
    pub(super) schema: &'a str,
    /// The number of its table, or 0.
    pub(super) table: u32,
    /// The number of its domain, or 0.
    pub(super) domain: u32,
    /// The condition of a check.
    pub(super) condition: Option<&'a str>,
    constraint: Option<Constraint<'a>>,
}

impl<'a> ShownConstraint<'a> {
    /// Returns the kind of a table's constraint; those of domains are checks.
    pub(super) fn kind(&self) -> Option<ConstraintKind<'a>> {
        self.constraint.as_ref().map(|constraint| constraint.kind)
    }

    pub(super) fn foreign(&self) -> Option<(&'a ForeignKeyDef, &'a Arc<Table>)> {
        self.constraint.as_ref().and_then(foreign)
    }

    pub(super) fn columns(&self) -> &[usize] {
        self.constraint.as_ref().map_or(&[], |constraint| &constraint.columns)
    }
}

/// Returns the constraints of all tables and domains.
pub(super) fn shown_constraints(catalog: &Catalog) -> impl Iterator<Item = ShownConstraint<'_>> {
    let of_tables = constraints(catalog).map(|constraint| ShownConstraint {
        oid: constraint.oid,
        name: constraint.name,
        schema: &constraint.table.def.schema,
        table: constraint.table.def.id,
        domain: 0,
        condition: match constraint.kind {
            ConstraintKind::Check(condition) => Some(condition),
            _ => None,
        },
        constraint: Some(constraint),
    });
    let of_domains = catalog.types.all().into_iter().flat_map(|ty| {
        let checks = ty.domain().map_or(&[][..], |domain| &domain.checks);
        checks.iter().map(|check| ShownConstraint {
            oid: check.oid,
            name: &check.name,
            schema: &ty.schema,
            table: 0,
            domain: ty.oid,
            condition: Some(&check.condition),
            constraint: None,
        })
    });
    of_tables.chain(of_domains)
}

/// Returns the number and name of the unique index by which a foreign key finds the rows that it refers to.
pub(super) fn index_of<'a>(key: &ForeignKeyDef, parent: &'a Table) -> (u32, &'a str) {
    match (parent.def.unique_key(&key.parent_columns), &parent.def.primary_key) {
        (Some((Some(at), _)), _) => (parent.def.indexes[at].id, &parent.def.indexes[at].name),
        (Some((None, _)), Some(own)) => (own.id, &own.name),
        _ => (0, ""),
    }
}

/// Returns a number for a part of a table that has none of its own: checks and defaults. No object has it, because
/// objects are numbered from below.
pub(super) fn part(table: ObjectId, at: usize) -> u32 {
    const PARTS: u32 = 1 << 31;
    PARTS | table.wrapping_mul(1024).wrapping_add(at as u32)
}

/// Returns a column of an index, or its expression; `is_pretty`: without unnecessary parentheses.
pub(super) fn index_part(def: &TableDef, at: usize, is_pretty: bool) -> String {
    match def.columns[at].computation() {
        None => quote_ident(&def.columns[at].name),
        Some(text) if is_pretty || !text.starts_with('(') => text.to_owned(),
        Some(text) => format!("({text})"),
    }
}

/// Returns the `CREATE INDEX`; `is_pretty`: without unnecessary parentheses.
pub(super) fn index(index: &IndexView<'_>, is_pretty: bool) -> String {
    let unique = if index.is_unique { "UNIQUE " } else { "" };
    let def = &index.table.def;
    let columns: Vec<_> = index
        .columns
        .iter()
        .map(|(at, descending)| index_part(def, *at, is_pretty) + if *descending { " DESC" } else { "" })
        .collect();
    let included = included(def, index.included);
    let filter = match index.predicate {
        None => String::new(),
        Some(predicate) if is_pretty => format!(" WHERE {predicate}"),
        Some(predicate) => format!(" WHERE ({predicate})"),
    };
    format!(
        "CREATE {unique}INDEX {} ON {}.{} USING btree ({}){included}{filter}",
        quote_ident(index.name),
        quote_ident(&def.schema),
        quote_ident(&def.name),
        columns.join(", ")
    )
}

/// Returns the clause INCLUDE, if there are such columns.
fn included(def: &TableDef, columns: &[usize]) -> String {
    if columns.is_empty() {
        return String::new();
    }
    let names: Vec<_> = columns.iter().map(|at| quote_ident(&def.columns[*at].name)).collect();
    format!(" INCLUDE ({})", names.join(", "))
}

/// Returns the constraint in the syntax of CREATE TABLE; `is_pretty`: without unnecessary parentheses.
fn constraint(known: Known<'_>, constraint: &Constraint<'_>, is_pretty: bool) -> String {
    let names_of = |table: &Table, columns: &[usize]| {
        let name = |at: &usize| quote_ident(&table.def.columns[*at].name);
        columns.iter().map(name).collect::<Vec<_>>().join(", ")
    };
    let names = || names_of(constraint.table, &constraint.columns);
    let included = included(&constraint.table.def, constraint.included);
    match constraint.kind {
        ConstraintKind::Primary => format!("PRIMARY KEY ({}){included}", names()),
        ConstraintKind::Unique => format!("UNIQUE ({}){included}", names()),
        ConstraintKind::Check(condition) => check(condition, is_pretty),
        ConstraintKind::Foreign(key, parent) => {
            let name = relation_name(known, &parent.def.schema, &parent.def.name);
            let columns = names_of(parent, &key.parent_columns);
            let mut text = format!("FOREIGN KEY ({}) REFERENCES {name}({columns})", names());
            text += if key.is_full { " MATCH FULL" } else { "" };
            for (event, action) in [("UPDATE", key.on_update), ("DELETE", key.on_delete)] {
                if action != ReferentialAction::NoAction {
                    text += &format!(" ON {event} {}", action.words());
                }
            }
            text += if key.is_deferrable { " DEFERRABLE" } else { "" };
            text += if key.is_deferred { " INITIALLY DEFERRED" } else { "" };
            text + if key.is_valid { "" } else { " NOT VALID" }
        }
    }
}

/// Returns a check; `is_pretty`: without unnecessary parentheses.
fn check(condition: &str, is_pretty: bool) -> String {
    if is_pretty { format!("CHECK ({condition})") } else { format!("CHECK (({condition}))") }
}

/// Returns the constraint with a number, likewise.
pub(super) fn constraint_of(known: Known<'_>, oid: u32, is_pretty: bool) -> Option<String> {
    let shown = shown_constraints(known.catalog).find(|shown| shown.oid == oid)?;
    match &shown.constraint {
        Some(of_table) => Some(constraint(known, of_table, is_pretty)),
        None => shown.condition.map(|condition| check(condition, is_pretty)),
    }
}

/// Returns the default of a column that a sequence fills.
pub(super) fn next_of(known: Known<'_>, sequence: ObjectId) -> String {
    match known.catalog.sequence(sequence) {
        None => String::new(),
        Some(sequence) => {
            let name = relation_name(known, &sequence.def.schema, &sequence.def.name);
            format!("nextval('{}'::regclass)", name.replace('\'', "''"))
        }
    }
}

/// Values that PostgreSQL shows in capitals.
const VALUE_FUNCTIONS: [&str; 9] = [
    "CURRENT_CATALOG",
    "CURRENT_DATE",
    "CURRENT_ROLE",
    "CURRENT_TIME",
    "CURRENT_TIMESTAMP",
    "CURRENT_USER",
    "LOCALTIME",
    "LOCALTIMESTAMP",
    "SESSION_USER",
];

/// Returns a default as PostgreSQL shows it, if it is a literal: with the type that the literal has, which programs read.
/// Other expressions are shown as they were written.
pub(super) fn default_of(known: Known<'_>, column: &ColumnDef, written: &str) -> String {
    if let Some(shown) = VALUE_FUNCTIONS.iter().find(|name| name.eq_ignore_ascii_case(written)) {
        return (*shown).to_owned();
    }
    // Most defaults are literals; others are not parsed.
    let is_literal = written.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '\'' | '-'));
    let parsed = is_literal.then(|| parse::expression(written).ok()).flatten();
    parsed.and_then(|literal| shown_literal(known, column, &literal)).unwrap_or_else(|| written.to_owned())
}

fn shown_literal(known: Known<'_>, column: &ColumnDef, literal: &ast::Expr) -> Option<String> {
    use ast::Value::{Number, SingleQuotedString};
    let value = |expr: &ast::Expr| match expr {
        ast::Expr::Value(value) => Some(value.value.clone()),
        _ => None,
    };
    let (text, ty, modifier) = match literal {
        ast::Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match value(expr)? {
            Number(digits, _) => (format!("-{digits}"), number_type(&digits), -1),
            _ => return None,
        },
        // A name in quotes is not one of these.
        ast::Expr::Cast { expr, data_type, .. } => match value(expr)? {
            SingleQuotedString(text) => match SqlType::from_name(&data_type.to_string().to_lowercase())? {
                SqlType::CHAR | SqlType::INTERNAL_CHAR => return None,
                ty => (text, ty, -1),
            },
            _ => return None,
        },
        other => match value(other)? {
            Number(digits, _) => (digits.clone(), number_type(&digits), -1),
            SingleQuotedString(text) => {
                let domain = column.ty.created().and_then(|oid| known.catalog.types.get(oid)?.domain());
                let (ty, modifier) =
                    domain.map_or((column.ty, column.modifier), |domain| (domain.base, domain.modifier));
                (text, ty, modifier)
            }
            _ => return None,
        },
    };
    shown_constant(known, &text, ty, modifier)
}

/// Returns the type of a number in a statement.
fn number_type(digits: &str) -> SqlType {
    match digits.parse::<i64>() {
        Ok(number) if i32::try_from(number).is_ok() => SqlType::INT4,
        Ok(_) => SqlType::INT8,
        Err(_) => SqlType::NUMERIC,
    }
}

/// Returns a constant in the form of `pg_get_expr`: numbers as they are printed, other values as they were written. `None`:
/// it means another value when it is written like that.
fn shown_constant(known: Known<'_>, text: &str, ty: SqlType, modifier: i32) -> Option<String> {
    let is_cut = match ty.scalar {
        Scalar::Bit => true,
        Scalar::Char => ty.is_array,
        Scalar::Interval => modifier >= 0,
        _ => SqlType::scalar(ty.scalar).is_datetime() && depends_on_now(text),
    };
    if is_cut {
        return None;
    }
    if ty.is_numeric() || ty == SqlType::BOOL {
        let value = text::parse(ty, -1, text, known.environment).ok()?;
        let shown = text::to_string(&value, ty, known.environment);
        match ty {
            SqlType::BOOL => return Some(if shown == "t" { "true" } else { "false" }.into()),
            SqlType::INT4 if !shown.starts_with('-') => return Some(shown),
            SqlType::NUMERIC if !shown.starts_with(['-', 'N', 'I']) && shown.contains('.') => return Some(shown),
            _ => return Some(format!("'{shown}'::{}", known.environment.type_name(ty))),
        }
    }
    let name = if ty == SqlType::CHAR { "bpchar".into() } else { known.environment.type_name(ty) };
    Some(format!("'{}'::{name}", text.replace('\'', "''")))
}

/// Returns the type of a sequence's numbers, derived from its bounds.
pub(crate) fn sequence_type(sequence: &SequenceDef) -> SqlType {
    match (sequence.least, sequence.greatest) {
        (_, 32767) | (-32768, _) => SqlType::INT2,
        (_, 2_147_483_647) | (-2_147_483_648, _) => SqlType::INT4,
        _ => SqlType::INT8,
    }
}

/// Returns a relation's name, with its schema if the name alone would mean another relation, or none.
pub(super) fn relation_name(known: Known<'_>, schema: &str, name: &str) -> String {
    if is_visible(known, schema, name) {
        quote_ident(name)
    } else {
        format!("{}.{}", quote_ident(schema), quote_ident(name))
    }
}

/// Whether a name without a schema means the one in this schema.
pub(super) fn is_visible(known: Known<'_>, schema: &str, name: &str) -> bool {
    let path = &known.environment.search_path;
    let first = known.catalog.schemas_of(path).find(|schema| known.catalog.find(schema, name).is_some());
    first == Some(schema)
}

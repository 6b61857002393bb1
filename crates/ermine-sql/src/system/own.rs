//! Objects of the session that runs the statement: its cursors and prepared statements.

use std::sync::Arc;

use super::{Described, Known, PG_CATALOG, table};
use crate::{
    cursors::{Cursor, Cursors},
    types::{Array, Scalar, SqlType, Value},
};

/// The objects of a session.
#[derive(Clone, Copy)]
pub(crate) struct Own<'r> {
    /// The cursors of its transaction, and those that it holds.
    pub(crate) cursors: [&'r Cursors; 2],
    /// Returns its prepared statements.
    pub(crate) statements: &'r dyn Fn() -> Vec<ShownStatement>,
}

/// A statement with a name, of the protocol or of PREPARE.
pub(crate) struct ShownStatement {
    pub(crate) name: String,
    pub(crate) text: Arc<str>,
    /// Microseconds since 2000-01-01.
    pub(crate) prepared: i64,
    /// Whether PREPARE has named it.
    pub(crate) is_from_sql: bool,
    pub(crate) parameters: Vec<SqlType>,
    /// The types of its rows; `None`: it returns none.
    pub(crate) columns: Option<Vec<SqlType>>,
}

fn cursors(known: Known<'_>) -> impl Iterator<Item = &Cursor> {
    known.own.into_iter().flat_map(|own| own.cursors).flat_map(|cursors| &cursors.open)
}

fn statements(known: Known<'_>) -> impl Iterator<Item = ShownStatement> {
    known.own.into_iter().flat_map(|own| (own.statements)())
}

/// Returns the names of types.
fn names(known: Known<'_>, types: &[SqlType]) -> Value {
    let names = types.iter().map(|ty| known.environment.name_of_oid(ty.oid(), None).unwrap_or_default().into());
    Value::array(Array::new(Scalar::Text, names.collect()))
}

pub(super) const TABLES: &[Described] = &[
    table!(PG_CATALOG, 0 pg_cursors, known => cursors(known), |cursor| {
        name TEXT = &cursor.name;
        statement TEXT = &*cursor.about.statement;
        is_holdable BOOL = cursor.about.modes.is_held;
        is_binary BOOL = cursor.about.modes.is_binary;
        is_scrollable BOOL = cursor.about.modes.scrolls;
        creation_time TIME = Value::TimestampTz(cursor.about.created);
    }),
    table!(PG_CATALOG, 0 pg_prepared_statements, known => statements(known), |statement| {
        name TEXT = statement.name;
        statement TEXT = &*statement.text;
        prepare_time TIME = Value::TimestampTz(statement.prepared);
        parameter_types TEXTS = names(known, &statement.parameters);
        result_types TEXTS = statement.columns.map_or(Value::Null, |columns| names(known, &columns));
        from_sql BOOL = statement.is_from_sql;
        generic_plans INT8 = 0i64;
        custom_plans INT8 = 0i64;
    }),
];

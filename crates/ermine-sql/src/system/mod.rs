//! Tables and functions of the system: the information that drivers and tools query about the catalog, computed on
//! demand.
//!
//! Columns are PostgreSQL 15's, by name and order. Features that do not exist here (inheritance, triggers) have tables
//! without rows, so that queries about them find nothing instead of failing. Vectors are arrays from 0 on,
//! trees of expressions are their texts.
//!
//! | module | what |
//! |---|---|
//! | `relations` | tables, columns, indexes, constraints, views, sequences |
//! | `policies` | policies of row security |
//! | `publications` | publications and replication slots |
//! | `views` | the text of views, and whether they take statements that write |
//! | `server` | databases, roles, schemas, sessions |
//! | `settings` | settings of sessions and options of the server |
//! | `locks` | what sessions have and wait for |
//! | `types` | types, labels of enumerations |
//! | `empty` | tables without rows |
//! | `information` | `information_schema` |
//! | `information_types` | types in `information_schema` |
//! | `information_empty` | its tables without rows |
//! | `privileges` | lists of rights |
//! | `inquiries` | whether a role has a right |
//! | `information_rights` | rights in `information_schema` |
//! | `procedures` | the functions that read and write values |
//! | `statistics` | the names of the collector's statistics |
//! | `progress` | how far long statements are |
//! | `comments` | comments |
//! | `definitions` | indexes, constraints and defaults in the syntax of statements |
//! | `own` | the cursors and prepared statements of the session |
//! | `dependencies` | which objects are there only with others |
//! | `functions` | functions that read the catalog |
//! | `reg` | `regclass` and its like: numbers that are shown as names |

mod comments;
mod definitions;
mod dependencies;
mod empty;
pub(crate) mod functions;
mod information;
mod information_empty;
mod information_rights;
mod information_types;
mod inquiries;
mod locks;
pub(crate) mod own;
mod policies;
pub(crate) mod privileges;
mod procedures;
mod progress;
pub(crate) mod publications;
pub(crate) mod reg;
mod relations;
mod server;
mod settings;
mod statistics;
mod types;
pub(crate) mod views;

use std::{borrow::Cow, fmt};

pub(crate) use self::definitions::sequence_type;
use self::own::Own;
use ermine::Statistics;

use crate::{
    catalog::{
        Catalog, Relation,
        rights::no_right_to,
        roles::{MONITOR, READ_ALL_STATS, SUPERUSER},
    },
    error::SqlError,
    result::Column,
    types::{Environment, Value},
};

/// One of the tables.
#[derive(Clone, Copy)]
pub(crate) struct SystemTable(&'static Described);

/// The state from which rows are computed.
#[derive(Clone, Copy)]
struct Known<'a> {
    catalog: &'a Catalog,
    environment: &'a Environment,
    own: Option<Own<'a>>,
    statistics: &'a dyn Fn() -> Statistics,
}

impl<'a> Known<'a> {
    /// The state for what does not show the engine's statistics.
    fn new(catalog: &'a Catalog, environment: &'a Environment) -> Self {
        Self { catalog, environment, own: None, statistics: &Statistics::default }
    }

    /// Whether the role of the session may see the statements of a role.
    fn may_see(self, role: u32) -> bool {
        self.catalog.has_role(self.environment.role, role) || self.may_see_all()
    }

    /// Whether the role of the session may see the statements of all roles, and keys of rows beside them.
    fn may_see_all(self) -> bool {
        let has = |of| self.catalog.has_role(self.environment.role, of);
        has(READ_ALL_STATS.1) || has(MONITOR.1)
    }
}

/// The columns of a system table that a statement needs; behind them is `tableoid`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ColumnSet(u128);

impl ColumnSet {
    pub(crate) const ALL: Self = Self(u128::MAX);

    fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Returns the places of the columns.
    pub(crate) fn places(self) -> impl Iterator<Item = usize> {
        (0..u128::BITS as usize).filter(move |at| self.0 >> at & 1 == 1)
    }

    /// Takes the first column off the set; returns whether it was there.
    fn has_next(&mut self) -> bool {
        let had = self.0 & 1 == 1;
        self.0 >>= 1;
        had
    }
}

impl FromIterator<usize> for ColumnSet {
    fn from_iter<T: IntoIterator<Item = usize>>(columns: T) -> Self {
        Self(columns.into_iter().fold(0, |set, at| set | 1 << at))
    }
}

struct Described {
    schema: &'static str,
    /// The number in PostgreSQL; 0: no program uses it.
    oid: u32,
    name: &'static str,
    columns: &'static [(&'static str, kind::Kind)],
    rows: fn(Known<'_>, ColumnSet) -> Vec<Vec<Value>>,
}

impl fmt::Debug for SystemTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0.schema, self.0.name)
    }
}

const PG_CATALOG: &str = "pg_catalog";
pub(crate) const INFORMATION: &str = "information_schema";
/// The number of the schema `pg_catalog`.
const PG_CATALOG_OID: u32 = 11;
const INFORMATION_OID: u32 = 13000;
/// The extensions that are built in, and their versions.
pub(crate) const EXTENSIONS: [(&str, &str); 4] =
    [("plpgsql", "1.0"), ("pgcrypto", "1.3"), ("uuid-ossp", "1.1"), ("pg_stat_statements", "1.10")];
/// The number of `pg_attrdef`.
const PG_ATTRDEF: u32 = 2604;
/// The role that owns what is built in.
const ROLE: u32 = SUPERUSER;
/// The number of the encoding.
const UTF8: i32 = 6;

/// Types of columns, by short names.
mod kind {
    use super::reg::{Reg, VECTOR};
    use crate::types::SqlType as T;

    /// A type and a modifier.
    pub(super) type Kind = (T, i32);

    const fn plain(ty: T) -> Kind {
        (ty, -1)
    }

    pub(super) const BOOL: Kind = plain(T::BOOL);
    pub(super) const FLOAT4: Kind = plain(T::FLOAT4);
    pub(super) const FLOAT8: Kind = plain(T::FLOAT8);
    pub(super) const NUMERIC: Kind = plain(T::NUMERIC);
    pub(super) const INT2: Kind = plain(T::INT2);
    pub(super) const INT4: Kind = plain(T::INT4);
    pub(super) const INT8: Kind = plain(T::INT8);
    pub(super) const CHAR: Kind = plain(T::INTERNAL_CHAR);
    pub(super) const NAME: Kind = plain(T::NAME);
    pub(super) const OID: Kind = plain(T::OID);
    pub(super) const TEXT: Kind = plain(T::TEXT);
    pub(super) const INET: Kind = plain(T::INET);
    pub(super) const INTERVAL: Kind = plain(T::INTERVAL);
    pub(super) const TIME: Kind = plain(T::TIMESTAMPTZ);
    pub(super) const INT2S: Kind = plain(T::INT2.array());
    pub(super) const OIDS: Kind = plain(T::OID.array());
    pub(super) const CHARS: Kind = plain(T::INTERNAL_CHAR.array());
    pub(super) const NAMES: Kind = plain(T::NAME.array());
    pub(super) const TEXTS: Kind = plain(T::TEXT.array());
    pub(super) const INT2VECTOR: Kind = (T::INT2.array(), VECTOR);
    pub(super) const OIDVECTOR: Kind = (T::OID.array(), VECTOR);
    pub(super) const REGPROC: Kind = (T::OID, Reg::Function.modifier());
}

/// Defines a table: the items that it has rows for, and for each column its name, its type and its value.
macro_rules! table {
    ($schema:expr, $oid:literal $name:ident, $known:ident => $items:expr, |$item:pat_param| {
        $($column:ident $kind:ident = $value:expr;)*
    }) => {
        $crate::system::Described {
            schema: $schema,
            oid: $oid,
            name: stringify!($name),
            columns: &[$((stringify!($column), $crate::system::kind::$kind)),*],
            rows: |$known, needed| {
                let rows = $items.map(|$item| {
                    let (mut rest, mut row) = (needed, Vec::with_capacity(needed.len()));
                    $(if rest.has_next() {
                        row.push($crate::system::Cell::cell($value));
                    })*
                    if rest.has_next() {
                        row.push($crate::types::Value::Oid($oid));
                    }
                    row
                });
                rows.collect()
            },
        }
    };
}
use table;

/// A value that can be shown in a row.
trait Cell {
    fn cell(self) -> Value;
}

macro_rules! cells {
    ($($ty:ty, $value:ident => $cell:expr;)*) => {
        $(impl Cell for $ty {
            fn cell(self) -> Value {
                let $value = self;
                $cell
            }
        })*
    };
}

cells! {
    bool, value => Value::Bool(value);
    u32, value => Value::Oid(value);
    i16, value => Value::Int2(value);
    i32, value => Value::Int4(value);
    i64, value => Value::Int8(value);
    Cow<'_, str>, value => (*value).into();
    f32, value => Value::Float4(value);
    f64, value => Value::Float8(value);
    &str, value => value.into();
    &String, value => value.as_str().into();
    String, value => value.into();
    Value, value => value;
}

impl<T: Cell> Cell for Option<T> {
    fn cell(self) -> Value {
        self.map_or(Value::Null, Cell::cell)
    }
}

/// Nothing.
const NULL: Value = Value::Null;

static TABLES: [&[Described]; 17] = [
    relations::TABLES,
    server::TABLES,
    settings::TABLES,
    locks::TABLES,
    types::TABLES,
    comments::TABLES,
    procedures::TABLES,
    statistics::TABLES,
    progress::TABLES,
    empty::TABLES,
    information::TABLES,
    information_empty::TABLES,
    information_types::TABLES,
    information_rights::TABLES,
    own::TABLES,
    policies::TABLES,
    publications::TABLES,
];

fn tables() -> impl Iterator<Item = &'static Described> {
    TABLES.iter().copied().flatten()
}

/// Returns the schema, the name and the columns of each table of the system, which `pg_class` does not list.
pub fn system_tables() -> impl Iterator<Item = (&'static str, &'static str, impl Iterator<Item = &'static str>)> {
    tables().map(|table| (table.schema, table.name, table.columns.iter().map(|(name, _)| *name)))
}

impl SystemTable {
    /// Returns the table of that name.
    pub(crate) fn find(schema: Option<&str>, name: &str) -> Option<Self> {
        tables().find(|table| table.name == name && schema.unwrap_or(PG_CATALOG) == table.schema).map(Self)
    }

    pub(crate) fn columns(self) -> Vec<Column> {
        let column = |&(name, (ty, modifier)): &(&str, kind::Kind)| Column { modifier, ..Column::new(name, ty) };
        self.0.columns.iter().map(column).collect()
    }

    /// Whether a role may read it: passwords are for superusers.
    pub(crate) fn is_shown_to(self, catalog: &Catalog, role: u32) -> bool {
        !matches!(self.0.name, "pg_authid" | "pg_shadow") || catalog.is_superuser(role)
    }

    /// Returns the error of a role that may not read it.
    pub(crate) fn no_right(self) -> SqlError {
        no_right_to(if self.0.name == "pg_shadow" { "view" } else { "table" }, self.0.name)
    }

    /// Returns its address, which is unique.
    pub(crate) fn address(self) -> usize {
        std::ptr::from_ref(self.0).addr()
    }

    /// Returns the needed columns of its rows; `statistics` returns those of the engine.
    pub(crate) fn rows(
        self,
        needed: ColumnSet,
        catalog: &Catalog,
        environment: &Environment,
        own: Option<Own<'_>>,
        statistics: &dyn Fn() -> Statistics,
    ) -> Vec<Vec<Value>> {
        (self.0.rows)(Known { catalog, environment, own, statistics }, needed)
    }
}

/// Returns the number of a relation.
pub(crate) fn oid_of(relation: &Relation) -> u32 {
    match relation {
        Relation::Table(table) => table.def.id,
        Relation::View(view) => view.def.id,
        Relation::Sequence(sequence) => sequence.def.id,
        Relation::Index(table, None) => table.def.primary_key.as_ref().map_or(0, |key| key.id),
        Relation::Index(table, Some(at)) => table.def.indexes[*at].id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_as_many_values_as_columns_and_names_are_used_once() {
        let (catalog, environment) = (Catalog::default(), Environment::default());
        for (at, table) in tables().enumerate() {
            let is_known = |other: &Described| (other.schema, other.name) == (table.schema, table.name);
            assert!(!tables().skip(at + 1).any(is_known), "{}", table.name);
            assert!(table.columns.len() < u128::BITS as usize, "{}", table.name);
            for row in SystemTable(table).rows(ColumnSet::ALL, &catalog, &environment, None, &Statistics::default) {
                assert_eq!(row.len(), table.columns.len() + 1, "{}", table.name);
            }
        }
    }
}

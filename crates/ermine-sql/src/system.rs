//! Tables of the system: what drivers and tools ask about the catalog, made when they ask.

use std::{fmt, sync::Arc};

use crate::{
    catalog::{Catalog, Relation, Table},
    session::Column,
    types::{Environment, SqlType, Value},
};

/// One of them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct SystemTable(&'static Described);

struct Described {
    schema: &'static str,
    name: &'static str,
    columns: &'static [(&'static str, SqlType)],
    rows: fn(&Catalog, &Environment) -> Vec<Vec<Value>>,
}

impl PartialEq for Described {
    fn eq(&self, other: &Self) -> bool {
        (self.schema, self.name) == (other.schema, other.name)
    }
}

impl Eq for Described {}

impl fmt::Debug for SystemTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0.schema, self.0.name)
    }
}

const PG_CATALOG: &str = "pg_catalog";
const INFORMATION: &str = "information_schema";
/// Its oid.
const PG_CATALOG_OID: u32 = 11;

const TABLES: &[Described] = &[
    Described {
        schema: PG_CATALOG,
        name: "pg_namespace",
        columns: &[("oid", SqlType::OID), ("nspname", SqlType::NAME), ("nspowner", SqlType::OID)],
        rows: namespaces,
    },
    Described {
        schema: PG_CATALOG,
        name: "pg_class",
        columns: &[
            ("oid", SqlType::OID),
            ("relname", SqlType::NAME),
            ("relnamespace", SqlType::OID),
            ("relowner", SqlType::OID),
            ("relkind", SqlType::TEXT),
            ("reltuples", SqlType::FLOAT4),
            ("relnatts", SqlType::INT2),
            ("relhasindex", SqlType::BOOL),
            ("relpersistence", SqlType::TEXT),
            ("relispartition", SqlType::BOOL),
        ],
        rows: classes,
    },
    Described {
        schema: PG_CATALOG,
        name: "pg_attribute",
        columns: &[
            ("attrelid", SqlType::OID),
            ("attname", SqlType::NAME),
            ("atttypid", SqlType::OID),
            ("attlen", SqlType::INT2),
            ("attnum", SqlType::INT2),
            ("atttypmod", SqlType::INT4),
            ("attnotnull", SqlType::BOOL),
            ("atthasdef", SqlType::BOOL),
            ("attisdropped", SqlType::BOOL),
        ],
        rows: attributes,
    },
    Described {
        schema: PG_CATALOG,
        name: "pg_type",
        columns: &[
            ("oid", SqlType::OID),
            ("typname", SqlType::NAME),
            ("typnamespace", SqlType::OID),
            ("typlen", SqlType::INT2),
            ("typtype", SqlType::TEXT),
            ("typelem", SqlType::OID),
            ("typarray", SqlType::OID),
            ("typbasetype", SqlType::OID),
            ("typtypmod", SqlType::INT4),
            ("typrelid", SqlType::OID),
        ],
        rows: types,
    },
    Described {
        schema: PG_CATALOG,
        name: "pg_index",
        columns: &[
            ("indexrelid", SqlType::OID),
            ("indrelid", SqlType::OID),
            ("indisunique", SqlType::BOOL),
            ("indisprimary", SqlType::BOOL),
            ("indisvalid", SqlType::BOOL),
        ],
        rows: indexes,
    },
    Described {
        schema: PG_CATALOG,
        name: "pg_tables",
        columns: &[("schemaname", SqlType::NAME), ("tablename", SqlType::NAME), ("tableowner", SqlType::NAME)],
        rows: tables,
    },
    Described {
        schema: PG_CATALOG,
        name: "pg_database",
        columns: &[
            ("oid", SqlType::OID),
            ("datname", SqlType::NAME),
            ("encoding", SqlType::INT4),
            ("datallowconn", SqlType::BOOL),
        ],
        rows: |_, environment| {
            vec![vec![Value::Oid(1), text(&environment.database), Value::Int4(6), Value::Bool(true)]]
        },
    },
    // What an extended partitioning of pgbench asks for: there are none.
    Described {
        schema: PG_CATALOG,
        name: "pg_partitioned_table",
        columns: &[("partrelid", SqlType::OID), ("partstrat", SqlType::TEXT)],
        rows: |_, _| Vec::new(),
    },
    Described {
        schema: PG_CATALOG,
        name: "pg_inherits",
        columns: &[("inhrelid", SqlType::OID), ("inhparent", SqlType::OID), ("inhseqno", SqlType::INT4)],
        rows: |_, _| Vec::new(),
    },
    Described {
        schema: INFORMATION,
        name: "tables",
        columns: &[
            ("table_catalog", SqlType::NAME),
            ("table_schema", SqlType::NAME),
            ("table_name", SqlType::NAME),
            ("table_type", SqlType::TEXT),
        ],
        rows: information_tables,
    },
    Described {
        schema: INFORMATION,
        name: "columns",
        columns: &[
            ("table_catalog", SqlType::NAME),
            ("table_schema", SqlType::NAME),
            ("table_name", SqlType::NAME),
            ("column_name", SqlType::NAME),
            ("ordinal_position", SqlType::INT4),
            ("column_default", SqlType::TEXT),
            ("is_nullable", SqlType::TEXT),
            ("data_type", SqlType::TEXT),
        ],
        rows: information_columns,
    },
];

impl SystemTable {
    /// The table of that name.
    pub(crate) fn find(schema: Option<&str>, name: &str) -> Option<Self> {
        let is_meant = |table: &&Described| table.name == name && schema.unwrap_or(PG_CATALOG) == table.schema;
        TABLES.iter().find(is_meant).map(Self)
    }

    pub(crate) fn columns(self) -> Vec<Column> {
        let column =
            |(name, ty): &(&str, SqlType)| Column { name: (*name).to_owned(), ty: *ty, modifier: -1, source: (0, 0) };
        self.0.columns.iter().map(column).collect()
    }

    pub(crate) fn rows(self, catalog: &Catalog, environment: &Environment) -> Vec<Vec<Value>> {
        (self.0.rows)(catalog, environment)
    }
}

/// The number of a relation.
pub(crate) fn oid_of(relation: &Relation) -> u32 {
    match relation {
        Relation::Table(table) => table.def.id,
        Relation::Sequence(sequence) => sequence.def.id,
        Relation::Index(table, None) => table.def.primary_key.as_ref().map_or(0, |key| key.id),
        Relation::Index(table, Some(at)) => table.def.indexes[*at].id,
    }
}

fn text(text: &str) -> Value {
    Value::Text(text.into())
}

fn namespaces(catalog: &Catalog, _: &Environment) -> Vec<Vec<Value>> {
    let own = catalog.schemas().map(|(name, id)| vec![Value::Oid(id), text(name), Value::Oid(10)]);
    own.chain([vec![Value::Oid(PG_CATALOG_OID), text(PG_CATALOG), Value::Oid(10)]]).collect()
}

fn classes(catalog: &Catalog, _: &Environment) -> Vec<Vec<Value>> {
    let class = |id: u32, name: &str, schema: &str, kind: &str, columns: usize, has_index: bool| {
        vec![
            Value::Oid(id),
            text(name),
            Value::Oid(catalog.schema(schema).unwrap_or(0)),
            Value::Oid(10),
            text(kind),
            Value::Float4(-1.0),
            Value::Int2(columns as i16),
            Value::Bool(has_index),
            text("p"),
            Value::Bool(false),
        ]
    };
    let mut rows = Vec::new();
    for table in catalog.tables() {
        let def = &table.def;
        let has_index = def.primary_key.is_some() || !def.indexes.is_empty();
        rows.push(class(def.id, &def.name, &def.schema, "r", def.columns.len(), has_index));
        if let Some(key) = &def.primary_key {
            rows.push(class(key.id, &key.name, &def.schema, "i", key.columns.len(), false));
        }
        for index in &def.indexes {
            rows.push(class(index.id, &index.name, &def.schema, "i", index.columns.len(), false));
        }
    }
    for sequence in catalog.sequences() {
        rows.push(class(sequence.def.id, &sequence.def.name, &sequence.def.schema, "S", 3, false));
    }
    rows
}

fn attributes(catalog: &Catalog, _: &Environment) -> Vec<Vec<Value>> {
    let of_table = |table: &&Arc<Table>| {
        let id = table.def.id;
        let columns = table.def.columns.iter().enumerate().map(move |(at, column)| {
            vec![
                Value::Oid(id),
                text(&column.name),
                Value::Oid(column.ty.oid()),
                Value::Int2(column.ty.typlen()),
                Value::Int2(at as i16 + 1),
                Value::Int4(column.modifier),
                Value::Bool(column.not_null),
                Value::Bool(column.default.is_some()),
                Value::Bool(column.is_dropped),
            ]
        });
        columns.collect::<Vec<_>>()
    };
    catalog.tables().iter().flat_map(of_table).collect()
}

fn types(_: &Catalog, _: &Environment) -> Vec<Vec<Value>> {
    let row = |ty: SqlType| {
        let element = ty.element().map_or(0, SqlType::oid);
        let array = if ty.is_array { 0 } else { ty.array().oid() };
        vec![
            Value::Oid(ty.oid()),
            text(ty.typname()),
            Value::Oid(PG_CATALOG_OID),
            Value::Int2(ty.typlen()),
            text("b"),
            Value::Oid(element),
            Value::Oid(array),
            Value::Oid(0),
            Value::Int4(-1),
            Value::Oid(0),
        ]
    };
    SqlType::all().map(row).collect()
}

fn indexes(catalog: &Catalog, _: &Environment) -> Vec<Vec<Value>> {
    let row = |index: u32, table: u32, flags: [bool; 3]| {
        [Value::Oid(index), Value::Oid(table)].into_iter().chain(flags.map(Value::Bool)).collect::<Vec<_>>()
    };
    let of_table = |table: &&Arc<Table>| {
        let def = &table.def;
        let key = def.primary_key.iter().map(|key| row(key.id, def.id, [true; 3]));
        let indexes = def.indexes.iter().enumerate();
        let indexes = indexes.map(|(at, index)| row(index.id, def.id, [index.is_unique, false, def.is_complete(at)]));
        key.chain(indexes).collect::<Vec<_>>()
    };
    catalog.tables().iter().flat_map(of_table).collect()
}

fn tables(catalog: &Catalog, environment: &Environment) -> Vec<Vec<Value>> {
    let row = |table: &Arc<Table>| vec![text(&table.def.schema), text(&table.def.name), text(&environment.user)];
    catalog.tables().into_iter().map(row).collect()
}

fn information_tables(catalog: &Catalog, environment: &Environment) -> Vec<Vec<Value>> {
    let row = |table: &Arc<Table>| {
        vec![text(&environment.database), text(&table.def.schema), text(&table.def.name), text("BASE TABLE")]
    };
    catalog.tables().into_iter().map(row).collect()
}

fn information_columns(catalog: &Catalog, environment: &Environment) -> Vec<Vec<Value>> {
    use crate::catalog::definition::DefaultDef;
    let of_table = |table: &&Arc<Table>| {
        let columns = table.def.live_columns().map(|(at, column)| {
            let default = match &column.default {
                Some(DefaultDef::Expression(expr)) => text(expr),
                Some(DefaultDef::NextOf(id)) => match catalog.sequence(*id) {
                    Some(sequence) => text(&format!("nextval('{}'::regclass)", sequence.def.name)),
                    None => Value::Null,
                },
                None => Value::Null,
            };
            vec![
                text(&environment.database),
                text(&table.def.schema),
                text(&table.def.name),
                text(&column.name),
                Value::Int4(at as i32 + 1),
                default,
                text(if column.not_null { "NO" } else { "YES" }),
                text(if column.ty.is_array { "ARRAY" } else { column.ty.name() }),
            ]
        });
        columns.collect::<Vec<_>>()
    };
    catalog.tables().iter().flat_map(of_table).collect()
}

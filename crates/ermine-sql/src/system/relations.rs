//! Tables, columns, indexes, constraints, views and sequences.

use std::borrow::Cow;

use super::{
    Described, Known, NULL, PG_CATALOG,
    definitions::{self, ConstraintKind, IndexView, action_code, indexes, plain_tables, shown_constraints},
    dependencies::dependencies,
    functions::reads_sequence,
    privileges, table, types, views,
};
use crate::{
    catalog::{
        Table,
        definition::{CheckOption, ColumnDef, DefaultDef, Identity, SequenceDef, TableDef, ViewColumnDef, ViewDef},
        rights::{Kind, Object},
    },
    types::{Array, Scalar, SqlType, Value, array::Dimension},
};

/// The access method of an index.
const BTREE: u32 = 403;
/// The access method of a table.
const HEAP: u32 = 2;
/// The number of `pg_rewrite`.
/// The collation of texts.
const DEFAULT_COLLATION: u32 = 100;

/// A relation: a table, an index, a view or a sequence.
struct Class {
    oid: u32,
    schema: String,
    name: String,
    kind: &'static str,
    method: u32,
    columns: usize,
    has_index: bool,
    checks: usize,
    /// False only for a materialized view that has no rows yet.
    is_populated: bool,
    /// The options of a view, as they are written.
    options: Vec<String>,
    /// The object that has its owner and rights: of an index, the table.
    object: Object,
}

/// Returns the name of an object's owner.
pub(super) fn owner_name<'a>(known: Known<'a>, object: Object) -> Option<&'a str> {
    known.catalog.role_name(known.catalog.owner(object), known.environment)
}

fn classes(known: Known<'_>) -> impl Iterator<Item = Class> {
    let mut all = Vec::new();
    for table in known.catalog.tables() {
        let def = &table.def;
        all.push(Class {
            oid: def.id,
            schema: def.schema.clone(),
            name: def.name.clone(),
            kind: if def.materialized.is_some() { "m" } else { "r" },
            method: HEAP,
            columns: def.columns.len(),
            has_index: def.primary_key.is_some() || !def.indexes.is_empty(),
            checks: def.checks.len(),
            is_populated: def.materialized.as_ref().is_none_or(|part| part.is_populated),
            options: Vec::new(),
            object: Object::new(Kind::Table, def.id),
        });
    }
    for def in known.catalog.plain_views().map(|view| &view.def) {
        let ViewDef { id, schema, name, columns, check, .. } = def;
        let check = check.map(|check| match check {
            CheckOption::Local => "check_option=local".to_owned(),
            CheckOption::Cascaded => "check_option=cascaded".to_owned(),
        });
        all.push(Class {
            oid: *id,
            schema: schema.clone(),
            name: name.clone(),
            kind: "v",
            method: 0,
            columns: columns.len(),
            has_index: false,
            checks: 0,
            is_populated: true,
            options: def.shown_options().map(|(name, value)| format!("{name}={value}")).chain(check).collect(),
            object: Object::new(Kind::Table, *id),
        });
    }
    for index in indexes(known.catalog) {
        let IndexView { oid, name, table, .. } = index;
        let (schema, name, columns) = (table.def.schema.clone(), name.to_owned(), index.all_columns().count());
        all.push(Class {
            oid,
            schema,
            name,
            kind: "i",
            method: BTREE,
            columns,
            has_index: false,
            checks: 0,
            is_populated: true,
            options: Vec::new(),
            object: Object::new(Kind::Table, table.def.id),
        });
    }
    for SequenceDef { id, schema, name, .. } in known.catalog.sequences().into_iter().map(|sequence| &sequence.def) {
        let (schema, name) = (schema.clone(), name.clone());
        all.push(Class {
            oid: *id,
            schema,
            name,
            kind: "S",
            method: 0,
            columns: 3,
            has_index: false,
            checks: 0,
            is_populated: true,
            options: Vec::new(),
            object: Object::new(Kind::Sequence, *id),
        });
    }
    all.into_iter()
}

/// A column of a table, an index, or a view.
struct Attribute<'a> {
    relation: u32,
    /// Counted from 1.
    number: i16,
    column: Cow<'a, ColumnDef>,
    of_table: bool,
}

impl Attribute<'_> {
    /// The value of an identity column is described by `identity`, not by a default.
    fn has_default(&self) -> bool {
        let is_of_index = !self.of_table && matches!(self.column, Cow::Borrowed(_));
        !is_of_index && !self.column.is_dropped && self.column.default.is_some() && self.column.identity.is_none()
    }

    /// Returns the number of the column's domain.
    fn domain(&self, known: Known<'_>) -> Option<u32> {
        let place = usize::try_from(self.number - 1).ok().filter(|_| self.of_table)?;
        known.catalog.types.of_column(self.relation, place).map(|ty| ty.oid)
    }

    /// Returns the number of its type.
    fn ty(&self, known: Known<'_>) -> u32 {
        match self.column.is_dropped {
            true => 0,
            false => self.domain(known).unwrap_or_else(|| self.column.ty.oid()),
        }
    }

    fn identity(&self) -> &'static str {
        match self.column.identity.filter(|_| self.of_table) {
            None => "",
            Some(Identity::Always) => "a",
            Some(Identity::ByDefault) => "d",
        }
    }

    /// Dropped columns keep their place under a name that no statement uses.
    fn name(&self) -> String {
        match self.column.is_dropped {
            true => format!("........pg.dropped.{}........", self.number),
            false => self.column.name.clone(),
        }
    }
}

fn attributes<'a>(known: Known<'a>) -> impl Iterator<Item = Attribute<'a>> {
    let mut all = Vec::new();
    for table in known.catalog.tables() {
        let columns = table.def.columns.iter().enumerate();
        all.extend(columns.map(|(at, column)| Attribute {
            relation: table.def.id,
            number: at as i16 + 1,
            column: Cow::Borrowed(column),
            of_table: true,
        }));
    }
    for view in known.catalog.plain_views() {
        all.extend((0..view.def.columns.len()).map(|at| Attribute {
            relation: view.def.id,
            number: at as i16 + 1,
            column: Cow::Owned(view_column(&view.def, at)),
            of_table: false,
        }));
    }
    for sequence in known.catalog.sequences() {
        all.extend(SEQUENCE_COLUMNS.iter().zip(1..).map(|((name, ty), number)| Attribute {
            relation: sequence.def.id,
            number,
            column: Cow::Owned(ColumnDef { not_null: true, ..ColumnDef::new((*name).to_owned(), *ty, -1) }),
            of_table: true,
        }));
    }
    for index in indexes(known.catalog) {
        let columns: Vec<_> = index.all_columns().collect();
        all.extend(columns.iter().enumerate().map(|(at, column)| Attribute {
            relation: index.oid,
            number: at as i16 + 1,
            column: part_of_index(&index.table.def, &columns[..at], *column),
            of_table: false,
        }));
    }
    all.into_iter()
}

/// The columns of a sequence.
const SEQUENCE_COLUMNS: [(&str, SqlType); 3] =
    [("last_value", SqlType::INT8), ("log_cnt", SqlType::INT8), ("is_called", SqlType::BOOL)];

/// Returns a column of an index behind others. The name of an expression, or of an included column, gets a number if one
/// of them has it.
fn part_of_index<'a>(table: &'a TableDef, before: &[usize], at: usize) -> Cow<'a, ColumnDef> {
    let column = &table.columns[at];
    let same = before.iter().filter(|own| table.columns[**own].name == column.name).count();
    if same == 0 && column.computation().is_none() {
        return Cow::Borrowed(column);
    }
    let number = if same == 0 { String::new() } else { same.to_string() };
    Cow::Owned(ColumnDef::new(format!("{}{number}", column.name), column.ty, column.modifier))
}

/// Returns a view's column as one of a table.
pub(super) fn view_column(view: &ViewDef, at: usize) -> ColumnDef {
    let ViewColumnDef { name, ty, modifier } = &view.columns[at];
    let default = view.default_of(at).map(|text| DefaultDef::Expression(text.to_owned()));
    ColumnDef { default, ..ColumnDef::new(name.clone(), *ty, *modifier) }
}

/// Returns the defaults of all columns.
fn defaults<'a>(known: Known<'a>) -> impl Iterator<Item = (Attribute<'a>, String)> {
    let text = move |attribute: Attribute<'a>| {
        let text = match attribute.column.default.as_ref().filter(|_| attribute.has_default())? {
            DefaultDef::Expression(text) => definitions::default_of(known, &attribute.column, text),
            DefaultDef::Generated(text) | DefaultDef::Computed(text) => text.clone(),
            DefaultDef::NextOf(sequence) => definitions::next_of(known, *sequence),
        };
        Some((attribute, text))
    };
    attributes(known).filter_map(text)
}

/// Returns how long values of a type are stored, as a letter.
pub(super) fn storage(ty: SqlType) -> &'static str {
    match ty {
        SqlType::NUMERIC | SqlType::INET | SqlType::CIDR => "m",
        _ if ty.typlen() < 0 => "x",
        _ => "p",
    }
}

/// Returns the collation of a type's values.
pub(super) fn collation(ty: SqlType) -> u32 {
    match ty.scalar {
        Scalar::Text | Scalar::Varchar | Scalar::Char => DEFAULT_COLLATION,
        Scalar::Name => 950,
        _ => 0,
    }
}

/// Returns a vector: an array from 0 on.
pub(super) fn vector(scalar: Scalar, elements: impl Iterator<Item = Value>) -> Value {
    let elements: Vec<_> = elements.collect();
    let extent = [Dimension { length: elements.len() as u32, lower: 0 }];
    Array::with_dimensions(scalar, &extent, elements).map_or(NULL, Value::array)
}

/// Returns numbers of columns, from 1 on.
fn numbers(columns: &[usize]) -> Value {
    Value::array(Array::new(Scalar::Int2, columns.iter().map(|at| Value::Int2(*at as i16 + 1)).collect()))
}

/// Returns the number of a column of an index; that of an expression is 0.
fn key_number(table: &Table, at: usize) -> Value {
    Value::Int2(if table.def.columns[at].computation().is_some() { 0 } else { at as i16 + 1 })
}

/// Returns the expressions of an index, if it has any.
fn expressions(index: &IndexView<'_>) -> Option<String> {
    let def = &index.table.def;
    let all: Vec<_> = index.columns.iter().filter_map(|(at, _)| def.columns[*at].computation()).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// The order of an index column: bits for descending and for NULLs first.
fn index_option(descending: bool) -> Value {
    Value::Int2(if descending { 3 } else { 0 })
}

pub(super) const TABLES: &[Described] = &[
    table!(PG_CATALOG, 1259 pg_class, known => classes(known), |class| {
        oid OID = class.oid;
        relname NAME = &class.name;
        relnamespace OID = known.catalog.schema(&class.schema).unwrap_or(0);
        reltype OID = if matches!(class.kind, "i" | "S") { 0 } else { types::row_type(class.oid) };
        reloftype OID = 0u32;
        relowner OID = known.catalog.owner(class.object);
        relam OID = class.method;
        relfilenode OID = class.oid;
        reltablespace OID = 0u32;
        relpages INT4 = 0i32;
        reltuples FLOAT4 = -1f32;
        relallvisible INT4 = 0i32;
        reltoastrelid OID = 0u32;
        relhasindex BOOL = class.has_index;
        relisshared BOOL = false;
        relpersistence CHAR = if crate::catalog::temporary::is_temporary(&class.schema) { "t" } else { "p" };
        relkind CHAR = class.kind;
        relnatts INT2 = class.columns as i16;
        relchecks INT2 = class.checks as i16;
        relhasrules BOOL = matches!(class.kind, "m" | "v");
        // Programs look for foreign keys only where it is true: PostgreSQL has triggers for them.
        relhastriggers BOOL = known.catalog.foreign_keys_at(class.oid).next().is_some();
        relhassubclass BOOL = false;
        relrowsecurity BOOL = known.catalog.row_security(class.oid).is_some_and(|security| security.is_enabled);
        relforcerowsecurity BOOL = known.catalog.row_security(class.oid).is_some_and(|security| security.is_forced);
        relispopulated BOOL = class.is_populated;
        relreplident CHAR = if matches!(class.kind, "m" | "r") { "d" } else { "n" };
        relispartition BOOL = false;
        relrewrite OID = 0u32;
        relfrozenxid OID = 0u32;
        relminmxid OID = 0u32;
        relacl TEXTS = if class.kind == "i" { NULL } else { privileges::of_object(known, class.object) };
        reloptions TEXTS = match class.options.is_empty() {
            true => NULL,
            false => Value::array(Array::new(Scalar::Text, class.options.iter().map(|one| one.as_str().into()).collect())),
        };
        relpartbound TEXT = NULL;
    }),
    table!(PG_CATALOG, 1249 pg_attribute, known => attributes(known), |attribute| {
        attrelid OID = attribute.relation;
        attname NAME = attribute.name();
        atttypid OID = attribute.ty(known);
        attstattarget INT4 = -1i32;
        attlen INT2 = attribute.column.ty.typlen();
        attnum INT2 = attribute.number;
        attndims INT4 = i32::from(attribute.column.ty.is_array);
        attcacheoff INT4 = -1i32;
        atttypmod INT4 = if attribute.domain(known).is_some() { -1 } else { attribute.column.modifier };
        attbyval BOOL = false;
        attalign CHAR = "i";
        attstorage CHAR = storage(attribute.column.ty);
        attcompression CHAR = "";
        attnotnull BOOL = attribute.of_table && attribute.column.not_null;
        atthasdef BOOL = attribute.has_default();
        atthasmissing BOOL = false;
        attidentity CHAR = attribute.identity();
        attgenerated CHAR = if attribute.of_table && attribute.column.generation().is_some() { "s" } else { "" };
        attisdropped BOOL = attribute.column.is_dropped;
        attislocal BOOL = true;
        attinhcount INT4 = 0i32;
        attcollation OID = collation(attribute.column.ty);
        attacl TEXTS = privileges::of_column(known, attribute.relation, attribute.number);
        attoptions TEXTS = NULL;
        attfdwoptions TEXTS = NULL;
        attmissingval TEXT = NULL;
    }),
    table!(PG_CATALOG, 2604 pg_attrdef, known => defaults(known), |(attribute, text)| {
        oid OID = definitions::part(attribute.relation, attribute.number as usize);
        adrelid OID = attribute.relation;
        adnum INT2 = attribute.number;
        adbin TEXT = text;
    }),
    table!(PG_CATALOG, 2610 pg_index, known => indexes(known.catalog), |index| {
        indexrelid OID = index.oid;
        indrelid OID = index.table.def.id;
        indnatts INT2 = index.all_columns().count() as i16;
        indnkeyatts INT2 = index.columns.len() as i16;
        indisunique BOOL = index.is_unique;
        indnullsnotdistinct BOOL = false;
        indisprimary BOOL = index.is_primary;
        indisexclusion BOOL = false;
        indimmediate BOOL = true;
        indisclustered BOOL = false;
        indisvalid BOOL = index.is_complete;
        indcheckxmin BOOL = false;
        indisready BOOL = true;
        indislive BOOL = true;
        indisreplident BOOL = false;
        indkey INT2VECTOR = vector(Scalar::Int2, index.all_columns().map(|at| key_number(index.table, at)));
        indcollation OIDVECTOR = vector(
            Scalar::Oid,
            index.columns.iter().map(|(at, _)| Value::Oid(collation(index.table.def.columns[*at].ty))),
        );
        indclass OIDVECTOR = vector(Scalar::Oid, index.columns.iter().map(|_| Value::Oid(0)));
        indoption INT2VECTOR = vector(
            Scalar::Int2,
            index.columns.iter().map(|(_, descending)| index_option(*descending)),
        );
        indexprs TEXT = expressions(&index);
        indpred TEXT = index.predicate;
    }),
    table!(PG_CATALOG, 2606 pg_constraint, known => shown_constraints(known.catalog), |constraint| {
        oid OID = constraint.oid;
        conname NAME = constraint.name;
        connamespace OID = known.catalog.schema(constraint.schema).unwrap_or(0);
        contype CHAR = match constraint.kind() {
            Some(ConstraintKind::Primary) => "p",
            Some(ConstraintKind::Unique) => "u",
            Some(ConstraintKind::Check(_)) | None => "c",
            Some(ConstraintKind::Foreign(..)) => "f",
        };
        condeferrable BOOL = constraint.foreign().is_some_and(|(key, _)| key.is_deferrable);
        condeferred BOOL = constraint.foreign().is_some_and(|(key, _)| key.is_deferred);
        convalidated BOOL = constraint.foreign().is_none_or(|(key, _)| key.is_valid);
        conrelid OID = constraint.table;
        contypid OID = constraint.domain;
        conindid OID = match constraint.kind() {
            Some(ConstraintKind::Check(_)) | None => 0,
            Some(ConstraintKind::Foreign(key, parent)) => definitions::index_of(key, parent).0,
            Some(ConstraintKind::Primary | ConstraintKind::Unique) => constraint.oid,
        };
        conparentid OID = 0u32;
        confrelid OID = constraint.foreign().map_or(0, |(key, _)| key.parent);
        confupdtype CHAR = constraint.foreign().map_or(" ", |(key, _)| action_code(key.on_update));
        confdeltype CHAR = constraint.foreign().map_or(" ", |(key, _)| action_code(key.on_delete));
        confmatchtype CHAR = constraint.foreign().map_or(" ", |(key, _)| if key.is_full { "f" } else { "s" });
        conislocal BOOL = true;
        coninhcount INT4 = 0i32;
        connoinherit BOOL = true;
        conkey INT2S = if constraint.columns().is_empty() { NULL } else { numbers(constraint.columns()) };
        confkey INT2S = constraint.foreign().map_or(NULL, |(key, _)| numbers(&key.parent_columns));
        conpfeqop OIDS = NULL;
        conppeqop OIDS = NULL;
        conffeqop OIDS = NULL;
        confdelsetcols INT2S = NULL;
        conexclop OIDS = NULL;
        conbin TEXT = constraint.condition;
    }),
    table!(PG_CATALOG, 2224 pg_sequence, known =>
        known.catalog.sequences().into_iter().map(|sequence| &sequence.def), |def| {
        seqrelid OID = def.id;
        seqtypid OID = definitions::sequence_type(def).oid();
        seqstart INT8 = def.start;
        seqincrement INT8 = def.increment;
        seqmax INT8 = def.greatest;
        seqmin INT8 = def.least;
        seqcache INT8 = 1i64;
        seqcycle BOOL = def.cycles;
    }),
    table!(PG_CATALOG, 2608 pg_depend, known => dependencies(known), |(own, on, how)| {
        classid OID = own.0;
        objid OID = own.1;
        objsubid INT4 = own.2;
        refclassid OID = on.0;
        refobjid OID = on.1;
        refobjsubid INT4 = on.2;
        deptype CHAR = how;
    }),
    table!(PG_CATALOG, 2618 pg_rewrite, known => known.catalog.views(), |view| {
        oid OID = definitions::part(view.def.id, 0);
        rulename NAME = "_RETURN";
        ev_class OID = view.def.id;
        ev_type CHAR = "1";
        ev_enabled CHAR = "O";
        is_instead BOOL = true;
        ev_qual TEXT = "<>";
        ev_action TEXT = views::definition(known, view);
    }),
    table!(PG_CATALOG, 0 pg_views, known => known.catalog.plain_views(), |view| {
        schemaname NAME = &view.def.schema;
        viewname NAME = &view.def.name;
        viewowner NAME = owner_name(known, Object::new(Kind::Table, view.def.id));
        definition TEXT = views::definition(known, view);
    }),
    table!(PG_CATALOG, 0 pg_matviews, known => known.catalog.views().filter_map(move |view| {
        Some((view, &known.catalog.table(view.def.id)?.def))
    }), |(view, def)| {
        schemaname NAME = &def.schema;
        matviewname NAME = &def.name;
        matviewowner NAME = owner_name(known, Object::new(Kind::Table, def.id));
        tablespace NAME = NULL;
        hasindexes BOOL = !def.indexes.is_empty();
        ispopulated BOOL = def.materialized.as_ref().is_some_and(|part| part.is_populated);
        definition TEXT = views::definition(known, view);
    }),
    table!(PG_CATALOG, 0 pg_tables, known => plain_tables(known.catalog).map(|table| &table.def), |def| {
        schemaname NAME = &def.schema;
        tablename NAME = &def.name;
        tableowner NAME = owner_name(known, Object::new(Kind::Table, def.id));
        tablespace NAME = NULL;
        hasindexes BOOL = def.primary_key.is_some() || !def.indexes.is_empty();
        hasrules BOOL = false;
        hastriggers BOOL = false;
        rowsecurity BOOL = known.catalog.row_security(def.id).is_some_and(|security| security.is_enabled);
    }),
    table!(PG_CATALOG, 0 pg_indexes, known => indexes(known.catalog), |index| {
        schemaname NAME = &index.table.def.schema;
        tablename NAME = &index.table.def.name;
        indexname NAME = index.name;
        tablespace NAME = NULL;
        indexdef TEXT = definitions::index(&index, false);
    }),
    table!(PG_CATALOG, 0 pg_sequences, known =>
        known.catalog.sequences().into_iter().map(|sequence| (&sequence.def, sequence)), |(def, sequence)| {
        schemaname NAME = &def.schema;
        sequencename NAME = &def.name;
        sequenceowner NAME = owner_name(known, Object::new(Kind::Sequence, def.id));
        data_type TEXT = definitions::sequence_type(def).name();
        start_value INT8 = def.start;
        min_value INT8 = def.least;
        max_value INT8 = def.greatest;
        increment_by INT8 = def.increment;
        cycle BOOL = def.cycles;
        cache_size INT8 = 1i64;
        last_value INT8 = sequence
            .state()
            .ok()
            .filter(|(_, is_called)| *is_called && reads_sequence(known.catalog, known.environment.role, def.id))
            .map(|(last, _)| last);
    }),
];

//! CREATE TABLE, SEQUENCE, SCHEMA.

use sqlparser::ast::{
    self, ColumnOption, GeneratedAs, SequenceOptions, Statement, TableConstraint,
    helpers::stmt_create_table::CreateTableBuilder,
};

use super::{
    context::ChangeContext, foreign_key::ForeignKeyTree, free_name_of, index::check_ordered, like::NewColumns, skip,
    types::check_no_type,
};
use crate::{
    bind::{
        Binder, Typed,
        names::{collation_of, name_of, simple_name, simple_type_name, type_of},
        unnested,
    },
    catalog::{
        Change, Relation, Table,
        definition::{
            CheckDef, ColumnDef, DefaultDef, Definition, Identity, IndexDef, KeyDef, SchemaDef, SequenceDef, TableDef,
        },
        progress::{Command, Phase, Reporting},
        temporary::is_temporary,
    },
    error::{Result, SqlError, SqlState},
    exec::{Run, check_rows, fill_index},
    expr::{Expr, NextOf},
    parse::like_of,
    result::RowSink,
    transaction::ActiveTransaction,
    types::SqlType,
};

/// Maximum number of columns of a table, including dropped ones, as in PostgreSQL.
const COLUMNS_MAX: usize = 1600;

/// The parts of a table's definition besides its columns.
#[derive(Default)]
pub(super) struct Constraints {
    primary: Option<KeyTree>,
    unique: Vec<KeyTree>,
    checks: Vec<(Option<String>, ast::Expr)>,
    pub(super) foreign: Vec<ForeignKeyTree>,
    /// The numbers of columns that have domains, and those of the domains.
    pub(super) domains: Vec<(usize, u32)>,
}

/// A primary key or a unique constraint, by the names of its columns.
pub(super) struct KeyTree {
    pub(super) name: Option<String>,
    pub(super) columns: Vec<String>,
    pub(super) included: Vec<String>,
}

impl KeyTree {
    /// Returns the names of all columns, as that of an index has them: numbers tell equal ones apart.
    fn joined(&self) -> String {
        let mut names = Vec::new();
        self.columns.iter().chain(&self.included).for_each(|name| add_name(&mut names, name.clone()));
        names.join("_")
    }
}

impl ChangeContext<'_> {
    pub(super) fn create_table(
        &self,
        active: &mut ActiveTransaction,
        create: &ast::CreateTable,
        rows: &mut dyn RowSink,
    ) -> Result<String> {
        let ast::CreateTable { name, columns, constraints, if_not_exists, .. } = create;
        if !is_plain(create) {
            return Err(SqlError::unsupported("this form of CREATE TABLE"));
        }
        let (schema, own) = self.place_of_new(active, name, create.temporary)?;
        if active.catalog.find(&schema, &own).is_some() {
            let message = format!("relation \"{own}\" already exists");
            if *if_not_exists {
                skip(rows, SqlState::DUPLICATE_TABLE, format!("{message}, skipping"));
                return Ok("CREATE TABLE".into());
            }
            return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
        }
        check_no_type(active, &schema, &own)?;
        self.take_parents(active, None, &foreign_keys_of(columns, constraints))?;
        let id = self.catalog_number()?;
        let mut all = Constraints::default();
        let (mut defined, mut sequences, mut likes) = (Vec::new(), Vec::new(), Vec::new());
        for column in columns {
            if let Some((source, options)) = like_of(&column.name)? {
                let (columns, sequences, constraints) = (&mut defined, &mut sequences, &mut all);
                let mut new = NewColumns { table: (id, &schema, &own), columns, sequences, constraints };
                likes.extend(self.like(active, &source, options, &mut new)?);
                continue;
            }
            let (column, sequence) = self.column_def(active, (id, &schema, &own), defined.len(), column, &mut all)?;
            if defined.iter().any(|known: &ColumnDef| known.name == column.name) {
                return Err(duplicate_column_name(&column.name));
            }
            defined.push(column);
            sequences.extend(sequence);
        }
        for constraint in constraints {
            all.add(constraint, &own)?;
        }
        let mut def = TableDef {
            id,
            schema: schema.clone(),
            name: own.clone(),
            columns: defined,
            primary_key: None,
            indexes: Vec::new(),
            checks: Vec::new(),
            relation_file: 0,
            unfinished: None,
            materialized: None,
        };
        // The name first: what is taken after it is not given back.
        self.take_name(active, &schema, &own, true)?;
        def.relation_file = self.relation_file(active, &def.schema)?;
        let foreign = std::mem::take(&mut all.foreign);
        if !all.domains.is_empty() && is_temporary(&schema) {
            return Err(SqlError::unsupported("a temporary table with a column of a domain"));
        }
        let mut changes = self.uses_of_domains(active, id, &all.domains)?;
        self.add_constraints(active, &mut def, all)?;
        likes.iter_mut().try_for_each(|like| self.like_indexes(active, &mut def, like))?;
        self.take_names(active, &def)?;
        for sequence in sequences {
            self.take_name(active, &schema, &sequence.name, true)?;
            changes.push(Change::Put(Definition::Sequence(sequence)));
        }
        changes.push(Change::Put(Definition::Table(def)));
        self.apply(active, changes)?;
        // Invalid conditions are reported now.
        let table = match active.catalog.find(&schema, &own) {
            Some(Relation::Table(table)) => table,
            _ => return Err(SqlError::new(SqlState::INTERNAL_ERROR, "the new table is not there")),
        };
        self.check_definition(active, &table)?;
        self.add_foreign_keys(active, id, foreign, true)?;
        likes.iter().try_for_each(|like| self.like_comments(active, id, like))?;
        self.ends_with(active, id, create.on_commit)?;
        Ok("CREATE TABLE".into())
    }

    /// Binds the expressions of a table's definition.
    pub(super) fn check_definition(&self, active: &ActiveTransaction, table: &std::sync::Arc<Table>) -> Result<()> {
        let mut binder = Binder::new(&active.catalog, self.environment, self.search_path, &[]);
        binder.rules(table)?;
        (0..table.def.columns.len()).try_for_each(|at| binder.default_of(table, at).map(drop))
    }

    /// Takes the names of a new table's key and indexes.
    fn take_names(&self, active: &ActiveTransaction, def: &TableDef) -> Result<()> {
        let indexes = def.indexes.iter().map(|index| &index.name);
        let mut names = def.primary_key.iter().map(|key| &key.name).chain(indexes);
        names.try_for_each(|name| self.take_name(active, &def.schema, name, true))
    }

    /// Returns a column, and the sequence that belongs to it.
    pub(super) fn column_def(
        &self,
        active: &ActiveTransaction,
        (table, schema, table_name): (u32, &str, &str),
        at: usize,
        column: &ast::ColumnDef,
        all: &mut Constraints,
    ) -> Result<(ColumnDef, Option<SequenceDef>)> {
        check_column_count(at + 1)?;
        let name = name_of(&column.name);
        self.check_type_usage(active, &column.data_type)?;
        let (ty, modifier, is_serial) = match serial(&column.data_type) {
            Some(ty) => (ty, -1, true),
            None => {
                let (ty, modifier) = type_of(&column.data_type, self.environment)?;
                all.domains.extend(self.domain_of(&column.data_type)?.map(|domain| (at, domain.oid)));
                (ty, modifier, false)
            }
        };
        let mut def = ColumnDef { not_null: is_serial, ..ColumnDef::new(name.clone(), ty, modifier) };
        let generated = column_options(column, &mut def, table_name, all)?;
        def.default = def.default.map(|default| self.drawn(active, default, ty));
        let options = generated.or(is_serial.then_some(&[]));
        let Some(options) = options else { return Ok((def, None)) };
        if !ty.is_integer() {
            let message = "identity column type must be smallint, integer, or bigint";
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        let own = self.free_name(active, schema, table_name, &name, "seq", &[]);
        let mut sequence = sequence_def(self.catalog_number()?, schema, &own, Some(ty), options)?;
        sequence.owner = Some((table, at));
        def.default = Some(DefaultDef::NextOf(sequence.id));
        Ok((def, Some(sequence)))
    }

    /// Returns a default that is the next number of a sequence as such: it stays when the sequence is renamed.
    pub(super) fn drawn(&self, active: &ActiveTransaction, default: DefaultDef, ty: SqlType) -> DefaultDef {
        let DefaultDef::Expression(text) = &default else { return default };
        let mut binder = Binder::new(&active.catalog, self.environment, self.search_path, &[]);
        // An invalid expression is reported with those of the whole definition.
        match crate::parse::expression(text).and_then(|expr| binder.expr(&expr)) {
            Ok(Typed { expr: Expr::Next(NextOf(sequence, _)), .. }) if ty.is_integer() => {
                DefaultDef::NextOf(sequence.def.id)
            }
            _ => default,
        }
    }

    /// Adds constraints to a definition that has its columns.
    pub(super) fn add_constraints(
        &self,
        active: &ActiveTransaction,
        def: &mut TableDef,
        all: Constraints,
    ) -> Result<()> {
        let Constraints { primary, unique, checks, foreign: _, domains: _ } = all;
        let mut taken = vec![def.name.clone()];
        let known = self.constraint_names(active, def);
        let named = primary.iter().chain(&unique).filter_map(|key| key.name.as_ref());
        for name in named.chain(checks.iter().filter_map(|check| check.0.as_ref())) {
            if known.contains(name) && active.catalog.find(&def.schema, name).is_none() {
                let message = format!("constraint \"{name}\" for relation \"{}\" already exists", def.name);
                return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
            }
        }
        if let Some(KeyTree { name, columns, included }) = primary {
            if def.primary_key.is_some() {
                let message = format!("multiple primary keys for table \"{}\" are not allowed", def.name);
                return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
            }
            let (columns, included) = (columns_of(def, &columns)?, included_of(def, &included, " named in key")?);
            for &at in &columns {
                def.columns[at].not_null = true;
            }
            let name = name.unwrap_or_else(|| self.free_name(active, &def.schema, &def.name, "", "pkey", &taken));
            self.check_free(active, &def.schema, &name, &taken)?;
            taken.push(name.clone());
            def.primary_key = Some(KeyDef { id: self.catalog_number()?, name, columns, included });
        }
        for key in unique {
            let places = columns_of(def, &key.columns)?;
            let (included, all) = (included_of(def, &key.included, " named in key")?, key.joined());
            let name = key.name.unwrap_or_else(|| self.free_name(active, &def.schema, &def.name, &all, "key", &taken));
            self.check_free(active, &def.schema, &name, &taken)?;
            taken.push(name.clone());
            def.indexes.push(IndexDef {
                id: self.catalog_number()?,
                relation_file: self.relation_file(active, &def.schema)?,
                name,
                is_unique: true,
                is_constraint: true,
                columns: places.into_iter().map(|at| (at, false)).collect(),
                predicate: None,
                included,
            });
        }
        for (name, condition) in checks {
            let is_taken = |name: &str| {
                let keys = def.primary_key.iter().map(|key| &key.name);
                let indexes = def.indexes.iter().filter(|index| index.is_constraint).map(|index| &index.name);
                let mut names = def.checks.iter().map(|check| &check.name).chain(keys).chain(indexes);
                names.any(|own| own == name)
            };
            let name = match name {
                Some(name) if is_taken(&name) => {
                    let message = format!("constraint \"{name}\" for relation \"{}\" already exists", def.name);
                    return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
                }
                Some(name) => name,
                // Named after the column, if it refers to only one.
                None => {
                    let mut binder = Binder::new(&active.catalog, self.environment, self.search_path, &[]);
                    let columns: Vec<_> = binder.columns_of_check(def, &condition)?.into_iter().collect();
                    let column = if let [one] = columns[..] { &*def.columns[one].name } else { "" };
                    free_name_of(&def.name, column, "check", &is_taken)
                }
            };
            def.checks.push(CheckDef { name, condition: unnested(&condition).to_string() });
        }
        Ok(())
    }

    fn check_free(&self, active: &ActiveTransaction, schema: &str, name: &str, taken: &[String]) -> Result<()> {
        if active.catalog.find(schema, name).is_some() || taken.iter().any(|own| own == name) {
            return Err(SqlError::new(SqlState::DUPLICATE_TABLE, format!("relation \"{name}\" already exists")));
        }
        Ok(())
    }

    /// Puts the rows of a table into new indexes, and checks that all rows meet its rules.
    pub(super) fn fill(&self, active: &ActiveTransaction, table: u32, indexes: &[usize]) -> Result<()> {
        let missing = || SqlError::new(SqlState::INTERNAL_ERROR, "the table is not there");
        let table = active.catalog.table(table).ok_or_else(missing)?;
        self.check_sees_all(active, table)?;
        let rules = Binder::new(&active.catalog, self.environment, self.search_path, &[]).rules(table)?;
        let run = Run::new(&active.txn, &active.catalog, &[], self.environment, self.given);
        if indexes.is_empty() {
            return check_rows(&run, table, &rules);
        }
        for at in indexes {
            let index = table.def.indexes[*at].id;
            let progress = Reporting::begin(self.party.footprint.clone(), Command::CreateIndex, table.def.id, index);
            progress.enters(Phase::Scanning, active.catalog.estimated_rows(table));
            fill_index(&run, table, &rules, *at, &progress)?;
        }
        Ok(())
    }

    pub(super) fn create_sequence(
        &self,
        active: &mut ActiveTransaction,
        create: &Statement,
        rows: &mut dyn RowSink,
    ) -> Result<String> {
        let Statement::CreateSequence { temporary, if_not_exists, name, data_type, sequence_options, owned_by } =
            create
        else {
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, "not a sequence"));
        };
        if owned_by.is_some() {
            return Err(SqlError::unsupported("this form of CREATE SEQUENCE"));
        }
        let (schema, own) = self.place_of_new(active, name, *temporary)?;
        if active.catalog.find(&schema, &own).is_some() {
            let message = format!("relation \"{own}\" already exists");
            if *if_not_exists {
                skip(rows, SqlState::DUPLICATE_TABLE, format!("{message}, skipping"));
                return Ok("CREATE SEQUENCE".into());
            }
            return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
        }
        let ty = data_type.as_ref().map(|ty| type_of(ty, self.environment)).transpose()?.map(|(ty, _)| ty);
        let def = sequence_def(self.catalog_number()?, &schema, &own, ty, sequence_options)?;
        self.take_name(active, &schema, &own, true)?;
        self.apply(active, vec![Change::Put(Definition::Sequence(def))])?;
        Ok("CREATE SEQUENCE".into())
    }

    pub(super) fn create_schema(
        &self,
        active: &mut ActiveTransaction,
        create: &Statement,
        rows: &mut dyn RowSink,
    ) -> Result<String> {
        let Statement::CreateSchema {
            schema_name: ast::SchemaName::Simple(name),
            or_replace: false,
            if_not_exists,
            with: None,
            options: None,
            default_collate_spec: None,
            clone: None,
        } = create
        else {
            return Err(SqlError::unsupported("this form of CREATE SCHEMA"));
        };
        let name = simple_name(name)?;
        if active.catalog.schema(&name).is_some() {
            let message = format!("schema \"{name}\" already exists");
            if *if_not_exists {
                skip(rows, SqlState::DUPLICATE_SCHEMA, format!("{message}, skipping"));
                return Ok("CREATE SCHEMA".into());
            }
            return Err(SqlError::new(SqlState::DUPLICATE_SCHEMA, message));
        }
        if name.starts_with("pg_") {
            let message = format!("unacceptable schema name \"{name}\"");
            let detail = "The prefix \"pg_\" is reserved for system schemas.";
            return Err(SqlError::new(SqlState::RESERVED_NAME, message).detail(detail));
        }
        self.take_name(active, "", &name, true)?;
        let def = SchemaDef { id: self.catalog_number()?, name };
        self.apply(active, vec![Change::Put(Definition::Schema(def))])?;
        Ok("CREATE SCHEMA".into())
    }
}

/// Fails for more columns than a table can have.
pub(super) fn check_column_count(columns: usize) -> Result<()> {
    if columns <= COLUMNS_MAX {
        return Ok(());
    }
    let message = format!("tables can have at most {COLUMNS_MAX} columns");
    Err(SqlError::new(SqlState::TOO_MANY_COLUMNS, message))
}

/// Returns the error of a name that a new table has twice.
pub(super) fn duplicate_column_name(name: &str) -> SqlError {
    SqlError::new(SqlState::DUPLICATE_COLUMN, format!("column \"{name}\" specified more than once"))
}

impl Constraints {
    pub(super) fn set_primary(&mut self, key: KeyTree, table: &str) -> Result<()> {
        if self.primary.is_some() {
            let message = format!("multiple primary keys for table \"{table}\" are not allowed");
            return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
        }
        self.primary = Some(key);
        Ok(())
    }

    pub(super) fn add_check(&mut self, name: String, condition: ast::Expr) {
        self.checks.push((Some(name), condition));
    }

    pub(super) fn has_primary(&self) -> bool {
        self.primary.is_some()
    }

    /// Adds a table constraint.
    pub(super) fn add(&mut self, constraint: &TableConstraint, table: &str) -> Result<()> {
        let names = |columns: &[ast::IndexColumn]| {
            let name = |column: &ast::IndexColumn| match &column.column.expr {
                ast::Expr::Identifier(ident) => Ok(name_of(ident)),
                _ => Err(SqlError::unsupported("a constraint on an expression")),
            };
            columns.iter().map(name).collect::<Result<Vec<_>>>()
        };
        match constraint {
            TableConstraint::PrimaryKey(key) => {
                check_characteristics(key.characteristics)?;
                let (name, included) = (key.name.as_ref().map(name_of), key.include.iter().map(name_of).collect());
                self.set_primary(KeyTree { name, columns: names(&key.columns)?, included }, table)
            }
            TableConstraint::Unique(unique) => {
                check_characteristics(unique.characteristics)?;
                if unique.nulls_distinct == ast::NullsDistinctOption::NotDistinct {
                    return Err(SqlError::unsupported("UNIQUE with NULLS NOT DISTINCT"));
                }
                let (name, included) =
                    (unique.name.as_ref().map(name_of), unique.include.iter().map(name_of).collect());
                self.unique.push(KeyTree { name, columns: names(&unique.columns)?, included });
                Ok(())
            }
            TableConstraint::Check(check) => {
                check_enforced(check)?;
                self.checks.push((check.name.as_ref().map(name_of), (*check.expr).clone()));
                Ok(())
            }
            TableConstraint::ForeignKey(key) => {
                self.foreign.push(ForeignKeyTree::new(key, None, None));
                Ok(())
            }
            other => Err(SqlError::unsupported(format_args!("the constraint {other}"))),
        }
    }
}

/// Returns the foreign keys of a statement.
pub(super) fn foreign_keys_of<'c>(
    columns: &'c [ast::ColumnDef],
    constraints: &'c [TableConstraint],
) -> Vec<&'c ast::ForeignKeyConstraint> {
    let of_columns = columns.iter().flat_map(|column| &column.options).filter_map(|option| match &option.option {
        ColumnOption::ForeignKey(key) => Some(key),
        _ => None,
    });
    let of_table = constraints.iter().filter_map(|constraint| match constraint {
        TableConstraint::ForeignKey(key) => Some(key),
        _ => None,
    });
    of_columns.chain(of_table).collect()
}

/// Whether it defines nothing but columns and constraints. Storage has no parameters to set (WITH), and all tables are
/// durable (UNLOGGED).
fn is_plain(create: &ast::CreateTable) -> bool {
    let plain = CreateTableBuilder::new(create.name.clone())
        .columns(create.columns.clone())
        .constraints(create.constraints.clone())
        .if_not_exists(create.if_not_exists);
    let is_default = |option: &ast::SqlOption| match option {
        ast::SqlOption::TableSpace(space) => space.name.eq_ignore_ascii_case("pg_default"),
        _ => false,
    };
    let with = match &create.table_options {
        with @ ast::CreateTableOptions::With(_) => with.clone(),
        place @ ast::CreateTableOptions::Plain(options) if options.iter().all(is_default) => place.clone(),
        _ => ast::CreateTableOptions::None,
    };
    let (unlogged, temporary, on_commit, global) =
        (create.unlogged, create.temporary, create.on_commit, create.global.filter(|_| create.temporary));
    *create == ast::CreateTable { unlogged, temporary, on_commit, global, table_options: with, ..plain.build() }
}

/// Fails for a constraint that is not always enforced, with each statement.
fn check_characteristics(asked: Option<ast::ConstraintCharacteristics>) -> Result<()> {
    match asked {
        Some(
            ast::ConstraintCharacteristics { deferrable: Some(true), .. }
            | ast::ConstraintCharacteristics { initially: Some(ast::DeferrableInitial::Deferred), .. },
        ) => Err(SqlError::unsupported("a constraint that is DEFERRABLE")),
        Some(ast::ConstraintCharacteristics { enforced: Some(false), .. }) => Err(not_enforced()),
        _ => Ok(()),
    }
}

fn check_enforced(check: &ast::CheckConstraint) -> Result<()> {
    if check.enforced == Some(false) { Err(not_enforced()) } else { Ok(()) }
}

fn not_enforced() -> SqlError {
    SqlError::unsupported("a constraint that is NOT ENFORCED")
}

pub(super) fn columns_of(def: &TableDef, names: &[String]) -> Result<Vec<usize>> {
    let mut places = Vec::new();
    for name in names {
        let at = def.column(name).ok_or_else(|| {
            SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" named in key does not exist"))
        })?;
        check_ordered(def.columns[at].ty)?;
        if places.contains(&at) {
            let message = format!("column \"{name}\" appears twice in the key");
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        places.push(at);
    }
    Ok(places)
}

/// Returns the columns that an index includes; `role`: words behind a name in the error that no column has it.
pub(super) fn included_of(def: &TableDef, names: &[String], role: &str) -> Result<Vec<usize>> {
    let places = names.iter().map(|name| {
        def.column(name)
            .ok_or_else(|| SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\"{role} does not exist")))
    });
    places.collect()
}

/// Adds the name of a column to those of an index, with a number if one of them is the same.
pub(super) fn add_name(names: &mut Vec<String>, label: String) {
    let (mut name, mut number) = (label.clone(), 0);
    while names.contains(&name) {
        number += 1;
        name = format!("{label}{number}");
    }
    names.push(name);
}

/// Returns the type of a column that draws its values from a sequence.
fn serial(data_type: &ast::DataType) -> Option<SqlType> {
    let ast::DataType::Custom(name, _) = data_type else { return None };
    Some(match &*simple_type_name(name).ok()? {
        "serial" | "serial4" => SqlType::INT4,
        "bigserial" | "serial8" => SqlType::INT8,
        "smallserial" | "serial2" => SqlType::INT2,
        _ => return None,
    })
}

/// Returns the least and the greatest number of a type.
pub(super) fn bounds_of(ty: SqlType) -> (i64, i64) {
    match ty {
        SqlType::INT2 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        SqlType::INT4 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    }
}

/// Returns a sequence with the given options.
pub(super) fn sequence_def(
    id: u32,
    schema: &str,
    name: &str,
    ty: Option<SqlType>,
    options: &[SequenceOptions],
) -> Result<SequenceDef> {
    let invalid = |message: &str| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let number = |expr: &ast::Expr| {
        expr.to_string().replace(' ', "").parse::<i64>().map_err(|_| invalid("a number was expected for the sequence"))
    };
    let (type_least, type_greatest) = bounds_of(ty.unwrap_or(SqlType::INT8));
    let (mut increment, mut cycles) = (1, false);
    let (mut start, mut least, mut greatest) = (None, None, None);
    for option in options {
        match option {
            SequenceOptions::IncrementBy(by, _) => increment = number(by)?,
            SequenceOptions::MinValue(value) => least = value.as_ref().map(number).transpose()?,
            SequenceOptions::MaxValue(value) => greatest = value.as_ref().map(number).transpose()?,
            SequenceOptions::StartWith(value, _) => start = Some(number(value)?),
            SequenceOptions::Cache(_) => {}
            // The grammar represents NO CYCLE as `true`.
            SequenceOptions::Cycle(no) => cycles = !no,
        }
    }
    let least = least.unwrap_or(if increment > 0 { 1 } else { type_least });
    let greatest = greatest.unwrap_or(if increment > 0 { type_greatest } else { -1 });
    let start = start.unwrap_or(if increment > 0 { least } else { greatest });
    let (schema, name) = (schema.to_owned(), name.to_owned());
    let def = SequenceDef { id, schema, name, start, increment, least, greatest, cycles, owner: None };
    check_sequence(&def)?;
    Ok(def)
}

/// Fails if the numbers of a sequence contradict each other.
pub(super) fn check_sequence(def: &SequenceDef) -> Result<()> {
    let invalid = |message: String| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    let SequenceDef { start, increment, least, greatest, .. } = def;
    if *increment == 0 {
        return invalid("INCREMENT must not be zero".into());
    }
    if least >= greatest {
        return invalid(format!("MINVALUE ({least}) must be less than MAXVALUE ({greatest})"));
    }
    if !(least..=greatest).contains(&start) {
        return invalid(format!("START value ({start}) must be between MINVALUE ({least}) and MAXVALUE ({greatest})"));
    }
    Ok(())
}

/// Returns the default that an expression stands for. NULL is none, except where a domain might have another one.
pub(super) fn default_of(expr: &ast::Expr, ty: SqlType) -> Option<DefaultDef> {
    let is_null = matches!(expr, ast::Expr::Value(value) if value.value == ast::Value::Null);
    (!is_null || ty.created().is_some()).then(|| DefaultDef::Expression(expr.to_string()))
}

/// Applies the options of a column to its definition, and adds the constraints among them to `all`; returns the options
/// of the sequence of an identity column.
fn column_options<'c>(
    column: &'c ast::ColumnDef,
    def: &mut ColumnDef,
    table_name: &str,
    all: &mut Constraints,
) -> Result<Option<&'c [SequenceOptions]>> {
    let (mut generated, mut generation): (Option<&[SequenceOptions]>, _) = (None, None);
    for option in &column.options {
        let constraint = option.name.as_ref().map(name_of);
        match &option.option {
            ColumnOption::Null => {}
            ColumnOption::NotNull => def.not_null = true,
            ColumnOption::Default(expr) => def.default = default_of(expr, def.ty),
            ColumnOption::PrimaryKey(key) => {
                check_characteristics(key.characteristics)?;
                let columns = vec![def.name.clone()];
                all.set_primary(KeyTree { name: constraint, columns, included: Vec::new() }, table_name)?;
            }
            ColumnOption::Unique(unique) => {
                check_characteristics(unique.characteristics)?;
                let columns = vec![def.name.clone()];
                all.unique.push(KeyTree { name: constraint, columns, included: Vec::new() });
            }
            ColumnOption::Check(check) => {
                check_enforced(check)?;
                let own = constraint.or_else(|| check.name.as_ref().map(name_of));
                all.checks.push((own, (*check.expr).clone()));
            }
            ColumnOption::Collation(collation) => drop(collation_of(collation)?),
            ColumnOption::Generated { generated_as, sequence_options, generation_expr: None, .. } => {
                def.identity = Some(match generated_as {
                    GeneratedAs::Always => Identity::Always,
                    _ => Identity::ByDefault,
                });
                def.not_null = true;
                generated = Some(sequence_options.as_deref().unwrap_or(&[]));
            }
            ColumnOption::Generated { generated_as: GeneratedAs::ExpStored, generation_expr: Some(expr), .. } => {
                generation = Some(DefaultDef::Generated(unnested(expr).to_string()));
            }
            ColumnOption::Generated { .. } => return Err(SqlError::unsupported("a generated column")),
            ColumnOption::ForeignKey(key) => {
                all.foreign.push(ForeignKeyTree::new(key, constraint, Some(&def.name)));
            }
            other => return Err(SqlError::unsupported(format_args!("the column option {other}"))),
        }
    }
    if generation.is_some() {
        let other = match (&def.default, def.identity) {
            (Some(_), _) => Some("default"),
            (None, Some(_)) => Some("identity"),
            (None, None) => None,
        };
        if let Some(other) = other {
            let message = format!(
                "both {other} and generation expression specified for column \"{}\" of table \"{table_name}\"",
                def.name
            );
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        def.default = generation;
    }
    Ok(generated)
}

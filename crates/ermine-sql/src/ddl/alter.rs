//! ALTER TABLE.

use sqlparser::ast::{self, AlterColumnOperation, AlterTableOperation, RenameTableNameKind};

use super::{create::Constraints, skip, skip_missing};
use crate::{
    bind::{
        Binder,
        names::{name_of, relation_of, type_of},
    },
    catalog::{
        Change,
        definition::{DefaultDef, Definition, TableDef},
    },
    error::{Result, SqlError, SqlState},
    exec::{Run, duplicated, move_rows},
    expr::Frame,
    session::{Rows, Session, transaction::Open},
    types::row::write_row,
};

/// Returns the error of a column that a table does not have.
pub(super) fn missing(name: &str, table: &str) -> SqlError {
    let message = format!("column \"{name}\" of relation \"{table}\" does not exist");
    SqlError::new(SqlState::UNDEFINED_COLUMN, message)
}

impl Session {
    pub(super) fn alter_table(
        &mut self,
        open: &mut Open,
        alter: &ast::AlterTable,
        rows: &mut dyn Rows,
    ) -> Result<String> {
        let Some(table) = self.table_alone(open, &alter.name, alter.if_exists)? else {
            skip_missing(rows, &alter.name);
            return Ok("ALTER TABLE".into());
        };
        let id = table.def.id;
        for operation in &alter.operations {
            let table = open.catalog.table(id).expect("it is only changed here").clone();
            self.alter_once(open, table.def.clone(), operation, rows)?;
        }
        Ok("ALTER TABLE".into())
    }

    fn alter_once(
        &mut self,
        open: &mut Open,
        mut def: TableDef,
        operation: &AlterTableOperation,
        rows: &mut dyn Rows,
    ) -> Result<()> {
        let (id, schema) = (def.id, def.schema.clone());
        match operation {
            AlterTableOperation::AddColumn { if_not_exists, column_def, .. } => {
                let name = name_of(&column_def.name);
                if def.column(&name).is_some() {
                    let message = format!("column \"{name}\" of relation \"{}\" already exists", def.name);
                    if *if_not_exists {
                        skip(rows, SqlState::DUPLICATE_COLUMN, format!("{message}, skipping"));
                        return Ok(());
                    }
                    return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
                }
                let mut constraints = Constraints::default();
                let at = def.columns.len();
                let (mut column, sequence) =
                    self.column_def(open, (id, &schema, &def.name.clone()), at, column_def, &mut constraints)?;
                if sequence.is_some() {
                    return Err(SqlError::unsupported("adding a column with a sequence"));
                }
                if constraints.has_primary() {
                    return Err(SqlError::unsupported("adding a column as a primary key")
                        .hint("Add the column first, then ADD PRIMARY KEY."));
                }
                if let Some(DefaultDef::Expression(text)) = &column.default {
                    // The value of the column in the existing rows.
                    let expr = crate::session::parse::expression(text)?;
                    let mut binder = Binder::new(&open.catalog, self.environment(), self.search_path(), &[]);
                    let typed = binder.expr(&expr)?;
                    let bound = binder.assign(typed, column.ty, column.modifier, &column.name)?;
                    if bound.is_volatile() {
                        return Err(SqlError::unsupported("adding a column whose default is another one for each row")
                            .hint("Add the column without it, update the rows, then SET DEFAULT."));
                    }
                    let run = Run::new(&open.txn, &open.catalog, &[], self.environment(), self.given());
                    let value = bound.eval(&Frame { row: &[], outer: None }, &run)?.into_owned();
                    let mut bytes = Vec::new();
                    write_row(&[value], &mut bytes);
                    column.missing = Some(bytes);
                }
                def.columns.push(column);
                let before = def.indexes.len();
                self.add_constraints(open, &mut def, constraints)?;
                self.take_new_names(open, &def, before)?;
                let added: Vec<_> = (before..def.indexes.len()).collect();
                self.replace_table(open, def)?;
                self.fill(open, id, &[])?;
                if !added.is_empty() { self.fill(open, id, &added) } else { Ok(()) }
            }
            AlterTableOperation::DropColumn { column_names, if_exists, .. } => {
                for name in column_names {
                    let name = name_of(name);
                    let Some(at) = def.column(&name) else {
                        if *if_exists {
                            skip(
                                rows,
                                SqlState::UNDEFINED_COLUMN,
                                format!("column \"{name}\" does not exist, skipping"),
                            );
                            continue;
                        }
                        return Err(missing(&name, &def.name));
                    };
                    if def.primary_key.as_ref().is_some_and(|key| key.columns.contains(&at)) {
                        return Err(SqlError::unsupported("dropping a column of the primary key"));
                    }
                    for index in def.indexes.iter().filter(|index| index.columns.iter().any(|column| column.0 == at)) {
                        self.take_name(open, &schema, &index.name, false)?;
                    }
                    for sequence in open.catalog.owned_by(id).cloned().collect::<Vec<_>>() {
                        if sequence.owner == Some((id, at)) {
                            self.take_name(open, &sequence.schema, &sequence.name, false)?;
                            self.apply(open, vec![Change::Drop(Definition::Sequence(sequence))])?;
                        }
                    }
                    def.indexes.retain(|index| index.columns.iter().all(|column| column.0 != at));
                    let column = &mut def.columns[at];
                    (column.is_dropped, column.not_null, column.default) = (true, false, None);
                    column.name = format!("........pg.dropped.{}........", at + 1);
                }
                self.replace_table(open, def)?;
                let table = open.catalog.table(id).expect("it has just been put there").clone();
                self.check_definition(open, &table)
                    .map_err(|error| error.hint("A constraint or index uses the column: drop it first."))
            }
            AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
                let (old, new) = (name_of(old_column_name), name_of(new_column_name));
                let at = def.column(&old).ok_or_else(|| missing(&old, &def.name))?;
                if def.column(&new).is_some() {
                    let message = format!("column \"{new}\" of relation \"{}\" already exists", def.name);
                    return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
                }
                if !def.checks.is_empty() || def.indexes.iter().any(|index| index.predicate.is_some()) {
                    return Err(SqlError::unsupported(
                        "renaming a column of a table with CHECK constraints or partial indexes",
                    ));
                }
                def.columns[at].name = new;
                self.replace_table(open, def)
            }
            AlterTableOperation::RenameTable { table_name } => {
                let (RenameTableNameKind::To(name) | RenameTableNameKind::As(name)) = table_name;
                let new = relation_of(name)?.1;
                if open.catalog.find(&schema, &new).is_some() {
                    return Err(SqlError::new(SqlState::DUPLICATE_TABLE, format!("relation \"{new}\" already exists")));
                }
                self.take_name(open, &schema, &def.name, false)?;
                self.take_name(open, &schema, &new, true)?;
                def.name = new;
                self.replace_table(open, def)?;
                let table = open.catalog.table(id).expect("it has just been put there").clone();
                self.check_definition(open, &table)
            }
            AlterTableOperation::AlterColumn { column_name, op } => {
                let name = name_of(column_name);
                let at = def.column(&name).ok_or_else(|| missing(&name, &def.name))?;
                let column = &mut def.columns[at];
                match op {
                    AlterColumnOperation::SetNotNull => column.not_null = true,
                    AlterColumnOperation::DropNotNull => {
                        if def.primary_key.as_ref().is_some_and(|key| key.columns.contains(&at)) {
                            let message = format!("column \"{name}\" is in a primary key");
                            return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
                        }
                        column.not_null = false;
                    }
                    AlterColumnOperation::SetDefault { value } => {
                        column.default = Some(DefaultDef::Expression(value.to_string()))
                    }
                    AlterColumnOperation::DropDefault => column.default = None,
                    AlterColumnOperation::SetDataType { data_type, using: None, .. } => {
                        let (ty, modifier) = type_of(data_type)?;
                        // A text may only become longer: nothing that is stored changes.
                        if ty != column.ty
                            || !ty.is_text()
                            || modifier != -1 && (column.modifier == -1 || modifier < column.modifier)
                        {
                            return Err(SqlError::unsupported("changing the type of a column in place"));
                        }
                        column.modifier = modifier;
                    }
                    other => return Err(SqlError::unsupported(format_args!("ALTER COLUMN {other}"))),
                }
                self.replace_table(open, def)?;
                let table = open.catalog.table(id).expect("it has just been put there").clone();
                self.check_definition(open, &table)?;
                self.fill(open, id, &[])
            }
            AlterTableOperation::AddConstraint { constraint, .. } => {
                let mut constraints = Constraints::default();
                constraints.add(constraint, &def.name)?;
                let before = def.indexes.len();
                let had_key = def.primary_key.is_some();
                self.add_constraints(open, &mut def, constraints)?;
                if !had_key && def.primary_key.is_some() {
                    return self.add_primary_key(open, def);
                }
                self.take_new_names(open, &def, before)?;
                let added: Vec<_> = (before..def.indexes.len()).collect();
                self.replace_table(open, def)?;
                let table = open.catalog.table(id).expect("it has just been put there").clone();
                self.check_definition(open, &table)?;
                self.fill(open, id, &added)
            }
            AlterTableOperation::DropConstraint { if_exists, name, .. } => {
                let name = name_of(name);
                let checks = def.checks.len();
                def.checks.retain(|check| check.name != name);
                let index = def.indexes.iter().position(|index| index.is_constraint && index.name == name);
                if let Some(at) = index {
                    def.indexes.remove(at);
                    self.take_name(open, &schema, &name, false)?;
                } else if def.primary_key.as_ref().is_some_and(|key| key.name == name) {
                    return Err(SqlError::unsupported("dropping a primary key"));
                } else if checks == def.checks.len() {
                    let message = format!("constraint \"{name}\" of relation \"{}\" does not exist", def.name);
                    if !if_exists {
                        return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
                    }
                    skip(rows, SqlState::UNDEFINED_OBJECT, format!("{message}, skipping"));
                }
                self.replace_table(open, def)
            }
            // All objects have the same owner.
            AlterTableOperation::OwnerTo { .. } => Ok(()),
            other => Err(SqlError::unsupported(format_args!("ALTER TABLE {other}"))),
        }
    }

    pub(super) fn take_new_names(&self, open: &Open, def: &TableDef, from: usize) -> Result<()> {
        def.indexes[from..].iter().try_for_each(|index| self.take_name(open, &def.schema, &index.name, true))
    }

    /// Moves the rows of a table without a key to the places of their new key.
    fn add_primary_key(&self, open: &mut Open, mut def: TableDef) -> Result<()> {
        let key = def.primary_key.as_ref().expect("it has just been added");
        self.take_name(open, &def.schema, &key.name.clone(), true)?;
        let old = open.catalog.table(def.id).expect("it is being altered").clone();
        self.check_sees_all(open, &old)?;
        def.storage = self.storage(open)?;
        for index in &mut def.indexes {
            index.storage = self.storage(open)?;
        }
        let id = def.id;
        self.apply(open, vec![Change::Put(Definition::Table(def))])?;
        let new = open.catalog.table(id).expect("it has just been put there").clone();
        let rules = Binder::new(&open.catalog, self.environment(), self.search_path(), &[]).rules(&new)?;
        let run = Run::new(&open.txn, &open.catalog, &[], self.environment(), self.given());
        let name = new.def.primary_key.as_ref().map_or("", |key| &key.name);
        move_rows(&run, &old, &new, &rules).map_err(|error| duplicated(name, error))
    }
}

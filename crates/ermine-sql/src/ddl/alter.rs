//! ALTER TABLE.

use std::sync::Arc;

use sqlparser::ast::{self, AlterColumnOperation, AlterTableOperation, TableConstraint};

use super::{
    alter_type::new_types,
    context::ChangeContext,
    create::{Constraints, default_of, foreign_keys_of},
    dependents::Dependents,
    foreign_key::cascades,
    materialized::check_actions,
    skip, skip_missing,
};
use crate::{
    bind::{Binder, names::name_of},
    catalog::{
        Change, Relation,
        definition::{ColumnDef, DefaultDef, Definition, ForeignKeyDef, IndexDef, TableDef},
        rights::{Kind, Object},
    },
    error::{Result, SqlError, SqlState},
    exec::{Run, duplicated, move_rows},
    expr::Frame,
    result::RowSink,
    transaction::ActiveTransaction,
    types::row::row_bytes,
};

/// Returns the error of a column that a table does not have.
pub(super) fn missing(name: &str, table: &str) -> SqlError {
    let message = format!("column \"{name}\" of relation \"{table}\" does not exist");
    SqlError::new(SqlState::UNDEFINED_COLUMN, message)
}

pub(super) fn duplicate_column(name: &str, table: &str) -> SqlError {
    let message = format!("column \"{name}\" of relation \"{table}\" already exists");
    SqlError::new(SqlState::DUPLICATE_COLUMN, message)
}

/// Returns the word for a role.
pub(super) fn role_of(owner: &ast::Owner) -> ast::Ident {
    match owner {
        ast::Owner::Ident(role) => role.clone(),
        ast::Owner::SessionUser => ast::Ident::new("session_user"),
        ast::Owner::CurrentRole | ast::Owner::CurrentUser => ast::Ident::new("current_user"),
    }
}

impl ChangeContext<'_> {
    pub(super) fn alter_table(
        &self,
        active: &mut ActiveTransaction,
        alter: &ast::AlterTable,
        rows: &mut dyn RowSink,
    ) -> Result<String> {
        if let Some(Relation::View(view)) = self.find(active, &alter.name)? {
            return self.alter_table_of_view(active, &view, &alter.operations);
        }
        let Some(table) = self.stored_named(active, &alter.name, alter.if_exists)? else {
            skip_missing(rows, &alter.name);
            return Ok("ALTER TABLE".into());
        };
        if table.def.materialized.is_some() {
            check_actions(&table.def.name, &alter.operations)?;
        }
        let keys = alter.operations.iter().flat_map(|operation| match operation {
            AlterTableOperation::AddColumn { column_def, .. } => foreign_keys_of(std::slice::from_ref(column_def), &[]),
            AlterTableOperation::AddConstraint { constraint, .. } => {
                foreign_keys_of(&[], std::slice::from_ref(constraint))
            }
            _ => Vec::new(),
        });
        self.take_parents(active, Some(&table), &keys.collect::<Vec<_>>())?;
        self.take_newest(active, std::slice::from_ref(&table), self.limits())?;
        let id = table.def.id;
        let mut types = new_types(&alter.operations);
        for operation in &alter.operations {
            let table = active.catalog.table(id).expect("it is only changed here").clone();
            match operation {
                AlterTableOperation::AlterColumn { op: AlterColumnOperation::SetDataType { .. }, .. } => {
                    // With the first one: all are computed from the same row.
                    let all = std::mem::take(&mut types);
                    if !all.is_empty() {
                        self.alter_types(active, table.def.clone(), &all)?;
                    }
                }
                operation => self.alter_once(active, table.def.clone(), operation, rows)?,
            }
        }
        Ok("ALTER TABLE".into())
    }

    fn alter_once(
        &self,
        active: &mut ActiveTransaction,
        def: TableDef,
        operation: &AlterTableOperation,
        rows: &mut dyn RowSink,
    ) -> Result<()> {
        match operation {
            AlterTableOperation::AddColumn { if_not_exists, column_def, .. } => {
                self.add_column(active, def, column_def, *if_not_exists, rows)
            }
            AlterTableOperation::DropColumn { column_names, if_exists, drop_behavior, .. } => {
                let options = (*if_exists, cascades(*drop_behavior));
                self.drop_columns(active, def, column_names, options, rows)
            }
            AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
                self.rename_column(active, def, &name_of(old_column_name), name_of(new_column_name))
            }
            AlterTableOperation::RenameConstraint { old_name, new_name } => {
                self.rename_constraint(active, def, &name_of(old_name), name_of(new_name))
            }
            AlterTableOperation::AlterColumn { column_name, op } => {
                self.alter_column(active, def, &name_of(column_name), op)
            }
            AlterTableOperation::AddConstraint { constraint, not_valid } => {
                self.add_constraint(active, def, constraint, !not_valid)
            }
            AlterTableOperation::DropConstraint { if_exists, name, drop_behavior } => {
                let options = (*if_exists, cascades(*drop_behavior));
                self.drop_constraint(active, def, &name_of(name), options, rows)
            }
            AlterTableOperation::ValidateConstraint { name } => self.validate(active, &def, &name_of(name)),
            AlterTableOperation::OwnerTo { new_owner } => {
                self.alter_owner(active, Object::new(Kind::Table, def.id), &role_of(new_owner))
            }
            other if self.alter_row_security(active, def.id, other)? => Ok(()),
            other => Err(SqlError::unsupported(format_args!("ALTER TABLE {other}"))),
        }
    }

    /// Replaces the definition of a table, whose expressions are bound again.
    pub(super) fn replace_checked(&self, active: &mut ActiveTransaction, def: TableDef) -> Result<()> {
        let id = def.id;
        self.replace_table(active, def)?;
        let table = active.catalog.table(id).expect("it has just been put there").clone();
        self.check_definition(active, &table)
    }

    fn add_column(
        &self,
        active: &mut ActiveTransaction,
        mut def: TableDef,
        added: &ast::ColumnDef,
        if_not_exists: bool,
        rows: &mut dyn RowSink,
    ) -> Result<()> {
        let name = name_of(&added.name);
        if def.column(&name).is_some() {
            let error = duplicate_column(&name, &def.name);
            if if_not_exists {
                skip(rows, SqlState::DUPLICATE_COLUMN, format!("{}, skipping", error.report().message));
                return Ok(());
            }
            return Err(error);
        }
        let mut constraints = Constraints::default();
        let (id, at) = (def.id, def.columns.len());
        let place = (id, &*def.schema, &*def.name);
        let (mut column, sequence) = self.column_def(active, place, at, added, &mut constraints)?;
        let domain = self.domain_of(&added.data_type)?;
        let default = domain.and_then(|ty| ty.domain()?.default.clone()).map(DefaultDef::Expression);
        let has_one_value = match column.default.clone().or(default) {
            Some(DefaultDef::NextOf(_) | DefaultDef::Generated(_) | DefaultDef::Computed(_)) => false,
            Some(DefaultDef::Expression(text)) => self.missing_value(active, &mut column, &text)?,
            None => true,
        };
        def.columns.push(column);
        let (before, adds_key) = (def.indexes.len(), constraints.has_primary());
        let foreign = std::mem::take(&mut constraints.foreign);
        let domains = std::mem::take(&mut constraints.domains);
        self.add_constraints(active, &mut def, constraints)?;
        self.take_new_names(active, &def, before)?;
        if let Some(key) = def.primary_key.as_ref().filter(|_| adds_key) {
            self.take_name(active, &def.schema, &key.name, true)?;
        }
        if let Some(sequence) = sequence {
            self.take_name(active, &sequence.schema, &sequence.name, true)?;
            self.apply(active, vec![Change::Put(Definition::Sequence(sequence))])?;
        }
        let new_indexes: Vec<_> = (before..def.indexes.len()).collect();
        let mut changes = self.uses_of_domains(active, id, &domains)?;
        if !has_one_value || adds_key {
            self.apply(active, changes)?;
            self.rewrite(active, def, Vec::new(), Some(at))?;
        } else {
            changes.push(Change::Put(Definition::Table(def)));
            self.apply(active, changes)?;
            self.fill(active, id, &[])?;
            if !new_indexes.is_empty() {
                self.fill(active, id, &new_indexes)?;
            }
        }
        self.add_foreign_keys(active, id, foreign, true)
    }

    /// Keeps the value of a new column in the existing rows, as a row of its own; returns false if each row has another
    /// one. `text`: that of its default.
    fn missing_value(&self, active: &ActiveTransaction, column: &mut ColumnDef, text: &str) -> Result<bool> {
        let expr = crate::parse::expression(text)?;
        let mut binder = Binder::new(&active.catalog, self.environment, self.search_path, &[]);
        let typed = binder.expr(&expr).map_err(SqlError::nowhere)?;
        let bound = binder.assign_default(typed, (column.ty, column.modifier), &column.name)?;
        binder.denial().map_or(Ok(()), Err)?;
        if bound.is_volatile() {
            return Ok(false);
        }
        let run = Run::new(&active.txn, &active.catalog, &[], self.environment, self.given);
        let value = bound.eval(&Frame { row: &[], outer: None }, &run)?.into_owned();
        column.missing = Some(row_bytes(&[value]));
        Ok(true)
    }

    pub(super) fn drop_columns(
        &self,
        active: &mut ActiveTransaction,
        mut def: TableDef,
        columns: &[ast::Ident],
        (if_exists, cascade): (bool, bool),
        rows: &mut dyn RowSink,
    ) -> Result<()> {
        let before = def.clone();
        for name in columns.iter().map(name_of) {
            match def.column(&name) {
                Some(at) => {
                    let keys = active.catalog.foreign_keys_at(def.id);
                    let is_own = |key: &Arc<ForeignKeyDef>| key.child == def.id && key.child_columns.contains(&at);
                    let (own, others): (Vec<_>, Vec<_>) = keys.cloned().partition(is_own);
                    let depends = |key: &Arc<ForeignKeyDef>| key.parent == def.id && key.parent_columns.contains(&at);
                    let keys = others.into_iter().filter(depends).collect();
                    let dependents = Dependents { keys, ..Dependents::using(&active.catalog, def.id, Some(at)) };
                    let what = format!("column {name} of table {}", def.name);
                    self.drop_dependents(active, (&what, &what), dependents, (cascade, &[]), rows)?;
                    self.drop_foreign_keys(active, own)?;
                    self.drop_including(active, &mut def, at, cascade, rows)?;
                    for at in self.columns_from(active, &def, at, cascade, rows)?.into_iter().chain([at]) {
                        self.drop_column(active, &mut def, at)?;
                    }
                }
                // It was computed from another one, and went with it.
                None if before.column(&name).is_some() => {}
                None if if_exists => {
                    let message = format!("column \"{name}\" does not exist, skipping");
                    skip(rows, SqlState::SUCCESSFUL_COMPLETION, message);
                }
                None => return Err(missing(&name, &def.name)),
            }
        }
        self.replace_checked(active, def)
            .map_err(|error| error.hint("A constraint or index uses the column: drop it first."))
    }

    /// Returns the generated columns that are computed from one that is dropped; fails if there are any and the
    /// statement does not say CASCADE.
    fn columns_from(
        &self,
        active: &ActiveTransaction,
        def: &TableDef,
        at: usize,
        cascade: bool,
        rows: &mut dyn RowSink,
    ) -> Result<Vec<usize>> {
        let table = active.catalog.table(def.id).expect("it is being altered");
        let mut binder = Binder::new(&active.catalog, self.environment, self.search_path, &[]);
        let mut from = binder.generated_from(table, at)?;
        from.retain(|at| !def.columns[*at].is_dropped);
        let described = |at: usize| format!("column {} of table {}", def.columns[at].name, def.name);
        if !cascade && !from.is_empty() {
            let message = format!("cannot drop {} because other objects depend on it", described(at));
            let lines = from.iter().map(|from| format!("{} depends on {}", described(*from), described(at)));
            return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
                .detail(lines.collect::<Vec<_>>().join("\n"))
                .hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        for from in &from {
            skip(rows, SqlState::SUCCESSFUL_COMPLETION, format!("drop cascades to {}", described(*from)));
        }
        Ok(from)
    }

    /// Drops the indexes that include a column, and the foreign keys that need one of them.
    fn drop_including(
        &self,
        active: &mut ActiveTransaction,
        def: &mut TableDef,
        at: usize,
        cascade: bool,
        rows: &mut dyn RowSink,
    ) -> Result<()> {
        let what = format!("column {} of table {}", def.columns[at].name, def.name);
        let key = def.primary_key.take_if(|key| key.included.contains(&at));
        let indexes: Vec<_> = def.indexes.extract_if(.., |index| index.included.contains(&at)).collect();
        let names = || key.iter().map(|key| &key.name).chain(indexes.iter().map(|index| &index.name));
        let Some(first) = names().next() else { return Ok(()) };
        let keys = self.without_index(active, def);
        self.drop_dependents(active, (&what, &format!("index {first}")), keys, (cascade, &[]), rows)?;
        names().try_for_each(|name| self.take_name(active, &def.schema, name, false))?;
        if key.is_some() {
            // The rows move to numbers.
            self.rewrite(active, def.clone(), Vec::new(), None)?;
            *def = active.catalog.table(def.id).expect("it is being altered").def.clone();
        }
        Ok(())
    }

    /// Drops a column with its indexes and the sequences that it owns. Its values stay in the rows.
    fn drop_column(&self, active: &mut ActiveTransaction, def: &mut TableDef, at: usize) -> Result<()> {
        if def.primary_key.as_ref().is_some_and(|key| key.columns.contains(&at)) {
            return Err(SqlError::unsupported("dropping a column of the primary key"));
        }
        let mut binder = Binder::new(&active.catalog, self.environment, self.search_path, &[]);
        let uses = |index: &IndexDef| Ok(binder.columns_of_index(def, index)?.contains(&at));
        let uses: Vec<bool> = def.indexes.iter().map(uses).collect::<Result<_>>()?;
        for (index, _) in def.indexes.iter().zip(&uses).filter(|(_, uses)| **uses) {
            self.take_name(active, &def.schema, &index.name, false)?;
        }
        for sequence in active.catalog.owned_by(def.id).cloned().collect::<Vec<_>>() {
            if sequence.owner == Some((def.id, at)) {
                self.check_sequence(active, &sequence)?;
                self.take_name(active, &sequence.schema, &sequence.name, false)?;
                self.apply(active, vec![Change::Drop(Definition::Sequence(sequence))])?;
            }
        }
        let mut uses = uses.into_iter();
        def.indexes.retain(|_| uses.next() == Some(false));
        let column = &mut def.columns[at];
        (column.is_dropped, column.not_null, column.default) = (true, false, None);
        column.name = format!("........pg.dropped.{}........", at + 1);
        Ok(())
    }

    fn alter_column(
        &self,
        active: &mut ActiveTransaction,
        mut def: TableDef,
        name: &str,
        operation: &AlterColumnOperation,
    ) -> Result<()> {
        let at = def.column(name).ok_or_else(|| missing(name, &def.name))?;
        let is_in_key = def.primary_key.as_ref().is_some_and(|key| key.columns.contains(&at));
        let column = &mut def.columns[at];
        match operation {
            AlterColumnOperation::SetNotNull => column.not_null = true,
            AlterColumnOperation::DropNotNull if is_in_key => {
                let message = format!("column \"{name}\" is in a primary key");
                return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
            }
            AlterColumnOperation::DropNotNull => column.not_null = false,
            AlterColumnOperation::SetDefault { .. } | AlterColumnOperation::DropDefault
                if column.generation().is_some() =>
            {
                let message = format!("column \"{name}\" of relation \"{}\" is a generated column", def.name);
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
            AlterColumnOperation::SetDefault { value } => {
                let default = default_of(value, column.ty);
                column.default = default.map(|default| self.drawn(active, default, column.ty));
            }
            AlterColumnOperation::DropDefault => column.default = None,
            other => return Err(SqlError::unsupported(format_args!("ALTER COLUMN {other}"))),
        }
        let id = def.id;
        self.replace_checked(active, def)?;
        self.fill(active, id, &[])
    }

    fn add_constraint(
        &self,
        active: &mut ActiveTransaction,
        mut def: TableDef,
        constraint: &TableConstraint,
        is_valid: bool,
    ) -> Result<()> {
        let mut constraints = Constraints::default();
        constraints.add(constraint, &def.name)?;
        if !constraints.foreign.is_empty() {
            return self.add_foreign_keys(active, def.id, constraints.foreign, is_valid);
        }
        let (before, had_key) = (def.indexes.len(), def.primary_key.is_some());
        self.add_constraints(active, &mut def, constraints)?;
        if !had_key && def.primary_key.is_some() {
            return self.add_primary_key(active, def);
        }
        self.take_new_names(active, &def, before)?;
        let (id, added) = (def.id, (before..def.indexes.len()).collect::<Vec<_>>());
        self.replace_checked(active, def)?;
        self.fill(active, id, &added)
    }

    fn drop_constraint(
        &self,
        active: &mut ActiveTransaction,
        mut def: TableDef,
        name: &str,
        (if_exists, cascade): (bool, bool),
        rows: &mut dyn RowSink,
    ) -> Result<()> {
        let keys = active.catalog.foreign_keys_at(def.id).filter(|key| key.child == def.id && key.name == name);
        let keys: Vec<_> = keys.cloned().collect();
        if !keys.is_empty() {
            return self.drop_foreign_keys(active, keys);
        }
        let checks = def.checks.len();
        def.checks.retain(|check| check.name != name);
        if let Some(at) = def.indexes.iter().position(|index| index.is_constraint && index.name == name) {
            def.indexes.remove(at);
            let what = format!("constraint {name} on table {}", def.name);
            let keys = self.without_index(active, &def);
            self.drop_dependents(active, (&what, &format!("index {name}")), keys, (cascade, &[]), rows)?;
            self.take_name(active, &def.schema, name, false)?;
        } else if def.primary_key.as_ref().is_some_and(|key| key.name == name) {
            def.primary_key = None;
            let what = format!("constraint {name} on table {}", def.name);
            let keys = self.without_index(active, &def);
            self.drop_dependents(active, (&what, &format!("index {name}")), keys, (cascade, &[]), rows)?;
            self.take_name(active, &def.schema, name, false)?;
            // The rows move to numbers.
            return self.rewrite(active, def, Vec::new(), None);
        } else if checks == def.checks.len() {
            let message = format!("constraint \"{name}\" of relation \"{}\" does not exist", def.name);
            if !if_exists {
                return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
            }
            skip(rows, SqlState::SUCCESSFUL_COMPLETION, format!("{message}, skipping"));
        }
        self.replace_table(active, def)
    }

    pub(super) fn take_new_names(&self, active: &ActiveTransaction, def: &TableDef, from: usize) -> Result<()> {
        def.indexes[from..].iter().try_for_each(|index| self.take_name(active, &def.schema, &index.name, true))
    }

    /// Moves the rows of a table without a key to the places of their new key.
    fn add_primary_key(&self, active: &mut ActiveTransaction, def: TableDef) -> Result<()> {
        let key = def.primary_key.as_ref().expect("it has just been added");
        self.take_name(active, &def.schema, &key.name.clone(), true)?;
        let (old, new) = self.with_new_files(active, def)?;
        let rules = Binder::new(&active.catalog, self.environment, self.search_path, &[]).rules(&new)?;
        let run = Run::new(&active.txn, &active.catalog, &[], self.environment, self.given);
        let name = new.def.primary_key.as_ref().map_or("", |key| &key.name);
        move_rows(&run, &old, &new, &rules).map_err(|error| duplicated(name, error))
    }
}

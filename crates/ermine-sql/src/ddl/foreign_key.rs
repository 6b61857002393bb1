//! Foreign keys in CREATE and ALTER TABLE, and what depends on them.

use std::sync::Arc;

use sqlparser::ast;

use super::{context::ChangeContext, dependents::Dependents, free_name_of, skip};
use crate::{
    bind::{
        names::name_of,
        references::{Reference, are_comparable},
    },
    catalog::{
        Change, Table,
        definition::{ColumnDef, Definition, ForeignKeyDef, ObjectId, ReferentialAction, TableDef},
        rights::{Kind, Object, Rights, no_right},
    },
    error::{Result, SqlError, SqlState},
    exec::{Run, check_references},
    result::RowSink,
    transaction::ActiveTransaction,
};

/// A foreign key as a statement has it.
pub(super) struct ForeignKeyTree {
    pub(super) name: Option<String>,
    pub(super) columns: Vec<String>,
    pub(super) tree: ast::ForeignKeyConstraint,
}

impl ForeignKeyTree {
    /// Returns a foreign key of a table, or of this column.
    pub(super) fn new(tree: &ast::ForeignKeyConstraint, name: Option<String>, column: Option<&str>) -> Self {
        let columns = match column {
            Some(column) => vec![column.to_owned()],
            None => tree.columns.iter().map(name_of).collect(),
        };
        Self { name: name.or_else(|| tree.name.as_ref().map(name_of)), columns, tree: tree.clone() }
    }
}

/// Whether what depends on an object is dropped, too.
pub(super) fn cascades(behavior: Option<ast::DropBehavior>) -> bool {
    matches!(behavior, Some(ast::DropBehavior::Cascade))
}

impl ChangeContext<'_> {
    /// Holds the tables that foreign keys of a statement refer to, but for one that does not exist yet: before the
    /// transaction has done anything, so that it sees all their rows.
    pub(super) fn take_parents(
        &self,
        active: &mut ActiveTransaction,
        own: Option<&Arc<Table>>,
        trees: &[&ast::ForeignKeyConstraint],
    ) -> Result<()> {
        let mut tables: Vec<_> = own.into_iter().cloned().collect();
        for tree in trees {
            if let Some(crate::catalog::Relation::Table(parent)) = self.find(active, &tree.foreign_table)?
                && !tables.iter().any(|known| known.def.id == parent.def.id)
            {
                tables.push(parent);
            }
        }
        if trees.is_empty() { Ok(()) } else { self.take_newest(active, &tables, self.limits()) }
    }

    /// Adds foreign keys to a table, which the transaction holds alone, as their parents.
    pub(super) fn add_foreign_keys(
        &self,
        active: &mut ActiveTransaction,
        child: ObjectId,
        trees: Vec<ForeignKeyTree>,
        is_valid: bool,
    ) -> Result<()> {
        for tree in trees {
            let def = self.foreign_key_def(active, child, &tree, is_valid)?;
            self.apply(active, vec![Change::Put(Definition::ForeignKey(def.clone()))])?;
            // Rows of the parent that are gone from newer snapshots must not count.
            self.check_sees_tables(active, &def)?;
            if is_valid {
                self.check_rows_of(active, &Arc::new(def))?;
            }
        }
        Ok(())
    }

    fn foreign_key_def(
        &self,
        active: &mut ActiveTransaction,
        child: ObjectId,
        ForeignKeyTree { name, columns, tree }: &ForeignKeyTree,
        is_valid: bool,
    ) -> Result<ForeignKeyDef> {
        let missing = || SqlError::new(SqlState::INTERNAL_ERROR, "the table is not there");
        let child = active.catalog.table(child).ok_or_else(missing)?.clone();
        let parent = self.table_named(active, &tree.foreign_table, false)?.expect("an error where it is not there");
        self.check_alike(active, child.def.id, parent.def.id)?;
        active.take(&parent, self.limits())?;
        let places = |def: &TableDef, names: &[String]| -> Result<Vec<usize>> {
            let place = |name: &String| {
                let message = format!("column \"{name}\" referenced in foreign key constraint does not exist");
                def.column(name).ok_or_else(|| SqlError::new(SqlState::UNDEFINED_COLUMN, message))
            };
            names.iter().map(place).collect()
        };
        let invalid = |message: String| SqlError::new(SqlState("42830"), message);
        let child_columns = places(&child.def, columns)?;
        let parent_columns = match (&tree.referred_columns[..], &parent.def.primary_key) {
            ([], Some(key)) => key.columns.clone(),
            ([], None) => {
                let message = format!("there is no primary key for referenced table \"{}\"", parent.name());
                return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
            }
            (names, _) => places(&parent.def, &names.iter().map(name_of).collect::<Vec<_>>())?,
        };
        if child_columns.len() != parent_columns.len() {
            return Err(invalid("number of referencing and referenced columns for foreign key disagree".into()));
        }
        if parent.def.unique_key(&parent_columns).is_none() {
            let table = parent.name();
            let message = format!("there is no unique constraint matching given keys for referenced table \"{table}\"");
            return Err(invalid(message));
        }
        let role = self.environment.role;
        let may_refer =
            |at: &usize| !active.catalog.held_of_column(role, parent.def.id, *at, Rights::REFERENCES).is_empty();
        if !parent_columns.iter().all(may_refer) {
            return Err(no_right(&active.catalog, Object::new(Kind::Table, parent.def.id)));
        }
        let known = self.constraint_names(active, &child.def);
        let is_taken = |name: &str| known.iter().any(|own| own == name);
        let name = match name {
            Some(name) if is_taken(name) => {
                let message = format!("constraint \"{name}\" for relation \"{}\" already exists", child.name());
                return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
            }
            Some(name) => name.clone(),
            None => free_name_of(child.name(), &columns.join("_"), "fkey", &is_taken),
        };
        for (own, other) in child_columns.iter().zip(&parent_columns) {
            let (own, other) = (&child.def.columns[*own], &parent.def.columns[*other]);
            check_comparable(&name, own, other)?;
        }
        let is_full = match tree.match_kind {
            Some(ast::ConstraintReferenceMatchKind::Partial) => {
                return Err(SqlError::unsupported("MATCH PARTIAL"));
            }
            kind => kind == Some(ast::ConstraintReferenceMatchKind::Full),
        };
        let characteristics = tree.characteristics.unwrap_or_default();
        if characteristics.enforced == Some(false) {
            return Err(SqlError::unsupported("a constraint that is NOT ENFORCED"));
        }
        check_actions(&child.def, &child_columns, tree)?;
        let is_deferred = characteristics.initially == Some(ast::DeferrableInitial::Deferred);
        if is_deferred && characteristics.deferrable == Some(false) {
            let message = "constraint declared INITIALLY DEFERRED must be DEFERRABLE";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        Ok(ForeignKeyDef {
            id: self.catalog_number()?,
            name,
            child: child.def.id,
            child_columns,
            parent: parent.def.id,
            parent_columns,
            is_full,
            on_delete: action(tree.on_delete),
            on_update: action(tree.on_update),
            is_deferrable: is_deferred || characteristics.deferrable == Some(true),
            is_deferred,
            is_valid,
        })
    }

    /// Returns the names of a table's constraints.
    pub(super) fn constraint_names(&self, active: &ActiveTransaction, def: &TableDef) -> Vec<String> {
        let keys = def.primary_key.iter().map(|key| &key.name);
        let unique = def.indexes.iter().filter(|index| index.is_constraint).map(|index| &index.name);
        let foreign = active.catalog.foreign_keys_at(def.id).filter(|key| key.child == def.id).map(|key| &key.name);
        let checks = def.checks.iter().map(|check| &check.name);
        keys.chain(unique).chain(foreign).chain(checks).cloned().collect()
    }

    /// Fails if the transaction's snapshot lacks a change of one of the tables, which it holds alone.
    fn check_sees_tables(&self, active: &ActiveTransaction, key: &ForeignKeyDef) -> Result<()> {
        let tables = [key.child, key.parent].into_iter().filter_map(|id| active.catalog.table(id));
        tables.into_iter().try_for_each(|table| self.check_sees_all(active, table))
    }

    /// Fails if a row of the child refers to a key that no row of the parent has.
    fn check_rows_of(&self, active: &ActiveTransaction, def: &Arc<ForeignKeyDef>) -> Result<()> {
        let reference = Reference::new(&active.catalog, def)?;
        let run = Run::new(&active.txn, &active.catalog, &[], self.environment, self.given);
        check_references(&run, &reference)
    }

    /// Runs VALIDATE CONSTRAINT; a constraint of another kind is valid.
    pub(super) fn validate(&self, active: &mut ActiveTransaction, def: &TableDef, name: &str) -> Result<()> {
        let keys = active.catalog.foreign_keys_at(def.id);
        let found = keys.filter(|key| key.child == def.id).find(|key| key.name == name).cloned();
        let Some(key) = found else {
            if self.constraint_names(active, def).iter().any(|own| own == name) {
                return Ok(());
            }
            let message = format!("constraint \"{name}\" of relation \"{}\" does not exist", def.name);
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
        };
        self.take_tables_of(active, &key)?;
        self.check_sees_tables(active, &key)?;
        self.check_rows_of(active, &key)?;
        let valid = ForeignKeyDef { is_valid: true, ..(*key).clone() };
        self.apply(active, vec![Change::Put(Definition::ForeignKey(valid))])
    }

    /// Examines the rows of a foreign key, one of whose columns has another type now.
    pub(super) fn examine_again(&self, active: &mut ActiveTransaction, key: &Arc<ForeignKeyDef>) -> Result<()> {
        self.take_tables_of(active, key)?;
        let table = |id| active.catalog.table(id).expect("a foreign key has both tables");
        let (child, parent) = (table(key.child), table(key.parent));
        for (own, other) in key.child_columns.iter().zip(&key.parent_columns) {
            check_comparable(&key.name, &child.def.columns[*own], &parent.def.columns[*other])?;
        }
        self.check_sees_tables(active, key)?;
        if key.is_valid { self.check_rows_of(active, key) } else { Ok(()) }
    }

    fn take_tables_of(&self, active: &mut ActiveTransaction, key: &ForeignKeyDef) -> Result<()> {
        for id in [key.child, key.parent] {
            if let Some(table) = active.catalog.table(id).cloned() {
                active.take(&table, self.limits())?;
            }
        }
        Ok(())
    }

    /// Drops foreign keys.
    pub(super) fn drop_foreign_keys(
        &self,
        active: &mut ActiveTransaction,
        keys: impl IntoIterator<Item = Arc<ForeignKeyDef>>,
    ) -> Result<()> {
        for key in keys {
            self.take_tables_of(active, &key)?;
            self.apply(active, vec![Change::Drop(Definition::ForeignKey((*key).clone()))])?;
        }
        Ok(())
    }

    /// Returns the foreign keys that refer to a table and whose unique index a new definition lacks.
    pub(super) fn without_index(&self, active: &ActiveTransaction, after: &TableDef) -> Dependents {
        let keys = active.catalog.foreign_keys_at(after.id).filter(|key| key.parent == after.id);
        let keys = keys.filter(|key| after.unique_key(&key.parent_columns).is_none()).cloned().collect();
        Dependents { keys, ..Dependents::default() }
    }

    /// Fails if another table than those refers to one that is to be emptied.
    pub(super) fn check_truncated(&self, active: &ActiveTransaction, tables: &[Arc<Table>]) -> Result<()> {
        let has = |id: ObjectId| tables.iter().any(|table| table.def.id == id);
        for table in tables {
            if let Some(key) = active.catalog.foreign_keys_at(table.def.id).find(|key| !has(key.child)) {
                let message = "cannot truncate a table referenced in a foreign key constraint";
                let child = active.catalog.table(key.child).map_or("", |table| table.name());
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                    .detail(format!("Table \"{child}\" references \"{}\".", table.name()))
                    .hint(format!("Truncate table \"{child}\" at the same time, or use TRUNCATE ... CASCADE.")));
            }
        }
        Ok(())
    }

    /// Returns the tables that TRUNCATE names, and with CASCADE those that refer to them.
    pub(super) fn truncated(
        &self,
        active: &ActiveTransaction,
        truncate: &ast::Truncate,
        rows: &mut dyn RowSink,
    ) -> Result<Vec<Arc<Table>>> {
        let mut tables: Vec<Arc<Table>> = Vec::new();
        for target in &truncate.table_names {
            let table = self.table_named(active, &target.name, false)?.expect("an error where it is not there");
            if !tables.iter().any(|known| known.def.id == table.def.id) {
                tables.push(table);
            }
        }
        let mut at = 0;
        while let Some(table) = tables.get(at).filter(|_| truncate.cascade == Some(ast::CascadeOption::Cascade)) {
            let children = active.catalog.foreign_keys_at(table.def.id).map(|key| key.child);
            for child in children.filter_map(|id| active.catalog.table(id)).cloned().collect::<Vec<_>>() {
                if !tables.iter().any(|known| known.def.id == child.def.id) {
                    let message = format!("truncate cascades to table \"{}\"", child.name());
                    skip(rows, SqlState::SUCCESSFUL_COMPLETION, message);
                    tables.push(child);
                }
            }
            at += 1;
        }
        let mut objects = tables.iter().map(|table| Object::new(Kind::Table, table.def.id));
        let lacks = |object: &Object| !active.catalog.has_any(self.environment.role, *object, Rights::TRUNCATE);
        objects.find(lacks).map_or(Ok(()), |object| Err(no_right(&active.catalog, object)))?;
        Ok(tables)
    }
}

/// Fails for an action that would write a generated column.
fn check_actions(child: &TableDef, columns: &[usize], tree: &ast::ForeignKeyConstraint) -> Result<()> {
    if columns.iter().all(|at| child.columns[*at].generation().is_none()) {
        return Ok(());
    }
    let (delete, update) = (action(tree.on_delete), action(tree.on_update));
    let event = match () {
        () if update.writes() => "UPDATE",
        () if matches!(delete, ReferentialAction::SetNull | ReferentialAction::SetDefault) => "DELETE",
        () => return Ok(()),
    };
    let message = format!("invalid ON {event} action for foreign key constraint containing generated column");
    Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
}

/// Fails for columns of a foreign key whose types cannot be compared.
fn check_comparable(name: &str, own: &ColumnDef, other: &ColumnDef) -> Result<()> {
    if are_comparable(own.ty, other.ty) {
        return Ok(());
    }
    let message = format!("foreign key constraint \"{name}\" cannot be implemented");
    let detail = format!(
        "Key columns \"{}\" and \"{}\" are of incompatible types: {} and {}.",
        own.name,
        other.name,
        own.ty.name(),
        other.ty.name()
    );
    Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message).detail(detail))
}

fn action(asked: Option<ast::ReferentialAction>) -> ReferentialAction {
    match asked {
        None | Some(ast::ReferentialAction::NoAction) => ReferentialAction::NoAction,
        Some(ast::ReferentialAction::Restrict) => ReferentialAction::Restrict,
        Some(ast::ReferentialAction::Cascade) => ReferentialAction::Cascade,
        Some(ast::ReferentialAction::SetNull) => ReferentialAction::SetNull,
        Some(ast::ReferentialAction::SetDefault) => ReferentialAction::SetDefault,
    }
}

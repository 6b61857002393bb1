//! ALTER COLUMN .. TYPE: the rows move to a new relation file, with new values. The transaction has the table alone.
//!
//! All columns whose types a statement changes are computed from the old row, at once. Indexes are built anew; defaults,
//! checks and conditions of indexes are texts, which are bound again; foreign keys are examined again.

use std::sync::Arc;

use sqlparser::ast::{self, AlterColumnOperation, AlterTableOperation};

use super::{alter::missing, context::ChangeContext, index::check_ordered};
use crate::{
    bind::{
        Binder, Typed,
        names::{name_of, type_of},
    },
    catalog::{
        Catalog, Change, Table,
        definition::{ColumnDef, DefaultDef, Definition, ObjectId, TableDef},
        relation_files::engine_name,
    },
    error::{Result, SqlError, SqlState},
    exec::{Run, duplicated, rewrite_rows},
    expr::Expr,
    failure::EngineResult as _,
    transaction::ActiveTransaction,
    types::{SqlType, cast::Context},
};

/// A change of a column's type.
pub(super) struct NewType<'s> {
    column: String,
    data_type: &'s ast::DataType,
    using: Option<&'s ast::Expr>,
}

/// Returns the changes of types among the actions of a statement.
pub(super) fn new_types(operations: &[AlterTableOperation]) -> Vec<NewType<'_>> {
    let all = operations.iter().filter_map(|operation| match operation {
        AlterTableOperation::AlterColumn {
            column_name,
            op: AlterColumnOperation::SetDataType { data_type, using, .. },
        } => Some(NewType { column: name_of(column_name), data_type, using: using.as_ref() }),
        _ => None,
    });
    all.collect()
}

/// Returns the error of an expression that no implicit cast converts.
fn no_cast(what: &str, column: &str, ty: SqlType) -> SqlError {
    let message = format!("{what} \"{column}\" cannot be cast automatically to type {}", ty.name());
    SqlError::new(SqlState::DATATYPE_MISMATCH, message)
}

impl ChangeContext<'_> {
    pub(super) fn alter_types(
        &self,
        active: &mut ActiveTransaction,
        mut def: TableDef,
        changes: &[NewType<'_>],
    ) -> Result<()> {
        let table = active.catalog.table(def.id).expect("it is being altered").clone();
        let (mut computed, mut changed) = (Vec::new(), Vec::new());
        for change in changes {
            let at = def.column(&change.column).ok_or_else(|| missing(&change.column, &def.name))?;
            let (own, before) = (&def.columns[at], &table.def.columns[at]);
            if (own.ty, own.modifier) != (before.ty, before.modifier) {
                let message = format!("cannot alter type of column \"{}\" twice", change.column);
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            changed.push(at);
            let (ty, modifier) = type_of(change.data_type, self.environment)?;
            if self.domain_of(change.data_type)?.is_some() || active.catalog.types.of_column(def.id, at).is_some() {
                return Err(SqlError::unsupported("changing the type of a column from or to a domain"));
            }
            self.check_generated(active, &table, at, change)?;
            self.check_no_view_uses(active, def.id, at, &change.column)?;
            let old = def.columns[at].clone();
            // A text may become longer: nothing that is stored changes.
            let is_longer = modifier == -1 || old.modifier != -1 && modifier >= old.modifier;
            if ty != old.ty || !ty.is_text() || !is_longer || change.using.is_some() {
                computed.push((at, self.converted(active, &table, at, change, (ty, modifier))?));
            }
            self.change_column(active, &mut def.columns[at], &old, (ty, modifier))?;
        }
        self.type_computed(active, &mut def, &mut changed)?;
        check_indexed(&def, &changed)?;
        let id = def.id;
        match computed.is_empty() {
            true => self.replace_checked(active, def)?,
            false => self.rewrite(active, def, computed, None)?,
        }
        let keys = active.catalog.foreign_keys_at(id).filter(|key| {
            let uses = |table, columns: &[usize]| table == id && columns.iter().any(|at| changed.contains(at));
            uses(key.child, &key.child_columns) || uses(key.parent, &key.parent_columns)
        });
        keys.cloned().collect::<Vec<_>>().iter().try_for_each(|key| self.examine_again(active, key))
    }

    /// Gives the hidden columns of indexes the types that their expressions now have.
    fn type_computed(&self, active: &ActiveTransaction, def: &mut TableDef, changed: &mut Vec<usize>) -> Result<()> {
        let mut binder = Binder::new(&active.catalog, self.environment, self.search_path, &[]);
        let typed = def.computed_columns().map(|(at, _, text)| {
            let bound = binder.index_expression(def, &crate::parse::expression(text)?);
            let (_, ty) = bound.map_err(SqlError::nowhere)?;
            Ok((at, ty))
        });
        for (at, ty) in typed.collect::<Result<Vec<_>>>()? {
            def.columns[at].ty = ty;
            changed.push(at);
        }
        Ok(())
    }

    /// Returns the new value of a column, computed from the old row.
    fn converted(
        &self,
        active: &ActiveTransaction,
        table: &Arc<Table>,
        at: usize,
        change: &NewType<'_>,
        (ty, modifier): (SqlType, i32),
    ) -> Result<Expr> {
        let mut binder = Binder::new(&active.catalog, self.environment, self.search_path, &[]);
        let typed = match change.using {
            Some(using) => binder.value_on(&table.def, using, "transform expressions")?,
            None => {
                let column = &table.def.columns[at];
                Typed { expr: Expr::Column(at), ty: Some(column.ty), modifier: column.modifier }
            }
        };
        if typed.expr.has_query() {
            let message = "cannot use subquery in transform expression";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let name = &table.def.columns[at].name;
        binder.convert(typed, ty, modifier, Context::Assignment).map_err(|error| match change.using {
            _ if error.state() != SqlState::CANNOT_COERCE => error,
            None => {
                let hint = format!("You might need to specify \"USING {name}::{}\".", ty.describe(modifier));
                no_cast("column", name, ty).hint(hint)
            }
            Some(_) => {
                no_cast("result of USING clause for column", name, ty).hint("You might need to add an explicit cast.")
            }
        })
    }

    /// Fails for a column that another one is computed from, and for a generated column with USING.
    fn check_generated(
        &self,
        active: &ActiveTransaction,
        table: &Table,
        at: usize,
        change: &NewType<'_>,
    ) -> Result<()> {
        if table.def.columns[at].generation().is_some() && change.using.is_some() {
            let message = "cannot specify USING when altering type of generated column";
            let detail = format!("Column \"{}\" is a generated column.", change.column);
            return Err(SqlError::new(SqlState("42611"), message).detail(detail));
        }
        let mut binder = Binder::new(&active.catalog, self.environment, self.search_path, &[]);
        match binder.generated_from(table, at)?.first() {
            None => Ok(()),
            Some(from) => {
                let (own, from) = (&change.column, &table.def.columns[*from].name);
                let message = "cannot alter type of a column used by a generated column";
                Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                    .detail(format!("Column \"{own}\" is used by generated column \"{from}\".")))
            }
        }
    }

    /// Changes the type in a column's definition. A literal that took the old type as a default keeps it.
    fn change_column(
        &self,
        active: &ActiveTransaction,
        column: &mut ColumnDef,
        old: &ColumnDef,
        (ty, modifier): (SqlType, i32),
    ) -> Result<()> {
        if column.identity.is_some() && !ty.is_integer() {
            let message = "identity column type must be smallint, integer, or bigint";
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        (column.ty, column.modifier) = (ty, modifier);
        if ty != old.ty {
            column.missing = None;
        }
        match &column.default {
            Some(DefaultDef::NextOf(_)) if !ty.is_integer() => {
                Err(SqlError::unsupported("a default from a sequence for a column that is no whole number"))
            }
            Some(DefaultDef::Expression(text)) if ty != old.ty => {
                let mut binder = Binder::new(&active.catalog, self.environment, self.search_path, &[]);
                let typed = binder.expr(&crate::parse::expression(text)?).map_err(SqlError::nowhere)?;
                if typed.ty.is_none() {
                    column.default =
                        Some(DefaultDef::Expression(format!("({text})::{}", old.ty.describe(old.modifier))));
                }
                let from = Typed { ty: Some(typed.ty.unwrap_or(old.ty)), ..typed };
                binder.convert(from, ty, -1, Context::Assignment).map(drop).map_err(|error| match error.state() {
                    SqlState::CANNOT_COERCE => no_cast("default for column", &old.name, ty),
                    _ => error,
                })
            }
            _ => Ok(()),
        }
    }

    /// Gives a table new relation files for a new definition; returns the table before and after it.
    pub(super) fn with_new_files(
        &self,
        active: &mut ActiveTransaction,
        mut def: TableDef,
    ) -> Result<(Arc<Table>, Arc<Table>)> {
        let old = active.catalog.table(def.id).expect("it is being altered").clone();
        self.check_sees_all(active, &old)?;
        def.relation_file = self.relation_file(active, &def.schema)?;
        for index in &mut def.indexes {
            index.relation_file = self.relation_file(active, &def.schema)?;
        }
        let id = def.id;
        self.apply(active, vec![Change::Put(Definition::Table(def))])?;
        let new = active.catalog.table(id).expect("it has just been put there").clone();
        Ok((old, new))
    }

    /// Writes all rows of a table anew under a new definition, with some columns `computed` from the old rows, and one
    /// that is `added` and has its default.
    pub(super) fn rewrite(
        &self,
        active: &mut ActiveTransaction,
        def: TableDef,
        mut computed: Vec<(usize, Expr)>,
        added: Option<usize>,
    ) -> Result<()> {
        let is_published = self.is_published_now(active, def.id);
        if is_published {
            self.check_unchanged(active, def.id)?;
        }
        let (old, new) = self.with_new_files(active, def)?;
        self.check_definition(active, &new)?;
        let mut binder = Binder::new(&active.catalog, self.environment, self.search_path, &[]);
        let rules = binder.rules(&new)?;
        if let Some(at) = added {
            computed.push((at, binder.default_of(&new, at)?));
        }
        let run = Run::new(&active.txn, &active.catalog, &[], self.environment, self.given);
        let written = rewrite_rows(&run, &old, &new, &rules, &computed);
        drop(run);
        written.map_err(|error| {
            let name = error.report().constraint.clone().unwrap_or_default();
            duplicated(&name, error)
        })?;
        if is_published {
            let mut catalog = Catalog::clone(&active.catalog);
            catalog.note_rewrite(new.def.id);
            active.catalog = Arc::new(catalog);
        }
        Ok(())
    }

    /// Whether a table is published, with the rows of before this transaction: readers are not sent what a rewrite
    /// writes, and could not tell other changes from that.
    fn is_published_now(&self, active: &ActiveTransaction, table: ObjectId) -> bool {
        let now = self.catalog_now();
        let (Some(now), Some(own)) = (now.table(table), active.catalog.table(table)) else { return false };
        self.database.logs_keys()
            && now.def.relation_file == own.def.relation_file
            && active.catalog.publishes(&own.def, |_| true)
    }

    /// Fails if the transaction has changed rows of a table.
    fn check_unchanged(&self, active: &ActiveTransaction, table: ObjectId) -> Result<()> {
        let table = active.catalog.table(table).expect("it is being altered");
        let (file, mut is_changed) = (engine_name(table.def.relation_file), false);
        let each = |name: &str, _: &[u8], _: Option<&[u8]>| {
            is_changed |= name == file;
            Ok(())
        };
        active.txn.writes(each).sql()?;
        match is_changed {
            false => Ok(()),
            true => {
                let what = "cannot write the rows of a published table anew in a transaction that has changed it";
                let error = SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what);
                Err(error.hint("Commit the changes of the rows first."))
            }
        }
    }
}

/// Fails for a column of an index whose type has no order.
fn check_indexed(def: &TableDef, columns: &[usize]) -> Result<()> {
    let key = def.primary_key.iter().flat_map(|key| key.columns.iter().copied());
    let indexed = def.indexes.iter().flat_map(|index| index.columns.iter().map(|column| column.0));
    key.chain(indexed).filter(|at| columns.contains(at)).try_for_each(|at| check_ordered(def.columns[at].ty))
}

//! Materialized views: tables whose rows are those of a query when it was last run.
//!
//! The query is a part of the table's definition, and is among the views of the catalog, so that whatever depends on
//! what a view uses is found for it, too. REFRESH runs the query with the rights of the view's owner, in the transaction
//! of the statement: into new relation files, while the transaction has the view alone; with CONCURRENTLY into the same
//! ones, after all rows are deleted, so that others read the old rows until it commits.

use std::sync::Arc;

use sqlparser::{
    ast::{self, AlterTableOperation, ObjectName},
    keywords::Keyword,
    parser::{Parser, ParserError},
};

use super::{context::ChangeContext, table_as::TableAsTree, temporary::delete_all, view::new_query};
use crate::{
    bind::{
        Binder, plain,
        write::{Insert, InsertSource},
    },
    catalog::{
        Relation, Table,
        definition::{MaterializedDef, ObjectId, TableDef},
        rights::{Kind, Object, not_owner},
    },
    error::{Result, SqlError, SqlState},
    exec::duplicated,
    expr::Expr,
    query::Query,
    result::Column,
    transaction::{ActiveTransaction, changed},
    types::Value,
};

/// The first words, and the tag, of the statement.
pub(crate) const REFRESH: &str = "REFRESH MATERIALIZED VIEW";

/// REFRESH, as it was written.
#[derive(Clone, Debug)]
pub(crate) struct RefreshTree {
    name: ObjectName,
    is_concurrent: bool,
    with_data: bool,
}

/// REFRESH, after binding.
pub(crate) struct Refresh {
    id: ObjectId,
    is_concurrent: bool,
    /// `None`: the view loses its rows.
    pub(crate) query: Option<Query>,
}

impl RefreshTree {
    /// Parses the statement, if it comes next.
    pub(crate) fn parse(parser: &mut Parser<'_>) -> Result<Option<Self>, ParserError> {
        use Keyword::{CONCURRENTLY, DATA, MATERIALIZED, NO, REFRESH, VIEW, WITH};
        if !parser.parse_keywords(&[REFRESH, MATERIALIZED, VIEW]) {
            return Ok(None);
        }
        let is_concurrent = parser.parse_keyword(CONCURRENTLY);
        let name = parser.parse_object_name(false)?;
        let with_data = !parser.parse_keywords(&[WITH, NO, DATA]);
        let _ = parser.parse_keywords(&[WITH, DATA]);
        Ok(Some(Self { name, is_concurrent, with_data }))
    }
}

/// Binds the query of a new materialized view.
pub(super) fn new(
    binder: &mut Binder<'_>,
    tree: &TableAsTree,
) -> Result<(Query, Vec<Column>, Option<Box<MaterializedDef>>)> {
    let refused = |what: &str| {
        let message = format!("materialized views must not use {what}");
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
    };
    if crate::bind::parts::is_written(&tree.query) {
        return refused("data-modifying statements in WITH");
    }
    let (text, query, columns, notes) = new_query(binder, &tree.query)?;
    if notes.relations.iter().any(|relation| binder.catalog.is_temporary(relation.id)) {
        return refused("temporary tables or views");
    }
    if !tree.with_data {
        binder.unpopulated = None;
    }
    let (relations, uses) = (notes.relations, notes.uses.into_iter().collect());
    let part = MaterializedDef { query: text, relations, uses, is_populated: tree.with_data };
    Ok((query, columns, Some(Box::new(part))))
}

/// Fails for an action of ALTER TABLE that materialized views do not have.
pub(super) fn check_actions(name: &str, operations: &[AlterTableOperation]) -> Result<()> {
    use AlterTableOperation as Operation;
    use ast::AlterColumnOperation as Column;
    for operation in operations {
        let action = match operation {
            Operation::RenameTable { .. } | Operation::RenameColumn { .. } | Operation::OwnerTo { .. } => continue,
            Operation::AlterColumn { op, .. } => match op {
                Column::SetNotNull => "ALTER COLUMN ... SET NOT NULL",
                Column::DropNotNull => "ALTER COLUMN ... DROP NOT NULL",
                Column::SetDefault { .. } => "ALTER COLUMN ... SET DEFAULT",
                Column::DropDefault => "ALTER COLUMN ... DROP DEFAULT",
                _ => "ALTER COLUMN ... SET DATA TYPE",
            },
            Operation::AddColumn { .. } => "ADD COLUMN",
            Operation::DropColumn { .. } => "DROP COLUMN",
            Operation::AddConstraint { .. } => "ADD CONSTRAINT",
            Operation::DropConstraint { .. } => "DROP CONSTRAINT",
            other => return Err(SqlError::unsupported(format_args!("ALTER TABLE {other}"))),
        };
        let message = format!("ALTER action {action} cannot be performed on relation \"{name}\"");
        let detail = "This operation is not supported for materialized views.";
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).detail(detail));
    }
    Ok(())
}

impl Refresh {
    /// Binds the statement.
    pub(crate) fn bind(binder: &mut Binder<'_>, tree: &RefreshTree) -> Result<Self> {
        let RefreshTree { name, is_concurrent, with_data } = tree;
        let own = plain(name);
        let table = match binder.relation(name)? {
            Some(Relation::Table(table)) if table.def.materialized.is_some() => table,
            Some(Relation::Table(_)) => {
                let message = format!("\"{own}\" is not a materialized view");
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            Some(_) => {
                let message = format!("\"{own}\" is not a table or materialized view");
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            None => {
                let message = format!("relation \"{own}\" does not exist");
                return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message));
            }
        };
        let id = table.def.id;
        if !binder.catalog.owns(binder.environment.role, Object::new(Kind::Table, id)) {
            binder.failure.get_or_insert(not_owner(table.def.kind(), table.name()));
        } else if *is_concurrent {
            check_concurrent(&table.def, *with_data)?;
            binder.uses(&table);
        }
        let view = binder.catalog.view(id).filter(|_| *with_data).cloned();
        let query = view.map(|view| binder.materialized_query(&view)).transpose()?;
        Ok(Self { id, is_concurrent: *is_concurrent, query })
    }
}

impl Refresh {
    /// Returns the error of a row that has no place in a unique index, as that of an index which is built anew.
    pub(crate) fn told(&self, error: SqlError) -> SqlError {
        let name = error.report().constraint.clone();
        match name.filter(|_| !self.is_concurrent) {
            Some(name) => duplicated(&name, error),
            None => error,
        }
    }
}

/// Fails for a view that cannot be refreshed while others read it.
fn check_concurrent(def: &TableDef, with_data: bool) -> Result<()> {
    if !def.materialized.as_ref().is_some_and(|part| part.is_populated) {
        let message = "CONCURRENTLY cannot be used when the materialized view is not populated";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    if !with_data {
        let message = "CONCURRENTLY and WITH NO DATA options cannot be used together";
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
    }
    let is_plain = |at: usize| def.columns[at].computation().is_none();
    let mut unique = def.indexes.iter().filter(|index| index.is_unique && index.predicate.is_none());
    if unique.any(|index| index.columns.iter().all(|(at, _)| is_plain(*at))) {
        return Ok(());
    }
    let message = format!("cannot refresh materialized view \"{}.{}\" concurrently", def.schema, def.name);
    let hint = "Create a unique index with no WHERE clause on one or more columns of the materialized view.";
    Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message).hint(hint))
}

impl ChangeContext<'_> {
    /// Removes the rows of the view; returns the INSERT that makes the new ones, if there are to be any.
    pub(crate) fn begin_refresh(&self, active: &mut ActiveTransaction, refresh: &Refresh) -> Result<Option<Insert>> {
        let table = active.catalog.table(refresh.id).cloned().ok_or_else(|| changed("of the statement"))?;
        if refresh.is_concurrent {
            for rows in table.indexes.iter().chain([&table.rows]) {
                delete_all(&active.txn, rows)?;
            }
            return refresh.query.as_ref().map(|query| self.refill(active, &table, query)).transpose();
        }
        active.take(&table, self.limits())?;
        let mut def = table.def.clone();
        def.relation_file = self.relation_file(active, &def.schema)?;
        for index in &mut def.indexes {
            index.relation_file = self.relation_file(active, &def.schema)?;
        }
        if let Some(part) = &mut def.materialized {
            part.is_populated = refresh.query.is_some();
        }
        self.replace_table(active, def)?;
        let table = active.catalog.table(refresh.id).cloned().expect("it has just been put there");
        refresh.query.as_ref().map(|query| self.refill(active, &table, query)).transpose()
    }

    fn refill(&self, active: &ActiveTransaction, table: &Arc<Table>, query: &Query) -> Result<Insert> {
        let rules = Binder::new(&active.catalog, self.environment, self.search_path, &[]).rules(table)?;
        // Hidden columns of indexes have no values.
        let mut results = (0..).peekable();
        let row = table.def.columns.iter().map(|column| match results.next_if(|_| !column.is_dropped) {
            Some(at) => Expr::Column(at),
            None => Expr::Constant(Value::Null),
        });
        let row = row.collect();
        let source = InsertSource::Query(Box::new(query.clone()), row);
        Ok(Insert { table: table.clone(), rules, references: None, source, conflict: None, returning: None })
    }
}

//! COPY after binding.

use std::sync::Arc;

use sqlparser::ast::{Ident, ObjectName, Query as QueryTree};

use super::{
    options::{Format, Named, Options},
    tree::{CopyTree, Direction, Target},
};
use crate::{
    bind::{
        Binder,
        names::name_of,
        references::References,
        write::{Rules, columns_of},
    },
    catalog::{
        Relation, Table,
        definition::{ColumnDef, ObjectId},
        rights::Rights,
    },
    error::{Result, SqlError, SqlState},
    expr::Expr,
    functions::quote_ident,
    parse,
    plan::Plan,
    query::Query,
    result::{Column, CopyFormat},
    system::oid_of,
    types::SqlType,
};

/// COPY FROM
pub(crate) struct CopyFrom {
    pub(super) table: Arc<Table>,
    pub(super) rules: Rules,
    pub(super) references: Option<Arc<References>>,
    pub(super) options: Options,
    /// In the order of the fields.
    pub(super) fields: Vec<FieldPlan>,
    /// The values of the other columns.
    pub(super) defaults: Vec<(usize, Expr)>,
    /// The condition that rows have to meet to be inserted.
    pub(super) condition: Option<Expr>,
}

/// The column that a field is stored in.
pub(super) struct FieldPlan {
    pub(super) at: usize,
    pub(super) name: String,
    pub(super) ty: SqlType,
    pub(super) modifier: i32,
    /// The marker of NULL is a value.
    pub(super) force_not_null: bool,
    /// The marker of NULL is NULL, in quotes too.
    pub(super) force_null: bool,
}

/// COPY TO
pub(crate) struct CopyTo {
    pub(crate) query: Query,
    /// The number of the table; 0: it is a COPY of a query.
    pub(super) relation: ObjectId,
    pub(super) options: Options,
    pub(super) columns: Vec<OutColumn>,
}

pub(super) struct OutColumn {
    pub(super) name: String,
    pub(super) ty: SqlType,
    pub(super) force_quote: bool,
}

impl CopyFrom {
    /// Returns the number of the table.
    pub(crate) fn relation(&self) -> ObjectId {
        self.table.def.id
    }

    pub(crate) fn format(&self) -> CopyFormat {
        CopyFormat { is_binary: self.options.format == Format::Binary, columns: self.fields.len() }
    }
}

impl CopyTo {
    pub(super) fn format(&self) -> CopyFormat {
        CopyFormat { is_binary: self.options.format == Format::Binary, columns: self.columns.len() }
    }
}

/// Binds a COPY.
pub(crate) fn bind(binder: &mut Binder<'_>, tree: &CopyTree) -> Result<Plan> {
    let is_from = matches!(tree.direction, Direction::In { .. });
    if tree.target != Target::Client {
        let what = if tree.target == Target::File { "a file" } else { "a program" };
        let what = format!("COPY {} {what} of the server", if is_from { "from" } else { "to" });
        return Err(SqlError::unsupported(what)
            .hint("Anyone can COPY to stdout or from stdin. psql's \\copy command also works for anyone."));
    }
    let options = Options::of(&tree.options, is_from)?;
    match &tree.direction {
        Direction::In { table, columns, condition } => {
            check_materialized(binder, table, "to")?;
            let table = binder.table(table, Rights::INSERT)?;
            if binder.row_security(binder.environment.role, &table)?.is_some() {
                let message = "COPY FROM not supported with row-level security";
                return Err(
                    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).hint("Use INSERT statements instead.")
                );
            }
            let targets = match &columns[..] {
                [] => {
                    table.def.live_columns().filter(|(_, own)| own.generation().is_none()).map(|(at, _)| at).collect()
                }
                names => columns_of(&table, names.iter().map(|name| Ok((name_of(name), name.span.start))))?,
            };
            binder.needs_to_write(table.def.id, Rights::INSERT, targets.iter().copied());
            if let Some(at) = targets.iter().find(|at| table.def.columns[**at].generation().is_some()) {
                return Err(no_copy(&table.def.columns[*at].name));
            }
            let (rules, references) = (binder.rules(&table)?, binder.references(&table)?);
            let others = (0..table.def.columns.len()).filter(|at| !targets.contains(at));
            let defaults = others.map(|at| Ok((at, binder.default_of(&table, at)?))).collect::<Result<_>>()?;
            let condition = condition.as_ref().map(|expr| binder.row_condition(&table, expr, "WHERE")).transpose()?;
            if condition.as_ref().is_some_and(Expr::has_query) {
                return Err(SqlError::unsupported("a query in the WHERE of COPY"));
            }
            let uses = |at: usize| condition.as_ref().is_some_and(|expr| expr.has(&|inner| *inner == Expr::Column(at)));
            let is_used = |(at, column): &(usize, &ColumnDef)| column.generation().is_some() && uses(*at);
            if let Some((_, column)) = table.def.live_columns().find(is_used) {
                let message = "generated columns are not supported in COPY FROM WHERE conditions";
                return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message)
                    .detail(format!("Column \"{}\" is a generated column.", column.name)));
            }
            let names: Vec<_> = targets.iter().map(|&at| &*table.def.columns[at].name).collect();
            let not_null = chosen("FORCE_NOT_NULL", &options.force_not_null, &names)?;
            let null = chosen("FORCE_NULL", &options.force_null, &names)?;
            let fields =
                targets.iter().zip(not_null.into_iter().zip(null)).map(|(&at, (force_not_null, force_null))| {
                    let column = &table.def.columns[at];
                    let (name, ty, modifier) = (column.name.clone(), column.ty, column.modifier);
                    FieldPlan { at, name, ty, modifier, force_not_null, force_null }
                });
            let fields = fields.collect();
            let from = CopyFrom { table, rules, references, options, fields, defaults, condition };
            Ok(Plan::CopyFrom(Arc::new(from)))
        }
        Direction::Out(query) => copy_out(binder, query, 0, options),
        Direction::OutTable { table, columns } => {
            let (query, relation) = rows_of(binder, table, columns)?;
            // Its text is not that of the statement.
            copy_out(binder, &query, relation, options).map_err(SqlError::nowhere)
        }
    }
}

/// Fails for a materialized view.
fn check_materialized(binder: &mut Binder<'_>, name: &ObjectName, direction: &str) -> Result<()> {
    match binder.relation(name)? {
        Some(Relation::Table(table)) if table.def.materialized.is_some() => {
            let message = format!("cannot copy {direction} materialized view \"{}\"", table.name());
            Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
        }
        _ => Ok(()),
    }
}

/// Returns the query of a table's rows, without the generated columns unless they are named, which is an error, and the
/// number of the table.
fn rows_of(binder: &mut Binder<'_>, table: &ObjectName, columns: &[Ident]) -> Result<(Box<QueryTree>, ObjectId)> {
    let mut named = match columns {
        [] => vec!["*".into()],
        columns => columns.iter().map(Ident::to_string).collect::<Vec<_>>(),
    };
    check_materialized(binder, table, "from").map_err(|error| error.hint("Try the COPY (SELECT ...) TO variant."))?;
    let relation = binder.relation(table)?;
    let number = relation.as_ref().map_or(0, oid_of);
    if let Some(Relation::Sequence(sequence)) = &relation {
        let message = format!("cannot copy from sequence \"{}\"", sequence.def.name);
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
    }
    if let Some(Relation::Table(table)) = relation {
        let (generated, others): (Vec<_>, Vec<_>) =
            table.def.live_columns().map(|(_, column)| column).partition(|column| column.generation().is_some());
        let is_named = |column: &&&ColumnDef| columns.iter().any(|name| name_of(name) == column.name);
        if let Some(column) = generated.iter().find(is_named) {
            return Err(no_copy(&column.name));
        }
        if columns.is_empty() && !generated.is_empty() {
            named = others.into_iter().map(|column| quote_ident(&column.name)).collect();
        }
    }
    let text = format!("SELECT {} FROM {table}", named.join(", "));
    let query = parse::query(&text).map_err(|error| parse::failure(&text, &error))?;
    Ok((query, number))
}

fn no_copy(column: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, format!("column \"{column}\" is a generated column"))
        .detail("Generated columns cannot be used in COPY.")
}

fn copy_out(binder: &mut Binder<'_>, query: &QueryTree, relation: ObjectId, options: Options) -> Result<Plan> {
    let (query, columns) = binder.query(query)?;
    let names: Vec<_> = columns.iter().map(|column| &*column.name).collect();
    let quoted = chosen("FORCE_QUOTE", &options.force_quote, &names)?;
    let column = |(Column { name, ty, .. }, force_quote): (&Column, bool)| OutColumn {
        name: name.clone(),
        ty: *ty,
        force_quote,
    };
    let columns = columns.iter().zip(quoted).map(column).collect();
    Ok(Plan::CopyTo(CopyTo { query, relation, options, columns }))
}

/// Returns for each column whether an option names it.
fn chosen(option: &str, named: &Named, columns: &[&str]) -> Result<Vec<bool>> {
    let Named::These(names) = named else { return Ok(vec![true; columns.len()]) };
    if let Some(missing) = names.iter().find(|name| !columns.contains(&&***name)) {
        let message = format!("{option} column \"{missing}\" not referenced by COPY");
        return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
    }
    Ok(columns.iter().map(|column| names.iter().any(|name| name == column)).collect())
}

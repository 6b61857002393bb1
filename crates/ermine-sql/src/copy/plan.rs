//! COPY after binding.

use std::sync::Arc;

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
    catalog::Table,
    error::{Result, SqlError, SqlState},
    expr::Expr,
    plan::Plan,
    query::Query,
    result::{Column, CopyFormat},
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
    pub(super) options: Options,
    pub(super) columns: Vec<OutColumn>,
}

pub(super) struct OutColumn {
    pub(super) name: String,
    pub(super) ty: SqlType,
    pub(super) force_quote: bool,
}

impl CopyFrom {
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
            let table = binder.table(table)?;
            let targets = match &columns[..] {
                [] => table.def.live_columns().map(|(at, _)| at).collect(),
                names => columns_of(&table, names.iter().map(|name| Ok(name_of(name))))?,
            };
            let (rules, references) = (binder.rules(&table)?, binder.references(&table)?);
            let others = (0..table.def.columns.len()).filter(|at| !targets.contains(at));
            let defaults = others.map(|at| Ok((at, binder.default_of(&table, at)?))).collect::<Result<_>>()?;
            let condition = condition.as_ref().map(|expr| binder.row_condition(&table, expr, "WHERE")).transpose()?;
            if condition.as_ref().is_some_and(Expr::has_query) {
                return Err(SqlError::unsupported("a query in the WHERE of COPY"));
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
        Direction::Out(query) => {
            let (query, columns) = binder.query(query)?;
            let names: Vec<_> = columns.iter().map(|column| &*column.name).collect();
            let quoted = chosen("FORCE_QUOTE", &options.force_quote, &names)?;
            let column = |(Column { name, ty, .. }, force_quote): (&Column, bool)| OutColumn {
                name: name.clone(),
                ty: *ty,
                force_quote,
            };
            let columns = columns.iter().zip(quoted).map(column).collect();
            Ok(Plan::CopyTo(CopyTo { query, options, columns }))
        }
    }
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

//! INSERT, UPDATE and DELETE on views: statements on the rows of the table below.
//!
//! A view takes them if it selects from one table, or from one such view, without grouping, sets and the like
//! (PostgreSQL's automatically updatable views). Its columns that are plain columns of the table can be written. Rows
//! that the view does not show are not changed, and with WITH CHECK OPTION none may become one.

use std::sync::Arc;

use sqlparser::ast::{self, SelectItem};

use super::{
    Binder, Scope,
    names::{relation_of, simple_name},
    pull_up::{Derived, Unordered},
    rights::{Level, is_true},
    row_security::Policies,
    source::From,
    write::Returned,
};
use crate::{
    catalog::{
        Relation, Table, View,
        definition::{CheckOption, NamedRelation, ViewColumnDef},
    },
    error::{Result, SqlError, SqlState},
    expr::Expr,
    parse::{self, place::at_name},
    query::{Source, SourceKind},
    result::Column,
    system::views::{NOT_ONE_TABLE, only_relation, reason_of},
    types::Value,
};

/// The effect of a statement on the rows of a view.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writes {
    Insert,
    Update,
    Delete,
}

/// The table below a view, and what the view shows of it.
pub(super) struct Below {
    pub(super) view: Arc<View>,
    pub(super) table: Arc<Table>,
    columns: Vec<Column>,
    /// The columns of the view, on a row of the table.
    output: Vec<Expr>,
    /// The rows of the table, with the conditions of views below.
    source: Source,
    /// The views and the table below, for the rights that the statement needs to them.
    levels: Vec<Level>,
    /// The conditions of the view.
    filter: Vec<Expr>,
    /// Whether it, or a view below, is a `security_barrier`.
    is_barrier: bool,
    /// Conditions that rows have to meet after they are written, and the views that have them, the lowest first.
    checks: Vec<(String, Expr)>,
    /// The defaults of the view's columns, by the columns of the table.
    pub(super) defaults: Vec<(usize, Expr)>,
}

impl Writes {
    /// Returns the error for a view that does not take such statements.
    fn refused(self, view: &View, reason: &str) -> SqlError {
        let (what, doing, event) = match self {
            Self::Insert => ("insert into", "inserting into", "INSERT"),
            Self::Update => ("update", "updating", "UPDATE"),
            Self::Delete => ("delete from", "deleting from", "DELETE"),
        };
        let message = format!("cannot {what} view \"{}\"", view.def.name);
        let hint = format!(
            "To enable {doing} the view, provide an INSTEAD OF {event} trigger or an unconditional ON {event} DO INSTEAD \
             rule."
        );
        SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message).detail(reason).hint(hint)
    }
}

impl Binder<'_> {
    /// Returns the view that a statement names as the target of its rows; `None`: something else.
    pub(super) fn target_view(&mut self, name: &ast::ObjectName) -> Result<Option<Arc<View>>> {
        Ok(match self.relation(name)? {
            Some(Relation::View(view)) => Some(view),
            _ => None,
        })
    }

    /// Returns the table below a view, for a statement that writes.
    pub(super) fn below(&mut self, view: &Arc<View>, writes: Writes) -> Result<Below> {
        let refused = |reason: &str| writes.refused(view, reason);
        let query = parse::stored_query(&view.def.query)?;
        if let Some(reason) = reason_of(&query) {
            return Err(refused(reason));
        }
        let name = only_relation(&query).ok_or_else(|| refused(NOT_ONE_TABLE))?;
        let (schema, own) = relation_of(name)?;
        let named = NamedRelation::find(&view.def.relations, schema.as_deref(), &own);
        let relation = named.and_then(|named| self.catalog.relation(named.id));
        let mut inner = match relation {
            Some(Relation::View(inner)) => Some(self.in_view(view, |this, _| this.below(&inner, writes))?),
            Some(Relation::Table(_)) => None,
            _ => return Err(refused(NOT_ONE_TABLE)),
        };
        let around = std::mem::replace(&mut self.ignores_order, true);
        // Those of the table are added to the statement.
        self.policies = Policies::Others;
        let derived = self.view(view, 0);
        self.policies = Policies::All;
        self.ignores_order = around;
        let (Derived::Unordered(mut unordered), columns) = derived? else { return Err(refused(NOT_ONE_TABLE)) };
        unordered.replace();
        let Unordered { select, mut from, filter, .. } = *unordered;
        if select.group.is_some() {
            return Err(refused("Views that return aggregate functions are not automatically updatable."));
        }
        if !select.sets.is_empty() {
            return Err(refused("Views that return set-returning functions are not automatically updatable."));
        }
        let source = from.sources.pop().filter(|_| from.sources.is_empty());
        let Some(source @ Source { kind: SourceKind::Table(_), .. }) = source else {
            return Err(SqlError::unsupported("writing to a view above one with such computed columns"));
        };
        let SourceKind::Table(rows) = &source.kind else { unreachable!("it is a table") };
        let table = rows.table.clone();
        let is_system = |expr: &Expr| *expr == Expr::Column(table.types.len());
        if select.output.iter().chain(&filter).chain(&source.on).any(|expr| expr.has(&is_system)) {
            return Err(SqlError::unsupported("writing to a view that shows a system column"));
        }
        let output = select.output;
        let mut defaults = inner.as_mut().map_or(Vec::new(), |inner| std::mem::take(&mut inner.defaults));
        for (at, expr) in output.iter().enumerate() {
            if let (Expr::Column(column), Some(text)) = (expr, view.def.default_of(at)) {
                let default = self.default_of_view(&view.def.columns[at], text)?;
                defaults.retain(|(own, _)| own != column);
                defaults.push((*column, default));
            }
        }
        let shown = |expr: &Expr| if let Expr::Column(column) = expr { Some(*column) } else { None };
        let mut levels = vec![self.level(view.def.id, Some(output.iter().map(shown).collect()))];
        match &mut inner {
            Some(inner) => levels.append(&mut inner.levels),
            None => levels.push(self.in_view(view, |this, _| Ok(this.level(table.def.id, None)))?),
        }
        let is_barrier = is_true(view, "security_barrier") || inner.as_ref().is_some_and(|inner| inner.is_barrier);
        let checks = checks_of(view, &filter, inner)?;
        let has_writable = output.iter().any(|expr| matches!(expr, Expr::Column(_)));
        if !has_writable && writes != Writes::Delete {
            return Err(refused("Views that have no updatable columns are not automatically updatable."));
        }
        let view = view.clone();
        Ok(Below { view, table, columns, output, source, levels, filter, is_barrier, checks, defaults })
    }

    /// Binds the default of a view's column.
    pub(crate) fn default_of_view(&mut self, column: &ViewColumnDef, text: &str) -> Result<Expr> {
        self.default_text(text, (column.ty, column.modifier), &column.name)
    }

    /// Returns the default of the column of a view that is a column of the table; NULL: it has none.
    pub(super) fn own_default(&mut self, below: &Below, column: usize) -> Result<Expr> {
        let def = &below.view.def;
        let at = below.output.iter().position(|expr| *expr == Expr::Column(column));
        match at.and_then(|at| Some((at, def.default_of(at)?))) {
            Some((at, text)) => self.default_of_view(&def.columns[at], text),
            None => Ok(Expr::Constant(Value::Null)),
        }
    }

    /// Adds the rows of a view that a statement changes as the first source, with the key behind the table's columns;
    /// returns the place of that.
    pub(super) fn add_below(
        &mut self,
        from: &mut From,
        below: &mut Below,
        alias: Option<&ast::TableAlias>,
    ) -> Result<usize> {
        // The key takes the place of `tableoid`.
        let key_at = below.table.types.len();
        let mut source = below.source.clone();
        if let SourceKind::Table(rows) = &mut source.kind {
            rows.key_at = Some(key_at);
            if below.is_barrier {
                // Nothing of the statement sees rows that the view hides.
                rows.visible.extend(source.on.iter().chain(&below.filter).cloned());
            }
        }
        from.width = source.width;
        from.sources.push(source);
        from.filter.append(&mut below.filter);
        self.add_shown(from, below, alias)?;
        Ok(key_at)
    }

    /// Adds the columns of a view to the scope, and what they stand for.
    fn add_shown(&mut self, from: &mut From, below: &Below, alias: Option<&ast::TableAlias>) -> Result<()> {
        let named: Vec<usize> = (0..below.columns.len()).collect();
        self.add_columns(from, &named, &below.columns, (&below.view.def.name, alias), false)?;
        let first = from.width;
        from.replaced.extend(below.output.iter().enumerate().map(|(at, expr)| (first + at, expr.clone())));
        from.width += below.columns.len();
        Ok(())
    }

    /// Binds the RETURNING of an INSERT into a view.
    pub(super) fn returning_below(
        &mut self,
        below: &Below,
        alias: Option<&ast::Ident>,
        items: Option<&[SelectItem]>,
    ) -> Result<Returned> {
        let Some(items) = items else { return Ok((None, None)) };
        let alias =
            alias.map(|name| ast::TableAlias { explicit: true, name: name.clone(), columns: Vec::new(), at: None });
        let mut from = From { width: below.table.types.len(), ..From::default() };
        self.scopes.push(Scope::default());
        let bound = self.add_shown(&mut from, below, alias.as_ref()).and_then(|()| self.returning(items));
        self.scopes.pop();
        let (mut exprs, columns) = bound?;
        from.replace_in_all(&mut exprs);
        Ok((Some(exprs), Some(columns)))
    }
}

impl Below {
    /// Returns the conditions that written rows have to meet.
    pub(super) fn take_checks(&mut self) -> Vec<(String, Expr)> {
        std::mem::take(&mut self.checks)
    }

    /// Returns the relations to which the statement needs rights.
    pub(super) fn take_levels(&mut self) -> Vec<Level> {
        std::mem::take(&mut self.levels)
    }

    /// Returns the table's column that a column of the view is.
    pub(super) fn column(&self, name: &str, writes: Writes) -> Result<usize> {
        let at = self.columns.iter().position(|column| column.name == name).ok_or_else(|| {
            let message = format!("column \"{name}\" of relation \"{}\" does not exist", self.view.def.name);
            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
        })?;
        self.writable(at).ok_or_else(|| {
            let doing = if writes == Writes::Insert { "insert into" } else { "update" };
            let message = format!("cannot {doing} column \"{name}\" of view \"{}\"", self.view.def.name);
            let detail = "View columns that are not columns of their base relation are not updatable.";
            SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).detail(detail)
        })
    }

    fn writable(&self, at: usize) -> Option<usize> {
        match self.output[at] {
            Expr::Column(column) => Some(column),
            _ => None,
        }
    }

    /// Returns the columns that an INSERT without a list of columns writes: the first ones that it can.
    pub(super) fn all_columns(&self) -> Vec<usize> {
        (0..self.output.len()).map_while(|at| self.writable(at)).collect()
    }

    /// Returns the columns of a list.
    pub(super) fn columns_of(&self, names: &[ast::ObjectName]) -> Result<Vec<usize>> {
        let mut columns = Vec::new();
        for own in names {
            let name = simple_name(own)?;
            let at = self.column(&name, Writes::Insert).map_err(|error| at_name(error, own))?;
            if columns.contains(&at) {
                let message = format!("column \"{name}\" specified more than once");
                return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
            }
            columns.push(at);
        }
        Ok(columns)
    }
}

/// Returns the conditions that a view with CHECK OPTION sets on written rows, behind those of the view below.
fn checks_of(view: &View, filter: &[Expr], inner: Option<Below>) -> Result<Vec<(String, Expr)>> {
    let cascades = view.def.check == Some(CheckOption::Cascaded);
    let mut checks = match inner {
        // All conditions of the views below are in there.
        Some(inner) if cascades => {
            let own = inner.filter.into_iter().map(|condition| (inner.view.def.name.clone(), condition));
            let lower = inner.source.on.into_iter().map(|condition| (inner.view.def.name.clone(), condition));
            lower.chain(own).collect()
        }
        Some(inner) => inner.checks,
        None => Vec::new(),
    };
    if view.def.check.is_some() {
        checks.extend(filter.iter().map(|condition| (view.def.name.clone(), condition.clone())));
    }
    match checks.iter().any(|(_, condition)| condition.has_query()) {
        true => Err(SqlError::unsupported("a query in the condition of a view WITH CHECK OPTION")),
        false => Ok(checks),
    }
}

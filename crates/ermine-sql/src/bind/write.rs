//! Statements that write rows.

use std::{collections::BTreeSet, sync::Arc};

use sqlparser::{
    ast::{
        self, AssignmentTarget, ConflictTarget, FromTable, ObjectName, OnConflictAction, OnInsert, SelectItem, SetExpr,
        Spanned as _, TableFactor, TableObject, UpdateTableFromKind,
    },
    tokenizer::Location,
};

use super::{
    Binder, Scope, ScopeColumn, Typed,
    generated::check_given,
    join_order::{is_generated, order_joins},
    names::{name_of, simple_name},
    pull_up::replace_all,
    references::References,
    row::items_of,
    row_security::PolicyCheck,
    source::{From, table_oid},
    view_write::{Below, Writes},
};
use crate::{
    catalog::{
        Catalog, Table,
        definition::{ColumnDef, DefaultDef, Identity, IndexDef, TableDef},
        rights::Rights,
    },
    collation::Collation,
    error::{Result, SqlError, SqlState},
    expr::{Expr, NextOf},
    fold::fold_condition,
    parse::{
        self,
        place::{at_expr, at_location, at_name},
    },
    query::{Body, Expected, Path, Query, Select, SourceKind},
    result::Column,
    types::{SqlType, Value},
};

/// The conditions on the rows of a table, and on which rows its partial indexes contain.
#[derive(Default)]
pub(crate) struct Rules {
    /// The conditions of the domains of columns, evaluated on the row.
    pub(crate) domains: Vec<Expr>,
    /// Evaluated on the row.
    pub(crate) checks: Vec<(String, Expr)>,
    /// By index: the condition of a partial one.
    pub(crate) predicates: Vec<Option<Expr>>,
    /// The generated columns, and their values, computed from the row.
    pub(crate) generated: Vec<(usize, Expr)>,
    /// The hidden columns of indexes, and their values, computed from the row where an entry is made.
    pub(crate) computed: Vec<(usize, Expr)>,
    /// The conditions of the views by way of which the row is written, and their names.
    pub(crate) view_checks: Vec<(String, Expr)>,
    /// The conditions of policies. They are evaluated before the statement writes anything.
    pub(crate) policies: Vec<PolicyCheck>,
}

/// INSERT
pub(crate) struct Insert {
    pub(crate) table: Arc<Table>,
    pub(crate) rules: Rules,
    pub(crate) references: Option<Arc<References>>,
    pub(crate) source: InsertSource,
    pub(crate) conflict: Option<OnConflict>,
    /// Evaluated on the row.
    pub(crate) returning: Option<Vec<Expr>>,
}

impl Insert {
    /// Returns its query, and whole rows computed from the query's rows, if these can be written as they come: nothing
    /// that is evaluated before the last of them depends on what the statement writes.
    pub(crate) fn streamed(&self) -> Option<(&Query, &[Expr])> {
        let InsertSource::Query(query, exprs) = &self.source else { return None };
        let updates = self.conflict.as_ref().is_some_and(|conflict| conflict.update.is_some());
        let is_streamed = !updates && self.rules.policies.is_empty() && is_generated(query, exprs);
        is_streamed.then_some((query, exprs))
    }
}

pub(crate) enum InsertSource {
    /// Whole rows of the table.
    Rows(Vec<Vec<Expr>>),
    /// A query, and whole rows of the table computed from its rows.
    Query(Box<Query>, Vec<Expr>),
}

/// The action for a row that would violate a unique index.
pub(crate) struct OnConflict {
    /// The unique indexes that the clause names; empty: all.
    pub(crate) paths: Vec<Path>,
    pub(crate) update: Option<ConflictUpdate>,
}

impl OnConflict {
    /// Returns the unique paths of a table that count.
    pub(crate) fn paths_of(&self, table: &Table) -> Vec<Path> {
        if !self.paths.is_empty() {
            return self.paths.clone();
        }
        let primary = table.def.primary_key.iter().map(|_| Path::Primary);
        let indexes = (0..table.def.indexes.len()).filter(|at| table.def.indexes[*at].is_unique);
        primary.chain(indexes.map(Path::Index)).collect()
    }
}

/// DO UPDATE: evaluated on the existing row, followed by the row proposed for insertion.
pub(crate) struct ConflictUpdate {
    pub(crate) assignments: Vec<(usize, Expr)>,
    pub(crate) condition: Option<Expr>,
    /// The conditions of policies on the existing row.
    pub(crate) visible: Vec<PolicyCheck>,
    /// The conditions of policies on the new row.
    pub(crate) policies: Vec<PolicyCheck>,
}

/// UPDATE or DELETE
pub(crate) struct Change {
    pub(crate) table: Arc<Table>,
    pub(crate) rules: Rules,
    pub(crate) references: Option<Arc<References>>,
    /// Rows of all sources, with the row of the table from place 0 on, and its key after the table's columns.
    pub(crate) rows: Box<Query>,
    pub(crate) key_at: usize,
    /// The new values of columns; `None`: the row is deleted.
    pub(crate) assignments: Option<Vec<(usize, Expr)>>,
    /// Evaluated on the rows of all sources.
    pub(crate) returning: Option<Vec<Expr>>,
}

/// The place of `tableoid` of the table that a statement changes, until the number of the table replaces it.
const TARGET_OID: usize = usize::MAX >> 1;

/// The columns that an INSERT has values for.
pub(super) struct Targets {
    pub(super) columns: Vec<usize>,
    /// Where the statement names them, if it does.
    pub(super) listed: Vec<Location>,
    pub(super) overriding: Option<Overriding>,
    /// The defaults of a view's columns, by the columns of the table.
    pub(super) defaults: Vec<(usize, Expr)>,
}

/// OVERRIDING .. VALUE: the values of identity columns that count.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Overriding {
    /// Those of the statement.
    System,
    /// Those of the sequences.
    User,
}

impl Targets {
    /// Whether the value given for a column is ignored.
    fn leaves_out(&self, column: &ColumnDef) -> bool {
        self.overriding == Some(Overriding::User) && column.identity.is_some()
    }
}

/// Splits the columns of an INSERT from the one that stands for OVERRIDING.
pub(super) fn overriding(columns: &[ast::ObjectName]) -> (&[ast::ObjectName], Option<Overriding>) {
    let Some((last, others)) = columns.split_last() else { return (columns, None) };
    let mark = simple_name(last).ok().and_then(|name| parse::OVERRIDING.iter().position(|mark| **mark == *name));
    match mark {
        Some(0) => (others, Some(Overriding::System)),
        Some(_) => (others, Some(Overriding::User)),
        None => (columns, None),
    }
}

/// The expressions returned for written rows, and their columns.
pub(super) type Returned = (Option<Vec<Expr>>, Option<Vec<Column>>);

impl Binder<'_> {
    pub(crate) fn insert(&mut self, insert: &ast::Insert) -> Result<(Insert, Option<Vec<Column>>)> {
        let is_plain = insert.or.is_none()
            && !insert.overwrite
            && !insert.ignore
            && !insert.replace_into
            && insert.partitioned.is_none()
            && insert.assignments.is_empty()
            && insert.after_columns.is_empty()
            && insert.insert_alias.is_none()
            && insert.output.is_none();
        if !is_plain {
            return Err(SqlError::unsupported("this form of INSERT"));
        }
        let TableObject::TableName(name) = &insert.table else {
            return Err(SqlError::unsupported("INSERT into anything but a table"));
        };
        let mut below = match self.target_view(name)? {
            Some(view) => Some(self.below(&view, Writes::Insert)?),
            None => None,
        };
        let table = match &below {
            Some(below) => below.table.clone(),
            None => self.table(name, Rights::INSERT)?,
        };
        let (names, overriding) = overriding(&insert.columns);
        let columns = match (names, &below) {
            ([], Some(below)) => below.all_columns(),
            (names, Some(below)) => below.columns_of(names)?,
            ([], None) => table.def.live_columns().map(|(at, _)| at).collect(),
            (names, None) => columns_of(&table, names.iter().map(name_with_place))?,
        };
        let defaults = below.as_mut().map_or(Vec::new(), |below| std::mem::take(&mut below.defaults));
        let targets = Targets { columns, listed: places_of(names), overriding, defaults };
        let levels = below.as_mut().map_or_else(|| vec![self.level(table.def.id, None)], Below::take_levels);
        let written = match insert.source.as_deref().map(|query| &*query.body) {
            // Columns without a value have their defaults.
            Some(SetExpr::Values(values)) if targets.listed.is_empty() => {
                values.rows.first().map_or(0, |row| row.content.len()).min(targets.columns.len())
            }
            None => 0,
            Some(_) => targets.columns.len(),
        };
        self.needs_to_write_below(&levels, Rights::INSERT, &targets.columns[..written]);
        let role = levels.last().map_or(self.environment.role, |level| level.role);
        let source = match insert.source.as_deref() {
            None => InsertSource::Rows(vec![self.whole_row(&table, &targets, Vec::new())?]),
            Some(query) => match &*query.body {
                SetExpr::Values(values)
                    if query.order_by.is_none() && query.limit_clause.is_none() && query.with.is_none() =>
                {
                    let mut rows = Vec::new();
                    for row in &values.rows {
                        rows.push(self.inserted_row(&table, &targets, &row.content)?);
                    }
                    InsertSource::Rows(rows)
                }
                _ => self.inserted_query(&table, &targets, query)?,
            },
        };
        let (mut rules, references) = (self.rules(&table)?, self.references(&table)?);
        let conflict = match &insert.on {
            None => None,
            Some(_) if below.is_some() => return Err(SqlError::unsupported("ON CONFLICT of a view")),
            Some(OnInsert::OnConflict(conflict)) => {
                let alias = insert.table_alias.as_ref().map(|alias| name_of(&alias.alias));
                Some(self.on_conflict(&table, alias, conflict)?)
            }
            Some(_) => {
                return Err(SqlError::unsupported("ON DUPLICATE KEY UPDATE").hint("Write ON CONFLICT ... DO UPDATE."));
            }
        };
        let (alias, items) = (insert.table_alias.as_ref().map(|alias| &alias.alias), insert.returning.as_deref());
        let (returning, columns) = match &mut below {
            Some(below) => {
                rules.view_checks = below.take_checks();
                self.returning_below(below, alias, items)?
            }
            None => self.returning_of(&table, alias.map(name_of), items)?,
        };
        let mut insert = Insert { table, rules, references, source, conflict, returning };
        self.secure_insert(&mut insert, role)?;
        Ok((insert, columns))
    }

    /// Binds a row of VALUES for the target columns.
    pub(super) fn inserted_row(&mut self, table: &Table, targets: &Targets, row: &[ast::Expr]) -> Result<Vec<Expr>> {
        // All values are bound before any is converted to its column's type.
        let values = row.iter().map(|value| self.given(value)).collect::<Result<Vec<_>>>()?;
        check_width(targets, row.len()).map_err(|error| match row.get(targets.columns.len()) {
            Some(extra) => at_expr(error, extra),
            None => error,
        })?;
        let mut given = Vec::new();
        for ((&at, value), written) in targets.columns.iter().zip(values).zip(row) {
            let Some(typed) = value else { continue };
            let column = &table.def.columns[at];
            check_given(column, true)?;
            if targets.leaves_out(column) {
                continue;
            }
            if column.identity == Some(Identity::Always) && targets.overriding.is_none() {
                let message = format!("cannot insert a non-DEFAULT value into column \"{}\"", column.name);
                let detail = format!("Column \"{}\" is an identity column defined as GENERATED ALWAYS.", column.name);
                return Err(SqlError::new(SqlState("428C9"), message)
                    .detail(detail)
                    .hint("Use OVERRIDING SYSTEM VALUE to override."));
            }
            let assigned = self.assign(typed, column.ty, column.modifier, &column.name);
            given.push((at, assigned.map_err(|error| at_expr(error, written))?));
        }
        self.whole_row(table, targets, given)
    }

    /// Binds the value given for a column; `None`: DEFAULT.
    fn given(&mut self, value: &ast::Expr) -> Result<Option<Typed>> {
        match value {
            ast::Expr::Identifier(ident)
                if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default") =>
            {
                Ok(None)
            }
            value => self.expr(value).map(Some),
        }
    }

    fn inserted_query(&mut self, table: &Table, targets: &Targets, query: &ast::Query) -> Result<InsertSource> {
        let (mut query, mut columns) = self.untyped_query(query)?;
        check_width(targets, columns.len())?;
        let mut given = Vec::new();
        for (place, (&at, from)) in targets.columns.iter().zip(&mut columns).enumerate() {
            let column = &table.def.columns[at];
            check_given(column, true)?;
            if targets.overriding.is_none() {
                check_identity(column)?;
            }
            if query.untyped().contains(&place) {
                self.type_output(&mut query, place, column.ty, column.modifier)?;
                (from.ty, from.modifier) = (column.ty, column.modifier);
            }
            if targets.leaves_out(column) {
                continue;
            }
            let typed = Typed { expr: Expr::Column(place), ty: Some(from.ty), modifier: from.modifier };
            given.push((at, self.assign(typed, column.ty, column.modifier, &column.name)?));
        }
        Ok(InsertSource::Query(Box::new(query), self.whole_row(table, targets, given)?))
    }

    /// Returns a value for each column: the given one, or its default.
    fn whole_row(&mut self, table: &Table, targets: &Targets, mut given: Vec<(usize, Expr)>) -> Result<Vec<Expr>> {
        let mut row = Vec::new();
        for at in 0..table.def.columns.len() {
            row.push(match given.iter().position(|(column, _)| *column == at) {
                Some(found) => given.swap_remove(found).1,
                None => match targets.defaults.iter().find(|(column, _)| *column == at) {
                    Some((_, default)) => default.clone(),
                    None => self.default_of(table, at)?,
                },
            });
        }
        Ok(row)
    }

    /// Returns the value of a column that is not mentioned.
    pub(crate) fn default_of(&mut self, table: &Table, at: usize) -> Result<Expr> {
        let column = &table.def.columns[at];
        match column.default.as_ref().filter(|_| !column.is_dropped) {
            // Generated columns are computed later, from the whole row.
            Some(DefaultDef::Generated(_) | DefaultDef::Computed(_)) => Ok(Expr::Constant(Value::Null)),
            None => match self.catalog.types.of_column(table.def.id, at).filter(|_| !column.is_dropped) {
                Some(ty) => self.default_of_domain(ty),
                None => Ok(Expr::Constant(Value::Null)),
            },
            Some(DefaultDef::NextOf(sequence)) => {
                let missing = || SqlError::new(SqlState::UNDEFINED_TABLE, "the sequence of the column does not exist");
                let sequence = self.catalog.sequence(*sequence).ok_or_else(missing)?;
                if column.identity.is_none() {
                    self.needs_sequence(sequence.def.id, Rights::USAGE | Rights::UPDATE);
                }
                Ok(Expr::Next(NextOf(sequence.clone(), column.ty)))
            }
            Some(DefaultDef::Expression(text)) => self.default_text(text, (column.ty, column.modifier), &column.name),
        }
    }

    /// Binds the text of a default.
    pub(super) fn default_text(&mut self, text: &str, (ty, modifier): (SqlType, i32), column: &str) -> Result<Expr> {
        let bound = self.stored(text, |this, expr| {
            this.scopes.push(Scope::default());
            let typed = this.expr(expr);
            this.scopes.pop();
            this.assign_default(typed?, (ty, modifier), column)
        })?;
        if bound.has_query() {
            return Err(SqlError::unsupported("a query in a DEFAULT"));
        }
        Ok(bound)
    }

    /// Binds the conditions on a table's rows.
    pub(crate) fn rules(&mut self, table: &Arc<Table>) -> Result<Rules> {
        self.in_rules(|this| this.rules_of(table))
    }

    fn rules_of(&mut self, table: &Arc<Table>) -> Result<Rules> {
        let checks =
            table.def.checks.iter().map(|check| Ok((check.name.clone(), self.on_row(table, &check.condition)?)));
        let mut checks: Vec<(String, Expr)> = checks.collect::<Result<_>>()?;
        // As in PostgreSQL, the first violated check by name is reported.
        checks.sort_by(|left, right| left.0.cmp(&right.0));
        if checks.iter().any(|(_, check)| check.has_query()) {
            return Err(SqlError::unsupported("a query in a CHECK constraint"));
        }
        let predicates = table.def.indexes.iter();
        let predicates =
            predicates.map(|index| index.predicate.as_ref().map(|text| self.on_row(table, text)).transpose());
        let predicates: Vec<Option<Expr>> = predicates.collect::<Result<_>>()?;
        if !predicates.iter().flatten().all(Expr::is_immutable) {
            let message = "functions in index predicate must be marked IMMUTABLE";
            return Err(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message));
        }
        let (domains, generated) = (self.domains_of(table)?, self.generated(table)?);
        let computed = self.computed(&table.def)?;
        let (view_checks, policies) = (Vec::new(), Vec::new());
        Ok(Rules { domains, checks, predicates, generated, computed, view_checks, policies })
    }

    /// Binds a condition of a table's definition, on its rows.
    fn on_row(&mut self, table: &Table, text: &str) -> Result<Expr> {
        self.stored(text, |this, condition| this.row_condition(table, condition, "CHECK"))
    }

    /// Binds a condition on a table's rows.
    pub(crate) fn row_condition(&mut self, table: &Table, expr: &ast::Expr, clause: &'static str) -> Result<Expr> {
        self.condition_on(&table.def, expr, clause)
    }

    /// Binds a value that is computed from a row of a table.
    pub(crate) fn value_on(&mut self, table: &TableDef, expr: &ast::Expr, clause: &'static str) -> Result<Typed> {
        self.scopes.push(Scope { is_definition: true, ..scope_of(&[(table, &table.name)]) });
        let value = self.without_rows(clause, |this| this.expr(expr));
        self.scopes.pop();
        value
    }

    fn condition_on(&mut self, table: &TableDef, expr: &ast::Expr, clause: &'static str) -> Result<Expr> {
        let place = match clause {
            "CHECK" => "check constraints",
            "POLICY" => "policy expressions",
            other => other,
        };
        self.scopes.push(Scope { clause: place, is_definition: true, ..scope_of(&[(table, &table.name)]) });
        let condition = self.condition(expr, clause);
        self.scopes.pop();
        condition
    }

    /// Returns the numbers of the table's columns that a condition on its rows refers to.
    pub(crate) fn columns_of_check(&mut self, table: &TableDef, condition: &ast::Expr) -> Result<BTreeSet<usize>> {
        let mut columns = BTreeSet::new();
        self.condition_on(table, condition, "CHECK")?.visit(&mut |expr| {
            if let Expr::Column(at) = expr {
                columns.insert(*at);
            }
        });
        Ok(columns)
    }

    fn on_conflict(&mut self, table: &Table, alias: Option<String>, conflict: &ast::OnConflict) -> Result<OnConflict> {
        let paths = match &conflict.conflict_target {
            None => Vec::new(),
            Some(ConflictTarget::Columns(names)) => {
                let (computed, mut columns) = (self.in_rules(|this| this.computed(&table.def))?, Vec::new());
                for name in names {
                    columns.push(self.conflict_column(table, name, &computed)?);
                }
                columns.sort_unstable();
                let same = |own: &mut dyn Iterator<Item = usize>| {
                    let mut own: Vec<_> = own.collect();
                    own.sort_unstable();
                    own == columns
                };
                let primary = table.def.primary_key.iter().filter(|key| same(&mut key.columns.iter().copied()));
                let primary = primary.map(|_| Path::Primary);
                let indexes = table.def.indexes.iter().enumerate().filter(|(at, _)| table.def.is_complete(*at));
                // A partial one is meant by its condition only, which the grammar lacks.
                let is_meant = |index: &IndexDef| index.is_unique && index.predicate.is_none();
                let indexes = indexes
                    .filter(|(_, index)| is_meant(index) && same(&mut index.columns.iter().map(|column| column.0)));
                primary.chain(indexes.map(|(at, _)| Path::Index(at))).collect()
            }
            Some(ConflictTarget::OnConstraint(name)) => {
                let name = simple_name(name)?;
                let primary = table.def.primary_key.iter().filter(|key| key.name == name).map(|_| Path::Primary);
                let indexes = table.def.indexes.iter().enumerate().filter(|(_, index)| index.name == name);
                primary.chain(indexes.map(|(at, _)| Path::Index(at))).collect()
            }
        };
        // The columns by which conflicts are found are read.
        for path in &paths {
            let columns = match path {
                Path::Index(at) => self.in_rules(|this| this.columns_of_index(&table.def, &table.def.indexes[*at]))?,
                _ => table.def.primary_key.iter().flat_map(|key| key.columns.iter().copied()).collect(),
            };
            self.needs_to_read(table.def.id, columns.into_iter());
        }
        if conflict.conflict_target.is_some() && paths.is_empty() {
            let message = "there is no unique or exclusion constraint matching the ON CONFLICT specification";
            let failure = SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message);
            self.failure.get_or_insert(failure);
        }
        let update = match &conflict.action {
            OnConflictAction::DoNothing => None,
            OnConflictAction::DoUpdate(_) if conflict.conflict_target.is_none() => {
                let message = "ON CONFLICT DO UPDATE requires inference specification or constraint name";
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
            OnConflictAction::DoUpdate(update) => {
                let own = alias.as_deref().unwrap_or(table.name());
                self.scopes.push(scope_of(&[(&table.def, own), (&table.def, "excluded")]));
                let bound = self.conflict_update(table, update);
                self.scopes.pop();
                Some(bound?)
            }
        };
        Ok(OnConflict { paths, update })
    }

    fn conflict_update(&mut self, table: &Table, update: &ast::DoUpdate) -> Result<ConflictUpdate> {
        let given = &update.assignments;
        let assignments = self.without_rows("UPDATE", |this| this.assignments(table, None, given))?;
        self.needs_to_write(table.def.id, Rights::UPDATE, assignments.iter().map(|(at, _)| *at));
        let condition = update.selection.as_ref().map(|condition| self.condition(condition, "WHERE")).transpose()?;
        if assignments.iter().map(|(_, expr)| expr).chain(&condition).any(Expr::has_query) {
            return Err(SqlError::unsupported("a query in ON CONFLICT DO UPDATE"));
        }
        Ok(ConflictUpdate { assignments, condition, visible: Vec::new(), policies: Vec::new() })
    }

    /// Binds the new values of columns of a table, or of the view above it.
    pub(super) fn assignments(
        &mut self,
        table: &Table,
        below: Option<&Below>,
        assignments: &[ast::Assignment],
    ) -> Result<Vec<(usize, Expr)>> {
        // All values are bound before any is converted to its column's type.
        let mut given = Vec::new();
        for assignment in assignments {
            match (&assignment.target, &assignment.value) {
                (AssignmentTarget::ColumnName(name), value) => given.push((name, value, self.given(value)?)),
                (AssignmentTarget::Tuple(names), row)
                    if let Some(values) = items_of(row)
                        && names.len() == values.len() =>
                {
                    for (name, value) in names.iter().zip(values) {
                        given.push((name, value, self.given(value)?));
                    }
                }
                (AssignmentTarget::Tuple(_), _) => {
                    return Err(SqlError::unsupported("assigning a query to several columns"));
                }
            }
        }
        let mut bound: Vec<(usize, Expr)> = Vec::new();
        for (name, written, value) in given {
            let at = match below {
                Some(below) => below.column(&simple_name(name)?, Writes::Update),
                None => column_of(table, &simple_name(name)?),
            };
            let at = at.map_err(|error| at_name(error, name))?;
            let column = &table.def.columns[at];
            if bound.iter().any(|(own, _)| *own == at) {
                let message = format!("multiple assignments to same column \"{}\"", column.name);
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
            let expr = match value {
                None => match below.filter(|_| column.generation().is_none()) {
                    // As in PostgreSQL: that of the view itself, or NULL.
                    Some(below) => self.own_default(below, at)?,
                    None => self.default_of(table, at)?,
                },
                Some(typed) => {
                    check_given(column, false)?;
                    check_identity(column)?;
                    let assigned = self.assign(typed, column.ty, column.modifier, &column.name);
                    assigned.map_err(|error| at_expr(error, written))?
                }
            };
            bound.push((at, expr));
        }
        Ok(bound)
    }

    fn returning_of(&mut self, table: &Table, alias: Option<String>, items: Option<&[SelectItem]>) -> Result<Returned> {
        let Some(items) = items else { return Ok((None, None)) };
        let mut scope = scope_of(&[(&table.def, alias.as_deref().unwrap_or(table.name()))]);
        // Behind the row there is no place: it is replaced.
        let oid_at = table.def.columns.len();
        scope.columns.push(table_oid(0, oid_at, oid_at));
        self.scopes.push(scope);
        let bound = self.returning(items);
        self.scopes.pop();
        let (mut exprs, columns) = bound?;
        let oid = (oid_at, Expr::Constant(Value::Oid(table.def.id)));
        replace_all(&mut exprs, &[oid].into());
        Ok((Some(exprs), Some(columns)))
    }

    pub(crate) fn update(&mut self, update: &ast::Update) -> Result<(Change, Option<Vec<Column>>)> {
        if !update.table.joins.is_empty()
            || update.limit.is_some()
            || !update.order_by.is_empty()
            || update.or.is_some()
        {
            return Err(SqlError::unsupported("this form of UPDATE"));
        }
        let others = match &update.from {
            None => &[][..],
            Some(UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from)) => from,
        };
        let (target, filter) = (&update.table.relation, update.selection.as_ref());
        self.change(target, others, filter, Some(&update.assignments), update.returning.as_deref())
    }

    pub(crate) fn delete(&mut self, delete: &ast::Delete) -> Result<(Change, Option<Vec<Column>>)> {
        let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
        let [ast::TableWithJoins { relation, joins }] = &from[..] else {
            return Err(SqlError::unsupported("DELETE from several tables"));
        };
        if !joins.is_empty() || delete.limit.is_some() || !delete.order_by.is_empty() || !delete.tables.is_empty() {
            return Err(SqlError::unsupported("this form of DELETE"));
        }
        let others = delete.using.as_deref().unwrap_or(&[]);
        self.change(relation, others, delete.selection.as_ref(), None, delete.returning.as_deref())
    }

    fn change(
        &mut self,
        target: &TableFactor,
        others: &[ast::TableWithJoins],
        filter: Option<&ast::Expr>,
        assignments: Option<&[ast::Assignment]>,
        returning: Option<&[SelectItem]>,
    ) -> Result<(Change, Option<Vec<Column>>)> {
        self.scopes.push(Scope::default());
        let bound = self.change_inside(target, others, filter, assignments, returning);
        self.scopes.pop();
        bound
    }

    /// Adds the rows that a statement changes as the first source; returns their table, the place of their key, and what
    /// the statement knows of them, if it names a view.
    fn target(
        &mut self,
        from: &mut From,
        target: &TableFactor,
        writes: Writes,
    ) -> Result<(Arc<Table>, usize, Option<Below>)> {
        if let TableFactor::Table { name, alias, args: None, .. } = target
            && let Some(view) = self.target_view(name)?
        {
            let mut below = self.below(&view, writes)?;
            let key_at = self.add_below(from, &mut below, alias.as_ref())?;
            return Ok((below.table.clone(), key_at, Some(below)));
        }
        let (table, key_at) = self.target_rows(from, target, writes.right())?;
        Ok((table, key_at, None))
    }

    /// Adds the rows of a table that a statement changes as the first source; returns the table, and the place of the
    /// key.
    pub(super) fn target_rows(
        &mut self,
        from: &mut From,
        target: &TableFactor,
        right: Rights,
    ) -> Result<(Arc<Table>, usize)> {
        // A query in the place of the name could become a table of which only some columns are read.
        if !matches!(target, TableFactor::Table { args: None, .. }) {
            let message = "syntax error: the name of a table or a view is missing";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        let alone = [ast::TableWithJoins { relation: target.clone(), joins: Vec::new() }];
        self.next_right = Some(right);
        // The name is not that of a WITH query.
        let named = std::mem::take(&mut self.named);
        let added = self.more_sources(from, &alone);
        self.named = named;
        self.next_right = None;
        added?;
        let Some(SourceKind::Table(source)) = from.sources.first_mut().map(|source| &mut source.kind) else {
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, "only the rows of a table can be changed"));
        };
        // The key takes the place of `tableoid`.
        let (table, key_at) = (source.table.clone(), from.width - 1);
        source.key_at = Some(key_at);
        // So `tableoid` gets one that no row has.
        let system = self.scopes.last_mut().expect("that of the statement").columns.iter_mut();
        system.filter(|column| column.is_system).for_each(|column| column.at = TARGET_OID);
        Ok((table, key_at))
    }

    fn change_inside(
        &mut self,
        target: &TableFactor,
        others: &[ast::TableWithJoins],
        filter: Option<&ast::Expr>,
        assignments: Option<&[ast::Assignment]>,
        returning: Option<&[SelectItem]>,
    ) -> Result<(Change, Option<Vec<Column>>)> {
        let mut from = From::default();
        let writes = if assignments.is_some() { Writes::Update } else { Writes::Delete };
        let (table, key_at, mut below) = self.target(&mut from, target, writes)?;
        self.more_sources(&mut from, others)?;
        let cursor = filter.and_then(parse::current_of).map(name_of);
        if cursor.is_some() && below.is_some() {
            return Err(SqlError::unsupported("WHERE CURRENT OF on a view"));
        }
        let mut filter = match filter {
            Some(condition) if cursor.is_none() => {
                fold_condition(self.condition(condition, "WHERE")?, self.environment).conjuncts()
            }
            _ => Vec::new(),
        };
        filter.splice(0..0, std::mem::take(&mut from.filter));
        let (mut returning, columns) = match returning {
            None => (None, None),
            Some(items) => {
                let (exprs, columns) = self.returning(items)?;
                (Some(exprs), Some(columns))
            }
        };
        let mut assign = |given| self.without_rows("UPDATE", |this| this.assignments(&table, below.as_ref(), given));
        let assignments = assignments.map(&mut assign);
        let mut assignments = assignments.transpose()?;
        let levels = below.as_mut().map_or_else(|| vec![self.level(table.def.id, None)], Below::take_levels);
        let written: Vec<_> = assignments.iter().flatten().map(|(at, _)| *at).collect();
        self.needs_to_write_below(&levels, writes.right(), &written);
        let (mut rules, references) = (self.rules(&table)?, self.references(&table)?);
        rules.view_checks = below.as_mut().filter(|_| writes == Writes::Update).map_or(Vec::new(), Below::take_checks);
        let role = levels.last().map_or(self.environment.role, |level| level.role);
        rules.policies = self.secure_change(&mut from, &table, writes, role)?;
        from.replaced.extend(target_oid(&table));
        let assigned = assignments.iter_mut().flatten().map(|(_, expr)| expr);
        from.replace_in_all(filter.iter_mut().chain(returning.iter_mut().flatten()).chain(assigned));
        let rows = all_columns(self.catalog, &mut from, filter, cursor.as_deref().map(|cursor| (key_at, cursor)));
        Ok((Change { table, rules, references, rows: Box::new(rows), key_at, assignments, returning }, columns))
    }
}

/// Returns the value of `tableoid` of the table that a statement changes.
pub(super) fn target_oid(table: &Table) -> [(usize, Expr); 1] {
    [(TARGET_OID, Expr::Constant(Value::Oid(table.def.id)))]
}

/// Returns the query of all columns of some sources; `cursor`: the place of a key, and the cursor that is on its row.
pub(super) fn all_columns(
    catalog: &Catalog,
    from: &mut From,
    filter: Vec<Expr>,
    cursor: Option<(usize, &str)>,
) -> Query {
    let (width, output) = (from.width, from.outputs());
    let mut select = Select { output, ..Select::default() };
    order_joins(catalog, &mut select, from, filter, &[], false);
    for source in &mut select.sources {
        if let SourceKind::Table(table) = &mut source.kind {
            if let Some((_, cursor)) = cursor.filter(|(key_at, _)| table.key_at == Some(*key_at)) {
                table.access.cursor = Some(cursor.into());
                source.expected = Some(Expected { kept: 1.0, found: 1.0, joined: 1.0 });
            }
            table.needed = (0..source.width - usize::from(table.key_at.is_some())).collect();
        }
    }
    let body = Body::Select(Box::new(select));
    Query { body, order: Vec::new(), width, limit: None, offset: None, locks: Vec::new() }
}

/// Returns the columns with these names, which are at these places; fails if a name occurs twice.
pub(crate) fn columns_of(table: &Table, names: impl Iterator<Item = Result<(String, Location)>>) -> Result<Vec<usize>> {
    let mut columns = Vec::new();
    for name in names {
        let (name, place) = name?;
        let at = column_of(table, &name).map_err(|error| at_location(error, place))?;
        if columns.contains(&at) {
            let message = format!("column \"{}\" specified more than once", table.def.columns[at].name);
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        columns.push(at);
    }
    Ok(columns)
}

/// Returns a name without a schema, and its place.
pub(super) fn name_with_place(name: &ObjectName) -> Result<(String, Location)> {
    Ok((simple_name(name)?, name.span().start))
}

/// Returns the places of names.
pub(super) fn places_of(names: &[ObjectName]) -> Vec<Location> {
    names.iter().map(|name| name.span().start).collect()
}

pub(super) fn column_of(table: &Table, name: &str) -> Result<usize> {
    table.def.column(name).ok_or_else(|| {
        let message = format!("column \"{name}\" of relation \"{}\" does not exist", table.name());
        SqlError::new(SqlState::UNDEFINED_COLUMN, message)
    })
}

/// Fails for a column whose values always come from its sequence.
fn check_identity(column: &ColumnDef) -> Result<()> {
    if column.identity != Some(Identity::Always) {
        return Ok(());
    }
    let message = format!("column \"{}\" can only be updated to DEFAULT", column.name);
    let detail = format!("Column \"{}\" is an identity column defined as GENERATED ALWAYS.", column.name);
    Err(SqlError::new(SqlState("428C9"), message).detail(detail))
}

fn check_width(targets: &Targets, width: usize) -> Result<()> {
    if width > targets.columns.len() {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "INSERT has more expressions than target columns"));
    }
    if let Some(without) = targets.listed.get(width) {
        let message = "INSERT has more target columns than expressions";
        return Err(at_location(SqlError::new(SqlState::SYNTAX_ERROR, message), *without));
    }
    Ok(())
}

/// Returns a scope with the columns of tables, one table after the other.
fn scope_of(tables: &[(&TableDef, &str)]) -> Scope {
    let mut scope = Scope::default();
    let mut first = 0;
    for (source, (table, name)) in tables.iter().enumerate() {
        scope.sources.push((*name).to_owned());
        for (at, column) in table.live_columns() {
            scope.columns.push(ScopeColumn {
                source,
                number: at,
                name: column.name.clone(),
                at: first + at,
                ty: column.ty,
                modifier: column.modifier,
                collation: Collation::of(column.ty),
                origin: (table.id, at as i16 + 1),
                fields: None,
                // The row proposed for insertion is visible only under the name of its source.
                is_merged: source > 0,
                is_system: false,
            });
        }
        first += table.columns.len();
    }
    scope
}

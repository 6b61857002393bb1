//! MERGE: the rows of a table are joined with those of a source, and each pair has the first action whose conditions it
//! meets. If there are actions for rows of the source that match no row of the table, the join keeps these.

use std::sync::Arc;

use sqlparser::ast::{
    self, JoinConstraint, JoinOperator, MergeAction, MergeClauseKind, MergeInsertExpr, MergeInsertKind,
    MergeUpdateKind, TableFactor,
};

use super::{
    Binder, Scope, plain,
    references::References,
    row_security::PolicyCheck,
    source::{From, Left},
    write::{Rules, Targets, all_columns, columns_of, name_with_place, overriding, places_of, target_oid},
};
use crate::{
    catalog::{Relation, Table, rights::Rights},
    error::{Result, SqlError, SqlState},
    expr::Expr,
    query::Query,
};

/// MERGE
pub(crate) struct Merge {
    pub(crate) table: Arc<Table>,
    pub(crate) rules: Rules,
    pub(crate) references: Option<Arc<References>>,
    /// Rows of all sources, with the row of the table from place 0 on, and its key after the table's columns. The key is
    /// NULL where a row of the source matches none.
    pub(crate) rows: Box<Query>,
    pub(crate) key_at: usize,
    pub(crate) clauses: Vec<When>,
}

/// A clause WHEN. Its expressions are evaluated on the rows of all sources.
pub(crate) struct When {
    pub(crate) is_matched: bool,
    pub(crate) condition: Option<Expr>,
    pub(crate) action: Action,
    /// The conditions of policies on the row that the action changes; evaluated on that row.
    pub(crate) visible: Vec<PolicyCheck>,
    /// The conditions of policies on the row that the action writes; evaluated on that row.
    pub(crate) policies: Vec<PolicyCheck>,
}

pub(crate) enum Action {
    Nothing,
    /// A whole row of the table.
    Insert(Vec<Expr>),
    /// The new values of columns.
    Update(Vec<(usize, Expr)>),
    Delete,
}

impl Action {
    /// Returns its expressions, mutably.
    pub(crate) fn exprs_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let (row, assigned) = match self {
            Self::Insert(row) => (&mut row[..], &mut [][..]),
            Self::Update(assigned) => (&mut [][..], &mut assigned[..]),
            Self::Nothing | Self::Delete => (&mut [][..], &mut [][..]),
        };
        row.iter_mut().chain(assigned.iter_mut().map(|(_, expr)| expr))
    }
}

impl When {
    /// Returns its expressions, mutably.
    pub(crate) fn exprs_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        self.condition.iter_mut().chain(self.action.exprs_mut())
    }
}

impl Binder<'_> {
    pub(crate) fn merge_statement(&mut self, merge: &ast::Merge) -> Result<Merge> {
        check_reachable(&merge.clauses)?;
        self.check_merged(&merge.table)?;
        self.scopes.push(Scope::default());
        let bound = self.merge_inside(merge);
        self.scopes.pop();
        bound
    }

    /// Fails for a target that is no table.
    fn check_merged(&mut self, target: &TableFactor) -> Result<()> {
        let TableFactor::Table { name, args: None, .. } = target else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error: MERGE INTO needs the name of a table"));
        };
        let kind = match self.relation(name)? {
            Some(Relation::View(_)) => "views",
            Some(Relation::Sequence(_)) => "sequences",
            Some(Relation::Index(..)) => "indexes",
            Some(Relation::Table(table)) if table.def.materialized.is_some() => "materialized views",
            Some(Relation::Table(_)) | None => return Ok(()),
        };
        let message = format!("cannot execute MERGE on relation \"{}\"", plain(name));
        let detail = format!("This operation is not supported for {kind}.");
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).detail(detail))
    }

    fn merge_inside(&mut self, merge: &ast::Merge) -> Result<Merge> {
        let mut from = From::default();
        let right = merge.clauses.iter().fold(Rights::NONE, |all, clause| all | right_of(&clause.action));
        let (table, key_at) = self.target_rows(&mut from, &merge.table, right)?;
        self.merge_source(&mut from, merge)?;
        let mut clauses = merge.clauses.iter().map(|clause| self.when(&table, clause)).collect::<Result<Vec<_>>>()?;
        let (rules, references) = (self.rules(&table)?, self.references(&table)?);
        self.secure_merge(&mut from, &table, &mut clauses)?;
        let mut filter = std::mem::take(&mut from.filter);
        from.replaced.extend(target_oid(&table));
        from.replace_in_all(filter.iter_mut().chain(clauses.iter_mut().flat_map(When::exprs_mut)));
        let rows = Box::new(all_columns(self.catalog, &mut from, filter, None));
        Ok(Merge { table, rules, references, rows, key_at, clauses })
    }

    /// Joins the table, which is the only source so far, with the source of MERGE, which does not see it.
    fn merge_source(&mut self, from: &mut From, merge: &ast::Merge) -> Result<()> {
        let keeps_others = merge.clauses.iter().any(|clause| !is_matched(&clause.clause_kind));
        let on = JoinConstraint::On((*merge.on).clone());
        let join_operator = match keeps_others {
            true => JoinOperator::RightOuter(on),
            false => JoinOperator::Inner(on),
        };
        let join = ast::Join { relation: merge.source.clone(), global: false, join_operator };
        let scope = self.scopes.last_mut().expect("that of the statement");
        let target = scope.sources.first().cloned().unwrap_or_default();
        scope.hidden = scope.columns.len();
        let joined = self.join(from, &join, Left { start: 0, first: 0, column: 0 });
        self.scopes.last_mut().expect("that of the statement").hidden = 0;
        joined.map_err(|error| {
            if error.report().message != format!("table name \"{target}\" specified more than once") {
                return error;
            }
            let message = format!("name \"{target}\" specified more than once");
            let detail = "The name is used both as MERGE target table and data source.";
            SqlError::new(SqlState::DUPLICATE_ALIAS, message).detail(detail)
        })
    }

    fn when(&mut self, table: &Arc<Table>, clause: &ast::MergeClause) -> Result<When> {
        let is_matched = is_matched(&clause.clause_kind);
        let scope = self.scopes.last_mut().expect("that of the statement");
        // A row of the source that matches none has no row of the table.
        scope.hidden = match is_matched {
            true => 0,
            false => scope.columns.iter().take_while(|column| column.source == 0).count(),
        };
        let condition = clause
            .predicate
            .as_ref()
            .map(|condition| self.without_rows("MERGE WHEN conditions", |this| this.condition(condition, "WHEN")));
        let condition = condition.transpose()?;
        let action = match &clause.action {
            MergeAction::DoNothing { .. } => Action::Nothing,
            MergeAction::Delete { .. } => Action::Delete,
            MergeAction::Insert(insert) => Action::Insert(self.merge_insert(table, insert)?),
            MergeAction::Update(update) => {
                let MergeUpdateKind::Set(given) = &update.kind else {
                    return Err(SqlError::unsupported("UPDATE SET *"));
                };
                let assigned = self.without_rows("UPDATE", |this| this.assignments(table, None, given))?;
                self.needs_to_write(table.def.id, Rights::UPDATE, assigned.iter().map(|(at, _)| *at));
                Action::Update(assigned)
            }
        };
        self.scopes.last_mut().expect("that of the statement").hidden = 0;
        Ok(When { is_matched, condition, action, visible: Vec::new(), policies: Vec::new() })
    }

    fn merge_insert(&mut self, table: &Arc<Table>, insert: &MergeInsertExpr) -> Result<Vec<Expr>> {
        let MergeInsertKind::Values(values) = &insert.kind else {
            return Err(SqlError::unsupported("this form of INSERT in MERGE"));
        };
        let row = values.rows.first().map_or(&[][..], |row| &row.content);
        let (names, overriding) = overriding(&insert.columns);
        let columns = match names {
            [] => table.def.live_columns().map(|(at, _)| at).collect(),
            names => columns_of(table, names.iter().map(name_with_place))?,
        };
        let written = if names.is_empty() { row.len().min(columns.len()) } else { columns.len() };
        self.needs_to_write(table.def.id, Rights::INSERT, columns[..written].iter().copied());
        let targets = Targets { columns, listed: places_of(names), overriding, defaults: Vec::new() };
        self.without_rows("VALUES", |this| this.inserted_row(table, &targets, row))
    }
}

fn is_matched(kind: &MergeClauseKind) -> bool {
    matches!(kind, MergeClauseKind::Matched)
}

/// Returns the right that an action needs.
fn right_of(action: &MergeAction) -> Rights {
    match action {
        MergeAction::DoNothing { .. } => Rights::NONE,
        MergeAction::Insert(_) => Rights::INSERT,
        MergeAction::Update(_) => Rights::UPDATE,
        MergeAction::Delete { .. } => Rights::DELETE,
    }
}

/// Fails for a clause behind one of its kind that has no condition.
fn check_reachable(clauses: &[ast::MergeClause]) -> Result<()> {
    let mut ended = [false; 2];
    for clause in clauses {
        let ended = &mut ended[usize::from(is_matched(&clause.clause_kind))];
        if *ended {
            let message = "unreachable WHEN clause specified after unconditional WHEN clause";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        *ended = clause.predicate.is_none();
    }
    Ok(())
}

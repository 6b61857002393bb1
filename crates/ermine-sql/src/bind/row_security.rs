//! Row security: the conditions that policies add to a statement (PostgreSQL's `get_row_security_policies`).
//!
//! A table to which the acting role has only restricted access gets the conditions of its policies where it is a source
//! of rows, and rows that are written have to meet others. Both are chosen by the role with whose rights the table is
//! read: of a view, its owner. Conditions of policies come before those of the statement, so that an error or a side
//! effect of the statement's functions tells nothing about rows that the role does not see.
//!
//! They are evaluated where a row of the table is read (`TableSource::visible`), so nothing else is ever computed from a
//! row that they hide: no key of a hash, no argument of a lateral function, no query. Rows that are read by way of an
//! index are found by comparisons, which tell nothing either. The checks of foreign and unique keys see all rows, as in
//! PostgreSQL.

use std::{ops::ControlFlow, sync::Arc};

use sqlparser::ast::{self, ObjectName, Visit as _, Visitor};

use super::{
    Binder, Scope, ScopeColumn,
    join_order::need,
    merge::{Action, When},
    source::From,
    view::Inside,
    view_write::Writes,
    write::Insert,
};
use crate::{
    catalog::{
        Table,
        definition::{NamedRelation, ObjectId},
        rights::{Kind, Object, Rights},
        row_security::{PolicyCommand, PolicyCondition, PolicyDef, RowSecurityDef},
    },
    collation::Collation,
    error::{Result, SqlError, SqlState},
    expr::Expr,
    fold::fold_condition,
    parse,
    query::{Body, Join, Query, Source, SourceKind, TableSource},
    types::Value,
};

/// A condition that a row has to meet when it is written.
pub(crate) struct PolicyCheck {
    /// The name of the policy, if it is one's alone.
    pub(crate) policy: Option<String>,
    /// Evaluated on the row. NULL counts as false.
    pub(crate) condition: Expr,
    pub(crate) kind: CheckKind,
}

/// The row that a policy is about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckKind {
    /// A row that is written.
    New,
    /// The row that INSERT .. ON CONFLICT has found.
    Existing,
    /// The row that MERGE would change.
    Target,
}

/// The tables to whose rows policies are applied where they are sources.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Policies {
    All,
    /// All but the next one: a statement writes it, by way of a view, and applies its policies itself.
    Others,
    None,
}

/// The conditions that count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    /// USING
    Using,
    /// WITH CHECK, or USING where that is missing.
    Check,
}

impl PolicyCheck {
    /// Returns the error of a row that does not meet the condition.
    pub(crate) fn violated(&self, table: &str) -> SqlError {
        let policy = self.policy.as_ref().map_or_else(String::new, |name| format!(" \"{name}\""));
        let (row, using) = match self.kind {
            CheckKind::New => ("new", ""),
            CheckKind::Existing => ("new", " (USING expression)"),
            CheckKind::Target => ("target", " (USING expression)"),
        };
        let message = format!("{row} row violates row-level security policy{policy}{using} for table \"{table}\"");
        SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
    }
}

impl Binder<'_> {
    /// Returns the row security of a table, if a role is subject to it.
    pub(crate) fn row_security(&self, role: ObjectId, table: &Table) -> Result<Option<Arc<RowSecurityDef>>> {
        let Some(security) = self.catalog.row_security_for(role, table.def.id) else { return Ok(None) };
        let is_off = |(name, value): &(String, String)| name == "row_security" && value == "off";
        if !self.environment.settings.iter().any(is_off) {
            return Ok(Some(security.clone()));
        }
        let message = format!("query would be affected by row-level security policy for table \"{}\"", table.name());
        let error = SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message);
        Err(match self.catalog.owns(role, Object::new(Kind::Table, table.def.id)) {
            true => {
                error.hint("To disable the policy for the table's owner, use ALTER TABLE NO FORCE ROW LEVEL SECURITY.")
            }
            false => error,
        })
    }

    /// Whether policies are applied to the table that becomes a source.
    pub(super) fn applies_policies(&mut self) -> bool {
        let applied = self.policies;
        if applied == Policies::Others {
            self.policies = Policies::All;
        }
        applied == Policies::All
    }

    /// Hides the rows of the newest source that the role does not see; it is the one at `start`, and its places begin at
    /// `first`.
    pub(super) fn hide_rows(
        &mut self,
        from: &mut From,
        table: &Arc<Table>,
        (start, first): (usize, usize),
    ) -> Result<()> {
        let conditions = self.visible_rows(self.acting(), table, PolicyCommand::Select, first)?;
        if conditions.is_empty() {
            return Ok(());
        }
        hide(&mut from.sources[start], conditions);
        Ok(())
    }

    /// Adds to a query that locks rows the conditions of the policies for UPDATE.
    pub(super) fn hide_locked(&mut self, query: &mut Query) -> Result<()> {
        let locked: Vec<_> = query.locks.iter().map(|locked| locked.table.clone()).collect();
        let Body::Select(select) = &mut query.body else { return Ok(()) };
        let mut hides = false;
        for source in &mut select.sources {
            let SourceKind::Table(TableSource { table, key_at: Some(_), visible, .. }) = &mut source.kind else {
                continue;
            };
            if locked.iter().any(|locked| locked.def.id == table.def.id) {
                let conditions =
                    self.visible_rows(self.acting(), &table.clone(), PolicyCommand::Update, source.first)?;
                hides |= !conditions.is_empty();
                visible.extend(conditions);
            }
        }
        if hides {
            need(select);
        }
        Ok(())
    }

    /// Returns the conditions that rows of a table meet which a role sees with a command; the row begins at `first`.
    fn visible_rows(
        &mut self,
        role: ObjectId,
        table: &Arc<Table>,
        command: PolicyCommand,
        first: usize,
    ) -> Result<Vec<Expr>> {
        let Some(security) = self.row_security(role, table)? else { return Ok(Vec::new()) };
        let conditions = self.policies(role, table, &security, (command, Which::Using), first)?;
        Ok(conditions.into_iter().flat_map(|(_, condition)| condition.conjuncts()).collect())
    }

    /// Returns the conditions that rows have to meet which a command writes into a table. `reads`: whether the
    /// statement reads the table as well, so that it has to see them.
    fn written_rows(
        &mut self,
        role: ObjectId,
        table: &Arc<Table>,
        command: PolicyCommand,
        reads: bool,
    ) -> Result<Vec<PolicyCheck>> {
        let Some(security) = self.row_security(role, table)? else { return Ok(Vec::new()) };
        let mut all = self.policies(role, table, &security, (command, Which::Check), 0)?;
        if reads {
            all.extend(self.policies(role, table, &security, (PolicyCommand::Select, Which::Using), 0)?);
        }
        let check = |(policy, condition)| PolicyCheck { policy, condition, kind: CheckKind::New };
        Ok(all.into_iter().map(check).collect())
    }

    /// Returns the conditions that a row has to meet which a statement has found, so that commands may change it.
    fn changeable_rows(
        &mut self,
        role: ObjectId,
        table: &Arc<Table>,
        commands: &[PolicyCommand],
        kind: CheckKind,
    ) -> Result<Vec<PolicyCheck>> {
        let Some(security) = self.row_security(role, table)? else { return Ok(Vec::new()) };
        let mut all = Vec::new();
        for command in commands {
            let conditions = self.policies(role, table, &security, (*command, Which::Using), 0)?;
            all.extend(conditions.into_iter().map(|(policy, condition)| PolicyCheck { policy, condition, kind }));
        }
        Ok(all)
    }

    /// Adds the conditions of policies to an INSERT that is bound, for the role that writes the table.
    pub(super) fn secure_insert(&mut self, insert: &mut Insert, role: ObjectId) -> Result<()> {
        let table = &insert.table;
        let reads = self.reads(role, table.def.id);
        insert.rules.policies = self.written_rows(role, table, PolicyCommand::Insert, reads)?;
        if let Some(update) = insert.conflict.as_mut().and_then(|conflict| conflict.update.as_mut()) {
            let commands = [PolicyCommand::Update, PolicyCommand::Select];
            let commands = if reads { &commands[..] } else { &commands[..1] };
            update.visible = self.changeable_rows(role, table, commands, CheckKind::Existing)?;
            update.policies = self.written_rows(role, table, PolicyCommand::Update, reads)?;
        }
        Ok(())
    }

    /// Hides rows of the table from a MERGE that is bound, and adds conditions to its actions.
    pub(super) fn secure_merge(&mut self, from: &mut From, table: &Arc<Table>, clauses: &mut [When]) -> Result<()> {
        let role = self.acting();
        let reads = self.reads(role, table.def.id);
        if reads {
            hide_written(from, self.visible_rows(role, table, PolicyCommand::Select, 0)?);
        }
        for When { action, visible, policies, .. } in clauses {
            let command = match action {
                Action::Nothing => continue,
                Action::Insert(_) => PolicyCommand::Insert,
                Action::Update(_) => PolicyCommand::Update,
                Action::Delete => PolicyCommand::Delete,
            };
            if command != PolicyCommand::Insert {
                *visible = self.changeable_rows(role, table, &[command], CheckKind::Target)?;
            }
            if command != PolicyCommand::Delete {
                // Only what is updated has to be visible afterwards, as in PostgreSQL.
                let reads = reads && command == PolicyCommand::Update;
                *policies = self.written_rows(role, table, command, reads)?;
            }
        }
        Ok(())
    }

    /// Hides rows from an UPDATE or DELETE that is bound, for the role that writes the table; returns the conditions that
    /// new rows have to meet.
    pub(super) fn secure_change(
        &mut self,
        from: &mut From,
        table: &Arc<Table>,
        writes: Writes,
        role: ObjectId,
    ) -> Result<Vec<PolicyCheck>> {
        let command = if writes == Writes::Delete { PolicyCommand::Delete } else { PolicyCommand::Update };
        let reads = self.reads(role, table.def.id);
        let mut hidden = self.visible_rows(role, table, command, 0)?;
        if reads {
            hidden.extend(self.visible_rows(role, table, PolicyCommand::Select, 0)?);
        }
        hide_written(from, hidden);
        match command {
            PolicyCommand::Update => self.written_rows(role, table, command, reads),
            _ => Ok(Vec::new()),
        }
    }

    /// Whether the statement, as far as it is bound, reads columns of a table.
    fn reads(&self, role: ObjectId, table: ObjectId) -> bool {
        self.needed(role, table).has(Rights::SELECT)
    }

    /// Returns the conditions of the policies for a command, those of restrictive ones with their names: all have to be
    /// met.
    fn policies(
        &mut self,
        role: ObjectId,
        table: &Arc<Table>,
        security: &Arc<RowSecurityDef>,
        (command, which): (PolicyCommand, Which),
        first: usize,
    ) -> Result<Vec<(Option<String>, Expr)>> {
        let (mut permissive, mut restrictive) = (Vec::new(), Vec::new());
        for policy in &security.policies {
            let is_meant = policy.command.is_none_or(|own| own == command) && self.catalog.has_policy(role, policy);
            let Some(condition) = is_meant.then(|| condition_of(policy, which)).flatten() else { continue };
            if self.secured.contains(&table.def.id) && has_query(policy)? {
                let message = format!("infinite recursion detected in policy for relation \"{}\"", table.name());
                return Err(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message));
            }
            let bound = self.policy_condition(role, table, condition, first)?;
            match policy.is_permissive {
                true => permissive.push(bound),
                false => restrictive.push((Some(policy.name.clone()), bound)),
            }
        }
        let allowed = match permissive.len() {
            0 => Expr::Constant(Value::Bool(false)),
            1 => permissive.remove(0),
            _ => Expr::Or(permissive),
        };
        Ok([(None, allowed)].into_iter().chain(restrictive).collect())
    }

    /// Binds a condition of a policy on a row that begins at `first`. Names mean what they meant when the policy was
    /// created, and the statement around has no names for it.
    fn policy_condition(
        &mut self,
        role: ObjectId,
        table: &Arc<Table>,
        condition: &PolicyCondition,
        first: usize,
    ) -> Result<Expr> {
        self.count_expanded(1)?;
        let mut held = self.environment.memory.hold();
        held.grow_to(parse::tree_bytes(&condition.text)?, usize::MAX)?;
        let expr = parse::expression(&condition.text)?;
        let inside = Inside { relations: condition.relations.clone(), role };
        let around = self.enter(inside);
        self.secured.push(table.def.id);
        self.scopes.push(policy_scope(table, &condition.relations, first));
        let bound = self.apart(|this| this.condition(&expr, "POLICY"));
        self.secured.pop();
        self.leave_to(around);
        Ok(fold_condition(bound.map_err(SqlError::nowhere)?, self.environment))
    }

    /// Fails if the table of policies is not there, or one of their conditions cannot be bound.
    pub(crate) fn check_policies(&mut self, security: &RowSecurityDef) -> Result<()> {
        let missing = || SqlError::new(SqlState::UNDEFINED_TABLE, "the table is not there");
        let table = self.catalog.table(security.table).ok_or_else(missing)?;
        let mut conditions = security.policies.iter().flat_map(PolicyDef::conditions);
        conditions.try_for_each(|condition| self.policy_condition(self.environment.role, table, condition, 0).map(drop))
    }

    /// Returns a condition of a new policy as it is to be stored, but for the schemas of types.
    pub(crate) fn new_policy_condition(
        &mut self,
        name: &ObjectName,
        table: &Arc<Table>,
        condition: &ast::Expr,
    ) -> Result<PolicyCondition> {
        let mut query = parse::query("SELECT FROM x WHERE TRUE")
            .map_err(|error| SqlError::new(SqlState::INTERNAL_ERROR, error.to_string()))?;
        if let ast::SetExpr::Select(select) = &mut *query.body {
            if let Some(ast::TableFactor::Table { name: own, .. }) =
                select.from.first_mut().map(|table| &mut table.relation)
            {
                own.clone_from(name);
            }
            select.selection = Some(condition.clone());
        }
        self.row_condition(table, condition, "POLICY")?;
        // What the policies of the tables in it allow does not matter.
        self.policies = Policies::None;
        let bound = self.new_view(&query);
        self.policies = Policies::All;
        let (text, _, _, notes) = bound?;
        if notes.depends_on_zone {
            let what = "a policy with a time without its offset from UTC, in another time zone than UTC,";
            return Err(SqlError::unsupported(what).hint("Write the offset: '2024-01-01 00:00:00+01'."));
        }
        let stored = parse::stored_query(&text)?;
        let ast::SetExpr::Select(select) = *stored.body else { return Err(SqlError::unsupported("this policy")) };
        let text = select.selection.map(|condition| condition.to_string()).unwrap_or_default();
        Ok(PolicyCondition { text, relations: notes.relations, uses: notes.uses.into_iter().collect() })
    }
}

/// Hides the rows of a table that do not meet conditions. Those without queries are conditions of the source as well: so
/// they may choose the path to the rows.
pub(super) fn hide(source: &mut Source, conditions: Vec<Expr>) {
    let SourceKind::Table(table) = &mut source.kind else { return };
    if source.join != Join::Full {
        source.on.splice(0..0, conditions.iter().filter(|condition| !condition.has_query()).cloned());
    }
    table.visible.extend(conditions);
}

/// Hides rows of the table that a statement writes, whose places are the first ones.
fn hide_written(from: &mut From, conditions: Vec<Expr>) {
    if let Some(own) = from.sources.iter_mut().find(|source| source.first == 0) {
        hide(own, conditions);
    }
}

/// Whether one of the conditions of a policy has a query.
fn has_query(policy: &PolicyDef) -> Result<bool> {
    for condition in policy.conditions() {
        if parse::expression(&condition.text)?.visit(&mut FindQuery).is_break() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Looks for a query in an expression.
struct FindQuery;

impl Visitor for FindQuery {
    type Break = ();

    fn pre_visit_query(&mut self, _: &ast::Query) -> ControlFlow<()> {
        ControlFlow::Break(())
    }
}

fn condition_of(policy: &PolicyDef, which: Which) -> Option<&PolicyCondition> {
    match which {
        Which::Using => policy.using.as_ref(),
        Which::Check => policy.check.as_ref().or(policy.using.as_ref()),
    }
}

/// Returns the scope of a policy's condition: the columns of the row, by the names that they had when the policy was
/// created. It needs no rights to them.
fn policy_scope(table: &Table, relations: &[NamedRelation], first: usize) -> Scope {
    let mut scope = Scope { clause: "policy expressions", ..Scope::default() };
    let Some(named) = relations.iter().find(|relation| relation.id == table.def.id) else { return scope };
    scope.sources.push(named.name.clone());
    for (at, column) in table.def.live_columns() {
        let Some(name) = named.columns.get(at) else { continue };
        scope.columns.push(ScopeColumn {
            source: 0,
            number: at,
            name: name.clone(),
            at: first + at,
            ty: column.ty,
            modifier: column.modifier,
            collation: Collation::of(column.ty),
            origin: (0, 0),
            fields: None,
            is_merged: false,
            is_system: false,
        });
    }
    scope
}

//! The objects that depend on one that is dropped or changed: foreign keys, views and policies.

use std::sync::Arc;

use super::{context::ChangeContext, skip};
use crate::{
    catalog::{
        Catalog, View,
        definition::{ForeignKeyDef, ObjectId},
        row_security::{PolicyDef, RowSecurityDef},
    },
    error::{Result, SqlError, SqlState},
    result::RowSink,
    transaction::ActiveTransaction,
};

/// The objects that depend on another directly.
#[derive(Default)]
pub(super) struct Dependents {
    pub(super) keys: Vec<Arc<ForeignKeyDef>>,
    pub(super) views: Vec<Arc<View>>,
    pub(super) policies: Vec<Policy>,
}

/// A policy of a table.
#[derive(Clone)]
pub(super) struct Policy {
    pub(super) table: ObjectId,
    id: ObjectId,
    name: String,
}

/// An object that depends on another one.
struct Dependent {
    object: Object,
    /// The object that it depends on, in words.
    on: String,
}

#[derive(Clone)]
enum Object {
    Key(Arc<ForeignKeyDef>),
    View(Arc<View>),
    Policy(Policy),
}

impl Object {
    fn id(&self) -> ObjectId {
        match self {
            Self::Key(key) => key.id,
            Self::View(view) => view.def.id,
            Self::Policy(policy) => policy.id,
        }
    }

    /// Returns the object in words.
    fn described(&self, catalog: &Catalog) -> String {
        match self {
            Self::Key(key) => {
                let child = catalog.table(key.child).map_or("", |table| table.name());
                format!("constraint {} on table {child}", key.name)
            }
            Self::View(view) => view_in_words(catalog, view),
            Self::Policy(policy) => {
                let table = catalog.table(policy.table).map_or("", |table| table.name());
                format!("policy {} on table {table}", policy.name)
            }
        }
    }
}

/// Returns a view in words.
pub(super) fn view_in_words(catalog: &Catalog, view: &View) -> String {
    let kind = catalog.table(view.def.id).map_or("view", |table| table.def.kind());
    format!("{kind} {}", view.def.name)
}

impl Dependents {
    /// Returns the views and policies that use an object, or a column of it.
    pub(super) fn using(catalog: &Catalog, id: ObjectId, column: Option<usize>) -> Self {
        let views = catalog.views().filter(|view| view.depends_on(id, column)).cloned().collect();
        let of_table = |security: &'_ Arc<RowSecurityDef>| {
            let own = security.policies.iter().filter(|policy| policy.depends_on(id, column));
            let named = |policy: &PolicyDef| Policy { table: security.table, id: policy.id, name: policy.name.clone() };
            own.map(named).collect::<Vec<_>>()
        };
        Self { keys: Vec::new(), views, policies: catalog.all_row_security().flat_map(of_table).collect() }
    }

    /// Returns all that depends on an object, also by way of views, in the order in which PostgreSQL lists it: each view
    /// is followed by those that use it.
    fn all(self, catalog: &Catalog, on: &str) -> Vec<Dependent> {
        let keys = self.keys.into_iter().map(Object::Key);
        let others = self.views.into_iter().map(Object::View).chain(self.policies.into_iter().map(Object::Policy));
        let direct = keys.chain(others).map(|object| Dependent { object, on: on.to_owned() }).collect();
        let mut all = Vec::new();
        add(catalog, direct, &mut all);
        all.reverse();
        all
    }
}

/// Adds objects behind those that depend on them, the newest first. Views refer to older ones: the depth is bounded
/// where they are bound.
fn add(catalog: &Catalog, mut direct: Vec<Dependent>, all: &mut Vec<Dependent>) {
    direct.sort_by_key(|dependent| std::cmp::Reverse(dependent.object.id()));
    for dependent in direct {
        if all.iter().any(|known| known.object.id() == dependent.object.id()) {
            continue;
        }
        if let Object::View(view) = &dependent.object {
            let on = dependent.object.described(catalog);
            let Dependents { views, policies, .. } = Dependents::using(catalog, view.def.id, None);
            let inner = views.into_iter().map(Object::View).chain(policies.into_iter().map(Object::Policy));
            add(catalog, inner.map(|object| Dependent { object, on: on.clone() }).collect(), all);
        }
        all.push(dependent);
    }
}

impl ChangeContext<'_> {
    /// Takes a view, which may be materialized, exclusively.
    pub(super) fn view_alone(&self, active: &mut ActiveTransaction, view: &View) -> Result<()> {
        match active.catalog.table(view.def.id).cloned() {
            Some(table) => active.take(&table, self.limits()),
            None => active.take_view(view, self.limits()),
        }
    }

    /// Drops all that depends on an object that is dropped, if the statement says CASCADE; otherwise fails if there is
    /// anything. `together`: the views that the statement drops as well.
    pub(super) fn drop_dependents(
        &self,
        active: &mut ActiveTransaction,
        (what, depended_on): (&str, &str),
        dependents: Dependents,
        (cascade, together): (bool, &[ObjectId]),
        rows: &mut dyn RowSink,
    ) -> Result<()> {
        let all = dependents.all(&active.catalog, depended_on);
        let described = |dependent: &Dependent| dependent.object.described(&active.catalog);
        let others: Vec<_> = all.iter().filter(|one| !together.contains(&one.object.id())).collect();
        if !cascade && !others.is_empty() {
            let message = format!("cannot drop {what} because other objects depend on it");
            let lines = others.iter().map(|one| format!("{} depends on {}", described(one), one.on));
            return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
                .detail(lines.collect::<Vec<_>>().join("\n"))
                .hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        match &others[..] {
            [] => {}
            [one] => skip(rows, SqlState::SUCCESSFUL_COMPLETION, format!("drop cascades to {}", described(one))),
            several => {
                let lines: Vec<_> = several.iter().map(|one| format!("drop cascades to {}", described(one))).collect();
                let message = format!("drop cascades to {} other objects", several.len());
                let notice = SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message).detail(lines.join("\n"));
                rows.notice("NOTICE", &notice);
            }
        }
        // Those that depend on others come behind them.
        for dependent in all.into_iter().rev() {
            match dependent.object {
                Object::Key(key) => self.drop_foreign_keys(active, [key])?,
                Object::View(view) if cascade => {
                    self.view_alone(active, &view)?;
                    self.forget_view(active, &view)?;
                }
                // The statement names it, too.
                Object::View(_) => {}
                Object::Policy(policy) => self.forget_policy(active, policy.table, &policy.name)?,
            }
        }
        Ok(())
    }

    /// Fails if a view or a policy uses a column whose type is to be changed.
    pub(super) fn check_no_view_uses(
        &self,
        active: &ActiveTransaction,
        id: ObjectId,
        at: usize,
        name: &str,
    ) -> Result<()> {
        let Dependents { views, policies, .. } = Dependents::using(&active.catalog, id, Some(at));
        let (message, user) = match (views.first(), policies.into_iter().next()) {
            (Some(view), _) => (
                "cannot alter type of a column used by a view or rule",
                format!("rule _RETURN on {}", view_in_words(&active.catalog, view)),
            ),
            (None, Some(policy)) => (
                "cannot alter type of a column used in a policy definition",
                Object::Policy(policy).described(&active.catalog),
            ),
            (None, None) => return Ok(()),
        };
        let detail = format!("{user} depends on column \"{name}\"");
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).detail(detail))
    }
}

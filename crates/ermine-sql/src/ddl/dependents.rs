//! The objects that depend on one that is dropped or changed: foreign keys and views.

use std::sync::Arc;

use super::{context::ChangeContext, skip};
use crate::{
    catalog::{
        Catalog, View,
        definition::{ForeignKeyDef, ObjectId},
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
}

impl Object {
    fn id(&self) -> ObjectId {
        match self {
            Self::Key(key) => key.id,
            Self::View(view) => view.def.id,
        }
    }

    /// Returns the object in words.
    fn described(&self, catalog: &Catalog) -> String {
        match self {
            Self::Key(key) => {
                let child = catalog.table(key.child).map_or("", |table| table.name());
                format!("constraint {} on table {child}", key.name)
            }
            Self::View(view) => format!("view {}", view.def.name),
        }
    }
}

impl Dependents {
    /// Returns the views that use an object, or a column of it.
    pub(super) fn views_on(catalog: &Catalog, id: ObjectId, column: Option<usize>) -> Vec<Arc<View>> {
        catalog.views().filter(|view| view.depends_on(id, column)).cloned().collect()
    }

    /// Returns all that depends on an object, also by way of views, in the order in which PostgreSQL lists it: each view
    /// is followed by those that use it.
    fn all(self, catalog: &Catalog, on: &str) -> Vec<Dependent> {
        let keys = self.keys.into_iter().map(Object::Key);
        let direct = keys.chain(self.views.into_iter().map(Object::View));
        let direct = direct.map(|object| Dependent { object, on: on.to_owned() }).collect();
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
            let views = Dependents::views_on(catalog, view.def.id, None).into_iter();
            let inner = views.map(|view| Dependent { object: Object::View(view), on: on.clone() }).collect();
            add(catalog, inner, all);
        }
        all.push(dependent);
    }
}

impl ChangeContext<'_> {
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
                    active.take_view(&view, self.limits())?;
                    self.forget_view(active, &view)?;
                }
                // The statement names it, too.
                Object::View(_) => {}
            }
        }
        Ok(())
    }

    /// Fails if a view uses a column whose type is to be changed.
    pub(super) fn check_no_view_uses(
        &self,
        active: &ActiveTransaction,
        id: ObjectId,
        at: usize,
        name: &str,
    ) -> Result<()> {
        let Some(view) = active.catalog.views().find(|view| view.depends_on(id, Some(at))) else { return Ok(()) };
        let detail = format!("rule _RETURN on view {} depends on column \"{name}\"", view.def.name);
        let message = "cannot alter type of a column used by a view or rule";
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).detail(detail))
    }
}

//! Statements that have been parsed and bound, and their plans.
//!
//! A plan is made for one catalog, one role, some settings, and tables of some sizes. A statement that outlives one of
//! these gets another plan, which is kept with it in turn: a driver prepares a statement once and runs it for hours.

use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::Equivalent;

use super::{Session, plan, sizes::Sizes, tree::Tree};
use crate::{
    catalog::{Catalog, statement_uses::StatementEntry},
    error::{Result, SqlError},
    memory::Held,
    plan::Plan,
    result::Column,
    session::Bound,
    transaction::ActiveTransaction,
    types::SqlType,
};

/// A statement that has been parsed and bound.
pub struct Prepared {
    /// `None`: the text was empty.
    pub(crate) tree: Option<Tree>,
    /// The text as it was prepared; empty if it came in a text with other statements.
    pub(super) text: Arc<str>,
    /// Its entry among the statements that are counted.
    pub(super) uses: Option<Arc<StatementEntry>>,
    pub(crate) bound: Bound,
    pub(super) made_for: MadeFor,
    /// The last plan that was made later. The session that runs the statement locks it, for a moment.
    pub(super) renewed: Mutex<Option<Renewed>>,
    /// The memory that the statement takes.
    pub(super) _held: Held,
}

/// The text of a plan, and the types that its parameters were given.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct PlanKey {
    pub(super) text: Box<str>,
    pub(super) types: Box<[Option<SqlType>]>,
}

/// The same, borrowed.
#[derive(Hash)]
pub(super) struct Sought<'s> {
    pub(super) text: &'s str,
    pub(super) types: &'s [Option<SqlType>],
}

impl Equivalent<PlanKey> for Sought<'_> {
    fn equivalent(&self, key: &PlanKey) -> bool {
        *self.text == *key.text && *self.types == *key.types
    }
}

/// The circumstances that a plan was made for.
#[derive(Default)]
pub(super) struct MadeFor {
    /// Version of the catalog; `None`: it was bound against objects that only a transaction has.
    pub(super) version: Option<(u64, u64)>,
    /// The number of changes so far of the settings that binding depends on.
    pub(super) settings: u64,
    /// The role whose rights were examined.
    pub(super) role: u32,
    pub(super) sizes: Sizes,
}

/// A plan that replaces an older one.
pub(super) struct Renewed {
    bound: Arc<Bound>,
    made_for: MadeFor,
}

impl Renewed {
    pub(super) fn bound(&self) -> Arc<Bound> {
        self.bound.clone()
    }
}

impl MadeFor {
    fn is(&self, catalog: &Catalog, settings: u64, role: u32) -> bool {
        self.version == Some(catalog.state())
            && self.settings == settings
            && self.role == role
            && self.sizes.fit(catalog)
    }
}

impl Prepared {
    /// Returns the types of the parameters.
    pub fn parameters(&self) -> &[SqlType] {
        &self.bound.parameters
    }

    /// Returns the columns of the result; `None`: the statement returns no rows.
    pub fn columns(&self) -> Option<&[Column]> {
        self.bound.columns.as_deref()
    }

    /// Whether the text had no statement.
    pub fn is_empty(&self) -> bool {
        self.tree.is_none()
    }

    /// Whether it is a COPY, which goes in or out as a whole.
    pub fn is_copy(&self) -> bool {
        matches!(self.bound.plan, Plan::CopyFrom(_) | Plan::CopyTo(_))
    }
}

impl Session {
    /// Returns the plan of a statement for the catalog of a transaction, if it is not the first one.
    pub(super) fn renewed(&self, prepared: &Prepared, active: &ActiveTransaction) -> Result<Option<Arc<Bound>>> {
        let (catalog, settings, role) = (&active.catalog, self.settings_changed, self.environment.role);
        let is_own = active.has_changes();
        if !is_own && prepared.made_for.is(catalog, settings, role) {
            return Ok(None);
        }
        // A poisoned plan was not replaced.
        let mut renewed = prepared.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*renewed
            && !is_own
            && known.made_for.is(catalog, settings, role)
        {
            return Ok(Some(known.bound.clone()));
        }
        let tree = prepared.tree.as_ref().expect("what has no statement is not run");
        // The parameters were given with the types of the old plan.
        let types: Vec<_> = prepared.bound.parameters.iter().copied().map(Some).collect();
        // EXECUTE has another text than the statement.
        let bound = plan::bind(tree, catalog, &self.environment, &self.search_path, &types);
        let bound = bound.map_err(SqlError::nowhere)?;
        if !self.is_simple && !plan::same_types(prepared.bound.columns.as_deref(), bound.columns.as_deref()) {
            return Err(plan::other_columns());
        }
        let sizes = Sizes::new(catalog, &bound.tables);
        let kept = self.uses(prepared).filter(|entry| entry.planned(self.party.footprint.session, bound.took));
        let bound = Arc::new(bound);
        if !is_own {
            let made_for = MadeFor { version: Some(catalog.state()), settings, role, sizes };
            *renewed = Some(Renewed { bound: bound.clone(), made_for });
            // The text of the plan needs the lock.
            drop(renewed);
            kept.iter().for_each(|entry| entry.keep());
        }
        Ok(Some(bound))
    }
}

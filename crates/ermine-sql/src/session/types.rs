//! The types that statements have created, as the session's statements see them: those of the catalog that a statement is
//! bound against and run with.

use std::sync::Arc;

use super::{Session, State};
use crate::{catalog::Catalog, types::user_types::UserTypes};

impl Session {
    /// Returns the catalog that the session's next statement sees, and whether its transaction has changed it.
    pub(super) fn seen_catalog(&self) -> (Arc<Catalog>, bool) {
        match &self.state {
            State::Block { active: Some(active), .. } if !active.renews() => {
                (active.catalog.clone(), !active.changes.is_empty())
            }
            _ => (self.shared.catalog.current(), false),
        }
    }

    /// Takes over the types of the catalog that the next statement sees.
    pub(super) fn see_types(&mut self, types: &Arc<UserTypes>) {
        if !Arc::ptr_eq(&self.environment.types, types) {
            self.environment.types = types.clone();
        }
    }

    /// Returns the types that statements have created, as its next statement sees them.
    pub fn types(&self) -> Arc<UserTypes> {
        self.seen_catalog().0.types.clone()
    }
}

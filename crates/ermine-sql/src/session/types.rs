//! The types that statements have created, as the session's statements see them: those of the catalog that a statement is
//! bound against and run with.

use std::sync::Arc;

use super::{Session, State};
use crate::{catalog::Catalog, error::Result, types::user_types::UserTypes};

impl Session {
    /// Returns the catalog that the session's next statement sees, and whether its transaction has changed it.
    pub(super) fn seen_catalog(&self) -> Result<(Arc<Catalog>, bool)> {
        match &self.state {
            State::Block { active: Some(active), .. } if !active.renews() => {
                Ok((active.catalog.clone(), active.has_changes()))
            }
            _ => Ok((self.party.temporary.over(self.shared.catalog.current())?, false)),
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
        // None of them is temporary.
        match &self.state {
            State::Block { active: Some(active), .. } if !active.renews() => active.catalog.types.clone(),
            _ => self.shared.catalog.current().types.clone(),
        }
    }
}

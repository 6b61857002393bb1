//! The portals that a client has made of its statements, by their names, and the unnamed statement; the session has the
//! statements with names, which those of PREPARE are, too. The empty name is that of the unnamed one.

use std::{
    collections::{HashMap, hash_map},
    sync::Arc,
};

use ermine_sql::{Result, SqlError, SqlState};

use crate::{backend::Session, protocol::Formats};

/// A statement with its parameters.
pub struct Portal<S: Session> {
    /// The portal's statement.
    pub statement: Arc<S::Statement>,
    /// Its run.
    pub portal: S::Portal,
    /// The formats that the client wants the values in.
    pub formats: Formats,
    /// Whether it has been run to its end.
    pub is_done: bool,
}

/// A client's unnamed statement, and its portals.
pub struct Statements<S: Session> {
    /// The unnamed statement.
    pub unnamed: Option<Arc<S::Statement>>,
    unnamed_portal: Option<Portal<S>>,
    portals: HashMap<Box<[u8]>, Portal<S>>,
}

impl<S: Session> Default for Statements<S> {
    fn default() -> Self {
        Self { unnamed: None, unnamed_portal: None, portals: HashMap::new() }
    }
}

impl<S: Session> Statements<S> {
    /// Returns a statement by its name, the unnamed one or one of the session.
    #[inline]
    pub fn statement<'s>(&'s self, name: &[u8], session: &'s S) -> Result<&'s Arc<S::Statement>> {
        let known = if name.is_empty() { self.unnamed.as_ref() } else { session.statement(name) };
        known.ok_or_else(|| {
            let what = match name {
                [] => "unnamed prepared statement does not exist".into(),
                name => format!("prepared statement \"{}\" does not exist", name.escape_ascii()),
            };
            SqlError::new(SqlState::INVALID_SQL_STATEMENT_NAME, what)
        })
    }

    /// Returns a portal by its name.
    #[inline]
    pub fn portal(&mut self, name: &[u8]) -> Result<&mut Portal<S>> {
        let known = if name.is_empty() { self.unnamed_portal.as_mut() } else { self.portals.get_mut(name) };
        known.ok_or_else(|| {
            let what = format!("portal \"{}\" does not exist", name.escape_ascii());
            SqlError::new(SqlState::INVALID_CURSOR_NAME, what)
        })
    }

    /// Adds a portal; the unnamed one is replaced.
    #[inline]
    pub fn add_portal(&mut self, name: &[u8], portal: Portal<S>) -> Result<()> {
        if name.is_empty() {
            self.unnamed_portal = Some(portal);
            return Ok(());
        }
        match self.portals.entry(name.into()) {
            hash_map::Entry::Vacant(place) => {
                place.insert(portal);
                Ok(())
            }
            hash_map::Entry::Occupied(_) => {
                let what = format!("cursor \"{}\" already exists", name.escape_ascii());
                Err(SqlError::new(SqlState::DUPLICATE_CURSOR, what))
            }
        }
    }

    /// Removes a portal, if it exists.
    pub fn remove_portal(&mut self, name: &[u8]) {
        if name.is_empty() {
            self.unnamed_portal = None;
        } else {
            self.portals.remove(name);
        }
    }

    /// Removes all portals: their transaction has ended.
    #[inline]
    pub fn end_portals(&mut self) {
        self.unnamed_portal = None;
        if !self.portals.is_empty() {
            self.portals.clear();
        }
    }

    /// Removes the unnamed statement and portal.
    pub fn forget_unnamed(&mut self) {
        self.unnamed = None;
        self.unnamed_portal = None;
    }
}

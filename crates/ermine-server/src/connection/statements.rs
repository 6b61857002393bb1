//! The statements a client has prepared and the portals it has made of them, by their names; the empty name is that of
//! the unnamed one.

use std::{
    collections::{HashMap, hash_map},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use ermine_sql::{Column, Result, SqlError, SqlState};

use crate::{
    backend::{Session, Statement},
    protocol::Formats,
    traces::Parent,
};

/// A statement that has been prepared.
pub struct Prepared<S> {
    /// `None`: the text had no statement.
    pub statement: Option<S>,
    /// The client's span that its text names.
    pub parent: Option<Parent>,
    /// Whether it took long the last time.
    was_long: AtomicBool,
}

impl<S: Statement> Prepared<S> {
    /// Returns a statement that has not run yet.
    pub fn new(statement: Option<S>, parent: Option<Parent>) -> Self {
        Self { statement, parent, was_long: AtomicBool::new(false) }
    }

    /// Returns the columns of its result, if it returns rows.
    pub fn columns(&self) -> Option<&[Column]> {
        self.statement.as_ref()?.columns()
    }

    /// Whether it must not run where it could block others.
    #[inline]
    pub fn is_long(&self) -> bool {
        // Relaxed, as a hint that only this connection's task reads and writes.
        self.was_long.load(Ordering::Relaxed) || self.statement.as_ref().is_some_and(Statement::is_long)
    }

    /// Records whether it took long.
    #[inline]
    pub fn took(&self, long: bool) {
        if long != self.was_long.load(Ordering::Relaxed) {
            self.was_long.store(long, Ordering::Relaxed);
        }
    }
}

/// A statement with its parameters.
pub struct Portal<S: Session> {
    /// The portal's statement.
    pub prepared: Arc<Prepared<S::Statement>>,
    /// `None`: the text had no statement.
    pub portal: Option<S::Portal>,
    /// The formats that the client wants the values in.
    pub formats: Formats,
    /// Whether it has been run to its end.
    pub is_done: bool,
}

/// A client's statements and portals.
pub struct Statements<S: Session> {
    unnamed: Option<Arc<Prepared<S::Statement>>>,
    named: HashMap<Box<[u8]>, Arc<Prepared<S::Statement>>>,
    unnamed_portal: Option<Portal<S>>,
    portals: HashMap<Box<[u8]>, Portal<S>>,
}

impl<S: Session> Default for Statements<S> {
    fn default() -> Self {
        Self { unnamed: None, named: HashMap::new(), unnamed_portal: None, portals: HashMap::new() }
    }
}

impl<S: Session> Statements<S> {
    /// Returns a statement by its name.
    #[inline]
    pub fn statement(&self, name: &[u8]) -> Result<&Arc<Prepared<S::Statement>>> {
        let known = if name.is_empty() { self.unnamed.as_ref() } else { self.named.get(name) };
        known.ok_or_else(|| {
            let what = match name {
                [] => "unnamed prepared statement does not exist".into(),
                name => format!("prepared statement \"{}\" does not exist", name.escape_ascii()),
            };
            SqlError::new(SqlState::INVALID_SQL_STATEMENT_NAME, what)
        })
    }

    /// Fails if a statement of this name cannot be added.
    pub fn check_new(&self, name: &[u8]) -> Result<()> {
        if self.named.contains_key(name) {
            let what = format!("prepared statement \"{}\" already exists", name.escape_ascii());
            return Err(SqlError::new(SqlState::DUPLICATE_PREPARED_STATEMENT, what));
        }
        Ok(())
    }

    /// Adds a statement; the unnamed one is replaced.
    pub fn add(&mut self, name: &[u8], prepared: Prepared<S::Statement>) {
        let prepared = Arc::new(prepared);
        if name.is_empty() {
            self.unnamed = Some(prepared);
        } else {
            self.named.insert(name.into(), prepared);
        }
    }

    /// Removes a statement, if it exists.
    pub fn remove(&mut self, name: &[u8]) {
        if name.is_empty() {
            self.unnamed = None;
        } else {
            self.named.remove(name);
        }
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

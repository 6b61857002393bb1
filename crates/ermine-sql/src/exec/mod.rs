//! Running statements straight on the engine.
//!
//! Rows are pushed: a source shows each of its rows to what stands behind it, which may break off. Nothing is gathered but what has
//! to be: for an order that no index gives, for groups, and for statements that write what they read.

mod build;
mod group;
mod query;
mod scan;
mod subquery;
pub(crate) mod write;

pub(crate) use build::{check_rows, fill_index, move_rows};

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use ermine::OwnedTransaction;

use crate::{
    catalog::{Catalog, definition::ObjectId, sequence::Sequence},
    error::{Result, SqlError, SqlState},
    system::SystemTable,
    types::{Environment, Value},
};

/// What somebody does with a row; he may have enough.
pub(crate) type Emit<'e> = dyn FnMut(&[Value]) -> Result<ControlFlow<()>> + 'e;

/// What is done with an entry: its key and value.
pub(crate) type EachEntry<'e> = dyn FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>> + 'e;
/// What is done with a row and its key.
pub(crate) type EachRow<'e> = dyn FnMut(&[u8], &[Value]) -> Result<()> + 'e;
/// What is done with the row of all sources, into which one has put its values.
pub(crate) type EachJoined<'e> = dyn FnMut(&mut Vec<Value>) -> Result<ControlFlow<()>> + 'e;

/// Numbers that a session was given last, by sequence, and the last one of all.
#[derive(Default, Debug)]
pub(crate) struct GivenNumbers {
    pub(crate) by_sequence: HashMap<ObjectId, i64>,
    pub(crate) last: Option<i64>,
}

/// One run of a statement.
pub(crate) struct Run<'r> {
    pub(crate) txn: &'r OwnedTransaction,
    pub(crate) catalog: &'r Catalog,
    pub(crate) parameters: &'r [Value],
    pub(crate) environment: &'r Environment,
    pub(crate) cancel: &'r AtomicBool,
    pub(crate) given: &'r RefCell<GivenNumbers>,
    /// When the statement has taken too long.
    pub(crate) deadline: Option<Instant>,
    looks: Cell<u32>,
    /// Results of queries in expressions that look at nothing around them, by their address.
    remembered: RefCell<HashMap<usize, Arc<Vec<Value>>>>,
    /// Rows of tables of the system, by their address: made once.
    system_rows: RefCell<HashMap<usize, Arc<Vec<Vec<Value>>>>>,
}

impl<'r> Run<'r> {
    pub(crate) fn new(
        txn: &'r OwnedTransaction,
        catalog: &'r Catalog,
        parameters: &'r [Value],
        environment: &'r Environment,
        cancel: &'r AtomicBool,
        given: &'r RefCell<GivenNumbers>,
    ) -> Self {
        Self {
            txn,
            catalog,
            parameters,
            environment,
            cancel,
            given,
            deadline: None,
            looks: Cell::new(0),
            remembered: RefCell::default(),
            system_rows: RefCell::default(),
        }
    }

    /// The rows of a table of the system.
    fn system_rows(&self, table: SystemTable) -> Arc<Vec<Vec<Value>>> {
        let mut known = self.system_rows.borrow_mut();
        known.entry(table.address()).or_insert_with(|| Arc::new(table.rows(self.catalog, self.environment))).clone()
    }

    /// Fails when the client, or a time limit, wants that.
    #[inline]
    pub(crate) fn check_cancelled(&self) -> Result<()> {
        // Relaxed: nothing else is told by it.
        if self.cancel.load(Ordering::Relaxed) {
            self.cancel.store(false, Ordering::Relaxed);
            return Err(SqlError::new(SqlState::QUERY_CANCELED, "canceling statement due to user request"));
        }
        // The clock costs more than a row.
        self.looks.set(self.looks.get().wrapping_add(1));
        if self.looks.get().is_multiple_of(64) && self.deadline.is_some_and(|deadline| Instant::now() > deadline) {
            return Err(SqlError::new(SqlState::QUERY_CANCELED, "canceling statement due to statement timeout"));
        }
        Ok(())
    }

    /// The number that the session was given last: of a sequence, or of all.
    pub(crate) fn last_given(&self, sequence: Option<&Sequence>) -> Result<i64> {
        let given = self.given.borrow();
        let number = match sequence {
            Some(sequence) => given.by_sequence.get(&sequence.def.id).copied(),
            None => given.last,
        };
        number.ok_or_else(|| {
            let message = match sequence {
                Some(sequence) => {
                    format!("currval of sequence \"{}\" is not yet defined in this session", sequence.def.name)
                }
                None => "lastval is not yet defined in this session".into(),
            };
            SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
        })
    }

    /// The next number of a sequence, which the session remembers.
    pub(crate) fn next_of(&self, sequence: &Sequence) -> Result<i64> {
        let number = sequence.next()?;
        let mut given = self.given.borrow_mut();
        given.by_sequence.insert(sequence.def.id, number);
        given.last = Some(number);
        Ok(number)
    }
}

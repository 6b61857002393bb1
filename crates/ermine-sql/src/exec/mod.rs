//! Running statements straight on the engine.
//!
//! Rows are pushed: a source shows each of its rows to what stands behind it, which may break off. Nothing is gathered but what has
//! to be: for an order that no index gives, for groups, and for statements that write what they read.

mod actual;
mod ask;
mod build;
mod group;
mod lock;
mod query;
mod scan;
mod sort;
mod subquery;
pub(crate) mod write;

pub(crate) use actual::{Actual, Actuals};
pub(crate) use build::{Batch, check_rows, check_table, duplicated, fill_index, move_rows, run_batch, sees_all};

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    ops::ControlFlow,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use ermine::OwnedTransaction;

use crate::{
    catalog::{Catalog, definition::ObjectId, sequence::Sequence},
    error::{Result, SqlError, SqlState},
    memory::Kept,
    query::Query,
    session::{KeptRows, Level, read_only},
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
    pub(crate) given: &'r RefCell<GivenNumbers>,
    /// What its transaction is promised.
    pub(crate) level: Level,
    /// Whether its transaction writes nothing.
    pub(crate) is_read_only: bool,
    /// Where somebody wants to know what comes of the parts of the plan.
    pub(crate) actuals: Option<Actuals>,
    looks: Cell<u32>,
    /// Results of queries in expressions that look at nothing around them, by their address.
    remembered: RefCell<HashMap<usize, Arc<Vec<Value>>>>,
    /// Rows of tables of the system, by their address: made once.
    system_rows: RefCell<HashMap<usize, Arc<Vec<Vec<Value>>>>>,
    /// Rows of queries that are run once, by their address.
    once: RefCell<HashMap<usize, Arc<KeptRows>>>,
}

impl<'r> Run<'r> {
    pub(crate) fn new(
        txn: &'r OwnedTransaction,
        catalog: &'r Catalog,
        parameters: &'r [Value],
        environment: &'r Environment,
        given: &'r RefCell<GivenNumbers>,
    ) -> Self {
        Self {
            txn,
            catalog,
            parameters,
            environment,
            given,
            level: Level::Serializable,
            is_read_only: false,
            actuals: None,
            looks: Cell::new(0),
            remembered: RefCell::default(),
            system_rows: RefCell::default(),
            once: RefCell::default(),
        }
    }

    /// The rows of a table of the system.
    fn system_rows(&self, table: SystemTable) -> Result<Arc<Vec<Vec<Value>>>> {
        if let Some(known) = self.system_rows.borrow().get(&table.address()) {
            return Ok(known.clone());
        }
        let rows = Arc::new(table.rows(self.catalog, self.environment));
        let mut kept = Kept::new(&self.environment.memory);
        rows.iter().try_for_each(|row| kept.add_row(row))?;
        kept.stays();
        self.system_rows.borrow_mut().insert(table.address(), rows.clone());
        Ok(rows)
    }

    /// The rows of a query that is run once, and looks at nothing around it.
    fn once(&self, query: &Arc<Query>) -> Result<Arc<KeptRows>> {
        let address = Arc::as_ptr(query) as usize;
        if let Some(known) = self.once.borrow().get(&address) {
            return Ok(known.clone());
        }
        let (mut rows, mut kept) = (KeptRows::new(usize::MAX), Kept::new(&self.environment.memory));
        let _ = self.query(query, None, &mut |row| {
            kept.add_row(row)?;
            rows.push(row).map(ControlFlow::Continue)
        })?;
        kept.stays();
        let rows = Arc::new(rows);
        self.once.borrow_mut().insert(address, rows.clone());
        Ok(rows)
    }

    /// Fails when the client, or a time limit, wants that.
    #[inline]
    pub(crate) fn check_cancelled(&self) -> Result<()> {
        // The clock costs more than a row.
        self.looks.set(self.looks.get().wrapping_add(1));
        let is_due = self.looks.get().is_multiple_of(64) || self.environment.interrupt.is_cancelled();
        if is_due { self.environment.check() } else { Ok(()) }
    }

    /// Begins with the next row of a loop: values that were made since the mark are gone.
    #[inline]
    pub(crate) fn next_row(&self, mark: usize) {
        self.environment.memory.next_row(mark);
    }

    /// Waits for so many seconds, unless it is cancelled.
    pub(crate) fn sleep(&self, seconds: f64) -> Result<()> {
        const LOOK_EVERY: Duration = Duration::from_millis(10);
        // No time is negative, and what is no time at all is none.
        let length = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
        let began = Instant::now();
        loop {
            self.environment.check()?;
            let left = length.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(LOOK_EVERY));
        }
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

    /// Fails where the transaction writes nothing.
    pub(crate) fn check_writes(&self, what: &str) -> Result<()> {
        if self.is_read_only { Err(read_only(what)) } else { Ok(()) }
    }

    /// The next number of a sequence, which the session remembers.
    pub(crate) fn next_of(&self, sequence: &Sequence) -> Result<i64> {
        self.check_writes("nextval()")?;
        let number = sequence.next()?;
        let mut given = self.given.borrow_mut();
        given.by_sequence.insert(sequence.def.id, number);
        given.last = Some(number);
        Ok(number)
    }
}

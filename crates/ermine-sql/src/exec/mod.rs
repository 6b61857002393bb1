//! Execution of statements directly on the engine.
//!
//! Rows are pushed: a source emits each of its rows to its consumer, which may stop it. Rows are only gathered where
//! necessary: for an order that no index provides, for groups, and for statements that write what they read.

mod ask;
mod build;
mod gathered;
mod group;
mod hash;
mod instrumentation;
mod key_set;
mod lock;
mod merge;
mod partition;
mod parts;
mod prefix;
mod query;
mod recursion;
pub(crate) mod references;
mod scan;
mod set_operation;
mod sets;
mod sort;
mod space;
mod subquery;
mod unique;
mod window;
pub(crate) mod write;

pub(crate) use build::{
    Batch, check_references, check_rows, check_table, duplicated, fill_index, move_rows, rewrite_rows, run_batch,
};
pub(crate) use instrumentation::{Actual, Instrumentation, Step};
pub(crate) use scan::whole_row_of;

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    ops::ControlFlow,
    rc::Rc,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use ermine::OwnedTransaction;

use self::{gathered::Gathered, recursion::WorkTable, space::Space};

use crate::{
    catalog::{
        Catalog, Table, advisory::AdvisoryKey, definition::ObjectId, notifications::Notes, sequence::Sequence,
        sessions::Party, uses::TableUse,
    },
    claims::{Claims, Deferral},
    error::{Result, SqlError, SqlState},
    level::Level,
    memory::Kept,
    query::Query,
    row_buffer::RowBuffer,
    system::{ColumnSet, SystemTable, own::Own},
    tape::Place,
    types::{Environment, Value},
};

/// A consumer of rows, which may stop the source.
pub(crate) type Emit<'e> = dyn FnMut(&[Value]) -> Result<ControlFlow<()>> + 'e;

/// A consumer of entries: of their keys and values.
pub(crate) type EachEntry<'e> = dyn FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>> + 'e;
/// A consumer of rows: of their keys, their bytes as stored, and their values.
pub(crate) type EachRow<'e> = dyn FnMut(&[u8], &[u8], &[Value]) -> Result<()> + 'e;
/// A consumer of the row of all sources, into which one source has put its values.
pub(crate) type EachJoined<'e> = dyn FnMut(&mut Vec<Value>) -> Result<ControlFlow<()>> + 'e;

/// State of a session that expressions change.
#[derive(Default, Debug)]
pub(crate) struct SessionState {
    /// The numbers that it drew last, by sequence.
    pub(crate) by_sequence: HashMap<ObjectId, i64>,
    /// The last one of all.
    pub(crate) last: Option<i64>,
    /// The settings that the statement has set; the session takes them over at its end.
    pub(crate) settings: Vec<SetConfig>,
    /// The advisory locks that the statement has taken for the session, and whether shared.
    pub(crate) locks: Vec<(AdvisoryKey, bool)>,
    /// What foreign keys need at the end of the transaction because of the statement.
    pub(crate) claims: Claims,
    /// What takes effect when the transaction commits.
    pub(crate) notes: Notes,
}

/// A call of `set_config`; without a value, the setting has its initial one.
#[derive(Debug)]
pub(crate) struct SetConfig {
    pub(crate) name: String,
    pub(crate) value: Option<String>,
    pub(crate) is_local: bool,
}

/// The rows of a system table, as far as they are needed.
type SystemRows = Arc<Vec<Vec<Value>>>;

/// One run of a statement.
pub(crate) struct Run<'r> {
    pub(crate) txn: &'r OwnedTransaction,
    pub(crate) catalog: &'r Catalog,
    pub(crate) parameters: &'r [Value],
    pub(crate) environment: &'r Environment,
    pub(crate) given: &'r RefCell<SessionState>,
    /// The isolation level of its transaction.
    pub(crate) level: Level,
    /// Whether its transaction is read-only.
    pub(crate) is_read_only: bool,
    /// Its session, and the number by which its transaction has advisory locks; `None`: it belongs to no session.
    pub(crate) session: Option<(&'r Party, u64)>,
    /// The objects of its session; `None`: it belongs to none.
    pub(crate) own: Option<Own<'r>>,
    /// How long to wait for an advisory lock; `None`: without a limit.
    pub(crate) lock_timeout: Option<Duration>,
    /// When foreign keys are examined.
    pub(crate) deferral: Deferral,
    /// Whether what foreign keys need is examined again at the end of the transaction, with a newer snapshot.
    pub(crate) examines_again: bool,
    /// Statistics of the parts of the plan, if they are requested.
    pub(crate) instrumentation: Option<Instrumentation>,
    looks: Cell<u32>,
    /// Number of loops that are running, each inside the one before.
    nested: Cell<usize>,
    /// Results of queries in expressions that refer to no outer row, by their address.
    remembered: RefCell<HashMap<usize, Arc<Vec<Value>>>>,
    /// Rows of system tables, by the address of the table and the columns that are needed: computed once.
    system_rows: RefCell<HashMap<(usize, ColumnSet), SystemRows>>,
    /// Rows of the last runs of recursive terms, by the numbers of their queries.
    work_tables: RefCell<HashMap<usize, WorkTable>>,
    /// The rows that WITH queries return that write, by their numbers.
    returned: RefCell<HashMap<usize, Arc<RowBuffer>>>,
    /// Rows of queries that are run once, by their address.
    once: RefCell<HashMap<usize, Rc<Gathered<'r>>>>,
    hashes: hash::Hashes<'r>,
    space: Space<'r>,
    /// Sets of the remembered results that conditions IN look up, by the address of their query; `None`: looked up once,
    /// without a set.
    member_sets: RefCell<HashMap<usize, Option<Arc<subquery::MemberSet>>>>,
}

impl<'r> Run<'r> {
    pub(crate) fn new(
        txn: &'r OwnedTransaction,
        catalog: &'r Catalog,
        parameters: &'r [Value],
        environment: &'r Environment,
        given: &'r RefCell<SessionState>,
    ) -> Self {
        Self {
            txn,
            catalog,
            parameters,
            environment,
            given,
            level: Level::Serializable,
            is_read_only: false,
            session: None,
            own: None,
            lock_timeout: None,
            deferral: Deferral::default(),
            examines_again: false,
            instrumentation: None,
            looks: Cell::new(0),
            nested: Cell::new(0),
            remembered: RefCell::default(),
            system_rows: RefCell::default(),
            work_tables: RefCell::default(),
            returned: RefCell::default(),
            once: RefCell::default(),
            hashes: hash::Hashes::default(),
            space: Space::new(environment, Some(txn.database()), &catalog.sessions.temporary_files),
            member_sets: RefCell::default(),
        }
    }

    /// Returns the place of temporary files.
    pub(crate) fn place(&self) -> Place {
        self.space.place()
    }

    /// Returns the counters of a table that the session adds to.
    #[inline]
    fn uses<'t>(&self, table: &'t Table) -> &'t TableUse {
        table.shared.uses.of(self.session.map_or(0, |(party, _)| party.footprint.session))
    }

    /// Returns the rows of a system table.
    fn system_rows(&self, table: SystemTable, needed: ColumnSet) -> Result<SystemRows> {
        let key = (table.address(), needed);
        if let Some(known) = self.system_rows.borrow().get(&key) {
            return Ok(known.clone());
        }
        let statistics = || self.txn.database().statistics();
        let rows = Arc::new(table.rows(needed, self.catalog, self.environment, self.own, &statistics));
        let mut kept = Kept::new(&self.environment.memory);
        rows.iter().try_for_each(|row| kept.add_row(row))?;
        kept.stays();
        self.system_rows.borrow_mut().insert(key, rows.clone());
        Ok(rows)
    }

    /// Returns the rows of a query that is run once and refers to no outer row.
    fn once(&self, query: &Arc<Query>) -> Result<Rc<Gathered<'r>>> {
        let address = Arc::as_ptr(query) as usize;
        if let Some(known) = self.once.borrow().get(&address) {
            return Ok(known.clone());
        }
        let mut rows = Gathered::new(&self.environment.memory);
        let _ = self.query(query, None, &mut |row| rows.push(row.to_vec(), &self.space).map(ControlFlow::Continue))?;
        let rows = Rc::new(rows);
        self.once.borrow_mut().insert(address, rows.clone());
        Ok(rows)
    }

    /// Fails on a cancel request or at a time limit.
    #[inline]
    pub(crate) fn check_cancelled(&self) -> Result<()> {
        // Reading the clock costs more than a row.
        self.looks.set(self.looks.get().wrapping_add(1));
        let is_due = self.looks.get().is_multiple_of(64) || self.environment.interrupt.is_cancelled();
        if is_due { self.environment.check() } else { Ok(()) }
    }

    /// Begins the next row of a loop: frees the values that were made since the mark.
    #[inline]
    pub(crate) fn next_row(&self, mark: usize) {
        self.environment.memory.next_row(mark);
    }

    /// Sleeps for `seconds`, unless the statement is cancelled.
    pub(crate) fn sleep(&self, seconds: f64) -> Result<()> {
        const LOOK_EVERY: Duration = Duration::from_millis(10);
        // A negative time counts as zero, and so does NaN.
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

    /// Returns the number that the session drew last: from a sequence, or from any.
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

    /// Fails in a read-only transaction.
    pub(crate) fn check_writes(&self, what: &str) -> Result<()> {
        if self.is_read_only { Err(SqlError::read_only(what)) } else { Ok(()) }
    }

    /// Draws the next number of a sequence, which the session remembers.
    pub(crate) fn next_of(&self, sequence: &Sequence) -> Result<i64> {
        self.check_writes("nextval()")?;
        let number = sequence.next()?;
        let mut given = self.given.borrow_mut();
        given.by_sequence.insert(sequence.def.id, number);
        given.last = Some(number);
        Ok(number)
    }
}

//! Prepared transactions (PREPARE TRANSACTION): they have promised to commit, and wait for the decision, even across a
//! crash.
//!
//! A prepared transaction stays open, and no other transaction writes the rows that it has written. Its writes are also
//! stored in the table `sql prepared`, durably before the client gets the answer. After a crash, a transaction with the
//! same writes is opened from there before any session is served.
//!
//! ```text
//!   number, part        -> a part of the stored state (`Kept`)
//!   number, u32::MAX    -> (nothing): written by the transaction itself, so the row exists exactly if it has committed
//! ```
//!
//! Invariants
//! 1. *It can commit*: no other transaction has written its rows since, for they are locked. The reads of a
//!    serializable transaction are valid when it is prepared, and stay so: the engine refuses transactions that write
//!    there ([`ermine::Transaction::prepare`]). The rows, ranges of keys and tables that it read are stored, too: after
//!    a crash they are read again before any session begins, and are held again. For weaker levels only the reads of
//!    foreign keys are held.
//! 2. *It happens once*: the commit writes the mark in the same transaction; a rollback removes the stored state first.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::{
        Bound::{self, Included, Unbounded},
        ControlFlow,
    },
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use ermine::{Database, Durability, KeyBuffer, OwnedReceipt, Table, TxnOptions};
use serde::{Deserialize, Serialize};

use crate::{
    catalog::{
        CatalogStore,
        definition::ObjectId,
        relation_files::engine_name,
        sessions::{About, Sessions},
    },
    error::{Result, SqlError, SqlState},
    failure::{EngineResult as _, sql_error},
    storage::{RawKey, RawTable},
    transaction::{ActiveTransaction, Limits},
    types::Interrupt,
};

/// The stored state of a prepared transaction.
#[derive(Serialize, Deserialize)]
struct Kept {
    gid: String,
    about: About,
    /// Other transactions do not change what it has read.
    is_serializable: bool,
    /// The tables that it uses.
    tables: Vec<ObjectId>,
    /// Tables of the engine, keys, values; `None`: deleted.
    writes: Vec<(String, Vec<u8>, Option<Vec<u8>>)>,
}

/// The reads of a prepared transaction, stored after [`Kept`]: tables of the engine, and ranges of keys. Where an
/// earlier version of the program stored none, the transaction had all of its tables alone.
type Reads = Vec<(String, Bound<Vec<u8>>, Bound<Vec<u8>>)>;

struct Prepared {
    /// The number under which its state is stored.
    number: u64,
    active: Box<ActiveTransaction>,
}

/// The prepared transactions of a database.
pub(crate) struct PreparedStore {
    database: Arc<Database>,
    rows: Table<(u64, u32), Vec<u8>>,
    waiting: Mutex<BTreeMap<String, Prepared>>,
    sessions: Arc<Sessions>,
}

/// The size of a part, in bytes.
const PART: usize = 4 << 20;
/// The number of the part that marks the transaction as committed.
const COMMITTED: u32 = u32::MAX;
/// The longest name, in bytes.
const GID_MAX: usize = 199;

impl PreparedStore {
    /// Reopens the transactions that were prepared when the database was closed, or crashed; on a standby they are the
    /// original's.
    pub(crate) fn open(database: &Arc<Database>, catalog: &CatalogStore) -> Result<Self> {
        let rows = database.table("sql prepared").sql()?;
        let sessions = catalog.current().sessions.clone();
        let store = Self { database: database.clone(), rows, waiting: Mutex::default(), sessions };
        if database.is_standby() {
            return Ok(store);
        }
        let parts = store.database.run(|txn| txn.scan(&store.rows, ..).collect()).sql()?;
        let mut kept: BTreeMap<u64, (Vec<u8>, bool)> = BTreeMap::new();
        for ((number, part), bytes) in parts {
            let (whole, is_over) = kept.entry(number).or_default();
            whole.extend(bytes);
            *is_over |= part == COMMITTED;
        }
        for (number, (bytes, is_over)) in kept {
            if is_over {
                store.forget(number)?;
            } else {
                store.reopen(&bytes, catalog)?;
            }
        }
        Ok(store)
    }

    fn reopen(&self, bytes: &[u8], catalog: &CatalogStore) -> Result<()> {
        let damaged = |_| SqlError::new(SqlState::DATA_CORRUPTED, "what is kept of a prepared transaction is damaged");
        let (kept, reads): (Kept, &[u8]) = postcard::take_from_bytes(bytes).map_err(damaged)?;
        let Kept { gid, mut about, is_serializable, tables, writes } = kept;
        let own = |store: &Arc<CatalogStore>| tables.iter().any(|table| store.current().table(*table).is_some());
        let store = catalog.all_databases().into_iter().find(own);
        let catalog = store.as_deref().unwrap_or(catalog);
        about.database_number = catalog.number;
        let active = Box::new(ActiveTransaction::reopen(catalog, &self.database, is_serializable)?);
        let used: Vec<_> = tables.iter().filter_map(|id| active.catalog.table(*id).cloned()).collect();
        // No other session exists yet.
        active.share(&used, Limits { at_most: Some(Duration::ZERO), interrupt: &Interrupt::default() })?;
        // An index that was being built does not exist any more.
        let in_use: BTreeSet<_> = used.iter().flat_map(|table| table.def.relation_files()).map(engine_name).collect();
        let reads: Reads = match reads {
            [] if is_serializable => in_use.iter().map(|table| (table.clone(), Unbounded, Unbounded)).collect(),
            [] => Vec::new(),
            reads => postcard::from_bytes(reads).map_err(damaged)?,
        };
        // At weaker levels these are what its foreign keys depend on.
        active.txn.certify_reads(!reads.is_empty()).sql()?;
        for (table, lower, upper) in reads.into_iter().filter(|read| in_use.contains(&read.0)) {
            let table: RawTable = self.database.table(&table).sql()?;
            self.read_again(&active, &table, lower, upper)?;
        }
        active.txn.certify_reads(false).sql()?;
        for (table, key, value) in writes.into_iter().filter(|write| in_use.contains(&write.0)) {
            used.iter().filter(|own| engine_name(own.def.relation_file) == table).for_each(|own| own.has_row(&key));
            let table: RawTable = self.database.table(&table).sql()?;
            match value {
                Some(value) => active.txn.put(&table, &key[..], &value[..]),
                None => active.txn.delete(&table, &key[..]).map(drop),
            }
            .sql()?;
        }
        if !active.txn.prepare().sql()? {
            let message = format!("prepared transaction \"{gid}\" does not go together with the others");
            return Err(SqlError::new(SqlState::DATA_CORRUPTED, message));
        }
        self.begin_to_wait(&mut self.waiting(), gid, about, active);
        Ok(())
    }

    /// Reads a range as the transaction had read it.
    fn read_again(
        &self,
        active: &ActiveTransaction,
        table: &RawTable,
        lower: Bound<Vec<u8>>,
        upper: Bound<Vec<u8>>,
    ) -> Result<()> {
        match (&lower, &upper) {
            (Included(lower), Included(upper)) if lower == upper => active.txn.get(table, &lower[..]).map(drop).sql(),
            // The table may be larger than memory.
            (Unbounded, Unbounded) if active.txn.hold_table(table).sql()? => Ok(()),
            _ => {
                let raw = |key: Vec<u8>| RawKey(KeyBuffer::from_slice(&key));
                let scan = active.txn.scan(table, (lower.map(raw), upper.map(raw)));
                scan.for_each(|_, _| Ok(ControlFlow::Continue(()))).sql()
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<String, Prepared>> {
        self.waiting.lock().expect("no code panics while it holds prepared transactions")
    }

    fn begin_to_wait(
        &self,
        waiting: &mut BTreeMap<String, Prepared>,
        gid: String,
        about: About,
        active: Box<ActiveTransaction>,
    ) {
        waiting.insert(gid.clone(), Prepared { number: about.number, active });
        self.sessions.prepared().insert(gid, about);
    }

    /// Prepares a transaction; it is durable on return. Its number identifies nothing else.
    pub(crate) fn prepare(&self, gid: &str, active: Box<ActiveTransaction>, about: About) -> Result<()> {
        if gid.len() > GID_MAX {
            let message = format!("transaction identifier \"{gid}\" is too long");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        if active.has_changes() {
            return Err(SqlError::unsupported("PREPARE TRANSACTION after a change of definitions"));
        }
        if !self.database.scheme().has_versions() {
            let what = format!("PREPARE TRANSACTION under scheme {}", self.database.scheme());
            return Err(SqlError::unsupported(what).hint("Schemes that keep versions have it: si-ssn is the default."));
        }
        let is_serializable = active.is_serializable();
        if !active.txn.prepare().sql()? {
            let message = "could not serialize access: what the transaction has read was changed by others, or another \
                prepared transaction holds what it writes";
            return Err(SqlError::new(SqlState::SERIALIZATION_FAILURE, message)
                .hint("The transaction might succeed if retried."));
        }
        let mut reads: Reads = Vec::new();
        let gather = |table: &str, lower: Bound<&[u8]>, upper: Bound<&[u8]>| {
            reads.push((table.to_owned(), lower.map(<[u8]>::to_vec), upper.map(<[u8]>::to_vec)));
            Ok(())
        };
        active.txn.reads(gather).sql()?;
        let mut writes = Vec::new();
        let gather = |table: &str, key: &[u8], value: Option<&[u8]>| {
            writes.push((table.to_owned(), key.to_vec(), value.map(<[u8]>::to_vec)));
            Ok(())
        };
        active.txn.writes(gather).sql()?;
        let kept = Kept { gid: gid.into(), about: about.clone(), is_serializable, tables: active.used(), writes };
        let bytes = postcard::to_stdvec(&(kept, reads)).expect("it is plain data");
        let mut waiting = self.waiting();
        if waiting.contains_key(gid) {
            let message = format!("transaction identifier \"{gid}\" is already in use");
            return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
        }
        self.run_durable(|txn| {
            for (part, bytes) in bytes.chunks(PART).enumerate() {
                txn.insert(&self.rows, &(about.number, part as u32), bytes)?;
            }
            Ok(())
        })?;
        self.begin_to_wait(&mut waiting, gid.into(), about, active);
        Ok(())
    }

    /// Commits a prepared transaction.
    pub(crate) fn commit(&self, gid: &str, catalog: &CatalogStore) -> Result<OwnedReceipt> {
        let (Prepared { number, active }, about) = self.take(gid)?;
        match active.txn.insert(&self.rows, &(number, COMMITTED), &[][..]) {
            // A transaction that has written nothing needs no mark.
            Ok(()) | Err(ermine::Error::ReadOnly) => {}
            // Memory may have been short: the commit may be retried.
            Err(error) => {
                self.put_back(gid, Prepared { number, active }, about);
                return Err(sql_error(error));
            }
        }
        let committed = active.commit(catalog);
        match &committed {
            // If the removal fails, it is done when the database is next opened.
            Ok(_) => drop(self.forget(number)),
            // The log has failed: only the next opening can determine the outcome.
            Err(_) if self.database.failure().is_some() => {}
            // The transaction is rolled back, and must not reappear.
            Err(_) => self.forget(number)?,
        }
        committed
    }

    /// Rolls a prepared transaction back.
    pub(crate) fn roll_back(&self, gid: &str) -> Result<()> {
        let (Prepared { number, active }, about) = self.take(gid)?;
        // A transaction that cannot be forgotten reappears when the database is opened again: so it stays prepared.
        if let Err(error) = self.forget(number) {
            self.put_back(gid, Prepared { number, active }, about);
            return Err(error);
        }
        active.rollback();
        Ok(())
    }

    fn take(&self, gid: &str) -> Result<(Prepared, Option<About>)> {
        let mut waiting = self.waiting();
        let about = self.sessions.prepared().remove(gid);
        let prepared = waiting.remove(gid).ok_or_else(|| {
            let message = format!("prepared transaction with identifier \"{gid}\" does not exist");
            SqlError::new(SqlState::UNDEFINED_OBJECT, message)
        })?;
        Ok((prepared, about))
    }

    /// Puts the transaction back: it goes on waiting for the decision.
    fn put_back(&self, gid: &str, prepared: Prepared, about: Option<About>) {
        let mut waiting = self.waiting();
        waiting.insert(gid.to_owned(), prepared);
        if let Some(about) = about {
            self.sessions.prepared().insert(gid.to_owned(), about);
        }
    }

    /// Removes the stored state, durably on return.
    fn forget(&self, number: u64) -> Result<()> {
        self.run_durable(|txn| {
            let parts = txn.scan(&self.rows, (number, 0)..=(number, COMMITTED)).collect()?;
            parts.iter().try_for_each(|(key, _)| txn.delete(&self.rows, key).map(drop))
        })
    }

    fn run_durable(&self, body: impl Fn(&ermine::Transaction<'_>) -> ermine::Result<()>) -> Result<()> {
        let options = TxnOptions::default().durability(Durability::Durable);
        self.database.run_with(options, |txn| body(txn)).sql()
    }
}

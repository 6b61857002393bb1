//! The transaction of a session: the engine's, the catalog that it sees, and the tables that it uses.

mod held;

use std::{
    cell::{Cell, RefCell},
    sync::Arc,
    time::{Duration, Instant},
};

use ermine::{Durability, Isolation, Order, OwnedReceipt, OwnedTransaction, Savepoint, TxnOptions};

use self::held::Held;
pub(crate) use self::held::{Changing, Limits, TableWait, lock_timeout};
use crate::{
    catalog::{
        Catalog, CatalogStore, Change, SharedTable, Table, View,
        definition::ObjectId,
        relation_files::Taken,
        sessions::Party,
        temporary::{NewFiles, OnCommit, is_temporary},
    },
    claims::{Claims, Deferral},
    cursors::Cursors,
    error::{Result, SqlError, SqlState},
    failure::{EngineResult as _, sql_error},
    level::Level,
    memory::{Held as HeldMemory, Memory},
    synchronous::Synchronous,
};

/// The modes that were requested for a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Modes {
    pub(crate) read_only: bool,
    pub(crate) deferrable: bool,
    pub(crate) synchronous: Synchronous,
    pub(crate) level: Level,
    /// Whether every read is recorded: the transaction was prepared, and is opened again.
    pub(crate) tracks_all: bool,
}

/// Decides which transactions precede a transaction of a session.
#[derive(Clone, Default)]
pub(crate) struct Following {
    pub(crate) order: Option<Order>,
    /// The same for all transactions of a session.
    pub(crate) session: ermine::Session,
    /// The session; `None`: the transaction belongs to none.
    pub(crate) party: Option<Arc<Party>>,
}

impl Modes {
    fn begin(self, database: &Arc<ermine::Database>, following: &Following) -> Result<OwnedTransaction> {
        let is_safe = match database.is_standby() {
            true => self.level == Level::Serializable,
            false => self.read_only && self.deferrable && database.scheme().has_snapshots(),
        };
        let options = match self {
            _ if is_safe => TxnOptions::snapshot(),
            Self { read_only: true, .. } => TxnOptions::read_only(),
            Self { synchronous: Synchronous::Off, .. } => TxnOptions::default().durability(Durability::Async),
            _ => TxnOptions::default(),
        };
        let isolation = if self.level == Level::Serializable { Isolation::Scheme } else { Isolation::Snapshot };
        let mut options = options.isolation(isolation).session(&following.session);
        options.order = following.order;
        options.tracks_all = self.tracks_all;
        database.begin_owned(options).sql()
    }
}

/// An open transaction.
pub(crate) struct ActiveTransaction {
    pub(crate) txn: OwnedTransaction,
    /// The catalog as of the transaction's beginning, with its own changes.
    pub(crate) catalog: Arc<Catalog>,
    /// Its changes of the catalog, without those of temporary objects.
    pub(crate) changes: Vec<Change>,
    /// Those of temporary objects, once there are any.
    temporary: RefCell<Option<Box<TemporaryChanges>>>,
    modes: Modes,
    following: Following,
    /// The version of the catalog at its beginning: its own changes have numbers that other transactions use, too.
    version: u64,
    pub(crate) level: Level,
    /// Its savepoints, by name.
    savepoints: Vec<(String, SavepointState)>,
    pub(crate) cursors: Cursors,
    /// The number of relation files that had become free when it began.
    free_files: u64,
    taken: RefCell<Option<Taken>>,
    /// Released when the transaction has ended, however it ended.
    held: RefCell<Held>,
    /// Whether a statement has been run in it: the next one sees the same snapshot.
    pub(crate) has_run: bool,
    /// Whether one statement is the whole transaction.
    pub(crate) is_alone: bool,
    /// When foreign keys are examined.
    pub(crate) deferral: Deferral,
    /// What foreign keys need at its end.
    claims: Claims,
    /// The memory of the claims.
    owes: (HeldMemory, usize),
    /// Last field.
    end: End,
}

/// A transaction's changes of the session's temporary objects.
struct TemporaryChanges {
    changes: Vec<Change>,
    on_commit: Vec<(ObjectId, OnCommit)>,
    files: NewFiles,
}

impl TemporaryChanges {
    fn new(database: &Arc<ermine::Database>) -> Box<Self> {
        let files = NewFiles::new(database.clone());
        Box::new(Self { changes: Vec::new(), on_commit: Vec::new(), files })
    }
}

/// Tells those that wait for a transaction that it has ended.
struct End {
    party: Arc<Party>,
    /// Whether the party's footprint has tables that the transaction uses.
    has_tables: Cell<bool>,
    /// Whether the footprint has its number.
    is_shown: Cell<bool>,
    /// The number by which it has advisory locks.
    transaction: u64,
}

impl Drop for End {
    fn drop(&mut self) {
        if self.has_tables.get() {
            self.party.footprint.ends();
        }
        self.party.queues.ended();
        self.party.waits.locks.end_transaction(self.transaction);
    }
}

/// A point that a transaction can be rolled back to.
pub(crate) struct SavepointState {
    savepoint: Savepoint,
    catalog: Arc<Catalog>,
    changes: usize,
    temporary_changes: usize,
    marks: Marks,
    /// The number of cursors it had opened.
    cursors: usize,
    deferral: Deferral,
}

/// The parts of a session's state that go back with its transaction, as counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marks {
    /// Settings that the transaction has set.
    pub(crate) settings: usize,
    /// Its notes (NOTIFY and LISTEN).
    pub(crate) notes: usize,
}

/// How long a statement goes on that loses to transactions that are not known, or have ended already.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// How long to wait for other transactions, and how often to check.
pub(crate) struct Patience {
    since: Instant,
    /// `None`: without a limit.
    at_most: Option<Duration>,
    next: Duration,
}

impl Patience {
    const FIRST: Duration = Duration::from_micros(50);
    const LONGEST: Duration = Duration::from_millis(10);

    pub(crate) fn new(at_most: Option<Duration>) -> Self {
        Self { since: Instant::now(), at_most, next: Self::FIRST }
    }

    /// Waits a little longer than the last time.
    pub(crate) fn wait(&mut self) {
        std::thread::sleep(self.next.mul_f64(0.5 + fastrand::f64()));
        self.next = (2 * self.next).min(Self::LONGEST);
    }

    /// Whether the limit has passed.
    pub(crate) fn is_over(&self) -> bool {
        self.left().is_zero()
    }

    /// Returns the time until the limit.
    pub(crate) fn left(&self) -> Duration {
        self.at_most.map_or(Duration::MAX, |at_most| at_most.saturating_sub(self.since.elapsed()))
    }
}

impl ActiveTransaction {
    pub(crate) fn begin(
        store: &CatalogStore,
        database: &Arc<ermine::Database>,
        modes: Modes,
        mut following: Following,
    ) -> Result<Self> {
        let party = following.party.take().unwrap_or_else(|| store.party(Arc::default()));
        // Before the snapshot: `share` finds a change that commits in between, and on a standby there is none.
        let _steady = store.steady();
        let (catalog, free_files) = (party.temporary.over(store.current())?, store.relation_files.count());
        let txn = modes.begin(database, &following)?;
        // Rows with one version support one level.
        let level = if database.scheme().has_versions() { modes.level } else { Level::Serializable };
        let version = catalog.version;
        let (taken, held) = (RefCell::default(), RefCell::default());
        let transaction = party.waits.locks.transaction();
        let end = End { party, has_tables: Cell::default(), is_shown: Cell::default(), transaction };
        Ok(Self {
            txn,
            catalog,
            changes: Vec::new(),
            temporary: RefCell::default(),
            modes,
            following,
            version,
            level,
            savepoints: Vec::new(),
            cursors: Cursors::default(),
            free_files,
            taken,
            held,
            has_run: false,
            is_alone: false,
            deferral: Deferral::default(),
            claims: Claims::default(),
            owes: (HeldMemory::default(), 0),
            end,
        })
    }

    /// Reopens a transaction from its stored state: it has read nothing yet, and no other transaction exists.
    pub(crate) fn reopen(
        store: &CatalogStore,
        database: &Arc<ermine::Database>,
        is_serializable: bool,
    ) -> Result<Self> {
        let level = if is_serializable { Level::Serializable } else { Level::RepeatableRead };
        let modes =
            Modes { read_only: false, deferrable: false, synchronous: Synchronous::On, level, tracks_all: true };
        Self::begin(store, database, modes, Following::default())
    }

    /// Whether statements that write are refused.
    pub(crate) fn is_read_only(&self) -> bool {
        self.modes.read_only
    }

    /// Sets whether statements that write are refused from here on.
    pub(crate) fn set_read_only(&mut self, read_only: bool) {
        self.modes.read_only = read_only;
    }

    /// Whether it has changed the catalog.
    pub(crate) fn has_changes(&self) -> bool {
        !self.changes.is_empty() || self.temporary_changes() > 0
    }

    /// The number of its changes of temporary objects.
    fn temporary_changes(&self) -> usize {
        self.temporary.borrow().as_ref().map_or(0, |temporary| temporary.changes.len())
    }

    fn temporary_mut(&mut self) -> &mut TemporaryChanges {
        self.temporary.get_mut().get_or_insert_with(|| TemporaryChanges::new(self.txn.database()))
    }

    /// Whether it has used temporary objects.
    pub(crate) fn has_temporary(&self) -> bool {
        self.temporary_changes() > 0 || self.used().into_iter().any(|id| self.catalog.is_temporary(id))
    }

    /// Sets what its end, and that of later ones, does with a temporary table.
    pub(crate) fn set_on_commit(&mut self, table: ObjectId, what: OnCommit) {
        self.temporary_mut().on_commit.push((table, what));
    }

    /// The temporary tables that its end concerns.
    pub(crate) fn on_commit(&self) -> Vec<(ObjectId, OnCommit)> {
        let mut all = self.end.party.temporary.on_commit();
        all.extend(self.temporary.borrow().iter().flat_map(|temporary| &temporary.on_commit));
        all
    }

    /// Whether its reads are certified.
    pub(crate) fn is_serializable(&self) -> bool {
        self.level == Level::Serializable
    }

    /// Returns the tables that it uses.
    pub(crate) fn used(&self) -> Vec<ObjectId> {
        let held = self.held.borrow();
        let tables = held.tables().filter_map(|own| self.catalog.table_of(own));
        tables.map(|table| table.def.id).collect()
    }

    /// Whether each of its statements has its own snapshot and catalog: at READ COMMITTED, unless it has changed the
    /// catalog itself.
    pub(crate) fn renews(&self) -> bool {
        self.level == Level::ReadCommitted && !self.has_changes()
    }

    /// Whether what foreign keys need is examined again at its end: other statements may follow, with newer snapshots.
    pub(crate) fn examines_again(&self) -> bool {
        self.level == Level::ReadCommitted && !self.is_alone && self.txn.database().scheme().is_serializable()
    }

    /// Takes over what a statement owes to foreign keys.
    pub(crate) fn owe(&mut self, claims: &mut Claims, memory: &Memory) -> Result<()> {
        if claims.is_empty() {
            return Ok(());
        }
        let (held, bytes) = &mut self.owes;
        if *bytes == 0 {
            *held = memory.hold();
        }
        *bytes += claims.drain().map(|(place, claim)| self.claims.add(place, claim)).sum::<usize>();
        held.grow_to(*bytes, usize::MAX)
    }

    /// Returns the claims that are examined before it ends.
    pub(crate) fn claims(&self) -> &Claims {
        &self.claims
    }

    /// Continues with a new snapshot and the latest catalog.
    pub(crate) fn renew(&mut self, store: &CatalogStore) -> Result<()> {
        // Before the snapshot, as in `begin`.
        let _steady = store.steady();
        self.catalog = self.end.party.temporary.over(store.current())?;
        self.version = self.catalog.version;
        self.txn.renew_snapshot().sql()?;
        store.note_seen(&self.end.party, self.level);
        Ok(())
    }

    /// Returns the current point for a later rollback.
    pub(crate) fn point(&self, marks: Marks) -> Result<SavepointState> {
        let savepoint = self.txn.savepoint().sql()?;
        let (catalog, changes, cursors) = (self.catalog.clone(), self.changes.len(), self.cursors.mark());
        let temporary_changes = self.temporary_changes();
        Ok(SavepointState {
            savepoint,
            catalog,
            changes,
            temporary_changes,
            marks,
            cursors,
            deferral: self.deferral.clone(),
        })
    }

    /// Rolls back to a point: undoes all writes since. The tables that it has used stay in use.
    pub(crate) fn go_back(&mut self, point: &SavepointState) -> Result<()> {
        self.txn.roll_back_to(point.savepoint).sql()?;
        self.catalog = point.catalog.clone();
        self.changes.truncate(point.changes);
        if let Some(temporary) = self.temporary.get_mut() {
            temporary.changes.truncate(point.temporary_changes);
        }
        self.cursors.go_back(point.cursors);
        self.deferral.clone_from(&point.deferral);
        if let Some(own) = self.txn.tid().sql()? {
            self.end.party.queues.undone(own);
        }
        Ok(())
    }

    /// Forgets a point that it could be rolled back to.
    pub(crate) fn release(&mut self, point: &SavepointState) -> Result<()> {
        self.txn.release(point.savepoint).sql()
    }

    /// Runs SAVEPOINT: of several with the same name, the last one counts.
    pub(crate) fn add_savepoint(&mut self, name: String, marks: Marks) -> Result<()> {
        let point = self.point(marks)?;
        self.savepoints.push((name, point));
        Ok(())
    }

    /// Runs ROLLBACK TO: removes later savepoints; returns the state to which the session goes back.
    pub(crate) fn go_back_to(&mut self, name: &str) -> Result<Marks> {
        let at = self.find_savepoint(name)?;
        self.savepoints.truncate(at + 1);
        self.go_back_to_last().expect("there is one")
    }

    /// Rolls the transaction back to its last savepoint, if it has one, after a statement has failed; returns the
    /// state to which the session goes back.
    pub(crate) fn go_back_to_last(&mut self) -> Option<Result<Marks>> {
        let (name, point) = self.savepoints.pop()?;
        let (marks, done) = (point.marks, self.go_back(&point));
        self.savepoints.push((name, point));
        Some(done.map(|()| marks))
    }

    /// Runs RELEASE: removes the savepoint and later ones.
    pub(crate) fn release_savepoint(&mut self, name: &str) -> Result<()> {
        let at = self.find_savepoint(name)?;
        let (_, point) = self.savepoints.swap_remove(at);
        self.savepoints.truncate(at);
        self.release(&point)
    }

    fn find_savepoint(&self, name: &str) -> Result<usize> {
        self.savepoints
            .iter()
            .rposition(|(own, _)| own == name)
            .ok_or_else(|| SqlError::new(SqlState::INVALID_SAVEPOINT, format!("savepoint \"{name}\" does not exist")))
    }

    /// Returns a relation file for a table or an index, which the transaction will put into a definition: the number of
    /// an empty table of the engine.
    pub(crate) fn relation_file(&self, store: &CatalogStore, schema: &str) -> Result<ObjectId> {
        if is_temporary(schema) {
            let file = store.number()?;
            let mut temporary = self.temporary.borrow_mut();
            temporary.get_or_insert_with(|| TemporaryChanges::new(self.txn.database())).files.add(file);
            return Ok(file);
        }
        store.relation_files.take(&self.txn, self.free_files, &mut self.taken.borrow_mut(), || store.number())
    }

    /// Uses tables until the transaction ends; returns false if one of them has been changed since it began.
    pub(crate) fn share(&self, tables: &[Arc<Table>], limits: Limits<'_>) -> Result<bool> {
        for table in tables {
            if !self.share_one(&table.shared, limits, table.name())? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Uses views until the transaction ends, likewise.
    pub(crate) fn share_views(&self, views: &[Arc<View>], limits: Limits<'_>) -> Result<bool> {
        for view in views {
            if !self.share_one(&view.shared, limits, &view.def.name)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn share_one(&self, shared: &Arc<SharedTable>, limits: Limits<'_>, name: &str) -> Result<bool> {
        let is_used = self.held.borrow_mut().share(shared, self.version, &self.end.party, || {
            self.shows_itself();
            TableWait::new(&self.end.party, limits, shared.id, name)
        })?;
        self.end.has_tables.set(true);
        Ok(is_used)
    }

    /// Lets other sessions know which rows are its own.
    pub(crate) fn shows_itself(&self) {
        if !self.end.is_shown.get()
            && let Ok(Some(tid)) = self.txn.tid()
        {
            self.end.party.footprint.set_tid(tid);
            self.end.is_shown.set(true);
        }
    }

    /// Leaves its session, which goes on without it.
    pub(crate) fn leaves(&mut self, store: &CatalogStore) {
        if self.end.has_tables.replace(false) {
            self.end.party.footprint.ends();
        }
        self.end.party = store.party(Arc::default());
        self.held.get_mut().leaves_to(&self.end.party);
    }

    /// Whether it has done nothing yet, so that another transaction may replace it.
    pub(crate) fn is_fresh(&self) -> bool {
        self.held.borrow().is_empty() && !self.has_changes() && self.savepoints.is_empty() && self.cursors.mark() == 0
    }

    /// Returns the number by which it has advisory locks.
    pub(crate) fn number(&self) -> u64 {
        self.end.transaction
    }

    /// Continues as `newer`, which has done nothing: that gets the advisory locks.
    pub(crate) fn continue_as(&mut self, mut newer: Self) {
        std::mem::swap(&mut self.end.transaction, &mut newer.end.transaction);
        newer.has_run = self.has_run;
        newer.deferral = std::mem::take(&mut self.deferral);
        *self = newer;
    }

    /// Whether it holds a table exclusively.
    pub(crate) fn has_alone(&self, table: &Table) -> bool {
        self.held.borrow().has_alone(&table.shared)
    }

    /// Holds a table exclusively until the transaction ends, to change its definition.
    pub(crate) fn take(&mut self, table: &Table, limits: Limits<'_>) -> Result<()> {
        self.take_one(&table.shared, limits, table.name(), &|| changed(table.name()))
    }

    /// Holds a view exclusively, likewise.
    pub(crate) fn take_view(&mut self, view: &View, limits: Limits<'_>) -> Result<()> {
        self.take_one(&view.shared, limits, &view.def.name, &|| view_changed(&view.def.name))
    }

    fn take_one(
        &mut self,
        shared: &Arc<SharedTable>,
        limits: Limits<'_>,
        name: &str,
        changed: &dyn Fn() -> SqlError,
    ) -> Result<()> {
        self.shows_itself();
        let wait = TableWait::new(&self.end.party, limits, shared.id, name);
        match self.held.get_mut().take(shared, self.version, wait)? {
            true => Ok(()),
            false => Err(changed()),
        }
    }

    /// Holds tables exclusively as [`ActiveTransaction::take`] does. If the transaction has done nothing yet, it
    /// continues as if it had begun now, and sees the changes of the transactions that it has waited for.
    pub(crate) fn take_newest(
        &mut self,
        store: &CatalogStore,
        database: &Arc<ermine::Database>,
        tables: &[Arc<Table>],
        limits: Limits<'_>,
    ) -> Result<()> {
        let is_fresh = self.is_fresh();
        tables.iter().try_for_each(|table| self.take(table, limits))?;
        if !is_fresh || tables.is_empty() {
            return Ok(());
        }
        if self.is_serializable() {
            // Before the snapshot, as in `begin`.
            (self.catalog, self.free_files) =
                (self.end.party.temporary.over(store.current())?, store.relation_files.count());
            self.version = self.catalog.version;
            self.txn = self.modes.begin(database, &self.following)?;
            return Ok(());
        }
        self.renew(store)
    }

    /// Makes changes of the catalog, which the transaction sees at once.
    pub(crate) fn apply(
        &mut self,
        store: &CatalogStore,
        database: &Arc<ermine::Database>,
        changes: Vec<Change>,
    ) -> Result<()> {
        let after = self.catalog.with_own(database, &changes)?;
        let (stored, temporary) = after.split(&changes);
        store.write(&self.txn, &self.catalog, &stored)?;
        self.catalog = Arc::new(after);
        self.changes.extend(stored);
        if !temporary.is_empty() {
            self.temporary_mut().changes.extend(temporary);
        }
        Ok(())
    }

    /// Commits. Changes of the catalog are durable, and visible to all, when it returns: a transaction that only reads
    /// would not wait for the durability of the changes it was shown. For everything else the receipt reports
    /// durability.
    pub(crate) fn commit(self, store: &CatalogStore) -> Result<OwnedReceipt> {
        let Self { txn, catalog, changes, temporary, taken, held, end, .. } = self;
        let receipt = txn.commit_async().sql()?;
        taken.into_inner().into_iter().for_each(|taken| taken.keep(&changes));
        let dropped = if changes.is_empty() { Vec::new() } else { store.publish(&changes, &catalog)? };
        if let Some(temporary) = temporary.into_inner() {
            let TemporaryChanges { changes, on_commit, files } = *temporary;
            files.keep(&catalog);
            end.party.temporary.publish(&changes, &on_commit, catalog);
        }
        drop(held);
        dropped.into_iter().for_each(|file| store.relation_files.dropped(file));
        Ok(receipt)
    }

    /// Ends the transaction because a statement has failed; returns the error to send to the client. An error may
    /// follow from the transaction's reads: if they are not certified, the transaction has lost a conflict.
    pub(crate) fn fail(self, error: SqlError) -> SqlError {
        let Self { txn, held, .. } = self;
        let failed = match may_follow_from_reads(error.state()) {
            true => txn.commit_reads().map_or_else(sql_error, |_| error),
            false => error,
        };
        drop(held);
        failed
    }

    /// Whether it can continue from a savepoint when a statement has failed.
    pub(crate) fn has_savepoints(&self) -> bool {
        !self.savepoints.is_empty()
    }

    /// Rolls back, as dropping does.
    pub(crate) fn rollback(self) {}
}

/// Whether an error may follow from the rows that a transaction has read, rather than from the session, its client,
/// waiting for other transactions, or the machine.
fn may_follow_from_reads(state: SqlState) -> bool {
    const OTHERS: [&str; 6] = ["08", "40", "53", "55", "57", "58"];
    !OTHERS.contains(&&state.0[..2]) && state != SqlState::DATA_CORRUPTED
}

/// Returns the error for a view that has been changed since the transaction began.
pub(crate) fn view_changed(name: &str) -> SqlError {
    let message = format!("could not serialize access: view \"{name}\" was changed by a concurrent transaction");
    SqlError::new(SqlState::SERIALIZATION_FAILURE, message).hint("The transaction might succeed if retried.")
}

/// Returns the error for a table that has been changed since the transaction began.
pub(crate) fn changed(name: &str) -> SqlError {
    let message = format!("could not serialize access: table \"{name}\" was changed by a concurrent transaction");
    SqlError::new(SqlState::SERIALIZATION_FAILURE, message).hint("The transaction might succeed if retried.")
}

//! The transaction of a session: the engine's, the catalog that it sees, and the tables that it uses.

use std::{
    cell::RefCell,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use ermine::{Durability, Isolation, Order, OwnedReceipt, OwnedTransaction, Savepoint, TxnOptions};

use super::{cursor::Cursors, settings::Level};
use crate::{
    catalog::{Catalog, CatalogStore, Change, SharedTable, Table, definition::ObjectId, latch::Share, storages::Taken},
    error::{Result, SqlError, SqlState},
    failure::of_engine,
};

/// How a transaction was asked to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Modes {
    pub(crate) read_only: bool,
    pub(crate) deferrable: bool,
    pub(crate) is_async: bool,
    pub(crate) level: Level,
    /// Every read is kept: it was prepared, and is opened again.
    pub(crate) tracks_all: bool,
}

/// Which transactions come before one of a session.
#[derive(Clone, Default)]
pub(crate) struct Following {
    pub(crate) order: Option<Order>,
    /// For all transactions of a session the same.
    pub(crate) session: ermine::Session,
}

impl Modes {
    fn begin(self, database: &Arc<ermine::Database>, following: &Following) -> Result<OwnedTransaction> {
        let options = match self {
            Self { read_only: true, deferrable: true, .. } if database.scheme().has_snapshots() => {
                TxnOptions::snapshot()
            }
            Self { read_only: true, .. } => TxnOptions::read_only(),
            Self { is_async: true, .. } => TxnOptions::default().durability(Durability::Async),
            _ => TxnOptions::default(),
        };
        let isolation = if self.level == Level::Serializable { Isolation::Scheme } else { Isolation::Snapshot };
        let mut options = options.isolation(isolation).session(&following.session);
        options.order = following.order;
        options.tracks_all = self.tracks_all;
        database.begin_owned(options).map_err(of_engine)
    }
}

/// An open transaction.
pub(crate) struct Open {
    pub(crate) txn: OwnedTransaction,
    /// As of its beginning, with its own changes.
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) changes: Vec<Change>,
    modes: Modes,
    following: Following,
    /// The version of the catalog at its beginning: its own changes have numbers that others have, too.
    version: u64,
    pub(crate) level: Level,
    /// Its savepoints, by name.
    savepoints: Vec<(String, Point)>,
    pub(super) cursors: Cursors,
    /// How many storages had become free when it began.
    free_storages: u64,
    taken: RefCell<Option<Taken>>,
    /// Last: given back when the transaction has ended, however it did.
    held: RefCell<Held>,
}

/// Where a transaction can be taken back to.
pub(crate) struct Point {
    savepoint: Savepoint,
    catalog: Arc<Catalog>,
    changes: usize,
    /// How many settings it had set.
    settings: usize,
    /// How many cursors it had opened.
    cursors: usize,
}

/// Latches: of tables that it shares, and of those that it has alone.
#[derive(Default)]
struct Held {
    uses: Vec<(Arc<SharedTable>, Share)>,
    alone: Vec<Changing>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.alone.iter().for_each(|table| table.0.latch.give_back());
        self.uses.iter().for_each(|(table, share)| table.latch.unshare(*share));
    }
}

impl Held {
    fn uses(&self, table: &Table) -> bool {
        self.uses.iter().any(|(own, _)| Arc::ptr_eq(own, &table.shared))
    }

    fn has_alone(&self, table: &Table) -> bool {
        self.alone.iter().any(|own| Arc::ptr_eq(&own.0, &table.shared))
    }
}

/// A table that nobody else changes as long as this is there.
pub(crate) struct Changing(Arc<SharedTable>);

impl Changing {
    /// Waits for others who change the table, as long as `go_on` is well with it.
    pub(crate) fn begin(table: &Table, go_on: &mut dyn FnMut() -> Result<()>) -> Result<Self> {
        table.shared.latch.change(go_on)?;
        Ok(Self(table.shared.clone()))
    }

    /// Waits until all have ended who use the table now.
    pub(crate) fn outlast(&self, go_on: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.0.latch.outlast(go_on)
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        self.0.latch.end_change();
    }
}

/// How long is waited for others where nothing is said: a thread waits, so not for ever.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// How long is waited for others, and how often is looked.
pub(crate) struct Patience {
    since: Instant,
    at_most: Duration,
    next: Duration,
}

impl Patience {
    const FIRST: Duration = Duration::from_micros(50);
    const LONGEST: Duration = Duration::from_millis(10);

    pub(crate) fn new(at_most: Duration) -> Self {
        Self { since: Instant::now(), at_most, next: Self::FIRST }
    }

    /// Waits a little longer than the last time; false: long enough now.
    pub(crate) fn wait(&mut self) -> bool {
        std::thread::sleep(self.next.mul_f64(0.5 + fastrand::f64()));
        self.next = (2 * self.next).min(Self::LONGEST);
        self.since.elapsed() < self.at_most
    }
}

impl Open {
    pub(crate) fn begin(
        store: &CatalogStore,
        database: &Arc<ermine::Database>,
        modes: Modes,
        following: Following,
    ) -> Result<Self> {
        // Before the snapshot: a change that comes in between is found by `share`.
        let (catalog, free_storages) = (store.current(), store.storages.count());
        let txn = modes.begin(database, &following)?;
        // Rows with one version know one level.
        let level = if database.scheme().has_versions() { modes.level } else { Level::Serializable };
        let version = catalog.version;
        let (taken, held) = (RefCell::default(), RefCell::default());
        Ok(Self {
            txn,
            catalog,
            changes: Vec::new(),
            modes,
            following,
            version,
            level,
            savepoints: Vec::new(),
            cursors: Cursors::default(),
            free_storages,
            taken,
            held,
        })
    }

    /// One that is made anew from what was kept of it: it has read nothing yet, and no other transaction is there.
    pub(crate) fn reopen(
        store: &CatalogStore,
        database: &Arc<ermine::Database>,
        is_serializable: bool,
    ) -> Result<Self> {
        let level = if is_serializable { Level::Serializable } else { Level::RepeatableRead };
        let modes = Modes { read_only: false, deferrable: false, is_async: false, level, tracks_all: true };
        Self::begin(store, database, modes, Following::default())
    }

    /// Whether statements that write are refused.
    pub(crate) fn is_read_only(&self) -> bool {
        self.modes.read_only
    }

    /// Refuses statements that write from here on, or no more.
    pub(crate) fn set_read_only(&mut self, read_only: bool) {
        self.modes.read_only = read_only;
    }

    /// Whether what it reads is certified.
    pub(crate) fn is_serializable(&self) -> bool {
        self.level == Level::Serializable
    }

    /// The tables that it uses.
    pub(crate) fn used(&self) -> Vec<ObjectId> {
        let held = self.held.borrow();
        let tables = held.uses.iter().filter_map(|(own, _)| self.catalog.table_of(own));
        tables.map(|table| table.def.id).collect()
    }

    /// Whether each of its statements has a snapshot and a catalog of its own: at READ COMMITTED, unless it has changed the catalog itself.
    pub(crate) fn renews(&self) -> bool {
        self.level == Level::ReadCommitted && self.changes.is_empty()
    }

    /// Goes on with the snapshot and the catalog of now.
    pub(crate) fn renew(&mut self, store: &CatalogStore) -> Result<()> {
        // Before the snapshot, as in `begin`.
        self.catalog = store.current();
        self.version = self.catalog.version;
        self.txn.renew_snapshot().map_err(of_engine)
    }

    /// Marks where it can be taken back to, where the session had set so many settings.
    pub(crate) fn point(&self, settings: usize) -> Result<Point> {
        let savepoint = self.txn.savepoint().map_err(of_engine)?;
        let (catalog, changes, cursors) = (self.catalog.clone(), self.changes.len(), self.cursors.mark());
        Ok(Point { savepoint, catalog, changes, settings, cursors })
    }

    /// Takes it back: everything it has written since is undone. Tables that it has used it goes on using.
    pub(crate) fn go_back(&mut self, point: &Point) -> Result<()> {
        self.txn.roll_back_to(point.savepoint).map_err(of_engine)?;
        self.catalog = point.catalog.clone();
        self.changes.truncate(point.changes);
        self.cursors.go_back(point.cursors);
        Ok(())
    }

    /// Forgets where it could be taken back to.
    pub(crate) fn release(&mut self, point: &Point) -> Result<()> {
        self.txn.release(point.savepoint).map_err(of_engine)
    }

    /// SAVEPOINT: of several with a name, the last one counts.
    pub(crate) fn add_savepoint(&mut self, name: String, settings: usize) -> Result<()> {
        let point = self.point(settings)?;
        self.savepoints.push((name, point));
        Ok(())
    }

    /// ROLLBACK TO: later ones are gone; gives how many settings had been set.
    pub(crate) fn go_back_to(&mut self, name: &str) -> Result<usize> {
        let at = self.find_savepoint(name)?;
        self.savepoints.truncate(at + 1);
        self.go_back_to_last().expect("there is one")
    }

    /// A statement has failed: takes the transaction back to its last savepoint, if it has any; gives how many settings had been set.
    pub(crate) fn go_back_to_last(&mut self) -> Option<Result<usize>> {
        let (name, point) = self.savepoints.pop()?;
        let (settings, done) = (point.settings, self.go_back(&point));
        self.savepoints.push((name, point));
        Some(done.map(|()| settings))
    }

    /// RELEASE: it is gone, and later ones.
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

    /// Storage for a table or an index, which the transaction will put into a definition: a number of an empty table of the engine.
    pub(crate) fn storage(&self, store: &CatalogStore) -> Result<ObjectId> {
        store.storages.take(&self.txn, self.free_storages, &mut self.taken.borrow_mut(), || store.number())
    }

    /// Uses tables until its end; false: one of them has been changed since it began. `pause` is called while it waits.
    pub(crate) fn share(&self, tables: &[Arc<Table>], patience: Duration, pause: fn()) -> Result<bool> {
        for table in tables {
            let mut held = self.held.borrow_mut();
            if held.uses(table) || held.has_alone(table) {
                continue;
            }
            let Some(share) = table.shared.latch.share(patience, pause) else {
                return Err(locked(table, "being changed"));
            };
            // Not used then: whoever goes on from a savepoint asks again.
            if self.is_outdated(table) {
                table.shared.latch.unshare(share);
                return Ok(false);
            }
            held.uses.push((table.shared.clone(), share));
        }
        Ok(true)
    }

    /// Whether a table has been changed since the transaction began.
    fn is_outdated(&self, table: &Table) -> bool {
        // SeqCst: after the latch (`latch`, invariant 2).
        table.shared.changed.load(Ordering::SeqCst) > self.version
    }

    /// Whether it has done nothing yet: it may as well be another one.
    pub(crate) fn is_fresh(&self) -> bool {
        let held = self.held.borrow();
        let is_unused = held.uses.is_empty() && held.alone.is_empty();
        is_unused && self.changes.is_empty() && self.savepoints.is_empty() && self.cursors.mark() == 0
    }

    /// Has a table alone until its end, to change what it is.
    pub(crate) fn take(&mut self, table: &Table, patience: Duration) -> Result<()> {
        let held = self.held.get_mut();
        if held.has_alone(table) {
            return Ok(());
        }
        let since = Instant::now();
        let changing = Changing::begin(table, &mut || match since.elapsed() > patience {
            true => Err(locked(table, "being changed")),
            false => Ok(()),
        })?;
        if !table.shared.latch.take(held.uses(table).into(), patience.saturating_sub(since.elapsed())) {
            let hint = "A transaction that uses the table is open; end it, or set lock_timeout.";
            return Err(locked(table, "in use").hint(hint));
        }
        if table.shared.changed.load(Ordering::SeqCst) > self.version {
            table.shared.latch.give_back();
            return Err(changed(table.name()));
        }
        held.alone.push(changing);
        Ok(())
    }

    /// Has a table alone as [`Open::take`] does. Where it has done nothing yet, it goes on as if it had begun now, and sees what those have done
    /// that it has waited for.
    pub(crate) fn take_newest(
        &mut self,
        store: &CatalogStore,
        database: &Arc<ermine::Database>,
        table: &Table,
        patience: Duration,
    ) -> Result<()> {
        let is_fresh = self.is_fresh();
        self.take(table, patience)?;
        if !is_fresh {
            return Ok(());
        }
        if self.is_serializable() {
            // Before the snapshot, as in `begin`.
            (self.catalog, self.free_storages) = (store.current(), store.storages.count());
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
        store.write(&self.txn, &self.catalog, &changes)?;
        self.catalog = Arc::new(self.catalog.with_own(database, &changes)?);
        self.changes.extend(changes);
        Ok(())
    }

    /// Commits. Changes of the catalog are durable, and shown to all, when it returns: who only reads would not wait for what he was
    /// shown. Of everything else the receipt tells when it is durable.
    pub(crate) fn commit(self, store: &CatalogStore) -> Result<OwnedReceipt> {
        let Self { txn, catalog, changes, taken, held, .. } = self;
        let receipt = txn.commit_async().map_err(of_engine)?;
        taken.into_inner().into_iter().for_each(|taken| taken.keep(&changes));
        let dropped = if changes.is_empty() { Vec::new() } else { store.publish(&changes, &catalog)? };
        drop(held);
        dropped.into_iter().for_each(|storage| store.storages.dropped(storage));
        Ok(receipt)
    }

    /// Ends it because a statement has failed; gives the error that the client is to see. An error may follow from what the
    /// transaction has read: if that is not certified, the transaction has lost a conflict.
    pub(crate) fn fail(self, error: SqlError) -> SqlError {
        let Self { txn, held, .. } = self;
        let failed = match may_follow_from_reads(error.state()) {
            true => txn.commit_reads().map_or_else(of_engine, |_| error),
            false => error,
        };
        drop(held);
        failed
    }

    /// Whether it can go on from a savepoint when a statement has failed.
    pub(crate) fn has_savepoints(&self) -> bool {
        !self.savepoints.is_empty()
    }

    /// Rolls back, as dropping does.
    pub(crate) fn rollback(self) {}
}

/// Whether an error may follow from the rows that a transaction has read, rather than from the session, its client, waiting
/// for others, or the machine.
fn may_follow_from_reads(state: SqlState) -> bool {
    const OTHERS: [&str; 6] = ["08", "40", "53", "55", "57", "58"];
    !OTHERS.contains(&&state.0[..2]) && state != SqlState::DATA_CORRUPTED
}

/// A table was not to be had in time.
pub(crate) fn locked(table: &Table, why: &str) -> SqlError {
    let message = format!("canceling statement due to lock timeout: table \"{}\" is {why}", table.name());
    SqlError::new(SqlState::LOCK_NOT_AVAILABLE, message)
}

/// A table has been changed since the transaction began.
pub(crate) fn changed(name: &str) -> SqlError {
    let message = format!("could not serialize access: table \"{name}\" was changed by a concurrent transaction");
    SqlError::new(SqlState::SERIALIZATION_FAILURE, message).hint("The transaction might succeed if retried.")
}

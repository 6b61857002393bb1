//! Replication slots and the readers of changes that have them, as sessions create and read them.

use std::{collections::BTreeMap, path::Path, sync::Arc, thread, time::Duration};

use super::{Session, SqlDatabase, State, in_failed};
use crate::{
    catalog::{MAIN_DATABASE, definition::ObjectId, relation_files::file_of},
    error::{Result, SqlError, SqlState},
    failure::EngineResult as _,
    level::Level,
    logical::{
        history::{History, Image, ImageChange},
        rewind::rewind,
        slots::{Lease, Slots},
        stream::ChangeStream,
    },
    transaction::ActiveTransaction,
};

/// The interval of looks at a slot that is waited for.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Relation files, by the numbers of the engine's tables.
type RelationFiles = BTreeMap<u32, ObjectId>;

impl SqlDatabase {
    /// Opens the replication slots of the database, once: their files are in a directory of the database's directory.
    ///
    /// # Errors
    /// For files that are damaged or cannot be read, and for slots of a database that does not log keys
    /// ([`ermine::Options::log_keys`]).
    pub fn open_slots(&self, database_directory: &Path) -> Result<()> {
        let slots = Arc::new(Slots::open(database_directory, self.0.database.clone())?);
        // The first ones stay.
        let _ = self.0.catalog.current().sessions.slots.set(slots);
        Ok(())
    }

    /// Gives up replication slots that hold back too much; to be called now and then.
    pub fn look_at_slots(&self) {
        if let Some(slots) = self.0.catalog.current().sessions.slots.get() {
            slots.look();
        }
    }

    /// Sets how many bytes of log a replication slot may hold back; `None`: as many as the device has room for.
    pub fn limit_slots(&self, bytes: Option<u64>) {
        if let Some(slots) = self.0.catalog.current().sessions.slots.get() {
            slots.limit(bytes);
        }
    }
}

impl Session {
    /// Creates a replication slot, with the plugin `pgoutput`; returns the position from which on it has
    /// changes. With `uses_snapshot`, the session's transaction, which
    /// has run nothing yet, sees exactly what committed below the slot's position.
    ///
    /// # Errors
    /// Without the right to replicate, for a name that is taken, where the log has no keys, and for a transaction that
    /// cannot be used.
    pub fn create_slot(&mut self, name: &str, plugin: &str, uses_snapshot: bool) -> Result<u64> {
        let created = self.create_slot_inside(name, plugin, uses_snapshot);
        created.inspect_err(|_| self.fail())
    }

    fn create_slot_inside(&mut self, name: &str, plugin: &str, uses_snapshot: bool) -> Result<u64> {
        self.check_replicates()?;
        let modes = match &self.state {
            State::Block { active: None, modes, .. } if modes.level == Level::RepeatableRead => Some(*modes),
            State::Failed { .. } => return Err(in_failed()),
            _ if uses_snapshot => {
                let what = "must be the first command of a transaction at REPEATABLE READ";
                let message = format!("CREATE_REPLICATION_SLOT ... (SNAPSHOT 'use') {what}");
                return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
            }
            State::Block { .. } => {
                let message = "CREATE_REPLICATION_SLOT cannot run inside a transaction block";
                return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
            }
            _ => None,
        };
        let slots = self.slots()?;
        let lease = slots.reserve(name, plugin)?;
        // The log is kept from here on; the snapshot is behind it.
        let files = self.relation_files();
        let placed = match modes.filter(|_| uses_snapshot) {
            Some(modes) => self.open(modes).and_then(|mut active| {
                let placed = self.place(&lease, &active, files)?;
                active.has_run = true;
                if let State::Block { active: open, .. } = &mut self.state {
                    *open = Some(Box::new(active));
                }
                Ok(placed)
            }),
            None => {
                let mut modes = self.modes();
                (modes.level, modes.read_only, modes.deferrable) = (Level::RepeatableRead, true, false);
                self.open(modes).and_then(|active| self.place(&lease, &active, files))
            }
        };
        if placed.is_err() {
            lease.remove()?;
        }
        placed
    }

    /// Gives a slot the position of a transaction's snapshot, and the definitions that it sees.
    fn place(&self, lease: &Lease, active: &ActiveTransaction, mut files: RelationFiles) -> Result<u64> {
        let position = active.txn.position().sql()?;
        // Those that were dropped in between, and those that were made.
        files.extend(self.relation_files());
        let image = self.image(active, files)?;
        // What the snapshot shows, and the position, have to be durable.
        self.shared.database.sync().sql()?;
        self.shared.database.changes(Some(position)).sql()?;
        lease.place(position, image)?;
        Ok(position)
    }

    /// Returns the relation files that there are, in use or not: a transaction that has not ended may use one.
    fn relation_files(&self) -> RelationFiles {
        let tables = self.shared.database.tables();
        tables.iter().filter_map(|table| Some((table.id.as_u32(), file_of(&table.name)?))).collect()
    }

    /// Returns the definitions that a transaction sees.
    fn image(&self, active: &ActiveTransaction, files: RelationFiles) -> Result<Image> {
        let mut image = Image::default();
        files.into_iter().for_each(|(table, file)| image.apply(ImageChange::File(table, Some(file))));
        for (number, bytes) in self.shared.catalog.stored(&active.txn)? {
            if History::needs(&bytes)? {
                image.apply(ImageChange::Row(number, Some(bytes)));
            }
        }
        Ok(image)
    }

    /// Drops a replication slot that has no reader; `waits`: as soon as it has none.
    pub fn drop_slot(&mut self, name: &str, waits: bool) -> Result<()> {
        let dropped = self.check_replicates().and_then(|()| {
            let slots = self.slots()?;
            loop {
                match slots.drop_slot(name) {
                    Err(error) if waits && error.state() == SqlState::OBJECT_IN_USE => {
                        self.environment.check()?;
                        thread::sleep(LOOK_AGAIN);
                    }
                    dropped => return dropped,
                }
            }
        });
        dropped.inspect_err(|_| self.fail())
    }

    /// Moves a slot that has no reader back to an earlier position, at which a transaction committed, and returns
    /// whether it is there. It stays where it is if the log from there on has been removed, or would be more than a
    /// slot may hold back, and if definitions have changed in between.
    ///
    /// # Errors
    /// Without the right to replicate, and for a slot that does not exist or has a reader.
    pub fn rewind_slot(&mut self, name: &str, position: u64) -> Result<bool> {
        self.check_replicates()?;
        let lease = self.slots()?.acquire(name, self.environment.process)?;
        rewind(&self.shared.database, &lease, self.shared.catalog.table_id().as_u32(), position)
    }

    /// Begins to read a slot.
    ///
    /// # Errors
    /// Without the right to replicate, for a slot that does not exist or has a reader, and in a transaction.
    pub fn stream(&mut self, slot: &str, from: u64, publications: Vec<String>) -> Result<ChangeStream> {
        self.check_replicates()?;
        if !matches!(self.state, State::Idle) {
            let message = "START_REPLICATION cannot run inside a transaction block";
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        let lease = self.slots()?.acquire(slot, self.environment.process)?;
        Ok(ChangeStream::new(SqlDatabase(self.shared.clone()), lease, publications, from))
    }

    /// Fails without the right to read the log.
    pub fn check_replicates(&self) -> Result<()> {
        self.shared.catalog.current().check_replicates(self.environment.role)
    }

    /// Returns the end of the log up to which changes can be read.
    pub fn log_position(&self) -> Result<u64> {
        let database = &self.shared.database;
        database.replayed().map_or_else(|| Ok(database.log_reader(None).sql()?.position()), Ok)
    }

    fn slots(&self) -> Result<Arc<Slots>> {
        if self.shared.database.is_standby() {
            let message = "logical decoding cannot be used while in recovery";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        if self.shared.catalog.number != MAIN_DATABASE {
            return Err(SqlError::unsupported("logical replication from another database than the first one"));
        }
        self.shared.catalog.current().slots()
    }
}

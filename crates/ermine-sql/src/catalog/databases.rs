//! The databases of a server: the first one, and those that CREATE DATABASE has made.
//!
//! All of them are in one database of the engine, with one log, one memory and one catalog table; a database of SQL is
//! a set of schemas whose names are its own. Each has a [`CatalogStore`]. Roles, databases, and rights to and comments on
//! these are definitions of all of them: a change of these is published to every store. A name that no database has is one of the first database, which so serves
//! clients that know nothing of others; a name that a database had is not.
//!
//! Invariants
//! 1. *A store has what all databases share*: it is filled, and shared definitions are published, under one lock
//!    ([`CatalogStore::publishing`]).
//! 2. *No session uses a database that is dropped*: a session is registered before it looks whether its database is
//!    closed, and the statement that drops it closes it before it looks for sessions.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use ermine::{KeyBuffer, OwnedTransaction};

use super::{
    BY_NUMBER, COMMENT, Catalog, CatalogStore, Change, DATABASE_NAME, MAIN_DATABASE, PUBLIC, PUBLICATION_NAME,
    RELATION_NAME, RIGHTS, TYPE_NAME,
    definition::{DatabaseDef, Definition, Grant, ObjectId, TableDef, is_shared_class},
    key_in_schema, key_of, key_of_shared_name, key_of_truncation, not_shown, row_of_definition, sequence, stored,
};
use crate::{
    error::{Result, SqlError, SqlState},
    failure::EngineResult as _,
    storage::{RawKey, RawRange},
};

/// The name of the first database where it is not that of the session.
pub(crate) const MAIN_NAME: &str = "postgres";

/// The error for a database that does not exist.
pub(crate) fn no_database(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_CATALOG_NAME, format!("database \"{name}\" does not exist"))
}

impl Catalog {
    /// Returns the database of a name; `None`: no database besides the first one has it, or had it.
    pub(crate) fn named_database(&self, name: &str) -> Option<&Arc<DatabaseDef>> {
        self.databases.get(name)
    }

    /// Returns the databases besides the first one.
    pub(crate) fn other_databases(&self) -> impl Iterator<Item = &Arc<DatabaseDef>> {
        self.databases.values().filter(|database| !database.is_dropped)
    }

    /// Returns the definition of a database besides the first one.
    pub(crate) fn database(&self, number: ObjectId) -> Option<&Arc<DatabaseDef>> {
        self.other_databases().find(|database| database.id == number)
    }

    /// Returns the numbers and names of all databases, for a session whose database has the name `own`.
    pub(crate) fn database_names<'c>(&'c self, own: &'c str) -> impl Iterator<Item = (ObjectId, &'c str)> {
        // Another database may have been given the name of this session's.
        let is_free = self.databases.get(own).is_none_or(|other| other.is_dropped);
        let main = if self.number == MAIN_DATABASE && is_free { own } else { MAIN_NAME };
        [(MAIN_DATABASE, main)].into_iter().chain(self.other_databases().map(|other| (other.id, &*other.name)))
    }

    /// Returns the number of a database, likewise.
    pub(crate) fn database_number(&self, name: &str, own: &str) -> Option<ObjectId> {
        let found = self.database_names(own).find(|(_, known)| *known == name).map(|(number, _)| number);
        found.or_else(|| (name == MAIN_NAME).then_some(MAIN_DATABASE))
    }

    /// Whether a new database lacks anything that it has.
    pub(crate) fn has_objects(&self) -> bool {
        let relations = !self.tables.is_empty() || !self.views.is_empty() || !self.sequences.is_empty();
        let schemas = self.schemas.len() != 1 || !self.schemas.contains_key(PUBLIC);
        let rights = self.rights.keys().any(|(class, _)| !is_shared_class(*class)) || !self.default_rights.is_empty();
        let comments = self.comments.values().any(|comment| !is_shared_class(comment.class));
        relations || schemas || rights || comments || !self.types.all().is_empty() || !self.publications.is_empty()
    }

    /// Returns how many of the database's own objects belong to a role, or give it rights.
    pub(crate) fn count_uses(&self, role: ObjectId) -> usize {
        let concerns = |list: &[Grant]| list.iter().any(|grant| grant.role == role || grant.grantor == role);
        let own = self.rights.values().filter(|rights| !is_shared_class(rights.class));
        let rights = own.filter(|rights| {
            let granted = rights.granted.as_deref().is_some_and(concerns);
            rights.owner == role || granted || rights.columns.iter().any(|(_, list)| concerns(list))
        });
        let entries = self.default_rights.values().flat_map(|of| of.entries.iter().map(|entry| (of.role, entry)));
        let defaults = entries.filter(|(of, entry)| *of == role || concerns(&entry.granted));
        let policies = self.row_security.values().flat_map(|security| &security.policies);
        let policies = policies.filter(|policy| policy.roles.contains(&role));
        rights.count() + defaults.count() + policies.count()
    }

    /// Returns the catalog of another database, without objects of its own.
    fn of_other(&self, number: ObjectId) -> Self {
        let comments = self.comments.iter().filter(|(_, comment)| is_shared_class(comment.class));
        let rights = self.rights.iter().filter(|((class, _), _)| is_shared_class(*class));
        Self {
            databases: self.databases.clone(),
            roles: self.roles.clone(),
            traits: self.traits.clone(),
            comments: comments.map(|(id, comment)| (*id, comment.clone())).collect(),
            rights: rights.map(|(object, rights)| (*object, rights.clone())).collect(),
            sessions: self.sessions.clone(),
            ..Self::of(number)
        }
    }
}

impl CatalogStore {
    /// Returns the store of the first database.
    pub(super) fn first(&self) -> Arc<Self> {
        self.first.upgrade().expect("the sessions of a database keep the first one")
    }

    /// Locks what all databases share; called for the first one's store.
    pub(super) fn publishing(&self) -> MutexGuard<'_, ()> {
        self.publishing.lock().expect("no code panics while it publishes")
    }

    /// Makes the store of another database, with its own definitions; called for the first one's.
    pub(super) fn fill(self: &Arc<Self>, number: ObjectId, definitions: Vec<Definition>) -> Result<()> {
        let store = Arc::new(Self {
            number,
            first: Arc::downgrade(self),
            others: Mutex::default(),
            publishing: Mutex::default(),
            are_names_required: AtomicBool::default(),
            is_closed: AtomicBool::default(),
            database: self.database.clone(),
            rows: self.rows.clone(),
            current: RwLock::default(),
            version: AtomicU64::default(),
            numbers: Mutex::default(),
            relation_files: self.relation_files.clone(),
            row_queues: self.row_queues.clone(),
            secret: self.secret,
            gate: self.gate.clone(),
        });
        let changes = store.changes_to(definitions)?;
        let _one = self.publishing();
        store.show(store.opened(&self.current().of_other(number), &changes)?);
        self.others().insert(number, store);
        Ok(())
    }

    pub(super) fn others(&self) -> MutexGuard<'_, BTreeMap<ObjectId, Arc<Self>>> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the store of a database; `None`: it is gone, or not yet there.
    pub(crate) fn of_database(&self, number: ObjectId) -> Option<Arc<Self>> {
        let first = self.first();
        if number == MAIN_DATABASE { Some(first) } else { first.others().get(&number).cloned() }
    }

    /// Returns the stores of all databases.
    pub(crate) fn all_databases(&self) -> Vec<Arc<Self>> {
        let first = self.first();
        let others: Vec<_> = first.others().values().cloned().collect();
        [first].into_iter().chain(others).collect()
    }

    /// Returns the store of the database that a name stands for.
    ///
    /// # Errors
    /// 3D000.
    pub(crate) fn named(&self, name: &str) -> Result<Arc<Self>> {
        let first = self.first();
        let number = match first.current().named_database(name) {
            None if name != MAIN_NAME && first.are_names_required.load(Ordering::Relaxed) => {
                let hint = format!("CREATE DATABASE, run in the database \"{MAIN_NAME}\", makes one.");
                return Err(no_database(name).hint(hint));
            }
            None => return Ok(first),
            Some(database) if database.is_dropped => return Err(no_database(name)),
            Some(database) => database.id,
        };
        first.of_database(number).ok_or_else(|| no_database(name))
    }

    /// Sets whether a name that no database has is refused.
    pub(crate) fn require_names(&self, are_required: bool) {
        // Relaxed: a setting.
        self.first().are_names_required.store(are_required, Ordering::Relaxed);
    }

    /// Refuses sessions from now on; returns false if another statement does so already.
    pub(crate) fn close(&self) -> bool {
        !self.is_closed.swap(true, Ordering::SeqCst)
    }

    /// Admits sessions again.
    pub(crate) fn open_again(&self) {
        self.is_closed.store(false, Ordering::SeqCst);
    }

    /// Whether sessions are refused: the database is being dropped.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// Takes the name of a database, or releases it, as [`CatalogStore::take_name`] does.
    pub(crate) fn take_database_name(&self, txn: &OwnedTransaction, name: &str, is_taken: bool) -> Result<()> {
        self.take_key(txn, &key_of_shared_name(DATABASE_NAME, name), name, is_taken)
    }

    /// Fails if a database that the transaction changes was changed by another one, whose change may not be published
    /// yet, as [`CatalogStore::check_sequence`] does.
    pub(crate) fn check_database(&self, txn: &OwnedTransaction, known: &DatabaseDef) -> Result<()> {
        let stored = txn.get(&self.rows, &key_of(known.id)[..]).sql()?;
        match stored.and_then(|bytes| stored::decode(&bytes).ok()) {
            Some((_, Definition::Database(stored))) if stored == *known => Ok(()),
            _ => Err(not_shown(&known.name)),
        }
    }

    /// Makes sure that a database that gets rights, an owner or a comment stays, as [`CatalogStore::use_role`] does.
    pub(crate) fn use_database(&self, txn: &OwnedTransaction, known: &DatabaseDef, reads_count: bool) -> Result<()> {
        let key = key_of(known.id);
        match txn.get(&self.rows, &key[..]).sql()? {
            Some(bytes) if stored::decode(&bytes)?.1 == Definition::Database(known.clone()) => match reads_count {
                true => Ok(()),
                false => txn.update(&self.rows, &key[..], &bytes[..]).map(drop).sql(),
            },
            _ => Err(not_shown(&known.name)),
        }
    }

    /// Writes the definitions that a new database begins with, in a transaction of any other one.
    pub(crate) fn write_new_database(&self, txn: &OwnedTransaction, number: ObjectId) -> Result<Definition> {
        let Change::Put(public) = self.write_public(txn, number, self.number()?)? else { unreachable!("it is new") };
        let key = key_in_schema(number, RELATION_NAME, "", PUBLIC);
        txn.insert(&self.rows, &key[..], &[][..]).sql()?;
        Ok(public)
    }

    /// Called when the transaction that made a database has committed.
    pub(crate) fn is_created(&self, number: ObjectId, public: Definition) -> Result<()> {
        self.first().fill(number, vec![public])
    }

    /// Deletes all definitions of the database, in a transaction of another one; returns its relation files, which
    /// become free when that has committed.
    pub(crate) fn write_dropped_database(&self, txn: &OwnedTransaction) -> Result<Vec<ObjectId>> {
        let mut files = Vec::new();
        for (number, bytes) in self.stored(txn)? {
            let (database, definition) = stored::decode(&bytes)?;
            if database != self.number {
                continue;
            }
            txn.delete(&self.rows, &key_of(number)[..]).sql()?;
            match definition {
                Definition::Table(def) => {
                    txn.delete(&self.rows, &key_of_truncation(def.id)[..]).sql()?;
                    files.extend(TableDef::relation_files(&def));
                }
                Definition::Sequence(def) => sequence::forget_stored(txn, def.id)?,
                _ => {}
            }
        }
        for kind in [RELATION_NAME, TYPE_NAME, COMMENT, RIGHTS, PUBLICATION_NAME] {
            let rows = txn.scan(&self.rows, RawRange::prefix(self.key(kind))).collect().sql()?;
            rows.iter().try_for_each(|(RawKey(key), _)| txn.delete(&self.rows, &key[..]).map(drop)).sql()?;
        }
        files.iter().try_for_each(|file| self.relation_files.write_dropped(txn, *file))?;
        Ok(files)
    }

    /// Called when the transaction that dropped the database has committed.
    pub(crate) fn is_dropped(&self, files: Vec<ObjectId>) {
        self.first().others().remove(&self.number);
        files.into_iter().for_each(|file| self.relation_files.dropped(file));
    }

    /// Describes names of databases that are taken but unused, or used but not taken, and definitions of databases that
    /// are not there.
    pub(crate) fn database_disagreements(&self) -> Result<Vec<String>> {
        let current = self.first().current();
        let prefix = RawRange::prefix(KeyBuffer::from_slice(&[DATABASE_NAME]));
        let rows = self.database.run(|txn| txn.scan(&self.rows, prefix.clone()).collect()).sql()?;
        let taken: BTreeSet<_> =
            rows.iter().map(|(RawKey(key), _)| String::from_utf8_lossy(&key[1..]).into_owned()).collect();
        let known = current.databases.keys().cloned().collect();
        let names = taken.symmetric_difference(&known).map(|name| format!("the name of database {name}"));
        let mut found: Vec<_> = names.collect();
        let lost = current.other_databases().filter(|database| self.of_database(database.id).is_none());
        found.extend(lost.map(|database| format!("database {} has no catalog", database.name)));
        let all = RawRange::prefix(KeyBuffer::from_slice(&[BY_NUMBER]));
        for (RawKey(key), bytes) in self.database.run(|txn| txn.scan(&self.rows, all.clone()).collect()).sql()? {
            let (database, definition) = stored::decode(&bytes)?;
            if database != MAIN_DATABASE && current.database(database).is_none() {
                let number = row_of_definition(&key).unwrap_or_default();
                found.push(format!("definition {number} of database {database}, which is not there: {definition:?}"));
            }
        }
        Ok(found)
    }
}

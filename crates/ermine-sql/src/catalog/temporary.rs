//! The temporary objects of a session: tables, sequences and views of its schema `pg_temp_N`, which no other session
//! sees and no file has. Their rows are in tables of the engine that are in memory only; their definitions are here.
//!
//! A session sees the catalog of all sessions with its own objects added ([`Temporary::over`]). A transaction that
//! creates, changes or drops some has them in its own catalog, as it has all objects; they come here when it has
//! committed ([`Temporary::publish`]).
//!
//! Invariants
//! 1. *Nothing of them is stored*: [`Catalog::split`] separates their changes from those that are written down. What
//!    belongs to a temporary object (its owner, a comment, a foreign key) is temporary, too, and no object that stays
//!    refers to one.
//! 2. *Plans are made for one state*: a catalog has the number of the state of the session's objects, besides its
//!    version.
//! 3. *Each relation file is dropped once no definition has it*: when the transaction has committed that dropped it,
//!    when the one that created it has not committed ([`NewFiles`]), or when the session ends.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
};

use ermine::Database;

use super::{
    Catalog, Change,
    definition::{Definition, ObjectId, TableDef},
    relation_files::engine_name,
    sequence,
};
use crate::error::Result;

/// The name by which a session calls its own schema.
const OWN: &str = "pg_temp";
const PREFIX: &str = "pg_temp_";

/// Whether the objects of a schema are temporary.
pub(crate) fn is_temporary(schema: &str) -> bool {
    schema.starts_with(PREFIX) || schema == OWN
}

/// The end of a transaction, for a temporary table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OnCommit {
    DeleteRows,
    Drop,
}

/// The temporary objects of a session.
pub(crate) struct Temporary {
    database: Arc<Database>,
    state: Mutex<State>,
    /// The number of the state; 0: there are no objects.
    number: AtomicU64,
}

#[derive(Default)]
struct State {
    /// By the number of their rows, if they had any.
    definitions: BTreeMap<ObjectId, Definition>,
    on_commit: BTreeMap<ObjectId, OnCommit>,
    /// The number of changes.
    changes: u64,
    /// The objects over a catalog, as the session has seen them last.
    seen: Option<Arc<Catalog>>,
}

impl Temporary {
    pub(crate) fn new(database: Arc<Database>) -> Self {
        Self { database, state: Mutex::default(), number: AtomicU64::new(0) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no code panics while it holds the temporary objects")
    }

    /// The number of the state of the objects.
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        // Relaxed: the session's own.
        self.number.load(Ordering::Relaxed)
    }

    /// Returns a catalog with the objects.
    pub(crate) fn over(&self, base: Arc<Catalog>) -> Result<Arc<Catalog>> {
        if self.number() == 0 {
            return Ok(base);
        }
        let mut state = self.state();
        if let Some(seen) = &state.seen
            && (seen.version, seen.temporary) == (base.version, self.number())
        {
            return Ok(seen.clone());
        }
        let changes: Vec<_> = state.definitions.values().cloned().map(Change::Put).collect();
        let known = state.seen.clone();
        let shared = |id| known.as_ref().and_then(|known| known.shared(id).cloned());
        let mut over = base.changed(&self.database, &changes, &shared, known.as_deref())?;
        (over.version, over.temporary) = (base.version, self.number());
        let over = Arc::new(over);
        state.seen = Some(over.clone());
        Ok(over)
    }

    /// Takes over the changes of a transaction that has committed; `own`: the catalog as it knew it.
    pub(crate) fn publish(&self, changes: &[Change], on_commit: &[(ObjectId, OnCommit)], own: Arc<Catalog>) {
        let mut state = self.state();
        let before = state.files();
        for change in changes {
            match change {
                Change::Put(definition) => _ = state.definitions.insert(definition.row(), definition.clone()),
                Change::Drop(definition) => {
                    state.definitions.remove(&definition.row());
                    if let Definition::Sequence(def) = definition {
                        sequence::forget(&self.database, def.id);
                    }
                }
            }
        }
        state.on_commit.extend(on_commit.iter().copied());
        let State { definitions, on_commit, .. } = &mut *state;
        on_commit.retain(|id, _| definitions.contains_key(id));
        state.changes += 1;
        state.seen = Some(own);
        let number = if state.definitions.is_empty() { 0 } else { state.changes };
        self.number.store(number, Ordering::Relaxed);
        let after = state.files();
        drop(state);
        drop_files(&self.database, before.difference(&after).copied());
    }

    /// The tables that the end of a transaction concerns.
    pub(crate) fn on_commit(&self) -> Vec<(ObjectId, OnCommit)> {
        if self.number() == 0 {
            return Vec::new();
        }
        self.state().on_commit.iter().map(|(id, what)| (*id, *what)).collect()
    }

    /// Drops everything. No transaction of the session is open.
    pub(crate) fn clear(&self) {
        let state = std::mem::take(&mut *self.state());
        self.number.store(0, Ordering::Relaxed);
        self.state().changes = state.changes;
        drop_files(&self.database, state.files());
        for definition in state.definitions.values() {
            if let Definition::Sequence(def) = definition {
                sequence::forget(&self.database, def.id);
            }
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        self.clear();
    }
}

impl State {
    fn files(&self) -> BTreeSet<ObjectId> {
        let tables = self.definitions.values().filter_map(|definition| match definition {
            Definition::Table(def) => Some(def),
            _ => None,
        });
        tables.flat_map(TableDef::relation_files).collect()
    }
}

/// Drops tables of the engine in which no transaction is interested any more.
fn drop_files(database: &Database, files: impl IntoIterator<Item = ObjectId>) {
    // In memory only: nothing can fail but the name.
    files.into_iter().for_each(|file| drop(database.drop_table(&engine_name(file))));
}

/// The relation files that a transaction has created for temporary tables. They are dropped, unless they are kept.
pub(crate) struct NewFiles {
    database: Arc<Database>,
    files: BTreeSet<ObjectId>,
}

impl NewFiles {
    pub(crate) fn new(database: Arc<Database>) -> Self {
        Self { database, files: BTreeSet::new() }
    }

    pub(crate) fn add(&mut self, file: ObjectId) {
        self.files.insert(file);
    }

    /// Keeps those that a catalog has.
    pub(crate) fn keep(mut self, catalog: &Catalog) {
        let tables = catalog.temporary_ids.iter().filter_map(|id| catalog.table(*id));
        tables.flat_map(|table| table.def.relation_files()).for_each(|file| _ = self.files.remove(&file));
    }
}

impl Drop for NewFiles {
    fn drop(&mut self) {
        drop_files(&self.database, std::mem::take(&mut self.files));
    }
}

impl Catalog {
    /// Returns the name of the session's schema of temporary objects, if it has one.
    pub(crate) fn temporary_schema(&self) -> Option<&str> {
        self.temporary_schema.as_deref()
    }

    /// Returns the schemas in which a relation is looked for, in order: the one of temporary objects is the first,
    /// unless the search path names it.
    pub(crate) fn schemas_of<'s, S: AsRef<str>>(&'s self, search_path: &'s [S]) -> impl Iterator<Item = &'s str> {
        let own = self.temporary_schema().filter(|_| !search_path.iter().any(|schema| is_temporary(schema.as_ref())));
        own.into_iter().chain(search_path.iter().map(|schema| self.own_schema(schema.as_ref())))
    }

    /// Returns the name that a schema has in definitions.
    pub(super) fn own_schema<'n>(&'n self, schema: &'n str) -> &'n str {
        if schema == OWN { self.temporary_schema().unwrap_or(schema) } else { schema }
    }

    /// Whether an object is temporary; also one that the transaction has dropped.
    pub(crate) fn is_temporary(&self, id: ObjectId) -> bool {
        self.temporary_ids.contains(&id)
    }

    /// Notes the number of a temporary object.
    pub(super) fn note_temporary(&mut self, definition: &Definition) {
        let mut note = |schema: &str, ids: &mut dyn Iterator<Item = ObjectId>| {
            if is_temporary(schema) {
                self.temporary_ids.extend(ids);
            }
        };
        match definition {
            Definition::Schema(def) => {
                note(&def.name, &mut [def.id].into_iter());
                if is_temporary(&def.name) {
                    self.temporary_schema = Some((*def.name).into());
                }
            }
            Definition::Table(def) => {
                let keys = def.primary_key.iter().map(|key| key.id);
                note(&def.schema, &mut [def.id].into_iter().chain(keys).chain(def.indexes.iter().map(|at| at.id)));
            }
            Definition::Sequence(def) => note(&def.schema, &mut [def.id].into_iter()),
            Definition::View(def) => note(&def.schema, &mut [def.id].into_iter()),
            Definition::ForeignKey(def) if self.is_temporary(def.child) => _ = self.temporary_ids.insert(def.id),
            Definition::RowSecurity(def) if self.is_temporary(def.table) => _ = self.temporary_ids.insert(def.id),
            _ => {}
        }
    }

    /// Separates changes of temporary objects from others, which come first in the result. `self` has the objects after
    /// the changes.
    pub(crate) fn split(&self, changes: &[Change]) -> (Vec<Change>, Vec<Change>) {
        changes.iter().cloned().partition(|change| !match change.definition() {
            Definition::Comment(def) => self.is_temporary(def.object),
            Definition::Rights(def) => self.is_temporary(def.object),
            other => self.is_temporary(other.id()),
        })
    }
}

/// Makes the name of a new session's schema.
pub(crate) fn new_schema() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("{PREFIX}{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

//! Schemas, tables, indexes, sequences, roles and types: rows of a table of the engine, and their state in memory.
//!
//! ```text
//!   engine table "sql catalog"                       in memory
//!   0                      next number               Arc<Catalog>: all objects as of the last change
//!   1 schema 00 name   ->  number of the object        Arc<Table>: definition, handles of the engine's tables, latch
//!   2 number of row    ->  definition                  Arc<View>: definition, latch
//!   3 relation file    ->  dropped or free             Arc<Sequence>
//!   4 name             ->  (nothing): a role has it    Arc<RoleDef>, Arc<UserTypes>
//!   5                  ->  secret of unknown roles
//!   6 schema 00 name   ->  (nothing): a type has it
//!   7 object           ->  (nothing): it has a comment
//!   8 class object     ->  number of the row with its owner and rights, or of a role's attributes
//!   9 name             ->  (nothing): a publication has it
//!   11 name            ->  (nothing): a database has it
//! ```
//!
//! There are other databases than the first one (`databases`): each has a `CatalogStore`. Their rows 1, 6 to 9 have a
//! key of their own ([`CatalogStore::key`]), their definitions name their database, and numbers belong to all of them.
//!
//! A statement is bound against one `Catalog`. A change makes a new one, which other sessions get when the transaction
//! that made it has committed. That transaction itself sees its changes at once ([`Catalog::with`]).
//!
//! Invariants
//! 1. *A transaction that uses a table or a view knows its current definition*: it shares the latch from its first use
//!    to its end, and checks, once it has the latch, that its definition is still the newest. A change of a view has the
//!    latch alone. A change of a table either has it alone, or changes nothing that transactions using the table already
//!    rely on, and outlasts them before any transaction relies on the change (`latch`, [`definition::Unfinished`]).
//! 2. *A published change lasts*: other sessions see a change only when it is durable. A transaction that only reads a
//!    table would not wait for its definition to become durable.
//! 3. *Numbers are never reused*: transactions of their own allocate them before any object has them. The numbers of
//!    relation files are reused, once these are empty (`relation_files`).

pub(crate) mod advisory;
pub(crate) mod comments;
pub(crate) mod conflicts;
pub(crate) mod databases;
pub(crate) mod default_rights;
pub(crate) mod definition;
mod described;
pub(crate) mod footprint;
pub(crate) mod grants;
pub(crate) mod hot_conflicts;
pub(crate) mod latch;
pub(crate) mod notifications;
pub(crate) mod progress;
pub(crate) mod publication;
pub(crate) mod relation_files;
pub(crate) mod rights;
mod rights_store;
pub(crate) mod roles;
pub(crate) mod row_queues;
pub(crate) mod row_security;
pub(crate) mod sequence;
pub(crate) mod sessions;
mod standby;
pub(crate) mod statement_uses;
mod stored;
pub(crate) mod temporary;
pub(crate) mod uses;
pub(crate) mod wait_event;
pub(crate) mod waits;

pub(crate) use self::stored::decode as stored_definition;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{
        Arc, Mutex, RwLock, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use ermine::{Database, KeyBuffer, OwnedTransaction, TableId, TableOptions, Tid, TxnOptions};
use ring::rand::{SecureRandom as _, SystemRandom};
use rpds::HashTrieMapSync;

use self::{
    default_rights::DefaultRightsDef,
    definition::{
        CommentDef, DatabaseDef, Definition, FIRST_OBJECT, ForeignKeyDef, ObjectId, RightsDef, RoleDef, SchemaDef,
        SequenceDef, TableDef, TraitsDef, ViewDef, is_shared_class,
    },
    footprint::Footprint,
    latch::Latch,
    publication::PublicationDef,
    relation_files::RelationFiles,
    row_queues::RowQueues,
    row_security::RowSecurityDef,
    sequence::Sequence,
    sessions::{Party, Sessions},
    standby::Gate,
    temporary::{Temporary, is_temporary},
    uses::{Sharded, TableUse},
};
use crate::{
    error::{Result, SqlError, SqlState},
    failure::EngineResult as _,
    storage::{RawKey, RawRange, RawTable},
    types::{
        SqlType,
        user_types::{UserType, UserTypes},
    },
};

/// The schema that exists from the beginning.
pub(crate) const PUBLIC: &str = "public";
/// The number of the first database, which always exists.
pub(crate) const MAIN_DATABASE: ObjectId = 5;

/// An open table.
pub(crate) struct Table {
    pub(crate) def: TableDef,
    pub(crate) types: Vec<SqlType>,
    pub(crate) rows: RawTable,
    /// The engine's tables of the indexes, in the order of the definition.
    pub(crate) indexes: Vec<RawTable>,
    pub(crate) shared: Arc<SharedTable>,
}

/// A view.
pub(crate) struct View {
    pub(crate) def: ViewDef,
    pub(crate) shared: Arc<SharedTable>,
}

/// The state that all definitions of a table, or of a view, share.
pub(crate) struct SharedTable {
    /// The number of the table or view.
    pub(crate) id: ObjectId,
    pub(crate) latch: Latch,
    /// The version of the catalog that introduced the newest definition.
    pub(crate) changed: AtomicU64,
    /// The next number of a row, where the table has no primary key.
    next_row: AtomicU64,
    pub(crate) uses: Sharded<TableUse>,
}

/// All objects at one point in time.
#[derive(Clone)]
pub(crate) struct Catalog {
    /// Increases with every change.
    pub(crate) version: u64,
    /// The number of the database.
    pub(crate) number: ObjectId,
    /// The databases besides the first one, and those that were dropped, by name.
    databases: BTreeMap<String, Arc<DatabaseDef>>,
    schemas: BTreeMap<String, ObjectId>,
    /// The numbers of relations by name, for each schema. Each definition makes a new catalog: names that stay are
    /// shared with the one before.
    names: HashMap<String, HashTrieMapSync<String, ObjectId>>,
    tables: HashMap<ObjectId, Arc<Table>>,
    sequences: HashMap<ObjectId, Arc<Sequence>>,
    roles: BTreeMap<String, Arc<RoleDef>>,
    foreign_keys: BTreeMap<ObjectId, Arc<ForeignKeyDef>>,
    /// The types that statements have created.
    pub(crate) types: Arc<UserTypes>,
    comments: BTreeMap<ObjectId, Arc<CommentDef>>,
    /// By class and number of the object.
    rights: BTreeMap<(u32, ObjectId), Arc<RightsDef>>,
    /// By role.
    traits: BTreeMap<ObjectId, Arc<TraitsDef>>,
    /// Materialized ones are among the tables, too.
    views: BTreeMap<ObjectId, Arc<View>>,
    /// By role.
    default_rights: BTreeMap<ObjectId, Arc<DefaultRightsDef>>,
    /// By table.
    row_security: BTreeMap<ObjectId, Arc<RowSecurityDef>>,
    publications: BTreeMap<ObjectId, Arc<PublicationDef>>,
    /// Published tables whose rows the transaction has written anew.
    rewritten: BTreeSet<ObjectId>,
    /// The number of the state of the session's temporary objects; 0: it has none.
    pub(crate) temporary: u64,
    temporary_schema: Option<Arc<str>>,
    /// The numbers of temporary objects.
    temporary_ids: BTreeSet<ObjectId>,
    /// The current sessions: the same for all catalogs of a database.
    pub(crate) sessions: Arc<Sessions>,
    /// The engine, which knows how many rows the tables have.
    database: Option<Arc<Database>>,
}

impl Default for Catalog {
    fn default() -> Self {
        Self::of(MAIN_DATABASE)
    }
}

/// The object that a relation's name stands for.
#[derive(Clone)]
pub(crate) enum Relation {
    Table(Arc<Table>),
    View(Arc<View>),
    Sequence(Arc<Sequence>),
    /// An index of a table, and its place there; `None`: the primary key.
    Index(Arc<Table>, Option<usize>),
}

/// A change of one object.
#[derive(Clone)]
pub(crate) enum Change {
    Put(Definition),
    Drop(Definition),
}

impl Change {
    fn definition(&self) -> &Definition {
        let (Self::Put(definition) | Self::Drop(definition)) = self;
        definition
    }

    /// The tables and views whose users must know the change from the one catalog to the other. A new view concerns what
    /// it refers to: a transaction that drops one of those without knowing the view finds that it is outdated.
    fn relations(&self, before: &Catalog, after: &Catalog) -> Vec<ObjectId> {
        match self {
            Self::Put(Definition::ForeignKey(key)) | Self::Drop(Definition::ForeignKey(key)) => {
                vec![key.child, key.parent]
            }
            Self::Put(Definition::View(view)) => {
                view.relations.iter().map(|relation| relation.id).chain([view.id]).collect()
            }
            Self::Put(Definition::RowSecurity(security)) | Self::Drop(Definition::RowSecurity(security)) => {
                security.relations()
            }
            Self::Put(Definition::Table(TableDef { id, materialized: Some(part), .. }))
                if before.table(*id).is_none() =>
            {
                part.relations.iter().map(|relation| relation.id).chain([*id]).collect()
            }
            // Another table uses it.
            Self::Put(Definition::Type(ty)) if before.types.get(ty.oid).is_some_and(|known| known.means_same(ty)) => {
                Vec::new()
            }
            Self::Put(Definition::Type(ty)) | Self::Drop(Definition::Type(ty)) => {
                before.tables_with(ty).chain(after.tables_with(ty)).map(|table| table.def.id).collect()
            }
            other => vec![other.definition().id()],
        }
    }

    /// The table after the change, if the object is one.
    pub(crate) fn table_after(&self) -> Option<&TableDef> {
        match self {
            Self::Put(Definition::Table(def)) => Some(def),
            _ => None,
        }
    }
}

/// The catalog of a database.
pub(crate) struct CatalogStore {
    /// The number of the database.
    pub(crate) number: ObjectId,
    /// The first database's store, which refers to itself; the sessions of other databases keep it.
    first: Weak<CatalogStore>,
    /// The stores of the other databases that were used (`databases`); in the first one's only.
    others: Mutex<BTreeMap<ObjectId, Arc<CatalogStore>>>,
    /// Whether a name that no database has is refused; in the first one's only.
    are_names_required: AtomicBool,
    /// Whether sessions are refused (`databases`).
    is_closed: AtomicBool,
    /// Locked while what all databases share is published; in the first one's only.
    publishing: Mutex<()>,
    database: Arc<Database>,
    rows: RawTable,
    current: RwLock<Arc<Catalog>>,
    /// The version of `current`.
    version: AtomicU64,
    numbers: Mutex<()>,
    pub(crate) relation_files: Arc<RelationFiles>,
    pub(crate) row_queues: Arc<RowQueues>,
    /// Persistent random bytes, from which the salts of unknown roles are derived.
    pub(crate) secret: [u8; SECRET_LENGTH],
    /// Of a standby; all databases have the same.
    gate: Option<Arc<Gate>>,
}

const NEXT: u8 = 0;
const RELATION_NAME: u8 = 1;
const BY_NUMBER: u8 = 2;
const ROLE: u8 = 4;
const SECRET: u8 = 5;
const TYPE_NAME: u8 = 6;
const COMMENT: u8 = 7;
const RIGHTS: u8 = 8;
const PUBLICATION_NAME: u8 = 9;
const TRUNCATED: u8 = 10;
const DATABASE_NAME: u8 = 11;
/// What the first byte of a key has besides, where the number of another database than the first one follows.
const OF_DATABASE: u8 = 0x80;
const SECRET_LENGTH: usize = 32;

/// Returns the options of a short transaction in the middle of a statement's, which may run alone.
pub(crate) fn inside() -> TxnOptions {
    let mut options = TxnOptions::default();
    options.inside = true;
    options
}

fn key_of(number: ObjectId) -> KeyBuffer {
    let mut key = KeyBuffer::from_slice(&[BY_NUMBER]);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// Returns the number of the definition that a row of the catalog's table has, if it has one.
pub(crate) fn row_of_definition(key: &[u8]) -> Option<ObjectId> {
    let (&BY_NUMBER, number) = key.split_first()? else { return None };
    number.try_into().ok().map(u32::from_be_bytes)
}

fn key_of_truncation(table: ObjectId) -> KeyBuffer {
    let mut key = KeyBuffer::from_slice(&[TRUNCATED]);
    key.extend_from_slice(&table.to_be_bytes());
    key
}

/// Returns the table whose truncation a row of the catalog's table notes, if it does.
pub(crate) fn table_of_truncation(key: &[u8]) -> Option<ObjectId> {
    let (&TRUNCATED, number) = key.split_first()? else { return None };
    number.try_into().ok().map(u32::from_be_bytes)
}

/// The key of the name of a role or a database, likewise.
fn key_of_shared_name(kind: u8, name: &str) -> KeyBuffer {
    let mut key = KeyBuffer::from_slice(&[kind]);
    key.extend_from_slice(name.as_bytes());
    key
}

/// The beginning of the keys of a kind that a database has for itself.
fn key_of_database(number: ObjectId, kind: u8) -> KeyBuffer {
    if number == MAIN_DATABASE {
        return KeyBuffer::from_slice(&[kind]);
    }
    let mut key = KeyBuffer::from_slice(&[kind | OF_DATABASE]);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// The key of a name in a schema.
fn key_in_schema(database: ObjectId, kind: u8, schema: &str, name: &str) -> KeyBuffer {
    let mut key = key_of_database(database, kind);
    key.extend_from_slice(schema.as_bytes());
    key.push(0);
    key.extend_from_slice(name.as_bytes());
    key
}

impl CatalogStore {
    /// The beginning of the keys of a kind.
    fn key(&self, kind: u8) -> KeyBuffer {
        key_of_database(self.number, kind)
    }

    /// The key of a relation's name. Two transactions cannot create the same name: both write this row.
    fn key_of_name(&self, schema: &str, name: &str) -> KeyBuffer {
        key_in_schema(self.number, RELATION_NAME, schema, name)
    }

    /// The key of a type's name, likewise.
    fn key_of_type_name(&self, schema: &str, name: &str) -> KeyBuffer {
        key_in_schema(self.number, TYPE_NAME, schema, name)
    }

    /// The key of a comment's object, likewise.
    fn key_of_comment(&self, comment: &CommentDef) -> KeyBuffer {
        let is_shared = is_shared_class(comment.class);
        let mut key = key_of_database(if is_shared { MAIN_DATABASE } else { self.number }, COMMENT);
        for number in [comment.class, comment.object, comment.column as u32] {
            key.extend_from_slice(&number.to_be_bytes());
        }
        key.extend_from_slice(comment.check.as_bytes());
        key
    }

    /// Returns what makes a footprint a party to waits.
    pub(crate) fn party(&self, footprint: Arc<Footprint>) -> Arc<Party> {
        let (waits, queues) = (self.current().sessions.waits.clone(), self.row_queues.clone());
        let temporary = Temporary::new(self.database.clone());
        Arc::new(Party { footprint, waits, queues, temporary, seen: AtomicU64::new(0) })
    }

    /// Reads the catalog of the first database.
    pub(crate) fn open(database: Arc<Database>) -> Result<Arc<Self>> {
        let rows: RawTable = database.table_with("sql catalog", TableOptions::default().essential()).sql()?;
        let relation_files = Arc::new(RelationFiles::open(&database, &rows)?);
        let secret = secret(&database, &rows)?;
        let gate = database.is_standby().then(Arc::default);
        let row_queues = RowQueues::new(database.clone());
        let store = Arc::new_cyclic(|first| Self {
            number: MAIN_DATABASE,
            first: first.clone(),
            others: Mutex::default(),
            publishing: Mutex::default(),
            are_names_required: AtomicBool::default(),
            is_closed: AtomicBool::default(),
            database,
            rows,
            current: RwLock::default(),
            version: AtomicU64::default(),
            numbers: Mutex::default(),
            relation_files,
            row_queues,
            secret,
            gate,
        });
        let mut definitions = store.definitions()?;
        let own = store.changes_to(definitions.remove(&MAIN_DATABASE).unwrap_or_default())?;
        let mut catalog = Catalog::of(MAIN_DATABASE);
        if own.is_empty() && !store.is_standby() {
            let number = store.number()?;
            let txn = store.database.begin_owned(Default::default()).sql()?;
            let public = store.write_public(&txn, MAIN_DATABASE, number)?;
            txn.commit().sql()?;
            catalog = catalog.with(&store.database, &[public])?;
        }
        let catalog = store.opened(&catalog, &own)?;
        if catalog.schema(PUBLIC).is_some() && !store.is_standby() {
            store.keep_name_of_public()?;
        }
        store.show(catalog);
        // Also those without definitions.
        let others: Vec<_> = store.current().other_databases().map(|database| database.id).collect();
        for number in others {
            store.fill(number, definitions.remove(&number).unwrap_or_default())?;
        }
        Ok(store)
    }

    /// Returns the stored definitions of each database; those of the first one include what all share.
    fn definitions(&self) -> Result<BTreeMap<ObjectId, Vec<Definition>>> {
        let all = RawRange::prefix(KeyBuffer::from_slice(&[BY_NUMBER]));
        let stored = self.database.run(|txn| txn.scan(&self.rows, all.clone()).collect());
        let mut definitions = BTreeMap::<_, Vec<_>>::new();
        for (_, bytes) in stored.sql()? {
            let (database, definition) = stored::decode(&bytes)?;
            definitions.entry(database).or_default().push(definition);
        }
        Ok(definitions)
    }

    /// Returns a catalog with stored definitions. On a standby, tables draw no numbers for rows.
    fn opened(&self, catalog: &Catalog, stored: &[Change]) -> Result<Catalog> {
        match self.is_standby() {
            true => catalog.with_own(&self.database, stored),
            false => catalog.with(&self.database, stored),
        }
    }

    /// Returns the changes that make stored definitions of the database, without what is unfinished. On a standby it
    /// stays: the original goes on with it.
    fn changes_to(&self, definitions: Vec<Definition>) -> Result<Vec<Change>> {
        let finished = |mut definition| {
            if let Definition::Table(def) = &mut definition
                && def.unfinished.is_some()
                && !self.is_standby()
            {
                self.give_up(def)?;
            }
            Ok(Change::Put(definition))
        };
        definitions.into_iter().map(finished).collect()
    }

    /// Creates the schema that a database has from its beginning, in a transaction of any database.
    fn write_public(&self, txn: &OwnedTransaction, database: ObjectId, id: ObjectId) -> Result<Change> {
        let public = Definition::Schema(SchemaDef { id, name: PUBLIC.into() });
        txn.put(&self.rows, &key_of(public.id())[..], &stored::encode(database, &public)?[..]).sql()?;
        Ok(Change::Put(public))
    }

    /// Makes a catalog the current one.
    fn show(&self, catalog: Catalog) {
        let version = catalog.version;
        *self.current.write().expect("no code panics while it holds the catalog") = Arc::new(catalog);
        // Release: pairs with `version`.
        self.version.store(version, Ordering::Release);
    }

    /// Makes sure that the schema's name has its row, as those of all other schemas have: a transaction that creates an
    /// object depends on that row (`use_schema`). Databases of earlier versions lack it.
    fn keep_name_of_public(&self) -> Result<()> {
        let key = self.key_of_name("", PUBLIC);
        let kept: ermine::Result<()> = self.database.run(|txn| match txn.view(&self.rows, &key[..])? {
            Some(_) => Ok(()),
            None => txn.insert(&self.rows, &key[..], &[][..]),
        });
        kept.sql()
    }

    /// Removes what a statement had begun to add to a table when the database was closed.
    fn give_up(&self, def: &mut TableDef) -> Result<()> {
        let txn = self.database.begin_owned(Default::default()).sql()?;
        let index = def.take_unfinished();
        if let Some(index) = &index {
            self.take_name(&txn, &def.schema, &index.name, false)?;
            self.relation_files.write_dropped(&txn, index.relation_file)?;
        }
        let change = [Change::Put(Definition::Table(def.clone()))];
        self.write(&txn, &Catalog::of(self.number), &change)?;
        txn.commit().sql()?;
        index.iter().for_each(|index| self.relation_files.dropped(index.relation_file));
        Ok(())
    }

    /// Returns the engine's table of the catalog.
    pub(crate) fn table_id(&self) -> TableId {
        self.rows.id()
    }

    /// Returns the stored definitions that a transaction sees, with their numbers.
    pub(crate) fn stored(&self, txn: &OwnedTransaction) -> Result<Vec<(ObjectId, Vec<u8>)>> {
        let rows = txn.scan(&self.rows, RawRange::prefix(KeyBuffer::from_slice(&[BY_NUMBER]))).collect().sql()?;
        Ok(rows.into_iter().filter_map(|(RawKey(key), bytes)| Some((row_of_definition(&key)?, bytes))).collect())
    }

    /// Returns the catalog as of the last change.
    pub(crate) fn current(&self) -> Arc<Catalog> {
        self.current.read().expect("no code panics while it holds the catalog").clone()
    }

    /// Returns the version of the current catalog.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        // Acquire: pairs with the release of `publish`; later reads are as new.
        self.version.load(Ordering::Acquire)
    }

    /// Allocates a number that no object has or had.
    pub(crate) fn number(&self) -> Result<ObjectId> {
        self.numbers(1)
    }

    /// Allocates consecutive numbers that no object has or had; returns the first one.
    pub(crate) fn numbers(&self, count: u32) -> Result<ObjectId> {
        let first = self.first();
        let _one = first.numbers.lock().expect("no code panics while it holds the lock");
        let taken: ermine::Result<_> = self.database.run_with(inside(), |txn| {
            let stored = txn.get(&self.rows, &[NEXT][..])?;
            let next = stored.and_then(|bytes| bytes.try_into().ok()).map_or(FIRST_OBJECT, u32::from_be_bytes);
            txn.put(&self.rows, &[NEXT][..], &(next + count).to_be_bytes()[..])?;
            ermine::Result::Ok(next)
        });
        taken.sql()
    }

    /// Writes changes to the catalog's table, in the transaction that makes them; `before`: the catalog as that
    /// transaction has seen it so far.
    pub(crate) fn write(&self, txn: &OwnedTransaction, before: &Catalog, changes: &[Change]) -> Result<()> {
        for change in changes {
            let old = before.tables.get(&change.definition().id()).map(|table| &table.def);
            self.relation_files.write(txn, old, change.table_after())?;
            match change {
                Change::Put(definition) => {
                    let bytes = stored::encode(self.number, definition)?;
                    txn.put(&self.rows, &key_of(definition.row())[..], &bytes[..]).sql()?;
                }
                Change::Drop(definition) => {
                    txn.delete(&self.rows, &key_of(definition.row())[..]).sql()?;
                    if let Definition::Table(def) = definition {
                        txn.delete(&self.rows, &key_of_truncation(def.id)[..]).sql()?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Notes that a transaction empties a table, for readers of changes: they could not tell it from one whose rows are
    /// written anew.
    pub(crate) fn note_truncation(&self, txn: &OwnedTransaction, table: &TableDef) -> Result<()> {
        txn.put(&self.rows, &key_of_truncation(table.id)[..], &table.relation_file.to_be_bytes()[..]).sql()
    }

    /// Takes a relation's name that the transaction does not know, or releases it. Two transactions that want the same
    /// name conflict, even where the other one has committed already and its change is not published yet.
    pub(crate) fn take_name(&self, txn: &OwnedTransaction, schema: &str, name: &str, is_taken: bool) -> Result<()> {
        self.take_key(txn, &self.key_of_name(schema, name), name, is_taken)
    }

    /// Takes or releases the name of a type, likewise.
    pub(crate) fn take_type_name(
        &self,
        txn: &OwnedTransaction,
        schema: &str,
        name: &str,
        is_taken: bool,
    ) -> Result<()> {
        self.take_key(txn, &self.key_of_type_name(schema, name), name, is_taken)
    }

    /// Takes or releases the name of a role, likewise.
    pub(crate) fn take_role_name(&self, txn: &OwnedTransaction, name: &str, is_taken: bool) -> Result<()> {
        self.take_key(txn, &key_of_shared_name(ROLE, name), name, is_taken)
    }

    fn take_key(&self, txn: &OwnedTransaction, key: &[u8], name: &str, is_taken: bool) -> Result<()> {
        let done = if is_taken { txn.insert(&self.rows, key, &[][..]) } else { txn.delete(&self.rows, key).map(drop) };
        match done {
            Err(ermine::Error::KeyExists { .. }) => Err(not_shown(name)),
            done => done.sql(),
        }
    }

    /// Removes the row of a role that the transaction changes or drops. Roles have no latch: each change deletes the
    /// role's row and writes another one. If the row is gone, another transaction has changed the role, and the change
    /// is not published yet. So changes are published in the order in which they were committed.
    pub(crate) fn take_role(&self, txn: &OwnedTransaction, known: &RoleDef) -> Result<()> {
        match txn.delete(&self.rows, &key_of(known.row)[..]).sql()? {
            true => Ok(()),
            false => Err(not_shown(&known.name)),
        }
    }

    /// Takes the place of an object's comment, or frees it: an object has one.
    pub(crate) fn take_place(&self, txn: &OwnedTransaction, comment: &CommentDef, is_taken: bool) -> Result<()> {
        self.take_key(txn, &self.key_of_comment(comment), "comment", is_taken)
    }

    /// Removes the row of a comment that the transaction changes or removes, as [`CatalogStore::take_role`] does.
    pub(crate) fn take_comment(&self, txn: &OwnedTransaction, known: &CommentDef) -> Result<()> {
        match txn.delete(&self.rows, &key_of(known.id)[..]).sql()? {
            true => Ok(()),
            false => Err(not_shown("comment")),
        }
    }

    /// Fails if a sequence that the transaction changes was changed by another one, whose change may not be published
    /// yet. Sequences have no latch: the transactions that change one read its row and write it.
    pub(crate) fn check_sequence(&self, txn: &OwnedTransaction, known: &SequenceDef) -> Result<()> {
        let stored = txn.get(&self.rows, &key_of(known.id)[..]).sql()?;
        match stored.and_then(|bytes| stored::decode(&bytes).ok()) {
            Some((_, Definition::Sequence(stored))) if stored == *known => Ok(()),
            _ => Err(not_shown(&known.name)),
        }
    }

    /// Fails if a type that the transaction changes or begins to use was changed by another one, whose change may not be
    /// published yet. Every such transaction reads the type's row and writes it with another generation.
    pub(crate) fn check_type(&self, txn: &OwnedTransaction, known: &UserType) -> Result<()> {
        let stored = txn.get(&self.rows, &key_of(known.oid)[..]).sql()?;
        match stored.and_then(|bytes| stored::decode(&bytes).ok()) {
            Some((_, Definition::Type(stored))) if stored == *known => Ok(()),
            _ => Err(not_shown(&known.name)),
        }
    }

    /// Takes or releases the name of a publication, likewise.
    pub(crate) fn take_publication_name(&self, txn: &OwnedTransaction, name: &str, is_taken: bool) -> Result<()> {
        let mut key = self.key(PUBLICATION_NAME);
        key.extend_from_slice(name.as_bytes());
        self.take_key(txn, &key, name, is_taken)
    }

    /// Fails if a publication that the transaction changes was changed by another one, whose change may not be published
    /// yet, as [`CatalogStore::check_sequence`] does.
    pub(crate) fn check_publication(&self, txn: &OwnedTransaction, known: &PublicationDef) -> Result<()> {
        let stored = txn.get(&self.rows, &key_of(known.id)[..]).sql()?;
        match stored.and_then(|bytes| stored::decode(&bytes).ok()) {
            Some((_, Definition::Publication(stored))) if stored == *known => Ok(()),
            _ => Err(not_shown(&known.name)),
        }
    }

    /// Describes names of roles that are taken but unused, or used but not taken.
    pub(crate) fn role_disagreements(&self) -> Result<Vec<String>> {
        let prefix = RawRange::prefix(KeyBuffer::from_slice(&[ROLE]));
        let rows = self.database.run(|txn| txn.scan(&self.rows, prefix.clone()).collect()).sql()?;
        let taken = rows.iter().map(|(RawKey(key), _)| String::from_utf8_lossy(&key[1..]).into_owned()).collect();
        let known: BTreeSet<_> = self.current().roles.keys().cloned().collect();
        Ok(known.symmetric_difference(&taken).map(|name| format!("the name of role {name}")).collect())
    }

    /// Makes sure that the schema of a new object stays: reads the schema's row where reads count, and otherwise writes
    /// it back.
    pub(crate) fn use_schema(&self, txn: &OwnedTransaction, schema: &str, reads_count: bool) -> Result<()> {
        let key = self.key_of_name("", schema);
        let done = match txn.get(&self.rows, &key[..]) {
            Ok(Some(number)) if !reads_count => txn.update(&self.rows, &key[..], &number[..]).map(drop),
            read => read.map(drop),
        };
        done.sql()
    }

    /// Checks that a schema to be dropped holds no object that is not published yet. No other transaction may add an
    /// object to it meanwhile.
    pub(crate) fn watch_schema(&self, txn: &OwnedTransaction, known: &Catalog, schema: &str) -> Result<()> {
        let is_relation = |name: &str| known.names.get(schema).is_some_and(|known| known.contains_key(name));
        let is_type = |name: &str| known.types.find(schema, name).is_some();
        self.watch_names(txn, &self.key_of_name(schema, ""), &is_relation)?;
        self.watch_names(txn, &self.key_of_type_name(schema, ""), &is_type)
    }

    fn watch_names(&self, txn: &OwnedTransaction, prefix: &KeyBuffer, is_known: &dyn Fn(&str) -> bool) -> Result<()> {
        let rows = txn.scan(&self.rows, RawRange::prefix(prefix.clone())).collect().sql()?;
        let mut names = rows.iter().map(|(RawKey(key), _)| String::from_utf8_lossy(&key[prefix.len()..]));
        let hidden = names.find(|name| !is_known(name));
        hidden.map_or(Ok(()), |name| Err(not_shown(&name)))
    }

    /// Publishes changes to all sessions, once they are durable. The transaction that made them has committed, holds
    /// the latches of what it changed, and knew the catalog as `own`. Returns the relation files that the changes
    /// dropped.
    pub(crate) fn publish(&self, changes: &[Change], own: &Catalog) -> Result<Vec<ObjectId>> {
        self.database.sync().sql()?;
        let shared: Vec<_> = changes.iter().filter(|change| change.definition().is_shared()).cloned().collect();
        if shared.is_empty() {
            return self.publish_here(changes, Some(own));
        }
        // All databases get them in the same order.
        let first = self.first();
        let _one = first.publishing();
        let dropped = self.publish_here(changes, Some(own))?;
        for other in first.all_databases() {
            if other.number != self.number {
                other.publish_here(&shared, None)?;
            }
        }
        Ok(dropped)
    }

    fn publish_here(&self, changes: &[Change], own: Option<&Catalog>) -> Result<Vec<ObjectId>> {
        let mut current = self.current.write().expect("no code panics while it holds the catalog");
        let next = current.changed(&self.database, changes, &|_| None, own)?;
        let version = next.version;
        let (mut used, mut dropped, mut kept) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for change in changes {
            let id = change.definition().id();
            let (old, new) = (current.tables.get(&id), next.tables.get(&id));
            used.extend(change.table_after().into_iter().flat_map(TableDef::relation_files));
            dropped.extend(old.iter().flat_map(|old| old.def.relation_files()));
            // Transactions that use the table still write its unfinished parts.
            kept.extend(old.iter().flat_map(|old| old.def.unfinished_storage()));
            kept.extend(new.iter().flat_map(|new| new.def.relation_files()));
            // SeqCst: a transaction that shares the table's latch reads it afterwards (`latch`, invariant 2).
            for id in change.relations(&current, &next) {
                let states = [&*current, &next].into_iter().filter_map(|catalog| catalog.shared(id));
                states.for_each(|shared| shared.changed.store(version, Ordering::SeqCst));
            }
        }
        *current = Arc::new(next);
        // Release: pairs with `version`.
        self.version.store(version, Ordering::Release);
        Ok(dropped.union(&used).copied().filter(|file| !kept.contains(file)).collect())
    }
}

/// The error for an object of that name that another transaction has just created or changed.
fn not_shown(name: &str) -> SqlError {
    let message = format!("could not serialize access: \"{name}\" was made or changed by a concurrent transaction");
    SqlError::new(SqlState::SERIALIZATION_FAILURE, message).hint("The transaction might succeed if retried.")
}

/// Reads the secret, or creates it; on a standby it is not stored: the original has not done so yet, either.
fn secret(database: &Database, rows: &RawTable) -> Result<[u8; SECRET_LENGTH]> {
    let mut new = [0; SECRET_LENGTH];
    SystemRandom::new().fill(&mut new).expect("the system has random bytes");
    let known = database.run(|txn| match txn.get(rows, &[SECRET][..])? {
        Some(known) => Ok(known),
        None if database.is_standby() => Ok(new.to_vec()),
        None => txn.put(rows, &[SECRET][..], &new[..]).map(|()| new.to_vec()),
    });
    let damaged = |_| SqlError::new(SqlState::DATA_CORRUPTED, "the secret of unknown roles is damaged");
    known.sql()?.try_into().map_err(damaged)
}

/// Returns the names of a table and of its indexes.
fn names_of(def: &TableDef) -> impl Iterator<Item = &str> {
    let keys = def.primary_key.iter().map(|key| &*key.name);
    [&*def.name].into_iter().chain(keys).chain(def.indexes.iter().map(|index| &*index.name))
}

impl Catalog {
    /// Returns the catalog of a database without objects.
    pub(crate) fn of(number: ObjectId) -> Self {
        Self {
            version: 0,
            number,
            databases: BTreeMap::new(),
            schemas: BTreeMap::new(),
            names: HashMap::new(),
            tables: HashMap::new(),
            sequences: HashMap::new(),
            roles: BTreeMap::new(),
            foreign_keys: BTreeMap::new(),
            types: Arc::default(),
            comments: BTreeMap::new(),
            rights: BTreeMap::new(),
            traits: BTreeMap::new(),
            views: BTreeMap::new(),
            default_rights: BTreeMap::new(),
            row_security: BTreeMap::new(),
            publications: BTreeMap::new(),
            rewritten: BTreeSet::new(),
            temporary: 0,
            temporary_schema: None,
            temporary_ids: BTreeSet::new(),
            sessions: Arc::default(),
            database: None,
        }
    }

    /// Returns the catalog with the changes applied.
    pub(crate) fn with(&self, database: &Arc<Database>, changes: &[Change]) -> Result<Self> {
        self.changed(database, changes, &|_| None, None)
    }

    /// Returns the catalog for the transaction that makes the changes: tables that it creates count as empty. They are
    /// not scanned for their last row: the scan would be a later transaction, which under timestamp ordering would have
    /// to come first.
    pub(crate) fn with_own(&self, database: &Arc<Database>, changes: &[Change]) -> Result<Self> {
        self.changed(database, changes, &|id| Some(SharedTable::of_empty(id)), None)
    }

    /// `own`: the catalog in which the changes were made first; its sequences are kept.
    fn changed(
        &self,
        database: &Arc<Database>,
        changes: &[Change],
        of_new: &dyn Fn(ObjectId) -> Option<Arc<SharedTable>>,
        own: Option<&Self>,
    ) -> Result<Self> {
        let mut next = self.clone();
        next.version += 1;
        next.database = Some(database.clone());
        for change in changes {
            match change {
                Change::Drop(definition) => next.forget(definition.id()),
                Change::Put(definition) => {
                    let shared = next.shared(definition.id()).cloned().or_else(|| of_new(definition.id()));
                    let of_own = || own.and_then(|own| own.sequences.get(&definition.id()));
                    let known = next.sequences.get(&definition.id()).or_else(of_own).cloned();
                    next.forget(definition.id());
                    next.add(database, definition, shared, known)?;
                }
            }
        }
        Ok(next)
    }

    /// The state of the objects that it has: its version, and that of the session's temporary objects.
    pub(crate) fn state(&self) -> (u64, u64) {
        (self.version, self.temporary)
    }

    /// Returns about how many rows a table has.
    pub(crate) fn estimated_rows(&self, table: &Table) -> u64 {
        self.database.as_ref().and_then(|database| database.estimated_rows(&table.rows).ok()).unwrap_or(0)
    }

    /// Whether the database is a standby, which only reads.
    pub(crate) fn is_standby(&self) -> bool {
        self.database.as_ref().is_some_and(|database| database.is_standby())
    }

    /// Returns the position up to which a standby has replayed the log.
    pub(crate) fn replayed(&self) -> Option<u64> {
        self.database.as_ref()?.replayed()
    }

    /// Returns the end of the log up to which it is durable, if the database has one that can be read.
    pub(crate) fn log_end(&self) -> Option<u64> {
        Some(self.database.as_ref()?.log_reader(None).ok()?.position())
    }

    /// Whether a transaction of the engine has not ended.
    pub(crate) fn is_in_flight(&self, transaction: Tid) -> bool {
        self.database.as_ref().is_some_and(|database| database.is_in_flight(transaction))
    }

    fn forget(&mut self, id: ObjectId) {
        self.forget_names(id);
        self.schemas.retain(|_, schema| *schema != id);
        self.tables.remove(&id);
        self.sequences.remove(&id);
        self.roles.retain(|_, role| role.id != id);
        self.foreign_keys.remove(&id);
        if self.types.get(id).is_some() {
            Arc::make_mut(&mut self.types).remove(id);
        }
        self.comments.remove(&id);
        self.rights.retain(|_, rights| rights.id != id);
        self.traits.retain(|_, traits| traits.id != id);
        self.views.remove(&id);
        self.row_security.retain(|_, security| security.id != id);
        self.default_rights.retain(|_, rights| rights.id != id);
        self.publications.remove(&id);
        self.databases.retain(|_, database| database.id != id);
    }

    /// Removes the names of a relation, and of the indexes of a table.
    fn forget_names(&mut self, id: ObjectId) {
        let (schema, own): (&str, Vec<&str>) =
            match (self.tables.get(&id), self.views.get(&id), self.sequences.get(&id)) {
                (Some(table), ..) => (&table.def.schema, names_of(&table.def).collect()),
                (None, Some(view), _) => (&view.def.schema, vec![&view.def.name]),
                (None, None, Some(sequence)) => (&sequence.def.schema, vec![&sequence.def.name]),
                (None, None, None) => return,
            };
        let Some(names) = self.names.get_mut(schema) else { return };
        for name in own {
            if names.get(name) == Some(&id) {
                names.remove_mut(name);
            }
        }
    }

    fn add(
        &mut self,
        database: &Arc<Database>,
        definition: &Definition,
        shared: Option<Arc<SharedTable>>,
        known: Option<Arc<Sequence>>,
    ) -> Result<()> {
        self.note_temporary(definition);
        let mut name = |schema: &str, name: &str, id| {
            self.names.entry(schema.to_owned()).or_default().insert_mut(name.to_owned(), id);
        };
        match definition {
            Definition::Schema(SchemaDef { id, name }) => {
                self.schemas.insert(name.clone(), *id);
            }
            Definition::Table(def) | Definition::TableWith(def, _) => {
                names_of(def).for_each(|own| name(&def.schema, own, def.id));
                let table = Table::open(database, def.clone(), shared)?;
                if let Some(def) = def.as_view() {
                    self.views.insert(def.id, Arc::new(View { def, shared: table.shared.clone() }));
                }
                self.tables.insert(def.id, Arc::new(table));
            }
            Definition::Sequence(def) => {
                name(&def.schema, &def.name, def.id);
                let sequence = match known {
                    Some(known) if known.def == *def => known,
                    Some(known) => Arc::new(known.redefined(def.clone())),
                    None => Arc::new(Sequence::open(database, def.clone())?),
                };
                self.sequences.insert(def.id, sequence);
            }
            Definition::Role(def) => _ = self.roles.insert(def.name.clone(), Arc::new(def.clone())),
            Definition::ForeignKey(def) => _ = self.foreign_keys.insert(def.id, Arc::new(def.clone())),
            Definition::Type(ty) => Arc::make_mut(&mut self.types).put(ty.clone()),
            Definition::Comment(def) => _ = self.comments.insert(def.id, Arc::new(def.clone())),
            Definition::Rights(def) => _ = self.rights.insert((def.class, def.object), Arc::new(def.clone())),
            Definition::Traits(def) => _ = self.traits.insert(def.role, Arc::new(def.clone())),
            Definition::DefaultRights(def) => _ = self.default_rights.insert(def.role, Arc::new(def.clone())),
            Definition::RowSecurity(def) => _ = self.row_security.insert(def.table, Arc::new(def.clone())),
            Definition::Publication(def) => _ = self.publications.insert(def.id, Arc::new(def.clone())),
            Definition::Database(def) => _ = self.databases.insert(def.name.clone(), Arc::new(def.clone())),
            Definition::Of(_, definition) => return self.add(database, definition, shared, known),
            Definition::View(def) => {
                name(&def.schema, &def.name, def.id);
                let view = View { def: def.clone(), shared: shared.unwrap_or_else(|| SharedTable::of_empty(def.id)) };
                self.views.insert(def.id, Arc::new(view));
            }
        }
        Ok(())
    }

    /// Returns the relation of that name.
    pub(crate) fn find(&self, schema: &str, name: &str) -> Option<Relation> {
        let id = self.names.get(self.own_schema(schema))?.get(name)?;
        if let Some(view) = self.views.get(id).filter(|_| !self.tables.contains_key(id)) {
            return Some(Relation::View(view.clone()));
        }
        if let Some(sequence) = self.sequences.get(id) {
            return Some(Relation::Sequence(sequence.clone()));
        }
        let table = self.tables.get(id)?;
        if table.def.name == name {
            return Some(Relation::Table(table.clone()));
        }
        Some(Relation::Index(table.clone(), table.def.indexes.iter().position(|index| index.name == name)))
    }

    /// Returns the table to which a table of the engine belongs, and the position of the index, if it is one's.
    pub(crate) fn of_engine(&self, name: &str) -> Option<(&Arc<Table>, Option<usize>)> {
        let file = relation_files::file_of(name)?;
        self.tables.values().find_map(|table| match table.def.relation_file == file {
            true => Some((table, None)),
            false => {
                let at = table.def.indexes.iter().position(|index| index.relation_file == file)?;
                Some((table, Some(at)))
            }
        })
    }

    pub(crate) fn table(&self, id: ObjectId) -> Option<&Arc<Table>> {
        self.tables.get(&id)
    }

    /// Returns the table, view or sequence of that number.
    pub(crate) fn relation(&self, id: ObjectId) -> Option<Relation> {
        let table = self.tables.get(&id).cloned().map(Relation::Table);
        let view = || self.views.get(&id).cloned().map(Relation::View);
        table.or_else(view).or_else(|| self.sequences.get(&id).cloned().map(Relation::Sequence))
    }

    /// Returns the state that the definitions of a table, or of a view, share.
    fn shared(&self, id: ObjectId) -> Option<&Arc<SharedTable>> {
        let table = self.tables.get(&id).map(|table| &table.shared);
        table.or_else(|| self.views.get(&id).map(|view| &view.shared))
    }

    /// Returns the view of that number, also if it is materialized.
    pub(crate) fn view(&self, id: ObjectId) -> Option<&Arc<View>> {
        self.views.get(&id)
    }

    /// Returns all views that are not materialized, by number.
    pub(crate) fn plain_views(&self) -> impl DoubleEndedIterator<Item = &Arc<View>> {
        self.views().filter(|view| !self.tables.contains_key(&view.def.id))
    }

    /// Returns all views, also materialized ones, by number.
    pub(crate) fn views(&self) -> impl DoubleEndedIterator<Item = &Arc<View>> {
        self.views.values()
    }

    /// Returns the table whose definitions share this state.
    pub(crate) fn table_of(&self, shared: &Arc<SharedTable>) -> Option<&Arc<Table>> {
        self.tables.values().find(|table| Arc::ptr_eq(&table.shared, shared))
    }

    pub(crate) fn sequence(&self, id: ObjectId) -> Option<&Arc<Sequence>> {
        self.sequences.get(&id)
    }

    /// Returns the role of that name.
    pub(crate) fn role(&self, name: &str) -> Option<&Arc<RoleDef>> {
        self.roles.get(name)
    }

    /// Returns all roles, by name.
    pub(crate) fn roles(&self) -> impl Iterator<Item = &Arc<RoleDef>> {
        self.roles.values()
    }

    pub(crate) fn schema(&self, name: &str) -> Option<ObjectId> {
        self.schemas.get(self.own_schema(name)).copied()
    }

    pub(crate) fn schemas(&self) -> impl Iterator<Item = (&str, ObjectId)> {
        self.schemas.iter().map(|(name, id)| (&**name, *id))
    }

    /// Returns all tables, by number.
    pub(crate) fn tables(&self) -> Vec<&Arc<Table>> {
        let mut tables: Vec<_> = self.tables.values().collect();
        tables.sort_by_key(|table| table.def.id);
        tables
    }

    /// Returns all sequences, by number.
    pub(crate) fn sequences(&self) -> Vec<&Arc<Sequence>> {
        let mut sequences: Vec<_> = self.sequences.values().collect();
        sequences.sort_by_key(|sequence| sequence.def.id);
        sequences
    }

    /// Returns all foreign keys, by number.
    pub(crate) fn foreign_keys(&self) -> impl Iterator<Item = &Arc<ForeignKeyDef>> {
        self.foreign_keys.values()
    }

    /// Returns the foreign key of that number.
    pub(crate) fn foreign_key(&self, id: ObjectId) -> Option<&Arc<ForeignKeyDef>> {
        self.foreign_keys.get(&id)
    }

    /// Returns the foreign keys of a table, and those of all tables that refer to it.
    pub(crate) fn foreign_keys_at(&self, table: ObjectId) -> impl Iterator<Item = &Arc<ForeignKeyDef>> {
        self.foreign_keys.values().filter(move |key| key.child == table || key.parent == table)
    }

    /// Returns the tables with columns of a type.
    pub(crate) fn tables_with<'a>(&'a self, ty: &'a UserType) -> impl Iterator<Item = &'a Arc<Table>> {
        let domains = self.types.all().into_iter().filter(|other| other.parent().is_some());
        let over = domains.filter(|other| self.types.and_parents(other).any(|known| known.oid == ty.oid));
        let all: Vec<_> = over.map(|other| &**other).filter(|other| other.oid != ty.oid).chain([ty]).collect();
        let has = move |table: &&Arc<Table>| all.iter().any(|ty| !self.columns_with(&table.def, ty).is_empty());
        self.tables.values().filter(has)
    }

    /// Returns the numbers of a table's columns of a type, or of arrays of it.
    pub(crate) fn columns_with(&self, table: &TableDef, ty: &UserType) -> Vec<usize> {
        let has_type = |(at, column): &(usize, &definition::ColumnDef)| match ty.domain() {
            Some(domain) => domain.columns.contains(&(table.id, *at)),
            None => column.ty.scalar == ty.ty().scalar,
        };
        table.live_columns().filter(has_type).map(|(at, _)| at).collect()
    }

    /// Returns all comments.
    pub(crate) fn comments(&self) -> impl Iterator<Item = &Arc<CommentDef>> {
        self.comments.values()
    }

    /// Returns the sequences that belong to a table's columns.
    pub(crate) fn owned_by(&self, table: ObjectId) -> impl Iterator<Item = &SequenceDef> {
        let all = self.sequences.values().map(|sequence| &sequence.def);
        all.filter(move |sequence| sequence.owner.is_some_and(|(owner, _)| owner == table))
    }
}

impl SharedTable {
    fn of_empty(id: ObjectId) -> Arc<Self> {
        let (changed, next_row) = (AtomicU64::new(0), AtomicU64::new(1));
        Arc::new(Self { id, latch: Latch::default(), changed, next_row, uses: Sharded::default() })
    }

    /// Notes that a row with this key exists or will exist: where keys are numbers, later rows get higher ones.
    fn has_row(&self, key: &[u8]) {
        if let Ok(number) = key.try_into().map(u64::from_be_bytes) {
            self.next_row.fetch_max(number + 1, Ordering::Relaxed);
        }
    }
}

impl View {
    /// Whether its query uses an object, or a column of it.
    pub(crate) fn depends_on(&self, id: ObjectId, column: Option<usize>) -> bool {
        match column {
            None => self.def.relations.iter().any(|relation| relation.id == id),
            Some(column) => self.def.uses.contains(&(id, column)),
        }
    }
}

impl Table {
    fn open(database: &Arc<Database>, def: TableDef, shared: Option<Arc<SharedTable>>) -> Result<Self> {
        let options = TableOptions::default();
        let options = if is_temporary(&def.schema) { options.unlogged() } else { options };
        let rows = |number: ObjectId| -> Result<RawTable> {
            database.table_with(&relation_files::engine_name(number), options.clone()).sql()
        };
        let (own, indexes) = (
            rows(def.relation_file)?,
            def.indexes.iter().map(|index| rows(index.relation_file)).collect::<Result<_>>()?,
        );
        let shared = match shared {
            Some(shared) => shared,
            None => {
                let last = match def.primary_key {
                    Some(_) => None,
                    None => database.run(|txn| txn.scan(&own, ..).rev().first()).sql()?,
                };
                let shared = SharedTable::of_empty(def.id);
                last.iter().for_each(|(RawKey(key), _)| shared.has_row(key));
                shared
            }
        };
        Ok(Self { types: def.types(), def, rows: own, indexes, shared })
    }

    /// Notes that a reopened transaction has a row with this key.
    pub(crate) fn has_row(&self, key: &[u8]) {
        if self.def.primary_key.is_none() {
            self.shared.has_row(key);
        }
    }

    /// Returns a number for a row of a table without primary key.
    pub(crate) fn next_row(&self) -> u64 {
        self.shared.next_row.fetch_add(1, Ordering::Relaxed)
    }

    /// The name, as statements write it.
    pub(crate) fn name(&self) -> &str {
        &self.def.name
    }
}

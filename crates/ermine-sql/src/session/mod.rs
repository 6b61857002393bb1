//! Sessions: execute what a client sends, statement by statement.
//!
//! A statement is parsed and bound once ([`Prepared`]) and then run any number of times; a plan that was bound against
//! an older catalog is bound again. Outside of transactions, each statement is its own transaction, which is run again
//! when it loses a conflict, unless part of its result has already been sent.
//!
//! Invariants
//! 1. *A failed transaction does nothing more*: it is rolled back at once, to its last savepoint if it has one, and the
//!    session remembers that until the client ends the transaction or continues from a savepoint.
//! 2. *Nothing is reported that may not last*: the caller that runs statements waits for [`Completion::receipt`] before
//!    the client hears of them.
//! 3. *Nothing final is reported that no serial order has*: an error that ends a serializable transaction is sent once
//!    the read set of the transaction is certified; otherwise the transaction has lost a conflict (40001), and a
//!    statement that is its own transaction is run again.

pub(crate) mod activity;
mod alter_system;
mod check;
mod completion;
mod configured;
mod conflict;
mod constraints;
mod copy;
mod cursor;
mod do_block;
mod effort;
mod extension;
mod login;
mod maintenance;
mod modes;
mod named;
mod notify;
mod parent;
pub(crate) mod plan;
mod replication;
mod role;
mod row_wait;
pub(crate) mod settings;
mod sizes;
mod standby;
mod statement;
mod statistics;
mod temporary;
mod text;
pub(crate) mod tree;
mod types;
mod utility;

use std::{
    borrow::Cow,
    cell::RefCell,
    path::PathBuf,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use hashbrown::HashMap;

pub(crate) use self::plan::Bound;
pub use self::{
    check::SqlVerification,
    completion::{Completion, Status},
    configured::WeakSqlDatabase,
    copy::CopyIn,
    effort::Effort,
    named::ClientStatement,
    parent::Parent,
    statement::Prepared,
    statistics::SqlStatistics,
};
use self::{
    completion::Tagged,
    conflict::Story,
    copy::Copying,
    named::Named,
    row_wait::{RowWait, was_held},
    settings::{Extent, Settings},
    sizes::Sizes,
    standby::is_without_snapshot,
    statement::{MadeFor, PlanKey, Sought},
    tree::Tree,
};
use crate::{
    bind::names::cut,
    budget::DatabaseBudget,
    catalog::{
        CatalogStore, PUBLIC,
        definition::ObjectId,
        roles::SUPERUSER,
        sessions::{Party, Registered, now},
        statement_uses::StatementEntry,
        uses::{Ends, add},
    },
    claims::Deferral,
    cursors::Cursors,
    ddl::{context::ChangeContext, materialized::REFRESH, online::adds_online},
    error::{Result, SqlError, SqlState},
    exec::{Instrumentation, Run, SessionState, SetConfig},
    level::Level,
    memory::{Held, Memory},
    parse::{place::located, tree_bytes},
    plan::Plan,
    prepared::PreparedStore,
    result::{MORE, RowSink},
    row_buffer::RowBuffer,
    system::own::Own,
    tape::Place,
    transaction::{ActiveTransaction, Following, Limits, Modes, changed, view_changed},
    types::{Environment, SqlType, Value},
};

/// A database with tables that SQL knows.
#[derive(Clone)]
pub struct SqlDatabase(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) database: Arc<ermine::Database>,
    pub(crate) catalog: Arc<CatalogStore>,
    /// That of the first database, which the others use.
    first: Arc<CatalogStore>,
    pub(crate) prepared: Arc<PreparedStore>,
    /// Where BACKUP may write; see [`SqlDatabase::confine_backups`].
    backups: Arc<OnceLock<Option<PathBuf>>>,
}

impl SqlDatabase {
    /// Opens the tables of a database.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use ermine::{Database, Options};
    /// use ermine_sql::{RowSet, SqlDatabase};
    ///
    /// let engine = Arc::new(Database::open_in_memory(Options::default())?);
    /// let mut session = SqlDatabase::open(engine)?.session("ann", "shop");
    /// let mut rows = RowSet::default();
    /// session.run("CREATE TABLE tea (id serial PRIMARY KEY, name text NOT NULL)", &mut rows)?;
    /// session.run("INSERT INTO tea (name) VALUES ('green'), ('black')", &mut rows)?;
    /// session.run("SELECT name FROM tea ORDER BY id DESC", &mut rows)?;
    /// assert_eq!(rows.texts(), [["black"], ["green"]]);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(database: Arc<ermine::Database>) -> Result<Self> {
        let scheme = database.scheme();
        if !Self::serves(scheme) {
            let what = format!("SQL under {scheme}, which runs one transaction at a time");
            return Err(
                SqlError::unsupported(what).hint("Open the database with another scheme: si-ssn is the default.")
            );
        }
        let catalog = CatalogStore::open(database.clone())?;
        let prepared = Arc::new(PreparedStore::open(&database, &catalog)?);
        catalog.current().sessions.opened.get_or_init(now);
        let first = catalog.clone();
        Ok(Self(Arc::new(Shared { database, catalog, first, prepared, backups: Arc::default() })))
    }

    /// Whether SQL is supported under a scheme. Statements need other transactions beside that of their session, for
    /// numbers and tables: where one transaction locks everything, such a statement would wait for itself.
    pub fn serves(scheme: ermine::Scheme) -> bool {
        use ermine::Scheme::{Partitioned, Serial, Vll};
        !matches!(scheme, Serial | Vll | Partitioned)
    }

    #[cfg(test)]
    pub(crate) fn relation_files(&self) -> &crate::catalog::relation_files::RelationFiles {
        &self.0.catalog.relation_files
    }

    /// Begins a session of a user in the first database; `database` is the name that the session uses for it.
    /// [`SqlDatabase::login`] begins one in the database that has a name (CREATE DATABASE).
    pub fn session(&self, user: &str, database: &str) -> Session {
        self.begin(user, database)
    }

    /// Returns the database of a name.
    fn of_name(&self, name: &str) -> Result<Self> {
        Ok(self.of_store(self.0.first.named(cut(name))?))
    }

    fn of_store(&self, catalog: Arc<CatalogStore>) -> Self {
        let shared = &self.0;
        if catalog.number == shared.catalog.number {
            return self.clone();
        }
        let (database, first) = (shared.database.clone(), shared.first.clone());
        let (prepared, backups) = (shared.prepared.clone(), shared.backups.clone());
        Self(Arc::new(Shared { database, catalog, first, prepared, backups }))
    }

    fn begin(&self, user: &str, database: &str) -> Session {
        let user = cut(user);
        let catalog = self.0.catalog.current();
        let role = catalog.role(user).map_or(SUPERUSER, |role| role.id);
        let mut version = 0;
        let configured = catalog.sessions.configuration.newer(&mut version).unwrap_or_default();
        let mut settings = Settings::new(user, &self.0.database, configured);
        settings.show_superuser(catalog.is_superuser(role));
        let environment = Environment {
            user: user.into(),
            role,
            session_user: user.into(),
            login: role,
            settings: settings.shown(),
            temp_file_limit: settings.in_force().temp_file_limit,
            database: cut(database).into(),
            schema: PUBLIC.into(),
            memory: Memory::new(&DatabaseBudget::of(&self.0.database)),
            types: catalog.types.clone(),
            ..Environment::default()
        };
        let cancel = environment.interrupt.cancel.clone();
        let sessions = catalog.sessions.clone();
        let (user, database) = (environment.user.clone(), (environment.database.clone(), catalog.number));
        let own = ermine::Session::default();
        let registered = sessions.register((user.clone(), role), database, now(), cancel, own.clone());
        let mut session = Session {
            authenticated: (user.clone(), role),
            roles_set: HashMap::new(),
            party: self.0.catalog.party(registered.presence.footprint.clone()),
            registered,
            shared: self.0.clone(),
            own,
            settings,
            retries: 0,
            configuration: version,
            deferral: Deferral::default(),
            search_path: vec![PUBLIC.into()],
            settings_changed: 0,
            settings_told: 0,
            is_simple: false,
            environment,
            state: State::Idle,
            plans: HashMap::new(),
            named: HashMap::new(),
            executions: 0,
            held: Cursors::default(),
            copying: None,
            affected: 0,
            given: RefCell::default(),
        };
        if version > 0 {
            session.after_settings();
        }
        session
    }
}

/// One client's state: its transaction, its settings, its plans.
pub struct Session {
    shared: Arc<Shared>,
    /// The role that the session was begun for, and its number.
    authenticated: (Arc<str>, ObjectId),
    /// The numbers of the roles that the session has been set to, by their names.
    roles_set: HashMap<String, ObjectId>,
    /// The engine's session for its transactions.
    own: ermine::Session,
    settings: Settings,
    /// Attempts of the statement that lost a conflict.
    retries: u32,
    /// The version of the server's configuration that the settings have.
    configuration: u64,
    /// When the transaction of a block will examine foreign keys, which begins with the next statement.
    deferral: Deferral,
    search_path: Vec<String>,
    /// The number of changes of the search path or the time zone.
    settings_changed: u64,
    /// The value of `settings_changed` when rows were last sent the settings.
    settings_told: u64,
    /// Whether a text is run whose columns the client has not been told before.
    is_simple: bool,
    pub(crate) environment: Environment,
    state: State,
    /// Plans of texts, each with the types that its parameters were given.
    plans: HashMap<PlanKey, Arc<Prepared>>,
    /// Statements with names, of the protocol and of PREPARE. The names are UTF-8.
    named: HashMap<Box<[u8]>, Named>,
    /// Statements that EXECUTE runs, one inside the other.
    executions: u32,
    /// Cursors WITH HOLD of transactions that have committed.
    held: Cursors,
    /// A COPY FROM STDIN in progress, in the block of `state`.
    copying: Option<Box<Copying>>,
    /// Rows that the statement that runs has returned or changed.
    affected: u64,
    given: RefCell<SessionState>,
    /// The state that other sessions see.
    registered: Registered,
    /// The session among those that wait for one another.
    party: Arc<Party>,
}

enum State {
    Idle,
    /// Between BEGIN and its end; `open` is set from the first statement on.
    Block {
        active: Option<Box<ActiveTransaction>>,
        modes: Modes,
        is_implicit: bool,
    },
    /// A statement has failed; `open` is set if there is a savepoint to continue from.
    Failed {
        active: Option<Box<ActiveTransaction>>,
        modes: Modes,
        is_implicit: bool,
    },
}

/// Maximum number of plans that a session remembers.
const PLANS_MAX: usize = 512;
/// Maximum bytes of a text whose plan is remembered.
const REMEMBERED_MAX: usize = 16 << 10;
/// Bytes that the tree of a text may always take, however small `work_mem` is.
const TREE_MIN: usize = 1 << 20;

impl Session {
    /// Returns the plan of a text whose parameters are given these types, if one exists for the current catalog.
    fn known(&self, text: &str, types: &[Option<SqlType>]) -> Option<Arc<Prepared>> {
        let known = self.plans.get(&Sought { text, types })?;
        let version = match &self.state {
            State::Block { active: Some(active), .. } if !active.renews() => {
                (!active.has_changes()).then_some(active.catalog.state())
            }
            _ => Some((self.shared.catalog.version(), self.party.temporary.number())),
        };
        let is_known = version.is_some() && known.made_for.version == version;
        (is_known && known.made_for.role == self.environment.role).then(|| known.clone())
    }

    /// Counts the plan of a statement with an entry, which shows it from now on.
    fn planned(&self, prepared: Prepared) -> Arc<Prepared> {
        let prepared = Arc::new(prepared);
        if let Some(entry) = &prepared.uses
            && prepared.bound.plan.is_planned()
        {
            let is_kept = entry.planned(self.party.footprint.session, prepared.bound.took);
            entry.shows(Arc::downgrade(&prepared));
            if is_kept {
                entry.keep();
            }
        }
        prepared
    }

    /// Returns the entry that counts the runs of a statement.
    fn uses_of(&self, text: &str) -> Option<Arc<StatementEntry>> {
        self.registered.sessions.statements.entry(self.shared.catalog.number, self.environment.role, text)
    }

    /// Reserves the memory of the tree of a text, before the tree exists.
    fn hold_tree(&self, text: &str) -> Result<Held> {
        let mut held = self.environment.memory.hold();
        held.grow_to(tree_bytes(text)?, self.settings.in_force().work_mem.max(TREE_MIN))?;
        Ok(held)
    }

    /// Reserves the memory of a statement's parameters, which are kept until it is run.
    pub fn hold_parameters(&self, parameters: &[Value]) -> Result<Held> {
        self.environment.memory.end();
        let mut held = self.environment.memory.hold();
        held.grow_to(parameters.iter().map(Value::bytes).sum(), self.settings.in_force().work_mem)?;
        Ok(held)
    }

    fn remember(&mut self, text: &str, types: &[Option<SqlType>], prepared: &Arc<Prepared>) {
        if text.len() > REMEMBERED_MAX {
            return;
        }
        if self.plans.len() >= PLANS_MAX {
            self.plans.clear();
        }
        self.plans.insert(PlanKey { text: text.into(), types: types.into() }, prepared.clone());
    }

    /// Parses and binds one statement, or none; infers the types of parameters that are not given.
    pub fn prepare(&mut self, text: &str, parameters: &[Option<SqlType>]) -> Result<Arc<Prepared>> {
        self.prepare_with_any(text, &[parameters]).map(|(_, prepared)| prepared)
    }

    /// Prepares a statement with the first of some lists of its parameters' types with which it can be bound, and
    /// returns the place of that list; otherwise fails as with the last one. So a client may let types be inferred, and
    /// give them only where they cannot be: an open transaction fails only if no list will do.
    pub fn prepare_with_any(&mut self, text: &str, lists: &[&[Option<SqlType>]]) -> Result<(usize, Arc<Prepared>)> {
        let mut prepared = Err(SqlError::new(SqlState::INTERNAL_ERROR, "no types to prepare a statement with"));
        for (place, list) in lists.iter().enumerate() {
            prepared = self.prepare_one(text, list).map(|prepared| (place, prepared));
            if prepared.is_ok() {
                break;
            }
        }
        self.environment.memory.end();
        prepared.inspect_err(|_| self.fail()).map_err(|error| located(error, text))
    }

    fn prepare_one(&mut self, text: &str, parameters: &[Option<SqlType>]) -> Result<Arc<Prepared>> {
        if let Some(known) = self.known(text, parameters) {
            return Ok(known);
        }
        let held = self.hold_tree(text)?;
        let mut statements = tree::statements(text)?;
        match (statements.pop(), statements.is_empty()) {
            (None, _) => Ok(Arc::new(Prepared {
                tree: None,
                text: "".into(),
                uses: None,
                bound: Bound::nothing(),
                made_for: MadeFor::default(),
                renewed: Mutex::default(),
                _held: held,
            })),
            (Some(_), false) => {
                let message = "cannot insert multiple commands into a prepared statement";
                Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
            }
            (Some(statement), true) => {
                let bound = self.bind(statement, parameters)?;
                let prepared = Prepared { text: activity::shown(text), uses: self.uses_of(text), _held: held, ..bound };
                let prepared = self.planned(prepared);
                if prepared.made_for.version.is_some() {
                    self.remember(text, parameters, &prepared);
                }
                Ok(prepared)
            }
        }
    }

    /// Binds a statement against the catalog that the session sees.
    fn bind(&mut self, tree: Tree, asked: &[Option<SqlType>]) -> Result<Prepared> {
        if matches!(self.state, State::Failed { .. }) && !utility::ends_transaction(&tree) {
            return Err(in_failed());
        }
        self.wait_to_bind(&tree)?;
        let (catalog, is_own) = self.seen_catalog()?;
        self.see_types(&catalog.types);
        let bound = plan::bind(&tree, &catalog, &self.environment, &self.search_path, asked);
        let mut bound = bound.map_err(|error| self.environment.named(error))?;
        let mut version = (!is_own).then_some(catalog.state());
        match &tree {
            // Its result depends on the cursor that has the name now.
            Tree::Fetch(fetch) => (bound.columns, version) = (self.fetched(fetch), None),
            // Its text may contain a password, and is not remembered.
            Tree::Role(_) => version = None,
            _ => {}
        }
        Ok(Prepared {
            tree: Some(tree),
            text: "".into(),
            uses: None,
            made_for: MadeFor {
                version,
                settings: self.settings_changed,
                role: self.environment.role,
                sizes: Sizes::new(&catalog, &bound.tables),
            },
            bound,
            renewed: Mutex::default(),
            _held: Held::default(),
        })
    }

    /// Returns the plan of a text's only statement.
    #[cfg(test)]
    pub(crate) fn bind_text(&mut self, text: &str) -> Result<plan::Bound> {
        let tree = tree::statements(text)?.pop().expect("a statement");
        Ok(self.bind(tree, &[])?.bound)
    }

    /// Executes a statement. Outside of transactions it commits on its own.
    pub fn execute(
        &mut self,
        prepared: &Arc<Prepared>,
        parameters: &[Value],
        rows: &mut dyn RowSink,
    ) -> Result<Completion> {
        self.begins(|| prepared.text.clone());
        let done = self.execute_inside(prepared, parameters, rows);
        let ended = self.rests();
        self.ran(prepared, (self.environment.statement_began, ended), done.is_ok());
        done
    }

    /// Executes a statement as a part of the activity that has already begun (`begins`).
    fn execute_inside(
        &mut self,
        prepared: &Arc<Prepared>,
        parameters: &[Value],
        rows: &mut dyn RowSink,
    ) -> Result<Completion> {
        self.affected = 0;
        if parameters.len() != prepared.bound.parameters.len() {
            let message = format!(
                "the statement has {} parameters, but {} were given",
                prepared.bound.parameters.len(),
                parameters.len()
            );
            return Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, message));
        }
        self.check_not_copying()?;
        if self.settings_told != self.settings_changed {
            rows.environment(&self.environment);
            self.settings_told = self.settings_changed;
        }
        if prepared.tree.is_none() {
            rows.nothing()?;
            return Ok(Completion::default());
        }
        self.environment.memory.begin(self.settings.in_force().work_mem);
        if prepared.bound.is_control() {
            if !self.environment.types.is_empty() {
                rows.types(&self.environment.types);
            }
            let done = self.control(prepared, parameters, rows);
            return done.map_err(|error| self.fail_with(error));
        }
        if let Plan::Declare(declare) = &prepared.bound.plan
            && !declare.modes.is_held
            && matches!(self.state, State::Idle)
        {
            return Err(utility::not_in_block("DECLARE CURSOR"));
        }
        if matches!(prepared.bound.plan, Plan::CopyFrom(_)) && matches!(self.state, State::Idle) {
            return self.copy_alone(prepared, parameters, rows);
        }
        self.environment.interrupt.deadline = self.deadline();
        match std::mem::replace(&mut self.state, State::Idle) {
            failed @ State::Failed { .. } => {
                self.state = failed;
                Err(in_failed())
            }
            State::Idle => self.execute_idle(prepared, parameters, rows),
            State::Block { mut active, modes, is_implicit } => {
                self.state = State::Failed { active: None, modes, is_implicit };
                let done = self.run_in_block(&mut active, modes, prepared, parameters, rows);
                self.state = State::Block { active, modes, is_implicit };
                done.map(|()| Completion::default()).map_err(|error| {
                    let error = self.fail_with(error);
                    self.counts(prepared.bound.plan.words(), Some(prepared), &error);
                    error
                })
            }
        }
    }

    /// Runs a statement of a block, whose transaction begins with the first one.
    fn run_in_block(
        &mut self,
        active: &mut Option<Box<ActiveTransaction>>,
        modes: Modes,
        prepared: &Arc<Prepared>,
        parameters: &[Value],
        rows: &mut dyn RowSink,
    ) -> Result<()> {
        let is_new = active.is_none();
        let current = match active {
            Some(active) => active,
            None => active.insert(Box::new(self.open(modes)?)),
        };
        // SET TRANSACTION READ ONLY may have been run since.
        current.set_read_only(modes.read_only);
        if current.renews() {
            return self.run_waiting(current, is_new, prepared, parameters, rows);
        }
        // Before its snapshot was used, it may get a newer one.
        if current.is_fresh() && (current.is_serializable() || !current.has_run) {
            self.run_first(active, modes, prepared, parameters, rows)?;
        } else if !current.is_serializable() && prepared.bound.plan.writes().is_some() {
            self.run_waiting(current, true, prepared, parameters, rows)?;
        } else {
            self.run_in(current, prepared, parameters, rows, false)?;
        }
        if let Some(active) = active {
            active.has_run = true;
            if prepared.bound.plan.writes().is_some() {
                active.shows_itself();
            }
        }
        Ok(())
    }

    /// Runs a statement of a transaction whose statements share a snapshot, and which has used no table yet. If one of
    /// its tables has changed since, or if it is the first one and loses, nothing else is lost: it is run again in a new
    /// transaction, when the one that won has ended.
    fn run_first(
        &mut self,
        active: &mut Option<Box<ActiveTransaction>>,
        modes: Modes,
        prepared: &Arc<Prepared>,
        parameters: &[Value],
        rows: &mut dyn RowSink,
    ) -> Result<()> {
        let began = self.environment.transaction_began;
        let has_run = active.as_ref().is_some_and(|active| active.has_run);
        let mut wait = self.row_wait();
        loop {
            let current = match active {
                Some(active) => active,
                None => active.insert(Box::new(self.open(modes)?)),
            };
            self.environment.transaction_began = began;
            let mut tag = Tagged { rows, tag: String::new() };
            let error = match self.run_in(current, prepared, parameters, &mut tag, true) {
                Ok(true) => {
                    let tag = tag.tag;
                    wait.got(current)?;
                    // The COPY is still in progress.
                    return if self.copying.is_none() { rows.complete(&tag) } else { Ok(()) };
                }
                Ok(false) if wait.is_over() => return Err(changed("of the statement")),
                Ok(false) => {
                    let newer = self.open(modes)?;
                    current.continue_as(newer);
                    continue;
                }
                Err(error) => error,
            };
            let is_lost = error.state() == SqlState::SERIALIZATION_FAILURE && !has_run;
            let is_over = wait.is_over() && !wait.is_held(&error);
            if !is_lost || is_over || !rows.take_back() {
                return Err(error);
            }
            // A transaction that waits holds no rows.
            *active = None;
            self.wait_for_row(&mut wait, prepared, &error)?;
        }
    }

    /// Runs a statement that waits for a row that another transaction is changing: it is undone, and run again when
    /// that transaction has ended. At READ COMMITTED it then sees what was committed meanwhile, and so cannot lose;
    /// otherwise it loses if the row was changed.
    fn run_waiting(
        &mut self,
        active: &mut ActiveTransaction,
        is_new: bool,
        prepared: &Arc<Prepared>,
        parameters: &[Value],
        rows: &mut dyn RowSink,
    ) -> Result<()> {
        let renews = active.renews();
        if !is_new && renews {
            active.renew(&self.shared.catalog)?;
        }
        let point = active.point(self.marks())?;
        let database = self.shared.database.clone();
        let (mut wait, mut passed) = (self.row_wait(), None);
        loop {
            let turn = passed.as_ref().map(ermine::Retries::turn);
            let mut tag = Tagged { rows, tag: String::new() };
            let done = self.run_in(active, prepared, parameters, &mut tag, false);
            drop(turn);
            let error = match done {
                Ok(_) => {
                    let tag = tag.tag;
                    wait.got(active)?;
                    active.release(&point)?;
                    if prepared.bound.plan.writes().is_some() {
                        active.shows_itself();
                    }
                    // The COPY is still in progress.
                    return if self.copying.is_none() { rows.complete(&tag) } else { Ok(()) };
                }
                Err(error) => error,
            };
            let waits = error.state() == SqlState::SERIALIZATION_FAILURE && (renews || was_held(&error));
            if !waits || !rows.take_back() {
                return Err(error);
            }
            active.go_back(&point)?;
            active.shows_itself();
            if wait.is_passed(&error) {
                // Others come first again and again: after some times, it runs while they are held back.
                passed.get_or_insert_with(|| database.retries()).lost(None);
            }
            self.wait_for_row(&mut wait, prepared, &error)?;
            if renews {
                active.renew(&self.shared.catalog)?;
            }
        }
    }

    fn row_wait(&self) -> RowWait {
        RowWait::new(self.party.clone(), self.limits().at_most)
    }

    /// Waits before a statement that lost `conflict` is tried again.
    fn wait_for_row(&mut self, wait: &mut RowWait, prepared: &Prepared, conflict: &SqlError) -> Result<()> {
        // What waits for a row tries now and then: that is one wait, and loses nothing.
        let is_held = wait.is_held(conflict);
        self.retries += u32::from(!is_held);
        // Relaxed: statistics.
        self.shared.catalog.current().sessions.retries.fetch_add(u64::from(!is_held), Ordering::Relaxed);
        // It takes them again.
        for (key, is_shared) in std::mem::take(&mut self.given.borrow_mut().locks) {
            self.registered.release_lock(key, is_shared);
        }
        let began = Instant::now();
        let waited = wait.wait(conflict, &self.environment.interrupt);
        if let Some(uses) = self.uses(prepared) {
            let part = uses.uses.of(self.party.footprint.session);
            add(&part.waits, u64::from(is_held && wait.is_first()));
            add(&part.wait_micros, began.elapsed().as_micros() as u64);
        }
        waited
    }

    /// Adds what has happened to the error of a conflict, and the names of types to any other.
    fn named(&self, error: SqlError) -> SqlError {
        match error.state() {
            SqlState::SERIALIZATION_FAILURE => {
                Story::new(&self.shared.catalog.current(), &self.environment, &self.party.footprint).tell(error)
            }
            _ => self.environment.named(error),
        }
    }

    fn open(&mut self, modes: Modes) -> Result<ActiveTransaction> {
        self.environment.transaction_began = self.environment.statement_began;
        let mut active = loop {
            self.wait_until_replayed(modes.level)?;
            let (store, database) = (&self.shared.catalog, &self.shared.database);
            let begun = ActiveTransaction::begin(store, database, modes, self.following());
            // It may have been given up since.
            if !matches!(&begun, Err(error) if is_without_snapshot(error)) {
                break begun?;
            }
        };
        self.shared.catalog.note_seen(&self.party, modes.level);
        active.deferral.clone_from(&self.deferral);
        Ok(active)
    }

    /// Returns what a change of the catalog uses.
    pub(crate) fn change_context(&self) -> ChangeContext<'_> {
        ChangeContext {
            database: &self.shared.database,
            store: &self.shared.catalog,
            environment: &self.environment,
            search_path: &self.search_path,
            given: &self.given,
            modes: self.modes(),
            following: self.following(),
            at_most: self.limits().at_most,
            party: &self.party,
            is_in_block: self.status() != Status::Idle,
        }
    }

    /// Returns the completion of a statement outside of transactions, which has ended with this commit.
    fn completion(&self, receipt: Option<ermine::OwnedReceipt>) -> Completion {
        Completion { receipt: self.modes().synchronous.waits_for(receipt) }
    }

    /// Returns the time at which a statement that begins now exceeds its limit.
    fn deadline(&self) -> Option<Instant> {
        let limit = self.settings.in_force().statement_timeout;
        (!limit.is_zero()).then(|| Instant::now() + limit)
    }

    fn following(&self) -> Following {
        let (order, party) = (Some(self.settings.in_force().order), Some(self.party.clone()));
        Following { order, session: self.own.clone(), party }
    }

    /// Executes a statement outside of transactions.
    fn execute_idle(
        &mut self,
        prepared: &Arc<Prepared>,
        parameters: &[Value],
        rows: &mut dyn RowSink,
    ) -> Result<Completion> {
        if self.modes().read_only {
            check_reads(&prepared.bound.plan)?;
        }
        if let Plan::Definition(definition) = &prepared.bound.plan
            && let Some(addition) = definition.addition()
            && adds_online(self.shared.database.scheme())
            && !self.is_of_temporary(&addition)?
        {
            self.environment.transaction_began = self.environment.statement_began;
            let types = self.types();
            self.see_types(&types);
            let done = self.change_context().add_online(&addition, rows);
            return done.map(|receipt| self.completion(receipt)).map_err(|error| self.named(error));
        }
        self.execute_alone(prepared, parameters, rows)
    }

    /// Executes a statement that is its own transaction.
    fn execute_alone(
        &mut self,
        prepared: &Arc<Prepared>,
        parameters: &[Value],
        rows: &mut dyn RowSink,
    ) -> Result<Completion> {
        // Waits while another transaction runs alone.
        drop(self.shared.database.retries().turn());
        let done = match self.execute_once(prepared, parameters, rows) {
            Err(error) if error.state() == SqlState::SERIALIZATION_FAILURE && rows.take_back() => {
                self.execute_again(prepared, parameters, rows, error)
            }
            done => done,
        };
        done.map_err(|error| {
            add(&self.ends().rollbacks, 1);
            self.counts(prepared.bound.plan.words(), Some(prepared), &error);
            self.named(error)
        })
    }

    /// Executes a statement that is its own transaction, and has lost `conflict`, until it commits or fails
    /// permanently, but for no longer than it may wait for others.
    fn execute_again(
        &mut self,
        prepared: &Arc<Prepared>,
        parameters: &[Value],
        rows: &mut dyn RowSink,
        mut conflict: SqlError,
    ) -> Result<Completion> {
        let database = self.shared.database.clone();
        let mut retries = database.retries();
        let mut turn = retries.turn();
        let mut wait = self.row_wait();
        loop {
            drop(turn);
            // Before the wait: after it, the row may be free. A statement that waits for a row has not lost.
            let is_over = wait.is_over() && !wait.is_held(&conflict);
            let goes_on = !is_over && (!wait.is_passed(&conflict) || retries.lost(None));
            if !goes_on && self.modes().level != Level::ReadCommitted {
                return Err(conflict);
            }
            if !wait.is_held(&conflict) {
                self.counts(prepared.bound.plan.words(), Some(prepared), &conflict);
            }
            self.wait_for_row(&mut wait, prepared, &conflict)?;
            turn = retries.turn();
            match self.execute_once(prepared, parameters, rows) {
                Err(error) if error.state() == SqlState::SERIALIZATION_FAILURE && rows.take_back() => conflict = error,
                done => return done,
            }
        }
    }

    /// Executes a statement that is its own transaction; an attempt that loses a conflict fails.
    fn execute_once(
        &mut self,
        prepared: &Arc<Prepared>,
        parameters: &[Value],
        rows: &mut dyn RowSink,
    ) -> Result<Completion> {
        let mut active = self.open(self.modes())?;
        active.is_alone = true;
        let mut tag = Tagged { rows, tag: String::new() };
        let done = match self.run_in(&mut active, prepared, parameters, &mut tag, true) {
            Ok(true) => self.commit(active).map(|receipt| self.completion(receipt)),
            Ok(false) => {
                active.rollback();
                Err(changed("of the statement"))
            }
            Err(error) => Err(active.fail(error)),
        };
        let tag = tag.tag;
        self.end_settings(done.is_ok());
        let completion = done?;
        rows.complete(&tag)?;
        Ok(completion)
    }

    /// Runs a statement in a transaction; returns false if a table has been changed since the transaction began, and
    /// nothing was done.
    fn run_in(
        &mut self,
        active: &mut ActiveTransaction,
        prepared: &Arc<Prepared>,
        parameters: &[Value],
        rows: &mut dyn RowSink,
        may_begin_again: bool,
    ) -> Result<bool> {
        // An attempt before this one has left no memory in use.
        self.environment.memory.begin(self.settings.in_force().work_mem);
        self.given.get_mut().settings.clear();
        self.given.get_mut().locks.clear();
        self.given.get_mut().claims.clear();
        self.given.get_mut().notes.undo();
        self.see_types(&active.catalog.types);
        if !self.environment.types.is_empty() {
            rows.types(&self.environment.types);
        }
        let renewed = self.renewed(prepared, active)?;
        let bound = renewed.as_deref().unwrap_or(&prepared.bound);
        if matches!(bound.plan, Plan::Delete(_)) {
            self.environment.memory.frees();
        }
        if active.is_read_only() {
            check_reads(&bound.plan)?;
        }
        if !active.share(&bound.tables, self.limits())? {
            return if may_begin_again {
                Ok(false)
            } else {
                Err(changed(bound.tables.first().map_or("", |table| table.name())))
            };
        }
        if !active.share_views(&bound.views, self.limits())? {
            return if may_begin_again {
                Ok(false)
            } else {
                Err(view_changed(bound.views.first().map_or("", |view| &view.def.name)))
            };
        }
        // A table that exists already is found before the query fails.
        let filled = match &bound.plan {
            Plan::TableAs(create) => match self.change_context().create_table_as(active, create, rows)? {
                Some(table) => Some(create.insert(table)),
                None => {
                    rows.complete(create.words())?;
                    return Ok(true);
                }
            },
            Plan::Refresh(refresh) => {
                bound.check()?;
                let Some(insert) = self.change_context().begin_refresh(active, refresh)? else {
                    rows.complete(REFRESH)?;
                    return Ok(true);
                };
                Some(insert)
            }
            _ => None,
        };
        bound.check()?;
        if let Plan::Definition(definition) = &bound.plan {
            let tag = self.change_context().define(active, definition, rows)?;
            rows.complete(&tag)?;
            return Ok(true);
        }
        if let Plan::CopyFrom(from) = &bound.plan {
            rows.copy_in(from.format())?;
            let hides_details = bound.hides_details();
            let uses = self.uses(prepared).map(Cow::into_owned);
            let copying = Copying::new(from.clone(), &self.environment.memory, &self.party, hides_details, uses);
            self.copying = Some(Box::new(copying));
            return Ok(true);
        }
        let statements = || self.statements();
        let mut run = Run::new(&active.txn, &active.catalog, parameters, &self.environment, &self.given);
        (run.level, run.is_read_only) = (active.level, active.is_read_only());
        (run.session, run.lock_timeout) = (Some((&*self.party, active.number())), self.limits().at_most);
        run.own = Some(Own { cursors: [&active.cursors, &self.held], statements: &statements });
        (run.deferral, run.examines_again) = (active.deferral.clone(), active.examines_again());
        run.instrumentation = bound.plan.is_analyzed().then(Instrumentation::default);
        if let Some(insert) = &filled {
            let told = |error| match &bound.plan {
                Plan::Refresh(refresh) => bound.told(refresh.told(error)),
                _ => bound.told(error),
            };
            let written = run.insert(insert, &mut |_| MORE).map_err(told)?;
            drop(run);
            self.take_over(rows)?;
            match bound.plan {
                Plan::Refresh(_) => rows.complete(REFRESH)?,
                _ => rows.complete(&format!("SELECT {written}"))?,
            }
            return Ok(true);
        }
        if let Plan::Declare(declare) = &bound.plan {
            let kept = declare.run([&active.cursors, &self.held], &run);
            let kept = kept.map_err(|error| bound.told(self.conflict_with_recovery(error)))?;
            drop(run);
            active.cursors.add(self.opened(declare, kept));
            self.take_over(rows)?;
            rows.complete("DECLARE CURSOR")?;
            return Ok(true);
        }
        let tag = plan::run(bound, &run, rows);
        let tag = tag.map_err(|error| bound.told(self.conflict_with_recovery(error)))?;
        drop(run);
        self.affected = tag.rsplit_once(' ').and_then(|(_, count)| count.parse().ok()).unwrap_or(0);
        active.owe(&mut self.given.get_mut().claims, &self.environment.memory)?;
        self.take_over(rows)?;
        rows.complete(&tag)?;
        Ok(true)
    }

    /// Sets what calls of `set_config` have asked for, and keeps what the statement notes for the commit.
    fn take_over(&mut self, rows: &mut dyn RowSink) -> Result<()> {
        self.given.get_mut().notes.settle();
        for SetConfig { name, value, is_local } in std::mem::take(&mut self.given.get_mut().settings) {
            let name = name.to_lowercase();
            let is_alone = matches!(self.state, State::Idle);
            if !is_alone && (name.starts_with("transaction_") || name == "synchronous_commit") {
                let what = format!("set_config of {name} in a transaction");
                return Err(SqlError::unsupported(what).hint("Use SET."));
            }
            // A statement outside of blocks is a transaction, too.
            self.set_one(&name, value.as_deref(), if is_local { Extent::Local } else { Extent::Transaction })?;
            rows.settings_changed();
        }
        Ok(())
    }

    /// Returns the limits of a statement's waits for other transactions.
    fn limits(&self) -> Limits<'_> {
        let limit = self.settings.in_force().lock_timeout;
        Limits { at_most: (!limit.is_zero()).then_some(limit), interrupt: &self.environment.interrupt }
    }

    fn modes(&self) -> Modes {
        self.settings.in_force().modes
    }

    /// Fails the statement; returns the error to send to the client. Without a savepoint the transaction will not
    /// commit any more, so the error is sent only if the read set of the transaction is certified
    /// ([`ActiveTransaction::fail`]). With a savepoint, the error holds under the same condition as the rows that the
    /// client was sent: if the transaction commits.
    fn fail_with(&mut self, error: SqlError) -> SqlError {
        let error = match &mut self.state {
            State::Block { active, .. } => match active.take_if(|active| !active.has_savepoints()) {
                Some(active) => active.fail(error),
                None => error,
            },
            _ => error,
        };
        self.fail();
        self.named(error)
    }

    /// Fails the statement that runs.
    fn fail(&mut self) {
        self.copying = None;
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Block { mut active, mut modes, is_implicit } => {
                let went_back = active.as_mut().and_then(|active| active.go_back_to_last());
                match went_back {
                    Some(Ok(marks)) => {
                        self.settings.go_back(marks.settings);
                        self.given.get_mut().notes.go_back(marks.notes);
                        modes.synchronous = self.modes().synchronous;
                        self.after_settings();
                    }
                    _ => {
                        active = None;
                        self.end_settings(false);
                    }
                }
                self.state = State::Failed { active, modes, is_implicit };
            }
            other => self.state = other,
        }
    }

    /// Commits a transaction, after it has examined what foreign keys need.
    fn commit(&mut self, mut active: ActiveTransaction) -> Result<Option<ermine::OwnedReceipt>> {
        match self.settle(&mut active).and_then(|()| self.end_temporary(&mut active)) {
            Ok(()) => {
                let held = active.cursors.take_held();
                let receipt = match self.given.get_mut().notes.is_empty() {
                    true => Some(active.commit(&self.shared.catalog)?),
                    false => {
                        self.commit_notes(Some(active))?;
                        None
                    }
                };
                held.into_iter().for_each(|cursor| self.held.add(cursor));
                add(&self.ends().commits, 1);
                Ok(receipt)
            }
            Err(error) => Err(active.fail(error)),
        }
    }

    /// Returns the counters of the ends of the session's transactions.
    fn ends(&self) -> &Ends {
        self.registered.sessions.ends.of(self.party.footprint.session)
    }

    /// Ends a block.
    fn end_block(&mut self, commit: bool) -> Result<Completion> {
        let state = std::mem::replace(&mut self.state, State::Idle);
        let (active, modes) = match state {
            State::Block { active, modes, .. } => (active, modes),
            failed => {
                if matches!(failed, State::Failed { .. }) {
                    add(&self.ends().rollbacks, 1);
                }
                self.end_settings(false);
                return Ok(Completion::default());
            }
        };
        let ended = match active {
            None if commit && !self.given.get_mut().notes.is_empty() => self.commit_notes(None).map(|()| None),
            None => Ok(None),
            Some(active) if commit => self.commit(*active),
            Some(active) => {
                active.rollback();
                Ok(None)
            }
        };
        if !commit || ended.is_err() {
            add(&self.ends().rollbacks, 1);
        }
        self.end_settings(commit && ended.is_ok());
        let receipt = ended.map_err(|error| {
            self.counts("COMMIT", None, &error);
            self.named(error)
        })?;
        Ok(Completion { receipt: modes.synchronous.waits_for(receipt) })
    }

    /// Restores the settings of a transaction that is over.
    fn end_settings(&mut self, committed: bool) {
        self.deferral = Deferral::default();
        self.given.get_mut().notes.clear();
        if self.settings.end_transaction(committed) {
            self.after_settings();
        }
    }

    /// Updates the state that depends on settings.
    fn after_settings(&mut self) {
        if self.follow_roles() {
            // Plans hold for one role.
            self.settings_changed += 1;
            self.plans.clear();
        }
        let rows_are_hidden = |settings: &[(String, String)]| {
            settings.iter().any(|(name, value)| name == "row_security" && value == "on")
        };
        let were_hidden = rows_are_hidden(&self.environment.settings);
        self.environment.settings = self.settings.shown();
        self.environment.temp_file_limit = self.settings.in_force().temp_file_limit;
        if rows_are_hidden(&self.environment.settings) != were_hidden {
            // Plans have the conditions of policies, or errors instead.
            self.settings_changed += 1;
            self.plans.clear();
        }
        let application = self.settings.get("application_name").unwrap_or_default();
        self.registered.presence.change(|doing| doing.application = application.into());
        let path = self.settings.search_path(&self.environment.user);
        let zone = crate::types::datetime::find_zone(self.settings.get("timezone").unwrap_or("UTC"));
        let zone = zone.unwrap_or_else(|_| self.environment.time_zone.clone());
        let style = self.settings.style();
        if path != self.search_path || zone != self.environment.time_zone || style != self.environment.style {
            // The bound plans refer to other tables, or other times.
            self.settings_changed += 1;
            self.plans.clear();
            self.environment.search_path = path.as_slice().into();
            (self.search_path, self.environment.time_zone, self.environment.style) = (path, zone, style);
        }
        let schema = self.search_path.first().map_or("", |schema| schema);
        if *self.environment.schema != *schema {
            self.environment.schema = schema.into();
        }
    }

    /// If no transaction is open, begins one that comprises all statements executed up to [`Session::end_implicit`].
    pub fn begin_implicit(&mut self) {
        if matches!(self.state, State::Idle) {
            self.state = State::Block { active: None, modes: self.modes(), is_implicit: true };
        }
    }

    /// Commits the transaction that [`Session::begin_implicit`] has begun. A transaction that the client has begun
    /// stays open.
    pub fn end_implicit(&mut self) -> Result<Completion> {
        match self.state {
            State::Block { is_implicit: true, .. } | State::Failed { is_implicit: true, .. } => {
                let done = self.end_block(true);
                self.rests();
                done
            }
            _ => Ok(Completion::default()),
        }
    }

    /// Fails an open transaction because of an error outside of the session that belongs to one of its statements.
    pub fn fail_from_outside(&mut self) {
        self.fail();
        self.rests();
    }

    /// Rolls back an open transaction because of an error that its client has found and that may follow from rows it
    /// has read. The reads are certified, so that such an error is as true as that of a statement.
    ///
    /// # Errors
    /// 40001, if no serial order has these reads: the client discards its error, and runs the transaction again.
    pub fn roll_back_certified(&mut self) -> Result<()> {
        const CLIENTS: &str = "an error of the client";
        let active = match &mut self.state {
            State::Block { active, .. } | State::Failed { active, .. } => active.take(),
            State::Idle => None,
        };
        let lost = active.map(|active| active.fail(SqlError::new(SqlState::DATA_EXCEPTION, CLIENTS)));
        self.end_block(false)?.wait()?;
        self.rests();
        match lost {
            Some(error) if error.state() != SqlState::DATA_EXCEPTION => {
                self.counts("ROLLBACK", None, &error);
                Err(self.named(error))
            }
            _ => Ok(()),
        }
    }

    /// Returns the state of the session.
    pub fn status(&self) -> Status {
        match self.state {
            State::Idle => Status::Idle,
            State::Block { .. } => Status::Open,
            State::Failed { .. } => Status::Failed,
        }
    }

    /// Returns the cancel flag: when any thread sets it to true, the running statement, or else the next one, fails
    /// with `57014`, and the flag is false again.
    pub fn cancel(&self) -> Arc<AtomicBool> {
        self.environment.interrupt.cancel.clone()
    }

    /// Sets the function that a long statement calls some thousand times a second, so that other sessions may run on
    /// its thread.
    pub fn set_pause(&mut self, pause: fn()) {
        self.environment.interrupt.pause = pause;
    }

    /// Sets the function that runs an uninterrupted, possibly long part of a statement in a place where it blocks
    /// nothing else.
    pub fn set_aside(&mut self, aside: fn(&mut dyn FnMut())) {
        self.environment.interrupt.aside = aside;
    }

    /// Returns a setting, like `server_version`.
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.settings.get(name)
    }

    /// Returns how long the session may be idle in a transaction: `idle_in_transaction_session_timeout`.
    pub fn idle_in_transaction_max(&self) -> Option<Duration> {
        Some(self.settings.in_force().idle_in_transaction).filter(|limit| !limit.is_zero())
    }

    /// Sets a setting, as SET does.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        self.set_one(name, Some(value), Extent::Session)
    }

    /// Returns an empty set of rows, for rows that are kept until the client fetches them.
    pub fn row_buffer(&self) -> RowBuffer {
        let in_force = self.settings.in_force();
        let place = Place {
            directory: self.shared.database.path().map(std::path::Path::to_path_buf),
            counts: self.shared.catalog.current().sessions.temporary_files.clone(),
            bytes_max: in_force.temp_file_limit,
            work_mem: in_force.work_mem,
        };
        RowBuffer::counted(RowBuffer::BYTES_MAX, &self.environment.memory, place)
    }

    /// Returns the environment in which values are read and written.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }
}

/// Fails for a plan that a read-only transaction may not run, whether there is anything to write or not.
fn check_reads(plan: &Plan) -> Result<()> {
    plan.writes().map_or(Ok(()), |what| Err(SqlError::read_only(what)))
}

fn in_failed() -> SqlError {
    let message = "current transaction is aborted, commands ignored until end of transaction block";
    SqlError::new(SqlState::IN_FAILED_SQL_TRANSACTION, message)
}

//! `ermined serve`.

use std::{
    ffi::OsString,
    fs::DirBuilder,
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock, Weak, atomic::AtomicU64, mpsc},
    time::Duration,
};

use ermine::Database;
use ermine_server::{
    backend::Backend as _,
    http::{Pages, StandbyPages},
    logger,
    options::ServerOptions,
    read_lease::ReadLease,
    server::{Control, Server},
    sql::SqlBackend,
    tls::Tls,
    traces::Traces,
};
use ermine_sql::{ServerControl as _, SqlDatabase, WeakSqlDatabase, logical::slots_kept_from};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{
    runtime::Runtime,
    signal::unix::{Signal, SignalKind, signal},
};

use crate::{
    Failure,
    arguments::{Serve, WalLevel},
    check_exists,
    configuration::Effective,
    failed,
    json_stream::JsonStream,
    notify::{self, State},
    operator::{self, Operator},
    pid_file::PidFile,
    replication::{Cluster, Lead, Node, Primary, Readers, Reading, Standbys},
};

pub fn serve(arguments: Serve, effective: Effective, command_line: Vec<OsString>) -> Result<(), Failure> {
    logger::start(arguments.log, arguments.log_format);
    let mut options = arguments.options();
    let tls = arguments.tls().map_err(failed)?;
    options.rules = arguments.rules().map_err(Failure::Usage)?;
    let cluster = arguments.cluster();
    if !arguments.create && cluster.is_none() {
        check_exists(&arguments.dir)?;
    }
    let backup_dir = arguments.backup_dir.as_ref().map(std::path::absolute).transpose().map_err(failed)?;
    if let Some(directory) = &backup_dir {
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
    }
    let (dir, mut engine_options) = (arguments.dir.clone(), arguments.engine_options());
    if engine_options.log_keys && !engine_options.scheme.has_versions() {
        let what =
            format!("--wal-level logical needs a scheme that keeps versions, which {} does not", engine_options.scheme);
        return Err(Failure::Usage(what));
    }
    if arguments.json_stream.is_some() && arguments.wal_level != WalLevel::Logical {
        return Err(Failure::Usage("--json-stream needs --wal-level logical".into()));
    }
    if let Some(position) = slots_kept_from(&dir).map_err(failed)? {
        engine_options = engine_options.keep_changes_from(position);
    }
    let service = Service { arguments, effective, command_line, options, tls, backup_dir };
    match cluster {
        None => service.run(Arc::new(Database::open(&dir, engine_options).map_err(failed)?), Role::Alone),
        Some(cluster) => as_node(cluster, &dir, engine_options, Arc::new(service)),
    }
}

/// The signals that tell the process to end.
type EndSignals = [Signal; 2];

/// What a primary has beside its database.
struct Leading {
    /// They are listened to already.
    signals: EndSignals,
    standbys: Arc<Standbys>,
    lease: ReadLease,
}

/// The part that a server has in its cluster.
enum Role {
    /// There is no cluster.
    Alone,
    Primary(Leading),
    /// The database is the image of a standby, which the node replays. The control that ends the server is sent when it
    /// has begun.
    Standby(SqlDatabase, mpsc::Sender<Control>),
}

/// Serves as a node of a cluster: serves readers until the node is the primary, and then serves until it ends.
fn as_node(cluster: Cluster, dir: &Path, options: ermine::Options, service: Arc<Service>) -> Result<(), Failure> {
    // Apart from the sessions: their threads may all wait for commits to be replicated.
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).thread_name("ermine-replica").enable_all().build().map_err(failed)?;
    let served = lead_and_serve(&runtime, cluster, dir, options, &service);
    // A backup that is being copied as a base ends with the process.
    runtime.shutdown_timeout(Duration::from_secs(1));
    served
}

fn lead_and_serve(
    runtime: &Runtime,
    cluster: Cluster,
    dir: &Path,
    options: ermine::Options,
    service: &Arc<Service>,
) -> Result<(), Failure> {
    // One listens from here on: a signal that comes between two steps is seen by the next one. One that asks for the
    // configuration to be read again is for a server; without one, it does not end the process.
    let (mut signals, _hangup) = {
        let _inside = runtime.enter();
        (end_signals().map_err(failed)?, signal(SignalKind::hangup()).map_err(failed)?)
    };
    let position = Arc::new(AtomicU64::new(0));
    let pages = match service.arguments.http {
        Some(address) => {
            let pages = runtime.block_on(StandbyPages::listen(address, position.clone())).map_err(failed)?;
            Some(runtime.spawn(pages.run()))
        }
        None => None,
    };
    let reading = service.arguments.hot_standby.then(|| {
        let service = service.clone();
        let serve = move |image: &Arc<Database>, database: SqlDatabase| service.serve_readers(image.clone(), database);
        Reading { options: options.clone(), serve: Box::new(serve) }
    });
    let leading = lead(cluster, dir, position, reading, &mut signals);
    let Some((node, lead)) = runtime.block_on(leading)? else { return Ok(()) };
    let (log, acquired) = (node.log.clone(), lead.keeper.acquired().clone());
    let published = lead.publisher.as_ref().map(|publisher| publisher.end().position.0);
    let options = match published {
        Some(position) => options.keep_log_from(position),
        None => options,
    };
    let database = match Database::open(node.database(), options) {
        Ok(database) => Arc::new(database),
        Err(error) => {
            runtime.block_on(lead.keeper.release());
            return Err(failed(error));
        }
    };
    let beginning = unless_told_to_end(&mut signals, Primary::begin(node, lead, &database));
    let Some(primary) = runtime.block_on(beginning)? else {
        // The publisher's thread ends with the process, as in a crash.
        let _ = runtime.block_on(acquired.release(&log));
        return Ok(());
    };
    if let Some(pages) = pages {
        // Until they are those of the database. Its socket is closed when the task has ended.
        pages.abort();
        let _ = runtime.block_on(pages);
    }
    let (standbys, lease) = (primary.standbys(), primary.lease());
    let served = service.run(database, Role::Primary(Leading { signals, standbys, lease }));
    runtime.block_on(primary.end());
    served
}

/// What serves a database.
struct Service {
    arguments: Serve,
    effective: Effective,
    command_line: Vec<OsString>,
    options: ServerOptions,
    tls: Option<Tls>,
    backup_dir: Option<PathBuf>,
}

impl Service {
    /// Begins to serve readers of a standby, on a thread of its own.
    fn serve_readers(self: &Arc<Self>, image: Arc<Database>, database: SqlDatabase) -> Result<Readers, String> {
        let (service, (begun, has_begun)) = (self.clone(), mpsc::channel());
        let serve = move || service.run(image, Role::Standby(database, begun));
        let thread = std::thread::Builder::new().name("ermine-readers".into()).spawn(serve);
        let thread = thread.map_err(|error| error.to_string())?;
        match has_begun.recv() {
            Ok(control) => Ok(Readers::new(control, thread)),
            Err(_) => Err(match thread.join() {
                Ok(Err(Failure::Usage(why) | Failure::Failed(why))) => why,
                _ => "its thread has ended".into(),
            }),
        }
    }

    /// Serves until told to end, by a signal or by the node.
    fn run(&self, engine: Arc<Database>, role: Role) -> Result<(), Failure> {
        let Self { arguments, effective, command_line, options, tls, backup_dir } = self;
        let mut options = options.clone();
        let runtime = options.runtime().map_err(failed)?;
        let (watched, waits) = (Arc::downgrade(&engine), engine.scheme().waits());
        options.fixed.budget = Some(engine.budget().clone());
        let (database, signals, standbys, begun) = match role {
            Role::Alone => (SqlDatabase::open(engine).map_err(failed)?, None, None, None),
            Role::Primary(Leading { signals, standbys, lease }) => {
                options.fixed.lease = Some(lease);
                (SqlDatabase::open(engine).map_err(failed)?, Some(signals), Some(standbys), None)
            }
            Role::Standby(database, begun) => (database, None, None, Some(begun)),
        };
        let is_standby = begun.is_some();
        database.require_names(arguments.database_must_exist);
        if !is_standby {
            database.confine_backups(backup_dir.clone());
            database.open_slots(&arguments.dir).map_err(failed)?;
            database.limit_slots(arguments.max_slot_wal_keep_size.map(|mebibytes| mebibytes << 20));
        }
        operator::defaults(&database, effective).map_err(Failure::Usage)?;
        let backend = SqlBackend::new(database.clone(), waits);
        if options.rules.is_none() && !options.trust && !backend.has_passwords() {
            let what = "without users, only addresses of this machine are listened on: add some with `ermined user add`, \
            or say --trust";
            return Err(Failure::Usage(what.into()));
        }
        raise_file_limit();
        let failure = Arc::new(OnceLock::new());
        let (mut pid_file, mut json_stream) = (None, None);
        let served = runtime.block_on(async {
            let traces = arguments.otlp.clone().map(Traces::start);
            options.fixed.traces.clone_from(&traces);
            let server = Server::listen(backend, options, tls.clone(), &arguments.listen)?;
            // Before the process can be known and signalled. The node of a standby listens to them itself.
            let signals = if is_standby { None } else { Some(signals.map_or_else(end_signals, Ok)?) };
            let hangup = signal(SignalKind::hangup())?;
            // A node has pages of its own while it is a standby.
            if let Some(address) = arguments.http.filter(|_| !is_standby) {
                let pages = Pages::listen(address, database.clone(), server.control()).await?;
                log::info!("metrics and a live page are on http://{}/", pages.address()?);
                tokio::spawn(pages.run());
            }
            signals.map(|signals| tokio::spawn(end_at_signals(signals, server.control())));
            tokio::spawn(end_at_failure(watched.clone(), server.control(), failure.clone()));
            tokio::spawn(look_at_slots(database.downgrade()));
            let (dir, addresses) = (arguments.dir.clone(), server.addresses()?);
            if let (Some(path), Some(address)) = (&arguments.pid_file, addresses.first()) {
                pid_file = Some(PidFile::write(path, &dir, *address)?);
            }
            let configured = (arguments.clone(), effective.clone());
            let served = (server.control(), addresses.clone());
            let operator = Operator::begin(configured, command_line.clone(), (&database, watched), served, standbys)
                .map_err(std::io::Error::other)?;
            if let Some(options) = arguments.json_stream().filter(|_| !is_standby) {
                json_stream = Some(JsonStream::start(options, database.clone())?);
            }
            drop(database);
            if arguments.cluster.is_some() {
                // What was read again before belongs to an earlier server of this node.
                operator.reload();
            }
            tokio::spawn(reload_at_signals(hangup, operator));
            for address in addresses {
                let to_whom = if is_standby { " to readers" } else { "" };
                log::info!("{} is served{to_whom} on {address}", dir.display());
            }
            notify::tell(State::Ready);
            if let Some(begun) = begun {
                // The node waits for it.
                let _ = begun.send(server.control());
            }
            server.run().await;
            if let Some(traces) = traces {
                traces.end().await;
            }
            std::io::Result::Ok(())
        });
        drop(json_stream);
        // Sessions that remain hold the database open; without them it is closed here, and all of it is durable.
        runtime.shutdown_timeout(Duration::from_secs(1));
        drop(pid_file);
        served.map_err(failed)?;
        match failure.get() {
            None => Ok(()),
            Some(why) => Err(Failure::Failed(format!("the server ended because its database failed: {why}"))),
        }
    }
}

/// Waits until this node may be the primary of its cluster; `None`: it was told to end before.
async fn lead(
    cluster: Cluster,
    directory: &Path,
    position: Arc<AtomicU64>,
    reading: Option<Reading>,
    signals: &mut EndSignals,
) -> Result<Option<(Arc<Node>, Lead)>, Failure> {
    let connecting = Node::connect(cluster, directory, position, reading);
    let Some(node) = unless_told_to_end(signals, connecting).await? else { return Ok(None) };
    let lead = unless_told_to_end(signals, node.lead()).await;
    if !matches!(lead, Ok(Some(_))) {
        node.release().await;
    }
    Ok(lead?.map(|lead| (Arc::new(node), lead)))
}

/// Returns what a step of a node has, or nothing if the process is told to end before it has it.
async fn unless_told_to_end<T>(
    signals: &mut EndSignals,
    step: impl Future<Output = Result<T, String>>,
) -> Result<Option<T>, Failure> {
    tokio::select! {
        biased;
        () = next_of(signals) => {
            log::info!("told to end");
            Ok(None)
        }
        done = step => done.map(Some).map_err(Failure::Failed),
    }
}

fn end_signals() -> io::Result<EndSignals> {
    Ok([signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?])
}

async fn next_of([terminate, interrupt]: &mut EndSignals) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// Raises the limit on open files: each connection is a file.
fn raise_file_limit() {
    let limits = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limits.maximum, ..limits }) {
        log::warn!("the number of open files stays at {:?}: {error}", limits.current);
    }
}

/// Ends the server when no transaction can commit any more: a supervisor starts the process again, which recovers.
async fn end_at_failure(database: Weak<Database>, control: Control, failure: Arc<OnceLock<String>>) {
    const INTERVAL: Duration = Duration::from_millis(200);
    loop {
        let Some(failed) = database.upgrade().map(|database| database.failure()) else { return };
        if let Some(why) = failed {
            log::error!("the server ends: {why}");
            notify::tell(State::Stopping);
            let _ = failure.set(why.to_string());
            // Open transactions cannot commit.
            control.end();
            control.end();
            return;
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Gives up replication slots that hold back too much log.
async fn look_at_slots(database: WeakSqlDatabase) {
    const INTERVAL: Duration = Duration::from_secs(1);
    while let Some(database) = database.upgrade() {
        // Reads files.
        let looked = tokio::task::spawn_blocking(move || database.look_at_slots()).await;
        if looked.is_err() {
            return;
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

async fn reload_at_signals(mut hangup: Signal, operator: Arc<Operator>) {
    while hangup.recv().await.is_some() {
        let operator = operator.clone();
        // Reads files.
        let reload = move || {
            notify::tell(State::Reloading);
            operator.reload();
            notify::tell(State::Ready);
        };
        let _ = tokio::task::spawn_blocking(reload).await;
    }
}

async fn end_at_signals(mut signals: EndSignals, control: Control) {
    loop {
        next_of(&mut signals).await;
        log::info!("told to end");
        notify::tell(State::Stopping);
        control.end();
    }
}

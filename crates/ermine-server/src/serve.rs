//! `ermined serve`.

use std::{
    fs::DirBuilder,
    os::unix::fs::DirBuilderExt as _,
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use ermine::Database;
use ermine_server::{
    backend::Backend as _,
    hba::Rules,
    logger,
    server::{Control, Server},
    sql::SqlBackend,
    tls,
};
use ermine_sql::SqlDatabase;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::{Failure, arguments::Serve, check_exists, failed};

pub fn serve(arguments: &Serve) -> Result<(), Failure> {
    logger::start(arguments.log);
    let mut options = arguments.options();
    let tls = match (&arguments.tls_cert, &arguments.tls_key) {
        (Some(certificate), Some(key)) => {
            Some(tls::tls(certificate, key, arguments.tls_client_ca.as_deref()).map_err(failed)?)
        }
        _ => None,
    };
    if let Some(path) = &arguments.hba_file {
        let rules = Rules::read(path).map_err(failed)?;
        if rules.ask_for_certificates() && arguments.tls_client_ca.is_none() {
            return Err(Failure::Usage("a rule with the method cert needs --tls-client-ca".into()));
        }
        options.rules = Some(Arc::new(rules));
    }
    if !arguments.create {
        check_exists(&arguments.dir)?;
    }
    let backup_dir = arguments.backup_dir.as_ref().map(std::path::absolute).transpose().map_err(failed)?;
    if let Some(directory) = &backup_dir {
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
    }
    let database = Arc::new(Database::open(&arguments.dir, arguments.engine_options()).map_err(failed)?);
    let watched = Arc::downgrade(&database);
    options.budget = Some(database.budget().clone());
    let database = SqlDatabase::open(database).map_err(failed)?;
    database.confine_backups(backup_dir);
    let backend = SqlBackend::new(database, arguments.engine.scheme.waits());
    if options.rules.is_none() && !options.trust && !backend.has_passwords() {
        let what = "without users, only addresses of this machine are listened on: add some with `ermined user add`, \
            or say --trust";
        return Err(Failure::Usage(what.into()));
    }
    raise_file_limit();
    let runtime = options.runtime().map_err(failed)?;
    let failure = Arc::new(OnceLock::new());
    let served = runtime.block_on(async {
        let server = Server::listen(backend, options, tls, &arguments.listen)?;
        // Before the process can be known and signalled.
        let signals = [signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?];
        tokio::spawn(end_at_signals(signals, server.control()));
        tokio::spawn(end_at_failure(watched, server.control(), failure.clone()));
        for address in server.addresses()? {
            log::info!("{} is served on {address}", arguments.dir.display());
        }
        server.run().await;
        std::io::Result::Ok(())
    });
    // Sessions that remain hold the database open; without them it is closed here, and all of it is durable.
    runtime.shutdown_timeout(Duration::from_secs(1));
    served.map_err(failed)?;
    match failure.get() {
        None => Ok(()),
        Some(why) => Err(Failure::Failed(format!("the server ended because its database failed: {why}"))),
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
        tokio::time::sleep(INTERVAL).await;
        let Some(failed) = database.upgrade().map(|database| database.failure()) else { return };
        if let Some(why) = failed {
            log::error!("the server ends: {why}");
            let _ = failure.set(why.to_string());
            // Open transactions cannot commit.
            control.end();
            control.end();
            return;
        }
    }
}

async fn end_at_signals([mut terminate, mut interrupt]: [Signal; 2], control: Control) {
    loop {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        log::info!("told to end");
        control.end();
    }
}

//! A web service on Ermine: a ledger over HTTP, to copy and to change.
//!
//! `ledger.rs` has the tables and transactions, `routes.rs` what HTTP makes of them.

mod ledger;
mod routes;

use std::{env, error::Error, sync::Arc, time::Duration};

use ermine::{Database, Options};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    time::sleep,
};

use crate::ledger::Ledger;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let directory = env::args().nth(1).ok_or("usage: axum-ledger DIRECTORY [ADDRESS]")?;
    let address = env::args().nth(2).unwrap_or_else(|| "127.0.0.1:8080".into());
    let ledger = Arc::new(Ledger::open(Database::open(&directory, Options::default())?)?);
    let listener = TcpListener::bind(&address).await?;
    println!("serving {directory} on http://{}", listener.local_addr()?);
    let mut signals = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let watched = ledger.clone();
    let stopped = async move {
        tokio::select! {
            _ = signals.0.recv() => {}
            _ = signals.1.recv() => {}
            () = failure(&watched) => {}
        }
    };
    axum::serve(listener, routes::routes(ledger.clone())).with_graceful_shutdown(stopped).await?;
    match ledger.failure() {
        // A supervisor starts the service again, and the database recovers.
        Some(why) => Err(why.into()),
        None => Ok(()), // the database is closed, and everything in it durable
    }
}

/// Waits until no transaction can commit any more, because the device has failed.
async fn failure(ledger: &Ledger) {
    while ledger.failure().is_none() {
        sleep(Duration::from_millis(200)).await;
    }
}

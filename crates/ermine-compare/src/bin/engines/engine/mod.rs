//! An engine with one table of numbered rows, as the works see it: sessions, and transactions over three operations.
//!
//! Each engine has a file here. Everything is called through trait objects, which costs each engine the same few
//! nanoseconds a call.

mod ermine;
#[cfg(feature = "fjall")]
mod fjall;
mod lmdb;
mod locked;
mod memory;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod server;
#[cfg(feature = "sqlite")]
mod sqlite;
mod surrealmx;

use std::ops::Range;

use clap::ValueEnum;

pub use memory::{Group, Place};

use crate::value::value;

/// Transactions of [`Session::get_batch`].
pub const BATCH: usize = 1024;

/// Rows that one transaction loads.
const LOADED: usize = 1000;

/// The engines that this program contains.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// The default scheme, `si-ssn`.
    Ermine,
    /// Ermine under snapshot isolation, which is not serializable: for `skew`.
    ErmineSi,
    /// In memory, serializable.
    Surrealmx,
    /// Memory-mapped; one writer at a time.
    Lmdb,
    /// A map behind a reader-writer lock: no versions, no rollback.
    Btreemap,
    /// Optimistic transactions that validate the rows that they read, not the ranges.
    #[cfg(feature = "rocksdb")]
    Rocksdb,
    /// Transactions that lock the rows that they read, not the ranges.
    #[cfg(feature = "rocksdb")]
    RocksdbPessimistic,
    /// One writer at a time.
    #[cfg(feature = "redb")]
    Redb,
    /// Optimistic transactions, serializable.
    #[cfg(feature = "fjall")]
    Fjall,
    /// With a write-ahead log; one writer at a time.
    #[cfg(feature = "sqlite")]
    Sqlite,
}

impl Kind {
    /// Opens the engine at a place.
    pub fn open(self, place: &Place) -> Box<dyn Engine> {
        match self {
            Self::Ermine => Box::new(ermine::Ermine::open(place, ::ermine::Scheme::SiSsn)),
            Self::ErmineSi => Box::new(ermine::Ermine::open(place, ::ermine::Scheme::Si)),
            Self::Surrealmx => Box::new(surrealmx::open(place)),
            Self::Lmdb => Box::new(lmdb::Lmdb::open(place)),
            Self::Btreemap => Box::new(locked::Locked::open(place)),
            #[cfg(feature = "rocksdb")]
            Self::Rocksdb => Box::new(rocksdb::optimistic(place)),
            #[cfg(feature = "rocksdb")]
            Self::RocksdbPessimistic => Box::new(rocksdb::pessimistic(place)),
            #[cfg(feature = "redb")]
            Self::Redb => Box::new(redb::Redb::open(place)),
            #[cfg(feature = "fjall")]
            Self::Fjall => Box::new(fjall::Fjall::open(place)),
            #[cfg(feature = "sqlite")]
            Self::Sqlite => Box::new(sqlite::Sqlite::open(place)),
        }
    }
}

/// Opens the table of a server that speaks PostgreSQL's protocol.
pub fn connect(address: &str) -> Box<dyn Engine> {
    Box::new(server::Server::new(address))
}

/// The transaction lost a conflict: it is to be run again.
pub struct Lost;

/// What [`Session::transact`] runs, as often as it takes.
pub type Body<'a> = dyn FnMut(&mut dyn Transaction) -> Result<(), Lost> + 'a;

/// An engine with a table.
pub trait Engine: Sync {
    /// Creates the rows `0..rows`, with values of some bytes.
    fn load(&self, rows: u64, value_bytes: usize) {
        let mut session = self.session();
        for first in (0..rows).step_by(LOADED) {
            let batch = first..rows.min(first + LOADED as u64);
            let mut write =
                |txn: &mut dyn Transaction| batch.clone().try_for_each(|key| txn.write(key, &value(key, value_bytes)));
            session.transact(&mut write);
        }
    }
    /// A session for one thread.
    fn session(&self) -> Box<dyn Session + '_>;
}

/// The client of one thread.
pub trait Session {
    /// Shows a row, in a transaction of its own.
    fn get(&mut self, key: u64, look: &mut dyn FnMut(&[u8]));
    /// Shows a row in each of 1,024 transactions.
    fn get_batch(&mut self, keys: &[u64; BATCH], look: &mut dyn FnMut(u64, &[u8])) {
        for &key in keys {
            self.get(key, &mut |value| look(key, value));
        }
    }
    /// Shows the first rows of a range, in a transaction of their own.
    fn scan(&mut self, keys: Range<u64>, limit: usize, visit: &mut dyn FnMut(u64, &[u8]));
    /// Writes a row that exists, in a transaction of its own; returns how often that was tried in vain.
    fn put(&mut self, key: u64, value: &[u8]) -> u64 {
        self.transact(&mut |txn| txn.write(key, value))
    }
    /// Runs a transaction until it commits; returns how often it was tried in vain.
    fn transact(&mut self, body: &mut Body<'_>) -> u64;
}

/// A transaction, at the strongest isolation that its engine offers.
pub trait Transaction {
    /// Shows a row, which is there.
    fn read(&mut self, key: u64, look: &mut dyn FnMut(&[u8])) -> Result<(), Lost>;
    /// Writes a row, whether it is there or not.
    fn write(&mut self, key: u64, value: &[u8]) -> Result<(), Lost>;
    /// Shows the first rows of a range.
    fn scan(&mut self, keys: Range<u64>, limit: usize, visit: &mut dyn FnMut(u64, &[u8])) -> Result<(), Lost>;
}

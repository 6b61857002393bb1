//! Ermine: in memory, or in a directory without waiting for the device.

use std::ops::{ControlFlow, Range};

use ::ermine::{Database, Durability, Error, Options, Result, Scheme, Table};

use super::{BATCH, Body, Engine, Lost, Place, Session, Transaction};

pub struct Ermine {
    db: Database,
    table: Table<u64, Vec<u8>>,
}

impl Ermine {
    pub fn open(place: &Place, scheme: Scheme) -> Self {
        let mut options = Options::default().scheme(scheme).durability(Durability::Async);
        // All that it takes is counted, so the limit is larger than a cache: as by default in a control group.
        options.memory_limit = place.memory.map(|bytes| bytes / 4 * 3);
        let db = match &place.directory {
            Some(directory) => Database::open(directory, options),
            None => Database::open_in_memory(options),
        };
        let db = db.expect("a database opens");
        let table = db.table("rows").expect("a table opens");
        Self { db, table }
    }
}

impl Engine for Ermine {
    fn session(&self) -> Box<dyn Session + '_> {
        Box::new(self)
    }
}

impl Session for &Ermine {
    fn get(&mut self, key: u64, look: &mut dyn FnMut(&[u8])) {
        let read: Result<_> = self.db.run(|txn| Ok(txn.view(&self.table, &key)?.map(&mut *look)));
        read.expect("a read commits").expect("all rows are there");
    }

    fn get_batch(&mut self, keys: &[u64; BATCH], look: &mut dyn FnMut(u64, &[u8])) {
        let read = self.db.run_many(
            keys,
            |key, rows| rows.row(&self.table, *key),
            |txn, key| Ok(txn.view(&self.table, *key)?.map(|value| look(**key, value))),
        );
        for read in read {
            let read: Result<_> = read;
            read.expect("a read commits").expect("all rows are there");
        }
    }

    fn scan(&mut self, keys: Range<u64>, limit: usize, visit: &mut dyn FnMut(u64, &[u8])) {
        self.transact(&mut |txn| txn.scan(keys.clone(), limit, visit));
    }

    fn transact(&mut self, body: &mut Body<'_>) -> u64 {
        let mut tries = 0;
        let done: Result<()> = self.db.run(|txn| {
            tries += 1;
            let mut attempt = Attempt { txn, table: &self.table, error: None };
            body(&mut attempt).map_err(|Lost| attempt.error.expect("the engine says why"))
        });
        done.expect("transactions commit");
        tries - 1
    }
}

/// One attempt of a transaction. `Database::run` needs the error by which an attempt ended.
struct Attempt<'t, 'db> {
    txn: &'t ::ermine::Transaction<'db>,
    table: &'t Table<u64, Vec<u8>>,
    error: Option<Error>,
}

impl Attempt<'_, '_> {
    fn checked<T>(&mut self, result: Result<T>) -> std::result::Result<T, Lost> {
        result.map_err(|error| {
            self.error = Some(error);
            Lost
        })
    }
}

impl Transaction for Attempt<'_, '_> {
    fn read(&mut self, key: u64, look: &mut dyn FnMut(&[u8])) -> std::result::Result<(), Lost> {
        let read = self.txn.view(self.table, &key).map(|value| look(value.expect("all rows are there")));
        self.checked(read)
    }

    fn write(&mut self, key: u64, value: &[u8]) -> std::result::Result<(), Lost> {
        let written = self.txn.put(self.table, &key, value);
        self.checked(written)
    }

    fn scan(
        &mut self,
        keys: Range<u64>,
        limit: usize,
        visit: &mut dyn FnMut(u64, &[u8]),
    ) -> std::result::Result<(), Lost> {
        let scanned = self.txn.scan(self.table, keys).limit(limit).for_each(|key, value| {
            visit(key, value);
            Ok(ControlFlow::Continue(()))
        });
        self.checked(scanned.map(|_| ()))
    }
}

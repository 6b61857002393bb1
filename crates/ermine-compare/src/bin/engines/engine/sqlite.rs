//! SQLite with a write-ahead log: one writer at a time, which makes every transaction serializable. Each session is a
//! connection with prepared statements.
//!
//! The log is synchronized by checkpoints only. If memory is not limited, the file is mapped, so that its pages are
//! cached once, by the system, and not by each connection. A map beyond memory would be read ahead of random reads.

use std::{ops::Range, path::PathBuf, time::Duration};

use rusqlite::{Connection, OptionalExtension, params};

use super::{Body, Engine, Lost, Place, Session, Transaction, memory::Home};

const MAP_BYTES: i64 = 64 << 30;
/// A writer waits for another one for as long as it takes.
const WAIT: Duration = Duration::from_secs(600);

/// The part of a limited cache that each connection has: one in so many. There are few of them.
const CONNECTIONS: u64 = 4;

pub struct Sqlite {
    path: PathBuf,
    cache: Option<u64>,
    _home: Home,
}

impl Sqlite {
    pub fn open(place: &Place) -> Self {
        let home = place.home();
        let engine = Self { path: home.path().join("rows.sqlite"), cache: place.cache(), _home: home };
        let connection = engine.connect();
        let table = "CREATE TABLE IF NOT EXISTS rows (key INTEGER PRIMARY KEY, value BLOB NOT NULL)";
        connection.execute_batch(table).expect("a table is created");
        engine
    }

    fn connect(&self) -> Connection {
        let connection = Connection::open(&self.path).expect("a database opens");
        connection.busy_timeout(WAIT).expect("a timeout is set");
        let set = |name, value: &dyn rusqlite::ToSql| {
            connection.pragma_update(None, name, value).expect("an option of a connection is set");
        };
        set("journal_mode", &"WAL");
        set("synchronous", &"NORMAL");
        match self.cache {
            // Negative: in KiB.
            Some(bytes) => set("cache_size", &-((bytes / CONNECTIONS / 1024) as i64)),
            None => set("mmap_size", &MAP_BYTES),
        }
        connection
    }
}

impl Engine for Sqlite {
    fn session(&self) -> Box<dyn Session + '_> {
        Box::new(self.connect())
    }
}

impl Session for Connection {
    fn get(&mut self, key: u64, look: &mut dyn FnMut(&[u8])) {
        read(self, key, look);
    }

    fn scan(&mut self, keys: Range<u64>, limit: usize, visit: &mut dyn FnMut(u64, &[u8])) {
        scan(self, keys, limit, visit);
    }

    fn transact(&mut self, body: &mut Body<'_>) -> u64 {
        execute(self, "BEGIN IMMEDIATE");
        assert!(body(self).is_ok(), "the only writer loses no conflict");
        execute(self, "COMMIT");
        0
    }
}

impl Transaction for Connection {
    fn read(&mut self, key: u64, look: &mut dyn FnMut(&[u8])) -> Result<(), Lost> {
        read(self, key, look);
        Ok(())
    }

    fn write(&mut self, key: u64, value: &[u8]) -> Result<(), Lost> {
        let mut statement = self.prepare_cached("REPLACE INTO rows VALUES (?1, ?2)").expect("a statement is prepared");
        statement.execute(params![key as i64, value]).expect("a put succeeds");
        Ok(())
    }

    fn scan(&mut self, keys: Range<u64>, limit: usize, visit: &mut dyn FnMut(u64, &[u8])) -> Result<(), Lost> {
        scan(self, keys, limit, visit);
        Ok(())
    }
}

fn execute(connection: &Connection, statement: &str) {
    let mut statement = connection.prepare_cached(statement).expect("a statement is prepared");
    statement.execute([]).expect("a statement succeeds");
}

fn read(connection: &Connection, key: u64, look: &mut dyn FnMut(&[u8])) {
    let mut statement = connection.prepare_cached("SELECT value FROM rows WHERE key = ?1").expect("it is prepared");
    let read = statement.query_row([key as i64], |row| {
        look(row.get_ref(0)?.as_blob()?);
        Ok(())
    });
    read.optional().expect("a read succeeds").expect("all rows are there");
}

fn scan(connection: &Connection, keys: Range<u64>, limit: usize, visit: &mut dyn FnMut(u64, &[u8])) {
    let statement = "SELECT key, value FROM rows WHERE key >= ?1 AND key < ?2 ORDER BY key LIMIT ?3";
    let mut statement = connection.prepare_cached(statement).expect("it is prepared");
    let range = params![keys.start as i64, keys.end as i64, limit as i64];
    let mut rows = statement.query(range).expect("a scan begins");
    while let Some(row) = rows.next().expect("a scan succeeds") {
        let key: i64 = row.get(0).expect("the column has a key");
        visit(key as u64, row.get_ref(1).expect("the column is there").as_blob().expect("the column has bytes"));
    }
}

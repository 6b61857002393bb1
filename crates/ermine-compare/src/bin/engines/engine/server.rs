//! A server that speaks PostgreSQL's protocol, at SERIALIZABLE and without waiting for the device (`synchronous_commit
//! = off`). Each session is a connection with prepared statements. Transactions of one statement are no blocks.
//!
//! Every statement is a round trip, also in blocks, since the next one depends on what it returns.

use std::{fmt::Write as _, io::Write as _, ops::Range};

use postgres::{
    Client, Error, NoTls, Statement,
    error::SqlState,
    types::{ToSql, Type},
};

use super::{Body, Engine, LOADED, Lost, Session, Transaction};
use crate::value::value;

pub struct Server {
    address: String,
}

impl Server {
    pub fn new(address: &str) -> Self {
        Self { address: address.to_owned() }
    }

    fn connect(&self) -> Client {
        let mut client = Client::connect(&self.address, NoTls).expect("the server accepts a connection");
        let set = "SET default_transaction_isolation = 'serializable'; SET synchronous_commit = off";
        client.batch_execute(set).expect("the options of a session are set");
        client
    }
}

impl Engine for Server {
    fn load(&self, rows: u64, value_bytes: usize) {
        let mut client = self.connect();
        let create = "DROP TABLE IF EXISTS rows; CREATE TABLE rows (key int8 PRIMARY KEY, value bytea NOT NULL)";
        client.batch_execute(create).expect("a table is created");
        for first in (0..rows).step_by(100 * LOADED) {
            let mut copy = client.copy_in("COPY rows FROM STDIN").expect("rows can be copied");
            for key in first..rows.min(first + 100 * LOADED as u64) {
                let mut line = format!("{key}\t\\\\x");
                value(key, value_bytes).iter().for_each(|byte| write!(line, "{byte:02x}").expect("memory is written"));
                line.push('\n');
                copy.write_all(line.as_bytes()).expect("rows are copied");
            }
            copy.finish().expect("rows are copied");
        }
        client.batch_execute("VACUUM ANALYZE rows").expect("the table is analyzed");
    }

    fn session(&self) -> Box<dyn Session + '_> {
        let mut client = self.connect();
        let mut prepare = |text, types: &[Type]| client.prepare_typed(text, types).expect("a statement is prepared");
        Box::new(Connection {
            read: prepare("SELECT value FROM rows WHERE key = $1", &[Type::INT8]),
            scan: prepare(
                "SELECT key, value FROM rows WHERE key >= $1 AND key < $2 ORDER BY key LIMIT $3",
                &[Type::INT8, Type::INT8, Type::INT8],
            ),
            update: prepare("UPDATE rows SET value = $2 WHERE key = $1", &[Type::INT8, Type::BYTEA]),
            insert: prepare("INSERT INTO rows VALUES ($1, $2)", &[Type::INT8, Type::BYTEA]),
            client,
        })
    }
}

struct Connection {
    client: Client,
    read: Statement,
    scan: Statement,
    update: Statement,
    insert: Statement,
}

impl Connection {
    fn control(&mut self, statement: &str) -> Result<(), Lost> {
        unless_lost(self.client.batch_execute(statement))
    }
}

impl Session for Connection {
    fn get(&mut self, key: u64, look: &mut dyn FnMut(&[u8])) {
        while self.read(key, look).is_err() {}
    }

    fn scan(&mut self, keys: Range<u64>, limit: usize, visit: &mut dyn FnMut(u64, &[u8])) {
        while Transaction::scan(self, keys.clone(), limit, visit).is_err() {}
    }

    fn put(&mut self, key: u64, value: &[u8]) -> u64 {
        (0..).find(|_| self.write(key, value).is_ok()).expect("it commits before")
    }

    fn transact(&mut self, body: &mut Body<'_>) -> u64 {
        for tries in 0.. {
            self.control("BEGIN").unwrap_or_else(|Lost| unreachable!("nothing has been read"));
            if body(self).is_err() {
                self.control("ROLLBACK").unwrap_or_else(|Lost| unreachable!("a rollback loses nothing"));
            } else if self.control("COMMIT").is_ok() {
                return tries;
            }
        }
        unreachable!("it commits before")
    }
}

impl Transaction for Connection {
    fn read(&mut self, key: u64, look: &mut dyn FnMut(&[u8])) -> Result<(), Lost> {
        let read = unless_lost(self.client.query_opt(&self.read, &[&(key as i64)]))?;
        look(read.expect("all rows are there").get(0));
        Ok(())
    }

    fn write(&mut self, key: u64, value: &[u8]) -> Result<(), Lost> {
        let row: [&(dyn ToSql + Sync); 2] = [&(key as i64), &value];
        if unless_lost(self.client.execute(&self.update, &row))? == 0 {
            unless_lost(self.client.execute(&self.insert, &row))?;
        }
        Ok(())
    }

    fn scan(&mut self, keys: Range<u64>, limit: usize, visit: &mut dyn FnMut(u64, &[u8])) -> Result<(), Lost> {
        let range: [&(dyn ToSql + Sync); 3] = [&(keys.start as i64), &(keys.end as i64), &(limit as i64)];
        for row in unless_lost(self.client.query(&self.scan, &range))? {
            visit(row.get::<_, i64>(0) as u64, row.get(1));
        }
        Ok(())
    }
}

/// Sorts out the conflicts, which a further try may win.
fn unless_lost<T>(result: Result<T, Error>) -> Result<T, Lost> {
    result.map_err(|error| match error.code() {
        Some(&SqlState::T_R_SERIALIZATION_FAILURE | &SqlState::T_R_DEADLOCK_DETECTED) => Lost,
        _ => panic!("a statement fails: {error:?}"),
    })
}

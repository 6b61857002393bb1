//! redb: a copy-on-write tree with one writer at a time, which makes every transaction serializable.
//!
//! Commits do not wait for the device (`Durability::None`), but for one every tenth of a second: only such a commit
//! frees pages, and without any the file would grow for as long as the program runs.

use std::{
    ops::Range,
    sync::Mutex,
    time::{Duration, Instant},
};

use ::redb::{Builder, Database, Durability, ReadableDatabase, ReadableTable, Table, TableDefinition};

use super::{Body, Engine, Lost, Place, Session, Transaction, memory::Home};

const ROWS: TableDefinition<u64, &[u8]> = TableDefinition::new("rows");
/// The cache where memory is not limited: all rows.
const CACHE_BYTES: u64 = 4 << 30;
const DURABLE_EVERY: Duration = Duration::from_millis(100);

pub struct Redb {
    db: Database,
    durable: Mutex<Instant>,
    _home: Home,
}

impl Redb {
    pub fn open(place: &Place) -> Self {
        let home = place.home();
        let mut builder = Builder::new();
        builder.set_cache_size(place.cache().unwrap_or(CACHE_BYTES) as usize);
        let db = builder.create(home.path().join("rows.redb")).expect("a database opens");
        let txn = db.begin_write().expect("a writer begins");
        txn.open_table(ROWS).expect("a table opens");
        txn.commit().expect("a writer commits");
        Self { db, durable: Mutex::new(Instant::now()), _home: home }
    }

    fn durability(&self) -> Durability {
        let mut last = self.durable.lock().expect("no thread panicked");
        if last.elapsed() < DURABLE_EVERY {
            return Durability::None;
        }
        *last = Instant::now();
        Durability::Immediate
    }
}

impl Engine for Redb {
    fn session(&self) -> Box<dyn Session + '_> {
        Box::new(self)
    }
}

impl Session for &Redb {
    fn get(&mut self, key: u64, look: &mut dyn FnMut(&[u8])) {
        let txn = self.db.begin_read().expect("a reader begins");
        read(&txn.open_table(ROWS).expect("the table opens"), key, look);
    }

    fn scan(&mut self, keys: Range<u64>, limit: usize, visit: &mut dyn FnMut(u64, &[u8])) {
        let txn = self.db.begin_read().expect("a reader begins");
        scan(&txn.open_table(ROWS).expect("the table opens"), keys, limit, visit);
    }

    fn transact(&mut self, body: &mut Body<'_>) -> u64 {
        let mut txn = self.db.begin_write().expect("a writer begins");
        txn.set_durability(self.durability()).expect("no savepoint was made");
        let mut table = txn.open_table(ROWS).expect("the table opens");
        assert!(body(&mut table).is_ok(), "the only writer loses no conflict");
        drop(table);
        txn.commit().expect("a writer commits");
        0
    }
}

impl Transaction for Table<'_, u64, &'static [u8]> {
    fn read(&mut self, key: u64, look: &mut dyn FnMut(&[u8])) -> Result<(), Lost> {
        read(self, key, look);
        Ok(())
    }

    fn write(&mut self, key: u64, value: &[u8]) -> Result<(), Lost> {
        self.insert(key, value).expect("a put succeeds");
        Ok(())
    }

    fn scan(&mut self, keys: Range<u64>, limit: usize, visit: &mut dyn FnMut(u64, &[u8])) -> Result<(), Lost> {
        scan(self, keys, limit, visit);
        Ok(())
    }
}

fn read(table: &impl ReadableTable<u64, &'static [u8]>, key: u64, look: &mut dyn FnMut(&[u8])) {
    look(table.get(key).expect("a read succeeds").expect("all rows are there").value());
}

fn scan(
    table: &impl ReadableTable<u64, &'static [u8]>,
    keys: Range<u64>,
    limit: usize,
    visit: &mut dyn FnMut(u64, &[u8]),
) {
    for row in table.range(keys).expect("a scan begins").take(limit) {
        let (key, value) = row.expect("a scan succeeds");
        visit(key.value(), value.value());
    }
}

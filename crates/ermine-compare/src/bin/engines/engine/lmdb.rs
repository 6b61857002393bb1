//! LMDB: a memory-mapped tree with one writer at a time, which makes every transaction serializable.
//!
//! Nothing is synchronized. Without a directory its file is in memory, and the map is written in place; with one, the
//! writer copies pages and writes them to the file, so that the map is only read.

use std::ops::{Bound, Range};

use heed::{Database, Env, EnvFlags, EnvOpenOptions, RoTxn, RwTxn, types::Bytes};

use super::{Body, Engine, Lost, Place, Session, Transaction, memory::Home};

/// The size of the map: an upper bound of the file.
const MAP_BYTES: usize = 64 << 30;

type Rows = Database<Bytes, Bytes>;

pub struct Lmdb {
    env: Env,
    table: Rows,
    _home: Home,
}

impl Lmdb {
    pub fn open(place: &Place) -> Self {
        let home = place.home();
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_BYTES);
        // Beyond memory, pages that are read ahead of random reads would replace those in use.
        let by_place = if home.is_temporary() { EnvFlags::WRITE_MAP } else { EnvFlags::NO_READ_AHEAD };
        // SAFETY: the directory is this process's own, and the file is not opened twice. Without synchronization, a
        // crash of the system may lose the file, which is removed anyway.
        let env = unsafe {
            options.flags(EnvFlags::NO_SYNC | EnvFlags::NO_META_SYNC | by_place);
            options.open(home.path()).expect("an environment opens")
        };
        let mut txn = env.write_txn().expect("a writer begins");
        let table = env.create_database(&mut txn, None).expect("a table is created");
        txn.commit().expect("a writer commits");
        Self { env, table, _home: home }
    }
}

impl Engine for Lmdb {
    fn session(&self) -> Box<dyn Session + '_> {
        Box::new(self)
    }
}

impl Session for &Lmdb {
    fn get(&mut self, key: u64, look: &mut dyn FnMut(&[u8])) {
        let txn = self.env.read_txn().expect("a reader begins");
        read(&self.table, &txn, key, look);
    }

    fn scan(&mut self, keys: Range<u64>, limit: usize, visit: &mut dyn FnMut(u64, &[u8])) {
        let txn = self.env.read_txn().expect("a reader begins");
        scan(&self.table, &txn, keys, limit, visit);
    }

    fn transact(&mut self, body: &mut Body<'_>) -> u64 {
        let txn = self.env.write_txn().expect("a writer begins");
        let mut writer = Writer { txn, table: self.table };
        assert!(body(&mut writer).is_ok(), "the only writer loses no conflict");
        writer.txn.commit().expect("a writer commits");
        0
    }
}

struct Writer<'e> {
    txn: RwTxn<'e>,
    table: Rows,
}

impl Transaction for Writer<'_> {
    fn read(&mut self, key: u64, look: &mut dyn FnMut(&[u8])) -> Result<(), Lost> {
        read(&self.table, &self.txn, key, look);
        Ok(())
    }

    fn write(&mut self, key: u64, value: &[u8]) -> Result<(), Lost> {
        self.table.put(&mut self.txn, &key.to_be_bytes(), value).expect("a put succeeds");
        Ok(())
    }

    fn scan(&mut self, keys: Range<u64>, limit: usize, visit: &mut dyn FnMut(u64, &[u8])) -> Result<(), Lost> {
        scan(&self.table, &self.txn, keys, limit, visit);
        Ok(())
    }
}

fn read(table: &Rows, txn: &RoTxn, key: u64, look: &mut dyn FnMut(&[u8])) {
    let read = table.get(txn, &key.to_be_bytes()).expect("a read succeeds");
    look(read.expect("all rows are there"));
}

fn scan(table: &Rows, txn: &RoTxn, keys: Range<u64>, limit: usize, visit: &mut dyn FnMut(u64, &[u8])) {
    let (first, end) = (keys.start.to_be_bytes(), keys.end.to_be_bytes());
    let range = (Bound::Included(&first[..]), Bound::Excluded(&end[..]));
    for row in table.range(txn, &range).expect("a scan begins").take(limit) {
        let (key, value) = row.expect("a scan succeeds");
        visit(u64::from_be_bytes(key.try_into().expect("eight bytes")), value);
    }
}

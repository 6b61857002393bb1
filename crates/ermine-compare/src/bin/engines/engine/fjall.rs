//! fjall: an LSM tree with optimistic transactions, which validate the rows and ranges that they read: serializable.
//!
//! Each commit is written to the journal and not synchronized; files in memory need not even that. Nothing is
//! compressed.

use std::ops::Range;

use ::fjall::{
    KeyspaceCreateOptions, OptimisticTxDatabase, OptimisticTxKeyspace, OptimisticWriteTx, Readable,
    config::CompressionPolicy,
};

use super::{Body, Engine, Lost, Place, Session, Transaction, memory::Home};

/// The cache where memory is not limited: all rows.
const CACHE_BYTES: u64 = 4 << 30;
/// The part of its memory that one buffer of written rows may take: one in so many. There are several such buffers.
const WRITE_BUFFERS: u64 = 12;

pub struct Fjall {
    db: OptimisticTxDatabase,
    table: OptimisticTxKeyspace,
    _home: Home,
}

impl Fjall {
    pub fn open(place: &Place) -> Self {
        let home = place.home();
        // Of a limited cache, a third is left to the write buffers, which are not part of it.
        let cache = place.cache().map_or(CACHE_BYTES, |bytes| bytes / 3 * 2);
        let db =
            OptimisticTxDatabase::builder(home.path()).cache_size(cache).manual_journal_persist(home.is_temporary());
        let db = db.open().expect("a database opens");
        let options = || {
            let options = KeyspaceCreateOptions::default()
                .data_block_compression_policy(CompressionPolicy::disabled())
                .index_block_compression_policy(CompressionPolicy::disabled());
            match place.cache() {
                Some(bytes) => options.max_memtable_size(bytes / WRITE_BUFFERS),
                None => options,
            }
        };
        let table = db.keyspace("rows", options).expect("a table opens");
        Self { db, table, _home: home }
    }
}

impl Engine for Fjall {
    fn session(&self) -> Box<dyn Session + '_> {
        Box::new(self)
    }
}

impl Session for &Fjall {
    fn get(&mut self, key: u64, look: &mut dyn FnMut(&[u8])) {
        // Without a transaction: one row is read from one state.
        look(&self.table.get(key.to_be_bytes()).expect("a read succeeds").expect("all rows are there"));
    }

    fn scan(&mut self, keys: Range<u64>, limit: usize, visit: &mut dyn FnMut(u64, &[u8])) {
        scan(&self.db.read_tx(), &self.table, keys, limit, visit);
    }

    fn transact(&mut self, body: &mut Body<'_>) -> u64 {
        for tries in 0.. {
            let txn = self.db.write_tx().expect("a writer begins");
            let mut attempt = Attempt { txn, table: &self.table };
            // No operation but the commit loses a conflict.
            if body(&mut attempt).is_ok() && attempt.txn.commit().expect("a commit succeeds or loses").is_ok() {
                return tries;
            }
        }
        unreachable!("it commits before")
    }
}

struct Attempt<'t> {
    txn: OptimisticWriteTx,
    table: &'t OptimisticTxKeyspace,
}

impl Transaction for Attempt<'_> {
    fn read(&mut self, key: u64, look: &mut dyn FnMut(&[u8])) -> Result<(), Lost> {
        look(&self.txn.get(self.table, key.to_be_bytes()).expect("a read succeeds").expect("all rows are there"));
        Ok(())
    }

    fn write(&mut self, key: u64, value: &[u8]) -> Result<(), Lost> {
        self.txn.insert(self.table, key.to_be_bytes(), value);
        Ok(())
    }

    fn scan(&mut self, keys: Range<u64>, limit: usize, visit: &mut dyn FnMut(u64, &[u8])) -> Result<(), Lost> {
        scan(&self.txn, self.table, keys, limit, visit);
        Ok(())
    }
}

fn scan(
    from: &impl Readable,
    table: &OptimisticTxKeyspace,
    keys: Range<u64>,
    limit: usize,
    visit: &mut dyn FnMut(u64, &[u8]),
) {
    for row in from.range(table, keys.start.to_be_bytes()..keys.end.to_be_bytes()).take(limit) {
        let (key, value) = row.into_inner().expect("a scan succeeds");
        visit(u64::from_be_bytes(key[..].try_into().expect("eight bytes")), &value);
    }
}

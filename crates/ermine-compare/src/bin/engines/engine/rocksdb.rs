//! RocksDB, with optimistic or with locking transactions.
//!
//! Both take the rows that a transaction reads into account (`GetForUpdate`), but not the ranges that it scans: of what
//! RocksDB offers, that is the strongest. Commits are not synchronized. Files in memory need no log.

use std::ops::Range;

use ::rocksdb::{
    BlockBasedOptions, Cache, DBAccess, DBRawIteratorWithThreadMode, Error, ErrorKind, OptimisticTransactionDB,
    OptimisticTransactionOptions, Options, ReadOptions, Transaction as Open, TransactionDB, TransactionDBOptions,
    TransactionOptions, WriteOptions,
};

use super::{Body, Engine, Lost, Place, Session, Transaction, memory::Home};

/// The cache where memory is not limited: all rows.
const CACHE_BYTES: u64 = 4 << 30;
/// The part of its memory that rows may take before they are written to files: one in so many.
const WRITE_BUFFERS: u64 = 4;

/// The two kinds of databases, whose methods have the same names.
pub trait Kind: DBAccess + Sync + Sized {
    fn begin(&self, options: &WriteOptions) -> Open<'_, Self>;
    fn look(&self, key: [u8; 8], look: &mut dyn FnMut(&[u8]));
    fn iterate(&self, options: ReadOptions) -> DBRawIteratorWithThreadMode<'_, Self>;
}

macro_rules! kind {
    ($db:ty, $begin:ident) => {
        impl Kind for $db {
            fn begin(&self, options: &WriteOptions) -> Open<'_, Self> {
                $begin(self, options)
            }

            fn look(&self, key: [u8; 8], look: &mut dyn FnMut(&[u8])) {
                look(&self.get_pinned(key).expect("a read succeeds").expect("all rows are there"));
            }

            fn iterate(&self, options: ReadOptions) -> DBRawIteratorWithThreadMode<'_, Self> {
                self.raw_iterator_opt(options)
            }
        }
    };
}

kind!(OptimisticTransactionDB, begin_optimistic);
kind!(TransactionDB, begin_pessimistic);

fn begin_optimistic<'d>(db: &'d OptimisticTransactionDB, options: &WriteOptions) -> Open<'d, OptimisticTransactionDB> {
    db.transaction_opt(options, &OptimisticTransactionOptions::default())
}

fn begin_pessimistic<'d>(db: &'d TransactionDB, options: &WriteOptions) -> Open<'d, TransactionDB> {
    // Rows are locked in any order.
    let mut detecting = TransactionOptions::default();
    detecting.set_deadlock_detect(true);
    db.transaction_opt(options, &detecting)
}

pub struct Rocks<D> {
    db: D,
    home: Home,
}

/// Opens a database with optimistic transactions.
pub fn optimistic(place: &Place) -> Rocks<OptimisticTransactionDB> {
    let home = place.home();
    let db = OptimisticTransactionDB::open(&options(place), home.path()).expect("a database opens");
    Rocks { db, home }
}

/// Opens a database with locking transactions.
pub fn pessimistic(place: &Place) -> Rocks<TransactionDB> {
    let home = place.home();
    let db = TransactionDB::open(&options(place), &TransactionDBOptions::default(), home.path());
    Rocks { db: db.expect("a database opens"), home }
}

/// One cache for blocks, and for filters and indexes of files; write buffers beside it. Bloom filters. Nothing is
/// compressed.
fn options(place: &Place) -> Options {
    let bytes = place.cache().unwrap_or(CACHE_BYTES);
    let buffers = bytes / WRITE_BUFFERS;
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_cache(&Cache::new_lru_cache((bytes - buffers) as usize));
    blocks.set_cache_index_and_filter_blocks(true);
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(true);
    blocks.set_bloom_filter(10.0, false);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&blocks);
    options.set_db_write_buffer_size(buffers as usize);
    options.set_write_buffer_size((buffers / 4).min(64 << 20) as usize);
    options.increase_parallelism(2);
    options
}

impl<D: Kind> Engine for Rocks<D> {
    fn session(&self) -> Box<dyn Session + '_> {
        Box::new(self)
    }
}

impl<D: Kind> Session for &Rocks<D> {
    fn get(&mut self, key: u64, look: &mut dyn FnMut(&[u8])) {
        // Without a transaction: one row is read from one state.
        self.db.look(key.to_be_bytes(), look);
    }

    fn scan(&mut self, keys: Range<u64>, limit: usize, visit: &mut dyn FnMut(u64, &[u8])) {
        scan(self.db.iterate(until(keys.end)), keys.start, limit, visit);
    }

    fn transact(&mut self, body: &mut Body<'_>) -> u64 {
        let mut options = WriteOptions::default();
        options.disable_wal(self.home.is_temporary());
        for tries in 0.. {
            let mut txn = self.db.begin(&options);
            if body(&mut txn).is_ok() && unless_lost(txn.commit()).is_ok() {
                return tries;
            }
        }
        unreachable!("it commits before")
    }
}

impl<D: Kind> Transaction for Open<'_, D> {
    fn read(&mut self, key: u64, look: &mut dyn FnMut(&[u8])) -> Result<(), Lost> {
        let read = unless_lost(self.get_pinned_for_update(key.to_be_bytes(), true))?;
        look(&read.expect("all rows are there"));
        Ok(())
    }

    fn write(&mut self, key: u64, value: &[u8]) -> Result<(), Lost> {
        unless_lost(self.put(key.to_be_bytes(), value))
    }

    fn scan(&mut self, keys: Range<u64>, limit: usize, visit: &mut dyn FnMut(u64, &[u8])) -> Result<(), Lost> {
        scan(self.raw_iterator_opt(until(keys.end)), keys.start, limit, visit);
        Ok(())
    }
}

/// Sorts out the conflicts, which a further try may win.
fn unless_lost<T>(result: Result<T, Error>) -> Result<T, Lost> {
    result.map_err(|error| match error.kind() {
        ErrorKind::Busy | ErrorKind::TryAgain | ErrorKind::TimedOut | ErrorKind::Aborted => Lost,
        _ => panic!("an operation fails: {error}"),
    })
}

fn until(end: u64) -> ReadOptions {
    let mut options = ReadOptions::default();
    options.set_iterate_upper_bound(end.to_be_bytes());
    options
}

fn scan<D: DBAccess>(
    mut rows: DBRawIteratorWithThreadMode<'_, D>,
    first: u64,
    limit: usize,
    visit: &mut dyn FnMut(u64, &[u8]),
) {
    rows.seek(first.to_be_bytes());
    for _ in 0..limit {
        let Some((key, value)) = rows.item() else { break };
        visit(u64::from_be_bytes(key.try_into().expect("eight bytes")), value);
        rows.next();
    }
    rows.status().expect("a scan succeeds");
}

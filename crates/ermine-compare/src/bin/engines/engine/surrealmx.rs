//! surrealmx: versions in memory. Transactions that write are serializable, those that only read see a snapshot.

use std::ops::Range;

use ::surrealmx::{Database, Error};

use super::{Body, Engine, Lost, Place, Session, Transaction};

pub fn open(place: &Place) -> Database {
    place.assert_in_memory();
    Database::new()
}

impl Engine for Database {
    fn session(&self) -> Box<dyn Session + '_> {
        Box::new(self)
    }
}

impl Session for &Database {
    fn get(&mut self, key: u64, look: &mut dyn FnMut(&[u8])) {
        // Without a transaction: its documentation calls that linearizable, and it is faster.
        let read = self.with_value(key.to_be_bytes().as_slice(), look);
        read.expect("a read succeeds").expect("all rows are there");
    }

    fn scan(&mut self, keys: Range<u64>, limit: usize, visit: &mut dyn FnMut(u64, &[u8])) {
        let mut txn = self.transaction(false);
        scan(&txn, keys, limit, visit);
        txn.cancel().expect("a reader ends");
    }

    fn transact(&mut self, body: &mut Body<'_>) -> u64 {
        for tries in 0.. {
            let mut txn = self.transaction(true);
            // No operation but the commit loses a conflict.
            if body(&mut txn).is_ok() && is_committed(&mut txn) {
                return tries;
            }
        }
        unreachable!("it commits before")
    }
}

impl Transaction for ::surrealmx::Transaction {
    fn read(&mut self, key: u64, look: &mut dyn FnMut(&[u8])) -> Result<(), Lost> {
        let read = self.with_value(key.to_be_bytes().as_slice(), look);
        read.expect("a read succeeds").expect("all rows are there");
        Ok(())
    }

    fn write(&mut self, key: u64, value: &[u8]) -> Result<(), Lost> {
        self.set(key.to_be_bytes().as_slice(), value).expect("a put succeeds");
        Ok(())
    }

    fn scan(&mut self, keys: Range<u64>, limit: usize, visit: &mut dyn FnMut(u64, &[u8])) -> Result<(), Lost> {
        scan(self, keys, limit, visit);
        Ok(())
    }
}

fn scan(txn: &::surrealmx::Transaction, keys: Range<u64>, limit: usize, visit: &mut dyn FnMut(u64, &[u8])) {
    let (first, end) = (keys.start.to_be_bytes(), keys.end.to_be_bytes());
    let scanned = txn.scan_with(first.as_slice()..end.as_slice(), None, Some(limit), |key, value| {
        visit(u64::from_be_bytes(key[..].try_into().expect("eight bytes")), value);
        true
    });
    scanned.expect("a scan succeeds");
}

/// Commits; returns whether the transaction has lost no conflict.
fn is_committed(txn: &mut ::surrealmx::Transaction) -> bool {
    match txn.commit() {
        Ok(()) => true,
        Err(Error::KeyReadConflict | Error::KeyWriteConflict) => false,
        Err(error) => panic!("a transaction does not commit: {error}"),
    }
}

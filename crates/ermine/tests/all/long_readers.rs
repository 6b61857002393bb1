//! Goal: a transaction that reads a snapshot costs the memory of what it sees, however long others go on.
//!
//! Method: rows are updated, deleted, and inserted again under keys that came and went, each with an entry in a
//! secondary index that changes every time, beside an open reader. There must be a period of many changes after which
//! no more is in use than before it; and at the end the reader still sees what it saw at first.

use ermine::{
    Database, Isolation, Options, Result, Scheme, SecondaryIndex, Statistics, Table, Transaction, TxnOptions,
    Uniqueness,
};
use fastrand::Rng;

const KEYS: u64 = 200;

type Content = Vec<(u64, Vec<u8>)>;

struct Store {
    db: Database,
    rows: Table<u64, Vec<u8>>,
    by_number: SecondaryIndex<u64, u64, Vec<u8>>,
}

impl Store {
    fn new(scheme: Scheme) -> Self {
        let db = Database::open_in_memory(Options::default().scheme(scheme)).unwrap();
        let rows = db.table("rows").unwrap();
        let number = |_: &u64, value: &[u8]| u64::from_le_bytes(value[..8].try_into().unwrap());
        let by_number = db.index(&rows, "number", Uniqueness::NonUnique, number).unwrap();
        Self { db, rows, by_number }
    }

    /// Changes every key once on average.
    fn round(&self, number: u64, rng: &mut Rng) {
        for _ in 0..KEYS {
            let key = rng.u64(..KEYS);
            let mut value = vec![7; 100 + rng.usize(..100)];
            value[..8].copy_from_slice(&(number * KEYS + key).to_le_bytes());
            let change = |txn: &Transaction<'_>| match txn.delete(&self.rows, &key)? {
                true if rng.clone().bool() => Ok(()),
                _ => txn.put(&self.rows, &key, value.as_slice()),
            };
            self.db.run(change).unwrap();
            rng.bool();
        }
    }

    fn seen(&self, reader: &Transaction<'_>) -> Result<[Content; 2]> {
        Ok([reader.scan(&self.rows, ..).collect()?, reader.scan_by(&self.by_number, ..).collect()?])
    }

    /// Bytes of rows, slots and indexes in use, and the rows that have garbage.
    fn in_use(&self) -> (u64, u64) {
        // Housekeeping comes with transactions.
        (0..2000).for_each(|_| self.db.run(|txn| txn.get(&self.rows, &KEYS)).map(drop).unwrap());
        let Statistics { version_bytes, free_version_bytes, row_bytes, index_bytes, garbage_versions, .. } =
            self.db.statistics();
        (version_bytes - free_version_bytes + row_bytes + index_bytes, garbage_versions)
    }
}

fn check(scheme: Scheme, what: &str, begin: impl Fn(&Database) -> Result<Transaction<'_>>) {
    let store = Store::new(scheme);
    let mut rng = Rng::with_seed(9);
    (0..3).for_each(|number| store.round(number, &mut rng));
    let reader = begin(&store.db).unwrap();
    let seen = store.seen(&reader).unwrap();
    assert!(seen[0].len() > KEYS as usize / 4 && seen[0].len() == seen[1].len());
    // What piles up once, while the system holds up a thread that others wait for, stays in the pools. What is kept for
    // each change grows in every period of 20,000 changes: by four bytes, more than four of them allow.
    let mut numbers = 3..;
    let periods: Vec<_> = (0..40)
        .map(|_| {
            numbers.by_ref().take(100).for_each(|number| store.round(number, &mut rng));
            store.in_use()
        })
        .scan(Vec::new(), |before: &mut Vec<(u64, u64)>, now| {
            let is_flat = before
                .iter()
                .rev()
                .nth(3)
                .is_some_and(|then| now.0 < then.0 + (256 << 10) && now.1 < then.1 + 10 * KEYS);
            before.push(now);
            (!is_flat).then_some(now)
        })
        .collect();
    assert!(periods.len() < 40, "{scheme}, {what}: bytes and garbage grow with every change: {periods:?}");
    assert!(store.seen(&reader).unwrap() == seen, "{scheme}, {what}");
}

#[test]
fn a_snapshot_that_stays_open_costs_what_it_sees() {
    for scheme in Scheme::ALL.into_iter().filter(|scheme| scheme.has_versions() && *scheme != Scheme::Rc) {
        check(scheme, "a snapshot", Database::snapshot);
        let reader = || TxnOptions::read_only().isolation(Isolation::Snapshot);
        check(scheme, "a reader", |db| db.begin(reader()));
    }
}

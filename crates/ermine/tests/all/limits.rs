//! Goal: the limits of a database are the same under every scheme, exceeding them is an error, and open objects cost
//! little.

use ermine::{Database, Error, OPEN_TRANSACTIONS_MAX, Options, Scheme, Transaction, TxnOptions};

/// Whether one transaction excludes all others that do not read a snapshot.
fn excludes(scheme: Scheme) -> bool {
    matches!(scheme, Scheme::Serial | Scheme::Vll)
}

#[test]
fn as_many_transactions_can_be_open_under_every_scheme() {
    for scheme in Scheme::ALL {
        let database = Database::open_in_memory(Options::default().scheme(scheme)).unwrap();
        let options = if excludes(scheme) { TxnOptions::snapshot() } else { TxnOptions::default() };
        let begin = || database.begin(options.clone());
        let mut open: Vec<_> = (0..OPEN_TRANSACTIONS_MAX).map(|_| begin().unwrap()).collect();
        let refused = begin().map(drop);
        assert!(matches!(refused, Err(Error::Limit(_))), "{scheme}: {refused:?}");
        open.pop();
        open.push(begin().unwrap_or_else(|error| panic!("{scheme}: {error}")));
    }
}

#[test]
fn open_transactions_that_write_little_cost_little() {
    /// Bytes of row memory that a transaction with one small row may take.
    const EACH: u64 = 4 << 10;
    const OPEN: u64 = 1000;
    for scheme in Scheme::ALL.into_iter().filter(|&scheme| !excludes(scheme) && scheme != Scheme::Partitioned) {
        let database = Database::open_in_memory(Options::default().scheme(scheme)).unwrap();
        let table = database.table::<u64, i64>("rows").unwrap();
        let before = database.statistics().version_bytes;
        let write = |key| -> Transaction<'_> {
            let txn = database.begin(TxnOptions::default()).unwrap();
            txn.insert(&table, &key, &1).unwrap();
            txn
        };
        let open: Vec<_> = (0..OPEN).map(write).collect();
        let taken = database.statistics().version_bytes - before;
        assert!(taken <= OPEN * EACH, "{scheme}: {taken} bytes for {OPEN} transactions");
        open.into_iter().for_each(|txn| assert!(txn.commit().is_ok()));
    }
}

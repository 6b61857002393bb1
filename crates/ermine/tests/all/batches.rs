//! Batches of independent transactions.

use ermine::{Database, Error, Options, Result, Scheme, TxnOptions};

/// The schemes that need not be told what a transaction touches.
fn schemes() -> impl Iterator<Item = Scheme> {
    Scheme::ALL.into_iter().filter(|scheme| !matches!(scheme, Scheme::Vll | Scheme::Partitioned))
}

#[test]
fn each_job_is_a_transaction_of_its_own() {
    for scheme in schemes() {
        let db = Database::open_in_memory(Options::default().scheme(scheme)).unwrap();
        let accounts = db.table::<u64, i64>("accounts").unwrap();
        // Longer than a round of trials; each job sees those before it.
        let jobs = 0..5000_u64;
        let results: Vec<Result<i64>> = db.run_many(
            jobs.clone(),
            |job, rows| rows.row(&accounts, &(job % 100)),
            |txn, job| {
                let balance = txn.get(&accounts, &(job % 100))?.unwrap_or(0) + 1;
                txn.put(&accounts, &(job % 100), &balance)?;
                if job % 7 == 3 { Err(Error::Schema("refused".into())) } else { Ok(balance) }
            },
        );
        let mut balances = [0; 100];
        for (job, result) in jobs.zip(results) {
            let balance = &mut balances[job as usize % 100];
            if job % 7 == 3 {
                assert!(matches!(result, Err(Error::Schema(_))), "{scheme}: {job}");
            } else {
                *balance += 1;
                assert_eq!(result.unwrap(), *balance, "{scheme}: {job}");
            }
        }
        let stored = db.run(|txn| txn.scan(&accounts, ..).collect()).unwrap();
        assert_eq!(stored.iter().map(|row| row.1).collect::<Vec<_>>(), balances, "{scheme}");
    }
}

#[test]
fn a_hint_changes_no_result() {
    for scheme in schemes() {
        let db = Database::open_in_memory(Options::default().scheme(scheme)).unwrap();
        let other = Database::open_in_memory(Options::default()).unwrap();
        let (rows, names) = (db.table::<u64, u64>("rows").unwrap(), db.table::<String, u64>("names").unwrap());
        let foreign = other.table::<u64, u64>("rows").unwrap();
        db.run(|txn| (0..40).try_for_each(|key| txn.insert(&rows, &key, &key))).unwrap();
        // Rows of several tables, rows that do not exist, one row twice, a table of another database, no row at all.
        let results: Vec<Result<Option<u64>>> = db.run_many(
            0..40_u64,
            |job, hint| {
                (0..job % 4).for_each(|_| hint.row(&rows, job));
                hint.row(&rows, &(job + 1000));
                hint.row(&names, "nobody");
                hint.row(&foreign, job);
            },
            |txn, job| txn.get(&rows, job),
        );
        let found: Result<Vec<_>> = results.into_iter().collect();
        assert_eq!(found.unwrap(), (0..40).map(Some).collect::<Vec<_>>(), "{scheme}");
        assert!(db.run_many(0..0, |_, _| (), |_, _| Ok::<_, Error>(())).is_empty());
        let txn = db.begin(TxnOptions::default()).unwrap();
        txn.prefetch(&rows, &[1, 2, 3000]).unwrap();
        assert!(txn.prefetch(&foreign, &[1]).is_err());
        assert_eq!(txn.get(&rows, &1).unwrap(), Some(1));
        txn.commit().unwrap();
    }
}

#[test]
fn a_batch_is_durable_when_it_returns() {
    let directory = std::env::temp_dir().join(format!("ermine-batches-{}", std::process::id()));
    std::fs::create_dir(&directory).unwrap();
    let open = || Database::open(directory.join("db"), Options::default()).unwrap();
    let db = open();
    let rows = db.table::<u64, u64>("rows").unwrap();
    let results: Vec<Result<()>> =
        db.run_many(0..100_u64, |job, hint| hint.row(&rows, job), |txn, job| txn.insert(&rows, job, job));
    assert!(results.iter().all(Result::is_ok));
    drop((rows, db));
    let db = open();
    let rows = db.table::<u64, u64>("rows").unwrap();
    assert_eq!(db.run(|txn| Ok::<_, Error>(txn.scan(&rows, ..).collect()?.len())).unwrap(), 100);
    drop((rows, db));
    std::fs::remove_dir_all(&directory).unwrap();
}

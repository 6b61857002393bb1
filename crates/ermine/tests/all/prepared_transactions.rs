//! Goal: a prepared transaction commits, whatever other transactions do meanwhile, and holds up only
//! writers of what it has read.
//! Method: single cases, one after the other, under every scheme that keeps versions; histories with threads are in
//! `concurrent`, schedules in `schedules`.

use ermine::{AbortKind, Database, Isolation, Options, Result, RowLock, Scheme, Stamp, Table, Transaction, TxnOptions};

type Rows = Table<u64, u64>;

fn certified() -> impl Iterator<Item = Scheme> {
    Scheme::ALL.into_iter().filter(|scheme| scheme.has_versions() && scheme.is_serializable())
}

fn open(options: Options, keys: std::ops::Range<u64>) -> (Database, Rows) {
    let db = Database::open_in_memory(options).unwrap();
    let rows = db.table("rows").unwrap();
    db.run(|txn| keys.clone().try_for_each(|key| txn.insert(&rows, &key, &0))).unwrap();
    (db, rows)
}

fn begin(db: &Database) -> Transaction<'_> {
    db.begin(TxnOptions::default()).unwrap()
}

/// Makes one attempt to write a row.
fn write(db: &Database, rows: &Rows, key: u64) -> Result<Stamp> {
    let txn = begin(db);
    txn.put(rows, &key, &7)?;
    txn.commit()
}

fn is_refused<T: std::fmt::Debug>(done: Result<T>) -> bool {
    match done {
        Ok(_) => false,
        Err(error) => {
            assert_eq!(error.as_abort().map(|abort| abort.kind), Some(AbortKind::WriteConflict), "{error}");
            true
        }
    }
}

#[test]
fn what_was_read_is_held_until_the_end() {
    for scheme in certified() {
        for commits in [true, false] {
            let (db, rows) = open(Options::default().scheme(scheme), 0..200);
            let txn = begin(&db);
            assert_eq!(txn.get(&rows, &1).unwrap(), Some(0));
            assert_eq!(txn.get(&rows, &1000).unwrap(), None);
            assert_eq!(txn.scan(&rows, 50..60).collect().unwrap().len(), 10);
            txn.put(&rows, &100, &1).unwrap();
            assert!(txn.prepare().unwrap() && txn.prepare().unwrap(), "{scheme}");
            for held in [1, 1000, 50, 59, 100] {
                assert!(is_refused(write(&db, &rows, held)), "{scheme}: {held}");
                let other = begin(&db);
                assert_eq!(other.row_lock(&rows, &held).unwrap(), RowLock::Held);
            }
            for free in [0, 2, 49, 60, 999, 1001] {
                assert!(!is_refused(write(&db, &rows, free)), "{scheme}: {free}");
            }
            // A transaction of a lower level is refused, too.
            let other = db.begin(TxnOptions::default().isolation(Isolation::Snapshot)).unwrap();
            assert!(is_refused(other.put(&rows, &55, &1)), "{scheme}");
            // Readers see the state before.
            let reader = begin(&db);
            assert_eq!((reader.get(&rows, &100).unwrap(), reader.get(&rows, &55).unwrap()), (Some(0), Some(0)));
            reader.commit().unwrap();
            if commits {
                txn.commit().unwrap();
            } else {
                txn.rollback();
            }
            for key in [1, 1000, 50, 59, 100] {
                assert!(!is_refused(write(&db, &rows, key)), "{scheme}: {key}");
            }
        }
    }
}

#[test]
fn a_writer_from_before_the_prepare_loses_at_its_commit() {
    for scheme in certified() {
        let (db, rows) = open(Options::default().scheme(scheme), 0..10);
        let (txn, writer, inserter) = (begin(&db), begin(&db), begin(&db));
        txn.get(&rows, &1).unwrap();
        txn.scan(&rows, 5..200).collect().unwrap();
        txn.put(&rows, &3, &1).unwrap();
        writer.put(&rows, &1, &1).unwrap();
        inserter.insert(&rows, &100, &1).unwrap();
        let is_prepared = txn.prepare().unwrap();
        // Without a snapshot it is not known what the transaction saw of a range into which a row was inserted.
        assert_eq!(is_prepared, scheme.reads_snapshot(), "{scheme}");
        if is_prepared {
            assert!(is_refused(writer.commit()) && is_refused(inserter.commit()), "{scheme}");
        }
        drop(txn.commit());
    }
}

#[test]
fn a_transaction_whose_reads_were_overwritten_is_not_prepared() {
    for scheme in certified() {
        let (db, rows) = open(Options::default().scheme(scheme), 0..10);
        for change in [1, 100] {
            let txn = begin(&db);
            txn.get(&rows, &1).unwrap();
            txn.scan(&rows, 50..200).collect().unwrap();
            write(&db, &rows, change).unwrap();
            assert!(!txn.prepare().unwrap(), "{scheme}: {change}");
            // The refused transaction holds nothing.
            write(&db, &rows, 1).unwrap();
            drop(txn);
        }
        // The same holds between transactions that are prepared.
        let (one, other) = (begin(&db), begin(&db));
        one.get(&rows, &1).unwrap();
        one.put(&rows, &2, &1).unwrap();
        other.get(&rows, &2).unwrap();
        other.put(&rows, &1, &1).unwrap();
        assert!(one.prepare().unwrap() && !other.prepare().unwrap(), "{scheme}");
        one.commit().unwrap();
        // It holds as well for rows inserted into a range, whether the reader met them in flight or not.
        for (key, is_seen) in [(350, false), (360, true)] {
            let (one, other) = (begin(&db), begin(&db));
            let look = || assert!(other.scan(&rows, 300..400).collect().unwrap().iter().all(|(found, _)| *found < key));
            if !is_seen {
                look();
            }
            one.insert(&rows, &key, &1).unwrap();
            if is_seen {
                look();
            }
            assert!(one.prepare().unwrap() && !other.prepare().unwrap(), "{scheme}: {is_seen}");
            one.commit().unwrap();
        }
        // A transaction that asked for less is prepared with what it writes, and counts as well.
        let (one, other) = (db.begin(TxnOptions::default().isolation(Isolation::Snapshot)).unwrap(), begin(&db));
        one.put(&rows, &5, &1).unwrap();
        other.get(&rows, &5).unwrap();
        assert!(one.prepare().unwrap() && !other.prepare().unwrap(), "{scheme}");
        one.commit().unwrap();
    }
}

/// Reads that are tracked only in their table hold all of it.
#[test]
fn untracked_reads_hold_their_table() {
    for scheme in [Scheme::SiSsn, Scheme::SiSsi] {
        for whole in [false, true] {
            let mut options = Options::default().scheme(scheme);
            options.stale_after = Some(0);
            options.escalate_after = whole.then_some(0);
            let (db, rows) = open(options, 0..10);
            let others: Rows = db.table("others").unwrap();
            db.run(|txn| txn.put(&others, &1, &1)).unwrap();
            let txn = begin(&db);
            txn.get(&rows, &1).unwrap();
            assert!(txn.prepare().unwrap());
            assert!(is_refused(write(&db, &rows, 1)) && is_refused(write(&db, &rows, 9)), "{scheme} {whole}");
            write(&db, &others, 1).unwrap();
            txn.commit().unwrap();
            write(&db, &rows, 9).unwrap();
            // A writer that was prepared earlier pushes at its commit.
            for isolation in [Isolation::Scheme, Isolation::Snapshot] {
                let (reader, writer) = (begin(&db), db.begin(TxnOptions::default().isolation(isolation)).unwrap());
                reader.get(&rows, &2).unwrap();
                writer.put(&rows, &2, &1).unwrap();
                reader.put(&others, &2, &1).unwrap();
                assert!(writer.prepare().unwrap() && !reader.prepare().unwrap(), "{scheme} {whole} {isolation:?}");
                writer.commit().unwrap();
            }
        }
    }
}

#[test]
fn what_was_read_is_shown_as_ranges() {
    let (db, rows) = open(Options::default(), 0..10);
    let txn = begin(&db);
    txn.get(&rows, &1).unwrap();
    txn.scan(&rows, 4..6).collect().unwrap();
    let shown = |txn: &Transaction<'_>| {
        let mut shown = Vec::new();
        txn.reads(|table, lower, upper| {
            shown.push((table.to_owned(), format!("{lower:?} {upper:?}")));
            Ok(())
        })
        .unwrap();
        shown
    };
    assert!(shown(&txn).is_empty(), "nothing is held yet");
    assert!(txn.prepare().unwrap());
    let all = shown(&txn);
    assert!(all.len() >= 2 && all.iter().all(|(table, _)| table == "rows"), "{all:?}");
    assert!(db.begin(TxnOptions::default()).unwrap().prepare().unwrap(), "nothing was read");
    let silo = Database::open_in_memory(Options::default().scheme(Scheme::Silo)).unwrap();
    assert!(!silo.begin(TxnOptions::default()).unwrap().prepare().unwrap());
}

/// The writer has inserted the row that the prepared transaction missed, and one from before its savepoint; it commits
/// the other one alone.
#[test]
fn an_insert_that_was_rolled_back_overwrites_nothing() {
    for scheme in certified().filter(|scheme| scheme.reads_snapshot()) {
        let (db, rows) = open(Options::default().scheme(scheme), 0..10);
        let mut writer = begin(&db);
        writer.insert(&rows, &100, &1).unwrap();
        let savepoint = writer.savepoint().unwrap();
        writer.insert(&rows, &101, &1).unwrap();
        writer.insert(&rows, &102, &1).unwrap();
        let txn = begin(&db);
        assert_eq!(txn.get(&rows, &101).unwrap(), None);
        txn.put(&rows, &3, &1).unwrap();
        assert!(txn.prepare().unwrap(), "{scheme}");
        writer.roll_back_to(savepoint).unwrap();
        writer.insert(&rows, &103, &1).unwrap();
        writer.commit().unwrap();
        let reader = begin(&db);
        assert_eq!((reader.get(&rows, &3).unwrap(), reader.get(&rows, &103).unwrap()), (Some(0), Some(1)));
        reader.commit().unwrap();
        txn.commit().unwrap();
        let stored = db.run(|txn| txn.scan(&rows, 99..).collect()).unwrap();
        assert_eq!(stored, [(100, 1), (103, 1)], "{scheme}");
    }
}

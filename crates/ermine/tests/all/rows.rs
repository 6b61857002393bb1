//! Goal: lookups by an index, counts, changes in place and iterators do what the operations do that they are made of,
//! and are part of the transaction's reads as those are.
//! Method: each against the plain operations under every scheme; iterations of every length around the ends of batches.

use ermine::{Database, Error, Options, Scheme, SecondaryIndex, Table, TxnOptions, Uniqueness};

fn databases() -> impl Iterator<Item = Database> {
    Scheme::ALL.into_iter().map(|scheme| Database::open_in_memory(Options::default().scheme(scheme)).unwrap())
}

type Names = (Table<u64, String>, SecondaryIndex<String, u64, String>, SecondaryIndex<u8, u64, String>);

/// Names in the opposite order of their keys, with a unique index and one over their lengths.
fn named(db: &Database, rows: u64) -> Names {
    let table = db.table("names").unwrap();
    let by_name = db.index(&table, "by name", Uniqueness::Unique, |_, name: &str| name.to_owned()).unwrap();
    let by_length = db.index(&table, "by length", Uniqueness::NonUnique, |_, name: &str| name.len() as u8).unwrap();
    db.run(|txn| (0..rows).try_for_each(|n| txn.insert(&table, &n, &format!("n{:04}", rows - n)))).unwrap();
    (table, by_name, by_length)
}

#[test]
fn a_row_is_found_by_the_key_of_an_index() {
    for db in databases() {
        let (table, by_name, by_length) = named(&db, 10);
        db.run(|txn| {
            assert_eq!(txn.find_by(&by_name, "n0003")?, Some((7, "n0003".to_owned())));
            assert_eq!(txn.find_by(&by_name, "n000")?, None, "a part of a key is another key");
            assert_eq!(txn.find_by(&by_length, &5)?.map(|(key, _)| key), Some(0), "the first of several");
            txn.put(&table, &7, "other")?;
            assert_eq!(txn.find_by(&by_name, "n0003")?, None, "its own writes are seen");
            assert_eq!(txn.find_by(&by_name, "other")?.map(|(key, _)| key), Some(7));
            Ok::<_, Error>(())
        })
        .unwrap();
    }
}

/// A name that was looked up in vain, and is inserted by another transaction before the commit.
#[test]
fn a_lookup_by_an_index_is_certified() {
    let db = Database::open_in_memory(Options::default()).unwrap();
    let (table, by_name, _) = named(&db, 3);
    let (one, other) = (db.begin(TxnOptions::default()).unwrap(), db.begin(TxnOptions::default()).unwrap());
    assert_eq!(one.find_by(&by_name, "one").unwrap(), None);
    assert_eq!(other.find_by(&by_name, "other").unwrap(), None);
    one.put(&table, &10, "other").unwrap();
    other.put(&table, &11, "one").unwrap();
    let ends = [one.commit(), other.commit()];
    assert_eq!(ends.iter().filter(|end| end.is_ok()).count(), 1, "{ends:?}");
}

#[test]
fn a_row_is_changed_in_place() {
    for db in databases() {
        let (table, ..) = named(&db, 3);
        db.run(|txn| {
            let longer = txn.modify(&table, &1, |name| {
                name.push('!');
                Ok(name.len())
            })?;
            assert_eq!(longer, Some(6));
            assert_eq!(txn.get(&table, &1)?.as_deref(), Some("n0002!"));
            assert_eq!(txn.modify(&table, &9, |_| Ok(()))?, None);
            let failed = txn.modify(&table, &2, |name| {
                name.clear();
                Err::<(), _>(Error::other("no"))
            });
            assert!(matches!(failed, Err(Error::Application(_))), "{failed:?}");
            assert_eq!(txn.get(&table, &2)?.as_deref(), Some("n0001"), "nothing is written where the change fails");
            Ok::<_, Error>(())
        })
        .unwrap();
    }
}

/// Batches end behind 16, 48, 112, 240, 496 and 752 rows.
#[test]
fn iterations_return_what_scans_collect() {
    for db in databases() {
        for rows in [0, 1, 15, 16, 17, 48, 49, 300] {
            let table = db.table::<u64, u64>(&format!("{rows} rows")).unwrap();
            let reversed = db.index(&table, "reversed", Uniqueness::NonUnique, move |key, _| (rows - key) / 3).unwrap();
            db.run(|txn| (0..rows).try_for_each(|n| txn.insert(&table, &n, &(n * n)))).unwrap();
            db.run(|txn| {
                let rows_of = |rows: ermine::Rows<'_, _, u64, u64>| rows.collect::<ermine::Result<Vec<_>>>();
                for limit in [0, 1, 16, 40, 48, usize::MAX] {
                    let scan = || txn.scan(&table, ..).limit(limit);
                    assert_eq!(rows_of(scan().into_iter())?, scan().collect()?);
                    assert_eq!(rows_of(scan().rev().into_iter())?, scan().rev().collect()?);
                    assert_eq!(scan().count()?, limit.min(rows as usize));
                    let by_index = || txn.scan_by(&reversed, 1..).limit(limit);
                    assert_eq!(rows_of(by_index().into_iter())?, by_index().collect()?);
                    assert_eq!(rows_of(by_index().rev().into_iter())?, by_index().rev().collect()?);
                }
                Ok::<_, Error>(())
            })
            .unwrap();
        }
    }
}

/// A row that another transaction inserts where one batch ends and the next begins.
#[test]
fn no_gap_between_batches_is_unread() {
    let db = Database::open_in_memory(Options::default()).unwrap();
    let (table, sums) = (db.table::<u64, u64>("numbers").unwrap(), db.table::<u64, u64>("sums").unwrap());
    db.run(|txn| (0..40u64).try_for_each(|n| txn.insert(&table, &(2 * n), &1))).unwrap();
    for at in [29, 31, 33] {
        let (reader, writer) = (db.begin(TxnOptions::default()).unwrap(), db.begin(TxnOptions::default()).unwrap());
        let sum: u64 = reader.scan(&table, ..).into_iter().map(|row| row.unwrap().1).sum();
        reader.put(&sums, &at, &sum).unwrap();
        assert_eq!(writer.get(&sums, &at).unwrap(), None);
        writer.insert(&table, &at, &1).unwrap();
        writer.commit().unwrap();
        let lost = reader.commit().unwrap_err();
        assert!(lost.as_abort().is_some(), "{lost}");
    }
}

#[test]
fn an_iteration_ends_with_an_error() {
    let [db, other] = [(); 2].map(|()| Database::open_in_memory(Options::default()).unwrap());
    let foreign = other.table::<u64, u64>("numbers").unwrap();
    let txn = db.begin(TxnOptions::default()).unwrap();
    let mut rows = txn.scan(&foreign, ..).into_iter();
    assert!(matches!(rows.next(), Some(Err(Error::Schema(_)))));
    assert!(rows.next().is_none());
}

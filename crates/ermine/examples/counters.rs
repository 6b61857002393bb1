//! Counters that many threads raise: exact ones, and one that is split so that its writers do not meet.
//!
//! `cargo run -p ermine --example counters`

use std::thread;

use ermine::{Database, Error, Options, Result, Table, TxnOptions, prefix};

// ANCHOR: one
/// Raises a counter; returns its new value.
fn raise(db: &Database, counters: &Table<String, u64>, name: &str) -> Result<u64> {
    db.run(|txn| {
        let raised = txn.modify(counters, name, |count| {
            *count += 1;
            Ok(*count)
        })?;
        if let Some(count) = raised {
            return Ok(count);
        }
        txn.insert(counters, name, &1)?;
        Ok(1)
    })
}
// ANCHOR_END: one

// ANCHOR: split
/// Raises one of the parts of a counter: threads with different parts never conflict.
fn raise_part(db: &Database, parts: &Table<(String, u32), u64>, name: &str, part: u32) -> Result<()> {
    db.run(|txn| {
        let count = txn.get(parts, &(name, part))?.unwrap_or(0);
        txn.put(parts, &(name, part), &(count + 1))
    })
}

/// Returns the counter's value, of one moment, without a conflict with any writer.
fn sum(db: &Database, parts: &Table<(String, u32), u64>, name: &str) -> Result<u64> {
    db.run_with(TxnOptions::snapshot(), |txn| {
        txn.scan(parts, prefix((name,))).into_iter().map(|row| row.map(|(_, count)| count)).sum()
    })
}
// ANCHOR_END: split

fn main() -> Result<(), Error> {
    let db = Database::open_in_memory(Options::default())?;
    let (counters, parts) = (db.table("counters")?, db.table("parts of counters")?);
    thread::scope(|scope| {
        for thread in 0..4 {
            let (db, counters, parts) = (&db, &counters, &parts);
            scope.spawn(move || {
                for _ in 0..250 {
                    raise(db, counters, "visits").unwrap();
                    raise_part(db, parts, "visits", thread).unwrap();
                }
            });
        }
    });
    assert_eq!(raise(&db, &counters, "visits")?, 1001);
    assert_eq!(sum(&db, &parts, "visits")?, 1000);
    println!("1000 visits were counted twice, and {} attempts lost", db.statistics().aborts.total());
    Ok(())
}

//! Changes: another system follows the rows of a table, and goes on where it was when it is started again.
//!
//! `cargo run -p ermine --example changes`

use std::{collections::BTreeMap, time::Duration};

use ermine::{Change, Database, Error, Options, Order, Table, TxnOptions};

/// The other system: a copy of the table, with the position up to which it has the changes.
#[derive(Default)]
struct Search {
    stock: BTreeMap<String, u64>,
    position: Option<u64>,
}

impl Search {
    /// Begins with the rows that there are.
    fn begin(&mut self, db: &Database, stock: &Table<String, u64>) -> Result<(), Error> {
        // ANCHOR: begin
        // First the position, then the rows: what commits in between comes twice, and nothing is missed.
        let position = db.changes(None)?.position();
        let rows = db.begin(TxnOptions::snapshot().order(Order::Strict))?.scan(stock, ..).collect()?;
        db.sync()?; // what the snapshot has seen is durable
        // ANCHOR_END: begin
        (self.stock, self.position) = (rows.into_iter().collect(), Some(position));
        Ok(())
    }

    /// Follows until nothing happens for a while.
    fn follow(&mut self, db: &Database, stock: &Table<String, u64>) -> Result<(), Error> {
        // ANCHOR: follow
        let mut changes = db.changes(self.position)?;
        while changes.wait(Duration::from_millis(50))? {
            while let Some(transaction) = changes.next()? {
                for change in &transaction.changes {
                    let Change::Row(row) = change else { continue }; // a table was created, renamed or dropped
                    match row.of(stock)? {
                        Some((key, Some(value))) => drop(self.stock.insert(key, value)),
                        Some((key, None)) => drop(self.stock.remove(&key)),
                        None => {} // a row of another table
                    }
                }
                // A system that keeps its state in a file or a database writes both in one step.
                self.position = Some(changes.position());
            }
            self.position = Some(changes.position());
        }
        // ANCHOR_END: follow
        Ok(())
    }
}

fn main() -> Result<(), Error> {
    let path = std::env::temp_dir().join(format!("ermine-example-changes-{}", std::process::id()));
    // ANCHOR: open
    // The log has what changes are made from, and a gigabyte of it is kept for a system that is behind.
    let options = Options::default().log_keys(true).keep_log(1 << 30);
    let db = Database::open(&path, options.clone())?;
    // ANCHOR_END: open
    let stock = db.table::<String, u64>("stock")?;
    db.run(|txn| txn.put(&stock, "tea", &100))?;

    let mut search = Search::default();
    search.begin(&db, &stock)?;
    db.run(|txn| {
        txn.put(&stock, "tea", &99)?;
        txn.put(&stock, "cups", &12)
    })?;
    search.follow(&db, &stock)?;
    assert_eq!(search.stock, BTreeMap::from([("cups".to_owned(), 12), ("tea".to_owned(), 99)]));

    db.run(|txn| txn.delete(&stock, "tea"))?; // the other system is not there
    drop(db);

    let db = Database::open(&path, options)?;
    let stock = db.table::<String, u64>("stock")?;
    search.follow(&db, &stock)?;
    assert_eq!(search.stock, BTreeMap::from([("cups".to_owned(), 12)]));
    println!("the copy has {:?}, as of position {:?}", search.stock, search.position);

    drop(db);
    std::fs::remove_dir_all(&path).map_err(Error::other)
}

//! A backup of a database in use, and a restore to a moment before a mistake.
//!
//! `cargo run -p ermine --example backup`

use ermine::{Database, Error, Options, TxnOptions, Until, restore};

fn main() -> Result<(), Error> {
    let root = std::env::temp_dir().join(format!("ermine-example-backup-{}", std::process::id()));
    let (shop, archive, monday, copy) =
        (root.join("shop"), root.join("archive"), root.join("monday"), root.join("before the mistake"));
    std::fs::create_dir(&root).map_err(Error::other)?;

    // ANCHOR: backup
    // The archive keeps the log, so that a restore can reach any moment after a backup.
    let db = Database::open(&shop, Options::default().archive(&archive))?;
    let stock = db.table::<String, u64>("stock")?;
    db.run(|txn| txn.put(&stock, "tea", &100))?;
    let report = db.backup(&monday)?; // while transactions go on
    // ANCHOR_END: backup
    println!("{} files, {} bytes", report.files, report.bytes);

    let sale = db.begin(TxnOptions::default())?;
    sale.put(&stock, "tea", &70)?;
    let after_the_sale = sale.commit()?;
    db.run(|txn| txn.delete(&stock, "tea"))?; // the mistake

    // ANCHOR: restore
    db.archive_now()?; // a close does it, too
    let until = Until::Lsn(after_the_sale.as_u64()); // or `Until::Time`
    restore(&monday, Some(&archive), &copy, until, &mut |_| {})?;

    let restored = Database::open(&copy, Options::default())?;
    let stock = restored.table::<String, u64>("stock")?;
    assert_eq!(restored.run(|txn| txn.get(&stock, "tea"))?, Some(70));
    // ANCHOR_END: restore
    println!("the restored shop has 70 teas");
    drop((db, restored));
    std::fs::remove_dir_all(&root).map_err(Error::other)
}

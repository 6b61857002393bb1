//! A standby: a copy of a database in use that receives its log, can be read, and takes its place when it is lost.
//!
//! `cargo run -p ermine --example standby`

use std::{sync::mpsc, thread, time::Duration};

use ermine::{Database, Error, HotStandby, LogPiece, Options};

fn main() -> Result<(), Error> {
    let root = std::env::temp_dir().join(format!("ermine-example-standby-{}", std::process::id()));
    let (shop, copy) = (root.join("shop"), root.join("standby"));
    std::fs::create_dir(&root).map_err(Error::other)?;

    // ANCHOR: standby
    // The original keeps a gigabyte of its log for a standby that is behind, and logs keys for one that is read.
    let db = Database::open(&shop, Options::default().keep_log(1 << 30).log_keys(true))?;
    let stock = db.table::<String, u64>("stock")?;
    db.run(|txn| txn.put(&stock, "tea", &100))?;

    // The standby begins with a backup.
    db.backup(&copy)?;
    let mut standby = HotStandby::open(&copy, Options::default())?;
    let (from, image) = (standby.position(), standby.database().clone());

    // A channel stands for the network between two machines; any carrier will do.
    let (send, receive) = mpsc::channel::<LogPiece>();
    let receiving = thread::spawn(move || {
        for piece in receive {
            standby.receive(&piece)?; // durable, and readable, when it returns
        }
        Ok::<_, Error>(standby)
    });

    db.run(|txn| txn.put(&stock, "tea", &70))?;
    db.mark_safe_snapshot(); // for serializable readers of the standby
    db.sync()?;

    let mut reader = db.log_reader(Some(from))?;
    while reader.wait(Duration::from_millis(50))? {
        while let Some(piece) = reader.next(1 << 20)? {
            send.send(piece).map_err(Error::other)?;
        }
    }
    // ANCHOR_END: standby
    drop(send);
    let standby = receiving.join().expect("the standby does not panic")?;

    // ANCHOR: read
    let stock_there = image.table::<String, u64>("stock")?;
    let tea = image.run(|txn| txn.get(&stock_there, "tea"))?;
    assert_eq!(tea, Some(70));
    let report = image.snapshot()?; // serializable with what the original commits
    assert_eq!(report.get(&stock_there, "tea")?, Some(70));
    assert!(matches!(image.run(|txn| txn.put(&stock_there, "tea", &0)), Err(Error::Standby)));
    drop(report);
    // ANCHOR_END: read

    // ANCHOR: promote
    drop((db, image)); // the original is lost, and readers of the standby have ended

    println!("the standby has the log up to {}", standby.position());
    standby.promote()?;
    let db = Database::open(&copy, Options::default())?;
    let stock = db.table::<String, u64>("stock")?;
    assert_eq!(db.run(|txn| txn.get(&stock, "tea"))?, Some(70));
    // ANCHOR_END: promote
    drop(db);
    std::fs::remove_dir_all(&root).map_err(Error::other)
}

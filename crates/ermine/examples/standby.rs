//! A standby: a copy of a database in use that receives its log, and takes its place when it is lost.
//!
//! `cargo run -p ermine --example standby`

use std::{sync::mpsc, thread, time::Duration};

use ermine::{Database, Error, LogPiece, LogReceiver, Options};

fn main() -> Result<(), Error> {
    let root = std::env::temp_dir().join(format!("ermine-example-standby-{}", std::process::id()));
    let (shop, copy) = (root.join("shop"), root.join("standby"));
    std::fs::create_dir(&root).map_err(Error::other)?;

    // ANCHOR: standby
    // The original keeps a gigabyte of its log for a standby that is behind.
    let db = Database::open(&shop, Options::default().keep_log(1 << 30))?;
    let stock = db.table::<String, u64>("stock")?;
    db.run(|txn| txn.put(&stock, "tea", &100))?;

    // The standby begins with a backup.
    db.backup(&copy)?;
    let mut standby = LogReceiver::open(&copy)?;
    let from = standby.position();

    // A channel stands for the network between two machines; any carrier will do.
    let (send, receive) = mpsc::channel::<LogPiece>();
    let receiving = thread::spawn(move || {
        for piece in receive {
            standby.receive(&piece)?; // durable when it returns
        }
        Ok::<_, Error>(standby)
    });

    db.run(|txn| txn.put(&stock, "tea", &70))?;

    let mut reader = db.log_reader(Some(from))?;
    while reader.wait(Duration::from_millis(50))? {
        while let Some(piece) = reader.next(1 << 20)? {
            send.send(piece).map_err(Error::other)?;
        }
    }
    // ANCHOR_END: standby
    drop(send);

    // ANCHOR: promote
    drop(db); // the original is lost

    let standby = receiving.join().expect("the standby does not panic")?;
    println!("the standby has the log up to {}", standby.position());
    standby.promote()?;
    let db = Database::open(&copy, Options::default())?;
    let stock = db.table::<String, u64>("stock")?;
    assert_eq!(db.run(|txn| txn.get(&stock, "tea"))?, Some(70));
    // ANCHOR_END: promote
    drop(db);
    std::fs::remove_dir_all(&root).map_err(Error::other)
}

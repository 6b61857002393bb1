//! Goal: recovery and failures are reported to the application's logger.
//! Method: a logger that keeps the messages. A process has one logger, to which every database of it reports: the test
//! has a process of its own.

use std::sync::{Arc, Mutex};

use ermine::{Database, Options, Table};
use ermine_testing::faulty::{Attempt, Fault, FaultyDirectory};

type Accounts = Table<u64, String>;

fn open(directory: &FaultyDirectory) -> Database {
    let options = Options::default().log_buffer_bytes(1 << 20).segment_bytes(1 << 20);
    Database::open_in(Arc::new(directory.clone()), options).unwrap()
}

/// Keeps the messages that are logged.
struct Kept(Mutex<Vec<(log::Level, String)>>);

impl log::Log for Kept {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        self.0.lock().unwrap().push((record.level(), record.args().to_string()));
    }

    fn flush(&self) {}
}

#[test]
fn recovery_and_failures_are_logged() {
    static KEPT: Kept = Kept(Mutex::new(Vec::new()));
    log::set_logger(&KEPT).unwrap();
    log::set_max_level(log::LevelFilter::Info);
    let has = |level, parts: &[&str]| {
        let kept = KEPT.0.lock().unwrap();
        kept.iter().any(|(of, message)| *of == level && parts.iter().all(|part| message.contains(part)))
    };
    let directory = FaultyDirectory::new();
    let db = open(&directory);
    let accounts: Accounts = db.table("accounts").unwrap();
    (0..4321).for_each(|key| db.run_async(|txn| txn.put(&accounts, &key, "x")).map(drop).unwrap());
    drop(db);
    let db = open(&directory);
    while db.statistics().unloaded_rows > 0 {
        std::thread::yield_now();
    }
    let accounts: Accounts = db.table("accounts").unwrap();
    directory.fail_when(|_, attempt| matches!(attempt, Attempt::Sync(_)).then_some(Fault::Broken));
    db.run(|txn| txn.put(&accounts, &0, "y")).unwrap_err();
    drop(db);
    assert!(has(log::Level::Info, &["recovering", "no checkpoint", "MiB of log"]));
    assert!(has(log::Level::Info, &["is open: 4321 rows in 1 tables, ", " transactions in "]));
    assert!(has(log::Level::Info, &["43", " rows were read into memory in "]));
    assert!(has(log::Level::Error, &["the log is broken"]));
}

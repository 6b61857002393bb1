//! The end of the server: clients outside of transactions are disconnected at once, a client in a transaction may
//! finish it.

use std::{
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

use super::{
    fake::Fake,
    raw::{Raw, query, startup},
    support::{options, start, start_with},
};

#[test]
fn transactions_may_finish() {
    let mut server = start();
    let (mut idle, mut open) = (Raw::connect(server.address), Raw::connect(server.address));
    open.query("BEGIN");
    server.control.end();
    assert_eq!(idle.until_closed(), ["FATAL 57P01"]);
    let mut late = Raw::open(server.address);
    late.send(&[startup(0, &[("user", "eva")])]);
    assert_eq!(late.until_closed(), ["FATAL 57P03"]);
    assert_eq!(open.query("INSERT"), ["INSERT 0 1", "ready Transaction"]);
    assert_eq!(open.query("COMMIT"), ["COMMIT", "ready Idle"]);
    assert_eq!(open.until_closed(), ["FATAL 57P01"]);
    server.join();
}

#[test]
fn but_not_for_ever() {
    let mut hasty = options();
    hasty.drain_max = Duration::from_millis(200);
    let mut server = start_with(Fake::default(), hasty);
    let (mut open, mut busy, mut slow) =
        (Raw::connect(server.address), Raw::connect(server.address), Raw::connect(server.address));
    open.query("BEGIN");
    busy.send(&[query("SLEEP 120000")]);
    slow.send(&[query("ROWS 1000000")]);
    let counts = || [&server.counts.long, &server.counts.rows].map(|count| count.load(Ordering::Relaxed));
    let mut waits = 0;
    while counts().contains(&0) {
        thread::sleep(Duration::from_millis(2));
        waits += 1;
        assert!(waits < 100_000, "the statements do not begin");
    }
    let began = Instant::now();
    server.control.end();
    assert_eq!(open.until_closed(), ["FATAL 57P01"]);
    assert_eq!(busy.until_closed(), ["ERROR 57014", "ready Idle", "FATAL 57P01"]);
    server.join();
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}

#[test]
fn said_twice_ends_at_once() {
    let mut patient = options();
    patient.drain_max = Duration::from_secs(120);
    let mut server = start_with(Fake::default(), patient);
    let mut open = Raw::connect(server.address);
    open.query("BEGIN");
    let began = Instant::now();
    server.control.end();
    server.control.end();
    assert_eq!(open.until_closed(), ["FATAL 57P01"]);
    server.join();
    assert!(began.elapsed() < Duration::from_secs(60));
}

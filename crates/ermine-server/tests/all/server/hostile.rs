//! Clients that are slow, gone, too many or hostile: their cost is bounded, and no other client notices.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

use super::{
    fake::Fake,
    raw::{Raw, bind, execute, message, parse, query, startup, sync},
    support::{options, start, start_with},
};

/// Checks that other clients are served.
fn serves(raw: &mut Raw) {
    assert_eq!(raw.query("SELECT 1")[2], "SELECT 1");
}

#[test]
fn garbage_ends_its_connection_only() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let server = start();
    let mut other = Raw::connect(server.address);
    let whole = [
        query("SELECT 1"),
        parse("s", "SELECT $1"),
        bind("p", "s", &["7"]),
        execute("p", 0),
        sync(),
        query("ROWS 3"),
        message(b'D', b"Ss\0"),
        message(b'C', b"Ss\0"),
    ]
    .concat();
    for round in 0..300 {
        let mut socket = TcpStream::connect(server.address).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(if round % 3 == 0 { 20 } else { 1 }))).unwrap();
        let start = startup(0, &[("user", "eva")]);
        let bytes = match round % 3 {
            // Arbitrary bytes, from the first one on.
            0 => (0..random.usize(1..200)).map(|_| random.u8(..)).collect(),
            // Valid messages with some bytes changed.
            1 => {
                let mut bytes = whole.clone();
                for _ in 0..random.usize(1..6) {
                    let at = random.usize(..bytes.len());
                    bytes[at] = random.u8(..);
                }
                [start, bytes].concat()
            }
            // Valid messages that are cut.
            _ => [start, whole[..random.usize(..whole.len())].to_vec()].concat(),
        };
        for chunk in bytes.chunks(random.usize(1..64)) {
            if socket.write_all(chunk).is_err() {
                break;
            }
        }
        let _ = socket.read(&mut [0; 1024]);
        if round % 20 == 0 {
            serves(&mut other);
        }
    }
    serves(&mut other);
    server.wait_for_sessions(1);
}

#[test]
fn malformed_messages_are_told_of() {
    let server = start();
    for bytes in [message(b'!', b""), message(b'B', b"\0"), b"Q\0\0\0\x01".to_vec(), b"Q\x7f\xff\xff\xff".to_vec()] {
        let mut raw = Raw::connect(server.address);
        raw.send(&[bytes]);
        assert_eq!(raw.until_closed(), ["FATAL 08P01"]);
    }
    let mut raw = Raw::open(server.address);
    raw.send(&[b"GET / HTTP/1.1\r\n\r\n".to_vec()]);
    assert_eq!(raw.until_closed(), ["FATAL 08P01"]);
}

#[test]
fn a_panic_ends_its_connection_only() {
    let server = start();
    let (mut raw, mut other) = (Raw::connect(server.address), Raw::connect(server.address));
    raw.send(&[query("PANIC")]);
    assert_eq!(raw.until_closed(), [""; 0]);
    serves(&mut other);
    server.wait_for_sessions(1);
}

#[test]
fn too_many_clients_are_refused() {
    let mut few = options();
    few.connections_max = 2;
    let server = start_with(Fake::default(), few);
    let (first, mut second) = (Raw::connect(server.address), Raw::connect(server.address));
    let mut third = Raw::open(server.address);
    third.send(&[startup(0, &[("user", "eva")])]);
    assert_eq!(third.until_closed(), ["FATAL 53300"]);
    drop(first);
    server.wait_for_sessions(1);
    serves(&mut Raw::connect(server.address));
    serves(&mut second);
}

#[test]
fn a_thousand_idle_clients() {
    let mut many = options();
    many.connections_max = 1001;
    let server = start_with(Fake::default(), many);
    let mut idle: Vec<Raw> = (0..1000).map(|_| Raw::connect(server.address)).collect();
    let (mut busy, began) = (Raw::connect(server.address), Instant::now());
    for _ in 0..200 {
        serves(&mut busy);
    }
    println!("200 queries beside 1000 idle clients: {:?}", began.elapsed());
    assert_eq!(server.control.sessions(), 1001);
    for raw in idle.iter_mut().step_by(97) {
        serves(raw);
    }
}

#[test]
fn a_slow_reader_is_waited_for() {
    let server = start();
    let (mut slow, mut other) = (Raw::connect(server.address), Raw::connect(server.address));
    // 113 MB, of which sockets and buffers hold a few.
    slow.send(&[query("ROWS 1000000")]);
    let rows = || server.counts.rows.load(Ordering::Relaxed);
    let stopped = loop {
        let before = rows();
        thread::sleep(Duration::from_millis(200));
        if rows() == before && before > 0 {
            break before;
        }
    };
    assert!(stopped < 200_000, "{stopped} rows were made for a client that reads nothing");
    for _ in 0..10 {
        serves(&mut other);
    }
    let mut bytes = 0_u64;
    let mut chunk = [0; 65536];
    let end = [&b"SELECT 1000000\0"[..], b"Z\0\0\0\x05I"].concat();
    loop {
        let count = slow.socket.read(&mut chunk).unwrap();
        bytes += count as u64;
        if count == 0 || chunk[..count].ends_with(&end[end.len().saturating_sub(count)..]) {
            break;
        }
    }
    assert!(bytes > 100_000_000, "{bytes}");
    assert_eq!(rows(), 1_000_000);
}

#[test]
fn whoever_reads_nothing_for_too_long_is_cut_off() {
    let mut hasty = options();
    hasty.stall_max = Duration::from_millis(300);
    let server = start_with(Fake::default(), hasty);
    let mut slow = Raw::connect(server.address);
    slow.send(&[query("ROWS 1000000")]);
    server.wait_for_sessions(0);
    assert!(server.counts.rows.load(Ordering::Relaxed) < 200_000);
}

#[test]
fn what_is_begun_has_to_be_completed() {
    // In less than this, connections are made beside other load.
    const LIMIT: Duration = Duration::from_millis(1500);
    let mut hasty = options();
    hasty.authentication_max = LIMIT;
    hasty.message_max = LIMIT;
    hasty.message_bytes_max = 1 << 20;
    let server = start_with(Fake::default(), hasty);
    let mut raw = Raw::open(server.address);
    raw.send(&[startup(0, &[("user", "eva")])[..15].to_vec()]);
    assert_eq!(raw.until_closed(), [""; 0], "the server does not wait for a startup packet");

    let mut raw = Raw::connect(server.address);
    raw.send(&[query("SELECT 1")[..7].to_vec()]);
    assert_eq!(raw.until_closed(), ["FATAL 08P01"]);

    // A byte now and then does not prolong the time limit.
    let mut raw = Raw::connect(server.address);
    let began = Instant::now();
    raw.send(&[message(b'Q', &[b' '; 10_000])[..5].to_vec()]);
    let mut is_open = true;
    while is_open && began.elapsed() < 20 * LIMIT {
        is_open = raw.socket.write_all(b" ").is_ok();
        thread::sleep(Duration::from_millis(50));
    }
    assert!(!is_open, "each byte prolongs the limit");
    let seen = raw.until_closed();
    assert_eq!(seen.first().map(|seen| &**seen), Some("FATAL 08P01"));

    let mut raw = Raw::connect(server.address);
    thread::sleep(2 * LIMIT);
    serves(&mut raw);
    let long = format!("SELECT '{}'", "x".repeat(900_000));
    assert_eq!(raw.query(&long)[2], "SELECT 1");
    raw.send(&[message(b'Q', &vec![b'x'; 2 << 20])[..100].to_vec()]);
    assert_eq!(raw.until_closed(), ["FATAL 08P01"]);
}

#[test]
fn silence_within_a_transaction_ends() {
    let server = start();
    let mut raw = Raw::connect(server.address);
    raw.query("SET idle_in_transaction_session_timeout = 100");
    thread::sleep(Duration::from_millis(200));
    raw.query("BEGIN");
    assert_eq!(raw.until_closed(), ["FATAL 25P03"]);
}

//! The cost of the protocol: prepared point queries over a backend that does no work, as `pgbench -S -M prepared` sends
//! them (Bind, Describe, Execute, Sync), beside loops that parse nothing. With optimizations, and one of them alone
//! with `ONLY=inline`:
//! `cargo test --release -p ermine-server --test all -- --ignored --nocapture protocol_cost`
//!
//! 2026-11-22, two cores, busy with other builds; queries per second and server CPU per query, 1 and 8 connections:
//!
//! | | 1 | 8 |
//! |---|---|---|
//! | bare, a thread per connection | 63.7 k/s, 7.4 us | 118 k/s, 7.9 us |
//! | bare, tokio | 56.3 k/s, 8.5 us | 80 to 95 k/s, 8.0 us |
//! | the server | 51.4 k/s, 9.9 us | 76.6 k/s, 10.2 us |
//! | the server, every statement in `block_in_place` | 30.3 k/s, 23.0 us | 33.5 k/s, 19.1 us |
//!
//! One connection has two modes here, whatever the server: where both sides share a core it is as above, where each
//! wakes up an idle core it is 17 k/s and 21 to 26 us, for bare loops as well. Compare runs of one mode only.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use super::{
    fake::Fake,
    raw::{Raw, describe, execute, message, parse, sync},
    support::{options, start_with},
};

/// Returns a query with a parameter in binary, for results in binary.
fn point(key: i32) -> Vec<u8> {
    let mut body = b"\0s\0\0\x01\0\x01\0\x01\0\0\0\x04".to_vec();
    body.extend(key.to_be_bytes());
    body.extend(*b"\0\x01\0\x01");
    [message(b'B', &body), describe('P', ""), execute("", 0), sync()].concat()
}

/// Returns the processor time of this process's serving threads, in seconds.
fn server_seconds() -> f64 {
    let mut ticks = 0;
    for task in fs::read_dir("/proc/self/task").unwrap().flatten() {
        let Ok(stat) = fs::read_to_string(task.path().join("stat")) else { continue };
        let (name, rest) = stat.split_once('(').unwrap().1.rsplit_once(')').unwrap();
        if name.starts_with("ermined") || name.starts_with("tokio") {
            let fields: Vec<&str> = rest.split_whitespace().collect();
            ticks += fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        }
    }
    ticks as f64 / 100.0
}

fn drive(socket: &mut TcpStream, until: Instant) -> u64 {
    let (mut count, mut reply) = (0, [0; 4096]);
    while Instant::now() < until {
        for key in 0..100 {
            socket.write_all(&point(key)).unwrap();
            let mut length = 0;
            // The end of the reply: ready, and idle.
            while length == 0 || !reply[..length].ends_with(b"Z\0\0\0\x05I") {
                length += socket.read(&mut reply[length..]).unwrap();
            }
            count += 1;
        }
    }
    count
}

/// Answers every query with the same bytes and parses nothing: the upper bound of sockets.
fn bare(mut socket: TcpStream, reply: &[u8]) {
    let mut input = [0; 8192];
    while socket.read(&mut input).is_ok_and(|count| count > 0) && socket.write_all(reply).is_ok() {}
}

/// The same in tokio.
async fn bare_task(mut socket: tokio::net::TcpStream, reply: Vec<u8>) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut input = [0; 8192];
    while socket.read(&mut input).await.is_ok_and(|count| count > 0) && socket.write_all(&reply).await.is_ok() {}
}

/// Measures a number of clients for a fixed time; `is_server` says that they prepare their statement.
fn measure(name: &str, connections: u64, address: SocketAddr, is_server: bool) {
    let (began_at, began) = (server_seconds(), Instant::now());
    let until = began + Duration::from_secs(SECONDS);
    if std::env::var("ONLY").is_ok_and(|only| !name.contains(&only)) {
        return;
    }
    let clients: Vec<_> = (0..connections)
        .map(|_| {
            thread::spawn(move || {
                let mut raw = if is_server { Raw::connect(address) } else { Raw::open(address) };
                if is_server {
                    raw.send(&[parse("s", "POINT $1"), sync()]);
                    raw.until_ready();
                }
                (drive(&mut raw.socket, until), raw)
            })
        })
        .collect();
    let (counts, still_open): (Vec<u64>, Vec<Raw>) = clients.into_iter().map(|client| client.join().unwrap()).unzip();
    let count: u64 = counts.iter().sum();
    let cost = (server_seconds() - began_at) / count as f64 * 1e6;
    let rate = count as f64 / began.elapsed().as_secs_f64() / 1000.0;
    drop(still_open);
    println!("{name:20} {connections} connections: {rate:5.1} k/s, {cost:5.2} us of server CPU a query");
}

const SECONDS: u64 = 2;

#[test]
#[ignore = "a measurement"]
fn protocol_cost() {
    let mut reply = message(b'2', b"");
    reply.extend(
        [message(b'T', &[1; 50]), message(b'D', &[1; 24]), message(b'C', b"SELECT 1\0"), message(b'Z', b"I")].concat(),
    );
    for connections in [1, 8] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let replied = reply.clone();
        thread::spawn(move || {
            for socket in listener.incoming().take(connections as usize).flatten() {
                let reply = replied.clone();
                socket.set_nodelay(true).unwrap();
                thread::Builder::new().name("ermined".into()).spawn(move || bare(socket, &reply)).unwrap();
            }
        });
        measure("bare, threads", connections, address, false);
        for (name, threads) in [("bare, tokio of 1", 1), ("bare, tokio of 8", 8)] {
            let mut options = options();
            options.fixed.threads = Some(threads);
            let runtime = options.runtime().unwrap();
            let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
            let (address, reply) = (listener.local_addr().unwrap(), reply.clone());
            runtime.spawn(async move {
                while let Ok((socket, _)) = listener.accept().await {
                    socket.set_nodelay(true).unwrap();
                    tokio::spawn(bare_task(socket, reply.clone()));
                }
            });
            measure(name, connections, address, false);
            runtime.shutdown_background();
        }
        for (name, waits, threads) in
            [("inline, 8 threads", false, 8), ("inline, 1 thread", false, 1), ("block_in_place", true, 8)]
        {
            let mut options = options();
            options.fixed.threads = Some(threads);
            let server = start_with(Fake { waits, ..Fake::default() }, options);
            measure(name, connections, server.address, true);
        }
    }
}

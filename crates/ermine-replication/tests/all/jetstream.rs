//! The log in JetStream, against real servers on this machine, with their files synchronized at each message.
//!
//! Method: `scripts/nats` builds and starts them. Where it cannot, the tests say so and end. Ports are free ones from
//! `ERMINE_TEST_NATS_PORT` on (22000).

use std::{
    path::{Path, PathBuf},
    pin::Pin,
    process::Command,
    sync::atomic::{AtomicU16, Ordering},
    task::{Context, Poll},
    time::Duration,
};

use ermine_replication::{
    End, Fence, Follower, Identity, Piece, Position, PublishError, Publisher, ReplicatedLog, Sequence,
    jetstream::{JetStream, OpenError, Options},
    log::{AppendError, BlobError, LeaseError, LogReader, ReadError},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, ReadBuf},
    task::JoinHandle,
};

use crate::conformance::conforms;

const IDENTITY: Identity = Identity(*b"a jetstream test");
/// For tests in which no lease is to expire and no operation to fail by itself, on a machine that is busy.
const LONG: Duration = Duration::from_secs(10);
/// For tests in which servers fail.
const SHORT: Duration = Duration::from_secs(2);

/// Servers, and a directory for their files.
struct Servers {
    directory: PathBuf,
    ports: Vec<u16>,
}

/// Runs `scripts/nats`; returns its exit status.
fn script(arguments: &[&str]) -> i32 {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/nats");
    Command::new(script).args(arguments).status().unwrap().code().unwrap_or(-1)
}

/// Returns a port that is free, with the next one.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = std::env::var("ERMINE_TEST_NATS_PORT").map_or(22000, |port| port.parse().unwrap());
    let is_free = |port: u16| std::net::TcpListener::bind(("127.0.0.1", port)).is_ok();
    loop {
        let port = first + NEXT.fetch_add(2, Ordering::Relaxed);
        if is_free(port) && is_free(port + 1) {
            return port;
        }
    }
}

impl Servers {
    /// Starts servers. Returns nothing, and says so, if they cannot be had.
    fn start(name: &str, count: usize) -> Option<Self> {
        match script(&["build"]) {
            0 => {}
            77 => {
                println!("skipped: there is no nats-server, and it could not be built");
                return None;
            }
            status => panic!("scripts/nats build: exit status {status}"),
        }
        let directory = std::env::temp_dir().join(format!("ermine-nats-{name}-{}", std::process::id()));
        let servers = Self { directory, ports: (0..count).map(|_| free_port()).collect() };
        servers.start_all();
        Some(servers)
    }

    fn directory(&self) -> &str {
        self.directory.to_str().unwrap()
    }

    /// Starts those that do not run.
    fn start_all(&self) {
        let ports: Vec<String> = self.ports.iter().map(u16::to_string).collect();
        let mut arguments = vec!["start", self.directory()];
        arguments.extend(ports.iter().map(String::as_str));
        assert_eq!(script(&arguments), 0);
    }

    fn kill(&self, index: usize) {
        assert_eq!(script(&["kill", self.directory(), &self.ports[index].to_string()]), 0);
    }

    /// The lease lives for `patience`, and operations give up after it.
    fn options(&self, name: &str, patience: Duration) -> Options {
        let servers: Vec<String> = self.ports.iter().map(|port| format!("nats://127.0.0.1:{port}")).collect();
        Options {
            servers: servers.join(","),
            name: name.into(),
            replicas: self.ports.len(),
            lease_lifetime: patience,
            timeout: patience,
        }
    }

    /// Opens a log, after some attempts: servers elect a leader first.
    async fn open(&self, name: &str, patience: Duration) -> JetStream {
        answered(async || JetStream::open(&self.options(name, patience)).await).await
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        script(&["stop", self.directory()]);
        if !std::thread::panicking() {
            std::fs::remove_dir_all(&self.directory).unwrap();
        }
    }
}

async fn pause() {
    tokio::time::sleep(Duration::from_millis(200)).await;
}

/// Repeats an operation until the log answers.
async fn answered<T, E: std::fmt::Debug>(mut operation: impl AsyncFnMut() -> Result<T, E>) -> T {
    let mut last = None;
    for _ in 0..300 {
        match operation().await {
            Ok(value) => return value,
            Err(error) => last = Some(error),
        }
        pause().await;
    }
    panic!("{last:?}");
}

#[tokio::test]
async fn one_server_conforms() {
    let Some(servers) = Servers::start("one", 1) else { return };
    let log = servers.open("one", LONG).await;
    conforms(&log, pause).await;

    // The longest message, and one that the server refuses.
    let last = log.last().await.unwrap();
    let longest = bytes::Bytes::from(vec![7; Piece::BODY_BYTES_MAX + 88]);
    assert_eq!(log.append(last, longest.clone()).await, Ok(last.next()));
    assert_eq!(log.get(last.next()).await, Ok(Some(longest.clone())));
    let longer = log.append(last.next(), vec![0; 1 << 20].into()).await;
    assert!(matches!(longer, Err(AppendError::Refused(_))), "{longer:?}");

    // What was acknowledged is there after a crash; the log is opened as it was made.
    servers.kill(0);
    let lost = log.append(last.next(), bytes::Bytes::from_static(b"lost")).await;
    assert!(matches!(lost, Err(AppendError::Unknown(_))), "{lost:?}");
    servers.start_all();
    let log = servers.open("one", LONG).await;
    // The client may have sent the last message again.
    assert!(answered(async || log.last().await).await >= last.next());
    assert_eq!(log.get(Sequence(5)).await, Ok(Some(bytes::Bytes::from_static(b"five"))));
    assert_eq!(log.get(last.next()).await, Ok(Some(longest)));
    let other = Options { lease_lifetime: SHORT, ..servers.options("one", LONG) };
    assert!(matches!(JetStream::open(&other).await, Err(OpenError::Setting { .. })));
    for name in ["a.b", "json", "json-shop"] {
        let other = Options { name: name.into(), ..servers.options("one", LONG) };
        assert!(matches!(JetStream::open(&other).await, Err(OpenError::Name(_))), "{name}");
    }
}

#[tokio::test]
async fn three_servers_conform() {
    let Some(servers) = Servers::start("three-conform", 3) else { return };
    conforms(&servers.open("three", LONG).await, pause).await;
}

/// A source of bytes that fails.
struct Broken;

impl AsyncRead for Broken {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Err(std::io::Error::other("broken")))
    }
}

/// A blob that could not be stored leaves chunks, which the next one removes.
#[tokio::test]
async fn what_is_left_of_a_blob_is_removed() {
    let Some(servers) = Servers::start("blobs", 1) else { return };
    let log = servers.open("blobs", LONG).await;
    let client = async_nats::connect(format!("127.0.0.1:{}", servers.ports[0])).await.unwrap();
    let stream = async_nats::jetstream::new(client).get_stream("OBJ_ermine-blobs-blobs").await.unwrap();
    let messages = async || stream.get_info().await.unwrap().state.messages;
    log.put_blob("first", &b"1"[..]).await.unwrap();
    let cut = (&[7; 300_000][..]).chain(Broken);
    assert!(matches!(log.put_blob("cut", cut).await, Err(BlobError::Source(_))));
    assert!(messages().await > 2);
    log.put_blob("second", &b"2"[..]).await.unwrap();
    let names: Vec<_> = log.list_blobs().await.unwrap().into_iter().map(|blob| blob.name).collect();
    assert_eq!((messages().await, names), (4, vec!["first".to_owned(), "second".to_owned()]));
}

/// Messages that the stream no longer has are named, not skipped.
#[tokio::test]
async fn removed_messages_are_named() {
    let Some(servers) = Servers::start("removed", 1) else { return };
    let log = servers.open("removed", LONG).await;
    for sequence in 0..5 {
        log.append(Sequence(sequence), vec![sequence as u8].into()).await.unwrap();
    }
    let client = async_nats::connect(format!("127.0.0.1:{}", servers.ports[0])).await.unwrap();
    let stream = async_nats::jetstream::new(client).get_stream("ermine-removed").await.unwrap();
    stream.purge().sequence(4).await.unwrap();
    let gone = ReadError::Gone { first: Sequence(4) };
    assert_eq!(log.get(Sequence(2)).await, Err(gone.clone()));
    assert_eq!(log.read(Sequence(2)).await.unwrap().next().await, Err(gone));
    assert_eq!(log.read(Sequence(4)).await.unwrap().next().await, Ok((Sequence(4), vec![3].into())));
}

/// Publishes a piece, however often that takes, until the publisher is fenced.
async fn publish(publisher: &mut Publisher<JetStream>, number: u64) -> Result<End, Fence> {
    let mut outcome = publisher.publish(Position(number), &number.to_le_bytes()).await;
    for _ in 0..300 {
        match outcome {
            Ok(end) => return Ok(end),
            Err(PublishError::Fenced(fence)) => return Err(fence),
            Err(PublishError::Unknown(_)) => {}
            Err(error) => panic!("{error}"),
        }
        pause().await;
        outcome = publisher.settle().await;
    }
    panic!("the log does not answer");
}

/// Sequences and numbers of pieces.
type Pieces = Vec<(Sequence, u64)>;

/// Follows to the end of the stream; returns the pieces on the way.
async fn follow(log: &JetStream, end: &mut End) -> Pieces {
    let last = answered(async || log.last().await).await;
    let mut follower = Follower::new(log.clone(), IDENTITY, *end);
    let mut seen = Vec::new();
    while follower.end().sequence < last {
        let piece = answered(async || follower.next().await).await;
        if !piece.is_opening() {
            seen.push((follower.end().sequence, u64::from_le_bytes(piece.body[..].try_into().unwrap())));
        }
    }
    *end = follower.end();
    seen
}

/// Becomes the primary behind `end`; returns the pieces that were there already. The lease is renewed from then on.
async fn take_over(log: &JetStream, mut end: End) -> (Publisher<JetStream>, JoinHandle<()>, Pieces) {
    let mut found = Vec::new();
    for _ in 0..300 {
        let lease = answered(async || log.acquire("a node", None).await).await;
        found.extend(follow(log, &mut end).await);
        if let Ok(publisher) = Publisher::open(log.clone(), IDENTITY, lease, end).await {
            let keeper = publisher.keeper();
            let kept = tokio::spawn(async move {
                while keeper.renew().await != Err(LeaseError::Lost) {
                    pause().await;
                }
            });
            return (publisher, kept, found);
        }
    }
    panic!("no term was opened");
}

/// Three servers, each killed in turn while pieces are published. Another primary takes over; the first one is fenced.
#[tokio::test]
async fn three_servers_lose_nothing() {
    let Some(servers) = Servers::start("three", 3) else { return };
    let log = servers.open("stream", SHORT).await;
    let start = End::start(Position(0));
    let (mut first, mut kept, _) = take_over(&log, start).await;
    let mut reported = Vec::new();
    for number in 1..=60 {
        match number {
            10 | 25 | 40 => servers.kill(number as usize / 15),
            20 | 35 | 50 => servers.start_all(),
            _ => {}
        }
        loop {
            match publish(&mut first, number).await {
                Ok(end) => reported.push((end.sequence, number)),
                // While servers elect a leader, a lease may expire; its publisher has published the piece, or not.
                Err(fence) => {
                    println!("piece {number}: {fence}");
                    let found;
                    (first, kept, found) = take_over(&log, first.end()).await;
                    reported.extend(found);
                }
            }
            if reported.last().is_some_and(|last| last.1 == number) {
                break;
            }
        }
    }
    assert!(reported.iter().map(|piece| piece.1).eq(1..=60));

    // The lease expires. Another connection sees all pieces, and its primary fences the first one.
    kept.abort();
    let other = servers.open("stream", SHORT).await;
    let (mut second, _, seen) = take_over(&other, start).await;
    assert_eq!(seen, reported);
    let late = publish(&mut first, 61).await;
    assert!(matches!(late, Err(Fence::Foreign { .. })), "{late:?}");
    // On a busy machine, its lease may expire, too.
    let mut last = Vec::new();
    while last.is_empty() {
        match publish(&mut second, 61).await {
            Ok(end) => last.push((end.sequence, 61)),
            Err(fence) => {
                println!("piece 61: {fence}");
                (second, _, last) = take_over(&other, second.end()).await;
            }
        }
    }
    assert_eq!(follow(&log, &mut first.end()).await, last);
}

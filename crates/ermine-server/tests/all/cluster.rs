//! Goal: what a cluster has acknowledged outlives any one node, and all nodes have one history.
//! Method: three servers of NATS and three nodes of `ermined`, as processes. Clients insert numbered rows, and move
//! money between accounts, on whichever node serves; meanwhile primaries are killed, stopped for longer than their
//! lease, told to end, and cut off from NATS, and come back. Before that, the standbys begin anew from a newer base. At
//! the end, each node in turn becomes the primary: it has every acknowledged row, no row that was not sent, the same
//! sum, and the same rows as the others. All the time, readers ask the standbys: what they show is a prefix of the one
//! history, with the same sum, later ones show more, and with `ermine.read_after` a client finds what it has written.
//! The stream of JSON has every change once, in order, over all failovers.
//!
//! `scripts/cluster test` runs it. Where there is no server of NATS, it says so and ends.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
};
use tokio_postgres::{Client, Error, NoTls, SimpleQueryMessage};

use crate::{
    json_stream::{Model, apply, drained, messages},
    nats::{Logs, free_ports},
    process::Directory,
};

const CLIENTS: u64 = 8;
const READERS: u64 = 2;
const ACCOUNTS: i64 = 20;
/// What is published, with the columns of the keys.
const PUBLISHED: [(&str, &[&str]); 2] = [("sent", &["client", "number"]), ("accounts", &["id"])];
/// The levels at which standbys are read.
const LEVELS: [&str; 2] = ["REPEATABLE READ", "SERIALIZABLE"];
/// Attempts of what has to succeed at last.
const ATTEMPTS: usize = 10_000;
const PAUSE: Duration = Duration::from_millis(20);
/// How long a client waits for an answer before it looks for another primary.
const PATIENCE: Duration = Duration::from_secs(5);

/// The connections of a node to the servers of NATS. While they are cut, nothing passes and nothing is refused.
struct Network {
    ports: Vec<u16>,
    passes: watch::Sender<bool>,
}

impl Network {
    async fn to(servers: &[u16]) -> Self {
        let (passes, _) = watch::channel(true);
        let mut ports = Vec::new();
        for &server in servers {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
            ports.push(listener.local_addr().unwrap().port());
            let passes = passes.subscribe();
            tokio::spawn(async move {
                loop {
                    let (node, _) = listener.accept().await.unwrap();
                    let passes = passes.clone();
                    tokio::spawn(async move {
                        let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else { return };
                        let ((from_node, to_node), (from_server, to_server)) = (node.into_split(), server.into_split());
                        tokio::join!(pass(from_node, to_server, passes.clone()), pass(from_server, to_node, passes));
                    });
                }
            });
        }
        Self { ports, passes }
    }

    fn urls(&self) -> String {
        let urls: Vec<_> = self.ports.iter().map(|port| format!("nats://127.0.0.1:{port}")).collect();
        urls.join(",")
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut passes: watch::Receiver<bool>) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if passes.wait_for(|passes| *passes).await.is_err() || to.write_all(&bytes[..count]).await.is_err() {
            break;
        }
    }
}

struct Node {
    number: usize,
    directory: PathBuf,
    network: Network,
    port: u16,
    child: Option<Child>,
}

impl Node {
    fn start(&mut self) {
        let log =
            std::fs::File::options().append(true).create(true).open(self.directory.with_extension("log")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_ermined"));
        command.args(["serve", self.directory.to_str().unwrap(), "--cluster", "tested"]);
        command.args(["--replicate", &self.network.urls()]);
        command.args(["--node", &format!("node-{}", self.number), "--lease", "3"]);
        command.args(["--listen", &format!("127.0.0.1:{}", self.port), "--drain-seconds", "1"]);
        command.args(["--http", &format!("127.0.0.1:{}", self.port + 1)]);
        command.args(["--base-after", "1", "--segment-bytes", "4194304"]);
        command.args(["--wal-level", "logical", "--json-stream", &self.network.urls()]);
        command.args(["--json-publication", "followed"]);
        // Fewer than clients: all of them may wait for commits to be replicated.
        command.args(["--threads", "2"]);
        if self.number == 0 {
            command.arg("--create");
        }
        self.child = Some(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap());
    }

    fn signal(&self, name: &str) {
        let process = self.child.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &process]).status().unwrap().success());
    }

    /// Waits until the process has ended; returns its exit status, if it was not killed.
    fn wait(&mut self) -> Option<i32> {
        self.child.take().unwrap().wait().unwrap().code()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.directory.with_extension("log")).unwrap_or_default()
    }

    fn has_ended(&mut self) -> bool {
        self.child.as_mut().is_none_or(|child| child.try_wait().unwrap().is_some())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            println!("node {}:\n{}", self.number, self.log());
        }
    }
}

/// Connects to a node that is the primary.
async fn connect(port: u16) -> Option<Client> {
    connect_as(port, "read-write").await
}

/// Connects to a node that serves.
async fn connect_to_any(port: u16) -> Option<Client> {
    connect_as(port, "any").await
}

async fn connect_as(port: u16, attributes: &str) -> Option<Client> {
    let address =
        format!("host=127.0.0.1 port={port} user=bank dbname=bank connect_timeout=2 target_session_attrs={attributes}");
    // A process that is stopped accepts, and does not answer.
    let connecting = tokio::time::timeout(Duration::from_secs(2), tokio_postgres::connect(&address, NoTls));
    let (client, connection) = connecting.await.ok()?.ok()?;
    tokio::spawn(connection);
    Some(client)
}

/// Waits until a node serves; returns its number. Nodes that have ended by themselves are started again, as a supervisor
/// does.
async fn primary(nodes: &mut [Node]) -> usize {
    for _ in 0..ATTEMPTS {
        for node in &mut *nodes {
            if node.child.is_some() && node.has_ended() {
                node.start();
            }
            if connect(node.port).await.is_some() {
                return node.number;
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    panic!("no node becomes the primary");
}

/// A client: inserts its rows in order, and moves money. Returns the numbers of the rows that were acknowledged.
async fn work(
    client: u64,
    ports: Vec<u16>,
    done: Arc<AtomicBool>,
    [acknowledged, asked]: [Arc<AtomicU64>; 2],
) -> Vec<i64> {
    let (mut next, mut known) = (0_i64, Vec::new());
    let mut random = fastrand::Rng::with_seed(client);
    while !done.load(Ordering::Relaxed) {
        let mut connected = None;
        for port in &ports {
            connected = connected.or(connect(*port).await);
        }
        let Some(connected) = connected else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        while !done.load(Ordering::Relaxed) {
            next += 1;
            let (from, to) = (random.i64(0..ACCOUNTS), random.i64(0..ACCOUNTS));
            let text = format!(
                "BEGIN; INSERT INTO sent (client, number) VALUES ({client}, {next});
                 UPDATE accounts SET amount = amount - 1 WHERE id = {from};
                 UPDATE accounts SET amount = amount + 1 WHERE id = {to}; COMMIT"
            );
            // A primary that is stopped keeps the connection, and does not answer.
            let answer = tokio::time::timeout(PATIENCE, connected.batch_execute(&text)).await;
            let Ok(done): Result<Result<(), Error>, _> = answer else { break };
            match done {
                Ok(()) => {
                    known.push(next);
                    acknowledged.fetch_add(1, Ordering::Relaxed);
                    if random.u8(..10) == 0
                        && let Ok(at) = connected.query_one("SELECT pg_current_wal_lsn()::text", &[]).await
                    {
                        let (port, position) = (ports[random.usize(..ports.len())], at.get::<_, String>(0));
                        let level = LEVELS[random.usize(..LEVELS.len())];
                        let shown = shows(port, &position, level, (client, next)).await;
                        assert_ne!(shown, Some(false), "row {next} of client {client} behind {position}");
                        asked.fetch_add(u64::from(shown.is_some()), Ordering::Relaxed);
                    }
                }
                // A lost conflict; otherwise the connection is of no more use, and the outcome is unknown.
                Err(error) if error.code().is_some_and(|code| code.code().starts_with("40")) => {
                    let _ = connected.batch_execute("ROLLBACK").await;
                }
                Err(_) => break,
            }
        }
    }
    known
}

/// Whether a node shows a row to a client that knows a position behind its commit; `None`: it does not answer.
async fn shows(port: u16, position: &str, level: &str, (client, number): (u64, i64)) -> Option<bool> {
    let node = connect_to_any(port).await?;
    let text = format!(
        "SET ermine.read_after = '{position}'; BEGIN ISOLATION LEVEL {level};
         SELECT 1 FROM sent WHERE client = {client} AND number = {number}; COMMIT"
    );
    let rows = tokio::time::timeout(PATIENCE, node.simple_query(&text)).await.ok()?.ok()?;
    Some(rows.iter().any(|row| matches!(row, SimpleQueryMessage::Row(_))))
}

/// What a reader saw on a standby of the rows of a client: how many, and the last one.
struct Glance {
    client: i64,
    rows: i64,
    last: i64,
}

/// A reader of standbys.
async fn read(reader: u64, ports: Vec<u16>, done: Arc<AtomicBool>) -> Vec<Glance> {
    let (mut random, mut glances) = (fastrand::Rng::with_seed(reader), Vec::new());
    while !done.load(Ordering::Relaxed) {
        let standby = connect_to_any(ports[random.usize(..ports.len())]).await;
        let Some(standby) = standby else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let mut before = 0;
        // Until the node ends, or becomes the primary.
        while !done.load(Ordering::Relaxed) {
            let level = LEVELS[reader as usize % LEVELS.len()];
            let answer = tokio::time::timeout(PATIENCE, look_at(&standby, level)).await;
            let Ok(Ok(Some((sum, seen)))) = answer else { break };
            assert_eq!(sum, 100 * ACCOUNTS, "the sum of all accounts");
            let rows = seen.iter().map(|glance| glance.rows).sum();
            assert!(rows >= before, "{rows} rows after {before}");
            before = rows;
            glances.extend(seen);
            tokio::time::sleep(PAUSE).await;
        }
    }
    glances
}

/// Reads one snapshot; `None`: the node is no standby.
async fn look_at(standby: &Client, level: &str) -> Result<Option<(i64, Vec<Glance>)>, Error> {
    standby.batch_execute(&format!("BEGIN ISOLATION LEVEL {level}")).await?;
    let is_standby: bool = standby.query_one("SELECT pg_is_in_recovery()", &[]).await?.get(0);
    if !is_standby {
        return Ok(None);
    }
    let sum: i64 = standby.query_one("SELECT sum(amount)::bigint FROM accounts", &[]).await?.get(0);
    let text = "SELECT client, count(*), max(number) FROM sent GROUP BY client";
    let rows = standby.query(text, &[]).await?;
    let again: i64 = standby.query_one("SELECT sum(amount)::bigint FROM accounts", &[]).await?.get(0);
    assert_eq!(sum, again, "within a snapshot");
    standby.batch_execute("COMMIT").await?;
    let seen = rows.iter().map(|row| Glance { client: row.get(0), rows: row.get(1), last: row.get(2) }).collect();
    Ok(Some((sum, seen)))
}

/// Waits until clients have had so many more commits.
async fn progress(acknowledged: &AtomicU64, more: u64) {
    let until = acknowledged.load(Ordering::Relaxed) + more;
    for _ in 0..ATTEMPTS {
        if acknowledged.load(Ordering::Relaxed) >= until {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
    panic!("clients have no more commits");
}

/// Checks what the primary knows of its standbys, and what the nodes say of themselves.
async fn standbys_are_seen(primary: &Client, ports: &[u16], first: usize) {
    let text = "SELECT array_agg(name ORDER BY name) FROM ermine_stat_standbys WHERE lag_bytes = 0";
    let mut wanted: Vec<_> = (0..3).filter(|node| *node != first).map(|node| format!("node-{node}")).collect();
    wanted.sort();
    let mut seen: Option<Vec<String>> = None;
    for _ in 0..ATTEMPTS {
        seen = primary.query_one(text, &[]).await.unwrap().get(0);
        if seen.as_ref() == Some(&wanted) {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    assert_eq!(seen, Some(wanted));
    for (node, port) in ports.iter().enumerate() {
        let ready = page(port + 1, "/readyz").await;
        let (status, metric) = match node == first {
            true => ("HTTP/1.1 200", "ermine_standby_lag_bytes{standby=\"node-"),
            false => ("HTTP/1.1 503", "ermine_standby_position_bytes "),
        };
        assert!(ready.starts_with(status), "node {node}: {ready}");
        assert!(page(port + 1, "/healthz").await.starts_with("HTTP/1.1 200"));
        let metrics = page(port + 1, "/metrics").await;
        assert!(metrics.contains(metric), "node {node}: {metrics}");
    }
}

/// Writes until each standby has begun anew from a newer base.
async fn standbys_are_renewed(nodes: &mut [Node]) {
    for _ in 0..ATTEMPTS / 50 {
        let number = primary(nodes).await;
        let is_renewed = |node: &Node| node.log().contains("the newer base has taken the place of the own one");
        if nodes.iter().all(|node| node.number == number || is_renewed(node)) {
            return;
        }
        // A device that is busy may make a primary lose its lease; there is another one then.
        if let Some(primary) = connect(nodes[number].port).await
            && let Err(error) = grow(&primary).await
        {
            println!("node {number}: {error}");
        }
        tokio::time::sleep(50 * PAUSE).await;
    }
    panic!("the standbys follow from their first base");
}

/// Publishes the tables, and waits until the stream has a first message. The node may lose its lease meanwhile.
async fn publish(nodes: &mut [Node]) {
    for _ in 0..ATTEMPTS / 50 {
        let number = primary(nodes).await;
        if let Some(primary) = connect(nodes[number].port).await {
            // Fails where it was created before.
            let _ = primary.batch_execute("CREATE PUBLICATION followed FOR TABLE sent, accounts").await;
            let begun = "SELECT FROM pg_replication_slots WHERE active";
            let sent = "SELECT FROM pg_replication_slots s, (SELECT pg_current_wal_lsn() AS at) w
                WHERE s.active AND pg_wal_lsn_diff(s.confirmed_flush_lsn, w.at) >= 0";
            if has_row(&primary, begun).await
                && primary.batch_execute("UPDATE accounts SET amount = 100 WHERE id = 0").await.is_ok()
            {
                tokio::time::sleep(50 * PAUSE).await;
                if has_row(&primary, sent).await {
                    return;
                }
            }
        }
        tokio::time::sleep(25 * PAUSE).await;
    }
    panic!("the changes are not published");
}

async fn has_row(client: &Client, sql: &str) -> bool {
    let rows = client.simple_query(sql).await.unwrap_or_default();
    rows.iter().any(|message| matches!(message, SimpleQueryMessage::Row(_)))
}

/// Makes the stream longer than the base: what is in a checkpoint is in the base once, and in the stream as often as it
/// was written.
async fn grow(primary: &Client) -> Result<(), Error> {
    let text = "CREATE TABLE IF NOT EXISTS filler (id int PRIMARY KEY, line text);
        INSERT INTO filler VALUES (1, '') ON CONFLICT DO NOTHING";
    primary.batch_execute(text).await?;
    for _ in 0..8 {
        primary.batch_execute("UPDATE filler SET line = repeat('x', 400000) WHERE id = 1").await?;
    }
    primary.batch_execute("CHECKPOINT").await
}

/// Returns the answer to a GET.
async fn page(port: u16, path: &str) -> String {
    let mut server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    server.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    server.read_to_string(&mut answer).await.unwrap();
    answer
}

async fn state_of(port: u16) -> (BTreeSet<(i64, i64)>, Vec<(i64, i64)>) {
    let client = connect(port).await.unwrap();
    let pairs = async |text: &str| {
        let rows = client.query(text, &[]).await.unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1))).collect::<Vec<(i64, i64)>>()
    };
    let sent = pairs("SELECT client, number FROM sent").await;
    (sent.into_iter().collect(), pairs("SELECT id, amount FROM accounts ORDER BY id").await)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "scripts/cluster test"]
async fn acknowledged_commits_outlive_failovers() {
    let failovers: usize = std::env::var("ERMINE_TEST_FAILOVERS").map_or(4, |count| count.parse().unwrap());
    let directory = Directory::new("cluster");
    let Some(logs) = Logs::start(&directory.0, 3) else { return };
    let mut nodes = Vec::new();
    for number in 0..3 {
        let directory = directory.0.join(format!("node-{number}"));
        let network = Network::to(&logs.ports).await;
        nodes.push(Node { number, directory, network, port: free_ports(2), child: None });
    }
    nodes.iter_mut().for_each(Node::start);
    let ports: Vec<_> = nodes.iter().map(|node| node.port).collect();
    let first = primary(&mut nodes).await;
    let client = connect(ports[first]).await.unwrap();
    let text = "CREATE TABLE sent (client bigint, number bigint, line bigserial, PRIMARY KEY (client, number));
        CREATE TABLE accounts (id bigint PRIMARY KEY, amount bigint NOT NULL);
        INSERT INTO accounts SELECT g, 100 FROM generate_series(0, 19) AS g";
    client.batch_execute(text).await.unwrap();
    // Before they have a base, the first node is the only copy.
    for _ in 0..ATTEMPTS {
        if nodes.iter().all(|node| node.number == first || node.log().contains("a standby at position")) {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    standbys_are_seen(&client, &ports, first).await;
    drop(client);
    standbys_are_renewed(&mut nodes).await;
    publish(&mut nodes).await;

    let (done, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let asked = Arc::new(AtomicU64::new(0));
    let counts = || [acknowledged.clone(), asked.clone()];
    let clients: Vec<_> =
        (0..CLIENTS).map(|client| tokio::spawn(work(client, ports.clone(), done.clone(), counts()))).collect();
    let readers: Vec<_> = (0..READERS).map(|reader| tokio::spawn(read(reader, ports.clone(), done.clone()))).collect();
    let mut random = fastrand::Rng::with_seed(7);
    for failover in 0..failovers {
        let number = primary(&mut nodes).await;
        progress(&acknowledged, 20 + random.u64(..200)).await;
        println!("failover {failover}: node {number}, {} commits", acknowledged.load(Ordering::Relaxed));
        let fault = if failover < 4 { failover } else { random.usize(..4) };
        let since = Instant::now();
        match fault {
            0 => {
                nodes[number].signal("KILL");
                nodes[number].wait();
            }
            1 => {
                // It does not know that it is replaced, and ends by itself.
                let reader = connect(nodes[number].port).await.expect("it is the primary");
                nodes[number].signal("STOP");
                let mut others: Vec<_> = nodes.iter_mut().filter(|node| node.number != number).collect();
                let mut replaced = false;
                for _ in 0..ATTEMPTS {
                    for node in &mut others {
                        if node.has_ended() {
                            node.start();
                        }
                        replaced |= connect(node.port).await.is_some();
                    }
                    if replaced {
                        break;
                    }
                    tokio::time::sleep(PAUSE).await;
                }
                assert!(replaced, "no node replaces one that is stopped");
                progress(&acknowledged, 20).await;
                // It gets this when it goes on, and would miss what the others have committed.
                let text = "SELECT client FROM sent WHERE number = 1";
                let reading = tokio::spawn(async move { reader.simple_query(text).await });
                tokio::time::sleep(PAUSE).await;
                nodes[number].signal("CONT");
                let read = reading.await.unwrap();
                assert!(read.is_err(), "a primary that was replaced has answered: {read:?}");
                assert_eq!(nodes[number].wait(), Some(1), "a replaced primary has failed");
            }
            2 => {
                nodes[number].network.passes.send_replace(false);
                assert_eq!(nodes[number].wait(), Some(1), "a primary that is cut off has failed");
                nodes[number].network.passes.send_replace(true);
            }
            _ => {
                nodes[number].signal("TERM");
                assert_eq!(nodes[number].wait(), Some(0), "told to end, a primary ends in order");
            }
        }
        primary(&mut nodes).await;
        progress(&acknowledged, 1).await;
        let what = ["killed", "stopped", "cut off", "told to end"][fault];
        println!("{what}: {} ms until the next one commits", since.elapsed().as_millis());
        nodes[number].start();
    }
    progress(&acknowledged, 50).await;
    done.store(true, Ordering::Relaxed);
    let mut known = BTreeSet::new();
    for (client, work) in clients.into_iter().enumerate() {
        known.extend(work.await.unwrap().into_iter().map(|number| (client as i64, number)));
    }
    let mut glances = Vec::new();
    for (reader, seen) in readers.into_iter().enumerate() {
        let seen = seen.await.unwrap();
        println!("{} glances at standbys, {}", seen.len(), LEVELS[reader % LEVELS.len()]);
        assert!(!seen.is_empty());
        glances.extend(seen);
    }
    // Each node in turn.
    let mut states = Vec::new();
    let mut seen = BTreeSet::new();
    for _ in 0..ATTEMPTS {
        let number = primary(&mut nodes).await;
        if seen.insert(number) {
            states.push(state_of(ports[number]).await);
        }
        if seen.len() == nodes.len() {
            break;
        }
        nodes[number].signal("TERM");
        nodes[number].wait();
        let next = primary(&mut nodes).await;
        assert_ne!(next, number);
        nodes[number].start();
    }
    let (sent, accounts) = &states[0];
    assert!(known.is_subset(sent), "lost: {:?}", known.difference(sent).collect::<Vec<_>>());
    assert_eq!(accounts.iter().map(|(_, amount)| amount).sum::<i64>(), 100 * ACCOUNTS);
    assert!(states.len() == 3 && states.iter().all(|state| state == &states[0]), "nodes differ");
    for Glance { client, rows, last } in &glances {
        assert!(sent.contains(&(*client, *last)), "a standby has shown row {last} of client {client}, which is lost");
        let of_client = |rows: &BTreeSet<(i64, i64)>| rows.range((*client, 0)..=(*client, *last)).count() as i64;
        assert!((of_client(&known)..=of_client(sent)).contains(rows), "{rows} rows of client {client} up to {last}");
    }
    for node in &nodes {
        assert!(!node.log().contains("serves no readers"), "node {}", node.number);
    }
    let last = primary(&mut nodes).await;
    drained(&connect(ports[last]).await.expect("it is the primary")).await;
    let (messages, mut model) = (messages(&format!("nats://127.0.0.1:{}", logs.ports[0])).await, Model::new());
    println!("{} messages of changes", messages.len());
    // A gap is said where the new primary has a base that is newer than the last message, which is rare.
    let parts: Vec<_> = messages.split(|(_, message)| message["kind"] == "gap").collect();
    assert!(parts.len() <= 2, "{} gaps", parts.len() - 1);
    let account = |id: i64| (("accounts".to_owned(), id.to_string()), json!({"id": id, "amount": 100}));
    model.extend((0..ACCOUNTS).map(account));
    apply(parts[0], &PUBLISHED, &mut model);
    let published = |columns: [&str; 2]| {
        let rows = model.values().filter_map(|row| Some((row[columns[0]].as_i64()?, row[columns[1]].as_i64()?)));
        rows.collect::<BTreeSet<_>>()
    };
    if parts.len() == 1 {
        assert_eq!(&published(["client", "number"]), sent);
        assert_eq!(published(["id", "amount"]), accounts.iter().copied().collect());
    }
    let asked = asked.load(Ordering::Relaxed);
    println!("{asked} clients found what they had written");
    assert!(asked > 0);
    println!("{} rows acknowledged, {} there, after {failovers} failovers", known.len(), sent.len());
}

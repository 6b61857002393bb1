//! The price of replication, beside what the machine gives: the latency of commits that wait for a quorum, TPC-C with
//! such commits, and how far a standby is behind.
//!
//! ```text
//! scripts/nats start target/quorum/nats 4222 4224 4226
//! cargo run --release -p ermine-replication --features nats --example quorum -- \
//!     nats://127.0.0.1:4222,nats://127.0.0.1:4224,nats://127.0.0.1:4226 target/quorum/data
//! scripts/nats stop target/quorum/nats
//! ```
//!
//! Behind the directory, which must not exist, the number of seconds that each of the measurements takes in a round may
//! follow (5), and the number of rounds (3). Each run makes streams of its own in NATS.
//!
//! - *Latency*: one client commits one row, and waits until it is durable here, or until a quorum has it as well; in
//!   turn with the bare publication of a message of the same bytes, which expects its sequence, too.
//! - *Rate*: the mix of TPC-C with 256 commits that wait at a time, durable here, or with a quorum.
//! - *Lag*: the same with a quorum, at half of that rate, while a standby in this process reads the stream, stores it
//!   and replays it. Every few milliseconds a client commits a row, which is visible on the primary when the call
//!   returns; the lag is the time from then until it is visible on the standby.
//!
//! In the end, the data of the primary and of the standby fulfils the conditions of TPC-C.

use std::{
    collections::HashMap,
    error::Error,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use ermine::{Change, Database, Durability, HotStandby, LogPiece, Options, Stamp, Table};
use ermine_bench::{
    latency::Latency,
    machine::cores,
    storage::Storage,
    tpcc::{self, Home, Mix, Moment, RowChoice, Scale, StandardRows, Tables, all_hold},
    trial::RunOptions,
};
use ermine_replication::{
    End, Follower, Identity, Piece, Position, Publisher, ReplicatedLog, Sequence,
    jetstream::{self, JetStream},
    piece::Kind,
};
use indicatif::ProgressBar;
use tokio::{
    runtime::{self, Runtime},
    time::timeout,
};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// As many bytes as `ermined` publishes at a time.
const PIECE_BYTES: usize = 960 << 10;
/// Commits that may wait at a time, of all threads together.
const OUTSTANDING: usize = 256;
const WAREHOUSES: u32 = 2;
/// The table whose rows show the lag.
const MARKS: &str = "mark";
/// How long a thread waits for the log before it looks whether the measurement is over.
const WAIT: Duration = Duration::from_millis(10);
/// Time before the lag is measured.
const LAG_WARMUP: Duration = Duration::from_secs(5);
const BETWEEN_MARKS: Duration = Duration::from_millis(5);

struct Cluster {
    runtime: Runtime,
    servers: String,
    directory: PathBuf,
    seconds: Duration,
    rounds: usize,
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(servers), Some(directory)) = (arguments.next(), arguments.next()) else { usage() };
    let seconds = arguments.next().map_or(Some(5.0), |text| text.parse().ok()).filter(|seconds: &f64| *seconds > 0.0);
    let rounds = arguments.next().map_or(Some(3), |text| text.parse().ok()).filter(|rounds| *rounds > 0);
    let (Some(seconds), Some(rounds), None) = (seconds, rounds, arguments.next()) else { usage() };
    let cluster = Cluster {
        runtime: runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?,
        servers,
        directory: directory.into(),
        seconds: Duration::try_from_secs_f64(seconds)?,
        rounds,
    };
    std::fs::create_dir_all(cluster.directory.parent().unwrap_or(Path::new(".")))?;
    std::fs::create_dir(&cluster.directory)?;
    cluster.latency()?;
    cluster.rate_and_lag()
}

fn usage() -> ! {
    eprintln!("usage: quorum nats://HOST:PORT,.. DIR [SECONDS [ROUNDS]]");
    std::process::exit(2);
}

impl Cluster {
    /// Makes a log of its own.
    fn log(&self, name: &str) -> Result<JetStream> {
        let options = jetstream::Options {
            servers: self.servers.clone(),
            name: format!("{name}-{}", std::process::id()),
            replicas: self.servers.split(',').count().min(3),
            // Longer than a run: it is not renewed.
            lease_lifetime: Duration::from_secs(3_600),
            timeout: Duration::from_secs(5),
        };
        Ok(self.runtime.block_on(JetStream::open(&options))?)
    }

    /// Begins a term in a log of its own, behind a position of a database's log.
    fn publisher(&self, name: &str, identity: Identity, position: u64) -> Result<(JetStream, Publisher<JetStream>)> {
        let log = self.log(name)?;
        let publisher = self.runtime.block_on(async {
            let lease = log.acquire("example", None).await?;
            let end = End::start(Position(position));
            Publisher::open(log.clone(), identity, lease, end).await.map_err(Box::<dyn Error + Send + Sync>::from)
        })?;
        Ok((log, publisher))
    }

    /// Runs `work`; commits of the database are held meanwhile until a quorum has them.
    fn with_quorum<T>(
        &self,
        database: &Database,
        publisher: &mut Publisher<JetStream>,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let position = publisher.end().position.0;
        let mut reader = database.log_reader(Some(position))?;
        // What was committed before is not part of the work.
        while let Some(LogPiece { to, body, .. }) = reader.next(PIECE_BYTES)? {
            self.runtime.block_on(publisher.publish(Position(to), &body))?;
        }
        let hold = reader.hold_commits(publisher.end().position.0);
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let publishing = scope.spawn(|| {
                let mut publish = || -> Result<()> {
                    loop {
                        // Acquire: pairs with the store below, so that the last commits are published.
                        let ends = is_over.load(Ordering::Acquire);
                        while let Some(LogPiece { to, body, .. }) = reader.next(PIECE_BYTES)? {
                            let end = self.runtime.block_on(publisher.publish(Position(to), &body))?;
                            hold.release_to(end.position.0);
                        }
                        if ends {
                            return Ok(());
                        }
                        reader.wait(WAIT)?;
                    }
                };
                let published = publish();
                match &published {
                    Ok(()) => hold.end(),
                    Err(error) => hold.fail(&format!("the log could not be published: {error}")),
                }
                published
            });
            let worked = work();
            is_over.store(true, Ordering::Release);
            publishing.join().map_err(|_| "the publisher has panicked")??;
            worked
        })
    }

    fn latency(&self) -> Result<()> {
        let database = Database::open(self.directory.join("latency"), Options::default().keep_log(1 << 40))?;
        let rows: Table<u64, Vec<u8>> = database.table("row")?;
        let reader = database.log_reader(None)?;
        let (log, mut publisher) = self.publisher("quorum", Identity(reader.identity()), reader.position())?;
        let commit =
            |key: u64| -> Result<()> { Ok(database.run(|txn| txn.put(&rows, &(key % 1_000), &[key as u8; 100]))?) };
        let commits = |latency: &mut Latency| repeat(self.seconds, latency, &commit);

        // The stream's last message is that of one commit.
        self.with_quorum(&database, &mut publisher, || (0..100).try_for_each(commit))?;
        let message = self.runtime.block_on(log.get(publisher.end().sequence))?.ok_or("the message is not there")?;
        let (bare, mut last) = (self.log("bare")?, Sequence(0));
        let mut publish = |_| -> Result<()> {
            last = self.runtime.block_on(bare.append(last, Bytes::clone(&message)))?;
            Ok(())
        };
        let mut latencies = [(); 3].map(|()| Latency::default());
        println!("one client, messages of {} bytes; microseconds, p50 / p99:", message.len());
        for _ in 0..self.rounds {
            let mut round = [(); 3].map(|()| Latency::default());
            let [published, local, quorum] = &mut round;
            repeat(self.seconds, published, &mut publish)?;
            commits(local)?;
            self.with_quorum(&database, &mut publisher, || commits(quorum))?;
            print_latencies("a round", &round);
            latencies.iter_mut().zip(&round).for_each(|(all, round)| all.merge(round));
        }
        print_latencies("all", &latencies);
        for kib in [64, 256, 960] {
            let (message, mut published) = (Bytes::from(vec![7; kib << 10]), Latency::default());
            repeat(self.seconds, &mut published, |_| {
                last = self.runtime.block_on(bare.append(last, message.clone()))?;
                Ok(())
            })?;
            let p50_us = published.quantiles().p50_us;
            println!("  {kib} KiB published: {p50_us:.0}, {:.0} MiB/s", kib as f64 / 1024.0 / p50_us * 1e6);
        }
        Ok(())
    }

    fn rate_and_lag(&self) -> Result<()> {
        let options = self.mix(None);
        // The log is read from where the rounds begin, and by the standby.
        let engine = Options::default().scheme(options.scheme).log_keys(true).keep_log(1 << 40);
        let directory = self.directory.join("primary");
        let database = Database::open(&directory, engine.durability(Durability::Durable))?;
        let tables = Tables::<StandardRows>::open(&database)?;
        let marks: Table<u64, u64> = database.table(MARKS)?;
        tpcc::load(&database, &tables, WAREHOUSES, Scale::FULL, 1, cores(), &ProgressBar::hidden())?;
        let copy = self.directory.join("standby");

        let run = |options: &tpcc::Options| -> Result<(f64, f64)> {
            let counts = tpcc::run(options, &database, &tables, &mut |_| {})?.counts;
            let bytes = counts.log.map_or(0.0, |log| log.bytes_per_transaction());
            Ok((counts.total().completed() as f64 / counts.seconds, bytes))
        };
        println!(
            "TPC-C, {WAREHOUSES} warehouses, {} threads, {OUTSTANDING} outstanding; transactions a second:",
            cores()
        );
        let mut rates = Vec::new();
        for round in 0..self.rounds {
            let quorum = || -> Result<f64> {
                let (identity, position) = end_of(&database)?;
                let (_, mut publisher) = self.publisher(&format!("rate-{round}"), identity, position)?;
                Ok(self.with_quorum(&database, &mut publisher, || run(&options))?.0)
            };
            // The database grows from one to the other: they take turns in being the first.
            let first = if round % 2 == 1 { Some(quorum()?) } else { None };
            let (local, bytes) = run(&options)?;
            let quorum = first.map_or_else(quorum, Ok)?;
            println!(
                "  durable here {local:.0} of {bytes:.0} bytes of log, with a quorum {quorum:.0}: {:.2}",
                quorum / local
            );
            rates.push(quorum);
        }
        rates.sort_by(f64::total_cmp);
        let half = rates[rates.len() / 2] / 2.0;

        database.backup(&copy)?;
        let mut standby = HotStandby::open(&copy, Options::default())?;
        let image = standby.database().clone();
        // A standby maintains the indexes that are open.
        let there = Tables::<StandardRows>::open(&image)?;
        let (log, mut publisher) = self.publisher("lag", Identity(standby.identity()), standby.position())?;
        let (end, has_failed) = (AtomicBool::new(false), AtomicBool::new(false));
        let mut follower = Follower::new(log, Identity(standby.identity()), End::start(Position(standby.position())));
        let (committed, replayed) = thread::scope(|scope| {
            let following = scope.spawn(|| self.follow(&mut follower, &mut standby, &has_failed));
            let committed = self.with_quorum(&database, &mut publisher, || {
                let mut mix = self.mix(Some(half));
                // The standby has to come to the stream, and to read its rows into memory, first.
                mix.run_options.warmup = LAG_WARMUP;
                let (database, marks, end) = (&database, &marks, &end);
                let marking = scope.spawn(move || mark(database, marks, LAG_WARMUP, end));
                let rate = run(&mix);
                end.store(true, Ordering::Relaxed);
                let committed = marking.join().map_err(|_| "the client has panicked")??;
                rate.map(|(rate, _)| (rate, committed))
            });
            has_failed.store(committed.is_err(), Ordering::Relaxed);
            let replayed = following.join().map_err(|_| "the standby has panicked")?;
            Ok::<_, Box<dyn Error + Send + Sync>>((committed?, replayed?))
        })?;
        let (rate, committed) = committed;
        let mut lags: Vec<_> =
            committed.iter().filter_map(|(stamp, at)| Some(replayed.get(stamp)?.duration_since(*at))).collect();
        lags.sort();
        if lags.is_empty() || lags.len() < committed.len() {
            return Err(format!("of {} rows, {} were seen on the standby", committed.len(), lags.len()).into());
        }
        let quantile = |share: f64| lags[((lags.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
        println!(
            "lag of a standby at {rate:.0} transactions a second, of {} rows: p50 {:.1} ms, p99 {:.1} ms, \
             largest {:.1} ms",
            lags.len(),
            quantile(0.5),
            quantile(0.99),
            quantile(1.0)
        );
        for (name, database, tables) in [("primary", &database, &tables), ("standby", &*image, &there)] {
            let verdicts = tpcc::check(database, tables, WAREHOUSES, Scale::FULL, Moment::AfterRun)?;
            if !all_hold(&verdicts) {
                return Err(format!("the data of the {name} is wrong: {verdicts:?}").into());
            }
            println!("PASS  conditions of the data of the {name}");
        }
        Ok(())
    }

    /// TPC-C on all cores; with a rate, in an open loop.
    fn mix(&self, rate: Option<f64>) -> tpcc::Options {
        tpcc::Options {
            scheme: ermine::Scheme::default(),
            threads: cores(),
            warehouses: WAREHOUSES,
            remote_percent: 1,
            home: Home::Random,
            scale: Scale::FULL,
            rows: RowChoice::Standard,
            mix: Mix::Standard,
            credit_pause: ermine_bench::pause::Pause::NONE,
            acknowledge: None,
            expect: None,
            run_options: RunOptions {
                measured: self.seconds,
                rate,
                storage: Some(Storage {
                    directory: self.directory.join("primary"),
                    durability: Durability::Durable,
                    outstanding: (OUTSTANDING / cores()).max(1),
                    keep: true,
                }),
                ..RunOptions::default()
            },
        }
    }

    /// Replays pieces until the last mark is visible; returns when each was.
    fn follow(
        &self,
        follower: &mut Follower<JetStream>,
        standby: &mut HotStandby,
        has_failed: &AtomicBool,
    ) -> Result<HashMap<Stamp, Instant>> {
        let _runtime = self.runtime.enter();
        let (mut visible, mut is_over) = (HashMap::new(), false);
        while !is_over && !has_failed.load(Ordering::Relaxed) {
            let first = self.runtime.block_on(async { timeout(WAIT, follower.next()).await });
            let Ok(first) = first else { continue };
            let mut pieces = vec![first?];
            pieces.extend(std::iter::from_fn(|| follower.next_arrived()).take(15));
            let pieces = pieces.into_iter().filter(|piece| piece.kind != Kind::Opening).map(received);
            standby.receive_all_with(pieces.collect::<Vec<_>>().into_iter(), &mut |transaction, apply| {
                apply()?;
                for change in &transaction.changes {
                    if let Change::Row(row) = change
                        && row.table_name.as_deref() == Some(MARKS)
                    {
                        visible.insert(transaction.stamp, Instant::now());
                        is_over |= row.key.iter().all(|byte| *byte == u8::MAX);
                    }
                }
                Ok(())
            })?;
        }
        Ok(visible)
    }
}

/// Returns the identity of a database, and the end of its log.
fn end_of(database: &Database) -> Result<(Identity, u64)> {
    database.sync()?;
    let mut reader = database.log_reader(None)?;
    while reader.next(PIECE_BYTES)?.is_some() {}
    Ok((Identity(reader.identity()), reader.position()))
}

fn received(piece: Piece) -> ermine::Result<LogPiece> {
    Ok(LogPiece { from: piece.from.0, to: piece.to.0, body: piece.body.to_vec() })
}

/// Commits rows `after` some time and until `end`, and the one with the largest key behind it; returns when each commit
/// was visible.
fn mark(
    database: &Database,
    marks: &Table<u64, u64>,
    after: Duration,
    end: &AtomicBool,
) -> Result<Vec<(Stamp, Instant)>> {
    thread::sleep(after);
    let mut committed = Vec::new();
    for key in (0..u64::MAX - 1).map(|key| if end.load(Ordering::Relaxed) { u64::MAX } else { key }) {
        let ((), receipt) = database.run_async(|txn| txn.put(marks, &key, &key))?;
        committed.push((receipt.stamp(), Instant::now()));
        if key == u64::MAX {
            // What is not durable is not published.
            receipt.wait()?;
            break;
        }
        thread::sleep(BETWEEN_MARKS);
    }
    Ok(committed)
}

/// Measures operations one after the other for some time.
fn repeat(time: Duration, latency: &mut Latency, mut operation: impl FnMut(u64) -> Result<()>) -> Result<()> {
    let end = Instant::now() + time;
    for number in 0.. {
        let begin = Instant::now();
        if begin >= end {
            break;
        }
        operation(number)?;
        latency.record(begin.elapsed());
    }
    Ok(())
}

/// Prints the latencies of a bare publication, a commit that is durable here, and one that a quorum has.
fn print_latencies(name: &str, latencies: &[Latency; 3]) {
    let [bare, local, quorum] = latencies.each_ref().map(Latency::quantiles);
    println!(
        "  {name}: published {:.0} / {:.0}, durable here {:.0} / {:.0}, with a quorum {:.0} / {:.0}: {:.2} of \
         published",
        bare.p50_us,
        bare.p99_us,
        local.p50_us,
        local.p99_us,
        quorum.p50_us,
        quorum.p99_us,
        quorum.p50_us / bare.p50_us
    );
}

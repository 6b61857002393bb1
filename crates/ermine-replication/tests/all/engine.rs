//! Goal: what the replicated log has acknowledged outlives any one node, and all nodes have one history.
//! Method: databases of the engine ship their logs through a log with faults. A primary is replaced again and again by a
//! standby that follows the stream to its end; the old one stays alive, and is fenced. The commits up to the end of the
//! stream, no more and no less, are on the new primary, and at last on a standby that has followed everything.

use std::{collections::BTreeMap, sync::Arc};

use ermine::{Database, LogPiece, LogReceiver, Options, Table, TxnOptions};
use ermine_replication::{
    End, Follower, Identity, Piece, Position, PublishError, Publisher, ReplicatedLog,
    memory::{Faults, MemoryLog},
    simulation::{Clock, Simulation},
};
use ermine_testing::faulty::{FaultyDirectory, Keep};

type Rows = BTreeMap<u64, u64>;

/// Attempts of what has to succeed at last.
const ATTEMPTS: usize = 100_000;

fn open(directory: &FaultyDirectory) -> (Database, Table<u64, u64>) {
    let options = Options::default().log_buffer_bytes(64 << 10).segment_bytes(64 << 10);
    let options = options.checkpoint_after(64 << 10).keep_log(1 << 30);
    let db = Database::open_in(Arc::new(directory.clone()), options).unwrap();
    let table = db.table("rows").unwrap();
    (db, table)
}

/// A database that is open, and publishes its log.
struct Primary {
    db: Database,
    table: Table<u64, u64>,
    publisher: Publisher<MemoryLog>,
}

/// The states of the primaries, each with the stamp of the commit that made it.
struct Past(Vec<(u64, Rows)>);

impl Past {
    fn step(&mut self, primary: &Primary, clock: &Clock) {
        let mut rows = self.0.last().map_or_else(Rows::new, |(_, rows)| rows.clone());
        let txn = primary.db.begin(TxnOptions::default()).unwrap();
        let (key, other) = (clock.below(30), clock.below(30));
        for (key, value) in [(key, clock.below(1 << 40)), (other, clock.below(1 << 40))] {
            txn.put(&primary.table, &key, &value).unwrap();
            rows.insert(key, value);
        }
        if clock.chance(300) {
            txn.delete(&primary.table, &key).unwrap();
            rows.remove(&key);
        }
        self.0.push((txn.commit().unwrap().as_u64(), rows));
    }

    /// Forgets the commits that are not in the stream; returns the state at its end.
    fn cut(&mut self, end: Position) -> &Rows {
        self.0.retain(|(stamp, _)| *stamp < end.0);
        &self.0.last().expect("the base has a commit").1
    }
}

/// A directory that follows the stream.
struct Standby {
    directory: FaultyDirectory,
    receiver: LogReceiver,
    follower: Follower<MemoryLog>,
}

impl Standby {
    fn new(base: &FaultyDirectory, log: MemoryLog) -> Self {
        let trace = base.trace();
        let directory = trace.crash(trace.operations(), Keep::Everything);
        let receiver = LogReceiver::open_in(Arc::new(directory.clone())).unwrap();
        let start = End::start(Position(receiver.position()));
        let follower = Follower::new(log, Identity(receiver.identity()), start);
        Self { directory, receiver, follower }
    }

    /// Receives the next piece if there seems to be one; returns whether there was.
    async fn follow(&mut self, log: &MemoryLog) -> bool {
        let Ok(Some(_)) = log.get(self.follower.end().sequence.next()).await else { return false };
        if let Ok(piece) = self.follower.next().await
            && !piece.is_opening()
        {
            let Piece { from, to, body, .. } = piece;
            self.receiver.receive(&LogPiece { from: from.0, to: to.0, body: body.to_vec() }).unwrap();
            assert_eq!(self.receiver.position(), to.0);
        }
        true
    }

    /// Follows the stream to its end, ends the term of the primary before, and is promoted.
    async fn take_over(mut self, log: &MemoryLog, clock: &Clock, name: &str) -> Primary {
        for _ in 0..ATTEMPTS {
            if self.follow(log).await {
                continue;
            }
            if let Ok(lease) = log.acquire(name, None).await {
                let (identity, end) = (Identity(self.receiver.identity()), self.follower.end());
                if let Ok(publisher) = Publisher::open(log.clone(), identity, lease, end).await {
                    self.receiver.promote().unwrap();
                    let (db, table) = open(&self.directory);
                    return Primary { db, table, publisher };
                }
            }
            clock.sleep(20).await;
        }
        panic!("{name} does not become the primary");
    }
}

impl Primary {
    /// Publishes everything that is durable; false if the primary is fenced.
    async fn publish(&mut self, clock: &Clock) -> bool {
        let mut reader = self.db.log_reader(Some(self.publisher.end().position.0)).unwrap();
        while let Some(piece) = reader.next(1 + clock.below(5000) as usize).unwrap() {
            assert_eq!(piece.from, self.publisher.end().position.0);
            let mut published = self.publisher.publish(Position(piece.to), &piece.body).await;
            for _ in 0..ATTEMPTS {
                match &published {
                    Ok(end) => {
                        assert_eq!(end.position.0, piece.to);
                        break;
                    }
                    Err(PublishError::Fenced(_)) => return false,
                    Err(PublishError::Unknown(_) | PublishError::Refused(_)) => {
                        clock.sleep(5).await;
                        published = self.publisher.settle().await;
                    }
                }
            }
            assert!(published.is_ok(), "{published:?}");
        }
        true
    }
}

async fn live(log: &MemoryLog, clock: &Clock) {
    let (directory, base) = (FaultyDirectory::new(), FaultyDirectory::new());
    let (db, table) = open(&directory);
    db.run(|txn| txn.put(&table, &0, &0)).unwrap();
    db.backup_in(&base).unwrap();
    let witness = Standby::new(&base, log.client());
    // The original begins the stream where its standbys begin.
    let (identity, start) = (Identity(witness.receiver.identity()), witness.follower.end());
    let mut past = Past(vec![(0, Rows::from([(0, 0)]))]);
    let mut opened = None;
    for _ in 0..ATTEMPTS {
        if let Ok(lease) = log.acquire("the original", None).await
            && let Ok(publisher) = Publisher::open(log.client(), identity, lease, start).await
        {
            opened = Some(publisher);
            break;
        }
        clock.sleep(20).await;
    }
    let publisher = opened.expect("the original becomes the primary");
    let mut primary = Primary { db, table, publisher };
    for failover in 0..4 {
        for _ in 0..clock.below(25) {
            past.step(&primary, clock);
            if clock.chance(100) {
                primary.db.checkpoint().unwrap();
            }
            if clock.chance(700) {
                assert!(primary.publish(clock).await, "no other primary is there");
            }
        }
        let acknowledged = primary.publisher.end().position;
        let standby = Standby::new(&base, log.client());
        let next = standby.take_over(log, clock, &format!("standby {failover}")).await;
        let end = next.publisher.end().position;
        assert!(end >= acknowledged);
        // The old primary is alive, and does not know.
        past.step(&primary, clock);
        assert!(!primary.publish(clock).await, "the old primary is fenced");
        assert_eq!(primary.publisher.end().position, acknowledged);
        let found: Rows = next.db.run(|txn| txn.scan(&next.table, ..).collect()).unwrap().into_iter().collect();
        assert_eq!(&found, past.cut(end), "at {end}");
        primary = next;
    }
    past.step(&primary, clock);
    assert!(primary.publish(clock).await);
    let witness = witness.take_over(log, clock, "the witness").await;
    let found: Rows = witness.db.run(|txn| txn.scan(&witness.table, ..).collect()).unwrap().into_iter().collect();
    assert_eq!(&found, &past.0.last().unwrap().1);
}

#[test]
fn what_the_log_acknowledged_outlives_every_primary() {
    let seeds = std::env::var("ERMINE_TEST_SEED").ok().map(|seed| seed.parse().unwrap());
    for seed in seeds.map_or(0..10, |seed: u64| seed..seed + 1) {
        eprintln!("ERMINE_TEST_SEED={seed}");
        let simulation = Simulation::new(seed);
        // Its standbys wait for their readers.
        let faults = Faults { silent_reader: 0, ..Faults::random(simulation.clock()) };
        let log = MemoryLog::new(&simulation, faults);
        simulation.block_on(live(&log, simulation.clock()));
    }
}

//! A node that is the primary: publishes its log, holds commits until they are replicated, renews its lease, and stores
//! bases.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use ermine::{CommitHold, Database, LogReader};
use ermine_replication::{End, Identity, Position, PublishError, Publisher, ReplicatedLog as _, jetstream::JetStream};
use ermine_server::read_lease::ReadLease;
use tokio::{
    runtime::Handle,
    sync::{oneshot, watch},
    time::sleep,
};

use super::{
    base,
    lease::Keeper,
    node::{Complaint, Lead, Node},
    standbys::Standbys,
};

/// Bytes of a piece. Commits that come while one is on its way share the next one.
const PIECE_BYTES: usize = 960 << 10;
/// How long the publisher waits for commits before it looks whether it has to end.
const WAIT: Duration = Duration::from_millis(100);
/// Time between two safe snapshots, while readers of standbys ask for them.
const MARK_INTERVAL: Duration = Duration::from_millis(20);
/// Time between two attempts to publish the same piece.
const PAUSE: Duration = Duration::from_millis(100);
/// Time between two looks at whether a base is due; after failures, more and more of it.
const BASE_INTERVAL: Duration = Duration::from_secs(1);
const BASE_INTERVAL_MAX: Duration = Duration::from_secs(300);

/// The work of a primary beside its sessions.
pub struct Primary {
    stop: Arc<AtomicBool>,
    publishing: JoinHandle<()>,
    bases: tokio::task::JoinHandle<()>,
    hearing: tokio::task::JoinHandle<()>,
    standbys: Arc<Standbys>,
    keeper: Keeper,
}

impl Primary {
    /// Begins with a database that was opened just now. Commits are held from now on. Returns when everything is
    /// replicated that the database has: what a client reads of it stays.
    pub async fn begin(node: Arc<Node>, lead: Lead, database: &Arc<Database>) -> Result<Self, String> {
        let Lead { keeper, publisher } = lead;
        let log = node.log.clone();
        match Self::publish(node, &keeper, publisher, database).await {
            Ok(Publication { stop, publishing, bases, standbys }) => {
                keeper.may_serve().await;
                let hearing = tokio::spawn(standbys.clone().hear(log));
                Ok(Self { stop, publishing, bases, hearing, standbys, keeper })
            }
            Err(why) => {
                keeper.release().await;
                Err(why)
            }
        }
    }

    async fn publish(
        node: Arc<Node>,
        keeper: &Keeper,
        publisher: Option<Publisher<JetStream>>,
        database: &Arc<Database>,
    ) -> Result<Publication, String> {
        let reader = database.log_reader(publisher.as_ref().map(|publisher| publisher.end().position.0));
        let (identity, start) = reader.map(|reader| (Identity(reader.identity()), reader.position())).map_err(text)?;
        let publisher = match publisher {
            Some(publisher) => publisher,
            None => {
                let end = End::start(Position(start));
                node.state(identity, keeper.acquired().lease.term, end).write(&node.database()).map_err(text)?;
                Publisher::open(node.log.clone(), identity, keeper.acquired().lease.clone(), end).await.map_err(text)?
            }
        };
        let replicated = watch::Sender::new(publisher.end());
        let published = replicated.subscribe();
        let standbys = Standbys::new(published.clone());
        let bases = Bases {
            node: node.clone(),
            identity,
            database: Arc::downgrade(database),
            replicated: published,
            newest: None,
        };
        let stop = Arc::new(AtomicBool::new(false));
        let (begun, is_begun) = oneshot::channel();
        let publishing = Publishing {
            runtime: Handle::current(),
            publisher,
            replicated,
            lost: keeper.lost(),
            stop: stop.clone(),
            standbys: standbys.clone(),
            marked: Instant::now(),
            begun: Some(begun),
        };
        let database_of_thread = database.clone();
        let thread = std::thread::Builder::new().name("ermine-publisher".into());
        let publishing = thread.spawn(move || publishing.run(&database_of_thread)).map_err(text)?;
        let why = || database.failure().map_or_else(|| "its thread has ended".into(), |why| why.to_string());
        is_begun.await.map_err(|_| format!("the log could not be published: {}", why()))?;
        log::info!(
            "this node is the primary of cluster {} in term {}",
            node.cluster.name,
            keeper.acquired().lease.term
        );
        Ok(Publication { stop, publishing, bases: tokio::spawn(bases.keep()), standbys })
    }

    /// Returns the standbys, as they tell of themselves.
    pub fn standbys(&self) -> Arc<Standbys> {
        self.standbys.clone()
    }

    /// Returns what shows that this node is still the primary.
    pub fn lease(&self) -> ReadLease {
        self.keeper.read_lease()
    }

    /// Publishes the rest, and gives the lease back, so that a standby takes over at once. No client is served any more;
    /// a transaction that still runs cannot commit.
    pub async fn end(self) {
        let Self { stop, publishing, bases, hearing, standbys: _, keeper } = self;
        bases.abort();
        hearing.abort();
        // Release: pairs with the load in `publish_all`, which then sees the last commits.
        stop.store(true, Ordering::Release);
        let joined = tokio::task::spawn_blocking(|| publishing.join()).await;
        if !matches!(joined, Ok(Ok(()))) {
            log::error!("the publisher of the log has panicked");
        }
        keeper.release().await;
    }
}

/// What publishes the log, and stores bases.
struct Publication {
    stop: Arc<AtomicBool>,
    publishing: JoinHandle<()>,
    bases: tokio::task::JoinHandle<()>,
    standbys: Arc<Standbys>,
}

/// The thread that publishes the log.
struct Publishing {
    runtime: Handle,
    publisher: Publisher<JetStream>,
    /// The end of what is replicated.
    replicated: watch::Sender<End>,
    /// Tells why the lease is lost.
    lost: watch::Receiver<Option<String>>,
    stop: Arc<AtomicBool>,
    standbys: Arc<Standbys>,
    /// When a safe snapshot was marked last, or was not wanted.
    marked: Instant,
    /// To be told when everything is replicated that was there.
    begun: Option<oneshot::Sender<()>>,
}

impl Publishing {
    fn run(mut self, database: &Database) {
        let position = self.publisher.end().position.0;
        let mut reader = match database.log_reader(Some(position)) {
            Ok(reader) => reader,
            Err(error) => return log::error!("the log cannot be published: {error}"),
        };
        let hold = reader.hold_commits(position);
        match self.publish_all(database, &mut reader, &hold) {
            // What commits from here on is not replicated.
            Ok(()) => hold.fail("this node has handed over to the next primary"),
            Err(why) => hold.fail(&format!("this node is no longer the primary: {why}")),
        }
    }

    /// Publishes until told to stop, and then all that is durable.
    fn publish_all(
        &mut self,
        database: &Database,
        reader: &mut LogReader<'_>,
        hold: &CommitHold<'_>,
    ) -> Result<(), String> {
        loop {
            // Acquire: pairs with the store in `end`.
            let stops = self.stop.load(Ordering::Acquire);
            while let Some(piece) = reader.next(PIECE_BYTES).map_err(text)? {
                let publishing = publish(&mut self.publisher, Position(piece.to), &piece.body);
                let published = async {
                    tokio::select! {
                        biased;
                        why = self.lost.wait_for(Option::is_some) => {
                            Err(why.ok().and_then(|why| why.clone()).unwrap_or_default())
                        }
                        published = publishing => published,
                    }
                };
                let end = self.runtime.block_on(published)?;
                hold.release_to(end.position.0);
                self.replicated.send_replace(end);
                self.mark(database);
            }
            if let Some(why) = &*self.lost.borrow() {
                return Err(why.clone());
            }
            if let Some(begun) = self.begun.take() {
                let _ = begun.send(());
            }
            if stops {
                return Ok(());
            }
            let wait = if self.mark(database) { WAIT } else { MARK_INTERVAL };
            reader.wait(wait).map_err(text)?;
        }
    }

    /// Marks a safe snapshot, if one is due and wanted; returns whether none will be before the next commit, or wish.
    fn mark(&mut self, database: &Database) -> bool {
        if self.marked.elapsed() < MARK_INTERVAL {
            return false;
        }
        self.marked = Instant::now();
        !self.standbys.want_safe_snapshots() || database.mark_safe_snapshot()
    }
}

/// Publishes a piece; tries again until the log has it, or this node is fenced.
async fn publish(publisher: &mut Publisher<JetStream>, to: Position, body: &[u8]) -> Result<End, String> {
    let mut complaint = Complaint::default();
    let mut published = publisher.publish(to, body).await;
    loop {
        match published {
            Ok(end) => return Ok(end),
            Err(PublishError::Fenced(fence)) => return Err(fence.to_string()),
            Err(error) => complaint.tell(&error.to_string()),
        }
        sleep(PAUSE).await;
        published = publisher.settle().await;
    }
}

/// Stores bases, and removes what no standby needs any more.
struct Bases {
    node: Arc<Node>,
    identity: Identity,
    database: Weak<Database>,
    replicated: watch::Receiver<End>,
    newest: Option<Newest>,
}

/// The newest base.
struct Newest {
    position: Position,
    bytes: u64,
}

impl Bases {
    /// Stores a base when there is none, and whenever so much was published since the newest one that a standby had
    /// better begin with another.
    async fn keep(mut self) {
        let (mut complaint, mut pause) = (Complaint::default(), BASE_INTERVAL);
        loop {
            match self.store_if_due().await {
                Ok(()) => pause = BASE_INTERVAL,
                Err(why) => {
                    complaint.tell(&format!("no base is stored: {why}"));
                    pause = (2 * pause).min(BASE_INTERVAL_MAX);
                }
            }
            sleep(pause).await;
        }
    }

    async fn store_if_due(&mut self) -> Result<(), String> {
        let end = *self.replicated.borrow();
        if self.newest.is_none() {
            // Another primary may have stored one.
            let blobs = self.node.log.list_blobs().await.map_err(text)?;
            self.newest = blobs
                .iter()
                .rev()
                .find_map(|blob| base::end_of(&blob.name).map(|(_, position)| Newest { position, bytes: blob.bytes }));
        }
        let base_after = self.node.cluster.base_after;
        let is_due = self
            .newest
            .as_ref()
            .is_none_or(|newest| end.position.0 >= newest.position.0.saturating_add(base_after.max(newest.bytes)));
        match self.database.upgrade() {
            Some(open) if is_due => self.store(end, open).await,
            _ => Ok(()),
        }
    }

    async fn store(&mut self, end: End, database: Arc<Database>) -> Result<(), String> {
        let node = &self.node;
        let directory = node.base_directory().map_err(text)?;
        let to = directory.clone();
        let backup = tokio::task::spawn_blocking(move || database.backup(to)).await.map_err(text)?.map_err(text)?;
        // Invariant 3 of the cluster: not newer than the stream.
        self.replicated.wait_for(|end| end.position.0 >= backup.to_lsn).await.map_err(text)?;
        let name = base::name_of(end);
        let (read, write) = tokio::io::duplex(1 << 20);
        let pack = async { base::pack(&directory, self.identity, end, write).await.map_err(text) };
        let put = async { node.log.put_blob(&name, read).await.map_err(text) };
        // If one fails, the other one ends where it is: a base that ends too early is never given its name.
        tokio::try_join!(pack, put)?;
        std::fs::remove_dir_all(&directory).map_err(text)?;
        log::info!("base {name} of {} bytes is stored", backup.bytes);
        self.newest = Some(Newest { position: end.position, bytes: backup.bytes });
        // After a restart, the node begins behind it.
        node.state(self.identity, end.term, end).write(&node.database()).map_err(text)?;
        // The one before stays for the nodes that are reading it, with what they follow then.
        let mut bases = node.log.list_blobs().await.map_err(text)?;
        bases.retain(|blob| base::end_of(&blob.name).is_some());
        let kept = bases.len().saturating_sub(2);
        for blob in &bases[..kept] {
            node.log.delete_blob(&blob.name).await.map_err(text)?;
        }
        let oldest = bases.get(kept).and_then(|blob| base::end_of(&blob.name));
        let (oldest, _) = oldest.ok_or("the base that was just stored is not there")?;
        node.log.trim(oldest).await.map_err(text)
    }
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

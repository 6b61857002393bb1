//! A node that is not the primary: takes a base, follows the stream, and becomes the primary when it gets the lease.

use std::{
    fs, io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{
        Arc, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use ermine::{Database, LogPiece, LogReceiver};
use ermine_replication::{
    Candidate, End, FollowError, Follower, Identity, OpenError, Piece, Position, Publisher, ReplicatedLog as _,
    Sequence, Term,
    jetstream::{self, JetStream},
    log::LeaseError,
};
use rustix::fs::statvfs;
use tokio::{
    io::BufReader,
    sync::Mutex,
    task::block_in_place,
    time::{MissedTickBehavior, interval, sleep},
};

use super::{
    base,
    lease::{Acquired, Keeper},
    readable::{ReadableCopy, Reading},
    standbys::{TELL_INTERVAL, tell},
    state::{State, sync},
};

/// Time between two attempts of what does not go on.
const PAUSE: Duration = Duration::from_millis(500);
/// How the name of a database begins that was put aside.
const ASIDE: &str = "diverged-";
/// Lifetimes of a lease for which a node stays away that got the lease and cannot be the primary.
const AWAY: u32 = 4;
/// Lifetimes of a lease after which a node takes one that it has seen unchanged. The log lets it expire before, unless
/// its clock was wrong.
const OLD: u32 = 2;
/// Lifetimes of a lease between two looks at whether a standby had better begin with a newer base.
const LOOKS: u32 = 3;
/// Bytes that a renewal leaves free, at least.
const RESERVE: u64 = 256 << 20;
/// Pieces that have arrived and are received one behind the other, before anything else is looked at.
const PIECES_AT_ONCE: usize = 16;
/// Time between two notes of how far a standby has come.
const NOTE_INTERVAL: Duration = Duration::from_secs(5);

/// What the nodes of a cluster have in common, and how this one takes part.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Addresses of the servers of NATS.
    pub servers: String,
    pub name: String,
    /// The name of this node.
    pub node: String,
    /// The number of servers that store each message.
    pub replicas: usize,
    pub lease_lifetime: Duration,
    /// Bytes of log after which a base is stored, or as many as the newest base has.
    pub base_after: u64,
    /// Whether the node makes a database where the cluster has none.
    pub creates: bool,
    /// Whether the node never becomes the primary.
    pub only_follows: bool,
}

/// A node of a cluster.
pub struct Node {
    pub cluster: Cluster,
    pub log: JetStream,
    directory: PathBuf,
    /// How far the node has followed.
    position: Arc<AtomicU64>,
    /// How readers are served while the node is a standby; `None`: there are none.
    reading: Option<Reading>,
    /// The lease of a node that is about to be the primary.
    held: Mutex<Option<Acquired>>,
    /// What it has seen of the lease of others.
    candidate: std::sync::Mutex<Candidate<Instant>>,
}

/// The right to be the primary.
pub struct Lead {
    pub keeper: Keeper,
    /// Publishes behind the end of the stream; `None`: the stream is empty.
    pub publisher: Option<Publisher<JetStream>>,
}

/// What is in the directory of a node.
enum Found {
    Nothing,
    /// A database that was never part of a cluster.
    Fresh,
    /// A database that was the primary's.
    Former(State),
    Standby(State),
}

/// How following ends.
enum Followed {
    /// The node may be the primary.
    Leads(Box<Lead>),
    /// The own copy cannot go on, and was put aside.
    Aside,
    /// The stream does not have any more what comes next.
    LeftBehind,
    /// A newer base has taken the place of the own copy.
    Renewed,
}

/// The own copy of the database while the node follows.
enum Copy {
    Former,
    Standby(Box<ReadableCopy>),
}

impl Copy {
    fn wants_safe_snapshots(&mut self) -> bool {
        match self {
            Self::Former => false,
            Self::Standby(copy) => copy.wants_safe_snapshots(),
        }
    }
}

impl Node {
    /// Connects to the servers of NATS; tries again until one answers. A setting that does not fit is an error.
    /// While the node follows, it stores the position up to which it has everything in `position`.
    pub async fn connect(
        cluster: Cluster,
        directory: &Path,
        position: Arc<AtomicU64>,
        reading: Option<Reading>,
    ) -> Result<Self, String> {
        let options = jetstream::Options {
            servers: cluster.servers.clone(),
            name: cluster.name.clone(),
            replicas: cluster.replicas,
            lease_lifetime: cluster.lease_lifetime,
            timeout: cluster.lease_lifetime.min(Duration::from_secs(2)),
        };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(text)?;
        let mut complaint = Complaint::default();
        loop {
            match JetStream::open(&options).await {
                Ok(log) => {
                    let (held, candidate) = (Mutex::default(), std::sync::Mutex::default());
                    return Ok(Self { cluster, log, directory: directory.into(), position, reading, held, candidate });
                }
                Err(jetstream::OpenError::Unreachable(why)) => complaint.tell(&why),
                Err(error) => return Err(error.to_string()),
            }
            sleep(PAUSE).await;
        }
    }

    /// Returns the directory of the database.
    pub fn database(&self) -> PathBuf {
        self.directory.join("database")
    }

    /// Returns the state of this node at an end of the stream, from which it begins, in a term in which it is the
    /// primary.
    pub fn state(&self, identity: Identity, led: Term, end: End) -> State {
        State { cluster: self.cluster.name.clone(), identity, led, base: end.position, end }
    }

    /// Returns a directory for a backup that is to become a base, which does not exist.
    pub fn base_directory(&self) -> io::Result<PathBuf> {
        let directory = self.directory.join("base.tmp");
        remove(&directory)?;
        Ok(directory)
    }

    /// Follows the stream until this node may be the primary; its database can be opened then. Waits for a base as long
    /// as the cluster has none.
    pub async fn lead(&self) -> Result<Lead, String> {
        let mut complaint = Complaint::default();
        loop {
            match self.look()? {
                Found::Former(state) => {
                    log::info!("the database was the primary's up to {}; the stream is followed from there", state.end);
                    if let Followed::Leads(lead) = self.follow(state, Copy::Former).await? {
                        return Ok(*lead);
                    }
                }
                Found::Standby(state) => {
                    let receiver = block_in_place(|| LogReceiver::open(self.database())).map_err(text)?;
                    log::info!("a standby at position {} follows from {}", receiver.position(), state.end);
                    let copy = Copy::Standby(Box::new(ReadableCopy::new(receiver)));
                    match self.follow(state, copy).await? {
                        Followed::Leads(lead) => return Ok(*lead),
                        Followed::Aside | Followed::Renewed => {}
                        Followed::LeftBehind => self.replace().await?,
                    }
                }
                found @ (Found::Fresh | Found::Nothing) => {
                    let is_fresh = matches!(found, Found::Fresh);
                    match self.begin(is_fresh).await {
                        Ok(Some(lead)) => return Ok(lead),
                        Ok(None) => {}
                        Err(Stop::Final(why)) => return Err(why),
                        Err(Stop::Later(why)) => complaint.tell(&why),
                    }
                    sleep(PAUSE).await;
                }
            }
        }
    }

    fn look(&self) -> Result<Found, String> {
        let database = self.database();
        if Database::exists(&self.directory) {
            let what = "is a database itself; the directory of a node has it in the directory `database`";
            return Err(format!("{} {what}", self.directory.display()));
        }
        for unfinished in ["database.new", "database.old", "base.tmp"] {
            remove(&self.directory.join(unfinished)).map_err(text)?;
        }
        let state = State::read(&database)?;
        if let Some(state) = &state
            && state.cluster != self.cluster.name
        {
            return Err(format!("{} is of cluster {}", database.display(), state.cluster));
        }
        let is_standby = database.join("STANDBY").exists();
        Ok(match state {
            Some(state) if is_standby => Found::Standby(state),
            Some(state) => Found::Former(state),
            None if is_standby => return Err(format!("{} is a standby of no cluster", database.display())),
            None if Database::exists(&database) => Found::Fresh,
            None => Found::Nothing,
        })
    }

    /// Begins the cluster, or takes a base.
    async fn begin(&self, is_fresh: bool) -> Result<Option<Lead>, Stop> {
        let is_empty = self.log.last().await.map_err(later)? == Sequence(0);
        if is_fresh && !is_empty {
            let (name, database) = (&self.cluster.name, self.database());
            return Err(Stop::Final(format!(
                "cluster {name} has a database, and {} is not of it: use an empty directory, or another cluster",
                database.display()
            )));
        }
        if !is_empty {
            return self.take_base().await.map(|()| None);
        }
        if self.cluster.only_follows || !is_fresh && !self.cluster.creates {
            let name = &self.cluster.name;
            return Err(Stop::Later(format!("cluster {name} has no database yet; a node with --create makes one")));
        }
        let acquired = self.acquire().await.map_err(later)?;
        let last = self.log.last().await;
        if !matches!(last, Ok(Sequence(0))) {
            // Another node has begun it.
            let _ = acquired.release(&self.log).await;
            return last.map(|_| None).map_err(later);
        }
        Ok(Some(Lead { keeper: self.keep(acquired), publisher: None }))
    }

    /// Replaces a standby that was left behind by one of the newest base.
    async fn replace(&self) -> Result<(), String> {
        let mut complaint = Complaint::default();
        loop {
            match self.take_base().await {
                Ok(()) => return Ok(()),
                Err(Stop::Final(why)) => return Err(why),
                Err(Stop::Later(why)) => complaint.tell(&why),
            }
            sleep(PAUSE).await;
        }
    }

    /// Makes a standby of the newest base that can be read.
    async fn take_base(&self) -> Result<(), Stop> {
        let blobs = self.log.list_blobs().await.map_err(later)?;
        let mut failure = Stop::Later("the cluster has no base yet".into());
        for blob in blobs.iter().rev().filter(|blob| base::end_of(&blob.name).is_some()) {
            log::info!("base {} of {} bytes is taken", blob.name, blob.bytes);
            match self.unpack(&blob.name).await {
                Ok(new) => return self.put_in_place(&new).map_err(broken),
                // Another one may have replaced it, or the connection may have ended.
                Err(Stop::Later(why)) => failure = Stop::Later(format!("base {}: {why}", blob.name)),
                Err(error) => return Err(error),
            }
        }
        Err(failure)
    }

    /// Removes what was received of a base that is not taken.
    fn drop_renewal(&self) {
        if let Err(error) = remove(&self.directory.join("database.new")) {
            log::warn!("what was received of a newer base stays until the next start: {error}");
        }
    }

    /// Returns the newest base, if a standby that began at a position had better begin with that one.
    async fn newer_base(&self, began: Position) -> Option<String> {
        let blobs = self.log.list_blobs().await.ok()?;
        let (newest, position) =
            blobs.into_iter().rev().find_map(|blob| base::end_of(&blob.name).map(|(_, position)| (blob, position)))?;
        let is_worth_it = is_worth_it(began, position, newest.bytes.max(self.cluster.base_after));
        (is_worth_it && self.has_room(newest.bytes)).then_some(newest.name)
    }

    /// Whether the device has room for a base beside the own copy, which grows meanwhile.
    fn has_room(&self, bytes: u64) -> bool {
        let room = statvfs(&self.directory).map(|of| of.f_bavail.saturating_mul(of.f_frsize));
        room.is_ok_and(|room| room > bytes.saturating_mul(2).saturating_add(RESERVE))
    }

    /// Makes a standby of a base, beside the database; returns its directory.
    async fn unpack(&self, name: &str) -> Result<PathBuf, Stop> {
        let blob = self.log.get_blob(name).await.map_err(later)?;
        let new = self.directory.join("database.new");
        remove(&new).and_then(|()| fs::create_dir_all(&new)).map_err(broken)?;
        let (identity, end) = base::unpack(BufReader::new(blob), &new).await.map_err(later)?;
        self.state(identity, Term(0), end).write(&new).map_err(broken)?;
        let receiver = block_in_place(|| LogReceiver::open(&new)).map_err(later)?;
        match Identity(receiver.identity()) == identity {
            true => Ok(new),
            false => Err(Stop::Later("it is damaged: it holds another database".into())),
        }
    }

    /// Puts a standby in the place of an older one, if there is one, which has nothing that is neither in the new one nor
    /// in the stream.
    fn put_in_place(&self, new: &Path) -> io::Result<()> {
        let (database, old) = (self.database(), self.directory.join("database.old"));
        if database.join("STANDBY").exists() {
            remove(&old)?;
            fs::rename(&database, &old)?;
            sync(&self.directory)?;
        } else if database.exists() {
            // It is empty, or not ours to remove.
            fs::remove_dir(&database)?;
        }
        fs::rename(new, &database)?;
        sync(&self.directory)?;
        remove(&old)
    }

    /// Follows the stream.
    async fn follow(&self, mut state: State, mut copy: Copy) -> Result<Followed, String> {
        let mut follower = Follower::new(self.log.clone(), state.identity, state.end);
        let mut tick = interval((self.cluster.lease_lifetime / 10).min(TELL_INTERVAL));
        // The stream is read between two ticks, however long an attempt to lead takes.
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut complaint, mut noted, mut away, mut told) = (Complaint::default(), Instant::now(), None, None);
        let (mut tried, mut checked) = (None::<String>, Instant::now());
        let (mut looked, mut renewal) =
            (Instant::now(), None::<Pin<Box<dyn Future<Output = Result<PathBuf, Stop>> + '_>>>);
        loop {
            if told.is_none_or(|told: Instant| told.elapsed() >= TELL_INTERVAL) {
                told = Some(Instant::now());
                // Relaxed: it guards nothing.
                self.position.store(state.end.position.0, Ordering::Relaxed);
                tell(&self.log, &self.cluster.node, state.end.position, copy.wants_safe_snapshots()).await;
            }
            let piece = tokio::select! {
                biased;
                renewed = async { renewal.as_mut().expect("the branch is enabled").await }, if renewal.is_some() => {
                    renewal = None;
                    match renewed {
                        Ok(new) => {
                            block_in_place(|| drop(copy));
                            self.put_in_place(&new).map_err(text)?;
                            log::info!("the newer base has taken the place of the own one");
                            return Ok(Followed::Renewed);
                        }
                        // The own copy is as good as before, and needs the room.
                        Err(Stop::Final(why) | Stop::Later(why)) => {
                            self.drop_renewal();
                            log::warn!("a newer base is not taken, and the standby goes on with its own: {why}");
                        }
                    }
                    continue;
                }
                piece = follower.next() => piece,
                _ = tick.tick() => {
                    if checked.elapsed() > self.cluster.lease_lifetime {
                        checked = Instant::now();
                        if let Err(error) = follower.check_reader().await {
                            complaint.tell(&error.to_string());
                        }
                    }
                    if matches!(copy, Copy::Standby(_))
                        && renewal.is_none()
                        && looked.elapsed() > LOOKS * self.cluster.lease_lifetime
                    {
                        looked = Instant::now();
                        let newer = self.newer_base(state.base).await;
                        if let Some(name) = newer.filter(|name| tried.as_ref() != Some(name)) {
                            log::info!("base {name} is received beside the own one, whose log has become long");
                            // One that cannot be taken is not tried again: the next one may be better.
                            tried = Some(name.clone());
                            renewal = Some(Box::pin(async move { self.unpack(&name).await }));
                        }
                    }
                    if self.cluster.only_follows || away.is_some_and(|until| Instant::now() < until) {
                        self.read_from(&mut copy, &follower).await;
                        continue;
                    }
                    match self.try_to_lead(&mut state, &follower).await {
                        Ok(Some(lead)) => {
                            drop(renewal);
                            self.drop_renewal();
                            if let Copy::Standby(copy) = copy
                                && let Err(error) = block_in_place(|| copy.promote())
                            {
                                lead.keeper.release().await;
                                return Err(error.to_string());
                            }
                            return Ok(Followed::Leads(Box::new(lead)));
                        }
                        Ok(None) => self.read_from(&mut copy, &follower).await,
                        Err(NoLead::Later(why)) => complaint.tell(&why),
                        Err(NoLead::Never(why)) => {
                            let database = self.database();
                            log::error!(
                                "this node cannot be the primary, and leaves that to others: {why}. If that stays so, \
                                 `ermined promote {0}` makes what it has a database of its own; without {0}, the node \
                                 begins anew from a base",
                                database.display()
                            );
                            away = Some(Instant::now() + AWAY * self.cluster.lease_lifetime);
                        }
                    }
                    continue;
                }
            };
            match piece {
                Ok(piece) => {
                    match &mut copy {
                        // It has all of its own pieces: of the term that it was about to begin, and of the one before.
                        Copy::Former if piece.term == state.led || piece.term == state.end.term => {}
                        Copy::Former => {
                            let position = piece.from;
                            log::warn!("term {} began at position {position}; this node is behind it", piece.term);
                            return self.put_aside(&state).map(|()| Followed::Aside);
                        }
                        Copy::Standby(copy) => {
                            let mut pieces = vec![piece];
                            let arrived = std::iter::from_fn(|| follower.next_arrived());
                            pieces.extend(arrived.take(PIECES_AT_ONCE - 1));
                            block_in_place(|| receive(copy, pieces)).map_err(text)?;
                        }
                    }
                    state.end = follower.whole();
                    if noted.elapsed() > NOTE_INTERVAL {
                        noted = Instant::now();
                        state.write(&self.database()).map_err(text)?;
                    }
                }
                Err(FollowError::Unreachable(why)) => {
                    complaint.tell(&why);
                    sleep(PAUSE).await;
                }
                Err(error @ FollowError::Gone { .. }) => {
                    log::warn!("{error}: a newer base is taken");
                    return match copy {
                        Copy::Former => self.put_aside(&state).map(|()| Followed::Aside),
                        Copy::Standby(_) => Ok(Followed::LeftBehind),
                    };
                }
                Err(error @ FollowError::Broken { .. }) => {
                    let database = self.database();
                    return Err(format!("{error}; without {}, the node begins anew from a base", database.display()));
                }
            }
        }
    }

    /// Lets clients read from a standby's copy that has followed to the end of the stream, unless they do: what was
    /// published until then is replayed from files, and not in front of them.
    async fn read_from(&self, copy: &mut Copy, follower: &Follower<JetStream>) {
        if let (Copy::Standby(copy), Some(reading)) = (copy, &self.reading)
            && copy.is_due()
            && self.log.last().await.is_ok_and(|last| last <= follower.end().sequence)
        {
            block_in_place(|| copy.open_image(reading));
        }
    }

    async fn acquire(&self) -> Result<Acquired, LeaseError> {
        let since = Instant::now();
        let lock = || self.candidate.lock().unwrap_or_else(PoisonError::into_inner);
        let old = lock().old(|at| at.elapsed() > OLD * self.cluster.lease_lifetime);
        if let Some(write) = old {
            log::warn!("the lease was last written long ago (number {}), and the log does not let it expire", write.0);
        }
        let answer = self.log.acquire(&self.cluster.node, old).await;
        let mut candidate = lock();
        candidate.note(&answer, Instant::now());
        answer.map(|lease| Acquired::new(lease, since, &candidate, self.cluster.lease_lifetime))
    }

    fn keep(&self, acquired: Acquired) -> Keeper {
        Keeper::begin(self.log.clone(), acquired, self.cluster.lease_lifetime)
    }

    /// Acquires the lease, or renews it, and opens a term, if the follower has come to the end of the stream.
    async fn try_to_lead(&self, state: &mut State, follower: &Follower<JetStream>) -> Result<Option<Lead>, NoLead> {
        let mut held = self.held.lock().await;
        let is_behind = async || Ok(self.log.last().await.map_err(NoLead::later)? > follower.end().sequence);
        // Only a node that has followed to the end asks for the lease: others may be there already.
        if held.is_none() && is_behind().await? {
            return Ok(None);
        }
        let since = Instant::now();
        match &mut *held {
            Some(acquired) => match self.log.renew(&acquired.lease).await {
                Ok(()) => acquired.since = since,
                Err(_) => *held = None,
            },
            None => match self.acquire().await {
                Ok(acquired) => {
                    let term = acquired.lease.term;
                    log::info!("this node has the lease of term {term}, and is about to be the primary");
                    *held = Some(acquired);
                }
                Err(LeaseError::Held { .. }) => {}
                Err(error) => return Err(NoLead::later(error)),
            },
        }
        let Some(acquired) = held.clone() else { return Ok(None) };
        let lease = &acquired.lease;
        if is_behind().await? {
            // The last primary has published more.
            *held = None;
            let _ = acquired.release(&self.log).await;
            return Ok(None);
        }
        // Before the term begins: if its opening is all that is left of this attempt, it is known as this node's.
        (state.led, state.end) = (lease.term, follower.whole());
        if let Err(error) = state.write(&self.database()) {
            *held = None;
            let _ = acquired.release(&self.log).await;
            return Err(NoLead::Never(format!("{}: {error}", self.database().display())));
        }
        match Publisher::open(self.log.clone(), state.identity, lease.clone(), follower.end()).await {
            Ok(publisher) => {
                *held = None;
                Ok(Some(Lead { keeper: self.keep(acquired), publisher: Some(publisher) }))
            }
            // The stream shows the rest.
            Err(OpenError::Moved(_)) => Ok(None),
            Err(error @ OpenError::Unknown(_)) => Err(NoLead::later(format!("no term can begin: {error}"))),
            Err(error) => {
                *held = None;
                let _ = acquired.release(&self.log).await;
                Err(match error {
                    // With the next lease.
                    OpenError::OldTerm { .. } => NoLead::later(error),
                    _ => NoLead::Never(error.to_string()),
                })
            }
        }
    }

    /// Gives the lease back that the node may have: it is told to end.
    pub async fn release(&self) {
        if let Some(acquired) = self.held.lock().await.take() {
            let _ = acquired.release(&self.log).await;
        }
    }

    /// Puts the database of a former primary aside: commits that were never replicated may be in it. One is kept, or the
    /// device would fill with them.
    fn put_aside(&self, state: &State) -> Result<(), String> {
        for entry in fs::read_dir(&self.directory).map_err(text)? {
            let entry = entry.map_err(text)?;
            if entry.file_name().to_string_lossy().starts_with(ASIDE) {
                remove(&entry.path()).map_err(text)?;
            }
        }
        let aside = self.directory.join(format!("{ASIDE}{}-{}", state.led, state.end.position));
        fs::rename(self.database(), &aside).and_then(|()| sync(&self.directory)).map_err(text)?;
        log::warn!(
            "the former database is kept in {}: it may have commits at its end that were never replicated, which no \
             client was told of as replicated",
            aside.display()
        );
        Ok(())
    }
}

/// Why the node cannot begin.
enum Stop {
    Final(String),
    Later(String),
}

/// Why the node does not become the primary.
enum NoLead {
    Later(String),
    /// Not with this copy of the database.
    Never(String),
}

impl NoLead {
    fn later(error: impl ToString) -> Self {
        Self::Later(error.to_string())
    }
}

/// Reports what does not go on, once in a while.
#[derive(Default)]
pub struct Complaint(Option<Instant>);

impl Complaint {
    const INTERVAL: Duration = Duration::from_secs(10);

    pub fn tell(&mut self, what: &str) {
        if self.0.is_none_or(|at| at.elapsed() > Self::INTERVAL) {
            self.0 = Some(Instant::now());
            log::warn!("waiting: {what}");
        }
    }
}

/// Whether a standby that began at a position had better begin at that of a newer base: its log, and what recovery needs
/// for it, are much longer. `after`: bytes between two bases.
fn is_worth_it(began: Position, newer: Position, after: u64) -> bool {
    newer.0.saturating_sub(began.0) >= after.saturating_mul(2)
}

fn receive(copy: &mut ReadableCopy, mut pieces: Vec<Piece>) -> ermine::Result<()> {
    for opening in pieces.extract_if(.., |piece| piece.is_opening()) {
        log::info!("term {} began at position {}", opening.term, opening.from);
    }
    let pieces = pieces.into_iter();
    copy.receive(pieces.map(|piece| LogPiece { from: piece.from.0, to: piece.to.0, body: piece.body.into() }).collect())
}

/// Removes a directory, if there is one.
fn remove(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

fn later(error: impl ToString) -> Stop {
    Stop::Later(error.to_string())
}

fn broken(error: io::Error) -> Stop {
    Stop::Final(error.to_string())
}

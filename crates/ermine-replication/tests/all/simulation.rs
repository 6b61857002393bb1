//! A primary is replaced again and again, while the network fails: whatever happens, the stream stays one sequence.
//!
//! Method: three nodes in a simulated cluster, each a task that follows the stream, and becomes the primary if it gets
//! the lease. Meanwhile nodes are killed and restarted, cut off and connected; the lease expires early, or not at all.
//! All of it comes from one seed: `ERMINE_TEST_SEED=n` repeats a run, `ERMINE_TEST_SEEDS=n` sets the number of runs.
//!
//! Every piece carries a number of its own and that of the piece before which its primary knew. The judge looks at
//! these numbers only, not at hashes, positions or terms:
//! 1. What was reported as replicated is in the stream, at the reported sequence, once.
//! 2. The stream, and what each node has seen of it, is a sequence in which each piece follows the one that its primary
//!    knew as the last. So pieces of two primaries do not interleave.
//! 3. What a node has seen is a prefix of the stream.
//! 4. A publisher that knew at a call that it was fenced did not publish.
//! 5. When the network is whole again, a piece is published, and all nodes come to the end.
//! 6. A node that keeps the lease, by its own clock, may read: no primary of a later term has answered a client then.
//!
//! In one run of four the log breaks its promise: it replaces or loses its newest messages. There, a node may see an
//! error instead of 1, 3 and 5, but 2 still holds for what the nodes see.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    fmt::Write as _,
    future::{Future, poll_fn},
    pin::pin,
    rc::Rc,
    task::Poll,
};

use bytes::Bytes;
use ermine_replication::{
    Candidate, End, FollowError, Follower, Identity, LeaseKeeper, OpenError, Piece, Position, PublishError, Publisher,
    ReplicatedLog, Sequence, Term,
    log::Lease,
    memory::{Faults, MemoryLog},
    simulation::{Clock, Simulation, TaskId},
};

const IDENTITY: Identity = Identity(*b"simulated system");
const START: Position = Position(1000);
const NODES: usize = 3;

/// What all nodes of a run share, past the network.
struct Run {
    clock: Clock,
    pieces: Cell<u64>,
    /// Sequence and number of the pieces that were reported as replicated.
    reported: RefCell<Vec<(Sequence, u64)>>,
    /// The rules that were seen to be broken.
    violations: RefCell<Vec<String>>,
    /// The newest term in which a client was answered.
    answered: Cell<Term>,
    /// How long a lease lives.
    lifetime: u64,
    /// For how long a node keeps a lease behind the begin of a renewal.
    kept_for: u64,
    /// No node publishes any more.
    ending: Cell<bool>,
    /// Whether the log breaks its promise.
    promise_broken: bool,
}

/// A node. What it has seen survives its process.
struct Node {
    run: Rc<Run>,
    log: MemoryLog,
    name: String,
    end: Cell<End>,
    /// The numbers of the pieces that it has seen.
    seen: RefCell<Vec<Numbers>>,
    broken: Cell<bool>,
    keeper: RefCell<Option<LeaseKeeper<MemoryLog>>>,
    candidate: RefCell<Candidate<u64>>,
    /// The term in which it is the primary.
    leads: Cell<Option<Term>>,
    /// Until when it keeps the lease.
    kept_until: Cell<u64>,
    /// From when on no earlier lease is kept.
    serves_from: Cell<u64>,
}

/// The number of a piece, and that of the piece before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Numbers {
    number: u64,
    before: u64,
}

impl Numbers {
    fn to_body(self) -> Vec<u8> {
        [self.number.to_le_bytes(), self.before.to_le_bytes()].concat()
    }

    /// Returns nothing for an opening.
    fn of(piece: &Piece) -> Option<Self> {
        let number = |at: usize| u64::from_le_bytes(piece.body[at..at + 8].try_into().unwrap());
        (!piece.is_opening()).then(|| Self { number: number(0), before: number(8) })
    }
}

/// Returns the value of a future, or nothing if it takes longer.
async fn within<T>(clock: &Clock, ticks: u64, future: impl Future<Output = T>) -> Option<T> {
    let (mut future, mut over) = (pin!(future), pin!(clock.sleep(ticks)));
    poll_fn(|context| {
        if let Poll::Ready(value) = future.as_mut().poll(context) {
            return Poll::Ready(Some(value));
        }
        over.as_mut().poll(context).map(|()| None)
    })
    .await
}

impl Node {
    /// The life of a process: it follows, and now and then is the primary.
    async fn live(self: Rc<Self>) {
        let clock = &self.run.clock;
        // A process knows nothing of what the one before had seen.
        self.candidate.replace(Candidate::new());
        self.leads.set(None);
        while !self.broken.get() {
            let mut follower = Follower::new(self.log.clone(), IDENTITY, self.end.get());
            if let Some(lease) = self.follow(&mut follower).await
                && self.catch_up(&mut follower).await
                && let Some(publisher) = self.open(lease).await
            {
                *self.keeper.borrow_mut() = Some(publisher.keeper());
                self.leads.set(Some(publisher.end().term));
                clock.sleep(self.serves_from.get().saturating_sub(clock.now())).await;
                self.publish(publisher).await;
                self.leads.set(None);
                let keeper = self.keeper.take();
                if let Some(keeper) = keeper.filter(|_| clock.chance(500)) {
                    let _ = keeper.release().await;
                }
            }
        }
    }

    /// Renews the lease of the publisher, as a task beside it.
    async fn renew(self: Rc<Self>) {
        loop {
            self.run.clock.sleep(30 + self.run.clock.below(100)).await;
            let keeper = self.keeper.borrow().clone();
            if let Some(keeper) = keeper {
                let since = self.run.clock.now();
                if keeper.renew().await.is_ok() && self.leads.get().is_some() {
                    self.kept_until.set(since + self.run.kept_for);
                }
            }
            self.read();
        }
    }

    /// Reads as a primary, if it is one: no other one may have answered a client since.
    fn read(&self) {
        let answered = self.run.answered.get();
        if self.keeps_lease() && self.leads.get().is_some_and(|term| answered > term) {
            self.violation(format!("{:?} reads after term {answered} has answered", self.leads.get()));
        }
    }

    fn keeps_lease(&self) -> bool {
        self.run.clock.now() < self.kept_until.get()
    }

    /// Follows until the node has the lease, or the stream is broken.
    async fn follow(&self, follower: &mut Follower<MemoryLog>) -> Option<Lease> {
        let clock = &self.run.clock;
        loop {
            match within(clock, 20 + clock.below(300), follower.next()).await {
                Some(next) => {
                    self.see(follower, next)?;
                }
                None if clock.chance(300) => {
                    let _ = follower.check_reader().await;
                }
                None if self.run.ending.get() => {}
                None => {
                    let since = clock.now();
                    let old = self.candidate.borrow().old(|at| since - at > 2 * self.run.lifetime);
                    let acquired = self.log.acquire(&self.name, old).await;
                    self.candidate.borrow_mut().note(&acquired, clock.now());
                    if let Ok(lease) = acquired {
                        let free = self.candidate.borrow().free_from(&lease, clock.now());
                        self.serves_from.set(free.map_or(0, |at| at + self.run.kept_for));
                        self.kept_until.set(since + self.run.kept_for);
                        return Some(lease);
                    }
                }
            }
        }
    }

    /// Follows to what the log calls its end.
    async fn catch_up(&self, follower: &mut Follower<MemoryLog>) -> bool {
        let Ok(last) = self.log.last().await else { return false };
        while follower.end().sequence < last {
            let Some(next) = within(&self.run.clock, 2000, follower.next()).await else { return false };
            if self.see(follower, next).is_none() {
                return false;
            }
        }
        true
    }

    /// Remembers a piece. Returns nothing if the stream is broken.
    fn see(&self, follower: &Follower<MemoryLog>, next: Result<Piece, FollowError>) -> Option<()> {
        match next {
            Ok(piece) => {
                self.seen.borrow_mut().extend(Numbers::of(&piece));
                self.end.set(follower.end());
            }
            Err(FollowError::Unreachable(_)) => {}
            Err(error) => {
                self.broken.set(true);
                if !self.run.promise_broken {
                    self.violation(format!("{error}"));
                }
                return None;
            }
        }
        Some(())
    }

    async fn open(&self, lease: Lease) -> Option<Publisher<MemoryLog>> {
        for _ in 0..5 {
            match Publisher::open(self.log.clone(), IDENTITY, lease.clone(), self.end.get()).await {
                Ok(publisher) => return Some(publisher),
                Err(OpenError::Unknown(_) | OpenError::Behind { .. }) => {}
                Err(OpenError::Diverged { sequence }) if !self.run.promise_broken => {
                    self.violation(format!("diverged at sequence {sequence}"));
                    return None;
                }
                Err(_) => return None,
            }
        }
        None
    }

    /// Publishes until the publisher is fenced, or the node has had enough of it.
    async fn publish(&self, mut publisher: Publisher<MemoryLog>) {
        let clock = &self.run.clock;
        self.end.set(publisher.end());
        while !self.run.ending.get() && !clock.chance(20) {
            self.read();
            if clock.chance(500) {
                // Sometimes for longer than the lease lives.
                let ticks = if clock.chance(50) { 3000 } else { 40 };
                clock.sleep(clock.below(ticks)).await;
            }
            let number = self.run.pieces.get() + 1;
            self.run.pieces.set(number);
            let before = self.seen.borrow().last().map_or(0, |last| last.number);
            let numbers = Numbers { number, before };
            let to = Position(self.end.get().position.0 + 1 + clock.below(2));
            let fenced = publisher.fence().is_some();
            let body = numbers.to_body();
            let mut outcome = if clock.chance(100) {
                within(clock, clock.below(30), publisher.publish(to, &body)).await
            } else {
                Some(publisher.publish(to, &body).await)
            };
            let mut attempts = 0;
            while !matches!(outcome, Some(Ok(_) | Err(PublishError::Fenced(_)))) && attempts < 10 {
                outcome = Some(publisher.settle().await);
                attempts += 1;
            }
            let Some(Ok(end)) = outcome else { return };
            if fenced {
                self.violation(format!("piece {number} was published by a fenced publisher"));
            }
            self.run.reported.borrow_mut().push((end.sequence, number));
            if self.keeps_lease() {
                self.run.answered.set(self.run.answered.get().max(end.term));
            }
            self.seen.borrow_mut().push(numbers);
            self.end.set(end);
        }
    }

    fn violation(&self, what: String) {
        self.run.violations.borrow_mut().push(format!("{}: {what}", self.name));
    }
}

/// Checks that each piece follows the one that its primary knew.
fn check_sequence(name: &str, seen: &[Numbers], violations: &mut Vec<String>) {
    let mut before = 0;
    for numbers in seen {
        if numbers.before != before {
            violations.push(format!("{name}: {numbers:?} follows piece {before}"));
            return;
        }
        before = numbers.number;
    }
}

/// Returns the contents of the stream, by sequence; openings are `None`.
fn stream(log: &MemoryLog) -> Vec<Option<Numbers>> {
    log.messages().iter().map(|message| Numbers::of(&Piece::decode(message).unwrap())).collect()
}

fn judge(run: &Run, nodes: &[Rc<Node>], log: &MemoryLog) -> Vec<String> {
    let mut violations = run.violations.take();
    for node in nodes {
        check_sequence(&node.name, &node.seen.borrow(), &mut violations);
    }
    if run.promise_broken {
        return violations;
    }
    let stream = stream(log);
    let pieces: Vec<Numbers> = stream.iter().flatten().copied().collect();
    check_sequence("the stream", &pieces, &mut violations);
    let mut count: HashMap<u64, u32> = HashMap::new();
    pieces.iter().for_each(|numbers| *count.entry(numbers.number).or_default() += 1);
    for &(sequence, number) in run.reported.borrow().iter() {
        let there = stream.get(sequence.0 as usize - 1).copied().flatten();
        if there.map(|numbers| numbers.number) != Some(number) || count[&number] != 1 {
            violations.push(format!("piece {number} was reported at sequence {sequence}, where {there:?} is"));
        }
    }
    for node in nodes {
        if !pieces.starts_with(&node.seen.borrow()) {
            violations.push(format!("{}: what it has seen is no prefix of the stream", node.name));
        }
    }
    violations
}

/// The processes of a node.
fn start(simulation: &Simulation, node: &Rc<Node>) -> [TaskId; 2] {
    [simulation.spawn(node.clone().live()), simulation.spawn(node.clone().renew())]
}

/// What happened in a run.
#[derive(Debug, Default, PartialEq, Eq)]
struct Summary {
    published: usize,
    terms: usize,
    broken: usize,
    trace: u32,
}

/// Runs a seed; returns the rules that were broken, if any.
fn simulate(seed: u64) -> Result<Summary, String> {
    let simulation = Simulation::new(seed);
    let clock = simulation.clock().clone();
    let promise_broken = seed % 4 == 3;
    let faults = Faults::random(&clock);
    let lifetime = faults.lifetime;
    let log = MemoryLog::new(&simulation, faults);
    let run = Rc::new(Run {
        clock: clock.clone(),
        pieces: Cell::default(),
        reported: RefCell::default(),
        violations: RefCell::default(),
        answered: Cell::default(),
        lifetime,
        kept_for: lifetime * 4 / 5,
        ending: Cell::default(),
        promise_broken,
    });
    let node = |index: usize| {
        Rc::new(Node {
            run: run.clone(),
            log: log.client(),
            name: format!("node {index}"),
            end: Cell::new(End::start(START)),
            seen: RefCell::default(),
            broken: Cell::default(),
            keeper: RefCell::default(),
            candidate: RefCell::default(),
            leads: Cell::default(),
            kept_until: Cell::default(),
            serves_from: Cell::default(),
        })
    };
    let nodes: Vec<Rc<Node>> = (1..=NODES).map(node).collect();
    let mut tasks: Vec<_> = nodes.iter().map(|node| start(&simulation, node)).collect();
    for _ in 0..20 {
        simulation.run(1 + clock.below(400));
        let index = clock.below(NODES as u64) as usize;
        match clock.below(6) {
            0 | 1 => {
                tasks[index].into_iter().for_each(|task| simulation.stop(task));
                nodes[index].keeper.take();
                tasks[index] = start(&simulation, &nodes[index]);
            }
            2 => nodes[index].log.cut(true),
            3 => nodes.iter().for_each(|node| node.log.cut(false)),
            4 if clock.chance(500) => log.expire_lease(),
            4 => log.keep_lease(),
            5 if promise_broken && clock.chance(500) => replace_last(&run, &log),
            5 if promise_broken => log.replace_tail(1 + clock.below(3) as usize, []),
            _ => {}
        }
    }
    nodes.iter().for_each(|node| node.log.cut(false));
    let mut violations = judge(&run, &nodes, &log);
    if !promise_broken && violations.is_empty() {
        let reported = run.reported.borrow().len();
        let published = attempt(&simulation, || run.reported.borrow().len() > reported);
        run.ending.set(true);
        let all_there = || nodes.iter().all(|node| node.end.get().sequence.0 == log.messages().len() as u64);
        let ended = published && attempt(&simulation, all_there);
        violations = judge(&run, &nodes, &log);
        if !published {
            violations.push("nothing was published after the network was whole again".into());
        } else if !ended {
            violations.push("the nodes did not come to the end of the stream".into());
        }
    }
    tasks.into_iter().flatten().for_each(|task| simulation.stop(task));
    if violations.is_empty() { Ok(summary(&run, &nodes, &log)) } else { Err(violations.join("\n")) }
}

/// Lets the simulation run until a condition holds.
fn attempt(simulation: &Simulation, holds: impl Fn() -> bool) -> bool {
    (0..300).any(|_| {
        simulation.run(500);
        holds()
    })
}

/// The log breaks its promise: its last message is replaced by another piece of the same term and positions.
fn replace_last(run: &Run, log: &MemoryLog) {
    let Some(message) = log.messages().pop() else { return };
    let mut piece = Piece::decode(&message).unwrap();
    if let Some(Numbers { before, .. }) = Numbers::of(&piece) {
        let number = run.pieces.get() + 1;
        run.pieces.set(number);
        piece.body = Bytes::from(Numbers { number, before }.to_body());
        log.replace_tail(1, [piece.encode()]);
    }
}

fn summary(run: &Run, nodes: &[Rc<Node>], log: &MemoryLog) -> Summary {
    let stream = stream(log);
    let mut trace = format!("{:?}", run.reported.borrow());
    write!(trace, "{} {stream:?}", run.clock.now()).unwrap();
    Summary {
        published: run.reported.borrow().len(),
        terms: stream.iter().filter(|piece| piece.is_none()).count(),
        broken: nodes.iter().filter(|node| node.broken.get()).count(),
        trace: crc32c::crc32c(trace.as_bytes()),
    }
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().expect("a number"))
}

#[test]
fn the_stream_stays_one_sequence() {
    let seeds = match from_environment("ERMINE_TEST_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..from_environment("ERMINE_TEST_SEEDS").unwrap_or(300),
    };
    let mut total = Summary::default();
    for seed in seeds.clone() {
        let summary = simulate(seed).unwrap_or_else(|violations| panic!("ERMINE_TEST_SEED={seed}: {violations}"));
        total.published += summary.published;
        total.terms += summary.terms;
        total.broken += summary.broken;
    }
    println!("{seeds:?}: {total:?}");
    if seeds.end - seeds.start >= 100 {
        // The runs are worth something: primaries publish, and are replaced.
        let runs = (seeds.end - seeds.start) as usize;
        assert!(total.published > 10 * runs && total.terms > 3 * runs && total.broken > runs / 20, "{total:?}");
    }
}

#[test]
fn a_seed_is_a_run() {
    for seed in 0..8 {
        assert_eq!(simulate(seed), simulate(seed));
    }
}

/// A rule that is broken on purpose does not stay hidden from the judge.
/// `RUSTFLAGS="--cfg ermine_mutants" cargo test -p ermine-replication --test all a_fault`
#[cfg(ermine_mutants)]
#[test]
fn a_fault_on_purpose_is_found() {
    use ermine_replication::mutant::Mutant;

    let mut missed = Vec::new();
    for &mutant in Mutant::ALL {
        Mutant::choose(Some(mutant));
        let found = (0..300).find_map(|seed| simulate(seed).err().map(|violations| (seed, violations)));
        Mutant::choose(None);
        println!("{mutant:?}: {found:?}");
        missed.extend(found.is_none().then_some(mutant));
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}

//! A trial: clients drive a database under one scheme, and their transactions are counted by kind.
//!
//! A workload defines the names of its kinds and the next action of a client ([`Client::step`]); the client runs its
//! transactions through its [`ClientContext`], which retries and counts them. The rest is the same for all workloads:
//! the threads ([`threads`]), the counts ([`Tally`]), the report ([`crate::summary`]).
//!
//! A latency lasts from a moment that the client chooses to the acknowledgement:
//! - from the call of [`ClientContext::run`]: two readings of the clock per transaction;
//! - from the end of the transaction before ([`ClientContext::last_reading`]): one reading, and the drawing of inputs
//!   counts, too;
//! - or only some transactions are timed ([`ClientContext::run_since`]).
//!
//! A comparison of several schemes is several trials in turn: see [`crate::rounds`].

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use ermine::{Aborts, Database, Error, Job, Receipt, Scheme, Transaction, observer::Observer};
use serde::Serialize;

use crate::{
    Result,
    abort_shapes::AbortShapes,
    arrivals::Arrivals,
    cold::ColdUse,
    conflicts::{Conflicts, Counted},
    latency::Latency,
    machine::processor_seconds,
    report::seconds,
    series::Series,
    sharing::Sharing,
    storage::{self, LogUse, Outstanding, Storage},
    threads::{self, Event, Pace, Progress, Tick, Worker},
    tuning::Tuning,
};

/// How long a client waits for the time of its next transaction before it looks whether the run is over.
const WAIT_MAX: Duration = Duration::from_millis(10);

/// The schemes whose rates are compared: the transactions of a workload that measures them are compiled for each of
/// these separately, so that no operation dispatches on the scheme.
pub(crate) const MEASURED: &[Scheme] =
    &[Scheme::Rc, Scheme::Si, Scheme::RcSsn, Scheme::SiSsn, Scheme::SiSsi, Scheme::MvOcc, Scheme::Silo];

/// Inserts the rows with numbers below `count`, in their order, a few hundred per transaction. They are durable at the
/// end.
pub fn insert_rows(
    db: &Database,
    count: u64,
    insert: impl Fn(&Transaction<'_>, u64) -> ermine::Result<()>,
) -> Result<()> {
    const BATCH: u64 = 500;
    for first in (0..count).step_by(BATCH as usize) {
        let batch = first..count.min(first + BATCH);
        db.run_with(storage::loading(), |txn| batch.clone().try_for_each(|number| insert(txn, number)))?;
    }
    Ok(db.sync()?)
}

/// Policy for a transaction that lost a conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Retry {
    /// It runs again until it commits.
    Yes,
    /// It is dropped, as research prototypes do.
    No,
}

/// Options of a trial that all workloads share.
#[derive(Clone, Debug, Serialize)]
pub struct RunOptions {
    /// Time before measuring starts.
    #[serde(serialize_with = "seconds", rename = "warmup_seconds")]
    pub warmup: Duration,
    /// Measured time.
    #[serde(serialize_with = "seconds", rename = "measured_seconds")]
    pub measured: Duration,
    /// Number of transactions that each client completes at least: the measured time goes on until then.
    pub least: u64,
    /// Policy after a lost conflict.
    pub retry: Retry,
    /// Steps ([`Client::step`]) that all clients together begin a second, each client as many, at random times, whether
    /// those before have ended or not; latencies are measured from these times. `None`: each client begins one when the
    /// one before has ended.
    #[serde(rename = "offered_per_second")]
    pub rate: Option<f64>,
    /// Seed of data and inputs.
    pub seed: u64,
    /// Age from which on a version counts as stale, in bytes of log: its readers are not tracked. `None`: each table
    /// finds its own threshold; [`u64::MAX`]: every read is tracked.
    pub stale_after: Option<u64>,
    /// Whether to count aborts by shape.
    pub explain_aborts: bool,
    /// Where the database is stored; in memory if not set.
    pub storage: Option<Storage>,
    /// Settings of the engine.
    pub tuning: Tuning,
    /// Observes every transaction, the loader's too.
    #[serde(skip)]
    pub observer: Option<Arc<dyn Observer>>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            warmup: Duration::from_secs(1),
            measured: Duration::from_secs(5),
            least: 0,
            retry: Retry::Yes,
            rate: None,
            seed: 1,
            stale_after: None,
            explain_aborts: false,
            storage: None,
            tuning: Tuning::default(),
            observer: None,
        }
    }
}

impl RunOptions {
    /// Opens an empty database where the options say.
    pub fn open(&self, scheme: Scheme) -> Result<Database> {
        let mut options = ermine::Options::default().scheme(scheme);
        options.stale_after = self.stale_after;
        options.observer = self.observer.clone();
        storage::open(options, self.storage.as_ref(), &self.tuning)
    }

    /// Fails if the options cannot work under these schemes.
    pub fn check(&self, schemes: &[Scheme]) -> Result<()> {
        if self.measured.is_zero() {
            return Err(crate::Error::Usage("nothing can be measured in zero seconds".into()));
        }
        if self.rate.is_some_and(|rate| !(rate > 0.0 && rate.is_finite())) {
            return Err(crate::Error::Usage("a rate is a positive number of transactions a second".into()));
        }
        storage::check(schemes, self.storage.as_ref(), &self.tuning)
    }
}

impl fmt::Display for RunOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (measured, warmup) = (self.measured.as_secs_f64(), self.warmup.as_secs_f64());
        write!(f, "{measured:.1} s after {warmup:.1} s of warm-up, retry {:?}, seed {}", self.retry, self.seed)?;
        if let Some(rate) = self.rate {
            write!(f, ", {rate} transactions a second begin at random times")?;
        }
        match self.stale_after {
            None => Ok(()),
            Some(u64::MAX) => f.write_str(", every read tracked"),
            Some(bytes) => write!(f, ", stale after {bytes} bytes"),
        }?;
        f.write_str(&storage::in_words(self.storage.as_ref(), &self.tuning))
    }
}

/// The work that one thread does over and over.
pub trait Client: Send {
    /// Runs one transaction, or a few.
    fn step(&mut self, context: &mut ClientContext<'_>) -> Result<()>;

    /// Called when the warm-up is over: discards what the client itself has counted for its report.
    fn start_measuring(&mut self) {}
}

/// Counts of one kind of transaction, on cache lines of their own: those of all threads are allocated side by side.
#[derive(Clone, Debug, Default)]
#[repr(align(128))]
pub struct Tally {
    /// Transactions whose commit was acknowledged.
    pub committed: u64,
    /// Transactions that ended as intended with a rollback by their user.
    pub rolled_back: u64,
    /// Transactions dropped after a lost conflict (without retries).
    pub dropped: u64,
    /// Transactions that failed on a key that another transaction had taken after a lost update: under `rc` only.
    pub lost: u64,
    /// Counts of lost conflicts.
    pub conflicts: Conflicts,
    /// Latency of those that committed or were rolled back, with all retries, up to their acknowledgement.
    pub latency: Latency,
}

impl Tally {
    /// Transactions that ended as intended.
    pub fn completed(&self) -> u64 {
        self.committed + self.rolled_back
    }

    fn merge(&mut self, other: &Self) {
        self.committed += other.committed;
        self.rolled_back += other.rolled_back;
        self.dropped += other.dropped;
        self.lost += other.lost;
        self.conflicts.merge(&other.conflicts);
        self.latency.merge(&other.latency);
    }
}

/// A commit that waits for its acknowledgement.
pub struct Commit {
    /// The number of the transaction's kind.
    pub kind: usize,
    /// The moment from which its latency is measured, if it is.
    pub begin: Option<Instant>,
    /// Called at the acknowledgement.
    pub then: Option<Box<dyn FnOnce() -> Result<()> + Send>>,
}

impl Commit {
    /// Counts the commit. The clock is read at most once, for all commits that are acknowledged together.
    #[inline]
    fn acknowledge(self, tallies: &mut [Tally], clock: &mut Option<Instant>) -> Result<()> {
        let Self { kind, begin, then } = self;
        let tally = &mut tallies[kind];
        tally.committed += 1;
        if let Some(begin) = begin {
            tally.latency.record(*clock.get_or_insert_with(Instant::now) - begin);
        }
        then.map_or(Ok(()), |then| then())
    }
}

/// Runs and counts the transactions of a client.
pub struct ClientContext<'a> {
    db: &'a Database,
    retry: Retry,
    tallies: Vec<Tally>,
    outstanding: Outstanding<'a, Commit>,
    /// The reading of the clock that ended the transaction before, if there was one; in an open loop, the time at which
    /// the transaction should begin.
    clock: Option<Instant>,
    /// In an open loop, the times at which steps begin.
    arrivals: Option<Arrivals>,
    /// In an open loop, the time at which the step should have begun, until its first transaction takes it.
    due: Option<Instant>,
    /// Set if aborts are to be explained.
    shapes: Option<AbortShapes>,
    /// Set if transactions are ordered within each session.
    session: Option<ermine::Session>,
}

impl<'a> ClientContext<'a> {
    /// Creates the context of one of several clients.
    fn new(db: &'a Database, kinds: usize, run_options: &RunOptions, number: usize, clients: usize) -> Self {
        let arrivals = run_options.rate.map(|rate| {
            // The streams of clients begin at 0, and at 2^63.
            Arrivals::new(rate / clients as f64, run_options.seed, 1 << 62 | number as u64)
        });
        Self {
            db,
            retry: run_options.retry,
            tallies: vec![Tally::default(); kinds],
            outstanding: Outstanding::new(run_options.storage.as_ref()),
            clock: None,
            arrivals,
            due: None,
            shapes: AbortShapes::when(run_options.explain_aborts),
            session: run_options.tuning.session(),
        }
    }

    /// Runs a transaction of the kind with this number; returns `None` if it was dropped after a lost conflict. The
    /// transaction may not be durable yet when this returns.
    pub fn run<J: Job<Error = Error>>(&mut self, kind: usize, job: J) -> Result<Option<J::Output>> {
        let begin = self.begin();
        self.run_since(kind, Some(begin), job)
    }

    /// Whether transactions begin at times of their own, so that each has a latency.
    pub fn is_open_loop(&self) -> bool {
        self.arrivals.is_some()
    }

    /// Waits until the next transaction should begin, but not for long; returns whether that time has come.
    fn is_due(&mut self) -> Result<bool> {
        let Some(arrivals) = &self.arrivals else { return Ok(true) };
        let (due, now) = (arrivals.next(), Instant::now());
        let until = due.min(now + WAIT_MAX);
        while self.outstanding.wait_until(until)? {
            self.settle(|outstanding, acknowledge| {
                outstanding.acknowledge(acknowledge);
                Ok(())
            })?;
        }
        let Some(arrivals) = self.arrivals.as_mut().filter(|_| until == due) else { return Ok(false) };
        self.due = Some(arrivals.take());
        self.clock = self.due;
        Ok(true)
    }

    /// The time from which the latency of a transaction is measured that begins now.
    fn begin(&mut self) -> Instant {
        self.due.take().unwrap_or_else(Instant::now)
    }

    /// Like [`Self::run`]; the latency is measured from `begin`, or not at all.
    #[inline]
    pub fn run_since<J: Job<Error = Error>>(
        &mut self,
        kind: usize,
        begin: Option<Instant>,
        job: J,
    ) -> Result<Option<J::Output>> {
        match self.execute(kind, job) {
            Ok((output, receipt)) => {
                self.hand_in(receipt, Commit { kind, begin, then: None })?;
                Ok(Some(output))
            }
            Err(Error::Abort(_)) => {
                self.tallies[kind].dropped += 1;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Runs a transaction and counts the conflicts that it loses. The caller counts its end: with [`Self::hand_in`],
    /// [`Self::roll_back`], or in its [`Self::tally`].
    // A function of its own: `scripts/counts` finds what the transactions of each kind cost by it.
    #[inline(never)]
    pub fn execute<J: Job>(&mut self, kind: usize, job: J) -> Result<(J::Output, Receipt<'a>), J::Error> {
        let conflicts = &mut self.tallies[kind].conflicts;
        let mut counted = Counted::new(job, kind, conflicts, self.shapes.as_mut(), self.session.as_ref());
        match self.retry {
            Retry::Yes => self.db.run_job_async(&mut counted),
            Retry::No => self.db.try_job_async(&mut counted),
        }
    }

    /// Counts a commit when it is acknowledged: now, if it need not wait for the device.
    #[inline]
    pub fn hand_in(&mut self, receipt: Receipt<'a>, commit: Commit) -> Result<()> {
        if self.outstanding.is_immediate() {
            drop(receipt);
            self.clock = None;
            return commit.acknowledge(&mut self.tallies, &mut self.clock);
        }
        self.let_wait(receipt, commit)
    }

    /// Counts the commits that are acknowledged while this one begins to wait.
    #[inline(never)]
    fn let_wait(&mut self, receipt: Receipt<'a>, commit: Commit) -> Result<()> {
        self.settle(|outstanding, acknowledge| outstanding.hand_in(receipt, commit, acknowledge))
    }

    /// Counts the commits that are acknowledged by `settle`.
    fn settle(
        &mut self,
        settle: impl FnOnce(&mut Outstanding<'a, Commit>, &mut dyn FnMut(Commit)) -> Result<()>,
    ) -> Result<()> {
        let Self { tallies, outstanding, clock, .. } = self;
        *clock = None;
        let mut done = Ok(());
        settle(outstanding, &mut |mut commit| {
            // What follows a failure is only counted.
            commit.then.take_if(|_| done.is_err());
            let acknowledged = commit.acknowledge(tallies, clock);
            done = std::mem::replace(&mut done, Ok(())).and(acknowledged);
        })?;
        done
    }

    /// Counts a transaction that its user has rolled back: it is complete.
    pub fn roll_back(&mut self, kind: usize, begin: Instant) {
        let (tally, now) = (&mut self.tallies[kind], Instant::now());
        tally.rolled_back += 1;
        tally.latency.record(now - begin);
        self.clock = Some(now);
    }

    /// The counts of the kind with this number.
    pub fn tally(&mut self, kind: usize) -> &mut Tally {
        &mut self.tallies[kind]
    }

    /// The reading of the clock at the end of the transaction before; a new reading if that transaction needed none. In
    /// an open loop, for the first transaction of a step, the time at which the step should have begun.
    #[inline]
    pub fn last_reading(&mut self) -> Instant {
        self.clock.take().unwrap_or_else(Instant::now)
    }

    /// Reads a safe snapshot, which loses no conflict.
    pub fn read_snapshot<T>(
        &mut self,
        kind: usize,
        read: impl FnOnce(&Transaction<'_>) -> ermine::Result<T>,
    ) -> Result<T> {
        let begin = Some(self.begin());
        let mut options = ermine::TxnOptions::snapshot();
        options.session = self.session.clone();
        let snapshot = self.db.begin(options)?;
        let value = read(&snapshot)?;
        let receipt = snapshot.commit_async()?;
        self.hand_in(receipt, Commit { kind, begin, then: None })?;
        Ok(value)
    }

    fn reset(&mut self) {
        for tally in &mut self.tallies {
            let mut latency = std::mem::take(&mut tally.latency);
            latency.reset();
            *tally = Tally { latency, ..Tally::default() };
        }
        self.shapes.iter_mut().for_each(AbortShapes::reset);
        self.clock = None;
    }

    fn progress(&self) -> Progress {
        self.tallies.iter().fold(Progress::default(), |sum, tally| Progress {
            completed: sum.completed + tally.completed(),
            aborted: sum.aborted + tally.conflicts.aborted,
        })
    }
}

/// A client and its context: the work of one thread.
struct ClientWorker<'a, C> {
    client: C,
    context: ClientContext<'a>,
}

impl<C: Client> Worker for ClientWorker<'_, C> {
    fn step(&mut self) -> Result<()> {
        match self.context.is_due()? {
            true => self.client.step(&mut self.context),
            false => Ok(()),
        }
    }

    fn start_measuring(&mut self) {
        self.client.start_measuring();
        self.context.reset();
    }

    fn progress(&self) -> Progress {
        self.context.progress()
    }

    fn finish(&mut self) -> Result<()> {
        self.context.outstanding.settle(|_| ())
    }
}

/// Counts of the measured time.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Measured time, the average over the clients.
    pub seconds: f64,
    /// Processor time of the whole process during it.
    pub processor_seconds: f64,
    /// Use of the log, if the database had a directory.
    pub log: Option<LogUse>,
    /// What happened to rows for which there was no room.
    pub cold: Option<ColdUse>,
    /// Shared cache lines, in a build that counts them; of the last period.
    pub sharing: Option<Sharing>,
    /// Counts by kind of transaction.
    pub tallies: Vec<Tally>,
    /// Aborted attempts as the engine counts them, in the order of [`ermine::AbortKind::ALL`].
    pub engine_aborts: Aborts,
    /// Aborts by shape, if they are to be explained.
    pub shapes: AbortShapes,
    /// Throughput over time.
    pub series: Series,
}

impl Counts {
    /// Creates empty counts for a workload with this number of kinds of transactions.
    pub fn new(kinds: usize) -> Self {
        Self { tallies: vec![Tally::default(); kinds], ..Self::default() }
    }

    /// Adds the counts of a later period.
    pub fn add(&mut self, later: &Self) {
        self.seconds += later.seconds;
        self.processor_seconds += later.processor_seconds;
        self.log = LogUse::sum([self.log, later.log]);
        self.tallies.iter_mut().zip(&later.tallies).for_each(|(own, later)| own.merge(later));
        self.engine_aborts.add(&later.engine_aborts);
        self.shapes.merge(&later.shapes);
        self.sharing = later.sharing;
        self.series.extend(&later.series);
    }

    /// The counts of all kinds together.
    pub fn total(&self) -> Tally {
        self.tallies.iter().fold(Tally::default(), |mut sum, tally| {
            sum.merge(tally);
            sum
        })
    }

    /// Commits per second of a kind.
    pub fn per_second(&self, kind: usize) -> f64 {
        self.tallies[kind].committed as f64 / self.seconds.max(f64::MIN_POSITIVE)
    }
}

/// Runs one thread per client; returns the clients with what was counted. `kinds` is the number of kinds of
/// transactions.
pub fn run<C: Client>(
    db: &Database,
    clients: Vec<C>,
    kinds: usize,
    run_options: &RunOptions,
    watch: &mut dyn FnMut(Tick),
) -> Result<(Vec<C>, Counts)> {
    let number_of_clients = clients.len();
    let context = |number| ClientContext::new(db, kinds, run_options, number, number_of_clients);
    let clients = clients.into_iter().enumerate();
    let workers = clients.map(|(number, client)| ClientWorker { client, context: context(number) }).collect();
    let pace = Pace { warmup: run_options.warmup, measured: run_options.measured, least: run_options.least };
    let mut counts = Counts::new(kinds);
    let (mut processor, mut before) = (0.0, db.statistics());
    let (mut last, mut sharing) = (before.clone(), Sharing::start());
    let done = threads::run(workers, pace, &mut |event| match event {
        Event::Second(tick) => {
            if !tick.warmup {
                let now = db.statistics();
                let disk_bytes = storage::disk_bytes(run_options.storage.as_ref(), &run_options.tuning);
                counts.series.add(&tick, &last, &now, disk_bytes);
                last = now;
            }
            watch(tick);
        }
        Event::Measuring => {
            (processor, before) = (processor_seconds(), db.statistics());
            last = before.clone();
            sharing = Sharing::start();
        }
    })?;
    counts.processor_seconds = processor_seconds() - processor;
    let after = db.statistics();
    counts.log = run_options.storage.as_ref().map(|_| LogUse::of(&after).since(LogUse::of(&before)));
    counts.cold = ColdUse::between(&before, &after);
    counts.engine_aborts = after.aborts.since(&before.aborts);
    let threads = done.len() as f64;
    let mut clients = Vec::with_capacity(done.len());
    for threads::Done { worker: ClientWorker { client, context }, measured } in done {
        counts.seconds += measured.as_secs_f64() / threads;
        counts.tallies.iter_mut().zip(&context.tallies).for_each(|(sum, tally)| sum.merge(tally));
        context.shapes.iter().for_each(|shapes| counts.shapes.merge(shapes));
        clients.push(client);
    }
    counts.sharing = sharing.per_transaction(counts.total().completed());
    Ok((clients, counts))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use ermine::{Access, Table};

    use super::*;

    /// Puts a row, or fails on its own.
    struct Put<'a> {
        rows: &'a Table<u64, u64>,
        fails: bool,
    }

    impl Job for Put<'_> {
        type Output = ();
        type Error = Error;

        fn run<A: Access>(&mut self, txn: &Transaction<'_, A>) -> ermine::Result<()> {
            txn.put(self.rows, &1, &1)?;
            if self.fails { Err(Error::other("rolled back")) } else { Ok(()) }
        }
    }

    const NAMES: [&str; 3] = ["timed", "untimed", "rolled back"];

    /// Runs one transaction of each kind in a step.
    struct Probe<'a> {
        rows: &'a Table<u64, u64>,
        acknowledged: Arc<AtomicU64>,
        /// The acknowledgement that fails, from 1.
        fail_at: u64,
        measured_steps: u64,
    }

    impl Client for Probe<'_> {
        fn step(&mut self, context: &mut ClientContext<'_>) -> Result<()> {
            let rows = self.rows;
            self.measured_steps += 1;
            let begin = context.last_reading();
            let ((), receipt) = context.execute(0, Put { rows, fails: false })?;
            let (acknowledged, fail_at) = (self.acknowledged.clone(), self.fail_at);
            let then = move || match acknowledged.fetch_add(1, Ordering::Relaxed) + 1 == fail_at {
                true => Err(crate::Error::Workload("enough".into())),
                false => Ok(()),
            };
            context.hand_in(receipt, Commit { kind: 0, begin: Some(begin), then: Some(Box::new(then)) })?;
            assert!(context.clock.is_some_and(|end| end >= begin), "the end is where the next transaction begins");
            context.run_since(1, None, Put { rows, fails: false })?;
            assert!(context.clock.is_none(), "no clock was read");
            let begin = context.last_reading();
            assert!(context.execute(2, Put { rows, fails: true }).is_err());
            context.roll_back(2, begin);
            Ok(())
        }

        fn start_measuring(&mut self) {
            self.measured_steps = 0;
        }
    }

    /// Runs two clients; returns their measured steps, the counts, and the number of acknowledgements.
    fn run_probes(fail_at: u64) -> Result<(u64, Counts, u64)> {
        let (warmup, measured) = (Duration::from_millis(20), Duration::from_millis(20));
        let run_options = RunOptions { warmup, measured, least: 30, ..RunOptions::default() };
        let db = run_options.open(Scheme::SiSsn)?;
        let rows = db.table("rows")?;
        let acknowledged = Arc::new(AtomicU64::new(0));
        let probe = |_| Probe { rows: &rows, acknowledged: acknowledged.clone(), fail_at, measured_steps: 0 };
        let (probes, counts) = run(&db, (0..2).map(probe).collect(), NAMES.len(), &run_options, &mut |_| {})?;
        let steps = probes.iter().map(|probe| probe.measured_steps).sum();
        Ok((steps, counts, acknowledged.load(Ordering::Relaxed)))
    }

    #[test]
    fn each_kind_is_counted_by_its_end_and_timed_if_asked() {
        let (steps, counts, acknowledged) = run_probes(0).unwrap();
        let [timed, untimed, rolled_back] = &counts.tallies[..] else { panic!("three kinds") };
        assert_eq!((timed.committed, untimed.committed, rolled_back.rolled_back), (steps, steps, steps));
        assert_eq!((rolled_back.committed, counts.total().completed()), (0, 3 * steps));
        assert!(steps >= 20 && acknowledged > steps, "{steps} measured steps, and those of the warm-up");
        let longest = |tally: &Tally| tally.latency.quantiles().max_us;
        assert!(longest(timed) > 0.0 && longest(rolled_back) > 0.0);
        assert_eq!(longest(untimed), 0.0);
    }

    #[test]
    fn a_failed_acknowledgement_ends_the_run() {
        assert!(matches!(run_probes(5), Err(crate::Error::Workload(what)) if what == "enough"));
    }

    /// Takes two milliseconds for each transaction.
    struct Slow<'a>(&'a Table<u64, u64>);

    impl Client for Slow<'_> {
        fn step(&mut self, context: &mut ClientContext<'_>) -> Result<()> {
            std::thread::sleep(Duration::from_millis(2));
            context.run(0, Put { rows: self.0, fails: false }).map(drop)
        }
    }

    /// Runs two slow clients that complete 20 transactions each, or more.
    fn run_slow(rate: f64) -> Counts {
        let (warmup, measured) = (Duration::ZERO, Duration::from_millis(20));
        let run_options = RunOptions { warmup, measured, least: 20, rate: Some(rate), ..RunOptions::default() };
        let db = run_options.open(Scheme::SiSsn).unwrap();
        let rows = db.table("rows").unwrap();
        let clients = (0..2).map(|_| Slow(&rows)).collect();
        run(&db, clients, 1, &run_options, &mut |_| {}).unwrap().1
    }

    #[test]
    fn no_more_transactions_begin_than_arrive() {
        let counts = run_slow(100.0);
        let arrived = 100.0 * counts.seconds;
        let completed = counts.total().completed() as f64;
        assert!(completed >= 40.0 && completed < 2.0 * arrived + 20.0, "{completed} of some {arrived}");
    }

    #[test]
    fn a_late_transaction_has_waited_since_its_time() {
        // Of each client, 20 transactions of 2 ms arrive in 4 ms.
        let longest = run_slow(10_000.0).total().latency.quantiles().max_us;
        assert!(longest > 20_000.0, "{longest} us");
    }
}

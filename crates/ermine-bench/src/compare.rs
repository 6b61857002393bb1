//! Workloads that several schemes run in turn: a workload states its data, its clients and its conditions, and
//! [`drive`] does the rest.
//!
//! Every scheme has a database of its own. They are loaded, driven in interleaved rounds ([`crate::rounds`]), and
//! checked.

use std::{
    fmt,
    time::{Duration, Instant},
};

use ermine::{Database, Scheme};
use indicatif::ProgressBar;
use serde::Serialize;

use crate::{
    Error, Result,
    machine::cores,
    random::Random,
    report::{Setting, listed, scheme_names},
    rounds::{self, ALL_KINDS, Comparison, Contender, Point},
    trial::{self, Client, Counts, RunOptions},
    verdict::{Check, Promise, Verdict},
};

/// Options of a run: those of the workload, and those that all workloads of this form share.
#[derive(Clone, Debug, Serialize)]
pub struct Options<W> {
    /// Options of the workload.
    #[serde(flatten)]
    pub workload: W,
    /// Concurrency controls, in the order of the report.
    #[serde(serialize_with = "scheme_names")]
    pub schemes: Vec<Scheme>,
    /// Threads; there may be more than cores.
    pub threads: usize,
    /// Rounds into which the time of each scheme and point is divided.
    pub rounds: u32,
    /// Options that all workloads share; times are for each scheme and point.
    #[serde(flatten)]
    pub run_options: RunOptions,
}

impl<W: Workload> Options<W> {
    /// Fails if the options cannot work.
    pub fn check(&self) -> Result<()> {
        if self.threads == 0 {
            return Err(Error::Usage("at least one thread is needed".into()));
        }
        self.workload.check()?;
        rounds::check(&self.schemes, self.rounds, &self.run_options)
    }
}

impl<W: fmt::Display> fmt::Display for Options<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { workload, schemes, threads, rounds, run_options } = self;
        let schemes = listed(schemes);
        write!(f, "schemes {schemes}, {threads} threads, {workload}, each {run_options}, in {rounds} rounds")
    }
}

/// A workload that several schemes run in turn. The type has its options, and their text describes them.
pub trait Workload: Clone + fmt::Display + Serialize {
    /// The name on the command line.
    const NAME: &'static str;
    /// Handles of the tables of one database, and counts of the transactions that have committed on it.
    type Data;

    /// Fails if the options cannot work.
    fn check(&self) -> Result<()>;

    /// The inputs to measure, one after the other.
    fn points(&self) -> Vec<Inputs>;

    /// Fills an empty database.
    fn load(&self, db: &Database, plan: &LoadPlan<'_>) -> Result<Self::Data>;

    /// Drives a database for a share of a round, by [`Turn::drive`].
    fn run(&self, contender: &mut Contender<Self::Data>, turn: &Turn<'_>) -> Result<Counts>;

    /// Checks a database after the run.
    fn verify(&self, contender: &Contender<Self::Data>, seed: u64) -> Result<Vec<(Verdict, Promise)>>;
}

/// One set of inputs.
pub struct Inputs {
    /// Their name, in reports; may be empty if there is one point.
    pub name: String,
    /// The names of the kinds of transactions.
    pub kinds: Vec<&'static str>,
}

/// How a database is loaded.
pub struct LoadPlan<'a> {
    /// The seed of the data.
    pub seed: u64,
    /// Threads.
    pub threads: usize,
    /// Shows the progress.
    pub progress: &'a ProgressBar,
}

/// A share of a round.
pub struct Turn<'a> {
    /// The number of the point.
    pub point: usize,
    /// The round, from 0.
    pub round: u32,
    /// Threads.
    pub threads: usize,
    /// Number of kinds of transactions.
    pub kinds: usize,
    /// Options of the trial.
    pub run_options: &'a RunOptions,
}

impl Turn<'_> {
    /// Runs the clients that `client` makes, one a thread, each with a random stream of its own; returns them with what
    /// was counted.
    pub fn drive<C: Client>(&self, db: &Database, client: impl Fn(Random) -> C) -> Result<(Vec<C>, Counts)> {
        let stream = (self.point as u64) << 48 | u64::from(self.round) << 16;
        let random = |number| Random::new(self.run_options.seed, stream | (number as u64 + 1));
        let clients = (0..self.threads).map(|number| client(random(number))).collect();
        trial::run(db, clients, self.kinds, self.run_options, &mut |_| {})
    }
}

/// An event that is reported to the watcher of a run.
pub enum Event<'a> {
    /// The data of a scheme has been loaded.
    Loaded(Scheme, Duration),
    /// A scheme has run for its share of a round, with the inputs of this name.
    Turn(&'a str, rounds::Turn),
    /// The conditions of a scheme have been checked.
    Checked(Scheme, &'a [Check]),
}

/// Loads a database for each scheme, runs every point, and checks every database.
pub fn drive<W: Workload>(
    options: &Options<W>,
    setting: Setting,
    progress: &ProgressBar,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<Comparison<Options<W>>> {
    options.check()?;
    let Options { workload, schemes, threads, rounds, run_options } = options;
    let plan = LoadPlan { seed: run_options.seed, threads: (*threads).min(cores()), progress };
    let mut contenders = rounds::contenders(schemes, run_options, |db| {
        let begin = Instant::now();
        let data = workload.load(db, &plan)?;
        progress.finish_and_clear();
        watch(Event::Loaded(db.scheme(), begin.elapsed()));
        Ok(data)
    })?;
    let mut points = Vec::new();
    for (point, Inputs { name, mut kinds }) in workload.points().into_iter().enumerate() {
        let trial = |contender: &mut Contender<W::Data>, round: u32, run_options: &RunOptions| {
            workload.run(contender, &Turn { point, round, threads: *threads, kinds: kinds.len(), run_options })
        };
        let mut watch = |turn| watch(Event::Turn(&name, turn));
        let mut counted = rounds::interleave(&mut contenders, *rounds, run_options, trial, &mut watch)?;
        if kinds.len() > 1 {
            kinds.push(ALL_KINDS);
            counted.iter_mut().flatten().for_each(|counts| counts.tallies.push(counts.total()));
        }
        points.push(Point::new(name, &contenders, &kinds, &counted));
    }
    let mut checks = Vec::new();
    for contender in &contenders {
        let scheme = contender.scheme;
        let verdicts = workload.verify(contender, run_options.seed)?;
        let own: Vec<_> = verdicts.into_iter().map(|(verdict, promise)| Check { verdict, scheme, promise }).collect();
        watch(Event::Checked(scheme, &own));
        checks.extend(own);
    }
    Ok(Comparison { workload: W::NAME, setting, options: options.clone(), points, checks })
}

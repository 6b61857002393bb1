//! The results of all rounds, by engine and work: as text, and as a report.

use std::fmt;

use ermine_bench::report::Setting;

use crate::{
    report::{Comparison, Figure, Measured},
    work::{Outcome, Work},
};

pub struct Table {
    engines: Vec<String>,
    work: Vec<Work>,
    /// By engine, work and round; an engine that failed has fewer.
    outcomes: Vec<Vec<Vec<Outcome>>>,
    /// The engines that could not load their rows.
    empty: Vec<bool>,
}

impl Table {
    pub fn new(engines: &[String], work: &[Work]) -> Self {
        let outcomes = vec![vec![Vec::new(); work.len()]; engines.len()];
        Self { engines: engines.to_vec(), work: work.to_vec(), outcomes, empty: vec![false; engines.len()] }
    }

    /// Adds the outcome of a round.
    pub fn add(&mut self, engine: usize, work: usize, outcome: Option<Outcome>) {
        self.empty[engine] |= self.work[work] == Work::Load && outcome.is_none();
        self.outcomes[engine][work].extend(outcome);
    }

    /// Whether the engine has failed to load its rows, so that there is nothing to measure.
    pub fn has_no_rows(&self, engine: usize) -> bool {
        self.empty[engine]
    }

    /// The rates, the retries, and the invariants that were broken, of all engines that did not fail.
    pub fn comparison(&self, setting: Setting, options: String) -> Comparison {
        let figures = |quantity, of: fn(Work) -> bool, number: fn(&Outcome) -> f64| {
            let works = self.work.iter().enumerate().filter(move |(_, work)| of(**work));
            works.map(move |(at, &work)| {
                let results = self.engines.iter().zip(&self.outcomes).map(|(name, outcomes)| Measured {
                    name: name.clone(),
                    rounds: outcomes[at].iter().map(number).collect(),
                });
                Figure {
                    quantity,
                    input: work.name(),
                    results: results.filter(|measured| !measured.rounds.is_empty()).collect(),
                }
            })
        };
        let measured = |work: Work| !work.is_check();
        Comparison {
            title: "Ermine beside other engines",
            setting,
            options,
            figures: figures("Thousands of transactions per second", measured, |outcome| outcome.rate / 1e3)
                .chain(figures("Retries per transaction", measured, |outcome| outcome.retries))
                .chain(figures("Pairs of transactions that broke the invariant", Work::is_check, |out| out.broken))
                .collect(),
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.engines.iter().map(String::len).max().unwrap_or(0);
        let header: String = self.work.iter().map(|work| format!("{:>16}", work.name())).collect();
        write!(f, "{:width$}{header}", "")?;
        for (name, outcomes) in self.engines.iter().zip(&self.outcomes) {
            let cells = self.work.iter().zip(outcomes).map(|(&work, rounds)| format!("{:>16}", cell(work, rounds)));
            write!(f, "\n{name:width$}{}", cells.collect::<String>())?;
        }
        Ok(())
    }
}

/// The median of the rates with its retries, or the sum of the broken invariants.
fn cell(work: Work, rounds: &[Outcome]) -> String {
    if rounds.is_empty() {
        return "failed".to_owned();
    }
    if work.is_check() {
        let broken: f64 = rounds.iter().map(|outcome| outcome.broken).sum();
        return if broken > 0.0 { format!("broken ({broken})") } else { "kept".to_owned() };
    }
    let mut sorted = rounds.to_vec();
    sorted.sort_by(|one, other| one.rate.total_cmp(&other.rate));
    let Outcome { rate, retries, .. } = sorted[sorted.len() / 2];
    let retries = if retries > 0.0 { format!(" ({retries:.3})") } else { String::new() };
    let digits = if rate < 100_000.0 { 1 } else { 0 };
    format!("{:.digits$}{retries}", rate / 1000.0)
}

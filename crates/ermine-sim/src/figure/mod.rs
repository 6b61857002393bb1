//! The paper's figures 6 to 9 (SSN 7.3 to 7.6): their workloads, and the numbers that they show.

mod plans;
mod plot;

use std::fmt::Write;

use serde::Serialize;

use self::plans::Plan;
use crate::{options::Usage, outcome::Outcome, scheme::Scheme, simulation::simulate};

/// A figure of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Figure 6: completion by the size of the table.
    Contention,
    /// Figure 7: completion by the share of writes.
    WriteShare,
    /// Figure 8: aborts of readers and writers by the number of readers.
    Interference,
    /// Figure 9: aborts of writers by the interval of safe snapshots.
    SafeSnapshots,
}

impl Figure {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Contention, Self::WriteShare, Self::Interference, Self::SafeSnapshots];

    /// Its number in the paper.
    pub fn number(self) -> u32 {
        match self {
            Self::Contention => 6,
            Self::WriteShare => 7,
            Self::Interference => 8,
            Self::SafeSnapshots => 9,
        }
    }

    /// The figure with this number.
    pub fn numbered(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|figure| figure.number() == number)
    }
}

/// Options of a figure.
#[derive(Clone, Copy, Debug)]
pub struct FigureOptions {
    /// Number of simulations of each point, each with a seed of its own.
    pub seeds: u32,
    /// The first of the seeds.
    pub seed: u64,
    /// Transactions of a simulation; `None`: the figure's own number.
    pub transactions: Option<u32>,
    /// As [`Options::load`](crate::Options::load).
    pub load: f64,
    /// Every other point, with few transactions.
    pub quick: bool,
}

impl Default for FigureOptions {
    fn default() -> Self {
        Self { seeds: 3, seed: 1, transactions: None, load: 1.0, quick: false }
    }
}

/// A figure with its numbers.
#[derive(Clone, Debug, Serialize)]
pub struct Drawing {
    /// The paper, by its short name in docs/papers.md.
    pub paper: &'static str,
    /// The figure's number in the paper.
    pub number: u32,
    /// Its subject.
    pub title: &'static str,
    /// The meaning of x.
    pub x_label: &'static str,
    /// The meaning of y.
    pub y_label: &'static str,
    /// Whether x is drawn in logarithms.
    pub x_is_logarithmic: bool,
    /// Whether y is drawn in logarithms.
    pub y_is_logarithmic: bool,
    /// Transactions of a simulation.
    pub transactions: u32,
    /// Simulations of a point.
    pub seeds: u32,
    /// Its parts.
    pub panels: Vec<Panel>,
    /// Simulations of serializable schemes that were not serializable.
    pub broken: Vec<String>,
}

/// A part of a figure.
#[derive(Clone, Debug, Serialize)]
pub struct Panel {
    /// Its subject.
    pub title: String,
    /// Its curves.
    pub curves: Vec<Curve>,
}

/// A curve.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// The scheme, and the part of its transactions if it is about a part.
    pub name: String,
    /// The colour, by its number; the schemes have one each.
    pub colour: usize,
    /// Whether it is the second curve of a scheme.
    pub is_dashed: bool,
    /// Its points.
    pub points: Vec<Point>,
}

/// A point of a curve: mean, least and greatest value over the seeds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Point {
    /// Where.
    pub x: f64,
    /// The mean.
    pub mean: f64,
    /// The least value.
    pub min: f64,
    /// The greatest value.
    pub max: f64,
}

impl Point {
    pub(crate) fn of(x: f64, values: &[f64]) -> Self {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let fold = |with: fn(f64, f64) -> f64| values.iter().copied().fold(mean, with);
        Self { x, mean, min: fold(f64::min), max: fold(f64::max) }
    }
}

/// Simulates what a figure shows. `progress` receives the number of simulations that are done, and of all.
pub fn draw(figure: Figure, options: &FigureOptions, progress: &mut dyn FnMut(u64, u64)) -> Result<Drawing, Usage> {
    if options.seeds == 0 {
        return Err(Usage("a figure needs at least one seed".into()));
    }
    let plan = Plan::of(figure, options);
    let mut drawing = plan.empty(figure, options);
    let cases: Vec<(Scheme, usize)> = plan.cases();
    let all = (plan.points.len() * cases.len()) as u64 * u64::from(options.seeds);
    let mut done = 0;
    for &x in &plan.points {
        for &(scheme, workload) in &cases {
            let mut outcomes = Vec::new();
            for seed in (0..u64::from(options.seeds)).map(|number| options.seed.wrapping_add(number)) {
                progress(done, all);
                let outcome = simulate(scheme, &plan.options(x, workload, seed))?;
                if !outcome.holds() {
                    drawing.broken.push(format!("{scheme}, {} {x}, seed {seed}: {:?}", plan.x_label, outcome.cycles));
                }
                outcomes.push(outcome);
                done += 1;
            }
            plan.add(&mut drawing, x, (scheme, workload), &outcomes);
        }
    }
    Ok(drawing)
}

impl Drawing {
    /// The points as comma-separated values.
    pub fn csv(&self) -> String {
        let mut text = "figure,panel,curve,x,mean,min,max\n".to_owned();
        for Panel { title, curves } in &self.panels {
            for Curve { name, points, .. } in curves {
                for Point { x, mean, min, max } in points {
                    let number = self.number;
                    writeln!(text, "{number},{title},{name},{x},{mean:.4},{min:.4},{max:.4}").expect("into a string");
                }
            }
        }
        text
    }

    /// The figure as SVG.
    pub fn svg(&self) -> String {
        plot::svg(self)
    }
}

/// Aborts and failures as the figures show them, in percent of the transactions submitted.
type Measure = fn(&Outcome) -> f64;

fn completion(outcome: &Outcome) -> f64 {
    outcome.total().completion_percent()
}

/// Commits without the serialization failures that the cycle test reports: the paper's "/SER".
fn serializable_completion(outcome: &Outcome) -> f64 {
    let (total, failures) = (outcome.total(), outcome.cycles.map_or(0, |cycles| cycles.failures));
    total.percent(total.committed - failures)
}

fn aborts_of_writers(outcome: &Outcome) -> f64 {
    outcome.groups[0].abort_percent()
}

fn aborts_of_readers(outcome: &Outcome) -> f64 {
    outcome.groups[1].abort_percent()
}

fn snapshot_aborts(outcome: &Outcome) -> f64 {
    outcome.groups[0].percent(outcome.groups[0].aborted.safe_snapshot)
}

fn other_aborts(outcome: &Outcome) -> f64 {
    aborts_of_writers(outcome) - snapshot_aborts(outcome)
}

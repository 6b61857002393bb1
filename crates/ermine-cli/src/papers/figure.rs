//! A figure of a paper, what the paper says about it, and how it is made again.

use clap::Parser;
use ermine_bench::{
    Error, Result,
    page::{Chart, Point},
};

use crate::arguments::{Command, Ermine};

/// A figure that can be made again.
pub(super) struct Figure {
    /// The paper, by its short name in docs/papers.md.
    pub(super) paper: &'static str,
    pub(super) number: u32,
    pub(super) title: &'static str,
    /// The paper's result, in the paper's terms.
    pub(super) shows: &'static str,
    /// What of that is looked for in the numbers.
    pub(super) claims: &'static [Claim],
    /// Why some of it is not expected here; otherwise empty.
    pub(super) why: &'static str,
    /// The commands whose numbers are drawn; `{..}` stands for several values.
    pub(super) commands: &'static [&'static str],
    /// Makes the charts; fails if something does not hold that the engine or the simulator promises.
    pub(super) draw: fn(&Figure) -> Result<Vec<Chart>>,
}

/// A statement about the numbers of a figure.
pub(super) struct Claim {
    pub(super) text: &'static str,
    pub(super) holds: fn(&Charts<'_>) -> bool,
}

/// The numbers of a figure.
pub(super) struct Charts<'c>(pub(super) &'c [Chart]);

impl Figure {
    /// The name of its files.
    pub(super) fn slug(&self) -> String {
        format!("{}-{}", self.paper.to_lowercase(), self.number)
    }
}

impl Charts<'_> {
    /// Returns the value of a line; not a number if there is no such line or place.
    pub(super) fn at(&self, line: &str, x: f64) -> f64 {
        let point = self.points(line).iter().find(|point| (point.x - x).abs() < 1e-9);
        point.map_or(f64::NAN, |point| point.y)
    }

    /// Returns the numbers of one of the charts.
    pub(super) fn chart(&self, number: usize) -> Charts<'_> {
        Charts(self.0.get(number..=number).unwrap_or_default())
    }

    /// Returns the points of the first line of a name.
    pub(super) fn points(&self, line: &str) -> &[Point] {
        let mut lines = self.0.iter().flat_map(|chart| &chart.lines);
        lines.find(|one| one.name == line).map_or(&[][..], |line| &line.points)
    }

    /// Whether something holds at each place of a line; there must be one.
    pub(super) fn everywhere(&self, line: &str, holds: impl Fn(f64, f64) -> bool) -> bool {
        let points = self.points(line);
        !points.is_empty() && points.iter().all(|point| holds(point.x, point.y))
    }

    /// Returns the mean of a line.
    pub(super) fn mean(&self, line: &str) -> f64 {
        let points = self.points(line);
        points.iter().map(|point| point.y).sum::<f64>() / points.len() as f64
    }
}

/// Fails if something does not hold that was promised.
pub(super) fn promised(holds: bool, what: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::Workload(what())) }
}

/// Parses a command of a figure.
pub(super) fn parsed(command: &str) -> Result<Command> {
    let parsed = Ermine::try_parse_from(command.split_whitespace());
    parsed.map(|ermine| ermine.command).map_err(|error| Error::Usage(format!("{command}: {error}")))
}

//! `ermine sim`: simulates schemes, and reports what became of their transactions.
//!
//! Progress goes to the standard error, the report to the standard output, unless a file of the report is to go there.

use std::fmt;

use ermine_bench::{
    Result,
    page::{self, Page},
    report::Grid,
};
use ermine_sim::{GroupOutcome, Options, Outcome, draw, draw_durations, draw_restarts, draw_sizes, simulate};
use serde::Serialize;

use crate::{
    arguments::{SimFigure, SimHtmDuration, SimHtmRestarts, SimHtmSize, SimRun},
    output::show,
    progress, record,
    sim_output::{self, usage},
    sim_page::run_page,
};

/// The report of `ermine sim run`.
#[derive(Serialize)]
struct Report {
    options: Options,
    outcomes: Vec<Outcome>,
}

/// Simulates one workload; returns whether all serializable schemes were serializable.
pub fn run(arguments: &SimRun) -> Result<bool> {
    let options = arguments.options();
    let schemes = arguments.schemes();
    let bar = progress::bar();
    let mut outcomes = Vec::new();
    for (done, &scheme) in schemes.iter().enumerate() {
        progress::show(&bar, scheme.title(), done as u64, schemes.len() as u64);
        outcomes.push(simulate(scheme, &options).map_err(usage)?);
    }
    bar.finish_and_clear();
    let report = Report { options, outcomes };
    show(&arguments.output, &report)?;
    let broken: Vec<_> = report.outcomes.iter().filter(|outcome| !outcome.holds()).collect();
    for outcome in &broken {
        eprintln!("{} is not serializable: {:?}", outcome.scheme.title(), outcome.cycles);
    }
    Ok(broken.is_empty())
}

/// Repeats a figure; returns whether all serializable schemes were serializable.
pub fn figure(arguments: &SimFigure) -> Result<bool> {
    let bar = progress::bar();
    let mut show = |done, all| progress::show(&bar, "simulating", done, all);
    let drawing = draw(arguments.figure, &arguments.options(), &mut show).map_err(usage)?;
    bar.finish_and_clear();
    sim_output::show(&drawing, &arguments.files)?;
    for broken in &drawing.broken {
        eprintln!("not serializable: {broken}");
    }
    Ok(drawing.broken.is_empty())
}

/// Draws the aborts of hardware transactions by size.
pub fn htm_size(SimHtmSize { ways, cache, drawn }: &SimHtmSize) -> Result<bool> {
    let drawing = draw_sizes(*cache, ways, &drawn.samples()).map_err(usage)?;
    sim_output::show(&drawing, &drawn.files).map(|()| true)
}

/// Draws the aborts of hardware transactions by duration.
pub fn htm_duration(SimHtmDuration { interval, drawn }: &SimHtmDuration) -> Result<bool> {
    let drawing = draw_durations(*interval, &drawn.samples()).map_err(usage)?;
    sim_output::show(&drawing, &drawn.files).map(|()| true)
}

/// Draws the aborts of hardware transactions by restarts.
pub fn htm_restarts(arguments: &SimHtmRestarts) -> Result<bool> {
    let SimHtmRestarts { cores, zones, recorded, seeds, files } = arguments;
    let drawing = draw_restarts(&record::tpcc(recorded)?, cores, zones, *seeds).map_err(usage)?;
    sim_output::show(&drawing, files).map(|()| true)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { options: Options { records, groups, seed, load, .. }, outcomes } = self;
        writeln!(f, "{records} records, seed {seed}, load {load}")?;
        for (number, (group, outcome)) in groups.iter().zip(&outcomes[0].groups).enumerate() {
            writeln!(f, "group {}: {group}, {} transactions offered", number + 1, outcome.offered)?;
        }
        write!(f, "\n{}", table(self))
    }
}

impl page::Report for Report {
    fn page(&self) -> Page {
        run_page(&self.options, &self.outcomes, table(self))
    }
}

/// The outcomes as a table, with a row for each scheme, or for each scheme and group if there are several.
fn table(report: &Report) -> Grid {
    let Report { options, outcomes } = report;
    let mut grid = Grid::new(&[
        "", "commits", "rate%", "wdl", "skew", "cert", "safe", "coll", "mean", "p50", "p99", "cycles", "failed",
    ]);
    let one_group = options.groups.len() == 1;
    for outcome in outcomes {
        let cycles = match outcome.cycles {
            Some(cycles) => [cycles.components.to_string(), cycles.failures.to_string()],
            None => ["-", "-"].map(str::to_owned),
        };
        let name = outcome.scheme.title().to_owned();
        if one_group {
            grid.row([name].into_iter().chain(cells(&outcome.groups[0])).chain(cycles));
            continue;
        }
        let total = cells(&outcome.total()).into_iter().take(7).chain(["", "", ""].map(str::to_owned));
        grid.row([name].into_iter().chain(total).chain(cycles));
        for (number, group) in outcome.groups.iter().enumerate() {
            grid.row([format!("  group {}", number + 1)].into_iter().chain(cells(group)));
        }
    }
    grid
}

/// Commits, completion rate, aborts by cause, and latencies.
fn cells(outcome: &GroupOutcome) -> [String; 10] {
    let GroupOutcome { committed, aborted, latency, .. } = outcome;
    [
        committed.to_string(),
        format!("{:.2}", outcome.completion_percent()),
        aborted.wait_depth.to_string(),
        aborted.temporal_skew.to_string(),
        aborted.certifier.to_string(),
        aborted.safe_snapshot.to_string(),
        aborted.collision.to_string(),
        format!("{:.1}", latency.mean),
        format!("{:.1}", latency.p50),
        format!("{:.1}", latency.p99),
    ]
}

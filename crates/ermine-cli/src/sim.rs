//! `ermine sim`: simulates schemes, and reports what became of their transactions.
//!
//! Progress goes to the standard error, the report to the standard output; with `--json -` only JSON goes there.

use std::{fs, path::Path};

use ermine_bench::{
    Error, Result,
    report::{self, Grid},
};
use ermine_sim::{Drawing, GroupOutcome, Options, Outcome, Panel, Usage, draw, simulate};
use serde::Serialize;

use crate::{
    arguments::{SimFigure, SimRun},
    progress,
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
    if !is_stdout(arguments.json.as_deref()) {
        println!("{}", table(&report));
    }
    arguments.json.as_deref().map_or(Ok(()), |path| report::write_json(&report, path))?;
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
    if !is_stdout(arguments.json.as_deref()) {
        print_figure(&drawing);
    }
    let write =
        |path: &Path, text: String| fs::write(path, text).map_err(|source| Error::File { path: path.into(), source });
    arguments.csv.as_deref().map_or(Ok(()), |path| write(path, drawing.csv()))?;
    arguments.svg.as_deref().map_or(Ok(()), |path| write(path, drawing.svg()))?;
    arguments.json.as_deref().map_or(Ok(()), |path| report::write_json(&drawing, path))?;
    for broken in &drawing.broken {
        eprintln!("not serializable: {broken}");
    }
    Ok(drawing.broken.is_empty())
}

fn usage(Usage(why): Usage) -> Error {
    Error::Usage(why)
}

fn is_stdout(path: Option<&Path>) -> bool {
    path == Some(Path::new("-"))
}

/// The outcomes as a table, with a row for each scheme, or for each scheme and group if there are several.
fn table(report: &Report) -> String {
    let Report { options, outcomes } = report;
    let mut text = format!("{} records, seed {}, load {}\n", options.records, options.seed, options.load);
    for (number, (group, outcome)) in options.groups.iter().zip(&outcomes[0].groups).enumerate() {
        text += &format!("group {}: {group}, {} transactions offered\n", number + 1, outcome.offered);
    }
    let mut grid = Grid::new(&[
        "", "commits", "rate%", "wdl", "skew", "certif", "safe", "mean", "p50", "p99", "cycles", "failures",
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
        let total = cells(&outcome.total()).into_iter().take(6).chain(["", "", ""].map(str::to_owned));
        grid.row([name].into_iter().chain(total).chain(cycles));
        for (number, group) in outcome.groups.iter().enumerate() {
            grid.row([format!("  group {}", number + 1)].into_iter().chain(cells(group)));
        }
    }
    text + "\n" + &grid.to_string()
}

/// Commits, completion rate, aborts by cause, and latencies.
fn cells(outcome: &GroupOutcome) -> [String; 9] {
    let GroupOutcome { committed, aborted, latency, .. } = outcome;
    [
        committed.to_string(),
        format!("{:.2}", outcome.completion_percent()),
        aborted.wait_depth.to_string(),
        aborted.temporal_skew.to_string(),
        aborted.certifier.to_string(),
        aborted.safe_snapshot.to_string(),
        format!("{:.1}", latency.mean),
        format!("{:.1}", latency.p50),
        format!("{:.1}", latency.p99),
    ]
}

/// Prints the means, and for each curve the greatest distance of a value from the mean.
fn print_figure(drawing: &Drawing) {
    let Drawing { number, title, x_label, y_label, transactions, seeds, panels, .. } = drawing;
    println!("Figure {number}: {title}. {y_label} by {x_label}");
    println!("means of {seeds} simulations of {transactions} transactions; spread: how far single ones are from them");
    for Panel { title, curves } in panels {
        let names = curves.iter().map(|curve| curve.name.as_str());
        let mut grid = Grid::new(&[""].into_iter().chain(names).collect::<Vec<_>>());
        for (row, point) in curves[0].points.iter().enumerate() {
            let means = curves.iter().map(|curve| format!("{:.2}", curve.points[row].mean));
            grid.row([point.x.to_string()].into_iter().chain(means));
        }
        let spread = |curve: &ermine_sim::Curve| {
            let of_points = curve.points.iter().map(|point| (point.max - point.mean).max(point.mean - point.min));
            format!("{:.2}", of_points.fold(0.0, f64::max))
        };
        grid.row(["spread".to_owned()].into_iter().chain(curves.iter().map(spread)));
        println!("\n{title}\n{grid}");
    }
}

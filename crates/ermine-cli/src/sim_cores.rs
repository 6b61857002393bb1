//! `ermine sim cores`: records TPC-C, and simulates it on machines with more and more cores.

use std::fs;

use ermine_bench::{
    Error, Result,
    report::{self, Grid},
};
use ermine_sim::{CoresOptions, CoresOutcome, Homes, Trace, simulate_cores};
use serde::Serialize;

use crate::{
    arguments::SimCores,
    progress, record,
    sim_output::{is_stdout, usage},
};

/// The report of `ermine sim cores`.
#[derive(Serialize)]
struct Report {
    warehouses: u32,
    transactions: u32,
    mean_accesses: f64,
    crossing_percent: f64,
    homes: Homes,
    seed: u64,
    outcomes: Vec<CoresOutcome>,
}

/// Simulates the schemes; returns whether all serializable schemes were serializable.
pub fn cores(arguments: &SimCores) -> Result<bool> {
    let trace = record::tpcc(&arguments.recorded)?;
    let report = Report {
        warehouses: arguments.recorded.warehouses,
        transactions: trace.transactions(),
        mean_accesses: trace.mean_accesses(),
        crossing_percent: trace.crossing_percent(),
        homes: arguments.homes(),
        seed: arguments.recorded.seed,
        outcomes: simulate(arguments, &trace)?,
    };
    if !is_stdout(arguments.json.as_deref()) {
        print(arguments, &report);
    }
    if let Some(path) = &arguments.csv {
        let failed = |source| Error::File { path: path.clone(), source };
        fs::write(path, ermine_sim::cores_csv(&report.outcomes)).map_err(failed)?;
    }
    arguments.json.as_deref().map_or(Ok(()), |path| report::write_json(&report, path))?;
    let broken: Vec<_> = report.outcomes.iter().filter(|outcome| !outcome.holds()).collect();
    for CoresOutcome { scheme, cores, cycles, .. } in &broken {
        eprintln!("{} on {cores} cores is not serializable: {cycles:?}", scheme.title());
    }
    Ok(broken.is_empty())
}

/// The outcomes of each scheme, one after the other, by the number of cores.
fn simulate(arguments: &SimCores, trace: &Trace) -> Result<Vec<CoresOutcome>> {
    let (schemes, bar) = (arguments.schemes(), progress::bar());
    let all = (schemes.len() * arguments.cores.len()) as u64;
    let mut outcomes = Vec::new();
    for &scheme in schemes {
        for &cores in &arguments.cores {
            progress::show(&bar, scheme.title(), outcomes.len() as u64, all);
            let options = CoresOptions { cores, homes: arguments.homes(), cycle_test: !arguments.no_cycle_test };
            outcomes.push(simulate_cores(scheme, trace, &options).map_err(usage)?);
        }
    }
    bar.finish_and_clear();
    Ok(outcomes)
}

/// A number of an outcome that is printed.
type Measure = fn(&CoresOutcome) -> f64;

fn print(arguments: &SimCores, report: &Report) {
    let Report { warehouses, transactions, mean_accesses, crossing_percent, homes, seed, outcomes } = report;
    println!("TPC-C, {warehouses} warehouses, {transactions} transactions recorded, seed {seed}");
    let homes = match homes {
        Homes::Fixed => "each core has transactions of its own warehouses",
        Homes::Any => "each core has transactions of any warehouse",
    };
    println!("{mean_accesses:.1} accesses on average; {crossing_percent:.1} % of the transactions cross warehouses");
    println!("{homes}");
    let tables: [(&str, Measure); 3] = [
        ("Throughput in multiples of serial execution, by cores", |outcome| outcome.speedup),
        ("Attempts aborted (%)", CoresOutcome::abort_percent),
        ("Transactions restarted more than twice (%)", |outcome| outcome.percent(outcome.restarted_often)),
    ];
    for (title, measure) in tables {
        let headings: Vec<_> = arguments.cores.iter().map(u32::to_string).collect();
        let mut grid = Grid::new(&[""].into_iter().chain(headings.iter().map(String::as_str)).collect::<Vec<_>>());
        for outcomes in outcomes.chunks(arguments.cores.len()) {
            let values = outcomes.iter().map(|outcome| format!("{:.2}", measure(outcome)));
            grid.row([outcomes[0].scheme.title().to_owned()].into_iter().chain(values));
        }
        println!("\n{title}\n{grid}");
    }
}

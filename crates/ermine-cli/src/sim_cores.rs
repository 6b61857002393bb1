//! `ermine sim cores`: records TPC-C, and simulates it on machines with more and more cores.

use std::fmt;

use ermine_bench::{
    Result,
    page::{self, Axis, Chart, Page, Point},
    report::Grid,
};
use ermine_sim::{CoresOptions, CoresOutcome, Homes, Trace, simulate_cores};
use serde::Serialize;

use crate::{arguments::SimCores, output::show, progress, record, sim_output::usage, sim_page::setting};

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
    /// Outcomes of each scheme.
    #[serde(skip)]
    of_each: usize,
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
        of_each: arguments.cores.len(),
    };
    show(&arguments.output, &report)?;
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

/// A number of an outcome.
#[derive(Clone, Copy)]
struct Measure {
    title: &'static str,
    unit: &'static str,
    of: fn(&CoresOutcome) -> f64,
}

const MEASURES: [Measure; 3] = [
    Measure { title: "Throughput", unit: "multiples of serial execution", of: |outcome| outcome.speedup },
    Measure { title: "Aborted attempts", unit: "%", of: CoresOutcome::abort_percent },
    Measure {
        title: "Transactions restarted more than twice",
        unit: "%",
        of: |outcome| outcome.percent(outcome.restarted_often),
    },
];

impl Report {
    /// The outcomes of each scheme.
    fn of_schemes(&self) -> impl Iterator<Item = &[CoresOutcome]> {
        self.outcomes.chunks(self.of_each)
    }

    /// A measure, with a row for each scheme and a column for each number of cores.
    fn table(&self, Measure { of, .. }: Measure) -> Grid {
        let headings = self.of_schemes().next().into_iter().flatten().map(|outcome| outcome.cores.to_string());
        let headings: Vec<_> = headings.collect();
        let mut grid = Grid::new(&[""].into_iter().chain(headings.iter().map(String::as_str)).collect::<Vec<_>>());
        for outcomes in self.of_schemes() {
            let values = outcomes.iter().map(|outcome| format!("{:.2}", of(outcome)));
            grid.row([outcomes[0].scheme.title().to_owned()].into_iter().chain(values));
        }
        grid
    }

    /// A measure, with a line for each scheme.
    fn chart(&self, Measure { title, unit, of }: Measure, y: fn(&'static str) -> Axis) -> Chart {
        let mut chart = Chart::new(title, Axis::logarithmic("cores"), y(unit));
        for outcomes in self.of_schemes() {
            let points = outcomes.iter().map(|outcome| Point::new(f64::from(outcome.cores), of(outcome)));
            chart.line(outcomes[0].scheme.title(), points.collect());
        }
        chart
    }

    /// The transactions that were recorded, and how cores share them.
    fn recorded(&self) -> [String; 3] {
        let Self { warehouses, transactions, mean_accesses, crossing_percent, homes, seed, .. } = self;
        let homes = match homes {
            Homes::Fixed => "each core has transactions of its own warehouses",
            Homes::Any => "each core has transactions of any warehouse",
        };
        [
            format!("TPC-C, {warehouses} warehouses, {transactions} transactions recorded, seed {seed}"),
            format!(
                "{mean_accesses:.1} accesses on average; {crossing_percent:.1} % of the transactions cross warehouses"
            ),
            homes.to_owned(),
        ]
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { title, unit, .. } = self;
        write!(f, "{title} ({unit}), by cores")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.recorded().join("\n"))?;
        MEASURES.into_iter().try_for_each(|measure| write!(f, "\n\n{measure}\n{}", self.table(measure)))
    }
}

impl page::Report for Report {
    fn page(&self) -> Page {
        let [speedup, aborted, restarted] = MEASURES;
        let mut page = Page::new("Simulated cores", setting().with("options", self.recorded().join("; ")));
        page.chart(self.chart(speedup, Axis::logarithmic));
        page.chart(self.chart(aborted, Axis::linear));
        page.chart(self.chart(restarted, Axis::linear));
        page.table(speedup.to_string(), self.table(speedup));
        page
    }
}

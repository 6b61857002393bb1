//! Several schemes in one process, in interleaved rounds, so that other activity on the machine affects all alike.
//!
//! Every scheme has a database of its own, loaded the same way. In each round each scheme runs for its share of the
//! time; each round begins with another scheme. A ratio is taken within a round; the report has the median over the
//! rounds, and the lowest and highest.

use std::fmt;

use ermine::{Database, Scheme};
use serde::Serialize;

use crate::{
    Result,
    abort_shapes::{ShapeSummary, ShapeTable},
    charts,
    page::{Bar, Bars, Group, Page, Report},
    report::{Facts, Grid, Setting, grouped, scheme_name},
    series::Series,
    storage::{LogSummary, LogUse},
    summary::{self, KindSummary, KindTables},
    trial::{Counts, RunOptions},
    verdict::Check,
};

/// A scheme with its database and the workload's data for it.
pub struct Contender<D> {
    /// The scheme.
    pub scheme: Scheme,
    /// The database.
    pub db: Database,
    /// Handles and counts of the workload.
    pub data: D,
}

/// Reported to the watcher: one scheme has run for its share of a round.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// The round, from 0.
    pub round: u32,
    /// The scheme.
    pub scheme: Scheme,
    /// Transactions of all kinds per second.
    pub per_second: f64,
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { round, scheme, per_second } = self;
        write!(f, "round {:>2}  {:<6}  {:>12} txn/s", round + 1, scheme.name(), grouped(*per_second as u64))
    }
}

/// Opens a database for each scheme, in directories beside each other if they are stored in directories, and fills it
/// with `load`.
pub fn contenders<D>(
    schemes: &[Scheme],
    run_options: &RunOptions,
    mut load: impl FnMut(&Database) -> Result<D>,
) -> Result<Vec<Contender<D>>> {
    let open = |&scheme: &Scheme| {
        let storage = run_options.storage.as_ref().map(|storage| storage.beside(scheme.name()));
        let tuning = run_options.tuning.beside(scheme.name());
        let db = RunOptions { storage, tuning, ..run_options.clone() }.open(scheme)?;
        let data = load(&db)?;
        Ok(Contender { scheme, db, data })
    };
    schemes.iter().map(open).collect()
}

/// Fails if the options cannot work.
pub fn check(schemes: &[Scheme], rounds: u32, run_options: &RunOptions) -> Result<()> {
    let usage = |why: &str| Err(crate::Error::Usage(why.into()));
    if schemes.is_empty() || rounds == 0 {
        return usage("at least one scheme and one round are needed");
    }
    if (1..schemes.len()).any(|place| schemes[..place].contains(&schemes[place])) {
        return usage("a scheme is given twice");
    }
    if schemes.len() > 1 && run_options.observer.is_some() {
        return usage("an observer watches one database: give one scheme");
    }
    run_options.check(schemes)
}

/// Runs every contender in each round, with `trial`, for a share of the time; returns the counts by contender, then by
/// round.
pub fn interleave<D>(
    contenders: &mut [Contender<D>],
    rounds: u32,
    run_options: &RunOptions,
    mut trial: impl FnMut(&mut Contender<D>, u32, &RunOptions) -> Result<Counts>,
    watch: &mut dyn FnMut(Turn),
) -> Result<Vec<Vec<Counts>>> {
    let share = RunOptions {
        warmup: run_options.warmup / rounds,
        measured: run_options.measured / rounds,
        least: run_options.least.div_ceil(u64::from(rounds)),
        ..run_options.clone()
    };
    let count = contenders.len();
    let mut counted: Vec<Vec<Counts>> = contenders.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        for turn in 0..count {
            let place = (turn + round as usize) % count;
            let counts = trial(&mut contenders[place], round, &share)?;
            let per_second = (0..counts.tallies.len()).map(|kind| counts.per_second(kind)).sum();
            watch(Turn { round, scheme: contenders[place].scheme, per_second });
            counted[place].push(counts);
        }
    }
    Ok(counted)
}

/// The name of the sum of all kinds of transactions.
pub const ALL_KINDS: &str = "all";
/// The scheme that the others are compared with.
const BASE: Scheme = Scheme::Si;

/// A figure over the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The lowest.
    pub lowest: f64,
    /// The highest.
    pub highest: f64,
}

impl Spread {
    fn over(mut figures: Vec<f64>) -> Option<Self> {
        figures.retain(|figure| figure.is_finite());
        figures.sort_by(f64::total_cmp);
        let (&lowest, &highest) = figures.first().zip(figures.last())?;
        let upper = figures.len() / 2;
        let median = if figures.len() % 2 == 1 { figures[upper] } else { (figures[upper - 1] + figures[upper]) / 2.0 };
        Some(Self { median, lowest, highest })
    }
}

/// The results of one scheme at one point.
#[derive(Clone, Debug, Serialize)]
pub struct SchemeSummary {
    /// The scheme.
    #[serde(serialize_with = "scheme_name")]
    pub scheme: Scheme,
    /// The results of each kind of transaction, all rounds together.
    pub kinds: Vec<KindSummary>,
    /// For each kind: commits per second over those of `si` in the same round.
    pub ratio_to_si: Vec<Option<Spread>>,
    /// Use of the log, if the database had a directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<LogSummary>,
    /// Throughput over time, of all rounds one after the other.
    pub series: Series,
    /// Aborted attempts by shape, if they are to be explained.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub abort_shapes: Vec<ShapeSummary>,
}

/// The results of all schemes with the same inputs.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// The point's parameters.
    pub name: String,
    /// The results of each scheme.
    pub schemes: Vec<SchemeSummary>,
}

impl Point {
    /// Summarizes the counts of `interleave`; `names` are those of the kinds.
    pub fn new<D>(
        name: String,
        contenders: &[Contender<D>],
        names: &[impl AsRef<str>],
        counted: &[Vec<Counts>],
    ) -> Self {
        let base = contenders.iter().position(|contender| contender.scheme == BASE).map(|place| &counted[place]);
        let ratio = |kind: usize, rounds: &[Counts]| {
            let pairs = rounds.iter().zip(base?);
            Spread::over(pairs.map(|(own, base)| own.per_second(kind) / base.per_second(kind)).collect())
        };
        let summary = |(contender, rounds): (&Contender<D>, &Vec<Counts>)| {
            let mut sum = Counts::new(names.len());
            rounds.iter().for_each(|round| sum.add(round));
            SchemeSummary {
                scheme: contender.scheme,
                kinds: KindSummary::all(&sum, names),
                ratio_to_si: (0..names.len()).map(|kind| ratio(kind, rounds)).collect(),
                log: sum.log.map(LogUse::summary),
                series: sum.series,
                abort_shapes: sum.shapes.summaries(names),
            }
        };
        Self { name, schemes: contenders.iter().zip(counted).map(summary).collect() }
    }
}

/// The report of a workload under several schemes. `O` are its options; their text describes the run.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison<O> {
    /// The name on the command line.
    pub workload: &'static str,
    /// The machine.
    pub setting: Setting,
    /// The options of the run.
    pub options: O,
    /// The results.
    pub points: Vec<Point>,
    /// Results of the checks after the run, for each scheme.
    pub checks: Vec<Check>,
}

impl<O> Comparison<O> {
    /// Whether everything holds that the schemes promise.
    pub fn holds(&self) -> bool {
        self.checks.iter().all(Check::passes)
    }

    fn facts(&self) -> Facts
    where
        O: fmt::Display,
    {
        self.setting.facts().with("options", &self.options)
    }

    fn speed(&self) -> Grid {
        self.grid("commits/s", |summary, kind| grouped(summary.kinds[kind].per_second as u64))
    }

    fn ratio(&self) -> Grid {
        self.grid("over si: median (lowest-highest round)", |summary, kind| {
            summary.ratio_to_si[kind].map_or_else(String::new, |Spread { median, lowest, highest }| {
                format!("{median:.2} ({lowest:.2}-{highest:.2})")
            })
        })
    }

    fn commits(&self) -> Grid {
        self.grid("commits per attempt", |summary, kind| format!("{:.4}", 1.0 - summary.kinds[kind].abort_rate))
    }

    /// A line for each check, and whether the schemes have kept their promises.
    fn verdict(&self) -> String {
        let line = |check: &Check| format!("{:<6}  {check}", check.scheme.name());
        summary::verdict(self.checks.iter().map(line), self.holds())
    }

    /// The schemes in detail, where that is not too much.
    fn detailed(&self) -> &[SchemeSummary] {
        match &*self.points {
            [only] => &only.schemes,
            _ => &[],
        }
    }

    /// A row per point and kind, a column per scheme.
    fn grid(&self, what: &str, cell: impl Fn(&SchemeSummary, usize) -> String) -> Grid {
        let schemes = self.points.first().map_or(&[][..], |point| &point.schemes);
        let names: Vec<_> = schemes.iter().map(|summary| summary.scheme.name()).collect();
        let mut grid = Grid::new(&[&[what], &names[..]].concat());
        for point in &self.points {
            let kinds = point.schemes.first().map_or(&[][..], |summary| &summary.kinds);
            for (number, kind) in kinds.iter().enumerate() {
                let row = match (&*point.name, kinds.len()) {
                    ("", _) => kind.name.clone(),
                    (point, 1) => point.to_owned(),
                    (point, _) => format!("{point}, {}", kind.name),
                };
                grid.row([row].into_iter().chain(point.schemes.iter().map(|summary| cell(summary, number))));
            }
        }
        grid
    }
}

impl<O: fmt::Display> fmt::Display for Comparison<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n{}\n", self.workload, self.facts())?;
        writeln!(f, "{}\n\n{}\n\n{}\n", self.speed(), self.ratio(), self.commits())?;
        for summary in self.detailed() {
            writeln!(f, "{}", summary.scheme)?;
            summary.log.iter().try_for_each(|log| writeln!(f, "log          {log}"))?;
            KindTables(&summary.kinds).fmt(f)?;
        }
        for point in &self.points {
            for summary in point.schemes.iter().filter(|summary| !summary.abort_shapes.is_empty()) {
                writeln!(f, "{} {}", summary.scheme, point.name)?;
                ShapeTable(&summary.abort_shapes).fmt(f)?;
            }
        }
        f.write_str(&self.verdict())
    }
}

impl Point {
    /// The numbers of the kinds that charts show: the sum of all, or each where there is no sum.
    fn charted(&self) -> Vec<usize> {
        let kinds = self.schemes.first().map_or(&[][..], |summary| &summary.kinds);
        match kinds.iter().position(|kind| kind.name == ALL_KINDS) {
            Some(sum) => vec![sum],
            None => (0..kinds.len()).collect(),
        }
    }

    /// What a chart of a kind is about.
    fn name_of(&self, kind: usize) -> String {
        let kind = self.schemes.first().map_or("", |summary| &summary.kinds[kind].name);
        match (&*self.name, self.charted().len()) {
            ("", _) => kind.to_owned(),
            (point, 1) => point.to_owned(),
            (point, _) => format!("{point}, {kind}"),
        }
    }

    /// The schemes' rates, beside each other for each kind.
    fn rates(&self) -> impl Iterator<Item = Group> {
        self.charted().into_iter().map(move |kind| {
            let bar = |summary: &SchemeSummary| {
                let (name, value) = (summary.scheme.to_string(), summary.kinds[kind].per_second);
                Bar { name, value, text: grouped(value as u64) }
            };
            Group { name: self.name_of(kind), bars: self.schemes.iter().map(bar).collect() }
        })
    }

    /// Adds the charts of this point.
    fn show(&self, page: &mut Page) {
        let runs: Vec<_> = self.schemes.iter().map(|summary| (summary.scheme.name(), &summary.series)).collect();
        charts::side_by_side(page, &self.name, &runs);
        for kind in self.charted() {
            let timed = self.schemes.iter().map(|summary| (summary.scheme.name(), summary.kinds[kind].latency));
            page.chart(charts::latencies(charts::titled("Latency", &self.name_of(kind)), timed));
        }
    }

    /// Lost conflicts by cause, of each scheme.
    fn causes(&self) -> impl Iterator<Item = (String, Vec<(&'static str, u64)>)> {
        self.schemes.iter().map(move |summary| {
            let charted = self.charted().into_iter().map(|kind| summary.kinds[kind].conflicts.clone());
            (charts::titled(summary.scheme.name(), &self.name), charts::sum(charted))
        })
    }
}

impl<O: fmt::Display + Serialize> Report for Comparison<O> {
    fn page(&self) -> Page {
        let mut page = Page::new(self.workload, self.facts());
        page.bars(Bars::grouped("Commits per second", self.points.iter().flat_map(Point::rates).collect()));
        page.bars(charts::causes(self.points.iter().flat_map(Point::causes)));
        self.points.iter().for_each(|point| point.show(&mut page));
        page.table("Commits per second", self.speed());
        page.table("Over si in the same round", self.ratio());
        page.table("Commits per attempt", self.commits());
        for summary in self.detailed() {
            let (scheme, tables) = (summary.scheme, KindTables(&summary.kinds));
            page.table(format!("Transactions under {scheme}"), tables.throughput());
            page.table(format!("Lost conflicts under {scheme}"), tables.conflicts());
            page.text(format!("Log under {scheme}"), summary.log.map_or_else(String::new, |log| log.to_string()));
        }
        for point in &self.points {
            for summary in &point.schemes {
                let title = format!("Lost conflicts by shape under {}", summary.scheme);
                page.table(charts::titled(&title, &point.name), ShapeTable(&summary.abort_shapes).grid());
            }
        }
        page.text("Conditions", self.verdict());
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_the_middle_and_both_ends() {
        let spread = |figures: &[f64]| Spread::over(figures.to_vec());
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[3.0, 1.0, 2.0]), Some(Spread { median: 2.0, lowest: 1.0, highest: 3.0 }));
        assert_eq!(spread(&[4.0, 1.0]), Some(Spread { median: 2.5, lowest: 1.0, highest: 4.0 }));
        assert_eq!(spread(&[f64::NAN]), None);
    }

    #[test]
    fn every_contender_runs_once_a_round_and_another_begins() {
        let run_options = RunOptions::default();
        let mut contenders = contenders(&[Scheme::Si, Scheme::SiSsn], &run_options, |_| Ok(())).unwrap();
        let mut order = Vec::new();
        let trial = |contender: &mut Contender<()>, round, share: &RunOptions| {
            order.push((round, contender.scheme.name()));
            assert_eq!(share.measured, run_options.measured / 2);
            Ok(Counts::new(1))
        };
        let counted = interleave(&mut contenders, 2, &run_options, trial, &mut |_| {});
        assert!(counted.unwrap().iter().all(|rounds| rounds.len() == 2));
        assert_eq!(order, [(0, "si"), (0, "si-ssn"), (1, "si-ssn"), (1, "si")]);
    }

    #[test]
    fn what_cannot_work_is_refused() {
        let run_options = RunOptions::default();
        assert!(check(&[Scheme::Si, Scheme::SiSsn], 1, &run_options).is_ok());
        assert!(check(&[], 1, &run_options).is_err());
        assert!(check(&[Scheme::Si], 0, &run_options).is_err());
        assert!(check(&[Scheme::Si, Scheme::Rc, Scheme::Si], 1, &run_options).is_err());
    }
}

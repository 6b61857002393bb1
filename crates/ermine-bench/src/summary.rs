//! The report of a workload under one scheme, and the parts of it that reports of several schemes have, too.

use std::fmt;

use serde::Serialize;

use crate::{
    abort_shapes::{ShapeSummary, ShapeTable},
    charts, conflicts,
    latency::Quantiles,
    page::{Page, Report},
    report::{Facts, Grid, Setting, grouped},
    series::Series,
    storage::{LogSummary, LogUse},
    trial::{Counts, Tally},
    verdict::Check,
};

/// Results of one kind of transaction.
#[derive(Clone, Debug, Serialize)]
pub struct KindSummary {
    /// Its name.
    pub name: String,
    /// Commits per second.
    pub per_second: f64,
    /// Transactions that committed.
    pub committed: u64,
    /// Transactions that ended as intended with a rollback by their user.
    pub rolled_back: u64,
    /// Transactions dropped after a lost conflict (without retries).
    pub dropped: u64,
    /// Attempts that lost a conflict; with retries, there are as many retries.
    pub aborted: u64,
    /// Share of attempts that lost a conflict.
    pub abort_rate: f64,
    /// Attempts that lost the same conflict as the attempt before: same kind, table and key.
    pub repeated: u64,
    /// Repeated conflicts that were lost against the same transaction, if both attempts name one.
    pub same_opponent: u64,
    /// Aborted attempts by cause.
    pub conflicts: Vec<(&'static str, u64)>,
    /// Latencies, with all retries, up to the acknowledgement.
    pub latency: Quantiles,
}

impl KindSummary {
    /// Summarizes each kind; `names` are those of the kinds.
    pub(crate) fn all(counts: &Counts, names: &[impl AsRef<str>]) -> Vec<Self> {
        let kinds = names.iter().zip(&counts.tallies);
        kinds.map(|(name, tally)| Self::new(name.as_ref(), tally, counts.seconds)).collect()
    }

    fn new(name: &str, tally: &Tally, seconds: f64) -> Self {
        let Tally { committed, rolled_back, dropped, conflicts, latency, .. } = tally;
        let attempts = committed + conflicts.aborted;
        Self {
            name: name.to_owned(),
            per_second: *committed as f64 / seconds.max(f64::MIN_POSITIVE),
            committed: *committed,
            rolled_back: *rolled_back,
            dropped: *dropped,
            aborted: conflicts.aborted,
            abort_rate: conflicts.aborted as f64 / attempts.max(1) as f64,
            repeated: conflicts.repeated,
            same_opponent: conflicts.same_opponent,
            conflicts: conflicts.named(),
            latency: latency.quantiles(),
        }
    }
}

/// Kinds of transactions as tables: throughput, and lost conflicts.
pub(crate) struct KindTables<'a>(pub(crate) &'a [KindSummary]);

impl KindTables<'_> {
    pub(crate) fn throughput(&self) -> Grid {
        let mut speed = Grid::new(&[
            "transaction",
            "commits/s",
            "committed",
            "rolled back",
            "dropped",
            "abort rate",
            "p50 us",
            "p99 us",
            "p99.9 us",
        ]);
        for kind in self.0 {
            let Quantiles { p50_us, p99_us, p999_us, .. } = kind.latency;
            speed.row([
                kind.name.clone(),
                grouped(kind.per_second as u64),
                grouped(kind.committed),
                grouped(kind.rolled_back),
                grouped(kind.dropped),
                format!("{:.2} %", 100.0 * kind.abort_rate),
                format!("{p50_us:.1}"),
                format!("{p99_us:.1}"),
                format!("{p999_us:.1}"),
            ]);
        }
        speed
    }

    pub(crate) fn conflicts(&self) -> Grid {
        let mut lost = conflicts::grid();
        for KindSummary { name, conflicts, aborted, repeated, same_opponent, .. } in self.0 {
            lost.row(conflicts::row(name, conflicts, [*aborted, *repeated, *same_opponent]));
        }
        lost
    }
}

impl fmt::Display for KindTables<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n\n{}\n\n", self.throughput(), self.conflicts())
    }
}

/// The report of a workload under one scheme. `O` are its options; their text describes the run.
#[derive(Clone, Debug, Serialize)]
pub struct Summary<O> {
    /// The name on the command line.
    pub workload: &'static str,
    /// The machine.
    pub setting: Setting,
    /// The options of the run.
    pub options: O,
    /// Measured time.
    pub seconds: f64,
    /// Processor time of the whole process during it: less than threads x seconds if the machine is shared.
    pub processor_seconds: f64,
    /// Use of the log, if the database had a directory.
    pub log: Option<LogSummary>,
    /// Results of each kind of transaction.
    pub kinds: Vec<KindSummary>,
    /// Throughput over time.
    pub series: Series,
    /// Aborted attempts by shape, if they are to be explained.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub abort_shapes: Vec<ShapeSummary>,
    /// Anomalies that no serial history has, if the workload counts them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub violations: Option<u64>,
    /// Results of the checks after the run.
    pub checks: Vec<Check>,
}

impl<O> Summary<O> {
    /// Summarizes counts and checks; `names` are those of the kinds.
    pub fn new(
        workload: &'static str,
        setting: Setting,
        options: O,
        names: &[impl AsRef<str>],
        counts: &Counts,
        checks: Vec<Check>,
    ) -> Self {
        Self {
            workload,
            setting,
            options,
            seconds: counts.seconds,
            processor_seconds: counts.processor_seconds,
            log: counts.log.map(LogUse::summary),
            kinds: KindSummary::all(counts, names),
            series: counts.series.clone(),
            abort_shapes: counts.shapes.summaries(names),
            violations: None,
            checks,
        }
    }

    /// Whether everything holds that the scheme promises.
    pub fn holds(&self) -> bool {
        self.checks.iter().all(Check::passes)
    }
}

impl<O: fmt::Display> Summary<O> {
    fn facts(&self) -> Facts {
        let Self { setting, options, seconds, processor_seconds, log, .. } = self;
        let processor = format!("{processor_seconds:.1} s in {seconds:.1} s");
        let facts = setting.facts().with("options", options).with("processor", processor);
        log.iter().fold(facts, |facts, log| facts.with("log", log))
    }

    /// The anomalies, a line for each check, and whether the scheme has kept its promises.
    fn verdict(&self) -> String {
        let violations = self.violations.map(|violations| format!("violations   {}", grouped(violations)));
        verdict(violations.into_iter().chain(self.checks.iter().map(Check::to_string)), self.holds())
    }
}

/// Lines of a report, and whether what was promised holds.
pub(crate) fn verdict(lines: impl Iterator<Item = String>, holds: bool) -> String {
    let last = if holds { "everything promised holds" } else { "A PROMISE IS BROKEN" };
    lines.chain([last.to_owned()]).collect::<Vec<_>>().join("\n")
}

impl<O: fmt::Display> fmt::Display for Summary<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n{}\n", self.workload, self.facts())?;
        KindTables(&self.kinds).fmt(f)?;
        ShapeTable(&self.abort_shapes).fmt(f)?;
        f.write_str(&self.verdict())
    }
}

impl<O: fmt::Display + Serialize> Report for Summary<O> {
    fn page(&self) -> Page {
        let mut page = Page::new(self.workload, self.facts());
        charts::over_time(&mut page, &self.series);
        let timed = self.kinds.iter().map(|kind| (&*kind.name, kind.latency));
        page.chart(charts::latencies("Latency".into(), timed));
        let causes = self.kinds.iter().map(|kind| (kind.name.clone(), kind.conflicts.clone()));
        page.bars(charts::causes(causes));
        let tables = KindTables(&self.kinds);
        page.table("Transactions", tables.throughput());
        page.table("Lost conflicts", tables.conflicts());
        page.table("Lost conflicts by shape", ShapeTable(&self.abort_shapes).grid());
        page.text("Conditions", self.verdict());
        page
    }
}

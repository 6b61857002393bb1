//! The result of a run, as text and as JSON.

use std::{fmt, time::Duration};

use ermine::Scheme;
use serde::Serialize;

use super::{
    business::DISTRICTS,
    check::CREDIT,
    mix::{Kind, Mix},
    options::Options,
    rows::RowChoice,
};
use crate::{
    abort_shapes::{ShapeSummary, ShapeTable},
    charts,
    conflicts::{self, Conflicts},
    latency::Quantiles,
    page::{Page, Report},
    report::{Facts, Grid, Memory, Setting, grouped},
    series::Series,
    sharing::Sharing,
    storage::{LogSummary, LogUse},
    trial::{Counts, Tally},
    verdict::{Verdict, all_hold},
};

/// Counts of all clients.
#[derive(Debug)]
pub struct Outcome {
    /// Counts by kind of transaction, in the order of [`Kind::ALL`].
    pub counts: Counts,
    /// Districts that had nothing to deliver.
    pub skipped_districts: u64,
}

/// The whole report.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Description of the benchmark, and what its results must not be compared with.
    pub benchmark: &'static str,
    /// The machine.
    pub setting: Setting,
    /// The options of the run.
    pub options: Options,
    /// Time to load.
    pub load_seconds: f64,
    /// Memory after the load.
    pub memory_after_load: Memory,
    /// Memory after the run.
    pub memory_after_run: Memory,
    /// Measured time.
    pub seconds: f64,
    /// Processor time of the whole process during it: less than threads x seconds if the machine is shared.
    pub processor_seconds: f64,
    /// Use of the log, if the database had a directory.
    pub log: Option<LogSummary>,
    /// Shared cache lines, in a build that counts them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sharing: Option<Sharing>,
    /// All transactions.
    pub total: KindSummary,
    /// Each kind of transaction in the mix.
    pub kinds: Vec<KindSummary>,
    /// Throughput over time.
    pub series: Series,
    /// Aborted attempts by cause, as the engine counts them.
    pub aborts: Vec<(&'static str, u64)>,
    /// Aborted attempts by shape, if they are to be explained.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub abort_shapes: Vec<ShapeSummary>,
    /// Percentage of districts that had nothing to deliver; above 1 it must be reported.
    pub skipped_deliveries_percent: f64,
    /// Conditions right after the load, or after an earlier run's database was opened.
    pub after_load: Vec<Verdict>,
    /// Conditions after the run.
    pub after_run: Vec<Verdict>,
}

/// Results of one kind of transaction, or of all.
#[derive(Clone, Debug, Serialize)]
pub struct KindSummary {
    /// Its name.
    pub name: &'static str,
    /// Transactions per second that committed or were rolled back by the user.
    pub per_second: f64,
    /// Transactions that committed.
    pub committed: u64,
    /// Transactions that the user rolled back: they are completed, too.
    pub rolled_back: u64,
    /// Transactions dropped after a lost conflict (without retries).
    pub dropped: u64,
    /// Transactions that failed on a key taken after a lost update (read committed).
    pub lost: u64,
    /// Aborted attempts.
    pub aborted: u64,
    /// Aborted attempts per completed transaction.
    pub aborted_per_transaction: f64,
    /// Aborted attempts that lost the same conflict as the attempt before: same kind, table and key.
    pub repeated: u64,
    /// Repeated conflicts that were lost against the same transaction, if both attempts name one.
    pub same_opponent: u64,
    /// Aborted attempts by cause.
    pub conflicts: Vec<(&'static str, u64)>,
    /// Latencies, with all retries, up to the acknowledgement.
    pub latency: Quantiles,
}

impl KindSummary {
    fn new(name: &'static str, tally: &Tally, seconds: f64) -> Self {
        let &Tally { committed, rolled_back, dropped, lost, ref conflicts, ref latency } = tally;
        let &Conflicts { aborted, repeated, same_opponent, .. } = conflicts;
        let completed = tally.completed();
        Self {
            name,
            per_second: completed as f64 / seconds,
            committed,
            rolled_back,
            dropped,
            lost,
            aborted,
            aborted_per_transaction: if completed == 0 { 0.0 } else { aborted as f64 / completed as f64 },
            repeated,
            same_opponent,
            conflicts: conflicts.named(),
            latency: latency.quantiles(),
        }
    }
}

impl Summary {
    pub(super) fn new(
        options: &Options,
        setting: Setting,
        load_time: Duration,
        [memory_after_load, memory_after_run]: [Memory; 2],
        outcome: Outcome,
        [after_load, after_run]: [Vec<Verdict>; 2],
    ) -> Self {
        let Outcome { counts, skipped_districts } = outcome;
        let summary = |name, tally| KindSummary::new(name, tally, counts.seconds);
        let deliveries = counts.tallies[Kind::Delivery as usize].committed * u64::from(DISTRICTS);
        Self {
            benchmark: match (options.mix, options.rows) {
                (Mix::Standard, RowChoice::Standard) => "TPC-C-like (not comparable with published TPC-C results)",
                (Mix::Standard, RowChoice::Silo) => {
                    "TPC-C-like with the rows and rules of Silo's benchmark (comparable with nothing but that)"
                }
                (Mix::CreditCheck, _) => "TPC-C-like with Credit-Check (not comparable with published TPC-C results)",
            },
            setting,
            options: options.clone(),
            load_seconds: load_time.as_secs_f64(),
            memory_after_load,
            memory_after_run,
            seconds: counts.seconds,
            processor_seconds: counts.processor_seconds,
            log: counts.log.map(LogUse::summary),
            sharing: counts.sharing,
            total: summary("total", &counts.total()),
            kinds: options.mix.kinds().map(|kind| summary(kind.name(), &counts.tallies[kind as usize])).collect(),
            aborts: counts.engine_aborts.iter().map(|(kind, count)| (kind.name(), count)).collect(),
            series: counts.series,
            abort_shapes: counts.shapes.summaries(&Kind::ALL.map(Kind::name)),
            skipped_deliveries_percent: 100.0 * skipped_districts as f64 / deliveries.max(1) as f64,
            after_load,
            after_run,
        }
    }

    /// Whether every condition held, after the load and after the run, as far as the scheme promises it.
    pub fn holds(&self) -> bool {
        all_hold(&self.after_load) && self.after_run.iter().all(|verdict| verdict.holds() || self.permits(verdict))
    }

    /// Whether the scheme lets a condition fail.
    fn permits(&self, verdict: &Verdict) -> bool {
        self.permits_lost_updates() || (verdict.condition == CREDIT && !self.options.scheme.is_serializable())
    }

    /// Read committed prevents torn rows, but not that a row is overwritten with a value computed from an old version:
    /// sums of payments and the numbers of orders go wrong if threads share a district.
    fn permits_lost_updates(&self) -> bool {
        self.options.scheme == Scheme::Rc
    }

    fn verdict(&self) -> &'static str {
        match (all_hold(&self.after_load) && all_hold(&self.after_run), self.holds()) {
            (true, _) => "all conditions hold",
            (false, true) => "conditions fail, as the scheme permits",
            (false, false) => "CONDITIONS FAIL",
        }
    }

    fn throughput(&self) -> Grid {
        let mut grid = Grid::new(&[
            "transaction",
            "completed/s",
            "committed",
            "rolled back",
            "dropped",
            "aborts/txn",
            "p50 us",
            "p99 us",
            "p99.9 us",
            "max us",
        ]);
        for kind in self.kinds.iter().chain([&self.total]) {
            let Quantiles { p50_us, p99_us, p999_us, max_us, .. } = kind.latency;
            grid.row([
                kind.name.to_owned(),
                grouped(kind.per_second as u64),
                grouped(kind.committed),
                grouped(kind.rolled_back),
                grouped(kind.dropped),
                format!("{:.4}", kind.aborted_per_transaction),
                format!("{p50_us:.1}"),
                format!("{p99_us:.1}"),
                format!("{p999_us:.1}"),
                format!("{max_us:.0}"),
            ]);
        }
        grid
    }

    fn causes(&self) -> Grid {
        let mut grid = conflicts::grid();
        for KindSummary { name, conflicts, aborted, repeated, same_opponent, .. } in
            self.kinds.iter().chain([&self.total])
        {
            grid.row(conflicts::row(name, conflicts, [*aborted, *repeated, *same_opponent]));
        }
        let all = self.aborts.iter().map(|&(_, count)| count);
        let sum = all.clone().sum();
        grid.row(["by the engine's count".to_owned()].into_iter().chain(all.map(grouped)).chain([
            grouped(sum),
            String::new(),
            String::new(),
        ]));
        grid
    }
}

impl Summary {
    fn facts(&self) -> Facts {
        let completed = self.total.committed + self.total.rolled_back;
        let processor = format!(
            "{:.1} s in {:.1} s, {} transactions a processor second",
            self.processor_seconds,
            self.seconds,
            grouped((completed as f64 / self.processor_seconds.max(0.01)) as u64)
        );
        let facts = self.setting.facts().with("options", &self.options);
        let facts = facts.with("load", format!("{:.1} s, {}", self.load_seconds, self.memory_after_load));
        let facts = facts.with("after run", self.memory_after_run).with("processor", processor);
        let facts = self.log.iter().fold(facts, |facts, log| facts.with("log", log));
        self.sharing.iter().fold(facts, |facts, sharing| facts.with("sharing", sharing))
    }

    /// Transactions that were not what the rules intend.
    fn remarks(&self) -> String {
        let mut text = String::new();
        if self.skipped_deliveries_percent > 0.0 {
            text += &format!("{:.2} % of deliveries skipped: nothing to deliver\n\n", self.skipped_deliveries_percent);
        }
        if self.total.lost > 0 {
            text += &format!("{} transactions failed on a key taken after a lost update\n\n", grouped(self.total.lost));
        }
        text
    }

    fn conditions(&self) -> String {
        let loaded = if all_hold(&self.after_load) { "PASS" } else { "FAIL" };
        let mut text = format!("conditions before the run: {loaded}\n");
        let failed = self.after_load.iter().filter(|verdict| !verdict.holds());
        text.extend(failed.map(|verdict| format!("{verdict}\n")));
        text += "conditions after the run, in one snapshot:\n";
        text.extend(self.after_run.iter().map(|verdict| format!("{verdict}\n")));
        text
    }

    fn conclusion(&self) -> String {
        format!(
            "{} transactions/s ({} new orders/s), {}",
            grouped(self.total.per_second as u64),
            grouped(self.kinds[Kind::NewOrder as usize].per_second as u64),
            self.verdict()
        )
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n{}", self.benchmark, self.facts())?;
        writeln!(f, "\n{}\n\n{}\n", self.throughput(), self.causes())?;
        ShapeTable(&self.abort_shapes).fmt(f)?;
        write!(f, "{}{}\n{}", self.remarks(), self.conditions(), self.conclusion())
    }
}

impl Report for Summary {
    fn page(&self) -> Page {
        let mut page = Page::new(self.benchmark, self.facts().with("result", self.conclusion()));
        charts::over_time(&mut page, &self.series);
        page.chart(charts::latencies("Latency".into(), self.kinds.iter().map(|kind| (kind.name, kind.latency))));
        page.bars(charts::causes([(String::new(), self.aborts.clone())]));
        page.table("Transactions", self.throughput());
        page.table("Lost conflicts", self.causes());
        page.table("Lost conflicts by shape", ShapeTable(&self.abort_shapes).grid());
        page.text("Conditions", self.remarks() + &self.conditions());
        page
    }
}

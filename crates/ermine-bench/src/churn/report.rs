//! The report of a long run, as text and as a page.

use std::fmt;

use super::{GROWTH_MIB_MAX, GROWTH_PERCENT_MAX, Options, Sample, Summary};
use crate::{
    abort_shapes::ShapeTable,
    charts,
    latency::Quantiles,
    page::{Axis, Chart, Page, Point, Report},
    report::{Facts, Grid, Memory, grouped, mib},
    storage,
};

impl Summary {
    fn facts(&self) -> Facts {
        let Options { scheme, threads, rows, duration, rate, seed, storage, tuning, .. } = &self.options;
        let rate =
            rate.map_or_else(String::new, |rate| format!(", {rate} transactions a second begin at random times"));
        let options = format!(
            "scheme {scheme}, {threads} threads, {} rows, {:.0} s{rate}, seed {seed}{}",
            grouped(u64::from(*rows)),
            duration.as_secs_f64(),
            storage::in_words(storage.as_ref(), tuning)
        );
        self.setting.facts().with("options", options)
    }

    fn memory(&self) -> Grid {
        let mut grid = Grid::new(&["seconds", "txn/s", "resident", "versions", "garbage versions"]);
        for Sample { seconds, per_second, memory } in &self.samples {
            grid.row([
                format!("{seconds:.0}"),
                grouped(*per_second as u64),
                mib(memory.resident_bytes),
                mib(memory.version_bytes),
                grouped(memory.garbage_versions),
            ]);
        }
        grid
    }

    fn conclusion(&self) -> String {
        let Quantiles { p50_us, p99_us, p999_us, .. } = self.latency;
        let verdict = |holds| if holds { "PASS" } else { "FAIL" };
        let rows = u64::from(self.options.rows);
        let mut text = format!(
            "{} transactions committed, {} attempts aborted\nlatency: p50 {p50_us:.1} us, p99 {p99_us:.1} us, p99.9 \
             {p999_us:.1} us\n",
            grouped(self.committed),
            grouped(self.aborted)
        );
        text.extend(self.log.iter().map(|log| format!("log: {log}\n")));
        text += &format!(
            "{}  resident memory grows from quarter to quarter, at least: {:+.1} %, {:+.1} MiB (at most \
             {GROWTH_PERCENT_MAX} % or {GROWTH_MIB_MAX} MiB)\n",
            verdict(self.is_flat()),
            self.growth.percent,
            self.growth.mib
        );
        let verdict = verdict(self.rows_found == rows);
        text + &format!("{verdict}  {} rows at the end of {}", grouped(self.rows_found), grouped(rows))
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n\n{}\n", self.facts(), self.memory())?;
        ShapeTable(&self.abort_shapes).fmt(f)?;
        f.write_str(&self.conclusion())
    }
}

impl Report for Summary {
    fn page(&self) -> Page {
        let mut page = Page::new("churn", self.facts());
        charts::over_time(&mut page, &self.series);
        let mut memory = Chart::new("Memory", Axis::linear("seconds"), Axis::linear("MiB"));
        let points = |bytes: fn(&Memory) -> u64| {
            let point = |sample: &Sample| Point::new(sample.seconds, bytes(&sample.memory) as f64 / f64::from(1 << 20));
            self.samples.iter().map(point).collect()
        };
        memory.line("resident", points(|memory| memory.resident_bytes));
        memory.line("versions", points(|memory| memory.version_bytes));
        page.chart(memory);
        page.chart(charts::latencies("Latency".into(), [("all", self.latency)]));
        page.table("Memory", self.memory());
        page.table("Lost conflicts by shape", ShapeTable(&self.abort_shapes).grid());
        page.text("Result", self.conclusion());
        page
    }
}

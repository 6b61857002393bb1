//! The report of single operations, as text and as a page.

use std::fmt;

use super::{Measured, Summary};
use crate::{
    abort_shapes::ShapeTable,
    charts,
    latency::Quantiles,
    page::{Bar, Bars, Page, Report},
    report::{Facts, Grid, grouped, mib},
};

impl Summary {
    fn facts(&self) -> Facts {
        let load = format!("{:.1} s, {} resident", self.load.seconds, mib(self.load.resident_bytes));
        self.setting.facts().with("options", &self.options).with("load", load)
    }

    fn grid(&self) -> Grid {
        let mut grid = Grid::new(&[
            "operation",
            "txn/s",
            "txn/processor s",
            "retries/txn",
            "p50 us",
            "p99 us",
            "p99.9 us",
            "resident",
        ]);
        for measured in &self.results {
            let Quantiles { p50_us, p99_us, p999_us, .. } = measured.latency;
            grid.row([
                measured.operation.name().to_owned(),
                grouped(measured.per_second as u64),
                grouped(measured.per_processor_second as u64),
                format!("{:.4}", measured.retries_per_transaction),
                format!("{p50_us:.2}"),
                format!("{p99_us:.2}"),
                format!("{p999_us:.2}"),
                mib(measured.resident_bytes),
            ]);
        }
        grid
    }

    /// A line for each operation that has used the log.
    fn logs(&self) -> String {
        let line = |measured: &Measured| {
            measured.log.map(|log| format!("\nlog of {}: {log}", measured.operation.name())).unwrap_or_default()
        };
        self.results.iter().map(line).collect()
    }

    /// A line for each operation for which memory was short.
    fn cold(&self) -> String {
        let line = |measured: &Measured| {
            measured.cold.map(|cold| format!("\nmemory of {}: {cold}", measured.operation.name())).unwrap_or_default()
        };
        self.results.iter().map(line).collect()
    }
}

impl Measured {
    /// A line, in a build that counts shared cache lines.
    fn sharing(&self) -> String {
        self.sharing.map(|sharing| format!("\nsharing of {}: {sharing}", self.operation.name())).unwrap_or_default()
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n\n{}{}{}", self.facts(), self.grid(), self.logs(), self.cold())?;
        self.results.iter().try_for_each(|measured| f.write_str(&measured.sharing()))?;
        for measured in self.results.iter().filter(|measured| !measured.abort_shapes.is_empty()) {
            write!(f, "\n\n{}", ShapeTable(&measured.abort_shapes))?;
        }
        Ok(())
    }
}

impl Report for Summary {
    fn page(&self) -> Page {
        let mut page = Page::new("micro", self.facts());
        let bar = |measured: &Measured| {
            let (name, value) = (measured.operation.name().to_owned(), measured.per_second);
            Bar { name, value, text: grouped(value as u64) }
        };
        page.bars(Bars::single("Transactions per second", self.results.iter().map(bar).collect()));
        let timed = self.results.iter().map(|measured| (measured.operation.name(), measured.latency));
        page.chart(charts::latencies("Latency".into(), timed));
        let runs: Vec<_> = self.results.iter().map(|measured| (measured.operation.name(), &measured.series)).collect();
        charts::side_by_side(&mut page, "", &runs);
        page.table("Operations", self.grid());
        page.text("Log", self.logs().trim().to_owned());
        page.text("Rows in files", self.cold().trim().to_owned());
        for Measured { operation, abort_shapes, .. } in &self.results {
            page.table(format!("Lost conflicts by shape: {}", operation.name()), ShapeTable(abort_shapes).grid());
        }
        page
    }
}

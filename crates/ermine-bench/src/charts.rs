//! Charts that several reports share: throughput over time, latencies, lost conflicts by cause.

use crate::{
    latency::Quantiles,
    page::{Axis, Bar, Bars, Chart, Group, Page, Point},
    report::grouped,
    series::{Second, Series},
};

/// Shows throughput over time and the lost conflicts in it, with checkpoints; the versions that wait for collection;
/// and the memory and room on the device that the database takes.
pub(crate) fn over_time(page: &mut Page, series: &Series) {
    let mut chart =
        Chart { mark: "checkpoint", ..Chart::new("Throughput over time", time(), Axis::linear("per second")) };
    chart.line("transactions", points(series, |second| second.completed_per_second));
    chart.line("lost conflicts", points(series, |second| second.aborted_per_second));
    chart.lines[0].marks = checkpoints(series);
    page.chart(chart);
    page.chart(garbage("Superseded versions", &[("not freed yet", series)]));
    page.chart(room(series));
}

/// Memory, and room on the device.
fn room(series: &Series) -> Chart {
    let mut chart = Chart::new("Memory and files", time(), Axis::linear("MiB"));
    let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    chart.line("memory of the database", points(series, |second| mebibytes(second.memory_bytes)));
    if series.0.iter().any(|second| second.disk_bytes.is_some()) {
        chart.line("files", points(series, |second| mebibytes(second.disk_bytes.unwrap_or(0))));
    }
    chart
}

/// Shows the throughput over time of several runs beside each other. `point` is what they have in common.
pub(crate) fn side_by_side(page: &mut Page, point: &str, runs: &[(&str, &Series)]) {
    let title = titled("Throughput over time", point);
    let mut chart = Chart { mark: "checkpoint", ..Chart::new(title, time(), Axis::linear("transactions per second")) };
    for (number, (name, series)) in runs.iter().enumerate() {
        chart.line(*name, points(series, |second| second.completed_per_second));
        chart.lines[number].marks = checkpoints(series);
    }
    page.chart(chart);
    page.chart(garbage(&titled("Superseded versions not freed yet", point), runs));
}

/// A title about a point of a comparison; the point may have no name.
pub(crate) fn titled(subject: &str, point: &str) -> String {
    if point.is_empty() { subject.to_owned() } else { format!("{subject}: {point}") }
}

fn time() -> Axis {
    Axis::linear("seconds")
}

fn points(series: &Series, value: impl Fn(&Second) -> f64) -> Vec<Point> {
    series.0.iter().map(|second| Point::new(second.seconds, value(second))).collect()
}

fn checkpoints(series: &Series) -> Vec<f64> {
    series.0.iter().filter(|second| second.checkpoints > 0).map(|second| second.seconds).collect()
}

/// Versions that wait for collection: where a line falls, they were freed faster than new ones were superseded.
fn garbage(title: &str, runs: &[(&str, &Series)]) -> Chart {
    let mut chart = Chart::new(title, time(), Axis::linear("rows"));
    for (name, series) in runs {
        // Single-version schemes have none.
        if series.0.iter().any(|second| second.garbage_versions > 0) {
            chart.line(*name, points(series, |second| second.garbage_versions as f64));
        }
    }
    chart
}

/// Latencies by their percentiles; what was not timed is left out.
pub(crate) fn latencies<'a>(title: String, timed: impl IntoIterator<Item = (&'a str, Quantiles)>) -> Chart {
    let percentiles = Axis::named("percentile", Quantiles::NAMES);
    let mut chart = Chart::new(title, percentiles, Axis::logarithmic("microseconds"));
    for (name, quantiles) in timed.into_iter().filter(|(_, quantiles)| quantiles.max_us > 0.0) {
        let points = quantiles.values().into_iter().enumerate();
        chart.line(name, points.map(|(place, value)| Point::new(place as f64, value)).collect());
    }
    chart
}

/// Lost conflicts by cause, in a group for each name; causes that did not occur are left out.
pub(crate) fn causes(groups: impl IntoIterator<Item = (String, Vec<(&'static str, u64)>)>) -> Bars {
    let bar = |(cause, count): (&str, u64)| Bar { name: cause.into(), value: count as f64, text: grouped(count) };
    let group = |(name, counts): (String, Vec<(&'static str, u64)>)| Group {
        name,
        bars: counts.into_iter().filter(|&(_, count)| count > 0).map(bar).collect(),
    };
    let groups = groups.into_iter().map(group).filter(|group| !group.bars.is_empty()).collect();
    Bars { share_scale: true, ..Bars::grouped("Aborted attempts by cause", groups) }
}

/// Adds counts by cause; both list the same causes.
pub(crate) fn sum(counts: impl IntoIterator<Item = Vec<(&'static str, u64)>>) -> Vec<(&'static str, u64)> {
    let add = |mut sum: Vec<(&'static str, u64)>, counts: Vec<(&'static str, u64)>| {
        sum.iter_mut().zip(counts).for_each(|((_, own), (_, count))| *own += count);
        sum
    };
    counts.into_iter().reduce(add).unwrap_or_default()
}

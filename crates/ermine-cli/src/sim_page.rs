//! The pages of `ermine sim`.

use ermine_bench::{
    page::{Axis, Bar, Bars, Chart, Group, Line, Page, Point, Scale},
    report::{Facts, Grid, Setting},
};
use ermine_sim::{Drawing, GroupOutcome, Options, Outcome, Panel};

/// Returns the page of one workload under several schemes; `grid` has the outcomes as a table.
pub fn run_page(options: &Options, outcomes: &[Outcome], grid: Grid) -> Page {
    let Options { records, groups, seed, load, .. } = options;
    let offered = groups.iter().zip(&outcomes[0].groups);
    let offered = offered.map(|(group, outcome)| format!("{group}, {} transactions offered", outcome.offered));
    let facts = setting().with("options", format!("{records} records, seed {seed}, load {load}"));
    let mut page = Page::new("Simulated schemes", facts.with("groups", offered.collect::<Vec<_>>().join("; ")));
    for (number, group) in groups.iter().enumerate() {
        let titled = |subject: &str| match groups.len() {
            1 => subject.to_owned(),
            _ => format!("{subject}: group {}, {group}", number + 1),
        };
        let of_group = || outcomes.iter().map(|outcome| (outcome.scheme.title(), &outcome.groups[number]));
        page.bars(Bars::single(titled("Commits, in percent"), of_group().map(completion).collect()));
        let causes = Bars::grouped(titled("Aborts by cause"), of_group().map(causes).collect());
        page.bars(Bars { share_scale: true, ..causes });
        page.chart(latencies(titled("Latency of commits"), of_group()));
    }
    page.table("Outcomes", grid);
    page
}

/// Returns the page of a figure.
pub fn figure_page(drawing: &Drawing) -> Page {
    let Drawing { paper, number, title, transactions, seeds, broken, .. } = drawing;
    let options =
        format!("means of {seeds} simulations of {transactions} transactions, with the least and the greatest");
    let mut page = Page::new(format!("{paper} figure {number}: {title}"), setting().with("options", options));
    charts(drawing).into_iter().for_each(|chart| page.chart(chart));
    page.text("Not serializable", broken.join("\n"));
    page
}

/// Returns the parts of a figure.
pub fn charts(drawing: &Drawing) -> Vec<Chart> {
    let chart = |Panel { title, curves }: &Panel| {
        let axis = |label: &str, is_logarithmic| Axis {
            label: label.into(),
            scale: if is_logarithmic { Scale::Logarithmic } else { Scale::Linear },
        };
        let x = axis(drawing.x_label, drawing.x_is_logarithmic);
        let y = axis(drawing.y_label, drawing.y_is_logarithmic);
        let mut chart = Chart::new(title.clone(), x, y);
        chart.lines.extend(curves.iter().map(|curve| Line {
            name: curve.name.clone(),
            colour: curve.colour,
            is_dashed: curve.is_dashed,
            points: curve.points.iter().map(|point| spread(point.x, point.mean, [point.min, point.max])).collect(),
            marks: Vec::new(),
        }));
        chart
    };
    drawing.panels.iter().map(chart).collect()
}

/// The machine and the commit; the machine's speed changes no number of a simulation.
pub fn setting() -> Facts {
    Setting::uncalibrated().facts()
}

fn spread(x: f64, y: f64, ends: [f64; 2]) -> Point {
    Point { x, y, spread: Some(ends) }
}

fn completion((scheme, outcome): (&str, &GroupOutcome)) -> Bar {
    let value = outcome.completion_percent();
    Bar { name: scheme.into(), value, text: format!("{value:.2}") }
}

fn causes((scheme, outcome): (&str, &GroupOutcome)) -> Group {
    let aborted = outcome.aborted;
    let counts = [
        ("wait depth", aborted.wait_depth),
        ("temporal skew", aborted.temporal_skew),
        ("certifier", aborted.certifier),
        ("safe snapshot", aborted.safe_snapshot),
        ("collision", aborted.collision),
    ];
    let bar = |(name, count): (&str, u64)| Bar { name: name.into(), value: count as f64, text: count.to_string() };
    Group { name: scheme.into(), bars: counts.into_iter().filter(|&(_, count)| count > 0).map(bar).collect() }
}

fn latencies<'a>(title: String, outcomes: impl Iterator<Item = (&'a str, &'a GroupOutcome)>) -> Chart {
    let mut chart = Chart::new(title, Axis::named("percentile", ["50 %", "99 %"]), Axis::logarithmic("mean accesses"));
    for (scheme, GroupOutcome { latency, .. }) in outcomes {
        chart.line(scheme, vec![Point::new(0.0, latency.p50), Point::new(1.0, latency.p99)]);
    }
    chart
}

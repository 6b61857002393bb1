//! The document: each figure with what the paper says, what was looked for, a chart and its numbers.

use std::{fmt::Write, fs, path::Path};

use ermine_bench::{
    Error, Result,
    page::{Axis, Chart, Scale},
    report::Facts,
};

use super::figure::{Charts, Figure};

/// A figure that was made again.
pub(super) struct Drawn<'f> {
    pub(super) figure: &'f Figure,
    pub(super) charts: Vec<Chart>,
}

impl Drawn<'_> {
    /// Returns the claims, and whether they hold.
    pub(super) fn claims(&self) -> impl Iterator<Item = (&'static str, bool)> {
        self.figure.claims.iter().map(|claim| (claim.text, (claim.holds)(&Charts(&self.charts))))
    }
}

/// Writes the document, and its drawings into a folder beside it that has its name.
pub(super) fn write(path: &Path, facts: &Facts, drawn: &[Drawn<'_>]) -> Result<()> {
    let folder = path.with_extension("");
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::File { path, source }
    };
    fs::create_dir_all(&folder).map_err(failed(&folder))?;
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for drawn in drawn {
        for (number, chart) in drawn.charts.iter().enumerate() {
            let file = folder.join(drawing(drawn.figure, number));
            fs::write(&file, chart.svg()).map_err(failed(&file))?;
        }
    }
    fs::write(path, text(&name, facts, drawn)).map_err(failed(path))
}

/// Returns the name of the file with a chart.
fn drawing(figure: &Figure, number: usize) -> String {
    format!("{}-{}.svg", figure.slug(), number + 1)
}

fn text(folder: &str, facts: &Facts, drawn: &[Drawn<'_>]) -> String {
    let mut text = INTRODUCTION.to_owned();
    let mut line = |line: &str| writeln!(text, "{line}").expect("into a string");
    facts.iter().for_each(|(name, fact)| line(&format!("- {name}: {fact}")));
    line("\n| figure | subject | what agrees |\n|---|---|---|");
    for drawn in drawn {
        let (all, hold) = (drawn.claims().count(), drawn.claims().filter(|(_, holds)| *holds).count());
        let name = title(drawn.figure);
        let Figure { paper, number, title, .. } = drawn.figure;
        line(&format!("| [{paper} {number}](#{}) | {title} | {hold} of {all} |", anchor(&name)));
    }
    for drawn in drawn {
        let Figure { shows, why, commands, .. } = drawn.figure;
        line(&format!("\n## {}\n{}\n\n| looked for | found |\n|---|---|", title(drawn.figure), wrapped(shows)));
        for (claim, holds) in drawn.claims() {
            line(&format!("| {claim} | {} |", if holds { "yes" } else { "**no**" }));
        }
        if !why.is_empty() && drawn.claims().any(|(_, holds)| !holds) {
            line(&format!("\n{}", wrapped(why)));
        }
        for (number, chart) in drawn.charts.iter().enumerate() {
            let file = drawing(drawn.figure, number);
            line(&format!("\n![{}, by {}]({folder}/{file})\n", chart.y.label, chart.x.label));
            table(chart).iter().for_each(|row| line(row));
        }
        line("");
        commands.iter().for_each(|command| line(&format!("    {command}")));
    }
    text + LEFT_OUT
}

fn title(figure: &Figure) -> String {
    format!("{}, figure {}: {}", figure.paper, figure.number, figure.title)
}

/// Returns the anchor of a heading.
fn anchor(title: &str) -> String {
    let title = title.to_lowercase();
    let kept = title.chars().filter(|one| one.is_alphanumeric() || matches!(one, ' ' | '-'));
    kept.map(|one| if one == ' ' { '-' } else { one }).collect()
}

/// Breaks a paragraph into lines.
fn wrapped(text: &str) -> String {
    const COLUMNS: usize = 120;
    let (mut wrapped, mut width) = (String::new(), 0);
    for word in text.split_whitespace() {
        let length = word.chars().count();
        let separator = match width {
            0 => "",
            width if width + 1 + length > COLUMNS => "\n",
            _ => " ",
        };
        width = if separator == " " { width + 1 + length } else { length };
        wrapped += separator;
        wrapped += word;
    }
    wrapped
}

/// Lines over time have too many points for a table.
const ROWS_MAX: usize = 14;

/// Returns the numbers of a chart as a table, or what became of them if they are many.
fn table(chart: &Chart) -> Vec<String> {
    let Chart { title, x, lines, .. } = chart;
    let mut places: Vec<f64> = lines.iter().flat_map(|line| &line.points).map(|point| point.x).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let row = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    if places.len() > ROWS_MAX {
        let mean = |points: &[ermine_bench::page::Point]| {
            points.iter().map(|point| point.y).sum::<f64>() / points.len().max(1) as f64
        };
        let mut rows = vec![format!("| {title} | mean |"), "|---|---|".to_owned()];
        rows.extend(lines.iter().map(|line| row(vec![line.name.clone(), short(mean(&line.points))])));
        return rows;
    }
    let mut rows = vec![
        row([format!("{title}; {}", x.label)].into_iter().chain(lines.iter().map(|line| line.name.clone())).collect()),
        "|---".repeat(lines.len() + 1) + "|",
    ];
    for place in places {
        let of_line = |line: &ermine_bench::page::Line| {
            line.points.iter().find(|point| point.x == place).map_or(String::new(), |point| short(point.y))
        };
        rows.push(row([name_of(x, place)].into_iter().chain(lines.iter().map(of_line)).collect()));
    }
    rows
}

fn name_of(axis: &Axis, place: f64) -> String {
    match &axis.scale {
        Scale::Named(names) => names.get(place as usize).cloned().unwrap_or_default(),
        Scale::Linear | Scale::Logarithmic => place.to_string(),
    }
}

/// A number in three digits.
fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

const INTRODUCTION: &str = "\
# The figures of the papers, made again
<!-- Written by `ermine bench papers`: do not change it by hand. -->
A reduced form of each figure of the five papers ([papers](papers.md)) that this machine can make: those of the
simulator, which depend on no machine, and those of the engine, on few cores and for a short time. For each, what the
paper shows, what of it was looked for in the numbers, and whether it was found. Where it was not, the text says why, as
far as that is known. The command that wrote all of this, in some ten minutes:

    cargo run --release -- bench papers --out docs/reproduction.md

Longer runs of the same are in [benchmarks](benchmarks.md) and [simulation](simulation.md).

";

const LEFT_OUT: &str = "
## What is not here
- ERMIA 2 to 4, SSN 1 to 5, HTM 1 to 4 and 7 to 10 draw ideas, not measurements; docs/papers.md names the code.
- ERMIA 6, SSN 10 to 13: curves over 15 to 60 threads. What two cores show of them is under ERMIA 5 and 7, in
  [certifiers](benchmarks/certifiers.md), and under HTM 14 for many simulated cores.
- SiloR 2 to 7: runs of minutes with 32 cores and a hundred gigabytes. Syncs of checkpoints (figure 4), dips and
  recovery by bytes are in [single-version schemes](benchmarks/single-version.md).
- STO 3, where the cycles go, needs a profiler: [single-version schemes](benchmarks/single-version.md). STO 1 and 4 are
  under HTM 13.
";

#[cfg(test)]
mod tests {
    use ermine_bench::page::Point;

    use super::*;
    use crate::papers::figure::Claim;

    #[test]
    fn the_document_tells_what_was_found_and_what_was_not() {
        let figure = Figure {
            paper: "SSN",
            number: 6,
            title: "Contention & more",
            shows: "It rises.",
            claims: &[
                Claim { text: "it rises", holds: |of| of.at("a", 2.0) > of.at("a", 1.0) },
                Claim { text: "there is a line b", holds: |of| of.everywhere("b", |_, _| true) },
                Claim { text: "it falls", holds: |of| of.mean("a") < of.at("a", 2.0) - 1.0 },
            ],
            why: "The reason is not known.",
            commands: &["ermine sim figure 6"],
            draw: |_| Ok(Vec::new()),
        };
        let mut chart = Chart::new("Part", Axis::linear("x"), Axis::linear("y"));
        chart.line("a", vec![Point::new(1.0, 10.0), Point::new(2.0, 11.5)]);
        let drawn = [Drawn { figure: &figure, charts: vec![chart] }];
        assert_eq!(drawn[0].claims().map(|(_, holds)| holds).collect::<Vec<_>>(), [true, false, false]);
        let text = text("reproduction", &Facts::default().with("machine", "small"), &drawn);
        for line in [
            "- machine: small",
            "| [SSN 6](#ssn-figure-6-contention--more) | Contention & more | 1 of 3 |",
            "| it rises | yes |",
            "| it falls | **no** |",
            "The reason is not known.",
            "![y, by x](reproduction/ssn-6-1.svg)",
            "| Part; x | a |",
            "| 2 | 11.5 |",
            "    ermine sim figure 6",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} is not in {text}");
        }
    }
}

//! The report of a comparison as JSON, as a page and as comma-separated values. Each binary here contains this module.

use std::{
    error::Error,
    path::{Path, PathBuf},
};

use ermine_bench::{
    page::{Bar, Bars, Group, Page, Report},
    report::{Grid, Setting, write_json},
};
use serde::Serialize;

/// The files of a report, beside its text.
#[derive(Clone, clap::Args)]
pub struct Output {
    /// Write all rounds as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the medians as one page with bars, which loads nothing else
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the numbers of that page as comma-separated values: section, series, x, value, low, high
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

impl Output {
    /// Writes the files that are asked for.
    pub fn write(&self, comparison: &Comparison) -> Result<(), Box<dyn Error>> {
        let write =
            |path: &Option<PathBuf>, to: &dyn Fn(&Path) -> ermine_bench::Result<()>| path.as_deref().map_or(Ok(()), to);
        let page = comparison.page();
        write(&self.json, &|path| write_json(comparison, path))?;
        write(&self.html, &|path| page.write_html(path))?;
        Ok(write(&self.csv, &|path| page.write_csv(path))?)
    }
}

/// Contenders beside each other.
#[derive(Serialize)]
pub struct Comparison {
    /// Its subject.
    pub title: &'static str,
    /// The machine.
    pub setting: Setting,
    /// The options of the run.
    pub options: String,
    /// The results; those of one quantity are side by side.
    pub figures: Vec<Figure>,
}

/// One quantity of all contenders with the same inputs.
#[derive(Serialize)]
pub struct Figure {
    /// The quantity and its unit.
    pub quantity: &'static str,
    /// The inputs.
    pub input: String,
    /// The contenders.
    pub results: Vec<Measured>,
}

/// One quantity of one contender.
#[derive(Serialize)]
pub struct Measured {
    /// The contender.
    pub name: String,
    /// Its results, round by round.
    pub rounds: Vec<f64>,
}

impl Measured {
    /// The median, the least and the greatest result.
    fn spread(&self) -> [f64; 3] {
        let mut sorted = self.rounds.clone();
        sorted.sort_by(f64::total_cmp);
        [sorted[sorted.len() / 2], sorted[0], sorted[sorted.len() - 1]]
    }
}

impl Report for Comparison {
    fn page(&self) -> Page {
        let mut page = Page::new(self.title, self.setting.facts().with("options", &self.options));
        let by_quantity = || self.figures.chunk_by(|one, other| one.quantity == other.quantity);
        for figures in by_quantity() {
            let bar = |measured: &Measured| {
                let value = measured.spread()[0];
                Bar { name: measured.name.clone(), value, text: digits(value) }
            };
            let group =
                |figure: &Figure| Group { name: figure.input.clone(), bars: figure.results.iter().map(bar).collect() };
            page.bars(Bars::grouped(figures[0].quantity, figures.iter().map(group).collect()));
        }
        for figures in by_quantity() {
            let mut grid = Grid::new(&["contender", "median", "lowest", "highest"]);
            for figure in figures {
                for measured in &figure.results {
                    let name = format!("{}, {}", figure.input, measured.name);
                    grid.row([name].into_iter().chain(measured.spread().map(digits)));
                }
            }
            page.table(figures[0].quantity, grid);
        }
        page
    }
}

/// A number with the digits that matter.
fn digits(value: f64) -> String {
    if value < 10.0 { format!("{value:.3}") } else { format!("{value:.1}") }
}

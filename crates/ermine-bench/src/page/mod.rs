//! Reports as pages: a [`Page`] says what is shown, in order, without saying how.
//!
//! [`Page::write_html`] makes one HTML file that loads nothing, for light and dark screens of any width;
//! [`Page::write_csv`] writes the same numbers as comma-separated values. A report describes its page beside its text
//! ([`Report`]): tables and facts are those of the text, so that both show the same numbers.
//!
//! Lines are drawn by plotters; bars and tables are HTML, which the browser breaks for narrow screens.

mod csv;
mod html;
mod svg;

use std::path::Path;

use serde::Serialize;

use crate::{
    error::Result,
    report::{Facts, Grid, write_file},
};

/// A report that can be shown as JSON and as a page.
pub trait Report: Serialize {
    /// Describes the page.
    fn page(&self) -> Page;
}

/// A page: a title, facts about the run, and sections.
pub struct Page {
    title: String,
    facts: Facts,
    sections: Vec<Section>,
}

/// A part of a page.
enum Section {
    Chart(Chart),
    Bars(Bars),
    Table { title: String, grid: Grid },
    Text { title: String, text: String },
}

impl Page {
    /// Creates a page without sections.
    pub fn new(title: impl Into<String>, facts: Facts) -> Self {
        Self { title: title.into(), facts, sections: Vec::new() }
    }

    /// Adds a chart, unless it has no points.
    pub fn chart(&mut self, chart: Chart) {
        if chart.lines.iter().any(|line| !line.points.is_empty()) {
            self.sections.push(Section::Chart(chart));
        }
    }

    /// Adds bars, unless there are none.
    pub fn bars(&mut self, bars: Bars) {
        if bars.groups.iter().any(|group| !group.bars.is_empty()) {
            self.sections.push(Section::Bars(bars));
        }
    }

    /// Adds a table, unless it has no rows.
    pub fn table(&mut self, title: impl Into<String>, grid: Grid) {
        if !grid.rows().is_empty() {
            self.sections.push(Section::Table { title: title.into(), grid });
        }
    }

    /// Adds lines of text, unless there are none.
    pub fn text(&mut self, title: impl Into<String>, text: String) {
        if !text.is_empty() {
            self.sections.push(Section::Text { title: title.into(), text });
        }
    }

    /// Writes the page as HTML; `-` is the standard output.
    pub fn write_html(&self, path: &Path) -> Result<()> {
        write_file(path, |out| out.write_all(html::html(self).as_bytes()))
    }

    /// Writes the numbers of the page as comma-separated values; `-` is the standard output.
    pub fn write_csv(&self, path: &Path) -> Result<()> {
        write_file(path, |out| out.write_all(csv::csv(self).as_bytes()))
    }
}

/// Lines over an axis.
pub struct Chart {
    /// Its subject.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// Name of the events that lines mark.
    pub mark: &'static str,
    /// The lines.
    pub lines: Vec<Line>,
}

impl Chart {
    /// Creates a chart without lines.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self { title: title.into(), x, y, mark: "", lines: Vec::new() }
    }

    /// Draws it as a file of its own, with its title and its legend, for light and dark screens.
    pub fn svg(&self) -> String {
        html::file(self)
    }

    /// Adds a line in the next colour.
    pub fn line(&mut self, name: impl Into<String>, points: Vec<Point>) {
        let number = self.lines.len();
        let is_dashed = number >= COLOURS;
        self.lines.push(Line { name: name.into(), colour: number % COLOURS, is_dashed, points, marks: Vec::new() });
    }
}

/// Number of colours of lines.
const COLOURS: usize = 8;

/// An axis.
pub struct Axis {
    /// The quantity and its unit.
    pub label: String,
    /// How values become places.
    pub scale: Scale,
}

impl Axis {
    /// An axis that begins at zero.
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Linear }
    }

    /// A logarithmic axis.
    pub fn logarithmic(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Logarithmic }
    }

    /// An axis of names at equal distances: the values are 0, 1, 2 ..
    pub fn named(label: impl Into<String>, names: impl IntoIterator<Item = impl ToString>) -> Self {
        let names = names.into_iter().map(|name| name.to_string()).collect();
        Self { label: label.into(), scale: Scale::Named(names) }
    }

    /// The text for a value.
    fn name_of(&self, value: f64) -> String {
        match &self.scale {
            Scale::Named(names) => names.get(value as usize).cloned().unwrap_or_default(),
            Scale::Linear | Scale::Logarithmic => value.to_string(),
        }
    }
}

/// How values become places on an axis.
pub enum Scale {
    /// In proportion, from zero on.
    Linear,
    /// By their logarithms; values that have none are left out.
    Logarithmic,
    /// At equal distances, with these names.
    Named(Vec<String>),
}

/// A line of a chart.
pub struct Line {
    /// Its name.
    pub name: String,
    /// The number of its colour, below eight.
    pub colour: usize,
    /// Whether it is dashed.
    pub is_dashed: bool,
    /// Its points, from left to right.
    pub points: Vec<Point>,
    /// Places of events on the horizontal axis.
    pub marks: Vec<f64>,
}

/// A point of a line.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// Its place.
    pub x: f64,
    /// Its value.
    pub y: f64,
    /// The least and the greatest value, if there were several.
    pub spread: Option<[f64; 2]>,
}

impl Point {
    /// A point with one value.
    pub fn new(x: f64, y: f64) -> Self {
        Self { x, y, spread: None }
    }
}

/// Bars in groups.
pub struct Bars {
    /// Their subject, with the unit.
    pub title: String,
    /// The groups.
    pub groups: Vec<Group>,
    /// Whether bars of different groups are compared, too; otherwise each group has its own scale.
    pub share_scale: bool,
}

impl Bars {
    /// Groups that each have their own scale.
    pub fn grouped(title: impl Into<String>, groups: Vec<Group>) -> Self {
        Self { title: title.into(), groups, share_scale: false }
    }

    /// One group.
    pub fn single(title: impl Into<String>, bars: Vec<Bar>) -> Self {
        Self::grouped(title, vec![Group { name: String::new(), bars }])
    }
}

/// Bars that are compared with each other.
pub struct Group {
    /// Its name; may be empty.
    pub name: String,
    /// The bars.
    pub bars: Vec<Bar>,
}

/// A bar.
pub struct Bar {
    /// Its name.
    pub name: String,
    /// Its length.
    pub value: f64,
    /// The value as text.
    pub text: String,
}

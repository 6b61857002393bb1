//! The numbers of a page as comma-separated values, one a line: section, series, place, value, least and greatest
//! value.

use std::borrow::Cow;

use super::{Bars, Chart, Page, Section};
use crate::report::Grid;

pub(super) fn csv(page: &Page) -> String {
    let mut lines = Lines("section,series,x,value,low,high\n".to_owned());
    for (name, text) in page.facts.iter() {
        lines.add([&page.title, name, "", text, "", ""]);
    }
    for section in &page.sections {
        match section {
            Section::Chart(chart) => lines.chart(chart),
            Section::Bars(bars) => lines.bars(bars),
            Section::Table { title, grid } => lines.table(title, grid),
            // Sentences, which have their numbers from tables.
            Section::Text { .. } => {}
        }
    }
    lines.0
}

struct Lines(String);

impl Lines {
    fn add(&mut self, fields: [&str; 6]) {
        self.0 += &fields.map(quoted).join(",");
        self.0.push('\n');
    }

    fn chart(&mut self, chart: &Chart) {
        let Chart { title, x, mark, lines, .. } = chart;
        for line in lines {
            for point in &line.points {
                let [low, high] =
                    point.spread.map_or([const { String::new() }; 2], |ends| ends.map(|end| end.to_string()));
                self.add([title, &line.name, &x.name_of(point.x), &point.y.to_string(), &low, &high]);
            }
            for &place in &line.marks {
                self.add([title, &format!("{}, {mark}", line.name), &x.name_of(place), "", "", ""]);
            }
        }
    }

    fn bars(&mut self, bars: &Bars) {
        for group in &bars.groups {
            for bar in &group.bars {
                self.add([&bars.title, &bar.name, &group.name, &bar.value.to_string(), "", ""]);
            }
        }
    }

    fn table(&mut self, title: &str, grid: &Grid) {
        for row in grid.rows() {
            for (column, cell) in grid.headings().iter().zip(row).skip(1).filter(|(_, cell)| !cell.is_empty()) {
                self.add([title, column, row[0].trim(), &ungrouped(cell), "", ""]);
            }
        }
    }
}

/// A number without the separators between thousands; other texts as they are.
fn ungrouped(cell: &str) -> Cow<'_, str> {
    let digits = cell.replace(',', "");
    if digits.parse::<f64>().is_ok() { digits.into() } else { cell.into() }
}

/// A field, in quotation marks if it has to be.
fn quoted(field: &str) -> Cow<'_, str> {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\"")).into()
    } else {
        field.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lose_their_separators_and_texts_are_quoted() {
        assert_eq!(ungrouped("1,234,567"), "1234567");
        assert_eq!(ungrouped("1,5 and 7"), "1,5 and 7");
        assert_eq!(quoted("si-ssn"), "si-ssn");
        assert_eq!(quoted("a, \"b\""), "\"a, \"\"b\"\"\"");
    }
}

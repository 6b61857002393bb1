//! Columns below each other, with a header and a rule below it. Lines of a value that continue end in `+`.

use std::io::{self, Write};

use super::{
    Frame, Layout,
    width::{Line, lines, widest},
};
use crate::statements::Table;

pub(super) fn write(
    layout: &Layout,
    table: &Table,
    frame: &Frame,
    has_colors: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let header: Vec<_> = table.columns.iter().map(|column| lines(&column.name)).collect();
    let widths = widths(layout, table);
    if !layout.rows_only {
        if let Some(title) = &frame.title {
            let blanks = total(&widths).saturating_sub(widest(&lines(title))) / 2;
            writeln!(out, "{:blanks$}{title}", "")?;
        }
        write_header(&header, &widths, out)?;
    }
    for row in &table.rows {
        let cells: Vec<_> = row.iter().map(|value| lines(layout.text(value))).collect();
        write_row(table, row, (&cells, &widths), has_colors, out)?;
    }
    for line in frame.lines(table, layout) {
        writeln!(out, "{line}")?;
    }
    writeln!(out)
}

/// Returns the width of each column, without the blanks around it.
pub(super) fn widths(layout: &Layout, table: &Table) -> Vec<usize> {
    let mut widths: Vec<_> = table.columns.iter().map(|column| widest(&lines(&column.name))).collect();
    for row in &table.rows {
        for (width, value) in widths.iter_mut().zip(row) {
            *width = widest(&lines(layout.text(value))).max(*width);
        }
    }
    widths
}

/// Returns the width of a line with columns of these widths.
pub(super) fn total(widths: &[usize]) -> usize {
    (widths.iter().sum::<usize>() + 3 * widths.len()).saturating_sub(1)
}

fn write_header(header: &[Vec<Line>], widths: &[usize], out: &mut dyn Write) -> io::Result<()> {
    for at in 0..header.iter().map(Vec::len).max().unwrap_or(0) {
        for (index, (cell, &width)) in header.iter().zip(widths).enumerate() {
            let (text, taken) = cell.get(at).map_or(("", 0), |line| (&*line.text, line.width));
            let left = (width - taken) / 2;
            let right = width - taken - left;
            let mark = if at + 1 < cell.len() { '+' } else { ' ' };
            write!(out, "{} {:left$}{text}{:right$}{mark}", between(index), "", "")?;
        }
        writeln!(out)?;
    }
    let rules: Vec<_> = widths.iter().map(|width| "-".repeat(width + 2)).collect();
    writeln!(out, "{}", if rules.is_empty() { "--".to_owned() } else { rules.join("+") })
}

fn write_row(
    table: &Table,
    row: &[Option<String>],
    (cells, widths): (&[Vec<Line>], &[usize]),
    has_colors: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    for at in 0..cells.iter().map(Vec::len).max().unwrap_or(0) {
        for (index, (cell, &width)) in cells.iter().zip(widths).enumerate() {
            let (text, taken) = cell.get(at).map_or(("", 0), |line| (&*line.text, line.width));
            let blanks = width - taken;
            let text = Layout::shown(&row[index], text, has_colors);
            let goes_on = at + 1 < cell.len();
            let is_last = index + 1 == cells.len();
            write!(out, "{} ", between(index))?;
            if table.columns[index].is_number && at < cell.len() {
                write!(out, "{:blanks$}{text}", "")?;
            } else if goes_on || !is_last {
                write!(out, "{text}{:blanks$}", "")?;
            } else {
                write!(out, "{text}")?;
            }
            match (goes_on, is_last) {
                (true, _) => write!(out, "+")?,
                (false, true) => {}
                (false, false) => write!(out, " ")?,
            }
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Returns the separator in front of a column.
fn between(index: usize) -> &'static str {
    if index > 0 { "|" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{table, written};
    use super::*;

    #[test]
    fn columns_stand_under_each_other() {
        let table = table(&[("1", Some("green tea")), ("-20", None), ("300", Some("日\nb"))]);
        let wanted = " id  |   name    \n-----+-----------\n   1 | green tea\n -20 | \n 300 | 日       +\n     | b\n\
            (3 rows)\n\n";
        assert_eq!(written(&Layout::default(), &table, &Frame::COUNT), wanted);
        let layout = Layout { null: "∅".into(), rows_only: true, ..Layout::default() };
        let wanted = "   1 | green tea\n -20 | ∅\n 300 | 日       +\n     | b\n\n";
        assert_eq!(written(&layout, &table, &Frame::COUNT), wanted);
    }

    #[test]
    fn titles_and_footers_stand_around() {
        let frame = Frame { title: Some("All tea".into()), footers: Some(vec!["Indexes:".into()]) };
        let wanted = "   All tea\n id |  name  \n----+--------\n  1 | longer\nIndexes:\n\n";
        assert_eq!(written(&Layout::default(), &table(&[("1", Some("longer"))]), &frame), wanted);
        assert_eq!(written(&Layout::default(), &Table::default(), &Frame::COUNT), "--\n(0 rows)\n\n");
    }
}

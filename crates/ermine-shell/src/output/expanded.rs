//! A line for each value, below a line for each row.

use std::io::{self, Write};

use super::{
    Frame, Layout,
    width::{lines, widest},
};
use crate::statements::Table;

pub(super) fn write(
    layout: &Layout,
    table: &Table,
    frame: &Frame,
    has_colors: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    if let (Some(title), false) = (&frame.title, layout.rows_only) {
        writeln!(out, "{title}")?;
    }
    if table.rows.is_empty() {
        for line in frame.lines(table, layout) {
            writeln!(out, "{line}")?;
        }
        return writeln!(out);
    }
    let names: Vec<_> = table.columns.iter().map(|column| lines(&column.name)).collect();
    let name_width = names.iter().map(|name| widest(name)).max().unwrap_or(0);
    let values = table.rows.iter().flatten().map(|value| widest(&lines(layout.text(value))));
    let value_width = values.max().unwrap_or(0);
    for (number, row) in (1..).zip(&table.rows) {
        if !layout.rows_only {
            writeln!(out, "{}", rule(Some(number), name_width, value_width))?;
        } else if number > 1 {
            writeln!(out, "{}", rule(None, name_width, value_width))?;
        }
        for (name, stored) in names.iter().zip(row) {
            let value = lines(layout.text(stored));
            for at in 0..name.len().max(value.len()) {
                let (text, taken) = name.get(at).map_or(("", 0), |line| (&*line.text, line.width));
                let (blanks, mark) = (name_width - taken, if at + 1 < name.len() { '+' } else { ' ' });
                write!(out, "{text}{:blanks$}{mark}|", "")?;
                match value.get(at) {
                    Some(line) if at + 1 < value.len() => {
                        writeln!(out, " {}{:blanks$}+", line.text, "", blanks = value_width - line.width)?;
                    }
                    Some(line) => writeln!(out, " {}", Layout::shown(stored, &line.text, has_colors))?,
                    None => writeln!(out)?,
                }
            }
        }
    }
    if let (Some(footers), false) = (&frame.footers, layout.rows_only) {
        writeln!(out)?;
        for line in footers {
            writeln!(out, "{line}")?;
        }
    }
    writeln!(out)
}

/// Returns the line above a row: its number over the rule.
fn rule(number: Option<usize>, name_width: usize, value_width: usize) -> String {
    let head = number.map_or("-".to_owned(), |number| format!("-[ RECORD {number} ]"));
    let below = format!("{}+{}", "-".repeat(name_width + 1), "-".repeat(value_width + 1));
    match below.get(head.len()..) {
        Some(rest) => head + rest,
        None => head,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        Expanded,
        tests::{table, written},
    };
    use super::*;

    #[test]
    fn values_have_lines() {
        let layout = Layout { expanded: Expanded::On, ..Layout::default() };
        let both = table(&[("1", Some("green tea from far away")), ("2", Some("a\nb"))]);
        let wanted = "-[ RECORD 1 ]-----------------\nid   | 1\nname | green tea from far away\n\
             -[ RECORD 2 ]-----------------\nid   | 2\nname | a                      +\n     | b\n\n";
        assert_eq!(written(&layout, &both, &Frame::COUNT), wanted);
        assert_eq!(written(&layout, &table(&[("1", None)]), &Frame::COUNT), "-[ RECORD 1 ]\nid   | 1\nname | \n\n");
        assert_eq!(written(&layout, &table(&[]), &Frame::COUNT), "(0 rows)\n\n");
        let mut wrapped = table(&[("1", None)]);
        wrapped.columns[0].name = "i\nd".into();
        assert_eq!(written(&layout, &wrapped, &Frame::COUNT), "-[ RECORD 1 ]\ni   +| 1\nd    |\nname | \n\n");
        let layout = Layout { rows_only: true, ..layout };
        let two = table(&[("1", None), ("2", None)]);
        assert_eq!(written(&layout, &two, &Frame::COUNT), "id   | 1\nname | \n-----+--\nid   | 2\nname | \n\n");
    }
}

//! Forms for programs: values with `|` between them, and CSV.

use std::{
    borrow::Cow,
    io::{self, Write},
};

use super::{Expanded, Frame, Layout};
use crate::statements::Table;

pub(super) fn write_unaligned(layout: &Layout, table: &Table, frame: &Frame, out: &mut dyn Write) -> io::Result<()> {
    if let (Some(title), false) = (&frame.title, layout.rows_only) {
        writeln!(out, "{title}")?;
    }
    if layout.expanded == Expanded::On {
        for (number, row) in table.rows.iter().enumerate() {
            if number > 0 {
                writeln!(out)?;
            }
            for (column, value) in table.columns.iter().zip(row) {
                writeln!(out, "{}|{}", column.name, layout.text(value))?;
            }
        }
        return Ok(());
    }
    if !layout.rows_only {
        write_values(table.columns.iter().map(|column| (&*column.name).into()), '|', out)?;
    }
    for row in &table.rows {
        write_values(row.iter().map(|value| layout.text(value).into()), '|', out)?;
    }
    for line in frame.lines(table, layout) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

pub(super) fn write_csv(layout: &Layout, table: &Table, out: &mut dyn Write) -> io::Result<()> {
    if layout.expanded == Expanded::On {
        for row in &table.rows {
            for (column, value) in table.columns.iter().zip(row) {
                write_values([quoted(&column.name), quoted(layout.text(value))].into_iter(), ',', out)?;
            }
        }
        return Ok(());
    }
    if !layout.rows_only {
        write_values(table.columns.iter().map(|column| quoted(&column.name)), ',', out)?;
    }
    for row in &table.rows {
        write_values(row.iter().map(|value| quoted(layout.text(value))), ',', out)?;
    }
    Ok(())
}

fn write_values<'a>(values: impl Iterator<Item = Cow<'a, str>>, between: char, out: &mut dyn Write) -> io::Result<()> {
    for (index, value) in values.enumerate() {
        if index > 0 {
            write!(out, "{between}")?;
        }
        write!(out, "{value}")?;
    }
    writeln!(out)
}

/// Returns a value, in quotes if necessary; a line of `\.` ends the input of COPY.
fn quoted(text: &str) -> Cow<'_, str> {
    if text.contains([',', '"', '\n', '\r']) || text == "\\." {
        format!("\"{}\"", text.replace('"', "\"\"")).into()
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        Format,
        tests::{table, written},
    };
    use super::*;

    #[test]
    fn programs_can_read_it() {
        let rows = table(&[("1", Some("a,b")), ("2", Some("say \"a\"\nb")), ("3", None), ("4", Some("\\."))]);
        let csv = Layout { format: Format::Csv, ..Layout::default() };
        let wanted = "id,name\n1,\"a,b\"\n2,\"say \"\"a\"\"\nb\"\n3,\n4,\"\\.\"\n";
        assert_eq!(written(&csv, &rows, &Frame::COUNT), wanted);
        let two = table(&[("1", Some("a,b")), ("2", None)]);
        let unaligned = Layout { format: Format::Unaligned, null: "-".into(), ..Layout::default() };
        assert_eq!(written(&unaligned, &two, &Frame::COUNT), "id|name\n1|a,b\n2|-\n(2 rows)\n");
        let both = |layout: Layout| written(&Layout { expanded: Expanded::On, ..layout }, &two, &Frame::COUNT);
        assert_eq!(both(csv), "id,1\nname,\"a,b\"\nid,2\nname,\n");
        assert_eq!(both(unaligned), "id|1\nname|a,b\n\nid|2\nname|-\n");
    }
}

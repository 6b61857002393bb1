//! Rows in forms for people and programs, as psql writes them.

mod aligned;
mod expanded;
mod plain;
mod width;

use std::{
    io::{self, Write},
    str::FromStr,
};

use crate::statements::Table;

/// The way in which rows are written.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Layout {
    /// The form of the rows.
    pub format: Format,
    /// Whether each value has a line, instead of each row.
    pub is_expanded: bool,
    /// Whether only rows are written: no header, no count, no tags.
    pub rows_only: bool,
    /// The text for NULL.
    pub null: String,
}

/// The form that rows are written in.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Format {
    /// Columns under each other.
    #[default]
    Aligned,
    /// CSV as in RFC 4180.
    Csv,
    /// Values with `|` between them.
    Unaligned,
}

impl Format {
    /// Returns the format's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aligned => "aligned",
            Self::Csv => "csv",
            Self::Unaligned => "unaligned",
        }
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let formats = [Self::Aligned, Self::Csv, Self::Unaligned];
        formats.into_iter().find(|format| format.name() == name).ok_or_else(|| {
            let names = formats.map(Self::name).join(", ");
            format!("there is no format \"{name}\"; there are {names}")
        })
    }
}

/// The text around a table.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The line above the table.
    pub title: Option<String>,
    /// The lines below the table; `None` means the number of rows.
    pub footers: Option<Vec<String>>,
}

impl Frame {
    /// The frame of a query's result.
    pub const COUNT: Self = Self { title: None, footers: None };

    /// Returns the lines below a table.
    fn lines(&self, table: &Table, layout: &Layout) -> Vec<String> {
        match (&self.footers, table.rows.len()) {
            _ if layout.rows_only => Vec::new(),
            (Some(footers), _) => footers.clone(),
            (None, 1) => vec!["(1 row)".to_owned()],
            (None, count) => vec![format!("({count} rows)")],
        }
    }
}

impl Layout {
    /// Writes a table.
    pub fn write(&self, table: &Table, frame: &Frame, out: &mut dyn Write) -> io::Result<()> {
        match (self.format, self.is_expanded) {
            (Format::Aligned, false) => aligned::write(self, table, frame, out),
            (Format::Aligned, true) => expanded::write(self, table, frame, out),
            (Format::Csv, _) => plain::write_csv(self, table, out),
            (Format::Unaligned, _) => plain::write_unaligned(self, table, frame, out),
        }
    }

    /// Returns the text of a value.
    fn text<'a>(&'a self, value: &'a Option<String>) -> &'a str {
        value.as_deref().unwrap_or(&self.null)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statements::Column;

    /// Returns a table of two columns, a number and a text.
    pub(super) fn table(rows: &[(&str, Option<&str>)]) -> Table {
        let columns = vec![Column::new("id", 23), Column::new("name", 25)];
        let rows = rows.iter().map(|(id, name)| vec![Some((*id).to_owned()), name.map(str::to_owned)]).collect();
        Table { columns, rows }
    }

    pub(super) fn written(layout: &Layout, table: &Table, frame: &Frame) -> String {
        let mut out = Vec::new();
        layout.write(table, frame, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn formats_have_names() {
        assert_eq!("csv".parse(), Ok(Format::Csv));
        assert_eq!(
            "html".parse::<Format>().unwrap_err(),
            "there is no format \"html\"; there are aligned, csv, unaligned"
        );
    }
}

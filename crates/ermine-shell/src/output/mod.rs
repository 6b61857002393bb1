//! Rows as people and programs read them, as psql writes them.

mod aligned;
mod expanded;
mod plain;
mod width;

use std::{
    io::{self, Write},
    str::FromStr,
};

use crate::statements::Table;

/// How rows are written.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Layout {
    /// The form.
    pub format: Format,
    /// A line for each value instead of each row.
    pub is_expanded: bool,
    /// Rows only: no header, no count, no tags.
    pub rows_only: bool,
    /// What stands for NULL.
    pub null: String,
}

/// The form that rows are written in.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Format {
    /// Columns under each other.
    #[default]
    Aligned,
    /// RFC 4180.
    Csv,
    /// Values with `|` between them.
    Unaligned,
}

impl Format {
    /// Its name.
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

/// What is said around a table.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Above it.
    pub title: Option<String>,
    /// Below it; `None`: how many rows there are.
    pub footers: Option<Vec<String>>,
}

impl Frame {
    /// Of a query.
    pub const COUNT: Self = Self { title: None, footers: None };

    /// The lines below a table.
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

    /// The text of a value.
    fn text<'a>(&'a self, value: &'a Option<String>) -> &'a str {
        value.as_deref().unwrap_or(&self.null)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statements::Column;

    /// Two columns, a number and a text, of a few rows.
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

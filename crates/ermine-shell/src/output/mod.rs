//! Rows in forms for people and programs, as psql writes them.

mod aligned;
mod destination;
mod expanded;
mod pager;
mod plain;
pub mod style;
mod width;

use std::{
    borrow::Cow,
    io::{self, Write},
    str::FromStr,
};

use self::style::Style;
pub use self::{
    destination::Destination,
    pager::{Paged, Paging, command as pager, shows_colors as pager_shows_colors},
};
use crate::statements::Table;

/// The way in which rows are written.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Layout {
    /// The form of the rows.
    pub format: Format,
    /// Whether each value has a line, instead of each row.
    pub expanded: Expanded,
    /// The width that expands results with [`Expanded::Auto`]; `None` is the width of the terminal.
    pub columns: Option<usize>,
    /// Whether only rows are written: no header, no count, no tags.
    pub rows_only: bool,
    /// The text for NULL.
    pub null: String,
    /// When the pager shows results.
    pub paging: Paging,
}

/// Whether each value has a line.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Expanded {
    /// Each row has a line.
    #[default]
    Off,
    /// Each value has a line.
    On,
    /// Each value has a line where the rows are too wide, and are aligned.
    Auto,
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

impl Expanded {
    /// Returns the value's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::On => "on",
            Self::Auto => "auto",
        }
    }
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

/// A terminal that shows results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Screen {
    /// Its width in characters.
    pub columns: usize,
    /// Its height in lines.
    pub rows: usize,
    /// Whether it is to show colors.
    pub has_colors: bool,
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
    /// Writes a table; `screen` is the terminal that shows it, if one does.
    pub fn write(&self, table: &Table, frame: &Frame, screen: Option<Screen>, out: &mut dyn Write) -> io::Result<()> {
        let has_colors = screen.is_some_and(|screen| screen.has_colors);
        match (self.format, self.expanded) {
            (Format::Aligned, Expanded::Auto) if self.is_too_wide(table, screen) => {
                expanded::write(self, table, frame, has_colors, out)
            }
            (Format::Aligned, Expanded::On) => expanded::write(self, table, frame, has_colors, out),
            (Format::Aligned, _) => aligned::write(self, table, frame, has_colors, out),
            (Format::Csv, _) => plain::write_csv(self, table, out),
            (Format::Unaligned, _) => plain::write_unaligned(self, table, frame, out),
        }
    }

    /// Whether the aligned rows would not fit into their width. Every row fits where no width is known.
    fn is_too_wide(&self, table: &Table, screen: Option<Screen>) -> bool {
        let columns = self.columns.or(screen.map(|screen| screen.columns));
        columns.is_some_and(|columns| aligned::total(&aligned::widths(self, table)) > columns)
    }

    /// Returns a part of the text of a value, as a terminal shows it.
    fn shown<'a>(value: &Option<String>, part: &'a str, has_colors: bool) -> Cow<'a, str> {
        match value {
            None if has_colors => Style::Dim.paint(part, true).into(),
            _ => part.into(),
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
        layout.write(table, frame, None, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn wide_rows_are_expanded() {
        // Blanks around both columns, and a bar: 5 + 1 + 7.
        let wide = table(&[("100", Some("Assam"))]);
        let is_expanded = |layout: &Layout, columns: Option<usize>| {
            let mut out = Vec::new();
            let screen = columns.map(|columns| Screen { columns, rows: 24, has_colors: false });
            layout.write(&wide, &Frame::COUNT, screen, &mut out).unwrap();
            out.starts_with(b"-[ RECORD") || out.starts_with(b"id|100\n")
        };
        let auto = Layout { expanded: Expanded::Auto, ..Layout::default() };
        assert!(is_expanded(&auto, Some(12)) && !is_expanded(&auto, Some(13)) && !is_expanded(&auto, None));
        let told = Layout { columns: Some(12), ..auto.clone() };
        assert!(is_expanded(&told, Some(100)) && is_expanded(&told, None));
        assert!(!is_expanded(&Layout { format: Format::Unaligned, ..told }, None));
        assert!(!is_expanded(&Layout::default(), Some(12)));
    }

    #[test]
    fn nulls_are_dim() {
        let rows = table(&[("1", None)]);
        let screen = Some(Screen { columns: 80, rows: 24, has_colors: true });
        let layout = Layout { null: "-".into(), rows_only: true, ..Layout::default() };
        let shown = |layout: &Layout, screen| {
            let mut out = Vec::new();
            layout.write(&rows, &Frame::COUNT, screen, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(shown(&layout, screen), "  1 | \x1b[2m-\x1b[0m\n\n");
        assert_eq!(shown(&layout, None), "  1 | -\n\n");
        let layout = Layout { expanded: Expanded::On, ..layout };
        assert_eq!(shown(&layout, screen), "id   | 1\nname | \x1b[2m-\x1b[0m\n\n");
        let csv = Layout { format: Format::Csv, ..layout };
        assert_eq!(shown(&csv, screen), "id,1\nname,-\n");
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

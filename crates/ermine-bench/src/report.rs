//! Numbers as text and as JSON: the common parts of all reports.

use std::{
    fmt, fs,
    io::{self, Write},
    path::Path,
};

use serde::Serialize;

use crate::{
    calibrate::Calibration,
    error::{Error, Result},
    machine::Machine,
    standard_output::ended,
};

/// The origin of a result; printed with each.
#[derive(Clone, Debug, Serialize)]
pub struct Setting {
    /// The machine and the build.
    pub machine: Machine,
    /// The machine's speed just before the run, if that was measured.
    pub calibration: Option<Calibration>,
}

impl Setting {
    /// Describes the machine and measures its speed.
    pub fn here() -> Self {
        Self { machine: Machine::here(), calibration: Some(Calibration::measure()) }
    }

    /// Only describes the machine: for runs that are no measurement.
    pub fn uncalibrated() -> Self {
        Self { machine: Machine::here(), calibration: None }
    }

    /// The machine, and its speed if that was measured.
    pub fn facts(&self) -> Facts {
        let facts = Facts::default().with("machine", &self.machine);
        self.calibration.iter().fold(facts, |facts, calibration| facts.with("calibration", calibration))
    }
}

/// The first lines of a report: short texts with names.
#[derive(Clone, Debug, Default)]
pub struct Facts(Vec<(&'static str, String)>);

impl Facts {
    /// Adds a fact.
    pub fn with(mut self, name: &'static str, text: impl ToString) -> Self {
        self.0.push((name, text.to_string()));
        self
    }

    /// The names and the texts.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, text)| (*name, text.as_str()))
    }
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<_> = self.iter().map(|(name, text)| format!("{name:<12} {text}")).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.facts().fmt(f)
    }
}

/// Serializes a scheme by its name.
pub(crate) fn scheme_name<S: serde::Serializer>(scheme: &ermine::Scheme, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(scheme.name())
}

/// Serializes schemes by their names.
pub(crate) fn scheme_names<S: serde::Serializer>(schemes: &[ermine::Scheme], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(schemes.iter().map(|scheme| scheme.name()))
}

/// Joins names or other short texts with commas.
pub(crate) fn listed<T: fmt::Display>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

/// Serializes a duration in seconds.
pub(crate) fn seconds<S: serde::Serializer>(time: &std::time::Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(time.as_secs_f64())
}

/// Memory figures of a benchmark.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Memory {
    /// Resident memory of the process.
    pub resident_bytes: u64,
    /// Memory that the engine has taken for versions.
    pub version_bytes: u64,
    /// Superseded versions that are not freed yet.
    pub garbage_versions: u64,
}

impl Memory {
    /// The current figures.
    pub fn now(db: &ermine::Database) -> Self {
        let ermine::Statistics { version_bytes, garbage_versions, .. } = db.statistics();
        Self { resident_bytes: crate::machine::resident_bytes(), version_bytes, garbage_versions }
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (resident, versions) = (mib(self.resident_bytes), mib(self.version_bytes));
        write!(f, "{resident} resident, {versions} of versions, {} garbage versions", grouped(self.garbage_versions))
    }
}

/// Writes a report as JSON; `-` is the standard output.
pub fn write_json(report: &impl Serialize, path: &Path) -> Result<()> {
    write_file(path, |out| {
        serde_json::to_writer_pretty(&mut *out, report)?;
        writeln!(out)
    })
}

/// Writes a file; `-` is the standard output.
pub(crate) fn write_file(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let to = |out: &mut dyn Write| write(out).and_then(|()| out.flush());
    if path == Path::new("-") {
        return ended(to(&mut io::stdout().lock()));
    }
    let written = fs::File::create(path).and_then(|file| to(&mut io::BufWriter::new(file)));
    written.map_err(|source| Error::File { path: path.to_owned(), source })
}

/// A number with a separator between thousands.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes in MiB.
pub fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// A table: the first column to the left, the others to the right.
#[derive(Default)]
pub struct Grid {
    /// The headings, then the rows.
    rows: Vec<Vec<String>>,
}

impl Grid {
    /// A table with these headings.
    pub fn new(headings: &[&str]) -> Self {
        Self { rows: vec![headings.iter().map(|&heading| heading.to_owned()).collect()] }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The headings.
    pub fn headings(&self) -> &[String] {
        self.rows.first().map_or(&[], Vec::as_slice)
    }

    /// The rows below the headings.
    pub fn rows(&self) -> &[Vec<String>] {
        self.rows.get(1..).unwrap_or_default()
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width =
            |column: usize| self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
        let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
        for (number, row) in self.rows.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                if column == 0 {
                    write!(f, "{cell:<width$}")?;
                } else {
                    write!(f, "  {cell:>width$}")?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_thousands() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn aligns_columns() {
        let mut grid = Grid::new(&["name", "n"]);
        grid.row(["a".into(), "100".into()]);
        assert_eq!(grid.to_string(), "name    n\na     100");
    }
}

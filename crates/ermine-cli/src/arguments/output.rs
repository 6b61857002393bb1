//! Where a report is written to, beside the text on the standard output.

use std::path::{Path, PathBuf};

use clap::Args;

/// The files of a report.
#[derive(Clone, Debug, Args)]
pub struct Output {
    /// Write the whole report as JSON; - is the standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the report as one page with charts, which loads nothing else; - is the standard output
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the numbers of that page as comma-separated values: section, series, x, value, low, high; - is the
    /// standard output
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
}

impl Output {
    /// Whether the standard output is one of the files.
    pub fn is_stdout(&self) -> bool {
        [&self.json, &self.html, &self.csv].into_iter().flatten().any(|path| path == Path::new("-"))
    }
}

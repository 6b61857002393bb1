//! Reports: as text to the standard output, and to the files that the arguments name. Where one of these is the
//! standard output, the text is left out.

use std::fmt;

use ermine_bench::{Result, page::Report, report::write_json, standard_output::Stdout};

use crate::arguments::Output;

/// Shows a report and writes its files.
pub fn show(output: &Output, report: &(impl fmt::Display + Report)) -> Result<()> {
    if !output.is_stdout() {
        writeln!(Stdout, "\n{report}")?;
    }
    output.json.as_deref().map_or(Ok(()), |path| write_json(report, path))?;
    output.html.as_deref().map_or(Ok(()), |path| report.page().write_html(path))?;
    output.csv.as_deref().map_or(Ok(()), |path| report.page().write_csv(path))
}

//! The output of the simulator's verbs: figures as tables and files.

use std::{fs, path::Path};

use ermine_bench::{
    Error, Result,
    report::{self, Grid},
    standard_output::Stdout,
};
use ermine_sim::{Curve, Drawing, Panel, Usage};

use crate::{arguments::FigureFiles, sim_page::figure_page};

/// Prints a figure, and writes it to the files that were asked for.
pub fn show(drawing: &Drawing, files: &FigureFiles) -> Result<()> {
    if !is_stdout(files.json.as_deref()) && !is_stdout(files.html.as_deref()) {
        print_figure(drawing)?;
    }
    let write =
        |path: &Path, text: String| fs::write(path, text).map_err(|source| Error::File { path: path.into(), source });
    files.csv.as_deref().map_or(Ok(()), |path| write(path, drawing.csv()))?;
    files.svg.as_deref().map_or(Ok(()), |path| write(path, drawing.svg()))?;
    files.json.as_deref().map_or(Ok(()), |path| report::write_json(drawing, path))?;
    files.html.as_deref().map_or(Ok(()), |path| figure_page(drawing).write_html(path))
}

/// The error of a request that cannot work.
pub fn usage(Usage(why): Usage) -> Error {
    Error::Usage(why)
}

/// Whether a file is the standard output.
pub fn is_stdout(path: Option<&Path>) -> bool {
    path == Some(Path::new("-"))
}

/// Prints the means, and for each curve the greatest distance of a value from the mean.
fn print_figure(drawing: &Drawing) -> Result<()> {
    let Drawing { paper, number, title, x_label, y_label, transactions, seeds, panels, .. } = drawing;
    writeln!(Stdout, "{paper} figure {number}: {title}. {y_label} by {x_label}")?;
    writeln!(
        Stdout,
        "means of {seeds} simulations of {transactions} transactions; spread: how far single ones are from them"
    )?;
    for Panel { title, curves } in panels {
        let names = curves.iter().map(|curve| curve.name.as_str());
        let mut grid = Grid::new(&[""].into_iter().chain(names).collect::<Vec<_>>());
        for (row, point) in curves[0].points.iter().enumerate() {
            let means = curves.iter().map(|curve| format!("{:.2}", curve.points[row].mean));
            grid.row([point.x.to_string()].into_iter().chain(means));
        }
        let spread = |curve: &Curve| {
            let of_points = curve.points.iter().map(|point| (point.max - point.mean).max(point.mean - point.min));
            format!("{:.2}", of_points.fold(0.0, f64::max))
        };
        grid.row(["spread".to_owned()].into_iter().chain(curves.iter().map(spread)));
        writeln!(Stdout, "\n{title}\n{grid}")?;
    }
    Ok(())
}

//! `ermine check`: reads a history, judges it, and reports the findings.
//!
//! Progress goes to the standard error, the report to the standard output; with `--json -` only JSON goes there.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, BufWriter, Read, Write},
    path::Path,
};

use ermine_bench::{Error, Result, report, standard_output::Stdout};
use ermine_check::{
    FileError, History, Report,
    elle::{self, ElleHistory, Model},
    file,
};
use indicatif::ProgressBar;

use crate::{
    arguments::{Check, Format},
    progress,
};

/// A history of either kind.
enum Either {
    Ermine(History),
    Elle(ElleHistory),
}

/// Judges the history in a file; returns whether the expected level holds.
pub fn check(arguments: &Check) -> Result<bool> {
    let bar = progress::bar();
    let history = read(arguments, &bar)?;
    if let Some(path) = &arguments.export {
        export(&history, path)?;
    }
    let report = judge(&history, &bar);
    bar.finish_and_clear();
    if arguments.json.as_deref() != Some(Path::new("-")) {
        writeln!(Stdout, "{report}")?;
    }
    arguments.json.as_deref().map_or(Ok(()), |path| report::write_json(&report, path))?;
    let level = arguments.expect.level();
    if report.verdict(level).is_none() {
        let path = arguments.file.display();
        return Err(Error::Usage(format!(
            "{path}: {level} cannot be judged: of some transactions the history does not say when they began and in \
             which process; record one with moments, or expect a weaker level"
        )));
    }
    let holds = report.holds(level);
    eprintln!("expected {level}: {}", if holds { "PASS" } else { "FAIL" });
    Ok(holds)
}

fn read(arguments: &Check, bar: &ProgressBar) -> Result<Either> {
    let path = &arguments.file;
    let refused = |what: &dyn std::fmt::Display| Error::Usage(format!("{}: {what}", path.display()));
    bar.set_message("reading");
    let mut input: Box<dyn BufRead> = if path == Path::new("-") {
        Box::new(BufReader::new(io::stdin()))
    } else {
        let file = File::open(path).map_err(|error| refused(&error))?;
        bar.set_length(file.metadata().map_err(|error| refused(&error))?.len());
        Box::new(BufReader::with_capacity(1 << 20, file))
    };
    let format = match arguments.format {
        Format::Auto if is_ermine(&mut *input).map_err(|error| refused(&error))? => Format::Ermine,
        known => known,
    };
    let model = match format {
        Format::Ermine => {
            let history = file::read(&mut *input, &mut |bytes| bar.set_position(bytes));
            return history.map(Either::Ermine).map_err(|error| refused(&error));
        }
        Format::Auto => None,
        Format::ElleListAppend => Some(Model::ListAppend),
        Format::ElleRwRegister => Some(Model::Register),
    };
    let mut text = String::new();
    input.read_to_string(&mut text).map_err(|error| refused(&error))?;
    bar.set_length(text.len() as u64);
    let history: Result<_, FileError> = elle::read(&text, model, &mut |bytes| bar.set_position(bytes));
    history.map(Either::Elle).map_err(|error| refused(&error))
}

/// Whether a file begins like a history of Ermine.
fn is_ermine(input: &mut dyn BufRead) -> io::Result<bool> {
    let start = input.fill_buf()?;
    let line = &start[..start.iter().position(|&byte| byte == b'\n').unwrap_or(start.len())];
    Ok(String::from_utf8_lossy(line).contains("\"ermine-history\""))
}

fn judge(history: &Either, bar: &ProgressBar) -> Report {
    let mut show = |of: ermine_check::Progress| progress::show(bar, of.step, of.done, of.total);
    match history {
        Either::Ermine(history) => ermine_check::judge(history, &mut show),
        Either::Elle(history) => elle::judge(history, &mut show),
    }
}

/// Writes a history in Elle's form.
fn export(history: &Either, path: &Path) -> Result<()> {
    let failed = |source| Error::File { path: path.into(), source };
    let converted;
    let history = match history {
        Either::Elle(history) => history,
        Either::Ermine(history) => {
            let (registers, left_out) = elle::export(history);
            eprintln!("exported as rw-register; {left_out} ranges and unexplained reads are left out");
            converted = registers;
            &converted
        }
    };
    let mut output = BufWriter::new(File::create(path).map_err(failed)?);
    let written = match path.extension().is_some_and(|extension| extension == "json" || extension == "jsonl") {
        true => elle::write_json(history, &mut output),
        false => elle::write_edn(history, &mut output),
    };
    written.and_then(|()| output.flush()).map_err(failed)
}

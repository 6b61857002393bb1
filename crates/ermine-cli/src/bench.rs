//! `ermine bench`: progress while a workload runs, and its report.
//!
//! Progress goes to the standard error, the report to the standard output; with `--json -` only JSON goes there.

use std::path::Path;

use ermine::Recovery;
use ermine_bench::{
    Error, Result, batch, churn, commit_latency, index, micro, read_mostly, recovery,
    report::{self, Setting},
    sibench, stock, tpcc, write_skew,
};
use indicatif::ProgressBar;

use crate::{
    arguments::{
        Batch, Churn, CommitLatency, Index, Micro, ReadMostly, Recovery as RecoveryArguments, Run, Sibench, Stock,
        WriteSkew,
    },
    progress,
    watch::Watch,
};

/// Runs a TPC-C-like mix; returns whether all conditions held.
pub fn tpcc(mut options: tpcc::Options, run: &Run) -> Result<bool> {
    options.check()?;
    let watch = Watch::new(run);
    options.run_options.observer = watch.observer();
    // A small scale measures nothing.
    let setting = if options.scale == tpcc::Scale::FULL { calibrated() } else { Setting::uncalibrated() };
    let summary = tpcc::drive(&options, setting, &loading(), &mut |event| match event {
        tpcc::Event::Opened(found) => eprintln!("{}", opened(found)),
        tpcc::Event::Loaded(time, memory) => eprintln!("loaded in {:.1} s, {memory}", time.as_secs_f64()),
        tpcc::Event::Checked(moment, time, verdicts) => {
            let when = match moment {
                tpcc::Moment::AfterLoad => "load",
                tpcc::Moment::AfterRun => "run",
                tpcc::Moment::AfterOpening => "opening",
            };
            let verdict = if tpcc::all_hold(verdicts) { "PASS" } else { "FAIL" };
            eprintln!("conditions after the {when} checked in {:.1} s: {verdict}", time.as_secs_f64());
        }
        tpcc::Event::Second(tick) => eprintln!("{}", tick.line()),
    })?;
    show(run, &summary)?;
    Ok(watch.judge(options.scheme)? && summary.holds())
}

/// Measures single operations.
pub fn micro(arguments: &Micro) -> Result<bool> {
    let mut options = arguments.options();
    options.check()?;
    let watch = Watch::new(&arguments.run);
    options.run_options.observer = watch.observer();
    let setting = calibrated();
    let summary = micro::drive(&options, setting, &loading(), &mut |event| match event {
        micro::Event::Loaded(load) => {
            eprintln!("loaded in {:.1} s, {} resident", load.seconds, report::mib(load.resident_bytes));
        }
        micro::Event::Begins(operation) => eprintln!("{}", operation.name()),
        micro::Event::Second(tick) => eprintln!("{}", tick.line()),
    })?;
    show(&arguments.run, &summary)?;
    watch.judge(options.scheme)
}

/// Updates a fixed number of rows; returns whether memory stayed flat.
pub fn churn(arguments: &Churn) -> Result<bool> {
    let mut options = arguments.options();
    options.check()?;
    let watch = Watch::new(&arguments.run);
    options.observer = watch.observer();
    let setting = calibrated();
    let summary = churn::drive(&options, setting, &loading(), &mut |sample| eprintln!("{sample}"))?;
    show(&arguments.run, &summary)?;
    Ok(watch.judge(options.scheme)? && summary.holds())
}

/// Runs random reads, then writes; returns whether all values found were committed.
pub fn sibench(arguments: &Sibench) -> Result<bool> {
    let mut options = arguments.options();
    let watch = Watch::new(&arguments.run);
    options.run_options.observer = watch.observer();
    options.check()?;
    let summary = sibench::drive(&options, calibrated(), &mut |tick| eprintln!("{}", tick.line()))?;
    show(&arguments.run, &summary)?;
    Ok(watch.judge(options.scheme)? && summary.holds())
}

/// Overdraws pairs of accounts; returns whether the constraint held as far as promised.
pub fn write_skew(arguments: &WriteSkew) -> Result<bool> {
    let mut options = arguments.options();
    let watch = Watch::new(&arguments.run);
    options.run_options.observer = watch.observer();
    options.check()?;
    let summary = write_skew::drive(&options, calibrated(), &mut |tick| eprintln!("{}", tick.line()))?;
    show(&arguments.run, &summary)?;
    Ok(watch.judge(options.scheme)? && summary.holds())
}

/// Closes batches; returns whether reports stayed right as far as promised.
pub fn batch(arguments: &Batch) -> Result<bool> {
    let mut options = arguments.options();
    let watch = Watch::new(&arguments.run);
    options.run_options.observer = watch.observer();
    options.check()?;
    let summary = batch::drive(&options, calibrated(), &mut |tick| eprintln!("{}", tick.line()))?;
    show(&arguments.run, &summary)?;
    Ok(watch.judge(options.scheme)? && summary.holds())
}

/// Compares schemes on many reads and few writes; returns whether no write was lost.
pub fn stock(arguments: &Stock) -> Result<bool> {
    let mut options = arguments.options();
    let watch = Watch::new(&arguments.run);
    options.run_options.observer = watch.observer();
    options.check()?;
    let summary = stock::drive(&options, calibrated(), &mut |point, turn| eprintln!("{point}  {turn}"))?;
    show(&arguments.run, &summary)?;
    Ok(watch.judge(options.schemes[0])? && summary.holds())
}

/// Compares schemes on long scans beside short writers; returns whether no write was lost.
pub fn read_mostly(arguments: &ReadMostly) -> Result<bool> {
    let mut options = arguments.options();
    let watch = Watch::new(&arguments.run);
    options.run_options.observer = watch.observer();
    options.check()?;
    let summary = read_mostly::drive(&options, calibrated(), &mut |turn| eprintln!("{turn}"))?;
    show(&arguments.run, &summary)?;
    Ok(watch.judge(options.schemes[0])? && summary.holds())
}

/// Measures each kind of index alone.
pub fn index(arguments: &Index) -> Result<bool> {
    let options = arguments.options();
    options.check()?;
    let summary = index::drive(&options, calibrated(), &mut |line| eprintln!("{line}"))?;
    show_as(arguments.json.as_deref(), &summary)?;
    Ok(true)
}

/// Measures durable commits.
pub fn commit_latency(arguments: &CommitLatency) -> Result<bool> {
    let options = arguments.options();
    options.check()?;
    let summary = commit_latency::drive(&options, calibrated(), &mut |point| eprintln!("{point}"))?;
    show_as(arguments.json.as_deref(), &summary)?;
    Ok(true)
}

/// Measures openings after a process has died.
pub fn recovery(arguments: &RecoveryArguments) -> Result<bool> {
    let options = arguments.options();
    options.check()?;
    if arguments.build {
        let bar = progress::bar().with_message("building");
        let db = recovery::build(&options, &|done, of| {
            bar.set_length(of);
            bar.set_position(done);
        })?;
        // The database is not closed.
        std::mem::forget(db);
        std::process::abort();
    }
    let directory = options.directory.display();
    if std::fs::read_dir(&options.directory).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Error::Usage(format!(
            "{directory} is not empty: name a directory that is, or that is not there yet"
        )));
    }
    let here = |source| Error::File { path: "this program".into(), source };
    let mut builder = std::process::Command::new(std::env::current_exe().map_err(here)?);
    let died = builder.args(std::env::args_os().skip(1)).arg("--build").status().map_err(here)?;
    if died.code().is_some() {
        return Err(Error::Workload("the database could not be built".into()));
    }
    let summary = recovery::measure(&options, calibrated())?;
    show_as(arguments.json.as_deref(), &summary)?;
    Ok(true)
}

/// Describes the recovery of a directory.
fn opened(found: &Recovery) -> String {
    let Recovery { tables, rows, transactions, log_bytes, cut_at, took, .. } = found;
    let tail = cut_at.map_or_else(String::new, |at| format!(", cut off at {at}"));
    let log = report::mib(*log_bytes);
    format!(
        "opened in {:.2} s: {tables} tables, {rows} rows, {transactions} transactions in {log} of log{tail}",
        took.as_secs_f64()
    )
}

fn calibrated() -> Setting {
    eprintln!("calibrating");
    Setting::here()
}

fn loading() -> ProgressBar {
    progress::bar().with_message("loading")
}

fn show<S: std::fmt::Display + serde::Serialize>(run: &Run, summary: &S) -> Result<()> {
    show_as(run.json.as_deref(), summary)
}

fn show_as<S: std::fmt::Display + serde::Serialize>(json: Option<&Path>, summary: &S) -> Result<()> {
    if json != Some(Path::new("-")) {
        println!("\n{summary}");
    }
    json.map_or(Ok(()), |path| report::write_json(summary, path))
}

//! `ermine bench`: progress while a workload runs, to the standard error, and its report.

use ermine::Recovery;
use ermine_bench::{
    Error, Result, batch, brokerage, changes, churn, commit_latency, compare, index, micro, read_mostly, recovery,
    report::{self, Setting},
    sibench, stock, tpcc, write_skew,
};
use indicatif::ProgressBar;

use crate::{
    arguments::{
        Batch, Brokerage, Changes, Churn, CommitLatency, Index, Micro, ReadMostly, Recovery as RecoveryArguments, Run,
        Sibench, Standby, Stock, WriteSkew,
    },
    output::show,
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
    show(&run.output, &summary)?;
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
    show(&arguments.run.output, &summary)?;
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
    show(&arguments.run.output, &summary)?;
    Ok(watch.judge(options.scheme)? && summary.holds())
}

/// Runs a brokerage; returns whether everything promised held.
pub fn brokerage(arguments: &Brokerage) -> Result<bool> {
    let mut options = arguments.options();
    let watch = Watch::new(&arguments.run);
    options.run_options.observer = watch.observer();
    options.check()?;
    let setting = if options.scale == brokerage::Scale::FULL { calibrated() } else { Setting::uncalibrated() };
    let summary = brokerage::drive(&options, setting, &loading(), &mut |event| match event {
        brokerage::Event::Loaded(scheme, time) => eprintln!("{scheme}: loaded in {:.1} s", time.as_secs_f64()),
        brokerage::Event::Checked(scheme, checks) => {
            let verdict = if checks.iter().all(|check| check.passes()) { "PASS" } else { "FAIL" };
            eprintln!("{scheme}: conditions: {verdict}");
        }
        brokerage::Event::Turn(turn) => eprintln!("{turn}"),
    })?;
    show(&arguments.run.output, &summary)?;
    Ok(watch.judge(options.schemes[0])? && summary.holds())
}

/// Compares schemes on a workload; returns whether everything promised held.
pub fn compare<W: compare::Workload>(mut options: compare::Options<W>, run: &Run) -> Result<bool> {
    let watch = Watch::new(run);
    options.run_options.observer = watch.observer();
    options.check()?;
    let summary = compare::drive(&options, calibrated(), &loading(), &mut |event| match event {
        compare::Event::Loaded(scheme, time) => eprintln!("{scheme}: loaded in {:.1} s", time.as_secs_f64()),
        compare::Event::Turn(inputs, turn) => eprintln!("{inputs}{}{turn}", if inputs.is_empty() { "" } else { "  " }),
        compare::Event::Checked(scheme, checks) => {
            let verdict = if checks.iter().all(|check| check.passes()) { "PASS" } else { "FAIL" };
            eprintln!("{scheme}: conditions: {verdict}");
        }
    })?;
    show(&run.output, &summary)?;
    Ok(watch.judge(options.schemes[0])? && summary.holds())
}

/// Runs random reads, then writes; returns whether all values found were committed.
pub fn sibench(arguments: &Sibench) -> Result<bool> {
    let mut options = arguments.options();
    let watch = Watch::new(&arguments.run);
    options.run_options.observer = watch.observer();
    options.check()?;
    let summary = sibench::drive(&options, calibrated(), &mut |tick| eprintln!("{}", tick.line()))?;
    show(&arguments.run.output, &summary)?;
    Ok(watch.judge(options.scheme)? && summary.holds())
}

/// Overdraws pairs of accounts; returns whether the constraint held as far as promised.
pub fn write_skew(arguments: &WriteSkew) -> Result<bool> {
    let mut options = arguments.options();
    let watch = Watch::new(&arguments.run);
    options.run_options.observer = watch.observer();
    options.check()?;
    let summary = write_skew::drive(&options, calibrated(), &mut |tick| eprintln!("{}", tick.line()))?;
    show(&arguments.run.output, &summary)?;
    Ok(watch.judge(options.scheme)? && summary.holds())
}

/// Closes batches; returns whether reports stayed right as far as promised.
pub fn batch(arguments: &Batch) -> Result<bool> {
    let mut options = arguments.options();
    let watch = Watch::new(&arguments.run);
    options.run_options.observer = watch.observer();
    options.check()?;
    let summary = batch::drive(&options, calibrated(), &mut |tick| eprintln!("{}", tick.line()))?;
    show(&arguments.run.output, &summary)?;
    Ok(watch.judge(options.scheme)? && summary.holds())
}

/// Compares schemes on many reads and few writes; returns whether no write was lost.
pub fn stock(arguments: &Stock) -> Result<bool> {
    let mut options = arguments.options();
    let watch = Watch::new(&arguments.run);
    options.run_options.observer = watch.observer();
    options.check()?;
    let summary = stock::drive(&options, calibrated(), &mut |point, turn| eprintln!("{point}  {turn}"))?;
    show(&arguments.run.output, &summary)?;
    Ok(watch.judge(options.schemes[0])? && summary.holds())
}

/// Compares schemes on long scans beside short writers; returns whether no write was lost.
pub fn read_mostly(arguments: &ReadMostly) -> Result<bool> {
    let mut options = arguments.options();
    let watch = Watch::new(&arguments.run);
    options.run_options.observer = watch.observer();
    options.check()?;
    let summary = read_mostly::drive(&options, calibrated(), &mut |turn| eprintln!("{turn}"))?;
    show(&arguments.run.output, &summary)?;
    Ok(watch.judge(options.schemes[0])? && summary.holds())
}

/// Measures each kind of index alone.
pub fn index(arguments: &Index) -> Result<bool> {
    let options = arguments.options();
    options.check()?;
    let summary = index::drive(&options, calibrated(), &mut |line| eprintln!("{line}"))?;
    show(&arguments.output, &summary)?;
    Ok(true)
}

/// Measures durable commits.
pub fn commit_latency(arguments: &CommitLatency) -> Result<bool> {
    let options = arguments.options();
    options.check()?;
    let summary = commit_latency::drive(&options, calibrated(), &mut |point| eprintln!("{point}"))?;
    show(&arguments.output, &summary)?;
    Ok(true)
}

/// Measures the reading of changes.
pub fn changes(arguments: &Changes) -> Result<bool> {
    let options = arguments.options();
    options.check()?;
    let summary = changes::drive(&options, calibrated(), &mut |round| eprintln!("{round}"))?;
    show(&arguments.output, &summary)?;
    Ok(true)
}

/// Measures a standby beside its primary; returns whether all conditions held.
pub fn standby(arguments: &Standby) -> Result<bool> {
    let options = arguments.options();
    options.check()?;
    let summary = tpcc::drive_standby(&options, calibrated(), &loading())?;
    show(&arguments.output, &summary)?;
    Ok(summary.holds())
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
    show(&arguments.output, &summary)?;
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

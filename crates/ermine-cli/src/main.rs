//! The `ermine` command: few verbs; each reports its result, and exits with 1 when a check failed, with 2 when the
//! request cannot work.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout)]

mod arguments;
mod backup;
mod bench;
mod check;
mod inspect;
mod inspect_checkpoint;
mod inspect_output;
mod inspect_parallel;
mod output;
mod packaging;
mod papers;
mod progress;
mod record;
mod restore;
mod sim;
mod sim_cores;
mod sim_output;
mod sim_page;
mod verify;
mod watch;

use std::process::ExitCode;

use clap::Parser;

use crate::arguments::{Command, Ermine, Inspect, Sim, Workload};

fn main() -> ExitCode {
    let Ermine { command } = Ermine::parse();
    let done = match command {
        Command::Bench { workload } => match *workload {
            Workload::Tpcc(arguments) => arguments.options().and_then(|options| bench::tpcc(options, &arguments.run)),
            Workload::CreditCheck(arguments) => {
                arguments.options().and_then(|options| bench::tpcc(options, &arguments.tpcc.run))
            }
            Workload::Brokerage(arguments) => bench::brokerage(&arguments),
            Workload::SmallBank(arguments) => bench::compare(arguments.options(), &arguments.compare.run),
            Workload::Tatp(arguments) => bench::compare(arguments.options(), &arguments.compare.run),
            Workload::Ycsb(arguments) => bench::compare(arguments.options(), &arguments.compare.run),
            Workload::Sibench(arguments) => bench::sibench(&arguments),
            Workload::WriteSkew(arguments) => bench::write_skew(&arguments),
            Workload::Batch(arguments) => bench::batch(&arguments),
            Workload::Stock(arguments) => bench::stock(&arguments),
            Workload::ReadMostly(arguments) => bench::read_mostly(&arguments),
            Workload::Micro(arguments) => bench::micro(&arguments),
            Workload::Index(arguments) => bench::index(&arguments),
            Workload::CommitLatency(arguments) => bench::commit_latency(&arguments),
            Workload::Changes(arguments) => bench::changes(&arguments),
            Workload::Standby(arguments) => bench::standby(&arguments),
            Workload::Recovery(arguments) => bench::recovery(&arguments),
            Workload::Churn(arguments) => bench::churn(&arguments),
            Workload::Papers(arguments) => papers::papers(&arguments),
        },
        Command::Check(arguments) => check::check(&arguments),
        Command::Sim { what: Sim::Run(arguments) } => sim::run(&arguments),
        Command::Sim { what: Sim::Figure(arguments) } => sim::figure(&arguments),
        Command::Sim { what: Sim::Cores(arguments) } => sim_cores::cores(&arguments),
        Command::Sim { what: Sim::HtmSize(arguments) } => sim::htm_size(&arguments),
        Command::Sim { what: Sim::HtmDuration(arguments) } => sim::htm_duration(&arguments),
        Command::Sim { what: Sim::HtmRestarts(arguments) } => sim::htm_restarts(&arguments),
        Command::Backup(arguments) => backup::backup(&arguments),
        Command::Restore(arguments) => restore::restore(&arguments),
        Command::Verify(arguments) => verify::verify(&arguments),
        Command::Inspect { what: Inspect::Log(arguments) } => inspect::log(&arguments),
        Command::Inspect { what: Inspect::Checkpoint(arguments) } => inspect_checkpoint::inspect(&arguments),
        Command::Completions { shell } => packaging::completions(shell),
        Command::Man { dir } => packaging::man(&dir),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(CHECK_FAILED),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(if matches!(error, ermine_bench::Error::Usage(_)) { USAGE } else { CHECK_FAILED })
        }
    }
}

/// A check failed, or the run broke off.
const CHECK_FAILED: u8 = 1;
/// Exit status of a request that cannot work; clap uses the same.
const USAGE: u8 = 2;

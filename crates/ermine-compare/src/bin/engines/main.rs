//! Ermine beside other engines: point reads, scans, and transactions that write, over one table in memory or in a
//! directory.
//!
//! Every engine gives the strongest isolation that it offers, and no commit waits for a device. Every measurement is a
//! process of its own; engines take turns within each round, so that other load on the machine affects all alike. Each
//! value contains its key, which every read checks, and a number that read-modify-writes increment: at the end the
//! numbers must add up to the increments that were committed.
//!
//! - [`engine`]: the engines, behind one trait. Those that take minutes to build are features of this crate.
//! - [`work`]: the works and their measurement; [`skew`]: the check for write skew.
//! - [`table`]: the results of all rounds.

mod engine;
#[path = "../../report.rs"]
mod report;
mod skew;
mod table;
mod value;
mod work;

use std::{error::Error, fs, path::PathBuf, process::Command};

use clap::{Parser, ValueEnum};
use ermine_bench::{calibrate::Calibration, report::Setting};

use crate::{
    engine::{Engine, Group, Kind, Place},
    report::Output,
    table::Table,
    work::{Outcome, Size, Work},
};

/// The works that are measured by default.
const WORK: [&str; 8] = ["get", "get-zipf", "get-batch", "scan", "mixed", "mixed-zipf", "rmw", "rmw-zipf"];

/// Compares engines; prints thousands of transactions a second.
#[derive(Clone, Parser)]
struct Options {
    #[command(flatten)]
    size: Size,
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Names of engines: ermine, ermine-si, surrealmx, lmdb, btreemap, those that the program was built with (features
    /// rocksdb, redb, fjall, sqlite; RocksDB also as rocksdb-pessimistic), and those of servers.
    #[arg(long, value_delimiter = ',', default_values = ["ermine", "surrealmx", "lmdb", "btreemap"])]
    engines: Vec<String>,
    /// A server that speaks PostgreSQL's protocol: its name here, and how to connect to it, such as
    /// `postgres=host=127.0.0.1 user=bench`. Its table `rows` is dropped. Several times for several servers.
    #[arg(long, value_name = "NAME=ADDRESS", value_parser = server)]
    server: Vec<(String, String)>,
    #[arg(long, value_delimiter = ',', default_values = WORK)]
    work: Vec<Work>,
    /// A directory for the data of engines, which are loaded once. Without it everything is in memory, and loaded for
    /// each measurement.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Memory of an engine in MiB, the system's cache of its files included; engines with a cache of their own are told
    /// to take half of it, Ermine three quarters.
    #[arg(long, value_name = "MIB", requires = "dir")]
    memory_limit: Option<u64>,
    /// The directory of a control group, which limits the memory of all engines but servers; processes that measure
    /// join it.
    #[arg(long, value_name = "DIR")]
    cgroup: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
    /// Loads the rows of the first engine in this process, or measures the first work.
    #[arg(long, hide = true)]
    one: Option<One>,
}

/// What one process does.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum One {
    Load,
    Measure,
    /// Both.
    All,
}

/// An engine as it is named on the command line.
#[derive(Clone)]
enum Contender {
    Embedded(Kind),
    Server { address: String },
}

fn server(text: &str) -> Result<(String, String), String> {
    let (name, address) = text.split_once('=').ok_or("a name, `=`, and an address are expected")?;
    Ok((name.to_owned(), address.to_owned()))
}

impl Options {
    fn contender(&self, name: &str) -> Result<Contender, String> {
        if let Some((_, address)) = self.server.iter().find(|(server, _)| server == name) {
            return Ok(Contender::Server { address: address.clone() });
        }
        let kind = Kind::from_str(name, false);
        kind.map(Contender::Embedded).map_err(|_| format!("no engine {name}: build with its feature, or give --server"))
    }

    fn directory(&self, name: &str) -> Option<PathBuf> {
        self.dir.as_ref().map(|dir| dir.join(name))
    }
}

/// Does what a process of a measurement does.
fn one(options: &Options, one: One) -> Result<Outcome, Box<dyn Error>> {
    let name = &options.engines[0];
    let engine: Box<dyn Engine> = match options.contender(name)? {
        Contender::Server { address } => engine::connect(&address),
        Contender::Embedded(kind) => {
            if let Some(group) = &options.cgroup {
                Group(group).join()?;
            }
            let memory = options.memory_limit.map(|mib| mib << 20);
            kind.open(&Place { directory: options.directory(name), memory })
        }
    };
    let loaded = (one != One::Measure).then(|| work::load(&*engine, &options.size));
    Ok(match loaded {
        Some(loaded) if one == One::Load => loaded,
        _ => work::measure(&*engine, options.work[0], &options.size),
    })
}

/// Does one thing in a process of its own. An engine that fails is shown as such, and the others go on.
fn in_a_process(options: &Options, name: &str, work: Work) -> Option<Outcome> {
    let one = match (work, &options.dir) {
        (Work::Load, _) => "load",
        (_, Some(_)) => "measure",
        (_, None) => "all",
    };
    if let Some(group) = &options.cgroup {
        Group(group).empty();
    }
    let mut child = Command::new(std::env::current_exe().expect("this program has a path"));
    child.args(["--one", one, "--engines", name]).args(options.size.arguments());
    if work != Work::Load {
        child.args(["--work", &work.name()]);
    }
    for (name, address) in &options.server {
        child.args(["--server", &format!("{name}={address}")]);
    }
    for (name, path) in [("--dir", &options.dir), ("--cgroup", &options.cgroup)] {
        child.args(path.iter().flat_map(|path| [name.as_ref(), path.as_os_str()]));
    }
    child.args(options.memory_limit.iter().flat_map(|mib| ["--memory-limit".to_owned(), mib.to_string()]));
    let child = child.output().expect("this program starts");
    let line = String::from_utf8_lossy(&child.stdout);
    let numbers: Vec<f64> = line.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    if let (true, &[rate, retries, broken]) = (child.status.success(), &numbers[..]) {
        return Some(Outcome { rate, retries, broken });
    }
    eprintln!("{name}, {}: {}\n{}", work.name(), child.status, String::from_utf8_lossy(&child.stderr));
    None
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut options = Options::parse();
    if let Some(task) = options.one {
        let Outcome { rate, retries, broken } = one(&options, task)?;
        println!("{rate} {retries} {broken}");
        return Ok(());
    }
    for name in &options.engines {
        options.contender(name)?;
        if let Some(directory) = options.directory(name).filter(|directory| directory.exists()) {
            return Err(format!("{} exists: remove it, or give another --dir", directory.display()).into());
        }
    }
    if options.dir.is_some() {
        options.work.insert(0, Work::Load);
    }
    let setting = Setting::here();
    let mut table = Table::new(&options.engines, &options.work);
    for round in 1..=options.rounds {
        eprintln!("round {round} of {}: {}", options.rounds, Calibration::measure());
        for (at, &work) in options.work.iter().enumerate() {
            for (engine, name) in options.engines.iter().enumerate() {
                if work == Work::Load && round > 1 || table.has_no_rows(engine) {
                    continue;
                }
                table.add(engine, at, in_a_process(&options, name, work));
            }
        }
    }
    for directory in options.engines.iter().filter_map(|name| options.directory(name)).filter(|path| path.exists()) {
        fs::remove_dir_all(directory)?;
    }
    let Size { rows, value_bytes, threads, seconds, theta, .. } = &options.size;
    let mut size = format!(
        "{rows} rows of {value_bytes} bytes, {threads} threads, {seconds} s each, {} rounds, zipf {theta}",
        options.rounds
    );
    if let Some(mib) = options.memory_limit {
        size += &format!(", {mib} MiB of memory");
    }
    println!("{size}; medians, thousands a second (retries)\n{table}");
    options.output.write(&table.comparison(setting, size))
}

//! The figures that the engine makes, in small: what they show depends on the machine.

use std::{env, process};

use ermine_bench::{
    Result, brokerage, index, micro,
    page::{Axis, Chart, Point},
    report::Setting,
    rounds::{Comparison, SchemeSummary, Spread},
    stock, tpcc,
};

use super::figure::{Charts, Claim, Figure, parsed, promised};
use crate::{
    arguments::{Command, Workload},
    progress,
};

pub(super) const FIGURES: [Figure; 8] = [
    Figure {
        paper: "ERMIA",
        number: 1,
        title: "Writes against reads",
        shows: "The more a transaction writes of what others read, the more lightweight optimistic concurrency control \
            loses to snapshot isolation.",
        claims: &[
            Claim {
                text: "`silo` commits less than `si` with 10 % writes",
                holds: |of| of.at("silo", 10.0) < of.at("si", 10.0),
            },
            Claim {
                text: "Its distance to `si` is larger with 10 % writes than with 0.01 %",
                holds: |of| of.at("silo", 10.0) / of.at("si", 10.0) < of.at("silo", 0.01) / of.at("si", 0.01),
            },
        ],
        why: "",
        commands: &["ermine bench stock --scheme si,si-ssn,silo --reads 1000 --write-share 0.01,0.1,1,10 --threads 4 \
            --seconds 2 --warmup 0.5 --rounds 3"],
        draw: writes,
    },
    Figure {
        paper: "ERMIA",
        number: 5,
        title: "Asset evaluations beside trades",
        shows: "With 24 threads Silo commits 65 % as many asset evaluations as snapshot isolation when they read 1 % of \
            the accounts, and fewer the more they read; all commits fall to 59 % at 60 %. ERMIA-SSI does not collapse. \
            (SSN's figures 11 and 12 show the same up to 60 threads.)",
        claims: &[
            Claim {
                text: "`silo` commits fewer evaluations than `si` at 60 %",
                holds: |of| of.at("silo, evaluations", 60.0) < 0.95,
            },
            Claim {
                text: "`silo` commits fewer evaluations, over those of `si`, the more they read",
                holds: |of| of.points("silo, evaluations").windows(2).all(|two| two[1].y < two[0].y),
            },
            Claim {
                text: "`si-ssn` does not collapse: at 60 % it keeps 80 % of what it has at 1 %, over `si`",
                holds: |of| of.at("si-ssn, evaluations", 60.0) >= 0.8 * of.at("si-ssn, evaluations", 1.0),
            },
            Claim {
                text: "All commits of `si-ssn` have caught up with those of `silo` at 20 %, within a tenth",
                holds: |of| of.at("si-ssn, all", 20.0) >= 0.9 * of.at("silo, all", 20.0),
            },
            Claim {
                text: "All commits of `silo` fall to 59 % of those of `si` at 60 %",
                holds: |of| of.at("silo, all", 60.0) <= 0.65,
            },
        ],
        why: "Few cores make few trades while an evaluation runs, so that few evaluations meet one: the collapse of all \
            commits needs more of them ([certifiers](benchmarks/certifiers.md)).",
        commands: &[
            "ermine bench brokerage --mix hybrid --group {1,20,60} --scheme si,si-ssn,silo --threads 4 --retry \
            no --customers 1000 --initial-trades 100 --seconds 6 --warmup 1 --rounds 3",
        ],
        draw: evaluations,
    },
    Figure {
        paper: "ERMIA",
        number: 7,
        title: "TPC-C",
        shows: "All scale. On fixed partitions ERMIA falls behind Silo by 10 % with SI and 20 % with SSI. (In SSN's \
            figure 10, too, optimistic concurrency control is first, then SI, then SI+SSN and SSI.)",
        claims: &[
            Claim { text: "Each gains at least 1.4 from a second thread", holds: |of| scales(of, &SEVERAL, 1.4) },
            Claim {
                text: "`si-ssn` is at 80 % of `silo` or more, with two threads",
                holds: |of| of.at("si-ssn", 2.0) >= 0.8 * of.at("silo", 2.0),
            },
            Claim {
                text: "`si` is at 85 % of `silo` or more, with two threads",
                holds: |of| of.at("si", 2.0) >= 0.85 * of.at("silo", 2.0),
            },
            Claim {
                text: "`silo` commits most, with two threads",
                holds: |of| SEVERAL.iter().all(|line| of.at("silo", 2.0) >= of.at(line, 2.0)),
            },
        ],
        why: "All schemes share one engine here, with the same index and driver. Why `si` is ahead of `silo` was not \
            profiled.",
        commands: &["ermine bench tpcc --scheme {silo,si,si-ssn,si-ssi} --threads {1,2} --seconds 2 --warmup 0.5"],
        draw: |figure| tpcc(figure, "threads"),
    },
    Figure {
        paper: "HTM",
        number: 11,
        title: "Synchronized lookups in an index",
        shows: "A radix tree with optimistic or elided latches scales as the unsynchronized one does; with latch \
            coupling it does not.",
        claims: &[
            Claim {
                text: "The optimistic radix tree is at 80 % of the unsynchronized one, with two threads",
                holds: |of| of.at("art, optimistic", 2.0) >= 0.8 * of.at("art, unsynchronized", 2.0),
            },
            Claim {
                text: "It is faster than latch coupling, with two threads",
                holds: |of| of.at("art, optimistic", 2.0) > of.at("art, lock coupling", 2.0),
            },
        ],
        why: "Contention on the latches near the root grows with the threads, and two are few.",
        commands: &["ermine bench index --keys 1000000 --rounds 3 --seconds 0.3 --threads 1,2"],
        draw: lookups,
    },
    Figure {
        paper: "HTM",
        number: 12,
        title: "TPC-C under single-version schemes",
        shows: "Serial execution and partitioned execution are fastest with one thread. HTM and 2PL gain from further \
            threads, serial execution gains nothing, and locking costs much: 39 % of serial execution with one thread.",
        claims: &[
            Claim {
                text: "Serial execution gains less than 1.2 from a second thread",
                holds: |of| of.at("serial", 2.0) < 1.2 * of.at("serial", 1.0),
            },
            Claim { text: "`tso` and `2pl-wdl` gain at least 1.4", holds: |of| scales(of, &["tso", "2pl-wdl"], 1.4) },
            Claim {
                text: "2PL has less than half of serial execution with one thread",
                holds: |of| of.at("2pl-wdl", 1.0) < 0.5 * of.at("serial", 1.0),
            },
        ],
        why: "There is no lock manager here, only words in the records: a lock costs what a timestamp costs.",
        commands: &[
            "ermine bench tpcc --scheme {serial,partitioned,2pl-wdl,tso} --threads {1,2} --seconds 2 --warmup 0.5",
        ],
        draw: |figure| tpcc(figure, "threads"),
    },
    Figure {
        paper: "HTM",
        number: 13,
        title: "Transactions that cross partitions",
        shows: "Partitioned execution falls to the level of serial execution as more transactions cross partitions; \
            the others stay. (STO's figures 1 and 4 show the same.)",
        claims: &[
            Claim {
                text: "Partitioned execution loses a quarter or more up to 100 % remote lines",
                holds: |of| of.at("partitioned", 100.0) <= 0.75 * of.at("partitioned", 0.0),
            },
            Claim {
                text: "There it is within 40 % of serial execution",
                holds: |of| (of.at("partitioned", 100.0) / of.at("serial", 100.0) - 1.0).abs() < 0.4,
            },
            Claim {
                text: "`sto`, `tso` and `2pl-waitdie` keep 70 %",
                holds: |of| {
                    ["sto", "tso", "2pl-waitdie"].iter().all(|line| of.at(line, 100.0) >= 0.7 * of.at(line, 0.0))
                },
            },
        ],
        why: "",
        commands: &[
            "ermine bench tpcc --scheme {partitioned,serial,2pl-waitdie,sto,tso} --threads 2 --remote-percent \
            {0,10,50,100} --seconds 2 --warmup 0.5",
        ],
        draw: |figure| tpcc(figure, "order lines of another warehouse (%)"),
    },
    Figure {
        paper: "STO",
        number: 2,
        title: "Reads and writes of a scheme",
        shows: "Against no concurrency control, reading under STO costs up to a factor of two, because a read writes a \
            timestamp; writing costs little.",
        claims: &[
            Claim {
                text: "Ten reads under `sto` cost less than twice those of `serial`",
                holds: |of| of.at("sto", 0.0) > 0.5 * of.at("serial", 0.0),
            },
            Claim {
                text: "Ten read-modify-writes under `sto` are at 70 % of `serial` or more",
                holds: |of| of.at("sto", 10.0) >= 0.7 * of.at("serial", 10.0),
            },
        ],
        why: "",
        commands: &[
            "ermine bench micro --operation get10 --scheme {serial,sto,tso,silo,si-ssn} --threads 1 --records 1000000 \
                --seconds 1 --warmup 0.5",
            "ermine bench micro --operation rmw10 --scheme {serial,sto,tso,silo,si-ssn} --threads 1 --records 1000000 \
                --seconds 1 --warmup 0.5",
        ],
        draw: operations,
    },
    Figure {
        paper: "SiloR",
        number: 1,
        title: "Logging and checkpoints beside transactions",
        shows: "Over time, with a checkpoint always running, SiloR keeps 81 % of the throughput in memory on a mix of \
            70 % reads and 30 % writes.",
        claims: &[
            Claim {
                text: "With log and checkpoints, `silo` keeps 75 % of the throughput in memory",
                holds: |of| of.mean("silo, durable later") >= 0.75 * of.mean("silo, in memory"),
            },
            Claim {
                text: "No second falls below half of the mean",
                holds: |of| {
                    let mean = of.mean("silo, durable later");
                    of.everywhere("silo, durable later", |_, y| y >= 0.5 * mean)
                },
            },
        ],
        why: "The loggers and the checkpoint need processor time of their own, which the paper takes from 4 of 32 cores.",
        commands: &[
            "ermine bench micro --operation mixed --scheme silo --threads 2 --records 1000000 --seconds 15 --warmup 1",
            "ermine bench micro --operation mixed --scheme silo --threads 2 --records 1000000 --seconds 15 --warmup 1 \
                --durability async --checkpoint-after 256 --dir DIR",
        ],
        draw: over_time,
    },
];

const SEVERAL: [&str; 4] = ["silo", "si", "si-ssn", "si-ssi"];

/// Whether each line gains this factor from the first to the second place.
fn scales(of: &Charts<'_>, lines: &[&str], factor: f64) -> bool {
    lines.iter().all(|line| of.at(line, 2.0) >= factor * of.at(line, 1.0))
}

fn workload(command: &str) -> Result<Workload> {
    match parsed(command)? {
        Command::Bench { workload } => Ok(*workload),
        _ => unreachable!("the command is one of bench"),
    }
}

/// Replaces each list in braces by each of its values in turn; returns the values with the command.
pub(super) fn expanded(command: &str) -> Vec<(Vec<String>, String)> {
    let Some((before, rest)) = command.split_once('{') else { return vec![(Vec::new(), command.to_owned())] };
    let (list, after) = rest.split_once('}').expect("a list ends");
    let mut all = Vec::new();
    for value in list.split(',') {
        for (mut values, rest) in expanded(after) {
            values.insert(0, value.to_owned());
            all.push((values, format!("{before}{value}{rest}")));
        }
    }
    all
}

/// Transactions per second by scheme and by the other list of the command.
fn tpcc(figure: &Figure, x: &str) -> Result<Vec<Chart>> {
    let mut chart = Chart::new("TPC-C-like", Axis::linear(x), Axis::linear("thousand transactions per second"));
    for (values, command) in expanded(figure.commands[0]) {
        let Workload::Tpcc(arguments) = workload(&command)? else { unreachable!("the command is that workload") };
        let summary = tpcc::drive(&arguments.options()?, Setting::uncalibrated(), &progress::bar(), &mut |_| ())?;
        promised(summary.holds(), || format!("{command}: a condition of TPC-C does not hold"))?;
        let place = values[1].parse().expect("the second list has numbers");
        point(&mut chart, &values[0], Point::new(place, summary.total.per_second / 1e3));
    }
    Ok(vec![chart])
}

/// Adds a point to the line of a name.
fn point(chart: &mut Chart, name: &str, point: Point) {
    if chart.lines.last().is_none_or(|line| line.name != name) {
        chart.line(name, Vec::new());
    }
    chart.lines.last_mut().expect("there is one now").points.push(point);
}

/// Commits per second, by the share of writes.
fn writes(figure: &Figure) -> Result<Vec<Chart>> {
    let Workload::Stock(arguments) = workload(figure.commands[0])? else {
        unreachable!("the command is that workload")
    };
    let options = arguments.options();
    let summary = stock::drive(&options, Setting::uncalibrated(), &mut |_, _| ())?;
    kept(&summary, figure)?;
    let mut chart = Chart::new(
        "1000 reads per transaction",
        Axis::logarithmic("share of the records read that are written (%)"),
        Axis::linear("commits per second"),
    );
    for number in 0..options.schemes.len() {
        let places = options.write_percents.iter().zip(&summary.points);
        let points = places.map(|(&x, at)| Point::new(x, at.schemes[number].kinds[0].per_second)).collect();
        chart.line(options.schemes[number].name(), points);
    }
    Ok(vec![chart])
}

fn kept<O>(summary: &Comparison<O>, figure: &Figure) -> Result<()> {
    promised(summary.holds(), || format!("{}: a condition does not hold", figure.commands[0]))
}

/// Commits over those of `si` in the same round, by the share of the accounts that an asset evaluation reads.
fn evaluations(figure: &Figure) -> Result<Vec<Chart>> {
    let axes = || (Axis::linear("accounts read by an asset evaluation (%)"), Axis::linear("commits, over si"));
    let mut charts = ["All transactions", "Asset evaluations"].map(|title| Chart::new(title, axes().0, axes().1));
    for (values, command) in expanded(figure.commands[0]) {
        let Workload::Brokerage(arguments) = workload(&command)? else { unreachable!("the command is that workload") };
        let summary = brokerage::drive(&arguments.options(), Setting::uncalibrated(), &progress::bar(), &mut |_| ())?;
        kept(&summary, figure)?;
        let place = values[0].parse().expect("the list has numbers");
        for (number, scheme) in summary.points[0].schemes.iter().enumerate() {
            for (chart, (kind, suffix)) in charts.iter_mut().zip([("all", "all"), ("Asset-Eval", "evaluations")]) {
                let name = format!("{}, {suffix}", scheme.scheme);
                if chart.lines.len() <= number {
                    chart.line(name, Vec::new());
                }
                chart.lines[number].points.extend(ratio(scheme, kind).map(|Spread { median, lowest, highest }| {
                    Point { x: place, y: median, spread: Some([lowest, highest]) }
                }));
            }
        }
    }
    Ok(charts.into())
}

/// Returns the commits of a kind of transaction over those of `si`.
fn ratio(of: &SchemeSummary, kind: &str) -> Option<Spread> {
    let place = of.kinds.iter().position(|one| one.name.eq_ignore_ascii_case(kind))?;
    of.ratio_to_si[place]
}

/// Lookups per second by threads.
fn lookups(figure: &Figure) -> Result<Vec<Chart>> {
    let Workload::Index(arguments) = workload(figure.commands[0])? else {
        unreachable!("the command is that workload")
    };
    let summary = index::drive(&arguments.options(), Setting::uncalibrated(), &mut |_| ())?;
    let mut chart =
        Chart::new("Sparse keys of four bytes", Axis::linear("threads"), Axis::linear("million lookups per second"));
    for line in &summary.lines {
        let point =
            |rate: &index::Rate| Point { x: rate.threads as f64, y: rate.median, spread: Some([rate.low, rate.high]) };
        chart.line(line.name, line.rates.iter().map(point).collect());
    }
    Ok(vec![chart])
}

/// Transactions per second by the writes of a transaction.
fn operations(figure: &Figure) -> Result<Vec<Chart>> {
    let mut chart = Chart::new(
        "Ten operations on a million rows",
        Axis::linear("writes"),
        Axis::linear("thousand transactions per second"),
    );
    let all = figure.commands.iter().zip([0.0, 10.0]).map(|(command, writes)| (expanded(command), writes));
    let mut runs: Vec<_> = all.flat_map(|(runs, writes)| runs.into_iter().map(move |run| (run, writes))).collect();
    runs.sort_by(|((one, _), _), ((other, _), _)| one.cmp(other));
    for ((values, command), writes) in runs {
        let rate = measured(&command)?.results[0].per_second;
        point(&mut chart, &values[0], Point::new(writes, rate / 1e3));
    }
    Ok(vec![chart])
}

fn measured(command: &str) -> Result<micro::Summary> {
    let Workload::Micro(arguments) = workload(command)? else { unreachable!("the command is that workload") };
    micro::drive(&arguments.options(), Setting::uncalibrated(), &progress::bar(), &mut |_| ())
}

/// Operations per second over time, with checkpoints.
fn over_time(figure: &Figure) -> Result<Vec<Chart>> {
    let directory = env::temp_dir().join(format!("ermine-papers-{}", process::id()));
    let mut chart = Chart {
        mark: "checkpoint",
        ..Chart::new("70 % reads, 30 % writes", Axis::linear("seconds"), Axis::linear("thousand operations per second"))
    };
    for (name, command) in ["silo, in memory", "silo, durable later"].into_iter().zip(figure.commands) {
        let command = command.replace("DIR", &directory.display().to_string());
        let summary = measured(&command);
        // Nothing is in it that is needed.
        let _ = std::fs::remove_dir_all(&directory);
        let summary = summary?;
        let series = &summary.results[0].series.0;
        chart.line(name, series.iter().map(|one| Point::new(one.seconds, one.completed_per_second / 1e3)).collect());
        let marks = series.iter().filter(|one| one.checkpoints > 0).map(|one| one.seconds).collect();
        chart.lines.last_mut().expect("it was added").marks = marks;
    }
    Ok(vec![chart])
}

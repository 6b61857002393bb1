//! The figures that the simulator makes: they depend on no machine.

use ermine_bench::{
    Result,
    page::{Axis, Chart, Point},
};
use ermine_sim::{CoresOptions, Drawing, draw, draw_durations, draw_restarts, draw_sizes, simulate_cores};

use super::figure::{Claim, Figure, parsed, promised};
use crate::{
    arguments::{Command, Sim},
    record,
    sim_output::usage,
    sim_page::charts,
};

pub(super) const FIGURES: [Figure; 8] = [
    Figure {
        paper: "SSN",
        number: 6,
        title: "Contention",
        shows: "SSN over RC and RCL completes most of the serializable schemes at every size of the table. Schemes on \
            SI complete less, because of temporal skew. RCL+SSN is at 90 % down to 400 records.",
        claims: &[
            Claim {
                text: "RC+SSN or RCL+SSN completes most of 2PL, SSI, SI+SSN and these, at every size",
                holds: |of| {
                    of.everywhere("2PL", |x, pessimistic| {
                        let best = of.at("RC+SSN", x).max(of.at("RCL+SSN", x));
                        best >= pessimistic && best >= of.at("SSI", x) && best >= of.at("SI+SSN", x)
                    })
                },
            },
            Claim {
                text: "RC completes more than 90 % from 100 records on",
                holds: |of| of.everywhere("RC", |x, y| x < 100.0 || y > 90.0),
            },
            Claim {
                text: "SI+SSN completes at least as much as SSI, at every size",
                holds: |of| of.everywhere("SI+SSN", |x, y| y >= of.at("SSI", x) - 0.5),
            },
            Claim { text: "RCL+SSN completes 90 % at 400 records", holds: |of| of.at("RCL+SSN", 400.0) >= 89.0 },
        ],
        why: "The paper gives neither the time of an access nor the interval of submissions. With half as many \
            transactions in flight (`--load 0.5`) RCL+SSN completes 91 % at 400 records; here it reaches that at twice \
            the size.",
        commands: &["ermine sim figure 6"],
        draw: figure,
    },
    Figure {
        paper: "SSN",
        number: 7,
        title: "Share of writes",
        shows: "With more writes, the schemes that read the latest version converge, at nearly twice the completion of \
            those on SI, which converge, too.",
        claims: &[
            Claim {
                text: "With writes only, 2PL, RCL+SSN and RC+SSN are within 5 % of each other",
                holds: |of| {
                    let rates = ["2PL", "RCL+SSN", "RC+SSN"].map(|line| of.at(line, 100.0));
                    rates.iter().all(|rate| (rate / rates[0] - 1.0).abs() < 0.05)
                },
            },
            Claim {
                text: "They complete 1.8 to 2.2 times as much as SI, SSI and SI+SSN",
                holds: |of| {
                    let ratios = ["SI", "SSI", "SI+SSN"].map(|line| of.at("RC+SSN", 100.0) / of.at(line, 100.0));
                    ratios.iter().all(|ratio| (1.8..2.2).contains(ratio))
                },
            },
        ],
        why: "",
        commands: &["ermine sim figure 7"],
        draw: figure,
    },
    Figure {
        paper: "SSN",
        number: 8,
        title: "Readers beside writers",
        shows: "Under 2PL the abort rates of readers and writers rise towards 100 %. RC+SSN and RCL+SSN abort 53 to \
            55 % of the readers, whatever their number. SI's schemes commit nearly all readers.",
        claims: &[
            Claim {
                text: "SSI and SI+SSN commit 99.9 % of the readers",
                holds: |of| ["SSI read", "SI+SSN read"].iter().all(|line| of.everywhere(line, |_, y| y < 0.1)),
            },
            Claim {
                text: "2PL aborts more of the readers the more there are",
                holds: |of| of.points("2PL read").windows(2).all(|two| two[1].y >= two[0].y - 1.0),
            },
            Claim {
                text: "RC+SSN aborts 45 to 65 % of the readers",
                holds: |of| of.everywhere("RC+SSN read", |_, y| (45.0..65.0).contains(&y)),
            },
        ],
        why: "The paper does not say how often its writers submit. With writers that always run, RC+SSN aborts all \
            readers; with one every 120 accesses it aborts 56 % ([simulation](simulation.md)).",
        commands: &["ermine sim figure 8"],
        draw: figure,
    },
    Figure {
        paper: "SSN",
        number: 9,
        title: "Safe snapshots",
        shows: "Aborts because of safe snapshots fall as the inverse of the interval between them, and are below 1 % \
            once the interval reaches the latency of a transaction.",
        claims: &[
            Claim {
                text: "SI+SSN, short transactions: from the interval 64 to 1024 they fall by a factor of 8 to 24 (16 is \
                    the inverse)",
                holds: |of| (8.0..24.0).contains(&(of.at("SI+SSN S", 64.0) / of.at("SI+SSN S", 1024.0))),
            },
            Claim {
                text: "SI+SSN, short transactions: below 1 % at the interval 16",
                holds: |of| of.at("SI+SSN S", 16.0) < 1.0,
            },
        ],
        why: "Here they are below 1 % from six to ten times the latency on: again more transactions are in flight than \
            in the paper.",
        commands: &["ermine sim figure 9"],
        draw: figure,
    },
    Figure {
        paper: "HTM",
        number: 5,
        title: "Aborts by size",
        shows: "The abort probability rises quickly above 128 random cache lines, a quarter of the L1 cache, because of \
            its associativity.",
        claims: &[
            Claim { text: "8 ways: below 5 % at 128 lines", holds: |of| of.at("8 ways", 128.0) < 5.0 },
            Claim { text: "8 ways: above 50 % at 256 lines", holds: |of| of.at("8 ways", 256.0) > 50.0 },
            Claim { text: "Without sets nothing aborts at 256 lines", holds: |of| of.at("512 ways", 256.0) < 0.1 },
        ],
        why: "",
        commands: &["ermine sim htm-size"],
        draw: |figure| match simulator(figure, 0)? {
            Sim::HtmSize(of) => {
                draw_sizes(of.cache, &of.ways, &of.drawn.samples()).map(|of| charts(&of)).map_err(usage)
            }
            _ => unreachable!("the command is that verb"),
        },
    },
    Figure {
        paper: "HTM",
        number: 6,
        title: "Aborts by duration",
        shows: "Transactions of more than a million cycles will likely be aborted, by interrupts.",
        claims: &[Claim {
            text: "More than half abort at a million cycles, fewer than 20 % at 100,000",
            holds: |of| of.at("independent", 1e6) > 50.0 && of.at("independent", 1e5) < 20.0,
        }],
        why: "The interval of interrupts is taken from the paper's sentence, so this is no test of the model.",
        commands: &["ermine sim htm-duration"],
        draw: |figure| match simulator(figure, 0)? {
            Sim::HtmDuration(of) => {
                draw_durations(of.interval, &of.drawn.samples()).map(|of| charts(&of)).map_err(usage)
            }
            _ => unreachable!("the command is that verb"),
        },
    },
    Figure {
        paper: "HTM",
        number: 14,
        title: "TPC-C on many cores",
        shows: "The scheme scales to 32 cores. Partitioned execution is limited by the 11 % of transactions that cross \
            partitions: by Amdahl's law to 9.1.",
        claims: &[
            Claim { text: "`tso` on 32 cores is at 28 times one core or more", holds: |of| of.at("TSO", 32.0) >= 28.0 },
            Claim {
                text: "Partitioned execution stays below 9.1 on any number of cores",
                holds: |of| of.everywhere("partitioned", |_, y| y < 9.1),
            },
            Claim { text: "It comes near that limit", holds: |of| of.at("partitioned", 64.0) > 7.0 },
            Claim {
                text: "SI+SSN on 32 cores is within 2 % of SI",
                holds: |of| of.at("SI+SSN", 32.0) >= 0.98 * of.at("SI", 32.0),
            },
        ],
        why: "The formula leaves out that a transaction that crosses partitions waits until all others have ended, and \
            that others wait meanwhile. The costs of latches and locks, which the paper measures, are not in a \
            simulation of read and write sets.",
        commands: &["ermine sim cores"],
        draw: cores,
    },
    Figure {
        paper: "HTM",
        number: 15,
        title: "Aborts by restarts",
        shows: "With 4 threads, 6 % of the accesses abort with 8 insert zones and 14 % with one. Restarts help greatly \
            with 8 zones, and little with one.",
        claims: &[
            Claim {
                text: "16 cores: one restart saves three quarters of the aborts with 8 zones, and at most two thirds \
                    with one",
                holds: |of| {
                    let left = |zones| of.chart(zones).at("cores: 16", 1.0) / of.chart(zones).at("cores: 16", 0.0);
                    left(0) < 0.25 && left(1) > 1.0 / 3.0
                },
            },
            Claim { text: "4 cores, 8 zones: 6 % abort without restarts", holds: |of| of.at("cores: 4", 0.0) > 3.0 },
        ],
        why: "Rows and the ends of zones explain 0.4 %; the rest must come from what a trace of rows does not have: \
            index nodes, rows that share a line, evictions and interrupts.",
        commands: &["ermine sim htm-restarts"],
        draw: |figure| match simulator(figure, 0)? {
            Sim::HtmRestarts(of) => {
                let trace = record::tpcc(&of.recorded)?;
                draw_restarts(&trace, &of.cores, &of.zones, of.seeds).map(|of| charts(&of)).map_err(usage)
            }
            _ => unreachable!("the command is that verb"),
        },
    },
];

/// Returns the verb of the simulator that a command of a figure names.
fn simulator(figure: &Figure, at: usize) -> Result<Sim> {
    match parsed(figure.commands[at])? {
        Command::Sim { what } => Ok(what),
        _ => unreachable!("the command is one of the simulator"),
    }
}

fn figure(figure: &Figure) -> Result<Vec<Chart>> {
    let Sim::Figure(of) = simulator(figure, 0)? else { unreachable!("the command is that verb") };
    let drawing: Drawing = draw(of.figure, &of.options(), &mut |_, _| ()).map_err(usage)?;
    promised(drawing.broken.is_empty(), || format!("not serializable: {}", drawing.broken.join("; ")))?;
    Ok(charts(&drawing))
}

/// Throughput by cores, in multiples of one, with the warehouses of each core, and with any.
fn cores(figure: &Figure) -> Result<Vec<Chart>> {
    let Sim::Cores(of) = simulator(figure, 0)? else { unreachable!("the command is that verb") };
    let trace = record::tpcc(&of.recorded)?;
    let mut chart = Chart::new(
        "Each core has warehouses of its own",
        Axis::logarithmic("cores"),
        Axis::logarithmic("throughput, in multiples of one core"),
    );
    for &scheme in of.schemes() {
        let mut points = Vec::new();
        for &cores in &of.cores {
            let options = CoresOptions { cores, homes: of.homes(), cycle_test: !of.no_cycle_test };
            let outcome = simulate_cores(scheme, &trace, &options).map_err(usage)?;
            promised(outcome.holds(), || format!("{} on {cores} cores is not serializable", scheme.title()))?;
            points.push(Point::new(f64::from(cores), outcome.speedup));
        }
        chart.line(scheme.title(), points);
    }
    Ok(vec![chart])
}

//! The arguments of `ermine sim htm-size`, `htm-duration` and `htm-restarts`.

use std::path::PathBuf;

use clap::Args;
use ermine_sim::Samples;

use super::recorded::Recorded;

#[derive(Debug, Args)]
pub struct SimHtmSize {
    /// Ways of the cache, separated by commas: a curve for each. With as many ways as lines, only the size counts
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_values_t = [4, 8, 16, 512])]
    pub ways: Vec<u32>,
    /// Size of the cache in KiB; lines have 64 bytes
    #[arg(long, default_value_t = 32, value_name = "KIB")]
    pub cache: u32,
    #[command(flatten)]
    pub drawn: Drawn,
}

#[derive(Debug, Args)]
pub struct SimHtmDuration {
    /// Mean time between two interrupts of a core, in cycles: a guess, which agrees with the paper's text
    #[arg(long, default_value_t = 1e6, value_name = "CYCLES")]
    pub interval: f64,
    #[command(flatten)]
    pub drawn: Drawn,
}

#[derive(Debug, Args)]
pub struct SimHtmRestarts {
    /// Numbers of cores, separated by commas: a curve for each
    #[arg(
        long, value_name = "N,..", value_delimiter = ',', default_values_t = [2, 4, 16, 64],
        value_parser = clap::value_parser!(u32).range(1..=4096)
    )]
    pub cores: Vec<u32>,
    /// Numbers of insert zones of each table, separated by commas
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_values_t = [8, 1])]
    pub zones: Vec<u32>,
    #[command(flatten)]
    pub recorded: Recorded,
    /// Simulations of each point, with other zones of the transactions; the spread is that between them
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub seeds: u32,
    #[command(flatten)]
    pub files: FigureFiles,
}

/// The transactions of a point, and the files of the figure.
#[derive(Debug, Args)]
pub struct Drawn {
    /// Simulations of each point, with seeds that follow each other; the spread is that between them
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub seeds: u32,
    /// The first seed
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Transactions of a simulation
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    pub transactions: u32,
    #[command(flatten)]
    pub files: FigureFiles,
}

impl Drawn {
    pub fn samples(&self) -> Samples {
        let &Self { seeds, seed, transactions, .. } = self;
        Samples { seeds, seed, transactions }
    }
}

/// The files to which a figure is written.
#[derive(Debug, Args)]
pub struct FigureFiles {
    /// Write the points as comma-separated values
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Draw the figure
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Write the figure as JSON; - is the standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the figure as one page with charts, which loads nothing else; - is the standard output
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

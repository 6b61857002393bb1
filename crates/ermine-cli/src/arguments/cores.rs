//! The arguments of `ermine sim cores`.

use clap::Args;
use ermine_sim::{Homes, Scheme};

use super::{output::Output, recorded::Recorded, tpcc::Home};

#[derive(Debug, Args)]
pub struct SimCores {
    /// The schemes, separated by commas; names are the engine's, except: 2pl is its 2pl-wdl; rcl and rcl-ssn are those
    /// of the SSN paper; tso-safe is tso by the safe timestamp alone, as in the HTM paper; htm runs a transaction as
    /// one hardware transaction [default: all]
    #[arg(long, value_name = "SCHEME,..", value_delimiter = ',')]
    pub scheme: Vec<Scheme>,
    /// Numbers of cores, separated by commas
    #[arg(
        long, value_name = "N,..", value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16, 32, 64],
        value_parser = clap::value_parser!(u32).range(1..=4096)
    )]
    pub cores: Vec<u32>,
    /// The transactions of a core: those of its own warehouses, which cores share only if there are more of them than
    /// warehouses; or any
    #[arg(long, value_enum, default_value_t = Home::Fixed)]
    pub home: Home,
    #[command(flatten)]
    pub recorded: Recorded,
    /// Skip the search for cycles, and the memory that it takes
    #[arg(long)]
    pub no_cycle_test: bool,
    #[command(flatten)]
    pub output: Output,
}

impl SimCores {
    pub fn schemes(&self) -> &[Scheme] {
        if self.scheme.is_empty() { &Scheme::ALL } else { &self.scheme }
    }

    pub fn homes(&self) -> Homes {
        match self.home {
            Home::Fixed => Homes::Fixed,
            Home::Random => Homes::Any,
        }
    }
}

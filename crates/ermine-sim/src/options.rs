//! Options of a simulation: the table, the groups of clients, the seed.

use std::{fmt, ops::RangeInclusive, str::FromStr};

use serde::Serialize;

/// Why a simulation cannot run; the text says which option is wrong and which values work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage(pub String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Usage {}

/// How many accesses of a transaction are writes; they are its last ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Writes {
    /// This many.
    Number(u32),
    /// This part of them, rounded to the nearest number.
    Percent(f64),
}

impl Writes {
    /// The number of writes among this many accesses.
    pub(crate) fn of(self, accesses: u32) -> u32 {
        match self {
            Self::Number(number) => number,
            Self::Percent(percent) => (f64::from(accesses) * percent / 100.0).round() as u32,
        }
    }

    /// Whether no access is a write.
    pub(crate) fn are_none(self) -> bool {
        matches!(self, Self::Number(0) | Self::Percent(0.0))
    }
}

impl fmt::Display for Writes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// Clients with the same behaviour.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Number of clients.
    pub clients: u32,
    /// Accesses of a transaction.
    pub footprint: RangeInclusive<u32>,
    /// Those of them that are writes.
    pub writes: Writes,
    /// The mean time between two transactions of a client, in mean accesses; `None`: the expected latency, divided by
    /// the load.
    pub interval: Option<f64>,
}

impl Group {
    /// Clients whose transactions follow each other at the expected latency.
    pub fn new(clients: u32, footprint: RangeInclusive<u32>, writes: Writes) -> Self {
        Self { clients, footprint, writes, interval: None }
    }

    /// Whether its transactions only read.
    pub fn only_reads(&self) -> bool {
        self.writes.are_none()
    }

    /// The mean time between two transactions of a client, in mean accesses.
    pub(crate) fn mean_interval(&self, load: f64) -> f64 {
        let mean_footprint = (f64::from(*self.footprint.start()) + f64::from(*self.footprint.end())) / 2.0;
        self.interval.unwrap_or((mean_footprint + 1.0) / load)
    }

    fn check(&self) -> Result<(), Usage> {
        let &Self { clients, ref footprint, writes, interval } = self;
        if clients == 0 || footprint.is_empty() || *footprint.start() == 0 || *footprint.end() > FOOTPRINT_MAX {
            return Err(Usage(format!("{self}: a group has clients, and footprints from 1 to {FOOTPRINT_MAX}")));
        }
        let possible = match writes {
            Writes::Number(number) => number <= *footprint.start(),
            Writes::Percent(percent) => (0.0..=100.0).contains(&percent),
        };
        if !possible {
            return Err(Usage(format!("{self}: there are more writes than accesses")));
        }
        match interval {
            Some(interval) if !(INTERVAL_MIN..=INTERVAL_MAX).contains(&interval) => Err(Usage(format!(
                "{self}: the time between two transactions lies between {INTERVAL_MIN} and {INTERVAL_MAX} mean accesses"
            ))),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { clients, footprint, writes, interval } = self;
        write!(f, "{clients}:{}-{}:{writes}", footprint.start(), footprint.end())?;
        interval.iter().try_for_each(|interval| write!(f, "@{interval}"))
    }
}

impl FromStr for Group {
    type Err = Usage;

    /// Parses `CLIENTS:MIN-MAX:WRITES` and perhaps `@INTERVAL`, with WRITES a number or a percentage.
    fn from_str(text: &str) -> Result<Self, Usage> {
        let usage =
            || Usage(format!("{text:?} is no group: use CLIENTS:MIN-MAX:WRITES, as in 30:8-12:25% or 10:100-200:0"));
        let number = |text: &str| text.parse::<u32>().map_err(|_| usage());
        let (clients, rest) = text.split_once(':').ok_or_else(usage)?;
        let (rest, interval) = rest.split_once('@').map_or((rest, None), |(rest, interval)| (rest, Some(interval)));
        let interval = interval.map(str::parse).transpose().map_err(|_| usage())?;
        let (footprint, writes) = rest.split_once(':').ok_or_else(usage)?;
        let (fewest, most) = footprint.split_once('-').unwrap_or((footprint, footprint));
        let writes = match writes.strip_suffix('%') {
            Some(percent) => Writes::Percent(percent.parse().map_err(|_| usage())?),
            None => Writes::Number(number(writes)?),
        };
        let group = Self { clients: number(clients)?, footprint: number(fewest)?..=number(most)?, writes, interval };
        group.check().map(|()| group)
    }
}

impl Serialize for Group {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// Options of a simulation, the same for every scheme.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Options {
    /// Records of the table.
    pub records: u32,
    /// The groups of clients.
    pub groups: Vec<Group>,
    /// Transactions that all clients together submit.
    pub transactions: u32,
    /// Determines the transactions and their times.
    pub seed: u64,
    /// The expected latency of a transaction without delays, divided by the mean interval between two of a client.
    pub load: f64,
    /// Time between two safe snapshots, which the groups that only read use; `None`: there are none.
    pub safe_snapshot_interval: Option<f64>,
    /// Whether the history is kept and searched for cycles.
    pub cycle_test: bool,
}

impl Default for Options {
    /// A point of the paper's figure 6.
    fn default() -> Self {
        Self {
            records: 1000,
            groups: vec![Group::new(30, 8..=12, Writes::Percent(25.0))],
            transactions: 100_000,
            seed: 1,
            load: 1.0,
            safe_snapshot_interval: None,
            cycle_test: true,
        }
    }
}

/// Limits of the load.
const LOAD_MIN: f64 = 0.001;
const LOAD_MAX: f64 = 100.0;
/// Limits of intervals, in mean accesses.
const INTERVAL_MIN: f64 = 0.01;
const INTERVAL_MAX: f64 = 1e9;
/// Maximum accesses of a transaction.
const FOOTPRINT_MAX: u32 = 100_000;
/// Maximum records of the table.
const RECORDS_MAX: u32 = 100_000_000;
/// Maximum clients of all groups.
const CLIENTS_MAX: u32 = 100_000;
/// Maximum accesses of a simulation: versions and reads are numbered with 32 bits.
const ACCESSES_MAX: u64 = 2_000_000_000;

impl Options {
    /// Fails if the options cannot work.
    pub fn check(&self) -> Result<(), Usage> {
        let usage = |why: String| Err(Usage(why));
        if !(1..=RECORDS_MAX).contains(&self.records) {
            return usage(format!("the number of records lies between 1 and {RECORDS_MAX}"));
        }
        self.groups.iter().try_for_each(Group::check)?;
        if !(1..=CLIENTS_MAX).contains(&self.clients()) {
            return usage(format!("there are between 1 and {CLIENTS_MAX} clients"));
        }
        let footprint = self.groups.iter().map(|group| *group.footprint.end()).max().unwrap_or(0);
        if self.transactions == 0 || u64::from(self.transactions) * u64::from(footprint) > ACCESSES_MAX {
            return usage(format!("there is a transaction, and all of them have at most {ACCESSES_MAX} accesses"));
        }
        if !(LOAD_MIN..=LOAD_MAX).contains(&self.load) {
            return usage(format!("the load lies between {LOAD_MIN} and {LOAD_MAX}"));
        }
        match self.safe_snapshot_interval {
            Some(interval) if !(INTERVAL_MIN..=INTERVAL_MAX).contains(&interval) => usage(format!(
                "the time between two safe snapshots lies between {INTERVAL_MIN} and {INTERVAL_MAX} mean accesses"
            )),
            _ => Ok(()),
        }
    }

    pub(crate) fn clients(&self) -> u32 {
        self.groups.iter().fold(0, |sum, group| sum.saturating_add(group.clients))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_parsed_and_printed() {
        for text in ["30:8-12:25%", "10:100-200:0", "1:5-5:5", "2:8-12:0.5%", "2:8-12:1@0.5"] {
            assert_eq!(text.parse::<Group>().unwrap().to_string(), text);
        }
        assert_eq!("1:5:5".parse::<Group>().unwrap().to_string(), "1:5-5:5");
        for text in [
            "",
            "3",
            "3:8",
            "3:8-12",
            "3:8-12:x",
            "3:12-8:1",
            "0:8-12:1",
            "3:0-2:0",
            "3:8-12:9",
            "3:8-12:101%",
            "3:8-12:1@",
            "3:8-12:1@0",
        ] {
            assert!(text.parse::<Group>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_share_of_writes_is_rounded() {
        let of = |accesses| Writes::Percent(25.0).of(accesses);
        assert_eq!([8, 9, 10, 11, 12].map(of), [2, 2, 3, 3, 3]);
        assert_eq!(Writes::Percent(100.0).of(7), 7);
    }

    #[test]
    fn options_that_cannot_work_are_refused() {
        assert_eq!(Options::default().check(), Ok(()));
        let broken: [fn(&mut Options); 6] = [
            |options| options.records = 0,
            |options| options.groups.clear(),
            |options| options.transactions = 0,
            |options| options.transactions = u32::MAX,
            |options| options.load = f64::NAN,
            |options| options.safe_snapshot_interval = Some(0.0),
        ];
        for (number, spoil) in broken.iter().enumerate() {
            let mut options = Options::default();
            spoil(&mut options);
            assert!(options.check().is_err(), "{number}");
        }
    }
}

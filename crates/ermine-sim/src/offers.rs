//! The transactions that clients submit: SIBENCH (SSN 7.2) in an open queueing system (7.1).
//!
//! A client submits at times of its own, whether its earlier transactions have ended or not. A transaction is drawn
//! whole when it is submitted: its records, its writes, and the time that each access takes. So the seed determines
//! what is offered and when, under every scheme.

use fastrand::Rng;

use crate::{
    options::{Group, Options},
    table::RecordId,
};

/// A moment or a length of time, in thousandths of the mean time of an access.
pub(crate) type Ticks = u64;

/// The mean time of an access, and of a commit.
pub(crate) const ACCESS_TICKS: Ticks = 1000;

/// An access to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) record: RecordId,
    pub(crate) takes: Ticks,
    pub(crate) is_write: bool,
    /// The partition of the record, if the table has partitions.
    pub(crate) partition: Option<u32>,
    /// The table of the record.
    pub(crate) table: u32,
    /// Whether the write inserts the record.
    pub(crate) is_insert: bool,
}

/// A transaction to come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) accesses: Vec<Access>,
    pub(crate) commit_takes: Ticks,
}

/// A client's stream of transactions.
#[derive(Debug)]
pub(crate) struct Client {
    /// Place of its group in the options.
    pub(crate) group: usize,
    random: Rng,
    mean_interval: f64,
}

impl Client {
    /// The clients of all groups.
    pub(crate) fn all(options: &Options) -> Vec<Self> {
        let mut seeds = Rng::with_seed(options.seed);
        let numbered = options.groups.iter().enumerate();
        let of_group = |(number, group)| std::iter::repeat_n((number, group), clients_of(group));
        let client = |(number, group): (usize, &Group)| Self {
            group: number,
            random: seeds.fork(),
            mean_interval: group.mean_interval(options.load) * ACCESS_TICKS as f64,
        };
        numbered.flat_map(of_group).map(client).collect()
    }

    /// The time until the first transaction: anywhere in an interval, so that clients do not march in step.
    pub(crate) fn first(&mut self) -> Ticks {
        (self.random.f64() * self.mean_interval) as Ticks
    }

    /// The time until the next transaction: the mean interval, half of it more or less.
    pub(crate) fn interval(&mut self) -> Ticks {
        ((0.5 + self.random.f64()) * self.mean_interval) as Ticks
    }

    /// Draws a transaction; records are drawn with replacement.
    pub(crate) fn draw(&mut self, options: &Options, offer: &mut Offer) {
        let group = &options.groups[self.group];
        let footprint = self.random.u32(group.footprint.clone());
        let reads = footprint - group.writes.of(footprint);
        offer.accesses.clear();
        offer.accesses.extend((0..footprint).map(|at| Access {
            record: RecordId(self.random.u32(0..options.records)),
            takes: duration(&mut self.random),
            is_write: at >= reads,
            partition: None,
            table: 0,
            is_insert: false,
        }));
        offer.commit_takes = duration(&mut self.random);
    }
}

fn clients_of(group: &Group) -> usize {
    group.clients as usize
}

/// The time of an access: the mean, half of it more or less.
pub(crate) fn duration(random: &mut Rng) -> Ticks {
    random.u64(ACCESS_TICKS / 2..ACCESS_TICKS * 3 / 2)
}

//! SIBENCH as in the SSN paper (section 7.2): random accesses to one table, the last of them writes.
//!
//! A transaction makes a random number of accesses, drawn from the footprint range of its client's group; a fixed
//! number of them, the last, are writes. Records are drawn with replacement: repeated reads, repeated overwrites and
//! blind writes all occur. Several groups make a mixed workload, such as large readers among short writers. A record is
//! one number that identifies the client and the attempt that wrote it last.
//!
//! This workload does not check whether the committed transactions are serializable: it shows how many each scheme lets
//! commit, and an observer sees which. It checks that every record holds the mark of an attempt that committed.

use std::{fmt, hint::black_box, ops::RangeInclusive, str::FromStr};

use ermine::{Access, Database, Error, Job, Scheme, Table, Transaction, TxnOptions};
use serde::Serialize;

use crate::{
    Result,
    random::Random,
    report::{Setting, grouped, listed, scheme_name},
    summary::Summary,
    threads::Tick,
    trial::{self, Client, ClientContext, MEASURED, RunOptions},
    verdict::{Check, Promise, Verdict},
    zipf::Choice,
};

/// Clients with the same behaviour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Threads.
    pub clients: u32,
    /// Accesses of a transaction.
    pub footprint: RangeInclusive<u32>,
    /// Number of accesses, the last ones, that are writes.
    pub writes: u32,
}

impl Group {
    /// The usual groups for `threads` threads: half of them short writers (the paper's 8 to 12 accesses, a quarter of
    /// them writes), the others long readers with one write.
    pub fn usual(threads: u32) -> Vec<Self> {
        let short = Self { clients: threads.div_ceil(2), footprint: 8..=12, writes: 3 };
        let long = Self { clients: threads / 2, footprint: 100..=200, writes: 1 };
        [short, long].into_iter().filter(|group| group.clients > 0).collect()
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { clients, footprint, writes } = self;
        write!(f, "{clients}:{}-{}:{writes}", footprint.start(), footprint.end())
    }
}

impl FromStr for Group {
    type Err = crate::Error;

    /// Parses `clients:fewest-most:writes`.
    fn from_str(text: &str) -> Result<Self> {
        let usage = || crate::Error::Usage(format!("{text:?} is no group: use CLIENTS:MIN-MAX:WRITES, as in 2:8-12:3"));
        let number = |text: &str| text.parse::<u32>().map_err(|_| usage());
        let (clients, rest) = text.split_once(':').ok_or_else(usage)?;
        let (footprint, writes) = rest.split_once(':').ok_or_else(usage)?;
        let (fewest, most) = footprint.split_once('-').unwrap_or((footprint, footprint));
        Ok(Self { clients: number(clients)?, footprint: number(fewest)?..=number(most)?, writes: number(writes)? })
    }
}

impl Serialize for Group {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// Options of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Options {
    /// Concurrency control.
    #[serde(serialize_with = "scheme_name")]
    pub scheme: Scheme,
    /// Records of the table: the fewer, the more conflicts.
    pub records: u64,
    /// Skew of the records drawn; 0 is uniform.
    pub theta: f64,
    /// The groups of clients.
    pub groups: Vec<Group>,
    /// Options that all workloads share.
    #[serde(flatten)]
    pub run_options: RunOptions,
}

/// Maximum accesses of a transaction.
const FOOTPRINT_MAX: u32 = 1_000_000;
/// Maximum threads of all groups.
const CLIENTS_MAX: u32 = 1_000;

impl Options {
    /// Fails if the options cannot work.
    pub fn check(&self) -> Result<()> {
        let usage = |why: String| Err(crate::Error::Usage(why));
        if !(1..=Choice::RECORDS_MAX).contains(&self.records) {
            return usage(format!("the number of records lies between 1 and {}", Choice::RECORDS_MAX));
        }
        if !(0.0..1.0).contains(&self.theta) {
            return usage("theta lies between 0 (uniform) and 1 (not included)".into());
        }
        for group in &self.groups {
            let &Group { clients, ref footprint, writes } = group;
            if clients == 0 || footprint.is_empty() || *footprint.start() == 0 || *footprint.end() > FOOTPRINT_MAX {
                return usage(format!("{group}: a group has clients, and footprints from 1 to {FOOTPRINT_MAX}"));
            }
            if writes > *footprint.start() {
                return usage(format!("{group}: there are more writes than accesses"));
            }
        }
        if !(1..=CLIENTS_MAX).contains(&self.groups.iter().map(|group| group.clients).sum()) {
            return usage(format!("there are between 1 and {CLIENTS_MAX} clients"));
        }
        self.run_options.check(&[self.scheme])
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheme, records, theta, groups, run_options } = self;
        let (records, groups) = (grouped(*records), listed(groups));
        write!(f, "scheme {scheme}, {records} records, theta {theta}, groups {groups}, {run_options}")
    }
}

/// Record -> [`Mark`].
type Records = Table<u64, u64>;

/// The attempt that wrote a record: the client's number in the high bits, the attempt's in the low bits. Zero: the
/// loader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark(u64);

impl Mark {
    const ATTEMPT_BITS: u32 = 48;

    fn new(client: usize, attempt: u64) -> Self {
        debug_assert!(attempt >> Self::ATTEMPT_BITS == 0);
        Self((client as u64 + 1) << Self::ATTEMPT_BITS | attempt)
    }

    /// The client and its attempt; `None` for the loader.
    fn writer(self) -> Option<(usize, u64)> {
        let client = (self.0 >> Self::ATTEMPT_BITS).checked_sub(1)?;
        Some((client as usize, self.0 & ((1 << Self::ATTEMPT_BITS) - 1)))
    }
}

/// Loads, runs, and checks for marks of attempts that did not commit.
pub fn drive(options: &Options, setting: Setting, watch: &mut dyn FnMut(Tick)) -> Result<Summary<Options>> {
    options.check()?;
    let db = options.run_options.open(options.scheme)?;
    let records: Records = db.table("records")?;
    trial::insert_rows(&db, options.records, |txn, record| txn.insert(&records, &record, &0))?;
    let choice = Choice::new(options.records, options.theta);
    let numbered = options.groups.iter().enumerate();
    let of_group = |(number, group)| std::iter::repeat_n((number, group), group_size(group));
    let clients: Vec<_> = numbered
        .flat_map(of_group)
        .enumerate()
        .map(|(client, (number, group))| Visitor::new(options, group, number, &records, &choice, client))
        .collect();
    let names: Vec<_> = options.groups.iter().map(Group::to_string).collect();
    let (clients, counts) = trial::run(&db, clients, names.len(), &options.run_options, watch)?;
    let checks = check(options, &db, &records, &clients)?;
    Ok(Summary::new("sibench", setting, options.clone(), &names, &counts, checks))
}

fn group_size(group: &Group) -> usize {
    group.clients as usize
}

fn check(options: &Options, db: &Database, records: &Records, clients: &[Visitor<'_>]) -> Result<Vec<Check>> {
    let mut rows = Verdict::new("rows", "every record is there");
    let mut marks = Verdict::new("marks", "every record was written last by an attempt that committed");
    let txn = db.begin(TxnOptions::read_only())?;
    for record in 0..options.records {
        let found = txn.get(records, &record)?;
        rows.compare(found.is_some(), || format!("record {record} is missing"));
        let Some(mark) = found.map(Mark) else { continue };
        let committed = match mark.writer() {
            None => true,
            Some((client, attempt)) => clients.get(client).is_some_and(|client| client.has_committed(attempt)),
        };
        marks.compare(committed, || format!("record {record}: {:?}", mark.writer()));
    }
    txn.commit()?;
    let check = |verdict| Check { verdict, scheme: options.scheme, promise: Promise::Always };
    Ok(vec![check(rows), check(marks)])
}

/// A client thread.
struct Visitor<'a> {
    records: &'a Records,
    choice: &'a Choice,
    group: &'a Group,
    /// The group's number: its kind of transactions.
    kind: usize,
    client: usize,
    random: Random,
    /// Records that the next transaction touches; kept, so that the vector is allocated once.
    accesses: Vec<u64>,
    attempts: u64,
    /// One bit per attempt: whether it committed.
    committed: Vec<u64>,
}

impl<'a> Visitor<'a> {
    fn new(
        options: &Options,
        group: &'a Group,
        kind: usize,
        records: &'a Records,
        choice: &'a Choice,
        client: usize,
    ) -> Self {
        let random = Random::new(options.run_options.seed, 1 + client as u64);
        let (accesses, committed) = (Vec::new(), Vec::new());
        Self { records, choice, group, kind, client, random, accesses, attempts: 0, committed }
    }

    fn note_committed(&mut self, attempt: u64) {
        let word = attempt as usize / 64;
        if self.committed.len() <= word {
            self.committed.resize(word + 1, 0);
        }
        self.committed[word] |= 1 << (attempt % 64);
    }

    fn has_committed(&self, attempt: u64) -> bool {
        self.committed.get(attempt as usize / 64).is_some_and(|word| word >> (attempt % 64) & 1 == 1)
    }
}

impl Client for Visitor<'_> {
    fn step(&mut self, context: &mut ClientContext<'_>) -> Result<()> {
        let footprint = &self.group.footprint;
        let length = self.random.uniform(u64::from(*footprint.start())..=u64::from(*footprint.end()));
        self.accesses.clear();
        self.accesses.extend((0..length).map(|_| self.choice.draw(&mut self.random)));
        let reads = self.accesses.len() - self.group.writes as usize;
        let (reads, writes) = self.accesses.split_at(reads);
        let (client, attempts) = (self.client, &mut self.attempts);
        let visit = Visit { records: self.records, reads, writes, client, attempts };
        if let Some(attempt) = context.run(self.kind, visit)? {
            self.note_committed(attempt);
        }
        Ok(())
    }
}

/// A transaction.
struct Visit<'a> {
    records: &'a Records,
    reads: &'a [u64],
    writes: &'a [u64],
    client: usize,
    attempts: &'a mut u64,
}

impl Job for Visit<'_> {
    /// The number of the attempt that committed.
    type Output = u64;
    type Error = Error;

    const SCHEMES: &'static [Scheme] = MEASURED;

    fn run<A: Access>(&mut self, txn: &Transaction<'_, A>) -> ermine::Result<u64> {
        *self.attempts += 1;
        for record in self.reads {
            black_box(txn.get(self.records, record)?);
        }
        let mark = Mark::new(self.client, *self.attempts);
        for record in self.writes {
            txn.put(self.records, record, &mark.0)?;
        }
        Ok(*self.attempts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_read_as_they_are_written() {
        let group: Group = "2:8-12:3".parse().unwrap();
        assert_eq!(group, Group { clients: 2, footprint: 8..=12, writes: 3 });
        assert_eq!(group.to_string(), "2:8-12:3");
        assert_eq!("1:10:0".parse::<Group>().unwrap().footprint, 10..=10);
        for text in ["", "2", "2:8-12", "2:8-x:3", "-1:8-12:3"] {
            assert!(text.parse::<Group>().is_err(), "{text}");
        }
    }

    #[test]
    fn usual_groups_have_all_threads() {
        for threads in 1..10 {
            assert_eq!(Group::usual(threads).iter().map(|group| group.clients).sum::<u32>(), threads);
        }
    }

    #[test]
    fn marks_name_their_writer() {
        assert_eq!(Mark(0).writer(), None);
        assert_eq!(Mark::new(0, 7).writer(), Some((0, 7)));
        assert_eq!(Mark::new(999, 1 << 47).writer(), Some((999, 1 << 47)));
    }

    #[test]
    fn options_that_cannot_work_are_refused() {
        let options = |group: &str| Options {
            scheme: Scheme::Si,
            records: 10,
            theta: 0.0,
            groups: vec![group.parse().unwrap()],
            run_options: RunOptions::default(),
        };
        assert!(options("1:1-5:1").check().is_ok());
        for group in ["0:1-5:1", "1:5-1:0", "1:0-5:0", "1:3-5:4", "1001:1-5:1"] {
            assert!(options(group).check().is_err(), "{group}");
        }
        assert!(Options { groups: Vec::new(), ..options("1:1:1") }.check().is_err());
        assert!(Options { records: 0, ..options("1:1:1") }.check().is_err());
    }
}

//! Reports cycles and sightings in words: the operations of each transaction, and why one transaction precedes another.
//!
//! Edges do not record their reason: it is found again here, from the operations of their two transactions.

use std::fmt::Write;

use super::{
    collect::{Collected, Writer},
    entries::Entries,
    keys::Item,
    sightings::{Sighting, Sightings},
    versions::{Resolved, State, Versions},
};
use crate::{
    anomaly::AnomalyKind,
    graph::{Cycle, Kind, Step},
    history::{
        Digest, History, Index, Moment, Operation, Outcome, Process, ReadVersion, Stamp, Table, Transaction,
        TransactionContext,
    },
    report::{Anomaly, Dependency, Involved},
};

/// All data about a history.
pub(super) struct Explainer<'h> {
    pub(super) history: &'h History,
    pub(super) collected: &'h Collected,
    pub(super) versions: &'h Versions,
    pub(super) entries: &'h Entries,
}

/// Maximum operations that are shown of a transaction; of a longer one only those that matter.
const OPERATIONS_SHOWN: usize = 16;

impl Explainer<'_> {
    /// Reports a cycle as an anomaly.
    pub(super) fn cycle(&self, kind: AnomalyKind, cycle: &Cycle) -> Anomaly {
        let mut rows = Vec::new();
        let dependencies = cycle.iter().map(|step| {
            let (because, row) = self.reason(step);
            rows.extend(row);
            let (from, to) = (name(step.from.0), name(step.to.0));
            Dependency { from, to, kind: step.kind.name(), because }
        });
        let dependencies = dependencies.collect();
        let transactions = cycle.iter().map(|step| self.involved(step.from.0, &rows)).collect();
        Anomaly { kind, count: 1, note: self.known_as(cycle, &rows), cycle: dependencies, transactions }
    }

    /// Names for frequent shapes.
    fn known_as(&self, cycle: &Cycle, rows: &[Item]) -> String {
        let kinds: Vec<_> = cycle.iter().map(|step| step.kind).collect();
        let antis = kinds.iter().filter(|kind| kind.is_anti()).count();
        let one_row = rows.windows(2).all(|pair| pair[0] == pair[1]);
        let read_only = cycle.iter().find(|step| {
            let mut operations = self.history.transaction(step.from.at()).operations();
            !operations.any(|operation| matches!(operation, Operation::Write { .. }))
        });
        match (antis, cycle.len(), read_only) {
            (1, 2, _) if kinds.contains(&Kind::WriteWrite) && one_row => "lost update".into(),
            (2, 2, _) => "write skew: each overwrote what the other had read".into(),
            (1, ..) if kinds.iter().any(|kind| matches!(kind, Kind::Process | Kind::Realtime)) => {
                "stale read: a transaction did not see what had been committed before it began".into()
            }
            (1, ..) => "read skew: a transaction saw something before and something after a commit".into(),
            (2.., _, Some(step)) => {
                format!(
                    "read-only anomaly: without {}, which wrote nothing, there would be no cycle",
                    name(step.from.0)
                )
            }
            _ => String::new(),
        }
    }

    /// Reports sightings as anomalies.
    pub(super) fn sightings(&self, sightings: &Sightings) -> Vec<Anomaly> {
        let anomaly = |&(kind, count, Sighting { seen_in, other, row }): &(AnomalyKind, u64, Sighting)| {
            let on = if row == Item::NONE { String::new() } else { format!(" on {}", self.row(row)) };
            let note = match other {
                Some(other) => format!("{} and {}{on}", name(seen_in), name(other)),
                None => format!("{}{on}", name(seen_in)),
            };
            let transactions = [seen_in].into_iter().chain(other).map(|transaction| self.involved(transaction, &[row]));
            Anomaly { kind, count, note, cycle: Vec::new(), transactions: transactions.collect() }
        };
        sightings.iter().map(anomaly).collect()
    }

    /// Why one transaction precedes the other, and the row that this is due to.
    fn reason(&self, step: &Step) -> (String, Option<Item>) {
        let (from, to) = (step.from.0, step.to.0);
        let reason = match step.kind {
            Kind::WriteWrite => self.overwritten(from, to),
            Kind::WriteRead => self.read_of(from, to),
            Kind::ReadWrite => self.overwritten_read(from, to),
            Kind::PredicateReadWrite => self.born_behind(from, to),
            Kind::PredicateWriteRead => self.died_ahead(from, to),
            Kind::Process | Kind::Realtime => return (self.earlier(from, to, step.kind), None),
            Kind::Chain => unreachable!("chains are parts of dependencies"),
        };
        reason.map_or_else(|| ("for a reason that was not found again".into(), None), |(text, row)| (text, Some(row)))
    }

    fn earlier(&self, from: u32, to: u32, kind: Kind) -> String {
        let (first, second) = (self.context(from), self.context(to));
        let moment = |moment: Option<Moment>| moment.map_or_else(String::new, |Moment(at)| format!(" (moment {at})"));
        let (ended, began) = (moment(first.ended), moment(second.began));
        let process = match second.process.filter(|_| kind == Kind::Process) {
            Some(Process(number)) => format!("in process {number}, "),
            None => String::new(),
        };
        format!("{process}{} had ended{ended} before {} began{began}", name(from), name(to))
    }

    fn context(&self, transaction: u32) -> TransactionContext {
        self.history.transaction(transaction as usize).context()
    }

    fn stamp(&self, transaction: u32) -> Stamp {
        self.history.transaction(transaction as usize).stamp().expect("only what committed is in the graph")
    }

    /// The operations of a committed transaction, with the items that they are about.
    fn operations(&self, transaction: u32) -> impl Iterator<Item = (Operation<'_>, Item)> {
        let operations = self.history.transaction(transaction as usize).operations();
        operations.zip(self.collected.items(transaction).iter().copied())
    }

    fn writes(&self, transaction: u32) -> impl Iterator<Item = Item> {
        self.operations(transaction).filter_map(|(operation, item)| match operation {
            Operation::Write { .. } => Some(item),
            _ => None,
        })
    }

    /// The states that a transaction read of rows that others wrote.
    fn reads(&self, transaction: u32) -> impl Iterator<Item = (Item, State)> {
        self.operations(transaction).filter_map(|(operation, item)| match operation {
            Operation::Read { version, .. } if version != ReadVersion::Own => {
                match self.versions.resolve(item, version) {
                    Resolved::Is(state) | Resolved::Missed { seen: state, .. } => Some((item, state)),
                    Resolved::Unknown => None,
                }
            }
            _ => None,
        })
    }

    fn overwritten(&self, from: u32, to: u32) -> Option<(String, Item)> {
        let row = self.writes(from).find(|&row| {
            let state = self.versions.written(row, self.stamp(from), Writer(from));
            state.and_then(|state| self.versions.next_writer(row, state)) == Some(Writer(to))
        })?;
        Some((format!("{} overwrote {} after {}", name(to), self.row(row), name(from)), row))
    }

    fn read_of(&self, from: u32, to: u32) -> Option<(String, Item)> {
        let is_it = |&(row, state): &(Item, State)| {
            self.versions.at(row, state).is_some_and(|version| version.writer == Writer(from))
        };
        let (row, _) = self.reads(to).find(is_it)?;
        Some((format!("{} read {} as {} left it", name(to), self.row(row), name(from)), row))
    }

    fn overwritten_read(&self, from: u32, to: u32) -> Option<(String, Item)> {
        let (row, _) =
            self.reads(from).find(|&(row, state)| self.versions.next_writer(row, state) == Some(Writer(to)))?;
        Some((format!("{} read {} before {} wrote it", name(from), self.row(row), name(to)), row))
    }

    /// The ranges of a transaction.
    fn ranges(&self, transaction: u32) -> impl Iterator<Item = (Index, &[u8], Option<&[u8]>, Stamp)> {
        self.operations(transaction).filter_map(|(operation, _)| match operation {
            Operation::Range { index, lower, upper, at } => Some((index, lower, upper, at)),
            _ => None,
        })
    }

    /// The entry that `to` inserted into a range of `from`, in words.
    fn born_behind(&self, from: u32, to: u32) -> Option<(String, Item)> {
        let stamp = self.stamp(to);
        let born = |&(_, item): &(Operation<'_>, Item)| {
            item != Item::NONE
                && self.entries.rank(item).is_some_and(|rank| {
                    let birth = self.entries.births.first_from(rank, stamp);
                    birth.is_some_and(|birth| birth.writer == Writer(to))
                })
        };
        let entries: Vec<_> = self.operations(to).filter(born).map(|(_, item)| item).collect();
        let Some((range, entry)) = self.range_over(from, &entries) else { return self.missed(from, to) };
        let text = format!(
            "{} looked through {range} and did not see {}, which {} put there",
            name(from),
            self.entry(entry),
            name(to)
        );
        Some((text, entry))
    }

    /// The entry in a range of `from` that existed before the history, but was not seen, and whose row `to` was the
    /// first to write.
    fn missed(&self, from: u32, to: u32) -> Option<(String, Item)> {
        let (range, entry) = self.ranges(from).find_map(|(index, lower, upper, at)| {
            let mut ranks = self.entries.between(&self.collected.keys, index, lower, upper);
            let rank = ranks.find(|&rank| {
                let birth = self.entries.alive(rank, at).filter(|birth| birth.writer == Writer::INITIAL);
                birth.is_some_and(|birth| self.versions.first_writer(birth.row) == Some(Writer(to)))
            })?;
            Some((self.range(index, lower, upper, at), self.entries.item(rank)))
        })?;
        let (reader, entry_name, writer) = (name(from), self.entry(entry), name(to));
        let text = format!("{reader} looked through {range} and missed {entry_name}, whose row {writer} wrote later");
        Some((text, entry))
    }

    /// The entry that `from` removed from a range of `to`, in words.
    fn died_ahead(&self, from: u32, to: u32) -> Option<(String, Item)> {
        let stamp = self.stamp(from);
        let died = |&(_, item): &(Operation<'_>, Item)| {
            item != Item::NONE
                && self.entries.rank(item).is_some_and(|rank| {
                    let death = self.entries.deaths.first_from(rank, stamp);
                    death.is_some_and(|death| death.writer == Writer(from))
                })
        };
        let entries: Vec<_> = self.operations(from).filter(died).map(|(_, item)| item).collect();
        let (range, entry) = self.range_over(to, &entries)?;
        let text =
            format!("{} looked through {range} after {} had taken {} out", name(to), name(from), self.entry(entry));
        Some((text, entry))
    }

    /// The first range of a transaction that one of the entries lies in.
    fn range_over(&self, transaction: u32, entries: &[Item]) -> Option<(String, Item)> {
        let keys = &self.collected.keys;
        self.ranges(transaction).find_map(|(index, lower, upper, at)| {
            let inside = |&&entry: &&Item| {
                let bytes = keys.bytes(entry);
                keys.index(entry) == index && bytes >= lower && upper.is_none_or(|upper| bytes < upper)
            };
            let entry = entries.iter().find(inside)?;
            Some((self.range(index, lower, upper, at), *entry))
        })
    }

    fn involved(&self, transaction: u32, rows: &[Item]) -> Involved {
        let it = self.history.transaction(transaction as usize);
        let all: Vec<_> = it.operations().collect();
        let matters = |operation: &Operation<'_>| match *operation {
            Operation::Range { .. } => true,
            Operation::Read { table, key, .. } | Operation::Write { table, key, .. } => {
                self.is_one_of(rows, Index::primary(table), key)
            }
            Operation::Entry { index, entry, .. } => self.is_one_of(rows, index, entry),
        };
        let is_short = all.len() <= OPERATIONS_SHOWN;
        let shown = all.iter().filter(|operation| is_short || matters(operation)).take(OPERATIONS_SHOWN);
        let operations: Vec<_> = shown.map(|operation| self.operation(operation)).collect();
        let left_out = (all.len() - operations.len()) as u64;
        Involved { name: name(transaction), outcome: outcome(&it), operations, left_out }
    }

    fn is_one_of(&self, rows: &[Item], index: Index, key: &[u8]) -> bool {
        let keys = &self.collected.keys;
        rows.iter().any(|&row| row != Item::NONE && keys.index(row) == index && keys.bytes(row) == key)
    }

    fn operation(&self, operation: &Operation<'_>) -> String {
        match *operation {
            Operation::Read { table, key, version, value } => {
                let version = match version {
                    ReadVersion::At(Stamp::ZERO) => "from before its first version".into(),
                    ReadVersion::At(stamp) => format!("of {stamp}"),
                    ReadVersion::Own => "of its own".into(),
                    ReadVersion::Missing(at) => format!("as it was before {at}"),
                };
                format!("read {} = {} {version}", self.row_of(table, key), digest(value))
            }
            Operation::Range { index, lower, upper, at } => {
                format!("looked through {}", self.range(index, lower, upper, at))
            }
            Operation::Write { table, key, value: None } => format!("deleted {}", self.row_of(table, key)),
            Operation::Write { table, key, value } => format!("wrote {} = {}", self.row_of(table, key), digest(value)),
            Operation::Entry { index, entry, present } => {
                let what = if present { "gained" } else { "lost" };
                format!("which {what} entry {} of {}", printed_key(entry), self.index(index))
            }
        }
    }

    fn range(&self, index: Index, lower: &[u8], upper: Option<&[u8]>, at: Stamp) -> String {
        let upper = upper.map_or("the end".into(), printed_key);
        format!("{} from {} to {upper} at {at}", self.index(index), printed_key(lower))
    }

    fn row(&self, row: Item) -> String {
        self.row_of(self.collected.keys.index(row).table, self.collected.keys.bytes(row))
    }

    fn entry(&self, entry: Item) -> String {
        format!("{} {}", self.index(self.collected.keys.index(entry)), printed_key(self.collected.keys.bytes(entry)))
    }

    fn row_of(&self, table: Table, key: &[u8]) -> String {
        format!("{} {}", self.table(table), printed_key(key))
    }

    fn table(&self, table: Table) -> String {
        self.history.table_name(table).map_or_else(|| format!("table {}", table.0), str::to_owned)
    }

    fn index(&self, index: Index) -> String {
        match index.ordinal {
            0 => self.table(index.table),
            ordinal => format!("index {ordinal} of {}", self.table(index.table)),
        }
    }
}

fn name(transaction: u32) -> String {
    format!("T{}", transaction + 1)
}

fn outcome(transaction: &Transaction<'_>) -> String {
    match transaction.outcome() {
        Outcome::Committed(stamp) => format!("begun at {}, committed at {stamp}", transaction.begin()),
        Outcome::Aborted => format!("begun at {}, aborted", transaction.begin()),
    }
}

fn digest(value: Option<Digest>) -> String {
    value.map_or_else(|| "nothing".into(), |Digest(digest)| format!("#{digest:x}"))
}

/// A key as text if it is printable, as a number if it has the eight bytes of one, otherwise byte by byte.
pub(crate) fn printed_key(key: &[u8]) -> String {
    if !key.is_empty() && key.iter().all(|byte| byte.is_ascii_graphic()) {
        return format!("\"{}\"", String::from_utf8_lossy(key));
    }
    if let Ok(bytes) = key.try_into() {
        let number = u64::from_be_bytes(bytes);
        if number < 1 << 48 {
            return number.to_string();
        }
    }
    let mut hex = "x'".to_owned();
    for byte in key {
        let _ = write!(hex, "{byte:02x}");
    }
    hex + "'"
}

//! A judge that follows the definitions word by word, and takes cubic time.

use std::collections::{BTreeMap, BTreeSet};

use super::Edge;
use crate::{Digest, History, Index, Operation, ReadVersion, Stamp, graph::Kind, history::Table};

type Row = (Table, Vec<u8>);

/// `None`: from before the history.
type Writer = Option<u32>;

#[derive(Clone, Copy)]
struct Version {
    stamp: Stamp,
    writer: Writer,
    value: Option<Digest>,
    deleted_first: bool,
}

/// A birth or a death.
#[derive(Clone)]
struct Event {
    stamp: Stamp,
    writer: Writer,
    birth: bool,
    row: Row,
}

/// The reads and writes of a transaction so far.
#[derive(Default)]
struct Seen {
    /// Its commit stamp.
    end: Stamp,
    newest: BTreeMap<Row, Stamp>,
    touched: BTreeSet<Row>,
    written: BTreeSet<Row>,
    /// The reads since any other operation: those of a range are among them.
    run: BTreeSet<Row>,
}

/// The edges and anomalies of a history.
pub(super) struct Naive {
    /// Edges that must be in the graph.
    pub(super) needed: BTreeSet<Edge>,
    /// Edges that may be in the graph: those above, and those that follow from them.
    pub(super) allowed: BTreeSet<Edge>,
    /// Rows that a read should have shown.
    pub(super) missed: u64,
    transactions: usize,
    versions: BTreeMap<Row, Vec<Version>>,
    entries: BTreeMap<(Index, Vec<u8>), Vec<Event>>,
}

impl Naive {
    pub(super) fn of(history: &History) -> Self {
        let mut naive = Self {
            needed: BTreeSet::new(),
            allowed: BTreeSet::new(),
            missed: 0,
            transactions: history.committed(),
            versions: versions(history),
            entries: BTreeMap::new(),
        };
        naive.entries = entries(history, &naive.versions);
        for versions in naive.versions.clone().values() {
            let writers: Vec<_> = versions.iter().filter_map(|version| version.writer).collect();
            for pair in writers.windows(2) {
                naive.add(pair[0], pair[1], Kind::WriteWrite, true);
            }
        }
        for me in 0..history.committed() {
            naive.transaction(history, me);
        }
        naive
    }

    fn add(&mut self, from: u32, to: u32, kind: Kind, needed: bool) {
        if from != to {
            self.allowed.insert((from, to, kind));
            if needed {
                self.needed.insert((from, to, kind));
            }
        }
    }

    fn transaction(&mut self, history: &History, me: usize) {
        let mut seen = Seen { end: history.transaction(me).stamp().unwrap(), ..Seen::default() };
        for operation in history.transaction(me).operations() {
            match operation {
                Operation::Read { table, key, version, .. } => {
                    let row = (table, key.to_vec());
                    seen.touched.insert(row.clone());
                    seen.run.insert(row.clone());
                    if version != ReadVersion::Own {
                        let stamp = self.read(me as u32, &row, version);
                        let known = seen.newest.entry(row).or_insert(stamp);
                        *known = stamp.max(*known);
                    }
                }
                Operation::Write { table, key, .. } => {
                    seen.touched.insert((table, key.to_vec()));
                    seen.written.insert((table, key.to_vec()));
                    seen.run.clear();
                }
                Operation::Entry { .. } => {}
                Operation::Range { index, lower, upper, at } => {
                    let inside = |entry: &[u8]| entry >= lower && upper.is_none_or(|upper| entry < upper);
                    let all = self.entries.clone();
                    for ((_, _), events) in all.iter().filter(|((of, entry), _)| *of == index && inside(entry)) {
                        self.entry(me as u32, events, at, &seen);
                    }
                    seen.run.clear();
                }
            }
        }
    }

    /// The stamp of the version that was read.
    fn read(&mut self, me: u32, row: &Row, version: ReadVersion) -> Stamp {
        let versions = self.versions.get(row).cloned().unwrap_or_default();
        let mut seen = match version {
            ReadVersion::At(stamp) => versions.iter().rposition(|version| version.stamp == stamp),
            ReadVersion::Missing(at) => versions.iter().rposition(|version| version.stamp < at),
            ReadVersion::Own => unreachable!(),
        };
        if let ReadVersion::Missing(_) = version
            && seen.is_some_and(|seen| versions[seen].value.is_some())
        {
            self.missed += 1;
            while let Some(live) = seen.filter(|&seen| versions[seen].value.is_some()) {
                seen = live.checked_sub(1);
            }
        }
        if let Some(writer) = seen.and_then(|seen| versions[seen].writer) {
            self.add(writer, me, Kind::WriteRead, true);
        }
        let mut later = versions[seen.map_or(0, |seen| seen + 1)..].iter();
        if let Some(writer) = later.find_map(|version| version.writer) {
            self.add(me, writer, Kind::ReadWrite, true);
        }
        seen.map_or(Stamp::ZERO, |seen| versions[seen].stamp)
    }

    fn entry(&mut self, me: u32, events: &[Event], at: Stamp, seen: &Seen) {
        let Seen { end, newest, touched, written, run } = seen;
        let mut first = true;
        for event in events.iter().filter(|event| event.birth && event.stamp >= at) {
            let Some(writer) = event.writer else { continue };
            let read = newest.get(&event.row);
            // The transaction's own write hides the row; the edges to later changes follow from that write.
            let hidden = written.contains(&event.row);
            if read.is_none_or(|&read| read < event.stamp) && !(hidden && event.stamp < *end) {
                self.add(me, writer, Kind::PredicateReadWrite, first && read.is_none() && !hidden);
            }
            first = false;
        }
        let last = events.iter().rposition(|event| event.stamp < at);
        let last_death = events.iter().rposition(|event| !event.birth && event.stamp < at);
        for (number, event) in events.iter().enumerate().filter(|(_, event)| !event.birth && event.stamp < at) {
            let Some(writer) = event.writer else { continue };
            let is_read = newest.get(&event.row).is_some_and(|&read| read >= event.stamp);
            let read_before = newest.get(&event.row).is_some_and(|&read| read < event.stamp);
            if read_before && run.contains(&event.row) {
                continue;
            }
            self.add(writer, me, Kind::PredicateWriteRead, Some(number) == last_death && !is_read);
        }
        if let Some(birth) = last.map(|last| &events[last]).filter(|event| event.birth)
            && !touched.contains(&birth.row)
        {
            self.missed += 1;
            let first_writer = || self.versions[&birth.row].iter().find_map(|version| version.writer);
            if let Some(writer) = birth.writer.or_else(first_writer) {
                self.add(me, writer, Kind::PredicateReadWrite, true);
            }
        }
    }

    /// The transitive closure over edges of these kinds.
    pub(super) fn closure(&self, kinds: &[Kind]) -> Vec<Vec<bool>> {
        let edges = self.allowed.iter().filter(|(.., kind)| kinds.contains(kind));
        self.transitive(edges.map(|&(from, to, _)| (from, to)))
    }

    /// The transitive closure over dependencies, each optionally followed by an anti-dependency (Cerone and Gotsman
    /// 2016).
    pub(super) fn closure_apart(&self) -> Vec<Vec<bool>> {
        let (antis, others): (Vec<Edge>, Vec<Edge>) = self.allowed.iter().partition(|(.., kind)| kind.is_anti());
        let followed = others.iter().flat_map(|&(from, over, _)| {
            antis.iter().filter(move |anti| anti.0 == over).map(move |anti| (from, anti.1))
        });
        self.transitive(others.iter().map(|&(from, to, _)| (from, to)).chain(followed))
    }

    fn transitive(&self, edges: impl Iterator<Item = (u32, u32)>) -> Vec<Vec<bool>> {
        let mut reach = vec![vec![false; self.transactions]; self.transactions];
        for (from, to) in edges {
            reach[from as usize][to as usize] = true;
        }
        for over in 0..self.transactions {
            for from in 0..self.transactions {
                for to in 0..self.transactions {
                    reach[from][to] |= reach[from][over] && reach[over][to];
                }
            }
        }
        reach
    }
}

fn versions(history: &History) -> BTreeMap<Row, Vec<Version>> {
    let mut versions: BTreeMap<Row, Vec<Version>> = BTreeMap::new();
    for (me, transaction) in history.transactions().take(history.committed()).enumerate() {
        let mine = transaction.stamp().unwrap();
        for operation in transaction.operations() {
            let (row, version) = match operation {
                Operation::Write { table, key, value } => {
                    let version =
                        Version { stamp: mine, writer: Some(me as u32), value, deleted_first: value.is_none() };
                    ((table, key.to_vec()), version)
                }
                Operation::Read { table, key, version: ReadVersion::At(stamp), value }
                    if stamp > Stamp::ZERO && stamp < history.begin_min() =>
                {
                    ((table, key.to_vec()), Version { stamp, writer: None, value, deleted_first: false })
                }
                _ => continue,
            };
            let versions = versions.entry(row).or_default();
            match versions.iter_mut().find(|known| known.stamp == version.stamp) {
                Some(known) => known.value = version.value,
                None => versions.push(version),
            }
        }
    }
    for versions in versions.values_mut() {
        versions.sort_by_key(|version| version.stamp);
    }
    versions
}

fn entries(history: &History, versions: &BTreeMap<Row, Vec<Version>>) -> BTreeMap<(Index, Vec<u8>), Vec<Event>> {
    let mut entries: BTreeMap<_, Vec<Event>> = BTreeMap::new();
    for (row, versions) in versions {
        let mut live = versions[0].deleted_first && versions[0].writer.is_some();
        let initial = Event { stamp: Stamp::ZERO, writer: None, birth: true, row: row.clone() };
        let mut events: Vec<_> = live.then_some(initial).into_iter().collect();
        for &Version { stamp, writer, value, .. } in versions {
            if live != value.is_some() {
                live = value.is_some();
                events.push(Event { stamp, writer, birth: live, row: row.clone() });
            }
        }
        entries.insert((Index::primary(row.0), row.1.clone()), events);
    }
    for (me, transaction) in history.transactions().take(history.committed()).enumerate() {
        let mut changes: BTreeMap<_, (bool, bool)> = BTreeMap::new();
        for operation in transaction.operations() {
            if let Operation::Entry { index, entry, present } = operation {
                changes.entry((index, entry.to_vec())).or_insert((!present, present)).1 = present;
            }
        }
        for ((index, entry), (before, after)) in changes.into_iter().filter(|(_, (before, after))| before != after) {
            let row = (index.table, entry[1..].to_vec());
            let events = entries.entry((index, entry)).or_default();
            if before && events.is_empty() {
                events.push(Event { stamp: Stamp::ZERO, writer: None, birth: true, row: row.clone() });
            }
            let (stamp, writer) = (transaction.stamp().unwrap(), Some(me as u32));
            events.push(Event { stamp, writer, birth: after, row });
        }
    }
    entries
}

/// Formats a history for a failure message.
pub(super) fn printed(history: &History) -> String {
    let mut text = String::new();
    for (at, transaction) in history.transactions().enumerate() {
        text += &format!("T{} begin {} {:?}\n", at + 1, transaction.begin(), transaction.outcome());
        for operation in transaction.operations() {
            text += &format!("    {operation:?}\n");
        }
    }
    text
}

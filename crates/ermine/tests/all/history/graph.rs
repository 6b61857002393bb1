//! The judge of a history: the direct serialization graph of the committed transactions, and its cycles (Adya 1999,
//! chapter 4).
//!
//! Method. The versions of a key are ordered by the stamps of their writers; a read names the version it saw by its
//! value. A read that did *not* see a key (a miss, a scan that passed it by) saw some version that lies outside its
//! range, a missing row among them; which one follows from the snapshot. The snapshot is not asked of the engine: it is
//! every place in the order of commits at which all reads of the transaction are true at once, and which agrees with
//! the set of transactions that had committed before it began. Where several versions remain, the edges drawn are those
//! that follow from any of them. So no cycle is found where there is none, whatever the engine did; a wrong stamp can
//! only add cycles.
//!
//! Where levels mix, the graph is that of Adya 1999, section 5.5: the reads of a transaction that asked for less than
//! its scheme promises draw no rw edge.
//!
//! Order. A transaction that asked for strict order comes after every one whose commit had returned before it began;
//! one that asked for session order comes after those of its session. These are edges as well ([`Kind::Order`]). Most
//! schemes keep strict order whichever order was asked for.
//!
//! Edges: ww to the next writer of a key; wr from the writer that made a read's result true; rw to the writer that made
//! it untrue. For a key that was not seen these are the writers that moved it out of the range and into it, so that a
//! write which changes no scan's result draws no edge.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;

use ermine::{Order, Scheme};

use super::{Read, Record, State, Through};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    WriteWrite,
    WriteRead,
    ReadWrite,
    /// An edge of time: from a transaction to the moment at which its commit returned, on to later moments, and to a
    /// transaction that began after that. A moment is a node numbered after those of the transactions.
    Order,
}

/// `from` precedes `to` in every serial order. Transactions are numbered from 1, by their place in the order of
/// commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Edge {
    pub from: usize,
    pub to: usize,
    pub kind: Kind,
    pub table: usize,
    pub key: u64,
}

impl fmt::Display for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::WriteWrite => "ww",
            Kind::WriteRead => "wr",
            Kind::ReadWrite => "rw",
            Kind::Order => return write!(f, "T{} had committed when T{} began", self.from, self.to),
        };
        write!(f, "T{} -{kind}-> T{} (table {}, key {})", self.from, self.to, self.table, self.key)
    }
}

/// One version of a key: its writer (0 for the initial rows), and the value, if it is not a tombstone.
#[derive(Clone, Copy, Debug)]
struct Version {
    writer: usize,
    value: Option<u64>,
}

/// The implications of a transaction's reads for one key.
#[derive(Clone, Copy)]
enum Known<'r> {
    /// The key has this value.
    Is(u64),
    /// The key has a row.
    Present,
    /// No entry of the key lies in the range of this read.
    Outside(&'r Read),
}

impl Known<'_> {
    fn is_absence_by_group(self) -> bool {
        matches!(self, Known::Outside(Read::Range { through: Through::ByGroup, .. }))
    }

    fn holds_for(self, key: u64, value: Option<u64>) -> bool {
        match (self, value) {
            (Known::Is(known), value) => value == Some(known),
            (Known::Present, value) => value.is_some(),
            (Known::Outside(_), None) => true,
            (Known::Outside(Read::Range { through, lower, upper, .. }), Some(value)) => {
                !(*lower..=*upper).contains(&through.entry(key, value))
            }
            (Known::Outside(Read::Present { .. }), Some(_)) => unreachable!("only ranges leave keys outside"),
        }
    }
}

/// A history of committed transactions, ordered by commit.
pub struct History<'h> {
    records: Vec<&'h Record>,
    versions: BTreeMap<(usize, u64), Vec<Version>>,
    scheme: Scheme,
    snapshots: bool,
    /// Nothing follows from rows that a scan of a secondary index does not show. Where only read committed is promised,
    /// a row may move from a place ahead of the scan to one behind it.
    pub permit_torn_scans: bool,
    /// (moment at which a commit had returned, the highest place of the commits that had returned by then), ascending.
    returned: Vec<(u64, usize)>,
    /// (moment at which a commit was called, the lowest place of the commits called then or later), ascending.
    called: Vec<(u64, usize)>,
}

impl<'h> History<'h> {
    /// Returns the history of transactions under a scheme.
    pub fn new(initial: &State, records: impl IntoIterator<Item = &'h Record>, scheme: Scheme) -> Self {
        let snapshots = scheme.reads_snapshot();
        let mut records: Vec<_> = records.into_iter().collect();
        // A transaction that wrote nothing may have the stamp of its beginning, which a writer may have too.
        records.sort_by_key(|record| (record.stamp, !record.writes.is_empty()));
        let writers: Vec<_> = records.iter().filter(|record| !record.writes.is_empty()).collect();
        // Under single-version schemes two transactions that write no row in common may share a stamp, which orders
        // dependent ones.
        for pair in writers.windows(2).filter(|_| scheme.has_versions()) {
            assert_ne!(pair[0].stamp, pair[1].stamp, "two commits with one stamp");
        }
        let mut versions: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (at, record) in records.iter().enumerate() {
            for (&(table, key), &value) in &record.writes {
                let start = || vec![Version { writer: 0, value: initial[table].get(&key).copied() }];
                let versions = versions.entry((table, key)).or_insert_with(start);
                let before = versions.last().map_or(0, |version| version.writer);
                let is_later = before == 0 || records[before - 1].stamp < record.stamp;
                assert!(is_later, "two versions of {key} in table {table} with one stamp");
                versions.push(Version { writer: at + 1, value });
            }
        }
        let moments = records.iter().enumerate().filter(|(_, record)| !record.writes.is_empty()).map(|(at, record)| {
            let (called, returned) = record.committed.expect("only what committed is judged");
            (called, returned, at + 1)
        });
        let moments: Vec<_> = moments.collect();
        let mut returned: Vec<_> = moments.iter().map(|&(_, returned, at)| (returned, at)).collect();
        returned.sort_unstable();
        for at in 1..returned.len() {
            returned[at].1 = returned[at].1.max(returned[at - 1].1);
        }
        let mut called: Vec<_> = moments.iter().map(|&(called, _, at)| (called, at)).collect();
        called.sort_unstable();
        for at in (1..called.len()).rev() {
            called[at - 1].1 = called[at - 1].1.min(called[at].1);
        }
        Self { records, versions, scheme, snapshots, permit_torn_scans: false, returned, called }
    }

    /// Returns the rows that the commits leave behind, to compare with the database.
    pub fn last_rows(&self, initial: &State) -> State {
        let mut state = initial.clone();
        for (&(table, key), versions) in &self.versions {
            match versions.last().unwrap().value {
                Some(value) => state[table].insert(key, value),
                None => state[table].remove(&key),
            };
        }
        state
    }

    /// Returns what the reads of a transaction imply, key by key, for the keys that ever change.
    fn knowledge<'r>(&self, record: &'r Record) -> Vec<((usize, u64), Known<'r>)> {
        let mut knowledge = Vec::new();
        for read in &record.reads {
            match read {
                Read::Present { table, key } => knowledge.push(((*table, *key), Known::Present)),
                Read::Range { table, through, lower, upper, seen, own } => {
                    let (from, to) = match through {
                        Through::Primary => (lower.0, upper.0),
                        Through::ByGroup => (0, u64::MAX),
                    };
                    for (&(_, key), _) in self.versions.range((*table, from)..=(*table, to)) {
                        let shown = seen.iter().find(|row| row.0 == key);
                        if !own.contains(&key) {
                            let known = shown.map_or(Known::Outside(read), |&(_, value)| Known::Is(value));
                            knowledge.push(((*table, key), known));
                        }
                    }
                }
            }
        }
        knowledge.retain(|(place, _)| self.versions.contains_key(place));
        knowledge
    }

    /// Returns the lowest and the highest snapshot (the number of commits it shows) at which all reads are true; `None`
    /// if no snapshot shows all that the transaction has read.
    pub fn snapshot(&self, record: &Record) -> Option<(usize, usize)> {
        let finished = self.returned.partition_point(|&(moment, _)| moment < record.begun.0);
        let is_old = record.is_snapshot && self.order(record) != Order::Strict;
        let mut lowest = if finished == 0 || is_old { 0 } else { self.returned[finished - 1].1 };
        let later = self.called.partition_point(|&(moment, _)| moment < record.begun.1);
        let mut highest = self.called.get(later).map_or(self.records.len(), |&(_, place)| place - 1);
        let knowledge = self.knowledge(record);
        let holds = |snapshot: usize| {
            knowledge.iter().all(|&(place, known)| {
                let versions = &self.versions[&place];
                let visible = versions.partition_point(|version| version.writer <= snapshot) - 1;
                known.holds_for(place.1, versions[visible].value)
            })
        };
        while lowest <= highest && !holds(lowest) {
            lowest += 1;
        }
        while lowest < highest && !holds(highest) {
            highest -= 1;
        }
        (lowest <= highest).then_some((lowest, highest))
    }

    /// Returns all edges of the graph; fails with the transaction that read an uncommitted value, or what no snapshot
    /// shows.
    pub fn edges(&self) -> Result<Vec<Edge>, String> {
        let mut edges = Vec::new();
        for (&(table, key), versions) in &self.versions {
            for pair in versions.windows(2) {
                edges.push(Edge { from: pair[0].writer, to: pair[1].writer, kind: Kind::WriteWrite, table, key });
            }
        }
        for (at, record) in self.records.iter().enumerate() {
            let reader = at + 1;
            let (lowest, highest) = if self.snapshots || record.relaxed {
                self.snapshot(record).ok_or_else(|| format!("T{reader} has read what no snapshot shows: {record:?}"))?
            } else {
                (0, self.records.len())
            };
            for ((table, key), known) in self.knowledge(record) {
                if self.permit_torn_scans && known.is_absence_by_group() {
                    continue;
                }
                let versions = &self.versions[&(table, key)];
                let holds = |at: &usize| known.holds_for(key, versions[*at].value);
                let first = versions.partition_point(|version| version.writer <= lowest) - 1;
                let last = versions.partition_point(|version| version.writer <= highest) - 1;
                let (Some(mut first), Some(mut last)) = ((first..=last).find(holds), (first..=last).rev().find(holds))
                else {
                    return Err(format!(
                        "T{reader} has read of {key} in table {table} what no transaction committed: {record:?}"
                    ));
                };
                while first > 0 && holds(&(first - 1)) {
                    first -= 1;
                }
                while last + 1 < versions.len() && holds(&(last + 1)) {
                    last += 1;
                }
                edges.push(Edge { from: versions[first].writer, to: reader, kind: Kind::WriteRead, table, key });
                // A transaction that asked for less need not precede those that change the rows it has read.
                if let Some(next) = versions.get(last + 1)
                    && !record.relaxed
                {
                    edges.push(Edge { from: reader, to: next.writer, kind: Kind::ReadWrite, table, key });
                }
            }
        }
        edges.retain(|edge| edge.from != edge.to && edge.from != 0);
        edges.sort_unstable();
        edges.dedup_by_key(|edge| (edge.from, edge.to, edge.kind));
        Ok(edges)
    }

    /// Returns the order that a transaction was promised.
    fn order(&self, record: &Record) -> Order {
        let may_be_old = record.is_snapshot && self.scheme == Scheme::SiSsi;
        if self.scheme.has_orders() || may_be_old { record.order } else { Order::Strict }
    }

    /// Returns the edges of time, and the number of nodes, moments included.
    fn order_edges(&self) -> (Vec<Edge>, usize) {
        let edge = |from, to| Edge { from, to, kind: Kind::Order, table: 0, key: 0 };
        let mut edges = Vec::new();
        let mut ended: Vec<_> = self
            .records
            .iter()
            .enumerate()
            .map(|(at, record)| (record.committed.expect("it is judged").1, at + 1))
            .collect();
        ended.sort_unstable();
        let moment = |at: usize| self.records.len() + 1 + at;
        for (at, &(_, node)) in ended.iter().enumerate() {
            edges.push(edge(node, moment(at)));
            if at > 0 {
                edges.push(edge(moment(at - 1), moment(at)));
            }
        }
        for (at, record) in self.records.iter().enumerate() {
            match self.order(record) {
                Order::Strict => {
                    let before = ended.partition_point(|&(returned, _)| returned < record.begun.0);
                    edges.extend((before > 0).then(|| edge(moment(before - 1), at + 1)));
                }
                Order::Session => {
                    let is_before = |other: &Record| other.name.0 == record.name.0 && other.name.1 < record.name.1;
                    let earlier = self.records.iter().enumerate().filter(|(_, other)| is_before(other));
                    edges.extend(earlier.map(|(other, _)| edge(other + 1, at + 1)));
                }
                Order::None => {}
            }
        }
        (edges, self.records.len() + 1 + ended.len())
    }

    /// Finds the history's cycles, by their meaning.
    pub fn judge(&self) -> Result<Verdict, String> {
        let edges = self.edges()?;
        let (mut all, nodes) = self.order_edges();
        all.extend(&edges);
        let graph = Graph::new(nodes, &all);
        let dependency = |edge: &Edge| edge.kind != Kind::ReadWrite;
        let any = |_: &Edge| true;
        let mut verdict = Verdict::default();
        // A transaction that follows a write, and writes, commits after it.
        let writes = |edge: &Edge| !self.records[edge.to - 1].writes.is_empty();
        let effect_first = match self.scheme.has_versions() {
            true => edges.iter().find(|edge| dependency(edge) && edge.from > edge.to && writes(edge)),
            false => edges.iter().find(|edge| self.is_in_later_epoch(edge)),
        };
        verdict.information_flow = effect_first.map(|&edge| graph.closing(edge, dependency).unwrap_or(vec![edge]));
        let anti = edges.iter().filter(|edge| !dependency(edge));
        verdict.single = anti.clone().find_map(|&edge| graph.closing(edge, dependency));
        // The shortest of a hundred cycles is short enough.
        verdict.cycle = anti.filter_map(|&edge| graph.closing(edge, any)).take(100).min_by_key(Vec::len);
        Ok(verdict)
    }

    /// Whether of two writers, under a scheme with one version per row, the later one in serial order has the lower
    /// epoch: then a recovery of whole epochs may have the later one without the other. Timestamp ordering does not
    /// promise this for a reader.
    fn is_in_later_epoch(&self, edge: &Edge) -> bool {
        const SEQUENCE_BITS: u32 = 25;
        let is_promised = edge.kind != Kind::ReadWrite
            || !matches!(self.scheme, Scheme::Sto | Scheme::Sto32 | Scheme::Tso | Scheme::TsoValidate);
        let [from, to] = [edge.from, edge.to].map(|at| self.records[at - 1]);
        let both_write = !from.writes.is_empty() && !to.writes.is_empty();
        is_promised && both_write && from.stamp >> SEQUENCE_BITS > to.stamp >> SEQUENCE_BITS
    }

    /// Describes a cycle and the transactions in it, for a message.
    pub fn explain(&self, cycle: &[Edge]) -> String {
        let mut text = String::new();
        let is_moment = |node: usize| node > self.records.len();
        let mut since = 0;
        for &edge in cycle.iter().cycle().skip_while(|edge| is_moment(edge.from)).take(cycle.len()) {
            if !is_moment(edge.from) {
                since = edge.from;
            }
            if !is_moment(edge.to) {
                text += &format!("\n  {}", Edge { from: since, ..edge });
            }
        }
        for edge in cycle.iter().filter(|edge| !is_moment(edge.from)) {
            let record = self.records[edge.from - 1];
            let (session, at) = record.name;
            text += &format!("\n  T{}, number {at} of session {session}: {record:?}", edge.from);
        }
        text
    }
}

/// The cycles that were found, the shortest example of each kind.
#[derive(Debug, Default)]
pub struct Verdict {
    /// A cycle without anti-dependencies, or an effect that committed before its cause (G0, G1c): forbidden everywhere.
    pub information_flow: Option<Vec<Edge>>,
    /// A cycle with exactly one anti-dependency (G-single): forbidden where transactions read snapshots.
    pub single: Option<Vec<Edge>>,
    /// Any cycle (G2, or one that time closes): forbidden under a serializable scheme.
    pub cycle: Option<Vec<Edge>>,
}

struct Graph<'e> {
    out: Vec<Vec<&'e Edge>>,
    /// The component that a transaction lies in: cycles never leave their component.
    component: Vec<usize>,
}

impl<'e> Graph<'e> {
    fn new(nodes: usize, edges: &'e [Edge]) -> Self {
        let mut out = vec![Vec::new(); nodes];
        for edge in edges {
            out[edge.from].push(edge);
        }
        let component = components(&out);
        Self { out, component }
    }

    /// Returns the shortest cycle through `edge` whose other edges all pass `allowed`.
    fn closing(&self, edge: Edge, allowed: impl Fn(&Edge) -> bool) -> Option<Vec<Edge>> {
        let home = self.component[edge.from];
        if self.component[edge.to] != home {
            return None;
        }
        let mut came_by: HashMap<usize, Edge> = HashMap::new();
        let mut queue = VecDeque::from([edge.to]);
        while let Some(node) = queue.pop_front() {
            if node == edge.from {
                let mut cycle = Vec::new();
                let mut at = node;
                while at != edge.to {
                    let step = came_by[&at];
                    cycle.push(step);
                    at = step.from;
                }
                cycle.push(edge);
                cycle.reverse();
                return Some(cycle);
            }
            for &&next in &self.out[node] {
                if allowed(&next)
                    && self.component[next.to] == home
                    && next.to != edge.to
                    && !came_by.contains_key(&next.to)
                {
                    came_by.insert(next.to, next);
                    queue.push_back(next.to);
                }
            }
        }
        None
    }
}

/// Returns the strongly connected component of every node (Tarjan 1972, without recursion).
fn components(out: &[Vec<&Edge>]) -> Vec<usize> {
    const NEW: usize = usize::MAX;
    let nodes = out.len();
    let (mut index, mut low, mut component) = (vec![NEW; nodes], vec![0; nodes], vec![NEW; nodes]);
    let (mut stack, mut path, mut next) = (Vec::new(), Vec::new(), 0);
    for root in 0..nodes {
        if index[root] == NEW {
            path.push((root, 0));
        }
        while let Some((node, edge)) = path.pop() {
            if edge == 0 {
                (index[node], low[node]) = (next, next);
                next += 1;
                stack.push(node);
            }
            if let Some(step) = out[node].get(edge) {
                path.push((node, edge + 1));
                if index[step.to] == NEW {
                    path.push((step.to, 0));
                } else if component[step.to] == NEW {
                    low[node] = low[node].min(index[step.to]);
                }
                continue;
            }
            if low[node] == index[node] {
                while let Some(member) = stack.pop() {
                    component[member] = node;
                    if member == node {
                        break;
                    }
                }
            }
            if let Some(&(parent, _)) = path.last() {
                low[parent] = low[parent].min(low[node]);
            }
        }
    }
    component
}

//! A serialization graph: transactions, their dependencies, and nodes that stand for many dependencies at once.
//!
//! Nodes are numbered; the first ones are transactions. The others are *auxiliary*: an edge that says "T precedes all
//! of these" enters one, and [`Kind::Chain`] edges lead on from there, so that thousands of dependencies take a handful
//! of edges. A path from a transaction over auxiliary nodes to the next transaction is one dependency, of the kind of
//! its first edge.
//!
//! Invariants
//! 1. Chains have no cycles of their own.
//! 2. A transaction reaches over auxiliary nodes alone only transactions that it precedes, never itself. So the
//!    auxiliary nodes change neither which cycles exist nor their names. The code that draws edges ensures this.

mod components;
mod nonadjacent;
mod order;
mod search;

pub(crate) use components::{Components, components};
pub(crate) use nonadjacent::nonadjacent_cycle;
pub(crate) use order::{Told, draw_order};
pub(crate) use search::{Antis, Budget, Cycle, Shape, Step, search};

/// A node: a transaction, or an auxiliary one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Node(pub(crate) u32);

impl Node {
    pub(crate) fn at(self) -> usize {
        self.0 as usize
    }
}

/// Why one transaction precedes another (Adya 1999, 4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// The second transaction overwrote a version that the first wrote.
    WriteWrite,
    /// The second transaction read a version that the first wrote.
    WriteRead,
    /// The second transaction scanned a range after the first had removed an entry from it.
    PredicateWriteRead,
    /// The second transaction overwrote a version that the first read.
    ReadWrite,
    /// The second transaction inserted an entry into a range after the first had scanned it.
    PredicateReadWrite,
    /// Both are of one process, the second after the first.
    Process,
    /// The first had ended before the second began.
    Realtime,
    /// Part of a path from or over an auxiliary node.
    Chain,
}

impl Kind {
    const ALL: [Self; 8] = [
        Self::WriteWrite,
        Self::WriteRead,
        Self::PredicateWriteRead,
        Self::ReadWrite,
        Self::PredicateReadWrite,
        Self::Process,
        Self::Realtime,
        Self::Chain,
    ];

    pub(crate) fn is_anti(self) -> bool {
        matches!(self, Self::ReadWrite | Self::PredicateReadWrite)
    }

    /// The notation between two transactions.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::WriteWrite => "ww",
            Self::WriteRead => "wr",
            Self::PredicateWriteRead => "wr (predicate)",
            Self::ReadWrite => "rw",
            Self::PredicateReadWrite => "rw (predicate)",
            Self::Process => "process",
            Self::Realtime => "realtime",
            Self::Chain => "..",
        }
    }
}

/// A set of kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kinds(u8);

impl Kinds {
    /// Chains are in every set: they belong to the edge that leads to them.
    pub(crate) const fn of(kinds: &[Kind]) -> Self {
        let (mut bits, mut at) = (1 << Kind::Chain as u8, 0);
        while at < kinds.len() {
            bits |= 1 << kinds[at] as u8;
            at += 1;
        }
        Self(bits)
    }

    pub(crate) const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    pub(crate) fn contain(self, kind: Kind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }
}

/// The target of an edge, and its kind, in one word.
#[derive(Clone, Copy, Debug)]
struct Target(u32);

impl Target {
    const KIND_BITS: u32 = 3;

    fn new(to: Node, kind: Kind) -> Self {
        Self(to.0 << Self::KIND_BITS | kind as u32)
    }

    fn node(self) -> Node {
        Node(self.0 >> Self::KIND_BITS)
    }

    fn kind(self) -> Kind {
        Kind::ALL[(self.0 & ((1 << Self::KIND_BITS) - 1)) as usize]
    }
}

/// Maximum number of nodes of a graph.
const NODES_MAX: u32 = 1 << (32 - Target::KIND_BITS);

/// A graph under construction.
#[derive(Debug)]
pub(crate) struct Drawing {
    transactions: u32,
    /// For each auxiliary node, a lower bound on the transactions that are reached from it over chains.
    least: Vec<Node>,
    edges: Vec<(Node, Target)>,
    /// Kinds of edges that lead to lower numbers; anti-dependencies are not considered.
    backward: Kinds,
}

impl Drawing {
    pub(crate) fn new(transactions: usize) -> Self {
        let transactions = transactions as u32;
        assert!(transactions < NODES_MAX, "a graph has less than 2^29 nodes");
        Self { transactions, least: Vec::new(), edges: Vec::new(), backward: Kinds::of(&[]) }
    }

    /// Adds an auxiliary node, from which chains lead to no transaction with a lower number than `least`.
    pub(crate) fn auxiliary(&mut self, least: Node) -> Node {
        let node = self.transactions as usize + self.least.len();
        assert!(node < NODES_MAX as usize, "a graph has less than 2^29 nodes");
        self.least.push(least);
        Node(node as u32)
    }

    pub(crate) fn edge(&mut self, from: Node, to: Node, kind: Kind) {
        debug_assert_ne!(from, to, "no transaction precedes itself");
        let between = to.0 < self.transactions && from.0 < self.transactions;
        if between && from > to && !kind.is_anti() {
            self.has_backward(kind);
        }
        self.edges.push((from, Target::new(to, kind)));
    }

    /// Notes that an edge of this kind leads, over auxiliary nodes, to a transaction with a lower number.
    pub(crate) fn has_backward(&mut self, kind: Kind) {
        self.backward = self.backward.and(Kinds::of(&[kind]));
    }

    /// Bytes of memory in use.
    pub(crate) fn bytes(&self) -> u64 {
        (self.edges.capacity() * size_of::<(Node, Target)>()) as u64
    }

    /// Finishes the graph.
    pub(crate) fn finish(self) -> Graph {
        let nodes = self.transactions as usize + self.least.len();
        let mut starts = vec![0; nodes + 1];
        for (from, _) in &self.edges {
            starts[from.at() + 1] += 1;
        }
        for node in 0..nodes {
            starts[node + 1] += starts[node];
        }
        let mut next = starts.clone();
        let mut targets = vec![Target(0); self.edges.len()];
        for &(from, target) in &self.edges {
            targets[next[from.at()] as usize] = target;
            next[from.at()] += 1;
        }
        Graph { transactions: self.transactions, least: self.least, starts, targets, backward: self.backward }
    }
}

/// A finished graph; the edges of a node are stored next to each other.
#[derive(Debug)]
pub(crate) struct Graph {
    transactions: u32,
    least: Vec<Node>,
    starts: Vec<u32>,
    targets: Vec<Target>,
    backward: Kinds,
}

impl Graph {
    pub(crate) fn nodes(&self) -> usize {
        self.starts.len() - 1
    }

    pub(crate) fn edge_count(&self) -> usize {
        self.targets.len()
    }

    pub(crate) fn is_transaction(&self, node: Node) -> bool {
        node.0 < self.transactions
    }

    /// Whether all edges of these kinds, except anti-dependencies, lead to transactions with higher numbers.
    pub(crate) fn is_forward(&self, kinds: Kinds) -> bool {
        Kind::ALL.iter().all(|&kind| kind == Kind::Chain || !kinds.contain(kind) || !self.backward.contain(kind))
    }

    /// A lower bound on the transactions that are reached from a node over chains, itself included.
    fn least(&self, node: Node) -> Node {
        if self.is_transaction(node) { node } else { self.least[(node.0 - self.transactions) as usize] }
    }

    fn edges_at(&self, node: Node) -> std::ops::Range<usize> {
        self.starts[node.at()] as usize..self.starts[node.at() + 1] as usize
    }

    pub(crate) fn edges(&self, node: Node) -> impl Iterator<Item = (Node, Kind)> {
        self.targets[self.edges_at(node)].iter().map(|target| (target.node(), target.kind()))
    }

    /// Whether there is an edge of one of these kinds, not counting those over auxiliary nodes.
    pub(crate) fn has_edge(&self, from: Node, to: Node, kinds: Kinds) -> bool {
        self.edges(from).any(|(node, kind)| node == to && kinds.contain(kind))
    }

    /// Bytes of memory in use.
    pub(crate) fn bytes(&self) -> u64 {
        (self.starts.capacity() * size_of::<u32>() + self.targets.capacity() * size_of::<Target>()) as u64
    }
}

//! The offline cycle test (SSN 7.2): trusts no scheme, and looks back without limit.
//!
//! The graph of the committed transactions has an edge from the creator of a version to each reader (w:r) and to the
//! transaction that overwrote it (w:w), and from each reader to the transaction that overwrote it (r:w). Its strongly
//! connected components of several transactions are the serialization failures (Tarjan 1972, without recursion).
//!
//! The paper counts transactions, not components: those in a component that also fail the exclusion window test. As it
//! says, this counts too many rather than too few, because the test has false positives; each component has at least
//! one. Here c(T) is the place in the order of commits, and pi and eta come from the whole graph.

use serde::Serialize;

use crate::history::{History, NONE};

/// Serialization failures of a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cycles {
    /// Strongly connected components of more than one transaction.
    pub components: u64,
    /// Transactions in them.
    pub members: u64,
    /// Those of the members that fail the exclusion window test: the paper's serialization failures.
    pub failures: u64,
}

/// Successors of each transaction, next to each other.
struct Graph {
    starts: Vec<u32>,
    successors: Vec<u32>,
}

impl Graph {
    fn of(history: &History) -> Self {
        let mut starts = vec![0; history.transactions() as usize + 1];
        each_edge(history, |from, _| starts[from as usize + 1] += 1);
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut next = starts.clone();
        let mut successors = vec![0; starts[starts.len() - 1] as usize];
        each_edge(history, |from, to| {
            let place = &mut next[from as usize];
            successors[*place as usize] = to;
            *place += 1;
        });
        Self { starts, successors }
    }

    fn nodes(&self) -> u32 {
        self.starts.len() as u32 - 1
    }

    fn of_node(&self, node: u32) -> &[u32] {
        &self.successors[self.starts[node as usize] as usize..self.starts[node as usize + 1] as usize]
    }
}

/// Visits all edges, some of them more than once.
fn each_edge(history: &History, mut visit: impl FnMut(u32, u32)) {
    let mut edge = |from: u32, to: u32| {
        if from != NONE && to != NONE && from != to {
            visit(from, to);
        }
    };
    for (&creator, &overwriter) in history.creators.iter().zip(&history.overwriters) {
        edge(creator, overwriter);
    }
    for reader in 0..history.transactions() {
        for version in history.reads(reader) {
            edge(history.creators[version.at()], reader);
            edge(reader, history.overwriters[version.at()]);
        }
    }
}

/// Searches a history for cycles.
pub(crate) fn cycles(history: &History) -> Cycles {
    let graph = Graph::of(history);
    let mut found = Cycles::default();
    let mut violations = None;
    components(&graph, |component| {
        let violations = violations.get_or_insert_with(|| violations_of(&graph));
        found.components += 1;
        found.members += component.len() as u64;
        found.failures += component.iter().filter(|&&member| violations[member as usize]).count() as u64;
    });
    found
}

/// Says of each transaction whether it fails the exclusion window test: pi(T) <= eta(T).
fn violations_of(graph: &Graph) -> Vec<bool> {
    let mut pi: Vec<u32> = (0..graph.nodes()).collect();
    // One more than the latest predecessor that committed earlier; zero if there is none.
    let mut eta = vec![0; pi.len()];
    for node in 0..graph.nodes() {
        for &successor in graph.of_node(node) {
            if successor < node {
                // A back edge: the successor committed first, and its pi is final.
                pi[node as usize] = pi[node as usize].min(pi[successor as usize]);
            } else {
                eta[successor as usize] = eta[successor as usize].max(node + 1);
            }
        }
    }
    pi.iter().zip(&eta).map(|(pi, eta)| pi < eta).collect()
}

const NEW: u32 = u32::MAX;
/// The lowest number of a node whose component is known.
const DONE: u32 = u32::MAX - 1;

/// Visits the components of more than one node.
fn components(graph: &Graph, mut visit: impl FnMut(&[u32])) {
    // The order of discovery, and the lowest number that is reachable from there.
    let (mut number, mut low) = (vec![NEW; graph.nodes() as usize], vec![NEW; graph.nodes() as usize]);
    // Nodes whose component is not known, and the path from the root: each node with the place of its next edge.
    let (mut open, mut path): (Vec<u32>, Vec<(u32, u32)>) = (Vec::new(), Vec::new());
    let mut discovered = 0;
    for root in 0..graph.nodes() {
        let mut entered = (number[root as usize] == NEW).then_some(root);
        while entered.is_some() || !path.is_empty() {
            if let Some(node) = entered.take() {
                (number[node as usize], low[node as usize]) = (discovered, discovered);
                discovered += 1;
                open.push(node);
                path.push((node, graph.starts[node as usize]));
            }
            let (node, edge) = path.last_mut().expect("a node was entered or is on the path");
            let node = *node;
            if *edge < graph.starts[node as usize + 1] {
                let to = graph.successors[*edge as usize];
                *edge += 1;
                if number[to as usize] == NEW {
                    entered = Some(to);
                } else if low[to as usize] != DONE {
                    low[node as usize] = low[node as usize].min(number[to as usize]);
                }
                continue;
            }
            path.pop();
            if let Some(&(before, _)) = path.last() {
                low[before as usize] = low[before as usize].min(low[node as usize]);
            }
            if low[node as usize] == number[node as usize] {
                let first = open.iter().rposition(|&above| above == node).expect("a node stays open until it is done");
                for &member in &open[first..] {
                    low[member as usize] = DONE;
                }
                if open.len() - first > 1 {
                    visit(&open[first..]);
                }
                open.truncate(first);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(nodes: u32, edges: &[(u32, u32)]) -> Graph {
        let mut sorted = edges.to_vec();
        sorted.sort_unstable();
        let starts = (0..=nodes).map(|node| sorted.partition_point(|&(from, _)| from < node) as u32).collect();
        Graph { starts, successors: sorted.iter().map(|&(_, to)| to).collect() }
    }

    #[test]
    fn components_agree_with_reachability() {
        let mut random = fastrand::Rng::with_seed(7);
        for round in 0..2000 {
            let nodes = random.u32(1..9);
            let edge = |random: &mut fastrand::Rng| (random.u32(0..nodes), random.u32(0..nodes));
            let edges: Vec<_> = (0..random.u32(0..16)).map(|_| edge(&mut random)).filter(|(a, b)| a != b).collect();
            let mut reach = vec![vec![false; nodes as usize]; nodes as usize];
            for &(from, to) in &edges {
                reach[from as usize][to as usize] = true;
            }
            for via in 0..nodes as usize {
                for from in 0..nodes as usize {
                    for to in 0..nodes as usize {
                        reach[from][to] |= reach[from][via] && reach[via][to];
                    }
                }
            }
            let mut in_cycle = vec![false; nodes as usize];
            components(&graph(nodes, &edges), |component| {
                for &one in component {
                    in_cycle[one as usize] = true;
                    assert!(component.iter().all(|&other| reach[one as usize][other as usize]), "round {round}");
                }
            });
            let expected: Vec<_> = (0..nodes as usize).map(|node| reach[node][node]).collect();
            assert_eq!(in_cycle, expected, "round {round}: {edges:?}");
        }
    }

    #[test]
    fn a_long_chain_needs_no_recursion() {
        let nodes = 1_000_000;
        let mut edges: Vec<_> = (1..nodes).map(|node| (node - 1, node)).collect();
        edges.push((nodes - 1, 0));
        let mut sizes = Vec::new();
        components(&graph(nodes, &edges), |component| sizes.push(component.len()));
        assert_eq!(sizes, [nodes as usize]);
    }
}

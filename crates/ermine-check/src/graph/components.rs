//! Strongly connected components in linear time (Tarjan 1972), without recursion.

use super::{Graph, Kinds, Node};

/// The components in which there are cycles.
#[derive(Debug)]
pub(crate) struct Components {
    /// Nodes, component by component.
    nodes: Vec<Node>,
    starts: Vec<usize>,
}

impl Components {
    /// The components, each with its nodes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[Node]> {
        self.starts.windows(2).map(|ends| &self.nodes[ends[0]..ends[1]])
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

const NEW: u32 = u32::MAX;
/// The lowest number of a node whose component is known.
const DONE: u32 = u32::MAX - 1;

/// Finds the components of more than one node, over edges of these kinds. `tick` receives the number of nodes that are
/// done.
pub(crate) fn components(graph: &Graph, kinds: Kinds, mut tick: impl FnMut(u64)) -> Components {
    let nodes = graph.nodes();
    let mut found = Components { nodes: Vec::new(), starts: vec![0] };
    // Order of discovery, and the lowest number reachable from there; `DONE` excludes a node.
    let (mut number, mut low) = (vec![NEW; nodes], vec![NEW; nodes]);
    let (mut stack, mut path): (Vec<Node>, Vec<(Node, usize)>) = (Vec::new(), Vec::new());
    let mut next = 0;
    for root in (0..nodes as u32).map(Node) {
        if root.0.is_multiple_of(1 << 16) {
            tick(root.0.into());
        }
        if number[root.at()] != NEW {
            continue;
        }
        path.push((root, graph.edges_at(root).start));
        (number[root.at()], low[root.at()]) = (next, next);
        next += 1;
        stack.push(root);
        while let Some(&mut (node, ref mut edge)) = path.last_mut() {
            if *edge < graph.edges_at(node).end {
                let target = graph.targets[*edge];
                *edge += 1;
                let to = target.node();
                if !kinds.contain(target.kind()) {
                    continue;
                }
                if number[to.at()] == NEW {
                    (number[to.at()], low[to.at()]) = (next, next);
                    next += 1;
                    stack.push(to);
                    path.push((to, graph.edges_at(to).start));
                } else if low[to.at()] != DONE {
                    low[node.at()] = low[node.at()].min(number[to.at()]);
                }
                continue;
            }
            path.pop();
            if let Some(&(before, _)) = path.last() {
                low[before.at()] = low[before.at()].min(low[node.at()]);
            }
            if low[node.at()] == number[node.at()] {
                let first = stack.iter().rposition(|&above| above == node).expect("a node stays until it is done");
                for member in &stack[first..] {
                    low[member.at()] = DONE;
                }
                if stack.len() - first > 1 {
                    found.nodes.extend_from_slice(&stack[first..]);
                    found.starts.push(found.nodes.len());
                }
                stack.truncate(first);
            }
        }
    }
    found
}

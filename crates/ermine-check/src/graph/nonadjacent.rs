//! Decides whether a graph has a cycle without two anti-dependencies next to each other, exactly and in linear time.
//!
//! Snapshot isolation forbids these cycles and no others (Cerone and Gotsman 2016). They are the cycles of another
//! graph with two nodes for each node: an anti-dependency leads from the first node of a transaction to the second node
//! of another, any other dependency leads from both nodes to the first. A path over auxiliary nodes stays on its side.

use super::{Antis, Budget, Cycle, Drawing, Graph, Kind, Kinds, Node, Shape, Step, components, search};

/// A cycle over edges of these kinds in which no two anti-dependencies follow each other, if there is one.
pub(crate) fn nonadjacent_cycle(graph: &Graph, kinds: Kinds) -> Option<Cycle> {
    let doubled = doubled(graph, kinds);
    let found = components(&doubled, kinds, |_| ());
    let shape = Shape { one: kinds, others: kinds, antis: Antis::Any };
    let walk = search(&doubled, found.iter(), shape, &mut Budget::one_search(&doubled), |_| true)?;
    let single = |node: Node| Node(node.0 / 2);
    let walk = walk.iter().map(|step| Step { from: single(step.from), to: single(step.to), kind: step.kind });
    Some(simple(walk.collect()))
}

fn doubled(graph: &Graph, kinds: Kinds) -> Graph {
    let mut drawing = Drawing::new(2 * graph.transactions as usize);
    for _ in graph.transactions as usize..graph.nodes() {
        drawing.auxiliary(Node(0));
        drawing.auxiliary(Node(0));
    }
    for from in (0..graph.nodes() as u32).map(Node) {
        for (to, kind) in graph.edges(from).filter(|&(_, kind)| kinds.contain(kind)) {
            let mut edge = |from_second: u32, to_second: u32| {
                drawing.edge(Node(2 * from.0 + from_second), Node(2 * to.0 + to_second), kind);
            };
            match kind {
                Kind::Chain => [0, 1].into_iter().for_each(|second| edge(second, second)),
                _ if kind.is_anti() => edge(0, 1),
                _ => [0, 1].into_iter().for_each(|second| edge(second, 0)),
            }
        }
    }
    drawing.finish()
}

/// A closed walk without two anti-dependencies next to each other has a part that visits no transaction twice and is
/// such a walk: a transaction that is visited twice divides the walk into two parts, of which only one can have
/// anti-dependencies on both sides of that transaction.
fn simple(mut walk: Cycle) -> Cycle {
    loop {
        let twice = (0..walk.len()).find_map(|end| {
            let start = (0..end).find(|&start| walk[start].from == walk[end].from)?;
            Some((start, end))
        });
        let Some((start, end)) = twice else { return walk };
        let inner: Cycle = walk.drain(start..end).collect();
        let (first, last) = (inner[0], inner[inner.len() - 1]);
        if !(first.kind.is_anti() && last.kind.is_anti()) {
            walk = inner;
        }
    }
}

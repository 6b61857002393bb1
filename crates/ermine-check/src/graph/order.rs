//! The order of processes and of real time, in linear size.
//!
//! Real-time order has an edge from each transaction that had ended to each one that began later: quadratically many.
//! It is drawn over a chain of auxiliary nodes, barriers: a transaction leads to the first barrier after its end, a
//! barrier to the next one and to the transactions that began between the two. The order of a process is the same among
//! its transactions.
//!
//! ```text
//!     T1 ended   T2 ended        T3 began       T4 ended        T5 began
//!         \          |             ^                |              ^
//!          +---------+--> barrier -+----------------+--> barrier --+
//! ```
//!
//! No transaction reaches itself: it ended after it had begun.

use std::collections::BTreeMap;

use super::{Drawing, Kind, Node};
use crate::history::{Moment, Order, Process, TransactionContext};

/// The orders that a history has enough information for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// The process of every transaction is known.
    pub(crate) process: bool,
    /// The beginning of every transaction is known.
    pub(crate) realtime: bool,
}

/// Moments of transactions.
type Moments = Vec<(Moment, Node)>;

/// Draws the orders of the transactions of a graph; those without a context are not in it.
pub(crate) fn draw_order(drawing: &mut Drawing, context: impl Iterator<Item = Option<TransactionContext>>) -> Told {
    let mut all = (Moments::new(), Moments::new());
    let mut processes: BTreeMap<Process, (Moments, Moments)> = BTreeMap::new();
    let mut told = Told { process: true, realtime: true };
    for (node, context) in context.enumerate() {
        let Some(TransactionContext { process, began, ended, order, .. }) = context else { continue };
        let at = |moment| (moment, Node(node as u32));
        told.process &= process.is_some() && began.is_some();
        told.realtime &= began.is_some();
        all.0.extend(began.filter(|_| order >= Order::Realtime).map(at));
        all.1.extend(ended.map(at));
        if let Some(process) = process {
            let (begins, ends) = processes.entry(process).or_default();
            begins.extend(began.filter(|_| order >= Order::Process).map(at));
            ends.extend(ended.map(at));
        }
    }
    draw(drawing, Kind::Realtime, all);
    for transactions in processes.into_values() {
        draw(drawing, Kind::Process, transactions);
    }
    told
}

/// Ends, and the beginnings that follow them before the next end.
struct Barrier<'t> {
    ends: &'t [(Moment, Node)],
    begins: &'t [(Moment, Node)],
}

fn draw(drawing: &mut Drawing, kind: Kind, (mut begins, mut ends): (Moments, Moments)) {
    begins.sort_unstable();
    ends.sort_unstable();
    let (mut begins, mut ends) = (&begins[..], &ends[..]);
    let mut barriers = Vec::new();
    while let Some(&(began, _)) = begins.first() {
        let ended = ends.partition_point(|&(ended, _)| ended < began);
        let (before, later) = ends.split_at(ended);
        let next_end = later.first().map_or(Moment(u64::MAX), |&(moment, _)| moment);
        let (behind, rest) = begins.split_at(begins.partition_point(|&(began, _)| began <= next_end));
        barriers.push(Barrier { ends: before, begins: behind });
        (begins, ends) = (rest, later);
    }
    let (mut next, mut least): (Option<Node>, Node) = (None, Node(u32::MAX));
    for Barrier { ends, begins } in barriers.into_iter().rev() {
        least = begins.iter().map(|&(_, node)| node).fold(least, Node::min);
        let barrier = drawing.auxiliary(least);
        next.into_iter().for_each(|next| drawing.edge(barrier, next, Kind::Chain));
        for &(_, node) in begins {
            drawing.edge(barrier, node, Kind::Chain);
        }
        for &(_, node) in ends {
            drawing.edge(node, barrier, kind);
            if node > least {
                drawing.has_backward(kind);
            }
        }
        next = Some(barrier);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Graph;

    fn reached(graph: &Graph, from: Node, kind: Kind) -> Vec<Node> {
        let (mut found, mut ahead) = (Vec::new(), vec![(from, kind)]);
        while let Some((node, kind)) = ahead.pop() {
            for (to, _) in graph.edges(node).filter(|&(_, of)| of == kind) {
                match graph.is_transaction(to) {
                    true => found.push(to),
                    false => ahead.push((to, Kind::Chain)),
                }
            }
        }
        found.sort_unstable();
        found
    }

    /// Over barriers, each transaction reaches exactly those that began after it had ended; over the barriers of its
    /// process, exactly those among them that are of its process.
    #[test]
    fn every_pair_is_ordered_as_its_moments_are() {
        let seed = fastrand::u64(..1 << 40);
        eprintln!("seed {seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        for round in 0..500 {
            let transactions: Vec<_> = (0..rng.usize(1..30))
                .map(|_| {
                    let began = rng.u64(..40);
                    let order = [Order::None, Order::Process, Order::Realtime][rng.usize(..3).max(rng.usize(..3))];
                    TransactionContext {
                        process: Some(Process(rng.u32(..3))),
                        began: (rng.u8(..8) > 0).then_some(Moment(began)),
                        ended: (rng.u8(..8) > 0).then_some(Moment(began + rng.u64(..12))),
                        order,
                        snapshot: false,
                    }
                })
                .collect();
            let mut drawing = Drawing::new(transactions.len());
            let told = draw_order(&mut drawing, transactions.iter().copied().map(Some));
            assert_eq!(told.realtime, transactions.iter().all(|context| context.began.is_some()));
            let graph = drawing.finish();
            assert!(graph.edge_count() <= 6 * transactions.len(), "linear size");
            for (from, first) in transactions.iter().enumerate() {
                let precedes =
                    |second: &TransactionContext| first.ended.zip(second.began).is_some_and(|(end, begin)| end < begin);
                let after = |order: Order, process: Option<Process>| -> Vec<_> {
                    let later = transactions.iter().enumerate().filter(|(_, second)| precedes(second));
                    let promised = later.filter(|(_, second)| second.order >= order);
                    let within = promised.filter(|(_, second)| process.is_none() || second.process == process);
                    within.map(|(at, _)| Node(at as u32)).collect()
                };
                let from = Node(from as u32);
                let message = || format!("seed {seed}, round {round}, {from:?}");
                assert_eq!(reached(&graph, from, Kind::Realtime), after(Order::Realtime, None), "{}", message());
                let of_process = after(Order::Process, first.process);
                assert_eq!(reached(&graph, from, Kind::Process), of_process, "{}", message());
            }
        }
    }
}

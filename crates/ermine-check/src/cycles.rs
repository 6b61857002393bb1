//! Finds the cycles of a graph and their names, a smallest one of each.
//!
//! Whether a level of isolation holds follows from the components of the graph, exactly and in linear time: those of ww
//! edges, of ww and wr edges, of all dependencies, of all with the order of processes and of real time, and those of
//! the doubled graph of `graph/nonadjacent.rs`. Finding out which anti-dependencies a cycle has takes a search that may
//! give up; if no search found the cycle that a component promises, any cycle of the component is taken, under its own
//! name.

use crate::{
    anomaly::{AnomalyKind, CycleOrder, Level},
    graph::{Antis, Budget, Components, Cycle, Graph, Kind, Kinds, Shape, Step, components, nonadjacent_cycle, search},
    progress::Progress,
};

/// The cycles that were found.
#[derive(Debug)]
pub(crate) struct Cycles {
    pub(crate) found: Vec<(AnomalyKind, Cycle)>,
    /// Transactions on cycles of dependencies.
    pub(crate) entangled: u64,
}

const WRITES: Kinds = Kinds::of(&[Kind::WriteWrite]);
const READS: Kinds = Kinds::of(&[Kind::WriteRead, Kind::PredicateWriteRead]);
const FLOW: Kinds = WRITES.and(READS);
const ITEM_ANTI: Kinds = Kinds::of(&[Kind::ReadWrite]);
const PREDICATE_ANTI: Kinds = Kinds::of(&[Kind::PredicateReadWrite]);
const ANTI: Kinds = ITEM_ANTI.and(PREDICATE_ANTI);
const ITEMS: Kinds = FLOW.and(ITEM_ANTI);
const DEPENDENCIES: Kinds = FLOW.and(ANTI);

impl CycleOrder {
    /// Edges that are not dependencies.
    const fn edges(self) -> Kinds {
        match self {
            Self::Dependencies => Kinds::of(&[]),
            Self::Process => Kinds::of(&[Kind::Process]),
            Self::Realtime => Kinds::of(&[Kind::Process, Kind::Realtime]),
        }
    }
}

/// Number of edges that the searches for one kind of cycle may visit, plus some for each edge of the graph.
const BUDGET_MIN: u64 = 20_000_000;
const BUDGET_PER_EDGE: u64 = 2;

/// Kinds of cycles that are searched for in each order.
const SEARCHES: u64 = 7;

/// Finds the cycles of a graph.
pub(crate) fn cycles(graph: &Graph, progress: &mut dyn FnMut(Progress)) -> Cycles {
    let nodes = graph.nodes() as u64;
    let every = DEPENDENCIES.and(CycleOrder::Realtime.edges());
    let all = components(graph, every, |done| progress(Progress::new("looking for cycles", done, nodes)));
    let mut cycles = Cycles { found: Vec::new(), entangled: 0 };
    if all.is_empty() {
        return cycles;
    }
    for order in CycleOrder::ALL {
        cycles.in_order(graph, order, progress);
    }
    cycles
}

impl Cycles {
    /// Finds the cycles that include edges of an order.
    fn in_order(&mut self, graph: &Graph, order: CycleOrder, progress: &mut dyn FnMut(Progress)) {
        let with_order = |kinds: Kinds| kinds.and(order.edges());
        let within = |kinds| components(graph, with_order(kinds), |_| ());
        let all = within(DEPENDENCIES);
        if order == CycleOrder::Dependencies {
            self.entangled = all.iter().flatten().filter(|&&node| graph.is_transaction(node)).count() as u64;
        }
        if all.is_empty() {
            return;
        }
        use AnomalyKind::{G0, G1c, G2, G2Item, GNonadjacent, GNonadjacentItem, GSingle};
        let items = within(ITEMS);
        let (writes, flow) = (within(WRITES), within(FLOW));
        let searches: [(AnomalyKind, &Components, Kinds, Kinds, Antis); SEARCHES as usize] = [
            (G0, &writes, WRITES, WRITES, Antis::Any),
            (G1c, &flow, READS, FLOW, Antis::Any),
            (GSingle, &all, ANTI, FLOW, Antis::Any),
            (GNonadjacentItem, &items, ITEM_ANTI, ITEMS, Antis::Apart),
            (GNonadjacent, &all, PREDICATE_ANTI, DEPENDENCIES, Antis::Apart),
            (G2Item, &items, ITEM_ANTI, ITEMS, Antis::Next),
            (G2, &all, PREDICATE_ANTI, DEPENDENCIES, Antis::More),
        ];
        for (done, (kind, within, one, others, antis)) in searches.into_iter().enumerate() {
            progress(Progress::new("naming cycles", order as u64 * SEARCHES + done as u64, 3 * SEARCHES));
            // A cycle of this kind with a weaker order is worse, and implies this one.
            if !self.found.iter().any(|(found, _)| found.split().0 == kind) {
                self.look(graph, within, kind, Shape { one, others: with_order(others), antis });
            }
        }
        if order == CycleOrder::Dependencies && !self.breaks(Level::SnapshotIsolation) {
            self.found.extend(nonadjacent_cycle(graph, DEPENDENCIES).map(|cycle| named(graph, cycle)));
        }
        if self.found.is_empty() {
            let any = Shape { one: with_order(DEPENDENCIES), others: with_order(DEPENDENCIES), antis: Antis::Any };
            let cycle = search(graph, all.iter(), any, &mut Budget::one_search(graph), |_| true);
            self.found.push(named(graph, cycle.expect("there is a cycle in a component")));
        }
    }

    /// Searches for the smallest cycle of a kind, whatever its order.
    fn look(&mut self, graph: &Graph, components: &Components, kind: AnomalyKind, shape: Shape) {
        let mut budget = Budget(BUDGET_MIN + BUDGET_PER_EDGE * graph.edge_count() as u64);
        let is_it = |cycle: &mut Cycle| {
            sharpen(graph, cycle);
            name(cycle).split().0 == kind
        };
        let found = search(graph, components.iter(), shape, &mut budget, is_it);
        self.found.extend(found.map(|cycle| (name(&cycle), cycle)));
    }

    fn breaks(&self, level: Level) -> bool {
        self.found.iter().any(|(kind, _)| kind.is_forbidden_by(level))
    }
}

fn named(graph: &Graph, mut cycle: Cycle) -> (AnomalyKind, Cycle) {
    sharpen(graph, &mut cycle);
    (name(&cycle), cycle)
}

/// The name of a cycle, from the kinds of its steps.
fn name(cycle: &[Step]) -> AnomalyKind {
    let has = |kind: Kind| cycle.iter().any(|step| step.kind == kind);
    let antis = cycle.iter().filter(|step| step.kind.is_anti()).count();
    let next = |at: usize| &cycle[(at + 1) % cycle.len()];
    let adjacent = cycle.iter().enumerate().any(|(at, step)| step.kind.is_anti() && next(at).kind.is_anti());
    let through_ranges = has(Kind::PredicateReadWrite);
    let kind = match antis {
        0 if has(Kind::WriteRead) || has(Kind::PredicateWriteRead) => AnomalyKind::G1c,
        0 => AnomalyKind::G0,
        1 => AnomalyKind::GSingle,
        _ if adjacent && through_ranges => AnomalyKind::G2,
        _ if adjacent => AnomalyKind::G2Item,
        _ if through_ranges => AnomalyKind::GNonadjacent,
        _ => AnomalyKind::GNonadjacentItem,
    };
    kind.with(if has(Kind::Realtime) {
        CycleOrder::Realtime
    } else if has(Kind::Process) {
        CycleOrder::Process
    } else {
        CycleOrder::Dependencies
    })
}

/// Renames a dependency through a range that is also one through a row to the latter.
fn sharpen(graph: &Graph, cycle: &mut [Step]) {
    for step in cycle {
        let (plain, kinds) = match step.kind {
            Kind::PredicateReadWrite => (Kind::ReadWrite, ITEM_ANTI),
            Kind::PredicateWriteRead => (Kind::WriteRead, Kinds::of(&[Kind::WriteRead])),
            _ => continue,
        };
        // Every set contains chains, but a chain never leads from one transaction to another.
        if graph.has_edge(step.from, step.to, kinds) {
            step.kind = plain;
        }
    }
}

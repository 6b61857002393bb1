//! The cycles of a graph under their names, a smallest one of each.
//!
//! Whether there are cycles of ww edges, of ww and wr edges, or any, the components of the graph say exactly, in linear
//! time. Which anti-dependencies a cycle has takes a search; where that gave up, [`Cycles::certain`] says so, and only the
//! absence of G-single is in doubt.

use crate::{
    anomaly::AnomalyKind,
    graph::{Budget, Components, Cycle, Graph, Kind, Kinds, Shape, Step, components, search},
    progress::Progress,
};

/// What was found.
#[derive(Debug)]
pub(crate) struct Cycles {
    pub(crate) found: Vec<(AnomalyKind, Cycle)>,
    /// Transactions that lie on cycles.
    pub(crate) entangled: u64,
    /// Whether every search was finished.
    pub(crate) certain: bool,
}

const WRITES: Kinds = Kinds::of(&[Kind::WriteWrite]);
const READS: Kinds = Kinds::of(&[Kind::WriteRead, Kind::PredicateWriteRead]);
const FLOW: Kinds = Kinds::of(&[Kind::WriteWrite, Kind::WriteRead, Kind::PredicateWriteRead]);
const ITEM_ANTI: Kinds = Kinds::of(&[Kind::ReadWrite]);
const PREDICATE_ANTI: Kinds = Kinds::of(&[Kind::PredicateReadWrite]);
const ANTI: Kinds = Kinds::of(&[Kind::ReadWrite, Kind::PredicateReadWrite]);
const ITEMS: Kinds = Kinds::of(&[Kind::WriteWrite, Kind::WriteRead, Kind::PredicateWriteRead, Kind::ReadWrite]);
const ALL: Kinds = Kinds::of(&[
    Kind::WriteWrite,
    Kind::WriteRead,
    Kind::PredicateWriteRead,
    Kind::ReadWrite,
    Kind::PredicateReadWrite,
]);

/// Edges that the searches for one kind of cycle may look at, beside some for each edge of the graph.
const BUDGET_MIN: u64 = 20_000_000;
const BUDGET_PER_EDGE: u64 = 2;

/// Finds them.
pub(crate) fn cycles(graph: &Graph, progress: &mut dyn FnMut(Progress)) -> Cycles {
    let nodes = graph.nodes() as u64;
    let all = components(graph, ALL, |done| progress(Progress::new("looking for cycles", done, nodes)));
    let entangled = all.iter().flatten().filter(|&&node| graph.is_transaction(node)).count() as u64;
    let mut cycles = Cycles { found: Vec::new(), entangled, certain: true };
    if all.is_empty() {
        return cycles;
    }
    let within = |kinds| components(graph, kinds, |_| ());
    let any = |_: &mut Cycle| true;
    let simple = |one, others| Shape { one, others, two_antis: false };
    let twice = |one, others| Shape { one, others, two_antis: true };
    progress(Progress::new("naming cycles", 0, 5));
    cycles.look(graph, &within(WRITES), AnomalyKind::G0, simple(WRITES, WRITES), any);
    progress(Progress::new("naming cycles", 1, 5));
    cycles.look(graph, &within(FLOW), AnomalyKind::G1c, simple(READS, FLOW), any);
    progress(Progress::new("naming cycles", 2, 5));
    cycles.look(graph, &all, AnomalyKind::GSingle, simple(ANTI, FLOW), |cycle| {
        sharpen(graph, cycle);
        true
    });
    progress(Progress::new("naming cycles", 3, 5));
    cycles.look(graph, &within(ITEMS), AnomalyKind::G2Item, twice(ITEM_ANTI, ITEMS), any);
    progress(Progress::new("naming cycles", 4, 5));
    cycles.look(graph, &all, AnomalyKind::G2, twice(PREDICATE_ANTI, ALL), |cycle| {
        sharpen(graph, cycle);
        cycle.iter().any(|step| step.kind == Kind::PredicateReadWrite)
    });
    cycles
}

impl Cycles {
    fn look(
        &mut self,
        graph: &Graph,
        components: &Components,
        kind: AnomalyKind,
        shape: Shape,
        fits: impl FnMut(&mut Cycle) -> bool,
    ) {
        let mut budget = Budget(BUDGET_MIN + BUDGET_PER_EDGE * graph.edge_count() as u64);
        let found = search(graph, components.iter(), shape, &mut budget, fits);
        self.certain &= found.certain || found.smallest.is_some();
        self.found.extend(found.smallest.map(|cycle| (kind, cycle)));
    }
}

/// A dependency through a range that is one through a row as well is called that.
fn sharpen(graph: &Graph, cycle: &mut [Step]) {
    for step in cycle {
        let (plain, kinds) = match step.kind {
            Kind::PredicateReadWrite => (Kind::ReadWrite, ITEM_ANTI),
            Kind::PredicateWriteRead => (Kind::WriteRead, Kinds::of(&[Kind::WriteRead])),
            _ => continue,
        };
        // Every set has chains in it, but those never lead from one transaction to another.
        if graph.has_edge(step.from, step.to, kinds) {
            step.kind = plain;
        }
    }
}

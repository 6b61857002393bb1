//! Compares the judge with a naive one: thousands of small random histories, every edge compared.
//!
//! Method. Transactions with random writes commit in order; then each one reads the states of random moments,
//! occasionally of the past or the future, and occasionally overlooks a row. The naive judge draws every edge by
//! definition, and finds cycles by transitive closure.

mod naive;
mod random;

use std::collections::BTreeSet;

use self::{naive::Naive, random::Shape};
use super::{Settings, collect::collect, draw::draw, entries::Entries, judge_with, versions::Versions};
use crate::{
    AnomalyKind, History, Level,
    graph::{Graph, Kind, Node},
};

/// From, to, kind.
type Edge = (u32, u32, Kind);

/// The edges of a graph, those over auxiliary nodes one by one.
fn expanded(graph: &Graph, transactions: usize) -> BTreeSet<Edge> {
    let mut edges = BTreeSet::new();
    for from in (0..transactions as u32).map(Node) {
        let mut ahead: Vec<_> = graph.edges(from).collect();
        while let Some((to, kind)) = ahead.pop() {
            match graph.is_transaction(to) {
                true => drop(edges.insert((from.0, to.0, kind))),
                false => ahead.extend(graph.edges(to).map(|(next, _)| (next, kind))),
            }
        }
    }
    edges
}

fn drawn(history: &History, settings: Settings) -> BTreeSet<Edge> {
    let mut collected = collect(history, &mut |_| ());
    let versions = Versions::new(collected.keys.len(), std::mem::take(&mut collected.versions));
    let entries = Entries::new(&collected, &versions);
    let drawn = draw(history, &collected, &versions, &entries, settings, &mut |_| ());
    expanded(&drawn.graph, history.committed())
}

fn compare(history: &History, settings: Settings, seed: u64) -> Vec<AnomalyKind> {
    let naive = Naive::of(history);
    let edges = drawn(history, settings);
    let message = || format!("seed {seed}, {settings:?}\n{}", naive::printed(history));
    for edge in &naive.needed {
        assert!(edges.contains(edge), "{edge:?} is missing; {}", message());
    }
    for edge in &edges {
        assert!(naive.allowed.contains(edge), "{edge:?} is too much; {}", message());
    }
    let report = judge_with(history, settings, &mut |_| ());
    assert!(!report.to_string().contains("not found again"), "{report}\n{}", message());
    let found = |kind| report.anomaly(kind).is_some();
    let of = |kinds: &[Kind]| naive.closure(kinds);
    let flow = [Kind::WriteWrite, Kind::WriteRead, Kind::PredicateWriteRead];
    let items = [&flow[..], &[Kind::ReadWrite]].concat();
    let all = [&items[..], &[Kind::PredicateReadWrite]].concat();
    let (flow, items, all) = (of(&flow), of(&items), of(&all));
    let cyclic = |closure: &Vec<Vec<bool>>| (0..closure.len()).any(|at| closure[at][at]);
    assert_eq!(found(AnomalyKind::G1c), cyclic(&flow), "{report}\n{}", message());
    // An edge that others imply may be left out: a cycle with such an edge is another anomaly as well.
    let closed_by_one = |edges: &BTreeSet<(u32, u32, Kind)>| {
        edges.iter().any(|&(from, to, kind)| kind.is_anti() && flow[to as usize][from as usize])
    };
    let single = closed_by_one(&naive.allowed);
    let must = closed_by_one(&naive.needed);
    assert!(must <= found(AnomalyKind::GSingle) && found(AnomalyKind::GSingle) <= single, "{report}\n{}", message());
    let entangled = (0..all.len()).filter(|&at| all[at][at]).count() as u64;
    assert_eq!(report.counts.entangled, entangled, "{report}\n{}", message());
    use AnomalyKind::{G2, G2Item, GNonadjacent, GNonadjacentItem};
    if !single && !cyclic(&flow) {
        assert_eq!(found(G2Item) || found(GNonadjacentItem), cyclic(&items), "{report}\n{}", message());
        if !cyclic(&items) {
            assert_eq!(found(G2) || found(GNonadjacent), entangled > 0, "{report}\n{}", message());
        }
        let apart = cyclic(&naive.closure_apart());
        assert_eq!(found(GNonadjacentItem) || found(GNonadjacent), apart, "{report}\n{}", message());
    }
    assert_eq!(report.holds(Level::Serializable), entangled == 0, "{report}\n{}", message());
    assert_eq!(found(AnomalyKind::MissedRow), naive.missed > 0, "{report}\n{}", message());
    assert!(!found(AnomalyKind::CorruptRead) && !found(AnomalyKind::Internal), "{report}\n{}", message());
    report.kinds()
}

const SHARED: Settings = Settings { direct_edges_max: 0 };

fn seed() -> u64 {
    let seed = std::env::var("ERMINE_SEED").map(|seed| seed.parse().expect("ERMINE_SEED is a number"));
    seed.unwrap_or_else(|_| fastrand::u64(..1 << 48))
}

#[test]
fn every_edge_and_every_cycle_is_that_of_the_naive_judge() {
    let first = seed();
    let mut seen = BTreeSet::new();
    for seed in first..first + 6000 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let history = random::history(&mut rng, &Shape::wild());
        seen.extend(compare(&history, SHARED, seed));
        compare(&history, Settings { direct_edges_max: rng.u32(..4) }, seed);
        compare(&history, Settings::default(), seed);
    }
    use AnomalyKind::*;
    for kind in [G1c, GSingle, GNonadjacentItem, G2Item, G2, MissedRow, LostUpdate] {
        assert!(seen.contains(&kind), "no history has {kind}: they prove little");
    }
}

#[test]
fn serial_histories_are_clean() {
    let first = seed();
    for seed in first..first + 2000 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let history = random::history(&mut rng, &Shape::serial());
        for settings in [SHARED, Settings::default()] {
            assert_eq!(compare(&history, settings, seed), [], "seed {seed}");
        }
    }
}

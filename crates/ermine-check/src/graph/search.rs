//! The smallest cycle of a given shape, by breadth-first search from every edge that it may begin with.
//!
//! Each search stays within one component and stops at cycles longer than the best one. All searches together may look
//! at so many edges and no more ([`Budget`]): components are small where the engine is right, and where it is not, one of
//! the first cycles is as good as any.
//!
//! Chains cost nothing: a path over auxiliary nodes is one step. So the queue has two ends (0-1 BFS).

use std::collections::VecDeque;

use super::{Graph, Kind, Kinds, Node};

/// One dependency of a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) from: Node,
    pub(crate) to: Node,
    pub(crate) kind: Kind,
}

/// Each step begins where the one before ended, the first where the last one did.
pub(crate) type Cycle = Vec<Step>;

/// How many edges may still be looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget(pub(crate) u64);

/// The shape of a cycle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Kinds of one of its steps.
    pub(crate) one: Kinds,
    /// Kinds of all others.
    pub(crate) others: Kinds,
    /// Whether two anti-dependencies are needed, of which the one is the first.
    pub(crate) two_antis: bool,
}

/// What a search has found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) smallest: Option<Cycle>,
    /// Whether there can be no smaller one, and if there is none, none at all.
    pub(crate) certain: bool,
}

/// No cycle has fewer steps.
const STEPS_MIN: usize = 2;

/// The smallest cycle of a shape in some components that `fits`; that may sharpen the kinds of its steps.
pub(crate) fn search<'c>(
    graph: &Graph,
    components: impl Iterator<Item = &'c [Node]>,
    shape: Shape,
    budget: &mut Budget,
    mut fits: impl FnMut(&mut Cycle) -> bool,
) -> Found {
    let mut found = Found { smallest: None, certain: true };
    let mut searcher = Searcher::of(graph, shape);
    for component in components {
        searcher.enter(component);
        for &from in component.iter().filter(|&&node| graph.is_transaction(node)) {
            for (to, kind) in graph.edges(from) {
                let longest = found.smallest.as_ref().map_or(usize::MAX, |cycle| cycle.len() - 1);
                if longest < STEPS_MIN {
                    return found;
                }
                if !shape.one.contain(kind) || kind == Kind::Chain || !searcher.is_inside(to) {
                    continue;
                }
                if budget.0 == 0 {
                    found.certain = false;
                    return found;
                }
                if let Some(mut cycle) = searcher.close(Step { from, to, kind }, longest, budget)
                    && fits(&mut cycle)
                {
                    found.smallest = Some(cycle);
                }
            }
        }
        searcher.leave(component);
    }
    found
}

/// In no component that is looked at.
const OUTSIDE: u32 = u32::MAX;

/// How a state was reached: from which one, over what.
#[derive(Clone, Copy)]
struct Reached {
    /// In which search; others are old.
    search: u32,
    steps: u32,
    before: u32,
    kind: Kind,
}

/// The memory of searches in one component. A state is a node, and whether a second anti-dependency led there.
struct Searcher<'g> {
    graph: &'g Graph,
    shape: Shape,
    /// Numbers of the component's nodes within it.
    local: Vec<u32>,
    members: Vec<Node>,
    reached: Vec<Reached>,
    searches: u32,
    queue: VecDeque<u32>,
}

impl<'g> Searcher<'g> {
    fn of(graph: &'g Graph, shape: Shape) -> Self {
        let (local, members, reached) = (vec![OUTSIDE; graph.nodes()], Vec::new(), Vec::new());
        Self { graph, shape, local, members, reached, searches: 0, queue: VecDeque::new() }
    }

    fn enter(&mut self, component: &[Node]) {
        for (at, node) in component.iter().enumerate() {
            self.local[node.at()] = at as u32;
        }
        self.members.clear();
        self.members.extend_from_slice(component);
        self.searches = 0;
        self.reached.clear();
        let never = Reached { search: 0, steps: 0, before: 0, kind: Kind::Chain };
        self.reached.resize(2 * component.len(), never);
    }

    fn leave(&mut self, component: &[Node]) {
        for node in component {
            self.local[node.at()] = OUTSIDE;
        }
    }

    fn is_inside(&self, node: Node) -> bool {
        self.local[node.at()] != OUTSIDE
    }

    fn state(&self, node: Node, second_anti: bool) -> u32 {
        self.local[node.at()] * 2 + u32::from(second_anti)
    }

    /// The smallest cycle of at most `longest` steps that begins with this one.
    fn close(&mut self, first: Step, longest: usize, budget: &mut Budget) -> Option<Cycle> {
        self.searches += 1;
        self.queue.clear();
        // Where only anti-dependencies lead back, the way to the start goes upwards, and whoever lies above is off it.
        let only_up = self.graph.is_forward() && !self.shape.two_antis && first.kind.is_anti();
        let highest = if only_up { first.from.0 } else { u32::MAX };
        let start = self.state(first.to, false);
        let search = self.searches;
        if self.graph.least(first.to).0 > highest {
            return None;
        }
        self.reached[start as usize] = Reached { search, steps: 1, before: u32::MAX, kind: first.kind };
        self.queue.push_back(start);
        while let Some(state) = self.queue.pop_front() {
            let (node, second_anti) = (self.members[state as usize / 2], state % 2 == 1);
            let steps = self.reached[state as usize].steps;
            for (to, kind) in self.graph.edges(node) {
                budget.0 = budget.0.saturating_sub(1);
                if !self.shape.others.contain(kind) || !self.is_inside(to) {
                    continue;
                }
                let second_anti = second_anti || kind.is_anti();
                let next_steps = steps + u32::from(kind != Kind::Chain);
                if next_steps as usize > longest || self.graph.least(to).0 > highest {
                    continue;
                }
                if to == first.from {
                    if second_anti || !self.shape.two_antis {
                        return self.cycle(first, state, kind);
                    }
                    continue;
                }
                let next = self.state(to, second_anti && self.shape.two_antis);
                let known = &mut self.reached[next as usize];
                if known.search == search && known.steps <= next_steps {
                    continue;
                }
                *known = Reached { search, steps: next_steps, before: state, kind };
                match kind {
                    Kind::Chain => self.queue.push_front(next),
                    _ => self.queue.push_back(next),
                }
            }
            if budget.0 == 0 {
                return None;
            }
        }
        None
    }

    /// The way from `first` to the last state and from there to the beginning; `None` if it meets somebody twice.
    fn cycle(&self, first: Step, last: u32, closing: Kind) -> Option<Cycle> {
        let mut edges = vec![(first.from, closing)];
        let mut state = last;
        while state != u32::MAX {
            let Reached { before, kind, .. } = self.reached[state as usize];
            edges.push((self.members[state as usize / 2], kind));
            state = before;
        }
        edges.reverse();
        let mut cycle = Cycle::new();
        let (mut from, mut over) = (first.from, None);
        for (to, kind) in edges {
            let kind = over.unwrap_or(kind);
            if self.graph.is_transaction(to) {
                cycle.push(Step { from, to, kind });
                (from, over) = (to, None);
            } else {
                over = Some(kind);
            }
        }
        let mut met: Vec<_> = cycle.iter().map(|step| step.from).collect();
        met.sort_unstable();
        met.windows(2).all(|pair| pair[0] != pair[1]).then_some(cycle)
    }
}

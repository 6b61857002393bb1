//! Finds the smallest cycle of a given shape, by breadth-first search from every edge that it may begin with.
//!
//! Each search stays within one component and stops at cycles longer than the best one. All searches together visit a
//! limited number of edges ([`Budget`]): components are small if the engine is correct, and if it is not, one of the
//! first cycles is as good as any.
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

/// The steps of a cycle: each begins where the one before ends, and the first where the last ends.
pub(crate) type Cycle = Vec<Step>;

/// Number of edges that may still be visited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget(pub(crate) u64);

impl Budget {
    /// Enough to find a cycle through the first edge that is tried, if that lies in a component of its kinds: no edge
    /// is visited more than twice.
    pub(crate) fn one_search(graph: &Graph) -> Self {
        Self(2 * graph.edge_count() as u64 + 1)
    }
}

/// The anti-dependencies of a cycle besides its first step: how many, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Antis {
    /// As many as the kinds of its steps permit.
    Any,
    /// At least one.
    More,
    /// The second step is an anti-dependency.
    Next,
    /// At least one, and no two of them next to each other, including the first step, which is an anti-dependency.
    Apart,
}

/// The shape of a cycle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Kinds of the first step.
    pub(crate) one: Kinds,
    /// Kinds of all others.
    pub(crate) others: Kinds,
    /// Its anti-dependencies.
    pub(crate) antis: Antis,
}

/// The fewest steps of a cycle.
const STEPS_MIN: usize = 2;

/// The smallest cycle of a shape in some components for which `fits` returns true; `fits` may sharpen the kinds of its
/// steps.
pub(crate) fn search<'c>(
    graph: &Graph,
    components: impl Iterator<Item = &'c [Node]>,
    shape: Shape,
    budget: &mut Budget,
    mut fits: impl FnMut(&mut Cycle) -> bool,
) -> Option<Cycle> {
    let mut smallest: Option<Cycle> = None;
    let mut searcher = Searcher::of(graph, shape);
    for component in components {
        searcher.enter(component);
        for &from in component.iter().filter(|&&node| graph.is_transaction(node)) {
            for (to, kind) in graph.edges(from) {
                let longest = smallest.as_ref().map_or(usize::MAX, |cycle| cycle.len() - 1);
                if longest < STEPS_MIN {
                    return smallest;
                }
                if !shape.one.contain(kind) || kind == Kind::Chain || !searcher.is_inside(to) {
                    continue;
                }
                if budget.0 == 0 {
                    return smallest;
                }
                if let Some(mut cycle) = searcher.close(Step { from, to, kind }, longest, budget)
                    && fits(&mut cycle)
                {
                    smallest = Some(cycle);
                }
            }
        }
        searcher.leave(component);
    }
    smallest
}

/// Marks nodes outside the component that is being searched.
const OUTSIDE: u32 = u32::MAX;

/// How a state was reached: the state before, and the edge.
#[derive(Clone, Copy)]
struct Reached {
    /// The search that reached it; entries of earlier searches are stale.
    search: u32,
    steps: u32,
    before: u32,
    kind: Kind,
}

/// The history of a path, besides the node that it has reached.
#[derive(Clone, Copy)]
struct Path {
    /// Whether it has the anti-dependency that its shape requires.
    has_anti: bool,
    /// Whether its last step was an anti-dependency; always false if the shape does not restrict that.
    ends_anti: bool,
}

impl Path {
    /// Number of states per node.
    const STATES: usize = 4;

    fn number(self) -> usize {
        usize::from(self.has_anti) | usize::from(self.ends_anti) << 1
    }

    fn of(number: usize) -> Self {
        Self { has_anti: number & 1 != 0, ends_anti: number & 2 != 0 }
    }

    /// The path with one more edge, if the shape permits that.
    fn with(self, kind: Kind, antis: Antis) -> Option<Self> {
        let is_anti = kind.is_anti();
        match (kind, antis) {
            (Kind::Chain, _) | (_, Antis::Any) => Some(self),
            (_, Antis::More) => Some(Self { has_anti: self.has_anti || is_anti, ..self }),
            (_, Antis::Next) => (self.has_anti || is_anti).then_some(Self { has_anti: true, ..self }),
            (_, Antis::Apart) => {
                (!self.ends_anti || !is_anti).then_some(Self { has_anti: self.has_anti || is_anti, ends_anti: is_anti })
            }
        }
    }

    /// Whether the path may end where the cycle began.
    fn closes(self, antis: Antis) -> bool {
        antis == Antis::Any || self.has_anti && !self.ends_anti
    }
}

/// The memory of searches in one component. A state is a node together with the history of the path to it.
struct Searcher<'g> {
    graph: &'g Graph,
    shape: Shape,
    /// The number of each node within the component.
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
        self.reached.resize(Path::STATES * component.len(), never);
    }

    fn leave(&mut self, component: &[Node]) {
        for node in component {
            self.local[node.at()] = OUTSIDE;
        }
    }

    fn is_inside(&self, node: Node) -> bool {
        self.local[node.at()] != OUTSIDE
    }

    fn state(&self, node: Node, path: Path) -> u32 {
        self.local[node.at()] * Path::STATES as u32 + path.number() as u32
    }

    /// The smallest cycle of at most `longest` steps that begins with this one.
    fn close(&mut self, first: Step, longest: usize, budget: &mut Budget) -> Option<Cycle> {
        self.searches += 1;
        self.queue.clear();
        let antis = self.shape.antis;
        // If only anti-dependencies lead back, the path to the start goes upwards, and nodes above the start are not on
        // it.
        let only_up = first.kind.is_anti() && !self.others_have_antis() && self.graph.is_forward(self.shape.others);
        let highest = if only_up { first.from.0 } else { u32::MAX };
        let start = self.state(first.to, Path { has_anti: false, ends_anti: antis == Antis::Apart });
        let search = self.searches;
        if self.graph.least(first.to).0 > highest {
            return None;
        }
        self.reached[start as usize] = Reached { search, steps: 1, before: u32::MAX, kind: first.kind };
        self.queue.push_back(start);
        while let Some(state) = self.queue.pop_front() {
            let node = self.members[state as usize / Path::STATES];
            let path = Path::of(state as usize % Path::STATES);
            let steps = self.reached[state as usize].steps;
            for (to, kind) in self.graph.edges(node) {
                budget.0 = budget.0.saturating_sub(1);
                if !self.shape.others.contain(kind) || !self.is_inside(to) {
                    continue;
                }
                let Some(path) = path.with(kind, antis) else { continue };
                let next_steps = steps + u32::from(kind != Kind::Chain);
                if next_steps as usize > longest || self.graph.least(to).0 > highest {
                    continue;
                }
                if to == first.from {
                    if path.closes(antis) {
                        return self.cycle(first, state, kind);
                    }
                    continue;
                }
                let next = self.state(to, path);
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

    fn others_have_antis(&self) -> bool {
        Kind::ALL.iter().any(|kind| kind.is_anti() && self.shape.others.contain(*kind))
    }

    /// The path from `first` to the last state and from there to the beginning; `None` if it visits a transaction
    /// twice.
    fn cycle(&self, first: Step, last: u32, closing: Kind) -> Option<Cycle> {
        let mut edges = vec![(first.from, closing)];
        let mut state = last;
        while state != u32::MAX {
            let Reached { before, kind, .. } = self.reached[state as usize];
            edges.push((self.members[state as usize / Path::STATES], kind));
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

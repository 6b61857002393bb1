//! The edges of ranges: to the transactions that insert into one afterwards, from those that removed something before.
//!
//! A range that few births follow draws an edge to each. Of many births it takes the few nodes of the tree that cover
//! its stretch of the index ([`super::events`]), and in each of these the births from some place on. All ranges that
//! request the same place of a node share an auxiliary node; it has edges to the births up to the next place that is
//! requested, and one to the auxiliary node there:
//!
//! ```text
//!   births in a node, by stamp     b1   b2   b3   b4   b5   b6   b7
//!   two ranges ask                      ^              ^
//!                             R1 -rw-> a1 ---------> a2 <-rw- R2        a1 -> b2 b3 b4     a2 -> b5 b6 b7
//! ```
//!
//! Deaths are the same in the other direction. So a tree level has at most as many edges as events, and a range draws
//! one edge for each node that covers it, O(log n).
//!
//! Invariants
//! 1. A transaction's own entries are cut out of its stretches, and so are entries whose newer state it has read: they
//!    are checked one by one. So no transaction reaches itself over auxiliary nodes.
//! 2. A death that the range's own reads deny is none: without a snapshot, a scan may read a row as it was before a
//!    deletion that committed just below `at`.
//! 3. A birth of a row that the transaction has written itself draws no edge: the range shows its own row there,
//!    whatever other transactions did before it committed. Such births are treated with those of invariant 1.
//! 4. Edges that follow from the edges of rows are left out if that costs nothing. The first birth of an entry stands
//!    for the later ones, which overwrite it.

use std::{mem, ops::Range};

use super::{
    Settings,
    collect::{Collected, Writer},
    draw::Seen,
    entries::Entries,
    events::{Event, Events, Piece, Rank},
    keys::Item,
    sightings::Sightings,
    versions::Versions,
};
use crate::{
    anomaly::AnomalyKind,
    graph::{Drawing, Kind, Node},
    history::{History, Index, Operation, Stamp},
};

/// A range, as ranks.
#[derive(Clone, Debug)]
pub(super) struct Stretch {
    index: Index,
    ranks: Range<Rank>,
    at: Stamp,
}

/// A range's request for the events of a node from a place on, or up to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Request {
    piece: Piece,
    by: u32,
}

/// Draws the edges of all ranges.
pub(super) struct Ranges<'h> {
    history: &'h History,
    collected: &'h Collected,
    versions: &'h Versions,
    entries: &'h Entries,
    settings: Settings,
    births_wanted: Vec<Request>,
    deaths_wanted: Vec<Request>,
    /// The current transaction.
    me: u32,
    /// Its commit stamp.
    stamp: Stamp,
    /// The ranks of its writes, sorted; computed on first use.
    own: Option<Vec<Rank>>,
    /// By item: the last stretch that it was counted in.
    counted: Vec<u32>,
    stretches: u32,
    births: Vec<Piece>,
    deaths: Vec<Piece>,
    cuts: Vec<Rank>,
    /// Entries whose deaths the range has not seen.
    denied: Vec<Rank>,
}

impl<'h> Ranges<'h> {
    pub(super) fn new(
        history: &'h History,
        collected: &'h Collected,
        versions: &'h Versions,
        entries: &'h Entries,
        settings: Settings,
    ) -> Self {
        let counted = vec![0; if collected.ranges > 0 { collected.keys.len() } else { 0 }];
        Self {
            history,
            collected,
            versions,
            entries,
            settings,
            births_wanted: Vec::new(),
            deaths_wanted: Vec::new(),
            me: 0,
            stamp: Stamp::ZERO,
            own: None,
            counted,
            stretches: 0,
            births: Vec::new(),
            deaths: Vec::new(),
            cuts: Vec::new(),
            denied: Vec::new(),
        }
    }

    /// Begins the next transaction.
    pub(super) fn begin(&mut self, me: u32, stamp: Stamp) {
        (self.me, self.stamp) = (me, stamp);
        self.own = None;
    }

    pub(super) fn range(&self, index: Index, lower: &[u8], upper: Option<&[u8]>, at: Stamp) -> Stretch {
        Stretch { index, ranks: self.entries.between(&self.collected.keys, index, lower, upper), at }
    }

    /// Draws the edges of one range, or requests them.
    pub(super) fn draw(&mut self, stretch: Stretch, seen: &Seen, drawing: &mut Drawing, sightings: &mut Sightings) {
        if stretch.ranks.is_empty() {
            return;
        }
        let Entries { births, deaths, .. } = self.entries;
        let (births_before, deaths_before) = (births.before(stretch.at), deaths.before(stretch.at));
        self.births.clear();
        self.deaths.clear();
        births.pieces(stretch.ranks.clone(), births_before, &mut self.births);
        deaths.pieces(stretch.ranks.clone(), deaths_before, &mut self.deaths);
        let before = |pieces: &[Piece]| pieces.iter().map(|piece| piece.split - piece.start).sum::<u32>();
        let born_before = before(&self.births);
        let died_before = before(&self.deaths);
        let born_after = self.births.iter().map(|piece| piece.end - piece.split).sum::<u32>();
        let alive = born_before.checked_sub(died_before).expect("a birth precedes each death");
        if alive > 0 && self.count_seen(&stretch, seen, alive) < alive {
            self.missed(&stretch, drawing, sightings);
        }
        self.deny(&stretch, died_before, seen);
        if born_after > self.settings.direct_edges_max || died_before > self.settings.direct_edges_max {
            self.cut(&stretch, seen);
        }
        self.born_after(&stretch, born_after, births_before, seen, drawing);
        self.died_before(&stretch, died_before, deaths_before, seen, drawing);
    }

    /// Counts those of the `alive` entries that led to a row that the transaction read or wrote before.
    fn count_seen(&mut self, stretch: &Stretch, seen: &Seen, alive: u32) -> u32 {
        self.stretches += 1;
        let mut count = 0;
        // The reads of a range directly precede it.
        for &row in seen.touched.iter().rev() {
            if mem::replace(&mut self.counted[row.at()], self.stretches) == self.stretches {
                continue;
            }
            let rank = self.entries.of_row(row, stretch.index, stretch.at);
            if rank.is_some_and(|rank| stretch.ranks.contains(&rank) && self.entries.alive(rank, stretch.at).is_some())
            {
                count += 1;
                if count == alive {
                    break;
                }
            }
        }
        count
    }

    /// The entries that were alive and led to no row that was read: they were read as absent.
    fn missed(&mut self, stretch: &Stretch, drawing: &mut Drawing, sightings: &mut Sightings) {
        for rank in stretch.ranks.clone() {
            let Some(birth) = self.entries.alive(rank, stretch.at) else { continue };
            if birth.row != Item::NONE && self.counted[birth.row.at()] == self.stretches {
                continue;
            }
            let recorded = Some(birth.writer).filter(|&writer| writer != Writer::INITIAL);
            sightings.add(AnomalyKind::MissedRow, self.me, recorded.map(|writer| writer.0), birth.row);
            let next = recorded.or_else(|| self.versions.first_writer(birth.row));
            if let Some(next) = next.filter(|next| next.0 != self.me) {
                drawing.edge(Node(self.me), Node(next.0), Kind::PredicateReadWrite);
            }
        }
    }

    /// Finds the entries that the range's reads saw alive after their deaths by stamp.
    fn deny(&mut self, stretch: &Stretch, died_before: u32, seen: &Seen) {
        self.denied.clear();
        if died_before == 0 {
            return;
        }
        for &row in seen.run() {
            let Some(newest) = seen.newest_read(self.me, row).filter(|&newest| newest < stretch.at) else { continue };
            let first = self.denied.len();
            let after = Stamp(newest.0 + 1);
            self.denied.extend(self.entries.of_row(row, stretch.index, after));
            self.entries.born_within(row, stretch.index, after, stretch.at, &mut self.denied);
            let mut at = first;
            while at < self.denied.len() {
                let rank = self.denied[at];
                let last = || self.entries.deaths.last_before(rank, stretch.at);
                if stretch.ranks.contains(&rank) && last().is_some_and(|death| death.stamp > newest) {
                    at += 1;
                } else {
                    self.denied.swap_remove(at);
                }
            }
        }
        self.denied.sort_unstable();
        self.denied.dedup();
    }

    /// Finds the entries that are checked one by one.
    fn cut(&mut self, stretch: &Stretch, seen: &Seen) {
        let own = self.own.take().unwrap_or_else(|| self.own_ranks());
        let first = own.partition_point(|&rank| rank < stretch.ranks.start);
        self.cuts.clear();
        self.cuts.extend(own[first..].iter().take_while(|&&rank| rank < stretch.ranks.end));
        self.own = Some(own);
        for &row in seen.touched.iter().filter(|&&row| seen.hides(self.me, row)) {
            self.entries.born_within(row, stretch.index, stretch.at, self.stamp, &mut self.cuts);
        }
        if seen.highest >= stretch.at {
            for &row in &seen.touched {
                if let Some(newest) = seen.newest_read(self.me, row).filter(|&newest| newest >= stretch.at) {
                    self.entries.born_within(row, stretch.index, stretch.at, newest, &mut self.cuts);
                }
            }
        }
        self.cuts.extend(&self.denied);
        self.cuts.retain(|rank| stretch.ranks.contains(rank));
        self.cuts.sort_unstable();
        self.cuts.dedup();
    }

    /// The ranks of the transaction's writes, including later ones.
    fn own_ranks(&self) -> Vec<Rank> {
        let operations = self.history.transaction(self.me as usize).operations();
        let items = operations.zip(self.collected.items(self.me)).filter_map(|(operation, &item)| match operation {
            Operation::Write { .. } | Operation::Entry { .. } => Some(item),
            Operation::Read { .. } | Operation::Range { .. } => None,
        });
        let mut ranks: Vec<_> = items.filter_map(|item| self.entries.rank(item)).collect();
        ranks.sort_unstable();
        ranks.dedup();
        ranks
    }

    fn born_after(&mut self, stretch: &Stretch, count: u32, before: u32, seen: &Seen, drawing: &mut Drawing) {
        let events = &self.entries.births;
        if count <= self.settings.direct_edges_max {
            for piece in &self.births {
                for event in events.at(piece.level, piece.split..piece.end) {
                    self.birth(event, seen, drawing);
                }
            }
            return;
        }
        for &rank in &self.cuts {
            let shown = |event: &&Event| !seen.hides(self.me, event.row);
            if let Some(event) = events.from(rank, stretch.at).find(shown) {
                self.birth(event, seen, drawing);
            }
        }
        if !self.cuts.is_empty() {
            pieces_between(events, &stretch.ranks, &self.cuts, before, &mut self.births);
        }
        let wanted = self.births.iter().filter(|piece| piece.split < piece.end);
        self.births_wanted.extend(wanted.map(|&piece| Request { piece, by: self.me }));
    }

    /// Draws the edge to a birth. The reads of a row are covered by the row's own edges, and the transaction's own
    /// writes hide the changes by other transactions.
    fn birth(&self, event: &Event, seen: &Seen, drawing: &mut Drawing) {
        let is_read = event.row != Item::NONE && seen.newest_read(self.me, event.row).is_some();
        let is_seen = is_read || seen.hides(self.me, event.row);
        if event.writer != Writer::INITIAL && event.writer.0 != self.me && !is_seen {
            drawing.edge(Node(self.me), Node(event.writer.0), Kind::PredicateReadWrite);
        }
    }

    fn died_before(&mut self, stretch: &Stretch, count: u32, before: u32, seen: &Seen, drawing: &mut Drawing) {
        let events = &self.entries.deaths;
        if count <= self.settings.direct_edges_max {
            for piece in &self.deaths {
                for event in events.at(piece.level, piece.start..piece.split) {
                    self.death(event, seen, drawing);
                }
            }
            return;
        }
        for &rank in &self.cuts {
            if let Some(event) = events.last_before(rank, stretch.at) {
                self.death(event, seen, drawing);
            }
        }
        if !self.cuts.is_empty() {
            pieces_between(events, &stretch.ranks, &self.cuts, before, &mut self.deaths);
        }
        for piece in self.deaths.iter().filter(|piece| piece.start < piece.split) {
            let last = events.at(piece.level, piece.split - 1..piece.split).next();
            if last.is_some_and(|event| event.writer.0 > self.me) {
                drawing.has_backward(Kind::PredicateWriteRead);
            }
            self.deaths_wanted.push(Request { piece: *piece, by: self.me });
        }
    }

    fn death(&self, event: &Event, seen: &Seen, drawing: &mut Drawing) {
        let newest = (event.row != Item::NONE).then(|| seen.newest_read(self.me, event.row)).flatten();
        let is_read = newest.is_some_and(|newest| newest >= event.stamp);
        let is_denied = self.denied.binary_search(&event.rank).is_ok();
        if event.writer != Writer::INITIAL && event.writer.0 != self.me && !is_read && !is_denied {
            drawing.edge(Node(event.writer.0), Node(self.me), Kind::PredicateWriteRead);
        }
    }

    /// Draws the requested edges, with auxiliary nodes.
    pub(super) fn share(&mut self, drawing: &mut Drawing) {
        let mut wanted = mem::take(&mut self.births_wanted);
        wanted.sort_unstable();
        for node in wanted.chunk_by(|one, other| same_node(&one.piece, &other.piece)) {
            share_births(node, &self.entries.births, drawing);
        }
        let mut wanted = mem::take(&mut self.deaths_wanted);
        wanted.sort_unstable();
        for node in wanted.chunk_by(|one, other| same_node(&one.piece, &other.piece)) {
            share_deaths(node, &self.entries.deaths, drawing);
        }
    }
}

fn same_node(one: &Piece, other: &Piece) -> bool {
    (one.level, one.start) == (other.level, other.start)
}

/// The pieces of a stretch without some of its entries.
fn pieces_between(events: &Events, ranks: &Range<Rank>, cuts: &[Rank], before: u32, into: &mut Vec<Piece>) {
    into.clear();
    let mut start = ranks.start;
    for &cut in cuts {
        events.pieces(start..cut, before, into);
        start = cut + 1;
    }
    events.pieces(start..ranks.end, before, into);
}

/// From each requested place, an auxiliary node leads to the births up to the next such place, and to the node there.
fn share_births(node: &[Request], events: &Events, drawing: &mut Drawing) {
    let Piece { level, end, .. } = node[0].piece;
    let mut behind = (end, None);
    for requests in node.chunk_by(|one, other| one.piece.split == other.piece.split).rev() {
        let split = requests[0].piece.split;
        let writers = events.at(level, split..behind.0).map(|event| event.writer);
        let writers = writers.filter(|&writer| writer != Writer::INITIAL);
        let least = writers.clone().next().map_or(Node(0), |writer| Node(writer.0));
        let shared = drawing.auxiliary(least);
        for writer in writers {
            drawing.edge(shared, Node(writer.0), Kind::Chain);
        }
        if let Some(behind) = behind.1 {
            drawing.edge(shared, behind, Kind::Chain);
        }
        for request in requests {
            drawing.edge(Node(request.by), shared, Kind::PredicateReadWrite);
        }
        behind = (split, Some(shared));
    }
}

/// To each requested place, an auxiliary node leads from the deaths since the place before, and from the node there.
fn share_deaths(node: &[Request], events: &Events, drawing: &mut Drawing) {
    let Piece { level, start, .. } = node[0].piece;
    let mut before = (start, None);
    for requests in node.chunk_by(|one, other| one.piece.split == other.piece.split) {
        let split = requests[0].piece.split;
        let shared = drawing.auxiliary(Node(0));
        for event in events.at(level, before.0..split).filter(|event| event.writer != Writer::INITIAL) {
            drawing.edge(Node(event.writer.0), shared, Kind::PredicateWriteRead);
        }
        if let Some(before) = before.1 {
            drawing.edge(before, shared, Kind::Chain);
        }
        for request in requests {
            drawing.edge(shared, Node(request.by), Kind::Chain);
        }
        before = (split, Some(shared));
    }
}

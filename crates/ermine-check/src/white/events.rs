//! Births, or deaths, of index entries: those in a stretch of an index before or after a stamp.
//!
//! They form a tree over the entries in their order. Each of its nodes covers a stretch of entries and has their events
//! in the order of stamps; a level is stored in one array, node by node. A stretch is covered by a few nodes of each
//! level, and in each of these the events before a stamp are found by binary search.
//!
//! A node has four children: a stretch needs twice the nodes that it would with two children, in half the memory.

use std::ops::Range;

use super::{collect::Writer, keys::Item};
use crate::history::Stamp;

/// The place of an entry among all entries, in the order of index and bytes.
pub(super) type Rank = u32;

/// The birth or death of an entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) rank: Rank,
    pub(super) stamp: Stamp,
    pub(super) writer: Writer,
    /// The row that the entry leads to.
    pub(super) row: Item,
}

const CHILDREN_BITS: u32 = 2;

/// A level of the tree: its nodes, by the start of their events.
#[derive(Debug)]
struct Level {
    starts: Vec<u32>,
    /// Numbers of events.
    events: Vec<u32>,
}

/// All births, or all deaths.
#[derive(Debug)]
pub(super) struct Events {
    /// In the order of stamps; an event's number is its place here.
    list: Vec<Event>,
    /// The leaves first.
    levels: Vec<Level>,
}

/// Events of one node: `start..split` before a stamp, `split..end` at it or after. Indexes into the level's array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Piece {
    pub(super) level: u32,
    pub(super) start: u32,
    pub(super) end: u32,
    pub(super) split: u32,
}

impl Events {
    /// Builds the tree for entries with ranks below `entries`.
    pub(super) fn new(entries: usize, mut list: Vec<Event>) -> Self {
        list.sort_by_key(|event| event.stamp);
        let mut events = Self { list, levels: Vec::new() };
        let mut shift = 0;
        loop {
            let nodes = entries.div_ceil(1 << shift);
            events.levels.push(events.level(shift, nodes));
            if nodes <= 1 {
                return events;
            }
            shift += CHILDREN_BITS;
        }
    }

    fn level(&self, shift: u32, nodes: usize) -> Level {
        let mut starts = vec![0_u32; nodes + 1];
        for event in &self.list {
            starts[(event.rank >> shift) as usize + 1] += 1;
        }
        for node in 0..nodes {
            starts[node + 1] += starts[node];
        }
        let mut next = starts.clone();
        let mut events = vec![0; self.list.len()];
        for (number, event) in self.list.iter().enumerate() {
            let place = &mut next[(event.rank >> shift) as usize];
            events[*place as usize] = number as u32;
            *place += 1;
        }
        Level { starts, events }
    }

    /// The number of events with a lower stamp; an event is among them if its number is below the result.
    pub(super) fn before(&self, at: Stamp) -> u32 {
        self.list.partition_point(|event| event.stamp < at) as u32
    }

    /// Adds the nodes that cover a stretch of entries, each split at the event with number `before`. Nodes without
    /// events are left out.
    pub(super) fn pieces(&self, ranks: Range<Rank>, before: u32, into: &mut Vec<Piece>) {
        let (mut low, mut high) = (ranks.start, ranks.end);
        let children = 1 << CHILDREN_BITS;
        for (number, level) in self.levels.iter().enumerate() {
            let mut add = |node: u32| {
                let (start, end) = (level.starts[node as usize], level.starts[node as usize + 1]);
                if start < end {
                    let events = &level.events[start as usize..end as usize];
                    let split = start + events.partition_point(|&event| event < before) as u32;
                    into.push(Piece { level: number as u32, start, end, split });
                }
            };
            let is_top = number + 1 == self.levels.len();
            while low < high && (is_top || low % children != 0) {
                add(low);
                low += 1;
            }
            while low < high && high % children != 0 {
                high -= 1;
                add(high);
            }
            if low >= high {
                return;
            }
            (low, high) = (low >> CHILDREN_BITS, high >> CHILDREN_BITS);
        }
    }

    /// The events at some places of a level's array.
    pub(super) fn at(&self, level: u32, places: Range<u32>) -> impl DoubleEndedIterator<Item = &Event> + Clone {
        let events = &self.levels[level as usize].events[places.start as usize..places.end as usize];
        events.iter().map(|&event| &self.list[event as usize])
    }

    /// The last event of an entry below a stamp.
    pub(super) fn last_before(&self, rank: Rank, at: Stamp) -> Option<&Event> {
        let (events, before) = self.of_entry(rank, at);
        before.checked_sub(1).map(|last| &self.list[events[last] as usize])
    }

    /// The first event of an entry at a stamp or above.
    pub(super) fn first_from(&self, rank: Rank, at: Stamp) -> Option<&Event> {
        self.from(rank, at).next()
    }

    /// The events of an entry at a stamp or above.
    pub(super) fn from(&self, rank: Rank, at: Stamp) -> impl Iterator<Item = &Event> {
        let (events, before) = self.of_entry(rank, at);
        events[before..].iter().map(|&event| &self.list[event as usize])
    }

    /// The numbers of an entry's events, and how many of them are below a stamp.
    fn of_entry(&self, rank: Rank, at: Stamp) -> (&[u32], usize) {
        let Level { starts, events, .. } = &self.levels[0];
        let events = &events[starts[rank as usize] as usize..starts[rank as usize + 1] as usize];
        (events, events.partition_point(|&event| self.list[event as usize].stamp < at))
    }

    /// Bytes of memory in use.
    pub(super) fn bytes(&self) -> u64 {
        let level = |level: &Level| (level.starts.capacity() + level.events.capacity()) * size_of::<u32>();
        (self.list.capacity() * size_of::<Event>() + self.levels.iter().map(level).sum::<usize>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_a_stretch_exactly() {
        let seed = fastrand::u64(..1 << 40);
        eprintln!("seed {seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        for entries in [1, 2, 3, 4, 5, 16, 17, 63, 64, 65, 200] {
            let list: Vec<_> = (1..=300)
                .map(|stamp| Event {
                    rank: rng.u32(..entries),
                    stamp: Stamp(stamp),
                    writer: Writer(stamp as u32),
                    row: Item(0),
                })
                .collect();
            let events = Events::new(entries as usize, list.clone());
            for _ in 0..200 {
                let (one, other) = (rng.u32(..=entries), rng.u32(..=entries));
                let ranks = one.min(other)..one.max(other);
                let at = Stamp(rng.u64(..302));
                let mut pieces = Vec::new();
                events.pieces(ranks.clone(), events.before(at), &mut pieces);
                let mut found: Vec<_> = pieces
                    .iter()
                    .flat_map(|piece| events.at(piece.level, piece.start..piece.split))
                    .map(|event| event.stamp)
                    .collect();
                found.sort_unstable();
                let inside = list.iter().filter(|event| ranks.contains(&event.rank));
                assert!(found.iter().eq(inside.map(|event| &event.stamp).filter(|stamp| **stamp < at)));
                let all: u32 = pieces.iter().map(|piece| piece.end - piece.start).sum();
                assert_eq!(all as usize, list.iter().filter(|event| ranks.contains(&event.rank)).count());
            }
        }
    }
}

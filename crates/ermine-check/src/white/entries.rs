//! Births and deaths of the entries of indexes.
//!
//! An entry of a primary index is born when a missing row is written, and dies with the row's deletion; entries of
//! secondary indexes are born and die as their writers record it. Only indexes that have been scanned count.
//!
//! Invariants
//! 1. Births and deaths of an entry alternate, a birth first. An entry that dies without having been born, or whose row
//!    was read from before the history, has an initial birth at stamp zero.
//! 2. A row has at most one entry in an index at a time.

use std::ops::Range;

use hashbrown::HashSet;

use super::{
    collect::{Collected, EntryChange, Version, Writer},
    events::{Event, Events, Rank},
    keys::{Item, Keys},
    versions::Versions,
};
use crate::history::{Index, Stamp};

const NO_RANK: Rank = Rank::MAX;

/// The births of a row's entries in secondary indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RowBirth {
    row: Item,
    index: Index,
    stamp: Stamp,
    rank: Rank,
}

/// All entries that are ever born or die.
#[derive(Debug)]
pub(super) struct Entries {
    /// By item.
    ranks: Vec<Rank>,
    /// By rank.
    items: Vec<Item>,
    pub(super) births: Events,
    pub(super) deaths: Events,
    row_births: Vec<RowBirth>,
}

/// A change of an entry, before entries have ranks.
#[derive(Clone, Copy)]
struct Change {
    entry: Item,
    row: Item,
    stamp: Stamp,
    writer: Writer,
    birth: bool,
}

impl Entries {
    pub(super) fn new(collected: &Collected, versions: &Versions) -> Self {
        let keys = &collected.keys;
        let mut changes = primary_changes(keys, versions, &collected.ranged);
        changes.extend(secondary_changes(keys, &collected.changes, &collected.ranged));
        let mut items: Vec<_> = changes.iter().map(|change| change.entry).collect();
        items.sort_unstable();
        items.dedup();
        items.sort_unstable_by(|&one, &other| keys.compare(one, keys.index(other), keys.bytes(other)));
        let mut ranks = vec![NO_RANK; keys.len()];
        for (rank, item) in items.iter().enumerate() {
            ranks[item.at()] = rank as Rank;
        }
        let (mut births, mut deaths, mut row_births) = (Vec::new(), Vec::new(), Vec::new());
        for Change { entry, row, stamp, writer, birth } in changes {
            let (rank, index) = (ranks[entry.at()], keys.index(entry));
            (if birth { &mut births } else { &mut deaths }).push(Event { rank, stamp, writer, row });
            if birth && index.ordinal != 0 {
                row_births.push(RowBirth { row, index, stamp, rank });
            }
        }
        row_births.sort_unstable();
        let (births, deaths) = (Events::new(items.len(), births), Events::new(items.len(), deaths));
        Self { ranks, items, births, deaths, row_births }
    }

    /// The rank of an item, if it is an entry that is ever born or dies.
    pub(super) fn rank(&self, item: Item) -> Option<Rank> {
        Some(self.ranks[item.at()]).filter(|&rank| rank != NO_RANK)
    }

    /// The item of a rank.
    pub(super) fn item(&self, rank: Rank) -> Item {
        self.items[rank as usize]
    }

    /// The ranks of the entries in a range.
    pub(super) fn between(&self, keys: &Keys, index: Index, lower: &[u8], upper: Option<&[u8]>) -> Range<Rank> {
        let below = |bytes| self.items.partition_point(|&item| keys.compare(item, index, bytes).is_lt());
        let start = below(lower);
        let end = match upper {
            Some(upper) => below(upper),
            None => self.items.partition_point(|&item| keys.index(item) <= index),
        };
        start as Rank..end.max(start) as Rank
    }

    /// The birth of an entry that is alive just below a stamp.
    pub(super) fn alive(&self, rank: Rank, at: Stamp) -> Option<&Event> {
        let birth = self.births.last_before(rank, at)?;
        match self.deaths.last_before(rank, at) {
            Some(death) if death.stamp > birth.stamp => None,
            _ => Some(birth),
        }
    }

    /// The entry of a row that is alive just below a stamp.
    pub(super) fn of_row(&self, row: Item, index: Index, at: Stamp) -> Option<Rank> {
        if index.ordinal == 0 {
            return self.rank(row);
        }
        let before = self.row_births.partition_point(|birth| (birth.row, birth.index, birth.stamp) < (row, index, at));
        let last = self.row_births[..before].last()?;
        ((last.row, last.index) == (row, index)).then_some(last.rank)
    }

    /// Adds the entries that a row got from one stamp to another, both included.
    pub(super) fn born_within(&self, row: Item, index: Index, from: Stamp, to: Stamp, into: &mut Vec<Rank>) {
        if index.ordinal == 0 {
            into.extend(self.rank(row));
            return;
        }
        let before =
            self.row_births.partition_point(|birth| (birth.row, birth.index, birth.stamp) < (row, index, from));
        let inside = self.row_births[before..]
            .iter()
            .take_while(|birth| (birth.row, birth.index) == (row, index) && birth.stamp <= to);
        into.extend(inside.map(|birth| birth.rank));
    }

    /// Bytes of memory in use.
    pub(super) fn bytes(&self) -> u64 {
        let plain = self.ranks.capacity() * size_of::<Rank>()
            + self.items.capacity() * size_of::<Item>()
            + self.row_births.capacity() * size_of::<RowBirth>();
        plain as u64 + self.births.bytes() + self.deaths.bytes()
    }
}

fn primary_changes(keys: &Keys, versions: &Versions, ranged: &HashSet<Index>) -> Vec<Change> {
    let mut changes = Vec::new();
    for row in (0..keys.len() as u32).map(Item) {
        let index = keys.index(row);
        if index.ordinal != 0 || !ranged.contains(&index) {
            continue;
        }
        let initial = Change { entry: row, row, stamp: Stamp::ZERO, writer: Writer::INITIAL, birth: true };
        let mut live = false;
        for &Version { stamp, writer, value, began_live, .. } in versions.of(row) {
            // A deletion implies that the row existed before.
            if !live && !began_live && stamp == versions.of(row)[0].stamp && writer != Writer::INITIAL {
                changes.push(initial);
                live = true;
            }
            if live != value.is_some() {
                live = value.is_some();
                changes.push(Change { entry: row, row, stamp, writer, birth: live });
            }
        }
    }
    changes
}

fn secondary_changes(keys: &Keys, changes: &[EntryChange], ranged: &HashSet<Index>) -> Vec<Change> {
    let real = changes.iter().filter(|change| change.before != change.after);
    let mut sorted: Vec<_> = real.filter(|change| ranged.contains(&keys.index(change.entry))).collect();
    sorted.sort_by_key(|change| (change.entry, change.stamp));
    let mut normal: Vec<Change> = Vec::with_capacity(sorted.len());
    for &&EntryChange { entry, row, stamp, writer, after, .. } in &sorted {
        let live = normal.last().filter(|last| last.entry == entry).map(|last| last.birth);
        if live.is_none() && !after {
            normal.push(Change { entry, row, stamp: Stamp::ZERO, writer: Writer::INITIAL, birth: true });
        }
        if live.unwrap_or(!after) != after {
            normal.push(Change { entry, row, stamp, writer, birth: after });
        }
    }
    normal
}

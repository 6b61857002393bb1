//! The versions of every row, in the order of the stamps of their writers.

use super::{
    collect::{Version, Writer},
    keys::Item,
};
use crate::history::{ReadVersion, Stamp};

/// A state of a row: the one before its first version, or that of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct State(usize);

impl State {
    /// Before the first version: no row, as far as is known.
    const FIRST: Self = Self(0);
}

/// The state that a read claims to have seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resolved {
    /// This state.
    Is(State),
    /// This state, though another was current: a lookup that missed a row.
    Missed { seen: State, current: State },
    /// A state that the history does not have.
    Unknown,
}

/// All versions, row by row.
#[derive(Debug)]
pub(super) struct Versions {
    starts: Vec<u32>,
    list: Vec<Version>,
    /// Pairs of transactions that wrote one row at one stamp.
    pub(super) twins: Vec<(Item, Writer, Writer)>,
}

impl Versions {
    /// Builds the versions of rows with numbers below `items`.
    pub(super) fn new(items: usize, versions: Vec<Version>) -> Self {
        let mut starts = vec![0_u32; items + 1];
        for version in &versions {
            starts[version.row.at() + 1] += 1;
        }
        for row in 0..items {
            starts[row + 1] += starts[row];
        }
        let mut next = starts.clone();
        let mut list = versions.clone();
        for version in versions {
            let place = &mut next[version.row.at()];
            list[*place as usize] = version;
            *place += 1;
        }
        let mut sorted = Self { starts, list, twins: Vec::new() };
        for row in (0..items as u32).map(Item) {
            sorted.sort(row);
        }
        sorted
    }

    fn sort(&mut self, row: Item) {
        let (start, end) = (self.starts[row.at()] as usize, self.starts[row.at() + 1] as usize);
        let versions = &mut self.list[start..end];
        if !versions.is_sorted_by_key(|version| version.stamp) {
            versions.sort_by_key(|version| version.stamp);
        }
        for pair in versions.windows(2).filter(|pair| pair[0].stamp == pair[1].stamp) {
            self.twins.push((row, pair[0].writer, pair[1].writer));
        }
    }

    /// The versions of one row.
    pub(super) fn of(&self, row: Item) -> &[Version] {
        &self.list[self.starts[row.at()] as usize..self.starts[row.at() + 1] as usize]
    }

    /// The state that a read of a version saw; `Own` is never passed.
    pub(super) fn resolve(&self, row: Item, version: ReadVersion) -> Resolved {
        let versions = self.of(row);
        match version {
            ReadVersion::At(Stamp::ZERO) => Resolved::Is(State::FIRST),
            ReadVersion::At(stamp) => match versions.binary_search_by_key(&stamp, |version| version.stamp) {
                Ok(at) => Resolved::Is(State(at + 1)),
                Err(_) => Resolved::Unknown,
            },
            ReadVersion::Missing(at) => {
                let current = self.below(row, at);
                let is_live = |version: &Version| version.value.is_some();
                let live = versions[..current.0].iter().rev().take_while(|version| is_live(version)).count();
                match live {
                    0 => Resolved::Is(current),
                    _ => Resolved::Missed { seen: State(current.0 - live), current },
                }
            }
            ReadVersion::Own => unreachable!("own writes are no versions yet"),
        }
    }

    /// The version that left a row in this state.
    pub(super) fn at(&self, row: Item, state: State) -> Option<&Version> {
        Some(&self.of(row)[state.0.checked_sub(1)?])
    }

    /// The version before the one that left a row in this state.
    pub(super) fn before(&self, row: Item, state: State) -> Option<&Version> {
        Some(&self.of(row)[state.0.checked_sub(2)?])
    }

    /// The state that commits strictly below a stamp left.
    pub(super) fn below(&self, row: Item, stamp: Stamp) -> State {
        State(self.of(row).partition_point(|version| version.stamp < stamp))
    }

    /// The transaction that ended this state, or the next recorded one.
    pub(super) fn next_writer(&self, row: Item, state: State) -> Option<Writer> {
        let next = self.of(row)[state.0..].iter().find(|version| version.writer != Writer::INITIAL);
        next.map(|version| version.writer)
    }

    /// Like [`next_writer`](Self::next_writer), for the state before all known ones.
    pub(super) fn first_writer(&self, row: Item) -> Option<Writer> {
        self.next_writer(row, State::FIRST)
    }

    /// The state that a transaction left, if it wrote the row.
    pub(super) fn written(&self, row: Item, stamp: Stamp, by: Writer) -> Option<State> {
        let at = self.of(row).binary_search_by_key(&stamp, |version| version.stamp).ok()?;
        (self.of(row)[at].writer == by).then_some(State(at + 1))
    }

    /// Bytes of memory in use.
    pub(super) fn bytes(&self) -> u64 {
        (self.starts.capacity() * size_of::<u32>() + self.list.capacity() * size_of::<Version>()) as u64
    }
}

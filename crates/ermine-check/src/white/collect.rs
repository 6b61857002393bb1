//! The first walk over a history: assigns numbers to all keys, and collects the writers and the ranges.

use hashbrown::HashSet;

use super::keys::{Item, Keys};
use crate::{
    history::{Digest, History, Index, Operation, ReadVersion, Stamp, Transaction},
    progress::Progress,
};

/// A transaction that committed, by its place in the order of commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Writer(pub(super) u32);

impl Writer {
    /// The writer of versions from before the history.
    pub(super) const INITIAL: Self = Self(u32::MAX);
}

/// The final write of one transaction to one row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Version {
    pub(super) row: Item,
    pub(super) stamp: Stamp,
    pub(super) writer: Writer,
    pub(super) value: Option<Digest>,
    /// Its first write to the row was not a deletion.
    pub(super) began_live: bool,
}

/// The change that one transaction made to one entry of a secondary index.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryChange {
    pub(super) entry: Item,
    pub(super) row: Item,
    pub(super) stamp: Stamp,
    pub(super) writer: Writer,
    pub(super) before: bool,
    pub(super) after: bool,
}

/// A write that no other transaction may see.
#[derive(Clone, Copy, Debug)]
pub(super) struct Discarded {
    pub(super) row: Item,
    pub(super) value: Option<Digest>,
    /// The writer, by its place in the history.
    pub(super) by: u32,
    /// Its transaction aborted; otherwise the write was replaced.
    pub(super) aborted: bool,
}

/// The result of the walk.
#[derive(Debug, Default)]
pub(super) struct Collected {
    pub(super) keys: Keys,
    /// The item of each operation of a committed transaction; [`Item::NONE`] for ranges.
    items: Vec<Item>,
    /// Start of the items of each committed transaction.
    starts: Vec<usize>,
    /// Initial versions first, then in the order of commits.
    pub(super) versions: Vec<Version>,
    pub(super) changes: Vec<EntryChange>,
    pub(super) discarded: Vec<Discarded>,
    pub(super) ranged: HashSet<Index>,
    pub(super) ranges: u64,
}

impl Collected {
    /// The items of a committed transaction's operations.
    pub(super) fn items(&self, transaction: u32) -> &[Item] {
        &self.items[self.starts[transaction as usize]..self.starts[transaction as usize + 1]]
    }

    /// Bytes of memory in use.
    pub(super) fn bytes(&self) -> u64 {
        let items = self.items.capacity() * size_of::<Item>() + self.starts.capacity() * size_of::<usize>();
        self.keys.memory() + items as u64
    }
}

/// Walks over a history.
pub(super) fn collect(history: &History, progress: &mut dyn FnMut(Progress)) -> Collected {
    let mut walk = Walk { begin_min: history.begin_min(), ..Walk::default() };
    walk.collected.items.reserve_exact(history.operations() as usize);
    for (at, transaction) in history.transactions().enumerate() {
        if at.is_multiple_of(1 << 14) {
            progress(Progress::new("reading", at as u64, history.len() as u64));
        }
        match transaction.stamp() {
            Some(stamp) => walk.committed(at as u32, stamp, transaction),
            None => walk.aborted(at as u32, transaction),
        }
    }
    walk.finish()
}

/// The last transaction that touched an item, and the index of its record.
#[derive(Clone, Copy)]
struct Touched {
    by: u32,
    kept: u32,
}

const NONE: u32 = u32::MAX;

#[derive(Default)]
struct Walk {
    collected: Collected,
    initial: Vec<Version>,
    begin_min: Stamp,
    /// By item.
    touched: Vec<Touched>,
    /// By item: the stamp of the version from before the history that was read last.
    initial_read: Vec<Stamp>,
}

impl Walk {
    fn committed(&mut self, me: u32, stamp: Stamp, transaction: Transaction<'_>) {
        self.collected.starts.push(self.collected.items.len());
        let mut written = Item::NONE;
        for operation in transaction.operations() {
            let item = match operation {
                Operation::Read { table, key, version, value } => {
                    let row = self.collected.keys.row(table, key);
                    if let ReadVersion::At(stamp) = version {
                        self.read(row, stamp, value);
                    }
                    row
                }
                Operation::Write { table, key, value } => {
                    written = self.collected.keys.row(table, key);
                    self.write(me, stamp, written, value);
                    written
                }
                Operation::Entry { index, entry, present } => {
                    let entry = self.collected.keys.item(index, entry);
                    // The entry of no row: it could not be decided whether it was seen.
                    if written != Item::NONE {
                        self.change(me, stamp, entry, written, present);
                    }
                    entry
                }
                Operation::Range { index, .. } => {
                    self.collected.ranged.insert(index);
                    self.collected.ranges += 1;
                    Item::NONE
                }
            };
            self.collected.items.push(item);
        }
    }

    /// Notes a read of a version from before the history: no recorded transaction wrote below the first beginning.
    fn read(&mut self, row: Item, stamp: Stamp, value: Option<Digest>) {
        if stamp == Stamp::ZERO || stamp >= self.begin_min {
            return;
        }
        if self.initial_read.len() <= row.at() {
            self.initial_read.resize(self.collected.keys.len(), Stamp::ZERO);
        }
        if self.initial_read[row.at()] != stamp {
            self.initial_read[row.at()] = stamp;
            self.initial.push(Version { row, stamp, writer: Writer::INITIAL, value, began_live: value.is_some() });
        }
    }

    fn write(&mut self, me: u32, stamp: Stamp, row: Item, value: Option<Digest>) {
        let Collected { versions, discarded, .. } = &mut self.collected;
        let kept = versions.len() as u32;
        if let Some(kept) = Self::touch(&mut self.touched, me, row, kept) {
            let version = &mut versions[kept as usize];
            discarded.push(Discarded { row, value: version.value, by: me, aborted: false });
            version.value = value;
        } else {
            versions.push(Version { row, stamp, writer: Writer(me), value, began_live: value.is_some() });
        }
    }

    fn change(&mut self, me: u32, stamp: Stamp, entry: Item, row: Item, present: bool) {
        let changes = &mut self.collected.changes;
        let kept = changes.len() as u32;
        match Self::touch(&mut self.touched, me, entry, kept) {
            Some(kept) => changes[kept as usize].after = present,
            None => {
                changes.push(EntryChange { entry, row, stamp, writer: Writer(me), before: !present, after: present });
            }
        }
    }

    /// The index of this transaction's earlier record of an item; if there is none, its record will be at `next`.
    fn touch(touched: &mut Vec<Touched>, me: u32, item: Item, next: u32) -> Option<u32> {
        if touched.len() <= item.at() {
            touched.resize((item.at() + 1).next_power_of_two(), Touched { by: NONE, kept: 0 });
        }
        let touched = &mut touched[item.at()];
        if touched.by == me {
            return Some(touched.kept);
        }
        *touched = Touched { by: me, kept: next };
        None
    }

    fn aborted(&mut self, me: u32, transaction: Transaction<'_>) {
        for operation in transaction.operations() {
            if let Operation::Write { table, key, value } = operation {
                let row = self.collected.keys.row(table, key);
                self.collected.discarded.push(Discarded { row, value, by: me, aborted: true });
            }
        }
    }

    fn finish(mut self) -> Collected {
        self.collected.starts.push(self.collected.items.len());
        self.initial.sort_unstable_by_key(|version| (version.row, version.stamp));
        self.initial.dedup_by_key(|version| (version.row, version.stamp));
        self.initial.append(&mut self.collected.versions);
        self.collected.versions = self.initial;
        self.collected
    }
}

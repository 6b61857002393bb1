//! Removal of garbage: superseded versions, stale index entries, deleted rows.
//!
//! The worker that superseded a version queues the row and processes it after later commits, when the horizon has
//! passed. Versions *between* live snapshots are removed, too (interval pruning), so that a long reader keeps one
//! version a row, not all.
//!
//! Invariants
//! 1. Only one worker at a time changes the links of a row's committed versions: the holder of the row's latch (a
//!    stripe of them serves all rows).
//! 2. The newest committed version and everything above it is never unlinked here.
//! 3. An unlinked version keeps its own link: a reader at it continues to versions that were retired later.
//! 4. An entry of a secondary index is removed with the last version of its row that belongs to it; whether another one
//!    does is checked under the entry's leaf lock. A writer that brings the key back installs its version first and
//!    checks the entry afterwards, so one of the two sees the other (`chain::installed`). A row therefore has no
//!    entries left when its tombstone is alone, and its RowId can serve another key.
//! 5. The removal for a supersession touches nothing that was superseded after it. When a RowId serves another key, all
//!    of that key's stamps are higher than those of the supersessions that still wait in queues under the old key.
//! 6. A deleted row is removed when only its tombstone is left. The slot is emptied first; a transaction that finds an
//!    empty slot looks the key up again. The leaf's `removed` stamp rises to the deletion's: transactions that miss the
//!    key come after it.
//! 7. A tombstone stays while a snapshot from before the deletion is in use, even if the row was inserted after that
//!    snapshot: the tombstone shows the snapshot's transaction that it may not write the key (first updater wins). If
//!    that transaction neither writes nor is certified, the snapshot is passive, and needs no tombstone of a row that it
//!    does not see.

use std::{
    collections::{BTreeMap, HashMap, VecDeque, hash_map::Entry},
    hash::{BuildHasherDefault, DefaultHasher},
    iter,
};

use smallvec::SmallVec;

use crate::{
    epoch::Guard,
    ids::{IndexOrdinal, RowId, Stamp, TableId},
    rows::{
        chain::{CertifierStamps, Kind, Origin, SlotContent, VersionPtr},
        snapshots::Horizon,
    },
    sync::{AtomicU64, Ordering, fence},
    table::TableStore,
    types::KeyBuffer,
};

/// A row of which a committed transaction superseded a version at `stamp`.
pub(crate) struct Superseded {
    pub(crate) stamp: Stamp,
    pub(crate) table: TableId,
    pub(crate) row: RowId,
    /// The primary key, if index entries have to be removed with the versions: after a deletion, and in a table with
    /// secondary indexes.
    pub(crate) key: Option<SmallVec<[u8; 24]>>,
    /// Whether the version at `stamp` is a tombstone.
    pub(crate) deleted: bool,
}

/// With a fixed hash: the order of a worker's steps can be reproduced.
type ByRow = HashMap<(TableId, RowId), Superseded, BuildHasherDefault<DefaultHasher>>;

/// Superseded rows of one worker; rows that a long snapshot keeps wait for its end in a map of their own.
///
/// Rows that the horizon has passed are processed newest first. The newest supersession of a row removes the versions
/// below it as well, and the older ones find nothing left; in the opposite order each would walk past all newer
/// versions, and a row that is written all the time would cost the square of their number.
#[derive(Default)]
pub(crate) struct Queue {
    /// Oldest first.
    waiting: VecDeque<Superseded>,
    /// Passed by the horizon, the newest last.
    settled: Vec<Superseded>,
    busy: Vec<Superseded>,
    /// By snapshot: of each row the newest supersession, which covers the older ones.
    kept: BTreeMap<Stamp, ByRow>,
    kept_rows: usize,
}

impl Queue {
    pub(crate) fn push(&mut self, superseded: Superseded) {
        self.waiting.push_back(superseded);
    }

    /// Number of rows that wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len() + self.settled.len() + self.busy.len() + self.kept_rows
    }

    /// Returns the next row that can be processed. While a worker is about to take a snapshot, the queue may seem
    /// empty.
    pub(crate) fn pop(&mut self, horizon: &Horizon) -> Option<Superseded> {
        self.settled.pop_if(|newest| horizon.is_settled(newest.stamp))
    }

    /// Returns a row that will be processed later: the `ahead`-th from the next one.
    pub(crate) fn peek(&self, ahead: usize) -> Option<&Superseded> {
        self.settled.len().checked_sub(ahead + 1).map(|at| &self.settled[at])
    }

    /// Queues a row until `snapshot` is given up.
    pub(crate) fn keep(&mut self, snapshot: Stamp, superseded: Superseded) {
        let rows = self.kept.entry(snapshot).or_default();
        match rows.entry((superseded.table, superseded.row)) {
            Entry::Vacant(vacant) => {
                vacant.insert(superseded);
                self.kept_rows += 1;
            }
            Entry::Occupied(mut kept) if kept.get().stamp < superseded.stamp => drop(kept.insert(superseded)),
            Entry::Occupied(_) => {}
        }
    }

    /// Queues a row for a later round.
    pub(crate) fn again(&mut self, superseded: Superseded) {
        self.busy.push(superseded);
    }

    /// Moves rows to `settled`: those that the horizon has passed, those that other workers held, and those whose
    /// snapshots have been given up.
    pub(crate) fn wake(&mut self, horizon: &Horizon) {
        self.settled.append(&mut self.busy);
        // One key for each long snapshot.
        self.kept.retain(|&snapshot, rows| {
            let keep = horizon.has(snapshot);
            if !keep {
                self.kept_rows -= rows.len();
                self.settled.extend(rows.drain().map(|(_, superseded)| superseded));
            }
            keep
        });
        let count = self.waiting.iter().take_while(|oldest| horizon.is_settled(oldest.stamp)).count();
        self.settled.extend(self.waiting.drain(..count));
    }
}

/// Striped locks over rows for [`prune`].
pub(crate) struct Latches(Box<[AtomicU64]>);

/// A held latch.
pub(crate) struct Latched<'a>(&'a AtomicU64);

impl Latches {
    const STRIPES: usize = 1024;

    pub(crate) fn new() -> Self {
        Self((0..Self::STRIPES).map(|_| AtomicU64::new(0)).collect())
    }

    pub(crate) fn try_lock(&self, table: TableId, row: RowId) -> Option<Latched<'_>> {
        let stripe = &self.0[(row.0 ^ u64::from(table.0) << 5) as usize % Self::STRIPES];
        // Acquire: pairs with the release of the last holder.
        // The guard is created only if the latch is held: it unlocks when it is dropped.
        stripe.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok().then(|| Latched(stripe))
    }
}

impl Drop for Latched<'_> {
    fn drop(&mut self) {
        // Release: pairs with `try_lock`.
        self.0.store(0, Ordering::Release);
    }
}

/// The outcome for a queued row.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nothing of the supersession is left.
    Done,
    /// A snapshot still needs the superseded version.
    Wanted(Stamp),
    /// Another worker or transaction is at the row: try again.
    Busy,
}

/// Unlinked versions and rows that wait for their readers.
pub(crate) struct Unlinked<'a, H> {
    /// Versions that no snapshot can see: free once the operations now running have ended.
    pub(crate) versions: &'a mut Vec<VersionPtr<H>>,
    /// A deleted row and its tombstone: free once the transactions now running have ended, of those with passive
    /// snapshots their operations.
    pub(crate) row: &'a mut Option<(RowId, VersionPtr<H>)>,
}

/// Removes the garbage of a queued row. `versions` and `nodes` protect chain and index from reuse.
pub(crate) fn process<H: CertifierStamps>(
    table: &TableStore<H>,
    superseded: &Superseded,
    horizon: &Horizon,
    latches: &Latches,
    nodes: &Guard<'_>,
    unlinked: Unlinked<'_, H>,
) -> Outcome {
    let Some(latched) = latches.try_lock(superseded.table, superseded.row) else { return Outcome::Busy };
    let mut outcome = prune(table, superseded, horizon, nodes, unlinked.versions);
    if outcome == Outcome::Done
        && superseded.deleted
        && let Some(key) = &superseded.key
    {
        match horizon.traced_by(superseded.stamp) {
            // Invariant 7.
            Some(snapshot) => outcome = Outcome::Wanted(snapshot),
            None => (outcome, *unlinked.row) = remove_row(table, superseded.row, superseded.stamp, key, nodes),
        }
    }
    drop(latched);
    outcome
}

/// Unlinks the versions of a row that no snapshot needs. The latch is held.
fn prune<H: CertifierStamps>(
    table: &TableStore<H>,
    superseded: &Superseded,
    horizon: &Horizon,
    nodes: &Guard<'_>,
    unlinked: &mut Vec<VersionPtr<H>>,
) -> Outcome {
    let Some((mut newer, mut newer_at)) = newest_committed(table, superseded.row) else { return Outcome::Done };
    let key = superseded.key.as_deref();
    let mut outcome = Outcome::Done;
    while let Some(older) = newer.older() {
        let Origin::At(made) = older.origin().load() else { return Outcome::Busy };
        if newer_at > superseded.stamp {
            // This version belongs to a later supersession, and perhaps to another key: the RowId may be in use again
            // (invariant 5).
            (newer, newer_at) = (older, made);
            continue;
        }
        // A snapshot from before a version does not see the version, but one that is certified finds that out through the
        // version's entries.
        let traced = |key: &[u8]| {
            let by = horizon.traced_by(newer_at)?;
            has_entries_alone(table, superseded.row, older, key, nodes).then_some(by)
        };
        let wanted = match horizon.is_settled(newer_at) {
            true => horizon.wanted_by(made, newer_at).or_else(|| key.filter(|_| H::TRACKED).and_then(traced)),
            false => Some(newer_at),
        };
        match wanted {
            Some(snapshot) => {
                // This supersession also covers the versions left below: those between may be unlinked, and their
                // supersessions, which would have covered them, may be done.
                outcome = Outcome::Wanted(snapshot);
                newer = older;
            }
            None => {
                newer.set_below(older.below());
                if let Some(key) = key {
                    remove_entries(table, superseded.row, older, newer_at, key, nodes);
                }
                unlinked.push(older);
            }
        }
        newer_at = made;
    }
    outcome
}

/// Whether any entry of a committed version belongs to no newer committed one, which would keep it.
fn has_entries_alone<H: CertifierStamps>(
    table: &TableStore<H>,
    row: RowId,
    version: VersionPtr<H>,
    key: &[u8],
    nodes: &Guard<'_>,
) -> bool {
    let mut entry = KeyBuffer::new();
    let newest = newest_committed(table, row).map(|(newest, _)| newest);
    version.kind() == Kind::Live
        && table.secondaries().any(|(ordinal, secondary)| {
            let known = secondary.entry_of(key, version.payload(nodes), &mut entry).is_ok();
            let mut newer = iter::successors(newest, |newer| newer.older()).take_while(|&newer| newer != version);
            !known || !newer.any(|newer| table.version_matches(newer, ordinal, &entry))
        })
}

/// Removes the entries that belonged only to an unlinked version, superseded at `stamp`.
fn remove_entries<H: CertifierStamps>(
    table: &TableStore<H>,
    row: RowId,
    version: VersionPtr<H>,
    stamp: Stamp,
    key: &[u8],
    nodes: &Guard<'_>,
) {
    if version.kind() != Kind::Live {
        return;
    }
    // The version was unlinked before: either a writer that unlinks its own version and then checks for others does not
    // see this one any more, or the writer's version is not seen below (pairs with the compare-and-swap of
    // `RowSlot::install`).
    fence(Ordering::SeqCst);
    for (ordinal, secondary) in table.secondaries() {
        let mut entry = KeyBuffer::new();
        if secondary.entry_of(key, version.payload(nodes), &mut entry).is_err() {
            continue;
        }
        remove_unused_entry(table, row, ordinal, &entry, stamp, nodes);
    }
}

/// Removes an entry if no version of its row belongs to it. A transaction that misses the entry comes after `stamp`.
pub(crate) fn remove_unused_entry<H: CertifierStamps>(
    table: &TableStore<H>,
    row: RowId,
    ordinal: IndexOrdinal,
    entry: &[u8],
    stamp: Stamp,
    nodes: &Guard<'_>,
) {
    let unused = || !table.any_version_matches(row, ordinal, entry);
    // Checked beforehand as well: mostly the next version has the same key, and no leaf needs to be locked.
    if unused() {
        // The entry of an aborted writer may also have belonged to a version that has been superseded since.
        let stamp = newest_committed(table, row).map_or(stamp, |(_, newest)| newest.max(stamp));
        table.index(ordinal).remove_if(nodes, entry, row, Stamp::ZERO, stamp, unused);
    }
}

/// Returns the newest version that has its commit stamp.
fn newest_committed<H: CertifierStamps>(table: &TableStore<H>, row: RowId) -> Option<(VersionPtr<H>, Stamp)> {
    // The row of an evicted version has nothing to collect.
    let SlotContent::Head(head) = table.rows.slot(row).peek() else { return None };
    let mut next = Some(head);
    while let Some(version) = next {
        match version.origin().load() {
            Origin::At(stamp) if stamp != Stamp::INFINITY => return Some((version, stamp)),
            _ => next = version.older(),
        }
    }
    None
}

/// Removes a deleted row from the table, if its tombstone is the only version (invariant 6). The latch is held.
fn remove_row<H: CertifierStamps>(
    table: &TableStore<H>,
    row: RowId,
    deleted: Stamp,
    key: &[u8],
    nodes: &Guard<'_>,
) -> (Outcome, Option<(RowId, VersionPtr<H>)>) {
    let tombstone = match newest_committed(table, row) {
        Some((newest, stamp)) if stamp == deleted && newest.kind() == Kind::Tombstone => newest,
        // Inserted anew: the tombstone is an old version like others now.
        _ => return (Outcome::Done, None),
    };
    if tombstone.older().is_some() || !table.rows.slot(row).install(Some(tombstone), None) {
        // A transaction is inserting the row anew, and may abort.
        return (Outcome::Busy, None);
    }
    let removed = table.primary.remove_if(nodes, key, row, tombstone.certifier().last_read(), deleted, || true);
    debug_assert!(removed, "a row has one key until it is removed");
    (Outcome::Done, Some((row, tombstone)))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_failed_try_leaves_the_latch_held() {
        let latches = Latches::new();
        let held = latches.try_lock(TableId(1), RowId(7)).expect("it is free");
        assert!(latches.try_lock(TableId(1), RowId(7)).is_none());
        assert!(latches.try_lock(TableId(1), RowId(7)).is_none(), "the failed try has unlocked it");
        drop(held);
        assert!(latches.try_lock(TableId(1), RowId(7)).is_some());
    }
}

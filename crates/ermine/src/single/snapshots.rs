//! Snapshots of single-version rows, for transactions that never lose a conflict and for which no transaction waits
//! (Silo 4.9, SiloR 2).
//!
//! A snapshot is the end of an epoch: all commits up to it, none after. In the paper a snapshot begins every second,
//! and every writer keeps the values of an earlier snapshot that it overwrites. Here a snapshot begins on request,
//! which ends the current epoch, and values are kept only while there are snapshots; so a snapshot shows everything
//! committed before it.
//!
//! While a snapshot of epoch s is open:
//! 1. A transaction that overwrites a row of an epoch up to s, in an epoch above s, stores the old state of the row
//!    here before it unlocks the record, even if there was no row. So a reader that finds a record of an epoch above s
//!    finds its snapshot's row here, or there had never been one.
//! 2. A secondary entry that a commit of an epoch above s takes from its row stays in the index, and is noted here. It
//!    is removed when the snapshot ends, even if a running transaction has written the row so that it will have that
//!    entry: the transaction detects that at its commit (`secondary::put_entry`).
//! 3. A record without a row since an epoch above s stays in the index.
//!
//! A transaction that commits in an epoch up to s has locked its records before that epoch ended, so before the
//! snapshot reads any: a reader that finds a record not locked has the final state of the snapshot. A transaction that
//! commits in an epoch above s has read the epoch after `open` raised it, and so finds the snapshot announced.
//!
//! `commit.rs` shows that the commits up to an epoch are a prefix of a serial order; under `sto` and `tso` they are
//! not, and there are no snapshots.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher},
};

use smallvec::SmallVec;

use super::epoch::CommitEpochs;
use crate::{
    ids::{IndexOrdinal, RowId, Stamp, TableId},
    mutant::Mutant,
    rows::{
        copies::{Copied, Copies},
        in_place::{CommitTid, TidWord},
    },
    sync::{AtomicU64, Mutex, Ordering},
};

/// A snapshot that is being read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Snapshot {
    /// Rows overwritten in an epoch up to this one are not kept for it.
    from: u64,
    /// The last epoch that it shows.
    pub(super) epoch: u64,
}

impl Snapshot {
    /// A stamp above those of everything that the snapshot shows.
    pub(super) fn stamp(self) -> Stamp {
        CommitTid::first(self.epoch + 1).stamp()
    }
}

/// The open snapshots of a database, and the rows and entries that are kept for them.
pub(crate) struct Snapshots {
    open: Mutex<Vec<Snapshot>>,
    /// An upper bound of the epochs of open snapshots; [`NONE_OPEN`], which is below all epochs, if none is open.
    newest: AtomicU64,
    /// The least `from`; `u64::MAX`: none is open.
    oldest: AtomicU64,
    /// Rows and entries of epochs up to this one are not kept any more, and all such entries have been removed.
    cleaned: AtomicU64,
    cleaning: Mutex<()>,
    shards: Box<[Mutex<Shard>]>,
}

/// Rows and entries of one shard, selected by row.
#[derive(Default)]
struct Shard {
    rows: HashMap<(TableId, RowId), SmallVec<[Kept; 1]>, BuildHasherDefault<DefaultHasher>>,
    entries: Vec<LeftEntry>,
}

/// An old state of a row, which may be that there was none.
struct Kept {
    word: TidWord,
    /// The epoch in which it was overwritten.
    until: u64,
    value: Option<Box<[u8]>>,
}

impl Kept {
    /// Whether the end of an epoch shows this state.
    fn is_shown_at(&self, epoch: u64) -> bool {
        self.word.tid().epoch() <= epoch && epoch < self.until
    }
}

/// An entry of a secondary index that belongs to no row any more.
pub(crate) struct LeftEntry {
    pub(super) row: (TableId, RowId),
    pub(super) index: IndexOrdinal,
    pub(super) entry: Box<[u8]>,
    /// The epoch in which it was taken from its row.
    since: u64,
}

impl LeftEntry {
    pub(super) fn new(row: (TableId, RowId), index: IndexOrdinal, entry: &[u8], since: u64) -> Self {
        Self { row, index, entry: entry.into(), since }
    }
}

/// Below all epochs.
const NONE_OPEN: u64 = 0;

/// The reason why the locks here are not poisoned.
const HELD: &str = "no code panics while it holds what is kept for snapshots";

impl Snapshots {
    const SHARDS: usize = if cfg!(shuttle) { 2 } else { 64 };

    pub(super) fn new() -> Self {
        Self {
            open: Mutex::new(Vec::new()),
            newest: AtomicU64::new(NONE_OPEN),
            oldest: AtomicU64::new(u64::MAX),
            cleaned: AtomicU64::new(u64::MAX),
            cleaning: Mutex::new(()),
            shards: (0..Self::SHARDS).map(|_| Mutex::new(Shard::default())).collect(),
        }
    }

    /// Opens a snapshot, which shows everything that has been committed.
    pub(super) fn open(&self, epochs: &CommitEpochs) -> Snapshot {
        let mut open = self.open.lock().expect(HELD);
        let from = epochs.current();
        // SeqCst: before the epoch ends; a transaction that commits in a later epoch loads its epoch first, then
        // `oldest` (`is_before`), `newest` (`keep`) or `cleaned` (`is_cleaned_up_to`), and so finds the values stored
        // here.
        for least in [&self.oldest, &self.cleaned] {
            // Written under the lock only.
            least.store(least.load(Ordering::SeqCst).min(from), Ordering::SeqCst);
        }
        // Everything is kept until it is known which epoch ends.
        self.newest.store(u64::MAX, Ordering::SeqCst);
        let snapshot = Snapshot { from, epoch: epochs.end_one() };
        open.push(snapshot);
        self.newest.store(snapshot.epoch, Ordering::SeqCst);
        snapshot
    }

    /// Closes a snapshot. `take_out` is called with the entries that no snapshot needs any more; takes time for all
    /// rows and entries that are kept.
    pub(super) fn close(&self, snapshot: Snapshot, epochs: &CommitEpochs, mut take_out: impl FnMut(LeftEntry)) {
        let _cleaning = self.cleaning.lock().expect(HELD);
        let (shown, now) = {
            let mut open = self.open.lock().expect(HELD);
            let at = open.iter().position(|other| other.epoch == snapshot.epoch);
            open.swap_remove(at.expect("it is open until it is closed"));
            self.newest.store(open.iter().map(|open| open.epoch).max().unwrap_or(NONE_OPEN), Ordering::SeqCst);
            self.oldest.store(open.iter().map(|open| open.from).min().unwrap_or(u64::MAX), Ordering::SeqCst);
            // A transaction that loads the previous values keeps rows that no snapshot reads, until the next snapshot
            // is closed. Snapshots that begin from now on end this epoch or a later one.
            (open.iter().map(|open| open.epoch).collect::<Vec<_>>(), epochs.current())
        };
        for shard in &self.shards {
            let mut shard = shard.lock().expect(HELD);
            shard.rows.retain(|_, kept| {
                kept.retain(|kept| kept.until > now || shown.iter().any(|&epoch| kept.is_shown_at(epoch)));
                !kept.is_empty()
            });
            // Under the lock: the entries here were left for snapshots that have been announced.
            let oldest = self.oldest.load(Ordering::SeqCst);
            let left = shard.entries.extract_if(.., |left| left.since <= oldest).collect::<Vec<_>>();
            if shard.rows.is_empty() && shard.entries.is_empty() {
                // Frees the memory of the maps, too, which may have held many rows.
                *shard = Shard::default();
            }
            drop(shard);
            left.into_iter().for_each(&mut take_out);
        }
        let _open = self.open.lock().expect(HELD);
        // `oldest` has only fallen since the shards were cleaned.
        self.cleaned.store(self.oldest.load(Ordering::SeqCst), Ordering::SeqCst);
    }

    /// Whether a snapshot is open that a commit of this epoch must keep rows for.
    #[inline]
    pub(super) fn is_before(&self, epoch: u64) -> bool {
        // SeqCst: after the load of the epoch.
        self.oldest.load(Ordering::SeqCst) < epoch
    }

    /// Whether rows and entries of an epoch are not kept any more.
    pub(super) fn is_cleaned_up_to(&self, epoch: u64) -> bool {
        // SeqCst: after the load of the current epoch, which is later.
        epoch <= self.cleaned.load(Ordering::SeqCst)
    }

    /// Keeps a row that a commit of epoch `until` is about to overwrite; its record is locked.
    pub(super) fn keep(
        &self,
        row: (TableId, RowId),
        word: TidWord,
        until: u64,
        value: impl FnOnce() -> Option<Box<[u8]>>,
    ) {
        let mut shard = self.shard(row).lock().expect(HELD);
        // Under the lock, so that no row is kept that was cleaned up.
        let is_shown = word.tid().epoch() <= self.newest.load(Ordering::SeqCst) && self.is_before(until);
        if is_shown && !Mutant::NothingKept.is_on() {
            shard.rows.entry(row).or_default().push(Kept { word, until, value: value() });
        }
    }

    /// Notes that an entry has been taken from its row, whose record is locked. Returns whether a snapshot needs the
    /// entry; then it stays.
    pub(super) fn leave(&self, left: LeftEntry) -> bool {
        let mut shard = self.shard(left.row).lock().expect(HELD);
        // Under the lock: as in `keep`.
        let needed = self.is_before(left.since) && !Mutant::NoEntryLeft.is_on();
        if needed {
            shard.entries.push(left);
        }
        needed
    }

    /// Returns the state, in a snapshot, of a row that has been overwritten since (perhaps that there was none);
    /// `None`: the key had never existed.
    pub(super) fn read(
        &self,
        row: (TableId, RowId),
        snapshot: Snapshot,
        copies: &mut Copies,
    ) -> Option<(TidWord, Option<Copied>)> {
        let shard = self.shard(row).lock().expect(HELD);
        let kept = shard.rows.get(&row)?.iter().find(|kept| kept.is_shown_at(snapshot.epoch))?;
        Some((kept.word, kept.value.as_ref().map(|value| copies.push_bytes(value))))
    }

    /// Number of rows and entries that are kept. Visits all shards.
    pub(super) fn kept(&self) -> usize {
        let in_shard = |shard: &Mutex<Shard>| {
            let shard = shard.lock().expect(HELD);
            shard.entries.len() + shard.rows.values().map(SmallVec::len).sum::<usize>()
        };
        self.shards.iter().map(in_shard).sum()
    }

    fn shard(&self, row: (TableId, RowId)) -> &Mutex<Shard> {
        let mut hasher = DefaultHasher::new();
        row.hash(&mut hasher);
        &self.shards[hasher.finish() as usize % Self::SHARDS]
    }
}

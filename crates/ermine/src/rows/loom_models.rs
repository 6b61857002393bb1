//! Chains and the snapshot registry under the model checker.
//!
//! The writers end by the engine's own steps (`txn::commit_order`), the readers apply its own rule (`txn::visible`).
//! loom fails a model that reads an atomic of a version header without having acquired its creation; as the payload is
//! written at the same place, that covers uninitialised payloads, too.

use std::sync::Arc;

use loom::thread;

use super::{
    arena::{Arena, Pool},
    chain::{Below, Kind, NewVersion, OriginWord, RowSlot, SlotContent, VersionPtr},
    known::{Known, KnownToAny},
    snapshots::{Horizon, Needs, SnapshotSlot},
};
use crate::{
    clock::LogOffset,
    epoch::EpochManager,
    ids::{RowId, Stamp, TableId, Tid},
    log::lsn::{Address, Lsn, Space},
    scheme::{
        ConflictSite, Scheme, Shared,
        escalation::TableReaders,
        snapshot::{ReadCommitted, SnapshotIsolation, Uncertified},
    },
    txn::{
        commit_order::{Ending, Unlogged, Write},
        prepared::PreparedTransactions,
        readers::{ReaderSlot, ReaderSlots},
        safe::SafeSnapshot,
        table::{TidLease, TidTable},
        visible::{Seen, Standing, standing, visible},
    },
};

const SITE: ConflictSite = ConflictSite { table: TableId(0), at: 0, length: 0 };
const FIRST: u8 = 1;

/// One row with a committed version.
struct Row {
    shared: Shared,
    slot: RowSlot<()>,
    pool: Arc<Pool>,
}

impl Row {
    fn new() -> Arc<Self> {
        let shared = Shared {
            clock: Arc::new(LogOffset::new()),
            tids: TidTable::with_blocks_of(1, 2),
            readers: ReaderSlots::with_count(2),
            safe: SafeSnapshot::new(),
            prepared: PreparedTransactions::new(),
        };
        let row = Self { shared, slot: RowSlot::empty(), pool: Pool::unlimited() };
        let first =
            NewVersion { kind: Kind::Live, tid: Tid(1 << 16), below: Below::Nothing, write: 0, payload: &[FIRST] };
        let first = row.slot.push(&mut row.pool.arena(), None, first).unwrap();
        first.origin().store(OriginWord::at(row.shared.clock.reserve(1)));
        Arc::new(row)
    }

    /// Returns the value that a snapshot sees, or the newest committed one.
    fn read<S: Scheme<Certifier = Uncertified>>(&self, begin: Stamp) -> u8 {
        match visible::<S>(&self.shared, begin, Needs::Newer, None, self.slot.head().unwrap(), || ()) {
            Seen::At(version, _) => version.payload(&())[0],
            Seen::Own(_) | Seen::Nothing => panic!("the first version is always there"),
        }
    }
}

/// A transaction that writes the row.
struct Writer {
    row: Arc<Row>,
    tids: TidLease,
    reader: ReaderSlot,
    arena: Arena,
    begin: Stamp,
    writes: Vec<Write<()>>,
}

impl Writer {
    fn begin(row: &Arc<Row>) -> Self {
        let begin = row.shared.clock.now();
        let mut tids = row.shared.tids.lease();
        tids.begin().unwrap();
        let mut arena = row.pool.arena();
        // Keeps the pool's lock out of the model.
        arena.allocate(1);
        Self {
            row: Arc::clone(row),
            tids,
            reader: row.shared.readers.lease().unwrap(),
            arena,
            begin,
            writes: Vec::new(),
        }
    }

    /// Writes as the engine does; `false` when another writer was first.
    fn write(&mut self, content: u8) -> bool {
        let (row, tid, payload) = (&*self.row, self.tids.tid(), &[content]);
        loop {
            let head = row.slot.head().unwrap();
            let new = |below| NewVersion { kind: Kind::Live, tid, below, write: 0, payload };
            match standing(&row.shared, Some(tid), self.begin, head) {
                Standing::Committed(stamp) if stamp < self.begin => {
                    if let Some(new) = row.slot.push(&mut self.arena, Some(head), new(Below::Older(head))) {
                        self.writes.push(Write { row: RowId(0), new, old: Some(head), fresh: false, site: SITE });
                        return true;
                    }
                }
                Standing::Own => {
                    self.writes[0].new = row.slot.replace(&mut self.arena, head, new(head.below()));
                    return true;
                }
                Standing::Void => thread::yield_now(),
                Standing::Committed(_) | Standing::Unfinished(_) => return false,
            }
        }
    }

    fn commit(mut self) -> Stamp {
        let ending = Ending { tids: &mut self.tids, reader: &self.reader, certifier: &mut Uncertified };
        let readers = TableReaders::new(None);
        ending.commit(&self.row.shared, &mut Unlogged(1), &self.writes, |_| &readers, || Ok(()), |_, _| Ok(())).unwrap()
    }

    fn abort(mut self) {
        let ending = Ending { tids: &mut self.tids, reader: &self.reader, certifier: &mut Uncertified };
        ending.abort();
        for write in self.writes.iter().rev() {
            ending.take_back(&self.row.slot, write);
        }
        ending.release();
    }
}

/// Reads the row in a snapshot of the present; later the same snapshot must show the same.
fn reader(row: &Arc<Row>) -> impl FnOnce() -> (Stamp, u8) + Send + 'static {
    let row = Arc::clone(row);
    move || {
        let begin = row.shared.clock.now();
        (begin, row.read::<SnapshotIsolation>(begin))
    }
}

fn bounded(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// One of two writers wins.
#[test]
fn loom_the_first_of_two_writers_wins() {
    bounded(|| {
        let row = Row::new();
        let (mut one, mut other) = (Writer::begin(&row), Writer::begin(&row));
        let writing = thread::spawn(move || other.write(3).then(|| other.commit()));
        let mine = one.write(2).then(|| one.commit());
        let theirs = writing.join().unwrap();
        assert!(mine.is_some() != theirs.is_some(), "exactly one commits");
        assert_eq!(row.read::<SnapshotIsolation>(row.shared.clock.now()), if mine.is_some() { 2 } else { 3 });
    });
}

/// A snapshot taken while a writer commits shows the same then and later.
#[test]
fn loom_a_snapshot_does_not_change() {
    bounded(|| {
        let row = Row::new();
        let mut writer = Writer::begin(&row);
        let reading = thread::spawn(reader(&row));
        assert!(writer.write(2));
        let stamp = writer.commit();
        let (begin, seen) = reading.join().unwrap();
        assert_eq!(seen, if stamp < begin { 2 } else { FIRST });
        assert_eq!(seen, row.read::<SnapshotIsolation>(begin), "the snapshot has changed");
    });
}

/// A writer aborts while a reader walks and another writer waits for the row.
#[test]
fn loom_nobody_sees_an_aborted_version() {
    bounded(|| {
        let row = Row::new();
        let (mut aborting, mut next) = (Writer::begin(&row), Writer::begin(&row));
        assert!(aborting.write(2));
        let reading = thread::spawn(reader(&row));
        let writing = thread::spawn(move || next.write(3).then(|| next.commit()));
        aborting.abort();
        let committed = writing.join().unwrap();
        let (begin, seen) = reading.join().unwrap();
        assert_ne!(seen, 2, "the aborted version");
        assert_eq!(seen, row.read::<SnapshotIsolation>(begin), "the snapshot has changed");
        let newest = row.read::<SnapshotIsolation>(row.shared.clock.now());
        assert_eq!(newest, if committed.is_some() { 3 } else { FIRST });
    });
}

/// A writer replaces its own version and commits. Read committed takes the newest committed version that it meets: the
/// replaced one must not look committed.
#[test]
fn loom_nobody_sees_a_replaced_version() {
    bounded(|| {
        let row = Row::new();
        let mut writer = Writer::begin(&row);
        let reading = thread::spawn({
            let row = Arc::clone(&row);
            move || row.read::<ReadCommitted>(row.shared.clock.now())
        });
        assert!(writer.write(2) && writer.write(3));
        writer.commit();
        assert_ne!(reading.join().unwrap(), 2, "an intermediate version");
    });
}

/// The same with a snapshot. (Both readers at once would wait for the writer by yielding, which loom cannot tell from a
/// loop without end.)
#[test]
fn loom_no_snapshot_sees_a_replaced_version() {
    bounded(|| {
        let row = Row::new();
        let mut writer = Writer::begin(&row);
        let in_snapshot = thread::spawn(reader(&row));
        assert!(writer.write(2) && writer.write(3));
        writer.commit();
        let (begin, seen) = in_snapshot.join().unwrap();
        assert_eq!(seen, row.read::<SnapshotIsolation>(begin), "the snapshot has changed");
    });
}

/// A version is superseded, and another thread computes the horizon, while a worker ends one transaction and begins
/// another.
fn snapshot_against_pruner(needs: Needs) {
    loom::model(move || {
        let (clock, slot) = (Arc::new(LogOffset::new()), Arc::new(SnapshotSlot::new()));
        let made = clock.reserve(1);
        let beginning = thread::spawn({
            let (clock, slot) = (Arc::clone(&clock), Arc::clone(&slot));
            move || {
                slot.take(&clock, needs, true);
                slot.leave();
                slot.take(&clock, needs, true)
            }
        });
        let superseding = thread::spawn({
            let clock = Arc::clone(&clock);
            move || clock.reserve(1)
        });
        let mut horizon = Horizon::default();
        horizon.refresh(&clock, &SnapshotSlot::new(), || [&*slot].into_iter());
        let superseded = superseding.join().unwrap();
        let is_settled = horizon.is_settled(superseded);
        let unwanted = is_settled && horizon.wanted_by(made, superseded).is_none();
        let untraced = is_settled && horizon.traced_by(superseded).is_none();
        let begin = beginning.join().unwrap();
        let sees_it = made < begin && begin <= superseded;
        assert!(!(unwanted && sees_it), "the snapshot at {begin} sees what was given up");
        // Read committed at `begin` may read everything newer.
        assert!(needs != Needs::Newer || !unwanted || superseded < begin);
        assert!(needs == Needs::Versions || !untraced || superseded < begin, "a trace is missing");
    });
}

#[test]
fn loom_a_version_that_an_exact_snapshot_sees_is_wanted() {
    snapshot_against_pruner(Needs::Traces);
}

#[test]
fn loom_a_version_that_a_passive_snapshot_sees_is_wanted() {
    snapshot_against_pruner(Needs::Versions);
}

#[test]
fn loom_a_version_that_an_open_snapshot_sees_is_wanted() {
    snapshot_against_pruner(Needs::Newer);
}

/// Returns a version that a transaction writes over `old`.
fn second(old: VersionPtr<()>) -> NewVersion<'static, ()> {
    NewVersion { kind: Kind::Live, tid: Tid(1 << 16), below: Below::Older(old), write: 0, payload: &[FIRST + 1] }
}

/// Returns the place of a row in a file.
fn some_address() -> Address {
    Address::new(Space::Log, Lsn::new(1 << 20, 0), 0).expect("a small number")
}

/// A walk beside the loader finds a row in its file or in memory, never neither.
#[test]
fn loom_a_row_that_is_being_loaded_is_never_missing() {
    bounded(|| {
        let row = Arc::new((RowSlot::<()>::empty(), Pool::unlimited()));
        let address = some_address();
        assert!(row.0.replace_stored(None, Some(address)));
        let loader = {
            let row = row.clone();
            thread::spawn(move || {
                let (slot, pool) = &*row;
                assert!(slot.bring_in(&mut pool.arena(), address, Stamp(1), 0, &[FIRST]));
            })
        };
        match row.0.content() {
            SlotContent::Stored(found) => assert_eq!(found, address),
            SlotContent::Head(version) => assert_eq!(version.payload(&row), [FIRST]),
            SlotContent::Empty => panic!("the row is missing"),
        }
        loader.join().unwrap();
    });
}

/// A transaction of two operations beside the eviction of a row: it finds the row in memory until it ends, or in its
/// file, and what it found in memory is not freed meanwhile, also between the operations.
#[test]
fn loom_a_transaction_keeps_the_row_that_it_has_found_in_memory() {
    /// Stands for the memory of the version.
    struct Memory(loom::cell::UnsafeCell<u8>);
    // SAFETY: loom checks the accesses.
    unsafe impl Sync for Memory {}
    bounded(|| {
        let row = Row::new();
        let (epochs, memory) = (EpochManager::new("operations"), Arc::new(Memory(loom::cell::UnsafeCell::new(FIRST))));
        let (known, address) = (Arc::new(Known::new()), some_address());
        let reader = {
            let (row, epochs, memory, known) = (row.clone(), epochs.clone(), memory.clone(), known.clone());
            thread::spawn(move || {
                let participant = epochs.join();
                let find = || {
                    let _operation = participant.enter();
                    let SlotContent::Head(version) = row.slot.content() else { return false };
                    known.add(version.address());
                    true
                };
                if find() {
                    // SAFETY: loom fails the model when this is concurrent with the writing.
                    memory.0.with(|content| assert_eq!(unsafe { *content }, FIRST));
                    assert!(find(), "evicted under a transaction");
                    known.clear();
                    // Another transaction of the worker, in an operation that has not ended.
                    let _operation = participant.enter();
                    known.add(0x40);
                }
            })
        };
        row.slot.cool();
        let epoch = epochs.retirement_epoch();
        epochs.advance();
        epochs.advance();
        let is_closed = epochs.is_closed(epoch);
        let mut others = KnownToAny::new();
        known.add_to(&mut others);
        if is_closed
            && let Some(version) = row.slot.cooling()
            && !others.may_have(version.address())
            && row.slot.evict(version, address)
        {
            // SAFETY: as above.
            memory.0.with_mut(|content| unsafe { *content = 0 });
        }
        reader.join().unwrap();
    });
}

/// A writer beside the eviction of a row: its version takes the place of the old one, or it finds the row in its file.
#[test]
fn loom_a_writer_overwrites_a_row_in_memory_or_finds_it_evicted() {
    bounded(|| {
        let row = Row::new();
        let address = some_address();
        let writer = {
            let row = row.clone();
            thread::spawn(move || {
                let old = match row.slot.content() {
                    SlotContent::Head(old) => old,
                    SlotContent::Stored(_) => return false,
                    SlotContent::Empty => panic!("the row is missing"),
                };
                row.slot.push(&mut row.pool.arena(), Some(old), second(old)).is_some()
            })
        };
        row.slot.cool();
        let evicted = row.slot.cooling().is_some_and(|version| row.slot.evict(version, address));
        let written = writer.join().unwrap();
        assert_eq!(written, !evicted, "a mark alone keeps no writer from the row");
        match row.slot.peek() {
            SlotContent::Head(newest) => assert!(written && newest.payload(&row) == [FIRST + 1]),
            SlotContent::Stored(found) => assert_eq!(found, address),
            SlotContent::Empty => panic!("the row is missing"),
        }
    });
}

/// A writer that takes its version back beside the mark and a reader that takes the mark off: it never fails.
#[test]
fn loom_a_version_is_taken_back_whatever_happens_to_the_mark() {
    bounded(|| {
        let row = Row::new();
        let SlotContent::Head(old) = row.slot.content() else { panic!("the row is missing") };
        let own = row.slot.push(&mut row.pool.arena(), Some(old), second(old)).unwrap();
        let marking = {
            let row = row.clone();
            thread::spawn(move || {
                row.slot.mark_idle();
                row.slot.cool();
            })
        };
        let reading = {
            let row = row.clone();
            thread::spawn(move || drop(row.slot.content()))
        };
        assert!(row.slot.install(Some(own), Some(old)), "no other transaction changes the head");
        marking.join().unwrap();
        reading.join().unwrap();
        assert!(matches!(row.slot.peek(), SlotContent::Head(head) if head == old));
    });
}

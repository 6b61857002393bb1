//! One transaction of a model, and the assertions that hold when all have ended.

use std::{sync::Arc, time::Duration};

use loom::cell::UnsafeCell;

use crate::{
    ids::{Stamp, TableId},
    log::parallel::epoch::EpochClock,
    rows::{
        arena::{Arena, Pool},
        copies::Copies,
        in_place::{CommitTid, RecordPtr, TidWord},
    },
    scheme::{
        Conflict, ConflictSite,
        in_place::{Begun, Declared, InPlace, Limits, Ranges, Reach},
        partitioned::Partitioned,
        serial::Serial,
        silo::Silo,
        sto::{Sto, Width},
        tso::{Reads, Tso},
        two_phase::{Policy, TwoPhase},
        vll::Vll,
    },
};

pub(super) const SITE: ConflictSite = ConflictSite { table: TableId(0), at: 0, length: 0 };

/// The epoch in which a model begins.
const FIRST: u64 = 5;
/// The value of every row then.
const INITIAL: u8 = 0;

pub(super) const A: usize = 0;
pub(super) const B: usize = 1;
pub(super) const C: usize = 2;

/// A scheme in a model.
pub(super) trait Modelled: InPlace {
    /// Whether a transaction that has been admitted to a row excludes conflicting ones until it ends.
    const EXCLUDES: bool;
}

impl Modelled for Silo {
    const EXCLUDES: bool = false;
}
impl<W: Width> Modelled for Sto<W> {
    const EXCLUDES: bool = false;
}
impl<R: Reads> Modelled for Tso<R> {
    const EXCLUDES: bool = false;
}
impl<W: Policy> Modelled for TwoPhase<W> {
    const EXCLUDES: bool = true;
}
impl Modelled for Vll {
    const EXCLUDES: bool = true;
}
impl Modelled for Serial {
    const EXCLUDES: bool = true;
}
impl Modelled for Partitioned {
    const EXCLUDES: bool = true;
}

/// A database of three rows.
pub(super) struct Rows<P: Modelled> {
    pub(super) shared: P::Shared,
    pub(super) epochs: EpochClock,
    pub(super) records: [RecordPtr<P::Control>; 3],
    /// One per row. An access that is not ordered after the last one fails the model.
    guarded: [UnsafeCell<()>; 3],
    pool: Arc<Pool>,
}

// SAFETY: the cells hold nothing; loom detects concurrent accesses to one.
unsafe impl<P: Modelled> Sync for Rows<P> {}
// SAFETY: as above.
unsafe impl<P: Modelled> Send for Rows<P> {}

impl<P: Modelled> Rows<P> {
    pub(super) fn new() -> Arc<Self> {
        let pool = Pool::unlimited();
        let mut arena = pool.arena();
        let records = [A, B, C].map(|_| {
            let record = RecordPtr::create(&mut arena, size_of::<u64>(), P::Control::default());
            record.lock();
            assert!(record.store(&mut arena, &[INITIAL]).is_none());
            record.unlock(TidWord::written(CommitTid::first(FIRST), true));
            record
        });
        let shared = P::shared(&Limits { wait_max: Duration::MAX, timestamps_left: None });
        let guarded = [A, B, C].map(|_| UnsafeCell::new(()));
        Arc::new(Self { shared, epochs: EpochClock::starting_at(FIRST), records, guarded, pool })
    }

    /// Notes that a transaction has been admitted to a row.
    fn touch(&self, row: usize, writes: bool) {
        match (P::EXCLUDES, writes) {
            (false, _) => {}
            (true, false) => self.guarded[row].with(|_| ()),
            (true, true) => self.guarded[row].with_mut(|_| ()),
        }
    }

    /// Returns the value of a row when all transactions have ended.
    fn value(&self, row: usize) -> u8 {
        let mut copies = Copies::default();
        self.records[row].copy_locked(&mut copies).bytes(&())[0]
    }
}

/// The reads and writes of a committed transaction.
pub(super) struct History {
    /// The value that it has written to each of its rows.
    value: u8,
    /// The TID of a transaction that wrote.
    tid: Option<CommitTid>,
    /// The transaction's timestamp, if the scheme has timestamps.
    stamp: Stamp,
    /// Rows, and the values read.
    read: Vec<(usize, u8)>,
    wrote: Vec<usize>,
}

/// One transaction.
pub(super) struct Actor<P: Modelled> {
    pub(super) rows: Arc<Rows<P>>,
    arena: Arena,
    pub(super) state: P::State,
    pub(super) copies: Copies,
    value: u8,
    last_tid: CommitTid,
    read: Vec<(usize, u8)>,
    /// The rows to write.
    writes: Vec<usize>,
}

impl<P: Modelled> Actor<P> {
    /// Creates a worker whose transaction has not begun yet. It will write `value`.
    pub(super) fn new(rows: &Arc<Rows<P>>, value: u8) -> Self {
        let actor = Self {
            rows: Arc::clone(rows),
            arena: rows.pool.arena(),
            state: P::State::default(),
            copies: Copies::default(),
            value,
            last_tid: CommitTid::default(),
            read: Vec::new(),
            writes: Vec::new(),
        };
        // Runs an earlier transaction, so that the scheme's shared state includes the worker.
        actor.begin().end()
    }

    pub(super) fn begin(mut self) -> Self {
        assert_eq!(P::begin(&self.rows.shared, &mut self.state, true).unwrap(), Begun::Running);
        self
    }

    /// Ends a transaction that has done nothing.
    pub(super) fn end(mut self) -> Self {
        P::end(&self.rows.shared, &mut self.state, false);
        self
    }

    /// Creates two transactions that have begun, the older one first. They write 1 and 2.
    pub(super) fn two(rows: &Arc<Rows<P>>) -> [Self; 2] {
        [1, 2].map(|value| Self::new(rows, value).begin())
    }

    /// Declares what the transaction will touch, if the scheme requires it.
    fn declare(&mut self, reads: &[usize], writes: &[usize]) {
        if P::DECLARES {
            let record = |&row: &usize| self.rows.records[row];
            let read = reads.iter().map(|row| (record(row), false));
            let records = read.chain(writes.iter().map(|row| (record(row), true))).collect();
            P::enter(&self.rows.shared, &mut self.state, Declared::Records(records)).unwrap();
        }
    }

    /// Calls `reach`; every row is a partition.
    fn reach(&mut self, row: usize) -> Result<(), Conflict> {
        P::reach(&self.rows.shared, &mut self.state, Reach::Partition(row as u64), SITE)
    }

    pub(super) fn read(&mut self, row: usize) -> Result<(), Conflict> {
        self.reach(row)?;
        let Self { rows, state, copies, .. } = self;
        let (word, value) = P::read(&rows.shared, state, rows.records[row], SITE, Some(copies))?;
        self.last_tid = self.last_tid.max(word.tid());
        self.read.push((row, value.expect("no model deletes a row").bytes(&())[0]));
        rows.touch(row, false);
        Ok(())
    }

    pub(super) fn write(&mut self, row: usize) -> Result<(), Conflict> {
        self.reach(row)?;
        P::claim(&self.rows.shared, &mut self.state, self.rows.records[row], SITE)?;
        self.rows.touch(row, true);
        self.writes.push(row);
        Ok(())
    }

    fn read_and_write(&mut self, reads: &[usize], writes: &[usize]) -> Result<(), Conflict> {
        reads.iter().try_for_each(|&row| self.read(row))?;
        writes.iter().try_for_each(|&row| self.write(row))
    }

    /// Reads and writes, then commits if there was no conflict.
    pub(super) fn run(mut self, reads: &[usize], writes: &[usize]) -> Option<History> {
        self.declare(reads, writes);
        self.go_on(reads, writes)
    }

    /// Continues as `run` does, after the transaction has read or declared something.
    pub(super) fn go_on(mut self, reads: &[usize], writes: &[usize]) -> Option<History> {
        match self.read_and_write(reads, writes) {
            Ok(()) => self.commit(),
            Err(_) => self.abort(),
        }
    }

    /// Commits in the steps of `single::commit`.
    pub(super) fn commit(mut self) -> Option<History> {
        let rows = Arc::clone(&self.rows);
        let record = |row: &usize| rows.records[*row];
        self.writes.sort_unstable_by_key(record);
        let mut words = Vec::new();
        for row in &self.writes {
            let word = record(row).lock();
            self.last_tid = self.last_tid.max(word.tid());
            words.push(word);
        }
        let tid = (!self.writes.is_empty()).then(|| {
            let epoch = rows.epochs.current();
            self.last_tid.next_in(epoch).expect("what was met is of no later epoch")
        });
        let Self { writes, state, .. } = &mut self;
        let is_own = |locked| writes.iter().any(|row| record(row) == locked);
        if P::certify(&rows.shared, state, is_own).is_err() {
            self.writes.iter().zip(words).for_each(|(row, word)| record(row).unlock(word));
            return self.abort();
        }
        for row in &self.writes {
            assert!(record(row).store(&mut self.arena, &[self.value]).is_none());
        }
        for row in &self.writes {
            record(row).unlock(TidWord::written(tid.expect("it writes"), true));
        }
        self.read.iter().for_each(|&(row, _)| rows.touch(row, false));
        self.writes.iter().for_each(|&row| rows.touch(row, true));
        let stamp = P::stamp(&self.state);
        P::end(&rows.shared, &mut self.state, true);
        Some(History { value: self.value, tid, stamp, read: self.read, wrote: self.writes })
    }

    /// Claims the rows that it would write, then rolls back.
    pub(super) fn give_up(mut self, writes: &[usize]) -> Option<History> {
        self.read_and_write(&[], writes).ok();
        self.abort()
    }

    /// Aborts; there is no history.
    pub(super) fn abort(mut self) -> Option<History> {
        P::end(&self.rows.shared, &mut self.state, false);
        None
    }
}

/// Asserts that a serial order explains the committed transactions, and that it is one of epochs and of timestamps.
pub(super) fn assert_serializable<P: Modelled>(rows: &Rows<P>, ended: &[Option<History>]) {
    let count = ended.len();
    let mut precedes = vec![vec![false; count]; count];
    let committed = || ended.iter().enumerate().filter_map(|(at, history)| Some((at, history.as_ref()?)));
    for row in [A, B, C] {
        // The writers of the row, in the order of TIDs: the first value has no writer.
        let mut writers: Vec<_> = committed().filter(|(_, history)| history.wrote.contains(&row)).collect();
        writers.sort_by_key(|(_, history)| history.tid);
        let values: Vec<_> = [INITIAL].into_iter().chain(writers.iter().map(|(_, history)| history.value)).collect();
        assert_eq!(rows.value(row), *values.last().unwrap(), "TIDs are not in the order of writes");
        writers.windows(2).for_each(|pair| precedes[pair[0].0][pair[1].0] = true);
        for (at, history) in committed() {
            for (_, value) in history.read.iter().filter(|(read, _)| *read == row) {
                let seen =
                    values.iter().position(|known| known == value).expect("a value that no transaction has committed");
                if seen > 0 {
                    precedes[writers[seen - 1].0][at] = true;
                }
                if let Some(&(next, _)) = writers.get(seen)
                    && next != at
                {
                    precedes[at][next] = true;
                }
            }
        }
    }
    for via in 0..count {
        for from in 0..count {
            for to in 0..count {
                precedes[from][to] |= precedes[from][via] && precedes[via][to];
            }
        }
    }
    assert!((0..count).all(|at| !precedes[at][at]), "no serial order");
    for (from, before) in committed() {
        for (_, after) in committed().filter(|(to, _)| precedes[from][*to]) {
            if P::RANGES == Ranges::Stamped {
                assert!(before.stamp < after.stamp, "not the order of timestamps");
            } else if let (Some(before), Some(after)) = (before.tid, after.tid) {
                assert!(before.epoch() <= after.epoch(), "epochs are not in serial order");
            }
        }
    }
}

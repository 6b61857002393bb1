//! Records what an engine reports of its transactions, in memory.
//!
//! Every thread packs into a shard of its own (if there are more threads than shards, they share), so that recording
//! takes one lock without contention. The shards become one history at the end.
//!
//! Reads of a transaction that asked for less than its scheme promises are left out: nothing was promised for them.
//!
//! Real time is a count of the transactions that have ended. A transaction that ends increments it, after others can
//! see its outcome; a transaction that begins reads the count, before it takes its snapshot. So a transaction with a
//! lower moment at its end than another has at its beginning had ended by then, and the reader of the count sees
//! everything that it did (the addition releases, the read acquires). A count that is read late makes fewer edges,
//! never a wrong one. A beginning writes no shared memory and executes no fence, so that recording does not hide a
//! missing fence there; clocks would need both to be trusted as much.
//!
//! A session is a process; a transaction without a session belongs to the process of its thread.

use std::{
    hash::BuildHasher,
    mem,
    num::NonZeroU32,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use ermine::{
    Isolation, Scheme, Session,
    observer::{self, Action, Circumstances, Observed, Observer},
};
use hashbrown::{DefaultHashBuilder, HashMap};

use crate::{
    anomaly::Level,
    history::{
        Builder, Digest, History, Index, Moment, Operation, Order, Outcome, Process, ReadVersion, Stamp, Table,
        TransactionContext,
    },
};

const SHARDS: usize = 64;

/// An observer that records everything, or the operations on a sample of the rows.
#[derive(Debug)]
pub struct Recorder {
    shards: Vec<Shard>,
    /// Names of tables.
    tables: Mutex<Vec<(Table, String)>>,
    sample: NonZeroU32,
    hasher: DefaultHashBuilder,
    ended: Ended,
    /// Kept as long as the recorder, so that no later session is taken for an earlier one.
    sessions: Mutex<HashMap<Session, Process>>,
}

/// This bit is set in the numbers of threads, and in no number of a session.
const THREAD: u32 = 1 << 31;

/// Number of transactions that have ended, on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Ended(AtomicU64);

/// Aligned so that threads do not share a cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard(Mutex<Builder>);

impl Recorder {
    /// Records one row in `sample`, chosen by its key; every row if that is 1. Ranges are always recorded: the births
    /// that they are compared with are sampled, too.
    pub fn new(sample: NonZeroU32) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            tables: Mutex::default(),
            sample,
            hasher: DefaultHashBuilder::default(),
            ended: Ended::default(),
            sessions: Mutex::default(),
        }
    }

    /// Records every row.
    pub fn everything() -> Self {
        Self::new(NonZeroU32::MIN)
    }

    /// Bytes of memory in use.
    pub fn bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lock().bytes()).sum()
    }

    /// The history since the beginning, or since the last call. No transaction should be running.
    pub fn finish(&self) -> History {
        let mut whole = Builder::new();
        for shard in &self.shards {
            whole.append(mem::take(&mut *shard.lock()));
        }
        let mut history = whole.finish(self.sample.get());
        for (table, name) in &*self.tables.lock().unwrap_or_else(PoisonError::into_inner) {
            history.name_table(*table, name);
        }
        history
    }

    fn process_of(&self, session: &Session) -> Process {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let next = Process(sessions.len() as u32);
        *sessions.entry(session.clone()).or_insert(next)
    }

    fn is_sampled(&self, table: Table, key: &[u8]) -> bool {
        self.sample.get() == 1 || {
            // Without a random seed: the same rows in every run.
            (Digest::of(key).0 ^ u64::from(table.0)).is_multiple_of(self.sample.get().into())
        }
    }

    /// A transaction's operations on rows of the sample. Entries are kept or dropped with the write that they follow.
    fn sampled<'a>(&self, operations: impl Iterator<Item = Operation<'a>>) -> impl Iterator<Item = Operation<'a>> {
        let mut write_sampled = false;
        operations.filter(move |operation| match *operation {
            Operation::Read { table, key, .. } => self.is_sampled(table, key),
            Operation::Write { table, key, .. } => {
                write_sampled = self.is_sampled(table, key);
                write_sampled
            }
            Operation::Entry { .. } => write_sampled,
            Operation::Range { .. } => true,
        })
    }
}

impl Shard {
    /// A panic elsewhere leaves the operations that were packed before it.
    fn lock(&self) -> MutexGuard<'_, Builder> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Recorder {
    fn table(&self, table: ermine::TableId, name: &str) {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        tables.push((Table(table.as_u32()), name.into()));
    }

    fn begins(&self) -> Moment {
        // Acquire: pairs with the addition of a transaction that has ended.
        Moment(self.ended.0.load(Ordering::Acquire))
    }

    fn ended(&self, transaction: &Observed<'_>) {
        // Release: pairs with the read of a transaction that begins. The n-th end is before beginnings at n and above.
        let ended = Moment(self.ended.0.fetch_add(1, Ordering::AcqRel));
        let thread = self.hasher.hash_one(thread::current().id());
        let outcome = match transaction.outcome {
            observer::Outcome::Committed(stamp) => Outcome::Committed(Stamp(stamp.as_u64())),
            observer::Outcome::Aborted => Outcome::Aborted,
        };
        let counts = |action: &Action<'_>| {
            transaction.isolation == Isolation::Scheme || !matches!(action, Action::Read { .. } | Action::Range { .. })
        };
        let operations = self.sampled(transaction.actions().filter(counts).map(operation));
        let begin = Stamp(transaction.begin.as_u64());
        let Circumstances { began, reads_snapshot, order, session } = transaction.circumstances();
        let process = match session {
            Some(session) => self.process_of(session),
            None => Process(thread as u32 | THREAD),
        };
        let context = TransactionContext {
            process: Some(process),
            began: Some(*began),
            ended: Some(ended),
            order: match order {
                ermine::Order::Strict => Order::Realtime,
                ermine::Order::Session => Order::Process,
                ermine::Order::None => Order::None,
            },
            snapshot: *reads_snapshot,
        };
        self.shards[thread as usize % SHARDS].lock().push_with(context, begin, outcome, operations);
    }
}

impl Level {
    /// The levels that a scheme promises, without those that the others imply. Real-time order is required only of the
    /// transactions that were promised it.
    pub fn promised_by(scheme: Scheme) -> &'static [Self] {
        match scheme {
            Scheme::Rc => &[Self::ReadCommitted],
            Scheme::Si => &[Self::SnapshotIsolation],
            _ if scheme.reads_snapshot() => &[Self::SnapshotIsolation, Self::StrictSerializable],
            _ => &[Self::StrictSerializable],
        }
    }
}

/// Translates the engine's types into ours.
fn operation(action: Action<'_>) -> Operation<'_> {
    let table_of = |table: ermine::TableId| Table(table.as_u32());
    let index_of = |index: observer::IndexId| Index { table: table_of(index.table), ordinal: index.ordinal };
    let stamp_of = |stamp: ermine::Stamp| Stamp(stamp.as_u64());
    match action {
        Action::Read { table, key, version, value } => {
            let version = match version {
                observer::ReadVersion::At(stamp) => ReadVersion::At(stamp_of(stamp)),
                observer::ReadVersion::Own => ReadVersion::Own,
                observer::ReadVersion::Missing(at) => ReadVersion::Missing(stamp_of(at)),
            };
            Operation::Read { table: table_of(table), key, version, value }
        }
        Action::Range { index, lower, upper, at } => {
            Operation::Range { index: index_of(index), lower, upper, at: stamp_of(at) }
        }
        Action::Write { table, key, value } => Operation::Write { table: table_of(table), key, value },
        Action::Entry { index, entry, present } => Operation::Entry { index: index_of(index), entry, present },
    }
}

//! Keeps what an engine tells of its transactions, in memory.
//!
//! Every thread packs into a shard of its own (more threads than shards share), so that recording takes one lock that
//! nobody else wants. The shards become one history at the end.
//!
//! What a transaction has read that asked for less than its scheme promises is left out: nothing was promised of that.

use std::{
    hash::BuildHasher,
    mem,
    num::NonZeroU32,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
};

use ermine::{
    Isolation,
    observer::{self, Action, Observed, Observer},
};
use hashbrown::DefaultHashBuilder;

use crate::history::{Builder, Digest, History, Index, Operation, Outcome, ReadVersion, Stamp, Table};

const SHARDS: usize = 64;

/// An observer that remembers everything, or what happened to a sample of the rows.
#[derive(Debug)]
pub struct Recorder {
    shards: Vec<Shard>,
    /// Names of tables.
    tables: Mutex<Vec<(Table, String)>>,
    sample: NonZeroU32,
    hasher: DefaultHashBuilder,
}

/// Far enough from its neighbours that threads do not share a line.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard(Mutex<Builder>);

impl Recorder {
    /// Records one row in `sample`, chosen by its key; every row if that is 1. Ranges are always recorded: the births
    /// they are compared with are sampled, too.
    pub fn new(sample: NonZeroU32) -> Self {
        let shards = (0..SHARDS).map(|_| Shard::default()).collect();
        Self { shards, tables: Mutex::default(), sample, hasher: DefaultHashBuilder::default() }
    }

    /// Records every row.
    pub fn everything() -> Self {
        Self::new(NonZeroU32::MIN)
    }

    /// Memory it takes so far.
    pub fn bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lock().bytes()).sum()
    }

    /// What was recorded since the beginning, or since the last call. Nobody should be in a transaction.
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

    fn is_sampled(&self, table: Table, key: &[u8]) -> bool {
        self.sample.get() == 1 || {
            // The same rows in every run.
            (Digest::of(key).0 ^ u64::from(table.0)).is_multiple_of(self.sample.get().into())
        }
    }

    /// A transaction's operations on rows of the sample. Entries share the fate of the write that they follow.
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
    /// A panic elsewhere leaves what was packed before it.
    fn lock(&self) -> MutexGuard<'_, Builder> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Recorder {
    fn table(&self, table: ermine::TableId, name: &str) {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        tables.push((Table(table.as_u32()), name.into()));
    }

    fn ended(&self, transaction: &Observed<'_>) {
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
        self.shards[thread as usize % SHARDS].lock().push(begin, outcome, operations);
    }
}

/// The engine's words in ours.
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

//! Builds a history: transactions are added in any order, and sorted by commit order at the end.

use super::{
    History, Operation, Outcome, Stamp, Table, TransactionContext,
    packed::{self, Segments},
};
use crate::history::Head;

/// Collects transactions.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    heads: Vec<Head>,
    segments: Segments,
    begin_min: Option<Stamp>,
    operations: u64,
    packed: Vec<u8>,
}

impl Builder {
    /// Creates a builder without transactions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a transaction about which nothing else is known.
    pub fn push<'a>(
        &mut self,
        begin: Stamp,
        outcome: Outcome,
        operations: impl IntoIterator<Item = Operation<'a>>,
    ) -> &mut Self {
        self.push_with(TransactionContext::default(), begin, outcome, operations)
    }

    /// Adds a transaction.
    pub fn push_with<'a>(
        &mut self,
        context: TransactionContext,
        begin: Stamp,
        outcome: Outcome,
        operations: impl IntoIterator<Item = Operation<'a>>,
    ) -> &mut Self {
        self.packed.clear();
        let (mut writes, mut count) = (false, 0);
        for operation in operations {
            writes |= matches!(operation, Operation::Write { .. });
            count += 1;
            packed::pack(&operation, begin, &mut self.packed);
        }
        self.operations += count;
        self.begin_min = Some(self.begin_min.map_or(begin, |least| least.min(begin)));
        if count > 0 {
            let place = self.segments.keep(&self.packed);
            self.heads.push(Head { begin, outcome, writes, place, context });
        }
        self
    }

    /// Adds the transactions of another builder.
    pub fn append(&mut self, other: Self) {
        let moved = self.segments.append(other.segments);
        self.heads.extend(other.heads.into_iter().map(|head| Head { place: moved(head.place), ..head }));
        self.begin_min = self.begin_min.into_iter().chain(other.begin_min).min();
        self.operations += other.operations;
    }

    /// Bytes of memory in use.
    pub fn bytes(&self) -> u64 {
        (self.heads.capacity() * size_of::<Head>()) as u64 + self.segments.bytes()
    }

    /// Finishes the history; one row in `sample` was recorded.
    pub fn finish(mut self, sample: u32) -> History {
        // A transaction without writes has the stamp just below its snapshot, and so comes after the writer with that
        // stamp.
        self.heads.sort_by_key(|head| match head.outcome {
            Outcome::Committed(stamp) => (false, stamp, !head.writes),
            Outcome::Aborted => (true, head.begin, false),
        });
        let committed = self.heads.partition_point(|head| head.outcome != Outcome::Aborted);
        History {
            heads: self.heads,
            committed,
            segments: self.segments,
            tables: Vec::new(),
            begin_min: self.begin_min,
            operations: self.operations,
            sample,
        }
    }

    /// Like [`finish`](Self::finish), with names of tables and every row recorded.
    pub fn finish_named<'a>(self, tables: impl IntoIterator<Item = (Table, &'a str)>) -> History {
        let mut history = self.finish(1);
        for (table, name) in tables {
            history.name_table(table, name);
        }
        history
    }
}

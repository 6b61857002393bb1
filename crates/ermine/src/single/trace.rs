//! The trace of a transaction: its actions, recorded for an observer, if there is one.
//!
//! In an observed database TIDs come from one counter, taken while all locks are held: their order is a serial order of
//! the transactions that commit at their end, and a read or scan is reported with the value that the counter had before
//! it.

use super::running::{Operation, TableOf, Txn};
use crate::{
    access::{ScanRange, Visit},
    error::Result,
    ids::{IndexOrdinal, Stamp, TableId},
    observer::{Action, Digest, IndexId, Outcome, ReadVersion},
    options::Isolation,
    rows::{copies::Copied, in_place::TidWord},
    scheme::in_place::{InPlace, Ranges},
    trace::{self, trace_entries, watch_scan},
};

impl<P: InPlace> Operation<'_, P> {
    /// Whether the database has an observer.
    #[inline]
    pub(super) fn is_observed(&self) -> bool {
        self.state.trace.is_some()
    }

    fn record(&mut self, action: Action<'_>) {
        self.state.trace.as_mut().expect("only an observed transaction has a trace").record(action);
    }

    /// Returns the stamp as of which an observed transaction reads from now on.
    #[inline]
    pub(super) fn observed_from(&self) -> Stamp {
        match self.state.snapshot {
            _ if !self.is_observed() => Stamp::ZERO,
            Some(snapshot) => snapshot.stamp(),
            None => self.engine.epochs.told(),
        }
    }

    /// Returns the stamp with which a scan that began at `at` is reported. Entries are removed by the commit that takes
    /// them from their row: a scan that ran while one was removed counts as a later one. Where ranges are validated at
    /// commit, or no other transaction writes, no entry has been inserted since the end of the scan; where leaves are
    /// stamped, one may have been.
    pub(super) fn looked_at(&self, at: Stamp) -> Stamp {
        if P::RANGES == Ranges::Stamped { at } else { self.observed_from() }
    }

    /// Records that the transaction read a record, from `at` on.
    #[cold]
    pub(super) fn trace_read(
        &mut self,
        table: &TableOf<P>,
        key: &[u8],
        at: Stamp,
        word: TidWord,
        value: Option<Copied>,
    ) {
        // A record that no transaction has written yet says nothing of the records that its key had before.
        let version = if word.is_unborn() { ReadVersion::Missing(at) } else { ReadVersion::At(word.tid().stamp()) };
        let value = value.map(|value| Digest::of(value.bytes(&self.nodes)));
        self.record(Action::Read { table: table.id, key, version, value });
    }

    /// Records that the transaction read its own write.
    #[cold]
    pub(super) fn trace_own(&mut self, table: &TableOf<P>, key: &[u8], value: Option<Copied>) {
        let value = value.map(|value| Digest::of(value.bytes(&self.nodes)));
        self.record(Action::Read { table: table.id, key, version: ReadVersion::Own, value });
    }

    /// Records that the transaction found no row under a key, from `at` on.
    #[cold]
    pub(super) fn trace_missing(&mut self, table: &TableOf<P>, key: &[u8], at: Stamp) {
        self.record(Action::Read { table: table.id, key, version: ReadVersion::Missing(at), value: None });
    }

    /// Records that the transaction is going to write a row that has the value `before`.
    #[cold]
    pub(super) fn trace_write(
        &mut self,
        table: &TableOf<P>,
        key: &[u8],
        before: Option<Copied>,
        value: Option<&[u8]>,
    ) -> Result<()> {
        self.record(Action::Write { table: table.id, key, value: value.map(Digest::of) });
        let Self { state, nodes, .. } = self;
        let trace = state.trace.as_mut().expect("only an observed transaction has a trace");
        let before = before.map(|value| value.bytes(nodes));
        trace_entries(trace, table, key, before, value)
    }

    /// Records that the transaction scanned a range, from `at` on.
    #[cold]
    pub(super) fn trace_range(
        &mut self,
        table: TableId,
        index: IndexOrdinal,
        lower: &[u8],
        upper: Option<&[u8]>,
        at: Stamp,
    ) {
        self.record(Action::Range { index: IndexId { table, ordinal: index.0 }, lower, upper, at });
    }
}

impl<P: InPlace> Txn<'_, P> {
    /// Scans as `scan`, and records how far the scan went.
    #[cold]
    pub(super) fn scan_observed(&self, range: ScanRange<'_>, visit: &mut Visit<'_>) -> Result<()> {
        let at = self.operation()?.observed_from();
        watch_scan(
            range,
            |visit| self.scan_rows(range, visit),
            visit,
            |lower, upper| {
                if let Ok(mut operation) = self.operation() {
                    let at = operation.looked_at(at);
                    operation.trace_range(range.table, range.index, lower, upper, at);
                }
            },
        )
    }

    /// Shows the observer the actions of the transaction.
    pub(super) fn observe(&self, outcome: Outcome) {
        let Some(observer) = &self.engine.options.observer else { return };
        let mut state = self.worker().state.borrow_mut();
        let begin = state.begin;
        let trace = state.trace.as_mut().expect("a worker has a trace when there is an observer");
        trace::show(&**observer, begin, outcome, Isolation::Scheme, trace);
    }
}

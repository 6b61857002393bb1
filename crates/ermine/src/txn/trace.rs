//! The trace of a transaction: its actions, recorded for an observer, if there is one.
//!
//! A read of a row of which no version was visible is a read of the state before the row's versions: the invisible
//! ones, which an observer knows by their stamps. So `Missing` carries the lowest stamp of any of them.

use std::iter;

use super::{
    running::{Operation, Txn},
    write::Content,
};
use crate::{
    access::{ScanRange, Visit},
    error::Result,
    ids::{IndexOrdinal, Stamp, TableId},
    observer::{Action, Digest, IndexId, Outcome, ReadVersion},
    rows::chain::{CertifierStamps, Kind, Origin, VersionPtr},
    scheme::{Scheme, StampsOf},
    sync::Spin,
    table::TableStore,
    trace::{self, trace_entries, watch_scan},
    txn::{table::Inquiry, visible::Seen},
};

/// The entry and the index under which a row is looked for.
#[derive(Clone, Copy)]
pub(super) struct LookupKey<'a> {
    pub(super) index: IndexOrdinal,
    pub(super) entry: &'a [u8],
}

impl<'a> LookupKey<'a> {
    pub(super) fn primary(key: &'a [u8]) -> Self {
        Self { index: IndexOrdinal::PRIMARY, entry: key }
    }
}

impl<S: Scheme> Operation<'_, S> {
    /// Returns whether there is an observer.
    #[inline]
    pub(super) fn is_observed(&self) -> bool {
        self.state.trace.is_some()
    }

    fn record(&mut self, action: Action<'_>) {
        self.state.trace.as_mut().expect("only an observed transaction has a trace").record(action);
    }

    /// Returns the stamp from which on an observed transaction reads: for a subsequent lookup.
    #[inline]
    pub(super) fn observed_from(&self) -> Stamp {
        match self.is_observed() {
            false => Stamp::ZERO,
            true if self.reads_snapshot() => self.state.begin,
            true => self.engine.shared.clock.now(),
        }
    }

    /// Records a read of a row, whose newest version was `head`, from `at` on.
    #[cold]
    pub(super) fn trace_read(
        &mut self,
        table: &TableStore<StampsOf<S>>,
        sought: LookupKey<'_>,
        head: VersionPtr<StampsOf<S>>,
        at: Stamp,
        seen: &Seen<StampsOf<S>>,
    ) -> Result<()> {
        let (read, version) = match *seen {
            Seen::Own(version) => (Some(version), ReadVersion::Own),
            Seen::At(version, stamp) if version.kind() != Kind::Absent => (Some(version), ReadVersion::At(stamp)),
            Seen::At(..) | Seen::Nothing => (None, ReadVersion::Missing(self.before_all(head, at))),
        };
        let live = read.filter(|version| version.kind() == Kind::Live);
        if live.is_none() && sought.index != IndexOrdinal::PRIMARY && !self.changed_under_scan(seen, version) {
            // A missing row behind an entry implies nothing about the key: it may exist as another row, with another
            // entry.
            return Ok(());
        }
        let value = live.map(|version| Digest::of(version.payload(&self.entered.versions)));
        let key = primary_key(table, sought)?;
        self.record(Action::Read { table: table.id, key, version, value });
        Ok(())
    }

    /// Returns whether a row was deleted after the scan of its entry began, or was being inserted then: this happens
    /// only without a snapshot.
    fn changed_under_scan(&self, seen: &Seen<StampsOf<S>>, read: ReadVersion) -> bool {
        let since = self.state.trace.as_ref().map_or(Stamp::ZERO, |trace| trace.scanning_from);
        let died = matches!(*seen, Seen::At(version, stamp) if version.kind() == Kind::Tombstone && stamp >= since);
        let being_born = matches!(read, ReadVersion::Missing(before) if before < since);
        !self.reads_snapshot() && (died || being_born)
    }

    /// Records that nothing was found under an entry.
    #[cold]
    pub(super) fn trace_missing(
        &mut self,
        table: &TableStore<StampsOf<S>>,
        sought: LookupKey<'_>,
        at: Stamp,
    ) -> Result<()> {
        let key = primary_key(table, sought)?;
        self.record(Action::Read { table: table.id, key, version: ReadVersion::Missing(at), value: None });
        Ok(())
    }

    /// Returns the lowest stamp of any version of a row, none of which was visible; at most `at`.
    fn before_all(&self, head: VersionPtr<StampsOf<S>>, at: Stamp) -> Stamp {
        let chain = iter::successors(Some(head), |version| version.older());
        let stamps = chain.filter_map(|version| {
            let mut spin = Spin::default();
            loop {
                let writer = match version.origin().load() {
                    Origin::At(stamp) => return Some(stamp),
                    Origin::By(writer) => writer,
                };
                match self.engine.shared.tids.inquire(writer) {
                    Inquiry::Committing(Some(stamp)) | Inquiry::Committed { stamp, .. } => return Some(stamp),
                    Inquiry::Aborted | Inquiry::InFlight => return None,
                    Inquiry::Committing(None) | Inquiry::Stale => spin.wait(),
                }
            }
        });
        stamps.min().map_or(at, |lowest| lowest.min(at))
    }

    /// Records a write of a row, in place of the version `before`.
    #[cold]
    pub(super) fn trace_write(
        &mut self,
        table: &TableStore<StampsOf<S>>,
        key: &[u8],
        before: Option<VersionPtr<StampsOf<S>>>,
        content: Content<'_>,
    ) -> Result<()> {
        self.record(Action::Write { table: table.id, key, value: content.value().map(Digest::of) });
        let Self { state, entered, .. } = self;
        let trace = state.trace.as_mut().expect("only an observed transaction has a trace");
        let before = before.map(|version| version.payload(&entered.versions));
        trace_entries(trace, table, key, before, content.value())
    }

    /// Records that a range was examined, from `at` on.
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

impl<S: Scheme> Txn<'_, S> {
    /// Works as `scan`, and records the part of the range that was examined.
    #[cold]
    pub(super) fn scan_observed(&self, range: ScanRange<'_>, visit: &mut Visit<'_>) -> Result<()> {
        let at = self.operation()?.observed_from();
        let scan = |visit: &mut Visit<'_>| {
            let outer = self.scanning_from(at);
            let result = self.scan_rows(range, visit);
            self.scanning_from(outer);
            result
        };
        watch_scan(range, scan, visit, |lower, upper| {
            if let Ok(mut operation) = self.operation() {
                operation.trace_range(range.table, range.index, lower, upper, at);
            }
        })
    }

    fn scanning_from(&self, at: Stamp) -> Stamp {
        let mut state = self.worker().state.borrow_mut();
        let trace = state.trace.as_mut().expect("a worker has a trace when there is an observer");
        std::mem::replace(&mut trace.scanning_from, at)
    }

    /// Shows the observer the transaction's actions.
    pub(super) fn observe(&self, outcome: Outcome) {
        let Some(observer) = &self.engine.options.observer else { return };
        let mut state = self.worker().state.borrow_mut();
        let begin = state.begin;
        let trace = state.trace.as_mut().expect("a worker has a trace when there is an observer");
        trace::show(&**observer, begin, outcome, self.isolation, trace);
    }
}

/// Returns the primary key in an entry.
fn primary_key<'a, H: CertifierStamps>(table: &TableStore<H>, sought: LookupKey<'a>) -> Result<&'a [u8]> {
    Ok(match sought.index {
        IndexOrdinal::PRIMARY => sought.entry,
        index => table.secondary(index).primary_key(sought.entry)?,
    })
}

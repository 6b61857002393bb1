//! What a transaction notes for an observer, if there is one.
//!
//! In an observed database TIDs come from one counter, taken while all locks are held: their order is a serial order of what
//! commits at its end, and a read, or a look at a range, is told with the counter as it was before.

use super::running::{Operation, TableOf, Txn};
use crate::{
    access::{IndexOrdinal, ScanRange, Visit},
    error::Result,
    ids::{Stamp, TableId},
    noting::{self, note_entries, watch_scan},
    observer::{Action, Digest, IndexId, Outcome, ReadVersion},
    options::Isolation,
    rows::{copies::Copied, in_place::TidWord},
    scheme::in_place::{InPlace, Ranges},
};

impl<P: InPlace> Operation<'_, P> {
    /// Whether anybody wants to know.
    #[inline]
    pub(super) fn is_observed(&self) -> bool {
        self.state.notes.is_some()
    }

    fn note(&mut self, action: Action<'_>) {
        self.state.notes.as_mut().expect("only an observed transaction notes").note(action);
    }

    /// Where an observed transaction looks from now on.
    #[inline]
    pub(super) fn observed_from(&self) -> Stamp {
        match self.state.snapshot {
            _ if !self.is_observed() => Stamp::ZERO,
            Some(snapshot) => snapshot.stamp(),
            None => self.engine.epochs.told(),
        }
    }

    /// Where a look through a range is told that began at `at`. Entries leave with the commit that takes them from their row: who looked
    /// while one left has looked later. Where ranges are looked at again at commit, or nobody else writes, nothing has come in since
    /// the end of the look; where leaves are stamped, something may have.
    pub(super) fn looked_at(&self, at: Stamp) -> Stamp {
        if P::RANGES == Ranges::Stamped { at } else { self.observed_from() }
    }

    /// It read a record, from `at` on.
    #[cold]
    pub(super) fn note_read(
        &mut self,
        table: &TableOf<P>,
        key: &[u8],
        at: Stamp,
        word: TidWord,
        value: Option<Copied>,
    ) {
        // A record that nobody has written yet says nothing of those that its key had before.
        let version = if word.is_unborn() { ReadVersion::Missing(at) } else { ReadVersion::At(word.tid().stamp()) };
        let value = value.map(|value| Digest::of(value.bytes(&self.nodes)));
        self.note(Action::Read { table: table.id, key, version, value });
    }

    /// It read what it has written itself.
    #[cold]
    pub(super) fn note_own(&mut self, table: &TableOf<P>, key: &[u8], value: Option<Copied>) {
        let value = value.map(|value| Digest::of(value.bytes(&self.nodes)));
        self.note(Action::Read { table: table.id, key, version: ReadVersion::Own, value });
    }

    /// It found nothing under a key, from `at` on.
    #[cold]
    pub(super) fn note_missing(&mut self, table: &TableOf<P>, key: &[u8], at: Stamp) {
        self.note(Action::Read { table: table.id, key, version: ReadVersion::Missing(at), value: None });
    }

    /// It is going to write a row, in the place of the value `before`.
    #[cold]
    pub(super) fn note_write(
        &mut self,
        table: &TableOf<P>,
        key: &[u8],
        before: Option<Copied>,
        value: Option<&[u8]>,
    ) -> Result<()> {
        self.note(Action::Write { table: table.id, key, value: value.map(Digest::of) });
        let Self { state, nodes, .. } = self;
        let notes = state.notes.as_mut().expect("only an observed transaction notes");
        let before = before.map(|value| value.bytes(nodes));
        note_entries(notes, table, key, before, value)
    }

    /// It looked through a range, from `at` on.
    #[cold]
    pub(super) fn note_range(
        &mut self,
        table: TableId,
        index: IndexOrdinal,
        lower: &[u8],
        upper: Option<&[u8]>,
        at: Stamp,
    ) {
        self.note(Action::Range { index: IndexId { table, ordinal: index.0 }, lower, upper, at });
    }
}

impl<P: InPlace> Txn<'_, P> {
    /// As `scan`, with a note of how far it went.
    #[cold]
    pub(super) fn scan_observed<'t>(&'t self, range: ScanRange<'_>, visit: &mut Visit<'_, 't>) -> Result<()> {
        let at = self.operation()?.observed_from();
        watch_scan(
            range,
            |visit| self.scan_rows(range, visit),
            visit,
            |lower, upper| {
                if let Ok(mut operation) = self.operation() {
                    let at = operation.looked_at(at);
                    operation.note_range(range.table, range.index, lower, upper, at);
                }
            },
        )
    }

    /// Shows the observer what the transaction did.
    pub(super) fn observe(&self, outcome: Outcome) {
        let Some(observer) = &self.engine.options.observer else { return };
        let mut state = self.worker().state.borrow_mut();
        let begin = state.begin;
        let notes = state.notes.as_mut().expect("a worker notes when there is an observer");
        noting::show(&**observer, begin, outcome, Isolation::Scheme, notes);
    }
}

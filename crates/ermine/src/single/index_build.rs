//! Building a secondary index over rows with one version ([`crate::index_build`]).
//!
//! A row's entry is added under the lock of its record's word, as all entries of committed rows are. A transaction that
//! has written a row without knowing the index loses when it commits: it compares the table's indexes, under the lock
//! of the record, with those of the time of the write (`commit`). If it locks the record before the build does, the
//! build finds what it has written; otherwise it finds the change.

use super::{
    engine::Engine,
    running::{TableOf, Txn},
};
use crate::{
    epoch::Guard,
    error::Result,
    ids::{Stamp, TableId},
    index::Insert,
    index_build::{Builds, Looked, Patience, Place, RowVisit, Sample},
    options::TxnOptions,
    platform::budget::Need,
    rows::{copies::Copies, in_place::CommitTid},
    scheme::in_place::{InPlace, Ranges},
    tables::visit_rows,
    types::KeyBuffer,
};

impl<P: InPlace> Engine<P> {
    /// Calls `look` with the value of a row, if there is one, while the record is locked; also returns the record's
    /// word.
    fn with_value<T>(
        &self,
        copies: &mut Copies,
        nodes: &Guard<'_>,
        table: &TableOf<P>,
        place: Place<'_>,
        look: impl FnOnce(&[u8]) -> Result<T>,
    ) -> Result<Option<(T, u64)>> {
        let Some(record) = table.rows.slot(place.row).record() else { return Ok(None) };
        // Not a read without a lock: a transaction that locks the record afterwards finds that the indexes have
        // changed.
        let word = record.lock();
        let mark = copies.mark();
        let looked = (!word.is_absent()).then(|| look(record.copy_locked(copies).bytes(nodes)));
        copies.rewind(mark);
        record.unlock(word);
        Ok(looked.transpose()?.map(|looked| (looked, word.tid().stamp().as_u64())))
    }
}

impl<P: InPlace> Builds for Engine<P> {
    type Hand = Copies;

    fn hand(&self) -> Copies {
        Copies::default()
    }

    fn visit_rows(&self, table: TableId, sample: Sample<'_>, visit: &mut RowVisit<'_>) -> Result<()> {
        // Waits for no transaction if the scheme has snapshots.
        let has_snapshots = self.options.scheme.has_snapshots();
        let options = if has_snapshots { TxnOptions::snapshot() } else { TxnOptions::read_only() };
        visit_rows(&Txn::begin(self, &options, true)?, table, sample, visit)
    }

    /// Does nothing: writes that do not know an index are found when their transaction commits.
    fn outlast_writes(&self, _: &mut Patience<'_>) -> Result<()> {
        Ok(())
    }

    fn check_memory(&self) -> Result<()> {
        self.budget.check(0, Need::Grow)
    }

    fn add_entry(
        &self,
        copies: &mut Copies,
        nodes: &Guard<'_>,
        table: &TableOf<P>,
        place: Place<'_>,
    ) -> Result<Looked<()>> {
        let mut entry = KeyBuffer::new();
        let added = self.with_value(copies, nodes, table, place, |value| {
            table.entry_in(place.index, place.key, value, &mut entry)?;
            Ok(match table.index(place.index).insert_if_absent(nodes, &entry, place.row) {
                // The entry of a record with the same key that is being removed.
                Insert::Exists(existing, _) if existing != place.row => Looked::Again(None),
                Insert::Exists(..) | Insert::Done(_) => Looked::At(()),
            })
        })?;
        Ok(added.map_or(Looked::At(()), |(added, _)| added))
    }

    fn state_of(
        &self,
        copies: &mut Copies,
        nodes: &Guard<'_>,
        table: &TableOf<P>,
        place: Place<'_>,
    ) -> Result<Looked<Option<u64>>> {
        let matches = |value: &[u8]| table.secondary(place.index).matches(place.key, value);
        let state = self.with_value(copies, nodes, table, place, matches)?;
        Ok(Looked::At(state.and_then(|(belongs, word)| belongs.then_some(word))))
    }

    fn needs_later_transactions(&self) -> bool {
        P::RANGES == Ranges::Stamped
    }

    fn snapshot_now(&self) -> Stamp {
        // A snapshot that is opened from now on ends this epoch or a later one.
        CommitTid::first(self.epochs.current() + 1).stamp()
    }
}

//! Building a secondary index over rows with versions ([`crate::index_build`]).
//!
//! A row gets the entry of its newest committed version. Older versions get none: the transactions that superseded them
//! may not have known the index, and then nothing removes such an entry. A version that is not committed may be of a
//! transaction that did not know the index when it wrote the row: the row is visited again when that transaction has
//! ended. Transactions that write the row later know the index, as every operation does that began after the
//! announcement; they add entries themselves, and queue the versions that they supersede with the key. For the same
//! reason versions that were superseded before the end do not keep an entry in place (`any_version_matches`).

use std::iter;

use crate::{
    durable::stored_block::Blocks,
    engine::Engine,
    epoch::{Guard, Participant},
    error::Result,
    ids::{Stamp, TableId},
    index::Insert,
    index_build::{Builds, Looked, Patience, Place, RowVisit, Sample},
    mutant::Mutant,
    options::TxnOptions,
    platform::budget::Need,
    reclaim::remove_unused_entry,
    rows::{
        arena::Arena,
        chain::{Kind, Origin, RowSlot, SlotContent, VersionPtr, installed},
    },
    scheme::{Certifier as _, Scheme, StampsOf},
    table::{TableParts, TableStore},
    tables::visit_rows,
    txn::{
        running::Txn,
        visible::{Standing, standing},
    },
    types::KeyBuffer,
};

/// The builder's epoch of operations, and memory for rows that are in files only.
pub(crate) struct Hand {
    versions: Participant,
    arena: Arena,
    blocks: Blocks,
}

/// The newest committed version of a row and its stamp, or `None`; or the transaction to wait for.
type Newest<H> = Looked<Option<(VersionPtr<H>, Stamp)>>;

impl<S: Scheme> Engine<S> {
    /// Returns the newest committed version of a row. A version that is not committed is passed over if its writer
    /// knows the index: any writer, once the transaction has `ended` that wrote the row before.
    fn newest_committed(
        &self,
        (arena, blocks): (&mut Arena, &mut Blocks),
        table: &TableStore<StampsOf<S>>,
        place: Place<'_>,
    ) -> Result<Newest<StampsOf<S>>> {
        let slot = table.rows.slot(place.row);
        let mut next = loop {
            match (slot.content(), &self.store) {
                (SlotContent::Head(head), _) => break Some(head),
                (SlotContent::Stored(_), Some(store)) => {
                    store.bring_in(table, place.row, blocks, arena, Need::Work)?;
                }
                (SlotContent::Stored(_) | SlotContent::Empty, _) => break None,
            }
        };
        while let Some(version) = next {
            match standing(&self.shared, None, Stamp::INFINITY, version) {
                Standing::Committed(stamp) => return Ok(Looked::At(Some((version, stamp)))),
                Standing::Unfinished(writer)
                    if place.ended.is_none_or(|ended| ended == writer) && !Mutant::IndexBuiltEarly.is_on() =>
                {
                    return Ok(Looked::Again(Some(writer)));
                }
                Standing::Own | Standing::Unfinished(_) | Standing::Void => next = version.older(),
            }
        }
        Ok(Looked::At(None))
    }

    /// Removes an entry of the row at a place if none of its versions belongs to it.
    fn remove_if_unused(&self, nodes: &Guard<'_>, table: &TableStore<StampsOf<S>>, place: Place<'_>, entry: &[u8]) {
        installed();
        remove_unused_entry(table, place.row, place.index, entry, Stamp::ZERO, nodes);
    }
}

impl<S: Scheme> Builds for Engine<S> {
    type Hand = Hand;

    fn hand(&self) -> Hand {
        Hand { versions: self.versions.join_as("index build"), arena: self.memory.arena(), blocks: Blocks::default() }
    }

    fn visit_rows(&self, table: TableId, sample: Sample<'_>, visit: &mut RowVisit<'_>) -> Result<()> {
        visit_rows(&Txn::begin(self, TxnOptions::read_only(), true)?, table, sample, visit)
    }

    /// Waits until all operations have ended that are running: one that has looked up the indexes of a table has
    /// installed its version, and added its entries, then.
    fn outlast_writes(&self, patience: &mut Patience<'_>) -> Result<()> {
        let epoch = self.versions.retirement_epoch();
        while !self.versions.is_closed(epoch) {
            if self.versions.advance().is_none() {
                patience
                    .wait("a transaction has been inside of an operation, or of Database::run between operations,")?;
            }
        }
        Ok(())
    }

    fn check_memory(&self) -> Result<()> {
        if self.is_tight() {
            self.make_room();
        }
        self.budget.check(0, if self.evicts() { Need::Work } else { Need::Grow })
    }

    fn add_entry(
        &self,
        hand: &mut Hand,
        nodes: &Guard<'_>,
        table: &TableParts<RowSlot<StampsOf<S>>>,
        place: Place<'_>,
    ) -> Result<Looked<()>> {
        let Hand { versions, arena, blocks } = hand;
        let guard = versions.enter();
        let newest = match self.newest_committed((arena, blocks), table, place)? {
            Looked::Again(other) => return Ok(Looked::Again(other)),
            Looked::At(None) => return Ok(Looked::At(())),
            Looked::At(Some((newest, _))) => newest,
        };
        if let Origin::By(_) = newest.origin().load() {
            // Committed, and its stamp is not stored yet: it would count as a version in flight.
            return Ok(Looked::Again(None));
        }
        let mut entry = KeyBuffer::new();
        if newest.kind() == Kind::Live {
            table.entry_in(place.index, place.key, newest.payload(&guard), &mut entry)?;
            match table.index(place.index).insert_if_absent(nodes, &entry, place.row) {
                // The version may have been unlinked before the entry was there, and then nothing else removes it
                // (reclaim.rs, invariant 4).
                Insert::Done(_) => self.remove_if_unused(nodes, table, place, &entry),
                Insert::Exists(existing, _) if existing == place.row => {}
                // The entry of a row with the same key that is being removed.
                Insert::Exists(..) => return Ok(Looked::Again(None)),
            }
        }
        // A writer that has ended may have left an entry in place for a version that is superseded by now.
        for older in iter::successors(newest.older(), |version| version.older()) {
            if older.kind() == Kind::Live
                && table.secondary(place.index).entry_of(place.key, older.payload(&guard), &mut entry).is_ok()
            {
                self.remove_if_unused(nodes, table, place, &entry);
            }
        }
        Ok(Looked::At(()))
    }

    fn state_of(
        &self,
        hand: &mut Hand,
        _: &Guard<'_>,
        table: &TableParts<RowSlot<StampsOf<S>>>,
        place: Place<'_>,
    ) -> Result<Looked<Option<u64>>> {
        let Hand { versions, arena, blocks } = hand;
        let guard = versions.enter();
        Ok(match self.newest_committed((arena, blocks), table, place)? {
            Looked::Again(other) => Looked::Again(other),
            Looked::At(version) => {
                let belongs = |(version, _): &(VersionPtr<StampsOf<S>>, Stamp)| -> Result<bool> {
                    let secondary = table.secondary(place.index);
                    Ok(version.kind() == Kind::Live && secondary.matches(place.key, version.payload(&guard))?)
                };
                let belongs = version.as_ref().map(belongs).transpose()?.unwrap_or(false);
                Looked::At(version.filter(|_| belongs).map(|(_, stamp)| stamp.0))
            }
        })
    }

    fn needs_later_transactions(&self) -> bool {
        !S::SNAPSHOT && S::Certifier::TRACKS
    }

    fn snapshot_now(&self) -> Stamp {
        let now = self.shared.clock.now();
        // A safe snapshot from before is not handed out any more.
        self.safe.forget();
        now
    }
}

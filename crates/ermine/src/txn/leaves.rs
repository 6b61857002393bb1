//! Validation of the leaf set at commit: finds the entries that were inserted into the ranges that the transaction
//! examined.
//!
//! An unchanged leaf has no new entries. If a leaf has changed, or split, the range is examined again. The writer of a
//! new entry is found through the row behind the entry: the transaction sees another version of that row than the
//! writer's (most often the absent one), and it has *read* that version, late. So an insert into a scanned range
//! becomes a dependency on one row, which the certifier weighs like any other, and inserts beside the range cost
//! nothing.
//!
//! Invariant: a leaf's gap stamp is raised before its version is checked, and its entries count only if the version is
//! unchanged since they were read. An insert that is missed comes after the transaction and takes the gap stamp (index,
//! `validate`).
//!
//! Without a snapshot it cannot be determined which version of a late entry's row the transaction would have seen: it
//! aborts if a changed range has any entry but those of rows that it has inserted itself, or may have lost one that was
//! removed since the transaction began. A prepared one (`prepared`) does not: then the range is examined only to leave
//! the stamp in all of its leaves.

use std::ops::Bound;

use super::{
    leaf_set::{LeafRead, ScannedRange},
    running::{Entered, Operation},
    visible::{Seen, visible},
    write_set::ChainSets,
};
use crate::{
    engine::Engine,
    error::{AbortKind, Dependency, Result},
    ids::{IndexOrdinal, RowId, Stamp, Tid},
    index::{Batch, Direction},
    mutant::Mutant,
    rows::{
        chain::{Kind, VersionPtr},
        snapshots::Needs,
    },
    scheme::{Cause, Certifier, Conflict, ConflictSite, Late, Scheme, StampsOf},
    sync::Spin,
    table::TableStore,
    worker::State,
};

/// A transaction that validates its leaf set.
pub(super) struct Validation<'t, S: Scheme> {
    pub(super) engine: &'t Engine<S>,
    pub(super) entered: &'t Entered<'t>,
    pub(super) sets: &'t ChainSets<StampsOf<S>>,
    pub(super) begin: Stamp,
    pub(super) tid: Option<Tid>,
    /// The transaction is prepared: every entry inserted into its ranges belongs to a transaction that will
    /// lose.
    pub(super) is_prepared: bool,
}

impl<S: Scheme> Operation<'_, S> {
    /// Validates the leaf set of a transaction without writes that is to end at `stamp`; returns `false` if it needs a
    /// stamp of its own.
    pub(super) fn validate_read_only(&mut self, stamp: Stamp) -> Result<bool> {
        let State { tid, certifier, sets, begin, prepared_as, .. } = &mut *self.state;
        let (engine, entered, is_prepared) = (self.engine, &self.entered, prepared_as.is_some());
        let validation = Validation { engine, entered, sets, begin: *begin, tid: *tid, is_prepared };
        let mut stands = true;
        let shared = &self.engine.shared;
        let validated = validation.run(stamp, |late| {
            stands &= certifier.stands_below(shared, stamp, late.version);
            Ok(())
        });
        validated.map_err(|conflict| self.lose(conflict))?;
        Ok(stands)
    }
}

impl<S: Scheme> Validation<'_, S> {
    /// Validates all leaves; `read` gets the versions that turn out to have been read.
    pub(super) fn run(
        &self,
        stamp: Stamp,
        mut read: impl FnMut(Late<StampsOf<S>>) -> Result<(), Conflict>,
    ) -> Result<(), Conflict> {
        if self.sets.leaves.reads().is_empty() || Mutant::NoLeafValidation.is_on() {
            return Ok(());
        }
        let mut batch = None;
        for leaf in self.sets.leaves.changed(&self.entered.nodes, stamp) {
            match leaf.scanned {
                Some(scanned) => self.look_again(leaf, scanned, stamp, batch.get_or_insert_default(), &mut read)?,
                None => return Err(changed(leaf.site)),
            }
        }
        Ok(())
    }

    fn look_again(
        &self,
        leaf: &LeafRead,
        scanned: ScannedRange,
        stamp: Stamp,
        batch: &mut Batch,
        read: &mut impl FnMut(Late<StampsOf<S>>) -> Result<(), Conflict>,
    ) -> Result<(), Conflict> {
        let (table, nodes) = (self.engine.table(leaf.site.table), &self.entered.nodes);
        let lower = Bound::Included(self.sets.key(scanned.lower));
        let upper = match &scanned.upper {
            Bound::Included(upper) => Bound::Included(self.sets.key(*upper)),
            Bound::Excluded(upper) => Bound::Excluded(self.sets.key(*upper)),
            Bound::Unbounded => Bound::Unbounded,
        };
        let index = table.index(leaf.index);
        let mut spin = Spin::default();
        'again: loop {
            let mut cursor = index.cursor(nodes, lower, upper, Direction::Forward);
            while let Some(seen) = cursor.next_leaf(batch, usize::MAX) {
                if !seen.leaf.validate(nodes, seen.version, stamp) {
                    spin.wait();
                    continue 'again;
                }
                if !self.weighs_entries() && seen.removed >= self.begin {
                    return Err(changed(leaf.site));
                }
                for at in 0..batch.len() {
                    if let Some(late) = self.late(table, leaf.index, batch.row(at), batch.key(at), leaf.site)? {
                        read(late)?;
                    }
                }
            }
            return Ok(());
        }
    }

    /// Whether it can be determined which version of an inserted row the transaction would have seen, or need not be.
    fn weighs_entries(&self) -> bool {
        S::SNAPSHOT || self.is_prepared
    }

    /// Returns the version that the transaction sees behind an entry, if the row was not shown to it; without a snapshot,
    /// fails unless the transaction has inserted the row.
    fn late(
        &self,
        table: &TableStore<StampsOf<S>>,
        index: IndexOrdinal,
        row: RowId,
        entry: &[u8],
        site: ConflictSite,
    ) -> Result<Option<Late<StampsOf<S>>>, Conflict> {
        let Some(head) = table.rows.slot(row).head() else {
            // An insert that is being undone; or, with the snapshot that would keep it, no row that is being removed.
            return if self.weighs_entries() { Ok(None) } else { Err(changed(site)) };
        };
        let seen = visible::<S>(&self.engine.shared, self.begin, Needs::Newer, self.tid, head, || ());
        if !self.weighs_entries() {
            // A row of its own that lies over another transaction's is one that it had not found.
            let is_fresh = matches!(seen, Seen::Own(version) if version.older().is_none());
            return if is_fresh { Ok(None) } else { Err(changed(site)) };
        }
        match seen {
            Seen::Own(_) => Ok(None),
            Seen::At(version, _) if self.is_shown(table, index, version, entry) => Ok(None),
            Seen::At(version, _) => Ok(Some(Late { version, head, site })),
            Seen::Nothing => Err(changed(site)),
        }
    }

    fn is_shown(
        &self,
        table: &TableStore<StampsOf<S>>,
        index: IndexOrdinal,
        version: VersionPtr<StampsOf<S>>,
        entry: &[u8],
    ) -> bool {
        // A value that makes the key function panic counts as read late, perhaps repeatedly.
        let matches =
            || table.secondary(index).matches(entry, version.payload(&self.entered.versions)).unwrap_or(false);
        version.kind() == Kind::Live && (index == IndexOrdinal::PRIMARY || matches())
    }
}

/// Returns the conflict for a leaf that has changed in a way that cannot be weighed.
fn changed(site: ConflictSite) -> Conflict {
    Conflict::before(AbortKind::Phantom, Cause::new(Stamp::INFINITY, Dependency::InsertedBy, site))
}

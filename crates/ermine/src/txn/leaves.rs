//! The leaf set at commit: what has come into the ranges that the transaction looked through?
//!
//! A leaf that is as it was has got nothing. In one that has changed, or split, the range is looked through again. Whoever
//! put an entry there is known by the row behind it: the transaction sees another version of that row than the writer's
//! (most often the absent one), and that version it has *read*, late. So an insert into a scanned range becomes a
//! dependency on one row, which the certifier weighs like any other, and inserts beside the range cost nothing.
//!
//! Invariant: a leaf's gap stamp is raised before its version is checked, and its entries count only if the version was as
//! it was when they were read. An insert that is missed comes after the transaction and takes the gap stamp (index,
//! `validate`).
//!
//! Without a snapshot there is no telling what the transaction would have seen of a late entry: it aborts, unless it has promised to
//! commit (`promises`): then the range is looked through only to leave the stamp in all of its leaves.

use std::ops::Bound;

use super::{
    running::{Entered, Operation},
    visible::{Seen, visible},
    write_set::{ChainFootprint, LeafRead, Looked},
};
use crate::{
    access::IndexOrdinal,
    engine::Engine,
    error::{AbortKind, Dependency, Result},
    ids::{RowId, Stamp, Tid},
    index::{Batch, Direction},
    mutant::Mutant,
    rows::chain::{Kind, VersionPtr},
    scheme::{Cause, Certifier, Conflict, Late, Place, Scheme, StampsOf},
    sync::Spin,
    table::TableStore,
    worker::State,
};

/// A transaction that looks at its leaf set.
pub(super) struct Validation<'t, S: Scheme> {
    pub(super) engine: &'t Engine<S>,
    pub(super) entered: &'t Entered<'t>,
    pub(super) footprint: &'t ChainFootprint<StampsOf<S>>,
    pub(super) begin: Stamp,
    pub(super) tid: Option<Tid>,
    /// It has promised to commit: whatever has come into what it looked through is of transactions that will lose.
    pub(super) has_promised: bool,
}

impl<S: Scheme> Operation<'_, S> {
    /// Looks at the leaf set of a transaction without writes that is to end at `stamp`; `false`: it needs a stamp of its own.
    pub(super) fn validate_read_only(&mut self, stamp: Stamp) -> Result<bool> {
        let State { tid, certifier, footprint, begin, promised, .. } = &mut *self.state;
        let (engine, entered, has_promised) = (self.engine, &self.entered, promised.is_some());
        let validation = Validation { engine, entered, footprint, begin: *begin, tid: *tid, has_promised };
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
    /// Looks at all leaves; `read` gets what turns out to have been read.
    pub(super) fn run(
        &self,
        stamp: Stamp,
        mut read: impl FnMut(Late<StampsOf<S>>) -> Result<(), Conflict>,
    ) -> Result<(), Conflict> {
        if Mutant::NoLeafValidation.is_on() {
            return Ok(());
        }
        let mut batch = None;
        for leaf in &self.footprint.leaves {
            let index = self.engine.table(leaf.place.table).index(leaf.index);
            if index.validate(&self.entered.nodes, leaf.leaf, leaf.version, stamp) {
                continue;
            }
            match leaf.looked {
                Some(looked) if S::SNAPSHOT || self.has_promised => {
                    self.look_again(leaf, looked, stamp, batch.get_or_insert_default(), &mut read)?;
                }
                _ => return Err(changed(leaf.place)),
            }
        }
        Ok(())
    }

    fn look_again(
        &self,
        leaf: &LeafRead,
        looked: Looked,
        stamp: Stamp,
        batch: &mut Batch,
        read: &mut impl FnMut(Late<StampsOf<S>>) -> Result<(), Conflict>,
    ) -> Result<(), Conflict> {
        let (table, nodes) = (self.engine.table(leaf.place.table), &self.entered.nodes);
        let lower = Bound::Included(self.footprint.key(looked.lower));
        let upper = match &looked.upper {
            Bound::Included(upper) => Bound::Included(self.footprint.key(*upper)),
            Bound::Excluded(upper) => Bound::Excluded(self.footprint.key(*upper)),
            Bound::Unbounded => Bound::Unbounded,
        };
        let index = table.index(leaf.index);
        let mut spin = Spin::default();
        'again: loop {
            let mut cursor = index.cursor(nodes, lower, upper, Direction::Forward);
            while let Some(seen) = cursor.next_leaf(batch, usize::MAX) {
                if !index.validate(nodes, seen.leaf, seen.version, stamp) {
                    spin.wait();
                    continue 'again;
                }
                for at in 0..batch.len() {
                    if let Some(late) = self.late(table, leaf.index, batch.row(at), batch.key(at), leaf.place)? {
                        read(late)?;
                    }
                }
            }
            return Ok(());
        }
    }

    /// What the transaction sees behind an entry, if it is not a row that it was shown.
    fn late(
        &self,
        table: &TableStore<StampsOf<S>>,
        index: IndexOrdinal,
        row: RowId,
        entry: &[u8],
        place: Place,
    ) -> Result<Option<Late<StampsOf<S>>>, Conflict> {
        // An empty slot: an insert that is being undone.
        let Some(head) = table.rows.slot(row).head() else { return Ok(None) };
        match visible::<S>(&self.engine.shared, self.begin, false, self.tid, head, || ()) {
            Seen::Own(_) => Ok(None),
            Seen::At(version, _) if self.is_shown(table, index, version, entry) => Ok(None),
            Seen::At(version, _) => Ok(Some(Late { version, head, place })),
            Seen::Nothing => Err(changed(place)),
        }
    }

    fn is_shown(
        &self,
        table: &TableStore<StampsOf<S>>,
        index: IndexOrdinal,
        version: VersionPtr<StampsOf<S>>,
        entry: &[u8],
    ) -> bool {
        // What its key function panics at counts as read late, once more perhaps.
        let matches =
            || table.secondary(index).matches(entry, version.payload(&self.entered.versions)).unwrap_or(false);
        version.kind() == Kind::Live && (index == IndexOrdinal::PRIMARY || matches())
    }
}

/// A leaf has changed in a way that cannot be weighed.
fn changed(place: Place) -> Conflict {
    Conflict::before(AbortKind::Phantom, Cause::new(Stamp::INFINITY, Dependency::InsertedBy, place))
}

//! The waiting of a statement for rows of other transactions.

use std::{sync::Arc, time::Duration};

use ermine::Tid;

use crate::{
    catalog::row_queues::{Place, RowQueues},
    error::{Lost, Result},
    failure::EngineResult as _,
    transaction::{ActiveTransaction, Patience},
};

/// The waiting of one statement, for one row after another.
pub(super) struct RowWait {
    queues: Arc<RowQueues>,
    place: Option<Place>,
    /// Conflicts lost since the last one whose winner was known.
    unnamed: u32,
    /// The limit of all waits.
    pub(super) patience: Patience,
}

impl RowWait {
    /// Conflicts with transactions that have ended which a statement may lose at once, one after the other.
    const UNNAMED: u32 = 2;

    pub(super) fn new(queues: Arc<RowQueues>, at_most: Duration) -> Self {
        Self { queues, place: None, unnamed: 0, patience: Patience::new(at_most) }
    }

    /// Waits after a conflict, until the statement has a chance, or should try anyway; calls `pause` now and then. The
    /// statement must hold no rows but those of its transaction's earlier statements.
    pub(super) fn wait(&mut self, lost: Option<Lost>, pause: fn()) {
        let Some((row, holder)) = lost.and_then(|Lost { row, to }| Some((row, Tid::from_u64(to?)))) else {
            // The winner has committed: the statement needs no more than a newer snapshot.
            self.unnamed += 1;
            if self.unnamed > Self::UNNAMED {
                self.patience.wait();
            }
            return;
        };
        self.unnamed = 0;
        // An old place is given up first.
        let place = match self.place.take_if(|place| place.row == row) {
            Some(place) => place,
            None => {
                self.place = None;
                self.queues.enter(row)
            }
        };
        self.place.insert(place).wait(holder, pause);
    }

    /// The statement has succeeded.
    pub(super) fn got(&mut self, active: &ActiveTransaction) -> Result<()> {
        if let Some(mut place) = self.place.take() {
            place.got = active.txn.tid().sql()?;
        }
        Ok(())
    }
}

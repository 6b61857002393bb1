//! The waiting of a statement for rows of other transactions.

use std::{sync::Arc, time::Duration};

use ermine::Tid;

use crate::{
    catalog::row_queues::{Place, RowQueues},
    error::{Lost, Result},
    failure::EngineResult as _,
    transaction::{ActiveTransaction, Patience},
};

/// How long a statement waits, about, before it tries again whatever its place.
const TRY_AFTER: Duration = Duration::from_millis(10);

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

    /// Waits after a conflict, until the statement has a chance, or should try anyway; `aside` if it takes long. The
    /// statement must hold no rows but those of its transaction's earlier statements.
    pub(super) fn wait(&mut self, lost: Option<Lost>, aside: fn(&mut dyn FnMut())) {
        let named = lost.and_then(|Lost { row, to }| Some((row, Tid::from_u64(to?))));
        let Some((row, holder)) = named.filter(|(_, holder)| self.queues.is_in_flight(*holder)) else {
            // The winner has ended: the statement needs no more than a newer snapshot.
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
        // Not all at the same time: of two that try together, each may stop the other.
        let at_most = TRY_AFTER.mul_f64(0.5 + fastrand::f64()).min(self.patience.left());
        self.place.insert(place).wait(holder, at_most, aside);
    }

    /// The statement has succeeded.
    pub(super) fn got(&mut self, active: &ActiveTransaction) -> Result<()> {
        if let Some(mut place) = self.place.take() {
            place.got = active.txn.tid().sql()?;
        }
        Ok(())
    }
}

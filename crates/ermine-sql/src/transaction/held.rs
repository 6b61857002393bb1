//! The tables and views that a transaction uses or has alone, and its waiting for them.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use crate::{
    catalog::{
        SharedTable,
        definition::ObjectId,
        footprint::{Footprint, Hold},
        latch::Share,
        sessions::Party,
        waits::{Need, TableNeed, Waiting},
    },
    error::{Result, SqlError, SqlState},
    types::Interrupt,
};

/// The limits of a statement's waits for other transactions.
#[derive(Clone, Copy)]
pub(crate) struct Limits<'s> {
    /// `None`: without a limit; zero: it does not wait at all.
    pub(crate) at_most: Option<Duration>,
    pub(crate) interrupt: &'s Interrupt,
}

impl Limits<'_> {
    /// Returns the same limits, or those of a statement with NOWAIT.
    pub(crate) fn or_nowait(self, nowait: bool) -> Self {
        Self { at_most: if nowait { Some(Duration::ZERO) } else { self.at_most }, ..self }
    }
}

/// Returns the error of a statement that has waited for longer than `lock_timeout`.
pub(crate) fn lock_timeout() -> SqlError {
    SqlError::new(SqlState::LOCK_NOT_AVAILABLE, "canceling statement due to lock timeout")
}

/// A wait of a statement for a table, which has a name in errors.
pub(crate) struct TableWait<'w> {
    party: &'w Party,
    limits: Limits<'w>,
    table: (ObjectId, &'w str),
    since: Instant,
    waiting: Option<Waiting>,
}

impl<'w> TableWait<'w> {
    pub(crate) fn new(party: &'w Party, limits: Limits<'w>, table: ObjectId, name: &'w str) -> Self {
        Self { party, limits, table: (table, name), since: Instant::now(), waiting: None }
    }

    /// To be called before each pause; fails when the statement is to wait no longer.
    pub(crate) fn needs(&mut self, need: TableNeed) -> Result<()> {
        self.meets(Some(Need::Table(self.table.0, need)))
    }

    /// Works likewise, for anything that is in the way; `None`: it is not known.
    pub(crate) fn meets(&mut self, need: Option<Need>) -> Result<()> {
        self.limits.interrupt.check()?;
        if self.limits.at_most == Some(Duration::ZERO) {
            let message = format!("could not obtain lock on relation \"{}\"", self.table.1);
            return Err(SqlError::new(SqlState::LOCK_NOT_AVAILABLE, message));
        }
        if self.limits.at_most.is_some_and(|limit| self.since.elapsed() >= limit) {
            return Err(lock_timeout().detail(format!("The statement waited for relation \"{}\".", self.table.1)));
        }
        let Party { waits, footprint, .. } = self.party;
        self.waiting.get_or_insert_with(|| waits.begin(footprint)).needs(need)
    }
}

/// A guard: no other transaction changes the table while it exists.
pub(crate) struct Changing {
    table: Arc<SharedTable>,
    by: Arc<Footprint>,
}

impl Changing {
    /// Waits for other transactions that change the table.
    pub(crate) fn begin(shared: &Arc<SharedTable>, wait: &mut TableWait<'_>) -> Result<Self> {
        shared.latch.change(&mut || wait.needs(TableNeed::Change))?;
        let by = wait.party.footprint.clone();
        by.holds(shared.id, Hold::Change);
        Ok(Self { table: shared.clone(), by })
    }

    /// Waits until all current users of the table have ended.
    pub(crate) fn outlast(&self, wait: &mut TableWait<'_>) -> Result<()> {
        self.table.latch.outlast(&mut || wait.needs(TableNeed::Outlast))
    }

    /// Waits until no other transaction uses the table; `own`: how often the caller uses it.
    fn take(self, own: u64, wait: &mut TableWait<'_>) -> Result<Alone> {
        self.table.latch.take(own, &mut || wait.needs(TableNeed::Alone))?;
        self.by.holds(self.table.id, Hold::Alone);
        Ok(Alone(self))
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        self.by.gives_back(self.table.id, Hold::Change);
        self.table.latch.end_change();
    }
}

/// A guard: no other transaction uses the table while it exists.
struct Alone(Changing);

impl Drop for Alone {
    fn drop(&mut self) {
        self.0.by.gives_back(self.0.table.id, Hold::Alone);
        self.0.table.latch.give_back();
    }
}

/// Latches: of tables that a transaction shares, and of tables that it holds exclusively.
#[derive(Default)]
pub(super) struct Held {
    uses: Vec<(Arc<SharedTable>, Share)>,
    alone: Vec<Alone>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.alone.clear();
        self.uses.iter().for_each(|(table, share)| table.latch.unshare(*share));
    }
}

impl Held {
    pub(super) fn is_empty(&self) -> bool {
        self.uses.is_empty() && self.alone.is_empty()
    }

    pub(super) fn uses(&self, shared: &Arc<SharedTable>) -> bool {
        self.uses.iter().any(|(own, _)| Arc::ptr_eq(own, shared))
    }

    /// Belongs to another party from now on.
    pub(super) fn leaves_to(&mut self, party: &Party) {
        for Alone(changing) in &mut self.alone {
            for hold in [Hold::Change, Hold::Alone] {
                changing.by.gives_back(changing.table.id, hold);
                party.footprint.holds(changing.table.id, hold);
            }
            changing.by = party.footprint.clone();
        }
    }

    pub(super) fn has_alone(&self, shared: &Arc<SharedTable>) -> bool {
        self.alone.iter().any(|own| Arc::ptr_eq(&own.0.table, shared))
    }

    /// Iterates over the tables that it has in either way.
    pub(super) fn tables(&self) -> impl Iterator<Item = &Arc<SharedTable>> {
        self.uses.iter().map(|(own, _)| own).chain(self.alone.iter().map(|own| &own.0.table))
    }

    /// Uses a table; returns false if it was changed after `version`.
    #[inline]
    pub(super) fn share<'w>(
        &mut self,
        shared: &Arc<SharedTable>,
        version: u64,
        party: &Party,
        wait: impl FnOnce() -> TableWait<'w>,
    ) -> Result<bool> {
        if self.uses(shared) || self.has_alone(shared) {
            return Ok(true);
        }
        let share = match shared.latch.try_share() {
            Some(share) => share,
            None => {
                let (mut wait, mut share) = (wait(), None);
                let aside = wait.limits.interrupt.aside;
                aside(&mut || share = Some(shared.latch.share(&mut || wait.needs(TableNeed::Use))));
                share.expect("it was run")?
            }
        };
        // It is not used then: a transaction that continues from a savepoint requests it again.
        // SeqCst: after the latch (`latch`, invariant 2).
        if shared.changed.load(Ordering::SeqCst) > version {
            shared.latch.unshare(share);
            return Ok(false);
        }
        party.footprint.adds(shared.id);
        self.uses.push((shared.clone(), share));
        Ok(true)
    }

    /// Has a table alone; returns false if it was changed after `version`.
    pub(super) fn take(&mut self, shared: &Arc<SharedTable>, version: u64, mut wait: TableWait<'_>) -> Result<bool> {
        if self.has_alone(shared) {
            return Ok(true);
        }
        let (own, mut taken) = (self.uses(shared).into(), None);
        let aside = wait.limits.interrupt.aside;
        aside(&mut || {
            taken = Some(Changing::begin(shared, &mut wait).and_then(|changing| changing.take(own, &mut wait)));
        });
        let alone = taken.expect("it was run")?;
        if shared.changed.load(Ordering::SeqCst) > version {
            return Ok(false);
        }
        self.alone.push(alone);
        Ok(true)
    }
}

//! Which rows leave memory first: those that were accessed least often, and longest ago.
//!
//! From time to time a *round* begins: it passes over all slots, and marks the rows in memory as idle; an access takes
//! the mark off. So a round sees which rows were accessed since the one before, and keeps the *heat* of each row, a
//! frequency with exponential decay:
//!
//! ```text
//!    heat  <-  15/16 heat  +  16 if it was accessed              accessed in each round: 241     once: 16 15 14 ..
//! ```
//!
//! When memory is short, the coldest of the idle rows leave: those that were not accessed in the last round, nor often
//! before. Rows of a table that grows like a log are mostly inserted, read soon, perhaps changed once more, and then
//! not accessed any more: they leave before rows that are accessed now and then for ever. A row that comes back has the
//! heat that it left with. Transactions that access rows neither read nor write it. A round comes with each sixteenth
//! of the memory that was filled with rows, so its cost, some nanoseconds a slot, is small beside that of filling it.

use std::collections::HashMap;

use crate::{
    ids::{RowId, TableId},
    rows::chain::CertifierStamps,
    table::TableStore,
};

/// A round takes one part in so many of a row's heat.
const DECAY: u8 = 16;
/// What a row gains that was accessed in the round; at most as much as the hottest row loses.
const GAIN: u8 = 16;

/// Returns the heat of a row after a round.
fn heated(heat: u8, is_accessed: bool) -> u8 {
    heat - heat.div_ceil(DECAY) + if is_accessed { GAIN } else { 0 }
}

/// The heat of each row, by table.
#[derive(Default)]
pub(super) struct Heat(HashMap<TableId, Vec<u8>>);

/// Numbers of idle rows, by table and heat.
#[derive(Default)]
pub(super) struct Survey(HashMap<TableId, [u64; 256]>);

/// The coldest rows: all that are colder than a bound, and of those at the bound some of each table.
pub(super) struct Coldest {
    bound: u8,
    at_bound: HashMap<TableId, u64>,
}

/// The coldest rows of a table.
pub(super) struct ColdestOf {
    bound: u8,
    at_bound: u64,
}

impl Heat {
    /// Forgets the rows of other tables than these.
    pub(super) fn retain(&mut self, is_there: impl Fn(TableId) -> bool) {
        self.0.retain(|table, _| is_there(*table));
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> u64 {
        self.0.values().map(|heat| heat.capacity() as u64).sum()
    }

    /// The heat of the rows of a table; one that has come since the last round has none.
    pub(super) fn of<H: CertifierStamps>(&mut self, table: &TableStore<H>) -> &mut [u8] {
        let (heat, count) = (self.0.entry(table.id).or_default(), table.rows.count() as usize);
        if heat.len() < count {
            heat.resize(count, 0);
        }
        heat
    }

    /// Begins a round in a table.
    pub(super) fn begin_round<H: CertifierStamps>(&mut self, table: &TableStore<H>) {
        for (row, heat) in (0..table.rows.count()).zip(self.of(table)) {
            let slot = table.rows.slot(RowId(row));
            let is_accessed = slot.is_in_use();
            if is_accessed {
                slot.mark_idle();
            }
            if is_accessed || slot.is_idle() {
                *heat = heated(*heat, is_accessed);
            }
        }
    }

    /// Notes that the marks of a row were taken off without an access: the next round is not to count one.
    pub(super) fn discount(&mut self, table: TableId, row: RowId) {
        if let Some(heat) = self.0.get_mut(&table).and_then(|heat| heat.get_mut(row.0 as usize)) {
            *heat = heat.saturating_sub(GAIN);
        }
    }

    /// Counts the rows of a table that have not been accessed since the round began.
    pub(super) fn count<H: CertifierStamps>(&mut self, table: &TableStore<H>, survey: &mut Survey) {
        let mut counts = [0; 256];
        for (row, heat) in (0..table.rows.count()).zip(self.of(table)) {
            if table.rows.slot(RowId(row)).is_idle() {
                counts[usize::from(*heat)] += 1;
            }
        }
        if counts != [0; 256] {
            survey.0.insert(table.id, counts);
        }
    }
}

impl Survey {
    /// Returns the coldest rows, that many, and up to one more of each table; `None`: there are not as many. Each table
    /// has its share of those at the bound: as long as no round has told rows apart, none leaves as a whole for the
    /// others.
    pub(super) fn coldest(&self, rows: u64) -> Option<Coldest> {
        let (mut left, mut all) = (rows.max(1), [0; 256]);
        for counts in self.0.values() {
            all.iter_mut().zip(counts).for_each(|(all, count)| *all += count);
        }
        for (bound, count) in (0..=u8::MAX).zip(all) {
            if count >= left {
                let share = |counts: &[u64; 256]| (counts[usize::from(bound)] * left).div_ceil(count);
                let at_bound = self.0.iter().map(|(table, counts)| (*table, share(counts))).collect();
                return Some(Coldest { bound, at_bound });
            }
            left -= count;
        }
        None
    }
}

impl Coldest {
    /// Those of a table; a table that has come since they were counted has none at the bound.
    pub(super) fn of(&self, table: TableId) -> ColdestOf {
        ColdestOf { bound: self.bound, at_bound: self.at_bound.get(&table).copied().unwrap_or(0) }
    }
}

impl ColdestOf {
    /// All rows.
    pub(super) const ALL: Self = Self { bound: u8::MAX, at_bound: u64::MAX };

    /// Whether a row of that heat is one of them; asked once for each row.
    pub(super) fn takes(&mut self, heat: u8) -> bool {
        if heat == self.bound && self.at_bound > 0 {
            self.at_bound -= 1;
            return true;
        }
        heat < self.bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_accessed_now_and_then_stays_longer_than_what_was_accessed_twice() {
        let after = |rounds: &[bool]| rounds.iter().fold(0, |heat, accessed| heated(heat, *accessed));
        let (twice, often) = (after(&[true, true, false, false, false]), after(&[false, false, true].repeat(8)));
        assert!(often > twice && twice > after(&[true, false, false, false, false]), "{often} {twice}");
        assert_eq!((after(&[true; 100]), after(&[false; 100])), (241, 0));
        assert_eq!((0..60).fold(255, |heat, _| heated(heat, false)), 0);
        assert_eq!(heated(255, true), 255);
    }

    #[test]
    fn the_coldest_rows_are_taken() {
        let mut survey = Survey::default();
        let (small, large) = (TableId(1), TableId(2));
        for (table, rows) in [(small, 3), (large, 27)] {
            (0..10).for_each(|heat| survey.0.entry(table).or_insert([0; 256])[heat] = rows);
        }
        assert_eq!(survey.coldest(80).unwrap().of(large).at_bound, 18);
        let mut coldest = survey.coldest(80).unwrap().of(small);
        let taken: Vec<_> = (0..10).rev().flat_map(|heat| [heat; 3]).filter(|heat| coldest.takes(*heat)).collect();
        assert_eq!(taken, [2, 2, 1, 1, 1, 0, 0, 0]);
        assert!(survey.coldest(300).is_some() && survey.coldest(301).is_none());
    }
}

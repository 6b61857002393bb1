//! The rows over which most conflicts are lost, each with the story of one of them: the rows of
//! `ermine_stat_hot_conflicts`.
//!
//! Only transactions that have lost come here. There are [`PLACES`] places. While all are taken, a new row takes that of
//! the row with the fewest conflicts, and its count (Space-Saving: Metwally et al., ICDT 2005). So a count is too large by
//! at most the count that was taken over, which is kept beside it, and every row with more than one in [`PLACES`] of all
//! conflicts has a place. A story takes longer than an attempt of a short transaction, so each place is told at most one
//! every [`STORY_INTERVAL`].

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{definition::ObjectId, sessions::now};

const PLACES: usize = 64;
/// Microseconds between two stories of a place.
const STORY_INTERVAL: i64 = 1_000_000;
/// Maximum bytes of a key in words, and of a story.
const KEY_MAX: usize = 256;
const STORY_MAX: usize = 1024;

/// The row and the cause of conflicts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HotRow {
    /// A hash of the row's table and key: [`crate::error::Lost`].
    pub(crate) row: u64,
    /// `None`: it is a row of no table of SQL.
    pub(crate) table: Option<ObjectId>,
    /// The rule by which the conflicts were lost.
    pub(crate) cause: &'static str,
}

/// Conflicts over a row.
#[derive(Clone, Debug)]
pub(crate) struct HotConflict {
    pub(crate) row: HotRow,
    /// The row's key, or that of an index, in words, if it is known.
    pub(crate) key: Option<String>,
    pub(crate) count: u64,
    /// How many of `count` may have been over another row, which had the place before.
    pub(crate) taken_over: u64,
    /// The time of the last conflict, in microseconds since 2000-01-01.
    pub(crate) last: i64,
    /// What happened in the last conflict of which a story was told.
    pub(crate) story: Option<String>,
    told: i64,
}

/// The conflicts of a database since it was opened, or since the last reset.
#[derive(Default)]
pub(crate) struct HotConflicts(Mutex<Vec<HotConflict>>);

impl HotConflicts {
    /// Counts a conflict; `key` is called if the row has had no place, and `story` now and then. They must not count.
    pub(crate) fn count(&self, row: HotRow, key: impl FnOnce() -> Option<String>, story: impl FnOnce() -> String) {
        self.count_at(now(), row, key, story);
    }

    fn count_at(&self, now: i64, row: HotRow, key: impl FnOnce() -> Option<String>, story: impl FnOnce() -> String) {
        let mut places = self.places();
        let known = places.iter().position(|place| place.row == row);
        let at = known.unwrap_or_else(|| {
            let key = key().map(|key| cut(key, KEY_MAX));
            let new = HotConflict { row, key, count: 0, taken_over: 0, last: now, story: None, told: i64::MIN };
            if places.len() < PLACES {
                places.push(new);
                return places.len() - 1;
            }
            let (coldest, place) = places.iter_mut().enumerate().min_by_key(|(_, place)| place.count).expect("64");
            *place = HotConflict { count: place.count, taken_over: place.count, told: place.told, ..new };
            coldest
        });
        let place = &mut places[at];
        place.count += 1;
        place.last = now;
        if now >= place.told.saturating_add(STORY_INTERVAL) {
            place.told = now;
            place.story = Some(cut(story(), STORY_MAX));
        }
    }

    /// Returns the rows with a place, and their conflicts.
    pub(crate) fn all(&self) -> Vec<HotConflict> {
        self.places().clone()
    }

    pub(crate) fn reset(&self) {
        self.places().clear();
    }

    fn places(&self) -> MutexGuard<'_, Vec<HotConflict>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the prefix of a text that has at most `max` bytes.
fn cut(mut text: String, max: usize) -> String {
    text.truncate((0..=max.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(row: u64) -> HotRow {
        HotRow { row, table: Some(1), cause: "exclusion" }
    }

    fn count(of: &HotConflicts, now: i64, of_row: u64) {
        of.count_at(now, row(of_row), || Some(format!("key {of_row}")), || format!("story {of_row} at {now}"));
    }

    #[test]
    fn hot_rows_keep_their_places_among_many_cold_ones() {
        let conflicts = HotConflicts::default();
        let mut all = 0;
        for round in 0..1000 {
            for hot in 0..3 {
                count(&conflicts, round, hot);
            }
            for cold in 0..5 {
                count(&conflicts, round, 100 + round as u64 * 5 + cold);
            }
            all += 8;
        }
        let places = conflicts.all();
        assert_eq!(places.len(), PLACES);
        assert_eq!(places.iter().map(|place| place.count).sum::<u64>(), all);
        for hot in 0..3 {
            let place = places.iter().find(|place| place.row == row(hot)).unwrap();
            assert_eq!((place.count, place.taken_over, place.key.as_deref()), (1000, 0, Some(&*format!("key {hot}"))));
        }
        // What a cold row has taken over is not said to be its own.
        let cold = places.iter().filter(|place| place.row.row >= 100);
        assert!(cold.clone().count() == PLACES - 3 && cold.clone().any(|place| place.taken_over > 0));
        cold.for_each(|place| assert_eq!(place.count - place.taken_over, 1));
        conflicts.reset();
        assert!(conflicts.all().is_empty());
    }

    #[test]
    fn a_place_tells_one_story_in_an_interval() {
        let conflicts = HotConflicts::default();
        let story = |of: u64| conflicts.all().into_iter().find(|place| place.row == row(of)).unwrap().story;
        count(&conflicts, 0, 1);
        count(&conflicts, STORY_INTERVAL - 1, 1);
        assert_eq!(story(1).as_deref(), Some("story 1 at 0"));
        count(&conflicts, STORY_INTERVAL, 1);
        assert_eq!(story(1).as_deref(), Some("story 1 at 1000000"));
        // Also where one row after the other takes it.
        (2..=PLACES as u64).for_each(|other| count(&conflicts, 5 * STORY_INTERVAL, other));
        count(&conflicts, 5 * STORY_INTERVAL, 1000);
        assert_eq!(story(1000), None);
        count(&conflicts, 6 * STORY_INTERVAL, 1000);
        assert_eq!(story(1000).as_deref(), Some("story 1000 at 6000000"));
        assert_eq!(cut("aäö".into(), 2), "a");
    }
}

//! Counters of statements by their text without its constants: the rows of `pg_stat_statements`.
//!
//! A statement finds its entry when it is prepared, and keeps it: running it looks nothing up. No more than
//! [`ENTRIES_MAX`] texts are counted; when there are more, those that no session keeps make room, the least used first.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ermine::LatencyRecorder;

use super::{
    definition::ObjectId,
    uses::{Sharded, add, counters},
};
use crate::normal::normal;

/// Texts that are counted.
const ENTRIES_MAX: usize = 5000;
/// Of the texts that get no entry, one in so many looks for entries that can go.
const LOOK_EVERY: u64 = 64;
/// The longest text that is kept of a statement, or of its plan, in bytes.
const TEXT_MAX: usize = 4096;

counters! {
    /// Runs of a statement. Times are in microseconds.
    StatementUse, StatementCounts {
        /// Runs that succeeded.
        calls,
        errors,
        rows,
        micros,
        /// The sum of the squares.
        square_micros,
        /// Lost conflicts, also those after which the statement was run again.
        conflicts,
        /// Waits for rows of other transactions.
        waits,
        wait_micros,
        /// Plans that were made.
        plans,
        plan_micros,
        square_plan_micros,
    }
}

/// A plan that can be shown.
pub(crate) trait ShownPlan: Send + Sync {
    /// Returns its nodes, in the order of EXPLAIN.
    fn shape(&self) -> String;
}

/// A statement that is counted.
pub(crate) struct StatementEntry {
    /// The number of the database in which it was run.
    pub(crate) database: ObjectId,
    /// The role that ran it.
    pub(crate) role: ObjectId,
    /// The number of its text.
    pub(crate) id: i64,
    pub(crate) text: Box<str>,
    pub(crate) uses: Sharded<StatementUse>,
    pub(crate) runs: Extremes,
    pub(crate) plannings: Extremes,
    plan: Mutex<LastPlan>,
}

/// The plan that was made last.
#[derive(Default)]
struct LastPlan {
    /// The plan, while a session has it.
    plan: Option<Weak<dyn ShownPlan>>,
    /// How many were made.
    made: u64,
    /// The text of a plan, and how many had been made with it.
    text: Option<(u64, Arc<str>)>,
}

/// The shortest and the longest of some times, in microseconds.
pub(crate) struct Extremes([AtomicU64; 2]);

impl Default for Extremes {
    fn default() -> Self {
        Self([AtomicU64::new(u64::MAX), AtomicU64::new(0)])
    }
}

impl Extremes {
    /// Returns the shortest and the longest time; before the first one, the shortest is the largest number.
    pub(crate) fn get(&self) -> [u64; 2] {
        self.0.each_ref().map(|one| one.load(Ordering::Relaxed))
    }

    #[inline]
    fn record(&self, micros: u64) {
        // Rarely written.
        let [shortest, longest] = &self.0;
        if micros < shortest.load(Ordering::Relaxed) {
            shortest.fetch_min(micros, Ordering::Relaxed);
        }
        if micros > longest.load(Ordering::Relaxed) {
            longest.fetch_max(micros, Ordering::Relaxed);
        }
    }

    fn reset(&self) {
        let [shortest, longest] = &self.0;
        shortest.store(u64::MAX, Ordering::Relaxed);
        longest.store(0, Ordering::Relaxed);
    }
}

impl StatementEntry {
    /// Counts a run that took `micros` and returned or changed `rows`; `None`: it failed.
    #[inline]
    pub(crate) fn ran(&self, session: u64, micros: u64, rows: Option<u64>) {
        let part = self.uses.of(session);
        let Some(rows) = rows else { return add(&part.errors, 1) };
        add(&part.calls, 1);
        if rows > 0 {
            add(&part.rows, rows);
        }
        add(&part.micros, micros);
        add(&part.square_micros, micros.saturating_mul(micros));
        self.runs.record(micros);
    }

    /// Counts a plan that was made; returns whether its text is to be kept ([`Self::keep`]): that of the first one, the
    /// second, the fourth, and so on. Making it for each plan would cost more than it is worth.
    pub(crate) fn planned(&self, session: u64, took: Duration) -> bool {
        let (part, micros) = (self.uses.of(session), took.as_micros() as u64);
        add(&part.plans, 1);
        add(&part.plan_micros, micros);
        add(&part.square_plan_micros, micros.saturating_mul(micros));
        self.plannings.record(micros);
        let made = &mut self.last_plan().made;
        *made += 1;
        made.is_power_of_two()
    }

    /// Shows a plan from now on, while a session has it.
    pub(crate) fn shows(&self, plan: Weak<impl ShownPlan + 'static>) {
        self.last_plan().plan = Some(plan);
    }

    /// Keeps the text of the plan that was made last, for the time when no session has it any more.
    pub(crate) fn keep(&self) {
        self.plan();
    }

    fn last_plan(&self) -> MutexGuard<'_, LastPlan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the beginning of the plan that was made last, or of an earlier one if no session has that any more.
    pub(crate) fn plan(&self) -> Option<Arc<str>> {
        let (plan, made) = {
            let last = self.last_plan();
            let is_current = last.text.as_ref().is_some_and(|(of, _)| *of == last.made);
            match last.plan.as_ref().and_then(Weak::upgrade) {
                Some(plan) if !is_current => (plan, last.made),
                _ => return last.text.as_ref().map(|(_, text)| text.clone()),
            }
        };
        let mut text = plan.shape();
        let end = (0..=TEXT_MAX.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or(0));
        let text: Arc<str> = text.into();
        let mut last = self.last_plan();
        if last.text.as_ref().is_none_or(|(of, _)| *of < made) {
            last.text = Some((made, text.clone()));
        }
        Some(text)
    }

    fn reset(&self) {
        self.uses.reset();
        self.runs.reset();
        self.plannings.reset();
    }
}

/// The database and the role that run a statement, and the number of its text.
type EntryKey = (ObjectId, ObjectId, u64);

/// The statements that are counted.
#[derive(Default)]
pub(crate) struct StatementUses {
    entries: Mutex<HashMap<EntryKey, Arc<StatementEntry>>>,
    /// Texts that found all entries taken.
    pub(crate) dropped: AtomicU64,
    /// Those of them that got none, since one did.
    refused: AtomicU64,
    /// The times of all statements.
    pub(crate) times: Sharded<LatencyRecorder>,
}

impl StatementUses {
    /// Returns the entry of a statement that a role runs in a database; `None`: there is no room for one.
    pub(crate) fn entry(&self, database: ObjectId, role: ObjectId, text: &str) -> Option<Arc<StatementEntry>> {
        let mut hasher = DefaultHasher::new();
        normal(text, &mut |piece| piece.hash(&mut hasher));
        self.entry_of((database, role, hasher.finish()), || {
            let mut normal_text = String::new();
            normal(text, &mut |piece| {
                if normal_text.len() + piece.len() <= TEXT_MAX {
                    normal_text.push_str(piece);
                }
            });
            normal_text.into()
        })
    }

    /// Returns the entry of the same statement that another role runs.
    pub(crate) fn of_role(&self, role: ObjectId, entry: &StatementEntry) -> Option<Arc<StatementEntry>> {
        self.entry_of((entry.database, role, entry.id as u64), || entry.text.clone())
    }

    fn entry_of(&self, key: EntryKey, text: impl FnOnce() -> Box<str>) -> Option<Arc<StatementEntry>> {
        let mut entries = self.lock();
        if let Some(known) = entries.get(&key) {
            return Some(known.clone());
        }
        if entries.len() >= ENTRIES_MAX {
            add(&self.dropped, 1);
            // Where all are in use, not each new text looks through them.
            if self.refused.load(Ordering::Relaxed).is_multiple_of(LOOK_EVERY) {
                make_room(&mut entries);
            }
            match entries.len() < ENTRIES_MAX {
                true => self.refused.store(0, Ordering::Relaxed),
                false => add(&self.refused, 1),
            }
        }
        if entries.len() >= ENTRIES_MAX {
            return None;
        }
        let entry = Arc::new(StatementEntry {
            database: key.0,
            role: key.1,
            id: key.2 as i64,
            text: text(),
            uses: Sharded::default(),
            runs: Extremes::default(),
            plannings: Extremes::default(),
            plan: Mutex::default(),
        });
        entries.insert(key, entry.clone());
        Some(entry)
    }

    /// Returns the statements that have been run.
    pub(crate) fn all(&self) -> Vec<(Arc<StatementEntry>, StatementCounts)> {
        let entries: Vec<_> = self.lock().values().cloned().collect();
        let counted = entries.into_iter().map(|entry| {
            let counts = entry.uses.read();
            (entry, counts)
        });
        counted.filter(|(_, counts)| counts.calls + counts.errors > 0).collect()
    }

    /// Counts all statements from zero again.
    pub(crate) fn reset(&self) {
        let mut entries = self.lock();
        entries.retain(|_, entry| Arc::strong_count(entry) > 1);
        entries.values().for_each(|entry| entry.reset());
        self.dropped.store(0, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<EntryKey, Arc<StatementEntry>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes the least used of the entries that no session keeps: a twentieth of all, or as many as there are.
fn make_room(entries: &mut HashMap<EntryKey, Arc<StatementEntry>>) {
    let unused = entries.iter().filter(|(_, entry)| Arc::strong_count(entry) == 1);
    let mut unused: Vec<_> = unused.map(|(key, entry)| (entry.uses.read().calls, *key)).collect();
    unused.sort_unstable();
    for (_, key) in unused.into_iter().take(ENTRIES_MAX / 20) {
        entries.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_differ_in_constants_are_one_statement() {
        let uses = StatementUses::default();
        let first = uses.entry(5, 10, "SELECT 1 FROM t WHERE a = 'x'").unwrap();
        assert!(Arc::ptr_eq(&first, &uses.entry(5, 10, "SELECT  22\nFROM t WHERE a = 'y'").unwrap()));
        assert!(!Arc::ptr_eq(&first, &uses.entry(5, 11, "SELECT 1 FROM t WHERE a = 'x'").unwrap()));
        assert_eq!(&*first.text, "SELECT $1 FROM t WHERE a = $2");
        assert!(uses.all().is_empty());
        first.ran(1, 10, Some(2));
        first.ran(2, 30, Some(0));
        first.ran(3, 7, None);
        let all = uses.all();
        let (entry, counts) = &all[0];
        assert_eq!((all.len(), counts.calls, counts.errors, counts.rows, counts.micros), (1, 2, 1, 2, 40));
        assert_eq!(entry.runs.get(), [10, 30]);
        uses.reset();
        assert!(uses.all().is_empty());
        first.ran(1, 5, Some(0));
        assert_eq!(uses.all()[0].1.calls, 1);
    }

    #[test]
    fn texts_are_bounded_and_those_in_use_stay() {
        let uses = StatementUses::default();
        let kept = uses.entry(5, 10, "SELECT kept").unwrap();
        let often = uses.entry(5, 10, "SELECT often").unwrap();
        (0..5).for_each(|_| often.ran(1, 1, Some(1)));
        drop(often);
        for at in 0..2 * ENTRIES_MAX {
            uses.entry(5, 10, &format!("SELECT a{at}")).unwrap().ran(1, 1, Some(1));
        }
        assert!(uses.lock().len() <= ENTRIES_MAX && uses.dropped.load(Ordering::Relaxed) > 0);
        assert!(Arc::ptr_eq(&kept, &uses.entry(5, 10, "SELECT kept").unwrap()));
        assert!(uses.all().iter().any(|(entry, _)| &*entry.text == "SELECT often"));
        // All are in use: the next one is not counted.
        let all: Vec<_> = (0..ENTRIES_MAX).filter_map(|at| uses.entry(5, 11, &format!("SELECT b{at}"))).collect();
        assert!(uses.entry(5, 12, "SELECT one_more").is_none(), "{}", all.len());
        // As soon as some are free, a text gets one again, if not the next one.
        drop(all);
        assert!((0..LOOK_EVERY).any(|at| uses.entry(5, 12, &format!("SELECT c{at}")).is_some()));
    }
}

//! Counts of lost conflicts, by table, statement and cause: the rows of `ermine_stat_conflicts`.
//!
//! Only transactions that have lost count. There are no more kinds than [`KINDS_MAX`]; those that come later are
//! counted together.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::definition::ObjectId;

/// The kinds of conflicts that are counted by themselves.
const KINDS_MAX: usize = 4096;

/// A kind of conflict.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct ConflictKind {
    /// `None`: it is about no table, or not known.
    pub(crate) table: Option<ObjectId>,
    /// The first words of the statement; empty: any, of kinds that are counted together.
    pub(crate) statement: &'static str,
    /// The rule by which it was lost; empty likewise.
    pub(crate) cause: &'static str,
}

/// The counts of a database since it was opened, or since the last reset.
#[derive(Default)]
pub(crate) struct Conflicts(Mutex<BTreeMap<ConflictKind, u64>>);

impl Conflicts {
    pub(crate) fn count(&self, kind: ConflictKind) {
        let mut counts = self.counts();
        let is_new = !counts.contains_key(&kind);
        let kind = if is_new && counts.len() >= KINDS_MAX { ConflictKind::default() } else { kind };
        *counts.entry(kind).or_default() += 1;
    }

    /// Returns all kinds that have been counted, and their counts.
    pub(crate) fn all(&self) -> Vec<(ConflictKind, u64)> {
        self.counts().iter().map(|(kind, count)| (*kind, *count)).collect()
    }

    pub(crate) fn reset(&self) {
        self.counts().clear();
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<ConflictKind, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_bounded_and_no_conflict_is_lost() {
        let conflicts = Conflicts::default();
        let kind = |table: usize| ConflictKind { table: Some(table as u32), statement: "UPDATE", cause: "deadlock" };
        for table in 0..2 * KINDS_MAX {
            conflicts.count(kind(table));
        }
        let all = conflicts.all();
        assert_eq!(all.len(), KINDS_MAX + 1);
        assert_eq!(all[0], (ConflictKind::default(), KINDS_MAX as u64));
        assert_eq!(all.iter().map(|(_, count)| *count as usize).sum::<usize>(), 2 * KINDS_MAX);
        conflicts.reset();
        assert!(conflicts.all().is_empty());
    }
}

//! Reports of lost conflicts in words: which rows, which other session, and why no order fits both.
//!
//! The engine's report has the two edges of the transaction that has lost: one from a transaction that comes before it,
//! one to a transaction that comes after it. Only the transaction that has lost pays for the words. What is not known
//! is left out: the values of a key, if its types cannot be decoded or it was not kept as a whole, and the other
//! session, if it has written again since.

use ermine::{Abort, AbortKind, Dependency, Edge};

use super::{Prepared, Session};
use crate::{
    catalog::{Catalog, Table, conflicts::ConflictKind, footprint::Footprint, hot_conflicts::HotRow, uses::add},
    error::{SqlError, SqlState},
    key::read_key,
    types::{Environment, text},
};

impl Session {
    /// Counts a conflict, if the error of a statement is one.
    pub(super) fn counts(&self, statement: &'static str, prepared: Option<&Prepared>, error: &SqlError) {
        let report = error.report();
        let abort = report.source.as_ref().and_then(|source| source.downcast_ref::<Abort>());
        let cause = match (report.state, abort) {
            (SqlState::SERIALIZATION_FAILURE, Some(abort)) => abort.kind.name(),
            (SqlState::SERIALIZATION_FAILURE, None) => "definition-changed",
            (SqlState::DEADLOCK_DETECTED, _) => "deadlock",
            _ => return,
        };
        if let Some(uses) = prepared.and_then(|prepared| self.uses(prepared)) {
            add(&uses.uses.of(self.party.footprint.session).conflicts, 1);
        }
        let catalog = self.shared.catalog.current();
        let table = abort.and_then(|abort| catalog.of_engine(abort.table.as_deref()?));
        let table = table.map(|(table, _)| table.def.id);
        catalog.sessions.conflicts.count(ConflictKind { table, statement, cause });
        if let (Some(abort), Some(lost)) = (abort, report.lost) {
            let story = Story::new(&catalog, &self.environment, &self.party.footprint);
            let (key, detail) = (|| story.key_of(abort), || story.detail(abort));
            catalog.sessions.hot_conflicts.count(HotRow { row: lost.row, table, cause }, key, detail);
        }
    }
}

/// What makes a report of a conflict understandable.
pub(super) struct Story<'s> {
    catalog: &'s Catalog,
    environment: &'s Environment,
    own: &'s Footprint,
}

impl<'s> Story<'s> {
    pub(super) fn new(catalog: &'s Catalog, environment: &'s Environment, own: &'s Footprint) -> Self {
        Self { catalog, environment, own }
    }

    /// Returns the error of a conflict with its message and its details.
    pub(super) fn tell(&self, error: SqlError) -> SqlError {
        let abort = error.report().source.clone();
        let Some(abort) = abort.as_ref().and_then(|source| source.downcast_ref::<Abort>()) else { return error };
        let detail = self.detail(abort);
        error.message(format!("could not serialize access due to {}", cause(abort.kind))).detail(detail)
    }

    fn detail(&self, abort: &Abort) -> String {
        let comes_after = abort.successor.as_ref().map(|edge| (self.comes_after(edge), self.process(edge)));
        let comes_before = abort.predecessor.as_ref().map(|edge| {
            let between = comes_after.as_ref().map(|(_, process)| named(*process));
            (self.comes_before(edge, between.as_deref()), self.process(edge))
        });
        match (comes_after, comes_before) {
            (Some((after, one)), Some((before, other))) => {
                let is_same = one == other || one.is_none() || other.is_none();
                let end = if is_same { "neither can come first" } else { "no order may fit all three" };
                format!("{}; {before}: {end}.", sentence(&after))
            }
            (Some((only, _)), None) | (None, Some((only, _))) => format!("{}.", sentence(&only)),
            (None, None) => format!("{}.", sentence(&self.without_edges(abort))),
        }
    }

    /// Describes why a transaction comes after the one that has lost.
    fn comes_after(&self, edge: &Edge) -> String {
        let (row, other) = (self.row(edge), named(self.process(edge)));
        match edge.dependency {
            Dependency::OverwrittenBy => format!("you read {row}, which {other} overwrote"),
            Dependency::MayBeOverwrittenBy => format!("you may have read {row}, which {other} overwrote"),
            Dependency::InsertedBy => format!("you looked for {row}, which {other} inserted"),
            Dependency::BothWrite => match edge.other {
                Some(_) => format!("you write {row}, which {other} is writing"),
                None => format!("you write {row}, which {other} has written since you began"),
            },
            Dependency::WasReadBy => format!("you write {row}, which a prepared transaction has read"),
            other => format!("{} {row}", other.name()),
        }
    }

    /// Describes why a transaction comes before the one that has lost; `between`: the one that comes after it.
    fn comes_before(&self, edge: &Edge, between: Option<&str>) -> String {
        let (row, other) = (self.row(edge), named(self.process(edge)));
        match edge.dependency {
            Dependency::ReadFrom => format!("you read {row}, as {other} had written it"),
            Dependency::Overwrote => format!("you overwrote {row}, as {other} had written it"),
            Dependency::WasReadBy => format!("{other} read {row}, which you overwrote"),
            Dependency::MayHaveBeenReadBy => format!("{other} may have read {row}, which you overwrote"),
            Dependency::WasLookedAtBy => format!("{other} looked for {row}, which you inserted"),
            Dependency::WasDeletedBy => format!("you looked for {row}, which {other} had deleted"),
            Dependency::EndedBefore => {
                let between = between.unwrap_or("another transaction");
                format!("{between}, or a transaction that comes after it, had committed before you began")
            }
            Dependency::SafeSnapshot => {
                format!("a transaction that only reads may have read {row}, which you overwrote")
            }
            other => format!("{} {row}", other.name()),
        }
    }

    fn without_edges(&self, abort: &Abort) -> String {
        let row = self.place(abort.table.as_deref(), abort.key.as_deref());
        match abort.kind {
            AbortKind::Lock => format!("another transaction has locked {row}"),
            AbortKind::TooLate => format!("a transaction that comes after you has read or written {row}"),
            AbortKind::StaleRead => format!("you read {row}, which another transaction overwrote"),
            AbortKind::Phantom => format!("you looked for {row}, which another transaction inserted"),
            AbortKind::Timeout => format!("you have waited too long for another transaction at {row}"),
            _ => format!("another transaction has read or written {row}"),
        }
    }

    /// Returns the session at the other end of an edge, by the number of its last transaction, or of its last commit.
    fn process(&self, edge: &Edge) -> Option<i64> {
        let sessions = self.catalog.sessions.all();
        let is_other = |one: &&std::sync::Arc<crate::catalog::sessions::Presence>| {
            let by_number = edge.other.is_some_and(|other| one.footprint.has_rows_of(other));
            one.footprint.session != self.own.session && (by_number || edge.stamp == Some(one.own.last()))
        };
        sessions.iter().find(is_other).map(|one| one.footprint.process())
    }

    fn row(&self, edge: &Edge) -> String {
        self.place(edge.table.as_deref(), edge.key.as_deref())
    }

    /// Returns a row, as PostgreSQL names keys: `tea (id)=(11)`.
    fn place(&self, table: Option<&str>, key: Option<&[u8]>) -> String {
        let Some(table) = table else { return "rows".into() };
        let Some((table, index)) = self.catalog.of_engine(table) else { return "definitions".into() };
        match key.and_then(|key| self.key(table, index, key)) {
            Some(key) => format!("{} {key}", table.name()),
            None => format!("a row of {}", table.name()),
        }
    }

    /// Returns the key of the row over which a conflict was lost, if it is known.
    fn key_of(&self, abort: &Abort) -> Option<String> {
        let (table, index) = self.catalog.of_engine(abort.table.as_deref()?)?;
        self.key(table, index, abort.key.as_deref()?)
    }

    /// Returns a key of a table, or of its index of that number, in words: `(id)=(11)`.
    fn key(&self, table: &Table, index: Option<usize>, key: &[u8]) -> Option<String> {
        let columns: Vec<(usize, bool)> = match (index, &table.def.primary_key) {
            (Some(at), _) => table.def.indexes[at].columns.clone(),
            (None, Some(key)) => key.columns.iter().map(|column| (*column, false)).collect(),
            (None, None) => Vec::new(),
        };
        let values = self.values(table, &columns, key).filter(|values| !values.is_empty())?;
        let names: Vec<_> = columns.iter().map(|(column, _)| table.def.part(*column)).collect();
        Some(format!("({})=({})", names.join(", "), values.join(", ")))
    }

    fn values(&self, table: &Table, columns: &[(usize, bool)], mut key: &[u8]) -> Option<Vec<String>> {
        let mut shown = |(column, descending): &(usize, bool)| {
            let value = read_key(table.types[*column], *descending, &mut key)?;
            let is_null = value.is_null();
            let shown = (!is_null).then(|| text::to_string(&value, table.types[*column], self.environment));
            Some(shown.unwrap_or_else(|| "null".into()))
        };
        columns.iter().map(&mut shown).collect()
    }
}

/// Returns the cause of a conflict in PostgreSQL's words, where it has it.
pub(super) fn cause(kind: AbortKind) -> &'static str {
    match kind {
        AbortKind::WriteConflict => "concurrent update",
        AbortKind::Exclusion | AbortKind::DangerousStructure | AbortKind::StaleRead | AbortKind::Phantom => {
            "read/write dependencies among transactions"
        }
        _ => "concurrent transactions",
    }
}

fn named(process: Option<i64>) -> String {
    process.map_or_else(|| "another transaction".into(), |process| format!("process {process}"))
}

/// Returns a text with a capital letter.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

//! Adding indexes and constraints to a table that other transactions continue to use: CREATE INDEX, ADD UNIQUE, ADD
//! CHECK, SET NOT NULL, each run as a statement outside of transactions.
//!
//! ```text
//!   begin    a transaction: adds the unfinished index or constraint     writers maintain it, no reader uses it
//!   outlast  wait for the transactions that use the table and do not know the addition
//!   purge    the entries of the index that their rows do not have, in batches         exec/build.rs
//!   scan     all rows, in batches, each a transaction                                 exec/build.rs
//!   finish   a transaction: the addition is no longer unfinished        readers rely on it
//!   or else  a transaction that removes it again, as the next opening of the database does
//! ```
//!
//! Invariants
//! 1. *One change at a time*: the table is `Changing` from beginning to end, so no other statement changes its
//!    definition.
//! 2. *All writers know the addition before the first batch*: a row that is written after that conforms to the
//!    addition. So the batches have to visit only the rows that existed before, and each of them once. Without
//!    snapshots, a transaction that does not know an index can change a row after one that does has written its entry:
//!    entries from before the first batch are purged first if their rows do not have them.
//! 3. *Transactions that rely on it come after it*: a transaction that began with the definition in which it is
//!    finished has a snapshot that includes the effects of all batches; one that began before and has not used the
//!    table yet begins again, or fails with 40001.
//! 4. *A failed addition leaves no trace*: writers have maintained it for a while, that is all.

use ermine::{Database, KeyBuffer, OwnedReceipt, Scheme};
use sqlparser::ast::{self, AlterColumnOperation, AlterTableOperation, TableConstraint};

use super::{
    Definition, alter::missing, context::ChangeContext, create::Constraints, materialized::check_actions, skip_missing,
};
use crate::{
    bind::{Binder, names::name_of},
    catalog::{
        Table,
        definition::{ObjectId, TableDef, Unfinished},
        progress::{Command, Phase, Progress, Reporting},
        waits::Need,
    },
    error::{Result, SqlError, SqlState},
    exec::{Batch, Run, run_batch},
    failure::opponent,
    result::RowSink,
    transaction::{ActiveTransaction, Changing},
    types::Environment,
};

/// An index or a constraint that a statement adds to a table.
pub(crate) enum Addition<'s> {
    Index(&'s ast::CreateIndex),
    Constraint(&'s ast::AlterTable, &'s TableConstraint),
    NotNull(&'s ast::AlterTable, &'s ast::Ident),
}

/// An addition that has begun.
struct Begun {
    changing: Changing,
    table: ObjectId,
}

/// Rows of a batch: some hundred microseconds.
const BATCH: usize = 128;

impl Definition {
    /// Returns the addition that a statement makes to a table, if it does nothing else and other sessions can use the
    /// table meanwhile.
    pub(crate) fn addition(&self) -> Option<Addition<'_>> {
        match self {
            Self::CreateIndex(create) => Some(Addition::Index(create)),
            Self::AlterTable(alter) => match &alter.operations[..] {
                [AlterTableOperation::AddConstraint { constraint, .. }] => match constraint {
                    TableConstraint::Unique(_) | TableConstraint::Check(_) => {
                        Some(Addition::Constraint(alter, constraint))
                    }
                    _ => None,
                },
                [AlterTableOperation::AlterColumn { column_name, op: AlterColumnOperation::SetNotNull }] => {
                    Some(Addition::NotNull(alter, column_name))
                }
                _ => None,
            },
            _ => None,
        }
    }
}

impl Addition<'_> {
    pub(crate) fn table(&self) -> (&ast::ObjectName, bool) {
        match self {
            Self::Index(create) => (&create.table_name, false),
            Self::Constraint(alter, _) | Self::NotNull(alter, _) => (&alter.name, alter.if_exists),
        }
    }

    fn tag(&self) -> &'static str {
        match self {
            Self::Index(_) => "CREATE INDEX",
            Self::Constraint(..) | Self::NotNull(..) => "ALTER TABLE",
        }
    }
}

impl ChangeContext<'_> {
    /// Runs a statement that adds an index or a constraint to a table, in several transactions.
    pub(crate) fn add_online(&self, addition: &Addition<'_>, rows: &mut dyn RowSink) -> Result<Option<OwnedReceipt>> {
        let receipt = match retried(self.database, self.environment, || self.begin_addition(addition, rows))? {
            None => None,
            Some(begun) => {
                let done = self.outlast_users(&begun);
                let done = done.and_then(|()| self.go_through(&begun));
                let done =
                    done.and_then(|()| retried(self.database, self.environment, || self.finish_addition(&begun)));
                let failed = |error| {
                    // If that fails, too, the addition stays unfinished until the database is opened again.
                    let _ = retried(self.database, &Environment::default(), || self.take_away(&begun));
                    error
                };
                Some(done.map_err(failed)?)
            }
        };
        rows.complete(addition.tag())?;
        Ok(receipt)
    }

    /// Puts the addition into the definition, unfinished; returns `None` if there is nothing to do.
    fn begin_addition(&self, addition: &Addition<'_>, rows: &mut dyn RowSink) -> Result<Option<Begun>> {
        let (name, if_exists) = addition.table();
        let Some((changing, mut active, mut def)) = self.change_online(name, if_exists)? else {
            skip_missing(rows, name);
            return Ok(None);
        };
        self.authorize_addition(&active, addition)?;
        if let (Addition::Constraint(alter, _) | Addition::NotNull(alter, _), true) =
            (addition, def.materialized.is_some())
        {
            check_actions(&def.name, &alter.operations)?;
        }
        let Some(unfinished) = self.add(&active, &mut def, addition, rows)? else { return Ok(None) };
        def.unfinished = Some(unfinished);
        let id = def.id;
        self.replace_table(&mut active, def)?;
        let table = active.catalog.table(id).expect("it has just been put there").clone();
        self.check_definition(&active, &table)?;
        // Only the last commit's receipt counts: once that commit is durable, so are all earlier ones.
        drop(self.commit_change(active)?);
        Ok(Some(Begun { changing, table: id }))
    }

    /// Returns a table that no other transaction changes, and a transaction that sees its current definition.
    fn change_online(
        &self,
        name: &ast::ObjectName,
        if_exists: bool,
    ) -> Result<Option<(Changing, ActiveTransaction, TableDef)>> {
        loop {
            let active = self.open_change()?;
            let Some(table) = self.stored_named(&active, name, if_exists)? else { return Ok(None) };
            drop(active);
            let changing = Changing::begin(&table.shared, &mut self.waiting(&table))?;
            let active = self.open_change()?;
            // Another table may have that name by now.
            if let Some(now) = self.stored_named(&active, name, if_exists)?
                && now.def.id == table.def.id
            {
                return Ok(Some((changing, active, now.def.clone())));
            }
        }
    }

    /// Puts the addition into a definition; returns `None` if there is nothing to do.
    fn add(
        &self,
        active: &ActiveTransaction,
        def: &mut TableDef,
        addition: &Addition<'_>,
        rows: &mut dyn RowSink,
    ) -> Result<Option<Unfinished>> {
        let index = |def: &TableDef| def.indexes.last().map(|index| Unfinished::Index(index.id));
        Ok(match addition {
            Addition::Index(create) => self.add_index(active, def, create, rows)?.then(|| index(def)).flatten(),
            Addition::Constraint(_, constraint) => {
                let mut constraints = Constraints::default();
                constraints.add(constraint, &def.name)?;
                let before = def.indexes.len();
                self.add_constraints(active, def, constraints)?;
                self.take_new_names(active, def, before)?;
                match def.indexes.len() > before {
                    true => index(def),
                    false => def.checks.last().map(|check| Unfinished::Check(check.name.clone())),
                }
            }
            Addition::NotNull(_, column) => {
                let name = name_of(column);
                let at = def.column(&name).ok_or_else(|| missing(&name, &def.name))?;
                let was_there = std::mem::replace(&mut def.columns[at].not_null, true);
                (!was_there).then_some(Unfinished::NotNull(at))
            }
        })
    }

    /// Returns the report about the index that is built; `None`: it is a constraint.
    fn reporting(&self, table: &Table) -> Option<Reporting> {
        let Some(Unfinished::Index(index)) = table.def.unfinished else { return None };
        Some(Reporting::begin(self.party.footprint.clone(), Command::CreateIndex, table.def.id, index))
    }

    /// Waits until all transactions have ended that use the table without knowing the addition.
    fn outlast_users(&self, begun: &Begun) -> Result<()> {
        let catalog = self.catalog_now();
        let table = catalog.table(begun.table).ok_or_else(gone)?;
        let progress = self.reporting(table);
        progress.iter().for_each(|progress| progress.enters(Phase::Waiting, catalog.estimated_rows(table)));
        begun.changing.outlast(&mut self.waiting(table))
    }

    /// Runs the batches over all rows.
    fn go_through(&self, begun: &Begun) -> Result<()> {
        let catalog = self.catalog_now();
        let table = catalog.table(begun.table).ok_or_else(gone)?;
        let progress = self.reporting(table);
        let enters = |phase| progress.iter().for_each(|progress| progress.enters(phase, catalog.estimated_rows(table)));
        if progress.is_some() {
            enters(Phase::Purging);
            self.go_through_all(begun, table, Batch::Purge, progress.as_deref())?;
        }
        enters(Phase::Scanning);
        self.go_through_all(begun, table, Batch::Fill, progress.as_deref())
    }

    /// Goes through all entries of an unfinished index, or all rows. A batch that loses conflicts is repeated for as
    /// long as `lock_timeout` allows.
    fn go_through_all(
        &self,
        begun: &Begun,
        table: &Table,
        of_index: fn(usize) -> Batch,
        progress: Option<&Progress>,
    ) -> Result<()> {
        let (mut next, mut done) = (Some(KeyBuffer::new()), 0);
        let (mut rows_max, mut retries, mut waiting) = (BATCH, self.database.retries(), self.waiting(table));
        while let Some(from) = &next {
            match self.batch(begun, of_index, from, rows_max) {
                Ok((rows, after)) => {
                    next = after;
                    done += rows;
                    progress.iter().for_each(|progress| progress.reaches(done));
                    (rows_max, retries) = (BATCH.min(rows_max * 2), self.database.retries());
                    waiting = self.waiting(table);
                }
                // A batch of fewer rows is shorter, so another transaction is less likely to write one of them
                // meanwhile.
                Err(error) if error.state() == SqlState::SERIALIZATION_FAILURE => {
                    rows_max = (rows_max / 2).max(1);
                    let holder = opponent(&error).filter(|holder| self.database.is_in_flight(*holder));
                    waiting.meets(holder.map(Need::Row))?;
                    if !retries.lost(opponent(&error)) {
                        // A transaction may stay open, or prepared, with one of the rows for as long as its client
                        // wants.
                        retries = self.database.retries();
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Processes the next rows; returns how many, and the key at which the next batch begins.
    fn batch(
        &self,
        begun: &Begun,
        of_index: fn(usize) -> Batch,
        from: &[u8],
        rows_max: usize,
    ) -> Result<(u64, Option<KeyBuffer>)> {
        self.environment.check()?;
        let active = self.open_change()?;
        let table = active.catalog.table(begun.table).ok_or_else(gone)?.clone();
        let batch = match (0..table.indexes.len()).find(|at| !table.def.is_complete(*at)) {
            Some(at) => of_index(at),
            None => Batch::Check,
        };
        let rules = Binder::new(&active.catalog, self.environment, self.search_path, &[]).rules(&table)?;
        let run = Run::new(&active.txn, &active.catalog, &[], self.environment, self.given);
        let done = run_batch(&run, &table, &rules, batch, from, rows_max);
        if done.as_ref().is_err_and(|error| error.state() == SqlState::SERIALIZATION_FAILURE) {
            return done;
        }
        drop(run);
        // A row that breaks a rule has been read for certain only if the transaction commits.
        drop(self.commit_change(active)?);
        done
    }

    /// Marks the addition as finished.
    fn finish_addition(&self, begun: &Begun) -> Result<OwnedReceipt> {
        self.change_begun(begun, |_, def| {
            def.unfinished = None;
            Ok(())
        })
    }

    /// Removes the addition.
    fn take_away(&self, begun: &Begun) -> Result<OwnedReceipt> {
        self.change_begun(begun, |active, def| match def.take_unfinished() {
            Some(index) => self.take_name(active, &def.schema, &index.name, false),
            None => Ok(()),
        })
    }

    /// Runs a transaction that changes the definition of the table.
    fn change_begun(
        &self,
        begun: &Begun,
        change: impl FnOnce(&ActiveTransaction, &mut TableDef) -> Result<()>,
    ) -> Result<OwnedReceipt> {
        let mut active = self.open_change()?;
        let mut def = active.catalog.table(begun.table).ok_or_else(gone)?.def.clone();
        change(&active, &mut def)?;
        self.replace_table(&mut active, def)?;
        self.commit_change(active)
    }
}

/// Whether indexes and constraints can be added to tables in use under a scheme. A batch rewrites rows as it has read
/// them, which has to fail if another transaction has written them meanwhile.
pub(crate) fn adds_online(scheme: Scheme) -> bool {
    scheme != Scheme::Rc
}

/// Changes the catalog, or reads it as a whole, again while that loses conflicts.
pub(crate) fn retried<T>(
    database: &Database,
    environment: &Environment,
    mut change: impl FnMut() -> Result<T>,
) -> Result<T> {
    let mut retries = database.retries();
    loop {
        let turn = retries.turn();
        let done = change();
        drop(turn);
        match done {
            Err(error) if error.state() == SqlState::SERIALIZATION_FAILURE => {
                environment.check()?;
                if !retries.lost(opponent(&error)) {
                    return Err(error);
                }
            }
            done => return done,
        }
    }
}

fn gone() -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, "a table is not there that is being changed")
}

#[cfg(test)]
mod tests;

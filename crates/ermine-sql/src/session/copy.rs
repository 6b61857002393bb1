//! COPY FROM STDIN in a session: it begins as a statement, continues with pieces, and ends when the client says so.
//!
//! It always runs in a block, in an implicit one if none is open ([`Session::begin_implicit`]). So whatever ends the
//! transaction ends the COPY, too.

use std::{collections::VecDeque, sync::Arc};

use super::{Completion, Prepared, Session, State, now, tree::Tree};
use crate::{
    catalog::{
        progress::{Command, Reporting},
        sessions::Party,
        statement_uses::StatementEntry,
    },
    copy::{CopyFrom, Insertion},
    error::{Result, SqlError, SqlState},
    exec::Run,
    memory::{Held, Memory},
    result::RowSink,
    types::Value,
};

/// A COPY FROM STDIN in progress.
pub(super) struct Copying {
    insertion: Insertion,
    /// Whether errors have no details, because the role may not read the table.
    hides_details: bool,
    /// Whether the COPY runs in an implicit block.
    is_alone: bool,
    /// The statements that follow the COPY, if it is one statement of a text.
    pub(super) rest: Option<VecDeque<Tree>>,
    /// The memory of the trees of these statements.
    pub(super) trees: Held,
    progress: Reporting,
    /// Its entry among the statements that are counted, and when it began.
    counted: (Option<Arc<StatementEntry>>, i64),
}

impl Copying {
    pub(super) fn new(
        from: Arc<CopyFrom>,
        memory: &Memory,
        party: &Party,
        hides_details: bool,
        uses: Option<Arc<StatementEntry>>,
    ) -> Self {
        let progress = Reporting::begin(party.footprint.clone(), Command::CopyFrom, from.relation(), 0);
        let insertion = Insertion::new(from, memory);
        let counted = (uses, now());
        Self { insertion, hides_details, is_alone: false, rest: None, trees: Held::default(), progress, counted }
    }
}

/// A COPY FROM STDIN in progress. When any part of it fails, the COPY has ended, and the rows it has inserted are
/// rolled back.
pub struct CopyIn<'s>(&'s mut Session);

impl Session {
    /// Returns the COPY FROM STDIN that waits for data, if there is one. Until it ends, the session can run nothing
    /// else.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use ermine::{Database, Options};
    /// # use ermine_sql::{RowSet, SqlDatabase};
    /// # let engine = Arc::new(Database::open_in_memory(Options::default())?);
    /// # let mut session = SqlDatabase::open(engine)?.session("ann", "shop");
    /// # let mut rows = RowSet::default();
    /// session.run("CREATE TABLE tea (id integer PRIMARY KEY, name text)", &mut rows)?;
    /// session.run("COPY tea FROM STDIN WITH (FORMAT csv)", &mut rows)?;
    /// for piece in ["1,gr", "een\n2,black\n"] {
    ///     session.copy_in().expect("it goes on").write(piece.as_bytes())?;
    /// }
    /// session.copy_in().expect("it goes on").finish(&mut rows)?.wait()?;
    /// session.run("COPY (SELECT name FROM tea ORDER BY id) TO STDOUT", &mut rows)?;
    /// assert_eq!(rows.copied, b"green\nblack\n");
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn copy_in(&mut self) -> Option<CopyIn<'_>> {
        self.is_copying().then_some(CopyIn(self))
    }

    /// Whether a COPY FROM STDIN is in progress ([`Session::copy_in`]).
    pub fn is_copying(&self) -> bool {
        self.copying.is_some()
    }

    pub(super) fn check_not_copying(&self) -> Result<()> {
        match self.copying {
            None => Ok(()),
            Some(_) => Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "COPY FROM STDIN is in progress")),
        }
    }

    /// Begins a COPY FROM outside of a block.
    pub(super) fn copy_alone(
        &mut self,
        prepared: &Arc<Prepared>,
        parameters: &[Value],
        rows: &mut dyn RowSink,
    ) -> Result<Completion> {
        self.begin_implicit();
        let done = self.execute_inside(prepared, parameters, rows);
        match (&done, &mut self.copying) {
            (Ok(_), Some(copying)) => copying.is_alone = true,
            // The block has failed already: this only discards it.
            _ => drop(self.end_implicit()),
        }
        done
    }

    /// Calls a function with the insertion in progress.
    fn with_insertion<T>(
        &mut self,
        copying: &mut Copying,
        each: impl FnOnce(&mut Insertion, &Run<'_>) -> Result<T>,
    ) -> Result<T> {
        let State::Block { active: Some(active), .. } = &mut self.state else {
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, "a COPY without a transaction"));
        };
        let mut run = Run::new(&active.txn, &active.catalog, &[], &self.environment, &self.given);
        (run.deferral, run.examines_again) = (active.deferral.clone(), active.examines_again());
        let done = each(&mut copying.insertion, &run);
        drop(run);
        copying.insertion.report(&copying.progress);
        self.given.get_mut().notes.settle();
        let owed = active.owe(&mut self.given.get_mut().claims, &self.environment.memory);
        let told = |error: SqlError| if copying.hides_details { error.without_detail() } else { error };
        done.and_then(|done| owed.map(|()| done)).map_err(|error| told(self.named(error)))
    }

    fn finish_copying(&mut self, rows: &mut dyn RowSink) -> Result<Completion> {
        let Some(mut copying) = self.copying.take() else { return Ok(Completion::default()) };
        let done = self.with_insertion(&mut copying, Insertion::finish);
        let count = done.map_err(|error| self.end_copying(&copying, error))?;
        self.affected = count;
        self.counts_copy(&copying, true);
        let tag = format!("COPY {count}");
        let Copying { is_alone, rest, progress, trees: _trees, .. } = *copying;
        drop(progress);
        if is_alone {
            let completion = self.end_implicit()?;
            rows.complete(&tag)?;
            return Ok(completion);
        }
        rows.complete(&tag)?;
        match rest {
            Some(rest) => self.several(None, rest, rows),
            None => Ok(Completion::default()),
        }
    }

    /// Counts a COPY that has ended.
    fn counts_copy(&self, copying: &Copying, is_ok: bool) {
        let (uses, began) = &copying.counted;
        self.counts_run(uses.as_deref(), (*began, now()), is_ok);
    }

    /// Fails the transaction after a failed COPY; the statements that follow the COPY are not run.
    fn end_copying(&mut self, copying: &Copying, error: SqlError) -> SqlError {
        let error = self.fail_with(error);
        self.counts_copy(copying, false);
        self.rests();
        if copying.is_alone || copying.rest.is_some() {
            // The block has failed already: this only discards it.
            drop(self.end_implicit());
        }
        error
    }
}

impl CopyIn<'_> {
    /// Consumes a piece of the data, of any length; rows may begin and end anywhere in it.
    pub fn write(self, piece: &[u8]) -> Result<()> {
        let Some(mut copying) = self.0.copying.take() else { return Ok(()) };
        match self.0.with_insertion(&mut copying, |insertion, run| insertion.push(piece, run)) {
            Ok(()) => {
                self.0.copying = Some(copying);
                Ok(())
            }
            Err(error) => Err(self.0.end_copying(&copying, error)),
        }
    }

    /// Ends the COPY after all data was written, and runs the statements that follow it in its text.
    pub fn finish(self, rows: &mut dyn RowSink) -> Result<Completion> {
        let Self(session) = self;
        let done = session.finish_copying(rows);
        session.rests();
        done
    }

    /// Fails the COPY at the client's request; returns the error that it has failed with.
    pub fn fail(self, reason: &str) -> SqlError {
        self.abort(SqlError::new(SqlState::QUERY_CANCELED, format!("COPY from stdin failed: {reason}")))
    }

    /// Ends the COPY with an error, to which it adds the place in the data.
    pub fn abort(self, error: SqlError) -> SqlError {
        let Some(copying) = self.0.copying.take() else { return error };
        let error = copying.insertion.placed(error);
        self.0.end_copying(&copying, error)
    }
}

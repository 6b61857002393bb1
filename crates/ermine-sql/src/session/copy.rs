//! COPY FROM STDIN in a session: it begins as a statement, goes on with pieces, and ends when the client says so.
//!
//! It is in a block always, in one of its own where there is none ([`Session::begin_implicit`]). So whatever ends the transaction ends it, too.

use std::{collections::VecDeque, sync::Arc};

use super::{Completion, Prepared, Rows, Session, State, parse::Tree};
use crate::{
    copy::{CopyFrom, Insertion},
    error::{Result, SqlError, SqlState},
    exec::Run,
    memory::{Held, Memory},
    types::Value,
};

/// A COPY FROM STDIN that goes on.
pub(super) struct Copying {
    insertion: Insertion,
    /// Whether its block is its own.
    is_alone: bool,
    /// The statements that come behind it, where it is one of a text.
    pub(super) rest: Option<VecDeque<Tree>>,
    /// The memory of their trees.
    pub(super) trees: Held,
}

impl Copying {
    pub(super) fn new(from: Arc<CopyFrom>, memory: &Memory) -> Self {
        Self { insertion: Insertion::new(from, memory), is_alone: false, rest: None, trees: Held::default() }
    }
}

/// A COPY FROM STDIN that goes on. When anything of it fails, it has ended, and what it has inserted is not there.
pub struct CopyIn<'s>(&'s mut Session);

impl Session {
    /// The COPY FROM STDIN that waits for what is to be copied, if there is one: then nothing else can be run.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use ermine::{Database, Options};
    /// # use ermine_sql::{Gathered, SqlDatabase};
    /// # let engine = Arc::new(Database::open_in_memory(Options::default())?);
    /// # let mut session = SqlDatabase::open(engine)?.session("ann", "shop");
    /// # let mut rows = Gathered::default();
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

    /// Whether [`Session::copy_in`] has something to copy into.
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
        rows: &mut dyn Rows,
    ) -> Result<Completion> {
        self.begin_implicit();
        let done = self.execute_inside(prepared, parameters, rows);
        match (&done, &mut self.copying) {
            (Ok(_), Some(copying)) => copying.is_alone = true,
            // Failed already: this only forgets it.
            _ => drop(self.end_implicit()),
        }
        done
    }

    /// Does something with the insertion that goes on.
    fn with_insertion<T>(
        &self,
        copying: &mut Copying,
        each: impl FnOnce(&mut Insertion, &Run<'_>) -> Result<T>,
    ) -> Result<T> {
        let State::Block { open: Some(open), .. } = &self.state else {
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, "a COPY without a transaction"));
        };
        let run = Run::new(&open.txn, &open.catalog, &[], &self.environment, &self.given);
        each(&mut copying.insertion, &run).map_err(|error| self.named(error))
    }

    fn finish_copying(&mut self, rows: &mut dyn Rows) -> Result<Completion> {
        let Some(mut copying) = self.copying.take() else { return Ok(Completion::default()) };
        let done = self.with_insertion(&mut copying, Insertion::finish);
        let count = done.map_err(|error| self.end_copying(&copying, error))?;
        let tag = format!("COPY {count}");
        if copying.is_alone {
            let completion = self.end_implicit()?;
            rows.complete(&tag)?;
            return Ok(completion);
        }
        rows.complete(&tag)?;
        match copying.rest {
            Some(rest) => self.several(None, rest, rows),
            None => Ok(Completion::default()),
        }
    }

    /// A COPY has failed, and with it the transaction; what comes behind it is not run.
    fn end_copying(&mut self, copying: &Copying, error: SqlError) -> SqlError {
        let error = self.fail_with(error);
        self.rests();
        if copying.is_alone || copying.rest.is_some() {
            // Failed already: this only forgets it.
            drop(self.end_implicit());
        }
        error
    }
}

impl CopyIn<'_> {
    /// A piece of what is to be copied, of any length; rows may begin and end anywhere in it.
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

    /// All of it was written. Whatever comes behind the COPY in its text is run now.
    pub fn finish(self, rows: &mut dyn Rows) -> Result<Completion> {
        let Self(session) = self;
        let done = session.finish_copying(rows);
        session.rests();
        done
    }

    /// It is not to be copied after all; gives the error that the COPY has failed with.
    pub fn fail(self, reason: &str) -> SqlError {
        self.abort(SqlError::new(SqlState::QUERY_CANCELED, format!("COPY from stdin failed: {reason}")))
    }

    /// Ends it with an error, to which it adds the place.
    pub fn abort(self, error: SqlError) -> SqlError {
        let Some(copying) = self.0.copying.take() else { return error };
        let error = copying.insertion.placed(error);
        self.0.end_copying(&copying, error)
    }
}

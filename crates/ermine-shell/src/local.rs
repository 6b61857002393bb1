//! Statements in this process.

use std::{
    io::{self, Read, Write},
    sync::{Arc, atomic::Ordering},
};

use ermine_sql::{
    Completion, CopyFormat, RowSink, Session, SqlDatabase, SqlError, SqlState, Status,
    types::{Environment, SqlType, Value, text, user_types::UserTypes},
};

use crate::statements::{Beside, Column, Ends, Failure, Reply, Standing, Statements, Table};

/// A session of a database that is open in this process.
pub struct Local {
    session: Session,
    database: SqlDatabase,
    user: String,
    /// The location of the database.
    place: String,
}

impl Local {
    /// Begins a session; `name` is the database's name, `place` its location.
    pub fn new(database: &SqlDatabase, user: &str, name: &str, place: &str) -> Self {
        let session = database.session(user, name);
        Self { session, database: database.clone(), user: user.to_owned(), place: place.to_owned() }
    }
}

impl Statements for Local {
    fn run(&mut self, text: &str, ends: Ends<'_>, replies: &mut Vec<Reply>) -> Result<(), Box<Failure>> {
        // Drop a cancellation that came too late for its statement.
        self.session.cancel().store(false, Ordering::Relaxed);
        let environment = self.session.environment().clone();
        let before = replies.len();
        let mut replying =
            Replying { environment, replies, sink: ends.sink, table: None, types: Vec::new(), is_copied_out: false };
        let mut completions = Vec::new();
        let mut done = self.session.simple_query(text, &mut replying);
        while let Ok(completion) = done {
            completions.push(completion);
            if !self.session.is_copying() {
                done = Ok(Completion::default());
                break;
            }
            done = copy_in(&mut self.session, ends.source, &mut replying);
        }
        for completion in completions {
            completion.wait().map_err(|error| {
                // The replies report changes that may not last.
                replies.truncate(before);
                failure("FATAL", &error)
            })?;
        }
        done.map(drop).map_err(|error| failure("ERROR", &error))
    }

    fn standing(&self) -> Standing {
        match self.session.status() {
            Status::Idle => Standing::Idle,
            Status::Open => Standing::Open,
            Status::Failed => Standing::Failed,
        }
    }

    fn canceller(&self) -> Box<dyn Fn() + Send> {
        let cancel = self.session.cancel();
        Box::new(move || cancel.store(true, Ordering::Relaxed))
    }

    fn reconnect(&mut self) -> Result<(), Box<Failure>> {
        // A session in this process is never lost.
        Ok(())
    }

    fn beside(&self) -> Beside {
        let (database, user, place) = (self.database.clone(), self.user.clone(), self.place.clone());
        let Environment { process, database: name, .. } = self.session.environment().clone();
        Beside { process, open: Box::new(move || Some(Box::new(Self::new(&database, &user, &name, &place)))) }
    }

    fn database(&self) -> &str {
        &self.session.environment().database
    }

    fn description(&self) -> String {
        let Environment { database, user, .. } = self.session.environment();
        format!("Database \"{database}\" is open in this process, from {}, as user \"{user}\".", self.place)
    }
}

/// Bytes that are copied in one piece.
const PIECE: usize = 64 << 10;

/// Runs a COPY FROM STDIN to its end.
fn copy_in(session: &mut Session, source: &mut dyn Read, rows: &mut dyn RowSink) -> ermine_sql::Result<Completion> {
    let mut piece = vec![0; PIECE];
    loop {
        let read = source.read(&mut piece);
        let Some(copy) = session.copy_in() else { return Ok(Completion::default()) };
        match read {
            Ok(0) => return copy.finish(rows),
            Ok(length) => copy.write(&piece[..length])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(copy.fail(&error.to_string())),
        }
    }
}

/// Turns the rows of statements into replies.
struct Replying<'r> {
    environment: Environment,
    replies: &'r mut Vec<Reply>,
    /// Receives the data that is copied out.
    sink: &'r mut dyn Write,
    is_copied_out: bool,
    /// The rows of the running statement.
    table: Option<Table>,
    types: Vec<SqlType>,
}

impl RowSink for Replying<'_> {
    fn types(&mut self, types: &Arc<UserTypes>) {
        self.environment.types.clone_from(types);
    }

    fn columns(&mut self, columns: &[ermine_sql::Column]) -> ermine_sql::Result<()> {
        self.types = columns.iter().map(|column| column.ty).collect();
        let columns = columns.iter().map(|column| Column::new(&column.name, column.ty.oid()));
        self.table = Some(Table { columns: columns.collect(), rows: Vec::new() });
        Ok(())
    }

    fn row(&mut self, values: &[Value]) -> ermine_sql::Result<()> {
        let text = |(value, ty): (&Value, &SqlType)| {
            (!value.is_null()).then(|| text::to_string(value, *ty, &self.environment))
        };
        let row = values.iter().zip(&self.types).map(text).collect();
        self.table.get_or_insert_default().rows.push(row);
        Ok(())
    }

    fn copy_out(&mut self, _: CopyFormat) -> ermine_sql::Result<()> {
        self.is_copied_out = true;
        Ok(())
    }

    fn copy_data(&mut self, piece: &[u8]) -> ermine_sql::Result<()> {
        let write = self.sink.write_all(piece);
        write.map_err(|error| SqlError::new(SqlState::IO_ERROR, format!("could not write what is copied: {error}")))
    }

    fn copy_in(&mut self, _: CopyFormat) -> ermine_sql::Result<()> {
        Ok(())
    }

    fn complete(&mut self, tag: &str) -> ermine_sql::Result<()> {
        let tag = tag.to_owned();
        self.replies.push(match std::mem::take(&mut self.is_copied_out) {
            true => Reply::CopiedOut { tag },
            false => Reply::Done { table: self.table.take(), tag },
        });
        Ok(())
    }

    fn notice(&mut self, severity: &'static str, notice: &SqlError) {
        self.replies.push(Reply::Notice(failure(severity, notice)));
    }

    fn take_back(&mut self) -> bool {
        if let Some(table) = &mut self.table {
            table.rows.clear();
        }
        // Data that was copied out cannot be recalled.
        !self.is_copied_out
    }
}

fn failure(severity: &str, error: &SqlError) -> Box<Failure> {
    let report = error.report();
    Box::new(Failure {
        severity: severity.to_owned(),
        state: report.state.0.to_owned(),
        message: report.message.clone(),
        detail: report.detail.clone(),
        hint: report.hint.clone(),
        context: report.context.clone(),
        position: report.position,
    })
}

#[cfg(test)]
mod tests {
    use std::{io, sync::Arc, thread, time::Duration};

    use super::*;

    fn local() -> Local {
        let database = ermine::Database::open_in_memory(ermine::Options::default()).unwrap();
        Local::new(&SqlDatabase::open(Arc::new(database)).unwrap(), "ann", "shop", "memory")
    }

    fn run(local: &mut Local, text: &str) -> (Result<(), Box<Failure>>, Vec<Reply>) {
        let mut replies = Vec::new();
        let ends = Ends { source: &mut io::empty(), sink: &mut io::sink() };
        (local.run(text, ends, &mut replies), replies)
    }

    #[test]
    fn statements_are_answered() {
        let mut local = local();
        let (done, replies) = run(
            &mut local,
            "CREATE TABLE t (a integer); INSERT INTO t VALUES (1), (NULL); COMMIT; SELECT * FROM t; SELECT 1/0",
        );
        assert_eq!(done.unwrap_err().state, "22012");
        let tags = replies.iter().map(|reply| match reply {
            Reply::Done { tag, .. } => &**tag,
            Reply::CopiedOut { tag } => &**tag,
            Reply::Notice(notice) => &*notice.severity,
        });
        assert_eq!(tags.collect::<Vec<_>>(), ["CREATE TABLE", "INSERT 0 2", "COMMIT", "SELECT 2"]);
        let Some(Reply::Done { table: Some(table), .. }) = replies.last() else { panic!("{replies:?}") };
        assert!(table.columns[0].is_number);
        assert_eq!(table.rows, [[Some("1".to_owned())], [None]]);
        assert_eq!(local.standing(), Standing::Idle);
        run(&mut local, "BEGIN").0.unwrap();
        assert_eq!(local.standing(), Standing::Open);
        run(&mut local, "nonsense").0.unwrap_err();
        assert_eq!(local.standing(), Standing::Failed);
    }

    #[test]
    fn a_statement_is_cancelled_and_the_next_is_not() {
        let mut local = local();
        run(&mut local, "CREATE TABLE n (a integer); INSERT INTO n SELECT * FROM generate_series(1, 2000)").0.unwrap();
        let cancel = local.canceller();
        let cancelling = thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            cancel();
            cancel
        });
        let failure = run(&mut local, "SELECT count(*) FROM n a, n b, n c WHERE a.a + b.a + c.a = 0").0.unwrap_err();
        assert_eq!(failure.state, "57014");
        // The cancellation is too late for that statement, and must not affect the next.
        cancelling.join().unwrap()();
        run(&mut local, "SELECT count(*) FROM n").0.unwrap();
    }
}

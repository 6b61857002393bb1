//! `ermined import`: a PostgreSQL database becomes tables of a database that is not being served.
//!
//! `pg_dump` writes the definitions and the rows as a text, which is run statement by statement in this process, as it
//! comes. A text that goes through `psql` to a server does the same; this adds that
//!
//! 1. all definitions are tried first, in a transaction that is rolled back, so that an import that is refused changes
//!    nothing;
//! 2. rows are committed part by part, so that memory does not grow with the rows of a table;
//! 3. primary keys are created before the rows, because rows are stored under them: after the rows, a key writes the
//!    whole table anew in one transaction. Other indexes and constraints come after the rows, as in the text;
//! 4. the rows of each table are counted in the end, and compared with those that were read.

mod progress;
mod script;
mod source;
mod target;

use std::{
    collections::{HashMap, HashSet},
    io::{self, BufRead, BufReader, Read},
    path::Path,
    sync::Arc,
    time::Instant,
};

use ermine::Database;
use ermine_sql::SqlDatabase;

use self::{
    progress::{Progress, mebibytes},
    script::{Item, Rows, Script},
    source::{Overview, Source},
    target::{Refused, Target, Tried, shortened},
};
use crate::{Failure, arguments::Import, check_exists, failed, options_in, standard_output::Stdout};

/// Bytes of rows that are committed together.
const PART: u64 = 4 << 20;

pub fn import(arguments: &Import) -> Result<(), Failure> {
    let Import { source, dir, create, skip_unsupported, owners, pg_bin, engine } = arguments;
    let began = Instant::now();
    if !create {
        check_exists(dir)?;
    }
    let source = Source::new(source, pg_bin.as_deref())?;
    // Before a database is made.
    let Overview { rows: estimates, large_objects } = source.overview()?;
    let database = Arc::new(Database::open(dir, options_in(dir, engine)?).map_err(failed)?);
    let mut target = Target::new(&SqlDatabase::open(database.clone()).map_err(failed)?);
    let options: &[_] = if *owners { &[] } else { &["--no-owner", "--no-privileges"] };

    let Tried { refused, keys } = tried(&source, options, &mut target)?;
    let (settings, refused): (Vec<_>, Vec<_>) = refused.into_iter().partition(Refused::is_setting);
    check(&refused, large_objects, *skip_unsupported, dir)?;

    let mut load = Load {
        progress: Progress::new(estimates.len()),
        target,
        estimates,
        skipped: settings.iter().chain(&refused).map(|refused| refused.statement.clone()).collect(),
        left_out: refused,
        keys,
        tables: Vec::new(),
        bytes: 0,
        is_committed: false,
    };
    let done = load.load(&source, options).and_then(|()| load.compare());
    let Load { progress, left_out, tables, bytes, is_committed, .. } = load;
    // What it shows is cleared.
    drop(progress);
    done.map_err(|failure| if is_committed { incomplete(failure, tables.len(), dir) } else { failure })?;
    database.checkpoint().map_err(failed)?;
    left_out.iter().for_each(|refused| eprintln!("left out: {refused}"));
    if large_objects > 0 {
        eprintln!("left out: {large_objects} large objects");
    }
    let rows: u64 = tables.iter().map(|(_, rows)| rows).sum();
    writeln!(
        Stdout,
        "{}: {} tables, {rows} rows, {:.1} MiB in {:.1?}",
        dir.display(),
        tables.len(),
        mebibytes(bytes),
        began.elapsed()
    )
}

/// Tries the definitions of the source.
fn tried(source: &Source, options: &[&str], target: &mut Target) -> Result<Tried, Failure> {
    let mut dump = source.dump(&[options, &["--section=pre-data", "--section=post-data"]].concat())?;
    let tried = target.try_all(&mut Script::new(BufReader::new(dump.output())))?;
    dump.finish()?;
    Ok(tried)
}

/// Fails if something is refused that may not be left out, and lists it.
fn check(refused: &[Refused], large_objects: u64, skip_unsupported: bool, dir: &Path) -> Result<(), Failure> {
    let existing: Vec<_> = refused.iter().filter(|refused| refused.exists()).collect();
    if !existing.is_empty() {
        existing.iter().for_each(|refused| eprintln!("refused: {refused}"));
        let what = format!("{} has objects of the same names as the source: nothing was imported", dir.display());
        return Err(Failure::Usage(format!("{what}; drop them, or import into another directory")));
    }
    let count = refused.len() + usize::from(large_objects > 0);
    if count == 0 || skip_unsupported {
        return Ok(());
    }
    refused.iter().for_each(|refused| eprintln!("refused: {refused}"));
    if large_objects > 0 {
        eprintln!("refused: {large_objects} large objects");
    }
    let roles = match refused.iter().any(Refused::needs_role) {
        true => "; missing roles are created before, as `pg_dumpall --roles-only` writes them",
        false => "",
    };
    let what = format!("refused definitions of the source, listed above: {count}; nothing was imported");
    Err(Failure::Failed(format!("{what}; --skip-unsupported leaves them out{roles}")))
}

/// Returns a failure with what it leaves behind.
fn incomplete(failure: Failure, tables: usize, dir: &Path) -> Failure {
    let dir = dir.display();
    let left = format!("{dir} has the definitions, and rows of {tables} tables, not all of them");
    match failure {
        Failure::Failed(reason) => {
            Failure::Failed(format!("{reason}\n{left}: before another import, drop the tables, or remove {dir}"))
        }
        failure => failure,
    }
}

/// The second part of an import: definitions and rows.
struct Load {
    target: Target,
    progress: Progress,
    estimates: HashMap<String, u64>,
    /// Statements that are not run when they come: those that are refused, and those that were run before.
    skipped: HashSet<String>,
    /// Definitions that are refused, and then the COPY and `setval` of tables and sequences that are missing therefore.
    left_out: Vec<Refused>,
    /// The statements that create primary keys.
    keys: Vec<String>,
    /// The tables that were begun, with the number of rows that were read.
    tables: Vec<(String, u64)>,
    bytes: u64,
    /// Whether the target has changed.
    is_committed: bool,
}

impl Load {
    fn load(&mut self, source: &Source, options: &[&str]) -> Result<(), Failure> {
        let mut dump = source.dump(options)?;
        let mut script = Script::new(BufReader::with_capacity(1 << 18, dump.output()));
        self.target.run("BEGIN").map_err(failed)?;
        let done = self.run_all(&mut script);
        match done {
            // The source goes on: its dump is ended.
            Err(failure) if !script.is_cut() => return Err(failure),
            done => dump.finish().and(done)?,
        }
        if script.is_cut() {
            return Err(Failure::Failed("the dump of the source is not complete".into()));
        }
        self.begin_data()
    }

    fn run_all(&mut self, script: &mut Script<impl BufRead>) -> Result<(), Failure> {
        while let Some(item) = script.next().map_err(failed)? {
            match item {
                Item::Statement(statement) if self.skipped.contains(&statement) => {}
                Item::Statement(statement) => {
                    if statement.starts_with("SELECT pg_catalog.setval(") {
                        self.begin_data()?;
                    }
                    let target = &mut self.target;
                    let done = self.progress.statement(&shortened(&statement), || target.run(&statement));
                    done.or_else(|reason| self.leave_out(Refused { statement, reason }))?;
                }
                Item::Copy { table, statement } => {
                    self.begin_data()?;
                    self.copy(table, &statement, script)?;
                }
            }
        }
        Ok(())
    }

    fn copy(&mut self, table: String, statement: &str, script: &mut Script<impl BufRead>) -> Result<(), Failure> {
        self.progress.begin_table(&table, self.estimates.get(&table).copied());
        let at = self.tables.len();
        self.tables.push((table, 0));
        while script.has_rows() {
            let mut rows = Counted { rows: script.rows(PART), progress: &mut self.progress };
            let done = self.target.copy(statement, &mut rows);
            let Counted { rows: Rows { rows, bytes, .. }, .. } = rows;
            self.tables[at].1 += rows;
            self.bytes += bytes;
            if let Err(reason) = done {
                self.leave_out(Refused { statement: statement.to_owned(), reason })?;
                self.tables.pop();
                io::copy(&mut script.rows(u64::MAX), &mut io::sink()).map_err(failed)?;
                return Ok(());
            }
        }
        self.progress.end_table();
        Ok(())
    }

    /// Ends the transaction of the definitions that come before the rows.
    fn begin_data(&mut self) -> Result<(), Failure> {
        if self.is_committed {
            return Ok(());
        }
        for key in self.keys.drain(..) {
            self.target.run(&key).map_err(failed)?;
            self.skipped.insert(key);
        }
        self.target.run("COMMIT").map_err(failed)?;
        self.is_committed = true;
        Ok(())
    }

    /// Leaves out a statement that has failed, if that follows from definitions that were left out.
    fn leave_out(&mut self, refused: Refused) -> Result<(), Failure> {
        if self.left_out.is_empty() || !refused.lacks_table() {
            return Err(failed(refused));
        }
        self.left_out.push(refused);
        Ok(())
    }

    /// Compares the numbers of rows with those that were read.
    fn compare(&mut self) -> Result<(), Failure> {
        for (table, rows) in &self.tables {
            let counting = format!("counting the rows of {table}");
            let count = self.progress.statement(&counting, || self.target.count(table)).map_err(failed)?;
            if count != *rows {
                return Err(Failure::Failed(format!("{table} has {count} rows, and the source {rows}")));
            }
        }
        Ok(())
    }
}

/// Rows whose number is reported.
struct Counted<'c, R> {
    rows: Rows<'c, R>,
    progress: &'c mut Progress,
}

impl<R: BufRead> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (rows, bytes) = (self.rows.rows, self.rows.bytes);
        let length = self.rows.read(buffer);
        self.progress.count(self.rows.rows - rows, self.rows.bytes - bytes);
        length
    }
}

//! `ermined upgrade`.

use std::sync::Arc;

use ermine::Database;
use ermine_sql::SqlDatabase;

use crate::{Failure, arguments::Closed, check_exists, failed, options_in, standard_output::Stdout, verify::verify};

/// Verifies the directory before anything is written, so that damage is not taken for a fault of this version.
pub fn upgrade(closed: &Closed) -> Result<(), Failure> {
    check_exists(&closed.dir)?;
    write!(Stdout, "before: ")?;
    verify(closed)?;
    write(closed)?;
    write!(Stdout, "after: ")?;
    verify(closed)?;
    writeln!(Stdout, "{} is ready for ermined {}", closed.dir.display(), env!("CARGO_PKG_VERSION"))
}

/// Opens the database, which completes its catalog, and leaves a checkpoint, and no log to be replayed.
fn write(Closed { dir, engine }: &Closed) -> Result<(), Failure> {
    let database = Arc::new(Database::open(dir, options_in(dir, engine)?).map_err(failed)?);
    writeln!(Stdout, "opened: {}", database.recovery())?;
    SqlDatabase::open(database.clone()).map_err(failed)?;
    let written = database.checkpoint().map_err(failed)?;
    writeln!(Stdout, "written: a checkpoint of {} rows in {:.1?}", written.rows, written.took)
}

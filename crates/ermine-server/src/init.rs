//! `ermined init`.

use std::sync::Arc;

use ermine::{Database, Options};
use ermine_sql::SqlDatabase;

use crate::{Failure, arguments::Init, failed};

pub fn init(Init { dir, scheme }: &Init) -> Result<(), Failure> {
    if Database::exists(dir) {
        return Err(Failure::Usage(format!("there is a database in {} already", dir.display())));
    }
    let database = Database::open(dir, Options::default().scheme(*scheme)).map_err(failed)?;
    SqlDatabase::open(Arc::new(database)).map_err(failed)?;
    println!("a new database is in {}", dir.display());
    Ok(())
}

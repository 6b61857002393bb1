//! `ermined init`.

use std::{fs::OpenOptions, io::Write as _, sync::Arc};

use ermine::{Database, Options};
use ermine_sql::SqlDatabase;

use crate::{Failure, arguments::Init, configuration, failed, standard_output::Stdout};

pub fn init(Init { dir, scheme, config }: &Init) -> Result<(), Failure> {
    if Database::exists(dir) {
        return Err(Failure::Usage(format!("there is a database in {} already", dir.display())));
    }
    let database = Database::open(dir, Options::default().scheme(*scheme)).map_err(failed)?;
    SqlDatabase::open(Arc::new(database)).map_err(failed)?;
    if *config {
        let path = configuration::file_in(dir);
        let mut file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(failed)?;
        file.write_all(configuration::commands::template().as_bytes()).map_err(failed)?;
    }
    writeln!(Stdout, "a new database is in {}", dir.display())
}

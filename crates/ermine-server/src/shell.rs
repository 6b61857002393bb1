//! `ermined shell`.

use std::{
    env,
    io::{self, IsTerminal as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use ermine::Database;
use ermine_shell::{Connected, Local, Statements, Target};
use ermine_sql::SqlDatabase;

use crate::{Failure, arguments::Shell, check_exists, failed, options_in};

/// The name of the shell's sessions, unless PGAPPNAME has another one.
const APPLICATION: &str = "ermined shell";

pub fn shell(arguments: &Shell) -> Result<(), Failure> {
    let statements: Box<dyn Statements> = match (&arguments.connect, &arguments.dir) {
        (Some(text), _) => {
            let target = Target::new(text, variable).map_err(Failure::Usage)?.for_application(APPLICATION);
            Box::new(Connected::open(target).map_err(|failure| Failure::Failed(failure.to_string()))?)
        }
        (None, Some(dir)) => {
            if !arguments.create {
                check_exists(dir)?;
            }
            let database = Arc::new(Database::open(dir, options_in(dir, &arguments.engine)?).map_err(failed)?);
            Box::new(local(&SqlDatabase::open(database).map_err(failed)?, dir))
        }
        (None, None) => return Err(Failure::Usage("a directory is wanted, or --connect".into())),
    };
    match ermine_shell::run(statements, arguments.task(history()), io::stdin().is_terminal()) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Failure::Told),
        Err(error) => Err(failed(error)),
    }
}

fn local(database: &SqlDatabase, dir: &Path) -> Local {
    let user = variable("PGUSER").or_else(|| variable("USER")).unwrap_or_else(|| "ermine".to_owned());
    let place = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let name = place.file_name().map_or("ermine".into(), |name| name.to_string_lossy());
    Local::new(database, &user, &name, &place.display().to_string())
}

/// Returns the file for typed lines: `ERMINE_HISTORY`, which may be empty for none, or a file where the XDG rules want
/// it.
fn history() -> Option<PathBuf> {
    if let Some(path) = env::var_os("ERMINE_HISTORY") {
        return (!path.is_empty()).then(|| path.into());
    }
    let state = env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|state| state.is_absolute());
    let state = state.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".local/state")))?;
    Some(state.join("ermine/history"))
}

/// Returns a variable of the environment that is not empty.
pub fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

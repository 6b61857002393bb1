//! `ermined user`: the statements about users, for an operator who has no session yet.

use std::{
    io::{self, IsTerminal as _},
    sync::Arc,
};

use ermine::Database;
use ermine_sql::{RowSet, Session, SqlDatabase, SqlError, SqlState, verifier::Verifier};

use crate::{Failure, arguments::Place, check_exists, failed, options_in, standard_output::Stdout};

pub fn add(name: &str, place: &Place) -> Result<(), Failure> {
    let mut session = open(place)?;
    let password = password(name).map_err(failed)?;
    if password.is_empty() {
        return Err(Failure::Usage("a password cannot be empty".into()));
    }
    let what = format!("USER {} PASSWORD '{}'", quoted(name), Verifier::of(&password));
    // The operator's users may do everything: the first one has to be able to make others.
    let made = run(&mut session, &format!("CREATE {what} SUPERUSER"));
    let is_known = made.as_ref().is_err_and(|error| error.state() == SqlState::DUPLICATE_OBJECT);
    if is_known { run(&mut session, &format!("ALTER {what}")) } else { made }.map_err(failed)?;
    writeln!(Stdout, "{name} {}", if is_known { "has another password" } else { "may log in" })
}

pub fn drop(name: &str, place: &Place) -> Result<(), Failure> {
    run(&mut open(place)?, &format!("DROP USER {}", quoted(name))).map_err(failed)?;
    writeln!(Stdout, "{name} is gone")
}

pub fn list(place: &Place) -> Result<(), Failure> {
    let text = "SELECT rolname FROM pg_roles WHERE oid >= 16384 ORDER BY rolname";
    let names = run(&mut open(place)?, text).map_err(failed)?;
    names.texts().concat().iter().try_for_each(|name| writeln!(Stdout, "{name}"))
}

/// Opens a session without a user.
fn open(place: &Place) -> Result<Session, Failure> {
    let Place { dir, engine } = place;
    check_exists(dir)?;
    let database = Database::open(dir, options_in(dir, engine)?).map_err(|error| {
        let in_use = if error.to_string().contains(" is in use by ") {
            "; if that is a server, say CREATE USER, ALTER USER or DROP USER in a session there"
        } else {
            ""
        };
        Failure::Failed(format!("{error}{in_use}"))
    })?;
    Ok(SqlDatabase::open(Arc::new(database)).map_err(failed)?.session("", ""))
}

fn run(session: &mut Session, text: &str) -> Result<RowSet, SqlError> {
    let mut gathered = RowSet::default();
    session.run(text, &mut gathered)?;
    Ok(gathered)
}

/// Returns a name as statements write it.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn password(name: &str) -> io::Result<String> {
    if io::stdin().is_terminal() {
        let password = rpassword::prompt_password(format!("Password of {name}: "))?;
        if rpassword::prompt_password("Once more: ")? != password {
            return Err(io::Error::other("the passwords differ"));
        }
        return Ok(password);
    }
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    Ok(line.trim_end_matches(['\n', '\r']).to_owned())
}

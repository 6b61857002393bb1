//! `ermined user`.

use std::{
    io::{self, IsTerminal as _},
    path::Path,
};

use ermine_server::auth::{UserFile, Verifier};

use crate::{Failure, failed};

pub fn add(name: &str, dir: &Path) -> Result<(), Failure> {
    if !dir.is_dir() {
        return Err(Failure::Usage(format!("{} is no directory", dir.display())));
    }
    let password = password(name).map_err(failed)?;
    if password.is_empty() {
        return Err(Failure::Usage("a password cannot be empty".into()));
    }
    let is_new = UserFile::of(dir).set(name, Verifier::of(&password)).map_err(failed)?;
    println!("{name} {}", if is_new { "may log in" } else { "has another password" });
    Ok(())
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

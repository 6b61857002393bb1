//! Texts in the user's editor.

use std::{
    env, fs,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    process::Command,
    time::{Duration, SystemTime},
};

/// The time by which a new file is made older, so that writing it always changes its time.
const AGE: Duration = Duration::from_secs(2);

/// Has a text edited in a temporary file; returns the text, or nothing if the user did not write the file.
pub fn text(text: &str) -> io::Result<Option<String>> {
    let path = env::temp_dir().join(format!("ermine.edit.{}.sql", std::process::id()));
    // No other user can read it, and it is not the link of another user.
    let mut temporary = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    let begin = if text.is_empty() { String::new() } else { format!("{text}\n") };
    let written = temporary.write_all(begin.as_bytes());
    let written = written.and_then(|()| temporary.set_modified(SystemTime::now() - AGE));
    let edited = written.and_then(|()| file(&path));
    fs::remove_file(&path)?;
    edited
}

/// Has a file edited, which need not exist yet; returns its text, or nothing if the user did not write it.
pub fn file(path: &Path) -> io::Result<Option<String>> {
    let editor = ["PSQL_EDITOR", "EDITOR", "VISUAL"].into_iter().filter_map(|name| env::var(name).ok());
    let editor = editor.into_iter().find(|editor| !editor.trim().is_empty()).unwrap_or_else(|| "vi".to_owned());
    let state = || fs::metadata(path).and_then(|file| Ok((file.len(), file.modified()?))).ok();
    let before = state();
    // The editor may have arguments.
    let status = Command::new("sh").arg("-c").arg(format!("exec {editor} \"$1\"")).arg("sh").arg(path).status()?;
    if !status.success() {
        return Err(io::Error::other(format!("{editor}: {status}")));
    }
    let after = state();
    if after == before {
        return Ok(None);
    }
    fs::read_to_string(path)
        .map(Some)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

//! Lines that a user types, with editing and history.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use rustyline::{Config, DefaultEditor, error::ReadlineError};

use super::Line;

/// Number of statements that are remembered.
const REMEMBERED: usize = 2000;

/// The terminal of a user.
pub struct Terminal {
    editor: DefaultEditor,
    /// The file of the history.
    history: Option<PathBuf>,
}

impl Terminal {
    /// Opens the terminal with the history in a file, which need not exist yet.
    pub fn new(history: Option<PathBuf>) -> io::Result<Self> {
        let config =
            Config::builder().max_history_size(REMEMBERED).map_err(failure)?.history_ignore_space(true).build();
        let mut editor = DefaultEditor::with_config(config).map_err(failure)?;
        if let Some(path) = &history {
            match editor.load_history(path) {
                Err(ReadlineError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                    // If the directory cannot be made, saving the history reports it.
                    let _ = path.parent().map_or(Ok(()), fs::create_dir_all);
                }
                loaded => complain(path, loaded),
            }
        }
        Ok(Self { editor, history })
    }

    pub(super) fn next(&mut self, prompt: &str) -> io::Result<Line> {
        match self.editor.readline(prompt) {
            Ok(line) => Ok(Line::Text(line)),
            Err(ReadlineError::Interrupted) => Ok(Line::Interrupted),
            Err(ReadlineError::Eof) => Ok(Line::End),
            Err(error) => Err(failure(error)),
        }
    }

    pub(super) fn remember(&mut self, text: &str) {
        // The editor does not keep a text that is too long, or begins with a blank, either.
        if ermine_sql::password_in(text).is_none() {
            let _ = self.editor.add_history_entry(text);
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some(path) = &self.history {
            complain(path, self.editor.append_history(path));
        }
    }
}

fn complain(path: &Path, done: rustyline::Result<()>) {
    if let Err(error) = done {
        eprintln!("the history in {}: {error}", path.display());
    }
}

fn failure(error: ReadlineError) -> io::Error {
    match error {
        ReadlineError::Io(error) => error,
        other => io::Error::other(other),
    }
}

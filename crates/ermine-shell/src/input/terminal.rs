//! Lines that a user types, with editing and history.

use std::{
    cell::RefCell,
    fs, io,
    path::{Path, PathBuf},
    rc::Rc,
};

use rustyline::{ColorMode, CompletionType, Config, Editor, error::ReadlineError, history::DefaultHistory};

use super::{
    Line, Prompt,
    assistant::{Assistant, Begun},
};
use crate::{
    output::{Screen, style},
    statements::Statements,
};

/// Number of statements that are remembered.
const REMEMBERED: usize = 2000;

/// The terminal of a user.
pub struct Terminal {
    editor: Editor<Assistant, DefaultHistory>,
    /// The file of the history.
    history: Option<PathBuf>,
}

impl Terminal {
    /// Opens the terminal with the history in a file, which need not exist yet. The statements are used to complete
    /// names, `commands` are the names of commands.
    pub fn new(
        history: Option<PathBuf>,
        statements: Rc<RefCell<Box<dyn Statements>>>,
        commands: &'static [&'static str],
    ) -> io::Result<Self> {
        let config = Config::builder().max_history_size(REMEMBERED).map_err(failure)?.history_ignore_space(true);
        let config = config.completion_type(CompletionType::List);
        let config = config.color_mode(if style::are_wanted() { ColorMode::Enabled } else { ColorMode::Disabled });
        let mut editor = Editor::with_config(config.build()).map_err(failure)?;
        editor.set_helper(Some(Assistant::new(statements, commands)));
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

    pub(super) fn next(&mut self, prompt: &Prompt<'_>) -> io::Result<Line> {
        if let Some(assistant) = self.editor.helper_mut() {
            assistant.begin(Begun { before: prompt.before.map(str::to_owned), style: prompt.style });
        }
        match self.editor.readline(&*prompt.text) {
            Ok(line) => Ok(Line::Text(line)),
            Err(ReadlineError::Interrupted) => Ok(Line::Interrupted),
            Err(ReadlineError::Eof) => Ok(Line::End),
            Err(error) => Err(failure(error)),
        }
    }

    pub(super) fn screen(&mut self) -> Option<Screen> {
        let (columns, rows) = self.editor.dimensions()?;
        let screen = Screen { columns: columns.into(), rows: rows.into(), has_colors: style::are_wanted() };
        (columns > 0).then_some(screen)
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

//! What the editor of lines asks for while a user types: completion, and the color of the prompt.

use std::{
    borrow::Cow,
    cell::{Cell, RefCell},
    rc::Rc,
};

use rustyline::{
    Context, Helper,
    completion::{Completer, FilenameCompleter, Pair},
    highlight::Highlighter,
    hint::Hinter,
    validate::Validator,
};

use super::complete::{Completion, Names, complete};
use crate::{output::style::Style, statements::Statements};

/// Answers the editor.
pub struct Assistant {
    statements: Rc<RefCell<Box<dyn Statements>>>,
    /// The names of the commands.
    commands: &'static [&'static str],
    names: RefCell<Names>,
    /// Whether the names were read since the line was begun.
    is_read: Cell<bool>,
    files: FilenameCompleter,
    line: Begun,
}

/// The line that is being typed.
pub struct Begun {
    /// The lines of the statement before it; `None` in data that is copied.
    pub before: Option<String>,
    /// The style of its prompt.
    pub style: Style,
}

impl Assistant {
    /// Returns an assistant that reads names with these statements.
    pub fn new(statements: Rc<RefCell<Box<dyn Statements>>>, commands: &'static [&'static str]) -> Self {
        Self {
            statements,
            commands,
            names: RefCell::default(),
            is_read: Cell::new(false),
            files: FilenameCompleter::new(),
            line: Begun { before: None, style: Style::Bold },
        }
    }

    /// Begins a line.
    pub fn begin(&mut self, line: Begun) {
        self.is_read.set(false);
        self.line = line;
    }

    fn read_names(&self) {
        // The session is in use while data is copied.
        if !self.is_read.replace(true)
            && let Ok(mut statements) = self.statements.try_borrow_mut()
            && let Some(names) = Names::read(&mut **statements)
        {
            self.names.replace(names);
        }
    }
}

impl Completer for Assistant {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, context: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let pair = |text: String| Pair { display: text.trim_end().to_owned(), replacement: text };
        let Some(before) = &self.line.before else {
            // Columns of copied data are separated by tabs.
            return Ok((at, vec![Pair { display: String::new(), replacement: "\t".to_owned() }]));
        };
        self.read_names();
        match complete(before, line, at, &self.names.borrow(), self.commands) {
            Completion::Texts(begin, texts) => Ok((begin, texts.into_iter().map(pair).collect())),
            Completion::File => self.files.complete(line, at, context),
        }
    }
}

impl Highlighter for Assistant {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _: bool) -> Cow<'b, str> {
        // The editor asks only if there are colors.
        self.line.style.paint(prompt, true).into()
    }
}

impl Hinter for Assistant {
    type Hint = String;
}

impl Validator for Assistant {}

impl Helper for Assistant {}

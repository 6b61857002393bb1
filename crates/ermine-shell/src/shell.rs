//! The shell itself: takes statements and commands from lines, has them run, and shows their results.
//!
//! Rows and tags go to the output, everything else to the standard error. Nothing of a statement is shown before it has
//! ended, so that nothing is shown that may not last.

use std::{
    cell::RefCell,
    io::{self, IsTerminal as _, Read, Write},
    path::{Path, PathBuf},
    rc::Rc,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use signal_hook::{consts::SIGINT, iterator::Signals};

use crate::{
    building, commands,
    input::{
        Inline, Line, Lines, Prompt, Terminal,
        split::{Piece, Splitter},
    },
    meter::Metered,
    output::{Destination, Frame, Layout, Paged, Paging, Screen, pager, pager_shows_colors, style, style::Style},
    report,
    statements::{Ends, Failure, Reply, Standing, Statements, Table},
};

/// The task of a shell.
#[derive(Default)]
pub struct Task {
    /// Steps to run instead of typed lines.
    pub steps: Vec<Step>,
    /// Whether a script goes on after a failure.
    pub goes_on: bool,
    /// The layout of rows.
    pub layout: Layout,
    /// Whether tags and reports about settings are left out.
    pub is_quiet: bool,
    /// The file of the history.
    pub history: Option<PathBuf>,
}

/// A part of a task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// A text, sent unchanged; or a command.
    Text(String),
    /// Statements and commands of a file; `-` is the standard input.
    File(PathBuf),
}

/// How a statement or command ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It succeeded.
    Done,
    /// It failed, and the failure was reported.
    Failed,
    /// It has replaced the statement that is being typed by another text.
    Edited,
    /// The shell is to end.
    Quit,
}

/// Maximum depth of files that run files.
const DEPTH: usize = 32;

/// A shell.
pub struct Shell {
    /// Shared with the completion of what is being typed.
    statements: Rc<RefCell<Box<dyn Statements>>>,
    pub(crate) layout: Layout,
    pub(crate) has_timing: bool,
    pub(crate) is_quiet: bool,
    /// The text of the statement that ran last.
    pub(crate) previous: String,
    /// The user's terminal.
    screen: Option<Screen>,
    /// The line above results.
    pub(crate) title: Option<String>,
    /// The key without which no commands run (`\\restrict`), so that text of a dump cannot run any.
    pub(crate) restriction: Option<String>,
    goes_on: bool,
    output: Destination,
    /// Whether Ctrl-C was pressed since the last statement began.
    interrupted: Arc<AtomicBool>,
    /// Ends the running statement.
    canceller: Arc<Mutex<Box<dyn Fn() + Send>>>,
    depth: usize,
}

/// Runs the task's steps, or else lines that are typed or come from a pipe; returns whether all of it succeeded.
pub fn run(statements: Box<dyn Statements>, task: Task, is_typed: bool) -> io::Result<bool> {
    let canceller = Arc::new(Mutex::new(statements.canceller()));
    let mut shell = Shell {
        statements: Rc::new(RefCell::new(statements)),
        layout: task.layout,
        has_timing: false,
        is_quiet: task.is_quiet,
        previous: String::new(),
        screen: None,
        title: None,
        restriction: None,
        goes_on: task.goes_on,
        output: Destination::standard(),
        interrupted: Arc::default(),
        canceller,
        depth: 0,
    };
    let done = shell.steps(&task.steps, is_typed.then_some(task.history));
    match done.and_then(|went_well| shell.output.flush().map(|()| went_well)) {
        // The reader of the output has read enough, like `head`.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        done => done,
    }
}

impl Shell {
    /// Runs steps. `typed` is set if a user types lines, with the file of the history.
    fn steps(&mut self, steps: &[Step], typed: Option<Option<PathBuf>>) -> io::Result<bool> {
        if steps.is_empty() {
            let mut lines = match typed {
                Some(history) => {
                    self.listen()?;
                    writeln!(io::stdout(), "Statements end with ;  Commands begin with \\, \\? lists them, \\q ends.")?;
                    Lines::Terminal(Box::new(Terminal::new(history, self.statements.clone(), &commands::NAMES)?))
                }
                None => Lines::stdin(),
            };
            return Ok(self.lines(&mut lines)? != Outcome::Failed);
        }
        let mut went_well = true;
        for step in steps {
            let outcome = match step {
                Step::File(path) => self.file(path)?,
                Step::Text(text) => {
                    let mut lines = Lines::stdin();
                    match text.trim_start().strip_prefix('\\') {
                        Some(command) => commands::run(self, command, &mut Splitter::default(), &mut lines)?,
                        None => self.statement(text, &mut lines)?,
                    }
                }
            };
            went_well &= outcome != Outcome::Failed;
            if outcome == Outcome::Quit || (outcome == Outcome::Failed && !self.may_go_on()) {
                break;
            }
        }
        Ok(went_well)
    }

    /// Makes Ctrl-C end the running statement, not the shell.
    fn listen(&self) -> io::Result<()> {
        let mut signals = Signals::new([SIGINT])?;
        let (interrupted, canceller) = (self.interrupted.clone(), self.canceller.clone());
        std::thread::spawn(move || {
            for _ in signals.forever() {
                interrupted.store(true, Ordering::Relaxed);
                canceller.lock().unwrap_or_else(PoisonError::into_inner)();
            }
        });
        Ok(())
    }

    /// Tries to replace a lost session by a new one, as psql does where a user types; returns whether that succeeded.
    fn reset(&mut self) -> io::Result<bool> {
        let mut told = io::stderr();
        write!(told, "The connection to the server was lost. Attempting reset: ")?;
        let mut statements = self.statements.borrow_mut();
        match statements.reconnect() {
            Ok(()) => writeln!(told, "Succeeded.")?,
            Err(failure) => {
                writeln!(told, "Failed.")?;
                report::write(&failure, "", None, has_colors(), &mut told)?;
                return Ok(false);
            }
        }
        *self.canceller.lock().unwrap_or_else(PoisonError::into_inner) = statements.canceller();
        Ok(true)
    }

    /// Runs the lines of a file.
    pub(crate) fn file(&mut self, path: &Path) -> io::Result<Outcome> {
        if self.depth == DEPTH {
            return self.complain(format!("{}: files run files too deeply", path.display()), None);
        }
        let mut lines = match Lines::file(path) {
            Ok(lines) => lines,
            Err(error) => return self.complain(error, None),
        };
        self.depth += 1;
        let outcome = self.lines(&mut lines);
        self.depth -= 1;
        outcome
    }

    /// Runs lines up to their end; returns whether any of them failed. A failure of a typed line does not count.
    fn lines(&mut self, lines: &mut Lines) -> io::Result<Outcome> {
        let mut splitter = Splitter::default();
        let mut outcome = Outcome::Done;
        loop {
            let text = prompt(self.statements.borrow().database(), self.standing(), &splitter);
            let style = match self.standing() {
                Standing::Idle | Standing::Lost => Style::Bold,
                Standing::Open => Style::Yellow,
                Standing::Failed => Style::Red,
            };
            match lines.next(&Prompt { text, style, before: Some(splitter.text()) }) {
                Ok(Line::Text(line)) => splitter.push(&line),
                Ok(Line::Interrupted) => {
                    splitter.clear();
                    continue;
                }
                Ok(Line::End) => break,
                Err(error) => return self.complain(error, lines.origin()),
            }
            self.screen = lines.screen().or(self.screen);
            let mut is_edited = false;
            while let Some(piece) = splitter.piece() {
                let ended = match piece {
                    Piece::Statement(statement) => {
                        lines.remember(&statement);
                        // The server may be there again since the last attempt.
                        if lines.is_terminal() && self.standing() == Standing::Lost && !self.reset()? {
                            continue;
                        }
                        self.statement(&statement, lines)?
                    }
                    Piece::Command(command) => {
                        lines.remember(format!("{} \\{command}", splitter.text()).trim_start());
                        commands::run(self, &command, &mut splitter, lines)?
                    }
                };
                match ended {
                    Outcome::Done => {}
                    Outcome::Edited => is_edited = true,
                    // Ends only these lines; the caller goes on.
                    Outcome::Quit => return Ok(outcome),
                    Outcome::Failed if self.standing() == Standing::Lost => {
                        if !lines.is_terminal() {
                            return Ok(Outcome::Failed);
                        }
                        self.reset()?;
                    }
                    Outcome::Failed if lines.is_terminal() => {}
                    Outcome::Failed if !self.may_go_on() => return Ok(Outcome::Failed),
                    Outcome::Failed => outcome = Outcome::Failed,
                }
            }
            if is_edited && splitter.is_begun() && lines.is_terminal() {
                self.say(splitter.text())?;
            }
        }
        // The last statement of a file may lack its end; an unfinished statement that is being typed is dropped.
        let rest = splitter.take();
        if lines.is_terminal() {
            writeln!(io::stdout())?;
        } else if !rest.is_empty() && self.statement(&rest, lines)? == Outcome::Failed {
            outcome = Outcome::Failed;
        }
        Ok(outcome)
    }

    fn standing(&self) -> Standing {
        self.statements.borrow().standing()
    }

    /// Whether a script may go on after a failure.
    fn may_go_on(&self) -> bool {
        self.goes_on && !self.interrupted.load(Ordering::Relaxed) && self.standing() != Standing::Lost
    }

    /// Runs a statement and shows its result; the data that it copies in is among the lines, the data that it copies
    /// out goes to the output.
    pub(crate) fn statement(&mut self, text: &str, lines: &mut Lines) -> io::Result<Outcome> {
        text.clone_into(&mut self.previous);
        self.execute(text, lines, None, None)
    }

    /// As [`Shell::statement`], with files as other ends for the copied data, whose progress is reported.
    pub(crate) fn execute(
        &mut self,
        text: &str,
        lines: &mut Lines,
        source: Option<&mut dyn Read>,
        sink: Option<&mut dyn Write>,
    ) -> io::Result<Outcome> {
        let origin = lines.origin();
        let mut inline = Inline::new(lines);
        let mut replies = Vec::new();
        self.interrupted.store(false, Ordering::Relaxed);
        let began = Instant::now();
        let is_sent_elsewhere = sink.is_some();
        let (mut source, mut sink) = (
            source.map(|file| Metered::new(file, !self.is_quiet)),
            sink.map(|file| Metered::new(file, !self.is_quiet)),
        );
        let ends = Ends {
            source: match &mut source {
                Some(source) => source,
                None => &mut inline,
            },
            sink: match &mut sink {
                Some(sink) => sink,
                None => &mut self.output,
            },
        };
        let done = building::run(&mut **self.statements.borrow_mut(), text, !self.is_quiet, |statements| {
            statements.run(text, ends, &mut replies)
        });
        let took = began.elapsed();
        // Their reports end before others are shown.
        drop((source, sink));
        inline.skip()?;
        for reply in replies {
            self.show(&reply, text, is_sent_elsewhere)?;
        }
        let outcome = match done {
            Ok(()) => Outcome::Done,
            Err(failure) => self.fail(&failure, text, origin)?,
        };
        if self.has_timing {
            writeln!(self.output, "Time: {}", timing(took.as_secs_f64() * 1e3))?;
        }
        self.output.flush()?;
        Ok(outcome)
    }

    fn show(&mut self, reply: &Reply, text: &str, is_sent_elsewhere: bool) -> io::Result<()> {
        match reply {
            // On the output, below the copied data, the tag would be taken for a part of them.
            Reply::CopiedOut { tag } if is_sent_elsewhere => self.confirm(tag),
            Reply::CopiedOut { .. } => Ok(()),
            Reply::Notice(notice) => {
                self.output.flush()?;
                report::write(notice, text, None, has_colors(), &mut io::stderr())
            }
            Reply::Done { table, tag } => {
                let title = self.title.clone();
                match (table, &title) {
                    (Some(table), _) => self.show_table(table, &Frame { title, ..Frame::COUNT })?,
                    (None, Some(title)) if !self.layout.rows_only => writeln!(self.output, "{title}")?,
                    (None, _) => {}
                }
                // The number below the rows has the same information.
                let is_told =
                    table.is_none() || ["INSERT", "UPDATE", "DELETE"].iter().any(|verb| tag.starts_with(verb));
                if is_told && !self.is_quiet && !self.layout.rows_only {
                    writeln!(self.output, "{tag}")?;
                }
                Ok(())
            }
        }
    }

    /// Returns the rows of a query of the shell's own.
    pub(crate) fn query(&mut self, text: &str) -> Result<Table, Box<Failure>> {
        let mut replies = Vec::new();
        let ends = Ends { source: &mut io::empty(), sink: &mut io::sink() };
        self.statements.borrow_mut().run(text, ends, &mut replies)?;
        let mut tables = replies.into_iter().filter_map(|reply| match reply {
            Reply::Done { table, .. } => table,
            Reply::CopiedOut { .. } | Reply::Notice(_) => None,
        });
        Ok(tables.next_back().unwrap_or_default())
    }

    /// Describes the session in a sentence.
    pub(crate) fn description(&self) -> String {
        self.statements.borrow().description()
    }

    /// Shows a table of the shell's own.
    pub(crate) fn table(&mut self, table: &Table, frame: &Frame) -> io::Result<()> {
        self.show_table(table, frame)?;
        self.output.flush()
    }

    fn show_table(&mut self, table: &Table, frame: &Frame) -> io::Result<()> {
        let layout = self.layout.clone();
        self.paged(|screen, out| layout.write(table, frame, screen, out))
    }

    /// Writes to the output: through the pager if that is the user's screen, on which the text does not fit.
    fn paged(&mut self, write: impl FnOnce(Option<Screen>, &mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        let screen = self.screen.filter(|_| self.output.is_standard());
        // A result that is watched is replaced by the next one.
        let is_paged = self.layout.paging != Paging::Off && self.title.is_none();
        let Some((screen, command)) = screen.filter(|_| is_paged).and_then(|screen| Some((screen, pager()?))) else {
            return write(screen, &mut self.output);
        };
        let screen = Screen { has_colors: screen.has_colors && pager_shows_colors(), ..screen };
        let mut paged = Paged::new(&mut self.output, screen, self.layout.paging, command);
        write(Some(screen), &mut paged)?;
        paged.finish()
    }

    /// Writes a text of several lines to the output, in the pager if it does not fit on the screen.
    pub(crate) fn say_all(&mut self, text: &str) -> io::Result<()> {
        self.paged(|_, out| writeln!(out, "{text}"))?;
        self.output.flush()
    }

    /// Writes a line to the output.
    pub(crate) fn say(&mut self, text: impl std::fmt::Display) -> io::Result<()> {
        self.write(&format!("{text}\n"))
    }

    /// As [`Shell::say`], without the end of the line.
    pub(crate) fn write(&mut self, text: &str) -> io::Result<()> {
        self.output.write_all(text.as_bytes())?;
        self.output.flush()
    }

    /// Reports a setting's new value.
    pub(crate) fn confirm(&mut self, text: impl std::fmt::Display) -> io::Result<()> {
        if self.is_quiet { Ok(()) } else { self.say(text) }
    }

    /// Reports a failed statement.
    pub(crate) fn fail(&mut self, failure: &Failure, text: &str, origin: Option<String>) -> io::Result<Outcome> {
        self.output.flush()?;
        report::write(failure, text, origin.as_deref(), has_colors(), &mut io::stderr())?;
        Ok(Outcome::Failed)
    }

    /// Reports a failure of something other than a statement.
    pub(crate) fn complain(&mut self, what: impl std::fmt::Display, origin: Option<String>) -> io::Result<Outcome> {
        self.fail(&Failure::of_shell(what), "", origin)
    }

    /// Sends results to a place from now on; returns the place that they were sent to before.
    pub(crate) fn redirect(&mut self, destination: Destination) -> io::Result<Destination> {
        self.output.flush()?;
        Ok(std::mem::replace(&mut self.output, destination))
    }

    /// Forgets an earlier Ctrl-C; returns a flag that is set by the next one.
    pub(crate) fn interrupted(&self) -> Arc<AtomicBool> {
        self.interrupted.store(false, Ordering::Relaxed);
        self.interrupted.clone()
    }

    /// Waits; returns whether all of the time has passed without Ctrl-C since the last statement began.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        /// Between two looks at Ctrl-C.
        const STEP: Duration = Duration::from_millis(50);
        let began = Instant::now();
        loop {
            if self.interrupted.load(Ordering::Relaxed) {
                return false;
            }
            match time.saturating_sub(began.elapsed()) {
                Duration::ZERO => return true,
                rest => std::thread::sleep(rest.min(STEP)),
            }
        }
    }
}

/// Returns a prompt like psql's: the database, the missing part of a statement, and the transaction.
fn prompt(database: &str, standing: Standing, splitter: &Splitter) -> String {
    let missing = if splitter.is_begun() { splitter.missing() } else { '=' };
    let standing = match standing {
        Standing::Open => "*",
        Standing::Failed => "!",
        Standing::Lost => "?",
        Standing::Idle => "",
    };
    format!("{database}{missing}{standing}> ")
}

/// Whether failures are shown in colors.
fn has_colors() -> bool {
    io::stderr().is_terminal() && style::are_wanted()
}

/// Formats milliseconds, and longer times also in the form of a clock.
fn timing(millis: f64) -> String {
    let seconds = millis / 1e3;
    let clock = match seconds as u64 {
        0 => String::new(),
        whole @ 1..3600 => format!(" ({:02}:{:06.3})", whole / 60, seconds % 60.0),
        whole => format!(" ({:02}:{:02}:{:06.3})", whole / 3600, whole / 60 % 60, seconds % 60.0),
    };
    format!("{millis:.3} ms{clock}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prompt_tells_what_is_open() {
        let mut splitter = Splitter::default();
        assert_eq!(prompt("shop", Standing::Idle, &splitter), "shop=> ");
        assert_eq!(prompt("shop", Standing::Open, &splitter), "shop=*> ");
        assert_eq!(prompt("shop", Standing::Lost, &splitter), "shop=?> ");
        splitter.push("SELECT '");
        assert_eq!(splitter.piece(), None);
        assert_eq!(prompt("shop", Standing::Failed, &splitter), "shop'!> ");
    }

    #[test]
    fn times_are_told_as_people_read_them() {
        assert_eq!(timing(0.5), "0.500 ms");
        assert_eq!(timing(61_250.0), "61250.000 ms (01:01.250)");
        assert_eq!(timing(3_723_004.0), "3723004.000 ms (01:02:03.004)");
    }
}

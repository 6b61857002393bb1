//! The shell itself: takes statements and commands from lines, has them run, and shows their results.
//!
//! Rows and tags go to the output, everything else to the standard error. Nothing of a statement is shown before it has
//! ended, so that nothing is shown that may not last.

use std::{
    fs::File,
    io::{self, BufWriter, Read, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use signal_hook::{consts::SIGINT, iterator::Signals};

use crate::{
    commands,
    input::{
        Inline, Line, Lines, Terminal,
        split::{Piece, Splitter},
    },
    output::{Frame, Layout},
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
    /// The shell is to end.
    Quit,
}

/// Maximum depth of files that run files.
const DEPTH: usize = 32;

/// A shell.
pub struct Shell {
    statements: Box<dyn Statements>,
    pub(crate) layout: Layout,
    pub(crate) has_timing: bool,
    pub(crate) is_quiet: bool,
    goes_on: bool,
    output: Box<dyn Write>,
    /// Whether Ctrl-C was pressed since the last statement began.
    interrupted: Arc<AtomicBool>,
    depth: usize,
}

/// Runs the task's steps, or else lines that are typed or come from a pipe; returns whether all of it succeeded.
pub fn run(statements: Box<dyn Statements>, task: Task, is_typed: bool) -> io::Result<bool> {
    let mut shell = Shell {
        statements,
        layout: task.layout,
        has_timing: false,
        is_quiet: task.is_quiet,
        goes_on: task.goes_on,
        output: stdout(),
        interrupted: Arc::default(),
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
                    Lines::Terminal(Box::new(Terminal::new(history)?))
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
                        Some(command) => commands::run(self, command, &mut lines)?,
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
        let (interrupted, cancel) = (self.interrupted.clone(), self.statements.canceller());
        std::thread::spawn(move || {
            for _ in signals.forever() {
                interrupted.store(true, Ordering::Relaxed);
                cancel();
            }
        });
        Ok(())
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
            match lines.next(&prompt(self.statements.database(), self.statements.standing(), &splitter)) {
                Ok(Line::Text(line)) => splitter.push(&line),
                Ok(Line::Interrupted) => {
                    splitter.clear();
                    continue;
                }
                Ok(Line::End) => break,
                Err(error) => return self.complain(error, lines.origin()),
            }
            while let Some(piece) = splitter.next() {
                let ended = match piece {
                    Piece::Statement(statement) => {
                        lines.remember(&statement);
                        self.statement(&statement, lines)?
                    }
                    Piece::Command(command) => {
                        lines.remember(&format!("\\{command}"));
                        commands::run(self, &command, lines)?
                    }
                };
                match ended {
                    Outcome::Done => {}
                    // Ends only these lines; the caller goes on.
                    Outcome::Quit => return Ok(outcome),
                    Outcome::Failed if self.statements.standing() == Standing::Lost => return Ok(Outcome::Failed),
                    Outcome::Failed if lines.is_terminal() => {}
                    Outcome::Failed if !self.may_go_on() => return Ok(Outcome::Failed),
                    Outcome::Failed => outcome = Outcome::Failed,
                }
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

    /// Whether a script may go on after a failure.
    fn may_go_on(&self) -> bool {
        self.goes_on && !self.interrupted.load(Ordering::Relaxed) && self.statements.standing() != Standing::Lost
    }

    /// Runs a statement and shows its result; the data that it copies in is among the lines, the data that it copies
    /// out goes to the output.
    fn statement(&mut self, text: &str, lines: &mut Lines) -> io::Result<Outcome> {
        self.execute(text, lines, None, None)
    }

    /// As [`Shell::statement`], with other ends for the copied data.
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
        let ends = Ends {
            source: match source {
                Some(source) => source,
                None => &mut inline,
            },
            sink: match sink {
                Some(sink) => sink,
                None => &mut *self.output,
            },
        };
        let done = self.statements.run(text, ends, &mut replies);
        let took = began.elapsed();
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
                report::write(notice, text, None, &mut io::stderr())
            }
            Reply::Done { table, tag } => {
                if let Some(table) = table {
                    self.layout.write(table, &Frame::COUNT, &mut self.output)?;
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
        self.statements.run(text, ends, &mut replies)?;
        let mut tables = replies.into_iter().filter_map(|reply| match reply {
            Reply::Done { table, .. } => table,
            Reply::CopiedOut { .. } | Reply::Notice(_) => None,
        });
        Ok(tables.next_back().unwrap_or_default())
    }

    /// Describes the session in a sentence.
    pub(crate) fn description(&self) -> String {
        self.statements.description()
    }

    /// Shows a table of the shell's own.
    pub(crate) fn table(&mut self, table: &Table, frame: &Frame) -> io::Result<()> {
        self.layout.write(table, frame, &mut self.output)?;
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
        report::write(failure, text, origin.as_deref(), &mut io::stderr())?;
        Ok(Outcome::Failed)
    }

    /// Reports a failure of something other than a statement.
    pub(crate) fn complain(&mut self, what: impl std::fmt::Display, origin: Option<String>) -> io::Result<Outcome> {
        self.fail(&Failure::of_shell(what), "", origin)
    }

    /// Redirects the output into a file, or back to the standard output.
    pub(crate) fn redirect(&mut self, path: Option<&str>) -> io::Result<()> {
        self.output.flush()?;
        self.output = match path {
            Some(path) => Box::new(BufWriter::new(File::create(path)?)),
            None => stdout(),
        };
        Ok(())
    }
}

/// Returns a prompt like psql's: the database, the missing part of a statement, and the transaction.
fn prompt(database: &str, standing: Standing, splitter: &Splitter) -> String {
    let missing = if splitter.is_begun() { splitter.missing() } else { '=' };
    let standing = match standing {
        Standing::Open => "*",
        Standing::Failed => "!",
        Standing::Idle | Standing::Lost => "",
    };
    format!("{database}{missing}{standing}> ")
}

fn stdout() -> Box<dyn Write> {
    Box::new(BufWriter::new(io::stdout()))
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
        splitter.push("SELECT '");
        assert_eq!(splitter.next(), None);
        assert_eq!(prompt("shop", Standing::Failed, &splitter), "shop'!> ");
    }

    #[test]
    fn times_are_told_as_people_read_them() {
        assert_eq!(timing(0.5), "0.500 ms");
        assert_eq!(timing(61_250.0), "61250.000 ms (01:01.250)");
        assert_eq!(timing(3_723_004.0), "3723004.000 ms (01:02:03.004)");
    }
}

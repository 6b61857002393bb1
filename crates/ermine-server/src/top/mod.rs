//! `ermined top`: the live page in a terminal, as a client of the server like any other.
//!
//! | module | content |
//! |---|---|
//! | `sample` | what the server is asked, and the answer |
//! | `screen` | two samples as lines of text, of any width and height |
//! | `text` | numbers and texts in few characters |

mod sample;
mod screen;
mod text;

use std::{
    io::{self, IsTerminal as _, Write as _},
    time::Duration,
};

use ermine_shell::{Connected, Statements as _, Target};
use rustix::termios::tcgetwinsize;
use tokio::signal::unix::{SignalKind, signal};

use self::{sample::Sample, screen::Size};
use crate::{Failure, arguments::Top, failed, shell::variable};

/// Where the output is no terminal.
const COLUMNS: usize = 80;
/// Enters the second screen of a terminal, and hides the cursor; and the other way round.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// Shows screens until it has shown enough of them, or is interrupted.
pub fn top(arguments: &Top) -> Result<(), Failure> {
    let target = Target::new(&arguments.connect, variable).map_err(Failure::Usage)?;
    let told = |failure: Box<ermine_shell::Failure>| Failure::Failed(failure.to_string());
    let mut server = Connected::open(target).map_err(told)?;
    sample::begin(&mut server).map_err(told)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let output = Output::begin().map_err(failed)?;
    let shown = runtime.block_on(show(arguments, &mut server, &output));
    drop(output);
    match shown {
        // The reader wants no more.
        Err(Ended::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(Ended::Output(error)) => Err(failed(error)),
        Err(Ended::Server(failure)) => Err(told(failure)),
        Ok(()) => Ok(()),
    }
}

/// Why no more screens can be shown.
enum Ended {
    Output(io::Error),
    Server(Box<ermine_shell::Failure>),
}

async fn show(arguments: &Top, server: &mut Connected, output: &Output) -> Result<(), Ended> {
    let handler = |kind| signal(kind).map_err(Ended::Output);
    let (mut interrupt, mut terminate) = (handler(SignalKind::interrupt())?, handler(SignalKind::terminate())?);
    let mut resized = handler(SignalKind::window_change())?;
    let description = server.description();
    let place = description.trim_start_matches("Connected to ").trim_end_matches('.');
    let (mut before, mut number) = (None::<Sample>, 0);
    loop {
        let now = sample::take(server).map_err(Ended::Server)?;
        number += 1;
        output.draw(place, &now, before.as_ref(), number == 1).map_err(Ended::Output)?;
        if arguments.count.is_some_and(|count| number >= count) {
            return Ok(());
        }
        let next = tokio::time::sleep(Duration::from_secs_f64(arguments.interval));
        tokio::pin!(next);
        loop {
            tokio::select! {
                () = &mut next => break,
                _ = resized.recv() => output.draw(place, &now, before.as_ref(), false).map_err(Ended::Output)?,
                _ = interrupt.recv() => return Ok(()),
                _ = terminate.recv() => return Ok(()),
            }
        }
        before = Some(now);
    }
}

/// The standard output: a terminal, which is given back as it was, or text.
struct Output {
    is_terminal: bool,
}

impl Output {
    fn begin() -> io::Result<Self> {
        let output = Self { is_terminal: io::stdout().is_terminal() };
        if output.is_terminal {
            write!(io::stdout(), "{ENTER}")?;
        }
        Ok(output)
    }

    fn size(&self) -> Size {
        let size = self.is_terminal.then(|| tcgetwinsize(io::stdout()).ok()).flatten();
        let size = size.filter(|size| size.ws_col > 0 && size.ws_row > 0);
        let columns = || variable("COLUMNS").and_then(|columns| columns.parse().ok()).unwrap_or(COLUMNS);
        match size {
            Some(size) => Size { columns: size.ws_col.into(), rows: Some(size.ws_row.into()) },
            None => Size { columns: columns(), rows: None },
        }
    }

    fn draw(&self, place: &str, now: &Sample, before: Option<&Sample>, is_first: bool) -> io::Result<()> {
        let lines = screen::lines(place, now, before, self.size());
        let mut output = io::stdout().lock();
        if self.is_terminal {
            // Overwrites line by line, which does not flicker.
            write!(output, "\x1b[H{}\x1b[K\x1b[J", lines.join("\x1b[K\r\n"))?;
        } else {
            let gap = if is_first { "" } else { "\n" };
            writeln!(output, "{gap}{}", lines.join("\n"))?;
        }
        output.flush()
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.is_terminal {
            // A terminal that is gone needs nothing.
            let _ = write!(io::stdout(), "{LEAVE}").and_then(|()| io::stdout().flush());
        }
    }
}

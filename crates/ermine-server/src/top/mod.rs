//! `ermined top`: the live page in a terminal, as a client of the server like any other.
//!
//! A thread asks the server, so that keys and signals are obeyed while it does not answer.
//!
//! | module | content |
//! |---|---|
//! | `sample` | what the server is asked, and the answer |
//! | `screen` | two samples as lines of text, of any width and height |
//! | `terminal` | the terminal's modes, screen and keys |
//! | `text` | numbers and texts in few characters |

mod sample;
mod screen;
mod terminal;
mod text;

use std::{
    io::{self, Write as _},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

use ermine_shell::{Connected, Standing, Statements as _, Target};
use rustix::process::Signal;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    time::{Instant, sleep},
};

use self::{
    sample::{APPLICATION, Sample},
    screen::Size,
    terminal::Terminal,
};
use crate::{Failure, arguments::Top, failed, shell::variable};

/// Where the output is no terminal.
const COLUMNS: usize = 80;
/// Longest time between two attempts to connect again.
const PATIENCE: Duration = Duration::from_secs(1);

/// Shows screens until it has shown enough of them, or is told to end.
pub fn top(arguments: &Top) -> Result<(), Failure> {
    let target = Target::new(&arguments.connect, variable).map_err(Failure::Usage)?.for_application(APPLICATION);
    let told = |failure: Box<ermine_shell::Failure>| Failure::Failed(failure.to_string());
    let mut server = Connected::open(target).map_err(told)?;
    sample::begin(&mut server).map_err(told)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let terminal = Terminal::take().map_err(failed)?;
    let (ask, asked) = channel();
    let (report, reports) = unbounded_channel();
    let comes_back = terminal.is_some();
    let asking = thread::spawn(move || answer(server, comes_back, &asked, &report));
    let mut page = Page { terminal, sample: None, before: None, lost: None, number: 0 };
    let shown = runtime.block_on(show(arguments, &mut page, &ask, reports));
    drop((page, ask));
    // A server that does not answer is not waited for.
    if matches!(shown, Ok(false)) {
        let _ = asking.join();
    }
    match shown {
        // The reader wants no more.
        Err(Ended::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(Ended::Output(error)) => Err(failed(error)),
        Err(Ended::Server(failure)) => Err(told(failure)),
        Ok(_) => Ok(()),
    }
}

/// Why no more screens can be shown.
enum Ended {
    Output(io::Error),
    Server(Box<ermine_shell::Failure>),
}

/// What the server says when it is asked.
enum Report {
    /// A sample, and which server it is of.
    Sample(String, Box<Sample>),
    /// The connection is lost, and the next request connects again.
    Lost(Box<ermine_shell::Failure>),
    /// It cannot be asked again.
    Ended(Box<ermine_shell::Failure>),
}

/// Answers every request with a report.
fn answer(mut server: Connected, comes_back: bool, asked: &Receiver<()>, reports: &UnboundedSender<Report>) {
    let mut is_lost = false;
    while asked.recv().is_ok() {
        let connected = match is_lost {
            true => server.reconnect().and_then(|()| sample::begin(&mut server)),
            false => Ok(()),
        };
        let taken = connected.and_then(|()| {
            is_lost = false;
            sample::take(&mut server)
        });
        let report = match taken {
            Ok(sample) => {
                let description = server.description();
                let place = description.trim_start_matches("Connected to ").trim_end_matches('.');
                Report::Sample(place.to_owned(), Box::new(sample))
            }
            Err(failure) => {
                is_lost |= server.standing() == Standing::Lost;
                if is_lost && comes_back { Report::Lost(failure) } else { Report::Ended(failure) }
            }
        };
        if reports.send(report).is_err() {
            break;
        }
    }
}

/// Shows screens; returns whether the server still has to answer.
async fn show(
    arguments: &Top,
    page: &mut Page,
    ask: &std::sync::mpsc::Sender<()>,
    mut reports: UnboundedReceiver<Report>,
) -> Result<bool, Ended> {
    let handler = |kind| signal(kind).map_err(Ended::Output);
    let (mut interrupt, mut terminate) = (handler(SignalKind::interrupt())?, handler(SignalKind::terminate())?);
    let (mut quit, mut resized) = (handler(SignalKind::quit())?, handler(SignalKind::window_change())?);
    let mut stopped = match &page.terminal {
        Some(_) => Some(handler(SignalKind::from_raw(Signal::TSTP.as_raw()))?),
        None => None,
    };
    let mut stopped = async || match &mut stopped {
        Some(stopped) => stopped.recv().await,
        None => std::future::pending().await,
    };
    let (_, nothing) = unbounded_channel();
    let mut keys = page.terminal.as_ref().map_or(nothing, Terminal::keys);
    let next = sleep(Duration::ZERO);
    tokio::pin!(next);
    let mut is_asked = false;
    loop {
        tokio::select! {
            () = &mut next, if !is_asked => is_asked = ask.send(()).is_ok(),
            Some(report) = reports.recv() => {
                is_asked = false;
                let interval = Duration::from_secs_f64(arguments.interval);
                let pause = match report {
                    Report::Sample(place, sample) => {
                        page.turn(place, sample);
                        interval
                    }
                    Report::Lost(failure) => {
                        page.lose(&failure);
                        interval.min(PATIENCE)
                    }
                    Report::Ended(failure) => return Err(Ended::Server(failure)),
                };
                page.draw().map_err(Ended::Output)?;
                if arguments.count.is_some_and(|count| page.number >= count) {
                    return Ok(is_asked);
                }
                next.as_mut().reset(Instant::now() + pause);
            }
            _ = resized.recv(), if page.terminal.is_some() => page.draw().map_err(Ended::Output)?,
            _ = stopped() => page.suspend().map_err(Ended::Output)?,
            Some(key) = keys.recv() => if matches!(key, b'q' | b'Q') { return Ok(is_asked) },
            _ = interrupt.recv() => return Ok(is_asked),
            _ = terminate.recv() => return Ok(is_asked),
            _ = quit.recv() => return Ok(is_asked),
        }
    }
}

/// The standard output: a terminal, or text.
struct Page {
    terminal: Option<Terminal>,
    /// The last sample, and which server it is of.
    sample: Option<(String, Box<Sample>)>,
    /// The sample before it.
    before: Option<Box<Sample>>,
    /// Why there is no connection.
    lost: Option<String>,
    /// How many samples there were.
    number: u32,
}

impl Page {
    fn turn(&mut self, place: String, sample: Box<Sample>) {
        let before = self.sample.replace((place, sample)).map(|(_, before)| before);
        // The counters of a server that was started again are smaller.
        self.before = before.filter(|_| self.lost.is_none());
        self.lost = None;
        self.number += 1;
    }

    fn lose(&mut self, failure: &ermine_shell::Failure) {
        self.lost = Some(failure.to_string());
    }

    fn size(&self) -> Size {
        let columns = || variable("COLUMNS").and_then(|columns| columns.parse().ok()).unwrap_or(COLUMNS);
        match self.terminal.as_ref().and_then(Terminal::size) {
            Some((columns, rows)) => Size { columns, rows: Some(rows) },
            None => Size { columns: columns(), rows: None },
        }
    }

    fn draw(&self) -> io::Result<()> {
        let Some((place, now)) = &self.sample else { return Ok(()) };
        let size = self.size();
        let mut lines = screen::lines(place, now, self.before.as_deref(), size);
        if let (Some(why), Some(first)) = (&self.lost, lines.first_mut()) {
            let text = format!("No connection, trying again: {why}");
            *first = format!("\x1b[7m{}\x1b[0m", text::line(&text, size.columns));
        }
        let mut output = io::stdout().lock();
        if self.terminal.is_some() {
            // Overwrites line by line, which does not flicker.
            write!(output, "\x1b[H{}\x1b[K\x1b[J", lines.join("\x1b[K\r\n"))?;
        } else {
            let gap = if self.number == 1 { "" } else { "\n" };
            writeln!(output, "{gap}{}", lines.join("\n"))?;
        }
        output.flush()
    }

    fn suspend(&self) -> io::Result<()> {
        self.terminal.as_ref().map_or(Ok(()), Terminal::suspend)?;
        self.draw()
    }
}

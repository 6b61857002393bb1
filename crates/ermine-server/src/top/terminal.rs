//! The terminal of the page: a second screen, keys without echo, and everything as it was at the end.

use std::{
    io::{self, IsTerminal as _, Read as _, Write as _},
    panic, thread,
};

use rustix::{
    process::{Signal, getpid, kill_process},
    termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr},
};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Enters the second screen of a terminal, and hides the cursor; and the other way round.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// A terminal that shows the page, until this is dropped.
pub struct Terminal {
    /// The modes from before; `None` if the standard input is not a terminal.
    before: Option<Termios>,
}

impl Terminal {
    /// Takes the terminal of the standard output, if that is one.
    pub fn take() -> io::Result<Option<Self>> {
        if !io::stdout().is_terminal() {
            return Ok(None);
        }
        let before = if io::stdin().is_terminal() { Some(tcgetattr(io::stdin())?) } else { None };
        let terminal = Self { before };
        let (before, report) = (terminal.before.clone(), panic::take_hook());
        panic::set_hook(Box::new(move |panic| {
            give_back(before.as_ref());
            report(panic);
        }));
        terminal.enter()?;
        Ok(Some(terminal))
    }

    fn enter(&self) -> io::Result<()> {
        if let Some(before) = &self.before {
            let mut modes = before.clone();
            modes.local_modes -= LocalModes::ECHO | LocalModes::ICANON;
            modes.special_codes[SpecialCodeIndex::VMIN] = 1;
            modes.special_codes[SpecialCodeIndex::VTIME] = 0;
            tcsetattr(io::stdin(), OptionalActions::Now, &modes)?;
        }
        write!(io::stdout(), "{ENTER}")?;
        io::stdout().flush()
    }

    /// Stops the process, as Ctrl-Z does; returns when it goes on.
    pub fn suspend(&self) -> io::Result<()> {
        give_back(self.before.as_ref());
        kill_process(getpid(), Signal::STOP)?;
        self.enter()
    }

    /// Returns the keys that are pressed, byte by byte; none if the standard input is not a terminal.
    pub fn keys(&self) -> UnboundedReceiver<u8> {
        let (pressed, keys) = unbounded_channel();
        if self.before.is_some() {
            thread::spawn(move || {
                // Ends with the process: nothing else ends the wait for a key.
                for key in io::stdin().lock().bytes().map_while(Result::ok) {
                    if pressed.send(key).is_err() {
                        break;
                    }
                }
            });
        }
        keys
    }

    /// Returns the columns and rows, if they are known.
    pub fn size(&self) -> Option<(usize, usize)> {
        let size = tcgetwinsize(io::stdout()).ok()?;
        (size.ws_col > 0 && size.ws_row > 0).then(|| (size.ws_col.into(), size.ws_row.into()))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back(self.before.as_ref());
    }
}

/// Makes the terminal what it was, and drops what has been typed. A terminal that is gone needs nothing.
fn give_back(before: Option<&Termios>) {
    let _ = write!(io::stdout(), "{LEAVE}").and_then(|()| io::stdout().flush());
    if let Some(before) = before {
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, before);
    }
}

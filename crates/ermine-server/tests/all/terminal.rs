//! Commands in a terminal.

use std::{
    ffi::OsString,
    fs::{File, OpenOptions},
    io::{Read as _, Write as _},
    os::unix::ffi::OsStringExt as _,
    process::{Child, Command},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize},
};

/// A terminal with a command in it.
pub struct Terminal {
    /// The user's side.
    pub user: File,
    /// The command's side.
    inner: File,
    pub command: Child,
    shown: String,
    more: Receiver<String>,
}

impl Terminal {
    pub fn start(command: &mut Command) -> Self {
        let user = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&user).unwrap();
        unlockpt(&user).unwrap();
        let path = OsString::from_vec(ptsname(&user, Vec::new()).unwrap().into_bytes());
        let inner = OpenOptions::new().read(true).write(true).open(path).unwrap();
        tcsetwinsize(&inner, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let copy = || inner.try_clone().unwrap();
        let command = command.env("TERM", "xterm").stdin(copy()).stdout(copy()).stderr(copy()).spawn().unwrap();
        let user = File::from(user);
        let (mut reader, (sender, more)) = (user.try_clone().unwrap(), channel());
        thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(length @ 1..) = reader.read(&mut piece) {
                let _ = sender.send(String::from_utf8_lossy(&piece[..length]).into_owned());
            }
        });
        Self { user, inner, command, shown: String::new(), more }
    }

    /// Waits for a text behind those that were waited for.
    pub fn until(&mut self, text: &str) {
        self.until_or(text, |_| {});
    }

    /// Types a line, and waits until the command has it.
    pub fn enter(&mut self, text: &str) {
        /// What the editor of lines shows when it has one.
        const TAKEN: &str = "\x1b[?2004l";
        write!(self.user, "{text}\r").unwrap();
        self.until(TAKEN);
    }

    /// As [`Terminal::until`], and does something again and again while nothing comes.
    pub fn until_or(&mut self, text: &str, again: impl Fn(&Self)) {
        let found = (0..600).find_map(|_| {
            if let Some(at) = self.shown.find(text) {
                return Some(at);
            }
            match self.more.recv_timeout(Duration::from_millis(100)) {
                Ok(piece) => self.shown.extend([piece].into_iter().chain(self.more.try_iter())),
                Err(_) => again(self),
            }
            None
        });
        let at = found.unwrap_or_else(|| panic!("{text} is not in {}", self.shown));
        self.shown.drain(..at + text.len());
    }

    /// Sends the command a signal, by the signal's name.
    pub fn signal(&self, name: &str) {
        let process = self.command.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &process]).status().unwrap().success());
    }

    pub fn modes(&self) -> LocalModes {
        tcgetattr(&self.inner).unwrap().local_modes
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.command.kill();
        let _ = self.command.wait();
    }
}

//! The `ermined` command as a process.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    thread::{self, JoinHandle},
};

/// A directory that is removed with the test.
pub struct Directory(pub PathBuf);

impl Directory {
    pub fn new(name: &str) -> Self {
        // Tests that run side by side may use the same name.
        static MADE: AtomicU32 = AtomicU32::new(0);
        let (process, number) = (std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(format!("ermined-{name}-{process}-{number}"));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server, killed when the test is done with it.
pub struct Serving {
    pub child: Child,
    pub address: SocketAddr,
    /// Where its pages are, with --http.
    pub http: Option<SocketAddr>,
    /// Its output behind that, which a thread reads, so that it never waits for the test to do so.
    said: Arc<Mutex<String>>,
    rest: Option<JoinHandle<()>>,
}

impl Serving {
    pub fn start(directory: &Path, more: &[&str]) -> Self {
        Self::start_with(directory, more, &[])
    }

    /// Starts it with variables in its environment.
    pub fn start_with(directory: &Path, more: &[&str], environment: &[(&str, &Path)]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_ermined"))
            .args(["serve", "--create", directory.to_str().unwrap(), "--listen", "127.0.0.1:0"])
            .args(more)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let (mut said, mut http) = (String::new(), None);
        let address = loop {
            let mut line = String::new();
            assert_ne!(lines.read_line(&mut line).unwrap(), 0, "the server ended: {said}");
            said += &line;
            if let Some((_, pages)) = line.trim_end().split_once("a live page are on http://") {
                http = pages.trim_end_matches('/').parse().ok();
            }
            if let Some((_, address)) = line.trim_end().split_once("is served on ") {
                // In JSON, the message is in quotes.
                break address.trim_end_matches("\"}").parse().unwrap();
            }
        };
        let said = Arc::new(Mutex::new(String::new()));
        let heard = said.clone();
        let rest = thread::spawn(move || {
            let mut line = Vec::new();
            while lines.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
                *heard.lock().unwrap() += &String::from_utf8_lossy(&line);
                line.clear();
            }
        });
        Self { child, address, http, said, rest: Some(rest) }
    }

    /// Sends it a signal, by the signal's name.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Returns its output up to its end.
    pub fn rest(&mut self) -> String {
        self.rest.take().into_iter().for_each(|rest| rest.join().unwrap());
        self.said()
    }

    /// Returns its output so far, behind the line that tells its address.
    pub fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn ermined(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ermined"));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs a command with an input to its end; returns both of its outputs as one text.
pub fn output(arguments: &[&str], input: &str) -> (Output, String) {
    let output = finish(&mut ermined(arguments), input);
    let text = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned();
    (output, text)
}

/// Gives a command an input, and waits for its end.
pub fn finish(command: &mut Command, input: &str) -> Output {
    let mut child = command.spawn().unwrap();
    // A command that needs no input may have ended.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

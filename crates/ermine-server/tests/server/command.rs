//! The `ermined` command as a process.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStderr, Command, Output, Stdio},
};

use crate::raw::{Raw, startup};

/// A directory that goes with the test.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ermined-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server that is killed if the test forgets it.
struct Serving(Child, BufReader<ChildStderr>);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ermined(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ermined"));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn output(arguments: &[&str], input: &str) -> (Output, String) {
    let mut child = ermined(arguments).spawn().unwrap();
    // Who does not read what is said may be gone before it is.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned();
    (output, text)
}

fn serve(directory: &Path) -> (Serving, std::net::SocketAddr) {
    let mut child = ermined(&["serve", directory.to_str().unwrap(), "--listen", "127.0.0.1:0"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let address = loop {
        let mut line = String::new();
        assert_ne!(lines.read_line(&mut line).unwrap(), 0, "the server ended");
        if let Some((_, address)) = line.trim_end().split_once("is served on ") {
            break address.parse().unwrap();
        }
    };
    (Serving(child, lines), address)
}

#[test]
fn a_server_is_started_and_ended() {
    let directory = Directory::new("serve");
    let (mut serving, address) = serve(&directory.0);
    drop(Raw::open(address));
    let end = Command::new("kill").args(["-TERM", &serving.0.id().to_string()]).status().unwrap();
    assert!(end.success());
    assert!(serving.0.wait().unwrap().success());
    assert!((&mut serving.1).lines().any(|line| line.unwrap().contains("all clients are gone")));
}

#[test]
fn users_are_asked_for_passwords_once_there_are_some() {
    let directory = Directory::new("users");
    let path = directory.0.to_str().unwrap();
    let (serving, address) = serve(&directory.0);
    let (added, text) = output(&["user", "add", "eva", path], "pencil\n");
    assert!(added.status.success() && text == "eva may log in\n", "{text}");
    let mut raw = Raw::open(address);
    raw.send(&[startup(0, &[("user", "eva")])]);
    assert_eq!(raw.next().map(|message| crate::raw::short(&message)).unwrap(), "SASL([\"SCRAM-SHA-256\"])");
    drop(serving);
    let (_, text) = output(&["user", "add", "eva", path], "other\n");
    assert_eq!(text, "eva has another password\n");
}

#[test]
fn what_cannot_work_is_said() {
    let directory = Directory::new("usage");
    let path = directory.0.to_str().unwrap();
    for (arguments, code, wanted) in [
        (&["serve", path, "--listen", "0.0.0.0:0"][..], 2, "without users"),
        (&["serve", path, "--listen", "nowhere"], 2, "invalid value"),
        (&["serve", path, "--tls-cert", "a"], 2, "--tls-key"),
        (&["serve", path, "--tls-cert", "/missing", "--tls-key", "/missing"], 1, "/missing"),
        (&["user", "add", "eva", "/missing"], 2, "no directory"),
        (&["user", "add", "eva", path], 2, "cannot be empty"),
    ] {
        let (output, text) = output(arguments, "\n");
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        assert!(text.contains(wanted), "{arguments:?}: {text}");
    }
}

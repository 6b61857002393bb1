//! Servers of NATS as processes, by `scripts/nats`.

use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU16, Ordering},
};

/// Runs the script; returns its exit status.
pub fn nats(arguments: &[&str]) -> i32 {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/nats");
    Command::new(script).args(arguments).status().unwrap().code().unwrap_or(-1)
}

/// Returns the first of some neighbouring ports that are free, and that no other test of this process has.
pub fn free_ports(count: u16) -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(23_000);
    loop {
        let first = NEXT.fetch_add(count, Ordering::Relaxed);
        if (first..first + count).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok()) {
            return first;
        }
    }
}

/// Servers of NATS, ended with the test.
pub struct Logs {
    pub directory: PathBuf,
    pub ports: Vec<u16>,
}

impl Logs {
    /// Starts one server or three, with their files below a directory; `None`: there is none, which the test has said.
    pub fn start(directory: &Path, servers: usize) -> Option<Self> {
        match nats(&["build"]) {
            0 => {}
            77 => {
                println!("skipped: there is no nats-server, and it could not be built");
                return None;
            }
            status => panic!("scripts/nats build: exit status {status}"),
        }
        let logs = Self { directory: directory.join("nats"), ports: (0..servers).map(|_| free_ports(2)).collect() };
        logs.run("start");
        Some(logs)
    }

    /// Has the script do something with all of them. Those that run are left alone by `start`.
    pub fn run(&self, what: &str) {
        let ports: Vec<_> = self.ports.iter().map(u16::to_string).collect();
        let mut arguments = vec![what, self.directory.to_str().unwrap()];
        arguments.extend(ports.iter().map(String::as_str));
        assert_eq!(nats(&arguments), 0);
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        nats(&["stop", self.directory.to_str().unwrap()]);
    }
}

//! Goal: a process that is killed loses nothing that it had acknowledged, and leaves a whole database.
//! Method: `ermine bench tpcc` with two threads on a directory writes each new order to a pipe when its commit is
//! durable. This test reads them, kills the process at a random time (while it recovers, checks, warms up or runs), and
//! lets another process open the directory: all consistency conditions must hold, and every order ever read must exist
//! with its lines. A database is killed several times before another one is loaded.
//!
//! `ERMINE_TEST_KILLS=n` kills n times (5 otherwise); `ERMINE_TEST_SEED=n` draws the same times again.

use std::{
    env, fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Number of kills of one database.
const KILLS_OF_ONE: u32 = 5;

/// A directory that is removed at the end, unless the test has failed.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        match thread::panicking() {
            true => eprintln!("left for a look: {}", self.0.display()),
            false => drop(fs::remove_dir_all(&self.0)),
        }
    }
}

/// A child that does not outlive the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn tpcc(directory: &Path, scheme: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ermine"));
    command.current_dir(directory).args(["bench", "tpcc", "--dir", "database", "--threads", "2", "--scale", "small"]);
    command.args(["--scheme", scheme, "--home", "random", "--outstanding", "8", "--warmup", "0"]).args(arguments);
    command
}

/// Runs to the end; all checks must pass.
fn run(directory: &Path, scheme: &str, arguments: &[&str], when: &str) {
    let output = tpcc(directory, scheme, arguments).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{when}\n{err}\n{out}");
}

/// Runs until the process is killed after `time`; appends the acknowledged orders to `acknowledged`, and returns how
/// many.
fn run_and_kill(directory: &Path, scheme: &str, time: Duration, acknowledged: &mut fs::File) -> u64 {
    let mut command = tpcc(directory, scheme, &["--keep", "--seconds", "60", "--acknowledge", "-"]);
    let mut child = Killed(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let pipe = child.0.stdout.take().unwrap();
    let reader = thread::spawn(move || {
        let (mut pipe, mut lines) = (BufReader::new(pipe), Vec::new());
        let mut line = String::new();
        // A last line without an end was cut by the kill.
        while pipe.read_line(&mut line).unwrap() > 0 && line.ends_with('\n') {
            lines.push(std::mem::take(&mut line));
        }
        lines
    });
    let due = Instant::now() + time;
    thread::sleep(due.saturating_duration_since(Instant::now()));
    assert!(child.0.try_wait().unwrap().is_none(), "it has ended by itself");
    // SIGKILL.
    child.0.kill().unwrap();
    child.0.wait().unwrap();
    let lines = reader.join().unwrap();
    lines.iter().for_each(|line| acknowledged.write_all(line.as_bytes()).unwrap());
    lines.len() as u64
}

#[test]
fn nothing_acknowledged_is_lost_when_the_process_is_killed() {
    kill_again_and_again("si-ssn");
}

#[test]
fn nothing_acknowledged_is_lost_under_a_single_version_scheme() {
    kill_again_and_again("silo");
}

fn kill_again_and_again(scheme: &str) {
    let kills = env::var("ERMINE_TEST_KILLS").map_or(5, |kills| kills.parse().unwrap());
    let seed = env::var("ERMINE_TEST_SEED").map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let scratch = Scratch(Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kill-{scheme}-{}", std::process::id())));
    let _ = fs::remove_dir_all(&scratch.0);
    let (mut orders, mut done) = (0, 0);
    while done < kills {
        let directory = &scratch.0.join(format!("from-{done}"));
        fs::create_dir_all(directory).unwrap();
        let path = directory.join("acknowledged");
        let mut acknowledged = fs::File::create(&path).unwrap();
        run(directory, scheme, &["--seconds", "0.1"], "load");
        let last = kills.min(done + KILLS_OF_ONE);
        for kill in done..last {
            let time = Duration::from_millis(random.u64(20..2_000));
            let read = run_and_kill(directory, scheme, time, &mut acknowledged);
            orders += read;
            println!("kill {kill} after {time:?}: {read} orders were acknowledged");
            let when = format!("after kill {kill}, seed {seed}");
            run(directory, scheme, &["--keep", "--seconds", "0.1", "--expect", "acknowledged"], &when);
        }
        done = last;
        fs::remove_dir_all(directory).unwrap();
    }
    assert!(orders > 0, "nothing was acknowledged in {kills} runs");
}

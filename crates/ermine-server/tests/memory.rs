//! Goal: a server in little memory is not killed: writes fail with 53200 when it is full, reads and deletes go on, what was deleted serves new rows,
//! it starts again, and a statement that gathers too much fails alone.
//!
//! Method: `ermined` itself, with an address space that is limited (`RLIMIT_AS`, as a control group would be), so that an allocation too many ends it.

#![cfg(target_os = "linux")]

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// Bytes of address space.
const SPACE: u64 = 1 << 30;

struct Server {
    process: Child,
    port: u16,
}

impl Server {
    fn start(directory: &Path, arguments: &[&str]) -> Self {
        let mut process = Command::new("prlimit")
            .arg(format!("--as={SPACE}"))
            .arg(env!("CARGO_BIN_EXE_ermined"))
            .arg("serve")
            .arg(directory)
            .args(["--listen", "127.0.0.1:0", "--threads", "4"])
            .args(arguments)
            // Each arena of the general allocator reserves 64 MiB of addresses.
            .env("MALLOC_ARENA_MAX", "2")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let port = loop {
            let line = lines.next().expect("the server ended").unwrap();
            eprintln!("{line}");
            if let Some((_, address)) = line.split_once("is served on ") {
                break address.rsplit(':').next().unwrap().trim().parse().unwrap();
            }
        };
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| eprintln!("{line}")));
        Self { process, port }
    }

    /// Runs a script; what it printed, or its error.
    fn run(&self, sql: &str) -> Result<String, String> {
        let output = Command::new(env!("CARGO_BIN_EXE_ermined"))
            .args([
                "shell",
                "--connect",
                &format!("postgres://ann@127.0.0.1:{}/shop", self.port),
                "--csv",
                "-t",
                "-q",
                "-c",
                sql,
            ])
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    /// Ends it as SIGTERM does; it must not have ended before.
    fn end(mut self) {
        assert!(self.process.try_wait().unwrap().is_none(), "the server has ended by itself");
        let id = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        assert!(self.process.wait().unwrap().success());
    }
}

fn directory(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("ermined-memory-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    path
}

/// Inserts rows until there is no more room; gives how many there are.
fn fill(server: &Server) -> u64 {
    let insert =
        "INSERT INTO tea SELECT nextval('numbers'), repeat('leaf', 250), n % 100 FROM generate_series(1, 2000) AS s(n)";
    for _ in 0..400 {
        if let Err(error) = server.run(insert) {
            assert!(error.contains("53200"), "{error}");
            return server.run("SELECT count(*) FROM tea").unwrap().parse().unwrap();
        }
    }
    panic!("it is never full");
}

#[test]
fn a_full_server_goes_on() {
    for scheme in ["si-ssn", "silo"] {
        let path = directory(scheme);
        let arguments = ["--scheme", scheme, "--memory-limit", "96"];
        let server = Server::start(&path, &arguments);
        server.run("CREATE TABLE tea (id bigint PRIMARY KEY, name text, kind int); CREATE INDEX ON tea (kind); CREATE SEQUENCE numbers").unwrap();
        let rows = fill(&server);
        println!("{scheme}: full with {rows} rows");
        assert!(rows > 20_000, "{scheme}: {rows}");
        // Statement by statement, as one that deletes everything keeps everything until it commits.
        for kind in 0..50 {
            server.run(&format!("DELETE FROM tea WHERE kind = {kind}")).unwrap();
        }
        let left: u64 = server.run("SELECT count(*) FROM tea").unwrap().parse().unwrap();
        assert!(left <= rows / 2 + 100, "{left} of {rows}");
        let again = fill(&server);
        assert!(again >= rows * 8 / 10, "{scheme}: {again} rows after {rows}");
        server.end();
        let server = Server::start(&path, &arguments);
        assert_eq!(server.run("SELECT count(*) FROM tea").unwrap(), again.to_string());
        // When it is full, the quick way out is open, too.
        server.run("CREATE TABLE empty (a int); DROP TABLE empty").unwrap();
        for kind in 0..100 {
            server.run(&format!("DELETE FROM tea WHERE kind = {kind}")).unwrap();
        }
        assert_eq!(server.run("SELECT count(*) FROM tea").unwrap(), "0");
        fill(&server);
        server.run("TRUNCATE tea").unwrap();
        // What it had is freed in the background.
        let is_free = (0..600).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(100));
            server.run("INSERT INTO tea SELECT n, repeat('leaf', 250), 1 FROM generate_series(1, 5000) AS s(n)").is_ok()
        });
        assert!(is_free, "{scheme}: nothing is freed after TRUNCATE");
        server.end();
        std::fs::remove_dir_all(&path).unwrap();
    }
}

#[test]
fn statements_that_gather_too_much_fail_alone() {
    let path = directory("statements");
    let server = Server::start(&path, &["--memory-limit", "96"]);
    let big = "FROM generate_series(1, 3000000) AS s(n)";
    let values = (0..400_000).map(|n| format!("({n})")).collect::<Vec<_>>().join(",");
    for statement in [
        format!("SELECT n, repeat('x', 100) AS t {big} ORDER BY t, n DESC LIMIT 1 OFFSET 2999999"),
        format!("SELECT count(*) FROM (SELECT n::text || 'x', count(*) {big} GROUP BY 1) AS g"),
        format!("SELECT count(*) FROM (SELECT DISTINCT n::text || 'y' {big}) AS d"),
        format!("SELECT length(string_agg(n::text, ',' ORDER BY n DESC)) {big}"),
        format!("SELECT array_length(array_agg(n), 1) {big}"),
        format!("SELECT array_length(ARRAY(SELECT n {big}), 1)"),
        "SELECT length(repeat('x', 1000000000))".into(),
        "SELECT length(lpad('x', 200000000, 'yz'))".into(),
        "SELECT length(replace(repeat('x', 20000), 'x', repeat('y', 20000)))".into(),
        "SET work_mem = '1MB'; SELECT length(repeat('x', 2000000))".into(),
        format!("SELECT count(*) FROM (SELECT n {big} EXCEPT SELECT -n {big}) AS e"),
    ] {
        let error = server.run(&statement).unwrap_err();
        assert!(error.contains("53200"), "{statement}: {error}");
        assert_eq!(server.run("SELECT 1").unwrap(), "1");
    }
    // A text whose tree would not fit; the shell sends it from a file, as an argument could not be so long.
    let script = path.with_extension("sql");
    std::fs::write(&script, format!("SELECT count(*) FROM (VALUES {values}) AS v;")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_ermined"))
        .args(["shell", "--connect", &format!("postgres://ann@127.0.0.1:{}/shop", server.port), "-f"])
        .arg(&script)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && error.contains("53200"), "{error}");
    // What they took is free again.
    assert_eq!(server.run("SELECT length(repeat('x', 30000000))").unwrap(), "30000000");
    std::fs::remove_file(&script).unwrap();
    server.end();
    std::fs::remove_dir_all(&path).unwrap();
}

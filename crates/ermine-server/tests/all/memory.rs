//! Goal: a server with little memory is not killed. Writes fail with 53200 when it is full, reads and deletes go on,
//! and the memory of deleted rows serves new ones; a statement that gathers too much, or a message that is too long,
//! fails alone. The memory counted is the memory taken.
//!
//! Method: `ermined` itself, in an address space that is limited (`RLIMIT_AS`), so that an allocation too many ends it.
//! Its peak memory (`VmHWM`) is compared with the limit.

#![cfg(target_os = "linux")]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
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
            .args(["--create", "--listen", "127.0.0.1:0", "--threads", "4"])
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

    /// Runs a script; returns its output, or its error.
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

    /// Returns the peak of its memory, in bytes.
    fn peak(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
    }

    /// Ends it by SIGTERM; it must not have ended before.
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

/// Returns the number of rows of a kind: few enough to be read in a full database.
fn count(server: &Server, kind: u64) -> u64 {
    server.run(&format!("SELECT count(*) FROM tea WHERE kind = {kind}")).unwrap().parse().unwrap()
}

/// Inserts rows, equally many of each kind, until there is no more room; returns how many.
fn fill(server: &Server) -> u64 {
    let insert =
        "INSERT INTO tea SELECT nextval('numbers'), repeat('leaf', 250), n % 100 FROM generate_series(1, 500) AS s(n)";
    for inserted in 0..1600 {
        if let Err(error) = server.run(insert) {
            assert!(error.contains("53200"), "{error}");
            return inserted * 500;
        }
    }
    panic!("it is never full");
}

#[test]
fn a_full_server_goes_on() {
    for scheme in ["si-ssn", "silo"] {
        let path = directory(scheme);
        // Where rows can be evicted, it is full when indexes are.
        let limit = if scheme == "silo" { "96" } else { "48" };
        let arguments = ["--scheme", scheme, "--memory-limit", limit];
        let server = Server::start(&path, &arguments);
        let create = "CREATE TABLE tea (id bigint PRIMARY KEY, name text, kind int); CREATE INDEX ON tea (kind); \
            CREATE SEQUENCE numbers";
        server.run(create).unwrap();
        let rows = fill(&server);
        println!("{scheme}: full with {rows} rows");
        assert!(rows > 20_000, "{scheme}: {rows}");
        // In several statements, because one that deletes everything keeps everything until it commits.
        for kind in 0..50 {
            server.run(&format!("DELETE FROM tea WHERE kind = {kind}")).unwrap();
        }
        assert_eq!((count(&server, 0), count(&server, 99)), (0, rows / 100));
        // The memory of deleted rows serves new rows, with other keys.
        let again = fill(&server);
        println!("{scheme}: full again with {again} more");
        // Where rows can be evicted, indexes fill the memory, and leaves that are half empty take no keys above theirs: then
        // as many are wanted as there were when rows had to stay in memory.
        let least = if scheme == "silo" { rows * 4 / 10 } else { 20_000 };
        assert!(again >= least, "{scheme}: {again} rows after half of {rows} were deleted");
        server.end();
        let server = Server::start(&path, &arguments);
        assert_eq!((count(&server, 0), count(&server, 99)), (again / 100, (rows + again) / 100));
        // In a full database, dropping a table works, too.
        server.run("CREATE TABLE empty (a int); DROP TABLE empty").unwrap();
        for kind in 0..100 {
            server.run(&format!("DELETE FROM tea WHERE kind = {kind}")).unwrap();
        }
        assert_eq!(count(&server, 99), 0);
        fill(&server);
        server.run("TRUNCATE tea").unwrap();
        // The table's memory is freed in the background.
        let insert = "INSERT INTO tea SELECT n, repeat('leaf', 250), 1 FROM generate_series(1, 500) AS s(n)";
        let mut last = String::new();
        let is_free = (0..600).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(100));
            server.run(insert).map_err(|error| last = error).is_ok()
        });
        assert!(is_free, "{scheme}: nothing is freed after TRUNCATE: {last}");
        server.end();
        std::fs::remove_dir_all(&path).unwrap();
    }
}

/// Bytes that a server may take beside those it counts: its program, stacks, and the overhead of its allocator.
const UNCOUNTED: u64 = 96 << 20;

/// What a statement has gathered goes to a temporary file when the database has no room.
#[test]
fn statements_that_go_on_in_a_file_take_no_more_memory() {
    let big = "FROM generate_series(1, 3000000) AS s(n)";
    for statement in [
        format!("SELECT n, repeat('x', 100) AS t {big} ORDER BY t, n DESC LIMIT 1 OFFSET 2999999"),
        format!("SELECT n {big} ORDER BY n DESC LIMIT 1 OFFSET 2999999"),
        format!("SELECT count(*) FROM (SELECT n::text || 'x', count(*) {big} GROUP BY 1) AS g"),
        format!("SELECT count(*) FROM (SELECT DISTINCT n::text || 'y' {big}) AS d"),
        format!("SELECT count(*) FROM (SELECT n {big} EXCEPT SELECT -n {big}) AS e"),
        format!("WITH c AS (SELECT n, random() {big}) SELECT count(*) FROM c"),
        format!("SELECT count(*) FROM (SELECT n {big}) AS t JOIN (SELECT n {big}) AS u USING (n)"),
    ] {
        let path = directory("file");
        let server = Server::start(&path, &["--memory-limit", "96"]);
        let idle = server.peak();
        server.run(&statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
        let took = (server.peak() - idle) >> 20;
        println!("{took} MiB: {statement}");
        assert!(took <= 96, "{statement} took {took} MiB");
        server.end();
        std::fs::remove_dir_all(&path).unwrap();
    }
}

#[test]
fn statements_that_gather_too_much_fail_alone() {
    let path = directory("statements");
    let server = Server::start(&path, &["--memory-limit", "96"]);
    let big = "FROM generate_series(1, 3000000) AS s(n)";
    let text = "(SELECT repeat('1,', 4000000) || '1')";
    let values = (0..400_000).map(|n| format!("({n})")).collect::<Vec<_>>().join(",");
    for statement in [
        format!("SELECT length(string_agg(n::text, ',' ORDER BY n DESC)) {big}"),
        format!("SELECT length(string_agg(repeat('x', 100), ',')) {big}"),
        format!("SELECT array_length(array_agg(n), 1) {big}"),
        format!("SELECT jsonb_array_length(jsonb_agg(n)) {big}"),
        format!("SELECT length(json_agg(repeat(chr(1), 50))::text) {big}"),
        format!("SELECT count(DISTINCT n) {big}"),
        format!("SELECT array_length(ARRAY(SELECT n {big}), 1)"),
        format!("SELECT cardinality(string_to_array({text}, ','))"),
        format!("SELECT cardinality(('{{' || {text} || '}}')::int[])"),
        format!("SELECT jsonb_array_length(('[' || {text} || ']')::jsonb)"),
        format!("SELECT json_array_length(('[' || {text} || ']')::json)"),
        "SELECT length(to_json(repeat(chr(1), 20000000))::text)".into(),
        "SELECT length(jsonb_pretty((repeat('[', 400) || repeat('1,', 60000) || '1' || repeat(']', 400))::jsonb))"
            .into(),
        "SELECT length(repeat('x', 1000000000))".into(),
        "SELECT length(lpad('x', 200000000, 'yz'))".into(),
        "SELECT length(replace(repeat('x', 20000), 'x', repeat('y', 20000)))".into(),
        "SELECT length(regexp_replace(repeat('x', 20000), 'x', repeat('y', 20000), 'g'))".into(),
        "SELECT length(format(repeat('%1$s', 20000), repeat('x', 20000)))".into(),
        "SELECT length(array_to_string(string_to_array(repeat(',', 20000), ','), repeat('x', 20000)))".into(),
        "SELECT repeat('x', 40000000)".into(),
        "SELECT repeat('x', 20000000)::bytea".into(),
        "COPY (SELECT repeat('x', 20000000)::bytea) TO STDOUT".into(),
        "SET work_mem = '1MB'; SELECT length(repeat('x', 2000000))".into(),
    ] {
        // Alone, in a server that has run nothing else.
        let path = directory("statement");
        let fresh = Server::start(&path, &["--memory-limit", "96"]);
        let idle = fresh.peak();
        let error = fresh.run(&statement).unwrap_err();
        let took = (fresh.peak() - idle) >> 20;
        println!("{took} MiB: {statement}");
        assert!(error.contains("53200"), "{statement}: {error}");
        assert!(took <= 96, "{statement} took {took} MiB");
        fresh.end();
        std::fs::remove_dir_all(&path).unwrap();
        // And after the other statements.
        let error = server.run(&statement).unwrap_err();
        assert!(error.contains("53200"), "{statement}: {error}");
        assert_eq!(server.run("SELECT 1").unwrap(), "1");
    }
    // The parser's tree of a text is not built if it would not fit. The shell sends the text from a file, as an
    // argument could not be so long.
    let script = path.with_extension("sql");
    std::fs::write(&script, format!("SELECT count(*) FROM (VALUES {values}) AS v;")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_ermined"))
        .args(["shell", "--connect", &format!("postgres://ann@127.0.0.1:{}/shop", server.port), "-f"])
        .arg(&script)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && error.contains("53200"), "{error}");
    // All the memory that they took is free again.
    assert_eq!(server.run("SELECT length(repeat('x', 30000000))").unwrap(), "30000000");
    std::fs::remove_file(&script).unwrap();
    server.end();
    std::fs::remove_dir_all(&path).unwrap();
}

#[test]
fn statements_side_by_side_have_one_limit() {
    let path = directory("beside");
    let server = Server::start(&path, &["--memory-limit", "96"]);
    let statement =
        "SELECT n, repeat('x', 50) FROM generate_series(1, 150000) AS s(n) ORDER BY n DESC LIMIT 1 OFFSET 149999";
    std::thread::scope(|scope| {
        let clients: Vec<_> =
            (0..8).map(|_| scope.spawn(|| (0..3).map(|_| server.run(statement)).collect::<Vec<_>>())).collect();
        for done in clients.into_iter().flat_map(|client| client.join().unwrap()) {
            match done {
                Ok(row) => assert!(row.starts_with("1,"), "{row}"),
                Err(error) => assert!(error.contains("53200"), "{error}"),
            }
        }
    });
    assert!(server.peak() < (96 << 20) + UNCOUNTED, "{} MiB", server.peak() >> 20);
    server.run(statement).unwrap();
    server.end();
    std::fs::remove_dir_all(&path).unwrap();
}

/// A client that sends arbitrary messages, and returns the kinds of the replies.
struct Raw(TcpStream);

impl Raw {
    fn connect(server: &Server) -> Self {
        let mut raw = Self(TcpStream::connect(("127.0.0.1", server.port)).unwrap());
        let body = b"\0\x03\0\0user\0ann\0database\0shop\0\0";
        raw.0.write_all(&(body.len() as u32 + 4).to_be_bytes()).unwrap();
        raw.0.write_all(body).unwrap();
        assert_eq!(raw.until_ready(), None);
        raw
    }

    /// Sends the beginning of a message of `length` bytes.
    fn begin(&mut self, kind: u8, length: usize) {
        self.0.write_all(&[kind]).unwrap();
        self.0.write_all(&(length as u32 + 4).to_be_bytes()).unwrap();
    }

    fn send(&mut self, kind: u8, body: &[u8]) {
        self.begin(kind, body.len());
        self.0.write_all(body).unwrap();
    }

    fn query(&mut self, text: &str) -> Option<String> {
        self.send(b'Q', format!("{text}\0").as_bytes());
        self.until_ready()
    }

    /// Reads one message.
    fn next(&mut self) -> (u8, Vec<u8>) {
        let mut header = [0; 5];
        self.0.read_exact(&mut header).unwrap();
        let mut body = vec![0; u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize - 4];
        self.0.read_exact(&mut body).unwrap();
        (header[0], body)
    }

    /// Reads until the server is ready, or asks for copied data; returns the code of an error.
    fn until_ready(&mut self) -> Option<String> {
        let mut state = None;
        loop {
            match self.next() {
                (b'Z' | b'G', _) => return state,
                (b'E', body) => {
                    let fields = body.split(|byte| *byte == 0);
                    let code = fields.into_iter().find_map(|field| field.strip_prefix(b"C"));
                    state = code.map(|code| String::from_utf8_lossy(code).into_owned());
                }
                _ => {}
            }
        }
    }
}

#[test]
fn messages_count_as_they_come() {
    const MESSAGE: usize = 48 << 20;
    let path = directory("messages");
    let server = Server::start(&path, &["--memory-limit", "64"]);
    let out_of_memory = Some("53200".to_owned());
    server.run("CREATE TABLE tea (name text)").unwrap();
    // An announced message takes no memory.
    let before = server.peak();
    let mut announced: Vec<_> = (0..40).map(|_| Raw::connect(&server)).collect();
    for raw in &mut announced {
        raw.begin(b'Q', MESSAGE);
        raw.0.write_all(b"SELECT '").unwrap();
    }
    let mut raw = Raw::connect(&server);
    assert_eq!(raw.query("SELECT 1"), None);
    assert!(server.peak() < before + (32 << 20), "{} MiB, then {} MiB", before >> 20, server.peak() >> 20);
    drop(announced);
    // Received bytes count. A message for which there is no memory fails, and the connection goes on.
    let long = vec![b'x'; MESSAGE];
    for _ in 0..3 {
        raw.send(b'Q', &long);
        assert_eq!(raw.until_ready(), out_of_memory);
        assert_eq!(raw.query("SELECT 1"), None);
        // No other message is executed up to Sync.
        raw.send(b'P', &long);
        raw.send(b'P', b"\0SELECT 2\0\0\0");
        raw.send(b'S', b"");
        assert_eq!(raw.until_ready(), out_of_memory);
        assert_eq!(raw.query("SELECT 1"), None);
        // A piece of a COPY.
        assert_eq!(raw.query("COPY tea FROM STDIN"), None);
        raw.send(b'd', &long);
        raw.send(b'c', b"");
        assert_eq!(raw.until_ready(), out_of_memory);
        assert_eq!(raw.query("SELECT 1"), None);
    }
    // Parameters held in portals.
    raw.send(b'P', b"s\0SELECT length($1::text)\0\0\0");
    for portal in 0..8 {
        let text = vec![b'x'; 10 << 20];
        let name = format!("portal {portal}\0s\0");
        let mut body = [name.as_bytes(), &[0, 0, 0, 1], &(text.len() as u32).to_be_bytes()].concat();
        body.extend(text);
        body.extend([0, 0]);
        raw.send(b'B', &body);
    }
    raw.send(b'S', b"");
    assert_eq!(raw.until_ready(), out_of_memory);
    assert_eq!(raw.query("SELECT length(repeat('x', 10000000))"), None);
    assert!(server.peak() < (64 << 20) + UNCOUNTED, "{} MiB", server.peak() >> 20);
    assert_eq!(server.run("SELECT count(*) FROM tea").unwrap(), "0");
    server.end();
    std::fs::remove_dir_all(&path).unwrap();
}

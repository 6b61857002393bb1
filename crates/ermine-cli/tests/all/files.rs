//! Benchmarks on directories and `ermine inspect` as commands: their output, and their exit codes.

use std::{
    fs, io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// A directory of its own for each test, removed at its end.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn ermine(&self, line: &str) -> (Option<i32>, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ermine"));
        let output = command.current_dir(&self.0).args(line.split_whitespace()).output().unwrap();
        let Output { status, stdout, stderr } = output;
        (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
    }

    /// Damages a record in the log of a single-version scheme, in the directory `db`; returns the place.
    pub fn damage_a_record(&self) -> (String, u64) {
        let (_, out, _) = self.ermine("inspect log db --json");
        let lines = out.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let line = lines.filter(|line| line["record"].is_object()).nth(100).unwrap();
        let record = &line["record"];
        let (file, position) = (record["file"].as_str().unwrap(), record["position"].as_u64().unwrap());
        let log = fs::File::options().write(true).open(self.0.join("db").join(file)).unwrap();
        log.write_all_at(b"\xff\xff", position + 5).unwrap();
        (file.to_owned(), position)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub const TPCC: &str = "bench tpcc --scale small --threads 2 --warmup 0 --seconds 0.3 --dir db";

#[test]
fn a_benchmark_on_a_directory_reports_its_log_and_is_gone_on_with() {
    let scratch = Scratch::new("bench-directory");
    let (code, out, err) = scratch.ermine(&format!("{TPCC} --outstanding 5 --json report --acknowledge orders"));
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("in db, durable, up to 5 outstanding commits a thread"), "{out}");
    assert!(out.contains("log          ") && out.contains("bytes a transaction"), "{out}");
    let report: serde_json::Value = serde_json::from_slice(&fs::read(scratch.0.join("report")).unwrap()).unwrap();
    assert_eq!(report["options"]["storage"]["durability"], "durable");
    assert_eq!(report["options"]["storage"]["outstanding"], 5);
    assert!(report["log"]["bytes_per_transaction"].as_f64().unwrap() > 100.0, "{report}");
    assert!(report["total"]["latency"]["p50_us"].as_f64().unwrap() > 0.0);

    let (code, _, err) = scratch.ermine(TPCC);
    assert_eq!(code, Some(2));
    assert!(err.contains("db is not empty"), "{err}");
    let (code, out, err) = scratch.ermine(&format!("{TPCC} --keep --expect orders --durability async"));
    assert_eq!(code, Some(0), "{err}\n{out}");
    assert!(err.contains("opened in") && err.contains("conditions after the opening"), "{err}");
    // An order that was never made.
    fs::write(scratch.0.join("orders"), "1 1 4000000000 5\n").unwrap();
    let (code, out, _) = scratch.ermine(&format!("{TPCC} --keep --expect orders"));
    assert_eq!(code, Some(1));
    assert!(out.contains("FAIL  acknowledged"), "{out}");
    let (code, _, err) = scratch.ermine(&format!("{TPCC} --keep --warehouses 3"));
    assert_eq!(code, Some(2));
    assert!(err.contains("another number of warehouses"), "{err}");
}

#[test]
fn every_workload_runs_on_a_directory() {
    let scratch = Scratch::new("bench-workloads");
    for (number, line) in [
        "sibench --records 100",
        "write-skew",
        "batch --durability async",
        "stock --records 1000 --reads 10 --scheme si,si-ssn --rounds 1",
        "read-mostly --rows 1000 --scheme si-ssn --rounds 1 --outstanding 1",
        "micro --records 1000 --operation mixed",
        "credit-check --scale small --durability none",
    ]
    .iter()
    .enumerate()
    {
        let line = format!("bench {line} --threads 2 --warmup 0 --seconds 0.2 --dir {number}");
        let (code, out, err) = scratch.ermine(&line);
        assert_eq!(code, Some(0), "{line}\n{err}\n{out}");
        assert!(out.contains(&format!("in {number}, ")), "{line}\n{out}");
        assert!(out.contains("bytes a transaction"), "{line}\n{out}");
    }
    assert!(scratch.0.join("3/si-ssn").is_dir(), "each scheme has a directory of its own");
    let (code, out, err) = scratch.ermine("bench commit-latency --clients 2 --seconds 0.1 --dir latency");
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("2 clients, half load") && out.contains("plain overwrite and sync"), "{out}");
}

#[test]
fn a_damaged_log_is_shown_and_the_exit_code_says_so() {
    let scratch = Scratch::new("inspect");
    assert_eq!(scratch.ermine(TPCC).0, Some(0));
    let (code, out, err) = scratch.ermine("inspect log db --summary");
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("the log ends") && out.contains("nothing is damaged"), "{out}");
    let (_, out, _) = scratch.ermine("inspect log db --records");
    assert!(out.contains("insert  table 0 row 0 key "), "{out}");
    // A block in the middle of the log.
    let (_, out, _) = scratch.ermine("inspect log db --json");
    let lines = out.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let block = lines.filter(|line| line["block"]["kind"] == "commit").nth(100).unwrap();
    let (file, position) = (block["block"]["file"].as_str().unwrap(), block["block"]["position"].as_u64().unwrap());
    let segment = fs::File::options().write(true).open(scratch.0.join("db").join(file)).unwrap();
    segment.write_all_at(b"\xff\xff", position + 5).unwrap();
    let (code, out, _) = scratch.ermine(&format!("inspect log db --summary --segment {file}"));
    assert_eq!(code, Some(1));
    assert!(out.contains("DAMAGE: the log had been durable here") && out.contains(&position.to_string()), "{out}");
    // Recovery needs the block's head from here if no copy of it is left.
    let copy = file.replacen("log", "heads", 1);
    match fs::remove_file(scratch.0.join("db").join(copy)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => panic!("{error}"),
        _ => {}
    }
    let (code, _, err) = scratch.ermine(&format!("{TPCC} --keep"));
    assert_eq!(code, Some(1));
    assert!(err.contains(file) && err.contains(&format!("byte {position}")), "{err}");
    assert_eq!(scratch.ermine("inspect log nowhere").0, Some(2));
    assert_eq!(scratch.ermine("inspect log db --segment nothing").0, Some(2));
}

#[test]
fn a_directory_of_a_single_version_scheme_is_verified_and_shown() {
    let scratch = Scratch::new("silo");
    let (code, _, err) = scratch.ermine(&TPCC.replace("tpcc", "tpcc --scheme silo"));
    assert_eq!(code, Some(0), "{err}");
    let (code, out, err) = scratch.ermine("verify db");
    assert_eq!(code, Some(0), "{err}\n{out}");
    assert!(out.contains("nothing is wrong: 9 tables") && out.contains("log records up to epoch"), "{out}");
    let (code, out, err) = scratch.ermine("inspect log db --summary");
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("generation 1, file 1") && out.contains("nothing is damaged"), "{out}");
    let (code, _, err) = scratch.ermine("inspect checkpoint db");
    assert_eq!(code, Some(0), "{err}");
    let (file, position) = scratch.damage_a_record();
    for line in [format!("inspect log db --summary --segment {file}"), "verify db".into()] {
        let (code, out, _) = scratch.ermine(&line);
        assert_eq!(code, Some(1), "{out}");
        assert!(out.contains("no whole record") && out.contains(&position.to_string()), "{out}");
    }
    let (code, _, err) = scratch.ermine("backup db copy");
    assert_eq!(code, Some(1));
    assert!(err.contains(&file), "{err}");
}

#[test]
fn a_database_of_a_single_version_scheme_is_copied_and_restored() {
    let scratch = Scratch::new("silo-backup");
    let tpcc = TPCC.replace("tpcc", "tpcc --scheme silo --log-dir first --log-dir second");
    let (code, _, err) = scratch.ermine(&tpcc);
    assert_eq!(code, Some(0), "{err}");
    let (code, out, err) = scratch.ermine("backup db copy --archive archive --log-dir first --log-dir second");
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("has everything below"), "{out}");
    let (code, out, err) = scratch.ermine("restore copy back --archive archive");
    assert_eq!(code, Some(0), "{err}\n{out}");
    for directory in ["copy", "back"] {
        let (code, out, _) = scratch.ermine(&format!("verify {directory}"));
        assert!(code == Some(0) && out.contains("nothing is wrong: 9 tables"), "{out}");
    }
    let (code, _, err) = scratch.ermine("restore copy back");
    assert_eq!(code, Some(1));
    assert!(err.contains("is not empty"), "{err}");
}

#[test]
fn what_is_tuned_is_reported_and_works() {
    let scratch = Scratch::new("tuned");
    let micro =
        "bench micro --scheme silo --records 1000 --operation mixed --index hash --threads 2 --warmup 0 --seconds 0.2";
    let (code, out, err) = scratch.ermine(&format!(
        "{micro} --dir db --log-dir first --log-dir second --epoch-interval 0.5 --checkpoint-after 64"
    ));
    assert_eq!(code, Some(0), "{err}\n{out}");
    assert!(out.contains("2 log directories, epochs of 500µs, a checkpoint after 64.0 MiB of log"), "{out}");
    assert!(out.contains("Hash"), "{out}");
    // A log belongs to a worker, and the second worker is made when two transactions overlap: on a busy machine they
    // may not, and the second directory stays empty.
    assert!(fs::read_dir(scratch.0.join("first")).unwrap().count() > 0);
    assert!(scratch.0.join("second").is_dir());
    let (code, out, _) = scratch.ermine("verify db --log-dir first --log-dir second");
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains("1000 rows"), "{out}");
    assert_eq!(scratch.ermine("verify db").0, Some(1));
    let (code, _, err) = scratch.ermine(&format!("{micro} --dir another --log-dir first"));
    assert_eq!(code, Some(2));
    assert!(err.contains("first is not empty"), "{err}");
    let (code, _, err) = scratch.ermine("bench micro --scheme si --dir another --log-dir another-log");
    assert_eq!(code, Some(2));
    assert!(err.contains("--log-dir means nothing under si"), "{err}");
    let line =
        "bench stock --records 1000 --reads 10 --scheme silo,2pl-wdl --rounds 1 --threads 2 --warmup 0 --seconds 0.2";
    let (code, out, err) = scratch.ermine(&format!("{line} --dir several --log-dir several-log --wait-max 5"));
    assert_eq!(code, Some(0), "{err}\n{out}");
    assert!(scratch.0.join("several-log/2pl-wdl").is_dir() && out.contains("waits of up to 5ms"), "{out}");
}

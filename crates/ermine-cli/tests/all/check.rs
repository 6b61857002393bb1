//! `ermine check` as a command: its output, the files it writes, and its exit codes.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// A history that is not serializable.
pub const SKEW: &str = r#"{"format":"ermine-history","version":1,"tables":[{"table":0,"name":"accounts"}]}
{"begin":5,"commit":10,"ops":[{"op":"read","table":0,"key":"61","version":{"at":1},"value":"7"},{"op":"write","table":0,"key":"62","value":"8"}]}
{"begin":5,"commit":11,"ops":[{"op":"read","table":0,"key":"62","version":{"at":1},"value":"7"},{"op":"write","table":0,"key":"61","value":"8"}]}
"#;

/// A folder of its own for each test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn check(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ermine"));
    let Output { status, stdout, stderr } = command.current_dir(folder).arg("check").args(arguments).output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

#[test]
fn the_exit_code_says_whether_the_expected_level_holds() {
    let folder = folder("exit-code");
    fs::write(folder.join("skew.jsonl"), SKEW).unwrap();
    let (code, out, _) = check(&folder, &["skew.jsonl"]);
    assert_eq!(code, Some(1));
    assert!(out.contains("serializable                BROKEN by G2-item") && out.contains("accounts \"a\""), "{out}");
    assert_eq!(check(&folder, &["skew.jsonl", "--expect", "si"]).0, Some(0));
}

/// T1 reads a value that T2 had overwritten before T1 began.
const STALE: &str = r#"{"format":"ermine-history","version":2,"tables":[{"table":0,"name":"accounts"}]}
{"begin":5,"commit":10,"process":1,"began":0,"ended":1,"ops":[{"op":"write","table":0,"key":"61","value":"8"}]}
{"begin":5,"commit":6,"process":2,"began":2,"ended":3,"ops":[{"op":"read","table":0,"key":"61","version":{"at":1},"value":"7"}]}
"#;

#[test]
fn real_time_order_is_judged_where_the_history_tells_it() {
    let folder = folder("real-time");
    fs::write(folder.join("stale.jsonl"), STALE).unwrap();
    assert_eq!(check(&folder, &["stale.jsonl"]).0, Some(0));
    assert_eq!(check(&folder, &["stale.jsonl", "--expect", "strong-session-serializable"]).0, Some(0));
    let (code, out, _) = check(&folder, &["stale.jsonl", "--expect", "strict-serializable"]);
    assert_eq!(code, Some(1));
    assert!(out.contains("strict serializable         BROKEN by G-single-realtime"), "{out}");
    // The exported history is in the same order.
    check(&folder, &["stale.jsonl", "--export", "stale.edn"]);
    assert_eq!(check(&folder, &["stale.edn", "--expect", "strict-serializable"]).0, Some(1));
    fs::write(folder.join("skew.jsonl"), SKEW).unwrap();
    let (code, _, error) = check(&folder, &["skew.jsonl", "--expect", "strict-serializable"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("skew.jsonl: strict serializable cannot be judged"), "{error}");
}

#[test]
fn json_and_the_export_are_judged_the_same() {
    let folder = folder("export");
    fs::write(folder.join("skew.jsonl"), SKEW).unwrap();
    let (_, out, _) = check(&folder, &["skew.jsonl", "--json", "-", "--export", "skew.edn"]);
    assert!(out.starts_with('{') && out.contains("\"kind\": \"G2-item\""), "{out}");
    let (code, out, _) = check(&folder, &["skew.edn"]);
    assert_eq!(code, Some(1));
    assert!(out.starts_with("rw-register: 2 committed") && out.contains("BROKEN by G2-item"), "{out}");
}

#[test]
fn what_cannot_be_read_is_refused() {
    let folder = folder("refused");
    fs::write(folder.join("bad.jsonl"), SKEW.replace("\"op\":\"write\"", "\"op\":\"scribble\"")).unwrap();
    let (code, _, error) = check(&folder, &["bad.jsonl"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("bad.jsonl: line 2: unknown variant `scribble`"), "{error}");
    assert_eq!(check(&folder, &["nowhere.jsonl"]).0, Some(2));
    assert_eq!(check(&folder, &["bad.jsonl", "--format", "elle-list-append"]).0, Some(2));
}

//! A standard output that fails: a reader that has closed it changes no exit status, any other failure is an error.

use std::{
    fs::{self, File},
    io,
    process::{Command, Output, Stdio},
};

use crate::{
    check::SKEW,
    files::{Scratch, TPCC},
};

/// Runs a command line with this output; returns the exit status and the errors.
fn run(scratch: &Scratch, line: &str, output: impl Into<Stdio>) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ermine"));
    let child = command.current_dir(&scratch.0).args(line.split_whitespace()).stdout(output).stderr(Stdio::piped());
    let Output { status, stderr, .. } = child.spawn().unwrap().wait_with_output().unwrap();
    (status.code(), String::from_utf8(stderr).unwrap())
}

/// Runs a command line whose output nothing reads.
fn run_without_reader(scratch: &Scratch, line: &str) -> (Option<i32>, String) {
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    run(scratch, line, writer)
}

const CHECK: &str = "check skew.jsonl";

#[test]
fn a_reader_that_has_closed_the_output_changes_no_exit_status() {
    let scratch = Scratch::new("closed-output");
    fs::write(scratch.0.join("skew.jsonl"), SKEW).unwrap();
    let has_status = |expected: i32, line: &str| {
        let (code, err) = run_without_reader(&scratch, line);
        assert!(
            code == Some(expected) && !err.contains("panicked") && !err.contains("error:"),
            "{line}: {code:?} {err}"
        );
    };
    has_status(0, &TPCC.replace("tpcc", "tpcc --scheme silo --check"));
    for line in [
        "verify db",
        "verify db --json",
        "inspect log db",
        "inspect checkpoint db",
        "sim run --transactions 100",
        "sim run --transactions 100 --csv -",
        "sim htm-size --transactions 10",
        "completions bash",
    ] {
        has_status(0, line);
    }
    scratch.damage_a_record();
    for line in ["verify db", "verify db --json", CHECK, &format!("{CHECK} --json -")] {
        has_status(1, line);
    }
}

#[test]
fn an_output_that_cannot_be_written_is_an_error() {
    let scratch = Scratch::new("full-output");
    fs::write(scratch.0.join("skew.jsonl"), SKEW).unwrap();
    assert_eq!(scratch.ermine(&TPCC.replace("tpcc", "tpcc --scheme silo")).0, Some(0));
    for line in [
        "verify db",
        "verify db --json",
        "inspect log db",
        "inspect checkpoint db",
        "sim run --transactions 100",
        "sim htm-size --transactions 10 --html -",
        "completions bash",
        CHECK,
        "backup db copy",
        "inspect checkpoint copy",
        "restore copy back",
    ] {
        let (code, err) = run(&scratch, line, File::options().write(true).open("/dev/full").unwrap());
        let is_told = err.contains("error: cannot write to the standard output: ") && !err.contains("panicked");
        assert!(code == Some(1) && is_told, "{line}: {code:?} {err}");
    }
}

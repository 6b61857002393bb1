//! `ermine bench .. --check`: the judge finds the anomaly that a workload is known for, and nothing under a
//! serializable scheme.

use std::process::{Command, Output};

/// Number of runs tried if an anomaly is expected, which is a matter of chance in each.
const TRIES: u32 = 30;

/// Runs SmallBank with much contention; returns the report of the judge.
fn smallbank(scheme: &str, seed: u32) -> String {
    let line = format!(
        "bench smallbank --scheme {scheme} --seed {seed} --customers 10 --hot-customers 2 --hot-percent 100 --pause \
         yield --threads 4 --rounds 1 --seconds 0.2 --warmup 0 --check"
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_ermine"));
    let Output { status, stdout, stderr } = command.args(line.split_whitespace()).output().unwrap();
    let (out, error) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    assert!(status.success(), "{scheme}: {out}{error}");
    assert!(out.contains("everything promised holds"), "{out}");
    out
}

#[test]
fn smallbank_is_not_serializable_under_snapshot_isolation() {
    let broken = "serializable                BROKEN by G2-item";
    let found = (1..=TRIES).any(|seed| smallbank("si", seed).contains(broken));
    assert!(found, "{TRIES} runs under si were serializable");
    for scheme in ["si-ssn", "si-ssi"] {
        let out = smallbank(scheme, 1);
        assert!(!out.contains("BROKEN"), "{scheme}: {out}");
    }
}

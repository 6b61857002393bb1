//! `ermine sim` as a command: its output, the files it writes, and its exit codes.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

fn sim(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ermine"));
    let Output { status, stdout, stderr } = command.arg("sim").args(arguments).output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

#[test]
fn schemes_are_compared_in_a_table() {
    let (code, out, _) = sim(&["run", "--transactions", "500"]);
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains("group 1: 30:8-12:25%, 500 transactions offered") && out.contains("\nRCL+SSN"), "{out}");
    let groups = ["--group", "10:8-12:100%", "--group", "10:100-200:0@500"];
    let (code, out, _) = sim(&[&["run", "--transactions", "100000", "--scheme", "si,si-ssn"][..], &groups].concat());
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains("group 2: 10:100-200:0@500,") && out.contains("\n  group 2"), "{out}");
    assert!(out.lines().all(|line| line.chars().count() <= 95), "{out}");
    let (_, json, _) = sim(&["run", "--transactions", "500", "--scheme", "2pl", "--json", "-"]);
    assert!(json.starts_with('{') && json.contains("\"wait_depth\""), "{json}");
}

#[test]
fn figures_are_written_to_files() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("figures");
    fs::create_dir_all(&folder).unwrap();
    let path = |name: &str| folder.join(name).into_os_string().into_string().unwrap();
    let (csv, svg) = (path("6.csv"), path("6.svg"));
    let files = ["--csv", &csv, "--svg", &svg];
    let (code, out, _) =
        sim(&[&["figure", "6", "--quick", "--seeds", "2", "--transactions", "300"][..], &files].concat());
    assert_eq!(code, Some(0));
    assert!(out.contains("several versions\n") && out.contains("\nspread"), "{out}");
    let (csv, svg) = (fs::read_to_string(csv).unwrap(), fs::read_to_string(svg).unwrap());
    assert!(csv.starts_with("figure,panel,curve,x,mean,min,max\n6,single version,2PL,50,"), "{csv}");
    assert!(svg.starts_with("<svg") && svg.contains("RCL+SSN"));
}

#[test]
fn requests_that_cannot_work_are_refused() {
    for (arguments, reason) in [
        (&["run", "--records", "0"][..], "the number of records lies between"),
        (&["run", "--load", "0"], "the load lies between"),
        (&["run", "--scheme", "silo"], "there is no scheme \"silo\"; the simulator has 2pl,"),
        (&["run", "--group", "1:5:9"], "there are more writes than accesses"),
        (&["figure", "5"], "use 6, 7, 8 or 9"),
    ] {
        let (code, _, error) = sim(arguments);
        assert_eq!(code, Some(2), "{arguments:?}");
        assert!(error.contains(reason), "{error}");
    }
}

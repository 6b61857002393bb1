//! `--html` and `--csv` of every verb that measures or simulates.
//!
//! Each verb runs in a short form. Its page loads nothing, every number of the text that the same run prints is on it,
//! and the numbers of the page are in the comma-separated values, which all have the same columns.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// A directory of its own for a test.
fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages").join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Runs a verb; returns its text, its page and its comma-separated values. `DIR` in the line is an empty directory.
fn run(test: &str, line: &str) -> (String, String, String) {
    let folder = folder(test);
    let directory = folder.join("database").into_os_string().into_string().unwrap();
    let (html, csv) = (folder.join("page.html"), folder.join("page.csv"));
    let arguments = line.split_whitespace().map(|word| if word == "DIR" { &directory } else { word });
    let mut command = Command::new(env!("CARGO_BIN_EXE_ermine"));
    command.args(arguments).arg("--html").arg(&html).arg("--csv").arg(&csv);
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = String::from_utf8(stdout).unwrap();
    assert!(status.success(), "{line}: {text}{}", String::from_utf8_lossy(&stderr));
    (text, fs::read_to_string(html).unwrap(), fs::read_to_string(csv).unwrap())
}

/// The words of a text that have digits in them, without what stands around them.
fn numbers(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split_whitespace().map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()));
    words.filter(|word| word.contains(|c: char| c.is_ascii_digit()))
}

fn assert_loads_nothing(page: &str) {
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    for loading in ["http:", "https:", "src=", "@import", "url(", "<script", "<iframe"] {
        assert!(!page.contains(loading), "{loading}");
    }
}

fn check(test: &str, line: &str) {
    let (text, page, csv) = run(test, line);
    assert_loads_nothing(&page);
    assert!(page.contains("<svg ") || page.contains("class=\"bars\""), "{line}: nothing is drawn");
    for number in numbers(&text) {
        assert!(page.contains(number), "{line}: {number} is not on the page");
    }
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some("section,series,x,value,low,high"));
    assert!(lines.clone().count() > 3, "{line}: {csv}");
    assert!(lines.all(|line| line.matches(',').count() >= 5), "{csv}");
}

const SHORT: &str = "--threads 2 --seconds 1.2 --warmup 0.1";

#[test]
fn mixes_have_pages() {
    check("tpcc", &format!("bench tpcc {SHORT} --scale small --dir DIR --checkpoint-after 1 --explain-aborts"));
    check("credit-check", &format!("bench credit-check {SHORT} --scale small --warehouses 1"));
    let schemes = "--scheme si,si-ssn --rounds 2";
    check("brokerage", &format!("bench brokerage {SHORT} --scale small --initial-trades 10 {schemes}"));
    check("smallbank", &format!("bench smallbank {SHORT} --customers 100 --hot-customers 10 {schemes} --dir DIR"));
    check("tatp", &format!("bench tatp {SHORT} --subscribers 100 {schemes}"));
    check("ycsb", &format!("bench ycsb {SHORT} --records 100 --workload a,f {schemes}"));
}

#[test]
fn workloads_for_certifiers_have_pages() {
    let schemes = "--scheme si,si-ssn --rounds 1";
    check("sibench", &format!("bench sibench {SHORT} --records 50"));
    check("write-skew", &format!("bench write-skew {SHORT} --scheme si"));
    check("batch", &format!("bench batch {SHORT}"));
    check("stock", &format!("bench stock {SHORT} --records 1000 --reads 10,100 {schemes}"));
    check("read-mostly", &format!("bench read-mostly {SHORT} --rows 1000 --explain-aborts {schemes}"));
}

#[test]
fn measurements_of_the_engine_have_pages() {
    check("micro", &format!("bench micro {SHORT} --records 1000"));
    check("index", "bench index --keys 5000 --seconds 0.01 --rounds 2");
    check("commit-latency", "bench commit-latency --dir DIR --clients 2 --seconds 0.1");
    check("changes", "bench changes --dir DIR --rows 100 --transactions 500 --rounds 2");
    check("standby", "bench standby --dir DIR --warehouses 1 --seconds 0.1 --rounds 1");
    check("recovery", "bench recovery --dir DIR --rows 100 --log-mib 1");
    check("churn", "bench churn --threads 2 --rows 10000 --seconds 8");
}

#[test]
fn simulations_have_pages() {
    check("sim", "sim run --transactions 500");
    check("groups", "sim run --transactions 2000 --scheme si,si-ssn --group 10:8-12:100% --group 10:100-200:0@500");
    let (text, page, csv) = run("figure", "sim figure 8 --quick --seeds 2 --transactions 300");
    assert_loads_nothing(&page);
    assert_eq!(page.matches("<svg ").count(), 2);
    for name in ["figure 8: Readers beside ten writers", "single version", "RCL+SSN read", "class=\"key dashed\""] {
        assert!(page.contains(name), "{name}");
    }
    assert!(text.contains("figure 8: Readers beside ten writers") && csv.starts_with("figure,panel,curve,x,mean"));
}

#[test]
fn a_page_on_the_standard_output_is_alone_there() {
    let line = "sim run --transactions 300 --scheme 2pl --html -";
    let mut command = Command::new(env!("CARGO_BIN_EXE_ermine"));
    let Output { status, stdout, .. } = command.args(line.split_whitespace()).output().unwrap();
    assert!(status.success());
    assert_loads_nothing(&String::from_utf8(stdout).unwrap());
}

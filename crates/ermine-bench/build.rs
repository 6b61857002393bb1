//! Notes the commit that is being built, so that every report can name it.

use std::process::Command;

fn main() {
    println!("cargo::rustc-env=ERMINE_COMMIT={}", commit().unwrap_or_else(|| "unknown".into()));
    for path in ["build.rs", "src", "../ermine/src", "../ermine-cli/src"] {
        println!("cargo::rerun-if-changed={path}");
    }
    // Every commit and checkout adds a line to this file.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
}

/// The commit, marked if the sources differ from it.
fn commit() -> Option<String> {
    let hash = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Some(if changed.is_empty() { hash } else { format!("{hash}-changed") })
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

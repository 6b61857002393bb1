//! The `ermined` command as a process.

use std::{
    fs::{self, File},
    io,
    path::PathBuf,
    process::{Command, Stdio},
};

use super::{
    process::{Directory, Serving, ermined, finish, output},
    raw::{Raw, startup},
};

#[test]
fn a_server_is_started_and_ended() {
    let directory = Directory::new("serve");
    let mut serving = Serving::start(&directory.0, &[]);
    drop(Raw::open(serving.address));
    serving.signal("TERM");
    assert!(serving.child.wait().unwrap().success());
    assert!(serving.rest().contains("all clients are gone"));
}

#[test]
fn users_are_asked_for_passwords_once_there_are_some() {
    let directory = Directory::new("users");
    let path = directory.path();
    let user = |arguments: &[&str], input: &str| {
        let (ended, text) = output(&[&["user"], arguments].concat(), input);
        (ended.status.code(), text)
    };
    let said = |text: &str| (Some(0), text.to_owned());
    for nobody in [&["list", path][..], &["drop", "eva", path], &["add", "eva", path]] {
        let (code, text) = user(nobody, "");
        assert!(code == Some(2) && text.contains("no database"), "{text}");
    }
    assert_eq!(std::fs::read_dir(path).unwrap().count(), 0, "nothing is made");
    assert!(output(&["init", path], "").0.status.success());
    assert_eq!(user(&["add", "eva", path], "pen\n"), said("eva may log in\n"));
    assert_eq!(user(&["add", "eva", path], "pencil\n"), said("eva has another password\n"));
    assert_eq!(user(&["add", "Ad\"am", path], "x\n"), said("Ad\"am may log in\n"));
    assert_eq!(user(&["list", path], ""), said("Ad\"am\neva\n"));
    assert_eq!(user(&["drop", "Ad\"am", path], ""), said("Ad\"am is gone\n"));
    let (code, text) = user(&["drop", "adam", path], "");
    assert!(code == Some(1) && text.contains("role \"adam\" does not exist"), "{text}");
    let serving = Serving::start(&directory.0, &[]);
    let mut raw = Raw::open(serving.address);
    raw.send(&[startup(0, &[("user", "eva")])]);
    assert_eq!(raw.next().map(|message| crate::raw::short(&message)).unwrap(), "SASL([\"SCRAM-SHA-256\"])");
    let (code, text) = user(&["add", "eva", path], "other\n");
    assert!(code == Some(1) && text.contains("in use by process") && text.contains("CREATE USER"), "{text}");
}

#[test]
fn what_cannot_work_is_said() {
    let directory = Directory::new("usage");
    let path = directory.path();
    for (arguments, code, wanted) in [
        (&["serve", path][..], 2, "there is no database in"),
        (&["serve", "/missing"], 2, "`ermined init /missing` makes one"),
        (&["shell", path, "-c", "SELECT 1"], 2, "`ermined init"),
        (&["init", "/missing/too"], 1, "/missing/too"),
        (&["init", path], 0, "a new database is in"),
        (&["init", path], 2, "already"),
        (&["serve", path, "--listen", "0.0.0.0:0"], 2, "without users"),
        (&["serve", path, "--listen", "nowhere"], 2, "invalid value"),
        (&["serve", path, "--tls-cert", "a"], 2, "--tls-key"),
        (&["serve", path, "--tls-cert", "/missing", "--tls-key", "/missing"], 1, "/missing"),
        (&["user", "add", "eva", "/missing"], 2, "no database in /missing"),
        (&["user", "add", "eva", path], 2, "cannot be empty"),
    ] {
        let (output, text) = output(arguments, "\n");
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        assert!(text.contains(wanted), "{arguments:?}: {text}");
    }
}

/// A library that is loaded before libc, with which every sync fails while a file exists: as a device that has failed.
fn failing_syncs(directory: &Directory) -> PathBuf {
    const SOURCE: &str = r#"
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <errno.h>
        #include <stdlib.h>
        #include <unistd.h>
        static int synced(const char *name, int file) {
            if (access(getenv("SYNCS_FAIL_IF"), F_OK) == 0) { errno = EIO; return -1; }
            return ((int (*)(int))dlsym(RTLD_NEXT, name))(file);
        }
        int fsync(int file) { return synced("fsync", file); }
        int fdatasync(int file) { return synced("fdatasync", file); }
    "#;
    let library = directory.0.join("failing_syncs.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-x", "c", "-", "-ldl", "-o"]).arg(&library).stdin(Stdio::piped());
    assert!(finish(&mut compiler, SOURCE).status.success());
    library
}

#[test]
fn a_server_whose_device_fails_ends_with_status_1() {
    for scheme in ["si-ssn", "silo"] {
        let (directory, more) = (Directory::new("device"), Directory::new("switch"));
        let (library, switch) = (failing_syncs(&more), more.0.join("fail"));
        let environment = [("LD_PRELOAD", &*library), ("SYNCS_FAIL_IF", &*switch)];
        let mut serving = Serving::start_with(&directory.0, &["--scheme", scheme], &environment);
        let url = format!("postgres://ann@127.0.0.1:{}/shop", serving.address.port());
        let sql = |sql: &str| output(&["shell", "--connect", &url, "-c", sql], "");
        let (ended, text) = sql("CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1)");
        assert!(ended.status.success(), "{scheme}: {text}");

        std::fs::write(&switch, "").unwrap();
        let (ended, text) = sql("INSERT INTO t VALUES (2)");
        assert!(!ended.status.success(), "{scheme}: a commit without a sync was acknowledged: {text}");
        assert_eq!(serving.child.wait().unwrap().code(), Some(1), "{scheme}");
        let said = serving.rest();
        assert!(said.contains("error:") && said.contains("os error 5"), "{scheme}: {said}");

        // What had been acknowledged exists; the refused row may.
        std::fs::remove_file(&switch).unwrap();
        let serving = Serving::start(&directory.0, &["--scheme", scheme]);
        let url = format!("postgres://ann@127.0.0.1:{}/shop", serving.address.port());
        let (ended, text) = output(&["shell", "--connect", &url, "-c", "SELECT a FROM t WHERE a = 1"], "");
        assert!(ended.status.success() && text.contains("(1 row)"), "{scheme}: {text}");
    }
}

/// `verify` finds a scheme that can read the rows.
#[test]
fn a_database_of_any_scheme_is_verified() {
    for scheme in ["si-ssn", "silo"] {
        let directory = Directory::new("verified");
        let mut serving = Serving::start(&directory.0, &["--scheme", scheme]);
        let url = format!("postgres://ann@127.0.0.1:{}/shop", serving.address.port());
        let sql = "CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1), (2)";
        let (ended, text) = output(&["shell", "--connect", &url, "-c", sql], "");
        assert!(ended.status.success(), "{scheme}: {text}");
        serving.signal("TERM");
        assert!(serving.child.wait().unwrap().success(), "{scheme}");
        let (ended, text) = output(&["verify", directory.path()], "");
        assert!(ended.status.success() && text.contains("1 tables of SQL, 2 rows"), "{scheme}: {text}");
    }
}

/// Runs a verb with this output; returns the exit status and the errors.
fn run(arguments: &[&str], output: impl Into<Stdio>) -> (Option<i32>, String) {
    let ended = finish(ermined(arguments).stdout(output), "pencil\n");
    (ended.status.code(), String::from_utf8(ended.stderr).unwrap())
}

#[test]
fn a_reader_that_has_closed_the_output_changes_no_exit_status() {
    let directory = Directory::new("closed-output");
    let path = directory.path();
    let has_status = |expected: i32, arguments: &[&str]| {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let (code, err) = run(arguments, writer);
        assert!(code == Some(expected) && err.is_empty(), "{arguments:?}: {code:?} {err}");
    };
    for arguments in [
        &["init", path, "--config"][..],
        &["user", "add", "eva", path],
        &["user", "list", path],
        &["config", "show", path],
        &["verify", path],
        &["upgrade", path],
        &["completions", "bash"],
    ] {
        has_status(0, arguments);
    }
    assert_eq!(output(&["user", "list", path], "").1, "eva\n");
    let files = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let checkpoints = files.filter(|file| file.file_name().unwrap().to_string_lossy().starts_with("checkpoint-"));
    for file in checkpoints {
        let mut bytes = fs::read(&file).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0xff;
        fs::write(file, bytes).unwrap();
    }
    has_status(1, &["verify", path]);
}

#[test]
fn an_output_that_cannot_be_written_is_an_error() {
    let directory = Directory::new("full-output");
    let path = directory.path();
    assert!(output(&["init", path, "--config"], "").0.status.success());
    assert!(output(&["user", "add", "eva", path], "pencil\n").0.status.success());
    for arguments in [
        &["user", "list", path][..],
        &["config", "show", path],
        &["verify", path],
        &["upgrade", path],
        &["completions", "bash"],
    ] {
        let (code, err) = run(arguments, File::options().write(true).open("/dev/full").unwrap());
        let is_told = err.starts_with("error: cannot write to the standard output: ") && err.lines().count() == 1;
        assert!(code == Some(1) && is_told, "{arguments:?}: {code:?} {err}");
    }
}

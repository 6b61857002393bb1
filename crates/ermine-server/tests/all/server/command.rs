//! The `ermined` command as a process.

use super::{
    process::{Directory, Serving, output},
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

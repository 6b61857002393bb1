//! The `ermined` command as a process.

use crate::{
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
    let serving = Serving::start(&directory.0, &[]);
    let (added, text) = output(&["user", "add", "eva", path], "pencil\n");
    assert!(added.status.success() && text == "eva may log in\n", "{text}");
    let mut raw = Raw::open(serving.address);
    raw.send(&[startup(0, &[("user", "eva")])]);
    assert_eq!(raw.next().map(|message| crate::raw::short(&message)).unwrap(), "SASL([\"SCRAM-SHA-256\"])");
    drop(serving);
    let (_, text) = output(&["user", "add", "eva", path], "other\n");
    assert_eq!(text, "eva has another password\n");
}

#[test]
fn what_cannot_work_is_said() {
    let directory = Directory::new("usage");
    let path = directory.path();
    for (arguments, code, wanted) in [
        (&["serve", path, "--listen", "0.0.0.0:0"][..], 2, "without users"),
        (&["serve", path, "--listen", "nowhere"], 2, "invalid value"),
        (&["serve", path, "--tls-cert", "a"], 2, "--tls-key"),
        (&["serve", path, "--tls-cert", "/missing", "--tls-key", "/missing"], 1, "/missing"),
        (&["user", "add", "eva", "/missing"], 2, "no directory"),
        (&["user", "add", "eva", path], 2, "cannot be empty"),
    ] {
        let (output, text) = output(arguments, "\n");
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        assert!(text.contains(wanted), "{arguments:?}: {text}");
    }
}

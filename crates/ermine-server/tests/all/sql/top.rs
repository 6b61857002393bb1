//! `ermined top` on a server.

use std::io::Write as _;

use rustix::termios::LocalModes;

use super::{Directory, Serving};
use crate::{
    process::{ermined, finish, output},
    terminal::Terminal,
};

fn url(serving: &Serving, user: &str) -> String {
    format!("postgres://{user}@127.0.0.1:{}/shop", serving.address.port())
}

#[tokio::test]
async fn screens_show_what_the_server_does() {
    let directory = Directory::new("top");
    let serving = Serving::start(&directory.0, &[]);
    let (one, two) = (serving.client().await, serving.client().await);
    one.batch_execute("CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 1)").await.unwrap();
    one.batch_execute("BEGIN; UPDATE t SET v = 2").await.unwrap();
    two.batch_execute("BEGIN; SELECT v FROM t").await.unwrap();
    two.batch_execute("UPDATE t SET v = 3").await.unwrap_err();
    let arguments = ["top", "--connect", &url(&serving, "ann"), "--count", "2", "--interval", "0.1"];
    let (ended, text) = output(&arguments, "");
    assert!(ended.status.success(), "{text}");
    let (first, second) = text.split_once("\n\nErmine ").unwrap();
    assert!(first.contains("rates since its start") && second.contains("rates of the last "), "{text}");
    for wanted in ["/s committed", "p99 ", "Memory ", "in transaction", "write-conflict", "t (id)=(1)"] {
        assert!(first.contains(wanted), "{wanted}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80) && !text.contains('\u{1b}'), "{text}");
    let wide = finish(ermined(&arguments).env("COLUMNS", "150"), "");
    let wide = String::from_utf8(wide.stdout).unwrap();
    assert!(wide.contains("WHAT HAPPENED") && wide.lines().any(|line| line.chars().count() > 80), "{wide}");
}

#[test]
fn what_it_cannot_show_it_says() {
    let directory = Directory::new("top-fails");
    let serving = Serving::start(&directory.0, &[]);
    let address = url(&serving, "ann");
    drop(serving);
    for (arguments, status, words) in [
        (&["top", "--connect", &address][..], 1, "127.0.0.1"),
        (&["top", "--interval", "0"], 2, "from 0.1 to 3600"),
        (&["top", "--count", "0"], 2, "--count"),
        (&["top", "--connect", "nonsense"], 2, "error"),
    ] {
        let (ended, text) = output(arguments, "");
        assert!(ended.status.code() == Some(status) && text.contains(words), "{arguments:?}: {text}");
    }
}

#[test]
fn a_terminal_is_given_back_as_it_was() {
    let directory = Directory::new("top-terminal");
    let serving = Serving::start(&directory.0, &[]);
    for ends in ["q", "INT", "TERM", "QUIT"] {
        let mut terminal = Terminal::start(&mut ermined(&["top", "--connect", &url(&serving, "ann")]));
        terminal.until("\u{1b}[?1049h");
        terminal.until("rates since its start");
        let line = LocalModes::ECHO | LocalModes::ICANON;
        assert!(!terminal.modes().intersects(line) && terminal.modes().contains(LocalModes::ISIG), "{ends}");
        match ends {
            "q" => terminal.user.write_all(b"xq").unwrap(),
            name => terminal.signal(name),
        }
        assert!(terminal.command.wait().unwrap().success(), "{ends}");
        terminal.until("\u{1b}[?1049l");
        assert!(terminal.modes().contains(line), "{ends}");
    }
}

#[test]
fn a_server_that_is_started_again_is_shown_again() {
    let directory = Directory::new("top-again");
    let serving = Serving::start(&directory.0, &["--drain-seconds", "0"]);
    let address = serving.address.to_string();
    let mut terminal = Terminal::start(&mut ermined(&["top", "--connect", &url(&serving, "ann"), "--interval", "0.1"]));
    terminal.until("rates since its start");
    serving.signal("TERM");
    terminal.until("No connection, trying again: ");
    drop(serving);
    terminal.until("connecting to 127.0.0.1");
    let _serving = Serving::start(&directory.0, &["--listen", &address]);
    terminal.until("rates since its start");
    terminal.until("rates of the last ");
    terminal.user.write_all(b"q").unwrap();
    assert!(terminal.command.wait().unwrap().success());
}

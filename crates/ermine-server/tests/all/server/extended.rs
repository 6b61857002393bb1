//! Messages in and out, one by one, as raw sockets see them.

use std::sync::atomic::Ordering;

use super::{
    fake::Fake,
    raw::{Raw, bind, close, describe, execute, flush, message, packet, parse, query, startup, sync},
    support::{options, start, start_with},
};

#[test]
fn a_session_begins() {
    let server = start();
    let mut raw = Raw::open(server.address);
    raw.send(&[startup(0, &[("user", "eva"), ("application_name", "test"), ("options", "-c a=b")])]);
    let seen = raw.until_ready();
    assert_eq!((&*seen[0], &*seen[seen.len() - 1]), ("Ok", "ready Idle"));
    for wanted in
        ["server_version=15.0 (Ermine)", "client_encoding=UTF8", "application_name=test", "TimeZone=UTC", "key"]
    {
        assert!(seen.iter().any(|seen| seen == wanted), "{wanted}: {seen:?}");
    }
    assert_eq!(raw.query("SHOW a")[1], r"row \x00\x00\x00\x01b");
}

#[test]
fn newer_versions_are_negotiated_and_others_refused() {
    let server = start();
    let mut raw = Raw::open(server.address);
    raw.send(&[startup(9999, &[("user", "eva"), ("_pq_.x", "1")])]);
    let seen = raw.until_ready();
    assert!(seen[0].contains("newest_minor_protocol: 196610, unsupported_options: [\"_pq_.x\"]"), "{seen:?}");
    let mut raw = Raw::open(server.address);
    raw.send(&[packet(&[0, 2, 0, 0])]);
    assert_eq!(raw.until_closed(), ["FATAL 0A000"]);
    for (parameters, state) in [
        (&[("a", "b")][..], "28000"),
        (&[("user", "a"), ("database", "nowhere")], "3D000"),
        (&[("user", "a"), ("replication", "true")], "0A000"),
    ] {
        let mut raw = Raw::open(server.address);
        raw.send(&[startup(0, parameters)]);
        assert_eq!(raw.until_closed(), [format!("FATAL {state}")]);
    }
}

#[test]
fn encryption_that_is_not_there_is_refused() {
    let server = start();
    let mut raw = Raw::open(server.address);
    for code in [[4, 210, 22, 47], [4, 210, 22, 48]] {
        raw.send(&[packet(&code)]);
        let mut answer = [0];
        std::io::Read::read_exact(&mut raw.socket, &mut answer).unwrap();
        assert_eq!(answer, *b"N");
    }
    raw.send(&[startup(0, &[("user", "eva")])]);
    raw.until_ready();
}

#[test]
fn simple_queries() {
    let server = start();
    let mut raw = Raw::connect(server.address);
    assert_eq!(
        raw.query("SELECT 1,null; INSERT; SELECT 'a'"),
        [
            "columns i0 i1",
            r"row \x00\x00\x00\x011\xff\xff\xff\xff",
            "SELECT 1",
            "INSERT 0 1",
            "columns t0",
            r"row \x00\x00\x00\x01a",
            "SELECT 1",
            "ready Idle"
        ]
    );
    assert_eq!(raw.query(" ; -- nothing"), ["empty", "ready Idle"]);
    assert_eq!(raw.query("INSERT; FAIL; INSERT"), ["INSERT 0 1", "ERROR 22012", "ready Idle"]);
    assert_eq!(server.counts.inserted.load(Ordering::Relaxed), 1, "what failed inserts nothing");
    assert_eq!(raw.query("NOTICE a"), ["notice a", "NOTICE", "ready Idle"]);
    assert_eq!(raw.query("SET application_name = b"), ["SET", "application_name=b", "ready Idle"]);
    assert_eq!(raw.query("SET x = b"), ["SET", "ready Idle"]);
    assert_eq!(raw.query("COPY a"), ["ERROR 0A000", "ready Idle"]);
    raw.send(&[message(b'd', b"row"), message(b'c', b""), message(b'F', b"anything")]);
    assert_eq!(raw.until_ready(), ["ERROR 0A000", "ready Idle"]);
    raw.send(&[message(b'Q', b"SELECT '\xff'\0")]);
    assert_eq!(raw.until_ready(), ["ERROR 22021", "ready Idle"]);
}

#[test]
fn transactions_show() {
    let server = start();
    let mut raw = Raw::connect(server.address);
    assert_eq!(raw.query("BEGIN"), ["BEGIN", "ready Transaction"]);
    assert_eq!(raw.query("FAIL"), ["ERROR 22012", "ready Error"]);
    assert_eq!(raw.query("SELECT 1"), ["ERROR 25P02", "ready Error"]);
    assert_eq!(raw.query("COMMIT"), ["ROLLBACK", "ready Idle"]);
}

#[test]
fn a_prepared_statement_from_end_to_end() {
    let server = start();
    let mut raw = Raw::connect(server.address);
    raw.send(&[parse("s", "SELECT $1,'a'"), describe('S', "s"), sync()]);
    assert_eq!(raw.until_ready(), ["parsed", "parameters [23]", "columns ?column? t1", "ready Idle"]);
    raw.send(&[bind("", "s", &["7"]), describe('P', ""), execute("", 0), sync()]);
    assert_eq!(
        raw.until_ready(),
        ["bound", "columns ?column? t1", r"row \x00\x00\x00\x017\x00\x00\x00\x01a", "SELECT 1", "ready Idle"]
    );
    raw.send(&[parse("s", "SELECT 1"), sync(), close('S', "s"), parse("s", "INSERT"), describe('S', "s"), sync()]);
    assert_eq!(raw.until_ready(), ["ERROR 42P05", "ready Idle"]);
    assert_eq!(raw.until_ready(), ["closed", "parsed", "parameters []", "no data", "ready Idle"]);
    raw.send(&[parse("", ""), bind("", "", &[]), describe('P', ""), execute("", 0), sync()]);
    assert_eq!(raw.until_ready(), ["parsed", "bound", "no data", "empty", "ready Idle"]);
}

#[test]
fn errors_skip_to_sync() {
    let server = start();
    let mut raw = Raw::connect(server.address);
    for (messages, wanted) in [
        (vec![parse("", "NONSENSE"), bind("", "", &[]), execute("", 0)], vec!["ERROR 42601"]),
        (vec![bind("", "missing", &[])], vec!["ERROR 26000"]),
        (vec![execute("missing", 0), query("INSERT")], vec!["ERROR 34000"]),
        (vec![parse("", "SELECT $1"), bind("", "", &[])], vec!["parsed", "ERROR 08P01"]),
        (vec![parse("", "SELECT $1"), bind("", "", &["x"]), execute("", 0)], vec!["parsed", "ERROR 22P02"]),
        (
            vec![
                parse("", "INSERT"),
                bind("", "", &[]),
                execute("", 0),
                parse("", "FAIL"),
                bind("", "", &[]),
                execute("", 0),
            ],
            vec!["parsed", "bound", "INSERT 0 1", "parsed", "bound", "ERROR 22012"],
        ),
        (vec![describe('P', "missing")], vec!["ERROR 34000"]),
        (vec![message(b'P', b"\0SELECT 1\0\0\x01\0\0\x27\x0f")], vec!["ERROR 42704"]),
    ] {
        raw.send(&[messages.concat(), sync()]);
        let seen = raw.until_ready();
        assert_eq!(seen[..seen.len() - 1], wanted[..]);
        assert_eq!(seen.last().unwrap(), "ready Idle");
    }
    assert_eq!(server.counts.inserted.load(Ordering::Relaxed), 0, "the group was rolled back");
}

#[test]
fn a_group_is_one_transaction() {
    let server = start();
    let mut raw = Raw::connect(server.address);
    let insert = [parse("", "INSERT"), bind("", "", &[]), execute("", 0)].concat();
    raw.send(&[insert.clone(), insert.clone(), sync(), insert, sync()]);
    assert_eq!(raw.until_ready().len(), 7);
    assert_eq!(raw.until_ready().len(), 4);
    let counts = &server.counts;
    assert_eq!((counts.inserted.load(Ordering::Relaxed), counts.committed.load(Ordering::Relaxed)), (3, 2));
}

#[test]
fn portals_go_on_where_they_were() {
    let server = start();
    let mut raw = Raw::connect(server.address);
    raw.query("BEGIN");
    raw.send(&[parse("", "ROWS 5"), bind("p", "", &[]), execute("p", 2), sync()]);
    let count = |seen: &[String]| seen.iter().filter(|message| message.starts_with("row ")).count();
    let seen = raw.until_ready();
    assert_eq!((count(&seen), &*seen[4]), (2, "suspended"));
    raw.send(&[execute("p", 2), execute("p", 2), execute("p", 2), sync()]);
    let seen = raw.until_ready();
    assert_eq!(count(&seen), 3);
    assert_eq!(seen[2..], ["suspended", &*seen[3], "SELECT 1", "SELECT 0", "ready Transaction"]);
    raw.send(&[bind("p", "", &[]), sync()]);
    assert_eq!(raw.until_ready(), ["ERROR 42P03", "ready Error"]);
    raw.query("ROLLBACK");
    raw.send(&[execute("p", 2), sync()]);
    assert_eq!(raw.until_ready(), ["ERROR 34000", "ready Idle"], "portals end with their transaction");
    raw.send(&[parse("", "INSERT"), bind("", "", &[]), execute("", 0), execute("", 0), sync()]);
    assert_eq!(raw.until_ready()[3], "ERROR 55000", "nothing is done twice");
}

#[test]
fn flush_gives_what_there_is() {
    let server = start();
    let mut raw = Raw::connect(server.address);
    raw.send(&[parse("", "FAIL"), bind("", "", &[]), flush()]);
    assert_eq!([raw.next(), raw.next()].map(|message| crate::raw::short(&message.unwrap())), ["parsed", "bound"]);
    raw.send(&[execute("", 0)]);
    assert_eq!(crate::raw::short(&raw.next().unwrap()), "ERROR 22012", "errors do not wait for Sync");
    raw.send(&[sync()]);
    assert_eq!(raw.until_ready(), ["ready Idle"]);
}

#[test]
fn statements_that_wait_run_aside() {
    let server = start_with(Fake { waits: true, ..Fake::default() }, options());
    let mut raw = Raw::connect(server.address);
    raw.send(&[parse("", "SELECT 1"), bind("", "", &[]), execute("", 0), sync()]);
    assert_eq!(raw.until_ready()[3], "SELECT 1");
    assert_eq!(raw.query("SELECT 1")[2], "SELECT 1");
}

#[test]
fn commits_are_told_of_when_they_are_durable() {
    let directory = std::env::temp_dir().join(format!("ermine-server-durable-{}", std::process::id()));
    let database = std::sync::Arc::new(ermine::Database::open(&directory, ermine::Options::default()).unwrap());
    let table = std::sync::Arc::new(database.table::<u64, u64>("t").unwrap());
    let backend = Fake { database: Some((database.clone(), table)), ..Fake::default() };
    let server = start_with(backend, options());
    let mut raw = Raw::connect(server.address);
    let insert = [parse("", "INSERT"), bind("", "", &[]), execute("", 0), sync()].concat();
    let flushes = database.statistics().log_flushes.count();
    raw.send(&[insert.repeat(100)]);
    for _ in 0..100 {
        assert_eq!(raw.until_ready(), ["parsed", "bound", "INSERT 0 1", "ready Idle"]);
    }
    let flushes = database.statistics().log_flushes.count() - flushes;
    assert!((1..=50).contains(&flushes), "pipelined commits share their wait: {flushes}");
    assert_eq!(raw.query("INSERT; INSERT"), ["INSERT 0 1", "INSERT 0 1", "ready Idle"]);
    drop((raw, server, database));
    let _ = std::fs::remove_dir_all(directory);
}

//! Statements that are prepared by Parse and by PREPARE have one name space, message by message.

use pgwire::messages::PgWireBackendMessage;

use super::{
    Directory, Serving,
    raw::{Raw, bind, close, describe, execute, message, parse, query, short, sync},
};

/// Starts a server with a table, and connects to it.
fn start(name: &str) -> (Directory, Serving, Raw) {
    let directory = Directory::new(name);
    let serving = Serving::start(&directory.0, &[]);
    let mut raw = Raw::connect(serving.address);
    raw.query("CREATE TABLE t (a integer PRIMARY KEY, b text); INSERT INTO t VALUES (1, 'one'), (2, 'two'); CREATE TABLE v (a integer)");
    (directory, serving, raw)
}

/// Returns the replies to messages and a `Sync`, without that to the `Sync`.
fn replies(raw: &mut Raw, messages: &[Vec<u8>]) -> Vec<String> {
    raw.send(&[messages.concat(), sync()]);
    let mut seen = raw.until_ready();
    assert_eq!(seen.pop().as_deref(), Some("ready Idle"));
    seen
}

/// Returns the value that a row of one column has, or else the reply.
fn answer(raw: &mut Raw, text: &str) -> String {
    raw.send(&[query(text)]);
    let mut answer = None;
    loop {
        let message = raw.next().unwrap();
        match &message {
            PgWireBackendMessage::RowDescription(_) => {}
            PgWireBackendMessage::DataRow(row) => answer = Some(String::from_utf8_lossy(&row.data[4..]).into_owned()),
            PgWireBackendMessage::ReadyForQuery(_) => return answer.unwrap(),
            _ => drop(answer.get_or_insert_with(|| short(&message))),
        }
    }
}

#[test]
fn sql_removes_statements_of_the_protocol() {
    let (_directory, _serving, mut raw) = start("prepared-removed");
    for remove in ["DISCARD ALL", "DEALLOCATE ALL", "DEALLOCATE PREPARE ALL", "DEALLOCATE s", "DEALLOCATE \"s\""] {
        assert_eq!(replies(&mut raw, &[parse("s", "SELECT 1")]), ["parsed"], "{remove}");
        raw.query(remove);
        assert_eq!(replies(&mut raw, &[bind("", "s", &[])]), ["ERROR 26000"], "{remove}");
        // The same, by the extended protocol.
        assert_eq!(replies(&mut raw, &[parse("s", "SELECT 1")]), ["parsed"], "{remove}");
        let removed = replies(&mut raw, &[parse("", remove), bind("", "", &[]), execute("", 0)]);
        assert_eq!(removed[..2], ["parsed", "bound"], "{remove}: {removed:?}");
        assert_eq!(replies(&mut raw, &[parse("s", "SELECT 1"), close('S', "s")]), ["parsed", "closed"], "{remove}");
    }
    assert_eq!(raw.query("DEALLOCATE s"), ["ERROR 26000", "ready Idle"]);
    // A statement that removes itself runs to its end; the unnamed one has no name to be removed by.
    let itself = [parse("s", "DEALLOCATE ALL"), parse("", "SELECT 7"), bind("", "s", &[]), execute("", 0)];
    assert_eq!(replies(&mut raw, &itself), ["parsed", "parsed", "bound", "DEALLOCATE ALL"]);
    let unnamed = replies(&mut raw, &[bind("", "", &[]), execute("", 0), bind("", "s", &[])]);
    assert_eq!(unnamed, ["bound", r"row \x00\x00\x00\x017", "SELECT 1", "ERROR 26000"]);
}

#[test]
fn execute_runs_statements_of_the_protocol() {
    let (_directory, _serving, mut raw) = start("prepared-executed");
    assert_eq!(replies(&mut raw, &[parse("p", "SELECT b FROM t WHERE a = $1")]), ["parsed"]);
    assert_eq!(
        raw.query("EXECUTE p(1)"),
        ["columns b", r"row \x00\x00\x00\x03one", "SELECT 1", "ready Idle"],
        "a statement of Parse"
    );
    assert_eq!(raw.query("EXECUTE p"), ["ERROR 42601", "ready Idle"]);
    let plan = answer(&mut raw, "EXPLAIN (VERBOSE, FORMAT JSON) EXECUTE p(NULL)");
    assert!(plan.contains("Node Type") && plan.contains("Index Cond"), "{plan}");
    assert_eq!(raw.query("CREATE TABLE u AS EXECUTE p(2)"), ["SELECT 1", "ready Idle"]);
    assert_eq!(answer(&mut raw, "SELECT b FROM u"), "two");
    // It gets another plan when a definition changes, and both ways of running it find that out.
    assert_eq!(raw.query("ALTER TABLE t ALTER COLUMN b TYPE varchar(9)")[0], "ALTER TABLE");
    assert_eq!(raw.query("EXECUTE p(1)")[0], "ERROR 0A000");
    assert_eq!(replies(&mut raw, &[bind("", "p", &["1"]), execute("", 0)]), ["bound", "ERROR 0A000"]);
    // The type that the client gives.
    let typed = [b"typed\0SELECT $1\0".as_slice(), &1u16.to_be_bytes(), &20u32.to_be_bytes()].concat();
    assert_eq!(replies(&mut raw, &[message(b'P', &typed)]), ["parsed"]);
    assert_eq!(answer(&mut raw, "EXECUTE typed(8000000000)"), "8000000000");
    assert_eq!(raw.query("EXECUTE typed('x')"), ["ERROR 22P02", "ready Idle"]);
}

#[test]
fn execute_runs_what_only_parse_prepares() {
    let (_directory, _serving, mut raw) = start("prepared-utilities");
    let texts = [
        ("empty", ""),
        ("show", "SHOW server_encoding"),
        ("create", "CREATE TABLE w (a integer)"),
        ("begin", "BEGIN"),
        ("declare", "DECLARE c CURSOR FOR SELECT a FROM t ORDER BY a"),
        ("commit", "COMMIT"),
        ("out", "COPY t TO STDOUT"),
        ("in", "COPY v FROM STDIN"),
        ("loop", "EXECUTE loop"),
        ("explained", "EXPLAIN EXECUTE loop"),
    ];
    for (name, text) in texts {
        assert_eq!(replies(&mut raw, &[parse(name, text)]), ["parsed"], "{text}");
    }
    assert_eq!(
        replies(&mut raw, &[describe('S', "empty"), bind("", "empty", &[]), execute("", 0)]),
        ["parameters []", "no data", "bound", "empty"]
    );
    assert_eq!(raw.query("EXECUTE empty"), ["EXECUTE", "ready Idle"]);
    assert_eq!(answer(&mut raw, "EXPLAIN EXECUTE show"), "Utility Statement");
    assert_eq!(raw.query("EXPLAIN EXECUTE out"), ["ERROR 0A000", "ready Idle"]);
    assert_eq!(answer(&mut raw, "EXECUTE show"), "UTF8");
    assert_eq!(raw.query("EXECUTE create"), ["CREATE TABLE", "ready Idle"]);
    assert_eq!(raw.query("EXECUTE begin"), ["BEGIN", "ready Transaction"]);
    assert_eq!(raw.query("EXECUTE declare"), ["DECLARE CURSOR", "ready Transaction"]);
    // A statement that fetches is prepared for the columns of the cursor.
    raw.send(&[parse("fetch", "FETCH c"), sync()]);
    assert_eq!(raw.until_ready(), ["parsed", "ready Transaction"]);
    assert_eq!(answer(&mut raw, "EXECUTE fetch"), "1");
    assert_eq!(answer(&mut raw, "EXECUTE fetch"), "2");
    assert_eq!(raw.query("EXECUTE commit"), ["COMMIT", "ready Idle"]);
    let out = raw.query("EXECUTE out");
    assert_eq!(out[out.len() - 2..], ["COPY 2", "ready Idle"]);
    raw.send(&[query("EXECUTE in"), message(b'd', b"5\n"), message(b'c', b"")]);
    assert_eq!(raw.until_ready()[1..], ["COPY 1", "ready Idle"]);
    for runs_itself in ["EXECUTE loop", "EXPLAIN EXECUTE loop", "EXECUTE explained"] {
        assert_eq!(raw.query(runs_itself), ["ERROR 54001", "ready Idle"], "{runs_itself}");
    }
    assert_eq!(answer(&mut raw, "EXECUTE show"), "UTF8");
}

#[test]
fn the_protocol_runs_statements_of_prepare() {
    let (_directory, _serving, mut raw) = start("prepared-bound");
    assert_eq!(raw.query("PREPARE p (integer) AS SELECT a, b FROM t WHERE a = $1"), ["PREPARE", "ready Idle"]);
    assert_eq!(replies(&mut raw, &[describe('S', "p")]), ["parameters [23]", "columns a b"]);
    let run = [bind("", "p", &["2"]), describe('P', ""), execute("", 0)];
    let row = r"row \x00\x00\x00\x012\x00\x00\x00\x03two";
    assert_eq!(replies(&mut raw, &run), ["bound", "columns a b", row, "SELECT 1"]);
    assert_eq!(replies(&mut raw, &[bind("", "p", &[])]), ["ERROR 08P01"]);
    assert_eq!(replies(&mut raw, &[close('S', "p"), bind("", "p", &["2"])]), ["closed", "ERROR 26000"]);
    assert_eq!(raw.query("EXECUTE p(2)"), ["ERROR 26000", "ready Idle"]);
}

#[test]
fn a_name_is_that_of_one_statement() {
    let (_directory, _serving, mut raw) = start("prepared-twice");
    assert_eq!(replies(&mut raw, &[parse("p", "SELECT 1")]), ["parsed"]);
    assert_eq!(raw.query("PREPARE p AS SELECT 2"), ["ERROR 42P05", "ready Idle"]);
    assert_eq!(raw.query("PREPARE q AS SELECT 2"), ["PREPARE", "ready Idle"]);
    assert_eq!(replies(&mut raw, &[parse("q", "SELECT 1")]), ["ERROR 42P05"]);
    assert_eq!(answer(&mut raw, "EXECUTE p"), "1");
    assert_eq!(answer(&mut raw, "EXECUTE q"), "2");
    // Names are compared as they are: those of SQL are in lower case where they have no quotes.
    assert_eq!(replies(&mut raw, &[parse("P", "SELECT 3"), parse("ä b", "SELECT 4")]), ["parsed", "parsed"]);
    assert_eq!(answer(&mut raw, "EXECUTE P"), "1");
    assert_eq!(answer(&mut raw, "EXECUTE \"P\""), "3");
    assert_eq!(answer(&mut raw, "EXECUTE \"ä b\""), "4");
    let wrong = message(b'P', b"\xff\0SELECT 1\0\0\0");
    assert_eq!(replies(&mut raw, &[wrong]), ["ERROR 22021"]);
}

#[test]
fn pg_prepared_statements_has_both() {
    let (_directory, _serving, mut raw) = start("prepared-shown");
    raw.query("BEGIN");
    raw.send(&[parse("a", "SELECT a, b FROM t WHERE a = $1"), parse("b", "DELETE FROM t"), sync()]);
    assert_eq!(raw.until_ready(), ["parsed", "parsed", "ready Transaction"]);
    raw.query("PREPARE c (text) AS SELECT length($1)");
    raw.send(&[parse("", "SELECT 1"), sync()]);
    raw.until_ready();
    // They are no part of the transaction.
    assert_eq!(raw.query("ROLLBACK"), ["ROLLBACK", "ready Idle"]);
    let shown = answer(
        &mut raw,
        "SELECT string_agg(concat_ws(' / ', name, statement, parameter_types, result_types, from_sql, \
             prepare_time BETWEEN now() - interval '1 hour' AND now()), '; ' ORDER BY name) FROM pg_prepared_statements",
    );
    let wanted = "a / SELECT a, b FROM t WHERE a = $1 / {integer} / {integer,text} / f / t; \
        b / DELETE FROM t / {} / f / t; \
        c / PREPARE c (text) AS SELECT length($1) / {text} / {integer} / t / t";
    assert_eq!(shown, wanted);
}

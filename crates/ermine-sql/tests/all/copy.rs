//! COPY through sessions, as the shell and the server use it.
//!
//! Goal: output of COPY in any format can be copied in again, however it is cut into pieces; rows in and out look like
//! PostgreSQL's; an error reports where in the stream it happened, and a COPY that failed leaves nothing.
//! Method: statements with their data and their expected results, taken from PostgreSQL 15.

use std::sync::Arc;

use ermine::{Database, Options};
use ermine_sql::{
    Column, CopyFormat, Result, RowSet, RowSink, Session, SqlDatabase, SqlError, SqlState, Status, types::Value,
};

use crate::sessions::ask;

fn session() -> Session {
    let engine = Arc::new(Database::open_in_memory(Options::default()).unwrap());
    SqlDatabase::open(engine).unwrap().session("ann", "shop")
}

fn run(session: &mut Session, text: &str) -> RowSet {
    let mut rows = RowSet::default();
    session.run(text, &mut rows).unwrap_or_else(|error| panic!("{text}: {error}"));
    rows
}

/// Copies in, in pieces of `piece` bytes.
fn copy_in(session: &mut Session, text: &str, data: &[u8], piece: usize) -> Result<Vec<String>> {
    let mut rows = RowSet::default();
    session.run(text, &mut rows)?;
    for piece in data.chunks(piece) {
        session.copy_in().expect("it goes on").write(piece)?;
    }
    session.copy_in().expect("it goes on").finish(&mut rows)?.wait()?;
    Ok(rows.tags)
}

fn copy_out(session: &mut Session, text: &str) -> Vec<u8> {
    run(session, text).copied
}

#[test]
fn what_is_copied_out_comes_in_again() {
    let mut session = session();
    let columns = "(a bool, b smallint, c integer, d bigint, e real, f double precision, g numeric(12,3), h char(4), i \
        varchar(9), j text, k bytea, l date, m time, n timestamp, o timestamptz, p interval, q uuid, r jsonb, s \
        integer[], t text[])";
    run(&mut session, &format!("CREATE TABLE one {columns}; CREATE TABLE two {columns}"));
    run(
        &mut session,
        r#"INSERT INTO one VALUES
        (true, 1, -2, 3, 1.5, 'NaN', 12.5, 'ab', 'x,y', E'a"b\\c\td\ne\rf', '\x00ff', '2026-11-22', '01:02:03',
         '2026-01-01 00:00', '2026-01-01 00:00+02', '1 day 2 hours', '11111111-2222-3333-4444-555555555555',
         '{"a": [1, null]}', '{1,NULL,3}',
         ARRAY['a,b', '"']),
        (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
         NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        (false, 0, 0, 0, 0, 0, 0, '', '', '', '', 'infinity', '24:00', '-infinity', 'infinity',
         '-1 month', NULL, '"\\."', '{}', '{}'),
        (NULL, 7, NULL, NULL, NULL, NULL, NULL, 'NULL', '\N', '\.',
         NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)"#,
    );
    for options in [
        "",
        "(FORMAT csv)",
        "(FORMAT binary)",
        "(DELIMITER '|', NULL 'nothing', HEADER)",
        "(FORMAT csv, DELIMITER ';', QUOTE '''', ESCAPE '\\', HEADER true, NULL '-')",
        "WITH CSV HEADER QUOTE AS ''''",
        "WITH BINARY",
    ] {
        let out = copy_out(&mut session, &format!("COPY one TO STDOUT {options}"));
        for piece in [1, 7, out.len()] {
            run(&mut session, "TRUNCATE two");
            let tags = copy_in(&mut session, &format!("COPY two FROM STDIN {options}"), &out, piece);
            assert_eq!(tags.unwrap(), ["COPY 4"], "{options}");
            let again = copy_out(&mut session, &format!("COPY two TO STDOUT {options}"));
            assert_eq!(String::from_utf8_lossy(&again), String::from_utf8_lossy(&out), "{options}");
        }
    }
}

#[test]
fn rows_look_as_postgresqls() {
    let mut session = session();
    run(&mut session, "CREATE TABLE t (a integer, b text, c text)");
    run(
        &mut session,
        r#"INSERT INTO t VALUES (1, E'tab\there', NULL), (2, 'quote "" and, comma', ''), (3, '\N', '\.')"#,
    );
    for (text, wanted) in [
        ("COPY t TO STDOUT", "1\ttab\\there\t\\N\n2\tquote \"\" and, comma\t\n3\t\\\\N\t\\\\.\n"),
        ("COPY t TO STDOUT CSV", "1,tab\there,\n2,\"quote \"\"\"\" and, comma\",\"\"\n3,\\N,\\.\n"),
        ("COPY t (c) TO STDOUT (FORMAT csv)", "\n\"\"\n\"\\.\"\n"),
        ("COPY t (a, c) TO STDOUT (FORMAT csv, FORCE_QUOTE *, HEADER)", "a,c\n\"1\",\n\"2\",\"\"\n\"3\",\"\\.\"\n"),
        ("COPY t (c, a) TO STDOUT (FORMAT csv, FORCE_QUOTE (a), NULL 'x')", "x,\"1\"\n,\"2\"\n\\.,\"3\"\n"),
        ("COPY (SELECT a * 2 AS twice FROM t WHERE a < 3 ORDER BY a DESC) TO STDOUT (HEADER)", "twice\n4\n2\n"),
        ("COPY (SELECT -2 ^ 2) TO STDOUT", "4\n"),
        (
            "COPY (WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 2) \
                SEARCH DEPTH FIRST BY n SET o SELECT * FROM s ORDER BY o) TO STDOUT",
            "1\t{(1)}\n2\t{(1),(2)}\n",
        ),
        ("COPY t (a) TO STDOUT WITH DELIMITER ',' NULL ''", "1\n2\n3\n"),
    ] {
        let rows = run(&mut session, text);
        assert_eq!(String::from_utf8(rows.copied).unwrap(), wanted, "{text}");
    }
    let binary = copy_out(&mut session, "COPY (SELECT 1, NULL::text, 'ab'::text) TO STDOUT (FORMAT binary)");
    let wanted = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x03\0\0\0\x04\0\0\0\x01\xff\xff\xff\xff\0\0\0\x02ab\xff\xff";
    assert_eq!(binary, wanted);
    assert_eq!(run(&mut session, "COPY t TO STDOUT").tags, ["COPY 3"]);
}

#[test]
fn options_say_how_fields_are_read() {
    let mut session = session();
    run(&mut session, "CREATE TABLE t (a integer, b text DEFAULT 'usual', c text)");
    for (options, data, wanted) in [
        ("(a, c)", "1\tx\n\\.\nnot read", &[["1", "usual", "x"]][..]),
        ("(c, a) FROM STDIN (FORMAT csv, HEADER)", "h1,h2\n\"a\nb\",1\n", &[["1", "usual", "a\nb"]]),
        ("(a, b, c) FROM STDIN (FORMAT csv, HEADER match)", "a,b,c\n1,2,3\n", &[["1", "2", "3"]]),
        ("FROM STDIN (FORMAT csv, FORCE_NOT_NULL (b), FORCE_NULL (c))", "1,,\"\"\n", &[["1", "", "NULL"]]),
        ("FROM STDIN WITH DELIMITER AS '|' NULL AS '?'", "1|?|a\\|b\n", &[["1", "NULL", "a|b"]]),
        ("FROM STDIN WHERE a > 1", "1\ta\tb\n2\tc\td\n", &[["2", "c", "d"]]),
        ("FROM STDIN WITH (freeze on)", "1\tb\tc\r\n2\td\te\r\n", &[["1", "b", "c"], ["2", "d", "e"]]),
        ("FROM STDIN (ENCODING 'UTF8', NULL 'x')", "\\061\tx\t\\x41\\n", &[["1", "NULL", "A\n"]]),
    ] {
        run(&mut session, "TRUNCATE t");
        let text =
            if options.contains("FROM") { format!("COPY t {options}") } else { format!("COPY t {options} FROM STDIN") };
        copy_in(&mut session, &text, data.as_bytes(), 3).unwrap_or_else(|error| panic!("{text}: {error}"));
        let rows = run(&mut session, "SELECT a, coalesce(b, 'NULL'), coalesce(c, 'NULL') FROM t ORDER BY a").texts();
        assert_eq!(rows, wanted, "{text}");
    }
}

#[test]
fn an_error_says_where_it_happened_and_leaves_nothing() {
    let mut session = session();
    run(&mut session, "CREATE TABLE t (a integer PRIMARY KEY, b varchar(3) NOT NULL, c smallint CHECK (c > 0))");
    for (options, data, state, message, context) in [
        (
            "",
            "1\tx\t1\nz\tx\t1\n",
            "22P02",
            "invalid input syntax for type integer: \"z\"",
            "COPY t, line 2, column a: \"z\"",
        ),
        ("", "1\tx\t1\t9\n", "22P04", "extra data after last expected column", "COPY t, line 1: \"1\tx\t1\t9\""),
        ("", "1\tx\n", "22P04", "missing data for column \"c\"", "COPY t, line 1: \"1\tx\""),
        ("", "\n", "22P02", "invalid input syntax for type integer: \"\"", "COPY t, line 1, column a: \"\""),
        (
            "",
            "1\tlong\t1\n",
            "22001",
            "value too long for type character varying(3)",
            "COPY t, line 1, column b: \"long\"",
        ),
        (
            "",
            "1\t\\N\t1\n",
            "23502",
            "null value in column \"b\" of relation \"t\" violates not-null constraint",
            "COPY t, line 1: \"1\t\\N\t1\"",
        ),
        (
            "",
            "1\tx\t0\n",
            "23514",
            "new row for relation \"t\" violates check constraint \"t_c_check\"",
            "COPY t, line 1: \"1\tx\t0\"",
        ),
        (
            "",
            "1\tx\t1\n1\ty\t1\n",
            "23505",
            "duplicate key value violates unique constraint \"t_pkey\"",
            "COPY t, line 2",
        ),
        ("", "1\tx\t1\n2\tx\t1\r", "22P04", "literal carriage return found in data", "COPY t, line 2"),
        ("", "1\t\u{fffd}\t1\n", "", "", ""),
        ("(FORMAT csv)", "1,\"x,1\n", "22P04", "unterminated CSV quoted field", "COPY t, line 1: \"1,\"x,1\n\""),
        (
            "(FORMAT csv)",
            "1,x,1\n2,\"x\ny\",1\nq,x,1\n",
            "22P02",
            "invalid input syntax for type integer: \"q\"",
            "COPY t, line 4, column a: \"q\"",
        ),
        (
            "(HEADER match)",
            "a\tb\td\n",
            "22P04",
            "column name mismatch in header line field 3: got \"d\", expected \"c\"",
            "COPY t, line 1: \"a\tb\td\"",
        ),
        (
            "(HEADER match)",
            "a\tb\n",
            "22P04",
            "wrong number of fields in header line: field count is 2, expected 3",
            "COPY t, line 1: \"a\tb\"",
        ),
        ("(FORMAT binary)", "1\tx\t1\n", "22P04", "COPY file signature not recognized", ""),
    ] {
        let text = format!("COPY t FROM STDIN {options}");
        let done = copy_in(&mut session, &text, data.as_bytes(), 2);
        if state.is_empty() {
            done.unwrap();
            run(&mut session, "TRUNCATE t");
            continue;
        }
        let error = done.unwrap_err();
        let report = error.report();
        assert_eq!(
            (report.state.0, &*report.message, report.context.as_deref()),
            (state, message, Some(context).filter(|context| !context.is_empty())),
            "{data:?}"
        );
        assert_eq!((session.status(), session.is_copying()), (Status::Idle, false));
        assert_eq!(run(&mut session, "SELECT count(*) FROM t").texts(), [["0"]], "{data:?}");
    }
}

#[test]
fn what_cannot_be_copied_is_refused_before_anything_is_sent() {
    let mut session = session();
    run(&mut session, "CREATE TABLE t (a integer, b text)");
    for (text, state) in [
        ("COPY nowhere FROM STDIN", "42P01"),
        ("COPY t (a, z) FROM STDIN", "42703"),
        ("COPY t (a, a) FROM STDIN", "42701"),
        ("COPY t (a, z) TO STDOUT", "42703"),
        ("COPY t FROM '/etc/passwd'", "0A000"),
        ("COPY t TO PROGRAM 'cat'", "0A000"),
        ("COPY t FROM STDIN (FORMAT csv, FORCE_NULL (c))", "42P10"),
        ("COPY t FROM STDIN (COLOUR red)", "42601"),
        ("COPY t FROM STDIN TO STDOUT", "42601"),
        ("COPY (SELECT 1) FROM STDIN", "42601"),
        ("COPY t TO STDOUT WHERE a > 1", "42601"),
    ] {
        let error = session.run(text, &mut RowSet::default()).unwrap_err();
        assert_eq!(error.state().0, state, "{text}: {error}");
        assert!(!session.is_copying(), "{text}");
    }
    let hint = session.run("COPY t FROM '/tmp/x'", &mut RowSet::default()).unwrap_err().report().hint.clone();
    assert!(hint.unwrap().contains("\\copy"));
}

#[test]
fn a_copy_belongs_to_its_transaction() {
    let mut session = session();
    run(&mut session, "CREATE TABLE t (a integer PRIMARY KEY)");
    let count = |session: &mut Session| run(session, "SELECT count(*) FROM t").texts()[0][0].clone();

    run(&mut session, "BEGIN; INSERT INTO t VALUES (0)");
    copy_in(&mut session, "COPY t FROM STDIN", b"1\n2\n", 1).unwrap();
    assert_eq!((count(&mut session), session.status()), ("3".into(), Status::Open));
    run(&mut session, "ROLLBACK");
    assert_eq!(count(&mut session), "0");

    run(&mut session, "BEGIN; INSERT INTO t VALUES (0)");
    copy_in(&mut session, "COPY t FROM STDIN", b"1\nx\n", 1).unwrap_err();
    assert_eq!(session.status(), Status::Failed);
    run(&mut session, "ROLLBACK");
    assert_eq!(count(&mut session), "0");

    // The client gives up.
    session.run("COPY t FROM STDIN", &mut RowSet::default()).unwrap();
    session.copy_in().unwrap().write(b"1\n2\n3").unwrap();
    let error: SqlError = session.copy_in().unwrap().fail("no more");
    assert_eq!(
        (error.state(), &*error.report().message),
        (SqlState::QUERY_CANCELED, "COPY from stdin failed: no more")
    );
    assert_eq!((count(&mut session), session.status()), ("0".into(), Status::Idle));

    // Nothing else can be run in the meantime, and the attempt does no harm.
    session.run("COPY t FROM STDIN", &mut RowSet::default()).unwrap();
    session.run("SELECT 1", &mut RowSet::default()).unwrap_err();
    session.copy_in().unwrap().write(b"1\n").unwrap();
    let mut rows = RowSet::default();
    session.copy_in().unwrap().finish(&mut rows).unwrap().wait().unwrap();
    assert_eq!((rows.tags, count(&mut session)), (vec!["COPY 1".to_owned()], "1".into()));

    // Statements behind the COPY in its text are run when it ends, in the same transaction.
    let text = "INSERT INTO t VALUES (10); COPY t FROM STDIN; INSERT INTO t VALUES (30)";
    assert_eq!(copy_in(&mut session, text, b"20\n", 9).unwrap(), ["INSERT 0 1", "COPY 1", "INSERT 0 1"]);
    assert_eq!(count(&mut session), "4");
    copy_in(&mut session, &text.replace("0)", "1)"), b"21\n10\n", 9).unwrap_err();
    assert_eq!((count(&mut session), session.status()), ("4".into(), Status::Idle));
}

#[test]
fn a_row_has_a_bounded_length() {
    let mut session = session();
    run(&mut session, "CREATE TABLE t (a text)");
    session.run("COPY t FROM STDIN (FORMAT binary)", &mut RowSet::default()).unwrap();
    let begin = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x01\x7f\xff\xff\xff";
    session.copy_in().unwrap().write(begin).unwrap();
    let piece = vec![b'a'; 8 << 20];
    let failed = (0..20).find_map(|_| session.copy_in().unwrap().write(&piece).err());
    assert_eq!(failed.unwrap().state(), SqlState::PROGRAM_LIMIT_EXCEEDED);
}

/// A client that receives copied rows, and looks at the statement's progress after some of them.
struct Watching {
    observer: Session,
    received: u32,
    seen: Vec<String>,
}

const PROGRESS: &str = "SELECT pid, relid, command, type, bytes_processed, bytes_total, tuples_processed, tuples_excluded \
    FROM pg_stat_progress_copy";

impl RowSink for Watching {
    fn columns(&mut self, _: &[Column]) -> Result<()> {
        Ok(())
    }

    fn row(&mut self, _: &[Value]) -> Result<()> {
        Ok(())
    }

    fn copy_out(&mut self, _: CopyFormat) -> Result<()> {
        Ok(())
    }

    fn copy_data(&mut self, _: &[u8]) -> Result<()> {
        self.received += 1;
        if self.received == 200 {
            self.seen = ask(&mut self.observer, PROGRESS);
        }
        Ok(())
    }

    fn complete(&mut self, _: &str) -> Result<()> {
        Ok(())
    }
}

#[test]
fn other_sessions_see_how_far_a_copy_is() {
    let engine = Arc::new(Database::open_in_memory(Options::default()).unwrap());
    let database = SqlDatabase::open(engine).unwrap();
    let (mut session, mut observer) = (database.session("ann", "shop"), database.session("eva", "shop"));
    session.connect(7, None, Box::new(|| {}));
    run(&mut session, "CREATE TABLE t (a integer); CREATE ROLE nosy");
    let table = ask(&mut observer, "SELECT 't'::regclass::oid").remove(0);
    assert_eq!(ask(&mut observer, PROGRESS), [""; 0]);
    let mut rows = RowSet::default();
    session.run("COPY t FROM STDIN (FORMAT csv) WHERE a <> 2; COPY t FROM STDIN", &mut rows).unwrap();
    assert_eq!(ask(&mut observer, PROGRESS), [format!("7,{table},COPY FROM,PIPE,0,0,0,0")]);
    for (piece, seen) in [("1\n2\n3", "5,0,1,1"), ("0\n4\n", "9,0,3,1")] {
        session.copy_in().unwrap().write(piece.as_bytes()).unwrap();
        assert_eq!(ask(&mut observer, PROGRESS), [format!("7,{table},COPY FROM,PIPE,{seen}")]);
    }
    // A role that may not see the statement sees no more than that there is one.
    run(&mut observer, "SET ROLE nosy");
    assert_eq!(ask(&mut observer, PROGRESS), ["7,,,,,,,"]);
    run(&mut observer, "RESET ROLE");
    session.copy_in().unwrap().finish(&mut rows).unwrap().wait().unwrap();
    // The next one has begun.
    assert_eq!(ask(&mut observer, PROGRESS), [format!("7,{table},COPY FROM,PIPE,0,0,0,0")]);
    let _ = session.copy_in().unwrap().fail("enough");
    assert_eq!(ask(&mut observer, PROGRESS), [""; 0]);
    run(&mut session, "INSERT INTO t SELECT 5 FROM generate_series(1, 300)");
    for (text, relation) in [("COPY t TO STDOUT", &*table), ("COPY (SELECT * FROM t) TO STDOUT", "0")] {
        let observer = database.session("eva", "shop");
        let mut watching = Watching { observer, received: 0, seen: Vec::new() };
        session.run(text, &mut watching).unwrap();
        assert_eq!(watching.seen, [format!("7,{relation},COPY TO,PIPE,256,0,128,0")], "{text}");
    }
    assert_eq!(ask(&mut observer, PROGRESS), [""; 0]);
}

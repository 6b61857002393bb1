//! `ermined shell`, in process and on a server.
//!
//! Goal: scripts do the same in both, their output is what psql would show, failures end them and show in the exit
//! status, and the work done is still found afterwards.
//! Method: the command as a process, with scripts from texts, files and pipes; the sessions themselves where several
//! things have to happen at the same time.

use std::{
    fs,
    io::{self, Write as _},
    process::{Command, Output},
    thread,
    time::{Duration, Instant},
};

use ermine_shell::{Connected, Ends, Failure, Reply, Standing, Statements, Target};

use crate::{
    process::{Directory, Serving, ermined, finish, output},
    terminal::Terminal,
};

/// A shell on a directory or a server.
enum Place<'a> {
    Here(&'a Directory),
    There(&'a Serving),
}

impl Place<'_> {
    fn command(&self, more: &[&str]) -> Command {
        let mut command = match self {
            Self::Here(directory) => ermined(&["shell", "--create", directory.path()]),
            Self::There(serving) => ermined(&["shell", "--connect", &url(serving)]),
        };
        command.args(more).env("PGUSER", "ann").env_remove("PGPASSWORD").env_remove("PGSSLMODE");
        // Edits without a user.
        command.env("PSQL_EDITOR", "sed -i s/two/three/");
        command
    }

    fn run(&self, more: &[&str], input: &str) -> (String, String, i32) {
        told(&finish(&mut self.command(more), input))
    }
}

fn url(serving: &Serving) -> String {
    format!("postgres://ann@{}/shop", serving.address)
}

/// Returns the two outputs and the exit status.
fn told(output: &Output) -> (String, String, i32) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr), output.status.code().unwrap())
}

/// Runs a test in process and on a server.
fn both(name: &str, test: impl Fn(&Place<'_>, &Directory)) {
    for kind in ["here", "there"] {
        let (database, files) =
            (Directory::new(&format!("shell-{name}-{kind}")), Directory::new(&format!("shell-{name}-{kind}-files")));
        if kind == "here" {
            test(&Place::Here(&database), &files);
        } else {
            let serving = Serving::start(&database.0, &[]);
            test(&Place::There(&serving), &files);
        }
    }
}

const TEA: &str =
    "CREATE TABLE tea (id serial PRIMARY KEY, name text NOT NULL, price numeric(6,2), origin text UNIQUE);
    INSERT INTO tea (name, price, origin) VALUES ('green', 3.50, '中国'), ('black', 12, NULL), ('mate; or not', NULL, \
    'Paraná');
";

#[test]
fn a_script_shows_what_psql_would_show() {
    both("script", |place, _| {
        let script = format!(
            "{TEA}
-- A comment; with a semicolon.
SELECT id, name,
  price, origin FROM tea /* ; */ ORDER BY id;
\\pset null -
SELECT origin FROM tea WHERE id < 3 ORDER BY id;
\\x
SELECT name, price FROM tea WHERE id > 1 ORDER BY id;
\\x off
UPDATE tea SET price = 4 WHERE id = 1 RETURNING price; BEGIN; DELETE FROM tea; ROLLBACK
;
\\echo 'so far'  so good
\\t on
SELECT count(*) FROM tea"
        );
        let wanted = "\
CREATE TABLE
INSERT 0 3
 id |     name     | price | origin 
----+--------------+-------+--------
  1 | green        |  3.50 | 中国
  2 | black        | 12.00 | 
  3 | mate; or not |       | Paraná
(3 rows)

Null display is \"-\".
 origin 
--------
 中国
 -
(2 rows)

Expanded display is on.
-[ RECORD 1 ]-------
name  | black
price | 12.00
-[ RECORD 2 ]-------
name  | mate; or not
price | -

Expanded display is off.
 price 
-------
  4.00
(1 row)

UPDATE 1
BEGIN
DELETE 3
ROLLBACK
so far so good
Tuples only is on.
     3

";
        let (shown, failures, code) = place.run(&[], &script);
        assert_eq!((&*shown, &*failures, code), (wanted, "", 0));
        // Its changes have stayed.
        let (shown, _, _) = place.run(&["--csv", "-c", "SELECT name, price FROM tea ORDER BY id"], "");
        assert_eq!(shown, "name,price\ngreen,4.00\nblack,12.00\nmate; or not,\n");
    });
}

#[test]
fn failures_are_told_and_end_scripts() {
    both("failures", |place, files| {
        let path = files.0.join("a.sql");
        fs::write(&path, format!("{TEA}\\echo on\n\nSELECT 1\n  WHERE;\nSELECT 1 AS one;\n")).unwrap();
        let path = path.to_str().unwrap();
        let (shown, failures, code) = place.run(&["-q", "-f", path], "");
        let place_of = "LINE 2:   WHERE;\n               ^\n";
        let wanted = format!("{path}:6: ERROR:  42601: syntax error: Expected: an expression, found: ;\n{place_of}");
        assert_eq!((&*shown, &*failures, code), ("on\n", &*wanted, 1));
        let goes_on = ["-q", "-t", "--on-error", "continue"];
        let script = "INSERT INTO tea (id, name) VALUES (1, 'x');\n\\nothing\nSELECT 7;\n\\i /nowhere\nSELECT 8";
        let (shown, failures, code) = place.run(&goes_on, script);
        assert_eq!((&*shown, code), ("        7\n\n        8\n\n", 1));
        let wanted = "ERROR:  23505: duplicate key value violates unique constraint \"tea_pkey\"\n\
            DETAIL:  Key (id)=(1) already exists.\n\
            invalid command \\nothing\nTry \\? for help.\n/nowhere: No such file or directory (os error 2)\n";
        assert_eq!(failures, wanted);
        // A transaction that was open when the script ended is rolled back.
        let (_, _, code) = place.run(&[], "BEGIN; DELETE FROM tea; SELECT 1/0; COMMIT;");
        assert_eq!(code, 1);
        let (shown, failures, code) = place.run(&["-t", "-c", "SELECT count(*) FROM tea"], "");
        assert_eq!((&*shown, &*failures, code), ("     3\n\n", "", 0));
        // A warning beside the result does not make the script fail.
        let (_, failures, code) = place.run(&["-c", "COMMIT"], "");
        assert_eq!((&*failures, code), ("WARNING:  25P01: there is no transaction in progress\n", 0));
    });
}

/// As pg_dump writes it, so that names in a dump cannot run commands.
#[test]
fn restricted_text_runs_no_commands() {
    both("restrict", |place, _| {
        let (told, failed, status) = place.run(&[], "\\restrict k\nSELECT 1 AS a;\n\\unrestrict k\n\\echo done\n");
        assert_eq!((told.as_str(), status), (" a \n---\n 1\n(1 row)\n\ndone\n", 0), "{failed}");
        for (text, wanted) in [
            ("\\restrict k\n\\echo 1\n", "\\echo: only \\unrestrict is allowed"),
            ("\\restrict k\n\\copy a to stdout\n", "\\copy: only"),
            ("\\restrict k\n\\unrestrict other\n", "\\unrestrict: it is not the key"),
            ("\\unrestrict k\n", "\\unrestrict: it is not the key"),
        ] {
            let (told, failed, status) = place.run(&[], text);
            assert!(told.is_empty() && failed.contains(wanted) && status == 1, "{text}: {told}{failed}");
        }
    });
}

#[test]
fn texts_and_files_are_run_in_their_order() {
    both("order", |place, files| {
        let at = |name: &str| files.0.join(name).to_str().unwrap().to_owned();
        fs::write(at("a.sql"), format!("{TEA}\\i {}\n\\q\nnonsense;", at("b.sql"))).unwrap();
        fs::write(
            at("b.sql"),
            format!("\\o {}\nSELECT name FROM tea WHERE id = 1;\n\\o\n\\pset format unaligned", at("out")),
        )
        .unwrap();
        let (shown, failures, code) =
            place.run(&["-q", "-f", &at("a.sql"), "-f", "-"], "SELECT id, name FROM tea WHERE id=2");
        assert_eq!((&*shown, &*failures, code), ("id|name\n2|black\n(1 row)\n", "", 0));
        assert_eq!(fs::read_to_string(at("out")).unwrap(), " name  \n-------\n green\n(1 row)\n\n");
        // One text is one transaction, and commands are texts, too.
        let arguments = ["-c", "\\pset format csv", "-c", "DELETE FROM tea; SELECT 1/0", "-c", "SELECT 1"];
        let (shown, failures, code) = place.run(&arguments, "");
        assert_eq!((&*shown, code), ("Output format is csv.\nDELETE 3\n", 1), "{failures}");
        let (shown, _, _) = place.run(&["--csv", "-c", "SELECT 1 AS a; SELECT count(*) FROM tea"], "");
        assert_eq!(shown, "a\n1\ncount\n3\n");
    });
}

#[test]
fn statements_are_repeated_and_edited() {
    both("buffer", |place, files| {
        let at = |name: &str| files.0.join(name).to_str().unwrap().to_owned();
        fs::write(at("a.sql"), "SELECT 'two' AS first; SELECT 'two' \\gx").unwrap();
        let script = format!(
            "\\t
SELECT 1 AS one \\g
\\gx
SELECT 'two' AS a;
SELECT 'drop' \\r
\\p
\\e
\\p
SELECT 'two' AS b
\\e
, 4;
\\e '{}'
SELECT 5 \\g {}
\\t
SELECT 6 \\watch i=0 c=2
\\x auto
\\pset columns 7
SELECT 7 AS a, 8 AS bc;
SELECT 7 AS a, 8 AS b
;",
            at("a.sql"),
            at("out")
        );
        let (shown, failures, code) = place.run(&["-q"], &script);
        let wanted = "   1\n\none | 1\n\n two\n\nSELECT 'two' AS a;\n three\n\nSELECT 'three' AS a;\n \
            three |        4\n\n three\n\n?column? | two\n\n";
        let (values, watched) = shown.split_at_checked(wanted.len()).unwrap_or_default();
        assert_eq!((values, &*failures, code), (wanted, "", 0), "{shown}");
        assert_eq!(fs::read_to_string(at("out")).unwrap(), "        5\n\n");
        let (times, rest) = watched.lines().partition::<Vec<_>, _>(|line| line.ends_with("(every 0s)"));
        assert_eq!(times.len(), 2, "{watched}");
        let six = ["", " ?column? ", "----------", "        6", "(1 row)", ""];
        let wide = ["-[ RECORD 1 ]", "a  | 7", "bc | 8", "", " a | b ", "---+---", " 7 | 8", "(1 row)", ""];
        assert_eq!(rest, [&six[..], &six, &wide].concat());
        // A watch ends with its statement's failure; after the editor's failure nothing runs.
        let script = "SELECT 1/0 \\watch c=5\nSELECT 1;\n\\e /nowhere/a\n\\watch x";
        let (shown, failures, code) = place.run(&["-tq", "--on-error", "continue"], script);
        let told = [failures.matches("22012").count(), failures.matches("\\edit: sed").count()];
        assert_eq!((&*shown, told, code), ("        1\n\n", [1, 1], 1), "{failures}");
        assert!(failures.ends_with("\\watch: incorrect interval value \"x\"\n"), "{failures}");
    });
}

#[test]
fn files_are_copied() {
    both("copy", |place, files| {
        let at = |name: &str| files.0.join(name).to_str().unwrap().to_owned();
        fs::write(at("in.csv"), "id,name\n7,oolong\n8,\"a,b\"\n").unwrap();
        let script = format!(
            "{TEA}\\copy tea (id, name) from '{}' csv header
COPY tea (id, name) FROM STDIN; SELECT 'then' AS it;
9\tninth;
10\t\\x
\\.
\\copy (SELECT id, name FROM tea WHERE id > 6 ORDER BY id) to '{}'
COPY (SELECT name FROM tea WHERE id = 8) TO STDOUT;
\\copy tea (id, name) from stdin
x\t1
SELECT 1;
\\.
\\copy nothing to '{}'
\\copy tea from '/nowhere'
SELECT count(*) FROM tea",
            at("in.csv"),
            at("out"),
            at("none")
        );
        let (shown, failures, code) = place.run(&["--csv", "--on-error", "continue"], &script);
        let wanted = "CREATE TABLE\nINSERT 0 3\nCOPY 2\nCOPY 2\nit\nthen\nCOPY 4\na,b\ncount\n7\n";
        assert_eq!((&*shown, code), (wanted, 1), "{failures}");
        assert_eq!(fs::read_to_string(at("out")).unwrap(), "7\toolong\n8\ta,b\n9\tninth;\n10\tx\n");
        for wanted in [
            "ERROR:  22P02: invalid input syntax for type integer: \"x\"\n\
             CONTEXT:  COPY tea, line 1, column id: \"x\"\n",
            "ERROR:  42P01: relation \"nothing\" does not exist\n",
            "/nowhere: No such file or directory",
        ] {
            assert!(failures.contains(wanted), "{wanted}\nis missing in\n{failures}");
        }
    });
}

#[test]
fn relations_are_described() {
    both("describe", |place, _| {
        let script =
            "CREATE SCHEMA other; CREATE TABLE other.cup (a integer CHECK (a > 0)); CREATE INDEX by_name ON tea (name);
\\dt
\\d tea
\\di *name
\\ds
\\dn
\\d tea_i*
\\d by_name
\\d other.*
\\d nothing";
        let (shown, failures, code) = place.run(&["-q"], &(TEA.to_owned() + script));
        assert_eq!((&*failures, code), ("Did not find any relation named \"nothing\".\n", 1));
        for wanted in [
            "   List of relations\n Schema | Name | Type  \n--------+------+-------\n other  | cup  | table\n\
             \x20public | tea  | table\n(2 rows)\n",
            "Table \"public.tea\"\n Column |",
            "\n id     | integer      | not null | nextval('tea_id_seq'::regclass)\n\
             \x20name   | text         | not null | \n",
            "\n price  | numeric(6,2) |          | \n",
            "\nIndexes:\n    \"tea_pkey\" PRIMARY KEY, btree (id)\n    \"by_name\" btree (name)\n    \
             \"tea_origin_key\" UNIQUE, btree (origin)\n",
            "\nCheck constraints:\n    \"cup_a_check\" CHECK (a > 0)\n",
            "Index \"public.by_name\"\n Column | Type \n--------+------\n name   | text\nfor table \"public.tea\"\n",
            " public | by_name | index | tea\n(1 row)\n",
            " public | tea_id_seq | sequence\n(1 row)\n",
            " other\n public\n",
            "Sequence \"public.tea_id_seq\"\n",
        ] {
            assert!(shown.contains(wanted), "{wanted}\nis missing in\n{shown}");
        }
    });
}

#[test]
fn a_directory_is_used_by_one_process() {
    let directory = Directory::new("shell-lock");
    let serving = Serving::start(&directory.0, &[]);
    let (ended, text) = output(&["shell", directory.path(), "-c", "SELECT 1"], "");
    assert_eq!(ended.status.code(), Some(1));
    assert!(
        text.starts_with("error: ") && text.contains(&format!("in use by process {}", serving.child.id())),
        "{text}"
    );
}

#[test]
fn users_say_who_they_are() {
    let directory = Directory::new("shell-users");
    output(&["init", directory.path()], "");
    output(&["user", "add", "ann", directory.path()], "pencil\n");
    let serving = Serving::start(&directory.0, &[]);
    let place = Place::There(&serving);
    let with = |password: &str| {
        let mut command = place.command(&["-t", "-c", "SELECT current_user", "-c", "\\conninfo"]);
        told(&finish(command.env("PGPASSWORD", password), ""))
    };
    let (shown, failures, code) = with("pencil");
    let connected = format!(" ann\n\nConnected to database \"shop\" as user \"ann\" on {}.\n", serving.address);
    assert_eq!((shown, &*failures, code), (connected, "", 0));
    let (_, failures, code) = with("pen");
    assert!(code == 1 && failures.contains("password authentication failed"), "{failures}");
    let (_, failures, code) = place.run(&["-c", "SELECT 1"], "");
    assert!(code == 1 && failures.contains("PGPASSWORD"), "{failures}");
    drop(serving);
    let (ended, text) = output(&["shell", "--connect", "postgres://ann@127.0.0.1:1/shop?connect_timeout=1"], "");
    assert!(ended.status.code() == Some(1) && text.contains("connecting to 127.0.0.1:1 failed"), "{text}");
}

#[test]
fn connections_are_secured() {
    let (directory, files) = (Directory::new("shell-tls"), Directory::new("shell-tls-files"));
    let at = |name: &str| files.0.join(name).to_str().unwrap().to_owned();
    for name in ["own", "other"] {
        let generated = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        fs::write(at(&format!("{name}.pem")), generated.cert.pem()).unwrap();
        fs::write(at(&format!("{name}.key")), generated.signing_key.serialize_pem()).unwrap();
    }
    let (certificate, key) = (at("own.pem"), at("own.key"));
    let serving = Serving::start(&directory.0, &["--tls-cert", &certificate, "--tls-key", &key, "--tls-required"]);
    let url = format!("postgres://ann@localhost:{}/shop", serving.address.port());
    let with = |mode: &str, roots: Option<&str>| {
        let mut command = ermined(&["shell", "--connect", &url, "-c", "\\conninfo"]);
        command.env("PGSSLMODE", mode).envs(roots.map(|roots| ("PGSSLROOTCERT", at(roots))));
        told(&finish(&mut command, ""))
    };
    for (mode, roots) in [("prefer", None), ("require", None), ("verify-full", Some("own.pem"))] {
        let (shown, failures, code) = with(mode, roots);
        assert!(code == 0 && shown.contains("with TLS"), "{shown}{failures}");
    }
    for (mode, roots, wanted) in
        [("disable", None, "TLS"), ("verify-full", Some("other.pem"), "certificate"), ("prefer", Some("none"), "none")]
    {
        let (_, failures, code) = with(mode, roots);
        assert!(code == 1 && failures.contains(wanted), "{mode}: {failures}");
    }
}

#[test]
fn who_has_read_enough_ends_it() {
    let directory = Directory::new("shell-head");
    let script = format!("{TEA}{}", "SELECT * FROM tea;\n".repeat(5000));
    let mut child = ermined(&["shell", "--create", directory.path()]).spawn().unwrap();
    drop(child.stdout.take());
    let mut input = child.stdin.take().unwrap();
    let _ = io::Write::write_all(&mut input, script.as_bytes());
    drop(input);
    let (_, failures, code) = told(&child.wait_with_output().unwrap());
    assert_eq!((&*failures, code), ("", 1));
}

fn run(statements: &mut dyn Statements, text: &str) -> (Result<(), Box<Failure>>, Vec<Reply>) {
    let mut replies = Vec::new();
    let ends = Ends { source: &mut io::empty(), sink: &mut io::sink() };
    (statements.run(text, ends, &mut replies), replies)
}

#[test]
fn statements_on_a_server_are_cancelled_and_servers_end() {
    let directory = Directory::new("shell-cancel");
    let mut serving = Serving::start(&directory.0, &["--drain-seconds", "0"]);
    let mut session = Connected::open(Target::new(&url(&serving), |_| None).unwrap()).unwrap();
    run(&mut session, "CREATE TABLE n (a integer PRIMARY KEY); INSERT INTO n SELECT * FROM generate_series(1, 2000)")
        .0
        .unwrap();
    let cancel = session.canceller();
    let cancelling = thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        cancel();
    });
    run(&mut session, "BEGIN").0.unwrap();
    assert_eq!(session.standing(), Standing::Open);
    let began = Instant::now();
    let failure = run(&mut session, "SELECT count(*) FROM n a, n b, n c WHERE a.a + b.a + c.a = 0").0.unwrap_err();
    assert_eq!((&*failure.state, session.standing()), ("57014", Standing::Failed));
    assert!(began.elapsed() < Duration::from_secs(60));
    cancelling.join().unwrap();
    run(&mut session, "ROLLBACK").0.unwrap();
    assert_eq!(session.standing(), Standing::Idle);
    serving.signal("TERM");
    serving.child.wait().unwrap();
    let failure = run(&mut session, "SELECT 1").0.unwrap_err();
    assert_eq!(session.standing(), Standing::Lost, "{failure}");
}

#[test]
fn who_waits_for_a_file_is_interrupted() {
    both("interrupt", |place, files| {
        let path = files.0.join("pipe");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        let mut shell = Terminal::start(place.command(&[]).env("ERMINE_HISTORY", ""));
        let copy = format!("\\copy t from '{}'", path.display());
        shell.enter("CREATE TABLE t (a text);");
        shell.until("CREATE TABLE\r\n");
        // A signal that comes while the line is being read would take it back.
        shell.enter(&copy);
        shell.until_or("pipe: canceled by user", |shell| shell.signal("INT"));
        // Its other end is open, and has data, but no end.
        let mut end = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        writeln!(end, "1").unwrap();
        shell.enter(&copy);
        shell.until_or("57014", |shell| shell.signal("INT"));
        shell.enter("SELECT 'rows: ' || count(*) FROM t;");
        shell.until("rows: 0");
        shell.enter("\\q");
        assert!(shell.command.wait().unwrap().success());
    });
}

#[test]
fn a_user_gets_a_new_connection_where_one_is_lost() {
    let directory = Directory::new("shell-reset");
    let serving = Serving::start(&directory.0, &["--drain-seconds", "0"]);
    let address = serving.address.to_string();
    let mut shell = Terminal::start(Place::There(&serving).command(&[]).env("ERMINE_HISTORY", ""));
    let types = |shell: &mut Terminal, text: &str| write!(shell.user, "{text}\r").unwrap();
    types(&mut shell, "SHOW application_name;");
    shell.until(" ermined shell");
    drop(serving);
    let serving = Serving::start(&directory.0, &["--listen", &address]);
    types(&mut shell, "SELECT 1;");
    shell.until("The connection to the server was lost. Attempting reset: Succeeded.");
    types(&mut shell, "SELECT 'answer: ' || 6 * 7;");
    shell.until("answer: 42");
    drop(serving);
    types(&mut shell, "SELECT 1;");
    shell.until("Attempting reset: Failed.");
    shell.until("shop=?> ");
    let _serving = Serving::start(&directory.0, &["--listen", &address]);
    types(&mut shell, "SELECT 'answer: ' || 6 * 7;");
    shell.until("Attempting reset: Succeeded.");
    shell.until("answer: 42");
    types(&mut shell, "\\q");
    assert!(shell.command.wait().unwrap().success());
}

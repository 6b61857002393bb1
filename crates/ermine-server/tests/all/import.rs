//! `ermined import`. The programs of PostgreSQL are scripts that write what the real ones would, so that the tests need
//! no PostgreSQL; `scripts/import` is the same with real ones.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
};

use crate::process::{Directory, ermined, finish, output};

const DEFINITIONS: &str = r#"--
-- Name: tea; Type: TABLE
--

\restrict key
SET transaction_timeout = 0;
SELECT pg_catalog.set_config('search_path', '', false);
CREATE TABLE public.tea (
    id integer NOT NULL,
    name text
);
CREATE SEQUENCE public.numbers;
"#;
const ROWS: &str = r#"COPY public.tea (id, name) FROM stdin;
1	green; not \\.
2	\N
\.


SELECT pg_catalog.setval('public.numbers', 7, true);
"#;
const INDEXES: &str = r#"ALTER TABLE ONLY public.tea
    ADD CONSTRAINT tea_pkey PRIMARY KEY (id);
CREATE INDEX tea_by_name ON public.tea USING btree (name);
\unrestrict key
"#;
const FUNCTION: &str =
    "CREATE FUNCTION public.f() RETURNS integer\n    LANGUAGE sql\n    AS $$SELECT 1; SELECT 2;$$;\n";

/// A source, and a directory to import into.
struct Source {
    directory: Directory,
}

impl Source {
    /// Makes the programs; `end` is what `pg_dump` does after it has written the dump.
    fn new(definitions: &str, rows: &str, end: &str) -> Self {
        let source = Self { directory: Directory::new("import") };
        fs::write(source.path("definitions"), [definitions, INDEXES].concat()).unwrap();
        fs::write(source.path("dump"), [definitions, rows].concat()).unwrap();
        source.program("psql", r#"echo "$PGPASSWORD $*" >"${0%/*}/told"; printf '15\n0\n1000\tpublic.tea\n-1\ta.b\n'"#);
        let dump = r#"case "$*" in
            *--version*) echo 'pg_dump (PostgreSQL) 15.4' ;;
            *--section=pre-data*) cat "${0%/*}/definitions" ;;
            *) cat "${0%/*}/dump"; "#;
        source.program("pg_dump", &format!("{dump}{end} ;;\nesac"));
        source
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.0.join(name)
    }

    /// Writes a program from another process: as long as one that was forked has the file open, it cannot be run.
    fn program(&self, name: &str, text: &str) {
        let mut install = Command::new("install");
        install.args(["-m", "755", "/dev/stdin"]).arg(self.path(name)).stdin(Stdio::piped());
        assert!(finish(&mut install, &format!("#!/bin/sh\n{text}\n")).status.success());
    }

    /// Imports with further arguments; returns the exit status and all output.
    fn import(&self, more: &[&str]) -> (i32, String) {
        let (bin, dir) = (self.directory.path(), self.path("db"));
        let url = "postgres://ann:s%40cret@127.0.0.1/shop";
        let arguments = ["import", url, dir.to_str().unwrap(), "--create", "--pg-bin", bin];
        let (output, text) = output(&[&arguments[..], more].concat(), "");
        (output.status.code().unwrap(), text)
    }

    /// Returns the rows of a query.
    fn query(&self, text: &str) -> String {
        let dir = self.path("db");
        output(&["shell", dir.to_str().unwrap(), "--csv", "-t", "-c", text], "").1
    }
}

#[test]
fn definitions_rows_and_sequences_are_copied() {
    let source = Source::new(DEFINITIONS, &[ROWS, INDEXES].concat(), ":");
    let (status, told) = source.import(&[]);
    assert_eq!(status, 0, "{told}");
    assert!(told.contains("public.tea: 2 rows, ") && told.contains("db: 1 tables, 2 rows, "), "{told}");
    assert_eq!(source.query("SELECT * FROM tea ORDER BY id"), "1,green; not \\.\n2,\n");
    assert_eq!(source.query("SELECT nextval('numbers')"), "8\n");
    let indexes = source.query("SELECT indexname FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1");
    assert_eq!(indexes, "tea_by_name\ntea_pkey\n");
    // The password is in the environment of the programs, not in their arguments.
    let asked = fs::read_to_string(source.path("told")).unwrap();
    assert!(asked.starts_with("s@cret ") && asked.contains("--dbname postgres://ann@127.0.0.1/shop"), "{asked}");
    // A second time, the table exists.
    let (status, told) = source.import(&["--skip-unsupported"]);
    assert_eq!(status, 2, "{told}");
    assert!(told.contains("refused: CREATE TABLE public.tea") && told.contains("nothing was imported"), "{told}");
    assert_eq!(source.query("SELECT count(*) FROM tea"), "2\n");
}

#[test]
fn refused_definitions_are_listed_before_anything_is_changed() {
    let definitions =
        format!("{FUNCTION}{DEFINITIONS}CREATE TABLE public.odd (\n    a integer\n) INHERITS (public.tea);\n");
    let rows = format!("COPY public.odd (a) FROM stdin;\n1\n2\n\\.\n{ROWS}{INDEXES}");
    let source = Source::new(&definitions, &rows, ":");
    let (status, told) = source.import(&[]);
    assert_eq!(status, 1, "{told}");
    for wanted in ["refused: CREATE FUNCTION public.f()", "refused: CREATE TABLE public.odd", "nothing was imported"] {
        assert!(told.contains(wanted), "{told}");
    }
    assert!(!told.contains("transaction_timeout"), "{told}");
    assert_eq!(source.query("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"), "0\n");
    let (status, told) = source.import(&["--skip-unsupported"]);
    assert_eq!(status, 0, "{told}");
    for wanted in ["CREATE FUNCTION public.f()", "CREATE TABLE public.odd", "COPY public.odd"] {
        assert!(told.contains(&format!("left out: {wanted}")), "{told}");
    }
    assert_eq!(source.query("SELECT count(*) FROM tea"), "2\n");
}

#[test]
fn a_source_that_is_lost_is_reported_with_what_is_left_behind() {
    let cut = "COPY public.tea (id, name) FROM stdin;\n1\tgreen\n2\tbl";
    // It ends within a row.
    let source = Source::new(DEFINITIONS, cut, "echo 'pg_dump: error: the connection is lost' >&2; exit 1");
    let (status, told) = source.import(&[]);
    assert_eq!(status, 1, "{told}");
    assert!(
        told.contains("pg_dump: error: the connection is lost") && told.contains("before another import"),
        "{told}"
    );
    assert_eq!(source.query("SELECT count(*) FROM tea"), "0\n");
    // It ends within a statement, before the rows.
    let source = Source::new(DEFINITIONS, "CREATE TABLE cut (", ":");
    let (status, told) = source.import(&[]);
    assert_eq!(status, 1, "{told}");
    assert!(told.contains("not complete") && !told.contains("before another import"), "{told}");
    assert_eq!(source.query("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"), "0\n");
}

#[test]
fn a_source_that_cannot_be_used_makes_no_database() {
    let source = Source::new(DEFINITIONS, &[ROWS, INDEXES].concat(), ":");
    source.program("pg_dump", "echo 'pg_dump (PostgreSQL) 14.1'");
    let (status, told) = source.import(&[]);
    assert_eq!(status, 2, "{told}");
    assert!(told.contains("version 15 or later"), "{told}");
    source.program("psql", "echo 'psql: error: no such user' >&2; exit 2");
    let (status, told) = source.import(&[]);
    assert_eq!(status, 1, "{told}");
    assert!(told.contains("psql: error: no such user"), "{told}");
    fs::remove_file(source.path("psql")).unwrap();
    let (status, told) = source.import(&[]);
    assert_eq!(status, 2, "{told}");
    assert!(told.contains("psql is not found; install"), "{told}");
    assert!(!source.path("db").exists());
    let wrong = finish(&mut ermined(&["import", "shop", "db"]), "");
    assert_eq!(wrong.status.code(), Some(2));
}

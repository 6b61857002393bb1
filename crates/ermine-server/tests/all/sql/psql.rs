//! `psql`, as people use it: its catalog queries are understood, and its output is the same as with PostgreSQL. Skipped
//! where it is not installed.

use std::process::Command;

use super::{Directory, Serving};

fn psql(serving: &Serving, command: &str) -> Option<String> {
    let path = format!("{}:/usr/lib/postgresql/15/bin", std::env::var("PATH").unwrap_or_default());
    let port = serving.address.port().to_string();
    let run = Command::new("psql")
        .args(["-X", "-h", "127.0.0.1", "-U", "ann", "-d", "shop", "-v", "ON_ERROR_STOP=1", "-p", &port, "-c", command])
        .env("PATH", path)
        .output();
    let output = match run {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        run => run.unwrap(),
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{command}: {errors}");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn its_commands_describe_tables_as_in_postgresql() {
    let directory = Directory::new("psql");
    let serving = Serving::start(&directory.0, &[]);
    let create = "CREATE TABLE t (a serial PRIMARY KEY, b varchar(20) NOT NULL DEFAULT 'x' CHECK (b <> ''), c \
        numeric(10,2) UNIQUE, e integer GENERATED ALWAYS AS IDENTITY)";
    if psql(&serving, create).is_none() {
        return println!("psql is not installed");
    }
    let show = |command: &str| psql(&serving, command).unwrap();
    show("CREATE USER bob");
    show("CREATE INDEX t_b_idx ON t (b DESC) WHERE a > 3");
    let described = r#"                                   Table "public.t"
 Column |         Type          | Collation | Nullable |           Default            
--------+-----------------------+-----------+----------+------------------------------
 a      | integer               |           | not null | nextval('t_a_seq'::regclass)
 b      | character varying(20) |           | not null | 'x'::character varying
 c      | numeric(10,2)         |           |          | 
 e      | integer               |           | not null | generated always as identity
Indexes:
    "t_pkey" PRIMARY KEY, btree (a)
    "t_b_idx" btree (b DESC) WHERE a > 3
    "t_c_key" UNIQUE CONSTRAINT, btree (c)
Check constraints:
    "t_b_check" CHECK (b <> '')

"#;
    assert_eq!(show("\\d t"), described);
    assert!(show("\\d t_a_seq").ends_with("Owned by: public.t.a\n\n"));
    assert!(
        show("\\d t_b_idx")
            .contains("b      | character varying(20) | yes  | b\nbtree, for table \"public.t\", predicate (a > 3)")
    );
    for (command, lines) in [
        ("\\d", &[" public | t       | table    | ann", " public | t_a_seq | sequence | ann"][..]),
        ("\\dt", &[" public | t    | table | ann"]),
        ("\\dt+", &[" public | t    | table | ann   | permanent   | heap          |"]),
        ("\\di", &[" public | t_b_idx | index | ann   | t"]),
        ("\\ds", &[" public | t_e_seq | sequence | ann"]),
        ("\\dn", &[" public | pg_database_owner"]),
        ("\\l", &[" shop | ann   | UTF8     | C       | C     |            | libc            |"]),
        (
            "\\du",
            &[
                " ann       | Superuser, Create role, Create DB, Replication, Bypass RLS | {}",
                " bob       |                                                            | {}",
            ],
        ),
        ("\\df", &["(0 rows)"]),
        ("\\dT", &["(0 rows)"]),
        ("\\dp t", &[" public | t    | table |"]),
        ("\\d+ t", &["Access method: heap"]),
    ] {
        let shown = show(command);
        for line in lines {
            assert!(
                shown.lines().any(|shown| shown.trim_end().starts_with(line.trim_end())),
                "{command} has no {line:?}:\n{shown}"
            );
        }
    }
}

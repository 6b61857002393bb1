//! The source of an import: a PostgreSQL server, which is asked by PostgreSQL's own programs.
//!
//! `pg_dump` knows the catalogs of every version, the order of definitions, and which rows are copied; it reads all of
//! them in one snapshot. `psql` says first whether the source can be reached at all, and how many rows to expect. Both
//! connect by libpq: with passwords of `~/.pgpass`, TLS, sockets and services.

use std::{
    collections::HashMap,
    ffi::OsStr,
    io::{self, Read as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    thread::{self, JoinHandle},
};

use crate::{Failure, failed};

/// A database of a PostgreSQL server.
pub struct Source {
    /// Its address, without a password: all users of this machine see the arguments of a program.
    url: String,
    password: Option<String>,
    /// The directory of the programs.
    bin: Option<PathBuf>,
}

/// The size of a source, before anything is read.
pub struct Overview {
    /// Estimated numbers of rows by the names of tables, as `pg_dump` writes them.
    pub rows: HashMap<String, u64>,
    /// The number of large objects.
    pub large_objects: u64,
}

/// The server's version, the number of large objects, and the tables, of which those that were never analyzed have -1
/// rows.
const OVERVIEW: &str = "SELECT pg_catalog.current_setting('server_version_num')::int / 10000;
    SELECT pg_catalog.count(*) FROM pg_catalog.pg_largeobject_metadata;
    SELECT c.reltuples::bigint, pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(c.relname)
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind = 'r' AND c.relpersistence <> 't' AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'";

impl Source {
    pub fn new(url: &str, bin: Option<&Path>) -> Result<Self, Failure> {
        let (url, password) = without_password(url).map_err(|what| Failure::Usage(format!("the source: {what}")))?;
        Ok(Self { url, password, bin: bin.map(Path::to_owned) })
    }

    /// Asks the source for its size; fails if it cannot be reached, or if `pg_dump` is too old for it.
    pub fn overview(&self) -> Result<Overview, Failure> {
        let told = self.run("psql", &["-XAtq", "--field-separator=\t", "--no-password", "--command", OVERVIEW])?;
        let mut lines = told.lines();
        let mut number = || lines.next()?.parse::<u64>().ok();
        let (Some(server), Some(large_objects)) = (number(), number()) else {
            return Err(Failure::Failed(format!("psql answered what is not understood: {told}")));
        };
        let version = self.run("pg_dump", &["--version"])?;
        if major(&version).is_some_and(|own| own < server) {
            let what = format!("the source is PostgreSQL {server}, for which {} is too old", version.trim_end());
            return Err(Failure::Usage(format!("{what}; {}", install(&format!("version {server} or later")))));
        }
        let row = |line: &str| {
            let (rows, name) = line.split_once('\t')?;
            Some((name.to_owned(), rows.parse().ok()?))
        };
        Ok(Overview { rows: lines.filter_map(row).collect(), large_objects })
    }

    /// Begins a dump.
    pub fn dump(&self, options: &[&str]) -> Result<Dump, Failure> {
        // Large objects and tablespaces are not there to be restored to.
        let always = ["--no-password", "--encoding=UTF8", "--no-blobs", "--no-tablespaces"];
        let mut command = self.command("pg_dump", always.iter().chain(options));
        let mut child = command.spawn().map_err(|error| not_run("pg_dump", &error))?;
        let stdout = child.stdout.take();
        let stderr = child.stderr.take().map(|mut stderr| {
            thread::spawn(move || {
                let mut said = Vec::new();
                // What was said before an error is said.
                let _ = stderr.read_to_end(&mut said);
                String::from_utf8_lossy(&said).into_owned()
            })
        });
        Ok(Dump { child, stdout, stderr })
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<String, Failure> {
        let output = self.command(program, arguments).output().map_err(|error| not_run(program, &error))?;
        check(program, output.status, &String::from_utf8_lossy(&output.stderr))?;
        String::from_utf8(output.stdout).map_err(failed)
    }

    fn command(&self, program: &str, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let path = self.bin.as_ref().map_or_else(|| program.into(), |bin| bin.join(program));
        let mut command = Command::new(path);
        command.args(arguments).arg("--dbname").arg(&self.url);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(password) = &self.password {
            command.env("PGPASSWORD", password);
        }
        command
    }
}

/// A running `pg_dump`, which ends at the latest with this.
pub struct Dump {
    child: Child,
    stdout: Option<ChildStdout>,
    stderr: Option<JoinHandle<String>>,
}

impl Dump {
    /// Returns the text that it writes; may be called once.
    pub fn output(&mut self) -> ChildStdout {
        self.stdout.take().expect("it is called once")
    }

    /// Waits for its end, after its output has ended; fails if the dump is not complete.
    pub fn finish(&mut self) -> Result<(), Failure> {
        let status = self.child.wait().map_err(failed)?;
        let said = self.stderr.take().map_or_else(String::new, |said| said.join().unwrap_or_default());
        check("pg_dump", status, &said)
    }
}

impl Drop for Dump {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// Fails with what a program has said if it has failed.
fn check(program: &str, status: ExitStatus, said: &str) -> Result<(), Failure> {
    if status.success() {
        return Ok(());
    }
    let hint = if said.contains("no password supplied") {
        "\nThe password is taken from the URL, PGPASSWORD or ~/.pgpass."
    } else {
        ""
    };
    Err(Failure::Failed(match said.trim_end() {
        "" => format!("{program} failed: {status}"),
        said => format!("the source cannot be read\n{said}{hint}"),
    }))
}

fn not_run(program: &str, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::NotFound => Failure::Usage(format!("{program} is not found; {}", install("any version"))),
        _ => Failure::Failed(format!("{program} cannot be run: {error}")),
    }
}

fn install(version: &str) -> String {
    format!(
        "install PostgreSQL's client programs, {version} (Debian: postgresql-client), or name their directory with \
         --pg-bin"
    )
}

/// Returns the first number of `pg_dump (PostgreSQL) 15.4`.
fn major(version: &str) -> Option<u64> {
    version.split_whitespace().nth(2)?.split(|character: char| !character.is_ascii_digit()).next()?.parse().ok()
}

/// Returns a URL without its password, and the password.
fn without_password(url: &str) -> Result<(String, Option<String>), &'static str> {
    const FORM: &str = "it is no URL like postgres://user[:password]@host[:port]/database";
    let (scheme, rest) = url.split_once("://").ok_or(FORM)?;
    if !matches!(scheme, "postgres" | "postgresql") {
        return Err(FORM);
    }
    let options = rest.split_once('?').map_or("", |(_, options)| options);
    if options.split('&').any(|option| option.starts_with("password=")) {
        return Err("a password belongs before the @, into PGPASSWORD or into ~/.pgpass");
    }
    // As libpq reads it: the user ends at the first @, unless a / comes before.
    let end = rest.find(['@', '/']).filter(|at| rest[*at..].starts_with('@'));
    let Some((user, password)) = end.and_then(|end| rest[..end].split_once(':')) else {
        return Ok((url.to_owned(), None));
    };
    let password = decoded(password).ok_or("the password has a % that does not begin two hexadecimal digits")?;
    Ok((format!("{scheme}://{user}{}", &rest[end.unwrap_or(0)..]), Some(password)))
}

/// Returns the text of which each `%41` stands for a byte.
fn decoded(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let digits = part.get(..2).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_leaves_the_url() {
        for (url, wanted, password) in [
            (
                "postgres://ann:p%40%25s@h:77/shop?sslmode=require",
                "postgres://ann@h:77/shop?sslmode=require",
                Some("p@%s"),
            ),
            ("postgresql://ann@h/shop", "postgresql://ann@h/shop", None),
            ("postgres://h:77/shop", "postgres://h:77/shop", None),
            ("postgres:///shop?user=a@b", "postgres:///shop?user=a@b", None),
            ("postgres://ann:@h", "postgres://ann@h", Some("")),
        ] {
            assert_eq!(without_password(url), Ok((wanted.to_owned(), password.map(str::to_owned))), "{url}");
        }
        for url in ["shop", "mysql://h/shop", "postgres://a:%4@h", "postgres://a:%+1@h", "postgres://h/d?password=x"] {
            assert!(without_password(url).is_err(), "{url}");
        }
    }

    #[test]
    fn versions_are_read() {
        assert_eq!(major("pg_dump (PostgreSQL) 15.4 (Debian 15.4-1)\n"), Some(15));
        assert_eq!(major("pg_dump (PostgreSQL) 18beta1"), Some(18));
        assert_eq!(major("nonsense"), None);
    }
}

//! The configuration of a server: its places and their order, mistakes, what SQL shows of it and changes in it, and
//! reading it again.

use std::{fs, path::PathBuf};

use super::process::{Directory, Serving, ermined, finish, output};

/// A database whose configuration file has this text.
fn database(name: &str, configuration: &str) -> (Directory, PathBuf) {
    let directory = Directory::new(name);
    assert!(output(&["init", directory.path()], "").0.status.success());
    let file = directory.0.join("ermined.toml");
    fs::write(&file, configuration).unwrap();
    (directory, file)
}

/// Runs a statement, and returns its rows or its error.
fn sql(serving: &Serving, statement: &str) -> String {
    let url = format!("postgres://ann@127.0.0.1:{}/shop", serving.address.port());
    let (_, text) = output(&["shell", "--connect", &url, "--csv", "-t", "-c", statement], "");
    text.trim_end().to_owned()
}

/// Repeats a statement until it has this result: a signal is handled some time later.
fn wait_for(serving: &Serving, statement: &str, wanted: &str) {
    while sql(serving, statement) != wanted {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn the_strongest_place_decides() {
    let text = "max-connections = 7\nauth-delay = 8\nlog = \"warn\"\n[set]\nwork_mem = \"64MB\"\nlock_timeout = 5\n";
    let (directory, file) = database("places", text);
    fs::write(directory.0.join("ermined.auto.toml"), "auth-delay = 9\n[set]\nlock_timeout = 6").unwrap();
    let path = directory.path();
    let mut show = ermined(&["config", "show", path, "--set", "work_mem=1MB", "--log", "error"]);
    let shown = finish(show.env("ERMINED_MAX_CONNECTIONS", "6").env("ERMINED_DRAIN_SECONDS", "1"), "");
    let shown = String::from_utf8(shown.stdout).unwrap();
    let line = |name: &str| {
        let line = shown.lines().find(|line| line.split_whitespace().next() == Some(name)).unwrap();
        line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("max-connections"), "6 ERMINED_MAX_CONNECTIONS");
    assert_eq!(line("drain-seconds"), "1 ERMINED_DRAIN_SECONDS");
    assert_eq!(line("auth-delay"), format!("9 {path}/ermined.auto.toml, line 1"));
    assert_eq!(line("log"), "error command line");
    assert_eq!(line("set.work_mem"), "1MB command line");
    assert_eq!(line("set.lock_timeout"), format!("6 {path}/ermined.auto.toml, line 3"));
    assert_eq!(line("scheme"), "si-ssn default");
    assert_eq!(line("hba-file"), "- default");
    // Another file stands in for the one of the directory.
    let other = directory.0.join("other.toml");
    fs::write(&other, "max-connections = 5").unwrap();
    let (_, text) = output(&["config", "show", path, "--config", other.to_str().unwrap()], "");
    assert!(text.contains("other.toml, line 1") && !text.contains("ermined.toml"), "{text}");
    // Options of several places are combined as those of one.
    fs::write(&file, "tls-key = \"k\"").unwrap();
    let (ended, text) = output(&["config", "show", path], "");
    assert!(ended.status.code() == Some(2) && text.contains("--tls-cert"), "{text}");
    let (ended, text) = output(&["config", "show", path, "--tls-cert", "c"], "");
    assert!(ended.status.success() && text.contains("ermined.toml, line 1"), "{text}");
}

#[test]
fn a_mistake_is_found_before_the_server_starts() {
    let (directory, file) = database("mistakes", "");
    let (path, file_path) = (directory.path(), file.to_str().unwrap());
    for (text, wanted) in [
        ("a = 1\n\nmax-connection = 5", "line 1: there is no option a;"),
        ("max-connection = 5", "line 1: there is no option max-connection; did you mean max-connections?"),
        ("\nmax-connections = true", "line 2: max-connections is no integer"),
        ("scheme = \"silos\"", "line 1: scheme: invalid value 'silos'"),
        ("[set]\nwork_men = 1", "line 2: unrecognized configuration parameter \"work_men\""),
        ("[set]\nwork_mem = \"1 pound\"", "line 2: invalid value for parameter \"work_mem\""),
        ("[set]\ntransaction_read_only = true", "line 2: parameter \"transaction_read_only\" cannot be configured"),
        ("trust = true\nhba-file = \"x\"", "cannot be used with"),
    ] {
        fs::write(&file, text).unwrap();
        for (arguments, status) in [(&["config", "check", file_path][..], 1), (&["serve", path], 2)] {
            let (ended, said) = output(arguments, "");
            assert!(ended.status.code() == Some(status) && said.contains(wanted), "{text}: {said}");
        }
    }
    fs::write(&file, "max-connections = 9\n[set]\nwork_mem = 65536").unwrap();
    let (ended, said) = output(&["config", "check", file_path], "");
    assert!(ended.status.success() && said.ends_with(": 2 values, and no mistake\n"), "{said}");
    let missing = directory.0.join("missing.toml");
    let (ended, said) = output(&["serve", path, "--config", missing.to_str().unwrap()], "");
    assert!(ended.status.code() == Some(2) && said.contains("missing.toml"), "{said}");
    // The file that init writes is right, and changes nothing; a database beside it is whole.
    let fresh = Directory::new("template");
    assert!(output(&["init", fresh.path(), "--config"], "").0.status.success());
    let written = fresh.0.join("ermined.toml");
    let (ended, said) = output(&["config", "check", written.to_str().unwrap()], "");
    assert!(ended.status.success() && said.contains(": 0 values"), "{said}");
    let (ended, said) = output(&["verify", fresh.path()], "");
    assert!(ended.status.success(), "{said}");
}

#[test]
fn sql_shows_the_options_and_their_places() {
    let (directory, file) = database("shown", "max-connections = 50\n[set]\nwork_mem = \"64MB\"");
    let serving = Serving::start(&directory.0, &["--drain-seconds", "3"]);
    let file = file.to_str().unwrap();
    let settings = |names: &str| {
        let columns = "name, setting, unit, context, vartype, source, boot_val, sourceline, pending_restart";
        sql(&serving, &format!("SELECT {columns} FROM pg_settings WHERE name IN ({names}) ORDER BY name"))
    };
    assert_eq!(settings("'max_connections'"), "max_connections,50,,sighup,integer,configuration file,1000,1,f");
    assert_eq!(settings("'ermine.drain_seconds'"), "ermine.drain_seconds,3,s,sighup,integer,command line,10,,f");
    assert_eq!(settings("'ermine.scheme'"), "ermine.scheme,si-ssn,,postmaster,string,default,si-ssn,,f");
    assert_eq!(settings("'work_mem'"), "work_mem,65536,kB,user,integer,configuration file,262144,3,f");
    assert_eq!(settings("'lock_timeout'"), "lock_timeout,0,ms,user,integer,default,0,,f");
    assert_eq!(sql(&serving, "SELECT sourcefile FROM pg_settings WHERE name = 'work_mem'"), file);
    assert_eq!(
        sql(&serving, "SHOW max_connections; SHOW work_mem; SHOW port; SHOW listen_addresses")
            .lines()
            .collect::<Vec<_>>(),
        ["50", "64MB", &serving.address.port().to_string(), "127.0.0.1"]
    );
    assert_eq!(sql(&serving, "SELECT current_setting('ermine.scheme')"), "si-ssn");
    let bare = "SELECT name FROM pg_settings WHERE category = '' OR short_desc = '' OR context = '' OR source = ''";
    assert_eq!(sql(&serving, bare), "");
    assert_eq!(sql(&serving, "SET work_mem = '1MB'; RESET work_mem; SHOW work_mem"), "64MB");
    assert_eq!(
        sql(&serving, "SET work_mem = '1MB'; SELECT source FROM pg_settings WHERE name = 'work_mem'"),
        "session"
    );
    assert!(sql(&serving, "SET max_connections = 3").contains("parameter \"max_connections\" cannot be changed now"));
    assert!(sql(&serving, "SET ermine.scheme = si").contains("cannot be changed without restarting the server"));
    // Paths of the server are for superusers.
    sql(&serving, "CREATE ROLE app");
    let paths = "SELECT count(*) FROM pg_settings WHERE sourcefile IS NOT NULL OR name = 'data_directory'";
    assert_eq!(sql(&serving, paths), "3");
    assert_eq!(sql(&serving, &format!("SET ROLE app; {paths}")), "0");
    for read in ["SHOW data_directory", "SELECT current_setting('data_directory')"] {
        assert!(sql(&serving, &format!("SET ROLE app; {read}")).contains("must be superuser"), "{read}");
    }
}

#[test]
fn a_running_server_takes_over_what_it_can() {
    let (directory, file) = database("reload", "max-connections = 50\nscheme = \"si-ssn\"");
    let rules = directory.0.join("rules");
    fs::write(&rules, "host all all samehost trust").unwrap();
    let mut serving = Serving::start(&directory.0, &["--hba-file", rules.to_str().unwrap()]);
    fs::write(&file, "max-connections = 60\nscheme = \"si\"\nmemory-limit = 512\n[set]\nlock_timeout = \"2s\"")
        .unwrap();
    serving.signal("HUP");
    wait_for(&serving, "SHOW max_connections", "60");
    assert_eq!(sql(&serving, "SELECT memory_limit FROM ermine_stat_memory"), (512 << 20).to_string());
    assert_eq!(sql(&serving, "SHOW lock_timeout"), "2s");
    // The scheme stays.
    assert_eq!(sql(&serving, "SHOW ermine.scheme"), "si-ssn");
    let pending = "SELECT name FROM pg_settings WHERE pending_restart";
    assert_eq!(sql(&serving, pending), "ermine.scheme");
    // Nothing of an unusable configuration is taken over.
    for text in ["max-connections = 70\nscheme = 1", "max-connections = 70\n[set]\nlock_timeout = \"x\""] {
        fs::write(&file, text).unwrap();
        assert_eq!(sql(&serving, "SELECT pg_reload_conf()"), "f");
    }
    fs::write(&file, "max-connections = 70").unwrap();
    fs::write(&rules, "host all all").unwrap();
    assert_eq!(sql(&serving, "SELECT pg_reload_conf()"), "f");
    assert_eq!(sql(&serving, "SHOW max_connections; SHOW lock_timeout").lines().collect::<Vec<_>>(), ["60", "2s"]);
    assert_eq!(sql(&serving, pending), "ermine.scheme");
    // Rules hold for the next connection, and a limit for those that are there.
    fs::write(&rules, "host all eve samehost reject\nhost all all samehost trust").unwrap();
    assert_eq!(sql(&serving, "SELECT pg_reload_conf()"), "t");
    assert_eq!(sql(&serving, "SHOW max_connections"), "70");
    let url = format!("postgres://eve@127.0.0.1:{}/shop", serving.address.port());
    let (_, text) = output(&["shell", "--connect", &url, "-c", "SELECT 1"], "");
    assert!(text.contains("pg_hba.conf rejects connection"), "{text}");
    sql(&serving, "CREATE ROLE app");
    assert!(sql(&serving, "SET ROLE app; SELECT pg_reload_conf()").contains("permission denied"));
    serving.signal("TERM");
    let said = serving.rest();
    assert_eq!(said.matches("the configuration is not taken over: ").count(), 3, "{said}");
    assert!(said.contains("need a restart: ermine.scheme"), "{said}");
}

/// A session that is there already follows, and one in a transaction does so when that has ended.
#[tokio::test]
async fn sessions_follow_the_configuration() {
    let (directory, file) = database("follow", "");
    let serving = Serving::start(&directory.0, &[]);
    let mut config = tokio_postgres::Config::new();
    config.host("127.0.0.1").port(serving.address.port()).user("ann").dbname("shop");
    let (client, connection) = config.connect(tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let timeout = async || client.query_one("SHOW lock_timeout", &[]).await.unwrap().get::<_, String>(0);
    let work = async || client.query_one("SHOW work_mem", &[]).await.unwrap().get::<_, String>(0);
    client.batch_execute("SET work_mem = '32MB'; BEGIN; SELECT 1").await.unwrap();
    fs::write(&file, "[set]\nlock_timeout = 7\nwork_mem = \"16MB\"").unwrap();
    assert_eq!(sql(&serving, "SELECT pg_reload_conf()"), "t");
    assert_eq!(timeout().await, "0");
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!((timeout().await.as_str(), work().await.as_str()), ("7ms", "32MB"));
    client.batch_execute("DISCARD ALL").await.unwrap();
    assert_eq!((timeout().await.as_str(), work().await.as_str()), ("7ms", "16MB"));
}

#[test]
fn statements_alter_the_configuration() {
    let (directory, _) = database("alter", "auth-delay = 5");
    let serving = Serving::start(&directory.0, &[]);
    for (statement, wanted) in [
        ("ALTER SYSTEM SET ermine.scheme = 'si'", "cannot be changed by ALTER SYSTEM"),
        ("ALTER SYSTEM SET ermine.backup_dir = '/'", "cannot be changed by ALTER SYSTEM"),
        ("ALTER SYSTEM SET hba_file = '/etc/passwd'", "cannot be changed by ALTER SYSTEM"),
        ("ALTER SYSTEM SET ermine.memory_limit = '1kB'", "invalid value for parameter \"ermine.memory_limit\""),
        ("ALTER SYSTEM SET ermine.memory_limit = 1", "invalid value for parameter \"ermine.memory_limit\""),
        ("ALTER SYSTEM SET ermine.log = 'loud'", "invalid value for parameter \"ermine.log\""),
        ("ALTER SYSTEM SET work_mem = 'x'", "invalid value for parameter \"work_mem\""),
        ("ALTER SYSTEM SET nothing = 1", "unrecognized configuration parameter \"nothing\""),
        ("ALTER SYSTEM SET server_version = '16'", "cannot be changed"),
        ("ALTER SYSTEM SET", "syntax error"),
        ("BEGIN; ALTER SYSTEM SET work_mem = 65536", "cannot run inside a transaction block"),
        ("CREATE ROLE app", ""),
    ] {
        assert!(sql(&serving, statement).contains(wanted), "{statement}: {}", sql(&serving, statement));
    }
    let url = format!("postgres://ann@127.0.0.1:{}/shop", serving.address.port());
    let commands = ["-c", "SET ROLE app", "-c", "ALTER SYSTEM SET work_mem = 65536"];
    let (_, text) = output(&[&["shell", "--connect", &url][..], &commands].concat(), "");
    assert!(text.contains("must be superuser"), "{text}");
    assert!(!directory.0.join("ermined.auto.toml").exists());
    for statement in [
        "ALTER SYSTEM SET ermine.memory_limit = '1GB'",
        "ALTER SYSTEM SET ermine.auth_delay TO '2s'",
        "ALTER SYSTEM SET search_path = app, \"Other\", public",
        "ALTER SYSTEM SET extra_float_digits = -3",
        "ALTER SYSTEM SET lock_timeout = '3s'",
        "ALTER SYSTEM SET statement_timeout TO DEFAULT",
    ] {
        assert_eq!(sql(&serving, statement), "", "{statement}");
    }
    // They hold from the next reading on.
    assert_eq!(sql(&serving, "SHOW ermine.auth_delay"), "5ms");
    assert_eq!(sql(&serving, "SELECT pg_reload_conf()"), "t");
    let shown = |serving: &Serving| {
        sql(serving, "SHOW ermine.auth_delay; SHOW ermine.memory_limit; SHOW lock_timeout; SHOW search_path")
    };
    let wanted = "2s\n1GB\n3s\n\"app, Other, public\"";
    assert_eq!(shown(&serving), wanted);
    serving.signal("TERM");
    let mut serving = serving;
    assert!(serving.child.wait().unwrap().success());
    let serving = Serving::start(&directory.0, &[]);
    assert_eq!(shown(&serving), wanted);
    sql(&serving, "ALTER SYSTEM RESET ermine.auth_delay");
    sql(&serving, "SELECT pg_reload_conf()");
    assert_eq!(sql(&serving, "SHOW ermine.auth_delay; SHOW lock_timeout").lines().collect::<Vec<_>>(), ["5ms", "3s"]);
    sql(&serving, "ALTER SYSTEM RESET ALL");
    sql(&serving, "SELECT pg_reload_conf()");
    assert_eq!(sql(&serving, "SHOW lock_timeout; SHOW search_path").lines().collect::<Vec<_>>(), ["0", "public"]);
}

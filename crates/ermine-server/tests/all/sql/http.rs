//! Metrics, health and the live page over HTTP.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use super::{Directory, Serving};

/// An answer: its status, its head and its body.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

/// Sends a request with more lines for its head, and reads the answer.
fn ask(address: SocketAddr, method: &str, path: &str, more: &[&str]) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    let host =
        if more.iter().any(|line| line.starts_with("Host:")) { String::new() } else { format!("Host: {address}\r\n") };
    let more: String = more.iter().map(|line| format!("{line}\r\n")).collect();
    write!(stream, "{method} {path} HTTP/1.1\r\n{host}{more}Connection: close\r\n\r\n").unwrap();
    let mut all = String::new();
    stream.read_to_string(&mut all).unwrap();
    let (head, body) = all.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_lowercase(), body: body.into() }
}

fn get(address: SocketAddr, path: &str) -> Answer {
    ask(address, "GET", path, &[])
}

async fn login(serving: &Serving, user: &str, password: &str) -> tokio_postgres::Client {
    let mut config = tokio_postgres::Config::new();
    config.host("127.0.0.1").port(serving.address.port()).user(user).password(password).dbname("shop");
    let (client, connection) = config.connect(tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Returns the value of a metric.
fn metric(page: &str, name: &str) -> f64 {
    let line = page.lines().find(|line| line.rsplit_once(' ').is_some_and(|(known, _)| known == name));
    line.unwrap_or_else(|| panic!("{name}: {page}")).rsplit_once(' ').unwrap().1.parse().unwrap()
}

#[tokio::test]
async fn metrics_count_what_sessions_do() {
    let directory = Directory::new("http-metrics");
    let serving = Serving::start(&directory.0, &["--http", "127.0.0.1:0"]);
    let pages = serving.http.unwrap();
    let client = login(&serving, "ann", "").await;
    client.batch_execute("CREATE TABLE t (id int PRIMARY KEY)").await.unwrap();
    let before = get(pages, "/metrics");
    assert!(before.status == 200 && before.head.contains("content-type: text/plain; version=0.0.4"), "{}", before.head);
    for id in 0..10 {
        client.execute(&format!("INSERT INTO t VALUES ({id})"), &[]).await.unwrap();
    }
    client.batch_execute("BEGIN; INSERT INTO t VALUES (100); ROLLBACK").await.unwrap();
    let after = get(pages, "/metrics");
    let more = |name| metric(&after.body, name) - metric(&before.body, name);
    assert_eq!(more("ermine_sql_transactions_total{end=\"commit\"}"), 10.0);
    assert_eq!(more("ermine_sql_transactions_total{end=\"rollback\"}"), 1.0);
    assert!(more("ermine_sql_statement_seconds_count") >= 10.0 && more("ermine_log_flush_seconds_count") >= 1.0);
    assert!(more("ermine_log_bytes_total") > 0.0 && more("ermine_commits_total") >= 10.0);
    assert_eq!(metric(&after.body, "ermine_sql_sessions"), 1.0);
    // The form of each line: a comment, or a name, labels and a number.
    for line in after.body.lines().filter(|line| !line.starts_with("# ")) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(name.starts_with("ermine_") && value.parse::<f64>().is_ok(), "{line}");
    }
    for path in ["/healthz", "/readyz"] {
        assert_eq!((get(pages, path).status, &*get(pages, path).body), (200, "ok\n"), "{path}");
    }
    assert_eq!(get(pages, "/nothing").status, 404);
    assert_eq!(ask(pages, "POST", "/metrics", &["Content-Length: 0"]).status, 405);
}

#[tokio::test]
async fn the_page_shows_sessions_and_cancels_statements() {
    let directory = Directory::new("http-page");
    let serving = Serving::start(&directory.0, &["--http", "127.0.0.1:0"]);
    let pages = serving.http.unwrap();
    let page = get(pages, "/");
    assert!(
        page.body.contains("<title>Ermine</title>")
            && page.head.contains("content-security-policy: default-src 'none'")
    );
    let client = login(&serving, "ann", "").await;
    let process: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let long = tokio::spawn(async move { client.batch_execute("SELECT pg_sleep(1000)").await });
    let is_shown = || get(pages, "/api/status").body.contains("SELECT pg_sleep(1000)");
    while !is_shown() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let path = format!("/api/cancel?pid={process}");
    // A page of another site cannot send the header.
    assert_eq!(ask(pages, "POST", &path, &["Content-Length: 0"]).status, 403);
    assert_eq!(get(pages, &path).status, 405);
    let own = ["X-Ermine: 1", "Content-Length: 0"];
    assert_eq!(ask(pages, "POST", "/api/cancel?pid=x", &own).status, 400);
    assert_eq!(ask(pages, "POST", "/api/cancel?pid=12345", &own).body, "{\"cancelled\" : false}");
    assert_eq!(ask(pages, "POST", &path, &own).body, "{\"cancelled\" : true}");
    let error = long.await.unwrap().unwrap_err();
    assert_eq!(error.code(), Some(&tokio_postgres::error::SqlState::QUERY_CANCELED));
    while get(pages, "/api/history").body == "[]" {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // A name that another site may have given to this machine.
    for (host, status) in [("Host: evil.example", 403), ("Host: localhost", 200)] {
        assert_eq!(ask(pages, "GET", "/api/status", &[host]).status, status, "{host}");
    }
    // A client of another machine, by way of a proxy on this one.
    assert_eq!(ask(pages, "GET", "/api/status", &["X-Forwarded-For: 192.0.2.1"]).status, 403);
    // A page that knew an earlier server gets everything.
    assert!(get(pages, "/api/history?after=1000000").body.starts_with("[{\"number\":1,"));
}

#[tokio::test]
async fn users_with_passwords_have_to_prove_them_and_have_their_rights_only() {
    let directory = Directory::new("http-users");
    let serving = Serving::start(&directory.0, &["--http", "127.0.0.1:0"]);
    let pages = serving.http.unwrap();
    let root = login(&serving, "root", "").await;
    // eva:pencil, and eva:wrong
    let users = "CREATE USER boss SUPERUSER PASSWORD 'b'; CREATE USER eva PASSWORD 'pencil'; CREATE TABLE t (id int)";
    root.batch_execute(users).await.unwrap();
    root.execute("SELECT 'of root' FROM t", &[]).await.unwrap();
    for path in ["/", "/api/status", "/api/history"] {
        let refused = get(pages, path);
        assert!(refused.status == 401 && refused.head.contains("www-authenticate: basic"), "{path}: {}", refused.head);
        assert_eq!(ask(pages, "GET", path, &["Authorization: Basic ZXZhOndyb25n"]).status, 401, "{path}");
    }
    assert_eq!(get(pages, "/metrics").status, 200);
    let eva = "Authorization: Basic ZXZhOnBlbmNpbA==";
    let status = ask(pages, "GET", "/api/status", &[eva]);
    assert!(status.status == 200 && status.body.contains("\"user\" : \"eva\""), "{}", status.body);
    assert!(status.body.contains("<insufficient privilege>") && !status.body.contains("FROM t"), "{}", status.body);
    let process: i32 = root.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let own = [eva, "X-Ermine: 1", "Content-Length: 0"];
    let refused = ask(pages, "POST", &format!("/api/cancel?pid={process}"), &own);
    assert!(refused.status == 403 && refused.body.contains("must be a superuser"), "{}", refused.body);
}

#[test]
fn an_address_that_is_taken_is_named() {
    let directory = Directory::new("http-taken");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let arguments = ["serve", "--create", directory.path(), "--listen", "127.0.0.1:0", "--http", &address];
    let (ended, text) = crate::process::output(&arguments, "");
    assert!(!ended.status.success() && text.contains(&format!("cannot listen on {address} for HTTP")), "{text}");
}

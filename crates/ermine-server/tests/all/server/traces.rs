//! Spans of statements, as a collector of OpenTelemetry gets them.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    thread::{self, JoinHandle},
};

use serde_json::Value;

use super::process::{Directory, Serving, output};

/// A collector on a free port.
struct Collector {
    address: SocketAddr,
    taking: JoinHandle<Vec<Value>>,
}

impl Collector {
    fn start(answer: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let taking = thread::spawn(move || {
            let mut spans = Vec::new();
            while let Some(of_request) = take(listener.accept().unwrap().0, answer) {
                spans.extend(of_request);
            }
            spans
        });
        Self { address, taking }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Ends it, after the server; returns the spans that it was sent.
    fn spans(self) -> Vec<Value> {
        drop(TcpStream::connect(self.address).unwrap());
        self.taking.join().unwrap()
    }
}

/// Takes a request; `None`: the connection has none.
fn take(stream: TcpStream, answer: &str) -> Option<Vec<Value>> {
    let mut stream = BufReader::new(stream);
    let (mut head, mut length) = (Vec::new(), 0);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        let line = line.trim().to_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        head.push(line);
    }
    assert_eq!(head.first()?, "post /v1/traces http/1.1");
    assert!(head.contains(&"content-type: application/json".into()), "{head:?}");
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    stream.get_mut().write_all(answer.as_bytes()).unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let resource = &body["resourceSpans"][0];
    assert_eq!(resource["resource"]["attributes"][0]["value"]["stringValue"], "shop-db");
    Some(resource["scopeSpans"][0]["spans"].as_array().unwrap().clone())
}

fn attribute(span: &Value, key: &str) -> Option<Value> {
    let found = span["attributes"].as_array().unwrap().iter().find(|attribute| attribute["key"] == key)?;
    Some(found["value"].as_object().unwrap().values().next().unwrap().clone())
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

fn start(directory: &Directory, url: &str) -> Serving {
    Serving::start_with(&directory.0, &["--otlp", url], &[("OTEL_SERVICE_NAME", "shop-db".as_ref())])
}

fn run(serving: &Serving, commands: &[&str]) {
    let url = format!("postgres://ann@127.0.0.1:{}/shop", serving.address.port());
    let all = commands.iter().flat_map(|command| ["-c", command]);
    let arguments = ["shell", "--connect", &url, "--on-error", "continue"].into_iter().chain(all).collect::<Vec<_>>();
    let _ = output(&arguments, "");
}

#[test]
fn sampled_and_slow_statements_have_spans() {
    let directory = Directory::new("traces");
    let collector = Collector::start(OK);
    let mut serving = start(&directory, &collector.url());
    let traced = |text: &str, flags: &str| format!("{text} /*traceparent='00-{TRACE}-b7ad6b7169203331-{flags}'*/");
    // It concerns connections that begin later, which go on to be traced.
    run(&serving, &["SELECT pg_reload_conf()"]);
    run(
        &serving,
        &[
            "CREATE TABLE tea (id int PRIMARY KEY)",
            &traced("INSERT INTO tea VALUES (1)", "01"),
            &traced("SELECT 2 / 0", "01"),
            &traced("SELECT 3", "00"),
            "SET log_min_duration_statement = 0",
            "SELECT id FROM tea WHERE id = 1",
            "SET log_min_duration_statement = -1",
        ],
    );
    // The end sends what is there.
    serving.signal("TERM");
    assert!(serving.child.wait().unwrap().success());
    let spans = collector.spans();
    let names: Vec<_> = spans.iter().map(|span| span["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["INSERT", "SELECT", "SET", "SELECT"], "{spans:#?}");
    let [insert, failed, _, slow] = &spans[..] else { unreachable!() };

    assert_eq!((&insert["traceId"], &insert["parentSpanId"]), (&TRACE.into(), &"b7ad6b7169203331".into()));
    assert!(insert.get("status").is_none());
    assert_eq!(attribute(insert, "enduser.id").unwrap(), "ann");
    assert!(attribute(insert, "db.query.text").unwrap().as_str().unwrap().starts_with("INSERT INTO tea"));
    assert!(attribute(insert, "ermine.synced_ms").unwrap().as_f64().unwrap() > 0.0, "{insert}");
    let nanos = |span: &Value, key: &str| span[key].as_str().unwrap().parse::<u128>().unwrap();
    assert!(nanos(insert, "startTimeUnixNano") < nanos(insert, "endTimeUnixNano"));

    assert_eq!(failed["status"]["code"], 2);
    assert_eq!(attribute(failed, "db.response.status_code").unwrap(), "22012");

    // A trace of its own.
    assert!(
        slow["traceId"] != TRACE && slow["traceId"].as_str().unwrap().len() == 32 && slow["parentSpanId"].is_null()
    );
    assert_eq!(slow["spanId"].as_str().unwrap().len(), 16);
    assert!(attribute(slow, "ermine.plan").is_some(), "{slow}");
}

/// A collector that is away, or refuses spans, holds nothing up.
#[test]
fn a_collector_that_fails_is_reported_once() {
    let directory = Directory::new("traces-lost");
    let collector = Collector::start("HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n");
    let mut serving = start(&directory, &collector.url());
    run(&serving, &["SET log_min_duration_statement = 0", "SELECT 1", "SELECT 2"]);
    serving.signal("TERM");
    assert!(serving.child.wait().unwrap().success());
    assert!(!collector.spans().is_empty());
    let said = serving.rest();
    assert_eq!(said.matches("spans cannot be sent to").count(), 1, "{said}");

    let (ended, text) = output(&["serve", directory.path(), "--otlp", "https://x"], "");
    assert!(ended.status.code() == Some(2) && text.contains("it has to begin with http://"), "{text}");
}

/// Also statements that a driver prepares.
#[tokio::test]
async fn prepared_statements_have_spans() {
    let directory = Directory::new("traces-prepared");
    let collector = Collector::start(OK);
    let mut serving = start(&directory, &collector.url());
    let mut config = tokio_postgres::Config::new();
    config.host("127.0.0.1").port(serving.address.port()).user("ann").dbname("shop");
    let (client, connection) = config.connect(tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let text = format!("SELECT $1::int + 1 /*traceparent='00-{TRACE}-b7ad6b7169203331-01'*/");
    assert_eq!(client.query_one(&text, &[&4]).await.unwrap().get::<_, i32>(0), 5);
    drop(client);
    serving.signal("TERM");
    assert!(serving.child.wait().unwrap().success());
    let spans = collector.spans();
    assert_eq!(spans.len(), 1, "{spans:#?}");
    assert_eq!(spans[0]["parentSpanId"], "b7ad6b7169203331");
}

//! Spans of statements, sent to a collector of OpenTelemetry: OTLP over HTTP, as JSON.
//!
//! A statement has a span if its text names a sampled trace (W3C Trace Context, in a comment as sqlcommenter writes it),
//! or if it was slow. Spans wait in a queue of fixed length: a collector that is slow or away costs spans, never a
//! statement.

use std::{
    fmt, io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use ermine_sql::Parent;
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, body::Bytes, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::{Value, json};
use tokio::{
    net::TcpStream,
    sync::{mpsc, oneshot},
    time::{sleep, timeout},
};

/// Spans that wait for the collector; further ones are lost.
const WAITING_MAX: usize = 4096;
/// Spans of one request.
const REQUEST_MAX: usize = 512;
/// How long a span may wait for others to be sent with.
const GATHERED: Duration = Duration::from_secs(1);
/// How long the collector may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// How long the end of the server waits for the last spans.
const END_MAX: Duration = Duration::from_secs(2);

/// A statement that has ended.
pub struct Span {
    /// The span that it belongs to; `None`: it is a trace of its own.
    pub parent: Option<Parent>,
    /// How long ago it began.
    pub ago: Duration,
    /// How long it took, its sync included.
    pub took: Duration,
    /// Its text, without passwords.
    pub text: Arc<str>,
    /// The code and the message of the error with which it failed.
    pub failure: Option<(&'static str, String)>,
    /// Further attributes, by their names.
    pub attributes: Vec<(&'static str, Value)>,
}

impl Span {
    /// Returns the span as OTLP has it. Attributes have the names of the semantic conventions for databases.
    fn json(&self, now: SystemTime, random: [u8; 24]) -> Value {
        let nanos = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string();
        let began = now.checked_sub(self.ago).unwrap_or(UNIX_EPOCH);
        let (own_trace, own_span) = random.split_at(16);
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let verb = self.text.split(|character: char| !character.is_ascii_alphabetic()).find(|word| !word.is_empty());
        let attribute = |key: &str, value: &Value| {
            let value = match value {
                Value::String(_) => json!({"stringValue": value}),
                Value::Number(number) if number.is_f64() => json!({"doubleValue": value}),
                // JSON has whole numbers of 64 bits as texts.
                _ => json!({"intValue": value.to_string()}),
            };
            json!({"key": key, "value": value})
        };
        let mut attributes =
            vec![attribute("db.system.name", &json!("ermine")), attribute("db.query.text", &json!(&*self.text))];
        attributes.extend(self.attributes.iter().map(|(key, value)| attribute(key, value)));
        let mut span = json!({
            "traceId": self.parent.map_or_else(|| hex(own_trace), |parent| format!("{:032x}", parent.trace)),
            "spanId": hex(own_span),
            "name": verb.unwrap_or("statement").to_ascii_uppercase(),
            // Of a server.
            "kind": 2,
            "startTimeUnixNano": nanos(began),
            "endTimeUnixNano": nanos(began + self.took),
        });
        if let Some(parent) = self.parent {
            span["parentSpanId"] = json!(format!("{:016x}", parent.span));
        }
        if let Some((code, message)) = &self.failure {
            attributes.push(attribute("db.response.status_code", &json!(code)));
            span["status"] = json!({"code": 2, "message": message});
        }
        span["attributes"] = Value::Array(attributes);
        span
    }
}

/// Where spans are sent to: `http://HOST[:PORT][/PATH]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Endpoint {
    authority: String,
    path: String,
}

impl std::str::FromStr for Endpoint {
    type Err = String;

    fn from_str(url: &str) -> Result<Self, String> {
        let rest = url.strip_prefix("http://").ok_or("it has to begin with http://; TLS is not supported")?;
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if host.is_empty() || host.contains(|character: char| character.is_whitespace() || character == '@') {
            return Err("it has to name a host, such as http://localhost:4318".into());
        }
        let after_address = host.rsplit_once(']').map_or(host, |(_, rest)| rest);
        let authority = if after_address.contains(':') { host.to_owned() } else { format!("{host}:4318") };
        Ok(Self { authority, path: format!("{}/v1/traces", path.trim_end_matches('/')) })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority, self.path)
    }
}

enum Message {
    Span(Box<Span>),
    /// Answered when all spans before it have been sent, or are lost.
    Flush(oneshot::Sender<()>),
}

/// The queue of spans for a collector.
#[derive(Clone)]
pub struct Traces {
    queue: mpsc::Sender<Message>,
    /// Spans that found the queue full, or whose request failed.
    lost: Arc<AtomicU64>,
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traces").field("lost", &self.lost).finish_non_exhaustive()
    }
}

impl Traces {
    /// Begins to send spans, from a task of the current runtime.
    pub fn start(endpoint: Endpoint) -> Self {
        let (queue, waiting) = mpsc::channel(WAITING_MAX);
        let lost = Arc::<AtomicU64>::default();
        tokio::spawn(send(endpoint, waiting, lost.clone()));
        Self { queue, lost }
    }

    /// Hands over a span; it is lost if too many wait.
    pub fn tell(&self, span: Span) {
        if self.queue.try_send(Message::Span(Box::new(span))).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until the spans have been sent, for a while.
    pub async fn end(&self) {
        let (done, ended) = oneshot::channel();
        let flush = async {
            let _ = self.queue.send(Message::Flush(done)).await;
            let _ = ended.await;
        };
        let _ = timeout(END_MAX, flush).await;
    }
}

/// Sends what is in the queue until it is closed.
async fn send(endpoint: Endpoint, mut queue: mpsc::Receiver<Message>, lost: Arc<AtomicU64>) {
    let random = SystemRandom::new();
    let mut fails = false;
    while let Some(first) = queue.recv().await {
        let mut messages = vec![first];
        if matches!(messages[0], Message::Span(_)) {
            sleep_or_full(&queue).await;
            while messages.len() < REQUEST_MAX
                && let Ok(next) = queue.try_recv()
            {
                messages.push(next);
            }
        }
        let (now, mut spans, mut flushed) = (SystemTime::now(), Vec::new(), Vec::new());
        for message in messages {
            match message {
                Message::Span(span) => {
                    let mut bytes = [0; 24];
                    // Without random bytes there are no numbers for spans: zeros, which a collector drops.
                    let _ = random.fill(&mut bytes);
                    spans.push(span.json(now, bytes));
                }
                Message::Flush(done) => flushed.push(done),
            }
        }
        if !spans.is_empty() {
            let count = spans.len() as u64;
            let sent = timeout(ANSWER_MAX, post(&endpoint, request(spans))).await;
            let sent = sent.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut)));
            match &sent {
                Ok(()) if fails => {
                    let lost = lost.load(Ordering::Relaxed);
                    log::info!("spans are sent to {endpoint} again; {lost} have been lost since the start");
                }
                // Once, not for each request.
                Err(error) if !fails => log::warn!("spans cannot be sent to {endpoint}, and are lost: {error}"),
                _ => {}
            }
            if sent.is_err() {
                lost.fetch_add(count, Ordering::Relaxed);
            }
            fails = sent.is_err();
        }
        flushed.into_iter().for_each(|done| _ = done.send(()));
    }
}

/// Waits for more spans, but not when many are there.
async fn sleep_or_full(queue: &mpsc::Receiver<Message>) {
    const STEPS: u32 = 20;
    for _ in 0..STEPS {
        if queue.len() >= REQUEST_MAX {
            return;
        }
        sleep(GATHERED / STEPS).await;
    }
}

/// Returns the body of a request with spans.
fn request(spans: Vec<Value>) -> Bytes {
    let name = std::env::var("OTEL_SERVICE_NAME").unwrap_or_else(|_| "ermined".into());
    let version = env!("CARGO_PKG_VERSION");
    let body = json!({"resourceSpans": [{
        "resource": {"attributes": [
            {"key": "service.name", "value": {"stringValue": name}},
            {"key": "service.version", "value": {"stringValue": version}},
        ]},
        "scopeSpans": [{"scope": {"name": "ermined", "version": version}, "spans": spans}],
    }]});
    Bytes::from(body.to_string())
}

async fn post(endpoint: &Endpoint, body: Bytes) -> io::Result<()> {
    let stream = TcpStream::connect(&endpoint.authority).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    tokio::spawn(connection);
    let request = Request::post(&endpoint.path)
        .header(header::HOST, &endpoint.authority)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(body))
        .map_err(io::Error::other)?;
    let answer = sender.send_request(request).await.map_err(io::Error::other)?;
    let status = answer.status();
    // Read to its end, or the collector's side of the connection is reset.
    let _ = answer.into_body().collect().await;
    if status.is_success() { Ok(()) } else { Err(io::Error::other(format!("the collector answered {status}"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_has_a_host_and_perhaps_a_port_and_a_path() {
        let shown = |url: &str| url.parse::<Endpoint>().map(|endpoint| endpoint.to_string());
        assert_eq!(shown("http://localhost").unwrap(), "http://localhost:4318/v1/traces");
        assert_eq!(shown("http://[::1]/").unwrap(), "http://[::1]:4318/v1/traces");
        assert_eq!(shown("http://[::1]:9/a/").unwrap(), "http://[::1]:9/a/v1/traces");
        assert_eq!(shown("http://collector:80/otlp").unwrap(), "http://collector:80/otlp/v1/traces");
        for wrong in ["https://x", "x:4318", "http://", "http:///v1", "http://a b", "http://user@x"] {
            assert!(shown(wrong).is_err(), "{wrong}");
        }
    }
}

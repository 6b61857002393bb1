//! The pages for operators: `ermined serve --http ADDR`.
//!
//! | path | for | shows |
//! |---|---|---|
//! | `/metrics` | anyone | counters and sizes in Prometheus's text format |
//! | `/healthz`, `/readyz` | anyone | 200 while the database can commit; `/readyz` also says when the server is ending |
//! | `/`, `/api/history` | users | a live page; the last hour, second by second |
//! | `/api/status` | users | what views show to the user: sessions, statements, conflicts, memory |
//! | `/api/cancel` | users | cancels a statement, if the user may |
//!
//! A standby has the first three only (`standby`): it is alive, and not ready.
//!
//! Users are those of the database: their rights decide what they see and may do, since what is shown are results of
//! SQL run in their name (`access`). It is HTTP without TLS, for the own machine or for a proxy in front.

mod access;
mod history;
mod metrics;
mod standby;
mod status;

pub use self::standby::StandbyPages;

use std::{
    convert::Infallible,
    future::Future,
    io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use ermine_sql::{SqlDatabase, SqlState};
use http_body_util::Full;
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, WWW_AUTHENTICATE},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{net::TcpListener, sync::Semaphore, task::spawn_blocking};

use self::{
    access::{Access, Refused, User},
    history::History,
};
use crate::{registry::Stage, server::Control};

/// Connections at the same time; others wait.
const CONNECTIONS_MAX: usize = 64;
/// How long a client may take to send the head of a request.
const HEAD_MAX: Duration = Duration::from_secs(10);
/// How long a client may take for one connection.
const CONNECTION_MAX: Duration = Duration::from_secs(300);

/// The type of metrics.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
const PAGE: &str = include_str!("page.html");
/// Nothing from elsewhere, and nothing elsewhere.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; \
    img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
/// Sent by the page with each request that changes something: other pages cannot send it.
const OWN: &str = "x-ermine";

/// The pages, before they are served.
pub struct Pages {
    listener: TcpListener,
    shared: Arc<Shared>,
}

struct Shared {
    database: SqlDatabase,
    access: Access,
    control: Control,
    history: History,
    began: Instant,
}

type Answer = Response<Full<Bytes>>;

impl Pages {
    /// Listens.
    pub async fn listen(address: SocketAddr, database: SqlDatabase, control: Control) -> io::Result<Self> {
        let listener = listen(address).await?;
        let access = Access::new(database.clone(), control.clone());
        let shared = Shared { database, access, control, history: History::default(), began: Instant::now() };
        Ok(Self { listener, shared: Arc::new(shared) })
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the task is dropped.
    pub async fn run(self) {
        let Self { listener, shared } = self;
        let sampled = shared.clone();
        tokio::spawn(async move { sampled.history.record(&sampled.database, &sampled.control).await });
        let answer = move |request, peer| shared.clone().answer(request, peer);
        accept(listener, true, answer).await;
    }
}

impl Shared {
    async fn answer(self: Arc<Self>, request: Request<Incoming>, peer: SocketAddr) -> Answer {
        let (path, method) = (request.uri().path().to_owned(), request.method().clone());
        let expected = if path == "/api/cancel" { Method::POST } else { Method::GET };
        if let Some(refusal) = refuse_method(&path, &method, expected) {
            return refusal;
        }
        match &*path {
            "/metrics" => self.metrics().await,
            "/healthz" => self.health(false),
            "/readyz" => self.health(true),
            "/" | "/api/history" | "/api/status" | "/api/cancel" => {
                let query = request.uri().query().unwrap_or_default().to_owned();
                let headers = request.into_parts().0.headers;
                self.for_user(&path, &query, headers, peer).await
            }
            _ => no_page(&path),
        }
    }

    async fn metrics(self: Arc<Self>) -> Answer {
        let body = spawn_blocking(move || metrics::text(&self.database, self.began.elapsed())).await;
        match body {
            Ok(body) => answer(StatusCode::OK, METRICS, body),
            Err(_) => text(StatusCode::INTERNAL_SERVER_ERROR, "the metrics could not be read\n"),
        }
    }

    fn health(&self, is_readiness: bool) -> Answer {
        match (self.database.engine().failure(), self.control.stage()) {
            (Some(why), _) => text(StatusCode::SERVICE_UNAVAILABLE, format!("the database has failed: {why}\n")),
            (None, stage) if is_readiness && stage > Stage::Serving => {
                text(StatusCode::SERVICE_UNAVAILABLE, "the server is ending\n")
            }
            _ => text(StatusCode::OK, "ok\n"),
        }
    }

    async fn for_user(self: Arc<Self>, path: &str, query: &str, headers: HeaderMap, peer: SocketAddr) -> Answer {
        let user = match self.access.user(&headers, peer).await {
            Ok(user) => user,
            Err(refused) => return refusal(refused),
        };
        match path {
            "/" => {
                let mut page = answer(StatusCode::OK, "text/html; charset=utf-8", PAGE);
                page.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
                page
            }
            "/api/history" => {
                let after = query.strip_prefix("after=").and_then(|number| number.parse().ok()).unwrap_or(0);
                json(self.history.after(after))
            }
            "/api/status" => self.run(user, status::status).await,
            _ if !headers.contains_key(HeaderName::from_static(OWN)) => {
                text(StatusCode::FORBIDDEN, format!("the header {OWN} is missing\n"))
            }
            _ => {
                let process = query.strip_prefix("pid=").and_then(|number| number.parse::<i32>().ok());
                let Some(process) = process else {
                    return text(StatusCode::BAD_REQUEST, "pid=N says whose statement is to be cancelled\n");
                };
                let name = user.name().to_owned();
                let answer = self.run(user, move |session| status::cancel(session, process)).await;
                if answer.status().is_success() {
                    log::info!("HTTP: {name} cancels the statement of process {process}, if there is one");
                }
                answer
            }
        }
    }

    /// Runs SQL in the name of a user, apart from the threads that serve connections.
    async fn run(
        self: Arc<Self>,
        user: User,
        run: impl FnOnce(&mut ermine_sql::Session) -> ermine_sql::Result<String> + Send + 'static,
    ) -> Answer {
        let done = spawn_blocking(move || user.session(&self.database).and_then(|mut session| run(&mut session))).await;
        match done {
            Ok(Ok(body)) => json(body),
            Ok(Err(error)) if error.state() == SqlState::INSUFFICIENT_PRIVILEGE => {
                text(StatusCode::FORBIDDEN, format!("{error}\n"))
            }
            Ok(Err(error)) => text(StatusCode::CONFLICT, format!("{error}\n")),
            Err(_) => text(StatusCode::INTERNAL_SERVER_ERROR, "the request failed\n"),
        }
    }
}

async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|error| io::Error::new(error.kind(), format!("cannot listen on {address} for HTTP: {error}")))
}

/// Answers requests until the task is dropped. `keeps`: a connection may have several requests.
async fn accept<F>(
    listener: TcpListener,
    keeps: bool,
    answer: impl Fn(Request<Incoming>, SocketAddr) -> F + Clone + Send + 'static,
) where
    F: Future<Output = Answer> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let place = places.clone().acquire_owned().await.expect("it is never closed");
        let (socket, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                log::warn!("no HTTP connection can be accepted: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let answer = answer.clone();
        tokio::spawn(async move {
            let answer = service_fn(move |request| {
                let answered = answer(request, peer);
                async move { Ok::<_, Infallible>(answered.await) }
            });
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(HEAD_MAX).max_buf_size(16 << 10).keep_alive(keeps);
            let served = http.serve_connection(TokioIo::new(socket), answer);
            // What a client does wrong is answered, or ends its connection.
            let _ = tokio::time::timeout(CONNECTION_MAX, served).await;
            drop(place);
        });
    }
}

/// Refuses a method that a page is not for.
fn refuse_method(path: &str, method: &Method, expected: Method) -> Option<Answer> {
    if *method == expected || *method == Method::HEAD && expected == Method::GET {
        return None;
    }
    let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, format!("{path} is for {expected}\n"));
    let allow = HeaderValue::from_str(expected.as_str()).expect("a name of a method");
    answer.headers_mut().insert(ALLOW, allow);
    Some(answer)
}

fn no_page(path: &str) -> Answer {
    text(StatusCode::NOT_FOUND, format!("there is no page {path}\n"))
}

fn refusal(refused: Refused) -> Answer {
    match refused {
        Refused::Proof => {
            let what = "log in as a user of the database\n";
            let mut answer = text(StatusCode::UNAUTHORIZED, what);
            let realm = HeaderValue::from_static("Basic realm=\"Ermine\", charset=\"UTF-8\"");
            answer.headers_mut().insert(WWW_AUTHENTICATE, realm);
            answer
        }
        Refused::Why(why) => text(StatusCode::FORBIDDEN, format!("{why}\n")),
    }
}

fn json(body: String) -> Answer {
    answer(StatusCode::OK, "application/json", body)
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    answer(status, "text/plain; charset=utf-8", body)
}

fn answer(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    answer
}

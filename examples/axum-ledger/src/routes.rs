//! The service: requests as calls of the ledger, and refusals as status codes.

use std::sync::{Arc, LazyLock};

use axum::{
    Json, Router,
    extract::{Path, State},
    http::{StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
    routing::{get, put},
};
use ermine::Error;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio::task;

use crate::ledger::{Account, Ledger, Refused, Transfer};

type Shared = State<Arc<Ledger>>;

/// Receives all metrics of the process.
static METRICS: LazyLock<PrometheusHandle> =
    LazyLock::new(|| PrometheusBuilder::new().install_recorder().expect("no other recorder was installed"));

pub fn routes(ledger: Arc<Ledger>) -> Router {
    LazyLock::force(&METRICS);
    Router::new()
        .route("/accounts/{number}", put(create).get(account))
        .route("/transfers/{number}", put(transfer))
        .route("/metrics", get(metrics))
        .with_state(ledger)
}

/// Runs a transaction on a thread that may block: a commit waits for the device, together with others.
async fn blocking<T: Send + 'static>(
    ledger: Arc<Ledger>,
    work: impl FnOnce(&Ledger) -> Result<T, Refused> + Send + 'static,
) -> Result<T, Refused> {
    let done = task::spawn_blocking(move || work(&ledger)).await;
    done.unwrap_or_else(|panic| Err(Refused::Database(Error::other(panic))))
}

async fn create(State(ledger): Shared, Path(number): Path<u64>, Json(account): Json<Account>) -> Response {
    let created = blocking(ledger, move |ledger| ledger.create(number, &account)).await;
    created.map(|()| StatusCode::CREATED).into_response()
}

async fn account(State(ledger): Shared, Path(number): Path<u64>) -> Result<Json<Account>, Refused> {
    blocking(ledger, move |ledger| ledger.account(number)).await.map(Json)
}

async fn transfer(State(ledger): Shared, Path(number): Path<u64>, Json(transfer): Json<Transfer>) -> Response {
    let done = blocking(ledger, move |ledger| ledger.transfer(number, &transfer)).await;
    metrics::counter!("ledger_transfers_total", "ended" => if done.is_ok() { "done" } else { "refused" }).increment(1);
    done.map(|()| StatusCode::NO_CONTENT).into_response()
}

/// Returns the service's own metrics and those of the engine in the text format of Prometheus.
async fn metrics(State(ledger): Shared) -> String {
    ledger.statistics().publish();
    METRICS.run_upkeep();
    METRICS.render()
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = match &self {
            Self::NoAccount(_) => StatusCode::NOT_FOUND,
            Self::AccountExists(_) | Self::NumberTaken(_) => StatusCode::CONFLICT,
            Self::Overdrawn { .. } | Self::NotPositive => StatusCode::UNPROCESSABLE_ENTITY,
            // Try again later: the transaction had no effect.
            Self::Database(Error::GaveUp { .. } | Error::OutOfMemory { .. } | Error::DiskFull(_) | Error::Limit(_)) => {
                return (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "1")], self.to_string()).into_response();
            }
            Self::Database(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, self.to_string()).into_response()
    }
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoAccount(account) => write!(f, "there is no account {account}"),
            Self::AccountExists(account) => write!(f, "account {account} exists"),
            Self::NumberTaken(number) => write!(f, "another transfer has the number {number}"),
            Self::Overdrawn { account, missing } => write!(f, "account {account} lacks {missing} cents"),
            Self::NotPositive => f.write_str("a transfer has at least one cent"),
            Self::Database(error) => error.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::{
        body::{Body, to_bytes},
        http::{Method, Request, header::CONTENT_TYPE},
    };
    use ermine::{Database, Options};
    use serde_json::{Value, json};
    use tower::ServiceExt;

    use super::*;

    async fn call(service: &Router, method: Method, path: &str, body: Value) -> (u16, String) {
        let request = Request::builder().method(method).uri(path).header(CONTENT_TYPE, "application/json");
        let response = service.clone().oneshot(request.body(Body::from(body.to_string())).unwrap()).await.unwrap();
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    fn service() -> Router {
        routes(Arc::new(Ledger::open(Database::open_in_memory(Options::default()).unwrap()).unwrap()))
    }

    #[tokio::test]
    async fn a_transfer_happens_once_however_often_it_is_sent() {
        let service = service();
        for (number, owner) in [(1, "ann"), (2, "bob")] {
            let account = json!({ "owner": owner, "cents": 100 });
            assert_eq!(call(&service, Method::PUT, &format!("/accounts/{number}"), account).await.0, 201);
        }
        let transfer = json!({ "from": 1, "to": 2, "cents": 30 });
        for _ in 0..3 {
            assert_eq!(call(&service, Method::PUT, "/transfers/7", transfer.clone()).await, (204, String::new()));
        }
        let (status, account) = call(&service, Method::GET, "/accounts/2", Value::Null).await;
        assert_eq!((status, account.as_str()), (200, r#"{"owner":"bob","cents":130}"#));
        let (_, metrics) = call(&service, Method::GET, "/metrics", Value::Null).await;
        for line in ["ermine_aborts_total{cause=\"write-conflict\"} ", "ledger_transfers_total{ended=\"done\"} "] {
            assert!(metrics.contains(line), "{metrics}");
        }
    }

    #[tokio::test]
    async fn refusals_have_no_effect_and_say_why() {
        let service = service();
        let account = json!({ "owner": "ann", "cents": 100 });
        assert_eq!(call(&service, Method::PUT, "/accounts/1", account.clone()).await.0, 201);
        for (path, body, status, why) in [
            ("/accounts/1", account.clone(), 409, "account 1 exists"),
            ("/transfers/1", json!({ "from": 1, "to": 9, "cents": 1 }), 404, "there is no account 9"),
            ("/transfers/2", json!({ "from": 1, "to": 1, "cents": 101 }), 422, "account 1 lacks 1 cents"),
            ("/transfers/3", json!({ "from": 1, "to": 1, "cents": 0 }), 422, "a transfer has at least one cent"),
        ] {
            assert_eq!(call(&service, Method::PUT, path, body).await, (status, why.into()));
        }
        let (_, found) = call(&service, Method::GET, "/accounts/1", Value::Null).await;
        assert_eq!(found, account.to_string().replace(r#""cents":100,"owner":"ann""#, r#""owner":"ann","cents":100"#));
    }

    /// Many clients at once: conflicts are retried, and no cent is lost.
    #[tokio::test(flavor = "multi_thread")]
    async fn transfers_of_many_clients_all_happen() {
        let service = service();
        for number in 1..=2 {
            call(&service, Method::PUT, &format!("/accounts/{number}"), json!({ "owner": "x", "cents": 1000 })).await;
        }
        let clients = (0..8u64).map(|client| {
            let service = service.clone();
            tokio::spawn(async move {
                for n in 0..10 {
                    let body = json!({ "from": 1 + client % 2, "to": 2 - client % 2, "cents": 1 });
                    assert_eq!(
                        call(&service, Method::PUT, &format!("/transfers/{}", 10 * client + n), body).await.0,
                        204
                    );
                }
            })
        });
        for client in clients.collect::<Vec<_>>() {
            client.await.unwrap();
        }
        for number in 1..=2 {
            let (_, found) = call(&service, Method::GET, &format!("/accounts/{number}"), Value::Null).await;
            assert_eq!(found, r#"{"owner":"x","cents":1000}"#);
        }
    }
}

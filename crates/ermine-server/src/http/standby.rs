//! The pages of a node of a cluster that is not the primary.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use hyper::{Method, Request, StatusCode, body::Incoming};
use tokio::net::TcpListener;

use super::{Answer, METRICS, accept, answer, listen, metrics, no_page, refuse_method, text};

/// The pages, before they are served.
pub struct StandbyPages {
    listener: TcpListener,
    position: Arc<AtomicU64>,
}

impl StandbyPages {
    /// Listens. `position` is where the standby stores the position in the log up to which it has everything.
    pub async fn listen(address: SocketAddr, position: Arc<AtomicU64>) -> io::Result<Self> {
        Ok(Self { listener: listen(address).await?, position })
    }

    /// Serves until the task is dropped.
    pub async fn run(self) {
        let Self { listener, position } = self;
        let began = Instant::now();
        let answer = move |request: Request<Incoming>, _| {
            // Relaxed: it guards nothing.
            let answer = page(&request, position.load(Ordering::Relaxed), began);
            async move { answer }
        };
        // The next request may be for the pages of a primary.
        accept(listener, false, answer).await;
    }
}

fn page(request: &Request<Incoming>, position: u64, began: Instant) -> Answer {
    let path = request.uri().path();
    if let Some(refusal) = refuse_method(path, request.method(), Method::GET) {
        return refusal;
    }
    match path {
        "/metrics" => answer(StatusCode::OK, METRICS, metrics::text_of_standby(position, began.elapsed())),
        "/healthz" => text(StatusCode::OK, "ok\n"),
        "/readyz" | "/" => {
            let what =
                format!("this node is a standby at position {position}; the primary of its cluster takes writes\n");
            text(StatusCode::SERVICE_UNAVAILABLE, what)
        }
        path => no_page(path),
    }
}

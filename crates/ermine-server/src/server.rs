//! The server: listens, gives each client a task, and ends in an orderly way.
//!
//! The end has two stages: first new clients are refused, clients outside of transactions are disconnected, and
//! transactions may go on for a while; then everything is cancelled.

use std::{
    io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use socket2::{SockRef, TcpKeepalive};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    backend::Backend,
    connection::{self, polling::Arrivals},
    options::{CurrentOptions, ServerOptions},
    registry::{Registry, Stage},
    shared::Shared,
    tls::Tls,
};

/// Maximum number of clients that wait to be accepted.
const BACKLOG: u32 = 1024;

/// How long cancelled statements may take to end.
const CANCELLED_MAX: Duration = Duration::from_secs(2);

/// A server that already listens.
pub struct Server<B> {
    shared: Arc<Shared<B>>,
    listeners: Vec<TcpListener>,
}

/// Ends a server, or changes its options.
#[derive(Clone)]
pub struct Control {
    registry: Arc<Registry>,
    options: Arc<CurrentOptions>,
}

impl Control {
    /// Lets transactions end; a second call ends them at once.
    pub fn end(&self) {
        let is_draining = self.registry.stage() == Stage::Draining;
        self.registry.go_to(if is_draining { Stage::Ending } else { Stage::Draining });
    }

    /// Whether clients of this machine need no password while no user has one.
    pub fn trusts(&self) -> bool {
        let options = self.options.get();
        options.trust && options.rules.is_none()
    }

    /// Returns the server's stage.
    pub fn stage(&self) -> Stage {
        self.registry.stage()
    }

    /// Whether the server has ended: no connection is served any more.
    pub fn is_ended(&self) -> bool {
        self.stage() == Stage::Ending
    }

    /// Returns how many clients have a session.
    pub fn sessions(&self) -> usize {
        self.registry.sessions()
    }

    /// Changes the options ([`CurrentOptions`]).
    pub fn change(&self, change: impl FnOnce(&mut ServerOptions)) {
        let mut options = (*self.options.get()).clone();
        change(&mut options);
        self.registry.limit(options.connections_max, options.connections_reserved);
        self.options.replace(options);
    }
}

impl<B: Backend> Server<B> {
    /// Starts to listen. Has to be called within the runtime that [`ServerOptions::runtime`] makes, or one like it.
    pub fn listen(backend: B, options: ServerOptions, tls: Option<Tls>, addresses: &[SocketAddr]) -> io::Result<Self> {
        let registry = Arc::new(Registry::new(options.connections_max, options.connections_reserved));
        let listeners = addresses.iter().map(|&address| {
            listen(address)
                .map_err(|error| io::Error::new(error.kind(), format!("cannot listen on {address}: {error}")))
        });
        Ok(Self {
            listeners: listeners.collect::<io::Result<_>>()?,
            shared: Arc::new(Shared {
                backend,
                options: Arc::new(CurrentOptions::new(options)),
                tls,
                registry,
                watch: Arc::default(),
                arrivals: Arrivals::default(),
            }),
        })
    }

    /// Returns the addresses that it listens on.
    pub fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.listeners.iter().map(TcpListener::local_addr).collect()
    }

    /// Returns the control that ends the server.
    pub fn control(&self) -> Control {
        Control { registry: self.shared.registry.clone(), options: self.shared.options.clone() }
    }

    /// Serves until [`Control::end`].
    pub async fn run(self) {
        let Self { shared, listeners } = self;
        let registry = shared.registry.clone();
        shared.watch.start();
        let mut accepting = JoinSet::new();
        for listener in listeners {
            accepting.spawn(accept(listener, shared.clone()));
        }
        wait(&registry, Stage::Draining, Duration::MAX, |_| false).await;
        log::info!("no more clients are taken; {} are there", registry.sessions());
        wait(&registry, Stage::Ending, shared.options.get().drain_max, |registry| registry.sessions() == 0).await;
        accepting.shutdown().await;
        registry.go_to(Stage::Ending);
        registry.cancel_all();
        let deadline = Instant::now() + CANCELLED_MAX;
        while registry.sessions() > 0 && Instant::now() < deadline {
            sleep(Duration::from_millis(2)).await;
        }
        shared.watch.end();
        match registry.sessions() {
            0 => log::info!("all clients are gone"),
            left => log::warn!("{left} clients are cut off"),
        }
    }
}

/// Waits for a stage, a time limit, or another condition.
async fn wait(registry: &Registry, stage: Stage, limit: Duration, or: impl Fn(&Registry) -> bool) {
    let reached = async {
        while registry.stage() < stage && !or(registry) {
            // The end of a server is not worth a notification by every connection.
            sleep(Duration::from_millis(10)).await;
        }
    };
    let _ = timeout(limit, reached).await;
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

async fn accept<B: Backend>(listener: TcpListener, shared: Arc<Shared<B>>) {
    loop {
        match listener.accept().await {
            Ok((socket, peer)) => {
                if let Err(error) = prepare(&socket) {
                    log::debug!("a connection from {peer} is gone: {error}");
                    continue;
                }
                tokio::spawn(connection::serve(shared.clone(), socket));
            }
            Err(error) => {
                log::error!("no connection can be accepted: {error}");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Makes the socket send without delay, and detect that the other side is gone.
fn prepare(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(Duration::from_secs(60)).with_interval(Duration::from_secs(10));
    #[cfg(target_os = "linux")]
    let keepalive = keepalive.with_retries(6);
    SockRef::from(socket).set_tcp_keepalive(&keepalive)
}

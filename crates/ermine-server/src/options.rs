//! Options of a server: one plain struct with defaults.

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use ermine::Budget;

use crate::{hba::Rules, read_lease::ReadLease, traces::Traces};

/// Upper bound of the number of clients.
pub const CONNECTIONS_MAX: usize = 100_000;

/// The bounds of a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerOptions {
    /// How many clients have a session at the same time; more are refused.
    pub connections_max: usize,
    /// How many of these only superusers get.
    pub connections_reserved: usize,
    /// The longest message of a client in bytes.
    pub message_bytes_max: usize,
    /// How long a client may take to authenticate.
    pub authentication_max: Duration,
    /// How long a client with a wrong password waits for the answer.
    pub refusal_delay: Duration,
    /// How long a client may take to send the rest of a message. Longer messages have longer: a second more for each
    /// MiB.
    pub message_max: Duration,
    /// How long a client may read nothing of the output sent to it.
    pub stall_max: Duration,
    /// How long transactions may go on after the server has been asked to end.
    pub drain_max: Duration,
    /// Whether clients without TLS are refused.
    pub tls_required: bool,
    /// Whether any user may log in while no user has a password; without effect where there are rules.
    pub trust: bool,
    /// The rules for which clients may connect, from where, and by which proof.
    pub rules: Option<Arc<Rules>>,
    /// Whether the begin of each connection is logged, at the level info.
    pub log_connections: bool,
    /// Whether the end of each connection is logged, at the level info.
    pub log_disconnections: bool,
    /// How long the thread of a lone client looks for input before it sleeps; zero: not at all.
    pub busy_poll: Duration,
    /// What stays when options are read again.
    pub fixed: Fixed,
}

/// What a server has from its begin to its end: options that are read again do not change it.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Fixed {
    /// The database's budget, against which long messages and held results count.
    pub budget: Option<Arc<Budget>>,
    /// The lease of the primary that is served; `None`: there is no other node.
    pub lease: Option<ReadLease>,
    /// Threads that serve clients [default: two per core, and at least eight].
    pub threads: Option<usize>,
    /// Where spans of statements go.
    pub traces: Option<Traces>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            connections_max: 1000,
            connections_reserved: 3,
            message_bytes_max: 64 << 20,
            authentication_max: Duration::from_secs(60),
            refusal_delay: Duration::from_millis(500),
            message_max: Duration::from_secs(60),
            stall_max: Duration::from_secs(300),
            drain_max: Duration::from_secs(10),
            tls_required: false,
            trust: false,
            rules: None,
            log_connections: false,
            log_disconnections: false,
            busy_poll: Duration::from_micros(50),
            fixed: Fixed::default(),
        }
    }
}

impl ServerOptions {
    /// Returns a runtime for a server with these options. It must have several threads, and one more for each
    /// connection where a statement takes long or a client reads slowly.
    pub fn runtime(&self) -> std::io::Result<tokio::runtime::Runtime> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = self.fixed.threads.unwrap_or((2 * cores).max(8)).max(1);
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            // The number of connections may be raised later.
            .max_blocking_threads(CONNECTIONS_MAX + threads + 16)
            .thread_name("ermined")
            .enable_all()
            .build()
    }
}

/// The options of a running server, which may be replaced. Connections take over most of them when they begin; the
/// addresses, the threads and the memory stay those that the server has begun with.
#[derive(Debug)]
pub struct CurrentOptions(RwLock<Arc<ServerOptions>>);

impl CurrentOptions {
    /// Returns the options of a server that begins.
    pub fn new(options: ServerOptions) -> Self {
        Self(RwLock::new(Arc::new(options)))
    }

    /// Returns the options now.
    pub fn get(&self) -> Arc<ServerOptions> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the options.
    pub fn replace(&self, options: ServerOptions) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(options);
    }
}

//! What a server may be told: one plain struct with defaults.

use std::{sync::Arc, time::Duration};

use ermine::Budget;

/// The bounds of a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerOptions {
    /// How many clients have a session at the same time; more are refused.
    pub connections_max: usize,
    /// The longest message of a client in bytes.
    pub message_bytes_max: usize,
    /// How long a client may take to say who it is.
    pub authentication_max: Duration,
    /// How long a client may take to send a message of which a part has come. Longer messages have longer: a second more for each MiB.
    pub message_max: Duration,
    /// How long a client may read nothing of what is sent to it.
    pub stall_max: Duration,
    /// How long transactions may go on when the server has been told to end.
    pub drain_max: Duration,
    /// Clients without TLS are refused.
    pub tls_required: bool,
    /// Everybody may log in while no user has a password.
    pub trust: bool,
    /// What long messages, and results that are held, count against: the database's budget.
    pub budget: Option<Arc<Budget>>,
    /// Threads that serve clients [default: two a core, and at least eight].
    pub threads: Option<usize>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            connections_max: 1000,
            message_bytes_max: 64 << 20,
            authentication_max: Duration::from_secs(60),
            message_max: Duration::from_secs(60),
            stall_max: Duration::from_secs(300),
            drain_max: Duration::from_secs(10),
            tls_required: false,
            trust: false,
            budget: None,
            threads: None,
        }
    }
}

impl ServerOptions {
    /// A runtime for a server with these options. It has to be one with several threads, and with one more for each connection where
    /// a statement takes long or a client reads slowly.
    pub fn runtime(&self) -> std::io::Result<tokio::runtime::Runtime> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = self.threads.unwrap_or((2 * cores).max(8)).max(1);
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .max_blocking_threads(self.connections_max + threads + 16)
            .thread_name("ermined")
            .enable_all()
            .build()
    }
}

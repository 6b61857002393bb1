//! The state that the server shares with its connections.

use std::sync::Arc;

use crate::{
    connection::{aside::Watch, polling::Arrivals},
    options::CurrentOptions,
    registry::Registry,
    tls::Tls,
};

/// State shared by all connections.
pub struct Shared<B> {
    /// The layer that is served.
    pub backend: B,
    /// The server's bounds.
    pub options: Arc<CurrentOptions>,
    /// The certificate, if any.
    pub tls: Option<Tls>,
    /// The open connections.
    pub registry: Arc<Registry>,
    /// Watches running statements.
    pub watch: Arc<Watch>,
    /// The inputs received so far.
    pub arrivals: Arrivals,
}

//! Ermine over the PostgreSQL protocol.
//!
//! | module | concern |
//! |---|---|
//! | [`protocol`] | messages as bytes |
//! | [`scram`] | whether a client knows a password |
//! | [`hba`] | which clients may connect, from where |
//! | [`read_lease`] | whether what a primary reads is the newest |
//! | [`registry`] | the open connections |
//! | [`connection`] | input and output of one client |
//! | [`server`], [`shared`] | listening, and ending; what all connections share |
//! | [`backend`] | the interface to the layer that is served |
//! | [`sql`], [`codec`] | Ermine as that layer, and its values |
//! | [`http`] | metrics, and the live page for operators |
//! | [`status`] | the query of the live page and of `ermined top` |
//! | [`traces`] | spans of statements, for OpenTelemetry |
//!
//! Only `sql`, `codec` and `http` depend on the SQL layer's sessions and the forms of its values; the rest depends on its
//! errors, columns and values, and `scram` on its form of stored passwords.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout)]

pub mod backend;
mod certificate;
pub mod codec;
pub mod connection;
pub mod hba;
pub mod http;
pub mod logger;
pub mod options;
pub mod protocol;
pub mod read_lease;
pub mod registry;
pub mod scram;
pub mod server;
pub mod shared;
pub mod sql;
pub mod status;
pub mod tls;
pub mod traces;

//! Ermine over the PostgreSQL protocol.
//!
//! | module | what it knows |
//! |---|---|
//! | [`protocol`] | messages as bytes |
//! | [`scram`] | whether a client knows a password |
//! | [`registry`] | which connections there are |
//! | [`connection`] | what one client sends and gets |
//! | [`server`] | listening, and ending |
//! | [`backend`] | what is asked of whatever is served |
//! | [`sql`], [`codec`] | that it is Ermine, and its values |
//!
//! Only `sql` and `codec` know the SQL layer's sessions and the forms of its values; the rest knows its errors, columns and
//! values, and `scram` what it keeps of passwords.

#![forbid(unsafe_code)]

pub mod backend;
pub mod codec;
pub mod connection;
pub mod logger;
pub mod options;
pub mod protocol;
pub mod registry;
pub mod scram;
pub mod server;
pub mod sql;
pub mod tls;

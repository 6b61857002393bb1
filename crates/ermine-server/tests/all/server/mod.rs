//! The server as its clients see it, over a backend of a few fixed statements.
//!
//! Goal: the protocol as PostgreSQL speaks it, bounds that hold against clients that are slow, gone or hostile, and an
//! orderly end.
//! Method: a server on a free port of this machine for each test; `tokio-postgres` as an independent client, raw
//! sockets for messages that it would not send. Randomness comes from a printed seed.

mod authentication;
mod clients;
mod command;
mod configuration;
mod cost;
mod decoder;
mod extended;
mod fake;
mod garbage;
mod hostile;
mod logs;
mod shutdown;
mod supervised;
mod support;
mod traces;
mod upgrade;

use crate::{process, raw};

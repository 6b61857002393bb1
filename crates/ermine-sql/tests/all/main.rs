//! Tests of SQL in sessions, in one executable: every executable links the engine.
//!
//! `texts` has a process of its own, because it bounds the process's memory.

mod analyze;
mod contention;
mod copy;
mod crash;
mod databases;
mod explained;
mod foreign_keys;
mod index_expressions;
mod levels;
mod logic;
mod materialized;
mod memory;
mod merge;
mod notifications;
mod objects;
mod positions;
mod prepared;
mod publications;
mod rights;
mod row_security;
mod sessions;
mod spill;
mod standby;
mod statistics;
mod temporary;
mod types;
mod views;

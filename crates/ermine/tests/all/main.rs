//! Tests of the engine's public interface, in one executable: every executable links the engine.
//!
//! Two tests have a process of their own, because they depend on what all tests of a process share: `damage` bounds the
//! process's memory and counts its panics, and `logger` is the process's logger.

mod admission;
mod api;
mod backup;
mod batches;
mod changes;
mod checkpoints;
mod cleaner;
mod concurrent;
mod conformance;
mod crash;
mod durability;
mod eviction;
mod files;
mod final_errors;
mod format;
mod full_device;
mod history;
mod hot_standby;
mod identity;
mod index_build;
mod index_kinds;
mod inspect;
mod key_functions;
mod limits;
mod long_readers;
mod memory;
mod messages;
mod model;
mod observer;
mod parallel_backup;
mod parallel_log;
mod parallel_verify;
mod prepared_transactions;
mod read_ahead;
mod retries;
mod rows;
mod shipping;
mod single;
mod statistics;
mod tables;
mod typed;
mod unlogged;

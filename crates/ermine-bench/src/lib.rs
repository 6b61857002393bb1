//! Workloads over the engine's public interface: each one loads a database, drives it with many threads, verifies its
//! final state, and reports.
//!
//! | module | what it does |
//! |---|---|
//! | [`tpcc`] | the full TPC-C-like mix, with its consistency conditions |
//! | [`micro`] | single operations over one table, to compare with other engines |
//! | [`index`] | lookups in each kind of index on its own (HTM paper, figure 11) |
//! | [`changes`] | how fast changes are read from the log |
//! | [`commit_latency`] | how long a durable commit takes, beside a plain write and sync |
//! | [`recovery`] | how fast a database recovers after a kill and after a stop |
//! | [`churn`] | updates on a fixed number of rows for a long time: is memory flat? |
//! | [`sibench`] | random reads, then writes; client groups with footprints |
//! | [`write_skew`] | two accounts and a constraint over both |
//! | [`batch`] | receipts, a batch that is closed, a report that must not change any more |
//! | [`stock`] | many reads and few writes, under several schemes |
//! | [`read_mostly`] | long scans with one write beside short writers, under several schemes |
//! | [`smallbank`] | savings and checking accounts; not serializable under snapshot isolation |
//! | [`tatp`] | the subscribers of a mobile network: short transactions, most of which read |
//! | [`ycsb`] | the core workloads A to F, as one operation or several per transaction |
//! | [`compare`] | a workload that several schemes run in turn, from its data, clients and conditions |
//! | [`threads`] | the threads under all of them: warm-up, measured time, live counts |
//! | [`calibrate`], [`machine`] | speed and description of the machine, printed beside every result |
//! | [`report`] | numbers as text and JSON |
//! | [`page`] | the same numbers as a page with charts, and as comma-separated values |
//! | [`standard_output`] | the standard output, whose reader may close it |
//! | [`series`] | throughput second by second |
//! | [`trial`], [`rounds`] | the clients of a workload under one scheme; several schemes in turn |
//! | [`summary`] | the report of a workload under one scheme |
//! | [`conflicts`], [`abort_shapes`] | lost conflicts: how many, and of which shape |
//! | [`storage`] | databases in directories; commits that wait for the device |
//! | [`cold`] | rows for which there was no room in memory |
//! | [`sharing`] | locked instructions and shared cache lines, in a build that counts them |
//! | [`verdict`] | what must hold of the data, and which scheme promises it |
//! | [`pause`] | time between reading and writing |
//!
//! Under TPC-C snapshot isolation is serializable already. The workloads that stress a certifier are `tpcc` with credit
//! checks, and the five in the middle. Start reading at [`tpcc`] or, for something small, at [`write_skew`].
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout)]

pub mod abort_shapes;
pub mod arrivals;
pub mod batch;
pub mod brokerage;
pub mod calibrate;
pub mod changes;
mod charts;
pub mod churn;
pub mod cold;
pub mod commit_latency;
pub mod compare;
pub mod conflicts;
mod directory;
mod error;
mod failure;
mod fixed;
pub mod index;
pub mod latency;
pub mod machine;
pub mod micro;
pub mod page;
mod parallel;
pub mod pause;
pub mod random;
pub mod read_mostly;
pub mod recovery;
pub mod report;
pub mod rounds;
pub mod series;
pub mod sharing;
pub mod sibench;
pub mod smallbank;
pub mod standard_output;
pub mod stock;
pub mod storage;
pub mod summary;
pub mod tatp;
pub mod threads;
pub mod tpcc;
pub mod trial;
pub mod tuning;
pub mod verdict;
pub mod write_skew;
pub mod ycsb;
pub mod zipf;

pub use error::{Error, Result};

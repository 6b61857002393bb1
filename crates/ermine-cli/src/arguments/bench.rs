//! The workloads of `ermine bench`.

use clap::Subcommand;

use super::{
    certifiers::{Batch, ReadMostly, Sibench, Stock, WriteSkew},
    micro::{Churn, CommitLatency, Index, Micro, Recovery},
    tpcc::{CreditCheck, Tpcc},
};

#[derive(Debug, Subcommand)]
pub enum Workload {
    /// The full TPC-C-like mix, verified afterwards
    ///
    /// New-Order 45 %, Payment 43 %, Order-Status, Delivery and Stock-Level 4 % each, without key and think times. One
    /// New-Order in a hundred is rolled back by its user. The consistency conditions are checked after the load and, in
    /// one snapshot, after the run; exit code 1 when one fails (but not after a run under rc, which permits the lost
    /// updates behind it). Results are TPC-C-like and not comparable with published TPC-C results.
    Tpcc(Tpcc),
    /// The TPC-C-like mix with credit checks (TPC-C++), which is not serializable under snapshot isolation
    ///
    /// New-Order 41 %, Payment 43 %, Order-Status, Delivery, Stock-Level and Credit-Check 4 % each. A credit check
    /// reads a customer's balance and sums up the orders that are not delivered; New-Order and Payment read the status
    /// that it writes. In addition to the conditions of tpcc: every order was accepted under the last credit check that
    /// had not seen it; exit code 1 when one was not, but not under rc and si, which permit it.
    CreditCheck(CreditCheck),
    /// Random reads, then writes, of one table, by groups of clients (SIBENCH as in the SSN paper, section 7.2)
    ///
    /// Exit code 1 when a record holds a value of an attempt that did not commit.
    Sibench(Sibench),
    /// Pairs of accounts that may not be overdrawn together
    ///
    /// Prints how often a pair was overdrawn; exit code 1 when one was under a serializable scheme. Under rc and si it
    /// is expected.
    WriteSkew(WriteSkew),
    /// Receipts, a batch that is closed, and a report that must not change any more (the read-only anomaly)
    ///
    /// Prints how many reports of closed batches turned out wrong; exit code 1 when one did under a serializable
    /// scheme. Under rc and si it is expected.
    Batch(Batch),
    /// Many reads and few writes under several schemes (ERMIA, figure 1)
    ///
    /// Each scheme has a database of its own in the same process; they run in turn, in rounds. Prints commits per
    /// second, their ratio to si in the same round, and commits per attempt. Exit code 1 when a write got lost, but not
    /// under rc.
    Stock(Stock),
    /// Long scans with one write beside short writers, under several schemes
    ///
    /// As stock: in turn, in rounds, compared with si.
    ReadMostly(ReadMostly),
    /// Single operations over one table, to compare with other engines
    Micro(Micro),
    /// Lookups in each kind of index alone, of sparse keys of four bytes (HTM paper, figure 11)
    ///
    /// The radix tree with each way to keep readers and writers apart, the B+-tree and the hash index; all are built
    /// first (16 million keys take about 7 GiB), and take turns in rounds.
    Index(Index),
    /// How long a durable commit of one small row takes, beside a plain write and sync
    ///
    /// By 1, 2, 4 .. clients that wait for each commit, at full load and at half of it.
    CommitLatency(CommitLatency),
    /// How fast a database is available again after a kill and after a stop, beside plain reads of the same files
    ///
    /// A process of its own builds the database and dies. Exit code 1 when a row or an update is missing afterwards.
    Recovery(Recovery),
    /// Updates on a fixed number of rows for a long time: is memory flat?
    ///
    /// Prints memory a hundred times (at most once per second); exit code 1 when resident memory grows by more than 2.5
    /// % (and more than 4 MiB) both from the second quarter of the run to the third and from there to the last.
    Churn(Churn),
}

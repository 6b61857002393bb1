//! The workloads of `ermine bench`.

use clap::Subcommand;

use super::{
    brokerage::Brokerage,
    certifiers::{Batch, ReadMostly, Sibench, Stock, WriteSkew},
    compared::{SmallBank, Tatp, Ycsb},
    micro::{Changes, Churn, CommitLatency, Index, Micro, Recovery, Standby},
    papers::Papers,
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
    /// A brokerage like TPC-E, with a market in the process, verified afterwards
    ///
    /// Customers order trades, a market executes them, and its ticker triggers limit orders; most transactions only
    /// read. Trade-Status 19 %, Market-Watch 18, Security-Detail 14, Customer-Position 13, Trade-Order 10.1,
    /// Trade-Result 10, Trade-Lookup 8, Broker-Volume 4.9, Trade-Update 2, Market-Feed 1; a Data-Maintenance now and
    /// then, and a Trade-Cleanup before each round. With --mix hybrid, 20 % are asset evaluations, which read a share of
    /// all accounts (--group) and write one row. Several schemes run in turn, in rounds, compared with si. Holdings,
    /// balances, brokers, requests, the ticker and more are checked after the load and, in one snapshot, after the run;
    /// exit code 1 when a condition fails that the scheme promises. Results are TPC-E-like and not comparable with
    /// published TPC-E results.
    Brokerage(Brokerage),
    /// SmallBank: customers with a savings and a checking account each
    ///
    /// SendPayment 25 %; Balance, DepositChecking, TransactSavings, Amalgamate and WriteCheck 15 % each, most of them for
    /// a few hot customers. It is not serializable under snapshot isolation: with --pause yield and few hot customers,
    /// --check finds Balance, WriteCheck and TransactSavings in cycles under si. Several schemes run in turn, in rounds,
    /// compared with si. Afterwards every customer must have the opening balance and what committed transactions added;
    /// exit code 1 when one has not, but not under rc.
    #[command(name = "smallbank")]
    SmallBank(SmallBank),
    /// TATP: short transactions on the subscribers of a mobile network
    ///
    /// GET_SUBSCRIBER_DATA and GET_ACCESS_DATA 35 % each, UPDATE_LOCATION 14 %, GET_NEW_DESTINATION 10 %,
    /// UPDATE_SUBSCRIBER_DATA, INSERT_CALL_FORWARDING and DELETE_CALL_FORWARDING 2 % each. What fails by the rules, as
    /// the data is not there or is there already, counts as rolled back. Several schemes run in turn, in rounds,
    /// compared with si. Afterwards rows, index and call forwardings are checked; exit code 1 when something is wrong.
    Tatp(Tatp),
    /// YCSB's workloads A to F: reads, updates, scans, inserts and read-modify-writes of records of ten fields
    ///
    /// A: 50 % read, 50 % update. B: 95 % read, 5 % update. C: read. D: 95 % read of the latest records, 5 % insert. E:
    /// 95 % scan, 5 % insert. F: 50 % read, 50 % read-modify-write. Several schemes run in turn, in rounds, compared
    /// with si. Afterwards every record and every field must be whole; exit code 1 when one is not, or when an update
    /// got lost, but not under rc.
    Ycsb(Ycsb),
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
    /// How fast the changes of committed transactions are read from the log, and replayed by a standby, and what their
    /// keys cost the writer
    ///
    /// Exit code 1 when a change is missing or not in its place.
    Changes(Changes),
    /// How fast a standby replays TPC-C-like transactions, and is read, beside its primary
    ///
    /// One thread each. Exit code 1 when a condition of the data does not hold on the primary or on the standby.
    Standby(Standby),
    /// How fast a database is available again after a kill and after a stop, beside plain reads of the same files
    ///
    /// A process of its own builds the database and dies. Exit code 1 when a row or an update is missing afterwards.
    Recovery(Recovery),
    /// Updates on a fixed number of rows for a long time: is memory flat?
    ///
    /// Prints memory a hundred times (at most once per second); exit code 1 when resident memory grows by more than 2.5
    /// % (and more than 4 MiB) both from the second quarter of the run to the third and from there to the last.
    Churn(Churn),
    /// The figures of the five papers in small: what each shows, and whether that is found here
    ///
    /// Prints a line for each statement that was looked for; with --out, writes a document with charts, numbers and
    /// reasons (docs/reproduction.md). Takes some ten minutes and 4 GB of memory. Exit code 1 when a workload's
    /// conditions or a serializable scheme's history fail, not when a figure differs from the paper's.
    Papers(Papers),
}

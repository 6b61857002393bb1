//! A brokerage workload like TPC-E: customers trade securities through brokers, on a market inside the process.
//!
//! Results are TPC-E-like and not comparable with published TPC-E results. Nothing of TPC's programs or data is in
//! here: tables, transactions and shares follow the public description; names, symbols, rates and the market are our
//! own.
//!
//! | file | responsibility |
//! |---|---|
//! | `options` | the options of a run |
//! | `population` | the numbers of rows; what follows from the number of a row; times |
//! | `rows`, `tables` | rows as fixed structs; the 33 tables and their indexes |
//! | `constants`, `names`, `generate` | tables of fixed content; names and texts; generated rows |
//! | `initial_trades`, `load` | the trades before a run; the initial data, in parallel |
//! | `lots`, `settlement` | the arithmetic of trades |
//! | `draw`, `mix` | skewed draws; choice of the next transaction |
//! | `broker_volume`, `customer_position`, `market_watch`, `security_detail` | transactions that read |
//! | `trade_lookup`, `trade_status` | the same, about trades |
//! | `market_feed`, `trade_order`, `trade_result`, `trade_update` | transactions that write |
//! | `data_maintenance`, `trade_cleanup` | the transactions outside of the mix |
//! | `asset_eval` | the long transaction of the hybrid mix |
//! | `assets`, `terms`, `trade_detail` | reads that several transactions share |
//! | `emulator` | the market that executes orders and prints the ticker |
//! | `driver` | the run and its clients |
//! | `check` | the conditions over the whole database |
//!
//! Invariants:
//! 1. A transaction's inputs are drawn before its first attempt, so that a retry repeats the same transaction.
//! 2. A body keeps nothing of a failed attempt.
//! 3. Every transaction is written once, as an [`ermine::Job`], and runs under every scheme. None is compiled for a
//!    scheme of its own: an operation then costs the same dispatch under all of them.

mod asset_eval;
mod assets;
mod broker_volume;
mod check;
mod constants;
mod customer_position;
mod data_maintenance;
mod draw;
mod driver;
mod emulator;
mod generate;
mod initial_trades;
mod load;
mod lots;
mod market_feed;
mod market_watch;
mod mix;
mod names;
mod options;
mod population;
mod rows;
mod security_detail;
mod settlement;
mod tables;
mod terms;
#[cfg(test)]
mod tests;
mod trade_cleanup;
mod trade_detail;
mod trade_lookup;
mod trade_order;
mod trade_result;
mod trade_status;
mod trade_update;

pub use self::{
    driver::{Event, drive},
    mix::Mix,
    options::Options,
    population::Scale,
};

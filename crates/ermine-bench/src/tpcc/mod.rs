//! A TPC-C-like workload: an order-entry business of W warehouses, after the rules of TPC-C revision 5.11.
//!
//! Results are TPC-C-like and not comparable with published TPC-C results: nothing is audited, and as in research there
//! are no terminals with key and think times. The rules for data, transactions and mix are kept: inputs are drawn
//! non-uniformly, remote lines are drawn line by line, one New-Order in a hundred is rolled back by its user after its
//! work was done, and the data is verified afterwards.
//!
//! | file | responsibility |
//! |---|---|
//! | `options`, `business` | the options of a run; its size, and the draws that depend on it |
//! | `schema`, `tables` | rows as fixed structs; the nine tables and their indexes |
//! | `rows` | the rows and rules that Silo's benchmark has instead |
//! | `random` | non-uniform numbers, names and strings |
//! | `load` | the initial data, in parallel, the same for the same seed |
//! | `new_order` `payment` `order_status` `delivery` `stock_level` | one transaction each: its inputs and its body |
//! | `credit_check` | a sixth transaction: its mix is not serializable under snapshot isolation |
//! | `mix` | choice of the next transaction |
//! | `driver` | the run and its clients |
//! | `check`, `ledger` | the consistency conditions: reading the data, judging it |
//! | `acknowledged` | orders that must exist when the database is opened again |
//! | `summary` | the result as text and JSON |
//!
//! Money is integer cents, rates are hundredths of a percent, times are microseconds since 1970 with zero for NULL.
//! Numbers of warehouses, districts, customers, items and orders begin at one.
//!
//! Invariants:
//! 1. A transaction's inputs are drawn before its first attempt, so that a retry repeats the same transaction.
//! 2. A body keeps nothing of a failed attempt.
//! 3. Every transaction is written once, as an [`ermine::Job`], and runs under every scheme.

mod acknowledged;
mod business;
mod check;
mod credit_check;
mod customer;
mod delivery;
mod driver;
mod ledger;
mod load;
mod mix;
mod new_order;
mod options;
mod order_status;
mod payment;
mod random;
mod rows;
mod schema;
mod standby;
mod stock_level;
mod summary;
mod tables;

pub use self::{
    acknowledged::{AcknowledgedOrder, OrderSink, check_acknowledged, read_acknowledged},
    business::{Business, DISTRICTS, Failure, Scale},
    check::check,
    credit_check::{CreditCheck, CreditCheckInput},
    customer::Pick,
    delivery::{Delivery, DeliveryInput},
    driver::{Event, drive, run},
    ledger::Moment,
    load::load,
    mix::{Deck, Kind, Mix},
    new_order::{LineInput, NewOrder, NewOrderInput, Sale},
    options::{Home, Options},
    order_status::{OrderStatus, OrderStatusInput},
    payment::{Payment, PaymentInput},
    random::{C_CUSTOMER, C_ITEM, C_LAST_LOAD, C_LAST_RUN, last_name, non_uniform},
    rows::{LineRow, RowChoice, Rows, SiloRows, StandardRows, StockRow},
    schema::{
        Credit, CreditCheckRow, Customer, District, History, Item, Order, OrderLine, ShortLine, Stock, StockCounts,
        StockNotes, Text, Warehouse,
    },
    standby::{StandbyOptions, StandbySummary, drive_standby},
    stock_level::{StockLevel, StockLevelInput},
    summary::{KindSummary, Outcome, Summary},
    tables::{CreditTables, Tables},
};
pub use crate::verdict::{Verdict, all_hold};

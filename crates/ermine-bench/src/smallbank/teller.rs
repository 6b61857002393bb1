//! A client: draws the transactions of customers and runs them.

use std::collections::HashMap;

use ermine::Scheme;

use super::{
    options::SmallBank,
    tables::{Name, Tables, name},
    transactions::{Order, Request},
};
use crate::{
    Result, failure,
    random::Random,
    trial::{Client, ClientContext},
};

/// The names of the kinds of transactions.
pub const NAMES: [&str; 6] =
    ["balance", "deposit-checking", "transact-savings", "amalgamate", "write-check", "send-payment"];

/// Their shares in percent, those of H-Store.
pub const SHARES: [u32; 6] = [15, 15, 15, 15, 15, 25];

/// Maximum amount of a transaction, in cents.
const AMOUNT_MAX: u64 = 10_000;

/// A client thread.
pub struct Teller<'a> {
    options: &'a SmallBank,
    tables: &'a Tables,
    scheme: Scheme,
    random: Random,
    /// Cents that its transactions have added to the accounts of customers.
    pub added: HashMap<u32, i64>,
}

impl<'a> Teller<'a> {
    pub fn new(options: &'a SmallBank, tables: &'a Tables, scheme: Scheme, random: Random) -> Self {
        Self { options, tables, scheme, random, added: HashMap::new() }
    }

    /// Draws the kind of a transaction, and its inputs.
    pub fn draw(&mut self) -> (usize, Request) {
        let kind = self.random.weighted(&SHARES);
        let amount = self.random.uniform(1..=AMOUNT_MAX) as i64;
        let (first, second) = self.customers();
        let request = match NAMES[kind] {
            "balance" => Request::Balance(first),
            "deposit-checking" => Request::DepositChecking(first, amount),
            "transact-savings" if self.random.percent(50) => Request::TransactSavings(first, -amount),
            "transact-savings" => Request::TransactSavings(first, amount),
            "amalgamate" => Request::Amalgamate(first, second),
            "write-check" => Request::WriteCheck(first, amount),
            _ => Request::SendPayment(first, second, amount),
        };
        (kind, request)
    }

    /// Draws two different customers, both hot or both any.
    fn customers(&mut self) -> (Name, Name) {
        let SmallBank { customers, hot_customers, hot_percent, .. } = self.options;
        let hot = self.random.percent(u64::from(*hot_percent));
        let among = u64::from(if hot { *hot_customers } else { *customers });
        let first = self.random.below(among);
        // The second is one of the others.
        let second = (first + 1 + self.random.below(among - 1)) % among;
        (name(first as u32), name(second as u32))
    }
}

impl Client for Teller<'_> {
    fn step(&mut self, context: &mut ClientContext<'_>) -> Result<()> {
        let begin = context.last_reading();
        let (kind, request) = self.draw();
        let order = Order { tables: self.tables, request, pause: self.options.pause };
        if let Some(added) = failure::run(context, self.scheme, kind, begin, order)? {
            for (customer, cents) in added.into_iter().filter(|&(_, cents)| cents != 0) {
                *self.added.entry(customer).or_default() += cents;
            }
        }
        Ok(())
    }
}

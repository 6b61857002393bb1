//! The market: executes the orders of one client, and prints their prices on the ticker.
//!
//! Each client has a market of its own. Its time is the number of orders submitted, so that a run depends on its seed,
//! not on the speed of the machine: the price of a security goes from 20 to 30 and back, in a triangular wave of
//! [`WAVE`] orders. A market order is executed at once. A limit order waits until the price meets it; then an entry of
//! its symbol goes to the ticker, and the Market-Feed that has this entry submits the order, together with all others
//! that the price has met.
//!
//! Each execution prints itself on the ticker, and so does a limit order that has been met, or else a trade that took
//! place elsewhere: two entries for each Trade-Result, so that ten of them lead to one Market-Feed of twenty.

use std::collections::VecDeque;

use super::{constants::kind, generate::PRICES, population::Population, rows::TradeTypeId};
use crate::random::Random;

/// Entries of a Market-Feed.
pub const FEED: usize = 20;
/// Orders in which a price goes up and down once.
const WAVE: u64 = 1_000;
/// Waiting orders that are compared with their price after an execution.
const COMPARED: usize = 8;

/// An order at the market.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    pub trade: u64,
    pub security: u64,
    pub kind: TradeTypeId,
    pub bid_price: i64,
    pub quantity: i32,
}

impl Order {
    /// Whether a limit order trades at a price.
    fn is_met_by(&self, price: i64) -> bool {
        is_met(self.kind, self.bid_price, price)
    }
}

/// Whether a limit order of a kind trades at a price: a sale at its limit or above, the others at theirs or below.
pub fn is_met(kind: TradeTypeId, limit: i64, price: i64) -> bool {
    if kind == kind::LIMIT_SELL { price >= limit } else { price <= limit }
}

/// A trade on the ticker.
#[derive(Clone, Copy, Debug)]
pub struct TickerEntry {
    pub security: u64,
    pub price: i64,
    pub quantity: i32,
}

/// The market of a client.
pub struct Emulator {
    securities: u64,
    random: Random,
    submitted: u64,
    waiting: VecDeque<Order>,
    ready: VecDeque<Order>,
    ticker: VecDeque<TickerEntry>,
}

impl Emulator {
    pub fn new(population: &Population, random: Random) -> Self {
        let securities = population.securities();
        Self {
            securities,
            random,
            submitted: 0,
            waiting: VecDeque::new(),
            ready: VecDeque::new(),
            ticker: VecDeque::new(),
        }
    }

    /// Takes an order that has been placed.
    pub fn submit(&mut self, order: Order) {
        self.submitted += 1;
        match order.kind {
            kind::MARKET_BUY | kind::MARKET_SELL => self.ready.push_back(order),
            _ => self.waiting.push_back(order),
        }
    }

    /// Takes a limit order that a Market-Feed has submitted.
    pub fn trigger(&mut self, order: Order) {
        self.ready.push_back(order);
    }

    /// Returns the next order to complete, and its price.
    pub fn execute(&mut self) -> Option<(Order, i64)> {
        let order = self.ready.pop_front()?;
        let board = self.price(order.security);
        let price = match order.kind {
            kind::LIMIT_BUY => board.min(order.bid_price),
            kind::LIMIT_SELL => board.max(order.bid_price),
            _ => board,
        };
        Some((order, price))
    }

    /// Prints an order that has been completed, and another entry.
    pub fn print(&mut self, order: &Order) {
        let TickerEntry { price, .. } = self.entry(order.security, order.quantity);
        self.ticker.push_back(TickerEntry { security: order.security, price, quantity: order.quantity });
        let other = match self.find_met() {
            Some(met) => self.entry(met.security, 375),
            None => {
                let (security, more) = (self.random.below(self.securities), self.random.below(2) as i32);
                self.entry(security, 325 + 100 * more)
            }
        };
        self.ticker.push_back(other);
    }

    /// Returns the entries of a Market-Feed, once there are enough.
    pub fn feed(&mut self) -> Option<Vec<TickerEntry>> {
        (self.ticker.len() >= FEED).then(|| self.ticker.drain(..FEED).collect())
    }

    /// Removes an order whose limit is met from those waiting; a few are compared, in turn.
    fn find_met(&mut self) -> Option<Order> {
        for _ in 0..self.waiting.len().min(COMPARED) {
            let order = self.waiting.pop_front()?;
            if order.is_met_by(self.price(order.security)) {
                return Some(order);
            }
            self.waiting.push_back(order);
        }
        None
    }

    fn entry(&self, security: u64, quantity: i32) -> TickerEntry {
        TickerEntry { security, price: self.price(security), quantity }
    }

    /// The price of a security on the board, in cents.
    fn price(&self, security: u64) -> i64 {
        let phase = security * 617;
        let place = (self.submitted + phase) % WAVE;
        let height = place.min(WAVE - place) * 2;
        (PRICES.start() + (PRICES.end() - PRICES.start()) * height / WAVE) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brokerage::population::Scale;

    fn emulator() -> Emulator {
        let population = Population { customers: 100, trades: 1, scale: Scale::SMALL, seed: 1 };
        Emulator::new(&population, Random::new(1, 0))
    }

    fn order(trade: u64, kind: TradeTypeId, bid_price: i64) -> Order {
        Order { trade, security: trade % 60, kind, bid_price, quantity: 100 }
    }

    #[test]
    fn prices_go_up_and_down_between_their_bounds() {
        let mut market = emulator();
        let mut seen = (i64::MAX, i64::MIN);
        for trade in 0..2_000 {
            market.submit(order(trade, kind::MARKET_BUY, 0));
            let price = market.price(3);
            seen = (seen.0.min(price), seen.1.max(price));
        }
        assert_eq!(seen, (2_000, 3_000));
    }

    #[test]
    fn market_orders_are_executed_at_once_and_fill_a_feed_in_ten() {
        let mut market = emulator();
        for trade in 0..10 {
            assert!(market.feed().is_none());
            market.submit(order(trade, kind::MARKET_SELL, 0));
            let (executed, price) = market.execute().unwrap();
            assert_eq!((executed.trade, price), (trade, market.price(trade)));
            market.print(&executed);
        }
        assert_eq!(market.feed().unwrap().len(), FEED);
        assert!(market.feed().is_none() && market.execute().is_none());
    }

    #[test]
    fn a_limit_order_waits_for_its_price_and_gets_no_worse() {
        let mut market = emulator();
        let limit = market.price(7) - 100;
        market.submit(order(7, kind::LIMIT_BUY, limit));
        let mut prints = 0;
        while !market.ticker.iter().any(|entry| entry.quantity == 375) {
            prints += 1;
            assert!(prints < 2 * WAVE, "the price comes by");
            market.submit(order(8, kind::MARKET_BUY, 0));
            let (executed, _) = market.execute().unwrap();
            market.print(&executed);
        }
        let met = market.ticker.iter().find(|entry| entry.quantity == 375).unwrap();
        assert!(met.security == 7 && met.price <= limit && market.waiting.is_empty());
        market.trigger(order(7, kind::LIMIT_BUY, limit));
        assert!(market.execute().unwrap().1 <= limit);
        assert!(is_met(kind::LIMIT_SELL, 100, 101) && !is_met(kind::LIMIT_SELL, 100, 99));
        assert!(is_met(kind::STOP_LOSS, 100, 99) && !is_met(kind::STOP_LOSS, 100, 101));
    }
}

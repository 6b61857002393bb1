//! Which transaction comes next: cards drawn from a shuffled deck (clause 5.2.4.2), so that every hundred transactions
//! of a thread have exactly the shares of the rules.

use std::fmt;

use serde::Serialize;

use crate::random::Random;

/// The five transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A customer orders.
    NewOrder,
    /// A customer pays.
    Payment,
    /// A customer asks for the latest order.
    OrderStatus,
    /// Each district of a warehouse delivers its oldest order.
    Delivery,
    /// A district counts what runs low.
    StockLevel,
}

impl Kind {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 5] = [Self::NewOrder, Self::Payment, Self::OrderStatus, Self::Delivery, Self::StockLevel];

    /// Cards of a hundred.
    pub const fn share(self) -> usize {
        match self {
            Self::NewOrder => 45,
            Self::Payment => 43,
            Self::OrderStatus | Self::Delivery | Self::StockLevel => 4,
        }
    }

    /// The name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NewOrder => "new-order",
            Self::Payment => "payment",
            Self::OrderStatus => "order-status",
            Self::Delivery => "delivery",
            Self::StockLevel => "stock-level",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A hundred cards, shuffled again whenever all are drawn.
#[derive(Clone, Debug)]
pub struct Deck {
    cards: [Kind; 100],
    drawn: usize,
}

impl Default for Deck {
    fn default() -> Self {
        let mut cards = [Kind::NewOrder; 100];
        let mut place = 0;
        for kind in Kind::ALL {
            cards[place..place + kind.share()].fill(kind);
            place += kind.share();
        }
        Self { cards, drawn: cards.len() }
    }
}

impl Deck {
    /// The next card.
    #[inline]
    pub fn draw(&mut self, random: &mut Random) -> Kind {
        if self.drawn == self.cards.len() {
            random.shuffle(&mut self.cards);
            self.drawn = 0;
        }
        self.drawn += 1;
        self.cards[self.drawn - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hundred_have_the_shares_of_the_rules() {
        assert_eq!(Kind::ALL.iter().map(|kind| kind.share()).sum::<usize>(), 100);
        let mut random = Random::new(1, 0);
        let mut deck = Deck::default();
        let mut orders = Vec::new();
        for _ in 0..3 {
            let drawn: Vec<_> = (0..100).map(|_| deck.draw(&mut random)).collect();
            for kind in Kind::ALL {
                assert_eq!(drawn.iter().filter(|&&card| card == kind).count(), kind.share());
            }
            orders.push(drawn);
        }
        assert!(orders[0] != orders[1] && orders[1] != orders[2]);
    }
}

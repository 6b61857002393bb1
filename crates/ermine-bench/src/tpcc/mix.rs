//! Chooses the next transaction: cards drawn from a shuffled deck (clause 5.2.4.2), so that every hundred transactions
//! of a thread have exactly the shares of the rules.

use std::fmt;

use serde::Serialize;

use crate::random::Random;

/// The shares of the transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mix {
    /// The shares of the rules.
    #[default]
    Standard,
    /// TPC-C++: with credit checks, with which the mix is not serializable under snapshot isolation.
    CreditCheck,
}

impl Mix {
    /// Number of cards in a hundred.
    pub const fn share(self, kind: Kind) -> usize {
        match (self, kind) {
            (Self::Standard, Kind::NewOrder) => 45,
            (Self::CreditCheck, Kind::NewOrder) => 41,
            (_, Kind::Payment) => 43,
            (_, Kind::OrderStatus | Kind::Delivery | Kind::StockLevel) | (Self::CreditCheck, Kind::CreditCheck) => 4,
            (Self::Standard, Kind::CreditCheck) => 0,
        }
    }

    /// The transactions of this mix, in the order of reports.
    pub fn kinds(self) -> impl Iterator<Item = Kind> {
        Kind::ALL.into_iter().filter(move |&kind| self.share(kind) > 0)
    }
}

/// The five transactions of the rules, and one that only [`Mix::CreditCheck`] has.
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
    /// A district counts the items that run low.
    StockLevel,
    /// A customer's credit is checked.
    CreditCheck,
}

impl Kind {
    /// All kinds, in the order of reports.
    pub const ALL: [Self; 6] =
        [Self::NewOrder, Self::Payment, Self::OrderStatus, Self::Delivery, Self::StockLevel, Self::CreditCheck];

    /// The name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NewOrder => "new-order",
            Self::Payment => "payment",
            Self::OrderStatus => "order-status",
            Self::Delivery => "delivery",
            Self::StockLevel => "stock-level",
            Self::CreditCheck => "credit-check",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A hundred cards, reshuffled whenever all are drawn.
#[derive(Clone, Debug)]
pub struct Deck {
    cards: [Kind; 100],
    drawn: usize,
}

impl Deck {
    /// Creates the deck of a mix.
    pub fn new(mix: Mix) -> Self {
        let mut cards = [Kind::NewOrder; 100];
        let mut place = 0;
        for kind in mix.kinds() {
            cards[place..place + mix.share(kind)].fill(kind);
            place += mix.share(kind);
        }
        Self { cards, drawn: cards.len() }
    }

    /// Draws the next card.
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
        let mut random = Random::new(1, 0);
        for mix in [Mix::Standard, Mix::CreditCheck] {
            assert_eq!(mix.kinds().map(|kind| mix.share(kind)).sum::<usize>(), 100);
            let mut deck = Deck::new(mix);
            let mut orders = Vec::new();
            for _ in 0..3 {
                let drawn: Vec<_> = (0..100).map(|_| deck.draw(&mut random)).collect();
                for kind in Kind::ALL {
                    assert_eq!(drawn.iter().filter(|&&card| card == kind).count(), mix.share(kind));
                }
                orders.push(drawn);
            }
            assert!(orders[0] != orders[1] && orders[1] != orders[2]);
        }
    }
}

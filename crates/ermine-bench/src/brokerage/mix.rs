//! Chooses the next transaction of a customer: cards drawn from a shuffled deck.
//!
//! The deck has the transactions that customers begin. Trade-Results and Market-Feeds follow from them, through the
//! market; with these, a thousand transactions have the shares of the rules.

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
    /// With asset evaluations in place of some of the reads (TPC-EH: ERMIA 4.1, SSN 8.1).
    Hybrid,
}

impl Mix {
    /// Number of cards, of a thousand transactions.
    pub const fn share(self, kind: Kind) -> usize {
        match (self, kind) {
            (Self::Standard, Kind::TradeStatus) => 190,
            (Self::Standard, Kind::MarketWatch) => 180,
            (Self::Standard, Kind::CustomerPosition) => 130,
            (Self::Standard, Kind::AssetEval) => 0,
            (Self::Hybrid, Kind::TradeStatus) => 90,
            (Self::Hybrid, Kind::MarketWatch) => 130,
            (Self::Hybrid, Kind::CustomerPosition) => 80,
            (Self::Hybrid, Kind::AssetEval) => 200,
            (_, Kind::SecurityDetail) => 140,
            (_, Kind::TradeOrder) => 101,
            (_, Kind::TradeLookup) => 80,
            (_, Kind::BrokerVolume) => 49,
            (_, Kind::TradeUpdate) => 20,
            (_, Kind::TradeResult | Kind::MarketFeed | Kind::DataMaintenance) => 0,
        }
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Standard => "standard",
            Self::Hybrid => "hybrid",
        })
    }
}

/// The transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    AssetEval,
    BrokerVolume,
    CustomerPosition,
    MarketFeed,
    MarketWatch,
    SecurityDetail,
    TradeLookup,
    TradeOrder,
    TradeResult,
    TradeStatus,
    TradeUpdate,
    DataMaintenance,
}

impl Kind {
    /// All kinds, in the order of reports.
    pub const ALL: [Self; 12] = [
        Self::AssetEval,
        Self::BrokerVolume,
        Self::CustomerPosition,
        Self::MarketFeed,
        Self::MarketWatch,
        Self::SecurityDetail,
        Self::TradeLookup,
        Self::TradeOrder,
        Self::TradeResult,
        Self::TradeStatus,
        Self::TradeUpdate,
        Self::DataMaintenance,
    ];

    /// The name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AssetEval => "asset-eval",
            Self::BrokerVolume => "broker-volume",
            Self::CustomerPosition => "customer-position",
            Self::MarketFeed => "market-feed",
            Self::MarketWatch => "market-watch",
            Self::SecurityDetail => "security-detail",
            Self::TradeLookup => "trade-lookup",
            Self::TradeOrder => "trade-order",
            Self::TradeResult => "trade-result",
            Self::TradeStatus => "trade-status",
            Self::TradeUpdate => "trade-update",
            Self::DataMaintenance => "data-maintenance",
        }
    }
}

/// The cards of a thousand transactions, reshuffled whenever all are drawn.
#[derive(Clone, Debug)]
pub struct Deck {
    cards: Vec<Kind>,
    drawn: usize,
}

impl Deck {
    /// Creates the deck of a mix.
    pub fn new(mix: Mix) -> Self {
        let cards: Vec<_> = Kind::ALL.iter().flat_map(|&kind| std::iter::repeat_n(kind, mix.share(kind))).collect();
        Self { drawn: cards.len(), cards }
    }

    /// Draws the next card.
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
    fn every_deck_has_the_shares_of_the_rules() {
        let mut random = Random::new(1, 0);
        for mix in [Mix::Standard, Mix::Hybrid] {
            let mut deck = Deck::new(mix);
            // With the 100 Trade-Results and 10 Market-Feeds that follow from 101 orders, a thousand.
            assert_eq!(deck.cards.len(), 890);
            for _ in 0..2 {
                let drawn: Vec<_> = (0..890).map(|_| deck.draw(&mut random)).collect();
                for kind in Kind::ALL {
                    assert_eq!(drawn.iter().filter(|&&card| card == kind).count(), mix.share(kind));
                }
            }
        }
    }
}

//! Trade-Update: corrects a note on each of some trades of the past, and reads them like a Trade-Lookup.

use ermine::{Access, Job, Scheme, Transaction};

use super::{
    population::Population,
    rows::{CashTransaction, Settlement, Trade},
    settlement::{CASH, CASH_ACCOUNT, MARGIN, MARGIN_ACCOUNT, SHARES_OF},
    tables::Tables,
    trade_detail::{Detail, Selection, detail},
};
use crate::{
    failure::{Failure, found},
    fixed::Text,
    random::Random,
};

/// Input of a Trade-Update.
#[derive(Clone, Debug)]
pub struct TradeUpdateInput {
    selection: Selection,
}

impl TradeUpdateInput {
    /// Draws a third each of trades by number, by account and by security.
    pub fn draw(population: &Population, random: &mut Random) -> Self {
        let selection = match random.below(100) {
            0..33 => Selection::numbers(population, random),
            33..66 => Selection::account(population, random),
            _ => Selection::symbol(population, random),
        };
        Self { selection }
    }

    #[cfg(test)]
    pub fn selection(&self) -> &Selection {
        &self.selection
    }
}

/// The transaction.
pub struct TradeUpdate<'a> {
    pub tables: &'a Tables,
    pub input: &'a TradeUpdateInput,
}

impl Job for TradeUpdate<'_> {
    type Output = Vec<Detail>;
    type Error = Failure;

    const SCHEMES: &'static [Scheme] = &[];

    fn run<A: Access>(&mut self, txn: &Transaction<'_, A>) -> Result<Vec<Detail>, Failure> {
        let tables = self.tables;
        let trades = self.input.selection.find(txn, tables)?;
        let mut details = Vec::with_capacity(trades.len());
        for (number, trade) in &trades {
            match self.input.selection {
                Selection::Numbers(_) => {
                    let executor = toggle(&trade.executor, " ", " X ");
                    txn.update(&tables.trade, number, &Trade { executor, ..*trade })?;
                }
                Selection::Account(..) => {
                    let row = *found(txn.view(&tables.settlement, number)?, "SETTLEMENT")?;
                    let cash_type = other_cash_type(&row.cash_type, trade.is_cash == 1);
                    txn.update(&tables.settlement, number, &Settlement { cash_type, ..row })?;
                }
                Selection::Symbol(..) => {
                    std::hint::black_box(found(txn.view(&tables.trade_type, &trade.kind.0)?, "TRADE_TYPE")?);
                    std::hint::black_box(found(txn.view(&tables.security, &trade.symbol.0)?, "SECURITY")?);
                    // Trades on margin have no payment.
                    if let Some(&row) = txn.view(&tables.cash_transaction, number)? {
                        let name = toggle(&row.name, SHARES_OF, " Shares of ");
                        txn.update(&tables.cash_transaction, number, &CashTransaction { name, ..row })?;
                    }
                }
            }
            details.push(detail(txn, tables, &(*number, *trade))?);
        }
        Ok(details)
    }
}

/// Replaces the second of two forms by the first, or else the first occurrence of the first form by the second.
fn toggle<const N: usize>(text: &Text<N>, first: &str, second: &str) -> Text<N> {
    let words = String::from_utf8_lossy(text.as_bytes());
    let other = match words.contains(second) {
        true => words.replacen(second, first, 1),
        false => words.replacen(first, second, 1),
    };
    Text::new(&other.as_bytes()[..other.len().min(N)])
}

fn other_cash_type(cash_type: &Text<40>, is_cash: bool) -> Text<40> {
    let (first, second) = if is_cash { (CASH_ACCOUNT, CASH) } else { (MARGIN, MARGIN_ACCOUNT) };
    Text::new(if cash_type.as_bytes() == first { second } else { first })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_goes_there_and_back() {
        let name = Text::<49>::new(b"Ada Berg");
        let noted = toggle(&name, " ", " X ");
        assert_eq!(noted.as_bytes(), b"Ada X Berg");
        assert_eq!(toggle(&noted, " ", " X "), name);
        for (is_cash, own) in [(true, CASH_ACCOUNT), (false, MARGIN)] {
            let own = Text::new(own);
            let other = other_cash_type(&own, is_cash);
            assert!(other != own && other_cash_type(&other, is_cash) == own);
        }
    }
}

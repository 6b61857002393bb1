//! The rows that pay for a completed trade.

use super::{
    population::day_of,
    rows::{CashTransaction, Settlement, TradeType},
};
use crate::fixed::Text;

/// What a completed trade costs or brings.
#[derive(Clone, Copy)]
pub struct Payment<'a> {
    pub kind: &'a TradeType,
    pub security_name: Text<70>,
    pub quantity: i32,
    /// In cents; negative if the account pays.
    pub amount: i64,
    pub is_cash: bool,
    /// When the trade was completed.
    pub time: u64,
}

impl Payment<'_> {
    /// The settlement, due after two days.
    pub fn settlement(&self) -> Settlement {
        let cash_type = Text::new(if self.is_cash { CASH_ACCOUNT } else { MARGIN });
        Settlement { amount: self.amount, due: day_of(self.time) + 2, cash_type, padding: [0; 4] }
    }

    /// The payment, if the trade is not on margin.
    pub fn cash(&self) -> Option<CashTransaction> {
        let Self { kind, security_name, quantity, amount, is_cash, time } = self;
        let text = |bytes| String::from_utf8_lossy(bytes);
        let name = format!("{} {quantity}{SHARES_OF}{}", text(kind.name.as_bytes()), text(security_name.as_bytes()));
        is_cash.then(|| CashTransaction {
            dts: *time,
            amount: *amount,
            name: Text::new(name.as_bytes()),
            padding: [0; 4],
        })
    }
}

/// The forms of a settlement; a Trade-Update changes one into the other.
pub const CASH_ACCOUNT: &[u8] = b"Cash Account";
pub const CASH: &[u8] = b"Cash";
pub const MARGIN: &[u8] = b"Margin";
pub const MARGIN_ACCOUNT: &[u8] = b"Margin Account";
/// The part of a payment's name that a Trade-Update changes.
pub const SHARES_OF: &str = " shares of ";

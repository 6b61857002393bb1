//! The arithmetic of trades: which holdings a trade closes, its commission, its tax, and what the account receives.
//!
//! The loader, the estimate of a Trade-Order and the settlement of a Trade-Result share it.

use smallvec::SmallVec;

/// A holding as a trade sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lot {
    /// The trade that opened it.
    pub trade: u64,
    /// Its price, in cents.
    pub price: i64,
    /// Shares; negative if they were sold without having them.
    pub quantity: i32,
}

/// The part of the holdings that a trade closes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Closing {
    /// The lots that it changes, with the quantities that remain.
    pub changed: SmallVec<[(Lot, i32); 4]>,
    /// Shares that close nothing: they open a lot.
    pub left: i32,
    /// What the closed shares were bought for.
    pub buy_value: i64,
    /// What the closed shares were sold for.
    pub sell_value: i64,
}

/// Closes lots, in the order given, with a trade of `quantity` shares at a price. A sale closes lots that were bought,
/// a purchase those that were sold without having them.
pub fn close(lots: impl IntoIterator<Item = Lot>, is_sell: bool, quantity: i32, price: i64) -> Closing {
    let mut closing = Closing { left: quantity, ..Closing::default() };
    let sign = if is_sell { 1 } else { -1 };
    for lot in lots {
        if closing.left == 0 {
            break;
        }
        let used = (lot.quantity * sign).min(closing.left);
        if used <= 0 {
            continue;
        }
        closing.left -= used;
        closing.changed.push((lot, lot.quantity - used * sign));
        let (opened, closed) = (i64::from(used) * lot.price, i64::from(used) * price);
        let (bought, sold) = if is_sell { (opened, closed) } else { (closed, opened) };
        closing.buy_value += bought;
        closing.sell_value += sold;
    }
    closing
}

/// The change of an account's quantity by a trade.
pub fn signed(is_sell: bool, quantity: i32) -> i32 {
    if is_sell { -quantity } else { quantity }
}

/// The commission of a trade at a rate in hundredths of a percent, rounded to the cent.
pub fn commission(rate: u32, quantity: i32, price: i64) -> i64 {
    (i64::from(rate) * i64::from(quantity) * price + 5_000) / 10_000
}

/// The tax on a profit at a rate in hundred-thousandths, rounded to the cent.
pub fn tax(closing: &Closing, rate: u32) -> i64 {
    let profit = closing.sell_value - closing.buy_value;
    if profit > 0 { (profit * i64::from(rate) + 50_000) / 100_000 } else { 0 }
}

/// The costs of a trade, in cents.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    pub charge: i64,
    pub commission: i64,
    /// The tax that is withheld.
    pub withheld: i64,
}

/// The amount that an account receives; negative if it pays.
pub fn amount(is_sell: bool, quantity: i32, price: i64, costs: Costs) -> i64 {
    let value = i64::from(quantity) * price;
    let Costs { charge, commission, withheld } = costs;
    let gross = if is_sell { value - charge - commission } else { -(value + charge + commission) };
    gross - withheld
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lot(trade: u64, price: i64, quantity: i32) -> Lot {
        Lot { trade, price, quantity }
    }

    #[test]
    fn a_sale_closes_lots_in_order_and_the_rest_is_left() {
        let lots = [lot(1, 2_000, 100), lot(2, 2_500, 200)];
        let part = close(lots, true, 150, 3_000);
        assert_eq!(part.changed.as_slice(), [(lots[0], 0), (lots[1], 150)]);
        assert_eq!((part.left, part.buy_value, part.sell_value), (0, 325_000, 450_000));
        let all = close(lots, true, 800, 3_000);
        assert_eq!((all.left, all.changed.len()), (500, 2));
    }

    #[test]
    fn a_purchase_closes_what_was_sold_short() {
        let lots = [lot(1, 3_000, -100), lot(2, 2_500, 200)];
        let cover = close(lots, false, 400, 2_000);
        assert_eq!(cover.changed.as_slice(), [(lots[0], 0)]);
        assert_eq!((cover.left, cover.buy_value, cover.sell_value), (300, 200_000, 300_000));
    }

    #[test]
    fn money_is_rounded_to_the_cent() {
        // 0.45 % of 100 x 25.01
        assert_eq!(commission(45, 100, 2_501), 1_125);
        let gain = Closing { sell_value: 1_001, buy_value: 1, ..Closing::default() };
        assert_eq!(tax(&gain, 12_345), 123);
        assert_eq!(tax(&Closing { sell_value: 1, buy_value: 2, ..Closing::default() }, 12_345), 0);
        let costs = Costs { charge: 10, commission: 20, withheld: 5 };
        assert_eq!(amount(true, 2, 100, costs), 165);
        assert_eq!(amount(false, 2, 100, Costs { withheld: 0, ..costs }), -230);
    }
}

//! The conditions on holdings, assets and the ticker.

use std::collections::HashMap;

use ermine::Transaction;

use super::{Committed, each};
use crate::{
    brokerage::{population::Population, rows::Symbol, tables::Tables},
    verdict::Verdict,
};

/// A lot: account, symbol, quantity.
type Lots = HashMap<u64, (u64, Symbol, i32)>;

/// Judges the summaries, the changes of lots, the assets, and the ticker.
pub fn judge(
    txn: &Transaction<'_>,
    tables: &Tables,
    population: &Population,
    committed: &Committed,
) -> ermine::Result<Vec<Verdict>> {
    let mut lots = Lots::new();
    each(txn, &tables.holding, |trade, row| {
        lots.insert(trade, (row.account, row.symbol.0, row.quantity));
    })?;
    let mut prices = HashMap::new();
    let mut ticker = Verdict::new("ticker", "lt_vol = sum of the quantities on the ticker");
    let numbers: HashMap<_, _> =
        (0..population.securities()).map(|number| (population.symbol(number), number)).collect();
    each(txn, &tables.last_trade, |symbol, row| {
        prices.insert(symbol, row.price);
        let wanted = numbers.get(&symbol).map(|&number| committed.volumes[number as usize]);
        ticker.compare(wanted == Some(row.volume), || {
            format!("{}: lt_vol {}, on the ticker {wanted:?}", text(symbol), row.volume)
        });
    })?;
    let (summary, assets) = summaries(txn, tables, &lots, &prices)?;
    Ok(vec![summary, chains(txn, tables, &lots)?, assets, ticker])
}

/// Judges the summaries by account and security, and the assets that follow from them.
fn summaries(
    txn: &Transaction<'_>,
    tables: &Tables,
    lots: &Lots,
    prices: &HashMap<Symbol, i64>,
) -> ermine::Result<(Verdict, Verdict)> {
    let mut verdict = Verdict::new("holdings", "hs_qty = sum(h_qty) of the account and symbol, and is not zero");
    let mut sums = HashMap::<_, i32>::new();
    for &(account, symbol, quantity) in lots.values() {
        *sums.entry((account, symbol)).or_default() += quantity;
        verdict.compare(quantity != 0, || format!("account {account} has an empty lot of {}", text(symbol)));
    }
    let price = |symbol: &Symbol| prices.get(symbol).copied().unwrap_or(0);
    let by_lots: i64 = lots.values().map(|(_, symbol, quantity)| i64::from(*quantity) * price(symbol)).sum();
    let mut by_summary = 0;
    each(txn, &tables.holding_summary, |(account, symbol), quantity| {
        by_summary += i64::from(quantity) * price(&symbol);
        let sum = sums.remove(&(account, symbol)).unwrap_or(0);
        verdict.compare(quantity != 0 && quantity == sum, || {
            format!("account {account}, {}: hs_qty {quantity}, sum(h_qty) {sum}", text(symbol))
        });
    })?;
    for ((account, symbol), sum) in sums {
        verdict.compare(sum == 0, || format!("account {account}, {}: no summary of {sum} shares", text(symbol)));
    }
    let mut assets = Verdict::new("assets", "sum(hs_qty x lt_price) = sum(h_qty x lt_price)");
    assets.compare(by_summary == by_lots, || format!("{by_summary} by the summaries, {by_lots} by the lots"));
    Ok((verdict, assets))
}

/// Judges the changes of each lot: the first opens it, and the others bring it closer to zero.
fn chains(txn: &Transaction<'_>, tables: &Tables, lots: &Lots) -> ermine::Result<Verdict> {
    let mut verdict = Verdict::new("chains", "the changes of a lot follow each other, and end with its h_qty or zero");
    let mut changes = HashMap::<u64, Vec<(bool, i32, i32)>>::new();
    each(txn, &tables.holding_history, |(lot, trade), row| {
        changes.entry(lot).or_default().push((lot != trade, row.before, row.after));
    })?;
    for (lot, mut steps) in changes {
        steps.sort_by_key(|&(closes, before, _)| (closes, -before.abs()));
        let opens = steps.first().is_some_and(|&(closes, before, _)| !closes && before == 0);
        let follow = steps.windows(2).all(|pair| pair[0].2 == pair[1].1);
        let last = steps.last().map_or(0, |step| step.2);
        let held = lots.get(&lot).map_or(0, |&(_, _, quantity)| quantity);
        verdict.compare(opens && follow && last == held, || format!("lot {lot}: {steps:?}, h_qty {held}"));
    }
    Ok(verdict)
}

/// Judges the number of evaluations.
pub fn evaluations(txn: &Transaction<'_>, tables: &Tables, committed: &Committed) -> ermine::Result<Verdict> {
    let mut verdict = Verdict::new("evaluations", "every asset evaluation that committed has left a row");
    let found = super::count(txn, &tables.assets_history)?;
    let wanted = committed.evaluations;
    verdict.compare(found == wanted, || format!("{found} rows, {wanted} evaluations have committed"));
    Ok(verdict)
}

fn text(symbol: Symbol) -> String {
    format!("{:?}", crate::fixed::Text(symbol))
}

//! The conditions on trades, brokers and balances.

use std::collections::HashMap;

use ermine::Transaction;

use super::each;
use crate::{
    brokerage::{
        constants::{kind, status},
        population::Population,
        rows::{StatusId, Symbol, Trade},
        tables::Tables,
    },
    verdict::Verdict,
};

/// What the conditions need of a trade.
struct TradeFacts {
    account: u64,
    status: StatusId,
    is_limit: bool,
    is_cash: bool,
    commission: i64,
    order: (Symbol, i32),
    is_settled: bool,
    is_paid: bool,
    is_requested: bool,
    /// Times by status, in the order of a trade's life.
    times: [Option<u64>; 4],
}

/// The statuses in the order of a trade's life.
const LIFE: [StatusId; 4] = [status::PENDING, status::SUBMITTED, status::COMPLETED, status::CANCELED];

impl TradeFacts {
    fn new(row: &Trade) -> Self {
        Self {
            account: row.account,
            status: row.status.0,
            is_limit: ![kind::MARKET_BUY, kind::MARKET_SELL].contains(&row.kind.0),
            is_cash: row.is_cash == 1,
            commission: row.commission,
            order: (row.symbol.0, row.quantity),
            is_settled: false,
            is_paid: false,
            is_requested: false,
            times: [None; 4],
        }
    }

    fn is_completed(&self) -> bool {
        self.status == status::COMPLETED
    }

    /// Whether the trade has gone through the statuses that lead to its own, in order.
    fn history_holds(&self) -> bool {
        let [pending, submitted, completed, canceled] = self.times.map(|time| time.is_some());
        let went = match self.status {
            status::PENDING => !submitted && !completed && !canceled,
            status::SUBMITTED => submitted && !completed && !canceled,
            status::COMPLETED => submitted && completed && !canceled,
            _ => !completed && canceled,
        };
        went && pending == self.is_limit && self.times.iter().flatten().is_sorted()
    }
}

/// Judges trades, requests, brokers and balances.
pub fn judge(txn: &Transaction<'_>, tables: &Tables, population: &Population) -> ermine::Result<Vec<Verdict>> {
    let mut trades = HashMap::new();
    each(txn, &tables.trade, |number, row| {
        trades.insert(number, TradeFacts::new(row));
    })?;
    let mut settled = Verdict::new("settled", "completed trades are settled, those in cash with a payment; no others");
    let mut paid = HashMap::<u64, i64>::new();
    each(txn, &tables.settlement, |number, _| match trades.get_mut(&number) {
        Some(trade) => trade.is_settled = true,
        None => settled.compare(false, || format!("a settlement of {number}, which is no trade")),
    })?;
    each(txn, &tables.cash_transaction, |number, row| match trades.get_mut(&number) {
        Some(trade) => {
            trade.is_paid = true;
            *paid.entry(trade.account).or_default() += row.amount;
        }
        None => settled.compare(false, || format!("a payment of {number}, which is no trade")),
    })?;
    for (number, trade) in &trades {
        let wanted = (trade.is_completed(), trade.is_completed() && trade.is_cash);
        settled.compare((trade.is_settled, trade.is_paid) == wanted, || {
            format!("trade {number}: settled {}, paid {}, wanted {wanted:?}", trade.is_settled, trade.is_paid)
        });
    }
    Ok(vec![
        brokers(txn, tables, &trades)?,
        balances(txn, tables, population, &paid)?,
        settled,
        requests(txn, tables, &mut trades)?,
        history(txn, tables, &mut trades)?,
    ])
}

fn brokers(txn: &Transaction<'_>, tables: &Tables, trades: &HashMap<u64, TradeFacts>) -> ermine::Result<Verdict> {
    let mut verdict = Verdict::new("brokers", "b_num_trades and b_comm_total are those of its completed trades");
    let mut sums = HashMap::<u64, (u32, i64)>::new();
    for trade in trades.values().filter(|trade| trade.is_completed()) {
        let (count, commissions) = sums.entry(Population::broker_of(Population::owner(trade.account))).or_default();
        *count += 1;
        *commissions += trade.commission;
    }
    each(txn, &tables.broker, |number, row| {
        let (found, wanted) = ((row.trades, row.commission_total), sums.get(&number).copied().unwrap_or_default());
        verdict.compare(found == wanted, || format!("broker {number}: {found:?}, its trades have {wanted:?}"));
    })?;
    Ok(verdict)
}

fn balances(
    txn: &Transaction<'_>,
    tables: &Tables,
    population: &Population,
    paid: &HashMap<u64, i64>,
) -> ermine::Result<Verdict> {
    let mut verdict = Verdict::new("balances", "ca_bal = opening balance + sum(ct_amt)");
    each(txn, &tables.customer_account, |number, row| {
        let wanted = population.opening_balance(number) + paid.get(&number).copied().unwrap_or(0);
        verdict.compare(row.balance == wanted, || format!("account {number}: {} instead of {wanted}", row.balance));
    })?;
    Ok(verdict)
}

fn requests(txn: &Transaction<'_>, tables: &Tables, trades: &mut HashMap<u64, TradeFacts>) -> ermine::Result<Verdict> {
    let mut verdict = Verdict::new("requests", "trade_request = trades with status Pending, all of them limit orders");
    each(txn, &tables.trade_request, |number, row| match trades.get_mut(&number) {
        Some(trade) => {
            trade.is_requested = true;
            verdict.compare(trade.order == (row.symbol.0, row.quantity), || format!("request {number} is another"));
        }
        None => verdict.compare(false, || format!("a request of {number}, which is no trade")),
    })?;
    for (number, trade) in trades {
        let is_pending = trade.status == status::PENDING;
        verdict.compare(is_pending == trade.is_requested && (trade.is_limit || !is_pending), || {
            format!("trade {number}: pending {is_pending}, requested {}", trade.is_requested)
        });
    }
    Ok(verdict)
}

fn history(txn: &Transaction<'_>, tables: &Tables, trades: &mut HashMap<u64, TradeFacts>) -> ermine::Result<Verdict> {
    let mut verdict = Verdict::new("history", "a trade went through its statuses, in the order of time");
    each(txn, &tables.trade_history, |(number, status), time| {
        let place = LIFE.iter().position(|&other| other == status);
        match (trades.get_mut(&number), place) {
            (Some(trade), Some(place)) => trade.times[place] = Some(time),
            _ => verdict.compare(false, || format!("history of {number}, which is no trade, or an unknown status")),
        }
    })?;
    for (number, trade) in trades {
        verdict.compare(trade.history_holds(), || format!("trade {number}: {:?}", trade.times));
    }
    Ok(verdict)
}

//! What must hold of the accounts after the run.

use std::{collections::HashMap, ops::ControlFlow};

use ermine::{Database, Table, Transaction, TxnOptions};

use super::tables::{Opening, Tables, name};
use crate::{
    Result,
    verdict::{Promise, Verdict},
};

/// Compares the accounts with the cents that committed transactions have added to those of each customer.
pub fn check(db: &Database, tables: &Tables, added: &[i64], seed: u64) -> Result<Vec<(Verdict, Promise)>> {
    let mut rows = Verdict::new("rows", "every customer has a name and both accounts, and there are no other rows");
    let mut money =
        Verdict::new("money", "every customer has the opening balance and what committed transactions added");
    let mut savings = Verdict::new("savings", "no savings account is overdrawn");
    let txn = db.begin(TxnOptions::read_only())?;
    let saved = balances(&txn, &tables.savings)?;
    let checked = balances(&txn, &tables.checking)?;
    let names = txn.scan(&tables.account, ..).count()?;
    let customers = added.len();
    for (what, found) in [("names", names), ("savings accounts", saved.len()), ("checking accounts", checked.len())] {
        rows.compare(found == customers, || format!("found {found} {what} of {customers}"));
    }
    for (customer, added) in (0..).zip(added) {
        let number = txn.get(&tables.account, &name(customer))?;
        let accounts = saved.get(&customer).zip(checked.get(&customer));
        rows.compare(number == Some(customer) && accounts.is_some(), || {
            format!("customer {customer}: named {number:?}, savings and checking {accounts:?}")
        });
        let Some((in_savings, in_checking)) = accounts else { continue };
        let opening = Opening::of(seed, customer);
        let (now, wanted) = (in_savings + in_checking, opening.savings + opening.checking + added);
        money.compare(now == wanted, || format!("customer {customer}: {now} cents, expected {wanted}"));
        savings.compare(*in_savings >= 0, || format!("customer {customer}: {in_savings} cents"));
    }
    txn.commit()?;
    Ok(vec![(rows, Promise::Always), (money, Promise::NoLostUpdates), (savings, Promise::NoLostUpdates)])
}

fn balances(txn: &Transaction<'_>, accounts: &Table<u32, i64>) -> ermine::Result<HashMap<u32, i64>> {
    let mut balances = HashMap::new();
    txn.scan(accounts, ..).for_each(|customer, cents| {
        balances.insert(customer, cents);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(balances)
}

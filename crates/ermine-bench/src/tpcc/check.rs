//! Reads the database in one snapshot for the consistency conditions.

use std::{collections::HashMap, ops::ControlFlow};

use ermine::{Database, Transaction, TxnOptions, prefix};

use super::{
    business::{DISTRICTS, Scale},
    ledger::{DistrictFacts, Ledger, Moment, Payments, WarehouseSums},
    rows::{LineRow, Rows},
    tables::{CreditTables, Tables},
};
use crate::verdict::Verdict;

/// Reads everything in one read-only transaction and judges the conditions that apply.
pub fn check<R: Rows>(
    db: &Database,
    tables: &Tables<R>,
    warehouses: u32,
    scale: Scale,
    moment: Moment,
) -> ermine::Result<Vec<Verdict>> {
    let txn = db.begin(TxnOptions::read_only())?;
    let mut ledger = Ledger::new(scale, moment);

    let mut payments = Payments::new(warehouses, scale);
    txn.scan(&tables.history, ..).for_each(|key, row| {
        payments.add(key, row);
        Ok(ControlFlow::Continue(()))
    })?;

    ledger.rows("item", count(&txn, &tables.item, ..)?, u64::from(scale.items));
    let mut credit = tables.credit.as_ref().map(|tables| (tables, Verdict::new(CREDIT, CREDIT_STATEMENT)));
    let (mut found_warehouses, mut found_districts) = (0, 0);
    for w in 1..=warehouses {
        ledger.rows("stock", count(&txn, &tables.stock, prefix((w,)))?, u64::from(scale.items));
        if let Some(notes) = &tables.stock_notes {
            ledger.rows("stock_notes", count(&txn, notes, prefix((w,)))?, u64::from(scale.items));
        }
        let mut sums = WarehouseSums::default();
        for d in 1..=DISTRICTS {
            let Some(facts) = read_district(&txn, tables, (w, d))? else { continue };
            found_districts += 1;
            ledger.rows("customer", facts.customer_count(), u64::from(scale.customers));
            check_indexes(&txn, tables, &facts, (w, d), &mut ledger)?;
            ledger.district(&facts, &payments, &mut sums);
            if let Some((tables, verdict)) = &mut credit {
                facts.credit(&read_checks(&txn, tables, (w, d))?, verdict);
            }
        }
        if let Some(row) = txn.view(&tables.warehouse, &w)? {
            found_warehouses += 1;
            ledger.warehouse(w, row.ytd, &sums);
        }
    }
    ledger.rows("warehouse", found_warehouses, u64::from(warehouses));
    ledger.rows("district", found_districts, u64::from(warehouses) * u64::from(DISTRICTS));
    ledger.rows("stray payments", payments.strays, 0);
    txn.commit()?;
    let mut verdicts = ledger.close();
    verdicts.extend(credit.map(|(_, verdict)| verdict));
    Ok(verdicts)
}

/// The name of the condition on credit checks. It needs serializability, all others hold under snapshot isolation.
pub(super) const CREDIT: &str = "credit";
const CREDIT_STATEMENT: &str = "an order was accepted under the last credit check that had not seen it";

/// The credit checks of a district by customer, in order: the newest order that each check saw.
fn read_checks(
    txn: &Transaction<'_>,
    tables: &CreditTables,
    (w, d): (u32, u8),
) -> ermine::Result<HashMap<u32, Vec<u32>>> {
    let mut checks = HashMap::<_, Vec<_>>::new();
    txn.scan(&tables.checks, prefix((w, d))).for_each(|(_, _, c, _), row| {
        checks.entry(c).or_default().push(row.newest_o_id);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(checks)
}

/// Reads the facts about a district that the conditions need.
fn read_district<R: Rows>(
    txn: &Transaction<'_>,
    tables: &Tables<R>,
    (w, d): (u32, u8),
) -> ermine::Result<Option<DistrictFacts>> {
    let Some(row) = txn.view(&tables.district, &(w, d))? else { return Ok(None) };
    let mut facts = DistrictFacts::new((w, d), row);
    txn.scan(&tables.customer, prefix((w, d))).for_each(|(_, _, c), row| {
        facts.customer(c, row);
        Ok(ControlFlow::Continue(()))
    })?;
    txn.scan(&tables.order, prefix((w, d))).for_each(|(_, _, o), row| {
        facts.order(o, row);
        Ok(ControlFlow::Continue(()))
    })?;
    txn.scan(&tables.new_order, prefix((w, d))).for_each(|(_, _, o), ()| {
        facts.new_order(o);
        Ok(ControlFlow::Continue(()))
    })?;
    txn.scan(&tables.order_line, prefix((w, d))).for_each(|(_, _, o, _), row| {
        facts.line(o, row.short());
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(Some(facts))
}

/// Compares a district's secondary indexes with its tables.
fn check_indexes<R: Rows>(
    txn: &Transaction<'_>,
    tables: &Tables<R>,
    facts: &DistrictFacts,
    (w, d): (u32, u8),
    ledger: &mut Ledger,
) -> ermine::Result<()> {
    let (mut customers, mut orders) = (0, 0);
    txn.scan_by(&tables.customer_by_name, prefix((w, d))).for_each(|_, _| {
        customers += 1;
        Ok(ControlFlow::Continue(()))
    })?;
    txn.scan_by(&tables.order_by_customer, prefix((w, d))).for_each(|_, _| {
        orders += 1;
        Ok(ControlFlow::Continue(()))
    })?;
    ledger.index("customer_by_name", (w, d), customers, facts.customer_count());
    ledger.index("order_by_customer", (w, d), orders, facts.order_count());
    Ok(())
}

/// Number of rows in a range.
fn count<K: ermine::Key, V: ermine::Value>(
    txn: &Transaction<'_>,
    table: &ermine::Table<K, V>,
    range: impl ermine::KeyRange<K>,
) -> ermine::Result<u64> {
    let mut rows = 0;
    txn.scan(table, range).for_each(|_, _| {
        rows += 1;
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(rows)
}

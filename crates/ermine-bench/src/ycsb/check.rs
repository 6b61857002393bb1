//! What must hold of the records after the run.

use ermine::{Database, TxnOptions};

use super::record::{Records, Shape, key};
use crate::{
    Result,
    verdict::{Promise, Verdict},
};

/// Checks the records with numbers below `count`; `updates` have committed.
pub fn check(
    db: &Database,
    records: &Records,
    shape: Shape,
    count: u64,
    updates: u64,
) -> Result<Vec<(Verdict, Promise)>> {
    let mut rows = Verdict::new("rows", "every record that was loaded or inserted is there, and no other");
    let mut fields = Verdict::new("fields", "every field is whole, and of its record");
    let mut writes = Verdict::new("writes", "the records count as many writes as have committed");
    let txn = db.begin(TxnOptions::read_only())?;
    let found = txn.scan(records, ..).count()? as u64;
    rows.compare(found == count, || format!("found {found} of {count}"));
    let mut counted = 0;
    for number in 0..count {
        let row = txn.get(records, &key(number))?;
        rows.compare(row.is_some(), || format!("record {number} is missing"));
        let Some(row) = row else { continue };
        let fault = shape.find_fault(number, &row);
        fields.compare(fault.is_none(), || format!("record {number}: field {fault:?} of {} bytes", row.len()));
        if fault.is_none() {
            counted += Shape::writes(&row);
        }
    }
    txn.commit()?;
    writes.compare(counted == updates, || format!("found {counted}, {updates} have committed"));
    Ok(vec![(rows, Promise::Always), (fields, Promise::Always), (writes, Promise::NoLostUpdates)])
}

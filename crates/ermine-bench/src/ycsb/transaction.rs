//! A transaction: the operations of YCSB, one after the other.
//!
//! It is compiled for no scheme by itself: an operation costs the same dispatch under all of them.

use std::{hint::black_box, ops::ControlFlow};

use ermine::{Access, Error, Job, Scheme, Transaction};

use super::record::{Records, Shape, key};

/// An operation, with the number of its record.
#[derive(Clone, Copy, Debug)]
pub enum Operation {
    Read(u64),
    /// Replaces a field by one with another stamp.
    Update {
        number: u64,
        field: usize,
        stamp: u64,
    },
    Insert {
        number: u64,
        stamp: u64,
    },
    /// Reads this many records, from that with the number on.
    Scan {
        number: u64,
        rows: usize,
    },
    /// Replaces a field by one with the next stamp.
    ReadModifyWrite {
        number: u64,
        field: usize,
    },
}

/// A transaction.
pub struct Batch<'a> {
    pub records: &'a Records,
    pub shape: Shape,
    pub operations: &'a [Operation],
    /// Space for a record.
    pub row: &'a mut Vec<u8>,
}

impl Job for Batch<'_> {
    /// Number of updates and read-modify-writes.
    type Output = u64;
    type Error = Error;

    const SCHEMES: &'static [Scheme] = &[];

    fn run<A: Access>(&mut self, txn: &Transaction<'_, A>) -> ermine::Result<u64> {
        let Self { records, shape, operations, row } = self;
        let mut updates = 0;
        for &operation in *operations {
            match operation {
                Operation::Read(number) => {
                    black_box(read(txn, records, number, row)?);
                }
                Operation::Update { number, field, stamp } => {
                    if read(txn, records, number, row)? {
                        shape.write_field(row, number, field, stamp);
                        updates += u64::from(txn.update(records, &key(number), row.as_slice())?);
                    }
                }
                Operation::Insert { number, stamp } => {
                    txn.insert(records, &key(number), &shape.new_record(number, stamp))?;
                }
                Operation::Scan { number, rows } => {
                    let mut sum = 0;
                    txn.scan(records, key(number)..).limit(rows).for_each(|_, found| {
                        row.clear();
                        row.extend_from_slice(found);
                        sum += Shape::writes(row);
                        Ok(ControlFlow::Continue(()))
                    })?;
                    black_box(sum);
                }
                Operation::ReadModifyWrite { number, field } => {
                    if read(txn, records, number, row)? {
                        let stamp = shape.stamp(row, field).wrapping_add(1);
                        shape.write_field(row, number, field, stamp);
                        updates += u64::from(txn.update(records, &key(number), row.as_slice())?);
                    }
                }
            }
        }
        Ok(updates)
    }
}

/// Copies all fields of a record; returns whether there is one. A database whose order is relaxed may not show a record
/// that another client has just inserted.
fn read<A: Access>(
    txn: &Transaction<'_, A>,
    records: &Records,
    number: u64,
    row: &mut Vec<u8>,
) -> ermine::Result<bool> {
    let copy = |found: &[u8]| {
        row.clear();
        row.extend_from_slice(found);
        Ok(())
    };
    Ok(txn.view_with(records, &key(number), copy)?.is_some())
}
